//! The accounting identity, from outside: what `GET /v1/nodes` says must leave nothing over, at
//! any moment, for every port, for the tunnels and for the node.

use crate::house::House;
use crate::patience::wait_for;
use catena_model::DropReason;
use catena_model::account::{ChainCounters, NodeCounters, Volume};
use catena_model::status::{ChainReport, NodeReport};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long nothing must move to be called still.
const MOMENT: Duration = Duration::from_millis(100);

/// The counters of every node; each must answer.
pub(crate) fn counters(house: &House) -> Vec<NodeCounters> {
    let of = |node: NodeReport| {
        node.counters.unwrap_or_else(|| panic!("{} tells no counters", node.status.node))
    };
    house.nodes().into_iter().map(of).collect()
}

/// Nothing is unaccounted, anywhere.
pub(crate) fn assert_holds(house: &House) {
    for node in counters(house) {
        assert_eq!(node.total().unaccounted(), 0, "{}: {:?}", node.node, node.total());
        assert_eq!(node.tunnels.unaccounted(), 0, "{} tunnels: {:?}", node.node, node.tunnels);
        for port in &node.ports {
            let account = &port.account;
            assert_eq!(account.unaccounted(), 0, "{} {}: {account:?}", node.node, port.name);
        }
    }
}

/// Frames that the kernel lost before anybody received them, over all nodes.
pub(crate) fn ring_full(house: &House) -> u64 {
    counters(house).iter().map(NodeCounters::ring_full).sum()
}

/// What became of frames that ended at ports and in tunnels, by node and reason.
pub(crate) fn dropped(house: &House) -> BTreeMap<(String, DropReason), u64> {
    let mut dropped = BTreeMap::new();
    for node in counters(house) {
        let ports = node.ports.iter().map(|port| &port.account);
        for (reason, count) in ports.chain([&node.tunnels]).flat_map(|account| &account.dropped) {
            *dropped.entry((node.node.to_string(), *reason)).or_default() += count;
        }
    }
    dropped
}

/// What a chain counted over all nodes, on the path in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChainTotal {
    pub(crate) entered: u64,
    pub(crate) finished: u64,
    pub(crate) dropped: u64,
    /// By hop: name, delivered, returned.
    pub(crate) hops: BTreeMap<u16, (String, u64, u64)>,
}

impl ChainTotal {
    pub(crate) fn of(report: &ChainReport) -> Self {
        let mut total = Self::default();
        let in_use =
            |counters: &ChainCounters| report.status.path.is_none_or(|p| p == counters.path);
        for node in report.nodes.iter().filter(|node| in_use(&node.counters)) {
            let counters = &node.counters;
            total.entered += counters.entered.packets;
            total.finished += counters.finished.packets;
            total.dropped += counters.dropped.values().sum::<u64>();
            for hop in &counters.hops {
                let entry = total.hops.entry(hop.hop).or_default();
                entry.0.clone_from(&hop.name);
                entry.1 += hop.delivered.packets;
                entry.2 += hop.returned.packets;
            }
        }
        total
    }

    /// What it must be when `packets` took the whole chain and nothing else happened.
    pub(crate) fn whole(packets: u64, functions: &[&str]) -> Self {
        let hops =
            (0..).zip(functions).map(|(hop, name)| (hop, ((*name).into(), packets, packets)));
        Self { entered: packets, finished: packets, dropped: 0, hops: hops.collect() }
    }
}

/// The chain counted exactly so; counters may be a moment behind the packets.
pub(crate) fn assert_chain(house: &House, chain: &str, expected: &ChainTotal) {
    wait_for("the expected counters of the chain", || {
        let found = ChainTotal::of(&house.chain(chain));
        if found == *expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}")) }
    });
}

/// What ports counted, by name: what the data plane says and what the interface behind says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortTotal {
    /// Sent by the data plane, received by the interface.
    pub(crate) into: (u64, u64),
    /// Received by the data plane, sent by the interface.
    pub(crate) out: (u64, u64),
}

/// The counters of all ports while nothing moves: data plane and interfaces are asked one after
/// the other, and a packet between the two would be a difference for ever.
pub(crate) fn still_ports(house: &House) -> BTreeMap<String, PortTotal> {
    let mut before = ports(house);
    wait_for("a moment without packets", || {
        std::thread::sleep(MOMENT);
        let now = ports(house);
        let is_still = now == before;
        before.clone_from(&now);
        if is_still { Ok(now) } else { Err("packets move".to_owned()) }
    })
}

/// The counters of all ports of endpoints and functions.
fn ports(house: &House) -> BTreeMap<String, PortTotal> {
    let mut ports = BTreeMap::new();
    for node in counters(house) {
        for port in node.ports {
            let interface = port.interface.unwrap_or_default();
            let packets = |volume: Volume| volume.packets;
            let total = PortTotal {
                into: (packets(port.transmitted), packets(interface.received)),
                out: (packets(port.account.received), packets(interface.transmitted)),
            };
            ports.insert(port.name, total);
        }
    }
    ports
}

/// Between two looks, data plane and interfaces counted the same at every port.
pub(crate) fn assert_interfaces_agree(house: &House, before: &BTreeMap<String, PortTotal>) {
    wait_for("interfaces that agree with the data plane", || {
        for (name, now) in ports(house) {
            let then = before.get(&name).copied().unwrap_or_default();
            let into = (now.into.0 - then.into.0, now.into.1 - then.into.1);
            let out = (now.out.0 - then.out.0, now.out.1 - then.out.1);
            if into.0 != into.1 || out.0 != out.1 {
                return Err(format!("{name}: into it {into:?}, out of it {out:?}"));
            }
        }
        Ok(())
    });
}
