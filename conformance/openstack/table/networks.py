"""Networks, subnets and ports: as much of them as the clients of service chains use."""
from .steps import PATHS, Scenario, Step, create, delete, make, show, update

ABSENT_ITEMS = ("$absent", "abc")


def scenarios():
    yield networks()
    yield subnets()
    yield ports()
    yield in_use()
    for resource in ("network", "subnet", "port"):
        yield unknown(resource)


def unknown(resource):
    path = PATHS[resource]
    steps = [Step(f"{method} {item}", method, f"{path}/{item}", *([{resource: {"name": "x"}}] if method == "PUT" else [])) for item in ABSENT_ITEMS for method in ("GET", "PUT", "DELETE")]
    steps += [Step("PATCH", "PATCH", f"{path}/$absent", {}), Step("DELETE collection", "DELETE", path), Step("no body", "POST", path), Step("broken JSON", "POST", path, b"{"),
              Step("other key", "POST", path, {"thing": {}}), create(resource, "unknown attribute", {"colour": 1}), create(resource, "id", {"id": "$absent"})]
    return Scenario(f"{resource}/unknown", steps)


def variant(resource, base, /, **given):
    name = ", ".join(f"{key}={value!r}" for key, value in given.items())
    return create(resource, name[:100], {**base, **given}, transient=True)


def networks():
    v = lambda **given: variant("network", {}, **given)
    steps = [create("network", "nothing", {}, transient=True)]
    steps += [v(name=value) for value in (None, 5, "", "n" * 256, [], "long" * 60)] + [v(description=value) for value in (None, 5, "d")]
    steps += [v(admin_state_up=value) for value in (False, "false", "x", None, 1, [])] + [v(mtu=value) for value in (1200, "1200", "x", 0, -1, None)] + [v(shared=False), v(project_id="other"), v(tenant_id="a", project_id="b")]
    steps += [make("network", "n", name="n", description="d"), show("network", "show", "n"), update("network", "rename", "n", {"name": "m"}), update("network", "down", "n", {"admin_state_up": False}),
              update("network", "bad", "n", {"admin_state_up": "x"}), update("network", "id", "n", {"id": "$absent"}), update("network", "owner", "n", {"project_id": "other"}), update("network", "nothing changes", "n", {}),
              delete("network", "delete", "n"), show("network", "show deleted", "n")]
    return Scenario("network/life", steps)


def subnets():
    base = {"network_id": "$net", "ip_version": 4, "cidr": "10.7.0.0/24"}
    v = lambda **given: variant("subnet", base, **given)
    steps = [create("subnet", "nothing", {}), create("subnet", "no cidr", {"network_id": "$net", "ip_version": 4}), create("subnet", "no network", {"cidr": "10.7.0.0/24", "ip_version": 4}),
             create("subnet", "least", base, transient=True), create("subnet", "no ip_version", {"network_id": "$net", "cidr": "10.7.0.0/24"}, transient=True)]
    steps += [v(cidr=value) for value in ("10.7.0.1/24", "10.7.0.0", "x", None, "10.0.0.0/25", "10.0.0.0/24", "10.0.0.0/8", "10.7.0.0/32", "2001:db8::/64", "0.0.0.0/0", 5, [])]
    steps += [v(ip_version=value) for value in (6, 5, "4", None, "x")] + [v(gateway_ip=value) for value in (None, "10.7.0.9", "10.8.0.1", "x", "10.7.0.0", "10.7.0.255")]
    steps += [v(network_id=value) for value in ("$absent", "abc", None, "$p1")] + [v(name=5), v(name="s"), v(enable_dhcp=False), v(ip_version=6, cidr="2001:db8::/64"), v(ip_version=6, cidr="2001:db8::/64", gateway_ip="2001:db8::9")]
    steps += [create("subnet", "make s", base, "s"), show("subnet", "show", "s"), update("subnet", "rename", "s", {"name": "t"}), update("subnet", "cidr", "s", {"cidr": "10.9.0.0/24"}), update("subnet", "gateway", "s", {"gateway_ip": "10.7.0.5"}),
              update("subnet", "no gateway", "s", {"gateway_ip": None}), update("subnet", "bad gateway", "s", {"gateway_ip": "x"}), delete("subnet", "delete", "s"), show("subnet", "show deleted", "s")]
    return Scenario("subnet/life", steps)


def ports():
    v = lambda **given: variant("port", {"network_id": "$net"}, **given)
    steps = [create("port", "nothing", {}), create("port", "least", {"network_id": "$net"}, transient=True)]
    steps += [v(network_id=value) for value in ("$absent", "abc", None)] + [v(name=value) for value in ("n", 5, None, "n" * 256)] + [v(device_id=value) for value in ("vm", "", 5, None, "d" * 256)]
    steps += [v(device_owner=value) for value in ("compute:x", "", 5, "d" * 256)] + [v(admin_state_up=value) for value in (False, "x", None)]
    steps += [v(mac_address=value) for value in ("02:00:00:00:00:11", "x", "02-00-00-00-00-11", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", 5, None, "02:00:00:00:00:AB")]
    steps += [v(fixed_ips=value) for value in ([], None, "x", [{"ip_address": "10.0.0.77"}], [{"subnet_id": "$sub"}], [{"subnet_id": "$sub", "ip_address": "10.0.0.78"}], [{"ip_address": "10.9.0.1"}], [{"ip_address": "x"}],
                                               [{"subnet_id": "$absent"}], [{"subnet_id": "abc"}], [{}], ["10.0.0.1"], [{"ip_address": "10.0.0.0"}], [{"ip_address": "10.0.0.255"}], [{"colour": 1}],
                                               [{"ip_address": "10.0.0.77"}, {"ip_address": "10.0.0.77"}], [{"ip_address": "10.0.0.77"}, {"ip_address": "10.0.0.79"}])]
    steps += [v(**{"binding:host_id": value}) for value in ("node-a", "", None, 5)] + [v(**{"binding:vnic_type": value}) for value in ("normal", "direct", "x")] + [v(**{"binding:profile": value}) for value in ({}, None, "x")]
    steps += [v(port_security_enabled=False), v(project_id="other")]
    steps += [make("port", "q", network_id="$net", name="q", mac_address="02:00:00:00:00:21", fixed_ips=[{"ip_address": "10.0.0.90"}]), show("port", "show", "q"), v(mac_address="02:00:00:00:00:21"), v(fixed_ips=[{"ip_address": "10.0.0.90"}]),
              update("port", "rename", "q", {"name": "r"}), update("port", "device", "q", {"device_id": "vm-9", "device_owner": "compute:x"}), update("port", "address", "q", {"fixed_ips": [{"ip_address": "10.0.0.91"}]}),
              update("port", "no address", "q", {"fixed_ips": []}), update("port", "host", "q", {"binding:host_id": "node-a"}), update("port", "network", "q", {"network_id": "$net"}), update("port", "owner", "q", {"project_id": "other"}),
              update("port", "down", "q", {"admin_state_up": False}), delete("port", "delete", "q"), show("port", "show deleted", "q")]
    return Scenario("port/life", steps)


def in_use():
    steps = [
        make("network", "n"), make("subnet", "s", network_id="$n", cidr="10.8.0.0/24", ip_version=4), make("port", "a", network_id="$n", device_id="vm"), make("port", "b", network_id="$n"),
        delete("network", "network with ports", "n"), delete("subnet", "subnet with ports", "s"),
        create("port_pair", "pair", {"ingress": "$a", "egress": "$a"}, "pair"), create("flow_classifier", "classifier", {"logical_source_port": "$b"}, "classifier"),
        delete("port", "port of a pair", "a"), delete("port", "port of a classifier", "b"), update("port", "device of a pair's port", "a", {"device_id": "other"}), update("port", "no device of a pair's port", "a", {"device_id": ""}),
        delete("port_pair", "delete the pair", "pair"), delete("flow_classifier", "delete the classifier", "classifier"), delete("port", "free port", "a"), delete("port", "other free port", "b"),
        delete("network", "network with a subnet", "n"), show("subnet", "its subnet is gone", "s"),
    ]
    return Scenario("network/in use", steps)
