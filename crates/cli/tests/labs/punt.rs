//! The way from the kernel up to the engine: what is lost on it is told, and it is mended.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Sender, address, send_and_count};
use catena_model::DropReason;
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;

const PORT: u16 = 5_090;
const PACKETS: u32 = 10;
const NEW_FLOWS: u32 = 20;

/// Frames of host1 that were lost on their way up.
fn lost(house: &House) -> u64 {
    let nodes = account::counters(house);
    let here = nodes.iter().find(|node| node.node.as_str() == "host1").expect("host1");
    let kernel = here.dataplane.kernel.as_ref().expect("a kernel path");
    let named = here.total().dropped.get(&DropReason::PuntLost).copied();
    assert_eq!(named.unwrap_or(0), kernel.punt_lost, "what is counted has a name");
    kernel.punt_lost
}

fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process as i32).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

#[test]
fn what_is_lost_on_its_way_up_is_counted_by_name_and_the_punt_device_comes_up_again() {
    in_shared_house(|house| {
        let (host, source, destination) = (house.node("host1"), house.node("S"), house.node("D"));
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&source, &destination, to, PACKETS);
        let before = lost(house);
        let agent = house.process("agent", Some("host1")).pid;
        for (hurt, kind) in [("link set ct-punt1 down", "down"), ("link delete ct-punt1", "gone")] {
            let already = lost(house);
            // It cannot mend anything meanwhile.
            signal(agent, Signal::STOP);
            host.ip(hurt);
            (0..NEW_FLOWS).for_each(|_| assert_eq!(Sender::new(&source, to).send(), 0));
            signal(agent, Signal::CONT);
            wait_for("host1 to tell what was lost", || {
                let lost = lost(house) - already;
                if lost >= u64::from(NEW_FLOWS) { Ok(()) } else { Err(format!("{kind}: {lost}")) }
            });
            wait_for("the punt device to be up", || {
                let link = host.ip("link show ct-punt1");
                if link.contains("state UP") { Ok(()) } else { Err(link) }
            });
            house.wait_settled();
            send_and_count(&source, &destination, to, PACKETS);
        }
        assert!(lost(house) > before);
        account::assert_holds(house);
    });
}
