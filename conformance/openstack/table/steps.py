"""The words in which the table of requests is written.

A scenario is a row of requests that build on each other; what it makes is removed after it, so scenarios are independent.
`$name` in a path or body stands for the id of the object that an earlier step made `as_` that name; `$absent` for an id
that nothing has. The id of a request in `differences.toml` is `scenario/step`.
"""
from dataclasses import dataclass, field
from typing import Any

NOTHING = object()  # no body at all, unlike null

PATHS = {
    "network": "/v2.0/networks",
    "subnet": "/v2.0/subnets",
    "port": "/v2.0/ports",
    "flow_classifier": "/v2.0/sfc/flow_classifiers",
    "port_pair": "/v2.0/sfc/port_pairs",
    "port_pair_group": "/v2.0/sfc/port_pair_groups",
    "port_chain": "/v2.0/sfc/port_chains",
    "service_graph": "/v2.0/sfc/service_graphs",
}


@dataclass
class Step:
    name: str
    method: str
    path: str
    body: Any = NOTHING
    as_: str | None = None
    # What it makes is removed before the next step: for variants that must not see each other.
    transient: bool = False
    # What of a good answer is compared: "all", or "count" where the order is each server's own.
    compare: str = "all"
    headers: dict = field(default_factory=dict)


@dataclass
class Scenario:
    name: str
    steps: list


def create(resource, name, attributes, as_=None, transient=False):
    """POST of one object."""
    return Step(name, "POST", PATHS[resource], {resource: attributes}, as_, transient)


def make(resource, as_, /, **attributes):
    """A step of preparation: it is compared like any other."""
    return create(resource, f"make {as_}", attributes, as_)


def update(resource, name, of, attributes):
    return Step(name, "PUT", f"{PATHS[resource]}/${of}", {resource: attributes})


def show(resource, name, of):
    return Step(name, "GET", f"{PATHS[resource]}/${of}")


def delete(resource, name, of):
    return Step(name, "DELETE", f"{PATHS[resource]}/${of}")


def listing(resource, name, query="", compare="all"):
    return Step(name, "GET", PATHS[resource] + (f"?{query}" if query else ""), compare=compare)
