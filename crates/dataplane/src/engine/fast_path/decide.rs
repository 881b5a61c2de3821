//! What is to be done with a packet that shows something, as the slow path has decided for others like it. Where
//! that depends on more than is looked up, the packet is left to the slow path.

use super::FastPath;
use super::context::FastPathContext;
use super::exits::{self, Question};
use super::ingress_port::IngressPort;
use super::plans::Plan;
use crate::engine::account::counters::IS_COUNTING;
use crate::engine::encap::{self, PathPosition};
use crate::engine::packet::Packet;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::stages::{forwarder, switch};
use crate::engine::state::flow_cache::CachedVerdict;
use crate::engine::state::proxy_flows::Key;
use crate::engine::tables::Tables;
use crate::engine::vector::Source;
use crate::engine::vector::transform::Exit;
use catena_model::PathId;
use catena_wire::ethernet;
use catena_wire::nsh::NshHeader;
use catena_wire::plain::{PlainFrame, PlainNsh};
use catena_wire::scalar::MacAddr;

use super::packet_meta::{Deed, Kind, PacketMeta};

impl FastPath {
    /// Finds out what is to be done with a packet that shows something; none: the fast path does not
    /// know.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        packet: &Packet,
        meta: &mut PacketMeta,
        context: &mut FastPathContext<'_>,
    ) -> Option<()> {
        let network = match meta.kind {
            Kind::SlowPath | Kind::Switched => return None,
            Kind::Tunnel => {
                // An incoming 0 is as good as 64 (RFC 8300 section 2.2).
                let ttl = meta.nsh.ttl.wrapping_sub(1) & 0x3f;
                meta.position = locate(meta.nsh, ttl, context).filter(|_| ttl > 0)?;
                let place = context.tables.positions.place(meta.position);
                if !context.tables.path(place.path).takes_from(meta.sender, place.hop) {
                    return None;
                }
                None
            }
            Kind::Aware => {
                let ingress = self.ingress(meta)?;
                meta.position = locate(meta.nsh, meta.nsh.ttl, context)?;
                meta.entry.back_from(self.admitted(meta.position, ingress, context)?);
                Some(ingress.network)
            }
            Kind::Function => {
                let ingress = self.ingress(meta)?;
                self.recalled(ingress, meta, context)?;
                ingress.addressed_in
            }
            Kind::Subscriber => {
                meta.position = Self::sliced(meta, context)?;
                Some(self.ingress(meta)?.network)
            }
            Kind::Endpoint => {
                let ingress = self.ingress(meta)?;
                let now_ms = (context.now_ns / 1_000_000) as u32;
                let known = context.flow_cache.find(meta.asked(), now_ms);
                let (path, is_due) = match known.filter(|_| !meta.frame.is_group())? {
                    CachedVerdict::Enters { path, is_due } => (path, is_due),
                    CachedVerdict::Ordinary => {
                        let ingress = *ingress;
                        return self.switched(packet, ingress, meta, context);
                    }
                };
                meta.is_due = is_due;
                meta.position = context.tables.positions.entered(path.own, path.shape);
                Some(ingress.network)
            }
        };
        let position = meta.position;
        if matches!(meta.kind, Kind::Endpoint | Kind::Function) {
            meta.nsh.spi = context.tables.positions.id(position).0;
        }
        // Packets that follow one another on one path share its counters.
        if IS_COUNTING && position.path() != self.prefetched {
            self.prefetched = position.path();
            context.counters.prefetch(self.prefetched);
        }
        meta.deed = self.deed(packet, meta, position, network, context)?;
        Some(())
    }

    /// From a function that knows nothing of chains: where its packet was, and is now.
    #[inline(always)]
    fn recalled(
        &self,
        ingress: &IngressPort,
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        // Probes may be among what comes, or packets that are known one by one.
        if context.health.has_probed() || context.proxy_flows.watches() {
            return None;
        }
        let (egress, flow) = (ingress.serial()?, meta.frame.flow());
        let key = Key { egress, network: meta.told, flow, user: meta.identity };
        meta.found = context.proxy_flows.only_at(context.now_ns, &key, meta.found)?;
        let visit = context.proxy_flows.visit(meta.found)?;
        let place = context.tables.positions.place(visit.position);
        let plan = self.plans.get(self.plans.at(place.path, place.hop)?)?;
        let Plan::Bare { door, .. } = plan else { return None };
        let is_current = visit.epoch == context.epoch && visit.instance == door.id;
        // Metadata that it carried into the proxy would have to go on with it.
        if !is_current || visit.position.carries_metadata() {
            return None;
        }
        meta.entry.back_from(door.local);
        meta.position = context.tables.positions.behind(visit.position);
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

    /// May a plan lead to the port that a packet came from? Then the packet ages, on the slow path.
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
        meta: &mut PacketMeta,
        position: PathPosition,
        network: Option<NetworkIndex>,
        context: &FastPathContext<'_>,
    ) -> Option<Deed> {
        let tables = context.tables;
        let by_tunnel = meta.kind == Kind::Tunnel;
        let header_bytes = usize::from(meta.header_bytes);
        let place = tables.positions.place(position);
        let mut number = self.plans.at(place.path, place.hop)?;
        let mut plan = self.plans.get(number)?;
        if matches!(plan, Plan::Bare { .. } | Plan::Node { .. } | Plan::Choose { .. }) {
            Self::ask_user(packet, meta, context)?;
        }
        if let Plan::Choose { first, count } = plan {
            let hop = tables.path(place.path).hops.get(usize::from(place.hop))?;
            meta.flow_hash = meta.chosen_by(position, tables.choice_seed);
            let chosen = u32::try_from(hop.choose_index(meta.flow_hash)?).ok()?;
            number = first + chosen;
            plan = self.plans.get(number).filter(|_| chosen < *count)?;
        }
        // TCP out of a tunnel is joined into super-frames before a port sees it.
        if by_tunnel && context.is_coalescing && meta.frame.is_tcp() {
            return None;
        }
        match plan {
            Plan::SlowPath | Plan::Choose { .. } => None,
            Plan::Node { header, to, .. } => {
                let bytes = packet.buffer.len() - header_bytes + header.len();
                let has_room = header.len() <= packet.buffer.headroom() + header_bytes;
                // What a tunnel brings must not go on from here.
                let is_fit = has_room && !by_tunnel && context.gso.fits(*to, bytes, tables);
                if meta.kind != Kind::Endpoint {
                    meta.flow_hash = meta.chosen_by(position, tables.choice_seed);
                }
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::Aware { door, header } => {
                let has_room = header.len() <= packet.buffer.headroom() + header_bytes;
                let is_fit = has_room && !context.health.is_dead(door.watch);
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::Bare { door, egress, .. } => {
                meta.identity = meta.user.identity();
                // A user who may be moved between chains has each of his packets watched.
                if meta.identity != 0 && door.is_shared_by_slices {
                    return None;
                }
                let is_foreign =
                    |port| tables.is_foreign(port, tables.path(place.path), &meta.frame.flow());
                if door.is_met && door.egress.is_none_or(is_foreign) {
                    return None;
                }
                meta.memory_hash = context.proxy_flows.hash(*egress, &meta.frame, meta.identity);
                context.proxy_flows.prefetch(meta.memory_hash);
                meta.is_remembered = true;
                let is_fit = !context.health.is_dead(door.watch);
                if is_fit { Deed::plan(position.path(), number) } else { None }
            }
            Plan::End { end } if tables.slices.take_from(end.as_slice()) => None,
            Plan::End { .. } => {
                let addressed = ethernet::destination(packet.buffer.bytes().get(header_bytes..)?)?;
                let (port, mac) =
                    self.ended(place.path, network, addressed, &meta.frame, tables)?;
                meta.mac = mac;
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
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        let addressed = ethernet::destination(packet.buffer.bytes())?;
        let question = Question::switched(ingress.index, ingress.network, addressed);
        let (port, _) = self.switched.get(question, || {
            let from = Source::Port(ingress.index);
            let exit = switch::exit(addressed, ingress.network, from, context.tables).ok()??;
            Some((port_of(exit)?, None))
        })?;
        (meta.deed, meta.mac) = (Deed::switch(port), None);
        meta.kind = Kind::Switched;
        Some(())
    }
}

/// Where a header leads; none: nowhere.
#[inline(always)]
fn locate(nsh: PlainNsh, ttl: u8, context: &FastPathContext<'_>) -> Option<PathPosition> {
    let hop = u16::from(NshHeader::SI_INITIAL.0 - nsh.si);
    context.tables.positions.find(PathId(nsh.spi), encap::PLAIN, hop, ttl).ok()
}

fn port_of(exit: Exit) -> Option<PortIndex> {
    match exit {
        Exit::Port(port) => Some(port),
        Exit::Node(_) => None,
    }
}
