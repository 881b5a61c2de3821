//! Links between nodes: agents find out from nothing who is at the other end of each, tell foreign neighbours
//! from nodes, and notice what is unplugged.

#![allow(clippy::unwrap_used)]

use crate::account;
use crate::house::{CATENA, in_own_house, turn};
use crate::patience::wait_for;
use catena_kernel::lldp_socket::LldpSocket;
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::Netlink;
use catena_kernel::packet::open_packet_socket;
use catena_kernel::process::{enter_namespace, spawn_bound};
use catena_model::discovery::{LinkCondition, LinkReport, Trust};
use catena_wire::lldp::{FRAME_MAX, Identifier, LldpFrame, OwnTlv};
use catena_wire::scalar::{EtherType, MacAddr, Spi};
use catena_wire::source_route::hello::Hello;
use catena_wire::source_route::native::{NativeHeader, PortWidth};
use catena_wire::source_route::profile;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const API: &str = "127.0.0.1:8070";
/// What the flood sends each second.
const FLOOD_FRAMES_PER_SECOND: u32 = 10_000;

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A controller, two switches `a` and `b` that a cable joins at `eth1`, and a stranger at `eth2` of each, by
/// interfaces of his of the names of the nodes.
struct Town {
    runtime: Runtime,
    folder: TempDir,
    hub: NetNamespace,
    nodes: [NetNamespace; 2],
    stranger: NetNamespace,
    /// The last first.
    processes: Vec<Process>,
}

fn command(namespace: &NetNamespace, program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    enter_namespace(&mut command, namespace);
    command
}

impl Drop for Town {
    fn drop(&mut self) {
        self.processes.clear();
        // Data planes go on without their agents; theirs is the folder that they are told of.
        let folder = self.folder.path().display().to_string();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let words = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            let pid = process.file_name().to_str().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw).filter(|_| words.contains(&folder)) {
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }
}

impl Town {
    fn build() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let made = |name: &str| NetNamespace::create_unnamed(name).unwrap();
        let town = Self {
            folder: tempfile::tempdir().unwrap(),
            hub: made("hub"),
            nodes: ["a", "b"].map(made),
            stranger: made("stranger"),
            processes: Vec::new(),
            runtime,
        };
        town.runtime.block_on(town.plug());
        town.begin()
    }

    async fn plug(&self) {
        let hub = Netlink::open(&self.hub).unwrap();
        hub.set_up("lo").await.unwrap();
        let stranger = Netlink::open(&self.stranger).unwrap();
        let [a, b] = self.nodes.each_ref().map(|node| Netlink::open(node).unwrap());
        for (number, (name, links)) in (1..).zip([("a", &a), ("b", &b)]) {
            let node = &self.nodes[usize::from(number) - 1];
            hub.add_veth(name, "mgmt", node, 1_500, None, None).await.unwrap();
            hub.add_address(name, IpAddr::V4(Ipv4Addr::new(10, 9, number, 254)), 24).await.unwrap();
            links
                .add_address("mgmt", IpAddr::V4(Ipv4Addr::new(10, 9, number, 1)), 24)
                .await
                .unwrap();
            stranger.add_veth(name, "eth2", node, 1_500, None, None).await.unwrap();
            for (place, interface) in
                [(links, "lo"), (links, "mgmt"), (links, "eth2"), (&hub, name), (&stranger, name)]
            {
                place.set_up(interface).await.unwrap();
            }
        }
        a.add_veth("eth1", "eth1", &self.nodes[1], 1_500, None, None).await.unwrap();
        for links in [&a, &b] {
            links.set_up("eth1").await.unwrap();
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn begin(mut self) -> Self {
        let data = self.data().display().to_string();
        let words = [
            "controller",
            "--auth",
            "none",
            "--listen",
            API,
            "--southbound",
            "0.0.0.0:8071",
            "--data",
            &data,
        ];
        let hub = self.hub.clone();
        self.start(&hub, CATENA, &words);
        wait_for("the controller", || match self.catena(&["node", "list"]) {
            output if output.status.success() => Ok(()),
            output => Err(format!("{output:?}")),
        });
        for (place, name) in ["a", "b"].into_iter().enumerate() {
            let tls = self.folder.path().join(name).display().to_string();
            let state = self.folder.path().join(format!("{name}-state")).display().to_string();
            let enrolled = self.catena(&["node", "enroll", name, "--data", &data, "--out", &tls]);
            assert!(enrolled.status.success(), "{enrolled:?}");
            let (controller, underlay) =
                (format!("10.9.{}.254:8071", place + 1), format!("10.9.{}.1", place + 1));
            let words = [
                "agent",
                "--node",
                name,
                "--role",
                "switch",
                "--link",
                "eth*",
                "--controller",
                &controller,
                "--tls",
                &tls,
                "--state",
                &state,
                "--underlay",
                &underlay,
            ];
            let node = self.nodes[place].clone();
            self.start(&node, CATENA, &words);
        }
        self
    }

    fn start(&mut self, namespace: &NetNamespace, program: &str, words: &[&str]) {
        let mut command = command(namespace, program, words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.insert(0, Process(spawn_bound(command).unwrap()));
    }

    fn catena(&self, words: &[&str]) -> Output {
        let url = format!("http://{API}");
        command(&self.hub, CATENA, words).env("CATENA_URL", url).output().unwrap()
    }

    fn told<T: serde::de::DeserializeOwned>(&self, words: &[&str]) -> Result<T, String> {
        let output = self.catena(&[words, &["-o", "json"]].concat());
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))
    }

    fn link(&self, name: &str) -> Result<LinkReport, String> {
        self.told(&["link", "show", name])
    }

    fn wait(&self, link: &str, is_so: impl Fn(&LinkReport) -> bool) -> LinkReport {
        wait_for(link, || match self.link(link)? {
            report if is_so(&report) => Ok(report),
            report => Err(format!("{report:?}")),
        })
    }

    fn ip(&self, namespace: &NetNamespace, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        assert!(command(namespace, "ip", &words).status().unwrap().success(), "{words:?}");
    }

    /// The stranger's end of a cable.
    fn at(&self, node: &str) -> LldpSocket {
        let _in_runtime = self.runtime.enter();
        LldpSocket::open(&self.stranger, node).unwrap()
    }

    /// A frame with the signature of nobody.
    fn forged(&self, name: &str) -> Vec<u8> {
        let own = OwnTlv { boot: u64::MAX, sequence: 9, port: 1, signature: [0; 16] };
        let frame = LldpFrame {
            source: MacAddr([2, 0, 0, 0, 0, 9]),
            chassis: Identifier { subtype: Identifier::LOCAL, value: name.as_bytes() },
            port: Identifier { subtype: Identifier::INTERFACE_NAME, value: b"eth1" },
            seconds: 4,
            port_description: None,
            system_name: Some(b"\x1b[2Jevil"),
            own: Some(own),
            signed: &[],
        };
        let mut bytes = [0; FRAME_MAX];
        let length = frame.emit(&mut bytes, |_| [7; 16]).unwrap();
        bytes[..length].to_vec()
    }

    /// A word of a node, as the stranger hears it.
    fn overheard(&self, node: &str) -> Vec<u8> {
        let socket = self.at(node);
        let mut buffer = [0; 1_518];
        let heard = self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(10), socket.receive(&mut buffer)).await
        });
        let length = heard.expect("a node says who it is each second").unwrap();
        buffer[..length].to_vec()
    }

    fn takes_for(&self, link: &str, trust: Trust) -> LinkReport {
        self.wait(link, |report| report.neighbours.iter().any(|one| one.trust == trust))
    }
}

fn leads_to(report: &LinkReport, far: &str) -> bool {
    report.cable.as_ref().is_some_and(|cable| format!("{}:{}", cable.node, cable.interface) == far)
}

#[test]
fn nodes_find_each_other_from_nothing_and_notice_what_is_unplugged() {
    let _turn = turn();
    let town = Town::build();
    let report = town.wait("a:eth1", |report| leads_to(report, "b:eth1"));
    town.wait("b:eth1", |report| leads_to(report, "a:eth1"));
    assert_eq!(
        (report.state, report.number.unwrap().get(), report.trouble),
        (LinkCondition::Up, 1, None)
    );
    assert_eq!(town.link("a:2").unwrap().interface, "eth2");
    town.wait("a:eth1", |report| report.load_permille.is_some());
    let drawn = town.catena(&["link", "list", "-o", "wide"]);
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    assert!(drawn.contains("├─ 1 eth1 ──── b:1 (eth1)"), "{drawn}");

    town.ip(&town.nodes[0], "link set eth1 down");
    let report = town.wait("a:eth1", |report| report.state == LinkCondition::Down);
    assert_eq!((report.cable, report.neighbours), (None, Vec::new()));
    town.wait("b:eth1", |report| report.state == LinkCondition::Down && report.cable.is_none());
    town.ip(&town.nodes[0], "link set eth1 up");
    town.wait("a:eth1", |report| leads_to(report, "b:eth1"));
    // An interface that goes, and one that comes later.
    town.ip(&town.nodes[0], "link del eth2");
    wait_for("the end of a:eth2", || {
        town.link("a:eth2").map_or(Ok(()), |report| Err(format!("{report:?}")))
    });
    town.ip(&town.nodes[0], "link add eth3 type veth peer name far3");
    let report = town.wait("a:eth3", |report| report.number.is_some());
    assert_eq!(report.number.unwrap().get(), 3, "2 rests");
}

#[test]
fn strangers_are_told_from_nodes_and_their_flood_hinders_no_other_link() {
    let _turn = turn();
    let town = Town::build();
    town.wait("a:eth1", |report| leads_to(report, "b:eth1"));
    let at_a = town.at("a");
    at_a.send(&town.forged("b")).unwrap();
    let LinkReport { cable, trouble, .. } = town.takes_for("a:eth2", Trust::Forged);
    assert!(cable.is_none() && trouble.unwrap().contains("'b'"));
    let shown = town.catena(&["link", "show", "a:eth2"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("\\u{1b}[2Jevil") && !shown.contains('\u{1b}'), "{shown}");

    // What a node said at its own link is brought to another's: a word of ours, but nobody hears back.
    let word = town.overheard("b");
    at_a.send(&word).unwrap();
    let LinkReport { cable, trouble, .. } = town.takes_for("a:eth2", Trust::Ours);
    assert!(cable.is_none() && trouble.unwrap().starts_with("one-way: b:2"));
    at_a.send(&word).unwrap();
    town.takes_for("a:eth2", Trust::Replayed);
    at_a.send(&town.overheard("a")).unwrap();
    town.takes_for("a:eth2", Trust::Itself);

    let begun = Instant::now();
    let (mut sent, forged) = (0_u64, town.forged("flood"));
    while begun.elapsed() < Duration::from_secs(4) {
        let due = begun.elapsed().as_millis() as u64 * u64::from(FLOOD_FRAMES_PER_SECOND) / 1_000;
        for _ in sent..due {
            // What the kernel has no room for counts as lost on the way.
            at_a.send(&forged).ok();
        }
        sent = due;
        if sent % 7 == 0 {
            assert!(leads_to(&town.link("a:eth1").unwrap(), "b:eth1"), "{:?}", town.link("a:eth1"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(sent > 30_000, "{sent}");
    let report = town.wait("a:eth2", |report| report.flooded > 0);
    assert!(report.flooded > sent / 2, "{report:?} of {sent}");
    for end in ["a:eth1", "b:eth1"] {
        assert!(town.link(end).unwrap().cable.is_some(), "{end}: {:?}", town.link(end));
    }
}

/// A frame with the way over these ports, none of which is taken.
fn routed(way: &[u8]) -> Vec<u8> {
    let header = NativeHeader {
        width: PortWidth::Eight,
        way,
        path: Spi::new(7).ok(),
        tag: None,
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    let mut frame = vec![2; header.len_bytes()];
    header.emit(&mut frame).unwrap();
    frame.extend([0x45; 50]);
    frame
}

/// What a packet socket of ports has before each frame.
const NO_OFFLOAD: [u8; 10] = [0; 10];

#[test]
fn switches_pass_on_nothing_that_strangers_send_whatever_it_says() {
    let _turn = turn();
    let town = Town::build();
    for end in ["a:eth1", "b:eth1"] {
        town.wait(end, |report| report.cable.is_some());
    }
    let numbers: Vec<u8> =
        ["a:eth1", "b:eth2"].map(|link| town.link(link).unwrap().number.unwrap().get()).to_vec();
    let [at_a, at_b] = ["a", "b"].map(|port| open_packet_socket(&town.stranger, port).unwrap());
    let send = |frame: &[u8]| {
        let bytes = [&NO_OFFLOAD[..], frame].concat();
        rustix::net::send(&at_a, &bytes, SendFlags::empty()).unwrap();
    };
    let account = wait_for("the accounts of links", || {
        for frame in [routed(&numbers), routed(&[99])] {
            send(&frame);
        }
        // What else may be on a cable is nothing to a data plane.
        send(&[&[2; 12][..], &[0x08, 0x00], &[0x45; 60]].concat());
        send(&[&[2; 12][..], &[0x88, 0x47], &[0x45; 60]].concat());
        let nodes: Value = town.told(&["node", "list"])?;
        let links = &nodes[0]["counters"]["links"];
        let own = links.as_array().and_then(|all| all.iter().find(|link| link["name"] == "eth2"));
        let account = own.map(|link| link["account"].clone()).ok_or(format!("{nodes}"))?;
        let dropped = account["dropped"]["unknown_neighbour"].as_u64();
        if dropped >= Some(20) { Ok(account) } else { Err(account.to_string()) }
    });
    assert_eq!(account["dropped"].as_object().unwrap().len(), 1, "{account}");
    // It says words, which nobody answers, and forwards nothing else.
    assert_eq!(account["forwarded"]["packets"], account["created"]["hello"], "{account}");
    let mut bytes = [0; 2_048];
    while let Ok((length, _)) = rustix::net::recv(&at_b, &mut bytes, RecvFlags::DONTWAIT) {
        let frame = &bytes[NO_OFFLOAD.len()..length];
        assert!(profile(frame).is_none() || Hello::is_one(frame), "{frame:?}");
    }
}

/// What the real lldpd says.
fn neighbours_of_lldpd(town: &Town, socket: &str) -> Result<Value, String> {
    let output =
        command(&town.stranger, "lldpcli", &["-u", socket, "-f", "json", "show", "neighbors"])
            .output();
    let output = output.map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))
}

#[test]
fn the_real_lldpd_and_our_nodes_show_each_other_by_name_and_port() {
    const TEST: &str = "the_real_lldpd_and_our_nodes_show_each_other_by_name_and_port";
    if Command::new("lldpcli").arg("-v").output().is_err() {
        println!("SKIPPED: {TEST}: lldpd is not installed");
        return;
    }
    let _turn = turn();
    let mut town = Town::build();
    let folder = town.folder.path().display().to_string();
    let socket = format!("{folder}/lldpd");
    let stranger = town.stranger.clone();
    // It speaks when it starts, and half a minute later.
    town.wait("a:eth2", |report| report.number.is_some());
    town.start(
        &stranger,
        "lldpd",
        &["-d", "-u", &socket, "-I", "a", "-S", "press", "-P", "platform"],
    );
    let report = town.takes_for("a:eth2", Trust::Unsigned);
    let neighbour = report.neighbours.iter().find(|one| one.trust == Trust::Unsigned).unwrap();
    assert_eq!(neighbour.port, "a", "{report:?}");
    assert!(!neighbour.system.is_empty() && report.cable.is_none(), "{report:?}");
    assert!(report.trouble.unwrap().contains("signs nothing"));
    let seen = wait_for("our node, as lldpd sees it", || {
        let seen = neighbours_of_lldpd(&town, &socket)?;
        let interface = seen["lldp"]["interface"]["a"].clone();
        if interface.is_null() { Err(seen.to_string()) } else { Ok(interface) }
    });
    assert!(!seen["chassis"]["a"].is_null(), "its name: {seen}");
    assert_eq!(seen["port"]["id"]["value"], "eth2", "{seen}");
    assert_eq!(seen["port"]["descr"], "eth2", "{seen}");
}

/// Switches of a lab are nodes, and it stands when each of its cables is found; two between the same switches are two.
#[test]
fn a_lab_with_switches_stands_when_every_cable_of_its_file_is_found() {
    in_own_house("triangle.yaml", |house| {
        let links = house.client.links().unwrap();
        let mut found: Vec<String> = links
            .iter()
            .map(|link| {
                let far = link.cable.as_ref().unwrap();
                format!("{}:{} {}:{}", link.node, link.interface, far.node, far.interface)
            })
            .collect();
        found.sort();
        assert_eq!(found.len(), 16, "{found:?}");
        for cable in
            ["a1:l-a2 a2:l-a1", "a1:l-a2-2 a2:l-a1-2", "h1:l-h3 h3:l-h1", "a3:l-h3 h3:l-a3"]
        {
            assert!(found.iter().any(|one| one == cable), "{cable} in {found:?}");
        }
        let wide = |link: &&catena_model::discovery::LinkReport| link.mtu == Some(9_000);
        let wide =
            links.iter().filter(wide).map(|link| format!("{}:{}", link.node, link.interface));
        assert_eq!(wide.collect::<Vec<_>>(), ["h1:l-h3", "h3:l-h1"]);
        assert!(links.iter().all(|link| link.mtu.is_some()), "{links:?}");
        let drawn = house.tell(&["link", "list", "-o", "wide"]);
        assert!(drawn.contains("l-a2-2 ──── a2:"), "{drawn}");
        let roles: Vec<String> = house
            .client
            .nodes()
            .unwrap()
            .iter()
            .map(|node| format!("{}={}", node.status.node, node.status.role.word()))
            .collect();
        assert!(
            roles.contains(&"a1=switch".into()) && roles.contains(&"h1=host".into()),
            "{roles:?}"
        );
        // A kernel path repeats flows of ports of tenants; a switch has none, and passes on by links.
        for node in account::counters(house) {
            let kernel = node.dataplane.kernel.as_deref().unwrap();
            let has_flows = kernel.flows_max > 0;
            assert_eq!(has_flows, node.node.as_str().starts_with('h'), "{}", node.node);
        }
    });
}
