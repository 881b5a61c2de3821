"""The proof of paths must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest

import captures
import path_proof

NODES = ["S", "D", "v1", "v2", "v3", "t1", "t2"]
MACS = {node: f"02:00:00:00:00:{index + 1:02x}" for index, node in enumerate(NODES)}
FOREIGN = "02:00:00:00:00:99"


def step(name, direction="same", **weights):
    weights = weights or {name: 1}
    return {"name": name, "direction": direction,
            "instances": [{"name": one, "weight": weight} for one, weight in weights.items()]}


# S -> v1 or v2, copies to t1 and t2 -> v3 -> D
STEPS = [step("web", v1=2, v2=1), step("t1", "tap"), step("t2", "tap"), step("v3")]


def traffic(phase=0, steps=None, flows=3, sent=3, **more):
    return {"name": "flows", "run": phase * 256, "phase": phase, "chain": "c", "source": "S",
            "destination": "D", "port": 5001, "flows": flows, "sent": sent, "answers": False,
            "symmetric": False, "steps": steps or STEPS, **more}


# What stands between the outer and the inner Ethernet header at a function that speaks it.
SPOKEN = {"nsh": captures.NSH + bytes.fromhex("0fc60103000009fe") + bytes(16),
          "mpls": captures.MPLS + bytes.fromhex("0000903ffe00013f")}


def frame(node, is_in, hops, run, flow, number, is_answer, ipv6=False, spoken=None):
    mac = lambda text: bytes.fromhex(text.replace(":", ""))
    own, other = mac(MACS[node]), mac(FOREIGN)
    ports = (5001, 20000 + flow) if is_answer else (20000 + flow, 5001)
    payload = struct.pack("!III", run, flow, number) + bytes(20)
    udp = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    if ipv6:
        packet = struct.pack("!IHBB", 6 << 28, len(udp), 17, hops) + bytes(32) + udp
    else:
        packet = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(udp), 1, 0, hops, 17, 0, 1, 2) + udp
    kind = captures.IPV6 if ipv6 else captures.IPV4
    ends = own + other if is_in else other + own
    outer = ends + SPOKEN[spoken] if spoken and node not in "SD" else b""
    return outer + ends + kind + packet


def journey(flow, number, path, phase=0, taps=("t1", "t2"), taps_behind=1, is_answer=False, **kind):
    """Sights of one packet and its copies: [time, node, frame]."""
    ends = ("D", "S") if is_answer else ("S", "D")
    places = [(ends[0], False, 64)]
    for passed, node in enumerate(path):
        places += [(node, True, 64 - passed), (node, False, 63 - passed)]
    places.append((ends[1], True, 64 - len(path)))
    places += [(tap, True, 64 - taps_behind) for tap in taps]
    start = 10**9 * (phase + 1) + number * 10**6 + is_answer * 10**5
    return [[start + index * 1000, node,
             frame(node, is_in, hops, phase * 256, flow, number, is_answer, **kind)]
            for index, (node, is_in, hops) in enumerate(places)]


def good(phase=0):
    return (journey(0, 0, ["v1", "v3"], phase) + journey(1, 1, ["v1", "v3"], phase, ipv6=True)
            + journey(2, 2, ["v2", "v3"], phase))


def prove(sights, lines=None, lost=0):
    with tempfile.TemporaryDirectory() as folder:
        groups = {"endpoints": {}, "functions": {}}
        for node in NODES:
            entry = {"mac": MACS[node], "pcap": f"{node}.pcap", "lost": lost}
            groups["endpoints" if node in "SD" else "functions"][node] = {"c": entry}
            with open(os.path.join(folder, f"{node}.pcap"), "wb") as file:
                file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 128, 1))
                for time, at, data in sorted(sights, key=lambda sight: sight[0]):
                    if at == node:
                        file.write(struct.pack("<IIII", time // 10**9, time % 10**9,
                                               len(data[:128]), len(data)) + data[:128])
        path, output = (os.path.join(folder, name) for name in ("lab.json", "out.json"))
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**groups, "traffic": lines or [traffic()]}, file)
        status = path_proof.main([path, output])
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


class Proof(unittest.TestCase):
    def wrong(self, sights, kind, lines=None, **options):
        status, result = prove(sights, lines, **options)
        self.assertEqual((status, result["ok"]), (1, False))
        if kind:
            self.assertEqual(sum(line[kind] for line in result["traffic"]), 1, result)
        return result

    def test_packets_and_copies_on_their_way_are_proved_and_shares_counted(self):
        status, result = prove(good())
        self.assertEqual(status, 0, result)
        line = result["traffic"][0]
        self.assertEqual((line["proved"], line["flows"], line["copies"]), (3, 3, 6))
        shares = {one["instance"]: (one["flows"], one["share"], one["wanted"])
                  for one in result["shares"]}
        self.assertEqual(shares, {"v1": (2, 2 / 3, 2 / 3), "v2": (1, 1 / 3, 1 / 3)})

    def test_each_missing_sight_is_found(self):
        whole = journey(2, 2, ["v2", "v3"])
        for index, sight in enumerate(whole):
            rest = [other for other in good() if other != sight]
            self.assertEqual(len(rest), len(good()) - 1)
            self.wrong(rest, None)

    def test_each_sight_too_many_is_found(self):
        for time, node, data in journey(2, 2, ["v2", "v3"]):
            self.wrong(good() + [[time + 10, node, data]], None)

    def test_a_copy_that_comes_twice_never_or_too_late_is_found(self):
        rest = journey(0, 0, ["v1", "v3"]) + journey(1, 1, ["v1", "v3"])
        for taps, behind in ((["t1"], 1), (["t1", "t2", "t2"], 1), (["t1", "t2"], 2), ([], 1)):
            bad = journey(2, 2, ["v2", "v3"], taps=taps, taps_behind=behind)
            self.wrong(rest + bad, "copy")

    def test_a_flow_that_meets_two_instances_is_found(self):
        sights = good() + journey(2, 3, ["v1", "v3"])
        self.wrong(sights, "split", [traffic(sent=4)])

    def test_a_function_out_of_turn_or_missing_is_found(self):
        rest = journey(0, 0, ["v1", "v3"]) + journey(1, 1, ["v1", "v3"])
        for path, kind in ((["v3", "v1"], "elsewhere"), (["v1"], "missing"), ([], "missing"),
                           (["v1", "v3", "v3"], "missing"), (["v1", "v2"], "elsewhere")):
            self.wrong(rest + journey(2, 2, path), kind)

    def test_answers_of_a_symmetric_chain_must_come_the_same_way_back(self):
        steps = [step("web", v1=2, v2=1), step("v3")]
        lines = [traffic(steps=steps, flows=1, sent=1, answers=True, symmetric=True)]
        forth = journey(0, 0, ["v1", "v3"], taps=())
        back = lambda path: journey(0, 0, path, taps=(), is_answer=True)
        status, result = prove(forth + back(["v3", "v1"]), lines)
        self.assertEqual((status, result["traffic"][0]["mirrored"]), (0, 1), result)
        for path in (["v1", "v3"], ["v3", "v2"], ["v3"], []):
            self.wrong(forth + back(path), "mirror", lines)
        self.wrong(forth, None, lines)
        plain = [dict(lines[0], symmetric=False)]
        self.assertEqual(prove(forth + back([]), plain)[0], 0)
        self.wrong(forth + back(["v3", "v1"]), "mirror", plain)

    def test_only_moves_between_instances_that_stay_are_needless(self):
        steps = [step("web", v1=1, v2=1)]
        more = [step("web", v1=1, v2=1, v3=1)]

        def moved(before, after):
            sights = []
            for phase, paths in enumerate((before, after)):
                for flow, node in enumerate(paths):
                    sights += journey(flow, flow, [node], phase, taps=())
            lines = [traffic(0, steps, 2, 2), traffic(1, more, 2, 2)]
            status, result = prove(sights, lines)
            self.assertEqual(status, 0, result)
            one = result["moves"][0]
            return one["moved"], one["needless"]

        self.assertEqual(moved(["v1", "v2"], ["v1", "v2"]), (0, 0))
        self.assertEqual(moved(["v1", "v2"], ["v1", "v3"]), (1, 0))
        self.assertEqual(moved(["v1", "v2"], ["v2", "v3"]), (2, 1))

    def test_packets_are_known_below_what_a_function_speaks(self):
        for spoken in SPOKEN:
            sights = (journey(0, 0, ["v1", "v3"], spoken=spoken)
                      + journey(1, 1, ["v1", "v3"], ipv6=True, spoken=spoken)
                      + journey(2, 2, ["v2", "v3"]))
            status, result = prove(sights)
            self.assertEqual((status, result["traffic"][0]["proved"]), (0, 3), result["violations"])
            missed = [sight for sight in sights if sight[1] != "v1"]
            self.wrong(missed, None)

    def test_captures_that_lost_packets_and_strangers_prove_nothing(self):
        self.assertEqual(self.wrong(good(), None, lost=1)["capture_faults"], len(NODES))
        self.wrong(good() + good(phase=3), None)
        self.wrong([], None)


if __name__ == "__main__":
    unittest.main()
