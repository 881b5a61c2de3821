//! Which of many rules takes a packet first.
//!
//! Knows the conditions of rules, their order, and the tables that make one look-up of many
//! comparisons. Refuses to know what a rule is for: whoever files a rule under its rank hangs a tag of
//! its own on it, and gets it back with the answer.
//!
//! All of it is a value: a copy shares what it has in common, and a change copies what it touches.
#![forbid(unsafe_code)]

mod filter;
mod map;
mod rule;
mod search;
mod table;
#[cfg(test)]
mod tests;
mod tuples;
mod words;

pub use map::{Hashed, SharedMap};
pub use rule::{Failing, Prefix, Rule, has_ports, number};
pub use search::{Asking, GROUP};
pub use table::{Rank, Ranked};
pub use tuples::Tuples;
