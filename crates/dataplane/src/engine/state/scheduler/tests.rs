//! What the scheduler promises whatever comes: exact rates, fair rounds, order, and that no time
//! of the exit is lost.

use super::bucket::TokenBucket;
use super::*;
use crate::engine::packet::PortSlot;
use catena_model::program::SliceRate;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use uuid::Uuid;

const GIGABIT: u64 = 1_000_000_000;

pub(super) fn slice(number: u128) -> SliceId {
    SliceId(Uuid::from_u128(number))
}

pub(super) fn volume(bytes: u64) -> Volume {
    Volume { packets: 1, bytes }
}

pub(super) fn shared(quantum_bytes: u32) -> SlicePolicy {
    SlicePolicy { rate: None, class: DelayClass::Shared { quantum_bytes } }
}

pub(super) fn urgent() -> SlicePolicy {
    SlicePolicy { rate: None, class: DelayClass::Urgent }
}

fn scheduler(bits_per_second: u64) -> Scheduler<(u128, u32)> {
    Scheduler::new(NonZeroU64::new(bits_per_second))
}

/// The port with this number.
pub(super) fn port(number: u32) -> Owner {
    Owner::Port { slot: PortSlot(0), serial: number }
}

/// Lets a packet of a slice wait, by a port of its own; true: there was room.
fn offer(
    scheduler: &mut Scheduler<(u128, u32)>,
    now_ns: u64,
    of: u128,
    number: u32,
    policy: &SlicePolicy,
    bytes: u64,
) -> bool {
    offer_by(port(of as u32), scheduler, now_ns, (of, number), policy, bytes)
}

fn offer_by(
    port: Owner,
    scheduler: &mut Scheduler<(u128, u32)>,
    now_ns: u64,
    (of, number): (u128, u32),
    policy: &SlicePolicy,
    bytes: u64,
) -> bool {
    match scheduler.meter(now_ns, slice(of), policy, (port, bytes)) {
        Ok(lane) => scheduler.hold(now_ns, lane.unwrap(), volume(bytes), (of, number)).is_ok(),
        Err(reason) => {
            assert_eq!(reason, DropReason::SliceQueueFull);
            false
        }
    }
}

#[test]
fn no_span_of_time_lets_through_more_than_the_burst_and_what_the_rate_gives() {
    let (let_through, refused) = (Cell::new(0), Cell::new(0));
    let rates = (4_u32..9, 10_u64..100).prop_map(|(power, digits)| digits * 10_u64.pow(power - 1));
    let arrivals = prop::collection::vec((0_u64..2_000_000, 64_u64..1_600), 1..200);
    let inputs = (rates, 1_500_u32..20_000, arrivals);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let outcome = runner.run(&inputs, |(bits_per_second, burst_bytes, arrivals)| {
        let mut bucket = TokenBucket::full(SliceRate { bits_per_second, burst_bytes }, 0);
        let mut now_ns = 0;
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (gap, bytes) in arrivals {
            now_ns += gap;
            if bucket.take(now_ns, bytes) {
                passed.push((now_ns, bytes));
            } else {
                refused.set(refused.get() + 1);
            }
        }
        let_through.set(let_through.get() + passed.len());
        for (first, (start_ns, _)) in passed.iter().enumerate() {
            let mut bits = 0_u128;
            for (end_ns, bytes) in &passed[first..] {
                bits += u128::from(*bytes) * 8;
                let given = u128::from(end_ns - start_ns) * u128::from(bits_per_second);
                let most = u128::from(burst_bytes) * 8 * 1_000_000_000 + given;
                prop_assert!(bits * 1_000_000_000 <= most);
            }
        }
        Ok(())
    });
    outcome.unwrap();
    let counts = (let_through.get(), refused.get());
    assert!(counts.0 > 500 && counts.1 > 500, "let through and refused: {counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whoever_keeps_to_the_rate_loses_nothing(
        bits_per_second in 8_000_u64..10_000_000_000,
        sizes in prop::collection::vec(64_u64..1_500, 1..200),
    ) {
        let mut bucket = TokenBucket::full(SliceRate { bits_per_second, burst_bytes: 1_500 }, 0);
        let mut now_ns = 0;
        for bytes in sizes {
            prop_assert!(bucket.take(now_ns, bytes));
            now_ns += (bytes * 8 * 1_000_000_000).div_ceil(bits_per_second);
        }
    }

    #[test]
    fn slices_that_always_have_packets_share_within_one_round_by_their_quanta(
        quanta in prop::collection::vec(512_u32..20_000, 2..6),
        sizes in prop::collection::vec(64_u64..1_500, 8),
    ) {
        let mut scheduler = scheduler(GIGABIT);
        let mut served = vec![0_u64; quanta.len()];
        let mut now_ns = 0;
        for turn in 0..4_000_u32 {
            // Each lane is kept filled.
            for (of, quantum) in quanta.iter().enumerate() {
                let bytes = sizes[(turn as usize + of) % sizes.len()];
                let _ = offer(&mut scheduler, now_ns, of as u128, turn, &shared(*quantum), bytes);
            }
            let before: Vec<usize> = scheduler.lanes.iter().map(|lane| lane.waiting).collect();
            prop_assert!(before.iter().all(|waiting| *waiting > 0));
            now_ns = scheduler.next_release_ns(now_ns).unwrap();
            let head = |scheduler: &Scheduler<(u128, u32)>, of: u32| {
                let lane = &scheduler.lanes[of as usize];
                scheduler.places[lane.head.unwrap() as usize].as_ref().unwrap().volume.bytes
            };
            let heads: Vec<u64> =
                (0..quanta.len()).map(|of| head(&scheduler, of as u32)).collect();
            let (of, _) = scheduler.release(now_ns).unwrap();
            served[of as usize] += heads[of as usize];
        }
        // Shreedhar and Varghese: rounds of any two lanes differ by less than one, and what is left
        // of a turn by less than a packet.
        let longest = *sizes.iter().max().unwrap() as f64;
        for (one, served_one) in quanta.iter().zip(&served) {
            for (other, served_other) in quanta.iter().zip(&served) {
                let rounds = |bytes: u64, quantum: u32| bytes as f64 / f64::from(quantum);
                let apart = rounds(*served_one, *one) - rounds(*served_other, *other);
                let least = f64::from(*one.min(other));
                prop_assert!(apart.abs() <= 1.0 + 2.0 * longest / least, "{served:?} {quanta:?}");
            }
        }
    }
}

#[test]
fn packets_of_one_slice_keep_their_order() {
    let mut scheduler = scheduler(GIGABIT);
    for number in 0..100 {
        assert!(offer(&mut scheduler, 0, 1, number, &shared(700), 64 + u64::from(number) * 10));
        assert!(offer(&mut scheduler, 0, 2, number, &shared(3_000), 400));
    }
    let mut last = [None, None, None];
    let mut now_ns = 0;
    while let Some(next_ns) = scheduler.next_release_ns(now_ns) {
        now_ns = next_ns;
        let (of, number) = scheduler.release(now_ns).unwrap();
        assert!(last[of as usize].replace(number) < Some(number));
    }
    assert_eq!(last, [None, Some(99), Some(99)]);
}

#[test]
fn the_exit_sends_without_a_pause_while_packets_wait_and_never_faster_than_its_rate() {
    let mut scheduler = scheduler(GIGABIT);
    for number in 0..120 {
        assert!(offer(&mut scheduler, 5_000, 1, number, &shared(1_500), 1_000));
        assert!(offer(&mut scheduler, 5_000, 2, number, &urgent(), 125));
    }
    let mut now_ns = 5_000;
    let mut bytes = 0;
    while let Some(next_ns) = scheduler.next_release_ns(now_ns) {
        assert_eq!(next_ns, 5_000 + bytes * 8, "a gigabit a second is a bit a nanosecond");
        assert!(next_ns == now_ns || scheduler.release(next_ns - 1).is_none());
        now_ns = next_ns;
        bytes += if scheduler.release(now_ns).unwrap().0 == 1 { 1_000 } else { 125 };
    }
    assert_eq!(bytes, 120 * 1_125);
    // An idle exit does not save up what it did not send.
    assert!(offer(&mut scheduler, 1_000_000_000, 1, 0, &shared(1_500), 1_000));
    assert!(offer(&mut scheduler, 1_000_000_000, 1, 1, &shared(1_500), 1_000));
    assert!(scheduler.release(1_000_000_000).is_some());
    assert!(scheduler.release(1_000_007_999).is_none());
    assert!(scheduler.release(1_000_008_000).is_some());
}

#[test]
fn urgent_packets_go_before_all_others() {
    let mut scheduler = scheduler(GIGABIT);
    for number in 0..10 {
        assert!(offer(&mut scheduler, 0, 1, number, &shared(9_000), 1_500));
    }
    assert_eq!(scheduler.release(0), Some((1, 0)));
    for number in 0..5 {
        assert!(offer(&mut scheduler, 100, 2, number, &urgent(), 1_500));
    }
    let mut now_ns = 100;
    let order: Vec<u128> = std::iter::from_fn(|| {
        now_ns = scheduler.next_release_ns(now_ns)?;
        Some(scheduler.release(now_ns)?.0)
    })
    .collect();
    assert_eq!(order, [2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn without_a_rate_of_the_exit_all_go_at_once_urgent_ones_first() {
    let mut scheduler = Scheduler::new(None);
    assert!(offer(&mut scheduler, 7, 1, 0, &shared(600), 1_500));
    assert!(offer(&mut scheduler, 7, 2, 0, &urgent(), 1_500));
    assert_eq!(scheduler.next_release_ns(7), Some(7));
    assert_eq!(scheduler.release(7), Some((2, 0)));
    assert_eq!(scheduler.release(7), Some((1, 0)));
    assert_eq!(scheduler.release(7), None);
    assert!(scheduler.is_empty() && scheduler.next_release_ns(7).is_none());
}

#[test]
fn a_packet_over_the_rate_of_its_slice_ends_by_name_and_others_do_not_feel_it() {
    let mut scheduler: Scheduler<()> = Scheduler::new(None);
    let rate = SliceRate { bits_per_second: 8_000, burst_bytes: 3_000 };
    let policy = SlicePolicy { rate: Some(rate), class: DelayClass::Unscheduled };
    let mut meter = |now_ns, of| scheduler.meter(now_ns, slice(of), &policy, (port(1), 1_500));
    assert_eq!(meter(0, 1), Ok(None));
    assert_eq!(meter(0, 1), Ok(None));
    assert_eq!(meter(0, 1), Err(DropReason::SliceRateExceeded));
    assert_eq!(meter(0, 2), Ok(None));
    // 1,500 bytes are a second and a half at 8 kbit/s.
    assert_eq!(meter(1_499_999_999, 1), Err(DropReason::SliceRateExceeded));
    assert_eq!(meter(1_500_000_000, 1), Ok(None));
}

#[test]
fn whoever_floods_leaves_places_for_those_who_come_later() {
    let mut scheduler = scheduler(1_000);
    let mut taken = Vec::new();
    for of in 0..10 {
        let all = 0..NODE_SLICE_PACKETS_WAITING_MAX as u32;
        let fits = |number: &u32| offer(&mut scheduler, 0, of, *number, &shared(1_500), 100);
        taken.push(all.filter(fits).count());
    }
    assert_eq!(taken, [128, 128, 128, 128, 128, 128, 128, 64, 32, 16]);
    assert_eq!(scheduler.report(slice(0)).unwrap().waiting, 128);
}

#[test]
fn whoever_floods_by_many_slices_of_one_port_leaves_places_for_those_of_others() {
    let mut scheduler = scheduler(1_000);
    let mut taken = |by: u32, slices: std::ops::Range<u128>| {
        let packets = slices.flat_map(|of| (0..200).map(move |number| (of, number)));
        let fits = |packet: &(u128, u32)| {
            offer_by(port(by), &mut scheduler, 0, *packet, &shared(1_500), 100)
        };
        packets.filter(fits).count()
    };
    let all = NODE_SLICE_PACKETS_WAITING_MAX;
    assert_eq!(taken(1, 0..100), (all * 4).div_ceil(5));
    assert_eq!(taken(2, 100..101), all / 10, "half of what was left");
    // What has gone leaves its place to others again.
    for _ in 0..all {
        scheduler.exit = Exit::new(None);
        scheduler.release(0);
    }
    assert!(scheduler.is_empty());
    assert_eq!(scheduler.shares.held_by(&port(1)) + scheduler.shares.held_by(&port(2)), 0);
}

#[test]
fn a_lane_goes_to_another_slice_only_when_nothing_waits_in_it() {
    let mut scheduler = scheduler(1_000);
    let all = NODE_SCHEDULED_SLICES_MAX as u128;
    assert!(offer(&mut scheduler, 0, 1, 0, &urgent(), 100));
    let unscheduled = SlicePolicy::default();
    for of in 0..all {
        // Each has a lane from its first packet on, though none of them waits.
        assert_eq!(scheduler.meter(0, slice(of), &unscheduled, (port(1), 100)), Ok(None));
    }
    scheduler.hand = NODE_SCHEDULED_SLICES_MAX - 1;
    assert!(offer(&mut scheduler, 0, all, 0, &urgent(), 100));
    assert_eq!(scheduler.lanes.len(), NODE_SCHEDULED_SLICES_MAX);
    assert_eq!(scheduler.report(slice(1)).unwrap().waiting, 1, "its packet still waits");
    assert_eq!(scheduler.report(slice(all)).unwrap().waiting, 1);
}

#[test]
fn no_slice_is_let_through_beyond_its_rate_for_want_of_lanes() {
    let mut scheduler = scheduler(1_000);
    let rate = Some(SliceRate { bits_per_second: 8_000, burst_bytes: 1_500 });
    let policy = SlicePolicy { rate, ..SlicePolicy::default() };
    let all = NODE_SCHEDULED_SLICES_MAX as u128;
    for of in 0..all {
        assert_eq!(scheduler.meter(0, slice(of), &policy, (port(1), 1_500)), Ok(None));
    }
    // Every bucket is empty: a lane that is given away would be forgotten with what it sent.
    let full = Err(DropReason::SliceQueueFull);
    assert_eq!(scheduler.meter(1_000_000_000, slice(all), &policy, (port(1), 64)), full);
    assert_eq!(
        scheduler.meter(1_000_000_000, slice(0), &policy, (port(1), 1_001)),
        Err(DropReason::SliceRateExceeded)
    );
    // A second and a half later they have filled again.
    assert_eq!(scheduler.meter(1_500_000_000, slice(all), &policy, (port(1), 64)), Ok(None));
    assert_eq!(scheduler.lanes.len(), NODE_SCHEDULED_SLICES_MAX);
}

#[test]
fn a_port_whose_slices_hold_all_lanes_gives_some_up_for_those_of_others() {
    let mut scheduler = scheduler(1_000);
    let rate = Some(SliceRate { bits_per_second: 8, burst_bytes: 1_500 });
    let policy = SlicePolicy { rate, ..SlicePolicy::default() };
    let all = NODE_SCHEDULED_SLICES_MAX as u128;
    let mut meter = |of, by| {
        scheduler.meter(0, slice(of), &policy, (port(by), 1_500)).is_ok_and(|kept| kept.is_none())
    };
    assert!((0..all).all(|of| meter(of, 1)), "one alone may have them all");
    assert!(!meter(all, 1), "but no more");
    // Those of another port come in, each again and again, and he who floods gets none of them back.
    assert!((1..=2_000).all(|of| meter(all + of, 2) && !meter(2 * all + of, 1)));
    assert_eq!(scheduler.lane_shares.held_by(&port(1)) as usize, NODE_SCHEDULED_SLICES_MAX - 2_000);
    assert_eq!(scheduler.lane_shares.held_by(&port(2)), 2_000);
    assert_eq!(scheduler.of_slice.len(), NODE_SCHEDULED_SLICES_MAX);
}
