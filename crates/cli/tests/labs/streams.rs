//! TCP through chains: bytes of a known pattern, checked at the far end, so that cut and merged
//! super-frames prove themselves.

use crate::account;
use crate::house::{House, in_shared_house};
use crate::node::Node;
use crate::patience::{LIMIT, is_full};
use crate::traffic::{Family, address};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PORT: u16 = 5_040;
/// A prime, so that no boundary of a segment repeats in the pattern.
const PATTERN_BYTES: usize = 65_521;
/// Tenant packet of 1,400 bytes with the largest TCP header.
const SEGMENT_PAYLOAD_BYTES_MAX: u64 = 1_360;

/// A byte by its place: any shift, loss or doubling shows.
fn pattern() -> Vec<u8> {
    let byte = |place: usize| (place.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0];
    (0..PATTERN_BYTES).map(byte).collect()
}

/// Sends for a while and answers how many bytes the far end has read and found right.
pub(crate) fn stream(from: &Node, to: &Node, address: SocketAddr, time: Duration) -> u64 {
    let start = Instant::now();
    stream_with(from, to, address, None, || start.elapsed() < time)
}

/// Sends a little, again and again, for as long as it is wanted.
pub(crate) fn stream_while(
    from: &Node,
    to: &Node,
    address: SocketAddr,
    is_wanted: impl Fn() -> bool,
) -> u64 {
    const REST: Duration = Duration::from_millis(10);
    stream_with(from, to, address, Some(REST), is_wanted)
}

/// Sends for as long as it is wanted, with a rest behind each piece.
pub(crate) fn stream_with(
    from: &Node,
    to: &Node,
    address: SocketAddr,
    rest: Option<Duration>,
    is_wanted: impl Fn() -> bool,
) -> u64 {
    let listener = to.inside(|| TcpListener::bind(address)).expect("a free port");
    let reader = std::thread::spawn(move || read_pattern(&listener));
    let mut socket = from
        .inside(|| TcpStream::connect_timeout(&address, LIMIT))
        .expect("a connection through the chain");
    socket.set_write_timeout(Some(LIMIT)).expect("a timeout");
    let pattern = pattern();
    let mut sent = 0;
    while is_wanted() {
        socket.write_all(&pattern).expect("the stream moves");
        sent += pattern.len() as u64;
        if let Some(rest) = rest {
            std::thread::sleep(rest);
        }
    }
    socket.shutdown(Shutdown::Write).expect("the end leaves");
    let read = reader.join().expect("the reader ends");
    assert_eq!(read, sent);
    read
}

fn read_pattern(listener: &TcpListener) -> u64 {
    let (mut socket, _) = listener.accept().expect("a connection");
    socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let pattern = pattern();
    let mut bytes = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        let length = socket.read(&mut bytes).expect("the stream moves");
        if length == 0 {
            return total as u64;
        }
        let mut checked = 0;
        while checked < length {
            let place = total % PATTERN_BYTES;
            let part = (PATTERN_BYTES - place).min(length - checked);
            let is_right = bytes[checked..checked + part] == pattern[place..place + part];
            assert!(is_right, "wrong bytes after {total}");
            checked += part;
            total += part;
        }
    }
}

fn document(encapsulation: &str, family: Family, to: &str, functions: &[&str]) -> Value {
    let steps: Vec<Value> =
        functions.iter().map(|name| json!({"name": name, "direction": "same"})).collect();
    json!({
        "name": "stream", "source": "S", "destination": to, "encapsulation": encapsulation,
        "chain": steps,
        "match_fields": {
            "ethertype": family.ethertype(), "protocol": "tcp", "destination_port": PORT,
        },
    })
}

fn tcp_runs_through(house: &House, to: &str, functions: &[&str]) {
    let time = Duration::from_millis(if is_full() { 10_000 } else { 700 });
    let (source, destination) = (house.node("S"), house.node(to));
    for encapsulation in ["nsh", "mpls"] {
        for family in Family::BOTH {
            let chain = house.deploy(document(encapsulation, family, to, functions));
            let (ring_full, again) = (account::ring_full(house), retransmitted(&source));
            let address = SocketAddr::new(address(to, family), PORT);
            let bytes = stream(&source, &destination, address, time);
            assert!(bytes > 0);
            let counted = account::ChainTotal::of(&house.chain(&chain.chain));
            println!(
                "{encapsulation} {family:?} {functions:?}: {} Mbit/s, {} retransmitted, {} ring full",
                bytes * 8 / 1_000 / u64::try_from(time.as_millis()).expect("a short time"),
                retransmitted(&source) - again,
                account::ring_full(house) - ring_full,
            );
            // Every byte of the stream went through every function.
            for (name, delivered, returned) in counted.hops.values() {
                let least = bytes / SEGMENT_PAYLOAD_BYTES_MAX;
                assert!(*returned >= least && delivered >= returned, "{name}: {counted:?}");
            }
            account::assert_holds(house);
            house.undeploy(&chain.chain);
        }
    }
}

fn retransmitted(node: &Node) -> u64 {
    node.stack_counter("Tcp", "RetransSegs")
}

#[test]
fn tcp_runs_through_functions_on_one_host() {
    in_shared_house(|house| tcp_runs_through(house, "ext", &["v11", "v12"]));
}

#[test]
fn tcp_runs_through_functions_over_hosts() {
    in_shared_house(|house| tcp_runs_through(house, "D", &["v11", "v8", "v9", "v10"]));
}

#[test]
fn tcp_without_a_chain_runs_on_one_host_and_over_hosts() {
    in_shared_house(|house| {
        for to in ["ext", "D"] {
            for family in Family::BOTH {
                let address = SocketAddr::new(address(to, family), PORT);
                let time = Duration::from_millis(500);
                assert!(stream(&house.node("S"), &house.node(to), address, time) > 0);
            }
        }
    });
}
