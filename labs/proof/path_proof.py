#!/usr/bin/env python3
"""Proves from captures which instances each datagram met: each function's exactly one, in order,
once, the same for all of a flow; a tap's copy exactly once; the answers of a symmetric chain the same
instances in reverse order. Counts the shares of instances and which flows a change of them moved.

Links nothing of Catena. Reads classic pcap files taken at the interfaces of both endpoints and of
every function, inside their own namespaces, and a JSON description:

    {"endpoints": {"S": {"customer": {"mac": "02:..", "pcap": "S.customer.pcap", "lost": 0}}},
     "functions": {"v1": {"customer": {...}}},
     "traffic": [{"name": "flows", "run": 0, "phase": 0, "chain": "web", "source": "S",
                  "destination": "D", "port": 5001, "flows": 100, "sent": 200,
                  "answers": false, "symmetric": false,
                  "steps": [{"name": "web", "direction": "same",
                             "instances": [{"name": "v1", "weight": 3}]}]}]}

A datagram is known by run, flow and number; an answer carries the same. Traffic of one name in
several phases has the same flows, so that a phase can be held against the one before it. Two
witnesses must agree on the order: the IP hop limit, which each function lowers by one, and the
captures' clock. Every function leaves by the network that it was reached by.

Usage: path_proof.py DESCRIPTION.json OUTPUT.json
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import os
import struct
import sys
from collections import Counter, defaultdict, namedtuple

import captures
from captures import Capture, distrust

EXAMPLES_MAX = 20  # violations told in full; all are counted
KINDS = ("missing", "twice", "elsewhere", "order", "copy", "split", "mirror")

Seen = namedtuple("Seen", "passed time node is_in")


class Verdict:
    """Counts by traffic and kind, and examples of what is wrong."""

    def __init__(self):
        self.counts, self.examples = Counter(), []

    def complain(self, name, kind, text):
        self.counts[name, kind] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{name}: {text}" if name else text)


def read_sights(lab, folder, verdict):
    """{(run, is it an answer): {(flow, number): [Seen]}}."""
    ports = {traffic["port"] for traffic in lab["traffic"]}
    packets = defaultdict(lambda: defaultdict(list))
    for group in ("endpoints", "functions"):
        for node, interfaces in lab[group].items():
            for network, interface in interfaces.items():
                if "pcap" not in interface:
                    continue
                capture = Capture(os.path.join(folder, interface["pcap"]), interface["mac"])
                for time, is_in, hops, _, port, identity, _ in capture.sights(ports):
                    run, flow, number = struct.unpack("!III", identity)
                    seen = Seen(255 - hops, time, node, is_in)
                    packets[run, port not in ports][flow, number].append(seen)
                for fault in distrust(interface, capture, f"{node}/{network}"):
                    verdict.complain(None, "capture", fault)
    return packets


def split_copies(traffic, seen):
    """What a packet and its copies for taps were seen at: (the packet's own, the copies')."""
    taps = {instance["name"] for step in traffic["steps"] if step["direction"] == "tap"
            for instance in step["instances"]}
    return [s for s in seen if s.node not in taps], [s for s in seen if s.node in taps]


def walk(source, destination, seen):
    """(the functions that a packet visited in order, None) or (None, (kind, what is wrong))."""
    seen = sorted(seen)
    places = Counter((s.node, s.is_in, s.passed) for s in seen)
    for (node, is_in, _), count in places.items():
        if count > 1:
            return None, ("twice", f"was seen {count} times {'in' if is_in else 'out'} at {node}")
    if not seen or (seen[0].node, seen[0].is_in) != (source, False):
        return None, ("missing", f"was never seen where it was sent, at {source}")
    if (seen[-1].node, seen[-1].is_in) != (destination, True):
        return None, ("missing", f"was last seen at {seen[-1].node}")
    if [s.time for s in seen] != sorted(s.time for s in seen):
        return None, ("order", "has hop limits that contradict the clock")
    middle, visited = seen[1:-1], []
    for into, out in zip(middle[::2], middle[1::2]):
        if into.node != out.node or not into.is_in or out.is_in or out.passed != into.passed + 1:
            return None, ("order", f"was seen at {into.node} and then at {out.node}, which is no "
                                   f"visit")
        visited.append(into.node)
    if len(middle) % 2 or seen[-1].passed - seen[0].passed != len(visited):
        return None, ("order", f"passed another number of routers than the functions it was seen at")
    return visited, None


def path_fault(steps, visited):
    """What is wrong with the functions visited; None if nothing. `steps` are sets of instances."""
    for index, (instances, node) in enumerate(zip(steps, visited)):
        if node not in instances:
            return "elsewhere", f"was at {node} as its function {index + 1}"
    if len(visited) != len(steps):
        return "missing", f"visited {len(visited)} functions of {len(steps)}"
    return None


def copies_fault(traffic, first, copies):
    """What is wrong with the copies of a packet; None if nothing. `first`: where it was sent."""
    passed = 0
    left = list(copies)
    for step in traffic["steps"]:
        if step["direction"] != "tap":
            passed += 1
            continue
        names = {instance["name"] for instance in step["instances"]}
        here = [s for s in left if s.node in names and s.passed == first.passed + passed]
        if len(here) != 1 or not here[0].is_in:
            return f"{len(here)} copies came to tap {step['name']}"
        left.remove(here[0])
    return f"a copy was seen at {left[0].node} besides" if left else None


class Flows:
    """The instances that each flow of one traffic met."""

    def __init__(self):
        self.paths, self.split = {}, set()

    def take(self, flow, visited):
        if self.paths.setdefault(flow, visited) != visited:
            self.split.add(flow)


def judge_traffic(traffic, packets, verdict):
    """One traffic of one phase: its counts and its flows."""
    name, run = traffic["name"], traffic["run"]
    through = [{instance["name"] for instance in step["instances"]} for step in traffic["steps"]
               if step["direction"] != "tap"]
    counts, flows, back = Counter(), Flows(), Flows()

    def wrong(kind, key, text):
        counts[kind] += 1
        verdict.complain(name, kind, f"datagram {key[1]} of flow {key[0]} {text}")

    for key, seen in sorted(packets[run, False].items()):
        counts["packets"] += 1
        own, copies = split_copies(traffic, seen)
        visited, fault = walk(traffic["source"], traffic["destination"], own)
        fault = fault or path_fault(through, visited)
        if fault:
            wrong(fault[0], key, fault[1])
            continue
        text = copies_fault(traffic, min(own), copies)
        if text:
            wrong("copy", key, text)
            continue
        counts["copies"] += len(copies)
        counts["proved"] += 1
        flows.take(key[0], tuple(visited))
    for key, seen in sorted(packets[run, True].items()):
        counts["answers"] += 1
        own, _ = split_copies(traffic, seen)
        visited, fault = walk(traffic["destination"], traffic["source"], own)
        wanted = tuple(reversed(flows.paths.get(key[0], ()))) if traffic["symmetric"] else ()
        if fault or tuple(visited) != wanted:
            text = fault[1] if fault else f"met {' '.join(visited) or 'none'}"
            wrong("mirror", key, f"and its answer: it {text}, not {' '.join(wanted) or 'none'}")
            continue
        counts["mirrored"] += 1
        back.take(key[0], tuple(visited))
    for flow in sorted(flows.split | back.split):
        counts["split"] += 1
        verdict.complain(name, "split", f"flow {flow} met several instances of one function")
    counts["flows"] = len(flows.paths)
    for what, wanted in (("packets", traffic.get("sent")), ("flows", traffic["flows"]),
                         ("answers", traffic.get("sent") if traffic["answers"] else 0)):
        if wanted is not None and counts[what] != wanted:
            verdict.complain(name, "missing", f"{counts[what]} {what} were seen, {wanted} expected")
    return counts, flows


def shares_of(traffic, flows):
    """The share of each instance of each function that has several."""
    lines = []
    through = [step for step in traffic["steps"] if step["direction"] != "tap"]
    for place, step in enumerate(through):
        if len(step["instances"]) < 2:
            continue
        met = Counter(path[place] for path in flows.paths.values())
        total, weights = sum(met.values()), sum(one["weight"] for one in step["instances"])
        for one in step["instances"]:
            lines.append({
                "traffic": traffic["name"], "phase": traffic["phase"], "function": step["name"],
                "instance": one["name"], "flows": met[one["name"]],
                "share": met[one["name"]] / total if total else 0.0,
                "wanted": one["weight"] / weights if weights else 0.0})
    return lines


def moves_of(before, flows_before, after, flows_after):
    """Which flows a change moved; needless is a move between two instances that both stayed. None
    if the functions themselves changed."""
    through = [[step for step in traffic["steps"] if step["direction"] != "tap"]
               for traffic in (before, after)]
    if [s["name"] for s in through[0]] != [s["name"] for s in through[1]]:
        return None
    moved = needless = 0
    for flow in flows_before.paths.keys() & flows_after.paths.keys():
        old, new = flows_before.paths[flow], flows_after.paths[flow]
        moved += old != new
        for place, (was, now) in enumerate(zip(old, new)):
            weights = [{i["name"]: i["weight"] for i in side[place]["instances"]}
                       for side in through]
            stayed = all(name in weights[0] and weights[0][name] == weights[1].get(name)
                         for name in (was, now))
            needless += was != now and stayed
    return {"traffic": after["name"], "phase": after["phase"], "moved": moved,
            "needless": needless, "flows": len(flows_after.paths)}


def prove(lab, folder):
    """The verdict, as it goes into the output file."""
    verdict = Verdict()
    packets = read_sights(lab, folder, verdict)
    lines, shares, moves, known = [], [], [], {}
    for traffic in sorted(lab["traffic"], key=lambda one: (one["name"], one["phase"])):
        counts, flows = judge_traffic(traffic, packets, verdict)
        keys = ("packets", "proved", "flows", "copies", "answers", "mirrored") + KINDS
        lines.append({"name": traffic["name"], "phase": traffic["phase"],
                      **{key: counts[key] for key in keys}})
        shares += shares_of(traffic, flows)
        before = known.get(traffic["name"])
        known[traffic["name"]] = (traffic, flows)
        if before:
            moves.append(moves_of(*before, traffic, flows))
    strange = {run for run, _ in packets} - {traffic["run"] for traffic in lab["traffic"]}
    if strange or not lines:
        verdict.complain(None, "capture", f"datagrams of no traffic were seen: {sorted(strange)}")
    return {
        "ok": not verdict.counts, "traffic": lines, "shares": shares,
        "moves": [line for line in moves if line],
        "capture_faults": sum(count for (_, kind), count in verdict.counts.items()
                              if kind == "capture"),
        "violation_count": sum(verdict.counts.values()), "violations": verdict.examples,
    }


def main(arguments):
    return captures.run(arguments, __doc__, prove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
