//! Slices, planned one by one: each has a path of its own, which shares the hops of its chain's.
//!
//! A change of n slices costs about n and those that cannot be brought on yet, however many others
//! there are: tables share what they have in common with the former ones, what is declared is held
//! against what was looked at last, and paths that are brought on together are looked at together. A
//! path of a slice is made before the one it replaces is broken, as those of chains are: its hops
//! learn it, then classifiers turn, then the old one drains and goes.

mod block;
mod book;
mod drain;
mod status;
mod step;
mod wanted;

pub use block::SliceBlock;
pub(crate) use book::Users;
pub use book::{SliceBook, SlicePath, SlicePhase};
pub use drain::SliceDrainWatch;
pub use status::{is_slice_withdrawn, slice_status, slices_draining};
pub(crate) use step::{classifier_of, next_slices, settled, with_all_nodes};
pub(crate) use wanted::Places;
