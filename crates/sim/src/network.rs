//! Connections that break. Within one, order is kept; what is on its way when it breaks is gone.
//! A partition holds messages back until it heals or an end gives up. Knows bytes; refuses to know
//! what they mean.

use crate::controller::ConnectionId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A silent peer is given up after about this.
pub(crate) const SILENCE_MIN: Duration = Duration::from_millis(1_900);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// The agent.
    Agent,
    /// The controller or the data plane.
    Other,
}

impl End {
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::Agent => Self::Other,
            Self::Other => Self::Agent,
        }
    }
}

/// What a connection connects an agent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Its controller, over the management network.
    Session,
    /// Its data plane, over a socket of the host.
    Link,
}

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Envelope {
    Bytes(Vec<u8>),
    /// The other end was closed.
    Close,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) node: usize,
    pub(crate) line: Line,
    pub(crate) open: BTreeSet<End>,
    /// Nothing gets through any more.
    pub(crate) is_broken: bool,
    /// When the last envelope towards an end arrives.
    last: BTreeMap<End, Duration>,
    /// Envelopes that a partition holds back.
    pub(crate) held: BTreeMap<End, VecDeque<Envelope>>,
}

/// All connections, and which directions of the management network are cut.
#[derive(Debug, Default)]
pub(crate) struct Network {
    connections: BTreeMap<ConnectionId, Connection>,
    next: ConnectionId,
    /// Nodes whose messages to an end do not arrive.
    cut: BTreeSet<(usize, End)>,
}

impl Network {
    pub(crate) fn open(&mut self, node: usize, line: Line) -> ConnectionId {
        self.next += 1;
        let connection = Connection {
            node,
            line,
            open: BTreeSet::from([End::Agent, End::Other]),
            is_broken: false,
            last: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        self.connections.insert(self.next, connection);
        self.next
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// The open connections of a kind, of one node or of all.
    pub(crate) fn of(&self, line: Line, node: Option<usize>) -> Vec<ConnectionId> {
        let is_one = |connection: &Connection| {
            connection.line == line && node.is_none_or(|node| connection.node == node)
        };
        self.connections.iter().filter(|(_, c)| is_one(c)).map(|(id, _)| *id).collect()
    }

    /// When a envelope that needs so long arrives: never before those sent earlier.
    pub(crate) fn arrival(&mut self, id: ConnectionId, to: End, at: Duration) -> Option<Duration> {
        let connection = self.connections.get_mut(&id)?;
        let last = connection.last.entry(to).or_default();
        *last = at.max(*last);
        Some(*last)
    }

    /// Closes one end; forgets the connection when both are.
    pub(crate) fn close(&mut self, id: ConnectionId, end: End) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let was_open = connection.open.remove(&end);
        if connection.open.is_empty() {
            self.connections.remove(&id);
        }
        was_open
    }

    pub(crate) fn cut(&mut self, node: usize, towards: End) {
        self.cut.insert((node, towards));
    }

    pub(crate) fn heal(&mut self, node: usize) {
        self.cut.retain(|(other, _)| *other != node);
    }

    pub(crate) fn is_cut(&self, node: usize, towards: End) -> bool {
        self.cut.contains(&(node, towards))
    }

    pub(crate) fn is_any_way_cut(&self, node: usize) -> bool {
        self.is_cut(node, End::Agent) || self.is_cut(node, End::Other)
    }
}
