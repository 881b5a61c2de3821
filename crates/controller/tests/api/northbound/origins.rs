//! A function's port as the source of a chain's classifier: of another chain's, never of its own.

use crate::support::agent::FakeAgent;
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, kind, message, open};
use catena_model::program::{PortRole, RulePlace};

const CHAINS: &str = "/v2.0/sfc/port_chains";

#[test]
fn a_function_is_the_source_of_another_chain_and_of_none_that_leads_back_to_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let ports: Vec<_> = ["v1", "v2"]
        .map(|name| lab.port(&format!("{name}-port"), name, "host1"))
        .into_iter()
        .collect();
    let functions =
        [("v1", &ports[0]), ("v2", &ports[1])].map(|(name, port)| lab.function(name, port, port));
    let classifiers = [("S", &source, 1), ("own", &ports[0], 2), ("back", &ports[1], 3)]
        .map(|(name, port, number)| lab.classifier(name, port, number));

    // Of its own chain, before any other knows the function.
    let own = lab.chain("own", &[&functions[0]], &[&classifiers[1]]);
    let (status, body) = controller.post(CHAINS, &own);
    assert_eq!((status, kind(&body)), (409, "ChainNotRealizable"));
    assert!(message(&body).contains("'v1-port'") && message(&body).contains("its own"), "{body}");

    controller.create(CHAINS, &lab.chain("first", &[&functions[0]], &[&classifiers[0]]));
    let second =
        controller.create(CHAINS, &lab.chain("second", &[&functions[1]], &[&classifiers[1]]));
    assert_eq!(second["status"], "active", "{second}");
    let program = eventually("the rule at the function's port", || {
        let program = agent.program()?;
        program.rules.iter().any(|rule| rule.name == "own").then_some(program)
    });
    let rule = program.rules.iter().find(|rule| rule.name == "own").unwrap();
    let port = program.ports.iter().find(|port| port.name == "v1-port").unwrap();
    assert_eq!((rule.matches.place, port.role), (RulePlace::Port(port.id), PortRole::Function));

    let more = lab.function_on("v3", "host1");
    // The other way round what v1 sends would come back to it through v2.
    let (status, body) =
        controller.post(CHAINS, &lab.chain("third", &[&functions[0], &more], &[&classifiers[2]]));
    assert_eq!((status, kind(&body)), (409, "ChainNotRealizable"));
    assert!(message(&body).contains("'second'") && message(&body).contains("'third'"), "{body}");
    // Nor by a change of one that stands.
    let change = serde_json::json!({"flow_classifiers": [classifiers[0], classifiers[2]]});
    let chains = controller.get(CHAINS);
    let first = chains["port_chains"].as_array().unwrap().iter().find(|c| c["name"] == "first");
    let (status, body) = controller.put(&format!("{CHAINS}/{}", id(first.unwrap())), &change);
    assert_eq!((status, kind(&body)), (409, "ChainNotRealizable"), "{body}");
}
