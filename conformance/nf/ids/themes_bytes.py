"""Rules about bytes: payloads of packets and streams, requests of HTTP."""
import re

from layout import PLAIN, Asked, spoiled
from spec import Spec, rule, sequence

REFERENCES = ["reference:cve,2021-44228; ", "reference:url,example.org/a; ", "metadata:created_at 2024_01_01; ", ""]
CLASSTYPES = ["web-application-attack", "attempted-recon", "trojan-activity", "misc-activity", "policy-violation"]


def told(random, name):
    """What people read."""
    kind = random.choice(CLASSTYPES)
    return f'msg:"{name} \\"{random.choice(PLAIN)}\\""; ', f"{random.choice(REFERENCES)}classtype:{kind}; "


def sized(random, row):
    """The option dsize for a row, and a length that lacks it."""
    length = len(row.bytes())
    return random.choice([(f"dsize:>{length - 9}; ", length - 9), (f"dsize:<{length + 9}; ", length + 9),
                          (f"dsize:{length}; ", length + 1), (f"dsize:{length - 7}<>{length + 7}; ", length + 7),
                          (f"dsize:!{length + 5}; ", length + 5)])


def asked_of_payload(random):
    asked = Asked(random)
    asked.wants_fast = random.random() < 0.35
    contents = random.choice([1, 1, 2, 2, 3])
    closing = random.choice(["", "", "ends", "data_at", "without", "byte_test", "pcre"])
    for at in range(contents):
        is_last = at + 1 == contents
        asked.content("" if is_last and closing == "ends" else None)
        if not is_last and random.random() < 0.2:
            asked.pattern(random.choice(["", "i", "s"]))
    if closing == "ends":
        asked.ends()
    elif closing == "pcre":
        asked.pattern(random.choice(["", "i", "m"]))
    elif closing:
        getattr(asked, closing)()
    return asked


def payload(random, sid):
    protocol = random.choice(["tcp", "tcp", "udp"])
    spec = Spec(random, protocol)
    asked = asked_of_payload(random)
    flow = random.choice(["", "flow:established,to_server; ", "flow:to_server; ", "flow:established; "])
    misses = [(name, changed, None) for name, changed in spec.misses()]
    size = ""
    if not asked.is_closed and random.random() < 0.3:
        asked.row.tail += 30
        size, wrong = sized(random, asked.row)
        asked.row.total = len(asked.row.bytes())
        asked.miss("dsize", total=wrong)
    asked.finish()
    if "established" in flow:
        # A stranger's datagram, or a segment before anybody has answered.
        misses.append(("established", spec.changed(stage="asked"), None))
    if "to_server" in flow:
        misses.append(("to_server", swapped(spec), None))
    misses += [(name, spec, row) for name, row in asked.misses]
    msg, more = told(random, "payload")
    text = f"{spec.header('alert')} ({msg}{flow}{size}{' '.join(asked.options)} {more}sid:{sid}; rev:{sid % 5 + 1};)"
    whole = asked.row.bytes()
    sequences = [sequence("hostile", "", spec.said(whole)), sequence("benign", "", spec.said(b"hello, " * 8))]
    sequences.append(sequence("hostile", "fragments", spec.fragmented(random, whole)))
    if protocol == "tcp" and not size:
        pieces = random.choice([2, 3, 7])
        sequences.append(sequence("hostile", "split", spec.said(whole, pieces)))
        sequences.append(sequence("hostile", "tangled", spec.said(whole, pieces, True)))
    sequences += [sequence("near", name, changed.said((row or asked.row).bytes())) for name, changed, row in misses]
    return [rule(text, sid, [*sequences, *drawn(random, spec, asked.row)])]


def drawn(random, spec, row):
    """The items of a row in any order and number: whether the rule alerts, the judge has to say."""
    for _ in range(4):
        said = row.head
        for _ in range(random.randrange(2, 14)):
            item = random.choice([*row.items, row.extra])
            said += random.choice([item, item, item, spoiled(item), item[:len(item) // 2]])
            said += row.filler * random.choice([0, 1, 2, 3, 5, 8, 13])
        pieces = random.choice([1, 1, 2, 3, 5]) if spec.protocol == "tcp" else 1
        yield sequence("drawn", "", spec.said(said, pieces, random.random() < 0.3))


def swapped(spec):
    """The same bytes between the same ends, but for who asked first."""
    return spec.changed(source=spec.target, target=spec.source, source_port=spec.port, port=spec.source_port,
                        from_client=False)


class Web:
    """A request before it is sent."""

    def __init__(self, random):
        self.random = random
        self.parts = {"method": b"GET", "uri": b"/index.html", "header": b"text-html", "host": b"www.example.org",
                      "user_agent": b"Mozilla-5.0"}

    def bytes(self, **parts):
        parts = {**self.parts, **parts}
        body = parts.get("body", b"")
        lines = [parts["method"] + b" " + parts["uri"] + b" HTTP/1.1", b"Host: " + parts["host"],
                 b"User-Agent: " + parts["user_agent"], b"Accept: " + parts["header"]]
        lines += [b"Cookie: " + parts["cookie"]] if "cookie" in parts else []
        lines[2:2] = [b"User-Agent: first-of-two"] if "is_twice" in parts else []
        lines += [b"Content-Length: %d" % len(body)] if body else []
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


def escaped(random, uri):
    """The same URI as one writes it who hides."""
    letters = list(uri.decode())
    for at in random.sample(range(1, len(letters)), min(3, len(letters) - 1)):
        if letters[at].isalpha():
            letters[at] = f"%{ord(letters[at]):02{random.choice('xX')}}"
    return random.choice(["", "/x/..", "/.", "/"]).encode() + "".join(letters).encode()


def asked_of(random, buffer, is_fast):
    """What a rule asks of one buffer; its bytes are written on the wire by `written`."""
    asked = Asked(random, b"/" if buffer == "uri" else b"", b"-", PLAIN, buffer != "host")
    place = "" if buffer == "header" else None
    asked.wants_fast = is_fast
    asked.content(place)
    letters = {"uri": "U", "header": "H", "host": "W", "user_agent": "V"}[buffer]
    closing = random.choice(["", "", "content", "pattern", "ends", "data_at", "without"])
    if closing == "content":
        asked.content()
    elif closing == "pattern":
        asked.pattern(random.choice(["", letters]))
    elif closing == "ends" and buffer != "header" and not re.search("offset|depth", asked.options[-1]):
        asked.ends()
    elif closing == "data_at" and buffer != "header":
        asked.data_at()
    elif closing == "without":
        asked.without()
    return asked.finish()


def written(random, buffer, row):
    data = row.bytes()
    if buffer == "uri":
        return escaped(random, data)
    return data.upper() + random.choice([b"", b":8080"]) if buffer == "host" else data


def method_of(random):
    method = random.choice([b"POST", b"PUT", b"DELETE", b"TRACE"])
    more = random.choice(["", " startswith;", " endswith;", " nocase;", " depth:7;"])
    text = method.decode().lower() if "nocase" in more else method.decode()
    return f'http.method; content:"{text}";{more}', method


def http(random, sid):
    protocol = random.choice(["http", "http", "tcp"])
    spec = Spec(random, "tcp")
    web, options, misses = Web(random), [], []
    flow = random.choice(["flow:established,to_server; ", "flow:to_server; ", "flow:established,from_client; "])
    if random.random() < 0.4:
        text, web.parts["method"] = method_of(random)
        options.append(text)
        misses.append(("http.method", {"method": b"OPTIONS"}))
    chosen = random.sample(["uri", "header", "host", "user_agent"], random.choice([1, 1, 2, 2, 3]))
    fast = random.choice([chosen[0], None])
    for buffer in sorted(chosen):
        asked = asked_of(random, buffer, buffer == fast)
        is_old = len(asked.options) == 1 and "without" not in asked.options[0] and random.random() < 0.3
        words = " ".join(asked.options)
        options.append(f"{words} http_{buffer};" if is_old else f"http.{buffer}; {words}")
        web.parts[buffer] = written(random, buffer, asked.row)
        misses += [(f"{name} of http.{buffer}", {buffer: written(random, buffer, row)}) for name, row in asked.misses]
        misses.append((f"http.{buffer}", {buffer: b"/plain" if buffer == "uri" else b"plain", "body": asked.row.bytes(),
                                          "cookie": asked.row.bytes()}))
    # Contents of the older form say where they belong; behind the newer form they would be the buffer's.
    options.sort(key=lambda text: text.startswith("http."))
    msg, more = told(random, "request")
    text = f"{spec.header('alert', protocol)} ({msg}{flow}{' '.join(options)} {more}sid:{sid}; rev:1;)"
    whole = web.bytes()
    sequences = [sequence("hostile", "", spec.said(whole)),
                 sequence("hostile", "split", spec.said(whole, random.choice([2, 5, 11]))),
                 sequence("hostile", "tangled", spec.said(whole, 4, True)),
                 sequence("hostile", "second", spec.said(Web(random).bytes(body=b"a body") + whole)),
                 sequence("benign", "", spec.said(Web(random).bytes()))]
    agent = next((text for text in options if "user_agent" in text), "offset")
    if not any(word in agent for word in ("offset", "depth", "startswith")):
        # Of two such headers the values stand one behind the other.
        sequences.append(sequence("hostile", "twice", spec.said(web.bytes(is_twice=True))))
    sequences += [sequence("near", name, changed.said(whole)) for name, changed in spec.misses()]
    if "established" in flow:
        sequences.append(sequence("near", "established", spec.changed(stage="asked").said(whole)))
    sequences.append(sequence("near", "to_server", swapped(spec).said(whole)))
    sequences += [sequence("near", name, spec.said(web.bytes(**parts))) for name, parts in misses]
    return [rule(text, sid, sequences)]
