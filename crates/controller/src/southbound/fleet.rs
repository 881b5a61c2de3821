//! The nodes that can be reached: where to put the program each should run, and whom to ask for
//! counters. Knows no program's content and no protocol.

use catena_model::{NodeCounters, NodeName};
use catena_protocol::message::Program;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// How long a node may take to tell its counters.
const COUNTERS_WAIT: Duration = Duration::from_secs(1);
/// Questions that may wait for one node.
const ASKS_MAX: usize = 64;

/// A question for a node's counters.
pub(crate) type Ask = oneshot::Sender<NodeCounters>;

/// All nodes that ever had a session or a program.
#[derive(Default)]
pub(crate) struct Fleet {
    nodes: Mutex<BTreeMap<NodeName, Peer>>,
}

struct Peer {
    wanted: watch::Sender<Option<Program>>,
    session: u64,
    asks: Option<mpsc::Sender<Ask>>,
    /// Where the connected node is on the data network.
    underlay: Option<IpAddr>,
}

impl Default for Peer {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(None), session: 0, asks: None, underlay: None }
    }
}

/// One session's end of the fleet.
pub(crate) struct Membership {
    /// Grows with each session of the node.
    pub(crate) session: u64,
    pub(crate) wanted: watch::Receiver<Option<Program>>,
    /// Ends when a newer session of the node has come.
    pub(crate) asks: mpsc::Receiver<Ask>,
}

impl Fleet {
    /// Puts down the program that a node should run; its session sends it, now or later.
    pub(crate) fn want(&self, node: &NodeName, program: Program) {
        self.lock().entry(node.clone()).or_default().wanted.send_replace(Some(program));
    }

    /// A session has begun; an older one of the same node ends.
    pub(crate) fn join(&self, node: &NodeName) -> Membership {
        let mut nodes = self.lock();
        let peer = nodes.entry(node.clone()).or_default();
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        peer.session += 1;
        peer.asks = Some(sender);
        let mut wanted = peer.wanted.subscribe();
        wanted.mark_changed();
        Membership { session: peer.session, wanted, asks }
    }

    /// A session is over.
    pub(crate) fn leave(&self, node: &NodeName, session: u64) {
        if let Some(peer) = self.lock().get_mut(node)
            && peer.session == session
        {
            peer.asks = None;
            peer.underlay = None;
        }
    }

    /// Notes the address of a connected node; the node that is connected with the same one, if
    /// there is one: packets for one of the two would reach the other.
    pub(crate) fn place(&self, node: &NodeName, address: IpAddr) -> Result<(), NodeName> {
        let mut nodes = self.lock();
        let same =
            |(other, peer): &(&NodeName, &Peer)| *other != node && peer.underlay == Some(address);
        if let Some((other, _)) = nodes.iter().find(same) {
            return Err(other.clone());
        }
        if let Some(peer) = nodes.get_mut(node) {
            peer.underlay = Some(address);
        }
        Ok(())
    }

    /// The counters of every node that answers in time.
    pub(crate) async fn counters(&self) -> BTreeMap<NodeName, NodeCounters> {
        let reachable: Vec<(NodeName, mpsc::Sender<Ask>)> = self
            .lock()
            .iter()
            .filter_map(|(node, peer)| Some((node.clone(), peer.asks.clone()?)))
            .collect();
        let mut answers = JoinSet::new();
        for (node, asks) in reachable {
            answers.spawn(async move {
                let (reply, answer) = oneshot::channel();
                asks.try_send(reply).ok()?;
                let counters = tokio::time::timeout(COUNTERS_WAIT, answer).await.ok()?.ok()?;
                Some((node, counters))
            });
        }
        let mut counters = BTreeMap::new();
        while let Some(answer) = answers.join_next().await {
            counters.extend(answer.ok().flatten());
        }
        counters
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeName, Peer>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
