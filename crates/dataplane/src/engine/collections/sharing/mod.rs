//! Tables that a change copies in part: what a change does not touch is shared by the tables before
//! and after it. Knows parts and places; refuses to know what is kept.

mod chunks;
mod counted;
mod numbers;
mod slab;

pub(crate) use chunks::Chunks;
pub(crate) use counted::Counted;
pub(crate) use numbers::Numbers;
pub(crate) use slab::Slab;
