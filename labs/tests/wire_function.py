#!/usr/bin/env python3
"""A service function of layer 2, a bump in the wire: IPv4 frames that reach the first interface leave by
the second, bit for bit as they came. With a MAC they leave from that instead, as those of a function
do that only says that it keeps MACs.

Usage: wire_function.py FROM TO [MAC]; it says "ready" when it listens, and runs until it is ended.
"""

import socket
import sys

IPV4 = 0x0800


def main(inward, outward, mac=None):
    heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4))
    heard.bind((inward, IPV4))
    sent = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sent.bind((outward, 0))
    source = bytes.fromhex(mac.replace(":", "")) if mac else None
    print("ready", flush=True)
    while True:
        frame, address = heard.recvfrom(65536)
        if address[2] == socket.PACKET_HOST:
            sent.send(frame[:6] + source + frame[12:] if source else frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
