//! Endpoints of Linux and ours, on the same packets: both drop one, or both send the same bytes on.

use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::scalar::IpProtocol;
use catena_wire::srv6::{
    self, HmacKey, Inner, SegmentFlags, SegmentRoutingView, Srv6Error, Srv6View, container,
    decapsulation, next_csid,
};
use catena_wire::{ipv4, ipv6};

use super::draw::Draw;
use super::{KEY_ID, SECRET, Testbed, from_router, keys};
use crate::needs_privilege;

/// Packets of each behaviour that are sent on.
const ENOUGH: usize = 100;
/// Segments that every router knows the way to, and such that only a link or table leads to.
const ORDINARY: [u16; 3] = [0x5f00, 0, 9];
const BY_BEHAVIOUR: [u16; 3] = [0x5f0e, 0, 9];
/// Where packets inside go, which only a link or table leads to as well.
const INSIDE: (Ipv4Addr, [u16; 3]) = (Ipv4Addr::new(10, 2, 0, 0), [0x2001, 0xdb8, 0xb]);

/// A router that has one behaviour, at this prefix.
async fn router_with(prefix: &str, behaviour: &str) -> Testbed {
    let testbed = Testbed::new(&[
        "-6 route add blackhole 5f0e::/16".to_owned(),
        "-6 route add blackhole 2001:db8:b::/48".to_owned(),
        "-4 route add blackhole 10.2.0.0/16".to_owned(),
        format!("-6 route add {prefix} encap seg6local action {behaviour} dev to-r"),
    ])
    .await;
    keys::set(&testbed.router.namespace, KEY_ID, &SECRET);
    testbed
}

/// What Linux looks for in front of any behaviour: where a flag says so, the last TLV is a digest, and that of a key.
fn admitted(packet: &[u8]) -> Result<(), Srv6Error> {
    let view = Srv6View::parse(packet)?;
    if !view.routing().flags().contains(SegmentFlags::HMAC) || view.routing().hmac().is_none() {
        return Ok(());
    }
    srv6::verify(&view, &HmacKey::new(&SECRET).unwrap())
}

fn stepped(packet: &[u8]) -> Result<Vec<u8>, Srv6Error> {
    admitted(packet)?;
    let mut packet = packet.to_vec();
    srv6::end(&mut packet)?;
    Ok(from_router(&packet))
}

/// What comes out of a packet, as the router sends it on.
fn taken_out(packet: &[u8], wanted: Inner) -> Result<Vec<u8>, Srv6Error> {
    if Srv6View::parse(packet).is_ok() {
        admitted(packet)?;
    }
    let out = decapsulation(packet)?;
    let mut inside = packet[out.range].to_vec();
    let hops = |at: usize| inside[at] - 1;
    Ok(match out.inner {
        other if other != wanted => return Err(Srv6Error::InnerVersion),
        Inner::Ethernet => inside,
        Inner::Ipv4 => {
            let hops = hops(8);
            ipv4::set_ttl(&mut inside, hops).unwrap();
            from_router(&inside)
        }
        Inner::Ipv6 => {
            let hops = hops(7);
            ipv6::set_hop_limit(&mut inside, hops).unwrap();
            from_router(&inside)
        }
    })
}

/// Draws packets until enough of them have been sent on, and holds what Linux makes of each against ours.
fn compare(
    testbed: &mut Testbed,
    seed: u64,
    mut drawn: impl FnMut(&mut Draw) -> Vec<u8>,
    ours: impl Fn(&[u8]) -> Result<Vec<u8>, Srv6Error>,
) {
    let mut draw = Draw::new(seed);
    let (mut sent_on, mut dropped) = (0, 0);
    while sent_on < ENOUGH {
        let packet = drawn(&mut draw);
        let expected = ours(&packet);
        let answer = testbed.answer(&packet);
        assert_eq!(answer.as_ref(), expected.as_ref().ok(), "{expected:?}, of {packet:02x?}");
        sent_on += usize::from(answer.is_some());
        dropped += usize::from(answer.is_none());
    }
    assert!(dropped > 0, "signatures by another key are among the drawn");
}

/// A packet at a segment, with any of the three inside.
fn through(draw: &mut Draw, active: Ipv6Addr, ahead: [u16; 3]) -> Vec<u8> {
    let inner = draw.0.choice([Inner::Ipv4, Inner::Ipv6, Inner::Ethernet]).unwrap();
    let inside = draw.inside(inner, INSIDE);
    draw.packet(active, 0..=6, ahead, (inner, &inside))
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[tokio::test]
async fn linux_steps_to_the_next_segment_as_we_do() {
    needs_privilege!("linux_steps_to_the_next_segment_as_we_do");
    let active = address("5f00:0:2:e1::");
    let behaviours = [
        ("End", ORDINARY),
        ("End.X nh6 fd00:2::2", BY_BEHAVIOUR),
        ("End.T table 100", BY_BEHAVIOUR),
    ];
    for (seed, (behaviour, ahead)) in (1..).zip(behaviours) {
        let mut testbed = router_with("5f00:0:2:e1::/64", behaviour).await;
        compare(&mut testbed, seed, |draw| through(draw, active, ahead), stepped);
    }
}

/// Is the running kernel at least 6.3?
fn knows_psp() -> bool {
    let system = rustix::system::uname();
    let mut numbers = system.release().to_str().unwrap().split(['.', '-']);
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(6), Some(3))
}

#[tokio::test]
async fn linux_takes_the_header_off_at_the_last_but_one_as_we_do() {
    needs_privilege!("linux_takes_the_header_off_at_the_last_but_one_as_we_do");
    if !knows_psp() {
        const TEST: &str = "linux_takes_the_header_off_at_the_last_but_one_as_we_do";
        println!("SKIPPED: {TEST}: Linux has no PSP before 6.3");
        return;
    }
    let active = address("5f00:0:2:ea::");
    let mut testbed = router_with("5f00:0:2:ea::/64", "End flavors psp").await;
    let ours = |packet: &[u8]| {
        admitted(packet)?;
        let mut packet = packet.to_vec();
        srv6::end(&mut packet)?;
        if Srv6View::parse(&packet)?.routing().segments_left() == 0 {
            let bytes = srv6::pop(&mut packet)?;
            packet.drain(..bytes);
        }
        Ok(from_router(&packet))
    };
    compare(&mut testbed, 4, |draw| through(draw, active, ORDINARY), ours);
}

#[tokio::test]
async fn linux_moves_to_the_next_of_compressed_identifiers_as_we_do() {
    needs_privilege!("linux_moves_to_the_next_of_compressed_identifiers_as_we_do");
    let behaviour = "End flavors next-csid lblen 32 nflen 16";
    let mut testbed = router_with("fc00:1:11::/48", behaviour).await;
    let drawn = |draw: &mut Draw| {
        let mut csids = vec![0x11];
        csids.extend((0..draw.0.usize(..6)).map(|_| draw.0.u16(0x1000..)));
        let active = container([0xfc, 0, 0, 1], &csids).unwrap();
        if draw.0.bool() {
            return through(draw, active, ORDINARY);
        }
        let inside = draw.inside(Inner::Ipv4, INSIDE);
        draw.in_front(active, IpProtocol::IPV4, &inside)
    };
    let ours = |packet: &[u8]| {
        let mut stepped = packet.to_vec();
        next_csid(&mut stepped)?;
        // Identifiers of one segment are gone through without a look at the header.
        if Srv6View::parse(&stepped).is_ok_and(|view| view.routing().segments_left() != packet[43])
        {
            admitted(packet)?;
        }
        Ok(from_router(&stepped))
    };
    compare(&mut testbed, 5, drawn, ours);
}

#[tokio::test]
async fn linux_takes_out_what_we_put_in() {
    needs_privilege!("linux_takes_out_what_we_put_in");
    let active = address("5f00:0:4:d6::");
    let behaviours = [
        ("End.DX4 nh4 10.8.0.1", Inner::Ipv4),
        ("End.DX6 nh6 fd00:2::2", Inner::Ipv6),
        ("End.DT6 table 100", Inner::Ipv6),
        ("End.DX2 oif to-r", Inner::Ethernet),
    ];
    for (seed, (behaviour, inner)) in (6..).zip(behaviours) {
        let mut testbed = router_with("5f00:0:4:d6::/64", behaviour).await;
        let drawn = |draw: &mut Draw| {
            let inside = draw.inside(inner, INSIDE);
            // The single segment of a reduced way needs no header, and a header that is still there no rest.
            match draw.0.u8(..4) {
                0 => draw.in_front(active, inner.protocol(), &inside),
                _ => draw.packet(active, 0..=1, ORDINARY, (inner, &inside)),
            }
        };
        compare(&mut testbed, seed, drawn, |packet| taken_out(packet, inner));
    }
}

/// Both judge every header alike that differs from a drawn one by one bit, but for this:
/// - Linux takes the octet behind a Pad1 for its length, which it has not (RFC 8754 section 2.1.1.1).
/// - It judges the digest of a packet that is at another segment than its list says; section 2.1.2.1 has it dropped.
/// - It sees digests of 32 octets alone, and goes on with those of lengths that none has.
/// - A segment of its own that follows is stepped along at once, with one hop for both.
#[tokio::test]
async fn linux_judges_damaged_headers_as_we_do() {
    needs_privilege!("linux_judges_damaged_headers_as_we_do");
    let active = address("5f00:0:2:e1::");
    let mut testbed = router_with("5f00:0:2:e1::/64", "End").await;
    let mut draw = Draw::new(10);
    let (mut sent_on, mut dropped, mut signed) = (0, 0, 0);
    while signed < 2 || sent_on < 10 * ENOUGH {
        let packet = through(&mut draw, active, ORDINARY);
        let (routing, _) = SegmentRoutingView::parse(&packet[ipv6::HEADER_BYTES..]).unwrap();
        signed += usize::from(routing.hmac().is_some() && stepped(&packet).is_ok());
        for bit in 8 * ipv6::HEADER_BYTES..8 * (ipv6::HEADER_BYTES + routing.len_bytes()) {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            let expected = at_once(&damaged, active);
            let answer = testbed.answer(&damaged);
            sent_on += usize::from(answer.is_some());
            dropped += usize::from(answer.is_none());
            let is_beside =
                matches!(expected, Err(Srv6Error::Destination | Srv6Error::HmacLength { .. }));
            if is_beside || has_pad_1(&damaged) {
                continue;
            }
            let expected = expected.as_ref();
            assert_eq!(answer.as_ref(), expected.ok(), "bit {bit}: {expected:?}, of {packet:02x?}");
        }
    }
    assert!(dropped > ENOUGH);
}

/// What comes of a packet when all segments of its router are gone through at once.
fn at_once(packet: &[u8], own: Ipv6Addr) -> Result<Vec<u8>, Srv6Error> {
    admitted(packet)?;
    let mut stepped = packet.to_vec();
    while srv6::end(&mut stepped)? == own {}
    ipv6::set_hop_limit(&mut stepped, packet[7] - 1).unwrap();
    Ok(from_router(&stepped))
}

/// Is there a Pad1 in the header of a packet, as far as its TLVs can be read?
fn has_pad_1(packet: &[u8]) -> bool {
    let [octets, _, _, last_entry] = packet[41..45].try_into().unwrap();
    let end = 48 + 8 * usize::from(octets);
    let mut rest = packet.get(64 + 16 * usize::from(last_entry)..end).unwrap_or_default();
    while let [1..=255, length, value @ ..] = rest {
        rest = value.get(usize::from(*length)..).unwrap_or_default();
    }
    rest.first() == Some(&0)
}
