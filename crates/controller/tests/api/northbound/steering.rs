//! When a chain request is answered, and what is true at that moment.

use crate::support::agent::{FakeAgent, State, dial, enroll};
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, kind, message, open};
use catena_model::topology::NodeRole;
use catena_model::{ChainCounters, PathId, Volume, id::ChainId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

const CHAINS: &str = "/v2.0/sfc/port_chains";

/// A controller whose chain requests wait for this long at most.
fn controller(data: &tempfile::TempDir, answer_wait: Duration) -> Controller {
    let mut config = open(data.path());
    config.answer_wait = answer_wait;
    Controller::start(config)
}

/// Long enough never to be reached in a test that passes.
const LONG: Duration = Duration::from_secs(60);
/// Short enough that waiting for it costs little.
const SHORT: Duration = Duration::from_millis(300);

fn agent(controller: &Controller, node: &str, host: u8) -> FakeAgent {
    FakeAgent::connect(&controller.data, node, host, controller.southbound)
}

fn state_of(chain: &Value) -> (&str, &str) {
    (chain["status"].as_str().unwrap(), chain["status_reason"].as_str().unwrap())
}

fn has_rule_of(agent: &FakeAgent, name: &str) -> bool {
    agent.program().is_some_and(|program| program.rules.iter().any(|rule| rule.name == name))
}

/// Waits until every port that was declared has been bound.
fn wait_bound(controller: &Controller) {
    eventually("all ports bound", || {
        let ports = controller.get("/v2.0/ports");
        let all = ports["ports"].as_array().unwrap();
        all.iter().all(|port| port["status"] == "ACTIVE").then_some(())
    });
}

#[test]
fn a_chain_is_answered_after_every_node_acknowledged_both_steps() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let (one, two) = (agent(&controller, "host1", 1), agent(&controller, "host2", 2));
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v2", "host2");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    one.hold();
    two.hold();

    let chain = lab.chain("pc", &[&function], &[&classifier]);
    let (answered, answer) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| answered.send(controller.post(CHAINS, &chain)).unwrap());
        for agent in [&one, &two] {
            eventually("the path at every node", || {
                agent.program().filter(|program| !program.paths.is_empty())
            });
        }
        assert!(!has_rule_of(&one, "fc"), "no rule before the path is known everywhere");
        assert!(answer.try_recv().is_err(), "answered before the path was acknowledged");
        two.release();
        one.release();
        one.hold();
        eventually("the rule at the classifier's node", || has_rule_of(&one, "fc").then_some(()));
        assert!(answer.try_recv().is_err(), "answered before the rule was acknowledged");
        one.release();
        let (status, chain) = answer.recv_timeout(crate::support::PATIENCE).unwrap();
        assert_eq!((status, state_of(&chain)), (201, ("active", "")));
    });
    for agent in [&one, &two] {
        assert!(agent.program().unwrap().number.0 <= agent.acknowledged());
    }
}

#[test]
fn two_hundred_answers_in_a_row_find_the_rule_in_place() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let (one, two) = (agent(&controller, "host1", 1), agent(&controller, "host2", 2));
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v2", "host2");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    for round in 0..200 {
        let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
        assert_eq!(state_of(&chain), ("active", ""), "round {round}");
        let program = one.program().unwrap();
        assert!(program.rules.iter().any(|rule| rule.name == "fc"), "round {round}");
        assert!(program.number.0 <= one.acknowledged(), "round {round}");
        let path = program.rules[0].path;
        assert!(two.program().unwrap().paths.iter().any(|entry| entry.id == path));
        let (status, _) = controller.call("DELETE", &format!("{CHAINS}/{}", id(&chain)), None);
        assert_eq!(status, 204);
        assert!(!has_rule_of(&one, "fc"), "round {round}: deleted, but the rule is still there");
        // Whatever came last (the drained path goes later), it is acknowledged.
        assert!(one.program().unwrap().number.0 <= one.acknowledged(), "round {round}");
    }
}

#[test]
fn an_unreachable_node_is_named_after_the_bound_and_the_chain_becomes_active_when_it_is_back() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, SHORT);
    let (one, two) = (agent(&controller, "host1", 1), agent(&controller, "host2", 2));
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v2", "host2");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let away = two.disconnect();
    eventually("host2 is away", || {
        let nodes = controller.get("/v1/nodes");
        let nodes = nodes.as_array().unwrap().clone();
        let two = nodes.into_iter().find(|node| node["status"]["node"] == "host2")?;
        (two["status"]["is_connected"] == false).then_some(())
    });
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
    let (state, reason) = state_of(&chain);
    assert_eq!(state, "building");
    assert!(reason.contains("node 'host2' is not connected"), "{reason}");
    assert!(!has_rule_of(&one, "fc"), "half a path");

    let away = State { programs: Vec::new(), ..away };
    let _two = FakeAgent::connect_running(data.path(), "host2", 2, controller.southbound, away);
    let shown = format!("{CHAINS}/{}", id(&chain));
    eventually("active", || {
        (controller.get(&shown)["port_chain"]["status"] == "active").then_some(())
    });
    assert!(has_rule_of(&one, "fc"));
}

#[test]
fn a_port_without_an_interface_is_answered_at_once_and_may_appear_later() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let ports = [lab.port("v1-in", "v1", "host1"), lab.loose_port("v1-out", "v1")];
    let function = lab.function("v1", &ports[0], &ports[1]);
    let classifier = lab.classifier("fc", &source, 5_001);

    eventually("the other ports are bound", || {
        let active = controller.get("/v2.0/ports?status=ACTIVE&fields=name");
        (active["ports"].as_array().unwrap().len() == 2).then_some(())
    });
    // Nowhere: the request that would wait for a minute is answered at once.
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
    let (state, reason) = state_of(&chain);
    assert_eq!(state, "building");
    assert!(reason.contains("'v1-out'"), "{reason}");

    // Placed, but its node finds no interface.
    one.state.lock().unwrap().unbound.insert("v1-out".into(), "no interface 'eth1'".into());
    let place = json!({"binding:host_id": "host1",
                       "binding:profile": {"netns": "v1", "interface": "eth1"}});
    assert_eq!(controller.put(&format!("/v2.0/ports/{}", ports[1]), &place).0, 200);
    let shown = format!("{CHAINS}/{}", id(&chain));
    eventually("the agent's reason", || {
        let chain = controller.get(&shown);
        let reason = chain["port_chain"]["status_reason"].as_str()?.to_owned();
        reason.contains("no interface 'eth1'").then_some(())
    });
    let port = controller.get(&format!("/v2.0/ports/{}", ports[1]));
    assert_eq!(port["port"]["status"], "DOWN");
    let other = lab.classifier("fc2", &source, 5_002);
    let (status, renamed) = controller.put(&shown, &json!({"flow_classifiers": [other]}));
    assert_eq!((status, state_of(&renamed).0), (200, "building"));

    one.bind_all();
    eventually("active", || {
        (controller.get(&shown)["port_chain"]["status"] == "active").then_some(())
    });
    assert!(has_rule_of(&one, "fc2") && !has_rule_of(&one, "fc"));
}

#[test]
fn a_node_that_never_connected_or_refuses_is_answered_at_once_by_name() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let nowhere = lab.function_on("v9", "host9");
    let classifier = lab.classifier("fc", &source, 5_001);
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&nowhere], &[&classifier]));
    let (state, reason) = state_of(&chain);
    assert_eq!(state, "building");
    assert!(reason.contains("node 'host9'") && reason.contains("never connected"), "{reason}");
    controller.call("DELETE", &format!("{CHAINS}/{}", id(&chain)), None);

    let here = lab.function_on("v1", "host1");
    eventually("bound", || {
        let ports = controller.get("/v2.0/ports?binding:host_id=host1");
        let all = ports["ports"].as_array().unwrap().clone();
        all.iter().all(|port| port["status"] == "ACTIVE").then_some(())
    });
    one.state.lock().unwrap().refuses = Some("it has no memory".into());
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&here], &[&classifier]));
    let (state, reason) = state_of(&chain);
    assert_eq!(state, "building");
    assert!(reason.contains("node 'host1' refused") && reason.contains("no memory"), "{reason}");
}

#[test]
fn an_update_waits_for_the_new_path_and_the_old_one_goes_when_it_is_empty() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let (one, two) = (agent(&controller, "host1", 1), agent(&controller, "host2", 2));
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let functions = [lab.function_on("v1", "host1"), lab.function_on("v2", "host2")];
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let chain = lab.chain("pc", &[&functions[0], &functions[1]], &[&classifier]);
    let chain = controller.create(CHAINS, &chain);
    let first = one.program().unwrap().rules[0].path;

    // Packets are still on the path until the counters say otherwise.
    let counters = |entered: u64, finished: u64, path: PathId| ChainCounters {
        chain: ChainId(id(&chain).parse().unwrap()),
        path,
        entered: Volume { packets: entered, bytes: entered * 100 },
        finished: Volume { packets: finished, bytes: finished * 100 },
        tapped: Volume::default(),
        pinned_flows: 0,
        tunnelled_out: Volume::default(),
        tunnelled_in: Volume::default(),
        dropped: BTreeMap::new(),
        hops: Vec::new(),
        is_partial: false,
    };
    one.state.lock().unwrap().chains = vec![counters(7, 6, first)];
    let shown = format!("{CHAINS}/{}", id(&chain));
    let reversed = json!({"port_pair_groups": [functions[1], functions[0]]});
    let (answered, answer) = mpsc::channel();
    let (status, mut updated) = std::thread::scope(|scope| {
        scope.spawn(|| answered.send(controller.put(&shown, &reversed)).unwrap());
        eventually("the classifier turned", || {
            one.program().filter(|program| program.rules.iter().all(|rule| rule.path != first))
        });
        assert!(answer.try_recv().is_err(), "answered while a packet was on the old path");
        let program = one.program().unwrap();
        assert!(program.paths.iter().any(|path| path.id == first), "the old path still drains");
        one.state.lock().unwrap().chains = vec![counters(7, 7, first)];
        answer.recv_timeout(crate::support::PATIENCE).unwrap()
    });
    assert_eq!((status, state_of(&updated)), (200, ("active", "")));
    assert_eq!(updated["port_pair_groups"], reversed["port_pair_groups"], "the order is honoured");
    for agent in [&one, &two] {
        eventually("what drained is gone", || {
            let program = agent.program().unwrap();
            program.paths.iter().all(|path| path.id != first).then_some(())
        });
    }
    let receipt = updated.as_object_mut().unwrap().remove("receipt").unwrap();
    assert_eq!(receipt["drained"][0]["path"], json!(first));
    assert_eq!(receipt["drained"][0]["proof"], "counted");
    assert_eq!(receipt["drained"][0]["lost_in_function"], 0);
    assert_eq!(controller.get(&shown)["port_chain"], updated, "a receipt is of the change alone");
    assert_eq!(controller.get("/v1/chains/pc/receipt"), receipt);
    assert_eq!(controller.get("/v1/chains/pc")["receipt"], receipt);

    let report = controller.get("/v1/chains/pc");
    assert_eq!(report["functions"], json!(["v2", "v1"]));
    assert_eq!(report["nodes"][0]["counters"]["finished"]["packets"], 7);
    let chains: Vec<catena_model::status::ChainSummary> =
        serde_json::from_value(controller.get("/v1/chains")).unwrap();
    assert_eq!((chains[0].name.as_str(), chains[0].status.state.name()), ("pc", "active"));
    let status = controller.get("/v1/status");
    assert_eq!(
        (&status["nodes"]["connected"], &status["chains"]["active"]),
        (&json!(2), &json!(1))
    );
    let (http, url) = controller.raw();
    let metrics = http.get(format!("{url}/metrics")).send().unwrap().text().unwrap();
    let line = format!(
        "catena_chain_entered_packets_total{{node=\"host1\",chain=\"pc\",path=\"{first}\"}} 7"
    );
    assert!(metrics.contains(&line), "{metrics}");
    assert!(metrics.contains("catena_unaccounted_packets{node=\"host2\"} 0"), "{metrics}");
}

#[test]
fn a_node_that_tells_impossible_numbers_does_no_harm_to_the_controller() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
    let most = Volume { packets: u64::MAX, bytes: u64::MAX };
    let counters = ChainCounters {
        chain: ChainId(id(&chain).parse().unwrap()),
        path: one.program().unwrap().rules[0].path,
        entered: most,
        finished: most,
        tapped: Volume::default(),
        pinned_flows: 0,
        tunnelled_out: most,
        tunnelled_in: most,
        dropped: BTreeMap::from([(catena_model::DropReason::NoPath, u64::MAX)]),
        hops: Vec::new(),
        is_partial: false,
    };
    one.state.lock().unwrap().chains = vec![counters.clone(), counters];
    assert_eq!(controller.call("DELETE", &format!("{CHAINS}/{}", id(&chain)), None).0, 204);
    eventually("the drained path is gone", || {
        one.program().unwrap().paths.is_empty().then_some(())
    });
    controller.get("/v1/status");
}

#[test]
fn a_chain_that_was_made_and_deleted_before_its_answer_is_answered_as_made() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    one.hold();
    let chain = lab.chain("pc", &[&function], &[&classifier]);
    std::thread::scope(|scope| {
        let creator = scope.spawn(|| controller.post(CHAINS, &chain));
        let made = eventually("the chain in the list", || {
            controller.get(CHAINS)["port_chains"].as_array()?.first().map(id)
        });
        assert_eq!(controller.call("DELETE", &format!("{CHAINS}/{made}"), None).0, 204);
        let (status, shown) = creator.join().unwrap();
        assert_eq!((status, shown["id"].as_str()), (201, Some(made.as_str())), "{shown}");
    });
}

#[test]
fn a_deleted_chain_that_a_node_has_not_let_go_is_shown_until_it_has() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, SHORT);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
    assert_eq!(state_of(&chain).0, "active");
    assert_eq!(controller.get("/v1/status")["withdrawing"], json!([]));
    one.hold();
    assert_eq!(controller.call("DELETE", &format!("{CHAINS}/{}", id(&chain)), None).0, 204);
    let withdrawing = json!([{"chain": "pc", "nodes": ["host1"]}]);
    assert_eq!(controller.get("/v1/status")["withdrawing"], withdrawing);
    one.release();
    eventually("nothing is left to withdraw", || {
        (controller.get("/v1/status")["withdrawing"] == json!([])).then_some(())
    });
}

#[test]
fn a_refusing_node_does_not_keep_a_deletion_waiting() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
    one.state.lock().unwrap().refuses = Some("its disk is full".into());
    // The client gives up after its own patience, far below the bound.
    assert_eq!(controller.call("DELETE", &format!("{CHAINS}/{}", id(&chain)), None).0, 204);
}

#[test]
fn a_port_that_its_node_has_not_spoken_of_again_stays_bound() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let one = agent(&controller, "host1", 1);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let chain = controller.create(CHAINS, &lab.chain("pc", &[&function], &[&classifier]));
    let shown = format!("{CHAINS}/{}", id(&chain));
    let reason = |port: &str| {
        let port = controller.get(&format!("/v2.0/ports/{port}"));
        port["port"]["status"].as_str().unwrap().to_owned()
    };
    // An agent that has just come back has tried one of its ports only.
    one.tell_ports(&[("v1-in", "no interface 'v1-in'")]);
    eventually("the one port is down", || {
        let ports = controller.get("/v2.0/ports?name=v1-in");
        (ports["ports"][0]["status"] == "DOWN").then_some(())
    });
    assert_eq!(reason(&source), "ACTIVE", "undecided is not unbound");
    one.tell_ports(&[("v1-in", "")]);
    eventually("active again", || {
        (controller.get(&shown)["port_chain"]["status"] == "active").then_some(())
    });
    // A node that has lost everything starts with nothing.
    one.disconnect();
    let _empty = FakeAgent::connect_running(
        data.path(),
        "host1",
        1,
        controller.southbound,
        State { is_silent: true, ..State::default() },
    );
    eventually("the ports of a node without a program are down", || {
        (reason(&source) == "DOWN").then_some(())
    });
}

#[test]
fn an_address_of_another_node_or_a_link_too_narrow_for_packets_opens_no_session() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, SHORT);
    let one = agent(&controller, "host1", 1);
    eventually("host1", || {
        (controller.get("/v1/nodes").as_array().unwrap().len() == 1).then_some(())
    });
    let certificates = enroll(data.path(), "host2");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refusal_at = |to, address: &str, mtu: u32| {
        let first = catena_protocol::session::hello(
            "host2",
            "",
            (address.to_owned(), mtu),
            NodeRole::Host,
            (Vec::new(), &Default::default()),
            Default::default(),
        );
        runtime.block_on(async {
            let (_outgoing, mut incoming) = dial(&certificates, &certificates, to, first).await?;
            while incoming.message().await.map_err(|status| status.message().to_owned())?.is_some()
            {
            }
            Err::<(), String>("closed without a reason".into())
        })
    };
    let refusal = |address: &str, mtu: u32| refusal_at(controller.southbound, address, mtu);
    let error = refusal("192.0.2.1", 1_500).unwrap_err();
    assert!(error.contains("192.0.2.1") && error.contains("node 'host1'"), "{error}");
    for (nobodys, what) in [
        ("0.0.0.0", "no address of anybody"),
        ("::", "no address of anybody"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.9", "loopback"),
        ("224.0.0.5", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("host1", "no address"),
    ] {
        let error = refusal(nobodys, 1_500).unwrap_err();
        assert!(error.contains(what) && error.contains(nobodys), "{nobodys}: {error}");
    }
    for narrow in [0, 1_279] {
        let error = refusal("192.0.2.2", narrow).unwrap_err();
        assert!(error.contains("1280"), "{error}");
    }
    // Who is away keeps his address, also over a restart of the controller, until he is forgotten.
    one.disconnect();
    eventually("its end", || {
        let is_away = controller.get("/v1/nodes")[0]["status"]["is_connected"] == false;
        is_away.then_some(())
    });
    controller.stop();
    let controller = self::controller(&data, SHORT);
    for same in ["192.0.2.1", "::ffff:192.0.2.1"] {
        let error = refusal_at(controller.southbound, same, 1_500).unwrap_err();
        assert!(error.contains("'host1', which is away"), "{error}");
        assert!(error.contains("catena node forget host1"), "{error}");
    }
    assert_eq!(controller.get("/v1/nodes").as_array().unwrap().len(), 1);
    assert_eq!(controller.call("DELETE", "/v1/nodes/host1", None).0, 204);
    let _two = agent(&controller, "host2", 1);
    eventually("host2 with the address that is free", || {
        (controller.get("/v1/nodes")[0]["status"]["node"] == "host2").then_some(())
    });
}

#[test]
fn what_no_data_plane_could_carry_is_refused_and_not_stored() {
    let data = tempfile::tempdir().unwrap();
    let controller = controller(&data, LONG);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let ingress = lab.port("v1-in", "v1", "host1");
    let outs = [lab.port("v1-a", "v1", "host1"), lab.port("v1-b", "v1", "host1")];
    let functions =
        [lab.function("va", &ingress, &outs[0]), lab.function("vb", &ingress, &outs[1])];
    let classifiers = [lab.classifier("fc1", &source, 1), lab.classifier("fc2", &source, 2)];
    controller.create(CHAINS, &lab.chain("good", &[&functions[0]], &[&classifiers[0]]));
    let (status, body) =
        controller.post(CHAINS, &lab.chain("bad", &[&functions[1]], &[&classifiers[1]]));
    assert_eq!((status, kind(&body)), (409, "ChainNotRealizable"));
    assert!(message(&body).contains("one egress per ingress"), "{body}");
    let chains = controller.get(CHAINS);
    assert_eq!(chains["port_chains"].as_array().unwrap().len(), 1);
    // What is not stored is not in the way either.
    let classifier = format!("/v2.0/sfc/flow_classifiers/{}", classifiers[1]);
    assert_eq!(controller.call("DELETE", &classifier, None).0, 204);
}

#[test]
fn only_a_certificate_of_this_authority_and_of_the_same_node_opens_a_session() {
    let data = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let controller = controller(&data, SHORT);
    controller.get("/v1/status");
    let (ours, theirs) = (enroll(data.path(), "host1"), enroll(elsewhere.path(), "host1"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hello = |node: &str| {
        catena_protocol::session::hello(
            node,
            "",
            ("192.0.2.9".to_owned(), 1_500),
            NodeRole::Host,
            (Vec::new(), &Default::default()),
            Default::default(),
        )
    };
    let to = controller.southbound;
    let session = |certificates, ca, node: &str| {
        let first = hello(node);
        runtime.block_on(async move {
            let (outgoing, mut incoming) = dial(certificates, ca, to, first).await?;
            let first = incoming.message().await.map_err(|status| status.message().to_owned())?;
            drop(outgoing);
            first.ok_or_else(|| "closed".to_owned())
        })
    };
    assert!(session(&theirs, &ours, "host1").is_err(), "a foreign authority");
    assert!(session(&ours, &theirs, "host1").is_err(), "the agent checks the controller too");
    let error = session(&ours, &ours, "host2").unwrap_err();
    assert!(error.contains("'host2'") && error.contains("certificate of 'host1'"), "{error}");
    assert_eq!(controller.get("/v1/nodes"), json!([]), "nobody was let in");
    session(&ours, &ours, "host1").unwrap();
    eventually("host1", || {
        (controller.get("/v1/nodes").as_array().unwrap().len() == 1).then_some(())
    });
}
