//! Policies between groups, and selectors of vpns.

use super::*;
use crate::condition::{Range, Subject};
use crate::{read as read_any, vpn};
use catena_wire::field::Field;
use proptest::prelude::*;

const POLICY: &str = "\
# What tenants want.
groups:
  Ext-NET: [198.51.100.0/24]
  Tenant1: [10.1.0.0/24, '2001:db8:1::/48']
policy: drop
rules:
- {tenant: Tenant1, match: {source: Ext-NET, destination: Tenant1}, action: accept}

- tenant: Tenant1
  priority: 10
  match: {source: [Ext-NET, 192.0.2.7], protocol: tcp, destination_port: 80}
  action: drop
- {action: drop}
";

fn options() -> ReadOptions {
    ReadOptions { file: "tenants.yaml".to_owned(), ..ReadOptions::default() }
}

fn refused(text: &str) -> String {
    read_any(text, Families::V4, &options()).expect_err("wrong").to_string()
}

#[test]
fn rules_stand_in_the_order_of_their_priorities_with_their_lines() {
    let set = read_any(POLICY, Families::V4, &options()).expect("a policy");
    assert_eq!(set.bases, [Base { chain: 0, families: Families::BOTH, policy: Policy::Drop }]);
    let rules = &set.chains[0].rules;
    let told =
        |rule: &Rule| (rule.line, rule.verdict(), rule.owner.clone().map(|one| one.priority));
    assert_eq!(
        rules.iter().map(told).collect::<Vec<_>>(),
        [
            (9, Some(Verdict::Drop), Some(10)),
            // No packet of IPv6 comes from Ext-NET.
            (7, Some(Verdict::Accept), Some(0)),
            (13, Some(Verdict::Drop), None),
        ]
    );
    assert!(rules[1].text.starts_with("{tenant: Tenant1, match:"), "{}", rules[1].text);
    let value = |subject| match subject {
        Subject::Version => Some(4),
        Subject::Field(Field::Protocol) => Some(6),
        Subject::Field(Field::Source) => Some(0xc000_0207),
        Subject::Field(Field::DestinationPort) => Some(80),
        _ => None,
    };
    assert!(rules[0].conditions().all(|condition| condition.takes(value)));
    assert!(!rules[1].conditions().all(|condition| condition.takes(value)));
    assert_eq!(rules[2].statements, [Statement::Verdict(Verdict::Drop)]);
}

#[test]
fn what_names_nothing_is_refused_by_its_line() {
    assert_eq!(
        refused(&POLICY.replace("destination: Tenant1", "destination: Tenant2")),
        "tenants.yaml line 7: there is no group Tenant2; there are Ext-NET, Tenant1; correct it; the page \
         «Firewall» of the book lists what a rule may say"
    );
    assert!(refused("rules:\n- {match: {source: All}, action: drop}\n").contains("names none"));
    let twice = POLICY.replace("  Tenant1:", "  Ext-NET:");
    assert!(refused(&twice).contains("there are two groups Ext-NET"), "{}", refused(&twice));
    for (wrong, told) in [
        ("rules:\n- {action: allow}\n", "unknown variant `allow`"),
        (
            "rules:\n- {match: {source: 10.1.0.1/24}, action: drop}\n",
            "say 10.1.0.0/24 for all of it",
        ),
        ("groups: {'1st': [10.0.0.1]}\nrules: []\n", "is no name of a group"),
        ("groups: {A: []}\nrules: []\n", "the list is empty"),
        ("rules:\n- {colour: red, action: drop}\n", "unknown field `colour`"),
        (
            "groups: {A: [10.0.0.1], B: ['::1']}\nrules:\n- {match: {source: A, destination: B}, action: drop}\n",
            "line 3: no packet meets a match",
        ),
    ] {
        assert!(refused(wrong).contains(told), "{}", refused(wrong));
    }
}

#[test]
fn items_that_share_a_line_have_that_of_their_key() {
    let rules =
        "groups: {A: [10.0.0.1]}\nrules: [{action: accept}, {match: {source: A}, action: drop}]\n";
    let set = read_any(rules, Families::V4, &options()).expect("a policy");
    let told: Vec<(u32, &str)> =
        set.chains[0].rules.iter().map(|rule| (rule.line, rule.text.as_str())).collect();
    assert_eq!(told, [(2, "item 1 of 'rules'"), (2, "item 2 of 'rules'")]);
}

#[test]
fn what_is_encrypted_on_the_way_forward_comes_back_encrypted() {
    let text = "groups:\n  Tenant1: [10.1.0.0/24]\n  Tenant2: [192.168.1.0/24]\nencrypts:\n\
                - {source: Tenant1, destination: Tenant2, protocol: tcp, destination_port: 80}\n";
    assert!(vpn::has_selectors(text) && !is_policy(text));
    assert!(!vpn::has_selectors(POLICY) && is_policy(POLICY));
    let selectors = vpn::read(text, &options()).expect("selectors");
    assert_eq!((selectors.encrypts.len(), selectors.decrypts.len()), (1, 0));
    assert_eq!(selectors.encrypts[0].line, 5);
    let back = selectors.mirrored();
    assert_eq!((back.encrypts.len(), back.decrypts.len()), (0, 1));
    assert_eq!(back.mirrored(), selectors);
    let asked = |rule: &Rule, field| {
        let subjects = [Subject::Field(field)];
        rule.conditions().find(|one| one.subjects == subjects).map(|one| one.test.clone())
    };
    let net = crate::condition::Test::In(vec![Range { first: 0x0a01_0000, last: 0x0a01_00ff }]);
    assert_eq!(asked(&selectors.encrypts[0], Field::Source), Some(net.clone()));
    assert_eq!(asked(&back.decrypts[0], Field::Destination), Some(net));
    assert_eq!(
        asked(&back.decrypts[0], Field::SourcePort),
        asked(&selectors.encrypts[0], Field::DestinationPort)
    );
    let wrong = text.replace("protocol: tcp", "direction: forward, protocol: tcp");
    let told = vpn::read(&wrong, &options()).expect_err("wrong").to_string();
    assert!(told.starts_with("tenants.yaml line 5: a selector has no 'direction'"), "{told}");
}

proptest! {
    #[test]
    fn any_policy_and_any_selector_is_read_or_refused(text in "\\PC*") {
        let rules = format!("- {{match: {{source: {text}}}, action: drop}}\n- {text}\n");
        let policy = format!("groups:\n  A: [{text}]\nrules:\n{rules}");
        for text in [&text, &policy, &policy.replace("rules:", "encrypts:")] {
            let _ = read(text, &options());
            let _ = vpn::read(text, &options());
        }
    }
}
