"""The proof must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest

import captures
import steering_proof

MACS = {("S", "c"): "02:00:00:00:00:01", ("D", "c"): "02:00:00:00:00:02",
        ("v1", "c"): "02:00:00:00:00:03", ("v1", "i"): "02:00:00:00:00:04",
        ("v2", "c"): "02:00:00:00:00:05", ("v2", "i"): "02:00:00:00:00:06",
        ("v9", "c"): "02:00:00:00:00:07"}
FOREIGN = "02:00:00:00:00:99"
# S -> v1 (in) -> v2 (out) -> D
PATH = [("S", "c", "out"), ("v1", "c", "in"), ("v1", "i", "out"),
        ("v2", "i", "in"), ("v2", "c", "out"), ("D", "c", "in")]


def frame(node, network, direction, sequence, hops, port=5001, ipv6=False):
    own, other = MACS[node, network], FOREIGN
    to, source = (own, other) if direction == "in" else (other, own)
    payload = struct.pack("!III", 7, 8, sequence) + bytes(40)
    udp = struct.pack("!HHHH", 4000, port, 8 + len(payload), 0) + payload
    if ipv6:
        packet = struct.pack("!IHBB", 6 << 28, len(udp), 17, hops) + bytes(32) + udp
    else:
        packet = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(udp), 1, 0, hops, 17, 0, 1, 2) + udp
    kind = struct.pack("!H", 0x86DD if ipv6 else 0x0800)
    return captures.mac_bytes(to) + captures.mac_bytes(source) + kind + packet


def journey(sequence, path=PATH, start=100.0, **options):
    """Sights of one packet: (time, node, network, frame), hop limit lowered by each function."""
    return [(start + index * 1e-4, node, network,
             frame(node, network, direction, sequence, 64 - index // 2, **options))
            for index, (node, network, direction) in enumerate(path)]


def prove(sights, lost=0, magic=0xA1B23C4D):
    with tempfile.TemporaryDirectory() as folder:
        groups = {"endpoints": {}, "functions": {}}
        for (node, network), mac in MACS.items():
            name = f"{node}.{network}.pcap"
            group = groups["functions" if node.startswith("v") else "endpoints"]
            group.setdefault(node, {})[network] = {"mac": mac, "pcap": name, "lost": lost}
            with open(os.path.join(folder, name), "wb") as file:
                file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 96, 1))
                for time, at, net, data in sights:
                    if (at, net) == (node, network):
                        unit = 1e9 if magic == 0xA1B23C4D else 1e6
                        file.write(struct.pack("<IIII", int(time), round((time % 1) * unit),
                                               len(data[:96]), len(data)) + data[:96])
        lab = {**groups, "chains": [{"name": "SFP", "source": "S", "destination": "D", "port": 5001,
               "chain": [{"name": "v1", "direction": "in"}, {"name": "v2", "direction": "out"}]}]}
        path = os.path.join(folder, "lab.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(lab, file)
        output = os.path.join(folder, "out.json")
        status = steering_proof.main([path, output, os.path.join(folder, "out.csv")])
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


class Proof(unittest.TestCase):
    def wrong(self, sights, kind, **options):
        status, result = prove(sights, **options)
        self.assertEqual(status, 1)
        self.assertFalse(result["ok"])
        if kind:
            self.assertGreater(result["chains"]["SFP"][kind], 0, result)
        self.assertGreater(result["violation_count"], 0)
        return result

    def test_packets_on_their_path_are_proved(self):
        sights = journey(1) + journey(2, start=101.5) + journey(3, start=101.7, ipv6=True)
        for magic in (0xA1B23C4D, 0xA1B2C3D4):
            status, result = prove(sights, magic=magic)
            self.assertEqual(status, 0, result)
            self.assertEqual(result["chains"]["SFP"]["proved"], 3)
            self.assertEqual(result["packets_out"], {"v1": 3, "v2": 3, "v9": 0})
            self.assertEqual([bits > 0 for bits in result["bits_per_second"]["v1"]], [True, True])

    def test_each_missing_sight_is_found(self):
        for index in range(len(PATH)):
            sights = journey(1) + [s for i, s in enumerate(journey(2)) if i != index]
            self.wrong(sights, "missing")

    def test_a_wrong_order_in_time_is_found(self):
        sights = journey(1)
        times = [sight[0] for sight in sights]
        order = [0, 3, 4, 1, 2, 5]
        self.wrong([(times[order[i]], *sight[1:]) for i, sight in enumerate(sights)], "order")

    def test_a_wrong_order_by_hop_limit_is_found(self):
        sights = journey(1)
        node, network, direction = PATH[3]
        sights[3] = (sights[3][0], node, network, frame(node, network, direction, 1, 64))
        self.wrong(sights, "order")

    def test_a_second_visit_is_found(self):
        for index in range(len(PATH)):
            time, *rest = journey(1)[index]
            self.wrong(journey(1) + [(time + 1e-5, *rest)], "twice")

    def test_a_packet_elsewhere_is_found(self):
        stray = (100.9, "v9", "c", frame("v9", "c", "in", 1, 64))
        self.wrong(journey(1) + [stray], "elsewhere")

    def test_a_function_crossed_the_wrong_way_round_is_found(self):
        sights = [s for s in journey(1) if s[1] != "v1"]
        sights += [(100.00011, "v1", "i", frame("v1", "i", "in", 1, 64)),
                   (100.00012, "v1", "c", frame("v1", "c", "out", 1, 63))]
        self.wrong(sights, "elsewhere")

    def test_a_frame_that_is_not_the_ports_own_is_found(self):
        data = bytearray(frame("v9", "c", "in", 1, 64))
        data[0:6] = captures.mac_bytes("02:00:00:00:00:98")
        self.wrong(journey(1) + [(100.9, "v9", "c", bytes(data))], None)

    def test_a_capture_that_lost_packets_proves_nothing(self):
        self.wrong(journey(1), None, lost=1)

    def test_a_chain_without_packets_is_not_proved(self):
        self.wrong(journey(1, port=5999), None)

    def test_damaged_captures_cannot_be_judged(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pcap")
            header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1)
            record = struct.pack("<IIII", 1, 1, 20, 20) + bytes(20)
            for cut in list(range(24)) + list(range(25, 24 + len(record))):
                with open(path, "wb") as file:
                    file.write((header + record)[:cut])
                with self.assertRaises(steering_proof.Unreadable):
                    list(captures.read_pcap(path))


if __name__ == "__main__":
    unittest.main()
