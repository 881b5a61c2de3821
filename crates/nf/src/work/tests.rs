//! How long packets stay, beside a server that is simulated by itself and beside the formula; the profile.

use super::*;
use crate::harness::traffic::{self, Random, Shape};
use crate::harness::{Input, verify};
use crate::outcome::GeneratedKind;
use catena_rules::work::read;

const WAITS: &str = include_str!("../../../../conformance/nf/work/waits.yaml");
const COMPUTES: &str = include_str!("../../../../conformance/nf/work/computes.json");

fn work(text: &str) -> Work {
    Work::new(&read(text, "work.yaml").unwrap_or_else(|wrong| panic!("{wrong}")))
}

/// How long packets that come then stay, in the order in which they leave; how many found no room.
fn stays(work: &mut Work, arrivals: &[Time], frame: &[u8]) -> (Vec<u64>, usize) {
    let mut stays = Vec::new();
    let mut came: VecDeque<Time> = VecDeque::new();
    let mut full = 0;
    let mut outcomes = Outcomes::default();
    let packet = Packet::read(frame).unwrap();
    let last = Time(u64::MAX);
    for now in arrivals.iter().chain([&last]) {
        while let Some(next) = work.waiting().next.filter(|next| next <= now) {
            work.elapse(next, &mut outcomes);
            for (_, made) in outcomes.generated() {
                assert_eq!(made.kind, GeneratedKind::Released);
                assert_eq!(outcomes.bytes(made.frame.clone()), frame);
                stays.push(next.since(came.pop_front().unwrap()));
            }
        }
        if *now == last {
            break;
        }
        work.process(*now, Direction::Forward, &[packet], &mut outcomes);
        match outcomes.verdicts()[0] {
            Verdict::Hold => came.push_back(*now),
            Verdict::Pass => stays.push(0),
            Verdict::Drop(cause) => {
                assert_eq!(cause, DropCause::Full);
                full += 1;
            }
        }
    }
    assert!(came.is_empty());
    (stays, full)
}

fn any_frame() -> Vec<u8> {
    Shape::draw(&mut Random::new(1)).frame().unwrap()
}

/// Moments that know nothing of one another, by a way of its own to draw them.
fn arrivals(seed: u64, mean_ns: f64, number: usize) -> Vec<Time> {
    let mut random = Random::new(seed);
    let mut now = 0.0;
    let mut next = || {
        let uniform = (random.number() >> 12) as f64 / (1_u64 << 52) as f64;
        now -= (1.0 - uniform).ln() * mean_ns;
        Time(now as u64)
    };
    (0..number).map(|_| next()).collect()
}

#[test]
fn fixed_times_are_those_of_one_server_with_a_queue() {
    let mut work = work("waits: {distribution: fixed, mean_ns: 1000, queue: 3}");
    let arrivals = [0, 0, 0, 0, 500, 1_000, 1_000, 9_000].map(Time);
    let (stays, full) = stays(&mut work, &arrivals, &any_frame());
    // Three are there; at 1,000 one has left, so that one of two finds room.
    assert_eq!((stays, full), (vec![1_000, 2_000, 3_000, 3_000, 1_000], 3));
    let mut counts = Vec::new();
    work.report(&mut counts);
    assert_eq!((counts.len(), counts[0].packets), (1, 8));
}

#[test]
fn exponential_times_make_the_queue_that_theory_says() {
    // M/M/1 with 0.6 of the server busy: the mean stay is 1 / (mu - lambda) (Kleinrock, 1975, section 3.2).
    let mut work =
        work("waits: {distribution: exponential, mean_ns: 60000, queue: 65536}\nseed: 5");
    let arrivals = arrivals(77, 100_000.0, 200_000);
    let (stays, full) = stays(&mut work, &arrivals, &any_frame());
    let mean = stays.iter().map(|stay| *stay as f64).sum::<f64>() / stays.len() as f64;
    println!("{} packets stayed {mean:.0} ns in the mean; theory says 150000", stays.len());
    assert_eq!((stays.len(), full), (200_000, 0));
    assert!((mean / 150_000.0 - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn computing_lets_all_pass_and_draws_once_for_each_packet() {
    let mut work = work("computes: {distribution: exponential, mean_iterations: 50}\nseed: 3");
    let frame = any_frame();
    let mut wanted = work.draws.clone();
    let (stays, full) = stays(&mut work, &arrivals(1, 10.0, 1_000), &frame);
    assert_eq!((stays, full), (vec![0; 1_000], 0));
    let last = (0..1_000).map(|_| wanted.take()).last();
    assert!(last.is_some());
    assert_eq!(work.draws.state(), wanted.state());
}

#[test]
fn the_profile_is_true() {
    let inputs: Vec<Input> = traffic::draw(61, 12_000);
    let busy = "waits: {distribution: exponential, mean_ns: 1900, queue: 40}\nseed: 2";
    let slow = "waits: {distribution: exponential, mean_ns: 50000, queue: 20}\nseed: 2";
    let cases = [(WAITS, 12_000, 0), (busy, 9_000, 10), (slow, 500, 8_000), (COMPUTES, 0, 0)];
    for (text, held, dropped) in cases {
        let proof = verify(|| work(text), &inputs, 7).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{proof:?}");
        assert!(proof.held >= held && proof.dropped >= dropped, "{proof:?}");
    }
}

#[test]
fn state_that_is_cut_or_turned_is_taken_or_left() {
    let text = "waits: {distribution: fixed, mean_ns: 1000, queue: 9}";
    let frame = any_frame();
    let packet = Packet::read(&frame).unwrap();
    let mut before = work(text);
    let mut outcomes = Outcomes::default();
    before.process(Time(5), Direction::Forward, &[packet; 4], &mut outcomes);
    let mut entries = Vec::new();
    before.export(true, &mut entries);
    assert_eq!(entries.len(), 2);
    for entry in &entries {
        let value = entry.value.clone().unwrap();
        for at in 0..value.len() * 8 {
            let mut turned = entry.clone();
            turned.value.as_mut().unwrap()[at / 8] ^= 1 << (at % 8);
            let cut = StateEntry { key: entry.key.clone(), value: Some(value[..at / 8].to_vec()) };
            for wrong in [turned, cut] {
                let mut other = work(text);
                assert!(other.import(&[wrong]) <= 1);
                other.process(Time(9), Direction::Backward, &[packet], &mut outcomes);
                other.elapse(Time(u64::MAX), &mut outcomes);
            }
        }
    }
}
