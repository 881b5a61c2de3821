//! The nodes that can be reached: where to put the program each should run, and whom to ask.
//! Knows no program's content and no protocol.

use super::instances::InstanceBoard;
use super::links::LinkBoard;
use super::telemetry::TelemetryBoard;
use catena_model::entry::Program;
use catena_model::program::SegmentPlace;
use catena_model::{Answer, NodeName, Question};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// How long a node may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// How long it is told that two agents took a node's session from each other: some rounds of agents
/// that dial again.
const CONTEST_MEMORY: Duration = Duration::from_secs(60);
/// Questions that may wait for one node.
const ASKS_MAX: usize = 64;

/// Where the answer to a question goes.
pub(crate) type Reply = oneshot::Sender<Answer>;

/// A question to a node, in JSON, and where its answer goes.
pub(crate) struct Ask {
    pub(crate) question: Vec<u8>,
    pub(crate) reply: Reply,
}

/// All nodes that ever had a session or a program.
#[derive(Default)]
pub(crate) struct Fleet {
    nodes: Mutex<BTreeMap<NodeName, Peer>>,
    /// What they tell of their links.
    pub(crate) links: LinkBoard,
    /// What they run themselves.
    pub(crate) instances: InstanceBoard,
    /// What they tell of packets at the end of their paths.
    pub(crate) telemetry: TelemetryBoard,
}

struct Peer {
    wanted: watch::Sender<Option<Program>>,
    /// The programs that the node may run: what differs from one of them is enough for it.
    may_run: Vec<Program>,
    session: u64,
    asks: Option<mpsc::Sender<Ask>>,
    /// Where the node is on the data network, or was when it was connected last.
    underlay: Option<IpAddr>,
    /// The same in the IPv6 underlay.
    segments: Option<SegmentPlace>,
    /// The agent of the newest session, and the one whose session that ended.
    agent: String,
    displaced: Option<String>,
    /// When an agent took the session back that another had taken from it.
    contested: Option<Instant>,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            wanted: watch::Sender::new(None),
            may_run: Vec::new(),
            session: 0,
            asks: None,
            underlay: None,
            segments: None,
            agent: String::new(),
            displaced: None,
            contested: None,
        }
    }
}

impl Peer {
    /// An agent that was started anew takes the session of the one before it once, and that one is
    /// not heard of again; two that run take it from each other.
    fn introduce(&mut self, agent: String) {
        if agent.is_empty() || agent == self.agent {
            return;
        }
        if self.displaced.as_ref() == Some(&agent) {
            self.contested = Some(Instant::now());
        }
        let former = std::mem::replace(&mut self.agent, agent);
        self.displaced = self.asks.is_some().then_some(former).filter(|former| !former.is_empty());
    }
}

/// Why a node cannot be where it says.
pub(crate) struct Taken {
    pub(crate) what: String,
    /// Whose it is.
    pub(crate) by: NodeName,
    /// Is that node connected?
    pub(crate) is_connected: bool,
}

/// One session's end of the fleet.
pub(crate) struct Membership {
    /// Grows with each session of the node.
    pub(crate) session: u64,
    pub(crate) wanted: watch::Receiver<Option<Program>>,
    pub(crate) may_run: Vec<Program>,
    /// Ends when a newer session of the node has come.
    pub(crate) asks: mpsc::Receiver<Ask>,
}

impl Fleet {
    /// Puts down what a node should run; its session sends it, now or later.
    pub(crate) fn want(&self, node: NodeName, program: Program) {
        let mut nodes = self.lock();
        let peer = nodes.entry(node).or_default();
        if peer.may_run.is_empty() {
            // Another controller may have handed it out before this one was started.
            peer.may_run.push(program.clone());
        }
        peer.wanted.send_replace(Some(program));
    }

    /// Notes what a node may run when this session ends.
    pub(crate) fn may_run(&self, node: &NodeName, session: u64, programs: Vec<Program>) {
        if let Some(peer) = self.lock().get_mut(node)
            && peer.session == session
        {
            peer.may_run = programs;
        }
    }

    /// A session of an agent has begun; an older one of the same node ends.
    pub(crate) fn join(&self, node: &NodeName, agent: String) -> Membership {
        let mut nodes = self.lock();
        let peer = nodes.entry(node.clone()).or_default();
        peer.introduce(agent);
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        peer.session += 1;
        peer.asks = Some(sender);
        let mut wanted = peer.wanted.subscribe();
        wanted.mark_changed();
        Membership { session: peer.session, wanted, may_run: peer.may_run.clone(), asks }
    }

    /// Do several agents say that they are this node, by what was seen in the last minute?
    pub(crate) fn is_contested(&self, node: &NodeName) -> bool {
        let nodes = self.lock();
        let contested = nodes.get(node).and_then(|peer| peer.contested);
        contested.is_some_and(|seen| seen.elapsed() < CONTEST_MEMORY)
    }

    /// A session is over.
    pub(crate) fn leave(&self, node: &NodeName, session: u64) {
        self.links.lost(node, session);
        self.instances.lost(node, session);
        if let Some(peer) = self.lock().get_mut(node)
            && peer.session == session
        {
            peer.asks = None;
        }
    }

    /// Notes where a node is on the data network, and in the IPv6 underlay. An address, and a locator, belongs to the
    /// first who had it, also while he is away: packets for one of two would reach the other.
    ///
    /// # Errors
    /// What another node has.
    pub(crate) fn place(
        &self,
        node: &NodeName,
        address: IpAddr,
        segments: Option<SegmentPlace>,
    ) -> Result<(), Taken> {
        let mut nodes = self.lock();
        for (other, peer) in nodes.iter().filter(|(other, _)| *other != node) {
            let theirs = [peer.underlay, peer.segments.map(|place| place.address.into())];
            let is_theirs = |own: &IpAddr| theirs.contains(&Some(*own));
            let locator = segments.map(|own| own.locator);
            let locator =
                locator.filter(|own| peer.segments.is_some_and(|its| its.locator == *own));
            let segment_address = segments.map(|own| own.address.into());
            let what = if is_theirs(&address) {
                format!("the address {address} on the data network")
            } else if let Some(own) = segment_address.filter(is_theirs) {
                format!("the address {own} in the IPv6 underlay")
            } else if let Some(own) = locator {
                format!("the locator {own}")
            } else {
                continue;
            };
            return Err(Taken { what, by: other.clone(), is_connected: peer.asks.is_some() });
        }
        let own = nodes.entry(node.clone()).or_default();
        (own.underlay, own.segments) = (Some(address), segments);
        Ok(())
    }

    /// Forgets a node that is away, and its address.
    pub(crate) fn forget(&self, node: &NodeName) {
        self.telemetry.forget(node);
        self.lock().retain(|known, peer| known != node || peer.asks.is_some());
    }

    /// Asks one node.
    ///
    /// # Errors
    /// Why there is no answer, for people.
    pub(crate) async fn ask(&self, node: &NodeName, question: &Question) -> Result<Answer, String> {
        let asks = self.lock().get(node).and_then(|peer| peer.asks.clone());
        let asks = asks.ok_or_else(|| format!("node '{node}' is not connected"))?;
        let question = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let (reply, answer) = oneshot::channel();
        asks.try_send(Ask { question, reply })
            .map_err(|_| format!("too many questions wait for node '{node}'"))?;
        match tokio::time::timeout(ANSWER_WAIT, answer).await {
            Ok(Ok(Answer::Refused { reason })) => Err(format!("node '{node}': {reason}")),
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(format!("node '{node}' did not answer in time")),
        }
    }

    /// The answers of every node that gives one in time.
    pub(crate) async fn ask_all(
        self: &Arc<Self>,
        question: &Question,
    ) -> BTreeMap<NodeName, Answer> {
        let answers = self.ask_each(self.nodes(), question).await.into_iter();
        answers.filter_map(|(node, answer)| Some((node, answer.ok()?))).collect()
    }

    /// What each of these nodes answers, or why it does not, for people. All are asked at once.
    pub(crate) async fn ask_each(
        self: &Arc<Self>,
        nodes: impl IntoIterator<Item = NodeName>,
        question: &Question,
    ) -> BTreeMap<NodeName, Result<Answer, String>> {
        let mut asked = JoinSet::new();
        for node in nodes {
            let (fleet, question) = (Arc::clone(self), question.clone());
            asked.spawn(async move {
                let answer = fleet.ask(&node, &question).await;
                (node, answer)
            });
        }
        let mut answers = BTreeMap::new();
        while let Some(answer) = asked.join_next().await {
            answers.extend(answer.ok());
        }
        answers
    }

    /// The names of all nodes.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeName> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeName, Peer>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
