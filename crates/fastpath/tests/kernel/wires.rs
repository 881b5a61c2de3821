//! Frames put on a wire one by one: tags, copies, and super-frames that no stack made.

use crate::frames::{self, Dice, OTHER, OWN, Way};
use crate::needs_privilege;
use crate::scene::{Host, Stand, seat, untag};
use catena_fastpath::{
    Event, Operation, OuterHeader, PuntTag, PuntedFrom, Settings, Sight, Transform, TunnelFrame,
};
use catena_io::{
    Buffer, BufferPool, Offload, PacketRing, PartialChecksum, RingConfig, Segmentation,
    SegmentationKind,
};
use catena_kernel::{packet, tc};
use catena_wire::scalar::MacAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddrV4;
use std::os::fd::AsFd;

const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const SEGMENT_BYTES: u16 = 1_300;

/// An end of a wire: what is put on it, what comes out of it.
struct End {
    ring: PacketRing,
    pool: BufferPool,
}

impl End {
    fn of(host: &Host, link: &str) -> Self {
        let socket = packet::open_packet_socket(&host.namespace, link).unwrap();
        let config = RingConfig { slots: 64, slot_bytes: 69_632 };
        Self { ring: PacketRing::map(socket, config).unwrap(), pool: BufferPool::new(64) }
    }

    fn put(&mut self, frame: &[u8], offload: Offload) {
        let mut buffer = self.pool.take().unwrap();
        assert!(buffer.fill(frame));
        buffer.offload = offload;
        let sent = self.ring.transmit(&mut vec![buffer], &mut self.pool);
        assert_eq!((sent.sent, sent.failed), (1, 0), "{:?}", sent.last_errno);
    }

    fn take(&mut self) -> Buffer {
        let mut frames = Vec::new();
        loop {
            self.ring.receive(&mut self.pool, &mut frames, 1);
            if let Some(frame) = frames.pop() {
                return frame;
            }
            let mut ready = [PollFd::new(&self.ring, PollFlags::IN)];
            assert_eq!(poll(&mut ready, Some(&PATIENCE)), Ok(1), "no frame came");
        }
    }
}

/// Ports 1 to 3 with a host each, and the ends of their wires.
async fn three_ports() -> (Stand, Vec<Host>, Vec<End>) {
    let mut stand = Stand::new("wires").await;
    let hosts: Vec<Host> = ["a", "b", "tap"].map(Host::new).into();
    for (number, host) in (1..).zip(&hosts) {
        stand.add_port(number, host, 1_500).await;
    }
    let ends = hosts.iter().map(|host| End::of(host, "e0")).collect();
    (stand, hosts, ends)
}

fn plain() -> Vec<u8> {
    let ends = [seat(1), seat(2)].map(|seat| SocketAddrV4::new(seat.address, 7));
    frames::tcp_frame([seat(1).mac, seat(2).mac], ends)
}

/// A TCP super-frame with `payload` bytes, and the offload that its sender leaves to the wire.
fn super_frame(payload: usize) -> (Vec<u8>, Offload) {
    let mut frame = plain();
    frame.extend((0..payload).map(|index| (index ^ index >> 8) as u8));
    let total = (frame.len() - 14) as u16;
    catena_wire::ipv4::set_total_length(&mut frame[14..], total).unwrap();
    catena_wire::ipv4::refresh_checksum(&mut frame[14..]).unwrap();
    let offload = Offload {
        checksum: Some(PartialChecksum { start: 34, offset: 16 }),
        segmentation: Some(Segmentation {
            kind: SegmentationKind::TcpV4,
            ecn: false,
            segment_bytes: SEGMENT_BYTES,
            header_bytes: 54,
        }),
    };
    (frame, offload)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_stays_on_its_frame_by_either_way() {
    needs_privilege!("a_tag_stays_on_its_frame_by_either_way");
    let (stand, _hosts, mut ends) = three_ports().await;
    let mut tagged = plain();
    tagged.splice(12..12, [0x81, 0, 0x60, 0x2a]);
    let sight = Sight::at_port(1, &tagged, None).unwrap();
    assert_eq!(sight.key.vlan, 0x602a);
    let mut punt = End::of(&stand.host, "punt1");
    ends[0].put(&tagged, Offload::default());
    let mut up = punt.take();
    assert_eq!(up.bytes()[16..20], [0x81, 0, 0x60, 0x2a], "behind the tag that says the port");
    let tag = PuntTag { from: PuntedFrom::Port(1), cause: Event::Miss };
    assert_eq!(untag(&mut up), Some(tag));
    assert_eq!(up.bytes(), tagged);
    let list = Transform::default().then(Operation::count(1)).unwrap();
    let list = list.then(Operation::transmit(stand.port(2))).unwrap();
    stand.tables.install(&sight.key, &list, None).unwrap();
    ends[0].put(&tagged, Offload::default());
    assert_eq!(ends[1].take().bytes(), tagged);
    assert_eq!(stand.tables.account(1).bytes, tagged.len() as u64);
    // Two tags, and a list that moves headers, are the engine's.
    let mut twice = tagged.clone();
    twice.splice(12..12, [0x88, 0xa8, 0, 7]);
    ends[0].put(&twice, Offload::default());
    let mut up = punt.take();
    let cause = |up: &mut Buffer| untag(up).unwrap().cause;
    assert_eq!((cause(&mut up), up.bytes()), (Event::Unkeyed, twice.as_slice()));
    let outer =
        OuterHeader { source: OWN, destination: OTHER, source_port: 1, destination_port: 2 };
    let list = Transform::default().then_push_tunnel(&outer.with(&[0; 8]).unwrap()).unwrap();
    let list = list.then(Operation::transmit(stand.port(2))).unwrap();
    stand.tables.install(&sight.key, &list, None).unwrap();
    ends[0].put(&tagged, Offload::default());
    let mut up = punt.take();
    assert_eq!((cause(&mut up), up.bytes()), (Event::Unfit, tagged.as_slice()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tap_gets_a_whole_copy_and_the_frame_goes_on_as_it_was() {
    needs_privilege!("a_tap_gets_a_whole_copy_and_the_frame_goes_on_as_it_was");
    let (stand, _hosts, mut ends) = three_ports().await;
    let key = Sight::at_port(1, &plain(), None).unwrap().key;
    let function = MacAddr([2, 0, 0, 0, 9, 9]);
    let list = [
        Operation::set_destination(seat(3).mac),
        Operation::clone_to(stand.port(3)),
        Operation::set_destination(function),
        Operation::count(1),
        Operation::transmit(stand.port(2)),
    ];
    let list = list.into_iter().try_fold(Transform::default(), Transform::then).unwrap();
    stand.tables.install(&key, &list, None).unwrap();
    let (large, offload) = super_frame(40_000);
    for (frame, offload) in [(plain(), Offload::default()), (large, offload)] {
        ends[0].put(&frame, offload);
        for (end, mac) in [(1, function), (2, seat(3).mac)] {
            let arrived = ends[end].take();
            let mut expected = frame.clone();
            expected[..6].copy_from_slice(&mac.0);
            assert_eq!(arrived.bytes(), expected);
            let segments = |offload: Offload| offload.segmentation.map(|s| s.segment_bytes);
            assert_eq!(segments(arrived.offload), segments(offload));
            assert_eq!(arrived.offload.checksum, offload.checksum);
        }
    }
    assert_eq!(stand.tables.events(Event::CloneFailed), 0);
    let packets = 1 + 40_000_u64.div_ceil(SEGMENT_BYTES.into());
    let bytes = 54 + 40_000 + 54 * (packets - 1);
    let volume = stand.tables.account(1);
    assert_eq!((volume.packets, volume.bytes), (packets, bytes), "as the engine counts");
    // A tap whose interface is gone costs the copy and nothing else.
    let list = [Operation::clone_to(4_242), Operation::transmit(stand.port(2))];
    let list = list.into_iter().try_fold(Transform::default(), Transform::then).unwrap();
    stand.tables.install(&key, &list, None).unwrap();
    ends[0].put(&plain(), Offload::default());
    assert_eq!(ends[1].take().bytes(), plain());
    assert_eq!(stand.tables.events(Event::CloneFailed), 1);
}

/// What a kernel's path sends as one frame, the other node's engine gets as one, knowing where the
/// inner checksum and the segments are.
#[tokio::test(flavor = "multi_thread")]
async fn a_super_frame_of_a_tunnel_goes_up_to_the_engine_whole() {
    needs_privilege!("a_super_frame_of_a_tunnel_goes_up_to_the_engine_whole");
    let (stand, _hosts, mut ends) = three_ports().await;
    // The wire of port 2 leads to the underlay of another node.
    let mut other = Stand::new("other").await;
    let links = &other.host.links;
    links.add_veth("u", "far", &stand.host.namespace, 1_600, None, None).await.unwrap();
    other.host.links.set_mac_and_mtu("u", seat(2).mac.0, 1_600).await.unwrap();
    other.host.links.set_up("u").await.unwrap();
    stand.host.links.set_up("far").await.unwrap();
    let underlay = other.host.index("u").await;
    tc::steer_ingress(&other.host.links, underlay, other.program.for_underlay().as_fd())
        .await
        .unwrap();
    let underlay_address = u32::from_ne_bytes(OWN.octets());
    other.tables.set_settings(Settings { underlay_address, ..other.tables.settings() });
    other.tables.add_source(OTHER.into(), 0).unwrap();
    other.ports.insert(1, underlay);
    let mut punt = End::of(&other.host, "punt1");
    let far = stand.host.index("far").await;
    let mut dice = Dice(3);
    for way in [Way::Nsh, Way::Mpls, Way::Network] {
        let shim = way.shim(&mut dice);
        let outer = OuterHeader {
            source: OTHER,
            destination: OWN,
            source_port: 0xc123,
            destination_port: way.udp_port(),
        };
        let list = Transform::default().then_push_tunnel(&outer.with(&shim).unwrap()).unwrap();
        let list = list.then(Operation::transmit(far)).unwrap();
        let key = Sight::at_port(1, &plain(), None).unwrap().key;
        stand.tables.install(&key, &list, None).unwrap();
        let (frame, offload) = super_frame(30_000);
        ends[0].put(&frame, offload);
        let mut up = punt.take();
        let tag = PuntTag { from: PuntedFrom::node(OTHER.into()), cause: Event::Miss };
        assert_eq!(untag(&mut up), Some(tag));
        let room = 14 + 28 + shim.len();
        assert_eq!(up.bytes()[room..], frame);
        assert_eq!(up.bytes()[42..room], shim);
        let checksum = PartialChecksum { start: 34 + room as u16, offset: 16 };
        assert_eq!(up.offload.checksum, Some(checksum));
        let segmentation = up.offload.segmentation.unwrap();
        assert_eq!(segmentation.kind, SegmentationKind::TcpV4);
        assert_eq!(segmentation.segment_bytes, SEGMENT_BYTES);
        let sight = Sight::at_underlay(OWN, up.bytes(), Some(SEGMENT_BYTES)).unwrap();
        assert_eq!((sight.inner_offset, sight.volume.packets), (room, 24));
        let outside = TunnelFrame::parse(up.bytes(), Some(SEGMENT_BYTES)).unwrap();
        assert_eq!((outside.source, outside.kind.udp_port()), (OTHER.into(), way.udp_port()));
        assert_eq!((outside.payload, outside.end), (42, up.len()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_takes_the_place_of_the_filter_that_swallows_and_gives_it_back() {
    needs_privilege!("a_program_takes_the_place_of_the_filter_that_swallows_and_gives_it_back");
    let (stand, _hosts, mut ends) = three_ports().await;
    let (links, port) = (&stand.host.links, stand.port(1));
    let key = Sight::at_port(1, &plain(), None).unwrap().key;
    let list = Transform::default().then(Operation::transmit(stand.port(2))).unwrap();
    stand.tables.install(&key, &list, None).unwrap();
    assert!(!tc::is_swallowing(links, port).await.unwrap());
    tc::swallow_ingress(links, port).await.unwrap();
    assert!(tc::is_swallowing(links, port).await.unwrap());
    tc::release_steering(links, port).await.unwrap();
    assert!(tc::is_swallowing(links, port).await.unwrap(), "that is no program");
    ends[0].put(&plain(), Offload::default());
    tc::steer_ingress(links, port, stand.program.for_port().as_fd()).await.unwrap();
    assert_eq!(stand.tables.events(Event::Hit), 0, "the program saw nothing of it");
    let mut second = plain();
    second[19] = 7;
    ends[0].put(&second, Offload::default());
    assert_eq!(ends[1].take().bytes(), second, "and the first is nowhere");
    tc::release_steering(links, port).await.unwrap();
    tc::release_steering(links, port).await.unwrap();
    tc::swallow_ingress(links, port).await.unwrap();
    assert!(tc::is_swallowing(links, port).await.unwrap(), "nothing stood in its way");
}
