//! The fast path against the slow path: whatever comes, an engine with it and one without do the same.

use crate::accounting::{
    Content, Shot, USERS_LAST, USERS_VNI, behave, chains_of, shoot, shots, towns, varying,
};
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig, SeenDatagram};
use crate::scene::{CHAINED_PORT, CUSTOMER, packet, packet_v6, rules, three_hosts};
use crate::slices::{self, WEST, claims, path, slice, user, with_port};
use crate::town::Town;
use catena_io::Offload;
use catena_model::program::{
    PortRole, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy, SliceRate,
};
use catena_model::resource::Encapsulation;
use catena_model::sojourn_time::SojournTime;
use catena_model::{DropReason, NodeCounters};
use catena_wire::scalar::VlanId;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::collections::BTreeMap;

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// Anything, anywhere.
    Any(Shot),
    /// From an endpoint, rarely with anything special about it.
    Plain { from: &'static str, what: Content },
    /// From a user in tunnels, rarely with bytes overwritten.
    Subscriber { teid: u32, port: u16, written: Option<(usize, &'static [u8])> },
}

/// Where a frame says to whom it is, and from whom and to whom its packet is; and where the packet of
/// the frame in its VXLAN begins.
const TO_MAC: usize = 0;
const FROM: usize = 26;
const TO: usize = 30;
const CARRIED: usize = 64;

/// What makes of a user's frame one for its own link alone, or one that nobody can follow.
const WRITTEN: [(usize, &[u8]); 7] = [
    (TO_MAC, &[0xff; 6]),
    (TO_MAC, &[1, 0, 0x5e, 0, 0, 1]),
    (FROM, &[169, 254, 1, 1]),
    (TO, &[169, 254, 1, 1]),
    (TO, &[224, 0, 0, 9]),
    (TO, &[0xff; 4]),
    (CARRIED, &[0x60]),
];

fn user_shots() -> impl Strategy<Value = Sent> {
    let written = prop_oneof![5 => Just(None), 1 => select(&WRITTEN[..]).prop_map(Some)];
    (0..USERS_LAST + 2, 1_000u16..1_004, written)
        .prop_map(|(teid, port, written)| Sent::Subscriber { teid, port, written })
}

prop_compose! {
    fn plain()(
        from in select(vec!["S", "S", "D"]),
        is_v6 in prop::bool::weighted(0.3),
        is_tcp in prop::bool::weighted(0.3),
        vlan in prop::option::weighted(0.2, 0u16..4),
        port in 5_000u16..5_005,
        bytes in prop_oneof![4 => 0usize..200, 1 => 1_300usize..1_500],
        to in any::<Index>(),
        is_partial in prop::bool::weighted(0.1),
        varying in varying(),
    ) -> Sent {
        let segment_bytes = None;
        let what =
            Content { is_v6, is_tcp, port, vlan, bytes, to, segment_bytes, is_partial, varying };
        Sent::Plain { from, what }
    }
}

pub(crate) fn sent() -> impl Strategy<Value = Sent> {
    // What a replay repeats depends on the order of the datagrams, which rows may change.
    let shots = shots().prop_filter("no replay", |shot| !matches!(shot, Shot::Replay { .. }));
    prop_oneof![
        2 => shots.prop_map(Sent::Any),
        7 => plain(),
        2 => user_shots(),
    ]
}

fn send(rig: &mut Rig, sent: &Sent) {
    match sent {
        // What looks like a packet that comes back meets no packet that goes in in its own vector:
        // there the one may be before the other or behind it, as no real one can.
        Sent::Any(shot) if is_from_function(rig, shot) => {
            rig.run();
            shoot(rig, shot);
            rig.run();
        }
        Sent::Any(shot) => shoot(rig, shot),
        Sent::Plain { from, what } => {
            let (bytes, offload) = what.make(&rig.town);
            rig.queue(from, &bytes, offload);
        }
        Sent::Subscriber { teid, port, written } => {
            let user = with_port(user(USERS_VNI, *teid), *port);
            let mut bytes = slices::frame(&rig.town, user);
            if let Some((place, written)) = written {
                bytes[*place..*place + written.len()].copy_from_slice(written);
            }
            rig.queue("S", &bytes, Offload::default());
        }
    }
}

fn is_from_function(rig: &Rig, shot: &Shot) -> bool {
    let ports = &rig.town.ports;
    let Shot::Port { port, .. } = shot else { return false };
    ports[port.index(ports.len())].role == PortRole::Function
}

/// Wire packets of the underlay, in an order of their own: rows may be cut elsewhere.
fn wire_packets(datagrams: &[SeenDatagram]) -> Vec<(usize, String, u16, Vec<u8>)> {
    let mut packets: Vec<_> = datagrams
        .iter()
        .flat_map(|seen| {
            let size = seen.segment_bytes.map_or(seen.bytes.len(), usize::from).max(1);
            let kind = format!("{:?}", seen.kind);
            seen.bytes
                .chunks(size)
                .map(move |bytes| (seen.from, kind.clone(), seen.entropy, bytes.to_vec()))
        })
        .collect();
    packets.sort();
    packets
}

/// Between the repetitions of a volley.
const PAUSES_NS: [u64; 4] = [0, 0, 1_500_000, 61_000_000_000];

/// A change of the users' slice alone, half-way through what is sent first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SliceTurn {
    None,
    /// It has a rate from then on.
    Rate,
    /// Its packets carry whose they are from then on, or no longer.
    Metadata,
    /// It has one user less.
    Users,
}

fn turn_slice(rig: &mut Rig, turn: SliceTurn) {
    let (slices, paths) = (rig.town.slices.first(), rig.town.slice_paths.first());
    let Some((slice, path)) = slices.zip(paths) else { return };
    let change = match turn {
        SliceTurn::None => return,
        SliceTurn::Rate => {
            let rate = Some(SliceRate { bits_per_second: 1_000_000, burst_bytes: 2_000 });
            let policy = SlicePolicy { rate, ..slice.policy };
            slices::turns(SliceEntry { policy, ..slice.clone() })
        }
        SliceTurn::Metadata => {
            let carries_metadata = !path.carries_metadata;
            slices::path_turns(SlicePathEntry { carries_metadata, ..*path })
        }
        SliceTurn::Users => {
            let teids = slices::users(2, USERS_LAST);
            let matches = SliceMatch { teids, ..slice.matches };
            slices::turns(SliceEntry { matches, ..slice.clone() })
        }
    };
    for node in 0..3 {
        rig.change_slices(node, std::slice::from_ref(&change));
    }
}

pub(crate) fn run(
    (has_fast_path, engines): (bool, usize),
    (first, second): (&Town, &Town),
    behaviours: &[usize],
    volleys: &[Vec<Sent>],
    turn: SliceTurn,
) -> Rig {
    let change = |config: &mut catena_dataplane::engine::EngineConfig| {
        config.has_fast_path = has_fast_path;
        // Which segments are joined depends on what comes between them.
        config.is_coalescing = false;
    };
    let mut rig = Rig::of_engines(engines, first.clone(), change, 384);
    behave(&mut rig, first, behaviours);
    for (round, volley) in volleys.iter().enumerate() {
        if round == volleys.len() / 2 {
            chains_of(&mut rig, second, 1);
        }
        // Several times: first the flows are new, then they are known; then what is remembered of
        // them is due to be noted again, and at last too old.
        for (time, pause_ns) in PAUSES_NS.into_iter().enumerate() {
            if (round, time) == (0, 1) {
                turn_slice(&mut rig, turn);
            }
            rig.now_ns += pause_ns;
            for sent in volley {
                send(&mut rig, sent);
            }
            rig.run();
        }
    }
    rig.check();
    rig
}

/// Packets that entered the path of the users' slice, and of the one at the end of its chain.
pub(crate) fn entered(rig: &Rig) -> [u64; 2] {
    let counters: Vec<_> = (0..3).flat_map(|node| rig.slice_counters(node)).collect();
    [1, 2].map(|number| {
        let of_slice = counters.iter().filter(|slice| slice.slice == slices::id(number));
        of_slice.map(|slice| slice.entered.packets).sum()
    })
}

pub(crate) fn sum(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0] + other[0], one[1] + other[1]]
}

/// Both were met often.
pub(crate) fn assert_entered([users, followers]: [u64; 2]) {
    assert!(users > 200, "only {users} packets were of users of a slice");
    assert!(followers > 20, "only {followers} packets went on by a slice at the end of a chain");
}

/// Without how long packets were with functions: which of them are timed is drawn, from rows as they are cut.
pub(crate) fn untimed(mut books: Vec<NodeCounters>) -> Vec<NodeCounters> {
    let hops = books.iter_mut().flat_map(|node| &mut node.chains).flat_map(|c| &mut c.hops);
    hops.for_each(|hop| hop.sojourn_time = SojournTime::default());
    books
}

/// What left both rigs is the same, in whatever order.
pub(crate) fn compare_packets(one: &mut Rig, other: &mut Rig) -> Result<(), TestCaseError> {
    prop_assert_eq!(wire_packets(&one.datagrams), wire_packets(&other.datagrams));
    for rig in [&mut *one, &mut *other] {
        rig.seen.values_mut().for_each(|seen| seen.sort_by(|a, b| a.bytes.cmp(&b.bytes)));
    }
    prop_assert_eq!(&one.seen, &other.seen);
    Ok(())
}

#[test]
fn packets_and_counters_are_the_same_on_the_fast_and_on_the_slow_path() {
    let (by_fast_path, of_users) = (Cell::new(0), Cell::new([0; 2]));
    let compared = Cell::new(0);
    let volleys = vec(vec(sent(), 1..12), 1..4);
    // Without 1: a function that says of every hop that it was visited meets itself for ever where it
    // serves two hops in a row, by either way.
    let behaviours = vec(select(vec![0usize, 2, 3, 4, 5]), 4);
    use SliceTurn::{Metadata, None, Rate, Users};
    let turns = select(vec![None, Rate, Metadata, Users]);
    let inputs = (towns(), towns(), behaviours, volleys, turns);
    let mut runner = TestRunner::new(Config { cases: 1_200, ..Config::default() });
    let outcome = runner.run(&inputs, |(first, second, behaviours, volleys, turn)| {
        let mut with = run((true, 1), (&first, &second), &behaviours, &volleys, turn);
        let mut without = run((false, 1), (&first, &second), &behaviours, &volleys, turn);
        by_fast_path.set(by_fast_path.get() + with.by_fast_path());
        let sent: usize = volleys.iter().map(Vec::len).sum();
        compared.set(compared.get() + sent * PAUSES_NS.len());
        of_users.set(sum(of_users.get(), entered(&with)));
        prop_assert_eq!(without.by_fast_path(), 0);
        let [ours, others] = [&with, &without].map(|rig| untimed(rig.counters()));
        prop_assert_eq!(ours, others);
        compare_packets(&mut with, &mut without)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(compared.get() >= 20_000, "only {} packets were compared", compared.get());
    assert!(by_fast_path.get() > 3_000, "only {} took the fast path", by_fast_path.get());
    assert_entered(of_users.get());
}

#[test]
fn users_of_slices_take_the_fast_path_all_the_way() {
    for speaks in [None, Some(Encapsulation::Nsh)] {
        let mut town = three_hosts();
        town.instances.iter_mut().for_each(|instance| instance.speaks = speaks);
        town.chain("west", Encapsulation::Nsh, &[&["v1"], &["v4"]], &[]);
        let all = claims(Some(USERS_VNI), slices::users(1, USERS_LAST));
        (town.slices, town.slice_paths) = (vec![slice(1, all)], vec![path(1, WEST)]);
        let mut rig = Rig::new(town);
        let passes = |rig: &mut Rig, teid: u32| {
            let (bytes, before) =
                (slices::frame(&rig.town, user(USERS_VNI, teid)), rig.by_fast_path());
            rig.send("S", &bytes);
            assert_eq!(rig.take("D").len(), 1);
            rig.by_fast_path() - before
        };
        // From the source, out of the first function, out of the tunnel, out of the last one.
        for teid in [1, 2, 1] {
            assert_eq!(passes(&mut rig, teid), 4, "{speaks:?}");
        }
        rig.check();
        assert_eq!(slices::of(&rig.slice_counters(0), 1).entered.packets, 3);
    }
}

#[test]
fn all_plain_traffic_takes_the_fast_path_all_the_way() {
    for encapsulation in Encapsulation::TUNNELLED {
        for speaks in [None, Some(encapsulation)] {
            let mut town = three_hosts();
            town.instances.iter_mut().for_each(|instance| instance.speaks = speaks);
            let chain = town.chain("c", encapsulation, &[&["v1"], &["v4"]], &rules(CHAINED_PORT));
            let mut tagged: Vec<_> =
                chain.rules.iter().map(|(_, matches)| matches.clone()).collect();
            let vlan = VlanId::new(7).ok();
            tagged.iter_mut().for_each(|matches| matches.vlan = vlan);
            town.chain("tagged", encapsulation, &[&["v1"], &["v4"]], &tagged);
            let mut rig = Rig::new(town);
            let kinds = [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)];
            for kind in kinds
                .into_iter()
                .flat_map(|kind| [None, Some(7), Some(0)].map(|vlan| (kind.clone(), vlan)))
            {
                let spec = Spec { vlan: kind.1, ..kind.0 };
                let name = format!("{encapsulation:?} {speaks:?} {:?}", spec.vlan);
                rig.send("S", &spec.frame());
                // Now its flow is known.
                let before = rig.by_fast_path();
                rig.send("S", &spec.frame());
                assert_eq!(rig.take("D").len(), 2, "{name}");
                assert_eq!(rig.by_fast_path() - before, 4, "{name}");
            }
            rig.check();
        }
    }
}

/// What is left of a header that leads over several functions goes with the packet.
#[test]
fn all_plain_traffic_takes_the_fast_path_over_links() {
    let routed = || Encapsulation::ALL.into_iter().filter(|one| one.is_source_route());
    let bare = routed().map(|one| (one, None));
    let reads = |one: Encapsulation| one.spoken().map(|spoken| (one, Some(spoken)));
    for (encapsulation, speaks) in bare.chain(routed().filter_map(reads)) {
        let mut town = three_hosts();
        town.instances.iter_mut().for_each(|instance| instance.speaks = speaks);
        let hops = [&["v1"], &["v4"], &["v2"]];
        town.chain("c", encapsulation, &hops.map(|hop| &hop[..]), &rules(CHAINED_PORT));
        let mut rig = Rig::new(town);
        let kinds = [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)];
        for (kind, spec) in kinds.into_iter().enumerate() {
            let name = format!("{encapsulation:?} {speaks:?} {kind}");
            rig.send("S", &spec.frame());
            let before = rig.by_fast_path();
            rig.send("S", &spec.frame());
            let came = rig.take("D");
            assert_eq!((came.len(), &came[0]), (2, &came[1]), "{name}");
            // From the source, out of the first function, and into and out of the second, and into the third. From
            // there it goes to the node of its destination by a tunnel of the network, which is none of a path.
            assert_eq!(rig.by_fast_path() - before, 5, "{name}");
        }
        rig.check();
    }
}

/// Into any of the instances of a function, and back from it.
#[test]
fn functions_with_several_instances_are_on_the_fast_path() {
    for encapsulation in Encapsulation::TUNNELLED {
        for speaks in [None, Some(encapsulation)] {
            let mut town = three_hosts();
            town.instances.iter_mut().for_each(|instance| instance.speaks = speaks);
            let hops = [&["v2", "v3"][..], &["v4"]];
            town.chain("c", encapsulation, &hops, &rules(CHAINED_PORT));
            let mut rig = Rig::new(town);
            for number in 0..24 {
                let sent = packet(&rig.town, CHAINED_PORT);
                let sent = Spec { ports: (sent.ports.0 + number, sent.ports.1), ..sent }.frame();
                rig.send("S", &sent);
                let before = rig.by_fast_path();
                rig.send("S", &sent);
                assert_eq!(rig.take("D").len(), 2);
                // From the source, into the first function and back, into the second and back.
                assert_eq!(rig.by_fast_path() - before, 5, "{encapsulation:?} {speaks:?} {number}");
            }
            rig.check();
        }
    }
}

/// Where instances further on are chosen by the flow, each has the header that leads to its own.
#[test]
fn flows_that_meet_others_further_on_take_the_fast_path_over_links() {
    for encapsulation in Encapsulation::ALL.into_iter().filter(|one| one.is_source_route()) {
        let through = |last: &[&str]| {
            let mut town = three_hosts();
            town.chain("c", encapsulation, &[&["v2"], last], &rules(CHAINED_PORT));
            Rig::new(town)
        };
        let mut rigs = [&["v3", "v4"][..], &["v3"], &["v4"]].map(through);
        let mut met = [0; 2];
        for number in 0..24 {
            let sent = packet(&rigs[0].town, CHAINED_PORT);
            let sent = Spec { ports: (sent.ports.0 + number, sent.ports.1), ..sent }.frame();
            let [both, first, second] = rigs.each_mut().map(|rig| {
                rig.send("S", &sent);
                rig.seen.clear();
                let before = rig.by_fast_path();
                rig.send("S", &sent);
                let seen = std::mem::take(&mut rig.seen).into_iter();
                // At every port and in every cable.
                let seen = seen.map(|(at, all)| (at, all.into_iter().map(|one| one.bytes)));
                let seen: BTreeMap<String, Vec<Vec<u8>>> =
                    seen.map(|(at, all)| (at, all.collect())).collect();
                (seen, rig.by_fast_path() - before)
            });
            let is_second = both.0.contains_key("v4.in");
            met[usize::from(is_second)] += 1;
            assert_eq!(both, if is_second { second } else { first }, "{encapsulation:?} {number}");
            // From the source, into the first function, and from there into the second; to that of another node by a
            // link, and from there to its destination.
            assert_eq!(both.1, if is_second { 5 } else { 3 }, "{encapsulation:?} {number}");
        }
        assert!(met[0] > 4 && met[1] > 4, "{met:?}");
        rigs.iter().for_each(Rig::check);
    }
}

/// What no header of the encapsulation says is refused by name, on either path.
#[test]
fn a_time_to_live_that_no_header_says_is_refused() {
    for has_fast_path in [true, false] {
        let mut town = three_hosts();
        town.instances.iter_mut().for_each(|one| one.speaks = Some(Encapsulation::Mpls));
        town.chain("c", Encapsulation::Mpls, &[&["v1"], &["v4"]], &rules(CHAINED_PORT));
        let mut rig = Rig::of_engines(1, town, |config| config.has_fast_path = has_fast_path, 384);
        rig.behaviours.insert("v1".into(), Behaviour::Swallow);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let mut frame = rig.take("v1.in").remove(0);
        // The function moves the index on; the TTL of RFC 8595 section 6 is the last byte of the pair.
        frame[18] -= 1;
        for (ttl, reason) in [(0, Some(DropReason::NoPath)), (1, None), (255, None)] {
            frame[21] = ttl;
            rig.moved();
            let before = rig.by_fast_path();
            rig.send("v1.out", &frame);
            let moved = rig.moved();
            let dropped = moved.get("v1.out dropped no_path").copied();
            assert_eq!(dropped, reason.map(|_| 1), "{ttl}, {has_fast_path}: {moved:?}");
            let is_fast = rig.by_fast_path() > before;
            assert_eq!(is_fast, has_fast_path && reason.is_none(), "{ttl}: {moved:?}");
        }
    }
}

/// Two chains by turns, into the same tunnel: the datagram of the first grows again behind that of
/// the second.
#[test]
fn what_joins_an_earlier_datagram_is_booked_with_it_and_once() {
    let mut town = three_hosts();
    town.chain("c", Encapsulation::Nsh, &[&["v2"]], &rules(CHAINED_PORT));
    town.chain("other", Encapsulation::Nsh, &[&["v3"]], &rules(CHAINED_PORT + 1));
    let mut rig = Rig::new(town);
    let frames = [0, 1, 0, 1, 0].map(|turn| packet(&rig.town, CHAINED_PORT + turn).frame());
    let mut by_fast_path = Vec::new();
    for round in 1..=2 {
        let before = rig.by_fast_path();
        rig.datagrams.clear();
        rig.send_all("S", frames.iter().map(|frame| (frame.clone(), Offload::default())));
        by_fast_path.push(rig.by_fast_path() - before);
        let rows = rig.datagrams.iter().filter(|row| row.from == 0);
        let rows = rows.map(|row| row.bytes.len() / row.segment_bytes.map_or(1, usize::from));
        assert_eq!(rows.collect::<Vec<_>>(), [3, 2]);
        let out = rig.counters().swap_remove(0).chains.into_iter();
        let out: Vec<u64> = out.map(|chain| chain.tunnelled_out.packets).collect();
        assert_eq!(out, [3 * round, 2 * round]);
    }
    assert_eq!(by_fast_path, [5, 10], "who is known takes the lane from the start");
}

#[test]
fn what_comes_by_two_ports_shares_no_datagram_though_it_is_of_one_flow() {
    let mut town = three_hosts();
    town.endpoint("T", 0, CUSTOMER, &["10.0.0.3"]);
    town.chain("c", Encapsulation::Nsh, &[&["v2"]], &rules(CHAINED_PORT));
    let mut rig = Rig::new(town);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    for _ in 0..2 {
        rig.datagrams.clear();
        for port in ["S", "T"] {
            rig.queue(port, &frame, Offload::default());
        }
        rig.run();
        let rows = rig.datagrams.iter().filter(|row| row.from == 0);
        assert_eq!(rows.map(|row| row.segment_bytes).collect::<Vec<_>>(), [None; 2]);
    }
}
