"""Every attribute of every sfc resource with values of every JSON type, on create and on update."""
import json

from .bodies import LEAST, needs
from .steps import Scenario, create, update

VALUES = [None, True, 5, -1, 70000, 1.5, "", "x", "5", [], ["x"], {}, {"x": 1}, "$absent", ["$absent"], ["$absent", "$absent"], "n" * 255, "n" * 256]
# On update the checks of the values are the same ones.
UPDATE_VALUES = [None, 5, "x", [], {}, "n" * 256]
ATTRIBUTES = {
    "flow_classifier": ["name", "description", "ethertype", "protocol", "source_port_range_min", "source_port_range_max",
                        "destination_port_range_min", "destination_port_range_max", "source_ip_prefix", "destination_ip_prefix",
                        "logical_source_port", "logical_destination_port", "l7_parameters", "project_id"],
    "port_pair": ["name", "description", "ingress", "egress", "service_function_parameters", "project_id"],
    "port_pair_group": ["name", "description", "port_pairs", "port_pair_group_parameters", "tap_enabled", "group_id", "project_id"],
    "port_chain": ["name", "description", "port_pair_groups", "flow_classifiers", "chain_parameters", "chain_id", "project_id"],
    "service_graph": ["name", "description", "port_chains", "project_id"],
}


def shown(value):
    text = json.dumps(value)
    return text if len(text) < 40 else f"{len(value)} characters"


def scenarios():
    for resource, attributes in ATTRIBUTES.items():
        least = LEAST[resource]
        steps = [create(resource, f"{attribute}={shown(value)}", {**least, attribute: value}, transient=True)
                 for attribute in attributes for value in VALUES]
        yield Scenario(f"{resource}/create", needs(resource) + steps)
        steps = [update(resource, f"{attribute}={shown(value)}", "made", {attribute: value})
                 for attribute in attributes for value in UPDATE_VALUES]
        yield Scenario(f"{resource}/update", [*needs(resource), create(resource, "make", least, "made"), *steps])
    for resource in ATTRIBUTES:
        steps = [create(resource, f"without {attribute}", {key: value for key, value in LEAST[resource].items() if key != attribute}, transient=True)
                 for attribute in LEAST[resource]]
        if steps:
            yield Scenario(f"{resource}/missing", needs(resource) + steps)
