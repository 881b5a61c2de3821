"""Who talks to whom, and how: a header of a rule with ends that it takes and ends that it does not."""
import copy
import itertools

import frames

CLIENTS = [("any", None), ("$EXTERNAL_NET", "inside"), ("!$SERVERS", "server"), ("!$HOME_NET", "inside"),
           ("[198.51.100.0/24,203.0.113.9,2001:db8:9::/48]", "stranger"),
           ("[any,!10.1.0.0/16,!2001:db8:1::/48]", "inside")]
SERVERS = [("any", None), ("$HOME_NET", "stranger"), ("$SERVERS", "excepted"),
           ("[$SERVERS,!10.1.2.8,!2001:db8:1:2::8]", "excepted"),
           ("[10.1.2.7,2001:db8:1:2::7]", "excepted")]
# Words, a port among them, one that is not (with none: all are).
PORTS = [("any", 80, None), ("80", 80, 81), ("$WEB_PORTS", 8081, 8085), ("!443", 80, 443),
         ("[1000:2000,!1500]", 1200, 1500),
         (":1023", 21, 1024), ("[20:25,53,!22]", 25, 22), ("$HIGH_PORTS", 3306, 1023), ("![6000:7000]", 5999, 6000)]
ADDRESSES = {"client": ("198.51.100.7", "2001:db8:9::7"), "server": ("10.1.2.7", "2001:db8:1:2::7"),
             "inside": ("10.1.5.5", "2001:db8:1:5::5"), "stranger": ("192.0.2.77", "2001:db8:77::7"),
             "excepted": ("10.1.2.99", "2001:db8:1:3::9")}
CLIENT_PORT, CLIENT_PORTS = 40_000, 25_000
OWN_PORTS = itertools.count()


class Spec:
    """A talk before it is said: changed in one point, it is the near miss of that point."""

    def __init__(self, random, protocol, port=None):
        self.protocol, self.is_v6 = protocol, random.random() < 0.3
        self.source_words, self.bad_source = random.choice(CLIENTS)
        self.target_words, self.bad_target = random.choice(SERVERS)
        self.port_words, self.port, self.bad_port = port or random.choice(PORTS)
        self.source, self.target, self.source_port = "client", "server", CLIENT_PORT
        asked = random.choice([("any", None)] * 3 + [("$HIGH_PORTS", 1_000), ("!1000", 1_000)])
        self.source_port_words, self.bad_source_port = asked
        if protocol == "icmp":
            self.port_words = self.source_port_words = "any"
            self.bad_port = self.bad_source_port = None
        # Where one end may be anybody, both ways are the same.
        self.arrow = "<>" if random.random() < 0.3 and "any" not in (self.source_words, self.target_words) else "->"
        self.ttl = 64
        self.stage = "established"
        self.from_client = True

    def header(self, action, protocol=None):
        return (f"{action} {protocol or self.protocol} {self.source_words} {self.source_port_words} {self.arrow} "
                f"{self.target_words} {self.port_words}")

    def changed(self, **parts):
        other = copy.copy(self)
        for name, value in parts.items():
            setattr(other, name, value)
        return other

    def misses(self):
        """What lacks one condition of the header each."""
        if self.bad_source:
            yield "source", self.changed(source=self.bad_source)
        if self.bad_target:
            yield "destination", self.changed(target=self.bad_target)
        if self.bad_port is not None:
            yield "destination port", self.changed(port=self.bad_port)
        if self.bad_source_port is not None:
            yield "source port", self.changed(source_port=self.bad_source_port)

    def talk(self):
        """Each talk has a port of its own, so that any number may be held side by side."""
        own = CLIENT_PORT + next(OWN_PORTS) % CLIENT_PORTS
        at = lambda name, port: (ADDRESSES[name][self.is_v6], own if port >= CLIENT_PORT else port)
        return frames.Talk(at(self.source, self.source_port), at(self.target, self.port), self.ttl)

    def began(self):
        """A talk at its stage."""
        talk = self.talk()
        if self.protocol == "tcp":
            if self.stage == "established":
                talk.handshake()
            elif self.stage == "asked":
                talk.segment(True, frames.SYN)
        elif self.protocol == "udp" and self.stage == "established":
            talk.datagram(True, b"hello")
            talk.datagram(False, b"hello")
        return talk

    def said(self, payload, pieces=1, tangled=False):
        """The talk with this payload, in so many segments, of which one may come before its turn and come again."""
        talk = self.began()
        if self.protocol == "udp":
            talk.datagram(self.from_client, payload)
        elif pieces == 1:
            talk.data(self.from_client, payload)
        else:
            size = -(-len(payload) // pieces)
            parts = [payload[at:at + size] for at in range(0, len(payload), size)]
            if tangled and len(parts) > 1:
                talk.segment(self.from_client, frames.PSH | frames.ACK, parts[1], ahead=len(parts[0]))
            for part in parts:
                talk.data(self.from_client, part)
        return talk.packets

    def fragmented(self, random, payload):
        """The talk whose last packet comes in fragments, in any order."""
        *before, (now_us, way, last) = self.said(payload)
        parts = frames.fragments(bytes.fromhex(last), random.choice([16, 24, 32]), random.randrange(1 << 16))
        random.shuffle(parts)
        return before + [[now_us + at, way, part.hex()] for at, part in enumerate(parts)]


def sequence(kind, of, packets, alerts=None, ends=None):
    """`alerts`: how often the rule alerts; none: once at least in what is hostile, however often in what is drawn by
    chance, and never else. `ends`: whether an ips ends one of the packets."""
    return {"kind": kind, "of": of, "alerts": alerts, "ends": ends, "packets": packets}


def rule(text, sid, sequences, watch=None):
    """`watch`: the rule whose alerts tell, where it is another."""
    return {"rule": text, "watch": watch or sid, "sequences": sequences}
