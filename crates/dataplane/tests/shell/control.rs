//! Programs and the control socket: what is taken, what is refused, what survives.

use crate::agent::{PATIENCE, TestAgent};
use crate::is_privileged;
use crate::node::{Dataplane, Machine, UNDERLAY, packed, program, whole};
use catena_dataplane::engine::TunnelKind;
use catena_dataplane::shell::DataplaneError;
use catena_kernel::namespace::run_in;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, NodeName};
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

#[tokio::test]
async fn an_older_program_is_refused_and_the_same_is_acknowledged_again() {
    if !is_privileged("an_older_program_is_refused_and_the_same_is_acknowledged_again") {
        return;
    }
    let machine = Machine::new().await;
    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_number, 0);
    assert_eq!(agent.offer(packed(5)), "");
    assert!(agent.offer(packed(4)).contains("older than program 5"));
    assert_eq!(agent.offer(packed(5)), "");
    assert_eq!(agent.state().program_number, 5);
    drop(agent);
    dataplane.stop();

    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_number, 5, "the last program runs at once");
    assert!(agent.offer(packed(4)).contains("older"), "also after a restart");
    assert_eq!(agent.offer(packed(6)), "");
}

#[tokio::test]
async fn what_cannot_run_is_refused_with_its_reason_and_the_former_goes_on() {
    if !is_privileged("what_cannot_run_is_refused_with_its_reason_and_the_former_goes_on") {
        return;
    }
    let machine = Machine::new().await;
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(packed(1)), "");

    let mut torn = packed(2);
    *torn[0].changes.last_mut().unwrap() ^= 1;
    assert!(agent.offer(torn).contains("not program 2 as its controller has it"));

    let mut foreign = program(2);
    foreign.node = NodeName::new("host9").unwrap();
    assert!(agent.offer(whole(&foreign)).contains("is for node 'host9'"));

    // A draft that cannot be written stands for a full disk.
    let draft = machine.state_dir().join("program.log.draft");
    fs::create_dir(&draft).unwrap();
    let refusal = agent.offer(packed(3));
    assert!(refusal.contains("cannot write") && refusal.contains("make room"), "{refusal}");
    assert_eq!(agent.state().program_number, 1);
    fs::remove_dir(&draft).unwrap();
    assert_eq!(agent.offer(packed(3)), "");
}

#[tokio::test]
async fn tunnels_whose_address_comes_late_are_opened_then() {
    if !is_privileged("tunnels_whose_address_comes_late_are_opened_then") {
        return;
    }
    let machine = Machine::new().await;
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    let late: IpAddr = [203, 0, 113, 9].into();
    // First program, and one after another: either way the ports of the node are served at once.
    for (number, address) in [(1, late), (2, UNDERLAY), (3, late)] {
        let mut program = program(number);
        program.underlay.address = address;
        assert_eq!(agent.offer(whole(&program)), "");
        assert_eq!(agent.state().program_number, number);
    }
    // These data planes say that they have no sandbox, too.
    let mut is_told = || {
        let troubles = agent.counters().dataplane.troubles;
        troubles.iter().any(|one| one.contains("203.0.113.9"))
    };
    assert!(is_told(), "nobody hears of the address");
    machine.node.links.add_address("lo", late, 32).await.unwrap();
    let begun = Instant::now();
    let is_open = || {
        let bind = || UdpSocket::bind((late, TunnelKind::Path(Encapsulation::Nsh).udp_port()));
        let bound = run_in(&machine.node.namespace, bind).unwrap();
        bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
    };
    while !is_open() {
        assert!(begun.elapsed() < PATIENCE, "the tunnels stay closed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while is_told() {
        assert!(begun.elapsed() < PATIENCE, "the trouble is over and still told");
    }
}

/// Datagrams from the node itself to its tunnels; answers how many each reason has dropped then.
fn knock(machine: &Machine, agent: &mut TestAgent) -> (u64, u64) {
    let socket = run_in(&machine.node.namespace, || UdpSocket::bind((UNDERLAY, 0)));
    let socket = socket.unwrap().unwrap();
    let before = agent.counters().tunnels.dropped_total();
    for kind in TunnelKind::ALL {
        socket.send_to(&[8, 0, 0, 0, 0, 0, 1, 0], (UNDERLAY, kind.udp_port())).unwrap();
    }
    let begun = Instant::now();
    loop {
        let account = agent.counters().tunnels;
        if account.dropped_total() == before + TunnelKind::ALL.len() as u64 {
            assert_eq!(account.unaccounted(), 0, "{account:?}");
            let of = |reason| account.dropped.get(&reason).copied().unwrap_or_default();
            return (of(DropReason::ForeignDevice), of(DropReason::UnknownTunnelSource));
        }
        assert!(begun.elapsed() < PATIENCE, "{account:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn tunnels_take_from_no_device_before_one_is_named_also_after_a_restart() {
    if !is_privileged("tunnels_take_from_no_device_before_one_is_named_also_after_a_restart") {
        return;
    }
    const LOOPBACK: u32 = 1;
    let machine = Machine::new().await;
    let dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(packed(1)), "");
    assert_eq!(knock(&machine, &mut agent), (3, 0), "nobody named a device");
    agent.tell_underlay_devices(vec![LOOPBACK + 1]);
    assert_eq!(knock(&machine, &mut agent), (6, 0), "another was named");
    agent.tell_underlay_devices(vec![LOOPBACK + 1, LOOPBACK]);
    assert_eq!(knock(&machine, &mut agent), (6, 3), "its sender is looked at");
    dataplane.stop();

    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_number, 1);
    assert_eq!(knock(&machine, &mut agent), (3, 0), "the program runs, and nobody named a device");
    agent.tell_underlay_devices(vec![LOOPBACK]);
    assert_eq!(knock(&machine, &mut agent), (3, 3));
}

#[tokio::test]
async fn a_corrupt_program_file_starts_an_empty_data_plane_that_takes_a_new_one() {
    if !is_privileged("a_corrupt_program_file_starts_an_empty_data_plane_that_takes_a_new_one") {
        return;
    }
    let machine = Machine::new().await;
    let dataplane = machine.start();
    assert_eq!(TestAgent::connect(&machine.socket_path()).offer(packed(5)), "");
    dataplane.stop();
    let file = machine.state_dir().join("program.log");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&file, bytes).unwrap();

    let _restarted = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.state().program_number, 0);
    assert_eq!(agent.offer(packed(5)), "");
}

#[tokio::test]
async fn an_agent_out_of_step_loses_its_connection_and_nothing_else() {
    if !is_privileged("an_agent_out_of_step_loses_its_connection_and_nothing_else") {
        return;
    }
    let machine = Machine::new().await;
    let _dataplane = machine.start();
    let mut agent = TestAgent::connect(&machine.socket_path());
    assert_eq!(agent.offer(packed(1)), "");
    agent.send_bytes(&[0xff; 64]);
    assert!(agent.hear().is_none());
    assert_eq!(TestAgent::connect(&machine.socket_path()).state().program_number, 1);
}

#[tokio::test]
async fn a_node_has_one_data_plane() {
    if !is_privileged("a_node_has_one_data_plane") {
        return;
    }
    let machine = Machine::new().await;
    let _first = machine.start();
    TestAgent::connect(&machine.socket_path());
    let namespace = &machine.node.namespace;
    let elsewhere = machine.dir.path().join("elsewhere");
    let second = Dataplane::start(namespace, &machine.socket_path(), &elsewhere, 1);
    assert!(matches!(second.end(), Err(DataplaneError::ControlSocket(_))));
    let second = Dataplane::start(namespace, &elsewhere.join("control"), &machine.state_dir(), 1);
    assert!(matches!(second.end(), Err(DataplaneError::ControlSocket(_))));
}
