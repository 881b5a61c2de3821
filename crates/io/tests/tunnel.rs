//! Tunnel sockets over the loopback interface of namespaces of these tests, with an MTU of 1,500.
#![allow(clippy::unwrap_used, reason = "a test stops at its first surprise")]

mod namespace;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use catena_io::{
    Buffer, BufferPool, OuterChecksum, Poller, SendFailure, TUNNEL_PAYLOAD_BYTES_MAX,
    TUNNEL_SEGMENTS_MAX, TUNNEL_SOURCE_PORT_MIN, TUNNEL_SOURCE_PORTS_DEFAULT, TunnelReceived,
    TunnelReceiver, TunnelReserve, TunnelSender, drop_privileges,
};
use namespace::{in_new_namespace, ip};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, recv, socket_with};

/// Largest UDP payload of an IPv4 packet of 1,500 bytes.
const DATAGRAM_BYTES_MAX: usize = 1_472;
/// Index of `lo` in any namespace.
const LOOPBACK: u32 = 1;

struct Tunnel {
    sender: TunnelSender,
    receiver: TunnelReceiver,
    to: SocketAddr,
    pool: BufferPool,
}

impl Tunnel {
    fn new(local: &str) -> Self {
        ip("link set lo mtu 1500");
        let local: SocketAddr = local.parse().unwrap();
        let mut receiver = TunnelReceiver::bind(local, &mut TunnelReserve::default()).unwrap();
        receiver.take_only_from(vec![LOOPBACK]);
        let to = receiver.local_address().unwrap();
        let sender =
            TunnelSender::new(to.ip(), TUNNEL_SOURCE_PORTS_DEFAULT, &mut TunnelReserve::default())
                .unwrap();
        Self { sender, receiver, to, pool: BufferPool::new(256) }
    }

    fn send(&mut self, payload: &[u8], segment_bytes: Option<u16>) -> Result<(), SendFailure> {
        self.sender.send(self.to, payload, segment_bytes, 0, OuterChecksum::Full)
    }

    /// Takes what has arrived, with all of it waiting already.
    fn arrived(&mut self) -> Vec<(Buffer, SocketAddr)> {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.add(&self.receiver, 3).unwrap();
        poller.wait(Some(Duration::from_secs(5)), &mut ready).unwrap();
        assert_eq!(ready, [3], "nothing arrived");
        let mut datagrams = Vec::new();
        let received = self.receiver.receive(&mut self.pool, &mut datagrams, 1_000);
        assert_eq!(received.datagrams as usize, datagrams.len());
        assert_eq!((received.truncated, received.pool_empty), (0, false));
        datagrams
    }
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8)) as u8).collect()
}

#[test]
fn a_row_of_datagrams_arrives_in_order_with_its_sizes_and_content_and_the_odd_last() {
    in_new_namespace("row", || {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let mut tunnel = Tunnel::new(local);
            for (segment_bytes, len) in [(1_424, 1_424 * 43 + 77), (64, 64 * 44), (700, 701)] {
                let payload = content(len);
                tunnel.send(&payload, Some(segment_bytes)).unwrap();
                let datagrams = tunnel.arrived();
                let expected: Vec<_> = payload.chunks(segment_bytes.into()).collect();
                let arrived: Vec<_> = datagrams.iter().map(|(buffer, _)| buffer.bytes()).collect();
                assert_eq!(arrived, expected, "segments of {segment_bytes} from {local}");
                assert!(datagrams.iter().all(|(_, from)| from.ip() == tunnel.to.ip()));
                for (buffer, _) in datagrams {
                    tunnel.pool.put(buffer);
                }
            }
            assert_eq!(tunnel.receiver.kernel_drops(), 0);
        }
    });
}

#[test]
fn single_datagrams_of_many_sizes_arrive_as_they_were_also_the_empty_one() {
    in_new_namespace("single", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let sizes = [0, 1, 1_000, 999, DATAGRAM_BYTES_MAX, 0, 5];
        for len in sizes {
            tunnel.send(&content(len), None).unwrap();
        }
        let arrived: Vec<_> = tunnel.arrived().iter().map(|(buffer, _)| buffer.len()).collect();
        assert_eq!(arrived, sizes);
    });
}

#[test]
fn an_empty_pool_amid_a_row_loses_and_reorders_nothing() {
    in_new_namespace("empty pool", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let rows = [content(1_000 * 30 + 1), content(900 * 20), content(10)];
        tunnel.send(&rows[0], Some(1_000)).unwrap();
        tunnel.send(&rows[1], Some(900)).unwrap();
        tunnel.send(&rows[2], None).unwrap();

        let mut pool = BufferPool::new(7);
        let mut arrived = Vec::new();
        let mut datagrams = Vec::new();
        let mut was_empty = 0;
        loop {
            let received = tunnel.receiver.receive(&mut pool, &mut datagrams, 1_000);
            was_empty += u32::from(received.pool_empty);
            assert!(received.datagrams <= 7);
            assert_eq!(received.pool_empty, tunnel.receiver.has_pending());
            for (buffer, _) in datagrams.drain(..) {
                arrived.push(buffer.bytes().to_vec());
                pool.put(buffer);
            }
            if received == TunnelReceived::default() {
                break;
            }
        }
        let expected: Vec<_> =
            rows[0].chunks(1_000).chain(rows[1].chunks(900)).chain([&rows[2][..]]).collect();
        assert_eq!(arrived, expected);
        assert_eq!(was_empty, 7, "52 datagrams through 7 buffers");
        assert_eq!(pool.free(), 7);
    });
}

#[test]
fn a_call_takes_at_most_as_many_datagrams_as_asked() {
    in_new_namespace("at most", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        tunnel.send(&content(10_000), Some(1_000)).unwrap();
        let mut datagrams = Vec::new();
        for (asked, expected) in [(0, 0), (4, 4), (4, 8), (4, 10), (4, 10)] {
            tunnel.receiver.receive(&mut tunnel.pool, &mut datagrams, asked);
            assert_eq!(datagrams.len(), expected);
        }
    });
}

#[test]
fn what_the_path_does_not_take_is_refused_by_name_and_never_fragmented() {
    in_new_namespace("mtu", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let largest = DATAGRAM_BYTES_MAX as u16;
        let beyond = content(DATAGRAM_BYTES_MAX + 1);
        let row = content(DATAGRAM_BYTES_MAX * 10);
        assert_eq!(tunnel.send(&beyond, None), Err(SendFailure::TooLarge));
        assert_eq!(tunnel.send(&row, Some(largest + 1)), Err(SendFailure::TooLarge));
        assert_eq!(tunnel.send(&row, Some(largest)), Ok(()));
        assert_eq!(tunnel.arrived().len(), 10);
    });
}

#[test]
fn one_call_has_limits_of_bytes_and_of_datagrams() {
    in_new_namespace("limits", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let row = |count: usize| content(100 * count);
        let too_long = content(TUNNEL_PAYLOAD_BYTES_MAX + 1);
        assert_eq!(tunnel.send(&too_long, Some(1_400)), Err(SendFailure::TooLarge));
        let too_many = row(TUNNEL_SEGMENTS_MAX + 1);
        assert_eq!(tunnel.send(&too_many, Some(100)), Err(SendFailure::TooManySegments));
        assert_eq!(tunnel.send(&too_many, Some(0)), Err(SendFailure::TooManySegments));
        assert_eq!(tunnel.send(&row(TUNNEL_SEGMENTS_MAX), Some(100)), Ok(()));
        assert!(TunnelSender::new(tunnel.to.ip(), 0, &mut TunnelReserve::default()).is_err());
    });
}

#[test]
fn entropy_chooses_the_source_port_and_always_the_same() {
    in_new_namespace("entropy", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let mut ports = Vec::new();
        for round in 0..2 {
            for entropy in 0..64 {
                tunnel.sender.send(tunnel.to, b"x", None, entropy, OuterChecksum::Full).unwrap();
            }
            let arrived: Vec<_> = tunnel.arrived().iter().map(|(_, from)| from.port()).collect();
            assert_eq!(arrived.iter().collect::<HashSet<_>>().len(), TUNNEL_SOURCE_PORTS_DEFAULT);
            assert_eq!(arrived[..16], arrived[16..32]);
            // RFC 7510 section 3.
            assert!(arrived.iter().all(|port| *port >= TUNNEL_SOURCE_PORT_MIN), "{arrived:?}");
            if round == 1 {
                assert_eq!(arrived, ports);
            }
            ports = arrived;
        }
    });
}

/// The checksum in the UDP header of a datagram that has arrived.
fn checksum_of_next(raw: &OwnedFd) -> u16 {
    let mut packet = [0; 2_048];
    let (length, _) = recv(raw, &mut packet, RecvFlags::empty()).unwrap();
    assert!(length >= 28, "{length}");
    u16::from_be_bytes([packet[26], packet[27]])
}

#[test]
fn a_datagram_has_a_checksum_or_none_as_it_is_asked_and_a_row_always_has() {
    in_new_namespace("checksums", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let flags = SocketFlags::empty();
        let raw = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::UDP));
        let raw = raw.unwrap();
        let mut send = |checksum, segment_bytes, entropy| {
            let (to, payload) = (tunnel.to, [7; 100]);
            tunnel.sender.send(to, &payload, segment_bytes, entropy, checksum).unwrap();
            checksum_of_next(&raw) != 0
        };
        let (full, none) = (OuterChecksum::Full, OuterChecksum::None);
        let asked = [(full, true), (none, false), (none, false), (full, true), (none, false)];
        for (checksum, has_one) in asked {
            assert_eq!(send(checksum, None, 3), has_one);
        }
        assert!(send(none, Some(50), 3), "the kernel makes no row without");
        assert!(!send(none, Some(100), 3), "one datagram is no row");
        assert_eq!(tunnel.arrived().len(), 8);
    });
}

#[test]
fn source_ports_that_others_have_are_left_to_them_and_a_second_sender_gets_its_own() {
    in_new_namespace("ports", || {
        let local = "127.0.0.1".parse().unwrap();
        let taken = std::net::UdpSocket::bind((local, TUNNEL_SOURCE_PORT_MIN)).unwrap();
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let mut reserve = TunnelReserve::open(1);
        let mut second =
            TunnelSender::new(local, TUNNEL_SOURCE_PORTS_DEFAULT, &mut reserve).unwrap();
        for entropy in 0..TUNNEL_SOURCE_PORTS_DEFAULT as u16 {
            for sender in [&mut tunnel.sender, &mut second] {
                sender.send(tunnel.to, b"x", None, entropy, OuterChecksum::Full).unwrap();
            }
        }
        let arrived: HashSet<_> = tunnel.arrived().iter().map(|(_, from)| from.port()).collect();
        assert_eq!(arrived.len(), 2 * TUNNEL_SOURCE_PORTS_DEFAULT);
        assert!(arrived.iter().all(|port| *port > TUNNEL_SOURCE_PORT_MIN), "{arrived:?}");
        drop(taken);
    });
}

#[test]
fn what_comes_by_an_interface_that_nobody_named_is_counted_and_not_delivered() {
    for local in ["127.0.0.1:0", "[::1]:0"] {
        in_new_namespace("foreign", || {
            let mut tunnel = Tunnel::new(local);
            let mut datagrams = Vec::new();
            for named in [Vec::new(), vec![LOOPBACK + 1]] {
                tunnel.receiver.take_only_from(named);
                // A flood does not keep the call from coming back.
                for _ in 0..3 {
                    tunnel.send(b"three", None).unwrap();
                }
                for foreign in [2, 1, 0] {
                    let received = tunnel.receiver.receive(&mut tunnel.pool, &mut datagrams, 2);
                    let bytes = u64::from(foreign) * 5;
                    let expected =
                        TunnelReceived { foreign, foreign_bytes: bytes, ..Default::default() };
                    assert_eq!(received, expected);
                }
                // A row counts as what was sent.
                tunnel.send(&content(300), Some(100)).unwrap();
                let received = tunnel.receiver.receive(&mut tunnel.pool, &mut datagrams, 8);
                assert_eq!((received.foreign, received.foreign_bytes), (3, 300));
                assert_eq!(received.datagrams, 0);
            }
            tunnel.receiver.take_only_from(vec![LOOPBACK + 1, LOOPBACK]);
            tunnel.send(b"x", None).unwrap();
            assert_eq!(tunnel.arrived().len(), 1);
        });
    }
}

#[test]
fn sockets_of_the_reserve_keep_their_buffers_when_the_right_to_them_is_gone() {
    in_new_namespace("reserve", || {
        let mut reserve = TunnelReserve::open(1);
        let local = "127.0.0.1:0".parse().unwrap();
        drop_privileges(None).unwrap();
        let receiver = TunnelReceiver::bind(local, &mut reserve).unwrap();
        let bytes = receiver.receive_buffer_bytes().unwrap();
        assert!(bytes >= 16 << 20, "{bytes}");
    });
}

#[test]
fn a_receiver_that_is_too_slow_counts_what_it_lost() {
    in_new_namespace("drops", || {
        const ROWS: u64 = 1_000;
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        for _ in 0..ROWS {
            tunnel.send(&content(1_400 * 44), Some(1_400)).unwrap();
        }
        let mut arrived = 0;
        let mut datagrams = Vec::new();
        loop {
            let received = tunnel.receiver.receive(&mut tunnel.pool, &mut datagrams, 256);
            arrived += u64::from(received.datagrams);
            for (buffer, _) in datagrams.drain(..) {
                tunnel.pool.put(buffer);
            }
            if received == TunnelReceived::default() {
                break;
            }
        }
        let lost = tunnel.receiver.kernel_drops();
        assert!(lost > 0, "{arrived} arrived");
        assert_eq!(arrived + lost * 44, ROWS * 44);
    });
}

#[test]
fn an_end_that_does_not_listen_or_cannot_be_reached_is_survived() {
    in_new_namespace("nobody", || {
        let mut tunnel = Tunnel::new("127.0.0.1:0");
        let nobody = SocketAddr::new(tunnel.to.ip(), 9);
        for _ in 0..4 {
            assert_eq!(tunnel.sender.send(nobody, b"x", None, 0, OuterChecksum::Full), Ok(()));
        }
        assert_eq!(tunnel.send(b"y", None), Ok(()));
        assert_eq!(tunnel.arrived().len(), 1);

        let mut sender =
            TunnelSender::new("0.0.0.0".parse().unwrap(), 1, &mut TunnelReserve::default())
                .unwrap();
        let unreachable = "192.0.2.1:4790".parse().unwrap();
        let refusal = sender.send(unreachable, b"x", None, 0, OuterChecksum::Full);
        assert_eq!(refusal, Err(SendFailure::Refused(libc::ENETUNREACH)));
    });
}
