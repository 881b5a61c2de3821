//! A controller's planner among nodes that run at once what they are told.

use super::tree::{FatTree, Plug};
use crate::engine::wrong;
use crate::error::BenchError;
use catena_model::id::{ChainId, PortId};
use catena_model::placement::{PlacementRequest, Proposal};
use catena_model::program::Underlay;
use catena_model::status::{ChainState, PathHeader};
use catena_model::topology::{CableEnd, NodePlace, NodeRole};
use catena_model::{BlueprintNumber, NodeName};
use catena_plan::{
    Blueprint, IndexedIntent, Ledger, News, NodeNews, Reconciler, chain_status, path_headers,
    path_routes, placements,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Rounds of planning and running; more means that it does not come to rest.
const ROUNDS_MAX: usize = 20;

pub(crate) struct Domain {
    pub(crate) tree: FatTree,
    reconciler: Reconciler,
}

impl Domain {
    /// Nodes that were all met, and know their links.
    pub(crate) fn new(tree: FatTree) -> Result<Self, BenchError> {
        Self::met(tree, false)
    }

    /// The same where the operator has marked every switch as an edge.
    pub(crate) fn of_edges(tree: FatTree) -> Result<Self, BenchError> {
        Self::met(tree, true)
    }

    fn met(tree: FatTree, are_edges: bool) -> Result<Self, BenchError> {
        let ledger = Ledger { choice_seed: 20, ..Ledger::default() };
        let mut domain = Self { tree, reconciler: Reconciler::resume(ledger, [], BTreeMap::new()) };
        let nodes = domain.tree.nodes.clone();
        for (number, (node, role)) in (1..).zip(&nodes) {
            let address = IpAddr::V6(Ipv6Addr::from(0xfd00_u128 << 112 | number));
            // They speak whatever there is.
            let (underlay, protocol) = (Underlay { address, mtu: 1_500 }, u32::MAX);
            let place =
                NodePlace { underlay, role: *role, protocol, is_edge: false, segments: None };
            domain.tell(node, NodeNews::Met { place, running: BlueprintNumber::default() });
            // What a node is marked as is not its own to say.
            if are_edges && *role == NodeRole::Switch {
                let _ =
                    domain.reconciler.accept(News::Marked { node: node.clone(), is_edge: true });
            }
            domain.tell(node, NodeNews::Links(domain.tree.links(node)));
        }
        domain.settle(&IndexedIntent::default())?;
        // Links have numbers now.
        domain.look(None);
        domain.settle(&IndexedIntent::default())?;
        Ok(domain)
    }

    pub(crate) fn blueprint(&self) -> &Arc<Blueprint> {
        self.reconciler.blueprint()
    }

    /// The ways of the packets of each path, in the order of its functions.
    pub(crate) fn routes(&self) -> Vec<Vec<Vec<CableEnd>>> {
        let (ledger, inventory) = (&self.blueprint().ledger, self.reconciler.inventory());
        let ways = |path| path_routes(ledger, inventory, path).into_iter().map(|way| way.ports);
        ledger.paths.values().map(|path| ways(path).collect()).collect()
    }

    /// The headers of the packets of all paths.
    pub(crate) fn headers(&self) -> Vec<PathHeader> {
        let (ledger, inventory) = (&self.blueprint().ledger, self.reconciler.inventory());
        let paths = ledger.paths.values();
        paths.flat_map(|path| path_headers(ledger, path, inventory)).collect()
    }

    /// Hosts for all functions of a chain, each on its own, wherever they stand.
    pub(crate) fn proposal(
        &self,
        intent: &IndexedIntent,
        chain: ChainId,
    ) -> Result<Proposal, BenchError> {
        let chain = intent.chains.get(&chain).ok_or_else(|| wrong("the chain", &chain))?;
        let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
        let request = PlacementRequest {
            chains: vec![chain.name()],
            free: functions.map(|function| function.label.name.clone()).collect(),
            per_host: 1,
        };
        let inventory = self.reconciler.inventory();
        let proposals = placements(self.blueprint(), intent, inventory, &[chain], &request);
        proposals.into_iter().next().ok_or_else(|| wrong("the placement", &"there is none"))
    }

    fn tell(&mut self, node: &NodeName, news: NodeNews) {
        let _ = self.reconciler.accept(News::Node { node: node.clone(), session: 1, news });
    }

    /// Nodes have found the interfaces of all ports that are declared.
    pub(crate) fn bind(&mut self, intent: &IndexedIntent) {
        let mut ports: BTreeMap<&NodeName, BTreeSet<PortId>> = BTreeMap::new();
        for port in intent.ports.values() {
            let Some(node) = &port.node else { continue };
            ports.entry(node).or_default().insert(port.id);
        }
        for (node, bound) in ports {
            self.tell(node, NodeNews::Ports { bound, unbound: BTreeMap::new() });
        }
    }

    /// Nodes tell what is at their links; the one at `dead` carries nothing.
    pub(crate) fn look(&mut self, dead: Option<&Plug>) {
        let told = self.tree.told(&self.blueprint().ledger.port_numbers, dead);
        self.reconciler.hear_links(told);
    }

    /// Plans and runs until nothing changes any more.
    pub(crate) fn settle(&mut self, intent: &IndexedIntent) -> Result<(), BenchError> {
        for _ in 0..ROUNDS_MAX {
            if !self.step(intent) {
                return Ok(());
            }
        }
        Err(wrong("the planner", &"it does not come to rest"))
    }

    /// Plans once, and every node runs what it is told; was there anything?
    pub(crate) fn step(&mut self, intent: &IndexedIntent) -> bool {
        let Some(planned) = self.reconciler.plan(intent) else {
            self.reconciler.converged(intent);
            return false;
        };
        self.reconciler.adopt(planned);
        for (node, program) in self.reconciler.hand_out() {
            self.tell(&node, NodeNews::Acknowledged(program.number));
        }
        true
    }

    /// Fails unless packets of each of these chains go through it.
    pub(crate) fn require(
        &self,
        intent: &IndexedIntent,
        chains: &[ChainId],
    ) -> Result<(), BenchError> {
        for chain in chains {
            let status =
                chain_status(self.blueprint(), intent, self.reconciler.inventory(), *chain);
            if status.state != ChainState::Active {
                return Err(wrong("the planner", &format!("{chain}: {}", status.reason)));
            }
        }
        Ok(())
    }
}
