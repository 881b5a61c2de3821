//! Frames on a source route that come by a link: each names the port that it leaves by, and nothing else is asked
//! (docs/adr/0024-source-routes-and-switches.md). Knows links and exits; refuses to know paths, networks and
//! flows, so that what a node remembers of a chain that only passes is nothing.
//!
//! Such a packet never enters a vector: it is read, its counter is written, and it leaves.

use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::{Ends, TxCredit};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::execute::hand_out;
use crate::engine::action::output::Output;
use crate::engine::packet::{Packet, PortSlot};
use crate::engine::tables::Tables;
use crate::engine::vector::Batch;
use crate::engine::vector::owner::{Owner, Passage};
use catena_io::{Buffer, BufferPool};
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_wire::source_route::{self, Next, SourceRouteError};

/// Port numbers, 0 among them, which nobody has.
const NUMBERS: usize = 256;

/// Where a port number leads.
#[derive(Clone, Copy)]
struct Exit {
    slot: PortSlot,
    owner: Owner,
}

/// The links of one engine, made with the tables and not by packets.
pub(crate) struct Transit {
    exits: Box<[Option<Exit>; NUMBERS]>,
    /// Is the port in this slot a link?
    links: Vec<bool>,
}

impl Default for Transit {
    fn default() -> Self {
        Self { exits: Box::new([None; NUMBERS]), links: Vec::new() }
    }
}

/// What one link has brought, packet after packet.
#[derive(Default)]
struct Brought {
    owner: Owner,
    volume: Volume,
    /// Those that leave again.
    held: u64,
}

impl Brought {
    fn count(&mut self, counters: &mut Counters) {
        let Self { owner, volume, held } = std::mem::take(self);
        if volume.packets > 0 {
            counters.apply(CounterUpdate::Received(owner), volume);
            counters.held(owner, held);
        }
    }
}

impl Transit {
    /// Lines up with new tables.
    pub(crate) fn align(&mut self, tables: &Tables, slots: &Slots) {
        self.exits.fill(None);
        self.links.clear();
        for (number, _) in tables.exits.links() {
            let Some(slot) = slots.of_port(number.link_id()) else { continue };
            let (owner, _) = slots.owner(slot);
            self.exits[usize::from(number.get())] = Some(Exit { slot, owner });
            if self.links.len() <= slot.index() {
                self.links.resize(slot.index() + 1, false);
            }
            self.links[slot.index()] = true;
        }
    }

    /// Is there any link?
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !self.links.is_empty()
    }

    /// Has a link brought the packet?
    #[inline]
    pub(crate) fn has_brought(&self, packet: &Packet) -> bool {
        let slot = packet.port().map(PortSlot::index);
        slot.and_then(|slot| self.links.get(slot)).copied().unwrap_or_default()
    }

    /// How many of these packets, from the first on, links have brought; or, where they have not brought the
    /// first, how many they have not.
    pub(crate) fn run(&self, packets: &[Packet]) -> (bool, usize) {
        let are_brought = packets.first().is_some_and(|first| self.has_brought(first));
        let other = packets.iter().position(|packet| self.has_brought(packet) != are_brought);
        (are_brought, other.unwrap_or(packets.len()))
    }

    /// Sends packets that links have brought on their way.
    pub(crate) fn pass_on(
        &self,
        packets: &mut Batch<'_, '_>,
        (slots, counters): (&Slots, &mut Counters),
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let mut brought = Brought::default();
        for packet in packets {
            let Some(slot) = packet.port() else { continue };
            let mut buffer = packet.buffer;
            let (owner, _) = slots.owner(slot);
            let volume = Volume { packets: 1, bytes: buffer.len() as u64 };
            if brought.owner != owner {
                brought.count(counters);
                brought.owner = owner;
            }
            brought.volume.merge(volume);
            match self.step(&mut buffer) {
                Ok(exit) => {
                    brought.held += 1;
                    let ends = Ends { owner, to: exit.owner, passage: Passage::Ordinary };
                    let share = out.batches.enter(TxCredit { ends, volume });
                    hand_out(buffer, exit.slot, share, out);
                }
                Err(reason) => {
                    counters.dropped(owner, None, reason, 1);
                    pool.put(buffer);
                }
            }
        }
        brought.count(counters);
    }

    /// A node's step of one frame.
    #[inline]
    fn step(&self, buffer: &mut Buffer) -> Result<Exit, DropReason> {
        // Whoever begins a route cuts super-frames: no kernel segments what is behind one.
        if buffer.offload.segmentation.is_some() {
            return Err(DropReason::UnsupportedOffload);
        }
        match source_route::advance(buffer.bytes_mut()) {
            Ok(Next::Port(number)) => {
                self.exits[usize::from(number)].ok_or(DropReason::UnknownExit)
            }
            Ok(Next::End) => Err(DropReason::RouteEnded),
            Err(error) => Err(drop_reason(error)),
        }
    }
}

/// The name under which a frame ends whose header does not allow the step.
fn drop_reason(error: SourceRouteError) -> DropReason {
    match error {
        SourceRouteError::NoProfile => DropReason::NoSourceRoute,
        SourceRouteError::TtlExpired => DropReason::TtlExpired,
        _ => DropReason::MalformedSourceRoute,
    }
}
