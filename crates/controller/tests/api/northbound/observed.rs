//! What counters of nodes say of functions, as the status of chains tells it.

use crate::support::agent::FakeAgent;
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, open};
use catena_model::account::Account;
use catena_model::id::PortId;
use catena_model::program::PathEntry;
use catena_model::service_time::ServiceTime;
use catena_model::sojourn_time::SojournTime;
use catena_model::{ChainCounters, DropReason, HopCounters, PortCounters, Volume};
use serde_json::json;
use std::collections::BTreeMap;

/// A house with chain `web` over a tap `t1` and a function `v1`, whose machine has one more port.
struct House<'c> {
    controller: &'c Controller,
    agent: FakeAgent,
    /// The path, or those of both ways, forward first.
    paths: Vec<PathEntry>,
    /// The further port of v1's machine.
    other: PortId,
}

impl<'c> House<'c> {
    fn new(controller: &'c Controller, is_symmetric: bool) -> Self {
        let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
        let lab = Lab::new(controller);
        let source = lab.port("S", "S", "host1");
        let other = lab.port("v1-other", "v1", "host1");
        let function = lab.function_on("v1", "host1");
        let tap_port = lab.port("t1", "t1", "host1");
        let tap = json!({"name": "t1", "ingress": tap_port, "egress": tap_port});
        let tap = id(&controller.create("/v2.0/sfc/port_pairs", &tap));
        let tap = json!({"name": "t1", "port_pairs": [tap], "tap_enabled": true});
        let tap = id(&controller.create("/v2.0/sfc/port_pair_groups", &tap));
        let classifier = lab.classifier("fc", &source, 5_001);
        let mut chain = lab.chain("web", &[&tap, &function], &[&classifier]);
        chain["chain_parameters"]["symmetric"] = json!(is_symmetric);
        controller.create("/v2.0/sfc/port_chains", &chain);
        let mut paths = eventually("its paths", || {
            let paths = agent.program()?.paths;
            (paths.len() == if is_symmetric { 2 } else { 1 }).then_some(paths)
        });
        paths.sort_by_key(|path| path.is_way_back);
        let other = PortId(other.parse().unwrap());
        Self { controller, agent, paths, other }
    }

    /// The node counts so many packets into both hops of each path, and out of the function on each.
    fn count(&self, delivered: u64, returned: &[u64]) {
        let counted = self.paths.iter().zip(returned);
        let counted = counted.map(|(path, returned)| counters(path, delivered, *returned));
        self.agent.state.lock().unwrap().chains = counted.collect();
    }

    /// The node counts so many drops at v1's further port.
    fn drop_undeclared(&self, packets: u64) {
        let dropped = BTreeMap::from([(DropReason::UndeclaredPort, packets)]);
        let account = Account { dropped, ..Account::default() };
        self.agent.state.lock().unwrap().ports = vec![PortCounters {
            port: self.other,
            name: "v1-other".into(),
            account,
            transmitted: Volume::default(),
            created_by_function: 0,
            lost_in_function: 0,
            ring_full: 0,
            interface: None,
        }];
    }

    /// Waits until the chain has this state, and a reason that holds what is told.
    fn becomes(&self, state: &str, is_told: impl Fn(&str) -> bool) -> String {
        eventually(state, || {
            let status = self.controller.get("/v1/chains/web")["status"].clone();
            let reason = status["reason"].as_str()?.to_owned();
            (status["state"] == state && is_told(&reason)).then_some(reason)
        })
    }
}

/// What a node counts of a path: so many packets into each hop, and out of the function `v1`.
fn counters(path: &PathEntry, delivered: u64, returned: u64) -> ChainCounters {
    let volume = |packets| Volume { packets, bytes: packets * 100 };
    let hops = (0u16..).zip(&path.hops).map(|(place, hop)| HopCounters {
        member: 0,
        hop: place,
        instance: hop.instances[0].id,
        name: hop.instances[0].name.clone(),
        delivered: volume(delivered),
        returned: volume(if hop.name == "v1" { returned } else { 0 }),
        rewritten: 0,
        ambiguous: 0,
        bypassed: Volume::default(),
        denied: 0,
        generated: 0,
        service_time: ServiceTime::default(),
        sojourn_time: SojournTime::default(),
    });
    ChainCounters {
        chain: path.chain,
        path: path.id,
        entered: volume(delivered),
        finished: volume(returned),
        tapped: volume(delivered),
        pinned_flows: 0,
        tunnelled_out: Volume::default(),
        tunnelled_in: Volume::default(),
        dropped: BTreeMap::new(),
        hops: hops.collect(),
        is_partial: false,
    }
}

#[test]
fn a_hop_that_gives_nothing_back_is_told_and_strays_degrade_its_chain() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller, false);
    house.becomes("active", str::is_empty);
    house.count(5, &[0]);
    let reason = house.becomes("active", |reason| !reason.is_empty());
    assert!(reason.starts_with("instance 'v1' of function 'v1' gives nothing back"), "{reason}");
    assert!(reason.contains(" since 20") && reason.ends_with('Z'), "{reason}");
    assert!(!reason.contains("t1"), "nothing is expected back from a tap: {reason}");
    // Nothing more is given: it is still so. By the dialect of networking-sfc too.
    let chains = controller.get("/v2.0/sfc/port_chains");
    let chain = &chains["port_chains"][0];
    assert_eq!((&chain["status"], &chain["status_reason"]), (&json!("active"), &json!(reason)));
    house.count(9, &[4]);
    house.becomes("active", str::is_empty);

    house.drop_undeclared(0);
    let asked = || house.agent.state.lock().unwrap().asked;
    let before = asked();
    eventually("a look before any drop", || (asked() >= before + 2).then_some(()));
    house.drop_undeclared(3);
    let stray = "the machine of function 'v1' sends by port 'v1-other' what no path expects";
    house.becomes("degraded", |reason| reason.starts_with(stray));
}

#[test]
fn of_a_symmetric_chain_the_path_that_is_silent_is_told() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller, true);
    house.becomes("active", str::is_empty);
    let silent = |way: &str| {
        format!(
            "instance 'v1' of function 'v1' gives nothing back of what it is given on the {way} path"
        )
    };
    house.count(5, &[5, 0]);
    let reason = house.becomes("active", |reason| !reason.is_empty());
    assert!(reason.starts_with(&silent("reverse")), "{reason}");
    assert!(!reason.contains("forward"), "{reason}");
    house.count(9, &[5, 4]);
    let reason = house.becomes("active", |reason| reason.contains("forward"));
    assert!(reason.starts_with(&silent("forward")), "{reason}");
    assert!(!reason.contains("reverse"), "{reason}");
}
