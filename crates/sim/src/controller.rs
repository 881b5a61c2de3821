//! The controller. Real: the reconciler, the drain watch, the sessions' state machine, packing of
//! programs, the store's trait and transactions. Modelled after the controller's shells: which
//! queue stands between API, reconciler and sessions, and that a ledger is stored before its
//! programs leave. Knows no network; what it wants sent comes out of it.

use crate::declared::{Declared, Refused};
use crate::journal_store::{JournalStore, SharedJournal, lock};
use crate::planted::Planted;
use crate::translate::translate;
use catena_model::entry::{Program, ProgramVersion};
use catena_model::status::DrainProof;
use catena_model::topology::NodePlace;
use catena_model::{Answer, NodeCounters, NodeName, PathId, Question};
use catena_plan::{Asked, DrainWatch, Intent, Ledger, News, NodeNews, Reconciler};
use catena_protocol::message::{FromAgent, ToAgent};
use catena_protocol::session::{ControllerOutput, ControllerSession, NodeEvent};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const LEDGER_KIND: &str = "ledger";
const PATH_KIND: &str = "path";
const NODE_KIND: &str = "node";
const PROGRAM_KIND: &str = "program";
/// Planted fault: how long [`Planted::DrainsBySleep`] waits.
const SLEEP: Duration = Duration::from_millis(2);

/// Names a connection in the whole run.
pub(crate) type ConnectionId = u64;

/// What the controller wants done.
#[derive(Debug)]
pub(crate) enum ControllerEffect {
    Send(ConnectionId, ToAgent),
    Close(ConnectionId),
}

#[derive(Debug)]
struct Session {
    node: NodeName,
    number: u64,
    is_met: bool,
    machine: ControllerSession,
}

/// One reading of all counters.
#[derive(Debug)]
struct Reading {
    open: BTreeMap<(ConnectionId, u64), NodeName>,
    answers: BTreeMap<NodeName, NodeCounters>,
}

/// What one step of the reconciler has done.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// The newest blueprint, if it is new.
    pub(crate) planned: Option<Ledger>,
    pub(crate) trouble: Option<String>,
}

/// The state of one controller process.
#[derive(Debug)]
pub(crate) struct Controller {
    planted: Planted,
    store: JournalStore,
    pub(crate) declared: Declared,
    pub(crate) reconciler: Reconciler,
    /// Nodes whose place is not on disk yet.
    unstored: BTreeMap<NodeName, NodePlace>,
    /// What each node should run: sessions send it, now or later.
    wanted: BTreeMap<NodeName, Program>,
    /// The programs that each may run: what differs from one of them is enough for it.
    may_run: BTreeMap<NodeName, Vec<Program>>,
    newest_session: BTreeMap<NodeName, u64>,
    sessions: BTreeMap<ConnectionId, Session>,
    news: Vec<News>,
    drains: DrainWatch<Duration>,
    reading: Option<Reading>,
    effects: Vec<ControllerEffect>,
}

impl Controller {
    /// Starts on what is on the disk.
    pub(crate) fn start(journal: &SharedJournal, planted: Planted) -> Result<Self, StoreError> {
        lock(journal).is_lying =
            matches!(planted, Planted::StoreAnswersBeforeSync | Planted::OpensUnsynced);
        let store = JournalStore::open(Arc::clone(journal));
        lock(journal).is_lying = planted == Planted::StoreAnswersBeforeSync;
        let declared = Declared::load(&store)?;
        let ledger = read_ledger(&store)?;
        let mut nodes = Vec::new();
        for document in store.list(NODE_KIND)? {
            let place: NodePlace = document.decode()?;
            nodes.extend(NodeName::new(document.key.id).map(|node| (node, place)));
        }
        let mut told: BTreeMap<NodeName, ProgramVersion> = BTreeMap::new();
        for document in store.list(PROGRAM_KIND)? {
            let version = document.decode()?;
            told.extend(NodeName::new(document.key.id).map(|node| (node, version)));
        }
        Ok(Self {
            planted,
            store,
            declared,
            reconciler: Reconciler::resume(ledger, nodes, told),
            unstored: BTreeMap::new(),
            wanted: BTreeMap::new(),
            may_run: BTreeMap::new(),
            newest_session: BTreeMap::new(),
            sessions: BTreeMap::new(),
            news: Vec::new(),
            drains: DrainWatch::default(),
            reading: None,
            effects: Vec::new(),
        })
    }

    pub(crate) fn take_wishes(&mut self) -> Vec<ControllerEffect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    // ----- the operator -----

    /// Makes one change, durably, or none of it.
    pub(crate) fn change(&mut self, wanted: &Intent) -> Result<(), Refused> {
        self.declared.change(&self.store, wanted, self.planted)
    }

    // ----- the reconciler -----

    /// Takes the news and brings the programs of all nodes in step.
    pub(crate) fn advance(&mut self) -> Step {
        let mut step = Step::default();
        for news in std::mem::take(&mut self.news) {
            self.unstored.extend(self.reconciler.accept(news));
        }
        if let Err(error) = self.put_nodes() {
            return Step { trouble: Some(error.to_string()), ..step };
        }
        if let Some(planned) = self.reconciler.plan(&self.declared.intent) {
            step.planned = Some(Ledger::clone(planned.ledger()));
            let mut ledger = Ledger::clone(planned.ledger());
            let former = Arc::clone(&self.reconciler.blueprint().ledger);
            if self.planted == Planted::ReusesAtOnce {
                ledger.quarantine.clear();
                ledger.remembered.clear();
            }
            if self.planted == Planted::HandsOutBeforePersisting {
                self.reconciler.adopt(planned);
                self.hand_out();
                let told = BTreeMap::new();
                step.trouble = self.put_ledger(&ledger, &former, told).err().map(|e| e.to_string());
                return step;
            }
            let programs = planned.programs(self.reconciler.blueprint());
            let told = programs.map(|(node, program)| (node.clone(), program.version())).collect();
            match self.put_ledger(&ledger, &former, told) {
                Ok(()) => self.reconciler.adopt(planned),
                Err(error) => step.trouble = Some(error.to_string()),
            }
        } else {
            self.reconciler.converged(&self.declared.intent);
        }
        self.hand_out();
        step
    }

    /// A document for each path that differs, one for each program, and a head.
    fn put_ledger(
        &self,
        ledger: &Ledger,
        former: &Ledger,
        told: BTreeMap<NodeName, ProgramVersion>,
    ) -> Result<(), StoreError> {
        let mut transaction = Transaction::new();
        transaction.put(ledger_key(), ledger, Expect::Any)?;
        if self.planted == Planted::WritesLedgerInTwo {
            self.store.commit(std::mem::take(&mut transaction))?;
        }
        for (id, record) in ledger.paths.since(&former.paths) {
            let key = Key::new(PATH_KIND, id);
            match record {
                Some(record) => transaction.put(key, record, Expect::Any)?,
                None => transaction.delete(key, Expect::Any),
            }
        }
        for (node, version) in told {
            transaction.put(Key::new(PROGRAM_KIND, node), &version, Expect::Any)?;
        }
        self.store.commit(transaction).map(drop)
    }

    fn hand_out(&mut self) {
        for (node, program) in self.reconciler.hand_out() {
            self.may_run.entry(node.clone()).or_insert_with(|| vec![program.clone()]);
            self.wanted.insert(node.clone(), program.clone());
            let of_node: Vec<ConnectionId> = self
                .sessions
                .iter()
                .filter(|(_, session)| session.is_met && session.node == node)
                .map(|(id, _)| *id)
                .collect();
            for id in of_node {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.machine.want(program.clone());
                }
                self.pump(id);
            }
        }
    }

    /// Nothing is planned with a node that is not on disk.
    fn put_nodes(&mut self) -> Result<(), StoreError> {
        let mut transaction = Transaction::new();
        for (node, underlay) in &self.unstored {
            transaction.put(Key::new(NODE_KIND, node), underlay, Expect::Any)?;
        }
        if !transaction.is_empty() {
            self.store.commit(transaction)?;
            self.unstored.clear();
        }
        Ok(())
    }

    // ----- sessions -----

    /// A node's agent has dialled, with the certificate of that node.
    pub(crate) fn connect(&mut self, id: ConnectionId, node: NodeName) {
        let known = self.may_run.get(&node).cloned().unwrap_or_default();
        let machine = ControllerSession::new(node.clone(), known);
        self.sessions.insert(id, Session { node, number: 0, is_met: false, machine });
    }

    pub(crate) fn hear(&mut self, id: ConnectionId, message: FromAgent) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.machine.accept(message).is_err() {
            self.effects.push(ControllerEffect::Close(id));
            self.disconnect(id);
            return;
        }
        if !session.is_met {
            session.is_met = true;
            let number = self.newest_session.entry(session.node.clone()).or_default();
            *number += 1;
            session.number = *number;
            if let Some(program) = self.wanted.get(&session.node) {
                session.machine.want(program.clone());
            }
        }
        self.pump(id);
    }

    /// The session is over, or a newer one of its node has begun.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if let Some(reading) = &mut self.reading {
            reading.open.retain(|(connection, _), _| *connection != id);
        }
        if session.is_met {
            self.tell(&session.node, session.number, NodeNews::Lost);
        }
    }

    /// Sessions that a newer one of the same node has replaced.
    pub(crate) fn replaced(&self) -> Vec<ConnectionId> {
        let is_old = |session: &Session| {
            session.is_met && self.newest_session.get(&session.node) != Some(&session.number)
        };
        self.sessions.iter().filter(|(_, session)| is_old(session)).map(|(id, _)| *id).collect()
    }

    fn pump(&mut self, id: ConnectionId) {
        loop {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            let Some(output) = session.machine.poll_output() else { return };
            let (node, number) = (session.node.clone(), session.number);
            match output {
                ControllerOutput::Send(message) => {
                    if self.newest_session.get(&node) == Some(&number) {
                        self.may_run.insert(node.clone(), session.machine.may_run());
                    }
                    self.trust_blindly(&node, number, &message);
                    self.effects.push(ControllerEffect::Send(id, message));
                }
                ControllerOutput::Event(NodeEvent::Answer(answer)) => {
                    self.take_answer((id, answer.request), &answer.body);
                }
                ControllerOutput::Event(event) => match translate(event) {
                    Some(news) => self.tell(&node, number, news),
                    None => {
                        self.effects.push(ControllerEffect::Close(id));
                        self.disconnect(id);
                    }
                },
            }
        }
    }

    fn trust_blindly(&mut self, node: &NodeName, number: u64, message: &ToAgent) {
        use catena_protocol::message::to_agent::Message;
        if let (Planted::TrustsWhatItSent, Some(Message::Delta(delta))) =
            (self.planted, &message.message)
        {
            let sent = catena_model::BlueprintNumber(delta.number);
            self.tell(node, number, NodeNews::Acknowledged(sent));
        }
    }

    fn tell(&mut self, node: &NodeName, session: u64, news: NodeNews) {
        self.news.push(News::Node { node: node.clone(), session, news });
    }

    // ----- drains -----

    /// Begins to read counters if a path is draining; true if it does.
    pub(crate) fn begin_reading(&mut self, now: Duration) -> bool {
        let (blueprint, inventory) = (self.reconciler.blueprint(), self.reconciler.inventory());
        if !self.drains.observe(blueprint, inventory, now) {
            return false;
        }
        let mut reading = Reading { open: BTreeMap::new(), answers: BTreeMap::new() };
        let mut whom = Asked::default();
        self.drains.ask(&mut whom);
        let question = Question::Counters { with_interfaces: false, of: Some(whom.scope()) };
        let body = serde_json::to_vec(&question).unwrap_or_default();
        let mut asked = Vec::new();
        for (id, session) in &mut self.sessions {
            let is_newest = self.newest_session.get(&session.node) == Some(&session.number);
            if session.is_met && is_newest && whom.nodes.contains(&session.node) {
                let request = session.machine.ask(body.clone());
                reading.open.insert((*id, request), session.node.clone());
                asked.push(*id);
            }
        }
        self.reading = Some(reading);
        asked.into_iter().for_each(|id| self.pump(id));
        true
    }

    fn take_answer(&mut self, question: (ConnectionId, u64), body: &[u8]) {
        let Some(reading) = &mut self.reading else { return };
        let Some(node) = reading.open.remove(&question) else { return };
        if let Ok(Answer::Counters(counters)) = serde_json::from_slice(body)
            && counters.node == node
        {
            reading.answers.insert(node, *counters);
        }
    }

    pub(crate) fn is_reading_complete(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.open.is_empty())
    }

    /// Ends the reading: the paths that are drained by it, with the proof.
    pub(crate) fn end_reading(&mut self, now: Duration) -> Vec<(PathId, DrainProof)> {
        let Some(reading) = self.reading.take() else { return Vec::new() };
        let unpinned = self.drains.unpinned(&reading.answers, now);
        self.news.extend(unpinned.into_iter().map(News::Unpinned));
        let mut drained = self.drains.drained(&reading.answers, now);
        if self.planted == Planted::DrainsBySleep {
            drained = self.drains.drained(&BTreeMap::new(), now + DRAIN_WAIT_MAX_LESS_SLEEP);
            drained.iter_mut().for_each(|path| path.proof = DrainProof::Counted);
        }
        let drained: Vec<(PathId, DrainProof)> =
            drained.into_iter().map(|drained| (drained.path, drained.proof)).collect();
        self.news.extend(drained.iter().map(|(path, _)| News::Drained(*path)));
        drained
    }
}

/// Makes the bound look as if it were the planted sleep.
const DRAIN_WAIT_MAX_LESS_SLEEP: Duration = catena_plan::DRAIN_WAIT_MAX.saturating_sub(SLEEP);

pub(crate) fn read_ledger(store: &dyn Store) -> Result<Ledger, StoreError> {
    let Some(head) = store.get(&ledger_key())? else { return Ok(Ledger::default()) };
    let mut paths = Vec::new();
    for document in store.list(PATH_KIND)? {
        let record = document.decode()?;
        paths.extend(document.key.id.parse().ok().map(|id| (PathId(id), record)));
    }
    Ok(Ledger { paths: paths.into_iter().collect(), ..head.decode()? })
}

fn ledger_key() -> Key {
    Key::new(LEDGER_KIND, "current")
}
