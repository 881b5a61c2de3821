//! Our bytes against independent programs: tshark decodes and checks what we write, scapy reads
//! what we write, and we read what scapy writes.

#![forbid(unsafe_code)]

mod packets;
mod programs;
mod scapy;
mod tshark;
