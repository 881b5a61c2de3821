//! Probes of chains (`catena chain check`): real packets on the real path, told of at every node
//! and taken out where they would leave the path for somebody who did not ask for them. Knows which
//! checks are on; refuses to judge what a probe met.
//!
//! While none is on, a vector costs one branch. While one is, its packets are looked through for
//! marks, and each probe passes the stages alone, with somebody listening. A check stays on for a
//! while after its end, for probes that a function kept.

use super::explain;
use super::output::Output;
use super::packet::Packet;
use super::trace::Trace;
use super::transform::{Stage, Verdict};
use super::vector::{Step, Work};
use super::{Engine, Passing};
use catena_io::BufferPool;
use catena_model::check::{CheckQuestion, Sighting};
use catena_model::explain::ExplainAction;
use catena_wire::probe::ProbeMark;

/// Checks at one time.
const CHECKS_MAX: usize = 8;
/// How long a check lives without being asked for, in nanoseconds.
const IDLE_NS: u64 = 5_000_000_000;
/// Most sightings that are kept: a probe that goes round must not fill the memory.
const SIGHTINGS_MAX: usize = 4_096;
/// Where a mark may stand: behind the longest headers of ours and the packet's own.
const MARK_WITHIN_BYTES: usize = 256;

/// A check that is on.
struct Armed {
    seal: u64,
    asked_ns: u64,
    sightings: Vec<Sighting>,
}

/// All checks of an engine.
#[derive(Default)]
pub(super) struct Checks(Vec<Armed>);

impl Checks {
    /// Arms a check, or keeps it armed.
    ///
    /// # Errors
    /// Too many others are on; for people.
    pub(super) fn arm(&mut self, seal: u64, now_ns: u64) -> Result<(), String> {
        self.forget_idle(now_ns);
        if let Some(armed) = self.of(seal) {
            armed.asked_ns = now_ns;
        } else if self.0.len() < CHECKS_MAX {
            self.0.push(Armed { seal, asked_ns: now_ns, sightings: Vec::new() });
        } else {
            return Err(format!("{CHECKS_MAX} chains are being checked at this node; try again"));
        }
        Ok(())
    }

    /// What was seen since the check was armed.
    ///
    /// # Errors
    /// It is not on any more; for people.
    pub(super) fn sightings(&mut self, seal: u64, now_ns: u64) -> Result<Vec<Sighting>, String> {
        self.forget_idle(now_ns);
        let armed = self.of(seal).ok_or("the check is over at this node")?;
        armed.asked_ns = now_ns;
        Ok(armed.sightings.clone())
    }

    fn forget_idle(&mut self, now_ns: u64) {
        self.0.retain(|armed| now_ns.saturating_sub(armed.asked_ns) <= IDLE_NS);
    }

    fn of(&mut self, seal: u64) -> Option<&mut Armed> {
        self.0.iter_mut().find(|armed| armed.seal == seal)
    }

    /// Nobody need ask for a check's end.
    #[inline]
    pub(super) fn are_on(&mut self, now_ns: u64) -> bool {
        if self.0.is_empty() {
            return false;
        }
        self.forget_idle(now_ns);
        !self.0.is_empty()
    }

    /// The mark of a packet, if it is a probe of one of these checks.
    pub(super) fn probe(&self, packet: &Packet) -> Option<ProbeMark> {
        let bytes = packet.buffer.bytes();
        let mark = ProbeMark::scan(bytes.get(..MARK_WITHIN_BYTES).unwrap_or(bytes))?;
        self.0.iter().any(|armed| armed.seal == mark.seal).then_some(mark)
    }

    pub(super) fn saw(&mut self, mark: ProbeMark, actions: impl Iterator<Item = ExplainAction>) {
        let probe = mark.number;
        if let Some(armed) = self.of(mark.seal) {
            let room = SIGHTINGS_MAX.saturating_sub(armed.sightings.len());
            armed.sightings.extend(actions.take(room).map(|action| Sighting { probe, action }));
        }
    }
}

/// Ends a probe that would leave its path, or never entered one.
pub(super) fn consume(vector: &mut [Work]) {
    for work in vector {
        let is_leaving = match work.step {
            Step::Decided(Verdict::Forward(transform)) => transform.stage == Stage::Ordinary,
            Step::Decided(Verdict::Replicate { .. }) => true,
            _ => false,
        };
        if is_leaving {
            work.step = Step::Decided(Verdict::Consume);
        }
    }
}

impl Engine {
    /// Takes a probe through the stages, and tells what became of it.
    pub(super) fn forward_probe(
        &mut self,
        now_ns: u64,
        probe: ProbeMark,
        packet: Packet,
        is_injected: bool,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let mut notes = Vec::new();
        let passing = Passing {
            trace: Trace::listening(&mut notes),
            is_probe: true,
            is_injected,
            ..Passing::default()
        };
        self.forward_vector(now_ns, std::iter::once(packet), pool, out, passing);
        // Copies are for taps, which say nothing of the path.
        notes.retain(|noted| noted.copy == 0);
        self.checks.saw(probe, explain::actions(&self.tables, &notes).into_iter());
    }

    /// Arms a check of a chain, sends its probes into a port, follows real packets, or answers what
    /// was seen of one or the other.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn check(
        &mut self,
        question: &CheckQuestion,
        now_ns: u64,
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> Result<Vec<Sighting>, String> {
        match question {
            CheckQuestion::Arm { seal } => {
                self.checks.arm(*seal, now_ns)?;
                self.listen_to_kernel_path();
                Ok(Vec::new())
            }
            CheckQuestion::Sightings { seal } => self.checks.sightings(*seal, now_ns),
            CheckQuestion::Follow { seal, filter, digest } => {
                self.listen_to_kernel_path();
                self.follows.ask(*seal, filter, *digest, now_ns)
            }
            CheckQuestion::Inject { seal, port, frames } => {
                self.checks.sightings(*seal, now_ns)?;
                let slot = self.slots.of_port(*port);
                let slot = slot.ok_or("the port is not in the program of this node")?;
                for frame in frames {
                    let mut buffer = pool.take().ok_or("no packet buffer is free")?;
                    if !buffer.fill(&frame.0) {
                        pool.put(buffer);
                        return Err("a probe fits no buffer".into());
                    }
                    let packet = Packet::from_port(slot, buffer);
                    let probe = self.checks.probe(&packet).filter(|mark| mark.seal == *seal);
                    let Some(probe) = probe else {
                        pool.put(packet.buffer);
                        return Err("only probes of the check can be sent".into());
                    };
                    self.forward_probe(now_ns, probe, packet, true, pool, out);
                }
                Ok(Vec::new())
            }
        }
    }
}
