//! Super-frames: cut as the goldens say, and every segment complete in itself.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ethernet::{EthernetHeader, VlanTag};
use crate::golden;
use crate::ipv4::{Ipv4Header, Ipv4View};
use crate::ipv6::Ipv6Header;
use crate::scalar::{EtherType, FlowLabel, FragmentOffset, MacAddr, VlanId};
use crate::tcp::TcpFlags;
use crate::tcp::TcpHeader;
use crate::udp::{UdpHeader, UdpView};

macro_rules! segment_golden {
    ($name:literal) => {
        golden::hex(include_str!(concat!("../../../../conformance/segment/", $name, ".hex")))
    };
}

/// How a super-frame of a test is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kind: SegmentKind,
    pub(super) is_v6: bool,
    pub(super) is_tagged: bool,
    pub(super) dont_fragment: bool,
    pub(super) identification: u16,
    pub(super) sequence: u32,
    pub(super) flags: TcpFlags,
    pub(super) options_words: u8,
    pub(super) payload_bytes: usize,
}

pub(super) const STREAM: Shape = Shape {
    kind: SegmentKind::Tcp,
    is_v6: false,
    is_tagged: false,
    dont_fragment: false,
    identification: 0xfffe,
    sequence: 0xffff_ff00,
    flags: TcpFlags::ACK.with(TcpFlags::PSH),
    options_words: 3,
    payload_bytes: 5_000,
};

impl Shape {
    fn ends(self) -> (IpAddr, IpAddr) {
        if self.is_v6 {
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
        } else {
            ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
        }
    }

    fn transport(self, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = self.ends();
        let mut header = vec![0; 20 + usize::from(self.options_words) * 4];
        if self.kind == SegmentKind::Udp {
            header.truncate(udp::HEADER_BYTES);
            let length = (udp::HEADER_BYTES + payload.len()) as u16;
            UdpHeader { source_port: 7, destination_port: 9, length, checksum: 0 }
                .emit(&mut header)
                .unwrap();
            return [&header, payload].concat();
        }
        let tcp = TcpHeader {
            source_port: 40_000,
            destination_port: 80,
            sequence: self.sequence,
            acknowledgment: 0x0102_0304,
            flags: self.flags,
            window: 501,
            urgent_pointer: 0,
        };
        tcp.emit(&mut header).unwrap();
        header[12] = (5 + self.options_words) << 4;
        header[20..].fill(1);
        let mut segment = [&header, payload].concat();
        tcp::refresh_checksum(&mut segment, source, destination).unwrap();
        segment
    }

    /// The frame with payload bytes that tell positions apart, its checksum complete.
    pub(super) fn frame(self) -> Vec<u8> {
        let payload: Vec<u8> = (0..self.payload_bytes).map(|i| (i * 7 + i / 256) as u8).collect();
        let upper = self.transport(&payload);
        let mut headers = [0; 22 + 40];
        let tag = VlanTag {
            tag_type: EtherType::VLAN,
            priority: 1,
            is_drop_eligible: false,
            id: VlanId::new(5).unwrap(),
        };
        let ethernet = EthernetHeader {
            tags: [self.is_tagged.then_some(tag), None],
            ..EthernetHeader::untagged(
                MacAddr([2, 0, 0, 0, 0, 2]),
                MacAddr([2, 0, 0, 0, 0, 1]),
                if self.is_v6 { EtherType::IPV6 } else { EtherType::IPV4 },
            )
        };
        let l3 = ethernet.emit(&mut headers).unwrap();
        let network = match self.ends() {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4Header {
                traffic_class: 2,
                payload_bytes: upper.len(),
                identification: self.identification,
                dont_fragment: self.dont_fragment,
                more_fragments: false,
                fragment_offset: FragmentOffset::from_low_bits(0),
                ttl: 64,
                protocol: self.kind.protocol(),
                source,
                destination,
            }
            .emit(&mut headers[l3..])
            .unwrap(),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ipv6Header {
                traffic_class: 2,
                flow_label: FlowLabel::from_low_bits(0x5_4321),
                payload_length: upper.len() as u16,
                next_header: self.kind.protocol(),
                hop_limit: 64,
                source,
                destination,
            }
            .emit(&mut headers[l3..])
            .unwrap(),
            _ => unreachable!(),
        };
        [&headers[..l3 + network], &upper].concat()
    }
}

/// All segments, each written over poison.
pub(super) fn segments(bytes: &[u8], kind: SegmentKind, segment_bytes: u16) -> Vec<Vec<u8>> {
    let cut = SuperFrame::parse(bytes, kind, segment_bytes).unwrap();
    let mut all = Vec::new();
    for i in 0..cut.count() {
        let mut room = vec![0xa5; cut.segment_len(0) + 3];
        let written = cut.write_segment(bytes, i, &mut room);
        assert_eq!(written, cut.segment_len(i));
        assert!(room[written..].iter().all(|&byte| byte == 0xa5));
        all.push(room[..written].to_vec());
    }
    all
}

/// Panics unless every checksum of the frame holds.
fn assert_intact(bytes: &[u8]) {
    let frame = FrameView::parse(bytes).unwrap();
    assert_eq!(frame.end as usize, bytes.len());
    let flow = frame.flow.unwrap();
    if frame.network == Network::Ipv4 {
        let ip = Ipv4View::parse(&bytes[usize::from(frame.l3_offset)..]).unwrap();
        assert!(ip.is_checksum_correct());
    }
    let upper = &bytes[usize::from(frame.l4_offset.unwrap())..];
    if flow.protocol == IpProtocol::TCP {
        let tcp = TcpView::parse(upper).unwrap();
        assert!(tcp.is_checksum_correct(flow.source, flow.destination));
    } else {
        let udp = UdpView::parse(upper).unwrap();
        assert!(udp.checksum() != 0 && udp.is_checksum_correct(flow.source, flow.destination));
        assert_eq!(usize::from(udp.length()), upper.len());
    }
}

#[test]
fn a_tcp_super_frame_is_cut_as_the_goldens_say() {
    let expected = [
        segment_golden!("tcp_segment_0"),
        segment_golden!("tcp_segment_1"),
        segment_golden!("tcp_segment_2"),
    ];
    assert_eq!(segments(&segment_golden!("tcp_super_frame"), SegmentKind::Tcp, 8), expected);
}

#[test]
fn a_udp_super_frame_is_cut_as_the_goldens_say() {
    let expected = [segment_golden!("udp_segment_0"), segment_golden!("udp_segment_1")];
    assert_eq!(segments(&segment_golden!("udp_super_frame"), SegmentKind::Udp, 12), expected);
}

#[test]
fn a_small_frame_is_one_segment_and_only_loses_its_padding() {
    let bytes = Shape { payload_bytes: 0, ..STREAM }.frame();
    let padded = [&bytes[..], &[0; 6]].concat();
    assert_eq!(segments(&padded, SegmentKind::Tcp, 1_448), [bytes]);
}

#[test]
fn the_largest_frame_is_cut_into_wire_frames() {
    for is_v6 in [false, true] {
        let headers = if is_v6 { 32 } else { 20 + 32 };
        let shape = Shape { is_v6, payload_bytes: 65_535 - headers, ..STREAM };
        let all = segments(&shape.frame(), SegmentKind::Tcp, 1_448);
        assert_eq!(all.len(), (65_535 - headers).div_ceil(1_448));
        all.iter().for_each(|segment| assert_intact(segment));
    }
}

#[test]
fn unusable_super_frames_are_named() {
    let bytes = STREAM.frame();
    let parse = |bytes: &[u8], kind, size| SuperFrame::parse(bytes, kind, size).map(|_| ());
    assert_eq!(parse(&bytes, SegmentKind::Tcp, 0), Err(SegmentError::NoSegmentSize));
    assert_eq!(parse(&bytes, SegmentKind::Tcp, 2), Err(SegmentError::TooMany { segments: 2_500 }));
    assert_eq!(
        parse(&bytes, SegmentKind::Udp, 1_448),
        Err(SegmentError::Protocol(Some(IpProtocol::TCP)))
    );
    let mut fragment = bytes.clone();
    fragment[14 + 6] = 0x20;
    assert_eq!(parse(&fragment, SegmentKind::Tcp, 1_448), Err(SegmentError::Fragmented));
    let mut other = bytes.clone();
    other[12] = 0x09;
    assert_eq!(parse(&other, SegmentKind::Tcp, 1_448), Err(SegmentError::Protocol(None)));
    assert!(matches!(
        parse(&bytes[..100], SegmentKind::Tcp, 1_448),
        Err(SegmentError::Frame(FrameError::Ip(_)))
    ));
}

#[test]
fn no_room_no_segment() {
    let bytes = STREAM.frame();
    let cut = SuperFrame::parse(&bytes, SegmentKind::Tcp, 1_448).unwrap();
    let mut room = vec![0; cut.segment_len(0)];
    assert_eq!(cut.write_segment(&bytes, 0, &mut room), room.len());
    assert_eq!(cut.write_segment(&bytes, cut.count(), &mut room), 0);
    assert_eq!(cut.write_segment(&bytes[..bytes.len() - 1], cut.count() - 1, &mut room), 0);
    room.pop();
    assert_eq!(cut.write_segment(&bytes, 0, &mut room), 0);
}

#[test]
fn a_checksum_left_to_a_device_is_completed() {
    let mut bytes = segment_golden!("tcp_super_frame");
    complete_checksum(&mut bytes, 34, 16).unwrap();
    let complete = SuperFrame::parse(&bytes, SegmentKind::Tcp, u16::MAX).unwrap();
    let mut whole = vec![0; bytes.len()];
    complete.write_segment(&bytes, 0, &mut whole);
    assert_eq!(bytes, whole);
    assert_intact(&bytes);
}

#[test]
fn a_completed_checksum_is_never_zero() {
    let mut bytes = vec![0xff, 0xff, 0, 0];
    complete_checksum(&mut bytes, 0, 2).unwrap();
    assert_eq!(bytes[2..], [0xff, 0xff]);
}

#[test]
fn a_checksum_beyond_the_frame_is_refused() {
    let mut bytes = vec![7; 60];
    for (start, offset) in [(61, 0), (60, 0), (34, 25), (34, 26), (0, 59), (u16::MAX, u16::MAX)] {
        let error = SegmentError::ChecksumPlace { start, offset };
        assert_eq!(complete_checksum(&mut bytes, start, offset), Err(error));
    }
    assert_eq!(bytes, [7; 60]);
    assert_eq!(complete_checksum(&mut bytes, 34, 24), Ok(()));
}

prop_compose! {
    fn any_shape()(
        (is_tcp, is_v6, is_tagged, dont_fragment) in any::<(bool, bool, bool, bool)>(),
        (identification, sequence) in any::<(u16, u32)>(),
        flags in any::<u8>(),
        options_words in 0_u8..=10,
        payload_bytes in 0_usize..4_000,
    ) -> Shape {
        let kind = if is_tcp { SegmentKind::Tcp } else { SegmentKind::Udp };
        let flags = TcpFlags(flags);
        Shape {
            kind, is_v6, is_tagged, dont_fragment, identification, sequence, flags, options_words,
            payload_bytes,
        }
    }
}

proptest! {
    #[test]
    fn every_segment_is_intact_and_together_they_hold_the_data(
        shape in any_shape(),
        segment_bytes in 16_u16..2_000,
    ) {
        let bytes = shape.frame();
        let cut = SuperFrame::parse(&bytes, shape.kind, segment_bytes).unwrap();
        let mut data = Vec::new();
        for (i, segment) in segments(&bytes, shape.kind, segment_bytes).iter().enumerate() {
            assert_intact(segment);
            if shape.kind == SegmentKind::Tcp {
                let tcp = TcpView::parse(&segment[cut.l4_offset..]).unwrap();
                let sequence = shape.sequence.wrapping_add(data.len() as u32);
                prop_assert_eq!(tcp.sequence(), sequence);
                let is_last = i + 1 == cut.count() as usize;
                let mut flags = shape.flags;
                if i > 0 {
                    flags = flags.without(TcpFlags::CWR);
                }
                if !is_last {
                    flags = flags.without(TcpFlags::FIN.with(TcpFlags::PSH));
                }
                prop_assert_eq!(tcp.flags(), flags);
            }
            if !shape.is_v6 {
                let ip = Ipv4View::parse(&segment[cut.l3_offset..]).unwrap();
                let identification = shape.identification.wrapping_add(i as u16);
                prop_assert_eq!(ip.identification(), identification);
            }
            data.extend_from_slice(&segment[cut.header_bytes()..]);
        }
        prop_assert_eq!(&data, &bytes[cut.header_bytes()..]);
    }
}
