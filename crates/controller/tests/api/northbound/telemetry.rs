//! Chains with telemetry: how they are declared, changed and told of, and what is refused.

use super::moves::{House, LONG, change};
use crate::support::agent::{FakeAgent, State};
use crate::support::{Controller, open};
use catena_model::telemetry::{DeviceId, Telemetry, TelemetryField};
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::path::Path;

/// Hosts with places in the IPv6 underlay, and their chain carried by segments.
pub(super) fn segmented(data: &Path) -> House {
    let place = |host: u8| (format!("2001:db8::{host}"), format!("5f00:0:{host}::/48"));
    let house =
        House::start_with(data, LONG, |host| State { segments: place(host), ..State::default() });
    let (status, report) = change(&house.controller, "web", &json!({"encapsulation": "srv6"}));
    assert_eq!((status, &report["status"]["state"]), (200, &json!("active")), "{report}");
    house
}

fn ask(house: &House, telemetry: &Value) -> (u16, Value) {
    change(&house.controller, "web", &json!({ "telemetry": telemetry }))
}

#[test]
fn telemetry_is_given_changed_and_taken_away_on_paths_of_their_own() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    assert_eq!((&house.at_border()["telemetry"], house.path().telemetry), (&Value::Null, None));
    let all = json!({
        "fields": ["device", "arrival", "latency", "queue", "counter"], "mirror": 64, "colour": 0,
        "latency_limit_us": null,
    });
    let some = json!({
        "fields": ["latency", "device"], "mirror": 1, "colour": 7, "latency_limit_us": 1_000,
    });
    let said = json!({
        "fields": ["device", "latency"], "mirror": 1, "colour": 7, "latency_limit_us": 1_000,
    });
    let expected = Telemetry {
        fields: [TelemetryField::Device, TelemetryField::Latency].into(),
        mirror: NonZeroU32::MIN,
        colour: 7,
        latency_limit_us: NonZeroU32::new(1_000),
    };
    for (given, told, at_nodes) in [
        (json!({}), all, Some(Telemetry::default())),
        (some, said, Some(expected)),
        (Value::Null, Value::Null, None),
    ] {
        let former = house.path().id;
        let (status, report) = ask(&house, &given);
        assert_eq!((status, &report["telemetry"]), (200, &told), "{report}");
        assert_eq!(report["status"]["state"], "active", "{report}");
        assert_eq!(report["receipt"]["drained"][0]["path"], json!(former), "{report}");
        assert_eq!(house.at_border()["telemetry"], told);
        assert_eq!(house.controller.get("/v1/chains/web")["telemetry"], told);
        assert_eq!(house.path().telemetry, at_nodes);
        let program = house.agents[1].program().unwrap();
        let path = program.paths.iter().find(|path| path.id == house.path().id).unwrap();
        assert_eq!(path.telemetry, at_nodes, "where it ends");
    }
}

#[test]
fn what_says_nothing_or_has_no_room_is_refused_by_name_and_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    let (status, report) = ask(&house, &json!({"mirror": 8}));
    assert_eq!(status, 200, "{report}");
    let (stored, path) = (house.at_border(), house.path().id);
    for (body, status, words) in [
        (json!({"telemetry": {"mirror": 0}}), 400, ["'mirror'", "1 is each"]),
        (json!({"telemetry": {"fields": []}}), 400, ["'fields'", "take the telemetry away (null)"]),
        (json!({"telemetry": {"fields": ["delay"]}}), 400, ["`delay`", "`latency`"]),
        (json!({"telemetry": {"color": 7}}), 400, ["`color`", "`colour`"]),
        (json!({"telemetry": {"colour": 256}}), 400, ["256", "u8"]),
        (json!({"telemetry": {"latency_limit_us": 0}}), 400, ["0", "nonzero"]),
        (
            json!({"encapsulation": "nsh"}),
            409,
            ["nsh has no room", "take its telemetry away first"],
        ),
        (
            json!({"encapsulation": "source-route/native", "telemetry": {}}),
            409,
            ["source-route/native has no room", "srv6, srv6/ethernet"],
        ),
    ] {
        let (told, problem) = change(&house.controller, "web", &body);
        let detail = problem["detail"].as_str().unwrap_or_default();
        let is_told = words.iter().all(|word| detail.contains(word));
        assert!(told == status && is_told, "{body}: {told} {problem}");
    }
    assert_eq!((house.at_border(), house.path().id), (stored, path), "nothing is half applied");
    // What is refused one by one is one change together.
    let both = json!({"encapsulation": "nsh", "telemetry": null});
    let (status, report) = change(&house.controller, "web", &both);
    assert_eq!((status, &report["status"]["state"]), (200, &json!("active")), "{report}");
    let (status, problem) = ask(&house, &json!({}));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 409 && detail.contains("one of srv6, srv6/ethernet"), "{problem}");
    // Two segments before packets fit with tenants' 1,400 bytes, and before frames they do not.
    let back = json!({"encapsulation": "srv6", "telemetry": {}});
    let (status, report) = change(&house.controller, "web", &back);
    assert_eq!((status, &report["status"]["state"]), (200, &json!("active")), "{report}");
}

#[test]
fn what_is_inside_is_chosen_by_a_word_of_its_own() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    let carrier = || house.controller.get("/v1/chains/web")["encapsulation"].clone();
    for (body, carried) in [
        (json!({"encapsulation": "srv6", "payload": "ip"}), "srv6"),
        (json!({"payload": "ethernet"}), "srv6/ethernet"),
        (json!({"payload": "ip"}), "srv6"),
        (json!({"encapsulation": "srv6", "payload": "ethernet"}), "srv6/ethernet"),
        (json!({"encapsulation": "srv6"}), "srv6"),
    ] {
        let (status, report) = change(&house.controller, "web", &body);
        assert_eq!((status, &carrier()), (200, &json!(carried)), "{body}: {report}");
    }
    for (body, words) in [
        (json!({"payload": "frames"}), ["`frames`", "`ethernet`"]),
        (json!({"encapsulation": "srv6/ethernet", "payload": "ip"}), ["carries frames", "'srv6'"]),
        (json!({"encapsulation": "nsh", "payload": "ip"}), ["'payload' goes with", "nsh"]),
    ] {
        let (status, problem) = change(&house.controller, "web", &body);
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && words.iter().all(|word| detail.contains(word)), "{problem}");
    }
    assert_eq!(carrier(), json!("srv6"), "nothing is half applied");
}

#[test]
fn numbers_of_nodes_are_told_and_kept_by_the_next_controller() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    let numbers = |controller: &Controller| {
        ["host1", "host2"].map(|node| {
            let shown = controller.get(&format!("/v1/nodes/{node}"));
            (shown["segments"]["locator"].clone(), shown["device"].clone())
        })
    };
    let locator = |host: u8| json!(format!("5f00:0:{host}::/48"));
    let expected = numbers(&house.controller);
    assert_eq!(expected.each_ref().map(|(locator, _)| locator), [&locator(1), &locator(2)]);
    let devices = expected.each_ref().map(|(_, device)| device.as_u64().unwrap());
    assert!(devices.contains(&1) && devices.contains(&2), "{devices:?}");
    let told = house.agents[1].program().unwrap().locators;
    let told: Vec<_> = told.into_iter().map(|one| one.device).collect();
    assert_eq!(told, devices.map(|device| Some(DeviceId(u16::try_from(device).unwrap()))));
    let House { controller, agents, .. } = house;
    agents.into_iter().for_each(|agent: FakeAgent| drop(agent.disconnect()));
    controller.stop();
    let controller = Controller::start(open(data.path()));
    assert_eq!(numbers(&controller), expected);
}
