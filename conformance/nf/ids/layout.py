"""Bytes that a rule asks for, and the same with one condition broken. Knows where each content of a row stands."""
import copy
import string

WORDS = ["cmd.exe", "/etc/passwd", "xp_cmdshell", "<script>", "union select", "${jndi:ldap", "wget http", "root::0",
         "eval(base64", "powershell -e", "nc -l", "chmod 777", "id=1' or '1", "\\pipe\\", "%systemroot%", "drop table",
         "Basic YWRtaW4", "/bin/sh;", "<?php", "SELECT|pw|", "AUTH PLAIN", "USER anonymous", "site exec", "\"admin\""]
# What may stand in a URI and a header as it is.
PLAIN = ["shell", "passwd", "setup.php", "cmd", "admin", "wp-login", "backup.sql", "cgi", "phpinfo", "config.inc",
         "jmx", "struts", "console", "token", "upload", "invoker"]
SEEN = set()


def token(random, words):
    """Bytes that no other rule asks for."""
    while True:
        found = random.choice(words) + "".join(random.choices(string.ascii_lowercase, k=3)) + str(random.randrange(100))
        if found not in SEEN:
            SEEN.add(found)
            return found.encode()


def quoted(random, data):
    """Bytes as a content writes them: what has a meaning, and now and then more, in hexadecimal."""
    out, is_hex = "", False
    at, end = sorted(random.sample(range(len(data) + 1), 2)) if random.random() < 0.4 else (0, 0)
    for place, byte in enumerate(data):
        wants = not 32 <= byte < 127 or chr(byte) in '"|;:\\' or at <= place < end
        if wants != is_hex:
            out += "|"
        elif is_hex:
            out += " "
        out += f"{byte:02X}" if wants else chr(byte)
        is_hex = wants
    return out + ("|" if is_hex else "")


class Row:
    """Items with gaps between; a gap's filler is in no item."""

    def __init__(self, head=b"", filler=b"~"):
        self.head, self.filler, self.items, self.gaps, self.tail, self.extra = head, filler, [], [], 4, b""
        # Where the tail makes up for what broke a condition elsewhere.
        self.total = None

    def add(self, gap, item):
        self.gaps.append(gap)
        self.items.append(item)

    def bytes(self):
        out = self.head
        for gap, item in zip(self.gaps, self.items):
            out += self.filler * gap + item
        tail = self.tail if self.total is None else self.total - len(out)
        return out + self.extra + self.filler * (tail - len(self.extra))

    def changed(self, **parts):
        other = copy.deepcopy(self)
        for name, value in parts.items():
            if name.startswith("gap"):
                other.gaps[int(name[3:])] = value
            elif name.startswith("item"):
                other.items[int(name[4:])] = value
            else:
                setattr(other, name, value)
        return other


def spoiled(item):
    """The same with its last digit another."""
    return item[:-1] + (b"0" if item[-1:] != b"0" else b"1")


class Asked:
    """Options about one buffer: a row that has all of them, and for each condition a row that lacks it alone."""

    def __init__(self, random, head=b"", filler=b"~", words=WORDS, upper=True):
        self.random, self.words, self.upper = random, words, upper
        self.row = Row(head, filler)
        self.options, self.misses = [], []
        self.broken_gaps, self.broken_items, self.broken_tails, self.broken_extra = [], [], [], None
        self.is_closed = self.wants_fast = False

    def miss(self, name, **parts):
        self.misses.append((name, self.row.changed(**parts)))

    def content(self, place=None):
        """A content behind what is there, its place told by one of the ways."""
        random, at = self.random, len(self.row.items)
        item = token(random, self.words)
        ways = ["", "offset", "depth", "both", "starts"] if at == 0 else ["", "distance", "within", "both"]
        place = random.choice(ways) if place is None else place
        if at == 0 and place == "starts" and not self.row.head:
            gap, options, broken = 0, "startswith;", [("startswith", 1)]
        elif at == 0:
            gap = random.randrange(2, 12)
            start = gap + len(self.row.head)
            options, broken = self._absolute(place, start, gap, len(item))
        else:
            gap = random.randrange(2, 12)
            options, broken = self._relative(place, gap, len(item))
        no_case = self.upper and random.random() < 0.4
        wire = item.swapcase() if no_case else item
        self.row.add(gap, wire)
        text = f'content:"{quoted(random, item)}"; {"nocase; " if no_case else ""}{options}'
        if self.wants_fast:
            text += " fast_pattern;" if random.random() < 0.6 else f" fast_pattern:1,{len(item) - 2};"
            self.wants_fast = False
        self.options.append(text.strip())
        self.broken_gaps += [(name, at, wrong) for name, wrong in broken]
        self.broken_items.append(("content", at, spoiled(wire)))
        if not no_case and self.upper and item.swapcase() != item:
            self.broken_items.append(("case", at, item.swapcase()))
        return self

    def _absolute(self, place, start, gap, length):
        offset = self.random.randrange(1, start + 1) if place != "depth" else 0
        slack = self.random.randrange(0, 4)
        depth = start - offset + length + slack
        early = offset - 1 - len(self.row.head)
        late = gap + slack + 1
        offset_miss = [("offset", early)] if early >= 0 else []
        return {"offset": (f"offset:{offset};", offset_miss), "depth": (f"depth:{depth};", [("depth", late)]),
                "both": (f"offset:{offset}; depth:{depth};", [*offset_miss, ("depth", late)])}.get(place, ("", []))

    def _relative(self, place, gap, length):
        distance = self.random.randrange(1, gap + 1)
        slack = self.random.randrange(0, 4)
        near, far = ("distance", distance - 1), ("within", gap + slack + 1)
        return {"distance": (f"distance:{distance};", [near]), "within": (f"within:{gap + length + slack};", [far]),
                "both": (f"distance:{distance}; within:{gap - distance + length + slack};", [near, far])}.get(
                    place, ("", []))

    def pattern(self, letters=""):
        """A pattern behind what is there, looked for from there on, or by itself."""
        random, at = self.random, len(self.row.items)
        word = "".join(random.choices(string.ascii_lowercase, k=4))
        digits = str(random.randrange(100, 999))
        kind = random.randrange(4)
        text, wire, bad = [
            (f"{word}[0-9]{{3}}", f"{word}{digits}", f"{word}{digits[:2]}x"),
            (f"{word}=(yes|no)", f"{word}=no", f"{word}=na"),
            (f"{word}\\d+x?{word[0]}", f"{word}{digits}{word[0]}", f"{word}{digits}0"),
            (f"\\b{word}[^a-z]{{2,4}}k", f"{word}{digits}k", f"{word}{digits}l"),
        ][kind]
        if kind == 3 and self.row.filler == b"_":
            text = text[2:]
        if "i" in letters:
            wire = wire.swapcase()
        is_relative = at > 0 and random.random() < 0.5
        letters += "R" if is_relative else ""
        self.options.append(f'pcre:"/{text}/{letters}";')
        self.row.add(random.randrange(1, 6), wire.encode())
        self.broken_items.append(("pcre", at, bad.encode()))
        return self

    def byte_test(self):
        """A number right behind the last item."""
        random, at = self.random, len(self.row.items)
        count, kind = random.choice([1, 2, 4]), random.choice(["big", "little", "string,dec", "string,hex"])
        operator = random.choice([">", "<", "=", ">=", "<=", "!=", "&", "!&"])
        value = random.randrange(20, 90)
        good = {">": value + 1, "<": value - 1, "=": value, ">=": value, "<=": value, "!=": value + 1, "&": value,
                "!&": ~value & 0x7f}[operator]
        bad = {">": value, "<": value, "=": value + 1, ">=": value - 1, "<=": value + 1, "!=": value,
               "&": ~value & 0x7f, "!&": value}[operator]
        if "string" in kind:
            count = 3

        def wire(number):
            if kind == "string,dec":
                return f"{number:03d}".encode()
            if kind == "string,hex":
                return f"{number:03x}".encode()
            return number.to_bytes(count, kind)
        gap = random.randrange(0, 3)
        suffix = {"big": random.choice(["", ",big"])}.get(kind, f",{kind}")
        shown = random.choice([str(value), hex(value)])
        self.options.append(f"byte_test:{count},{operator},{shown},{gap},relative{suffix};")
        self.row.add(gap, wire(good))
        self.broken_items.append(("byte_test", at, wire(bad)))
        return self

    def ends(self):
        """The last content is the end of the buffer."""
        self.options[-1] += " endswith;"
        self.row.tail = 0
        self.broken_tails = [("endswith", 1)]
        self.is_closed = True
        return self

    def data_at(self):
        """So many bytes are behind the last content, or not so many."""
        reach = self.random.randrange(5, 15)
        negated = self.random.random() < 0.5
        self.options.append(f"isdataat:{'!' if negated else ''}{reach},relative;")
        self.row.tail = reach - 1 if negated else reach
        self.broken_tails = [("isdataat", reach if negated else reach - 1)]
        self.is_closed = True
        return self

    def without(self):
        """Something may not follow."""
        item = token(self.random, self.words)
        length = len(item)
        if self.random.random() < 0.5:
            self.options.append(f'content:!"{quoted(self.random, item)}";')
            place = b""
        else:
            reach = length + self.random.randrange(2, 8)
            self.options.append(f'content:!"{quoted(self.random, item)}"; within:{reach};')
            # Beyond its reach it does no harm.
            self.row.extra = self.row.filler * (reach - length + 1) + item
            place = self.row.filler * (reach - length)
        self.row.tail = max(self.row.tail, 20) + 2 * length
        self.broken_extra = ("without", place + item)
        return self

    def finish(self):
        """The rows that lack one condition each."""
        for name, at, wrong in self.broken_gaps:
            self.miss(name, **{f"gap{at}": wrong})
        for name, at, wrong in self.broken_items:
            self.miss(name, **{f"item{at}": wrong})
        for name, wrong in self.broken_tails:
            self.miss(name, tail=wrong)
        if self.broken_extra:
            self.miss(self.broken_extra[0], extra=self.broken_extra[1])
        return self
