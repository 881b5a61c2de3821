"""The proof must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest

import captures
import user_proof

MACS = {"gnb": "02:00:00:00:00:01", "upf": "02:00:00:00:00:02", "red1": "02:00:00:00:00:03",
        "blue1": "02:00:00:00:00:04", "blue2": "02:00:00:00:00:05"}
FOREIGN = "02:00:00:00:00:99"
CHAINS = {5001: ["red1"], 5002: ["blue1", "blue2"]}
QFIS = {5001: None, 5002: 9}


def ipv4(payload, addresses=b"\x0a\x32\x00\x01\x0a\x32\x00\x02", hops=64):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, hops, 17, 0)
    return head + addresses + payload


def udp(port, payload):
    return struct.pack("!HHHH", 40_000, port, 8 + len(payload), 0) + payload


def of_user(vni, teid, number, qfi=None, address=None, end=b"\x0a\x32\x00\x02"):
    """A datagram with a user's packet in it."""
    address = address or struct.pack("!BBH", 10, 0, teid)
    inner = ipv4(udp(40_001, struct.pack("!I", number) + bytes(16)), b"\xc6\x33\x64\x01" + address)
    session = b"" if qfi is None else struct.pack("!HBB", 0, 0, 0x85) + bytes([1, 0, qfi, 0])
    gtp = struct.pack("!BBHI", 0x34 if session else 0x30, 255, len(session) + len(inner), teid)
    tunnel = ipv4(udp(2152, gtp + session + inner), b"\x0a\x32\x00\x01" + end)
    vxlan = struct.pack("!B3xI", 8, vni << 8) + bytes(12) + b"\x08\x00" + tunnel
    return udp(4789, vxlan)


def journey(datagram, chain, start):
    """Sights of a frame: (time, node, is it going in, hop limit, datagram)."""
    nodes = [("gnb", False)] + [(name, way) for name in chain for way in (True, False)]
    nodes.append(("upf", True))
    return [(start + index * 1e-4, node, is_in, 64 - index // 2, datagram)
            for index, (node, is_in) in enumerate(nodes)]


def all_users():
    """Two slices of each tenant and a plain packet: (datagram, the functions it takes)."""
    frames = [(of_user(vni, teid, 1, QFIS[vni]), CHAINS[vni]) for vni in CHAINS for teid in (1, 2)]
    return frames + [(udp(5001, b"plain" + bytes(20)), ["red1"])]


def moving(places, address=b"\x0a\x00\x00\x07"):
    """A user of tenant 5001 in each of the tunnels and at each of their ends."""
    return [(of_user(5001, teid, number, None, address, bytes([192, 0, 2, end])), ["red1"])
            for number, (teid, end) in enumerate(places)]


def prove(sights, sent=5, lost=0, mover=None):
    with tempfile.TemporaryDirectory() as folder:
        lab = {"endpoints": {}, "functions": {}, "source": "gnb", "destination": "upf",
               "sent": sent, "mover": mover, "plain": {"port": 5001, "chain": steps(["red1"])},
               "tenants": [{"vni": vni, "slices": 2, "qfi": QFIS[vni], "chain": steps(chain)}
                           for vni, chain in CHAINS.items()]}
        for node, mac in MACS.items():
            group = lab["endpoints" if node in ("gnb", "upf") else "functions"]
            group[node] = {"t": {"mac": mac, "pcap": f"{node}.pcap", "lost": lost}}
            with open(os.path.join(folder, f"{node}.pcap"), "wb") as file:
                file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 256, 1))
                for time, at, is_in, hops, datagram in sights:
                    if at != node:
                        continue
                    ends = (mac, FOREIGN) if is_in else (FOREIGN, mac)
                    data = b"".join(map(captures.mac_bytes, ends)) + b"\x08\x00"
                    data += ipv4(datagram, hops=hops)
                    file.write(struct.pack("<IIII", int(time), round((time % 1) * 1e9), len(data),
                                           len(data)) + data)
        path, output = os.path.join(folder, "lab.json"), os.path.join(folder, "out.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(lab, file)
        status = user_proof.main([path, output])
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


def steps(chain):
    return [{"name": name, "direction": "same"} for name in chain]


def journeys(frames):
    return [sight for number, (datagram, chain) in enumerate(frames)
            for sight in journey(datagram, chain, 100.0 + number)]


class Proof(unittest.TestCase):
    def wrong(self, sights, words, **options):
        status, result = prove(sights, **options)
        self.assertEqual(status, 1)
        self.assertTrue(any(words in text for text in result["violations"]), result)

    def wrong_chain(self, which, chain, words):
        frames = all_users()
        frames[which] = (frames[which][0], chain)
        self.wrong(journeys(frames), words)

    def test_slices_at_their_tenants_functions_are_proved(self):
        status, result = prove(journeys(all_users()))
        self.assertEqual(status, 0, result)
        self.assertEqual([result[key] for key in ("frames", "proved", "plain", "slices")],
                         [5, 5, 1, 4])

    def test_functions_in_another_order_are_found(self):
        self.wrong_chain(2, ["blue2", "blue1"], "out of turn")

    def test_as_many_functions_of_another_tenant_are_found(self):
        self.wrong_chain(0, ["blue1"], "not on its path")
        self.wrong_chain(2, ["red1", "blue2"], "not on its path")
        self.wrong_chain(4, ["blue2"], "not on its path")

    def test_a_function_that_is_passed_by_is_found(self):
        self.wrong_chain(2, ["blue1"], "never seen in at blue2")

    def test_a_slice_that_was_not_seen_is_found(self):
        self.wrong(journeys(all_users()[1:]), "network 5001, tunnel 1: no frame", sent=4)

    def test_a_frame_that_never_left_is_found(self):
        self.wrong(journeys(all_users()), "6 frames were sent", sent=6)

    def test_a_changed_frame_is_found(self):
        sights = journeys(all_users())
        time, node, is_in, hops, datagram = sights[-1]
        sights[-1] = (time, node, is_in, hops, datagram[:-1] + b"!")
        self.wrong(sights, "never seen")

    def test_a_slice_with_anothers_user_is_found(self):
        frames = all_users() + [(of_user(5001, 2, 2, None, b"\x0a\x00\x00\x01"), ["red1"])]
        self.wrong(journeys(frames), "tunnel 2: 2 users in one slice", sent=6)

    def test_a_slice_of_nobody_is_found(self):
        frames = all_users() + [(of_user(5003, 1, 1), ["red1"])]
        self.wrong(journeys(frames), "no tenant's", sent=6)

    MOVER = {"vni": 5001, "teids": [70, 71], "places": 3}
    PLACES = [(70, 1), (70, 2), (71, 3)]

    def test_a_user_that_moves_is_proved(self):
        frames = all_users() + moving(self.PLACES)
        status, result = prove(journeys(frames), sent=8, mover=self.MOVER)
        self.assertEqual(status, 0, result)
        self.assertEqual(result["slices"], 4)

    def test_a_user_that_was_not_seen_where_it_moved_is_found(self):
        for places, words in [(self.PLACES[:2], "never seen in tunnel 71"),
                              (self.PLACES[1:], "seen at 2 places, not at 3"),
                              ([], "0 users moved")]:
            frames = all_users() + moving(places)
            self.wrong(journeys(frames), words, sent=len(frames), mover=self.MOVER)

    def test_another_user_in_its_tunnel_is_found(self):
        frames = all_users() + moving(self.PLACES[:2]) + moving(self.PLACES[2:], b"\x0a\x00\x00\x08")
        self.wrong(journeys(frames), "2 users moved, not one", sent=8, mover=self.MOVER)

    def test_a_user_that_passes_its_function_by_after_a_move_is_found(self):
        frames = all_users() + moving(self.PLACES)
        frames[-1] = (frames[-1][0], [])
        self.wrong(journeys(frames), "never seen in at red1", sent=8, mover=self.MOVER)

    def test_another_qos_flow_is_found(self):
        frames = all_users()
        frames[2] = (of_user(5002, 1, 1, 5), CHAINS[5002])
        self.wrong(journeys(frames), "its QoS flow is not 9")

    def test_a_capture_that_lost_packets_proves_nothing(self):
        self.wrong(journeys(all_users()), "lost 1 packets", lost=1)


if __name__ == "__main__":
    unittest.main()
