//! Super-frames: whole between ports of one host, cut and merged again between hosts.

use crate::frames::{self, Spec};
use crate::rig::{Rig, Seen};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use catena_io::{Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_model::resource::Encapsulation;
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::segment::{SegmentKind, SuperFrame};
use catena_wire::{checksum, tcp, udp};

const SEGMENT_BYTES: u16 = 1_340;

/// A super-frame as a kernel hands it out: checksum of the pseudo header alone.
pub(crate) fn super_frame(spec: &Spec) -> (Vec<u8>, Offload) {
    let mut frame = spec.frame();
    let view = FrameView::parse(&frame).unwrap();
    let start = view.l4_offset.unwrap();
    let segment = &mut frame[usize::from(start)..];
    let length = u32::try_from(segment.len()).unwrap();
    let pseudo =
        checksum::pseudo_header(spec.source, spec.destination, spec.protocol, length).folded();
    let offset = if spec.protocol == IpProtocol::TCP {
        tcp::set_checksum(segment, pseudo).unwrap();
        tcp::CHECKSUM_OFFSET
    } else {
        udp::set_checksum(segment, pseudo).unwrap();
        udp::CHECKSUM_OFFSET
    };
    let kind = match (spec.protocol, spec.source.is_ipv4()) {
        (IpProtocol::UDP, _) => SegmentationKind::UdpL4,
        (_, true) => SegmentationKind::TcpV4,
        (_, false) => SegmentationKind::TcpV6,
    };
    let offload = Offload {
        checksum: Some(PartialChecksum { start, offset: u16::try_from(offset).unwrap() }),
        segmentation: Some(Segmentation {
            kind,
            ecn: false,
            segment_bytes: SEGMENT_BYTES,
            header_bytes: 0,
        }),
    };
    (frame, offload)
}

pub(crate) fn stream(spec: &Spec, bytes: usize) -> Spec {
    let payload = (0..bytes).map(|i| (i % 251) as u8).collect();
    Spec { payload, ..spec.clone() }
}

/// The wire packets that a frame stands for.
fn wire_packets(seen: &Seen) -> Vec<Vec<u8>> {
    let Some(segmentation) = seen.offload.segmentation else { return vec![seen.bytes.clone()] };
    let kind = match segmentation.kind {
        SegmentationKind::UdpL4 => SegmentKind::Udp,
        _ => SegmentKind::Tcp,
    };
    let cut = SuperFrame::parse(&seen.bytes, kind, segmentation.segment_bytes).unwrap();
    let segments = (0..cut.count()).map(|index| {
        let mut segment = vec![0; cut.segment_len(index)];
        assert_eq!(cut.write_segment(&seen.bytes, index, &mut segment), segment.len());
        segment
    });
    segments.collect()
}

fn specs(rig: &Rig, port: u16) -> Vec<Spec> {
    let tcp = |spec: Spec| Spec { protocol: IpProtocol::TCP, ..spec };
    vec![
        stream(&tcp(packet(&rig.town, port)), 60_000),
        stream(&tcp(packet_v6(&rig.town, port)), 60_000),
        stream(&packet(&rig.town, port), 50_000),
        stream(&packet_v6(&rig.town, port), 50_000),
    ]
}

#[test]
fn a_super_frame_passes_whole_to_a_function_on_the_same_host() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    for spec in specs(&rig, CHAINED_PORT) {
        let (frame, mut offload) = super_frame(&spec);
        rig.send_all("S", [(frame.clone(), offload)]);
        let seen = rig.seen["v1.in"][0].clone();
        rig.seen.clear();
        let view = FrameView::parse(&frame).unwrap();
        let header = if spec.protocol == IpProtocol::TCP { 20 } else { 8 };
        offload.segmentation.as_mut().unwrap().header_bytes = view.l4_offset.unwrap() + header;
        assert_eq!(seen.offload, offload, "the offload travels with the frame, made exact");
        assert_eq!(seen.bytes[6..], frame[6..], "all but the destination MAC");
        let packets = spec.payload.len().div_ceil(usize::from(SEGMENT_BYTES)) as u64;
        let moved = rig.moved();
        assert_eq!(moved["S received"], packets);
        assert_eq!(moved["v1.in transmitted"], packets);
    }
}

#[test]
fn between_hosts_segments_travel_in_rows_and_tcp_is_merged_again() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(with_chain(encapsulation, &[&["v2"], &["v4"]]));
        for spec in specs(&rig, CHAINED_PORT) {
            let (frame, offload) = super_frame(&spec);
            rig.datagrams.clear();
            rig.send_all("S", [(frame.clone(), offload)]);
            let packets = spec.payload.len().div_ceil(usize::from(SEGMENT_BYTES));
            let rows: Vec<_> = rig.datagrams.iter().filter(|datagram| datagram.from == 0).collect();
            // By links each goes by itself.
            let in_rows = packets.div_ceil(44);
            let expected_rows = if encapsulation.is_source_route() { 0 } else { in_rows };
            assert_eq!(rows.len(), expected_rows, "one call for up to 44 segments");
            let frames = if spec.protocol == IpProtocol::TCP { in_rows } else { packets };
            let seen = rig.seen["v2.in"].clone();
            assert!(seen.len() <= frames.max(2), "{} frames for {packets} packets", seen.len());
            let delivered: Vec<Vec<u8>> = seen.iter().flat_map(wire_packets).collect();
            let expected: Vec<Vec<u8>> = wire_packets(&Seen { bytes: frame, offload });
            assert_eq!(delivered.len(), expected.len());
            // Of a packet without its frame the source is the proxy's.
            let keeps_frame = encapsulation.capabilities().keeps_frame;
            let from = if encapsulation.is_segmented() && !keeps_frame { 12 } else { 6 };
            for (delivered, expected) in delivered.iter().zip(&expected) {
                assert_eq!(delivered[from..], expected[from..], "all but MACs");
            }
            rig.seen.clear();
            let moved = rig.moved();
            for name in
                ["S received", "host2 tunnels received", "v2.in transmitted", "D transmitted"]
            {
                assert_eq!(moved[name], packets as u64, "{name} counts wire packets");
            }
        }
    }
}

#[test]
fn coalescing_changes_nothing_but_the_size_of_frames() {
    let run = |is_coalescing: bool| {
        let town = with_chain(Encapsulation::Nsh, &[&["v2"], &["v4"]]);
        let mut rig = Rig::with(town, |config| config.is_coalescing = is_coalescing, 1_024);
        // Two streams interleaved, a pure acknowledgement between, and a hole.
        let tcp = Spec { protocol: IpProtocol::TCP, ..packet(&rig.town, CHAINED_PORT) };
        let mut frames = Vec::new();
        for (index, sequence) in [0, 1, 2, 3, 5, 6, 7].into_iter().enumerate() {
            for ports in [(1_000, CHAINED_PORT), (1_001, CHAINED_PORT), (1_002, PLAIN_PORT)] {
                let identification = 100 + u16::try_from(sequence).unwrap();
                let sequence = sequence * 500;
                let part = Spec { ports, sequence, identification, ..tcp.clone() };
                frames.push((stream(&part, 500).frame(), Offload::default()));
                if index == 2 {
                    frames.push((Spec { payload: vec![], ..part }.frame(), Offload::default()));
                }
            }
        }
        rig.send_all("S", frames);
        let moved = rig.moved();
        let frames = rig.seen["D"].len();
        let mut streams = std::collections::BTreeMap::<_, Vec<Vec<u8>>>::new();
        for seen in &rig.seen["D"] {
            for packet in wire_packets(seen) {
                streams.entry(frames::flow(&packet)).or_default().push(packet);
            }
        }
        (moved, streams, frames)
    };
    let (on, off) = (run(true), run(false));
    assert_eq!(on.0, off.0, "the same counters");
    assert_eq!(on.1, off.1, "the same packets in the same order in each flow");
    assert!(on.2 < off.2, "{} frames are not fewer than {}", on.2, off.2);
}

#[test]
fn a_partial_checksum_is_completed_before_a_tunnel() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[]));
    for spec in [packet(&rig.town, PLAIN_PORT), packet_v6(&rig.town, PLAIN_PORT)] {
        let (mut frame, mut offload) = super_frame(&spec);
        offload.segmentation = None;
        frame.extend([0; 9]);
        rig.send_all("S", [(frame, offload)]);
        let seen = rig.seen.remove("D").unwrap().remove(0);
        assert_eq!(seen.offload, Offload::default());
        assert_eq!(seen.bytes, spec.frame(), "complete, and without padding");
    }
}

#[test]
fn a_function_that_reads_headers_gets_complete_segments() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    town.speaking("v1", Encapsulation::Nsh);
    let mut rig = Rig::new(town);
    for spec in specs(&rig, CHAINED_PORT) {
        let (frame, offload) = super_frame(&spec);
        let expected = wire_packets(&Seen { bytes: frame.clone(), offload });
        rig.send_all("S", [(frame, offload)]);
        let seen = rig.take("v1.in");
        assert_eq!(seen.len(), expected.len());
        for (seen, expected) in seen.iter().zip(&expected) {
            assert!(seen.ends_with(expected));
        }
        rig.seen.clear();
        rig.check();
    }
}

#[test]
fn segments_without_buffers_are_dropped_one_by_one() {
    let town = with_chain(Encapsulation::Nsh, &[]);
    let mut rig = Rig::with(town, |_| {}, 1);
    let spec = stream(
        &Spec { protocol: IpProtocol::TCP, ..packet(&rig.town, PLAIN_PORT) },
        10 * usize::from(SEGMENT_BYTES),
    );
    rig.send_all("S", [super_frame(&spec)]);
    rig.assert_moved(&[("S received", 10), ("S dropped buffers_exhausted", 10)]);
}

#[test]
fn packets_of_one_flow_and_size_share_a_row_and_others_do_not() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[]));
    let sized = |rig: &Rig, source_port, bytes| {
        let mut spec = stream(&packet(&rig.town, PLAIN_PORT), bytes);
        spec.ports.0 = source_port;
        (spec.frame(), Offload::default())
    };
    let lengths = [(1, 100), (1, 100), (2, 100), (1, 60), (1, 100), (2, 100), (2, 101)];
    let frames: Vec<_> = lengths.iter().map(|(port, bytes)| sized(&rig, *port, *bytes)).collect();
    rig.send_all("S", frames);
    let rows: Vec<_> = rig
        .datagrams
        .iter()
        .map(|row| (row.bytes.len() - 50, row.segment_bytes.map(|bytes| bytes - 50)))
        .collect();
    // Flow 1: 100 100 60 then 100; flow 2: 100 100 then 101. Each has 50 bytes of headers.
    assert_eq!(
        rows,
        [(100 + 150 + 110, Some(100)), (100 + 150, Some(100)), (100, None), (101, None)]
    );
    let entropy = |index: usize| rig.datagrams[index].entropy;
    assert_eq!(entropy(0), entropy(2), "a flow keeps its source port");
    assert_ne!(entropy(0), entropy(1));
}
