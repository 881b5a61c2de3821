//! Sets of packets, one operation after the other.

use super::*;
use catena_model::resource::PortBounds;
use catena_wire::scalar::PortRange;
use ipnet::IpNet;

fn any() -> FlowMatch {
    FlowMatch {
        family: IpFamily::Ipv4,
        transport: None,
        source: None,
        destination: None,
        source_ports: None,
        destination_ports: None,
        fields: FieldMatch::default(),
    }
}

fn net(text: &str) -> Option<IpNet> {
    Some(text.parse().unwrap())
}

fn ports(min: u16, max: u16) -> Option<PortRange> {
    Some(PortRange::new(min, max).unwrap())
}

fn masquerade() -> TupleMapping {
    let egress = TuplePattern { source_prefix: net("192.0.2.7/32"), ..TuplePattern::default() };
    TupleMapping { egress, ..TupleMapping::default() }
}

#[test]
fn two_rules_have_in_common_what_both_mean() {
    let wide = FlowMatch { source: net("10.0.0.0/8"), destination_ports: ports(80, 90), ..any() };
    let narrow = FlowMatch {
        source: net("10.1.0.0/16"),
        transport: Some(Transport::Tcp),
        destination_ports: ports(85, 99),
        ..any()
    };
    let common = FlowMatch { destination_ports: ports(85, 90), ..narrow.clone() };
    assert_eq!(wide.intersection(&narrow), Some(common.clone()));
    assert_eq!(narrow.intersection(&wide), Some(common));
    for foreign in [
        FlowMatch { source: net("11.0.0.0/8"), ..any() },
        FlowMatch { family: IpFamily::Ipv6, ..any() },
        FlowMatch { transport: Some(Transport::Udp), ..any() },
        FlowMatch { destination_ports: ports(1, 84), ..any() },
    ] {
        assert_eq!(narrow.intersection(&foreign), None, "{foreign:?}");
    }
}

#[test]
fn answers_have_source_and_destination_exchanged() {
    let sent = FlowMatch { source: net("10.0.0.1/32"), destination_ports: ports(80, 80), ..any() };
    let answers =
        FlowMatch { destination: net("10.0.0.1/32"), source_ports: ports(80, 80), ..any() };
    assert_eq!(sent.clone().reversed(), answers);
    assert_eq!(answers.reversed(), sent);
}

#[test]
fn a_function_that_rewrites_everything_leaves_nothing_as_it_was() {
    let sent = FlowMatch { source: net("10.0.0.0/24"), ..any() };
    let left = FlowMatch { source: net("192.0.2.7/32"), ..any() };
    assert_eq!(mapped(sent, [&masquerade()]), [left]);
}

#[test]
fn what_a_function_does_not_rewrite_stays_beside_what_it_does() {
    let mut mapping = masquerade();
    mapping.ingress.source_prefix = net("10.0.0.0/25");
    let sent = FlowMatch { source: net("10.0.0.0/24"), ..any() };
    let left = FlowMatch { source: net("192.0.2.7/32"), ..any() };
    assert_eq!(mapped(sent.clone(), [&mapping]), [left.clone(), sent]);
    let inside = FlowMatch { source: net("10.0.0.64/26"), ..any() };
    assert_eq!(mapped(inside, [&mapping]), [left]);
    let outside = FlowMatch { source: net("10.0.0.128/25"), ..any() };
    assert_eq!(mapped(outside.clone(), [&mapping]), [outside]);
}

#[test]
fn a_mapping_says_nothing_of_the_other_family() {
    let sent = FlowMatch { family: IpFamily::Ipv6, ..any() };
    assert_eq!(mapped(sent.clone(), [&masquerade()]), [sent]);
}

#[test]
fn rewritten_ports_are_looked_at_only_where_every_packet_has_some() {
    let mut mapping = masquerade();
    mapping.egress.source_ports = PortBounds { min: Some(1_024), max: None };
    let source = net("192.0.2.7/32");
    assert_eq!(mapped(any(), [&mapping]), [FlowMatch { source, ..any() }]);
    let tcp = FlowMatch { transport: Some(Transport::Tcp), ..any() };
    let left = FlowMatch { source, source_ports: ports(1_024, u16::MAX), ..tcp.clone() };
    assert_eq!(mapped(tcp, [&mapping]), [left]);
}
