//! What is to be done with a packet that shows something, as the slow path has decided for others like it. Where
//! that depends on more than is looked up, the packet is left to the slow path.

use super::FastPath;
use super::context::FastPathContext;
use super::exits::{self, Question};
use super::ingress_port::IngressPort;
use crate::engine::account::counters::IS_COUNTING;
use crate::engine::action::actions::{Actions, AtHop};
use crate::engine::action::{Action, ActionExit, Instance, Memory, Rewrite};
use crate::engine::encap::{self, PathPosition, Peeked};
use crate::engine::packet::Packet;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::stages::{forwarder, switch};
use crate::engine::state::flow_cache::CachedVerdict;
use crate::engine::state::proxy_flows::Key;
use crate::engine::tables::Tables;
use crate::engine::vector::Source;
use crate::engine::vector::decision::ActionRef;
use catena_model::PathId;
use catena_model::program::PROXY_MAC;
use catena_wire::ethernet;
use catena_wire::plain::PlainFrame;
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;

use super::packet_meta::{Kind, PacketMeta, PathAction};

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
                meta.position = locate(meta, context).filter(|at| at.ttl() > 0)?;
                let place = context.tables.positions.place(meta.position);
                if !context.tables.path(place.path).takes_from(meta.sender, place.hop) {
                    return None;
                }
                None
            }
            Kind::Exit => None,
            Kind::Aware => {
                let ingress = self.ingress(meta)?;
                // Where on its path a source route is, its port has said.
                let network = match meta.is_given_back() {
                    true => ingress.addressed_in,
                    false => {
                        meta.position = locate(meta, context)?;
                        Some(ingress.network)
                    }
                };
                meta.entry.back_from(self.admitted(meta.position, ingress, context)?);
                network
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
                    // A tag is only for rules to match.
                    CachedVerdict::Ordinary if meta.frame.vlan() > 0 => return None,
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
            meta.header.path = context.tables.positions.id(position).0;
        }
        // Packets that follow one another on one path share its counters.
        if IS_COUNTING && position.path() != self.prefetched {
            self.prefetched = position.path();
            context.counters.prefetch(self.prefetched);
        }
        meta.action = self.action(packet, meta, position, network, context)?;
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
        let (egress, flow) = (ingress.serial()?, meta.frame.flow());
        // Probes may be among what comes, or packets that are known one by one.
        if context.health.has_probed() || context.proxy_flows.watches_at(egress) {
            return None;
        }
        let key = Key { egress, network: meta.told, flow, user: meta.identity };
        meta.found = context.proxy_flows.only_at(context.now_ns, &key, meta.found)?;
        let visit = context.proxy_flows.visit(meta.found)?;
        let place = context.tables.positions.place(visit.position);
        let is_visited = |action: &Action| match &action.exit {
            ActionExit::Instance(one) => one.id == visit.instance,
            _ => false,
        };
        let action = context.actions.towards_instance((place.path, place.hop), is_visited)?;
        let ActionExit::Instance(instance) = &action.exit else { return None };
        let is_current = visit.epoch == context.epoch;
        // Metadata that it carried into the proxy would have to go on with it; what is left of a route does.
        let positions = &context.tables.positions;
        let may_go_on = !visit.position.carries_metadata()
            || positions.encapsulation(visit.position).is_source_route();
        if !is_current || !action.is_repeated || !may_go_on {
            return None;
        }
        meta.entry.back_from(instance.local);
        meta.position = positions.behind(visit.position);
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
        let actions = context.actions;
        let visited = (place.path, place.hop.checked_sub(1)?);
        let action = actions.towards_instance(visited, |one| aware(one, ingress).is_some())?;
        let local = aware(action, ingress).filter(|_| action.is_repeated)?;
        let next = actions.at(place.path, place.hop);
        let serves_next = next.is_some_and(|number| leads_to(number, ingress, actions));
        (!serves_next && !context.health.has_probed()).then_some(local)
    }

    /// What is to be done at a position; none: the fast path cannot. `network`: where the packet's MACs
    /// have a meaning.
    #[inline(always)]
    fn action(
        &mut self,
        packet: &Packet,
        meta: &mut PacketMeta,
        position: PathPosition,
        network: Option<NetworkIndex>,
        context: &mut FastPathContext<'_>,
    ) -> Option<PathAction> {
        let (tables, actions) = (context.tables, context.actions);
        let by_tunnel = matches!(meta.kind, Kind::Tunnel | Kind::Exit);
        // TCP from another node is joined into super-frames before a port sees it.
        if by_tunnel && context.is_coalescing && meta.frame.is_tcp() {
            return None;
        }
        let place = tables.positions.place(position);
        let mut number = actions.at(place.path, place.hop)?;
        let mut at_hop = actions.get(number)?;
        if let AtHop::End { end, is_last } = at_hop {
            if !is_last || position.carries_metadata() || tables.slices.take_from(end.as_slice()) {
                return None;
            }
            let addressed = match meta.kind {
                Kind::Tunnel if meta.is_frame_made() => PROXY_MAC,
                _ => ethernet::destination(packet.buffer.bytes().get(meta.addresses_at()..)?)?,
            };
            let (port, mac) = self.ended(place.path, network, addressed, &meta.frame, tables)?;
            meta.mac = mac;
            return Some(PathAction::deliver(position.path(), port));
        }
        if let AtHop::Choose { first, count, by_flow: true } = at_hop {
            Self::ask_user(packet, meta, context)?;
            let hop = tables.path(place.path).hops.get(usize::from(place.hop))?;
            meta.flow_hash = meta.chosen_by(position, tables.choice_seed);
            let chosen = u32::try_from(hop.choose_index(meta.flow_hash)?).ok()?;
            number = first + chosen;
            at_hop = actions.get(number).filter(|_| chosen < *count)?;
        }
        let AtHop::Act(action) = at_hop else { return None };
        if let ActionExit::Link { .. } = action.exit {
            self.routed(packet, meta, (number, action), context)?;
            return PathAction::hop(position.path(), number);
        }
        if position.carries_metadata() && meta.kind != Kind::Exit {
            let ActionExit::Instance(instance) = &action.exit else { return None };
            if !tables.positions.encapsulation(position).is_source_route() {
                return None;
            }
            meta.position = forwarder::taken_by(position, instance.port, (tables, context.carried));
        }
        let is_fit = action.is_repeated && Self::fits(packet, meta, action, place.path, context)?;
        if is_fit { PathAction::hop(position.path(), number) } else { None }
    }

    /// Can the executor carry an action out for a packet as it is? None: it cannot be seen.
    #[inline(always)]
    fn fits(
        packet: &Packet,
        meta: &mut PacketMeta,
        action: &Action,
        path: u32,
        context: &FastPathContext<'_>,
    ) -> Option<bool> {
        let header_bytes = usize::from(meta.header_bytes);
        if let Rewrite::Header(header) = &action.rewrite
            && (header.len() > packet.buffer.headroom() + header_bytes
                || !header.says(meta.header.path, meta.position.ttl()))
        {
            return None;
        }
        if let Rewrite::Segments { header, .. } = &action.rewrite
            && header.as_ref().is_none_or(|header| {
                !header.is_of(PathId(meta.header.path))
                    || header.added_bytes() > packet.buffer.headroom() + header_bytes
            })
        {
            return None;
        }
        match &action.exit {
            ActionExit::Node { to, tunnel, .. } => {
                Self::ask_user(packet, meta, context)?;
                let header = action.header_bytes();
                let bytes = packet.buffer.len() - header_bytes + header;
                if meta.kind != Kind::Endpoint {
                    meta.flow_hash = meta.chosen_by(meta.position, context.tables.choice_seed);
                }
                // What a tunnel brings must not go on from here.
                let to = (*to, *tunnel);
                Some(meta.kind != Kind::Tunnel && context.gso.fits(to, bytes, context.tables))
            }
            ActionExit::Instance(instance) => {
                match &action.rewrite {
                    Rewrite::Macs { memory: Some(memory), .. } => {
                        Self::may_go_in(packet, meta, (instance, memory), path, context)?;
                    }
                    Rewrite::Given { .. } => {
                        let store = (&context.tables.positions, &*context.carried);
                        let given = encap::given_bytes(store, meta.position)?;
                        if given > packet.buffer.headroom() + header_bytes {
                            return None;
                        }
                    }
                    _ => {}
                }
                Some(!context.health.is_dead(instance.watch))
            }
            ActionExit::Port { .. } | ActionExit::Link { .. } => None,
        }
    }

    /// May a packet go into a function that knows nothing of chains, and be told by its flow when it is
    /// back? The line of the memory that will keep it is asked for.
    #[inline(always)]
    fn may_go_in(
        packet: &Packet,
        meta: &mut PacketMeta,
        (instance, memory): (&Instance, &Memory),
        path: u32,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        Self::ask_user(packet, meta, context)?;
        let tables = context.tables;
        meta.identity = meta.user.identity();
        // A user who may be moved between chains has each of his packets watched.
        if meta.identity != 0 && instance.is_shared_by_slices {
            return None;
        }
        let is_foreign = |port| tables.is_foreign(port, tables.path(path), &meta.frame.flow());
        if instance.is_met && instance.egress.is_none_or(is_foreign) {
            return None;
        }
        meta.memory_hash = context.proxy_flows.hash(memory.serial, &meta.frame, meta.identity);
        context.proxy_flows.prefetch(meta.memory_hash);
        meta.is_remembered = true;
        Some(())
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
        let answer = || {
            let (path, to) = (tables.path(path), Some(frame.destination()));
            let (network, mac) = forwarder::deliver(tables, path, network, addressed, to).ok()?;
            let to = mac.unwrap_or(addressed);
            let exit = switch::exit(to, network, Source::Proxy, tables).ok()??;
            Some((port_of(exit)?, mac))
        };
        match frame.destination() {
            IpAddr::V4(to) => self.delivered.get(Question::delivered(path, link, to), answer),
            IpAddr::V6(_) => {
                let to = frame.destination_words();
                self.delivered_v6.get(Question::delivered_v6(path, link, to), answer)
            }
        }
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
        (meta.action, meta.mac) = (PathAction::switch(port), None);
        meta.kind = Kind::Switched;
        Some(())
    }
}

/// Where a header leads; none: nowhere.
#[inline(always)]
fn locate(meta: &PacketMeta, context: &FastPathContext<'_>) -> Option<PathPosition> {
    let Peeked { path, hop, ttl, .. } = meta.header;
    context.tables.positions.find(PathId(path), meta.encapsulation, hop, ttl).ok()
}

/// The number of the instance behind a port, if the action leads into one that reads headers.
fn aware(action: &Action, ingress: &IngressPort) -> Option<u32> {
    match (&action.exit, &action.rewrite) {
        (ActionExit::Instance(instance), Rewrite::Header(_) | Rewrite::Given { .. }) => {
            (instance.egress == Some(ingress.index)).then_some(instance.local)
        }
        _ => None,
    }
}

/// May what is done at a hop lead to the port that a packet came from? Then the packet ages, on the slow path.
fn leads_to(number: u32, ingress: &IngressPort, actions: &Actions) -> bool {
    let is_its = |number: u32| actions.action(number).is_some_and(|a| aware(a, ingress).is_some());
    match actions.get(number) {
        Some(AtHop::Choose { first, count, .. }) => (*first..first + count).any(is_its),
        _ => is_its(number),
    }
}

fn port_of(action: ActionRef) -> Option<PortIndex> {
    match action {
        ActionRef::Port(port) => Some(port),
        ActionRef::Hop(_) | ActionRef::Network(..) => None,
    }
}
