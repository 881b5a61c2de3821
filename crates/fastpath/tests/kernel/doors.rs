//! The tables by their descriptors.

use crate::{SIZES, load, needs_privilege, open};
use catena_fastpath::{
    FlowKey, Guard, Operation, Port, Program, Settings, TableError, Transform, TransformError,
};
use catena_wire::scalar::MacAddr;
use std::collections::BTreeSet;

fn key(number: u32) -> FlowKey {
    FlowKey { origin: 1, family: 4, protocol: 6, door: number, ..FlowKey::default() }
}

fn transform() -> Transform {
    let made = Transform::default().then(Operation::set_destination(MacAddr([2, 0, 0, 0, 0, 9])));
    made.unwrap().then(Operation::count(3)).unwrap().then(Operation::transmit(7)).unwrap()
}

#[test]
fn what_is_put_into_the_tables_is_found_there_until_it_is_taken_out() {
    needs_privilege!("what_is_put_into_the_tables_is_found_there_until_it_is_taken_out");
    let (_program, tables) = load();
    assert_eq!(tables.flows_max(), SIZES.flows);
    assert_eq!(tables.slots_max(), SIZES.slots);
    assert_eq!(tables.accounts_max(), SIZES.accounts);
    assert_eq!(tables.entry(&key(1)).unwrap(), None);
    for number in 1..=600 {
        tables.install(&key(number), &transform(), None).unwrap();
    }
    let entry = tables.entry(&key(600)).unwrap().unwrap();
    assert_eq!((entry.transform, entry.packets, entry.seen_ns), (transform(), 0, 0));
    let mut found = BTreeSet::new();
    tables.walk(|key, entry| assert!(found.insert(key.door) && entry.gate == 0)).unwrap();
    assert_eq!(found, (1..=600).collect());
    assert!(tables.remove(&key(600)).unwrap());
    assert!(!tables.remove(&key(600)).unwrap());
    let settings = Settings {
        punt_ifindex: 5,
        is_off: 0,
        underlay_address: 6,
        queue_frames: 0,
        locator_high: 7,
        locator_low: 8,
        has_locator: 9,
    };
    tables.set_settings(settings);
    assert_eq!(tables.settings(), settings);
    tables.set_port(3, Port { number: 1, is_watched: 0, link: 0 }).unwrap();
    assert!(tables.clear_port(3).unwrap() && !tables.clear_port(3).unwrap());
}

#[test]
fn another_process_takes_over_what_still_is_in_the_kernel_and_nothing_that_is_gone() {
    needs_privilege!(
        "another_process_takes_over_what_still_is_in_the_kernel_and_nothing_that_is_gone"
    );
    let (program, tables) = load();
    tables.install(&key(1), &transform(), None).unwrap();
    tables.set_port(3, Port { number: 9, is_watched: 0, link: 0 }).unwrap();
    let identifiers = program.identifiers().unwrap();
    let adopted = Program::adopt(&identifiers).unwrap();
    assert_eq!(adopted.identifiers().unwrap(), identifiers);
    drop((program, tables));
    let tables = open(&adopted);
    assert_eq!(tables.entry(&key(1)).unwrap().map(|entry| entry.transform), Some(transform()));
    let mut ports = Vec::new();
    tables.walk_ports(|interface, port| ports.push((interface, port.number))).unwrap();
    assert_eq!(ports, [(3, 9)]);
    assert!(Program::adopt(&identifiers[1..]).is_err());
    drop((adopted, tables));
    let mut outcome = Program::adopt(&identifiers);
    // The kernel takes programs and tables apart some time after their last descriptor is closed.
    for _ in 0..1_000 {
        if outcome.is_err() {
            return;
        }
        drop(outcome);
        std::thread::sleep(std::time::Duration::from_millis(10));
        outcome = Program::adopt(&identifiers);
    }
    panic!("it never goes");
}

#[test]
fn a_list_that_the_program_could_not_follow_is_refused() {
    needs_privilege!("a_list_that_the_program_could_not_follow_is_refused");
    let (_program, tables) = load();
    let refused = |transform| tables.install(&key(1), &transform, None).unwrap_err();
    let endless = Transform::default().then(Operation::count(1)).unwrap();
    assert!(matches!(refused(endless), TableError::Transform(TransformError::Exit)));
    let late = transform().then(Operation::count(1)).unwrap();
    assert!(matches!(refused(late), TableError::Transform(TransformError::Exit)));
    let cut = Transform::default().then(Operation::trim(13)).unwrap();
    let cut = cut.then(Operation::transmit(1)).unwrap();
    assert!(matches!(refused(cut), TableError::Transform(TransformError::Bytes(0))));
    let beyond = Transform::default().then(Operation::count(64)).unwrap();
    let beyond = beyond.then(Operation::transmit(1)).unwrap();
    assert!(matches!(refused(beyond), TableError::Number { what: "account", number: 64, .. }));
    let slot = transform().guarded_by(Guard { slot: 64, epoch: 0 }).unwrap();
    assert!(matches!(refused(slot), TableError::Number { what: "slot", number: 64, .. }));
    let gated = tables.install(&key(1), &transform(), Some(16)).unwrap_err();
    assert!(matches!(gated, TableError::Number { what: "gate", number: 16, .. }));
}

#[test]
fn who_has_given_up_all_capabilities_still_writes_by_descriptor() {
    needs_privilege!("who_has_given_up_all_capabilities_still_writes_by_descriptor");
    let (program, _) = load();
    let fds = program.tables().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    std::thread::spawn(move || {
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).unwrap();
        let tables = catena_fastpath::Tables::open(fds).unwrap();
        tables.install(&key(1), &transform(), None).unwrap();
        tables.walk(|found, _| assert_eq!(*found, key(1))).unwrap();
        assert!(tables.remove(&key(1)).unwrap());
        tables.bump(1);
        assert_eq!(tables.guard(1), Guard { slot: 1, epoch: 1 });
        assert!(catena_fastpath::Program::load(SIZES).is_err(), "but makes nothing new");
    })
    .join()
    .unwrap();
}
