//! What an engine is told once, at start. Knows bounds and seeds; refuses to know who sets them.

use crate::engine::state::function_state::RememberedState;
use crate::engine::state::health::WatchDuty;
use crate::engine::state::link_board::LinkBoard;
use catena_model::NodeName;
use catena_model::check::ClockTime;
use std::hash::{BuildHasher, RandomState};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

/// What a port may flood where nobody says otherwise.
pub const FLOOD_FRAMES_PER_SECOND: NonZeroU32 =
    NonZeroU32::new(catena_model::limits::PORT_FLOOD_FRAMES_PER_SECOND).unwrap();

/// What an engine is told once, at start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The node, as its counters name it.
    pub node: NodeName,
    /// Join adjacent TCP segments of one flow that came out of a tunnel into super-frames.
    pub is_coalescing: bool,
    /// Flows that the proxies remember.
    pub flows_max: usize,
    /// Packets inside functions shared by two versions of a path that the proxies know one by one.
    pub inside_max: usize,
    /// Packets that take records along and are with functions at a time.
    pub records_max: usize,
    /// Flows whose path the classifier remembers.
    pub classified_max: usize,
    /// Moves the places of flows in those memories, so that no sender can aim at one.
    pub flow_seed: u64,
    /// Let packets without anything special through by what was decided for others like them; an
    /// engine that does not is the reference.
    pub has_fast_path: bool,
    /// Run the functions that run inside; an engine that does not asks those of another.
    pub has_functions: bool,
    /// What slices with a delay class may send together; none: as much as the node can.
    pub slice_bits_per_second: Option<NonZeroU64>,
    /// What one port may send to everybody in its network, and as much at once.
    pub flood_frames_per_second: NonZeroU32,
    /// Seals probes, so that nobody else's packet is taken for one.
    pub probe_secret: u64,
    /// Its part in watching instances, where several engines share a node.
    pub watch_duty: WatchDuty,
    /// How the links are, which all engines of a node share.
    pub links: Arc<LinkBoard>,
    /// When its time began, by a clock that others may have, too; none: there is no such clock.
    pub began: Option<ClockTime>,
    /// When the time of functions starts, in seconds since 1970, as [`Tables::since`](super::Tables::since) has it.
    pub functions_epoch_seconds: u64,
    /// What of that time was over when the engine's began, in nanoseconds.
    pub functions_began_ns: u64,
    /// What time it is, in nanoseconds, for whoever times functions; none: nobody does.
    pub meter: Option<fn() -> u64>,
    /// What functions remember of before, where somebody keeps what they remember; none: nobody does.
    pub functions_keep: Option<RememberedState>,
}

impl EngineConfig {
    /// What production uses; the seed is another with each call.
    #[must_use]
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            is_coalescing: true,
            flows_max: catena_model::limits::NODE_FLOWS_MAX,
            inside_max: catena_model::limits::NODE_PACKETS_INSIDE_MAX,
            records_max: catena_model::limits::NODE_PACKETS_INSIDE_MAX,
            classified_max: catena_model::limits::NODE_CLASSIFIED_FLOWS_MAX,
            flow_seed: RandomState::new().hash_one(()),
            has_fast_path: true,
            has_functions: true,
            slice_bits_per_second: None,
            flood_frames_per_second: FLOOD_FRAMES_PER_SECOND,
            probe_secret: RandomState::new().hash_one(()),
            watch_duty: WatchDuty::Alone,
            links: Arc::new(LinkBoard::new(RandomState::new().hash_one(()))),
            began: None,
            functions_epoch_seconds: 0,
            functions_began_ns: 0,
            meter: None,
            functions_keep: None,
        }
    }
}
