//! What each node is told: one program for each, followed change by change. Knows which paths, ports and
//! networks an entry is made of; refuses to decide anything about paths.
//!
//! Nothing is looked at but what differs between two steps and the entries that this touches.

mod update;

use crate::counts::Counts;
use crate::index::{IndexedIntent, Member, Relation};
use crate::intent::{Intent, Table};
use crate::inventory::NodeFacts;
use crate::paths::Paths;
use catena_model::entry::Entries;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{PortEntry, PortRole, Underlay};
use catena_model::resource::Port;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId, ProjectId};
use std::collections::BTreeMap;
use update::Update;

/// What one node is told; slices are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// That of the blueprint that changed it last.
    pub number: BlueprintNumber,
    /// The node's place on the data network.
    pub underlay: Underlay,
    /// As in [`NodeProgram`].
    pub choice_seed: u64,
    /// All the rest.
    pub entries: Entries,
}

impl Program {
    /// As it is sent.
    #[must_use]
    pub fn whole(&self, node: &NodeName) -> NodeProgram {
        let choice_seed = self.choice_seed;
        let program = self.entries.program(node.clone(), self.number, self.underlay);
        NodeProgram { choice_seed, ..program }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.underlay, self.choice_seed) == (other.underlay, other.choice_seed)
            && self.entries.since(&other.entries).next().is_none()
    }
}

/// A machine: its owner and its name.
type Machine = (ProjectId, String);

fn machine(port: &Port) -> Option<Machine> {
    let name = Some(&port.device_id).filter(|name| !name.is_empty())?;
    Some((port.label.project.clone(), name.clone()))
}

/// A port of a path.
type Placed = (PortId, PathId);

impl Member for Placed {
    const MIN: Self = (PortId::MIN, <PathId as Member>::MIN);
}

/// The programs of all nodes, and what their entries are counted by. A copy costs as much as there are
/// nodes.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    nodes: BTreeMap<NodeName, Program>,
    /// The paths over each port.
    port_paths: Relation<PortId, PathId>,
    /// The same by the port's network.
    placed: Relation<NetworkId, Placed>,
    /// The declared ports of each machine.
    machines: Relation<Machine, PortId>,
    /// How many declared ports of a network a node has.
    members: Table<NetworkId, Counts<NodeName>>,
    /// How many ports and paths bring a network to a node.
    uses: Counts<(NodeName, NetworkId)>,
}

impl PartialEq for Programs {
    /// The rest follows from them.
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes
    }
}

/// What programs are made of.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'s> {
    pub(crate) paths: &'s Paths,
    pub(crate) intent: &'s IndexedIntent,
    pub(crate) nodes: &'s BTreeMap<NodeName, NodeFacts>,
}

impl Programs {
    /// The program of a node.
    #[must_use]
    pub fn get(&self, node: &NodeName) -> Option<&Program> {
        self.nodes.get(node)
    }

    /// All, in the order of nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &Program)> {
        self.nodes.iter()
    }

    /// The nodes, in order.
    pub fn keys(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys()
    }

    pub(crate) fn remove(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// The programs of other sources, each with this number if it is another than before.
    /// `from` is what these were made of; none: all are made anew.
    pub(crate) fn following(
        &self,
        from: Option<Sources<'_>>,
        to: Sources<'_>,
        choice_seed: u64,
        number: BlueprintNumber,
    ) -> Self {
        let (paths, intent, nodes) = Default::default();
        let nothing = Sources { paths: &paths, intent: &intent, nodes: &nodes };
        let begun = match from {
            Some(_) => self.clone(),
            None => Self::begin(to.nodes, choice_seed),
        };
        let mut programs = Update::new(begun, from.unwrap_or(nothing), to).finish();
        for (node, program) in &mut programs.nodes {
            let former = self.nodes.get(node).filter(|former| former.is_same(program));
            program.number = former.map_or(number, |former| former.number);
        }
        programs
    }

    /// Programs that know the other nodes, and nothing else.
    fn begin(nodes: &BTreeMap<NodeName, NodeFacts>, choice_seed: u64) -> Self {
        let program = |node: &NodeName, underlay| {
            let entries = update::tunnels(node, nodes);
            Program { number: BlueprintNumber(0), underlay, choice_seed, entries }
        };
        let begun = nodes.iter().map(|(node, facts)| (node.clone(), program(node, facts.underlay)));
        Self { nodes: begun.collect(), ..Self::default() }
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
