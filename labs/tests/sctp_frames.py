#!/usr/bin/env python3
"""Sends and judges SCTP packets frame by frame, for kernels without SCTP. The CRC32c is computed here
bit by bit, by RFC 9260 appendix A.

Usage: sctp_frames.py send INTERFACE TO_MAC SOURCE DESTINATION open|whole COUNT
       sctp_frames.py judge INTERFACE COUNT

`open`: as a kernel hands a packet to a card that makes checksums: the field is zero, and the words
before the frame (PACKET_VNET_HDR) say where it is. `judge` says `ready`, then what it saw.
"""

import ipaddress
import socket
import struct
import sys

SOL_PACKET, PACKET_VNET_HDR = 263, 15
NEEDS_CHECKSUM = 1
SCTP, PORT = 132, 9899
HEADER = 12
PATIENCE_S = 20


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def packet(number, is_whole):
    data = struct.pack("!I", number) * (10 + number)
    chunk = struct.pack("!BBHIHHI", 0, 3, 16 + len(data), number, 0, 0, 0) + data
    header = struct.pack("!HHII", PORT, PORT, 7, 0)
    crc = crc32c(header + chunk) if is_whole else bytes(4)
    return header[:8] + crc + chunk


def internet(source, destination, length):
    source, destination = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if source.version == 6:
        return b"\x86\xdd", struct.pack("!IHBB", 6 << 28, length, SCTP, 64) + source.packed + destination.packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 7, 0x4000, 64, SCTP, 0)
    head += source.packed + destination.packed
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return b"\x08\x00", head[:10] + struct.pack("!H", total ^ 0xFFFF) + head[12:]


def send(interface, to, source, destination, kind, count):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    link.bind((interface, 0))
    link.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    own = link.getsockname()[4]
    for number in range(int(count)):
        body = packet(number, kind == "whole")
        ethertype, head = internet(source, destination, len(body))
        start = 14 + len(head)
        flags, place = (NEEDS_CHECKSUM, (start, 8)) if kind == "open" else (0, (0, 0))
        words = struct.pack("=BBHHHH", flags, 0, 0, 0, *place)
        link.send(words + bytes.fromhex(to.replace(":", "")) + own + ethertype + head + body)


def judge(interface, count):
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind((interface, 3))
    link.settimeout(PATIENCE_S)
    print("ready", flush=True)
    numbers, wrong = set(), 0
    while len(numbers) + wrong < int(count):
        frame, (_, _, kind, *_) = link.recvfrom(65536)
        is_v6 = frame[12:14] == b"\x86\xdd"
        if kind == socket.PACKET_OUTGOING or frame[20 if is_v6 else 23] != SCTP:
            continue
        end = 54 + int.from_bytes(frame[18:20], "big") if is_v6 else 14 + int.from_bytes(frame[16:18], "big")
        body = frame[54 if is_v6 else 34:end]
        if crc32c(body[:8] + bytes(4) + body[HEADER:]) == body[8:HEADER]:
            numbers.add(int.from_bytes(body[16:20], "big"))
        else:
            wrong += 1
    print(f"{len(numbers)} right, {wrong} wrong")


if __name__ == "__main__":
    {"send": send, "judge": judge}[sys.argv[1]](*sys.argv[2:])
