//! Whether a segment's numbers are those of its connection, as Linux judges it
//! (net/netfilter/nf_conntrack_proto_tcp.c, 6.18): after van Rooij, Real Stateful TCP Packet Filtering in IP
//! Filter, 2000. Knows what either side has sent and may send; refuses to know states beyond the handshake.

use super::super::key::Way;
use super::Tcp;
use super::segment::Segment;
use super::step::{Kind, State};
use catena_wire::tcp::TcpFlags;

/// How far acknowledgments may stay behind, at least.
const BEHIND_MAX: u32 = 66_000;

/// Is the first number before the second, counted around?
pub(super) const fn before(first: u32, second: u32) -> bool {
    first.wrapping_sub(second) > u32::MAX / 2
}

/// Is the first number after the second?
pub(super) const fn after(first: u32, second: u32) -> bool {
    before(second, first)
}

/// What is known of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    pub(super) const NONE: Self = Self(0);
    /// It scales its windows.
    pub(super) const SCALE: Self = Self(1);
    /// It takes selective acknowledgments.
    pub(super) const SACK: Self = Self(2);
    /// It was the first to close.
    pub(super) const CLOSED: Self = Self(4);
    /// Its numbers are not held against it: its handshake was not seen.
    pub(super) const LIBERAL: Self = Self(8);
    /// Something that it sent is not acknowledged.
    pub(super) const UNACKNOWLEDGED: Self = Self(16);
    /// [`Side::acknowledged`] is known.
    pub(super) const ACKNOWLEDGED: Self = Self(32);
    /// Of what is annotated: the answer may be an ACK that challenges (RFC 5961).
    pub(super) const CHALLENGE: Self = Self(64);
    /// Of what is annotated: both sides have sent a SYN.
    pub(super) const BOTH_OPEN: Self = Self(128);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) const fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

/// What a side has sent and may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    /// Behind the last byte that it has sent.
    pub(crate) end: u32,
    /// Behind the last byte that it may send.
    pub(crate) end_max: u32,
    /// The widest window that it has offered; 0: nothing of it was seen.
    pub(crate) window_max: u32,
    /// The highest number that it has acknowledged.
    pub(crate) acknowledged: u32,
    /// How far its windows are shifted.
    pub(crate) scale: u8,
    pub(crate) flags: Flags,
}

impl Side {
    /// Takes what the options say, if there are some.
    fn take_offers(&mut self, segment: &Segment<'_>) {
        if let Some((offered, scale)) = segment.offers() {
            self.flags.0 &= Flags::LIBERAL.0;
            self.flags.set(offered);
            self.scale = scale;
        }
    }

    /// Begins with a SYN.
    pub(super) fn open(&mut self, segment: &Segment<'_>) {
        self.end = segment.end;
        self.end_max = segment.end;
        self.window_max = u32::from(segment.window).max(1);
        self.take_offers(segment);
    }

    /// Forgets all but how it is judged.
    pub(super) fn forget(&mut self) {
        let flags = Flags(self.flags.0 & Flags::LIBERAL.0);
        *self = Self { flags, ..Self::default() };
    }

    /// How far the other side's acknowledgments may stay behind.
    fn behind_max(&self) -> u32 {
        self.window_max.max(BEHIND_MAX)
    }
}

/// What a segment's numbers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    Fit,
    /// They are of long ago: nothing changes.
    Late,
    /// They are none of this connection.
    Never,
}

impl Tcp {
    /// Judges a segment, and takes over what it says.
    pub(super) fn judge(&mut self, segment: &Segment<'_>, way: Way, is_liberal: bool) -> Numbers {
        let state = self.state;
        let (sender, receiver) = sides(&mut self.sides, way);
        let (mut sequence, mut end) = (segment.sequence, segment.end);
        let mut ack = segment.acknowledgment;
        let takes_sack = receiver.flags.has(Flags::SACK);
        let mut sack = if takes_sack { segment.highest_acknowledged() } else { ack };
        let has_ack = segment.has(TcpFlags::ACK);
        let is_syn = segment.has(TcpFlags::SYN);
        if sender.window_max == 0 {
            if is_syn {
                reopen(sender, receiver, segment, way);
                if !has_ack {
                    return Numbers::Fit;
                }
            } else {
                sender.end = end;
                sender.window_max = (u32::from(segment.window) << sender.scale).max(1);
                sender.end_max = end.wrapping_add(sender.window_max);
                if receiver.window_max == 0 {
                    (receiver.end, receiver.end_max) = (sack, sack);
                } else if sack == receiver.end.wrapping_add(1) {
                    // It answers a probe whether this side is still there.
                    receiver.end = sack;
                }
            }
        } else if is_syn
            && after(end, sender.end)
            && matches!(state, State::SynSent | State::SynReceived)
        {
            reopen(sender, receiver, segment, way);
            if way == Way::Reply && !has_ack {
                return Numbers::Fit;
            }
        }
        let is_reset = segment.has(TcpFlags::RST);
        if !has_ack || is_reset && ack == 0 {
            (ack, sack) = (receiver.end, receiver.end);
        }
        if is_reset && sequence == 0 && state == State::SynSent {
            (sequence, end) = (sender.end, sender.end);
        }
        let is_liberal = is_liberal || sender.flags.has(Flags::LIBERAL);
        match bounds(sender, receiver, (sequence, end, sack)) {
            Numbers::Fit => {}
            _ if is_liberal => return Numbers::Fit,
            other => return other,
        }
        take(sender, receiver, segment, (end, ack, sack));
        if segment.kind == Kind::Ack {
            self.note_ack(way, segment, (sequence, end, ack));
        }
        Numbers::Fit
    }

    /// Counts how often the same ACK came.
    fn note_ack(&mut self, way: Way, segment: &Segment<'_>, (sequence, end, ack): (u32, u32, u32)) {
        let last = &mut self.last;
        let is_same = last.way == way
            && last.sequence == sequence
            && last.acknowledgment == ack
            && last.end == end
            && last.window == segment.window;
        if is_same {
            last.repeated = last.repeated.wrapping_add(1);
            return;
        }
        last.way = way;
        last.sequence = sequence;
        last.acknowledgment = ack;
        last.end = end;
        last.window = segment.window;
        last.repeated = 0;
    }
}

/// Sender and receiver.
fn sides(sides: &mut [Side; 2], way: Way) -> (&mut Side, &mut Side) {
    let [first, second] = sides;
    match way {
        Way::Original => (first, second),
        Way::Reply => (second, first),
    }
}

/// A side begins, or begins again. Windows are scaled if both sides say so (RFC 7323 section 2.2).
fn reopen(sender: &mut Side, receiver: &mut Side, segment: &Segment<'_>, way: Way) {
    sender.open(segment);
    let do_both = sender.flags.has(Flags::SCALE) && receiver.flags.has(Flags::SCALE);
    if way == Way::Reply && !do_both {
        (sender.scale, receiver.scale) = (0, 0);
    }
}

/// Holds numbers against what the sides have sent and may send.
fn bounds(sender: &mut Side, receiver: &Side, (sequence, end, sack): (u32, u32, u32)) -> Numbers {
    let end_min = sender.end.wrapping_sub(receiver.window_max).wrapping_sub(1);
    let sack_min = receiver.end.wrapping_sub(sender.behind_max()).wrapping_sub(1);
    let is_acked_sent = before(sack, receiver.end.wrapping_add(1));
    if !before(sequence, sender.end_max.wrapping_add(1)) {
        let over = end.wrapping_sub(sender.end_max).wrapping_add(1);
        let is_near = receiver.window_max != 0
            && after(end, end_min)
            && after(sack, sack_min)
            && over <= receiver.window_max
            && is_acked_sent;
        if !is_near {
            return Numbers::Never;
        }
        // It sends more than it may: what acknowledges this must fit all the same.
        sender.end = end;
        sender.flags.set(Flags::UNACKNOWLEDGED);
        return Numbers::Late;
    }
    if !is_acked_sent {
        return Numbers::Never;
    }
    let is_recent = receiver.window_max == 0 || after(end, end_min);
    if is_recent && after(sack, sack_min) { Numbers::Fit } else { Numbers::Late }
}

/// Takes over what a segment says whose numbers fit.
fn take(
    sender: &mut Side,
    receiver: &mut Side,
    segment: &Segment<'_>,
    (end, ack, sack): (u32, u32, u32),
) {
    let mut window = u32::from(segment.window);
    if !segment.has(TcpFlags::SYN) {
        window <<= sender.scale;
    }
    let reach = window.wrapping_add(sack.wrapping_sub(ack));
    sender.window_max = sender.window_max.max(reach);
    if after(end, sender.end) {
        sender.end = end;
        sender.flags.set(Flags::UNACKNOWLEDGED);
    }
    if segment.has(TcpFlags::ACK)
        && (!sender.flags.has(Flags::ACKNOWLEDGED) || after(ack, sender.acknowledged))
    {
        sender.acknowledged = ack;
        sender.flags.set(Flags::ACKNOWLEDGED);
    }
    if receiver.window_max != 0 && after(end, sender.end_max) {
        let over = end.wrapping_sub(sender.end_max);
        receiver.window_max = receiver.window_max.wrapping_add(over);
    }
    let may_send = sack.wrapping_add(window);
    if after(may_send, receiver.end_max.wrapping_sub(1)) {
        // A window of nothing is probed with a byte.
        receiver.end_max = may_send.wrapping_add(u32::from(window == 0));
    }
    if ack == receiver.end {
        receiver.flags.clear(Flags::UNACKNOWLEDGED);
    }
}
