#!/usr/bin/env python3
"""Makes the kernel of this network namespace a masquerading NAT for IPv4 and IPv6: by nf_tables over
netlink, since machines of tests may have no `nft`. Needs the right to configure the namespace.

Usage: masquerade.py on|off
"""

import os
import socket
import struct
import sys

NETLINK_NETFILTER = 12
SUBSYSTEM = 10  # nf_tables
BATCH_BEGIN, BATCH_END = 0x10, 0x11
NEW_TABLE, DELETE_TABLE, NEW_CHAIN, NEW_RULE = 0, 2, 3, 6
REQUEST, ACKNOWLEDGE, CREATE = 0x001, 0x004, 0x400
NLMSG_ERROR = 2
NESTED = 0x8000
IPV4, IPV6 = 2, 10
POSTROUTING, PRIORITY_SOURCE_NAT = 4, 100
TABLE, CHAIN = b"masquerade\0", b"out\0"


def attribute(kind, payload):
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + bytes(-length % 4)


def nested(kind, *attributes):
    return attribute(kind | NESTED, b"".join(attributes))


def message(kind, flags, sequence, family, payload=b"", resource=0):
    body = struct.pack("=BB", family, 0) + struct.pack("!H", resource) + payload
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def changes(family, is_on):
    """(message number, payload) of each change for one family."""
    if not is_on:
        return [(DELETE_TABLE, attribute(1, TABLE))]
    hook = nested(4, attribute(1, struct.pack("!I", POSTROUTING)),
                  attribute(2, struct.pack("!i", PRIORITY_SOURCE_NAT)))
    masquerade = nested(1, attribute(1, b"masq\0"), nested(2))
    return [
        (NEW_TABLE, attribute(1, TABLE)),
        (NEW_CHAIN, attribute(1, TABLE) + attribute(3, CHAIN) + hook + attribute(7, b"nat\0")),
        (NEW_RULE, attribute(1, TABLE) + attribute(2, CHAIN) + nested(4, masquerade)),
    ]


def main(is_on):
    batch, sequence = message(BATCH_BEGIN, REQUEST, 0, 0, resource=SUBSYSTEM), 0
    for family in (IPV4, IPV6):
        for number, payload in changes(family, is_on):
            sequence += 1
            flags = REQUEST | ACKNOWLEDGE | (CREATE if is_on else 0)
            batch += message(SUBSYSTEM << 8 | number, flags, sequence, family, payload)
    batch += message(BATCH_END, REQUEST, sequence + 1, 0, resource=SUBSYSTEM)
    door = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    door.bind((0, 0))
    door.settimeout(5)
    door.send(batch)
    answered = 0
    while answered < sequence:
        answer, at = door.recv(65536), 0
        while at + 20 <= len(answer):
            length, kind, _, number, _ = struct.unpack_from("=IHHII", answer, at)
            error = struct.unpack_from("=i", answer, at + 16)[0]
            if kind == NLMSG_ERROR and error:
                print(f"change {number} is refused: {os.strerror(-error)}", file=sys.stderr)
                return 1
            answered += kind == NLMSG_ERROR
            at += (length + 3) & ~3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] == "on"))
