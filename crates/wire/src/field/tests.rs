//! Fields of goldens: read where the RFCs put them, written with their checksums and nothing else.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::checksum::{Sum, pseudo_header};
use crate::frame::{Fragment, Network};
use crate::scalar::IpProtocol;
use crate::segment::{SegmentKind, SuperFrame, complete_checksum};
use crate::{golden, icmp, tcp, udp};

macro_rules! frames {
    ($($path:literal)*) => {
        [$(($path, golden::hex(include_str!(concat!("../../../../conformance/", $path, ".hex"))))),*]
    };
}

fn frames() -> Vec<(&'static str, Vec<u8>)> {
    frames! {
        "frame/arp_request" "frame/first_fragment" "frame/icmp_echo_request" "frame/icmpv6_echo_reply"
        "frame/last_fragment" "frame/neighbour_solicitation" "frame/spanning_tree"
        "frame/tcp_ipv4_padded" "frame/udp_ipv6_vlan" "ethernet/untagged" "segment/tcp_super_frame"
        "segment/tcp_segment_0" "segment/udp_super_frame" "segment/udp_segment_0"
    }
    .to_vec()
}

fn named(name: &str) -> Vec<u8> {
    frames().into_iter().find(|(one, _)| *one == name).unwrap().1
}

fn view(frame: &[u8]) -> FrameView {
    FrameView::parse(frame).unwrap()
}

/// Whether the checksums of a frame hold, computed from scratch: that of IPv4, and that of the upper layer.
fn checksums(frame: &[u8]) -> (Option<bool>, Option<bool>) {
    let view = view(frame);
    let l3 = usize::from(view.l3_offset);
    let header = (view.network == Network::Ipv4).then(|| {
        let bytes = usize::from(frame[l3] & 0x0f) * 4;
        Sum::of(&frame[l3..l3 + bytes]).is_correct()
    });
    let upper = view.flow.filter(|_| view.fragment == Fragment::Whole).and_then(|flow| {
        let packet = &frame[usize::from(view.l4_offset.unwrap())..view.end as usize];
        let pseudo =
            pseudo_header(flow.source, flow.destination, flow.protocol, packet.len() as u32);
        match flow.protocol {
            IpProtocol::UDP if packet[6..8] == [0, 0] => None,
            IpProtocol::ICMP => Some(Sum::of(packet).is_correct()),
            _ => Some(pseudo.then_bytes(packet).is_correct()),
        }
    });
    (header, upper)
}

/// What stays on the path of the parser: the rest may make another packet of a frame.
fn is_free(field: Field) -> bool {
    !matches!(
        field,
        Field::EtherType
            | Field::Length
            | Field::FragmentFlags
            | Field::FragmentOffset
            | Field::Protocol
            | Field::HeaderChecksum
            | Field::UpperChecksum
    )
}

/// Makes all checksums of a frame right.
fn close(frame: &mut [u8]) {
    let view = view(frame);
    let (l3, end) = (usize::from(view.l3_offset), view.end as usize);
    if view.network == Network::Ipv4 {
        crate::ipv4::refresh_checksum(&mut frame[l3..]).unwrap();
    }
    let Some(flow) = view.flow.filter(|_| view.fragment == Fragment::Whole) else { return };
    let packet = &mut frame[usize::from(view.l4_offset.unwrap())..end];
    match flow.protocol {
        IpProtocol::TCP => {
            tcp::refresh_checksum(packet, flow.source, flow.destination).unwrap();
        }
        IpProtocol::UDP => {
            udp::refresh_checksum(packet, flow.source, flow.destination).unwrap();
        }
        _ => {}
    }
}

#[test]
fn each_field_is_where_its_rfc_puts_it() {
    let frame = named("segment/tcp_segment_0");
    let view = view(&frame);
    let flow = view.flow.unwrap();
    let address = |address| match address {
        core::net::IpAddr::V4(v4) => u128::from(v4.to_bits()),
        core::net::IpAddr::V6(v6) => v6.to_bits(),
    };
    let read = |field: Field| field.read(&frame, &view);
    assert_eq!(read(Field::Source), Some(address(flow.source)));
    assert_eq!(read(Field::Destination), Some(address(flow.destination)));
    assert_eq!(read(Field::SourcePort), Some(flow.source_port.into()));
    assert_eq!(read(Field::DestinationPort), Some(flow.destination_port.into()));
    assert_eq!(read(Field::Protocol), Some(6));
    assert_eq!(read(Field::TcpFlags), view.varying.tcp_flags.map(|flags| flags.0.into()));
    assert_eq!(read(Field::Dscp), Some(view.varying.dscp.into()));
    let upper = tcp::TcpView::parse(&frame[usize::from(view.l4_offset.unwrap())..]).unwrap();
    assert_eq!(read(Field::Sequence), Some(upper.sequence().into()));
    assert_eq!(read(Field::Acknowledgment), Some(upper.acknowledgment().into()));
    assert_eq!(read(Field::Window), Some(upper.window().into()));
    assert_eq!(read(Field::UrgentPointer), Some(upper.urgent_pointer().into()));
    assert_eq!(read(Field::UpperChecksum), Some(upper.checksum().into()));
    let options = Field::TcpOptions.bytes(&frame, &view).unwrap();
    assert_eq!(&frame[options], upper.options());
    let payload = Field::Payload.bytes(&frame, &view).unwrap();
    assert_eq!(&frame[payload], upper.payload());
    assert_eq!((read(Field::IcmpType), read(Field::VlanId)), (None, None));

    let frame = named("frame/udp_ipv6_vlan");
    let view = FrameView::parse(&frame).unwrap();
    let read = |field: Field| field.read(&frame, &view);
    assert_eq!(read(Field::VlanId), Some(view.vlan.unwrap().get().into()));
    assert_eq!(read(Field::EtherType), Some(0x86dd));
    assert_eq!(read(Field::Ttl), Some(frame[18 + 7].into()));
    assert_eq!(read(Field::Identification), None);
    assert_eq!(read(Field::Sequence), None);
}

#[test]
fn what_was_written_is_read_and_the_checksums_follow() {
    let mut written = 0;
    for (name, frame) in frames() {
        for field in Field::ALL.iter().copied().filter(|field| is_free(*field)) {
            for value in [0, 1, 0x5a5a_a5a5_1234_8765_u128, u128::MAX] {
                let mut frame = frame.clone();
                close(&mut frame);
                let before = checksums(&frame);
                let mut changed = frame.clone();
                let view = view(&frame);
                match field.write(&mut changed, &view, (value, u128::MAX), UpperChecksum::Closed) {
                    Err(error) => {
                        assert_eq!(changed, frame, "{name}: {error}");
                        assert_eq!(field.read(&frame, &view), None, "{name} {field:?}");
                    }
                    Ok(is_changed) => {
                        assert_eq!(is_changed, changed != frame, "{name} {field:?}");
                        let v4 = is_v4_address(field, &view);
                        let width = if v4 { u128::from(u32::MAX) } else { field.all() };
                        assert_eq!(
                            field.read(&changed, &view),
                            Some(value & width),
                            "{name} {field:?}"
                        );
                        assert_eq!(checksums(&changed), before, "{name} {field:?} {value:x}");
                        written += 1;
                    }
                }
            }
        }
    }
    assert!(written > 500, "{written}");
}

fn is_v4_address(field: Field, view: &FrameView) -> bool {
    matches!(field, Field::Source | Field::Destination) && view.network == Network::Ipv4
}

#[test]
fn only_the_bits_of_the_mask_are_written() {
    let frame = named("frame/tcp_ipv4_padded");
    let view = view(&frame);
    let mut changed = frame.clone();
    let host = (0x0000_00ff, 0x0000_00ff);
    Field::Source.write(&mut changed, &view, host, UpperChecksum::Closed).unwrap();
    let old = Field::Source.read(&frame, &view).unwrap();
    assert_eq!(Field::Source.read(&changed, &view), Some(old | 0xff));
    // DSCP and ECN share an octet (RFC 2474 section 3, RFC 3168 section 5).
    Field::Ecn.write(&mut changed, &view, (3, 3), UpperChecksum::Closed).unwrap();
    assert_eq!(Field::Dscp.read(&changed, &view), Field::Dscp.read(&frame, &view));
}

#[test]
fn a_wrong_checksum_stays_wrong_by_the_same_amount() {
    let mut frame = named("frame/tcp_ipv4_padded");
    close(&mut frame);
    let mut wrong = frame.clone();
    let view = view(&frame);
    let at = usize::from(view.l4_offset.unwrap()) + tcp::CHECKSUM_OFFSET;
    wrong[at] ^= 0x10;
    for frame in [&mut frame, &mut wrong] {
        Field::Source.write(frame, &view, (0x0102_0304, u128::MAX), UpperChecksum::Closed).unwrap();
        Field::SourcePort.write(frame, &view, (99, u128::MAX), UpperChecksum::Closed).unwrap();
    }
    assert_eq!(checksums(&frame).1, Some(true));
    assert_eq!(checksums(&wrong).1, Some(false));
    let read = |frame: &[u8]| Sum::of_word(Field::UpperChecksum.read(frame, &view).unwrap() as u16);
    let damage = crate::checksum::update(0xffff, read(&frame), read(&wrong));
    assert!([0x1000, 0xefff].contains(&damage), "{damage:x}");
}

#[test]
fn a_datagram_without_a_checksum_has_none_afterwards_and_none_becomes_zero() {
    let mut frame = named("segment/udp_segment_0");
    let view = view(&frame);
    let field = usize::from(view.l4_offset.unwrap()) + udp::CHECKSUM_OFFSET;
    frame[field..field + 2].fill(0);
    Field::Source.write(&mut frame, &view, (7, u128::MAX), UpperChecksum::Closed).unwrap();
    assert_eq!(frame[field..field + 2], [0, 0], "RFC 768: zero says that there is none");
    // Every port in turn: one of them makes the sum zero, which is written as its other form.
    let mut zeros = 0;
    close(&mut frame);
    for port in 0..=u16::MAX {
        Field::SourcePort
            .write(&mut frame, &view, (port.into(), u128::MAX), UpperChecksum::Closed)
            .unwrap();
        assert_ne!(frame[field..field + 2], [0, 0], "port {port}");
        zeros += u32::from(frame[field..field + 2] == [0xff, 0xff]);
    }
    assert!(zeros >= 1);
    assert_eq!(checksums(&frame).1, Some(true));
    // What is not changed is not touched, not even into its other form.
    let mut same = frame.clone();
    same[field..field + 2].fill(0xff);
    let before = same.clone();
    let port = Field::SourcePort.read(&same, &view).unwrap();
    let is_changed =
        Field::SourcePort.write(&mut same, &view, (port, u128::MAX), UpperChecksum::Closed);
    assert_eq!((is_changed, same), (Ok(false), before));
}

/// Leaves the checksum to a device, as Linux does.
fn open(frame: &mut [u8]) {
    let view = view(frame);
    let flow = view.flow.unwrap();
    let l4 = usize::from(view.l4_offset.unwrap());
    let length = view.end - u32::from(view.l4_offset.unwrap());
    let sum = pseudo_header(flow.source, flow.destination, flow.protocol, length).folded();
    let at = l4 + checksum_offset(flow.protocol);
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn checksum_offset(protocol: IpProtocol) -> usize {
    match protocol {
        IpProtocol::TCP => tcp::CHECKSUM_OFFSET,
        IpProtocol::UDP => udp::CHECKSUM_OFFSET,
        _ => icmp::CHECKSUM_OFFSET,
    }
}

/// What a translator of addresses and ports does.
fn translate(frame: &mut [u8], upper: UpperChecksum, (address, port): (u128, u16)) {
    let view = view(frame);
    Field::Source.write(frame, &view, (address, u128::MAX), upper).unwrap();
    Field::SourcePort.write(frame, &view, (port.into(), u128::MAX), upper).unwrap();
    Field::Ttl.write(frame, &view, (17, u128::MAX), upper).unwrap();
}

fn segments(frame: &[u8], kind: SegmentKind) -> Vec<Vec<u8>> {
    let cut = SuperFrame::parse(frame, kind, 700).unwrap();
    let each = (0..cut.count()).map(|i| {
        let mut segment = vec![0; cut.segment_len(i)];
        assert_eq!(cut.write_segment(frame, i, &mut segment), segment.len());
        segment
    });
    each.collect()
}

proptest! {
    /// One translation of an open, a closed and a super-framed packet: the same on the wire.
    #[test]
    fn open_closed_and_super_framed_packets_are_translated_alike(
        address in any::<u32>(),
        port in 1_u16..,
        name in prop::sample::select(vec!["segment/tcp_super_frame", "segment/udp_super_frame"]),
    ) {
        let kind = if name.contains("tcp") { SegmentKind::Tcp } else { SegmentKind::Udp };
        let wanted = (u128::from(address), port);
        let mut closed = named(name);
        close(&mut closed);
        let before = segments(&closed, kind);
        let mut opened = closed.clone();
        open(&mut opened);
        translate(&mut closed, UpperChecksum::Closed, wanted);
        translate(&mut opened, UpperChecksum::Open, wanted);
        // Whole, the open one completed by a device.
        let l4 = view(&closed).l4_offset.unwrap();
        let mut completed = opened.clone();
        let end = view(&opened).end as usize;
        let protocol = view(&closed).protocol.unwrap();
        complete_checksum(&mut completed[..end], l4, checksum_offset(protocol) as u16).unwrap();
        for frame in [&closed, &completed] {
            let (header, upper) = checksums(frame);
            prop_assert!(header != Some(false) && upper == Some(true));
        }
        // Cut first and translated then, or the other way round.
        let cut_then: Vec<_> = before.into_iter().map(|mut segment| {
            translate(&mut segment, UpperChecksum::Closed, wanted);
            segment
        }).collect();
        prop_assert_eq!(&segments(&closed, kind), &cut_then);
        prop_assert_eq!(&segments(&opened, kind), &cut_then);
    }

    /// No frame makes the reader or the writer panic or reach beyond it.
    #[test]
    fn any_bytes_are_read_and_written_without_panic(
        at in 0_usize..14, cut in 0_usize..1_600, flips in prop::collection::vec(0_usize..1_600, 0..4),
    ) {
        let (_, mut frame) = frames().swap_remove(at);
        for flip in flips {
            let at = flip % frame.len();
            frame[at] = frame[at].wrapping_add(1 + flip as u8);
        }
        let parsed = FrameView::parse(&frame);
        // A view of another, longer frame must not do harm either.
        frame.truncate(cut);
        if let Ok(view) = parsed {
            for field in Field::ALL {
                let _ = field.read(&frame, &view);
                let _ = field.bytes(&frame, &view);
                let _ = field.write(&mut frame, &view, (u128::MAX, u128::MAX), UpperChecksum::Closed);
                let _ = field.write(&mut frame, &view, (0, u128::MAX), UpperChecksum::Open);
            }
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    for field in Field::ALL {
        assert_eq!(Field::named(field.name()), Some(*field));
        assert!((1..=128).contains(&field.bits()));
    }
    assert_eq!(Field::named("ip.nothing"), None);
}
