//! What tells the words of this agent from those of the one before it: when it was started. The only thing here that
//! knows the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970, now. A clock that was set back makes the words of this agent look replayed, until it
/// is past where it was.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
