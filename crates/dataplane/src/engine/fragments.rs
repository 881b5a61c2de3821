//! The ports of later fragments: learned from the first fragment of the same datagram, so that all
//! of them take one path and meet the same instances. Knows the fields that tell datagrams apart
//! (RFC 791 section 3.2, RFC 8200 section 4.5); refuses to reassemble.
//!
//! Bounded and forgetful: a datagram has eight places, given by its hash, of which a newer one takes
//! over the oldest; later fragments that come before the first keep ports 0.

use super::tables::NetworkIndex;
use catena_wire::flow::FlowKey;
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::ipv4::Ipv4View;
use catena_wire::ipv6::Ipv6View;

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

#[derive(Clone, Copy)]
struct Entry {
    scope: Scope,
    /// The flow without ports.
    flow: FlowKey,
    identification: u32,
    source_port: u16,
    destination_port: u16,
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

    /// Learns from a first fragment, and completes the flow of a later one.
    pub(super) fn resolve(
        &mut self,
        now_ns: u64,
        scope: Scope,
        bytes: &[u8],
        view: &mut FrameView,
    ) {
        if view.fragment == Fragment::Whole {
            return;
        }
        let (Some(flow), Some(identification)) = (view.flow, identification(bytes, view)) else {
            return;
        };
        let bare = FlowKey { source_port: 0, destination_port: 0, ..flow };
        // One odd factor, so that equal datagrams of different scopes have different places.
        let salt = (scope.number() ^ u64::from(identification).rotate_left(32))
            .wrapping_mul(SALT_FACTOR)
            >> 32;
        let hash = bare.stable_hash() ^ salt;
        let sets = FRAGMENTED_DATAGRAMS_MAX / WAYS;
        let set = usize::try_from(hash % sets as u64).unwrap_or(0);
        let places = &mut self.entries[set * WAYS..(set + 1) * WAYS];
        let is_same = |found: &Entry| {
            found.scope == scope && found.flow == bare && found.identification == identification
        };
        if view.fragment == Fragment::First {
            let known = places.iter().position(|place| place.is_some_and(|found| is_same(&found)));
            let oldest = || (0..WAYS).min_by_key(|place| places[*place].map(|found| found.turn));
            self.turn += 1;
            let place = known.or_else(oldest).unwrap_or(0);
            places[place] = Some(Entry {
                scope,
                flow: bare,
                identification,
                source_port: flow.source_port,
                destination_port: flow.destination_port,
                seen_ns: now_ns,
                turn: self.turn,
            });
            return;
        }
        let is_young = |found: &Entry| now_ns.saturating_sub(found.seen_ns) <= FRAGMENT_LIFETIME_NS;
        if let Some(found) = places.iter().flatten().find(|found| is_same(found) && is_young(found))
        {
            let (source_port, destination_port) = (found.source_port, found.destination_port);
            view.flow = Some(FlowKey { source_port, destination_port, ..bare });
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
