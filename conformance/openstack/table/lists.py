"""Lists: filters, fields, sorting and pages (section 5)."""
from .steps import Scenario, create, listing, make, update

FC, PP, PPG, PC, SG = "flow_classifier", "port_pair", "port_pair_group", "port_chain", "service_graph"


def scenarios():
    yield filters()
    yield relations()
    for resource in (FC, PPG):
        yield pages(resource)
        yield sorting(resource)
    yield fields()
    yield networks()


def few():
    return [
        make(FC, "a", name="x", protocol="tcp", source_port_range_min=80, source_port_range_max=90, source_ip_prefix="10.0.0.0/24", description="first"),
        make(FC, "b", name="y", protocol="udp", logical_source_port="$p1"), make(FC, "c", name="", protocol="icmp"), make(FC, "d", name="x", ethertype="IPv6"),
        make(PP, "e", name="x", ingress="$p1", egress="$p2", service_function_parameters={"correlation": "mpls", "weight": 2}), make(PP, "f", name="y", ingress="$p3", egress="$p4"),
        make(PPG, "g", name="x", port_pairs=["$e"]), make(PPG, "h", name="y", tap_enabled=True, port_pairs=["$f"]), make(PPG, "i", name="z"),
        make(PC, "k", name="x", port_pair_groups=["$g"], flow_classifiers=["$a"]), make(PC, "l", name="y", port_pair_groups=["$g", "$i"], chain_parameters={"correlation": "mpls", "symmetric": True}),
        make(SG, "m", name="x", port_chains={}), create(SG, "make n", {"name": "y", "description": "d", "port_chains": {}}, "n"),
    ]


def ask(resource, *queries):
    return [listing(resource, f"{resource} {query or 'all'}", query) for query in queries]


def filters():
    steps = few()
    for resource in (FC, PP, PPG, PC, SG):
        steps += ask(resource, "", "name=x", "name=", "name=nothing", "name=x&name=y", "name=X", "id=$absent", "id=abc", "project_id=fake_project_id", "tenant_id=fake_project_id",
                     "project_id=other", "description=", "colour=red", "name=x&colour=red", "name=x&description=nothing", "nAme=x", "name=%20x", "status=ACTIVE")
    steps += ask(FC, "protocol=tcp", "protocol=TCP", "protocol=sctp", "protocol=", "protocol=tcp&protocol=udp", "ethertype=IPv6", "ethertype=ipv6", "ethertype=x", "source_port_range_min=80",
                 "source_port_range_min=x", "source_port_range_min=70000", "source_port_range_min=", "source_ip_prefix=10.0.0.0/24", "source_ip_prefix=x", "logical_source_port=$p1",
                 "logical_source_port=x", "l7_parameters=", "l7_parameters=x", "id=$a", "id=$a&id=$b", "id=$a&name=y", "description=first", "name=x&protocol=tcp", "destination_port_range_max=1")
    steps += ask(PP, "ingress=$p1", "egress=$p4", "ingress=abc", "ingress=$p1&ingress=$p3", "id=$e")
    steps += ask(PPG, "tap_enabled=true", "tap_enabled=True", "tap_enabled=1", "tap_enabled=false", "tap_enabled=x", "group_id=1", "group_id=x", "group_id=1&group_id=2", "id=$g")
    steps += ask(PC, "chain_id=1", "chain_id=x", "chain_id=0", "chain_id=65536", "chain_id=1&chain_id=2", "id=$k")
    steps += ask(SG, "id=$m", "id=$m&id=$n", "description=d")
    return Scenario("list/filter", steps)


def relations():
    steps = few()
    steps += ask(PP, "service_function_parameters=x", "service_function_parameters=", "service_function_parameters=correlation")
    steps += ask(PPG, "port_pairs=$e", "port_pairs=$absent", "port_pairs=x", "port_pair_group_parameters=x", "port_pair_group_parameters=")
    steps += ask(PC, "port_pair_groups=$g", "port_pair_groups=$absent", "flow_classifiers=$a", "flow_classifiers=$absent", "flow_classifiers=x", "chain_parameters=x", "chain_parameters=")
    steps += ask(SG, "port_chains=$k", "port_chains=", "port_chains=x")
    return Scenario("list/relation", steps)


def pages(resource):
    given = {FC: lambda n: {"name": f"n{n}", "protocol": "tcp", "source_port_range_min": n, "source_port_range_max": n}, PPG: lambda n: {"name": f"n{n}"}}[resource]
    steps = [make(resource, f"o{number}", **given(number)) for number in range(5)]
    queries = ("limit=2", "limit=5", "limit=4", "limit=6", "limit=1", "limit=0", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=2&limit=3", "limit=100000", "limit=2&page_reverse=True",
               "limit=2&page_reverse=true", "limit=2&page_reverse=x", "page_reverse=True", "marker=$absent", "limit=2&marker=$absent", "marker=x", "limit=2&name=n1", "limit=1&name=nothing",
               "limit=2&fields=name", "limit=2&fields=id", "limit=-1&name=x")
    steps += [listing(resource, query, query, compare="count") for query in queries]
    return Scenario(f"list/page {resource}", steps)


def sorting(resource):
    steps = [make(resource, "a", name="b"), update(resource, "describe", "a", {"description": "d"})]
    queries = ("sort_key=name&sort_dir=asc", "sort_key=name&sort_dir=desc", "sort_key=id&sort_dir=asc", "sort_key=name", "sort_dir=asc", "sort_key=colour&sort_dir=asc", "sort_key=name&sort_dir=up",
               "sort_key=name&sort_key=id&sort_dir=asc&sort_dir=desc", "sort_key=name&sort_key=id&sort_dir=asc", "sort_key=&sort_dir=", "sort_key=name&sort_dir=asc&limit=1")
    steps += [listing(resource, query, query) for query in queries]
    return Scenario(f"list/sort {resource}", steps)


def fields():
    steps = few()
    for resource in (FC, PP, PPG, PC, SG):
        steps += ask(resource, "name=x&fields=id", "name=x&fields=name&fields=id", "name=x&fields=colour", "name=x&fields=tenant_id", "name=x&fields=project_id", "name=x&fields=", "name=x&fields=id,name")
    steps += ask(PC, "name=x&fields=chain_parameters", "name=x&fields=chain_id&fields=flow_classifiers") + ask(PPG, "name=x&fields=group_id") + ask(SG, "name=x&fields=port_chains")
    return Scenario("list/field", steps)


def networks():
    steps = []
    for resource, name in (("network", "net"), ("subnet", "sub"), ("port", "p1")):
        steps += ask(resource, "", f"name={name}", "name=nothing", f"id=${name}", "id=$absent", f"name={name}&fields=id&fields=name", "project_id=other", "limit=0")
        steps += [listing(resource, f"{resource} {query}", query, compare="count") for query in ("limit=1", "limit=x", "sort_key=name&sort_dir=asc", "sort_key=name&sort_dir=desc&limit=1", "sort_key=colour&sort_dir=asc")]
    steps += ask("port", "device_id=vm-1", "device_id=nothing", "network_id=$net", "device_owner=", "fixed_ips=subnet_id%3D$sub", "fixed_ips=ip_address%3D10.9.9.9", "status=DOWN", "admin_state_up=true")
    steps += ask("subnet", "network_id=$net", "cidr=10.0.0.0/24", "ip_version=4", "ip_version=6") + ask("network", "admin_state_up=true", "shared=false", "router:external=false")
    return Scenario("list/network", steps)
