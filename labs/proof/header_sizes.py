#!/usr/bin/env python3
"""How many bytes stand in front of a packet at its last node, by the number of hops, with telemetry in it: ours, as
measured in captures where there are some of that many hops, and those of other formats, by what their documents say.

Links nothing of Catena and takes no figure of it: what bench/src/srv6/sizes.rs counts comes from headers that are
written there, what is here from the widths of fields. Each hop writes as much in all formats, 16 bytes, but in Path
Tracing, which writes less, and knows less of a node.

Usage: header_sizes.py CAPTURES...    (folders of that name of runs of labs/srv6-int.yaml)
Exit status 0 if ours are as long as its format says, 1 if not, 2 if it cannot be judged.
"""

import json
import os
import struct
import sys
from collections import Counter, namedtuple
from decimal import ROUND_HALF_UP, Decimal

from captures import Unreadable, whole_frames
from carriers import ETHERNET, Malformed, segmented as segmented_packet
from records import is_segmented, read_header
from telemetry_proof import packet_end

HOPS = range(2, 17)

ETHERNET_BYTES = 14
IPV6 = 40  # RFC 8200 section 3
ROUTING, SEGMENT = 8, 16  # RFC 8754 section 2
# Of ours, docs/internals/srv6.md. In bits: what a record is known by, fields that are valid, three flags, queue,
# device, arrival, latency, queue length, counter. In bytes: type and length, fields, detection result.
RECORD = (4 + 5 + 3 + 4 + 16 + 40 + 24 + 12 + 20) // 8
TLV = 2 + 2 + 4
# INT-MD (p4.org, INT 2.1): shim and header; node, latency of the hop, time of ingress (bits 0, 2 and 4).
SHIM, INT_MD, INT_MD_HOP = 4, 12, 4 + 4 + 8
# IOAM, a pre-allocated trace (RFC 9197 section 4.4) in a hop-by-hop header (RFC 9486 section 3): type, length, a
# reserved octet and the type of IOAM; namespace, lengths, trace type; node, two words of time, transit delay (bits 0,
# 2, 3 and 4). An option has one octet for its length.
HOP_BY_HOP, OPTION, TRACE, IOAM_HOP = 2, 1 + 1 + 1 + 1, 2 + 2 + 4, 4 + 4 + 4 + 4
OPTION_MAX = 2 + 255
# NEXT-CSID (RFC 9800 section 4.1): identifiers of 16 bits behind a block of 32 in the 128 of an address.
PER_CONTAINER = (128 - 32) // 16
# Path Tracing: 14 hops in a hop-by-hop header of 40 bytes (draft-filsfils-spring-path-tracing, abstract).
PATH_TRACING, PATH_TRACING_HOPS = 40, 14

SOURCES = """\
SRv6-INT                  IPv6 (RFC 8200), routing header (RFC 8754), TLV of 8; records in the places of segments
SRv6 + INT-MD             the same without TLV; shim 4, header 12 and 16 a hop (INT 2.1, p4.org)
SRv6 + IOAM               the same; hop-by-hop header with one option, a pre-allocated trace (RFC 9197, RFC 9486) of
                          16 a hop: the octet that says how long an option is ends at 15 hops
NEXT-CSID + INT-MD        six identifiers of 16 bits in an address, the first address in no list (RFC 9800, RFC 8986)
NEXT-CSID + Path Tracing  40 bytes for up to 14 hops (draft-filsfils-spring-path-tracing), which have an interface, a
                          short time and a load, and no delay of functions"""

# What captures say: {hops: Counter of bytes of IPv6 and routing header}.
Measured = namedtuple("Measured", "sizes faults")


def segmented(hops):
    """SRv6 with all segments in its list."""
    return IPV6 + ROUTING + SEGMENT * hops


def compressed(hops):
    """Containers of segments, the first one in the destination alone (RFC 8986 section 5.2): one needs no list."""
    containers = -(-hops // PER_CONTAINER)
    return IPV6 + (ROUTING + SEGMENT * (containers - 1) if containers > 1 else 0)


def ours(hops):
    if RECORD != SEGMENT:
        raise Unreadable(f"a record of {RECORD} bytes does not fit the place of a segment")
    return segmented(hops) + TLV


def int_md(hops):
    return SHIM + INT_MD + INT_MD_HOP * hops


def ioam(hops):
    """An option stands at a multiple of four, and its header ends at one of eight (RFC 8200 section 4.2)."""
    option = OPTION + TRACE + IOAM_HOP * hops
    return -(-(-(-HOP_BY_HOP // 4) * 4 + option) // 8) * 8 if option <= OPTION_MAX else None


def path_tracing(hops):
    return PATH_TRACING if hops <= PATH_TRACING_HOPS else None


def together(*parts):
    return None if None in parts else sum(parts)


FORMATS = {
    "SRv6-INT": ours,
    "SRv6 + INT-MD": lambda hops: together(segmented(hops), int_md(hops)),
    "SRv6 + IOAM": lambda hops: together(segmented(hops), ioam(hops)),
    "NEXT-CSID + INT-MD": lambda hops: together(compressed(hops), int_md(hops)),
    "NEXT-CSID + Path Tracing": lambda hops: together(compressed(hops), path_tracing(hops)),
}


def saving(hops):
    """What ours takes less than SRv6 with INT-MD, percent, a half rounded up."""
    theirs = FORMATS["SRv6 + INT-MD"](hops)
    return (100 * (1 - Decimal(ours(hops)) / theirs)).quantize(Decimal("0.1"), ROUND_HALF_UP)


def measure(folders):
    """What captures between nodes have of headers that take records along."""
    measured = {}
    for folder in folders:
        with open(os.path.join(folder, "telemetry.json"), encoding="utf-8") as file:
            lab = json.load(file)
        for capture in lab["captures"]:
            for _, _, frame in whole_frames(os.path.join(folder, capture["pcap"])):
                header = read_header(frame) if is_segmented(frame) else None
                carried = header and segmented_packet(frame)
                if carried:
                    # By how long the packet inside says that it is; no header has a say in this.
                    inside = packet_end(carried[1]) - (0 if header.protocol == ETHERNET else ETHERNET_BYTES)
                    measured.setdefault(len(header.entries), Counter())[len(frame) - ETHERNET_BYTES - inside] += 1
    if not measured:
        raise Unreadable("no header that takes records along is in these captures")
    faults = [f"{count} headers of {hops} hops have {size} bytes, and by their format {ours(hops)}"
              for hops, sizes in sorted(measured.items()) for size, count in sizes.items() if size != ours(hops)]
    return Measured(measured, faults)


def table(measured):
    """The lines of what is printed."""
    lines = ["bytes in front of a packet at its last node",
             " hops  " + "  ".join(FORMATS) + "  less than SRv6 + INT-MD"]
    for hops in HOPS:
        cells = []
        for name, size in FORMATS.items():
            mark = "*" if name == "SRv6-INT" and hops in measured.sizes else " "
            found = size(hops)
            cells.append(f"{'–' if found is None else found:>{len(name) - 1}}{mark}")
        lines.append(f"{hops:>5}  {'  '.join(cells)}  {saving(hops):>22} %")
    for hops, sizes in sorted(measured.sizes.items()):
        found = ", ".join(map(str, sorted(sizes)))
        lines.append(f"* measured: {found} bytes in front of each of {sum(sizes.values())} packets between nodes, of "
                     f"{hops} hops")
    return [*lines, *SOURCES.splitlines()]


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        measured = measure(arguments)
        lines = table(measured)
    except KeyError as error:
        print(f"header_sizes.py: a description has no {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, TypeError, IndexError, struct.error, Unreadable, Malformed) as error:
        print(f"header_sizes.py: cannot be judged: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    for fault in measured.faults:
        print(fault, file=sys.stderr)
    return 1 if measured.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
