//! Ports by AF_XDP and by TAP, from the agent that opens them to the packets that pass.

use crate::authority::Authority;
use crate::controller::{PATIENCE, TestController, TestSession, reasons};
use crate::machine::{Machine, is_privileged};
use crate::programs::{address, mac, packed_with, port};
use crate::whole::{Leftover, paths, reach};
use catena_agent::{AgentError, PortIo};
use catena_kernel::ethtool;
use catena_kernel::namespace::run_in;
use catena_kernel::netlink::Netlink;
use catena_model::resource::{Attachment, InterfaceRef};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Instant;

const TCP_PORT: u16 = 7_001;
const STREAM_BYTES: usize = 1 << 20;

/// An agent of this kind with its data plane, and what a controller needs to speak to it.
async fn begin(
    machine: &Machine,
    io: PortIo,
) -> (crate::machine::RunningAgent, TestController, TestSession) {
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let dataplane = paths(machine.dir.path());
    let mut config = machine.config(controller.address, &tls, &dataplane);
    config.port_io = io;
    let agent = machine.start_as(config);
    let (session, _) = controller.welcome().await;
    (agent, controller, session)
}

/// A megabyte from 1 to 2 by TCP arrives as it was sent.
fn stream(machine: &Machine) {
    let listener = || TcpListener::bind((address(2), TCP_PORT));
    let listener = run_in(machine.endpoint(2), listener).unwrap().unwrap();
    let sent: Vec<u8> = (0..STREAM_BYTES).map(|at| (at / 7 % 251) as u8).collect();
    let expected = sent.clone();
    let reader = std::thread::spawn(move || {
        let mut came = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut came).unwrap();
        assert!(came == expected, "{} bytes came", came.len());
    });
    let connect = || TcpStream::connect((address(2), TCP_PORT));
    let mut sender = run_in(machine.endpoint(1), connect).unwrap().unwrap();
    sender.write_all(&sent).unwrap();
    drop(sender);
    reader.join().unwrap();
}

async fn packets_pass_and_are_accounted_for(machine: &Machine, session: &mut TestSession) {
    reach(machine);
    stream(machine);
    let counters = session.counters(9).await;
    assert_eq!(counters.total().unaccounted(), 0);
    for number in [1, 2] {
        let line = counters.ports.iter().find(|line| line.port == port(number)).unwrap();
        let (received, sent) = (line.account.received.packets, line.transmitted.packets);
        assert!(received > 10 && sent > 10, "{line:?}");
        assert!(line.interface.unwrap().received.packets > 10, "{line:?}");
    }
}

#[tokio::test]
async fn endpoints_speak_through_af_xdp_sockets_and_finish_their_own_checksums() {
    if !is_privileged("endpoints_speak_through_af_xdp_sockets_and_finish_their_own_checksums") {
        return;
    }
    let machine = Machine::new().await;
    let _left = Leftover(&machine);
    let (_agent, _controller, mut session) = begin(&machine, PortIo::Xdp).await;
    for number in [1, 2] {
        machine.plug(number).await;
    }
    let places = [(1, machine.beyond(1, "p1-far")), (2, machine.beyond(2, "p2-far"))];
    let leaves = |number: u8| {
        let interface = format!("p{number}-far");
        ethtool::leaves_checksums(machine.endpoint(number), &interface).unwrap()
    };
    assert!(leaves(1) && leaves(2), "as a veth is made");
    let (result, states) = session.send(packed_with(4, &places)).await;
    assert_eq!(result.refusal, "");
    let states = reasons(&states.unwrap());
    assert!(states.len() == 2 && states.values().all(String::is_empty), "{states:?}");
    assert!(!leaves(1) && !leaves(2));
    let shown = || Command::new("ip").args(["link", "show", "p1"]).output().unwrap();
    let shown = String::from_utf8(run_in(&machine.namespace, shown).unwrap().stdout).unwrap();
    assert!(shown.contains("xdp"), "{shown}");
    packets_pass_and_are_accounted_for(&machine, &mut session).await;

    assert_eq!(session.send(packed_with(5, &places[..1])).await.0.refusal, "");
    let begun = Instant::now();
    while !leaves(2) {
        assert!(begun.elapsed() < PATIENCE, "the function goes on finishing checksums");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!leaves(1));
}

#[tokio::test]
async fn endpoints_speak_through_taps_that_the_agent_has_made() {
    if !is_privileged("endpoints_speak_through_taps_that_the_agent_has_made") {
        return;
    }
    let machine = Machine::new().await;
    let _left = Leftover(&machine);
    let (_agent, _controller, mut session) = begin(&machine, PortIo::Tap).await;
    let places = [(1, machine.beyond(1, "t1")), (2, machine.beyond(2, "t2"))];
    let (result, states) = session.send(packed_with(4, &places)).await;
    assert_eq!(result.refusal, "");
    let states = reasons(&states.unwrap());
    assert!(states.len() == 2 && states.values().all(String::is_empty), "{states:?}");
    for number in [1, 2] {
        let links = Netlink::open(machine.endpoint(number)).unwrap();
        let made = links.existing(&format!("t{number}")).await.unwrap();
        assert_eq!((made.kind.as_str(), made.mac), ("tun", Some(mac(number).0)));
        links.add_address(&made.name, address(number).into(), 24).await.unwrap();
    }
    packets_pass_and_are_accounted_for(&machine, &mut session).await;

    assert_eq!(session.send(packed_with(5, &places[..1])).await.0.refusal, "");
    let links = Netlink::open(machine.endpoint(2)).unwrap();
    let begun = Instant::now();
    while links.link("t2").await.unwrap().is_some() {
        assert!(begun.elapsed() < PATIENCE, "the TAP of a port that left is still there");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_a_kind_of_port_cannot_serve_is_refused_with_what_to_do() {
    if !is_privileged("what_a_kind_of_port_cannot_serve_is_refused_with_what_to_do") {
        return;
    }
    let here = |interface: &str| {
        Attachment::Interface(InterfaceRef { namespace: None, interface: interface.into() })
    };
    for (io, attachment, word) in [
        (PortIo::Xdp, here("p1"), "name the function's namespace"),
        (PortIo::Tap, here("t1"), "name the namespace that it is for"),
        (PortIo::Tap, here("beyond"), "is a veth and no TAP"),
    ] {
        let machine = Machine::new().await;
        let _left = Leftover(&machine);
        let (_agent, _controller, mut session) = begin(&machine, io).await;
        machine.plug(1).await;
        let attachment = match attachment.name() {
            "beyond" => machine.beyond(1, "p1-far"),
            _ => attachment,
        };
        let (_, states) = session.send(packed_with(4, &[(1, attachment)])).await;
        let states = reasons(&states.unwrap());
        assert!(states.values().all(|reason| reason.contains(word)), "{word}: {states:?}");
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let controller = TestController::start(machine.listener(), Some(&authority));
    let mut config = machine.config(controller.address, &tls, &paths(machine.dir.path()));
    (config.port_io, config.uses_fast_path) = (PortIo::Xdp, true);
    let ended = machine.start_as(config).end();
    assert!(matches!(ended, Err(AgentError::PortsPastTheFastPath)), "{ended:?}");
}
