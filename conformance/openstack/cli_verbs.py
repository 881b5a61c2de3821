"""All verbs of the real `openstack` command line client against our controller: cli_verbs.py URL [PROGRAM].

The commands run in one interpreter, because each start costs seconds; with PROGRAM some run as processes of their own.
Nothing of the client is changed.
"""
import contextlib
import io
import json
import subprocess
import sys
import urllib.request

from openstackclient import shell

from verdicts import Verdicts

VERDICTS = Verdicts()
TO_US = ["--os-auth-type", "none", "--os-endpoint", sys.argv[1]]


def run(*words):
    """Exit code, output and errors of one command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = shell.main([*TO_US, *words])
        except SystemExit as end:
            code = end.code
    return code or 0, out.getvalue(), err.getvalue()


def ask(command, **expected):
    """A command that answers with one object; the expected columns have `_` for blanks."""
    code, out, err = run(*command.split(), "-f", "json")
    VERDICTS.equal(f"{command}: exit code ({err.strip()})", code, 0)
    answer = json.loads(out) if code == 0 else {}
    for column, value in expected.items():
        VERDICTS.equal(f"{command}: {column}", answer.get(column.replace("_", " "), answer.get(column)), value)
    return answer


def rows(command, **expected):
    """A command that answers with a list: the names of its rows must be these; returns the first row."""
    code, out, err = run(*command.split(), "-f", "json")
    VERDICTS.equal(f"{command}: exit code ({err.strip()})", code, 0)
    answer = json.loads(out) if code == 0 else []
    for column, values in expected.items():
        VERDICTS.equal(f"{command}: {column}", sorted(row.get(column) for row in answer), sorted(values))
    return answer[0] if answer else {}


def silently(command):
    """A command that says nothing when it works."""
    code, out, err = run(*command.split())
    VERDICTS.equal(f"{command}: exit code, output, errors", (code, out, err), (0, "", ""))


def fails(command, *said):
    """A command that must fail and tell why."""
    code, _, err = run(*command.split())
    VERDICTS.holds(f"{command} fails", code != 0, f"exit code {code}")
    for words in said:
        VERDICTS.holds(f"{command} says «{words}»", words in err, err.strip())


def networks():
    ask("network create net1", name="net1", admin_state_up=True, status="ACTIVE", project_id="fake_project_id")
    ask("subnet create --network net1 --subnet-range 10.0.0.0/24 sub1", name="sub1", cidr="10.0.0.0/24", gateway_ip="10.0.0.1", ip_version=4)
    ask("subnet create --network net1 --ip-version 6 --subnet-range 2001:db8::/64 sub6", cidr="2001:db8::/64", ip_version=6)
    rows("network list", Name=["net1"])
    rows("subnet list", Name=["sub1", "sub6"])
    ask("network show net1", name="net1")
    ask("subnet show sub1", name="sub1")
    silently("network set --name net2 --description text net1")
    ask("network show net2", description="text")
    silently("network set --name net1 net2")
    silently("subnet set --name sub2 sub6")
    silently("subnet delete sub2")
    for number, device in enumerate(["vm-src", "vm-src", "vm-a", "vm-a", "vm-b", "vm-b", "vm-c", "vm-c"], 1):
        ask(f"port create --network net1 --device {device} p{number}", name=f"p{number}", device_id=device, status="DOWN")
    ask("port create --network net1 --fixed-ip subnet=sub1,ip-address=10.0.0.77 --mac-address 02:00:00:00:00:77 --device-owner compute:x --host node-a p9",
        mac_address="02:00:00:00:00:77", device_owner="compute:x", binding_host_id="node-a")
    rows("port list", Name=[f"p{number}" for number in range(1, 10)])
    rows("port list --network net1 --device-owner compute:x", Name=["p9"])
    silently("port set --name p10 --device vm-z p9")
    ask("port show p10", device_id="vm-z")
    silently("port delete p10")
    fails("port show p10", "No Port found for p10")


def flow_classifiers():
    ports = {name: ask(f"port show {name}").get("id") for name in ("p1", "p2")}
    ask("sfc flow classifier create --protocol tcp --source-port 1000:2000 --destination-port 80:80 --source-ip-prefix 10.0.0.0/24 "
        "--destination-ip-prefix 10.0.1.0/24 --logical-source-port p1 --description d1 fc1",
        Name="fc1", Protocol="tcp", Source_Port_Range_Min=1000, Source_Port_Range_Max=2000, Destination_Port_Range_Min=80, Destination_Port_Range_Max=80,
        Source_IP="10.0.0.0/24", Destination_IP="10.0.1.0/24", Logical_Source_Port=ports["p1"], Description="d1", Ethertype="IPv4", L7_Parameters={})
    ask("sfc flow classifier create --ethertype IPv4 --protocol udp --logical-source-port p1 --logical-destination-port p2 fc2",
        Logical_Source_Port=ports["p1"], Logical_Destination_Port=ports["p2"], Protocol="udp")
    ask("sfc flow classifier create --ethertype IPv6 --source-ip-prefix 2001:db8::/32 fc6", Ethertype="IPv6", Source_IP="2001:db8::/32")
    rows("sfc flow classifier list", Name=["fc1", "fc2", "fc6"])
    rows("sfc flow classifier list --long", Name=["fc1", "fc2", "fc6"], Ethertype=["IPv4", "IPv4", "IPv6"])
    ask("sfc flow classifier show fc1", Name="fc1", Protocol="tcp")
    silently("sfc flow classifier set --name fc1b --description new fc1")
    ask("sfc flow classifier show fc1b", Description="new")
    fails("sfc flow classifier show nosuch", "nosuch")
    fails("sfc flow classifier create --protocol sctp bad", "sctp")
    fails("sfc flow classifier create --logical-source-port nosuch bad", "nosuch")
    fails("sfc flow classifier create --protocol udp --logical-source-port p1 again", "conflicts")
    silently("sfc flow classifier delete fc6")


def port_pairs():
    ask("sfc port pair create --ingress p3 --egress p4 pp1", Name="pp1", Service_Function_Parameters={"correlation": None, "weight": 1})
    ask("sfc port pair create --ingress p5 --egress p6 --service-function-parameters correlation=None,weight=2 pp2", Service_Function_Parameters={"correlation": None, "weight": 2})
    ask("sfc port pair create --ingress p7 --egress p8 --service-function-parameters correlation=mpls,weight=3 --description xx pp3", Description="xx")
    ask("sfc port pair create --ingress p3 --egress p3 --service-function-parameters weight=3 pp4", Service_Function_Parameters={"correlation": None, "weight": 3})
    rows("sfc port pair list", Name=["pp1", "pp2", "pp3", "pp4"])
    rows("sfc port pair list --long", Description=["", "", "", "xx"])
    ask("sfc port pair show pp1", Name="pp1")
    silently("sfc port pair set --name pp1b --description text pp1")
    ask("sfc port pair show pp1b", Description="text")
    fails("sfc port pair create --ingress p3 --egress p5 bad")
    fails("sfc port pair create --ingress nosuch --egress p5 bad", "nosuch")
    fails("port delete p3", "in use")
    silently("sfc port pair delete pp4")


def port_pair_groups():
    pairs = {name: ask(f"sfc port pair show {name}").get("ID") for name in ("pp1b", "pp2", "pp3")}
    ask("sfc port pair group create --port-pair pp1b ppg1", Port_Pair=[pairs["pp1b"]], Tap_Enabled=False)
    ask("sfc port pair group create --port-pair pp2 --port-pair-group-parameters lb-fields=ip_src&ip_dst --enable-tap ppg2", Tap_Enabled=True)
    ask("sfc port pair group create --port-pair pp3 --disable-tap ppg3", Tap_Enabled=False)
    ask("sfc port pair group create --description empty ppg4", Port_Pair=[], Description="empty")
    rows("sfc port pair group list", Name=["ppg1", "ppg2", "ppg3", "ppg4"])
    rows("sfc port pair group list --long", Name=["ppg1", "ppg2", "ppg3", "ppg4"])
    parameters = ask("sfc port pair group show ppg2").get("Port Pair Group Parameters", {})
    VERDICTS.equal("lb_fields of ppg2", parameters.get("lb_fields"), ["ip_src", "ip_dst"])
    silently("sfc port pair group set --name ppg1 --description gg --port-pair pp1b ppg1")
    silently("sfc port pair group unset --all-port-pair ppg1")
    ask("sfc port pair group show ppg1", Port_Pair=[], Description="gg")
    silently("sfc port pair group set --port-pair pp1b ppg1")
    silently("sfc port pair group unset --port-pair pp1b ppg1")
    silently("sfc port pair group set --port-pair pp1b ppg1")
    silently("sfc port pair group set --no-port-pair ppg1")
    silently("sfc port pair group set --port-pair pp1b ppg1")
    ask("sfc port pair group show ppg1", Port_Pair=[pairs["pp1b"]])
    fails("sfc port pair delete pp1b", "in use")
    fails("sfc port pair group create --port-pair pp1b bad", "in use")
    fails("sfc port pair group show nosuch", "nosuch")


def port_chains():
    ask("sfc port chain create --port-pair-group ppg1 --port-pair-group ppg2 --flow-classifier fc1b --chain-parameters correlation=mpls,symmetric=false pc1",
        Name="pc1", Chain_Parameters={"correlation": "mpls", "symmetric": False})
    ask("sfc port chain create --port-pair-group ppg3 --chain-parameters correlation=mpls,symmetric=true --description second pc2",
        Description="second", Chain_Parameters={"correlation": "mpls", "symmetric": True})
    ask("sfc port chain create --port-pair-group ppg3 --port-pair-group ppg1 pc3", Flow_Classifiers=[])
    rows("sfc port chain list", Name=["pc1", "pc2", "pc3"])
    rows("sfc port chain list --long", Description=["", "", "second"])
    classifiers = {name: ask(f"sfc flow classifier show {name}").get("ID") for name in ("fc1b", "fc2")}
    ask("sfc port chain show pc1", Flow_Classifiers=[classifiers["fc1b"]])
    silently("sfc port chain set --flow-classifier fc2 pc1")
    silently("sfc port chain set --port-pair-group ppg4 --name pc1b --description text pc1")
    groups = [ask(f"sfc port pair group show {name}").get("ID") for name in ("ppg1", "ppg2", "ppg4")]
    ask("sfc port chain show pc1b", Port_Pair_Groups=groups, Description="text")
    silently("sfc port chain unset --flow-classifier fc1b pc1b")
    ask("sfc port chain show pc1b", Flow_Classifiers=[classifiers["fc2"]])
    silently("sfc port chain unset --port-pair-group ppg4 pc1b")
    ask("sfc port chain show pc1b", Port_Pair_Groups=groups[:2])
    silently("sfc port chain unset --all-flow-classifier pc1b")
    ask("sfc port chain show pc1b", Flow_Classifiers=[])
    silently("sfc port chain set --flow-classifier fc2 pc1b")
    silently("sfc port chain set --no-flow-classifier pc1b")
    silently("sfc port chain set --flow-classifier fc2 pc1b")
    silently("sfc port chain set --no-port-pair-group --port-pair-group ppg4 pc1b")
    ask("sfc port chain show pc1b", Port_Pair_Groups=groups[2:])
    fails("sfc flow classifier delete fc2", "in use")
    fails("sfc port pair group delete ppg3", "in use")
    fails("sfc port chain create --port-pair-group ppg3 same")
    fails("sfc port chain show nosuch", "nosuch")


def service_graphs():
    ask("sfc port pair group create ppg5", Name="ppg5")
    ask("sfc port chain create --port-pair-group ppg3 --port-pair-group ppg5 --chain-parameters correlation=mpls pc4", Name="pc4")
    chains = {name: ask(f"sfc port chain show {name}").get("ID") for name in ("pc2", "pc4")}
    ask("sfc service graph create --branching-point pc2:pc4 --description graph sg1", Name="sg1", Description="graph", Branching_Points={chains["pc2"]: [chains["pc4"]]})
    rows("sfc service graph list", Name=["sg1"])
    rows("sfc service graph list --long", Description=["graph"])
    ask("sfc service graph show sg1", Name="sg1")
    silently("sfc service graph set --name sg2 --description text sg1")
    ask("sfc service graph show sg2", Description="text")
    fails("sfc port chain delete pc2", "in use")
    fails("sfc service graph create --branching-point pc2:pc4 again")
    fails("sfc service graph show sg1", "sg1")
    silently("sfc service graph delete sg2")


def removal():
    fails("sfc port chain delete pc1b nosuch", "1 of 2")
    silently("sfc port chain delete pc2 pc3 pc4")
    silently("sfc port pair group delete ppg1 ppg2 ppg3 ppg4 ppg5")
    silently("sfc port pair delete pp1b pp2 pp3")
    silently("sfc flow classifier delete fc1b fc2")
    for noun in ("flow classifier", "port pair", "port pair group", "port chain", "service graph"):
        rows(f"sfc {noun} list", Name=[])
    silently("port delete p1 p2 p3 p4 p5 p6 p7 p8")
    silently("subnet delete sub1")
    silently("network delete net1")
    fails("network show net1", "No Network found for net1")


def bundled_functions():
    """What runs behind a group is our own API's affair; its ports, its pair and its chain are the client's like any other."""
    ask("network create inner", name="inner")
    ask("subnet create --network inner --subnet-range 10.1.0.0/24 sub7", name="sub7")
    ask("port create --network inner source", name="source")
    ask("sfc port pair group create edge", Name="edge")
    rules = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp --dport 23 -j DROP\nCOMMIT\n"
    set_template({"runs": {"bundled": "firewall"}, "config": {"file": {"name": "edge.iptables", "text": rules}},
                  "networks": ["inner"], "instances": 1, "on": ["node-a"]})
    made = rows("port list --device-owner catena:function", Name=["edge"])
    ask("port show edge", device_owner="catena:function", binding_host_id="node-a")
    pair = rows("sfc port pair list", Name=["edge"])
    VERDICTS.equal("the pair is the port that was made", (pair.get("Ingress Logical Port"), pair.get("Egress Logical Port")), (made.get("ID"),) * 2)
    group = ask("sfc port pair group show edge", Port_Pair=[pair.get("ID")]).get("ID")
    ask("sfc flow classifier create --protocol tcp --logical-source-port source fc7", Name="fc7")
    ask("sfc port chain create --port-pair-group edge --flow-classifier fc7 guarded", Name="guarded", Port_Pair_Groups=[group])
    fails("port delete edge", "in use")
    fails("sfc port pair create --ingress edge --egress edge mine")
    fails("sfc port pair group delete edge", "in use")
    silently("sfc port chain delete guarded")
    silently("sfc flow classifier delete fc7")
    silently("sfc port pair group delete edge")
    rows("port list --device-owner catena:function", Name=[])
    silently("port delete source")
    silently("network delete inner")


def set_template(template):
    """Says what instances of the group «edge» are made from."""
    body = json.dumps({"template": template}).encode()
    asked = urllib.request.Request(f"{sys.argv[1].rstrip('/')}/v1/functions/edge", data=body, method="PUT",
                                   headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        told = json.load(answer)
    VERDICTS.equal("the function has its instance", told["instances"], ["edge"])


def documents():
    code, out, _ = run("extension", "list", "--network", "-f", "json")
    aliases = {row["Alias"] for row in json.loads(out)} if code == 0 else set()
    needed = {"sfc", "flow_classifier", "service_graph", "networking-sfc-tap"}
    VERDICTS.equal("extension list --network", needed & aliases, needed)


def processes(program):
    """The same client as people start it."""
    def start(*words):
        done = subprocess.run([program, *TO_US, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr
    code, out, err = start("network", "create", "real", "-f", "value", "-c", "name")
    VERDICTS.equal("openstack network create, as a process", (code, out.strip(), err), (0, "real", ""))
    code, out, err = start("sfc", "port", "pair", "group", "create", "group", "-f", "json")
    VERDICTS.equal("openstack sfc port pair group create, as a process", (code, json.loads(out or "{}").get("Name"), err), (0, "group", ""))
    code, out, err = start("sfc", "port", "pair", "group", "list")
    VERDICTS.holds("openstack sfc port pair group list, as a process", code == 0 and "| group" in out, out + err)
    code, out, err = start("sfc", "port", "pair", "group", "delete", "group", "nosuch")
    VERDICTS.holds("openstack sfc port pair group delete, as a process", code == 1 and "1 of 2" in err, err)
    code, out, err = start("network", "delete", "real")
    VERDICTS.equal("openstack network delete, as a process", (code, out, err), (0, "", ""))


for part in (documents, networks, flow_classifiers, port_pairs, port_pair_groups, port_chains, service_graphs, removal,
             bundled_functions):
    part()
if len(sys.argv) > 2:
    processes(sys.argv[2])
VERDICTS.tell()
