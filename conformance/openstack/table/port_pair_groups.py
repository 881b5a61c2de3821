"""Port pair groups: section 3.3 and their cases in section 8.4."""
from .steps import Scenario, create, delete, make, show, update

R = "port_pair_group"
MPLS, NSH = ({"correlation": name, "weight": 1} for name in ("mpls", "nsh"))


def scenarios():
    yield members()
    yield correlations()
    yield taps()
    yield parameters()
    yield life()
    yield numbers()


def group(name, as_=None, /, **given):
    return create(R, name, given, as_, transient=as_ is None)


def pairs():
    return [make("port_pair", "a", ingress="$p1", egress="$p2"), make("port_pair", "b", ingress="$p2", egress="$p1"),
            make("port_pair", "c", ingress="$p3", egress="$p4")]


def members():
    steps = pairs() + [
        group("none"), group("one", port_pairs=["$a"]), group("two", port_pairs=["$a", "$b"]), group("null", port_pairs=None),
        group("absent", port_pairs=["$absent"]), group("one absent", port_pairs=["$a", "$absent"]), group("no uuid", port_pairs=["abc"]),
        group("duplicate", port_pairs=["$a", "$a"]), group("bare text", port_pairs="$a"), group("object", port_pairs={"a": "$a"}), group("a port", port_pairs=["$p1"]),
        group("nested", port_pairs=[["$a"]]), group("null inside", port_pairs=[None]),
        group("first", "first", port_pairs=["$a"]), group("shared", port_pairs=["$a"]), group("shared and free", port_pairs=["$b", "$a"]),
        group("second", "second", port_pairs=["$b"]), update(R, "take from another", "second", {"port_pairs": ["$a"]}),
        update(R, "take as well", "second", {"port_pairs": ["$b", "$a"]}), update(R, "same", "second", {"port_pairs": ["$b"]}),
        update(R, "add", "second", {"port_pairs": ["$b", "$c"]}), show(R, "show after add", "second"),
        update(R, "replace", "second", {"port_pairs": ["$c"]}), show(R, "show after replace", "second"),
        update(R, "clear", "second", {"port_pairs": []}), show(R, "show after clear", "second"),
        update(R, "free pair", "first", {"port_pairs": ["$a", "$b"]}), update(R, "null clears", "first", {"port_pairs": None}),
        update(R, "absent pair", "first", {"port_pairs": ["$absent"]}), update(R, "duplicate pair", "first", {"port_pairs": ["$a", "$a"]}),
        update(R, "no uuid pair", "first", {"port_pairs": ["abc"]}), update(R, "text", "first", {"port_pairs": "$a"}),
        update(R, "parameters", "first", {"port_pair_group_parameters": {}}), update(R, "tap", "first", {"tap_enabled": True}),
        update(R, "group_id", "first", {"group_id": 9}), show(R, "show first", "first"),
    ]
    return Scenario(f"{R}/members", steps)


def correlations():
    steps = [
        make("port_pair", "plain", ingress="$p1", egress="$p2"), make("port_pair", "mpls", ingress="$p2", egress="$p1", service_function_parameters=MPLS),
        make("port_pair", "mpls2", ingress="$p3", egress="$p4", service_function_parameters=MPLS),
        make("port_pair", "nsh", ingress="$p4", egress="$p3", service_function_parameters=NSH),
        group("mpls and mpls", port_pairs=["$mpls", "$mpls2"]), group("mpls and nsh", port_pairs=["$mpls", "$nsh"]), group("plain and mpls", port_pairs=["$plain", "$mpls"]),
        group("plain and nsh", port_pairs=["$plain", "$nsh"]),
        group("g", "g", port_pairs=["$mpls"]), update(R, "add mpls", "g", {"port_pairs": ["$mpls", "$mpls2"]}), update(R, "add nsh", "g", {"port_pairs": ["$mpls", "$nsh"]}),
        update(R, "replace by nsh", "g", {"port_pairs": ["$nsh"]}), update(R, "add plain", "g", {"port_pairs": ["$nsh", "$plain"]}), show(R, "show", "g"),
    ]
    return Scenario(f"{R}/correlations", steps)


def taps():
    steps = pairs() + [group(f"tap {value!r}", tap_enabled=value) for value in (True, False, "true", "True", "1", 1, 0, "yes", "on", "t", "f", "maybe", 2, [], {}, 1.0, "TRUE ")]
    steps += [
        group("tap with one pair", port_pairs=["$a"], tap_enabled=True), group("tap with two pairs", port_pairs=["$a", "$b"], tap_enabled=True),
        group("tap with all parameters", port_pairs=["$a"], tap_enabled=True, port_pair_group_parameters={"lb_fields": ["ip_src"]}),
        group("g", "g", port_pairs=["$a"], tap_enabled=True), update(R, "tap gets a second pair", "g", {"port_pairs": ["$a", "$b"]}),
        update(R, "tap gets another pair", "g", {"port_pairs": ["$b"]}), update(R, "tap loses its pair", "g", {"port_pairs": []}), show(R, "show", "g"),
    ]
    return Scenario(f"{R}/taps", steps)


TUPLE = {"source_ip_prefix": "10.0.0.0/24", "destination_ip_prefix": "10.1.0.0/24", "source_port_range_min": 1, "source_port_range_max": 2,
         "destination_port_range_min": 3, "destination_port_range_max": 4}
GIVEN = [
    None, {}, [], "x", 5, {"lb_fields": []}, {"lb_fields": None}, {"lb_fields": ["ip_src"]},
    {"lb_fields": ["eth_src", "eth_dst", "ip_src", "ip_dst", "tcp_src", "tcp_dst", "udp_src", "udp_dst"]}, {"lb_fields": ["ip_src", "ip_src"]},
    {"lb_fields": ["colour"]}, {"lb_fields": ["IP_SRC"]}, {"lb_fields": "ip_src"}, {"lb_fields": {}}, {"lb_fields": [5]}, {"lb_fields": ["ip_src", "x"]},
    {"colour": 1}, {"lb_fields": [], "colour": 1}, {"ppg_n_tuple_mapping": None}, {"ppg_n_tuple_mapping": {}}, {"ppg_n_tuple_mapping": []},
    {"ppg_n_tuple_mapping": "x"}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": {}}}, {"ppg_n_tuple_mapping": {"egress_n_tuple": {}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {}, "egress_n_tuple": {}}}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": TUPLE, "egress_n_tuple": TUPLE}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_ip_prefix": "10.0.0.0/24"}}}, {"ppg_n_tuple_mapping": {"egress_n_tuple": {"source_ip_prefix": "10.0.0.1"}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_ip_prefix": "x"}}}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_port_range_min": "80"}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_port_range_min": "x"}}}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_port_range_min": 70000}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_port_range_min": 5, "source_port_range_max": 1}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"protocol": "tcp"}}}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"colour": 1}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": []}}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": "x"}}, {"ppg_n_tuple_mapping": {"ingress_n_tuple": None}},
    {"ppg_n_tuple_mapping": {"sideways_n_tuple": {}}}, {"lb_fields": ["ip_dst"], "ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_ip_prefix": "10.0.0.0/8"}}},
    {"ppg_n_tuple_mapping": {"ingress_n_tuple": {"source_ip_prefix": "2001:db8::/32"}, "egress_n_tuple": {"source_ip_prefix": "10.0.0.0/8"}}},
]


def parameters():
    return Scenario(f"{R}/parameters", [group(f"{number} {str(given)[:90]}", port_pair_group_parameters=given) for number, given in enumerate(GIVEN)])


def life():
    steps = pairs() + [
        group("everything", "g", name="g", description="d", port_pairs=["$a", "$b"], port_pair_group_parameters={"lb_fields": ["ip_src", "ip_dst"]}, tap_enabled=False),
        show(R, "show", "g"), update(R, "rename", "g", {"name": "h"}), update(R, "describe", "g", {"description": "e"}), update(R, "null name", "g", {"name": None}),
        make("port_chain", "k", port_pair_groups=["$g"]), delete(R, "delete in use", "g"), update(R, "pairs while in use", "g", {"port_pairs": ["$a"]}),
        update(R, "no pairs while in use", "g", {"port_pairs": []}), delete("port_pair", "delete a freed pair", "a"),
        delete("port_chain", "delete the chain", "k"), delete(R, "delete", "g"), show(R, "show deleted", "g"), delete("port_pair", "delete a pair", "b"),
    ]
    return Scenario(f"{R}/life", steps)


def numbers():
    steps = [group("one", "one"), group("two", "two"), group("three", "three"), delete(R, "delete the second", "two"), group("takes the free number", "four"),
             delete(R, "delete the first", "one"), delete(R, "delete the last", "three"), group("takes the lowest", "five"),
             create(R, "given", {"group_id": 7}, transient=True)]
    return Scenario(f"{R}/numbers", steps)
