//! A bump in the wire: what comes in at one port goes through a function and out at the other.
//!
//! Knows how outcomes are carried out and where each packet is counted. Refuses to wait, and to read a
//! clock.

#[cfg(test)]
mod tests;

use crate::account::{Account, Sides, Tally};
use crate::error::RunError;
use crate::lines::Lines;
use crate::taken::Taken;
use catena_io::{Buffer, BufferPool, Port, Received};
use catena_model::DropReason;
use catena_nf::bucket::{Bucket, ICMP_ERRORS};
use catena_nf::function::Waiting;
use catena_nf::outcome::{GeneratedKind, HandedOutKind, Outcomes, Verdict};
use catena_nf::packet::{Direction, Metadata, Time};
use catena_nf::{Function, carry_out, check};
use catena_rules::Side;
use catena_wire::segment::SuperFrame;
use std::net::UdpSocket;

/// Frames that a function is asked about at once, at most.
pub const BATCH_FRAMES_MAX: usize = 256;
/// Frames that are taken at once where each may be cut into dozens: what a batch has too many keeps the other
/// port waiting, whose ring fills.
const CUT_FRAMES_MAX: usize = 4;
/// What a batch came in, what it was cut into, and as many again that the function makes.
const POOL_BUFFERS: usize = 4 * BATCH_FRAMES_MAX;
/// The kernel's word for a frame that is longer than its interface takes (errno(3)).
const EMSGSIZE: i32 = 90;

/// What one turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames that came.
    pub frames: u32,
    /// What the kernel has noted of each side, the incoming first (`errno`).
    pub errors: [Option<i32>; 2],
}

/// A function between two ports.
pub struct Bump<P, F: ?Sized = dyn Function> {
    function: Box<F>,
    ports: [P; 2],
    /// Where messages go that fit datagrams.
    collector: Option<UdpSocket>,
    /// Where those go that are lines.
    lines: Option<Lines>,
    /// ICMP errors that may still be made.
    errors: Bucket,
    pool: BufferPool,
    tally: Tally,
    /// Is each packet to be as on the wire?
    cuts: bool,
    /// Is its checksum to be finished, if it is no super-frame?
    closes: bool,
    incoming: Vec<Buffer>,
    batch: Vec<Taken>,
    /// Places in the batch of those that the function is asked about.
    asked: Vec<usize>,
    leaving: [Vec<Buffer>; 2],
    /// Wire packets of what leaves.
    stands_for: Vec<u32>,
    outcomes: Outcomes,
}

const fn index(side: Side) -> usize {
    match side {
        Side::In => 0,
        Side::Out => 1,
    }
}

/// Which way what comes in at a side goes.
const fn direction_from(side: Side) -> Direction {
    match side {
        Side::In => Direction::Forward,
        Side::Out => Direction::Backward,
    }
}

/// Where what goes this way leaves.
const fn exit(direction: Direction) -> Side {
    match direction {
        Direction::Forward => Side::Out,
        Direction::Backward => Side::In,
    }
}

impl<P: Port, F: Function + ?Sized> Bump<P, F> {
    /// A function between the port where its forward direction comes in and the one where it goes out.
    pub fn new(function: Box<F>, ports: [P; 2]) -> Self {
        let cuts = function.profile().wants_wire_packets();
        let closes = function.profile().wants_checksums();
        Self {
            function,
            ports,
            collector: None,
            lines: None,
            errors: Bucket::new(&ICMP_ERRORS),
            pool: BufferPool::new(POOL_BUFFERS),
            tally: Tally::default(),
            cuts,
            closes,
            incoming: Vec::with_capacity(BATCH_FRAMES_MAX),
            batch: Vec::with_capacity(BATCH_FRAMES_MAX),
            asked: Vec::with_capacity(BATCH_FRAMES_MAX),
            leaving: [Vec::new(), Vec::new()],
            stands_for: Vec::new(),
            outcomes: Outcomes::default(),
        }
    }

    /// With a collector, to which the function's messages go, one a datagram, by a socket that is connected
    /// to it; without one they are counted and go nowhere.
    ///
    /// # Errors
    /// The kernel's refusal not to let it wait.
    pub fn with_collector(mut self, socket: UdpSocket) -> Result<Self, RunError> {
        socket.set_nonblocking(true).map_err(RunError::Collector)?;
        self.collector = Some(socket);
        Ok(self)
    }

    /// With lines, which the function's alerts become; without them they are counted and go nowhere.
    #[must_use]
    pub fn with_lines(mut self, lines: Lines) -> Self {
        self.lines = Some(lines);
        self
    }

    /// Takes no more lines, and waits for a moment until those that came are written.
    pub fn close_lines(&mut self) {
        self.lines.iter_mut().for_each(Lines::close);
    }

    /// The function.
    pub fn function(&self) -> &F {
        &self.function
    }

    /// Lets the function say what it has left to say, by a way of its own, and carries it out.
    ///
    /// # Errors
    /// When the function breaks its profile.
    pub fn conclude(
        &mut self,
        now: Time,
        say: impl FnOnce(&mut F, &mut Outcomes),
    ) -> Result<(), RunError> {
        self.outcomes.begin(0);
        say(&mut self.function, &mut self.outcomes);
        self.carry_out_of_time(now)
    }

    /// The ports, the incoming first.
    pub const fn ports(&self) -> &[P; 2] {
        &self.ports
    }

    /// Takes a batch from each port and carries out what the function says.
    ///
    /// # Errors
    /// When the function breaks its profile.
    pub fn turn(&mut self, now: Time) -> Result<Turn, RunError> {
        let mut turn = Turn::default();
        for side in [Side::In, Side::Out] {
            let received = self.receive(side, now)?;
            turn.frames += received.frames + received.truncated + received.unsupported_offload;
            turn.errors[index(side)] = received.socket_error;
        }
        Ok(turn)
    }

    /// The packets that wait in the function.
    pub fn waiting(&self) -> Waiting {
        self.function.waiting()
    }

    /// Lets the function's time pass.
    ///
    /// # Errors
    /// When the function breaks its profile.
    pub fn elapse(&mut self, now: Time) -> Result<(), RunError> {
        self.function.elapse(now, &mut self.outcomes);
        self.carry_out_of_time(now)?;
        self.function.inquire(now, &mut self.outcomes);
        self.carry_out_of_time(now)
    }

    /// Carries out what came of no packet.
    fn carry_out_of_time(&mut self, now: Time) -> Result<(), RunError> {
        self.check(0)?;
        self.hand_out();
        self.generate(now);
        self.transmit(Side::In);
        self.transmit(Side::Out);
        Ok(())
    }

    /// How everything stands.
    pub fn account(&mut self) -> Account {
        let [at_in, at_out] = self.ports.each_mut().map(Port::lost);
        self.tally.account(&*self.function, Sides { at_in, at_out })
    }

    /// Takes a batch, which super-frames that are cut may exceed by their parts.
    fn receive(&mut self, side: Side, now: Time) -> Result<Received, RunError> {
        let before = self.tally.received.total();
        let max = if self.cuts { CUT_FRAMES_MAX } else { BATCH_FRAMES_MAX };
        let mut all = Received::default();
        loop {
            let received = self.receive_some(side, max, now)?;
            all.frames += received.frames;
            all.truncated += received.truncated;
            all.unsupported_offload += received.unsupported_offload;
            all.socket_error = all.socket_error.or(received.socket_error);
            let packets = self.tally.received.total() - before;
            if (received.frames as usize) < max || packets >= BATCH_FRAMES_MAX as u64 {
                break;
            }
        }
        self.flush(side, now)?;
        Ok(all)
    }

    fn receive_some(&mut self, side: Side, max: usize, now: Time) -> Result<Received, RunError> {
        let mut incoming = std::mem::take(&mut self.incoming);
        let port = &mut self.ports[index(side)];
        let received = port.receive(&mut self.pool, &mut incoming, max);
        for (frames, reason) in [
            (received.truncated, DropReason::TruncatedByRing),
            (received.unsupported_offload, DropReason::UnsupportedOffload),
        ] {
            self.tally.received.add(side, frames.into());
            self.tally.end(reason, frames.into());
        }
        for buffer in incoming.drain(..) {
            self.take(buffer, side, now)?;
        }
        self.incoming = incoming;
        Ok(received)
    }

    /// Takes one frame into the batch.
    fn take(&mut self, buffer: Buffer, side: Side, now: Time) -> Result<(), RunError> {
        match Taken::read(buffer) {
            Err((buffer, reason)) => {
                let packets = buffer.offload.wire_packets(buffer.len());
                self.tally.received.add(side, packets.into());
                self.end(buffer, reason, packets);
                Ok(())
            }
            Ok(mut taken) => {
                self.tally.received.add(side, taken.packets.into());
                match taken.planned.filter(|_| self.cuts) {
                    Some(planned) => self.cut(taken.buffer, &planned, side, now),
                    None if self.closes && taken.is_single() && taken.is_packet() => {
                        match taken.close() {
                            Ok(()) => self.push(taken, side, now),
                            Err(reason) => {
                                self.end(taken.buffer, reason, 1);
                                Ok(())
                            }
                        }
                    }
                    None => self.push(taken, side, now),
                }
            }
        }
    }

    /// Takes the wire packets of a super-frame into the batch.
    fn cut(
        &mut self,
        whole: Buffer,
        planned: &SuperFrame,
        side: Side,
        now: Time,
    ) -> Result<(), RunError> {
        for number in 0..planned.count() {
            let Some(mut part) = self.pool.take() else {
                self.tally.end(DropReason::BuffersExhausted, 1);
                continue;
            };
            let written = planned.write_segment(whole.bytes(), number, part.spare_mut());
            if written == 0 || !part.set_len(written) {
                self.end(part, DropReason::UnsupportedOffload, 1);
                continue;
            }
            match Taken::read(part) {
                Ok(taken) => self.push(taken, side, now)?,
                Err((part, reason)) => self.end(part, reason, 1),
            }
        }
        self.pool.put(whole);
        Ok(())
    }

    fn push(&mut self, taken: Taken, side: Side, now: Time) -> Result<(), RunError> {
        self.batch.push(taken);
        if self.batch.len() < BATCH_FRAMES_MAX { Ok(()) } else { self.flush(side, now) }
    }

    fn end(&mut self, buffer: Buffer, reason: DropReason, packets: u32) {
        self.tally.end(reason, packets.into());
        self.pool.put(buffer);
    }

    /// Asks the function about the batch and does what it says.
    fn flush(&mut self, side: Side, now: Time) -> Result<(), RunError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let direction = direction_from(side);
        self.asked.clear();
        let packets = self.batch.iter().enumerate().filter(|(_, taken)| taken.is_packet());
        self.asked.extend(packets.map(|(at, _)| at));
        let packets: Vec<_> = self.asked.iter().map(|at| self.batch[*at].packet()).collect();
        self.function.process(now, direction, &packets, &mut self.outcomes);
        self.check(self.asked.len())?;
        self.change()?;
        self.hand_out();
        self.generate(now);
        self.forward(exit(direction));
        self.transmit(Side::In);
        self.transmit(Side::Out);
        Ok(())
    }

    fn check(&mut self, asked: usize) -> Result<(), RunError> {
        let profile = self.function.profile();
        check::outcomes(profile, asked, &self.outcomes).map_err(RunError::Fault)?;
        self.tally.events += self.outcomes.events().len() as u64;
        Ok(())
    }

    /// Changes packets that go on: what a packet ends with needs no change.
    fn change(&mut self) -> Result<(), RunError> {
        let outcomes = &self.outcomes;
        let goes_on = |at: u32| outcomes.verdicts().get(at as usize) == Some(&Verdict::Pass);
        for (at, patch) in outcomes.patches().iter().filter(|(at, _)| goes_on(*at)) {
            let Some(place) = self.asked.get(*at as usize) else { continue };
            let (frame, view, upper) = self.batch[*place].parts_mut();
            // No tunnel leads here, so nobody asks for what one would say.
            let mut metadata = Metadata::default();
            carry_out::apply([patch], (frame, view), upper, &mut metadata)
                .map_err(RunError::Patch)?;
        }
        for (at, place) in outcomes.replaced().iter().filter(|(at, _)| goes_on(*at)) {
            let Some(of) = self.asked.get(*at as usize) else { continue };
            let is_single = self.batch[*of].is_single();
            if !is_single || !self.batch[*of].buffer.fill(outcomes.bytes(place.clone())) {
                return Err(RunError::Fault(check::Fault::Replaced));
            }
        }
        Ok(())
    }

    /// Sends what the function has handed out to where it goes, without waiting.
    fn hand_out(&mut self) {
        for (_, message) in self.outcomes.handed_out() {
            self.tally.messages.handed_out += 1;
            let bytes = self.outcomes.bytes(message.message.clone());
            let is_sent = match message.kind {
                // That nobody listens is the word on a message of before, and this one has not left, either.
                HandedOutKind::Ipfix => self.collector.as_ref().map(|to| to.send(bytes).is_ok()),
                HandedOutKind::Eve => self.lines.as_ref().map(|to| to.take(bytes)),
            };
            match is_sent {
                Some(true) => self.tally.messages.sent += 1,
                Some(false) => self.tally.messages.refused += 1,
                None => {}
            }
        }
    }

    /// Sends what the function has made on its way: errors as many as there may be, however many packets of
    /// whoever ask for one.
    fn generate(&mut self, now: Time) {
        for (_, made) in self.outcomes.generated() {
            if made.kind.is_icmp_error() && !self.errors.take(&ICMP_ERRORS, now) {
                self.tally.errors_withheld += 1;
                continue;
            }
            match made.kind {
                GeneratedKind::Released => self.tally.held.released += 1,
                kind => self.tally.create(kind),
            }
            let Some(mut buffer) = self.pool.take() else {
                self.tally.end(DropReason::BuffersExhausted, 1);
                continue;
            };
            if buffer.fill(self.outcomes.bytes(made.frame.clone())) {
                self.leaving[index(exit(made.direction))].push(buffer);
            } else {
                self.tally.end(DropReason::TransmitFailed, 1);
                self.pool.put(buffer);
            }
        }
    }

    /// Sends what goes on on its way, and ends the rest.
    fn forward(&mut self, exit: Side) {
        let mut verdicts = self.outcomes.verdicts().iter();
        for taken in self.batch.drain(..) {
            let asked = if taken.is_packet() { verdicts.next() } else { None };
            match asked {
                Some(Verdict::Drop(cause)) => {
                    self.tally.end_by(*cause, taken.packets.into());
                    self.pool.put(taken.buffer);
                }
                Some(Verdict::Hold) => {
                    self.tally.held.held += u64::from(taken.packets);
                    self.pool.put(taken.buffer);
                }
                Some(Verdict::Pass) | None => self.leaving[index(exit)].push(taken.buffer),
            }
        }
    }

    fn transmit(&mut self, side: Side) {
        let leaving = &mut self.leaving[index(side)];
        if leaving.is_empty() {
            return;
        }
        self.stands_for.clear();
        self.stands_for.extend(leaving.iter().map(|frame| frame.offload.wire_packets(frame.len())));
        let port = &mut self.ports[index(side)];
        let transmitted = port.transmit(leaving, &mut self.pool);
        self.tally.sent.add(side, transmitted.sent_segments.into());
        for refused in port.refused() {
            let packets = self.stands_for.get(refused.index).copied().unwrap_or_default();
            let is_long = refused.errno == EMSGSIZE;
            let reason = if is_long { DropReason::MtuExceeded } else { DropReason::TransmitFailed };
            self.tally.end(reason, packets.into());
        }
    }
}
