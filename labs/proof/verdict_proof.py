#!/usr/bin/env python3
"""Independent proof of what a firewall of a chain decides: from its rules, as they stand in its file, and from captures
at both ends of its chain. Each packet that an end sent is judged by the rules; behind the firewall exactly the accepted
ones must have come out, each rejected one must have been answered once, and each rule must have been met as often as
Catena says, which tells nothing of policies.

Reads of iptables-save the table `filter`, of it what FORWARD says: -p, -s, -d, --sport(s), --dport(s), -m conntrack
--ctstate with NEW, ESTABLISHED and RELATED, and -j ACCEPT, DROP or REJECT; whatever else stands there cannot be judged,
and is told. IPv4 alone, TCP and UDP. Links nothing of Catena.

    verdict_proof.py DESCRIPTION OUTPUT
"""

import ipaddress
import os
import sys
from collections import Counter, namedtuple

import captures

TCP, UDP, ICMP = 6, 17, 1
PROTOCOLS = {"tcp": TCP, "udp": UDP, "icmp": ICMP}
FIN, SYN, RST, ACK = 1, 2, 4, 16
UNREACHABLE = 3  # ICMP type (RFC 792)
STATES = {"NEW", "ESTABLISHED", "RELATED"}
VERDICTS = {"ACCEPT", "DROP", "REJECT"}
# What comes longer than this was not cut into packets yet, and is several of them elsewhere.
PACKET_BYTES_MAX = 1500

# `matches`: each is given a packet and its state. `line`: of the file, from 1.
Rule = namedtuple("Rule", "line matches verdict")

# `same`: what no function of the chain changes of it, wherever it is seen. `quoted`: of an ICMP error the protocol and
# the ends of what it is about.
Packet = namedtuple("Packet", "time protocol source sport destination dport flags length same quoted")


class Unsupported(captures.Unreadable):
    """A rule that this proof does not understand."""


def number_range(text):
    low, colon, high = text.partition(":")
    return range(int(low or 0), int((high or 65535) if colon else low) + 1)


def port_match(field, text):
    ranges = [number_range(part) for part in text.split(",")]
    return lambda packet, _: any(getattr(packet, field) in one for one in ranges)


def address_match(field, text):
    network = ipaddress.ip_network(text)
    return lambda packet, _: ipaddress.ip_address(getattr(packet, field)) in network


def state_match(text):
    states = set(text.split(","))
    if not states <= STATES:
        raise Unsupported(f"--ctstate {text} is not judged")
    return lambda _, state: state in states


def protocol_match(text):
    if text not in PROTOCOLS:
        raise Unsupported(f"-p {text} is not judged")
    return lambda packet, _: packet.protocol == PROTOCOLS[text]


MATCHES = {
    "-p": protocol_match, "--protocol": protocol_match, "--ctstate": state_match,
    "-s": lambda text: address_match("source", text), "-d": lambda text: address_match("destination", text),
    "--sport": lambda text: port_match("sport", text), "--sports": lambda text: port_match("sport", text),
    "--dport": lambda text: port_match("dport", text), "--dports": lambda text: port_match("dport", text),
}
MODULES = {"tcp", "udp", "conntrack", "multiport"}
# What says how a packet is rejected; that it is answered at all is what is looked at.
DETAILS = {"--reject-with"}


def read_rule(number, words):
    matches, verdict, at = [], None, 0
    while at < len(words):
        word, value = words[at], words[at + 1] if at + 1 < len(words) else ""
        if word in MATCHES:
            matches.append(MATCHES[word](value))
        elif word == "-m" and value in MODULES or word in DETAILS:
            pass
        elif word == "-j" and value in VERDICTS and verdict is None:
            verdict = value
        else:
            raise Unsupported(f"line {number}: {word} {value} is not judged")
        at += 2
    if verdict is None:
        raise Unsupported(f"line {number}: says nothing that ends a packet")
    return Rule(number, matches, verdict)


def read_rules(text):
    """The rules of FORWARD with its policy as the last one."""
    table, rules, policy = None, [], None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#") or words[0] == "COMMIT":
            continue
        if words[0].startswith("*"):
            table = words[0][1:]
            if table != "filter":
                raise Unsupported(f"line {number}: the table {table} is not judged")
        elif words[0].startswith(":"):
            if words[1] not in VERDICTS:
                raise Unsupported(f"line {number}: the chain {words[0][1:]} is not judged")
            if words[0] == ":FORWARD":
                policy = Rule(number, [], words[1])
        elif words[0] == "-A" and words[1] in ("INPUT", "OUTPUT"):
            continue
        elif words[0] == "-A" and words[1] == "FORWARD":
            rules.append(read_rule(number, words[2:]))
        else:
            raise Unsupported(f"line {number}: {line} is not judged")
    if policy is None:
        raise Unsupported("FORWARD has no policy")
    return rules + [policy]


def parse(frame, time):
    """A packet of IPv4, or None."""
    if frame[12:14] != captures.IPV4:
        return None
    head = 14 + (frame[14] & 0x0F) * 4
    length = int.from_bytes(frame[16:18], "big")
    if frame[20] & 0x1F or frame[21]:
        raise captures.Unreadable("a fragment is not judged")
    protocol = frame[23]
    source, destination = (str(ipaddress.IPv4Address(frame[at:at + 4])) for at in (26, 30))
    above = frame[head:14 + length]
    sport, dport, flags, quoted, rest = 0, 0, 0, None, above
    if protocol == ICMP and above[0] == UNREACHABLE:
        about = above[8:]
        begin = (about[0] & 0x0F) * 4
        ends = [str(ipaddress.IPv4Address(about[at:at + 4])) for at in (12, 16)]
        ports = [int.from_bytes(about[at:at + 2], "big") for at in (begin, begin + 2)]
        quoted = (about[9], ends[0], ports[0], ends[1], ports[1])
    elif protocol in (TCP, UDP):
        sport, dport = (int.from_bytes(above[at:at + 2], "big") for at in (0, 2))
        # Without ports and checksum, which a translator changes.
        rest = above[4:16] + above[18:] if protocol == TCP else above[4:6] + above[8:]
        flags = above[13] if protocol == TCP else 0
    same = (protocol, frame[18:20], length, rest)
    return Packet(time, protocol, source, sport, destination, dport, flags, length, same, quoted)


def ends_of(packet):
    return packet.source, packet.sport, packet.destination, packet.dport


def turned(ends):
    return ends[2:] + ends[:2]


class Connections:
    """What of connections a firewall has let through: states as conntrack has them (NEW until an answer came)."""

    def __init__(self):
        self.known = {}

    def state(self, packet):
        """The state of a packet, and what to do once it has been accepted."""
        key = (packet.protocol,) + ends_of(packet)
        back = (packet.protocol,) + turned(ends_of(packet))
        is_first = packet.flags & (SYN | ACK) == SYN
        origin = key if key in self.known else back if back in self.known else None
        if origin and is_first and self.known[origin]["over"]:
            origin = None
        if origin is None:
            if packet.protocol == TCP and not is_first:
                raise captures.Unreadable(f"{key}: a packet of a connection whose beginning was not seen")
            return "NEW", lambda: self.known.update({key: {"answered": False, "fins": set(), "over": False}})
        entry, is_answer = self.known[origin], origin == back

        def accepted():
            entry["answered"] |= is_answer
            if packet.flags & FIN:
                entry["fins"].add(is_answer)
            entry["over"] |= bool(packet.flags & RST) or len(entry["fins"]) == 2
        return "ESTABLISHED" if is_answer or entry["answered"] else "NEW", accepted


class Judge:
    """Holds one chain's firewall against its rules."""

    def __init__(self, told, complain):
        self.rules, self.complain = read_rules(told["rules"]), complain
        self.hits, self.counts, self.connections = Counter(), Counter(), Connections()

    def verdict(self, packet):
        state, accepted = self.connections.state(packet)
        rule = next(rule for rule in self.rules if all(match(packet, state) for match in rule.matches))
        self.hits[rule.line] += 1
        if rule.verdict == "ACCEPT":
            accepted()
        return rule.verdict

    def chain(self, chain, near, far):
        """One chain, from what its source's capture has (`near`) and its destination's."""
        protocol, ports = PROTOCOLS[chain["protocol"]], range(chain["ports"][0], chain["ports"][1] + 1)
        forth = lambda packet: packet.protocol == protocol and packet.dport in ports
        back = lambda packet: packet.protocol == protocol and packet.sport in ports
        sent = [packet for direction, packet in near if direction == "out" and forth(packet)]
        came = [packet for direction, packet in far if direction == "in" and forth(packet)]
        answered = [packet for direction, packet in far if direction == "out" and back(packet)]
        returned = [packet for direction, packet in near if direction == "in" and back(packet)]
        for packet in sent + came + answered + returned:
            if packet.length > PACKET_BYTES_MAX:
                raise captures.Unreadable(f"{packet.length} bytes at once: more than a packet")
        # What a translator has made of whom, which the answers are addressed to.
        seen = {packet.same: ends_of(packet)[:2] for packet in came}
        own = {seen[packet.same]: ends_of(packet)[:2] for packet in sent if packet.same in seen}
        expected, accepted_back, rejected = Counter(), Counter(), Counter()
        ways = [(packet, True) for packet in sent] + [(packet, False) for packet in answered]
        for packet, is_forth in sorted(ways, key=lambda way: way[0].time):
            if not is_forth:
                address, port = own.get((packet.destination, packet.dport), (packet.destination, packet.dport))
                packet = packet._replace(destination=address, dport=port)
            verdict = self.verdict(packet)
            self.counts["packets"] += 1
            self.counts["accepted" if verdict == "ACCEPT" else "ended"] += 1
            if verdict == "ACCEPT":
                (expected if is_forth else accepted_back)[packet.same] += 1
            elif verdict == "REJECT":
                if not is_forth:
                    raise captures.Unreadable("an answer was rejected, which is not judged")
                rejected[(packet.protocol,) + ends_of(packet)] += 1
        self.compare("forth", expected, Counter(packet.same for packet in came))
        self.answers(near, returned, accepted_back, rejected)

    def answers(self, near, returned, accepted, rejected):
        """What came back to the source: what was accepted, and one answer for each that was rejected."""
        left, resets = accepted.copy(), Counter()
        for packet in returned:
            if left[packet.same]:
                left[packet.same] -= 1
            elif packet.flags & RST:
                resets[(packet.protocol,) + turned(ends_of(packet))] += 1
            else:
                self.complain("ended", f"{ends_of(packet)}: came back, though it is not let through")
        for same, missing in left.items():
            if missing:
                self.complain("missing", f"{missing} packets that are let through did not come back: {same[:3]}")
        errors = Counter(packet.quoted for direction, packet in near if direction == "in" and packet.quoted)
        told = resets + Counter({ends: count for ends, count in errors.items() if ends in rejected})
        if told != rejected:
            self.complain("answers", f"rejected {dict(rejected)}, answered {dict(told)}")
        self.counts["answers"] += sum(told.values())

    def compare(self, way, expected, came):
        for same, count in (expected - came).items():
            self.complain("missing", f"{way}: {count} packets that are let through did not come: {same[:3]}")
        for same, count in (came - expected).items():
            self.complain("ended", f"{way}: {count} packets came that are not let through: {same[:3]}")

    def compare_hits(self, told):
        """`told`: packets by the line of the rule, as Catena counted them."""
        policy = self.rules[-1].line
        for line in sorted((set(self.hits) | {int(line) for line in told}) - {policy}):
            found = told.get(str(line), 0)
            if self.hits[line] != found:
                self.complain("hits", f"line {line} was met by {self.hits[line]} packets, and Catena says {found}")


def of_end(lab, folder, node, complain):
    """(direction, packet) of all captures at an endpoint, in their order."""
    found = []
    for network, interface in lab["endpoints"][node].items():
        if interface.get("lost"):
            complain("capture", f"the capture at {node}/{network} lost {interface['lost']} packets")
        own = captures.mac_bytes(interface["mac"])
        for time, frame in captures.read_pcap(os.path.join(folder, interface["pcap"]), whole=True):
            packet = parse(frame, time)
            if packet is not None and own in (frame[0:6], frame[6:12]):
                found.append(("in" if frame[0:6] == own else "out", packet))
    return found


def judge(lab, folder, told):
    verdict = captures.Verdict()
    counts, hits = {}, {}
    try:
        one = Judge(told, verdict.complain)
        for chain in told["chains"]:
            ends = [of_end(lab, folder, chain[end], verdict.complain) for end in ("source", "destination")]
            one.chain(chain, *ends)
        # A process of its own tells none.
        if told["hits"] is not None:
            one.compare_hits(told["hits"])
        counts, hits = dict(one.counts), dict(one.hits)
    except (captures.Unreadable, KeyError, ValueError) as error:
        verdict.complain("unjudged", f"cannot be judged: {error}")
    return {"ok": not verdict.counts, "packets": 0, "accepted": 0, "ended": 0, "answers": 0, **counts, "hits": hits,
            "has_hits": told["hits"] is not None,
            "violation_count": sum(verdict.counts.values()), "violations": verdict.examples}


def prove(lab, folder):
    functions = {told["function"]: judge(lab, folder, told) for told in lab["verdicts"]}
    violations = [f"{name}: {text}" for name, one in functions.items() for text in one["violations"]]
    return {"ok": not violations, "functions": functions, "violations": violations,
            "violation_count": sum(one["violation_count"] for one in functions.values())}


if __name__ == "__main__":
    sys.exit(captures.run(sys.argv[1:], __doc__, prove))
