"""Port pairs: section 3.3 and their cases in section 8.4."""
from .steps import Scenario, create, delete, make, show, update

R = "port_pair"


def scenarios():
    yield ports()
    yield parameters()
    yield life()


def pair(name, ingress, egress, as_=None, /, **more):
    return create(R, name, {"ingress": ingress, "egress": egress, **more}, as_, transient=as_ is None)


def ports():
    steps = [
        pair("ingress equals egress", "$p1", "$p1"), pair("absent ingress", "$absent", "$p2"), pair("absent egress", "$p1", "$absent"),
        pair("both absent", "$absent", "$absent"), pair("different machines", "$p1", "$p3"), pair("ingress of no machine", "$p5", "$p1"),
        pair("egress of no machine", "$p1", "$p5"), pair("both of no machine", "$p5", "$p5"), pair("a network", "$net", "$p1"),
        pair("upper case", "0A0A0A0A-0B0B-4C0C-8D0D-0E0E0E0E0E0E", "$p1"),
        pair("first", "$p1", "$p2", "first"), pair("same again", "$p1", "$p2"), pair("reversed", "$p2", "$p1"),
        pair("same ingress", "$p1", "$p1"), pair("same egress", "$p2", "$p2"),
        pair("same again with other parameters", "$p1", "$p2", service_function_parameters={"correlation": "nsh", "weight": 2}),
        pair("same again and bad weight", "$p1", "$p2", service_function_parameters={"weight": -1}),
        pair("other machine", "$p3", "$p4", "second"),
        create(R, "no attribute", {}, transient=True), create(R, "ingress only", {"ingress": "$p1"}, transient=True),
        create(R, "egress only", {"egress": "$p1"}, transient=True),
    ]
    return Scenario(f"{R}/ports", steps)


GIVEN = [
    None, {}, [], "", "mpls", {"correlation": None}, {"correlation": "mpls"}, {"correlation": "nsh"}, {"correlation": "MPLS"},
    {"correlation": "vxlan"}, {"correlation": ""}, {"correlation": 5}, {"correlation": ["nsh"]}, {"weight": 0}, {"weight": 1},
    {"weight": 3}, {"weight": "3"}, {"weight": " 3 "}, {"weight": -1}, {"weight": "-1"}, {"weight": "x"}, {"weight": 1.5}, {"weight": "1.5"},
    {"weight": None}, {"weight": True}, {"weight": []}, {"weight": 4294967295}, {"weight": 4294967296}, {"weight": 10**12},
    {"correlation": None, "weight": 1}, {"correlation": "mpls", "weight": 2}, {"correlation": "nsh", "weight": "2"},
    {"correlation": "x", "weight": -1}, {"colour": "red"}, {"correlation": "mpls", "colour": "red"}, [["weight", 1]], ["weight"],
]


def parameters():
    return Scenario(f"{R}/parameters", [
        pair(f"{number} {given}", "$p1", "$p2", service_function_parameters=given) for number, given in enumerate(GIVEN)])


def life():
    steps = [
        make(R, "a", name="a", description="d", ingress="$p1", egress="$p2", service_function_parameters={"correlation": "mpls", "weight": 5}),
        show(R, "show", "a"), update(R, "rename", "a", {"name": "b"}), update(R, "describe", "a", {"description": "e"}),
        update(R, "null name", "a", {"name": None}), update(R, "ingress", "a", {"ingress": "$p2"}), update(R, "egress", "a", {"egress": "$p1"}),
        update(R, "parameters", "a", {"service_function_parameters": {"weight": 1}}),
        make("port_pair_group", "g", port_pairs=["$a"]), delete(R, "delete in use", "a"), update(R, "rename in use", "a", {"name": "c"}),
        delete("port", "delete the port of a pair", "p1"), show("port", "the port is still there", "p1"),
        delete("port_pair_group", "delete the group", "g"), show(R, "show after the group", "a"), delete(R, "delete", "a"), show(R, "show deleted", "a"),
    ]
    return Scenario(f"{R}/life", steps)
