//! One of the two engines: what comes in, what leaves and how it is booked.

use crate::packets::Sent;
use crate::streets::TownKind;
use crate::town::{Port, Town, node_name};
use catena_dataplane::engine::{
    Datagram, Engine, EngineConfig, Origin, Output, Packet, PortSlot, Tables, TunnelKind, TxCredit,
};
use catena_fastpath::Event;
use catena_io::{Buffer, BufferPool, TUNNEL_PAYLOAD_BYTES_MAX, TUNNEL_SEGMENTS_MAX};
use catena_model::DropReason;
use catena_model::id::PortId;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;

/// More than wait at a time.
const BUFFERS: usize = 512;
/// Of all slices whose packets wait: few of them go on in the time that passes.
const SLICE_BITS_PER_SECOND: u64 = 20_000;
/// Flows that a crowded engine remembers, and contents of metadata: more than come. Which of them gives way in
/// a full memory depends on when each was seen, which the kernel tells late.
const FLOWS_MAX_CROWDED: usize = 4_096;

/// Something that left a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    Frame { port: String, bytes: Vec<u8>, is_super_frame: bool },
    Datagram { to: String, bytes: Vec<u8> },
}

pub(crate) struct Side {
    pub(crate) engine: Engine,
    pub(crate) pool: BufferPool,
    /// What each port has last come in by.
    slots: HashMap<PortId, PortSlot>,
}

impl Side {
    pub(crate) fn new(kind: TownKind) -> Self {
        let mut config = EngineConfig::new(node_name(0));
        (config.flow_seed, config.probe_secret) = (7, 8);
        config.has_fast_path = kind.has_fast_path;
        config.slice_bits_per_second = NonZeroU64::new(SLICE_BITS_PER_SECOND);
        if kind.is_crowded {
            config.flows_max = FLOWS_MAX_CROWDED;
        }
        let pool = BufferPool::new(BUFFERS);
        Self { engine: Engine::new(config), pool, slots: HashMap::new() }
    }

    pub(crate) fn replace_tables(&mut self, tables: Arc<Tables>, town: &Town) {
        self.engine.replace_tables(tables);
        let slot = |port: &Port| Some((port.id, self.engine.slot_of(port.id)?));
        self.slots.extend(town.ports.iter().filter_map(slot));
    }

    /// Lets the engine decide packets. Answers what leaves, sorted, and how it is booked.
    /// `is_starved`: while no further buffer is free.
    pub(crate) fn forward(
        &mut self,
        now_ns: u64,
        mut packets: Vec<Packet>,
        is_starved: bool,
        town: &Town,
    ) -> Vec<(Left, Vec<TxCredit>)> {
        let mut out = Output::default();
        let taken = std::iter::from_fn(|| is_starved.then(|| self.pool.take()).flatten());
        let taken: Vec<Buffer> = taken.collect();
        self.engine.forward(now_ns, &mut packets, &mut self.pool, &mut out);
        taken.into_iter().for_each(|buffer| self.pool.put(buffer));
        self.left(out, town)
    }

    /// Tells the engine the time; answers as for packets.
    pub(crate) fn tick(&mut self, now_ns: u64, town: &Town) -> Vec<(Left, Vec<TxCredit>)> {
        let mut out = Output::default();
        self.engine.tick(now_ns, &mut self.pool, &mut out);
        self.left(out, town)
    }

    fn left(&mut self, out: Output, town: &Town) -> Vec<(Left, Vec<TxCredit>)> {
        let mut left = Vec::new();
        let Output { frames, datagrams, mut batches } = out;
        for frame in frames {
            let here = town.ports.iter().filter(|port| port.node == 0);
            let mut here = here.filter(|port| self.engine.slot_of(port.id) == Some(frame.to));
            let port = here.next().expect("a port of the node").name.clone();
            let is_super_frame = frame.buffer.offload.segmentation.is_some();
            let bytes = frame.buffer.bytes().to_vec();
            let booking = batches.withdraw(frame.share);
            left.push((Left::Frame { port, bytes, is_super_frame }, vec![booking]));
            self.pool.put(frame.buffer);
        }
        let mut rows: Vec<Row> = Vec::new();
        for datagram in datagrams {
            let row = Row::of(&datagram, batches.withdraw(datagram.share));
            self.pool.put(datagram.buffer);
            match rows.last_mut().filter(|last| last.takes(&row)) {
                Some(last) => last.join(row),
                None => rows.push(row),
            }
        }
        left.extend(rows.into_iter().map(Row::left));
        left.sort_by(|one, other| one.0.cmp(&other.0));
        left
    }

    /// Counts what has left, or why it could not.
    pub(crate) fn book(
        &mut self,
        left: Vec<(Left, Vec<TxCredit>)>,
        fate: impl Fn(&Left) -> Option<DropReason>,
    ) {
        for (left, bookings) in left {
            let fate = fate(&left);
            for booking in bookings {
                match fate {
                    None => self.engine.credit_sent(booking),
                    Some(reason) => self.engine.credit_failed(booking, reason),
                }
            }
        }
        self.engine.transmitted();
    }

    pub(crate) fn packet(&mut self, port: &Port, sent: &Sent, cause: Option<Event>) -> Packet {
        let slot = self.slots[&port.id];
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(&sent.bytes));
        buffer.offload = sent.offload;
        from_punt(Origin::Port(slot), buffer, cause)
    }
}

/// Datagrams of one flow that leave one after the other, as many as one call could send. What the kernel
/// follows leaves one per datagram, and on the wire that is the same.
struct Row {
    flow: (String, TunnelKind, u16),
    segment_bytes: usize,
    bytes: Vec<u8>,
    bookings: Vec<TxCredit>,
}

impl Row {
    fn of(datagram: &Datagram, booking: TxCredit) -> Self {
        let bytes = datagram.buffer.bytes().to_vec();
        Self {
            flow: (datagram.to.to_string(), datagram.kind, datagram.entropy),
            segment_bytes: datagram.segment_bytes.map_or(bytes.len(), usize::from),
            bytes,
            bookings: vec![booking],
        }
    }

    /// Could the next go in the same call? All but the last of a row have one size.
    fn takes(&self, next: &Self) -> bool {
        let bytes = self.bytes.len() + next.bytes.len();
        let is_like = next.segment_bytes == self.segment_bytes
            || (next.segment_bytes < self.segment_bytes && next.bytes.len() == next.segment_bytes);
        self.flow == next.flow
            && is_like
            && self.bytes.len().is_multiple_of(self.segment_bytes)
            && bytes <= TUNNEL_PAYLOAD_BYTES_MAX
            && bytes.div_ceil(self.segment_bytes) <= TUNNEL_SEGMENTS_MAX
    }

    fn join(&mut self, next: Self) {
        self.bytes.extend(next.bytes);
        self.bookings.extend(next.bookings);
    }

    fn left(self) -> (Left, Vec<TxCredit>) {
        (Left::Datagram { to: self.flow.0, bytes: self.bytes }, self.bookings)
    }
}

/// The names of what leaves.
pub(crate) fn names(left: &[(Left, Vec<TxCredit>)]) -> Vec<Left> {
    left.iter().map(|(left, _)| left.clone()).collect()
}

pub(crate) fn from_punt(origin: Origin, buffer: Buffer, cause: Option<Event>) -> Packet {
    match cause {
        Some(Event::Miss | Event::Stale) => Packet::from_kernel(origin, buffer, false),
        Some(Event::Waiting) => Packet::from_kernel(origin, buffer, true),
        _ => Packet::plainly(origin, buffer),
    }
}
