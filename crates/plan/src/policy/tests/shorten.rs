//! Rule sets that were shortened, read again and held against what they were.

use super::{all_packets, any_rule, passes};
use crate::policy::shorten::{Shortened, shorten};
use catena_rules::iptables;
use catena_rules::options::ReadOptions;
use catena_rules::rule_set::{Families, RuleSet};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn text(rules: &str) -> String {
    format!("*filter\n:FORWARD ACCEPT [0:0]\n:side - [0:0]\n:deep - [0:0]\n{rules}\nCOMMIT\n")
}

fn read(text: &str) -> RuleSet {
    iptables::read(text, Families::V4, &ReadOptions::default()).expect("rules")
}

/// Rules stand in the lines from 5 on.
fn shortened(rules: &[&str]) -> Shortened {
    let text = text(&rules.join("\n"));
    let shortened = shorten(&read(&text), &text).expect("small").expect("proved");
    assert!(shortened.is_read_as(&read(&shortened.text)), "{}", shortened.text);
    shortened
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What is left is read as what was proved, and does with every packet what the whole did.
    #[test]
    fn a_shortened_rule_set_does_the_same_with_every_packet(rules in prop::collection::vec(any_rule(), 1..14)) {
        let text = text(&rules.join("\n"));
        let set = read(&text);
        let shortened = shorten(&set, &text).expect("small").expect("proved");
        let left = read(&shortened.text);
        prop_assert!(shortened.is_read_as(&left), "{}", shortened.text);
        let gone = shortened.removed.len() + shortened.merged.len();
        prop_assert_eq!(left.rules() + gone, set.rules());
        for packet in all_packets() {
            let [before, after] =
                [&set, &left].map(|set| passes(set, packet, &BTreeSet::new(), &mut |_, _| {}));
            prop_assert_eq!(before, after, "{:?}: {}", packet, &shortened.text);
        }
    }
}

#[test]
fn what_nothing_would_miss_becomes_a_comment_and_neighbours_become_one() {
    let wide = "-A FORWARD -s 10.0.0.0/8 -p tcp -j DROP";
    let shadowed = "-A FORWARD -s 10.1.0.0/16 -p tcp -m tcp --dport 80 -j DROP";
    let (low, high) = (
        "-A FORWARD -p udp -m udp --dport 80:89 -j DROP",
        "-A FORWARD -p udp -m udp --dport 90 -j DROP",
    );
    let (left, right) =
        ("-A FORWARD -s 192.0.2.0/25 -j DROP", "-A FORWARD -s 192.0.2.128/25 -j DROP");
    let one = shortened(&[wide, shadowed, low, high, left, right]);
    assert_eq!(one.removed, BTreeSet::from([6]));
    assert_eq!(one.merged, [(7, 8), (9, 10)]);
    let lines: Vec<&str> = one.text.lines().skip(4).take(6).collect();
    let comments = [shadowed, high, right].map(|rule| format!("# {rule}"));
    let joined =
        ["-A FORWARD -p udp -m udp --dport 80:90 -j DROP", "-A FORWARD -s 192.0.2.0/24 -j DROP"];
    assert_eq!(lines, [wide, &comments[0], joined[0], &comments[1], joined[1], &comments[2]]);
}

#[test]
fn rules_whose_counts_are_read_stay_and_keep_their_packets() {
    let wide = "-A FORWARD -s 10.0.0.0/8 -p tcp -j DROP";
    let read = "-A FORWARD -s 10.1.0.0/16 -p tcp -m comment --comment \"monitored by noc\" -j DROP";
    let plain = "-A FORWARD -s 10.1.0.0/16 -p tcp -j DROP";
    let one = shortened(&[wide, read, plain]);
    assert_eq!((one.removed, one.monitored), (BTreeSet::from([7]), BTreeSet::from([6])));
    // What goes before it would count there instead.
    assert_eq!(shortened(&[plain, wide]).removed, BTreeSet::from([5]));
    let counted = "-A FORWARD -s 10.0.0.0/8 -p tcp -m comment --comment monitored -j DROP";
    assert!(shortened(&[plain, counted]).removed.is_empty());
    // It is a word of a comment, in whatever case, and no part of another one.
    for (comment, is_read) in [
        ("\"Monitored by NOC\"", true),
        ("'not-monitored'", true),
        ("\"un monitored\"", true),
        ("unmonitored", false),
        ("\"what monitoreds do\"", false),
    ] {
        let rule =
            format!("-A FORWARD -s 10.1.0.0/16 -p tcp -m comment --comment {comment} -j DROP");
        let one = shortened(&[wide, &rule]);
        assert_eq!(
            (one.removed.is_empty(), one.monitored.is_empty()),
            (is_read, !is_read),
            "{comment}"
        );
    }
}

#[test]
fn what_does_not_do_what_it_says_is_left_for_its_writer_to_see() {
    let drop = "-A FORWARD -p tcp -j DROP";
    let accept = "-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT";
    assert!(shortened(&[drop, accept]).removed.is_empty());
    // A rule that others are contradicted by is not missed only as long as these go with it.
    let web = "-A FORWARD -p tcp -m tcp --dport 80 -j ACCEPT";
    let contradicted = "-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j DROP";
    assert!(shortened(&[web, contradicted]).removed.is_empty());
}

#[test]
fn states_and_tokens_are_left_as_they_are() {
    let known = "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT";
    let fresh = "-A FORWARD -p tcp -m conntrack --ctstate NEW -m tcp --dport 443 -j ACCEPT";
    let twice = "-A FORWARD -p tcp -m conntrack --ctstate ESTABLISHED -m tcp --dport 443 -j ACCEPT";
    let some = "-A FORWARD -p icmp -m limit --limit 5/s -j ACCEPT";
    let rest = "-A FORWARD -j DROP";
    assert_eq!(shortened(&[known, twice, fresh, some, some, rest]).removed, BTreeSet::from([6]));
}
