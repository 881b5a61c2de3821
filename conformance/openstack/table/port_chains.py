"""Port chains: section 3.4 and their cases in section 8.4."""
from .steps import Scenario, create, delete, make, show, update

R = "port_chain"
MPLS, NSH = ({"correlation": name, "weight": 1} for name in ("mpls", "nsh"))


def scenarios():
    yield members()
    yield classifiers()
    yield parameters()
    yield numbers()
    yield correlations()
    yield taps()
    yield updates()
    yield order()


def chain(name, as_=None, /, **given):
    return create(R, name, given, as_, transient=as_ is None)


def groups(*names):
    return [make("port_pair_group", name) for name in names]


def members():
    steps = groups("g", "h", "i") + [
        chain("one group", port_pair_groups=["$g"]), chain("three groups", port_pair_groups=["$g", "$h", "$i"]), chain("no groups key"),
        chain("empty", port_pair_groups=[]), chain("null", port_pair_groups=None), chain("bare text", port_pair_groups="$g"), chain("empty text", port_pair_groups=""),
        chain("absent", port_pair_groups=["$absent"]), chain("no uuid", port_pair_groups=["abc"]), chain("duplicate", port_pair_groups=["$g", "$g"]),
        chain("one absent", port_pair_groups=["$g", "$absent"]), chain("object", port_pair_groups={"a": 1}), chain("nested", port_pair_groups=[["$g"]]),
        chain("a pair's id", port_pair_groups=["$p1"]),
        chain("first", "first", port_pair_groups=["$g", "$h"]), chain("identical list", port_pair_groups=["$g", "$h"]), chain("reversed list", port_pair_groups=["$h", "$g"]),
        chain("longer list", port_pair_groups=["$g", "$h", "$i"]), chain("shorter list", port_pair_groups=["$g"]), chain("other list", port_pair_groups=["$i"]),
        chain("identical list and absent classifier", port_pair_groups=["$g", "$h"], flow_classifiers=["$absent"]),
        chain("absent group and absent classifier", port_pair_groups=["$absent"], flow_classifiers=["$absent"]),
        chain("identical list and taken chain_id", port_pair_groups=["$g", "$h"], chain_id=1),
        delete("port_pair_group", "delete a group in use", "g"),
        chain("everything", "second", name="n", description="d", port_pair_groups=["$i", "$g"], flow_classifiers=[], chain_parameters={"correlation": "nsh", "symmetric": True}, chain_id=77),
        show(R, "show everything", "second"), delete(R, "delete", "second"), delete(R, "delete again", "second"),
    ]
    return Scenario(f"{R}/members", steps)


def classifiers():
    steps = groups("g", "h") + [
        make("flow_classifier", "a", protocol="tcp", destination_port_range_min=80, destination_port_range_max=80),
        make("flow_classifier", "b", protocol="tcp", destination_port_range_min=81, destination_port_range_max=81),
        make("flow_classifier", "c", protocol="udp", logical_source_port="$p1"), make("flow_classifier", "d", protocol="udp", logical_source_port="$p2"),
        *(chain(f"classifiers {name}", port_pair_groups=["$g"], flow_classifiers=value) for name, value in (
            ("null", None), ("empty", []), ("one", ["$a"]), ("two", ["$a", "$b"]), ("bare text", "$a"), ("empty text", ""), ("absent", ["$absent"]), ("no uuid", ["abc"]),
            ("duplicate", ["$a", "$a"]), ("number", 5), ("object", {}), ("of the same tuple", ["$c", "$d"]), ("one absent", ["$a", "$absent"]))),
        chain("first", "first", port_pair_groups=["$g"], flow_classifiers=["$a"]), chain("same classifier", port_pair_groups=["$h"], flow_classifiers=["$a"]),
        chain("other classifier", port_pair_groups=["$h"], flow_classifiers=["$b"]),
        chain("second", "second", port_pair_groups=["$h"], flow_classifiers=["$c"]),
        update(R, "same tuple by another port", "first", {"flow_classifiers": ["$a", "$d"]}),
        update(R, "classifier of another", "first", {"flow_classifiers": ["$c"]}), update(R, "add", "first", {"flow_classifiers": ["$a", "$b"]}),
        show(R, "show after add", "first"), update(R, "replace", "first", {"flow_classifiers": ["$b"]}), update(R, "clear", "first", {"flow_classifiers": []}),
        update(R, "null", "first", {"flow_classifiers": None}), update(R, "bare text", "first", {"flow_classifiers": "$a"}), update(R, "absent", "first", {"flow_classifiers": ["$absent"]}),
        update(R, "duplicate", "first", {"flow_classifiers": ["$a", "$a"]}), update(R, "same tuple in one", "second", {"flow_classifiers": ["$c", "$d"]}),
        show(R, "show second", "second"), delete("flow_classifier", "delete in use", "c"), delete(R, "delete", "second"), delete("flow_classifier", "delete free", "c"),
    ]
    return Scenario(f"{R}/classifiers", steps)


GIVEN = [
    None, {}, [], "x", 5, {"correlation": "mpls"}, {"correlation": "nsh"}, {"correlation": None}, {"correlation": "MPLS"}, {"correlation": "vxlan"}, {"correlation": ""},
    {"correlation": 5}, {"correlation": []}, {"symmetric": True}, {"symmetric": False}, {"symmetric": "true"}, {"symmetric": "False"}, {"symmetric": 1}, {"symmetric": "maybe"},
    {"symmetric": None}, {"symmetric": 5}, {"symmetric": []}, {"correlation": "nsh", "symmetric": "true"}, {"correlation": "x", "symmetric": "y"}, {"colour": 1},
    {"correlation": "mpls", "colour": 1}, [["symmetric", True]],
]


def parameters():
    steps = [chain(f"{number} {given}", port_pair_groups=["$g"], chain_parameters=given) for number, given in enumerate(GIVEN)]
    return Scenario(f"{R}/parameters", groups("g") + steps)


def numbers():
    values = (0, 1, 5, "5", "0", 4095, 4096, 65535, 65536, -1, "x", "", None, 1.5, True, [], {}, " 5 ", 10**12)
    steps = [chain(f"chain_id {value!r}", port_pair_groups=["$g"], chain_id=value) for value in values]
    steps += [
        chain("allocated", "one", port_pair_groups=["$g"]), chain("given", "two", port_pair_groups=["$h"], chain_id=2),
        chain("taken", port_pair_groups=["$i"], chain_id=2), chain("allocated around", "three", port_pair_groups=["$i"]),
        delete(R, "delete the first", "one"), chain("takes the free number", "four", port_pair_groups=["$g"]),
        chain("zero allocates", "five", port_pair_groups=["$g", "$h"], chain_id=0), update(R, "chain_id", "five", {"chain_id": 9}),
    ]
    return Scenario(f"{R}/numbers", groups("g", "h", "i") + steps)


def correlations():
    prepared = [
        make("port_pair", "plain", ingress="$p1", egress="$p2"), make("port_pair", "mpls", ingress="$p2", egress="$p1", service_function_parameters=MPLS),
        make("port_pair", "nsh", ingress="$p3", egress="$p4", service_function_parameters=NSH), make("port_pair_group", "gp", port_pairs=["$plain"]),
        make("port_pair_group", "gm", port_pairs=["$mpls"]), make("port_pair_group", "gn", port_pairs=["$nsh"]), make("port_pair_group", "empty"),
    ]
    steps = [chain(f"{correlation} over {group}", port_pair_groups=[f"${group}"], chain_parameters={"correlation": correlation})
             for correlation in ("mpls", "nsh") for group in ("gp", "gm", "gn", "empty")]
    steps += [
        chain("default over nsh", port_pair_groups=["$gn"]), chain("mixed", port_pair_groups=["$gp", "$gn"], chain_parameters={"correlation": "nsh"}),
        chain("both kinds", port_pair_groups=["$gm", "$gn"], chain_parameters={"correlation": "nsh"}),
        chain("wrong correlation and absent classifier", port_pair_groups=["$gn"], flow_classifiers=["$absent"]),
        chain("k", "k", port_pair_groups=["$gp"]), update(R, "other correlation", "k", {"port_pair_groups": ["$gn"]}), update(R, "own correlation", "k", {"port_pair_groups": ["$gm"]}),
        update(R, "back", "k", {"port_pair_groups": ["$gp"]}), update("port_pair_group", "a group in use takes another correlation", "gp", {"port_pairs": []}),
    ]
    return Scenario(f"{R}/correlations", prepared + steps)


def taps():
    prepared = [make("port_pair_group", "t", tap_enabled=True), make("port_pair_group", "u", tap_enabled=True), *groups("g")]
    steps = [
        chain("one tap", port_pair_groups=["$t"]), chain("consecutive", port_pair_groups=["$t", "$u"]), chain("not consecutive", port_pair_groups=["$t", "$g", "$u"]),
        chain("consecutive at the end", port_pair_groups=["$g", "$t", "$u"]),
        chain("k", "k", port_pair_groups=["$t", "$g"]), update(R, "consecutive on update", "k", {"port_pair_groups": ["$t", "$u"]}),
        update(R, "not consecutive on update", "k", {"port_pair_groups": ["$t", "$g", "$u"]}), show(R, "show", "k"),
    ]
    return Scenario(f"{R}/taps", prepared + steps)


def updates():
    steps = groups("g", "h", "i") + [
        chain("k", "k", name="k", port_pair_groups=["$g"]), update(R, "rename", "k", {"name": "l"}), update(R, "describe", "k", {"description": "d"}),
        update(R, "null name", "k", {"name": None}), update(R, "add a group", "k", {"port_pair_groups": ["$g", "$h"]}), show(R, "show after add", "k"),
        update(R, "remove a group", "k", {"port_pair_groups": ["$h"]}), show(R, "show after remove", "k"), update(R, "replace", "k", {"port_pair_groups": ["$i"]}),
        update(R, "empty", "k", {"port_pair_groups": []}), update(R, "null", "k", {"port_pair_groups": None}), update(R, "absent", "k", {"port_pair_groups": ["$absent"]}),
        update(R, "duplicate", "k", {"port_pair_groups": ["$g", "$g"]}), update(R, "no uuid", "k", {"port_pair_groups": ["x"]}), update(R, "bare text", "k", {"port_pair_groups": "$g"}),
        update(R, "chain_parameters", "k", {"chain_parameters": {"symmetric": True}}), update(R, "same chain_parameters", "k", {"chain_parameters": {"correlation": "mpls", "symmetric": False}}),
        chain("other", "other", port_pair_groups=["$h", "$i"]), update(R, "list of another", "k", {"port_pair_groups": ["$h", "$i"]}),
        update(R, "own list again", "other", {"port_pair_groups": ["$h", "$i"]}), update(R, "everything", "k", {"name": "z", "description": "y", "port_pair_groups": ["$i"], "flow_classifiers": []}),
        show(R, "show at the end", "k"),
    ]
    return Scenario(f"{R}/updates", steps)


def order():
    steps = groups("g", "h", "i") + [
        chain("k", "k", port_pair_groups=["$g", "$h", "$i"]), update(R, "reorder", "k", {"port_pair_groups": ["$i", "$g", "$h"]}), show(R, "show after reorder", "k"),
        update(R, "two", "k", {"port_pair_groups": ["$g", "$h"]}), update(R, "one at the front", "k", {"port_pair_groups": ["$i", "$g", "$h"]}), show(R, "show after one at the front", "k"),
    ]
    return Scenario(f"{R}/order", steps)
