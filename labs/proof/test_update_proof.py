"""The proof of updates must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest

import captures
import update_proof
from test_carriers import carry

NODES = ["S", "D", "v1", "v2", "v3"]
MACS = {node: f"02:00:00:00:00:{index + 1:02x}" for index, node in enumerate(NODES)}
FOREIGN = "02:00:00:00:00:99"
MS = 1_000_000
# v1 until 10 ms; v1 v2 from then on, v1 empty at 14 ms; v2 v1 from 20 ms, the one before empty at 24.
VERSIONS = [{"functions": ["v1"], "kind": "first", "asked": 0, "over": None},
            {"functions": ["v1", "v2"], "kind": "insert", "asked": 10 * MS, "over": 14 * MS},
            {"functions": ["v2", "v1"], "kind": "reorder", "asked": 20 * MS, "over": 24 * MS}]


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def frame(node, is_in, number, hops, ipv6=False, port=5001, run=7, dscp=0):
    own, other = mac(MACS[node]), mac(FOREIGN)
    payload = struct.pack("!III", run, 0, number) + bytes(20)
    udp = struct.pack("!HHHH", 20000, port, 8 + len(payload), 0) + payload
    if ipv6:
        packet = struct.pack("!IHBB", 6 << 28 | dscp << 22, len(udp), 17, hops) + bytes(32) + udp
    else:
        packet = struct.pack("!BBHHHBBHII", 0x45, dscp << 2, 20 + len(udp), 1, 0, hops, 17, 0, 1, 2) + udp
    kind = captures.IPV6 if ipv6 else captures.IPV4
    return (own + other if is_in else other + own) + kind + packet


def journey(number, path, start, **options):
    """Sights of one packet sent at `start` ms: [time, node, is it in, frame]."""
    places = [("S", False)] + [(v, is_in) for v in path for is_in in (True, False)] + [("D", True)]
    return [[start * MS + index * 1000, node, is_in,
             frame(node, is_in, number, 64 - index // 2, **options)]
            for index, (node, is_in) in enumerate(places)]


def good():
    """Two packets on each version, one of them sent while the next version was being made."""
    return (journey(0, ["v1"], 1) + journey(1, ["v1"], 11) + journey(2, ["v1", "v2"], 12)
            + journey(3, ["v1", "v2"], 21, ipv6=True) + journey(4, ["v2", "v1"], 21)
            + journey(5, ["v2", "v1"], 30))


def prove(sights, lost=0, counted=None, sent=None, received=None, versions=None,
          magic=0xA1B23C4D, stamped_late=(), carriers=None, carriers_lost=0,
          carriers_cut=None):
    with tempfile.TemporaryDirectory() as folder:
        groups = {"endpoints": {}, "functions": {}}
        unit = 1 if magic == 0xA1B23C4D else 1000
        for node in NODES:
            entry = {"mac": MACS[node], "pcap": f"{node}.pcap", "lost": lost}
            if counted and node in counted:
                entry["counted"] = counted[node]
            groups["functions" if node.startswith("v") else "endpoints"][node] = {"c": entry}
            with open(os.path.join(folder, f"{node}.pcap"), "wb") as file:
                file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 80, 1))
                for time, at, _, data in sorted(sights, key=lambda sight: sight[0]):
                    if at == node:
                        time += dict(stamped_late).get((node, time), 0)
                        file.write(struct.pack("<IIII", time // 10**9, time % 10**9 // unit,
                                               len(data[:80]), len(data)) + data[:80])
        if carriers is not None:
            groups["carriers"] = [{"node": "h1", "interface": "data0", "pcap": "h1.pcap",
                                   "lost": carriers_lost}]
            with open(os.path.join(folder, "h1.pcap"), "wb") as file:
                file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 262144, 1))
                for data in carriers:
                    kept = data[:carriers_cut]
                    file.write(struct.pack("<IIII", 1, 0, len(kept), len(data)) + kept)
        lab = {**groups, "versions": versions or VERSIONS,
               "stream": {"source": "S", "destination": "D", "port": 5001, "sent": sent,
                          "received": received}}
        path, output = (os.path.join(folder, name) for name in ("lab.json", "out.json"))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(lab, file)
        status = update_proof.main([path, output])
        if status == 2:
            return status, None
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


class Proof(unittest.TestCase):
    def wrong(self, sights, kind, count=1, **options):
        status, result = prove(sights, **options)
        self.assertEqual(status, 1)
        self.assertFalse(result["ok"])
        self.assertEqual(result[kind], count, result)
        others = {"lost", "duplicated", "mixed", "overtaken", "capture_faults"} - {kind}
        self.assertEqual([result[other] for other in others], [0] * len(others), result)
        return result

    def test_a_clean_update_is_proved_and_counted(self):
        for magic in (0xA1B23C4D, 0xA1B2C3D4):
            status, result = prove(good(), sent=6, received=6, counted={"S": 6, "v1": 12},
                                   magic=magic)
            self.assertEqual(status, 0, result)
            self.assertEqual([result[key] for key in ("changes", "sent", "both_versions")], [2, 6, 2])
            first = result["each"][0]
            self.assertEqual((first["kind"], first["old"], first["new"]), ("insert", 2, 2))

    def test_a_chain_that_is_moved_is_proved_by_what_carried_each_packet(self):
        versions = [{"functions": ["v1"], "encapsulation": name, "kind": "encapsulation",
                     "asked": asked * MS, "over": asked and (asked + 4) * MS}
                    for asked, name in ((0, "nsh"), (10, "mpls"), (20, "source-route/native"))]
        sights = sum((journey(number, ["v1"], start) for number, start in
                      enumerate((1, 11, 12, 21, 22, 30))), [])
        carriers = ["nsh", "nsh", "mpls", "mpls", "source-route/native", "source-route/native"]

        def frames(names):
            # Each leg is a frame of its own.
            return [data for number, name in enumerate(names) for hops in (64, 63)
                    for data in carry(name, [frame("v1", True, number, hops)])]

        rows = carry("nsh", [frame("v1", True, number, 64) for number in (0, 1)])
        self.assertEqual(len(rows), 1)
        for seen in (frames(carriers), rows + frames(carriers)[4:]):
            status, result = prove(sights, versions=versions, carriers=seen)
            self.assertEqual(status, 0, result)
            self.assertEqual((result["both_versions"], result["changes"]), (2, 2))
            self.assertEqual([change["encapsulation"] for change in result["each"]],
                             ["mpls", "source-route/native"])
        more = frames(carriers) + carry("mpls", [frame("v1", True, 0, 62)])
        wrong = self.wrong(sights, "mixed", versions=versions, carriers=more)
        self.assertIn("took v1 over mpls and nsh; in force was v1 over nsh", wrong["violations"][0])
        early = frames(["mpls"] + carriers[1:])
        self.wrong(sights, "mixed", versions=versions, carriers=early)
        unseen = frames(carriers)[:-2]
        wrong = self.wrong(sights, "mixed", versions=versions, carriers=unseen)
        self.assertIn("took v1 over nothing", wrong["violations"][0])
        whole = frames(carriers)
        self.wrong(sights, "capture_faults", versions=versions, carriers=whole, carriers_lost=3)
        self.assertEqual(prove(sights, versions=versions, carriers=whole, carriers_cut=80)[0], 2)
        # What carries them is not looked at: then no version follows from the one before.
        self.assertEqual(prove(sights, versions=versions)[0], 2)

    def test_what_was_under_way_on_the_old_version_is_counted(self):
        # Packet 4 leaves on the new version before packet 3, on the old one, has arrived.
        _, result = prove(good())
        self.assertEqual([change["in_flight"] for change in result["each"]], [0, 1])
        self.assertEqual(result["in_flight"], 1)

    def test_a_lost_packet_is_found_wherever_it_vanishes(self):
        whole = journey(9, ["v1", "v2"], 15)
        for length in range(1, len(whole)):
            self.wrong(good() + whole[:length], "lost")

    def test_a_packet_seen_twice_is_found_wherever_it_doubles(self):
        whole = journey(9, ["v1", "v2"], 15)
        for time, *rest in whole:
            self.wrong(good() + whole + [[time + 10, *rest]], "duplicated")

    def test_a_packet_that_is_overtaken_is_found_wherever_that_happens(self):
        # Packet 9 leaves first and is passed by packet 8 before one place; behind it all is well.
        first, second = journey(9, ["v1", "v2"], 15), journey(8, ["v1", "v2"], 15)
        for late in range(1, len(first)):
            times = [time + 10 + (1_500 if index >= late else 0)
                     for index, (time, *_) in enumerate(first)]
            turned = [[time, *rest] for time, (_, *rest) in zip(times, first)]
            moved = [[time + 20 if index < late else time + 1_000, *rest]
                     for index, (time, *rest) in enumerate(second)]
            result = self.wrong(good() + turned + moved, "overtaken")
            self.assertIn("packet 9 was overtaken", result["violations"][0])

    def test_what_only_one_place_saw_in_another_order_is_found(self):
        # As on the way into a function that has put the packets right again.
        first, second = journey(9, ["v1"], 11), journey(8, ["v1"], 11)
        second = [[time + 100, *rest] for time, *rest in second]
        first[1][0] += 200
        result = self.wrong(good() + first + second, "overtaken")
        self.assertIn("as seen in at v1/c", result["violations"][0])

    def test_what_was_stamped_late_and_not_seen_late_is_not_overtaken(self):
        first, second = journey(9, ["v1"], 11), journey(8, ["v1"], 11)
        second = [[time + 100, *rest] for time, *rest in second]
        for time, node, *_ in first[1:]:
            late = [((node, time), 150)]
            status, result = prove(good() + first + second, stamped_late=late)
            self.assertEqual(status, 0, result)

    def test_a_shorter_new_version_may_overtake_the_old_one(self):
        old, new = journey(9, ["v1", "v2"], 20), journey(8, ["v2", "v1"], 20)
        slow = [[time + index * 50_000, *rest] for index, (time, *rest) in enumerate(old)]
        self.assertEqual(prove(good() + slow + [[time + 10, *rest] for time, *rest in new])[0], 0)

    def test_a_packet_of_half_of_each_version_is_mixed(self):
        # v1 of the old order, then v1 again as the second of the new one, and what lacks a half.
        for path in (["v1", "v1"], ["v2"], ["v1", "v2", "v1"], ["v2", "v1", "v2"], [], ["v3"]):
            self.wrong(good() + journey(9, path, 21), "mixed")

    def test_a_function_that_two_versions_share_may_mix_them_and_is_found(self):
        # As captured on a data plane that told paths at a shared function by the last one made:
        # v1 first of the old order, and once more as the last of the new one.
        versions = [{"functions": ["v1", "v3", "v2"], "asked": 0, "over": None},
                    {"functions": ["v3", "v2", "v1"], "kind": "reorder", "asked": 10 * MS,
                     "over": 14 * MS}]
        sights = journey(0, ["v1", "v3", "v2"], 1) + journey(1, ["v3", "v2", "v1"], 11)
        self.assertEqual(prove(sights, versions=versions)[0], 0)
        halves = journey(2, ["v1", "v3", "v2", "v1"], 10)
        result = self.wrong(sights + halves, "mixed", versions=versions)
        self.assertIn("took v1 v3 v2 v1; in force was v3 v2 v1 or v1 v3 v2",
                      result["violations"][0])

    def test_a_version_that_is_not_in_force_is_mixed(self):
        # Before it was asked for; after it was over; two changes ago.
        for path, start in ((["v1", "v2"], 9), (["v1"], 15), (["v1"], 21), (["v1", "v2"], 25)):
            self.wrong(good() + journey(9, path, start), "mixed")

    def test_a_version_of_which_no_end_is_told_is_in_force_until_the_change_after_the_next(self):
        versions = [dict(version, over=None) for version in VERSIONS]
        sights = good() + journey(9, ["v1"], 19)
        self.assertEqual(prove(sights, versions=versions)[0], 0)
        sights = good() + journey(9, ["v1"], 21)
        self.assertEqual(prove(sights, versions=versions)[1]["mixed"], 1)

    def test_an_order_that_clock_and_hop_limit_tell_differently_is_mixed(self):
        sights = journey(9, ["v1", "v2"], 15)
        times = [sight[0] for sight in sights]
        for index, turned in enumerate((0, 3, 4, 1, 2, 5)):
            sights[index][0] = times[turned]
        self.wrong(good() + sights, "mixed")

    def test_a_function_that_was_passed_unseen_is_mixed(self):
        sights = [sight for sight in journey(9, ["v1", "v3"], 15) if sight[1] != "v3"]
        self.wrong(good() + sights, "mixed")

    def test_a_change_that_one_version_of_which_carried_nothing_is_not_proved(self):
        sights = [sight for sight in good() if sight[0] < 25 * MS]
        alone = [sight for sight in sights if update_number(sight) != 4]
        status, result = prove(alone)
        self.assertEqual((status, result["both_versions"]), (1, 1))

    # The same function throughout, and rule sets that give 10, then 18 from 10 ms on, then 10 again from 20 ms.
    MARKED = [dict(version, functions=["v1"], dscp=dscp)
              for version, dscp in zip(VERSIONS, (10, 18, 10))]

    def marked(self, number, start, *marks, **options):
        """A journey by v1 with these code points at v1's way in, its way out and the destination."""
        sights = journey(number, ["v1"], start, **options)
        for sight, dscp in zip(sights[1:], marks):
            hops = 64 if sight[1:3] == ["v1", True] else 63
            sight[3] = frame(sight[1], sight[2], number, hops, dscp=dscp, **options)
        return sights

    def whole(self):
        return (self.marked(0, 1, 10, 10, 10) + self.marked(1, 11, 10, 10, 10)
                + self.marked(2, 12, 18, 18, 18) + self.marked(3, 21, 18, 18, 18, ipv6=True)
                + self.marked(4, 21, 10, 10, 10) + self.marked(5, 30, 10, 10, 10))

    def test_rule_sets_are_told_apart_by_the_code_points_that_they_give(self):
        status, result = prove(self.whole(), versions=self.MARKED)
        self.assertEqual((status, result["both_versions"]), (0, 2), result)
        self.assertEqual([change["dscp"] for change in result["each"]], [18, 10])
        # Sent when nothing could be under way any more under the set before, and before the next was asked for.
        for start, dscp in ((15, 10), (1, 18), (25, 18)):
            result = self.wrong(self.whole() + self.marked(9, start, dscp, dscp, dscp), "mixed",
                                versions=self.MARKED)
            self.assertIn(f"took v1 with dscp {dscp}; in force was v1", result["violations"][0])

    def test_half_of_two_rule_sets_is_mixed_or_lost(self):
        for marks in ((10, 18, 18), (18, 18, 10), (0, 0, 0), (0, 10, 10)):
            self.wrong(self.whole() + self.marked(9, 12, *marks), "mixed", versions=self.MARKED)
        self.wrong(self.whole() + self.marked(9, 12, 18, 18, 18)[:3], "lost", versions=self.MARKED)
        # Without code points they are one version.
        bare = [{**version, "dscp": None} for version in self.MARKED]
        self.assertEqual(prove(self.whole(), versions=bare)[0], 2)

    def test_captures_that_lost_packets_prove_nothing(self):
        result = self.wrong(good(), "capture_faults", count=len(NODES), lost=1)
        self.assertIn("lost 1 packets", result["violations"][0])
        self.wrong(good(), "capture_faults", counted={"S": 6, "v1": 13})
        self.wrong(good(), "capture_faults", sent=7)
        self.wrong(good(), "capture_faults", received=5)
        headless = [sight for sight in journey(9, ["v1", "v2"], 15) if sight[1] != "S"]
        self.wrong(good() + headless, "capture_faults")

    def test_what_cannot_be_judged_is_refused(self):
        self.assertEqual(prove(good() + journey(9, ["v1"], 1, run=8))[0], 2)
        self.assertEqual(prove(good(), versions=[VERSIONS[0], VERSIONS[2], VERSIONS[1]])[0], 2)
        same = [VERSIONS[0], dict(VERSIONS[1], functions=["v1"])]
        self.assertEqual(prove(good(), versions=same)[0], 2)

    def test_damaged_captures_cannot_be_judged(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pcap")
            data = frame("S", True, 1, 64)
            whole = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1)
            whole += struct.pack("<IIII", 1, 1, len(data), len(data)) + data
            for cut in list(range(24)) + list(range(25, len(whole))):
                with open(path, "wb") as file:
                    file.write(whole[:cut])
                with self.assertRaises(captures.Unreadable):
                    list(captures.Capture(path, MACS["S"]).sights({5001}))


def update_number(sight):
    """Number of the packet of a sight over IPv4; -1 over IPv6."""
    is_ipv4 = sight[3][12:14] == captures.IPV4
    return struct.unpack("!I", sight[3][50:54])[0] if is_ipv4 else -1


if __name__ == "__main__":
    unittest.main()
