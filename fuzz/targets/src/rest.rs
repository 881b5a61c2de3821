//! Requests of strangers to a real controller on loopback, in whose domain bodies can name what is
//! there: whatever the body, the answer is an answer, and no fault of ours.

use crate::domain::Domain;
use crate::http::Answer;
use crate::seeds;
use catena_controller::{Auth, Config, ListenerSource};
use std::net::{SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::time::Duration;

/// A request that takes a body, with a body that is good; `$…` stand for identities of the domain.
struct Place {
    method: &'static str,
    path: &'static str,
    body: &'static str,
}

const fn post(path: &'static str, body: &'static str) -> Place {
    Place { method: "POST", path, body }
}

const fn put(path: &'static str, body: &'static str) -> Place {
    Place { method: "PUT", path, body }
}

const fn patch(path: &'static str, body: &'static str) -> Place {
    Place { method: "PATCH", path, body }
}

/// Behind those that a corpus has chosen others may come, and none between: the number chooses.
const PLACES: &[Place] = &[
    post("/v2.0/networks", r#"{"network": {"name": "n", "tenant_id": "t", "shared": false}}"#),
    post(
        "/v2.0/subnets",
        r#"{"subnet": {"network_id": "$network", "cidr": "10.0.1.0/24", "ip_version": 4, "gateway_ip": null}}"#,
    ),
    post(
        "/v2.0/ports",
        r#"{"port": {"network_id": "$network", "fixed_ips": [{"ip_address": "10.0.0.200"}], "binding:profile": {"interface": "x"}, "binding:host_id": "host1", "device_id": "d"}}"#,
    ),
    post(
        "/v2.0/sfc/flow_classifiers",
        r#"{"flow_classifier": {"name": "f", "ethertype": "IPv4", "protocol": "tcp", "source_port_range_min": 1, "source_port_range_max": 9, "source_ip_prefix": "10.0.0.0/8", "logical_source_port": "$source", "l7_parameters": {}}}"#,
    ),
    post(
        "/v2.0/sfc/port_pairs",
        r#"{"port_pair": {"name": "p", "ingress": "$new-ingress", "egress": "$new-egress", "service_function_parameters": {"correlation": "nsh", "weight": 2}}}"#,
    ),
    post(
        "/v2.0/sfc/port_pair_groups",
        r#"{"port_pair_group": {"name": "g", "port_pairs": ["$free-pair"], "port_pair_group_parameters": {"lb_fields": ["ip_src"], "ppg_n_tuple_mapping": {"ingress_n_tuple": {}, "egress_n_tuple": {}}}, "tap_enabled": false}}"#,
    ),
    post(
        "/v2.0/sfc/port_chains",
        r#"{"port_chain": {"name": "c", "port_pair_groups": ["$spare-group"], "flow_classifiers": ["$spare-classifier"], "chain_parameters": {"correlation": "nsh", "symmetric": true}}}"#,
    ),
    post(
        "/v2.0/sfc/service_graphs",
        r#"{"service_graph": {"name": "h", "port_chains": {"$chain2": ["$chain3"]}}}"#,
    ),
    put("/v2.0/quotas/tenant", r#"{"quota": {"port": 5, "port_chain": 3}}"#),
    post("/v1/tokens", r#"{"name": "t", "role": "tenant", "project": "p", "lifetime_s": 60}"#),
    post("/v1/plan", r#"{"chains": []}"#),
    post("/v1/bulk", r#"{"slice": {"name": "t", "chain": "c2", "teids": [11, 15], "vni": 7}}"#),
    post(
        "/v1/slices",
        r#"{"name": "u", "chain": "c2", "vni": 5, "teids": [21, 29], "qfi": 3, "rate": {"bits_per_second": 1000000, "burst_bytes": 9000}}"#,
    ),
    post(
        "/v1/explain",
        r#"{"from": "source0", "packet": {"described": "tcp 10.0.0.1:1 > 10.0.0.2:2"}}"#,
    ),
    put("/v2.0/networks/$network", r#"{"network": {"name": "n", "description": "d"}}"#),
    put("/v2.0/subnets/$subnet", r#"{"subnet": {"name": "s", "gateway_ip": "10.0.0.1"}}"#),
    put(
        "/v2.0/ports/$new-ingress",
        r#"{"port": {"name": "p", "device_id": "g", "fixed_ips": [{"ip_address": "10.0.0.100"}], "binding:host_id": "host1", "binding:profile": {"interface": "x", "netns": "y"}}}"#,
    ),
    put(
        "/v2.0/sfc/flow_classifiers/$spare-classifier",
        r#"{"flow_classifier": {"name": "f", "description": "d"}}"#,
    ),
    put("/v2.0/sfc/port_pairs/$free-pair", r#"{"port_pair": {"name": "p", "description": "d"}}"#),
    put(
        "/v2.0/sfc/port_pair_groups/$spare-group",
        r#"{"port_pair_group": {"name": "g", "port_pairs": ["$spare-pair"]}}"#,
    ),
    put(
        "/v2.0/sfc/port_chains/$chain3",
        r#"{"port_chain": {"name": "c3", "port_pair_groups": ["$group3"], "flow_classifiers": ["$classifier3"]}}"#,
    ),
    put(
        "/v2.0/sfc/service_graphs/$graph",
        r#"{"service_graph": {"name": "g", "description": "d"}}"#,
    ),
    put(
        "/v1/functions/$group3",
        r#"{"on_failure": "bypass", "keeps_mac": false, "template": null}"#,
    ),
    put("/v1/slices/$slice", r#"{"name": "s", "chain": "c2", "vni": 9, "teids": [1, 9]}"#),
    patch("/v1/functions/$group3", r#"{"on_failure": "block", "keeps_mac": false}"#),
    patch("/v1/instances/$pair3", r#"{"is_draining": false}"#),
    patch("/v1/chains/$chain3", r#"{"context": []}"#),
    put(
        "/v1/nodes/host1/injected",
        r#"[{"name": "i", "chain": "c2", "vni": 4, "teids": [31, 39], "class": "urgent"}]"#,
    ),
];

impl Place {
    fn ask(&self, domain: &Domain, body: &str) -> Answer {
        domain.ask((self.method, &domain.named(self.path)), body.as_bytes())
    }

    /// The body that is good, with identities.
    fn good(&self, domain: &Domain) -> String {
        domain.named(self.body)
    }

    /// Leaves the domain as it was: what was made goes, what was changed is changed back.
    fn undo(&self, domain: &Domain, answer: &Answer) {
        if !(200..300).contains(&answer.status) {
            return;
        }
        if self.method != "POST" {
            self.ask(domain, &self.good(domain));
            return;
        }
        for (kind, id) in answer.made() {
            let collection = match (self.path, kind.as_str()) {
                ("/v1/bulk", "slice") => "/v1/slices",
                (path, _) => path,
            };
            domain.ask(("DELETE", &format!("{collection}/{id}")), &[]);
        }
    }
}

/// The first byte chooses the place, the others are the body, or edits of a good one.
pub(crate) fn requests(bytes: &[u8]) {
    let Some((place, rest)) = bytes.split_first() else { return };
    let Some(place) = PLACES.get(usize::from(*place) % PLACES.len()) else { return };
    let domain = domain();
    let edited = seeds::edited(serde_json::from_str(&place.good(domain)).unwrap(), rest);
    let path = domain.named(place.path);
    let raw = match std::str::from_utf8(rest) {
        Ok(text) => domain.named(text).into_bytes(),
        Err(_) => rest.to_vec(),
    };
    for body in [raw, edited.to_string().into_bytes()] {
        let answer = domain.ask((place.method, &path), &body);
        place.undo(domain, &answer);
    }
}

/// One domain for all inputs of a process; it ends with it.
fn domain() -> &'static Domain {
    static DOMAIN: OnceLock<Domain> = OnceLock::new();
    DOMAIN.get_or_init(|| Domain::new(controller(Auth::None)))
}

/// Starts a controller that waits for no node.
pub(crate) fn controller(auth: Auth) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config::new(ListenerSource::Bound(listener), data.path());
        config.auth = auth;
        config.answer_wait = Duration::ZERO;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let end = runtime.unwrap().block_on(catena_controller::run(config));
        panic!("the controller ended: {end:?}");
    });
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_edited_is_good_before() {
        let domain = domain();
        let mut bad = Vec::new();
        // Twice: each is as it was afterwards.
        for place in PLACES.iter().chain(PLACES) {
            let answer = place.ask(domain, &place.good(domain));
            let (method, path, status) = (place.method, place.path, answer.status);
            // No node is there that could be asked.
            let needs_node = ["/v1/explain", "/v1/nodes/host1/injected"].contains(&path);
            let is_good = (200..300).contains(&status) || needs_node && status == 409;
            if !is_good {
                bad.push(format!("{method} {path}: {status} {}", answer.body));
            }
            place.undo(domain, &answer);
        }
        assert!(bad.is_empty(), "{}", bad.join("\n"));
    }
}
