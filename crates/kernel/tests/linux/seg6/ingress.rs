//! What Linux puts in front of packets and frames, read by ours and written again.

use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::srv6::{self, Encaps, Inner, SegmentFlags};

use super::draw::Draw;
use super::{ETHERNET_BYTES, SOURCE, Testbed, emitted, from_router, to_router};
use crate::needs_privilege;

/// Ways of each mode, and packets of each.
const WAYS: u16 = 10;
const PACKETS: usize = 12;

/// A way that the router knows, and which packets it takes.
struct Known {
    way: Vec<Ipv6Addr>,
    is_reduced: bool,
    is_layer_2: bool,
    to: (Ipv4Addr, [u16; 3]),
}

fn known(draw: &mut Draw) -> Vec<Known> {
    let modes = [(false, false), (true, false), (false, true), (true, true)];
    let mut all = Vec::new();
    for (number, (is_reduced, is_layer_2)) in (1..).zip(modes) {
        for index in 0..WAYS {
            let segments = draw.0.usize(1..=8);
            let way = (0..segments).map(|_| draw.below([0x5f00, 0, 9])).collect();
            let v4 = Ipv4Addr::new(10, number, index as u8, 0);
            all.push(Known {
                way,
                is_reduced,
                is_layer_2,
                to: (v4, [0x2001, number.into(), index]),
            });
        }
    }
    all
}

/// The routes of a way, for both versions of IP.
fn routes(known: &Known) -> [String; 2] {
    let mode = match (known.is_layer_2, known.is_reduced) {
        (false, false) => "encap",
        (false, true) => "encap.red",
        (true, false) => "l2encap",
        (true, true) => "l2encap.red",
    };
    let segments: Vec<String> = known.way.iter().map(Ipv6Addr::to_string).collect();
    let (v4, [a, b, c]) = known.to;
    let v6 = Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0);
    let segments = segments.join(",");
    let route = |version: u8, prefix: String| {
        format!("-{version} route add {prefix} encap seg6 mode {mode} segs {segments} dev to-r")
    };
    [route(4, format!("{v4}/24")), route(6, format!("{v6}/48"))]
}

/// What is inside is as it was: Linux takes the hop from the header in front alone, where RFC 8986 section 5.1 takes
/// one inside too. The class is that of IPv6; packets of IPv4 begin with none.
#[tokio::test]
async fn what_linux_puts_in_front_is_what_we_put_in_front() {
    needs_privilege!("what_linux_puts_in_front_is_what_we_put_in_front");
    let mut draw = Draw::new(11);
    let all = known(&mut draw);
    let routes: Vec<String> = all.iter().flat_map(routes).collect();
    let mut testbed = Testbed::new(&routes).await;
    for known in &all {
        for version in [Inner::Ipv4, Inner::Ipv6].repeat(PACKETS / 2) {
            let packet = draw.inside(version, known.to);
            let frame = testbed.answer(&packet).expect("the router sends it on");
            let (header, _) = Ipv6Header::parse(&frame[ETHERNET_BYTES..]).unwrap();
            let (inner, inside) = match known.is_layer_2 {
                true => (Inner::Ethernet, to_router(&packet)),
                false => (version, packet.clone()),
            };
            let (traffic_class, hop_limit) = match version {
                Inner::Ipv6 => (packet[0] << 4 | packet[1] >> 4, packet[7]),
                _ => (0, Encaps::HOP_LIMIT),
            };
            let encapsulation = Encaps {
                source: SOURCE,
                way: &known.way,
                traffic_class,
                flow_label: header.flow_label,
                hop_limit: hop_limit - 1,
                inner,
                is_reduced: known.is_reduced,
                flags: SegmentFlags::default(),
                tag: 0,
                tlvs: &[],
                key_id: None,
            };
            let ours = emitted(|into| encapsulation.emit(inside.len(), into));
            let ours = from_router(&[&ours, &inside[..]].concat());
            assert_eq!(frame, ours, "{inner:?} by {:?}", known.way);
            assert_eq!(at_the_end(&frame, &known.way), (inner, inside));
        }
    }
}

/// What comes out of a frame's packet once it has gone the whole way.
fn at_the_end(frame: &[u8], way: &[Ipv6Addr]) -> (Inner, Vec<u8>) {
    let mut packet = frame[ETHERNET_BYTES..].to_vec();
    // A packet of few hops goes far here.
    ipv6::set_hop_limit(&mut packet, u8::MAX).unwrap();
    for next in &way[1..] {
        assert_eq!(srv6::end(&mut packet), Ok(*next));
    }
    let out = srv6::decapsulation(&packet).unwrap();
    (out.inner, packet[out.range].to_vec())
}
