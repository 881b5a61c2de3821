//! The functions that look at headers alone, with flows that they know.

use super::asked::{Asked, End};
use super::firewall;
use crate::engine::wrong;
use crate::error::BenchError;
use catena_nf::Function;
use catena_nf::balancer::Balancer;
use catena_nf::marker::Marker;
use catena_nf::monitor::{Monitor, MonitorConfig};
use catena_nf::nat::{Nat, NatOptions};
use catena_nf::policer::Policer;
use catena_nf::router::Router;
use catena_rules::qos::{self, QosKind};
use std::net::Ipv4Addr;

type Make = fn() -> Result<Asked, BenchError>;

/// What each function's figure is called, and how it is made.
const ALL: [(&str, Make); 7] = [
    ("firewall_states_ns", firewall_with_states),
    ("monitor_ns", monitor),
    ("nat_ns", nat),
    ("balancer_ns", balancer),
    ("marker_ns", marker),
    ("policer_ns", policer),
    ("router_ns", router),
];

/// Rules that accept what is known, and whoever begins.
pub(super) const STATES: &str = "*filter\n:FORWARD DROP [0:0]\n\
    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
    -A FORWARD -m conntrack --ctstate NEW -j ACCEPT\nCOMMIT\n";
const NAT: &str = "{masquerade: [10.0.0.0/16], pool: [203.0.113.4]}";
const BALANCER: &str = "services: [{name: dns, address: 203.0.113.10, protocol: udp, port: 53, backends: [\
    {address: 10.9.0.1, port: 53}, {address: 10.9.0.2, port: 53}, {address: 10.9.0.3, port: 53, weight: 2}]}]";
const MARKER: &str = "classes:\n\
    - {name: voice, match: {protocol: udp, destination_port: 5004-5005}, mark: ef}\n\
    - {name: video, match: {source: [10.0.2.0/24], protocol: [tcp, udp], destination_port: 443}, mark: af41}\n\
    - {name: rest, mark: af11}\n";
const POLICER: &str = "classes:\n\
    - {name: voice, match: {protocol: udp, destination_port: 5004-5005}, police: {srtcm: {cir: 1mbit, cbs: 1500, \
    ebs: 0}}}\n\
    - {name: rest, police: {trtcm: {cir: 100mbit, cbs: 60000, pir: 200mbit, pbs: 60000}, green: af11, yellow: af12, \
    red: af13}}\n";
const ROUTER: &str = "in: {mac: \"02:00:00:00:01:01\", addresses: [192.0.2.1]}\n\
    out: {mac: \"02:00:00:00:01:02\", addresses: [192.0.2.2]}\n\
    routes:\n\
    - {to: 10.0.0.0/16, side: in, next_hop: \"02:00:00:00:02:01\"}\n\
    - {to: 10.0.9.0/24, refuse: unreachable}\n\
    - {to: 10.9.0.0/16, side: out, next_hop: \"02:00:00:00:02:02\"}\n\
    - {to: 0.0.0.0/0, side: out, next_hop: \"02:00:00:00:02:02\"}\n";

/// The figures.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().map(|(name, _)| name)
}

/// Is there a function with this figure?
pub(super) fn is_known(name: &str) -> bool {
    names().any(|other| other == name)
}

/// The function of one figure, if there is one.
pub(super) fn one(name: &str) -> Option<Result<Asked, BenchError>> {
    ALL.into_iter().find(|(other, _)| *other == name).map(|(_, make)| make())
}

/// The functions that know their flows, each with its figure.
pub(super) fn ready() -> Result<Vec<(&'static str, Asked)>, BenchError> {
    ALL.into_iter().map(|(name, make)| Ok((name, make()?))).collect()
}

/// Hosts inside, four to an address, and one outside.
fn flow(number: u32) -> (End, End) {
    let host = Ipv4Addr::from_bits(0x0a00_0001 + number / 4);
    ((host, 40_000 + (number % 4) as u16), (Ipv4Addr::new(10, 9, 0, 1), 53))
}

fn of_flows(function: impl Function + 'static) -> Result<Asked, BenchError> {
    Asked::of_flows(Box::new(function), flow)
}

fn firewall_with_states() -> Result<Asked, BenchError> {
    of_flows(firewall::made(STATES)?)
}

fn monitor() -> Result<Asked, BenchError> {
    let monitor = Monitor::new(MonitorConfig::default());
    of_flows(monitor.map_err(|error| wrong("the monitor", &error))?)
}

fn nat() -> Result<Asked, BenchError> {
    let config = catena_rules::nat::read(NAT, "bench").map_err(|error| wrong("the NAT", &error))?;
    let nat = Nat::new(&config, &NatOptions::default());
    of_flows(nat.map_err(|error| wrong("the NAT", &error))?)
}

fn balancer() -> Result<Asked, BenchError> {
    let config = catena_rules::balancer::read(BALANCER, "bench");
    let balancer = Balancer::new(&config.map_err(|error| wrong("the balancer", &error))?);
    let service = (Ipv4Addr::new(203, 0, 113, 10), 53);
    Asked::of_flows(Box::new(balancer), |number| (flow(number).0, service))
}

fn marker() -> Result<Asked, BenchError> {
    let config = qos::read(MARKER, "bench", QosKind::Marker);
    of_flows(Marker::new(&config.map_err(|error| wrong("the marker", &error))?))
}

fn policer() -> Result<Asked, BenchError> {
    let config = qos::read(POLICER, "bench", QosKind::Policer);
    of_flows(Policer::new(&config.map_err(|error| wrong("the policer", &error))?))
}

fn router() -> Result<Asked, BenchError> {
    let config = catena_rules::router::read(ROUTER, "bench");
    of_flows(Router::new(&config.map_err(|error| wrong("the router", &error))?))
}
