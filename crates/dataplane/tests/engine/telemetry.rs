//! Records that packets take along: what nodes write of them, what is told at the end, and what never is.

use crate::frames::Spec;
use crate::passing::Behaviour;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::super_frames::super_frame;
use crate::town::{Town, device, node_segments, tunnel_end};
use catena_dataplane::engine::{Engine, ToldEnd, TunnelKind};
use catena_io::Offload;
use catena_model::check::ClockTime;
use catena_model::resource::Encapsulation;
use catena_model::telemetry::{
    DeviceId, HopRecord, HopReport, PathEnd, ReportReason, Telemetry, TelemetryField,
};
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;
use catena_wire::scalar::{FlowCounter, FlowLabel, IpProtocol};
use catena_wire::srv6::{Encaps, Inner, SegmentFlags, Sid};
use catena_wire::srv6_int::{
    ArrivalTime, FunctionLatency, Hop, IntMetadata, IntTag, IntView, MapInfo, Tail,
};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::num::NonZeroU32;

const BOTH: [Encapsulation; 2] = [Encapsulation::Srv6, Encapsulation::Srv6Ethernet];

fn telemetry(mirror: u32) -> Telemetry {
    Telemetry { mirror: NonZeroU32::new(mirror).unwrap(), colour: 7, ..Telemetry::default() }
}

fn town(by: Encapsulation, hops: &[&[&str]], mirror: u32) -> Town {
    let mut town = with_chain(by, hops);
    town.chains[0].telemetry = Some(telemetry(mirror));
    town
}

/// What the nodes have told of packets, by node.
fn ends(rig: &mut Rig) -> Vec<(usize, PathEnd)> {
    let nodes = rig.nodes.iter_mut().enumerate();
    let told = nodes.flat_map(|(number, node)| {
        let engines = node.engines.iter_mut();
        let told = engines.flat_map(Engine::take_path_ends);
        told.map(move |ToldEnd { end, header }| {
            assert_told(&header, &end.hops);
            (number, end)
        })
    });
    told.collect()
}

/// Does a header say of its nodes and their counts what is told?
fn assert_told(header: &[u8], told: &[HopReport]) {
    let hops: Vec<Hop> = view(header).hops().collect();
    assert_eq!(hops.len(), told.len());
    for (hop, told) in hops.into_iter().zip(told) {
        match (hop, told) {
            (Hop::Recorded(record), HopReport::Recorded(told)) => assert_eq!(
                (
                    record.device.map(DeviceId),
                    record.counter,
                    record.latency.map(FunctionLatency::ns)
                ),
                (told.device, told.counter, told.latency.map(|latency| latency.ns))
            ),
            (Hop::Silent(_), HopReport::Silent) => {}
            (hop, told) => assert_eq!(told, &HopReport::Malformed, "{hop:?}"),
        }
    }
}

fn lost(rig: &Rig) -> [u64; 3] {
    let engines = rig.nodes.iter().flat_map(|node| &node.engines);
    engines.fold([0; 3], |[unplaced, strayed, untold], engine| {
        let losses = engine.record_losses();
        [unplaced + losses.unplaced, strayed + losses.strayed, untold + losses.untold]
    })
}

fn view(bytes: &[u8]) -> IntView<'_> {
    IntView::parse(bytes, Tail::Tlv).expect("it takes records along")
}

fn record(hop: Hop) -> IntMetadata {
    match hop {
        Hop::Recorded(record) => record,
        other => panic!("{other:?} is no record"),
    }
}

fn told(end: &PathEnd) -> Vec<HopRecord> {
    let hops = end.hops.iter().map(|hop| match hop {
        HopReport::Recorded(record) => *record,
        other => panic!("{other:?} is no record"),
    });
    hops.collect()
}

/// Lets a function hold what it gets for so many nanoseconds.
pub(crate) fn hold(rig: &mut Rig, (function, for_ns): (&str, u64)) {
    let held = rig.take(&format!("{function}.in"));
    assert!(!held.is_empty(), "{function} has nothing");
    rig.now_ns += for_ns;
    let port = format!("{function}.out");
    let macs = (rig.town.mac(&port), catena_model::program::PROXY_MAC);
    for mut bytes in held {
        ethernet::set_source(&mut bytes, macs.0).unwrap();
        ethernet::set_destination(&mut bytes, macs.1).unwrap();
        rig.queue(&port, &bytes, Offload::default());
    }
    rig.run();
}

pub(crate) fn hang(rig: &mut Rig, functions: &[&str]) {
    for function in functions {
        rig.behaviours.insert((*function).to_owned(), Behaviour::Swallow);
    }
}

#[test]
fn each_node_writes_what_it_knows_and_the_last_one_tells() {
    for by in BOTH {
        // The machine's clock begins with the rig's.
        let began = Some(ClockTime { clock: 1, ns: 0 });
        let chained = town(by, &[&["v2"], &["v4"]], 1);
        let mut rig = Rig::with(chained, |config| config.began = began, 512);
        hang(&mut rig, &["v2", "v4"]);
        rig.now_ns = 5_000_000;
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &frame);
        let tag =
            IntTag { is_for_functions: true, is_mirrored: true, colour: 7, ..IntTag::default() };
        let first = view(&rig.datagrams[0].bytes);
        assert_eq!((first.tag(), first.map()), (tag, MapInfo::ALL));
        assert!(first.hops().all(|hop| matches!(hop, Hop::Ahead(_))));
        hold(&mut rig, ("v2", 12_800));
        let second = view(&rig.datagrams[1].bytes);
        assert_eq!(rig.datagrams[1].bytes.len(), rig.datagrams[0].bytes.len(), "I4");
        assert_eq!((second.tag(), second.map()), (tag, MapInfo::ALL));
        let hops: Vec<_> = second.hops().collect();
        let [served, Hop::Ahead(_)] = hops[..] else { panic!("{hops:?}") };
        let served = record(served);
        assert_eq!(served.device, Some(device(1).0));
        assert_eq!(served.arrival.map(ArrivalTime::ns), Some(5_000_000));
        assert_eq!(served.latency.map(FunctionLatency::ns), Some(12_800));
        assert_eq!((served.queue, served.counter.map(FlowCounter::get)), (None, Some(1)));
        assert!(served.is_of_function && !served.is_synchronised);
        assert!(ends(&mut rig).is_empty(), "it is on its way");
        hold(&mut rig, ("v4", 6_400));
        let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end, at the last node") };
        assert_eq!((end.path, end.reason), (PathId(100), ReportReason::Sampled));
        assert!(!end.is_incomplete);
        let records = told(end);
        let at = |place: usize| {
            let record = records[place];
            let arrival = record.arrival.unwrap().time.ns();
            (
                record.device,
                arrival,
                record.latency.unwrap().ns,
                record.counter.map(FlowCounter::get),
            )
        };
        assert_eq!(records.len(), 2);
        assert_eq!(at(0), (Some(device(1)), 5_000_000, 12_800, Some(1)));
        assert_eq!(at(1), (Some(device(2)), 5_012_800, 6_400, Some(1)));
        // I6: nothing of it leaves the domain.
        let [arrived] = &rig.take("D")[..] else { panic!("it arrives") };
        assert_eq!(arrived[ethernet::HEADER_BYTES..], frame[ethernet::HEADER_BYTES..]);
        assert_eq!(lost(&rig), [0; 3]);
    }
}

#[test]
fn the_first_node_is_a_hop_where_it_serves_functions() {
    for by in BOTH {
        let mut rig = Rig::new(town(by, &[&["v1"], &["v2"], &["v3"], &["v4"]], 1));
        hang(&mut rig, &["v1"]);
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &frame);
        hold(&mut rig, ("v1", 64_000));
        let sent = view(&rig.datagrams[0].bytes);
        let hops: Vec<_> = sent.hops().collect();
        let [own, Hop::Ahead(_), Hop::Ahead(_)] = hops[..] else { panic!("{hops:?}") };
        assert_eq!(record(own).device, Some(device(0).0));
        assert_eq!(record(own).latency.map(FunctionLatency::ns), Some(64_000));
        let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
        let devices: Vec<_> = told(end).iter().map(|record| record.device.unwrap()).collect();
        assert_eq!(devices, [0, 1, 2].map(device), "functions of one node are one hop");
        assert_eq!(rig.take("D").len(), 1);
        assert_eq!(lost(&rig), [0; 3]);
    }
}

#[test]
fn segments_of_others_write_nothing_and_lose_nothing() {
    for by in BOTH {
        let mut town = town(by, &[&["v1"], &["v2"], &["v4"]], 1);
        let other = |number: u16| Ipv6Addr::new(0xfc00, 0, number, 0, 0, 0, 0, 0xe);
        town.chains[0].via = [(1, vec![other(1), other(2)]), (2, vec![other(3)])].into();
        let mut rig = Rig::new(town);
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &frame);
        let lengths: Vec<usize> = rig.datagrams.iter().map(|sent| sent.bytes.len()).collect();
        assert_eq!(lengths[0], lengths[1], "I4");
        let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
        let hops = end.hops.iter().map(|hop| match hop {
            HopReport::Recorded(record) => record.device,
            HopReport::Silent => None,
            HopReport::Malformed => panic!("{end:?}"),
        });
        let [first, second, third] = [0, 1, 2].map(|node| Some(device(node)));
        assert_eq!(hops.collect::<Vec<_>>(), [first, None, None, second, None, third]);
        assert!(!end.is_incomplete);
        assert_eq!(rig.take("D").len(), 1);
        assert_eq!(lost(&rig), [0; 3]);
    }
}

#[test]
fn packets_of_a_flow_keep_their_own_records_in_whatever_order_they_come_back() {
    let mut rig = Rig::new(town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1));
    hang(&mut rig, &["v2"]);
    for number in 0..4_u8 {
        let spec = Spec { payload: vec![number; 9], ..packet(&rig.town, CHAINED_PORT) };
        rig.now_ns += 1_000_000;
        rig.send("S", &spec.frame());
    }
    let held = rig.take("v2.in");
    rig.datagrams.clear();
    let (mac, port) = (rig.town.mac("v2.out"), "v2.out");
    for place in [2, 0, 3, 1] {
        let mut bytes = held[place].clone();
        ethernet::set_source(&mut bytes, mac).unwrap();
        ethernet::set_destination(&mut bytes, catena_model::program::PROXY_MAC).unwrap();
        rig.now_ns += 1_000_000;
        rig.queue(port, &bytes, Offload::default());
        rig.run();
    }
    let seen = rig.datagrams.iter().map(|datagram| {
        let record = record(view(&datagram.bytes).hops().next().unwrap());
        let latency = (record.latency.unwrap().ns() + 500_000) / 1_000_000;
        (record.counter.unwrap().get(), latency)
    });
    // Numbers by their way in; from that to the way out.
    assert_eq!(seen.collect::<Vec<_>>(), [(3, 2), (1, 5), (4, 3), (2, 6)]);
}

#[test]
fn one_in_so_many_packets_of_each_flow_is_told_of() {
    let mut rig = Rig::new(town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 4));
    for number in 0..10_u8 {
        for port in [40_000, 40_001] {
            let spec = Spec {
                payload: vec![number; 9],
                ports: (port, CHAINED_PORT),
                ..packet(&rig.town, CHAINED_PORT)
            };
            rig.send("S", &spec.frame());
        }
    }
    let mut counts = BTreeMap::<_, Vec<u32>>::new();
    for (_, end) in ends(&mut rig) {
        let count = told(&end)[1].counter.unwrap().get();
        counts.entry(end.flow).or_default().push(count);
    }
    assert_eq!(counts.len(), 2, "of each flow");
    for told in counts.values() {
        // Where it begins, the sender cannot know.
        let all: Vec<u32> = (1..=10).filter(|number| number % 4 == told[0] % 4).collect();
        assert_eq!(*told, all);
    }
    assert_eq!(rig.take("D").len(), 20);
}

#[test]
fn wire_packets_of_a_super_frame_are_numbered_and_one_of_them_is_a_sample() {
    for inside in [false, true] {
        let hops: &[&[&str]] = if inside { &[&["v1"], &["v2"]] } else { &[&["v2"]] };
        let mut rig = Rig::new(town(Encapsulation::Srv6, hops, 3));
        let spec = Spec { protocol: IpProtocol::TCP, ..packet_v6(&rig.town, CHAINED_PORT) };
        let (frame, offload) = super_frame(&Spec { payload: vec![7; 5_000], ..spec });
        rig.send_all("S", [(frame, offload)]);
        let rows: Vec<Vec<u8>> = rig
            .datagrams
            .iter()
            .filter(|sent| sent.kind.is_segmented())
            .flat_map(|sent| {
                let size = sent.segment_bytes.map_or(sent.bytes.len(), usize::from);
                sent.bytes.chunks(size).map(<[u8]>::to_vec).collect::<Vec<_>>()
            })
            .collect();
        assert!(rows.len() > 3);
        let is_mirrored = |row: &Vec<u8>| view(row).tag().is_mirrored;
        let first = rows.iter().position(is_mirrored).unwrap();
        assert!(first < 3);
        for (number, row) in rows.iter().enumerate() {
            assert_eq!(is_mirrored(row), number % 3 == first, "{number}");
            if inside {
                let own = record(view(row).hops().next().unwrap());
                assert_eq!(own.counter.unwrap().get() as usize, number + 1);
            }
        }
        let counts: Vec<_> = ends(&mut rig)
            .iter()
            .map(|(_, end)| told(end).last().unwrap().counter.unwrap().get())
            .collect();
        let expected: Vec<u32> =
            (first as u32..rows.len() as u32).step_by(3).map(|n| n + 1).collect();
        assert_eq!(counts, expected);
        assert_eq!(lost(&rig), [0; 3]);
    }
}

#[test]
fn copies_for_taps_take_nothing_along() {
    let mut chained = town(Encapsulation::Srv6, &[&["v3"], &["v2"], &["v4"]], 1);
    chained.chains[0].taps = vec![0];
    let mut rig = Rig::new(chained);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    assert_eq!(rig.visits()["v3.in"], 1);
    let with = rig.datagrams.iter().filter(|sent| IntView::parse(&sent.bytes, Tail::Tlv).is_ok());
    assert_eq!(with.count(), 2, "from the first to the second, and on to the third");
    let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
    assert_eq!(told(end).len(), 2);
    assert_eq!(lost(&rig), [0; 3]);
}

#[test]
fn packets_that_find_no_place_go_on_without() {
    let chained = town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1);
    let mut rig = Rig::with(chained, |config| config.records_max = 2, 512);
    hang(&mut rig, &["v2"]);
    for number in 0..5_u8 {
        let spec = Spec { payload: vec![number; 9], ..packet(&rig.town, CHAINED_PORT) };
        rig.send("S", &spec.frame());
    }
    hold(&mut rig, ("v2", 1_000));
    assert_eq!(rig.take("D").len(), 5);
    assert_eq!(ends(&mut rig).len(), 2);
    assert_eq!(lost(&rig), [3, 0, 0]);
    // Who never gives a place back makes room after a second.
    for number in 10..12_u8 {
        let spec = Spec { payload: vec![number; 9], ..packet(&rig.town, CHAINED_PORT) };
        rig.send("S", &spec.frame());
    }
    let held = rig.take("v2.in");
    rig.now_ns += 1_000_000_001;
    let spec = Spec { payload: vec![12; 9], ..packet(&rig.town, CHAINED_PORT) };
    rig.send("S", &spec.frame());
    assert_eq!((held.len(), lost(&rig)), (2, [3, 1, 0]));
    hold(&mut rig, ("v2", 1_000));
    assert_eq!(ends(&mut rig).len(), 1);
}

#[test]
fn a_function_that_makes_packets_anew_has_no_latency() {
    let mut rig = Rig::new(town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1));
    hang(&mut rig, &["v2"]);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    // The first of the flow is a sample, and back.
    rig.send("S", &frame);
    hold(&mut rig, ("v2", 1_000));
    ends(&mut rig);
    let spec = Spec { payload: vec![3; 9], ..packet(&rig.town, CHAINED_PORT) };
    rig.send("S", &spec.frame());
    rig.take("v2.in");
    let mut bytes = Spec { payload: vec![4; 9], ..packet(&rig.town, CHAINED_PORT) }.frame();
    ethernet::set_source(&mut bytes, rig.town.mac("v2.out")).unwrap();
    ethernet::set_destination(&mut bytes, catena_model::program::PROXY_MAC).unwrap();
    rig.send("v2.out", &bytes);
    let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
    assert_eq!((end.reason, end.is_incomplete), (ReportReason::Sampled, false));
    let records = told(end);
    assert_eq!(records[0].latency, None);
    assert_eq!(records[0].counter.unwrap().get(), 2);
    assert!(records[1].latency.is_some());
}

#[test]
fn packets_with_the_same_bytes_have_no_latency_where_nobody_knows_which_is_which() {
    let mut rig = Rig::new(town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1));
    hang(&mut rig, &["v2"]);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    // The function keeps the first, and gives the second back.
    rig.send("S", &frame);
    rig.take("v2.in");
    rig.now_ns += 500_000_000;
    rig.send("S", &frame);
    hold(&mut rig, ("v2", 1_000));
    let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
    assert_eq!(told(end)[0].latency, None);
}

#[test]
fn who_may_not_send_there_takes_no_place_and_nobody_does_where_nothing_is_recorded() {
    let mut rig = Rig::with(
        town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1),
        |config| config.records_max = 1,
        512,
    );
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let onward = rig.datagrams[1].bytes.clone();
    assert_eq!(ends(&mut rig).len(), 1);
    rig.take("D");
    rig.moved();
    let kind = TunnelKind::Path(Encapsulation::Srv6);
    // The first node sends nothing to the third.
    for _ in 0..4 {
        rig.send_datagram(2, kind, tunnel_end(0, kind), &onward);
        rig.assert_only_dropped("host3 tunnels", DropReason::ForeignPath);
    }
    assert_eq!(lost(&rig), [0; 3]);
    rig.town.chains[0].telemetry = None;
    rig.apply();
    rig.send_datagram(2, kind, tunnel_end(1, kind), &onward);
    assert!(ends(&mut rig).is_empty());
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn a_node_without_a_number_is_silent_and_the_packet_says_so() {
    let mut chained = town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1);
    chained.unnumbered.insert(1);
    let mut rig = Rig::new(chained);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
    assert!(end.is_incomplete);
    let [HopReport::Silent, HopReport::Recorded(own)] = &end.hops[..] else { panic!("{end:?}") };
    assert_eq!(own.device, Some(device(2)));
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn no_field_is_written_that_nobody_asked_for() {
    let mut chained = town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1);
    let wanted = [TelemetryField::Device, TelemetryField::Latency];
    chained.chains[0].telemetry = Some(Telemetry { fields: wanted.into(), ..telemetry(1) });
    let mut rig = Rig::new(chained);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let [(2, end)] = &ends(&mut rig)[..] else { panic!("one end") };
    for record in told(end) {
        assert!(record.device.is_some() && record.latency.is_some());
        assert_eq!((record.arrival, record.queue, record.counter), (None, None, None));
    }
    let map = MapInfo::DEVICE.with(MapInfo::LATENCY);
    assert_eq!(view(&rig.datagrams[1].bytes).map(), map);
}

#[test]
fn who_took_too_long_is_told_of_though_no_sample() {
    let mut chained = town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1_000);
    let limit = NonZeroU32::new(500);
    chained.chains[0].telemetry = Some(Telemetry { latency_limit_us: limit, ..telemetry(1_000) });
    let mut rig = Rig::new(chained);
    hang(&mut rig, &["v2"]);
    let mut reasons = Vec::new();
    // To the half of a unit of 128 ns.
    for (number, held_ns) in [(0, 1), (1, 500_000), (2, 500_100), (3, 3_000_000_000)] {
        let spec = Spec { payload: vec![number; 9], ..packet(&rig.town, CHAINED_PORT) };
        rig.send("S", &spec.frame());
        hold(&mut rig, ("v2", held_ns));
        reasons.push(ends(&mut rig).first().map(|(_, end)| end.reason));
    }
    let (long, longest) = (Some(ReportReason::Latency), Some(ReportReason::Saturated));
    assert_eq!(reasons, [None, None, long, longest]);
}

#[test]
fn a_header_that_says_what_nobody_wrote_changes_nothing_but_itself() {
    let mut rig = Rig::new(town(Encapsulation::Srv6, &[&["v2"], &["v4"]], 1));
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let good = rig.datagrams[0].bytes.clone();
    rig.take("D");
    ends(&mut rig);
    let kind = TunnelKind::Path(Encapsulation::Srv6);
    let routing = catena_wire::ipv6::HEADER_BYTES;
    let tail = good.len() - (frame.len() - ethernet::HEADER_BYTES) - 8;
    // Its version, the type of its TLV, and bits of the map that there are not.
    for (at, octet) in [(routing + 6, 0x20), (tail, 251), (tail + 2, 0xff)] {
        let mut bytes = good.clone();
        bytes[at] = octet;
        rig.send_datagram(1, kind, tunnel_end(0, kind), &bytes);
        assert_eq!(rig.take("D").len(), 1, "{at}: it is forwarded");
        assert!(ends(&mut rig).is_empty(), "{at}: and nothing is told of it");
    }
}

#[test]
fn without_telemetry_no_header_takes_anything_along() {
    let mut rig = Rig::new(with_chain(Encapsulation::Srv6, &[&["v2"], &["v4"]]));
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    assert!(rig.datagrams.iter().all(|sent| IntView::parse(&sent.bytes, Tail::Tlv).is_err()));
    assert!(ends(&mut rig).is_empty());
}

/// A node that says so lies or is mistaken: what it sends is counted as the slow path counts it, so that nothing of the
/// flow seems lost.
#[test]
fn what_says_that_it_is_at_the_end_of_a_path_with_telemetry_is_never_the_fast_paths() {
    for by in BOTH {
        let mut rig = Rig::new(town(by, &[&["v2"]], 1));
        let plain = Rig::new(with_chain(by, &[&["v2"]]));
        for (rig, is_fast) in [(&mut rig, false), (&mut { plain }, true)] {
            let frame = packet(&rig.town, CHAINED_PORT).frame();
            let function = if by == Encapsulation::Srv6 { 20 } else { 21 };
            let locator = node_segments(2).locator;
            let way = [Sid { locator, function, path: 100, hop: 1 }.address()];
            let (inner, protocol) = match by {
                Encapsulation::Srv6 => (&frame[ethernet::HEADER_BYTES..], Inner::Ipv4),
                _ => (&frame[..], Inner::Ethernet),
            };
            let encaps = Encaps {
                source: node_segments(1).address,
                way: &way,
                traffic_class: 0,
                flow_label: FlowLabel::new(1).unwrap(),
                hop_limit: 60,
                inner: protocol,
                is_reduced: false,
                flags: SegmentFlags::default(),
                tag: 0,
                tlvs: &[],
                key_id: None,
            };
            let mut sent = vec![0; 512];
            let length = encaps.emit(inner.len(), &mut sent).unwrap();
            sent.truncate(length);
            sent.extend(inner);
            let kind = TunnelKind::Path(by);
            for _ in 0..2 {
                let before = rig.by_fast_path();
                rig.send_datagram(2, kind, tunnel_end(1, kind), &sent);
                assert_eq!(rig.by_fast_path() > before, is_fast, "{by:?}");
            }
            assert_eq!(rig.take("D").len(), 2, "{by:?}");
            rig.check();
        }
    }
}
