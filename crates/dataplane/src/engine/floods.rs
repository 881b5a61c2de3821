//! What ports send to everybody in their networks. Knows how often each may, and what is only the echo
//! of another station; refuses to know who gets it.
//!
//! The switch knows where every station is and sends to everybody at most what is addressed so: a frame
//! for an unknown station goes to nobody. A group frame costs as many copies as there are stations,
//! hence a rate for each port (as the storm control of switches). A function that bridges two ports of
//! one network gives back by each what it hears by the other. All have had that from its sender, and
//! are spared it; what the function's machine sends of its own goes to everybody but itself. Whose a
//! frame is tells its source; where that is no station's, where it was heard first (`flood_memory`).

use super::context::Context;
use super::counters::Owner;
use super::flood_memory::{FloodMemory, FrameDigest};
use super::packet::PortSlot;
use super::scheduler::TokenBucket;
use super::tables::{NetworkIndex, PortIndex, Seat, Tables};
use super::vector::{Source, Work};
use catena_model::DropReason;
use catena_model::program::SliceRate;
use std::num::NonZeroU32;

/// The buckets of all ports, and what was sent to everybody.
pub(super) struct Floods {
    rate: SliceRate,
    /// By slot, with the serial of its port.
    buckets: Vec<Option<(u32, TokenBucket)>>,
    pub(super) memory: FloodMemory,
}

impl Floods {
    /// So many frames a second for each port, and as many at once.
    pub(super) fn new(frames_per_second: NonZeroU32, seed: u64) -> Self {
        // In the bucket a frame counts as a byte.
        let burst_bytes = frames_per_second.get();
        let rate = SliceRate { bits_per_second: u64::from(burst_bytes) * 8, burst_bytes };
        Self { rate, buckets: Vec::new(), memory: FloodMemory::new(seed) }
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
    let network = context.tables.network(network);
    let seat = network.lines.seat(work.view.source);
    let sender = seat.ok_or_else(|| context.floods.memory.digest(work, network));
    if let Source::Port(port) = from
        && is_echo(port, sender, context)
    {
        return Err(DropReason::FloodRepeated);
    }
    let is_free = context.is_uncharged || context.is_injected;
    if let Owner::Port { slot, serial } = work.owner
        && !is_free
        && !context.floods.take(context.now_ns, (slot, serial), work.volume.packets)
    {
        return Err(DropReason::FloodLimited);
    }
    if let Err(digest) = sender {
        context.floods.memory.note(context.now_ns, digest, work.owner);
    }
    Ok(())
}

/// Is a frame that a function's machine sends to everybody by one of its ports from elsewhere in the
/// network? `sender`: the station that it says it is from; none: what the frame is known by.
fn is_echo(port: PortIndex, sender: Result<&Seat, FrameDigest>, context: &Context<'_>) -> bool {
    let entry = context.tables.port(port);
    if !entry.is_function() && entry.entry.own_sources.is_none() {
        return false;
    }
    let mut own = std::iter::once(port).chain(entry.siblings());
    match sender {
        Ok(Seat::Port(seat)) => !own.any(|port| port == *seat),
        Ok(Seat::Node(_)) => true,
        Err(digest) => {
            let first = context.floods.memory.first(context.now_ns, digest);
            first.is_some_and(|first| !own.any(|port| context.slots.owner_of_index(port) == first))
        }
    }
}

/// Is the same machine behind a port and that by which a frame came, as far as port pairs tell?
pub(super) fn is_same_machine(from: Source, port: PortIndex, tables: &Tables) -> bool {
    match from {
        Source::Port(source) => {
            source == port || tables.port(source).siblings().any(|other| other == port)
        }
        Source::Tunnel | Source::Proxy => false,
    }
}
