"""The proof of records must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest
from ipaddress import ip_address

import records
import telemetry_proof
from captures import IPV4, IPV6
from carriers import ETHERNET

SECOND, MILLISECOND = 1_000_000_000, 1_000_000
START, OFFSET = 1_700_000_000 * SECOND, -1_690_000_000 * SECOND
HOSTS = {"S": "h1", "D": "h4", "v1": "h1", "v2": "h2", "v3": "h2", "v4": "h3", "v5": "h4"}
ADDRESSES = {node: f"2001:db8::{node[1:]}" for node in ("h1", "h2", "h3", "h4")}
DEVICES = {"h1": 11, "h2": 22, "h3": 33, "h4": 44}
WAY = ("h1", "h2", "h3", "h4")
FUNCTIONS = {"h1": ["v1"], "h2": ["v2", "v3"], "h3": ["v4"], "h4": ["v5"]}
MACS = {name: bytes([2, 0, 0, 0, 0, place]) for place, name in enumerate(HOSTS, 1)}
PROXY = bytes([2, 0, 0, 0, 0, 99])
MIRROR, COLOUR, PATH = 4, 7, 77
FIELDS = list(records.FIELDS)
# How long a packet is at a function, in it, and between nodes: longer than the proof lets times differ.
STEP = 50 * MILLISECOND


def address(node, hop, last):
    locator = b"\x5f\0\0\0\0" + bytes([int(node[1:])])
    return locator + struct.pack("!HIHH", 20 if last else 1, PATH, hop, 0)


def datagram(mine, hops=64, v6=False, ends=(b"\0" * 6, b"\0" * 6), payload=b"Z" * 40):
    """Of (flow, number), run 3."""
    flow, number = mine
    udp = struct.pack("!HHHHIII", 20_000 + flow, 5001, 20 + len(payload), 0, 3, flow, number) + payload
    if v6:
        packet = struct.pack("!IHBB", 6 << 28, len(udp), 17, hops) + b"\xfd" + bytes(15) + b"\xfd" + bytes(14) + b"\1"
    else:
        packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, hops, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return ends[0] + ends[1] + (IPV6 if v6 else IPV4) + packet + udp


class Journey:
    """One packet on its way, and what is wrong with it: `wrong(hop of the leg, state)` may change what stands in the
    header that comes there."""

    def __init__(self, mine, counter=None, way=WAY, wrong=None, v6=False, ethernet=False, mirrored=None):
        self.mine, self.way, self.wrong = mine, way, wrong
        self.counter = counter or mine[1] + 1
        self.v6, self.ethernet = v6, ethernet
        self.mirrored = (self.counter - 1) % MIRROR == 0 if mirrored is None else mirrored
        self.time, self.hops = START + 100 * STEP * (8 * mine[0] + mine[1]), 64
        self.events, self.records = [], []

    def tell(self):
        """[(place, time, frame)]"""
        self.seen("S", False)
        if self.way[0] != "h1":
            self.leg(0)
        for hop, node in enumerate(self.way):
            self.visit(hop, node)
            if hop + 1 < len(self.way):
                self.leg(hop + 1)
        self.time += STEP
        self.seen("D", True)
        return self.events

    def seen(self, name, is_in):
        ends = (MACS[name], PROXY) if is_in else (PROXY, MACS[name])
        self.events.append(((name, "customer"), self.time, datagram(self.mine, self.hops, self.v6, ends)))

    def visit(self, hop, node):
        arrival = self.time + STEP // 2
        for name in FUNCTIONS[node]:
            self.time += STEP
            self.seen(name, True)
            self.time += STEP
            self.hops -= 1
            self.seen(name, False)
        self.time += STEP
        latency = self.time - STEP // 2 - arrival
        self.records.append({"valid": 0x1D, "saturated": 0, "of_function": 1, "synchronised": 0, "queue_id": 0,
                             "device": DEVICES[node], "arrival": (arrival + OFFSET) % (1 << 40),
                             "latency": latency // 128, "queue": 0, "counter": self.counter})

    def leg(self, hop):
        self.time += STEP
        before = self.way[hop - 1] if hop else "h1"
        entries = [address(node, place, place == len(self.way) - 1) for place, node in enumerate(self.way)]
        state = {"version": 1, "functions": 1, "pending": 0, "incomplete": 0, "mirrored": self.mirrored,
                 "colour": COLOUR, "flags": 1, "map": 0x1F, "result": 0, "left": len(self.way) - 1 - hop,
                 "node": self.way[hop], "tlv": 252, "source": ip_address(ADDRESSES[before]).packed,
                 "records": [dict(record) for record in self.records],
                 "entries": entries[::-1], "behind": b"", "inner": datagram(self.mine, self.hops, self.v6)}
        if self.wrong:
            self.wrong(hop, state)
        if state["node"]:
            self.events.append(((state["node"], "data"), self.time, header(state, self.v6, self.ethernet)))


class Slow(Journey):
    """One that a function at h2, or whatever is before its functions, takes a second longer with. Its record says of
    that what it is told to."""

    def __init__(self, said, at=("v3", False), longer=SECOND, **options):
        super().__init__((2, 0), **options)
        self.said, self.at, self.longer = said, at, longer

    def seen(self, name, is_in):
        self.time += self.longer if (name, is_in) == self.at else 0
        super().seen(name, is_in)

    def visit(self, hop, node):
        super().visit(hop, node)
        if node == "h2":
            self.said(self.records[-1])


def record(said):
    bits = 1
    for name, width in (("valid", 5), ("saturated", 1), ("of_function", 1), ("synchronised", 1), ("queue_id", 4),
                        ("device", 16), ("arrival", 40), ("latency", 24), ("queue", 12), ("counter", 20)):
        bits = bits << width | said[name]
    return bits.to_bytes(16, "big")


def header(state, v6, ethernet):
    entries = list(state["entries"])
    for place, one in enumerate(state["records"]):
        entries[len(entries) - 1 - place] = record(one)
    tag = (state["version"] << 12 | state["functions"] << 11 | state["pending"] << 10 | state["incomplete"] << 9
           | int(state["mirrored"]) << 8 | state["colour"])
    tail = struct.pack("!BBHI", state["tlv"], 6, state["map"], state["result"]) + state["behind"]
    protocol = ETHERNET if ethernet else 41 if v6 else 4
    inner = state["inner"] if ethernet else state["inner"][14:]
    routing = struct.pack("!BBBBBBH", protocol, 2 * len(entries) + len(tail) // 8, 4, state["left"], len(entries) - 1,
                          state["flags"], tag) + b"".join(entries) + tail
    outer = struct.pack("!IHBB", 6 << 28, len(routing) + len(inner), 43, 60)
    outer += state["source"] + state.get("destination", entries[state["left"]])
    return bytes(12) + IPV6 + outer + routing + inner


def good(**options):
    return [event for flow in range(2) for number in range(6) for event in Journey((flow, number), **options).tell()]


def with_one(wrong, **options):
    """The same where something is wrong with the second packet of the second flow."""
    return [event for flow in range(2) for number in range(6)
            for event in Journey((flow, number), wrong=wrong if (flow, number) == (1, 1) else None, **options).tell()]


def set_record(hop, values, at=None):
    """Records of a hop say something else, from where the packet comes in next, or at one leg alone."""
    def wrong(leg, state):
        if hop < len(state["records"]) and at in (None, leg):
            state["records"][hop].update(values)
    return wrong


def set_header(at, **values):
    def wrong(leg, state):
        if at in (None, leg):
            state.update(values)
    return wrong


# What else is seen at any interface: a question for an address in IPv4, and one in IPv6.
OTHERS = [(START, b"\xff" * 6 + PROXY + b"\x08\x06" + bytes(28)),
          (START, b"\x33" * 6 + PROXY + IPV6 + struct.pack("!IHBB", 6 << 28, 4, 58, 255) + b"\xfe" + bytes(15)
           + b"\xff" + bytes(15) + bytes(4))]


def write_pcap(path, events, cut=None):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for time, data in events:
            kept = data[:cut]
            file.write(struct.pack("<IIII", time // SECOND, time % SECOND, len(kept), len(data)) + kept)


def write_run(folder, events, telemetry=None, **told):
    """Captures and description of a run; the path of the latter."""
    at = {}
    for place, time, frame in sorted(events, key=lambda event: event[1]):
        at.setdefault(place, []).append((time, frame))
    lab = {"endpoints": {}, "functions": {}, "hosts": HOSTS, "captures": [], "devices": DEVICES,
           "addresses": ADDRESSES,
           "clock": [{"real": START, "monotonic": START + OFFSET}] * 2,
           "streams": [{"name": "datagrams", "run": 3, "source": "S", "destination": "D", "port": 5001, "sent": 12,
                        "way": None, "telemetry": {"fields": FIELDS, "mirror": MIRROR, "colour": COLOUR,
                                                   **(telemetry or {})}}]}
    for name, mac in MACS.items():
        pcap = f"{name}.pcap"
        write_pcap(os.path.join(folder, pcap), OTHERS + at.get((name, "customer"), []), told.get("cut"))
        group = "functions" if name.startswith("v") else "endpoints"
        lab[group][name] = {"customer": {"mac": mac.hex(":"), "pcap": pcap, "lost": told.get("lost", 0)}}
    for node in DEVICES:
        write_pcap(os.path.join(folder, f"{node}.data.pcap"), at.get((node, "data"), []))
        lab["captures"].append({"node": node, "interface": "data", "pcap": f"{node}.data.pcap",
                                "lost": told.get("lost_between", 0)})
    for router in told.get("routers", ()):
        write_pcap(os.path.join(folder, f"{router}.pcap"), at.get((router, "left"), []))
        lab.setdefault("routers", []).append({"node": router, "interface": "left", "pcap": f"{router}.pcap", "lost": 0})
    lab["streams"][0].update({name: told[name] for name in ("way", "sent") if name in told})
    lab.update({name: told[name] for name in ("devices", "clock", "crossings") if name in told})
    path = os.path.join(folder, "telemetry.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(lab, file)
    return path


def prove(events, telemetry=None, **told):
    with tempfile.TemporaryDirectory() as folder:
        path, output = write_run(folder, events, telemetry, **told), os.path.join(folder, "out.json")
        status = telemetry_proof.main([path, output])
        if status == 2:
            return status, None
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


class Proof(unittest.TestCase):
    def wrong(self, events, kind, text="", **options):
        status, result = prove(events, **options)
        self.assertEqual((status, result["ok"]), (1, False), result)
        self.assertGreater(result[kind], 0, result)
        self.assertIn(text, " ".join(result["violations"]))
        return result

    def test_true_records_are_proved_over_both_families_as_packets_and_as_frames(self):
        for options in ({}, {"v6": True}, {"ethernet": True}, {"v6": True, "ethernet": True}):
            status, result = prove(good(**options), way=list(WAY))
            self.assertEqual((status, result["violations"]), (0, []))
            counts = [result[name] for name in ("packets", "proved", "headers", "records", "mirrored")]
            self.assertEqual(counts, [12, 12, 36, 36, 4])
            self.assertEqual(result["devices"], {"h1": [11], "h2": [22], "h3": [33]})
            times = [result["microseconds"][name] for name in ("arrival_median", "arrival_max", "outside_max")]
            self.assertEqual(times, [25_000.0, 25_000.0, 0])

    def test_where_the_first_node_serves_none_it_writes_none(self):
        status, result = prove(good(way=("h2", "h3", "h4")), way=["h2", "h3", "h4"])
        self.assertEqual((status, result["headers"], result["records"]), (0, 36, 24), result)
        self.wrong(good(way=("h2", "h3", "h4")), "steps", "its way is ['h1', 'h2', 'h3', 'h4']", way=list(WAY))

    def test_a_node_that_is_visited_twice_counts_its_packets_each_time(self):
        way = ("h1", "h2", "h3", "h2", "h4")

        def again(flow, number):
            journey = Journey((flow, number), way=way)

            def wrong(hop, state):
                for place in (1, 3):
                    if place < len(state["records"]):
                        state["records"][place]["counter"] = 2 * number + (1 if place == 1 else 2)
            journey.wrong = wrong
            return journey.tell()

        events = [event for flow in range(2) for number in range(6) for event in again(flow, number)]
        status, result = prove(events, way=list(way))
        self.assertEqual((status, result["records"]), (0, 48), result)

    def test_numbers_of_nodes_are_theirs(self):
        text = "record of h2: device is 33, and its number is 22"
        self.wrong(with_one(set_record(1, {"device": 33})), "device", text)
        unknown = {**DEVICES, "h2": None}
        self.assertEqual(prove(good(), devices=unknown)[0], 0)
        self.wrong(with_one(set_record(1, {"device": 5})), "device", "h2 has the numbers [5, 22]", devices=unknown)
        two = [event for number in range(12) for event in
               Journey((0, number), wrong=set_record(1, {"device": 11})).tell()]
        self.wrong(two, "device", "['h1', 'h2'] have the number 11", devices=unknown)

    def test_arrivals_are_when_captures_have_them(self):
        late = (START + OFFSET + 250 * STEP) % (1 << 40)
        self.wrong(with_one(set_record(0, {"arrival": late})), "arrival", "record of h1: arrival is")
        self.wrong(good(), "arrival", clock=[{"real": START, "monotonic": START + OFFSET + SECOND}])
        self.wrong(good(), "capture", "a clock was set meanwhile",
                   clock=[{"real": START, "monotonic": START + OFFSET + less} for less in (0, 2_000_000)])
        # 2^40 ns are eighteen minutes: the clock of records has gone round between two packets.
        shift = (1 << 40) - (START + OFFSET + 100 * STEP) % (1 << 40)

        def moved(leg, state):
            for one in state["records"]:
                one["arrival"] = (one["arrival"] + shift) % (1 << 40)
        events = [event for flow in range(2) for number in range(6)
                  for event in Journey((flow, number), wrong=moved).tell()]
        clock = [{"real": START, "monotonic": START + OFFSET + shift}]
        self.assertEqual(prove(events, clock=clock)[0], 0)

    def test_latencies_are_those_between_captures(self):
        for latency in (300_000, 5_000_000):
            text = "record of h2: latency is"
            self.wrong(with_one(set_record(1, {"latency": latency})), "latency", text)
        self.wrong(with_one(set_record(0, {"of_function": 0})), "latency", "it is of no function")

    def slow(self, **add):
        """What is found where the record of a long visit has this added to its fields, in ns, and no other is wrong."""
        place = add.pop("at", ("v3", False))

        def said(record):
            for name, ns in add.items():
                record[name] += ns // 128 if name == "latency" else ns
        return prove(good() + Slow(said, place).tell(), sent=13)[1]

    def test_times_are_between_when_functions_got_packets_and_gave_them_back(self):
        before, half = ("v2", True), SECOND // 2
        for right in ({}, {"at": before}, {"at": before, "arrival": half, "latency": -half}):
            self.assertEqual(self.slow(**right)["violations"], [])
        for kind, text, wrong in (
                ("latency", "by captures functions took 1150000000 ns", {"latency": -SECOND}),
                ("latency", "latency is 700000000 ns, and by captures 1175000000 to", {"latency": -half}),
                ("latency", "by captures 1175000000 to", {"at": before, "latency": -half}),
                ("latency", "to 1275000000 ns", {"latency": half}),
                ("arrival", "arrival is 525000000 ns, and by captures 0 to 50000000 ns", {"arrival": half}),
                ("arrival", "by captures 0 to 1050000000 ns", {"at": before, "arrival": 2 * SECOND})):
            result = self.slow(**wrong)
            self.assertEqual((result["proved"], result[kind] > 0), (12, True), wrong)
            self.assertIn(text, " ".join(result["violations"]))

    def test_times_are_off_by_some_microseconds_but_rarely(self):
        def one(number, shorter):
            def wrong(leg, state):
                for record in state["records"]:
                    record["latency"] -= (STEP // 2 + shorter) // 128 if number < 3 else 0
            return Journey((0, number), counter=number + 1, wrong=wrong)

        for packets, shorter, found in ((40, 40_000, 0), (40, 100_000, 9), (320, 100_000, 0)):
            events = [event for number in range(packets) for event in one(number, shorter).tell()]
            status, result = prove(events, sent=packets)
            self.assertEqual((status, result["latency"]), (bool(found), bool(found)), result)
            self.assertIn(f"{found} of 120 times are off" if found else "", " ".join(result["violations"]))

    def test_a_latency_out_of_bounds_says_no_more_than_it_knows(self):
        self.wrong(with_one(set_record(0, {"saturated": 1})), "malformed", "is said to be out of bounds")
        saturated = {"saturated": 1, "latency": records.LATENCY_MAX}
        self.wrong(with_one(set_record(1, saturated)), "latency", "functions took 0 ns and the node 300000000 ns")
        slow = Slow(lambda record: record.update(saturated), longer=3 * SECOND)
        self.assertEqual(prove(good() + slow.tell(), sent=13)[0], 0)

    def test_packets_are_counted_by_flow(self):
        for hop, node in enumerate(WAY[:-1]):
            self.wrong(with_one(set_record(hop, {"counter": 1})), "counter",
                       f"record of {node}: counter is 1, and it came as number 2")

    def test_what_nobody_knows_or_asked_for_is_invalid_and_zero(self):
        self.wrong(with_one(set_record(0, {"queue": 3})), "malformed", "of a queue that is not known")
        self.wrong(with_one(set_record(0, {"valid": 0x1F})), "queue", "record of h1: queue is (0, 0)")
        self.wrong(with_one(set_record(0, {"valid": 0x1C})), "malformed", "of a counter that is not known")
        self.wrong(with_one(set_record(0, {"valid": 0x1C, "counter": 0})), "counter", "is not known")
        self.wrong(good(), "unasked", "record of h1: counter is 1, and nobody", telemetry={"fields": FIELDS[:-1]})

    def test_one_in_so_many_of_each_flow_is_mirrored(self):
        for number in (0, 1):
            events = [event for flow in range(2) for place in range(6) for event in
                      Journey((flow, place), mirrored=place != 0 if (flow, place) == (0, number) else None).tell()]
            self.wrong(events, "mirror", f"marked, and left as number {number + 1} of its flow")

    def test_tags_say_what_they_must_and_keep_it(self):
        for name, value, text in (("pending", 1, "pending True"), ("incomplete", 1, "incomplete True"),
                                  ("functions", 0, "functions False"), ("version", 2, "version 2"),
                                  ("colour", 8, "colour 8"), ("result", 5, "result 5"), ("map", 0x1D, "map 29")):
            self.wrong(with_one(set_header(None, **{name: value})), "tag", text)
        for name, value in (("colour", 8), ("functions", 0), ("mirrored", 1), ("map", 0x1D)):
            self.wrong(with_one(set_header(2, **{name: value})), "altered", "at h3")

    def test_headers_stay_as_long_as_they_are_and_lose_one_segment_at_each_node(self):
        def longer(leg, state):
            if leg == 2:
                state["entries"] = [address("h4", 9, True)] + state["entries"]
        self.wrong(with_one(longer), "altered", "came to h3 with another list")
        self.wrong(with_one(set_header(2, left=2)), "steps", "had [2, 2, 0] segments left")
        self.wrong(with_one(set_header(2, node=None)), "steps", "had [2, 0] segments left")
        self.wrong(with_one(set_header(3, node=None)), "steps", "had [2, 1] segments left")
        self.wrong(with_one(set_header(1, node=None)), "steps", "was first seen at h3")
        self.wrong(with_one(set_header(2, node="h2")), "steps", "its way is", way=list(WAY))
        self.wrong(with_one(set_header(2, source=ip_address(ADDRESSES["h1"]).packed)), "steps",
                   "came to h3 from h2, and its source is 20010db8000000000000000000000001")
        event = Journey((1, 1)).tell()
        twice = [one for one in event if one[0] == ("h3", "data")]
        self.wrong(good() + twice, "steps", "had [2, 1, 1, 0] segments left")

    def test_records_stand_behind_segments_left_alone_and_stay(self):
        self.wrong(with_one(set_record(0, {"counter": 9}, at=2)), "altered", "with another entry 3 than to h2")

        def without(leg, state):
            state["records"] = state["records"][:leg - 1]
        self.wrong(with_one(without), "missing", "has no record in entry 3")

        def ahead(leg, state):
            if leg == 1:
                state["entries"][0] = record(state["records"][0])
        self.wrong(with_one(ahead), "altered", "has a record in entry 0")

        def other(leg, state):
            if leg == 1:
                state["entries"][0] = address("h4", 9, True)
        self.wrong(with_one(other), "altered", "with another entry 0")

    def test_headers_that_say_what_they_cannot_are_found(self):
        self.wrong(with_one(set_header(1, tlv=251)), "malformed", "a TLV of type 251")
        self.wrong(with_one(set_header(1, behind=bytes(8))), "malformed", "bytes of routing header for 4 segments")
        self.wrong(with_one(set_header(1, map=0x3F)), "malformed", "map 0x003f")
        self.wrong(with_one(set_header(1, destination=address("h3", 9, False))), "malformed", "is its segment")
        stranger = datagram((1, 1)).replace(struct.pack("!II", 3, 1), struct.pack("!II", 4, 1))
        self.wrong(with_one(set_header(1, inner=stranger)), "malformed", "is no datagram of the streams")

    def test_packets_without_records_and_packets_that_are_not_there_are_missed(self):
        self.wrong(with_one(set_header(None, flags=0)), "missing", "came in without records, 3 times")
        self.wrong(good(), "missing", "12 packets of 'datagrams' took records along, of 13", sent=13)
        self.wrong([], "missing", sent=None)

    def test_nothing_of_it_is_seen_at_functions_and_endpoints(self):
        def at(name, frame):
            return good() + [((name, "customer"), START, frame)]
        ends = (MACS["D"], PROXY)
        clean = datagram((0, 0), 59, ends=ends)
        journey = Journey((0, 0))
        leg = [frame for (node, _), _, frame in journey.tell() if node == "h4"][0]
        self.wrong(at("D", ends[0] + ends[1] + leg[12:]), "left", "a frame at D/customer has a routing header")
        self.wrong(at("v4", clean + bytes(8)), "left", "8 bytes behind its packet")
        for inside in (b"\x10" + bytes(15), b"\x5f" + bytes(15)):
            packet = struct.pack("!IHBB", 6 << 28, 0, 59, 64) + b"\xfd" + bytes(15) + inside
            self.wrong(at("D", ends[0] + ends[1] + IPV6 + packet), "left", f"the address {inside.hex()}")
        self.wrong(at("D", datagram((0, 0), 59, ends=ends, payload=b"Y" * 40)), "left", "is not what its sender sent")
        self.wrong(at("D", datagram((0, 0), 59, ends=ends, payload=b"Z" * 48)), "left", "is not what its sender sent")

    def test_captures_that_lost_frames_or_cut_them_prove_nothing(self):
        self.wrong(good(), "capture", "lost 3 packets", lost=3)
        self.wrong(good(), "capture", "the capture at h2/data lost 3 packets", lost_between=3)
        self.assertEqual(prove(good(), cut=60)[0], 2)
        self.assertEqual(prove(good(), clock=[])[0], 2)


if __name__ == "__main__":
    unittest.main()
