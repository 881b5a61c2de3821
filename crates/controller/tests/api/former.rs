//! What a former controller kept is what one of today goes on with.

use crate::support::agent::{FakeAgent, State};
use crate::support::{Controller, eventually, open};
use serde_json::Value;
use std::collections::BTreeMap;

/// The store of a controller of commit 94ab204: two chains, nine slices of which one was removed, and
/// one node, which ran program 25. Written down by that controller, and put into text.
const STORE: &str = include_str!("../fixtures/store-94ab204.sql");
const RUNNING: u64 = 25;

/// The paths of the chains and those of the slices, by name.
fn paths(controller: &Controller) -> BTreeMap<String, u64> {
    let of = |name: &Value, status: &Value| {
        let is_active = status["state"] == "active";
        is_active.then(|| (name.as_str().unwrap().to_owned(), status["path"].as_u64().unwrap()))
    };
    let (chains, slices) = (controller.get("/v1/chains"), controller.get("/v1/slices"));
    let chains = chains.as_array().unwrap().iter().filter_map(|chain| of(&chain["name"], chain));
    let slices = slices.as_array().unwrap().iter();
    chains.chain(slices.filter_map(|s| of(&s["slice"]["name"], &s["status"]))).collect()
}

#[test]
fn a_store_of_commit_94ab204_goes_on_with_its_paths_at_the_first_start_and_after() {
    let data = tempfile::tempdir().unwrap();
    rusqlite::Connection::open(data.path().join("catena.db"))
        .unwrap()
        .execute_batch(STORE)
        .unwrap();
    // The third slice was removed.
    let slices = (1..=9u64).filter(|number| *number != 3);
    let slices = slices.map(|number| (format!("u{number}"), 524_287 + number));
    let chains = [("red".to_owned(), 16), ("blue".to_owned(), 17)];
    let expected: BTreeMap<String, u64> = chains.into_iter().chain(slices).collect();
    for _ in 0..2 {
        let controller = Controller::start(open(data.path()));
        let mut state = State::default();
        state.told.number = catena_model::BlueprintNumber(RUNNING);
        let agent = FakeAgent::connect_running(data.path(), "sff", 1, controller.southbound, state);
        eventually("everything in force, by the same paths", || {
            (paths(&controller) == expected).then_some(())
        });
        assert!(agent.program().unwrap().number.0 > RUNNING);
        controller.stop();
    }
}
