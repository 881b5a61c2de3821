//! When each packet leaves, beside a bucket that is filled token by token; bounds; and the profile.

use super::*;
use crate::harness::traffic::{self, Random, Shape};
use crate::harness::verify;
use crate::outcome::GeneratedKind;
use catena_rules::qos::{QosKind, read};
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::TcpFlags;
use proptest::prelude::*;
use std::collections::BTreeMap;

const UPLINK: &str = include_str!("../../../../conformance/nf/shaper/uplink.yaml");
const SLOW: &str = include_str!("../../../../conformance/nf/shaper/slow.json");

fn shaper(text: &str) -> Shaper {
    Shaper::new(&read(text, "edge.yaml", QosKind::Shaper).unwrap_or_else(|wrong| panic!("{wrong}")))
}

/// A packet of so many bytes that is known by its number.
fn frame(bytes: usize, number: u16) -> Vec<u8> {
    let shape = Shape {
        ends: ("10.0.0.1".parse().unwrap(), "10.0.1.2".parse().unwrap()),
        protocol: IpProtocol::UDP,
        ports: (1, 2),
        flags: TcpFlags(0),
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: number,
        payload: vec![7; bytes - 28],
        vlan: None,
        is_later_fragment: false,
        macs: (MacAddr([2; 6]), MacAddr([4; 6])),
    };
    shape.frame().unwrap()
}

fn number_of(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[18], frame[19]])
}

/// When each packet has left, in the order in which they did, and what was said of those that have not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    at: Vec<(u16, Time)>,
    full: Vec<u16>,
    long: Vec<u16>,
}

/// Sends packets through a shaper that is woken whenever it wants, and at last until nothing waits.
fn send(shaper: &mut Shaper, arrivals: &[(Time, usize)]) -> Left {
    let mut left = Left::default();
    let mut outcomes = Outcomes::default();
    let mut wake = |shaper: &mut Shaper, until: Time, left: &mut Left| {
        while let Some(next) = shaper.waiting().next.filter(|next| *next <= until) {
            shaper.elapse(next, &mut outcomes);
            for (_, made) in outcomes.generated() {
                assert_eq!(
                    (made.kind, made.direction),
                    (GeneratedKind::Released, Direction::Forward)
                );
                left.at.push((number_of(outcomes.bytes(made.frame.clone())), next));
            }
        }
    };
    let mut own = Outcomes::default();
    for (number, (now, bytes)) in (0..).zip(arrivals) {
        wake(shaper, *now, &mut left);
        let frame = frame(*bytes, number);
        shaper.process(*now, Direction::Forward, &[Packet::read(&frame).unwrap()], &mut own);
        assert!(own.generated().is_empty(), "what was due has gone");
        match own.verdicts()[0] {
            Verdict::Pass => left.at.push((number, *now)),
            Verdict::Hold => {}
            Verdict::Drop(DropCause::Full) => left.full.push(number),
            Verdict::Drop(DropCause::Rule(rule)) => {
                assert_eq!(rule, 1);
                left.long.push(number);
            }
        }
    }
    wake(shaper, Time(u64::MAX), &mut left);
    assert_eq!(shaper.waiting(), Waiting::default());
    left
}

/// A queue before a bucket that is filled token by token, moment by moment.
fn reference(
    (bytes_per_second, burst, queue): (u64, u64, u64),
    arrivals: &[(Time, usize)],
) -> Left {
    let mut left = Left::default();
    let mut waiting: Vec<(u16, u64)> = Vec::new();
    let mut tokens = burst;
    let mut ticks = 0_u64;
    let mut rest = (0..).zip(arrivals).peekable();
    while rest.peek().is_some() || !waiting.is_empty() {
        // The n-th token comes at the first nanosecond that is not before n / rate seconds.
        let tick =
            Time((u128::from(ticks + 1) * 1_000_000_000).div_ceil(u128::from(bytes_per_second))
                as u64);
        let comes = rest.peek().map(|(_, (now, _))| *now);
        let now = comes.map_or(tick, |comes| comes.min(tick));
        if tick == now {
            ticks += 1;
            tokens = (tokens + 1).min(burst);
        } else if let Some((number, (_, bytes))) = rest.next() {
            let bytes = *bytes as u64;
            let waits: u64 = waiting.iter().map(|(_, bytes)| bytes).sum();
            if bytes > burst {
                left.long.push(number);
            } else if (waiting.is_empty() && tokens >= bytes) || waits + bytes <= queue {
                waiting.push((number, bytes));
            } else {
                left.full.push(number);
            }
        }
        while let Some((number, _)) = waiting.first().copied().filter(|(_, bytes)| *bytes <= tokens)
        {
            tokens -= waiting.remove(0).1;
            left.at.push((number, now));
        }
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn each_packet_leaves_when_a_bucket_says_that_is_filled_token_by_token(
        bytes_per_second in prop_oneof![20_000_u64..400_000, 1_000_000_u64..3_000_000],
        burst in 300_u64..4_000,
        queue in 0_u64..9_000,
        gaps in prop::collection::vec(
            (prop_oneof![Just(0), 0_u64..300_000, 0_u64..4_000_000], 28_usize..1_000), 1..60),
    ) {
        let mut now = 0;
        let arrivals: Vec<(Time, usize)> = gaps
            .iter()
            .map(|(gap, bytes)| {
                now += gap;
                (Time(now), *bytes)
            })
            .collect();
        let text = format!(
            "classes: [{{name: all, shape: {{rate: {}, burst: {burst}, queue: {queue}}}}}]",
            bytes_per_second * 8
        );
        let left = send(&mut shaper(&text), &arrivals);
        prop_assert_eq!(left, reference((bytes_per_second, burst, queue), &arrivals));
    }
}

#[test]
fn a_long_stream_leaves_at_the_rate_and_what_finds_no_room_ends() {
    let mut random = Random::new(9);
    let mut now = 0;
    let arrivals: Vec<(Time, usize)> = (0..6_000)
        .map(|_| {
            now += random.below(1_400_000) as u64;
            (Time(now), 40 + random.below(1_460))
        })
        .collect();
    let text = "classes: [{name: all, shape: {rate: 8mbit, burst: 3000, queue: 20000}}]";
    let left = send(&mut shaper(text), &arrivals);
    assert_eq!(left, reference((1_000_000, 3_000, 20_000), &arrivals));
    let bytes: usize = left.at.iter().map(|(number, _)| arrivals[usize::from(*number)].1).sum();
    let took = left.at.last().unwrap().1.0;
    println!(
        "{} left with {bytes} bytes in {took} ns, {} found no room",
        left.at.len(),
        left.full.len()
    );
    assert!(left.full.len() > 300 && left.at.len() > 3_000);
    assert!(bytes as u64 <= took / 1_000 + 3_000, "no more than the rate and one burst");
}

#[test]
fn late_calls_make_no_packet_late_that_is_behind() {
    let text = "classes: [{name: all, shape: {rate: 8mbit, burst: 1000, queue: 9000}}]";
    let mut shaper = shaper(text);
    let frames: Vec<Vec<u8>> = (0..5).map(|number| frame(1_000, number)).collect();
    let batch: Vec<Packet<'_>> = frames.iter().map(|frame| Packet::read(frame).unwrap()).collect();
    let mut outcomes = Outcomes::default();
    shaper.process(Time(0), Direction::Forward, &batch, &mut outcomes);
    assert_eq!(outcomes.verdicts(), [&[Verdict::Pass][..], &[Verdict::Hold; 4]].concat());
    // Nobody has called at 1 and 2 ms: both go at once, in their order, and the third in its time.
    shaper.elapse(Time(2_300_000), &mut outcomes);
    let numbers: Vec<u16> = outcomes
        .generated()
        .iter()
        .map(|(_, made)| number_of(outcomes.bytes(made.frame.clone())))
        .collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(shaper.waiting(), Waiting { packets: 2, next: Some(Time(3_000_000)) });
    // What comes meanwhile goes behind what waits; what was due goes before it.
    let last = frame(100, 5);
    shaper.process(
        Time(3_050_000),
        Direction::Forward,
        &[Packet::read(&last).unwrap()],
        &mut outcomes,
    );
    assert_eq!((outcomes.verdicts(), outcomes.generated().len()), (&[Verdict::Hold][..], 1));
    assert_eq!(shaper.waiting(), Waiting { packets: 2, next: Some(Time(4_000_000)) });
}

#[test]
fn classes_have_buckets_of_their_own_and_others_pass() {
    let text = "classes:\n\
        - {name: one, match: {direction: forward}, shape: {rate: 8kbit, burst: 100, queue: 100}}\n\
        - {name: two, match: {dscp: 46}, shape: {rate: 8kbit, burst: 100, queue: 0}}\n";
    let mut shaper = shaper(text);
    let frames = [frame(100, 0), frame(100, 1), frame(100, 2), frame(101, 3)];
    let batch = frames.each_ref().map(|frame| Packet::read(frame).unwrap());
    let mut outcomes = Outcomes::default();
    let [full, long] = [DropCause::Full, DropCause::Rule(1)].map(Verdict::Drop);
    shaper.process(Time(0), Direction::Forward, &batch, &mut outcomes);
    assert_eq!(outcomes.verdicts(), [Verdict::Pass, Verdict::Hold, full, long]);
    shaper.process(Time(0), Direction::Backward, &batch, &mut outcomes);
    assert_eq!(outcomes.verdicts(), [Verdict::Pass; 4]);
    let mut counts = Vec::new();
    shaper.report(&mut counts);
    let counts: Vec<u64> = counts.iter().map(|count| count.packets).collect();
    assert_eq!(counts, [2, 1, 1, 0, 0, 0, 4]);
    assert_eq!(shaper.rule_in_words(0).unwrap(), "edge.yaml, class one: leave at 8kbit");
    assert_eq!(shaper.rule_in_words(6).unwrap(), "edge.yaml, no class: pass");
}

#[test]
fn the_profile_is_true() {
    let inputs = traffic::draw(41, 12_000);
    let busy = "classes:\n\
        - {name: web, match: {protocol: tcp}, shape: {rate: 900mbit, burst: 9000, queue: 60000}}\n\
        - {name: all, shape: {rate: 700mbit, burst: 3000, queue: 20000}}\n";
    for (text, held, dropped) in [(busy, 2_000, 40), (UPLINK, 100, 1_000), (SLOW, 40, 5_000)] {
        let proof = verify(|| shaper(text), &inputs, 7).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{proof:?}");
        assert!(proof.held >= held && proof.dropped >= dropped, "{proof:?}");
    }
}

#[test]
fn what_waits_stays_and_what_comes_to_another_leaves_behind_it() {
    let text = "classes: [{name: all, shape: {rate: 8mbit, burst: 1000, queue: 3000}}]";
    let mut before = shaper(text);
    let first: Vec<(Time, usize)> = (0..4).map(|_| (Time(0), 1_000)).collect();
    let frames: Vec<Vec<u8>> = (0..4).map(|number| frame(first[number].1, number as u16)).collect();
    let batch: Vec<Packet<'_>> = frames.iter().map(|frame| Packet::read(frame).unwrap()).collect();
    let mut outcomes = Outcomes::default();
    before.process(Time(0), Direction::Forward, &batch, &mut outcomes);
    let mut entries = Vec::new();
    before.export(true, &mut entries);
    let mut after = shaper(text);
    assert_eq!(after.import(&entries), entries.len());
    assert_eq!(after.waiting(), Waiting::default());
    // There is no room yet, as three wait at the other.
    let left = send(&mut after, &[(Time(500_000), 1_000), (Time(1_000_000), 1_000)]);
    assert_eq!(left, Left { at: vec![(1, Time(4_000_000))], full: vec![0], long: vec![] });
    let mut tried = BTreeMap::new();
    for entry in &entries {
        let value = entry.value.clone().unwrap();
        for at in 0..value.len() * 8 {
            let mut turned = entry.clone();
            turned.value.as_mut().unwrap()[at / 8] ^= 1 << (at % 8);
            let cut = StateEntry { key: entry.key.clone(), value: Some(value[..at / 8].to_vec()) };
            for wrong in [turned, cut] {
                let mut other = shaper(text);
                *tried.entry(other.import(&[wrong])).or_insert(0) += 1;
                other.process(Time(1), Direction::Forward, &batch, &mut outcomes);
                other.elapse(Time(u64::MAX), &mut outcomes);
            }
        }
    }
    assert!(tried[&0] > 300 && tried[&1] > 300 && tried.len() == 2, "{tried:?}");
}
