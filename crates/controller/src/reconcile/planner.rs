//! One step: give the news to the reconciler of `plan`, put the ledger on disk, hand programs out.
//! May block on the disk; knows no socket and decides nothing.

use super::ledger_store;
use super::{News, NodeNews, Situation};
use crate::declared::Snapshot;
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::NodeName;
use catena_model::discovery::DiscoveryKey;
use catena_model::topology::NodePlace;
use catena_plan::{Ledger, Reconciler};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

const NODE_KIND: &str = "node";

pub(super) struct Planner {
    store: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    declared: Snapshot,
    reconciler: Reconciler,
    /// As it is on disk: what is forgotten changes the one in force.
    ledger: Arc<Ledger>,
    /// Nodes whose place on the data network is not on disk yet.
    unstored: BTreeMap<NodeName, NodePlace>,
    trouble: Option<String>,
}

impl Planner {
    /// Goes on where the last controller on this store stopped.
    pub(super) fn resume(
        store: Arc<dyn Store>,
        fleet: Arc<Fleet>,
        declared: Snapshot,
    ) -> Result<Self, ControllerError> {
        let ledger = match ledger_store::read(store.as_ref())? {
            Some(ledger) => with_key(store.as_ref(), ledger)?,
            None => begin(store.as_ref())?,
        };
        let nodes: Vec<(NodeName, NodePlace)> = ledger_store::of_nodes(store.as_ref(), NODE_KIND)?;
        for (node, NodePlace { underlay, segments, .. }) in &nodes {
            // Two that were remembered with one address connect as before: the first has it.
            let _ = fleet.place(node, underlay.address, *segments);
        }
        let (book, number) = ledger_store::read_slices(store.as_ref())?;
        let told = ledger_store::read_programs(store.as_ref())?;
        let reconciler = Reconciler::resume(ledger, nodes, told).with_slices(book, number);
        let ledger = Arc::clone(&reconciler.blueprint().ledger);
        let unstored = BTreeMap::new();
        Ok(Self { store, fleet, declared, reconciler, ledger, unstored, trouble: None })
    }

    pub(super) fn situation(&self) -> Situation {
        Situation {
            revision: self.declared.revision,
            intent: Arc::clone(&self.declared.intent),
            blueprint: Arc::clone(self.reconciler.blueprint()),
            inventory: Arc::new(self.reconciler.inventory().clone()),
            trouble: self.trouble.clone(),
            found: Arc::default(),
        }
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Takes the news and brings the programs of all nodes in step.
    pub(super) fn advance(&mut self, news: Vec<News>, declared: Snapshot) {
        self.declared = declared;
        self.trouble = None;
        for news in news {
            self.take(news);
        }
        self.reconciler.hear_links(self.fleet.links.told());
        if let Err(error) = self.plan() {
            tracing::error!("the plan cannot be carried out: {error}");
            self.trouble = Some(format!("the controller cannot record its plan: {error}"));
        }
        for (node, program) in self.reconciler.hand_out() {
            self.fleet.want(node, program);
        }
    }

    fn take(&mut self, news: News) {
        if let News::Node { node, news: NodeNews::Refused { number, reason }, .. } = &news {
            tracing::warn!(%node, "program {number} was refused: {reason}");
        }
        if let News::Forgotten(node) = &news
            && !self.forget(node)
        {
            return;
        }
        self.unstored.extend(self.reconciler.accept(news));
    }

    /// Strikes a node that is away off the store. False: it is there, or still in the store.
    fn forget(&mut self, node: &NodeName) -> bool {
        let facts = self.reconciler.inventory().facts(node);
        if facts.is_none_or(|facts| facts.is_connected) {
            return false;
        }
        let mut transaction = Transaction::untold();
        transaction.delete(Key::new(NODE_KIND, node), Expect::Any);
        transaction.delete(ledger_store::program_key(node), Expect::Any);
        if let Err(error) = self.store.commit(transaction) {
            tracing::warn!(%node, "it is not forgotten: {error}");
            return false;
        }
        self.unstored.remove(node);
        self.fleet.forget(node);
        tracing::info!(%node, "forgotten");
        true
    }

    /// Nothing is adopted before its ledger is on disk, nor planned with a node that is not: a
    /// controller that is started anew must know whom it has told something.
    fn plan(&mut self) -> Result<(), StoreError> {
        let mut transaction = Transaction::untold();
        for (node, place) in &self.unstored {
            transaction.put(Key::new(NODE_KIND, node), place, Expect::Any)?;
        }
        if !transaction.is_empty() {
            self.store.commit(transaction)?;
            self.unstored.clear();
        }
        let Some(planned) = self.reconciler.plan(&self.declared.intent) else {
            self.reconciler.converged(&self.declared.intent);
            return Ok(());
        };
        let former = self.reconciler.blueprint();
        let mut transaction = Transaction::untold();
        if !Arc::ptr_eq(planned.ledger(), &self.ledger) {
            ledger_store::add(&mut transaction, planned.ledger(), &self.ledger)?;
        }
        ledger_store::add_programs(&mut transaction, planned.programs(former))?;
        ledger_store::add_slices(&mut transaction, planned.slice_blocks(former))?;
        self.store.commit(transaction)?;
        tracing::debug!(from = %former.number, to = %planned.number(), "new blueprint");
        self.reconciler.adopt(planned);
        self.ledger = Arc::clone(&self.reconciler.blueprint().ledger);
        Ok(())
    }
}

/// The ledger of a domain that begins, once it is in the store.
fn begin(store: &dyn Store) -> Result<Ledger, ControllerError> {
    let (choice_seed, discovery_key) = (random_seed()?, Some(random_key()?));
    let ledger = Ledger { choice_seed, discovery_key, ..Ledger::default() };
    let mut transaction = Transaction::untold();
    ledger_store::add(&mut transaction, &ledger, &Ledger::default())?;
    store.commit(transaction)?;
    Ok(ledger)
}

/// A ledger of before there were keys of discovery gets one, which is in the store before it is used.
fn with_key(store: &dyn Store, ledger: Ledger) -> Result<Ledger, ControllerError> {
    if ledger.discovery_key.is_some() {
        return Ok(ledger);
    }
    let with_key = Ledger { discovery_key: Some(random_key()?), ..ledger.clone() };
    let mut transaction = Transaction::untold();
    ledger_store::add(&mut transaction, &with_key, &ledger)?;
    store.commit(transaction)?;
    Ok(with_key)
}

/// A number that nobody knows before; not 0, which means that there is none.
fn random_seed() -> Result<u64, ControllerError> {
    Ok(u64::from_ne_bytes(random()?).max(1))
}

fn random_key() -> Result<DiscoveryKey, ControllerError> {
    random().map(DiscoveryKey::new)
}

fn random<const N: usize>() -> Result<[u8; N], ControllerError> {
    let mut bytes = [0; N];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    filled.map_err(|error| ControllerError::Randomness(error.into()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::Declared;
    use catena_model::BlueprintNumber;
    use catena_store::MemoryStore;
    use serde_json::json;

    fn planner(store: &Arc<dyn Store>) -> Planner {
        let declared = Declared::load(Arc::clone(store)).unwrap();
        let fleet = Arc::new(Fleet::default());
        Planner::resume(Arc::clone(store), fleet, declared.snapshot()).unwrap()
    }

    fn seed(planner: &Planner) -> u64 {
        planner.situation().blueprint.ledger.choice_seed
    }

    /// What the programs of a planner say, once a node has come.
    fn told(planner: &mut Planner) -> u64 {
        let node = NodeName::new("host1").unwrap();
        let underlay =
            catena_model::program::Underlay { address: [192, 0, 2, 1].into(), mtu: 1_500 };
        let place = NodePlace::host(underlay);
        let news = NodeNews::Met { place, running: BlueprintNumber(0) };
        let declared = planner.declared.clone();
        planner.advance(vec![News::Node { node: node.clone(), session: 1, news }], declared);
        planner.situation().blueprint.program(&node).unwrap().choice_seed
    }

    #[test]
    fn a_domain_has_a_seed_of_its_own_from_its_first_start_on() {
        let stores: [Arc<dyn Store>; 2] = [(); 2].map(|()| Arc::new(MemoryStore::default()) as _);
        let [one, other] = stores.each_ref().map(|store| seed(&planner(store)));
        assert!(one != 0 && other != 0 && one != other);
        let mut again = planner(&stores[0]);
        assert_eq!((seed(&again), told(&mut again)), (one, one), "nothing was planned before");
        assert_eq!(told(&mut planner(&stores[0])), one, "and after a plan");
    }

    #[test]
    fn a_domain_from_before_there_were_seeds_keeps_to_none() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut transaction = Transaction::new();
        let ledger = json!({"number": 7, "programs": {}, "paths": {}, "quarantine": {}});
        transaction.put(Key::new("ledger", "current"), &ledger, Expect::Absent).unwrap();
        store.commit(transaction).unwrap();
        assert_eq!(told(&mut planner(&store)), 0);
        assert_eq!(told(&mut planner(&store)), 0, "also what it has written since");
    }

    fn key(planner: &Planner) -> Option<DiscoveryKey> {
        planner.situation().blueprint.ledger.discovery_key
    }

    #[test]
    fn a_domain_has_a_discovery_key_of_its_own_also_one_from_before_there_were_any() {
        let stores: [Arc<dyn Store>; 3] = [(); 3].map(|()| Arc::new(MemoryStore::default()) as _);
        let mut transaction = Transaction::new();
        let ledger = json!({"number": 7, "paths": {}, "quarantine": {}});
        transaction.put(Key::new("ledger", "current"), &ledger, Expect::Absent).unwrap();
        stores[2].commit(transaction).unwrap();
        let [one, other, former] = stores.each_ref().map(|store| key(&planner(store)).unwrap());
        assert!(one != other && other != former && one != former);
        let again = stores.each_ref().map(|store| key(&planner(store)).unwrap());
        assert_eq!(again, [one, other, former], "each keeps its own");
    }

    #[test]
    fn port_numbers_survive_the_controller() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut first = planner(&store);
        told(&mut first);
        let node = NodeName::new("host1").unwrap();
        let heard = |planner: &mut Planner, links: &[&str]| {
            let links = NodeNews::Links(links.iter().map(|link| (*link).to_owned()).collect());
            let declared = planner.declared.clone();
            let news = News::Node { node: node.clone(), session: 1, news: links };
            planner.advance(vec![news], declared);
        };
        heard(&mut first, &["eth1", "eth2"]);
        heard(&mut first, &["eth2"]);
        let books = |planner: &Planner| planner.situation().blueprint.ledger.port_numbers.clone();
        let written = books(&first);
        assert_eq!(
            (written[&node].of("eth2").unwrap().get(), written[&node].resting().len()),
            (2, 1)
        );
        assert_eq!(books(&planner(&store)), written);
    }
}
