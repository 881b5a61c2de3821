//! Two hosts of a test, `near` where the test is and `far`, and what passes between them.

use std::net::Ipv6Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use catena_io::{
    Buffer, BufferPool, Ipv6Match, Ipv6Received, Ipv6Receiver, Ipv6Reserve, Ipv6Sender, Poller,
};
use catena_kernel::namespace::{NetNamespace, run_in};
use rustix::net::netdevice::name_to_index;
use std::os::fd::{AsFd, AsRawFd};

use crate::namespace::ip;

/// Nothing here takes this long unless it never comes.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) const NEAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const FAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// In the locator of `far`, 5f00:0:2::/48 (RFC 9602 sets 5f00::/16 aside for SIDs).
pub(crate) const SID: Ipv6Addr = Ipv6Addr::new(0x5f00, 0, 2, 0xe1, 0, 0, 0, 0);
pub(crate) const LOCATOR: &str = "5f00:0:2::/48";
/// A routing header comes next (RFC 8200 section 4.4).
pub(crate) const ROUTING: u8 = 43;
/// What the receivers of these tests take unless asked otherwise.
pub(crate) const TAKEN: Ipv6Match<'_> = Ipv6Match {
    prefix: Ipv6Addr::new(0x5f00, 0, 2, 0, 0, 0, 0, 0),
    prefix_len: 48,
    next_headers: &[ROUTING, 41, 4, 143],
};

pub(crate) struct Hosts {
    pub(crate) other: NetNamespace,
    pub(crate) sender: Ipv6Sender,
    pub(crate) receiver: Ipv6Receiver,
    pub(crate) pool: BufferPool,
}

impl Hosts {
    /// Neither host forwards; the stack of `far` has nothing to say of its locator.
    pub(crate) fn new() -> Self {
        let other = NetNamespace::create_unnamed("far").unwrap();
        ip("link add near type veth peer name far");
        let place = format!("/proc/{}/fd/{}", std::process::id(), other.as_fd().as_raw_fd());
        ip(&format!("link set far netns {place}"));
        ip("link set near up");
        ip(&format!("addr add {NEAR}/64 dev near nodad"));
        ip(&format!("-6 route add {LOCATOR} via {FAR} dev near"));
        let receiver = run_in(&other, || {
            ip("link set lo up");
            ip("link set far up");
            ip(&format!("addr add {FAR}/64 dev far nodad"));
            ip(&format!("-6 route add blackhole {LOCATOR}"));
            let mut reserve = Ipv6Reserve::open(1).unwrap();
            let mut receiver = Ipv6Receiver::bind(TAKEN, &mut reserve).unwrap();
            receiver.take_only_from(vec![interface_index("far")]);
            receiver
        });
        let sender = Ipv6Sender::new(&mut Ipv6Reserve::open(1).unwrap()).unwrap();
        let pool = BufferPool::new(512);
        let mut hosts = Self { other, sender, receiver: receiver.unwrap(), pool };
        // While a neighbour is asked for, the kernel keeps only some of what is sent to it.
        hosts.sender.send(SID, &routed(60, 0), None).unwrap();
        assert_eq!(hosts.arrived(1).len(), 1);
        hosts
    }

    /// Does something on `far`.
    pub(crate) fn there<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        run_in(&self.other, work).unwrap()
    }

    /// The sender, with another in its place.
    pub(crate) fn replace_sender(&mut self) -> Ipv6Sender {
        let another = Ipv6Sender::new(&mut Ipv6Reserve::open(1).unwrap()).unwrap();
        std::mem::replace(&mut self.sender, another)
    }

    /// Until packets wait.
    pub(crate) fn wait(&self) {
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.add(&self.receiver, 3).unwrap();
        let began = Instant::now();
        while ready.is_empty() {
            assert!(began.elapsed() < HANG, "nothing arrived");
            poller.wait(Some(HANG), &mut ready).unwrap();
        }
    }

    /// What waits.
    pub(crate) fn take(&mut self) -> (Ipv6Received, Vec<Vec<u8>>) {
        let mut buffers = Vec::new();
        let received = self.receiver.receive(&mut self.pool, &mut buffers, 1_000);
        assert_eq!(received.packets as usize, buffers.len());
        let packets = buffers.iter().map(|buffer: &Buffer| buffer.bytes().to_vec()).collect();
        buffers.into_iter().for_each(|buffer| self.pool.put(buffer));
        (received, packets)
    }

    /// All that comes until so many packets are there; nothing else does.
    pub(crate) fn arrived(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut arrived = Vec::new();
        while arrived.len() < count {
            self.wait();
            let (received, packets) = self.take();
            let only = Ipv6Received { packets: received.packets, ..Ipv6Received::default() };
            assert_eq!(received, only);
            arrived.extend(packets);
        }
        arrived
    }
}

/// The index of an interface of the calling thread's namespace.
pub(crate) fn interface_index(name: &str) -> u32 {
    let socket = std::net::UdpSocket::bind("[::]:0").unwrap();
    name_to_index(&socket, name).unwrap()
}

/// An IPv6 packet of so many bytes with recognisable content (RFC 8200 section 3).
pub(crate) fn packet_to(to: Ipv6Addr, next_header: u8, len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(7)).collect();
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, next_header, 61]);
    packet[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
    packet[8..24].copy_from_slice(&NEAR.octets());
    packet[24..40].copy_from_slice(&to.octets());
    packet
}

/// The same to the SID, with a number in its class and flow label, where each packet has room for it.
pub(crate) fn routed(len: usize, number: u8) -> Vec<u8> {
    let mut packet = packet_to(SID, ROUTING, len);
    packet[3] = number;
    packet
}

/// Runs `tc` with these arguments in the namespace of the calling thread.
#[track_caller]
pub(crate) fn tc(arguments: &str) {
    let output = Command::new("tc").args(arguments.split(' ')).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tc {arguments}: {complaint}");
}
