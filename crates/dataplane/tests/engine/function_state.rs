//! What functions remember is handed out, change by change, and taken up by an engine that comes after.

use crate::functions::{STATEFUL, SYN_ACK, both_ways, firewall, from_port, tcp};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet};
use crate::town::{Town, node_name};
use catena_dataplane::engine::{EngineConfig, RememberedState, StateChange, StateEntry};
use catena_model::bundle::Configuration;
use catena_model::id::InstanceId;
use catena_model::limits::FUNCTION_FRAGMENTED_MAX;
use catena_model::resource::Encapsulation;
use catena_wire::tcp::TcpFlags;
use std::collections::BTreeMap;

/// The node of the firewall.
const AT: usize = 1;

/// What a store has of it.
#[derive(Default, PartialEq, Debug)]
struct Store(BTreeMap<(InstanceId, Vec<u8>), Vec<u8>>);

impl Store {
    fn take(&mut self, changes: Vec<StateChange>) {
        for StateChange { instance, is_whole, entries } in changes {
            self.0.retain(|(of, _), _| !(is_whole && *of == instance));
            for StateEntry { key, value } in entries {
                match value {
                    Some(value) => self.0.insert((instance, key), value),
                    None => self.0.remove(&(instance, key)),
                };
            }
        }
    }

    fn remembered(&self) -> RememberedState {
        let mut all = RememberedState::new();
        for ((instance, key), value) in &self.0 {
            let entry = StateEntry { key: key.clone(), value: Some(value.clone()) };
            all.entry(*instance).or_default().push(entry);
        }
        all
    }
}

fn rig(before: &Store) -> Rig {
    rig_of(both_ways(STATEFUL), before)
}

fn rig_of(town: Town, before: &Store) -> Rig {
    let remembered = before.remembered();
    let keep = move |config: &mut EngineConfig| {
        let is_it = config.node == node_name(AT);
        config.functions_keep = is_it.then(|| remembered.clone());
    };
    Rig::of_engines(1, town, keep, 512)
}

fn told(rig: &mut Rig) -> Vec<StateChange> {
    rig.nodes[AT].engines[0].take_function_state(true)
}

/// Sends a packet of a connection; is it there?
fn send(rig: &mut Rig, flow: u16, flags: TcpFlags, sequence: u32) -> bool {
    let sent = tcp(&from_port(&packet(&rig.town, CHAINED_PORT), flow), flags, sequence);
    let (from, to, sent) = match flags {
        SYN_ACK => ("D", "S", sent.answer()),
        _ => ("S", "D", sent),
    };
    rig.send(from, &sent.frame());
    rig.take(to).len() == 1
}

#[test]
fn what_functions_remember_outlives_their_engine() {
    let mut store = Store::default();
    let mut former = rig(&store);
    for flow in 1..=20 {
        assert!(send(&mut former, flow, TcpFlags::SYN, 1));
    }
    store.take(told(&mut former));
    // What comes to be known behind the last word is lost.
    assert!(send(&mut former, 99, TcpFlags::SYN, 1));
    drop(former);
    let mut next = rig(&store);
    for flow in 1..=20 {
        assert!(send(&mut next, flow, SYN_ACK, 9), "flow {flow} is known");
        assert!(send(&mut next, flow, TcpFlags::ACK, 2), "flow {flow} goes on");
    }
    assert!(!send(&mut next, 99, SYN_ACK, 9));
    let mut without = rig(&Store::default());
    assert!(!send(&mut without, 1, SYN_ACK, 9), "it is the store that knows");
}

/// What was told so far is all that there is.
fn assert_sound(rig: &mut Rig, store: &mut Store) {
    store.take(told(rig));
    assert_eq!(told(rig), [], "nothing is told twice");
    let mut whole = Store::default();
    rig.nodes[AT].engines[0].tell_function_state_anew();
    let changes = told(rig);
    assert!(changes[0].is_whole);
    whole.take(changes);
    assert_eq!(*store, whole);
    assert!(!store.0.is_empty());
}

#[test]
fn each_change_is_told_once_and_all_of_them_are_what_there_is() {
    let mut rig = rig(&Store::default());
    let mut store = Store::default();
    for flow in 1..=5 {
        assert!(send(&mut rig, flow, TcpFlags::SYN, 1));
    }
    assert_sound(&mut rig, &mut store);
    // Two rule sets work on one state, and what the one learns the other tells.
    rig.town.number += 1;
    rig.town.chain("new", Encapsulation::Nsh, &[&["v2"]], &[]);
    let strict = format!("-A FORWARD -p tcp -m tcp --sport 4 -j DROP\n{STATEFUL}");
    rig.town.bundled.insert(("v2".into(), "new".into()), firewall(&strict));
    rig.apply();
    for turn in 0..7 {
        let turned = std::mem::take(&mut rig.town.chains[turn % 2 * 2].rules);
        rig.town.chains[2 - turn % 2 * 2].rules = turned;
        rig.town.number += 1;
        rig.apply();
        let flow = 10 + u16::try_from(turn).unwrap();
        assert!(send(&mut rig, flow, TcpFlags::SYN, 1));
        assert!(send(&mut rig, flow, SYN_ACK, 7));
        assert!(send(&mut rig, 1, SYN_ACK, 7));
        if turn % 3 == 1 {
            assert_sound(&mut rig, &mut store);
        }
    }
    // One of them goes, and with it the value that has learned last.
    assert!(send(&mut rig, 30, TcpFlags::SYN, 1));
    let gone = rig.town.chains.pop().unwrap();
    rig.town.chains[0].rules = gone.rules;
    rig.town.number += 1;
    rig.apply();
    assert!(send(&mut rig, 30, SYN_ACK, 7));
    assert_sound(&mut rig, &mut store);
}

#[test]
fn what_forgets_more_than_it_can_note_tells_what_is_left() {
    let mut town = both_ways("");
    let rules = r#"alert udp any any -> any any (msg:"it"; content:"never"; sid:1;)"#;
    let config = serde_json::json!({"file": {"name": "web.rules", "text": rules}}).to_string();
    let ids = Configuration::new("ids", config);
    town.bundled.insert(("v2".to_owned(), String::new()), ids);
    let (mut rig, mut store) = (rig_of(town, &Store::default()), Store::default());
    // First fragments whose others never come give way to one another.
    let mut first = packet(&rig.town, CHAINED_PORT);
    first.fragment = (0, true);
    for fragments in [10, 3 * FUNCTION_FRAGMENTED_MAX, 10] {
        for _ in 0..fragments {
            first.identification += 1;
            rig.send("S", &first.frame());
        }
        assert_sound(&mut rig, &mut store);
    }
}

#[test]
fn it_is_told_about_once_a_second_and_by_nobody_where_nobody_keeps_it() {
    let mut rig = rig(&Store::default());
    assert!(send(&mut rig, 1, TcpFlags::SYN, 1));
    let mut seen = Vec::new();
    for _ in 0..25 {
        rig.sleep(100);
        let engine = &mut rig.nodes[AT].engines[0];
        let mut told = engine.take_function_state(false).len();
        // In portions, between which packets go on.
        while engine.is_handing_out() {
            told += engine.take_function_state(false).len();
        }
        seen.push(told);
        assert!(send(&mut rig, 1, TcpFlags::ACK, 2) || send(&mut rig, 2, TcpFlags::SYN, 1));
    }
    assert_eq!(seen.iter().filter(|told| **told > 0).count(), 2, "{seen:?}");
    assert!(rig.nodes[0].engines[0].take_function_state(true).is_empty());
}
