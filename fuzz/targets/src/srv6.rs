//! Readers of segment routing: what was read is written as it was read, and no step writes outside of the header, but
//! for the destination and the hop limit.

use catena_wire::ipv6;
use catena_wire::srv6::{
    self, HmacKey, SegmentRoutingHeader, SegmentRoutingView, Srv6View, Tlv, TlvType, decapsulation,
};
use catena_wire::srv6_int::{
    ArrivalTime, DetectionResult, Hop, IntMetadata, IntView, Tail, Visit, end_dt_int, end_t_int,
    end_t_int_return,
};
use std::hint::black_box;
use std::net::Ipv6Addr;

/// What each step takes.
const NOW: ArrivalTime = ArrivalTime::from_ns(1 << 39);
const DEVICE: u16 = 2;
const SAMPLE: u32 = 0x8100_0598;

pub(crate) fn header(bytes: &[u8]) {
    let Ok((view, rest)) = SegmentRoutingView::parse(bytes) else { return };
    assert_eq!(view.len_bytes() + rest.len(), bytes.len());
    let way: Vec<Ipv6Addr> = view.way().collect();
    let tlvs: Vec<Tlv<'_>> = view.tlvs().filter(|tlv| tlv.kind != TlvType::HMAC).collect();
    let header = SegmentRoutingHeader {
        next: view.next(),
        segments_left: view.segments_left(),
        flags: view.flags(),
        tag: view.tag(),
        way: &way,
        tlvs: &tlvs,
        hmac: view.hmac(),
    };
    // Padding that is read can be shorter than what we write.
    let mut written = vec![0xa5; header.len_bytes()];
    let Ok(length) = header.emit(&mut written) else { return };
    let (again, rest) =
        SegmentRoutingView::parse(&written[..length]).expect("what was written can be read");
    assert!(rest.is_empty());
    assert!(again.way().eq(way) && again.hmac() == view.hmac());
    assert!(
        again
            .tlvs()
            .eq(tlvs.into_iter().chain(again.tlvs().filter(|tlv| tlv.kind == TlvType::HMAC)))
    );
    assert_eq!((again.next(), again.flags(), again.tag()), (view.next(), view.flags(), view.tag()));
    assert_eq!(again.segments_left(), view.segments_left());
}

pub(crate) fn packet(bytes: &[u8]) {
    for step in [srv6::end, srv6::next_csid] {
        stepped(bytes, |packet| step(packet).is_ok());
    }
    let key = HmacKey::new(b"a secret").expect("a key of eight bytes");
    stepped(bytes, |packet| srv6::sign(packet, &key).is_ok());
    let mut signed = bytes.to_vec();
    if srv6::sign(&mut signed, &key).is_ok() {
        let view = Srv6View::parse(&signed).expect("a signed packet is one");
        black_box(srv6::verify(&view, &key).is_ok());
    }
    let mut popped = bytes.to_vec();
    match srv6::pop(&mut popped) {
        Ok(length) => assert!(ipv6::Ipv6Header::parse(&popped[length..]).is_ok()),
        Err(_) => assert_eq!(popped, bytes),
    }
    if let Ok(inside) = decapsulation(bytes) {
        black_box(inside.inherit_ecn(&mut bytes.to_vec()).is_ok());
    }
    for tail in [Tail::Tlv, Tail::Paper] {
        telemetry(bytes, tail);
    }
}

fn telemetry(bytes: &[u8], tail: Tail) {
    let record = IntMetadata { device: Some(DEVICE), arrival: Some(NOW), ..IntMetadata::default() };
    for visit in [Visit::Passing, Visit::Function(DetectionResult::read(SAMPLE))] {
        stepped(bytes, |packet| end_t_int(packet, &record, visit, tail).is_ok());
    }
    stepped(bytes, |packet| end_t_int_return(packet, DEVICE, NOW, tail).is_ok());
    stepped(bytes, |packet| end_dt_int(packet, &record, tail).is_ok());
    let Ok(view) = IntView::parse(bytes, tail) else { return };
    for hop in view.hops() {
        if let Hop::Recorded(record) = hop {
            assert_eq!(IntMetadata::read(&record.bytes()), Ok(record));
        }
    }
}

/// Takes a step, after which only the header, the destination and the hop limit may be others.
fn stepped(bytes: &[u8], step: impl FnOnce(&mut [u8]) -> bool) {
    const DESTINATION: usize = 24;
    let mut packet = bytes.to_vec();
    if !step(&mut packet) {
        return assert_eq!(packet, bytes, "what is refused is left as it was");
    }
    let end = ipv6::HEADER_BYTES
        + Srv6View::parse(bytes).map_or(bytes.len(), |view| view.routing().len_bytes());
    let is_written = |at: usize| at == ipv6::HOP_LIMIT_OFFSET || (DESTINATION..end).contains(&at);
    let mut changed = packet.iter().zip(bytes).enumerate().filter(|(_, (now, then))| now != then);
    assert!(changed.all(|(at, _)| is_written(at)), "a step writes inside of the header");
}
