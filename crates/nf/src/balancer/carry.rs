//! What a balancer hands over to another: sessions by the ends of clients, services and backends, what was met by
//! packets in fragments, how backends stand, and what rules have counted, by their words. Knows the layout;
//! refuses to judge whether it is so.

use super::Balancer;
use super::program::Backend;
use super::session::{FragmentKey, Fragmented, GoneKey, Session};
use super::standing::{Link, Standing};
use crate::function::{ENTRY_COST, Portion, RuleCount, StateEntry};
use crate::packet::{Direction, Time};
use crate::tracking::carry::{Bytes, key_bytes, read_key};
use catena_wire::flow::FlowKey;
use catena_wire::scalar::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What entries are about: the first byte of their keys.
mod about {
    /// Forget all sessions and fragments from before.
    pub(super) const NOTHING: u8 = b'n';
    pub(super) const SESSION: u8 = b's';
    pub(super) const FRAGMENT: u8 = b'f';
    pub(super) const BACKEND: u8 = b'b';
    pub(super) const RULE: u8 = b'r';
    /// Packets that were seen.
    pub(super) const TICK: u8 = b't';
}

/// Of a session's value: which parts of it are so.
mod bit {
    pub(super) const ASKED: u8 = 1;
    pub(super) const FAILED: u8 = 2;
    pub(super) const ANSWERED: u8 = 4;
    /// Two bits of who closed.
    pub(super) const CLOSED: u32 = 3;
}

const fn forget(key: Vec<u8>) -> StateEntry {
    StateEntry { key, value: None }
}

fn forget_gone(key: &GoneKey) -> StateEntry {
    forget(match key {
        GoneKey::Session(key) => session_key(key),
        GoneKey::Fragment(key) => fragment_key(key),
    })
}

/// The entry of a session that has changed, or with `is_whole` of any.
fn changed(
    key: &FlowKey,
    session: &mut Session,
    backends: &[Backend],
    is_whole: bool,
) -> Option<StateEntry> {
    let is_told = std::mem::take(&mut session.is_dirty) || is_whole;
    is_told.then(|| {
        let value = backends.get(session.backend).map(|backend| session_value(session, backend));
        StateEntry { key: session_key(key), value }
    })
}

impl Balancer {
    /// A session that is over, of those that are looked at now.
    pub(super) fn next_over(&mut self, now: Time) -> Option<FlowKey> {
        let (program, times) = (&self.program, &self.timeouts);
        self.sessions.next_swept(|_, session| {
            let service = program.service(session.backend);
            service.is_none_or(|service| session.is_over(now, &service.following(), times))
        })
    }

    pub(super) fn export_state(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        let noted = self.sessions.gone.as_deref();
        let is_whole = all || noted.is_none();
        if !all && noted.is_none() {
            into.push(forget(vec![about::NOTHING]));
        }
        let noted = noted.unwrap_or_default().iter().filter(|_| !is_whole);
        into.extend(noted.map(forget_gone));
        self.sessions.begin_notes();
        let backends = &self.program.backends;
        let sessions = self.sessions.table.iter_mut();
        into.extend(sessions.filter_map(|(key, one)| changed(key, one, backends, is_whole)));
        self.export_rest((is_whole, all), into);
    }

    pub(super) fn export_state_portion(
        &mut self,
        Portion { all, is_first, mut budget }: Portion,
        into: &mut Vec<StateEntry>,
    ) -> bool {
        if is_first {
            self.portioned = 0;
        }
        if all && is_first {
            self.sessions.begin_notes();
        }
        let Some(gone) = &mut self.sessions.gone else {
            // Who gets it asks for everything then.
            self.sessions.begin_notes();
            into.push(forget(vec![about::NOTHING]));
            return false;
        };
        while let Some(key) = gone.pop() {
            into.push(forget_gone(&key));
            budget = budget.saturating_sub(ENTRY_COST);
            if budget == 0 {
                return true;
            }
        }
        let backends = &self.program.backends;
        self.sessions.table.portion(&mut self.portioned, budget, |key, session| {
            let entry = changed(key, session, backends, all);
            entry.map(|entry| into.push(entry)).is_some()
        });
        if self.portioned == 0 {
            self.export_rest((all, all), into);
        }
        self.portioned > 0
    }

    /// All but sessions.
    fn export_rest(&mut self, (is_whole, all): (bool, bool), into: &mut Vec<StateEntry>) {
        let backends = &self.program.backends;
        for (key, met) in self.sessions.fragments.iter_mut() {
            if std::mem::take(&mut met.is_dirty) || is_whole {
                let backend = met.backend.and_then(|backend| backends.get(backend));
                let service =
                    backend.and_then(|backend| self.program.services.get(backend.service));
                let mut value = Vec::with_capacity(64);
                value.extend(met.seen.0.to_be_bytes());
                value.extend(met.tick.to_be_bytes());
                value.extend(
                    backend
                        .zip(service)
                        .map(|(one, service)| one.key(service.end))
                        .unwrap_or_default(),
                );
                into.push(StateEntry { key: fragment_key(key), value: Some(value) });
            }
        }
        for (backend, standing) in backends.iter().zip(&mut self.standings) {
            let Some(service) = self.program.services.get(backend.service) else { continue };
            if std::mem::take(&mut standing.is_dirty) || all {
                let key = [vec![about::BACKEND], backend.key(service.end)].concat();
                into.push(StateEntry { key, value: Some(standing_value(standing)) });
            }
        }
        for (rule, (words, is_dirty)) in
            self.program.rules.iter().zip(&mut self.is_dirty).enumerate()
        {
            if std::mem::take(is_dirty) || all {
                let count = self.counts.get(rule).copied().unwrap_or_default();
                let value = [count.packets.to_be_bytes(), count.bytes.to_be_bytes()].concat();
                let key = [&[about::RULE], words.as_bytes()].concat();
                into.push(StateEntry { key, value: Some(value) });
            }
        }
        let value = Some(self.tick.to_be_bytes().into());
        into.push(StateEntry { key: vec![about::TICK], value });
    }

    pub(super) fn import_state(&mut self, entries: &[StateEntry]) -> usize {
        let taken = entries.iter().filter(|entry| self.take_over(entry).is_some()).count();
        self.sessions.table.sort_by_key(|session| (session.last, session.tick));
        self.sessions.fragments.sort_by_key(|met| (met.seen, met.tick));
        taken
    }

    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let (kind, key) = entry.key.split_first()?;
        match (*kind, entry.value.as_deref()) {
            (about::NOTHING, None) => {
                self.sessions.table.clear();
                self.sessions.answers.clear();
                self.sessions.fragments.clear();
            }
            (about::SESSION, value) => self.take_session(&read_key(key)?, value)?,
            (about::FRAGMENT, value) => self.take_fragment(&read_fragment_key(key)?, value)?,
            (about::BACKEND, Some(value)) => {
                let backend = self.read_backend(&mut Bytes(key))?;
                let standing = read_standing(value)?;
                let service = &self.program.service(backend)?.config;
                let (checks, judges) = (service.health.is_some(), service.passive.is_some());
                // What nobody looks at any more would stay so.
                *self.standings.get_mut(backend)? = standing.only(checks, judges);
            }
            (about::RULE, Some(value)) => {
                let rule = self.program.rules.iter().position(|words| words.as_bytes() == key)?;
                let mut value = Bytes(value);
                let count = RuleCount { packets: value.long()?, bytes: value.long()? };
                *self.counts.get_mut(rule)? = count;
                *self.is_dirty.get_mut(rule)? = true;
            }
            (about::TICK, Some(value)) => self.tick = self.tick.max(Bytes(value).long()?),
            _ => return None,
        }
        Some(())
    }

    fn take_session(&mut self, key: &FlowKey, value: Option<&[u8]>) -> Option<()> {
        let end = (key.destination, key.protocol, key.destination_port);
        let (service, by_client) =
            self.program.service_at(&end).map(|(at, one)| (at, one.is_by_client()))?;
        let session = value.map(|value| self.read_session(service, value));
        let known = self.sessions.find(key).map(|known| known.backend);
        if let Some(known) = known {
            let answer = self.answer_key(key, known)?;
            self.sessions.remove(key, &answer);
        }
        let Some(session) = session else { return known.map(|_| ()) };
        let session = session.filter(|_| by_client == (key.source_port == 0))?;
        let answer = self.answer_key(key, session.backend)?;
        self.sessions.put(*key, answer, session).then_some(())
    }

    fn take_fragment(&mut self, key: &FragmentKey, value: Option<&[u8]>) -> Option<()> {
        let Some(value) = value else {
            let slot = self.sessions.fragments.find(key)?;
            return self.sessions.fragments.remove(slot).map(|_| ());
        };
        let mut value = Bytes(value);
        let (seen, tick) = (Time(value.long()?), value.long()?);
        let backend = match value.0 {
            [] => None,
            _ => Some(self.read_backend(&mut value)?),
        };
        self.sessions.put_fragmented(*key, Fragmented { backend, seen, tick, is_dirty: true });
        Some(())
    }

    /// The backend with a key, where there is such a one.
    fn read_backend(&self, bytes: &mut Bytes<'_>) -> Option<usize> {
        let protocol = IpProtocol(bytes.byte()?);
        let service = (read_address(bytes)?, protocol, bytes.word()?);
        let end = (read_address(bytes)?, bytes.word()?);
        let (service, _) = self.program.service_at(&service).filter(|_| bytes.0.is_empty())?;
        self.program.backend_of(service, end)
    }

    /// None: it says none, or its backend is none of the service's.
    fn read_session(&self, service: usize, value: &[u8]) -> Option<Session> {
        let mut value = Bytes(value);
        let end = (read_address(&mut value)?, value.word()?);
        let (last, tick, asked) = (Time(value.long()?), value.long()?, Time(value.long()?));
        let bits = value.byte().filter(|_| value.0.is_empty())?;
        Some(Session {
            backend: self.program.backend_of(service, end)?,
            last,
            tick,
            asked: (bits & bit::ASKED != 0).then_some(asked),
            has_failed: bits & bit::FAILED != 0,
            is_answered: bits & bit::ANSWERED != 0,
            closed: bits >> bit::CLOSED & 3,
            is_dirty: true,
        })
    }
}

impl Backend {
    /// What it is to others: its service's end and its own.
    fn key(&self, (address, protocol, port): (IpAddr, IpProtocol, u16)) -> Vec<u8> {
        let mut bytes = vec![protocol.0];
        put_address(address, &mut bytes);
        bytes.extend(port.to_be_bytes());
        put_address(self.address, &mut bytes);
        bytes.extend(self.port.to_be_bytes());
        bytes
    }
}

fn put_address(address: IpAddr, into: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            into.push(4);
            into.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            into.push(6);
            into.extend(v6.octets());
        }
    }
}

fn read_address(bytes: &mut Bytes<'_>) -> Option<IpAddr> {
    match bytes.byte()? {
        4 => bytes.take::<4>().map(|octets| Ipv4Addr::from(octets).into()),
        6 => bytes.take::<16>().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

fn session_key(key: &FlowKey) -> Vec<u8> {
    [vec![about::SESSION], key_bytes(key)].concat()
}

fn session_value(session: &Session, backend: &Backend) -> Vec<u8> {
    let mut value = Vec::with_capacity(48);
    put_address(backend.address, &mut value);
    value.extend(backend.port.to_be_bytes());
    for number in [session.last.0, session.tick, session.asked.unwrap_or_default().0] {
        value.extend(number.to_be_bytes());
    }
    let mut bits = session.closed << bit::CLOSED;
    for (is_so, bit) in [
        (session.asked.is_some(), bit::ASKED),
        (session.has_failed, bit::FAILED),
        (session.is_answered, bit::ANSWERED),
    ] {
        bits |= if is_so { bit } else { 0 };
    }
    value.push(bits);
    value
}

fn fragment_key(key: &FragmentKey) -> Vec<u8> {
    let mut bytes = vec![about::FRAGMENT, key.direction as u8];
    bytes.extend(key.identification.to_be_bytes());
    bytes.extend(key_bytes(&key.common));
    bytes
}

fn read_fragment_key(bytes: &[u8]) -> Option<FragmentKey> {
    let mut bytes = Bytes(bytes);
    let direction = match bytes.byte()? {
        0 => Direction::Forward,
        1 => Direction::Backward,
        _ => return None,
    };
    let identification = bytes.double_word()?;
    Some(FragmentKey { common: read_key(bytes.0)?, identification, direction })
}

fn standing_value(standing: &Standing) -> Vec<u8> {
    let mut value = vec![standing.is_up.into(), standing.streak, standing.is_link_sure.into()];
    value.extend(standing.failures.to_be_bytes());
    value.extend(standing.ejections.to_be_bytes());
    value.extend(standing.ejected_until.0.to_be_bytes());
    value.extend(standing.link.iter().flat_map(Link::bytes));
    value
}

fn read_standing(value: &[u8]) -> Option<Standing> {
    let mut value = Bytes(value);
    let [is_up, streak, is_link_sure] = value.take()?;
    let (failures, ejections) = (value.word()?, value.word()?);
    let ejected_until = Time(value.long()?);
    let link = match value.0 {
        [] => None,
        header => Some(Link::of(header)?),
    };
    Some(Standing {
        is_up: is_up != 0,
        streak,
        failures,
        ejections,
        ejected_until,
        link,
        is_link_sure: is_link_sure != 0,
        is_dirty: true,
    })
}
