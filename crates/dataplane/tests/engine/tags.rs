//! Headers with a tag: what does not come from who has the key of the domain ends by name, where a way ends and where a
//! detour is taken, and nodes between need no key.

use crate::dead_links::{KEY, NEAR, greeted, send, triangle_of};
use crate::edges::{SWITCH, number_of, star_of};
use crate::frames::source_routed;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet};
use crate::town::link_name;
use catena_model::DropReason;
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::scalar::{EtherType, Spi};
use catena_wire::source_route::hello::Hello;
use catena_wire::source_route::native::{NativeHeader, NativeView, PortWidth, TAG_BYTES, TagKey};

const TAGGED: Encapsulation = Encapsulation::SourceRouteNativeTagged;
/// Octets in front of the ports, and those of the path identifier behind them.
const PORTS_AT: usize = 18;
const PATH_BYTES: usize = 3;

/// What was sent from a link, words between data planes apart.
fn routed(rig: &mut Rig, node: usize, number: u8) -> Vec<Vec<u8>> {
    let seen = rig.take(&link_name(node, number));
    seen.into_iter().filter(|frame| !Hello::is_one(frame)).collect()
}

/// A header on this way, and the frame behind it, by somebody's key.
fn sealed(way: &[u8], path: u32, key: &TagKey, frame: &[u8]) -> Vec<u8> {
    let header = NativeHeader {
        width: PortWidth::Eight,
        way,
        path: Some(Spi::new(path).unwrap()),
        tag: Some(key),
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    let mut bytes = vec![0; header.len_bytes()];
    bytes[..12].copy_from_slice(&frame[..12]);
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(&frame[14..]);
    bytes
}

#[test]
fn a_header_is_sealed_once_by_the_key_of_the_domain_and_stays_sealed_on_its_way() {
    let mut town = star_of(TAGGED, &[&["v2"], &["v4"]]);
    town.discovery_key = Some(catena_model::discovery::DiscoveryKey::new(KEY));
    let mut rig = greeted(1, town);
    for _ in 0..2 {
        send(&mut rig, 1);
        let [v2, v4] = ["v2.in", "v4.in"].map(|port| number_of(&rig.town, port));
        let seen = [(0, 7), (SWITCH, 2), (1, 7), (SWITCH, 3)].map(|(node, link)| {
            let frames = routed(&mut rig, node, link);
            assert_eq!(frames.len(), 1, "at {node}");
            frames[0].clone()
        });
        let first = NativeView::parse(&seen[0]).unwrap();
        let way: Vec<u8> = (1..=first.count()).rev().map(|position| first.port(position)).collect();
        assert_eq!(way, [7, 2, v2, 7, 3, v4]);
        let tag_at = PORTS_AT + way.len() + PATH_BYTES;
        for frame in &seen {
            let view = NativeView::parse(frame).unwrap();
            assert_eq!(view.check(&TagKey::of_domain(&KEY)), Ok(()));
            assert!(view.check(&TagKey::of_domain(&[0; 16])).is_err());
            let tag = tag_at..tag_at + TAG_BYTES;
            assert_eq!(frame[tag.clone()], seen[0][tag], "nobody has made it anew");
        }
        assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
    }
}

#[test]
fn a_forged_way_ends_by_name_where_it_comes_out() {
    let mut town = star_of(TAGGED, &[&["v2"]]);
    town.chain("plain", Encapsulation::SourceRouteNative, &[&["v3"]], &crate::scene::rules(6_000));
    town.discovery_key = Some(catena_model::discovery::DiscoveryKey::new(KEY));
    let mut rig = greeted(1, town);
    let key = TagKey::of_domain(&KEY);
    let [v2, v3] = ["v2.in", "v3.in"].map(|port| number_of(&rig.town, port));
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    let right = sealed(&[7, v2], 100, &key, &frame);
    let changed = |at: usize| {
        let mut bytes = right.clone();
        bytes[at] ^= 1;
        bytes
    };
    let mut others = right.clone();
    others[PORTS_AT..PORTS_AT + 2].copy_from_slice(&[v2, 9]);
    let wrong = DropReason::WrongRouteTag;
    for (name, mut frame, reason) in [
        ("a port that is done with", changed(PORTS_AT + 1), wrong),
        ("the path", changed(PORTS_AT + 2 + 2), wrong),
        ("the tag", changed(PORTS_AT + 2 + PATH_BYTES), wrong),
        ("another way", others, wrong),
        (
            "another domain's key",
            sealed(&[7, v2], 100, &TagKey::of_domain(&[9; 16]), &frame),
            wrong,
        ),
        ("the key itself", sealed(&[7, v2], 100, &TagKey(KEY), &frame), wrong),
        ("no tag", source_routed(&[7, v2], 100, &frame), wrong),
        ("a tag for who has none", sealed(&[7, v3], 101, &key, &frame), DropReason::NoPath),
    ] {
        // As the last node before would send it.
        frame[16] = 1;
        rig.moved();
        rig.bring(1, 7, &[frame]);
        let dropped = rig.moved().get(&format!("host2-7 dropped {reason}")).copied();
        assert_eq!(dropped, Some(1), "{name}");
    }
    let mut last = right;
    last[16] = 1;
    rig.bring(1, 7, &[last]);
    assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (1, 1));
    let mut untagged = source_routed(&[7, v3], 101, &packet(&rig.town, 6_000).frame());
    untagged[16] = 1;
    rig.bring(1, 7, &[untagged]);
    assert_eq!(rig.take("v3.in").len(), 1, "whose path asks for none");
}

#[test]
fn a_detour_is_taken_by_who_bears_the_right_tag_and_seals_the_way_anew() {
    let mut rig = greeted(1, triangle_of(TAGGED));
    let key = TagKey::of_domain(&KEY);
    send(&mut rig, 1);
    let right = routed(&mut rig, 0, 7).remove(0);
    let former = NativeView::parse(&right).unwrap();
    assert_eq!((former.check(&key), former.detours().count()), (Ok(()), 1));
    rig.nodes[NEAR].links.set_dark(&[PortNumber::new(2).unwrap()]);
    rig.seen.clear();
    send(&mut rig, 3);
    let round = routed(&mut rig, NEAR, 3);
    for frame in &round {
        let view = NativeView::parse(frame).unwrap();
        assert_eq!((view.check(&key), view.detours().count()), (Ok(()), 0));
    }
    assert_eq!((round.len(), rig.take("v2.in").len()), (3, 3));
    // A port, or a way round, that its writer has not written.
    for at in [PORTS_AT, right.len() - packet(&rig.town, CHAINED_PORT).frame().len() + 14 - 3] {
        let mut forged = right.clone();
        forged[at] ^= 0x40;
        rig.moved();
        rig.bring(NEAR, 1, &[forged]);
        let moved = rig.moved();
        assert_eq!(moved.get("host4-1 dropped wrong_route_tag"), Some(&1), "{at}: {moved:?}");
    }
    assert_eq!((routed(&mut rig, NEAR, 3).len(), rig.take("v2.in").len()), (0, 0));
    // Nobody between asks for it where no detour is taken.
    rig.nodes[NEAR].links.set_dark(&[]);
    rig.pass(200);
    let mut forged = right;
    forged[PORTS_AT] ^= 0x40;
    rig.moved();
    rig.bring(NEAR, 1, &[forged]);
    assert_eq!(routed(&mut rig, NEAR, 2).len(), 1);
}
