//! How long a firewall takes over packets that its rules are about, with all of them and without some: both are asked,
//! in turns, on this machine. Knows how to draw packets of rules; refuses to know which rules were left out.

use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::harness::traffic::Shape;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::random::Random;
use catena_nf::registry::{Surroundings, make};
use catena_rules::condition::{Subject, Test};
use catena_rules::rule_set::{Rule, RuleSet};
use catena_wire::field::Field;
use catena_wire::scalar::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

const PACKETS: usize = 1_024;
/// Packets that come together.
const TOGETHER: usize = 32;
/// Turns of each firewall; the figure is their median.
const ROUNDS: usize = 31;

/// What a packet takes in nanoseconds with one configuration and with the other. None: one of them makes no firewall.
pub(super) fn pace(configurations: [&Configuration; 2], sets: &[RuleSet]) -> Option<[f64; 2]> {
    let made = |configuration| make(configuration, &Surroundings::default()).ok();
    let mut functions = [made(configurations[0])?.function, made(configurations[1])?.function];
    let frames = frames(sets);
    let packets: Vec<Packet<'_>> = frames.iter().filter_map(|one| Packet::read(one).ok()).collect();
    if packets.is_empty() {
        return None;
    }
    let mut took: [Vec<f64>; 2] = Default::default();
    for round in 0..ROUNDS {
        for (function, took) in functions.iter_mut().zip(&mut took) {
            took.push(ask(function.as_mut(), &packets, Time::seconds(round as u64)));
        }
    }
    Some(took.map(|mut took| {
        took.sort_unstable_by(f64::total_cmp);
        took.get(ROUNDS / 2).copied().unwrap_or_default()
    }))
}

/// What a packet takes, in nanoseconds.
fn ask(function: &mut dyn Function, packets: &[Packet<'_>], now: Time) -> f64 {
    let mut outcomes = Outcomes::default();
    let start = Instant::now();
    for batch in packets.chunks(TOGETHER) {
        function.process(now, Direction::Forward, batch, &mut outcomes);
    }
    start.elapsed().as_nanos() as f64 / packets.len() as f64
}

/// Frames of which each is drawn from what one rule asks for.
pub(super) fn frames(sets: &[RuleSet]) -> Vec<Vec<u8>> {
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
    (0..PACKETS).filter_map(|_| frame()).collect()
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
