//! The behaviours that the original's own tests assert (specification, sections 8.1, 8.3 and 8.4),
//! under their names.
#![allow(clippy::unwrap_used)]
// Values are made where they are passed.
#![allow(clippy::needless_pass_by_value)]

#[path = "../support/mod.rs"]
mod support;

mod api;
mod bench;
mod chains;
mod classifiers;
mod groups;
mod pairs;
