//! Bumps between rings of this process: what comes out, in which shape, and an account that adds up.

use super::*;
use crate::account::{Held, Messages};
use crate::clock::Clock;
use crate::run::{News, run};
use catena_io::{LocalPort, Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_model::limits::FUNCTION_ERRORS_BURST;
use catena_model::profile::Profile;
use catena_nf::firewall::Firewall;
use catena_nf::function::{Answer, RuleCount, StateEntry};
use catena_nf::harness::traffic::Shape;
use catena_nf::monitor::{Monitor, MonitorConfig};
use catena_nf::outcome::{DropCause, Patch};
use catena_nf::packet::Packet;
use catena_nf::shaper::Shaper;
use catena_rules::qos::{self, QosKind};
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, iptables};
use catena_wire::field::Field;
use catena_wire::frame::FrameView;
use catena_wire::ipfix::{EndReason, Message};
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::TcpFlags;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const SLOTS: usize = 64;

/// A bump with the far ends of its ports, the incoming first.
struct Bench<F: ?Sized = dyn Function> {
    bump: Bump<LocalPort, F>,
    far: [LocalPort; 2],
    pool: BufferPool,
}

impl Bench {
    fn firewall(rules: &str) -> Self {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n");
        let options = ReadOptions { file: "edge".into(), ..ReadOptions::default() };
        let set = iptables::read(&text, Families::V4, &options).unwrap();
        Self::of(Box::new(Firewall::new(&[set]).unwrap()))
    }
}

impl<F: Function + ?Sized> Bench<F> {
    fn of(function: Box<F>) -> Self {
        let [(near_in, far_in), (near_out, far_out)] =
            [(); 2].map(|()| LocalPort::pair(SLOTS).unwrap());
        let bump = Bump::new(function, [near_in, near_out]);
        Self { bump, far: [far_in, far_out], pool: BufferPool::new(4 * SLOTS) }
    }

    fn send(&mut self, side: Side, frame: &[u8], offload: Offload) {
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(frame));
        buffer.offload = offload;
        let sent = self.far[index(side)].transmit(&mut vec![buffer], &mut self.pool);
        assert_eq!(sent.sent, 1);
    }

    fn turn(&mut self) {
        self.bump.turn(Time::seconds(1)).unwrap();
    }

    /// What has come out at a side.
    fn came(&mut self, side: Side) -> Vec<(Vec<u8>, Offload)> {
        let mut came = Vec::new();
        self.far[index(side)].receive(&mut self.pool, &mut came, SLOTS);
        let frames = came.drain(..).map(|buffer| {
            let frame = (buffer.bytes().to_vec(), buffer.offload);
            self.pool.put(buffer);
            frame
        });
        frames.collect()
    }

    fn account(&mut self) -> Account {
        assert_eq!(self.bump.pool.free(), POOL_BUFFERS, "buffers are lost");
        let account = self.bump.account();
        assert_eq!(account.unaccounted, 0, "{account:?}");
        account
    }
}

fn shape(protocol: IpProtocol, port: u16, payload_bytes: usize) -> Shape {
    Shape {
        ends: ("10.0.0.1".parse().unwrap(), "10.0.1.2".parse().unwrap()),
        protocol,
        ports: (40_000, port),
        flags: TcpFlags::ACK,
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        payload: vec![7; payload_bytes],
        vlan: None,
        is_later_fragment: false,
        macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
    }
}

fn tcp(port: u16, payload_bytes: usize) -> Vec<u8> {
    shape(IpProtocol::TCP, port, payload_bytes).frame().unwrap()
}

/// The checksum of TCP behind IPv4 left open, and of the data in segments of 100 bytes.
fn open(is_super: bool) -> Offload {
    let kind = SegmentationKind::TcpV4;
    let segmentation = Segmentation { kind, ecn: false, segment_bytes: 100, header_bytes: 0 };
    Offload {
        checksum: Some(PartialChecksum { start: 34, offset: 16 }),
        segmentation: is_super.then_some(segmentation),
    }
}

/// A frame whose checksum holds the sum of the pseudo header alone.
fn opened(mut frame: Vec<u8>) -> Vec<u8> {
    let segment = u32::try_from(frame.len() - 34).unwrap();
    let words = frame[26..34].chunks(2);
    let sum: u32 = words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = sum + 6 + segment;
    let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn what_is_no_packet_passes_as_it_is_and_what_cannot_be_read_ends_by_its_reason() {
    let mut bench = Bench::firewall("-A FORWARD -j DROP\n");
    let arp = [vec![0xff; 12], vec![8, 6], vec![1; 46]].concat();
    let lldp = [vec![1; 12], vec![0x88, 0xcc], vec![2; 46]].concat();
    let spanning_tree = [vec![1; 12], vec![0, 38], vec![0x42; 46]].concat();
    for frame in [&arp, &lldp, &spanning_tree] {
        bench.send(Side::In, frame, Offload::default());
        bench.send(Side::Out, frame, Offload::default());
    }
    bench.send(Side::In, &tcp(80, 10)[..30], Offload::default());
    bench.send(Side::In, &tcp(80, 10)[..40], Offload::default());
    bench.send(Side::Out, &[1; 8], Offload::default());
    bench.turn();
    for side in [Side::In, Side::Out] {
        let frames: Vec<Vec<u8>> = bench.came(side).into_iter().map(|(frame, _)| frame).collect();
        assert_eq!(frames, [arp.clone(), lldp.clone(), spanning_tree.clone()]);
    }
    let account = bench.account();
    assert_eq!(account.received, Sides { at_in: 5, at_out: 4 });
    assert_eq!(account.sent, Sides { at_in: 3, at_out: 3 });
    let reasons = BTreeMap::from([("malformed_ethernet", 1), ("malformed_ip", 2)]);
    assert_eq!(account.dropped.reasons, reasons);
    assert_eq!(account.rules[0].packets, 0, "no function was asked");
}

#[test]
fn a_super_frame_passes_whole_with_its_checksum_open_and_counts_as_its_packets() {
    let mut bench = Bench::firewall("-A FORWARD -p tcp -m tcp --dport 23 -j DROP\n");
    let frame = opened(tcp(80, 250));
    bench.send(Side::In, &frame, open(true));
    bench.send(Side::In, &opened(tcp(80, 20)), open(false));
    bench.send(Side::In, &opened(tcp(23, 250)), open(true));
    bench.turn();
    let came = bench.came(Side::Out);
    assert_eq!(came.len(), 2);
    assert_eq!(came[0].0, frame);
    let segmentation = came[0].1.segmentation.unwrap();
    assert_eq!((segmentation.segment_bytes, segmentation.header_bytes), (100, 54));
    assert_eq!(came[1].1, open(false), "an open checksum stays open");
    let account = bench.account();
    assert_eq!(account.received, Sides { at_in: 7, at_out: 0 });
    assert_eq!(account.sent, Sides { at_in: 0, at_out: 4 });
    assert_eq!((account.dropped.rules.len(), account.dropped.rules[0].packets), (1, 3));
    assert!(account.dropped.rules[0].rule.starts_with("edge line 3, -p tcp"));
    // Three packets of 250 bytes together, each with headers of its own.
    assert_eq!((account.rules[0].packets, account.rules[0].bytes), (3, 3 * 40 + 250));
}

#[test]
fn a_function_that_rejects_sees_packets_as_on_the_wire_and_its_answers_go_back() {
    let rules = "-A FORWARD -p tcp -m tcp --dport 23 -j REJECT --reject-with tcp-reset\n\
        -A FORWARD -p udp -j REJECT\n";
    let mut bench = Bench::firewall(rules);
    bench.send(Side::In, &opened(tcp(80, 250)), open(true));
    bench.send(Side::In, &opened(tcp(23, 20)), open(false));
    bench.send(Side::Out, &shape(IpProtocol::UDP, 53, 9).frame().unwrap(), Offload::default());
    bench.turn();
    let out = bench.came(Side::Out);
    let lengths: Vec<usize> = out.iter().map(|(frame, _)| frame.len()).collect();
    assert_eq!(lengths[..3], [154, 154, 104]);
    assert!(out.iter().all(|(_, offload)| *offload == Offload::default()), "nothing is left open");
    let told = FrameView::parse(&out[3].0).unwrap();
    assert_eq!((out.len(), told.protocol), (4, Some(IpProtocol::ICMP)));
    let back = bench.came(Side::In);
    let reset = FrameView::parse(&back[0].0).unwrap().flow.unwrap();
    assert_eq!((back.len(), reset.source_port, reset.destination_port), (1, 23, 40_000));
    let account = bench.account();
    assert_eq!(account.received, Sides { at_in: 4, at_out: 1 });
    assert_eq!(account.created, BTreeMap::from([("tcp_reset", 1), ("unreachable", 1)]));
    assert_eq!(account.sent, Sides { at_in: 1, at_out: 4 });
    assert_eq!(account.dropped.total(), 2);
}

#[test]
fn a_flood_of_rejected_packets_causes_no_flood_of_errors() {
    let mut bench = Bench::firewall("-A FORWARD -p udp -j REJECT\n");
    let udp = shape(IpProtocol::UDP, 53, 9).frame().unwrap();
    let slots = SLOTS as u64;
    for round in 1..=3 {
        (0..SLOTS).for_each(|_| bench.send(Side::In, &udp, Offload::default()));
        // All within one moment: no message comes due.
        bench.turn();
        bench.came(Side::In);
        let account = bench.account();
        assert_eq!(account.created, BTreeMap::from([("unreachable", FUNCTION_ERRORS_BURST)]));
        assert_eq!(account.errors_withheld, round * slots - FUNCTION_ERRORS_BURST);
        assert_eq!(account.dropped.total(), round * slots);
    }
}

#[test]
fn what_a_full_device_refuses_is_counted_with_all_that_it_stands_for() {
    let mut bench = Bench::firewall("");
    for _ in 0..2 {
        for _ in 0..SLOTS {
            bench.send(Side::In, &opened(tcp(80, 250)), open(true));
        }
        bench.turn();
    }
    let account = bench.account();
    let slots = SLOTS as u64;
    assert_eq!(account.received.at_in, 6 * slots);
    assert_eq!(account.sent.at_out, 3 * slots);
    assert_eq!(account.dropped.reasons, BTreeMap::from([("transmit_failed", 3 * slots)]));
}

#[test]
fn an_offload_that_does_not_fit_its_packet_ends_it() {
    let mut bench = Bench::firewall("");
    let udp = shape(IpProtocol::UDP, 53, 250).frame().unwrap();
    bench.send(Side::In, &udp, open(true));
    let beyond = Some(PartialChecksum { start: 34, offset: 5_000 });
    bench.send(Side::In, &tcp(80, 20), Offload { checksum: beyond, segmentation: None });
    bench.turn();
    let account = bench.account();
    assert_eq!(account.sent.total(), 0);
    let ended = account.dropped.reasons["unsupported_offload"];
    assert_eq!((account.received.at_in, account.dropped.total()), (ended, ended));
}

/// Does what it is told, whatever its profile says.
struct Puppet {
    profile: Profile,
    patch: Option<Patch>,
    drops: bool,
}

impl Function for Puppet {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(&mut self, _: Time, _: Direction, batch: &[Packet<'_>], outcomes: &mut Outcomes) {
        outcomes.begin(batch.len());
        for at in 0..batch.len() {
            if let Some(patch) = self.patch {
                outcomes.patch(at, patch);
            }
            if self.drops {
                outcomes.drop_packet(at, DropCause::Full);
            }
            if self.profile.holds {
                outcomes.decide(at, Verdict::Hold);
            }
        }
    }

    fn elapse(&mut self, _: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
    }

    fn ask(&self, _: Time, _: Direction, _: &Packet<'_>) -> Answer {
        Answer { verdict: Verdict::Pass, patches: Vec::new(), rules: Vec::new() }
    }

    fn export(&mut self, _: bool, _: &mut Vec<StateEntry>) {}

    fn import(&mut self, _: &[StateEntry]) -> usize {
        0
    }

    fn report(&self, _: &mut Vec<RuleCount>) {}

    fn rule_in_words(&self, _: u32) -> Option<String> {
        None
    }
}

fn puppet(profile: Profile, patch: Option<Patch>, drops: bool) -> Bench {
    Bench::of(Box::new(Puppet { profile, patch, drops }))
}

#[test]
fn patches_are_carried_out_with_checksums_closed_or_open() {
    let to = u32::from_be_bytes([10, 9, 9, 9]);
    let patch = Patch::of(Field::Destination, to.into());
    let mut profile = Profile::IDENTITY;
    profile.writes = profile.writes.with(Field::Destination);
    let mut bench = puppet(profile, Some(patch), false);
    let mut wanted = shape(IpProtocol::TCP, 80, 20);
    let frame = wanted.frame().unwrap();
    wanted.ends.1 = "10.9.9.9".parse().unwrap();
    bench.send(Side::In, &frame, Offload::default());
    bench.send(Side::In, &opened(frame), open(false));
    bench.turn();
    let came = bench.came(Side::Out);
    let wanted = wanted.frame().unwrap();
    assert_eq!(came[0], (wanted.clone(), Offload::default()));
    assert_eq!(came[1], (opened(wanted), open(false)));
    assert_eq!(bench.account().sent.at_out, 2);
}

#[test]
fn a_function_that_breaks_its_profile_is_stopped() {
    let patch = Patch::of(Field::Ttl, 3);
    let drops = Profile { drops: true, ..Profile::IDENTITY };
    for (profile, patch, drops, reason) in [
        (Profile::IDENTITY, None, true, "says that it drops none"),
        (drops, Some(patch), false, "not in what it writes"),
    ] {
        let mut bench = puppet(profile, patch, drops);
        bench.send(Side::In, &tcp(80, 20), Offload::default());
        let error = bench.bump.turn(Time::seconds(1)).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("report it"), "{error}");
        assert!(bench.came(Side::Out).is_empty());
    }
}

#[test]
fn packets_that_a_function_has_no_room_for_are_told_apart() {
    let mut bench = puppet(Profile { drops: true, ..Profile::IDENTITY }, None, true);
    bench.send(Side::Out, &tcp(80, 20), Offload::default());
    bench.turn();
    let account = bench.account();
    assert_eq!((account.dropped.function_full, account.dropped.total()), (1, 1));
}

#[test]
fn packets_that_wait_are_in_the_account_until_they_go_on_or_find_no_room() {
    // A byte in a millisecond, for packets of 60.
    let text = "classes: [{name: all, shape: {rate: 8kbit, burst: 60, queue: 120}}]";
    let config = qos::read(text, "edge.yaml", QosKind::Shaper).unwrap();
    let mut bench: Bench = Bench::of(Box::new(Shaper::new(&config)));
    let frames: Vec<Vec<u8>> = (81..86).map(|port| tcp(port, 20)).collect();
    frames.iter().for_each(|frame| bench.send(Side::In, frame, Offload::default()));
    bench.turn();
    let leaves = |number: u64| Time(1_000_000_000 + number * 60_000_000);
    for number in 0..3 {
        let came: Vec<Vec<u8>> =
            bench.came(Side::Out).into_iter().map(|(frame, _)| frame).collect();
        assert_eq!(came, [frames[number as usize].clone()], "in its order, as it was");
        let account = bench.account();
        let waiting = 2 - number;
        assert_eq!(account.held, Held { held: 2, released: number, waiting });
        assert_eq!((account.sent.at_out, account.dropped.function_full), (1 + number, 2));
        assert!(account.created.is_empty());
        let next = (waiting > 0).then(|| leaves(number + 1));
        assert_eq!(bench.bump.waiting(), Waiting { packets: waiting, next });
        bench.bump.elapse(Time(leaves(number + 1).0 - 1)).unwrap();
        assert!(bench.came(Side::Out).is_empty(), "not before its time");
        bench.bump.elapse(leaves(number + 1)).unwrap();
    }
    assert_eq!(bench.account().unaccounted, 0);
}

#[test]
fn a_packet_that_a_function_takes_and_forgets_is_unaccounted() {
    let mut bench = puppet(Profile { holds: true, ..Profile::IDENTITY }, None, false);
    bench.send(Side::In, &tcp(80, 20), Offload::default());
    bench.turn();
    let account = bench.bump.account();
    assert_eq!((account.held.held, account.held.waiting, account.unaccounted), (1, 0, 1));
}

#[test]
fn the_loop_tells_its_account_when_asked_and_ends_when_told() {
    let mut bench = Bench::firewall("");
    bench.send(Side::In, &tcp(80, 20), Offload::default());
    let ((stop, mut stops), (ask, mut asks)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    asks.write_all(b"?").unwrap();
    let mut told = Vec::new();
    let stopping = (stop, OwnedFd::from(ask));
    let ended = run(
        &mut bench.bump,
        Clock::start(),
        stopping,
        || Ok(()),
        |_, news| {
            told.push(news);
            stops.write_all(b"!").unwrap();
        },
    );
    ended.unwrap();
    let account = bench.account();
    assert_eq!(told, [News::Account(Box::new(account.clone()))]);
    assert_eq!((account.sent.at_out, account.unaccounted), (1, 0));
    let text = serde_json::to_string(&account).unwrap();
    assert!(text.starts_with(r#"{"received":{"in":1,"out":0},"created":{},"sent":"#), "{text}");
}

fn monitored() -> Bench<Monitor> {
    Bench::of(Box::new(Monitor::new(MonitorConfig::default()).unwrap()))
}

#[test]
fn messages_are_sent_or_counted_as_refused_and_without_a_collector_they_go_nowhere() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(collector.local_addr().unwrap()).unwrap();
    let [mut bench, mut alone] = [monitored(), monitored()];
    bench.bump = bench.bump.with_collector(socket).unwrap();
    for bench in [&mut bench, &mut alone] {
        bench.send(Side::In, &tcp(80, 20), Offload::default());
        bench.turn();
        let end = Time::seconds(2);
        bench.bump.conclude(end, |monitor, outcomes| monitor.end_all(end, outcomes)).unwrap();
    }
    assert_eq!(alone.account().messages, Messages { handed_out: 2, sent: 0, refused: 0 });
    let account = bench.account();
    assert_eq!(account.messages, Messages { handed_out: 2, sent: 2, refused: 0 });
    assert_eq!((account.received.total(), account.sent.total()), (1, 1));
    let mut records = Vec::new();
    for _ in 0..2 {
        let mut bytes = [0; 2_000];
        let length = collector.recv(&mut bytes).unwrap();
        let message = Message::parse(&bytes[..length]).unwrap();
        records.extend(message.sets().flat_map(|set| set.records()));
    }
    assert_eq!((records.len(), records[0].packets, records[0].bytes), (1, 1, 60));
    assert_eq!(records[0].end, EndReason::Forced);

    // Nobody listens any more: that is heard with the message behind the next one.
    drop(collector);
    for minutes in 1..=3 {
        bench.bump.elapse(Time::seconds(10 + minutes * 60)).unwrap();
    }
    let Messages { handed_out, sent, refused } = bench.account().messages;
    assert_eq!((handed_out, sent + refused), (5, 5));
    assert!(refused > 0);
}
