//! The engine, packets in and packets out: after each send exactly the named counters moved, and
//! the counters balance on every node.

// What is common to the tests stands outside of them, where the lint cannot see that it is one.
#![allow(clippy::unwrap_used)]
// The same files are a library for fuzzing (`fuzz/rig`), which uses a part of them.
#![cfg_attr(not(test), allow(dead_code, unused_imports, missing_docs))]

mod accounting;
mod balance;
#[cfg(test)]
mod beside;
mod cables;
mod chains;
mod check;
mod csid;
mod dead_links;
mod edge_pathlets;
mod edge_switches;
mod edges;
mod explain;
mod fields;
mod flat;
mod floods;
mod flows;
mod flushes;
mod followers;
mod following;
mod fragments;
mod fragments_names;
mod fragments_order;
mod frames;
mod function_messages;
mod function_state;
mod functions;
#[allow(unreachable_pub, reason = "a library of fuzz targets is made of these files, too")]
pub mod fuzzed;
mod goldens;
mod graphs;
mod groups;
mod guises;
mod health;
mod hostile;
mod inside_balancer;
mod inside_nat;
mod isolation;
mod lane;
mod metadata;
mod networks;
mod networks_by_mac;
mod node;
mod offloads;
#[cfg(test)]
mod open_vswitch;
mod origins;
mod passing;
mod pathlets;
mod pins;
mod planned;
mod profiles;
mod proxy;
mod questions;
mod readers;
mod refusals;
mod returns;
mod rig;
mod scene;
mod segments;
mod senders;
mod setups;
mod shares;
mod sharing;
#[cfg(test)]
mod side_by_balancer;
#[cfg(test)]
mod side_by_side;
mod slice_networks;
mod slices;
mod sojourns;
mod srv6;
mod stateless;
mod stitches;
mod super_frames;
mod switching;
mod symmetric;
mod tables;
mod tags;
mod taps;
mod telemetry;
mod too_big;
mod town;
mod transit;
mod undeclared;
mod updates;
mod versions;
