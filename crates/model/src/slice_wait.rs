//! How packets of a slice wait at a node: what its delay class and its neighbours make of it.

use crate::account::Volume;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The waits of the packets of one slice, since it sent its first here.
///
/// Durations are those between a packet's arrival in the lane of its slice and its release, told
/// within an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceWait {
    /// Wire packets that wait now.
    pub waiting: u64,
    /// Those that waited and went on.
    pub released: Volume,
    /// Half of them waited no longer than this, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 waited no longer than this, in nanoseconds.
    pub p99_ns: u64,
    /// The longest wait, in nanoseconds.
    pub max_ns: u64,
    /// Interarrival jitter by the estimator of RFC 3550 section 6.4.1, of the wait, in nanoseconds.
    pub jitter_ns: u64,
}
