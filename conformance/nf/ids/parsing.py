"""What two readers of others make of each rule, beside what ours has read: action, protocol, addresses, ports,
direction, and the options with their values."""
import ipaddress
import json
import re
import sys

import surinort_ast
import suricataparser

WIDEST = ((1 << 32) - 1, (1 << 128) - 1)
COMPARISONS = {"<": "Less", ">": "Greater", "=": "Equal", "==": "Equal", "<=": "AtMost", ">=": "AtLeast", "&": "And",
               "^": "Xor"}
BUFFERS = {"uri": "Uri", "header": "Header", "method": "Method", "host": "Host", "user_agent": "UserAgent"}
PCRE_BUFFERS = {"U": "Uri", "H": "Header", "M": "Method", "W": "Host", "V": "UserAgent"}
FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "2": 64, "C": 128, "1": 128, "0": 0}
KINDS = {"limit": "Limit", "threshold": "Each", "both": "Both"}
TRACKS = {"by_src": "Source", "by_dst": "Destination", "by_rule": "Rule"}


def merged(ranges):
    out = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1][1] = max(out[-1][1], last)
        else:
            out.append([first, last])
    return out


def without(ranges, others):
    for low, high in others:
        ranges = [part for first, last in ranges
                  for part in ((first, min(last, low - 1)), (max(first, high + 1), last)) if part[0] <= part[1]]
    return merged(ranges)


class Sets:
    """Trees of addresses and ports as ranges, their variables put in."""

    def __init__(self, variables):
        self.variables = variables

    def ranges(self, node, family):
        """Of IPv4 (0), IPv6 (1), or of ports (2)."""
        kind, whole = node.type, [[0, (*WIDEST, 65535)[family]]]
        again = lambda one: self.ranges(one, family)
        if kind in ("AnyAddress", "AnyPort"):
            return whole
        if kind in ("AddressVariable", "PortVariable"):
            return again(self.variables[node.name])
        if kind in ("AddressNegation", "PortNegation"):
            return without(whole, again(node.expr))
        if kind in ("AddressList", "PortList"):
            taken = [one for one in node.elements if "Negation" not in one.type]
            left = [span for one in node.elements if "Negation" in one.type for span in again(one.expr)]
            return without(merged(span for one in taken for span in again(one)) if taken else whole, left)
        if kind == "Port":
            return [[node.value, node.value]]
        if kind == "PortRange":
            return [[node.start, node.end]]
        if kind == "IPRange":
            first, last = (ipaddress.ip_address(text) for text in (node.start, node.end))
        else:
            text = node.value if kind == "IPAddress" else f"{node.network}/{node.prefix_len}"
            network = ipaddress.ip_network(text, strict=False)
            first, last = network[0], network[-1]
        return [[int(first), int(last)]] if (first.version == 6) == (family == 1) else []

    def ends(self, addresses, ports):
        spans = [self.ranges(addresses, 0), self.ranges(addresses, 1), self.ranges(ports, 2)]
        return [[[str(first), str(last)] for first, last in part] for part in spans]


def span(text, most):
    text = text.replace(" ", "")
    if "<>" in text:
        low, high = map(int, text.split("<>"))
        return [low + 1, high - 1, False]
    sign, number = re.fullmatch(r"(<=|>=|<|>|!|)(\d+)", text).groups()
    number = int(number)
    first, last = {"": (number, number), "!": (number, number), "<": (0, number - 1), ">": (number + 1, most),
                   "<=": (0, number), ">=": (number, most)}[sign]
    return [first, last, sign == "!"]


def flags(text):
    asked, _, ignored = text.partition(",")
    mode = {"+": "All", "*": "Any", "!": "None"}.get(asked[0], "Exactly")
    bits = lambda letters: sum(FLAGS[letter] for letter in letters if letter not in "+*! ")
    return [mode, bits(asked), bits(ignored)]


class Seen:
    """The options of one tree in the form in which ours are told."""

    def __init__(self, rule):
        self.checks, self.told, self.buffer = [], {"flowbits": [], "thresholds": []}, "Payload"
        for option in rule.options:
            self.take(option)
        self.told["checks"] = [[buffer, self.content(check) if isinstance(check, dict) else check]
                               for buffer, check in self.checks]

    @staticmethod
    def content(parts):
        data, at_start = parts["bytes"], "startswith" in parts
        nocase = "nocase" in parts
        return ["content", (data.lower() if nocase else data).hex(), parts["negated"], nocase,
                "distance" in parts or "within" in parts, parts.get("offset", parts.get("distance", 0)),
                len(data) if at_start else parts.get("depth", parts.get("within")), "endswith" in parts]

    def take(self, option):
        kind = option.type.removesuffix("Option")
        if kind == "Generic":
            self.generic(option.keyword, option.value)
        elif kind == "BufferSelect":
            self.select(option.buffer_name)
        elif kind == "Content":
            self.checks.append([self.buffer, {"bytes": bytes(option.pattern), "negated": option.negated}])
            for one in option.modifiers:
                self.checks[-1][1][str(getattr(one.name, "value", one.name))] = one.value
        elif kind.lower() in ("offset", "depth", "distance", "within", "nocase", "startswith", "endswith"):
            self.checks[-1][1][kind.lower()] = getattr(option, "value", True)
        elif kind == "Pcre":
            buffer = next((PCRE_BUFFERS[one] for one in option.flags if one in PCRE_BUFFERS), self.buffer)
            self.checks.append([buffer, ["pattern", option.negated, "R" in option.flags]])
        elif kind == "ByteTest":
            self.byte_test(option)
        elif kind == "Flow":
            self.flow({word.value for word in (*option.directions, *option.states)})
        elif kind == "Flowbits":
            self.bits(option.action, option.name)
        elif kind == "Threshold":
            counting = [TRACKS[option.track], option.count, option.seconds]
            self.told["thresholds"].append([KINDS[option.threshold_type], *counting])
        elif kind == "DetectionFilter":
            self.told["thresholds"].append(["Filter", TRACKS[option.track], option.count, option.seconds])
        elif kind in ("Msg", "Sid", "Rev", "Gid"):
            self.told[kind.lower()] = option.text if kind == "Msg" else option.value
        elif kind not in ("Classtype", "Priority", "Reference", "Metadata", "FastPattern"):
            raise ValueError(f"the reader says {option!r}, which is not known here")

    def select(self, name):
        newer = name.removeprefix("http.")
        if newer != name:
            self.buffer = BUFFERS[newer]
        else:
            # The older words stand behind their content.
            self.checks[-1][0] = BUFFERS[name.removeprefix("http_")]

    def generic(self, name, value):
        most = {"dsize": 65535}.get(name, 255)
        if name in ("dsize", "ttl", "itype", "icode"):
            self.told[name] = span(value, most)
        elif name == "flags":
            self.told[name] = flags(value)
        elif name == "isdataat":
            number, *words = (part.strip() for part in value.split(","))
            test = ["data_at", int(number.lstrip("!")), number[0] == "!", "relative" in words]
            self.checks.append([self.buffer, test])
        elif name in ("startswith", "endswith"):
            self.checks[-1][1][name] = True
        elif name == "flowbits":
            self.bits(*((part.strip() for part in value.split(",", 1)) if "," in value else (value, "")))
        elif name == "flow":
            self.flow({part.strip() for part in value.split(",")})
        elif name.startswith("http"):
            self.select(name)
        else:
            raise ValueError(f"the reader leaves {name} as it is, which is not known here")

    def byte_test(self, option):
        words = " ".join(option.flags).replace(",", " ").split()
        operator = option.operator.lstrip("!") or "="
        value = option.value if isinstance(option.value, int) else int(option.value, 0)
        base = {"hex": 16, "oct": 8}.get(next((word for word in words if word in ("hex", "oct")), ""), 10)
        numeral = f"Digits({base})" if "string" in words else "Little" if "little" in words else "Big"
        self.checks.append([self.buffer, ["byte_test", option.bytes_to_extract, option.operator.startswith("!"),
                                          COMPARISONS[operator], value, option.offset, "relative" in words, numeral]])

    def flow(self, words):
        way = {"to_server": True, "from_client": True, "to_client": False, "from_server": False}
        self.told["flow"] = [True if "established" in words else False if "not_established" in words else None,
                             next((way[word] for word in words if word in way), None),
                             "only_stream" in words, "no_stream" in words]

    def bits(self, verb, name):
        if verb == "noalert":
            self.told["silent"] = True
        else:
            self.told["flowbits"].append([verb, name])


def by_tree(sets, rule, ours):
    """What `surinort-ast` reads otherwise."""
    head = rule.header
    told = {"action": rule.action.value, "protocol": head.protocol.value, "both": head.direction.value == "<>",
            "source": sets.ends(head.src_addr, head.src_port), "destination": sets.ends(head.dst_addr, head.dst_port)}
    empty = {"gid": 1, "rev": 0, "dsize": None, "ttl": None, "itype": None, "icode": None, "flags": None,
             "flow": [None, None, False, False], "silent": False}
    told = {**empty, **told, **Seen(rule).told}
    return [(name, ours[name], told[name]) for name in told if ours[name] != told[name]]


def by_words(rule, ours):
    """What `suricataparser` reads otherwise."""
    told = {"action": rule.action, "sid": rule.sid, "rev": rule.rev or 0, "head": rule.header,
            "options": [[one.name, str(one.value) if one.value is not None else None] for one in rule.options]}
    if rule.metadata:
        joined = ", ".join(rule.metadata)
        told["options"] = [[name, joined if name == "metadata" else value] for name, value in told["options"]]
    return [(name, ours[name], told[name]) for name in told if ours[name] != told[name]]


def main():
    wrong, compared = [], 0
    for theme in json.load(open(sys.argv[1])):
        # A variable is read as the source of a rule.
        variables = {}
        for word, name, value in theme["variables"]:
            head = f"{value} any -> any any" if word == "ipvar" else f"any any -> any {value}"
            header = surinort_ast.parse_rule(f"alert tcp {head} (sid:1;)").header
            variables[name] = header.src_addr if word == "ipvar" else header.dst_port
        sets = Sets(variables)
        for ours in theme["rules"]:
            compared += 1
            pairs = [("surinort-ast", by_tree(sets, surinort_ast.parse_rule(ours["text"]), ours)),
                     ("suricataparser", by_words(suricataparser.parse_rule(ours["text"]), ours))]
            wrong += [f"{reader}: {ours['sid']} {name}: ours {own}, theirs {theirs}\n    {ours['text']}"
                      for reader, found in pairs for name, own, theirs in found]
    print("\n".join(wrong[:20]))
    print(f"{compared} rules compared with two readers, {len(wrong)} differences")
    return 1 if wrong else 0


sys.exit(main())
