//! What is numbered over all projects: the numbers would count what is foreign, so whoever does not run
//! the deployment neither reads nor tries them.

use crate::support::tokens::{Caller, start};
use catena_controller::Auth;
use catena_model::Role;
use serde_json::json;

const NETWORKS: &str = "/v2.0/networks";
const SEGMENT: &str = "provider:segmentation_id";
const HIDDEN: [&str; 3] = ["provider:network_type", "provider:physical_network", SEGMENT];

#[test]
fn provider_attributes_are_shown_to_whoever_runs_the_deployment_on_every_way_out() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let owner = admin.with_role("owner", "own", "tenant");
    let id = owner.create(NETWORKS, &json!({}));
    owner.create(NETWORKS, &json!({}));
    let item = format!("{NETWORKS}/{id}");
    for role in Role::ALL {
        let caller = admin.with_role(&format!("the {role}"), "own", role.name());
        let sees = role >= Role::Operator;
        let draft = caller.call("POST", "/v1/plan", Some(&json!({}))).json();
        let mut answers = vec![caller.call("GET", NETWORKS, None), caller.call("GET", &item, None)];
        if role >= Role::Tenant {
            answers.push(caller.call("POST", NETWORKS, Some(&json!({"network": {}}))));
            answers.push(caller.call("PUT", &item, Some(&json!({"network": {"name": "x"}}))));
            let (http, url) = controller.raw();
            let (token, draft) =
                (caller.token.as_deref().unwrap(), draft["draft"].as_str().unwrap());
            let request = |path: &str| {
                http.request("POST".parse().unwrap(), format!("{url}{path}"))
                    .header("X-Auth-Token", token)
            };
            let in_draft = request(NETWORKS).header("Catena-Draft", draft);
            let in_draft = in_draft.json(&json!({"network": {}})).send().unwrap();
            let in_bulk = request("/v1/bulk").header("Content-Type", "application/x-ndjson");
            let in_bulk = in_bulk.body(json!({"network": {}}).to_string()).send().unwrap();
            for answer in [in_draft, in_bulk] {
                let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
                let text = answer.text().unwrap();
                answers.push(crate::support::tokens::Answer { status, headers, text });
            }
        }
        for answer in answers {
            assert!(answer.status < 300, "{role}: {answer:?}");
            for hidden in HIDDEN {
                assert_eq!(answer.text.contains(hidden), sees, "{hidden} as {role}: {answer:?}");
            }
        }
        let fields = caller.call("GET", &format!("{item}?fields=id&fields={SEGMENT}"), None);
        assert_eq!(fields.text.contains(SEGMENT), sees, "{role}: {fields:?}");
        // A filter that matched would tell what is not shown.
        let count = |value: &str| {
            let found = caller.call("GET", &format!("{NETWORKS}?{SEGMENT}={value}"), None).json();
            found["networks"].as_array().map(Vec::len)
        };
        assert_eq!(count("1") == count("77777"), !sees, "{role}");
        let sorted = format!("{NETWORKS}?sort_key={SEGMENT}&sort_dir=asc");
        let sorted = caller.call("GET", &sorted, None);
        assert_eq!(sorted.status, if sees { 200 } else { 400 }, "{role}: {sorted:?}");
    }
}

#[test]
fn whoever_does_not_run_the_deployment_chooses_no_chain_id() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let tenant = admin.with_role("t", "own", "tenant");
    let operator = admin.with_role("o", "own", "operator");
    let make = |caller: &Caller<'_>, number: Option<u32>| {
        let group = caller.create("/v2.0/sfc/port_pair_groups", &json!({}));
        let mut chain = json!({"port_pair_groups": [group]});
        if let Some(number) = number {
            chain["chain_id"] = json!(number);
        }
        caller.call("POST", "/v2.0/sfc/port_chains", Some(&json!({ "port_chain": chain })))
    };
    assert_eq!(make(&operator, Some(7)).status, 201);
    let (taken, free) = (make(&tenant, Some(7)), make(&tenant, Some(8)));
    for refused in [&taken, &free] {
        let kind = refused.kind();
        assert_eq!((refused.status, kind.as_str()), (403, "PolicyNotAuthorized"), "{refused:?}");
    }
    // The default is nobody's choice.
    for number in [None, Some(0)] {
        let made = make(&tenant, number);
        assert_eq!(made.status, 201, "{made:?}");
        assert!(made.text.contains("chain_id"), "{made:?}");
    }
}
