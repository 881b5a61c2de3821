//! What the data planes counted between two moments. Knows the identity and the interfaces'
//! own counters; refuses to know what made the traffic.

use crate::error::Result;
use crate::vocabulary::{Lab, LinkEnd};
use catena_client::Client;
use catena_client::deploy::{ChainStep, Direction};
use catena_model::DropReason;
use catena_model::account::{self, Created, DataplaneLife, NodeCounters, PortCounters, Volume};
use catena_model::id::ChainId;
use catena_model::setup::SetupCounters;
use catena_model::status::NodeReport;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often counters are read again while packets may still be on their way.
const READS_MAX: usize = 20;
/// Pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(50);

/// What is told of a counter that lost something.
const BACKWARDS: &str = "its counters went backwards; was a data plane started anew?";

/// The counters of all nodes at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot(Vec<NodeReport>);

/// What a link counted without the words of data planes, in packets.
fn wordless(link: &PortCounters) -> PortCounters {
    let mut link = link.clone();
    let said = link.account.created.remove(&Created::Hello).unwrap_or_default();
    let heard = std::mem::take(&mut link.account.consumed);
    let less = |volume: &mut Volume, packets: u64| {
        *volume = Volume { packets: volume.packets.saturating_sub(packets), bytes: 0 };
    };
    less(&mut link.account.received, heard);
    less(&mut link.account.forwarded, said);
    less(&mut link.transmitted, said);
    link.interface = None;
    link
}

/// A chain of the lab that is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its name in the lab file.
    pub(crate) name: String,
    /// Its identity, as the API writes it.
    pub(crate) id: String,
}

/// What a run did to the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Account {
    /// What the identity leaves over, as a sum of absolute values over ports and tunnels.
    pub(crate) unaccounted: u64,
    /// Frames that rings or sockets lost.
    pub(crate) ring_full: u64,
    /// Interfaces of functions that counted something else than the data plane.
    pub(crate) differing: Vec<String>,
    /// Hops that got or gave back something else than what entered their chain.
    pub(crate) uneven: Vec<String>,
    /// Packets that entered each chain, by its name.
    pub(crate) entered: BTreeMap<String, u64>,
    /// How often nodes held a neighbour for silent.
    pub(crate) silences: u64,
    /// Nodes that did not answer.
    pub(crate) silent: Vec<String>,
}

/// A hop, and the place of a function among those of that hop.
type Place = (u16, u8);

/// What one chain counted, over all nodes, in wire packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ChainCount {
    entered: u64,
    finished: u64,
    /// Delivered and returned, by the place of the function and name of the instance.
    hops: BTreeMap<(Place, String), (u64, u64)>,
}

impl ChainCount {
    /// The instances of a hop get, together, all that entered and give it back; a tap gets a copy
    /// of it all and gives nothing back. None if a counter went backwards.
    fn faults_since(&self, then: &Self, taps: &BTreeSet<String>) -> Option<Vec<String>> {
        let entered = gain(self.entered, then.entered)?;
        let finished = gain(self.finished, then.finished)?;
        let mut faults = Vec::new();
        if entered != finished {
            faults.push(format!("{entered} entered, {finished} finished"));
        }
        let mut hops: BTreeMap<Place, (Vec<&str>, u64, u64)> = BTreeMap::new();
        for (key, (given, back)) in &self.hops {
            let (given_then, back_then) = then.hops.get(key).copied().unwrap_or_default();
            let (place, name) = key;
            let (names, all_given, all_back) = hops.entry(*place).or_default();
            names.push(name);
            *all_given = all_given.saturating_add(gain(*given, given_then)?);
            *all_back = all_back.saturating_add(gain(*back, back_then)?);
        }
        for (names, given, back) in hops.into_values() {
            let is_tap = names.iter().all(|name| taps.contains(*name));
            if (given, back) != (entered, if is_tap { 0 } else { entered }) {
                let names = names.join(", ");
                faults.push(format!("{entered} entered, {names} got {given} and gave back {back}"));
            }
        }
        Some(faults)
    }
}

/// What a counter gained; none if it went backwards, as the counters of a new process do.
fn gain(now: u64, then: u64) -> Option<u64> {
    now.checked_sub(then)
}

impl Snapshot {
    pub(crate) fn take(client: &Client) -> Result<Self> {
        Ok(Self(client.nodes()?))
    }

    /// Takes the counters when nothing moves any more: a node's own and those of its interfaces
    /// are read one after the other, and a frame in between would stay a difference for ever.
    pub(crate) fn take_at_rest(client: &Client) -> Result<Self> {
        let mut last = Self::take(client)?;
        for _ in 0..READS_MAX {
            std::thread::sleep(READ_PAUSE);
            let now = Self::take(client)?;
            let is_at_rest = now.moving().eq(last.moving());
            last = now;
            if is_at_rest {
                break;
            }
        }
        Ok(last)
    }

    /// All that packets move: time goes on when nothing else does, and so do words between data planes.
    fn moving(&self) -> impl Iterator<Item = NodeCounters> {
        let timeless = |node: &NodeCounters| NodeCounters {
            dataplane: DataplaneLife::default(),
            links: node.links.iter().map(wordless).collect(),
            ..node.clone()
        };
        self.nodes().map(timeless)
    }

    /// How set-ups of flows went, over all nodes.
    pub(crate) fn setups(&self) -> SetupCounters {
        let mut all = SetupCounters::default();
        self.nodes().for_each(|node| all.merge(&node.setups));
        all
    }

    /// What was lost since `before`: drops by name, frames that left into a cable that failed and did not come out at
    /// its other end, and what functions that died had been given and never gave back.
    pub(crate) fn losses_since(&self, before: &Self, lab: &Lab) -> u64 {
        let drops = |snapshot: &Self| -> u64 {
            let accounts = snapshot.nodes().flat_map(|node| {
                let ports = node.ports.iter().chain(&node.links);
                ports.map(|port| &port.account).chain([&node.tunnels])
            });
            accounts.flat_map(|account| account.dropped.values()).sum()
        };
        let on_cables = |snapshot: &Self| -> u64 {
            let link = |end: &LinkEnd| {
                let node = snapshot.nodes().find(|node| node.node.as_str() == end.node)?;
                let mut links = node.links.iter();
                links.find(|link| link.name == end.interface).map(wordless)
            };
            let lost = |from: &LinkEnd, to: &LinkEnd| {
                let (from, to) = (link(from)?, link(to)?);
                let came = to.account.received.packets.saturating_add(to.ring_full);
                Some(from.transmitted.packets.saturating_sub(came))
            };
            let failed = lab.faults.iter().map(|fault| fault.cable).collect::<BTreeSet<_>>();
            let cables = failed.into_iter().filter_map(|cable| Some(&lab.cables.get(cable)?.ends));
            let both = cables.flat_map(|[one, other]| [lost(one, other), lost(other, one)]);
            both.flatten().sum()
        };
        let all = |snapshot: &Self| {
            let in_hand = snapshot.died_with(lab);
            drops(snapshot).saturating_add(on_cables(snapshot)).saturating_add(in_hand)
        };
        all(self).saturating_sub(all(before))
    }

    /// What instances of functions that die in this lab were given and did not give back.
    fn died_with(&self, lab: &Lab) -> u64 {
        let is_of = |name: &str| {
            let own = |function: &str| {
                let rest = name.strip_prefix(function);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            lab.kills.iter().any(|kill| own(&kill.function))
        };
        let chains = self.nodes().flat_map(|node| &node.chains);
        let hops = chains.flat_map(|chain| &chain.hops).filter(|hop| is_of(&hop.name));
        hops.map(|hop| hop.delivered.packets.saturating_sub(hop.returned.packets)).sum()
    }

    /// Packets that were dropped by a name where they came in: at a port, by its name, or at a link of a node.
    pub(crate) fn dropped_at(&self, node: Option<&str>, port: &str, reason: DropReason) -> u64 {
        let nodes = self.nodes().filter(|one| node.is_none_or(|node| one.node.as_str() == node));
        let ports = nodes.flat_map(|one| one.ports.iter().chain(&one.links));
        let dropped = ports.filter(|one| one.name == port);
        dropped.filter_map(|one| one.account.dropped.get(&reason)).sum()
    }

    /// Packets that rules of bundled functions ended since `before` on the paths of a chain: at this host, or anywhere.
    pub(crate) fn denied_since(&self, before: &Self, chain: &str, host: Option<&str>) -> u64 {
        let denied = |snapshot: &Self| -> u64 {
            let nodes =
                snapshot.nodes().filter(|one| host.is_none_or(|host| one.node.as_str() == host));
            let chains = nodes.flat_map(|node| &node.chains);
            let of_chain = chains.filter(|counters| counters.chain.to_string() == chain);
            of_chain.filter_map(|it| it.dropped.get(&DropReason::FunctionDenied)).sum()
        };
        let (now, then) = (denied(self), denied(before));
        gain(now, then).unwrap_or(now)
    }

    /// Frames since `before` for which there was no room on their way into an engine: in rings, or in what the kernel's
    /// path may hand on.
    pub(crate) fn refused_since(&self, before: &Self) -> u64 {
        let dropped = |account: &account::Account| {
            account.dropped.get(&DropReason::PuntShareFull).copied().unwrap_or_default()
        };
        let of = |node: &NodeCounters| {
            let ports = node.ports.iter().chain(&node.links).map(|port| dropped(&port.account));
            node.ring_full() + dropped(&node.tunnels) + ports.sum::<u64>()
        };
        let all = |snapshot: &Self| -> u64 { snapshot.nodes().map(of).sum() };
        all(self).saturating_sub(all(before))
    }

    fn nodes(&self) -> impl Iterator<Item = &NodeCounters> {
        self.0.iter().filter_map(|report| report.counters.as_ref())
    }

    fn ports(&self) -> impl Iterator<Item = &PortCounters> {
        self.nodes().flat_map(|node| &node.ports)
    }

    /// What happened from `before` until now, with these chains deployed.
    pub(crate) fn since(&self, before: &Self, lab: &Lab, standing: &[Standing]) -> Account {
        let ring_full =
            |snapshot: &Self| -> u64 { snapshot.nodes().map(NodeCounters::ring_full).sum() };
        let unaccounted = self.nodes().map(|node| {
            let ports = node.ports.iter().chain(&node.links);
            let ports = ports.map(|port| port.account.unaccounted().unsigned_abs());
            ports.sum::<u128>() + node.tunnels.unaccounted().unsigned_abs()
        });
        let silences = |snapshot: &Self| -> u64 {
            let lives = snapshot.nodes().flat_map(|node| &node.link_lives);
            lives.map(|life| life.silences).sum()
        };
        let silent = self.0.iter().filter(|report| report.counters.is_none());
        Account {
            unaccounted: u64::try_from(unaccounted.sum::<u128>()).unwrap_or(u64::MAX),
            ring_full: ring_full(self).saturating_sub(ring_full(before)),
            differing: self.differing(before, lab),
            uneven: self.uneven(before, &taps_of(lab), standing),
            entered: self.entered(before, standing),
            silences: silences(self).saturating_sub(silences(before)),
            silent: silent.map(|report| report.status.node.to_string()).collect(),
        }
    }

    /// Frames, both ways, that the interface of each port counted from `before` until now.
    pub(crate) fn frames_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let all = |port: &PortCounters| {
            let interface = port.interface?;
            Some(interface.received.packets.saturating_add(interface.transmitted.packets))
        };
        let count = |now: &PortCounters| {
            let then = before.ports().find(|port| port.port == now.port)?;
            Some((now.name.clone(), gain(all(now)?, all(then)?)?))
        };
        self.ports().filter_map(count).collect()
    }

    fn chains(&self) -> BTreeMap<ChainId, ChainCount> {
        let mut chains: BTreeMap<ChainId, ChainCount> = BTreeMap::new();
        for counters in self.nodes().flat_map(|node| &node.chains) {
            let count = chains.entry(counters.chain).or_default();
            count.entered = count.entered.saturating_add(counters.entered.packets);
            count.finished = count.finished.saturating_add(counters.finished.packets);
            for hop in &counters.hops {
                let key = ((hop.hop, hop.member), hop.name.clone());
                let (given, back) = count.hops.entry(key).or_default();
                *given = given.saturating_add(hop.delivered.packets);
                *back = back.saturating_add(hop.returned.packets);
            }
        }
        chains
    }

    /// A chain that no node counts has been given nothing; a counter that began anew, as those of a
    /// new path do, tells what it has counted since.
    fn entered(&self, before: &Self, standing: &[Standing]) -> BTreeMap<String, u64> {
        let of = |chains: &BTreeMap<ChainId, ChainCount>, id: &str| -> u64 {
            let it = chains.iter().filter(|(chain, _)| chain.to_string() == id);
            it.map(|(_, count)| count.entered).sum()
        };
        let (now, then) = (self.chains(), before.chains());
        let one = |chain: &Standing| {
            let counted = of(&now, &chain.id);
            (chain.name.clone(), gain(counted, of(&then, &chain.id)).unwrap_or(counted))
        };
        standing.iter().map(one).collect()
    }

    fn uneven(&self, before: &Self, taps: &BTreeSet<String>, standing: &[Standing]) -> Vec<String> {
        let name = |chain: &ChainId| {
            let id = chain.to_string();
            let known = standing.iter().find(|standing| standing.id == id);
            known.map_or(id, |standing| standing.name.clone())
        };
        let then = before.chains();
        let nothing = ChainCount::default();
        let mut uneven = Vec::new();
        for (chain, now) in self.chains() {
            match now.faults_since(then.get(&chain).unwrap_or(&nothing), taps) {
                Some(faults) => {
                    let told = |fault| format!("chain '{}': {fault}", name(&chain));
                    uneven.extend(faults.into_iter().map(told));
                }
                None => uneven.push(format!("chain '{}': {BACKWARDS}", name(&chain))),
            }
        }
        uneven
    }

    fn differing(&self, before: &Self, lab: &Lab) -> Vec<String> {
        let is_function = |port: &&PortCounters| {
            port.name.split_once('@').is_some_and(|(device, _)| lab.functions.contains(device))
        };
        let mut differing = Vec::new();
        for now in self.ports().filter(is_function) {
            let Some(then) = before.ports().find(|port| port.port == now.port) else { continue };
            let (Some(inside), Some(inside_then)) = (now.interface, then.interface) else {
                differing.push(format!("{}: its interface's counters are missing", now.name));
                continue;
            };
            let gains = || {
                let given = gain(now.transmitted.packets, then.transmitted.packets)?;
                let got = gain(inside.received.packets, inside_then.received.packets)?;
                let taken = gain(now.account.received.packets, then.account.received.packets)?
                    .saturating_add(gain(now.ring_full, then.ring_full)?);
                let sent = gain(inside.transmitted.packets, inside_then.transmitted.packets)?;
                Some([(given, got), (taken, sent)])
            };
            match gains() {
                Some([(given, got), (taken, sent)]) if given != got || taken != sent => {
                    differing.push(format!(
                        "{}: data plane gave {given} and took {taken}, interface got {got} and \
                         sent {sent}",
                        now.name
                    ));
                }
                Some(_) => {}
                None => differing.push(format!("{}: {BACKWARDS}", now.name)),
            }
        }
        differing
    }
}

/// The instances that get copies.
fn taps_of(lab: &Lab) -> BTreeSet<String> {
    let steps = lab.chains.iter().flat_map(|chain| &chain.document.chain);
    let taps = steps.filter(|step| step.direction == Direction::Tap);
    taps.flat_map(ChainStep::all_instances).map(|instance| instance.name).collect()
}

/// What happened since `before`, and how the counters stand; reads again while the counters of
/// interfaces and data planes, which are not read at one instant, still differ.
pub(crate) fn settle(
    client: &Client,
    before: &Snapshot,
    lab: &Lab,
    standing: &[Standing],
) -> Result<(Account, Snapshot)> {
    let mut now = Snapshot::take(client)?;
    let mut account = Account::default();
    for _ in 0..READS_MAX {
        std::thread::sleep(READ_PAUSE);
        now = Snapshot::take(client)?;
        account = now.since(before, lab, standing);
        let is_settled =
            account.unaccounted == 0 && account.differing.is_empty() && account.silent.is_empty();
        if is_settled {
            break;
        }
    }
    Ok((account, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAME: &str = "v1@customer";
    const CHAIN: &str = "00000000-0000-0000-0000-000000000001";

    fn lab() -> Lab {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/openstack-testbed.yaml");
        Lab::read(file.as_ref(), false).unwrap()
    }

    /// A node whose one function got `count` packets through one chain and gave them back.
    fn snapshot(count: u64, ring_full: u64) -> Snapshot {
        let id = CHAIN;
        let volume = json!({"packets": count, "bytes": count});
        let none = json!({"received": {"packets": 0, "bytes": 0}, "created": {}, "consumed": 0,
            "forwarded": {"packets": 0, "bytes": 0}, "dropped": {}, "held": 0});
        let mut account = none.clone();
        account["received"] = volume.clone();
        account["forwarded"] = volume.clone();
        let report = json!({
            "status": {"node": "host1", "is_connected": true, "wanted": 1, "acknowledged": 1,
                "bound": [], "unbound": []},
            "counters": {"node": "host1", "program": 1, "tunnels": none,
                "tunnels_transmitted": {"packets": 0, "bytes": 0}, "tunnels_ring_full": 0,
                "ports": [{"port": id, "name": NAME, "account": account, "transmitted": volume,
                    "created_by_function": 0, "lost_in_function": 0, "ring_full": ring_full,
                    "interface": {"received": volume, "transmitted": volume}}],
                "chains": [{"chain": id, "path": 1, "entered": volume, "finished": volume,
                    "tapped": {"packets": 0, "bytes": 0}, "pinned_flows": 0,
                    "tunnelled_out": volume, "tunnelled_in": volume, "dropped": {},
                    "hops": [{"hop": 0, "instance": id, "name": "v1", "delivered": volume,
                        "returned": volume, "rewritten": 0, "ambiguous": 0}]}]},
        });
        Snapshot(vec![serde_json::from_value(report).unwrap()])
    }

    #[test]
    fn a_run_that_lost_nothing_is_even() {
        let account = snapshot(70, 0).since(&snapshot(20, 0), &lab(), &[]);
        assert_eq!(account, Account::default());
    }

    #[test]
    fn how_often_neighbours_fell_silent_is_counted_from_before_until_now() {
        let fell_silent = |silences: &[u64]| {
            let mut snapshot = snapshot(1, 0);
            let life = |silences: &u64| json!({"port": CHAIN, "is_known": true, "is_silent": false, "silences": silences, "detoured": 0});
            let lives = silences.iter().map(life).map(|life| serde_json::from_value(life).unwrap());
            snapshot.0[0].counters.as_mut().unwrap().link_lives = lives.collect();
            snapshot
        };
        let account = fell_silent(&[3, 1]).since(&fell_silent(&[2, 0]), &lab(), &[]);
        assert_eq!(account.silences, 2);
    }

    #[test]
    fn what_entered_is_told_by_the_chains_name_also_of_one_that_nobody_counts() {
        let chain = |name: &str, id: &str| Standing { name: name.into(), id: id.into() };
        let all = [chain("used", CHAIN), chain("idle", "00000000-0000-0000-0000-000000000002")];
        let entered = |now: u64, then: u64| {
            let found = snapshot(now, 0).since(&snapshot(then, 0), &lab(), &all).entered;
            (found["used"], found["idle"])
        };
        assert_eq!(entered(70, 20), (50, 0));
        assert_eq!(entered(20, 20), (0, 0));
        assert_eq!(entered(5, 20), (5, 0));
    }

    #[test]
    fn instances_share_what_entered_and_a_tap_gives_nothing_back() {
        let count = |hops: &[(u16, &str, u64, u64)]| ChainCount {
            entered: 10,
            finished: 10,
            hops: hops
                .iter()
                .map(|(hop, name, given, back)| (((*hop, 0), (*name).to_owned()), (*given, *back)))
                .collect(),
        };
        let taps = BTreeSet::from(["t1".to_owned()]);
        let faults = |hops| count(hops).faults_since(&ChainCount::default(), &taps);
        assert_eq!(faults(&[(0, "v1", 7, 7), (0, "v2", 3, 3), (1, "t1", 10, 0)]), Some(vec![]));
        for wrong in [
            &[(0, "v1", 7, 7), (0, "v2", 2, 2)][..],
            &[(0, "t1", 9, 0)],
            &[(0, "t1", 10, 1)],
            &[(0, "v1", 10, 0)],
        ] {
            assert_eq!(faults(wrong).unwrap().len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn what_a_function_died_with_has_a_name_and_what_one_keeps_that_lives_has_none() {
        let losses = |function: &str| {
            let mut lab = lab();
            let (at, ending) = (Duration::ZERO, crate::vocabulary::Ending::Kill);
            lab.kills = vec![crate::vocabulary::Kill { at, function: function.into(), ending }];
            let mut after = snapshot(70, 0);
            after.0[0].counters.as_mut().unwrap().chains[0].hops[0].delivered.packets += 3;
            after.losses_since(&snapshot(20, 0), &lab)
        };
        assert_eq!((losses("v1"), losses("v")), (3, 0));
    }

    #[test]
    fn counters_that_go_backwards_are_a_finding() {
        let account = snapshot(5, 9).since(&snapshot(20, 0), &lab(), &[]);
        assert_eq!(account.differing, [format!("{NAME}: {BACKWARDS}")]);
        assert_eq!(account.uneven.len(), 1);
        assert!(account.uneven[0].contains(BACKWARDS), "{:?}", account.uneven);
    }
}
