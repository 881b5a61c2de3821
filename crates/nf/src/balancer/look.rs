//! What becomes of a packet, and what it makes of sessions. Knows how to decide; refuses to change anything:
//! what is decided is settled afterwards.

use super::Balancer;
use super::errors::{self, Quoted, Rewritten};
use super::program::{Service, rule};
use super::session::{self, ALL_CLOSED, Following, FragmentKey, Session, Sign};
use crate::outcome::{DropCause, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_rules::balancer::{WhenDead, WhenFull};
use catena_wire::field::Field;
use catena_wire::flow::FlowKey;
use catena_wire::fragment::FragmentPlace;
use catena_wire::frame::Fragment;
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::{self, TcpFlags};
use std::net::IpAddr;

/// What was decided over a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) verdict: Verdict,
    /// The rule that counts it, unless there was no room.
    pub(super) rule: Option<u32>,
    pub(super) rewrite: Rewrite,
    /// Is the client's connection reset?
    pub(super) is_reset: bool,
    pub(super) change: Change,
    /// What it says of a backend.
    pub(super) sign: Option<(usize, Sign)>,
    /// A first fragment: whose packet it is, and where that goes.
    pub(super) fragment: Option<(FragmentKey, Option<usize>)>,
}

/// How a packet is rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rewrite {
    Nothing,
    /// To a backend; without the port in a later fragment.
    To {
        address: IpAddr,
        port: Option<u16>,
        mac: Option<MacAddr>,
    },
    /// From a virtual service.
    From {
        address: IpAddr,
        port: Option<u16>,
    },
    /// An error about such packets.
    Error(Rewritten),
}

/// What a packet makes of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// It goes on so.
    Goes(FlowKey, Session),
    /// It begins, in the place of these.
    Begins {
        key: FlowKey,
        session: Session,
        gone: [Option<FlowKey>; 2],
    },
    Ends(FlowKey),
}

impl Look {
    fn of(verdict: Verdict, rule: u32) -> Self {
        Self {
            verdict,
            rule: Some(rule),
            rewrite: Rewrite::Nothing,
            is_reset: false,
            change: Change::Nothing,
            sign: None,
            fragment: None,
        }
    }

    fn pass(rule: u32) -> Self {
        Self::of(Verdict::Pass, rule)
    }

    fn drop(rule: u32) -> Self {
        Self::of(Verdict::Drop(DropCause::Rule(rule)), rule)
    }

    /// The patches that rewrite the packet.
    pub(super) fn patches(&self) -> impl Iterator<Item = Patch> + use<> {
        let address_of = |field, address: IpAddr| Patch::of(field, errors::bits(address));
        let port_of = |field, port: Option<u16>| port.map(|port| Patch::of(field, port.into()));
        let patches = match &self.rewrite {
            Rewrite::Nothing | Rewrite::Error(_) => [None; 3],
            Rewrite::To { address, port, mac } => {
                let octets =
                    mac.map(|mac| mac.0.iter().fold(0, |all, one| all << 8 | u128::from(*one)));
                [
                    Some(address_of(Field::Destination, *address)),
                    port_of(Field::DestinationPort, *port),
                    octets.map(|octets| Patch::of(Field::EthernetDestination, octets)),
                ]
            }
            Rewrite::From { address, port } => {
                [Some(address_of(Field::Source, *address)), port_of(Field::SourcePort, *port), None]
            }
        };
        patches.into_iter().flatten()
    }
}

/// Whose packet a fragment is of; none: it is whole.
fn fragment_key(packet: &Packet<'_>, flow: &FlowKey, direction: Direction) -> Option<FragmentKey> {
    let place = FragmentPlace::read(packet.frame, &packet.view)?;
    let common = FragmentPlace::common(flow);
    Some(FragmentKey { common, identification: place.identification, direction })
}

/// Does a first fragment end before the checksum, which then nothing can follow up?
fn ends_early(packet: &Packet<'_>, flow: &FlowKey) -> bool {
    let upper = packet.view.l4_offset.map_or(0, |at| packet.view.end.saturating_sub(at.into()));
    let wanted = if flow.protocol == IpProtocol::TCP { tcp::CHECKSUM_OFFSET + 2 } else { 8 };
    packet.view.fragment == Fragment::First && (upper as usize) < wanted
}

impl Service {
    pub(super) fn following(&self) -> Following {
        let milliseconds = |ms: u32| Time(u64::from(ms) * 1_000_000);
        Following {
            protocol: self.end.1,
            is_by_client: self.is_by_client(),
            answer: self.config.passive.map(|passive| milliseconds(passive.answer_ms)),
        }
    }
}

impl Balancer {
    /// What becomes of a packet.
    #[inline]
    pub(super) fn look(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Look {
        let Some(flow) = packet.view.flow else { return Look::pass(rule::OTHERS) };
        if let Some(quoted) = errors::quoted(packet) {
            return match direction {
                Direction::Forward => self.error_forward(now, &flow, quoted),
                Direction::Backward => self.error_backward(now, &flow, quoted),
            };
        }
        let fragment = fragment_key(packet, &flow, direction);
        let mut look = match (direction, packet.view.fragment) {
            (Direction::Forward, Fragment::Later) => self.later_forward(now, &flow, fragment),
            (Direction::Backward, Fragment::Later) => self.later_backward(now, &flow, fragment),
            (Direction::Forward, _) => self.forward(now, packet, &flow),
            (Direction::Backward, _) => self.backward(now, packet, &flow),
        };
        if packet.view.fragment == Fragment::First && look.verdict == Verdict::Pass {
            if look.rewrite != Rewrite::Nothing && ends_early(packet, &flow) {
                return Look::drop(rule::FRAGMENT);
            }
            let backend = match (&look.rewrite, direction) {
                (Rewrite::To { address, port, .. }, _) => {
                    let end = (flow.destination, flow.protocol, flow.destination_port);
                    let service = self.program.service_at(&end).map(|(number, _)| number);
                    service.and_then(|one| self.program.backend_of(one, (*address, (*port)?)))
                }
                (Rewrite::From { address, port }, _) => {
                    let end = (*address, flow.protocol, port.unwrap_or(0));
                    let service = self.program.service_at(&end).map(|(number, _)| number);
                    let own = (flow.source, flow.source_port);
                    service.and_then(|one| self.program.backend_of(one, own))
                }
                _ => None,
            };
            let matters = backend.is_some() || self.program.is_virtual(flow.destination);
            look.fragment = fragment.filter(|_| matters).map(|key| (key, backend));
        }
        look
    }

    /// May new sessions go to a backend?
    pub(super) fn is_open(&self, backend: usize, now: Time) -> bool {
        let is_draining = self.program.backends.get(backend).is_none_or(|one| one.is_draining);
        let standing = self.standings.get(backend);
        !is_draining && standing.is_some_and(|one| one.is_up && !one.is_ejected(now))
    }

    fn is_dead(&self, backend: usize) -> bool {
        self.standings.get(backend).is_none_or(|standing| !standing.is_up)
    }

    fn is_over(&self, key: &FlowKey, session: &Session, now: Time) -> bool {
        let times = &self.timeouts;
        let service = self.program.service(session.backend);
        // Of a service that is by client, keys have no port.
        let how = service.map(Service::following);
        debug_assert!(how.is_none_or(|how| how.protocol == key.protocol));
        how.is_none_or(|how| session.is_over(now, &how, times))
    }

    /// What a backend of a session sends: the other key of it.
    pub(super) fn answer_key(&self, key: &FlowKey, backend: usize) -> Option<FlowKey> {
        let backend = self.program.backends.get(backend)?;
        Some(FlowKey {
            source: backend.address,
            destination: key.source,
            protocol: key.protocol,
            source_port: backend.port,
            destination_port: key.source_port,
        })
    }

    fn to(&self, backend: usize, has_port: bool) -> Option<(u32, Rewrite)> {
        let backend = self.program.backends.get(backend)?;
        let port = has_port.then_some(backend.port);
        Some((backend.rule, Rewrite::To { address: backend.address, port, mac: backend.mac }))
    }

    /// A packet of a client.
    fn forward(&self, now: Time, packet: &Packet<'_>, flow: &FlowKey) -> Look {
        let end = (flow.destination, flow.protocol, flow.destination_port);
        let Some((_, service)) = self.program.service_at(&end) else {
            return Look::pass(rule::OTHERS);
        };
        let source_port = if service.is_by_client() { 0 } else { flow.source_port };
        let key = FlowKey { source_port, ..*flow };
        let flags = packet.view.varying.tcp_flags;
        let how = service.following();
        let Some(known) = self.sessions.find(&key) else {
            return self.begin(now, flags, key, service, None);
        };
        let is_new = session::asks(flags) && known.closed == ALL_CLOSED;
        let is_retried = session::asks(flags)
            && !known.is_answered
            && self.standings.get(known.backend).is_some_and(|one| one.is_ejected(now));
        if is_new || is_retried || known.is_over(now, &how, &self.timeouts) {
            return self.begin(now, flags, key, service, Some(key));
        }
        if self.is_dead(known.backend) {
            match service.config.when_dead {
                WhenDead::Keep => {}
                WhenDead::Reset if key.protocol == IpProtocol::TCP && !session::asks(flags) => {
                    let change = Change::Ends(key);
                    return Look { is_reset: true, change, ..Look::drop(service.dead()) };
                }
                WhenDead::Reset | WhenDead::Move => {
                    return self.begin(now, flags, key, service, Some(key));
                }
            }
        }
        let mut next = *known;
        let sign = next.forward(flags, now, &how).map(|sign| (next.backend, sign));
        let Some((rule, rewrite)) = self.to(next.backend, true) else {
            return Look::pass(rule::OTHERS);
        };
        Look { rewrite, sign, change: Change::Goes(key, next), ..Look::pass(rule) }
    }

    /// A packet of no session, in whose place another may have been.
    fn begin(
        &self,
        now: Time,
        flags: Option<TcpFlags>,
        key: FlowKey,
        service: &Service,
        gone: Option<FlowKey>,
    ) -> Look {
        let is_open = |member: usize| self.is_open(service.first + member, now);
        let Some(member) = service.lookup.find(key.seeded_hash(self.seed), is_open) else {
            return Look::drop(service.no_backend());
        };
        let backend = service.first + member;
        let found = self.to(backend, true).zip(self.answer_key(&key, backend));
        let Some(((rule, rewrite), answer)) = found else { return Look::pass(rule::OTHERS) };
        let passed = Look { rewrite, ..Look::pass(rule) };
        if flags.is_some_and(|flags| flags.has_any(TcpFlags::RST)) {
            // It ends what is not known here, and begins nothing.
            return passed;
        }
        let held = self.sessions.find_answer(&answer).filter(|(other, _)| *other != key);
        if let Some((other, session)) = held
            && !self.is_over(&other, session, now)
            && session.closed != ALL_CLOSED
        {
            return Look::drop(service.clash());
        }
        let held = held.map(|(other, _)| other);
        let victim = if gone.is_none() && held.is_none() && self.sessions.is_full() {
            let is_over = |key: &FlowKey, session: &Session| self.is_over(key, session, now);
            match (self.sessions.victim(is_over), self.when_full) {
                (Some(victim), _) => Some(victim),
                (None, WhenFull::Drop) => {
                    let verdict = Verdict::Drop(DropCause::Full);
                    return Look { verdict, rule: None, ..Look::pass(rule::FULL) };
                }
                (None, WhenFull::Pass) => return Look { rule: Some(rule::FULL), ..passed },
            }
        } else {
            None
        };
        let mut session = Session::begun(backend, now);
        session.forward(flags, now, &service.following());
        let change = Change::Begins { key, session, gone: [gone, held.or(victim)] };
        Look { change, ..passed }
    }

    /// A packet that may be of a backend.
    fn backward(&self, now: Time, packet: &Packet<'_>, flow: &FlowKey) -> Look {
        if self.program.is_asker(flow.destination) {
            return Look::drop(rule::HEALTH);
        }
        let by_client = FlowKey { destination_port: 0, ..*flow };
        let find = |key: &FlowKey| {
            let found = self.sessions.find_answer(key);
            found.filter(|(key, session)| !self.is_over(key, session, now))
        };
        let flags = packet.view.varying.tcp_flags;
        let Some((key, known)) = find(flow).or_else(|| find(&by_client)) else {
            return self.backward_of_none(flow);
        };
        let Some(service) = self.program.service(known.backend) else {
            return Look::pass(rule::OTHERS);
        };
        let mut next = *known;
        let sign = next.backward(flags, now, &service.following());
        let (address, _, port) = service.end;
        let rule = self.program.backends.get(next.backend).map_or(rule::OTHERS, |one| one.rule);
        Look {
            rewrite: Rewrite::From { address, port: Some(port) },
            sign: sign.map(|sign| (next.backend, sign)),
            change: Change::Goes(key, next),
            ..Look::pass(rule)
        }
    }

    /// A packet of no session, which may answer what passed without one.
    fn backward_of_none(&self, flow: &FlowKey) -> Look {
        let end = (flow.source, flow.protocol, flow.source_port);
        let backend =
            self.program.only_backend_at(&end).filter(|_| self.when_full == WhenFull::Pass);
        match backend.and_then(|backend| self.program.service(backend)) {
            Some(service) => {
                let (address, _, port) = service.end;
                let rewrite = Rewrite::From { address, port: Some(port) };
                Look { rewrite, ..Look::pass(rule::FULL) }
            }
            None => Look::pass(rule::OTHERS),
        }
    }

    fn later_forward(&self, now: Time, flow: &FlowKey, key: Option<FragmentKey>) -> Look {
        if !self.program.is_virtual(flow.destination) {
            return Look::pass(rule::OTHERS);
        }
        let Some(met) = key.and_then(|key| self.sessions.find_fragmented(&key, now)) else {
            return Look::drop(rule::FRAGMENT);
        };
        match met.backend.and_then(|backend| self.to(backend, false)) {
            Some((rule, rewrite)) => Look { rewrite, ..Look::pass(rule) },
            None => Look::pass(rule::OTHERS),
        }
    }

    fn later_backward(&self, now: Time, flow: &FlowKey, key: Option<FragmentKey>) -> Look {
        if self.program.is_asker(flow.destination) {
            return Look::drop(rule::HEALTH);
        }
        let met = key.and_then(|key| self.sessions.find_fragmented(&key, now));
        let backend = met.and_then(|met| met.backend);
        let known = backend.and_then(|backend| {
            Some((self.program.service(backend)?, self.program.backends.get(backend)?.rule))
        });
        match known {
            Some((service, rule)) => {
                let rewrite = Rewrite::From { address: service.end.0, port: None };
                Look { rewrite, ..Look::pass(rule) }
            }
            None => Look::pass(rule::OTHERS),
        }
    }

    /// An error about what a service sent.
    fn error_forward(&self, now: Time, flow: &FlowKey, quoted: Quoted) -> Look {
        let key = quoted.flow.reversed();
        let by_client = FlowKey { source_port: 0, ..key };
        let find = |key: &FlowKey| {
            let session = self.sessions.find(key)?;
            (!self.is_over(key, session, now)).then_some(session)
        };
        let known = find(&key).or_else(|| find(&by_client));
        let known = known.filter(|_| flow.destination == key.destination);
        let Some(backend) = known.and_then(|known| self.program.backends.get(known.backend)) else {
            return Look::pass(rule::OTHERS);
        };
        let rewrite = Rewrite::Error(Rewritten {
            quoted,
            inner: (Field::Source, Field::SourcePort),
            end: (backend.address, backend.port),
            outer: Some((Field::Destination, backend.address)),
        });
        Look { rewrite, ..Look::pass(backend.rule) }
    }

    /// An error about what was sent to a backend.
    fn error_backward(&self, now: Time, flow: &FlowKey, quoted: Quoted) -> Look {
        if self.program.is_asker(flow.destination) {
            return Look::drop(rule::HEALTH);
        }
        let answer = quoted.flow.reversed();
        let by_client = FlowKey { destination_port: 0, ..answer };
        let find = |key: &FlowKey| {
            let found = self.sessions.find_answer(key);
            found.filter(|(key, session)| !self.is_over(key, session, now))
        };
        let known = find(&answer).or_else(|| find(&by_client));
        let known = known.filter(|_| flow.destination == answer.destination);
        let found = known.and_then(|(key, session)| {
            let backend = self.program.backends.get(session.backend)?;
            Some((key, *session, backend, self.program.service(session.backend)?))
        });
        let Some((key, session, backend, service)) = found else {
            return Look::pass(rule::OTHERS);
        };
        let (address, _, port) = service.end;
        // What routers say, they go on saying themselves.
        let is_own = flow.source == backend.address;
        let is_judged = service.config.passive.is_some();
        let has_failed = is_judged && is_own && session.asked.is_some() && !session.has_failed;
        let rewrite = Rewrite::Error(Rewritten {
            quoted,
            inner: (Field::Destination, Field::DestinationPort),
            end: (address, port),
            outer: is_own.then_some((Field::Source, address)),
        });
        let passed = Look { rewrite, ..Look::pass(backend.rule) };
        if !has_failed {
            return passed;
        }
        let next = Session { has_failed, last: now, ..session };
        let sign = Some((session.backend, Sign::Failed));
        Look { sign, change: Change::Goes(key, next), ..passed }
    }
}
