//! Which functions of a chain may work side by side, from profiles in files: what plans and people ask. The judgement
//! is `catena_model::parallelism`'s, which data planes hold their own functions against as well.
//!
//! Knows the forms of profiles, and actions of flows in pairs; refuses to know functions, what forking costs, and who
//! runs what where.

pub mod actions;
mod document;
pub mod flow_lists;
#[cfg(test)]
mod tests;

pub use catena_model::parallelism::{
    PacketCopy, Parallel, Reason, StageMember, Stages, Verdict, judge,
};
pub use document::{ProfileError, Profiles};
