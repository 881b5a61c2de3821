"""The table of requests: one file for each resource, and what all of them have in common."""
from . import (bodies, flow_classifiers, lists, networks, port_chains, port_pair_groups, port_pairs, quotas, service_graphs,
               wrong_values)
from .steps import Scenario, make


def fixture():
    """What every other scenario finds: a network with ports of three machines, and one that belongs to none."""
    steps = [
        make("network", "net", name="net"),
        make("subnet", "sub", name="sub", network_id="$net", cidr="10.0.0.0/24", ip_version=4),
    ]
    # Addresses of their own choice would meet, now and then, those that a scenario asks for.
    for number, (name, device) in enumerate((("p1", "vm-1"), ("p2", "vm-1"), ("p3", "vm-2"), ("p4", "vm-2"), ("p5", ""), ("p6", "vm-3")), 11):
        steps.append(make("port", name, name=name, network_id="$net", device_id=device, fixed_ips=[{"ip_address": f"10.0.0.{number}"}]))
    return Scenario("fixture", steps)


def scenarios():
    yield fixture()
    for module in (bodies, wrong_values, flow_classifiers, port_pairs, port_pair_groups, port_chains, service_graphs, lists,
                   quotas, networks):
        yield from module.scenarios()
