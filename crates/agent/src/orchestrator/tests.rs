//! What a node is to run is compared with what it runs, by an orchestrator that only notes its orders.

use super::*;
use catena_model::instance::{InstanceInterface, InstanceProgram, namespace_of};
use catena_wire::scalar::MacAddr;
use uuid::Uuid;

/// Notes what it is told.
#[derive(Default)]
struct Notes(Vec<String>);

impl Orchestrator for Notes {
    fn deploy(&mut self, spec: InstanceSpec) {
        self.0.push(format!("deploy {}", spec.name));
    }

    fn resize(&mut self, id: InstanceId, bounds: InstanceBounds) {
        self.0.push(format!("resize {} {:?}", id.0.as_u128(), bounds.cpu_milli));
    }

    fn remove(&mut self, id: InstanceId) {
        self.0.push(format!("remove {}", id.0.as_u128()));
    }
}

fn spec(number: u128, command: &str) -> InstanceSpec {
    let id = InstanceId(Uuid::from_u128(number));
    InstanceSpec {
        id,
        name: format!("f{number}"),
        program: InstanceProgram::Command(vec![command.into()]),
        namespace: namespace_of(id),
        interfaces: vec![InstanceInterface {
            name: "eth0".into(),
            port: port(number),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            addresses: Vec::new(),
        }],
        bounds: InstanceBounds::default(),
    }
}

fn port(number: u128) -> PortId {
    PortId(Uuid::from_u128(100 + number))
}

fn told(specs: &[InstanceSpec], is_last: bool) -> Instances {
    let instances = specs.iter().map(|spec| serde_json::to_vec(spec).unwrap()).collect();
    Instances { instances, is_last }
}

fn crew(there: Vec<InstanceSpec>) -> Crew<Notes> {
    Crew::new(Notes::default(), there)
}

fn notes(crew: &mut Crew<Notes>) -> Vec<String> {
    std::mem::take(&mut crew.orchestrator.0)
}

#[test]
fn what_is_wanted_is_deployed_once_all_of_it_is_known() {
    let mut crew = crew(Vec::new());
    crew.take(&told(&[spec(1, "a")], false));
    crew.follow(|_| false);
    assert!(notes(&mut crew).is_empty(), "the list goes on");
    crew.take(&told(&[spec(2, "b")], true));
    crew.follow(|_| false);
    assert_eq!(notes(&mut crew), ["deploy f1", "deploy f2"]);
    crew.follow(|_| false);
    assert!(notes(&mut crew).is_empty(), "once");
    crew.take(&told(&[spec(1, "other"), spec(2, "b")], true));
    crew.follow(|_| false);
    assert_eq!(notes(&mut crew), ["deploy f1"]);
    let bounds = InstanceBounds { cpu_milli: Some(500), memory_mib: None };
    crew.take(&told(&[spec(1, "other"), InstanceSpec { bounds, ..spec(2, "b") }], true));
    crew.follow(|_| false);
    assert_eq!(notes(&mut crew), ["resize 2 Some(500)"]);
}

#[test]
fn an_instance_goes_when_it_is_not_wanted_and_no_path_leads_to_it() {
    let mut crew = crew(vec![spec(1, "a")]);
    crew.follow(|_| false);
    assert!(notes(&mut crew).is_empty(), "nobody has said yet what is wanted");
    crew.take(&told(&[], true));
    crew.follow(|needed| needed == port(1));
    assert!(notes(&mut crew).is_empty(), "a path still leads there");
    crew.follow(|_| false);
    assert_eq!(notes(&mut crew), ["remove 1"]);
}

#[test]
fn states_are_told_when_they_change_and_to_whoever_comes_anew() {
    let mut crew = crew(vec![spec(1, "a")]);
    assert!(crew.take_news().is_none());
    let state = |number: u128| InstanceState {
        id: InstanceId(Uuid::from_u128(number)),
        is_running: true,
        restarts: 0,
        last_exit: String::new(),
    };
    crew.learn(state(1));
    crew.learn(state(9));
    let read =
        |told: InstanceStates| serde_json::from_slice::<Vec<InstanceState>>(&told.body).unwrap();
    assert_eq!(crew.take_news().map(read), Some(vec![state(1)]), "nobody asked for the other");
    assert!(crew.take_news().is_none());
    crew.tell_anew();
    assert_eq!(crew.take_news().map(read), Some(vec![state(1)]));
    crew.take(&told(&[], true));
    crew.follow(|_| false);
    assert_eq!(crew.take_news().map(read), Some(Vec::new()), "it is gone");
    crew.tell_anew();
    assert!(crew.take_news().is_none(), "who runs nothing says nothing");
}

#[test]
fn what_cannot_be_read_is_not_run_and_more_than_may_be_are_not() {
    let mut crew = crew(Vec::new());
    crew.take(&Instances { instances: vec![b"{".to_vec()], is_last: false });
    let many: Vec<InstanceSpec> =
        (0..=NODE_INSTANCES_MAX as u128).map(|number| spec(number, "a")).collect();
    crew.take(&told(&many, true));
    crew.follow(|_| false);
    assert_eq!(notes(&mut crew).len(), NODE_INSTANCES_MAX);
}
