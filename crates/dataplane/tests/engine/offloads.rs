//! Checksums and super-frames whose offload speaks of something else than the outer packet's TCP or UDP.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CUSTOMER, PLAIN_PORT, packet, three_hosts};
use crate::super_frames::{stream, super_frame};
use catena_io::{Offload, PartialChecksum};
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, Vni};
use catena_wire::vxlan::VxlanHeader;
use catena_wire::{sctp, udp};

/// S and E are on one host, D on another.
fn rig() -> Rig {
    let mut town = three_hosts();
    town.endpoint("E", 0, CUSTOMER, &["10.0.0.3", "2001:db8::3"]);
    Rig::new(town)
}

fn to(rig: &Rig, port: &str, spec: Spec) -> Spec {
    let address = if port == "E" { "10.0.0.3" } else { "10.0.0.2" };
    Spec { destination_mac: rig.town.mac(port), destination: address.parse().unwrap(), ..spec }
}

/// An INIT of a signalling gateway; the sender has left the checksum open.
fn init(rig: &Rig, port: &str) -> (Vec<u8>, Offload) {
    let spec = to(rig, port, packet(&rig.town, PLAIN_PORT));
    let mut chunk = vec![0x0b, 0x80, 0x96, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0];
    chunk.extend([1, 0, 0, 20, 1, 2, 3, 4, 0, 1, 0, 0, 0, 10, 0, 10, 5, 6, 7, 8]);
    let frame = Spec { protocol: IpProtocol::SCTP, payload: chunk, ..spec }.frame();
    let start = FrameView::parse(&frame).unwrap().l4_offset.unwrap();
    let checksum = Some(PartialChecksum { start, offset: sctp::CHECKSUM_OFFSET as u16 });
    (frame, Offload { checksum, segmentation: None })
}

#[test]
fn the_checksum_of_sctp_is_finished_as_such_between_hosts_and_within_one() {
    for port in ["D", "E"] {
        let mut rig = rig();
        let (frame, offload) = init(&rig, port);
        let mut finished = frame.clone();
        assert!(sctp::finish_checksum(&mut finished[34..]));
        assert_eq!(finished[42..46], sctp::crc32c(&frame[34..]).to_le_bytes());
        rig.queue("S", &frame, offload);
        rig.run();
        let seen = rig.seen.remove(port).unwrap();
        assert_eq!((seen.len(), seen[0].offload), (1, Offload::default()), "{port}");
        assert_eq!(seen[0].bytes, finished, "{port}");
        // One that has its checksum keeps it, right or wrong.
        rig.send("S", &frame);
        rig.run();
        assert_eq!(rig.take(port), [frame], "{port}");
        rig.check();
    }
}

/// A super-frame of TCP in VXLAN that an endpoint has made; the offload is that of the inner packet.
fn in_vxlan(
    rig: &Rig,
    port: &str,
    bytes: usize,
    has_checksum: bool,
) -> (Vec<u8>, Offload, Vec<u8>) {
    let inner = Spec { protocol: IpProtocol::TCP, ..packet(&rig.town, 80) };
    let (inner, mut offload) = super_frame(&stream(&inner, bytes));
    let mut payload = vec![0; VxlanHeader::LEN];
    VxlanHeader { vni: Vni::new(7).unwrap() }.emit(&mut payload).unwrap();
    payload.extend(&inner);
    let outer = to(rig, port, packet(&rig.town, 4_789));
    let mut frame = Spec { payload, ..outer }.frame();
    if !has_checksum {
        udp::set_checksum(&mut frame[34..], 0).unwrap();
    }
    let before = (frame.len() - inner.len()) as u16;
    let checksum = offload.checksum.as_mut().unwrap();
    checksum.start += before;
    (frame, offload, inner)
}

#[test]
fn super_frames_in_a_tenants_own_vxlan_arrive_as_their_wire_packets() {
    const BYTES: usize = 40_000;
    for (port, has_checksum) in [("D", false), ("D", true), ("E", false), ("E", true)] {
        let mut rig = rig();
        let (frame, offload, inner) = in_vxlan(&rig, port, BYTES, has_checksum);
        rig.queue("S", &frame, offload);
        rig.run();
        let seen = rig.take(port);
        assert_eq!(seen.len(), BYTES.div_ceil(1_340), "{port}");
        let mut data: Vec<u8> = Vec::new();
        for (number, bytes) in seen.iter().enumerate() {
            let outer = FrameView::parse(bytes).unwrap();
            assert_eq!(outer.end as usize, bytes.len());
            let udp = udp::UdpView::parse(&bytes[34..]).unwrap();
            assert_eq!(udp.payload().len() + 42, bytes.len());
            let has_one = udp::UdpHeader::read(&bytes[34..]).unwrap().checksum != 0;
            assert_eq!(has_one, has_checksum);
            let ends = outer.flow.map(|flow| (flow.source, flow.destination)).unwrap();
            assert!(udp.is_checksum_correct(ends.0, ends.1), "{port} {number}");
            let carried = &bytes[50..];
            let view = FrameView::parse(carried).unwrap();
            assert_eq!(view.end as usize, carried.len());
            data.extend(&carried[54..]);
        }
        assert!(data.as_slice() == &inner[54..], "{port}: what was carried is what was sent");
        rig.check();
    }
}
