//! Packets that rules are about. Knows what a rule asks of addresses, protocol and ports; refuses to know what becomes
//! of them.

use super::traffic::Shape;
use crate::random::Random;
use catena_rules::condition::{Subject, Test};
use catena_rules::rule_set::{Rule, RuleSet};
use catena_wire::field::Field;
use catena_wire::scalar::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// So many frames, of which each is drawn from what one rule asks for by value of addresses, protocol and ports; always
/// the same. What it asks for otherwise (negated, states, types, a jump before it) they may not have.
#[must_use]
pub fn frames(sets: &[RuleSet], count: usize) -> Vec<Vec<u8>> {
    let rules = |set: &RuleSet| -> Vec<(bool, Rule)> {
        let is_v6 = set.bases.iter().all(|base| !base.families.v4);
        let rules = set.chains.iter().flat_map(|chain| &chain.rules);
        rules.map(|rule| (is_v6, rule.clone())).collect()
    };
    let rules: Vec<(bool, Rule)> = sets.iter().flat_map(rules).collect();
    let mut draws = Random::new(1);
    let mut frame = || {
        let (is_v6, rule) = rules.get(draws.below(rules.len()))?;
        shape(rule, *is_v6, &mut draws).frame()
    };
    (0..count).filter_map(|_| frame()).collect()
}

/// A packet that has what a rule asks of addresses, protocol and ports, as far as it asks for one of some values.
fn shape(rule: &Rule, is_v6: bool, draws: &mut Random) -> Shape {
    let mut shape = Shape::draw(draws);
    let mut wanted = |field, otherwise: u128| value(rule, field, draws).unwrap_or(otherwise);
    let end = |wanted: u128| match is_v6 {
        true => IpAddr::V6(Ipv6Addr::from(wanted)),
        false => IpAddr::V4(Ipv4Addr::from(wanted as u32)),
    };
    let others =
        if is_v6 { [0xfd00 << 112 | 1, 0xfd00 << 112 | 2] } else { [0x0a00_0001, 0x0a00_0002] };
    shape.ends =
        (end(wanted(Field::Source, others[0])), end(wanted(Field::Destination, others[1])));
    shape.protocol = IpProtocol(wanted(Field::Protocol, IpProtocol::TCP.0.into()) as u8);
    let (from, to) = (wanted(Field::SourcePort, 40_000), wanted(Field::DestinationPort, 80));
    shape.ports = (from as u16, to as u16);
    shape.is_later_fragment = false;
    shape
}

/// One of the values that a rule asks for.
fn value(rule: &Rule, field: Field, draws: &mut Random) -> Option<u128> {
    let mut about = rule.conditions().filter(|one| !one.is_negated);
    let about = about.find(|one| one.subjects.contains(&Subject::Field(field)))?;
    let Test::In(ranges) = &about.test else { return None };
    let range = draws.pick(ranges)?;
    let others = range.last.saturating_sub(range.first).saturating_add(1);
    Some(range.first + u128::from(draws.number()) % others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Function;
    use crate::firewall::Firewall;
    use crate::outcome::{Outcomes, Verdict};
    use crate::packet::{Direction, Packet, Time};
    use catena_rules::rule_set::Families;
    use catena_rules::{ReadOptions, iptables};

    #[test]
    fn packets_of_rules_are_what_the_rules_ask_for() {
        let v4 = "*filter\n:FORWARD ACCEPT [0:0]\n\
            -A FORWARD -s 10.1.0.0/16 -d 192.0.2.7/32 -p tcp -m tcp --dport 80:89 -j DROP\n\
            -A FORWARD -s 10.2.0.0/16 -p udp -m udp --sport 53 -j DROP\nCOMMIT\n";
        let v6 = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -s fd07::/16 -j DROP\nCOMMIT\n";
        let read = |text, families| {
            let options = ReadOptions { file: "edge".into(), ..ReadOptions::default() };
            iptables::read(text, families, &options).unwrap()
        };
        let sets = [read(v4, Families::V4), read(v6, Families::V6)];
        let mut firewall = Firewall::new(&sets).unwrap();
        let frames = frames(&sets, 300);
        assert_eq!(frames.len(), 300);
        let mut outcomes = Outcomes::default();
        for frame in &frames {
            let packet = Packet::read(frame).unwrap();
            firewall.process(Time::seconds(1), Direction::Forward, &[packet], &mut outcomes);
            assert!(matches!(outcomes.verdicts()[0], Verdict::Drop(_)), "{frame:?}");
        }
    }
}
