//! Whose frames are on their way up from the kernel: tells the kernel's program which have come and
//! which never will, and counts what it did not let up at its port. Knows counts; refuses to know
//! frames.

use crate::engine::{Engine, Origin, TunnelKind};
use catena_fastpath::{Queues, UNDERLAY_NUMBER, UNDERLAY_SHARES};
use catena_model::DropReason;
use catena_model::id::PortId;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

/// Number of the queue of all ports together.
const ALL: u16 = 0;
/// Numbers of the queues of other nodes.
const TUNNELS: Range<u16> = UNDERLAY_NUMBER..UNDERLAY_NUMBER + 1 + UNDERLAY_SHARES;
/// Places that a port of a function, or the tunnels of a node, may have for each that is free: what comes
/// from there was let up before, at the port of who has sent it, and must not end for want of a place on
/// its way.
const WEIGHT_OF_PASSING: u64 = 8;
/// One endpoint alone has four fifths of the row: what comes at once when the kernel forgets its flows must
/// not end while nobody else waits.
const WEIGHT_OF_ENDPOINT: u64 = 4;
/// How often it looks for what is lost, in nanoseconds. A frame takes less to reach the ring.
const LOOK_NS: u64 = 20_000_000;

/// What had been sent up at a look, by number.
#[derive(Debug, Default)]
enum Look {
    #[default]
    None,
    /// It reaches the ring until the next.
    OnItsWay(Vec<(u16, u64)>),
    /// It is gone once so many frames were taken from the ring.
    Arrived(Vec<(u16, u64)>, u64),
}

/// The shares of all ports.
#[derive(Debug)]
pub(super) struct PuntShares {
    queues: Queues,
    /// Of what was refused, what is booked, by number: packets and bytes.
    booked: Vec<(u64, u64)>,
    look: Look,
    next_look_ns: u64,
    /// Frames that were taken from the ring.
    taken: u64,
}

impl PuntShares {
    /// Of a ring that holds so many frames and was not read before.
    pub(super) fn begin(queues: Queues, ring_frames: u32) -> Self {
        let refused = |number| {
            let queue = queues.of(number);
            (queue.refused_packets, queue.refused_bytes)
        };
        let booked = (0..TUNNELS.end).map(refused).collect();
        TUNNELS.for_each(|number| queues.weigh(number, WEIGHT_OF_PASSING));
        queues.limit(ring_frames);
        Self { queues, booked, look: Look::None, next_look_ns: 0, taken: 0 }
    }

    /// So many frames were taken from the ring, those included that could not be read.
    pub(super) fn note_taken(&mut self, frames: u64) {
        self.taken += frames;
    }

    /// One of them came from the port or the underlay with this number.
    pub(super) fn serve(&self, number: u16) {
        self.queues.serve(number);
    }

    /// Finds what is lost and counts what was refused, if it is time to. `arrived`: frames that have
    /// come to the ring, without those for which it was full.
    pub(super) fn look(
        &mut self,
        now_ns: u64,
        ports: &HashMap<u16, PortId>,
        arrived: impl FnOnce() -> u64,
        engine: &mut Engine,
    ) {
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns.saturating_add(LOOK_NS);
        self.look = match std::mem::take(&mut self.look) {
            Look::None => Look::OnItsWay(self.sent(ports)),
            Look::OnItsWay(sent) => Look::Arrived(sent, arrived()),
            Look::Arrived(sent, until) if self.taken < until => Look::Arrived(sent, until),
            Look::Arrived(sent, _) => {
                sent.into_iter().for_each(|(number, sent)| self.queues.settle(number, sent));
                Look::None
            }
        };
        for (number, port) in ports {
            let slot = engine.slot_of(*port);
            let passes = slot.is_some_and(|slot| engine.is_of_function(slot));
            let weight = if passes { WEIGHT_OF_PASSING } else { WEIGHT_OF_ENDPOINT };
            self.queues.weigh(*number, weight);
        }
        self.book(ports, engine);
    }

    fn sent(&self, ports: &HashMap<u16, PortId>) -> Vec<(u16, u64)> {
        let numbers = ports.keys().copied().chain([ALL]).chain(TUNNELS);
        numbers.map(|number| (number, self.queues.of(number).sent)).collect()
    }

    /// Counts what was refused since the last time.
    pub(super) fn book(&mut self, ports: &HashMap<u16, PortId>, engine: &mut Engine) {
        let tunnel =
            Origin::Tunnel { kind: TunnelKind::Vxlan, source: IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        let at_ports = ports
            .iter()
            .filter_map(|(number, port)| Some((*number, Origin::Port(engine.slot_of(*port)?))));
        let all: Vec<(u16, Origin)> =
            at_ports.chain(TUNNELS.map(|number| (number, tunnel))).collect();
        for (number, origin) in all {
            let Some(booked) = self.booked.get_mut(usize::from(number)) else { continue };
            let queue = self.queues.of(number);
            let packets = queue.refused_packets.saturating_sub(booked.0);
            let bytes = queue.refused_bytes.saturating_sub(booked.1);
            if packets > 0 {
                *booked = (queue.refused_packets, queue.refused_bytes);
                engine.note_received_lost(origin, DropReason::PuntShareFull, packets, bytes);
            }
        }
    }
}
