"""What nodes send each other: source routes by links, NSH and MPLS in tunnels over UDP. Reads the frame that
each carries, and who it is. Knows formats; refuses to know chains and cables.

Source routes are those of docs/internals/source-routes.md. Links nothing of Catena.
"""

import struct
from collections import namedtuple

from captures import IDENTITY_BYTES, IPV4, IPV6, MPLS, NSH, UDP, Unreadable, beneath, read_pcap

SOURCE_ROUTE = b"\x88\xb5"
VLAN = b"\x81\x00"
NATIVE, SAFE, CLASSIC = "source-route/native", "source-route/safe-9", "source-route/classic-80"
LABELS, NUMBER = "source-route/sr-mpls", "source-route/polka"
RESIDUE_ROUTE = b"\x88\xb6"
ROUTING, SEGMENTS, ETHERNET = 43, 4, 143  # next headers, and the routing type (RFC 8754)
COMPRESSED = (43, 64)  # functions of last segments behind identifiers of 16 bits (RFC 9800)
TUNNELS = {4790: "nsh", 6635: "mpls"}  # VXLAN-GPE, MPLS over UDP (RFC 7510)
VXLAN_GPE_BYTES, GPE_OF_NSH = 8, 4
VERSION, WIDTHS = 1, (4, 6, 8)
FLAG_TAG, FLAG_DETOURS, FLAG_PATH = 0x01, 0x02, 0x04

# What stands in position 8 of a classic-80 header that has a mark behind its ports, and how many ports that are.
FILLING, MARKED_PORTS = 0x11, 7

# Labels that name ports, and those that name paths.
PORT_LABELS, PATH_LABELS = range(0xFFF00, 0x100000), range(16, 0x80000)

# One way in a frame: its ports by position (position 1 first), how many are still to be taken, whose packet it
# is, its ways round dead cables, and the frame behind the header, addresses in front as they always are. Where the
# header stands in the place of the destination address, that is nobody's. Where ports that were taken are gone
# from the header, `ttl` is how many nodes it may still pass; None where they stay. Where one number stands for all
# ports, that is (number, pass, its degree), and no port is told apart. The tag is the one of the domain's key, which
# nobody here knows.
Route = namedtuple("Route", "ports counter path detours inner ttl number tag", defaults=(None, None, None))
# A way round the cable at a position: where the way goes on, and ports by position.
Detour = namedtuple("Detour", "counter rejoin ports")


class Malformed(Exception):
    """A header that says what it cannot."""


def profile_of(frame):
    """The encapsulation of a frame on a source route; None of any other."""
    if frame[12:14] == SOURCE_ROUTE:
        return NATIVE
    if frame[12:14] == MPLS:
        return LABELS
    if frame[12:14] == RESIDUE_ROUTE:
        return NUMBER
    if frame[12:14] != VLAN or frame[16:18] != MPLS or len(frame) < 22:
        return None
    vlan, label = struct.unpack("!H", frame[14:16])[0] & 0x0FFF, int.from_bytes(frame[18:21], "big") >> 4
    is_safe = frame[0] & 3 == 2 and label >> 15 == 0x10 and 1 <= vlan <= 2048
    return SAFE if is_safe else CLASSIC


def read_route(frame):
    """The source route of a frame that is on one."""
    profile = profile_of(frame)
    if profile == LABELS:
        return read_labels(frame)
    if profile == NUMBER:
        return read_number(frame)
    return read_native(frame) if profile == NATIVE else read_marked(frame, profile == SAFE)


def read_labels(frame):
    """The ports in a stack of labels, the path in the last of them, and the frame behind its control word."""
    way, at, ttl = (), 14, octet(frame, 17)
    while True:
        octet(frame, at + 3)
        label, bottom = int.from_bytes(frame[at:at + 3], "big") >> 4, frame[at + 2] & 1
        at += 4
        if label not in (PATH_LABELS if bottom else PORT_LABELS):
            raise Malformed(f"has label {label} {'at the bottom' if bottom else 'above it'}")
        if bottom:
            break
        way += (label & 0xFF,)
    octet(frame, at + 3)
    if 0 in way or not ttl or any(frame[at:at + 4]):
        raise Malformed(f"ports {way}, time to live {ttl}, control word {frame[at:at + 4].hex()}")
    return Route(way[::-1], len(way), label, (), frame[at + 4:], ttl)


def read_number(frame):
    """The number of a way in a frame of EtherType 0x88b6."""
    octet(frame, 18)
    version, turn, degree, hops, flags, length = frame[14] >> 4, frame[14] & 0x0F, *frame[15:19]
    at = 19 + length
    if version != VERSION or degree not in (8, 16) or not length or length * 8 % degree or flags & ~FLAG_PATH:
        raise Malformed(f"version {version}, degree {degree}, flags {flags:#04x}, {length} octets")
    path = None
    if flags & FLAG_PATH:
        octet(frame, at + 2)
        path, at = int.from_bytes(frame[at:at + 3], "big"), at + 3
    octet(frame, at + 1)
    number = int.from_bytes(frame[19:19 + length], "big"), turn, degree
    return Route((), hops, path, (), frame[:12] + frame[at:], None, number)


def remainder(number, polynomial):
    """What a polynomial over GF(2) leaves of another, coefficients as bits."""
    degree = polynomial.bit_length()
    while number.bit_length() >= degree:
        number ^= polynomial << number.bit_length() - degree
    return number


def stepped(route):
    """What a route is like once a node has taken its next port."""
    if route.ttl is None:
        return route._replace(counter=route.counter - 1)
    return route._replace(ports=route.ports[:-1], counter=route.counter - 1, ttl=route.ttl - 1)


def read_marked(frame, is_safe):
    """The ports and the mark in the 80 bits of destination address, VLAN and label, or in the 72 of safe-9."""
    vlan = struct.unpack("!H", frame[14:16])[0] & 0x0FFF
    label, ttl, bottom = int.from_bytes(frame[18:21], "big") >> 4, frame[21], frame[20] & 1
    address = int.from_bytes(frame[:6], "big")
    if is_safe:
        # Without the two lowest bits of the first octet.
        high = address >> 42 << 40 | address & (1 << 40) - 1
        bits = high << 26 | vlan - 1 << 15 | label & 0x7FFF
        octets, counter = bits.to_bytes(9, "big"), ttl - 1
    else:
        octets, counter = (address << 32 | vlan << 20 | label).to_bytes(10, "big"), ttl
        if octets[MARKED_PORTS] != FILLING:
            raise Malformed(f"position 8 is {octets[MARKED_PORTS]:#04x}")
    ports = tuple(octets[:MARKED_PORTS].rstrip(b"\0"))
    if not bottom or not 0 <= counter <= len(ports) or not ports or 0 in ports:
        raise Malformed(f"{counter} of {len(ports)} ports left, the last label {bool(bottom)}")
    kind = {4: IPV4, 6: IPV6}.get(frame[22] >> 4 if len(frame) > 22 else 0)
    if kind is None:
        raise Malformed("holds no IP packet")
    inner = bytes(6) + frame[6:12] + kind + frame[22:]
    return Route(ports, counter, int.from_bytes(octets[-2:], "big"), (), inner)


def read_native(frame):
    """The source route of a frame of EtherType 0x88b5."""
    head = frame[14:18]
    if len(head) < 4:
        raise Malformed("ends inside its header")
    version, width, count, counter, flags = head[0] >> 4, head[0] & 0x0F, head[1], head[2], head[3]
    if version != VERSION or width not in WIDTHS or not count or counter > count:
        raise Malformed(f"version {version}, width {width}, {counter} of {count} ports left")
    if flags & ~(FLAG_TAG | FLAG_PATH | FLAG_DETOURS) or flags & (FLAG_TAG | FLAG_PATH) == FLAG_TAG:
        raise Malformed(f"flags {flags:#04x}")
    ports, at = read_ports(frame, 18, count, width)
    path = tag = None
    if flags & FLAG_PATH:
        path, at = int.from_bytes(frame[at:at + 3], "big"), at + 3
    if flags & FLAG_TAG:
        octet(frame, at + 1)
        tag, at = frame[at:at + 2], at + 2
    detours = ()
    if flags & FLAG_DETOURS:
        number, at = octet(frame, at), at + 1
        for _ in range(number):
            position, rejoin, size = (octet(frame, at + place) for place in range(3))
            own, at = read_ports(frame, at + 3, size, width)
            if not own or not rejoin < position <= count:
                raise Malformed(f"has a detour of {size} ports from {position} to {rejoin}")
            detours += (Detour(position, rejoin, own),)
    if len(frame) < at + 2:
        raise Malformed("ends inside its header")
    return Route(ports, counter, path, detours, frame[:12] + frame[at:], tag=tag)


def octet(frame, at):
    if at >= len(frame):
        raise Malformed("ends inside its header")
    return frame[at]


def read_ports(frame, at, count, width):
    """Packed ports, the first at position 1, and where they end."""
    octets = (count * width + 7) // 8
    if len(frame) < at + octets:
        raise Malformed("ends inside its header")
    bits = int.from_bytes(frame[at:at + octets], "big")
    mask = (1 << width) - 1
    ports = tuple(bits >> octets * 8 - (index + 1) * width & mask for index in range(count))
    if 0 in ports or bits & (1 << octets * 8 - count * width) - 1:
        raise Malformed("has a port 0, or something behind the last")
    return ports, at + octets


def is_hello(frame):
    """Is a frame of EtherType 0x88b5 a word between data planes, and no route? Its ports would have no width."""
    return frame[12:14] == SOURCE_ROUTE and octet(frame, 14) == VERSION << 4


def detoured(route):
    """What a route is like, its first port taken, with the detour for the port that is next; None if it has none."""
    for detour in route.detours:
        if detour.counter != route.counter:
            continue
        taken = detour.rejoin + len(detour.ports)
        ports = route.ports[:detour.rejoin] + detour.ports + route.ports[taken:]
        kept = tuple(one for one in route.detours if one.counter <= detour.rejoin)
        return route._replace(ports=ports, counter=taken - 1, detours=kept)
    return None


def frame_end(data, at):
    """Where the Ethernet frame that begins at `at` ends, by what its IP header says."""
    kind = data[at + 12:at + 14]
    if kind == IPV4:
        length = 14 + struct.unpack("!H", data[at + 16:at + 18])[0]
    elif kind == IPV6:
        length = 54 + struct.unpack("!H", data[at + 18:at + 20])[0]
    else:
        return len(data)
    return min(at + length, len(data))


def segmented(frame):
    """(encapsulation, inner frame) of an IPv6 packet behind a segment routing header (RFC 8754), or behind nothing but the
    last of compressed segments (RFC 9800); None of any other. Of a packet without a frame of its own, one without
    addresses is made."""
    if frame[12:14] != IPV6:
        return None
    if frame[20] == ROUTING and frame[56] == SEGMENTS:
        inner, protocol, last = 54 + 8 * (frame[55] + 1), frame[54], frame[62:78]
    else:
        inner, protocol, last = 54, frame[20], frame[38:54]
    is_compressed = int.from_bytes(last[6:8], "big") in COMPRESSED
    end = 54 + struct.unpack("!H", frame[18:20])[0]
    if protocol == ETHERNET and inner > 54:
        return "srv6/ethernet", frame[inner:frame_end(frame[:end], inner)]
    kind = {4: IPV4, 41: IPV6}.get(protocol)
    if not kind or inner == 54 and not is_compressed:
        return None
    return "srv6/csid" if is_compressed else "srv6", bytes(12) + kind + frame[inner:end]


def carried(frame):
    """Yields (encapsulation, inner frame) of all that a frame between nodes carries for chains. In a tunnel several
    may follow one another in one frame: the kernel sends a row of datagrams as one, and cuts it only where the
    device cannot."""
    kind, profile = frame[12:14], profile_of(frame)
    if is_hello(frame):
        return
    if profile:
        yield profile, read_route(frame).inner
        return
    if found := segmented(frame):
        yield found
        return
    if kind == IPV4:
        udp, protocol = 14 + (frame[14] & 0x0F) * 4, frame[23]
    elif kind == IPV6:
        udp, protocol = 54, frame[20]
    else:
        return
    if protocol != UDP:
        return
    encapsulation = TUNNELS.get(struct.unpack("!H", frame[udp + 2:udp + 4])[0])
    at = udp + 8
    while encapsulation and at < len(frame):
        if encapsulation == "nsh":
            if frame[at + 3] != GPE_OF_NSH:
                return
            at += VXLAN_GPE_BYTES
        # As if an Ethernet header stood in front.
        rest = bytes(12) + (NSH if encapsulation == "nsh" else MPLS) + frame[at:]
        inner = at + beneath(rest, 0, len(rest)) - 14
        end = frame_end(frame, inner)
        yield encapsulation, frame[inner:end]
        at = end


def identity(frame):
    """(source port, destination port, run, flow and number, hop limit) of a datagram of ours; None of anything
    else."""
    kind = frame[12:14]
    if kind == IPV4 and len(frame) > 34:
        protocol, hops, udp = frame[23], frame[22], 14 + (frame[14] & 0x0F) * 4
        if frame[20] & 0x1F or frame[21]:
            return None
    elif kind == IPV6 and len(frame) > 54:
        protocol, hops, udp = frame[20], frame[21], 54
    else:
        return None
    if protocol != UDP or len(frame) < udp + 8 + IDENTITY_BYTES:
        return None
    ports = struct.unpack("!HH", frame[udp:udp + 4])
    return *ports, frame[udp + 8:udp + 8 + IDENTITY_BYTES], hops


def frames(path):
    """The frames of a capture between nodes, each whole."""
    for _, frame in read_pcap(path, whole=True):
        yield frame


def read_carriers(captures, folder, port, complain):
    """{identity of a datagram: the encapsulations that it was seen in between nodes}, of the datagrams to a
    port."""
    seen = {}
    for capture in captures:
        where = f"{capture['node']}/{capture['interface']}"
        if capture.get("lost"):
            complain(f"the capture at {where} lost {capture['lost']} packets")
        try:
            for frame in frames(f"{folder}/{capture['pcap']}"):
                for encapsulation, inner in carried(frame):
                    who = identity(inner)
                    if who and who[1] == port:
                        seen.setdefault(who[2], set()).add(encapsulation)
        except (Malformed, IndexError, struct.error) as error:
            raise Unreadable(f"a frame at {where}: {error!r}") from error
    return seen
