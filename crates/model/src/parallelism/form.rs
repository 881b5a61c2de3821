//! How functions of a hop are asked at a node, and what led to that. Knows words and figures; refuses to choose.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the functions of a hop are asked.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// By the worker itself, one after the other.
    #[default]
    Fuse,
    /// By a thread each, one after the other.
    Pipeline,
    /// By a thread each, those of a stage side by side.
    Fork,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fuse, Self::Pipeline, Self::Fork];

    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::Pipeline => "pipeline",
            Self::Fork => "fork",
        }
    }
}

/// The form that a node has chosen for a function and those that it shares packets with, and what each would cost: the
/// mean time from entering the hop to leaving it, by the costs that it measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FormChoice {
    /// The form.
    pub form: Form,
    /// One after the other by the worker, in nanoseconds; none: it cannot be known, or queues would grow for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuse_ns: Option<u64>,
    /// The same of a pipeline; none: also where there are too few threads or functions for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_ns: Option<u64>,
    /// The same of a fork; none: also where no two may be asked side by side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_ns: Option<u64>,
    /// Of these, what it costs to ask by a thread, in nanoseconds: until it is awake, and until the worker is; none:
    /// there are no threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_ns: Option<u64>,
    /// Threads that may be asked at one moment; functions that are more than these share some. None: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}
