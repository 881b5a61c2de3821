//! What `catena plan` and `catena chain show` expect of the chains of a document, before anybody has timed a packet.

use super::{Controller, WEB};
use serde_json::{Value, json};

const GUARDED: &str = "
functions:
  - {name: edge, template: {runs: {bundled: firewall}, config: {file: edge.iptables}, on: [host2]}}
  - {name: flows, template: {runs: {bundled: monitor}, on: [host2]}}
chains:
  - {name: guarded, source: S, destination: D, classify: tcp dport 80, through: [edge, flows],
     symmetric: true}
";
const RULES: &str =
    "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";

#[test]
fn a_plan_tells_what_to_expect_of_chains_and_where_no_rate_is_stable_what_holds_them() {
    let controller = Controller::with_ports("none");
    controller.file("edge.iptables", RULES);
    let file = controller.file("guarded.yaml", GUARDED);
    let ceiling = "  ceiling    at most 1217730 packets a second: host2 is busy then, 821.2 ns for each; of its \
                   functions edge takes the most (148.2 ns)";
    let plan = controller.tell(3, &["plan", "-f", &file]);
    for part in ["chain guarded new", "expected of chain guarded\n", "none without a rate", ceiling]
    {
        assert!(plan.contains(part), "no '{part}' in {plan}");
    }
    assert!(!plan.contains("p99"), "{plan}");
    let plan = controller.tell(3, &["plan", "-f", &file, "--rate", "2e6", "--simulate"]);
    assert!(plan.contains("more come than can be served") && plan.contains(ceiling), "{plan}");
    assert!(!plan.contains("p99") && !plan.contains("simulated"), "{plan}");

    let words = ["plan", "-f", &file, "--rate", "500000", "--simulate", "-o", "json"];
    let output = controller.catena(&words);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [web] = told["predictions"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&web["chain"], &web["rate_source"]), (&json!("guarded"), &json!("given")));
    assert_eq!(web["nodes"][0]["node"], "host2");
    let number = |key: &str| web[key].as_f64().unwrap_or_else(|| panic!("no {key} in {web}"));
    assert!((number("mean_s") - 1.2846e-6).abs() < 1e-9, "{web}");
    assert!(number("p50_s") < number("p95_s") && number("p95_s") < number("p99_s"), "{web}");
    let met = web["simulated"]["mean_s"].as_f64().unwrap();
    assert!((met / number("mean_s") - 1.0).abs() < 0.02, "{web}");
    assert!(told["plan"].is_u64() && told["resources"].is_array(), "{told}");

    // What is removed has nothing to expect, nor has what is no rate.
    controller.tell(0, &["apply", "-f", &file]);
    let said = controller.tell(0, &["plan", "-f", &file]);
    assert!(said.contains("no changes") && said.contains(ceiling), "{said}");
    assert!(!controller.tell(3, &["plan", "-f", &file, "--undeploy"]).contains("expected"));
    controller.tell(2, &["plan", "-f", &file, "--rate", "0"]);
    // Nobody has timed the functions, so nothing stands beside their counters.
    let shown = controller.tell(0, &["chain", "show", "guarded"]);
    assert!(!shown.contains("expected") && !shown.contains("why"), "{shown}");
}

#[test]
fn of_a_chain_without_a_path_it_is_not_told_which_functions_are_side_by_side() {
    let controller = Controller::with_ports("none");
    controller.file("edge.iptables", RULES);
    let file = controller.file("guarded.yaml", GUARDED);
    controller.tell(0, &["apply", "-f", &file]);
    let shown = controller.tell(0, &["chain", "show", "guarded", "--why"]);
    assert!(shown.contains("why: the chain has no path"), "{shown}");
    let why = controller.tell(0, &["chain", "show", "guarded", "--why", "-o", "json"]);
    let told: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(
        (&told["why"], &told["functions"]),
        (&json!({"ways": []}), &json!(["edge", "flows"]))
    );
}

#[test]
fn of_functions_elsewhere_nothing_is_expected() {
    let controller = Controller::with_ports("none");
    let file = controller.file("web.yaml", WEB);
    assert!(!controller.tell(3, &["plan", "-f", &file]).contains("expected of"));
    let plan = controller.tell(3, &["plan", "-f", &file, "--rate", "10"]);
    for part in ["expected of chain web at 10 packets a second", "nobody knows how long v1 takes"] {
        assert!(plan.contains(part), "no '{part}' in {plan}");
    }
    assert!(!plan.contains("ceiling") && !plan.contains("mean"), "{plan}");
}
