//! Functions inside that stand beside each other as one hop: asked one behind the other, each counted for itself, and
//! what comes out is what comes out of hops of their own.

use crate::frames::Spec;
use crate::functions::{STATEFUL, SYN_ACK, both_ways, firewall, from_port, tcp};
use crate::inside_nat::{sent, two_networks};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::super_frames::{stream, super_frame};
use crate::town::Town;
use catena_dataplane::engine::Tables;
use catena_model::DropReason;
use catena_model::bundle::Configuration;
use catena_model::explain::{ExplainAction, ExplainAt, ExplainRequest, FrameBytes};
use catena_model::resource::Encapsulation;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use std::collections::BTreeMap;

/// Networks of the towns here: see [`two_networks`] and the scene.
const INNER: usize = 0;
const OUTER: usize = 1;

/// Drops what comes from a port.
fn without(port: u16) -> Configuration {
    firewall(&format!("-A FORWARD -p udp -m udp --sport {port} -j DROP"))
}

fn place(town: &mut Town, name: &str, configuration: Configuration) {
    town.bundled.insert((name.to_owned(), String::new()), configuration);
}

/// Functions at host1 and host2, of which the two at host2 stand beside each other.
fn two_beside(encapsulation: Encapsulation) -> Town {
    let mut town = with_chain(encapsulation, &[&["v1"], &["v2"], &["v3"], &["v4"]]);
    place(&mut town, "v2", without(41));
    place(&mut town, "v3", without(42));
    town.has_segments = true;
    town
}

#[test]
fn a_segment_is_one_hop_whose_members_are_counted_each_for_itself() {
    for encapsulation in Encapsulation::ALL {
        for make in [packet, packet_v6] {
            let mut rig = Rig::new(two_beside(encapsulation));
            assert_eq!(rig.town.program(1).paths[0].hops.len(), 3);
            let sent = make(&rig.town, CHAINED_PORT);
            let cases =
                [(40, &["v2", "v3"][..], true), (41, &["v2"], false), (42, &["v2", "v3"], false)];
            for (port, members, goes_on) in cases {
                rig.send("S", &from_port(&sent, port).frame());
                let moved = rig.moved();
                let count = |what: &str| moved.get(&format!("host2 path 100 {what}")).copied();
                for name in ["v2", "v3"] {
                    let of = (count(&format!("to {name}")), count(&format!("from {name}")));
                    let seen = members.contains(&name).then_some(1);
                    assert_eq!(of, (seen, seen), "{name}, {port}: {moved:?}");
                }
                assert_eq!(count("dropped function_denied"), (!goes_on).then_some(1));
                assert_eq!(rig.take("D").len(), usize::from(goes_on), "{encapsulation:?}");
                assert_eq!(rig.inside(), 0);
            }
        }
    }
}

#[test]
fn whoever_asks_is_told_what_each_member_says() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["w1"], &["v4"]]);
    town.function("w1", 0, (INNER, INNER));
    place(&mut town, "v1", without(41));
    place(&mut town, "w1", without(42));
    town.has_segments = true;
    let rig = Rig::new(town);
    let told = |port: u16| -> Vec<(String, String, Option<DropReason>)> {
        let frame = FrameBytes(from_port(&packet(&rig.town, CHAINED_PORT), port).frame());
        let at = ExplainAt::Port(rig.town.port_named("S").id);
        let reply = rig.explain(0, ExplainRequest { at, frame, why_not: None }).unwrap();
        let judged = reply.steps.into_iter().filter_map(|step| match step.action {
            ExplainAction::Judged { function, instance, ends, .. } => {
                Some((function, instance, ends))
            }
            _ => None,
        });
        judged.collect()
    };
    let says = |name: &str, ends| (name.to_owned(), name.to_owned(), ends);
    let denied = Some(DropReason::FunctionDenied);
    assert_eq!(told(40), [says("v1", None), says("w1", None)]);
    assert_eq!(told(41), [says("v1", denied)]);
    assert_eq!(told(42), [says("v1", None), says("w1", denied)]);
}

/// What a town sends out and counts of these frames, by the ports that send them.
type Outcome = (Vec<Vec<u8>>, Vec<Vec<u8>>, BTreeMap<String, u64>);

fn outcomes(
    mut town: Town,
    has_segments: bool,
    engines: usize,
    frames: &[(&str, Spec)],
) -> Vec<Outcome> {
    town.has_segments = has_segments;
    let mut rig = Rig::of_engines(engines, town, |_| {}, 512);
    let outcome = |(port, spec): &(&str, Spec)| {
        if spec.payload.len() > 2_000 {
            rig.send_all(port, [super_frame(spec)]);
        } else {
            rig.send(port, &spec.frame());
        }
        assert_eq!(rig.inside(), 0);
        (rig.take("D"), rig.take("S"), rig.moved())
    };
    frames.iter().map(outcome).collect()
}

/// Packets of flows both ways: handshakes, what no connection began, super-frames, and what rules drop or reject.
fn flows(sent: &Spec) -> Vec<(&'static str, Spec)> {
    let mut frames = Vec::new();
    for flow in 40..46 {
        let sent = from_port(sent, flow);
        frames.push(("S", Spec { protocol: IpProtocol::UDP, ..sent.clone() }));
        frames.push(("D", tcp(&sent, SYN_ACK, 7).answer()));
        frames.push(("S", tcp(&sent, TcpFlags::SYN, 1)));
        frames.push(("D", tcp(&sent.answer(), SYN_ACK, 7)));
        frames.push(("S", tcp(&sent, TcpFlags::ACK, 2)));
        frames.push(("S", stream(&tcp(&sent, TcpFlags::ACK, 2), 9_000)));
    }
    frames
}

#[test]
fn what_comes_out_and_is_counted_is_the_same_as_with_a_hop_for_each() {
    let mut town = both_ways(STATEFUL);
    town.function("w2", 1, (INNER, INNER));
    town.function("x2", 1, (INNER, INNER));
    place(&mut town, "w2", firewall("-A FORWARD -p tcp -m tcp --sport 43 -j REJECT"));
    place(&mut town, "x2", Configuration::new("monitor", "{}"));
    let hops = ["v2", "w2", "x2"].map(|name| vec![name.to_owned()]);
    town.chains[0].hops = hops.to_vec();
    town.chains[1].hops = hops.into_iter().rev().collect();
    for engines in [1, 3] {
        let frames = flows(&packet(&town, CHAINED_PORT));
        let joined = outcomes(town.clone(), true, engines, &frames);
        let apart = outcomes(town.clone(), false, engines, &frames);
        assert!(joined.iter().any(|(to_d, ..)| !to_d.is_empty()));
        assert!(joined.iter().any(|(_, to_s, _)| !to_s.is_empty()));
        for ((joined, apart), (port, spec)) in joined.iter().zip(&apart).zip(&frames) {
            assert_eq!(joined, apart, "{engines} engines, {port}: {spec:?}");
        }
    }
}

#[test]
fn a_nat_stands_among_others_and_both_ways_lead_through_all() {
    for encapsulation in [Encapsulation::Nsh, Encapsulation::Mpls] {
        let mut town = two_networks(encapsulation, &[&["w1"], &["nat"], &["w2"]]);
        town.function("w1", 1, (INNER, INNER));
        town.function("w2", 1, (OUTER, OUTER));
        place(&mut town, "w1", without(41));
        place(&mut town, "w2", Configuration::new("monitor", "{}"));
        town.has_segments = true;
        assert_eq!(town.program(1).paths[0].hops.len(), 1);
        let question = sent(&town, CHAINED_PORT);
        let mut frames = Vec::new();
        for port in [40, 41, 44] {
            frames.push(("S", from_port(&question, port)));
        }
        let joined = outcomes(town.clone(), true, 1, &frames);
        let apart = outcomes(town.clone(), false, 1, &frames);
        assert_eq!(joined, apart);
        let went: Vec<usize> = joined.iter().map(|(to_d, ..)| to_d.len()).collect();
        assert_eq!(went, [1, 0, 1]);
        // The answer finds its way back through all three.
        let mut rig = Rig::new(town);
        rig.send("S", &question.frame());
        let asked = rig.take("D").remove(0);
        rig.moved();
        let view = catena_wire::frame::FrameView::parse(&asked).unwrap();
        let flow = view.flow.unwrap();
        let answer = Spec {
            source_mac: rig.town.mac("D"),
            destination_mac: view.source,
            source: flow.destination,
            destination: flow.source,
            ports: (flow.destination_port, flow.source_port),
            ..question.clone()
        };
        rig.send("D", &answer.frame());
        assert_eq!(rig.take("S").len(), 1);
        let moved = rig.moved();
        for name in ["w1", "nat", "w2"] {
            let key = format!("host2 path 101 from {name}");
            assert_eq!(moved.get(&key), Some(&1), "{moved:?}");
        }
    }
}

#[test]
fn a_flow_meets_instances_that_stand_together_both_ways() {
    let mut town = both_ways(STATEFUL);
    for name in ["w2", "x2", "y2"] {
        town.function(name, 1, (INNER, INNER));
    }
    place(&mut town, "w2", firewall(STATEFUL));
    for name in ["x2", "y2"] {
        place(&mut town, name, firewall(STATEFUL));
    }
    let hop = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    town.chains[0].hops = vec![hop(["v2", "w2"]), hop(["x2", "y2"])];
    town.chains[1].hops = vec![hop(["x2", "y2"]), hop(["v2", "w2"])];
    town.has_segments = true;
    let mut rig = Rig::new(town);
    let mut met = BTreeMap::new();
    for flow in 0..40 {
        let sent = from_port(&packet(&rig.town, CHAINED_PORT), 30_000 + flow);
        rig.send("S", &tcp(&sent, TcpFlags::SYN, 1).frame());
        assert_eq!(rig.take("D").len(), 1);
        rig.send("D", &tcp(&sent.answer(), SYN_ACK, 7).frame());
        assert_eq!(rig.take("S").len(), 1, "flow {flow} is known where its answer comes");
        let moved = rig.moved();
        let is_met = |name: &str| {
            let ways =
                [100, 101].map(|path| moved.contains_key(&format!("host2 path {path} to {name}")));
            assert_eq!(ways[0], ways[1], "{name}: {moved:?}");
            ways[0]
        };
        let seen = ["v2", "x2", "w2", "y2"].map(is_met);
        assert!(
            seen == [true, true, false, false] || seen == [false, false, true, true],
            "{seen:?}"
        );
        *met.entry(seen).or_insert(0) += 1;
    }
    assert_eq!(met.len(), 2, "each has some: {met:?}");
}

#[test]
fn connections_live_on_where_functions_become_a_segment_and_part_again() {
    let mut town = both_ways(STATEFUL);
    town.function("w2", 1, (INNER, INNER));
    place(&mut town, "w2", without(41));
    town.chains[0].hops.push(vec!["w2".into()]);
    town.chains[1].hops.insert(0, vec!["w2".into()]);
    let mut rig = Rig::new(town);
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &tcp(&sent, TcpFlags::SYN, 1).frame());
    rig.send("D", &tcp(&sent.answer(), SYN_ACK, 7).frame());
    for sequence in 2..6 {
        rig.town.number += 1;
        rig.town.has_segments = !rig.town.has_segments;
        rig.apply();
        rig.take("D");
        rig.send("S", &tcp(&sent, TcpFlags::ACK, sequence).frame());
        assert_eq!(rig.take("D").len(), 1, "{sequence}");
    }
    rig.check();
}

#[test]
fn a_member_with_other_instances_than_its_hop_is_refused_by_name() {
    let town = two_beside(Encapsulation::Nsh);
    let mut program = town.program(1);
    assert!(Tables::compile(&program).is_ok());
    program.members[1].instances.clear();
    let refused = Tables::compile(&program).unwrap_err().to_string();
    for part in ["'v3'", "path 100", "other instances"] {
        assert!(refused.contains(part), "{refused}");
    }
}
