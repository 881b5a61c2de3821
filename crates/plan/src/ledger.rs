//! What a planner must remember between blueprints, also over a restart: the number, the paths and
//! the identifiers that may not be used yet.

use crate::borders::{BorderBooks, StitchBooks};
use crate::cables::Cables;
use crate::devices::Devices;
use crate::inventory::Inventory;
use crate::paths::Paths;
use crate::port_numbers::NumberBooks;
use crate::segments::together;
use crate::way_detours::DetourBooks;
use crate::way_mtus::{LinkMtus, MtuBooks};
use crate::ways::WayBooks;
use catena_model::bundle::{ConfigurationId, Member, MemberEntry};
use catena_model::discovery::{DiscoveryKey, stored_key};
use catena_model::id::{ChainId, InstanceId, NetworkId};
use catena_model::limits::PATH_ID_QUARANTINE_BLUEPRINTS;
use catena_model::program::{HopEntry, HopKind, PathEntry, PortEntry, RuleEntry, SetupEntry};
use catena_model::resource::{ContextHeader, Encapsulation};
use catena_model::setup::Setup;
use catena_model::telemetry::{DeviceId, Telemetry};
use catena_model::{BlueprintNumber, NodeName, PathId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How far a path has come. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathPhase {
    /// Its nodes are learning it; nothing is sent into it.
    Installed,
    /// Classifiers send into it.
    Classified,
    /// Classifiers have turned away; what is inside still gets through.
    Superseded,
}

/// Which way along its chain a path leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// As the chain is declared.
    #[default]
    Forward,
    /// The answers of a symmetric chain: the same functions from the last to the first.
    Reverse,
}

/// Flows that stay on a former path when classifiers turn to the path that holds this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The former path.
    pub old: PathId,
    /// Only flows that met one of these stay.
    pub instances: Vec<InstanceId>,
    /// A flow that pauses for longer than this has ended, in milliseconds.
    pub idle_ms: u32,
}

/// A rule and the node whose classifier holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedRule {
    /// The node; none: every node.
    pub node: Option<NodeName>,
    /// The rule.
    pub rule: RuleEntry,
    /// Its place among rules of the same priority, part by part: the lower goes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u16>,
}

/// A port of an instance and the node that carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedPort {
    /// The node.
    pub node: NodeName,
    /// The port.
    pub port: PortEntry,
}

/// A path and what has happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRecord {
    /// The chain that it renders.
    pub chain: ChainId,
    /// Name of the chain for people, kept because a deleted chain still drains.
    pub chain_name: String,
    /// Which way it leads.
    #[serde(default)]
    pub direction: Direction,
    /// How it is carried between hosts.
    pub encapsulation: Encapsulation,
    /// Metadata that its classifiers write.
    #[serde(default)]
    pub context: Vec<ContextHeader>,
    /// What its packets take along; none: nothing is written of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// The functions in order.
    pub hops: Vec<HopEntry>,
    /// Those of them that come with Catena, and what they are made of. It never changes: another configuration,
    /// another path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// Where packets are delivered after the last hop.
    pub destination: NetworkId,
    /// The chains that packets at its end may go on in. It never changes: other chains, another
    /// path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leads_to: Vec<ChainId>,
    /// Its rules look at fields that differ within a flow.
    #[serde(default)]
    pub splits_flows: bool,
    /// When the controller is asked for flows that its rules take.
    #[serde(default, skip_serializing_if = "Setup::is_proactive")]
    pub setup: Setup,
    /// The rules that send into it where packets begin, once it is classified.
    pub rules: Vec<PlacedRule>,
    /// The rules by which packets come from the end of other paths, without place and path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<RuleEntry>,
    /// The rules at its own end, into paths of the chains that it leads to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<RuleEntry>,
    /// The nodes at which paths end that lead into it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub entrances: BTreeSet<NodeName>,
    /// The ports of its instances, kept because packets inside still need them when the instance
    /// or the port is no longer declared.
    pub ports: Vec<PlacedPort>,
    /// Nodes that may still hold the path or a rule into it, also when it no longer names them.
    pub holders: BTreeSet<NodeName>,
    /// How far it has come.
    pub phase: PathPhase,
    /// The blueprint that brought it to this phase (or changed its rules).
    pub since: BlueprintNumber,
    /// The program with which each of its nodes reached this phase.
    pub needs: BTreeMap<NodeName, BlueprintNumber>,
    /// Has the chain been active before this path?
    pub is_update: bool,
    /// What its classifiers leave on former paths.
    #[serde(default)]
    pub pins: Vec<Pin>,
    /// Where slices enter paths with its hops.
    #[serde(default, skip_serializing_if = "SliceReach::is_none")]
    pub slices: SliceReach,
    /// A node at which packets entered has it no more, nor what it had counted: what the others count
    /// proves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partly_counted: bool,
}

/// An instance, and what it is made of: what a node runs once, whatever paths lead there.
pub(crate) type Bundle = (InstanceId, ConfigurationId);

/// The bundled functions among hops, with their nodes.
pub(crate) fn bundles<'h>(
    members: &'h [Member],
    hops: &'h [HopEntry],
) -> impl Iterator<Item = (&'h NodeName, Bundle)> {
    members.iter().flat_map(move |member| {
        let hop = hops.get(usize::from(member.hop));
        let all = hop.into_iter().flat_map(|hop| together(hop, member));
        all.map(move |one| (one.node, (one.id, member.id)))
    })
}

/// The nodes at which slices are classified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceReach {
    /// At every node.
    pub is_everywhere: bool,
    /// At these, at least.
    pub nodes: BTreeSet<NodeName>,
}

impl SliceReach {
    /// Does no slice enter?
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.is_everywhere && self.nodes.is_empty()
    }

    pub(crate) fn add(&mut self, at: Option<NodeName>) {
        match at {
            Some(node) => {
                self.nodes.insert(node);
            }
            None => self.is_everywhere = true,
        }
    }
}

impl PathRecord {
    /// The nodes that must know the path: those it names, and those that have not let go of it.
    #[must_use]
    pub fn nodes<'r>(
        &'r self,
        everybody: impl Iterator<Item = &'r NodeName>,
    ) -> BTreeSet<NodeName> {
        let mut nodes = self.named_nodes(everybody);
        nodes.extend(self.holders.iter().cloned());
        nodes
    }

    /// The nodes of its instances and of its classifiers.
    pub(crate) fn named_nodes<'r>(
        &'r self,
        everybody: impl Iterator<Item = &'r NodeName>,
    ) -> BTreeSet<NodeName> {
        let mut nodes = self.hop_nodes();
        nodes.extend(self.classifiers(&self.entrances, everybody));
        nodes
    }

    /// The nodes at which packets enter.
    fn classifiers<'r>(
        &'r self,
        entrances: &BTreeSet<NodeName>,
        everybody: impl Iterator<Item = &'r NodeName>,
    ) -> BTreeSet<NodeName> {
        let mut nodes = entrances.clone();
        nodes.extend(self.rules.iter().filter_map(|placed| placed.node.clone()));
        nodes.extend(self.slices.nodes.iter().cloned());
        let is_everywhere =
            self.slices.is_everywhere || self.rules.iter().any(|placed| placed.node.is_none());
        if is_everywhere {
            nodes.extend(everybody.cloned());
        }
        nodes
    }

    /// The nodes of its instances.
    pub(crate) fn hop_nodes(&self) -> BTreeSet<NodeName> {
        self.hops.iter().flat_map(|hop| &hop.instances).map(|i| i.node.clone()).collect()
    }

    /// May slices be sent into paths with its hops at a node (none: at every node)?
    pub(crate) fn takes_slices_at(&self, at: Option<&NodeName>) -> bool {
        match at {
            Some(node) => self.slices.is_everywhere || self.slices.nodes.contains(node),
            None => self.slices.is_everywhere,
        }
    }

    /// The nodes at which packets are behind the last function; without functions to pass they
    /// are so where they enter, by ports or by these `entrances`.
    pub(crate) fn ends<'r>(
        &'r self,
        entrances: &BTreeSet<NodeName>,
        everybody: impl Iterator<Item = &'r NodeName>,
    ) -> BTreeSet<NodeName> {
        match self.hops.iter().rfind(|hop| hop.kind == HopKind::Through) {
            Some(last) => last.instances.iter().map(|instance| instance.node.clone()).collect(),
            None => self.classifiers(entrances, everybody),
        }
    }

    /// Does the node's classifier send into the path?
    pub(crate) fn is_classified_by(&self, node: &NodeName) -> bool {
        let is_here = |placed: &PlacedRule| placed.node.as_ref().is_none_or(|here| here == node);
        self.entrances.contains(node) || self.rules.iter().any(is_here)
    }

    /// What a node must know to ask for its flows; none: its rules send in nobody there, or nobody is asked.
    pub(crate) fn setup_entry(&self, id: PathId, node: &NodeName) -> Option<SetupEntry> {
        let away = self.setup.away().filter(|_| self.phase == PathPhase::Classified)?;
        let is_here = |placed: &PlacedRule| placed.node.as_ref().is_none_or(|here| here == node);
        self.rules.iter().any(is_here).then_some(SetupEntry { path: id, away })
    }

    /// The bundled functions of its hops: their nodes, instances, and what they are made of.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = (&NodeName, Bundle)> {
        bundles(&self.members, &self.hops)
    }

    /// The bundled functions that a node runs for it.
    pub(crate) fn members_at<'r>(&'r self, node: &'r NodeName) -> impl Iterator<Item = &'r Member> {
        self.members.iter().filter(move |member| {
            let hop = self.hops.get(usize::from(member.hop));
            hop.is_some_and(|hop| hop.instances.iter().any(|one| one.node == *node))
        })
    }

    /// How a bundled function stands in a program.
    pub(crate) fn member_entry(&self, path: PathId, member: &Member) -> MemberEntry {
        MemberEntry {
            path,
            hop: member.hop,
            member: member.member,
            function: member.function.clone(),
            is_backward: self.direction == Direction::Reverse,
            configuration: member.id,
            instances: member.instances.clone(),
        }
    }

    /// The entry in a program.
    pub(crate) fn entry(&self, id: PathId) -> PathEntry {
        PathEntry {
            id,
            chain: self.chain,
            encapsulation: self.encapsulation,
            context: self.context.clone(),
            hops: self.hops.clone(),
            destination: self.destination,
            is_way_back: self.direction == Direction::Reverse,
            splits_flows: self.splits_flows,
            telemetry: self.telemetry.clone(),
        }
    }
}

/// The memory of the planner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The newest blueprint.
    pub number: BlueprintNumber,
    /// What every program has as [`NodeProgram::choice_seed`](catena_model::NodeProgram): made
    /// when the domain began; 0 in one that began before there was any.
    #[serde(default)]
    pub choice_seed: u64,
    /// What every program has as [`NodeProgram::discovery_key`](catena_model::NodeProgram).
    #[serde(default, with = "stored_key")]
    pub discovery_key: Option<DiscoveryKey>,
    /// The port numbers of links and of functions' ports. They are kept beside it, those of each node on their own.
    #[serde(default, skip_serializing)]
    pub port_numbers: NumberBooks,
    /// The cables that ways lead over. They are kept beside it.
    #[serde(default, skip_serializing)]
    pub cables: Arc<Cables>,
    /// Those of them that an end doubts: no way leads over one while another is left.
    #[serde(default)]
    pub doubted: Arc<Cables>,
    /// The ways between nodes that send to one another. They are kept beside it, those from each node on their own.
    #[serde(default, skip_serializing)]
    pub ways: WayBooks,
    /// The detours around their cables. They are kept beside it in the same manner.
    #[serde(default, skip_serializing)]
    pub detours: DetourBooks,
    /// The numbers of nodes in telemetry. They are kept beside it.
    #[serde(default, skip_serializing)]
    pub devices: Arc<Devices>,
    /// What links take of which cables are made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub link_mtus: LinkMtus,
    /// What all of a way takes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub way_mtus: MtuBooks,
    /// Where headers on them end that have no room for all of one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub borders: BorderBooks,
    /// Where headers over several functions end between two of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stitches: StitchBooks,
    /// All paths that any node may still know. They are kept beside it, each on its own.
    #[serde(default, skip_serializing)]
    pub paths: Paths,
    /// Identifiers of removed paths and the first blueprint that may use them again.
    pub quarantine: BTreeMap<PathId, BlueprintNumber>,
    /// Nodes that may still know a removed path, and the programs by which they forget it: until
    /// then its identifier is not free either.
    #[serde(default)]
    pub remembered: BTreeMap<PathId, BTreeMap<NodeName, BlueprintNumber>>,
    /// Chains that want a path while no identifier is free.
    #[serde(skip)]
    pub unserved: BTreeSet<ChainId>,
}

impl Ledger {
    /// The paths that a chain uses or is about to use: those that are not superseded.
    pub(crate) fn current(&self, chain: ChainId) -> impl Iterator<Item = (PathId, &PathRecord)> {
        self.paths.of_chain(chain).filter(|(_, path)| path.phase != PathPhase::Superseded)
    }

    /// The number of a node in telemetry; none: it has none, as it has no place in the IPv6 underlay, or none was left.
    #[must_use]
    pub fn device_of(&self, node: &NodeName) -> Option<DeviceId> {
        self.devices.of(node)
    }

    /// The paths that a chain's rules send into, forward first.
    pub(crate) fn classified(&self, chain: ChainId) -> Vec<(PathId, &PathRecord)> {
        let current = self.current(chain);
        let mut found: Vec<_> =
            current.filter(|(_, path)| path.phase == PathPhase::Classified).collect();
        found.sort_by_key(|(id, path)| (path.direction, *id));
        found
    }

    /// The path of a chain that leads one way and has come so far.
    pub(crate) fn path_in(
        &self,
        chain: ChainId,
        direction: Direction,
        phase: PathPhase,
    ) -> Option<(PathId, &PathRecord)> {
        let mut current = self.current(chain);
        current.find(|(_, path)| path.direction == direction && path.phase == phase)
    }

    /// The blueprint that last turned the classifiers of a chain; 0: none sends into a path of it.
    #[must_use]
    pub fn turned(&self, chain: ChainId) -> BlueprintNumber {
        let since = self.classified(chain).into_iter().map(|(_, path)| path.since);
        since.max().unwrap_or_default()
    }

    /// Do classifiers keep flows on this path after they turned away?
    pub(crate) fn is_pinned(&self, id: PathId) -> bool {
        self.paths.is_pinned(id)
    }

    /// The lowest identifier that is free in the pool of the encapsulation, if any is.
    ///
    /// Both pools share one number space, because a node tells paths apart by the number alone.
    pub(crate) fn free_path_id(&self, encapsulation: Encapsulation) -> Option<PathId> {
        let pool = &encapsulation.capabilities().path_ids;
        let is_free = |id: &PathId| {
            let rests = self.quarantine.get(id).is_some_and(|until| self.number < *until);
            !rests && !self.remembered.contains_key(id)
        };
        let mut from = *pool.start();
        loop {
            let id = self.paths.free_from(from).filter(|id| pool.contains(id)).map(PathId)?;
            if is_free(&id) {
                return Some(id);
            }
            from = id.0.checked_add(1)?;
        }
    }

    /// Forgets a path and lets its identifier rest.
    pub(crate) fn remove(&mut self, id: PathId) {
        self.paths.remove(&id);
        let until = BlueprintNumber(self.number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
        self.quarantine.insert(id, until);
    }

    /// Notes who must forget a path that was removed, and by which program.
    pub(crate) fn remember(&mut self, id: PathId, nodes: BTreeMap<NodeName, BlueprintNumber>) {
        self.remembered.insert(id, nodes);
    }

    /// Lets go of the removed paths that no node knows any more.
    pub(crate) fn release_forgotten(&mut self, inventory: &Inventory) {
        self.remembered.retain(|_, nodes| {
            nodes.retain(|node, number| !inventory.has_acknowledged(node, *number));
            !nodes.is_empty()
        });
    }

    /// Forgets the rest of identifiers that have rested long enough.
    pub(crate) fn end_quarantines(&mut self) {
        let number = self.number;
        self.quarantine.retain(|_, until| number < *until);
    }
}
