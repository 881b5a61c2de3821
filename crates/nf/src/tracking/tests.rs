//! Written sequences of packets, and what is said of each.

mod room;

use super::*;
use crate::harness::traffic::{self, Shape};
use catena_rules::condition::ConnectionState::{Established, Invalid, New, Related, Untracked};
use catena_wire::field::Field;
use catena_wire::icmp::error_message::{ErrorMessage, FRAME_BYTES_MAX, Said};
use catena_wire::scalar::MacAddr;
use catena_wire::tcp::TcpFlags;

const MACS: (MacAddr, MacAddr) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
/// Who says something.
const CLIENT: usize = 0;
const SERVER: usize = 1;

fn shape(protocol: IpProtocol, who: usize, ports: (u16, u16)) -> Shape {
    let mut shape = Shape {
        ends: ("10.0.0.1".parse().unwrap(), "10.0.1.2".parse().unwrap()),
        protocol,
        ports,
        flags: TcpFlags(0),
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        payload: Vec::new(),
        vlan: None,
        is_later_fragment: false,
        macs: MACS,
    };
    if who == SERVER {
        shape.ends = (shape.ends.1, shape.ends.0);
        if protocol != IpProtocol::ICMP {
            shape.ports = (shape.ports.1, shape.ports.0);
        }
    }
    shape
}

fn udp(who: usize, port: u16) -> Vec<u8> {
    shape(IpProtocol::UDP, who, (port, 53)).frame().unwrap()
}

/// A segment by its flags' letters, with sequence and acknowledgment number and payload.
fn tcp(who: usize, letters: &str, (sequence, ack): (u32, u32), bytes: usize) -> Vec<u8> {
    tcp_with(who, letters, (sequence, ack), bytes, (501, &[]))
}

fn tcp_with(
    who: usize,
    letters: &str,
    (sequence, ack): (u32, u32),
    bytes: usize,
    (window, options): (u16, &[u8]),
) -> Vec<u8> {
    let bit = |letter: char| 1 << "FSRPAU".find(letter).unwrap();
    let mut shape = shape(IpProtocol::TCP, who, (4_000, 80));
    shape.flags = TcpFlags(letters.chars().map(bit).sum());
    shape.options = options.to_vec();
    shape.payload = vec![7; bytes];
    let mut frame = shape.frame().unwrap();
    let view = FrameView::parse(&frame).unwrap();
    let fields = [
        (Field::Sequence, u128::from(sequence)),
        (Field::Acknowledgment, ack.into()),
        (Field::Window, window.into()),
    ];
    for (field, value) in fields {
        field.write(&mut frame, &view, (value, field.all()), UpperChecksum::Closed).unwrap();
    }
    frame
}

/// Client and server, with what looks on.
struct Talk {
    tracking: Tracking,
    now: Time,
}

impl Talk {
    fn new(config: &TrackingConfig) -> Self {
        Self { tracking: Tracking::new(config), now: Time::default() }
    }

    fn look(&self, frame: &[u8]) -> Look {
        self.tracking.look(self.now, &Packet::read(frame).unwrap()).unwrap()
    }

    /// What is said of a packet that is accepted.
    fn say(&mut self, frame: &[u8]) -> ConnectionState {
        let look = self.look(frame);
        self.tracking.settle(&look, true);
        look.state
    }

    fn all(&mut self, frames: &[Vec<u8>]) -> Vec<ConnectionState> {
        frames.iter().map(|frame| self.say(frame)).collect()
    }

    fn wait(&mut self, seconds: u64) {
        self.now.0 += Time::seconds(seconds).0;
    }

    fn connections(&self) -> usize {
        self.tracking.table.len()
    }
}

fn small(connections_max: usize) -> TrackingConfig {
    TrackingConfig { connections_max, ..TrackingConfig::default() }
}

fn handshake() -> Vec<Vec<u8>> {
    vec![
        tcp(CLIENT, "S", (1_000, 0), 0),
        tcp(SERVER, "SA", (5_000, 1_001), 0),
        tcp(CLIENT, "A", (1_001, 5_001), 0),
    ]
}

/// A connection from its beginning to its end.
fn whole() -> Vec<Vec<u8>> {
    let mut frames = handshake();
    frames.extend([
        tcp(CLIENT, "PA", (1_001, 5_001), 100),
        tcp(SERVER, "A", (5_001, 1_101), 0),
        tcp(SERVER, "PA", (5_001, 1_101), 400),
        tcp(CLIENT, "FA", (1_101, 5_401), 0),
        tcp(SERVER, "FA", (5_401, 1_102), 0),
        tcp(CLIENT, "A", (1_102, 5_402), 0),
    ]);
    frames
}

#[test]
fn a_connection_is_new_once_and_then_established() {
    let mut talk = Talk::new(&small(8));
    let said = talk.all(&whole());
    assert_eq!(said[0], New);
    assert!(said[1..].iter().all(|state| *state == Established), "{said:?}");
    assert_eq!(talk.connections(), 1);
    // It lingers, and is gone.
    talk.wait(119);
    assert_eq!(talk.say(&tcp(CLIENT, "A", (1_102, 5_402), 0)), Established);
    talk.wait(120);
    talk.tracking.elapse(talk.now);
    assert_eq!(talk.connections(), 0);
}

#[test]
fn what_rules_drop_leaves_no_connection() {
    let mut talk = Talk::new(&small(8));
    let frames = handshake();
    let look = talk.look(&frames[0]);
    assert_eq!(look.state, New);
    talk.tracking.settle(&look, false);
    assert_eq!(talk.connections(), 0);
    // The answer to a SYN that nobody has seen is none; an ACK is picked up.
    assert_eq!(talk.say(&frames[1]), Invalid);
    assert_eq!(talk.say(&frames[2]), New);
    let mut strict = Talk::new(&TrackingConfig { is_loose: false, ..small(8) });
    assert_eq!(strict.say(&frames[2]), Invalid);
}

#[test]
fn both_may_open_a_connection() {
    let mut talk = Talk::new(&small(8));
    let frames = [
        tcp(CLIENT, "S", (1_000, 0), 0),
        tcp(SERVER, "S", (5_000, 0), 0),
        tcp(CLIENT, "SA", (1_000, 5_001), 0),
        tcp(SERVER, "SA", (5_000, 1_001), 0),
        tcp(SERVER, "A", (5_001, 1_001), 10),
        tcp(CLIENT, "A", (1_001, 5_011), 10),
    ];
    let said = talk.all(&frames);
    assert_eq!(said[0], New);
    assert!(said[1..].iter().all(|state| *state == Established), "{said:?}");
}

#[test]
fn a_reset_ends_a_connection_only_with_the_number_that_is_expected() {
    let mut talk = Talk::new(&small(8));
    talk.all(&handshake());
    // Behind what the client has acknowledged, before it, and exactly there.
    assert_eq!(talk.say(&tcp(SERVER, "R", (4_000, 0), 0)), Invalid);
    assert_eq!(talk.say(&tcp(SERVER, "R", (5_100, 0), 0)), Established);
    assert_eq!(talk.say(&tcp(CLIENT, "PA", (1_001, 5_001), 10)), Established);
    assert_eq!(talk.say(&tcp(SERVER, "RA", (5_001, 1_011), 0)), Established);
    talk.wait(10);
    assert_eq!(talk.say(&tcp(SERVER, "SA", (5_000, 1_001), 0)), Invalid, "it is forgotten");
    // The only answer is a reset: nothing is left.
    let mut refused = Talk::new(&small(8));
    assert_eq!(refused.say(&tcp(CLIENT, "S", (1_000, 0), 0)), New);
    assert_eq!(refused.say(&tcp(SERVER, "RA", (0, 1_001), 0)), Established);
    assert_eq!(refused.connections(), 0);
    let mut unanswered = Talk::new(&small(8));
    unanswered.say(&tcp(CLIENT, "S", (1_000, 0), 0));
    unanswered.say(&tcp(CLIENT, "R", (1_001, 0), 0));
    assert_eq!(unanswered.connections(), 0);
}

#[test]
fn a_connection_that_rules_reset_is_closed() {
    let mut talk = Talk::new(&small(8));
    talk.all(&handshake());
    let look = talk.look(&tcp(CLIENT, "PA", (1_001, 5_001), 10));
    talk.tracking.settle_reset(talk.now, &look);
    // More of it makes it live no longer than a closed one does.
    assert_eq!(talk.say(&tcp(SERVER, "A", (5_001, 1_011), 0)), Established);
    talk.wait(10);
    talk.tracking.elapse(talk.now);
    assert_eq!(talk.connections(), 0);
    // A packet that belongs to none closes none.
    talk.all(&handshake());
    let look = talk.look(&tcp(CLIENT, "PA", (9_001, 5_001), 10));
    assert_eq!(look.state, Invalid);
    talk.tracking.settle_reset(talk.now, &look);
    talk.wait(10);
    assert_eq!(talk.say(&tcp(SERVER, "A", (5_001, 1_001), 0)), Established);
}

#[test]
fn ports_are_used_again_after_the_end() {
    let mut talk = Talk::new(&small(8));
    talk.all(&whole());
    let again = tcp(CLIENT, "S", (90_000, 0), 0);
    // A new connection, which the rules may refuse: then the old one is gone all the same.
    let look = talk.look(&again);
    assert_eq!(look.state, New);
    talk.tracking.settle(&look, false);
    assert_eq!(talk.connections(), 0);
    talk.all(&whole());
    assert_eq!(talk.say(&again), New);
    assert_eq!(talk.say(&tcp(SERVER, "SA", (7_000, 90_001), 0)), Established);
    // Into an open connection, a SYN changes nothing, until the server agrees.
    assert_eq!(talk.say(&tcp(CLIENT, "A", (90_001, 7_001), 0)), Established);
    assert_eq!(talk.say(&tcp(CLIENT, "S", (300_000, 0), 0)), Established);
    assert_eq!(talk.say(&tcp(SERVER, "SA", (800_000, 300_001), 0)), Established);
    assert_eq!(talk.say(&tcp(CLIENT, "A", (300_001, 800_001), 5)), Established);
    assert_eq!(talk.say(&tcp(SERVER, "A", (900_001, 300_006), 5)), Invalid);
}

#[test]
fn numbers_must_fit_unless_nobody_minds() {
    let far = [
        (tcp(CLIENT, "PA", (1_001 + 5_000, 5_001), 10), "beyond the window"),
        (tcp(CLIENT, "A", (1_001, 6_000), 0), "acknowledges what was not sent"),
    ];
    for (frame, why) in &far {
        for (is_liberal, wanted) in [(false, Invalid), (true, Established)] {
            let mut talk = Talk::new(&TrackingConfig { is_liberal, ..small(8) });
            talk.all(&handshake());
            assert_eq!(talk.say(frame), wanted, "{why}");
        }
    }
    // What is late changes nothing, and is no fault.
    let mut talk = Talk::new(&small(8));
    talk.all(&whole()[..6]);
    assert_eq!(talk.say(&tcp(SERVER, "A", (4_000, 1_101), 0)), Established);
    // Windows are scaled if both say so.
    for (server, wanted) in [(&[3, 3, 7, 0][..], Established), (&[2, 4, 5, 180], Invalid)] {
        let mut talk = Talk::new(&small(8));
        talk.say(&tcp_with(CLIENT, "S", (1_000, 0), 0, (501, &[3, 3, 7, 0])));
        talk.say(&tcp_with(SERVER, "SA", (5_000, 1_001), 0, (501, server)));
        talk.say(&tcp(CLIENT, "A", (1_001, 5_001), 0));
        talk.say(&tcp(SERVER, "A", (5_001, 1_001), 0));
        assert_eq!(talk.say(&tcp(CLIENT, "A", (1_001 + 20_000, 5_001), 10)), wanted);
    }
}

#[test]
fn impossible_flags_and_wrong_checksums_are_invalid() {
    let mut talk = Talk::new(&small(8));
    for letters in ["", "SF", "SR", "FU", "F", "P"] {
        assert_eq!(talk.say(&tcp(CLIENT, letters, (1, 1), 0)), Invalid, "{letters}");
    }
    let mut wrong = udp(CLIENT, 9);
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(talk.say(&wrong), Invalid);
    let open = Packet { upper: UpperChecksum::Open, ..Packet::read(&wrong).unwrap() };
    assert_eq!(talk.tracking.look(talk.now, &open).unwrap().state, New, "it is not there yet");
    let mut careless = Talk::new(&TrackingConfig { verifies_checksums: false, ..small(8) });
    assert_eq!(careless.say(&wrong), New);
    let later = Shape { is_later_fragment: true, ..shape(IpProtocol::UDP, CLIENT, (9, 53)) };
    assert_eq!(talk.say(&later.frame().unwrap()), Invalid);
}

#[test]
fn datagrams_are_remembered_longer_once_they_are_a_stream() {
    let mut talk = Talk::new(&small(8));
    let timeouts = Timeouts { udp_s: 3, udp_stream_s: 10, ..Timeouts::default() };
    talk.tracking.config.timeouts = timeouts;
    assert_eq!(talk.all(&[udp(CLIENT, 9), udp(CLIENT, 9)]), [New, New]);
    talk.wait(2);
    assert_eq!(talk.all(&[udp(SERVER, 9), udp(CLIENT, 9)]), [Established, Established]);
    talk.wait(2);
    assert_eq!(talk.say(&udp(CLIENT, 9)), Established);
    talk.wait(9);
    assert_eq!(talk.say(&udp(SERVER, 9)), Established);
    talk.wait(10);
    assert_eq!(talk.say(&udp(SERVER, 9)), New, "the other way, and another connection");
    assert_eq!(talk.connections(), 1);
}

#[test]
fn each_state_of_tcp_has_its_time() {
    let defaults = Timeouts::default();
    for (frames, seconds) in [
        (1, defaults.syn_sent_s),
        (2, defaults.syn_received_s),
        (3, defaults.established_s),
        (4, defaults.unacknowledged_s),
        (7, defaults.fin_wait_s),
        (8, defaults.last_ack_s),
        (9, defaults.time_wait_s),
    ] {
        for (wait, is_there) in [(seconds - 1, true), (seconds, false)] {
            let mut talk = Talk::new(&small(8));
            talk.all(&whole()[..frames]);
            talk.wait(wait);
            talk.tracking.elapse(talk.now);
            assert_eq!(talk.connections() == 1, is_there, "{frames} frames, {wait} s");
        }
    }
}

#[test]
fn answers_to_pings_are_told_by_type_and_identifier() {
    let mut talk = Talk::new(&small(8));
    let ping = |kind: u16, who: usize, ttl: u8| {
        Shape { ttl, ..shape(IpProtocol::ICMP, who, (kind, 0)) }.frame().unwrap()
    };
    assert_eq!(talk.say(&ping(0, SERVER, 9)), Invalid, "an answer that nobody asked for");
    assert_eq!(talk.say(&ping(8, CLIENT, 9)), New);
    assert_eq!(talk.say(&ping(0, SERVER, 8)), Invalid, "the identifier of another");
    assert_eq!(talk.say(&ping(0, CLIENT, 9)), Invalid, "the wrong way");
    assert_eq!(talk.say(&ping(8, SERVER, 9)), New, "a ping back is another connection");
    assert_eq!(talk.say(&ping(0, SERVER, 9)), Established);
    assert_eq!(talk.say(&ping(8, CLIENT, 9)), Established);
    assert_eq!(talk.say(&ping(13, CLIENT, 9)), New);
    assert_eq!(talk.say(&ping(14, SERVER, 9)), Established);
    assert_eq!(talk.say(&ping(40, CLIENT, 9)), Invalid, "nobody knows the type");
    talk.wait(30);
    assert_eq!(talk.say(&ping(0, SERVER, 9)), Invalid);
    // Neighbours of IPv6 find one another beside all connections.
    let ends = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
    let ports = (135, 0);
    let discovery =
        Shape { ends, ports, ..shape(IpProtocol::ICMPV6, CLIENT, ports) }.frame().unwrap();
    assert_eq!(talk.say(&discovery), Untracked);
}

fn error_about(frame: &[u8]) -> Vec<u8> {
    let mut error = vec![0; FRAME_BYTES_MAX];
    let message = ErrorMessage::judge(frame).unwrap();
    let length = message.emit(Said::unreachable_v4(1), MACS, &mut error).unwrap();
    error.truncate(length);
    error
}

#[test]
fn errors_are_related_to_the_connection_that_they_quote() {
    let mut talk = Talk::new(&small(8));
    let (asked, answered) = (udp(CLIENT, 9), udp(SERVER, 9));
    assert_eq!(talk.say(&error_about(&asked)), Invalid, "of no connection");
    talk.say(&asked);
    assert_eq!(talk.say(&error_about(&asked)), Related);
    assert_eq!(talk.say(&error_about(&answered)), Related);
    assert_eq!(talk.say(&asked), New, "an error is no answer");
    assert_eq!(talk.say(&error_about(&udp(CLIENT, 10))), Invalid);
    // To who did not send what is quoted.
    let mut misled = error_about(&asked);
    let view = FrameView::parse(&misled).unwrap();
    let other = (0x0a00_0009, Field::Destination.all());
    Field::Destination.write(&mut misled, &view, other, UpperChecksum::Closed).unwrap();
    assert_eq!(talk.say(&misled), Invalid);
    talk.wait(30);
    assert_eq!(talk.say(&error_about(&asked)), Invalid);
}

#[test]
fn calls_of_gre_are_told_apart() {
    let mut talk = Talk::new(&small(8));
    let gre = |who: usize, version: u8, call: u8| {
        let payload = vec![0x30, version, 0x88, 0x0b, 0, 4, 0, call, 0, 0, 0, 1];
        Shape { payload, ..shape(IpProtocol::GRE, who, (0, 0)) }.frame().unwrap()
    };
    assert_eq!(talk.all(&[gre(CLIENT, 0, 1), gre(SERVER, 0, 2)]), [New, Established]);
    assert_eq!(talk.all(&[gre(CLIENT, 1, 1), gre(CLIENT, 1, 2)]), [New, New]);
    let mut other = gre(CLIENT, 1, 3);
    let end = other.len();
    other[end - 10] = 8;
    assert_eq!(talk.say(&other), Invalid, "version 1 carries PPP alone");
}

#[test]
fn other_protocols_are_told_apart_by_addresses() {
    let mut talk = Talk::new(&small(8));
    let esp = |who: usize| shape(IpProtocol(50), who, (0, 0)).frame().unwrap();
    assert_eq!(talk.all(&[esp(CLIENT), esp(CLIENT), esp(SERVER)]), [New, New, Established]);
    talk.wait(600);
    assert_eq!(talk.say(&esp(SERVER)), New);
    let ends = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let nothing = Shape { ends, ..shape(IpProtocol::NO_NEXT, CLIENT, (0, 0)) }.frame().unwrap();
    assert_eq!(talk.say(&nothing), Invalid);
}
