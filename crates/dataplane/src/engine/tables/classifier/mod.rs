//! The classifier's rules: which of them takes a packet (RFC 7665 section 4.2). Knows rules and their order;
//! refuses to know packets on their way and what a path does.

mod masks;
mod rules;
#[cfg(test)]
mod tests;
mod wants;

pub(crate) use masks::with_fields;
pub use rules::Asked;
pub(crate) use rules::{AtPort, Rules};
