//! Our own datagrams: numbered, in as many flows as wanted, each flow with a source port of its
//! own, so that flows are the same in every run. Who sends knows how many, who receives knows
//! which. Knows sockets; refuses to know chains.

use super::timed::{Chance, Clock, Timed};
use super::tool::{Place, TrafficResult};
use crate::error::{LabError, Result};
use crate::vocabulary::{Arrivals, Load, Traffic};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Source port of the first flow; the others follow. Below the ports that the kernel gives away.
const SOURCE_PORT_FIRST: u16 = 20_000;
/// Run, flow and number of a datagram, as the proofs read them, and some bytes more.
const PAYLOAD_BYTES: usize = 64;
pub(super) const IDENTITY_BYTES: usize = 12;
/// Room of a receiving socket: what its thread does not read in time must not look lost.
const BUFFER_BYTES: usize = 32 * 1024 * 1024;
/// How often a waiting receiver looks up.
const LOOK: Duration = Duration::from_millis(20);
/// Silence after which what is missing is lost.
const SILENCE: Duration = Duration::from_secs(1);
/// Silence after which no duplicate is expected any more.
const SILENCE_AFTER_ALL: Duration = Duration::from_millis(150);
/// Flows whose sockets are open at a time.
const FLOWS_AT_ONCE: u32 = 250;
/// Shortest time between two bursts.
const BURST_PAUSE: Duration = Duration::from_millis(1);

/// A datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When.
    pub(crate) at: Instant,
    /// Of which flow.
    pub(crate) flow: u32,
    /// Which of its traffic.
    pub(crate) number: u32,
}

/// What came: how often each datagram, and when if that is wanted.
#[derive(Default)]
struct Came {
    arrivals: Option<Vec<Arrival>>,
    timed: Option<Timed>,
    counts: Vec<u8>,
    distinct: u64,
    twice: u64,
}

impl Came {
    fn take(&mut self, payload: &[u8], run: u32) {
        let word = |at: usize| {
            payload.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes)
        };
        let (Some(of), Some(flow), Some(number)) = (word(0), word(4), word(8)) else { return };
        if of != run {
            return;
        }
        if let Some(timed) = &mut self.timed {
            timed.take(payload);
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(Arrival { at: Instant::now(), flow, number });
        }
        let index = usize::try_from(number).unwrap_or_default();
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(index) {
            if *count == 0 {
                self.distinct += 1;
            } else {
                self.twice += 1;
            }
            *count = count.saturating_add(1);
        }
    }
}

/// Keeps a pace: how many datagrams may have left since the beginning.
struct Pace {
    start: Instant,
    per_second: f64,
    left: f64,
}

impl Pace {
    fn new(per_second: u32) -> Self {
        Self { start: Instant::now(), per_second: f64::from(per_second), left: 0.0 }
    }

    /// Waits until one more may leave. Those due within a pause leave together.
    fn wait(&mut self) {
        let due = Duration::from_secs_f64(self.left / self.per_second);
        self.left += 1.0;
        while due > self.start.elapsed() {
            std::thread::sleep(BURST_PAUSE);
        }
    }
}

/// Makes the datagrams of one traffic. `run` tells them from all others of this lab's run; those
/// that end with the updates end with `stop`.
pub(crate) fn make(
    traffic: &Traffic,
    place: &Place<'_>,
    run: u32,
    stop: &AtomicBool,
    result: &mut TrafficResult,
) -> Result<()> {
    let to = SocketAddr::new(place.address, traffic.port);
    let socket = place.to.inside(|| receiving_socket(to))?.map_err(|e| failed(traffic, e))?;
    // How many were sent, once that is known.
    let sent = AtomicU64::new(u64::MAX);
    let is_answered = traffic.load.is_answered;
    let clock = (traffic.load.arrivals == Arrivals::Poisson).then(|| Clock::start(traffic));
    std::thread::scope(|scope| {
        let arrivals = place.keeps_arrivals.then(Vec::new);
        let came = Came { arrivals, timed: clock.map(Timed::new), ..Came::default() };
        let receiver = scope.spawn(|| receive(&socket, (run, came), is_answered, &sent));
        let sender = Sender { traffic, place, run, stop, clock, number: 0, answered: 0 };
        let made = sender.send_all(to);
        sent.store(made.as_ref().map_or(0, |sender| sender.0), Ordering::Relaxed);
        let came = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (count, answered) = made.map_err(|error| failed(traffic, error))?;
        result.arrivals = came.arrivals.unwrap_or_default();
        result.delay = came.timed.and_then(Timed::told);
        result.packets = Some(count);
        result.lost = Some(count.saturating_sub(came.distinct));
        result.duplicated = Some(came.twice);
        result.unanswered = is_answered.then(|| count.saturating_sub(answered));
        Ok(())
    })
}

fn failed(traffic: &Traffic, error: io::Error) -> LabError {
    LabError::io("make", format!("traffic '{}'", traffic.name), error)
}

fn receiving_socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(to)?;
    socket.set_read_timeout(Some(LOOK))?;
    set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
    Ok(socket)
}

/// A socket that sends from this address. Other traffic to another port may leave from there at the same time,
/// unless answers come: they would go to one of the two.
fn sending_socket(from: SocketAddr, is_answered: bool) -> io::Result<UdpSocket> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let own = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&own, !is_answered)?;
    bind(&own, &from)?;
    Ok(own.into())
}

/// Receives until all have come, or nothing more does.
fn receive(
    socket: &UdpSocket,
    (run, mut came): (u32, Came),
    is_answered: bool,
    sent: &AtomicU64,
) -> Came {
    let mut payload = [0; 2 * PAYLOAD_BYTES];
    let mut last = Instant::now();
    loop {
        match sent.load(Ordering::Relaxed) {
            u64::MAX => last = Instant::now(),
            count => {
                let is_complete = came.distinct >= count;
                if last.elapsed() > if is_complete { SILENCE_AFTER_ALL } else { SILENCE } {
                    return came;
                }
            }
        }
        let Ok((length, from)) = socket.recv_from(&mut payload) else { continue };
        last = Instant::now();
        let payload = payload.get(..length).unwrap_or_default();
        came.take(payload, run);
        if is_answered {
            // An answer that cannot leave is one that does not come: it is counted there.
            let _ = socket.send_to(payload, from);
        }
    }
}

struct Sender<'s> {
    traffic: &'s Traffic,
    place: &'s Place<'s>,
    run: u32,
    stop: &'s AtomicBool,
    /// By which what leaves is stamped, where it is timed.
    clock: Option<Clock>,
    number: u32,
    answered: u64,
}

impl Sender<'_> {
    /// How many left, and how many of them were answered.
    fn send_all(mut self, to: SocketAddr) -> io::Result<(u64, u64)> {
        let Load { flows, packets, packets_per_second, arrivals, .. } = self.traffic.load;
        if arrivals == Arrivals::Poisson {
            return self.send_by_chance(to);
        }
        let mut pace = Pace::new(packets_per_second);
        match packets {
            // Each flow has its datagrams, some flows at a time.
            Some(packets) => {
                for first in (0..flows).step_by(FLOWS_AT_ONCE as usize) {
                    let few: Vec<u32> = (first..flows.min(first + FLOWS_AT_ONCE)).collect();
                    let sockets = self.sockets(&few)?;
                    for _ in 0..packets {
                        for (flow, socket) in few.iter().zip(&sockets) {
                            self.send(socket, *flow, to, &mut pace)?;
                        }
                    }
                    self.hear(&sockets, u64::from(packets))?;
                }
            }
            // All flows in turn, for as long as it takes.
            None => {
                let all: Vec<u32> = (0..flows).collect();
                let sockets = self.sockets(&all)?;
                let start = Instant::now();
                let limit = Duration::from_secs_f64(self.traffic.seconds.0);
                let is_over = |stop: &AtomicBool| {
                    if self.traffic.is_until_updated {
                        stop.load(Ordering::Relaxed)
                    } else {
                        start.elapsed() >= limit
                    }
                };
                while !is_over(self.stop) {
                    for (flow, socket) in all.iter().zip(&sockets) {
                        self.send(socket, *flow, to, &mut pace)?;
                    }
                }
            }
        }
        Ok((u64::from(self.number), self.answered))
    }

    /// As Poisson processes, for as long as it takes: a late sender leaves nothing out.
    fn send_by_chance(mut self, to: SocketAddr) -> io::Result<(u64, u64)> {
        let Load { flows, packets_per_second, .. } = self.traffic.load;
        let all: Vec<u32> = (0..flows).collect();
        let sockets = self.sockets(&all)?;
        let seed = u64::from(self.place.repeat) << 32 | u64::from(self.run);
        let mut chance = Chance::new(seed, packets_per_second, flows);
        let start = Instant::now();
        let limit = Duration::from_secs_f64(self.traffic.seconds.0);
        loop {
            let (due, flow) = chance.next();
            if due >= limit {
                return Ok((u64::from(self.number), self.answered));
            }
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            if let Some(socket) = sockets.get(flow as usize) {
                self.leave(socket, flow, to)?;
            }
        }
    }

    fn sockets(&self, flows: &[u32]) -> io::Result<Vec<UdpSocket>> {
        let any: IpAddr = match self.place.address {
            IpAddr::V4(_) => [0; 4].into(),
            IpAddr::V6(_) => [0_u16; 8].into(),
        };
        let one = |flow: &u32| {
            let port = SOURCE_PORT_FIRST.saturating_add(u16::try_from(*flow).unwrap_or(u16::MAX));
            sending_socket(SocketAddr::new(any, port), self.traffic.load.is_answered)
        };
        let all = || flows.iter().map(one).collect::<io::Result<Vec<UdpSocket>>>();
        self.place.from.inside(all).map_err(io::Error::other)?
    }

    fn send(
        &mut self,
        socket: &UdpSocket,
        flow: u32,
        to: SocketAddr,
        pace: &mut Pace,
    ) -> io::Result<()> {
        pace.wait();
        self.leave(socket, flow, to)
    }

    fn leave(&mut self, socket: &UdpSocket, flow: u32, to: SocketAddr) -> io::Result<()> {
        let mut payload = [0x5a; PAYLOAD_BYTES];
        let words = [self.run, flow, self.number].map(u32::to_be_bytes);
        for (into, byte) in payload.iter_mut().zip(words.as_flattened()) {
            *into = *byte;
        }
        if let Some(clock) = &self.clock {
            clock.stamp(&mut payload);
        }
        socket.send_to(&payload, to)?;
        self.number += 1;
        Ok(())
    }

    /// Takes the answers to what left by these sockets.
    fn hear(&mut self, sockets: &[UdpSocket], each: u64) -> io::Result<()> {
        if !self.traffic.load.is_answered {
            return Ok(());
        }
        let mut payload = [0; 2 * PAYLOAD_BYTES];
        for socket in sockets {
            socket.set_read_timeout(Some(SILENCE))?;
            for _ in 0..each {
                match socket.recv(&mut payload) {
                    Ok(length) if length >= IDENTITY_BYTES => self.answered += 1,
                    Ok(_) => {}
                    // Nothing more comes; what is missing is told by the count.
                    Err(_) => break,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(run: u32, number: u32) -> Vec<u8> {
        [run, 0, number].iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_pace_of_fewer_than_one_in_each_pause_is_kept_too() {
        let mut pace = Pace::new(100);
        (0..4).for_each(|_| pace.wait());
        assert!(pace.start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn two_traffics_without_answers_leave_from_the_same_ports() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for is_answered in [false, true] {
            let first = sending_socket(any, is_answered).unwrap();
            let second = sending_socket(first.local_addr().unwrap(), is_answered);
            assert_eq!(second.is_err(), is_answered);
        }
    }

    #[test]
    fn what_comes_is_counted_once_and_what_comes_again_as_twice() {
        let mut came = Came::default();
        for (run, number) in [(7, 3), (7, 0), (7, 3), (8, 1), (7, 3)] {
            came.take(&payload(run, number), 7);
        }
        came.take(b"short", 7);
        assert_eq!((came.distinct, came.twice), (2, 2));
    }
}
