//! Chains whose packets visit segments of others on their way: how those are declared, changed and told of, and what is
//! refused.

use super::moves::{House, change};
use super::telemetry::segmented;
use serde_json::{Value, json};

const CHAINS: &str = "/v2.0/sfc/port_chains";
const ROUTER: &str = "fc00:0:99::e";

fn ask(house: &House, via: &Value) -> (u16, Value) {
    change(&house.controller, "web", &json!({ "via": via }))
}

fn at_nodes(house: &House) -> Vec<Vec<String>> {
    let hops = house.path().hops.into_iter();
    hops.map(|hop| hop.via.iter().map(ToString::to_string).collect()).collect()
}

#[test]
fn segments_on_the_way_are_given_told_and_taken_away_on_paths_of_their_own() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    let groups = house.at_border()["port_pair_groups"].clone();
    assert_eq!(house.at_border()["via"], json!({}));
    let by_id = groups[1].as_str().unwrap();
    for (given, told, border) in [
        (json!({"v2": [ROUTER]}), json!({"v2": [ROUTER]}), json!({ by_id: [ROUTER] })),
        (
            json!({ by_id: ["fc00:0:98::E"] }),
            json!({"v2": ["fc00:0:98::e"]}),
            json!({ by_id: ["fc00:0:98::e"] }),
        ),
        (json!({}), Value::Null, json!({})),
    ] {
        let former = house.path().id;
        let (status, report) = ask(&house, &given);
        assert_eq!((status, &report["via"]), (200, &told), "{report}");
        assert_eq!(report["status"]["state"], "active", "{report}");
        assert_eq!(report["receipt"]["drained"][0]["path"], json!(former), "{report}");
        assert_eq!(house.at_border()["via"], border);
        assert_eq!(house.controller.get("/v1/chains/web")["via"], told);
        let segments: Vec<String> = serde_json::from_value(told["v2"].clone()).unwrap_or_default();
        assert_eq!(at_nodes(&house), [vec![], segments]);
        let program = house.agents[1].program().unwrap();
        let path = program.paths.iter().find(|path| path.id == house.path().id).unwrap();
        assert_eq!(path.hops, house.path().hops, "where it ends");
    }
}

#[test]
fn what_cannot_be_visited_is_refused_by_name_and_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    assert_eq!(ask(&house, &json!({"v2": [ROUTER]})).0, 200);
    let (stored, path) = (house.at_border(), house.path().id);
    for (body, status, words) in [
        (json!({"via": {"v3": [ROUTER]}}), 400, ["function 'v3'", "has v1, v2"]),
        (json!({"via": {"v2": ["router"]}}), 400, ["invalid IPv6 address", "column 22"]),
        (json!({"via": {"v2": ROUTER}}), 400, ["string", "sequence"]),
        (json!({"via": [ROUTER]}), 400, ["sequence", "map"]),
        (json!({"via": {"v2": []}}), 409, ["'v2'", "names none"]),
        (json!({"via": {"v2": ["ff02::1"]}}), 409, ["'v2'", "ff02::1 is of no router"]),
        (json!({"encapsulation": "nsh"}), 409, ["nsh leads no packets", "'via': {}"]),
        (
            json!({"encapsulation": "mpls", "via": {"v2": [ROUTER]}}),
            409,
            ["mpls", "srv6, srv6/ethernet"],
        ),
    ] {
        let (told, problem) = change(&house.controller, "web", &body);
        let detail = problem["detail"].as_str().unwrap_or_default();
        let is_told = words.iter().all(|word| detail.contains(word));
        assert!(told == status && is_told, "{body}: {told} {problem}");
    }
    assert_eq!((house.at_border(), house.path().id), (stored, path), "nothing is half applied");
    // Packets from S are on host1 already, so none leads to v1 there: those that are under way go on as they were.
    let (status, report) = ask(&house, &json!({"v1": [ROUTER]}));
    let reason = report["status"]["reason"].as_str().unwrap();
    assert!(status == 200 && reason.contains("node 'host1' without leaving"), "{report}");
    assert_eq!(house.path().id, path);
    // What is refused one by one is one change together.
    let both = json!({"encapsulation": "nsh", "via": {}});
    let (status, report) = change(&house.controller, "web", &both);
    assert_eq!((status, &report["status"]["state"]), (200, &json!("active")), "{report}");
}

#[test]
fn segments_leave_the_chain_with_the_function_that_they_lead_to() {
    let data = tempfile::tempdir().unwrap();
    let house = segmented(data.path());
    assert_eq!(ask(&house, &json!({"v2": [ROUTER]})).0, 200);
    let chain = house.at_border();
    let item = format!("{CHAINS}/{}", chain["id"].as_str().unwrap());
    let (status, changed) =
        house.controller.put(&item, &json!({"port_pair_groups": [chain["port_pair_groups"][0]]}));
    assert_eq!((status, &changed["via"]), (200, &json!({})), "{changed}");
    let (status, problem) = house.controller.put(&item, &json!({"via": {}}));
    assert_eq!(status, 400, "{problem}");
}
