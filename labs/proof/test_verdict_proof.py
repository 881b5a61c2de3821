"""The proof of verdicts must be able to fail: made-up captures with one thing wrong each."""

import os
import struct
import tempfile
import unittest

import captures
import verdict_proof
from verdict_proof import ACK, FIN, RST, SYN

RULES = """# What a firewall lets through.
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -p tcp -m tcp --dport 23 -j DROP
-A FORWARD -p tcp -m tcp --dport 8080 -j REJECT --reject-with tcp-reset
-A FORWARD -s 10.0.0.0/24 -p tcp -m multiport --dports 80,443 -m conntrack --ctstate NEW -j ACCEPT
COMMIT
"""
# SYN of the page by line 8; its five other packets by line 5; one each by lines 6, 7 and the policy, which is line 4.
HITS = {"5": 5, "6": 1, "7": 1, "8": 1}
CLIENT, SERVER, POOL = "10.0.0.10", "203.0.113.11", "203.0.113.4"
MACS = {"client": "02:00:00:00:00:01", "server": "02:00:00:00:00:02"}
OTHER = "02:00:00:00:00:99"


def ip(protocol, source, destination, number, above):
    address = lambda text: bytes(int(part) for part in text.split("."))
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(above), number, 0, 64, protocol, 0)
    return head + address(source) + address(destination) + above


def tcp(source, destination, flags, number=0, data=b""):
    (from_address, sport), (to_address, dport) = source, destination
    above = struct.pack("!HHIIBBHHH", sport, dport, 1000 + number, 2000, 0x50, flags, 512, 0, 0) + data
    return ip(6, from_address, to_address, number, above)


def unreachable(about):
    return ip(1, "10.0.0.1", CLIENT, 9, struct.pack("!BBHI", 3, 3, 0, 0) + about[:28])


def seen(time, node, direction, packet):
    own, other = captures.mac_bytes(MACS[node]), captures.mac_bytes(OTHER)
    ends = own + other if direction == "in" else other + own
    return [time, node, ends + captures.IPV4 + packet]


def forth(time, flags, number, sport=40000, dport=80, translated=True, passes=True, data=b""):
    packet = tcp((CLIENT, sport), (SERVER, dport), flags, number, data)
    source = (POOL, sport + 7) if translated else (CLIENT, sport)
    behind = seen(time + 1, "server", "in", tcp(source, (SERVER, dport), flags, number, data))
    return [seen(time, "client", "out", packet)] + [behind] * passes


def back(time, flags, number, passes=True, data=b""):
    answer = seen(time, "server", "out", tcp((SERVER, 80), (POOL, 40007), flags, number, data))
    behind = seen(time + 1, "client", "in", tcp((SERVER, 80), (CLIENT, 40000), flags, number, data))
    return [answer] + [behind] * passes


def page():
    return (forth(10, SYN, 1) + back(20, SYN | ACK, 2) + forth(30, ACK, 3) + forth(40, ACK, 4, data=b"GET /")
            + back(50, ACK | FIN, 5, data=b"welcome") + forth(60, ACK | FIN, 6))


RESET = [seen(81, "client", "in", tcp((SERVER, 8080), (CLIENT, 40002), RST | ACK))]


def doors():
    return (forth(70, SYN, 7, sport=40001, dport=23, passes=False)
            + forth(80, SYN, 8, sport=40002, dport=8080, passes=False)
            + forth(90, SYN, 9, sport=40003, dport=9999, passes=False))


def prove(sights, rules=RULES, hits=HITS, lost=0):
    with tempfile.TemporaryDirectory() as folder:
        endpoints = {}
        for node, mac in MACS.items():
            endpoints[node] = {"net": {"mac": mac, "pcap": f"{node}.pcap", "lost": lost}}
            with open(os.path.join(folder, f"{node}.pcap"), "wb") as file:
                file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
                for time, _, frame in sorted(one for one in sights if one[1] == node):
                    file.write(struct.pack("<IIII", 1, time * 1000, len(frame), len(frame)) + frame)
        chain = {"name": "web", "source": "client", "destination": "server", "protocol": "tcp", "ports": [0, 65535]}
        told = {"function": "edge", "rules": rules, "hits": hits, "chains": [chain]}
        return verdict_proof.prove({"endpoints": endpoints, "verdicts": [told]}, folder)


class TestVerdicts(unittest.TestCase):
    def fails(self, what, *arguments, **more):
        verdict = prove(*arguments, **more)
        self.assertFalse(verdict["ok"])
        self.assertTrue(any(what in text for text in verdict["violations"]), verdict["violations"])

    def test_a_firewall_that_does_as_its_rules_say_is_found_right(self):
        verdict = prove(page() + doors() + RESET)
        self.assertTrue(verdict["ok"], verdict["violations"])
        found = verdict["functions"]["edge"]
        told = [found[key] for key in ("packets", "accepted", "ended", "answers")]
        self.assertEqual(told, [9, 6, 3, 1])
        self.assertEqual(found["hits"], {4: 1, **{int(line): count for line, count in HITS.items()}})

    def test_rejections_by_icmp_are_answers(self):
        rules = RULES.replace("tcp-reset", "icmp-port-unreachable")
        about = tcp((CLIENT, 40002), (SERVER, 8080), SYN, 8)
        error = [seen(81, "client", "in", unreachable(about))]
        self.assertTrue(prove(page() + doors() + error, rules=rules)["ok"])
        other = [seen(81, "client", "in", unreachable(tcp((CLIENT, 40009), (SERVER, 8080), SYN, 8)))]
        self.fails("rejected", page() + doors() + other, rules=rules)

    def test_what_was_let_through_and_did_not_come_is_found(self):
        lacking = [one for one in page() if one[0] != 31]
        self.fails("forth: 1 packets that are let through did not come", lacking + doors() + RESET)
        lacking = [one for one in page() if one[0] != 51]
        self.fails("did not come back", lacking + doors() + RESET)

    def test_what_should_have_ended_and_came_is_found(self):
        through = forth(70, SYN, 7, sport=40001, dport=23)
        self.fails("forth: 1 packets came that are not let through", page() + through + doors()[1:] + RESET)
        stray = [seen(82, "client", "in", tcp((SERVER, 80), (CLIENT, 40000), ACK, 77))]
        self.fails("though it is not let through", page() + doors() + RESET + stray)

    def test_each_rejection_is_answered_once(self):
        self.fails("answered {}", page() + doors())
        self.fails("rejected", page() + doors() + RESET * 2)

    def test_hits_are_compared_rule_by_rule(self):
        sights = page() + doors() + RESET
        self.fails("line 5 was met by 5 packets, and Catena says 4", sights, hits={**HITS, "5": 4})
        self.fails("line 8 was met by 1 packets, and Catena says 0", sights, hits={"5": 5, "6": 1, "7": 1})
        self.fails("line 9 was met by 0 packets, and Catena says 2", sights, hits={**HITS, "9": 2})
        # Where none are told the packets are judged all the same.
        self.assertTrue(prove(sights, hits=None)["ok"])
        self.fails("answered {}", page() + doors(), hits=None)

    def test_other_rules_than_those_in_force_are_found(self):
        sights = page() + doors() + RESET
        for before, after in [("--dport 23 -j DROP", "--dport 23 -j ACCEPT"), ("80,443", "443"),
                              ("10.0.0.0/24", "10.9.0.0/24"), ("FORWARD DROP", "FORWARD ACCEPT")]:
            self.assertFalse(prove(sights, rules=RULES.replace(before, after))["ok"], after)

    def test_an_answer_begins_what_is_established(self):
        # Until it comes a repeated SYN is as new as the first one.
        again = forth(15, SYN, 11) + page()
        self.assertTrue(prove(again + doors() + RESET, hits={**HITS, "8": 2})["ok"])

    def test_what_this_proof_does_not_understand_is_told(self):
        for line in ["-A FORWARD -p tcp -m limit --limit 1/s -j ACCEPT", "-A FORWARD ! -s 10.0.0.0/8 -j DROP",
                     "-A FORWARD -m conntrack --ctstate INVALID -j DROP", "-A FORWARD -j LOG", "-A FORWARD -p tcp",
                     ":own - [0:0]", "*nat"]:
            rules = RULES.replace("COMMIT", f"{line}\nCOMMIT")
            self.fails("cannot be judged", page() + doors() + RESET, rules=rules)

    def test_captures_that_prove_nothing_are_told(self):
        sights = page() + doors() + RESET
        self.fails("lost 3 packets", sights, lost=3)
        self.fails("whose beginning was not seen", page()[2:])
        self.fails("more than a packet", sights + forth(95, ACK, 12, data=bytes(1600)))


if __name__ == "__main__":
    unittest.main()
