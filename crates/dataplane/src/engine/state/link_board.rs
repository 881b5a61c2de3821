//! How the links of a node are, as far as its data plane sees it: who is heard at the other end, whether
//! he is silent, and whether anything is plugged in. Shared by all engines of a node. Knows words and their times;
//! refuses to know routes, and what becomes of packets.
//!
//! A neighbour is one who has said a word with the domain's key that names what this end said last of itself: he
//! hears this end, now. From then on a period without a word from him is a miss, and three make him silent; a period
//! in which nobody looked counts for none, nor for some seconds does one in which other frames of his came: words may
//! have found no room among them. Whoever is silent is still the neighbour, until that has lasted for so long
//! that it cannot be told any more who is plugged in.
//!
//! Without a key of the domain nobody can be known, so links are taken as they are.

use catena_model::account::LinkLife;
use catena_model::limits::{HELLO_MISSES_MAX, HELLO_PERIOD_MS};
use catena_model::topology::PortNumber;
use catena_wire::flow::mix;
use catena_wire::source_route::hello::{HELLO_BYTES, Hello, HelloKey};
use std::array;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Between two words, in nanoseconds.
pub(crate) const PERIOD_NS: u64 = HELLO_PERIOD_MS * 1_000_000;
/// A period that took so long was not looked at.
const GAP_NS: u64 = PERIOD_NS + PERIOD_NS / 2;
/// Misses after which it is not known any more who is plugged in.
const FORGOTTEN_MISSES: u8 = 40;
/// Neighbours of one link that are remembered while it has its name; one more, and it gets another.
const FORMER_MAX: usize = 8;
/// Words of one link that are answered at once, in one period.
const ANSWERS_MAX: u8 = 4;
const NUMBERS: usize = 256;

mod flag {
    /// A neighbour of this domain is plugged in.
    pub(super) const KNOWN: u8 = 1;
    /// He has not said anything lately.
    pub(super) const SILENT: u8 = 2;
    /// Nothing is plugged in.
    pub(super) const DARK: u8 = 4;
}

/// What a link is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is as it should be.
    Sound,
    /// Its neighbour is silent: by a detour, if there is one.
    Doubted,
    /// Nothing goes this way.
    Dead,
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// This end has a link.
    is_link: bool,
    /// What this end calls itself; another with each start, and whenever something else may be plugged in.
    own: u64,
    sequence: u64,
    /// What the neighbour calls himself; 0: there is none.
    neighbour: u64,
    neighbour_sequence: u64,
    has_spoken: bool,
    /// He does not hear this end, as he says.
    is_deaf: bool,
    missed: u8,
    /// Periods without a word that were no misses, since frames of his came.
    excused: u8,
    /// Those who were the neighbour before, since this end has its name: what of theirs comes was kept by somebody.
    former: [u64; FORMER_MAX],
    answered: u8,
}

struct Sessions {
    of: Box<[Session; NUMBERS]>,
    key: Option<HelloKey>,
    secret: u64,
    names: u64,
    looked_ns: Option<u64>,
}

/// The board of a node.
pub struct LinkBoard {
    states: [AtomicU8; NUMBERS],
    detoured: [AtomicU64; NUMBERS],
    unflushed: [AtomicU64; NUMBERS],
    silences: [AtomicU64; NUMBERS],
    /// The link has brought what goes on, since it was looked at last.
    brought: [AtomicBool; NUMBERS],
    /// More with each link whose neighbour is silent, speaks again or is forgotten, and when something is plugged in
    /// or out.
    turns: AtomicU64,
    sessions: Mutex<Sessions>,
}

impl std::fmt::Debug for LinkBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkBoard").field("turns", &self.turns).finish_non_exhaustive()
    }
}

impl LinkBoard {
    /// A board without links. `secret` makes the names of this node's ends, and is another with each start.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        Self {
            states: array::from_fn(|_| AtomicU8::new(0)),
            detoured: array::from_fn(|_| AtomicU64::new(0)),
            unflushed: array::from_fn(|_| AtomicU64::new(0)),
            silences: array::from_fn(|_| AtomicU64::new(0)),
            brought: array::from_fn(|_| AtomicBool::new(false)),
            turns: AtomicU64::new(0),
            sessions: Mutex::new(Sessions {
                of: Box::new([Session::default(); NUMBERS]),
                key: None,
                secret,
                names: 0,
                looked_ns: None,
            }),
        }
    }

    /// Lines up with the links and the key of a program.
    pub(crate) fn align(&self, links: impl Iterator<Item = PortNumber>, domain: Option<&[u8; 16]>) {
        let mut sessions = self.sessions();
        let key = domain.map(HelloKey::of_domain);
        let mut are_links = [false; NUMBERS];
        links.for_each(|number| are_links[usize::from(number.get())] = true);
        let is_other_key = sessions.key != key;
        sessions.key = key;
        for (number, is_link) in are_links.into_iter().enumerate() {
            if is_other_key || sessions.of[number].is_link != is_link {
                sessions.begin(number);
                sessions.of[number].is_link = is_link;
                let dark = self.state(number) & flag::DARK;
                let known = if key.is_none() { flag::KNOWN } else { 0 };
                self.states[number].store(dark | known, Ordering::Relaxed);
            }
        }
    }

    /// What a link is good for that frames would leave by.
    #[inline]
    pub(crate) fn use_of(&self, number: u8) -> Use {
        match self.state(number.into()) {
            flag::KNOWN => Use::Sound,
            state if state & flag::DARK == 0 && state & flag::KNOWN != 0 => Use::Doubted,
            _ => Use::Dead,
        }
    }

    /// Is what a link brings sent by a neighbour?
    #[inline]
    pub(crate) fn is_known(&self, number: u8) -> bool {
        self.state(number.into()) & flag::KNOWN != 0
    }

    /// A link has brought frames of its neighbour that go on.
    #[inline]
    pub(crate) fn brought(&self, number: u8) {
        self.brought[usize::from(number)].store(true, Ordering::Relaxed);
    }

    /// So many frames went another way than by this link.
    pub(crate) fn detoured(&self, number: u8, frames: u64) {
        self.detoured[usize::from(number)].fetch_add(frames, Ordering::Relaxed);
    }

    /// So many packets left by this link before their former way was flushed.
    pub(crate) fn unflushed(&self, number: u8, packets: u64) {
        self.unflushed[usize::from(number)].fetch_add(packets, Ordering::Relaxed);
    }

    /// Shows what another board shows of its links; neither hears nor says anything.
    pub(crate) fn show(&self, other: &Self) {
        for (own, other) in self.states.iter().zip(&other.states) {
            own.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Nothing is plugged into these links, and something into all others.
    pub fn set_dark(&self, dark: &[PortNumber]) {
        let mut sessions = self.sessions();
        let mut has_turned = false;
        for number in 0..NUMBERS {
            let is_dark = dark.iter().any(|one| usize::from(one.get()) == number);
            if self.is_dark(number) == is_dark {
                continue;
            }
            // Whoever is plugged in next may be another.
            sessions.begin(number);
            let known = if sessions.key.is_none() { flag::KNOWN } else { 0 };
            let dark = if is_dark { flag::DARK } else { 0 };
            self.states[number].store(known | dark, Ordering::Relaxed);
            has_turned = true;
        }
        self.turns.fetch_add(has_turned.into(), Ordering::Relaxed);
    }

    /// Takes a word that a link has brought; an answer, if one is due at once.
    ///
    /// # Errors
    /// Nobody whom this node could know has said it.
    pub(crate) fn hear(
        &self,
        number: u8,
        frame: &[u8],
    ) -> Result<Option<[u8; HELLO_BYTES]>, NotOurs> {
        // Read while nobody waits for it: strangers may send many.
        let key = self.sessions().key.ok_or(NotOurs)?;
        let hello = Hello::parse(frame, &key).map_err(|_| NotOurs)?;
        let mut sessions = self.sessions();
        if hello.speaker == 0 || sessions.of.iter().any(|session| session.own == hello.speaker) {
            return Err(NotOurs);
        }
        let session = &mut sessions.of[usize::from(number)];
        if !session.is_link {
            return Err(NotOurs);
        }
        let is_fresh = hello.heard == session.own;
        let is_neighbour = hello.speaker == session.neighbour;
        let is_kept = is_neighbour && hello.sequence <= session.neighbour_sequence;
        if is_kept || session.former.contains(&hello.speaker) {
            return Err(NotOurs);
        }
        session.is_deaf |= is_neighbour && !is_fresh;
        if is_fresh {
            if !is_neighbour && session.neighbour != 0 {
                let Some(place) = session.former.iter_mut().find(|one| **one == 0) else {
                    sessions.begin(number.into());
                    return Err(NotOurs);
                };
                *place = session.neighbour;
            }
            session.neighbour = hello.speaker;
            session.neighbour_sequence = hello.sequence;
            (session.has_spoken, session.is_deaf) = (true, false);
            (session.missed, session.excused) = (0, 0);
            // Who hears this end by its newest name is plugged in, whatever an agent has seen before.
            let not = !(flag::SILENT | flag::DARK);
            let former = self.states[usize::from(number)].fetch_and(not, Ordering::Relaxed);
            self.states[usize::from(number)].fetch_or(flag::KNOWN, Ordering::Relaxed);
            if former != flag::KNOWN {
                self.turns.fetch_add(1, Ordering::Relaxed);
            }
            if is_neighbour {
                return Ok(None);
            }
        }
        if session.answered >= ANSWERS_MAX {
            return Ok(None);
        }
        session.answered += 1;
        Ok(Some(session.say(number, hello.speaker).emit(&key)))
    }

    /// Judges who has been silent, if a period is over, and hands out the words that are due. Answers when it wants
    /// to be asked again; none: there is nobody to speak to.
    pub(crate) fn tick(
        &self,
        now_ns: u64,
        mut say: impl FnMut(PortNumber, [u8; HELLO_BYTES]),
    ) -> Option<u64> {
        let mut sessions = self.sessions();
        let key = sessions.key?;
        if !sessions.of.iter().any(|session| session.is_link) {
            return None;
        }
        let since = sessions.looked_ns.map(|looked_ns| now_ns.saturating_sub(looked_ns));
        if let Some(since) = since.filter(|since| *since < PERIOD_NS) {
            return Some(now_ns + PERIOD_NS - since);
        }
        let was_looked_at = since.is_some_and(|since| since <= GAP_NS);
        for number in 0..=u8::MAX {
            let at = usize::from(number);
            let is_link = sessions.of[at].is_link;
            let Some(port) = PortNumber::new(number).filter(|_| is_link) else { continue };
            if was_looked_at && self.judge(at, &mut sessions.of[at]) {
                // What its neighbour has said to this name may have been kept.
                sessions.begin(at);
            }
            let session = &mut sessions.of[at];
            (session.has_spoken, session.is_deaf) = (false, false);
            session.answered = 0;
            if !self.is_dark(number.into()) {
                // Whoever hears nothing says so: then the other end knows that its words are lost.
                let is_heard = session.missed < HELLO_MISSES_MAX;
                let heard = if is_heard { session.neighbour } else { 0 };
                say(port, session.say(number, heard).emit(&key));
            }
        }
        // In its own time, whenever it was asked: else each look would be later than the last.
        let next_ns = sessions.looked_ns.filter(|_| was_looked_at).map(|at| at + PERIOD_NS);
        sessions.looked_ns = Some(next_ns.unwrap_or(now_ns));
        Some(next_ns.unwrap_or(now_ns) + PERIOD_NS)
    }

    /// Judges one link at the end of a period. Answers whether it has forgotten its neighbour.
    fn judge(&self, number: usize, session: &mut Session) -> bool {
        let has_brought = self.brought[number].swap(false, Ordering::Relaxed);
        if session.has_spoken || session.neighbour == 0 {
            return false;
        }
        // Where frames come, words may have found no room among them.
        if has_brought && !session.is_deaf && session.excused < FORGOTTEN_MISSES {
            session.excused += 1;
            return false;
        }
        session.missed = session.missed.saturating_add(1);
        if session.missed == HELLO_MISSES_MAX {
            self.states[number].fetch_or(flag::SILENT, Ordering::Relaxed);
            self.silences[number].fetch_add(1, Ordering::Relaxed);
            self.turns.fetch_add(1, Ordering::Relaxed);
        } else if session.missed == FORGOTTEN_MISSES {
            self.states[number].fetch_and(flag::DARK, Ordering::Relaxed);
            self.turns.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Another number whenever a neighbour has fallen silent, speaks again or is forgotten, or something was plugged in
    /// or out.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// The links that something is plugged into, and at whose other ends no neighbour is heard.
    #[must_use]
    pub fn unheard(&self) -> Vec<PortNumber> {
        let sessions = self.sessions();
        let is_unheard = |number: &PortNumber| {
            let at = usize::from(number.get());
            sessions.of[at].is_link && self.state(at) != flag::KNOWN && !self.is_dark(at)
        };
        (1..=u8::MAX).filter_map(PortNumber::new).filter(is_unheard).collect()
    }

    fn is_dark(&self, number: usize) -> bool {
        self.state(number) & flag::DARK != 0
    }

    /// What became of a link.
    #[must_use]
    pub fn life(&self, number: PortNumber) -> LinkLife {
        let at = usize::from(number.get());
        let state = self.state(at);
        LinkLife {
            port: number.link_id(),
            is_known: state & flag::KNOWN != 0,
            is_silent: state & flag::SILENT != 0,
            silences: self.silences[at].load(Ordering::Relaxed),
            detoured: self.detoured[at].load(Ordering::Relaxed),
            unflushed: self.unflushed[at].load(Ordering::Relaxed),
        }
    }

    fn state(&self, number: usize) -> u8 {
        self.states[number].load(Ordering::Relaxed)
    }

    /// A thread that has panicked has left nothing half done that others could not go on with.
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody of this domain has said it, to this end, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOurs;

impl Sessions {
    /// The end calls itself otherwise from now on, and has heard nobody.
    fn begin(&mut self, number: usize) {
        self.names += 1;
        let own = mix(mix(self.secret).wrapping_add(self.names)).max(1);
        let is_link = self.of[number].is_link;
        self.of[number] = Session { is_link, own, ..Session::default() };
    }
}

impl Session {
    fn say(&mut self, port: u8, heard: u64) -> Hello {
        self.sequence += 1;
        Hello { port, speaker: self.own, heard, sequence: self.sequence }
    }
}
