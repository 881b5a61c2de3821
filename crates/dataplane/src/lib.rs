//! The data plane of a node.
//!
//! `engine` knows what a program means for packets and refuses to know sockets, clocks and
//! threads. `shell` knows the process, its rings and sockets, and refuses to know what a packet
//! says.
#![forbid(unsafe_code)]

pub mod engine;
pub mod shell;
