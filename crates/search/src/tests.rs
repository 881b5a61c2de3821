//! Rules in tables, as whoever uses the crate asks them.

use crate::{Asking, GROUP, Prefix, Rank, Ranked, Rule, Tuples};
use catena_model::classifier::FieldMatch;
use catena_model::resource::IpFamily;
use catena_wire::ethernet::EthernetHeader;
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{EtherType, IpProtocol, MacAddr, PortRange};
use std::net::Ipv4Addr;

const SCOPE: u32 = 7;
const SCOPES: [Option<u32>; 2] = [Some(SCOPE), None];

/// A packet without a tag; of its frame nothing else is asked.
fn view() -> FrameView {
    let header = EthernetHeader {
        destination: MacAddr([2; 6]),
        source: MacAddr([4; 6]),
        tags: [None; 2],
        ethertype: EtherType(0x88b5),
    };
    let mut bytes = vec![0; header.len_bytes()];
    header.emit(&mut bytes).unwrap();
    FrameView::parse(&bytes).unwrap()
}

/// TCP from 10.0.0.1 to a host of 10.0.1.0/24.
fn flow(host: u8, port: u16) -> FlowKey {
    FlowKey {
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 1, host).into(),
        protocol: IpProtocol::TCP,
        source_port: 40_000,
        destination_port: port,
    }
}

/// Takes what goes to a network, and to a port if one is given.
fn rule(destination: &str, port: Option<u16>) -> Rule {
    let family = IpFamily::Ipv4;
    Rule {
        family,
        vlan: None,
        protocol: None,
        source: Prefix::new(None, family),
        destination: Prefix::new(Some(destination.parse().unwrap()), family),
        source_ports: None,
        destination_ports: port.map(|port| PortRange::new(port, port).unwrap()),
        fields: FieldMatch::default(),
    }
}

/// Rules that say their ranks and are numbered by them.
fn tuples(rules: &[(u32, Rule)]) -> Tuples<&'static str> {
    let mut tuples = Tuples::default();
    for (rank, rule) in rules.iter().copied() {
        let tag = if rank % 2 == 0 { "even" } else { "odd" };
        tuples.insert(Ranked { rank: rank.into(), number: rank, scope: SCOPE, tag, rule });
    }
    tuples
}

fn four() -> Tuples<&'static str> {
    tuples(&[
        (4, rule("10.0.0.0/8", None)),
        (2, rule("10.0.1.5/32", None)),
        (3, rule("10.0.1.0/24", None)),
        (1, rule("10.0.1.0/24", Some(443))),
    ])
}

fn found(
    tuples: &Tuples<&'static str>,
    flow: &FlowKey,
    accepts: impl Fn(&Ranked<&'static str>) -> bool,
) -> Option<(Rank, &'static str)> {
    tuples.find(SCOPES, &view(), flow, accepts).map(|one| (one.rank, one.tag))
}

#[test]
fn the_rule_of_the_least_rank_is_found_with_its_tag() {
    let tuples = four();
    assert_eq!(found(&tuples, &flow(5, 443), |_| true), Some((1, "odd")));
    assert_eq!(found(&tuples, &flow(5, 80), |_| true), Some((2, "even")));
    assert_eq!(found(&tuples, &flow(6, 80), |_| true), Some((3, "odd")));
    let elsewhere = FlowKey { destination: Ipv4Addr::new(10, 9, 9, 9).into(), ..flow(0, 443) };
    assert_eq!(found(&tuples, &elsewhere, |_| true), Some((4, "even")));
    assert_eq!(found(&tuples, &flow(5, 443).reversed(), |_| true), Some((4, "even")));
    let nowhere = FlowKey { destination: Ipv4Addr::new(11, 0, 0, 1).into(), ..flow(0, 443) };
    assert_eq!(found(&tuples, &nowhere, |_| true), None);
}

#[test]
fn rules_of_another_scope_take_nothing() {
    let (tuples, view, flow) = (four(), view(), flow(5, 443));
    for scopes in [[None; 2], [Some(SCOPE + 1), None]] {
        assert!(tuples.find(scopes, &view, &flow, |_| true).is_none());
    }
    let second = tuples.find([Some(SCOPE + 1), Some(SCOPE)], &view, &flow, |_| true);
    assert_eq!(second.map(|one| one.number), Some(1));
}

#[test]
fn a_rule_that_is_refused_leaves_the_packet_to_the_next() {
    let tuples = four();
    let flow = flow(5, 443);
    for (refused, left) in [(1, Some(2)), (2, Some(3)), (3, Some(4)), (4, None)] {
        let rank = found(&tuples, &flow, |one| one.rank > refused).map(|(rank, _)| rank);
        assert_eq!(rank, left);
    }
    assert_eq!(found(&tuples, &flow, |one| one.tag == "even"), Some((2, "even")));
    // Nothing is refused that the packet does not meet.
    assert_eq!(
        found(&tuples, &flow, |one| one.rule.failing(&view(), &flow).is_none()).unwrap().0,
        1
    );
}

#[test]
fn rules_that_share_a_bucket_are_refused_one_by_one() {
    let same: Vec<(u32, Rule)> = (1..=20).map(|rank| (rank, rule("10.0.1.5/32", None))).collect();
    let tuples = tuples(&same);
    for wanted in 1..=20 {
        let found = found(&tuples, &flow(5, 443), |one| one.number == wanted);
        assert_eq!(found.map(|(rank, _)| rank), Some(wanted.into()));
    }
}

#[test]
fn each_packet_of_a_group_is_judged_by_its_place() {
    let (tuples, view) = (four(), view());
    let flows: Vec<FlowKey> = (0..GROUP).map(|_| flow(5, 443)).collect();
    let asked = flows
        .iter()
        .enumerate()
        .map(|(at, flow)| (at != 3).then_some(Asking { scopes: SCOPES, view: &view, flow }));
    let found: [_; GROUP] = tuples.find_each(asked, |at, one| one.number as usize > at % 5);
    for (at, found) in found.iter().enumerate() {
        let wanted = [Some(1), Some(2), Some(3), Some(4), None][at % 5].filter(|_| at != 3);
        assert_eq!(found.map(|one| one.number), wanted, "packet {at}");
    }
}

#[test]
fn what_is_taken_out_takes_nothing_any_more_and_a_copy_stays_as_it_was() {
    let mut tuples = four();
    let before = tuples.clone();
    let flow = flow(5, 443);
    tuples.remove(SCOPE, 1, &rule("10.0.1.0/24", Some(443)));
    assert_eq!(found(&tuples, &flow, |_| true), Some((2, "even")));
    // One that is not in.
    tuples.remove(SCOPE, 1, &rule("10.0.1.0/24", Some(443)));
    tuples.remove(SCOPE + 1, 2, &rule("10.0.1.5/32", None));
    assert_eq!(found(&tuples, &flow, |_| true), Some((2, "even")));
    tuples.remove(SCOPE, 2, &rule("10.0.1.5/32", None));
    tuples.remove(SCOPE, 3, &rule("10.0.1.0/24", None));
    tuples.remove(SCOPE, 4, &rule("10.0.0.0/8", None));
    assert_eq!((found(&tuples, &flow, |_| true), tuples.tables()), (None, 0));
    assert_eq!(found(&before, &flow, |_| true), Some((1, "odd")));
}

#[test]
fn ten_thousand_rules_are_found_among_few_tables() {
    let mut tuples = Tuples::default();
    let at = |number: u32| Ipv4Addr::from(0x0a00_0000 + number * 77);
    for number in 0..10_000 {
        let rule = rule(&format!("{}/32", at(number)), Some(443));
        let rank = Rank::from(number);
        tuples.insert(Ranked { rank, number, scope: SCOPE, tag: "", rule });
    }
    assert!(tuples.tables() <= 4, "{}", tuples.tables());
    for number in 0..10_000 {
        let flow = FlowKey { destination: at(number).into(), ..flow(0, 443) };
        let rank = found(&tuples, &flow, |_| true).map(|(rank, _)| rank);
        assert_eq!(rank, Some(number.into()));
    }
}
