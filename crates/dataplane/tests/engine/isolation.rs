//! Slices that must not harm each other, in virtual time and through the whole engine.

use crate::rig::Rig;
use crate::scene::{CUSTOMER, three_hosts};
use crate::slices::{claims, frame, of, path, slice, user, users};
use crate::town::{Town, node_name};
use catena_dataplane::engine::{Engine, EngineConfig, Output, Packet};
use catena_io::BufferPool;
use catena_model::program::{DelayClass, SlicePolicy, SliceRate};
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use std::num::NonZeroU64;
use std::sync::Arc;

const WEST: PathId = PathId(100);
const GIGABIT: u64 = 1_000_000_000;
const BUFFERS: usize = 2_048;

/// Users of networks 5, 6 … through v1, a slice for each network.
pub(crate) fn town(policies: &[SlicePolicy]) -> Town {
    let mut town = three_hosts();
    town.chain("west", Encapsulation::Nsh, &[&["v1"], &["v2"]], &[]);
    for (number, policy) in (1..).zip(policies) {
        let mut entry = slice(number, claims(Some(4 + number), users(1, 1)));
        entry.policy = *policy;
        town.slices.push(entry);
        town.slice_paths.push(path(number, WEST));
    }
    town
}

fn shared(quantum_bytes: u32) -> SlicePolicy {
    SlicePolicy { rate: None, class: DelayClass::Shared { quantum_bytes } }
}

fn urgent() -> SlicePolicy {
    SlicePolicy { rate: None, class: DelayClass::Urgent }
}

#[test]
fn a_slice_over_its_rate_loses_by_name_and_its_books_tell_it() {
    let rate = SliceRate { bits_per_second: 80_000, burst_bytes: 1_000 };
    let limited = SlicePolicy { rate: Some(rate), class: DelayClass::Unscheduled };
    let mut rig = Rig::new(town(&[limited, SlicePolicy::default()]));
    let sent = frame(&rig.town, user(5, 1));
    let fit = 1_000 / sent.len();
    for _ in 0..fit + 3 {
        rig.send("S", &sent);
        rig.send("S", &frame(&rig.town, user(6, 1)));
    }
    assert_eq!(rig.take("D").len(), fit + fit + 3, "the other slice feels nothing");
    let counters = rig.slice_counters(0);
    let (one, other) = (of(&counters, 1), of(&counters, 2));
    assert_eq!(one.entered.packets, fit as u64 + 3);
    assert_eq!(one.dropped.get(&DropReason::SliceRateExceeded), Some(&3));
    assert!(other.dropped.is_empty() && other.wait.is_none());
    // 10,000 bytes a second: the bucket is full again.
    rig.pass(100);
    rig.send("S", &sent);
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
}

/// One engine with what is around it, driven by hand.
struct Bench {
    engine: Engine,
    pool: BufferPool,
    town: Town,
    frames: Vec<Vec<u8>>,
    /// For each slice the delays of its packets to the last bit on the exit.
    delays_ns: Vec<Vec<u64>>,
    /// When each packet that has not gone yet came, by slice.
    came_ns: Vec<std::collections::VecDeque<u64>>,
}

impl Bench {
    fn new(policies: &[SlicePolicy], bits_per_second: u64) -> Self {
        let town = town(policies);
        let mut config = EngineConfig::new(node_name(0));
        config.flow_seed = 7;
        config.slice_bits_per_second = NonZeroU64::new(bits_per_second);
        let mut engine = Engine::new(config);
        engine.replace_tables(Arc::new(town.tables(0)));
        let frames = (0..policies.len()).map(|number| {
            let mut frame = frame(&town, user(5 + number as u32, 1));
            // The user's own packet is longer than its headers say: the frame's length counts.
            frame.resize(frame.len().max(1_250), 0);
            frame
        });
        let frames = frames.collect();
        let empty = vec![Vec::new(); policies.len()];
        let came_ns = vec![Default::default(); policies.len()];
        Self { engine, pool: BufferPool::new(BUFFERS), town, frames, delays_ns: empty, came_ns }
    }

    fn arrive(&mut self, now_ns: u64, of: usize, packets: u64) {
        self.arrive_by("S", now_ns, of, packets);
    }

    fn arrive_by(&mut self, port: &str, now_ns: u64, of: usize, packets: u64) {
        let slot = self.engine.slot_of(self.town.port_named(port).id).unwrap();
        let mut input = Vec::new();
        for _ in 0..packets {
            let mut buffer = self.pool.take().unwrap();
            assert!(buffer.fill(&self.frames[of]));
            input.push(Packet::from_port(slot, buffer));
            self.came_ns[of].push_back(now_ns);
        }
        let before = self.refused(of);
        let mut out = Output::default();
        self.engine.forward(now_ns, &mut input, &mut self.pool, &mut out);
        // Of those that came now, so many found no room.
        for _ in before..self.refused(of) {
            self.came_ns[of].pop_back();
        }
        self.went(now_ns, out);
    }

    fn refused(&self, of: usize) -> u64 {
        let counters = self.engine.slice_counters(None, 99);
        counters.get(of).map_or(0, |slice| slice.dropped.values().sum())
    }

    fn tick(&mut self, now_ns: u64) {
        let mut out = Output::default();
        self.engine.tick(now_ns, &mut self.pool, &mut out);
        self.went(now_ns, out);
    }

    fn went(&mut self, now_ns: u64, out: Output) {
        assert!(out.datagrams.is_empty(), "the first function is here");
        let Output { frames, mut batches, .. } = out;
        for gone in frames {
            let bytes = gone.buffer.bytes();
            // Each slice's frames differ in the network alone, so they are told by it.
            let of = self.frames.iter().position(|frame| frame[14..] == bytes[14..]).unwrap();
            let came_ns = self.came_ns[of].pop_front().unwrap();
            self.delays_ns[of].push(now_ns + bytes.len() as u64 * 8 - came_ns);
            self.engine.credit_sent(batches.withdraw(gone.share));
            self.pool.put(gone.buffer);
        }
        assert_eq!(self.engine.counters().total().unaccounted(), 0);
    }
}

#[test]
fn what_waits_is_held_goes_on_by_the_tables_in_force_then_and_leaves_with_its_port() {
    let mut bench = Bench::new(&[shared(1_500)], GIGABIT);
    let held = |bench: &Bench| bench.engine.counters().total().held;
    bench.arrive(1_000, 0, 5);
    assert_eq!((held(&bench), bench.delays_ns[0].len()), (4, 1), "the exit takes one at a time");
    let wait = bench.engine.slice_counters(None, 9)[0].wait.unwrap();
    assert_eq!((wait.waiting, wait.released.packets), (4, 1));
    assert_eq!(bench.engine.slice_counters(None, 9)[0].entered.packets, 1);
    assert_eq!(bench.engine.next_release_ns(1_000), Some(1_000 + 10_000));
    // Now the slice is without a path of its own here: what waits goes on as ordinary traffic.
    bench.town.slices.clear();
    bench.town.slice_paths.clear();
    bench.engine.replace_tables(Arc::new(bench.town.tables(0)));
    let mut out = Output::default();
    bench.engine.tick(11_000, &mut bench.pool, &mut out);
    assert_eq!((out.frames.len(), out.datagrams.len()), (0, 1), "D is on another host");
    for datagram in out.datagrams {
        bench.engine.credit_sent(out.batches.withdraw(datagram.share));
        bench.pool.put(datagram.buffer);
    }
    assert_eq!(held(&bench), 3);
    // And now without its port.
    bench.town.ports.retain(|port| port.name != "S");
    bench.town.chains.clear();
    bench.engine.replace_tables(Arc::new(bench.town.tables(0)));
    for now_us in (21..80).step_by(10) {
        bench.engine.tick(now_us * 1_000, &mut bench.pool, &mut Output::default());
    }
    let total = bench.engine.counters().total();
    assert_eq!((total.held, total.unaccounted()), (0, 0));
    assert_eq!(total.dropped.get(&DropReason::UnknownPort), Some(&3));
    assert_eq!(bench.engine.next_release_ns(0), None);
}

#[test]
fn two_thousand_new_flows_of_a_quiet_slice_arrive_beside_a_flood_by_many_slices() {
    // So many lanes that each has its place when all are taken.
    const FLOODING: usize = 1_100;
    const QUIET_AT_ONCE: u64 = 10;
    const STEP_NS: u64 = 1_000_000;
    let policies: Vec<_> =
        std::iter::once(urgent()).chain(std::iter::repeat_n(shared(1_500), FLOODING)).collect();
    let mut bench = Bench::new(&policies, GIGABIT);
    bench.town.endpoint("Q", 0, CUSTOMER, &["10.0.0.7"]);
    bench.engine.replace_tables(Arc::new(bench.town.tables(0)));
    let mut now_ns = 0;
    for _ in 0..2_000 / QUIET_AT_ONCE {
        for of in 1..=FLOODING {
            bench.arrive_by("S", now_ns, of, 1);
        }
        bench.arrive_by("Q", now_ns, 0, QUIET_AT_ONCE);
        let end_ns = now_ns + STEP_NS;
        while let Some(next_ns) = bench.engine.next_release_ns(now_ns).filter(|at| *at < end_ns) {
            now_ns = next_ns;
            bench.tick(now_ns);
        }
        now_ns = end_ns;
    }
    let counters = bench.engine.counters();
    let account = |name| {
        let mut ports = counters.ports.iter();
        &ports.find(|port| port.name == name).unwrap().account
    };
    assert_eq!(account("Q").forwarded.packets, 2_000);
    assert!(account("Q").dropped.is_empty());
    assert!(account("S").dropped[&DropReason::SliceQueueFull] > 100_000);
}

/// Pairs of runs, each with another seed.
const PAIRS: u64 = 20;
/// Two-sided 95 % of Student's t with 19 degrees of freedom.
const T_19: f64 = 2.093;
const RUN_NS: u64 = 60_000_000;

/// Arrivals of bursts at times without pattern, the same for each seed.
fn bursts(seed: u64, mean_gap_ns: f64, packets: u64) -> Vec<(u64, u64)> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut now_ns = 0;
    let mut all = Vec::new();
    loop {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        let uniform = (word as f64 + 1.0) / (1_u64 << 53) as f64;
        now_ns += (-uniform.ln() * mean_gap_ns) as u64;
        if now_ns > RUN_NS {
            return all;
        }
        all.push((now_ns, packets));
    }
}

/// The victim's p99 delay, in nanoseconds.
fn p99(policies: &[SlicePolicy], seed: u64) -> f64 {
    let mut bench = Bench::new(policies, GIGABIT);
    // The victim: 20 packets each 4 ms, 50 Mbit/s. Each flood: 8 each 40 us, 2 Gbit/s.
    let mut arrivals: Vec<(u64, u64, usize)> = Vec::new();
    for of in 0..policies.len() {
        let (gap_ns, packets) = if of == 0 { (4e6, 20) } else { (4e4, 8) };
        let of_one = bursts(seed * 64 + of as u64, gap_ns, packets);
        arrivals.extend(of_one.into_iter().map(|(at_ns, packets)| (at_ns, packets, of)));
    }
    arrivals.sort_unstable();
    let mut now_ns = 0;
    for (at_ns, packets, of) in arrivals {
        while let Some(next_ns) = bench.engine.next_release_ns(now_ns).filter(|at| *at < at_ns) {
            now_ns = next_ns;
            bench.tick(now_ns);
        }
        now_ns = at_ns;
        bench.arrive(now_ns, of, packets);
    }
    while let Some(next_ns) = bench.engine.next_release_ns(now_ns) {
        now_ns = next_ns;
        bench.tick(now_ns);
    }
    let counters = bench.engine.slice_counters(None, 9);
    assert!(counters[0].dropped.is_empty(), "the victim loses nothing");
    if let Some(flood) = counters.get(1) {
        assert!(flood.dropped.values().sum::<u64>() > 1_000, "the flood is one");
    }
    let delays = &mut bench.delays_ns[0];
    delays.sort_unstable();
    delays[delays.len() * 99 / 100] as f64
}

#[test]
fn in_the_whole_engine_a_flood_moves_no_p99_by_more_than_a_tenth() {
    let rate = SliceRate { bits_per_second: 30_000_000, burst_bytes: 3_000 };
    let held = |policy: SlicePolicy| SlicePolicy { rate: Some(rate), ..policy };
    for (victim, flood) in [
        (urgent(), shared(1_500)),
        (urgent(), held(urgent())),
        (shared(72_000), shared(1_500)),
        (shared(1_500), held(shared(1_500))),
    ] {
        let ratios: Vec<f64> =
            (1..=PAIRS).map(|seed| p99(&[victim, flood], seed) / p99(&[victim], seed)).collect();
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let at_most = mean + T_19 * (variance / n).sqrt();
        println!("{victim:?} beside {flood:?}: {mean:.3}, at most {at_most:.3}");
        assert!(at_most <= 1.1, "{victim:?} beside {flood:?}: {mean:.3}, at most {at_most:.3}");
    }
}
