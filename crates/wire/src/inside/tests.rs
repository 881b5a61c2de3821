//! Whole frames with tunnels in them, and damage of every kind.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::scalar::Vni;
use proptest::prelude::*;
use std::vec::Vec;

const LAYERS_MAX: u8 = 8;

macro_rules! goldens {
    ($($name:ident)*) => {
        $(fn $name() -> Vec<u8> {
            hex(include_str!(concat!("../../../../conformance/inside/", stringify!($name), ".hex")))
        })*

        fn all() -> Vec<Vec<u8>> {
            std::vec![$($name()),*]
        }
    };
}

goldens! {
    geneve
    gre_key_sequence
    gtp_u
    gtp_u_in_vxlan
    nsh_in_vxlan_gpe
    nvgre
    stt
    vlan_stack_gtp_u_in_vxlan_over_ipv6
    vxlan_eight_deep
}

fn look(bytes: &[u8], layers_max: u8) -> Result<Option<Inside>, InsideError> {
    Inside::parse(bytes, &FrameView::parse(bytes).unwrap(), layers_max)
}

/// What is read in one go is what the walk over all headers finds. Was it?
fn agree(bytes: &[u8], layers_max: u8) -> bool {
    let Ok(frame) = FrameView::parse(bytes) else { return false };
    let plain = PlainFrame::parse(bytes);
    if let Some(found) = plain.and_then(|plain| Inside::parse_plain(bytes, &plain, layers_max)) {
        assert_eq!(look(bytes, layers_max), Ok(Some(found)));
    }
    let is_whole = frame.fragment == Fragment::Whole;
    let Some((header, upper)) = begin(bytes, &frame).filter(|_| is_whole) else { return false };
    agree_behind(header, upper, layers_max)
}

fn agree_behind(header: TunnelHeader, upper: &[u8], layers_max: u8) -> bool {
    let Some(found) = plain::read(header, upper, layers_max) else { return false };
    let walk = Walk { inside: Inside::NOTHING, layers_max, is_cut: false };
    assert_eq!(walk.follow(header, upper), Ok(found));
    true
}

fn flow(source: &str, destination: &str, protocol: IpProtocol) -> Option<FlowKey> {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    let (source_port, destination_port) = (40_000, 443);
    Some(FlowKey { source, destination, protocol, source_port, destination_port })
}

fn user() -> Option<FlowKey> {
    flow("10.60.0.1", "198.51.100.7", IpProtocol::UDP)
}

fn found(layers: u8, vni: Option<u32>, teid: Option<u32>, qfi: Option<u32>) -> Inside {
    Inside {
        layers,
        tunnel_id: vni.map(|vni| TunnelId::Vni(Vni::new(vni).unwrap())),
        teid: teid.map(Teid),
        qfi: qfi.map(|qfi| Qfi::new(qfi).unwrap()),
        flow: user(),
        is_fragment: false,
    }
}

fn named(id: TunnelId) -> Inside {
    Inside { tunnel_id: Some(id), ..found(1, None, None, None) }
}

#[test]
fn the_goldens_hold_what_was_put_into_them() {
    let tcp = flow("2001:db8:60::1", "2001:db8:7::7", IpProtocol::TCP);
    let expected = [
        (geneve(), found(1, Some(0x0a_0b0c), None, None)),
        (gre_key_sequence(), named(TunnelId::GreKey(0x1122_3344))),
        (gtp_u(), Inside { flow: tcp, ..found(1, None, Some(7), None) }),
        (gtp_u_in_vxlan(), found(2, Some(0x12_34a5), Some(0x0102_0304), Some(9))),
        (nsh_in_vxlan_gpe(), found(2, Some(0x77_7777), None, None)),
        (nvgre(), named(TunnelId::GreKey(0x1234_5607))),
        (stt(), named(TunnelId::SttContext(0x1122_3344_5566_7788))),
        (vlan_stack_gtp_u_in_vxlan_over_ipv6(), found(2, Some(5), Some(6), Some(63))),
        (vxlan_eight_deep(), found(8, Some(1), None, None)),
    ];
    for (bytes, expected) in expected {
        assert_eq!(look(&bytes, LAYERS_MAX), Ok(Some(expected)));
    }
}

#[test]
fn one_tunnel_more_than_the_limit_is_refused_by_name() {
    for (layers_max, layer) in [(7, 7), (1, 1), (0, 0)] {
        let error = InsideError { layer, fault: InsideFault::TooDeep };
        assert_eq!(look(&vxlan_eight_deep(), layers_max), Err(error));
    }
    let found = look(&gtp_u_in_vxlan(), 2).unwrap().unwrap();
    assert_eq!(found.layers, 2, "the limit itself is allowed");
}

#[test]
fn frames_in_no_tunnel_are_not_looked_into() {
    let plain = [
        include_str!("../../../../conformance/frame/tcp_ipv4_padded.hex"),
        include_str!("../../../../conformance/frame/udp_ipv6_vlan.hex"),
        include_str!("../../../../conformance/frame/arp_request.hex"),
        include_str!("../../../../conformance/frame/last_fragment.hex"),
    ];
    for text in plain {
        assert_eq!(look(&hex(text), 0), Ok(None));
    }
}

#[test]
fn what_a_user_sends_is_the_users_own_affair() {
    // A user's own VXLAN, broken, behind network and user.
    let mut bytes = gtp_u_in_vxlan();
    let at = bytes.len() - b"user data".len();
    bytes[at - 6..at - 4].copy_from_slice(&ports::VXLAN.to_be_bytes());
    let found = look(&bytes, 2).unwrap().unwrap();
    assert_eq!((found.layers, found.flow.unwrap().destination_port), (2, ports::VXLAN));
    // The payload of the tunnel is no IP packet.
    let mut bytes = gtp_u_in_vxlan();
    let at = at - 28;
    bytes[at] = 0x02;
    let found = look(&bytes, 2).unwrap().unwrap();
    assert_eq!((found.teid, found.flow.unwrap().destination_port), (Some(Teid(0x0102_0304)), 2152));
    // It looks like one, but is none.
    bytes[at] = 0x4f;
    assert_eq!(look(&bytes, 2).unwrap(), Some(found));
}

#[test]
fn the_first_fragment_of_a_tunnel_is_followed_as_far_as_it_goes() {
    let whole = gtp_u();
    let mut first = whole[..14 + 20 + 8 + 8 + 48].to_vec();
    let length = u16::try_from(first.len() - 14).unwrap();
    first[16..18].copy_from_slice(&length.to_be_bytes());
    first[20] |= 0x20;
    let found = look(&first, LAYERS_MAX).unwrap().unwrap();
    assert_eq!(Some(found), look(&whole, LAYERS_MAX).unwrap());
    first[20..22].copy_from_slice(&[0x00, 0x10]);
    assert_eq!(look(&first, LAYERS_MAX), Ok(None), "a later fragment has no tunnel header");
}

#[test]
fn an_identity_differs_in_each_of_its_parts() {
    let base = found(2, Some(1), Some(2), Some(3));
    let others = [
        found(2, None, Some(2), Some(3)),
        found(2, Some(0), Some(2), Some(3)),
        found(2, Some(1), None, Some(3)),
        found(2, Some(1), Some(0), Some(3)),
        found(2, Some(1), Some(2), None),
        found(2, Some(1), Some(2), Some(0)),
        found(2, Some(2), Some(1), Some(3)),
        Inside { tunnel_id: Some(TunnelId::GreKey(1)), ..base },
        Inside { tunnel_id: Some(TunnelId::SttContext(1)), ..base },
        Inside { tunnel_id: Some(TunnelId::SttContext(1 << 63 | 1)), ..base },
        Inside { flow: None, ..base },
        Inside { flow: base.flow.map(|flow| flow.reversed()), ..base },
    ];
    let hashes: std::collections::BTreeSet<u64> =
        others.iter().chain([&base]).map(|inside| inside.identity_hash(7)).collect();
    assert_eq!(hashes.len(), others.len() + 1);
    assert!(!hashes.contains(&base.identity_hash(8)));
    assert_eq!(base.identity_hash(7), Inside { layers: 5, ..base }.identity_hash(7));
}

#[test]
fn damaged_goldens_end_in_an_answer() {
    for golden in all() {
        let see = |bytes: &[u8]| {
            let Ok(frame) = FrameView::parse(bytes) else { return };
            if let Err(error) = Inside::parse(bytes, &frame, LAYERS_MAX) {
                assert!(!std::format!("{error}").is_empty());
            }
        };
        each_truncation(&golden, see);
        each_bit_flip(&golden, see);
    }
}

#[test]
fn what_is_read_in_one_go_is_what_the_walk_finds() {
    let plain =
        [geneve(), gre_key_sequence(), gtp_u_in_vxlan(), nvgre(), stt(), vxlan_eight_deep()];
    for golden in plain {
        assert!(agree(&golden, LAYERS_MAX));
        let frame = FrameView::parse(&golden).unwrap();
        let whole = PlainFrame::parse(&golden);
        let found = whole.and_then(|whole| Inside::parse_plain(&golden, &whole, LAYERS_MAX));
        assert_eq!(found.is_some(), whole.is_some(), "a plain frame whose tunnels are plain too");
        let (header, upper) = begin(&golden, &frame).unwrap();
        assert!(agree_behind(header, upper, LAYERS_MAX));
        each_truncation(upper, |bytes| {
            assert!(!agree_behind(header, bytes, LAYERS_MAX), "what is cut short is not plain");
        });
        let mut read = 0;
        each_bit_flip(&golden, |bytes| read += usize::from(agree(bytes, LAYERS_MAX)));
        assert!(read > golden.len(), "{read} were plain");
        for layers_max in 0..LAYERS_MAX {
            agree(&golden, layers_max);
        }
    }
    let others = [gtp_u(), nsh_in_vxlan_gpe(), vlan_stack_gtp_u_in_vxlan_over_ipv6()];
    assert!(others.iter().all(|golden| !agree(golden, LAYERS_MAX)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    /// Goldens with some bytes overwritten, cut or made longer: no panic, never too many layers.
    #[test]
    fn any_damage_ends_in_an_answer(
        golden in 0..all().len(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8),
        length in any::<u16>(),
        layers_max in 0..=LAYERS_MAX,
    ) {
        let mut bytes = all().swap_remove(golden);
        for (place, value) in changes {
            let place = usize::from(place) % bytes.len();
            bytes[place] = value;
        }
        bytes.resize(bytes.len() - bytes.len() / 4 + usize::from(length) % bytes.len(), 0x45);
        if let Ok(frame) = FrameView::parse(&bytes)
            && let Ok(Some(found)) = Inside::parse(&bytes, &frame, layers_max)
        {
            prop_assert!((1..=layers_max).contains(&found.layers));
        }
        agree(&bytes, layers_max);
    }
}
