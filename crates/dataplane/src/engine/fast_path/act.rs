//! Takes one packet through the fast path, from what was seen of it to where it leaves. Knows what each
//! deed does to packet and counters; refuses to decide which.

use super::FastPath;
use super::context::FastPathContext;
use super::counter_run::CounterRun;
use super::ingress_port::IngressPort;
use super::packet_meta::{Kind, PacketMeta};
use crate::engine::account::counters::{Counters, IS_COUNTING};
use crate::engine::account::tx_batches::TxRef;
use crate::engine::action::execute::{self, PlainPacket};
use crate::engine::action::{Action, ActionExit, Instance, Memory};
use crate::engine::encap::{self, Header, HeaderSide};
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::{Packet, parse};
use crate::engine::state::proxy_flows::{Back, Key, Payer, ProxyFlows};
use crate::engine::state::sojourns;
use crate::engine::tables::Tables;
use crate::engine::vector::decision::{ActionRef, Epoch};
use crate::engine::vector::owner::Owner;
use catena_io::Buffer;
use catena_model::account::Volume;
use catena_model::{DropReason, PathId};

impl FastPath {
    /// Was something decided, and does it hold still? What returns from a function is noted.
    #[inline(always)]
    pub(super) fn holds(
        &self,
        packet: &Packet,
        meta: &PacketMeta,
        context: &mut FastPathContext<'_>,
    ) -> bool {
        // Others of the group may have put theirs into its place.
        if meta.route.is_some_and(|route| self.routes.get(route).is_none()) {
            return false;
        }
        match meta.kind {
            Kind::SlowPath => false,
            Kind::Function => self.is_returned(packet, meta, context),
            Kind::Endpoint
            | Kind::Subscriber
            | Kind::Tunnel
            | Kind::Aware
            | Kind::Exit
            | Kind::Switched => true,
        }
    }

    /// Does what was decided.
    #[inline(always)]
    pub(super) fn act(
        &mut self,
        packet: Packet,
        meta: &PacketMeta,
        context: &mut FastPathContext<'_>,
    ) {
        let mut buffer = packet.buffer.without_offload();
        let is_trimmed = match meta.kind {
            Kind::Exit => strip(meta, HeaderSide::Tunnel, &mut buffer),
            Kind::Tunnel if meta.encapsulation.is_segmented() => {
                strip(meta, HeaderSide::Tunnel, &mut buffer)
            }
            Kind::Aware if meta.is_given_back() => strip(meta, HeaderSide::Function, &mut buffer),
            _ => buffer.trim_front(usize::from(meta.header_bytes)),
        };
        debug_assert!(is_trimmed, "the frame behind the header was read");
        let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
        if meta.kind == Kind::Endpoint {
            note_flow(meta, context);
        }
        let route = meta.route.and_then(|route| self.routes.get(route));
        let packet_out = OutPacket { buffer, meta, route, share: TxRef { batch: 0, volume } };
        match meta.action.action() {
            ActionRef::Hop(number) => {
                if let Some(action) = context.actions.action(number) {
                    leave(packet_out, action, &mut self.running, context);
                }
            }
            ActionRef::Port(port) => deliver(packet_out, port, &mut self.running, context),
            ActionRef::Network(..) => debug_assert!(false, "the fast path switches to no node"),
        }
    }

    /// Tells the proxy's memory that a packet of the flow is back; false: it has forgotten the flow
    /// since it was asked.
    fn is_returned(
        &self,
        packet: &Packet,
        meta: &PacketMeta,
        context: &mut FastPathContext<'_>,
    ) -> bool {
        let ingress = self.ingress(meta);
        let Some(egress) = ingress.and_then(IngressPort::serial) else { return false };
        let flow = meta.frame.flow();
        let key = Key { egress, network: meta.told, flow, user: meta.identity };
        match context.proxy_flows.returned(meta.found, &key, context.now_ns) {
            Back::Unknown => false,
            Back::Known => true,
            Back::Timed => {
                time(packet, meta, context);
                true
            }
        }
    }
}

/// Notes how long a packet was with its function, if it is one that is timed.
#[cold]
fn time(packet: &Packet, meta: &PacketMeta, context: &mut FastPathContext<'_>) {
    let FastPathContext { proxy_flows, counters, now_ns, .. } = context;
    let Some(visit) = proxy_flows.visit(meta.found).copied() else { return };
    let Ok(view) = parse::parse_frame(packet.buffer.bytes()) else { return };
    let telling = || sojourns::telling(&view, packet.buffer.bytes());
    let path_ref = counters.path_ref(meta.position);
    proxy_flows.time_at(*now_ns, meta.found, &visit, (telling, 1), |sojourn| {
        counters.sojourned(path_ref, meta.entry.local(), sojourn, *now_ns);
    });
}

/// Takes the header of a source route out of a frame, or that over segments off it.
fn strip(meta: &PacketMeta, side: HeaderSide, buffer: &mut Buffer) -> bool {
    encap::strip((meta.encapsulation, side), meta.position, buffer, meta.header_bytes)
}

/// Notes the flow as one of its path, once a millisecond: that is as fine as its age is kept.
#[inline]
fn note_flow(meta: &PacketMeta, context: &mut FastPathContext<'_>) {
    if meta.is_due {
        let path = context.tables.positions.place(meta.position).path;
        let chain = context.tables.path(path).chain;
        let key = context.affinity.key(&meta.frame.flow(), chain);
        context.affinity.note(context.now_ns, key, PathId(meta.header.path));
    }
}

/// A packet without a header.
struct OutPacket<'f> {
    buffer: Buffer,
    meta: &'f PacketMeta,
    /// The header of its route, if it gets one.
    route: Option<&'f Header>,
    share: TxRef,
}

impl OutPacket<'_> {
    /// Counts it; `action`: the compiled one that it meets, if it meets any.
    #[inline(always)]
    fn count(
        &mut self,
        action: Option<&Action>,
        running: &mut CounterRun,
        context: &mut FastPathContext<'_>,
    ) {
        if IS_COUNTING {
            let TxRef { batch, volume } = &mut self.share;
            *batch = running.take_in(self.meta, volume.bytes, action, context);
        }
    }
}

/// Sends a packet where its action says: nothing can go wrong any more, but that a memory is full, or that a frame is
/// not carried whole and is no plain packet.
#[inline(always)]
fn leave(
    mut packet_out: OutPacket<'_>,
    action: &Action,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    packet_out.count(Some(action), running, context);
    let OutPacket { buffer, meta, route, share } = packet_out;
    let (path, ttl, flow_hash) = (meta.header.path, meta.position.ttl(), meta.flow_hash);
    let FastPathContext { gso, pool, out, counters, proxy_flows, carried, .. } = context;
    let known = proxy_flows.len();
    let (tables, now_ns, epoch) = (context.tables, context.now_ns, context.epoch);
    let (position, store) = (meta.position, (&tables.positions, &**carried));
    let packet = PlainPacket { buffer, route, position, store, path, ttl, flow_hash, share };
    let counters = &**counters;
    let left = execute::leave(packet, action, gso, pool, out, |instance, memory| {
        let state = (counters, &mut **proxy_flows);
        remember(meta, (instance, memory), state, tables, (now_ns, epoch))
    });
    match left {
        Ok(batch) => {
            running.handed_out(batch, share.volume, &mut out.batches);
            if let Some(memory) = action.memory() {
                let (is_new, is_due) =
                    (proxy_flows.len() != known, proxy_flows.is_due(memory.serial, 1));
                if is_new {
                    make_room(meta, action, context);
                }
                if is_due {
                    mark(meta, (action, &memory), context);
                }
            }
        }
        Err((buffer, reason)) => {
            end(OutPacket { buffer, meta, route, share }, reason, running, context);
        }
    }
}

/// Notes that a packet goes into a function that knows nothing of chains.
#[inline(always)]
fn remember(
    meta: &PacketMeta,
    (instance, memory): (&Instance, &Memory),
    (counters, proxy_flows): (&Counters, &mut ProxyFlows),
    tables: &Tables,
    (now_ns, epoch): (u64, Epoch),
) -> Result<(), DropReason> {
    let serial = counters.path_ref(meta.position).serial;
    let path = (PathId(meta.header.path), serial);
    let visit = execute::visit(instance, meta.position, path, tables, epoch);
    let payer = match (meta.kind, meta.owner) {
        (Kind::Endpoint, Owner::Port { serial, .. }) => Payer::Port(serial),
        _ => Payer::Path(serial),
    };
    proxy_flows.remember_at(now_ns, (expected(meta, memory), meta.likely), (visit, payer), 1)
}

/// As what it will come back.
#[inline(always)]
fn expected(meta: &PacketMeta, memory: &Memory) -> Key {
    let Memory { serial: egress, network, .. } = *memory;
    Key { egress, network, flow: meta.frame.flow(), user: meta.identity }
}

/// Asks for the memory that times will need of a flow that is met here first: once for each path.
#[cold]
fn make_room(meta: &PacketMeta, action: &Action, context: &mut FastPathContext<'_>) {
    if let ActionExit::Instance(instance) = &action.exit {
        let path_ref = context.counters.path_ref(meta.position);
        context.counters.make_room(path_ref, instance.local);
    }
}

/// Times a packet that was just remembered and is the last that was handed out, if there is room.
#[cold]
fn mark(
    meta: &PacketMeta,
    (action, memory): (&Action, &Memory),
    context: &mut FastPathContext<'_>,
) {
    let FastPathContext { out, counters, proxy_flows, now_ns, .. } = context;
    let ActionExit::Instance(instance) = &action.exit else { return };
    let Some(bytes) = out.frames.last().map(|frame| frame.buffer.bytes()) else { return };
    let Ok(view) = parse::parse_frame(bytes) else { return };
    let key = expected(meta, memory);
    if proxy_flows.mark(*now_ns, &key, sojourns::telling(&view, bytes), 1) {
        counters.sampled(counters.path_ref(meta.position), instance.local);
    }
}

/// Delivers a packet by MAC, or one whose path ends.
#[inline]
fn deliver(
    mut packet_out: OutPacket<'_>,
    port: PortIndex,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    packet_out.count(None, running, context);
    let OutPacket { mut buffer, meta, share, .. } = packet_out;
    let written = execute::address(buffer.bytes_mut(), meta.mac, None);
    debug_assert!(written.is_ok(), "the frame was read");
    execute::hand_out(buffer, context.slots.of_index(port), share, context.out);
}

/// Drops a packet on its path.
#[cold]
fn end(
    packet_out: OutPacket<'_>,
    reason: DropReason,
    running: &mut CounterRun,
    context: &mut FastPathContext<'_>,
) {
    let OutPacket { buffer, meta, share, .. } = packet_out;
    let path_ref = context.counters.path_ref(meta.position);
    context.counters.dropped(meta.owner, Some(path_ref), reason, 1);
    running.ended(share.volume);
    context.pool.put(buffer);
}
