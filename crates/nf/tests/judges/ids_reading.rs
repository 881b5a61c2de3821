//! What our reader makes of the corpus, beside two readers of others: `surinort-ast`, which gives a tree with values,
//! and `suricataparser`, which gives words.

use crate::collector::Workplace;
use crate::ids::{THEMES, corpus, rules};
use catena_rules::snort::{Check, Ends, IdsRule, IdsRules, Protocol, Span};
use serde_json::{Value, json};
use std::process::Command;

/// The environment of the readers cannot be had.
const UNAVAILABLE: i32 = 3;

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Ip => "ip",
        Protocol::Tcp => "tcp",
        Protocol::TcpPacket => "tcp-pkt",
        Protocol::TcpStream => "tcp-stream",
        Protocol::Http => "http",
        Protocol::Udp => "udp",
        Protocol::Icmp => "icmp",
    }
}

/// Addresses of IPv4 and of IPv6, and ports; in words, as JSON has no such numbers.
fn ends(ends: &Ends) -> Value {
    let [narrow, wide] = ends.addresses.ranges();
    let told = |ranges: &[(u128, u128)]| {
        let pair = |(first, last): &(u128, u128)| [first.to_string(), last.to_string()];
        ranges.iter().map(pair).collect::<Vec<_>>()
    };
    json!([told(narrow), told(wide), told(ends.ports.ranges()[0])])
}

fn span(span: Option<Span>) -> Value {
    span.map_or(Value::Null, |span| json!([span.first, span.last, span.is_negated]))
}

fn check(check: &Check) -> Value {
    match check {
        Check::Content(one) => {
            let bytes: String = one.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!([
                "content",
                bytes,
                one.is_negated,
                one.ignores_case,
                one.is_relative,
                one.from,
                one.within,
                one.is_at_end
            ])
        }
        Check::Pattern(one) => json!(["pattern", one.is_negated, one.is_relative]),
        Check::ByteTest(one) => json!([
            "byte_test",
            one.bytes,
            one.is_negated,
            format!("{:?}", one.comparison),
            one.value,
            one.offset,
            one.is_relative,
            format!("{:?}", one.numeral)
        ]),
        Check::DataAt(one) => json!(["data_at", one.offset, one.is_negated, one.is_relative]),
    }
}

fn rule(rules: &IdsRules, rule: &IdsRule) -> Value {
    let words = |value: &dyn std::fmt::Debug| format!("{value:?}");
    let checks: Vec<Value> =
        rule.checks.iter().map(|(buffer, one)| json!([words(buffer), check(one)])).collect();
    let bits = rule.flowbits.iter().map(|(usage, bit)| {
        json!([words(usage).to_lowercase(), rules.flowbits[usize::from(*bit)]])
    });
    let thresholds = rule
        .thresholds
        .iter()
        .map(|one| json!([words(&one.kind), words(&one.track), one.count, one.seconds]));
    let flow = &rule.flow;
    let head = rule.text.split('(').next().unwrap_or_default().trim();
    json!({
        "text": rule.text,
        "action": words(&rule.action).to_lowercase(),
        "protocol": protocol(rule.protocol),
        "head": head.split_once(' ').map(|(_, rest)| rest),
        "both": rule.is_both_ways,
        "source": ends(&rule.source),
        "destination": ends(&rule.destination),
        "options": rule.options(),
        "msg": rule.message,
        "gid": rule.gid,
        "sid": rule.sid,
        "rev": rule.revision,
        "checks": checks,
        "dsize": span(rule.payload_bytes),
        "ttl": span(rule.ttl),
        "itype": span(rule.icmp_type),
        "icode": span(rule.icmp_code),
        "flags": rule.flags.map(|one| json!([words(&one.mode), one.flags, one.ignored])),
        "flow": [json!(flow.is_established), json!(flow.is_to_server), json!(flow.is_only_stream),
            json!(flow.is_no_stream)],
        "flowbits": bits.collect::<Vec<_>>(),
        "silent": rule.is_silent,
        "thresholds": thresholds.collect::<Vec<_>>(),
    })
}

#[test]
fn rules_are_read_as_two_readers_of_others_read_them() {
    let place = Workplace::new("ids-reading");
    let told = THEMES.map(|theme| {
        let text = std::fs::read_to_string(corpus().join(format!("{theme}.rules")));
        let text = text.expect("the corpus is there");
        let variables: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with("ipvar") || line.starts_with("portvar"))
            .map(|line| line.splitn(3, ' ').collect())
            .collect();
        let rules = rules(theme);
        let all: Vec<Value> = rules.rules.iter().map(|one| rule(&rules, one)).collect();
        json!({"variables": variables, "rules": all})
    });
    let file = place.0.join("ours.json");
    std::fs::write(&file, json!(told).to_string()).expect("there is room");
    let done = Command::new(corpus().join("run")).arg("parsing").arg(&file).output();
    let done = done.expect("python3 is installed");
    let said = String::from_utf8_lossy(&done.stdout);
    if done.status.code() == Some(UNAVAILABLE) {
        println!("SKIPPED: rules_are_read_as_two_readers_of_others_read_them: {said}");
        return;
    }
    println!("{said}");
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
}
