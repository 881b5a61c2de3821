//! Packet formats and the checked scalars they are made of.
//!
//! Knows bytes: offsets, bits and checksums live here and nowhere else. Refuses to know what any
//! value means to us: no path, no port, no program.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "serde")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arp;
pub mod checksum;
pub mod digest;
pub mod ethernet;
pub mod field;
pub mod flow;
pub mod fragment;
pub mod frame;
pub mod geneve;
pub mod gre;
pub mod gtp_u;
pub mod icmp;
pub mod inside;
pub mod int_report;
pub mod ipfix;
pub mod ipv4;
pub mod ipv6;
pub mod lldp;
pub mod mpls;
pub mod neighbour;
pub mod nsh;
pub mod plain;
pub mod ports;
pub mod probe;
pub mod scalar;
pub mod sctp;
pub mod segment;
pub mod source_route;
pub mod srv6;
pub mod srv6_int;
pub mod stt;
pub mod tcp;
pub mod udp;
pub mod varying;
pub mod vxlan;
pub mod vxlan_gpe;

#[cfg(test)]
mod golden;
