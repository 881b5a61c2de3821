//! Frames on a source route that come by a link: each names the port that it leaves by, and nothing else is asked
//! (docs/adr/0024-source-routes-and-switches.md). Knows links and exits; refuses to know paths, networks and
//! flows, so that what a node remembers of a chain that only passes is nothing.
//!
//! Such a packet never enters a vector: it is read, its counter is written, and it leaves. One whose way ends here
//! comes out at a port, and is the stages'.

use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::{Ends, TxRef};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::execute::hand_out;
use crate::engine::action::output::Output;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::{Arrived, Packet, PortSlot};
use crate::engine::tables::Tables;
use crate::engine::vector::VECTOR_PACKETS_MAX;
use crate::engine::vector::owner::{Owner, Passage};
use catena_io::{Buffer, BufferPool};
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_wire::source_route::{self, Next, SourceRouteError};

/// Port numbers, 0 among them, which nobody has.
const NUMBERS: usize = 256;

/// Where a port number leads.
#[derive(Clone, Copy)]
enum Exit {
    /// Out of a link. `batch`: of the output, with all that the link which is passed on now sends there.
    Link { slot: PortSlot, owner: Owner, batch: Option<u32> },
    /// To what is behind a port of this node: its way is at its end here.
    Port(PortIndex),
}

/// The exits of one engine, made with the tables and not by packets.
pub(crate) struct Transit {
    exits: Box<[Option<Exit>; NUMBERS]>,
    /// Those with a batch.
    opened: Vec<u8>,
    has_links: bool,
    /// Working memory.
    staying: Vec<Packet>,
}

impl Default for Transit {
    fn default() -> Self {
        Self {
            exits: Box::new([None; NUMBERS]),
            opened: Vec::with_capacity(NUMBERS),
            has_links: false,
            staying: Vec::with_capacity(VECTOR_PACKETS_MAX),
        }
    }
}

/// What one link has brought, packet after packet.
struct Brought {
    slot: PortSlot,
    owner: Owner,
    volume: Volume,
    /// Those that leave again.
    held: u64,
}

impl Brought {
    fn by(slot: PortSlot, slots: &Slots) -> Self {
        Self { slot, owner: slots.owner(slot).0, volume: Volume::default(), held: 0 }
    }

    fn count(self, counters: &mut Counters) {
        if self.volume.packets > 0 {
            counters.apply(CounterUpdate::Received(self.owner), self.volume);
            counters.held(self.owner, self.held);
        }
    }
}

impl Transit {
    /// Lines up with new tables.
    pub(crate) fn align(&mut self, tables: &Tables, slots: &Slots) {
        self.exits.fill(None);
        self.has_links = false;
        for (number, _) in tables.exits.links() {
            let Some(slot) = slots.of_port(number.link_id()) else { continue };
            let (owner, _) = slots.owner(slot);
            self.exits[usize::from(number.get())] = Some(Exit::Link { slot, owner, batch: None });
            self.has_links = true;
        }
        for (number, id) in tables.exits.ports() {
            self.exits[usize::from(number.get())] = tables.names.port(id).map(Exit::Port);
        }
    }

    /// Is there any link?
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.has_links
    }

    /// Sends packets that links have brought on their way. What stays is what others brought, and what comes out
    /// here, in its order.
    pub(crate) fn pass_on(
        &mut self,
        input: &mut Vec<Packet>,
        (slots, counters): (&Slots, &mut Counters),
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let has_come = |packet: &Packet| packet.port().is_some_and(|slot| slots.is_link(slot));
        if !input.iter().any(has_come) {
            return;
        }
        let mut brought: Option<Brought> = None;
        for mut packet in input.drain(..) {
            let slot = packet.port();
            if slot.is_none() || brought.as_ref().map(|brought| brought.slot) != slot {
                let Some(slot) = slot.filter(|slot| slots.is_link(*slot)) else {
                    self.staying.push(packet);
                    continue;
                };
                if let Some(before) = brought.replace(Brought::by(slot, slots)) {
                    before.count(counters);
                    self.close();
                }
            }
            let Some(brought) = &mut brought else { continue };
            let bytes = packet.buffer.len() as u64;
            let exit = step(&mut packet.buffer).and_then(|number| {
                let exit = self.exits[usize::from(number)].as_mut();
                exit.map(|exit| (number, exit)).ok_or(DropReason::UnknownExit)
            });
            match exit {
                Ok((_, Exit::Port(port))) => {
                    packet.arrived = Arrived::AtExit(*port);
                    self.staying.push(packet);
                    continue;
                }
                Ok((number, Exit::Link { slot, owner: to, batch })) => {
                    brought.held += 1;
                    let batch = *batch.get_or_insert_with(|| {
                        self.opened.push(number);
                        let (owner, passage) = (brought.owner, Passage::Ordinary);
                        out.batches.begin(Ends { owner, to: *to, passage })
                    });
                    let volume = Volume { packets: 1, bytes };
                    out.batches.add(batch, volume);
                    hand_out(packet.buffer, *slot, TxRef { batch, volume }, out);
                }
                Err(reason) => {
                    counters.dropped(brought.owner, None, reason, 1);
                    pool.put(packet.buffer);
                }
            }
            brought.volume.add(1, bytes);
        }
        if let Some(last) = brought {
            last.count(counters);
            self.close();
        }
        std::mem::swap(input, &mut self.staying);
    }

    /// The batches are another link's, or another output's.
    fn close(&mut self) {
        for number in self.opened.drain(..) {
            if let Some(Exit::Link { batch, .. }) = &mut self.exits[usize::from(number)] {
                *batch = None;
            }
        }
    }

    /// Does the source route of a frame come out at a port of this node?
    pub(crate) fn comes_out(&self, frame: &[u8]) -> bool {
        let next = source_route::next(frame);
        matches!(next, Ok(Next::Port(number)) if self.is_port(number))
    }

    /// Why a frame does not go on, if it does not.
    pub(crate) fn complaint(&self, frame: &[u8]) -> Option<DropReason> {
        match source_route::next(frame) {
            Ok(Next::Port(number)) => {
                let is_known = self.exits[usize::from(number)].is_some();
                (!is_known).then_some(DropReason::UnknownExit)
            }
            Ok(Next::End) => Some(DropReason::RouteEnded),
            Err(error) => Some(drop_reason(error)),
        }
    }

    fn is_port(&self, number: u8) -> bool {
        matches!(self.exits[usize::from(number)], Some(Exit::Port(_)))
    }
}

/// A node's step of one frame: the port number by which it leaves.
#[inline]
fn step(buffer: &mut Buffer) -> Result<u8, DropReason> {
    // Whoever begins a route cuts super-frames: no kernel segments what is behind one.
    if buffer.offload.segmentation.is_some() {
        return Err(DropReason::UnsupportedOffload);
    }
    match source_route::advance(buffer.bytes_mut()) {
        Ok(Next::Port(number)) => Ok(number),
        Ok(Next::End) => Err(DropReason::RouteEnded),
        Err(error) => Err(drop_reason(error)),
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
