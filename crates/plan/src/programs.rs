//! What each node is told: one program for each, followed change by change. Knows which paths, ports and
//! networks an entry is made of; refuses to decide anything about paths.
//!
//! Nothing is looked at but what differs between two steps and the entries that this touches.

mod begun;
mod routes;
mod update;

use crate::borders::{BorderBooks, StitchBooks};
use crate::counts::Counts;
use crate::devices::Devices;
use crate::index::{IndexedIntent, Member, Relation};
use crate::intent::{Intent, Table, differences};
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::Ledger;
use crate::paths::Paths;
use crate::port_numbers::NumberBooks;
use crate::way_detours::DetourBooks;
use crate::way_mtus::MtuBooks;
use crate::ways::WayBooks;
use begun::{Locators, Tunnels};
use catena_model::bundle::ConfigurationId;
use catena_model::discovery::DiscoveryKey;
use catena_model::entry::{Entries, Program, ProgramVersion, TableDiff};
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{PortEntry, PortRole};
use catena_model::resource::Port;
use catena_model::{BlueprintNumber, NodeName, PathId, ProjectId};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use update::Update;

/// A machine: its owner and its name.
type Machine = (ProjectId, String);

fn machine(port: &Port) -> Option<Machine> {
    let name = Some(&port.device_id).filter(|name| !name.is_empty())?;
    Some((port.label.project.clone(), name.clone()))
}

/// What all nodes of a domain have in common: the seed of choices and the key of discovery.
type Domain = (u64, Option<DiscoveryKey>);

/// A port of a path.
type Placed = (PortId, PathId);

impl Member for Placed {
    const MIN: Self = (PortId::MIN, <PathId as Member>::MIN);
}

/// The programs of all nodes, and what their entries are counted by. A copy costs as much as there are
/// nodes.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Those of hosts.
    nodes: Table<NodeName, Program>,
    /// Those of switches, which know nothing of tenants.
    switches: Table<NodeName, Program>,
    /// What nodes without a program here were told, as a former controller wrote it down.
    remembered: BTreeMap<NodeName, ProgramVersion>,
    /// The paths over each port.
    port_paths: Relation<PortId, PathId>,
    /// How many paths have each port at each node.
    port_nodes: Table<PortId, Counts<NodeName>>,
    /// The same by the port's network.
    placed: Relation<NetworkId, Placed>,
    /// The declared ports of each machine.
    machines: Relation<Machine, PortId>,
    /// How many of these some path has.
    walked: Counts<Machine>,
    /// How many declared ports of a network a node has.
    members: Table<NetworkId, Counts<NodeName>>,
    /// Those that may have become others since they were numbered.
    touched: BTreeSet<NodeName>,
    /// What each host has but for itself.
    tunnels: Tunnels,
    /// The places of hosts in the IPv6 underlay.
    locators: Locators,
    /// How many bundled functions of its paths a node makes of each configuration.
    configured: Counts<(NodeName, ConfigurationId)>,
    /// How many ports and paths bring a network to each node.
    uses: Table<NetworkId, Counts<NodeName>>,
    /// The nodes that have an entry of a port.
    holders: Table<PortId, Arc<[NodeName]>>,
}

impl PartialEq for Programs {
    /// The rest follows from them.
    fn eq(&self, other: &Self) -> bool {
        (&self.nodes, &self.switches) == (&other.nodes, &other.switches)
    }
}

/// What programs are made of.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'s> {
    pub(crate) paths: &'s Paths,
    pub(crate) intent: &'s IndexedIntent,
    pub(crate) nodes: &'s BTreeMap<NodeName, NodeFacts>,
    pub(crate) switches: &'s BTreeMap<NodeName, NodeFacts>,
    pub(crate) devices: &'s Devices,
    pub(crate) port_numbers: &'s NumberBooks,
    pub(crate) ways: &'s WayBooks,
    pub(crate) detours: &'s DetourBooks,
    pub(crate) mtus: &'s MtuBooks,
    pub(crate) borders: &'s BorderBooks,
    pub(crate) stitches: &'s StitchBooks,
}

impl<'s> Sources<'s> {
    pub(crate) fn new(
        ledger: &'s Ledger,
        intent: &'s IndexedIntent,
        inventory: &'s Inventory,
    ) -> Self {
        Self {
            paths: &ledger.paths,
            intent,
            nodes: &inventory.nodes,
            switches: &inventory.switches,
            devices: &ledger.devices,
            port_numbers: &ledger.port_numbers,
            ways: &ledger.ways,
            detours: &ledger.detours,
            mtus: &ledger.way_mtus,
            borders: &ledger.borders,
            stitches: &ledger.stitches,
        }
    }
}

impl Programs {
    /// The program of a node.
    #[must_use]
    pub fn get(&self, node: &NodeName) -> Option<&Program> {
        self.nodes.get(node).or_else(|| self.switches.get(node))
    }

    /// All, those of hosts first, in the order of nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &Program)> {
        self.nodes.iter().chain(&self.switches)
    }

    /// The nodes, in the same order.
    pub fn keys(&self) -> impl Iterator<Item = &NodeName> {
        self.iter().map(|(node, _)| node)
    }

    /// None yet, but what nodes were told before is known again by number and digest.
    #[must_use]
    pub(crate) fn remembering(remembered: BTreeMap<NodeName, ProgramVersion>) -> Self {
        Self { remembered, ..Self::default() }
    }

    /// Those that are here, and nothing of what others were told before.
    pub(crate) fn present(&self) -> Self {
        Self { remembered: BTreeMap::new(), ..self.clone() }
    }

    pub(crate) fn remove(&mut self, node: &NodeName) {
        self.nodes.remove(node);
        self.switches.remove(node);
        self.remembered.remove(node);
    }

    /// Those of a host: nothing of tenants is told to a switch.
    pub(crate) fn entries_mut(&mut self, node: &NodeName) -> Option<&mut Entries> {
        let program = self.nodes.get_mut(node)?;
        touch(&mut self.touched, node);
        Some(&mut program.entries)
    }

    /// Those of any node.
    fn entries_of_any_mut(&mut self, node: &NodeName) -> Option<&mut Entries> {
        let program = self.nodes.get_mut(node).or_else(|| self.switches.get_mut(node))?;
        touch(&mut self.touched, node);
        Some(&mut program.entries)
    }

    /// What a node was told.
    fn version(&self, node: &NodeName) -> Option<ProgramVersion> {
        let program = self.get(node).map(Program::version);
        program.or_else(|| self.remembered.get(node).copied())
    }

    /// The nodes that were told something else by `former`, or nothing. Costs what differs.
    pub fn since<'p>(
        &'p self,
        former: &'p Self,
    ) -> impl Iterator<Item = (&'p NodeName, &'p Program)> {
        let hosts = differences(&former.nodes, &self.nodes);
        let changed = hosts.chain(differences(&former.switches, &self.switches));
        let changed = changed.filter_map(|(node, _, program)| Some((node, program?)));
        changed.filter(|(node, program)| former.version(node) != Some(program.version()))
    }

    /// What each program has else than before, table by table; costs what that is.
    #[must_use]
    pub fn differences(
        &self,
        former: &Self,
    ) -> BTreeMap<NodeName, BTreeMap<&'static str, TableDiff>> {
        let nothing = Entries::default();
        let differences = self.iter().map(|(node, program)| {
            let former = former.get(node).map_or(&nothing, |program| &program.entries);
            (node.clone(), program.entries.since(former).collect::<BTreeMap<_, _>>())
        });
        differences.filter(|(_, tables)| !tables.is_empty()).collect()
    }

    /// The programs of other sources, slices as they are; not yet numbered. `from` is what these were
    /// made of; none: all are made anew.
    pub(crate) fn following(
        &self,
        from: Option<Sources<'_>>,
        to: Sources<'_>,
        domain: Domain,
    ) -> Self {
        let (ledger, intent, inventory) = Default::default();
        let nothing = Sources::new(&ledger, &intent, &inventory);
        let begun = match from {
            Some(_) => self.clone(),
            None => self.begin(to, domain),
        };
        Update::new(begun, from.unwrap_or(nothing), to).finish()
    }

    /// The same, each with this number if it is another than before, or among those that are to have
    /// it.
    pub(crate) fn numbered(
        mut self,
        former: &Self,
        number: BlueprintNumber,
        anew: &BTreeSet<NodeName>,
    ) -> Self {
        let touched = std::mem::take(&mut self.touched);
        let (tunnels, common) = (self.tunnels.clone(), OnceCell::new());
        for node in touched.union(anew) {
            let is_host = self.nodes.contains_key(node);
            let begun = || match is_host {
                true => common.get_or_init(|| begun::common(&tunnels)).clone(),
                false => Program::default(),
            };
            let known = former.get(node).cloned().unwrap_or_else(begun);
            let Some(program) = self.nodes.get_mut(node).or_else(|| self.switches.get_mut(node))
            else {
                continue;
            };
            let entries = std::mem::take(&mut program.entries);
            *program = known.following(number, entries);
            let is_known = |told: &ProgramVersion| told.digest == program.digest;
            if let Some(told) = former.version(node).filter(is_known)
                && !anew.contains(node)
            {
                program.number = told.number;
            }
        }
        self
    }
}

fn touch(touched: &mut BTreeSet<NodeName>, node: &NodeName) {
    if !touched.contains(node) {
        touched.insert(node.clone());
    }
}

/// The entry of a declared port; none while it is not said where its interface is.
pub(crate) fn port_entry(intent: &Intent, port: &Port, role: PortRole) -> Option<PortEntry> {
    Some(PortEntry {
        id: port.id,
        name: intent.port_name(port.id),
        network: port.network,
        mac: port.mac,
        role,
        attachment: port.attachment.clone()?,
        own_sources: None,
    })
}
