"""Segment routing headers that take records of nodes along, as docs/internals/srv6.md draws them. Knows the bits;
refuses to know chains and clocks.

Links nothing of Catena.
"""

import struct
from collections import namedtuple

from captures import IPV6
from carriers import Malformed, ROUTING, SEGMENTS

FLAG_RECORDS = 0x01
TAG_VERSION = 1
TLV, TLV_BYTES = 252, 6
FIELDS = {"device": 0x10, "arrival": 0x08, "latency": 0x04, "queue": 0x02, "counter": 0x01}
ARRIVAL_BITS, COUNTER_BITS = 40, 20
LATENCY_UNIT_NS, LATENCY_MAX = 128, 0xFFFFFF
ROUTING_AT = 54  # behind Ethernet and IPv6
ADDRESS_BYTES = 16

# One header: addresses of IPv6, the bytes of the packet behind Ethernet, what the routing header says, its tag taken
# apart, the list as it stands (its last segment first), which fields records have, and the detection result.
Header = namedtuple("Header", "source destination bytes protocol left flags version functions pending incomplete "
                              "mirrored colour entries map result")
# One record. A field that its node did not know is None.
Record = namedtuple("Record", "valid saturated of_function synchronised device arrival latency queue counter")


def is_segmented(frame):
    return frame[12:14] == IPV6 and frame[20:21] == bytes([ROUTING]) and frame[56:57] == bytes([SEGMENTS])


def read_header(frame):
    """The header of a frame that takes records along; None of any other."""
    if not is_segmented(frame) or len(frame) < 62 or not frame[59] & FLAG_RECORDS:
        return None
    protocol, length, _, left, last, flags, tag = struct.unpack("!BBBBBBH", frame[54:62])
    tlv = 62 + ADDRESS_BYTES * (last + 1)
    end = ROUTING_AT + 8 * (length + 1)
    if end > len(frame) or tlv + 2 + TLV_BYTES != end:
        raise Malformed(f"has {8 * (length + 1)} bytes of routing header for {last + 1} segments")
    kind, size, fields, result = struct.unpack("!BBHI", frame[tlv:end])
    if (kind, size) != (TLV, TLV_BYTES) or fields >> 5 or not fields:
        raise Malformed(f"ends with a TLV of type {kind}, {size} bytes and map {fields:#06x}")
    if left > last:
        raise Malformed(f"has {left} of {last + 1} segments left")
    entries = tuple(frame[at:at + ADDRESS_BYTES] for at in range(62, tlv, ADDRESS_BYTES))
    destination = frame[38:54]
    if destination != entries[left]:
        raise Malformed(f"leads to {destination.hex()}, and {entries[left].hex()} is its segment")
    payload = struct.unpack("!H", frame[18:20])[0]
    return Header(frame[22:38], destination, payload + 40, protocol, left, flags, tag >> 12, bool(tag & 0x800),
                  bool(tag & 0x400), bool(tag & 0x200), bool(tag & 0x100), tag & 0xFF, entries, fields, result)


def is_record(entry):
    return entry[0] >> 4 == 1


def read_record(entry):
    """The record in an entry that is one."""
    bits = int.from_bytes(entry, "big")

    def field(first, width):
        return bits >> 128 - first - width & (1 << width) - 1

    valid = field(4, 5)

    def known(name, values):
        if valid & FIELDS[name]:
            return values if len(values) > 1 else values[0]
        if any(values):
            raise Malformed(f"says {values} of a {name} that is not known")
        return None

    saturated = bool(field(9, 1))
    latency = known("latency", (field(72, 24),))
    if saturated and latency != LATENCY_MAX:
        raise Malformed(f"has a latency of {latency} units that is said to be out of bounds")
    return Record(valid, saturated, bool(field(10, 1)), bool(field(11, 1)), known("device", (field(16, 16),)),
                  known("arrival", (field(32, 40),)), latency, known("queue", (field(12, 4), field(96, 12))),
                  known("counter", (field(108, 20),)))


def path_of(address):
    """The path that a segment identifier names."""
    return int.from_bytes(address[8:12], "big")
