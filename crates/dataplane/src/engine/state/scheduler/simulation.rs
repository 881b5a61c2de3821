//! A victim beside a flood, in virtual time: the scheduler with an exit of a gigabit a second, the
//! victim's packets in bursts at random times, the same with and without the flood.

use super::tests::{port, shared, slice, urgent, volume};
use super::*;
use catena_model::program::SliceRate;

const GIGABIT: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Pairs of runs, each with another seed.
const PAIRS: u64 = 24;
/// Two-sided 95 % of Student's t with 23 degrees of freedom.
const T_23: f64 = 2.069;
/// How much of its delay a victim may lose to a flood.
const RATIO_MAX: f64 = 1.1;

/// Splitmix64: the same seed gives the same run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Exponential with this mean: the gaps of a Poisson process.
    fn gap(&mut self, mean: f64) -> u64 {
        let uniform = ((self.next() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-uniform.ln() * mean) as u64
    }
}

/// Traffic of one slice: bursts of equal packets at random times.
#[derive(Clone, Copy)]
struct Load {
    policy: SlicePolicy,
    bits_per_second: u64,
    packet_bytes: u64,
    burst_packets: u64,
}

impl Load {
    fn arrivals(&self, seed: u64, seconds_ns: u64) -> Vec<u64> {
        let mut random = Random(seed);
        let burst_bits = self.burst_packets * self.packet_bytes * 8;
        let mean_ns = burst_bits as f64 * SECOND_NS as f64 / self.bits_per_second as f64;
        let mut now_ns = 0;
        let mut all = Vec::new();
        loop {
            now_ns += random.gap(mean_ns);
            if now_ns > seconds_ns {
                return all;
            }
            all.extend((0..self.burst_packets).map(|_| now_ns));
        }
    }
}

#[derive(Clone, Copy)]
struct Packet {
    of: usize,
    arrived_ns: u64,
    bytes: u64,
}

/// Runs all loads through one scheduler; for each the times from arrival to the last bit sent.
fn run(loads: &[Load], seed: u64, seconds_ns: u64) -> Vec<Vec<u64>> {
    let mut all: Vec<Packet> = Vec::new();
    for (of, load) in loads.iter().enumerate() {
        let arrivals = load.arrivals(seed.wrapping_mul(64).wrapping_add(of as u64), seconds_ns);
        let packet = |arrived_ns| Packet { of, arrived_ns, bytes: load.packet_bytes };
        all.extend(arrivals.into_iter().map(packet));
    }
    all.sort_by_key(|packet| (packet.arrived_ns, std::cmp::Reverse(packet.of)));
    let mut scheduler: Scheduler<Packet> = Scheduler::new(NonZeroU64::new(GIGABIT));
    let mut delays = vec![Vec::new(); loads.len()];
    let mut coming = all.into_iter().peekable();
    let mut now_ns = 0;
    loop {
        let release_ns = scheduler.next_release_ns(now_ns);
        match (coming.peek().map(|packet| packet.arrived_ns), release_ns) {
            (None, None) => return delays,
            (Some(arrival_ns), release_ns) if release_ns.is_none_or(|at| arrival_ns <= at) => {
                now_ns = arrival_ns;
                let Some(packet) = coming.next() else { return delays };
                let policy = &loads[packet.of].policy;
                let id = slice(packet.of as u128);
                let charged = (port(1), packet.bytes);
                if let Ok(Some(place)) = scheduler.meter(now_ns, id, policy, charged) {
                    let _ = scheduler.hold(now_ns, place, volume(packet.bytes), packet);
                }
            }
            (_, release_ns) => {
                now_ns = release_ns.unwrap_or(now_ns);
                let Some(packet) = scheduler.release(now_ns) else { continue };
                // At a gigabit a second a bit takes a nanosecond.
                delays[packet.of].push(now_ns + packet.bytes * 8 - packet.arrived_ns);
            }
        }
    }
}

fn p99(delays: &mut [u64]) -> f64 {
    delays.sort_unstable();
    delays[delays.len() * 99 / 100] as f64
}

/// The victim's p99 beside the others over its p99 alone.
struct Harm {
    mean: f64,
    /// Upper end of the mean's interval of 95 %.
    at_most: f64,
    /// Packets of the victim that found no room beside the flood and did alone.
    lost: usize,
}

fn harm(victim: Load, others: &[Load]) -> Harm {
    let beside: Vec<Load> = std::iter::once(victim).chain(others.iter().copied()).collect();
    let mut lost = 0;
    let ratios: Vec<f64> = (0..PAIRS)
        .map(|seed| {
            let mut with = run(&beside, seed, SECOND_NS).swap_remove(0);
            let mut alone = run(&[victim], seed, SECOND_NS).swap_remove(0);
            lost += alone.len() - with.len();
            p99(&mut with) / p99(&mut alone)
        })
        .collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Harm { mean, at_most: mean + T_23 * (variance / n).sqrt(), lost }
}

fn victim(policy: SlicePolicy, bits_per_second: u64) -> Load {
    Load { policy, bits_per_second, packet_bytes: 1_500, burst_packets: 20 }
}

/// Three times what the exit carries.
fn flood(policy: SlicePolicy) -> Load {
    Load { policy, bits_per_second: 3 * GIGABIT, packet_bytes: 1_500, burst_packets: 8 }
}

fn limited(policy: SlicePolicy, bits_per_second: u64) -> SlicePolicy {
    let rate = SliceRate { bits_per_second, burst_bytes: 3_000 };
    SlicePolicy { rate: Some(rate), ..policy }
}

#[track_caller]
fn assert_unharmed(victim: Load, others: &[Load]) {
    let Harm { mean, at_most, lost } = harm(victim, others);
    println!("victim of {} bit/s: {mean:.3}, at most {at_most:.3}", victim.bits_per_second);
    assert!(at_most <= RATIO_MAX, "{mean:.3}, at most {at_most:.3}");
    assert_eq!(lost, 0);
}

const RATES: [u64; 3] = [20_000_000, 100_000_000, 200_000_000];

#[test]
fn an_urgent_slice_does_not_feel_a_flood_of_shared_ones() {
    for rate in RATES {
        assert_unharmed(victim(urgent(), rate), &[flood(shared(1_500))]);
        assert_unharmed(victim(urgent(), rate), &[flood(shared(30_000)); 3]);
    }
}

#[test]
fn a_shared_slice_with_its_share_does_not_feel_a_flood_without_any_rate() {
    // A round of the victim's is 72,000 bytes, and the others' are 1,536 together. What is left is
    // a frame of each of them, which may stand before the first of a burst: so the longer the
    // victim's own bursts are, the less it matters.
    for rate in [20_000_000, 100_000_000] {
        let victim = Load { burst_packets: 32, ..victim(shared(72_000), rate) };
        assert_unharmed(victim, &[flood(shared(512)); 3]);
        assert_unharmed(victim, &[flood(shared(512))]);
    }
}

#[test]
fn a_slice_does_not_feel_a_flood_of_its_own_class_that_is_held_to_its_rate() {
    for rate in RATES {
        for class in [urgent(), shared(1_500)] {
            let held = limited(class, 30_000_000);
            assert_unharmed(victim(class, rate), &[flood(held)]);
        }
    }
}

#[test]
fn a_flood_beside_a_slice_of_its_class_without_rate_or_share_is_felt() {
    // Else the tests above could not fail.
    let harm = harm(victim(shared(1_500), 300_000_000), &[flood(shared(1_500))]);
    assert!(harm.mean > 1.5, "{:.3}", harm.mean);
}
