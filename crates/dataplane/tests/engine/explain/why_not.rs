//! Why a chain does not take a packet: the first condition that fails, one line for each.

use super::{golden, tell};
use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, three_hosts};
use crate::town::{Town, condition, rule};
use catena_model::explain::RuleCondition;
use catena_model::id::ChainId;
use catena_model::program::{RuleMatch, RulePlace};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_wire::scalar::{IpProtocol, MacAddr, PortRange, VlanId};
use std::fmt::Write;

fn base() -> RuleMatch {
    rule(IpFamily::Ipv4, Transport::Udp, CHAINED_PORT)
}

fn town(matches: RuleMatch) -> Town {
    let mut town = three_hosts();
    town.chain("web", Encapsulation::Nsh, &[&["v1"]], &[matches]);
    town
}

fn chain(town: &Town) -> ChainId {
    town.program(0).chains.iter().find(|entry| entry.name == "web").unwrap().id
}

/// What is said of the chain's rules; the packet is then sent, and enters only if it was said to.
fn judge(town: Town, port: &str, frame: &[u8]) -> Vec<(RuleCondition, String)> {
    let chain = chain(&town);
    let mut rig = Rig::new(town);
    let told = tell(&rig, port, frame, Some(chain));
    rig.moved();
    rig.send(port, frame);
    let has_entered = rig.moved().contains_key("host1 path 100 entered");
    let is_taken = told.why_not.iter().any(|verdict| verdict.condition == RuleCondition::Takes);
    assert_eq!(has_entered, is_taken, "{:?}", told.why_not);
    told.why_not.into_iter().map(|verdict| (verdict.condition, verdict.text)).collect()
}

#[test]
fn every_condition_is_told_of_and_agrees_with_what_the_packet_does() {
    let sent = packet(&three_hosts(), CHAINED_PORT);
    let (v6, range) =
        (packet_v6(&three_hosts(), CHAINED_PORT), |min, max| PortRange::new(min, max).ok());
    let (port_d, mut headed) = (three_hosts().port_named("D").id, sent.frame());
    headed[12..14].copy_from_slice(&[0x89, 0x4f]);
    let mut arp = sent.frame();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let tcp = Spec { protocol: IpProtocol::TCP, ..sent.clone() };
    let group = Spec { destination_mac: MacAddr([1, 0, 0x5e, 1, 2, 3]), ..sent.clone() };
    let later = Spec { fragment: (4, false), ..sent.clone() };
    let mut other = sent.frame();
    other[12..14].copy_from_slice(&[0x88, 0xb7]);
    let marked = |name, words| RuleMatch { fields: condition(name, words), ..base() };
    let of_tcp = RuleMatch { transport: Some(Transport::Tcp), ..marked("tcp_flags", "syn,!ack") };
    let cases: [(&str, RuleMatch, &str, Vec<u8>); 18] = [
        ("it takes it", base(), "S", sent.frame()),
        ("ingress port", RuleMatch { place: RulePlace::Port(port_d), ..base() }, "S", sent.frame()),
        ("function port", base(), "v1.out", sent.frame()),
        ("foreign header", base(), "S", headed),
        ("discovery", base(), "S", arp),
        ("multicast", base(), "S", group.frame()),
        ("no IP", base(), "S", other),
        ("VLAN wanted", RuleMatch { vlan: VlanId::new(7).ok(), ..base() }, "S", sent.frame()),
        ("VLAN found", base(), "S", Spec { vlan: Some(9), ..sent.clone() }.frame()),
        ("family", base(), "S", v6.frame()),
        ("protocol", base(), "S", tcp.frame()),
        ("source", RuleMatch { source: "10.0.9.0/24".parse().ok(), ..base() }, "S", sent.frame()),
        (
            "destination",
            RuleMatch { destination: "10.0.0.1/32".parse().ok(), ..base() },
            "S",
            sent.frame(),
        ),
        ("source port", RuleMatch { source_ports: range(1, 1_023), ..base() }, "S", sent.frame()),
        ("no ports", base(), "S", later.frame()),
        ("DSCP", marked("dscp", "ef"), "S", sent.frame()),
        ("TCP flags", of_tcp, "S", tcp.frame()),
        ("no TCP flags", marked("tcp_flags", "syn"), "S", sent.frame()),
    ];
    let mut text = String::new();
    for (name, matches, port, frame) in cases {
        for (_, said) in judge(town(matches), port, &frame) {
            writeln!(text, "{name:<15} {said}").unwrap();
        }
    }
    let plain = Spec { ports: (40_000, 9), ..sent.clone() }.frame();
    for (_, said) in judge(town(base()), "S", &plain) {
        writeln!(text, "{:<15} {said}", "port").unwrap();
    }
    golden("why-not", &text);
}

#[test]
fn an_earlier_rule_another_network_and_a_path_without_rules_are_told_of() {
    let sent = packet(&three_hosts(), CHAINED_PORT).frame();
    let mut text = String::new();
    let mut say = |name: &str, town: Town, port: &str| {
        for (_, said) in judge(town, port, &sent) {
            writeln!(text, "{name:<15} {said}").unwrap();
        }
    };
    let mut before = town(base());
    before.chain("urgent", Encapsulation::Mpls, &[&["v2"]], &[base()]).rules[0].0 = 20;
    say("earlier rule", before, "S");
    let mut foreign = town(base());
    let network = foreign.network(300, &["10.0.0.0/24"]);
    foreign.endpoint("T", 0, network, &["10.0.0.1"]);
    say("network", foreign, "T");
    let mut installing = town(base());
    installing.chains[0].rules.clear();
    say("installing", installing, "S");
    golden("why-not-order", &text);
}
