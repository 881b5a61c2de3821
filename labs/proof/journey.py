#!/usr/bin/env python3
"""Shows one packet of a chain with telemetry on its way, with its bytes, from the captures of a lab: on each wire
between nodes the header in front of it, which entries of its list are segments still and which are records by now, and
what these say; at functions and endpoints the bare frame.

Links nothing of Catena, and judges nothing: telemetry_proof.py has done so for all packets of the run, and what it came
to is the last line. Times are those of the captures, from when the packet left its sender.

Usage: journey.py CAPTURES [FLOW NUMBER]
CAPTURES is the folder of that name of a run of labs/srv6-int.yaml. Without a flow and a number it is a packet from
the middle of those that are marked to be told of at the end of their path.
Exit status 0 if it was shown, 2 if it cannot be.
"""

import json
import os
import struct
import sys
from collections import defaultdict, namedtuple
from ipaddress import IPv6Address

from captures import IPV4, Unreadable, mac_bytes, whole_frames
from carriers import ETHERNET, Malformed, ROUTING, identity, segmented
from records import (ARRIVAL_BITS, FIELDS, LATENCY_UNIT_NS, is_record, is_segmented, path_of, read_header,
                     read_record)
from telemetry_proof import Sent, foreign_part, packet_end, payload_of

BEHAVIOURS = {1: "End", 20: "End.DT46", 21: "End.DX2"}  # of segment identifiers, as RFC 8986 numbers them
LOCATOR_BYTES, IPV6_BYTES = 6, 40
GIVEN, BETWEEN, GOT = range(3)

# One place where the packet was seen: its hop limit there, what it was about to do, when, where, the frame, the header
# in front of it and how many bytes that takes (None and 0 at functions and endpoints), and the packet as a frame.
Stop = namedtuple("Stop", "hops kind time node frame header front inner")


def stops_of_tenants(lab, folder, sent):
    """Yields (key, Stop) of all datagrams at endpoints and functions."""
    for group in ("endpoints", "functions"):
        for node, interfaces in lab[group].items():
            for interface in interfaces.values():
                if "pcap" not in interface:
                    continue
                mac = mac_bytes(interface["mac"])
                for time, _, frame in whole_frames(os.path.join(folder, interface["pcap"])):
                    who = identity(frame)
                    key = sent.key(who)
                    if key is not None and mac in (frame[:6], frame[6:12]):
                        yield key, Stop(who[3], GOT if frame[:6] == mac else GIVEN, time, node, frame, None, 0, frame)


def stops_of_nodes(lab, folder, sent):
    """The same of all datagrams with records that came in at nodes from other nodes."""
    for capture in lab["captures"]:
        for time, _, frame in whole_frames(os.path.join(folder, capture["pcap"])):
            header = read_header(frame) if is_segmented(frame) else None
            carried = header and segmented(frame)
            who = carried and identity(carried[1])
            key = sent.key(who)
            if key is not None:
                front = IPV6_BYTES + 8 * (frame[55] + 1)
                yield key, Stop(who[3], BETWEEN, time, capture["node"], frame, header, front, carried[1])


def read_stops(lab, folder):
    """{key of a datagram: its Stops in the order of its way}. Functions that route count hops down, so that the order
    needs no clock."""
    sent, found = Sent(lab), defaultdict(list)
    for read in (stops_of_tenants, stops_of_nodes):
        for key, stop in read(lab, folder, sent):
            found[key].append(stop)
    return {key: sorted(stops, key=lambda stop: (-stop.hops, stop.kind, stop.time)) for key, stops in found.items()}


def choose(stops, wanted):
    """The key of the datagram that is shown. `wanted` is (flow, number), or None."""
    with_records = [key for key, own in stops.items() if any(stop.header for stop in own) and not key[0]]
    if wanted:
        chosen = [key for key in with_records if key[2:] == wanted]
        missing = f"datagram {wanted[1]} of flow {wanted[0]} was not seen between nodes with records"
    else:
        chosen = [key for key in with_records if any(stop.header and stop.header.mirrored for stop in stops[key])]
        missing = "no packet that is marked to be told of was seen between nodes"
    if not chosen:
        raise Unreadable(missing)
    # The first packets of a run wait for what all later ones find: one of the middle.
    return sorted(chosen, key=lambda key: key[::-1])[len(chosen) // 2]


def groups(data, size=2):
    """Bytes in hexadecimal, apart by `size` of them."""
    return data.hex(" ", -size) if data else ""


class Story:
    """The lines about one datagram."""

    def __init__(self, lab, key, stops):
        self.lab, self.key, self.stops = lab, key, stops
        self.stream = lab["streams"][[one["run"] for one in lab["streams"]].index(key[1])]
        self.start = stops[0].time
        self.offset = lab["clock"][0]["monotonic"] - lab["clock"][0]["real"]
        self.names = {number: node for node, number in lab["devices"].items()}
        self.owners = {stop.header.destination[:LOCATOR_BYTES]: stop.node for stop in stops if stop.header}
        self.payload = payload_of(stops[0].frame)
        self.lines = []

    def tell(self):
        source, destination = self.stream["source"], self.stream["destination"]
        first, last = self.stops[0], self.stops[-1]
        if (first.node, first.kind, last.node, last.kind) != (source, GIVEN, destination, GOT):
            raise Unreadable(f"the captures do not have all of the way from {source} to {destination}")
        _, _, flow, number = self.key
        hosts = self.lab["hosts"]
        functions = [stop.node for stop in self.stops[1:-1] if stop.kind == GOT]
        by = ", ".join(f"{name} ({hosts[name]})" for name in functions)
        self.lines.append(f"datagram {number} of flow {flow}: from {source} ({hosts[source]}) by {by} to {destination} "
                          f"({hosts[destination]})")
        node = hosts[source]
        for stop in self.stops:
            if stop.header:
                self.between(node, stop)
                node = stop.node
                if not stop.header.left:
                    self.lines.append(f"{'':6}{node} takes the header off; its own record is on no wire")
            else:
                self.bare(stop)
        return self.lines

    def row(self, name, data, note=""):
        self.lines.append(f"{'':6}{name:<10}{data:<41}{note}".rstrip() if len(data) < 41 else
                          f"{'':6}{name:<10}{data}  {note}".rstrip())

    def moment(self, stop, text):
        self.lines.append(f"{(stop.time - self.start) / 1_000:>8.1f} µs  {text}")

    def bare(self, stop):
        """A frame at a function or an endpoint."""
        node, host = stop.node, self.lab["hosts"][stop.node]
        found = foreign_part(stop.frame)
        nothing = "nothing of the chain in it" if found is None else f"in it {found}"
        if stop.kind == GIVEN and stop is not self.stops[0]:
            self.moment(stop, f"{node} gives it back: {len(stop.frame)} bytes, {nothing}, hop limit {stop.hops}")
            return
        does = "sends" if stop is self.stops[0] else "gets"
        self.moment(stop, f"{node} at {host} {does} {len(stop.frame)} bytes, {nothing}")
        self.row("Ethernet", groups(stop.frame[:14]))
        self.packet(stop)

    def packet(self, stop):
        """The packet itself, in `inner`."""
        inner = stop.inner
        udp = 14 + (inner[14] & 0x0F) * 4 if inner[12:14] == IPV4 else 54
        same = "as" if payload_of(inner) == self.payload else "not as"
        self.row("IPv4" if inner[12:14] == IPV4 else "IPv6", groups(inner[14:udp]), f"hop limit {stop.hops}")
        behind = packet_end(inner) - udp - 8
        self.row("UDP", groups(inner[udp:udp + 8]), f"and {behind} bytes, {same} they were sent")

    def between(self, before, stop):
        """A frame between two nodes."""
        header, frame = stop.header, stop.frame
        tlv = 62 + 16 * len(header.entries)
        size = f"{len(frame)} bytes, {stop.front} of them IPv6 and its routing header"
        self.moment(stop, f"{before} ─► {stop.node}: {size}")
        self.row("Ethernet", groups(frame[:14]))
        self.row("IPv6", groups(frame[14:22]), f"next header {ROUTING} (routing), hop limit {frame[21]}")
        self.row("  source", groups(header.source), str(IPv6Address(header.source)))
        self.row("  to", groups(header.destination), f"the active segment, {IPv6Address(header.destination)}")
        size = f"{stop.front - IPV6_BYTES} bytes"
        self.row("routing", groups(frame[54:58]), f"next header {header.protocol}, {size}, type {frame[56]}, "
                                                  f"Segments Left {header.left}")
        self.row("", groups(frame[58:62]), f"Last Entry {len(header.entries) - 1}, Flags {header.flags:02x}, "
                                           f"Tag: {self.tag(header)}")
        for place, entry in enumerate(header.entries):
            self.row(f"  [{place}]", groups(entry), self.entry(header, place, entry))
        asked = ", ".join(name for name, bit in FIELDS.items() if header.map & bit)
        result = f"detection result {header.result:08x}" if header.result else "no detection result"
        self.row("  TLV", groups(frame[tlv:tlv + 8]), f"asks for {asked}; {result}")
        if header.protocol == ETHERNET:
            self.row("Ethernet", groups(stop.inner[:14]), "of the frame inside")
        self.packet(stop)

    @staticmethod
    def tag(header):
        words = [f"version {header.version}"]
        words += ["functions"] * header.functions + ["pending"] * header.pending
        words += ["incomplete"] * header.incomplete + ["mirrored"] * header.mirrored
        return ", ".join([*words, f"colour {header.colour}"])

    def entry(self, header, place, entry):
        if place > header.left and is_record(entry):
            return self.record(read_record(entry))
        function, hop = struct.unpack("!H", entry[6:8])[0], struct.unpack("!H", entry[12:14])[0]
        behaviour = BEHAVIOURS.get(function, f"function {function}")
        owner = self.owners.get(entry[:LOCATOR_BYTES], str(IPv6Address(entry)))
        state = {True: "active segment", False: "segment"}[place == header.left]
        if place > header.left:
            state = "segment of a hop that wrote nothing"
        return f"{state}: {owner}, {behaviour}, path {path_of(entry)}, hop {hop}"

    def record(self, record):
        device = "a device that is not known"
        if record.device is not None:
            device = f"device {record.device} ({self.names.get(record.device, 'of no node')})"
        words = []
        if record.arrival is not None:
            words.append(f"arrival {self.since_start(record.arrival) / 1_000:.1f} µs")
        if record.latency is not None:
            more = "more than " if record.saturated else ""
            words.append(f"latency {more}{record.latency * LATENCY_UNIT_NS / 1_000:.1f} µs")
        if record.queue is not None:
            words.append("queue {} of {} packets".format(*record.queue))
        if record.counter is not None:
            words.append(f"counter {record.counter}")
        words += [f"no {name}" for name in FIELDS if name != "device" and getattr(record, name) is None]
        return f"record of {device}: {', '.join(words)}"

    def since_start(self, arrival):
        """Nanoseconds from when the packet left its sender, of a time that is told modulo 2^40."""
        half = 1 << ARRIVAL_BITS - 1
        return (arrival - self.offset - self.start + half) % (2 * half) - half


def read_json(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def show(folder, wanted):
    """The lines of what is shown."""
    lab, proof = read_json(folder, "telemetry.json"), read_json(folder, "telemetry_proof.json")
    stops = read_stops(lab, folder)
    key = choose(stops, wanted)
    told = Story(lab, key, stops[key]).tell()
    told.append(f"of all packets of this run: {proof['proved']} of {proof['packets']} proved, with {proof['records']} "
                f"records in {proof['headers']} headers; frames at functions and endpoints with more in them than "
                f"was sent, or something else: {proof['left']}")
    return told


def main(arguments):
    numbers = arguments[1:]
    if len(arguments) not in (1, 3) or not all(number.isdigit() for number in numbers):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        lines = show(arguments[0], tuple(map(int, numbers)) or None)
    except KeyError as error:
        print(f"journey.py: the description in {arguments[0]} has no {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, TypeError, IndexError, struct.error, Unreadable, Malformed) as error:
        print(f"journey.py: cannot be shown: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
