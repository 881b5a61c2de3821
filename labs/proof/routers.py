"""Plain routers between nodes: what came in at them of packets over segments of IPv6, and whether that is what comes in
at the node behind. Knows Ethernet and the hop limit of IPv6; refuses to know records and chains.

A lab without routers says nothing of them. Links nothing of Catena.
"""

from collections import defaultdict, namedtuple

HOP_LIMIT = 21  # behind Ethernet, in IPv6

# A packet where it came in at a router.
Passage = namedtuple("Passage", "router frame")


def untouched(frame):
    """What of a frame is the same on both sides of a router: not the addresses of Ethernet, and not the hop limit."""
    return frame[12:HOP_LIMIT] + frame[HOP_LIMIT + 1:]


class Crossings:
    """What passed routers, by packet and segments left, and what has to."""

    def __init__(self, lab):
        self.ways = lab.get("crossings", {})
        self.passages = defaultdict(list)
        self.proved = 0

    def add(self, key, left, passage):
        self.passages[key, left].append(passage)

    def faults(self, key, left, nodes, frame):
        """Yields what speaks against the way of a packet between two nodes, to the second of which it came as `frame`."""
        before, node = nodes
        way = self.ways.get(before, {}).get(node) or []
        found = sorted(self.passages.pop((key, left), ()), key=lambda passage: -passage.frame[HOP_LIMIT])
        if [passage.router for passage in found] != way:
            yield f"went from {before} to {node} by {[passage.router for passage in found]}, and the way is by {way}"
            return
        wires = [passage.frame for passage in found] + [frame]
        for passage, here, there in zip(found, wires, wires[1:]):
            where = f"at {passage.router} on the way from {before} to {node}"
            if untouched(here) != untouched(there):
                yield f"was changed {where}"
            elif here[HOP_LIMIT] != there[HOP_LIMIT] + 1:
                yield f"came with hop limit {here[HOP_LIMIT]} {where}, and went on with {there[HOP_LIMIT]}"
            elif here[:6] == there[:6] or here[6:12] == there[6:12]:
                yield f"kept an address of Ethernet {where}"
            else:
                self.proved += 1

    def rest(self):
        """Yields (key, text) of what came to routers and was on no way."""
        for (key, left), passages in self.passages.items():
            routers = sorted({passage.router for passage in passages})
            yield key, f"was at {routers} with {left} segments left, and came to no node from there"
