//! What each field of a flow classifier takes and what it leaves alone, by packets on both sides of
//! every bound.

use super::stage::{ASIDE, BESIDE, FORTH, Stage, V8, id_of, tell};
use super::witness::Way;
use crate::capture::Capture;
use crate::traffic::{Family, address};
use catena_client::Kind;
use serde_json::{Value, json};

/// Number of ICMP echo requests of the test.
const ECHOES: usize = 3;
/// The field of an ICMP header that tells a request.
const ECHO_REQUEST: &str = "icmp[icmptype] == icmp-echo or icmp6[icmp6type] == icmp6-echo";

/// A chain by v8 of what a classifier with these fields takes: these ways, not those.
fn takes(stage: &mut Stage<'_>, fields: &Value, taken: &[Way], left: &[Way]) {
    let chain = stage.chain(&[stage.group(V8)], &[stage.classifier_with(fields.clone())]);
    for way in taken {
        stage.expect(&format!("{fields} takes {way:?}"), *way, &[&["v8"]]);
    }
    for way in left {
        stage.expect(&format!("{fields} leaves {way:?}"), *way, &[]);
    }
    stage.delete_chain(&chain);
    stage.house.remove_chains();
}

/// A classifier of S's datagrams with one range, one bound of it or none.
fn with_range(stage: &Stage<'_>, end: &str, (min, max): (Option<u16>, Option<u16>)) -> Value {
    let mut fields = json!({"protocol": "udp", "logical_source_port": stage.port("S", "customer")});
    fields[format!("{end}_port_range_min")] = json!(min);
    fields[format!("{end}_port_range_max")] = json!(max);
    fields
}

/// Each range with ports that it takes and ports that it leaves.
type Ranges<'r> = &'r [(Option<u16>, Option<u16>, &'r [u16], &'r [u16])];

#[test]
fn ranges_of_destination_ports_hold_at_both_bounds_and_zero_is_a_number() {
    const RANGES: Ranges<'_> = &[
        (Some(5_040), Some(5_050), &[5_040, 5_050], &[5_039, 5_051]),
        (Some(5_040), Some(5_040), &[5_040], &[5_039, 5_041]),
        (Some(0), Some(5_040), &[1, 5_040], &[5_041]),
        (None, Some(5_040), &[1, 5_040], &[5_041]),
        (Some(5_040), None, &[5_040, 65_535], &[5_039]),
        (Some(0), None, &[1, 65_535], &[]),
        (Some(0), Some(0), &[], &[1, 5_040]),
    ];
    tell(false, |stage| {
        for (min, max, taken, left) in RANGES {
            let fields = with_range(stage, "destination", (*min, *max));
            let ways = |ports: &[u16]| ports.iter().map(|port| FORTH.with_port(*port)).collect();
            let (taken, left): (Vec<Way>, Vec<Way>) = (ways(taken), ways(left));
            takes(stage, &fields, &taken, &left);
        }
    });
}

#[test]
fn ranges_of_source_ports_hold_at_both_bounds_and_zero_is_a_number() {
    const RANGES: Ranges<'_> = &[
        (Some(7_040), Some(7_050), &[7_040, 7_050], &[7_039, 7_051]),
        (Some(0), Some(7_040), &[3, 7_040], &[7_041]),
        (None, Some(7_040), &[3, 7_040], &[7_041]),
        (Some(7_040), None, &[7_040, 65_534], &[7_039]),
        (Some(0), Some(0), &[], &[3, 7_040]),
    ];
    tell(false, |stage| {
        for (min, max, taken, left) in RANGES {
            let fields = with_range(stage, "source", (*min, *max));
            let ways =
                |ports: &[u16]| ports.iter().map(|port| FORTH.with_source_port(*port)).collect();
            let (taken, left): (Vec<Way>, Vec<Way>) = (ways(taken), ways(left));
            takes(stage, &fields, &taken, &left);
        }
    });
}

/// S has number 10 of each network, D 11 and ext 1: eight addresses from the 8th on hold two.
#[test]
fn a_prefix_with_host_bits_takes_its_whole_network_and_nothing_else() {
    tell(false, |stage| {
        let (eight, sixteen, all) = match stage.family {
            Family::V4 => ("10.10.0.13/29", "10.10.0.17/28", "10.10.0.99/0"),
            Family::V6 => ("fd00:10::d/125", "fd00:10::11/124", "fd00:10::63/0"),
        };
        let source = stage.port("S", "customer");
        let to_eight = json!({"destination_ip_prefix": eight, "logical_source_port": source});
        takes(stage, &to_eight, &[FORTH], &[ASIDE]);
        let to_sixteen = json!({"destination_ip_prefix": sixteen, "logical_source_port": source});
        takes(stage, &to_sixteen, &[], &[FORTH, ASIDE]);
        let to_all = json!({"destination_ip_prefix": all, "logical_source_port": source});
        takes(stage, &to_all, &[FORTH, ASIDE], &[BESIDE]);
        let destination = stage.prefix(address("D", stage.family));
        let from_eight = json!({"source_ip_prefix": eight, "destination_ip_prefix": destination});
        takes(stage, &from_eight, &[FORTH], &[BESIDE]);
    });
}

#[test]
fn a_logical_port_takes_what_begins_or_ends_there() {
    tell(false, |stage| {
        let [source, destination] = ["S", "D"].map(|end| stage.port(end, "customer"));
        let from = json!({"logical_source_port": source});
        takes(stage, &from, &[FORTH, ASIDE], &[BESIDE]);
        let both = json!({
            "logical_source_port": source, "logical_destination_port": destination,
        });
        takes(stage, &both, &[FORTH], &[ASIDE, BESIDE]);
        let to = json!({"logical_destination_port": destination});
        takes(stage, &to, &[FORTH, BESIDE], &[ASIDE]);
    });
}

#[test]
fn a_protocol_takes_its_packets_alone() {
    tell(false, |stage| {
        let source = stage.port("S", "customer");
        let udp = json!({"protocol": "udp", "logical_source_port": source});
        let tcp = json!({"protocol": "tcp", "logical_source_port": source});
        for (fields, taken, left, echoes) in [
            (udp, &[FORTH][..], &[BESIDE][..], 0),
            (tcp, &[], &[FORTH], 0),
            (json!({"protocol": "icmp", "logical_source_port": source}), &[], &[FORTH], ECHOES),
            (json!({"logical_source_port": source}), &[FORTH], &[BESIDE], ECHOES),
        ] {
            let classifier = stage.classifier_with(fields.clone());
            let chain = stage.chain(&[stage.group(V8)], &[classifier]);
            // Once in and once out, by the one port.
            assert_eq!(echoes_at_v8(stage, &[]), 2 * echoes, "{fields} {:?}", stage.family);
            stage.delete_chain(&chain);
            stage.house.remove_chains();
            takes(stage, &fields, taken, left);
        }
    });
}

#[test]
fn a_code_point_takes_the_packets_that_bear_it() {
    tell(false, |stage| {
        let source = stage.port("S", "customer");
        let fields = json!({"dscp": "ef", "logical_source_port": source});
        let classifier = stage.classifier_with(fields);
        let chain = stage.chain(&[stage.group(V8)], &[classifier]);
        // Traffic classes: the code points EF and AF11, ECN behind them, and none.
        for (class, echoes) in [("0xb8", ECHOES), ("0xba", ECHOES), ("0x28", 0), ("0", 0)] {
            assert_eq!(echoes_at_v8(stage, &["-Q", class]), 2 * echoes, "{class}");
        }
        stage.expect("datagrams without a code point", FORTH, &[]);
        stage.delete_chain(&chain);
        stage.house.remove_chains();
    });
}

/// How many echo requests from S to D, sent with these options, are seen at v8; all are answered.
fn echoes_at_v8(stage: &Stage<'_>, options: &[&str]) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = Capture::start(&stage.house.node("v8"), "customer", ECHO_REQUEST, folder.path());
    let to = address("D", stage.family).to_string();
    let count = ECHOES.to_string();
    let usual = ["-n", "-q", "-c", &count, "-i", "0.05", &to];
    let said = stage.house.node("S").run("ping", &[options, &usual].concat());
    assert!(said.contains(&format!("{ECHOES} received")), "{said}");
    capture.frames().len()
}

/// The original has room for 12 bits of a chain's number.
#[test]
fn chains_of_the_highest_numbers_steer_by_either_encapsulation() {
    tell(false, |stage| {
        for (number, way) in [(65_535, FORTH), (5_000, ASIDE)] {
            let chain = stage.chain_with(&json!({
                "port_pair_groups": [stage.group(V8)], "chain_id": number,
                "flow_classifiers": [stage.classifier(way)],
            }));
            let shown = stage.house.client.show(Kind::PortChain, &chain).expect("a chain");
            assert_eq!((&shown["chain_id"], id_of(&shown)), (&json!(number), chain.clone()));
            stage.expect(&format!("chain {number}"), way, &[&["v8"]]);
            stage.delete_chain(&chain);
            stage.expect(&format!("after chain {number}"), way, &[]);
            stage.house.remove_chains();
        }
    });
}
