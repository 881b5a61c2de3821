//! A network function as a process of its own: a bump in the wire between two ports, without a controller.
//!
//! Knows the contract of functions, ports and a clock ([`run`]); carries out what a function answers
//! ([`Bump`]) and accounts for every packet ([`Account`]). Refuses to know any function, its rules and who
//! opened the sockets.
#![forbid(unsafe_code)]

mod account;
mod bump;
mod clock;
mod error;
mod lines;
mod ports;
mod run;
mod taken;

pub use account::{Account, Drops, Held, Messages, RuleDrops, RuleLine, Sides};
pub use bump::{BATCH_FRAMES_MAX, Bump, Turn};
pub use catena_io::PacketRing;
pub use clock::Clock;
pub use error::RunError;
pub use lines::Lines;
pub use ports::{confine, open};
pub use run::{News, run};
