//! The classifier's rules: which of them takes a packet (RFC 7665 section 4.2). Knows rules and their order;
//! refuses to know packets on their way and what a path does.

mod filter;
mod masks;
mod rule;
mod rules;
mod search;
mod table;
#[cfg(test)]
mod tests;
mod tuples;
mod wants;
mod words;

pub(crate) use masks::with_fields;
pub(crate) use rule::{Failing, has_ports};
pub use rules::Asked;
pub(crate) use rules::{AtPort, Rules};
pub(crate) use search::GROUP;
