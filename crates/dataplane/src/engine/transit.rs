//! Frames on a source route that come by a link: each names the port that it leaves by, and nothing else is asked
//! (docs/adr/0024-source-routes-and-switches.md). Knows links and exits; refuses to know paths, networks and
//! flows, so that what a node remembers of a chain that only passes is nothing.
//!
//! Such a packet never enters a vector: it is read, its counter is written, and it leaves; where its cable is dead, by
//! the detour that it brings with it; at a switch that is an edge, under the next header, whose number it has named.
//! One whose way ends here comes out at a port, and is the stages'. What a link brings at whose other end no neighbour
//! is known ends there.

use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::{Ends, TxCredit, TxRef};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::execute::hand_out;
use crate::engine::action::output::Output;
use crate::engine::encap::{Detoured, NextHeader, Positions};
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::{Arrived, Packet, PortSlot, trim_front};
use crate::engine::state::link_board::{LinkBoard, NotOurs, Use};
use crate::engine::tables::Tables;
use crate::engine::vector::VECTOR_PACKETS_MAX;
use crate::engine::vector::owner::{Owner, Passage};
use catena_io::{Buffer, BufferPool};
use catena_model::DropReason;
use catena_model::account::{Created, Volume};
use catena_model::kernel::Declined;
use catena_model::program::Pathlet;
use catena_model::topology::PortNumber;
use catena_wire::source_route::hello::Hello;
use catena_wire::source_route::native::TagKey;
use catena_wire::source_route::polka::residues::Reducer;
use catena_wire::source_route::{self, Next, Profile, SourceRouteError, sr_mpls};
use std::sync::Arc;
use std::vec::Drain;

/// Port numbers, 0 among them, which nobody has.
const NUMBERS: usize = 256;

/// Where a port number leads.
#[derive(Clone, Copy)]
enum Exit {
    /// Out of a link. `batch`: of the output, with all that the link which is passed on now sends there.
    Link { slot: PortSlot, owner: Owner, batch: Option<u32> },
    /// To what is behind a port of this node: its way is at its end here.
    Port(PortIndex),
    /// On under the header at this place among those that this node writes.
    Next(u8),
}

/// Where a frame leaves: by which number, what is there, and how it comes there.
type Leaving = (u8, Exit, By);

/// How a frame comes to its exit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Its header names it.
    Name,
    /// The link that is named is not sound.
    Detour,
    /// Its header was at its end, and this node has written another one.
    NextHeader,
}

/// Why frames that the kernel sends up are the engine's.
const KEPT: [Declined; 3] = [Declined::RouteEnds, Declined::LinkUnsound, Declined::UnusualRoute];

/// What came up from the kernel's program at links, since that was taken.
#[derive(Default)]
pub(crate) struct CameUp {
    frames: u64,
    /// Of those that the kernel has counted: the link, the profile and the port number.
    counted: Vec<(u8, Profile, u8)>,
    kept: [u64; KEPT.len()],
}

impl CameUp {
    fn keep(&mut self, reason: Declined) {
        for (frames, _) in self.kept.iter_mut().zip(KEPT).filter(|(_, one)| *one == reason) {
            *frames += 1;
        }
    }

    /// How many did.
    pub(crate) fn take_frames(&mut self) -> u64 {
        std::mem::take(&mut self.frames)
    }

    /// Those that the kernel has counted.
    pub(crate) fn take_counted(&mut self) -> impl Iterator<Item = (u8, Profile, u8)> + '_ {
        self.counted.drain(..)
    }

    /// Those that the engine keeps to itself, by why it does so.
    pub(crate) fn take_kept(&mut self) -> impl Iterator<Item = (Declined, u64)> + use<> {
        let kept = std::mem::take(&mut self.kept);
        KEPT.into_iter().zip(kept).filter(|(_, frames)| *frames > 0)
    }
}

/// The exits of one engine, made with the tables and not by packets.
pub(crate) struct Transit {
    exits: Box<[Option<Exit>; NUMBERS]>,
    /// Those with a batch.
    opened: Vec<u8>,
    has_links: bool,
    /// The numbers of links, in the order of their slots.
    numbers: Vec<(PortSlot, PortNumber)>,
    /// What this node divides numbers of ways by.
    reducers: Arc<[Reducer]>,
    /// By which tags of headers that take a detour are checked and made anew.
    tag_key: TagKey,
    /// The headers that this node writes in the place of those that are at their end.
    headers: Vec<(Arc<Pathlet>, NextHeader)>,
    board: Arc<LinkBoard>,
    /// The links whose frames come by the kernel's program.
    steered: Box<[bool; NUMBERS]>,
    pub(crate) came_up: CameUp,
    /// Working memory.
    staying: Vec<Packet>,
}

impl Transit {
    /// No exits yet.
    pub(crate) fn new(board: Arc<LinkBoard>) -> Self {
        Self {
            exits: Box::new([None; NUMBERS]),
            opened: Vec::with_capacity(NUMBERS),
            has_links: false,
            numbers: Vec::new(),
            reducers: Arc::default(),
            tag_key: *Positions::default().tag_key(),
            headers: Vec::new(),
            board,
            steered: Box::new([false; NUMBERS]),
            came_up: CameUp::default(),
            staying: Vec::with_capacity(VECTOR_PACKETS_MAX),
        }
    }
}

/// What one link has brought, packet after packet.
struct Brought {
    slot: PortSlot,
    number: PortNumber,
    owner: Owner,
    /// A neighbour of this domain has sent it.
    is_known: bool,
    /// Its frames come by the kernel's program.
    is_steered: bool,
    volume: Volume,
    /// Those that leave again.
    held: u64,
    /// Any that goes on from here, or came out.
    has_passed: bool,
}

impl Brought {
    /// Is nothing to be asked of its frames but by which number they leave?
    #[inline]
    fn is_plain(&self) -> bool {
        self.is_known && !self.is_steered
    }

    fn count(self, counters: &mut Counters, board: &LinkBoard) {
        if self.volume.packets > 0 {
            counters.apply(CounterUpdate::Received(self.owner), self.volume);
            counters.held(self.owner, self.held);
        }
        if self.has_passed {
            board.brought(self.number.get());
        }
    }
}

impl Transit {
    /// Lines up with new tables.
    pub(crate) fn align(&mut self, tables: &Tables, slots: &Slots) {
        self.exits.fill(None);
        self.reducers = Arc::clone(tables.exits.reducers());
        self.tag_key = *tables.positions.tag_key();
        self.numbers.clear();
        for (number, _) in tables.exits.links() {
            let Some(slot) = slots.of_port(number.link_id()) else { continue };
            let (owner, _) = slots.owner(slot);
            self.exits[usize::from(number.get())] = Some(Exit::Link { slot, owner, batch: None });
            self.numbers.push((slot, number));
        }
        self.numbers.sort_unstable_by_key(|(slot, _)| slot.index());
        self.has_links = !self.numbers.is_empty();
        for (number, id) in tables.exits.ports() {
            self.exits[usize::from(number.get())] = tables.names.port(id).map(Exit::Port);
        }
        let former = std::mem::take(&mut self.headers);
        for (number, pathlet) in tables.exits.pathlets() {
            let known = former.iter().find(|(known, _)| known == pathlet);
            let header = known
                .cloned()
                .or_else(|| Some((Arc::clone(pathlet), NextHeader::new(number, pathlet)?)));
            let place = u8::try_from(self.headers.len()).ok();
            let Some((header, place)) = header.zip(place) else { continue };
            self.headers.push(header);
            self.exits[usize::from(number.get())] = Some(Exit::Next(place));
        }
    }

    /// These links' frames come by the kernel's program, and no others.
    pub(crate) fn note_steered(&mut self, numbers: impl Iterator<Item = u8>) {
        self.steered.fill(false);
        numbers.for_each(|number| self.steered[usize::from(number)] = true);
    }

    /// Is there any link?
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.has_links
    }

    /// Sends packets that links have brought on their way. What stays is what others brought, and what comes out
    /// here, in its order. Answers by which name the last of those ended that did.
    pub(crate) fn pass_on(
        &mut self,
        input: &mut Vec<Packet>,
        (slots, counters): (&Slots, &mut Counters),
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> Option<DropReason> {
        let has_come = |packet: &Packet| packet.port().is_some_and(|slot| slots.is_link(slot));
        if !input.iter().any(has_come) {
            return None;
        }
        let (mut ended, mut brought): (_, Option<Brought>) = (None, None);
        let mut packets = input.drain(..);
        loop {
            let next = match &mut brought {
                Some(brought) if brought.is_plain() => self.lane(&mut packets, brought, out),
                _ => packets.next().map(|packet| (packet, None)),
            };
            let Some((mut packet, named)) = next else { break };
            let slot = packet.port();
            if slot.is_none() || brought.as_ref().map(|brought| brought.slot) != slot {
                let Some(next) = slot.and_then(|slot| self.brought_by(slot, slots)) else {
                    self.staying.push(packet);
                    continue;
                };
                if let Some(before) = brought.replace(next) {
                    before.count(counters, &self.board);
                    self.close();
                }
            }
            let Some(brought) = &mut brought else { continue };
            let bytes = packet.buffer.len() as u64;
            if brought.is_steered {
                self.note_arrival(brought.number.get(), &packet);
            }
            let named = named.unwrap_or_else(|| match brought.is_known {
                true => step(&mut packet.buffer, &self.reducers),
                false => Err(DropReason::UnknownNeighbour),
            });
            let leaving = named.and_then(|number| self.exit_of(&mut packet.buffer, number));
            if brought.is_steered
                && let Ok(leaving) = leaving
            {
                self.note_kept(leaving, packet.arrived);
            }
            match leaving {
                Ok((_, Exit::Port(port), _)) => {
                    brought.has_passed = true;
                    packet.arrived = Arrived::AtExit(port);
                    self.staying.push(packet);
                    continue;
                }
                // A link is what a header of this node's own leads to.
                Ok((_, Exit::Next(_), _)) => {
                    counters.dropped(brought.owner, None, DropReason::UnknownExit, 1);
                    ended = Some(DropReason::UnknownExit);
                    pool.put(packet.buffer);
                }
                Ok((number, Exit::Link { slot, owner: to, batch }, _)) => {
                    brought.held += 1;
                    brought.has_passed = true;
                    let batch = batch.unwrap_or_else(|| {
                        let (owner, passage) = (brought.owner, Passage::Ordinary);
                        let batch = out.batches.begin(Ends { owner, to, passage });
                        // Others may bring a way round one that is doubted.
                        if self.board.use_of(number) == Use::Sound {
                            self.open(number, batch);
                        }
                        batch
                    });
                    let volume = Volume { packets: 1, bytes: packet.buffer.len() as u64 };
                    out.batches.add(batch, volume);
                    hand_out(packet.buffer, slot, TxRef { batch, volume }, out);
                }
                Err(_) if Hello::is_one(packet.buffer.bytes()) => {
                    ended =
                        self.hear(brought, &packet, (slots, &mut *counters), pool, out).or(ended);
                    pool.put(packet.buffer);
                }
                Err(reason) => {
                    counters.dropped(brought.owner, None, reason, 1);
                    ended = Some(reason);
                    pool.put(packet.buffer);
                }
            }
            brought.volume.add(1, bytes);
        }
        if let Some(last) = brought {
            last.count(counters, &self.board);
            self.close();
        }
        drop(packets);
        std::mem::swap(input, &mut self.staying);
        ended
    }

    /// Sends packets of a link out of those that are open, up to one that is no such packet: that with the number that
    /// it has named, unless another has brought it.
    #[inline]
    fn lane(
        &self,
        packets: &mut Drain<'_, Packet>,
        brought: &mut Brought,
        out: &mut Output,
    ) -> Option<(Packet, Option<Result<u8, DropReason>>)> {
        let (mut sum, mut other) = (Volume::default(), None);
        for mut packet in packets.by_ref() {
            if packet.port() != Some(brought.slot) {
                other = Some((packet, None));
                break;
            }
            let bytes = packet.buffer.len() as u64;
            let named = step(&mut packet.buffer, &self.reducers);
            let exit = named.ok().and_then(|number| self.exits[usize::from(number)]);
            let Some(Exit::Link { slot, batch: Some(batch), .. }) = exit else {
                other = Some((packet, Some(named)));
                break;
            };
            let volume = Volume { packets: 1, bytes: packet.buffer.len() as u64 };
            sum.add(1, bytes);
            out.batches.add(batch, volume);
            hand_out(packet.buffer, slot, TxRef { batch, volume }, out);
        }
        brought.volume.merge(sum);
        brought.held += sum.packets;
        brought.has_passed |= sum.packets > 0;
        other
    }

    /// What a link brings from now on; none: it is none.
    fn brought_by(&self, slot: PortSlot, slots: &Slots) -> Option<Brought> {
        let place = self.numbers.binary_search_by_key(&slot.index(), |(slot, _)| slot.index());
        let (_, number) = *self.numbers.get(place.ok()?)?;
        Some(Brought {
            slot,
            number,
            owner: slots.owner(slot).0,
            is_known: self.board.is_known(number.get()),
            is_steered: self.steered[usize::from(number.get())],
            volume: Volume::default(),
            held: 0,
            has_passed: false,
        })
    }

    /// A frame came up from the kernel.
    fn note_arrival(&mut self, link: u8, packet: &Packet) {
        self.came_up.frames += 1;
        if packet.arrived != (Arrived::FromKernel { is_counted: true }) {
            return;
        }
        let bytes = packet.buffer.bytes();
        let next = source_route::next(bytes, &self.reducers).ok();
        let named = source_route::profile(bytes).zip(next.and_then(Next::port));
        self.came_up.counted.extend(named.map(|(profile, number)| (link, profile, number)));
    }

    /// Why is it the engine's?
    fn note_kept(&mut self, (number, exit, by): Leaving, arrived: Arrived) {
        match exit {
            Exit::Port(_) | Exit::Next(_) => self.came_up.keep(Declined::RouteEnds),
            Exit::Link { .. } if by == By::NextHeader => self.came_up.keep(Declined::RouteEnds),
            Exit::Link { .. } if by == By::Detour || !self.steered[usize::from(number)] => {
                self.came_up.keep(Declined::LinkUnsound);
            }
            Exit::Link { .. } if arrived == Arrived::Plainly => {
                self.came_up.keep(Declined::UnusualRoute);
            }
            Exit::Link { .. } => {}
        }
    }

    /// Where a frame leaves that has named a number.
    fn exit_of(&self, buffer: &mut Buffer, mut number: u8) -> Result<Leaving, DropReason> {
        let mut exit = self.exits[usize::from(number)].ok_or(DropReason::UnknownExit)?;
        let mut by = By::Name;
        if let Exit::Next(place) = exit {
            by = By::NextHeader;
            let (_, next) = self.headers.get(usize::from(place)).ok_or(DropReason::UnknownExit)?;
            number = next.first().get();
            exit = self.exits[usize::from(number)].ok_or(DropReason::UnknownExit)?;
            if !matches!(exit, Exit::Link { .. }) {
                return Err(DropReason::UnknownExit);
            }
            next.put(buffer, &self.tag_key)?;
        }
        match exit {
            // Of one that is open it has been asked.
            Exit::Link { batch: None, .. } if self.board.use_of(number) != Use::Sound => {
                let (taken, exit) = self.go_round(buffer, number)?;
                Ok((taken, exit, By::Detour))
            }
            _ => Ok((number, exit, by)),
        }
    }

    /// By which port a frame leaves whose cable is not sound.
    fn go_round(&self, buffer: &mut Buffer, number: u8) -> Result<(u8, Exit), DropReason> {
        let detour = Detoured::of(buffer.bytes(), &self.tag_key)?;
        let detour = detour.filter(|detour| self.is_sound_link(detour.port));
        let taken = detour.filter(|detour| detour.put(buffer)).map(|detour| detour.port);
        let taken = match taken {
            Some(port) => {
                self.board.detoured(number, 1);
                port
            }
            // Silence alone is no proof, and there is no other way.
            None if self.board.use_of(number) != Use::Dead => number,
            None => return Err(DropReason::LinkDead),
        };
        let exit = self.exits[usize::from(taken)].ok_or(DropReason::UnknownExit)?;
        Ok((taken, exit))
    }

    fn is_sound_link(&self, number: u8) -> bool {
        matches!(self.exits[usize::from(number)], Some(Exit::Link { .. }))
            && self.board.use_of(number) == Use::Sound
    }

    /// Takes in a word of whoever is at the other end; by which name it ends, if nobody whom this node knows has
    /// said it.
    fn hear(
        &self,
        brought: &mut Brought,
        packet: &Packet,
        (slots, counters): (&Slots, &mut Counters),
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> Option<DropReason> {
        let number = brought.number;
        match self.board.hear(number.get(), packet.buffer.bytes()) {
            Ok(answer) => {
                brought.is_known = self.board.is_known(number.get());
                counters
                    .apply(CounterUpdate::Consumed(brought.owner), Volume { packets: 1, bytes: 0 });
                if let Some(answer) = answer {
                    say(number, &answer, (slots, counters), pool, out);
                }
                None
            }
            Err(NotOurs) => {
                counters.dropped(brought.owner, None, DropReason::UnknownNeighbour, 1);
                Some(DropReason::UnknownNeighbour)
            }
        }
    }

    fn open(&mut self, number: u8, made: u32) {
        if let Some(Exit::Link { batch, .. }) = &mut self.exits[usize::from(number)] {
            *batch = Some(made);
            self.opened.push(number);
        }
    }

    /// The batches are another link's, or another output's.
    fn close(&mut self) {
        for number in self.opened.drain(..) {
            if let Some(Exit::Link { batch, .. }) = &mut self.exits[usize::from(number)] {
                *batch = None;
            }
        }
    }

    /// The header that this node writes in the place of that of a frame; none: it writes none.
    pub(crate) fn next_header(&self, frame: &[u8]) -> Option<&Pathlet> {
        let number = source_route::next(frame, &self.reducers).ok()?.port()?;
        match self.exits[usize::from(number)] {
            Some(Exit::Next(place)) => {
                self.headers.get(usize::from(place)).map(|(next, _)| &**next)
            }
            _ => None,
        }
    }

    /// Does the source route of a frame come out at a port of this node?
    pub(crate) fn comes_out(&self, frame: &[u8]) -> bool {
        let next = source_route::next(frame, &self.reducers);
        next.is_ok_and(|next| next.port().is_some_and(|number| self.is_port(number)))
    }

    fn is_port(&self, number: u8) -> bool {
        matches!(self.exits[usize::from(number)], Some(Exit::Port(_)))
    }
}

/// A node's step of one frame: the port number by which it leaves.
#[inline]
fn step(buffer: &mut Buffer, reducers: &[Reducer]) -> Result<u8, DropReason> {
    // Whoever begins a route cuts super-frames: no kernel segments what is behind one.
    if buffer.offload.segmentation.is_some() {
        return Err(DropReason::UnsupportedOffload);
    }
    match source_route::advance(buffer.bytes_mut(), reducers) {
        Ok(Next::Port(number)) => Ok(number),
        Ok(Next::Pop(number)) if trim_front(buffer, sr_mpls::PORT_BYTES) => Ok(number),
        Ok(Next::Pop(_)) => Err(DropReason::MalformedSourceRoute),
        Ok(Next::End) => Err(DropReason::RouteEnded),
        Err(error) => Err(drop_reason(error)),
    }
}

/// The name under which a frame ends whose header does not allow the step.
fn drop_reason(error: SourceRouteError) -> DropReason {
    match error {
        SourceRouteError::NoProfile => DropReason::NoSourceRoute,
        SourceRouteError::TtlExpired => DropReason::TtlExpired,
        SourceRouteError::Residue(_) => DropReason::UnknownExit,
        _ => DropReason::MalformedSourceRoute,
    }
}

/// Sends a word into a cable. One that finds no buffer is not said.
pub(crate) fn say(
    number: PortNumber,
    word: &[u8],
    (slots, counters): (&Slots, &mut Counters),
    pool: &mut BufferPool,
    out: &mut Output,
) {
    let Some(slot) = slots.of_port(number.link_id()) else { return };
    let Some(mut buffer) = pool.take() else { return };
    if !buffer.fill(word) {
        return pool.put(buffer);
    }
    let (owner, _) = slots.owner(slot);
    let volume = Volume { packets: 1, bytes: word.len() as u64 };
    counters.apply(CounterUpdate::Created(owner, Created::Hello), volume);
    counters.held(owner, 1);
    let ends = Ends { owner, to: owner, passage: Passage::Ordinary };
    let share = out.batches.enter(TxCredit { ends, volume });
    hand_out(buffer, slot, share, out);
}
