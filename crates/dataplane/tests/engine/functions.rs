//! Functions that run inside: asked in place, counted as any function, with one state whatever paths lead to them.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, rules, three_hosts, with_chain};
use crate::super_frames::{stream, super_frame};
use crate::town::{Town, node_name};
use catena_dataplane::engine::Tables;
use catena_io::Offload;
use catena_model::account::HopCounters;
use catena_model::bundle::Configuration;
use catena_model::explain::{ExplainAction, ExplainAt, ExplainRequest, FrameBytes};
use catena_model::program::{RuleMatch, RulePlace};
use catena_model::resource::Encapsulation;
use catena_model::{CounterScope, DropReason, NodeCounters};
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use catena_wire::varying::VaryingFields;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// The answer to whoever opens a connection.
pub(crate) const SYN_ACK: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);

/// A firewall with these rules for both versions of IP.
pub(crate) fn firewall(rules: &str) -> Configuration {
    let file = |name: &str| {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}\nCOMMIT\n");
        serde_json::json!({"name": name, "text": text})
    };
    let config =
        serde_json::json!({"file": file("edge.iptables"), "v6_file": file("edge.ip6tables")});
    Configuration::new("firewall", config.to_string())
}

/// Drops what comes from one port and rejects what comes from another.
const EDGE: &str = "-A FORWARD -p udp -m udp --sport 41 -j DROP\n\
                    -A FORWARD -p udp -m udp --sport 42 -j REJECT";
/// Lets connections through that began forward.
pub(crate) const STATEFUL: &str = "-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
                        -A FORWARD -p tcp -m tcp --syn -m conntrack --ctstate NEW -j ACCEPT\n\
                        -A FORWARD -j DROP";

fn inside(town: &mut Town, name: &str, rules: &str) {
    town.bundled.insert((name.to_owned(), String::new()), firewall(rules));
}

pub(crate) fn from_port(sent: &Spec, port: u16) -> Spec {
    Spec { ports: (port, sent.ports.1), ..sent.clone() }
}

pub(crate) fn tcp(sent: &Spec, flags: TcpFlags, sequence: u32) -> Spec {
    let varying = VaryingFields { tcp_flags: Some(flags), ..VaryingFields::default() };
    Spec { protocol: IpProtocol::TCP, sequence, varying, ..sent.clone() }
}

#[test]
fn what_passes_goes_on_and_what_is_denied_ends_on_its_path() {
    for encapsulation in Encapsulation::ALL {
        for make in [packet, packet_v6] {
            let mut town = with_chain(encapsulation, &[&["v1"], &["v2"], &["v4"]]);
            inside(&mut town, "v2", EDGE);
            let mut rig = Rig::new(town);
            let sent = make(&rig.town, CHAINED_PORT);
            rig.send("S", &sent.frame());
            let before = [
                ("S received", 1),
                ("S forwarded", 1),
                ("host1 path 100 entered", 1),
                ("host1 path 100 to v1", 1),
                ("v1.in transmitted", 1),
                ("v1.out received", 1),
                ("v1.out forwarded", 1),
                ("host1 path 100 from v1", 1),
                ("host1 path 100 tunnelled out", 1),
                ("host1 tunnels transmitted", 1),
                ("host2 tunnels received", 1),
                ("host2 path 100 tunnelled in", 1),
                ("host2 path 100 to v2", 1),
                ("host2 path 100 from v2", 1),
            ];
            let behind = [
                ("host2 tunnels forwarded", 1),
                ("host2 path 100 tunnelled out", 1),
                ("host2 tunnels transmitted", 1),
                ("host3 tunnels received", 1),
                ("host3 tunnels forwarded", 1),
                ("host3 path 100 tunnelled in", 1),
                ("host3 path 100 to v4", 1),
                ("v4.in transmitted", 1),
                ("v4.out received", 1),
                ("v4.out forwarded", 1),
                ("host3 path 100 from v4", 1),
                ("host3 path 100 finished", 1),
                ("D transmitted", 1),
            ];
            rig.assert_moved(&[&before[..], &behind[..]].concat());
            assert_eq!(rig.take("D").len(), 1);
            rig.send("S", &from_port(&sent, 41).frame());
            let ended = [
                ("host2 tunnels dropped function_denied", 1),
                ("host2 path 100 dropped function_denied", 1),
            ];
            rig.assert_moved(&[&before[..], &ended[..]].concat());
            assert_eq!((rig.take("D").len(), rig.inside()), (0, 0));
        }
    }
}

/// A clock that goes on by a thousand nanoseconds with each look.
fn looked_at() -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    LOOKS.fetch_add(1, Ordering::Relaxed) * 1_000
}

#[test]
fn each_call_is_timed_and_what_it_ends_and_makes_is_counted_by_function_and_path() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    inside(&mut town, "v1", "-A FORWARD -p udp -m udp --sport 1 -j DROP");
    inside(&mut town, "v2", EDGE);
    let mut rig = Rig::with(town, |config| config.meter = Some(looked_at), 512);
    let sent = packet(&rig.town, CHAINED_PORT);
    let ports = [40, 41, 41, 42, 43, 44];
    let frames = ports.map(|port| (from_port(&sent, port).frame(), Offload::default()));
    rig.send_all("S", frames);
    let chains = rig.town.chains.iter().map(|chain| rig.town.chain_id(chain)).collect();
    let of = CounterScope { chains, ..CounterScope::default() };
    let counters: Vec<NodeCounters> =
        rig.nodes.iter().map(|node| node.counters_of(Some(&of))).collect();
    let hops: Vec<&HopCounters> =
        counters.iter().flat_map(|node| &node.chains).flat_map(|chain| &chain.hops).collect();
    let of = |name: &str| hops.iter().find(|hop| hop.name == name).copied().unwrap();
    let told = |hop: &HopCounters| (hop.returned.packets, hop.denied, hop.generated);
    assert_eq!([of("v1"), of("v2")].map(told), [(6, 0, 0), (6, 3, 1)]);
    // Each was one call: six packets share the time between two looks, to whole nanoseconds.
    for hop in [of("v1"), of("v2")] {
        let time = &hop.service_time;
        assert_eq!((time.packets, time.ns, time.mean_ns()), (6, 1_000, Some(166)));
        assert_eq!(time.counts.iter().collect::<Vec<_>>(), [(&175, &6)]);
    }
    // Of all chains together, sums alone are told.
    let all = rig.counters();
    let mut all = all.iter().flat_map(|node| &node.chains).flat_map(|chain| &chain.hops);
    assert!(all.all(|hop| hop.service_time.packets == 6 && hop.service_time.counts.is_empty()));
    // Nobody looks where nobody has a clock.
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    inside(&mut town, "v1", EDGE);
    let mut rig = Rig::new(town);
    rig.send("S", &sent.frame());
    let counters = rig.counters();
    let mut hops = counters.iter().flat_map(|node| &node.chains).flat_map(|chain| &chain.hops);
    assert!(hops.all(|hop| hop.service_time.is_empty()));
}

/// A marker or a policer of these classes.
fn classes(kind: &str, text: &str) -> Configuration {
    let config = serde_json::json!({"file": {"name": "classes.yaml", "text": text}});
    Configuration::new(kind, config.to_string())
}

#[test]
fn what_is_marked_goes_on_and_what_is_out_of_profile_ends_on_its_path() {
    for make in [packet, packet_v6] {
        let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
        let sent = make(&town, CHAINED_PORT).frame();
        let view = FrameView::parse(&sent).unwrap();
        let bytes = view.end - u32::from(view.l3_offset);
        let police = format!("{{srtcm: {{cir: 8bit, cbs: {bytes}, ebs: 0}}}}");
        let police = format!("classes: [{{name: voice, match: {{dscp: ef}}, police: {police}}}]");
        let mark = "classes: [{name: udp, match: {protocol: udp}, mark: ef}]";
        for (name, kind, text) in [("v1", "marker", mark), ("v2", "policer", &police)] {
            town.bundled.insert((name.to_owned(), String::new()), classes(kind, text));
        }
        let mut rig = Rig::new(town);
        rig.send("S", &sent);
        let came = rig.take("D");
        assert_eq!(came.len(), 1);
        assert_eq!(FrameView::parse(&came[0]).unwrap().varying.dscp, 46);
        rig.send("S", &sent);
        assert_eq!((rig.take("D").len(), rig.inside()), (0, 0), "the bucket is empty");
    }
}

#[test]
fn who_is_rejected_is_told_as_ordinary_traffic() {
    for make in [packet, packet_v6] {
        let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
        inside(&mut town, "v1", EDGE);
        let mut rig = Rig::new(town);
        let sent = from_port(&make(&rig.town, CHAINED_PORT), 42);
        rig.send("S", &sent.frame());
        rig.assert_moved(&[
            ("S received", 1),
            ("S created function", 1),
            ("S forwarded", 1),
            ("S transmitted", 1),
            ("S dropped function_denied", 1),
            ("host1 path 100 entered", 1),
            ("host1 path 100 to v1", 1),
            ("host1 path 100 from v1", 1),
            ("host1 path 100 dropped function_denied", 1),
        ]);
        let told = rig.take("S");
        let view = FrameView::parse(&told[0]).unwrap();
        assert!(view.is_icmp_error(), "{view:?}");
        assert_eq!(view.destination, rig.town.mac("S"));
    }
}

#[test]
fn a_flood_of_rejected_packets_causes_no_flood_of_errors() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    inside(&mut town, "v1", EDGE);
    let mut rig = Rig::new(town);
    let sent = from_port(&packet(&rig.town, CHAINED_PORT), 42);
    for _ in 0..100 {
        rig.send("S", &sent.frame());
    }
    let told = rig.take("S").len() as u64;
    assert_eq!(told, catena_model::limits::FUNCTION_ERRORS_BURST);
    let functions = BTreeSet::from([rig.town.instance_id("v1")]);
    let of = CounterScope { functions, ..CounterScope::default() };
    let counted = rig.nodes[0].counters_of(Some(&of)).functions.remove(0);
    assert_eq!(counted.errors_withheld, 100 - told);
    let hit = &counted.rules[0];
    assert!(hit.rule.contains("--sport 42 -j REJECT") && hit.packets == 100, "{hit:?}");
}

#[test]
fn functions_follow_one_another_at_one_node_and_at_the_classifiers() {
    for hops in
        [&[&["v2"][..], &["v3"]][..], &[&["v1"], &["v2"], &["v3"]], &[&["v4"], &["v1"], &["v3"]]]
    {
        let mut town = with_chain(Encapsulation::Mpls, hops);
        for name in hops.iter().flat_map(|hop| hop.iter()) {
            inside(&mut town, name, EDGE);
        }
        let mut rig = Rig::new(town);
        let sent = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &sent.frame());
        assert_eq!(rig.take("D"), [sent.frame()], "nobody has touched it");
        let moved = rig.moved();
        for name in hops.iter().flat_map(|hop| hop.iter()) {
            let of = |word: &str| {
                let is_it = |key: &&String| key.ends_with(&format!("path 100 {word} {name}"));
                moved.iter().find(|(key, _)| is_it(key)).map(|(_, packets)| *packets)
            };
            assert_eq!((of("to"), of("from")), (Some(1), Some(1)), "{name}: {moved:?}");
        }
        rig.send("S", &from_port(&sent, 41).frame());
        assert!(rig.take("D").is_empty());
        assert_eq!(rig.inside(), 0);
    }
}

#[test]
fn who_only_looks_on_ends_nothing_and_tells_nobody() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    inside(&mut town, "v1", EDGE);
    town.chains[0].taps = vec![0];
    let mut rig = Rig::new(town);
    for port in [41, 42] {
        let sent = from_port(&packet(&rig.town, CHAINED_PORT), port);
        rig.send("S", &sent.frame());
        rig.assert_moved(&[
            ("S received", 1),
            ("S created tap", 1),
            ("S consumed", 1),
            ("S forwarded", 1),
            ("host1 path 100 entered", 1),
            ("host1 path 100 tapped", 1),
            ("host1 path 100 to v1", 1),
            ("host1 path 100 tunnelled out", 1),
            ("host1 tunnels transmitted", 1),
            ("host3 tunnels received", 1),
            ("host3 tunnels forwarded", 1),
            ("host3 path 100 tunnelled in", 1),
            ("host3 path 100 to v4", 1),
            ("v4.in transmitted", 1),
            ("v4.out received", 1),
            ("v4.out forwarded", 1),
            ("host3 path 100 from v4", 1),
            ("host3 path 100 finished", 1),
            ("D transmitted", 1),
        ]);
        assert_eq!((rig.take("D").len(), rig.take("S").len()), (1, 0));
    }
}

#[test]
fn super_frames_go_through_whole() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    inside(&mut town, "v1", EDGE);
    inside(&mut town, "v2", EDGE);
    let mut rig = Rig::new(town);
    let spec = stream(&packet(&rig.town, CHAINED_PORT), 9_000);
    rig.send_all("S", [super_frame(&spec)]);
    let moved = rig.moved();
    let segments = moved["S received"];
    assert!(segments > 3);
    assert_eq!(moved["host1 path 100 from v1"], segments);
    assert_eq!(moved["host2 path 100 from v2"], segments);
    assert_eq!(moved["D transmitted"], segments);
}

/// A chain out and its way back, which the firewall v2 looks at both ways.
pub(crate) fn both_ways(rules_of: &str) -> Town {
    let mut town = three_hosts();
    let forward = rules(CHAINED_PORT);
    let back: Vec<RuleMatch> = forward
        .iter()
        .map(|rule| RuleMatch {
            source_ports: rule.destination_ports,
            destination_ports: None,
            ..rule.clone()
        })
        .collect();
    town.chain("out", Encapsulation::Nsh, &[&["v2"]], &forward);
    town.chain("back", Encapsulation::Nsh, &[&["v2"]], &back).is_reverse = true;
    place(&mut town, 0, "S");
    place(&mut town, 1, "D");
    inside(&mut town, "v2", rules_of);
    town
}

fn place(town: &mut Town, chain: usize, port: &str) {
    let port = town.port_named(port).id;
    for (_, matches) in &mut town.chains[chain].rules {
        matches.place = RulePlace::Port(port);
    }
}

#[test]
fn answers_meet_the_state_that_questions_left() {
    for engines in [1, 3] {
        let mut rig = Rig::of_engines(engines, both_ways(STATEFUL), |_| {}, 512);
        for flow in 0..20 {
            let sent = from_port(&packet(&rig.town, CHAINED_PORT), 30_000 + flow);
            // Nobody has asked.
            rig.send("D", &tcp(&sent, SYN_ACK, 7).answer().frame());
            assert!(rig.take("S").is_empty());
            rig.send("S", &tcp(&sent, TcpFlags::SYN, 1).frame());
            assert_eq!(rig.take("D").len(), 1);
            rig.send("D", &tcp(&sent.answer(), SYN_ACK, 7).frame());
            assert_eq!(rig.take("S").len(), 1, "flow {flow} of {engines} engines");
        }
    }
}

#[test]
fn a_changed_rule_set_works_on_the_same_state_from_a_path_of_its_own() {
    let mut rig = Rig::new(both_ways(STATEFUL));
    let sent = packet(&rig.town, CHAINED_PORT);
    let send = |rig: &mut Rig, flow: u16, flags, sequence| {
        rig.send("S", &tcp(&from_port(&sent, flow), flags, sequence).frame());
        rig.take("D").len()
    };
    assert_eq!(send(&mut rig, 1, TcpFlags::SYN, 1), 1);
    // Another path with another rule set stands beside it, and nobody goes there yet.
    rig.town.number += 1;
    let taken = rig.town.chains[0].rules.clone();
    rig.town.chain("new", Encapsulation::Nsh, &[&["v2"]], &[]);
    let strict = format!("-A FORWARD -p tcp -m tcp --sport 4 -j DROP\n{STATEFUL}");
    rig.town.bundled.insert(("v2".into(), "new".into()), firewall(&strict));
    rig.apply();
    assert_eq!(send(&mut rig, 2, TcpFlags::SYN, 1), 1);
    // The rules turn: what began on either path is known there.
    rig.town.number += 1;
    rig.town.chains[0].rules.clear();
    rig.town.chains[2].rules = taken;
    rig.apply();
    rig.moved();
    for flow in [1, 2] {
        rig.send("D", &tcp(&from_port(&sent, flow).answer(), SYN_ACK, 9).frame());
        assert_eq!(rig.take("S").len(), 1, "flow {flow}");
        assert_eq!(send(&mut rig, flow, TcpFlags::ACK, 2), 1, "flow {flow}");
    }
    assert_eq!(send(&mut rig, 3, TcpFlags::ACK, 2), 0, "it has never begun");
    assert_eq!(send(&mut rig, 4, TcpFlags::SYN, 1), 0, "the new rules hold");
    let moved = rig.moved();
    assert_eq!(moved.get("host1 path 100 entered"), None, "{moved:?}");
    // The former path goes; the state stays.
    rig.town.number += 1;
    rig.town.chains.remove(0);
    rig.apply();
    assert_eq!(send(&mut rig, 1, TcpFlags::ACK, 3), 1);
}

#[test]
fn whoever_asks_is_told_the_rule_and_leaves_no_trace() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    inside(&mut town, "v1", STATEFUL);
    let mut rig = Rig::new(town);
    let sent = packet(&rig.town, CHAINED_PORT);
    let at = ExplainAt::Port(rig.town.port_named("S").id);
    let ask = |rig: &Rig, spec: &Spec| {
        let frame = FrameBytes(spec.frame());
        let request = ExplainRequest { at: at.clone(), frame, why_not: None };
        let reply = rig.explain(0, request).unwrap();
        let told = reply.steps.into_iter().find_map(|step| match step.action {
            ExplainAction::Judged { rules, ends, .. } => Some((rules, ends)),
            _ => None,
        });
        told.unwrap()
    };
    let before = format!("{:?}", rig.nodes[0].engines[0].dump());
    let (rules, ends) = ask(&rig, &tcp(&sent, TcpFlags::ACK, 1));
    assert_eq!(ends, Some(DropReason::FunctionDenied));
    assert!(rules.last().unwrap().contains("edge.iptables line 5, -j DROP"), "{rules:?}");
    let (rules, ends) = ask(&rig, &tcp(&sent, TcpFlags::SYN, 1));
    assert_eq!(ends, None);
    assert!(rules.last().unwrap().contains("--ctstate NEW -j ACCEPT"), "{rules:?}");
    assert_eq!(format!("{:?}", rig.nodes[0].engines[0].dump()), before);
    // The live state is asked: once a connection is there, its packets pass.
    rig.send("S", &tcp(&sent, TcpFlags::SYN, 1).frame());
    assert_eq!(rig.take("v4.in").len(), 1);
    rig.send("S", &tcp(&sent, TcpFlags::ACK, 2).frame());
    let seen = rig.take("v4.in").len();
    let (_, ends) = ask(&rig, &tcp(&sent, TcpFlags::ACK, 2));
    assert_eq!(ends.is_none(), seen == 1, "what is told is what happens");
}

#[test]
fn a_function_that_cannot_be_made_refuses_the_program_by_its_name() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    inside(&mut town, "v1", "-A FORWARD -j NOWHERE");
    let refused = Tables::compile(&town.program(0)).unwrap_err().to_string();
    for part in ["'v1'", "path 100", "edge.iptables line 3", "NOWHERE"] {
        assert!(refused.contains(part), "{refused}");
    }
    // A node that does not run it has no use for what it is made of.
    assert!(Tables::compile(&town.program(1)).is_ok());
    let unknown = Configuration::new("oracle", "{}");
    town.bundled.insert(("v1".into(), String::new()), unknown);
    let refused = Tables::compile(&town.program(0)).unwrap_err().to_string();
    assert!(refused.contains("no bundled function 'oracle'"), "{refused}");
    let mut program = town.program(0);
    program.configurations.clear();
    let refused = Tables::compile(&program).unwrap_err().to_string();
    assert!(refused.contains("its configuration is not in the program"), "{refused}");
    assert_eq!(program.node, node_name(0));
}
