//! Waiting for what must come, with a bound far beyond any sane duration; and chance that can be
//! repeated.

use std::time::{Duration, Instant};

/// Nothing here takes this long unless it never comes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Between two looks.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `look` answers something; what is awaited is named in the failure, beside what
/// `look` said last.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(reason) if start.elapsed() > LIMIT => panic!("{what} did not come: {reason}"),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Are the long forms wanted?
pub(crate) fn is_full() -> bool {
    std::env::var_os("CATENA_FULL").is_some_and(|value| value == "1")
}

/// Chance by a seed that is printed: `CATENA_SEED` repeats it.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(test: &str) -> Self {
        let given = std::env::var("CATENA_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |now| u64::from(now.subsec_nanos()) | 1)
        });
        println!("{test}: CATENA_SEED={seed}");
        Self(seed)
    }

    /// A number below `bound` (xorshift64*).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }
}
