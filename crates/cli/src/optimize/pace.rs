//! How long a firewall takes over packets that its rules are about, with all of them and without some: both are asked,
//! in turns, on this machine. Knows turns and medians; refuses to know which rules were left out.

use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::harness::ruled;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::registry::{Surroundings, make};
use catena_rules::rule_set::RuleSet;
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
    let frames = ruled::frames(sets, PACKETS);
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
