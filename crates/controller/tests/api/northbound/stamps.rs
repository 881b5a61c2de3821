//! When networks, subnets and ports were made and changed, as clients of the original read it.

use crate::support::{Controller, kind, open};
use serde_json::{Value, json};

fn stamp(shown: &Value) -> (String, String, u64) {
    let text =
        |key: &str| shown[key].as_str().unwrap_or_else(|| panic!("{key}: {shown}")).to_owned();
    (text("created_at"), text("updated_at"), shown["revision_number"].as_u64().unwrap())
}

#[test]
fn what_is_made_and_changed_says_when_and_how_often_also_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let network = controller.create("/v2.0/networks", &json!({"name": "n"}));
    let subnet = json!({"network_id": network["id"], "cidr": "10.0.0.0/24"});
    let subnet = controller.create("/v2.0/subnets", &subnet);
    let port = controller.create("/v2.0/ports", &json!({"network_id": network["id"]}));
    let mut changed = Vec::new();
    for (kind, made) in [("network", network), ("subnet", subnet), ("port", port)] {
        let path = format!("/v2.0/{kind}s/{}", made["id"].as_str().unwrap());
        let (created, updated, revision) = stamp(&made);
        assert_eq!((&created, revision), (&updated, 0), "{made}");
        assert!(created.len() == 20 && created.starts_with("20") && created.ends_with('Z'));
        for (name, revision) in [("a", 1), ("a", 1), ("b", 2)] {
            let (status, body) = controller.put(&path, &json!({"name": name}));
            assert_eq!(status, 200, "{body}");
            let after = stamp(&body);
            assert_eq!((&after.0, after.2), (&created, revision), "{body}");
            assert!(after.1 >= updated, "{body}");
        }
        // Nobody else says when it was.
        let (status, body) = controller.put(&path, &json!({"created_at": "2020-01-01T00:00:00Z"}));
        assert_eq!((status, self::kind(&body)), (400, "HTTPBadRequest"));
        changed.push((path.clone(), controller.get(&path)));
    }
    controller.stop();
    let controller = Controller::start(open(data.path()));
    for (path, before) in changed {
        let (_, before) = before.as_object().unwrap().iter().next().unwrap();
        let after = controller.get(&path);
        let (_, after) = after.as_object().unwrap().iter().next().unwrap();
        assert_eq!(stamp(after), stamp(before), "{path}");
    }
}
