//! How a port's interface is left: closed, whoever attached it, before anything else may see it.

use crate::authority::Authority;
use crate::controller::{PATIENCE, TestController, reasons};
use crate::dataplane::{Book, TestDataplane, paths};
use crate::machine::{Machine, is_privileged};
use crate::programs::{interface, packed, packed_at, port};
use catena_kernel::namespace::run_in;
use catena_kernel::tc;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

// linux/rtnetlink.h
const NEW_LINK: u16 = 16;
const DELETED_FILTER: u16 = 45;
const LINK_AND_TC_GROUPS: u32 = 0x01 | 0x08;
const HEADER_BYTES: usize = 16;
const IS_UP: u32 = 1;

/// What the kernel told of an interface.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Down(u32),
    FilterGone(u32),
}

/// Hears of links and filters of a machine's node, in the order in which they change.
fn listen(machine: &Machine) -> OwnedFd {
    let open = || {
        // No protocol: that of routes, links and filters (NETLINK_ROUTE).
        let flags = SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, LINK_AND_TC_GROUPS))?;
        Ok::<_, rustix::io::Errno>(socket)
    };
    run_in(&machine.namespace, open).unwrap().unwrap()
}

/// All that was told until now.
fn heard(socket: &OwnedFd) -> Vec<Told> {
    let mut told = Vec::new();
    let mut bytes = [0; 65_536];
    while let Ok((length, _)) = recv(socket, &mut bytes, RecvFlags::empty()) {
        let mut rest = &bytes[..length];
        while rest.len() > HEADER_BYTES {
            let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
            let (size, kind) = (word(0) as usize, word(4) as u16);
            let (interface, flags) = (word(HEADER_BYTES + 4), word(HEADER_BYTES + 8));
            match kind {
                NEW_LINK if flags & IS_UP == 0 => told.push(Told::Down(interface)),
                DELETED_FILTER => told.push(Told::FilterGone(interface)),
                _ => {}
            }
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    told
}

#[tokio::test]
async fn what_leaves_goes_down_before_its_filter_does() {
    if !is_privileged("what_leaves_goes_down_before_its_filter_does") {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let _dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    machine.plug(1).await;
    let _agent = machine.start(controller.address, &tls, &paths(machine.dir.path()));
    let (mut session, _) = controller.welcome().await;
    let (_, states) = session.send(packed(4, &[1])).await;
    assert!(reasons(&states.unwrap()).values().all(String::is_empty));

    let socket = listen(&machine);
    assert_eq!(session.send(packed(5, &[])).await.0.refusal, "");
    wait_closed(&machine, "p1").await;
    let interface = machine.links.existing("p1").await.unwrap().index;
    let told = heard(&socket);
    let place = |what: &Told| told.iter().position(|told| told == what);
    let (down, free) = (place(&Told::Down(interface)), place(&Told::FilterGone(interface)));
    assert!(down.is_some() && free.is_some(), "{told:?}");
    assert!(down < free, "while it was up the host's stack had no filter before it: {told:?}");
}

#[tokio::test]
async fn a_port_that_was_bound_elsewhere_while_no_agent_lived_is_given_back_and_attached_anew() {
    if !is_privileged(
        "a_port_that_was_bound_elsewhere_while_no_agent_lived_is_given_back_and_attached_anew",
    ) {
        return;
    }
    let machine = Machine::new().await;
    let authority = Authority::new();
    let tls = authority.enroll("host1", machine.dir.path());
    let dataplane = TestDataplane::start(machine.dir.path(), Book::default());
    let mut controller = TestController::start(machine.listener(), Some(&authority));
    let paths = paths(machine.dir.path());
    for number in [1, 2, 3] {
        machine.plug_as(number.min(2), &interface(number)).await;
    }
    let address = controller.address;
    let start = || machine.start(address, &tls, &paths);
    let agent = start();
    let (mut session, _) = controller.welcome().await;
    let (_, states) = session.send(packed_at(4, &[(1, "p1"), (2, "p2")])).await;
    assert!(reasons(&states.unwrap()).values().all(String::is_empty));
    // The data plane takes another binding, and the agent dies before it says what leaves.
    drop(agent);
    dataplane.book.lock().unwrap().running = packed_at(5, &[(1, "p3"), (2, "p2")]);

    let agent = start();
    let (mut session, _) = controller.welcome().await;
    session.until(|states| states.len() == 2 && states.values().all(String::is_empty)).await;
    let (moved, place) = (port(1).to_string(), machine.place("p3").await);
    {
        let book = dataplane.book.lock().unwrap();
        assert_eq!(book.places[&moved], place);
        assert_eq!(
            book.detached,
            std::slice::from_ref(&moved),
            "the other has what it is bound to"
        );
        assert_eq!(book.ports, [port(2).to_string(), moved.clone()]);
    }
    wait_closed(&machine, "p1").await;
    for interface in ["p2", "p3"] {
        let link = machine.links.existing(interface).await.unwrap();
        assert!(link.is_up && tc::is_swallowing(&machine.links, link.index).await.unwrap());
    }

    // What left the program while no agent lived is given back too.
    drop(agent);
    dataplane.book.lock().unwrap().running = packed_at(6, &[(1, "p3")]);
    let _agent = start();
    wait_closed(&machine, "p2").await;
    assert_eq!(dataplane.book.lock().unwrap().detached, [moved, port(2).to_string()]);
}

/// Waits until an interface is down and free of ours.
async fn wait_closed(machine: &Machine, interface: &str) {
    let begun = Instant::now();
    loop {
        let link = machine.links.existing(interface).await.unwrap();
        if !link.is_up && !tc::is_swallowing(&machine.links, link.index).await.unwrap() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{interface} stays as a port has it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
