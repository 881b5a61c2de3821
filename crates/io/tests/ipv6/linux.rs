//! With Linux as the sender: what its seg6 routes encapsulate comes with what they left open.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use catena_io::{BUFFER_DATA_BYTES, Buffer, Offload, Poller, Port, SegmentationKind, TapPort};
use catena_kernel::tap;

use crate::hosts::{HANG, Hosts, NEAR, ROUTING, SID};
use crate::namespace::{in_new_namespace, ip};

/// A station behind the egress, and its side of the link there.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 0x51];
const EGRESS: [u8; 6] = [2, 0, 0, 0, 0, 0x52];
/// Of the server.
const PORT: u16 = 7_000;
const ETHERNET_BYTES: usize = 14;
/// An IPv6 header, and the part of a routing header before its segments.
const IPV6_BYTES: usize = 40;
const ROUTING_BYTES: usize = 8;

/// What a packet carries, behind the outer header and a routing header: where it begins, and its EtherType.
fn inner(packet: &[u8]) -> (usize, [u8; 2]) {
    let (at, next) = match packet[6] {
        ROUTING => {
            let header = &packet[IPV6_BYTES..];
            (IPV6_BYTES + ROUTING_BYTES + usize::from(header[1]) * 8, header[0])
        }
        next => (IPV6_BYTES, next),
    };
    match next {
        4 => (at, [0x08, 0x00]),
        41 => (at, [0x86, 0xdd]),
        other => panic!("carries {other}"),
    }
}

/// Where TCP begins in what a packet carries, and its checksum in that (RFC 9293 section 3.1).
fn tcp_checksum(packet: &[u8]) -> (usize, u16) {
    match inner(packet) {
        // Larger than 64 KiB: hop-by-hop options say how long (RFC 2675).
        (at, [0x86, 0xdd]) if packet[at + 6] == 0 => (at + IPV6_BYTES + 8, 16),
        (at, [0x86, 0xdd]) => (at + IPV6_BYTES, 16),
        (at, _) => (at + usize::from(packet[at] & 0xf) * 4, 16),
    }
}

/// Moves what counts from the start of a packet to the start of the frame that is made of it.
fn moved(offload: Offload, removed: usize) -> Offload {
    let moved = |at: u16| (usize::from(at) + ETHERNET_BYTES - removed) as u16;
    let mut offload = offload;
    if let Some(checksum) = &mut offload.checksum {
        checksum.start = moved(checksum.start);
    }
    if let Some(segmentation) = &mut offload.segmentation {
        segmentation.header_bytes = moved(segmentation.header_bytes.max(removed as u16));
    }
    offload
}

/// The end of a path: takes the outer headers off and gives the frame to the station.
fn decapsulate(mut buffer: Buffer) -> Buffer {
    let (at, ethertype) = inner(buffer.bytes());
    let offload = moved(buffer.offload, at);
    assert!(buffer.trim_front(at));
    let header = [&STATION[..], &EGRESS, &ethertype].concat();
    buffer.prepend(ETHERNET_BYTES).unwrap().copy_from_slice(&header);
    buffer.offload = offload;
    buffer
}

/// What an egress has seen.
#[derive(Default)]
struct Seen {
    largest: usize,
    truncated: u32,
    open_checksums: usize,
    kinds: Vec<SegmentationKind>,
    next_headers: Vec<u8>,
}

/// An egress that only knows the way in; the station answers by the host's own routes.
fn egress(hosts: &mut Hosts, station: &mut TapPort, seen: &Mutex<Seen>, stop: &AtomicBool) {
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    poller.add(&hosts.receiver, 0).unwrap();
    let mut packets = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        poller.wait(Some(Duration::from_millis(20)), &mut ready).unwrap();
        let received = hosts.receiver.receive(&mut hosts.pool, &mut packets, 64);
        assert_eq!((received.unsupported_offload, received.socket_error), (0, None));
        let mut seen = seen.lock().unwrap();
        seen.truncated += received.truncated;
        for packet in &packets {
            seen.largest = seen.largest.max(packet.len());
            if let Some(open) = packet.offload.checksum {
                seen.open_checksums += 1;
                assert_eq!((usize::from(open.start), open.offset), tcp_checksum(packet.bytes()));
            }
            seen.kinds.extend(packet.offload.segmentation.map(|segments| segments.kind));
            seen.next_headers.push(packet.bytes()[6]);
        }
        drop(seen);
        packets = packets.drain(..).map(decapsulate).collect();
        station.transmit(&mut packets, &mut hosts.pool);
        assert!(station.refused().is_empty());
    }
    assert_eq!(hosts.pool.free(), hosts.pool.capacity());
}

/// Ends an egress, also when a test ends before its time.
struct End<'e>(&'e AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client on `near` whose stream a seg6 route takes to a server behind an egress on `far`.
struct Path {
    mode: &'static str,
    server_at: &'static str,
    client_at: &'static str,
}

impl Path {
    /// Sends a stream, which `use_it` ends, and says what the egress has seen.
    fn stream(
        &self,
        mut hosts: Hosts,
        use_it: impl FnOnce(TcpStream, TcpListener, &Mutex<Seen>),
    ) -> Seen {
        let mut station = TapPort::new(tap::open_tap(&hosts.other, "station").unwrap());
        let Self { mode, server_at, client_at } = self;
        let length = if server_at.contains(':') { 128 } else { 32 };
        let nodad = if length == 128 { " nodad" } else { "" };
        ip(&format!("addr add {client_at}/{length} dev lo{nodad}"));
        let encapsulates = format!("encap seg6 mode {mode} segs {SID} dev near src {client_at}");
        ip(&format!("route add {server_at}/{length} {encapsulates}"));
        let server = hosts.there(|| {
            ip("link set station address 02:00:00:00:00:51 up");
            ip(&format!("addr add {server_at}/{length} dev station{nodad}"));
            ip(&format!("route add {client_at}/{length} via inet6 {NEAR} dev far"));
            for scope in ["all", "default", "station"] {
                let filter = format!("/proc/sys/net/ipv4/conf/{scope}/rp_filter");
                std::fs::write(filter, "0").unwrap();
            }
            let server_at: IpAddr = server_at.parse().unwrap();
            TcpListener::bind((server_at, PORT)).unwrap()
        });
        let (seen, stop) = (Mutex::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let egress = scope.spawn(|| egress(&mut hosts, &mut station, &seen, &stop));
            let server_at = SocketAddr::new(server_at.parse().unwrap(), PORT);
            let stream = TcpStream::connect_timeout(&server_at, HANG).unwrap();
            stream.set_write_timeout(Some(HANG)).unwrap();
            let end = End(&stop);
            use_it(stream, server, &seen);
            drop(end);
            egress.join().unwrap();
        });
        seen.into_inner().unwrap()
    }
}

#[test]
fn a_stream_that_linux_encapsulates_comes_in_super_frames_that_lose_nothing() {
    for (mode, server_at, client_at, kind, next_header) in [
        ("encap", "10.1.0.5", "10.2.0.5", SegmentationKind::TcpV4, ROUTING),
        ("encap", "fd01::5", "fd02::5", SegmentationKind::TcpV6, ROUTING),
        ("encap.red", "10.1.0.5", "10.2.0.5", SegmentationKind::TcpV4, 4),
        ("encap.red", "fd01::5", "fd02::5", SegmentationKind::TcpV6, 41),
    ] {
        in_new_namespace("seg6", move || {
            let seen = Path { mode, server_at, client_at }.stream(
                Hosts::new(),
                |mut stream, server, _| {
                    let reader = thread::spawn(move || {
                        let mut bytes = Vec::new();
                        let mut stream = server.accept().unwrap().0;
                        stream.set_read_timeout(Some(HANG)).unwrap();
                        stream.read_to_end(&mut bytes).unwrap();
                        bytes
                    });
                    let pattern: Vec<u8> = (0..4_000_000_u32).map(|at| (at >> 3) as u8).collect();
                    stream.write_all(&pattern).unwrap();
                    drop(stream);
                    assert!(reader.join().unwrap() == pattern, "the bytes differ");
                },
            );
            let what = format!("{mode} to {server_at}");
            assert!(seen.largest > 10_000, "{what}: the largest had {} bytes", seen.largest);
            assert_eq!(seen.truncated, 0, "{what}");
            assert!(seen.open_checksums > 0, "{what}");
            assert!(seen.kinds.contains(&kind), "{what}: {:?}", seen.kinds);
            assert!(seen.kinds.iter().all(|found| *found == kind), "{what}: {:?}", seen.kinds);
            let is_expected = |found: &u8| *found == next_header;
            assert!(seen.next_headers.iter().all(is_expected), "{what}: {:?}", seen.next_headers);
        });
    }
}

#[test]
fn a_super_frame_larger_than_a_buffer_is_counted_and_others_are_whole() {
    in_new_namespace("beyond", || {
        let path = Path { mode: "encap", server_at: "fd01::5", client_at: "fd02::5" };
        let hosts = Hosts::new();
        // Only who asks for it gets frames beyond 64 KiB.
        ip("link set near gso_max_size 200000");
        let seen = path.stream(hosts, |mut stream, server, seen| {
            stream.set_nonblocking(true).unwrap();
            thread::spawn(move || {
                std::io::copy(&mut server.accept().unwrap().0, &mut std::io::sink())
            });
            let began = Instant::now();
            while seen.lock().unwrap().truncated == 0 {
                assert!(began.elapsed() < HANG, "no frame was too large");
                let _ = stream.write(&[7; 1 << 16]);
            }
        });
        assert!(seen.largest <= BUFFER_DATA_BYTES);
    });
}
