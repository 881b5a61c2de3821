//! How busy a link is, by the counters of its interface. Pure: time is an argument.

use catena_kernel::netlink::LinkStatistics;
use std::time::{Duration, Instant};

/// Over how long the load is measured.
pub(crate) const LOAD_INTERVAL: Duration = Duration::from_secs(5);

/// What was counted when it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct LoadMeter {
    counted: Option<(Instant, LinkStatistics)>,
    /// Thousandths of the speed, in the busier direction.
    permille: Option<u16>,
}

impl LoadMeter {
    /// Takes what is counted now, at an interface of this speed; none: it is not known, and so is the load.
    pub(crate) fn take(&mut self, counted: LinkStatistics, mbits: Option<u32>, now: Instant) {
        let Some((at, before)) = self.counted else {
            self.counted = Some((now, counted));
            return;
        };
        let passed = now.saturating_duration_since(at);
        if passed < LOAD_INTERVAL {
            return;
        }
        // An interface that was made anew counts from nothing.
        let received = counted.rx_bytes.saturating_sub(before.rx_bytes);
        let sent = counted.tx_bytes.saturating_sub(before.tx_bytes);
        self.permille = mbits.and_then(|mbits| permille(received.max(sent), mbits, passed));
        self.counted = Some((now, counted));
    }

    pub(crate) fn permille(&self) -> Option<u16> {
        self.permille
    }
}

fn permille(bytes: u64, mbits: u32, passed: Duration) -> Option<u16> {
    // Bits, a thousand times, by those that a link of this speed carries in so many microseconds.
    let could = u128::from(mbits) * passed.as_micros();
    let load = (u128::from(bytes) * 8_000).checked_div(could)?;
    Some(u16::try_from(load).unwrap_or(u16::MAX).min(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_that_of_the_busier_direction_and_unknown_without_a_speed() {
        let (start, mut meter) = (Instant::now(), LoadMeter::default());
        let counted =
            |rx_bytes, tx_bytes| LinkStatistics { rx_bytes, tx_bytes, ..Default::default() };
        meter.take(counted(1_000, 0), Some(1_000), start);
        assert_eq!(meter.permille(), None);
        // A quarter of a gigabit per second, over five seconds.
        let after = start + LOAD_INTERVAL;
        meter.take(counted(2_000, 156_250_000), Some(1_000), after);
        assert_eq!(meter.permille(), Some(250));
        meter.take(counted(2_000, u64::MAX), Some(1_000), after + Duration::from_secs(1));
        assert_eq!(meter.permille(), Some(250), "too early");
        meter.take(counted(0, 0), Some(1_000), after + LOAD_INTERVAL);
        assert_eq!(meter.permille(), Some(0), "made anew");
        meter.take(counted(u64::MAX, 0), Some(1_000), after + 2 * LOAD_INTERVAL);
        assert_eq!(meter.permille(), Some(1_000), "no more than all");
        meter.take(counted(0, 0), None, after + 3 * LOAD_INTERVAL);
        assert_eq!(meter.permille(), None);
    }
}
