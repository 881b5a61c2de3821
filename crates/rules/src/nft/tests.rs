//! Rule sets as `nft -j list ruleset` writes them, and everything that is wrong with others.

use super::*;
use crate::condition::{Condition, ConnectionState, Range, Subject, Test, TupleCondition};
use crate::options::Side;
use crate::rule_set::{Limit, MapEntry, Reject, Verdict, VerdictMap};
use catena_wire::field::Field;
use proptest::prelude::*;

mod errors;
mod statements;

/// What nft 1.0.6 lists of a table `inet filter` and one `ip filter`, in one line.
const EDGE: &str = include_str!("samples/edge.json");
/// The same of rules that are not supported.
const UNSUPPORTED: &str = include_str!("samples/unsupported.json");

fn options() -> ReadOptions {
    ReadOptions {
        file: "edge.json".into(),
        interfaces: [("eth1".to_owned(), Side::In), ("veth7".to_owned(), Side::Out)].into(),
        unsupported: Unsupported::Refuse,
    }
}

fn chain<'s>(set: &'s RuleSet, name: &str) -> &'s Chain {
    set.chains.iter().find(|chain| chain.name == name).unwrap()
}

fn is(subject: Subject, ranges: &[(u128, u128)], is_negated: bool) -> Statement {
    let ranges = ranges.iter().map(|(first, last)| Range { first: *first, last: *last }).collect();
    Statement::Match(Condition::of(subject, Test::among(ranges), is_negated))
}

fn field(field: Field, ranges: &[(u128, u128)], is_negated: bool) -> Statement {
    is(Subject::Field(field), ranges, is_negated)
}

fn version(version: u128) -> Statement {
    is(Subject::Version, &[(version, version)], false)
}

fn protocol(protocol: u128) -> Statement {
    field(Field::Protocol, &[(protocol, protocol)], false)
}

fn state(states: &[ConnectionState]) -> Statement {
    let states = states.iter().map(|state| *state as u128).sum();
    Statement::Match(Condition::of(Subject::State, Test::AnyBit(states), false))
}

fn entry(values: &[(u128, u128)], verdict: Option<Verdict>) -> MapEntry {
    let values = values.iter().map(|(first, last)| Range { first: *first, last: *last }).collect();
    MapEntry { values, verdict }
}

#[test]
fn a_listing_is_read_whole() {
    let set = read(EDGE, &options()).unwrap();
    let names: Vec<&str> = set.chains.iter().map(|chain| &*chain.name).collect();
    assert_eq!(
        names,
        [
            "inet filter ssh",
            "inet filter input",
            "inet filter forward",
            "inet filter slow",
            "ip filter early"
        ]
    );
    let early = Base { chain: 4, families: Families::V4, policy: Policy::Accept };
    let forward = Base { chain: 2, families: Families::BOTH, policy: Policy::Drop };
    assert_eq!(set.bases, [early, forward]);
    assert!(set.skipped.is_empty());
    let [lint] = &set.lints[..] else { panic!("{:?}", set.lints) };
    assert!(lint.what.starts_with("inet filter input is for what the host itself"), "{lint:?}");
    let texts: Vec<&str> = set.chains[2].rules.iter().map(|rule| &*rule.text).collect();
    assert_eq!(
        texts,
        [
            "ct state vmap { invalid : drop, established : accept, related : accept }",
            "iifname \"eth1\" ip saddr != 10.0.0.0/8 counter drop comment \"no other sources\"",
            "tcp flags & fin,syn,rst,ack != syn ct state new counter reject with tcp reset",
            "tcp dport vmap @services",
            "ip saddr . tcp dport @pairs accept",
            "icmp type { echo-reply, echo-request } limit rate over 10/second drop",
            "icmpv6 type nd-neighbor-solicit accept",
            "ip frag-off & 8191 != 0 drop",
            "meta l4proto { tcp, udp } th dport 53 oifname != \"eth1\" accept",
            "meta length > 1400 ip6 dscp ef counter goto slow",
            "reject",
        ]
    );
    let ssh: Vec<&str> = set.chains[0].rules.iter().map(|rule| &*rule.text).collect();
    assert_eq!(ssh[1], "limit rate 3/minute burst 10 packets log prefix \"ssh: \" level info");
    // Of the rules of the host itself those that cannot be read are missing.
    assert_eq!(chain(&set, "inet filter input").rules.len(), 1);
}

#[test]
fn the_rules_of_a_listing_mean_what_the_kernel_makes_of_them() {
    let set = read(EDGE, &options()).unwrap();
    let rules: Vec<&[Statement]> =
        set.chains[2].rules.iter().map(|rule| &rule.statements[..]).collect();
    let drops = Statement::Verdict(Verdict::Drop);
    assert_eq!(
        rules[1],
        [
            is(Subject::CameIn, &[(0, 0)], false),
            version(4),
            field(Field::Source, &[(0x0a00_0000, 0x0aff_ffff)], true),
            Statement::Count,
            drops.clone(),
        ]
    );
    let test = Test::Bits { mask: 0x17, value: 2 };
    assert_eq!(
        rules[2],
        [
            protocol(6),
            Statement::Match(Condition::of(Subject::Field(Field::TcpFlags), test, true)),
            state(&[ConnectionState::New]),
            Statement::Count,
            Statement::Verdict(Verdict::Reject(Reject::TcpReset)),
        ]
    );
    let entries = vec![
        entry(&[(22, 22)], Some(Verdict::Jump(0))),
        entry(&[(80, 80)], Some(Verdict::Accept)),
        entry(&[(443, 443)], Some(Verdict::Accept)),
    ];
    let subjects = vec![Subject::Field(Field::DestinationPort)];
    assert_eq!(rules[3], [protocol(6), Statement::Map(VerdictMap { subjects, entries })]);
    let Statement::MatchTuple(pairs) = &rules[4][2] else { panic!("{:?}", rules[4]) };
    assert_eq!(rules[4][..2], [version(4), protocol(6)]);
    let near = |port: u128| {
        move |subject| Some(if subject == pairs.subjects[0] { 0x0a01_0203 } else { port })
    };
    assert!(pairs.takes(near(85)) && !pairs.takes(near(91)) && !pairs.takes(near(53)));
    assert_eq!(
        rules[7],
        [version(4), field(Field::FragmentOffset, &[(0, 0)], true), drops.clone()]
    );
    assert_eq!(
        rules[8][..3],
        [
            field(Field::Protocol, &[(6, 6), (17, 17)], false),
            field(Field::DestinationPort, &[(53, 53)], false),
            // Not out where forward packets come in: it did not come in by the other.
            is(Subject::CameIn, &[(1, 1)], true),
        ]
    );
    let slow = Statement::Verdict(Verdict::Goto(3));
    assert_eq!(rules[9][3..], [Statement::Count, slow]);
    let both = Reject::OfVersion { v4: 3, v6: 4 };
    assert_eq!(rules[10], [Statement::Verdict(Verdict::Reject(both))]);
    let limit = Limit { rate: 3, period_s: 60, burst: 10, is_over: false };
    let told = [Statement::Limit(limit), Statement::Log("ssh: ".into())];
    assert_eq!(set.chains[0].rules[1].statements, told);
}

#[test]
fn lines_are_those_of_the_file_or_those_that_jq_would_make() {
    let set = read(EDGE, &options()).unwrap();
    let value: Value = serde_json::from_str(EDGE).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    let same = read(&pretty, &options()).unwrap();
    for (chain, other) in set.chains.iter().zip(&same.chains) {
        for (rule, other) in chain.rules.iter().zip(&other.rules) {
            assert_eq!((&rule.text, &rule.statements), (&other.text, &other.statements));
            let object = &value["nftables"][rule.line as usize - 1]["rule"];
            let line = pretty.lines().nth(other.line as usize).unwrap();
            assert_eq!(line.trim(), "\"rule\": {", "line {}", other.line);
            let handle =
                pretty.lines().skip(other.line as usize).find(|line| line.contains("handle"));
            assert!(handle.unwrap().contains(&object["handle"].to_string()));
        }
    }
}

#[test]
fn every_cut_of_a_listing_is_refused_and_every_flip_read_or_refused() {
    for text in [EDGE, UNSUPPORTED] {
        let text = text.trim_end();
        for end in 0..text.len() {
            assert!(read(&text[..end], &options()).is_err());
        }
    }
    let skipping = ReadOptions { unsupported: Unsupported::Skip, ..options() };
    for at in 0..EDGE.len() {
        for bit in 0..8 {
            let mut damaged = EDGE.as_bytes().to_vec();
            damaged[at] ^= 1 << bit;
            let _ = read(&String::from_utf8_lossy(&damaged), &skipping);
        }
    }
}

/// Expressions of every kind, well formed or not.
fn expressions() -> impl Strategy<Value = Value> {
    let words = [
        "tcp",
        "dport",
        "ip",
        "saddr",
        "state",
        "new",
        "@pairs",
        "@services",
        "*",
        "10.0.0.1",
        "::1",
        "key",
        "iifname",
        "eth*",
        "frag-off",
        "0x1fff",
        "é",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u64..300).prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        Just(serde_json::json!({"payload": {"protocol": "tcp", "field": "dport"}})),
        Just(serde_json::json!({"payload": {"protocol": "ip", "field": "frag-off"}})),
        Just(serde_json::json!({"payload": {"protocol": "th", "field": "sport"}})),
        Just(serde_json::json!({"meta": {"key": "l4proto"}})),
        Just(serde_json::json!({"ct": {"key": "state"}})),
        Just(serde_json::json!({"accept": null})),
        Just(serde_json::json!({"jump": {"target": "ssh"}})),
    ];
    let names = [
        "match", "vmap", "key", "data", "left", "right", "set", "concat", "range", "prefix",
        "addr", "len", "&", "|", "elem", "val", "limit", "rate", "per", "log", "prefix", "reject",
        "type", "expr", "meta", "payload",
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let name = prop::sample::select(names.to_vec());
        let matched = (
            inner.clone(),
            inner.clone(),
            prop::sample::select(vec!["==", "!=", "in", "<", ">=", "!"]),
        );
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner.clone()), 1..3)
                .prop_map(|members| members.into_iter().collect::<Value>()),
            matched.prop_map(|(left, right, op)| {
                serde_json::json!({"match": {"op": op, "left": left, "right": right}})
            }),
            (inner.clone(), inner)
                .prop_map(|(key, data)| serde_json::json!({"vmap": {"key": key, "data": data}})),
        ]
    })
}

proptest! {
    #[test]
    fn any_expressions_are_read_or_refused(expressions in prop::collection::vec(expressions(), 0..4)) {
        let mut listing: Value = serde_json::from_str(EDGE).unwrap();
        let objects = listing["nftables"].as_array_mut().unwrap();
        objects.push(serde_json::json!({"rule": {
            "family": "inet", "table": "filter", "chain": "forward", "expr": expressions,
        }}));
        let _ = read(&listing.to_string(), &options());
    }
}
