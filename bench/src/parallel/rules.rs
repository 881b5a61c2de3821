//! Rules of two functions held against each other, the needless ones of one found, and the class of a header looked up,
//! over sets like those of ClassBench: prefixes, protocols and ports at random.

use super::serving::Measured;
use crate::engine::wrong;
use crate::results::{Better, Figure, Goal, Notes};
use catena_model::bundle::Configuration;
use catena_nf::firewall::Firewall;
use catena_nf::harness::traffic::Shape;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::random::Random;
use catena_nf::{Function, registry};
use catena_plan::policy::{RuleRanges, analyse_rules};
use catena_rules::ReadRules;
use catena_wire::scalar::IpProtocol;
use serde_json::json;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const RULES: usize = 10_000;
/// Goals, milliseconds.
const OVERLAP_MS: f64 = 100.0;
const REDUNDANCY_MS: f64 = 1_000.0;
const ONE_RULE_MS: f64 = 1.0;
/// Goal, nanoseconds.
const LOOKUP_NS: f64 = 100.0;
/// Headers that are looked up for one sample.
const LOOKUPS: usize = 1_024;

pub(super) fn figures() -> [Figure; 4] {
    let figure = |name, unit, goal| Figure::new(name, unit, Better::Lower, Goal::Value(goal));
    [
        figure("overlap_10k_ms", "ms", OVERLAP_MS),
        figure("redundancy_10k_ms", "ms", REDUNDANCY_MS),
        figure("one_rule_ms", "ms", ONE_RULE_MS),
        figure("class_lookup_ns", "ns", LOOKUP_NS),
    ]
}

/// A rule, as whoever compares each with each holds it.
#[derive(Clone, Copy)]
struct Cube {
    source: (u32, u32),
    destination: (u32, u32),
    protocol: u8,
    ports: (u16, u16),
}

impl Cube {
    fn draw(draws: &mut Random) -> Self {
        let prefix = |draws: &mut Random| {
            let bits = [0, 8, 12, 16, 20, 24, 28, 32];
            let bits = draws.pick(&bits).unwrap_or(32);
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            // Of a few networks, so that rules meet.
            let host = 0x0a00_0000 | (draws.number() as u32 & 0x000f_ffff);
            (host & mask, bits)
        };
        let low = draws.below(60_000) as u16;
        let ports = match draws.below(3) {
            0 => (0, u16::MAX),
            1 => (low, low),
            _ => (low, low + draws.below(5_000) as u16),
        };
        let (source, destination) = (prefix(draws), prefix(draws));
        let protocol = if draws.below(2) == 0 { 6 } else { 17 };
        Self { source, destination, protocol, ports }
    }

    fn meets(&self, other: &Self) -> bool {
        let within = |(one, bits): (u32, u32), (other, others): (u32, u32)| {
            let mask = u32::MAX.checked_shl(32 - bits.min(others)).unwrap_or(0);
            one & mask == other & mask
        };
        self.protocol == other.protocol
            && self.ports.0 <= other.ports.1
            && other.ports.0 <= self.ports.1
            && within(self.source, other.source)
            && within(self.destination, other.destination)
    }

    /// A header, some fields of which are those of the rule.
    fn header(&self, draws: &mut Random) -> Shape {
        let host = |(network, bits): (u32, u32), draws: &mut Random| {
            let free = u32::MAX.checked_shr(bits).unwrap_or(0);
            IpAddr::from(Ipv4Addr::from(network | draws.number() as u32 & free))
        };
        let ends = (host(self.source, draws), host(self.destination, draws));
        let (low, high) = self.ports;
        let ports = (40_000, low + draws.below(usize::from(high - low) + 1) as u16);
        let protocol = IpProtocol(self.protocol);
        let (traffic_class, vlan) = (0, None);
        Shape {
            ends,
            protocol,
            ports,
            traffic_class,
            vlan,
            is_later_fragment: false,
            ..Shape::draw(draws)
        }
    }

    fn has(&self, header: &Shape) -> bool {
        let within = |(network, bits): (u32, u32), end: IpAddr| {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            matches!(end, IpAddr::V4(end) if end.to_bits() & mask == network)
        };
        self.protocol == header.protocol.0
            && (self.ports.0..=self.ports.1).contains(&header.ports.1)
            && within(self.source, header.ends.0)
            && within(self.destination, header.ends.1)
    }

    /// As iptables-save writes it.
    fn line(&self, verdict: &str) -> String {
        let address = |(address, bits): (u32, u32)| format!("{}/{bits}", Ipv4Addr::from(address));
        let protocol = if self.protocol == 6 { "tcp" } else { "udp" };
        let (low, high) = self.ports;
        let ports = match (low, high) {
            (0, u16::MAX) => String::new(),
            _ => format!(" -m {protocol} --dport {low}:{high}"),
        };
        let (source, destination) = (address(self.source), address(self.destination));
        format!("-A FORWARD -s {source} -d {destination} -p {protocol}{ports} -j {verdict}")
    }
}

/// A set of rules, and as a firewall reads them.
fn set(seed: u64, count: usize) -> Measured<(Vec<Cube>, ReadRules)> {
    let mut draws = Random::new(seed);
    let cubes: Vec<Cube> = (0..count).map(|_| Cube::draw(&mut draws)).collect();
    let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n".to_owned();
    for cube in &cubes {
        let verdict = if draws.below(2) == 0 { "DROP" } else { "ACCEPT" };
        writeln!(text, "{}", cube.line(verdict)).ok();
    }
    text.push_str("COMMIT\n");
    let config = json!({"file": {"name": "bench.iptables", "text": text}}).to_string();
    let configuration = Configuration::new("firewall", config);
    let rules = registry::rules(&configuration).map_err(|error| wrong("rules", &error))?;
    Ok((cubes, rules))
}

/// In turns with each held against each; the counts must be the same.
pub(super) fn measure(samples: usize, is_quick: bool, notes: &mut Notes) -> Measured<()> {
    let ms = |began: Instant| began.elapsed().as_secs_f64() * 1e3;
    let count = if is_quick { RULES / 10 } else { RULES };
    let ((cubes, rules), (other_cubes, other_rules)) = (set(1, count)?, set(2, count)?);
    for sample in 1..=samples {
        eprintln!("bench: overlap_10k_ms, sample {sample} of {samples}");
        let began = Instant::now();
        let found = ranges(&rules)?.overlaps(&ranges(&other_rules)?);
        let took = ms(began);
        let began = Instant::now();
        let pairs: usize = cubes
            .iter()
            .map(|one| other_cubes.iter().filter(|other| one.meets(other)).count())
            .sum();
        let others_took = ms(began);
        if found.is_none_or(|found| found.pairs != pairs) {
            return Err(wrong("overlaps", &format!("{found:?} for {pairs} pairs")));
        }
        notes.take("overlap_10k_ms", true, took);
        notes.take("overlap_10k_ms", false, others_took);
    }
    for sample in 1..=samples.min(3) {
        eprintln!("bench: redundancy_10k_ms, sample {sample} of {}", samples.min(3));
        let began = Instant::now();
        let analysed = analyse_rules(&rules).map_err(|error| wrong("rules", &error))?;
        notes.take("redundancy_10k_ms", true, ms(began));
        if analysed.rules != count {
            return Err(wrong("rules", &format!("{} of {count} were looked at", analysed.rules)));
        }
    }
    one_rule((&cubes, &rules), samples, notes)?;
    lookups(&cubes, &rules, samples, notes)
}

fn ranges(rules: &ReadRules) -> Measured<RuleRanges> {
    RuleRanges::of(rules).ok_or_else(|| wrong("rules", &"their ranges are not known"))
}

/// Which of all rules a new one meets.
fn one_rule(
    (cubes, rules): (&[Cube], &ReadRules),
    samples: usize,
    notes: &mut Notes,
) -> Measured<()> {
    let rules = ranges(rules)?;
    for sample in 1..=samples {
        let (new, new_rules) = set(2 + sample as u64, 1)?;
        let began = Instant::now();
        let found = ranges(&new_rules)?.overlaps(&rules);
        notes.take("one_rule_ms", true, began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        let pairs = cubes.iter().filter(|one| new.iter().any(|new| new.meets(one))).count();
        notes.take("one_rule_ms", false, began.elapsed().as_secs_f64() * 1e3);
        if found.is_none_or(|found| found.pairs != pairs) {
            return Err(wrong("one rule", &format!("{found:?} for {pairs} pairs")));
        }
    }
    Ok(())
}

/// The first rule that has a header, as a firewall finds it and as a look at each rule does.
fn lookups(cubes: &[Cube], rules: &ReadRules, samples: usize, notes: &mut Notes) -> Measured<()> {
    let ReadRules::Filter(sets) = rules else { return Err(wrong("lookups", &"no filter")) };
    let firewall = Firewall::new(sets).map_err(|error| wrong("lookups", &error))?;
    let mut draws = Random::new(3);
    let headers = (0..LOOKUPS).filter_map(|_| Some(draws.pick(cubes)?.header(&mut draws)));
    let headers: Vec<Shape> = headers.collect();
    let frames: Vec<Vec<u8>> = headers.iter().filter_map(Shape::frame).collect();
    let packets: Vec<Packet<'_>> =
        frames.iter().filter_map(|frame| Packet::read(frame).ok()).collect();
    let ns = |began: Instant| began.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64;
    for sample in 1..=samples {
        eprintln!("bench: class_lookup_ns, sample {sample} of {samples}");
        let began = Instant::now();
        let ask = |packet| firewall.ask(Time::default(), Direction::Forward, packet).rules;
        let found: Vec<Option<u32>> =
            packets.iter().map(|packet| ask(packet).last().copied()).collect();
        notes.take("class_lookup_ns", true, ns(began));
        let began = Instant::now();
        let first = |header| cubes.iter().position(|cube| cube.has(header));
        let expected: Vec<Option<usize>> = headers.iter().map(first).collect();
        notes.take("class_lookup_ns", false, ns(began));
        let is_same = |(found, expected): (&Option<u32>, &Option<usize>)| {
            found.map(|rule| rule as usize) == *expected
        };
        if found.len() != expected.len() || !found.iter().zip(&expected).all(is_same) {
            return Err(wrong("lookups", &"a header has another class"));
        }
    }
    Ok(())
}
