//! What a NAT makes of a packet is told, and is what happens.

use super::live::explain_and_send;
use crate::inside_nat::{sent, two_networks};
use crate::rig::Rig;
use crate::scene::CHAINED_PORT;
use catena_model::resource::Encapsulation;

#[test]
fn a_packet_that_a_nat_gives_another_source() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["nat"], &["v4"]]));
    let frame = sent(&rig.town, CHAINED_PORT).frame();
    let told = explain_and_send("nsh-nat", &mut rig, "S", &frame);
    assert!(told.verdict.starts_with("delivered by port D of host3"), "{}", told.verdict);
}
