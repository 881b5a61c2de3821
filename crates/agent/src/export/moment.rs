//! When something is told. The only one here who knows what time of day it is: messages of IPFIX are dated.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When it is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// Seconds since 1970, modulo 2^32 (RFC 7011 section 3.1).
    pub(super) seconds: u32,
}

impl Moment {
    pub(super) fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { now: Instant::now(), seconds: since_1970.as_secs() as u32 }
    }
}
