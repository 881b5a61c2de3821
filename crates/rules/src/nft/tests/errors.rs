//! What is wrong or not supported.

use super::*;

fn refused(object: &Value) -> RuleError {
    let mut listing: Value = serde_json::from_str(EDGE).unwrap();
    listing["nftables"].as_array_mut().unwrap().push(object.clone());
    let set = read(&listing.to_string(), &options());
    set.err().unwrap_or_else(|| panic!("{object} is read"))
}

fn rule_of(family: &str, chain: &str, expr: &Value) -> Value {
    serde_json::json!({"rule": {"family": family, "table": "filter", "chain": chain, "expr": expr}})
}

fn rule(expr: &Value) -> Value {
    rule_of("inet", "forward", expr)
}

fn compared(left: &str, op: &str, right: &str) -> String {
    format!(r#"[{{"match": {{"op": "{op}", "left": {left}, "right": {right}}}}}]"#)
}

#[test]
fn what_is_wrong_is_told_with_its_chain_and_what_to_do() {
    let port = r#"{"payload": {"protocol": "tcp", "field": "dport"}}"#;
    let source = r#"{"payload": {"protocol": "ip", "field": "saddr"}}"#;
    let fragment = r#"{"payload": {"protocol": "ip", "field": "frag-off"}}"#;
    let entrance = r#"{"meta": {"key": "iifname"}}"#;
    let cases = [
        (compared(port, "==", "70000"), "70000 is no value of destination port", "number itself"),
        (
            compared(port, "==", r#"{"range": [90, 80]}"#),
            "ends before it begins",
            "lower value first",
        ),
        (
            compared(source, "==", r#""host.example""#),
            "no value of source address",
            "number itself",
        ),
        (
            compared(source, "==", r#"{"prefix": {"addr": "10.0.0.0", "len": 33}}"#),
            "length of a prefix",
            "list",
        ),
        (compared(source, "==", r#""@nowhere""#), "no set or map nowhere", "whole rule set"),
        (compared(source, "==", r#""@late""#), "sets that are \"timeout\"", "skip"),
        (compared(source, "~", "1"), "the operator ~", "skip"),
        (compared(entrance, "==", r#""eth9""#), "the interface eth9 is", "interfaces: {eth9: in}"),
        (compared(entrance, "<", r#""eth1""#), "not compared so", "skip"),
        (compared(fragment, "<", "5"), "ip frag-off is only supported", "skip"),
        (
            compared(&format!(r#"{{"&": [{fragment}, 12289]}}"#), "==", "0"),
            "the mask 0x3001",
            "skip",
        ),
        (compared(&format!(r#"{{"concat": [{source}, {port}]}}"#), "==", "5"), "each part", "list"),
        (
            compared(&format!(r#"{{"concat": [{source}, {port}]}}"#), "<", "5"),
            "only supported with",
            "skip",
        ),
        (compared(r#"{"rt": {"key": "nexthop"}}"#, "==", "5"), "the expression rt", "skip"),
        (compared(r#"{"meta": {"key": "skuid"}}"#, "==", "5"), "meta skuid", "skip"),
        (compared(r#"{"ct": {"key": "mark"}}"#, "==", "5"), "ct mark", "skip"),
        (compared("5", "==", "5"), "an expression is missing", "nft -j list ruleset"),
        (r#"[{"match": {"left": 5}}]"#.into(), "a side of the match", "list"),
        (r#"[{"limit": {"rate": 0, "per": "second"}}]"#.into(), "a rate is missing", "list"),
        (r#"[{"limit": {"rate": 1, "per": "year"}}]"#.into(), "a rate is missing", "list"),
        (r#"[{"jump": {"target": "nowhere"}}]"#.into(), "no chain nowhere", "whole rule set"),
        (r#"[{"jump": {"target": "forward"}}]"#.into(), "forward is a base chain", "without hook"),
        (
            r#"[{"reject": {"type": "icmp", "expr": "no-route"}}]"#.into(),
            "rejected with icmp",
            "list",
        ),
        (r#"[{"reject": {"type": "icmpx", "expr": 9}}]"#.into(), "rejected with icmpx 9", "list"),
        (r#"[{"queue": {"num": 3}}]"#.into(), "the statement queue", "skip"),
        (r#"[{"flow": {"op": "add", "flowtable": "@ft"}}]"#.into(), "the statement flow", "skip"),
        (r#"["accept"]"#.into(), "a statement is missing", "list"),
        (r#"[{"vmap": {"key": 5}}]"#.into(), "a map with its key", "list"),
    ];
    for (expr, what, advice) in cases {
        let error = refused(&rule(&serde_json::from_str(&expr).unwrap()));
        assert!(error.what.starts_with("inet filter forward rule 12: "), "{expr}: {error}");
        assert!(error.what.contains(what) && error.advice.contains(advice), "{expr}: {error}");
        assert_eq!(error.line, 34, "{error}");
    }
}

#[test]
fn listings_that_are_wrong_as_a_whole_are_refused() {
    let chain = |name: &str, more: &str| -> Value {
        let text = format!(
            r#"{{"chain": {{"family": "inet", "table": "filter", "name": "{name}"{more}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    assert!(refused(&chain("ssh", "")).what.contains("inet filter ssh is declared twice"));
    assert!(
        refused(&chain("x", r#", "hook": "forward", "policy": "maybe""#))
            .what
            .contains("no policy")
    );
    let drops = r#", "type": "filter", "hook": "prerouting", "prio": 0, "policy": "drop""#;
    let error = refused(&chain("x", drops));
    assert!(error.may_be_skipped && error.what.contains("drops what no rule takes"), "{error}");
    let jump = |from: &str, to: &str| {
        rule_of("inet", from, &serde_json::json!([{"jump": {"target": to}}]))
    };
    let error = refused(&jump("ssh", "ssh"));
    assert!(error.what.contains("inet filter ssh leads back to itself"), "{error}");
    // A verdict of a map leads as well.
    let data = serde_json::json!({"set": [["new", {"goto": {"target": "slow"}}]]});
    let vmap = serde_json::json!([{"vmap": {"key": {"ct": {"key": "state"}}, "data": data}}]);
    let back = rule_of("inet", "slow", &vmap);
    assert!(refused(&back).what.contains("leads back to itself"));
    assert!(refused(&jump("nowhere", "ssh")).what.contains("no chain nowhere"));
    let of_table = rule_of("ip6", "forward", &serde_json::json!([]));
    assert!(refused(&of_table).what.contains("no chain forward"));
    assert!(refused(&serde_json::json!({"add": {"rule": {}}})).what.contains("'add' is a command"));
    assert!(refused(&serde_json::json!({"rule": 5})).what.contains("'family' is missing"));
    let metainfo = serde_json::json!({"metainfo": {"json_schema_version": 2}});
    assert!(refused(&metainfo).what.contains("version 2 of the schema"));
    assert!(refused(&serde_json::json!({})).what.contains("has not one member"));
    let of_text = |text: &str| read(text, &options()).unwrap_err();
    assert!(of_text("{\"nftables\": []}").what.contains("no chain of the hook forward"));
    assert!(of_text("{}").what.contains("no list 'nftables'"));
    let error = of_text("{\n\"nftables\":\n [}");
    assert_eq!(error.line, 3, "{error}");
    assert!(error.advice.contains("nft -j list ruleset"));
    let deep = format!("{{\"nftables\": [{}]}}", "[".repeat(100_000));
    assert!(of_text(&deep).what.contains("no list of rules in JSON"));
}

#[test]
fn limits_of_rules_and_values_hold() {
    let many = |rules: usize, elements: usize| {
        let mut listing: Value = serde_json::from_str(EDGE).unwrap();
        let objects = listing["nftables"].as_array_mut().unwrap();
        let elements: Vec<Value> = (0..elements).map(|port| Value::from(port * 2)).collect();
        objects.push(serde_json::json!({"set": {
            "family": "inet", "table": "filter", "name": "many", "type": "inet_service", "elem": elements,
        }}));
        let rule = serde_json::json!({"rule": {"family": "inet", "table": "filter", "chain": "forward", "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": "@many"}}
        ]}});
        objects.extend(std::iter::repeat_n(rule, rules));
        read(&listing.to_string(), &options())
    };
    assert!(many(30, 30_000).is_ok());
    assert!(many(40, 30_000).unwrap_err().what.contains("more than 1048576 values"));
    assert!(many(16_385, 0).unwrap_err().what.contains("more than 16384 rules"));
    let chains = |number: usize| {
        let mut listing: Value = serde_json::from_str(EDGE).unwrap();
        let objects = listing["nftables"].as_array_mut().unwrap();
        for at in 0..number {
            let (name, next) = (format!("c{at}"), format!("c{}", (at + 1).min(number - 1)));
            objects.push(
                serde_json::json!({"chain": {"family": "inet", "table": "filter", "name": name}}),
            );
            let expr = if name == next {
                vec![]
            } else {
                vec![serde_json::json!({"jump": {"target": next}})]
            };
            objects.push(rule_of("inet", &name, &Value::from(expr)));
        }
        read(&listing.to_string(), &options())
    };
    assert!(chains(17).is_ok());
    assert!(chains(18).unwrap_err().what.contains("more than 16 deep"));
}

#[test]
fn what_is_not_supported_is_left_out_where_that_was_asked_for_and_told() {
    let error = read(UNSUPPORTED, &options()).unwrap_err();
    assert!(error.may_be_skipped && error.what.contains("mangle pre drops"), "{error}");
    let skipping = ReadOptions { unsupported: Unsupported::Skip, ..options() };
    let set = read(UNSUPPORTED, &skipping).unwrap();
    let [forward] = &set.chains[..] else { panic!("{:?}", set.chains) };
    let texts: Vec<&str> = forward.rules.iter().map(|rule| &*rule.text).collect();
    assert_eq!(texts, ["ip saddr 10.0.0.1 accept"]);
    let whats: Vec<&str> = set.skipped.iter().map(|skipped| &*skipped.what).collect();
    let wanted = [
        "nat prerouting rule 1: nat is not the firewall's",
        "nat postrouting rule 1: nat is not the firewall's",
        "the chain mangle pre drops what no rule takes",
        "mangle forward rule 1: the statement mangle",
        "mangle forward rule 2: the statement quota",
        "mangle forward rule 3: counters with a name",
        "mangle forward rule 4: limits with a name",
        "mangle forward rule 5: sets that are \"timeout\"",
        "mangle forward rule 6: sets that rules put elements into",
        "mangle forward rule 7: the statement set",
        "mangle forward rule 8: the statement set",
        "mangle forward rule 9: limits of mbytes",
        "mangle forward rule 10: the statement ct count",
        "mangle forward rule 11: the statement mangle",
        "mangle forward rule 12: the expression tcp option",
        "mangle forward rule 13: the expression exthdr",
        "mangle forward rule 14: the expression fib",
        "mangle forward rule 15: ip6 nexthdr names the next header alone",
        "mangle forward rule 16: th asks for ports of protocols that may have none",
        "mangle forward rule 17: the field sctp dport",
        "mangle forward rule 18: the statement notrack",
        "mangle forward rule 19: meta pkttype",
        "mangle forward rule 20: log group",
        "mangle pre rule 1: only the hook forward is supported",
        "x in rule 1: only tables of the families ip, ip6 and inet",
    ];
    assert_eq!(whats.len(), wanted.len(), "{whats:#?}");
    for (what, wanted) in whats.iter().zip(wanted) {
        assert!(what.starts_with(wanted), "{what}");
    }
    // What is wrong is not left out.
    let wrong = UNSUPPORTED.replace("\"right\": \"10.0.0.1\"", "\"right\": \"nonsense\"");
    assert!(read(&wrong, &skipping).unwrap_err().what.contains("no value of source address"));
}
