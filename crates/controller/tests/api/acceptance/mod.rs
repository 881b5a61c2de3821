//! The behaviours that the original's own tests assert (specification, sections 8.1, 8.3 and 8.4),
//! under their names.
// Values are made where they are passed.
#![allow(clippy::needless_pass_by_value)]

mod api;
mod bench;
mod chains;
mod classifiers;
mod groups;
mod pairs;
