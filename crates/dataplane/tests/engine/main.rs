//! The engine, packets in and packets out: after each send exactly the named counters moved, and
//! the books balance on every node.

// What is common to the tests stands outside of them, where the lint cannot see that it is one.
#![allow(clippy::unwrap_used)]

mod accounting;
mod balance;
mod chains;
mod check;
mod explain;
mod flat;
mod flows;
mod followers;
mod fragments;
mod fragments_order;
mod frames;
mod goldens;
mod graphs;
mod groups;
mod health;
mod hostile;
mod isolation;
mod lane;
mod metadata;
mod networks;
mod node;
mod offloads;
mod passing;
mod pins;
mod planned;
mod proxy;
mod questions;
mod refusals;
mod returns;
mod rig;
mod scene;
mod senders;
mod sharing;
mod slices;
mod super_frames;
mod switching;
mod symmetric;
mod tables;
mod taps;
mod town;
mod undeclared;
mod updates;
mod versions;
