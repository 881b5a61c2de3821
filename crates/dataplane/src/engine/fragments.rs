//! The ports of later fragments, and whose they are: learned from the first fragment of the same
//! datagram, so that all of them take one path and meet the same instances. Knows the fields that tell datagrams apart
//! (RFC 791 section 3.2, RFC 8200 section 4.5); refuses to reassemble.
//!
//! Bounded and forgetful: a datagram has eight places, given by its hash, of which a newer one takes
//! over the oldest; later fragments that come before the first keep ports 0.

use super::tables::NetworkIndex;
use super::user::User;
use catena_wire::flow::FlowKey;
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::ipv4::Ipv4View;
use catena_wire::ipv6::Ipv6View;
use std::ops::Range;

/// Datagrams remembered.
const FRAGMENTED_DATAGRAMS_MAX: usize = 1_024;
/// Places that a datagram can have.
const WAYS: usize = 8;
/// How long, in nanoseconds: as long as Linux waits for the rest of an IPv4 datagram.
const FRAGMENT_LIFETIME_NS: u64 = 30_000_000_000;

/// The fraction of the golden ratio; any odd number without pattern would do.
const SALT_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What separates equal addresses of different tenants: the port, network or path it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The port with this serial.
    Port(u32),
    /// A tunnel, inside this network.
    Network(NetworkIndex),
    /// A tunnel, on the path with this serial.
    Path(u64),
}

impl Scope {
    /// A number to spread equal datagrams of different scopes by.
    fn number(self) -> u64 {
        match self {
            Self::Port(serial) => u64::from(serial) << 2,
            Self::Network(network) => u64::from(network.0) << 2 | 1,
            Self::Path(serial) => serial << 2 | 2,
        }
    }
}

/// What the fragments of one datagram have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    scope: Scope,
    /// The flow without ports.
    flow: FlowKey,
    identification: u32,
}

impl Name {
    fn of(scope: Scope, bytes: &[u8], view: &FrameView) -> Option<Self> {
        let flow = FlowKey { source_port: 0, destination_port: 0, ..view.flow? };
        Some(Self { scope, flow, identification: identification(bytes, view)? })
    }

    /// The places that the datagram can have.
    fn places(&self) -> Range<usize> {
        // One odd factor, so that equal datagrams of different scopes have different places.
        let salt = (self.scope.number() ^ u64::from(self.identification).rotate_left(32))
            .wrapping_mul(SALT_FACTOR)
            >> 32;
        let hash = self.flow.stable_hash() ^ salt;
        let sets = FRAGMENTED_DATAGRAMS_MAX / WAYS;
        let set = usize::try_from(hash % sets as u64).unwrap_or(0);
        set * WAYS..(set + 1) * WAYS
    }
}

#[derive(Clone, Copy)]
struct Entry {
    name: Name,
    /// Source and destination port.
    ports: (u16, u16),
    /// Whose datagram it is.
    user: User,
    seen_ns: u64,
    /// Counts the first fragments: of a vector, all are seen at one time.
    turn: u64,
}

/// The memory of first fragments.
pub(super) struct Fragments {
    entries: Vec<Option<Entry>>,
    turn: u64,
}

impl Fragments {
    pub(super) fn new() -> Self {
        Self { entries: vec![None; FRAGMENTED_DATAGRAMS_MAX], turn: 0 }
    }

    /// Learns from a first fragment, and completes the flow and user of a later one.
    pub(super) fn resolve(
        &mut self,
        now_ns: u64,
        scope: Scope,
        bytes: &[u8],
        view: &mut FrameView,
        user: &mut User,
    ) {
        if view.fragment == Fragment::First {
            let (Some(flow), Some(name)) = (view.flow, Name::of(scope, bytes, view)) else {
                return;
            };
            self.learn(name, (flow.source_port, flow.destination_port), *user, now_ns);
        } else {
            self.complete(now_ns, scope, bytes, view, user);
        }
    }

    /// Completes the flow and user of a later fragment.
    pub(super) fn complete(
        &self,
        now_ns: u64,
        scope: Scope,
        bytes: &[u8],
        view: &mut FrameView,
        user: &mut User,
    ) {
        if view.fragment != Fragment::Later {
            return;
        }
        let Some(name) = Name::of(scope, bytes, view) else { return };
        let places = &self.entries[name.places()];
        let is_it = |found: &&Entry| {
            found.name == name && now_ns.saturating_sub(found.seen_ns) <= FRAGMENT_LIFETIME_NS
        };
        if let Some(found) = places.iter().flatten().find(is_it) {
            let (source_port, destination_port) = found.ports;
            view.flow = Some(FlowKey { source_port, destination_port, ..name.flow });
            *user = found.user;
        }
    }

    fn learn(&mut self, name: Name, ports: (u16, u16), user: User, seen_ns: u64) {
        let places = &mut self.entries[name.places()];
        let known = places.iter().position(|place| place.is_some_and(|found| found.name == name));
        let oldest = || (0..WAYS).min_by_key(|place| places[*place].map(|found| found.turn));
        self.turn += 1;
        let place = known.or_else(oldest).unwrap_or(0);
        places[place] = Some(Entry { name, ports, user, seen_ns, turn: self.turn });
    }

    /// Learns what another memory knows; `scope` says what a scope of it is called here.
    pub(super) fn borrow_from(&mut self, other: &Self, scope: impl Fn(Scope) -> Option<Scope>) {
        for known in other.entries.iter().flatten() {
            if let Some(scope) = scope(known.name.scope) {
                self.learn(Name { scope, ..known.name }, known.ports, known.user, known.seen_ns);
            }
        }
    }
}

/// The identification of the datagram that a fragment is part of.
fn identification(bytes: &[u8], view: &FrameView) -> Option<u32> {
    let packet = bytes.get(usize::from(view.l3_offset)..)?;
    match view.network {
        Network::Ipv4 => Some(u32::from(Ipv4View::parse(packet).ok()?.identification())),
        Network::Ipv6 => Ipv6View::parse(packet).ok()?.fragment().map(|part| part.identification),
        Network::Arp | Network::Other => None,
    }
}
