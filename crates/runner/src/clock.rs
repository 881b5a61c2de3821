//! What time it is for a function. Knows when its time starts in seconds since 1970.

use catena_nf::packet::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that never goes back. Its time starts with a whole second of the real clock, as that stood when it
/// was made: setting the real clock later changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// What of the second was over at the start.
    over: Duration,
    epoch_seconds: u64,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        // Whoever has a clock of before 1970 has times of then.
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let over = Duration::from_nanos(real.subsec_nanos().into());
        Self { start: Instant::now(), over, epoch_seconds: real.as_secs() }
    }

    /// When its time starts, in seconds since 1970.
    #[must_use]
    pub const fn epoch_seconds(&self) -> u64 {
        self.epoch_seconds
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Time {
        let passed = (self.start.elapsed() + self.over).as_nanos();
        Time(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_time_is_the_real_one_and_goes_on() {
        let clock = Clock::start();
        let first = clock.now();
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let told = Duration::from_secs(clock.epoch_seconds()) + Duration::from_nanos(first.0);
        assert!(real.abs_diff(told) < Duration::from_secs(1), "{told:?} is not {real:?}");
        assert!(clock.now() >= first);
    }
}
