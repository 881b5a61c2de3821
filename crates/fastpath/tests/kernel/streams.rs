//! Traffic of real stacks: a TCP stream whose every byte is known, and numbered datagrams.

use crate::scene::{Host, spawn_in, within};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

/// Long enough for a loaded machine; only a failing test ever waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
const CHUNK: usize = 1 << 16;

/// Bytes of the stream from a place on: they tell their place.
fn pattern(from: usize) -> impl Iterator<Item = u8> {
    (from..).map(|place| (place ^ place >> 8 ^ place >> 16) as u8)
}

/// Sends `bytes` over TCP from a fixed port and checks them at the other end.
pub(crate) fn tcp(from: &Host, local: SocketAddr, to: &Host, target: SocketAddr, bytes: usize) {
    let listener = within(to, || TcpListener::bind(target)).unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut buffer, mut place) = (vec![0; CHUNK], 0);
        loop {
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                return place;
            }
            let is_right = buffer[..count].iter().copied().eq(pattern(place).take(count));
            assert!(is_right, "bytes of the stream changed behind {place}");
            place += count;
        }
    });
    let sender = spawn_in(from, move || {
        let mut stream = connect(local, target);
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut place = 0;
        while place < bytes {
            let count = CHUNK.min(bytes - place);
            let chunk: Vec<u8> = pattern(place).take(count).collect();
            stream.write_all(&chunk).unwrap();
            place += count;
        }
    });
    sender.join().unwrap();
    assert_eq!(receiver.join().unwrap(), bytes);
}

/// Begins a stream that nobody answers.
pub(crate) fn knock(local: SocketAddr, target: SocketAddr) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let flags = SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &local).unwrap();
    connect(&socket, &target).unwrap_err();
}

fn connect(local: SocketAddr, target: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Send,
        Some(PATIENCE),
    )
    .unwrap();
    bind(&socket, &local).unwrap();
    connect(&socket, &target).unwrap();
    TcpStream::from(socket)
}

/// Sends numbered datagrams, never more than `window` ahead of the receiver, and answers the
/// numbers in the order of their arrival.
pub(crate) fn numbered(
    from: &Host,
    to: &Host,
    target: SocketAddr,
    count: u32,
    window: u32,
) -> Vec<u32> {
    let receiver = within(to, || UdpSocket::bind(target)).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let (credit, credits) = mpsc::channel();
    let receiving = std::thread::spawn(move || {
        let mut numbers = Vec::new();
        let mut bytes = [0; 64];
        while numbers.len() < count as usize {
            // A lost datagram ends the wait; the numbers then tell.
            let Ok(length) = receiver.recv(&mut bytes) else { break };
            assert_eq!(length, 4);
            numbers.push(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            let _ = credit.send(());
        }
        numbers
    });
    let sending = spawn_in(from, move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(target).unwrap();
        for number in 0..count {
            if number >= window {
                let _ = credits.recv_timeout(PATIENCE);
            }
            socket.send(&number.to_be_bytes()).unwrap();
        }
    });
    sending.join().unwrap();
    receiving.join().unwrap()
}
