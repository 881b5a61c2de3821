//! Sessions: which backend serves which client, for how long. Knows ends, flags of TCP and times; refuses to
//! choose.

use crate::monitor::table::{Keyed, Table};
use crate::packet::{Direction, Time};
use catena_rules::balancer::SessionTimeouts;
use catena_wire::flow::FlowKey;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;

/// Sessions that are looked at for one that is over, where there is no room.
const VICTIMS: usize = 8;
/// Slots that are looked through each time that time passes.
const SWEPT: u32 = 1_024;
/// How long a packet's later fragments may take (RFC 791 section 3.2 gives 15 s, RFC 8200 section 4.5 60 s).
pub(super) const FRAGMENTS: Time = Time::seconds(30);

impl Keyed for FlowKey {
    fn hash(&self, seed: u64) -> u64 {
        self.seeded_hash(seed)
    }
}

/// What the fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentKey {
    pub(super) common: FlowKey,
    pub(super) identification: u32,
    pub(super) direction: Direction,
}

impl Keyed for FragmentKey {
    fn hash(&self, seed: u64) -> u64 {
        let apart = u64::from(self.identification) << 1 | self.direction as u64;
        self.common.seeded_hash(seed ^ apart)
    }
}

/// What the first fragment of a packet has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragmented {
    /// The backend; none: it passed as it was.
    pub(super) backend: Option<usize>,
    pub(super) seen: Time,
    /// Which packet it was: the order of those of one moment.
    pub(super) tick: u64,
    pub(super) is_dirty: bool,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// Among all.
    pub(super) backend: usize,
    pub(super) last: Time,
    /// Which packet was the last: the order of those of one moment.
    pub(super) tick: u64,
    /// A SYN came then, and no answer yet.
    pub(super) asked: Option<Time>,
    /// That counts as a failure already.
    pub(super) has_failed: bool,
    /// Something came back.
    pub(super) is_answered: bool,
    /// Who has closed it, in bits.
    pub(super) closed: u8,
    pub(super) is_dirty: bool,
}

/// Bits of who closed.
const CLIENT: u8 = 1;
const BACKEND: u8 = 2;
pub(super) const ALL_CLOSED: u8 = CLIENT | BACKEND;

/// What a packet says of its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It took a connection.
    Answered,
    /// It did not.
    Failed,
}

/// How a service's sessions are followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    pub(super) protocol: IpProtocol,
    pub(super) is_by_client: bool,
    /// How long an answer may take, where that is judged.
    pub(super) answer: Option<Time>,
}

/// SYN alone.
pub(super) fn asks(flags: Option<TcpFlags>) -> bool {
    let others = TcpFlags::ACK.with(TcpFlags::RST).with(TcpFlags::FIN);
    flags.is_some_and(|flags| flags.has_any(TcpFlags::SYN) && !flags.has_any(others))
}

fn has(flags: Option<TcpFlags>, wanted: TcpFlags) -> bool {
    flags.is_some_and(|flags| flags.has_any(wanted))
}

impl Session {
    /// One with this backend that nothing has come of.
    pub(super) const fn begun(backend: usize, now: Time) -> Self {
        Self {
            backend,
            last: now,
            tick: 0,
            asked: None,
            has_failed: false,
            is_answered: false,
            closed: 0,
            is_dirty: true,
        }
    }

    /// What a packet of the client makes of it.
    pub(super) fn forward(
        &mut self,
        flags: Option<TcpFlags>,
        now: Time,
        how: &Following,
    ) -> Option<Sign> {
        self.last = now;
        let mut sign = None;
        let gives_up = has(flags, TcpFlags::RST);
        if let Some(at) = self.asked.filter(|_| asks(flags) || gives_up) {
            let is_late = how.answer.is_some_and(|most| now.since(at) >= most.0);
            if is_late && !self.has_failed {
                self.has_failed = true;
                sign = Some(Sign::Failed);
            }
            if gives_up {
                // Before an answer was due, that says nothing of the backend.
                self.asked = None;
            }
        } else if asks(flags) {
            (self.asked, self.has_failed) = (Some(now), false);
        }
        self.close(flags, CLIENT, how);
        sign
    }

    /// What a packet of the backend makes of it.
    pub(super) fn backward(
        &mut self,
        flags: Option<TcpFlags>,
        now: Time,
        how: &Following,
    ) -> Option<Sign> {
        self.last = now;
        self.is_answered = true;
        let sign = self.asked.filter(|_| how.answer.is_some()).and_then(|_| {
            if has(flags, TcpFlags::RST) {
                (!self.has_failed).then_some(Sign::Failed)
            } else {
                has(flags, TcpFlags::SYN).then_some(Sign::Answered)
            }
        });
        if has(flags, TcpFlags::SYN) || has(flags, TcpFlags::RST) {
            (self.asked, self.has_failed) = (None, false);
        }
        self.close(flags, BACKEND, how);
        sign
    }

    fn close(&mut self, flags: Option<TcpFlags>, who: u8, how: &Following) {
        if how.is_by_client {
            return;
        }
        if has(flags, TcpFlags::RST) {
            self.closed = ALL_CLOSED;
        } else if has(flags, TcpFlags::FIN) {
            self.closed |= who;
        }
    }

    /// Is nobody to come any more?
    pub(super) fn is_over(&self, now: Time, how: &Following, times: &SessionTimeouts) -> bool {
        let seconds = if how.is_by_client {
            times.client_s
        } else if how.protocol != IpProtocol::TCP {
            times.udp_s
        } else if self.closed == ALL_CLOSED {
            times.closed_s
        } else if self.is_answered {
            times.established_s
        } else {
            times.asked_s
        };
        now.since(self.last) >= Time::seconds(seconds.into()).0
    }
}

/// What was forgotten since the last export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoneKey {
    Session(FlowKey),
    Fragment(FragmentKey),
}

/// All sessions, and packets in fragments.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    pub(super) table: Table<FlowKey, Session>,
    /// Sessions by what backends send; the same ones.
    pub(super) answers: Table<FlowKey, FlowKey>,
    pub(super) fragments: Table<FragmentKey, Fragmented>,
    fragments_max: usize,
    /// None: nothing is noted, and the next export tells everything.
    pub(super) gone: Option<Vec<GoneKey>>,
    sweep: u32,
    sessions_max: u32,
}

impl Sessions {
    pub(super) fn new(sessions_max: usize, fragments_max: usize, seed: u64) -> Self {
        Self {
            table: Table::new(sessions_max, seed),
            answers: Table::new(sessions_max, seed),
            fragments: Table::new(fragments_max, seed),
            fragments_max,
            gone: None,
            sweep: 0,
            sessions_max: u32::try_from(sessions_max).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.table.len() >= self.sessions_max as usize
    }

    /// Of those that were used longest ago, one that is over.
    pub(super) fn victim(&self, is_over: impl Fn(&FlowKey, &Session) -> bool) -> Option<FlowKey> {
        let oldest = self.table.iter().take(VICTIMS);
        oldest.filter(|(key, session)| is_over(key, session)).map(|(key, _)| *key).next()
    }

    pub(super) fn find(&self, key: &FlowKey) -> Option<&Session> {
        self.table.get(self.table.find(key)?).map(|(_, session)| session)
    }

    /// What is known by what a backend sends: the session's key, and it.
    pub(super) fn find_answer(&self, answer: &FlowKey) -> Option<(FlowKey, &Session)> {
        let (_, key) = self.answers.get(self.answers.find(answer)?)?;
        Some((*key, self.find(key)?))
    }

    /// Puts a session in, or in its own place.
    pub(super) fn put(&mut self, key: FlowKey, answer: FlowKey, session: Session) -> bool {
        if let Some(slot) = self.table.find(&key) {
            if let Some(known) = self.table.get_mut(slot) {
                *known = session;
            }
            self.table.touch(slot);
            return true;
        }
        if self.is_full() || self.answers.find(&answer).is_some() {
            return false;
        }
        self.table.insert(key, session).is_some() && self.answers.insert(answer, key).is_some()
    }

    pub(super) fn remove(&mut self, key: &FlowKey, answer: &FlowKey) {
        let Some(slot) = self.table.find(key) else { return };
        self.table.remove(slot);
        if let Some(slot) = self.answers.find(answer) {
            self.answers.remove(slot);
        }
        self.note(GoneKey::Session(*key));
    }

    /// Some of those that are there, from where it stopped last; all of them, each few calls.
    pub(super) fn next_swept(
        &mut self,
        is_over: impl Fn(&FlowKey, &Session) -> bool,
    ) -> Option<FlowKey> {
        let (from, most) = (self.sweep, self.sweep.saturating_add(1).next_multiple_of(SWEPT));
        for slot in from..most.min(self.sessions_max) {
            self.sweep = slot + 1;
            let over = self.table.get(slot).filter(|(key, session)| is_over(key, session));
            if let Some((key, _)) = over {
                return Some(*key);
            }
        }
        None
    }

    /// The next sweep goes on behind the last one.
    pub(super) const fn turn_sweep(&mut self) {
        if self.sweep >= self.sessions_max {
            self.sweep = 0;
        }
    }

    pub(super) fn find_fragmented(&self, key: &FragmentKey, now: Time) -> Option<&Fragmented> {
        let (_, known) = self.fragments.get(self.fragments.find(key)?)?;
        (now.since(known.seen) < FRAGMENTS.0).then_some(known)
    }

    /// Remembers what a first fragment has met; the oldest gives way.
    pub(super) fn put_fragmented(&mut self, key: FragmentKey, met: Fragmented) {
        if let Some(slot) = self.fragments.find(&key) {
            if let Some(known) = self.fragments.get_mut(slot) {
                *known = met;
            }
            self.fragments.touch(slot);
            return;
        }
        if self.fragments.len() >= self.fragments_max
            && let Some((gone, _)) =
                self.fragments.oldest().and_then(|slot| self.fragments.remove(slot))
        {
            self.note(GoneKey::Fragment(gone));
        }
        self.fragments.insert(key, met);
    }

    fn note(&mut self, key: GoneKey) {
        match &mut self.gone {
            Some(keys) if keys.len() < keys.capacity() => keys.push(key),
            // Too much of it: the next export tells everything.
            gone => *gone = None,
        }
    }

    /// Notes from now on.
    pub(super) fn begin_notes(&mut self) {
        let room = self.sessions_max as usize;
        let keys = self.gone.get_or_insert_with(Vec::new);
        keys.clear();
        keys.reserve(room);
    }
}
