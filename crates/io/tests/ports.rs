//! Ports by TAP and AF_XDP on real interfaces, in namespaces of these tests.
#![allow(clippy::unwrap_used, reason = "a test stops at its first surprise")]

mod namespace;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use catena_io::{
    Buffer, BufferPool, Offload, PacketRing, PartialChecksum, Poller, Port, RingConfig,
    Segmentation, SegmentationKind, TapPort, XDP_FRAME_BYTES_MAX, XdpConfig, XdpPort,
};
use catena_kernel::namespace::NetNamespace;
use catena_kernel::{tap, xdp};
use namespace::{in_new_namespace, ip, packet_socket, silence_ipv6};

const WAIT: Duration = Duration::from_secs(5);
/// Where UDP begins in a frame of IPv4, and its checksum in it.
const UDP_AT: u16 = 34;
const UDP_CHECKSUM_AT: u16 = 6;

fn fill(pool: &mut BufferPool, bytes: &[u8]) -> Buffer {
    let mut buffer = pool.take().unwrap();
    assert!(buffer.fill(bytes));
    buffer
}

/// All that comes until so many frames are there.
fn collect(port: &mut dyn Port, pool: &mut BufferPool, count: usize) -> Vec<Buffer> {
    let mut poller = Poller::new().unwrap();
    poller.add(&*port, 1).unwrap();
    let (mut frames, mut ready, began) = (Vec::new(), Vec::new(), Instant::now());
    while frames.len() < count && began.elapsed() < WAIT {
        poller.wait(Some(Duration::from_millis(100)), &mut ready).unwrap();
        let left = count - frames.len();
        port.receive(pool, &mut frames, left);
    }
    assert_eq!(frames.len(), count, "not all came");
    frames
}

/// An Ethernet frame of the local experimental type with recognisable content.
fn plain_frame(len: usize, seed: u8) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(7) ^ seed).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// Two ends that pass on what the other gets, until the sender of the other stream has ended.
fn bridge(a: &mut dyn Port, b: &mut dyn Port, stop: &std::sync::atomic::AtomicBool) -> usize {
    let mut pool = BufferPool::new(512);
    let mut poller = Poller::new().unwrap();
    poller.add(&*a, 0).unwrap();
    poller.add(&*b, 1).unwrap();
    let (mut frames, mut ready, mut largest) = (Vec::new(), Vec::new(), 0);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        poller.wait(Some(Duration::from_millis(20)), &mut ready).unwrap();
        a.receive(&mut pool, &mut frames, 64);
        largest = frames.iter().map(Buffer::len).fold(largest, usize::max);
        b.transmit(&mut frames, &mut pool);
        b.receive(&mut pool, &mut frames, 64);
        largest = frames.iter().map(Buffer::len).fold(largest, usize::max);
        a.transmit(&mut frames, &mut pool);
    }
    largest
}

fn tap_port(name: &str) -> TapPort {
    TapPort::new(tap::open_tap(&NetNamespace::current().unwrap(), name).unwrap())
}

#[test]
fn frames_pass_a_tap_both_ways_unchanged() {
    in_new_namespace("tap", || {
        silence_ipv6();
        let mut port = tap_port("guest");
        ip("link set guest up");
        let mut guest = PacketRing::map(packet_socket("guest"), RingConfig::default()).unwrap();
        let mut pool = BufferPool::new(64);
        let sent: Vec<Vec<u8>> = (0..20).map(|seed| plain_frame(60 + 70 * seed, 1)).collect();
        for (from, to) in [(0, 1), (1, 0)] {
            let ends: [&mut dyn Port; 2] = [&mut port, &mut guest];
            let mut frames: Vec<Buffer> = sent.iter().map(|frame| fill(&mut pool, frame)).collect();
            assert_eq!(ends[from].transmit(&mut frames, &mut pool).sent, 20);
            for (frame, sent) in collect(ends[to], &mut pool, 20).into_iter().zip(&sent) {
                assert_eq!(frame.bytes(), sent);
                pool.put(frame);
            }
        }
        ip("link set guest down");
        let mut frames = vec![fill(&mut pool, &sent[0])];
        let outcome = port.transmit(&mut frames, &mut pool);
        assert_eq!((outcome.failed, port.refused()[0].index), (1, 0));
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 64);
    });
}

#[test]
fn tcp_between_two_taps_crosses_in_super_frames() {
    in_new_namespace("tap super-frames", || {
        silence_ipv6();
        let (mut near, mut far) = (tap_port("near"), tap_port("far"));
        let other = NetNamespace::create_unnamed("other").unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), other.as_fd().as_raw_fd());
        let output = std::process::Command::new("ip")
            .args(["link", "set", "far", "netns", &path])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ip("addr add 10.0.0.1/24 dev near");
        ip("link set near up");
        let stop = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            let bridge = scope.spawn(|| bridge(&mut near, &mut far, &stop));
            let server = catena_kernel::namespace::run_in(&other, || {
                silence_ipv6();
                ip("addr add 10.0.0.2/24 dev far");
                ip("link set far up");
                TcpListener::bind("10.0.0.2:7000").unwrap()
            });
            let server = server.unwrap();
            let reader = scope.spawn(move || {
                let mut bytes = Vec::new();
                server.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
                bytes
            });
            let pattern: Vec<u8> = (0..4_000_000_u32).map(|at| (at >> 3) as u8).collect();
            let mut stream = TcpStream::connect("10.0.0.2:7000").unwrap();
            stream.write_all(&pattern).unwrap();
            drop(stream);
            assert!(reader.join().unwrap() == pattern, "the bytes differ");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let largest = bridge.join().unwrap();
            assert!(largest > 10_000, "the largest frame had {largest} bytes");
        });
    });
}

/// A veth pair, `near` with an AF_XDP port and `far` with a packet ring.
struct Pair {
    near: XdpPort,
    far: PacketRing,
    pool: BufferPool,
}

impl Pair {
    fn new(slots: u32) -> Self {
        silence_ipv6();
        ip("link add near type veth peer name far");
        ip("link set near up");
        ip("link set far up");
        let opened = xdp::open_xdp_socket(&NetNamespace::current().unwrap(), "near").unwrap();
        let config = XdpConfig { interface: opened.interface, queue: 0, slots };
        let near = XdpPort::bind(opened.socket, opened.map, opened.link, config).unwrap();
        let far = PacketRing::map(packet_socket("far"), RingConfig::default()).unwrap();
        Self { near, far, pool: BufferPool::new(4_096) }
    }
}

#[test]
fn frames_pass_an_xdp_port_both_ways_and_its_chunks_come_back() {
    in_new_namespace("xdp", || {
        let Pair { mut near, mut far, mut pool } = Pair::new(64);
        assert!(!near.is_zero_copy(), "veth cannot");
        // More rounds than the port has chunks: each must have come back.
        for round in 0..40_u8 {
            let sent: Vec<Vec<u8>> = (0..32).map(|at| plain_frame(60 + 45 * at, round)).collect();
            for (from, to) in [(0, 1), (1, 0)] {
                let ends: [&mut dyn Port; 2] = [&mut near, &mut far];
                let mut frames: Vec<Buffer> =
                    sent.iter().map(|frame| fill(&mut pool, frame)).collect();
                let outcome = ends[from].transmit(&mut frames, &mut pool);
                assert_eq!((outcome.sent, outcome.last_errno), (32, None), "round {round}");
                for (frame, sent) in collect(ends[to], &mut pool, 32).into_iter().zip(&sent) {
                    assert_eq!(frame.bytes(), sent);
                    pool.put(frame);
                }
            }
        }
        assert_eq!(near.lost(), 0);
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 4_096);
    });
}

#[test]
fn an_xdp_port_finishes_checksums_and_refuses_what_it_cannot_carry() {
    in_new_namespace("xdp offload", || {
        let Pair { mut near, mut far, mut pool } = Pair::new(64);
        let mut open = fill(&mut pool, &plain_frame(100, 3));
        open.offload.checksum = Some(PartialChecksum { start: UDP_AT, offset: UDP_CHECKSUM_AT });
        let mut whole = fill(&mut pool, &plain_frame(3_000, 4));
        whole.offload = Offload {
            checksum: None,
            segmentation: Some(Segmentation {
                kind: SegmentationKind::TcpV4,
                ecn: false,
                segment_bytes: 1_000,
                header_bytes: 54,
            }),
        };
        let large = fill(&mut pool, &plain_frame(XDP_FRAME_BYTES_MAX + 1, 5));
        let mut frames = vec![open, whole, large];
        let outcome = near.transmit(&mut frames, &mut pool);
        assert_eq!((outcome.sent, outcome.failed, outcome.failed_segments), (1, 2, 4));
        let refused: Vec<_> = near.refused().iter().map(|f| (f.index, f.errno)).collect();
        assert_eq!(refused, [(1, libc::EMSGSIZE), (2, libc::EMSGSIZE)]);
        let came = collect(&mut far, &mut pool, 1).remove(0);
        let sum: u32 = came.bytes()[usize::from(UDP_AT)..]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let before: u32 = plain_frame(100, 3)[usize::from(UDP_AT + UDP_CHECKSUM_AT)..][..2]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        // What stood in the checksum's place was the pseudo header's part.
        let folded = (sum + before) % 0xffff;
        assert_eq!(folded, 0, "the checksum is wrong");
    });
}

#[test]
fn frames_beyond_an_xdp_ring_are_counted_as_lost() {
    in_new_namespace("xdp lost", || {
        let Pair { mut near, mut far, mut pool } = Pair::new(32);
        for _ in 0..4 {
            let mut frames: Vec<Buffer> =
                (0..32).map(|at| fill(&mut pool, &plain_frame(60, at))).collect();
            assert_eq!(far.transmit(&mut frames, &mut pool).sent, 32);
        }
        let began = Instant::now();
        while near.lost() < 96 && began.elapsed() < WAIT {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(near.lost(), 96);
        assert_eq!(collect(&mut near, &mut pool, 32).len(), 32);
    });
}

#[test]
fn an_interface_gives_its_frames_to_the_stack_again_when_the_port_ends() {
    in_new_namespace("xdp end", || {
        let Pair { near, mut far, mut pool } = Pair::new(32);
        let mut stack = PacketRing::map(packet_socket("near"), RingConfig::default()).unwrap();
        drop(near);
        let mut frames = vec![fill(&mut pool, &plain_frame(60, 9))];
        assert_eq!(far.transmit(&mut frames, &mut pool).sent, 1);
        assert_eq!(collect(&mut stack, &mut pool, 1)[0].bytes(), plain_frame(60, 9));
    });
}

#[test]
fn a_missing_interface_is_told_by_name() {
    in_new_namespace("xdp missing", || {
        let told = xdp::open_xdp_socket(&NetNamespace::current().unwrap(), "nowhere");
        assert!(told.unwrap_err().to_string().contains("nowhere"));
        let socket = || OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let config = XdpConfig { interface: 1, queue: 0, slots: 8 };
        let port = XdpPort::bind(socket(), socket(), socket(), config);
        assert!(port.is_err(), "that is no XDP socket");
    });
}
