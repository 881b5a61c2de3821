//! Real UDP and TCP between S and D: through the function when a rule says so, else straight.

use crate::agent::{ATTACH_SEQUENCE, PATIENCE, TestAgent, place_of};
use crate::is_privileged;
use crate::node::{
    CHAIN_PORT, D, DESTINATION, F_IN, F_OUT, Machine, PLAIN_PORT, S, SOURCE, packed, port,
};
use catena_kernel::namespace::run_in;
use catena_model::NodeCounters;
use catena_model::account::{DataplaneLife, PortCounters};
use catena_model::id::PortId;
use catena_protocol::message::PortOperation;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const DATAGRAMS: u64 = 200;
/// Nobody listens here.
const NOBODY_PORT: u16 = 7_009;
const STREAM_BYTES: usize = 8 << 20;
/// With how many workers all of this holds.
const WORKERS: [usize; 2] = [1, 3];
const FLOWS: usize = 32;
/// Datagrams of each flow, and how many of them are on their way at one time.
const ROWS: u64 = 40;
const ROW: u64 = 8;

pub(crate) fn udp(
    place: &catena_kernel::namespace::NetNamespace,
    address: Ipv4Addr,
    port: u16,
) -> UdpSocket {
    let socket = run_in(place, || UdpSocket::bind((address, port))).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends numbered datagrams one by one and awaits each.
fn exchange(machine: &Machine, to: u16, count: u64) {
    let receiver = udp(&machine.destination.namespace, DESTINATION, to);
    let sender = udp(&machine.source.namespace, SOURCE, 0);
    for number in 0..count {
        sender.send_to(&number.to_be_bytes(), (DESTINATION, to)).unwrap();
        let mut bytes = [0; 64];
        let (length, from) = receiver.recv_from(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], number.to_be_bytes());
        assert_eq!(from.ip(), SOURCE);
    }
}

/// Sends rows of numbered datagrams in many flows at once; each flow's must come in order.
fn exchange_rows(machine: &Machine, to: u16) {
    let receiver = udp(&machine.destination.namespace, DESTINATION, to);
    let flow = |_| udp(&machine.source.namespace, SOURCE, 0);
    let senders: Vec<UdpSocket> = (0..FLOWS).map(flow).collect();
    let mut next: HashMap<u16, u64> = HashMap::new();
    for row in 0..ROWS {
        for number in row * ROW..(row + 1) * ROW {
            for sender in &senders {
                sender.send_to(&number.to_be_bytes(), (DESTINATION, to)).unwrap();
            }
        }
        for _ in 0..FLOWS as u64 * ROW {
            let mut bytes = [0; 8];
            let (_, from) = receiver.recv_from(&mut bytes).unwrap();
            let next = next.entry(from.port()).or_default();
            assert_eq!(u64::from_be_bytes(bytes), *next, "of the flow from {from}");
            *next += 1;
        }
    }
}

fn transfer(machine: &Machine, to: u16) {
    let bind = || TcpListener::bind((DESTINATION, to));
    let listener = run_in(&machine.destination.namespace, bind).unwrap().unwrap();
    let sent: Vec<u8> = (0..STREAM_BYTES).map(|n| (n % 251) as u8).collect();
    let connect = || TcpStream::connect((DESTINATION, to));
    let mut stream = run_in(&machine.source.namespace, connect).unwrap().unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stream.write_all(&sent).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        accepted.set_read_timeout(Some(PATIENCE)).unwrap();
        accepted.read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} bytes came, of {}", got.len(), sent.len());
    });
}

fn line(counters: &NodeCounters, id: PortId) -> &PortCounters {
    counters.ports.iter().find(|line| line.port == id).unwrap()
}

/// Counters once nothing moves any more, with every identity checked.
fn settled(agent: &mut TestAgent) -> NodeCounters {
    let begun = Instant::now();
    // Time goes on when nothing else does.
    let mut timeless = || NodeCounters { dataplane: DataplaneLife::default(), ..agent.counters() };
    let mut last = timeless();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = timeless();
        if now == last || begun.elapsed() > PATIENCE {
            break;
        }
        last = now;
    }
    for port in &last.ports {
        assert_eq!(port.account.unaccounted(), 0, "{port:#?}");
        assert_eq!(port.account.held, 0, "{port:#?}");
    }
    assert_eq!(last.tunnels.unaccounted(), 0);
    assert_eq!(last.ring_full(), 0);
    last
}

#[tokio::test]
async fn udp_passes_the_function_exactly_when_a_rule_says_so() {
    if !is_privileged("udp_passes_the_function_exactly_when_a_rule_says_so") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let (_dataplane, mut agent) = machine.start_whole(1, workers).await;
        exchange(&machine, PLAIN_PORT, DATAGRAMS);
        let plain = settled(&mut agent);
        assert_eq!(plain.chains[0].entered.packets, 0);
        let flooded = line(&plain, port(F_IN)).transmitted.packets;
        assert!(flooded < 10, "only questions for a MAC reach it: {plain:#?}");

        exchange(&machine, CHAIN_PORT, DATAGRAMS);
        let counters = settled(&mut agent);
        let chain = &counters.chains[0];
        assert_eq!(chain.entered.packets, DATAGRAMS, "{counters:#?}");
        assert_eq!(chain.finished.packets, DATAGRAMS);
        assert_eq!(chain.hops[0].delivered.packets, DATAGRAMS);
        assert_eq!(chain.hops[0].returned.packets, DATAGRAMS);
        assert!(chain.dropped.is_empty());
        let seen = machine.function.links.link("f0-far").await.unwrap().unwrap().statistics;
        assert!(seen.rx_packets >= DATAGRAMS, "{seen:?}");
        let seen = machine.node.links.link("d0").await.unwrap().unwrap().statistics;
        assert_eq!(seen.tx_packets, line(&counters, port(D)).transmitted.packets);
    }
}

#[tokio::test]
async fn tcp_super_frames_pass_whole_with_and_without_the_chain() {
    if !is_privileged("tcp_super_frames_pass_whole_with_and_without_the_chain") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let (_dataplane, mut agent) = machine.start_whole(1, workers).await;
        transfer(&machine, PLAIN_PORT);
        assert_eq!(settled(&mut agent).chains[0].entered.packets, 0);
        transfer(&machine, CHAIN_PORT);
        let counters = settled(&mut agent);
        let chain = &counters.chains[0];
        let wire_packets = (STREAM_BYTES / 1_400) as u64;
        assert!(chain.entered.packets >= wire_packets, "{chain:#?}");
        assert_eq!(chain.entered.packets, chain.hops[0].delivered.packets, "{counters:#?}");
        assert_eq!(chain.hops[0].returned.packets, chain.finished.packets);
        let frames = machine.function.links.link("f0-far").await.unwrap().unwrap().statistics;
        assert!(frames.rx_packets < wire_packets, "super-frames were cut: {frames:?}");
    }
}

#[tokio::test]
async fn a_lost_agent_changes_nothing_and_the_next_one_adopts() {
    if !is_privileged("a_lost_agent_changes_nothing_and_the_next_one_adopts") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let (_dataplane, first) = machine.start_whole(3, workers).await;
        exchange(&machine, CHAIN_PORT, 10);
        drop(first);
        exchange(&machine, CHAIN_PORT, 10);

        let mut second = TestAgent::connect(&machine.socket_path());
        let state = second.state();
        assert_eq!((state.node.as_str(), state.program_number), ("host1", 3));
        let place = |port: PortId| (port.to_string(), place_of(port));
        assert_eq!(state.places, [S, D, F_IN, F_OUT].map(|end| place(port(end))).into());
        assert_eq!(state.attached_ports.len(), 4);
        assert_eq!(state.process_id, std::process::id());

        let mut third = TestAgent::connect(&machine.socket_path());
        assert_eq!(third.state().program_number, 3);
        assert!(second.hear().is_none(), "a new agent takes the place of the old one");
        exchange(&machine, CHAIN_PORT, 10);
        assert_eq!(settled(&mut third).chains[0].finished.packets, 30);
    }
}

#[tokio::test]
async fn ports_may_come_before_their_program_and_long_after_it() {
    if !is_privileged("ports_may_come_before_their_program_and_long_after_it") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let _dataplane = machine.start_with(workers);
        let mut agent = TestAgent::connect(&machine.socket_path());
        let early = machine.packet_socket(S).await;
        assert_eq!(agent.attach(port(S), &early), "");
        assert_eq!(agent.offer(packed(1)), "");
        for place in [F_IN, F_OUT] {
            let socket = machine.packet_socket(place).await;
            assert_eq!(agent.attach(port(place), &socket), "");
        }
        let sender = udp(&machine.source.namespace, SOURCE, 0);
        sender.send_to(b"to nobody", (DESTINATION, NOBODY_PORT)).unwrap();
        let late = machine.packet_socket(D).await;
        assert_eq!(agent.attach(port(D), &late), "");
        exchange(&machine, PLAIN_PORT, 10);
        exchange(&machine, CHAIN_PORT, 10);
        settled(&mut agent);
    }
}

#[tokio::test]
async fn a_port_without_its_interface_is_reported_and_may_come_back() {
    if !is_privileged("a_port_without_its_interface_is_reported_and_may_come_back") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let (_dataplane, mut agent) = machine.start_whole(1, workers).await;
        exchange(&machine, PLAIN_PORT, 10);
        machine.node.links.delete_link("d0").await.unwrap();
        let reason = agent.port_result(port(D), PortOperation::InterfaceGone, ATTACH_SEQUENCE);
        assert!(reason.contains("interface is gone"), "{reason}");
        assert_eq!(agent.state().attached_ports.len(), 3);

        machine.plug(D).await;
        let again = machine.packet_socket(D).await;
        assert_eq!(agent.attach(port(D), &again), "");
        exchange(&machine, PLAIN_PORT, 10);
        exchange(&machine, CHAIN_PORT, 10);
        settled(&mut agent);

        assert_eq!(agent.detach(port(D)), "");
        assert!(agent.detach(port(D)).contains("not attached"));
        assert!(agent.attach_nothing(port(D)).contains("did not come"));
    }
}

#[tokio::test]
async fn a_program_exchanged_under_traffic_loses_no_packet() {
    if !is_privileged("a_program_exchanged_under_traffic_loses_no_packet") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let (_dataplane, mut agent) = machine.start_whole(1, workers).await;
        std::thread::scope(|scope| {
            let traffic = scope.spawn(|| exchange(&machine, CHAIN_PORT, 500));
            let mut number = 1;
            while !traffic.is_finished() {
                number += 1;
                assert_eq!(agent.offer(packed(number)), "");
            }
            traffic.join().unwrap();
        });
        assert_eq!(settled(&mut agent).chains[0].finished.packets, 500);
    }
}

#[tokio::test]
async fn flows_are_shared_among_workers_and_keep_their_order_while_programs_change() {
    if !is_privileged("flows_are_shared_among_workers_and_keep_their_order_while_programs_change") {
        return;
    }
    for workers in WORKERS {
        let machine = Machine::new().await;
        let (_dataplane, mut agent) = machine.start_whole(1, workers).await;
        // Kernels queue few packets for a neighbour that they do not know yet.
        exchange(&machine, CHAIN_PORT, 1);
        std::thread::scope(|scope| {
            let traffic = scope.spawn(|| exchange_rows(&machine, CHAIN_PORT));
            let mut number = 1;
            while !traffic.is_finished() {
                number += 1;
                assert_eq!(agent.offer(packed(number)), "");
                let counters = agent.counters();
                assert_eq!(counters.total().unaccounted(), 0, "{counters:#?}");
            }
            traffic.join().unwrap();
        });
        let counters = settled(&mut agent);
        let chain = &counters.chains[0];
        let sent = 1 + FLOWS as u64 * ROWS * ROW;
        assert_eq!((chain.entered.packets, chain.finished.packets), (sent, sent));
        assert_eq!(chain.hops[0].delivered, chain.hops[0].returned);
        assert_eq!(chain.dropped.values().sum::<u64>(), 0);
    }
}
