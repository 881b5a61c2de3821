#!/usr/bin/env python3
"""Proves from captures what a stream of datagrams suffered while its chain changed: lost,
duplicated, mixed, overtaken.

Links nothing of Catena. Reads classic pcap files taken at the interfaces of both endpoints and of
every function, inside their own namespaces, and a JSON description:

    {"endpoints": {"S": {"customer": {"mac": "02:..", "pcap": "S.customer.pcap", "lost": 0,
                                      "counted": 1000}}},
     "functions": {"v1": {"customer": {...}}},
     "stream": {"source": "S", "destination": "D", "port": 5001, "sent": 1000, "received": 1000},
     "versions": [{"functions": ["v1"], "kind": "first", "asked": 0, "over": null},
                  {"functions": ["v1", "v2"], "kind": "insert", "asked": 17.., "over": 17..}],
     "carriers": [{"node": "h1", "interface": "data0", "pcap": "h1.data0.pcap", "lost": 0}]}

`carriers`, if they are given, are captures of what came in from other nodes: then each version says its
`encapsulation`, and a packet has taken a version whole if it was in no other between any two nodes.

Where versions say a `dscp`, a packet has taken one whole if that is the code point that every function
and the destination saw it with: bundled functions of the chain give it, by the rule set of that version.

`asked` and `over` are times in ns since 1970, by the clock of the captures: when the change to this
version was asked for, and when nothing could be under way on the version before any more (null: the
next change). A version is in force for packets sent between `asked` and the `over` of the next one.

    lost        sent by the source and never seen at the destination
    duplicated  seen twice, with one hop limit, anywhere
    mixed       whose ordered list of visited functions, all that carried it, and the code points it was seen
                with, are not exactly one version that was in force when it was sent
    overtaken   that was seen at a function or at the destination behind a packet that was sent later
                on the same version, by the order of the frames in the captures; a shorter new path may
                overtake the old one

Two witnesses must agree on the order of the visits: the IP hop limit, which each function lowers by
one, and the captures' clock.

Usage: update_proof.py DESCRIPTION.json OUTPUT.json
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import os
import sys
from bisect import bisect_right
from collections import Counter, defaultdict

import captures
from captures import Capture, Unreadable, Verdict, as_they_came, distrust
from carriers import read_carriers

TIME_BITS = 64  # of a sight packed into one number: hops passed, time, spot
SPOT_BITS = 8


class Spots:
    """Numbers for the places where a packet can be seen: (node, network, is it on its way in)."""

    def __init__(self, lab):
        nodes = [(group, node, network) for group in ("endpoints", "functions")
                 for node, interfaces in lab[group].items() for network in interfaces]
        if len(nodes) * 2 > 1 << SPOT_BITS:
            raise Unreadable("more interfaces than can be told apart")
        self.names = [(group, node, network, is_in) for group, node, network in nodes
                      for is_in in (False, True)]
        self.numbers = {(node, network, is_in): number
                        for number, (_, node, network, is_in) in enumerate(self.names)}


def read_sights(lab, folder, spots, verdict):
    """{number of the packet: [sight packed into a number that sorts by hops passed, then time]}, and
    {number: code points it was seen with behind its source}."""
    port, source = lab["stream"]["port"], lab["stream"]["source"]
    packets, marks, runs = defaultdict(list), defaultdict(set), set()
    for group in ("endpoints", "functions"):
        for node, interfaces in lab[group].items():
            for network, interface in interfaces.items():
                if "pcap" not in interface:
                    continue
                capture = Capture(os.path.join(folder, interface["pcap"]), interface["mac"])
                out, into = (spots.numbers[node, network, way] for way in (False, True))
                for time, is_in, hops, _, _, identity, dscp in as_they_came(capture.sights({port})):
                    passed = 255 - hops
                    sight = (passed << TIME_BITS | time) << SPOT_BITS | (into if is_in else out)
                    packets[identity[8:]].append(sight)
                    if node != source:
                        marks[identity[8:]].add(dscp)
                    runs.add(identity[:8])
                for fault in distrust(interface, capture, f"{node}/{network}"):
                    verdict.complain("capture", fault)
    if len(runs) > 1:
        raise Unreadable(f"{len(runs)} streams were captured; they cannot be told apart")
    return packets, marks


def path_of(spots, names):
    """The functions that a list of spots visits in order, or a sentence saying why it is no path.
    The first is where it was sent, the last where it arrived."""
    visited = []
    middle = spots[1:-1]
    if len(middle) % 2:
        return None, "was seen into a function and not out of it, or the other way round"
    for into, out in zip(middle[::2], middle[1::2]):
        (group, node, _, is_in), (_, left, _, is_still_in) = names[into], names[out]
        if group != "functions" or node != left or not is_in or is_still_in:
            return None, f"was seen at {node} and then at {left}, which is no visit"
        visited.append(node)
    return tuple(visited), None


class Judge:
    """Judges one packet after the other."""

    def __init__(self, lab, spots, carried, marks):
        stream = lab["stream"]
        ends = [number for number, (group, node, _, is_in) in enumerate(spots.names)
                if group == "endpoints" and (node, is_in) in
                ((stream["source"], False), (stream["destination"], True))]
        self.source = {n for n in ends if not spots.names[n][3]}
        self.destination = {n for n in ends if spots.names[n][3]}
        self.names, self.paths = spots.names, {}
        versions = lab["versions"]
        self.carried, self.marks = carried, marks
        # None: what carries it, or its code point, was not looked at.
        self.versions = [(tuple(version["functions"]),
                          version["encapsulation"] if carried is not None else None,
                          version.get("dscp"))
                         for version in versions]
        self.asked = [version["asked"] for version in versions]
        if self.asked != sorted(self.asked):
            raise Unreadable("the versions are not in the order of their times")
        # When a version may no longer be met by a packet that is being sent.
        forever = float("inf")
        self.over = []
        for index in range(len(versions)):
            follower = versions[index + 1] if index + 1 < len(versions) else {}
            after = self.asked[index + 2] if index + 2 < len(versions) else forever
            over = follower.get("over")
            self.over.append(after if over is None else over)
        for before, after in zip(self.versions, self.versions[1:]):
            if before == after:
                raise Unreadable(f"a version is the same as the one before it: {before}")

    def in_force(self, time):
        """The versions that a packet sent at this time may have taken, the newest first."""
        newest = bisect_right(self.asked, time) - 1
        return [index for index in range(newest, -1, -1)
                if index == newest or self.over[index] >= time]

    def name(self, path, carriers, marks):
        """A version in words."""
        told = " ".join(path) or "no function"
        if self.carried is not None:
            told += f" over {' and '.join(sorted(filter(None, carriers))) or 'nothing'}"
        if any(version[2] is not None for version in self.versions):
            told += f" with dscp {' and '.join(map(str, sorted(marks))) or 'none'}"
        return told

    def judge(self, number, seen):
        """(kind, text) of what is wrong, or (None, (version, its times, its spots))."""
        seen.sort()
        mask = (1 << SPOT_BITS) - 1
        spots = tuple([sight & mask for sight in seen])
        if spots[0] not in self.source:
            return "capture", "was never seen where it was sent"
        if len(set(spots)) < len(spots):
            places = Counter(sight >> SPOT_BITS + TIME_BITS << SPOT_BITS | sight & mask
                             for sight in seen)
            twice = [at & mask for at, count in places.items() if count > 1]
            if twice:
                _, node, network, is_in = self.names[twice[0]]
                return "duplicated", f"was seen twice {'in' if is_in else 'out'} at {node}/{network}"
        if not self.destination.intersection(spots):
            _, node, _, is_in = self.names[spots[-1]]
            return "lost", f"was last seen {'in' if is_in else 'out'} at {node}"
        if spots not in self.paths:
            self.paths[spots] = path_of(spots, self.names)
        path, fault = self.paths[spots]
        if path is None or spots[-1] not in self.destination:
            return "mixed", fault or "went on behind its destination"
        times = [sight >> SPOT_BITS & (1 << TIME_BITS) - 1 for sight in seen]
        if times != sorted(times):
            return "mixed", "has hop limits that contradict the clock"
        passed = (seen[-1] >> SPOT_BITS + TIME_BITS) - (seen[0] >> SPOT_BITS + TIME_BITS)
        if passed != len(path):
            return "mixed", f"passed {passed} routers and was seen at {len(path)} functions"
        carriers = set() if self.carried is None else self.carried.get(number, set())
        marks = self.marks.get(number, set())
        for version in self.in_force(times[0]):
            functions, carrier, dscp = self.versions[version]
            is_carried = carrier is None or carriers == {carrier}
            if functions == path and is_carried and (dscp is None or marks == {dscp}):
                return None, (version, times, spots)
        in_force = [self.versions[version] for version in self.in_force(times[0])]
        allowed = " or ".join(self.name(functions, {carrier}, {dscp})
                              for functions, carrier, dscp in in_force)
        return "mixed", f"took {self.name(path, carriers, marks)}; in force was {allowed}"


def changes_of(lab, journeys):
    """One line per change: what each version carried, and what was under way on the old one when
    the first packet of the new one left."""
    lines = []
    versions = lab["versions"]
    for index in range(1, len(versions)):
        old, new = journeys[index - 1], journeys[index]
        first = min((sent for sent, _ in new), default=None)
        behind = [pair for pair in old if first is not None and pair[1] > first]
        lines.append({
            "kind": versions[index].get("kind"), "functions": versions[index]["functions"],
            "encapsulation": versions[index].get("encapsulation"),
            "dscp": versions[index].get("dscp"),
            "old": len(old), "new": len(new), "in_flight": len(behind),
            "sent_on_old_after_new": sum(sent > first for sent, _ in behind),
        })
    return lines


def overtaken(journeys):
    """{number of a packet: spot} of those on one version that a later one has passed, and where
    that was seen first. `journeys` are (number, times, spots)."""
    found, earliest = {}, {}
    for number, times, spots in sorted(journeys, key=lambda journey: journey[1][0], reverse=True):
        # The last first: what is behind a packet has been seen already.
        for time, spot in zip(times, spots):
            if time > earliest.get(spot, time):
                found.setdefault(number, spot)
            else:
                earliest[spot] = time
    return found


def prove(lab, folder):
    """The verdict, as it goes into the output file."""
    verdict = Verdict()
    spots = Spots(lab)
    packets, marks = read_sights(lab, folder, spots, verdict)
    carried = None
    if lab.get("carriers") is not None:
        complain = lambda text: verdict.complain("capture", text)
        whose = read_carriers(lab["carriers"], folder, lab["stream"]["port"], complain)
        carried = {who[8:]: carriers for who, carriers in whose.items()}
    judge = Judge(lab, spots, carried, marks)
    journeys = [[] for _ in lab["versions"]]
    sent = arrived = 0
    for number, seen in sorted(packets.items()):
        kind, found = judge.judge(number, seen)
        sent += kind != "capture"
        arrived += kind not in ("capture", "lost")
        if kind is None:
            version, times, passed = found
            journeys[version].append((number, times, passed))
        else:
            verdict.complain(kind, f"packet {int.from_bytes(number, 'big')} {found}")
    stream = lab["stream"]
    for what, counted, witness in (("sent", sent, "source"), ("received", arrived, "destination")):
        if stream.get(what) is not None and stream[what] != counted:
            text = f"the {witness} says that it {what} {stream[what]}, the captures {counted}"
            verdict.complain("capture", text)
    for taken in journeys:
        for number, spot in sorted(overtaken(taken).items()):
            _, node, network, is_in = spots.names[spot]
            where = f"{'in' if is_in else 'out'} at {node}/{network}"
            number = int.from_bytes(number, "big")
            verdict.complain("overtaken", f"packet {number} was overtaken, as seen {where}")
    ends = [[(times[0], times[-1]) for _, times, _ in taken] for taken in journeys]
    changes = changes_of(lab, ends)
    both = sum(1 for change in changes if change["old"] and change["new"])
    if not changes or both < len(changes):
        verdict.complain("versions", f"{len(changes) - both} of {len(changes)} changes were not seen "
                                     f"on both versions")
    counts = verdict.counts
    return {
        "ok": not counts,
        "changes": len(changes), "sent": sent,
        "lost": counts["lost"], "duplicated": counts["duplicated"], "mixed": counts["mixed"],
        "overtaken": counts["overtaken"],
        "both_versions": both, "in_flight": sum(change["in_flight"] for change in changes),
        "capture_faults": counts["capture"],
        "violation_count": sum(counts.values()), "violations": verdict.examples,
        "each": changes,
    }


def main(arguments):
    return captures.run(arguments, __doc__, prove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
