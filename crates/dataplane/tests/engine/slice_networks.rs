//! Networks that slices name: by VNI, by the key of GRE, by the context of STT.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{PLAIN_PORT, packet};
use crate::slices::{claims, frame, of, scene, slice, user, users, visited, without_network};
use crate::town::Town;
use catena_model::DropReason;
use catena_model::program::SliceMatch;
use catena_model::resource::Encapsulation;
use catena_wire::gre::GreHeader;
use catena_wire::ports;
use catena_wire::scalar::{EtherType, IpProtocol, TunnelId};
use catena_wire::stt::{SttHeader, SttSegment};

const IP: usize = 14;
const TCP_BYTES: usize = 20;

/// A user's packet without a network of its own.
fn plain_user(town: &Town, teid: u32) -> Vec<u8> {
    frame(town, without_network(user(0, teid)))
}

fn in_gre(town: &Town, key: Option<u32>, frame: &[u8]) -> Vec<u8> {
    let header = GreHeader { protocol: EtherType::IPV4, checksum: None, key, sequence: None };
    let mut payload = vec![0; header.len_bytes()];
    header.emit(&mut payload).unwrap();
    payload.extend(&frame[IP..]);
    Spec { protocol: IpProtocol::GRE, payload, ..packet(town, PLAIN_PORT) }.frame()
}

/// The frame in STT, in segments of at most so many bytes.
fn in_stt(town: &Town, context: u64, frame: &[u8], segment_bytes: usize) -> Vec<Vec<u8>> {
    let header = SttHeader { flags: 0, l4_offset: 0, segment_bytes_max: 0, vlan: 0, context };
    let mut whole = vec![0; catena_wire::stt::HEADER_BYTES];
    header.emit(&mut whole).unwrap();
    whole.extend(frame);
    let frame_bytes = u16::try_from(whole.len()).unwrap();
    let segments = whole.chunks(segment_bytes).enumerate().map(|(number, part)| {
        let offset = u16::try_from(number * segment_bytes).unwrap();
        let mut tcp = vec![0; TCP_BYTES];
        tcp[..2].copy_from_slice(&50_000_u16.to_be_bytes());
        tcp[2..4].copy_from_slice(&ports::STT.to_be_bytes());
        let sequence = SttSegment { frame_bytes, offset }.sequence();
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        tcp[12] = 0x50;
        tcp.extend(part);
        let outer = Spec { protocol: IpProtocol::GRE, payload: tcp, ..packet(town, PLAIN_PORT) };
        let mut bytes = outer.frame();
        bytes[IP + 9] = IpProtocol::TCP.0;
        catena_wire::ipv4::refresh_checksum(&mut bytes[IP..]).unwrap();
        bytes
    });
    segments.collect()
}

/// Slice 1 takes the users of a key west, slice 2 those of a context east, slice 3 user 7 of any
/// network east: numbers that are alike.
fn town(encapsulation: Encapsulation) -> Town {
    let of = |id| SliceMatch { tunnel_id: Some(id), ..claims(None, None) };
    let mut town = scene(encapsulation);
    town.slices = vec![
        slice(1, of(TunnelId::GreKey(5))),
        slice(2, of(TunnelId::SttContext(5))),
        slice(3, claims(None, users(7, 7))),
    ];
    town
}

#[test]
fn a_key_of_gre_and_a_context_of_stt_are_networks_of_slices() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(town(encapsulation));
        let (west, east) = (&["v1", "v2"][..], &["v1", "v4"][..]);
        let town = rig.town.clone();
        let plain = |teid| plain_user(&town, teid);
        let one = |mut segments: Vec<Vec<u8>>| segments.remove(0);
        for (sent, met, taker) in [
            (in_gre(&town, Some(5), &plain(1)), west, Some(1)),
            (in_gre(&town, Some(6), &plain(1)), &[], None),
            (in_gre(&town, Some(6), &plain(7)), east, Some(3)),
            (in_gre(&town, None, &plain(1)), &[], None),
            // The outermost header that names a network says which it is.
            (in_gre(&town, Some(5), &frame(&town, user(5, 1))), west, Some(1)),
            (in_gre(&town, None, &in_gre(&town, Some(5), &plain(1))), west, Some(1)),
            (one(in_stt(&town, 5, &plain(1), 9_000)), east, Some(2)),
            (one(in_stt(&town, 5 | 1 << 63, &plain(1), 9_000)), &[], None),
            (frame(&town, user(5, 1)), &[], None),
        ] {
            let before = rig.slice_counters(0);
            rig.send("S", &sent);
            assert_eq!(visited(&mut rig), met);
            let arrived = rig.take("D");
            assert_eq!(arrived.len(), 1);
            assert_eq!(arrived[0][IP + 20..], sent[IP + 20..], "nothing is left of the path");
            let after = rig.slice_counters(0);
            for number in 1..=3 {
                let by = of(&after, number).entered.packets - of(&before, number).entered.packets;
                assert_eq!(by, u64::from(taker == Some(number)), "slice {number}");
            }
            rig.check();
        }
    }
}

#[test]
fn users_of_two_networks_in_one_tunnel_come_back_each_on_his_own_path() {
    let mut rig = Rig::new(town(Encapsulation::Nsh));
    let mut other = town(Encapsulation::Nsh).slices.remove(0);
    other.matches.tunnel_id = Some(TunnelId::GreKey(6));
    rig.town.slices[1].matches = other.matches;
    rig.apply();
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    for key in [5, 6, 5, 6] {
        let inner = plain_user(&rig.town, 1);
        rig.send("S", &in_gre(&rig.town, Some(key), &inner));
    }
    for mut bytes in rig.take("v1.in").into_iter().rev() {
        let source = rig.town.mac("v1.out");
        assert!(crate::rig::route(&mut bytes, catena_model::program::PROXY_MAC, source));
        rig.send("v1.out", &bytes);
    }
    assert_eq!((rig.visits().get("v2.in"), rig.visits().get("v4.in")), (Some(&2), Some(&2)));
    assert_eq!(rig.take("D").len(), 4);
    rig.check();
}

#[test]
fn what_does_not_show_its_network_does_not_pass_a_slice() {
    let mut rig = Rig::new(town(Encapsulation::Nsh));
    rig.town.slices.remove(2);
    rig.town.slice_paths.remove(2);
    rig.apply();
    let town = rig.town.clone();
    // Only the first segment of STT has the context.
    let segments = in_stt(&town, 5, &plain_user(&town, 1), 100);
    assert!(segments.len() > 1);
    rig.send("S", &segments[0]);
    assert_eq!(visited(&mut rig), ["v1", "v4"]);
    rig.take("D");
    for later in &segments[1..] {
        rig.moved();
        rig.send("S", later);
        rig.assert_only_dropped("S", DropReason::FragmentInTunnel);
    }
    // A part of a packet in a tunnel without a network may be one of a tunnel that names one.
    let part = Spec { fragment: (3, true), ..packet(&town, PLAIN_PORT) }.frame();
    rig.moved();
    rig.send("S", &in_gre(&town, None, &part));
    rig.assert_only_dropped("S", DropReason::FragmentInTunnel);
    // Where the network is known nothing else is asked.
    rig.send("S", &in_gre(&town, Some(5), &part));
    assert_eq!(visited(&mut rig), ["v1", "v2"]);
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
}

#[test]
fn a_key_of_gre_travels_as_metadata() {
    let mut town = town(Encapsulation::Nsh);
    town.speaking("v2", Encapsulation::Nsh);
    town.slice_paths[0].carries_metadata = true;
    let mut rig = Rig::new(town);
    let inner = plain_user(&rig.town, 2);
    rig.send("S", &in_gre(&rig.town, Some(5), &inner));
    // RFC 9263 section 4.1: context type 4, the key in the second word; RFC 8979 section 3.
    let context = [0, 0, 4, 8, 0x40, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 2];
    assert_eq!(crate::followers::context_of(&rig.take("v2.in")[0]), context);
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
}
