//! Tables that a change copies in part: what a change does not touch is shared by the tables before
//! and after it. Knows parts, places and hashes; refuses to know what is kept.

mod chunks;
mod counted;
mod map;
mod numbers;
mod slab;

pub(super) use chunks::Chunks;
pub(super) use counted::Counted;
pub(super) use map::{Hashed, SharedMap};
pub(super) use numbers::Numbers;
pub(super) use slab::Slab;
