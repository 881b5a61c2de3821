//! Rules of several tenants, and ends of vpns.

use super::super::finding::{Finding, FindingKind, Severity, Way};
use super::chains::{inspection, of_ways};
use super::{analyse, kinds};
use catena_model::profile::Profile;
use catena_rules::options::ReadOptions;
use catena_rules::{ReadRules, groups, vpn};

const GROUPS: &str = "groups:\n  Ext-NET: [198.51.100.0/24]\n  Tenant1: [10.1.0.0/24]\n  Tenant2: [192.168.1.0/24]\n";

fn options(file: &str) -> ReadOptions {
    ReadOptions { file: file.into(), ..ReadOptions::default() }
}

fn of_tenants(rules: &str) -> Vec<Finding> {
    let text = format!("{GROUPS}rules:\n{rules}");
    let set = groups::read(&text, &options("tenants.yaml")).expect("a policy");
    analyse(&set).expect("small").findings
}

fn conflicts(rules: &str) -> Vec<Finding> {
    let is_one = |finding: &Finding| finding.kind == FindingKind::TenantConflict;
    of_tenants(rules).into_iter().filter(is_one).collect()
}

#[test]
fn tenants_of_one_priority_may_not_want_different_things_of_a_packet() {
    let one = "- {tenant: Tenant1, priority: 5, match: {source: Ext-NET, protocol: tcp, destination_port: 80}, \
               action: drop}\n";
    let other = "- {tenant: Tenant2, priority: 5, match: {destination: Tenant2}, action: accept}\n";
    let found = conflicts(&format!("{one}{other}"));
    assert_eq!(found.len(), 1, "{found:?}");
    let found = &found[0];
    assert_eq!(found.kind.severity(), Severity::Error);
    assert_eq!((found.site.to_string(), found.others[0].line), ("tenants.yaml line 7".into(), 6));
    assert_eq!(
        found.class.as_deref(),
        Some("tcp, ip.src 198.51.100.0/24 (Ext-NET), ip.dst 192.168.1.0/24 (Tenant2), l4.dport 80")
    );
    assert!(
        found.what.starts_with(
            "Tenant2 wants to accept what Tenant1 wants to drop, both with priority 5"
        ),
        "{}",
        found.what
    );
    for (first, second) in [
        // A priority says whose word counts.
        (one.replace("priority: 5", "priority: 6"), other.to_owned()),
        // They agree.
        (one.to_owned(), other.replace("accept", "drop")),
        // They speak of different packets.
        (one.replace("match: {", "match: {destination: Tenant1, "), other.to_owned()),
        // Who contradicts himself is told so otherwise.
        (one.to_owned(), other.replace("tenant: Tenant2", "tenant: Tenant1")),
    ] {
        assert_eq!(conflicts(&format!("{first}{second}")), [], "{first}{second}");
    }
    // What a higher priority has decided nobody argues about.
    let above = "- {tenant: Tenant3, priority: 9, match: {source: Ext-NET}, action: drop}\n";
    assert_eq!(conflicts(&format!("{one}{other}{above}")), []);
}

#[test]
fn rules_of_both_versions_are_told_of_once() {
    let rules = "- {tenant: Tenant1, match: {protocol: tcp}, action: drop}\n\
                 - {tenant: Tenant2, match: {destination_port: 22}, action: accept}\n";
    assert_eq!(conflicts(rules).len(), 1);
    // As with any rules, what takes nothing is told.
    let rules = "- {match: {source: Tenant1}, action: drop}\n- {match: {source: 10.1.0.7}, action: accept}\n";
    let found = of_tenants(rules);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].site.line), (FindingKind::Contradicted, 7));
    assert_eq!(kinds("-A FORWARD -p tcp -j DROP"), []);
}

/// The third line of the paper's Table I, and what else may stand around an ids.
#[test]
fn an_ids_sees_nothing_of_what_is_encrypted_at_its_place() {
    let vpn = |text: &str| {
        let text = format!("{GROUPS}{text}");
        ReadRules::Encryption(vpn::read(&text, &options("vpn.yaml")).expect("selectors"))
    };
    let near = vpn("encrypts:\n- {source: Tenant1, destination: Tenant2}\n");
    let far = vpn("decrypts:\n- {source: Tenant1, destination: Tenant2}\n");
    let ids = inspection(
        "alert tcp 198.51.100.0/24 any -> 10.1.0.0/24 any (content:\"x\"; sid:1;)\n\
         alert tcp 10.1.0.0/24 80 -> 192.168.1.0/24 80 (content:\"x\"; sid:2;)\n",
    );
    let (looks, unknown) = (Profile::IDENTITY, Profile::unknown());
    let [near, far, ids] = [("near", &near, unknown), ("far", &far, unknown), ("ids", &ids, looks)];
    let told = |functions: &[(&str, &ReadRules, Profile)]| -> Vec<(Option<Way>, String)> {
        let found = of_ways(functions, true);
        assert!(found.iter().all(|one| one.kind == FindingKind::BlindInspection), "{found:?}");
        let start = |finding: &Finding| finding.what.split(',').next().unwrap_or("").to_owned();
        found.iter().map(|finding| (finding.way, start(finding))).collect()
    };
    let found = of_ways(&[near, ids], false);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = &found[0];
    assert_eq!((found.kind, found.site.line), (FindingKind::BlindInspection, 2));
    assert_eq!(
        found.class.as_deref(),
        Some(
            "tcp, ip.src 10.1.0.0/24 (Tenant1), ip.dst 192.168.1.0/24 (Tenant2), l4.sport 80, l4.dport 80"
        )
    );
    assert_eq!(
        found.others.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["vpn.yaml line 6"]
    );
    // The rule asks for no packet of the way back.
    assert_eq!(told(&[near, ids]), [(Some(Way::Forth), "ids stands behind near".to_owned())]);
    assert_eq!(told(&[ids, near]), []);
    // Before the far end packets are encrypted, and behind it no longer.
    assert_eq!(told(&[ids, far]), [(Some(Way::Forth), "ids stands before far".to_owned())]);
    assert_eq!(told(&[far, ids]), []);
    assert_eq!(told(&[near, far, ids]), []);
    assert_eq!(told(&[ids, near, far]), []);
    assert_eq!(told(&[near, ids, far]).len(), 2);

    let both = inspection("alert tcp any any <> 192.168.1.0/24 80 (content:\"x\"; sid:1;)\n");
    let both = ("ids", &both, looks);
    let back = |what: &str| (Some(Way::Back), what.to_owned());
    let forth = (Some(Way::Forth), "ids stands behind near".to_owned());
    assert_eq!(told(&[near, both]), [forth, back("on the way back")]);
    assert_eq!(told(&[both, near]), []);
}
