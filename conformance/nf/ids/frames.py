"""Writes frames and the talks that they make up, as a client and a server would say them. Knows headers and
checksums."""
import ipaddress
import struct

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
FRAGMENT = 44
PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmp6": 58}
MACS = bytes.fromhex("020000000002020000000001")
# Between packets of one talk.
STEP_US = 1_000


def summed(data):
    words = struct.unpack(f"!{len(data) // 2}H", data) if len(data) % 2 == 0 else struct.unpack(
        f"!{len(data) // 2 + 1}H", data + b"\0")
    total = sum(words)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return 0xffff - total


def frame(source, target, protocol, upper, ttl, checksum_at):
    """A frame of IP; the checksum of what it carries is written at `checksum_at`."""
    source, target = ipaddress.ip_address(source), ipaddress.ip_address(target)
    ends = source.packed + target.packed
    pseudo = b"" if protocol == PROTOCOLS["icmp"] else ends + struct.pack("!II", len(upper), protocol)
    value = summed(pseudo + upper) or (0xffff if protocol == PROTOCOLS["udp"] else 0)
    upper = upper[:checksum_at] + struct.pack("!H", value) + upper[checksum_at + 2:]
    if source.version == 6:
        head = struct.pack("!IHBB", 6 << 28, len(upper), protocol, ttl) + ends
        return MACS + b"\x86\xdd" + head + upper
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(upper), 1, 0, ttl, protocol, 0) + ends
    head = head[:10] + struct.pack("!H", summed(head)) + head[12:]
    return MACS + b"\x08\x00" + head + upper


def fragments(packet, size, identification):
    """The same packet in fragments of so many bytes."""
    is_v6 = packet[12:14] == b"\x86\xdd"
    start = 54 if is_v6 else 34
    data = packet[start:]
    made = []
    for at in range(0, len(data), size):
        part, has_more = data[at:at + size], at + size < len(data)
        if is_v6:
            head = packet[:18] + struct.pack("!HB", 8 + len(part), FRAGMENT) + packet[21:54]
            head += struct.pack("!BBHI", packet[20], 0, at | has_more, identification)
        else:
            word = at // 8 | has_more << 13
            head = packet[14:16] + struct.pack("!HHH", 20 + len(part), identification, word) + packet[22:24]
            head = packet[:14] + head + b"\0\0" + packet[26:34]
            head = head[:24] + struct.pack("!H", summed(head[14:34])) + head[26:]
        made.append(head + part)
    return made


class Talk:
    """What two ends say; `packets` are (microseconds, direction, frame in hexadecimal)."""

    def __init__(self, client, server, ttl=64, start_us=1_000_000):
        self.client, self.server, self.ttl = client, server, ttl
        self.places = {True: 1_000, False: 9_000}
        self.packets, self.now_us = [], start_us

    def _put(self, from_client, made):
        self.packets.append([self.now_us, "f" if from_client else "b", made.hex()])
        self.now_us += STEP_US

    def _ends(self, from_client):
        return (self.client, self.server) if from_client else (self.server, self.client)

    def segment(self, from_client, flags, payload=b"", ahead=0):
        """A segment of TCP; one that is `ahead` of its turn leaves the turn as it is."""
        (source, sport), (target, dport) = self._ends(from_client)
        place = self.places[from_client] + ahead
        other = self.places[not from_client] if flags & ACK else 0
        numbers = (place & 0xffffffff, other & 0xffffffff)
        upper = struct.pack("!HHIIBBHHH", sport, dport, *numbers, 5 << 4, flags, 8192, 0, 0)
        self._put(from_client, frame(source, target, PROTOCOLS["tcp"], upper + payload, self.ttl, 16))
        if not ahead:
            self.places[from_client] += len(payload) + bool(flags & SYN) + bool(flags & FIN)

    def handshake(self):
        self.segment(True, SYN)
        self.segment(False, SYN | ACK)
        self.segment(True, ACK)

    def data(self, from_client, payload):
        self.segment(from_client, PSH | ACK, payload)

    def datagram(self, from_client, payload):
        (source, sport), (target, dport) = self._ends(from_client)
        upper = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0)
        self._put(from_client, frame(source, target, PROTOCOLS["udp"], upper + payload, self.ttl, 6))

    def message(self, kind, code, payload):
        """A message of ICMP."""
        (source, _), (target, _) = self._ends(True)
        name = "icmp6" if ":" in source else "icmp"
        upper = struct.pack("!BBHHH", kind, code, 0, 7, 1) + payload
        self._put(True, frame(source, target, PROTOCOLS[name], upper, self.ttl, 2))

    def wait(self, seconds):
        self.now_us += round(seconds * 1_000_000)
