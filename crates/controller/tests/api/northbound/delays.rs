//! Packets at the end of their paths, as agents tell them: what becomes figures, and what is counted and does not.

use super::moves::{House, LONG, change};
use crate::support::agent::{FakeAgent, State};
use crate::support::eventually;
use catena_model::telemetry::{
    ArrivalTime, DeviceId, FlowCounter, FlowName, HopRecord, HopReport, PathEnd, ReportReason,
    Stamp, VisitLatency,
};
use catena_model::{NodeName, PathId};
use catena_protocol::message::{FromAgent, PathEnds, PathEndsLost, from_agent};
use catena_protocol::telemetry::pack_end;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// How long functions take, in nanoseconds: those of the first hop, and of the second.
const SERVICE_NS: [u64; 2] = [12_800, 51_200];
/// From the arrival at the first hop to that at the second.
const LEG_NS: u64 = 30_000;

/// A house whose chain has telemetry, and what its packets have counted.
struct World {
    house: House,
    path: PathId,
    devices: [DeviceId; 2],
    began: Instant,
    count: u64,
    /// What the agents of the hosts told.
    sequences: [u64; 2],
    are_synchronised: bool,
}

impl World {
    fn new(data: &Path) -> Self {
        Self::with_clock(data, 0)
    }

    /// The same where all nodes stamp by one clock.
    fn with_clock(data: &Path, clock: u64) -> Self {
        let place = |host: u8| (format!("2001:db8::{host}"), format!("5f00:0:{host}::/48"));
        let state = |host| State { segments: place(host), clock, ..State::default() };
        let house = House::start_with(data, LONG, state);
        let telemetry = json!({"encapsulation": "srv6", "telemetry": {"mirror": 1}});
        let (status, report) = change(&house.controller, "web", &telemetry);
        assert_eq!((status, &report["status"]["state"]), (200, &json!("active")), "{report}");
        let program = house.agents[0].program().unwrap();
        let devices = ["host1", "host2"].map(|name| {
            let is_it = |node: &NodeName| node.as_str() == name;
            let locator = program.locators.iter().find(|locator| is_it(&locator.node));
            locator.unwrap().device.unwrap()
        });
        let path = house.path().id;
        let world = Self {
            house,
            path,
            devices,
            began: Instant::now(),
            count: 0,
            sequences: [0; 2],
            are_synchronised: false,
        };
        eventually("its path to be watched", || {
            (world.path_told()["taken"]["reports"] == 0).then_some(())
        });
        world
    }

    /// A packet that came by these devices.
    fn end(&mut self, devices: [DeviceId; 2]) -> PathEnd {
        self.count += 1;
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap();
        let hop = |place: usize| {
            let time = ArrivalTime::from_ns(now_ns + LEG_NS * place as u64);
            HopReport::Recorded(HopRecord {
                device: Some(devices[place]),
                arrival: Some(Stamp { time, is_synchronised: self.are_synchronised }),
                latency: Some(VisitLatency { ns: SERVICE_NS[place], is_saturated: false }),
                queue: None,
                counter: Some(FlowCounter::of(self.count)),
            })
        };
        PathEnd {
            path: self.path,
            flow: FlowName(77),
            reason: ReportReason::Sampled,
            is_incomplete: false,
            hops: vec![hop(0), hop(1)],
        }
    }

    fn honest(&mut self, packets: u64) {
        let ends: Vec<PathEnd> = (0..packets).map(|_| self.end(self.devices)).collect();
        self.tell(1, &ends, PathEndsLost::default());
    }

    /// The agent of a host tells this.
    fn tell(&mut self, host: usize, ends: &[PathEnd], lost: PathEndsLost) {
        let first = self.sequences[host];
        self.sequences[host] += ends.len() as u64;
        let ends = ends.iter().map(pack_end).collect();
        send(&self.house.agents[host], PathEnds { first, ends, lost: Some(lost) });
    }

    fn delays(&self) -> Value {
        self.house.controller.get("/v1/chains/web/delays")
    }

    fn path_told(&self) -> Value {
        let told = self.delays();
        let paths = told["paths"].as_array().unwrap();
        let found = paths.iter().find(|told| told["path"] == json!(self.path));
        found.cloned().unwrap_or_default()
    }

    /// What a host told.
    fn teller(&self, host: usize) -> Value {
        let told = self.delays();
        let node = format!("host{}", host + 1);
        let tellers = told["tellers"].as_array().unwrap();
        tellers.iter().find(|teller| teller["node"] == json!(node)).unwrap().clone()
    }

    /// Waits until a host has told this.
    fn until(&self, what: &str, host: usize, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.teller(host)).filter(|told| is_so(told)))
    }

    fn metrics(&self) -> String {
        let (http, url) = self.house.controller.raw();
        http.get(format!("{url}/metrics")).send().unwrap().text().unwrap()
    }
}

fn send(agent: &FakeAgent, ends: PathEnds) {
    let message = FromAgent { message: Some(from_agent::Message::PathEnds(ends)) };
    agent.state.lock().unwrap().outgoing.clone().unwrap().try_send(message).unwrap();
}

/// Is it that, to 1/64?
fn is_about(told: &Value, ns: u64) -> bool {
    told.as_u64().is_some_and(|told| told.abs_diff(ns) <= ns / 64)
}

#[test]
fn what_packets_tell_at_their_end_are_figures_with_source_samples_and_error() {
    let data = tempfile::tempdir().unwrap();
    let mut world = World::new(data.path());
    let unseen = world.path_told();
    assert_eq!(unseen["whole"]["delays"], json!([]), "{unseen}");
    assert_eq!(unseen["whole"]["reason"], "no packet of it was told of yet");
    assert_eq!((&unseen["hops"][0]["lost"], unseen["mirror"].as_u64()), (&Value::Null, Some(1)));
    assert!(!world.metrics().contains("catena_hop_delay_seconds{"), "nothing was observed");

    world.honest(400);
    // A window is told when it is over.
    let told = eventually("figures", || {
        let told = world.path_told();
        (told["hops"][1]["visits"][0]["delays"][0]["samples"] == 400).then_some(told)
    });
    let taken = json!({
        "reports": 400, "complete": 400, "silent": 0, "missing": 0, "incomplete": 0,
        "passed_over": 0
    });
    assert_eq!(told["taken"], taken);
    for (place, (node, function)) in [("host1", "v1"), ("host2", "v2")].into_iter().enumerate() {
        let hop = &told["hops"][place];
        let visit = &hop["visits"][0];
        assert_eq!((&visit["node"], &visit["functions"]), (&json!(node), &json!([function])));
        let delay = &visit["delays"][0];
        assert_eq!(delay["source"], "packet");
        assert!(is_about(&delay["p50"]["ns"], SERVICE_NS[place]), "{delay}");
        assert!(is_about(&delay["p99"]["ns"], SERVICE_NS[place]), "{delay}");
        assert!(delay["p50"]["at_most_ns"].as_u64().unwrap() >= SERVICE_NS[place], "{delay}");
        assert_eq!((&delay["error_permille"], &delay["error_ns"]), (&json!(16), &json!(64)));
        assert_eq!(hop["leg"], json!([]), "nobody says that clocks agree");
    }
    assert_eq!(
        (&told["hops"][0]["lost"]["packets"], &told["hops"][1]["lost"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(told["whole"]["delays"], json!([]));
    assert!(told["whole"]["reason"].as_str().unwrap().contains("synchronised"), "{told}");

    world.are_synchronised = true;
    world.honest(50);
    let told = eventually("the chain's delay", || {
        let told = world.path_told();
        (told["whole"]["delays"][0]["samples"] == 50).then_some(told)
    });
    assert_eq!(told["whole"]["reason"], Value::Null);
    assert!(is_about(&told["whole"]["delays"][0]["p95"]["ns"], LEG_NS), "{told}");
    assert!(is_about(&told["hops"][0]["leg"][0]["p50"]["ns"], LEG_NS), "{told}");
    assert_eq!(told["whole"]["delays"][0]["error_ns"], Value::Null);

    let metrics = world.metrics();
    let path = format!("chain=\"web\",path=\"{}\"", world.path);
    for (name, labels, ns) in [
        ("catena_hop_delay_seconds", ",hop=\"0\",node=\"host1\"", SERVICE_NS[0]),
        ("catena_hop_leg_delay_seconds", ",hop=\"0\"", LEG_NS),
        ("catena_chain_delay_seconds", "", LEG_NS),
    ] {
        let line = format!("{name}{{{path}{labels},source=\"packet\",quantile=\"0.99\"}}");
        let told: f64 = value(&metrics, &line).parse().unwrap();
        assert!((told * 1e9 - ns as f64).abs() <= ns as f64 / 64.0, "{line}: {told}");
    }
    assert_eq!(value(&metrics, "catena_telemetry_reports_total{node=\"host2\"}"), "450");
}

#[test]
fn nodes_of_one_machine_tell_how_long_a_chain_takes() {
    let data = tempfile::tempdir().unwrap();
    let mut world = World::with_clock(data.path(), 0xc10c);
    world.honest(50);
    let told = eventually("the chain's delay", || {
        let told = world.path_told();
        (told["whole"]["delays"][0]["samples"] == 50).then_some(told)
    });
    assert!(is_about(&told["whole"]["delays"][0]["p50"]["ns"], LEG_NS), "{told}");
    assert!(is_about(&told["hops"][0]["leg"][0]["p99"]["ns"], LEG_NS), "{told}");
}

/// What a metric says.
fn value<'m>(metrics: &'m str, name: &str) -> &'m str {
    let found = metrics.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} is not in {metrics}")).trim()
}

#[test]
fn who_lies_or_floods_changes_no_figure_and_is_counted_by_name() {
    let data = tempfile::tempdir().unwrap();
    let mut world = World::new(data.path());
    world.honest(100);
    eventually("the figures", || {
        let told = world.path_told();
        (told["hops"][1]["visits"][0]["delays"][0]["samples"] == 100).then_some(())
    });
    let before = world.path_told();

    let [first, second] = world.devices;
    let foreign = world.end([first, DeviceId(999)]);
    let turned = world.end([second, first]);
    let unplanned = PathEnd { path: PathId(4_000_000), ..world.end([first, second]) };
    let malformed = PathEnd { hops: vec![HopReport::Malformed; 2], ..unplanned.clone() };
    let malformed = PathEnd { path: world.path, ..malformed };
    world.tell(1, &[foreign, turned, unplanned, malformed], PathEndsLost::default());
    let told = world.until("the lies", 1, |told| told["refused"]["malformed"] == 1);
    for reason in ["foreign_device", "other_order", "unplanned_path"] {
        assert_eq!(told["refused"][reason], 1, "{reason}: {told}");
    }
    // The node of the first hop has nothing to tell of where the path ends.
    let whole = world.end([first, second]);
    world.tell(0, &[whole], PathEndsLost::default());
    world.until("the foreign reporter", 0, |told| told["refused"]["foreign_reporter"] == 1);
    // Again what was told before.
    world.sequences[1] = 50;
    let again = world.end([first, second]);
    world.tell(1, &[again], PathEndsLost::default());
    world.until("the repetition", 1, |told| told["refused"]["repeated"] == 1);
    // More than a node may tell, of a path that nobody planned.
    world.sequences[1] = 1_000;
    let flood = vec![PathEnd { path: PathId(4_000_000), ..world.end([first, second]) }; 40_000];
    let told = eventually("the flood", || {
        world.tell(1, &flood, PathEndsLost { agent: 5, ..PathEndsLost::default() });
        Some(world.teller(1)).filter(|told| told["refused"]["flooded"].as_u64() > Some(0))
    });
    assert_eq!(told["lost"], json!({"agent": 5}));
    assert_eq!(world.path_told(), before, "no figure has changed");

    let metrics = world.metrics();
    let refused = "catena_telemetry_refused_total{node=\"host2\",reason=\"foreign_device\"}";
    assert_eq!(value(&metrics, refused), "1");
    let lost = "catena_telemetry_lost_total{node=\"host2\",at=\"agent\"}";
    assert_eq!(value(&metrics, lost), "5");
}

#[test]
fn a_chain_without_telemetry_has_no_paths_to_tell_of_and_gone_paths_are_forgotten() {
    let data = tempfile::tempdir().unwrap();
    let mut world = World::new(data.path());
    world.honest(10);
    world.until("the reports", 1, |told| told["believed"] == 10);
    let (status, report) = change(&world.house.controller, "web", &json!({"telemetry": null}));
    assert_eq!(status, 200, "{report}");
    eventually("nothing to be told", || {
        let told = world.delays();
        (told["paths"] == json!([])).then_some(())
    });
    let (status, _) = world.house.controller.call("GET", "/v1/chains/none/delays", None);
    assert_eq!(status, 404);
}
