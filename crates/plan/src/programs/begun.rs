//! Programs that know the other hosts and slices, and nothing else. Hosts share what they know of one another: among
//! thousands, each would have thousands of entries of its own.

use super::update::set;
use super::{Domain, Programs, Sources};
use crate::devices::Devices;
use crate::intent::{Table, differences};
use crate::inventory::NodeFacts;
use catena_model::entry::{Entries, Program};
use catena_model::program::{LocatorEntry, NodeEntry, TunnelEntry};
use catena_model::{BlueprintNumber, NodeName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tunnels to all hosts.
pub(super) type Tunnels = Table<NodeName, Arc<TunnelEntry>>;

/// The places of hosts in the IPv6 underlay.
pub(super) type Locators = Table<NodeName, Arc<LocatorEntry>>;

impl Programs {
    /// Those of switches know themselves alone.
    pub(super) fn begin(&self, to: Sources<'_>, domain: Domain) -> Self {
        let tunnels = following(&self.tunnels, to.nodes);
        let locators = placed(&self.locators, to.nodes, to.devices);
        let changed: Vec<_> = differences(&self.tunnels, &tunnels).collect();
        let host = |(node, facts): (&NodeName, &NodeFacts)| {
            let mut entries = of_node(facts, domain);
            if facts.knows_locators() {
                entries.locators = locators.clone();
            }
            match self.nodes.get(node) {
                Some(known) => {
                    entries.tunnels = known.entries.tunnels.clone();
                    for (other, _, entry) in changed.iter().filter(|(other, ..)| *other != node) {
                        match entry {
                            Some(entry) => {
                                entries.tunnels.insert((*other).clone(), Arc::clone(entry))
                            }
                            None => entries.tunnels.remove(*other),
                        };
                    }
                    entries.slices = known.entries.slices.clone();
                    entries.slice_paths = known.entries.slice_paths.clone();
                }
                None => {
                    entries.tunnels = tunnels.clone();
                    entries.tunnels.remove(node);
                }
            }
            (node.clone(), Program { entries, ..Program::default() })
        };
        let switches = to.switches.iter().map(|(node, facts)| {
            let entries = of_node(facts, domain);
            (node.clone(), Program { entries, ..Program::default() })
        });
        let mut begun = Self {
            nodes: to.nodes.iter().map(host).collect(),
            switches: switches.collect(),
            remembered: self.remembered.clone(),
            ..Self::default()
        };
        begun.tunnels = tunnels;
        begun.locators = locators;
        begun.touched = begun.keys().cloned().collect();
        begun
    }
}

/// What the programs of hosts that were met together differ little from.
pub(super) fn common(tunnels: &Tunnels) -> Program {
    let entries = Entries { tunnels: tunnels.clone(), ..Entries::default() };
    Program::new(BlueprintNumber::default(), entries)
}

fn of_node(facts: &NodeFacts, (choice_seed, discovery_key): Domain) -> Entries {
    let mut entries = Entries::default();
    let underlay = facts.underlay;
    set(&mut entries.node, (), Some(NodeEntry { underlay, choice_seed, discovery_key }));
    entries
}

/// Those of these hosts, of what there was before.
fn following(former: &Tunnels, hosts: &BTreeMap<NodeName, NodeFacts>) -> Tunnels {
    let mut tunnels = former.clone();
    for node in former.keys().filter(|node| !hosts.contains_key(*node)) {
        tunnels.remove(node);
    }
    for (node, facts) in hosts {
        let entry = TunnelEntry { node: node.clone(), address: facts.underlay.address };
        set(&mut tunnels, node.clone(), Some(entry));
    }
    tunnels
}

/// The places and numbers of these hosts, of what there was before.
fn placed(former: &Locators, hosts: &BTreeMap<NodeName, NodeFacts>, devices: &Devices) -> Locators {
    let mut locators = former.clone();
    let has_gone = |node: &&NodeName| hosts.get(*node).is_none_or(|facts| facts.segments.is_none());
    for node in former.keys().filter(has_gone) {
        locators.remove(node);
    }
    for (node, facts) in hosts {
        set(&mut locators, node.clone(), facts.locator(node, devices.of(node)));
    }
    locators
}
