//! Chains with reactive set-up: how they are declared and told of, and what a node is answered that asks for a flow.

use super::moves::{House, LONG, change};
use crate::support::eventually;
use catena_model::PathId;
use catena_model::id::ChainId;
use catena_model::program::{SetupEntry, WhenAway};
use catena_model::setup::{ChainSetups, FlowAsked, FlowKey, IpProtocol};
use catena_protocol::message::FlowAnswer;
use catena_protocol::setup::{Asker, pack_asked, read_answer};
use serde_json::json;

/// The answers of the first node once it has so many.
fn answered(house: &House, count: usize) -> Vec<FlowAnswer> {
    eventually("the answers", || {
        let state = house.agents[0].state.lock().unwrap();
        (state.flow_answers.len() >= count).then(|| state.flow_answers.clone())
    })
}

#[test]
fn a_chain_turns_reactive_and_back_on_its_path_and_everybody_says_so() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), LONG);
    let path = house.path().id;
    assert_eq!(house.at_border()["setup"], "proactive");
    for (setup, away) in [
        ("reactive", Some(WhenAway::Drop)),
        ("reactive/ordinary", Some(WhenAway::Ordinary)),
        ("proactive", None),
    ] {
        let (status, report) = change(&house.controller, "web", &json!({ "setup": setup }));
        assert_eq!((status, &report["setup"]), (200, &json!(setup)), "{report}");
        assert_eq!(
            (&report["status"]["state"], &report["status"]["path"]),
            (&json!("active"), &json!(path))
        );
        assert_eq!(house.at_border()["setup"], setup);
        let expected: Vec<_> = away.into_iter().map(|away| SetupEntry { path, away }).collect();
        assert_eq!(house.agents[0].program().unwrap().setups, expected);
        assert_eq!(house.agents[1].program().unwrap().setups, [], "it classifies nothing");
    }
    let (status, problem) = change(&house.controller, "web", &json!({"setup": "lazy"}));
    assert_eq!(status, 400);
    for word in ["lazy", "`proactive`, `reactive`, `reactive/ordinary`"] {
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    let (status, _) = change(&house.controller, "web", &json!({"setup": null}));
    assert_eq!(status, 400, "it changes nothing");
}

#[test]
fn a_node_that_asks_for_flows_is_answered_for_those_that_its_program_lets_go() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), LONG);
    let path = house.path().id;
    let port =
        house.agents[0].program().unwrap().ports.iter().find(|port| port.name == "S").unwrap().id;
    let flow = FlowKey {
        source: [10, 10, 0, 1].into(),
        destination: [10, 10, 0, 2].into(),
        protocol: IpProtocol::UDP,
        source_port: 7,
        destination_port: 5_001,
    };
    let asked = FlowAsked { sequence: 1, port, path, flow };
    let asker = Asker { worker: 3, sent_ns: 40 };
    let ask = |all: &[FlowAsked]| {
        house.agents[0].ask_for_flows(all.iter().map(|one| pack_asked(one, asker)).collect());
    };
    // Nobody is to ask for flows of a chain that is proactive.
    ask(&[asked]);
    // What the node says now comes behind that.
    house.controller.get("/v1/chains/web");
    change(&house.controller, "web", &json!({"setup": "reactive"}));
    let asked = FlowAsked { sequence: 2, ..asked };
    let mut spoilt = pack_asked(&asked, asker);
    spoilt.source.truncate(3);
    house.agents[0].ask_for_flows(vec![spoilt]);
    ask(&[FlowAsked { path: PathId(9_999), ..asked }, asked, FlowAsked { sequence: 3, ..asked }]);
    let answers = answered(&house, 2);
    assert_eq!(answers.iter().map(|answer| answer.sequence).collect::<Vec<_>>(), [2, 3]);
    for answer in &answers {
        assert_eq!((answer.worker, answer.sent_ns), (3, 40), "what the data plane knows it by");
        assert!(answer.controller_ns >= answer.header_ns && answer.header_ns > 0);
        let read = read_answer(answer, 40 + 10 * answer.controller_ns).unwrap();
        assert_eq!((read.path, read.times.channel), (path, 9 * answer.controller_ns));
    }
    // The session went on, and its questions with it.
    let chain = house.at_border()["id"].as_str().unwrap().parse().unwrap();
    for (agent, held) in house.agents.iter().zip([5, 2]) {
        let setups = ChainSetups { asked: 3, answered: 2, held, ..ChainSetups::default() };
        agent.state.lock().unwrap().setups.chains.insert(ChainId(chain), setups);
    }
    let shown = house.controller.get("/v1/chains/web");
    assert_eq!(shown["setups"]["asked"], 6, "of both nodes: {shown}");
    assert_eq!((&shown["setups"]["answered"], &shown["setups"]["held"]), (&json!(4), &json!(7)));
}
