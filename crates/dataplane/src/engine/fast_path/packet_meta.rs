//! What packets show and what is to be done with them, a group at a time: the frames are asked for,
//! then read, then what they name in the tables is asked for, so that the waits of a group are one.
//! Knows when the fast path must not act: then a packet is left as it came.

use super::act::FastPathContext;
use super::exits;
use super::exits::Question;
use super::plans::Plan;
use super::{FastPath, IngressKind, IngressPort};
use crate::engine::account::counters::IS_COUNTING;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::SliceIndex;
use crate::engine::packet::index::UNTOLD_NETWORK;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::packet::subscriber::Subscriber;
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

/// How far the fast path knows a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It does not: it goes the slow path.
    #[default]
    Walk,
    /// From an endpoint: on a path once it is decided, or switched.
    Endpoint,
    /// The same in a tunnel: on the path of its user's slice.
    Subscriber,
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

/// A packet as it is seen. Flat, and written in place: the fast path handles one for every packet.
#[derive(Clone, Copy, Default)]
pub(super) struct PacketMeta {
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
    pub(super) user: Subscriber,
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

impl PacketMeta {
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

impl FastPath {
    /// Looks at a group of packets.
    pub(super) fn look(
        &mut self,
        group: &[Packet],
        sights: &mut [PacketMeta],
        context: &mut FastPathContext<'_>,
    ) {
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
            match self.read(packet, sight, context) {
                Some(kind @ Kind::Endpoint) => {
                    context.flow_cache.prefetch(sight.asked());
                    sight.kind = kind;
                }
                Some(kind @ Kind::Subscriber) => {
                    has_users = true;
                    sight.kind = kind;
                }
                Some(kind @ Kind::Function) => {
                    context.proxy_flows.prefetch(sight.memory_hash);
                    has_returned = true;
                    sight.kind = kind;
                }
                Some(kind @ (Kind::Tunnel | Kind::Aware)) => {
                    context.tables.positions.prefetch(sight.nsh.spi);
                    sight.kind = kind;
                }
                Some(kind) => sight.kind = kind,
                None => {}
            }
        }
        if has_users {
            self.find_slices(&mut sights[..group.len()], context);
        }
        if has_returned {
            for sight in sights.iter_mut().take(group.len()) {
                if sight.kind == Kind::Function {
                    sight.found = context.proxy_flows.likely_place(sight.memory_hash);
                }
            }
        }
        let mut is_remembered = false;
        for (packet, sight) in group.iter().zip(&mut *sights) {
            sight.is_remembered = false;
            if sight.kind != Kind::Walk && self.decide(packet, sight, context).is_none() {
                sight.kind = Kind::Walk;
            }
            is_remembered |= sight.is_remembered;
        }
        if is_remembered {
            for sight in sights.iter_mut().take(group.len()) {
                if sight.is_remembered {
                    sight.likely = context.proxy_flows.likely_place(sight.memory_hash);
                }
            }
        }
    }

    /// Reads a packet as far as it says something by itself.
    #[inline(always)]
    fn read(
        &mut self,
        packet: &Packet,
        sight: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<Kind> {
        let bytes = packet.buffer.bytes();
        (sight.user, sight.identity) = (Subscriber::Unknown, 0);
        if packet.buffer.offload != Offload::default() {
            return None;
        }
        let slot = match packet.origin {
            Origin::Tunnel { kind: TunnelKind::VxlanGpe, source } => {
                sight.sender = match self.source {
                    Some((last, node)) if last == source => node,
                    _ => *context.tables.sources.get(&source)?,
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
        let ingress = self.ports.get(slot.index())?.as_ref()?;
        sight.owner = ingress.owner;
        let frame = PlainFrame::parse(bytes);
        if let Some(frame) = frame.filter(|frame| context.inspection.is_on && frame.is_tunnel()) {
            sight.user = context.inspection.into_plain(bytes, &frame)?;
        }
        match (ingress.kind, frame) {
            (IngressKind::Endpoint, Some(frame)) if sight.user != Subscriber::Unknown => {
                (sight.frame, sight.header_bytes) = (frame, 0);
                Some(Kind::Subscriber)
            }
            (IngressKind::Endpoint, Some(frame)) => {
                sight.words = FlowWords::of(ingress.index.0, &frame);
                sight.flow_hash = frame.symmetric_hash(context.tables.choice_seed);
                (sight.frame, sight.header_bytes) = (frame, 0);
                Some(Kind::Endpoint)
            }
            (IngressKind::Function { serial: Some(serial), keeps_mac, .. }, Some(frame)) => {
                sight.told = match keeps_mac {
                    true => {
                        let port = context.tables.port(ingress.index);
                        network_mac::told_by(port, ethernet::source(bytes)?)?
                    }
                    false => UNTOLD_NETWORK,
                };
                sight.identity = sight.user.identity();
                sight.memory_hash = context.proxy_flows.hash(serial, &frame, sight.identity);
                (sight.frame, sight.header_bytes) = (frame, 0);
                Some(Kind::Function)
            }
            (IngressKind::Function { speaks_nsh: true, .. }, None)
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

    /// Finds out what is to be done with a packet that shows something; none: the fast path does not
    /// know.
    #[inline(always)]
    fn decide(
        &mut self,
        packet: &Packet,
        sight: &mut PacketMeta,
        context: &mut FastPathContext<'_>,
    ) -> Option<()> {
        let network = match sight.kind {
            Kind::Walk | Kind::Switched => return None,
            Kind::Tunnel => {
                // An incoming 0 is as good as 64 (RFC 8300 section 2.2).
                let ttl = sight.nsh.ttl.wrapping_sub(1) & 0x3f;
                sight.position = locate(sight.nsh, ttl, context).filter(|_| ttl > 0)?;
                let place = context.tables.positions.place(sight.position);
                if !context.tables.path(place.path).takes_from(sight.sender, place.hop) {
                    return None;
                }
                None
            }
            Kind::Aware => {
                let ingress = self.ingress(sight)?;
                sight.position = locate(sight.nsh, sight.nsh.ttl, context)?;
                sight.entry.back_from(self.admitted(sight.position, ingress, context)?);
                Some(ingress.network)
            }
            Kind::Function => {
                let ingress = self.ingress(sight)?;
                self.recalled(ingress, sight, context)?;
                ingress.addressed_in
            }
            Kind::Subscriber => {
                sight.position = Self::sliced(sight, context)?;
                Some(self.ingress(sight)?.network)
            }
            Kind::Endpoint => {
                let ingress = self.ingress(sight)?;
                let now_ms = (context.now_ns / 1_000_000) as u32;
                let known = context.flow_cache.find(sight.asked(), now_ms);
                let Some((entrance, is_due)) = known.filter(|_| !sight.frame.is_group())? else {
                    let ingress = *ingress;
                    return self.switched(packet, ingress, sight, context);
                };
                sight.is_due = is_due;
                sight.position = context.tables.positions.entered(entrance.own, entrance.shape);
                Some(ingress.network)
            }
        };
        let position = sight.position;
        if matches!(sight.kind, Kind::Endpoint | Kind::Function) {
            sight.nsh.spi = context.tables.positions.id(position).0;
        }
        // Packets that follow one another on one path share its book.
        if IS_COUNTING && position.path() != self.prefetched {
            self.prefetched = position.path();
            context.counters.prefetch(self.prefetched);
        }
        sight.deed = self.deed(packet, sight, position, network, context)?;
        Some(())
    }

    /// From a function that knows nothing of chains: where its packet was, and is now.
    #[inline(always)]
    fn recalled(
        &self,
        ingress: &IngressPort,
        sight: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        // Probes may be among what comes, or packets that are known one by one.
        if context.health.has_probed() || context.proxy_flows.watches() {
            return None;
        }
        let (egress, flow) = (ingress.serial()?, sight.frame.flow());
        let key = Key { egress, network: sight.told, flow, user: sight.identity };
        sight.found = context.proxy_flows.only_at(context.now_ns, &key, sight.found)?;
        let visit = context.proxy_flows.visit(sight.found)?;
        let place = context.tables.positions.place(visit.position);
        let plan = self.plans.get(self.plans.at(place.path, place.hop)?)?;
        let Plan::Bare { door, .. } = plan else { return None };
        let is_current = visit.epoch == context.epoch && visit.instance == door.id;
        // Metadata that it carried into the proxy would have to go on with it.
        if !is_current || visit.position.carries_metadata() {
            return None;
        }
        sight.entry.back_from(door.local);
        sight.position = context.tables.positions.behind(visit.position);
        Some(())
    }

    /// From a function that reads headers: may it say that it was visited? Its number, if so.
    #[inline(always)]
    fn admitted(
        &self,
        position: PathPosition,
        ingress: &IngressPort,
        context: &FastPathContext<'_>,
    ) -> Option<u32> {
        let place = context.tables.positions.place(position);
        let plan = self.plans.get(self.plans.at(place.path, place.hop.checked_sub(1)?)?)?;
        let Plan::Aware { door, .. } = plan else { return None };
        let is_its_port = door.egress == Some(ingress.index) && !context.health.has_probed();
        let serves_next =
            self.plans.at(place.path, place.hop).is_some_and(|n| self.leads_to(n, ingress));
        (is_its_port && !serves_next).then_some(door.local)
    }

    /// May a plan lead to the port that a packet came from? Then the packet ages, the slow path.
    fn leads_to(&self, number: u32, ingress: &IngressPort) -> bool {
        let is_its = |number: u32| {
            let plan = self.plans.get(number);
            matches!(plan, Some(Plan::Aware { door, .. }) if door.egress == Some(ingress.index))
        };
        match self.plans.get(number) {
            Some(Plan::Choose { first, count }) => (*first..first + count).any(is_its),
            _ => is_its(number),
        }
    }

    /// What is to be done at a position; none: the fast path cannot. `network`: where the packet's MACs
    /// have a meaning.
    #[inline(always)]
    fn deed(
        &mut self,
        packet: &Packet,
        sight: &mut PacketMeta,
        position: PathPosition,
        network: Option<NetworkIndex>,
        context: &FastPathContext<'_>,
    ) -> Option<Deed> {
        let tables = context.tables;
        let by_tunnel = sight.kind == Kind::Tunnel;
        let header_bytes = usize::from(sight.header_bytes);
        let place = tables.positions.place(position);
        let mut number = self.plans.at(place.path, place.hop)?;
        let mut plan = self.plans.get(number)?;
        if matches!(plan, Plan::Bare { .. } | Plan::Node { .. } | Plan::Choose { .. }) {
            Self::ask_user(packet, sight, context)?;
        }
        if let Plan::Choose { first, count } = plan {
            let hop = tables.path(place.path).hops.get(usize::from(place.hop))?;
            sight.flow_hash = sight.chosen_by(position, tables.choice_seed);
            let chosen = u32::try_from(hop.choose_index(sight.flow_hash)?).ok()?;
            number = first + chosen;
            plan = self.plans.get(number).filter(|_| chosen < *count)?;
        }
        // TCP out of a tunnel is joined into super-frames before a port sees it.
        if by_tunnel && context.is_coalescing && sight.frame.is_tcp() {
            return None;
        }
        match plan {
            Plan::Walk | Plan::Choose { .. } => None,
            Plan::Node { header, to, .. } => {
                let bytes = packet.buffer.len() - header_bytes + header.len();
                let has_room = header.len() <= packet.buffer.headroom() + header_bytes;
                // What a tunnel brings must not go on from here.
                let is_fit = has_room && !by_tunnel && context.gso.fits(*to, bytes, tables);
                if sight.kind != Kind::Endpoint {
                    sight.flow_hash = sight.chosen_by(position, tables.choice_seed);
                }
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::Aware { door, header } => {
                let has_room = header.len() <= packet.buffer.headroom() + header_bytes;
                let is_fit = has_room && !context.health.is_dead(door.watch);
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
                sight.memory_hash = context.proxy_flows.hash(*egress, &sight.frame, sight.identity);
                context.proxy_flows.prefetch(sight.memory_hash);
                sight.is_remembered = true;
                let is_fit = !context.health.is_dead(door.watch);
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
        ingress: IngressPort,
        sight: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        let addressed = ethernet::destination(packet.buffer.bytes())?;
        let question = Question::switched(ingress.index, ingress.network, addressed);
        let (port, _) = self.switched.get(question, || {
            let from = Source::Port(ingress.index);
            let exit = switch::exit(addressed, ingress.network, from, context.tables).ok()??;
            Some((port_of(exit)?, None))
        })?;
        (sight.deed, sight.mac) = (Deed::switch(port), None);
        sight.kind = Kind::Switched;
        Some(())
    }
}

/// Where a header leads; none: nowhere.
#[inline(always)]
fn locate(nsh: PlainNsh, ttl: u8, context: &FastPathContext<'_>) -> Option<PathPosition> {
    let hop = u16::from(NshHeader::SI_INITIAL.0 - nsh.si);
    context.tables.positions.find(PathId(nsh.spi), Encapsulation::Nsh, hop, ttl).ok()
}

fn port_of(exit: Exit) -> Option<PortIndex> {
    match exit {
        Exit::Port(port) => Some(port),
        Exit::Node(_) => None,
    }
}
