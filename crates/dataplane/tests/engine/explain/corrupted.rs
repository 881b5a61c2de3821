//! One node's table is corrupted on purpose: `explain` shows the wrong hop, as the packet takes it.

use super::live::explain_and_send;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, with_chain};
use catena_model::resource::Encapsulation;

#[test]
fn a_node_that_has_two_hops_exchanged_is_told_of_as_the_packet_meets_it() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"], &["v3"], &["v4"]]));
    let mut program = rig.town.program(1);
    program.paths[0].hops.swap(1, 2);
    rig.apply_program(1, &program);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    let told = explain_and_send("corrupted-hops", &mut rig, "S", &frame);
    let visits = told.lines.iter().filter_map(|line| match &line.step.action {
        catena_model::explain::ExplainAction::Visited { instance, .. } => Some(instance.as_str()),
        _ => None,
    });
    let visits: Vec<&str> = visits.collect();
    assert_eq!(visits, ["v1", "v3", "v2", "v4"]);
}

#[test]
fn a_node_that_holds_a_mac_elsewhere_is_told_of_as_the_packet_meets_it() {
    let mut rig = Rig::new(with_chain(Encapsulation::Mpls, &[&["v1"]]));
    let mut program = rig.town.program(0);
    let destination = rig.town.mac("D");
    for entry in program.macs.iter_mut().filter(|entry| entry.mac == destination) {
        entry.at = catena_model::program::Location::Node(crate::town::node_name(1));
    }
    rig.apply_program(0, &program);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    let told = explain_and_send("corrupted-mac", &mut rig, "S", &frame);
    assert!(told.verdict.starts_with("dropped at host2: unknown_mac"), "{}", told.verdict);
}
