//! The controller. Real: the reconciler, the drain watch, the sessions' state machine, packing of
//! programs, the store's trait and transactions. Modelled after the controller's shells: which
//! queue stands between API, reconciler and sessions, and that a ledger is stored before its
//! programs leave. Knows no network; what it wants sent comes out of it.

use crate::declared::{Declared, Refused};
use crate::journal_store::{JournalStore, SharedJournal, lock};
use crate::ledger_store::{put_ledger, read_ledger, read_told};
use crate::planted::Planted;
use crate::translate::{links, translate};
use catena_model::discovery::LinkState;
use catena_model::entry::{Program, ProgramVersion};
use catena_model::status::DrainProof;
use catena_model::topology::NodePlace;
use catena_model::{Answer, NodeCounters, NodeName, PathId, Question};
use catena_plan::{Asked, DrainWatch, Intent, Ledger, News, NodeNews, Reconciler};
use catena_protocol::message::{FromAgent, ToAgent};
use catena_protocol::session::{ControllerOutput, ControllerSession, NodeEvent};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const NODE_KIND: &str = "node";
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
    /// What nodes told of their links last, and the session that told it.
    links: BTreeMap<NodeName, (u64, Arc<Vec<LinkState>>)>,
    has_link_news: bool,
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
        let told = read_told(&store)?;
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
            links: BTreeMap::new(),
            has_link_news: false,
        })
    }

    pub(crate) fn take_wishes(&mut self) -> Vec<ControllerEffect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty() || self.has_link_news
    }

    // ----- the operator -----

    /// Makes one change, durably, or none of it.
    pub(crate) fn change(&mut self, wanted: &Intent) -> Result<(), Refused> {
        self.declared.change(&self.store, wanted, self.planted)
    }

    /// Marks a switch as an edge, or takes the mark off. False: it is marked so, or nobody knows it.
    pub(crate) fn mark(&mut self, node: &NodeName, is_edge: bool) -> bool {
        let facts = self.reconciler.inventory().facts(node);
        let is_new = facts.is_some_and(|facts| facts.is_edge != is_edge);
        if is_new {
            self.news.push(News::Marked { node: node.clone(), is_edge });
        }
        is_new
    }

    /// Is what it knows of a switch written down, and is it this?
    pub(crate) fn is_marked(&self, node: &NodeName, is_edge: bool) -> bool {
        let facts = self.reconciler.inventory().facts(node);
        let is_so = facts.is_some_and(|facts| facts.is_edge == is_edge);
        is_so && self.news.is_empty() && self.unstored.is_empty()
    }

    // ----- the reconciler -----

    /// Takes the news and brings the programs of all nodes in step.
    pub(crate) fn advance(&mut self) -> Step {
        let mut step = Step::default();
        for news in std::mem::take(&mut self.news) {
            self.unstored.extend(self.reconciler.accept(news));
        }
        self.has_link_news = false;
        let told = self.links.iter().map(|(node, (_, links))| (node.clone(), Arc::clone(links)));
        self.reconciler.hear_links(told.collect());
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

    fn put_ledger(
        &self,
        ledger: &Ledger,
        former: &Ledger,
        told: BTreeMap<NodeName, ProgramVersion>,
    ) -> Result<(), StoreError> {
        put_ledger(&self.store, (ledger, former), told, self.planted)
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
            let told = self.links.get(&session.node);
            if told.is_some_and(|(number, _)| *number == session.number) {
                self.links.remove(&session.node);
                self.has_link_news = true;
            }
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
                ControllerOutput::Event(event) => {
                    if self.take_event(&node, number, event).is_none() {
                        self.effects.push(ControllerEffect::Close(id));
                        self.disconnect(id);
                    }
                }
            }
        }
    }

    /// None: no node can have said so.
    fn take_event(&mut self, node: &NodeName, session: u64, event: NodeEvent) -> Option<()> {
        let interfaces = match event {
            NodeEvent::Links(told) => self.take_links(node, session, links(told)?),
            NodeEvent::Hello(hello) => {
                let interfaces = hello.links.iter().cloned().collect();
                self.tell(node, session, translate(NodeEvent::Hello(hello))?);
                Some(interfaces)
            }
            event => {
                self.tell(node, session, translate(event)?);
                None
            }
        };
        if let Some(interfaces) = interfaces {
            self.tell(node, session, NodeNews::Links(interfaces));
        }
        Some(())
    }

    /// The interfaces that are links, as the newest session tells.
    fn take_links(
        &mut self,
        node: &NodeName,
        session: u64,
        told: Vec<LinkState>,
    ) -> Option<BTreeSet<String>> {
        let interfaces = told.iter().map(|link| link.interface.clone()).collect();
        let known = self.links.get(node);
        if known.is_some_and(|(number, _)| session < *number) {
            return None;
        }
        let told = match known.filter(|_| self.planted == Planted::KeepsDeadRoutes) {
            Some((_, former)) => without_deaths(former, told),
            None => told,
        };
        self.links.insert(node.clone(), (session, Arc::new(told)));
        self.has_link_news = true;
        Some(interfaces)
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

/// Planted fault: links that had a neighbour have him still.
fn without_deaths(former: &[LinkState], told: Vec<LinkState>) -> Vec<LinkState> {
    let is_alive = |link: &LinkState| link.is_up && !link.neighbours.is_empty() && !link.is_doubted;
    let keep = |link: LinkState| {
        let mut known = former.iter().filter(|known| known.interface == link.interface);
        let known = known.find(|known| is_alive(known) && known.number == link.number);
        known.filter(|_| !is_alive(&link)).cloned().unwrap_or(link)
    };
    told.into_iter().map(keep).collect()
}

/// Makes the bound look as if it were the planted sleep.
const DRAIN_WAIT_MAX_LESS_SLEEP: Duration = catena_plan::DRAIN_WAIT_MAX.saturating_sub(SLEEP);
