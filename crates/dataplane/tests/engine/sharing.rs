//! Several engines that share a node's packets against one that has them all: whatever comes, the
//! same leaves and the same is counted.

use crate::accounting::towns;
use crate::frames::Spec;
use crate::isolation;
use crate::lane::{SliceTurn, assert_entered, compare_packets, entered, run, sent, sum, untimed};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::slices::{frame, user};
use crate::town::{Town, node_address};
use catena_dataplane::engine::TunnelKind;
use catena_model::NodeCounters;
use catena_model::explain::ExplainAt;
use catena_model::program::{DelayClass, RewriteEntry, SlicePolicy, TupleField};
use catena_model::resource::Encapsulation::{Mpls, Nsh};
use catena_model::resource::TuplePattern;
use catena_wire::scalar::IpProtocol;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;

#[test]
fn packets_and_books_are_the_same_by_one_engine_and_by_several() {
    let (by_others, of_users) = (Cell::new(0), Cell::new([0; 2]));
    let volleys = vec(vec(sent(), 1..12), 1..4);
    let behaviours = vec(select(vec![0usize, 2, 3, 4, 5]), 4);
    let inputs = (towns(), towns(), behaviours, volleys, 2usize..5);
    let mut runner = TestRunner::new(Config { cases: 600, ..Config::default() });
    let outcome = runner.run(&inputs, |(first, second, behaviours, volleys, engines)| {
        let mut one = run((true, 1), (&first, &second), &behaviours, &volleys, SliceTurn::None);
        let mut several =
            run((true, engines), (&first, &second), &behaviours, &volleys, SliceTurn::None);
        let of_node = |node| several.received_by_others(node);
        by_others.set(by_others.get() + (0..3).map(of_node).sum::<u64>());
        of_users.set(sum(of_users.get(), entered(&several)));
        compare_books(untimed(one.counters()), untimed(several.counters()))?;
        compare_packets(&mut one, &mut several)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(by_others.get() > 1_000, "only {} packets were others'", by_others.get());
    assert_entered(of_users.get());
}

/// The same is counted, but for what functions have lost: what one makes of its own hides as many of
/// those, and each engine sees that of its own flows alone.
fn compare_books(
    mut one: Vec<NodeCounters>,
    mut several: Vec<NodeCounters>,
) -> Result<(), TestCaseError> {
    let take_lost = |books: &mut Vec<NodeCounters>| -> Vec<u64> {
        let ports = books.iter_mut().flat_map(|node| &mut node.ports);
        ports.map(|port| std::mem::take(&mut port.lost_in_function)).collect()
    };
    let (told, all) = (take_lost(&mut one), take_lost(&mut several));
    prop_assert_eq!(one, several);
    prop_assert!(told.iter().zip(&all).all(|(told, all)| told <= all), "{:?} {:?}", told, all);
    Ok(())
}

const ENGINES: usize = 3;
const FLOWS: u16 = 64;

fn rig(town: Town) -> Rig {
    Rig::of_engines(ENGINES, town, |_| {}, 512)
}

#[test]
fn all_packets_of_a_flow_have_one_decider_wherever_a_node_sees_them() {
    let mut by_engine = [0; ENGINES];
    for encapsulation in [Nsh, Mpls] {
        let mut rig = rig(with_chain(encapsulation, &[&["v1"], &["v2"]]));
        let at = |port: &str| ExplainAt::Port(rig.town.port_named(port).id);
        let (source, into, out_of) = (at("S"), at("v1.in"), at("v1.out"));
        let specs = (0..FLOWS).map(|number| {
            let spec = if number % 2 == 0 { packet } else { packet_v6 }(&rig.town, CHAINED_PORT);
            let protocol = if number % 3 == 0 { IpProtocol::TCP } else { spec.protocol };
            Spec { ports: (20_000 + number, CHAINED_PORT), protocol, ..spec }
        });
        for spec in specs.collect::<Vec<_>>() {
            let decider = rig.decider(0, &source, &spec.frame());
            by_engine[decider] += 1;
            let tagged = Spec { vlan: Some(7), ..spec.clone() };
            for (at, spec) in [(&out_of, &spec), (&into, &spec.answer()), (&source, &tagged)] {
                assert_eq!(rig.decider(0, at, &spec.frame()), decider, "{spec:?}");
            }
            let mut plain = vec![8, 0, 0, 0, 0, 0, 100, 0];
            plain.extend(spec.frame());
            let by = |tunnel| ExplainAt::Tunnel { tunnel, source: node_address(1) };
            assert_eq!(rig.decider(0, &by(TunnelKind::Vxlan), &plain), decider, "{spec:?}");
            rig.datagrams.clear();
            rig.send("S", &spec.frame());
            // On its path to the next node, and from there to the last: the frame is the same.
            for seen in &rig.datagrams {
                let tunnel = seen.kind;
                assert_eq!(rig.decider(0, &by(tunnel), &seen.bytes), decider, "{spec:?}");
            }
            assert!(!rig.datagrams.is_empty());
        }
    }
    assert!(by_engine.iter().all(|flows| *flows > FLOWS / ENGINES as u16 / 2), "{by_engine:?}");
}

#[test]
fn all_fragments_of_a_datagram_have_one_decider() {
    let rig = rig(with_chain(Nsh, &[&["v1"]]));
    let at = ExplainAt::Port(rig.town.port_named("S").id);
    for number in 0..FLOWS {
        let spec = packet(&rig.town, CHAINED_PORT);
        let first = Spec { fragment: (0, true), ports: (number, CHAINED_PORT), ..spec.clone() };
        let later = Spec { fragment: (3, false), ..first.clone() };
        let deciders = [first, later].map(|spec| rig.decider(0, &at, &spec.frame()));
        assert_eq!(deciders[0], deciders[1]);
    }
}

#[test]
fn where_one_engine_must_know_all_it_decides_all() {
    let sends = |town: Town, frames: &dyn Fn(&Town) -> Vec<Vec<u8>>| {
        let mut rig = rig(town);
        for frame in frames(&rig.town) {
            rig.send("S", &frame);
        }
        // There the function and the slices are.
        rig.received_by_others(0)
    };
    let flows = |town: &Town| -> Vec<Vec<u8>> {
        let spec = packet(town, CHAINED_PORT);
        let ports = (0..FLOWS).map(|number| (20_000 + number, CHAINED_PORT));
        ports.map(|ports| Spec { ports, ..spec.clone() }.frame()).collect()
    };
    let mut town = with_chain(Nsh, &[&["v1"]]);
    assert!(sends(town.clone(), &flows) > 0);
    let fields = vec![TupleField::Source];
    let rewrites = RewriteEntry { fields, leaves: TuplePattern::default() };
    town.chains[0].rewrites.insert(0, rewrites);
    assert_eq!(sends(town, &flows), 0, "a function rewrites");

    let users = |town: &Town| -> Vec<Vec<u8>> {
        (1..FLOWS).map(|teid| frame(town, user(5, teid.into()))).collect()
    };
    let urgent = SlicePolicy { rate: None, class: DelayClass::Urgent };
    assert_eq!(sends(isolation::town(&[urgent]), &users), 0, "a slice is held back");
}
