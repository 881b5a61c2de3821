//! What people read of a chain and its counters.

use super::*;
use catena_model::account::ChainCounters;
use catena_model::id::{BlueprintNumber, ChainId, InstanceId, PathId};
use catena_model::resource::Encapsulation;
use catena_model::service_time::ServiceTime;
use catena_model::setup::Setup;
use catena_model::sojourn_time::SojournTime;
use catena_model::status::{ChainState, ChainStatus, PathHop};

const WEB: ChainId = ChainId(uuid::Uuid::from_u128(1));

fn volume(packets: u64) -> Volume {
    Volume { packets, bytes: packets * 100 }
}

fn hop(hop: u16, name: &str, delivered: u64, returned: u64) -> HopCounters {
    HopCounters {
        member: 0,
        hop,
        instance: InstanceId(uuid::Uuid::nil()),
        name: name.into(),
        delivered: volume(delivered),
        returned: volume(returned),
        rewritten: 0,
        ambiguous: 0,
        bypassed: Volume::default(),
        denied: 0,
        generated: 0,
        service_time: ServiceTime::default(),
        sojourn_time: SojournTime::default(),
    }
}

fn at(node: &str, path: u32, ends: [u64; 2], hops: Vec<HopCounters>) -> ChainAtNode {
    let counters = ChainCounters {
        chain: WEB,
        path: PathId(path),
        entered: volume(ends[0]),
        finished: volume(ends[1]),
        tapped: Volume::default(),
        pinned_flows: 0,
        tunnelled_out: Volume::default(),
        tunnelled_in: Volume::default(),
        dropped: BTreeMap::new(),
        hops,
        is_partial: false,
    };
    ChainAtNode {
        node: Some(node.parse().unwrap()),
        counting_ms: 40_900,
        counters,
        lost_on_return: Vec::new(),
        lost_in_kernel: BTreeMap::new(),
    }
}

fn path(path: u32, direction: &str, phase: &str, hops: &[(&str, bool)]) -> PathReport {
    let hop = |(hop, (name, is_tap)): (u16, &(&str, bool))| PathHop {
        hop,
        member: 0,
        function: (*name).into(),
        is_tap: *is_tap,
        instances: Vec::new(),
    };
    PathReport {
        path: PathId(path),
        chain: WEB,
        chain_name: "web".into(),
        direction: direction.into(),
        encapsulation: Encapsulation::Nsh,
        phase: phase.into(),
        since: BlueprintNumber(3),
        hops: (0..).zip(hops).map(hop).collect(),
        routes: Vec::new(),
        headers: Vec::new(),
    }
}

/// A symmetric chain whose second function swallows four answers.
fn report() -> ChainReport {
    let mut lossy = at("host2", 43, [0, 66], vec![hop(1, "v1", 66, 66)]);
    lossy.counters.dropped.insert(DropReason::TtlExpired, 3);
    lossy.counters.is_partial = true;
    ChainReport {
        status: ChainStatus {
            chain: WEB,
            state: ChainState::Active,
            reason: String::new(),
            path: Some(PathId(42)),
        },
        name: "web".into(),
        functions: vec!["v1".into(), "ids".into(), "v7".into()],
        encapsulation: Encapsulation::Nsh,
        setup: Setup::default(),
        setups: None,
        telemetry: None,
        via: BTreeMap::new(),
        paths: vec![
            path(42, "forward", IN_USE, &[("v1", false), ("ids", true), ("v7", false)]),
            path(43, "reverse", IN_USE, &[("v7", false), ("v1", false)]),
            path(41, "forward", "superseded", &[("v1", false)]),
        ],
        nodes: vec![
            at("host1", 42, [70, 0], Vec::new()),
            at("host2", 42, [0, 0], vec![hop(0, "v1", 70, 70), hop(1, "ids", 70, 0)]),
            at("host4", 42, [0, 70], vec![hop(2, "v7", 70, 70)]),
            at("host1", 41, [900, 900], Vec::new()),
            at("host4", 43, [70, 0], vec![hop(0, "v7", 70, 66)]),
            lossy,
        ],
        silent: vec![SilentNode { node: Some("host3".parse().unwrap()) }],
        health: Vec::new(),
        receipt: None,
    }
}

/// The cells of the rows of a table.
fn rows(way: &Way<'_>) -> Vec<Vec<String>> {
    let text = way.table().to_string();
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text.lines().skip(1).map(cells).collect()
}

#[test]
fn of_functions_inside_it_is_told_what_they_ended_and_made_and_how_long_they_took() {
    let mut report = report();
    let hop = &mut report.nodes[1].counters.hops[0];
    (hop.denied, hop.generated) = (3, 2);
    let counts = [(111, 98), (4_095, 2)].into();
    hop.service_time = ServiceTime { packets: 100, ns: 20_000, counts };
    report.nodes[1].counters.hops[1].denied = 5;
    let ways = ways(&report);
    assert_eq!(
        ways[0].inside(),
        [
            "v1 at host2: denied 3, made 2, took 200 ns for a packet in the mean, at most 111 ns for half of them and \
             4095 ns for 99 of 100",
            "ids at host2: denied 5",
        ]
    );
    assert_eq!(ways[1].inside(), [""; 0]);
}

#[test]
fn both_directions_are_shown_with_what_did_not_come_back_and_what_was_dropped() {
    let report = report();
    let ways = ways(&report);
    let titles: Vec<_> = ways.iter().map(|way| way.title.clone().unwrap()).collect();
    assert_eq!(titles, ["forward   path 42", "reverse   path 43"]);
    assert_eq!(
        rows(&ways[0]),
        [
            vec!["entered", "host1", "70", "7000", "0"],
            vec!["v1", "host2", "70", "7000", "70", "7000", "0", "0", "0"],
            vec!["ids", "(tap)", "host2", "70", "7000"],
            vec!["v7", "host4", "70", "7000", "70", "7000", "0", "0", "0"],
            vec!["finished", "host4", "70", "7000"],
        ]
    );
    // What the node of v1 counted began with its data plane.
    assert_eq!(
        rows(&ways[1]),
        [
            vec!["entered", "host4", "70", "7000"],
            vec!["v7", "host4", "70", "7000", "66", "6600", "4", "0", "0"],
            vec!["v1", "host2", "66*", "6600*", "66*", "6600*", "0*", "0*", "3*"],
            vec!["finished", "host2", "66*", "6600*"],
        ]
    );
    assert_eq!(ways[1].drops(), ["dropped at host2: ttl_expired 3"]);
    assert_eq!(functions(&report), ["v1", "ids (tap)", "v7"]);
}

#[test]
fn what_the_numbers_leave_out_is_said() {
    assert_eq!(
        remarks(&report()),
        [
            "* host2 began to count anew 40 s ago, with its data plane: what came before is \
             not in its numbers",
            "host3 told no counters: what it saw is missing here",
            "path 41 (forward) is former, not gone yet",
        ]
    );
}

#[test]
fn a_chain_without_a_path_shows_that_nothing_entered() {
    let mut report = report();
    report.paths.clear();
    report.nodes.clear();
    report.silent.clear();
    report.status.path = None;
    let ways = ways(&report);
    assert_eq!(rows(&ways[0]), [vec!["entered", "0", "0"], vec!["finished", "0", "0"]]);
}

#[test]
fn what_the_node_lost_on_the_way_up_from_a_function_is_not_put_down_to_the_function() {
    let mut report = report();
    let lossy = &mut report.nodes[4];
    let instance = lossy.counters.hops[0].instance;
    let dropped = BTreeMap::from([(DropReason::PuntShareFull, 2)]);
    lossy.lost_on_return = vec![LostOnReturn { instance, dropped, ring_full: 1 }];
    lossy.lost_in_kernel = BTreeMap::from([(DropReason::PuntLost, 5)]);
    let back = |report: &ChainReport| {
        let way = &ways(report)[1];
        (rows(way)[1].clone(), way.drops())
    };
    let (row, said) = back(&report);
    assert_eq!(row, ["v7", "host4", "70", "7000", "66", "6600", "1", "3", "0"]);
    assert_eq!(
        said,
        [
            "lost at the port of v7 at host4, of all its paths: punt_share_full 2, ring_full 1",
            "lost in the kernel of host4, of any port: punt_lost 5; some of it may be among what \
             is not back",
            "dropped at host2: ttl_expired 3",
        ]
    );
    // The port sends for other paths, too.
    report.nodes[4].lost_on_return[0].ring_full = 40;
    assert_eq!(back(&report).0[6..], ["0", "42", "0"]);
}

#[test]
fn what_a_silent_node_would_have_told_is_no_zero_and_its_hops_keep_their_rows() {
    let mut report = report();
    let away: NodeName = "host4".parse().unwrap();
    report.silent = vec![SilentNode { node: Some(away.clone()) }];
    report.nodes.retain(|node| node.node.as_ref() != Some(&away));
    let instance = |name: &str, node| PathInstance { name: name.into(), node, weight: 1 };
    report.paths[0].hops[2].instances = vec![instance("v7", Some(away.clone()))];
    report.paths[1].hops[0].instances = vec![instance("v7", Some(away))];
    let shown = rows(&ways(&report)[0]);
    let untold = |name: &str, cells: usize| -> Vec<String> {
        let cells = std::iter::repeat_n("–", cells);
        [name].into_iter().chain(cells).map(str::to_owned).collect()
    };
    assert_eq!(shown[3], [vec!["v7".to_owned(), "host4".into()], untold("–", 6)].concat());
    assert_eq!(shown[4], untold("finished", 2));
    assert_eq!(rows(&ways(&report)[1])[0], untold("entered", 2));
    // Whoever is told no node sees the rows all the same.
    report.silent[0].node = None;
    report.paths[0].hops[2].instances[0].node = None;
    assert_eq!(
        rows(&ways(&report)[0])[3],
        [vec!["v7".to_owned(), "-".into()], untold("–", 6)].concat()
    );
    // All told: nothing ended is a number.
    report.silent.clear();
    assert_eq!(rows(&ways(&report)[0]).last().unwrap()[..], ["finished", "0", "0"]);
}
