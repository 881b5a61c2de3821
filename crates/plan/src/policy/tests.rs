//! Rules against a reader of one packet after the other, and what is told of them.

mod chains;
mod groups;
mod shorten;

use super::analyse_rules;
use super::bdd::Set;
use super::decision::{AllStand, RulePlace, Walk, own, subjects, walk};
use super::finding::{Finding, FindingKind};
use super::headers::Headers;
use super::rule_sets::analyse;
use super::sweep::{self, Cube, OverlapRows, of_rule};
use catena_rules::ReadRules;
use catena_rules::condition::{Range, Subject, Test};
use catena_rules::exactness::Exactness;
use catena_rules::iptables;
use catena_rules::options::ReadOptions;
use catena_rules::rule_set::{Families, Policy, RuleSet, Statement, Verdict};
use catena_wire::field::Field;
use proptest::prelude::*;
use std::collections::BTreeSet;

pub(super) fn read(rules: &str) -> RuleSet {
    let text =
        format!("*filter\n:FORWARD ACCEPT [0:0]\n:side - [0:0]\n:deep - [0:0]\n{rules}\nCOMMIT\n");
    let options = ReadOptions { file: "edge.iptables".into(), ..ReadOptions::default() };
    iptables::read(&text, Families::V4, &options).expect("rules")
}

/// A packet, as rules here see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    protocol: u128,
    source: u128,
    port: Option<u128>,
}

impl Packet {
    pub(super) fn value(self, subject: Subject) -> Option<u128> {
        match subject {
            Subject::Field(Field::Protocol) => Some(self.protocol),
            Subject::Field(Field::Source) => Some(self.source),
            Subject::Field(Field::Destination) => Some(0x0a00_0009),
            Subject::Field(Field::SourcePort) => self.port.map(|_| 1024),
            Subject::Field(Field::DestinationPort) => self.port,
            _ => None,
        }
    }
}

/// One packet of each kind that the rules here can tell apart.
pub(super) fn all_packets() -> Vec<Packet> {
    let sources = (0..4).map(|host| 0x0a00_0000 + host).chain([0x0909_0909]);
    let ends = |protocol: u128| match protocol {
        6 | 17 => (0..=11).chain([9000]).map(Some).chain([None]).collect(),
        _ => vec![None],
    };
    let packets = sources.flat_map(|source| {
        [1, 6, 17, 47].into_iter().flat_map(move |protocol| {
            ends(protocol).into_iter().map(move |port| Packet { protocol, source, port })
        })
    });
    packets.collect()
}

/// Another reader of rules: one packet at a time, without those left out. Does it pass? `seen` are told the rules that
/// it comes to, and whether they take it.
pub(super) fn passes(
    set: &RuleSet,
    packet: Packet,
    out: &BTreeSet<RulePlace>,
    seen: &mut dyn FnMut(RulePlace, bool),
) -> bool {
    let base = set.bases.first().expect("one");
    through(set, base.chain, packet, out, seen).unwrap_or(base.policy == Policy::Accept)
}

fn through(
    set: &RuleSet,
    chain: usize,
    packet: Packet,
    out: &BTreeSet<RulePlace>,
    seen: &mut dyn FnMut(RulePlace, bool),
) -> Option<bool> {
    for (at, rule) in
        set.chains[chain].rules.iter().enumerate().filter(|(at, _)| !out.contains(&(chain, *at)))
    {
        let takes =
            rule.conditions().all(|condition| condition.takes(|subject| packet.value(subject)));
        seen((chain, at), takes);
        let verdict = rule.statements.iter().find_map(|statement| match statement {
            Statement::Verdict(verdict) => Some(*verdict),
            _ => None,
        });
        match verdict.filter(|_| takes) {
            None => {}
            Some(Verdict::Accept) => return Some(true),
            Some(Verdict::Drop | Verdict::Reject(_)) => return Some(false),
            Some(Verdict::Return) => return None,
            Some(Verdict::Goto(other)) => return through(set, other, packet, out, seen),
            Some(Verdict::Jump(other)) => {
                if let Some(decided) = through(set, other, packet, out, seen) {
                    return Some(decided);
                }
            }
        }
    }
    None
}

pub(super) fn any_rule() -> impl Strategy<Value = String> {
    let source = (0_u8..4, 30_u8..=32, any::<bool>());
    let ports = (0_u16..8, 0_u16..4, any::<bool>());
    let chain = prop_oneof![4 => Just("FORWARD"), 2 => Just("side"), 1 => Just("deep")];
    let protocol =
        prop_oneof![Just(None), Just(Some("tcp")), Just(Some("udp")), Just(Some("icmp"))];
    let parts = (chain, protocol, prop::option::of(source), prop::option::of(ports), 0_u8..9);
    parts.prop_map(|(chain, protocol, source, ports, target)| {
        let not = |is_negated: bool| if is_negated { "! " } else { "" };
        let mut rule = format!("-A {chain}");
        if let Some((host, length, is_negated)) = source {
            rule += &format!(
                " {}-s 10.0.0.{}/{length}",
                not(is_negated),
                host >> (32 - length) << (32 - length)
            );
        }
        if let Some(protocol) = protocol {
            rule += &format!(" -p {protocol}");
            if let (true, Some((first, more, is_negated))) = (protocol != "icmp", ports) {
                rule +=
                    &format!(" -m {protocol} {}--dport {first}:{}", not(is_negated), first + more);
            }
        }
        let led = match chain {
            "FORWARD" => ["-j side", "-g side", "-j deep"],
            "side" => ["-j deep", "-g deep", "-j RETURN"],
            _ => ["-j RETURN", "-j ACCEPT", "-j DROP"],
        };
        rule += match target {
            0..3 => " -j ACCEPT",
            3..6 => " -j DROP",
            other => return format!("{rule} {}", led[usize::from(other) - 6]),
        };
        rule
    })
}

/// A walk of a rule set, with its headers.
fn walked(set: &RuleSet) -> (Walk<'_>, Headers) {
    let mut headers = Headers::new(false, &subjects(set)).expect("small");
    let walk = walk(set, false, &mut headers).expect("small");
    (walk, headers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Sets of packets are what a reader of one packet after the other makes of them, forwards and from behind; a rule
    /// is told of as one without packets exactly when it takes none; and without all needless rules nothing changes.
    #[test]
    fn rules_are_analysed_as_packets_meet_them(rules in prop::collection::vec(any_rule(), 1..14)) {
        let set = read(&rules.join("\n"));
        let (walk, mut headers) = walked(&set);
        let decision = walk.decide(&mut headers, &mut AllStand).expect("small");
        let ended = decision.ended(&mut headers).expect("small");
        let analysed = analyse(&set).expect("small");
        let needless: BTreeSet<RulePlace> = analysed.needless.keys().copied().collect();
        let (mut taking, mut entered) = (BTreeSet::new(), BTreeSet::new());
        for packet in all_packets() {
            let has = |set: Set| headers.has_packet(set, |subject| packet.value(subject));
            prop_assert!(has(headers.universe()), "{packet:?}");
            let mut seen: Vec<(RulePlace, bool)> = Vec::new();
            let is_passed = passes(&set, packet, &BTreeSet::new(), &mut |place, takes| seen.push((place, takes)));
            prop_assert_eq!(!has(ended), is_passed, "{:?}", packet);
            for (place, own) in &walk.seen {
                let comes = seen.iter().any(|(other, _)| other == place);
                let is_taken = seen.iter().any(|(other, takes)| other == place && *takes);
                prop_assert_eq!((has(own.reaching), has(own.taken)), (comes, is_taken), "{:?} {:?}", packet, place);
            }
            entered.extend(seen.iter().map(|(place, _)| place.0));
            taking.extend(seen.into_iter().filter(|(_, takes)| *takes).map(|(place, _)| place));
            let shorter = passes(&set, packet, &needless, &mut |_, _| {});
            prop_assert_eq!(shorter, is_passed, "without {:?}: {:?}", needless, packet);
        }
        let told = analysed.findings.iter().filter(|finding| is_empty(finding));
        let told: BTreeSet<u32> = told.map(|finding| finding.site.line).collect();
        let takes_none = |place: &&RulePlace| !taking.contains(*place) && entered.contains(&place.0);
        let empty = walk.seen.keys().filter(takes_none);
        let empty: BTreeSet<u32> =
            empty.map(|place| set.chains[place.0].rules[place.1].line).collect();
        prop_assert_eq!(told, empty);
        for finding in analysed.findings.iter().filter(|finding| finding.kind == FindingKind::Mergeable) {
            let (merged, second) = merged(&set, finding);
            for packet in all_packets() {
                let is_passed = passes(&set, packet, &BTreeSet::new(), &mut |_, _| {});
                let shorter = passes(&merged, packet, &BTreeSet::from([second]), &mut |_, _| {});
                prop_assert_eq!(shorter, is_passed, "{:?}: {:?}", finding, packet);
            }
        }
    }
}

/// Where rules stand.
fn places(set: &RuleSet) -> impl Iterator<Item = RulePlace> {
    let chains = set.chains.iter().enumerate();
    chains.flat_map(|(at, chain)| (0..chain.rules.len()).map(move |rule| (at, rule)))
}

/// A rule set in which the first of two rules takes the packets of both, and the place of the second.
fn merged(set: &RuleSet, finding: &Finding) -> (RuleSet, RulePlace) {
    let place = |line: u32| {
        let is_it = |(chain, rule): &RulePlace| set.chains[*chain].rules[*rule].line == line;
        places(set).find(is_it).expect("a rule")
    };
    let (first, second) = (place(finding.others[0].line), place(finding.site.line));
    let mut merged = set.clone();
    let other = &set.chains[second.0].rules[second.1].statements;
    for (statement, other) in merged.chains[first.0].rules[first.1].statements.iter_mut().zip(other)
    {
        if let (Statement::Match(a), Statement::Match(b)) = (statement, other)
            && let (Test::In(mine), Test::In(others)) = (&a.test, &b.test)
        {
            a.test = Test::among(mine.iter().chain(others).copied().collect());
        }
    }
    (merged, second)
}

/// Does it say that a rule takes nothing?
fn is_empty(finding: &Finding) -> bool {
    use FindingKind::{Contradicted, Impossible, Shadowed};
    matches!(finding.kind, Contradicted | Shadowed | Impossible)
}

fn kinds(rules: &str) -> Vec<(FindingKind, u32)> {
    let findings = analyse(&read(rules)).expect("small").findings;
    let findings = findings.into_iter().filter(|finding| finding.kind != FindingKind::NoEffect);
    findings.map(|finding| (finding.kind, finding.site.line)).collect()
}

/// Rules stand in the lines from 5 on.
#[test]
fn two_rules_together_shadow_what_neither_does_alone() {
    let lower = "-A FORWARD -p tcp -m tcp --dport 0:1023 -j ACCEPT";
    let upper = "-A FORWARD -p tcp -m tcp --dport 1024:65535 -j ACCEPT";
    let all = "-A FORWARD -p tcp -m tcp --dport 20:2000 -j DROP";
    assert_eq!(kinds(&[lower, all].join("\n")), []);
    let found = analyse(&read(&[lower, upper, all].join("\n"))).expect("small").findings;
    let contradicted =
        found.iter().find(|finding| finding.kind == FindingKind::Contradicted).expect("told");
    assert_eq!(contradicted.site.to_string(), "edge.iptables line 7");
    assert_eq!(contradicted.others.iter().map(|site| site.line).collect::<Vec<_>>(), [5, 6]);
    assert!(contradicted.what.contains("lines 5, 6 took all"), "{}", contradicted.what);
}

#[test]
fn what_does_the_same_can_go_and_what_is_read_stays() {
    let drop = "-A FORWARD -s 10.1.0.0/16 -p tcp -m tcp --dport 80 -j DROP";
    let wider = "-A FORWARD -s 10.0.0.0/8 -p tcp -j DROP";
    assert_eq!(kinds(&[drop, wider].join("\n")), [(FindingKind::Redundant, 5)]);
    assert_eq!(kinds(&[wider, drop].join("\n")), [(FindingKind::Shadowed, 6)]);
    // What lies between is taken by another rule first.
    let between = "-A FORWARD -s 10.1.2.0/24 -j ACCEPT";
    assert_eq!(kinds(&[drop, between, wider].join("\n")), []);
    // A rule that accepts what the policy accepts; one that writes a line of log does something.
    assert_eq!(kinds("-A FORWARD -p udp -j ACCEPT"), [(FindingKind::Redundant, 5)]);
    assert_eq!(kinds("-A FORWARD -p udp -j LOG --log-prefix udp"), []);
    let found = analyse(&read(&[drop, wider].join("\n"))).expect("small").findings;
    let redundant =
        found.iter().find(|finding| finding.kind == FindingKind::Redundant).expect("told");
    assert_eq!(redundant.class.as_deref(), Some("tcp, ip.src 10.1.0.0/16, l4.dport 80"));
}

#[test]
fn states_of_connections_are_told_apart() {
    let known = "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT";
    let fresh = "-A FORWARD -m conntrack --ctstate NEW -p tcp -m tcp --dport 443 -j ACCEPT";
    let rest = "-A FORWARD -j DROP";
    assert_eq!(kinds(&[known, fresh, rest].join("\n")), []);
    let again = "-A FORWARD -m conntrack --ctstate ESTABLISHED -p udp -j DROP";
    assert_eq!(kinds(&[known, again, rest].join("\n")), [(FindingKind::Contradicted, 6)]);
    // Of packets that are all in one state or another, a rule for each is a rule for all.
    let others = "-A FORWARD -m conntrack --ctstate INVALID,NEW,UNTRACKED -j DROP";
    let expected = [(FindingKind::Redundant, 5), (FindingKind::Shadowed, 7)];
    assert_eq!(kinds(&[known, others, rest].join("\n")), expected);
}

#[test]
fn tokens_are_there_or_not() {
    let some = "-A FORWARD -p icmp -m limit --limit 5/s -j ACCEPT";
    let rest = "-A FORWARD -p icmp -j DROP";
    assert_eq!(kinds(&[some, rest].join("\n")), []);
    // Two rules of the same words have their own tokens.
    assert_eq!(kinds(&[some, some, rest].join("\n")), []);
    assert_eq!(kinds(&[rest, some].join("\n")), [(FindingKind::Contradicted, 6)]);
}

#[test]
fn neighbours_of_one_verdict_could_be_one_rule() {
    let port = |range: &str, verdict: &str| {
        format!("-A FORWARD -p tcp -m tcp --dport {range} -j {verdict}")
    };
    let (low, high) = (port("80:89", "DROP"), port("90:99", "DROP"));
    assert_eq!(kinds(&[low.as_str(), &high].join("\n")), [(FindingKind::Mergeable, 6)]);
    // Not if others get between, and not if they do not touch.
    let between = "-A FORWARD -s 10.0.0.1/32 -p tcp -j ACCEPT";
    assert_eq!(kinds(&[low.as_str(), between, &high].join("\n")), []);
    assert_eq!(kinds(&[low, port("91:99", "DROP")].join("\n")), []);
}

#[test]
fn what_filters_nothing_that_is_forwarded_is_told() {
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:lost - [0:0]\n\
                -A INPUT -d 10.1.0.0/24 -p tcp -m tcp --dport 80 -j DROP\n-A lost -j DROP\nCOMMIT\n";
    let options = ReadOptions { file: "gateway.iptables".into(), ..ReadOptions::default() };
    let set = iptables::read(text, Families::V4, &options).expect("rules");
    let findings = analyse_rules(&ReadRules::Filter(vec![set])).expect("small").findings;
    let told: Vec<(FindingKind, u32)> =
        findings.iter().map(|finding| (finding.kind, finding.site.line)).collect();
    let (no_effect, unreached) = (FindingKind::NoEffect, FindingKind::Unreached);
    assert_eq!(told, [(no_effect, 2), (no_effect, 3), (unreached, 4)]);
    assert!(
        findings[0].what.starts_with("INPUT filters what is for the host itself"),
        "{}",
        findings[0].what
    );
}

fn any_cube() -> impl Strategy<Value = Cube> {
    let range =
        (0_u128..12, 0_u128..5).prop_map(|(first, more)| Range { first, last: first + more });
    prop::array::uniform5(range).prop_map(Cube::of)
}

proptest! {
    /// All overlaps at once are those of each pair.
    #[test]
    fn overlaps_are_those_of_each_pair(
        first in prop::collection::vec(any_cube(), 0..90),
        second in prop::collection::vec(any_cube(), 0..150),
    ) {
        let met = OverlapRows::of(&first, &second);
        let mut count = 0;
        for (row, a) in first.iter().enumerate() {
            let one_by_one: Vec<usize> =
                second.iter().enumerate().filter(|(_, b)| a.overlaps(b)).map(|(at, _)| at).collect();
            count += one_by_one.len() as u64;
            prop_assert_eq!(sweep::places(met.row(row)).collect::<Vec<_>>(), one_by_one);
        }
        prop_assert_eq!(met.count(), count);
    }

    /// Rules meet by ranges exactly where they do by diagrams.
    #[test]
    fn rules_overlap_by_ranges_as_by_diagrams(rules in prop::collection::vec(any_rule(), 2..10)) {
        let set = read(&rules.join("\n"));
        let mut headers = Headers::new(false, &subjects(&set)).expect("small");
        let mut known = Vec::new();
        for (chain, place) in places(&set) {
            let rule = &set.chains[chain].rules[place];
            let cubes = of_rule(rule, false);
            prop_assert_eq!(cubes.exactness, Exactness::Exact);
            let packets = own(rule, (chain, place), &mut headers).expect("small");
            let packets = headers.bdd.and(packets, headers.universe()).expect("small");
            known.push((packets, cubes.cubes));
        }
        for (a, cubes_a) in &known {
            for (b, cubes_b) in &known {
                let by_ranges = OverlapRows::of(cubes_a, cubes_b).count() > 0;
                let by_diagrams = !headers.bdd.and(*a, *b).expect("small").is_empty();
                prop_assert_eq!(by_ranges, by_diagrams);
            }
        }
    }
}

/// What rules do that are led to, and what else is done with packets, counts.
#[test]
fn what_a_chain_does_belongs_to_who_leads_there() {
    let log = "-A side -j LOG --log-prefix ssh\n-A FORWARD -p tcp -m tcp --dport 22 -j side";
    assert_eq!(kinds(log), []);
    let deeper = "-A deep -m limit --limit 5/s -j LOG\n-A side -j deep\n-A FORWARD -p tcp -m tcp --dport 22 -j side";
    assert_eq!(kinds(deeper), []);
    // Packets that a rule keeps from being logged, or from taking a token that others need.
    let kept = "-A FORWARD -s 10.0.0.0/8 -p tcp -j ACCEPT";
    let log = "-A FORWARD -p tcp -j LOG --log-prefix rest";
    assert_eq!(kinds(&[kept, log].join("\n")), []);
    let token = "-A FORWARD -p tcp -m limit --limit 5/s -j ACCEPT";
    let wider = "-A FORWARD -s 10.0.0.0/7 -p tcp -j ACCEPT";
    let drop = "-A FORWARD -p tcp -j DROP";
    assert_eq!(kinds(&[kept, wider, drop].join("\n")), [(FindingKind::Redundant, 5)]);
    assert_eq!(kinds(&[kept, token, wider, drop].join("\n")), []);
    assert_eq!(
        kinds(&[kept, "-A FORWARD -p udp -j LOG"].join("\n")),
        [(FindingKind::Redundant, 5)]
    );
    // A chain that drops, and one that does not.
    let (drop, lead) = (
        "-A FORWARD -p udp -m udp --dport 80 -j DROP",
        "-A FORWARD -s 10.0.0.0/8 -p udp -m udp --dport 80 -j side",
    );
    assert_eq!(kinds(&["-A side -j DROP", drop, lead].join("\n")), [(FindingKind::Shadowed, 7)]);
    let accept = "-A FORWARD -p udp -m udp --dport 80 -j ACCEPT";
    let last = "-A FORWARD -p udp -j DROP";
    assert_eq!(
        kinds(&["-A side -j DROP", accept, lead, last].join("\n")),
        [(FindingKind::Contradicted, 7)]
    );
    let back = "-A side -s 10.0.0.0/8 -j RETURN\n-A side -s 10.1.0.0/16 -j DROP\n-A side -j DROP\n-A FORWARD -p udp -j side";
    assert_eq!(kinds(back), [(FindingKind::Contradicted, 6)]);
}

/// A rule is contradicted when none of its packets meets with what it wants, and told who took them before.
#[test]
fn a_duplicate_is_no_contradiction() {
    let invalid = "-A FORWARD -m conntrack --ctstate INVALID -j DROP";
    let web = "-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT";
    let again = "-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j ACCEPT";
    let rest = "-A FORWARD -j DROP";
    assert_eq!(kinds(&[invalid, web, again, rest].join("\n")), [(FindingKind::Shadowed, 7)]);
    // Who comes behind has taken nothing of it.
    let user = "-A side -p tcp -m tcp --dport 80 -j ACCEPT\n-A side -p tcp -m tcp --dport 80 -m length --length 40:100 -j ACCEPT";
    let set = read(
        &[user, "-A FORWARD -s 10.0.0.0/8 -j side", "-A FORWARD -p tcp -m tcp --dport 80 -j DROP"]
            .join("\n"),
    );
    let found = analyse(&set).expect("small").findings;
    let shadowed =
        found.iter().find(|finding| finding.kind == FindingKind::Shadowed).expect("told");
    assert_eq!((shadowed.site.line, shadowed.others.len(), shadowed.others[0].line), (6, 1, 5));
}

/// Rules of nftables for both versions: `what` are the expressions of each.
fn nft(rules: &[String]) -> RuleSet {
    let chain = r#"{"chain": {"family": "inet", "table": "f", "name": "fwd", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}}"#;
    let rule = |what: &String| {
        format!(
            r#"{{"rule": {{"family": "inet", "table": "f", "chain": "fwd", "expr": [{what}]}}}}"#
        )
    };
    let rules: Vec<String> = rules.iter().map(rule).collect();
    let text = format!(
        "{{\"nftables\": [\n{{\"table\": {{\"family\": \"inet\", \"name\": \"f\"}}}},\n{chain},\n{}\n]}}",
        rules.join(",\n")
    );
    let options = ReadOptions { file: "edge.json".into(), ..ReadOptions::default() };
    catena_rules::nft::read(&text, &options).expect("rules")
}

#[test]
fn rules_for_both_versions_go_for_both_or_for_none() {
    let from = |protocol: &str, address: &str, length: u8| {
        format!(
            r#"{{"match": {{"op": "==", "left": {{"payload": {{"protocol": "{protocol}", "field": "saddr"}}}}, "right": {{"prefix": {{"addr": "{address}", "len": {length}}}}}}}}}"#
        )
    };
    let to = |port: u16| {
        format!(
            r#"{{"match": {{"op": "==", "left": {{"payload": {{"protocol": "tcp", "field": "dport"}}}}, "right": {port}}}}}"#
        )
    };
    let of = |version: &str| {
        format!(
            r#"{{"match": {{"op": "==", "left": {{"meta": {{"key": "nfproto"}}}}, "right": "{version}"}}}}"#
        )
    };
    let (accept, drop) = (r#"{"accept": null}"#, r#"{"drop": null}"#);
    let found = |rules: &[String]| {
        let findings = analyse(&nft(rules)).expect("small").findings;
        findings.into_iter().map(|finding| (finding.kind, finding.what)).collect::<Vec<_>>()
    };
    let kinds =
        |rules: &[String]| found(rules).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    // What is of one version is impossible in the other.
    let lost = [
        format!("{}, {accept}", from("ip", "10.0.0.0", 8)),
        format!("{}, {drop}", from("ip", "10.1.0.0", 16)),
        format!("{}, {accept}", from("ip6", "fd00::", 8)),
        format!("{}, {drop}", from("ip6", "fd00::", 16)),
    ];
    assert_eq!(kinds(&lost), [FindingKind::Contradicted; 2]);
    // Dropped in one version, and there already in the other: none of it happens.
    let kept = [
        format!("{}, {}, {drop}", of("ipv4"), to(80)),
        format!("{}, {}, {accept}", of("ipv6"), to(80)),
        format!("{}, {accept}", to(80)),
    ];
    assert_eq!(kinds(&kept), [FindingKind::Redundant, FindingKind::Shadowed]);
    // Two that could be one in IPv4 alone: in IPv6 another one gets between.
    let apart = [
        format!("{}, {accept}", to(80)),
        format!("{}, {}, {accept}", of("ipv4"), to(82)),
        format!("{}, {}, {drop}", from("ip6", "fd00::", 8), to(81)),
        format!("{}, {accept}", to(82)),
        format!("{}, {accept}", to(81)),
    ];
    assert!(
        !found(&apart)
            .iter()
            .any(|(kind, what)| *kind == FindingKind::Mergeable && what.contains("line 4")),
        "{:?}",
        found(&apart)
    );
}

#[test]
fn chains_that_lead_into_one_another_without_end_are_refused() {
    let chains: Vec<String> = (0..14).map(|at| format!(":c{at} - [0:0]")).collect();
    let mut rules = Vec::new();
    for at in 0..13 {
        rules.extend(
            (0..3).map(|port| format!("-A c{at} -p tcp -m tcp --dport {port} -j c{}", at + 1)),
        );
    }
    rules.push("-A c13 -p udp -j DROP\n-A FORWARD -j c0".to_owned());
    let text = format!(
        "*filter\n:FORWARD ACCEPT [0:0]\n{}\n{}\nCOMMIT\n",
        chains.join("\n"),
        rules.join("\n")
    );
    let options = ReadOptions { file: "deep.iptables".into(), ..ReadOptions::default() };
    let Ok(set) = iptables::read(&text, Families::V4, &options) else { return };
    assert!(analyse(&set).is_err());
}
