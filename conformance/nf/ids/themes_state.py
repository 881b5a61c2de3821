"""Rules about headers, flows, counts, and what becomes of packets."""
from frames import ACK, FIN, PSH, RST, SYN
from layout import WORDS, quoted, token
from spec import CLIENTS, SERVERS, Spec, rule, sequence
from themes_bytes import swapped, told

FLAGS = [("S", SYN, SYN | ACK), ("S,12", SYN | 0x40, SYN | RST), ("SF", SYN | FIN, SYN),
         ("FPU", FIN | PSH | 0x20, FIN | PSH),
         ("0", 0, ACK), ("+A", ACK | PSH, PSH), ("*SF", FIN | ACK, ACK), ("!SRF", ACK | PSH, ACK | RST),
         ("+R,12", RST | ACK | 0x80, ACK), ("FA,PU", FIN | ACK | PSH, FIN),
         ("+SA", SYN | ACK | PSH, SYN | PSH), ("*UC", 0x80 | ACK, ACK)]
ICMP_TYPES = [("8", 8, 0), ("0", 0, 8), (">10", 13, 10), ("<5", 3, 5), ("3<>11", 8, 11), ("!8", 13, 8)]
ICMP_CODES = [("0", 0, 1), (">2", 3, 2), ("<4", 3, 4), ("!1", 0, 1), ("1<>5", 4, 5)]
TTLS = [("1", 1, 2), ("<10", 9, 10), (">200", 201, 200), ("10<>20", 19, 20), ("!64", 63, 64), (">=128", 128, 127),
        ("<=5", 5, 6)]


class Single:
    """One packet."""

    def __init__(self, spec):
        self.spec, self.flags, self.kind, self.code, self.payload = spec, ACK, 8, 0, b""

    def packets(self, **parts):
        spec = parts.pop("spec", self.spec)
        other = {**vars(self), **parts}
        spec = spec.changed(ttl=other.get("ttl", spec.ttl))
        talk = spec.talk()
        if spec.protocol == "icmp":
            talk.message(other["kind"], other["code"], other["payload"])
        elif spec.protocol == "udp":
            talk.datagram(True, other["payload"])
        else:
            talk.segment(True, other["flags"], other["payload"])
        return talk.packets


def packets(random, sid):
    protocol = random.choice(["tcp", "tcp", "udp", "icmp", "icmp"])
    spec = Spec(random, protocol)
    if protocol == "icmp":
        spec.is_v6 = False
    one, options, misses = Single(spec), [], []
    if protocol == "tcp":
        text, one.flags, wrong = random.choice(FLAGS)
        options.append(f"flags:{text};")
        misses.append(("flags", {"flags": wrong}))
    if protocol == "icmp":
        kind, one.kind, wrong_kind = random.choice(ICMP_TYPES)
        code, one.code, wrong_code = random.choice(ICMP_CODES)
        options += [f"itype:{kind};", f"icode:{code};"]
        misses += [("itype", {"kind": wrong_kind}), ("icode", {"code": wrong_code})]
    if random.random() < 0.5:
        text, spec.ttl, wrong = random.choice(TTLS)
        options.append(f"ttl:{text};")
        misses.append(("ttl", {"ttl": wrong}))
    if random.random() < 0.6 or not options:
        item = token(random, WORDS)
        gap = random.randrange(0, 9)
        one.payload = b"~" * gap + item + b"~" * 12
        options.append(f'content:"{quoted(random, item)}"; offset:{gap}; depth:{len(item)};')
        misses.append(("content", {"payload": b"~" * gap + item[:-1] + b"!" + b"~" * 12}))
        misses.append(("depth", {"payload": b"~" * (gap + 1) + item + b"~" * 11}))
        if random.random() < 0.6:
            options.append(f"dsize:{len(one.payload)};")
            misses.append(("dsize", {"payload": one.payload + b"~"}))
    # Later options of a rule are as good as earlier ones.
    random.shuffle(options)
    msg, more = told(random, "packet")
    words = random.choice([protocol, protocol, "tcp-pkt" if protocol == "tcp" else protocol])
    text = f"{spec.header('alert', words)} ({msg}{' '.join(options)} {more}sid:{sid};)"
    benign = Single(spec.changed(ttl=65, source="inside", target="stranger", port=9))
    benign.kind, benign.code = 17, 9
    sequences = [sequence("hostile", "", one.packets())]
    sequences += [sequence("near", name, one.packets(spec=changed)) for name, changed in spec.misses()]
    sequences += [sequence("near", name, one.packets(**parts)) for name, parts in misses]
    # Nothing of what the rule asks of the packet holds.
    nothing = {key: value for _, parts in misses for key, value in parts.items()}
    sequences.append(sequence("benign", "", benign.packets(**nothing)))
    other = {"tcp": "udp", "udp": "tcp", "icmp": "udp"}[protocol]
    sequences.append(sequence("near", "protocol", one.packets(spec=spec.changed(protocol=other))))
    return [rule(text, sid, sequences)]


def flows(random, sid):
    return random.choice([flow_words, flow_words, bits_set, bits_unset, bits_toggled, bits_counted])(random, sid)


def flow_words(random, sid):
    spec = Spec(random, "tcp" if random.random() < 0.7 else "udp")
    # What one end says to the other must pass the header.
    spec.source_words, spec.bad_source = random.choice(CLIENTS[1:])
    spec.target_words, spec.bad_target = random.choice(SERVERS[1:])
    spec.arrow = "<>"
    item = token(random, WORDS)
    payload = b"~~" + item + b"~~~"
    kind = random.choice(["established,to_client", "not_established,to_server", "from_server", "only_stream",
                          "no_stream", "established,to_server,no_stream", "stateless",
                          "to_server,established,only_stream"])
    if spec.protocol == "udp":
        kind = kind.replace(",no_stream", "").replace(",only_stream", "")
        kind = kind if "stream" not in kind else "from_client"
    words = set(kind.split(","))
    spec.from_client = not words & {"to_client", "from_server"}
    good = spec.changed(stage="asked") if "not_established" in words else spec
    size = random.choice(["", f" isdataat:{len(payload) - 3};"])
    msg, more = told(random, "flow")
    text = f'{spec.header("alert")} ({msg}flow:{kind}; content:"{quoted(random, item)}";{size} {more}sid:{sid};)'
    sequences = [sequence("hostile", "", good.said(payload)), sequence("benign", "", good.said(b"nothing of it"))]
    sequences += [sequence("near", name, changed.said(payload)) for name, changed in good.misses()]
    sequences.append(sequence("near", "content", good.said(payload.replace(item, item[:-1] + b"!"))))
    if size:
        sequences.append(sequence("near", "isdataat", good.said(payload[:-3])))
    if "established" in words:
        sequences.append(sequence("near", "established", unanswered(good, payload)))
    if "not_established" in words:
        sequences.append(sequence("near", "not_established", spec.said(payload)))
    # Of datagrams, who is first asks.
    ways = words & {"to_client", "from_server", "to_server", "from_client"}
    if ways and (spec.protocol, good.stage) != ("udp", "asked"):
        other = swapped(good).changed(from_client=not good.from_client)
        sequences.append(sequence("near", "direction", other.said(payload)))
    if "only_stream" in words:
        sequences.append(sequence("hostile", "split", good.said(payload, 2)))
    if "no_stream" in words:
        sequences.append(sequence("near", "no_stream", good.said(payload, 2)))
    return [rule(text, sid, sequences)]


def unanswered(spec, payload):
    """The same before both ends have spoken."""
    talk = spec.changed(stage="asked").talk()
    if spec.protocol == "tcp":
        if spec.from_client:
            talk.segment(True, SYN)
            talk.data(True, payload)
        else:
            talk.segment(True, SYN)
            talk.segment(False, SYN | ACK)
            talk.data(False, payload)
    elif spec.from_client:
        talk.datagram(True, payload)
    else:
        # Who is first asks.
        talk.datagram(False, payload)
    return talk.packets


class Steps:
    """Rules of which one notes what another asks for."""

    def __init__(self, random, sid):
        self.random, self.sid = random, sid
        self.spec = Spec(random, random.choice(["tcp", "udp"]))
        self.bit = f"bit.{sid}"
        self.words = [token(random, WORDS) for _ in range(3)]

    def rule(self, at, verbs, sequences, counting=""):
        bits = " ".join(f"flowbits:{verb}{'' if verb == 'noalert' else ',' + self.bit};" for verb in verbs)
        msg, more = told(self.random, "step")
        flow = self.random.choice(["", "flow:to_server; ", "flow:established,to_server; "])
        text = (f'{self.spec.header("alert")} ({msg}{flow}content:"{quoted(self.random, self.words[at])}"; {bits} '
                f'{counting}{more}sid:{self.sid + at};)')
        return rule(text, self.sid + at, sequences)

    def said(self, *steps, spec=None):
        """Steps by their numbers; none: something else."""
        spec = spec or self.spec
        talk = spec.began()
        for step in steps:
            payload = b"~" + (b"nothing" if step is None else self.words[step]) + b"~~"
            if spec.protocol == "tcp":
                talk.data(spec.from_client, payload)
            else:
                talk.datagram(spec.from_client, payload)
        return talk.packets


def common(steps, hostile, misses):
    """The hostile talk, what lacks a condition of the header, and the rest."""
    found = [sequence("hostile", "", steps.said(*hostile), 1), sequence("benign", "", steps.said(None, None))]
    found += [sequence("near", name, steps.said(*hostile, spec=changed)) for name, changed in steps.spec.misses()]
    return found + [sequence("near", name, steps.said(*said)) for name, said in misses]


def bits_set(random, sid):
    steps = Steps(random, sid)
    is_silent = random.random() < 0.5
    first = ["set", "noalert"] if is_silent else ["set"]
    asks = common(steps, (0, 1), [("isset", (1,)), ("order", (1, 0)), ("content", (0, None))])
    sets = [sequence("hostile", "", steps.said(0), 0 if is_silent else 1), sequence("benign", "", steps.said(None)),
            sequence("near", "content", steps.said(1))]
    return [steps.rule(0, first, sets), steps.rule(1, ["isset"], asks)]


def bits_unset(random, sid):
    steps = Steps(random, sid)
    asks = common(steps, (2,), [("isnotset", (0, 2)), ("content", (1, None))])
    # Unset once more, it holds again.
    asks.append(sequence("hostile", "unset", steps.said(0, 1, 2), 1))
    one = lambda at: [sequence("hostile", "", steps.said(at), 1), sequence("benign", "", steps.said(None)),
                      sequence("near", "content", steps.said(None, 2))]
    return [steps.rule(0, ["set"], one(0)), steps.rule(1, ["unset"], one(1)), steps.rule(2, ["isnotset"], asks)]


def bits_toggled(random, sid):
    steps = Steps(random, sid)
    asks = common(steps, (0, 1), [("toggle", (0, 0, 1)), ("isset", (1,))])
    asks.append(sequence("hostile", "toggle", steps.said(0, 0, 0, 1), 1))
    toggles = [sequence("hostile", "", steps.said(0), 1), sequence("benign", "", steps.said(None)),
               sequence("near", "content", steps.said(1))]
    return [steps.rule(0, ["toggle"], toggles), steps.rule(1, ["isset"], asks)]


def bits_counted(random, sid):
    """A match is noted, however often it is told."""
    steps = Steps(random, sid)
    kind = random.choice(["both", "threshold"])
    counting = f"threshold:type {kind},track by_src,count 3,seconds 60; "
    sets = [sequence("hostile", "", steps.said(0, 0, 0, 0), 1), sequence("benign", "", steps.said(None)),
            sequence("near", "count", steps.said(0, 0)), sequence("near", "content", steps.said(1, 1, 1))]
    asks = common(steps, (0, 1), [("isset", (1,)), ("content", (0, None))])
    return [steps.rule(0, ["set"], sets, counting), steps.rule(1, ["isset"], asks)]


def counts(random, sid):
    """Rules that count: so many datagrams or attempts in so many seconds."""
    spec = Spec(random, random.choice(["udp", "tcp"]))
    item = token(random, WORDS)
    kind = random.choice(["limit", "threshold", "both", "filter", "filter"])
    track = random.choice(["by_src", "by_dst", "by_rule"])
    count, seconds = random.randrange(2, 6), random.choice([5, 20, 60])
    parts = [f"track {track}", f"count {count}", f"seconds {seconds}"]
    if kind == "filter":
        words = f"detection_filter:{','.join(parts)};"
    else:
        random.shuffle(parts)
        words = f"threshold:type {kind},{', '.join(parts)};"
    flags = "flags:S; " if spec.protocol == "tcp" and random.random() < 0.5 else ""
    msg, more = told(random, "count")
    text = f'{spec.header("alert")} ({msg}{flags}content:"{quoted(random, item)}"; {words} {more}sid:{sid};)'
    payload = b"~" + item

    def said(number, wait=0.0, ends=None, data=payload, of=spec):
        """So many, one after the other, of these ends in turn."""
        packets, now_us = [], 1_000_000
        for at in range(number):
            source, target = (ends or [(of.source, of.target)])[at % len(ends or [0])]
            talk = of.changed(source=source, target=target, source_port=of.source_port + at).talk()
            talk.now_us = now_us
            if of.protocol == "udp":
                talk.datagram(True, data)
            else:
                talk.segment(True, SYN if flags else PSH | ACK, data)
            now_us = talk.now_us + round(wait * 1_000_000)
            packets += talk.packets
        return packets
    expected = {"limit": count, "threshold": 2, "both": 1, "filter": count}[kind]
    sequences = [sequence("hostile", "", said(2 * count), expected),
                 sequence("benign", "", said(2 * count, data=b"hello"))]
    sequences += [sequence("near", name, said(2 * count, of=changed)) for name, changed in spec.misses()
                  if name != "source port"]
    sequences.append(sequence("near", "content", said(2 * count, data=payload[:-1] + b"!")))
    if flags:
        flags = ""
        sequences.append(sequence("near", "flags", said(2 * count)))
        flags = "flags:S; "
    if kind != "limit":
        sequences.append(sequence("near", "count", said(count - (kind != "filter"))))
        sequences.append(sequence("near", "seconds", said(2 * count, wait=seconds + 1)))
        # Two hosts of which neither has enough, unless they are counted together.
        too_few = 2 * (count - (kind != "filter"))
        if track != "by_dst" and "198" not in spec.source_words:
            two = said(too_few, ends=[("client", "server"), ("stranger", "server")])
            alerts = {"threshold": too_few // count, "both": 1, "filter": too_few - count}[kind]
            told_of = alerts if track == "by_rule" else 0
            sequences.append(sequence("hostile" if told_of else "near", "track", two, told_of))
        elif track == "by_dst" and spec.target_words in ("any", "$HOME_NET"):
            two = said(too_few, ends=[("client", "server"), ("client", "excepted")])
            sequences.append(sequence("near", "track", two))
    else:
        # Each time has its own.
        sequences.append(sequence("hostile", "seconds", said(3, wait=seconds + 1), 3))
    return [rule(text, sid, sequences)]


def actions(random, sid):
    return random.choice([passed, blocked, blocked])(random, sid)


def own_port(sid):
    """Rules with a port each do not meddle."""
    port = 10_000 + sid % 10_000
    return str(port), port, port + 5_000


def passed(random, sid):
    """An exception, and the rule that it is one from."""
    protocol = random.choice(["tcp", "udp"])
    spec = Spec(random, protocol, own_port(sid))
    spec.arrow = "->"
    item, excepted = token(random, WORDS), token(random, WORDS)
    whole = b"~" + item + b"~" + excepted
    msg, more = told(random, "exception")
    flow = random.choice(["", "flow:to_server; "])
    option = random.choice(["", f"isdataat:{len(whole) - 1}; "])
    first = f'{spec.header("pass")} ({msg}{flow}{option}content:"{quoted(random, excepted)}"; {more}sid:{sid};)'
    head = f"{random.choice(['alert', 'drop'])} {protocol} any any -> any [{spec.port},{spec.bad_port}]"
    second = f'{head} ({msg}{flow}content:"{quoted(random, item)}"; {more}sid:{sid + 1};)'
    passes = [sequence("benign", "", spec.said(whole), 0, False),
              sequence("hostile", "without the exception", spec.said(b"~" + item), 1)]
    # Where the exception lacks a condition, the rule alerts.
    passes += [sequence("hostile", f"near miss of {name}", changed.said(whole), 1) for name, changed in spec.misses()
               if name != "source port"]
    passes.append(sequence("hostile", "near miss of content", spec.said(whole[:-1] + b"!"), 1))
    if option:
        passes.append(sequence("near", "isdataat", spec.said(excepted), 0))
    alerts = [sequence("hostile", "", spec.said(b"~" + item), 1, "drop" in head),
              sequence("benign", "", spec.said(b"hello")),
              sequence("near", "content", spec.said(b"~" + item[:-1] + b"!"))]
    return [rule(first, sid, passes, sid + 1), rule(second, sid + 1, alerts)]


def blocked(random, sid):
    """What an ips ends, and tells the sender of or not."""
    spec = Spec(random, random.choice(["tcp", "udp"]), own_port(sid))
    item = token(random, WORDS)
    action = random.choice(["drop", "reject"])
    msg, more = told(random, action)
    flow = random.choice(["", "flow:to_server; ", "flow:established,to_server; "])
    option = random.choice([f"offset:{1}; depth:{len(item) + 3};", "nocase;", ""])
    priority = random.choice(["priority:2; ", ""])
    text = (f'{spec.header(action)} ({msg}{flow}content:"{quoted(random, item)}"; {option} {more}{priority}sid:{sid};)')
    wire = item.swapcase() if "nocase" in option else item
    sequences = [sequence("hostile", "", spec.said(b"~" + wire), 1, True),
                 sequence("benign", "", spec.said(b"hello"), 0, False)]
    sequences += [sequence("near", name, changed.said(b"~" + wire), 0, False) for name, changed in spec.misses()]
    sequences.append(sequence("near", "content", spec.said(b"~" + wire[:-1] + b"!"), 0, False))
    sequences.append(sequence("hostile", "fragments", spec.fragmented(random, b"~" + wire), 1, True))
    if "offset" in option:
        sequences.append(sequence("near", "offset", spec.said(wire), 0, False))
        sequences.append(sequence("near", "depth", spec.said(b"~" * 5 + wire), 0, False))
    if "to_server" in flow:
        sequences.append(sequence("near", "to_server", swapped(spec).said(b"~" + wire), 0, False))
    return [rule(text, sid, sequences)]
