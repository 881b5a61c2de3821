#!/usr/bin/env python3
"""A service function that speaks NSH (RFC 8300) or MPLS (RFC 8595), or reads source routes, in a few lines
and without anything of Catena: what reaches it with a chain header goes back to the sender, the service index
and the inner hop limit one lower; a source route has no index, and goes back as it came. All else it leaves to
the kernel.

Usage: aware_function.py INTERFACE; it says "ready" when it listens, and runs until it is ended.
"""

import socket
import struct
import sys

ALL_FRAMES = socket.htons(0x0003)
NSH, MPLS, SOURCE_ROUTE, IPV4, IPV6 = 0x894F, 0x8847, 0x88B5, 0x0800, 0x86DD
# What may be in a source route behind its ports.
FLAG_TAG, FLAG_DETOURS, FLAG_PATH = 0x01, 0x02, 0x04
ETHERNET_BYTES = 14


def kind_of(frame, at):
    return struct.unpack_from("!H", frame, at + 12)[0]


def visit_nsh(frame):
    """Moves the header on; where the inner frame begins."""
    frame[ETHERNET_BYTES + 7] -= 1
    return ETHERNET_BYTES + (frame[ETHERNET_BYTES + 1] & 0x3F) * 4


def visit_mpls(frame):
    """Moves the SF label on, the second of the pair, whose highest eight bits are the index; where
    the inner frame begins."""
    at = ETHERNET_BYTES + 4
    frame[at] -= 1
    return at + 4


def visit_source_route(frame):
    """Reads its length; where the frame would begin that has the EtherType at the header's end."""
    width, count, flags = frame[14] & 0x0F, frame[15], frame[17]
    at = 18 + (count * width + 7) // 8
    at += 3 * bool(flags & FLAG_PATH) + 2 * bool(flags & FLAG_TAG)
    if flags & FLAG_DETOURS:
        number, at = frame[at], at + 1
        for _ in range(number):
            at += 3 + (frame[at + 2] * width + 7) // 8
    return at - 12


def route(frame, at):
    """Lowers the hop limit of the inner packet, as routers do."""
    ip = at + ETHERNET_BYTES
    if kind_of(frame, at) == IPV6:
        frame[ip + 7] -= 1
    elif kind_of(frame, at) == IPV4:
        frame[ip + 8] -= 1
        # RFC 1624: the checksum grows by what the word of the hop limit lost.
        checksum = struct.unpack_from("!H", frame, ip + 10)[0] + 0x0100
        struct.pack_into("!H", frame, ip + 10, (checksum & 0xFFFF) + (checksum >> 16))


def main(interface):
    door = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ALL_FRAMES)
    door.bind((interface, 0))
    print("ready", flush=True)
    while True:
        received, address = door.recvfrom(65536)
        frame = bytearray(received)
        visit = {NSH: visit_nsh, MPLS: visit_mpls, SOURCE_ROUTE: visit_source_route}.get(kind_of(frame, 0))
        if address[2] != socket.PACKET_HOST or visit is None:
            continue
        route(frame, visit(frame))
        frame[0:6], frame[6:12] = frame[6:12], frame[0:6]
        door.send(frame)


if __name__ == "__main__":
    main(sys.argv[1])
