//! What tells the words of this agent from those of the one before it: when it was started. The only thing here that
//! knows the time of day.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// By how much a clock has been set forward before it counts.
const JUMP: Duration = Duration::from_secs(10);

/// When this agent was started, by the clock of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boot {
    started: Instant,
    /// Nanoseconds since 1970.
    told: u64,
}

impl Boot {
    /// Now. Under a clock that is behind where it was, the words of this agent look replayed: until it is set right,
    /// or those who remember are started anew.
    pub(super) fn now() -> Self {
        Self { started: Instant::now(), told: nanoseconds(SystemTime::now()) }
    }

    /// As it is told.
    pub(super) fn told(self) -> u64 {
        self.told
    }

    /// Follows a clock that has been set forward since; has it?
    pub(super) fn follows(&mut self) -> bool {
        self.follows_to(nanoseconds(SystemTime::now()), self.started.elapsed())
    }

    fn follows_to(&mut self, now: u64, passed: Duration) -> bool {
        let length = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let started = now.saturating_sub(length(passed));
        let has_jumped = started.saturating_sub(self.told) >= length(JUMP);
        if has_jumped {
            self.told = started;
        }
        has_jumped
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_right_later_makes_the_agent_begin_then() {
        const SECOND: u64 = 1_000_000_000;
        let mut boot = Boot { started: Instant::now(), told: 5 * SECOND };
        let hour = Duration::from_secs(3_600);
        assert!(!boot.follows_to(3_605 * SECOND, hour), "nothing but time has passed");
        assert!(!boot.follows_to(3_612 * SECOND, hour), "it goes a little wrong");
        assert!(!boot.follows_to(7 * SECOND, hour), "nobody goes back");
        assert_eq!(boot.told(), 5 * SECOND);
        assert!(boot.follows_to(1_000_000 * SECOND, hour));
        assert_eq!(boot.told(), 996_400 * SECOND);
    }
}
