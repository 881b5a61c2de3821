//! The fast path for packets without anything special: whole frames of TCP or UDP over IP, bare or
//! behind a header without metadata, whose way depends on path and hop, on a flow that is known or on a user's slice.
//! What the slow path has decided for them is looked up instead of decided again; packets and counters
//! are the same.
//!
//! Knows what the slow path has decided (the actions, the flow cache) and asks what the slow path asks
//! (`users`). Refuses to decide: what it does not know takes the slow path, in its place among the
//! others, so that no packet overtakes another.
//!
//! It is here for speed alone: an engine without it does the same at a quarter of the pace, and the
//! tests hold the two against each other.

mod act;
mod context;
mod counter_run;
mod decide;
mod exits;
mod ingress_port;
mod look_up;
mod packet_meta;
mod routes;
mod users;

use crate::engine::account::slots::Slots;
use crate::engine::packet::index::{NodeIndex, PortIndex};
use crate::engine::packet::{Packet, PortSlot};
use crate::engine::tables::Tables;
use crate::engine::tables::descent::{Changed, Entered};
use crate::engine::vector::Batch;
use catena_model::resource::Encapsulation;
pub(crate) use context::FastPathContext;
use counter_run::CounterRun;
use exits::Exits;
use ingress_port::{IngressKind, IngressPort};
use packet_meta::{Kind, PacketMeta};
use routes::Routes;
use std::net::IpAddr;

/// Packets whose memory is asked for before the first of them is looked at: as many lines as a core
/// can wait for at once.
const GROUP: usize = 32;

/// The fast path of one engine.
#[derive(Debug, Default)]
pub(crate) struct FastPath {
    is_open: bool,
    /// By slot.
    ports: Vec<Option<IngressPort>>,
    delivered: Exits<2>,
    delivered_v6: Exits<4>,
    switched: Exits<2>,
    routes: Routes,
    /// The tunnel end that the last packet came from, over segments or not, and is known.
    source: Option<((bool, IpAddr), NodeIndex)>,
    /// Of one group: so many, and the next of them.
    metas: Box<[PacketMeta]>,
    seen: usize,
    at: usize,
    running: CounterRun,
    /// The path whose counters were asked for last.
    prefetched: u32,
    /// Packets that take the slow path.
    pub(crate) waiting: Vec<Packet>,
}

impl FastPath {
    /// A fast path that is open, or one that nothing ever takes.
    pub(crate) fn new(is_open: bool) -> Self {
        Self {
            is_open,
            delivered: Exits::new(),
            delivered_v6: Exits::new(),
            switched: Exits::new(),
            metas: vec![PacketMeta::default(); GROUP].into_boxed_slice(),
            waiting: Vec::with_capacity(crate::engine::vector::VECTOR_PACKETS_MAX),
            ..Self::default()
        }
    }

    /// Lines the fast path up with new tables. `former`: those before; `changed`: what differs from them;
    /// none: nobody knows.
    pub(crate) fn align(
        &mut self,
        former: &Tables,
        tables: &Tables,
        changed: Option<&Changed>,
        slots: &Slots,
    ) {
        self.source = None;
        if !self.is_open {
            return;
        }
        self.delivered.forget();
        self.delivered_v6.forget();
        self.switched.forget();
        self.routes.forget();
        // Which fields rules look at, gates know, too.
        let look = |tables: &Tables| tables.rules.fields_anywhere() != 0;
        let has_fields = look(former) || look(tables);
        match changed.map(|changed| (changed, &changed.entered)) {
            Some((changed, Entered::By(entered))) => {
                let entered = entered.iter().filter(|_| has_fields);
                let ports = changed.ports.iter().chain(entered);
                ports.for_each(|port| self.make_gate(*port, tables, slots));
            }
            Some((changed, Entered::All)) if !has_fields => {
                changed.ports.iter().for_each(|port| self.make_gate(*port, tables, slots));
            }
            Some((_, Entered::All)) | None => {
                self.ports.clear();
                tables.names.all_ports().for_each(|port| self.make_gate(port, tables, slots));
            }
        }
    }

    fn make_gate(&mut self, index: PortIndex, tables: &Tables, slots: &Slots) {
        let Some(port) = tables.ports.find(index.0.into()) else { return };
        let kind = if port.is_function() {
            let speaks = Encapsulation::ALL.map(|one| port.speaks(one));
            let is_simple = !port.is_shared() && port.rewrites().is_empty();
            let serial = is_simple.then(|| slots.serial(index));
            IngressKind::Function { speaks, serial, keeps_mac: port.keeps_mac() }
        } else {
            IngressKind::Endpoint
        };
        let owner = slots.owner_of_index(index);
        let (network, addressed_in) = (port.network, port.addressed_in());
        let fields = tables.rules.fields_at(index, Some(network));
        let ingress = IngressPort { index, owner, network, addressed_in, kind, fields };
        self.open_gate(slots.of_index(index), ingress);
    }

    /// No port has the slot any more.
    pub(crate) fn close_gate(&mut self, slot: PortSlot) {
        if let Some(ingress) = self.ports.get_mut(slot.index()) {
            *ingress = None;
        }
    }

    fn open_gate(&mut self, slot: PortSlot, ingress: IngressPort) {
        if self.ports.len() <= slot.index() {
            self.ports.resize(slot.index() + 1, None);
        }
        self.ports[slot.index()] = Some(ingress);
    }

    /// The port that a packet came by, as the fast path sees it.
    #[inline(always)]
    fn ingress(&self, meta: &PacketMeta) -> Option<&IngressPort> {
        self.ports.get(meta.entry.slot().index())?.as_ref()
    }

    /// Packets that took it since the start.
    pub(crate) fn passed(&self) -> u64 {
        self.running.passed()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes packets through until one has to take the slow path; that one then waits, and those
    /// behind it that have to as well.
    pub(crate) fn run(&mut self, packets: &mut Batch<'_, '_>, context: &mut FastPathContext<'_>) {
        context.gso.open();
        let mut metas = std::mem::take(&mut self.metas);
        while self.waiting.is_empty() {
            if self.at == self.seen {
                let group = packets.as_slice();
                self.look(&group[..group.len().min(GROUP)], &mut metas, context);
            }
            let Some(meta) = metas.get(self.at) else { break };
            // Where it lies: moved, it would be copied for being looked at.
            let Some(packet) = packets.as_slice().first() else { break };
            let holds = self.holds(packet, meta, context);
            let Some(packet) = packets.next() else { break };
            self.at += 1;
            if holds {
                self.act(packet, meta, context);
                self.running.pass();
            } else {
                // Those behind it must not overtake.
                self.waiting.push(packet);
            }
        }
        self.running.close(context.counters, &mut context.out.batches);
        while self.at < self.seen && metas[self.at].kind == Kind::SlowPath {
            self.at += 1;
            self.waiting.extend(packets.next());
        }
        self.metas = metas;
    }
}
