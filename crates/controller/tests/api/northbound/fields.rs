//! Conditions of flow classifiers on fields beside the flow.

use super::validation::check_posts;
use crate::support::lab::id;
use crate::support::{Controller, open};
use serde_json::json;

const PATH: &str = "/v2.0/sfc/flow_classifiers";

#[test]
fn conditions_on_fields_are_checked_and_shown_in_their_one_form() {
    let data = tempfile::tempdir().unwrap();
    let controller = &Controller::start(open(data.path()));
    let invalid = "FlowClassifierInvalidField";
    check_posts(
        controller,
        PATH,
        &[
            (json!({"dscp": null, "tcp_flags": null}), 201, ""),
            (json!({"dscp": "ef"}), 201, ""),
            (json!({"dscp": 63}), 201, ""),
            (json!({"dscp": 64}), 400, invalid),
            (json!({"dscp": ""}), 400, invalid),
            (json!({"dscp": ["ef"]}), 400, invalid),
            (json!({"protocol": "tcp", "tcp_flags": "syn,!ack"}), 201, ""),
            (json!({"protocol": "tcp", "tcp_flags": "syn,!syn"}), 400, invalid),
            (json!({"protocol": "udp", "tcp_flags": "syn"}), 400, invalid),
            (json!({"tcp_flags": "syn"}), 400, invalid),
        ],
    );
    let looking = json!({"protocol": "tcp", "dscp": 46, "tcp_flags": " !ACK,syn"});
    let shown = controller.create(PATH, &looking);
    assert_eq!((&shown["dscp"], &shown["tcp_flags"]), (&json!("ef"), &json!("syn,!ack")));
    let found = |query: &str| {
        let listed = controller.get(&format!("{PATH}?{query}"));
        listed["flow_classifiers"].as_array().unwrap().len()
    };
    assert_eq!((found("dscp=ef"), found("dscp=cs1")), (1, 0));
    let item = format!("{PATH}/{}", id(&shown));
    assert_eq!(controller.put(&item, &json!({"dscp": "ef"})).0, 400, "it stays as it was made");
}
