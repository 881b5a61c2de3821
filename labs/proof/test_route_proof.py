"""The proof of routes must be able to fail: made-up captures with one thing wrong each."""

import json
import os
import struct
import tempfile
import unittest

import route_proof
from carriers import CLASSIC, SAFE, remainder
from test_carriers import datagram, labelled, marked, numbered, route

NODES = {"h1": "host", "h2": "host", "a1": "switch", "a2": "switch", "a3": "switch"}
# A triangle with a host at a1 and one at a2; numbers by (node, interface).
CABLES = [("h1", "l-a1", 1, "a1", "l-h1", 3), ("a1", "l-a2", 1, "a2", "l-a1", 1),
          ("a2", "l-h2", 3, "h2", "l-a2", 1), ("a1", "l-a3", 2, "a3", "l-a1", 1),
          ("a3", "l-a2", 2, "a2", "l-a3", 2)]
FUNCTION = 9  # the number of a port of a function at h2
SHORT = [("a1", "l-h1"), ("a2", "l-a1"), ("h2", "l-a2")]
LONG = [("a1", "l-h1"), ("a3", "l-a1"), ("a2", "l-a3"), ("h2", "l-a2")]
PORTS = {id(SHORT): (FUNCTION, 3, 1, 1), id(LONG): (FUNCTION, 3, 2, 2, 1)}


def walk(number, places=SHORT, hops=64, **options):
    """[(place, frame)] of one datagram on its way."""
    ports = PORTS[id(places)]
    inner = datagram(number, hops)
    return [(place, route(ports, len(ports) - 1 - index, inner, **options))
            for index, place in enumerate(places)]


def stack(number, places=SHORT):
    """The same behind labels: that of a port is gone with the step."""
    way = PORTS[id(places)][-2::-1]
    return [(place, labelled(way[index:], datagram(number), ttl=63 - index)) for index, place in enumerate(places)]


BACK = [("a2", "l-h2"), ("a1", "l-a2"), ("h1", "l-a1")]


def over_two_ports(functions, end=FUNCTION + 1):
    """By position: from h1 to functions of h2, and on to one of h1."""
    return (end, 3, 1, 1) + functions[::-1] + (3, 1, 1)


def over_two(number, functions=(FUNCTION,), after=63, end=FUNCTION + 1):
    """[(place, frame)] of one datagram under a header that leads to functions of h2 and back to one of h1."""
    ports = over_two_ports(functions, end)
    there = [(place, route(ports, len(ports) - 1 - index, datagram(number))) for index, place in enumerate(SHORT)]
    return there + [(place, route(ports, 3 - index, datagram(number, after))) for index, place in enumerate(BACK)]


def stack_over_two(number, functions=(FUNCTION,), after=63):
    """The same behind labels."""
    way = over_two_ports(functions)[-2::-1]
    there = [(place, labelled(way[index:], datagram(number), ttl=63 - index)) for index, place in enumerate(SHORT)]
    first = 3 + len(functions)
    return there + [(place, labelled(way[first + index:], datagram(number, after), ttl=63 - first - index))
                    for index, place in enumerate(BACK)]


IDENTITIES = {"a1": [0x1002B, 0x1002D], "a2": [0x10039, 0x1003F], "a3": [0x10047, 0x10053], "h2": [0x1008D, 0x100BD]}


def multiply(one, other):
    return 0 if not other else (one if other & 1 else 0) ^ multiply(one << 1, other >> 1)


def number_of(pairs):
    """The number that leaves these remainders, found by trying each factor."""
    number, product = 0, 1
    for polynomial, port in pairs:
        number ^= next(found for found in (multiply(product, factor) for factor in range(1 << 16))
                       if remainder(number ^ found, polynomial) == port)
        product = multiply(product, polynomial)
    return number


WAYS = {id(places): number_of([(IDENTITIES[node][0], port) for (node, _), port in zip(places, PORTS[id(places)][-2::-1])])
        for places in (SHORT, LONG)}


def residues(number, places=SHORT):
    """The same with one number for the ports of the way."""
    octets = 2 * len(places)
    return [(place, numbered(WAYS[id(places)], octets, len(places) - index, datagram(number)))
            for index, place in enumerate(places)]


ROUND = ((3, 2, (2, 2)),)  # at a1, for the cable to a2: by a3


def gone_round(number, first=None, tags=(b"", b"")):
    """[(place, frame)] of one datagram that leaves its way at a1, whose cable to a2 is dead."""
    inner = datagram(number)
    before = route((FUNCTION, 3, 1, 1), 3, inner, detours=ROUND if first is None else first, tag=tags[0])
    ports = (FUNCTION, 3, 2, 2)
    after = [(place, route(ports, counter, inner, tag=tags[1])) for place, counter in zip(LONG[1:], (3, 2, 1))]
    return [(LONG[0], before)] + after


# What a3 gives the header that it writes, where it is an edge.
NEXT = 200
# By position: to the edge, and on from there.
FIRST, SECOND = (NEXT, 2, 1), (FUNCTION, 3, 2)


def over_edge(number, first=FIRST, second=SECOND, write=route, behind=None):
    """[(place, frame)] of one datagram by the long way, under one header to a3 and another one behind it."""
    before, after = datagram(number), behind or datagram(number)
    to = [(place, write(first, len(first) - 1 - index, before)) for index, place in enumerate(LONG[:2])]
    return to + [(place, write(second, len(second) - 1 - index, after)) for index, place in enumerate(LONG[2:])]


def of_profile(profile):
    return lambda ports, counter, inner: marked(profile, ports, counter, inner)


def labels(ports, counter, inner):
    """A header of this counter, of all these ports by position."""
    return labelled(ports[:counter][::-1], inner, ttl=63 - (len(ports) - 1 - counter))


TO_EDGE, FROM_EDGE = (number_of([(IDENTITIES[node][0], port) for node, port in way])
                      for way in ((("a1", 2), ("a3", NEXT)), (("a2", 3), ("h2", FUNCTION))))


def remainders(ports, counter, inner):
    return numbered(TO_EDGE if ports == FIRST else FROM_EDGE, 4, counter, inner)


def hello(place):
    return [(place, datagram(9)[:12] + b"\x88\xb5\x10\x01" + bytes(44))]


def good():
    """Two datagrams by two ways, one of them behind a function once more."""
    return walk(0) + walk(1, LONG) + walk(0, hops=63) + walk(2, LONG, width=4)


def prove(sights, walks=None, lost=0, without=None, numbers=None, cables=None, faults=(), edges=()):
    with tempfile.TemporaryDirectory() as folder:
        ends, links = [], []
        for left, by, one, right, back, other in cables or CABLES:
            ends.append([{"node": left, "interface": by}, {"node": right, "interface": back}])
            links += [{"node": left, "interface": by, "number": one},
                      {"node": right, "interface": back, "number": other}]
        for link in links:
            link["number"] = (numbers or {}).get((link["node"], link["interface"]), link["number"])
        places = [(link["node"], link["interface"]) for link in links]
        entries = []
        for node, interface in places:
            if (node, interface) == without:
                continue
            name = f"{node}.{interface}.pcap"
            entries.append({"node": node, "interface": interface, "pcap": name, "lost": lost})
            with open(os.path.join(folder, name), "wb") as file:
                file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
                for index, (place, data) in enumerate(sights):
                    if place == (node, interface):
                        file.write(struct.pack("<IIII", 1, index, len(data), len(data)) + data)
        lab = {"nodes": NODES, "identities": IDENTITIES, "cables": ends, "links": links, "captures": entries, "walks": walks,
               "faults": list(faults), "edges": list(edges)}
        path, output = (os.path.join(folder, name) for name in ("route.json", "out.json"))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(lab, file)
        status = route_proof.main([path, output])
        if status == 2:
            return status, None
        with open(output, encoding="utf-8") as file:
            return status, json.load(file)


class Proof(unittest.TestCase):
    def wrong(self, sights, kind, text="", **options):
        status, result = prove(sights, **options)
        self.assertEqual((status, result["ok"]), (1, False))
        self.assertGreater(result[kind], 0, result)
        self.assertIn(text, " ".join(result["violations"]))
        return result

    def test_a_detour_that_a_frame_brings_is_proved_and_no_other(self):
        status, result = prove(gone_round(0) + walk(1) + hello(SHORT[0]), walks=2)
        self.assertEqual((status, result["proved"], result["detoured"], result["frames"]), (0, 2, 1, 7), result)
        for other in ((), ((3, 2, (2, 3)),), ((2, 1, (2, 2)),), ((3, 1, (2, 2)),)):
            self.wrong(gone_round(0, other), "altered")
        self.wrong(gone_round(0)[:2], "walk", "was last seen at a3")

    def test_a_detour_over_nodes_of_the_way_before_it_is_proved(self):
        # At a3, for the cable to a2: twice over a1, with more ports left behind the dead cable than before it.
        again = [("a1", "l-a3"), ("a3", "l-a1"), ("a1", "l-a3"), ("a2", "l-a1"), ("h2", "l-a2")]
        before, ports = (FUNCTION, 3, 2, 2, 1), (FUNCTION, 3, 1, 1, 2, 1)
        sights = walk(1)
        for index, place in enumerate(LONG[:2]):
            sights.append((place, route(before, 4 - index, datagram(0), detours=((3, 2, ports[2:]),))))
        sights += [(place, route(ports, 5 - index, datagram(0))) for index, place in enumerate(again)]
        status, result = prove(sights, walks=2)
        self.assertEqual((status, result["proved"], result["detoured"]), (0, 2, 1), result)
        for index in range(len(walk(1)), len(sights)):
            self.assertEqual(prove(sights[:index] + sights[index + 1:])[0], 1, index)

    def test_headers_that_end_at_edges_between_are_proved_piece_by_piece(self):
        for write in (route, of_profile(SAFE), of_profile(CLASSIC), labels, remainders):
            sights = over_edge(0, write=write) + over_edge(1, write=write) + walk(2)
            status, result = prove(sights, walks=3, edges=["a3"])
            self.assertEqual((status, result["proved"], result["renewed"]), (0, 3, 2), result)
            self.assertEqual((result["detoured"], result["gone_on"]), (0, 0), result)
            self.assertEqual(result["ways"], {"h1 a1 a3 a2 h2": 2, "h1 a1 a2 h2": 1})
            # At a switch that is no edge, or not this one, no header ends.
            for edges in ([], ["a1", "a2"]):
                status, result = prove(sights, edges=edges)
                self.assertEqual((status, result["proved"]), (1, 1), result)
            one = over_edge(0, write=write)
            self.wrong(one[:2], "walk", "was last seen at a3, with 1 ports left", edges=["a3"])
            self.wrong(one[2:], "walk", "began at a3, where no header of it had ended", edges=["a3"])
            self.wrong(one + one[2:], "twice", edges=["a3"])
            self.wrong(one + one[2:3], "twice", edges=["a3"])
            self.wrong(one[:2] + one[1:], "twice", edges=["a3"])
            for index in range(4):
                status, result = prove(one[:index] + one[index + 1:], edges=["a3"])
                self.assertEqual((status, result["proved"]), (1, 0), (index, result))
            changed = datagram(0)[:-1] + b"\1"
            self.wrong(over_edge(0, write=write, behind=changed), "altered", "than to the edge a3", edges=["a3"])
            other = over_edge(0, write=write)[:2] + over_edge(1, write=write)[2:]
            self.assertEqual(self.wrong(other, "walk", "was last seen at a3", edges=["a3"])["walk"], 2)

    def test_what_an_edge_between_may_not_write_is_found(self):
        def wrong(sights, kind, text):
            self.wrong(sights, kind, text, edges=["a3"])

        wrong(over_edge(0, second=(FUNCTION, 3, 1)), "port", "left a3 by port 2 (l-a2), and its header named 1")
        # A header that is not new there, and one that had a port behind the edge's number.
        old = [(LONG[2], route((FUNCTION, 3, 2, 2), 2, datagram(0)))]
        wrong(over_edge(0)[:2] + old, "walk", "was not written there")
        wrong(over_edge(0, first=(1,) + FIRST)[:2], "walk", "was last seen at a3, with 2 ports left")
        wrong(over_edge(0, first=(1,) + FIRST), "altered", "with other bytes than to a3")
        by_another = [(("a2", "l-h2"), over_edge(0)[2][1])]
        wrong(over_edge(0)[:2] + by_another, "walk", "came to a3, where its header ended, and to a2 from h2")
        to_another = [(place, route(SECOND, 2 - index, datagram(0), path=8)) for index, place in enumerate(LONG[2:])]
        wrong(over_edge(0)[:2] + to_another, "altered", "of another path")
        # It sends one the right way, and the same header back to where the frame came from.
        back = [(("a1", "l-a3"), route(SECOND, 2, datagram(0)))]
        self.assertEqual(prove(over_edge(0) + back, edges=["a3"])[0], 1)
        # The second header ends at a link.
        wrong(over_edge(0, second=(1, 3, 2)), "walk", "ended at h2 by port 1, which is a link")
        for edges in (["h1"], ["a9"]):
            self.assertEqual(prove(walk(0), edges=edges)[0], 2)

    def test_what_is_left_of_a_header_may_end_at_an_edge_between(self):
        there_and_back = (NEXT, 1, 1, FUNCTION, 3, 1, 1)
        sights = [(place, route(there_and_back, 6 - index, datagram(0))) for index, place in enumerate(SHORT)]
        sights += [(place, route(there_and_back, 2 - index, datagram(0, 63))) for index, place in enumerate(BACK[:2])]
        sights += [(BACK[2], route((FUNCTION + 1, 3), 1, datagram(0, 63)))]
        status, result = prove(sights, walks=2, edges=["a1"])
        self.assertEqual((status, result["proved"], result["gone_on"], result["renewed"]), (0, 2, 1, 1), result)
        self.assertEqual(result["ways"], {"h1 a1 a2 h2": 1, "h2 a2 a1 h1": 1})
        self.assertEqual(prove(sights)[0], 1)

    def test_a_tag_stays_what_it_is_but_where_a_detour_is_taken(self):
        tagged = walk(0, tag=b"\1\2") + walk(1, LONG, tag=b"\0\0")
        sights = tagged + gone_round(2, tags=(b"\1\2", b"\3\4"))
        status, result = prove(sights, walks=3)
        self.assertEqual((status, result["proved"], result["detoured"]), (0, 3, 1), result)
        changed = walk(0, tag=b"\1\2")[:1] + walk(0, tag=b"\1\3")[1:]
        self.wrong(changed, "altered", "came to a2 with other bytes than to a1")
        for tags in ((b"\1\2", b""), (b"", b"\1\2")):
            self.wrong(gone_round(0, tags=tags), "altered")

    def test_where_cables_fail_walks_that_end_between_are_lost_and_counted(self):
        dead = [{"node": "a2", "interface": "l-h2"}]
        status, result = prove(gone_round(0) + walk(1)[:2], faults=dead)
        self.assertEqual((status, result["proved"], result["unfinished"]), (0, 1, 1), result)
        # Into a cable that is whole, or not from its edge on.
        self.wrong(walk(1)[:1], "walk", "was last seen at a1", faults=dead)
        self.wrong(walk(1)[:1] + walk(2)[1:], "walk", faults=dead)
        self.wrong(gone_round(0) + gone_round(0)[:1], "twice", faults=dead)

    def test_walks_over_cables_by_the_ports_of_their_headers_are_proved(self):
        status, result = prove(good(), walks=4)
        self.assertEqual(status, 0, result)
        self.assertEqual((result["frames"], result["walks"], result["proved"]), (14, 4, 4))
        self.assertEqual(result["ways"], {"h1 a1 a2 h2": 2, "h1 a1 a3 a2 h2": 2})
        self.assertEqual(result["switches"], {"a1": 4, "a2": 4, "a3": 2})
        self.assertEqual(result["passages"], 10)

    def test_walks_whose_labels_come_off_are_proved_by_what_the_node_before_had(self):
        status, result = prove(stack(0) + stack(1, LONG) + walk(2), walks=3)
        self.assertEqual((status, result["proved"], result["detoured"]), (0, 3, 0), result)
        for index, kind in enumerate(("walk", "altered", "walk")):
            self.wrong(stack(0)[:index] + stack(0)[index + 1:], kind)
        again = stack(0)
        self.wrong(again + again[1:2], "twice")
        # Out of another link than the label named that came off, and two labels off at once.
        astray = [(SHORT[0], labelled((2, 3, FUNCTION), datagram(0), ttl=63)),
                  (SHORT[1], labelled((3, FUNCTION), datagram(0), ttl=62))]
        self.wrong(astray, "port", "its header named 2")
        self.wrong(stack(0)[:1] + [(SHORT[1], labelled((FUNCTION,), datagram(0), ttl=62))], "altered")
        late = labelled((3, FUNCTION), datagram(0), ttl=63)
        self.wrong(stack(0)[:1] + [(SHORT[1], late)] + stack(0)[2:], "counter")

    def test_a_header_that_goes_on_behind_functions_is_proved_by_how_it_was_left(self):
        for one, kind in ((over_two, "counter"), (stack_over_two, "altered")):
            status, result = prove(one(0) + one(1) + walk(2), walks=5)
            self.assertEqual((status, result["proved"], result["gone_on"]), (0, 5, 2), result)
            there, back = one(0)[:3], one(0)[3:]
            # Nothing had come to where it goes on, or what had come was another packet.
            self.wrong(back, "walk", "nothing had come to h2")
            self.wrong(there + one(1)[3:], "walk", "nothing had come to h2")
            self.wrong(one(0, functions=(FUNCTION, 8))[:3] + back, "altered")
            # One of two functions had it, or two where one is named.
            self.wrong(one(0, functions=(FUNCTION, 8)), kind)
            status, result = prove(one(0, functions=(FUNCTION, 8), after=62), walks=2)
            self.assertEqual((status, result["gone_on"]), (0, 1), result)
            self.assertEqual(prove(one(0, after=62))[0], 1)
            self.wrong(one(0, after=64)[:3] + back[1:], "walk")
        # A header that comes to a node twice.
        ports = (FUNCTION + 1, 3, 1, 1, FUNCTION, 3, 1, 1, FUNCTION + 1) + over_two_ports((FUNCTION,))[1:]
        legs = ((SHORT, 15, 64), (BACK, 11, 63), (SHORT, 7, 62), (BACK, 3, 61))
        twice = [(place, route(ports, first - index, datagram(0, hops)))
                 for places, first, hops in legs for index, place in enumerate(places)]
        status, result = prove(twice, walks=4)
        self.assertEqual((status, result["gone_on"]), (0, 3), result)
        # The header of a packet behind it, of the same path.
        one, other = over_two(0), over_two(1)
        first, newer = over_two(0), over_two(1, end=FUNCTION + 2)
        status, result = prove(first[:3] + newer + over_two(0, end=FUNCTION + 2)[3:], walks=4)
        self.assertEqual((status, result["proved"]), (0, 4), result)
        self.wrong(first[:3] + over_two(0, end=FUNCTION + 2)[3:], "altered")
        # A link is no function: what it leads to was not passed.
        skipped = over_two(0, functions=(1,))
        self.wrong(skipped, "walk", "ended at h2 by port 1, which is a link")
        late = over_two(0)
        late[3] = (late[3][0], route(over_two_ports((FUNCTION,)), 2, datagram(0, 63)))
        self.wrong(late[:3] + late[3:4], "counter")
        by_other = over_two(0)
        by_other[3] = (("a3", "l-h2"), by_other[3][1])
        cables = CABLES + [("h2", "l-a3", 4, "a3", "l-h2", 4)]
        self.wrong(by_other[:4], "port", "left h2 by port 4 (l-a3), and its header named 1", cables=cables)

    def test_walks_by_one_number_are_proved_by_what_each_node_divides_it_by(self):
        status, result = prove(residues(0) + residues(1, LONG) + walk(2), walks=3)
        self.assertEqual((status, result["proved"], result["detoured"]), (0, 3, 0), result)
        for index, kind in enumerate(("walk", "counter", "walk")):
            self.wrong(residues(0)[:index] + residues(0)[index + 1:], kind)
        self.wrong(residues(0) + residues(0)[1:2], "twice")
        # The number names the long way, the frame takes the short one; and a number that is another at one node.
        astray = [(place, frame) for place, (_, frame) in zip(SHORT, residues(0, LONG))]
        self.wrong(astray, "port", "its header named 2")
        other = numbered(WAYS[id(SHORT)] ^ 1, 6, 2, datagram(0))
        self.wrong(residues(0)[:1] + [(SHORT[1], other)] + residues(0)[2:], "altered")
        late = numbered(WAYS[id(SHORT)], 6, 3, datagram(0))
        self.wrong(residues(0)[:1] + [(SHORT[1], late)] + residues(0)[2:], "twice")

    def test_where_none_is_expected_none_is_a_proof(self):
        self.assertEqual(prove([], walks=0)[0], 0)
        self.wrong(good(), "capture", "4 walks were seen, 0 expected", walks=0)

    def test_each_missing_sight_is_found(self):
        for index in range(7):
            sights = good()
            del sights[index]
            status, result = prove(sights)
            self.assertEqual((status, result["proved"]), (1, 3), index)

    def test_each_sight_too_many_is_found(self):
        for place, frame in walk(1, LONG):
            self.wrong(good() + [(place, frame)], "twice")

    def test_another_link_than_that_of_the_number_is_found(self):
        # The header names the long way, the frame takes the short one.
        header = PORTS[id(LONG)]
        astray = [(place, route(header, len(header) - 1 - index, datagram(9)))
                  for index, place in enumerate(SHORT)]
        self.wrong(good() + astray, "port", "left a1 by port 1 (l-a2), and its header named 2")
        # The controller tells other numbers than the header has.
        swapped = {("a1", "l-a2"): 2, ("a1", "l-a3"): 1}
        self.assertEqual(self.wrong(good(), "port", numbers=swapped)["port"], 4)

    def test_a_counter_that_does_not_fall_by_one_is_found(self):
        sights = walk(1, LONG)[:3]
        place, _ = sights[2]
        ports = PORTS[id(LONG)]
        sights[2] = (place, route(ports, 1, datagram(1)))
        self.wrong(sights, "counter", "had 3 left at a3, 1 at a2")

    def test_a_walk_that_jumps_or_ends_where_nobody_is_is_found(self):
        jump = walk(1, LONG)
        jump[2] = (("a2", "l-a1"), jump[2][1])
        self.wrong(jump, "walk", "was at a3, and came to a2 from a1")
        self.wrong(walk(1)[:2], "walk", "was last seen at a2, with 2 ports left")
        self.wrong(walk(1)[1:], "walk", "was first seen at a2, with 2 of 4 left")
        begun = [(("a2", "l-a1"), route((FUNCTION, 3, 1), 2, datagram(1))),
                 (("h2", "l-a2"), route((FUNCTION, 3, 1), 1, datagram(1)))]
        self.wrong(begun, "walk", "began at a1, which is no edge")
        by_link = [(place, route((1, 3, 1, 1), 3 - index, datagram(1)))
                   for index, place in enumerate(SHORT)]
        self.wrong(by_link, "walk", "ended at h2 by port 1, which is a link")

    def test_a_host_on_the_way_is_found(self):
        cables = CABLES + [("h2", "l-a3", 4, "a3", "l-h2", 4), ("a3", "l-h3", 5, "h3", "l-a3", 1)]
        NODES["h3"] = "host"
        self.addCleanup(NODES.pop, "h3")
        ports = (FUNCTION, 5, 4, 3, 1, 1)
        places = SHORT + [("a3", "l-h2"), ("h3", "l-a3")]
        sights = [(place, route(ports, 5 - index, datagram(1))) for index, place in enumerate(places)]
        self.wrong(sights, "walk", "passed h2, which is no switch", cables=cables)

    def test_a_byte_that_is_not_what_it_was_is_found(self):
        for index in range(1, 3):
            for at in (0, 11, 17 + 5, -1):
                sights = walk(1)
                place, frame = sights[index]
                changed = bytearray(frame)
                changed[at] ^= 0x40
                sights[index] = (place, bytes(changed))
                self.wrong(sights, "altered", "came to")

    def test_headers_that_cannot_be_are_found(self):
        place, frame = walk(1)[0]
        for at, value in ((14, 0x2F), (16, 9)):
            bad = frame[:at] + bytes([value]) + frame[at + 1:]
            self.wrong(good() + [(place, bad)], "malformed")

    def test_captures_and_descriptions_that_prove_nothing_are_refused(self):
        self.wrong(good(), "capture", "lost 2 packets", lost=2)
        self.wrong(good(), "capture", "nothing was captured", without=("a3", "l-a2"))
        self.wrong([], "capture", "0 walks were seen, at least one expected")
        self.wrong(good(), "capture", "4 walks were seen, 5 expected", walks=5)
        self.assertEqual(prove(good(), numbers={("a1", "l-a2"): None})[0], 2)
        self.assertEqual(prove(good(), numbers={("a1", "l-a2"): 2})[0], 2)
        self.assertEqual(prove(good(), cables=CABLES + [CABLES[0]])[0], 2)


if __name__ == "__main__":
    unittest.main()
