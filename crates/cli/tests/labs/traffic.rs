//! Numbered datagrams between two nodes, by plain sockets: who sends knows how many, who receives
//! knows which.

use crate::node::Node;
use crate::patience::LIMIT;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Seconds, microseconds and sequence number, as the independent proof reads them.
const IDENTITY_BYTES: usize = 12;
/// Datagrams between two pauses.
pub(crate) const BURST: u32 = 20;
/// New flows between two pauses.
const FLOWS_BURST: u32 = 10;
const PAUSE: Duration = Duration::from_millis(4);
/// Silence after which what is missing is lost.
const SILENCE: Duration = Duration::from_secs(2);
/// Silence after which no duplicate is expected any more.
const SILENCE_AFTER_ALL: Duration = Duration::from_millis(150);
const UNKNOWN: u32 = u32::MAX;
/// Room of what must not lose packets: a receiving socket, a kernel that asks for a neighbour.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024 * 1024;
const LOOK: Duration = Duration::from_millis(20);
/// Smallest and largest payload: the largest fills a tenant packet of 1,400 bytes over IPv6.
const PAYLOAD_BYTES: std::ops::RangeInclusive<usize> = 18..=1_352;

/// Addresses of the endpoints in the lab files of the tests.
pub(crate) fn address(name: &str, family: Family) -> IpAddr {
    let text = match (name, family) {
        ("S", Family::V4) => "10.10.0.10",
        ("S", Family::V6) => "fd00:10::a",
        ("D", Family::V4) => "10.10.0.11",
        ("D", Family::V6) => "fd00:10::b",
        ("ext", Family::V4) => "10.10.0.1",
        ("ext", Family::V6) => "fd00:10::1",
        ("I", Family::V4) => "10.20.0.12",
        ("I", Family::V6) => "fd00:20::c",
        _ => panic!("{name} is no endpoint of the tests"),
    };
    text.parse().expect("an address")
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// As a flow classifier names it.
    pub(crate) fn ethertype(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// Sends numbered datagrams from one node.
pub(crate) struct Sender {
    socket: UdpSocket,
    run: u32,
    next: u32,
    /// Between two bursts.
    pause: Duration,
}

impl Sender {
    pub(crate) fn new(from: &Node, to: SocketAddr) -> Self {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => [0; 4].into(),
            SocketAddr::V6(_) => [0_u16; 8].into(),
        };
        let socket = from.inside(|| UdpSocket::bind((any, 0))).expect("a socket");
        socket.connect(to).expect("a route");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let run = now.map_or(0, |now| now.subsec_nanos());
        Self { socket, run, next: 0, pause: PAUSE }
    }

    fn payload(&self) -> Vec<u8> {
        let span = PAYLOAD_BYTES.end() - PAYLOAD_BYTES.start();
        // Every length once in a while, neighbours far apart.
        let length = PAYLOAD_BYTES.start() + (self.next as usize).wrapping_mul(611) % span;
        let mut payload = vec![0x5a; length];
        payload[0..4].copy_from_slice(&self.run.to_be_bytes());
        payload[8..IDENTITY_BYTES].copy_from_slice(&self.next.to_be_bytes());
        payload
    }

    /// One datagram; its number is the answer.
    pub(crate) fn send(&mut self) -> u32 {
        self.socket.send(&self.payload()).expect("a datagram leaves");
        self.next += 1;
        self.next - 1
    }

    /// Many, in bursts.
    pub(crate) fn send_many(&mut self, count: u32) {
        for number in 0..count {
            self.send();
            if number % BURST == BURST - 1 {
                std::thread::sleep(self.pause);
            }
        }
    }

    /// The same with a burst each time as long as this has passed.
    pub(crate) fn every(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// How many were sent.
    pub(crate) fn sent(&self) -> u32 {
        self.next
    }

    /// Sends from a thread until it is told to stop.
    pub(crate) fn keep_sending(mut self) -> Sending {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                self.send_many(BURST);
            }
            self.sent()
        });
        Sending { stop, thread }
    }
}

/// So many numbered datagrams in bursts, each of a flow of its own.
pub(crate) fn send_new_flows(from: &Node, to: SocketAddr, count: u32) {
    for number in 0..count {
        let mut sender = Sender { next: number, ..Sender::new(from, to) };
        sender.send();
        if number % FLOWS_BURST == FLOWS_BURST - 1 {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A sender at work.
pub(crate) struct Sending {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Sending {
    /// Ends it; answers how many it sent.
    pub(crate) fn stop(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sender ends")
    }
}

/// Receives numbered datagrams at one node, and counts how often each number came.
pub(crate) struct Receiver {
    /// How many are expected; [`UNKNOWN`] while they are being sent.
    expected: Arc<AtomicU32>,
    thread: JoinHandle<BTreeMap<u32, u32>>,
}

impl Receiver {
    pub(crate) fn new(at: &Node, address: SocketAddr) -> Self {
        let socket = roomy_socket(at, address);
        socket.set_read_timeout(Some(LOOK)).expect("a timeout");
        let expected = Arc::new(AtomicU32::new(UNKNOWN));
        let told = Arc::clone(&expected);
        let thread = std::thread::spawn(move || receive(&socket, &told));
        Self { expected, thread }
    }

    /// Ends it when all have come, or nothing more does; answers how often each came.
    pub(crate) fn stop(self, expected: u32) -> BTreeMap<u32, u32> {
        self.expected.store(expected, Ordering::Relaxed);
        self.thread.join().expect("the receiver ends")
    }

    /// Exactly the first `count` numbers came, each once.
    pub(crate) fn assert_all(self, count: u32) {
        let missing = self.missing(count);
        assert!(missing.is_empty(), "{} of {count} lost: {missing:?}", missing.len());
    }

    /// Which of the first `count` numbers did not come; each of the others came once, and no more.
    pub(crate) fn missing(self, count: u32) -> Vec<u32> {
        let came = self.stop(count);
        let missing: Vec<u32> = (0..count).filter(|number| !came.contains_key(number)).collect();
        let twice = came.iter().filter(|(_, n)| **n > 1);
        let twice: Vec<u32> = twice.map(|(number, _)| *number).collect();
        assert!(twice.is_empty(), "more than once: {twice:?}");
        assert_eq!(came.len() + missing.len(), count as usize);
        missing
    }
}

/// What this process does not read in time must not look like a loss of the network.
pub(crate) fn roomy_socket(at: &Node, address: impl ToSocketAddrs + Send) -> UdpSocket {
    let socket = at.inside(|| UdpSocket::bind(address)).expect("a free port");
    set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).expect("a large buffer");
    socket
}

fn receive(socket: &UdpSocket, expected: &AtomicU32) -> BTreeMap<u32, u32> {
    let mut came: BTreeMap<u32, u32> = BTreeMap::new();
    let mut bytes = [0; 2_048];
    let (start, mut last) = (Instant::now(), Instant::now());
    loop {
        match expected.load(Ordering::Relaxed) {
            UNKNOWN => last = Instant::now(),
            expected => {
                let is_complete = came.len() >= expected as usize;
                let silence = if is_complete { SILENCE_AFTER_ALL } else { SILENCE };
                if last.elapsed() > silence {
                    return came;
                }
            }
        }
        assert!(start.elapsed() < 10 * LIMIT, "nobody ends this receiver");
        let Ok(length) = socket.recv(&mut bytes) else { continue };
        last = Instant::now();
        if length >= IDENTITY_BYTES {
            let number = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
            *came.entry(number).or_default() += 1;
        }
    }
}

/// A run of numbered datagrams of which none may be lost.
pub(crate) fn send_and_count(from: &Node, to: &Node, address: SocketAddr, count: u32) {
    let receiver = Receiver::new(to, address);
    let mut sender = Sender::new(from, address);
    sender.send_many(count);
    receiver.assert_all(count);
}
