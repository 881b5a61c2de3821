//! The agent between a controller and a data plane that are both played by the test.

use crate::authority::Authority;
use crate::controller::{TestController, reasons};
use crate::dataplane::{Book, TestDataplane, paths};
use crate::machine::{Machine, is_privileged};
use crate::programs::{change, interface, packed, packed_at, port};
use catena_agent::AgentError;
use catena_kernel::sysctl;
use catena_model::entry::Change;
use catena_protocol::PROTOCOL_VERSION;
use catena_protocol::message::{Delta, from_agent};
use std::time::Duration;

/// Time in which an agent tries several times to get in.
const SEVERAL_ATTEMPTS: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_program_is_acknowledged_after_the_state_of_its_ports_is_told() {
    if !is_privileged("a_program_is_acknowledged_after_the_state_of_its_ports_is_told") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));

    let (mut session, hello) = controller.welcome().await;
    assert_eq!((hello.node.as_str(), hello.program_number), ("host1", 0));
    assert_eq!((hello.underlay_address.as_str(), hello.underlay_mtu), ("192.0.2.1", 1_500));

    machine.plug(1).await;
    let (result, states) = session.send(packed(1, &[1, 2])).await;
    assert_eq!((result.number, result.refusal.as_str()), (1, ""));
    let states = reasons(&states.unwrap());
    assert_eq!(states[&port(1).to_string()], "");
    assert!(states[&port(2).to_string()].contains("does not exist yet"), "{states:?}");
    assert_eq!(dataplane.book.lock().unwrap().ports, [port(1).to_string()]);

    // Late, and told without being asked.
    machine.plug(2).await;
    session.until(|states| states[&port(2).to_string()].is_empty()).await;

    // Gone, and back.
    dataplane.lose(&port(1).to_string());
    session.until(|states| states[&port(1).to_string()].contains("is gone")).await;
    session.until(|states| states[&port(1).to_string()].is_empty()).await;

    // A port that leaves the program is given back to the host.
    let ifindex = machine.links.link(&interface(2)).await.unwrap().unwrap().index;
    assert!(catena_kernel::tc::is_swallowing(&machine.links, ifindex).await.unwrap());
    let (result, states) = session.send(packed(2, &[1])).await;
    assert_eq!(result.refusal, "");
    assert_eq!(states.unwrap().ports.len(), 1);
    while catena_kernel::tc::is_swallowing(&machine.links, ifindex).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(dataplane.book.lock().unwrap().ports, [port(1).to_string()]);
}

#[tokio::test]
async fn older_and_foreign_programs_never_reach_the_data_plane() {
    if !is_privileged("older_and_foreign_programs_never_reach_the_data_plane") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    assert_eq!(session.send(packed(5, &[])).await.0.refusal, "");
    assert!(session.send(packed(4, &[])).await.0.refusal.contains("older than program 5"));
    let foreign = Delta { node: "host2".into(), ..change(&packed(5, &[]), &packed(6, &[])) };
    assert!(session.deliver(foreign).await.0.refusal.contains("is for node 'host2'"));
    assert_eq!(session.send(packed(5, &[])).await.0.refusal, "", "the same again");

    dataplane.book.lock().unwrap().refusal = "the disk is full".into();
    let (result, _) = session.send(packed(7, &[])).await;
    assert_eq!((result.number, result.refusal.as_str()), (7, "the disk is full"));
    assert_eq!(dataplane.book.lock().unwrap().offered[..3], [5, 5, 7]);
    assert_eq!(session.counters(31).await.ports, []);
}

#[tokio::test]
async fn a_controller_that_returns_is_found_and_told_what_runs() {
    if !is_privileged("a_controller_that_returns_is_found_and_told_what_runs") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let _dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let address = controller.address;
    let _agent = machine.start(address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    assert_eq!(session.send(packed(3, &[])).await.0.refusal, "");
    drop(session);
    controller.stop().await;

    let mut returned = TestController::start(machine.listener_at(address), Some(&authority));
    let (mut session, hello) = returned.welcome().await;
    assert_eq!(hello.program_number, 3);
    assert!(matches!(session.hear().await, from_agent::Message::PortStates(_)));
    assert_eq!(session.send(packed(4, &[])).await.0.refusal, "");
}

#[tokio::test]
async fn of_a_data_plane_that_lost_its_program_the_controller_hears() {
    if !is_privileged("of_a_data_plane_that_lost_its_program_the_controller_hears") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    machine.plug(1).await;
    assert_eq!(session.send(packed(3, &[1])).await.0.refusal, "");

    dataplane.kill().await;
    let empty = TestDataplane::start(machine.dir.path(), Book::default());
    // The session that told the old state ends; the new one tells the truth.
    assert!(session.is_over().await);
    let (mut session, hello) = controller.welcome().await;
    assert_eq!((hello.program_number, hello.program_digest), (0, 0));
    let (result, states) = session.send(packed(3, &[1])).await;
    assert_eq!(result.refusal, "");
    assert_eq!(reasons(&states.unwrap())[&port(1).to_string()], "");
    let book = empty.book.lock().unwrap();
    assert_eq!((book.offered.as_slice(), book.ports.len()), ([3].as_slice(), 1));
}

#[tokio::test]
async fn a_change_of_what_does_not_run_is_answered_with_the_wish_for_the_whole() {
    if !is_privileged("a_change_of_what_does_not_run_is_answered_with_the_wish_for_the_whole") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let book = Book { running: packed(8, &[]), ..Book::default() };
    let _dataplane = TestDataplane::start(machine.dir.path(), book);
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, hello) = controller.welcome().await;
    let running = packed(8, &[]);
    assert_eq!((hello.program_number, hello.program_digest), (8, running.digest.0));
    assert!(session.send(packed(7, &[])).await.0.refusal.contains("older than program 8"));
    let (result, _) = session.deliver(change(&packed(6, &[]), &packed(9, &[]))).await;
    assert!(result.needs_whole, "{result:?}");
    let (result, _) = session.deliver(change(&running, &packed(9, &[]))).await;
    assert_eq!((result.refusal.as_str(), result.needs_whole), ("", false));
}

#[tokio::test]
async fn a_change_comes_part_by_part_and_moves_only_the_ports_that_it_names() {
    if !is_privileged("a_change_comes_part_by_part_and_moves_only_the_ports_that_it_names") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    for number in [1, 2] {
        machine.plug(number).await;
    }
    let (one, both) = (packed(1, &[1]), packed(2, &[1, 2]));
    assert_eq!(session.send(one.clone()).await.0.refusal, "");

    let all = change(&one, &both);
    let edits = Change::read_all(&all.changes, 100).unwrap();
    let (last, others) = edits.split_last().unwrap();
    for edit in others {
        let part = Delta { changes: edit.bytes(), is_last: false, ..all.clone() };
        let (result, states) = session.deliver(part).await;
        assert!(result.is_part && states.is_none(), "{result:?}");
    }
    assert_eq!(dataplane.book.lock().unwrap().ports, [port(1).to_string()], "not yet");
    let (result, states) = session.deliver(Delta { changes: last.bytes(), ..all }).await;
    assert!(result.refusal.is_empty() && !result.is_part, "{result:?}");
    let states = reasons(&states.unwrap());
    assert!(states.len() == 2 && states.values().all(String::is_empty), "{states:?}");

    assert_eq!(session.deliver(change(&both, &packed(3, &[2]))).await.0.refusal, "");
    session.counters(1).await;
    let book = dataplane.book.lock().unwrap();
    assert_eq!(book.detached, [port(1).to_string()]);
    assert_eq!(book.ports, [port(2).to_string()]);
}

#[tokio::test]
async fn ports_of_which_the_data_plane_says_what_nobody_can_read_stay_as_they_are() {
    if !is_privileged("ports_of_which_the_data_plane_says_what_nobody_can_read_stay_as_they_are") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    for number in [1, 2] {
        machine.plug(number).await;
    }
    assert_eq!(session.send(packed(1, &[1])).await.0.refusal, "");
    dataplane.book.lock().unwrap().is_unreadable = true;
    assert_eq!(session.send(packed(2, &[1, 2])).await.0.refusal, "");
    session.counters(1).await;
    let book = dataplane.book.lock().unwrap();
    assert_eq!((book.ports.len(), book.detached.len()), (1, 0));
}

#[tokio::test]
async fn a_data_plane_with_another_program_of_the_same_number_ends_the_session() {
    if !is_privileged("a_data_plane_with_another_program_of_the_same_number_ends_the_session") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    assert_eq!(session.send(packed(3, &[])).await.0.refusal, "");
    dataplane.kill().await;
    let other = packed(3, &[1]);
    let book = Book { running: other.clone(), ..Book::default() };
    let _other = TestDataplane::start(machine.dir.path(), book);
    assert!(session.is_over().await);
    let (_session, hello) = controller.welcome().await;
    assert_eq!((hello.program_number, hello.program_digest), (3, other.digest.0));
}

#[tokio::test]
async fn a_refused_program_is_offered_again_until_it_runs() {
    if !is_privileged("a_refused_program_is_offered_again_until_it_runs") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let full = Book { refusal: "the disk is full".into(), ..Book::default() };
    let dataplane = TestDataplane::start(machine.dir.path(), full);
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    assert_eq!(session.send(packed(7, &[])).await.0.refusal, "the disk is full");
    dataplane.book.lock().unwrap().refusal.clear();
    let result = session.result().await;
    assert_eq!((result.number, result.refusal.as_str()), (7, ""));
}

#[tokio::test]
async fn a_data_plane_that_is_gone_leaves_no_port_bound() {
    if !is_privileged("a_data_plane_that_is_gone_leaves_no_port_bound") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    machine.plug(1).await;
    let (_, states) = session.send(packed(3, &[1, 2])).await;
    assert_eq!(reasons(&states.unwrap())[&port(1).to_string()], "");
    dataplane.kill().await;
    let is_told = |reason: &String| reason.contains("data plane") && reason.contains("not run");
    session.until(|states| states.len() == 2 && states.values().all(is_told)).await;
}

#[tokio::test]
async fn a_new_agent_leaves_the_ports_of_the_running_program_alone() {
    if !is_privileged("a_new_agent_leaves_the_ports_of_the_running_program_alone") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let mut book = Book { running: packed(8, &[1, 2]), ..Book::default() };
    for number in [1, 2] {
        machine.plug(number).await;
        let id = port(number).to_string();
        book.places.insert(id.clone(), machine.place(&interface(number)).await);
        book.ports.push(id);
    }
    let dataplane = TestDataplane::start(machine.dir.path(), book);
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    session.until(|states| states.len() == 2 && states.values().all(String::is_empty)).await;
    assert_eq!(dataplane.book.lock().unwrap().detached, [""; 0], "packets flow");

    // What the next program does not name goes.
    assert_eq!(session.send(packed(9, &[1])).await.0.refusal, "");
    session.counters(1).await;
    assert_eq!(dataplane.book.lock().unwrap().detached, [port(2).to_string()]);
}

#[tokio::test]
async fn an_interface_that_carries_an_address_of_the_host_is_left_to_it() {
    if !is_privileged("an_interface_that_carries_an_address_of_the_host_is_left_to_it") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let _dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    for number in [1, 2] {
        machine.plug(number).await;
    }
    machine.links.add_address("p1", "198.51.100.7".parse().unwrap(), 24).await.unwrap();
    machine.links.add_address("p2", "169.254.3.4".parse().unwrap(), 16).await.unwrap();
    let (_, states) = session.send(packed_at(1, &[(1, "p1"), (2, "p2"), (3, "lo")])).await;
    let states = reasons(&states.unwrap());
    let [first, second, third] = [1, 2, 3].map(|number| &states[&port(number).to_string()]);
    assert!(first.contains("198.51.100.7"), "{first}");
    assert_eq!(second, "");
    assert!(third.contains("loopback"), "{third}");
    for interface in ["p1", "lo"] {
        let ifindex = machine.links.link(interface).await.unwrap().unwrap().index;
        assert!(!catena_kernel::tc::is_swallowing(&machine.links, ifindex).await.unwrap());
    }
}

#[tokio::test]
async fn the_hosts_stack_says_nothing_of_its_own_on_a_port() {
    if !is_privileged("the_hosts_stack_says_nothing_of_its_own_on_a_port") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let _dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    let place = &machine.namespace;
    sysctl::write_in(place, "net/ipv6/conf/default/disable_ipv6", "0").unwrap();
    machine.plug(1).await;
    let is_silent = || sysctl::read_in(place, "net/ipv6/conf/p1/disable_ipv6").unwrap() == "1";
    assert!(!is_silent());
    assert_eq!(session.send(packed(1, &[1])).await.0.refusal, "");
    assert!(is_silent());
    // Given back, it speaks again.
    assert_eq!(session.send(packed(2, &[])).await.0.refusal, "");
    while is_silent() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn nobody_but_the_controller_of_its_own_authority_is_listened_to() {
    if !is_privileged("nobody_but_the_controller_of_its_own_authority_is_listened_to") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let _dataplane = TestDataplane::start(machine.dir.path(), Book::default());

    let mut plain = TestController::start(machine.listener(), None);
    let agent = machine.start(plain.address, &tls, &paths(machine.dir.path()));
    assert!(plain.stays_alone(SEVERAL_ATTEMPTS).await, "plain text");
    drop(agent);

    let mut stranger = TestController::start(machine.listener(), Some(&Authority::new()));
    let agent = machine.start(stranger.address, &tls, &paths(machine.dir.path()));
    assert!(stranger.stays_alone(SEVERAL_ATTEMPTS).await, "another authority");
    drop(agent);

    let mut own = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(own.address, &tls, &paths(machine.dir.path()));
    own.welcome().await;
}

#[tokio::test]
async fn an_agent_without_certificates_does_not_start() {
    if !is_privileged("an_agent_without_certificates_does_not_start") {
        return;
    }
    let machine = Machine::new().await;
    let mut tls = Authority::new().enroll("host1", machine.dir.path());
    tls.key = machine.dir.path().join("missing.key");
    let address = "127.0.0.1:1".parse().unwrap();
    let agent = machine.start(address, &tls, &paths(machine.dir.path()));
    let error = agent.end().unwrap_err();
    assert!(matches!(error, AgentError::TlsFile { .. }));
    assert!(error.to_string().contains("missing.key"), "{error}");
}

#[tokio::test]
async fn a_data_plane_of_another_version_is_told_nothing() {
    if !is_privileged("a_data_plane_of_another_version_is_told_nothing") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let book = Book { version: Some(PROTOCOL_VERSION - 1), ..Book::default() };
    let dataplane = TestDataplane::start(machine.dir.path(), book);
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    assert!(controller.stays_alone(Duration::from_secs(1)).await, "nobody knows what runs");
    assert!(dataplane.book.lock().unwrap().underlay_devices.is_empty());
    dataplane.book.lock().unwrap().version = None;
    controller.welcome().await;
}
