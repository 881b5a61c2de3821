//! The shared vocabulary of control side and packet side.
//!
//! Knows ids, validated values, the resources an operator declares, the program a node runs, the
//! list of drop reasons and the counters. Refuses to know how any of them is stored, planned,
//! sent or executed. Words are those of RFC 7665; the words of networking-sfc live at the border.
#![forbid(unsafe_code)]

pub mod access;
pub mod account;
pub mod attachment;
pub mod bundle;
pub mod capacity;
pub mod check;
pub mod classifier;
pub mod delays;
pub mod discovery;
pub mod drop_reason;
pub mod dump;
mod encapsulation;
pub mod entry;
pub mod event;
pub mod explain;
pub mod export;
pub mod id;
pub mod instance;
pub mod kernel;
pub mod limits;
pub mod losses;
mod merging;
pub mod openflow;
pub mod parallelism;
mod payload;
mod place;
pub mod placement;
pub mod preview;
pub mod profile;
pub mod program;
pub mod question;
pub mod resource;
pub mod rule_set;
pub mod service_time;
pub mod setup;
pub mod slice;
pub mod slice_wait;
pub mod sojourn_time;
pub mod source_route;
pub mod status;
pub mod stitch;
pub mod telemetry;
mod template;
pub mod text;
pub mod topology;
mod tunnel;

pub use access::Role;
pub use account::{
    Absences, Account, ChainCounters, Created, DataplaneLife, HopCounters, NodeCounters,
    PortCounters, SliceCounters, Volume,
};
pub use drop_reason::DropReason;
pub use event::Event;
pub use id::{BlueprintNumber, NodeName, PathId, ProjectId, SliceId};
pub use program::NodeProgram;
pub use question::{Answer, CounterScope, Question};
pub use tunnel::TunnelKind;
