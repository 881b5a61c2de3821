//! Changes of programs, part by part: taken with all of their parts or not at all, and on disk before
//! they are acknowledged.

use crate::agent::TestAgent;
use crate::is_privileged;
use crate::node::{D, Machine, S, entries, packed, port, program};
use catena_model::discovery::DiscoveryKey;
use catena_model::entry::{Change, ChangeError, Edit, Entries, Program};
use catena_model::id::{ChainId, SliceId};
use catena_model::limits::DELTA_ENTRIES_MAX;
use catena_model::program::{
    ChainEntry, ExitEntry, ExitPlace, NodeEntry, SliceEntry, SliceMatch, SlicePathEntry,
    SlicePolicy,
};
use catena_model::slice::{SlicePlace, TunnelId, Vni};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeName, PathId};
use catena_protocol::delta::deltas;
use catena_protocol::message::{Delta, State};
use std::fs;
use std::sync::Arc;
use uuid::Uuid;

fn chain(number: u128, name: &str) -> ChainEntry {
    ChainEntry { id: ChainId(Uuid::from_u128(number)), name: name.into() }
}

/// The program that a change of the entries makes.
fn after(former: &Program, number: u64, change: impl FnOnce(&mut Entries)) -> Program {
    let mut entries = former.entries.clone();
    change(&mut entries);
    former.following(BlueprintNumber(number), entries)
}

/// The first of all programs, and one with three more chains.
fn two() -> (Program, Program) {
    let first = entries(&program(1));
    let second = after(&first, 2, |entries| {
        for number in 1..=3 {
            let chain = chain(number, "new");
            entries.chains.insert(chain.id, chain.into());
        }
    });
    (first, second)
}

fn change(from: &Program, to: &Program) -> Delta {
    let [change] = &deltas(&NodeName::new("host1").unwrap(), from, to)[..] else { panic!() };
    change.clone()
}

/// The same change with each of its edits in a part of its own.
fn in_parts(change: &Delta) -> Vec<Delta> {
    let edits = Change::read_all(&change.changes, 100).unwrap();
    let last = edits.len() - 1;
    let part = |(place, edit): (usize, &Change)| Delta {
        changes: edit.bytes(),
        is_last: place == last,
        ..change.clone()
    };
    edits.iter().enumerate().map(part).collect()
}

/// All that a node must still have after a refusal.
fn standing(machine: &Machine, agent: &mut TestAgent) -> (State, Vec<u8>) {
    (agent.state(), fs::read(machine.state_dir().join("program.log")).unwrap())
}

/// Changes that are none, each with what its refusal says.
fn faults() -> Vec<(&'static str, Delta)> {
    let (first, second) = two();
    let good = change(&first, &second);
    let with = |edits: &[Change]| Delta {
        changes: edits.iter().flat_map(Change::bytes).collect(),
        ..good.clone()
    };
    let lead_nowhere = after(&first, 2, |entries| drop(entries.paths.remove(&PathId(5))));
    let nobody = chain(99, "nobody");
    let edit = |edit: Edit<ChainEntry>| Change::Chain(nobody.id, edit);
    let comes = edit(Edit::Add(nobody.clone().into()));
    let mut behind = good.clone();
    behind.changes.extend([0xff; 4]);
    let mut cut = good.clone();
    cut.changes.pop();
    vec![
        ("cannot be read, from byte 0", Delta { changes: vec![0x7f, 1, 2], ..good.clone() }),
        ("cannot be read, from byte", behind),
        ("cannot be read, from byte", cut),
        ("which is not there", with(&[edit(Edit::Remove)])),
        ("which is not there", with(&[edit(Edit::Replace(nobody.clone().into()))])),
        ("adds an entry of chains", with(&[comes.clone(), comes])),
        ("path 5, which is not in the program", change(&first, &lead_nowhere)),
        ("not program 2 as its controller has it", with(&[])),
        ("not program 2 as its controller", Delta { digest: good.digest + 1, ..good.clone() }),
        ("more than 16384 entries", with(&vec![edit(Edit::Remove); DELTA_ENTRIES_MAX + 1])),
        ("does not run here", Delta { base_digest: good.base_digest + 1, ..good.clone() }),
        ("does not run here", Delta { base: 2, ..good }),
    ]
}

#[tokio::test]
async fn what_is_no_change_of_what_runs_is_refused_by_name_and_the_former_goes_on() {
    if !is_privileged("what_is_no_change_of_what_runs_is_refused_by_name_and_the_former_goes_on") {
        return;
    }
    let machine = Machine::new().await;
    let (_dataplane, mut agent) = machine.start_whole(1, 1).await;
    let before = standing(&machine, &mut agent);
    for (said, fault) in faults() {
        let result = agent.tell(fault);
        assert!(result.refusal.contains(said), "{said}: {result:?}");
        assert!(result.needs_whole && !result.is_part && result.ports.is_empty(), "{result:?}");
        assert_eq!(standing(&machine, &mut agent), before, "after {said}");
    }
    let (first, second) = two();
    let good = change(&first, &second);
    let foreign = agent.tell(Delta { node: "host2".into(), ..good.clone() });
    assert!(foreign.refusal.contains("is for node 'host2'") && !foreign.needs_whole, "{foreign:?}");
    assert_eq!(standing(&machine, &mut agent), before);
    assert_eq!(agent.counters().ports.len(), 4, "and its ports are served");
    assert_eq!(agent.offer([good]), "", "the same number, as it should be");
    assert_eq!(agent.state().program_digest, second.digest.0);
}

#[tokio::test]
async fn a_whole_program_that_is_none_is_refused_for_good() {
    if !is_privileged("a_whole_program_that_is_none_is_refused_for_good") {
        return;
    }
    let machine = Machine::new().await;
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(packed(1)), "");
    let before = standing(&machine, &mut agent);
    let (first, second) = two();
    let all = change(&Program::default(), &second);
    let lead_nowhere = after(&first, 2, |entries| drop(entries.paths.remove(&PathId(5))));
    let mut cut = all.clone();
    cut.changes.pop();
    for (said, fault) in [
        ("cannot be read", cut),
        ("cannot be read", Delta { changes: vec![0xff; 9], ..all.clone() }),
        ("which is not there", Delta { changes: change(&second, &first).changes, ..all.clone() }),
        ("path 5, which is not in the program", change(&Program::default(), &lead_nowhere)),
        ("not program 2 as", Delta { digest: all.digest + 1, ..all.clone() }),
    ] {
        let result = agent.tell(fault);
        assert!(result.refusal.contains(said) && !result.needs_whole, "{said}: {result:?}");
        assert_eq!(standing(&machine, &mut agent), before, "after {said}");
    }
    assert_eq!(agent.offer([all]), "");
}

#[tokio::test]
async fn parts_make_a_program_in_their_order_and_one_that_comes_again_is_taken_again() {
    if !is_privileged("parts_make_a_program_in_their_order_and_one_that_comes_again_is_taken_again")
    {
        return;
    }
    let machine = Machine::new().await;
    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(packed(1)), "");
    let before = standing(&machine, &mut agent);
    let (first, second) = two();
    let parts = in_parts(&change(&first, &second));

    // One is left out, one comes twice, the last alone.
    for order in [&[0, 2][..], &[0, 1, 1], &[2]] {
        let results: Vec<_> = order.iter().map(|place| agent.tell(parts[*place].clone())).collect();
        let (last, others) = results.split_last().unwrap();
        assert!(others.iter().all(|result| result.is_part), "{order:?}: {results:?}");
        assert!(last.needs_whole, "{order:?}: {last:?}");
        assert_eq!(standing(&machine, &mut agent), before);
    }
    // The first once more begins it anew, for another agent too.
    assert!(agent.tell(parts[0].clone()).is_part && agent.tell(parts[1].clone()).is_part);
    drop(agent);
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(standing(&machine, &mut agent), before);
    assert_eq!(agent.offer(parts.clone()), "");
    let now = standing(&machine, &mut agent);
    assert_eq!((now.0.program_number, now.0.program_digest), (2, second.digest.0));
    // All of it again: its acknowledgement was lost.
    assert_eq!(agent.offer(parts), "");
    assert_eq!(standing(&machine, &mut agent), now);

    // Another change takes the place of one that is unfinished.
    let third = after(&second, 3, |entries| drop(entries.chains.remove(&chain(1, "").id)));
    let other = after(&second, 3, |entries| entries.chains.clear());
    let parts = in_parts(&change(&second, &other));
    assert!(agent.tell(parts[0].clone()).is_part);
    assert_eq!(agent.offer([change(&second, &third)]), "");
    assert!(agent.tell(parts[1].clone()).needs_whole);
    let fourth = after(&third, 4, |entries| entries.chains.clear());
    let wholes = in_parts(&change(&Program::default(), &fourth));
    assert!(agent.tell(wholes[0].clone()).is_part);
    dataplane.stop();

    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_number, 3, "what was not whole is not on disk");
    assert!(agent.tell(wholes[1].clone()).is_part, "it begins anew");
    assert_eq!(agent.offer([change(&third, &fourth)]), "");
}

#[tokio::test]
async fn the_agent_hears_which_ports_and_links_are_others_and_who_it_is() {
    if !is_privileged("the_agent_hears_which_ports_and_links_are_others_and_who_it_is") {
        return;
    }
    let machine = Machine::new().await;
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    let ports = |bytes: &[u8]| -> Result<Vec<Change>, ChangeError> { Change::read_all(bytes, 100) };
    let first = entries(&program(1));
    let all: Vec<Change> = {
        let itself = Change::Node((), Edit::Add(first.entries.node[&()].clone()));
        let added = first.entries.ports.iter();
        let added = added.map(|(id, entry)| Change::Port(*id, Edit::Add(entry.clone())));
        std::iter::once(itself).chain(added).collect()
    };
    let told = agent.tell(packed(1).remove(0)).ports;
    assert_eq!(ports(&told), Ok(all.clone()));
    assert_eq!(agent.state().ports, told);

    let mut renamed = first.entries.ports[&port(D)].as_ref().clone();
    renamed.name = "other".into();
    let number = PortNumber::new(7).unwrap();
    let exit = Arc::new(ExitEntry { number, to: ExitPlace::Link("eth7".into()) });
    let key = DiscoveryKey::new([7; 16]);
    let own = Arc::new(NodeEntry { discovery_key: Some(key), ..*first.entries.node[&()].as_ref() });
    let second = after(&first, 2, |entries| {
        entries.node.insert((), own.clone());
        entries.exits.insert(number, exit.clone());
        entries.ports.insert(port(D), renamed.clone().into());
        entries.ports.remove(&port(S));
        entries.chains.clear();
    });
    let told = agent.tell(change(&first, &second)).ports;
    let replaced = Change::Port(port(D), Edit::Replace(renamed.into()));
    let expected = [
        Change::Node((), Edit::Replace(own)),
        Change::Port(port(S), Edit::Remove),
        replaced,
        Change::Exit(number, Edit::Add(exit)),
    ];
    assert_eq!(ports(&told).unwrap(), expected);
    assert_eq!(ports(&agent.state().ports).unwrap().len(), 5);
    // A whole says as much.
    let third = after(&second, 3, |entries| {
        entries.ports = first.entries.ports.clone();
        entries.exits.clear();
        entries.node = first.entries.node.clone();
    });
    let told = agent.tell(change(&Program::default(), &third)).ports;
    assert_eq!(ports(&told).unwrap().len(), 4);
    assert_eq!(ports(&agent.state().ports), Ok(all));
}

/// A slice of the network of that number, with a path of its own.
pub(crate) fn slice_with_path(entries: &mut Entries, number: u32) {
    let (id, path) = (SliceId(Uuid::from_u128(number.into())), PathId(1_000 + number));
    let tunnel_id = Some(TunnelId::Vni(Vni::new(number).unwrap()));
    let slice = SliceEntry {
        id,
        name: format!("slice{number}"),
        matches: SliceMatch { place: SlicePlace::Endpoints, tunnel_id, teids: None, qfi: None },
        path,
        policy: SlicePolicy::default(),
        is_injected: false,
    };
    entries.slices.insert(id, slice.into());
    let own = SlicePathEntry { id: path, slice: id, like: PathId(5), carries_metadata: false };
    entries.slice_paths.insert(path, own.into());
}

#[tokio::test]
async fn what_was_acknowledged_runs_after_a_restart_however_long_the_row_of_changes() {
    if !is_privileged("what_was_acknowledged_runs_after_a_restart_however_long_the_row_of_changes")
    {
        return;
    }
    const LONG: usize = 900_000;
    const CHANGES: u64 = 24;
    let machine = Machine::new().await;
    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(packed(1)), "");
    let log = machine.state_dir().join("program.log");
    let length = || fs::metadata(&log).unwrap().len();
    let mut running = entries(&program(1));
    let mut longest = 0;
    for number in 2..CHANGES {
        let next = after(&running, number, |entries| {
            let long = chain(1, &char::from(b'a' + (number % 26) as u8).to_string().repeat(LONG));
            entries.chains.insert(long.id, long.into());
            slice_with_path(entries, u32::try_from(number).unwrap());
        });
        assert_eq!(agent.offer([change(&running, &next)]), "");
        longest = length().max(longest);
        running = next;
    }
    assert!(longest > 15 << 20 && length() < 6 * LONG as u64, "{longest}, then {}", length());
    assert_eq!(fs::read_dir(machine.state_dir()).unwrap().count(), 2, "the log and the lock");
    let slices: Vec<SliceId> = running.entries.slices.keys().copied().collect();
    assert_eq!(agent.slices(), slices);
    dataplane.stop();

    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    let state = agent.state();
    assert_eq!((state.program_number, state.program_digest), (CHANGES - 1, running.digest.0));
    assert_eq!(agent.slices(), slices);
    let last = after(&running, CHANGES, |entries| {
        entries.slices.clear();
        entries.slice_paths.clear();
    });
    assert_eq!(agent.offer([change(&running, &last)]), "", "changes go on from there");
    dataplane.stop();

    // What a crash left behind is no part of it.
    let bytes = [&fs::read(&log).unwrap()[..], &[0, 0, 0, 9, 1, 2]].concat();
    fs::write(&log, &bytes).unwrap();
    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_digest, last.digest.0);
    assert_eq!(length(), bytes.len() as u64 - 6);
    assert_eq!(agent.slices(), []);
}
