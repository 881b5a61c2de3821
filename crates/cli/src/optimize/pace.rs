//! How long a firewall takes over packets that its rules are about, with all of them and without some: both are asked,
//! in turns, on this machine. Knows turns and medians; refuses to know which rules were left out.

use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::harness::ruled;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::registry::{Surroundings, make};
use catena_rules::rule_set::RuleSet;
use std::time::{Duration, Instant};

const PACKETS: usize = 1_024;
/// Packets that come together.
const TOGETHER: usize = 32;
/// Turns of each firewall at most; the figure is their median.
const ROUNDS: usize = 31;
/// No round begins after that, and none takes more packets than fit into a part of it.
const PATIENCE: Duration = Duration::from_secs(1);
const ROUND: Duration = Duration::from_millis(100);
/// Between turns, so that no connection of one lives in the next.
const REST_SECONDS: u64 = 10_000_000;

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
    let begun = Instant::now();
    let rounds = (0..ROUNDS).take_while(|round| *round == 0 || begun.elapsed() < PATIENCE);
    for round in rounds {
        let now = Time::seconds(REST_SECONDS * (1 + round as u64));
        // Neither always meets the packets first.
        for turn in [round, round + 1] {
            let which = turn % 2;
            took[which].push(ask(functions[which].as_mut(), &packets, now));
        }
    }
    Some(took.map(|mut took| {
        took.sort_unstable_by(f64::total_cmp);
        took.get(took.len() / 2).copied().unwrap_or_default()
    }))
}

/// What a packet takes, in nanoseconds.
fn ask(function: &mut dyn Function, packets: &[Packet<'_>], now: Time) -> f64 {
    let (mut outcomes, mut asked) = (Outcomes::default(), 0);
    let start = Instant::now();
    for batch in packets.chunks(TOGETHER) {
        function.process(now, Direction::Forward, batch, &mut outcomes);
        asked += batch.len();
        if start.elapsed() > ROUND {
            break;
        }
    }
    start.elapsed().as_nanos() as f64 / asked.max(1) as f64
}
