"""All verbs of openstacksdk for the five resources against our controller: sdk_verbs.py URL. Nothing of the SDK is changed."""
import sys

import openstack
from openstack import exceptions

from verdicts import Verdicts

VERDICTS = Verdicts()
NETWORK = openstack.connect(auth_type="none", endpoint=sys.argv[1]).network
MADE = []


def make(kind, **attributes):
    """Creates one and compares what comes back with what was given."""
    made = getattr(NETWORK, f"create_{kind}")(**attributes)
    MADE.append((kind, made.id))
    for attribute, value in attributes.items():
        VERDICTS.equal(f"create_{kind}: {attribute}", getattr(made, attribute), value)
    VERDICTS.equal(f"create_{kind}: project_id", made.project_id, "fake_project_id")
    return made


def all_verbs(kind, made, **found_by):
    """find, get, list, filter and update of one that was made."""
    find, get, update = (getattr(NETWORK, f"{verb}_{kind}") for verb in ("find", "get", "update"))
    listed = getattr(NETWORK, f"{kind}s")
    VERDICTS.equal(f"find_{kind} by name", find(made.name).id, made.id)
    VERDICTS.equal(f"find_{kind} by id", find(made.id).id, made.id)
    VERDICTS.equal(f"find_{kind} of none", find("nosuch"), None)
    VERDICTS.equal(f"get_{kind}", get(made.id).to_dict(), find(made.id).to_dict())
    VERDICTS.holds(f"{kind}s lists it", made.id in [one.id for one in listed()])
    VERDICTS.equal(f"{kind}s by name", [one.id for one in listed(name=made.name)], [made.id])
    VERDICTS.equal(f"{kind}s by another name", list(listed(name="nosuch")), [])
    for attribute, value in found_by.items():
        VERDICTS.equal(f"{kind}s by {attribute}", [one.id for one in listed(**{attribute: value})], [made.id])
    changed = update(made.id, name="renamed", description="text")
    VERDICTS.equal(f"update_{kind}", (changed.name, changed.description), ("renamed", "text"))
    VERDICTS.equal(f"get_{kind} after update", get(made.id).name, "renamed")
    update(made.id, name=made.name)
    raises(f"get_{kind} of none", exceptions.NotFoundException, get, "0a0a0a0a-0b0b-4c0c-8d0d-0e0e0e0e0e0e")


def raises(what, kind, call, *given, **attributes):
    try:
        call(*given, **attributes)
        VERDICTS.equal(what, "no error", kind.__name__)
    except exceptions.SDKException as error:
        VERDICTS.equal(what, type(error).__name__, kind.__name__)


def paged(kind):
    """The SDK asks for page after page until it has all."""
    listed = getattr(NETWORK, f"{kind}s")
    whole = sorted(one.id for one in listed())
    VERDICTS.holds(f"several {kind}s to page through", len(whole) > 1)
    VERDICTS.equal(f"{kind}s page by page", sorted(one.id for one in listed(limit=1)), whole)


def main():
    for alias in ("sfc", "flow_classifier", "service_graph", "networking-sfc-tap"):
        found = NETWORK.find_extension(alias)
        VERDICTS.equal(f"find_extension {alias}", found and found.alias, alias)
    net = make("network", name="net")
    sub = make("subnet", name="sub", network_id=net.id, ip_version=4, cidr="10.0.0.0/24")
    p1, p2, p3, p4, end = (make("port", name=f"p{number}", network_id=net.id, device_id=f"vm-{(number + 1) // 2}") for number in range(1, 6))
    all_verbs("network", net)
    all_verbs("subnet", sub, network_id=net.id)
    all_verbs("port", p1, mac_address=p1.mac_address)

    one = make("sfc_flow_classifier", name="fc", protocol="tcp", destination_port_range_min=80, destination_port_range_max=81, source_ip_prefix="10.0.0.0/24",
               logical_source_port=end.id, ethertype="IPv4", description="d")
    make("sfc_flow_classifier", name="fc6", ethertype="IPv6")
    all_verbs("sfc_flow_classifier", one, protocol="TCP", logical_source_port=end.id)
    raises("an overlapping classifier", exceptions.BadRequestException, NETWORK.create_sfc_flow_classifier, protocol="tcp")

    pair = make("sfc_port_pair", name="pp", ingress=p1.id, egress=p2.id, service_function_parameters={"correlation": "mpls", "weight": 2})
    other = make("sfc_port_pair", name="pp2", ingress=p3.id, egress=p4.id, service_function_parameters={"correlation": "mpls", "weight": 1})
    all_verbs("sfc_port_pair", pair, ingress=p1.id)

    group = make("sfc_port_pair_group", name="ppg", port_pairs=[pair.id], is_tap_enabled=False)
    second = make("sfc_port_pair_group", name="ppg2", port_pairs=[other.id])
    all_verbs("sfc_port_pair_group", group)
    VERDICTS.equal("update_sfc_port_pair_group: port_pairs", NETWORK.update_sfc_port_pair_group(second.id, port_pairs=[]).port_pairs, [])
    VERDICTS.equal("update_sfc_port_pair_group: port_pairs again", NETWORK.update_sfc_port_pair_group(second.id, port_pairs=[other.id]).port_pairs, [other.id])
    raises("a pair in use", exceptions.ConflictException, NETWORK.delete_sfc_port_pair, pair.id)

    chain = make("sfc_port_chain", name="pc", port_pair_groups=[group.id], flow_classifiers=[one.id], chain_parameters={"correlation": "mpls", "symmetric": False})
    branch = make("sfc_port_chain", name="pc2", port_pair_groups=[second.id])
    all_verbs("sfc_port_chain", chain)
    reordered = [second.id, group.id]
    VERDICTS.equal("update_sfc_port_chain: port_pair_groups", NETWORK.update_sfc_port_chain(chain.id, port_pair_groups=reordered).port_pair_groups, reordered)
    VERDICTS.equal("get_sfc_port_chain: port_pair_groups", NETWORK.get_sfc_port_chain(chain.id).port_pair_groups, reordered)
    raises("a classifier in use", exceptions.ConflictException, NETWORK.delete_sfc_flow_classifier, one.id)

    graph = make("sfc_service_graph", name="sg", port_chains={chain.id: [branch.id]})
    make("sfc_service_graph", name="sg2", port_chains={})
    all_verbs("sfc_service_graph", graph)
    raises("a chain in use", exceptions.ConflictException, NETWORK.delete_sfc_port_chain, chain.id)

    for kind in ("port", "sfc_flow_classifier", "sfc_port_pair", "sfc_port_pair_group", "sfc_port_chain", "sfc_service_graph"):
        paged(kind)
    for kind, id in reversed(MADE):
        getattr(NETWORK, f"delete_{kind}")(id, ignore_missing=False)
        VERDICTS.equal(f"delete_{kind}", getattr(NETWORK, f"find_{kind}")(id), None)
        raises(f"delete_{kind} again", exceptions.NotFoundException, getattr(NETWORK, f"delete_{kind}"), id, ignore_missing=False)


try:
    main()
except Exception as error:  # the rest builds on it and cannot be judged
    VERDICTS.holds("the script runs to its end", False, f"{type(error).__name__}: {error}")
VERDICTS.tell()
