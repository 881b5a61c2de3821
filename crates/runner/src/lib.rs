//! A network function as a process of its own: a bump in the wire between two ports, without a controller.
//!
//! Knows the contract of functions, ports and a clock ([`run`]); carries out what a function answers
//! ([`Bump`]) and accounts for every packet ([`Account`]). As a process it opens two interfaces, gives up its rights
//! and puts up walls ([`run_to_end`]); [`main`](fn@main) is that of somebody's own function. Beside a data plane it is
//! asked by a mailbox ([`serve_beside`]) and started by [`start_processes`]. Refuses to know any
//! function, its rules, and controllers.
#![forbid(unsafe_code)]

mod account;
mod beside;
mod bump;
mod clock;
mod error;
mod lines;
mod place;
mod ports;
mod process;
mod program;
mod run;
mod sandbox;
mod starter;
mod taken;

pub use account::{Account, Drops, Held, Messages, RuleDrops, RuleLine, Sides};
pub use beside::serve_beside;
pub use bump::{BATCH_FRAMES_MAX, Bump, Turn};
pub use catena_io::PacketRing;
pub use clock::Clock;
pub use error::RunError;
pub use lines::Lines;
pub use place::Place;
pub use ports::{confine, open};
pub use process::{Outlet, Setting, Walls, run_between, run_to_end, secret_seed};
pub use program::main;
pub use run::{News, run};
pub use sandbox::{confine_calls, wall_off};
pub use starter::start_processes;
