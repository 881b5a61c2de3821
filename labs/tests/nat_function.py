#!/usr/bin/env python3
"""A source NAT of one port, in a few lines and without anything of Catena: packets from the inside
leave with the outside address as their source, packets to the outside address leave for the inside,
the hop limit one lower. The kernel beside it must not forward.

Usage: nat_function.py INTERFACE NEXT_MAC INSIDE OUTSIDE; it says "ready" when it listens, and runs
until it is ended.
"""

import ipaddress
import socket
import struct
import sys

ALL_FRAMES = socket.htons(0x0003)
ETHERNET_BYTES = 14
UDP = 17
# EtherType, where the protocol, the hop limit and the source stand, where the packet's own header
# ends (no options are expected).
SHAPES = {4: (0x0800, 9, 8, 12, 20), 6: (0x86DD, 6, 7, 8, 40)}


def internet_sum(data):
    """RFC 1071: the checksum of these bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[:len(data) & ~1]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def complete(frame, version, at):
    """Sets the checksums anew: that of UDP may have been left to a device."""
    ip, width = ETHERNET_BYTES, 4 if version == 4 else 16
    udp = ip + SHAPES[version][4]
    length = struct.unpack_from("!H", frame, udp + 4)[0]
    struct.pack_into("!H", frame, udp + 6, 0)
    addresses = bytes(frame[at:at + 2 * width])
    covered = addresses + struct.pack("!HH", UDP, length) + bytes(frame[udp:udp + length])
    struct.pack_into("!H", frame, udp + 6, internet_sum(covered) or 0xFFFF)
    if version == 4:
        struct.pack_into("!H", frame, ip + 10, 0)
        struct.pack_into("!H", frame, ip + 10, internet_sum(bytes(frame[ip:udp])))


def rewrite(frame, inside, outside):
    """Does the function's work; false: it is none of its packets."""
    version = inside.version
    ether_type, protocol, hops, at, _ = SHAPES[version]
    if struct.unpack_from("!H", frame, 12)[0] != ether_type or frame[ETHERNET_BYTES + protocol] != UDP:
        return False
    source, width = ETHERNET_BYTES + at, len(inside.packed)
    target = source + width
    if frame[source:target] == inside.packed:
        frame[source:target] = outside.packed
    elif frame[target:target + width] == outside.packed:
        frame[target:target + width] = inside.packed
    else:
        return False
    frame[ETHERNET_BYTES + hops] -= 1
    complete(frame, version, source)
    return True


def main(interface, next_mac, inside, outside):
    inside, outside = ipaddress.ip_address(inside), ipaddress.ip_address(outside)
    door = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ALL_FRAMES)
    door.bind((interface, 0))
    own = door.getsockname()[4]
    print("ready", flush=True)
    while True:
        received, address = door.recvfrom(65536)
        frame = bytearray(received)
        if address[2] != socket.PACKET_HOST or not rewrite(frame, inside, outside):
            continue
        frame[0:6], frame[6:12] = bytes.fromhex(next_mac.replace(":", "")), own
        door.send(frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
