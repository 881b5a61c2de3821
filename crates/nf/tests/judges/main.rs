//! Functions beside what judges them: the kernel and programs of others, on the same packets.
//!
//! Needs root, iproute2, nftables, iptables, nfdump, softflowd and python3: everything happens in namespaces
//! of its own.

mod balancer;
mod collector;
mod firewall;
mod forwarding;
mod ids;
mod ids_reading;
mod monitor;
mod nat;
mod nat_configurations;
mod nat_fragments;
mod router;
mod rule_sets;
mod segments;
mod timeouts;
