"""Quotas (section 5): both servers begin without any."""
from .steps import Scenario, Step, create, make

ROOT = "/v2.0/quotas"
PROJECT = f"{ROOT}/fake_project_id"
# What is counted, with a body for another one of it.
COUNTED = {
    "flow_classifier": lambda n: {"protocol": "tcp", "source_port_range_min": n, "source_port_range_max": n},
    "port_pair": lambda n: {"ingress": "$p1", "egress": "$p1"} if n else {"ingress": "$p1", "egress": "$p2"},
    "port_pair_group": lambda n: {},
    "port_chain": lambda n: {"port_pair_groups": ["$g"] if n else ["$g", "$h"]},
}


def scenarios():
    yield documents()
    for resource in COUNTED:
        yield over(resource)


def quota(name, method, path, body=None):
    return Step(name, method, path, *([] if body is None else [{"quota": body}]))


def documents():
    steps = [
        quota("show", "GET", PROJECT), quota("list", "GET", ROOT), quota("default", "GET", f"{PROJECT}/default"), quota("details", "GET", f"{PROJECT}/details.json"),
        quota("details without .json", "GET", f"{PROJECT}/details"), quota("show another", "GET", f"{ROOT}/other"), quota("tenant", "GET", f"{ROOT}/tenant"), quota("project", "GET", f"{ROOT}/project"),
        quota("set", "PUT", PROJECT, {"port_chain": 50}), quota("show set", "GET", PROJECT), quota("list set", "GET", ROOT), quota("show with .json", "GET", f"{PROJECT}.json"),
        quota("set two", "PUT", PROJECT, {"port_pair": 20, "port_pair_group": 30}), quota("set none", "PUT", PROJECT, {}), quota("unlimited", "PUT", PROJECT, {"port_chain": -1}),
        quota("zero", "PUT", PROJECT, {"port_chain": 0}), quota("below -1", "PUT", PROJECT, {"port_chain": -2}), quota("text", "PUT", PROJECT, {"port_chain": "7"}), quota("no number", "PUT", PROJECT, {"port_chain": "x"}),
        quota("null", "PUT", PROJECT, {"port_chain": None}), quota("fraction", "PUT", PROJECT, {"port_chain": 1.5}), quota("too large", "PUT", PROJECT, {"port_chain": 2**31}), quota("unknown", "PUT", PROJECT, {"colour": 1}),
        Step("no body", "PUT", PROJECT), Step("broken JSON", "PUT", PROJECT, b"{"), Step("no envelope", "PUT", PROJECT, {"port_chain": 1}), quota("POST", "POST", ROOT, {"port_chain": 1}),
        quota("details set", "GET", f"{PROJECT}/details.json"), quota("delete", "DELETE", PROJECT), quota("show deleted", "GET", PROJECT), quota("delete again", "DELETE", PROJECT), quota("delete another", "DELETE", f"{ROOT}/other"),
        quota("set for another", "PUT", f"{ROOT}/other", {"port_chain": 5}), quota("show for another", "GET", f"{ROOT}/other"), quota("delete for another", "DELETE", f"{ROOT}/other"),
    ]
    return Scenario("quota/documents", steps)


def over(resource):
    body = COUNTED[resource]
    prepared = [make("port_pair_group", "g"), make("port_pair_group", "h")] if resource == "port_chain" else []
    steps = prepared + [
        quota("one", "PUT", PROJECT, {resource: 1}), create(resource, "first", body(0), "first"), create(resource, "over", body(1), transient=True),
        quota("below use", "PUT", PROJECT, {resource: 0}), quota("below use, checked", "PUT", PROJECT, {resource: 0, "check_limit": True}), quota("details", "GET", f"{PROJECT}/details.json"),
        create(resource, "over and wrong", {**body(1), "name": 5}, transient=True), quota("two", "PUT", PROJECT, {resource: 2}), create(resource, "second", body(1), transient=True),
        create(resource, "again after a deletion", body(1), transient=True), quota("unlimited again", "DELETE", PROJECT), create(resource, "without", body(1), transient=True),
    ]
    return Scenario(f"quota/{resource}", steps)
