//! What flows are told, when and why; what is found; and the profile, held against the code.

use super::*;
use crate::check::Fault;
use crate::harness::traffic::{self, Shape};
use crate::harness::{Input, verify};
use crate::packet::Metadata;
use catena_wire::ipfix::{FlowRecord, Message};
use catena_wire::scalar::{IpProtocol, MacAddr};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

const EPOCH: u64 = 1_700_000_000;

fn config() -> MonitorConfig {
    MonitorConfig { epoch_seconds: EPOCH, domain: 9, seed: 5, ..MonitorConfig::default() }
}

fn monitor(config: MonitorConfig) -> Monitor {
    Monitor::new(config).unwrap()
}

/// What a monitor has handed out.
#[derive(Default)]
struct Collected {
    /// Export times and sequence numbers of messages of templates.
    templates: Vec<(u32, u32)>,
    records: Vec<FlowRecord>,
    events: Vec<Event>,
}

impl Collected {
    fn take(&mut self, outcomes: &Outcomes) {
        self.events.extend(outcomes.events().iter().map(|(_, event)| *event));
        for (_, handed_out) in outcomes.handed_out() {
            let bytes = outcomes.bytes(handed_out.message.clone());
            assert!(bytes.len() <= 1_400);
            let Message { header, .. } = Message::parse(bytes).unwrap();
            assert_eq!((header.sequence as usize, header.domain), (self.records.len(), 9));
            let sets = Message::parse(bytes).unwrap().sets();
            if sets.clone().any(|set| set.id == 2) {
                self.templates.push((header.export_seconds, header.sequence));
            }
            assert!(!self.templates.is_empty(), "templates come first");
            self.records.extend(sets.flat_map(|set| set.records()));
        }
    }

    fn reasons(&self) -> Vec<EndReason> {
        self.records.iter().map(|record| record.end).collect()
    }
}

fn host(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

fn shape(from: (u8, u16), to: (u8, u16), flags: u8) -> Shape {
    Shape {
        ends: (host(from.0), host(to.0)),
        protocol: IpProtocol::TCP,
        ports: (from.1, to.1),
        flags: TcpFlags(flags),
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        payload: vec![0; 100],
        vlan: None,
        is_later_fragment: false,
        macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 17;
const RST: u8 = 4;
const CLIENT: (u8, u16) = (1, 40_000);
const SERVER: (u8, u16) = (2, 80);

/// Shows packets of the client and of the server, each at its millisecond.
fn show(monitor: &mut Monitor, packets: &[(u64, Shape)], collected: &mut Collected) {
    let mut outcomes = Outcomes::default();
    for (at, shape) in packets {
        let frame = shape.frame().unwrap();
        let is_back = shape.ends.0 == host(SERVER.0);
        let direction = if is_back { Direction::Backward } else { Direction::Forward };
        let packet = Packet::read(&frame).unwrap();
        monitor.process(Time(at * 1_000_000), direction, &[packet], &mut outcomes);
        assert_eq!(outcomes.verdicts(), [Verdict::Pass]);
        assert!(outcomes.patches().is_empty());
        collected.take(&outcomes);
    }
}

fn pass_time(monitor: &mut Monitor, milliseconds: u64, collected: &mut Collected) {
    let mut outcomes = Outcomes::default();
    monitor.elapse(Time(milliseconds * 1_000_000), &mut outcomes);
    collected.take(&outcomes);
}

fn end_all(monitor: &mut Monitor, milliseconds: u64, collected: &mut Collected) {
    let mut outcomes = Outcomes::default();
    monitor.end_all(Time(milliseconds * 1_000_000), &mut outcomes);
    collected.take(&outcomes);
}

/// Packets over so long that records end for each reason.
fn slow(seed: u64, packets: usize) -> Vec<Input> {
    let inputs = traffic::draw(seed, packets).into_iter();
    inputs.map(|input| Input { at: Time(input.at.0 * 10_000), ..input }).collect()
}

#[test]
fn the_profile_is_true() {
    let inputs = slow(21, 12_000);
    let configs = [
        MonitorConfig {
            flows_max: 64,
            scans: Some(ScanLimit { pairs: 1, seconds: 20 }),
            ..config()
        },
        MonitorConfig { active_seconds: 3, idle_seconds: 2, scans: None, ..config() },
    ];
    for config in configs {
        let proof =
            verify(|| monitor(config), &inputs, 3).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{proof:?}");
        assert!(proof.packets == 12_000 && proof.handed_out > 200, "{proof:?}");
        assert_eq!(proof.events > 10, config.scans.is_some(), "{proof:?}");
        let parts = (proof.dropped, proof.patches, proof.generated);
        assert_eq!(parts, (0, 0, 0));
    }
}

/// What is read is no more than what makes a difference.
#[test]
fn each_part_that_is_read_makes_a_difference() {
    let inputs = slow(23, 3_000);
    let fault = |reads: FieldSet| {
        let make = || {
            let mut monitor = monitor(MonitorConfig { flows_max: 64, ..config() });
            monitor.profile.reads = reads;
            monitor
        };
        verify(make, &inputs, 3).err().map(|disproof| disproof.fault)
    };
    let metas = [Meta::InPort, Meta::ReceivedAt];
    let with = FieldSet::with_meta;
    let fields = READS.into_iter().fold(FieldSet::EMPTY, FieldSet::with);
    assert_eq!(fault(metas.into_iter().fold(fields, with)), None);
    for left in metas {
        let others = metas.into_iter().filter(|meta| *meta != left);
        assert_eq!(fault(others.fold(fields, with)), Some(Fault::Read), "{left:?}");
    }
    // Those by which others are found are the same in any case.
    let structure = [Field::EtherType, Field::Length, Field::FragmentOffset, Field::Protocol];
    for left in READS.into_iter().filter(|field| !structure.contains(field)) {
        let others = READS.into_iter().filter(|field| *field != left);
        let reads = others.fold(FieldSet::EMPTY, FieldSet::with);
        assert_eq!(fault(metas.into_iter().fold(reads, with)), Some(Fault::Read), "{left:?}");
    }
}

/// Each packet of IP is in one record, and no record has more.
#[test]
fn records_add_up_to_the_packets() {
    let inputs = slow(22, 12_000);
    let mut wanted: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut collected = Collected::default();
    let mut monitor =
        monitor(MonitorConfig { flows_max: 60, idle_seconds: 2, active_seconds: 3, ..config() });
    let mut outcomes = Outcomes::default();
    for input in &inputs {
        let packet =
            Packet { metadata: Metadata::default(), ..Packet::read(&input.frame).unwrap() };
        let packet = Packet { wire_packets: 3, ..packet };
        let seen = Sighting::of(&packet, input.direction).unwrap();
        let key = format!("{:?} {}", seen.key.flow, input.direction == Direction::Backward);
        let (packets, bytes) = wanted.entry(key).or_default();
        (*packets, *bytes) = (*packets + 3, *bytes + packet.wire_bytes);
        monitor.process(input.at, input.direction, &[packet], &mut outcomes);
        collected.take(&outcomes);
    }
    assert!((1..=60).contains(&monitor.open()));
    let last = inputs.last().unwrap().at.0 / 1_000_000;
    end_all(&mut monitor, last, &mut collected);
    let mut told: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for record in &collected.records {
        let sums = told.entry(format!("{:?} {}", record.flow, record.is_egress)).or_default();
        (sums.0, sums.1) = (sums.0 + record.packets, sums.1 + record.bytes);
        assert!(record.first_ms >= EPOCH * 1_000 && record.first_ms <= record.last_ms);
        assert!(record.last_ms <= EPOCH * 1_000 + last);
        assert!(record.last_ms - record.first_ms < 3_000);
    }
    assert!(told == wanted && told.len() > 2_000, "{} of {}", told.len(), wanted.len());
    let statistics = monitor.statistics();
    assert_eq!(statistics.ended, collected.records.len() as u64);
    for reason in 1..=5 {
        let reason = EndReason::from_number(reason).unwrap();
        let of_reason = collected.records.iter().filter(|record| record.end == reason).count();
        assert!(of_reason > 0, "{reason:?}");
        if reason == EndReason::Full {
            assert_eq!(statistics.ended_early, of_reason as u64);
        }
    }
    let mut counts = Vec::new();
    monitor.report(&mut counts);
    let packets = wanted.values().map(|(packets, _)| packets).sum();
    let bytes = wanted.values().map(|(_, bytes)| bytes).sum();
    assert_eq!(counts[0], RuleCount { packets, bytes });
}

#[test]
fn a_connection_is_two_records_and_two_halves_of_a_round_trip() {
    let mut collected = Collected::default();
    let mut monitor = monitor(config());
    let packets = [
        (0, shape(CLIENT, SERVER, SYN)),
        (3, shape(SERVER, CLIENT, SYN | ACK)),
        (4, shape(CLIENT, SERVER, ACK)),
        (900, shape(CLIENT, SERVER, ACK | 8)),
        (901, shape(SERVER, CLIENT, ACK)),
        (902, shape(CLIENT, SERVER, FIN)),
        (903, shape(SERVER, CLIENT, ACK)),
        (904, shape(SERVER, CLIENT, FIN)),
        (905, shape(CLIENT, SERVER, ACK)),
    ];
    show(&mut monitor, &packets, &mut collected);
    assert_eq!(monitor.open(), 0);
    pass_time(&mut monitor, 1_904, &mut collected);
    let [server, client] = *collected.records else { panic!("{:?}", collected.records) };
    assert_eq!((server.packets, server.bytes, server.tcp_flags), (4, 560, TcpFlags(0x13)));
    assert_eq!((client.packets, client.bytes, client.tcp_flags), (5, 700, TcpFlags(0x1b)));
    assert_eq!(
        [server, client].map(|one| (one.end, one.is_egress)),
        [(EndReason::Ended, true), (EndReason::Ended, false)]
    );
    assert_eq!(client.first_ms, EPOCH * 1_000);
    assert_eq!(client.last_ms, EPOCH * 1_000 + 905);
    let trips = monitor.round_trips();
    // 3 ms and 1 ms.
    assert_eq!((trips.to_asked[12], trips.to_asking[10]), (1, 1));
    assert_eq!(trips.to_asked.iter().chain(&trips.to_asking).sum::<u64>(), 2);
}

#[test]
fn a_repeated_syn_measures_only_what_is_behind_it() {
    let mut monitor = monitor(config());
    let packets = [
        (0, shape(CLIENT, SERVER, SYN)),
        (1_000, shape(CLIENT, SERVER, SYN)),
        (1_003, shape(SERVER, CLIENT, SYN | ACK)),
        (1_004, shape(CLIENT, SERVER, ACK)),
        (1_005, shape(CLIENT, SERVER, ACK)),
    ];
    show(&mut monitor, &packets, &mut Collected::default());
    let trips = monitor.round_trips();
    assert_eq!(trips.to_asked.iter().sum::<u64>(), 0);
    assert_eq!(trips.to_asking.iter().sum::<u64>(), 1);
}

#[test]
fn records_end_for_their_reasons() {
    let flow = || shape(CLIENT, SERVER, ACK);
    let reasons = |packets: &[(u64, Shape)], until: u64| {
        let mut collected = Collected::default();
        let mut monitor = monitor(MonitorConfig { flows_max: 2, ..config() });
        show(&mut monitor, packets, &mut collected);
        pass_time(&mut monitor, until, &mut collected);
        pass_time(&mut monitor, until + 1_000, &mut collected);
        collected.reasons()
    };
    assert_eq!(reasons(&[(0, flow())], 14_999), []);
    assert_eq!(reasons(&[(0, flow())], 15_000), [EndReason::Idle]);
    assert_eq!(reasons(&[(0, flow()), (15_000, flow())], 15_000), [EndReason::Idle]);
    let long: Vec<(u64, Shape)> = (0..=6).map(|at| (at * 10_000, flow())).collect();
    assert_eq!(reasons(&long[..6], 59_999), []);
    assert_eq!(reasons(&long, 60_000), [EndReason::Active]);
    let reset = [(0, flow()), (1, shape(SERVER, CLIENT, RST))];
    assert_eq!(reasons(&reset, 1), [EndReason::Ended, EndReason::Ended]);
    let others = (1..=4).map(|port| (u64::from(port), shape((1, port), SERVER, ACK)));
    assert_eq!(reasons(&others.collect::<Vec<_>>(), 5), [EndReason::Full, EndReason::Full]);
    // A new connection from the port of one whose end was seen from one side only.
    let again = [(0, shape(CLIENT, SERVER, FIN)), (1, shape(CLIENT, SERVER, SYN))];
    assert_eq!(reasons(&again, 1), [EndReason::Ended]);
    assert_eq!(reasons(&again[..1], 15_000), [EndReason::Ended]);
}

#[test]
fn templates_come_again() {
    let mut collected = Collected::default();
    let mut monitor = monitor(config());
    for second in 0..=125 {
        pass_time(&mut monitor, second * 1_000, &mut collected);
    }
    let at = [0, 60, 120].map(|second| (EPOCH as u32 + second, 0));
    assert_eq!(collected.templates, at);
}

/// A host that asks so many ports of another, which answers each of them or none.
fn asking(ports: u16, is_answered: bool, begin: u64) -> Vec<(u64, Shape)> {
    let ask = |port: u16| {
        let (asks, answers) = ((1, 50_000), (2, 1 + port));
        let answer = if is_answered { SYN | ACK } else { RST | ACK };
        [shape(asks, answers, SYN), shape(answers, asks, answer)]
    };
    let all = (0..ports).flat_map(|port| ask(port).map(|shape| (begin + u64::from(port), shape)));
    all.collect()
}

#[test]
fn scans_are_told_once() {
    let found = |packets: &[(u64, Shape)]| {
        let mut collected = Collected::default();
        let mut monitor = monitor(config());
        show(&mut monitor, packets, &mut collected);
        let last = packets.last().unwrap().0;
        (1..4).for_each(|round| pass_time(&mut monitor, last + round * 10_000, &mut collected));
        collected.events
    };
    let scan =
        Event { at: Time::seconds(10), kind: EventKind::ScanFound(host(1)), rule: SCANS_RULE };
    let long = found(&asking(30_000, false, 0));
    assert!(long.len() == 1 && long[0] == Event { at: long[0].at, ..scan }, "{long:?}");
    let short = found(&asking(120, false, 0));
    assert!(short.len() == 1 && short[0].kind == scan.kind, "{short:?}");
    assert_eq!(found(&asking(80, false, 0)), []);
    assert_eq!(found(&asking(3_000, true, 0)), []);
    // Again, after a pause.
    let twice = [asking(200, false, 0), asking(200, false, 60_000)].concat();
    assert_eq!(found(&twice).len(), 2);
}

#[test]
fn those_who_talk_most_are_on_top() {
    let mut monitor = monitor(MonitorConfig { flows_max: 50, ..config() });
    let mut random = traffic::Random::new(8);
    let mut collected = Collected::default();
    let mut bytes: BTreeMap<u16, u64> = BTreeMap::new();
    for at in 0..900 {
        let port = 1 + random.below(100).min(random.below(100)) as u16;
        let length = random.below(1_200);
        let shape = Shape { payload: vec![0; length], ..shape((1, port), SERVER, ACK) };
        *bytes.entry(port).or_default() += 40 + length as u64;
        show(&mut monitor, &[(at, shape)], &mut collected);
    }
    let all = monitor.top(10_000);
    let seen: u64 = all.iter().map(|one| one.bytes).sum();
    assert!(seen == bytes.values().sum::<u64>(), "none of them is forgotten yet");
    assert!(all.len() > 50 && all.is_sorted_by(|a, b| a.bytes >= b.bytes));
    assert_eq!(all.iter().filter(|one| one.end.is_none()).count(), 50);
    for (count, wanted) in [(0, 0), (1, 1), (7, 7)] {
        assert_eq!(monitor.top(count), all[..wanted]);
    }
}

/// What outcomes show of late or never is carried over, too; in their order.
#[test]
fn state_is_carried_over_whole() {
    let config = MonitorConfig {
        flows_max: 64,
        scans: Some(ScanLimit { pairs: 1, seconds: 20 }),
        ..config()
    };
    let (mut first, mut follower) = (monitor(config), monitor(config));
    let mut outcomes = Outcomes::default();
    let (mut handshakes, mut told, mut closing) = (0, 0, 0);
    for (at, input) in slow(24, 6_000).iter().enumerate() {
        let packet = Packet::read(&input.frame).unwrap();
        first.process(input.at, input.direction, &[packet], &mut outcomes);
        if !at.is_multiple_of(30) {
            continue;
        }
        let (mut changes, mut all) = (Vec::new(), Vec::new());
        first.export(false, &mut changes);
        follower.import(&changes);
        first.clone().export(true, &mut all);
        let mut fresh = monitor(config);
        assert_eq!(fresh.import(&all), all.len());
        let flows = |monitor: &Monitor| -> Vec<(Key, Record)> {
            let clean = |record: &Record| Record { is_dirty: false, ..*record };
            monitor.flows.iter().map(|(key, record)| (*key, clean(record))).collect()
        };
        let sources = |monitor: &Monitor| -> Vec<(IpAddr, scans::Source)> {
            let sources = monitor.scans.iter().flat_map(|scans| scans.sources.iter());
            let clean = |source: &scans::Source| scans::Source { is_dirty: false, ..*source };
            sources.map(|(address, source)| (*address, clean(source))).collect()
        };
        for other in [&follower, &fresh] {
            assert!(flows(other) == flows(&first) && sources(other) == sources(&first), "{at}");
            assert_eq!(other.round_trips, first.round_trips);
            assert_eq!(other.statistics, first.statistics);
            assert_eq!((other.tick, other.counts), (first.tick, first.counts));
        }
        let has = |what: &dyn Fn(&Record) -> bool| {
            usize::from(first.flows.iter().any(|(_, record)| what(record)))
        };
        handshakes += has(&|record| record.handshake != Handshake::None);
        closing += has(&|record| record.is_closing);
        told += usize::from(sources(&first).iter().any(|(_, source)| source.was_told));
    }
    assert!(handshakes > 0 && told > 0 && closing > 0, "{handshakes} {told} {closing}");
}

#[test]
fn what_is_no_state_is_not_taken_over() {
    let mut first = monitor(config());
    show(&mut first, &asking(20, false, 0), &mut Collected::default());
    show(&mut first, &[(30, shape(CLIENT, SERVER, SYN))], &mut Collected::default());
    let mut entries = Vec::new();
    first.export(true, &mut entries);
    let kinds: Vec<u8> = entries.iter().map(|entry| entry.key[0]).collect();
    assert_eq!(kinds, *b"fsa");
    assert_eq!(monitor(config()).import(&entries), 3);
    for entry in &entries {
        for cut in 0..entry.key.len() {
            let key = entry.key[..cut].to_vec();
            let damaged = StateEntry { key, value: entry.value.clone() };
            assert_eq!(monitor(config()).import(&[damaged]), 0);
        }
        let value = entry.value.as_ref().unwrap();
        for cut in 0..value.len() {
            let value = Some(value[..cut].to_vec());
            let damaged = StateEntry { key: entry.key.clone(), value };
            assert_eq!(monitor(config()).import(&[damaged]), 0, "{cut}");
        }
    }
    // Nor does any state end in a panic.
    for entry in &mut entries {
        entry.value.as_mut().unwrap().iter_mut().skip(3).take(40).for_each(|byte| *byte = 0xff);
    }
    let mut full = monitor(config());
    assert_eq!(full.import(&entries), 3);
    show(&mut full, &asking(20, true, 0), &mut Collected::default());
    show(&mut full, &[(60_000, shape(CLIENT, SERVER, SYN))], &mut Collected::default());
    let mut small = monitor(MonitorConfig { flows_max: 1, ..config() });
    show(&mut small, &[(0, shape((1, 7), SERVER, ACK))], &mut Collected::default());
    assert_eq!(small.import(&entries), 2, "there is no room for the flow");
}

#[test]
fn what_changed_is_told_and_what_is_gone() {
    let mut first = monitor(config());
    let mut collected = Collected::default();
    let changes = |monitor: &mut Monitor| {
        let mut entries = Vec::new();
        monitor.export(false, &mut entries);
        let told = entries.iter().map(|entry| (entry.key[0], entry.value.is_some()));
        told.collect::<Vec<_>>()
    };
    show(&mut first, &[(0, shape(CLIENT, SERVER, ACK))], &mut collected);
    assert_eq!(changes(&mut first), [(b'n', false), (b'f', true), (b'a', true)]);
    assert_eq!(changes(&mut first), [(b'a', true)]);
    show(&mut first, &[(1, shape(SERVER, CLIENT, ACK))], &mut collected);
    assert_eq!(changes(&mut first), [(b'f', true), (b'a', true)]);
    show(&mut first, &[(2, shape(CLIENT, SERVER, RST))], &mut collected);
    assert_eq!(changes(&mut first), [(b'f', false), (b'f', false), (b'a', true)]);
}

#[test]
fn a_configuration_has_bounds() {
    let wrong = |config: MonitorConfig| Monitor::new(config).err().unwrap();
    assert_eq!(wrong(MonitorConfig { idle_seconds: 0, ..config() }), MonitorError::Timeout);
    assert_eq!(wrong(MonitorConfig { flows_max: 0, ..config() }), MonitorError::Flows(0));
    assert_eq!(wrong(MonitorConfig { flows_max: 65_537, ..config() }), MonitorError::Flows(65_537));
    let scans = Some(ScanLimit { pairs: 513, seconds: 1 });
    assert_eq!(wrong(MonitorConfig { scans, ..config() }), MonitorError::Pairs(513));
}
