//! Our bytes against independent programs: tshark decodes and checks what we write, scapy reads
//! what we write, and we read what scapy writes.

#![forbid(unsafe_code)]
// Clippy grants this to test functions; here the code they share needs it too.
#![allow(clippy::unwrap_used)]

mod dissector;
mod int_report;
mod ipfix;
mod packets;
mod programs;
mod scapy;
mod source_route;
mod srv6;
mod tshark;
mod tunnels;
