#!/usr/bin/env python3
"""Proves from sampled captures that TCP streams went by the functions of their chains, and by no
other.

Links nothing of Catena. Reads classic pcap files taken at the interfaces inside the functions' and
endpoints' own namespaces, of packets towards the receiver that were chosen by their sequence number,
and a JSON description of the lab:

    {"endpoints": {"S": {"customer": {"mac": "02:..", "pcap": "S.customer.pcap", "lost": 0}}},
     "functions": {"v1": {"customer": {...}}},
     "streams": [{"name": "stream", "chain": "C1", "source": "S", "destination": "D", "port": 5201,
                  "versions": [[{"name": "v1", "direction": "same",
                                 "instances": [{"name": "v1", "weight": 1}]}]]}]}

`versions` are the chains that the stream may take: several where its chain changes under it.

Each function is a router and lowers the IP hop limit by one. So the hop limit of a packet at an
interface says how many functions it has passed; which interface it is says which function it is at.
Both must fit one version. A packet at the destination must have passed as many as a version has,
and each function of any version must have been given packets and have given some back. Segments
are joined and cut on their way, so that packets are not looked for one by one.

Usage: stream_proof.py DESCRIPTION.json OUTPUT.json
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import struct
import sys
from collections import defaultdict, namedtuple

import captures
from captures import Unreadable

EXAMPLES_MAX = 50  # violations told in full; all are counted
TCP = 6

Sight = namedtuple("Sight", "node is_in hops")


def parse_tcp(frame):
    """(hop limit, destination port), or None if the frame is not TCP over IP, or a fragment behind
    the first."""
    if len(frame) < 14:
        return None
    kind, packet = frame[12:14], frame[14:]
    if kind == captures.IPV4 and len(packet) >= 20:
        header, protocol, hops = (packet[0] & 0x0F) * 4, packet[9], packet[8]
        if struct.unpack("!H", packet[6:8])[0] & 0x1FFF:
            return None
    elif kind == captures.IPV6 and len(packet) >= 40:
        header, protocol, hops = 40, packet[6], packet[7]
    else:
        return None
    if protocol != TCP or len(packet) < header + 4:
        return None
    return hops, struct.unpack("!H", packet[header + 2:header + 4])[0]


def read_sights(lab, folder, ports, complain):
    """All sights of packets to the streams' ports: {port: [Sight]}."""
    def parse(frame):
        tcp = parse_tcp(frame)
        return tcp if tcp and tcp[1] in ports else None

    sights = defaultdict(list)
    for at, (hops, port) in captures.frames(lab, folder, parse, complain):
        sights[port].append(Sight(at.node, at.direction == "in", hops))
    return sights


def places(stream, sent_with):
    """Where a packet may be seen: {(node, is_in, hop limit)}, and where some must have been: sets of
    (node, is_in), one of each. Versions may be too short for a sample at every one of their places;
    a function that none of them gave anything was passed by."""
    allowed, needed = {(stream["source"], False, sent_with)}, set()
    for steps in stream["versions"]:
        hops, version = sent_with, []
        for step in steps:
            instances = [instance["name"] for instance in step["instances"]]
            is_tap = step["direction"] == "tap"
            given = {(name, True, hops) for name in instances}
            version.append(given)
            if not is_tap:
                hops -= 1
                version.append({(name, False, hops) for name in instances})
        version.append({(stream["destination"], True, hops)})
        allowed.update(*version)
        needed.update(frozenset((node, is_in) for node, is_in, _ in one) for one in version)
    return allowed, needed


def judge_stream(stream, seen, complain):
    """Counts what was seen of a stream, complains of what is wrong; (samples, arrived)."""
    name, source, destination = stream["name"], stream["source"], stream["destination"]
    sent_with = {sight.hops for sight in seen if sight.node == source and not sight.is_in}
    if len(sent_with) != 1:
        complain(f"{name}: left {source} with hop limits {sorted(sent_with)}, not with one")
        return len(seen), 0
    allowed, needed = places(stream, sent_with.pop())
    counts = defaultdict(int)
    for sight in seen:
        counts[sight] += 1
    for sight, count in sorted(counts.items()):
        if sight not in allowed:
            way = "into" if sight.is_in else "out of"
            complain(f"{name}: {count} samples {way} {sight.node} with hop limit {sight.hops}, which "
                     f"no version of its chain has there", count)
    passed = {(sight.node, sight.is_in) for sight in seen}
    for choices in sorted(needed - {one for one in needed if one & passed}, key=sorted):
        nodes = ", ".join(sorted({node for node, _ in choices}))
        way = "into" if next(iter(choices))[1] else "out of"
        complain(f"{name}: no sample {way} {nodes}")
    arrived = sum(count for sight, count in counts.items()
                  if sight.node == destination and sight.is_in)
    return len(seen), arrived


def prove(lab, folder):
    """The verdict over a whole lab, as it goes into the output file."""
    violations, total = [], 0

    def complain(text, count=1):
        nonlocal total
        total += count
        if len(violations) < EXAMPLES_MAX:
            violations.append(text)

    streams = {stream["port"]: stream for stream in lab["streams"]}
    if len(streams) != len(lab["streams"]):
        raise Unreadable("two streams have one destination port: they cannot be told apart")
    sights = read_sights(lab, folder, streams, complain)
    samples = arrived = 0
    for port, stream in streams.items():
        for end in (stream["source"], stream["destination"]):
            if end not in lab["endpoints"]:
                raise Unreadable(f"{stream['name']}: nothing is captured at {end}")
        found = judge_stream(stream, sights[port], complain)
        samples, arrived = samples + found[0], arrived + found[1]
    if not streams:
        complain("there is no stream")
    return {"ok": not total, "samples": samples, "arrived": arrived,
            "violation_count": total, "violations": violations}


def main(arguments):
    return captures.run(arguments, __doc__, prove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
