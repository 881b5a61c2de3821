//! Statements as nft 1.0.6 lists them, and what they are here.

use super::*;

fn of(family: &str, expr: &str) -> Vec<Statement> {
    let text = format!(
        r#"{{"nftables": [
            {{"chain": {{"family": "{family}", "table": "t", "name": "f", "type": "filter", "hook": "forward",
                "prio": 0, "policy": "drop"}}}},
            {{"chain": {{"family": "{family}", "table": "t", "name": "other"}}}},
            {{"rule": {{"family": "{family}", "table": "t", "chain": "f", "expr": {expr}}}}}
        ]}}"#
    );
    let set = read(&text, &options()).unwrap_or_else(|error| panic!("{expr}: {error}"));
    set.chains[0].rules[0].statements.clone()
}

/// A match of one value, in a table of both versions.
fn one(left: &str, op: &str, right: &str) -> Vec<Statement> {
    of("inet", &format!(r#"[{{"match": {{"op": "{op}", "left": {left}, "right": {right}}}}}]"#))
}

fn payload(protocol: &str, field: &str) -> String {
    format!(r#"{{"payload": {{"protocol": "{protocol}", "field": "{field}"}}}}"#)
}

fn meta(key: &str) -> String {
    format!(r#"{{"meta": {{"key": "{key}"}}}}"#)
}

fn test(subject: Subject, test: Test, is_negated: bool) -> Statement {
    Statement::Match(Condition::of(subject, test, is_negated))
}

#[test]
fn values_of_headers_are_those_of_fields_and_imply_their_protocols() {
    let port = |ranges: &[(u128, u128)], not| {
        vec![protocol(6), field(Field::DestinationPort, ranges, not)]
    };
    let dport = payload("tcp", "dport");
    assert_eq!(one(&dport, "==", "80"), port(&[(80, 80)], false));
    assert_eq!(one(&dport, "!=", "80"), port(&[(80, 80)], true));
    assert_eq!(one(&dport, "==", r#"{"range": [80, 90]}"#), port(&[(80, 90)], false));
    assert_eq!(one(&dport, "<", "80"), port(&[(0, 79)], false));
    assert_eq!(one(&dport, "<", "0"), port(&[], false));
    assert_eq!(one(&dport, ">", "80"), port(&[(81, 65_535)], false));
    assert_eq!(one(&dport, ">", "65535"), port(&[], false));
    assert_eq!(one(&dport, "<=", "80"), port(&[(0, 80)], false));
    assert_eq!(one(&dport, ">=", "80"), port(&[(80, 65_535)], false));
    let set = r#"{"set": [{"range": [90, 100]}, {"elem": {"val": 80, "comment": "web"}}]}"#;
    assert_eq!(one(&dport, "!=", set), port(&[(80, 80), (90, 100)], true));
    assert_eq!(one(&dport, "==", r#"{"set": [80, "*"]}"#), port(&[(0, 65_535)], false));
}

#[test]
fn addresses_are_values_prefixes_and_sets() {
    let source = |ranges: &[(u128, u128)], not| vec![version(4), field(Field::Source, ranges, not)];
    let saddr = payload("ip", "saddr");
    let prefix = r#"{"prefix": {"addr": "10.0.0.0", "len": 8}}"#;
    assert_eq!(one(&saddr, "!=", prefix), source(&[(0x0a00_0000, 0x0aff_ffff)], true));
    let all = r#"{"prefix": {"addr": "0.0.0.0", "len": 0}}"#;
    assert_eq!(one(&saddr, "==", all), source(&[(0, 0xffff_ffff)], false));
    let long = r#"{"set": ["2001:db8::1", {"prefix": {"addr": "2001:db8:1::", "len": 48}}]}"#;
    let base = 0x2001_0db8_u128 << 96;
    let net = base | 1 << 80;
    assert_eq!(
        one(&payload("ip6", "daddr"), "==", long),
        [
            version(6),
            field(Field::Destination, &[(base | 1, base | 1), (net, net + (1 << 80) - 1)], false)
        ]
    );
}

#[test]
fn every_field_that_packets_have_here_may_be_asked_for() {
    let cases = [
        (payload("ip", "ttl"), "<", "5", vec![version(4), field(Field::Ttl, &[(0, 4)], false)]),
        (
            payload("ip6", "hoplimit"),
            "==",
            "4",
            vec![version(6), field(Field::Ttl, &[(4, 4)], false)],
        ),
        (
            payload("ip", "dscp"),
            "!=",
            "\"cs1\"",
            vec![version(4), field(Field::Dscp, &[(8, 8)], true)],
        ),
        (
            payload("ip6", "ecn"),
            "==",
            "\"ce\"",
            vec![version(6), field(Field::Ecn, &[(3, 3)], false)],
        ),
        (
            payload("ip", "length"),
            "==",
            "60",
            vec![version(4), field(Field::Length, &[(60, 60)], false)],
        ),
        (
            payload("ip6", "flowlabel"),
            "==",
            "4",
            vec![version(6), field(Field::FlowLabel, &[(4, 4)], false)],
        ),
        (
            payload("ip", "id"),
            "==",
            "5",
            vec![version(4), field(Field::Identification, &[(5, 5)], false)],
        ),
        (payload("ip", "protocol"), "==", "\"gre\"", vec![version(4), protocol(47)]),
        (
            payload("tcp", "sequence"),
            "==",
            "5",
            vec![protocol(6), field(Field::Sequence, &[(5, 5)], false)],
        ),
        (
            payload("tcp", "window"),
            "==",
            "5",
            vec![protocol(6), field(Field::Window, &[(5, 5)], false)],
        ),
        (
            payload("udp", "checksum"),
            "==",
            "5",
            vec![protocol(17), field(Field::UpperChecksum, &[(5, 5)], false)],
        ),
        (
            payload("ether", "saddr"),
            "==",
            "\"02:00:00:00:00:0a\"",
            vec![field(Field::EthernetSource, &[(0x0200_0000_000a, 0x0200_0000_000a)], false)],
        ),
        (
            payload("ether", "type"),
            "==",
            "\"8021q\"",
            vec![field(Field::EtherType, &[(0x8100, 0x8100)], false)],
        ),
    ];
    for (left, op, right, statements) in cases {
        assert_eq!(one(&left, op, right), statements, "{left} {op} {right}");
    }
}

#[test]
fn what_is_implied_is_asked_once_and_where_it_is_needed() {
    let rule = |matches: &[(&str, &str, &str)]| {
        let statements: Vec<String> = matches
            .iter()
            .map(|(left, op, right)| {
                format!(r#"{{"match": {{"op": "{op}", "left": {left}, "right": {right}}}}}"#)
            })
            .collect();
        format!("[{}]", statements.join(", "))
    };
    let (saddr, daddr) = (payload("ip", "saddr"), payload("ip", "daddr"));
    let (sport, dport) = (payload("tcp", "sport"), payload("tcp", "dport"));
    let addresses = [(&*saddr, "==", "\"0.0.0.1\""), (&*daddr, "==", "\"0.0.0.2\"")];
    let (source, destination) =
        (field(Field::Source, &[(1, 1)], false), field(Field::Destination, &[(2, 2)], false));
    assert_eq!(of("inet", &rule(&addresses)), [version(4), source.clone(), destination.clone()]);
    assert_eq!(of("ip", &rule(&addresses)), [source, destination]);
    let ports = [(&*sport, "==", "1"), (&*dport, "==", "2")];
    let ports = of("ip6", &rule(&ports));
    assert_eq!(ports[0], protocol(6));
    assert_eq!(ports.len(), 3);
    let l4proto = meta("l4proto");
    let not_tcp = of("ip", &rule(&[(&*l4proto, "!=", "\"tcp\""), (&*dport, "==", "2")]));
    assert_eq!(not_tcp[..2], [field(Field::Protocol, &[(6, 6)], true), protocol(6)]);
    let counted = format!(
        r#"[{{"match": {{"op": "==", "left": {l4proto}, "right": "tcp"}}}}, {{"counter": {{"packets": 0, "bytes": 0}}}},
            {{"match": {{"op": "==", "left": {dport}, "right": 80}}}}]"#
    );
    assert_eq!(
        of("inet", &counted),
        [protocol(6), Statement::Count, field(Field::DestinationPort, &[(80, 80)], false)]
    );
    // Echoes alone have an identifier.
    let (kind, id) = (payload("icmp", "type"), payload("icmp", "id"));
    let echo = field(Field::IcmpType, &[(0, 0), (8, 8)], false);
    let identifier = field(Field::IcmpIdentifier, &[(3, 3)], false);
    assert_eq!(
        of("inet", &rule(&[(&*id, "==", "3")])),
        [version(4), protocol(1), echo, identifier.clone()]
    );
    let request = of("ip", &rule(&[(&*kind, "==", "\"echo-request\""), (&*id, "==", "3")]));
    assert_eq!(request, [protocol(1), field(Field::IcmpType, &[(8, 8)], false), identifier]);
    assert_eq!(of("ip", &rule(&[(&payload("icmpv6", "type"), "==", "1")]))[0], protocol(58));
    let id6 = payload("icmpv6", "id");
    let both = r#"{"set": ["echo-request", "echo-reply"]}"#;
    assert_eq!(
        of("ip6", &rule(&[(&payload("icmpv6", "type"), "==", both), (&*id6, "==", "3")])).len(),
        3
    );
}

#[test]
fn flags_and_states_are_asked_for_by_bit_or_as_a_whole() {
    let flags = payload("tcp", "flags");
    let asked = |op, right| one(&flags, op, right)[1].clone();
    let subject = Subject::Field(Field::TcpFlags);
    assert_eq!(asked("in", "\"syn\""), test(subject, Test::AnyBit(2), false));
    assert_eq!(asked("in", r#"["syn", "ack"]"#), test(subject, Test::AnyBit(0x12), false));
    assert_eq!(asked("!", r#"["syn", "rst"]"#), test(subject, Test::AnyBit(6), true));
    assert_eq!(asked("==", "\"syn\""), field(Field::TcpFlags, &[(2, 2)], false));
    assert_eq!(asked("!=", "18"), field(Field::TcpFlags, &[(18, 18)], true));
    let set = r#"{"set": [{"|": ["syn", "ack"]}, "syn"]}"#;
    assert_eq!(asked("==", set), field(Field::TcpFlags, &[(2, 2), (18, 18)], false));
    let masked = format!(r#"{{"&": [{flags}, ["fin", "syn", "rst", "ack"]]}}"#);
    let bits = Test::Bits { mask: 0x17, value: 2 };
    assert_eq!(one(&masked, "==", "\"syn\"")[1], test(subject, bits, false));
    let masked = format!(r#"{{"&": [{flags}, {{"|": [{{"|": ["fin", "syn"]}}, "ack"]}}]}}"#);
    let bits = Test::Bits { mask: 0x13, value: 0x12 };
    assert_eq!(one(&masked, "!=", r#"{"|": ["syn", "ack"]}"#)[1], test(subject, bits, true));
    let ct = r#"{"ct": {"key": "state"}}"#;
    use ConnectionState::{Established, New, Related};
    assert_eq!(one(ct, "in", "\"new\""), [state(&[New])]);
    assert_eq!(one(ct, "in", r#"["established", "related"]"#), [state(&[Established, Related])]);
    assert_eq!(one(ct, "==", r#"{"set": ["established", "new"]}"#), [state(&[Established, New])]);
    let not = test(Subject::State, Test::AnyBit(2), true);
    assert_eq!(one(ct, "!=", "\"established\""), [not]);
    // A packet is in one state: never in two.
    assert_eq!(one(ct, "==", r#"{"|": ["established", "related"]}"#), [state(&[])]);
    let not_new = test(Subject::State, Test::AnyBit(8), true);
    assert_eq!(one(ct, "!", "\"new\""), [not_new]);
}

#[test]
fn masks_and_fragments_are_those_of_fields() {
    let saddr = format!(r#"{{"&": [{}, "255.0.0.255"]}}"#, payload("ip", "saddr"));
    let bits = Test::Bits { mask: 0xff00_00ff, value: 0x0a00_0001 };
    let source = Subject::Field(Field::Source);
    assert_eq!(one(&saddr, "==", "\"10.0.0.1\""), [version(4), test(source, bits, false)]);
    let port = format!(r#"{{"&": [{}, 65280]}}"#, payload("tcp", "dport"));
    assert_eq!(one(&port, "!=", "256")[1], field(Field::DestinationPort, &[(256, 511)], true));
    let word = payload("ip", "frag-off");
    let masked = |mask: u32| format!(r#"{{"&": [{word}, {mask}]}}"#);
    let flags = Subject::Field(Field::FragmentFlags);
    assert_eq!(one(&masked(0x1fff), "!=", "0")[1], field(Field::FragmentOffset, &[(0, 0)], true));
    let more = Test::Bits { mask: 1, value: 0 };
    assert_eq!(one(&masked(0x2000), "!=", "0")[1], test(flags, more, true));
    let whole = TupleCondition {
        subjects: vec![flags, Subject::Field(Field::FragmentOffset)],
        tuples: vec![vec![Range::one(2), Range::one(0)]],
        is_negated: false,
    };
    assert_eq!(one(&word, "==", "16384"), [version(4), Statement::MatchTuple(whole)]);
    let Statement::MatchTuple(any) = &one(&masked(0x3fff), "!=", "0")[1] else { panic!() };
    let packet = |flags: u128, offset: u128| {
        move |subject| {
            Some(if subject == Subject::Field(Field::FragmentFlags) { flags } else { offset })
        }
    };
    assert!(any.takes(packet(1, 0)) && any.takes(packet(0, 7)) && any.takes(packet(3, 7)));
    assert!(!any.takes(packet(0, 0)) && !any.takes(packet(2, 0)));
    assert!(!any.takes(|_| None));
}

#[test]
fn meta_is_what_surrounds_the_packet() {
    let nfproto = |op, right| one(&meta("nfproto"), op, right);
    assert_eq!(nfproto("==", "\"ipv4\""), [version(4)]);
    assert_eq!(nfproto("!=", "\"ipv6\""), [is(Subject::Version, &[(6, 6)], true)]);
    let ether_type = |op, right| one(&meta("protocol"), op, right);
    let both = is(Subject::Version, &[(4, 4), (6, 6)], false);
    assert_eq!(ether_type("==", r#"{"set": ["ip", "ip6"]}"#), [both]);
    assert_eq!(ether_type("==", r#"{"range": ["ip", 2304]}"#), [version(4)]);
    assert_eq!(ether_type("!=", "\"arp\""), [is(Subject::Version, &[], true)]);
    let length = one(&meta("length"), ">", "60");
    assert_eq!(length, [is(Subject::PacketBytes, &[(61, u32::MAX.into())], false)]);
    let came = |ranges: &[(u128, u128)], not| [is(Subject::CameIn, ranges, not)];
    assert_eq!(one(&meta("iifname"), "==", "\"eth1\""), came(&[(0, 0)], false));
    assert_eq!(one(&meta("oif"), "!=", "\"eth1\""), came(&[(1, 1)], true));
    assert_eq!(one(&meta("iifname"), "==", "\"veth*\""), came(&[(1, 1)], false));
    assert_eq!(
        one(&meta("iifname"), "==", r#"{"set": ["eth1", "veth*"]}"#),
        came(&[(0, 1)], false)
    );
    assert_eq!(one(&meta("iifname"), "==", r#"{"set": ["eth1", "*"]}"#), came(&[(0, 1)], false));
    let protocols = one(&meta("l4proto"), "==", r#"{"set": ["tcp", {"range": [30, 40]}]}"#);
    assert_eq!(protocols, [field(Field::Protocol, &[(6, 6), (30, 40)], false)]);
}

#[test]
fn several_values_at_once_are_tuples_and_lead_by_maps() {
    let left = format!(r#"{{"concat": [{}, {}]}}"#, meta("iifname"), meta("oifname"));
    let condition = TupleCondition {
        subjects: vec![Subject::CameIn; 2],
        tuples: vec![vec![Range::one(0), Range::one(0)]],
        is_negated: true,
    };
    let right = r#"{"set": [{"concat": ["eth1", "veth7"]}]}"#;
    assert_eq!(one(&left, "!=", right), [Statement::MatchTuple(condition)]);
    let left = format!(r#"{{"concat": [{}, {}]}}"#, meta("l4proto"), payload("th", "dport"));
    let tuples = r#"{"set": [{"concat": ["udp", 53]}, {"concat": ["tcp", 80]}]}"#;
    let Statement::MatchTuple(ports) = &one(&left, "==", tuples)[0] else { panic!() };
    assert_eq!(ports.tuples[0], [Range::one(17), Range::one(53)]);
    let text = format!(
        r#"[{{"vmap": {{"key": {}, "data": {{"set": [["*", {{"drop": null}}], [22, {{"continue": null}}],
            [{{"range": [23, 24]}}, {{"jump": {{"target": "other"}}}}], [25, {{"return": null}}]]}}}}}},
            {{"counter": {{"packets": 0, "bytes": 0}}}}, {{"drop": null}}]"#,
        payload("tcp", "dport")
    );
    let statements = of("ip", &text);
    let entries = vec![
        entry(&[(22, 22)], None),
        entry(&[(23, 24)], Some(Verdict::Jump(1))),
        entry(&[(25, 25)], Some(Verdict::Return)),
        entry(&[(0, 65_535)], Some(Verdict::Drop)),
    ];
    let map = VerdictMap { subjects: vec![Subject::Field(Field::DestinationPort)], entries };
    assert_eq!(map.entry(|_| Some(24)).unwrap().verdict, Some(Verdict::Jump(1)));
    assert_eq!(map.entry(|_| Some(9)).unwrap().verdict, Some(Verdict::Drop));
    assert_eq!(map.entry(|_| None), None);
    let end = [Statement::Count, Statement::Verdict(Verdict::Drop)];
    assert_eq!(statements, [vec![protocol(6), Statement::Map(map)], end.to_vec()].concat());
}

#[test]
fn what_rules_do_is_done_in_the_order_that_is_written() {
    let limit = |rate, period_s, burst, is_over| {
        vec![Statement::Limit(Limit { rate, period_s, burst, is_over })]
    };
    let reject = |reject| Statement::Verdict(Verdict::Reject(reject));
    let cases = [
        ("inet", r#"{"limit": {"rate": 10, "burst": 5, "per": "second"}}"#, limit(10, 1, 5, false)),
        (
            "inet",
            r#"{"limit": {"rate": 10, "per": "week", "inv": true}}"#,
            limit(10, 604_800, 5, true),
        ),
        ("inet", r#"{"log": null}"#, vec![Statement::Log(String::new())]),
        (
            "inet",
            r#"{"log": {"prefix": "a b", "level": "info", "flags": "all"}}"#,
            vec![Statement::Log("a b".into())],
        ),
        ("inet", r#"{"continue": null}"#, vec![]),
        ("inet", r#"{"goto": {"target": "other"}}"#, vec![Statement::Verdict(Verdict::Goto(1))]),
        (
            "inet",
            r#"{"reject": {"type": "tcp reset"}}"#,
            vec![protocol(6), reject(Reject::TcpReset)],
        ),
        (
            "inet",
            r#"{"reject": {"type": "icmpx", "expr": "admin-prohibited"}}"#,
            vec![reject(Reject::OfVersion { v4: 13, v6: 1 })],
        ),
        (
            "inet",
            r#"{"reject": {"type": "icmpx", "expr": "host-unreachable"}}"#,
            vec![reject(Reject::OfVersion { v4: 1, v6: 3 })],
        ),
        (
            "inet",
            r#"{"reject": {"type": "icmp", "expr": "host-prohibited"}}"#,
            vec![version(4), reject(Reject::Icmp(10))],
        ),
        (
            "inet",
            r#"{"reject": {"type": "icmpv6", "expr": "policy-fail"}}"#,
            vec![version(6), reject(Reject::IcmpV6(5))],
        ),
        (
            "ip",
            r#"{"reject": {"type": "icmp", "expr": "port-unreachable"}}"#,
            vec![reject(Reject::Icmp(3))],
        ),
        ("ip", r#"{"reject": null}"#, vec![reject(Reject::Icmp(3))]),
        ("ip6", r#"{"reject": null}"#, vec![reject(Reject::IcmpV6(4))]),
    ];
    for (family, statement, wanted) in cases {
        assert_eq!(of(family, &format!("[{statement}]")), wanted, "{statement}");
    }
    let text =
        r#"[{"counter": {"packets": 3, "bytes": 90}}, {"log": {"prefix": "x: "}}, {"drop": null}]"#;
    let drops = Statement::Verdict(Verdict::Drop);
    assert_eq!(of("inet", text), [Statement::Count, Statement::Log("x: ".into()), drops]);
}
