//! Tables that a change copies in part: what a change does not touch is shared by the tables before
//! and after it. Knows parts and hashes; refuses to know what is kept.

mod chunks;
mod map;

pub(super) use chunks::Chunks;
pub(super) use map::{Hashed, SharedMap};
