#!/usr/bin/env python3
"""Proves from captures that every record that packets over segments of IPv6 take along is true, field by field, and
that nothing of it is seen at functions and endpoints.

Links nothing of Catena. Reads classic pcap files, of whole frames, of what came in at nodes from other nodes and of
what passed the interfaces of functions and endpoints, and a JSON description:

    {"endpoints": {"S": {"customer": {"mac": "02:..", "pcap": "S.customer.pcap", "lost": 0}}},
     "functions": {"v1": {"customer": {...}}}, "hosts": {"S": "sw1", "v1": "sw1"},
     "captures": [{"node": "sw2", "interface": "data", "pcap": "sw2.data.pcap", "lost": 0}],
     "routers": [{"node": "r1", "interface": "left", "pcap": "r1.left.pcap", "lost": 0}],
     "crossings": {"sw1": {"sw2": [], "sw3": ["r1"]}},
     "devices": {"sw1": 1, "sw2": 2}, "addresses": {"sw1": "2001:db8::1", "sw2": "2001:db8::2"},
     "clock": [{"real": 1700000000000000000, "monotonic": 5000000000}],
     "streams": [{"name": "datagrams", "run": 0, "source": "S", "destination": "D", "port": 5001, "sent": 2000,
                  "way": ["sw1", "sw2", "sw3"],
                  "telemetry": {"fields": ["device", "arrival"], "mirror": 8, "colour": 7}}]}

`devices` and `addresses` are the numbers and the addresses in the IPv6 underlay of nodes, as the controller tells them
(GET /v1/nodes/{node}); of one whose number is null, records must have one that no other node has. `clock` has what two
clocks of the machine said at one moment, once or more: captures are by the first, records by the second. `way`
are the nodes that serve functions, in order; null: captures alone say which. `crossings` has the plain routers that are
passed from one node to another, and `routers` what came in there; without them there is none.

A header is written by the first node of the way, or by the one before it, and goes on with each packet. The record of a
node is seen where the packet comes in next, and that of the last node never: it takes the header off. Of each record

    arrival    lies between when the packet came in by the captures (of the first node: left its sender) and when it was
               next seen, at a function of that node or where it came in afterwards
    latency    ends between when the last function of that node gave the packet back and when it came in next, and is no
               less than the functions took by their captures
    counter    is how often packets of the flow had come to that node, this time included
    device     is the number of that node
    queue      is not known, nor is any field that was not asked for

Times may be off by TOLERANCE_NS where captures stamp a frame some moments after others see it, as on a machine with few
processors who is interrupted meanwhile does; of either, arrivals and ends of latencies, no more than one in RARE may be
off by more than FINE_NS. What was off is told. Of each header

    malformed  it is none that docs/internals/srv6.md draws
    steps      one segment less is left at each node, which are those of the way, and its source is the node before; it
               leads to the last one
    altered    all but source, Segments Left, hop limit and the entry that was done with is what it was, lengths and
               records too
    crossed    it went by the routers between two nodes and by no other, each of which took one from the hop limit, gave
               the frame other addresses, and changed nothing else
    tag        says functions and colour, and nothing of what is pending or incomplete; no detection result
    mirror     each k-th packet of a flow is marked, by their numbers in it, and no other
    missing    it was seen where the packet went at all
    left       nothing of it is in a frame at functions and endpoints, whose datagrams are what their sender sent
    capture    what speaks against a capture, or against the description

Usage: telemetry_proof.py DESCRIPTION.json OUTPUT.json
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import os
import struct
import sys
from collections import Counter, defaultdict, namedtuple
from ipaddress import ip_address
from statistics import median

import captures
from captures import IPV4, IPV6, Unreadable, Verdict, mac_bytes, whole_frames
from carriers import Malformed, ROUTING, identity, segmented
from records import (ARRIVAL_BITS, COUNTER_BITS, FIELDS, FLAG_RECORDS, LATENCY_UNIT_NS, TAG_VERSION, is_record,
                     is_segmented, path_of, read_header, read_record)
from routers import Crossings, Passage

KINDS = ("device", "arrival", "latency", "counter", "queue", "unasked", "malformed", "steps", "altered", "crossed",
         "tag", "mirror", "missing", "left", "capture")
TOLERANCE_NS, FINE_NS, RARE = 20_000_000, 50_000, 100
CLOCK_TOLERANCE_NS = 1_000_000

# First nibbles and octets of addresses that no tenant has: records, and segment identifiers (RFC 9602).
RECORD_NIBBLE, SEGMENTS_PREFIX = 1, b"\x5f\x00"

# A packet with a header, where it came in. Places are those in the order of one capture, and of several by their time.
Leg = namedtuple("Leg", "time place node hops header inner frame")
# A datagram at an interface of an endpoint or a function.
Sight = namedtuple("Sight", "time place node is_in hops")


def packet_end(frame):
    """Where the IP packet of a frame ends by its header; of anything else, where the frame does."""
    if frame[12:14] == IPV4 and len(frame) >= 34:
        return 14 + struct.unpack("!H", frame[16:18])[0]
    if frame[12:14] == IPV6 and len(frame) >= 54:
        return 54 + struct.unpack("!H", frame[18:20])[0]
    return len(frame)


def payload_of(frame):
    """The bytes behind the UDP header of a datagram of ours."""
    udp = 14 + (frame[14] & 0x0F) * 4 if frame[12:14] == IPV4 else 54
    return frame[udp + 8:packet_end(frame)]


def foreign_part(frame):
    """What of chains over segments is in a frame that is of tenants alone; None if nothing."""
    if len(frame) > packet_end(frame):
        return f"{len(frame) - packet_end(frame)} bytes behind its packet"
    if frame[12:14] != IPV6 or len(frame) < 54:
        return None
    if frame[20] == ROUTING:
        return "a routing header"
    for address in (frame[22:38], frame[38:54]):
        if address[0] >> 4 == RECORD_NIBBLE or address[:2] == SEGMENTS_PREFIX:
            return f"the address {address.hex()}"
    return None


class Sent:
    """What was sent: streams by the number of their run."""

    def __init__(self, lab):
        self.streams = {stream["run"]: stream for stream in lab["streams"]}
        self.ports = {stream["port"] for stream in lab["streams"]}
        self.hosts = lab["hosts"]

    def key(self, who):
        """(is it an answer, run, flow, number) of a datagram; None of one that is not ours."""
        if who is None or not self.ports & {who[0], who[1]}:
            return None
        key = (who[1] not in self.ports, *struct.unpack("!III", who[2]))
        return key if key[1] in self.streams else None

    def source(self, key):
        stream = self.streams[key[1]]
        return stream["destination" if key[0] else "source"]

    def way(self, key):
        """The nodes of its way, if they are told; answers go theirs."""
        return None if key[0] else self.streams[key[1]].get("way")


def read_tenants(lab, folder, sent, verdict):
    """{key: [Sight]} of the captures at endpoints and functions."""
    sights, payloads, foreign = defaultdict(list), {}, []
    for group in ("endpoints", "functions"):
        for node, interfaces in lab[group].items():
            for network, interface in interfaces.items():
                if interface.get("lost"):
                    verdict.complain("capture", f"the capture at {node}/{network} lost {interface['lost']} packets")
                if "pcap" not in interface:
                    continue
                mac = mac_bytes(interface["mac"])
                for time, place, frame in whole_frames(os.path.join(folder, interface["pcap"])):
                    found = foreign_part(frame)
                    if found:
                        verdict.complain("left", f"a frame at {node}/{network} has {found}")
                        continue
                    who = identity(frame)
                    key = sent.key(who)
                    if key is None or mac not in (frame[:6], frame[6:12]):
                        continue
                    is_in = frame[:6] == mac
                    sights[key].append(Sight(time, place, node, is_in, who[3]))
                    if node == sent.source(key) and not is_in:
                        payloads[key] = payload_of(frame)
                    else:
                        foreign.append((key, node, payload_of(frame)))
    for key, node, payload in foreign:
        if payload != payloads.get(key, payload):
            verdict.complain("left", f"{named(key)} at {node} is not what its sender sent")
    return sights


def flow_of(header, inner):
    """What nodes count packets by: path, addresses and ports."""
    addresses = slice(26, 38) if inner[12:14] == IPV4 else slice(22, 58)
    return path_of(header.destination), inner[addresses]


def read_legs(lab, folder, sent, verdict):
    """{key: [Leg]}, how many packets of each run came in without records, and what passed routers."""
    legs, plain, crossings = defaultdict(list), Counter(), Crossings(lab)
    routers = lab.get("routers", [])
    for is_router, capture in [(False, one) for one in lab["captures"]] + [(True, one) for one in routers]:
        where = f"{capture['node']}/{capture['interface']}"
        if capture.get("lost"):
            verdict.complain("capture", f"the capture at {where} lost {capture['lost']} packets")
        for time, place, frame in whole_frames(os.path.join(folder, capture["pcap"])):
            if not is_segmented(frame):
                continue
            try:
                header, carried = read_header(frame), segmented(frame)
                who = carried and identity(carried[1])
                for entry in header.entries[header.left + 1:] if header else ():
                    if is_record(entry):
                        read_record(entry)
            except (Malformed, IndexError, struct.error) as error:
                verdict.complain("malformed", f"a frame at {where} {error}")
                continue
            key = sent.key(who)
            if header is None:
                plain.update([key[1]] if key and not is_router else [])
            elif key is None:
                verdict.complain("malformed", f"a frame at {where} has records, and is no datagram of the streams")
            elif is_router:
                crossings.add(key, header.left, Passage(capture["node"], frame))
            else:
                legs[key].append(Leg(time, place, capture["node"], who[3], header, carried[1], frame))
    return legs, plain, crossings


def named(key):
    is_answer, run, flow, number = key
    return f"{'the answer to ' if is_answer else ''}datagram {number} of flow {flow} in run {run}"


class Walk:
    """One packet and its headers, the first one first. Hops of the way count from 0; `first` is that of the first leg:
    where it is 1, its sender's node is the first hop."""

    def __init__(self, key, legs, sights, sent):
        self.key, self.sent = key, sent
        self.legs = sorted(legs, key=lambda leg: -leg.header.left)
        self.sights = sights
        header = self.legs[0].header
        self.segments = len(header.entries)
        self.first = self.segments - 1 - header.left
        self.source = sent.source(key)
        self.ingress = sent.hosts[self.source]

    def fault(self):
        """What speaks against its steps; None if nothing."""
        lefts = [leg.header.left for leg in self.legs]
        if self.first > 1:
            return f"was first seen at {self.legs[0].node}, with {lefts[0]} of {self.segments} segments left"
        if lefts != list(range(lefts[0], -1, -1)):
            return f"had {lefts} segments left at {[leg.node for leg in self.legs]}"
        way = self.nodes()
        wanted = self.sent.way(self.key)
        if wanted not in (None, way):
            return f"went by {way}, and its way is {wanted}"
        return None

    def nodes(self):
        return [self.ingress] * self.first + [leg.node for leg in self.legs]

    def came(self, hop):
        """(when it came to a hop, its hop limit there)."""
        if hop >= self.first:
            leg = self.legs[hop - self.first]
            return leg.time, leg.hops
        sent = self.sight_of_sender()
        return (sent.time, sent.hops) if sent else (None, None)

    def sight_of_sender(self):
        return next((sight for sight in self.sights if sight.node == self.source and not sight.is_in), None)

    def inside(self, hop):
        """(when functions of a hop first got it, when they last gave it back), None what captures do not say."""
        node, (_, before), (_, after) = self.nodes()[hop], self.came(hop), self.came(hop + 1)
        own = [sight for sight in self.sights if self.sent.hosts[sight.node] == node and sight.node != self.source]
        got = [sight.time for sight in own if sight.is_in and after < sight.hops <= before]
        gave = [sight.time for sight in own if not sight.is_in and after <= sight.hops < before]
        return min(got, default=None), max(gave, default=None)


class Judge:
    """Holds records against captures, and remembers what differed."""

    def __init__(self, lab, verdict):
        self.verdict = verdict
        self.devices = dict(lab["devices"])
        self.addresses = {node: ip_address(address).packed for node, address in lab["addresses"].items()}
        self.seen = defaultdict(set)
        differences = [one["monotonic"] - one["real"] for one in lab["clock"]]
        if not differences:
            raise Unreadable("nobody says what the clocks said")
        self.offset = differences[0]
        if max(differences) - min(differences) > CLOCK_TOLERANCE_NS:
            verdict.complain("capture", "a clock was set meanwhile")
        self.delays, self.beyond, self.records, self.mirrored = [], [], 0, 0
        self.outside = {"arrival": [], "latency": []}

    def tag(self, walk, leg, telemetry):
        header = leg.header
        wanted = {"flags": FLAG_RECORDS, "version": TAG_VERSION, "functions": True, "pending": False,
                  "incomplete": False, "colour": telemetry["colour"], "result": 0,
                  "map": sum(FIELDS[name] for name in telemetry["fields"])}
        for name, value in wanted.items():
            found = getattr(header, name)
            if found != value:
                self.verdict.complain("tag", f"{named(walk.key)} at {leg.node} has {name} {found}, not {value}")

    def unaltered(self, walk):
        for before, leg in zip(walk.legs, walk.legs[1:]):
            one, other = before.header, leg.header
            for name in ("bytes", "protocol", "flags", "version", "functions", "mirrored", "colour", "map"):
                was, found = getattr(one, name), getattr(other, name)
                if was != found:
                    text = f"had {name} {was} at {before.node}, {found} at {leg.node}"
                    self.verdict.complain("altered", f"{named(walk.key)} {text}")
            if len(one.entries) != len(other.entries):
                self.verdict.complain("altered", f"{named(walk.key)} came to {leg.node} with another list")
                continue
            for place, (was, entry) in enumerate(zip(one.entries, other.entries)):
                if place != one.left and was != entry:
                    text = f"{named(walk.key)} came to {leg.node} with another entry {place} than to {before.node}"
                    self.verdict.complain("altered", text)
        for leg in walk.legs:
            for place, entry in enumerate(leg.header.entries):
                is_done = place > leg.header.left
                if is_record(entry) != is_done:
                    kind, text = ("missing", "has no record in") if is_done else ("altered", "has a record in")
                    self.verdict.complain(kind, f"{named(walk.key)} at {leg.node} {text} entry {place}")

    def record(self, walk, hop, number, asked):
        """Holds the record of a hop against captures; `number` is that of the packet there."""
        leg = walk.legs[hop + 1 - walk.first]
        entry = leg.header.entries[walk.segments - 1 - hop]
        if not is_record(entry):
            return
        self.records += 1
        record, node = read_record(entry), walk.nodes()[hop]

        def complain(kind, text):
            self.verdict.complain(kind, f"{named(walk.key)}, record of {node}: {text}")

        for name in FIELDS:
            value = getattr(record, name)
            if value is not None and (name not in asked or name == "queue"):
                kind = "queue" if name == "queue" else "unasked"
                complain(kind, f"{name} is {value}, and nobody can have said so")
            if value is None and name in asked and name != "queue":
                complain(name, f"{name} is not known")
        if record.device is not None:
            self.seen[node].add(record.device)
            if self.devices.get(node) not in (None, record.device):
                complain("device", f"device is {record.device}, and its number is {self.devices[node]}")
        if record.counter is not None and record.counter != number % (1 << COUNTER_BITS):
            complain("counter", f"counter is {record.counter}, and it came as number {number}")
        if not record.of_function:
            complain("latency", "it is of no function")
        self.times(walk, hop, record, complain)

    def times(self, walk, hop, record, complain):
        (came, _), (left, _), (got, gave) = walk.came(hop), walk.came(hop + 1), walk.inside(hop)
        latency = None if record.latency is None else record.latency * LATENCY_UNIT_NS
        if record.arrival is not None:
            wrapped = record.arrival - self.offset - came + (1 << ARRIVAL_BITS - 1)
            arrival = came + wrapped % (1 << ARRIVAL_BITS) - (1 << ARRIVAL_BITS - 1)
            self.delays.append(arrival - came)
            self.within(arrival, (came, left if got is None else got), complain, ("arrival", came))
            if latency is not None:
                # One that is out of bounds is at least so long.
                first = arrival if gave is None or record.saturated else gave
                self.within(arrival + latency, (first, left), complain, ("latency", arrival))
        if latency is None:
            return
        took = 0 if None in (got, gave) or record.saturated else gave - got
        if not took - TOLERANCE_NS <= latency <= left - came + TOLERANCE_NS:
            text = f"functions took {took} ns and the node {left - came} ns"
            complain("latency", f"latency is {latency} ns, and by captures {text}")
        self.beyond.append(latency - took)

    def within(self, time, between, complain, what):
        """Is a moment between two others? Told as what it is behind a third."""
        (first, last), (kind, since) = between, what
        outside = max(first - time, time - last, 0)
        self.outside[kind].append(outside)
        if outside > TOLERANCE_NS:
            complain(kind, f"{kind} is {time - since} ns, and by captures {first - since} to {last - since} ns")

    def sources(self, walk):
        nodes = [walk.ingress, *walk.nodes()[walk.first:]]
        for before, leg in zip(nodes, walk.legs):
            if leg.header.source != self.addresses[before]:
                text = f"came to {leg.node} from {before}, and its source is {leg.header.source.hex()}"
                self.verdict.complain("steps", f"{named(walk.key)} {text}")

    def crossed(self, walk, crossings):
        nodes = [walk.ingress, *walk.nodes()[walk.first:]]
        for before, leg in zip(nodes, walk.legs):
            for fault in crossings.faults(walk.key, leg.header.left, (before, leg.node), leg.frame):
                self.verdict.complain("crossed", f"{named(walk.key)} {fault}")

    def times_as_a_whole(self):
        for kind, outside in self.outside.items():
            off = sum(one > FINE_NS for one in outside)
            if off * RARE > len(outside):
                text = f"{off} of {len(outside)} times are off by more than {FINE_NS} ns"
                self.verdict.complain(kind, f"of records, by {kind}: {text}")

    def numbers(self):
        """Holds numbers of nodes against one another."""
        for node, found in self.seen.items():
            if len(found) > 1:
                self.verdict.complain("device", f"{node} has the numbers {sorted(found)}")
        owners = defaultdict(list)
        for node, found in self.seen.items():
            for device in found:
                owners[device].append(node)
        for device, nodes in owners.items():
            if len(nodes) > 1:
                self.verdict.complain("device", f"{sorted(nodes)} have the number {device}")


def numbered(walks):
    """{(key, segments left): the number of the packet in its flow where it came in so}, and of its sender's node, which
    counts what enters the path, with None for segments."""
    events = defaultdict(list)
    for walk in walks:
        flow = flow_of(walk.legs[0].header, walk.legs[0].inner)
        for leg in walk.legs:
            events[leg.node, flow].append((leg.place, walk.key, leg.header.left))
        sent = walk.sight_of_sender()
        if sent:
            events[walk.ingress, flow].append((sent.place, walk.key, None))
    return {event[1:]: number for of_flow in events.values()
            for number, event in enumerate(sorted(of_flow, key=lambda event: event[0]), 1)}


def judge_walks(walks, judge, sent, crossings):
    """Holds each walk's headers and records against captures; how many were all true."""
    numbers, proved, phases = numbered(walks), 0, {}
    for walk in sorted(walks, key=lambda walk: numbers.get((walk.key, None), 0)):
        if walk.legs[0].header.mirrored and (walk.key, None) in numbers:
            flow = flow_of(walk.legs[0].header, walk.legs[0].inner)
            phases.setdefault((walk.ingress, flow), numbers[walk.key, None])
    for walk in walks:
        fault = walk.fault()
        if fault or (walk.key, None) not in numbers:
            judge.verdict.complain("steps", f"{named(walk.key)} {fault or 'was not seen to leave its sender'}")
            continue
        before = judge.verdict.total()
        telemetry = sent.streams[walk.key[1]]["telemetry"]
        first, is_marked = numbers[walk.key, None], walk.legs[0].header.mirrored
        judge.mirrored += is_marked
        flow = flow_of(walk.legs[0].header, walk.legs[0].inner)
        phase, one_in = phases.get((walk.ingress, flow)), telemetry["mirror"]
        is_due = first % one_in == phase % one_in if phase else first > one_in
        if is_marked != is_due or (is_marked and phase > one_in):
            text = f"is {'' if is_marked else 'not '}marked, and left as number {first} of its flow"
            judge.verdict.complain("mirror", f"{named(walk.key)} {text}")
        judge.sources(walk)
        judge.unaltered(walk)
        judge.crossed(walk, crossings)
        for leg in walk.legs:
            judge.tag(walk, leg, telemetry)
        for hop in range(walk.segments - 1):
            left = walk.legs[hop - walk.first].header.left if hop >= walk.first else None
            judge.record(walk, hop, numbers[walk.key, left], telemetry["fields"])
        proved += judge.verdict.total() == before
    for key, text in crossings.rest():
        judge.verdict.complain("crossed", f"{named(key)} {text}")
    return proved


def microseconds(values, of):
    return round(of(values) / 1_000, 1) if values else None


def prove(lab, folder):
    """The verdict, as it goes into the output file."""
    verdict, sent = Verdict(), Sent(lab)
    judge = Judge(lab, verdict)
    sights = read_tenants(lab, folder, sent, verdict)
    legs, plain, crossings = read_legs(lab, folder, sent, verdict)
    walks = [Walk(key, own, sights[key], sent) for key, own in legs.items()]
    proved = judge_walks(walks, judge, sent, crossings)
    judge.numbers()
    judge.times_as_a_whole()
    for run, stream in sent.streams.items():
        seen = sum(walk.key[:2] == (False, run) for walk in walks)
        if seen != stream["sent"] if stream.get("sent") is not None else not seen:
            text = f"{seen} packets of '{stream['name']}' took records along, of {stream.get('sent')}"
            verdict.complain("missing", text)
        if plain[run]:
            verdict.complain("missing", f"packets of '{stream['name']}' came in without records, {plain[run]} times")
    return {
        "ok": not verdict.counts, "packets": len(walks), "proved": proved,
        "headers": sum(len(walk.legs) for walk in walks), "passages": crossings.proved,
        "records": judge.records, "mirrored": judge.mirrored,
        "devices": {node: sorted(found) for node, found in sorted(judge.seen.items())},
        "microseconds": {
            "tolerance": TOLERANCE_NS / 1_000, "fine": FINE_NS / 1_000,
            "arrival_median": microseconds(judge.delays, median),
            "arrival_max": microseconds(judge.delays, max),
            "outside_max": microseconds(sum(judge.outside.values(), []), max),
            "latency_over_functions_median": microseconds(judge.beyond, median),
            "latency_over_functions_max": microseconds(judge.beyond, max),
        },
        **{kind: verdict.counts[kind] for kind in KINDS},
        "violation_count": verdict.total(), "violations": verdict.examples,
    }


def main(arguments):
    return captures.run(arguments, __doc__, prove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
