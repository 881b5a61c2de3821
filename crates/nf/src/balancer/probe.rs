//! Active checks: packets that ask a backend whether it serves, and what its answers say. A client of TCP that
//! knows one exchange: SYN, and of HTTP one request and the beginning of its answer (RFC 9293 section 3.5, RFC
//! 9112 section 4). Refuses to repeat what is lost: a check that is not answered in time has failed.

mod frame;

use super::program::{Backend, Program, Service};
use super::standing::{Link, Standing};
use crate::bucket::{Bucket, ICMP_ERRORS};
use crate::outcome::{GeneratedKind, Outcomes};
use crate::packet::{Direction, Packet, Time};
use catena_rules::balancer::{HealthConfig, HealthKind};
use catena_wire::flow::{FlowKey, mix};
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::{TcpFlags, TcpHeader, TcpView, reset};
use frame::Ask;

/// Checks that begin or end each time that time passes.
const CHECKS_AT_ONCE: usize = 64;
/// Ports that ask: those that systems give to clients (RFC 6335 section 6).
const PORTS: (u16, u64) = (49_152, 16_384);
/// Bytes of a status line that say the status: `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;
const RST_ACK: TcpFlags = TcpFlags::RST.with(TcpFlags::ACK);
const PSH_ACK: TcpFlags = TcpFlags::PSH.with(TcpFlags::ACK);

/// How far a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The next is due then.
    #[default]
    Waiting,
    /// SYN is sent.
    Asked,
    /// GET is sent.
    Requested,
}

/// The check of a backend.
#[derive(Clone, Copy, Debug, Default)]
struct Check {
    stage: Stage,
    /// When something happens if nothing comes.
    due: Time,
    began: Time,
    count: u64,
    port: u16,
    /// The next number that is sent, and the next one that is expected.
    sequence: u32,
    expected: u32,
    status: [u8; STATUS_BYTES],
    status_bytes: usize,
}

type Stations = Option<(MacAddr, MacAddr)>;

/// The checks of all backends.
#[derive(Clone, Debug)]
pub(super) struct Checks {
    checks: Vec<Check>,
    /// The backend where the next look begins.
    next: usize,
    seed: u64,
    /// What may still be reset that nobody asked for.
    resets: Bucket,
    /// The stations that frames name, to whom and from whom, where whoever sends them finds the way by addresses;
    /// none: as configured, or as packets show.
    stations: Stations,
}

/// What is known of whom a check asks.
struct Asked<'p> {
    number: usize,
    backend: &'p Backend,
    health: &'p HealthConfig,
    /// To whom and from whom its frames are, as far as that is said.
    stations: (Option<MacAddr>, Option<MacAddr>),
}

impl Asked<'_> {
    fn port(&self) -> u16 {
        self.health.port.unwrap_or(self.backend.port)
    }
}

/// Where frames come from and go to; none: that is not known yet.
fn link_to(asked: &Asked<'_>, standing: &Standing) -> Option<Link> {
    let (to, from) = asked.stations;
    match (standing.link, to, from) {
        (Some(link), ..) => Some(link.between(to, from)),
        (None, Some(to), Some(from)) => frame::link((to, from), asked.backend.address),
        _ => None,
    }
}

fn milliseconds(since: Time, ms: u32) -> Time {
    Time(since.0.saturating_add(u64::from(ms) * 1_000_000))
}

impl Checks {
    pub(super) fn new(program: &Program, seed: u64) -> Self {
        let checks = vec![Check::default(); program.backends.len()];
        Self { checks, next: 0, seed, resets: Bucket::new(&ICMP_ERRORS), stations: None }
    }

    /// The same where whoever sends frames finds the way by addresses, whatever stations they name: these.
    pub(super) fn by_address(program: &Program, seed: u64, stations: (MacAddr, MacAddr)) -> Self {
        Self { stations: Some(stations), ..Self::new(program, seed) }
    }

    fn asked(program: &Program, number: usize, stations: Stations) -> Option<Asked<'_>> {
        let health = program.service(number).and_then(Service::health)?;
        let backend = program.backends.get(number)?;
        let said = (backend.mac, health.mac);
        let stations = stations.map_or(said, |(to, from)| (Some(to), Some(from)));
        Some(Asked { number, backend, health, stations })
    }

    /// Begins checks that are due, and ends those that are not answered.
    pub(super) fn turn(
        &mut self,
        now: Time,
        program: &Program,
        standings: &mut [Standing],
        outcomes: &mut Outcomes,
    ) {
        let mut left = CHECKS_AT_ONCE;
        for _ in 0..self.checks.len() {
            let number = self.next;
            self.next = (number + 1) % self.checks.len().max(1);
            let Some(asked) = Self::asked(program, number, self.stations) else { continue };
            let (Some(check), Some(standing)) =
                (self.checks.get_mut(number), standings.get_mut(number))
            else {
                continue;
            };
            if now < check.due {
                continue;
            }
            if check.stage == Stage::Waiting {
                check.begin(now, &asked, (standing, self.seed), outcomes);
            } else {
                check.end(false, (&asked, standing), (0, outcomes));
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }

    /// Takes what has come back to whoever asks; the packet of the batch at `at` ends with it.
    pub(super) fn take(
        &mut self,
        now: Time,
        (at, packet): (usize, &Packet<'_>),
        (program, standings): (&Program, &mut [Standing]),
        outcomes: &mut Outcomes,
    ) {
        let Some(flow) = packet.view.flow.filter(|flow| flow.protocol == IpProtocol::TCP) else {
            return;
        };
        let segment = packet
            .view
            .l4_offset
            .and_then(|start| packet.frame.get(usize::from(start)..packet.view.end as usize));
        let Some(Ok(segment)) = segment.map(TcpView::parse) else { return };
        let stations = self.stations;
        let asked = program.backends_at(flow.source).iter();
        let asked = asked.filter_map(|one| Self::asked(program, *one, stations));
        let mut known = false;
        for asked in asked {
            known |= asked.health.from == flow.destination && asked.port() == flow.source_port;
            let (Some(check), Some(standing)) =
                (self.checks.get_mut(asked.number), standings.get_mut(asked.number))
            else {
                continue;
            };
            if check.is_about(&flow, &segment, &asked) {
                return check.answered(&segment, (&asked, standing), (at, outcomes));
            }
        }
        // Nobody asked that: the backend shall not wait for more (RFC 9293 section 3.10.7.1). As often as errors may be
        // made: anybody there can send such.
        if known && self.resets.take(&ICMP_ERRORS, now) {
            let made = (at, GeneratedKind::HealthProbe, Direction::Forward);
            let macs = (packet.view.destination, packet.view.source);
            outcomes.generate(made, reset::FRAME_BYTES_MAX, |into| {
                reset::emit(packet.frame, macs, into)
            });
        }
    }
}

impl Check {
    fn begin(
        &mut self,
        now: Time,
        asked: &Asked<'_>,
        (standing, seed): (&Standing, u64),
        outcomes: &mut Outcomes,
    ) {
        self.began = now;
        let Some(link) = link_to(asked, standing) else {
            self.due = milliseconds(now, asked.health.interval_ms);
            return;
        };
        self.count = self.count.wrapping_add(1);
        let drawn = mix(mix(seed ^ now.0) ^ (asked.number as u64) << 32 ^ self.count);
        self.port = PORTS.0 + (drawn % PORTS.1) as u16;
        self.sequence = (drawn >> 32) as u32;
        (self.expected, self.status_bytes) = (0, 0);
        self.stage = Stage::Asked;
        self.due = milliseconds(now, asked.health.timeout_ms);
        self.send(TcpFlags::SYN, asked, link, (0, outcomes));
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Is a segment an answer to it?
    fn is_about(&self, flow: &FlowKey, segment: &TcpView<'_>, asked: &Asked<'_>) -> bool {
        let ends = (flow.source_port, flow.destination_port, flow.destination);
        let is_of_it = ends == (asked.port(), self.port, asked.health.from);
        let has_ack = segment.flags().has_any(TcpFlags::ACK);
        let is_acknowledged = has_ack && segment.acknowledgment() == self.sequence;
        match self.stage {
            Stage::Waiting => false,
            Stage::Asked => is_of_it && is_acknowledged,
            Stage::Requested => is_of_it && has_ack,
        }
    }

    fn answered(
        &mut self,
        segment: &TcpView<'_>,
        (asked, standing): (&Asked<'_>, &mut Standing),
        (at, outcomes): (usize, &mut Outcomes),
    ) {
        let flags = segment.flags();
        if flags.has_any(TcpFlags::RST) {
            // It is over at the other side already.
            self.expected = 0;
            self.stage = Stage::Asked;
            return self.end(false, (asked, standing), (at, outcomes));
        }
        if self.stage == Stage::Asked {
            if !flags.has_any(TcpFlags::SYN) {
                return;
            }
            self.expected = segment.sequence().wrapping_add(1);
            let Some(link) = link_to(asked, standing) else { return };
            self.stage = Stage::Requested;
            if asked.health.kind == HealthKind::Tcp {
                return self.end(true, (asked, standing), (at, outcomes));
            }
            let sent = self.send(PSH_ACK, asked, link, (at, outcomes));
            self.sequence = self.sequence.wrapping_add(sent);
            return;
        }
        if segment.sequence() != self.expected {
            return;
        }
        let data = segment.payload();
        let room = self.status.get_mut(self.status_bytes..).unwrap_or_default();
        room.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        self.status_bytes = (self.status_bytes + data.len()).min(STATUS_BYTES);
        self.expected = self.expected.wrapping_add(data.len() as u32);
        if self.status_bytes == STATUS_BYTES {
            let is_good = status(&self.status).is_some_and(|status| (200..400).contains(&status));
            self.end(is_good, (asked, standing), (at, outcomes));
        } else if flags.has_any(TcpFlags::FIN) {
            self.end(false, (asked, standing), (at, outcomes));
        } else if !data.is_empty()
            && let Some(link) = link_to(asked, standing)
        {
            self.send(TcpFlags::ACK, asked, link, (at, outcomes));
        }
    }

    /// It has found something; what is open at the other side is reset.
    fn end(
        &mut self,
        is_good: bool,
        (asked, standing): (&Asked<'_>, &mut Standing),
        (at, outcomes): (usize, &mut Outcomes),
    ) {
        if self.stage == Stage::Requested
            && let Some(link) = link_to(asked, standing)
        {
            self.send(RST_ACK, asked, link, (at, outcomes));
        }
        standing.check(is_good, asked.health);
        self.stage = Stage::Waiting;
        self.due = milliseconds(self.began, asked.health.interval_ms);
    }

    /// Sends a segment; answers how many bytes it carries.
    fn send(
        &self,
        flags: TcpFlags,
        asked: &Asked<'_>,
        link: Link,
        (at, outcomes): (usize, &mut Outcomes),
    ) -> u32 {
        let ask = Ask {
            link,
            ends: (asked.health.from, asked.backend.address),
            header: TcpHeader {
                source_port: self.port,
                destination_port: asked.port(),
                sequence: self.sequence,
                acknowledgment: self.expected,
                flags,
                window: u16::MAX,
                urgent_pointer: 0,
            },
            path: (flags == PSH_ACK).then_some(asked.health.path.as_str()),
        };
        let made = (at, GeneratedKind::HealthProbe, Direction::Forward);
        let mut bytes = 0;
        outcomes.generate(made, frame::FRAME_BYTES_MAX, |into| {
            let (length, carried) = ask.emit(into)?;
            bytes = carried;
            Some(length)
        });
        bytes
    }
}

/// The status that the beginning of an answer says (RFC 9112 section 4); none: it is no answer of HTTP/1.
fn status(line: &[u8; STATUS_BYTES]) -> Option<u16> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', digits @ ..] = line else {
        return None;
    };
    let is_number = minor.is_ascii_digit() && digits.iter().all(u8::is_ascii_digit);
    let status =
        digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit.wrapping_sub(b'0')));
    is_number.then_some(status)
}
