//! Which chains go on in which others: what follows a chain, what comes before it, and by which
//! routes packets reach it. Knows the shape alone; refuses to know rules and paths.

use crate::intent::Intent;
use crate::ledger::{Direction, Ledger, PathPhase};
use crate::slices::Places;
use catena_model::id::ChainId;
use catena_model::resource::Chain;
use std::collections::{BTreeMap, BTreeSet};

/// Routes are not followed beyond this many chains; validation refuses cycles and what is longer
/// than a header's time to live.
const ROUTE_CHAINS_MAX: usize = catena_model::limits::CHAIN_FUNCTIONS_MAX + 1;

/// Behind the numbers of a route's branches: what goes on from a chain comes before what ends there.
const END: u16 = u16::MAX;

/// All graphs of an intent as one.
pub(crate) struct Graphs<'i> {
    intent: &'i Intent,
    after: BTreeMap<ChainId, &'i [ChainId]>,
    before: BTreeMap<ChainId, Vec<ChainId>>,
    slices: Places,
}

/// A way through chains, from one that packets enter by ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) chains: Vec<ChainId>,
    /// Its place among the routes from the same start: the first that takes a packet has it.
    pub(crate) order: Vec<u16>,
}

impl<'i> Graphs<'i> {
    pub(crate) fn of(intent: &'i Intent) -> Self {
        let slices = Places::default();
        let mut graphs = Self { intent, after: BTreeMap::new(), before: BTreeMap::new(), slices };
        let branches = intent.graphs.values().flat_map(|graph| &graph.branches);
        for (source, destinations) in branches.filter(|(id, _)| intent.chains.contains_key(*id)) {
            graphs.after.insert(*source, destinations);
            for destination in destinations {
                graphs.before.entry(*destination).or_default().push(*source);
            }
        }
        graphs
    }

    /// The same for whoever renders chains: slices enter them, too.
    pub(crate) fn with_slices(intent: &'i Intent, slices: &Places) -> Self {
        Self { slices: slices.clone(), ..Self::of(intent) }
    }

    /// Does anything enter a chain? One without rules and slices takes no packet: nobody waits for
    /// it.
    pub(crate) fn is_entered(&self, chain: &Chain) -> bool {
        !chain.rules.is_empty() || self.slices.has_any(chain.id)
    }

    /// The chains that follow a chain, in their order.
    pub(crate) fn after(&self, chain: ChainId) -> &'i [ChainId] {
        self.after.get(&chain).copied().unwrap_or_default()
    }

    /// The chains that go on in a chain.
    pub(crate) fn before(&self, chain: ChainId) -> &[ChainId] {
        self.before.get(&chain).map(Vec::as_slice).unwrap_or_default()
    }

    /// The chains that packets may have passed before a chain.
    pub(crate) fn all_before(&self, chain: ChainId) -> BTreeSet<ChainId> {
        let (mut found, mut open) = (BTreeSet::new(), vec![chain]);
        while let Some(id) = open.pop() {
            open.extend(self.before(id).iter().filter(|before| found.insert(**before)));
        }
        found
    }

    /// Does it take packets from other chains alone?
    pub(crate) fn is_joined(&self, chain: ChainId) -> bool {
        !self.before(chain).is_empty()
    }

    /// The chains that a path of a chain leads to: on the way back those before it, as far as they
    /// are symmetric.
    pub(crate) fn leads_to(&self, chain: ChainId, direction: Direction) -> Vec<ChainId> {
        match direction {
            Direction::Forward => self.after(chain).to_vec(),
            Direction::Reverse => {
                let mut found = BTreeSet::new();
                self.find_symmetric(chain, &mut found, &mut BTreeSet::new());
                found.into_iter().collect()
            }
        }
    }

    /// The nearest chains before one that have a way back.
    fn find_symmetric(
        &self,
        chain: ChainId,
        found: &mut BTreeSet<ChainId>,
        seen: &mut BTreeSet<ChainId>,
    ) {
        for before in self.before(chain) {
            if !seen.insert(*before) {
                continue;
            }
            if self.intent.chains.get(before).is_some_and(|chain| chain.is_symmetric) {
                found.insert(*before);
            } else {
                self.find_symmetric(*before, found, seen);
            }
        }
    }

    /// The routes that end in a chain, at most `routes_max`; none: there are more.
    pub(crate) fn routes_to(&self, chain: ChainId, routes_max: usize) -> Option<Vec<Route>> {
        if !self.is_joined(chain) {
            let order = if self.after(chain).is_empty() { Vec::new() } else { vec![END] };
            return Some(vec![Route { chains: vec![chain], order }]);
        }
        let mut done = Vec::new();
        // Chains from the end on, with the number of each branch.
        let mut open = vec![(vec![chain], vec![END])];
        let mut steps = routes_max.saturating_mul(ROUTE_CHAINS_MAX);
        while let Some((chains, order)) = open.pop() {
            steps = steps.checked_sub(1)?;
            let Some(first) = chains.last().copied() else { continue };
            if !self.is_joined(first) {
                let turned = |list: &Vec<ChainId>| list.iter().rev().copied().collect();
                let order = order.iter().rev().copied().collect();
                done.push(Route { chains: turned(&chains), order });
            }
            if done.len() + open.len() > routes_max {
                return None;
            }
            if chains.len() == ROUTE_CHAINS_MAX {
                continue;
            }
            let is_new = |before: &&ChainId| !chains.contains(before);
            for before in self.before(first).iter().filter(is_new) {
                let place = self.after(*before).iter().position(|next| *next == first);
                let place = place.and_then(|place| u16::try_from(place).ok()).unwrap_or(END);
                let (mut chains, mut order) = (chains.clone(), order.clone());
                chains.push(*before);
                order.push(place);
                open.push((chains, order));
            }
        }
        done.sort_by(|one, other| one.order.cmp(&other.order));
        Some(done)
    }
}

/// Those of these chains that turn together: chains of one graph, as declared and as they are carried
/// now, all of which must be there. Chains are in order, and so are groups by their first.
pub(crate) fn groups(
    ledger: &Ledger,
    graphs: &Graphs<'_>,
    chains: &BTreeSet<ChainId>,
) -> Vec<Vec<ChainId>> {
    let mut near: BTreeMap<ChainId, Vec<ChainId>> = BTreeMap::new();
    let mut link = |one: ChainId, other: ChainId| {
        near.entry(one).or_default().push(other);
        near.entry(other).or_default().push(one);
    };
    for (source, destinations) in &graphs.after {
        destinations.iter().for_each(|destination| link(*source, *destination));
    }
    let linked = ledger.paths.linked().map(|(_, path)| path);
    for path in linked.filter(|path| path.phase == PathPhase::Classified) {
        path.leads_to.iter().for_each(|next| link(path.chain, *next));
    }
    let mut grouped = BTreeSet::new();
    let mut groups = Vec::with_capacity(chains.len());
    for chain in chains.iter().filter(|chain| graphs.intent.chains.contains_key(*chain)) {
        if !near.contains_key(chain) {
            groups.push(vec![*chain]);
            continue;
        }
        if !grouped.insert(*chain) {
            continue;
        }
        let mut group = BTreeSet::from([*chain]);
        let mut open = vec![*chain];
        while let Some(next) = open.pop() {
            for other in near.get(&next).into_iter().flatten() {
                if group.insert(*other) {
                    grouped.insert(*other);
                    open.push(*other);
                }
            }
        }
        group.retain(|chain| graphs.intent.chains.contains_key(chain));
        groups.push(group.into_iter().collect());
    }
    groups
}
