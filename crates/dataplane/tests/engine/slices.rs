//! Slices: users of tunnels on paths of their own, told apart also where they share a tunnel, a
//! function and a port.

use crate::explain::{golden, tell, text};
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, rules, three_hosts};
use crate::tables::changed;
use crate::town::Town;
use catena_model::entry::{Change, Edit};
use catena_model::program::{PROXY_MAC, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy};
use catena_model::resource::Encapsulation;
use catena_model::slice::SlicePlace;
use catena_model::{DropReason, PathId, SliceCounters, SliceId};
use catena_wire::gtp_u::{GtpUHeader, GtpUMessage, PduSession};
use catena_wire::ports;
use catena_wire::scalar::{IpProtocol, Qfi, Teid, TeidRange, TunnelId, Vni};
use catena_wire::vxlan::VxlanHeader;
use std::sync::Arc;
use uuid::Uuid;

/// The paths of the scene's chains.
pub(crate) const WEST: PathId = PathId(100);
pub(crate) const EAST: PathId = PathId(101);

/// Whose packet a frame is.
#[derive(Clone, Copy)]
pub(crate) struct Subscriber {
    vni: Option<u32>,
    teid: u32,
    qfi: Option<u32>,
    /// Source port of the user's own packet.
    port: u16,
}

/// The same user's packet of another flow.
pub(crate) fn with_port(user: Subscriber, port: u16) -> Subscriber {
    Subscriber { port, ..user }
}

/// The same user's packet of a QoS flow.
pub(crate) fn with_qfi(user: Subscriber, qfi: u32) -> Subscriber {
    Subscriber { qfi: Some(qfi), ..user }
}

/// The same user's packet outside of any network.
pub(crate) fn without_network(user: Subscriber) -> Subscriber {
    Subscriber { vni: None, ..user }
}

pub(crate) fn user(vni: u32, teid: u32) -> Subscriber {
    Subscriber { vni: Some(vni), teid, qfi: None, port: 1_000 }
}

/// A user's packet in GTP-U, in VXLAN if there is a network. All share one outer flow.
pub(crate) fn frame(town: &Town, user: Subscriber) -> Vec<u8> {
    spec(town, user).frame()
}

fn spec(town: &Town, user: Subscriber) -> Spec {
    let base = packet(town, PLAIN_PORT);
    let inner = Spec {
        source: "10.60.0.1".parse().unwrap(),
        destination: "198.51.100.7".parse().unwrap(),
        ports: (user.port, 443),
        ..base.clone()
    };
    let inner = inner.frame()[14..].to_vec();
    let session = user.qfi.map(|qfi| PduSession { pdu_type: 1, qfi: Qfi::new(qfi).unwrap() });
    let header = GtpUHeader {
        message: GtpUMessage::G_PDU,
        teid: Teid(user.teid),
        sequence: None,
        pdu_session: session,
        payload_bytes: u16::try_from(inner.len()).unwrap(),
    };
    let mut gtp = vec![0; header.len_bytes()];
    header.emit(&mut gtp).unwrap();
    gtp.extend(inner);
    let n3 = Spec { ports: (ports::GTP_U, ports::GTP_U), payload: gtp, ..base.clone() };
    let Some(vni) = user.vni else { return n3 };
    let mut vxlan = vec![0; VxlanHeader::LEN];
    VxlanHeader { vni: Vni::new(vni).unwrap() }.emit(&mut vxlan).unwrap();
    let carried = Spec {
        source: "172.16.1.1".parse().unwrap(),
        destination: "172.16.2.2".parse().unwrap(),
        ..n3
    };
    vxlan.extend(carried.frame());
    Spec { ports: (50_000, ports::VXLAN), payload: vxlan, ..base }
}

pub(crate) fn id(number: u128) -> SliceId {
    SliceId(Uuid::from_u128(number))
}

pub(crate) fn users(first: u32, last: u32) -> Option<TeidRange> {
    Some(TeidRange::new(Teid(first), Teid(last)).unwrap())
}

pub(crate) fn claims(vni: Option<u32>, teids: Option<TeidRange>) -> SliceMatch {
    let tunnel_id = vni.map(|vni| TunnelId::Vni(Vni::new(vni).unwrap()));
    SliceMatch { place: SlicePlace::Endpoints, tunnel_id, teids, qfi: None }
}

/// The path that slices with this number have of their own.
pub(crate) fn own_path(number: u32) -> PathId {
    PathId(1_000 + number)
}

pub(crate) fn slice(number: u32, matches: SliceMatch) -> SliceEntry {
    SliceEntry {
        id: id(number.into()),
        name: format!("slice{number}"),
        matches,
        path: own_path(number),
        policy: SlicePolicy::default(),
        is_injected: false,
    }
}

pub(crate) fn path(number: u32, like: PathId) -> SlicePathEntry {
    let (id, slice) = (own_path(number), id(number.into()));
    SlicePathEntry { id, slice, like, carries_metadata: false }
}

/// West is v1 v2, east v1 v4; slice 1 takes users 1 to 9 of network 5 west, slice 2 the others of
/// network 5 east, slice 3 user 7 of any network east.
pub(crate) fn scene(encapsulation: Encapsulation) -> Town {
    let mut town = three_hosts();
    town.chain("west", encapsulation, &[&["v1"], &["v2"]], &[]);
    town.chain("east", encapsulation, &[&["v1"], &["v4"]], &[]);
    town.slices = vec![
        slice(1, claims(Some(5), users(1, 9))),
        slice(2, claims(Some(5), None)),
        slice(3, claims(None, users(7, 7))),
    ];
    town.slice_paths = vec![path(1, WEST), path(2, EAST), path(3, EAST)];
    town
}

pub(crate) fn comes(slice: SliceEntry) -> Change {
    Change::Slice(slice.id, Edit::Add(Arc::new(slice)))
}

/// It is there already, and another from now on.
pub(crate) fn turns(slice: SliceEntry) -> Change {
    Change::Slice(slice.id, Edit::Replace(Arc::new(slice)))
}

pub(crate) fn goes(number: u128) -> Change {
    Change::Slice(id(number), Edit::Remove)
}

pub(crate) fn path_comes(path: SlicePathEntry) -> Change {
    Change::SlicePath(path.id, Edit::Add(Arc::new(path)))
}

pub(crate) fn path_turns(path: SlicePathEntry) -> Change {
    Change::SlicePath(path.id, Edit::Replace(Arc::new(path)))
}

fn path_goes(number: u32) -> Change {
    Change::SlicePath(own_path(number), Edit::Remove)
}

pub(crate) fn visited(rig: &mut Rig) -> Vec<&'static str> {
    let all = ["v1", "v2", "v3", "v4"];
    let met = all.into_iter().filter(|name| !rig.take(&format!("{name}.in")).is_empty());
    met.collect()
}

pub(crate) fn of(counters: &[SliceCounters], number: u32) -> &SliceCounters {
    counters.iter().find(|slice| slice.slice == id(number.into())).unwrap()
}

#[test]
fn each_user_goes_the_path_of_the_slice_that_says_most_of_him() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(scene(encapsulation));
        for (user, met, taker) in [
            (user(5, 1), &["v1", "v2"][..], Some(1)),
            (user(5, 9), &["v1", "v2"], Some(1)),
            (user(5, 10), &["v1", "v4"], Some(2)),
            (user(5, 7), &["v1", "v2"], Some(1)),
            (user(6, 7), &["v1", "v4"], Some(3)),
            (Subscriber { vni: None, ..user(0, 7) }, &["v1", "v4"], Some(3)),
            (user(6, 8), &[], None),
        ] {
            let before = rig.slice_counters(0);
            let sent = frame(&rig.town, user);
            rig.send("S", &sent);
            assert_eq!(visited(&mut rig), met);
            let arrived = rig.take("D");
            assert_eq!(arrived.len(), 1);
            assert_eq!(arrived[0][40..], sent[40..], "nothing is left of the path");
            let after = rig.slice_counters(0);
            for number in 1..=3 {
                let by = of(&after, number).entered.packets - of(&before, number).entered.packets;
                assert_eq!(by, u64::from(taker == Some(number)), "slice {number}");
            }
            rig.check();
        }
        // Each node counts its part, the chain the sum.
        let (at_first, at_last) = (rig.slice_counters(0), rig.slice_counters(2));
        for (number, packets) in [(1, 3), (2, 1), (3, 2)] {
            let (one, other) = (of(&at_first, number), of(&at_last, number));
            assert_eq!(one.path, own_path(number));
            assert_eq!((one.entered.packets, one.tunnelled_out.packets), (packets, packets));
            let east = number != 1;
            let finished =
                if east { other.finished } else { of(&rig.slice_counters(1), 1).finished };
            assert_eq!(finished.packets, packets);
        }
        let chains = &rig.counters()[0].chains;
        let entered: Vec<u64> = chains.iter().map(|chain| chain.entered.packets).collect();
        assert_eq!(entered, [3, 3]);
    }
}

#[test]
fn users_who_share_a_tunnel_and_a_function_come_back_each_on_his_own_path() {
    for behaviour in [Behaviour::Swallow, Behaviour::Bridge] {
        let mut rig = Rig::new(scene(Encapsulation::Nsh));
        rig.behaviours.insert("v1".into(), behaviour);
        for round in 0..4 {
            rig.send("S", &frame(&rig.town, user(5, 1 + round)));
            rig.send("S", &frame(&rig.town, user(5, 10 + round)));
        }
        if behaviour == Behaviour::Swallow {
            // It gives them back in another order.
            for mut bytes in rig.take("v1.in").into_iter().rev() {
                assert!(crate::rig::route(&mut bytes, PROXY_MAC, rig.town.mac("v1.out")));
                rig.send("v1.out", &bytes);
            }
        }
        let visits = rig.visits();
        assert_eq!((visits.get("v2.in"), visits.get("v4.in")), (Some(&4), Some(&4)));
        assert_eq!(rig.take("D").len(), 8);
        rig.check();
    }
}

#[test]
fn users_of_one_tunnel_meet_the_instances_each_for_himself_and_on_all_nodes_the_same() {
    let mut town = three_hosts();
    town.chain("c", Encapsulation::Nsh, &[&["v2", "v4"]], &[]);
    town.slices = vec![slice(1, claims(Some(5), None))];
    town.slice_paths = vec![path(1, WEST)];
    let mut rig = Rig::new(town);
    for number in 0..60 {
        let user = Subscriber { port: 1_000 + number, ..user(5, 1) };
        rig.send("S", &frame(&rig.town, user));
    }
    // By the fast path: all from the source, and what one of them gets.
    assert!(rig.by_fast_path() >= 60, "{} by the lane", rig.by_fast_path());
    let visits = rig.visits();
    let (one, other) = (visits["v2.in"], visits["v4.in"]);
    assert_eq!(one + other, 60);
    assert!(one > 10 && other > 10, "{one} and {other}");
    assert_eq!(rig.take("D").len(), 60, "no node chose otherwise");
    rig.check();
}

#[test]
fn a_user_moves_to_another_tunnel_end_and_another_identifier_without_loss() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    let mut held = Vec::new();
    for number in 0..30_u16 {
        let from = Subscriber { port: 2_000 + number, ..user(5, 3) };
        let mut sent = spec(&rig.town, from);
        match number {
            0..10 => {}
            // Handover: the same identifier from another base station.
            10..20 => sent.source = "10.0.0.99".parse().unwrap(),
            // And another identifier, which a change of the slice names.
            _ => {
                sent = Spec {
                    source: "10.0.0.99".parse().unwrap(),
                    ..spec(&rig.town, Subscriber { teid: 77, ..from })
                }
            }
        }
        if number == 20 {
            let moved = slice(1, claims(Some(5), users(77, 77)));
            rig.change_slices(0, &[turns(moved)]);
        }
        rig.send("S", &sent.frame());
        held.extend(rig.take("v1.in"));
    }
    assert_eq!(held.len(), 30, "all are inside the function when the user has moved");
    for mut bytes in held {
        assert!(crate::rig::route(&mut bytes, PROXY_MAC, rig.town.mac("v1.out")));
        rig.send("v1.out", &bytes);
    }
    assert_eq!(rig.visits().get("v2.in"), Some(&30));
    assert_eq!(rig.take("D").len(), 30);
    let counters = rig.slice_counters(0);
    assert_eq!(of(&counters, 1).entered.packets, 30, "the counters are as before");
    assert!(of(&counters, 1).dropped.is_empty());
    rig.check();
}

#[test]
fn slices_come_and_go_by_changes_and_the_tables_before_stay_as_they_were() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    let send = |rig: &mut Rig, user: Subscriber| {
        rig.send("S", &frame(&rig.town, user));
        let met = visited(rig);
        rig.take("D");
        met
    };
    for node in 0..3 {
        let add = [comes(slice(4, claims(Some(5), users(4, 4)))), path_comes(path(4, EAST))];
        rig.change_slices(node, &add);
    }
    assert_eq!(send(&mut rig, user(5, 4)), ["v1", "v4"], "one user goes before a range");
    assert_eq!(send(&mut rig, user(5, 3)), ["v1", "v2"]);
    assert_eq!(of(&rig.slice_counters(0), 4).entered.packets, 1);
    rig.change_slices(0, &[path_goes(4), goes(4)]);
    assert_eq!(send(&mut rig, user(5, 4)), ["v1", "v2"], "the range takes him again");
    assert_eq!(of(&rig.slice_counters(0), 1).entered.packets, 2, "counters go on");
    assert_eq!(rig.slice_counters(0).len(), 3);
    rig.change_slices(0, &[1, 2, 3].map(goes));
    assert_eq!(send(&mut rig, user(5, 4)), [""; 0]);
    // A whole program with the same paths keeps their counters too.
    rig.town.number = 2;
    rig.apply();
    assert_eq!(of(&rig.slice_counters(0), 1).entered.packets, 2);
    rig.check();
}

#[test]
fn a_change_that_contradicts_the_program_changes_nothing() {
    let rig = Rig::new(scene(Encapsulation::Nsh));
    let tables = rig.town.tables(0);
    let refused = [
        goes(9),
        turns(slice(9, claims(Some(5), None))),
        comes(slice(2, claims(Some(5), None))),
        path_goes(1),
        path_goes(9),
        path_turns(path(9, EAST)),
        path_comes(path(2, EAST)),
        comes(slice(9, claims(None, None))),
        path_comes(path(9, PathId(99))),
        path_comes(SlicePathEntry { id: WEST, ..path(9, EAST) }),
        path_comes(SlicePathEntry { id: PathId(0), ..path(9, EAST) }),
    ];
    let good = turns(slice(1, claims(Some(5), users(9, 9))));
    assert!(changed(&tables, std::slice::from_ref(&good)).is_ok());
    for change in refused {
        let outcome = changed(&tables, &[good.clone(), change.clone()]);
        assert!(outcome.is_err(), "{change:?}");
    }
}

#[test]
fn frames_are_judged_by_what_is_inside_only_where_a_slice_takes_from() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    rig.moved();
    let broken = |town: &Town| {
        let mut sent = spec(town, user(5, 1));
        sent.payload[0] = 0;
        sent.frame()
    };
    rig.send("S", &broken(&rig.town));
    rig.assert_only_dropped("S", DropReason::MalformedTunnel);
    let mut deep = spec(&rig.town, user(5, 1));
    for vni in 0..9 {
        let mut vxlan = vec![0; VxlanHeader::LEN];
        VxlanHeader { vni: Vni::new(vni).unwrap() }.emit(&mut vxlan).unwrap();
        let inner = Spec { payload: Vec::new(), ports: (1, 1), ..deep.clone() };
        vxlan.extend(if vni == 0 { inner.frame() } else { deep.frame() });
        deep.payload = vxlan;
        deep.ports = (50_000, ports::VXLAN);
    }
    rig.send("S", &deep.frame());
    rig.assert_only_dropped("S", DropReason::TunnelTooDeep);
    // The same at a port that no slice takes from, and on a node without slices.
    let other = Spec { source_mac: rig.town.mac("D"), destination_mac: rig.town.mac("S"), ..deep };
    let by_port = SliceMatch {
        place: SlicePlace::Port(rig.town.port_named("S").id),
        ..claims(Some(5), None)
    };
    rig.town.slices = vec![slice(1, by_port)];
    rig.apply();
    rig.send("D", &other.frame());
    assert_eq!(rig.take("S").len(), 1, "a tenant's own tunnels are none of our business");
    rig.town.slices.clear();
    rig.town.slice_paths.clear();
    rig.apply();
    rig.send("S", &broken(&rig.town));
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
}

#[test]
fn all_fragments_of_a_tunnels_datagram_go_the_way_of_the_first() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    let mut whole = spec(&rig.town, user(5, 10));
    whole.payload.resize(480, 7);
    let udp = whole.frame()[34..].to_vec();
    let first = Spec {
        protocol: IpProtocol::UDP,
        fragment: (0, true),
        payload: whole.payload[..232].to_vec(),
        ..whole.clone()
    };
    let mut first = first.frame();
    first[34..42].copy_from_slice(&udp[..8]);
    let later = Spec { fragment: (30, false), payload: udp[240..].to_vec(), ..whole };
    rig.send("S", &first);
    rig.send("S", &later.frame());
    assert_eq!(rig.visits().get("v4.in"), Some(&2));
    assert_eq!(of(&rig.slice_counters(0), 2).entered.packets, 2);
    rig.check();
}

#[test]
fn fragments_of_a_tunnels_datagram_wait_for_the_first_where_slices_take_from() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    for is_reversed in [false, true] {
        let mut whole = spec(&rig.town, user(5, 10));
        whole.payload.resize(480, 7);
        whole.identification = 70 + u16::from(is_reversed);
        let udp = whole.frame()[34..].to_vec();
        let part = |offset: u16, data: &[u8], more| {
            let part = Spec { fragment: (1, more), payload: data.to_vec(), ..whole.clone() };
            let mut frame = part.frame();
            frame[20..22].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
            catena_wire::ipv4::refresh_checksum(&mut frame[14..]).unwrap();
            frame
        };
        let mut parts = [
            part(0, &udp[..240], true),
            part(30, &udp[240..400], true),
            part(50, &udp[400..], false),
        ];
        if is_reversed {
            parts.reverse();
        }
        parts.iter().for_each(|frame| rig.send("S", frame));
        assert_eq!(rig.take("v4.in").len(), 3, "{is_reversed}");
    }
    assert_eq!(of(&rig.slice_counters(0), 2).entered.packets, 6);
    rig.check();
}

#[test]
fn a_name_of_a_tunnels_datagrams_stays_with_one_slice() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    let parts = |town: &Town, user| {
        let mut whole = spec(town, user);
        whole.payload.resize(480, 7);
        let udp = whole.frame()[34..].to_vec();
        [(0, &udp[..240], true), (30, &udp[240..], false)].map(|(offset, data, more)| {
            let part = Spec { fragment: (1, more), payload: data.to_vec(), ..whole.clone() };
            let mut frame = part.frame();
            frame[20..22].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
            catena_wire::ipv4::refresh_checksum(&mut frame[14..]).unwrap();
            frame
        })
    };
    // Two users of one slice, then one of another.
    for teid in [10, 11, 10] {
        parts(&rig.town, user(5, teid)).iter().for_each(|frame| rig.send("S", frame));
        assert_eq!(rig.take("v4.in").len(), 2, "{teid}");
    }
    rig.moved();
    let [first, _] = parts(&rig.town, user(5, 1));
    rig.send("S", &first);
    rig.assert_only_dropped("S", DropReason::SecondFirstFragment);
    rig.sleep(61_000);
    rig.seen.clear();
    rig.send("S", &first);
    assert_eq!(rig.visits().get("v1.in"), Some(&1));
}

#[test]
fn fragments_inside_a_tunnel_end_by_name_where_a_slice_could_want_them() {
    let mut rig = Rig::new(scene(Encapsulation::Nsh));
    let whole = frame(&rig.town, user(5, 10));
    // The inner packet: behind Ethernet, IPv4, UDP, VXLAN and Ethernet.
    let inner = 14 + 20 + 8 + 8 + 14;
    for word in [0x2000_u16, 0x2003, 0x0003] {
        let mut part = whole.clone();
        part[inner + 6..inner + 8].copy_from_slice(&word.to_be_bytes());
        catena_wire::ipv4::refresh_checksum(&mut part[inner..]).unwrap();
        rig.moved();
        rig.send("S", &part);
        rig.assert_only_dropped("S", DropReason::FragmentInTunnel);
    }
    // Nothing of a user is asked for where no slice is.
    rig.town.slices.clear();
    rig.town.slice_paths.clear();
    rig.apply();
    rig.take("D");
    let mut part = whole;
    part[inner + 6..inner + 8].copy_from_slice(&[0, 3]);
    catena_wire::ipv4::refresh_checksum(&mut part[inner..]).unwrap();
    rig.send("S", &part);
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn a_slice_may_send_into_a_path_of_others() {
    let mut town = scene(Encapsulation::Nsh);
    town.slices[0].path = EAST;
    town.slices[0].is_injected = true;
    town.slice_paths.remove(0);
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &frame(&rig.town, user(5, 1)));
    assert_eq!(rig.slice_counters(0).len(), 2, "there it has no counters of its own");
    assert_eq!(rig.counters()[0].chains[1].entered.packets, 1);
    // A change of tables meanwhile does not lose it.
    rig.change_slices(0, &[goes(3)]);
    let mut bytes = rig.take("v1.in").remove(0);
    assert!(crate::rig::route(&mut bytes, PROXY_MAC, rig.town.mac("v1.out")));
    rig.send("v1.out", &bytes);
    assert_eq!(rig.visits().get("v4.in"), Some(&1));
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
}

#[test]
fn an_explanation_names_the_slice_and_the_user() {
    let rig = Rig::new(scene(Encapsulation::Nsh));
    let asked = frame(&rig.town, Subscriber { qfi: Some(9), ..user(5, 3) });
    golden("slice", &text(&tell(&rig, "S", &asked, None)));
}

/// Slices come by changes, and a user moves while a packet of his is inside the function that both
/// chains share.
#[test]
fn a_user_who_moves_between_chains_that_share_a_function_mixes_no_packet() {
    let mut town = scene(Encapsulation::Nsh);
    town.slices.truncate(1);
    town.slice_paths.truncate(1);
    for is_other_order in [false, true] {
        let mut rig = Rig::new(town.clone());
        rig.behaviours.insert("v1".into(), Behaviour::Swallow);
        for node in 0..3 {
            rig.change_slices(node, &[path_comes(path(2, EAST))]);
        }
        let first = frame(&rig.town, user(5, 1));
        let mut second = first.clone();
        *second.last_mut().unwrap() ^= 1;
        rig.send("S", &first);
        rig.change_slices(0, &[comes(slice(2, claims(Some(5), None))), goes(1)]);
        rig.send("S", &second);
        let mut inside = rig.take("v1.in");
        assert_eq!(inside.len(), 2);
        if is_other_order {
            inside.reverse();
        }
        for mut bytes in inside {
            let way = if bytes.ends_with(&first[first.len() - 8..]) { "v2.in" } else { "v4.in" };
            assert!(crate::rig::route(&mut bytes, PROXY_MAC, rig.town.mac("v1.out")));
            rig.send("v1.out", &bytes);
            assert_eq!(rig.take(way).len(), 1, "{way}");
        }
        assert_eq!(rig.take("D").len(), 2);
        rig.check();
    }
}

#[test]
fn slices_put_in_by_hand_enter_only_paths_that_rules_send_into_and_outlive_changes_of_others() {
    let mut town = three_hosts();
    town.chain("west", Encapsulation::Nsh, &[&["v1"], &["v2"]], &rules(CHAINED_PORT));
    town.chain("east", Encapsulation::Nsh, &[&["v1"], &["v4"]], &[]);
    town.slices = vec![slice(2, claims(Some(5), None))];
    town.slice_paths = vec![path(2, EAST)];
    let by_hand = |number, path| SliceEntry {
        path,
        is_injected: true,
        ..slice(number, claims(Some(5), users(7, 7)))
    };
    let mut rig = Rig::new(town);
    let mut tables = rig.town.tables(0);
    let are_in = tables.inject(vec![by_hand(8, WEST), by_hand(9, EAST)]);
    assert_eq!(are_in, [by_hand(8, WEST)], "no rule sends east");
    rig.replace_tables(0, tables);
    rig.send("S", &frame(&rig.town, user(5, 7)));
    assert_eq!(visited(&mut rig), ["v1", "v2"]);
    // Whoever changes slices puts them in again, or they are gone.
    let next = rig.tables(0).without_injected();
    rig.replace_tables(0, next);
    rig.send("S", &frame(&rig.town, user(5, 7)));
    assert_eq!(visited(&mut rig), ["v1", "v4"]);
    assert_eq!(of(&rig.slice_counters(0), 2).entered.packets, 1);
    rig.check();
}
