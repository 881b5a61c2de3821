#!/usr/bin/env -S python3 -B
"""Says which rules alert on which packets: an ids of its own, as slow and plain as the manuals are, beside which ours
is held. Usage: evaluator.py RULES SEQUENCES [--ips]; a line of JSON for each sequence, in it for each packet the sids
that alert and the one that ends it."""
import json
import pathlib
import sys

import rules
import talks


def occurrences(content, data, low, high):
    """Where it is from `low` on, ending at `high` at most."""
    needle = content.bytes.lower() if content.nocase else content.bytes
    data = data.lower() if content.nocase else data
    if content.at_start:
        low, high = 0, len(needle)
    if content.at_end:
        low = max(low, len(data) - len(needle))
    at = data.find(needle, max(low, 0), max(high, 0))
    while at >= 0:
        yield at
        at = data.find(needle, at + 1, max(high, 0))


def everywhere(regex, data):
    """From each place on at which it begins, those that overlap included."""
    found = regex.search(data)
    while found:
        yield found
        found = regex.search(data, found.start() + 1) if found.start() < len(data) else None


def number(test, data, at):
    if at < 0 or at + test.count > len(data):
        return None
    field = data[at:at + test.count]
    if test.base is None:
        return int.from_bytes(field, "little" if test.little else "big")
    digits = field.lstrip()
    if test.base == 16 and digits[:2] == b"0x":
        digits = digits[2:]
    value = None
    for digit in digits.decode("latin-1"):
        if digit not in "0123456789abcdefABCDEF" or int(digit, 16) >= test.base:
            break
        value = (value or 0) * test.base + int(digit, 16)
    return value


def compared(test, value):
    if value is None:
        return False
    holds = {"<": value < test.value, ">": value > test.value, "=": value == test.value, "<=": value <= test.value,
             ">=": value >= test.value, "&": value & test.value != 0, "^": value ^ test.value != 0}
    return holds["=" if test.operator == "==" else test.operator] != test.negated


class Search:
    """The checks of one buffer, by trying each place of each in turn. The best answer: 2 when something of it ends
    behind `seen`, 1 when all of it was there before, 0 when it does not hold."""

    def __init__(self, checks, data, seen):
        self.checks, self.data, self.seen, self.known = checks, data, seen, {}

    def from_check(self, at, cursor, is_new):
        if at == len(self.checks):
            return 2 if is_new else 1
        key = (at, cursor, is_new)
        if key not in self.known:
            self.known[key] = self._try(at, cursor, is_new)
        return self.known[key]

    def _try(self, at, cursor, is_new):
        check = self.checks[at]
        if isinstance(check, (rules.Content, rules.Pattern)):
            ends = self._ends(check, cursor)
            if check.negated:
                return 0 if next(iter(ends), None) is not None else self.from_check(at + 1, cursor, is_new)
            best = 0
            for end in ends:
                best = max(best, self.from_check(at + 1, end, is_new or end > self.seen))
                if best == 2:
                    break
            return best
        start = cursor if check.relative else 0
        if isinstance(check, rules.ByteTest):
            holds = compared(check, number(check, self.data, start + check.offset))
            end = start + check.offset + check.count
        else:
            end = start + check.number + (not check.relative)
            holds = (end <= len(self.data)) != check.negated
            end = 0 if check.negated else end
        return self.from_check(at + 1, cursor, is_new or end > self.seen) if holds else 0

    def _ends(self, check, cursor):
        if isinstance(check, rules.Pattern):
            start = cursor if check.relative else 0
            part = self.data[start:]
            found = [check.regex.match(part)] if check.anchored else everywhere(check.regex, part)
            return (start + one.end() for one in found if one)
        if check.relative:
            low = cursor + (check.distance or 0)
            high = low + check.within if check.within is not None else len(self.data)
        else:
            low = check.offset or 0
            high = low + check.depth if check.depth is not None else len(self.data)
        return (place + len(check.bytes) for place in occurrences(check, self.data, low, high))


def searched(checks, data, seen=0):
    return Search(checks, bytes(data), seen).from_check(0, 0, seen == 0)


class Ids:
    """Rules and what they remember."""

    def __init__(self, all_rules, prevents):
        self.rules, self.prevents = rules.in_turn(all_rules), prevents
        self.between = {}
        self.forget()

    def forget(self):
        self.flows, self.counters, self.fragments = {}, {}, talks.Fragments()

    def packet(self, time_us, frame):
        """Sids that alert on a packet, and the sid that ends it."""
        whole = self.fragments.whole(frame)
        if whole is None:
            return [], None
        packet = talks.Packet(whole)
        flow = self.flows.get(packet.flow)
        if flow is None:
            flow = self.flows[packet.flow] = talks.Flow(packet)
        before = {way: stream.copy() for way, stream in flow.streams.items()} if self.prevents else {}
        flow.follow(packet)
        requests = flow.requests() if packet.payload else []
        stream = flow.streams.get(flow.is_to_server(packet)) if packet.payload else None
        alerts, ended = [], None
        for nth, request in enumerate(requests or [None]):
            passed = False
            for rule in self.candidates(packet):
                if rule.of_requests and request is None or not rule.of_requests and nth:
                    continue
                if not self.matches(rule, packet, flow, stream, request):
                    continue
                told = self.counted(rule, packet, time_us)
                self.note(rule, flow)
                if told is None:
                    continue
                if rule.action == "pass":
                    passed = True
                    break
                if told and not rule.silent:
                    alerts.append(rule.sid)
                if self.prevents and rule.action in ("drop", "reject") and ended is None:
                    ended = rule.sid
            if passed:
                break
        for one in flow.streams.values():
            one.seen = len(one.bytes)
        if ended is not None:
            flow.streams = before
        return sorted(alerts), ended

    def candidates(self, packet):
        """Rules about such packets between such ends, in their turn."""
        key = (packet.protocol, packet.end, packet.other)
        if key not in self.between:
            self.between[key] = [rule for rule in self.rules if is_about(rule, packet)]
        return self.between[key]

    def matches(self, rule, packet, flow, stream, request):
        facts = {"dsize": len(packet.payload), "ttl": packet.ttl, "flags": packet.flags,
                 "itype": packet.icmp and packet.icmp[0], "icode": packet.icmp and packet.icmp[1]}
        if not all(facts[name] is not None and test(facts[name]) for name, test in rule.tests):
            return False
        if not flow_holds(rule, packet, flow):
            return False
        for verb, bit in rule.bits:
            if verb in ("isset", "isnotset") and (bit in flow.bits) != (verb == "isset"):
                return False
        for buffer, data in (request.buffers() if request else {}).items():
            checks = [check for of, check in rule.checks if of == buffer]
            if checks and not searched(checks, data):
                return False
        return payload_holds(rule, packet, stream)

    def counted(self, rule, packet, time_us):
        """What thresholds say: none, it is no match; else whether people are told."""
        told = True
        for nth, one in enumerate(rule.counting):
            host = {"by_src": packet.source, "by_dst": packet.target}.get(one.track)
            since, count = self.counters.get((rule.sid, nth, host), (time_us, 0))
            if time_us - since >= one.seconds * 1_000_000:
                since, count = time_us, 0
            count += 1
            kept = 0 if one.kind == "threshold" and count >= one.count else count
            self.counters[rule.sid, nth, host] = (since, kept)
            if one.kind == "limit":
                told = told and count <= one.count
            elif count < one.count or one.kind == "filter" and count == one.count:
                return None
            elif one.kind == "both":
                told = told and count == one.count
        return told

    @staticmethod
    def note(rule, flow):
        for verb, bit in rule.bits:
            if verb == "set":
                flow.bits.add(bit)
            elif verb == "unset":
                flow.bits.discard(bit)
            elif verb == "toggle":
                flow.bits ^= {bit}


def is_about(rule, packet):
    wanted = {"ip": None, "udp": (talks.UDP,), "icmp": (talks.ICMP, talks.ICMP6)}.get(rule.protocol, (talks.TCP,))
    if wanted and packet.protocol not in wanted:
        return False

    def goes(end, other):
        return ((end[1] is None or other[1] in rule.target_ports and end[1] in rule.source_ports)
                and end[0] in rule.source and other[0] in rule.target)
    return goes(packet.end, packet.other) or rule.both and goes(packet.other, packet.end)


def flow_holds(rule, packet, flow):
    to_server = flow.is_to_server(packet)
    asked = {"to_server": to_server, "to_client": not to_server, "established": flow.established,
             "not_established": not flow.established}
    return all(asked.get(word, True) for word in rule.flow) and (rule.protocol != "http" or flow.is_http)


def payload_holds(rule, packet, stream):
    checks = [check for buffer, check in rule.checks if buffer == "payload"]
    has_new = stream is not None and len(stream.bytes) > stream.seen
    if not checks:
        return rule.of_requests or not rule.only_stream or has_new
    if not rule.only_stream and searched(checks, packet.payload):
        return True
    if stream is None or rule.of_packets or not (rule.of_requests or has_new):
        return False
    return searched(checks, stream.bytes, stream.seen) >= (1 if rule.of_requests else 2)


def main():
    file, sequences, *options = sys.argv[1:]
    ids = Ids(rules.read(pathlib.Path(file).read_text()), "--ips" in options)
    for line in pathlib.Path(sequences).open():
        sequence = json.loads(line)
        ids.forget()
        print(json.dumps([ids.packet(time_us, bytes.fromhex(frame)) for time_us, _, frame in sequence["packets"]]))


if __name__ == "__main__":
    main()
