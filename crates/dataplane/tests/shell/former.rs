//! What data planes kept before there were deltas is what runs after an upgrade.

use crate::agent::TestAgent;
use crate::deltas::slice_with_path;
use crate::is_privileged;
use crate::node::{Machine, entries, packed, program};
use catena_model::entry::{self, checksum};
use catena_model::id::SliceId;
use catena_model::{BlueprintNumber, NodeProgram};
use catena_protocol::delta::deltas;
use catena_protocol::message::{Program, Slice, SliceDelta, SlicePath};
use prost::Message;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use uuid::Uuid;

/// What is left out where it says nothing.
const LEFT_OUT: [&str; 6] =
    ["choice_seed", "slices", "slice_paths", "own_sources", "is_way_back", "keeps_mac"];

/// As a program was written then.
fn old_form(program: &NodeProgram) -> Vec<u8> {
    fn leave_out(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let says_nothing = |value: &Value| {
                    let empty =
                        [Value::Null, Value::Bool(false), 0.into(), Value::Array(Vec::new())];
                    empty.contains(value)
                };
                fields.retain(|name, value| {
                    !LEFT_OUT.contains(&name.as_str()) || !says_nothing(value)
                });
                fields.values_mut().for_each(leave_out);
            }
            Value::Array(values) => values.iter_mut().for_each(leave_out),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(program).unwrap();
    leave_out(&mut value);
    let body = serde_json::to_vec(&value).unwrap();
    let (number, checksum) = (program.number.0, checksum(&body));
    Program { number, body, checksum, slices_file: 0 }.encode_to_vec()
}

fn with_slices_file(old: &[u8], slices_file: u64) -> Vec<u8> {
    Program { slices_file, ..Program::decode(old).unwrap() }.encode_to_vec()
}

fn id(number: u128) -> SliceId {
    SliceId(Uuid::from_u128(number))
}

fn old_slice(number: u32) -> (Slice, SlicePath) {
    let id = id(number.into()).0.as_bytes().to_vec();
    let path = 1_000 + number;
    let slice = Slice {
        id: id.clone(),
        name: format!("slice{number}"),
        path,
        vni: Some(number),
        ..Slice::default()
    };
    (slice, SlicePath { id: path, slice: id, like: 5, carries_metadata: false })
}

fn change(number: u64, is_last: bool, comes: &[u32]) -> SliceDelta {
    let (slices, paths) = comes.iter().map(|number| old_slice(*number)).unzip();
    let node = "host1".into();
    SliceDelta { node, base: number - 1, number, is_last, slices, paths, ..SliceDelta::default() }
}

/// The file of these changes.
fn old_slices(changes: &[SliceDelta]) -> Vec<u8> {
    let record = |change: &SliceDelta| {
        let body = change.encode_to_vec();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&length[..], &checksum(&body).to_be_bytes(), &body].concat()
    };
    changes.iter().flat_map(record).collect()
}

fn files(state_dir: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(state_dir).unwrap().map(|file| file.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name != "lock").collect()
}

#[tokio::test]
async fn a_program_of_before_is_run_and_kept_as_programs_are_now() {
    if !is_privileged("a_program_of_before_is_run_and_kept_as_programs_are_now") {
        return;
    }
    let machine = Machine::new().await;
    let state = machine.state_dir();
    fs::create_dir(&state).unwrap();
    let of_lately = NodeProgram { choice_seed: 7, ..program(5) };
    for program in [program(5), of_lately] {
        let old = old_form(&program);
        assert!(!String::from_utf8_lossy(&old).contains("own_sources"));
        fs::remove_file(state.join("program.log")).ok();
        fs::write(state.join("program.pb"), with_slices_file(&old, 6)).unwrap();
        let gone = SliceDelta {
            removed: id(1).0.as_bytes().to_vec(),
            removed_paths: vec![1_001],
            ..change(8, true, &[])
        };
        let torn = change(9, false, &[4]);
        let changes = [change(6, false, &[1]), change(6, true, &[2]), change(7, true, &[3])];
        let changes = [&changes[..], &[gone, torn]].concat();
        fs::write(state.join("slices.6"), old_slices(&changes)).unwrap();
        for left in ["slices.4", "program.pb.draft", "program.pb.former"] {
            fs::write(state.join(left), "left").unwrap();
        }

        let mut expected = entries(&program).entries;
        [2, 3].into_iter().for_each(|number| slice_with_path(&mut expected, number));
        let expected = entry::Program::new(BlueprintNumber(8), expected);
        for start in ["the first", "the second"] {
            let dataplane = machine.start();
            let mut agent = TestAgent::connect(&machine.socket_path());
            let told = agent.state();
            assert_eq!(told.program_number, 8, "{start}");
            assert_eq!(agent.slices(), [id(2), id(3)], "{start}");
            assert_eq!(agent.counters().chains.len(), 1, "{start}");
            assert_eq!(files(&state), BTreeSet::from(["program.log".to_owned()]), "{start}");
            assert_eq!(told.program_digest, expected.digest.0, "{start}");
            assert!(agent.offer(packed(7)).contains("older than program 8"), "{start}");
            dataplane.stop();
        }
    }
}

#[tokio::test]
async fn a_program_of_before_runs_where_the_disk_takes_nothing_and_not_where_it_is_torn() {
    if !is_privileged(
        "a_program_of_before_runs_where_the_disk_takes_nothing_and_not_where_it_is_torn",
    ) {
        return;
    }
    let machine = Machine::new().await;
    let state = machine.state_dir();
    let (old, draft) = (state.join("program.pb"), state.join("program.log.draft"));
    fs::create_dir(&state).unwrap();
    let whole = old_form(&program(5));
    let of_another = NodeProgram { node: "host9".parse().unwrap(), ..program(5) };
    let mut altered = whole.clone();
    altered[100] ^= 1;
    for none in [&whole[..whole.len() / 2], &altered, &old_form(&of_another)] {
        fs::write(&old, none).unwrap();
        let dataplane = machine.start();
        assert_eq!(TestAgent::connect(&machine.socket_path()).state().program_number, 0);
        dataplane.stop();
    }

    fs::write(&old, whole).unwrap();
    // A draft that cannot be written stands for a full disk.
    fs::create_dir(&draft).unwrap();
    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    let told = agent.state();
    assert_eq!(told.program_number, 5);
    let running = entries(&program(5));
    let next = running.following(BlueprintNumber(6), entry::Entries::default());
    let next = deltas(&program(5).node, &running, &next);
    assert!(agent.offer(next.clone()).contains("make room"));
    assert_eq!(agent.state(), told);
    fs::remove_dir(&draft).unwrap();
    assert_eq!(agent.offer(next), "");
    dataplane.stop();

    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_number, 6);
    assert_eq!(files(&state), BTreeSet::from(["program.log".to_owned()]));
}
