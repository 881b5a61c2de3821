//! The way from the kernel up to the engine: what is lost on it is told, and it is mended.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address, send_and_count, send_new_flows};
use catena_model::DropReason;
use catena_model::account::PortCounters;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

const PORT: u16 = 5_090;
/// Where nothing else is sent to: the kernel knows no flow there, whatever source port a socket happens to get.
const UNKNOWN: u16 = 5_092;
const PACKETS: u32 = 10;
/// More than half of the way up: what is lost must not take places for ever.
const NEW_FLOWS: u32 = 600;

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
        let unknown = SocketAddr::new(to.ip(), UNKNOWN);
        send_and_count(&source, &destination, to, PACKETS);
        let before = lost(house);
        let agent = house.process("agent", Some("host1")).pid;
        for (hurt, kind) in [("link set ct-punt1 down", "down"), ("link delete ct-punt1", "gone")] {
            let already = lost(house) + refused(house, "S");
            // It cannot mend anything meanwhile.
            signal(agent, Signal::STOP);
            host.ip(hurt);
            (0..NEW_FLOWS).for_each(|_| assert_eq!(Sender::new(&source, unknown).send(), 0));
            signal(agent, Signal::CONT);
            wait_for("host1 to tell what was lost", || {
                let lost = lost(house) + refused(house, "S") - already;
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

#[test]
fn status_says_that_new_flows_are_lost_until_the_punt_device_is_mended() {
    in_shared_house(|house| {
        const SAID: &str = "new flows are lost";
        let host = house.node("host1");
        assert!(!house.tell(&["status"]).contains(SAID));
        let agent = house.process("agent", Some("host1")).pid;
        signal(agent, Signal::STOP);
        host.ip("link delete ct-punt0");
        // What has one of its names keeps the agent from making it anew.
        host.ip("link add ct-punt1 type veth peer name in-the-way");
        signal(agent, Signal::CONT);
        wait_for("status to say so", || {
            let said = house.tell(&["status"]);
            let is_said = said.contains(SAID) && !said.contains("every program acknowledged");
            if is_said { Ok(()) } else { Err(said) }
        });
        host.ip("link delete ct-punt1");
        wait_for("status to say it no longer", || {
            let said = house.tell(&["status"]);
            if said.contains(SAID) { Err(said) } else { Ok(()) }
        });
        house.wait_settled();
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        send_and_count(&house.node("S"), &house.node("D"), to, PACKETS);
    });
}

const CHAINED: u16 = 5_091;
const QUIET_FLOWS: u32 = 2_000;

/// What was refused a place on its way up, by the port whose name begins so.
fn refused(house: &House, of: &str) -> u64 {
    let nodes = account::counters(house);
    let here = nodes.iter().find(|node| node.node.as_str() == "host1").expect("host1");
    let is_it = |port: &&PortCounters| port.name.starts_with(of);
    let of = |port: &PortCounters| port.account.dropped.get(&DropReason::PuntShareFull).copied();
    here.ports.iter().filter(is_it).filter_map(of).sum()
}

/// Payloads of a flood: small packets, and packets of two fragments.
const FLOODS: [&[u8]; 2] = [&[0; 6], &[0; 2_000]];

/// Each datagram is the first of a flow, as fast as they leave, until it is told to stop.
fn flood(socket: &UdpSocket, to: IpAddr, payload: &[u8], stop: &AtomicBool) {
    let mut port: u16 = 20_000;
    while !stop.load(Ordering::Relaxed) {
        // The answer that nobody listens there comes back as an error of a later one.
        let _ = socket.send_to(payload, (to, port));
        port = port.checked_add(1).unwrap_or(20_000);
    }
}

/// Tells the flood to end, also where the test fails.
struct EndOfFlood<'f>(&'f AtomicBool);

impl Drop for EndOfFlood<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_new_flows_takes_no_flow_of_a_quiet_port_beside_it() {
    in_shared_house(|house| {
        house.deploy(json!({
            "name": "quiet", "source": "S", "destination": "D",
            "match_fields": {"protocol": "udp", "destination_port": CHAINED},
            "chain": [{"name": "v11", "direction": "same"}],
        }));
        let (source, destination) = (house.node("S"), house.node("D"));
        let to = SocketAddr::new(address("D", Family::V4), CHAINED);
        send_and_count(&source, &destination, to, PACKETS);
        let socket = house.node("ext").inside(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        for payload in FLOODS {
            let before = ["ext", "S", "v11"].map(|name| refused(house, name));
            let stop = AtomicBool::new(false);
            let receiver = Receiver::new(&destination, to);
            std::thread::scope(|scope| {
                let _end = EndOfFlood(&stop);
                scope.spawn(|| flood(&socket, address("S", Family::V4), payload, &stop));
                wait_for("the flood to be more than is taken", || {
                    let refused = refused(house, "ext") - before[0];
                    if refused > 0 { Ok(()) } else { Err(refused.to_string()) }
                });
                send_new_flows(&source, to, QUIET_FLOWS);
            });
            receiver.assert_all(QUIET_FLOWS);
            println!("{} refused", refused(house, "ext") - before[0]);
            assert_eq!(["S", "v11"].map(|name| refused(house, name)), before[1..]);
        }
    });
}
