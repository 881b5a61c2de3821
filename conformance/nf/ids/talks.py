"""Packets as rules see them: headers, flows, streams put together, requests of HTTP. Knows bytes and what came before;
nothing of rules, and nothing of the engine that is judged."""
import re
import struct

TCP, UDP, ICMP, ICMP6, FRAGMENT = 6, 17, 1, 58, 44
FIN, SYN, RST, ACK = 1, 2, 4, 16
REQUEST_LINE = re.compile(rb"([A-Z]+) +(\S+) +HTTP/1\.[01]\r?\n")


class Packet:
    """One whole packet in its frame."""

    def __init__(self, frame):
        kind, at = struct.unpack_from("!H", frame, 12)[0], 14
        if kind == 0x0800:
            head = (frame[at] & 15) * 4
            end = at + struct.unpack_from("!H", frame, at + 2)[0]
            self.ttl, self.protocol = frame[at + 8], frame[at + 9]
            source, target = frame[at + 12:at + 16], frame[at + 16:at + 20]
        else:
            head = 40
            end = at + 40 + struct.unpack_from("!H", frame, at + 4)[0]
            self.protocol, self.ttl = frame[at + 6], frame[at + 7]
            source, target = frame[at + 8:at + 24], frame[at + 24:at + 40]
        version = 4 if len(source) == 4 else 6
        self.source, self.target = ((version, int.from_bytes(address, "big")) for address in (source, target))
        upper = frame[at + head:end]
        self.ports = self.flags = self.icmp = None
        if self.protocol == TCP:
            self.ports = struct.unpack_from("!HH", upper)
            self.sequence = struct.unpack_from("!I", upper, 4)[0]
            self.flags = upper[13]
            self.payload = upper[(upper[12] >> 4) * 4:]
        elif self.protocol == UDP:
            self.ports = struct.unpack_from("!HH", upper)
            self.payload = upper[8:]
        elif self.protocol in (ICMP, ICMP6):
            self.icmp = (upper[0], upper[1])
            self.payload = upper[8:]
        else:
            self.payload = upper
        self.end = (self.source, self.ports and self.ports[0])
        self.other = (self.target, self.ports and self.ports[1])

    @property
    def flow(self):
        return self.protocol, *sorted((self.end, self.other))


class Fragments:
    """Packets of which parts have come."""

    def __init__(self):
        self.known = {}

    def whole(self, frame):
        """The packet that is whole with this frame; none: more must come."""
        is_v6 = frame[12:14] == b"\x86\xdd"
        word = struct.unpack_from("!H", frame, 56 if is_v6 else 20)[0]
        if is_v6 and frame[20] != FRAGMENT or not is_v6 and not word & 0x3fff:
            return frame
        if is_v6:
            key, offset, has_more = frame[22:54] + frame[58:62], word & 0xfff8, word & 1
            data = frame[62:54 + struct.unpack_from("!H", frame, 18)[0]]
        else:
            key, offset, has_more = frame[26:34] + frame[18:20] + frame[23:24], (word & 0x1fff) * 8, word & 0x2000
            data = frame[34:14 + struct.unpack_from("!H", frame, 16)[0]]
        parts = self.known.setdefault(key, {})
        parts.update({offset + at: byte for at, byte in enumerate(data)})
        if not has_more:
            parts["end"] = offset + len(data)
        if len(parts) - 1 != parts.get("end"):
            return None
        payload = bytes(parts[at] for at in range(parts["end"]))
        del self.known[key]
        if is_v6:
            return frame[:18] + struct.pack("!HB", len(payload), frame[54]) + frame[21:54] + payload
        return frame[:16] + struct.pack("!HHH", 20 + len(payload), 0, 0) + frame[22:34] + payload


class Stream:
    """One way of a connection."""

    def __init__(self, first):
        self.next, self.bytes, self.early, self.seen = first, bytearray(), {}, 0

    def copy(self):
        other = Stream(self.next)
        other.bytes, other.early, other.seen = bytearray(self.bytes), dict(self.early), self.seen
        return other

    def add(self, sequence, payload):
        """Takes a segment in; of bytes that come twice the first stay."""
        for at, byte in enumerate(payload):
            place = (sequence + at - self.next) & 0xffffffff
            if place < 1 << 31:
                self.early.setdefault((sequence + at) & 0xffffffff, byte)
        while self.next in self.early:
            self.bytes.append(self.early.pop(self.next))
            self.next = (self.next + 1) & 0xffffffff


class Request:
    """What the head of a request says."""

    def __init__(self, method, url, lines):
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        of = lambda wanted: [value for name, value in headers if name.lower() == wanted]
        self.method, self.uri = method, plain_uri(url)
        self.header = b"".join(name + b": " + value + b"\r\n" for name, value in headers if name.lower() != b"cookie")
        self.host = re.sub(rb":\d*$", b"", (of(b"host") or [b""])[0]).lower()
        self.user_agent = b", ".join(of(b"user-agent"))
        self.length = int((of(b"content-length") or [b"0"])[0])

    def buffers(self):
        return {name: getattr(self, name) for name in ("method", "uri", "header", "host", "user_agent")}


def unescaped(text):
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text)


def plain_uri(url):
    """Without scheme and authority, escapes undone once, steps taken (RFC 3986 section 6.2.2)."""
    whole = re.match(rb"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*", url)
    url = url[whole.end():] or b"/" if whole else url
    path, mark, query = url.partition(b"?")
    steps, taken = re.sub(rb"/+", b"/", unescaped(path)).split(b"/"), []
    for at, step in enumerate(steps):
        is_last = at + 1 == len(steps)
        if step == b".." and at:
            del taken[max(1, len(taken) - 1):]
        elif step != b"." or not at:
            taken.append(step)
        if is_last and at and step in (b".", b".."):
            taken.append(b"")
    return b"/".join(taken) + unescaped(mark + query)


class Flow:
    """Both ways of a flow."""

    def __init__(self, packet):
        answers = packet.flags is not None and packet.flags & (SYN | ACK) == SYN | ACK
        self.client = packet.other if answers else packet.end
        self.streams, self.bits, self.handshake = {}, set(), 0
        self.spoke, self.established, self.is_http = set(), False, False
        self.requests_from, self.requests_end = 0, False

    def is_to_server(self, packet):
        return packet.end == self.client

    def follow(self, packet):
        self.spoke.add(self.is_to_server(packet))
        if packet.protocol != TCP:
            self.established = len(self.spoke) == 2
            return
        flags, to_server = packet.flags & (SYN | ACK), self.is_to_server(packet)
        step = {(0, SYN, True): 1, (1, SYN | ACK, False): 2, (2, ACK, True): 3}.get((self.handshake, flags, to_server))
        self.handshake = step or self.handshake
        self.established = self.handshake == 3
        first = (packet.sequence + bool(flags & SYN)) & 0xffffffff
        stream = self.streams.setdefault(to_server, Stream(first))
        stream.add(first, packet.payload)

    def requests(self):
        """The requests that have become whole since the last time."""
        found = []
        stream = self.streams.get(True)
        while stream and not self.requests_end:
            rest = bytes(stream.bytes[self.requests_from:])
            head, mark, _ = rest.partition(b"\r\n\r\n")
            if not mark:
                break
            line = REQUEST_LINE.match(head + b"\r\n")
            if not line:
                self.requests_end = True
                break
            request = Request(line[1], line[2], head[line.end():].split(b"\r\n") if len(head) > line.end() else [])
            self.requests_from += len(head) + 4 + request.length
            found.append(request)
        self.is_http |= bool(found)
        return found
