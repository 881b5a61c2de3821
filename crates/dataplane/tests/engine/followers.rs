//! Slices at the end of chains: what others were sent through goes on, each user where a slice takes
//! him.

use crate::rig::{Behaviour, Rig, route};
use crate::scene::{rules, three_hosts};
use crate::slices::{
    EAST, WEST, claims, comes, frame, goes, of, path, scene, slice, user, users, visited, with_qfi,
};
use crate::town::Town;
use catena_model::PathId;
use catena_model::program::{PROXY_MAC, SliceMatch};
use catena_model::resource::Encapsulation;
use catena_model::slice::SlicePlace;
use catena_wire::ports;

/// The frames that a function got, each with its NSH behind the Ethernet header.
pub(crate) fn context_of(bytes: &[u8]) -> Vec<u8> {
    let (nsh, _) = catena_wire::nsh::NshView::parse(&bytes[14..]).unwrap();
    match nsh.metadata() {
        catena_wire::nsh::Metadata::Type2(headers) => headers.bytes().to_vec(),
        catena_wire::nsh::Metadata::Type1(_) => Vec::new(),
    }
}

/// Behind the end of west slice 5 takes user 3, slice 6 the others of network 5.
fn with_branches() -> Town {
    let mut town = scene(Encapsulation::Nsh);
    town.speaking("v1", Encapsulation::Nsh);
    town.speaking("v2", Encapsulation::Nsh);
    town.chain("north", Encapsulation::Nsh, &[&["v3"]], &[]);
    town.chain("south", Encapsulation::Nsh, &[&["v4"]], &[]);
    town.slices.push(slice(5, after(&town, "west", claims(Some(5), users(3, 3)))));
    town.slices.push(slice(6, after(&town, "west", claims(Some(5), None))));
    town.slice_paths.push(path(5, PathId(102)));
    town.slice_paths.push(path(6, PathId(103)));
    town
}

/// The same claims at the end of a chain.
fn after(town: &Town, chain: &str, claims: SliceMatch) -> SliceMatch {
    let chain = town.chains.iter().find(|known| known.name == chain).unwrap();
    SliceMatch { place: SlicePlace::After(town.chain_id(chain)), ..claims }
}

#[test]
fn tenant_and_user_travel_as_metadata_and_a_function_may_set_them() {
    let mut town = with_branches();
    town.slice_paths[0].carries_metadata = true;
    let mut rig = Rig::new(town);
    let sent = frame(&rig.town, with_qfi(user(5, 2), 9));
    rig.send("S", &sent);
    let context = [[0, 0, 4, 4, 0x30, 0, 0, 5], [0, 0, 0, 4, 0, 0, 0, 2], [0, 0, 1, 4, 0, 0, 0, 9]];
    assert_eq!(context_of(&rig.take("v2.in")[0]), context.concat());
    assert_eq!(rig.visits().get("v4.in"), Some(&1), "by its metadata it is another user's");
    rig.take("D");

    // An aware function says that it is user 3's: the classifier behind it believes it.
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    rig.send("S", &sent);
    let mut changed = rig.take("v2.in").remove(0);
    let si = 14 + 7;
    changed[si] -= 1;
    let teid = 14 + 8 + 8 + 7;
    assert_eq!(changed[teid], 2);
    changed[teid] = 3;
    let (destination, source) = (PROXY_MAC, rig.town.mac("v2.out"));
    changed[..6].copy_from_slice(&destination.0);
    changed[6..12].copy_from_slice(&source.0);
    rig.send("v2.out", &changed);
    assert_eq!(rig.visits().get("v3.in"), Some(&1));
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
}

#[test]
fn behind_a_path_without_metadata_the_packet_itself_says_whose_it_is() {
    let mut rig = Rig::new(with_branches());
    for (teid, port) in [(3, "v3.in"), (2, "v4.in")] {
        rig.send("S", &frame(&rig.town, user(5, teid)));
        assert_eq!(rig.take(port).len(), 1, "user {teid}");
        assert_eq!(rig.take("D").len(), 1);
    }
    let counters = rig.slice_counters(1);
    assert_eq!(of(&counters, 1).finished.packets, 2);
    assert_eq!((of(&counters, 5).entered.packets, of(&counters, 6).entered.packets), (1, 1));
    rig.check();
}

/// West, by rules and by slice 1, begins with the function that east begins with, where user 3 goes
/// on by slice 2.
fn twice_through_one(encapsulation: Encapsulation) -> Town {
    let mut town = three_hosts();
    town.chain("west", encapsulation, &[&["v1"], &["v2"]], &rules(ports::VXLAN));
    town.chain("east", encapsulation, &[&["v1"], &["v4"]], &[]);
    town.slices.push(slice(1, claims(Some(6), None)));
    town.slices.push(slice(2, after(&town, "west", claims(None, users(3, 3)))));
    town.slice_paths = vec![path(1, WEST), path(2, EAST)];
    town
}

#[test]
fn who_came_by_rules_and_who_came_by_a_slice_go_on_at_the_end_of_their_chain() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(twice_through_one(encapsulation));
        for (user, met) in [
            (user(5, 3), vec!["v1", "v2", "v4"]),
            (user(6, 3), vec!["v1", "v2", "v4"]),
            (user(5, 4), vec!["v1", "v2"]),
            (user(6, 4), vec!["v1", "v2"]),
        ] {
            rig.send("S", &frame(&rig.town, user));
            let times = rig.visits().get("v1.in").copied();
            assert_eq!(times, Some(if met.len() == 3 { 2 } else { 1 }), "once for each chain");
            assert_eq!(visited(&mut rig), met);
            assert_eq!(rig.take("D").len(), 1);
        }
        let counters: Vec<_> = (0..3).map(|node| rig.slice_counters(node)).collect();
        let entered =
            |number| -> u64 { counters.iter().map(|node| of(node, number).entered.packets).sum() };
        assert_eq!((entered(1), entered(2)), (2, 2));
        rig.check();
    }
}

/// Two packets of one user are inside the function that both chains begin with, one on each. He came
/// into the first by a rule; whether another slice leads there must not matter, nor how the tables
/// have come.
#[test]
fn packets_of_a_user_inside_a_function_of_both_chains_keep_their_own() {
    for case in 0..8 {
        let [is_other_order, is_alone, is_changed] = [1, 2, 4].map(|bit| case & bit != 0);
        let mut town = twice_through_one(Encapsulation::Nsh);
        if is_alone {
            town.slices.remove(0);
            town.slice_paths.remove(0);
        }
        let mut rig = Rig::new(town);
        if is_changed {
            for node in 0..3 {
                rig.change_slices(node, &[]);
            }
        }
        rig.behaviours.insert("v1".into(), Behaviour::Swallow);
        let first = frame(&rig.town, user(5, 3));
        let mut second = first.clone();
        *second.last_mut().unwrap() ^= 1;
        let leave = |rig: &mut Rig, mut bytes: Vec<u8>| {
            assert!(route(&mut bytes, PROXY_MAC, rig.town.mac("v1.out")));
            rig.send("v1.out", &bytes);
        };
        rig.send("S", &first);
        let inside = rig.take("v1.in").remove(0);
        leave(&mut rig, inside);
        let again = rig.take("v1.in").remove(0);
        assert_eq!(visited(&mut rig), ["v2"], "the first has left west");
        rig.send("S", &second);
        let once = rig.take("v1.in").remove(0);
        let mut inside = [(again, "v4", 0), (once, "v2", 1)];
        if is_other_order {
            inside.reverse();
        }
        for (bytes, met, comes_again) in inside {
            leave(&mut rig, bytes);
            let times = rig.take("v1.in").len();
            assert_eq!((visited(&mut rig), times), (vec![met], comes_again));
        }
        assert_eq!(rig.take("D").len(), 1, "the second is inside still");
        rig.check();
    }
}

#[test]
fn slices_come_to_the_end_of_a_chain_and_go_by_changes() {
    let mut town = twice_through_one(Encapsulation::Nsh);
    let later = town.slices.remove(1);
    let mut rig = Rig::new(town);
    rig.send("S", &frame(&rig.town, user(5, 3)));
    assert_eq!(visited(&mut rig), ["v1", "v2"]);
    for node in 0..3 {
        rig.change_slices(node, &[comes(later.clone())]);
    }
    rig.send("S", &frame(&rig.town, user(5, 3)));
    assert_eq!(visited(&mut rig), ["v1", "v2", "v4"]);
    for node in 0..3 {
        rig.change_slices(node, &[goes(2)]);
    }
    rig.send("S", &frame(&rig.town, user(5, 3)));
    assert_eq!(visited(&mut rig), ["v1", "v2"]);
    rig.check();
}

/// Answers have been through; a chain that the node does not know ends nowhere on it.
#[test]
fn at_the_end_of_the_way_back_and_of_unknown_chains_no_slice_takes_anything() {
    let mut town = twice_through_one(Encapsulation::Nsh);
    town.chains[0].is_reverse = true;
    town.chains[0].hops.reverse();
    let mut rig = Rig::new(town);
    rig.is_two_way = true;
    rig.send("S", &frame(&rig.town, user(5, 3)));
    let met = ["v1.in", "v1.out", "v2.out", "v4.in"].map(|port| rig.take(port).len());
    assert_eq!(met, [0, 1, 1, 0], "by the back doors, and not on");
    assert_eq!(rig.take("D").len(), 1);
    rig.check();
    let mut town = twice_through_one(Encapsulation::Nsh);
    town.slices[1].matches.place = SlicePlace::After(catena_model::id::ChainId::MIN);
    let mut rig = Rig::new(town);
    rig.send("S", &frame(&rig.town, user(5, 3)));
    assert_eq!(visited(&mut rig), ["v1", "v2"]);
    rig.check();
}
