"""What nodes send each other is read as it was made, and what says what it cannot is refused."""

import os
import struct
import unittest

import captures
import carriers

GOLDENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../conformance/source_route")
OTHERS = bytes.fromhex("02000000000102000000000a")


def pack(ports, width):
    bits = "".join(f"{port:0{width}b}" for port in ports)
    return int(bits.ljust((len(bits) + 7) // 8 * 8, "0"), 2).to_bytes((len(bits) + 7) // 8, "big")


def route(ports, counter, inner, path=7, width=8, detours=()):
    """A frame on its way over source routes; the ports by position."""
    flags = (0x00 if path is None else 0x04) | (0x02 if detours else 0)
    head = bytes([0x10 | width, len(ports), counter, flags]) + pack(ports, width)
    behind = b"" if path is None else path.to_bytes(3, "big")
    if detours:
        behind += bytes([len(detours)])
    for position, rejoin, own in detours:
        behind += bytes([position, rejoin, len(own)]) + pack(own, width)
    return inner[:12] + carriers.SOURCE_ROUTE + head + behind + inner[12:]


def tunnel(port, payload, ipv6=False):
    udp = struct.pack("!HHHH", 50000, port, 8 + len(payload), 0) + payload
    if ipv6:
        return OTHERS + captures.IPV6 + struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + bytes(32) + udp
    packet = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, 1, 2) + udp
    return OTHERS + captures.IPV4 + packet


def carry(encapsulation, inners, ipv6=False):
    """Frames between nodes that carry others: in a tunnel all in one row."""
    if encapsulation == "source-route/native":
        return [route((5, 2, 1), 1, inner) for inner in inners]
    nsh = bytes.fromhex("0c000004 00000000 0fc60103 000009fe") + bytes(16)
    heads = {"nsh": (4790, nsh), "mpls": (6635, bytes.fromhex("0000903ffe00013f"))}
    port, head = heads[encapsulation]
    return [tunnel(port, b"".join(head + inner for inner in inners), ipv6)]


def datagram(number, hops=64, ipv6=False):
    payload = struct.pack("!III", 7, 0, number) + bytes(20)
    udp = struct.pack("!HHHH", 20000, 5001, 8 + len(payload), 0) + payload
    if ipv6:
        packet = struct.pack("!IHBB", 6 << 28, len(udp), 17, hops) + bytes(32) + udp
        return OTHERS + captures.IPV6 + packet
    packet = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(udp), 1, 0, hops, 17, 0, 1, 2) + udp
    return OTHERS + captures.IPV4 + packet


class Carriers(unittest.TestCase):
    def test_every_frame_of_a_row_is_read_by_every_encapsulation(self):
        inners = [datagram(number, 64 - number, ipv6=number % 2) for number in range(5)]
        for encapsulation in ("nsh", "mpls", "source-route/native"):
            for ipv6 in (False, True):
                found = [pair for frame in carry(encapsulation, inners, ipv6)
                         for pair in carriers.carried(frame)]
                self.assertEqual(found, [(encapsulation, inner) for inner in inners])
        who = [carriers.identity(inner) for inner in inners]
        self.assertEqual([(one[:2], one[2][8:], one[3]) for one in who],
                         [((20000, 5001), struct.pack("!I", n), 64 - n) for n in range(5)])

    def test_what_carries_no_chain_is_passed_over(self):
        plain = tunnel(4789, bytes(8) + datagram(1))
        for frame in (plain, datagram(1), OTHERS + b"\x08\x06" + bytes(28)):
            self.assertEqual(list(carriers.carried(frame)), [])
        self.assertIsNone(carriers.identity(OTHERS + b"\x08\x06" + bytes(28)))

    def test_the_golden_headers_are_read(self):
        def golden(name):
            with open(os.path.join(GOLDENS, name), encoding="ascii") as file:
                lines = [line for line in file if not line.startswith("#")]
            return bytes.fromhex("".join(lines))

        read = carriers.read_route(golden("native_w4.hex"))
        self.assertEqual((read.ports, read.counter, read.path), ((8, 7, 6, 5, 4, 3, 2, 1), 8, None))
        read = carriers.read_route(golden("native_w6.hex"))
        self.assertEqual((read.ports, read.counter), (tuple(range(13, 0, -1)), 13))
        with self.assertRaises(carriers.Malformed):
            carriers.read_route(golden("native_all_parts.hex"))

    def test_headers_that_say_what_they_cannot_are_refused(self):
        good = route((5, 2, 1), 2, datagram(1))
        self.assertEqual(carriers.read_route(good).inner, datagram(1))
        for at, value in ((14, 0x28), (14, 0x15), (15, 0), (16, 4), (17, 0x08), (18, 0)):
            bad = good[:at] + bytes([value]) + good[at + 1:]
            with self.assertRaises(carriers.Malformed, msg=at):
                carriers.read_route(bad)
        for length in range(14, 25):
            with self.assertRaises(carriers.Malformed, msg=length):
                carriers.read_route(good[:length])
        narrow = route((5, 2, 1), 2, datagram(1), width=4)
        with self.assertRaises(carriers.Malformed):
            carriers.read_route(narrow[:19] + bytes([narrow[19] | 1]) + narrow[20:])


if __name__ == "__main__":
    unittest.main()
