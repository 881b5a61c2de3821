#!/usr/bin/env python3
"""A service function of layer 2, a bump in the wire: IPv4 frames that reach the first interface leave by
the second, bit for bit as they came. With a MAC they leave from that instead, as those of a function
do that only says that it keeps MACs.

Usage: wire_function.py FROM TO [MAC]; it says "ready" when it listens, and runs until it is ended.
"""

import socket
import sys

IPV4 = 0x0800
# Before each frame stands what the kernel has left to be done with it, such as its checksum.
SOL_PACKET, PACKET_VNET_HDR, HEADER_BYTES = 263, 15, 10


def main(inward, outward, mac=None):
    heard, sent = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(2))
    for door, interface, protocol in ((heard, inward, IPV4), (sent, outward, 0)):
        door.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        door.bind((interface, protocol))
    source = bytes.fromhex(mac.replace(":", "")) if mac else None
    print("ready", flush=True)
    while True:
        frame, address = heard.recvfrom(65536)
        if address[2] != socket.PACKET_HOST:
            continue
        if source:
            at = HEADER_BYTES + 6
            frame = frame[:at] + source + frame[at + 6:]
        sent.send(frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
