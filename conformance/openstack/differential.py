"""Sends one table of requests to our controller and to the real networking-sfc and compares status, error type and values.

Every difference must be in `differences.toml` with its reason, and nothing may be there that does not differ any more.
"""
import json
import re
import tomllib
from collections import Counter

import servers
import table
from table.steps import NOTHING, PATHS

ABSENT = "0a0a0a0a-0b0b-4c0c-8d0d-0e0e0e0e0e0e"
# Reason of differences that nobody has judged yet.
UNDECIDED = "Not decided yet: to be mended, or to be given a reason."
LIST_OF_DIFFERENCES = servers.HERE / "differences.toml"
# Lists that mean sets: the servers keep no order in them.
SETS = {"flow_classifiers", "port_pairs", "subnets"}
NAME = re.compile(r"\$([a-z_0-9]+)")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Side:
    """One of the servers, with the ids that it gave to the names of the table."""

    def __init__(self, url):
        self.url = url
        self.ids = {"absent": ABSENT}
        self.made = []

    def fill(self, text):
        return NAME.sub(lambda found: self.ids.get(found[1], ABSENT), text)

    def send(self, step):
        sent = step.body
        if sent is NOTHING:
            sent = None
        elif not isinstance(sent, bytes):
            sent = self.fill(json.dumps(sent)).encode()
        status, headers, answer = servers.call(self.url, step.method, self.fill(step.path), sent, step.headers)
        return self.read(step, status, headers, answer)

    def read(self, step, status, headers, answer):
        try:
            content = json.loads(answer) if answer else None
        except ValueError:
            content = answer.decode(errors="replace")
        if step.method == "POST" and status == 201 and isinstance(content, dict):
            made = next(iter(content.values()))
            path = f"{step.path.split('?')[0]}/{made['id']}"
            if step.transient:
                servers.call(self.url, "DELETE", path)
            else:
                self.made.append(path)
            self.ids[step.as_ or "made"] = made["id"]
        return Answer(status, headers, self.unnamed(content))

    def unnamed(self, content):
        """The content with names for ids, and without this server's address."""
        names = {given: f"${name}" for name, given in self.ids.items()}
        text = json.dumps(content).replace(self.url, "http://server")
        return json.loads(UUID.sub(lambda found: names.get(found[0], found[0]), text))

    def remove(self, upto=0):
        """Removes what was made; what others still use has its turn after them."""
        left = self.made[upto:]
        while left:
            in_use = [path for path in reversed(left) if servers.call(self.url, "DELETE", path)[0] not in (204, 404)]
            if len(in_use) == len(left):
                raise RuntimeError(f"{self.url} does not delete {', '.join(in_use)}")
            left = in_use[::-1]
        del self.made[upto:]


class Answer:
    def __init__(self, status, headers, content):
        self.status = status
        self.media_type = headers.get("content-type", "none").split(";")[0]
        self.has_request_id = "x-openstack-request-id" in headers
        self.content = content

    @property
    def error(self):
        """Type of the error; the form of the body when it has none."""
        content = self.content
        if isinstance(content, dict) and isinstance(content.get("NeutronError"), dict):
            return content["NeutronError"].get("type", "untyped")
        return "empty" if content is None else type(content).__name__


class Values:
    """Attributes of good answers that differ on purpose, from the committed list; remembers which of them were met."""

    def __init__(self, rows):
        self.rows = {(row["resource"], row["attribute"]): row for row in rows}
        self.met = set()

    def is_expected(self, resource, attribute, kind):
        row = self.rows.get((resource, attribute))
        if row is None or row["kind"] != kind:
            return False
        self.met.add((resource, attribute))
        return True

    def agree(self, resource, attribute):
        """What two clocks say may be the same by chance; that it is there on both sides is met."""
        if self.rows.get((resource, attribute), {}).get("is_clock"):
            self.met.add((resource, attribute))

    def unmet(self):
        return sorted(set(self.rows) - self.met)


def same(ours, theirs):
    """Equal as JSON, where true is not 1."""
    return json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def differing(at, ours, theirs, resource, values):
    """Pairs (place with our value, place with their value) of everything that differs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            kind = "ours only" if key not in theirs else "theirs only" if key not in ours else "value"
            inside = key.removesuffix("s") if key.removesuffix("s") in PATHS and not at else resource
            if kind == "value" and same(ours[key], theirs[key]):
                values.agree(inside, key)
                yield from differing(f"{at}.{key}".lstrip("."), ours[key], theirs[key], inside, values)
                continue
            if inside is not None and not values.is_expected(inside, key, kind):
                if kind == "value":
                    yield from differing(f"{at}.{key}".lstrip("."), ours[key], theirs[key], inside, values)
                else:
                    place = f"{at}.{key}".lstrip(".")
                    yield (f"has {place}", f"no {place}") if kind == "ours only" else (f"no {place}", f"has {place}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from differing_lists(at, ours, theirs, resource, values)
    elif not same(ours, theirs):
        yield f"{at}={json.dumps(ours)}", f"{at}={json.dumps(theirs)}"


def differing_lists(at, ours, theirs, resource, values):
    if at.rpartition(".")[2] in SETS or ".port_chains." in at:
        ours, theirs = sorted(ours, key=json.dumps), sorted(theirs, key=json.dumps)
    if all(isinstance(item, dict) and "id" in item for item in ours + theirs):
        ours, theirs = ({item["id"]: item for item in items} for items in (ours, theirs))
        if ours.keys() != theirs.keys():
            yield tuple(f"{at}={','.join(sorted(items))}" for items in (ours, theirs))
        for id in sorted(ours.keys() & theirs.keys()):
            yield from differing(at, ours[id], theirs[id], resource, values)
    elif len(ours) == len(theirs) and all(isinstance(item, dict) for item in ours + theirs):
        for ours_item, theirs_item in zip(ours, theirs):
            yield from differing(at, ours_item, theirs_item, resource, values)
    elif not same(ours, theirs):
        yield f"{at}={json.dumps(ours)}", f"{at}={json.dumps(theirs)}"


def counted(content):
    """A list's length and the relations of its links: what paging must agree in, whatever the order of the ids."""
    if not isinstance(content, dict):
        return content
    return {key: sorted(link["rel"] for link in value) if key.endswith("_links") else len(value)
            for key, value in content.items() if isinstance(value, list)}


def outcomes(step, ours, theirs, values):
    """Both answers as one line each; equal lines mean that no difference matters."""
    sides = [[str(side.status)] for side in (ours, theirs)]
    for line, side in zip(sides, (ours, theirs)):
        if side.status >= 400:
            line.append(side.error)
    if ours.media_type != theirs.media_type and ours.status == theirs.status != 204:
        for line, side in zip(sides, (ours, theirs)):
            line.append(side.media_type)
    if ours.status == theirs.status < 300:
        contents = [counted(side.content) if step.compare == "count" else side.content for side in (ours, theirs)]
        found = sorted(set(differing("", *contents, resource_of(step, theirs), values)))
        for index, line in enumerate(sides):
            line.extend(pair[index] for pair in found)
    return tuple("; ".join(line) if len(line) > 2 else " ".join(line) for line in sides)


def resource_of(step, answer):
    if isinstance(answer.content, dict):
        key = next(iter(answer.content), "")
        return key if key in PATHS else key.removesuffix("s")
    return ""


def listed():
    with open(LIST_OF_DIFFERENCES, "rb") as file:
        return tomllib.load(file)


def expected_differences(document):
    """Request id to (ours, theirs, reason); an id twice is an error of the list."""
    found = {}
    for group in document.get("difference", []):
        for request, (ours, theirs) in group["requests"].items():
            if request in found:
                raise ValueError(f"{request} is listed twice in {LIST_OF_DIFFERENCES.name}")
            found[request] = (ours, theirs, group["reason"])
    return found


def refreshed(text, seen):
    """The text of the list as it would be after what was seen: what differs no longer is gone, other outcomes are written
    anew under their reason, and new differences stand at the end, with no reason yet."""
    head = text.split("\n[[difference]]")[0].rstrip()
    left = {request: pair for request, pair in seen.items() if pair[0] != pair[1]}
    groups = {group["reason"]: [request for request in group["requests"] if request in left]
              for group in tomllib.loads(text).get("difference", [])}
    old = {request for requests in groups.values() for request in requests}
    groups.setdefault(UNDECIDED, []).extend(request for request in left if request not in old)
    lines = [head]
    for reason, requests in groups.items():
        if requests:
            lines += ["", "[[difference]]", f"reason = {quoted(reason)}", "[difference.requests]"]
            lines += [f"{quoted(request)} = [{quoted(left[request][0])}, {quoted(left[request][1])}]" for request in requests]
    return "\n".join(lines) + "\n"


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def run(our_url, their_url, only=None, update=False):
    """Compares all; returns the number of requests and what is wrong, one line each."""
    document = listed()
    expected, values = expected_differences(document), Values(document.get("attribute", []))
    sides = Side(our_url), Side(their_url)
    wrong, seen, sent = [], {}, Counter()
    for scenario in table.scenarios():
        if only and scenario.name != "fixture" and not scenario.name.startswith(tuple(only.split(","))):
            continue
        kept = [len(side.made) for side in sides]
        for step in scenario.steps:
            request = f"{scenario.name}/{step.name}"
            sent[request] += 1
            ours, theirs = (side.send(step) for side in sides)
            if step.path.startswith("/v2.0") and not ours.has_request_id:
                wrong.append(f"{request}: our answer has no request id")
            seen[request] = outcomes(step, ours, theirs, values)
        if scenario.name != "fixture":
            for side, upto in zip(sides, kept):
                side.remove(upto)
    for side in sides:
        side.remove()
    wrong += [f"{request} is {count} times in the table" for request, count in sent.items() if count > 1]
    wrong += judged(seen, expected, complete=not only)
    if not only:
        wrong += [f"differences.toml: '{attribute}' of {resource} does not differ any more" for resource, attribute in values.unmet()]
    if update and not only:
        LIST_OF_DIFFERENCES.write_text(refreshed(LIST_OF_DIFFERENCES.read_text(), seen))
    return sum(sent.values()), wrong


def judged(seen, expected, complete):
    wrong = []
    for request, (ours, theirs) in seen.items():
        if request in expected:
            if (ours, theirs) != expected[request][:2]:
                wrong.append(f"{request}: ours «{ours}», theirs «{theirs}»; listed: ours «{expected[request][0]}», theirs «{expected[request][1]}»")
        elif ours != theirs:
            wrong.append(f"{request}: ours «{ours}», theirs «{theirs}»")
    if complete:
        wrong += [f"differences.toml lists {request}, which is not in the table" for request in expected if request not in seen]
    return wrong
