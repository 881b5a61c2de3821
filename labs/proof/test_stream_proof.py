"""The proof must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest

import captures
import stream_proof

MACS = {"S": "02:00:00:00:00:01", "D": "02:00:00:00:00:02", "v1": "02:00:00:00:00:03",
        "v2": "02:00:00:00:00:04", "v9": "02:00:00:00:00:07"}
FOREIGN = "02:00:00:00:00:99"
PATH = [("S", False, 64), ("v1", True, 64), ("v1", False, 63), ("v2", True, 63),
        ("v2", False, 62), ("D", True, 62)]


def steps(*names):
    return [{"name": name, "direction": "same", "instances": [{"name": name}]} for name in names]


def frame(node, is_in, hops, port=5201, ipv6=False, own=None):
    own = own or MACS[node]
    to, source = (own, FOREIGN) if is_in else (FOREIGN, own)
    tcp = struct.pack("!HHIIHHHH", 40_000, port, 7, 8, 0x5010, 9, 0, 0) + bytes(20)
    if ipv6:
        packet = struct.pack("!IHBB", 6 << 28, len(tcp), 6, hops) + bytes(32) + tcp
    else:
        packet = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(tcp), 1, 0, hops, 6, 0, 1, 2) + tcp
    kind = b"\x86\xdd" if ipv6 else b"\x08\x00"
    return captures.mac_bytes(to) + captures.mac_bytes(source) + kind + packet


def prove(sights, versions=None, lost=0, frames=()):
    """`frames`: more, as (node, bytes)."""
    frames = [(sight[0], frame(*sight)) for sight in sights] + list(frames)
    with tempfile.TemporaryDirectory() as folder:
        groups = {"endpoints": {}, "functions": {}}
        for node, mac in MACS.items():
            group = groups["functions" if node.startswith("v") else "endpoints"]
            group[node] = {"c": {"mac": mac, "pcap": f"{node}.pcap", "lost": lost}}
            with open(os.path.join(folder, f"{node}.pcap"), "wb") as file:
                file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 128, 1))
                for time, (at, data) in enumerate(frames):
                    if at == node:
                        file.write(struct.pack("<IIII", time, 0, len(data), len(data)) + data)
        versions = [steps("v1", "v2")] if versions is None else versions
        lab = {**groups, "streams": [{"name": "stream", "chain": "C2", "source": "S",
                                      "destination": "D", "port": 5201, "versions": versions}]}
        path, output = os.path.join(folder, "lab.json"), os.path.join(folder, "out.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(lab, file)
        status = stream_proof.main([path, output])
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


class Proof(unittest.TestCase):
    def wrong(self, sights, words, **options):
        status, result = prove(sights, **options)
        self.assertEqual(status, 1)
        self.assertTrue(any(words in text for text in result["violations"]), result)

    def test_a_stream_by_its_functions_is_proved(self):
        for ipv6 in (False, True):
            status, result = prove([(*sight, 5201, ipv6) for sight in PATH * 3])
            self.assertEqual((status, result["violation_count"]), (0, 0), result)
            self.assertEqual((result["samples"], result["arrived"]), (18, 3))

    def test_a_stream_without_a_chain_is_seen_at_no_function(self):
        straight = [("S", False, 64), ("D", True, 64)]
        self.assertEqual(prove(straight, versions=[[]])[0], 0)
        self.wrong(straight + [("v9", True, 64)], "into v9", versions=[[]])

    def test_each_function_that_is_passed_by_is_found(self):
        self.wrong([("S", False, 64), ("v2", True, 64), ("v2", False, 63), ("D", True, 63)],
                   "no sample into v1")
        self.wrong([("S", False, 64), ("D", True, 64)], "into D with hop limit 64")

    def test_one_packet_that_skips_a_function_is_found(self):
        self.wrong(PATH * 5 + [("v1", False, 63), ("D", True, 63)], "into D with hop limit 63")

    def test_another_order_is_found(self):
        self.wrong([("S", False, 64), ("v2", True, 64), ("v2", False, 63), ("v1", True, 63),
                    ("v1", False, 62), ("D", True, 62)], "into v2 with hop limit 64")

    def test_a_function_that_is_none_of_the_chains_is_found(self):
        self.wrong(PATH + [("v9", True, 64)], "into v9")

    def test_a_chain_that_changes_takes_its_versions_and_no_other(self):
        other = [("S", False, 64), ("v9", True, 64), ("v9", False, 63), ("D", True, 63)]
        versions = [steps("v1", "v2"), steps("v9")]
        self.assertEqual(prove(PATH + other, versions=versions)[0], 0)
        self.wrong(PATH, "no sample into v9", versions=versions)
        self.wrong(PATH + other + [("D", True, 64)], "hop limit 64", versions=versions)

    def test_a_tap_gives_nothing_back_and_one_instance_is_enough(self):
        tap = [{"name": "t", "direction": "tap", "instances": [{"name": "v9"}]}]
        web = [{"name": "web", "direction": "same", "instances": [{"name": "v1"}, {"name": "v2"}]}]
        sights = [("S", False, 64), ("v9", True, 64), ("v1", True, 64), ("v1", False, 63),
                  ("D", True, 63)]
        self.assertEqual(prove(sights, versions=[tap + web])[0], 0)
        self.wrong(sights + [("v9", False, 63)], "out of v9", versions=[tap + web])

    def test_nothing_at_all_is_not_proved(self):
        self.wrong([], "hop limits []")
        self.wrong([(*sight, 9) for sight in PATH], "hop limits []")

    def test_a_capture_that_lost_packets_proves_nothing(self):
        self.wrong(PATH, "lost 1 packets", lost=1)

    def test_a_frame_that_is_not_the_ports_own_is_found(self):
        alien = frame("v9", True, 64, own="02:00:00:00:00:98")
        self.wrong(PATH, "neither from nor to it", frames=[("v9", alien)])


if __name__ == "__main__":
    unittest.main()
