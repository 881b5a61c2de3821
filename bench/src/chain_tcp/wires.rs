//! Namespaces and cables of a peer's test bed. All of it has names of its own and is gone with the
//! value, and what an earlier run left is taken away before.

use super::chains::Node;
use crate::peers::Unavailable;
use crate::peers::program::run;
use std::collections::BTreeMap;
use std::process::Command;

const PREFIX: &str = "catena-peer-";
/// Interfaces get indices from here on, so that whoever redirects knows them.
const FIRST_INDEX: u32 = 1_000;
/// MTU of tenant cables, as in every lab.
pub(crate) const TENANT_MTU: u16 = catena_model::limits::TENANT_MTU_BYTES;
/// MTU of cables between hosts.
pub(crate) const UNDERLAY_MTU: u16 = 1_500;
pub(crate) const SOURCE_ADDRESS: &str = "10.10.0.10";
pub(crate) const DESTINATION_ADDRESS: &str = "10.10.0.11";

/// An end of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plug {
    pub(crate) node: Node,
    pub(crate) device: String,
    pub(crate) mac: String,
    pub(crate) index: u32,
}

/// Namespaces with cables between them.
pub(crate) struct Wires {
    /// Nodes that are in a namespace of another's process.
    guests: BTreeMap<Node, u32>,
    nodes: Vec<Node>,
    next: u32,
}

impl Wires {
    pub(crate) fn new() -> Result<Self, Unavailable> {
        let wires = Self { guests: BTreeMap::new(), nodes: Vec::new(), next: 0 };
        wires.clear();
        Ok(wires)
    }

    /// Makes the namespaces of these nodes, each once, as those of a lab are.
    pub(crate) fn add(&mut self, nodes: &[Node]) -> Result<(), Unavailable> {
        for node in nodes {
            if self.nodes.contains(node) {
                continue;
            }
            self.nodes.push(*node);
            run(Command::new("ip").args(["netns", "add", &namespace(*node)]))?;
            self.ip(*node, &["link", "set", "lo", "up"])?;
            let mut settings = vec![
                "net.ipv6.conf.all.disable_ipv6=1",
                "net.ipv6.conf.default.disable_ipv6=1",
                "net.ipv4.conf.all.rp_filter=0",
                "net.ipv4.conf.default.rp_filter=0",
                "net.ipv4.conf.all.send_redirects=0",
                "net.ipv4.conf.default.send_redirects=0",
            ];
            if matches!(node, Node::Function(_)) {
                settings.push("net.ipv4.ip_forward=1");
            }
            run(self.inside(*node).args(["sysctl", "-qw"]).args(settings))?;
        }
        Ok(())
    }

    /// A node that is the namespace of a process that runs already.
    pub(crate) fn adopt(&mut self, node: Node, pid: u32) {
        self.guests.insert(node, pid);
    }

    /// A command inside a node; its program is the first argument to be added.
    pub(crate) fn inside(&self, node: Node) -> Command {
        match self.guests.get(&node) {
            Some(pid) => {
                let mut command = Command::new("nsenter");
                command.args(["-t", &pid.to_string(), "--net"]);
                command
            }
            None => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &namespace(node)]);
                command
            }
        }
    }

    pub(crate) fn ip(&self, node: Node, words: &[&str]) -> Result<String, Unavailable> {
        run(self.inside(node).arg("ip").args(words))
    }

    /// A veth pair, up at both ends.
    pub(crate) fn cable(&mut self, a: Node, b: Node, mtu: u16) -> Result<[Plug; 2], Unavailable> {
        let number = self.next;
        self.next += 1;
        let plug = |node: Node, side: u32, letter: char| Plug {
            node,
            device: format!("c{number}{letter}"),
            mac: format!("02:cb:00:{:02x}:{:02x}:0{side}", number >> 8, number & 0xff),
            index: FIRST_INDEX + 2 * number + side,
        };
        let plugs = [plug(a, 0, 'a'), plug(b, 1, 'b')];
        let mut command = Command::new("ip");
        command.args(["link", "add"]);
        for (at, plug) in plugs.iter().enumerate() {
            if at > 0 {
                command.args(["type", "veth", "peer"]);
            }
            let place = match self.guests.get(&plug.node) {
                Some(pid) => pid.to_string(),
                None => namespace(plug.node),
            };
            command.args(["name", &plug.device, "index", &plug.index.to_string()]);
            command.args(["address", &plug.mac, "mtu", &mtu.to_string(), "netns", &place]);
        }
        run(&mut command)?;
        for plug in &plugs {
            self.ip(plug.node, &["link", "set", &plug.device, "up"])?;
        }
        Ok(plugs)
    }

    /// The way through stops that speak Ethernet to each other: each knows the next one's address,
    /// as if it had asked for it.
    pub(crate) fn address_stops(
        &self,
        stops: &[Plug],
        destination: &str,
    ) -> Result<(), Unavailable> {
        for (stop, next) in stops.iter().zip(stops.iter().skip(1)) {
            let device = &stop.device;
            if matches!(stop.node, Node::Function(_)) {
                self.ip(stop.node, &["route", "add", destination, "dev", device])?;
            }
            let entry = ["neigh", "replace", destination, "lladdr", &next.mac, "dev", device];
            self.ip(stop.node, &[&entry[..], &["nud", "permanent"]].concat())?;
        }
        Ok(())
    }

    fn clear(&self) {
        let there = run(Command::new("ip").args(["netns", "list"])).unwrap_or_default();
        let names = there.lines().filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| name.starts_with(PREFIX)) {
            // One that cannot be deleted fails whoever makes it again, with a reason.
            let _ = run(Command::new("ip").args(["netns", "del", name]));
        }
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        self.clear();
    }
}

fn namespace(node: Node) -> String {
    format!("{PREFIX}{}", node.name())
}
