//! The scene most tests play in: S on host1, D on host3, functions between, in two networks.

use crate::frames::Spec;
use crate::town::{Town, rule};
use catena_model::resource::{ContextHeader, Encapsulation, IpFamily, Transport};
use catena_wire::scalar::IpProtocol;
use catena_wire::varying::VaryingFields;

pub(crate) const CUSTOMER: usize = 0;
pub(crate) const INTERNAL: usize = 1;
/// The destination port that the scene's chains take.
pub(crate) const CHAINED_PORT: u16 = 5_001;
/// A destination port that no chain takes.
pub(crate) const PLAIN_PORT: u16 = 9;

/// Three hosts: host1 S v1, host2 v2 v3, host3 D v4. Functions lie between both networks.
pub(crate) fn three_hosts() -> Town {
    let mut town = Town::new(3);
    town.network(100, &["10.0.0.0/24", "2001:db8::/64"]);
    town.network(200, &["10.1.0.0/24", "2001:db8:1::/64"]);
    town.endpoint("S", 0, CUSTOMER, &["10.0.0.1", "2001:db8::1"]);
    town.endpoint("D", 2, CUSTOMER, &["10.0.0.2", "2001:db8::2"]);
    town.function("v1", 0, (CUSTOMER, INTERNAL));
    town.function("v2", 1, (CUSTOMER, INTERNAL));
    town.function("v3", 1, (INTERNAL, INTERNAL));
    town.function("v4", 2, (INTERNAL, INTERNAL));
    town
}

/// The scene with one chain for [`CHAINED_PORT`], TCP and UDP, IPv4 and IPv6.
pub(crate) fn with_chain(encapsulation: Encapsulation, hops: &[&[&str]]) -> Town {
    let mut town = three_hosts();
    town.chain("c", encapsulation, hops, &rules(CHAINED_PORT));
    town
}

/// Rules for a destination port in every family and transport.
pub(crate) fn rules(port: u16) -> Vec<catena_model::program::RuleMatch> {
    let families = [IpFamily::Ipv4, IpFamily::Ipv6];
    let transports = [Transport::Tcp, Transport::Udp];
    families
        .into_iter()
        .flat_map(|family| transports.map(|transport| rule(family, transport, port)))
        .collect()
}

/// All that a classifier can write.
pub(crate) fn all_context() -> Vec<ContextHeader> {
    vec![
        ContextHeader::Tenant("acme".into()),
        ContextHeader::IngressNode,
        ContextHeader::FlowId,
        ContextHeader::Policy(7),
    ]
}

/// A UDP packet from S to D.
pub(crate) fn packet(town: &Town, destination_port: u16) -> Spec {
    Spec {
        source_mac: town.mac("S"),
        destination_mac: town.mac("D"),
        source: "10.0.0.1".parse().unwrap(),
        destination: "10.0.0.2".parse().unwrap(),
        protocol: IpProtocol::UDP,
        ports: (40_000, destination_port),
        vlan: None,
        ttl: 64,
        sequence: 0,
        identification: 7,
        fragment: (0, false),
        payload: b"catena".to_vec(),
        varying: VaryingFields::default(),
    }
}

/// The same over IPv6.
pub(crate) fn packet_v6(town: &Town, destination_port: u16) -> Spec {
    Spec {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..packet(town, destination_port)
    }
}
