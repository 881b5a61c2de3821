//! Tables that follow others: what runs then is what runs when all is made anew, or the change is
//! refused and nothing is different.

use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, rules, with_chain};
use crate::slices::{
    EAST, WEST, claims, frame, own_path, path, scene, slice, user, users, visited,
};
use crate::town::Town;
use catena_dataplane::engine::CompileError;
use catena_model::entry::{Entries, Program};
use catena_model::program::SlicePathEntry;
use catena_model::resource::Encapsulation;
use catena_model::{BlueprintNumber, PathId};

fn met_by_users(rig: &mut Rig) -> Vec<Vec<&'static str>> {
    let met = [user(5, 1), user(5, 4), user(5, 12), user(6, 7)].map(|user| {
        let sent = frame(&rig.town, user);
        rig.send("S", &sent);
        let met = visited(rig);
        rig.take("D");
        met
    });
    met.into()
}

#[test]
fn tables_that_follow_take_packets_as_those_made_anew() {
    let changes: [fn(&mut Town); 7] = [
        |_| {},
        |town| {
            town.slices.push(slice(4, claims(Some(5), users(4, 4))));
            town.slice_paths.push(path(4, EAST));
        },
        |town| town.slices[0].path = own_path(4),
        |town| {
            town.slices.remove(2);
            town.slice_paths.remove(2);
            town.slice_paths[1].carries_metadata = true;
        },
        |town| town.slice_paths[1].like = WEST,
        |town| {
            town.chains[1].rules = rules(CHAINED_PORT).into_iter().map(|rule| (1, rule)).collect();
        },
        |town| {
            town.slices.clear();
            town.slice_paths.clear();
            town.chain("more", Encapsulation::Nsh, &[&["v3"]], &[]);
        },
    ];
    let mut town = scene(Encapsulation::Nsh);
    let mut rig = Rig::new(town.clone());
    for (number, change) in changes.iter().enumerate() {
        change(&mut town);
        town.number += 1;
        rig.town = town.clone();
        rig.apply();
        let mut anew = Rig::new(town.clone());
        assert_eq!(met_by_users(&mut rig), met_by_users(&mut anew), "after change {number}");
        rig.check();
    }
}

#[test]
fn a_program_that_contradicts_itself_follows_nothing() {
    let mut town = scene(Encapsulation::Nsh);
    town.chain("inner", Encapsulation::Nsh, &[&["v3"]], &[]);
    town.chains[2].destination = 1;
    let (tables, former) = (town.tables(0), town.told(0).entries);
    let refusal = |change: &dyn Fn(&mut Entries)| {
        let mut entries = former.clone();
        change(&mut entries);
        let next = Program::new(BlueprintNumber(2), entries);
        tables.following(&next).err()
    };
    assert_eq!(refusal(&|_| ()), None);
    let refused = refusal(&|next| drop(next.slice_paths.remove(&own_path(1))));
    assert!(matches!(refused, Some(CompileError::SliceWithoutPath { .. })), "{refused:?}");
    let elsewhere = SlicePathEntry { like: PathId(102), ..path(1, WEST) };
    let replace = |next: &mut Entries| drop(next.slice_paths.insert(own_path(1), elsewhere.into()));
    assert_eq!(refusal(&replace), None, "its slice takes packets of another network now");
    let refused = refusal(&|next| drop(next.paths.remove(&WEST)));
    assert!(matches!(refused, Some(CompileError::SliceWithoutPath { .. })), "{refused:?}");
}

#[test]
fn what_is_known_of_a_flow_outlives_a_change_that_does_not_concern_it() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v3"]]));
    let sent = packet(&rig.town, CHAINED_PORT).frame();
    let by_fast_path = |rig: &mut Rig| {
        let before = rig.by_fast_path();
        rig.send("S", &sent);
        assert_eq!(rig.take("D").len(), 1);
        rig.by_fast_path() - before
    };
    let first = by_fast_path(&mut rig);
    let known = by_fast_path(&mut rig);
    assert!(first < known, "{first} of its first packet, {known} of its second");
    let change = |rig: &mut Rig, change: &dyn Fn(&mut Town)| {
        change(&mut rig.town);
        rig.town.number += 1;
        rig.apply();
        by_fast_path(rig)
    };
    let unconcerned = change(&mut rig, &|town| {
        town.chain("more", Encapsulation::Nsh, &[&["v4"]], &[]);
    });
    assert_eq!(unconcerned, known);
    // A rule more at its port might have taken it.
    let concerned = change(&mut rig, &|town| {
        town.chains[1].rules = rules(PLAIN_PORT).into_iter().map(|rule| (1, rule)).collect();
    });
    assert_eq!(concerned, first);
    assert_eq!(change(&mut rig, &|_| ()), known);
    rig.check();
}
