//! Does what was decided: rewrites, headers, copies, segments, the exits. Knows how a transform is carried
//! out and accounted for; refuses to decide it.

pub(crate) mod context;
pub(crate) mod egress;
pub(crate) mod gso_batch;
pub(crate) mod output;
pub(crate) mod too_big;
