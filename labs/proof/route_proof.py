#!/usr/bin/env python3
"""Proves from captures that each source-routed frame went where its ports lead: from an edge over cables to an edge,
by the link of the number that stood in it at each node, with a counter one less at each, or without the label that
named it, and the same bytes behind it. Edges are hosts, and the switches that are named as such.

Links nothing of Catena. Reads classic pcap files of what came in at every link, and a JSON description:

    {"nodes": {"h1": "host", "a1": "switch"}, "identities": {"a1": [65579, 65581]},
     "cables": [[{"node": "h1", "interface": "l-a1"}, {"node": "a1", "interface": "l-h1"}]],
     "links": [{"node": "a1", "interface": "l-h1", "number": 1}],
     "captures": [{"node": "a1", "interface": "l-h1", "pcap": "a1.l-h1.pcap", "lost": 0}],
     "edges": ["a2"], "walks": 1000, "faults": [{"node": "a1", "interface": "l-h1"}]}

The cables are those that were plugged, the numbers those that the controller tells of (GET /v1/links), the identities what
nodes divide by where one number stands for all ports (GET /v1/nodes). `walks`, if it
is given, is how many there must have been. `faults` are the ends of cables that failed meanwhile: a walk whose
next port leads into one of them and that was seen no further is lost there, and counted. A frame may go round a cable by the detour that it brings with it. A frame that came in by a link has left the far end of its cable, so what
comes in everywhere says by which link each node has sent what. The frames of one walk are known by the datagram in
them and its hop limit, which every function lowers by one, or, of anything else, by their bytes. A walk ends at a
function. A header that leads over several goes on behind it as it was left: such a walk begins where the one before
of the same packet, with the next higher hop limit, has ended, and has taken as many numbers there, none of a link, as
its hop limit fell.

`edges` are switches that may write headers. What one writes is learned from the captures alone: where a frame comes to
it whose last port is that of no link, its header ends there, and with the next one the same frame, for the same path,
must leave the edge once, by the port that this header begins with. So a walk has pieces, from a host over edges to a host.

    malformed  a header that says what it cannot
    port       left a node by another link than that of its number
    counter    was not one less than at the node before, nor was the time to live of labels
    walk       did not go on where it had been, passed a host, or began or ended at a switch, if that is no edge or no
               other header ended or began there
    twice      came to a node once more with the same number of ports left
    altered    the header but for its counter, or what is behind it, is not what it was; at an edge between, the path,
               or what is behind the header
    capture    what speaks against a capture, or against the description

Usage: route_proof.py DESCRIPTION.json OUTPUT.json
Exit status 0 if all is proved, 1 if not (with a list), 2 if it cannot be judged.
"""

import sys
from collections import Counter, defaultdict, namedtuple

import captures
from captures import Unreadable, Verdict
from carriers import (IPV4, IPV6, Malformed, detoured, frames, identity, is_hello, profile_of, read_route,
                      remainder, stepped)

KINDS = ("malformed", "port", "counter", "walk", "twice", "altered", "capture")

# Of each label when it is written.
LABEL_TTL = 64
UNFINISHED, UNSEEN = "unfinished", "unseen"

Sight = namedtuple("Sight", "node interface route")


class Fabric:
    """What is plugged where, and how links are numbered."""

    def __init__(self, lab):
        self.nodes = lab["nodes"]
        self.far = {}
        for one, other in lab["cables"]:
            one, other = ((end["node"], end["interface"]) for end in (one, other))
            if one in self.far or other in self.far:
                raise Unreadable(f"two cables are plugged into {one} or {other}")
            self.far[one], self.far[other] = other, one
        self.numbers = {(link["node"], link["interface"]): link["number"] for link in lab["links"]}
        missing = [end for end in self.far if not self.numbers.get(end)]
        taken = Counter((node, number) for (node, _), number in self.numbers.items() if number)
        twice = [end for end, count in taken.items() if count > 1]
        if missing or twice:
            raise Unreadable(f"links without a number: {missing}; numbers given twice: {twice}")
        self.taken = set(taken)
        self.identities = lab.get("identities", {})
        self.edges = set(lab.get("edges", ()))
        unknown = [edge for edge in self.edges if self.nodes.get(edge) != "switch"]
        if unknown:
            raise Unreadable(f"edges that are no switches: {unknown}")

    def named(self, node, route):
        """The port that a node reads from the number of a way; None if it has nothing to divide by."""
        number, turn, degree = route.number
        own = self.identities.get(node, ())
        fits = turn < len(own) and own[turn].bit_length() == degree + 1
        return remainder(number, own[turn]) if fits else None


def read_sights(lab, folder, fabric, verdict):
    """{whose walk: [Sight]}, and how many frames there were."""
    walks, count = defaultdict(list), 0
    for capture in lab["captures"]:
        place = capture["node"], capture["interface"]
        if place not in fabric.far:
            continue
        if capture.get("lost"):
            verdict.complain("capture", f"the capture at {place} lost {capture['lost']} packets")
        for frame in frames(f"{folder}/{capture['pcap']}"):
            if profile_of(frame) is None:
                continue
            try:
                if is_hello(frame):
                    continue
                count += 1
                route = read_route(frame)
            except Malformed as error:
                verdict.complain("malformed", f"a frame at {place} {error}")
                continue
            walks[identity(route.inner) or route.inner].append(Sight(*place, route))
    absent = set(fabric.far) - {(one["node"], one["interface"]) for one in lab["captures"]}
    if absent:
        verdict.complain("capture", f"nothing was captured at {sorted(absent)}")
    return walks, count


def went_round(walk):
    """Have the ports changed in the header under way? Labels of those that were taken are gone from theirs."""
    return len({sight.route.ports for sight in walk if sight.route.ttl is None}) > 1


def in_order(walk, fabric):
    """The sights of a walk from its edge on. Counters tell the order, unless a detour was taken, or a header ended at
    an edge between: then cables do."""
    by_counter = sorted(walk, key=lambda sight: -sight.route.counter)
    if not went_round(walk) and not any(has_next(sight, fabric) for sight in walk):
        return by_counter
    ordered, rest, node = [], by_counter, None
    while rest:
        came_from = [fabric.far[sight.node, sight.interface][0] for sight in rest]
        following = [place for place, left in enumerate(came_from)
                     if (fabric.nodes[left] == "host" if node is None else left == node)]
        if not following:
            break
        # A detour may lead over a node again: then several have come from there.
        before = ordered[-1].route if ordered else None
        place = next((place for place in following if before and goes_on(before, rest[place].route)), following[0])
        ordered.append(rest[place])
        rest, node = rest[:place] + rest[place + 1:], ordered[-1].node
    return ordered + rest


def goes_on(before, route):
    """Is a header what a node leaves of the one before, or the detour that this brings?"""
    return route in (stepped(before), gone_round(before, route)) if before.counter else False


def has_next(sight, fabric):
    """Has a frame come to an edge between with the last port of its header, and that is no link?"""
    if sight.node not in fabric.edges or sight.route.counter != 1:
        return False
    last = next_of(sight, fabric)
    return last in range(1, 256) and (sight.node, last) not in fabric.taken


def pieces_of(walk, fabric):
    """A walk in its order, cut behind each header that ends at an edge between."""
    pieces = [[]]
    for sight in walk:
        if pieces[-1] and has_next(pieces[-1][-1], fabric):
            pieces.append([])
        pieces[-1].append(sight)
    return pieces


def named_by(before, sight, fabric):
    """The port that stood in a header where the sight's frame came from. What an edge takes of labels, or beside a number, is
    never seen."""
    route = sight.route
    if route.ttl is route.number is None:
        # Position `counter + 1` is the one that the node before has taken.
        return route.ports[route.counter]
    if before is None:
        return UNSEEN
    return before.route.ports[-1] if route.number is None else fabric.named(before.node, before.route)


def packet_of(inner):
    """(bytes that no function alters, hop limit) of the packet in a frame."""
    kind, packet = inner[12:14], bytearray(inner[14:])
    if kind == IPV4 and len(packet) >= 20:
        hops = packet[8]
        packet[8] = packet[10] = packet[11] = 0
    elif kind == IPV6 and len(packet) >= 40:
        hops = packet[7]
        packet[7] = 0
    else:
        hops = 0
    return bytes(packet), hops


def is_new(route):
    """Has the node that the frame was seen behind first written its header?"""
    if route.number is not None:
        return True
    return route.counter == len(route.ports) - 1 if route.ttl is None else route.ttl == LABEL_TTL - 1


def gone_round(route, seen):
    """What a header is like behind a node that took the detour that it brings; None if it has none. That node makes a
    tag anew, so it is the one that was seen."""
    found = detoured(route)
    if found and None not in (found.tag, seen.tag):
        found = found._replace(tag=seen.tag)
    return found


def left_over(route, passed):
    """What is left of a header when as many functions have had its packet."""
    for _ in range(passed):
        route = stepped(route) if route.counter else route
    return route


def begun(sight, left, earlier, fabric):
    """What the header of the first sight of a walk was at the edge where it begins, None if that has written it; or
    what speaks against it."""
    is_edge = fabric.nodes[left] == "host"
    if is_new(sight.route):
        why = "where no header of it had ended" if left in fabric.edges else "which is no edge"
        return None if is_edge else ("walk", f"began at {left}, {why}")
    if not is_edge or earlier is None or earlier[0].node != left:
        return "walk", (f"was first seen at {sight.node}, with {sight.route.counter} of {len(sight.route.ports)} left, and "
                        f"nothing had come to {left}")
    last, passed, others = earlier
    # A node keeps what is left of the newest header of a flow: it may be that of a packet behind this one.
    left_overs = [left_over(route, passed)._replace(inner=sight.route.inner) for route in [last.route, *others]]
    fitting = (route for route in left_overs if goes_on(route, sight.route))
    own = next(fitting, left_overs[0])
    taken = [own.ports[own.counter + place] for place in range(passed) if own.counter + place < len(own.ports)]
    if own.ttl is None and any((left, port) in fabric.taken for port in taken):
        return "walk", f"went by {left} and a link there, where {passed} functions had it"
    return Sight(left, None, own)


def renewed(ended, sight, fabric):
    """What speaks against the header that is behind an edge, by the last sight of the one that ended there."""
    left, _ = fabric.far[sight.node, sight.interface]
    if left != ended.node:
        return "walk", f"came to {ended.node}, where its header ended, and to {sight.node} from {left}"
    if not is_new(sight.route):
        return "walk", f"left {left}, where its header ended, by a header that was not written there"
    if (sight.route.inner, sight.route.path) != (ended.route.inner, ended.route.path):
        return "altered", f"came to {sight.node} as another frame, or of another path, than to the edge {left}"
    return None


def doubled(walk):
    """(kind, what is wrong) where a frame came by one link twice, None where none did."""
    sight, count = Counter(walk).most_common(1)[0]
    if count > 1:
        return "twice", f"came to {sight.node} once more by {sight.interface} with {sight.route.counter} left"
    return None


def fault_of(walk, fabric, earlier=None):
    """(kind, what is wrong with a walk), None if nothing. The sights are in their order; `earlier` is the last sight of
    the walk before of the same packet, how many functions have had it since, and the headers of its path that came
    there at all."""
    fault = doubled(walk)
    if fault:
        return fault
    left, _ = fabric.far[walk[0].node, walk[0].interface]
    before = begun(walk[0], left, earlier, fabric)
    if before is not None and not isinstance(before, Sight):
        return before
    ended = None
    for piece in pieces_of(walk, fabric):
        fault = renewed(ended, piece[0], fabric) if ended else None
        fault = fault or astray(piece, before, fabric)
        if fault:
            return fault
        before, ended = None, piece[-1]
    if ended.route.counter < 1 or fabric.nodes[ended.node] != "host":
        return UNFINISHED, f"was last seen at {ended.node}, with {ended.route.counter} ports left"
    last = next_of(ended, fabric)
    if (ended.node, last) in fabric.taken:
        return "walk", f"ended at {ended.node} by port {last}, which is a link"
    if not last or last > 255:
        return "port", f"ended at {ended.node}, where its number names port {last}"
    return None


def astray(piece, before, fabric):
    """What is wrong with the way of one header. `before` is what it was at the edge where it begins; None if that has
    written it."""
    for place, sight in enumerate(piece):
        node, interface, route = sight
        left, by = fabric.far[node, interface]
        if before is not None:
            expected = stepped(before.route)
            if route.ports != expected.ports:
                expected = gone_round(before.route, route)
            if route.counter == before.route.counter and route == before.route:
                return "twice", f"came to {before.node} and to {node} with {route.counter} left"
            if expected is None or route._replace(counter=0, ttl=0) != expected._replace(counter=0, ttl=0):
                return "altered", f"came to {node} with other bytes than to {before.node}"
            if (route.counter, route.ttl) != (expected.counter, expected.ttl):
                return "counter", f"had {before.route.counter} left at {before.node}, {route.counter} at {node}"
            if left != before.node:
                return "walk", f"was at {before.node}, and came to {node} from {left}"
            if place and fabric.nodes[left] != "switch":
                return "walk", f"passed {left}, which is no switch"
        taken = fabric.numbers[left, by]
        named = named_by(before, sight, fabric)
        if named not in (taken, UNSEEN):
            return "port", f"left {left} by port {taken} ({by}), and its header named {named}"
        before = sight
    return None


def next_of(sight, fabric):
    """The port that a frame names to the node that has seen it; None if none is left."""
    route = sight.route
    if route.counter < 1:
        return None
    return route.ports[route.counter - 1] if route.number is None else fabric.named(sight.node, route)


def prove(lab, folder):
    """The verdict, as it goes into the output file."""
    verdict, fabric = Verdict(), Fabric(lab)
    walks, count = read_sights(lab, folder, fabric, verdict)
    ways, passed, proved, unfinished = Counter(), Counter(), 0, 0
    round_about, renewals = 0, 0
    failed = {(end["node"], fabric.numbers[end["node"], end["interface"]]) for end in lab.get("faults", ())}
    walks = {who: in_order(walk, fabric) for who, walk in walks.items()}
    ends, came = defaultdict(dict), defaultdict(dict)
    for walk in walks.values():
        last = walk[-1]
        packet, hops = packet_of(last.route.inner)
        ends[packet][hops] = last
        came[last.node, last.route.path][last.route._replace(inner=b"")] = True
    goes_on = 0
    for who, walk in walks.items():
        packet, hops = packet_of(walk[0].route.inner)
        before = min((other for other in ends[packet] if other > hops), default=None)
        goes_on += not is_new(walk[0].route)
        last = ends[packet].get(before)
        earlier = last and (last, before - hops, list(came[last.node, last.route.path]))
        fault = fault_of(walk, fabric, earlier)
        if fault and fault[0] == UNFINISHED:
            unfinished += 1
            last = walk[-1]
            if (last.node, next_of(last, fabric)) in failed:
                continue
            fault = "walk", fault[1]
        if fault:
            name = f"datagram {who[2].hex()} (hop limit {who[3]})" if isinstance(who, tuple) else "a frame"
            verdict.complain(fault[0], f"{name} {fault[1]}")
            continue
        proved += 1
        pieces = pieces_of(walk, fabric)
        renewals += len(pieces) - 1
        round_about += any(map(went_round, pieces))
        edge = fabric.far[walk[0].node, walk[0].interface][0]
        ways[" ".join([edge] + [sight.node for sight in walk])] += 1
        passed.update(sight.node for sight in walk[:-1])
    wanted = lab.get("walks")
    if wanted != len(walks) and (wanted is not None or not walks):
        text = "at least one" if wanted is None else wanted
        verdict.complain("capture", f"{len(walks)} walks were seen, {text} expected")
    return {
        "ok": not verdict.counts, "frames": count, "walks": len(walks), "proved": proved,
        "ways": dict(ways.most_common()), "switches": dict(passed.most_common()),
        "passages": sum(passed.values()), "unfinished": unfinished, "detoured": round_about, "gone_on": goes_on,
        "renewed": renewals,
        **{kind: verdict.counts[kind] for kind in KINDS},
        "violation_count": sum(verdict.counts.values()), "violations": verdict.examples,
    }


def main(arguments):
    return captures.run(arguments, __doc__, prove)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
