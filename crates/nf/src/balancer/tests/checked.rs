//! Checks of health: what is asked, what answers say, and who hears of it.

use super::bench::*;
use crate::function::Function;
use crate::outcome::Outcomes;
use crate::packet::{Direction, Packet, Time};
use catena_model::limits::FUNCTION_ERRORS_BURST;
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::{TcpFlags, TcpView};

/// What a backend says to a segment of a check, with these bytes.
pub(super) fn answer(asked: &[u8], flags: TcpFlags, bytes: &[u8]) -> Vec<u8> {
    let (from, to) = ends(asked);
    let mut said = shape(IpProtocol::TCP, to, from, flags);
    said.payload = bytes.to_vec();
    let mut said = said.frame().unwrap();
    let view = FrameView::parse(&said).unwrap();
    let sequence = read(asked, Field::Sequence) as u32;
    let is_syn = read(asked, Field::TcpFlags) as u8 & 2 != 0;
    let next = sequence.wrapping_add(payload(asked).len() as u32 + u32::from(is_syn));
    let own = if is_syn { 5_000 } else { read(asked, Field::Acknowledgment) as u32 };
    for (field, value) in [(Field::Sequence, own), (Field::Acknowledgment, next)] {
        let bits = (value.into(), field.all());
        field.write(&mut said, &view, bits, UpperChecksum::Closed).unwrap();
    }
    said
}

fn bench(kind: &str, is_v6: bool) -> Bench {
    let from = if is_v6 { "2001:db8:9::9" } else { "203.0.113.9" };
    let health = format!(
        ", health: {{kind: {kind}, path: /ok, from: '{from}', rise: 2, fall: 3, interval_ms: 1000, \
         timeout_ms: 200, mac: '02:00:00:00:00:09'}}"
    );
    Bench::new(&text((is_v6, IpProtocol::TCP), 1, (", mac: '02:00:00:00:00:08'", &health, "")))
}

fn flags(frame: &[u8]) -> u8 {
    read(frame, Field::TcpFlags) as u8
}

fn payload(frame: &[u8]) -> &[u8] {
    let at = usize::from(FrameView::parse(frame).unwrap().l4_offset.unwrap());
    TcpView::parse(&frame[at..]).unwrap().payload()
}

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Takes,
    Resets,
    Silent,
    /// It answers HTTP so, in pieces of so many bytes.
    Says(&'static str, usize),
    /// It takes the connection and says nothing.
    Mute,
}

/// One check from its beginning to the next: what was sent.
fn round(bench: &mut Bench, server: Server) -> Vec<Vec<u8>> {
    let mut sent = bench.elapse(1_000);
    assert_eq!(sent.len(), 1);
    let syn = sent[0].clone();
    assert_eq!((flags(&syn), payload(&syn)), (2, &b""[..]));
    let taken = |bench: &mut Bench, said: &[u8]| {
        let came = bench.backward(said);
        assert_eq!(bench.why(&came), "answer of a health check: ends here");
        came.made.into_iter().map(|(_, _, frame)| frame).collect::<Vec<_>>()
    };
    match server {
        Server::Silent => {}
        Server::Resets => {
            let more = taken(bench, &answer(&syn, TcpFlags::RST.with(ACK), b""));
            assert_eq!(more, Vec::<Vec<u8>>::new());
        }
        _ => sent.extend(taken(bench, &answer(&syn, SYN_ACK, b""))),
    }
    if let Server::Says(text, piece) = server {
        let request = sent[1].clone();
        for (at, bytes) in text.as_bytes().chunks(piece).enumerate() {
            let mut said = answer(&request, ACK, bytes);
            let view = FrameView::parse(&said).unwrap();
            let number = read(&request, Field::Acknowledgment) + (at * piece) as u128;
            let bits = (number, u128::MAX);
            Field::Sequence.write(&mut said, &view, bits, UpperChecksum::Closed).unwrap();
            sent.extend(taken(bench, &said));
            if flags(sent.last().unwrap()) & 4 != 0 {
                break;
            }
        }
    }
    sent.extend(bench.elapse(200));
    sent
}

fn is_up(bench: &Bench) -> bool {
    bench.balancer.backends(bench.now)[0].is_up
}

#[test]
fn a_check_of_tcp_is_syn_and_reset() {
    for is_v6 in [false, true] {
        let mut bench = bench("tcp", is_v6);
        let sent = round(&mut bench, Server::Takes);
        let [syn, reset] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(flags(reset), 0x14);
        assert_eq!(ends(syn), ends(reset));
        assert_eq!(ends(syn).1, backend(is_v6, 1));
        assert_eq!(read(reset, Field::Sequence), (read(syn, Field::Sequence) + 1) & 0xffff_ffff);
        assert_eq!(read(reset, Field::Acknowledgment), 5_001);
        assert_eq!(syn[..12], [2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 9]);
        for frame in [syn, reset] {
            assert!(super::translated::is_sound(frame));
        }
        assert!(is_up(&bench));
    }
}

#[test]
fn so_many_bad_checks_make_it_dead_and_so_many_good_ones_bring_it_back() {
    let ok = Server::Says("HTTP/1.1 200 OK\r\n\r\n", 100);
    let pieces = Server::Says("HTTP/1.1 302 Found\r\n\r\n", 5);
    let wrong = Server::Says("HTTP/1.1 500 Oh\r\n\r\n", 100);
    let strange = Server::Says("SSH-2.0-something\r\n", 100);
    for (kind, good, bad) in [
        ("tcp", Server::Takes, Server::Silent),
        ("tcp", Server::Takes, Server::Resets),
        ("http", ok, wrong),
        ("http", pieces, Server::Mute),
        ("http", ok, Server::Silent),
        ("http", ok, Server::Resets),
        ("http", ok, strange),
    ] {
        for is_v6 in [false, true] {
            let mut bench = bench(kind, is_v6);
            let script = [
                (good, true),
                (bad, true),
                (bad, true),
                (good, true),
                (bad, true),
                (bad, true),
                (bad, false),
                (good, false),
                (bad, false),
                (good, false),
                (good, true),
            ];
            for (step, (server, up)) in script.into_iter().enumerate() {
                let sent = round(&mut bench, server);
                assert_eq!(is_up(&bench), up, "{kind} {good:?} {bad:?} {step}");
                let is_open = !matches!(server, Server::Silent | Server::Resets);
                assert_eq!(flags(sent.last().unwrap()) & 4 != 0, is_open, "{server:?}");
                if kind == "http" && is_open {
                    let request = String::from_utf8(payload(&sent[1]).to_vec()).unwrap();
                    assert!(request.starts_with("GET /ok HTTP/1.1\r\nHost: "), "{request}");
                    assert!(request.ends_with("\r\n\r\n"));
                    assert!(sent.iter().all(|frame| super::translated::is_sound(frame)));
                }
            }
            let dead = bench.says(is_v6, 1, SYN);
            assert_eq!(dead, Some(backend(is_v6, 1)));
        }
    }
}

#[test]
fn without_a_backend_that_lives_new_sessions_end() {
    let mut bench = bench("tcp", false);
    (0..3).for_each(|_| drop(round(&mut bench, Server::Silent)));
    let sent = frame(IpProtocol::TCP, client(false, 1), service(false), SYN);
    let came = bench.forward(&sent);
    assert!(came.out.is_err() && bench.why(&came).contains("backend"), "{}", bench.why(&came));
}

#[test]
fn what_was_not_asked_for_ends_too_and_says_nothing() {
    let mut bench = bench("tcp", false);
    let sent = bench.elapse(1_000);
    let mut wrong = answer(&sent[0], SYN_ACK, b"");
    let view = FrameView::parse(&wrong).unwrap();
    let bits = (9, u128::MAX);
    Field::Acknowledgment.write(&mut wrong, &view, bits, UpperChecksum::Closed).unwrap();
    let came = bench.backward(&wrong);
    assert_eq!(bench.why(&came), "answer of a health check: ends here");
    // It is reset, as whoever has not asked does (RFC 9293 section 3.10.7.3).
    assert_eq!(came.made.len(), 1);
    assert_eq!(flags(&came.made[0].2) & 4, 4);
    bench.elapse(200);
    assert_eq!(bench.counted("health check"), 1);
    // A flood of it is not answered one by one, and does not keep checks from being answered.
    let packets = vec![Packet::read(&wrong).unwrap(); 5_000];
    let (now, mut outcomes) = (Time(bench.now.0 + 1_000_000_000), Outcomes::default());
    bench.balancer.process(now, Direction::Backward, &packets, &mut outcomes);
    assert_eq!(outcomes.generated().len() as u64, FUNCTION_ERRORS_BURST);
    let sent = bench.elapse(1_000);
    let came = bench.backward(&answer(&sent[0], SYN_ACK, b""));
    assert!(came.made.len() == 1 && is_up(&bench));
}

#[test]
fn ten_thousand_packets_pass_while_it_asks() {
    let mut bench = bench("http", false);
    let inputs = crate::harness::traffic::draw(17, 10_000);
    let mut asked = 0;
    for (at, input) in inputs.iter().enumerate() {
        bench.pass(input.direction, &input.frame);
        let sent = frame(IpProtocol::TCP, client(false, at as u16 % 40), service(false), SYN);
        assert!(bench.forward(&sent).out.is_ok() && is_up(&bench), "packet {at}");
        for ask in bench.elapse(20) {
            asked += usize::from(flags(&ask) == 2);
            let came = bench.backward(&answer(&ask, SYN_ACK, b""));
            for (_, _, request) in came.made.iter().filter(|made| flags(&made.2) == 0x18) {
                bench.backward(&answer(request, ACK, b"HTTP/1.1 204 None\r\n\r\n"));
            }
        }
    }
    assert!(asked > 200, "{asked}");
    assert!(is_up(&bench));
}
