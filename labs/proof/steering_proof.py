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
import struct
import sys
from collections import defaultdict, namedtuple

import captures
from captures import Unreadable

EXAMPLES_MAX = 50  # violations told in full; all are counted
IDENTITY_BYTES = 12  # iperf3: seconds, microseconds, sequence number, four bytes each

Sight = namedtuple("Sight", "time node network direction hops bytes")
Spot = namedtuple("Spot", "node network direction")


def parse_udp(frame):
    """(hop limit, destination port, payload length, payload head), or None if the frame is not UDP
    over IP."""
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
    return hops, port, length - 8, payload[:IDENTITY_BYTES]


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
    def parse(frame):
        udp = parse_udp(frame)
        return udp if udp and udp[1] in ports else None

    sights = defaultdict(list)
    for at, (hops, port, length, identity) in captures.frames(lab, folder, parse, complain):
        sights[(port, identity)].append(
            Sight(at.time, at.node, at.network, at.direction, hops, length))
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
