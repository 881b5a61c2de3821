//! How much is kept, for how long, and what is no longer believed. Knows numbers with their units.

/// Paths that are watched at a time.
pub const PATHS_MAX: usize = 256;
/// Flows of a path that are known one by one.
pub const FLOWS_PER_PATH_MAX: usize = 16;
/// Windows of a series that are kept.
pub const WINDOWS_MAX: usize = 64;
/// Steps of a series that are kept.
pub const STEPS_MAX: usize = 8;
/// Hops of a path, as many as functions in a chain and two ends.
pub const HOPS_MAX: usize = 64;
/// Values of delays in one report.
pub const DELAYS_PER_REPORT_MAX: usize = 1_024;
/// Nodes that may serve one hop.
pub const VISITS_PER_HOP_MAX: usize = 16;
/// How long a window is, nanoseconds.
pub const WINDOW_NS: u64 = 1_000_000_000;
/// Reports of one node in a second, in the mean.
pub const REPORTS_PER_SECOND: u64 = 200_000;
/// Reports of one node at once.
pub const REPORTS_AT_ONCE: u64 = 20_000;
/// A delay between two nodes that is longer than this is none, nanoseconds.
pub const DELAY_MAX_NS: u64 = 10_000_000_000;
/// A stamp of a synchronised clock that is older than this when it is reported is not believed, nanoseconds.
pub const AGE_MAX_NS: u64 = 10_000_000_000;
/// Synchronised clocks may be so far apart, nanoseconds. An arrival that is less than this before the one at the node
/// before says that they are; further before, that one of them is not believed.
pub const CLOCKS_APART_MAX_NS: u64 = 10_000_000;
/// Between two reports of a flow, a node's clock and ours may differ by this, nanoseconds: for how long reports wait.
pub const WAIT_MAX_NS: u64 = 1_000_000_000;
/// A flow of which nothing was heard for so long begins anew, nanoseconds: less than half of what stamps count.
pub const FLOW_QUIET_MAX_NS: u64 = 300_000_000_000;
/// Packets of a flow that may have overtaken one another between two nodes.
pub const OVERTAKEN_MAX: u32 = 1_024;
/// So many reports of a flow in a row that fit one another and not those before make these the former ones: a node
/// began to count anew, or its clock was set.
pub const BEGUN_ANEW_AFTER: u8 = 8;
/// A window of fewer samples says nothing of steps. To tell that delays fell it takes more than 250: of fewer nobody
/// knows how high a p95 may be.
pub const STEP_SAMPLES_MIN: u64 = 20;

/// What differs among collectors: that of a node and that of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Paths that are watched at a time.
    pub paths: usize,
    /// Flows of a path that are known one by one.
    pub flows_per_path: usize,
    /// Windows of a series that are kept.
    pub windows: usize,
    /// How long a window is, nanoseconds.
    pub window_ns: u64,
    /// Reports of one node in a second, in the mean.
    pub reports_per_second: u64,
    /// Reports of one node at once.
    pub reports_at_once: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            paths: PATHS_MAX,
            flows_per_path: FLOWS_PER_PATH_MAX,
            windows: WINDOWS_MAX,
            window_ns: WINDOW_NS,
            reports_per_second: REPORTS_PER_SECOND,
            reports_at_once: REPORTS_AT_ONCE,
        }
    }
}

impl Limits {
    /// Which window a moment is in.
    pub(super) fn window_of(&self, now_ns: u64) -> u64 {
        now_ns / self.window_ns.max(1)
    }
}
