//! What was seen of probes, and the line for people.

use super::*;
use catena_model::bundle::{Configuration, ConfigurationId, Member};
use catena_model::explain::{
    ExplainAction, FlowShare, FrameBytes, Header, Place, Position, WrittenMacs,
};
use catena_model::id::{ChainId, FunctionId, NetworkId};
use catena_model::program::{Balance, HopEntry};
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::setup::Setup;
use catena_model::{BlueprintNumber, PathId};
use catena_plan::{Direction, PathPhase, SliceReach};
use std::sync::Arc;
use uuid::Uuid;

const FUNCTIONS: [&str; 2] = ["firewall", "ids"];

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn record() -> PathRecord {
    let hop = |name: &&str| HopEntry {
        function: FunctionId(Uuid::nil()),
        name: (*name).to_owned(),
        kind: HopKind::Through,
        on_failure: FailurePolicy::Unwatched,
        balance: Balance::Flow,
        rewrites: None,
        keeps_mac: false,
        via: Vec::new(),
        instances: Vec::new(),
    };
    PathRecord {
        chain: ChainId(Uuid::nil()),
        chain_name: "web".into(),
        encapsulation: Encapsulation::Nsh,
        hops: FUNCTIONS.iter().map(hop).collect(),
        members: Vec::new(),
        destination: NetworkId(Uuid::nil()),
        leads_to: Vec::new(),
        rules: Vec::new(),
        joins: Vec::new(),
        branches: Vec::new(),
        entrances: Default::default(),
        ports: Vec::new(),
        holders: Default::default(),
        phase: PathPhase::Classified,
        since: BlueprintNumber(1),
        needs: Default::default(),
        is_update: false,
        direction: Direction::Forward,
        context: Vec::new(),
        telemetry: None,
        pins: Vec::new(),
        slices: SliceReach::default(),
        is_partly_counted: false,
        splits_flows: false,
        setup: Setup::default(),
    }
}

fn visit(function: &str, index: u8) -> [ExplainAction; 2] {
    let position = Position { path: PathId(42), index };
    let share = FlowShare { flow_hash: 1, instances: 1, weight: 1, weights: 1 };
    let instance = format!("{function}-1");
    let place = Place::Port("p".into());
    [
        ExplainAction::Forwarded {
            position,
            function: function.to_owned(),
            instance: instance.clone(),
            place,
            share,
            is_tap: false,
        },
        ExplainAction::Visited {
            instance,
            port: "p".into(),
            header: None,
            macs: WrittenMacs::default(),
        },
    ]
}

fn recalled(index: u8) -> ExplainAction {
    let position = Position { path: PathId(42), index };
    ExplainAction::Recalled { port: "p".into(), position, is_by_header: false }
}

fn tunnelled(to: &str) -> ExplainAction {
    let header = Header { layers: Vec::new(), bytes: FrameBytes(Vec::new()) };
    ExplainAction::Encapsulated {
        to: node(to),
        header,
        added_bytes: 74,
        macs: WrittenMacs::default(),
        goes_on: false,
    }
}

/// Classified at host1, the firewall there, the ids on host2.
fn sound() -> Vec<(&'static str, Vec<ExplainAction>)> {
    let classified = ExplainAction::Classified {
        rule: "r".into(),
        priority: 1,
        port: "S".into(),
        chain: "web".into(),
        path: PathId(42),
        pinned_from: None,
    };
    let mut first = vec![classified];
    first.extend(visit("firewall", 255));
    first.extend([recalled(254), tunnelled("host2")]);
    let mut second = visit("ids", 254).to_vec();
    let (path, network) = (PathId(42), "customer".into());
    second.extend([recalled(253), ExplainAction::Finished { path, network, mac: None }]);
    vec![("host1", first), ("host2", second)]
}

/// The lines about two small probes and a large one that all met the same.
fn lines(met: &[(&str, Vec<ExplainAction>)]) -> Vec<(bool, String)> {
    lines_of(&record(), met)
}

fn lines_of(record: &PathRecord, met: &[(&str, Vec<ExplainAction>)]) -> Vec<(bool, String)> {
    let mut seen = Seen::new();
    for (name, actions) in met {
        let sightings = (1..=3).flat_map(|probe| {
            actions.iter().map(move |action| Sighting { probe, at: None, action: action.clone() })
        });
        seen.insert(node(name), sightings.collect());
    }
    let entry = node("host1");
    let sent = Sent {
        way: "path 42".into(),
        path: PathId(42),
        record,
        node: &entry,
        small: 1..3,
        large: 3,
        large_bytes: 1_514,
    };
    findings(&sent, &seen).into_iter().map(|finding| (finding.is_ok, finding.text)).collect()
}

fn fault(met: &[(&str, Vec<ExplainAction>)]) -> String {
    let mut found = lines(met);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(!found[0].0);
    found.remove(0).1
}

#[test]
fn a_probe_that_goes_on_into_the_next_chain_has_come_to_the_end_of_this_one() {
    let mut met = sound();
    met[1].1.pop();
    let (after, rule, chain) = ("web".into(), "r".into(), "late".into());
    let path = PathId(43);
    met[1].1.push(ExplainAction::Branched { after, rule, chain, path, pinned_from: None });
    assert_eq!(lines(&met), lines(&sound()));
    let mut elsewhere = visit("ids", 254).to_vec();
    if let ExplainAction::Forwarded { position, .. } = &mut elsewhere[0] {
        position.path = path;
    }
    met[1].1.extend(elsewhere);
    met[1].1.push(ExplainAction::Dropped { reason: DropReason::NoNeighbour });
    assert_eq!(lines(&met), lines(&sound()));
}

#[test]
fn a_sound_chain_is_two_good_lines() {
    assert_eq!(
        lines(&sound()),
        [
            (true, "path 42: 2 probes visited firewall, ids in order".to_owned()),
            (true, "path 42: a 1514 B frame, the largest of its network, passes".to_owned()),
        ]
    );
}

/// The same functions as one hop, inside the data plane of host1, of which a probe met some.
fn beside(met: &[&str]) -> Vec<(bool, String)> {
    let mut record = record();
    record.hops.truncate(1);
    record.hops[0].name = FUNCTIONS.join(", ");
    let member = |(member, name): (u8, &&str)| Member {
        hop: 0,
        member,
        function: (*name).to_owned(),
        id: ConfigurationId([0; 32]),
        configuration: Arc::new(Configuration::new(*name, "{}")),
        instances: Vec::new(),
    };
    record.members = (0..).zip(&FUNCTIONS).map(member).collect();
    let mut first = sound().remove(0).1;
    first.truncate(1);
    first.push(visit(&record.hops[0].name, 255)[0].clone());
    let position = Position { path: PathId(42), index: 255 };
    first.extend(met.iter().map(|name| ExplainAction::Judged {
        position,
        function: (*name).to_owned(),
        instance: format!("{name}-1"),
        rules: Vec::new(),
        ends: None,
        becomes: None,
    }));
    first.push(sound().remove(1).1.pop().unwrap());
    lines_of(&record, &[("host1", first)])
}

#[test]
fn functions_that_are_one_hop_are_visited_one_by_one() {
    assert_eq!(beside(&FUNCTIONS), lines(&sound()));
    let missed = beside(&FUNCTIONS[..1]);
    assert!(missed.len() == 1 && !missed[0].0, "{missed:?}");
}

#[test]
fn the_first_thing_that_goes_wrong_is_named() {
    let mut swallowed = sound();
    swallowed[0].1.truncate(3);
    swallowed.truncate(1);
    assert_eq!(
        fault(&swallowed),
        "path 42: 2 of 2 probes did not come back from instance 'firewall-1' of 'firewall' (host1)"
    );
    let mut lost = sound();
    lost.truncate(1);
    assert_eq!(fault(&lost), "path 42: 2 of 2 probes left host1 and did not reach host2");
    assert_eq!(fault(&[]), "path 42: 2 of 2 probes met no rule of the chain at host1");
    let mut dropped = sound();
    dropped[1].1.truncate(2);
    dropped[1].1.push(ExplainAction::Dropped { reason: DropReason::UnknownReturn });
    assert_eq!(fault(&dropped), "path 42: 2 of 2 probes dropped at host2: unknown_return");
    let mut passed_by = sound();
    passed_by[1].1[1] = ExplainAction::Bypassed {
        position: Position { path: PathId(42), index: 254 },
        function: "ids".into(),
        instance: "ids-1".into(),
    };
    assert_eq!(fault(&passed_by), "path 42: 2 of 2 probes went past 'ids': its instance is dead");
    let mut swapped = sound();
    swapped[0].1[1] = visit("ids", 255)[0].clone();
    swapped[1].1[0] = visit("firewall", 254)[0].clone();
    assert_eq!(
        fault(&swapped),
        "path 42: 2 of 2 probes visited ids, firewall instead of firewall, ids"
    );
}

#[test]
fn a_frame_too_large_says_what_the_data_network_must_carry() {
    let mut seen = Seen::new();
    for (name, actions) in sound() {
        let sightings = (1..=2).flat_map(|probe| {
            actions.clone().into_iter().map(move |action| Sighting { probe, at: None, action })
        });
        seen.insert(node(name), sightings.collect());
    }
    let mut large = sound().remove(0).1;
    large.push(ExplainAction::Dropped { reason: DropReason::MtuExceeded });
    let large = large.into_iter().map(|action| Sighting { probe: 3, at: None, action });
    seen.get_mut(&node("host1")).unwrap().extend(large);
    let (record, entry) = (record(), node("host1"));
    let sent = Sent {
        way: "path 42".into(),
        path: PathId(42),
        record: &record,
        node: &entry,
        small: 1..3,
        large: 3,
        large_bytes: 1_514,
    };
    let found = findings(&sent, &seen);
    assert_eq!(
        found[1].text,
        "path 42: a 1514 B frame dropped at host1: mtu_exceeded (needs 1574)"
    );
    assert!(found[1].fix.as_ref().unwrap().contains("1574 B"), "{found:?}");
}

#[test]
fn delays_are_those_of_probes_that_passed_between_ends_of_one_clock() {
    let timed = |clocks: [u64; 2], met: Vec<(&str, Vec<ExplainAction>)>| {
        let mut seen = Seen::new();
        for ((name, actions), (clock, ns)) in
            met.into_iter().zip(clocks.into_iter().zip([100, 350]))
        {
            let sightings = (1..=2).flat_map(|probe| {
                let at = Some(ClockTime { clock, ns: ns + 10 * probe * probe });
                actions.clone().into_iter().map(move |action| Sighting { probe, at, action })
            });
            seen.insert(node(name), sightings.collect());
        }
        let (record, entry) = (record(), node("host1"));
        let (way, path, small) = ("path 42".into(), PathId(42), 1..3);
        let (record, node) = (&record, &entry);
        let sent = Sent { way, path, record, node, small, large: 3, large_bytes: 1_514 };
        delays(&sent, &seen)
    };
    assert_eq!(timed([7, 7], sound()), [250, 250]);
    assert_eq!(timed([7, 8], sound()), [0; 0], "nobody can tell");
    let mut lost = sound();
    lost[1].1.pop();
    assert_eq!(timed([7, 7], lost), [0; 0], "it did not come to the end");
}
