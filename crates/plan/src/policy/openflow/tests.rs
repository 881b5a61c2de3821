//! Flows against readers of one packet after the other, in a switch of a few lines; a real one is asked elsewhere.

use super::matches::MatchField;
use super::*;
use crate::policy::tests::{all_packets, any_rule, passes, read};
use catena_rules::condition::Subject;
use catena_rules::rule_set::{Families, MapEntry, Policy};
use catena_rules::{ReadOptions, Side, iptables, nft};
use catena_wire::field::Field;
use proptest::prelude::*;

/// What a rule would ask of a packet that a flow asks for.
fn subject(field: MatchField) -> Option<Subject> {
    Some(match field {
        MatchField::Side => Subject::CameIn,
        MatchField::LaterFragment => Subject::IsLaterFragment,
        MatchField::Protocol => Subject::Field(Field::Protocol),
        MatchField::Source => Subject::Field(Field::Source),
        MatchField::Destination => Subject::Field(Field::Destination),
        MatchField::SourcePort => Subject::Field(Field::SourcePort),
        MatchField::DestinationPort => Subject::Field(Field::DestinationPort),
        MatchField::TcpFlags => Subject::Field(Field::TcpFlags),
        MatchField::IcmpType => Subject::Field(Field::IcmpType),
        MatchField::IcmpCode => Subject::Field(Field::IcmpCode),
        MatchField::Dscp => Subject::Field(Field::Dscp),
        _ => return None,
    })
}

/// The table that ends a packet's way: that of what passes, that of what is not said, or none where it is dropped.
fn ends(
    compiled: &CompiledFlows,
    is_v6: bool,
    value: impl Fn(Subject) -> Option<u128>,
) -> Option<u8> {
    let shown = |field| match field {
        MatchField::EtherType => Some(if is_v6 { 0x86dd } else { 0x0800 }),
        _ => subject(field).and_then(&value),
    };
    let mut table = 0;
    while table < TABLE_PASSED {
        let own = compiled.flows.iter().filter(|flow| flow.table == table);
        let taking = own
            .filter(|flow| flow.is_v6.is_none_or(|own| own == is_v6) && flow.matches.takes(shown));
        let priority =
            taking.clone().map(|flow| flow.priority).max().expect("a flow for all others");
        let taking: Vec<FlowEnd> =
            taking.filter(|flow| flow.priority == priority).map(|flow| flow.then).collect();
        assert!(taking.iter().all(|end| *end == taking[0]), "one end of one priority");
        match taking[0] {
            FlowEnd::Drop => return None,
            FlowEnd::Goto(next) => {
                assert!(next > table, "OpenFlow goes forward alone");
                table = next;
            }
        }
    }
    Some(table)
}

fn compiled(set: &RuleSet) -> CompiledFlows {
    compile(std::slice::from_ref(set), None).expect("all can be said")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What becomes of every packet is what becomes of it rule by rule, also behind a rule set that drops the rest.
    #[test]
    fn flows_do_what_rules_do(rules in prop::collection::vec(any_rule(), 1..14), drops: bool) {
        let mut set = read(&rules.join("\n"));
        set.bases[0].policy = if drops { Policy::Drop } else { Policy::Accept };
        let inner = read("-A FORWARD -s 10.0.0.2 -j side\n-A FORWARD -p udp -j DROP\n-A side -p icmp -j ACCEPT\n\
                          -A side -p tcp -j RETURN\n-A side -j DROP");
        let alone = compiled(&set);
        let both = compile(&[set.clone(), inner.clone()], None).expect("all can be said");
        for packet in all_packets() {
            let value = |subject| match subject {
                Subject::IsLaterFragment => Some(0),
                other => packet.value(other),
            };
            let is_passed = passes(&set, packet, &BTreeSet::new(), &mut |_, _| {});
            let passed = Some(TABLE_PASSED).filter(|_| is_passed);
            prop_assert_eq!(ends(&alone, false, value), passed, "{:?}", packet);
            let is_passed = is_passed && passes(&inner, packet, &BTreeSet::new(), &mut |_, _| {});
            let passed = Some(TABLE_PASSED).filter(|_| is_passed);
            prop_assert_eq!(ends(&both, false, value), passed, "both: {:?}", packet);
            prop_assert_eq!(ends(&alone, true, value), Some(TABLE_PASSED), "nothing is said of IPv6");
        }
    }
}

/// A set of nftables for both versions, with what iptables has not: tuples, maps, sets.
fn both_versions(rules: &str) -> RuleSet {
    let text = format!(
        "{{\"nftables\": [{{\"table\": {{\"family\": \"inet\", \"name\": \"t\", \"handle\": 1}}}},
        {{\"chain\": {{\"family\": \"inet\", \"table\": \"t\", \"name\": \"web\", \"handle\": 1}}}},
        {{\"chain\": {{\"family\": \"inet\", \"table\": \"t\", \"name\": \"f\", \"handle\": 2, \"type\": \"filter\",
                       \"hook\": \"forward\", \"prio\": 0, \"policy\": \"drop\"}}}}{rules}]}}"
    );
    let options = ReadOptions { file: "inet.json".into(), ..ReadOptions::default() };
    nft::read(&text, &options).expect("rules")
}

fn rule(chain: &str, expressions: &str) -> String {
    format!(
        ",{{\"rule\": {{\"family\": \"inet\", \"table\": \"t\", \"chain\": \"{chain}\", \"handle\": 9, \
         \"expr\": [{expressions}]}}}}"
    )
}

/// A tuple that must not be, a verdict map that leads to a chain, and what a later fragment of IPv6 does not show.
#[test]
fn tuples_and_maps_become_tables_of_their_own() {
    let protocol = r#"{"meta": {"key": "l4proto"}}"#;
    let map = format!(
        r#"{{"vmap": {{"key": {protocol}, "data": {{"set": [["tcp", {{"jump": {{"target": "web"}}}}], ["udp", {{"accept": null}}]]}}}}}}"#
    );
    let web = r#"{"match": {"op": "!=", "left": {"payload": {"protocol": "tcp", "field": "dport"}},
                 "right": {"set": [80, {"range": [8000, 8010]}]}}}, {"drop": null}"#;
    let not = r#"{"match": {"op": "!=", "left": {"concat": [
                     {"payload": {"protocol": "tcp", "field": "sport"}}, {"payload": {"protocol": "tcp", "field": "dport"}}]},
                 "right": {"set": [{"concat": [{"range": [1024, 65535]}, {"range": [1, 1023]}]}, {"concat": [9, 8005]}]}}},
                 {"drop": null}"#;
    let set = both_versions(
        &[rule("web", web), rule("f", not), rule("f", &map), rule("f", r#"{"accept": null}"#)]
            .concat(),
    );
    let compiled = compiled(&set);
    for is_v6 in [false, true] {
        for (protocol, port, is_later, expected) in [
            (6, Some(80), 0, Some(TABLE_PASSED)),
            // The tuples do not have it.
            (6, Some(8_005), 0, None),
            // They do, and the chain drops it.
            (6, Some(443), 0, None),
            (17, Some(53), 0, Some(TABLE_PASSED)),
            // Nor is a tuple of TCP.
            (17, Some(8_005), 0, Some(TABLE_PASSED)),
            // The map says nothing of it.
            (47, None, 0, Some(TABLE_PASSED)),
            // Without ports neither the tuples nor the chain speak of it; of IPv6 the map does not see the protocol.
            (6, None, 1, Some(if is_v6 { TABLE_UNSAID } else { TABLE_PASSED })),
        ] {
            let ended = ends(&compiled, is_v6, |subject| match subject {
                Subject::Field(Field::Protocol) => {
                    Some(if is_v6 && is_later == 1 { 44 } else { protocol })
                }
                Subject::Field(Field::SourcePort) => port.map(|_| 4_000),
                Subject::Field(Field::DestinationPort) => port,
                Subject::IsLaterFragment => Some(is_later),
                _ => None,
            });
            assert_eq!(ended, expected, "{is_v6} {protocol} {port:?} {is_later}");
        }
    }
    assert_eq!(compiled.unsaid.len(), 1, "{:?}", compiled.unsaid);
    assert!(compiled.text().contains("# not said: inet.json line "), "{}", compiled.text());
}

fn refused(rules: &str) -> Vec<String> {
    let text = format!("*filter\n:FORWARD DROP [0:0]\n:lost - [0:0]\n{rules}\nCOMMIT\n");
    let options = ReadOptions {
        file: "edge.iptables".into(),
        interfaces: [("eth0".to_owned(), Side::In)].into(),
        ..ReadOptions::default()
    };
    let set = iptables::read(&text, Families::V4, &options).expect("rules");
    match compile(&[set], None) {
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn what_flows_cannot_say_is_refused_by_line() {
    let told = refused(
        "-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT\n\
         -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
         -A FORWARD -m length --length 40:100 -j ACCEPT\n\
         -A FORWARD -p icmp -m limit --limit 5/s -j ACCEPT\n\
         -A FORWARD -p udp -j LOG --log-prefix udp\n\
         -A FORWARD -p udp -j REJECT\n\
         -A FORWARD -i eth0 -j ACCEPT\n\
         -A FORWARD -p tcp -m tcp --tcp-option 8 -j ACCEPT\n\
         -A lost -j REJECT",
    );
    let expected = [
        (5, "state of a connection"),
        (6, "packet length"),
        (7, "limits how often"),
        (8, "line of log"),
        (9, "tells senders"),
        (10, "which ports of the switch"),
        (11, "TCP option 8"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((line, what), told) in expected.iter().zip(&told) {
        assert!(
            told.starts_with(&format!("edge.iptables line {line}: ")) && told.contains(what),
            "{told}"
        );
    }
    assert_eq!(
        refused("-A FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN -j ACCEPT\n-A lost -j REJECT"),
        [""; 0]
    );
}

/// Ranges whose products are large are asked one after the other; what stays too large is refused.
#[test]
fn flows_and_tables_are_bounded() {
    let two = "-A FORWARD -p tcp -m tcp --sport 1:65534 --dport 1:65534 ! -s 10.0.0.9 ! -d 10.0.0.9 -j ACCEPT";
    let compiled = compiled(&read(two));
    assert!(compiled.len() < 200, "{}", compiled.len());
    let many: Vec<String> = (0..3_000)
        .map(|at| {
            format!(
                "-A FORWARD -s 10.{}.{}.0/24 -p tcp -m tcp --dport 1:65534 -j DROP",
                at / 250,
                at % 250
            )
        })
        .collect();
    let told = refused(&many.join("\n"));
    assert!(told[0].contains("more than 65535 flows") && told[0].contains(" line "), "{told:?}");
    let leading: Vec<String> =
        (0..300).map(|at| format!("-A FORWARD -s 10.0.0.{} -j lost", at % 250)).collect();
    let told = refused(&format!("{}\n-A lost -p tcp -j DROP", leading.join("\n")));
    assert!(told[0].contains("more than 250 tables"), "{told:?}");
    // One rule of a million combinations.
    let port = r#"{"payload": {"protocol": "tcp", "field": "dport"}}"#;
    let one =
        format!(r#"{{"match": {{"op": "!=", "left": {port}, "right": 80}}}}, {{"drop": null}}"#);
    let mut set = both_versions(&rule("f", &one));
    let (subjects, wide) = (
        [Field::SourcePort, Field::DestinationPort, Field::Source, Field::Destination]
            .map(Subject::Field)
            .to_vec(),
        catena_rules::condition::Range { first: 1, last: 65_534 },
    );
    let entry = MapEntry { values: vec![wide; 4], verdict: None };
    let map = catena_rules::rule_set::VerdictMap { subjects, entries: vec![entry] };
    let at = set.bases[0].chain;
    set.chains[at].rules[0].statements = vec![Statement::Map(map)];
    let error = compile(&[set], None).expect_err("too many");
    assert!(error.to_string().contains("more than 65535 flows"), "{error}");
}

#[test]
fn flows_are_lines_whatever_stands_in_rules() {
    let options = ReadOptions {
        file: "edge\n.iptables".into(),
        interfaces: [("eth0".to_owned(), Side::In)].into(),
        ..ReadOptions::default()
    };
    let text = "*filter\n:FORWARD DROP [0:0]\n\
                -A FORWARD -i eth0 -p tcp -m tcp --dport 8080:8083 --tcp-flags SYN,ACK SYN -j ACCEPT\n\
                -A FORWARD -s 10.0.0.0/255.0.255.0 ! -f -m dscp --dscp 46 -j ACCEPT\nCOMMIT\n";
    let set = iptables::read(text, Families::V4, &options).expect("rules");
    let sides = SwitchSides::new("p \"1", "2").expect_err("no name");
    assert!(sides.to_string().contains("is no name of a port"), "{sides}");
    assert!(SwitchSides::new("2", "2").is_err());
    let sides = SwitchSides::new("eth-a", "2").expect("names");
    let text = compile(&[set], Some(&sides)).expect("all can be said").text();
    let flows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        flows,
        [
            "table=0,priority=2,dl_type=0x8100,actions=goto_table:253",
            "table=0,priority=2,dl_type=0x88a8,actions=goto_table:253",
            "table=0,priority=2,ip,actions=goto_table:1",
            "table=0,priority=2,ipv6,actions=goto_table:252",
            "table=0,priority=0,actions=goto_table:252",
            "table=1,priority=2,tcp,in_port=\"eth-a\",ip_frag=not_later,tp_dst=0x1f90/0xfffc,tcp_flags=0x2/0x12,\
             actions=goto_table:252",
            "table=1,priority=1,ip,ip_frag=not_later,nw_src=10.0.0.0/255.0.255.0,ip_dscp=46,actions=goto_table:252",
            "table=1,priority=0,ip,actions=drop",
            "table=252,priority=1,in_port=\"eth-a\",actions=output:2",
            "table=252,priority=1,in_port=2,actions=output:\"eth-a\"",
        ]
    );
}

/// A mask that begins with a decimal digit would be taken for the length of a prefix.
#[test]
fn masks_of_ipv6_begin_with_a_letter_or_are_lengths() {
    use super::matches::FlowMatch;
    use super::values::Ternary;
    for mask in [
        0x7fff_u128 << 112 | 1,
        0x8001 << 112,
        0x10 << 112 | 0xff,
        0xff << 64,
        0xc001 << 112,
        0,
        1,
        u128::MAX << 77,
    ] {
        let whole =
            FlowMatch::of(MatchField::Source, Ternary { value: mask & 0x5a5a << 112, mask });
        let parts = whole.writable();
        for value in [0_u128, 0x5a5a, 0xffff, 0x5a4a, 0x8001, 0x2].map(|top| top << 112 | 0xff) {
            let takes = |one: &FlowMatch| one.takes(|_| Some(value));
            assert_eq!(parts.iter().filter(|one| takes(one)).count(), usize::from(takes(&whole)));
        }
        for words in parts.iter().map(|one| one.words(Some(true), None)) {
            let Some((_, mask)) = words.last().and_then(|words| words.split_once('/')) else {
                continue;
            };
            let is_length = mask.parse::<u32>().is_ok_and(|length| length <= 128);
            assert!(
                is_length || !mask.starts_with(|digit: char| digit.is_ascii_digit()),
                "{words:?}"
            );
            let is_mask = mask.parse::<std::net::Ipv6Addr>().is_ok();
            assert!(is_length || is_mask, "{words:?}");
        }
    }
}
