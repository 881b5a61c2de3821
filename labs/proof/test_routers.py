"""The proof of records must see what a router between nodes did to packets: made-up captures with one thing wrong each."""

import unittest

from routers import HOP_LIMIT
from test_telemetry_proof import WAY, Journey, prove

NEAR, FAR = b"\x02\x1e\0\0\0\xc9\x02\x1e\0\0\0\x02", b"\x02\x1e\x02\0\0\x03\x02\x1e\x02\0\0\xc9"
# h1 and h2 are before the router, h3 and h4 behind it.
CROSSINGS = {one: {other: ["r1"] if (one < "h3") != (other < "h3") else [] for other in WAY} for one in WAY}


def framed(frame, ends, hops):
    return ends + frame[12:HOP_LIMIT] + bytes([hops]) + frame[HOP_LIMIT + 1:]


def routed(change=None):
    """A run by way of a router; of the second packet of the second flow `change(events at the router)` makes others."""
    found = []
    for flow in range(2):
        for number in range(6):
            events, passages = Journey((flow, number)).tell(), []
            for index, (place, time, frame) in enumerate(events):
                if place == ("h3", "data"):
                    events[index] = (place, time, framed(frame, FAR, 63))
                    passages.append((("r1", "left"), time, framed(frame, NEAR, 64)))
            found += events + (change(passages) if change and (flow, number) == (1, 1) else passages)
    return found


def with_frame(change):
    return lambda passages: [(place, time, change(frame)) for place, time, frame in passages]


class Crossing(unittest.TestCase):
    def wrong(self, events, text, **options):
        status, result = prove(events, way=list(WAY), **{"routers": ["r1", "r2"], "crossings": CROSSINGS, **options})
        self.assertEqual((status, result["crossed"] > 0), (1, True), result)
        self.assertIn(text, " ".join(result["violations"]))

    def test_packets_that_cross_a_router_are_proved_on_both_sides_of_it(self):
        status, result = prove(routed(), way=list(WAY), routers=["r1"], crossings=CROSSINGS)
        self.assertEqual((status, result["violations"]), (0, []))
        self.assertEqual([result[name] for name in ("proved", "headers", "passages")], [12, 36, 12])

    def test_a_packet_crosses_the_routers_of_its_way_and_no_other(self):
        self.wrong(routed(lambda passages: []), "from h2 to h3 by [], and the way is by ['r1']")
        self.wrong(routed(lambda passages: passages * 2), "by ['r1', 'r1'], and the way is by ['r1']")

        def elsewhere(passages):
            return [(("r2", "left"), time, frame) for _, time, frame in passages]
        self.wrong(routed(elsewhere), "by ['r2'], and the way is by ['r1']")
        self.wrong(routed(), "by ['r1'], and the way is by []", crossings={})
        lost = [event for event in routed() if event[0] != ("h3", "data")]
        self.wrong(lost, "was at ['r1'] with 1 segments left, and came to no node from there")

    def test_a_router_takes_one_from_the_hop_limit_and_gives_other_addresses_and_no_more(self):
        for hops in (63, 65):
            changed = with_frame(lambda frame, hops=hops: framed(frame, NEAR, hops))
            self.wrong(routed(changed), f"came with hop limit {hops} at r1 on the way from h2 to h3, and went on with 63")
        for ends in (FAR[:6] + NEAR[6:], NEAR[:6] + FAR[6:]):
            changed = with_frame(lambda frame, ends=ends: framed(frame, ends, 64))
            self.wrong(routed(changed), "kept an address of Ethernet at r1")
        for at in (15, 40, 60):
            changed = with_frame(lambda frame, at=at: frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1:])
            status, result = prove(routed(changed), way=list(WAY), routers=["r1"], crossings=CROSSINGS)
            self.assertEqual((status, result["ok"]), (1, False), at)


if __name__ == "__main__":
    unittest.main()
