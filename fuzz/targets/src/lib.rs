//! The fuzz targets by name: what each does with its bytes, and what must hold afterwards.
//!
//! Knows which readers of the house take bytes of strangers. Refuses to know where the bytes come
//! from: libFuzzer makes them (`fuzz/libfuzzer`), the tests replay what is kept (`tests/replay.rs`).
#![forbid(unsafe_code)]
// What does not hold here is a finding, and a finding is a panic.
#![allow(clippy::unwrap_used)]

mod capture;
mod control;
mod domain;
mod functions;
mod http;
mod keystone;
mod rest;
pub mod seeds;
mod source_route;
mod srv6;
mod text;
mod wire;

/// A target: its name, what it does with the bytes, and where its seeds stand.
pub struct Target {
    /// As in `cargo xtask fuzz NAME`, `fuzz/corpus/NAME` and `fuzz/stories/NAME`.
    pub name: &'static str,
    /// Panics on a finding.
    pub run: fn(&[u8]),
    /// Folder of `conformance/` whose goldens are seeds, if there is one.
    pub goldens: Option<&'static str>,
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, goldens: None }
}

/// A target whose seeds are the goldens of the format of its name.
const fn format(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, goldens: Some(name) }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    format("arp", wire::arp),
    format("ethernet", wire::ethernet),
    format("frame", wire::frame),
    format("geneve", wire::geneve),
    format("gre", wire::gre),
    format("gtp_u", wire::gtp_u),
    format("icmp", wire::icmp),
    format("inside", wire::inside),
    format("int_report", wire::int_report),
    format("ipfix", wire::ipfix),
    format("ipv4", wire::ipv4),
    format("ipv6", wire::ipv6),
    format("lldp", wire::lldp),
    format("mpls", wire::mpls),
    format("neighbour", wire::neighbour),
    format("nsh", wire::nsh),
    Target { name: "probe", run: wire::probe, goldens: Some("frame") },
    format("segment", wire::segment),
    format("source_route", source_route::frame),
    format("srv6", srv6::header),
    format("srv6_int", srv6::packet),
    format("stt", wire::stt),
    format("tcp", wire::tcp),
    format("udp", wire::udp),
    format("vxlan", wire::vxlan),
    format("vxlan_gpe", wire::vxlan_gpe),
    target("tunnel_input", catena_fuzz_rig::fuzzed::tunnel_input),
    target("port_input", catena_fuzz_rig::fuzzed::port_input),
    target("towns", catena_fuzz_rig::fuzzed::towns),
    target("program", control::program),
    target("delta", control::delta),
    target("agent_messages", control::agent_messages),
    target("control_frames", control::control_frames),
    target("rest", rest::requests),
    target("keystone", keystone::answers),
    target("capture", capture::frames),
    Target { name: "fields", run: functions::fields, goldens: Some("frame") },
    target("functions", functions::packets),
    target("rules", functions::rules),
    target("document", text::document),
    target("lab_file", text::lab_file),
];

/// Runs one target.
///
/// # Panics
/// On a finding; also when there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let found = TARGETS.iter().find(|target| target.name == name);
    (found.unwrap_or_else(|| panic!("no target is called '{name}'")).run)(bytes);
}
