"""Flow classifiers: section 3.2 and the cases of section 8.3."""
from itertools import product

from .steps import PATHS, Scenario, Step, create, delete, listing, make, show, update

R = "flow_classifier"


def scenarios():
    yield values()
    yield whole()
    yield from conflicts()
    yield life()


def variant(name, /, **attributes):
    return create(R, name, attributes, transient=True)


def values():
    steps = [variant(f"ethertype {text}", ethertype=text) for text in ("IPv4", "IPv6", "ipv4", "IPV6", "ipv5", "IPv4 ", "0x0800", "ARP")]
    steps += [variant(f"protocol {text}", protocol=text) for text in ("tcp", "udp", "icmp", "TCP", "Udp", "ICMP", "sctp", "icmpv6", "any", "6", "17", "0", " tcp")]
    steps += [variant(f"protocol number {number}", protocol=number) for number in (0, 1, 6, 17, 256)]
    for field, protocol in product(("source", "destination"), ("tcp", "udp")):
        low, high = f"{field}_port_range_min", f"{field}_port_range_max"
        for name, given in (("both", {low: 100, high: 200}), ("equal", {low: 100, high: 100}), ("min only", {low: 100}), ("max only", {high: 200}),
                            ("zero", {low: 0, high: 0}), ("all", {low: 0, high: 65535}), ("texts", {low: "100", high: "200"}),
                            ("reversed", {low: 200, high: 100}), ("texts reversed", {low: "9", high: "10"}), ("too high", {low: 1, high: 65536}),
                            ("negative", {low: -1}), ("max zero", {low: 1, high: 0}), ("text", {low: "http"}), ("fraction", {low: 1.5}),
                            ("fraction in a text", {low: "1.5"}), ("blanks in a text", {low: " 80 "}), ("sign in a text", {low: "+80"})):
            steps.append(variant(f"{protocol} {field} ports {name}", protocol=protocol, **given))
    for protocol in (None, "icmp"):
        for key in ("source_port_range_min", "source_port_range_max", "destination_port_range_min", "destination_port_range_max"):
            for value in (0, 80):
                steps.append(variant(f"{protocol} with {key}={value}", protocol=protocol, **{key: value}))
    prefixes = ["10.0.0.0/24", "10.0.0.1/24", "10.0.0.1/32", "0.0.0.0/0", "10.0.0.1", "10.0.0.0/33", "10.0.0/24", "10.0.0.256/24", "10.0.0.0/", "/24",
                "010.0.0.0/24", "10.0.0.0/255.255.255.0", " 10.0.0.0/24", "2001:db8::/32", "2001:db8::1/128", "::/0", "::1", "2001:DB8::/32",
                "2001:db8::/129", "::ffff:10.0.0.0/120", "abc", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08", "fe80::1%eth0/64"]
    for key, ethertype, prefix in product(("source_ip_prefix", "destination_ip_prefix"), ("IPv4", "IPv6"), prefixes):
        if key == "source_ip_prefix" or prefix in ("10.0.0.0/24", "10.0.0.1/24", "2001:db8::/32", "abc"):
            steps.append(variant(f"{ethertype} {key}={prefix}", ethertype=ethertype, **{key: prefix}))
    for key in ("logical_source_port", "logical_destination_port"):
        steps += [variant(f"{key} {name}", **{key: value}) for name, value in (
            ("p1", "$p1"), ("absent", "$absent"), ("no uuid", "abc"), ("a network", "$net"), ("empty", ""), ("null", None), ("list", ["$p1"]))]
    steps.append(variant("both logical ports", logical_source_port="$p1", logical_destination_port="$p2"))
    steps.append(variant("the same logical port twice", logical_source_port="$p1", logical_destination_port="$p1"))
    steps += [variant(f"l7 {name}", l7_parameters=value) for name, value in (
        ("empty", {}), ("null", None), ("key", {"url": "x"}), ("two keys", {"a": 1, "b": 2}), ("list", []), ("pairs", [["a", 1]]))]
    return Scenario(f"{R}/values", steps)


def whole():
    everything = {"name": "n", "description": "d", "ethertype": "IPv4", "protocol": "tcp", "source_port_range_min": 100,
                  "source_port_range_max": 200, "destination_port_range_min": 80, "destination_port_range_max": 81,
                  "source_ip_prefix": "10.0.0.0/24", "destination_ip_prefix": "10.1.0.0/16", "logical_source_port": "$p1",
                  "logical_destination_port": "$p2", "l7_parameters": {}}
    first = [  # Two faults at once: which one is told?
        create(R, "bad protocol and bad ethertype", {"protocol": "x", "ethertype": "x"}, transient=True),
        create(R, "unknown attribute and bad value", {"protocol": "x", "colour": 1}, transient=True),
        create(R, "ports without protocol and reversed", {"source_port_range_min": 2, "source_port_range_max": 1}, transient=True),
        create(R, "ports without protocol and wrong family", {"source_port_range_min": 2, "source_ip_prefix": "::/0"}, transient=True),
        create(R, "wrong family and absent port", {"source_ip_prefix": "::/0", "logical_source_port": "$absent"}, transient=True),
        create(R, "reversed and absent port", {"protocol": "tcp", "source_port_range_min": 2, "source_port_range_max": 1, "logical_source_port": "$absent"}, transient=True),
        create(R, "conflict and absent port", {"logical_source_port": "$absent"}, transient=True),
    ]
    return Scenario(f"{R}/whole", [create(R, "everything", everything, "made"), show(R, "show", "made"), listing(R, "list"), *first,
                                   create(R, "the same again", everything)])


FIELDS = {
    "ethertype": [({"ethertype": "IPv4"}, {"ethertype": "IPv4"}), ({"ethertype": "IPv4"}, {"ethertype": "IPv6"})],
    "protocol": [({"protocol": "tcp"}, {"protocol": "tcp"}), ({"protocol": "tcp"}, {"protocol": "udp"}), ({"protocol": "tcp"}, {}), ({}, {"protocol": "icmp"})],
    "prefix": [({"P": "10.0.0.0/24"}, {"P": "10.0.0.0/24"}), ({"P": "10.0.0.0/24"}, {"P": "10.0.1.0/24"}), ({"P": "10.0.0.0/16"}, {"P": "10.0.9.0/24"}),
               ({"P": "10.0.9.0/24"}, {"P": "10.0.0.0/16"}), ({"P": "10.0.0.0/24"}, {}), ({}, {"P": "10.0.0.0/24"}), ({"P": "10.0.0.1/24"}, {"P": "10.0.0.200/24"}),
               ({"P": "0.0.0.0/0"}, {"P": "10.0.0.0/24"}), ({"P": "10.0.0.0/25"}, {"P": "10.0.0.128/25"})],
    "range": [({"A": 100, "B": 200}, {"A": 100, "B": 200}), ({"A": 100, "B": 200}, {"A": 201, "B": 300}), ({"A": 100, "B": 200}, {"A": 200, "B": 300}),
              ({"A": 100, "B": 200}, {"A": 50, "B": 99}), ({"A": 100, "B": 200}, {"A": 50, "B": 100}), ({"A": 100, "B": 200}, {"A": 120, "B": 130}),
              ({"A": 100, "B": 200}, {}), ({"A": 100}, {"B": 100}), ({"A": 100}, {"B": 99}), ({"A": 0, "B": 0}, {"A": 1, "B": 1}), ({"A": 0, "B": 0}, {"A": 0, "B": 5}),
              ({"B": 100}, {"B": 50})],
    "logical": [({"L": "$p1"}, {"L": "$p1"}), ({"L": "$p1"}, {"L": "$p2"}), ({"L": "$p1"}, {}), ({}, {"L": "$p1"})],
}


def spelled(given, words):
    return {words.get(key, key): value for key, value in given.items()}


def conflicts():
    for field in ("ethertype", "protocol"):
        yield conflict(field, FIELDS[field], {}, {})
    for side in ("source", "destination"):
        yield conflict(f"{side} prefix", FIELDS["prefix"], {"P": f"{side}_ip_prefix"}, {})
        yield conflict(f"{side} range", FIELDS["range"], {"A": f"{side}_port_range_min", "B": f"{side}_port_range_max"}, {"protocol": "tcp"})
        yield conflict(f"logical {side} port", FIELDS["logical"], {"L": f"logical_{side}_port"}, {})
    v6 = {"ethertype": "IPv6"}
    pairs = [({"P": "2001:db8::/32"}, {"P": "2001:db8:1::/48"}), ({"P": "2001:db8::/48"}, {"P": "2001:db8:1::/48"}), ({"P": "2001:db8::/48"}, {})]
    yield conflict("IPv6 prefix", pairs, {"P": "source_ip_prefix"}, v6)
    both = ({"protocol": "tcp", "source_ip_prefix": "10.0.0.0/24", "destination_port_range_min": 80, "destination_port_range_max": 80},
            {"protocol": "tcp", "source_ip_prefix": "10.0.0.0/24", "destination_port_range_min": 81, "destination_port_range_max": 81})
    yield conflict("not all fields", [both, (both[0], both[0]), (both[0], {"protocol": "tcp"})], {}, {})


def conflict(name, pairs, words, base):
    """The first stays while the second is tried, then both go."""
    steps = []
    for number, (first, second) in enumerate(pairs):
        steps += [create(R, f"{number} first", {**base, **spelled(first, words)}, "first"),
                  create(R, f"{number} second", {**base, **spelled(second, words)}, transient=True),
                  delete(R, f"{number} delete", "first")]
    return Scenario(f"{R}/conflict {name}", steps)


def life():
    steps = [make(R, "c", name="c", protocol="tcp"), make("port_pair_group", "g"), make("port_chain", "k", port_pair_groups=["$g"], flow_classifiers=["$c"]),
             delete(R, "delete in use", "c"), update(R, "rename in use", "c", {"name": "renamed"}), update(R, "null name", "c", {"name": None, "description": None}),
             update(R, "update protocol", "c", {"protocol": "udp"}), update(R, "name and protocol", "c", {"name": "x", "protocol": "udp"}),
             show(R, "show", "c"), delete("port_chain", "delete the chain", "k"), delete(R, "delete", "c"), show(R, "show deleted", "c"),
             Step("tags", "GET", f"{PATHS[R]}/$c/tags")]
    return Scenario(f"{R}/life", steps)
