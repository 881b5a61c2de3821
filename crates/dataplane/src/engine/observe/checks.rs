//! Probes of chains (`catena chain check`): real packets on the real path, told of at every node
//! and taken out where they would leave the path for somebody who did not ask for them. Knows which
//! checks are on; refuses to judge what a probe met.
//!
//! While none is on, a vector costs one branch. While one is, its packets are looked through for
//! marks, and each probe passes the stages alone, with somebody listening. A check stays on for a
//! while after its end, for probes that a function kept.

use crate::engine::packet::Packet;
use catena_model::check::{ClockTime, Sighting};
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
#[derive(Debug)]
struct Armed {
    seal: u64,
    asked_ns: u64,
    sightings: Vec<Sighting>,
}

/// All checks of an engine.
#[derive(Debug, Default)]
pub(crate) struct Checks(Vec<Armed>);

impl Checks {
    /// Arms a check, or keeps it armed.
    ///
    /// # Errors
    /// Too many others are on; for people.
    pub(crate) fn arm(&mut self, seal: u64, now_ns: u64) -> Result<(), String> {
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
    pub(crate) fn sightings(&mut self, seal: u64, now_ns: u64) -> Result<Vec<Sighting>, String> {
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
    pub(crate) fn are_on(&mut self, now_ns: u64) -> bool {
        if self.0.is_empty() {
            return false;
        }
        self.forget_idle(now_ns);
        !self.0.is_empty()
    }

    /// The mark of a packet, if it is a probe of one of these checks.
    pub(crate) fn probe(&self, packet: &Packet) -> Option<ProbeMark> {
        let bytes = packet.buffer.bytes();
        let mark = ProbeMark::scan(bytes.get(..MARK_WITHIN_BYTES).unwrap_or(bytes))?;
        self.0.iter().any(|armed| armed.seal == mark.seal).then_some(mark)
    }

    pub(crate) fn saw(
        &mut self,
        mark: ProbeMark,
        at: Option<ClockTime>,
        actions: impl Iterator<Item = ExplainAction>,
    ) {
        let probe = mark.number;
        if let Some(armed) = self.of(mark.seal) {
            let room = SIGHTINGS_MAX.saturating_sub(armed.sightings.len());
            let sightings = actions.take(room).map(|action| Sighting { probe, at, action });
            armed.sightings.extend(sightings);
        }
    }
}
