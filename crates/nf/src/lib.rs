//! The contract of network functions, and the functions that come with Catena.
//!
//! Knows what a function says of itself ([`catena_model::profile`]), what it makes of packets ([`outcome`]), and the
//! functions. Refuses to do I/O, to read a clock, and to change a packet itself: whoever asks a function
//! carries out what it answers.
#![forbid(unsafe_code)]

pub mod balancer;
pub mod bucket;
pub mod carry_out;
pub mod check;
mod classes;
mod counts;
pub mod exchange;
pub mod firewall;
pub mod function;
pub mod harness;
mod held;
pub mod ids;
pub mod marker;
pub mod monitor;
pub mod nat;
pub mod outcome;
pub mod packet;
pub mod policer;
pub mod random;
pub mod registry;
pub mod router;
pub mod shaper;
mod subject;
mod tokens;
pub mod tracking;
pub mod work;

pub use function::Function;
