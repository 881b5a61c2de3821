//! Firewalls of written rule sets: verdicts, counters, answers, and profiles that the harness believes.

use super::*;
use crate::harness::traffic::{self, Shape};
use crate::harness::verify;
use crate::outcome::GeneratedKind;
use catena_model::profile::StateScope;
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, Side, iptables};
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::TcpFlags;

fn read(text: &str, families: Families) -> RuleSet {
    let options = ReadOptions {
        file: "edge.iptables".into(),
        interfaces: [("eth0".to_owned(), Side::In), ("eth1".to_owned(), Side::Out)].into(),
        ..ReadOptions::default()
    };
    iptables::read(text, families, &options).unwrap()
}

fn firewall(forward: &str) -> Firewall {
    let set = |families| read(&format!("*filter\n{forward}COMMIT\n"), families);
    Firewall::new(&[set(Families::V4)]).unwrap()
}

fn shape() -> Shape {
    Shape {
        ends: ("10.0.0.1".parse().unwrap(), "10.0.1.2".parse().unwrap()),
        protocol: IpProtocol::TCP,
        ports: (40_000, 80),
        flags: TcpFlags::SYN,
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        payload: vec![7; 20],
        vlan: None,
        is_later_fragment: false,
        macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
    }
}

fn decide(firewall: &mut Firewall, direction: Direction, shape: &Shape) -> (Verdict, Outcomes) {
    let frame = shape.frame().unwrap();
    let packet = Packet::read(&frame).unwrap();
    let mut outcomes = Outcomes::default();
    firewall.process(Time::default(), direction, &[packet], &mut outcomes);
    (outcomes.verdicts()[0], outcomes)
}

/// A policy between groups is run as it is analysed: priorities decide, and both versions of IP meet it.
#[test]
fn a_policy_between_groups_decides_by_its_priorities() {
    let text = "groups: {Tenant1: [10.0.0.0/24], Tenant2: [10.0.1.0/24, 'fd00::/8']}\nrules:\n\
                - {match: {source: Tenant1, destination: Tenant2}, action: accept}\n\
                - {priority: 5, match: {protocol: tcp, destination_port: 23}, action: drop}\n\
                - {match: {protocol: tcp, destination: Tenant2}, action: drop}\n";
    let options = ReadOptions { file: "tenants.yaml".into(), ..ReadOptions::default() };
    let set = catena_rules::read(text, Families::V4, &options).unwrap();
    let mut firewall = Firewall::new(&[set]).unwrap();
    let mut verdict = |shape: &Shape| decide(&mut firewall, Direction::Forward, shape).0;
    let web = shape();
    assert_eq!(verdict(&web), Verdict::Pass);
    let telnet = Shape { ports: (40_000, 23), ..web.clone() };
    assert_eq!(verdict(&telnet), Verdict::Drop(DropCause::Rule(0)));
    let ends = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    assert_eq!(verdict(&Shape { ends, ..web.clone() }), Verdict::Drop(DropCause::Rule(3)));
    let ends = ("10.0.9.1".parse().unwrap(), "10.0.9.2".parse().unwrap());
    assert_eq!(verdict(&Shape { ends, ..web }), Verdict::Pass);
    assert!(firewall.rule_in_words(0).unwrap().contains("tenants.yaml line 4, {priority: 5"));
}

/// Rules with their counts, in words.
fn counts(firewall: &Firewall) -> Vec<(String, u64)> {
    let mut counts = Vec::new();
    firewall.report(&mut counts);
    let words = (0..).map(|rule| firewall.rule_in_words(rule));
    words
        .map_while(|words| words)
        .zip(counts)
        .map(|(words, count)| (words, count.packets))
        .collect()
}

const CHAINS: &str = ":FORWARD DROP [0:0]\n:web - [0:0]\n:log - [0:0]\n\
    -A FORWARD -s 10.0.0.0/24 -p tcp -m tcp --dport 80 -j web\n\
    -A FORWARD -j log\n\
    -A FORWARD -i eth1 -p tcp -m tcp --sport 80 -j ACCEPT\n\
    -A web -p tcp -m tcp --tcp-flags SYN SYN -j ACCEPT\n\
    -A web -m ttl --ttl-lt 5 -j RETURN\n\
    -A web -g log\n\
    -A log -j LOG --log-prefix \"seen \"\n\
    -A log -p udp -j REJECT\n\
    -A log -p tcp -m tcp --dport 23 -j REJECT --reject-with tcp-reset\n";

#[test]
fn chains_lead_into_one_another_as_the_kernel_has_them() {
    let mut firewall = firewall(CHAINS);
    let lines = |firewall: &Firewall| -> Vec<u64> {
        counts(firewall).into_iter().map(|(_, packets)| packets).collect()
    };
    let tcp = shape();
    assert_eq!(decide(&mut firewall, Direction::Forward, &tcp).0, Verdict::Pass);
    assert_eq!(lines(&firewall), [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    // Neither SYN nor a short life: gone to `log`, whose end is that of `web`: back to FORWARD.
    let ack = Shape { flags: TcpFlags::ACK, ..tcp.clone() };
    let (verdict, outcomes) = decide(&mut firewall, Direction::Forward, &ack);
    assert_eq!(verdict, Verdict::Drop(DropCause::Rule(9)), "the policy");
    assert_eq!(outcomes.events().len(), 2, "from web and from FORWARD");
    assert_eq!(lines(&firewall), [2, 1, 0, 1, 0, 1, 2, 0, 0, 0]);
    assert!(firewall.rule_in_words(9).unwrap().contains("policy DROP of FORWARD"));
    // Back through the second side.
    let back = Shape { ports: (80, 40_000), ..ack.clone() };
    assert_eq!(decide(&mut firewall, Direction::Backward, &back).0, Verdict::Pass);
    assert!(decide(&mut firewall, Direction::Forward, &back).0 != Verdict::Pass);
    // A version that no rule speaks of.
    let v6 =
        Shape { ends: ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()), ..tcp };
    let before = lines(&firewall);
    assert_eq!(decide(&mut firewall, Direction::Forward, &v6).0, Verdict::Pass);
    assert_eq!(lines(&firewall), before);
}

#[test]
fn the_sender_of_a_rejected_packet_is_told() {
    let mut firewall = firewall(CHAINS);
    let telnet = Shape { ports: (40_000, 23), ..shape() };
    let udp = Shape { protocol: IpProtocol::UDP, ..shape() };
    for (shape, kind, protocol) in [
        (telnet, GeneratedKind::TcpReset, IpProtocol::TCP),
        (udp, GeneratedKind::Unreachable, IpProtocol::ICMP),
    ] {
        let (verdict, outcomes) = decide(&mut firewall, Direction::Forward, &shape);
        assert!(matches!(verdict, Verdict::Drop(DropCause::Rule(_))));
        let [(0, made)] = outcomes.generated() else { panic!("{:?}", outcomes.generated()) };
        assert_eq!((made.kind, made.direction), (kind, Direction::Backward));
        let view = FrameView::parse(outcomes.bytes(made.frame.clone())).unwrap();
        assert_eq!(view.protocol, Some(protocol));
        let flow = view.flow.unwrap();
        assert_eq!((flow.source, flow.destination), (shape.ends.1, shape.ends.0));
        assert_eq!((view.source, view.destination), (shape.macs.0, shape.macs.1));
    }
}

#[test]
fn a_dropped_packet_names_the_rule_in_its_users_words() {
    let firewall = firewall(":FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --dport 23 -j DROP\n");
    let frame = Shape { ports: (9, 23), ..shape() }.frame().unwrap();
    let packet = Packet::read(&frame).unwrap();
    let answer = firewall.ask(Time::default(), Direction::Forward, &packet);
    let Verdict::Drop(DropCause::Rule(rule)) = answer.verdict else { panic!("{answer:?}") };
    assert_eq!(
        firewall.rule_in_words(rule).unwrap(),
        "edge.iptables line 3, -p tcp -m tcp --dport 23 -j DROP"
    );
    assert_eq!(counts(&firewall)[0].1, 0, "asking counts nothing");
}

#[test]
fn a_super_frame_counts_as_the_packets_that_it_becomes() {
    let mut firewall = firewall(":FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -j ACCEPT\n");
    assert!(firewall.profile().takes_super_frames);
    let frame = shape().frame().unwrap();
    let packet = Packet { wire_packets: 40, wire_bytes: 60_000, ..Packet::read(&frame).unwrap() };
    firewall.process(Time::default(), Direction::Forward, &[packet], &mut Outcomes::default());
    let mut counts = Vec::new();
    firewall.report(&mut counts);
    assert_eq!(counts[0], RuleCount { packets: 40, bytes: 60_000 });
}

const LIMITED: &str = ":FORWARD ACCEPT [0:0]\n\
    -A FORWARD -p udp -m limit --limit 1000/second --limit-burst 20 -j ACCEPT\n\
    -A FORWARD -p udp -j DROP\n";
const SIMPLE: &str = ":FORWARD DROP [0:0]\n:other - [0:0]\n\
    -A FORWARD -s 10.0.0.0/23 -p tcp -m multiport --ports 80,443,22 -j ACCEPT\n\
    -A FORWARD -p icmp -m icmp --icmp-type 8 -j ACCEPT\n\
    -A FORWARD -m dscp --dscp 46 -j other\n\
    -A FORWARD -p tcp -m tcp --tcp-option 2 -j LOG\n\
    -A FORWARD -f -j ACCEPT\n\
    -A other ! -d 10.0.1.0/24 -j ACCEPT\n";

const STATEFUL: &str = ":FORWARD DROP [0:0]\n\
    -A FORWARD -m conntrack --ctstate INVALID -j LOG\n\
    -A FORWARD -m conntrack --ctstate INVALID -j DROP\n\
    -A FORWARD -m conntrack --ctstate RELATED -j ACCEPT\n\
    -A FORWARD -p tcp -m tcp --dport 443 --tcp-flags PSH PSH -j REJECT --reject-with tcp-reset\n\
    -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
    -A FORWARD -i eth0 -m conntrack --ctstate NEW -j ACCEPT\n";
/// Without rejections, whose answers quote all of a packet.
const STATES: &str = ":FORWARD DROP [0:0]\n:known - [0:0]\n\
    -A FORWARD -m conntrack ! --ctstate INVALID,NEW -j known\n\
    -A FORWARD -p udp -m conntrack --ctstate NEW -j ACCEPT\n\
    -A FORWARD -p icmp -m conntrack --ctstate NEW -j ACCEPT\n\
    -A FORWARD -i eth0 -m conntrack --ctstate NEW -j ACCEPT\n\
    -A known -p tcp -m tcp --tcp-flags RST RST -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
    -A known -j ACCEPT\n";

/// A firewall with states of connections.
fn stateful(forward: &str, all: &[Families]) -> Firewall {
    let set = |families: &Families| read(&format!("*filter\n{forward}COMMIT\n"), *families);
    let config =
        tracking::TrackingConfig { connections_max: 4_096, ..tracking::TrackingConfig::default() };
    let sets: Vec<RuleSet> = all.iter().map(set).collect();
    Firewall::with_tracking(&sets, &config).unwrap()
}

#[test]
fn the_profile_of_a_firewall_with_states_is_true() {
    let inputs = traffic::draw(22, 12_000);
    let cases = [
        (STATEFUL, &[Families::V4][..]),
        (STATES, &[Families::V4]),
        (STATES, &[Families::V6]),
        (":FORWARD ACCEPT [0:0]\n-A FORWARD -m state --state NEW -j DROP\n", &[Families::V4]),
    ];
    for (forward, families) in cases {
        let proof = verify(|| stateful(forward, families), &inputs, 9)
            .unwrap_or_else(|fault| panic!("{forward}{fault}"));
        assert!(proof.dropped > 500 && proof.dropped < 11_000, "{proof:?}");
        let profile = *stateful(forward, families).profile();
        assert_eq!((profile.state, profile.is_ordered), (StateScope::Flow, false));
        assert!(profile.needs_both_directions && profile.drops && !profile.effects_are_sums);
    }
    let reads = stateful(STATES, &[Families::V4]).profile().reads.in_words().join(" ");
    assert!(reads.contains("l4.seq") && reads.contains("meta.ct_state"), "{reads}");
    assert!(!reads.contains("ip.ttl") && !reads.contains("ip.dscp"), "{reads}");
    // Each rule has met packets of its state.
    let mut firewall = stateful(STATEFUL, &[Families::V4]);
    let mut outcomes = Outcomes::default();
    for input in &inputs {
        let packet = Packet::read(&input.frame).unwrap();
        firewall.process(input.at, input.direction, &[packet], &mut outcomes);
    }
    let met: Vec<u64> = counts(&firewall).into_iter().map(|(_, packets)| packets).collect();
    assert!(met[..6].iter().all(|packets| *packets > 50), "{met:?}");
}

#[test]
fn only_who_asks_for_states_tracks_connections() {
    assert!(firewall(SIMPLE).tracking.is_none());
    let mut firewall = stateful(STATES, &[Families::V4]);
    assert!(firewall.tracking.is_some());
    let ends = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    decide(&mut firewall, Direction::Forward, &Shape { ends, ..shape() });
    let mut entries = Vec::new();
    firewall.export(false, &mut entries);
    assert!(entries.is_empty(), "no rule asks for connections of IPv6");
    decide(&mut firewall, Direction::Forward, &shape());
    firewall.export(false, &mut entries);
    assert_eq!(entries.len(), 2, "a rule and a connection");
    let mut other = stateful(STATES, &[Families::V4]);
    assert_eq!(other.import(&entries), 2);
    let syn_ack = TcpFlags::SYN.with(TcpFlags::ACK);
    let (ends, ports) = ((shape().ends.1, shape().ends.0), (80, 40_000));
    let answer = Shape { ends, ports, flags: syn_ack, ..shape() };
    // It acknowledges too little, which is late, and not of another connection.
    assert_eq!(decide(&mut other, Direction::Backward, &answer).0, Verdict::Pass);
    assert!(
        decide(&mut firewall, Direction::Backward, &Shape { ports: (81, 1), ..answer }).0
            != Verdict::Pass
    );
}

#[test]
fn a_table_without_room_drops_by_name_and_before_all_rules() {
    let text = format!("*filter\n{STATES}COMMIT\n");
    let config =
        tracking::TrackingConfig { connections_max: 1, ..tracking::TrackingConfig::default() };
    let mut firewall = Firewall::with_tracking(&[read(&text, Families::V4)], &config).unwrap();
    let udp = |port: u16| Shape { protocol: IpProtocol::UDP, ports: (port, 53), ..shape() };
    let back = Shape { ends: (udp(1).ends.1, udp(1).ends.0), ports: (53, 1), ..udp(1) };
    let say = |firewall: &mut Firewall, seconds: u64, shape: &Shape| {
        let frame = shape.frame().unwrap();
        let packet = Packet::read(&frame).unwrap();
        let now = Time::seconds(seconds);
        let answer = firewall.ask(now, Direction::Forward, &packet);
        let mut outcomes = Outcomes::default();
        firewall.process(now, Direction::Forward, &[packet], &mut outcomes);
        assert_eq!(answer.verdict, outcomes.verdicts()[0]);
        answer.verdict
    };
    for (seconds, shape) in [(0, udp(1)), (1, back), (5, udp(1))] {
        assert_eq!(say(&mut firewall, seconds, &shape), Verdict::Pass);
    }
    let before = counts(&firewall);
    assert_eq!(say(&mut firewall, 6, &udp(2)), Verdict::Drop(DropCause::Full));
    assert_eq!(counts(&firewall), before);
    firewall.elapse(Time::seconds(200), &mut Outcomes::default());
    assert_eq!(say(&mut firewall, 200, &udp(2)), Verdict::Pass);
}

#[test]
fn the_profile_of_each_rule_set_is_true() {
    let inputs = traffic::draw(21, 10_000);
    for (forward, scope, is_ordered) in [
        (CHAINS, StateScope::Packet, false),
        (LIMITED, StateScope::All, true),
        (SIMPLE, StateScope::Packet, false),
        (":FORWARD ACCEPT [0:0]\n", StateScope::Packet, false),
    ] {
        let proof = verify(|| firewall(forward), &inputs, 9)
            .unwrap_or_else(|fault| panic!("{forward}{fault}"));
        let profile = *firewall(forward).profile();
        assert_eq!((profile.state, profile.is_ordered), (scope, is_ordered));
        assert_eq!(profile.drops, proof.dropped > 0, "{forward}{proof:?}");
        assert_eq!(profile.generates, proof.generated > 0, "{forward}{proof:?}");
        assert_eq!(proof.packets, 10_000);
    }
    // Not more than the rules ask for.
    let reads = firewall(SIMPLE).profile().reads.in_words().join(" ");
    assert!(
        !reads.contains("ip.ttl") && !reads.contains("payload") && reads.contains("ip.dscp"),
        "{reads}"
    );
}

/// Many rules that end the chain, and some that do not, of what traffic shows.
fn many(rules: usize, seed: u64) -> String {
    let mut random = traffic::Random::new(seed);
    let mut text = ":FORWARD ACCEPT [0:0]\n:other - [0:0]\n".to_owned();
    for _ in 0..rules {
        let mut pick = |from: &[&str]| (*random.pick(from).unwrap()).to_owned();
        let source = pick(&[
            "",
            "-s 10.0.0.0/24 ",
            "-s 10.0.1.3/32 ",
            "! -s 10.0.0.0/23 ",
            "-s 10.0.0.5/255.255.0.255 ",
        ]);
        let to = pick(&[
            "",
            "-d 10.0.2.0/24 ",
            "-d 10.0.3.8/30 ",
            "-m iprange --dst-range 10.0.0.7-10.0.1.9 ",
        ]);
        let port = pick(&[
            "",
            "-p tcp -m tcp --dport 80 ",
            "-p udp -m multiport --sports 53,100:9000 ",
            "-p icmp ",
        ]);
        let other = pick(&["", "", "-m ttl --ttl-lt 64 ", "-m multiport ! --ports 22,80 "]);
        let other =
            if other.contains("ports") && !port.contains("tcp") { String::new() } else { other };
        let does = pick(&["-j ACCEPT", "-j DROP", "-j RETURN", "-j LOG", "-j other", ""]);
        text += &format!("-A FORWARD {source}{to}{port}{other}{does}\n");
    }
    text + "-A other -p tcp -m tcp --dport 443 -j DROP\n"
}

#[test]
fn a_search_finds_what_a_look_at_each_rule_does() {
    let inputs = traffic::draw(77, 4_000);
    for (rules, seed) in [(1, 1), (13, 2), (40, 3), (300, 4), (300, 5)] {
        let text = format!("*filter\n{}COMMIT\n", many(rules, seed));
        let set = [read(&text, Families::V4)];
        let [mut walked, mut searched] = [usize::MAX, 1].map(|from| {
            Firewall::indexed(&set, &tracking::TrackingConfig::default(), from).unwrap()
        });
        let mut outcomes = [Outcomes::default(), Outcomes::default()];
        for input in &inputs {
            let packet = Packet::read(&input.frame).unwrap();
            for (firewall, outcomes) in [&mut walked, &mut searched].into_iter().zip(&mut outcomes)
            {
                firewall.process(input.at, input.direction, &[packet], outcomes);
            }
            assert_eq!(outcomes[0].verdicts(), outcomes[1].verdicts());
            assert_eq!(outcomes[0].events(), outcomes[1].events());
        }
        assert_eq!(counts(&walked), counts(&searched));
    }
}

#[test]
fn as_many_rules_as_there_may_be_make_a_firewall_whatever_they_are() {
    for rule in
        ["-j DROP", "-p tcp -m multiport --dports 1,3,5,7,9,11,13,15,17 -m ttl --ttl-lt 3 -j DROP"]
    {
        let text = format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n{}COMMIT\n",
            format!("-A FORWARD {rule}\n").repeat(16_384)
        );
        let began = std::time::Instant::now();
        let mut firewall = Firewall::new(&[read(&text, Families::V4)]).unwrap();
        println!("{:?} for 16,384 rules {rule}", began.elapsed());
        decide(&mut firewall, Direction::Forward, &shape());
    }
}
