#!/usr/bin/env python3
"""Proves from captures that every packet visited exactly the functions of its chain, in order, once.

Links nothing of Catena. Reads classic pcap files taken at the interfaces inside the functions' and
endpoints' own namespaces, and a JSON description of the lab, from which it derives by itself where
each packet must be seen:

    {"endpoints": {"S": {"customer": {"mac": "02:..", "pcap": "S.customer.pcap", "lost": 0}}},
     "functions": {"v1": {"customer": {...}, "internal": {...}}},
     "chains": [{"name": "SFP1", "source": "S", "destination": "D", "port": 5001,
                 "chain": [{"name": "v1", "direction": "in"}]}]}

A packet is known by its UDP destination port and by what iperf3 writes at the head of each datagram
(time and sequence number). Its direction at an interface is told by hardware address. Two witnesses
must agree on the order: the capture's clock, and the IP hop limit, which each function lowers by one.

Usage: steering_proof.py DESCRIPTION.json OUTPUT.json OUTPUT.csv
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import csv
import os
import struct
import sys
from collections import defaultdict, namedtuple

import captures
from captures import Unreadable

EXAMPLES_MAX = 50  # violations told in full; all are counted
ETHERNET = 1  # link type of the captures
IDENTITY_BYTES = 12  # iperf3: seconds, microseconds, sequence number, four bytes each

Sight = namedtuple("Sight", "time node network direction hops bytes")
Spot = namedtuple("Spot", "node network direction")


def read_pcap(path):
    """Yields (time in seconds, frame bytes) of a classic pcap file."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 24:
        raise Unreadable(f"{path}: no pcap header")
    magic = data[:4]
    orders = {b"\xd4\xc3\xb2\xa1": ("<", 1e-6), b"\xa1\xb2\xc3\xd4": (">", 1e-6),
              b"\x4d\x3c\xb2\xa1": ("<", 1e-9), b"\xa1\xb2\x3c\x4d": (">", 1e-9)}
    if magic not in orders:
        raise Unreadable(f"{path}: not a classic pcap file")
    order, fraction = orders[magic]
    if struct.unpack(order + "I", data[20:24])[0] & 0xFFFF != ETHERNET:
        raise Unreadable(f"{path}: not captured on Ethernet")
    at = 24
    while at < len(data):
        if at + 16 > len(data):
            raise Unreadable(f"{path}: ends inside a packet header")
        seconds, part, kept, _ = struct.unpack(order + "IIII", data[at:at + 16])
        at += 16
        if at + kept > len(data):
            raise Unreadable(f"{path}: ends inside a packet")
        yield seconds + part * fraction, data[at:at + kept]
        at += kept


def parse_udp(frame):
    """(destination mac, source mac, hop limit, destination port, payload length, payload head), or
    None if the frame is not UDP over IP."""
    if len(frame) < 14:
        return None
    kind = struct.unpack("!H", frame[12:14])[0]
    packet = frame[14:]
    if kind == 0x0800 and len(packet) >= 20:
        header = (packet[0] & 0x0F) * 4
        is_fragment = struct.unpack("!H", packet[6:8])[0] & 0x1FFF
        protocol, hops = packet[9], packet[8]
        if is_fragment:
            return None
    elif kind == 0x86DD and len(packet) >= 40:
        header, protocol, hops = 40, packet[6], packet[7]
    else:
        return None
    if protocol != 17 or len(packet) < header + 8:
        return None
    port, length = struct.unpack("!HH", packet[header + 2:header + 6])
    payload = packet[header + 8:]
    return frame[0:6], frame[6:12], hops, port, length - 8, payload[:IDENTITY_BYTES]


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def expected_spots(lab, chain):
    """Where a packet of the chain must be seen, in order."""
    networks = lambda node: list(lab["endpoints"].get(node) or lab["functions"].get(node) or {})
    source, destination = chain["source"], chain["destination"]
    shared = [net for net in networks(source) if net in networks(destination)]
    if not shared:
        raise Unreadable(f"{chain['name']}: {source} and {destination} share no network")
    outer = current = shared[0]
    spots = [Spot(source, outer, "out")]
    for step in chain["chain"]:
        name, direction = step["name"], step["direction"]
        if direction == "tap":
            raise Unreadable(f"{chain['name']}: taps are not proved here")
        inner = [net for net in networks(name) if net != outer]
        egress = {"same": current, "out": outer, "in": inner[0] if len(inner) == 1 else None}[direction]
        if current not in networks(name) or egress not in networks(name):
            raise Unreadable(f"{chain['name']}: {name} has no port for direction {direction}")
        spots.append(Spot(name, current, "in"))
        spots.append(Spot(name, egress, "out"))
        current = egress
    spots.append(Spot(destination, current, "in"))
    return spots


def read_sights(lab, folder, ports, complain):
    """All sights of packets to the chains' ports: {(port, identity): [Sight]}."""
    sights = defaultdict(list)
    for group in ("endpoints", "functions"):
        for node, interfaces in lab[group].items():
            for network, interface in interfaces.items():
                if interface.get("lost"):
                    complain(f"the capture at {node}/{network} lost {interface['lost']} packets")
                if "pcap" not in interface:
                    continue
                own = mac_bytes(interface["mac"])
                for time, frame in read_pcap(os.path.join(folder, interface["pcap"])):
                    parsed = parse_udp(frame)
                    if parsed is None or parsed[3] not in ports:
                        continue
                    to, source, hops, port, length, identity = parsed
                    if to == own:
                        direction = "in"
                    elif source == own:
                        direction = "out"
                    else:
                        complain(f"a packet to port {port} was seen at {node}/{network}, "
                                 f"though neither from nor to it")
                        continue
                    sight = Sight(time, node, network, direction, hops, length)
                    sights[(port, identity)].append(sight)
    return sights


def judge_packet(spots, seen):
    """What is wrong with one packet: a list of (kind, sentence), empty if nothing."""
    wrong = []
    place = {spot: index for index, spot in enumerate(spots)}
    counts = defaultdict(int)
    for sight in seen:
        counts[Spot(sight.node, sight.network, sight.direction)] += 1
    for spot, count in counts.items():
        where = f"{spot.direction} at {spot.node}/{spot.network}"
        if spot not in place:
            wrong.append(("elsewhere", f"was seen {where}, which is not on its path"))
        elif count > 1:
            wrong.append(("twice", f"was seen {count} times {where}"))
    for spot in spots:
        if not counts[spot]:
            where = f"{spot.direction} at {spot.node}/{spot.network}"
            wrong.append(("missing", f"was never seen {where}"))
    if wrong:
        return wrong
    # Equal times do not contradict the path; the stable order of the path decides between them.
    path_of = lambda sight: place[Spot(sight.node, sight.network, sight.direction)]
    seen = sorted(seen, key=lambda sight: (sight.time, path_of(sight)))
    for index, sight in enumerate(seen):
        if path_of(sight) != index:
            wrong.append(("order", f"was at {sight.node} out of turn"))
            return wrong
    for index, sight in enumerate(seen):
        functions_before = index // 2
        if sight.hops != seen[0].hops - functions_before:
            wrong.append(("order", f"has hop limit {sight.hops} {sight.direction} at {sight.node}, "
                                   f"not {seen[0].hops - functions_before}"))
            return wrong
    return wrong


def prove(lab, folder):
    """The verdict over a whole lab, as it goes into the output file."""
    violations = []
    counted = defaultdict(int)

    def complain(text, kind="capture"):
        counted[kind] += 1
        if len(violations) < EXAMPLES_MAX:
            violations.append(text)

    chains = {chain["port"]: chain for chain in lab["chains"]}
    if len(chains) != len(lab["chains"]):
        raise Unreadable("two chains have one destination port: their packets cannot be told apart")
    sights = read_sights(lab, folder, chains, complain)
    verdict = {chain["name"]: defaultdict(int) for chain in lab["chains"]}
    egress = defaultdict(lambda: defaultdict(int))
    packets_out = defaultdict(int)
    paths = {port: expected_spots(lab, chain) for port, chain in chains.items()}
    start = min((sight.time for seen in sights.values() for sight in seen), default=0.0)
    for (port, identity), seen in sorted(sights.items()):
        chain, spots = chains[port], paths[port]
        name = chain["name"]
        verdict[name]["packets"] += 1
        wrong = judge_packet(spots, seen)
        for kind, text in wrong:
            verdict[name][kind] += 1
            complain(f"{name}: packet {identity.hex()} {text}", kind)
        if not wrong:
            verdict[name]["proved"] += 1
        for sight in seen:
            if sight.direction == "out" and sight.node in lab["functions"]:
                egress[sight.node][int(sight.time - start)] += sight.bytes * 8
                packets_out[sight.node] += 1
    for name, counts in verdict.items():
        if not counts["packets"]:
            complain(f"{name}: no packet of it was seen anywhere", "missing")
    seconds = 1 + max((second for line in egress.values() for second in line), default=-1)
    return {
        "ok": not counted,
        "chains": {name: {key: counts[key] for key in
                          ("packets", "proved", "missing", "twice", "elsewhere", "order")}
                   for name, counts in verdict.items()},
        "violation_count": sum(counted.values()),
        "violations": violations,
        "packets_out": {node: packets_out[node] for node in lab["functions"]},
        "bits_per_second": {node: [egress[node][second] for second in range(seconds)]
                            for node in lab["functions"]},
    }


def write_egress(path, verdict):
    """What left each function, second by second."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        lines = verdict["bits_per_second"]
        writer.writerow(["second", *lines])
        writer.writerows([second, *row] for second, row in enumerate(zip(*lines.values())))


def main(arguments):
    return captures.run(arguments, __doc__, prove, write_egress)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
