//! Which connections packets belong to, with the states that Linux says of them (net/netfilter/nf_conntrack_*.c,
//! 6.18).
//!
//! Knows TCP, UDP, GRE, ICMP and ICMPv6, and of other protocols the addresses, also where Linux knows more:
//! of SCTP and UDP-Lite. Refuses to know rules, and to read a clock. Nothing is allocated for a packet: the
//! room for all connections is made once.
//!
//! A packet is looked at before rules decide over it, and what it makes of its connection is settled
//! afterwards: a connection that the rules do not let begin leaves nothing behind.
//!
//! Where there is no room, a connection that has expired gives way to a new one, else one that is not
//! assured, of those that are kept nearby; if there is none, the packet has no place. Only then packets of one
//! flow matter to those of another. Unlike in Linux, a packet takes the room of another connection only when
//! the rules accept it.
//!
//! Packets that come in fragments are not put together, as Linux does. The first fragment is looked at as if it were
//! whole, but for its checksum; later ones do not show which connection they belong to, and are invalid.

pub(crate) mod carry;
mod connection;
mod key;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
mod timeouts;

pub use timeouts::Timeouts;

use crate::function::{Portion, StateEntry};
use crate::packet::{Packet, Time};
use catena_model::limits::FUNCTION_FLOWS_MAX;
use catena_rules::condition::ConnectionState;
use catena_wire::field::UpperChecksum;
use catena_wire::flow::FlowKey;
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::icmp::IcmpView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpView;
use catena_wire::udp::UdpView;
use connection::Connection;
use key::{Message, Way};
use std::net::IpAddr;
use table::{SlotIndex, Table};
use tcp::Judged;

/// How connections are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingConfig {
    /// Connections at once, at most [`FUNCTION_FLOWS_MAX`].
    pub connections_max: usize,
    /// How long they are remembered.
    pub timeouts: Timeouts,
    /// Do numbers of TCP that do not fit make no difference (`nf_conntrack_tcp_be_liberal`)?
    pub is_liberal: bool,
    /// Are connections of TCP picked up that are open already (`nf_conntrack_tcp_loose`)?
    pub is_loose: bool,
    /// Are packets invalid whose checksum is wrong (`nf_conntrack_checksum`)?
    pub verifies_checksums: bool,
    /// Whoever does not know it cannot choose connections that are hard to tell apart.
    pub seed: u64,
}

impl Default for TrackingConfig {
    fn default() -> Self {
        Self {
            connections_max: FUNCTION_FLOWS_MAX,
            timeouts: Timeouts::default(),
            is_liberal: false,
            is_loose: true,
            verifies_checksums: true,
            seed: 0,
        }
    }
}

/// The connections that were seen.
#[derive(Clone, Debug)]
pub struct Tracking {
    config: TrackingConfig,
    table: Table,
}

/// What was found of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The state of its connection.
    pub state: ConnectionState,
    change: Change,
}

/// What a packet makes of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// It begins one for which there is no room.
    Full,
    /// It goes on so.
    Goes(SlotIndex, Connection),
    /// It ends.
    Ends(SlotIndex),
    /// Another begins, if the packet is accepted; what was in its place is gone then.
    Begins {
        connection: Connection,
        gone: Option<SlotIndex>,
        /// Is that gone whether the packet is accepted or not?
        is_over: bool,
    },
}

impl Look {
    const fn of(state: ConnectionState) -> Self {
        Self { state, change: Change::Nothing }
    }

    /// Is there no room for the connection that the packet begins?
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.change == Change::Full
    }
}

impl Tracking {
    /// Of no connection yet.
    #[must_use]
    pub fn new(config: &TrackingConfig) -> Self {
        let connections_max = config.connections_max.clamp(1, FUNCTION_FLOWS_MAX);
        Self { config: *config, table: Table::new(connections_max, config.seed) }
    }

    /// The state of a packet, and what it makes of its connection; nothing changes yet. None: it is no packet
    /// of IP.
    #[must_use]
    pub fn look(&self, now: Time, packet: &Packet<'_>) -> Option<Look> {
        let flow = packet.view.flow?;
        Some(self.find(now, packet, &flow).unwrap_or(Look::of(ConnectionState::Invalid)))
    }

    /// None: invalid.
    fn find(&self, now: Time, packet: &Packet<'_>, flow: &FlowKey) -> Option<Look> {
        if self.config.verifies_checksums && !is_checksum_right(packet, flow) {
            return None;
        }
        match key::message(&packet.view) {
            Some(Message::Unknown) => return None,
            Some(Message::Local) => return Some(Look::of(ConnectionState::Untracked)),
            Some(Message::Error) => {
                let is_related = self.is_about_known(now, packet, flow);
                return is_related.then_some(Look::of(ConnectionState::Related));
            }
            Some(Message::Own) | None => {}
        }
        let key = key::of(packet.frame, &packet.view)?;
        let answer = key::answer(&key)?;
        let found = self.table.find(&key, &answer);
        let Some((slot, way, known)) = found.filter(|(_, _, known)| !known.is_expired(now)) else {
            return self.begin(now, packet, &key, found.map(|(slot, _, _)| (slot, false)));
        };
        let mut next = *known;
        let judged = next.follow(packet, way, now, &self.config);
        let is_answered = way == Way::Reply || known.has_reply;
        let belongs = if is_answered { ConnectionState::Established } else { ConnectionState::New };
        let (state, change) = match judged {
            Judged::Belongs(_) => (belongs, Change::Goes(slot, next)),
            Judged::Invalid(_) => (ConnectionState::Invalid, Change::Goes(slot, next)),
            Judged::Ends => (belongs, Change::Ends(slot)),
            Judged::Reopens => return self.begin(now, packet, &key, Some((slot, true))),
        };
        Some(Look { state, change })
    }

    /// A packet of no connection that is known, in whose place another may have been.
    fn begin(
        &self,
        now: Time,
        packet: &Packet<'_>,
        key: &FlowKey,
        gone: Option<(SlotIndex, bool)>,
    ) -> Option<Look> {
        let opened = Connection::open(*key, packet, now, &self.config);
        let connection = opened.filter(|_| key::may_open(key))?;
        let is_over = gone.is_some_and(|(_, is_over)| is_over);
        let gone = match gone {
            Some((slot, _)) => Some(slot),
            None if self.table.is_full() => match self.table.victim(key, now) {
                Some(victim) => Some(victim),
                None => return Some(Look { state: ConnectionState::New, change: Change::Full }),
            },
            None => None,
        };
        let change = Change::Begins { connection, gone, is_over };
        Some(Look { state: ConnectionState::New, change })
    }

    /// Is an error about a packet of a connection that is known, and goes to who sent that packet?
    fn is_about_known(&self, now: Time, packet: &Packet<'_>, flow: &FlowKey) -> bool {
        let about = || {
            let start = usize::from(packet.view.l4_offset?) + IcmpView::HEADER_LEN;
            let quoted = packet.frame.get(start..packet.view.end as usize)?;
            let view = FrameView::parse_quoted(quoted, packet.view.ethertype).ok()?;
            let key = key::of(quoted, &view)?;
            let answer = key::answer(&key)?;
            let (_, _, known) = self.table.find(&answer, &key)?;
            Some(flow.destination == key.source && !known.is_expired(now))
        };
        about().unwrap_or(false)
    }

    /// Settles what a packet makes of its connection, once rules have decided over it and before the next is
    /// looked at: what is known changes anyway, another connection begins only if the packet is accepted.
    pub fn settle(&mut self, look: &Look, is_accepted: bool) {
        match &look.change {
            Change::Nothing | Change::Full => {}
            Change::Goes(slot, connection) => self.table.put(*slot, *connection),
            Change::Ends(slot) => self.table.remove(*slot, true),
            Change::Begins { connection, gone, is_over } => {
                if let Some(gone) = gone.filter(|_| is_accepted || *is_over) {
                    self.table.remove(gone, true);
                }
                if is_accepted {
                    self.table.add(*connection);
                }
            }
        }
    }

    /// The same for a packet that was rejected by a reset, which closes its connection.
    pub fn settle_reset(&mut self, now: Time, look: &Look) {
        let mut look = look.clone();
        if let Change::Goes(_, connection) = &mut look.change
            && look.state != ConnectionState::Invalid
        {
            connection.close(now, &self.config);
        }
        self.settle(&look, false);
    }

    /// Forgets some of what has expired.
    pub fn elapse(&mut self, now: Time) {
        self.table.sweep(now);
    }

    /// Appends the connections that have changed since they were exported, or with `all` each of them.
    pub fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.table.changes(all, |key, connection| {
            let value = connection.map(carry::value_bytes);
            into.push(StateEntry { key: carry::key_bytes(key), value });
        });
    }

    /// A portion of that; true: there is more.
    pub(crate) fn export_portion(&mut self, portion: Portion, into: &mut Vec<StateEntry>) -> bool {
        self.table.portion(portion, |key, connection| {
            let value = connection.map(carry::value_bytes);
            into.push(StateEntry { key: carry::key_bytes(key), value });
        })
    }

    /// Takes one connection over that another has exported; none: the entry is none, or there is no room.
    pub fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let key = carry::read_key(&entry.key)?;
        let answer = key::answer(&key)?;
        let value = entry.value.as_deref().map(|value| carry::read_value(key, value));
        let known = self.table.find(&key, &answer).map(|(slot, _, _)| slot);
        match (value, known) {
            (None, known) => {
                if let Some(slot) = known {
                    self.table.remove(slot, true);
                }
                Some(())
            }
            (Some(connection), known) => {
                let connection = connection?;
                if let Some(slot) = known {
                    self.table.remove(slot, false);
                }
                self.table.add(connection).then_some(())
            }
        }
    }
}

/// Is a packet's checksum right, or one that nobody can judge: open, none, or of a part of the packet?
pub(crate) fn is_checksum_right(packet: &Packet<'_>, flow: &FlowKey) -> bool {
    let view = &packet.view;
    if packet.upper == UpperChecksum::Open || view.fragment != Fragment::Whole {
        return true;
    }
    let judge = || {
        let start = usize::from(view.l4_offset?);
        let upper = packet.frame.get(start..view.end as usize)?;
        let (source, destination) = (flow.source, flow.destination);
        Some(match (flow.protocol, view.network, source, destination) {
            (IpProtocol::TCP, ..) => {
                TcpView::parse(upper).ok()?.is_checksum_correct(source, destination)
            }
            (IpProtocol::UDP, ..) => {
                UdpView::parse(upper).ok()?.is_checksum_correct(source, destination)
            }
            (IpProtocol::ICMP, Network::Ipv4, ..) => {
                IcmpView::parse(upper).ok()?.is_v4_checksum_correct()
            }
            (IpProtocol::ICMPV6, Network::Ipv6, IpAddr::V6(source), IpAddr::V6(destination)) => {
                IcmpView::parse(upper).ok()?.is_v6_checksum_correct(source, destination)
            }
            _ => true,
        })
    };
    judge().unwrap_or(false)
}
