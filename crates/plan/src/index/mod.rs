//! What is found of the intent without looking at all of it: who refers to whom, which numbers and
//! addresses are taken, which rules share packets. It is kept in step with each write and says no
//! more than a scan would.

mod intervals;
mod labels;
mod overlap;
mod relation;
mod resource;
pub(crate) mod slices;

pub use overlap::{overlap, tuples_overlap};
pub use resource::Resource;

use crate::check::{Passage, Room};
use crate::counts::{Counts, Edit};
use crate::graph::Graphs;
use crate::intent::{Intent, Table};
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SliceId, SubnetId,
};
use catena_model::resource::{ClassificationRule, InterfaceRef};
use catena_model::slice::Slice;
use catena_model::{NodeName, ProjectId};
use catena_wire::scalar::MacAddr;
use imbl::OrdMap;
use labels::Labels;
use overlap::Overlaps;
pub(crate) use relation::{Member, Numbers, Relation};
use slices::SliceKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A rule as part of a chain.
type ChainRule = (ChainId, RuleId);

impl Member for ChainRule {
    const MIN: Self = (ChainId::MIN, RuleId::MIN);
}

/// Numbers that exist once in the whole deployment.
const EVERYWHERE: () = ();

/// The index of an intent. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    labels: Labels,
    rule_chains: Relation<RuleId, ChainId>,
    function_chains: Relation<FunctionId, ChainId>,
    symmetric_chains: Relation<FunctionId, ChainId>,
    chains_of_functions: Relation<Vec<FunctionId>, ChainId>,
    chain_graphs: Relation<ChainId, GraphId>,
    instance_functions: Relation<InstanceId, FunctionId>,
    port_instances: Relation<PortId, InstanceId>,
    port_rules: Relation<PortId, RuleId>,
    network_ports: Relation<NetworkId, PortId>,
    /// How many these are, and their addresses.
    network_sizes: Counts<NetworkId>,
    network_addresses: Counts<NetworkId>,
    network_subnets: Relation<NetworkId, SubnetId>,
    macs: Relation<(NetworkId, MacAddr), PortId>,
    interfaces: Relation<(NodeName, InterfaceRef), PortId>,
    /// How many ports a project has at a node.
    ports_at: Counts<(ProjectId, NodeName)>,
    /// By network and family.
    addresses: Numbers<(NetworkId, bool), PortId>,
    vnis: Numbers<(), NetworkId>,
    chain_numbers: Numbers<(), ChainId>,
    function_numbers: Numbers<(), FunctionId>,
    rules: Overlaps<RuleId, false>,
    chain_rules: Overlaps<ChainRule, true>,
    chain_slices: Relation<ChainId, SliceId>,
    port_slices: Relation<PortId, SliceId>,
    /// The slices at the end of a chain.
    followers: Relation<ChainId, SliceId>,
    /// How many of them go on from the one chain in the other.
    slice_links: Counts<(ChainId, ChainId)>,
    slice_matches: Relation<SliceKey, SliceId>,
    /// Where each chain delivers, as of the last check.
    pub(crate) chain_networks: Table<ChainId, NetworkId>,
    /// Where packets of each chain come out of functions, as of the last check.
    pub(crate) chain_passages: Table<ChainId, BTreeSet<Passage>>,
    /// How many chains have each passage.
    pub(crate) passages: Counts<Passage>,
    /// The same by network.
    pub(crate) network_passages: Counts<(NetworkId, PortId)>,
    /// What each chain takes of the nodes' room, as of the last check.
    pub(crate) chain_rooms: Table<ChainId, BTreeMap<NodeName, Room>>,
    /// The sum over all chains, and the ports.
    pub(crate) rooms: OrdMap<NodeName, Room>,
    /// What was written since the last check.
    pub(crate) unchecked: Unchecked,
}

/// What a check has still to look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unchecked {
    pub(crate) chains: BTreeSet<ChainId>,
    pub(crate) slices: BTreeSet<SliceId>,
    pub(crate) nodes: BTreeSet<NodeName>,
    /// Networks that have got a port.
    pub(crate) grown: BTreeSet<NetworkId>,
    /// Networks whose prefixes are others than before.
    pub(crate) networks: BTreeSet<NetworkId>,
}

impl Index {
    /// The resources of one kind that have this name, which is not empty, in the order of identity.
    pub fn named<R: Resource>(&self, name: &str) -> impl Iterator<Item = R::Id> + use<'_, R> {
        self.labels.named(R::TABLE, name).map(R::Id::from)
    }

    /// The resources of one kind that a project has, in the order of identity.
    pub fn owned<R: Resource>(
        &self,
        project: &ProjectId,
    ) -> impl Iterator<Item = R::Id> + use<'_, R> {
        self.labels.owned(R::TABLE, project).map(R::Id::from)
    }

    /// How many these are.
    #[must_use]
    pub fn count_owned<R: Resource>(&self, project: &ProjectId) -> usize {
        self.labels.count(R::TABLE, project) as usize
    }

    /// The chains of a rule.
    pub fn chains_of_rule(&self, rule: RuleId) -> impl Iterator<Item = ChainId> + '_ {
        self.rule_chains.of(rule)
    }

    /// The chains over a function.
    pub fn chains_of_function(&self, function: FunctionId) -> impl Iterator<Item = ChainId> + '_ {
        self.function_chains.of(function)
    }

    /// The chains over exactly these functions in this order.
    pub fn chains_of_functions(&self, list: &[FunctionId]) -> impl Iterator<Item = ChainId> + '_ {
        self.chains_of_functions.of(list.to_vec())
    }

    /// The graphs that a chain is in.
    pub fn graphs_of_chain(&self, chain: ChainId) -> impl Iterator<Item = GraphId> + '_ {
        self.chain_graphs.of(chain)
    }

    /// The functions that an instance belongs to.
    pub fn functions_of_instance(&self, id: InstanceId) -> impl Iterator<Item = FunctionId> + '_ {
        self.instance_functions.of(id)
    }

    /// The chains over an instance; one may come twice.
    pub fn chains_of_instance(&self, id: InstanceId) -> impl Iterator<Item = ChainId> + '_ {
        self.functions_of_instance(id).flat_map(|function| self.chains_of_function(function))
    }

    /// The instances that packets enter or leave by a port.
    pub fn instances_of_port(&self, port: PortId) -> impl Iterator<Item = InstanceId> + '_ {
        self.port_instances.of(port)
    }

    /// The rules that name a port.
    pub fn rules_of_port(&self, port: PortId) -> impl Iterator<Item = RuleId> + '_ {
        self.port_rules.of(port)
    }

    /// The ports of a network.
    pub fn ports_of_network(&self, network: NetworkId) -> impl Iterator<Item = PortId> + '_ {
        self.network_ports.of(network)
    }

    /// How many ports a project has at a node.
    #[must_use]
    pub fn ports_at(&self, node: &NodeName, project: &ProjectId) -> usize {
        self.ports_at.of(&(project.clone(), node.clone())) as usize
    }

    /// How many ports a project has at the node where it has most.
    #[must_use]
    pub fn most_ports_at(&self, project: &ProjectId) -> usize {
        let own = self.ports_at.iter().filter(|((owner, _), _)| owner == project);
        own.map(|(_, count)| count as usize).max().unwrap_or_default()
    }

    /// The subnets of a network.
    pub fn subnets_of_network(&self, network: NetworkId) -> impl Iterator<Item = SubnetId> + '_ {
        self.network_subnets.of(network)
    }

    /// The ports of a network with a hardware address.
    pub fn ports_of_mac(
        &self,
        network: NetworkId,
        mac: MacAddr,
    ) -> impl Iterator<Item = PortId> + '_ {
        self.macs.of((network, mac))
    }

    /// The ports that have an interface of a node.
    pub fn ports_of_interface(
        &self,
        node: &NodeName,
        interface: &InterfaceRef,
    ) -> impl Iterator<Item = PortId> + '_ {
        self.interfaces.of((node.clone(), interface.clone()))
    }

    /// The ports of a network with an address.
    pub fn ports_of_address(
        &self,
        network: NetworkId,
        address: IpAddr,
    ) -> impl Iterator<Item = PortId> + '_ {
        let (is_ipv4, number) = numbered(address);
        self.addresses.owners((network, is_ipv4), number)
    }

    /// How many ports a network has, and how many addresses they have.
    pub(crate) fn size_of(&self, network: NetworkId) -> [usize; 2] {
        [&self.network_sizes, &self.network_addresses].map(|all| all.of(&network) as usize)
    }

    /// The lowest address of a network that no port has, from this one on.
    #[must_use]
    pub fn lowest_free_address(&self, network: NetworkId, from: IpAddr) -> Option<IpAddr> {
        let (is_ipv4, number) = numbered(from);
        let free = self.addresses.lowest_free(&(network, is_ipv4), number)?;
        if is_ipv4 {
            u32::try_from(free).ok().map(|free| IpAddr::V4(free.into()))
        } else {
            Some(IpAddr::V6(free.into()))
        }
    }

    /// The lowest VXLAN identifier from 1 that no network has.
    #[must_use]
    pub fn lowest_free_vni(&self) -> Option<u32> {
        lowest_free(&self.vnis)
    }

    /// The lowest `chain_id` from 1 that no chain has.
    #[must_use]
    pub fn lowest_free_chain_number(&self) -> Option<u32> {
        lowest_free(&self.chain_numbers)
    }

    /// The chains with a `chain_id`.
    pub fn chains_of_number(&self, number: u32) -> impl Iterator<Item = ChainId> + '_ {
        self.chain_numbers.owners(EVERYWHERE, number.into())
    }

    /// The lowest `group_id` from 1 that no function has.
    #[must_use]
    pub fn lowest_free_function_number(&self) -> Option<u32> {
        lowest_free(&self.function_numbers)
    }

    /// A rule of a project (none: of any) that shares packets with this one and is another.
    #[must_use]
    pub fn overlapping<'i>(
        &self,
        intent: &'i Intent,
        rule: &ClassificationRule,
        project: Option<&ProjectId>,
    ) -> Option<&'i ClassificationRule> {
        let is_it = |id: RuleId| {
            let other = intent.rules.get(&id);
            id != rule.id && other.is_some_and(|other| overlap(rule, other))
        };
        self.rules.find(project, rule, is_it).and_then(|id| intent.rules.get(&id))
    }

    /// Another chain of a project (none: of any) with a rule that shares packets with this one,
    /// whatever logical ports they name, and that rule.
    #[must_use]
    pub fn overlapping_in_chains(
        &self,
        intent: &Intent,
        rule: &ClassificationRule,
        project: Option<&ProjectId>,
        own: ChainId,
    ) -> Option<(ChainId, RuleId)> {
        let is_it = |(chain, id): ChainRule| {
            let other = intent.rules.get(&id);
            chain != own && other.is_some_and(|other| tuples_overlap(rule, other))
        };
        self.chain_rules.find(project, rule, is_it)
    }

    /// How packets of chains come out of a port.
    pub(crate) fn passages_of(&self, egress: PortId) -> impl Iterator<Item = &Passage> {
        let from = self.passages.keys_from(Passage::first_of(egress));
        from.take_while(move |passage| passage.egress == egress)
    }

    /// Is a chain over the function that has a way back?
    pub(crate) fn has_symmetric_chain(&self, function: FunctionId) -> bool {
        self.symmetric_chains.has_any(function)
    }
}

fn lowest_free<M: Member>(numbers: &Numbers<(), M>) -> Option<u32> {
    numbers.lowest_free(&EVERYWHERE, 1).and_then(|free| u32::try_from(free).ok())
}

/// Is it IPv4, and which address of its family?
fn numbered(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(v4) => (true, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (false, v6.to_bits()),
    }
}

/// An intent with its index, in step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexedIntent {
    intent: Intent,
    index: Index,
}

impl IndexedIntent {
    /// An intent of which nothing is checked yet.
    #[must_use]
    pub fn unchecked(declared: Intent) -> Self {
        let mut indexed = Self::default();
        declared.networks.values().for_each(|network| indexed.put(network.clone()));
        declared.subnets.values().for_each(|subnet| indexed.put(subnet.clone()));
        declared.ports.values().for_each(|port| indexed.put(port.clone()));
        declared.rules.values().for_each(|rule| indexed.put(rule.clone()));
        declared.instances.values().for_each(|instance| indexed.put(instance.clone()));
        declared.functions.values().for_each(|function| indexed.put(function.clone()));
        declared.chains.values().for_each(|chain| indexed.put(chain.clone()));
        declared.graphs.values().for_each(|graph| indexed.put(graph.clone()));
        declared.slices.values().for_each(|slice| indexed.put(slice.clone()));
        declared.rule_sets.values().for_each(|rule_set| indexed.put(rule_set.clone()));
        // Equal to what came, but sharing its tables: a comparison then costs nothing.
        indexed.intent = declared;
        indexed
    }

    /// The intent.
    #[must_use]
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// Its index.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Creates or replaces a resource.
    pub fn put<R: Resource>(&mut self, resource: R) {
        let id = resource.id();
        let former = R::table(&self.intent).get(&id).cloned();
        let versions = || {
            let former = former.iter().map(|former| (Edit::Remove, former));
            former.chain([(Edit::Add, &resource)])
        };
        if !former.as_ref().is_some_and(|former| former.means(&resource)) {
            versions().for_each(|(edit, it)| it.edit(edit, &self.intent, &mut self.index));
        }
        if former.as_ref().map(R::label) != Some(resource.label()) {
            let labels = &mut self.index.labels;
            versions().for_each(|(edit, it)| labels.edit(edit, R::TABLE, id.into(), it.label()));
        }
        R::table_mut(&mut self.intent).insert(id, resource);
    }

    /// Removes a resource; was it there?
    pub fn remove<R: Resource>(&mut self, id: R::Id) -> bool {
        let Some(former) = R::table_mut(&mut self.intent).remove(&id) else { return false };
        former.edit(Edit::Remove, &self.intent, &mut self.index);
        self.index.labels.edit(Edit::Remove, R::TABLE, id.into(), former.label());
        true
    }

    /// Would a slice be refused if it were written? It may be there already.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_slice(&self, slice: &Slice) -> Result<(), crate::PlanError> {
        crate::check::check_slice(&self.intent, &self.index, slice)
    }

    /// Would these slices be refused if they were put in by hand beside those that are declared?
    ///
    /// # Errors
    /// What is wrong with one, a circle, or a route that is too long.
    pub fn check_more_slices(&self, more: &[Slice]) -> Result<(), crate::PlanError> {
        crate::check::check_more_slices(&self.intent, &self.index, more)
    }

    /// Refuses what no data plane could carry; looks at what was written since the last check and
    /// at what that touches. What passed before is taken for good.
    ///
    /// # Errors
    /// The first thing that cannot be carried.
    pub fn check(&mut self) -> Result<(), crate::PlanError> {
        crate::check::check_written(&self.intent, &mut self.index)
    }
}

/// Whoever asks no index takes it for the intent that it is.
impl std::ops::Deref for IndexedIntent {
    type Target = Intent;

    fn deref(&self) -> &Intent {
        &self.intent
    }
}

impl From<Intent> for IndexedIntent {
    fn from(declared: Intent) -> Self {
        let mut indexed = Self::unchecked(declared);
        let graphs = Graphs::of(&indexed.intent);
        crate::check::count_networks(&indexed.intent, &graphs, &mut indexed.index);
        crate::check::count_passages(&indexed.intent, &graphs, &mut indexed.index);
        crate::check::count_rooms(&indexed.intent, &mut indexed.index);
        indexed.index.unchecked = Unchecked::default();
        indexed
    }
}
