//! The firewall beside the kernel: what comes out of each, and what each rule has counted.

use crate::router::Router;
use crate::rule_sets;
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::function::RuleCount;
use catena_nf::harness::traffic::{self, Random};
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::tracking;
use catena_rules::rule_set::{Families, RuleSet};
use catena_rules::{ReadOptions, Side, iptables, nft};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::scalar::MacAddr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

/// Rule sets by chance; half of them of each version of IP.
const SETS: u64 = 200;
/// The same of nftables.
const SETS_OF_NFT: u64 = 100;
/// Packets for each of them.
const PACKETS: usize = 110;

/// Which tables of the kernel judge.
#[derive(Clone, Copy)]
struct Judge {
    is_v6: bool,
    /// Those of iptables itself, in place of nftables by its words. Of a later fragment nftables reads the
    /// first bytes as if they were ports (kernel 6.18); iptables knows of none there, nor do we.
    is_legacy: bool,
}

impl Judge {
    /// The name of its program that does this.
    fn program(self, does: &str) -> String {
        let version = if self.is_v6 { "ip6tables" } else { "iptables" };
        let tables = if self.is_legacy { "legacy" } else { "nft" };
        format!("{version}-{tables}-{does}")
    }
}

fn options() -> ReadOptions {
    ReadOptions {
        file: "judged".into(),
        interfaces: [("one.in".to_owned(), Side::In), ("two.in".to_owned(), Side::Out)].into(),
        ..ReadOptions::default()
    }
}

/// Packets that a router forwards, told from one another by their number.
fn packets_of(seed: u64, judge: Judge, (first, count): (u16, usize)) -> Vec<(Direction, Vec<u8>)> {
    let drawn = traffic::shapes(seed, count * 5);
    let is_asked = |shape: &traffic::Shape| {
        shape.ends.0.is_ipv6() == judge.is_v6 && (judge.is_legacy || !shape.is_later_fragment)
    };
    let of_version = drawn.into_iter().filter(|(shape, _)| is_asked(shape));
    let numbered = (first..).zip(of_version).take(count).map(|(number, (mut shape, direction))| {
        shape.identification = number;
        // A router decrements it before its rules are asked, and ends what has none left.
        shape.ttl = shape.ttl.max(2);
        shape.vlan = None;
        shape.macs = Router::macs(direction);
        (direction, shape.frame().expect("a frame"))
    });
    numbered.collect()
}

/// A frame as the kernel's rules see it: a router has decremented its TTL before.
fn decremented(frame: &[u8]) -> Vec<u8> {
    let (mut seen, view) = (frame.to_vec(), FrameView::parse(frame).expect("a packet"));
    let ttl = Field::Ttl.read(frame, &view).expect("it has one") - 1;
    let written = Field::Ttl.write(&mut seen, &view, (ttl, u128::MAX), UpperChecksum::Closed);
    assert_eq!(written, Ok(true));
    seen
}

/// Does the router say it of its own accord: an error, from its own address, or a reset, which has no number?
fn is_routers(frame: &[u8]) -> bool {
    let flow = FrameView::parse(frame).ok().and_then(|view| view.flow);
    let is_own = |source: IpAddr| match source {
        IpAddr::V4(v4) => v4.octets()[..3] == [192, 0, 2],
        IpAddr::V6(v6) => v6.segments()[2] == 0xffff,
    };
    flow.is_none_or(|flow| is_own(flow.source)) || number(frame) == Some(0)
}

/// The number of a packet.
fn number(frame: &[u8]) -> Option<u128> {
    let view = FrameView::parse(frame).ok()?;
    let field = if view.flow?.source.is_ipv6() { Field::FlowLabel } else { Field::Identification };
    field.read(frame, &view)
}

/// What the rules of `iptables-save -c` have counted, in the order of the chains and their rules.
fn counted(saved: &str, set: &RuleSet) -> Vec<RuleCount> {
    let of_chain = |name: &str| {
        let start = format!("-A {name} ");
        let lines = saved.lines().filter_map(|line| line.split_once("] "));
        let own = lines.filter(|(_, rule)| rule.starts_with(&start) || *rule == start.trim_end());
        let number = |digits: &str| digits.parse().expect("a number");
        let count = |(count, _): (&str, &str)| {
            let (packets, bytes) = count.trim_start_matches('[').split_once(':').expect("a count");
            RuleCount { packets: number(packets), bytes: number(bytes) }
        };
        own.map(count).collect::<Vec<_>>()
    };
    set.chains.iter().flat_map(|chain| of_chain(&chain.name)).collect()
}

/// The same as `nft -j list ruleset` tells it; a rule without a counter has counted nothing.
fn counted_by_nft(listed: &str, set: &RuleSet) -> Vec<RuleCount> {
    let listed: serde_json::Value = serde_json::from_str(listed).expect("JSON");
    let rules =
        listed["nftables"].as_array().expect("a list").iter().filter_map(|one| one.get("rule"));
    let rules: Vec<_> = rules.collect();
    let of_chain = |name: &str| {
        let own = rules.iter().filter(|rule| {
            let words = ["family", "table", "chain"].map(|key| rule[key].as_str().expect("a word"));
            // The family is said where tables of two have one name.
            name == words.join(" ") || name == words[1..].join(" ")
        });
        let count = |rule: &&serde_json::Value| {
            let expressions = rule["expr"].as_array().expect("expressions");
            let Some(counter) = expressions.iter().find_map(|one| one.get("counter")) else {
                return RuleCount::default();
            };
            let number = |key: &str| counter[key].as_u64().expect("a number");
            RuleCount { packets: number("packets"), bytes: number("bytes") }
        };
        own.map(count).collect::<Vec<_>>()
    };
    set.chains.iter().flat_map(|chain| of_chain(&chain.name)).collect()
}

/// Sends packets through the kernel and through the firewall of the same rules: of both the same must come
/// out. Answers the firewall and how many packets passed.
fn pass(
    router: &Router,
    (set, text): (&RuleSet, &str),
    tracking: &tracking::TrackingConfig,
    packets: &[(Direction, Vec<u8>)],
) -> (Firewall, usize) {
    let sets = std::slice::from_ref(set);
    let mut firewall = Firewall::with_tracking(sets, tracking).expect("a firewall");
    let began = Instant::now();
    let mut outcomes = Outcomes::default();
    let mut passed = BTreeSet::new();
    let mut came = Vec::new();
    for (direction, frame) in packets {
        router.send(*direction, frame);
        // A socket holds few frames.
        router.take(&mut came);
        let seen = decremented(frame);
        let packet = Packet::read(&seen).expect("a packet");
        let now = Time(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        firewall.process(now, *direction, &[packet], &mut outcomes);
        if outcomes.verdicts() == [Verdict::Pass] {
            passed.insert((*direction, number(frame).expect("a number")));
        }
    }
    router.collect(&mut came, passed.len());
    let came = came.into_iter().filter(|(_, frame)| !is_routers(frame));
    let came: BTreeSet<_> =
        came.filter_map(|(direction, frame)| Some((direction, number(&frame)?))).collect();
    let only_kernel: Vec<_> = came.difference(&passed).collect();
    let only_ours: Vec<_> = passed.difference(&came).collect();
    assert!(
        only_kernel.is_empty() && only_ours.is_empty(),
        "{only_kernel:?} {only_ours:?}\n{text}"
    );
    (firewall, passed.len())
}

/// Every rule has counted what the kernel's has.
fn same_counts(firewall: &Firewall, kernel: &[RuleCount], (set, text): (&RuleSet, &str)) {
    let words =
        |at: usize| firewall.rule_in_words(u32::try_from(at).unwrap_or(0)).unwrap_or_default();
    let mut counts = Vec::new();
    firewall.report(&mut counts);
    assert_eq!(kernel.len(), set.rules(), "{text}");
    for (at, (kernel, ours)) in kernel.iter().zip(&counts).enumerate() {
        assert_eq!(ours, kernel, "{} of\n{text}", words(at));
    }
}

/// Holds the firewall of a rule set against the kernel's, and answers how many packets passed.
fn judge(
    router: &Router,
    text: &str,
    (judge, tracking): (Judge, &tracking::TrackingConfig),
    packets: &[(Direction, Vec<u8>)],
) -> usize {
    router.run(&judge.program("restore"), &[], text);
    let families = if judge.is_v6 { Families::V6 } else { Families::V4 };
    let set = iptables::read(text, families, &options())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let (firewall, passed) = pass(router, (&set, text), tracking, packets);
    let saved = router.run(&judge.program("save"), &["-c"], "");
    router.run(&judge.program("restore"), &[], "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n");
    same_counts(&firewall, &counted(&saved, &set), (&set, text));
    passed
}

/// Holds the firewall of nftables' rules against the kernel's, and answers how many packets passed.
fn judge_nft(router: &Router, text: &str, packets: &[(Direction, Vec<u8>)]) -> usize {
    router.run("nft", &["-f", "-"], text);
    let listed = router.run("nft", &["-j", "list", "ruleset"], "");
    let set = nft::read(&listed, &options()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let tracking = tracking::TrackingConfig::default();
    let (firewall, passed) = pass(router, (&set, text), &tracking, packets);
    let listed = router.run("nft", &["-j", "list", "ruleset"], "");
    same_counts(&firewall, &counted_by_nft(&listed, &set), (&set, text));
    passed
}

/// Packets of both versions of IP that are whole.
fn of_both_versions(seed: u64) -> Vec<(Direction, Vec<u8>)> {
    let by = |is_v6| Judge { is_v6, is_legacy: false };
    let mut packets = packets_of(seed, by(false), (1, PACKETS / 2));
    packets.extend(packets_of(seed, by(true), (1_000, PACKETS / 2)));
    packets
}

#[test]
fn each_packet_and_each_counter_of_nftables_is_the_kernels() {
    let router = Router::new("judge-nft");
    let mut random = Random::new(1_926);
    let (mut sent, mut passed) = (0, 0);
    for set in 0..SETS_OF_NFT {
        let packets = of_both_versions(set);
        sent += packets.len();
        passed += judge_nft(&router, &rule_sets::nft(&mut random), &packets);
    }
    println!("{SETS_OF_NFT} rule sets, {sent} packets, {passed} of them passed");
    assert!(passed > sent / 10 && passed < sent * 9 / 10, "{sent} {passed}");
}

#[test]
fn each_packet_and_each_counter_is_the_kernels() {
    let router = Router::new("judge");
    let mut random = Random::new(2_026);
    let (mut sent, mut passed) = (0, 0);
    for set in 0..SETS {
        let by = Judge { is_v6: set % 2 == 1, is_legacy: set % 4 < 2 };
        let text = rule_sets::iptables(&mut random, by.is_v6, false);
        let packets = packets_of(set, by, (1, PACKETS));
        sent += packets.len();
        passed += judge(&router, &text, (by, &tracking::TrackingConfig::default()), &packets);
    }
    println!("{SETS} rule sets, {sent} packets, {passed} of them passed");
    assert!(sent >= 20_000 && passed > sent / 10 && passed < sent * 9 / 10, "{sent} {passed}");
}

/// Rule sets that ask for the states of connections, half of them of each version of IP.
const SETS_WITH_STATES: u64 = 160;
/// Packets for each of them.
const PACKETS_WITH_STATES: usize = 250;

/// Packets of hosts that talk, and of strangers, as a router forwards them.
fn talk(seed: u64, is_v6: bool) -> Vec<(Direction, Vec<u8>)> {
    let drawn = traffic::draw(seed, PACKETS_WITH_STATES * 6)
        .into_iter()
        .map(|input| (input.frame, input.direction));
    let mut number = 0;
    let talk = drawn.filter_map(|(mut frame, direction)| {
        let view = FrameView::parse(&frame).expect("a packet");
        let is_asked = view.flow.is_some_and(|flow| flow.source.is_ipv6() == is_v6);
        // The kernel keeps fragments until they are whole.
        if !is_asked || view.vlan.is_some() || view.fragment != Fragment::Whole {
            return None;
        }
        number += 1;
        let (to, from) = Router::macs(direction);
        let of = |mac: MacAddr| mac.0.iter().fold(0, |all, octet| all << 8 | u128::from(*octet));
        let ttl = Field::Ttl.read(&frame, &view).expect("it has one").max(2);
        let field = if is_v6 { Field::FlowLabel } else { Field::Identification };
        let values = [
            (Field::EthernetDestination, of(to)),
            (Field::EthernetSource, of(from)),
            (Field::Ttl, ttl),
            (field, number),
        ];
        for (field, value) in values {
            let written = field.write(&mut frame, &view, (value, u128::MAX), UpperChecksum::Closed);
            assert!(written.is_ok(), "{field:?}");
        }
        Some((direction, frame))
    });
    talk.take(PACKETS_WITH_STATES).collect()
}

#[test]
fn each_state_of_a_connection_is_the_kernels() {
    let router = Router::new("judge-states");
    let mut random = Random::new(1_981);
    let (mut sent, mut passed) = (0, 0);
    for set in 0..SETS_WITH_STATES {
        let by = Judge { is_v6: set % 2 == 1, is_legacy: set % 4 < 2 };
        let tracking = tracking::TrackingConfig {
            is_liberal: set % 8 < 4,
            ..tracking::TrackingConfig::default()
        };
        let liberal = if tracking.is_liberal { "1" } else { "0" };
        router.set("net/netfilter/nf_conntrack_tcp_be_liberal", liberal);
        router.run("conntrack", &["-F"], "");
        let text = rule_sets::iptables(&mut random, by.is_v6, true);
        let packets = talk(set, by.is_v6);
        sent += packets.len();
        passed += judge(&router, &text, (by, &tracking), &packets);
    }
    println!("{SETS_WITH_STATES} rule sets, {sent} packets, {passed} of them passed");
    assert!(passed > sent / 10 && passed < sent * 9 / 10, "{sent} {passed}");
}

/// A rule set as people write them, out of `conformance/nf/firewall`.
macro_rules! written {
    ($name:literal) => {
        include_str!(concat!("../../../../conformance/nf/firewall/", $name))
    };
}

#[test]
fn written_rule_sets_do_what_the_kernel_does() {
    let router = Router::new("judge-written");
    let strict = tracking::TrackingConfig::default();
    let v4 = |is_legacy| Judge { is_v6: false, is_legacy };
    let v6 = Judge { is_v6: true, is_legacy: true };
    router.set("net/netfilter/nf_conntrack_tcp_be_liberal", "0");
    for seed in 300..304 {
        let fresh = || router.run("conntrack", &["-F"], "");
        for is_legacy in [true, false] {
            let packets = packets_of(seed, v4(is_legacy), (1, PACKETS));
            judge(&router, written!("policy.iptables"), (v4(is_legacy), &strict), &packets);
            judge(&router, written!("allow-list.iptables"), (v4(is_legacy), &strict), &packets);
            fresh();
            judge(&router, written!("edge.iptables"), (v4(is_legacy), &strict), &talk(seed, false));
        }
        fresh();
        judge(&router, written!("inside.ip6tables"), (v6, &strict), &talk(seed, true));
        judge_nft(&router, written!("lists.nft"), &of_both_versions(seed));
        fresh();
        judge_nft(&router, written!("office.nft"), &talk(seed, false));
        fresh();
        judge_nft(&router, written!("office.nft"), &talk(seed, true));
        router.run("nft", &["flush", "ruleset"], "");
    }
}
