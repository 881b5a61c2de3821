//! Plays what a real client sent to the original server, and compares the answers.

use crate::support::{Controller, open};
use catena_model::classifier::Field;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Attributes that the two servers choose differently on purpose: `conformance/api/README.md`.
const OURS: [&str; 12] = [
    "mtu",
    "provider:network_type",
    "provider:segmentation_id",
    "port_security_enabled",
    "enable_dhcp",
    "mac_address",
    "ip_address",
    "status",
    "status_reason",
    "created_at",
    "updated_at",
    "revision_number",
];
/// Attributes that only we have, beside the fields of classifiers: what became of a chain, and of a change.
const ADDED: [&str; 11] = [
    "status",
    "status_reason",
    "path_id",
    "encapsulation",
    "speaks",
    "setup",
    "telemetry",
    "via",
    "last_change",
    "receipt",
    "receipts",
];
/// The extensions that clients of service chains look for; the original has many more.
const EXTENSIONS: [&str; 6] =
    ["sfc", "flow_classifier", "service_graph", "networking-sfc-tap", "quotas", "quota_details"];
/// The exchange whose error quotes a Python dictionary: ours quotes the same in JSON.
const QUOTED: u64 = 238;
/// All exchanges of the recording.
const EXCHANGES: usize = 361;

/// From the original's identities to ours.
type Identities = BTreeMap<String, String>;

fn translate_text(text: &str, identities: &Identities) -> String {
    identities.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

fn translate(value: &Value, identities: &Identities) -> Value {
    serde_json::from_str(&translate_text(&value.to_string(), identities)).unwrap()
}

/// Learns whose identity is whose from the answers to a creation.
fn learn(theirs: &Value, ours: &Value, identities: &mut Identities) {
    let only = |body: &Value| body.as_object().unwrap().values().next().unwrap()["id"].clone();
    let (theirs, ours) = (only(theirs), only(ours));
    identities.insert(theirs.as_str().unwrap().into(), ours.as_str().unwrap().into());
}

fn compare(at: &str, theirs: &Value, ours: &Value) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => compare_objects(at, theirs, ours),
        (Value::Array(theirs), Value::Array(ours)) => {
            assert_eq!(theirs.len(), ours.len(), "{at}: {theirs:?} {ours:?}");
            for theirs in theirs {
                // Lists of resources come in any order, lists of values in theirs.
                let id = theirs.get("id");
                let same = ours.iter().find(|ours| id.is_some() && ours.get("id") == id);
                match same {
                    Some(ours) => compare(at, theirs, ours),
                    None if id.is_none() && theirs.is_object() => compare(at, theirs, &ours[0]),
                    None => assert!(ours.contains(theirs), "{at}: {theirs} not in {ours:?}"),
                }
            }
        }
        _ => assert_eq!(theirs, ours, "{at}"),
    }
}

fn compare_objects(at: &str, theirs: &Map<String, Value>, ours: &Map<String, Value>) {
    let shared = |map: &Map<String, Value>, other: &Map<String, Value>| -> Vec<String> {
        map.keys().filter(|key| other.contains_key(*key)).cloned().collect()
    };
    if theirs.contains_key("tenant_id") && at.contains("/sfc/") {
        assert_eq!(shared(theirs, ours), shared(ours, theirs), "{at}: order of the keys");
    }
    for (key, value) in theirs {
        let at = format!("{at} {key}");
        match ours.get(key) {
            Some(_) if OURS.contains(&key.as_str()) => {}
            Some(ours) => compare(&at, value, ours),
            None => panic!("{at} is missing"),
        }
    }
    let extra = ours.keys().filter(|key| !theirs.contains_key(*key));
    for key in extra {
        let is_field = Field::named(key).is_some();
        assert!(is_field || ADDED.contains(&key.as_str()), "{at}: unexpected '{key}'");
    }
}

/// Each of our extensions that the original knows is the same one, word by word.
fn compare_extensions(at: &str, theirs: &Value, ours: &Value) {
    let of = |body: &Value, alias: &str| -> Option<Value> {
        let mut all = body["extensions"].as_array().unwrap().iter();
        all.find(|extension| extension["alias"] == alias).cloned()
    };
    for alias in EXTENSIONS {
        assert!(of(ours, alias).is_some(), "{at}: '{alias}' is missing");
        assert_eq!(of(theirs, alias), of(ours, alias), "{at}");
    }
}

#[test]
fn an_unmodified_client_gets_the_answers_it_knows() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/api/networking-sfc-client.jsonl");
    let recording = std::fs::read_to_string(file).unwrap();
    let host = controller.url.strip_prefix("http://").unwrap();
    let mut identities = Identities::from([("127.0.0.1:9700".to_owned(), host.to_owned())]);
    let (mut played, mut extensions) = (0, Value::Null);
    for line in recording.lines() {
        let exchange: Value = serde_json::from_str(line).unwrap();
        let method = exchange["method"].as_str().unwrap();
        let path = translate_text(exchange["path"].as_str().unwrap(), &identities);
        let at = format!("{} {method} {path}", exchange["n"]);
        let body = translate(&exchange["request"], &identities);
        let (status, ours) =
            controller.call(method, &path, Some(&body).filter(|body| !body.is_null()));
        assert_eq!(exchange["status"], status, "{at}: {ours}");
        let mut theirs = exchange["response"].clone();
        if exchange["n"] == QUOTED {
            let message = ours["NeutronError"]["message"].as_str().unwrap();
            let quoted = translate(&theirs["NeutronError"]["message"], &identities);
            let quoted = quoted.as_str().unwrap().replace('\'', "\"");
            assert_eq!(quoted.replace(' ', ""), message.replace(' ', ""), "{at}");
            theirs["NeutronError"]["message"] = message.into();
        }
        if method == "POST" && status == 201 {
            learn(&theirs, &ours, &mut identities);
        }
        if path == "/v2.0/extensions" {
            // Only the first of the recording's answers is written out.
            let theirs = if theirs.is_object() { &theirs } else { &extensions };
            compare_extensions(&at, theirs, &ours);
            extensions = theirs.clone();
        } else if theirs.is_object() {
            compare(&at, &translate(&theirs, &identities), &ours);
        }
        played += 1;
    }
    assert_eq!(played, EXCHANGES);
}
