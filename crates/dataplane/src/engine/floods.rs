//! What ports send to everybody in their networks. Knows how often each may, and what is only the echo
//! of another station; refuses to know who gets it.
//!
//! The switch knows where every station is and sends to everybody at most what is addressed so: a frame
//! for an unknown station goes to nobody. A group frame costs as many copies as there are stations,
//! hence a rate for each port (as the storm control of switches). A function that bridges two ports of
//! one network gives back by each what it hears by the other. All have had that from its sender, and
//! are spared it; what the function's machine sends of its own goes to everybody but itself.

use super::context::Context;
use super::counters::Owner;
use super::packet::PortSlot;
use super::scheduler::TokenBucket;
use super::tables::{NetworkIndex, PortIndex, Seat, Tables};
use super::vector::{Source, Work};
use catena_model::DropReason;
use catena_model::program::SliceRate;
use catena_wire::scalar::MacAddr;
use std::num::NonZeroU32;

/// The buckets of all ports.
pub(super) struct Floods {
    rate: SliceRate,
    /// By slot, with the serial of its port.
    buckets: Vec<Option<(u32, TokenBucket)>>,
}

impl Floods {
    /// So many frames a second for each port, and as many at once.
    pub(super) fn new(frames_per_second: NonZeroU32) -> Self {
        // In the bucket a frame counts as a byte.
        let burst_bytes = frames_per_second.get();
        let rate = SliceRate { bits_per_second: u64::from(burst_bytes) * 8, burst_bytes };
        Self { rate, buckets: Vec::new() }
    }

    /// May a port send so many frames to everybody now?
    fn take(&mut self, now_ns: u64, (slot, serial): (PortSlot, u32), frames: u64) -> bool {
        let place = slot.index();
        if place >= self.buckets.len() {
            self.buckets.resize(place + 1, None);
        }
        let Some(entry) = self.buckets.get_mut(place) else { return false };
        let (_, bucket) = match entry {
            Some(own) if own.0 == serial => own,
            _ => entry.insert((serial, TokenBucket::full(self.rate, now_ns))),
        };
        bucket.take(now_ns, frames)
    }
}

/// May a group frame go to everybody in a network? It is charged to the port that it came by.
pub(super) fn admit(
    work: &Work,
    network: NetworkIndex,
    from: Source,
    context: &mut Context<'_>,
) -> Result<(), DropReason> {
    if let Source::Port(port) = from
        && is_echo(work.view.source, network, port, context.tables)
    {
        return Err(DropReason::FloodRepeated);
    }
    let Owner::Port { slot, serial } = work.owner else { return Ok(()) };
    let is_free = context.is_uncharged || context.is_injected;
    if is_free || context.floods.take(context.now_ns, (slot, serial), work.volume.packets) {
        Ok(())
    } else {
        Err(DropReason::FloodLimited)
    }
}

/// Is a frame that a function's machine sends to everybody by one of its ports from a station that is
/// elsewhere in the network?
fn is_echo(source: MacAddr, network: NetworkIndex, port: PortIndex, tables: &Tables) -> bool {
    let entry = tables.port(port);
    let is_of_function = entry.is_function() || entry.entry.own_sources.is_some();
    is_of_function
        && match tables.network(network).macs.get(&source) {
            Some(Seat::Port(seat)) => *seat != port && !entry.siblings.contains(seat),
            Some(Seat::Node(_)) => true,
            None => false,
        }
}

/// Is the same machine behind a port and that by which a frame came, as far as port pairs tell?
pub(super) fn is_same_machine(from: Source, port: PortIndex, tables: &Tables) -> bool {
    match from {
        Source::Port(source) => source == port || tables.port(source).siblings.contains(&port),
        Source::Tunnel | Source::Proxy => false,
    }
}
