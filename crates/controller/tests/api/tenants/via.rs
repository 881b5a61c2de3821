//! Segments of the network between hosts are the operator's: a tenant neither says nor learns which his chains visit.

use crate::support::tokens::{Answer, Caller, start};
use catena_controller::Auth;
use serde_json::json;

const ROUTER: &str = "fc00:0:99::e";

#[test]
fn a_tenant_neither_says_nor_learns_which_segments_his_chain_visits() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let operator = admin.with_role("operator", "operators", "operator");
    let own = admin.with_role("own", "own", "tenant");
    let group = own.create("/v2.0/sfc/port_pair_groups", &json!({"name": "edge"}));
    let chain =
        own.create("/v2.0/sfc/port_chains", &json!({"name": "web", "port_pair_groups": [group]}));
    let (native, border) =
        (format!("/v1/chains/{chain}"), format!("/v2.0/sfc/port_chains/{chain}"));
    let lead = json!({"encapsulation": "srv6", "via": {"edge": [ROUTER]}});
    let refused = |told: Answer| {
        assert!(told.status == 403 && told.text.contains("whoever operates"), "{told:?}");
    };
    refused(own.call("PATCH", &native, Some(&lead)));
    let told = operator.call("PATCH", &native, Some(&lead));
    assert_eq!((told.status, &told.json()["via"]), (200, &json!({"edge": [ROUTER]})), "{told:?}");
    refused(own.call("PATCH", &native, Some(&json!({"via": {}}))));
    for path in [&native, &border] {
        let told = own.call("GET", path, None);
        assert!(told.status == 200 && !told.text.contains(ROUTER), "{told:?}");
    }
    // Nor by what a change of his would do: without the function nobody visits them.
    let other = own.create("/v2.0/sfc/port_pair_groups", &json!({"name": "other"}));
    let draft = own.call("POST", "/v1/plan", Some(&json!({}))).json();
    let id = draft["draft"].as_str().unwrap_or_else(|| panic!("{draft}"));
    let instead = json!({"port_chain": {"port_pair_groups": [other]}});
    let told = own.put_in_draft(id, &border, &instead);
    assert_eq!(told.status, 200, "{told:?}");
    let told = own.call("GET", &format!("/v1/plan/{id}"), None);
    assert!(told.status == 200 && told.text.contains("was: edge"), "{told:?}");
    assert!(!told.text.contains(ROUTER) && !told.text.contains("on the way"), "{told:?}");
    // What he changes beside them leaves them as they are.
    let told = own.call("PATCH", &native, Some(&json!({"setup": "reactive"})));
    assert!(told.status == 200 && !told.text.contains(ROUTER), "{told:?}");
    let told = own.call("PUT", &border, Some(&json!({"port_chain": {"description": "mine"}})));
    assert!(told.status == 200 && !told.text.contains(ROUTER), "{told:?}");
    let told = operator.call("GET", &border, None).json();
    assert_eq!(told["port_chain"]["via"], json!({ group: [ROUTER] }), "{told}");
}
