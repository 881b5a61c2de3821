//! Functions beside what judges them: the kernel and programs of others, on the same packets.
//!
//! Needs root, iproute2, nftables and iptables: everything happens in namespaces of its own.

mod firewall;
mod router;
mod rule_sets;
