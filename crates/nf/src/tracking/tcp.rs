//! Connections of TCP, as Linux follows them (net/netfilter/nf_conntrack_proto_tcp.c, 6.18). Knows what a
//! segment makes of its connection; refuses to know other connections and the time.

mod segment;
mod step;
#[cfg(test)]
mod tests;
mod window;

pub(super) use segment::Segment;
pub(super) use step::{Kind, State};
pub(super) use window::{Flags, Side};

use super::TrackingConfig;
use super::key::Way;
use super::timeouts::Timeouts;
use step::{Step, step};
use window::{Numbers, before};

/// The same ACK so often after the first is a sender that gets no answer.
const REPEATED_MAX: u8 = 3;
/// What an odd end of a connection leaves at least, seconds.
const LEFT_MIN_S: u64 = 120;

/// A connection of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) state: State,
    /// The one that opened it, and the other.
    pub(super) sides: [Side; 2],
    pub(super) last: Last,
}

/// The last segment, and what was annotated of the last SYN that changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) way: Way,
    pub(super) kind: Kind,
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) end: u32,
    pub(super) window: u16,
    pub(super) scale: u8,
    pub(super) flags: Flags,
    /// How often the last ACK came again.
    pub(super) repeated: u8,
}

/// What else is known of the connection.
#[derive(Debug)]
pub(super) struct Known<'c> {
    /// Has it seen an answer?
    pub(super) has_reply: bool,
    /// Is it open for certain?
    pub(super) is_assured: &'c mut bool,
    /// Seconds for which it would still be remembered.
    pub(super) left_s: u64,
}

/// What a segment makes of its connection. It is remembered for so many seconds; none: for as long as it was
/// to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// The segment belongs to it.
    Belongs(Option<u64>),
    /// The segment does not.
    Invalid(Option<u64>),
    /// The segment belongs to it, and ends it.
    Ends,
    /// It is over, and the segment opens another in its place.
    Reopens,
}

/// Where a segment leads.
#[derive(Clone, Copy, Debug)]
enum Leads {
    /// From the first state to the second, if its numbers fit.
    If(State, State),
    /// The same, whatever its numbers are.
    Surely(State, State),
    Nowhere(Judged),
}

impl Tcp {
    /// A connection whose first segment this is; none: it opens none. Without `is_loose`, those that are
    /// open already are not picked up.
    pub(super) fn open(segment: &Segment<'_>, is_loose: bool) -> Option<Self> {
        let mut tcp = Self {
            state: State::None,
            sides: [Side::default(); 2],
            last: Last {
                way: Way::Original,
                kind: Kind::None,
                sequence: 0,
                acknowledgment: 0,
                end: 0,
                window: 0,
                scale: 0,
                flags: Flags::NONE,
                repeated: 0,
            },
        };
        let [first, second] = &mut tcp.sides;
        match step(Way::Original, segment.kind, State::None) {
            Step::To(State::SynSent) => first.open(segment),
            Step::To(_) if is_loose => {
                first.end = segment.end;
                first.window_max = u32::from(segment.window).max(1);
                first.end_max = segment.end.wrapping_add(first.window_max);
                // Nobody knows what was agreed on.
                first.flags = Flags(Flags::SACK.0 | Flags::LIBERAL.0);
                second.flags = first.flags;
            }
            _ => return None,
        }
        Some(tcp)
    }

    /// What a segment makes of it.
    pub(super) fn follow(
        &mut self,
        segment: &Segment<'_>,
        way: Way,
        known: &mut Known<'_>,
        config: &TrackingConfig,
    ) -> Judged {
        let (old, new) = match self.leads(segment, way, known) {
            Leads::Nowhere(judged) => return judged,
            Leads::Surely(old, new) => (old, new),
            Leads::If(old, new) => match self.judge(segment, way, config.is_liberal) {
                Numbers::Fit => (old, new),
                Numbers::Late => return Judged::Belongs(None),
                Numbers::Never => {
                    let timeout = self.note_odd_end(segment.kind, way, known, &config.timeouts);
                    return Judged::Invalid(timeout);
                }
            },
        };
        self.last.kind = segment.kind;
        self.last.way = way;
        self.state = new;
        if old != new && new == State::FinWait {
            self.side(way).flags.set(Flags::CLOSED);
        }
        let mut timeout = self.timeout(segment.kind, &config.timeouts);
        if !known.has_reply {
            if segment.kind == Kind::Reset {
                return Judged::Ends;
            }
            if segment.kind == Kind::Syn && old == State::SynSent {
                return Judged::Belongs(None);
            }
            if new == State::Established {
                timeout = timeout.min(config.timeouts.unacknowledged_s);
            }
        } else if matches!(old, State::SynReceived | State::Established)
            && new == State::Established
        {
            *known.is_assured = true;
        }
        Judged::Belongs(Some(timeout))
    }

    /// Closes it: a reset was sent in its name. Answers for how many seconds it is remembered.
    pub(super) fn close(&mut self, timeouts: &Timeouts) -> Option<u64> {
        let was_open = self.state != State::Close;
        self.state = State::Close;
        was_open.then_some(timeouts.close_s)
    }

    fn side(&mut self, way: Way) -> &mut Side {
        let [first, second] = &mut self.sides;
        match way {
            Way::Original => first,
            Way::Reply => second,
        }
    }

    fn leads(&mut self, segment: &Segment<'_>, way: Way, known: &Known<'_>) -> Leads {
        let old = self.state;
        let new = match step(way, segment.kind, old) {
            Step::Never => return Leads::Nowhere(Judged::Invalid(None)),
            Step::Stay => return self.stay(segment, way),
            Step::To(new) => new,
        };
        match new {
            State::SynSent if old >= State::TimeWait => {
                let is_closed = self.sides.iter().any(|side| side.flags.has(Flags::CLOSED));
                if is_closed || self.last.way == way && self.last.kind == Kind::Reset {
                    return Leads::Nowhere(Judged::Reopens);
                }
                return self.stay(segment, way);
            }
            State::TimeWait => {
                let is_challenge = old == State::LastAck
                    && segment.kind == Kind::Ack
                    && self.last.way != way
                    && self.last.kind == Kind::Syn
                    && self.last.flags.has(Flags::CHALLENGE);
                if is_challenge {
                    self.last.flags.clear(Flags::CHALLENGE);
                    return Leads::Nowhere(Judged::Belongs(None));
                }
            }
            State::SynSent2 => self.last.flags.set(Flags::BOTH_OPEN),
            State::SynReceived => {
                let is_ack = way == Way::Reply && segment.kind == Kind::Ack;
                if is_ack && self.last.flags.has(Flags::BOTH_OPEN) {
                    return Leads::If(old, State::Established);
                }
            }
            State::Close if segment.kind == Kind::Reset => return self.reset(segment, way, known),
            _ => {}
        }
        Leads::If(old, new)
    }

    /// A segment that changes no state: what it says is kept, in case the ends know better.
    fn stay(&mut self, segment: &Segment<'_>, way: Way) -> Leads {
        let old = self.state;
        let last = self.last;
        let answers_last_syn = segment.kind == Kind::SynAck
            && last.kind == Kind::Syn
            && last.way != way
            && segment.acknowledgment == last.end;
        if answers_last_syn {
            self.last.flags.clear(Flags::CHALLENGE);
            let flags = self.last.flags;
            let opener = self.side(last.way);
            opener.end = last.end;
            opener.end_max = last.end;
            opener.window_max = u32::from(last.window).max(1);
            opener.scale = last.scale;
            opener.flags = flags;
            self.side(way).forget();
            return Leads::If(State::SynSent, State::SynReceived);
        }
        self.last.kind = segment.kind;
        self.last.way = way;
        self.last.sequence = segment.sequence;
        self.last.end = segment.end;
        self.last.window = segment.window;
        if segment.kind == Kind::Syn && way == Way::Original {
            (self.last.flags, self.last.scale) = segment.offers().unwrap_or_default();
            if old == State::LastAck {
                self.last.flags.set(Flags::CHALLENGE);
            }
        }
        if old == State::SynSent && segment.kind == Kind::Ack && way == Way::Reply {
            self.last.acknowledgment = segment.acknowledgment;
        }
        Leads::Nowhere(Judged::Belongs(None))
    }

    /// A reset: it ends a connection only with the number that the other side expects, else the other side
    /// asks again (RFC 5961 section 3).
    fn reset(&mut self, segment: &Segment<'_>, way: Way, known: &Known<'_>) -> Leads {
        let (old, mut new) = (self.state, State::Close);
        if old.is_closing() {
            return Leads::Surely(old, new);
        }
        let last = self.last;
        let other = *self.side(way.reversed());
        if other.flags.has(Flags::ACKNOWLEDGED) && last.kind != Kind::Syn {
            let is_open = old == State::Established && *known.is_assured;
            if segment.sequence == 0 && !is_open {
                return Leads::If(old, new);
            }
            if before(segment.sequence, other.acknowledged) {
                return Leads::Nowhere(Judged::Invalid(None));
            }
            let follows_last =
                last.kind == Kind::Ack && last.way == way && segment.sequence == last.end;
            if !is_open || segment.sequence == other.acknowledged || follows_last {
                return Leads::If(old, new);
            }
            new = old;
        }
        let may_answer = known.has_reply && last.kind == Kind::Syn && last.way != way
            || !*known.is_assured && last.kind == Kind::Ack;
        let answers_challenge = old == State::SynSent
            && last.kind == Kind::Ack
            && last.way == Way::Reply
            && segment.sequence == last.acknowledgment;
        if may_answer && segment.acknowledgment == last.end || answers_challenge {
            return Leads::Surely(old, new);
        }
        Leads::If(old, new)
    }

    /// FIN or RST from both sides, and the numbers of neither fit: it is over, whoever is right.
    fn note_odd_end(
        &mut self,
        kind: Kind,
        way: Way,
        known: &Known<'_>,
        timeouts: &Timeouts,
    ) -> Option<u64> {
        if !*known.is_assured || !matches!(kind, Kind::Fin | Kind::Reset) {
            return None;
        }
        if self.last.way != way && matches!(self.last.kind, Kind::Fin | Kind::Reset) {
            let is_long = known.left_s >= LEFT_MIN_S && known.left_s > timeouts.unacknowledged_s;
            return is_long.then_some(timeouts.unacknowledged_s);
        }
        self.last.kind = kind;
        self.last.way = way;
        None
    }

    /// Seconds for which it is remembered after a segment of this kind.
    fn timeout(&self, kind: Kind, timeouts: &Timeouts) -> u64 {
        let usual = match self.state {
            State::None | State::SynSent => timeouts.syn_sent_s,
            State::SynReceived => timeouts.syn_received_s,
            State::Established => timeouts.established_s,
            State::FinWait => timeouts.fin_wait_s,
            State::CloseWait => timeouts.close_wait_s,
            State::LastAck => timeouts.last_ack_s,
            State::TimeWait => timeouts.time_wait_s,
            State::Close => timeouts.close_s,
            State::SynSent2 => timeouts.syn_sent_2_s,
        };
        let is_unacknowledged = self.sides.iter().any(|side| side.flags.has(Flags::UNACKNOWLEDGED));
        if self.last.repeated >= REPEATED_MAX && usual > timeouts.retransmitted_s {
            timeouts.retransmitted_s
        } else if kind == Kind::Reset {
            timeouts.close_s
        } else if is_unacknowledged && usual > timeouts.unacknowledged_s {
            timeouts.unacknowledged_s
        } else if self.last.window == 0 {
            usual.min(timeouts.retransmitted_s)
        } else {
            usual
        }
    }
}
