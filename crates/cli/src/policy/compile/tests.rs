//! Flows of rule sets in a real Open vSwitch, whose verdicts are those of the firewall that runs the same rules.

#![allow(clippy::unwrap_used)]

mod frames;
mod rule_texts;
mod switch;

use super::*;
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Packet, Time};
use catena_wire::frame::{Fragment, Network};
use frames::frames;
use rule_texts::{INET, V4, V6, drawn};
use std::collections::BTreeMap;
use switch::{End, PORTS, Switch};

/// Headers of each rule set.
const HEADERS: usize = 1_200;
/// Rule sets that are drawn, of each version.
const DRAWN: u64 = 12;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: CompileArguments,
}

fn arguments(words: &[&str]) -> CompileArguments {
    let words = std::iter::once("compile").chain(words.iter().copied());
    <Line as clap::Parser>::parse_from(words).arguments
}

/// What an option says of the interfaces in the rules here, and of the ports that they are.
const SIDES: [&str; 8] =
    ["--interface", "eth0=in", "--interface", "eth1=out", "--in", PORTS[0], "--out", PORTS[1]];

/// What became of packets.
#[derive(Default)]
struct Counts {
    passed: usize,
    dropped: usize,
    unsaid: usize,
}

/// Asks the switch and the firewall about the same frames.
fn compare(switch: &mut Switch, words: &[&str], is_v6: Option<bool>, name: &str) -> Counts {
    let arguments = arguments(&[words, &SIDES].concat());
    let compiled = arguments.compiled().map_err(|failure| failure.message).unwrap();
    switch.load(&compiled.text());
    let sets: Vec<RuleSet> = arguments
        .rules
        .iter()
        .map(|file| {
            let name = file.display().to_string();
            arguments.reading.rule_set(&name, &reading::text(file).unwrap()).ok().unwrap()
        })
        .collect();
    let mut firewall = Firewall::new(&sets).unwrap();
    let seed = name.bytes().fold(0, |seed, byte| seed * 31 % 65_521 + u64::from(byte));
    let mut counts = Counts::default();
    let mut outcomes = Outcomes::default();
    for (frame, direction) in frames(seed, HEADERS, is_v6) {
        let packet = Packet::read(&frame).unwrap();
        firewall.process(Time::default(), direction, &[packet], &mut outcomes);
        let has_passed = outcomes.verdicts() == [Verdict::Pass];
        let end = switch.trace(direction == Direction::Backward, &frame);
        let view = &packet.view;
        match end {
            End::Unsaid => {
                let is_later = view.network == Network::Ipv6 && view.fragment == Fragment::Later;
                let is_twice_tagged = view.l3_offset == 22;
                let is_said = !compiled.unsaid.is_empty() && is_later || is_twice_tagged;
                assert!(is_said, "{name}: {view:?}");
                counts.unsaid += 1;
                continue;
            }
            End::Passed | End::Dropped => {
                let told = switch.last();
                assert_eq!(
                    end == End::Passed,
                    has_passed,
                    "{name}: {direction:?} {view:?}\n{told}"
                );
            }
        }
        *(if has_passed { &mut counts.passed } else { &mut counts.dropped }) += 1;
    }
    counts
}

/// More than a thousand headers of each rule set: whole packets, fragments, extension headers, tags, and what is no IP.
#[test]
fn a_real_switch_comes_to_the_same_verdicts() {
    let Some(mut switch) = Switch::start("a_real_switch_comes_to_the_same_verdicts") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (v4, v6, inet) =
        (file("edge.iptables", V4), file("edge6.iptables", V6), file("inet.json", INET));
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for (name, is_v6, words) in [
        ("IPv4 by hand", Some(false), vec![v4.as_str()]),
        ("IPv6 by hand", Some(true), vec!["-6", &v6]),
        ("both by hand, of nftables", None, vec![inet.as_str()]),
        ("one behind the other", None, vec![v4.as_str(), &inet]),
    ] {
        all.insert(name.to_owned(), compare(&mut switch, &words, is_v6, name));
    }
    for seed in 0..DRAWN {
        for is_v6 in [false, true] {
            let text = file("drawn.iptables", &drawn(seed, is_v6));
            let words = if is_v6 { vec!["-6", text.as_str()] } else { vec![text.as_str()] };
            let name = format!("drawn {seed}, IPv{}", if is_v6 { 6 } else { 4 });
            all.insert(name.clone(), compare(&mut switch, &words, Some(is_v6), &name));
        }
    }
    for (name, Counts { passed, dropped, unsaid }) in &all {
        println!("{name}: {passed} passed, {dropped} dropped, {unsaid} not said");
        assert!(passed + dropped >= 1_000, "{name}");
    }
    let both = all.iter().filter(|(_, counts)| counts.passed.min(counts.dropped) > 100);
    assert!(both.count() > all.len() / 2);
    for name in
        ["IPv4 by hand", "IPv6 by hand", "both by hand, of nftables", "one behind the other"]
    {
        assert!(all[name].passed > 100 && all[name].dropped > 100, "{name}");
    }
    assert!(all["IPv6 by hand"].unsaid > 0);
}

const EDGE: &str =
    "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n";

#[test]
fn a_documents_firewall_is_compiled_as_its_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let edge = file("edge.iptables", EDGE);
    let kept = EDGE.replace("-j DROP", "-m conntrack --ctstate NEW -j DROP");
    file("kept.iptables", &kept);
    let document = file(
        "web.yaml",
        "
functions:
  - {name: edge, template: {runs: {bundled: firewall}, config: {file: edge.iptables}, on: [host2]}}
  - {name: kept, template: {runs: {bundled: firewall}, config: {file: kept.iptables}, on: [host2]}}
  - {name: flows, template: {runs: {bundled: monitor}, on: [host2]}}
chains:
  - {name: web, source: a, destination: b, through: [edge, kept, flows]}
",
    );
    let flows = |words: &[&str]| {
        let compiled = arguments(words).compiled().map_err(|failure| failure.message)?;
        let text = compiled.text();
        let flows = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        Ok::<Vec<String>, String>(flows.collect())
    };
    let of_file = flows(&["-o", "openflow13", &edge]).unwrap();
    assert!(
        of_file.contains(&"table=1,priority=1,tcp,ip_frag=not_later,tp_dst=23,actions=drop".into())
    );
    assert_eq!(of_file.last().unwrap(), "table=252,priority=0,actions=NORMAL");
    assert_eq!(flows(&["-f", &document, "--function", "edge"]).unwrap(), of_file);
    let refused = |words: &[&str]| flows(words).unwrap_err();
    assert!(refused(&["-f", &document]).contains("several firewalls: edge, kept; say which one"));
    assert!(refused(&["-f", &document, "--function", "flows"]).contains("no firewall 'flows'"));
    let told = refused(&["-f", &document, "--function", "kept"]);
    assert!(told.contains("kept.iptables line 3: it asks for the state of a connection"), "{told}");
    assert!(refused(&["--in", "1", "--out", "1", &edge]).contains("cannot be both sides"));
    assert!(refused(&["absent.iptables"]).contains("cannot be read"));
}
