//! The way from the kernel up to the engine is shut: the ports say so until it is open again.

use crate::authority::Authority;
use crate::controller::{PATIENCE, TestController};
use crate::machine::{Machine, is_privileged};
use crate::programs::packed;
use crate::whole::{Leftover, paths, reach};
use catena_agent::Config;
use std::time::Instant;

/// The two ends of the device.
const ENDS: [&str; 2] = ["ct-punt0", "ct-punt1"];

/// Takes the device away, and puts in the place of one end what keeps the agent from making it anew.
async fn shut(machine: &Machine) {
    let begun = Instant::now();
    let in_the_way =
        || machine.links.add_veth(ENDS[1], "in-the-way", &machine.namespace, 1_400, None, None);
    while in_the_way().await.is_err() {
        machine.links.delete_link(ENDS[0]).await.ok();
        assert!(begun.elapsed() < PATIENCE, "the agent makes the device anew each time");
    }
}

#[tokio::test]
async fn ports_say_why_new_flows_are_lost_until_the_punt_device_is_mended() {
    if !is_privileged("ports_say_why_new_flows_are_lost_until_the_punt_device_is_mended") {
        return;
    }
    let machine = Machine::new().await;
    let _left = Leftover(&machine);
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let config = machine.config(controller.address, &tls, &paths(machine.dir.path()));
    let _agent = machine.start_as(Config { uses_fast_path: true, ..config });
    let (mut session, _) = controller.welcome().await;
    for number in [1, 2] {
        machine.plug(number).await;
    }
    assert_eq!(session.send(packed(4, &[1, 2])).await.0.refusal, "");
    reach(&machine);

    shut(&machine).await;
    let is_told =
        |reason: &String| reason.contains(ENDS[0]) && reason.contains("new flows are lost");
    session.until(|states| states.len() == 2 && states.values().all(is_told)).await;

    machine.links.delete_link(ENDS[1]).await.unwrap();
    session.until(|states| states.len() == 2 && states.values().all(String::is_empty)).await;
    reach(&machine);
}
