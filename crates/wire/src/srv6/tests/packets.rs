//! Packets: what endpoints do to their bytes, and what they leave alone.

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use std::string::ToString;

use super::*;
use crate::ipv4::Ipv4View;
use crate::scalar::FlowLabel;

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 1, 0, 0, 0, 0, 1);

fn key() -> HmacKey {
    HmacKey::new(&core::array::from_fn::<u8, 32, _>(|index| index as u8)).unwrap()
}

fn encapsulation(way: &[Ipv6Addr]) -> Encaps<'_> {
    Encaps {
        source: SOURCE,
        way,
        traffic_class: 0,
        flow_label: FlowLabel::new(0x1_2345).unwrap(),
        hop_limit: Encaps::HOP_LIMIT,
        inner: Inner::Ipv4,
        is_reduced: false,
        flags: SegmentFlags::default(),
        tag: 0,
        tlvs: &[],
        key_id: None,
    }
}

/// A packet of these headers, with this inside.
fn packet(encapsulation: &Encaps<'_>, inside: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xa5; encapsulation.len_bytes()];
    assert_eq!(encapsulation.emit(inside.len(), &mut packet), Ok(packet.len()));
    packet.extend(inside);
    packet
}

/// A packet whose segment routing header is this one.
fn around(header: &[u8], destination: Ipv6Addr) -> Vec<u8> {
    let whole = packet(&encapsulation(&[destination, destination]), b"inside");
    let ip = Ipv6Header::parse(&whole).unwrap().0;
    let payload_length = header.len() as u16 + 6;
    let mut packet = vec![0; 40];
    Ipv6Header { payload_length, ..ip }.emit(&mut packet).unwrap();
    [&packet, header, b"inside"].concat()
}

#[test]
fn a_packet_is_encapsulated_walked_and_comes_out_again() {
    let way = way();
    let mut bytes = packet(&encapsulation(&way), b"inside");
    assert_eq!(bytes.len(), 40 + 8 + 16 * 3 + 6);
    assert_eq!(bytes[40..96], golden!("plain"));
    for (left, segment) in [(1, way[1]), (0, way[2])] {
        assert_eq!(decapsulation(&bytes), Err(Srv6Error::SegmentsRemain(left + 1)));
        assert_eq!(Srv6View::parse(&bytes).unwrap().next_segment(), Some(segment));
        assert_eq!(end(&mut bytes), Ok(segment));
        let view = Srv6View::parse(&bytes).unwrap();
        assert_eq!(view.header().destination, segment);
        assert_eq!(view.header().hop_limit, 62 + left);
        assert_eq!(view.routing().segments_left(), left);
    }
    assert_eq!(end(&mut bytes), Err(Srv6Error::LastSegment));
    let inside = decapsulation(&bytes).unwrap();
    assert_eq!(inside.inner, Inner::Ipv4);
    assert_eq!(bytes[inside.range], *b"inside");
}

#[test]
fn a_reduced_packet_leaves_out_what_its_destination_says() {
    let way = way();
    let is_reduced = true;
    let bytes = packet(&Encaps { is_reduced, ..encapsulation(&way) }, b"inside");
    assert_eq!(bytes.len(), 40 + 8 + 16 * 2 + 6);
    let mut walked = bytes.clone();
    assert_eq!(end(&mut walked), Ok(way[1]));
    assert_eq!(end(&mut walked), Ok(way[2]));
    assert_eq!(walked[decapsulation(&walked).unwrap().range], *b"inside");

    let one = Encaps { is_reduced, inner: Inner::Ethernet, ..encapsulation(&way[..1]) };
    let bytes = packet(&one, b"inside");
    assert_eq!(bytes.len(), 40 + 6, "one segment needs no header");
    let inside = Decapsulation { inner: Inner::Ethernet, range: 40..46 };
    assert_eq!(decapsulation(&bytes), Ok(inside));
    let bytes = packet(&Encaps { tag: 1, ..one }, b"inside");
    assert_eq!(Srv6View::parse(&bytes).unwrap().routing().tag(), 1, "unless it says more");
    let signed = Encaps { key_id: Some(7), is_reduced, ..encapsulation(&way) };
    let mut bytes = packet(&signed, b"inside");
    sign(&mut bytes, &key()).unwrap();
    let view = Srv6View::parse(&bytes).unwrap();
    assert!(view.routing().hmac().unwrap().is_reduced);
    assert_eq!(verify(&view, &key()), Ok(()));
}

#[test]
fn a_header_that_is_done_with_comes_off() {
    let way = way();
    let mut bytes = packet(&encapsulation(&way), b"inside");
    let before = bytes.clone();
    assert_eq!(pop(&mut bytes), Err(Srv6Error::SegmentsRemain(2)));
    assert_eq!(bytes, before);
    end(&mut bytes).unwrap();
    end(&mut bytes).unwrap();
    assert_eq!(pop(&mut bytes), Ok(56));
    let packet = &bytes[56..];
    let (header, payload) = Ipv6Header::parse(packet).unwrap();
    assert_eq!((header.next_header, header.destination), (IpProtocol::IPV4, way[2]));
    assert_eq!((payload, header.hop_limit), (&b"inside"[..], 62));
    assert_eq!(decapsulation(packet).unwrap().range, 40..46);
}

#[test]
fn a_packet_without_hops_stays_where_it_is() {
    for (hop_limit, expected) in [(0, None), (1, None), (2, Some(1)), (255, Some(254))] {
        let way = way();
        let mut bytes = packet(&Encaps { hop_limit, ..encapsulation(&way) }, b"");
        let before = bytes.clone();
        let stepped = end(&mut bytes);
        assert_eq!(stepped, expected.map_or(Err(Srv6Error::HopLimit), |_| Ok(way[1])));
        match expected {
            Some(left) => assert_eq!(bytes[ipv6::HOP_LIMIT_OFFSET], left),
            None => assert_eq!(bytes, before),
        }
    }
}

#[test]
fn what_is_no_packet_of_segment_routing_is_refused_by_name() {
    let way = way();
    let bytes = packet(&encapsulation(&way), b"");
    let changed = |at: usize, octet: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = octet;
        Srv6View::parse(&bytes).map(|_| ())
    };
    assert!(matches!(changed(0, 0x45), Err(Srv6Error::Ip(_))));
    assert!(matches!(changed(4, 1), Err(Srv6Error::Ip(_))));
    assert_eq!(changed(6, 17), Err(Srv6Error::NextHeader(IpProtocol::UDP)));
    assert_eq!(changed(5, 55), Err(Srv6Error::Truncated { need: 56, have: 55 }));
    let mut other = bytes.clone();
    other[40] = 17;
    other[SEGMENTS_LEFT_OFFSET] = 0;
    let error = Srv6Error::Inner { protocol: IpProtocol::UDP, offset: 96 };
    assert_eq!(decapsulation(&other), Err(error));
    let too_long = encapsulation(&way).emit(65_535 - 55, &mut [0; 96]);
    assert_eq!(too_long, Err(Srv6Error::TooLong { bytes: 65_536, most: 65_535 }));
    assert_eq!(encapsulation(&[]).emit(0, &mut [0; 96]), Err(Srv6Error::NoSegments));
    let none = encapsulation(&way).emit(0, &mut [0; 95]);
    assert_eq!(none, Err(Srv6Error::Truncated { need: 96, have: 95 }));
}

#[test]
fn senders_are_told_of_the_field_that_is_wrong() {
    let way = way();
    let told = |changed: &[(usize, u8)]| {
        let mut bytes = packet(&encapsulation(&way), b"");
        changed.iter().for_each(|(at, octet)| bytes[*at] = *octet);
        let error = end(&mut bytes).err().or(decapsulation(&bytes).err());
        error.unwrap().parameter_problem()
    };
    assert_eq!(told(&[(42, 3)]), Some((0, 42)), "the routing type");
    assert_eq!(told(&[(43, 4)]), Some((0, 43)), "segments left behind the list");
    assert_eq!(told(&[(44, 3)]), Some((0, 43)), "a list behind the header");
    assert_eq!(told(&[]), Some((0, 43)), "segments left where there should be none");
    assert_eq!(told(&[(7, 1)]), None, "the hop limit is another message");
    let mut last = packet(&encapsulation(&way), b"");
    (last[40], last[43]) = (17, 0);
    assert_eq!(decapsulation(&last).unwrap_err().parameter_problem(), Some((4, 96)));
}

#[test]
fn reference_headers_have_the_reference_digests() {
    for (golden, active) in [(golden!("hmac_ingress"), 2), (golden!("hmac_resigned"), 3)] {
        let signed = around(&golden, segment(active));
        assert_eq!(verify(&Srv6View::parse(&signed).unwrap(), &key()), Ok(()));
        let mut bytes = signed.clone();
        let digest = 40 + golden.len() - HmacTlv::DIGEST_BYTES;
        bytes[digest..digest + HmacTlv::DIGEST_BYTES].fill(0xa5);
        sign(&mut bytes, &key()).unwrap();
        assert_eq!(bytes, signed);
    }
}

#[test]
fn an_hmac_covers_what_rfc_8754_says_and_nothing_else() {
    let golden = golden!("hmac_ingress");
    let signed = around(&golden, segment(2));
    // Segments Left is held against the destination, and a length against the rest.
    let uncovered = [0..8, 8..8, 40..41, 46..48, 96..104, 106..108, 144..150];
    each_bit_flip(&signed, |damaged| {
        let Ok(view) = Srv6View::parse(damaged) else { return };
        let at = signed.iter().zip(damaged).position(|(one, other)| one != other).unwrap();
        let is_uncovered = uncovered.iter().any(|range| range.contains(&at));
        assert_eq!(verify(&view, &key()).is_ok(), is_uncovered, "byte {at}");
    });
    let view = Srv6View::parse(&signed).unwrap();
    let other = HmacKey::new(b"another").unwrap();
    assert_eq!(verify(&view, &other), Err(Srv6Error::Hmac));
    let elsewhere = around(&golden, segment(3));
    assert_eq!(verify(&Srv6View::parse(&elsewhere).unwrap(), &key()), Err(Srv6Error::Destination));
    let mut plain = around(&golden!("plain"), segment(2));
    assert_eq!(verify(&Srv6View::parse(&plain).unwrap(), &key()), Err(Srv6Error::NoHmac));
    assert_eq!(sign(&mut plain, &key()), Err(Srv6Error::NoHmac));
    let way = way();
    let hmac = Some(HmacTlv { is_reduced: false, key_id: 1, digest: &[0; 16] });
    let short = emitted(&SegmentRoutingHeader { hmac, ..super::plain(&way) });
    let short = around(&short, segment(2));
    let error = Srv6Error::HmacLength { bytes: 16 };
    assert_eq!(verify(&Srv6View::parse(&short).unwrap(), &key()), Err(error));
}

#[test]
fn containers_are_visited_identifier_by_identifier() {
    let block = [0xfc, 0, 0, 1];
    let csids = [0x11, 0x22, 0x33, 0x44, 0x55, 0xffff];
    for count in 1..=CSIDS_MAX {
        let full = segment(4);
        let way = [container(block, &csids[..count]).unwrap(), full];
        let mut bytes = packet(&encapsulation(&way), b"inside");
        for rest in 1..count {
            let next = container(block, &csids[rest..count]).unwrap();
            let behind = bytes[40..].to_vec();
            assert_eq!(next_csid(&mut bytes), Ok(next));
            assert_eq!(bytes[40..], behind, "the header stays as it is");
            assert_eq!(bytes[ipv6::HOP_LIMIT_OFFSET], 64 - rest as u8);
        }
        assert_eq!(next_csid(&mut bytes), Ok(full), "the last one is as an ordinary end");
    }
    let way = [container(block, &csids).unwrap()];
    assert_eq!(way[0].to_string(), "fc00:1:11:22:33:44:55:ffff");
    let reduced = Encaps { is_reduced: true, hop_limit: 1, ..encapsulation(&way) };
    let mut bytes = packet(&reduced, b"");
    assert_eq!(next_csid(&mut bytes), Err(Srv6Error::HopLimit));
    ipv6::set_hop_limit(&mut bytes, 9).unwrap();
    for rest in 1..6 {
        assert_eq!(next_csid(&mut bytes), container(block, &csids[rest..]));
    }
    assert_eq!(next_csid(&mut bytes), Err(Srv6Error::NextHeader(IpProtocol::IPV4)));
}

#[test]
fn what_no_container_holds_is_refused() {
    let block = [0xfc, 0, 0, 1];
    assert_eq!(container(block, &[]), Err(Srv6Error::NoSegments));
    let error = Srv6Error::TooManySegments { segments: 7, most: 6 };
    assert_eq!(container(block, &[1; 7]), Err(error));
    assert_eq!(container(block, &[1, 0, 2]), Err(Srv6Error::ZeroCsid));
}

#[test]
fn ecn_is_combined_as_rfc_6040_says() {
    // Section 4.2, figure 4: not capable, ECT(1), ECT(0), congestion experienced.
    let expected = [
        [Some(0), Some(0), Some(0), None],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(2), Some(1), Some(2), Some(3)],
        [Some(3), Some(3), Some(3), Some(3)],
    ];
    for (inner, row) in (0..).zip(expected) {
        for (outer, expected) in (0..).zip(row) {
            assert_eq!(combined_ecn(inner, outer), expected, "{inner} {outer}");
            assert_eq!(inherited(Inner::Ipv4, inner, outer), expected.ok_or(Srv6Error::Congestion));
            assert_eq!(inherited(Inner::Ipv6, inner, outer), expected.ok_or(Srv6Error::Congestion));
            assert_eq!(inherited(Inner::Ethernet, inner, outer), Ok(inner), "a frame has none");
        }
    }
}

/// ECN of a packet with DSCP 46 inside that comes out, its header checked.
fn inherited(inner: Inner, ecn: u8, outer: u8) -> Result<u8, Srv6Error> {
    let is_v6 = inner == Inner::Ipv6;
    let mut inside = if is_v6 {
        packet(&encapsulation(&[segment(9)]), b"data")
    } else {
        hex("4500001c123400003f110000c000020ac6336414 9c40138900080000")
    };
    let of = 46 << 2 | ecn;
    if is_v6 {
        ipv6::set_traffic_class(&mut inside, of).unwrap();
    } else {
        inside[1] = of;
        crate::ipv4::refresh_checksum(&mut inside).unwrap();
    }
    let way = [segment(2)];
    let around = Encaps { inner, traffic_class: outer, ..encapsulation(&way) };
    let mut bytes = packet(&around, &inside);
    let decapsulated = decapsulation(&bytes).unwrap();
    let before = bytes.clone();
    if let Err(error) = decapsulated.inherit_ecn(&mut bytes) {
        assert_eq!(bytes, before);
        return Err(error);
    }
    let out = &bytes[decapsulated.range];
    let traffic_class = if is_v6 {
        Ipv6Header::parse(out).unwrap().0.traffic_class
    } else {
        let view = Ipv4View::parse(out).unwrap();
        assert!(view.is_checksum_correct());
        view.traffic_class()
    };
    assert_eq!(traffic_class >> 2, 46);
    Ok(traffic_class & 3)
}

#[test]
fn what_is_inside_must_be_what_its_header_says() {
    let way = [segment(2)];
    for (inner, inside) in
        [(Inner::Ipv4, &[0x60, 0][..]), (Inner::Ipv6, &[0x45; 40]), (Inner::Ipv4, &[])]
    {
        let mut bytes = packet(&Encaps { inner, ..encapsulation(&way) }, inside);
        let inside = decapsulation(&bytes).unwrap();
        assert_eq!(inside.inherit_ecn(&mut bytes), Err(Srv6Error::InnerVersion));
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(bytes in any_vec(any::<u8>(), 0..200)) {
        let header = [&[4, 4], &bytes[..]].concat();
        let _ = SegmentRoutingView::parse(&header).map(|(view, _)| view.tlvs().count());
        let mut packet = around(&bytes, segment(2));
        for step in [end, next_csid] {
            let before = packet.clone();
            match step(&mut packet) {
                // Hop limit, destination and Segments Left alone.
                Ok(_) => prop_assert!(
                    packet[44..] == before[44..] && packet[40..43] == before[40..43]
                        && packet[..7] == before[..7] && packet[8..24] == before[8..24]
                ),
                Err(_) => prop_assert_eq!(&packet, &before),
            }
        }
        let _ = decapsulation(&packet).map(|inside| inside.inherit_ecn(&mut packet));
        let before = packet.clone();
        match pop(&mut packet) {
            Ok(removed) => prop_assert_eq!(&packet[removed + 40..], &before[removed + 40..]),
            Err(_) => prop_assert_eq!(&packet, &before),
        }
    }

    #[test]
    fn whatever_is_written_is_read(
        way in any_vec(any::<u128>().prop_map(Ipv6Addr::from), 1..=SEGMENTS_MAX),
        values in any_vec((6..=255_u8, any_vec(any::<u8>(), 0..=20)), 0..3),
        left in any::<u8>(),
        words in any::<(u8, u8, u16)>(),
        hmac in proptest::option::of(any::<(bool, u32)>()),
    ) {
        let (next, flags, tag) = (IpProtocol(words.0), SegmentFlags(words.1), words.2);
        let tlvs: Vec<Tlv<'_>> =
            values.iter().map(|(kind, value)| Tlv { kind: TlvType(*kind), value }).collect();
        let hmac = hmac.map(|(is_reduced, key_id)| HmacTlv::unsigned(key_id, is_reduced));
        let segments_left = left % (way.len() as u8 + 1);
        let header = SegmentRoutingHeader {
            next, segments_left, flags, tag, way: &way, tlvs: &tlvs, hmac,
        };
        prop_assume!(header.len_bytes() <= LEN_MAX);
        let bytes = emitted(&header);
        assert_means(&SegmentRoutingView::parse(&bytes).unwrap().0, &header);
    }
}

#[test]
fn what_is_carried_is_read_in_passing_and_replaced_without_a_trace() {
    let way = way();
    for (inner, other) in [
        (Inner::Ipv4, IpProtocol::IPV6),
        (Inner::Ipv6, IpProtocol::ETHERNET),
        (Inner::Ethernet, IpProtocol::IPV4),
    ] {
        let good = packet(&Encaps { inner, ..encapsulation(&way) }, &[7; 20]);
        assert_eq!(carried_protocol(&good), Some(inner.protocol()));
        let mut changed = good.clone();
        set_carried_protocol(&mut changed, other).unwrap();
        assert_eq!(carried_protocol(&changed), Some(other));
        set_carried_protocol(&mut changed, inner.protocol()).unwrap();
        assert_eq!(changed, good);
        // Of a packet without a routing header it is what follows the first.
        let bare =
            packet(&Encaps { inner, is_reduced: true, ..encapsulation(&way[..1]) }, &[7; 20]);
        assert_eq!(carried_protocol(&bare), Some(inner.protocol()));
        let mut changed = bare.clone();
        set_carried_protocol(&mut changed, other).unwrap();
        assert_eq!(Ipv6Header::parse(&changed).unwrap().0.next_header, other);
        set_carried_protocol(&mut changed, inner.protocol()).unwrap();
        assert_eq!(changed, bare);
        assert_eq!(last_segment(&bare), Some(way[0]));
        let reduced = packet(&Encaps { is_reduced: true, ..encapsulation(&way) }, &[7; 20]);
        assert_eq!([&good, &reduced].map(|packet| last_segment(packet)), [Some(way[2]); 2]);
    }
    let good = packet(&encapsulation(&way), &[]);
    for cut in 0..=ipv6::HEADER_BYTES {
        assert_eq!(carried_protocol(&good[..cut]), None, "{cut}");
        assert_eq!(last_segment(&good[..cut + 23]), None, "{cut}");
        let refused = set_carried_protocol(&mut good[..cut].to_vec(), IpProtocol::IPV6);
        assert!(matches!(refused, Err(Srv6Error::Truncated { .. })), "{cut}");
    }
}
