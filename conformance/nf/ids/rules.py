"""Rules of Snort and Suricata, as their manuals explain them. Knows the language; nothing of packets, and nothing of
the reader that is judged."""
import ipaddress
import re

ORDER = {"pass": 0, "drop": 1, "reject": 2, "alert": 3}
SEVERITY = 3
CLASSES = {"web-application-attack": 1, "attempted-recon": 2, "trojan-activity": 1, "misc-activity": 3,
           "policy-violation": 1, "network-scan": 3, "attempted-admin": 1}
BUFFERS = {"http.method": "method", "http.uri": "uri", "http.header": "header", "http.host": "host",
           "http.user_agent": "user_agent"}
OLD_BUFFERS = {name.replace(".", "_"): buffer for name, buffer in BUFFERS.items()}
PCRE_BUFFERS = {"U": "uri", "H": "header", "M": "method", "W": "host", "V": "user_agent"}
FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "2": 64, "C": 128, "1": 128, "0": 0}


def pieces(text, mark):
    """Splits at a mark outside of quotes and brackets; a backslash takes a letter's meaning."""
    found, start, depth, quoted, escaped = [], 0, 0, False, False
    for at, letter in enumerate(text):
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == '"':
            quoted = not quoted
        elif not quoted and letter in "[]":
            depth += 1 if letter == "[" else -1
        elif not quoted and depth == 0 and letter == mark:
            found.append(text[start:at].strip())
            start = at + 1
    return [*found, text[start:].strip()]


class Set:
    """Addresses or ports."""

    def __init__(self, text, variables, one):
        self.known = {}
        self.test = self._read(text.strip(), variables, one)

    def __contains__(self, value):
        if value not in self.known:
            self.known[value] = self.test(value)
        return self.known[value]

    def _read(self, text, variables, one):
        if text.startswith("!"):
            inner = self._read(text[1:].strip(), variables, one)
            return lambda value: not inner(value)
        if text.startswith("$"):
            return self._read(variables[text[1:]], variables, one)
        if text.startswith("["):
            parts = pieces(text[1:-1], ",")
            wanted = [self._read(part, variables, one) for part in parts if not part.startswith("!")]
            excepted = [self._read(part[1:].strip(), variables, one) for part in parts if part.startswith("!")]
            return lambda value: ((not wanted or any(test(value) for test in wanted))
                                  and not any(test(value) for test in excepted))
        return (lambda value: True) if text == "any" else one(text)


def one_address(text):
    """Addresses are pairs of their version and number."""
    if "-" in text:
        first, last = (ipaddress.ip_address(part.strip()) for part in text.split("-"))
    else:
        network = ipaddress.ip_network(text, strict=False)
        first, last = network[0], network[-1]
    version, low, high = first.version, int(first), int(last)
    return lambda value: value[0] == version and low <= value[1] <= high


def one_port(text):
    first, mark, last = text.partition(":")
    if not mark:
        return lambda value: value == int(first)
    low, high = int(first.strip() or 0), int(last.strip() or 65535)
    return lambda value: low <= value <= high


def content_bytes(text):
    out, at = bytearray(), 0
    while at < len(text):
        if text[at] == "\\":
            out += text[at + 1].encode()
            at += 2
        elif text[at] == "|":
            end = text.index("|", at + 1)
            out += bytes.fromhex(text[at + 1:end])
            at = end + 1
        else:
            out += text[at].encode()
            at += 1
    return bytes(out)


def unquoted(value):
    negated = value.startswith("!")
    return negated, value[negated:].strip()[1:-1]


def number_test(text):
    """`N`, `!N`, `<N`, `>N`, `<=N`, `>=N`, and `N<>M` without both ends."""
    text = text.replace(" ", "")
    if "<>" in text:
        low, high = map(int, text.split("<>"))
        return lambda value: low < value < high
    sign, number = re.fullmatch(r"(<=|>=|<|>|!|)(\d+)", text).groups()
    number = int(number)
    return {"": lambda value: value == number, "!": lambda value: value != number, "<": lambda value: value < number,
            ">": lambda value: value > number, "<=": lambda value: value <= number,
            ">=": lambda value: value >= number}[sign]


def flags_test(text):
    asked, _, ignored = text.partition(",")
    asked = asked.strip()
    mode, letters = (asked[0], asked[1:]) if asked[0] in "+*!" else ("", asked)
    bits = sum(FLAGS[letter] for letter in letters)
    keep = 255 - sum(FLAGS[letter] for letter in ignored.strip())
    return {"": lambda value: value & keep == bits, "+": lambda value: value & keep & bits == bits,
            "*": lambda value: value & keep & bits != 0, "!": lambda value: value & keep & bits == 0}[mode]


class Content:
    def __init__(self, value):
        self.negated, text = unquoted(value)
        self.bytes = content_bytes(text)
        self.nocase = self.at_start = self.at_end = False
        self.offset = self.depth = self.distance = self.within = None

    @property
    def relative(self):
        return self.distance is not None or self.within is not None


class Pattern:
    def __init__(self, value):
        self.negated, text = unquoted(value)
        body, _, letters = text[1:].rpartition("/")
        kinds = {"i": re.I, "s": re.S, "m": re.M, "x": re.X}
        if "E" in letters:
            body = re.sub(r"\$$", r"\\Z", body)
        self.regex = re.compile(body.encode(), sum(kinds.get(letter, 0) for letter in letters))
        self.anchored, self.relative = "A" in letters, "R" in letters
        self.buffer = next((PCRE_BUFFERS[letter] for letter in letters if letter in PCRE_BUFFERS), None)


class ByteTest:
    def __init__(self, value):
        count, operator, number, offset, *words = (part.strip() for part in value.split(","))
        self.count, self.offset = int(count), int(offset)
        self.negated = operator.startswith("!")
        self.operator = operator.lstrip("!").strip() or "="
        self.value = int(number, 0)
        words = " ".join(words).split()
        self.relative, self.little = "relative" in words, "little" in words
        self.base = ({"hex": 16, "dec": 10, "oct": 8}[next((w for w in words if w in ("hex", "dec", "oct")), "dec")]
                     if "string" in words else None)


class DataAt:
    def __init__(self, value):
        number, *words = (part.strip() for part in value.split(","))
        self.negated = number.startswith("!")
        self.number = int(number.lstrip("!"))
        self.relative = "relative" in words


class Counting:
    def __init__(self, value, is_filter):
        words = dict(part.strip().split(None, 1) for part in value.split(","))
        self.kind = "filter" if is_filter else words["type"].strip()
        self.track = words["track"].strip()
        self.count, self.seconds = int(words["count"]), int(words["seconds"])


class Rule:
    """One rule, its options in their order."""

    def __init__(self, text, variables):
        head, _, body = text.partition("(")
        self.text, self.head = text, [word for word in pieces(head.strip(), " ") if word]
        self.action, self.protocol, source, source_ports, arrow, target, target_ports = self.head
        self.both = arrow == "<>"
        self.source, self.target = (Set(part, variables, one_address) for part in (source, target))
        self.source_ports, self.target_ports = (Set(part, variables, one_port) for part in (source_ports, target_ports))
        self.options = [(name.strip(), value.strip() if mark else None) for name, mark, value in
                        (part.partition(":") for part in pieces(body.rstrip()[:-1], ";") if part)]
        self.sid, self.severity, self.silent = 0, SEVERITY, False
        self.checks, self.tests, self.flow, self.bits, self.counting = [], [], set(), [], []
        self.buffer = "payload"
        for name, value in self.options:
            self._take(name, value)
        self.of_requests = any(buffer != "payload" for buffer, _ in self.checks)
        self.of_packets = (any(name in ("dsize", "flags") for name, _ in self.tests) or "no_stream" in self.flow
                           or self.protocol == "tcp-pkt")
        self.only_stream = "only_stream" in self.flow or self.protocol == "tcp-stream"
        writes = any(verb in ("set", "unset", "toggle") for verb, _ in self.bits)
        asks = any(verb in ("isset", "isnotset") for verb, _ in self.bits)
        self.rank = (ORDER[self.action], {(1, 0): 0, (1, 1): 1, (0, 1): 2, (0, 0): 3}[(writes, asks)], self.severity)

    def _take(self, name, value):
        if name in BUFFERS:
            self.buffer = BUFFERS[name]
        elif name in OLD_BUFFERS:
            self.checks[-1] = (OLD_BUFFERS[name], self.checks[-1][1])
        elif name == "content":
            self.checks.append((self.buffer, Content(value)))
        elif name == "pcre":
            pattern = Pattern(value)
            self.checks.append((pattern.buffer or self.buffer, pattern))
        elif name == "byte_test":
            self.checks.append((self.buffer, ByteTest(value)))
        elif name == "isdataat":
            self.checks.append((self.buffer, DataAt(value)))
        elif name in ("offset", "depth", "distance", "within"):
            setattr(self.checks[-1][1], name, int(value))
        elif name in ("nocase", "startswith", "endswith"):
            setattr(self.checks[-1][1], {"startswith": "at_start", "endswith": "at_end"}.get(name, name), True)
        elif name in ("dsize", "ttl", "itype", "icode"):
            self.tests.append((name, number_test(value)))
        elif name == "flags":
            self.tests.append((name, flags_test(value)))
        elif name == "flow":
            same = {"from_client": "to_server", "from_server": "to_client"}
            self.flow = {same.get(word.strip(), word.strip()) for word in value.split(",")}
        elif name in ("threshold", "detection_filter"):
            self.counting.append(Counting(value, name == "detection_filter"))
            self.counting.sort(key=lambda one: one.kind != "filter")
        elif not self._says(name, value):
            raise ValueError(f"the manuals' option {name} is not read here")

    def _says(self, name, value):
        if name == "flowbits":
            verb, _, bit = (part.strip() for part in value.partition(","))
            if verb == "noalert":
                self.silent = True
            else:
                self.bits.append((verb, bit))
        elif name == "noalert":
            self.silent = True
        elif name == "sid":
            self.sid = int(value)
        elif name == "classtype":
            self.severity = CLASSES[value]
        elif name == "priority":
            self.severity = int(value)
        # A fast pattern tells where to look first, and nothing of what matches.
        return name in ("flowbits", "noalert", "sid", "classtype", "priority", "msg", "rev", "gid", "reference",
                        "metadata", "fast_pattern", "rawbytes")


def read(text):
    """All rules of a file, in the order in which they are held."""
    variables, rules = {}, []
    for line in text.splitlines():
        words = line.split(None, 2)
        if not words or line.startswith("#"):
            continue
        if words[0] in ("ipvar", "portvar", "var"):
            variables[words[1]] = words[2]
        else:
            rules.append(Rule(line.strip(), variables))
    return rules


def in_turn(rules):
    return sorted(rules, key=lambda rule: rule.rank)
