"""Service graphs: section 3.5 and their cases in section 8.4."""
from .steps import Scenario, create, delete, make, show, update

R = "service_graph"
CHAINS = ("k1", "k2", "k3", "k4", "k5")
PORTS = (("$p1", "$p2"), ("$p2", "$p1"), ("$p3", "$p4"), ("$p4", "$p3"), ("$p1", "$p1"))


def scenarios():
    yield shapes()
    yield uses()
    yield correlations()
    yield classifiers()
    yield life()


def graph(name, port_chains, as_=None, /, **more):
    return create(R, name, {"port_chains": port_chains, **more}, as_, transient=as_ is None)


def chains(encapsulation="mpls", names=CHAINS, classify=True):
    """Chains that may branch: their functions speak the encapsulation, and no two of their classifiers overlap."""
    steps = []
    for number, name in enumerate(names):
        ingress, egress = PORTS[number]
        steps += [
            make("port_pair", f"{name}_pair", ingress=ingress, egress=egress, service_function_parameters={"correlation": encapsulation, "weight": 1}),
            make("port_pair_group", f"{name}_group", port_pairs=[f"${name}_pair"]),
        ]
        given = {"port_pair_groups": [f"${name}_group"], "chain_parameters": {"correlation": encapsulation, "symmetric": False}}
        if classify:
            port = 80 + number
            steps.append(make("flow_classifier", f"{name}_class", protocol="tcp", destination_port_range_min=port, destination_port_range_max=port))
            given["flow_classifiers"] = [f"${name}_class"]
        steps.append(make("port_chain", name, **given))
    return steps


def shapes():
    steps = chains() + [
        graph("linear", {"$k1": ["$k2"]}), graph("branching", {"$k1": ["$k2", "$k3"]}), graph("linear of three", {"$k1": ["$k2"], "$k2": ["$k3"]}),
        graph("joining", {"$k1": ["$k2", "$k3"], "$k2": ["$k4"], "$k3": ["$k4"]}), graph("several starts", {"$k1": ["$k3"], "$k2": ["$k3"]}),
        graph("two parts", {"$k1": ["$k2"], "$k3": ["$k4"]}), graph("empty", {}), graph("null", None), graph("empty destinations", {"$k1": []}),
        graph("loop to itself", {"$k1": ["$k1"]}), graph("direct loop", {"$k1": ["$k2"], "$k2": ["$k1"]}), graph("indirect loop", {"$k1": ["$k2"], "$k2": ["$k3"], "$k3": ["$k1"]}),
        graph("loop aside", {"$k1": ["$k2"], "$k3": ["$k4"], "$k4": ["$k3"]}), graph("same destination twice", {"$k1": ["$k2", "$k2"]}),
        graph("absent source", {"$absent": ["$k1"]}), graph("absent destination", {"$k1": ["$absent"]}), graph("both absent", {"$absent": ["$absent"]}),
        graph("source no uuid", {"abc": ["$k1"]}), graph("destination no uuid", {"$k1": ["abc"]}), graph("destinations a text", {"$k1": "$k2"}),
        graph("destinations null", {"$k1": None}), graph("destinations an object", {"$k1": {"$k2": []}}), graph("destinations a number", {"$k1": 5}), graph("nested", {"$k1": [["$k2"]]}),
        graph("list", ["$k1"]), graph("text", "$k1"), graph("number", 5), graph("empty source", {"": ["$k1"]}), create(R, "no port_chains", {"name": "x"}, transient=True),
        graph("absent and loop", {"$absent": ["$k1"], "$k2": ["$k2"]}),
    ]
    return Scenario(f"{R}/shapes", steps)


def uses():
    steps = chains() + [
        graph("g", {"$k1": ["$k2"]}, "g"), graph("source is used", {"$k1": ["$k3"]}), graph("destination is used", {"$k3": ["$k2"]}), graph("used and absent", {"$k1": ["$absent"]}),
        graph("others are free", {"$k3": ["$k4"]}), graph("used and loop", {"$k1": ["$k1"]}),
        delete("port_chain", "delete a source", "k1"), delete("port_chain", "delete a destination", "k2"), update("port_chain", "rename a source", "k1", {"name": "x", "description": "y"}),
        update("port_chain", "classifiers of a source", "k1", {"flow_classifiers": []}), update("port_chain", "same classifiers of a source", "k1", {"flow_classifiers": ["$k1_class"]}),
        update("port_chain", "groups of a source", "k1", {"port_pair_groups": ["$k5_group"]}), update("port_chain", "same groups of a source", "k1", {"port_pair_groups": ["$k1_group"]}),
        update("port_chain", "groups of a destination", "k2", {"port_pair_groups": ["$k5_group"]}), update("port_chain", "nothing of a source", "k1", {}),
        update("port_pair_group", "pairs of a group of the source", "k1_group", {"port_pairs": []}), delete("port_pair_group", "delete a group", "k2_group"),
        delete(R, "delete the graph", "g"), delete("port_chain", "delete a chain after it", "k1"),
    ]
    return Scenario(f"{R}/uses", steps)


def correlations():
    nsh = chains("nsh", ("n1",), classify=False)
    steps = nsh + [
        make("port_pair", "plain", ingress="$p3", egress="$p4"), make("port_pair_group", "plain_group", port_pairs=["$plain"]), make("port_chain", "plain_chain", port_pair_groups=["$plain_group"]),
        make("port_pair", "m", ingress="$p4", egress="$p3", service_function_parameters={"correlation": "mpls", "weight": 1}), make("port_pair_group", "m_group", port_pairs=["$m"]),
        make("port_chain", "m_chain", port_pair_groups=["$m_group"]), make("port_pair_group", "empty_group"), make("port_chain", "empty_chain", port_pair_groups=["$empty_group"]),
        make("port_chain", "m_first", port_pair_groups=["$m_group", "$plain_group"]), make("port_chain", "m_last", port_pair_groups=["$plain_group", "$m_group"]),
        graph("plain source", {"$plain_chain": ["$m_chain"]}), graph("plain destination", {"$m_chain": ["$plain_chain"]}), graph("both plain", {"$plain_chain": ["$m_first"]}),
        graph("empty source", {"$empty_chain": ["$m_chain"]}), graph("empty destination", {"$m_chain": ["$empty_chain"]}), graph("last of the source speaks", {"$m_last": ["$m_chain"]}),
        graph("last of the source does not speak", {"$m_first": ["$m_chain"]}), graph("first of the destination speaks", {"$m_chain": ["$m_first"]}),
        graph("first of the destination does not speak", {"$m_chain": ["$m_last"]}), graph("different encapsulations", {"$m_chain": ["$n1"]}), graph("nsh to empty", {"$n1": ["$empty_chain"]}),
    ]
    return Scenario(f"{R}/correlations", steps)


def classifiers():
    names = ("k1", "k2", "k3", "k4")
    steps = chains(names=names, classify=False) + [
        graph("without classifiers", {"$k1": ["$k2"]}), graph("branching without classifiers", {"$k1": ["$k2", "$k3"]}),
        make("flow_classifier", "a", protocol="tcp", logical_source_port="$p5"), make("flow_classifier", "b", protocol="tcp", logical_source_port="$p6"),
        make("flow_classifier", "f", protocol="icmp", logical_source_port="$p1"),
        make("flow_classifier", "c", protocol="udp"), update("port_chain", "k2 takes a", "k2", {"flow_classifiers": ["$a"]}), update("port_chain", "k3 takes b", "k3", {"flow_classifiers": ["$b"]}),
        graph("same tuple by other ports", {"$k1": ["$k2", "$k3"]}), update("port_chain", "k4 takes c", "k4", {"flow_classifiers": ["$c"]}), graph("disjoint", {"$k1": ["$k2", "$k4"]}),
        graph("one without", {"$k2": ["$k1", "$k4"]}), update("port_chain", "k1 starts at a function", "k1", {"flow_classifiers": ["$f"]}),
    ]
    return Scenario(f"{R}/classifiers", steps)


def life():
    steps = chains(names=("k1", "k2", "k3")) + [
        graph("everything", {"$k1": ["$k2", "$k3"]}, "g", name="n", description="d"), show(R, "show", "g"), update(R, "rename", "g", {"name": "m"}), update(R, "describe", "g", {"description": "e"}),
        update(R, "null name", "g", {"name": None}), update(R, "port_chains", "g", {"port_chains": {}}), update(R, "name and port_chains", "g", {"name": "x", "port_chains": {"$k1": ["$k2"]}}),
        show(R, "show again", "g"), delete(R, "delete", "g"), show(R, "show deleted", "g"), delete(R, "delete again", "g"),
    ]
    return Scenario(f"{R}/life", steps)
