//! What rules of several functions say together.

use super::super::finding::{Finding, FindingKind, Way};
use super::super::{ChainFunction, OverlappingRules, RuleRanges, analyse_chain};
use super::read;
use catena_model::profile::{FieldSet, Profile};
use catena_rules::options::ReadOptions;
use catena_rules::rule_set::Families;
use catena_rules::{ReadRules, Side, iptables};
use catena_wire::field::Field;

/// What is read of an ids and a nat.
pub(super) fn inspection(text: &str) -> ReadRules {
    let options = ReadOptions { file: "web.rules".into(), ..ReadOptions::default() };
    ReadRules::Inspection(
        catena_rules::snort::read(text, &std::collections::BTreeMap::new(), &options)
            .expect("rules"),
    )
}

fn translation(text: &str) -> ReadRules {
    ReadRules::Translation(catena_rules::nat::read(text, "nat.yaml").expect("configuration"))
}

pub(super) fn of_chain(functions: &[(&str, &ReadRules, Profile)]) -> Vec<Finding> {
    of_ways(functions, false)
}

/// Of a symmetric chain what is wrong on the way back, too.
pub(super) fn of_ways(
    functions: &[(&str, &ReadRules, Profile)],
    is_symmetric: bool,
) -> Vec<Finding> {
    let functions: Vec<ChainFunction<'_>> = functions
        .iter()
        .map(|(name, rules, profile)| ChainFunction { name, rules, profile: *profile })
        .collect();
    analyse_chain("web", &functions, is_symmetric).expect("small")
}

/// The second anomaly of the paper's Table I: alerts about what a firewall behind would drop.
#[test]
fn an_ids_before_a_firewall_looks_at_what_is_dropped() {
    let edge =
        ReadRules::Filter(vec![read("-A FORWARD -d 10.1.0.0/24 -p tcp -m tcp --dport 80 -j DROP")]);
    let ids = inspection(
        "alert tcp any any -> 10.1.0.0/16 80 (msg:\"a\"; content:\"x\"; sid:1;)\n\
         alert tcp any any -> any 443 (msg:\"b\"; content:\"x\"; sid:2;)\n",
    );
    let (drops, looks) = (
        Profile { drops: true, ..Profile::IDENTITY },
        Profile { has_effects: true, effects_are_sums: false, ..Profile::IDENTITY },
    );
    let found = of_chain(&[("ids", &ids, looks), ("edge", &edge, drops)]);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = &found[0];
    assert_eq!(
        (found.kind, found.site.to_string()),
        (FindingKind::InspectedThenDropped, "web.rules line 1".into())
    );
    assert_eq!(found.class.as_deref(), Some("tcp, ip.dst 10.1.0.0/24, l4.dport 80"));
    assert_eq!(
        found.others.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["edge.iptables line 5"]
    );
    assert!(found.what.contains("by 1 of its 2 rules"), "{}", found.what);
    assert_eq!(of_chain(&[("edge", &edge, drops), ("ids", &ids, looks)]), []);
    // What a balancer between them makes of addresses, this does not know.
    let rewrites =
        Profile { writes: FieldSet::EMPTY.with(Field::Destination), ..Profile::IDENTITY };
    let lb = ReadRules::Opaque;
    assert_eq!(
        of_chain(&[("ids", &ids, looks), ("lb", &lb, rewrites), ("edge", &edge, drops)]),
        []
    );
}

#[test]
fn a_firewall_behind_a_nat_that_names_inside_addresses_is_told() {
    let edge = ReadRules::Filter(vec![read(
        // The last one keeps packets inside that go there: destinations are as they were.
        "-A FORWARD -s 10.0.1.0/24 -p tcp -j DROP\n-A FORWARD -s 203.0.113.4/32 -p udp -j DROP\n\
         -A FORWARD -d 10.0.0.0/8 -j REJECT",
    )]);
    let nat = translation("{masquerade: [10.0.0.0/16], pool: [203.0.113.4]}");
    let writes = Profile { writes: FieldSet::EMPTY.with(Field::Source), ..Profile::IDENTITY };
    let reads = FieldSet::EMPTY.with(Field::Source);
    let drops = Profile { reads, drops: true, ..Profile::IDENTITY };
    let found = of_chain(&[("nat", &nat, writes), ("edge", &edge, drops)]);
    let told: Vec<(FindingKind, u32)> =
        found.iter().map(|finding| (finding.kind, finding.site.line)).collect();
    assert_eq!(told, [(FindingKind::TranslatedBefore, 5)]);
    assert_eq!(of_chain(&[("edge", &edge, drops), ("nat", &nat, writes)]), []);
}

#[test]
fn drops_behind_functions_without_a_trace_could_be_made_before_them() {
    let edge = ReadRules::Filter(vec![read("-A FORWARD -p udp -j DROP")]);
    let plain = ReadRules::Opaque;
    let drops = Profile { drops: true, ..Profile::IDENTITY };
    let remembers = Profile { has_effects: true, effects_are_sums: false, ..Profile::IDENTITY };
    let counts = Profile { has_effects: true, ..Profile::IDENTITY };
    let found = of_chain(&[("work", &plain, Profile::IDENTITY), ("edge", &edge, drops)]);
    assert_eq!(
        found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
        [FindingKind::EarlyDrop]
    );
    assert_eq!(found[0].class.as_deref(), Some("udp"));
    assert_eq!(of_chain(&[("flows", &plain, remembers), ("edge", &edge, drops)]), []);
    // A marker counts, and may write what the firewall does not read.
    let marks = Profile { writes: FieldSet::EMPTY.with(Field::Dscp), ..counts };
    let reads = Profile { reads: FieldSet::EMPTY.with(Field::Dscp), ..drops };
    assert_eq!(of_chain(&[("marks", &plain, marks), ("edge", &edge, drops)]).len(), 1);
    assert_eq!(of_chain(&[("marks", &plain, marks), ("edge", &edge, reads)]), []);
    // A firewall that gets copies drops nothing.
    assert_eq!(of_chain(&[("work", &plain, counts), ("edge", &edge, counts)]), []);
}

/// On their way back packets meet functions from the last to the first, come in by the other side, and have left the
/// outside addresses of a nat behind.
#[test]
fn chains_are_looked_through_on_their_way_back() {
    let (drops, looks) = (
        Profile { drops: true, ..Profile::IDENTITY },
        Profile { has_effects: true, effects_are_sums: false, ..Profile::IDENTITY },
    );
    let told = |found: &[Finding]| -> Vec<(FindingKind, Option<Way>, u32)> {
        found.iter().map(|finding| (finding.kind, finding.way, finding.site.line)).collect()
    };
    let ids = inspection("alert tcp any any -> any any (content:\"x\"; sid:1;)\n");
    let edge = ReadRules::Filter(vec![read("-A FORWARD -p tcp -m tcp --sport 80 -j DROP")]);
    let chain = [("edge", &edge, drops), ("ids", &ids, looks)];
    assert_eq!(of_chain(&chain), []);
    let found = of_ways(&chain, true);
    assert_eq!(told(&found), [(FindingKind::InspectedThenDropped, Some(Way::Back), 1)]);
    assert!(found[0].what.starts_with("on the way back, ids looks for"), "{}", found[0].what);
    assert_eq!(found[0].class.as_deref(), Some("tcp, l4.sport 80"));

    // What comes in by one side is on one way.
    let options = ReadOptions {
        file: "edge.iptables".into(),
        interfaces: [("eth1".to_owned(), Side::In)].into(),
        ..ReadOptions::default()
    };
    let text = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -i eth1 -p tcp -j DROP\nCOMMIT\n";
    let edge = iptables::read(text, Families::V4, &options).expect("rules");
    let edge = ReadRules::Filter(vec![edge]);
    assert_eq!(of_ways(&[("edge", &edge, drops), ("ids", &ids, looks)], true), []);
    let found = of_ways(&[("ids", &ids, looks), ("edge", &edge, drops)], true);
    assert_eq!(told(&found), [(FindingKind::InspectedThenDropped, Some(Way::Forth), 1)]);
    assert_eq!(found[0].class.as_deref(), Some("tcp"));

    let edge = ReadRules::Filter(vec![read(
        "-A FORWARD -d 203.0.113.4/32 -p udp -j DROP\n-A FORWARD -d 10.0.0.0/8 -j DROP",
    )]);
    let nat = translation("{masquerade: [10.0.0.0/16], pool: [203.0.113.4]}");
    let ends = FieldSet::EMPTY.with(Field::Source).with(Field::Destination);
    let writes = Profile { writes: ends, ..Profile::IDENTITY };
    let chain = [("edge", &edge, Profile { reads: ends, ..drops }), ("nat", &nat, writes)];
    let found = of_ways(&chain, true);
    assert_eq!(told(&found), [(FindingKind::TranslatedBefore, Some(Way::Back), 5)]);
}

#[test]
fn pairs_of_rules_that_overlap_are_counted_once() {
    let edge = ReadRules::Filter(vec![read(
        "-A FORWARD -p tcp -m multiport --dports 80,443 -j DROP\n-A FORWARD -p udp -j DROP",
    )]);
    let web = inspection(
        "alert tcp any any -> any [80,443] (content:\"x\"; sid:1;)\n\
         alert udp any any <> any 53 (content:\"x\"; sid:2;)\n\
         alert tcp any any -> any 22 (content:\"x\"; sid:3;)\n",
    );
    // What an ids asks of contents may keep them apart.
    let [web, edge] = [web, edge].map(|rules| RuleRanges::of(&rules).unwrap());
    assert_eq!(web.overlaps(&edge), Some(OverlappingRules { pairs: 2, is_exact: false }));
    assert_eq!(edge.overlaps(&edge).map(|met| (met.pairs, met.is_exact)), Some((2, true)));
    assert!(RuleRanges::of(&ReadRules::Opaque).is_none());
}
