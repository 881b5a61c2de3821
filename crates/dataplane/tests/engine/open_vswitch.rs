//! Open vSwitch in the place of a node's edge: with the rules that the node's program is in OpenFlow, what leaves it
//! are the bytes that the engine writes, and a chain goes through it and our switches.
//!
//! Its user-space datapath with ports that tests feed (`--enable-dummy`): no interface, no privilege and no file of the
//! machine's is touched.

use crate::edges::{SWITCH, star_of};
use crate::fragments_order::{both, pieces};
use crate::frames::{self, Spec, addresses_on_links};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, three_hosts};
use crate::town::{Town, link_name, node_name, rule};
use catena_model::entry::Program;
use catena_model::openflow::{OpenFlowRules, TABLE_ORDINARY};
use catena_model::program::{PortRole, RuleMatch};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_model::topology::NodeRole;
use catena_plan::{openflow, path_families};
use catena_wire::scalar::{IpProtocol, MacAddr, PortRange};
use catena_wire::source_route::marked::{LEN, MarkedHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// How long something may take that others wait for.
const PATIENCE: Duration = Duration::from_secs(60);
const MARKED: [Encapsulation; 2] =
    [Encapsulation::SourceRouteSafe9, Encapsulation::SourceRouteClassic80];
/// Where ordinary traffic leaves a switch.
const REST: &str = "rest";
/// The UDP port by which a frame says that all before it are through.
const LAST_PORT: u16 = 6_000;

/// A bridge of its own process, database and folder; all end with it.
struct OpenVswitch {
    children: Vec<Child>,
    folder: TempDir,
    ports: BTreeSet<String>,
    /// Bytes of each port's capture that were read.
    read: BTreeMap<String, usize>,
}

impl Drop for OpenVswitch {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn is_installed(test: &str) -> bool {
    let is_there = ["/usr/sbin/ovs-vswitchd", SCHEMA].iter().all(|file| Path::new(file).exists());
    if !is_there {
        println!("SKIPPED: {test}: Open vSwitch is not installed");
    }
    is_there
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl OpenVswitch {
    /// A bridge with these ports, which does nothing yet.
    fn new(ports: &[&str]) -> Self {
        let (folder, read) = (tempfile::tempdir().unwrap(), BTreeMap::new());
        let ports = ports.iter().map(|port| (*port).to_owned()).collect();
        let mut switch = Self { children: Vec::new(), folder, ports, read };
        let database = switch.file("conf.db");
        switch.run("ovsdb-tool", &["create", &database, SCHEMA], None);
        let remote = format!("--remote=punix:{}", switch.file("db.sock"));
        switch.start("ovsdb-server", "db", &[&database, &remote]);
        switch.wait_for("db.sock");
        switch.configure(&["--no-wait", "init"]);
        let socket = format!("unix:{}", switch.file("db.sock"));
        switch.start(
            "ovs-vswitchd",
            "vs",
            &[&socket, "--enable-dummy=override", "--disable-system"],
        );
        switch.wait_for("vs.ctl");
        let settings = "add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure";
        let mut words: Vec<String> = settings.split(' ').map(str::to_owned).collect();
        for (number, port) in (1..).zip(&switch.ports) {
            let capture = switch.file(&format!("{port}.pcap"));
            let settings = format!(
                "-- add-port br0 {port} -- set interface {port} type=dummy ofport_request={number} \
                 options:tx_pcap={capture}"
            );
            words.extend(settings.split(' ').map(str::to_owned));
        }
        switch.configure(&words.iter().map(String::as_str).collect::<Vec<_>>());
        for port in switch.ports.clone() {
            switch.wait_for(&format!("{port}.pcap"));
        }
        switch
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn wait_for(&self, name: &str) {
        wait_until(name, || self.folder.path().join(name).exists());
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for of in ["RUN", "LOG", "DB", "SYSCONF"] {
            command.env(format!("OVS_{of}DIR"), self.folder.path());
        }
        command.stdin(Stdio::null());
        command
    }

    fn start(&mut self, program: &str, name: &str, words: &[&str]) {
        let control = format!("--unixctl={}", self.file(&format!("{name}.ctl")));
        let mut command = self.command(program);
        command.args(words).arg(control).args(["-vconsole:off", "-vsyslog:off"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().unwrap());
    }

    fn run(&self, program: &str, words: &[&str], input: Option<&str>) -> String {
        let mut command = self.command(program);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        if let Some((mut pipe, input)) = child.stdin.take().zip(input) {
            pipe.write_all(input.as_bytes()).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn configure(&self, words: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.file("db.sock"));
        // Its socket is there before anybody listens.
        let limits = [database.as_str(), "--timeout=60", "--retry"];
        self.run("ovs-vsctl", &[&limits[..], words].concat(), None)
    }

    /// Takes rules as an operator gives them.
    fn load(&self, rules: &str) {
        let bridge = format!("unix:{}", self.file("br0.mgmt"));
        self.run("ovs-ofctl", &["-O", "OpenFlow13", "add-flows", &bridge, "-"], Some(rules));
    }

    /// Lets a frame come by a port.
    fn send(&self, port: &str, frame: &[u8]) {
        let hex: String = frame.iter().map(|octet| format!("{octet:02x}")).collect();
        let control = self.file("vs.ctl");
        self.run("ovs-appctl", &["-t", &control, "netdev-dummy/receive", port, &hex], None);
    }

    /// What has left by a port since it was asked last, once the last of it is there.
    fn take(&mut self, port: &str, is_last: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let before = self.read.get(port).copied().unwrap_or(0);
        let file = self.folder.path().join(format!("{port}.pcap"));
        let mut frames = Vec::new();
        wait_until("the last frame", || {
            frames = captured(&std::fs::read(&file).unwrap());
            frames.get(before..).is_some_and(|new| new.iter().any(|frame| is_last(frame)))
        });
        self.read.insert(port.to_owned(), frames.len());
        frames.split_off(before)
    }
}

/// The frames of a capture, as far as they are written.
fn captured(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut frames, mut rest) = (Vec::new(), bytes.get(24..).unwrap_or_default());
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let length = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some((frame, behind)) = behind.split_at_checked(length) else { break };
        frames.push(frame.to_vec());
        rest = behind;
    }
    frames
}

/// The rules of a node of a town.
fn rules_of(town: &Town, node: usize) -> OpenFlowRules {
    let programs: Vec<Program> = (0..town.nodes).map(|node| town.told(node)).collect();
    let families = path_families(programs.iter().map(|program| &program.entries));
    openflow((&node_name(node), NodeRole::Host), &programs[node], &families)
}

/// A switch in the place of a node, with the node's rules; its ports are called as the node's.
fn in_place_of(town: &Town, node: usize) -> OpenVswitch {
    let rules = rules_of(town, node);
    let ports = town.ports.iter().filter(|port| port.node == node).map(|port| port.name.clone());
    let links = town.links(node).into_iter().map(|(number, _)| link_name(node, number));
    let ports: Vec<String> = ports.chain(links).chain([REST.to_owned()]).collect();
    let switch = OpenVswitch::new(&ports.iter().map(String::as_str).collect::<Vec<_>>());
    let names = rules.rules.iter().flat_map(|rule| rule.from.iter().chain(&rule.to));
    let names = names.map(|port| (port.name.clone(), port.name.clone())).collect();
    switch.load(&rules.text(&names).unwrap());
    switch.load(&format!("table={TABLE_ORDINARY},actions=output:{REST}"));
    switch
}

/// Chains from S for the rules of the scene, and one for what is sent last.
fn town_of(by: Encapsulation, hops: &[&[&str]], rules: &[RuleMatch]) -> Town {
    let mut town = star_of(by, hops);
    town.chains[0].rules = rules.iter().map(|matches| (10, matches.clone())).collect();
    let last = rule(IpFamily::Ipv4, Transport::Udp, LAST_PORT);
    town.chains[0].rules.push((10, last));
    town
}

fn is_last(frame: &[u8]) -> bool {
    frame.ends_with(b"the last of all")
}

fn last(town: &Town) -> Vec<u8> {
    Spec { payload: b"the last of all".to_vec(), ..packet(town, LAST_PORT) }.frame()
}

/// What no chain takes, and is ordinary traffic.
fn ordinary(town: &Town) -> Vec<Vec<u8>> {
    let of = packet(town, CHAINED_PORT);
    let to = |destination: &str| Spec { destination: destination.parse().unwrap(), ..of.clone() };
    let broadcast = Spec { destination_mac: MacAddr([0xff; 6]), ..to("10.0.0.255") };
    let v6 = Spec { destination: "fe80::1".parse().unwrap(), ..packet_v6(town, CHAINED_PORT) };
    let mut unknown = of.frame();
    unknown[12..14].copy_from_slice(&0x9000_u16.to_be_bytes());
    let specs = [
        broadcast,
        to("224.0.0.9"),
        to("169.254.1.1"),
        v6,
        packet(town, PLAIN_PORT),
        Spec { vlan: Some(9), ..of },
    ];
    specs.iter().map(Spec::frame).chain([unknown]).collect()
}

/// What somebody may send: what the chain takes, what it does not, and what nobody may.
fn everything(town: &Town) -> Vec<Vec<u8>> {
    let of = packet(town, CHAINED_PORT);
    let v6 = packet_v6(town, CHAINED_PORT);
    let from = |source_mac| Spec { source_mac, ..of.clone() }.frame();
    let to = |destination_mac| Spec { destination_mac, ..of.clone() }.frame();
    let marked = {
        let mut bytes = addresses_on_links(&of.frame());
        bytes.resize(LEN, 0);
        let by = MARKED[0].profile().unwrap();
        MarkedHeader::new(by, &[7, 2, 9], 100).unwrap().emit(&mut bytes).unwrap();
        [bytes, of.frame()[14..].to_vec()].concat()
    };
    let taken = vec![
        of.frame(),
        v6.frame(),
        Spec { protocol: IpProtocol::TCP, ..of.clone() }.frame(),
        Spec { protocol: IpProtocol::TCP, ..v6 }.frame(),
        [of.frame(), vec![0; 9]].concat(),
        from(MacAddr([0xfa, 0x16, 0x3e, 0, 0, 1])),
        from(MacAddr([0x00, 0x16, 0x3e, 0, 0, 1])),
        to(MacAddr([2, 7, 7, 7, 7, 7])),
        Spec { ttl: 1, ..of.clone() }.frame(),
    ];
    let ended = vec![
        // Unicast to a group of stations.
        to(MacAddr([0xff; 6])),
        Spec { vlan: Some(0), ..of.clone() }.frame(),
        marked,
        frames::source_routed(&[7, 2, 9], 100, &of.frame()),
        frames::labelled(&[2, 9], 100, &of.frame()),
    ];
    [taken, ordinary(town), ended].concat()
}

#[test]
fn open_vswitch_with_the_rules_of_a_node_writes_the_bytes_that_the_node_writes() {
    if !is_installed("open_vswitch_with_the_rules_of_a_node_writes_the_bytes_that_the_node_writes")
    {
        return;
    }
    let wide = |low, high| RuleMatch {
        destination_ports: Some(PortRange::new(low, high).unwrap()),
        source: Some("10.0.0.0/24".parse().unwrap()),
        ..rule(IpFamily::Ipv4, Transport::Udp, 0)
    };
    let every = |family| RuleMatch {
        transport: None,
        destination_ports: None,
        ..rule(family, Transport::Udp, 0)
    };
    for by in MARKED {
        for (hops, rules) in [
            (&[&["v2"][..]][..], crate::scene::rules(CHAINED_PORT)),
            // One header over two functions, on two nodes and on one.
            (&[&["v2"], &["v4"]], vec![wide(4_999, 5_002), wide(1, 3)]),
            (&[&["v2"], &["v3"]], vec![every(IpFamily::Ipv6), every(IpFamily::Ipv4)]),
        ] {
            let mut rig = Rig::new(town_of(by, hops, &rules));
            let mut switch = in_place_of(&rig.town, 0);
            let link = link_name(0, 7);
            let mut sent = everything(&rig.town);
            sent.push(last(&rig.town));
            for frame in &sent {
                rig.send("S", frame);
                switch.send("S", frame);
            }
            let (ours, theirs) = (rig.take(&link), switch.take(&link, is_last));
            assert!(ours.len() > 2, "{} {hops:?}: {ours:?}", by.name());
            assert_eq!(ours, theirs, "{} {hops:?}", by.name());
            // What the chain takes and no rule carries, and what nobody may send, is not ordinary traffic.
            if rules == crate::scene::rules(CHAINED_PORT) {
                for spec in both(&rig.town, CHAINED_PORT) {
                    pieces(&spec).iter().for_each(|piece| switch.send("S", piece));
                }
                switch.send("S", &last(&rig.town));
                assert_eq!(
                    switch.take(&link, is_last),
                    [theirs.last().unwrap().clone()],
                    "{}",
                    by.name()
                );
                assert_eq!(switch.take(REST, |_| true), ordinary(&rig.town), "{}", by.name());
            }
            // And they are led through our switches, to the functions and out of them; of ours came by tunnels what
            // went into no path, too.
            let seen = |rig: &mut Rig| ["v2.in", "v3.in", "v4.in", "D"].map(|port| rig.take(port));
            let through_ours = seen(&mut rig);
            rig.bring(SWITCH, 1, &theirs);
            let through_theirs = seen(&mut rig);
            assert_eq!(through_theirs[0].len(), theirs.len());
            for (theirs, ours) in through_theirs.iter().zip(through_ours) {
                assert!(theirs.iter().all(|frame| ours.contains(frame)), "{} {hops:?}", by.name());
            }
        }
    }
}

#[test]
fn open_vswitch_gives_functions_the_bytes_that_their_node_gives_them() {
    if !is_installed("open_vswitch_gives_functions_the_bytes_that_their_node_gives_them") {
        return;
    }
    for by in MARKED {
        for family in [IpFamily::Ipv4, IpFamily::Ipv6] {
            let mut town = town_of(by, &[&["v2"], &["v4"]], &[]);
            town.chains[0].rules = [Transport::Udp, Transport::Tcp]
                .iter()
                .map(|transport| (10, rule(family, *transport, CHAINED_PORT)))
                .collect();
            // A mark whose highest bit is in the VLAN identifier.
            town.chains[0].path = 0x8064;
            let mut rig = Rig::new(town);
            let mut switch = in_place_of(&rig.town, 1);
            let of = match family {
                IpFamily::Ipv4 => packet(&rig.town, CHAINED_PORT),
                IpFamily::Ipv6 => packet_v6(&rig.town, CHAINED_PORT),
            };
            let sent = [
                of.clone(),
                Spec { source_mac: MacAddr([0xfa, 0x16, 0x3e, 0, 0, 1]), ..of.clone() },
                Spec { source_mac: MacAddr([0x00, 0x16, 0x3e, 0, 0, 1]), ..of.clone() },
                Spec { protocol: IpProtocol::TCP, ..of.clone() },
                Spec { payload: b"the last of all".to_vec(), ..of },
            ];
            for spec in &sent {
                rig.send("S", &spec.frame());
            }
            let (link, from_link) = (link_name(1, 7), rig.take(&link_name(SWITCH, 2)));
            assert_eq!(from_link.len(), sent.len());
            let into = rig.take("v2.in");
            // Not to be taken: another port, another path, another counter, another look.
            for (octet, bit) in [(3, 4), (15, 1), (18, 0x10), (20, 1), (21, 3)] {
                let mut other = from_link[0].clone();
                other[octet] ^= bit;
                switch.send(&link, &other);
            }
            for frame in &from_link {
                switch.send(&link, frame);
            }
            assert_eq!(switch.take("v2.in", is_last), into, "{} {family:?}", by.name());
        }
    }
}

#[test]
fn what_rules_cannot_say_is_named_and_gets_past_no_function() {
    let mut town = three_hosts();
    let udp = |port| vec![rule(IpFamily::Ipv4, Transport::Udp, port)];
    town.chain("c", Encapsulation::Nsh, &[&["v2"]], &udp(CHAINED_PORT));
    town.port("F", 0, 0, PortRole::Endpoint, &["10.0.0.9"]);
    let rules = rules_of(&town, 0);
    let text = rules
        .text(
            &rules
                .rules
                .iter()
                .flat_map(|rule| &rule.from)
                .map(|port| (port.name.clone(), port.name.clone()))
                .collect(),
        )
        .unwrap();
    assert_eq!(rules.unsaid.len(), 1, "{:?}", rules.unsaid);
    assert!(
        rules.unsaid[0].what.contains("'c-0' into path 100 of chain 'c'"),
        "{:?}",
        rules.unsaid
    );
    assert!(rules.unsaid[0].why.contains("UDP"), "{:?}", rules.unsaid);
    assert!(text.contains("# not said: rule 'c-0'"), "{text}");
    let rule = "in_port=\"S\",udp,tp_dst=5001,vlan_tci=0x0000/0x1fff,actions=goto_table:20";
    assert!(text.contains(rule), "{text}");
}
