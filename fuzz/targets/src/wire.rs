//! Readers of packet formats: none panics, and what was read is written as it was read.

use catena_wire::arp::ArpPacket;
use catena_wire::digest;
use catena_wire::ethernet::EthernetView;
use catena_wire::frame::FrameView;
use catena_wire::geneve::GeneveHeader;
use catena_wire::gre::GreHeader;
use catena_wire::gtp_u::{GtpUHeader, GtpUView};
use catena_wire::icmp::IcmpView;
use catena_wire::inside::Inside;
use catena_wire::int_report::{Report, ReportGroup};
use catena_wire::ipfix;
use catena_wire::ipv4::Ipv4View;
use catena_wire::ipv6::Ipv6View;
use catena_wire::lldp::{FRAME_MAX, LldpFrame};
use catena_wire::mpls::{LabelStackEntry, SfcLabelPair};
use catena_wire::neighbour::{self, NeighbourSolicitation, emit_neighbour_advertisement};
use catena_wire::nsh::{Metadata, NshHeader, NshView};
use catena_wire::plain::{PlainFrame, PlainLabels, PlainNsh};
use catena_wire::probe::ProbeMark;
use catena_wire::scalar::{MacAddr, VlanId};
use catena_wire::segment::coalesce::{Segment, Train};
use catena_wire::segment::{SegmentKind, SuperFrame};
use catena_wire::stt::SttHeader;
use catena_wire::tcp::TcpView;
use catena_wire::udp::UdpView;
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::VxlanGpeHeader;
use std::fmt::Debug;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Larger than any header.
const HEADER_BYTES_MAX: usize = 512;
/// Tunnels in one another, as deep as programs ever ask for.
const LAYERS_MAX: u8 = 4;
/// Segments that are cut out of one super-frame; the rest are alike.
const SEGMENTS_SEEN: u32 = 64;
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// What was read must be what is read of its own writing. A poison in the buffer shows what the
/// writer forgets.
fn again<T: PartialEq + Debug, E: Debug>(
    meaning: &T,
    emit: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    read: impl FnOnce(&[u8]) -> Option<T>,
) {
    let mut buffer = [0xa5; HEADER_BYTES_MAX];
    let length = emit(&mut buffer).expect("what was read can be written");
    let read = read(buffer.get(..length).expect("no more is written than there is room for"));
    assert_eq!(read.as_ref(), Some(meaning), "it is read as it was written");
}

pub(crate) fn arp(bytes: &[u8]) {
    let Ok(packet) = ArpPacket::parse(bytes) else { return };
    again(&packet, |into| packet.emit(into), |bytes| ArpPacket::parse(bytes).ok());
    black_box(packet.reply(MacAddr::BROADCAST));
}

pub(crate) fn ethernet(bytes: &[u8]) {
    let Ok(view) = EthernetView::parse(bytes) else { return };
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    let header = view.header();
    again(
        &header,
        |into| header.emit(into),
        |bytes| EthernetView::parse(bytes).ok().map(|view| view.header()),
    );
}

/// The readers of whole frames: of every kind, and those of plain ones, which must say the same.
pub(crate) fn frame(bytes: &[u8]) {
    let plain = PlainFrame::parse(bytes);
    black_box(PlainNsh::parse(bytes));
    black_box(PlainNsh::parse_behind_gpe(bytes));
    let labels = PlainLabels::parse(bytes).map(|labels| (labels.path, labels.index, labels.ttl));
    let simple = SfcLabelPair::parse(bytes).ok().and_then(|(pair, _)| {
        Some((pair.context.get(), pair.service_index().ok()?.0, pair.function_ttl))
    });
    assert_eq!(labels, simple, "both readers find one pair");
    let view = FrameView::parse(bytes);
    if let Some(plain) = plain {
        let view = view.expect("a plain frame is a frame");
        assert_eq!(Some(plain.flow()), view.flow, "both readers find one flow");
        assert_eq!(plain.is_multicast_or_link_local(), view.is_multicast_or_link_local());
        assert_eq!(plain.vlan(), view.vlan.map_or(0, VlanId::get));
    }
    let Ok(view) = view else { return };
    black_box((view.is_neighbour_discovery(), view.is_icmp_error()));
    black_box(digest::kept(&view, bytes));
    if let Some(flow) = view.flow {
        assert_eq!(flow.symmetric_hash(1), flow.reversed().symmetric_hash(1));
        assert_eq!(flow.reversed().reversed(), flow);
    }
}

pub(crate) fn geneve(bytes: &[u8]) {
    let Ok((header, _)) = GeneveHeader::parse(bytes) else { return };
    let mut buffer = [0xa5; HEADER_BYTES_MAX];
    let length = header.emit(&mut buffer).expect("what was read can be written");
    let (read, rest) = GeneveHeader::parse(&buffer[..length]).expect("it is read again");
    assert_eq!((read, rest.len()), (header, 0));
}

pub(crate) fn gre(bytes: &[u8]) {
    let Ok((header, rest)) = GreHeader::parse(bytes) else { return };
    assert_eq!(header.len_bytes() + rest.len(), bytes.len());
    black_box(header.virtual_subnet());
    let read = |bytes: &[u8]| GreHeader::parse(bytes).ok().map(|(header, _)| header);
    again(&header, |into| header.emit(into), read);
}

pub(crate) fn gtp_u(bytes: &[u8]) {
    black_box(GtpUView::parse_cut(bytes).ok());
    let Ok(view) = GtpUView::parse(bytes) else { return };
    let Ok(payload_bytes) = u16::try_from(view.payload().len()) else { return };
    let header = GtpUHeader {
        message: view.message(),
        teid: view.teid(),
        sequence: view.sequence(),
        pdu_session: view.pdu_session(),
        payload_bytes,
    };
    let mut buffer = vec![0xa5; HEADER_BYTES_MAX + view.payload().len()];
    // A header that says more than we ever write can be too long for its own length field.
    let Ok(length) = header.emit(&mut buffer) else { return };
    let end = length + view.payload().len();
    buffer[length..end].copy_from_slice(view.payload());
    let read = GtpUView::parse(&buffer[..end]).expect("it is read again");
    assert_eq!((read.message(), read.teid()), (view.message(), view.teid()));
    assert_eq!((read.sequence(), read.pdu_session()), (view.sequence(), view.pdu_session()));
    assert_eq!(read.payload(), view.payload());
}

pub(crate) fn icmp(bytes: &[u8]) {
    let Ok(view) = IcmpView::parse(bytes) else { return };
    black_box((view.v4_type(), view.v6_type(), view.code(), view.checksum()));
    black_box((view.v4_identifier(), view.v6_identifier(), view.body().len()));
    black_box((view.is_v4_checksum_correct(), view.is_v6_checksum_correct(V6, V6)));
}

pub(crate) fn inside(bytes: &[u8]) {
    let Ok(view) = FrameView::parse(bytes) else { return };
    let walked = Inside::parse(bytes, &view, LAYERS_MAX);
    let plain =
        PlainFrame::parse(bytes).and_then(|plain| Inside::parse_plain(bytes, &plain, LAYERS_MAX));
    if let Some(plain) = plain {
        assert_eq!(walked, Ok(Some(plain)), "both readers find the same inside");
        black_box(plain.identity_hash(1));
    }
}

pub(crate) fn ipv4(bytes: &[u8]) {
    black_box(Ipv4View::parse_cut(bytes).ok());
    let Ok(view) = Ipv4View::parse(bytes) else { return };
    black_box((view.is_checksum_correct(), view.reserved_flag(), view.ecn(), view.options().len()));
    assert_eq!(view.header_len() + view.payload().len(), usize::from(view.total_length()));
    let header = view.header();
    let mut buffer = vec![0; HEADER_BYTES_MAX + view.payload().len()];
    let Ok(length) = header.emit(&mut buffer) else { return };
    buffer.truncate(length + header.payload_bytes);
    let read = Ipv4View::parse(&buffer).expect("it is read again");
    assert_eq!(read.header(), header);
    assert!(read.is_checksum_correct());
}

pub(crate) fn ipv6(bytes: &[u8]) {
    black_box(Ipv6View::parse_cut(bytes).ok());
    let Ok(view) = Ipv6View::parse(bytes) else { return };
    assert!(view.upper_offset() <= bytes.len());
    black_box((view.upper().len(), view.upper_protocol(), view.fragment(), view.ecn()));
    let header = view.header();
    let mut buffer = vec![0; HEADER_BYTES_MAX];
    let length = header.emit(&mut buffer).expect("what was read can be written");
    buffer.truncate(length);
    buffer.extend(view.payload());
    let read = Ipv6View::parse(&buffer).expect("it is read again");
    assert_eq!(read.header(), header);
}

/// Hops and delays are written as they were read; headers may have been longer.
pub(crate) fn ipfix(bytes: &[u8]) {
    let Ok(message) = ipfix::Message::parse(bytes) else { return };
    let records: usize = message.sets().map(|set| set.records().count()).sum();
    assert!(records <= bytes.len(), "a record has a byte at least");
    let mut into = vec![0xa5; usize::from(u16::MAX)];
    let behind = ipfix::HEADER_BYTES + ipfix::SET_HEADER_BYTES;
    for set in message.sets() {
        let (hops, delays): (Vec<_>, Vec<_>) = (set.hops().collect(), set.delays().collect());
        let headers: Vec<_> = set.headers().collect();
        for length in [
            ipfix::emit_hops(message.header, &hops, &mut into),
            ipfix::emit_delays(message.header, &delays, &mut into),
        ] {
            let length = length.expect("what was read can be written");
            assert!(set.content.starts_with(into.get(behind..length).unwrap_or_default()));
        }
        let length = ipfix::emit_headers(message.header, &headers, &mut into);
        let written = &into[..length.expect("what was read can be written")];
        let again = ipfix::Message::parse(written).expect("what was written can be read");
        assert!(again.sets().flat_map(|set| set.headers()).eq(headers));
    }
}

/// The signature covers what was read, whatever was behind it and between what nobody knows.
pub(crate) fn lldp(bytes: &[u8]) {
    let Ok(frame) = LldpFrame::parse(bytes) else { return };
    let signature = frame.own.map_or([0; 16], |own| own.signature);
    let mut buffer = [0xa5; FRAME_MAX];
    let length = frame.emit(&mut buffer, |_| signature).expect("what was read can be written");
    let again = LldpFrame::parse(&buffer[..length]).expect("what was written can be read");
    assert_eq!(LldpFrame { signed: frame.signed, ..again }, frame);
    assert_eq!(again.signed.is_empty(), again.own.is_none());
}

pub(crate) fn mpls(bytes: &[u8]) {
    if let Ok((entry, _)) = LabelStackEntry::parse(bytes) {
        assert_eq!(bytes.first_chunk(), Some(&entry.to_bytes()));
    }
    let Ok((pair, _)) = SfcLabelPair::parse(bytes) else { return };
    black_box((pair.service_index().ok(), pair.next_ttl().ok()));
    let read = |bytes: &[u8]| SfcLabelPair::parse(bytes).ok().map(|(pair, _)| pair);
    again(&pair, |into| pair.emit(into), read);
}

pub(crate) fn neighbour(bytes: &[u8]) {
    black_box(neighbour::advertised(bytes));
    let Ok(asked) = NeighbourSolicitation::parse(bytes, V6, V6, 255) else { return };
    let mut buffer = [0xa5; HEADER_BYTES_MAX];
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let length = emit_neighbour_advertisement(&asked, mac, mac, &mut buffer);
    let length = length.expect("a question can be answered");
    FrameView::parse(&buffer[..length]).expect("the answer is a frame");
}

pub(crate) fn nsh(bytes: &[u8]) {
    let Ok((view, rest)) = NshView::parse(bytes) else { return };
    assert_eq!(view.len_bytes() + rest.len(), bytes.len());
    black_box(view.next_ttl().ok());
    if let Metadata::Type2(headers) = view.metadata() {
        assert_eq!(headers.map(|header| header.len_bytes()).sum::<usize>(), headers.bytes().len());
    }
    let header = view.header();
    assert!(header.len_bytes() <= NshHeader::LEN_MAX);
    let mut buffer = [0xa5; HEADER_BYTES_MAX];
    let length = header.emit(&mut buffer).expect("what was read can be written");
    let (read, rest) = NshView::parse(&buffer[..length]).expect("it is read again");
    assert_eq!((read.header(), rest.len()), (header, 0));
}

pub(crate) fn probe(bytes: &[u8]) {
    black_box(ProbeMark::scan(bytes));
    let Ok(view) = FrameView::parse(bytes) else { return };
    black_box(ProbeMark::find(&view, bytes));
    black_box(catena_wire::probe::find_answer(MacAddr::BROADCAST, &view, bytes));
    black_box(catena_wire::probe::is_question_of(MacAddr::BROADCAST, &view, bytes));
}

pub(crate) fn int_report(bytes: &[u8]) {
    let Ok((group, mut rest)) = ReportGroup::parse(bytes) else { return };
    let read = |bytes: &[u8]| ReportGroup::parse(bytes).ok().map(|(group, _)| group);
    again(&group, |into| group.emit(into), read);
    while let Ok((report, behind)) = Report::parse(rest) {
        let mut written = vec![0xa5; report.len_bytes()];
        assert_eq!(report.emit(&mut written), Ok(written.len()));
        assert_eq!(Report::parse(&written), Ok((report, &[][..])), "it is read as it was written");
        rest = behind;
    }
}

/// Cutting super-frames and joining packets. The first three bytes say how.
pub(crate) fn segment(bytes: &[u8]) {
    let Some(([kind, high, low], frame)) = bytes.split_first_chunk() else { return };
    let kind = if kind % 2 == 0 { SegmentKind::Tcp } else { SegmentKind::Udp };
    let segment_bytes = u16::from_be_bytes([*high, *low]);
    let mut buffer = vec![0; frame.len()];
    if let Ok(whole) = SuperFrame::parse(frame, kind, segment_bytes) {
        for number in 0..whole.count().min(SEGMENTS_SEEN) {
            let length = whole.write_segment(frame, number, &mut buffer);
            assert_eq!(length, whole.segment_len(number), "each segment is as long as was said");
            FrameView::parse(&buffer[..length]).expect("each segment is a frame");
        }
    }
    let Ok(view) = FrameView::parse(frame) else { return };
    let Some(first) = Segment::read(&view, frame) else { return };
    let mut train = Train::begin(first);
    if train.accepts(&first) {
        assert!(train.join(&first), "what is accepted joins");
    }
}

pub(crate) fn stt(bytes: &[u8]) {
    let Ok((header, _)) = SttHeader::parse(bytes) else { return };
    let read = |bytes: &[u8]| SttHeader::parse(bytes).ok().map(|(header, _)| header);
    again(&header, |into| header.emit(into), read);
}

pub(crate) fn tcp(bytes: &[u8]) {
    let Ok(view) = TcpView::parse(bytes) else { return };
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    black_box((view.options().len(), view.reserved(), view.is_checksum_correct(V4, V4)));
    let header = view.header();
    let read = |bytes: &[u8]| TcpView::parse(bytes).ok().map(|view| view.header());
    again(&header, |into| header.emit(into), read);
    let mut segment = bytes.to_vec();
    catena_wire::tcp::refresh_checksum(&mut segment, V4, V4).expect("what was read has a checksum");
    assert!(TcpView::parse(&segment).expect("it is still one").is_checksum_correct(V4, V4));
}

pub(crate) fn udp(bytes: &[u8]) {
    let Ok(view) = UdpView::parse(bytes) else { return };
    black_box((view.payload().len(), view.is_checksum_correct(V4, V4)));
    let header = view.header();
    let read = |bytes: &[u8]| catena_wire::udp::UdpHeader::read(bytes).ok();
    again(&header, |into| header.emit(into), read);
}

pub(crate) fn vxlan(bytes: &[u8]) {
    let Ok((header, _)) = VxlanHeader::parse(bytes) else { return };
    let read = |bytes: &[u8]| VxlanHeader::parse(bytes).ok().map(|(header, _)| header);
    again(&header, |into| header.emit(into), read);
}

pub(crate) fn vxlan_gpe(bytes: &[u8]) {
    let Ok((header, _)) = VxlanGpeHeader::parse(bytes) else { return };
    let read = |bytes: &[u8]| VxlanGpeHeader::parse(bytes).ok().map(|(header, _)| header);
    again(&header, |into| header.emit(into), read);
}
