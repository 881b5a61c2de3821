//! The packet ring on real interfaces: veth pairs in namespaces of these tests.
#![allow(clippy::unwrap_used, reason = "a test stops at its first surprise")]

mod namespace;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use catena_io::{
    Buffer, BufferPool, IoError, Offload, PacketRing, PartialChecksum, Poller, Received,
    RefusedFrame, RingConfig, Segmentation, SegmentationKind, Transmitted, drop_privileges,
};
use namespace::{enter_new_namespace, in_new_namespace, ip, packet_socket, silence_ipv6};

const TCP_HEADERS_BYTES: usize = 54;
/// The largest frame that a veth interface takes whole (its `gso_max_size` is exclusive).
const SUPER_FRAME_BYTES_MAX: usize = 65_535;
/// How often each loss is made to happen.
const HITS: u8 = 100;

/// Both ends of a veth pair, each with its ring.
struct Pair {
    near: PacketRing,
    far: PacketRing,
    pool: BufferPool,
}

impl Pair {
    fn new(config: RingConfig) -> Self {
        silence_ipv6();
        ip("link add near type veth peer name far");
        ip("link set near up");
        ip("link set far up");
        let ring = |name| PacketRing::map(packet_socket(name), config).unwrap();
        Self { near: ring("near"), far: ring("far"), pool: BufferPool::new(1_024) }
    }

    fn frame(&mut self, bytes: &[u8], offload: Offload) -> Buffer {
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(bytes));
        buffer.offload = offload;
        buffer
    }

    fn send(&mut self, bytes: &[u8], offload: Offload) -> Transmitted {
        let mut frames = vec![self.frame(bytes, offload)];
        let outcome = self.near.transmit(&mut frames, &mut self.pool);
        assert!(frames.is_empty());
        outcome
    }

    /// What has arrived at the other end; veth delivers before the send returns or soon after.
    fn arrived(&mut self) -> (Received, Vec<Buffer>) {
        wait_for(&self.far);
        let mut frames = Vec::new();
        let received = self.far.receive(&mut self.pool, &mut frames, 1_024);
        (received, frames)
    }
}

fn wait_for(ring: &PacketRing) {
    let mut poller = Poller::new().unwrap();
    poller.add(ring, 1).unwrap();
    let mut ready = Vec::new();
    poller.wait(Some(Duration::from_secs(5)), &mut ready).unwrap();
    assert_eq!(ready, [1], "nothing arrived");
}

/// An Ethernet frame of the local experimental type with recognisable content.
fn plain_frame(len: usize, seed: u8) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(7) ^ seed).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// An Ethernet frame with IPv4 and TCP headers, `ip_bytes` long behind the Ethernet header.
fn tcp_frame(ip_bytes: usize) -> Vec<u8> {
    let mut frame = plain_frame(14 + ip_bytes, 0x5a);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[16..18].copy_from_slice(&(ip_bytes as u16).to_be_bytes());
    frame[34..54].copy_from_slice(&[
        0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame
}

fn tcp_offload(segment_bytes: u16) -> Offload {
    Offload {
        checksum: Some(PartialChecksum { start: 34, offset: 16 }),
        segmentation: Some(Segmentation {
            kind: SegmentationKind::TcpV4,
            ecn: false,
            segment_bytes,
            header_bytes: TCP_HEADERS_BYTES as u16,
        }),
    }
}

/// The offload without the kernel's hint, which may differ.
fn without_hint(mut offload: Offload) -> Offload {
    if let Some(segmentation) = &mut offload.segmentation {
        segmentation.header_bytes = 0;
    }
    offload
}

#[test]
fn a_tcp_super_frame_of_64_kib_passes_whole_with_its_offload() {
    in_new_namespace("super-frame", || {
        let mut pair = Pair::new(RingConfig::default());
        let frame = tcp_frame(SUPER_FRAME_BYTES_MAX - 14);
        let mut offload = tcp_offload(1_448);
        offload.segmentation.as_mut().unwrap().ecn = true;
        let outcome = pair.send(&frame, offload);
        let segments = (frame.len() - TCP_HEADERS_BYTES).div_ceil(1_448) as u32;
        let expected = Transmitted { sent: 1, sent_segments: segments, ..Transmitted::default() };
        assert_eq!(outcome, expected);

        let (received, frames) = pair.arrived();
        assert_eq!(received, Received { frames: 1, ..Received::default() });
        assert_eq!(frames[0].bytes(), frame);
        assert_eq!(without_hint(frames[0].offload), without_hint(offload));
        assert_eq!(pair.far.ring_full(), 0);
    });
}

#[test]
fn an_unfinished_checksum_without_segmentation_is_told() {
    in_new_namespace("checksum", || {
        let mut pair = Pair::new(RingConfig::default());
        let offload = Offload { segmentation: None, ..tcp_offload(0) };
        assert_eq!(pair.send(&tcp_frame(1_500), offload).sent, 1);
        let (_, frames) = pair.arrived();
        assert_eq!(frames[0].offload, offload);
        assert_eq!(frames[0].bytes(), tcp_frame(1_500));
    });
}

#[test]
fn a_frame_larger_than_its_slot_is_counted_as_truncated_and_the_next_is_delivered() {
    in_new_namespace("truncation", || {
        let mut pair = Pair::new(RingConfig { slots: 16, slot_bytes: 4_096 });
        for number in 0..HITS {
            let free = pair.pool.free();
            assert_eq!(pair.send(&tcp_frame(5_000), tcp_offload(1_000)).sent, 1);
            assert_eq!(pair.send(&plain_frame(60, number), Offload::default()).sent, 1);
            let (mut received, mut frames) = pair.arrived();
            if frames.is_empty() {
                let (later, delivered) = pair.arrived();
                received.frames += later.frames;
                frames = delivered;
            }
            assert_eq!(received, Received { frames: 1, truncated: 1, ..Received::default() });
            assert_eq!(frames[0].bytes(), plain_frame(60, number));
            assert_eq!(pair.pool.free(), free - 1, "the truncated one gave it back");
            frames.drain(..).for_each(|frame| pair.pool.put(frame));
        }
    });
}

#[test]
fn vlan_tags_stand_at_their_place_and_the_offload_counts_them() {
    in_new_namespace("vlan", || {
        let mut pair = Pair::new(RingConfig::default());
        let tagged = |frame: &[u8], tag: [u8; 4]| [&frame[..12], &tag, &frame[12..]].concat();
        let customer = tagged(&plain_frame(100, 3), [0x81, 0x00, 0x60, 0x64]);
        let service = tagged(&customer, [0x88, 0xa8, 0x0f, 0xff]);
        let super_frame = tagged(&tcp_frame(20_000), [0x81, 0x00, 0x00, 0x07]);
        let mut offload = tcp_offload(1_448);
        offload.checksum.as_mut().unwrap().start += 4;
        offload.segmentation.as_mut().unwrap().header_bytes += 4;
        let sent =
            [(customer, Offload::default()), (service, Offload::default()), (super_frame, offload)];
        for (frame, offload) in &sent {
            assert_eq!(pair.send(frame, *offload).last_errno, None);
        }
        let (received, frames) = pair.arrived();
        assert_eq!(received.frames, 3);
        for ((frame, offload), arrived) in sent.iter().zip(&frames) {
            assert_eq!(arrived.bytes(), frame);
            assert_eq!(without_hint(arrived.offload), without_hint(*offload));
        }
    });
}

#[test]
fn own_transmissions_do_not_come_back() {
    in_new_namespace("own transmissions", || {
        let mut pair = Pair::new(RingConfig::default());
        assert_eq!(pair.send(&plain_frame(60, 1), Offload::default()).sent, 1);
        assert_eq!(pair.arrived().0.frames, 1);
        let mut frames = Vec::new();
        let received = pair.near.receive(&mut pair.pool, &mut frames, 8);
        assert_eq!(received, Received::default());
    });
}

#[test]
fn many_frames_keep_their_order_and_every_buffer_returns_to_the_pool() {
    in_new_namespace("order", || {
        let mut pair = Pair::new(RingConfig::default());
        let mut frames: Vec<_> = (0..150)
            .map(|number| pair.frame(&plain_frame(60 + number, number as u8), Offload::default()))
            .collect();
        let outcome = pair.near.transmit(&mut frames, &mut pair.pool);
        assert_eq!((outcome.sent, outcome.sent_segments, outcome.failed), (150, 150, 0));
        assert_eq!(pair.pool.free(), pair.pool.capacity());

        wait_for(&pair.far);
        let mut arrived = Vec::new();
        while arrived.len() < 150 {
            assert!(pair.far.receive(&mut pair.pool, &mut arrived, 40).frames <= 40);
        }
        for (number, frame) in arrived.iter().enumerate() {
            assert_eq!(frame.bytes(), plain_frame(60 + number, number as u8));
        }
    });
}

#[test]
fn a_frame_beyond_the_mtu_is_refused_by_name_and_does_not_stop_the_others() {
    in_new_namespace("mtu", || {
        let mut pair = Pair::new(RingConfig::default());
        let mut frames = vec![
            pair.frame(&plain_frame(14 + 1_500, 1), Offload::default()),
            pair.frame(&plain_frame(14 + 1_501, 2), Offload::default()),
            pair.frame(&plain_frame(14 + 1_500, 3), Offload::default()),
        ];
        let outcome = pair.near.transmit(&mut frames, &mut pair.pool);
        assert_eq!((outcome.sent, outcome.failed, outcome.failed_segments), (2, 1, 1));
        assert_eq!(outcome.last_errno, Some(libc::EMSGSIZE));
        assert_eq!(pair.near.refused(), [RefusedFrame { index: 1, errno: libc::EMSGSIZE }]);
        let (received, frames) = pair.arrived();
        assert_eq!(received.frames, 2);
        assert_eq!(frames[1].bytes(), plain_frame(14 + 1_500, 3));
        assert_eq!(pair.pool.free(), pair.pool.capacity() - 2);
        pair.send(&plain_frame(60, 4), Offload::default());
        assert_eq!(pair.near.refused(), [], "the former transmission is forgotten");
    });
}

#[test]
fn a_super_frame_is_segmented_for_an_interface_that_cannot_take_it_whole() {
    in_new_namespace("segmentation", || {
        let mut pair = Pair::new(RingConfig::default());
        ip("link set near gso_max_size 4096");
        for _ in 0..2 {
            let outcome = pair.send(&tcp_frame(40 + 10_000), tcp_offload(1_000));
            assert_eq!((outcome.sent, outcome.sent_segments, outcome.failed), (1, 10, 0));
        }
        let (received, frames) = pair.arrived();
        assert_eq!(received.frames, 20);
        assert!(frames.iter().all(|frame| frame.len() == TCP_HEADERS_BYTES + 1_000));
    });
}

#[test]
fn an_empty_pool_leaves_the_frames_in_the_ring() {
    in_new_namespace("empty pool", || {
        let mut pair = Pair::new(RingConfig::default());
        for number in 0..5 {
            assert_eq!(pair.send(&plain_frame(60, number), Offload::default()).sent, 1);
        }
        wait_for(&pair.far);
        let mut few = BufferPool::new(2);
        let mut frames = Vec::new();
        let received = pair.far.receive(&mut few, &mut frames, 8);
        let expected = Received { frames: 2, pool_empty: true, ..Received::default() };
        assert_eq!(received, expected);
        let received = pair.far.receive(&mut few, &mut frames, 8);
        assert_eq!(received, Received { pool_empty: true, ..Received::default() });
        let (received, rest) = pair.arrived();
        assert_eq!((received.frames, received.pool_empty), (3, false));
        assert_eq!(rest[0].bytes(), plain_frame(60, 2));
    });
}

#[test]
fn frames_lost_to_a_full_ring_are_counted_over_all_readings() {
    in_new_namespace("full ring", || {
        let slots = 4_u8;
        let mut pair = Pair::new(RingConfig { slots: slots.into(), slot_bytes: 4_096 });
        for (sent, lost) in [(HITS + slots, u64::from(HITS)), (3, u64::from(HITS) + 3)] {
            for number in 0..sent {
                assert_eq!(pair.send(&plain_frame(60, number), Offload::default()).sent, 1);
            }
            assert_eq!(pair.far.ring_full(), lost);
            assert_eq!(pair.far.ring_full(), lost);
        }
        let (received, frames) = pair.arrived();
        assert_eq!(received.frames, 4);
        assert_eq!(frames[3].bytes(), plain_frame(60, 3));
    });
}

#[test]
fn an_interface_going_down_is_told_once_and_leaves_the_port_quiet_and_usable() {
    in_new_namespace("down", || {
        let mut pair = Pair::new(RingConfig::default());
        ip("link set far down");
        wait_for(&pair.far);
        let mut frames = Vec::new();
        let received = pair.far.receive(&mut pair.pool, &mut frames, 8);
        assert_eq!(received.socket_error, Some(libc::ENETDOWN));
        assert_eq!(pair.far.receive(&mut pair.pool, &mut frames, 8), Received::default());
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.add(&pair.far, 1).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());

        ip("link set far up");
        assert_eq!(pair.send(&plain_frame(60, 9), Offload::default()).sent, 1);
        assert_eq!(pair.arrived().0.frames, 1);
    });
}

#[test]
fn a_process_without_privileges_maps_and_uses_a_socket_it_was_given() {
    in_new_namespace("unprivileged", || {
        silence_ipv6();
        ip("link add near type veth peer name far");
        ip("link set near up");
        ip("link set far up");
        let (near_socket, far_socket) = (packet_socket("near"), packet_socket("far"));
        drop_privileges(None).unwrap();
        let config = RingConfig::default();
        let near = PacketRing::map(near_socket, config).unwrap();
        let far = PacketRing::map(far_socket, config).unwrap();
        let mut pair = Pair { near, far, pool: BufferPool::new(4) };
        assert_eq!(pair.send(&tcp_frame(30_000), tcp_offload(1_448)).sent, 1);
        assert_eq!(pair.arrived().0.frames, 1);
    });
}

#[test]
fn rings_state_their_size_and_refuse_impossible_ones() {
    in_new_namespace("size", || {
        silence_ipv6();
        ip("link add near type veth peer name far");
        let config = RingConfig::default();
        let ring = PacketRing::map(packet_socket("near"), config).unwrap();
        let least = config.slots as usize * config.slot_bytes as usize;
        assert!((least..least * 11 / 10).contains(&ring.memory_bytes()));

        let refusal = |slots, slot_bytes| {
            PacketRing::map(packet_socket("near"), RingConfig { slots, slot_bytes }).err().unwrap()
        };
        assert!(matches!(refusal(256, 2_048), IoError::OutOfRange { value: 2_048, .. }));
        assert!(matches!(refusal(0, 69_632), IoError::OutOfRange { value: 0, .. }));
        assert!(matches!(refusal(256, 5_000), IoError::SlotAlignment { value: 5_000, .. }));
    });
}

/// A namespace of its own, joined to the caller's by a veth pair.
struct Host {
    thread: thread::JoinHandle<()>,
    release: mpsc::Sender<()>,
}

impl Host {
    /// Runs `program` in a new namespace that has `interface` with `address`; the other end of it
    /// is `to-<interface>` here. The namespace stays until the release.
    fn new(
        interface: &'static str,
        address: &'static str,
        program: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (tell, path) = mpsc::channel();
        let (release, permission) = mpsc::channel();
        let thread = thread::spawn(move || {
            enter_new_namespace();
            let id = rustix::thread::gettid().as_raw_nonzero();
            tell.send(format!("/proc/{}/task/{id}/ns/net", std::process::id())).unwrap();
            permission.recv().unwrap();
            ip(&format!("address add {address} dev {interface}"));
            ip(&format!("link set {interface} up"));
            program();
            permission.recv().unwrap();
        });
        let path = path.recv().unwrap();
        ip(&format!("link add {interface} type veth peer name to-{interface}"));
        ip(&format!("link set {interface} netns {path}"));
        ip(&format!("link set to-{interface} up"));
        release.send(()).unwrap();
        Self { thread, release }
    }

    fn release(self) {
        let _ = self.release.send(());
        self.thread.join().unwrap();
    }
}

#[test]
fn a_tcp_stream_between_two_kernels_passes_two_rings_unharmed_in_super_frames() {
    const STREAM_BYTES: usize = 40_000_000;
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    in_new_namespace("tcp", || {
        silence_ipv6();
        let byte_at = |at: usize| (at ^ (at >> 8) ^ (at >> 16)) as u8;
        let (listening, ready) = mpsc::channel();
        let server = Host::new("s", "10.7.0.1/24", move || {
            let listener = TcpListener::bind("10.7.0.1:7000").unwrap();
            listening.send(()).unwrap();
            let mut stream = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut stream).unwrap();
            assert_eq!(stream.len(), STREAM_BYTES);
            assert!(stream.iter().enumerate().all(|(at, byte)| *byte == byte_at(at)));
            IS_OVER.store(true, Ordering::Release);
        });
        ready.recv().unwrap();
        let client = Host::new("c", "10.7.0.2/24", move || {
            let mut stream = TcpStream::connect("10.7.0.1:7000").unwrap();
            let bytes: Vec<u8> = (0..STREAM_BYTES).map(byte_at).collect();
            stream.write_all(&bytes).unwrap();
        });

        let ring = |name| PacketRing::map(packet_socket(name), RingConfig::default()).unwrap();
        let mut rings = [ring("to-s"), ring("to-c")];
        let mut pool = BufferPool::new(512);
        let mut poller = Poller::new().unwrap();
        poller.add(&rings[0], 0).unwrap();
        poller.add(&rings[1], 1).unwrap();
        let (mut ready, mut frames, mut largest) = (Vec::new(), Vec::new(), 0);
        while !IS_OVER.load(Ordering::Acquire) && !server.thread.is_finished() {
            poller.wait(Some(Duration::from_millis(20)), &mut ready).unwrap();
            for token in &ready {
                let from = *token as usize;
                let received = rings[from].receive(&mut pool, &mut frames, 64);
                assert_eq!((received.truncated, received.unsupported_offload), (0, 0));
                largest = frames.iter().map(Buffer::len).max().unwrap_or(0).max(largest);
                let outcome = rings[1 - from].transmit(&mut frames, &mut pool);
                assert_eq!((outcome.failed, outcome.last_errno), (0, None));
            }
        }
        server.release();
        client.release();
        assert!(largest > 40_000, "the largest frame had {largest} bytes");
        assert_eq!(rings.map(|mut ring| ring.ring_full()), [0, 0]);
        assert_eq!(pool.free(), pool.capacity());
    });
}
