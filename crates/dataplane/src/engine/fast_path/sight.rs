//! What packets show and what is to be done with them, a group at a time: the frames are asked for,
//! then read, then what they name in the tables is asked for, so that the waits of a group are one.
//! Knows when the lane must not act: then a packet is left as it came.

use super::act::Hands;
use super::exits;
use super::exits::Question;
use super::plans::Plan;
use super::{Gate, GateKind, Lane};
use crate::engine::account::counters::IS_COUNTING;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::SliceIndex;
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::packet::subscriber::User;
use crate::engine::packet::{Origin, Packet, PortSlot, TunnelKind};
use crate::engine::stages::forwarder;
use crate::engine::stages::switch;
use crate::engine::state::flow_cache::{Asked, FlowWords};
use crate::engine::state::network_mac;
use crate::engine::state::proxy_flows::{FlowHash, Found, Key};
use crate::engine::tables::Tables;
use crate::engine::vector::Source;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::transform::Exit;
use catena_io::{Offload, prefetch};
use catena_model::PathId;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet;
use catena_wire::nsh::NshHeader;
use catena_wire::plain::{PlainFrame, PlainNsh};
use catena_wire::scalar::{EtherType, MacAddr};

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Bytes before the frame of a packet that a tunnel brought.
const TUNNEL_HEADER_BYTES: u8 = (PlainNsh::GPE_LEN + PlainNsh::LEN) as u8;
/// The same of a function that reads headers.
const FUNCTION_HEADER_BYTES: u8 = (ethernet::HEADER_BYTES + PlainNsh::LEN) as u8;

/// How far the lane knows a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It does not: it goes the long way.
    #[default]
    Walk,
    /// From an endpoint: on a path once it is decided, or switched.
    Endpoint,
    /// The same in a tunnel: on the path of its user's slice.
    User,
    /// Bare, from a function.
    Function,
    /// With a header, from a tunnel.
    Tunnel,
    /// With a header, from a function.
    Aware,
    /// By MAC from an endpoint to a port.
    Switched,
}

/// By which door a packet came, in one word, so that packets are compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Default for Entry {
    fn default() -> Self {
        Self::NOWHERE
    }
}

impl Entry {
    /// That of no packet: no door has these bits.
    const NOWHERE: Self = Self(u64::MAX);
    /// The bits that tell the port, or the tunnels.
    const DOOR: u64 = 0x1_ffff;
    /// From another node: what a tunnel has before the frame is no part of what was received.
    const TUNNEL: Self = Self(1 << 16);

    /// From a port, with so many bytes of a header before its frame.
    #[inline]
    fn of(slot: PortSlot, header_bytes: u8) -> Self {
        Self(u64::from(header_bytes) << 24 | u64::from(slot.0))
    }

    /// Back from the local instance with this number; it was none before.
    #[inline]
    fn back_from(&mut self, local: u32) {
        self.0 |= u64::from(local) << 32;
    }

    /// Did both come by one port, or by tunnels? Then they have one owner.
    #[inline]
    pub(super) fn is_by_door_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & Self::DOOR == 0
    }

    /// Slot of the port; of tunnels: 0.
    #[inline]
    pub(super) fn slot(self) -> PortSlot {
        PortSlot(self.0 as u16)
    }

    /// The local instance that a packet comes from.
    #[inline]
    pub(super) fn local(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Bytes of a header of the port before the frame.
    #[inline]
    pub(super) fn header_bytes(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// What is to be done with a packet, and on which path, in one word, so that packets are compared
/// at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deed(u64);

impl Default for Deed {
    fn default() -> Self {
        Self::NONE
    }
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// What the plan with this number says.
    Plan(u32),
    /// To be delivered by a port.
    Deliver(PortIndex),
}

impl Deed {
    /// That of no packet.
    const NONE: Self = Self(u64::MAX);
    /// Set for what is delivered: numbers of plans are smaller.
    const DELIVERS: u32 = 1 << 31;
    /// No path has this index.
    const SWITCHED: u32 = u32::MAX;

    /// The plan with this number, for packets of the path with this index.
    #[inline]
    fn plan(path: u32, number: u32) -> Option<Self> {
        (number < Self::DELIVERS).then(|| Self::of(path, number))
    }

    /// Delivered at the end of the path with this index.
    #[inline]
    fn deliver(path: u32, port: PortIndex) -> Self {
        Self::of(path, Self::DELIVERS | u32::from(port.0))
    }

    /// Delivered on no path.
    #[inline]
    fn switch(port: PortIndex) -> Self {
        Self::deliver(Self::SWITCHED, port)
    }

    #[inline]
    fn of(path: u32, what: u32) -> Self {
        Self(u64::from(path) << 32 | u64::from(what))
    }

    #[inline]
    pub(super) fn what(self) -> What {
        let what = self.0 as u32;
        if what & Self::DELIVERS == 0 {
            What::Plan(what)
        } else {
            What::Deliver(PortIndex(what as u16))
        }
    }
}

/// A packet as it is seen. Flat, and written in place: the lane handles one for every packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Sight {
    pub(super) kind: Kind,
    /// Its flow is to be noted again as one of its path.
    pub(super) is_due: bool,
    /// The proxy's memory is to be told of it.
    pub(super) is_remembered: bool,
    /// Bytes before the frame, to be taken off: also those of a tunnel.
    pub(super) header_bytes: u8,
    pub(super) entry: Entry,
    pub(super) owner: Owner,
    /// The node that has sent it, if it came by a tunnel.
    pub(super) sender: NodeIndex,
    pub(super) frame: PlainFrame,
    /// Whose it is, if the node looks and it has been asked.
    pub(super) user: User,
    /// What the proxy's memory tells it apart by from others of its flow; 0: nothing.
    pub(super) identity: u64,
    /// The network that it says it is of when it comes out of a function, see `network_mac`.
    pub(super) told: u32,
    /// The slice that takes its user.
    pub(super) slice: Option<SliceIndex>,
    pub(super) words: FlowWords,
    /// The same for both directions of the flow; known once something is chosen by it.
    pub(super) flow_hash: u64,
    /// Where the proxy's memory looks for the flow, if it is asked.
    pub(super) memory_hash: FlowHash,
    pub(super) nsh: PlainNsh,
    /// Where on its path it is, unless it is switched.
    pub(super) position: PathPosition,
    /// Where the proxy's memory has its flow.
    pub(super) found: Found,
    /// Where that is likely to have the flow behind the function that it goes into.
    pub(super) likely: Found,
    pub(super) deed: Deed,
    /// The MAC that it is delivered to, if not its own.
    pub(super) mac: Option<MacAddr>,
}

impl Sight {
    #[inline]
    fn asked(&self) -> Asked<'_> {
        Asked { words: &self.words, flow_hash: self.flow_hash }
    }

    /// The number by which it chooses instances on the path of a position: on that of a slice, users
    /// of one tunnel choose each for himself.
    #[inline]
    pub(super) fn chosen_by(&self, position: PathPosition, seed: u64) -> u64 {
        let outer = || self.frame.symmetric_hash(seed);
        if position.is_of_slice() { self.user.flow_hash(seed, outer) } else { outer() }
    }
}

impl Lane {
    /// Looks at a group of packets.
    pub(super) fn look(&mut self, group: &[Packet], sights: &mut [Sight], hands: &mut Hands<'_>) {
        (self.at, self.seen) = (0, group.len());
        for packet in group {
            let bytes = packet.buffer.bytes();
            if let Some(first) = bytes.first() {
                prefetch(first);
            }
            if let Some(second) = bytes.get(LINE_BYTES) {
                prefetch(second);
            }
        }
        let (mut has_returned, mut has_users) = (false, false);
        for (packet, sight) in group.iter().zip(&mut *sights) {
            sight.kind = Kind::Walk;
            match self.read(packet, sight, hands) {
                Some(kind @ Kind::Endpoint) => {
                    hands.known.prefetch(sight.asked());
                    sight.kind = kind;
                }
                Some(kind @ Kind::User) => {
                    has_users = true;
                    sight.kind = kind;
                }
                Some(kind @ Kind::Function) => {
                    hands.memory.prefetch(sight.memory_hash);
                    has_returned = true;
                    sight.kind = kind;
                }
                Some(kind @ (Kind::Tunnel | Kind::Aware)) => {
                    hands.tables.positions.prefetch(sight.nsh.spi);
                    sight.kind = kind;
                }
                Some(kind) => sight.kind = kind,
                None => {}
            }
        }
        if has_users {
            self.find_slices(&mut sights[..group.len()], hands);
        }
        if has_returned {
            for sight in sights.iter_mut().take(group.len()) {
                if sight.kind == Kind::Function {
                    sight.found = hands.memory.likely_place(sight.memory_hash);
                }
            }
        }
        let mut is_remembered = false;
        for (packet, sight) in group.iter().zip(&mut *sights) {
            sight.is_remembered = false;
            if sight.kind != Kind::Walk && self.decide(packet, sight, hands).is_none() {
                sight.kind = Kind::Walk;
            }
            is_remembered |= sight.is_remembered;
        }
        if is_remembered {
            for sight in sights.iter_mut().take(group.len()) {
                if sight.is_remembered {
                    sight.likely = hands.memory.likely_place(sight.memory_hash);
                }
            }
        }
    }

    /// Reads a packet as far as it says something by itself.
    #[inline(always)]
    fn read(&mut self, packet: &Packet, sight: &mut Sight, hands: &Hands<'_>) -> Option<Kind> {
        let bytes = packet.buffer.bytes();
        (sight.user, sight.identity) = (User::Unknown, 0);
        if packet.buffer.offload != Offload::default() {
            return None;
        }
        let slot = match packet.origin {
            Origin::Tunnel { kind: TunnelKind::VxlanGpe, source } => {
                sight.sender = match self.source {
                    Some((last, node)) if last == source => node,
                    _ => *hands.tables.sources.get(&source)?,
                };
                self.source = Some((source, sight.sender));
                sight.nsh = PlainNsh::parse_behind_gpe(bytes)?;
                sight.frame = PlainFrame::parse(bytes.get(usize::from(TUNNEL_HEADER_BYTES)..)?)?;
                sight.header_bytes = TUNNEL_HEADER_BYTES;
                (sight.owner, sight.entry) = (Owner::Tunnels, Entry::TUNNEL);
                return Some(Kind::Tunnel);
            }
            Origin::Tunnel { .. } => return None,
            Origin::Port(slot) => slot,
        };
        sight.entry = Entry::of(slot, 0);
        let gate = self.gates.get(slot.index())?.as_ref()?;
        sight.owner = gate.owner;
        let frame = PlainFrame::parse(bytes);
        if let Some(frame) = frame.filter(|frame| hands.look.is_on && frame.is_tunnel()) {
            sight.user = hands.look.into_plain(bytes, &frame)?;
        }
        match (gate.kind, frame) {
            (GateKind::Endpoint, Some(frame)) if sight.user != User::Unknown => {
                (sight.frame, sight.header_bytes) = (frame, 0);
                Some(Kind::User)
            }
            (GateKind::Endpoint, Some(frame)) => {
                sight.words = FlowWords::of(gate.index.0, &frame);
                sight.flow_hash = frame.symmetric_hash(hands.tables.choice_seed);
                (sight.frame, sight.header_bytes) = (frame, 0);
                Some(Kind::Endpoint)
            }
            (GateKind::Function { serial: Some(serial), keeps_mac, .. }, Some(frame)) => {
                sight.told = match keeps_mac {
                    true => {
                        let port = hands.tables.port(gate.index);
                        network_mac::told_by(port, ethernet::source(bytes)?)?
                    }
                    false => UNTOLD_NETWORK,
                };
                sight.identity = sight.user.identity();
                sight.memory_hash = hands.memory.hash(serial, &frame, sight.identity);
                (sight.frame, sight.header_bytes) = (frame, 0);
                Some(Kind::Function)
            }
            (GateKind::Function { speaks_nsh: true, .. }, None)
                if ethernet::ethertype_is(bytes, EtherType::NSH) =>
            {
                sight.nsh = PlainNsh::parse(bytes.get(ethernet::HEADER_BYTES..)?)?;
                sight.frame = PlainFrame::parse(bytes.get(usize::from(FUNCTION_HEADER_BYTES)..)?)?;
                sight.entry = Entry::of(slot, FUNCTION_HEADER_BYTES);
                sight.header_bytes = FUNCTION_HEADER_BYTES;
                Some(Kind::Aware)
            }
            _ => None,
        }
    }

    /// Finds out what is to be done with a packet that shows something; none: the lane does not
    /// know.
    #[inline(always)]
    fn decide(&mut self, packet: &Packet, sight: &mut Sight, hands: &mut Hands<'_>) -> Option<()> {
        let network = match sight.kind {
            Kind::Walk | Kind::Switched => return None,
            Kind::Tunnel => {
                // An incoming 0 is as good as 64 (RFC 8300 section 2.2).
                let ttl = sight.nsh.ttl.wrapping_sub(1) & 0x3f;
                sight.position = locate(sight.nsh, ttl, hands).filter(|_| ttl > 0)?;
                let place = hands.tables.positions.place(sight.position);
                if !hands.tables.path(place.path).takes_from(sight.sender, place.hop) {
                    return None;
                }
                None
            }
            Kind::Aware => {
                let gate = self.gate(sight)?;
                sight.position = locate(sight.nsh, sight.nsh.ttl, hands)?;
                sight.entry.back_from(self.admitted(sight.position, gate, hands)?);
                Some(gate.network)
            }
            Kind::Function => {
                let gate = self.gate(sight)?;
                self.recalled(gate, sight, hands)?;
                gate.addressed_in
            }
            Kind::User => {
                sight.position = Self::sliced(sight, hands)?;
                Some(self.gate(sight)?.network)
            }
            Kind::Endpoint => {
                let gate = self.gate(sight)?;
                let now_ms = (hands.now_ns / 1_000_000) as u32;
                let known = hands.known.find(sight.asked(), now_ms);
                let Some((entrance, is_due)) = known.filter(|_| !sight.frame.is_group())? else {
                    let gate = *gate;
                    return self.switched(packet, gate, sight, hands);
                };
                sight.is_due = is_due;
                sight.position = hands.tables.positions.entered(entrance.own, entrance.shape);
                Some(gate.network)
            }
        };
        let position = sight.position;
        if matches!(sight.kind, Kind::Endpoint | Kind::Function) {
            sight.nsh.spi = hands.tables.positions.id(position).0;
        }
        // Packets that follow one another on one path share its book.
        if IS_COUNTING && position.path() != self.prefetched {
            self.prefetched = position.path();
            hands.books.prefetch(self.prefetched);
        }
        sight.deed = self.deed(packet, sight, position, network, hands)?;
        Some(())
    }

    /// From a function that knows nothing of chains: where its packet was, and is now.
    #[inline(always)]
    fn recalled(&self, gate: &Gate, sight: &mut Sight, hands: &Hands<'_>) -> Option<()> {
        // Probes may be among what comes, or packets that are known one by one.
        if hands.health.has_probed() || hands.memory.watches() {
            return None;
        }
        let (egress, flow) = (gate.serial()?, sight.frame.flow());
        let key = Key { egress, network: sight.told, flow, user: sight.identity };
        sight.found = hands.memory.only_at(hands.now_ns, &key, sight.found)?;
        let visit = hands.memory.visit(sight.found)?;
        let place = hands.tables.positions.place(visit.position);
        let plan = self.plans.get(self.plans.at(place.path, place.hop)?)?;
        let Plan::Bare { door, .. } = plan else { return None };
        let is_current = visit.epoch == hands.epoch && visit.instance == door.id;
        // Metadata that it carried into the proxy would have to go on with it.
        if !is_current || visit.position.carries_metadata() {
            return None;
        }
        sight.entry.back_from(door.local);
        sight.position = hands.tables.positions.behind(visit.position);
        Some(())
    }

    /// From a function that reads headers: may it say that it was visited? Its number, if so.
    #[inline(always)]
    fn admitted(&self, position: PathPosition, gate: &Gate, hands: &Hands<'_>) -> Option<u32> {
        let place = hands.tables.positions.place(position);
        let plan = self.plans.get(self.plans.at(place.path, place.hop.checked_sub(1)?)?)?;
        let Plan::Aware { door, .. } = plan else { return None };
        let is_its_port = door.egress == Some(gate.index) && !hands.health.has_probed();
        let serves_next =
            self.plans.at(place.path, place.hop).is_some_and(|n| self.leads_to(n, gate));
        (is_its_port && !serves_next).then_some(door.local)
    }

    /// May a plan lead to the port that a packet came from? Then the packet ages, the long way.
    fn leads_to(&self, number: u32, gate: &Gate) -> bool {
        let is_its = |number: u32| {
            let plan = self.plans.get(number);
            matches!(plan, Some(Plan::Aware { door, .. }) if door.egress == Some(gate.index))
        };
        match self.plans.get(number) {
            Some(Plan::Choose { first, count }) => (*first..first + count).any(is_its),
            _ => is_its(number),
        }
    }

    /// What is to be done at a position; none: the lane cannot. `network`: where the packet's MACs
    /// have a meaning.
    #[inline(always)]
    fn deed(
        &mut self,
        packet: &Packet,
        sight: &mut Sight,
        position: PathPosition,
        network: Option<NetworkIndex>,
        hands: &Hands<'_>,
    ) -> Option<Deed> {
        let tables = hands.tables;
        let by_tunnel = sight.kind == Kind::Tunnel;
        let header_bytes = usize::from(sight.header_bytes);
        let place = tables.positions.place(position);
        let mut number = self.plans.at(place.path, place.hop)?;
        let mut plan = self.plans.get(number)?;
        if matches!(plan, Plan::Bare { .. } | Plan::Node { .. } | Plan::Choose { .. }) {
            Self::ask_user(packet, sight, hands)?;
        }
        if let Plan::Choose { first, count } = plan {
            let hop = tables.path(place.path).hops.get(usize::from(place.hop))?;
            sight.flow_hash = sight.chosen_by(position, tables.choice_seed);
            let chosen = u32::try_from(hop.choose_index(sight.flow_hash)?).ok()?;
            number = first + chosen;
            plan = self.plans.get(number).filter(|_| chosen < *count)?;
        }
        // TCP out of a tunnel is joined into super-frames before a port sees it.
        if by_tunnel && hands.is_coalescing && sight.frame.is_tcp() {
            return None;
        }
        match plan {
            Plan::Walk | Plan::Choose { .. } => None,
            Plan::Node { header, to, .. } => {
                let bytes = packet.buffer.len() - header_bytes + header.len();
                let has_room = header.len() <= packet.buffer.headroom() + header_bytes;
                // What a tunnel brings must not go on from here.
                let is_fit = has_room && !by_tunnel && hands.packer.fits(*to, bytes, tables);
                if sight.kind != Kind::Endpoint {
                    sight.flow_hash = sight.chosen_by(position, tables.choice_seed);
                }
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::Aware { door, header } => {
                let has_room = header.len() <= packet.buffer.headroom() + header_bytes;
                let is_fit = has_room && !hands.health.is_dead(door.watch);
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::Bare { door, egress, .. } => {
                sight.identity = sight.user.identity();
                // A user who may be moved between chains has each of his packets watched.
                if sight.identity != 0 && door.is_shared_by_slices {
                    return None;
                }
                let is_foreign =
                    |port| tables.is_foreign(port, tables.path(place.path), &sight.frame.flow());
                if door.is_met && door.egress.is_none_or(is_foreign) {
                    return None;
                }
                sight.memory_hash = hands.memory.hash(*egress, &sight.frame, sight.identity);
                hands.memory.prefetch(sight.memory_hash);
                sight.is_remembered = true;
                let is_fit = !hands.health.is_dead(door.watch);
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::End { end } if tables.slices.take_from(end.as_slice()) => None,
            Plan::End { .. } => {
                let addressed = ethernet::destination(packet.buffer.bytes().get(header_bytes..)?)?;
                let (port, mac) =
                    self.ended(place.path, network, addressed, &sight.frame, tables)?;
                sight.mac = mac;
                Some(Deed::deliver(position.path(), port))
            }
        }
    }

    /// Where the path with this index delivers a packet at its end that is addressed to this MAC.
    #[inline(always)]
    fn ended(
        &mut self,
        path: u32,
        network: Option<NetworkIndex>,
        addressed: MacAddr,
        frame: &PlainFrame,
        tables: &Tables,
    ) -> Option<exits::Exit> {
        let link = network.map(|network| (network, addressed));
        let question = Question::delivered(path, link, frame.destination_v4());
        self.delivered.get(question, || {
            let (path, to) = (tables.path(path), Some(frame.destination()));
            let (network, mac) = forwarder::deliver(tables, path, network, addressed, to).ok()?;
            let to = mac.unwrap_or(addressed);
            let exit = switch::exit(to, network, Source::Proxy, tables).ok()??;
            Some((port_of(exit)?, mac))
        })
    }

    /// From an endpoint, in no path: by MAC to another port.
    fn switched(
        &mut self,
        packet: &Packet,
        gate: Gate,
        sight: &mut Sight,
        hands: &Hands<'_>,
    ) -> Option<()> {
        let addressed = ethernet::destination(packet.buffer.bytes())?;
        let question = Question::switched(gate.index, gate.network, addressed);
        let (port, _) = self.switched.get(question, || {
            let from = Source::Port(gate.index);
            let exit = switch::exit(addressed, gate.network, from, hands.tables).ok()??;
            Some((port_of(exit)?, None))
        })?;
        (sight.deed, sight.mac) = (Deed::switch(port), None);
        sight.kind = Kind::Switched;
        Some(())
    }
}

/// Where a header leads; none: nowhere.
#[inline(always)]
fn locate(nsh: PlainNsh, ttl: u8, hands: &Hands<'_>) -> Option<PathPosition> {
    let hop = u16::from(NshHeader::SI_INITIAL.0 - nsh.si);
    hands.tables.positions.find(PathId(nsh.spi), Encapsulation::Nsh, hop, ttl).ok()
}

fn port_of(exit: Exit) -> Option<PortIndex> {
    match exit {
        Exit::Port(port) => Some(port),
        Exit::Node(_) => None,
    }
}
