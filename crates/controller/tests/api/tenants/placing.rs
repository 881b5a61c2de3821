//! Hosts are chosen for a tenant's instances, and he learns and moves nothing of anybody else's by it.

use crate::support::agent::FakeAgent;
use crate::support::tokens::{Answer, Caller, start};
use crate::support::{Controller, eventually};
use catena_controller::Auth;
use serde_json::{Value, json};

/// An operator, and tenants of two projects that each have a network and groups of these names.
struct House<'c> {
    operator: Caller<'c>,
    own: Caller<'c>,
    /// Host 1 has two cores, host 2 one.
    agents: Vec<FakeAgent>,
}

impl<'c> House<'c> {
    fn new(controller: &'c Controller) -> Self {
        let admin = Caller::admin(controller);
        let operator = admin.with_role("operator", "operators", "operator");
        let own = admin.with_role("own", "own", "tenant");
        let other = admin.with_role("other", "other", "tenant");
        for (tenant, names) in [(&own, ["edge", "near"]), (&other, ["secret", "idle"])] {
            let network = tenant.create("/v2.0/networks", &json!({"name": "left"}));
            let subnet = json!({"network_id": network, "cidr": "10.0.1.0/24", "ip_version": 4});
            tenant.create("/v2.0/subnets", &subnet);
            for name in names {
                tenant.create("/v2.0/sfc/port_pair_groups", &json!({"name": name}));
            }
        }
        let agents = [(1, 2), (2, 1)]
            .map(|(number, cores)| FakeAgent::with_room(controller, number, &[(cores, 1_024)]))
            .into();
        eventually("all are there", || {
            let nodes = operator.call("GET", "/v1/nodes", None).json();
            let told = |node: &&Value| node["status"]["capacity"].is_object();
            (nodes.as_array()?.iter().filter(told).count() == 2).then_some(())
        });
        Self { operator, own, agents }
    }

    /// The operator has a function run by whichever hosts have room.
    fn place(&self, name: &str, instances: u32, cpu_milli: u32, more: &Value) -> Answer {
        let mut template = json!({
            "runs": {"command": ["sleep", "1"]}, "networks": ["left"], "instances": instances,
            "cpu_milli": cpu_milli,
        });
        template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({ "template": template });
        self.operator.call("PUT", &format!("/v1/functions/{name}"), Some(&body))
    }

    fn hosts(&self, name: &str) -> Value {
        self.operator.call("GET", &format!("/v1/functions/{name}"), None).json()["hosts"].clone()
    }

    /// Host 1 comes back with a core less.
    fn shrink(&mut self, controller: &Controller) {
        drop(self.agents.remove(0));
        self.agents.push(FakeAgent::with_room(controller, 1, &[(1, 1_024)]));
        eventually("it has less", || {
            let node = self.operator.call("GET", "/v1/nodes/host1", None).json();
            (node["status"]["capacity"]["numa"][0]["cpu_milli"] == 1_000).then_some(())
        });
    }
}

#[test]
fn what_a_tenant_changes_of_a_placed_function_places_nobody_anew_and_tells_nothing_of_hosts() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let mut house = House::new(&controller);
    for (name, cores) in [("secret", 1_900), ("edge", 900)] {
        let told = house.place(name, 1, cores, &json!({}));
        assert_eq!(told.status, 200, "{told:?}");
    }
    assert_eq!(house.hosts("secret"), json!({"secret": "host1"}));
    house.shrink(&controller);
    // Nobody has room for the other's function any more, which is nothing to this tenant.
    let change = json!({"keeps_mac": true});
    let told = house.own.call("PATCH", "/v1/functions/edge", Some(&change));
    assert!(told.status == 200 && !told.text.contains("secret"), "{told:?}");
    let draft = house.own.call("POST", "/v1/plan", Some(&json!({}))).json();
    let id = draft["draft"].as_str().unwrap();
    let (http, url) = controller.raw();
    let request = http.patch(format!("{url}/v1/functions/edge")).header("Catena-Draft", id);
    let request = request.header("X-Auth-Token", house.own.token.as_ref().unwrap());
    let changed = request.json(&json!({"keeps_mac": false})).send().unwrap();
    assert_eq!(changed.status(), 200);
    for (method, path, body) in [
        ("GET", format!("/v1/plan/{id}"), None),
        ("POST", format!("/v1/plan/{id}/apply"), Some(json!({}))),
    ] {
        let told = house.own.call(method, &path, body.as_ref());
        assert!(told.status == 200 && !told.text.contains("secret"), "{told:?}");
    }
    assert_eq!(house.hosts("secret"), json!({"secret": "host1"}));
}

#[test]
fn a_tenants_chain_moves_nothing_of_another_project_and_is_refused_without_its_names() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let mut house = House::new(&controller);
    for (name, cores, more, host) in [
        ("secret", 1_000, json!({}), "host1"),
        ("edge", 900, json!({}), "host1"),
        ("near", 900, json!({"delay_us": 0}), "host2"),
    ] {
        let told = house.place(name, 1, cores, &more);
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(house.hosts(name), json!({ name: host }));
    }
    let group = |name: &str| {
        house.operator.call("GET", &format!("/v1/functions/{name}"), None).json()["id"].clone()
    };
    let groups = [group("edge"), group("near")];
    let chain = |name: &str, groups: &[Value]| json!({"port_chain": {"name": name, "port_pair_groups": groups}});
    let is_neutral = |told: &Answer| {
        let is_told = told.text.contains("ask whoever operates the hosts");
        told.status == 409
            && is_told
            && !["secret", "idle", "host1", "host2", "thousandths", "Mbit"]
                .iter()
                .any(|word| told.text.contains(word))
    };
    // Both would be near each other if the other's went elsewhere.
    let body = chain("first", &groups);
    let told = house.own.call("POST", "/v2.0/sfc/port_chains", Some(&body));
    assert!(is_neutral(&told), "{told:?}");
    let draft = house.own.call("POST", "/v1/plan", Some(&json!({}))).json();
    let id = draft["draft"].as_str().unwrap();
    let (http, url) = controller.raw();
    let request = http.post(format!("{url}/v2.0/sfc/port_chains")).header("Catena-Draft", id);
    let request = request.header("X-Auth-Token", house.own.token.as_ref().unwrap());
    assert_eq!(request.json(&body).send().unwrap().status(), 201);
    for (method, path, body) in [
        ("GET", format!("/v1/plan/{id}"), None),
        ("POST", format!("/v1/plan/{id}/apply"), Some(json!({}))),
    ] {
        let told = house.own.call(method, &path, body.as_ref());
        assert!(is_neutral(&told), "{told:?}");
    }
    assert_eq!(house.hosts("secret"), json!({"secret": "host1"}));
    // Without it they come together, and what waits in another project goes on waiting.
    assert_eq!(house.operator.call("PUT", "/v1/functions/secret", Some(&json!({}))).status, 200);
    let told = house.own.call("POST", "/v2.0/sfc/port_chains", Some(&body));
    assert_eq!(told.status, 201, "{told:?}");
    assert_eq!(house.hosts("near"), json!({"near": "host1"}));
    // Where there is no room at all, no more is told.
    let turned = chain("turned", &[groups[1].clone(), groups[0].clone()]);
    house.shrink(&controller);
    let told = house.own.call("POST", "/v2.0/sfc/port_chains", Some(&turned));
    assert!(is_neutral(&told), "{told:?}");
}
