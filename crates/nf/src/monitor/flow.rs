//! A flow as a packet shows it, and what is known of it. Knows what of a packet counts; refuses to know
//! where records go.

use super::table::Keyed;
use crate::packet::{Direction, Packet, Time};
use catena_wire::field::Field;
use catena_wire::flow::FlowKey;
use catena_wire::ipfix::{EndReason, FlowRecord, icmp_port};
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;

/// A flow, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Of ICMP, ports are 0 and type and code.
    pub(super) flow: FlowKey,
    pub(super) direction: Direction,
}

impl Key {
    /// That of the packets of TCP that come back.
    pub(super) fn reversed(&self) -> Self {
        Self { flow: self.flow.reversed(), direction: self.direction.reversed() }
    }
}

impl Keyed for Key {
    fn hash(&self, seed: u64) -> u64 {
        self.flow.seeded_hash(seed) ^ self.direction as u64
    }
}

/// What a packet adds to its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) key: Key,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// None: it is no TCP, or ends before them.
    pub(super) flags: Option<TcpFlags>,
}

impl Sighting {
    /// None: it is no packet of IP.
    #[inline]
    pub(super) fn of(packet: &Packet<'_>, direction: Direction) -> Option<Self> {
        let mut flow = packet.view.flow?;
        if matches!(flow.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6) {
            let part = |field: Field| field.read(packet.frame, &packet.view).unwrap_or(0) as u8;
            let kind = icmp_port(part(Field::IcmpType), part(Field::IcmpCode));
            (flow.source_port, flow.destination_port) = (0, kind);
        }
        Some(Self {
            key: Key { flow, direction },
            packets: packet.wire_packets.into(),
            bytes: packet.wire_bytes,
            flags: packet.view.varying.tcp_flags,
        })
    }
}

/// How far a connection's beginning has come, by the flow of whoever asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Handshake {
    /// Nobody asked, or all of it is over.
    #[default]
    None,
    /// SYN came then, once.
    Asked(Time),
    /// SYN came again: which of them is answered cannot be told.
    AskedAgain,
    /// SYN/ACK came then, once.
    Answered(Time),
}

/// What is known of a flow since its last record ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) flags: TcpFlags,
    pub(super) first: Time,
    pub(super) last: Time,
    /// Which sighting the last one was: the order of flows of one moment.
    pub(super) tick: u64,
    pub(super) handshake: Handshake,
    /// Both ends have said that they are ready: the next packet is the last.
    pub(super) is_closing: bool,
    /// It has changed since it was exported.
    pub(super) is_dirty: bool,
}

impl Record {
    /// That of a flow that nothing has come of yet.
    pub(super) fn begun(now: Time) -> Self {
        Self { first: now, last: now, ..Self::default() }
    }

    pub(super) fn add(&mut self, seen: &Sighting, now: Time, tick: u64) {
        self.packets = self.packets.saturating_add(seen.packets);
        self.bytes = self.bytes.saturating_add(seen.bytes);
        self.flags = self.flags.with(seen.flags.unwrap_or_default());
        self.last = now;
        self.tick = tick;
        self.is_dirty = true;
    }

    /// Why it ends when nothing comes any more.
    pub(super) fn idle_reason(&self) -> EndReason {
        let is_ended = self.flags.has_any(TcpFlags::FIN);
        if is_ended { EndReason::Ended } else { EndReason::Idle }
    }

    /// What collectors are told of it, with the start of time in milliseconds since 1970.
    pub(super) fn told(&self, key: &Key, end: EndReason, epoch_ms: u64) -> FlowRecord {
        let milliseconds = |at: Time| epoch_ms.saturating_add(at.0 / 1_000_000);
        FlowRecord {
            flow: key.flow,
            bytes: self.bytes,
            packets: self.packets,
            tcp_flags: self.flags,
            end,
            is_egress: key.direction == Direction::Backward,
            first_ms: milliseconds(self.first),
            last_ms: milliseconds(self.last),
        }
    }
}
