//! When a function that has died begins anew: at once, and later where it dies again soon, so that whoever sends what
//! it dies of does not keep the worker busy with beginning. Knows moments; refuses to know why it died.

use catena_nf::packet::Time;

/// The first pause, in nanoseconds; each is twice as long as the one before.
const PAUSE_NS: u64 = 10_000_000;
/// The longest one.
const PAUSE_NS_MAX: u64 = 1_000_000_000;
/// Who has lived so long is as one who has never died.
const CALM_NS: u64 = 10_000_000_000;

/// The deaths of a function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    pub(crate) deaths: u64,
    died: Time,
    pause_ns: u64,
}

impl Life {
    /// It has died.
    pub(crate) fn end(&mut self, now: Time) {
        self.pause_ns = match self.deaths {
            0 => 0,
            _ if now.since(self.died) > CALM_NS => 0,
            _ => (self.pause_ns * 2).clamp(PAUSE_NS, PAUSE_NS_MAX),
        };
        self.deaths += 1;
        self.died = now;
    }

    /// Has each of its last deaths come soon after the one before, so that what it remembers may be what it dies of?
    pub(crate) const fn dies_again_and_again(&self) -> bool {
        self.pause_ns >= 4 * PAUSE_NS
    }

    /// It goes on with what another value of its instance knows, which may have died more often.
    pub(crate) fn follow(&mut self, other: Self) {
        if other.deaths >= self.deaths {
            *self = other;
        }
    }

    /// May it begin anew?
    pub(crate) const fn may_begin(&self, now: Time) -> bool {
        now.since(self.died) >= self.pause_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dies_again_soon_begins_later_each_time_and_who_has_lived_at_once() {
        let mut life = Life::default();
        let mut now = Time::seconds(5);
        let (mut pauses, mut again) = (Vec::new(), 0);
        for _ in 0..10 {
            life.end(now);
            again += u32::from(life.dies_again_and_again());
            let pause = (0..2_000).find(|ms| life.may_begin(Time(now.0 + ms * 1_000_000))).unwrap();
            pauses.push(pause);
            now = Time(now.0 + pause * 1_000_000);
        }
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        assert_eq!(again, 7, "of ten deaths, the first three may be of anything");
        now = Time(now.0 + CALM_NS + 1);
        life.end(now);
        assert!(life.may_begin(now) && !life.dies_again_and_again());
        assert_eq!(life.deaths, 11);
    }
}
