//! Colours beside the RFCs carried out word by word, what becomes of packets of each, and the profile.

use super::*;
use crate::harness::traffic::{self, Shape};
use crate::harness::verify;
use catena_rules::qos::{QosKind, read};
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::TcpFlags;
use proptest::prelude::*;

const EDGE: &str = include_str!("../../../../conformance/nf/policer/edge.yaml");
const SIX: &str = include_str!("../../../../conformance/nf/policer/six.json");
/// Code points of packets that come green, yellow and red; for colours that they leave with.
const CAME: [u8; 3] = [0, 12, 14];
const LEAVES: [u8; 3] = [40, 41, 42];

fn policer(text: &str) -> Policer {
    let config = read(text, "edge.yaml", QosKind::Policer);
    Policer::new(&config.unwrap_or_else(|wrong| panic!("{wrong}\n{text}")))
}

/// A meter that tells its colours by code points.
fn metering(meter: &str, is_aware: bool) -> Policer {
    let aware = if is_aware { ", aware: {yellow: 12, red: 14}" } else { "" };
    policer(&format!(
        "classes: [{{name: all, police: {{{meter}{aware}, green: 40, yellow: 41, red: 42}}}}]"
    ))
}

fn frame(bytes: usize, dscp: u8) -> Vec<u8> {
    let shape = Shape {
        ends: ("10.0.0.1".parse().unwrap(), "10.0.1.2".parse().unwrap()),
        protocol: IpProtocol::UDP,
        ports: (1, 2),
        flags: TcpFlags(0),
        options: Vec::new(),
        traffic_class: dscp << 2,
        ttl: 64,
        identification: 1,
        payload: vec![0; bytes - 28],
        vlan: None,
        is_later_fragment: false,
        macs: (MacAddr([2; 6]), MacAddr([4; 6])),
    };
    shape.frame().unwrap()
}

/// The colour that a packet leaves with: 0, 1, 2.
fn colour_of(policer: &mut Policer, now: Time, (bytes, came): (usize, usize)) -> usize {
    let frame = frame(bytes, CAME[came]);
    let mut outcomes = Outcomes::default();
    let packet = Packet::read(&frame).unwrap();
    policer.process(now, Direction::Forward, &[packet], &mut outcomes);
    let patch = outcomes.patches_of(0).next().expect("each is marked");
    LEAVES.iter().position(|dscp| u128::from(*dscp) == patch.value).expect("a colour")
}

/// Tokens that come one after the other, the n-th at n / rate seconds.
struct Ticks {
    bytes_per_second: u64,
    seen: u64,
}

impl Ticks {
    /// Calls for each that has come until now.
    fn until(&mut self, now: Time, mut tick: impl FnMut()) {
        let is_due = |number: u64| {
            u128::from(number) * 1_000_000_000
                <= u128::from(now.0) * u128::from(self.bytes_per_second)
        };
        while is_due(self.seen + 1) {
            self.seen += 1;
            tick();
        }
    }
}

/// RFC 2697 section 3, word by word.
struct Rfc2697 {
    ticks: Ticks,
    cbs: u64,
    ebs: u64,
    tc: u64,
    te: u64,
}

impl Rfc2697 {
    fn new(bytes_per_second: u64, cbs: u64, ebs: u64) -> Self {
        Self { ticks: Ticks { bytes_per_second, seen: 0 }, cbs, ebs, tc: cbs, te: ebs }
    }

    fn meter(&mut self, now: Time, (bytes, came): (u64, usize)) -> usize {
        let Self { ticks, cbs, ebs, tc, te } = self;
        ticks.until(now, || {
            if *tc < *cbs {
                *tc += 1;
            } else if *te < *ebs {
                *te += 1;
            }
        });
        if came == 0 && *tc >= bytes {
            *tc -= bytes;
            0
        } else if (came == 0 || came == 1) && *te >= bytes {
            *te -= bytes;
            1
        } else {
            2
        }
    }
}

/// RFC 2698 section 3, word by word.
struct Rfc2698 {
    committed: Ticks,
    peak: Ticks,
    cbs: u64,
    pbs: u64,
    tc: u64,
    tp: u64,
}

impl Rfc2698 {
    fn new((cir, cbs): (u64, u64), (pir, pbs): (u64, u64)) -> Self {
        let ticks = |bytes_per_second| Ticks { bytes_per_second, seen: 0 };
        Self { committed: ticks(cir), peak: ticks(pir), cbs, pbs, tc: cbs, tp: pbs }
    }

    fn meter(&mut self, now: Time, (bytes, came): (u64, usize)) -> usize {
        let Self { committed, peak, cbs, pbs, tc, tp } = self;
        committed.until(now, || *tc = (*tc + 1).min(*cbs));
        peak.until(now, || *tp = (*tp + 1).min(*pbs));
        if came == 2 || *tp < bytes {
            2
        } else if came == 1 || *tc < bytes {
            *tp -= bytes;
            1
        } else {
            *tp -= bytes;
            *tc -= bytes;
            0
        }
    }
}

/// Packets: nanoseconds behind the one before, bytes, the colour that it comes with.
fn arrivals() -> impl Strategy<Value = Vec<(u64, usize, usize)>> {
    let gap = prop_oneof![Just(0), 0_u64..3_000, 0_u64..2_000_000, 0_u64..20_000_000];
    prop::collection::vec((gap, 28_usize..1_500, 0_usize..3), 1..150)
}

/// A bucket that holds nothing, little, or several packets.
fn depth(least: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(least), least..100, 1_000_u64..9_000]
}

/// Holds a policer against what a reference says; `came` are the colours that count.
fn compare(
    policer: &mut Policer,
    arrivals: &[(u64, usize, usize)],
    is_aware: bool,
    mut meter: impl FnMut(Time, (u64, usize)) -> usize,
) -> [usize; 3] {
    let mut now = Time(0);
    let mut colours = [0; 3];
    for (gap, bytes, came) in arrivals {
        now.0 += gap;
        let seen = if is_aware { *came } else { 0 };
        let wanted = meter(now, (*bytes as u64, seen));
        assert_eq!(colour_of(policer, now, (*bytes, *came)), wanted, "at {now:?}, {bytes} bytes");
        colours[wanted] += 1;
    }
    let mut counts = Vec::new();
    policer.report(&mut counts);
    let counted: Vec<u64> = counts.iter().map(|count| count.packets).collect();
    assert_eq!(counted, [colours[0] as u64, colours[1] as u64, colours[2] as u64, 0]);
    colours
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_single_rate_meter_is_that_of_rfc_2697(
        cir in 1_u64..400_000, cbs in depth(0), ebs in depth(1), is_aware: bool, arrivals in arrivals()
    ) {
        let meter = format!("srtcm: {{cir: {}, cbs: {cbs}, ebs: {ebs}}}", cir * 8);
        let mut reference = Rfc2697::new(cir, cbs, ebs);
        compare(&mut metering(&meter, is_aware), &arrivals, is_aware, |now, packet| {
            reference.meter(now, packet)
        });
    }

    #[test]
    fn a_two_rate_meter_is_that_of_rfc_2698(
        cir in 1_u64..300_000, more in 0_u64..300_000, cbs in depth(1), pbs in depth(1),
        is_aware: bool, arrivals in arrivals()
    ) {
        let pir = cir + more;
        let meter =
            format!("trtcm: {{cir: {}, cbs: {cbs}, pir: {}, pbs: {pbs}}}", cir * 8, pir * 8);
        let mut reference = Rfc2698::new((cir, cbs), (pir, pbs));
        compare(&mut metering(&meter, is_aware), &arrivals, is_aware, |now, packet| {
            reference.meter(now, packet)
        });
    }
}

#[test]
fn each_colour_comes_in_a_long_stream_as_the_rfcs_say() {
    let mut random = traffic::Random::new(5);
    let arrivals: Vec<(u64, usize, usize)> = (0..20_000)
        .map(|at| {
            // Now and then nobody comes for long enough to fill what overflows.
            let pause = if at % 50 == 0 { 30_000_000 } else { 0 };
            let gap = pause + random.below(900_000) as u64;
            (gap, 28 + random.below(1_400), random.below(3))
        })
        .collect();
    for is_aware in [false, true] {
        let mut single = Rfc2697::new(700_000, 3_000, 5_000);
        let meter = "srtcm: {cir: 5600kbit, cbs: 3000, ebs: 5000}";
        let mut ours = metering(meter, is_aware);
        let one = compare(&mut ours, &arrivals, is_aware, |now, it| single.meter(now, it));
        let mut two = Rfc2698::new((600_000, 4_000), (1_100_000, 6_000));
        let meter = "trtcm: {cir: 4800kbit, cbs: 4000, pir: 8800kbit, pbs: 6000}";
        let mut ours = metering(meter, is_aware);
        let other = compare(&mut ours, &arrivals, is_aware, |now, it| two.meter(now, it));
        println!("aware {is_aware}: RFC 2697 {one:?}, RFC 2698 {other:?}");
        assert!(one.iter().chain(&other).all(|number| *number > 300), "{one:?} {other:?}");
    }
}

#[test]
fn packets_pass_are_marked_and_end_by_their_colours() {
    let text = "classes:\n- {name: small, match: {dscp: 0}, police: {srtcm: {cir: 8, cbs: 100, ebs: 100}, \
        yellow: af12}}\n";
    let mut policer = policer(text);
    assert!(policer.profile().drops);
    let frames = [frame(100, 0), frame(100, 0), frame(100, 0), frame(100, 46)];
    let batch = frames.each_ref().map(|frame| Packet::read(frame).unwrap());
    let mut outcomes = Outcomes::default();
    policer.process(Time(0), Direction::Forward, &batch, &mut outcomes);
    let ends = Verdict::Drop(DropCause::Rule(2));
    assert_eq!(outcomes.verdicts(), [Verdict::Pass, Verdict::Pass, ends, Verdict::Pass]);
    assert_eq!(outcomes.patches(), [(1, Patch::of(Field::Dscp, 12))]);
    let words: Vec<String> = (0..4).map(|rule| policer.rule_in_words(rule).unwrap()).collect();
    let wanted =
        ["class small, green: pass", "class small, yellow: mark af12", "class small, red: drop"];
    assert_eq!(words[..3], wanted.map(|words| format!("edge.yaml, {words}")));
    assert_eq!(words[3], "edge.yaml, no class: pass");
    let mut counts = Vec::new();
    policer.report(&mut counts);
    assert!(
        counts.iter().all(|count| *count == RuleCount { packets: 1, bytes: 100 }),
        "{counts:?}"
    );
}

#[test]
fn the_profile_is_true() {
    let inputs = traffic::draw(31, 12_000);
    let blind = "classes: [{name: all, police: {srtcm: {cir: 20mbit, cbs: 4000, ebs: 9000}, yellow: af43}}]";
    for (text, drops, patches) in [(EDGE, 3_000, 1_000), (SIX, 2_000, 0), (blind, 2_000, 30)] {
        let proof = verify(|| policer(text), &inputs, 7).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{proof:?}");
        assert!(proof.dropped >= drops && proof.patches >= patches, "{proof:?}");
    }
}

#[test]
fn buckets_go_on_under_the_name_of_their_class_and_are_never_fuller_than_they_may_be() {
    let text = |cbs, first| {
        let one = format!(
            "{{name: one, match: {{dscp: 0}}, police: {{srtcm: {{cir: 8, cbs: {cbs}, ebs: 0}}}}}}"
        );
        let two = "{name: two, match: {dscp: 46}, police: {srtcm: {cir: 8, cbs: 500, ebs: 0}}}";
        if first { format!("classes: [{one}, {two}]") } else { format!("classes: [{two}, {one}]") }
    };
    let take = |policer: &mut Policer, bytes: usize| {
        let frame = frame(bytes, 0);
        let mut outcomes = Outcomes::default();
        let batch = [Packet::read(&frame).unwrap()];
        policer.process(Time(0), Direction::Forward, &batch, &mut outcomes);
        outcomes.verdicts() == [Verdict::Pass]
    };
    let mut before = policer(&text(1_000, true));
    assert!(take(&mut before, 300));
    let mut entries = Vec::new();
    before.export(true, &mut entries);
    for (cbs, rest) in [(1_000, 700), (2_000, 700), (400, 400)] {
        // Another place, another depth.
        let mut after = policer(&text(cbs, false));
        assert_eq!(after.import(&entries), entries.len());
        assert!(!take(&mut after, rest + 1) && take(&mut after, rest), "{cbs}");
    }
    let mut rest = Vec::new();
    before.export(false, &mut rest);
    assert!(rest.is_empty(), "what has not changed is told once: {rest:?}");
    for entry in &entries {
        let value = entry.value.clone().unwrap();
        for at in 0..value.len() * 8 {
            let mut turned = entry.clone();
            turned.value.as_mut().unwrap()[at / 8] ^= 1 << (at % 8);
            let cut = StateEntry { key: entry.key.clone(), value: Some(value[..at / 8].to_vec()) };
            for wrong in [turned, cut] {
                let mut other = policer(&text(1_000, true));
                assert!(other.import(&[wrong]) <= 1);
                take(&mut other, 300);
                assert!(!take(&mut other, 1_001), "it holds no more than it may");
            }
        }
    }
}
