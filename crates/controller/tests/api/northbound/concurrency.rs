//! Sixty-four clients at once: nobody sees a fault of the server, nobody's update is lost, and what
//! is left fits together.

use crate::support::lab::{Lab, id};
use crate::support::{Controller, http, kind, open};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: usize = 64;
const ROUNDS: usize = 12;

/// One client's way to the controller; it remembers what it was answered.
struct Client<'c> {
    url: &'c str,
    http: reqwest::blocking::Client,
}

impl Client<'_> {
    fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request =
            self.http.request(method.parse().unwrap(), format!("{}/v2.0{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().unwrap();
        let status = answer.status().as_u16();
        let body = answer.json().unwrap_or(Value::Null);
        assert!(status < 500, "{method} {path}: {status} {body}");
        (status, body)
    }
}

/// Runs all clients to their end.
fn crowd<T: Send>(
    controller: &Controller,
    work: impl Fn(usize, &Client<'_>) -> T + Sync,
) -> Vec<T> {
    let url = controller.raw().1;
    std::thread::scope(|scope| {
        let work = &work;
        let start = |number| scope.spawn(move || work(number, &Client { url, http: http() }));
        let clients: Vec<_> = (0..CLIENTS).map(start).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

fn list(controller: &Controller, path: &str, plural: &str) -> Vec<Value> {
    controller.get(&format!("/v2.0{path}"))[plural].as_array().unwrap().clone()
}

fn ids(resource: &Value, key: &str) -> Vec<String> {
    let listed = resource[key].as_array().unwrap().iter();
    listed.map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_update_of_one_attribute_undoes_that_of_another() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    // Each object has two owners, each of one attribute.
    let object = |number: usize| lab.loose_port(&format!("shared{number}"), "device");
    let objects: Vec<String> = (0..CLIENTS / 2).map(object).collect();
    let last = crowd(&controller, |number, client| {
        let object = &objects[number / 2];
        let attribute = if number % 2 == 0 { "name" } else { "description" };
        let mut last = Value::Null;
        for round in 0..ROUNDS {
            let wanted = json!(format!("{number}-{round}"));
            let body = json!({"port": {attribute: wanted}});
            let (status, answer) = client.call("PUT", &format!("/ports/{object}"), Some(body));
            assert_eq!(status, 200, "{answer}");
            assert_eq!(answer["port"][attribute], wanted, "nobody else changes it");
            let (_, seen) = client.call("GET", &format!("/ports/{object}"), None);
            assert_eq!(seen["port"][attribute], wanted, "who was answered finds his change");
            last = wanted;
        }
        last
    });
    for (number, object) in objects.iter().enumerate() {
        let port = controller.get(&format!("/v2.0/ports/{object}"))["port"].clone();
        assert_eq!(
            (&port["name"], &port["description"]),
            (&last[2 * number], &last[2 * number + 1])
        );
    }
}

#[test]
fn of_those_who_want_the_same_one_gets_it_and_what_is_left_fits_together() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    let port = |number: usize| lab.loose_port(&format!("p{number}"), &format!("d{number}"));
    let ports: Vec<String> = (0..8).map(port).collect();
    let pairs: Vec<String> = ports
        .iter()
        .map(|port| {
            let pair = json!({"ingress": port, "egress": port});
            id(&controller.create("/v2.0/sfc/port_pairs", &pair))
        })
        .collect();
    // Everybody wants one of the same few rules, pairs, numbers and groups, and gives it back.
    let made = crowd(&controller, |number, client| work(number, client, &pairs));
    let made: BTreeMap<&str, usize> =
        made.into_iter().flatten().fold(BTreeMap::new(), |mut made, what| {
            *made.entry(what).or_default() += 1;
            made
        });
    for what in ["flow_classifier", "port_pair_group", "port_chain", "taken"] {
        assert!(made.get(what).is_some_and(|count| *count > 0), "{what}: {made:?}");
    }
    fits_together(&controller);
}

/// Answers what it got, by kind; `taken` for each time that another was faster.
fn work(number: usize, client: &Client<'_>, pairs: &[String]) -> Vec<&'static str> {
    let mut got = Vec::new();
    let mut create = |plural: &str, singular: &'static str, body: Value| {
        let path = format!("/sfc/{plural}");
        let (status, answer) = client.call("POST", &path, Some(json!({singular: body})));
        assert!([201, 400, 404, 409].contains(&status), "{status} {answer}");
        got.push(if status == 201 { singular } else { "taken" });
        (status == 201).then(|| id(&answer[singular]))
    };
    for round in 0..ROUNDS {
        let wanted = (number + round) % 8;
        let rule = json!({"protocol": "tcp", "destination_port_range_min": wanted * 10 + 1,
                          "destination_port_range_max": wanted * 10 + 9});
        let rule = create("flow_classifiers", "flow_classifier", rule);
        let group = json!({"port_pairs": [pairs[wanted]]});
        let group = create("port_pair_groups", "port_pair_group", group);
        let chain = group.as_ref().and_then(|group| {
            let rules: Vec<&String> = rule.iter().collect();
            let chain = json!({"port_pair_groups": [group], "flow_classifiers": rules,
                               "chain_id": number % 4});
            create("port_chains", "port_chain", chain)
        });
        if (number + round).is_multiple_of(5) && round + 1 == ROUNDS {
            // What some leave behind shows whether it fits together.
            continue;
        }
        let made =
            [("port_chains", chain), ("port_pair_groups", group), ("flow_classifiers", rule)];
        for (plural, id) in made.into_iter().filter_map(|(plural, id)| Some((plural, id?))) {
            let (status, answer) = client.call("DELETE", &format!("/sfc/{plural}/{id}"), None);
            assert_eq!(status, 204, "{}: {answer}", kind(&answer));
        }
    }
    got
}

fn fits_together(controller: &Controller) {
    let chains = list(controller, "/sfc/port_chains", "port_chains");
    let groups = list(controller, "/sfc/port_pair_groups", "port_pair_groups");
    let pairs = list(controller, "/sfc/port_pairs", "port_pairs");
    let rules = list(controller, "/sfc/flow_classifiers", "flow_classifiers");
    let known = |resources: &[Value]| resources.iter().map(id).collect::<BTreeSet<String>>();
    let once = |all: Vec<String>, what: &str| {
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{what} is there twice");
    };
    let all = |resources: &[Value], key: &str| -> Vec<String> {
        resources.iter().flat_map(|resource| ids(resource, key)).collect()
    };
    let has = |known: &BTreeSet<String>, wanted: &[String]| {
        assert!(wanted.iter().all(|id| known.contains(id)), "a reference leads nowhere");
    };
    once(chains.iter().map(|chain| chain["chain_id"].to_string()).collect(), "a chain_id");
    once(groups.iter().map(|group| group["group_id"].to_string()).collect(), "a group_id");
    has(&known(&groups), &all(&chains, "port_pair_groups"));
    has(&known(&rules), &all(&chains, "flow_classifiers"));
    has(&known(&pairs), &all(&groups, "port_pairs"));
    once(all(&groups, "port_pairs"), "a pair of two groups");
    once(all(&chains, "flow_classifiers"), "a rule of two chains");
    once(rules.iter().map(|r| r["destination_port_range_min"].to_string()).collect(), "a rule");
}
