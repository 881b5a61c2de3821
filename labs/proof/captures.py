"""What all proofs share: classic pcap files of UDP over Ethernet, read some hundred thousand frames
a second, and the command line. Knows packet formats; refuses to know chains.

A packet is known by the 12 bytes at the head of each datagram: run, flow and number, four bytes
each. Links nothing of Catena.
"""

import json
import os
import struct
import sys
from collections import Counter, namedtuple

ETHERNET = 1  # link type of the captures
IPV4, IPV6, UDP = b"\x08\x00", b"\x86\xdd", 17
NSH, MPLS = b"\x89\x4f", b"\x88\x47"  # towards functions that speak the encapsulation
IDENTITY_BYTES = 12
MAGICS = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
          b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1)}

# One datagram at one interface: time in ns since 1970, whether it came in, IP hop limit, ports, the
# identity, and its bytes below the identity that a function may not change (a copy has the same), and
# the code point (RFC 2474).
Sight = namedtuple("Sight", "time is_in hops source_port port identity dscp")


# Where and when a frame was captured: time in seconds since 1970, direction "in" or "out".
At = namedtuple("At", "time node network direction")


EXAMPLES_MAX = 20  # violations told in full; all are counted


class Verdict:
    """Counts and examples of what is wrong."""

    def __init__(self):
        self.counts, self.examples = Counter(), []

    def complain(self, kind, text):
        self.counts[kind] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(text)

    def total(self):
        return sum(self.counts.values())


class Unreadable(Exception):
    """A capture or description that cannot be judged."""


def read(path):
    """(bytes, byte order, ns of a unit of time) of a classic pcap file."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 24:
        raise Unreadable(f"{path}: no pcap header")
    if data[:4] not in MAGICS:
        raise Unreadable(f"{path}: not a classic pcap file")
    order, unit = MAGICS[data[:4]]
    if struct.unpack(order + "I", data[20:24])[0] & 0xFFFF != ETHERNET:
        raise Unreadable(f"{path}: not captured on Ethernet")
    return data, order, unit


class Capture:
    """One file. `frames` is the number of all frames in it, once it has been read."""

    def __init__(self, path, mac):
        self.path, self.frames, self.foreign = path, 0, 0
        self.mac = mac_bytes(mac)
        self.data, self.order, self.unit = read(path)

    def sights(self, ports):
        """Yields a Sight of each datagram whose source or destination port is one of `ports`."""
        data, mac, unit, size = self.data, self.mac, self.unit, len(self.data)
        record = struct.Struct(self.order + "IIII").unpack_from
        head = struct.Struct("!HH").unpack_from
        at, frames = 24, 0
        while at < size:
            if at + 16 > size:
                raise Unreadable(f"{self.path}: ends inside a packet header")
            seconds, part, kept, _ = record(data, at)
            at += 16
            end = at + kept
            if end > size:
                raise Unreadable(f"{self.path}: ends inside a packet")
            frames += 1
            frame, at = at, end
            kind, inner = data[frame + 12:frame + 14], frame
            if kind == NSH or kind == MPLS:
                inner = beneath(data, frame, end)
                kind = data[inner + 12:inner + 14]
            if kind == IPV4:
                protocol, hops = data[inner + 23], data[inner + 22]
                dscp = data[inner + 15] >> 2
                udp = inner + 14 + (data[inner + 14] & 0x0F) * 4
                if data[inner + 20] & 0x1F or data[inner + 21]:
                    continue
            elif kind == IPV6:
                protocol, hops, udp = data[inner + 20], data[inner + 21], inner + 54
                dscp = (data[inner + 14] & 0x0F) << 2 | data[inner + 15] >> 6
            else:
                continue
            if udp + 8 + IDENTITY_BYTES > end or protocol != UDP:
                continue
            source_port, port = head(data, udp)
            if port not in ports and source_port not in ports:
                continue
            if data[frame:frame + 6] == mac:
                is_in = True
            elif data[frame + 6:frame + 12] == mac:
                is_in = False
            else:
                self.foreign += 1
                continue
            yield Sight(seconds * 1_000_000_000 + part * unit, is_in, hops, source_port, port,
                        data[udp + 8:udp + 8 + IDENTITY_BYTES], dscp)
        self.frames = frames


def as_they_came(sights):
    """The sights of one capture, none later than one behind it: the kernel gives a frame its place in the
    file under a lock and its time some moments after, so of two processors' frames the second may be stamped first."""
    sights, latest = list(sights), float("inf")
    for index in range(len(sights) - 1, -1, -1):
        latest = min(latest, sights[index].time)
        sights[index] = sights[index]._replace(time=latest)
    return sights


def whole_frames(path):
    """[(time in ns, place, frame)] of a capture, each whole."""
    data, order, unit = read(path)
    record, at, found = struct.Struct(order + "IIII").unpack_from, 24, []
    while at < len(data):
        if at + 16 > len(data):
            raise Unreadable(f"{path}: ends inside a packet header")
        seconds, part, kept, length = record(data, at)
        at += 16
        if at + kept > len(data) or kept < length:
            raise Unreadable(f"{path}: holds {kept} of {length} bytes of a packet")
        found.append((seconds * 1_000_000_000 + part * unit, data[at:at + kept]))
        at += kept
    # The kernel gives a frame its place first, and its time some moments after (as_they_came).
    latest, ordered = float("inf"), []
    for index in range(len(found) - 1, -1, -1):
        time, frame = found[index]
        latest = min(latest, time)
        ordered.append((time, (latest, index), frame))
    return ordered[::-1]


def read_pcap(path, whole=False):
    """Yields (time in seconds, frame bytes) of a classic pcap file; with `whole` none may be cut."""
    data, order, unit = read(path)
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            raise Unreadable(f"{path}: ends inside a packet header")
        seconds, part, kept, length = struct.unpack(order + "IIII", data[at:at + 16])
        at += 16
        if at + kept > len(data):
            raise Unreadable(f"{path}: ends inside a packet")
        if whole and kept < length:
            raise Unreadable(f"{path}: holds {kept} of {length} bytes of a packet")
        yield seconds + part * unit / 1e9, data[at:at + kept]
        at += kept


def frames(lab, folder, parse, complain):
    """Yields (At, what `parse` makes of the frame) over all captures of a lab, but for frames of which
    it makes None."""
    for group in ("endpoints", "functions"):
        for node, interfaces in lab[group].items():
            for network, interface in interfaces.items():
                if interface.get("lost"):
                    complain(f"the capture at {node}/{network} lost {interface['lost']} packets")
                if "pcap" not in interface:
                    continue
                own = mac_bytes(interface["mac"])
                for time, frame in read_pcap(os.path.join(folder, interface["pcap"])):
                    parsed = parse(frame)
                    if parsed is None:
                        continue
                    if own not in (frame[0:6], frame[6:12]):
                        complain(f"a packet was seen at {node}/{network}, though neither from nor "
                                 f"to it")
                        continue
                    direction = "in" if frame[0:6] == own else "out"
                    yield At(time, node, network, direction), parsed


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def beneath(data, frame, end):
    """Where the Ethernet frame below a chain header begins: NSH (RFC 8300 section 2.2) has its
    length in its second byte, MPLS (RFC 3032) says which label is the last."""
    at = frame + 14
    if data[frame + 12:at] == NSH:
        return min(at + (data[at + 1] & 0x3F) * 4, end)
    while at + 4 < end and not data[at + 2] & 1:
        at += 4
    return at + 4


def distrust(interface, capture, where):
    """What speaks against a capture that has been read, as sentences: what it lost must not be
    taken for what the network lost."""
    faults = []
    if interface.get("lost"):
        faults.append(f"the capture at {where} lost {interface['lost']} packets")
    counted = interface.get("counted")
    if counted is not None and capture.frames < counted:
        faults.append(f"the capture at {where} holds {capture.frames} frames, its interface counted "
                      f"{counted}")
    if capture.foreign:
        faults.append(f"{capture.foreign} datagrams were seen at {where}, though neither from nor to "
                      f"it")
    return faults


def run(arguments, usage, prove, write_table=None):
    """The command line of a proof: judges a description by `prove(lab, folder)`, writes the verdict
    and tells what is wrong; the exit status. With `write_table(path, verdict)` there is one more
    argument, for a table."""
    if len(arguments) != 2 + bool(write_table):
        print(usage, file=sys.stderr)
        return 2
    description, output, *table = arguments
    try:
        with open(description, encoding="utf-8") as file:
            lab = json.load(file)
        verdict = prove(lab, os.path.dirname(os.path.abspath(description)))
    except (OSError, ValueError, KeyError, Unreadable) as error:
        print(f"cannot be judged: {error!r}", file=sys.stderr)
        return 2
    with open(output, "w", encoding="utf-8") as file:
        json.dump(verdict, file, indent=2)
    for path in table:
        write_table(path, verdict)
    for text in verdict["violations"]:
        print(text, file=sys.stderr)
    if not verdict["ok"]:
        print(f"{verdict['violation_count']} violations", file=sys.stderr)
    return 0 if verdict["ok"] else 1
