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


def route(ports, counter, inner, path=7, width=8, detours=(), tag=b""):
    """A frame on its way over source routes; the ports by position."""
    flags = (0x00 if path is None else 0x04) | (0x02 if detours else 0) | (0x01 if tag else 0)
    head = bytes([0x10 | width, len(ports), counter, flags]) + pack(ports, width)
    behind = (b"" if path is None else path.to_bytes(3, "big")) + tag
    if detours:
        behind += bytes([len(detours)])
    for position, rejoin, own in detours:
        behind += bytes([position, rejoin, len(own)]) + pack(own, width)
    return inner[:12] + carriers.SOURCE_ROUTE + head + behind + inner[12:]


def marked(profile, ports, counter, inner, mark=7):
    """The same in fields of ordinary Ethernet; the ports by position."""
    octets = bytes(ports).ljust(7, b"\0")
    if profile == carriers.SAFE:
        bits = int.from_bytes(octets + mark.to_bytes(2, "big"), "big")
        high = bits >> 26
        address = (high >> 40 << 42 | 2 << 40 | high & (1 << 40) - 1).to_bytes(6, "big")
        vlan, label, ttl = (bits >> 15 & 0x7FF) + 1, 1 << 19 | bits & 0x7FFF, counter + 1
    else:
        bits = int.from_bytes(octets + b"\x11" + mark.to_bytes(2, "big"), "big")
        address = (bits >> 32).to_bytes(6, "big")
        vlan, label, ttl = bits >> 20 & 0xFFF, bits & 0xFFFFF, counter
    tags = struct.pack("!HHHI", 0x8100, vlan, 0x8847, label << 12 | 1 << 8 | ttl)
    return address + inner[6:12] + tags + inner[14:]


def labelled(way, inner, path=77, ttl=62):
    """The same with a label for each port that is left, in the order in which they are taken."""
    entries = [0xFFF00 << 12 | port << 12 | 64 for port in way] + [path << 12 | 1 << 8 | 64]
    entries[0] = entries[0] & ~0xFF | ttl
    return inner[:12] + b"\x88\x47" + b"".join(struct.pack("!I", one) for one in entries) + bytes(4) + inner


def numbered(number, octets, hops, inner, path=77, turn=0, degree=16):
    """The same with one number for all ports."""
    head = bytes([0x10 | turn, degree, hops, 0x04, octets]) + number.to_bytes(octets, "big")
    return inner[:12] + carriers.RESIDUE_ROUTE + head + path.to_bytes(3, "big") + inner[12:]


def tunnel(port, payload, ipv6=False):
    udp = struct.pack("!HHHH", 50000, port, 8 + len(payload), 0) + payload
    if ipv6:
        return OTHERS + captures.IPV6 + struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + bytes(32) + udp
    packet = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, 1, 2) + udp
    return OTHERS + captures.IPV4 + packet


SEGMENTED = ("srv6", "srv6/ethernet", "srv6/csid")


def segmented(encapsulation, inner):
    """Two segments of 16 octets, the first of them active (RFC 8754 section 2). Compressed (RFC 9800), IPv4 with the last
    one behind identifiers of 16 bits, and IPv6 with the last one alone."""
    kind = {captures.IPV4: 4, captures.IPV6: 41}[inner[12:14]]
    if encapsulation == "srv6/csid":
        last = bytes.fromhex("5f00 0000 0003 0040 0000 0064 0001 0000")
        routing = struct.pack("!BBBBBBH", kind, 2, 4, 1, 0, 0, 0) + last if kind == 4 else b""
        length = len(routing) + len(inner) - 14
        header = struct.pack("!IHBB", 6 << 28, length, 43 if routing else kind, 63) + bytes(16) + last
        return OTHERS + captures.IPV6 + header + routing + inner[14:]
    protocol, payload = (143, inner) if encapsulation == "srv6/ethernet" else (kind, inner[14:])
    routing = struct.pack("!BBBBBBH", protocol, 4, 4, 1, 1, 0, 0) + bytes(32)
    length = len(routing) + len(payload)
    header = struct.pack("!IHBB", 6 << 28, length, 43, 63) + bytes(32)
    return OTHERS + captures.IPV6 + header + routing + payload


def carry(encapsulation, inners, ipv6=False):
    """Frames between nodes that carry others: in a tunnel all in one row."""
    if encapsulation == "source-route/native":
        return [route((5, 2, 1), 1, inner) for inner in inners]
    if encapsulation in (carriers.SAFE, carriers.CLASSIC):
        return [marked(encapsulation, (6, 2, 1), 1, inner) for inner in inners]
    if encapsulation == carriers.LABELS:
        return [labelled((2, 6), inner) for inner in inners]
    if encapsulation == carriers.NUMBER:
        return [numbered(0x123456, 4, 2, inner) for inner in inners]
    if encapsulation in SEGMENTED:
        return [segmented(encapsulation, inner) for inner in inners]
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
        lossy = (carriers.SAFE, carriers.CLASSIC)
        for encapsulation in ("nsh", "mpls", "source-route/native", carriers.LABELS, carriers.NUMBER,
                              *SEGMENTED, *lossy):
            expected = [bytes(6) + inner[6:] if encapsulation in lossy else inner for inner in inners]
            if encapsulation in ("srv6", "srv6/csid"):
                expected = [bytes(12) + inner[12:] for inner in inners]
            for ipv6 in (False, True):
                found = [pair for frame in carry(encapsulation, inners, ipv6)
                         for pair in carriers.carried(frame)]
                self.assertEqual(found, [(encapsulation, inner) for inner in expected])
        who = [carriers.identity(inner) for inner in inners]
        self.assertEqual([(one[:2], one[2][8:], one[3]) for one in who],
                         [((20000, 5001), struct.pack("!I", n), 64 - n) for n in range(5)])

    def test_what_carries_no_chain_is_passed_over(self):
        plain = tunnel(4789, bytes(8) + datagram(1))
        inside = datagram(1)[14:]
        # IPv4 in IPv6 that is for no segment of a chain.
        other = OTHERS + captures.IPV6 + struct.pack("!IHBB", 6 << 28, len(inside), 4, 63) + bytes(32) + inside
        for frame in (plain, other, datagram(1), OTHERS + b"\x08\x06" + bytes(28)):
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
        read = carriers.read_route(golden("native_all_parts.hex"))
        self.assertEqual((read.ports, read.counter, read.path), ((13, 12, 11), 3, 0x123456))
        self.assertEqual((read.tag, read.detours), (b"\xe4\x7e", (carriers.Detour(2, 1, (22, 21)),)))
        read = carriers.read_route(golden("sr_mpls_three.hex"))
        self.assertEqual((read.ports, read.counter, read.path, read.ttl), ((5, 3, 1), 3, 0x1234, 64))
        for name, degree, polynomials in (
                ("polka_degree_8.hex", 8, (0x11B, 0x11D, 0x12B, 0x12D, 0x139, 0x13F, 0x14D, 0x15F, 0x163, 0x165)),
                ("polka_degree_16.hex", 16, (0x1002B, 0x1002D, 0x10039, 0x1003F, 0x10047, 0x10053, 0x1008D, 0x100BD,
                                             0x100D7, 0x100F5))):
            read = carriers.read_route(golden(name))
            number, turn, told = read.number
            self.assertEqual((told, turn, read.counter), (degree, 0, 10))
            self.assertEqual([carriers.remainder(number, one) for one in polynomials], list(range(11, 21)))
        packet = datagram(1)[14:]
        for name, profile, ports, mark in (
                ("safe9_marked", carriers.SAFE, (5, 3, 1), 0x1234),
                ("safe9_marked_seven", carriers.SAFE, tuple(range(17, 10, -1)), 0xFFFF),
                ("classic_marked", carriers.CLASSIC, (6, 3, 1), 0x1234),
                ("classic_marked_seven", carriers.CLASSIC, (128, 255, 254, 253, 252, 251, 250), 0xFFFF)):
            frame = golden(f"{name}.hex") + packet
            read = carriers.read_route(frame)
            self.assertEqual((carriers.profile_of(frame), read.ports, read.counter, read.path),
                             (profile, ports, len(ports), mark))
            self.assertEqual(read.inner[6:], frame[6:12] + captures.IPV4 + packet)

    def test_headers_that_say_what_they_cannot_are_refused(self):
        good = route((5, 2, 1), 2, datagram(1))
        self.assertEqual(carriers.read_route(good).inner, datagram(1))
        for at, value in ((14, 0x28), (14, 0x15), (15, 0), (16, 4), (17, 0x08), (17, 0x01), (18, 0)):
            bad = good[:at] + bytes([value]) + good[at + 1:]
            with self.assertRaises(carriers.Malformed, msg=at):
                carriers.read_route(bad)
        for length in range(14, 25):
            with self.assertRaises(carriers.Malformed, msg=length):
                carriers.read_route(good[:length])
        with self.assertRaises(carriers.Malformed):
            carriers.read_route(route((5, 2, 1), 2, datagram(1), tag=b"\1\2")[:25])
        for profile in (carriers.SAFE, carriers.CLASSIC):
            good = marked(profile, (6, 2, 1), 2, datagram(1))
            read = carriers.read_route(good)
            self.assertEqual((read.ports, read.counter, read.path), ((6, 2, 1), 2, 7))
            for at, value in ((20, good[20] & 0xFE), (21, 9), (22, 0x55)):
                bad = good[:at] + bytes([value]) + good[at + 1:]
                with self.assertRaises(carriers.Malformed, msg=at):
                    carriers.read_route(bad)
            with self.assertRaises(carriers.Malformed):
                carriers.read_route(marked(profile, (6, 0, 1), 2, datagram(1)))
        with self.assertRaises(carriers.Malformed):
            carriers.read_route(good[:18] + b"\x21" + good[19:])
        good = labelled((2, 6), datagram(1))
        read = carriers.read_route(good)
        self.assertEqual((read.ports, read.counter, read.path, read.ttl), ((6, 2), 2, 77, 62))
        self.assertEqual(carriers.stepped(read), carriers.read_route(labelled((6,), datagram(1), ttl=61)))
        # Another block, a bottom in the middle or none, no time, a port 0, something in the control word.
        for at, value in ((15, 0xE0), (16, 0x21), (24, 0xD0), (17, 0), (29, 1)):
            with self.assertRaises(carriers.Malformed, msg=at):
                carriers.read_route(good[:at] + bytes([value]) + good[at + 1:])
        with self.assertRaises(carriers.Malformed):
            carriers.read_route(labelled((2, 0), datagram(1)))
        for length in range(14, 30):
            with self.assertRaises(carriers.Malformed, msg=length):
                carriers.read_route(good[:length])
        good = numbered(0x123456, 4, 2, datagram(1))
        # Another version, a degree that is none, flags, no number, half a remainder.
        for at, value in ((14, 0x20), (15, 12), (17, 0x05), (18, 0), (18, 3)):
            with self.assertRaises(carriers.Malformed, msg=at):
                carriers.read_route(good[:at] + bytes([value]) + good[at + 1:])
        for length in range(14, 28):
            with self.assertRaises(carriers.Malformed, msg=length):
                carriers.read_route(good[:length])
        narrow = route((5, 2, 1), 2, datagram(1), width=4)
        with self.assertRaises(carriers.Malformed):
            carriers.read_route(narrow[:19] + bytes([narrow[19] | 1]) + narrow[20:])


if __name__ == "__main__":
    unittest.main()
