//! Probes of chains (`catena chain check`): real packets on the real path, told of at every node
//! and taken out where they would leave the path for somebody who did not ask for them. Knows which
//! check is on; refuses to judge what a probe met.
//!
//! While none is on, a vector costs one branch. While one is, its packets are looked through for
//! marks, and each probe passes the stages alone, with somebody listening.

use super::packet::Packet;
use super::transform::{Stage, Verdict};
use super::vector::{Step, Work};
use catena_model::check::Sighting;
use catena_model::explain::ExplainAction;
use catena_wire::probe::ProbeMark;

/// How long a check lives without being asked for, in nanoseconds.
const IDLE_NS: u64 = 5_000_000_000;
/// Most sightings that are kept: a probe that goes round must not fill the memory.
const SIGHTINGS_MAX: usize = 4_096;
/// Where a mark may stand: behind the longest headers of ours and the packet's own.
const MARK_WITHIN_BYTES: usize = 256;

/// The check that is on.
struct Armed {
    seal: u64,
    asked_ns: u64,
    sightings: Vec<Sighting>,
}

/// At most one check at a time.
#[derive(Default)]
pub(super) struct Checks(Option<Armed>);

impl Checks {
    /// Arms a check, or keeps it armed.
    ///
    /// # Errors
    /// Another one is on; for people.
    pub(super) fn arm(&mut self, seal: u64, now_ns: u64) -> Result<(), String> {
        self.forget_idle(now_ns);
        if self.0.as_ref().is_some_and(|armed| armed.seal != seal) {
            return Err("another chain is being checked at this node; try again".into());
        }
        let sightings = Vec::new();
        self.0.get_or_insert(Armed { seal, asked_ns: now_ns, sightings }).asked_ns = now_ns;
        Ok(())
    }

    /// What was seen since the check was armed.
    ///
    /// # Errors
    /// It is not on any more; for people.
    pub(super) fn sightings(&mut self, seal: u64, now_ns: u64) -> Result<Vec<Sighting>, String> {
        self.forget_idle(now_ns);
        let armed = self.0.as_mut().filter(|armed| armed.seal == seal);
        let armed = armed.ok_or("the check is over at this node")?;
        armed.asked_ns = now_ns;
        Ok(armed.sightings.clone())
    }

    fn forget_idle(&mut self, now_ns: u64) {
        self.0.take_if(|armed| now_ns.saturating_sub(armed.asked_ns) > IDLE_NS);
    }

    #[inline]
    pub(super) fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// Number of the probe that a packet is, if it is one of this check.
    pub(super) fn probe(&self, packet: &Packet) -> Option<u64> {
        let bytes = packet.buffer.bytes();
        let mark = ProbeMark::scan(bytes.get(..MARK_WITHIN_BYTES).unwrap_or(bytes))?;
        self.0.as_ref().is_some_and(|armed| armed.seal == mark.seal).then_some(mark.number)
    }

    pub(super) fn saw(&mut self, probe: u64, actions: impl Iterator<Item = ExplainAction>) {
        if let Some(armed) = &mut self.0 {
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
