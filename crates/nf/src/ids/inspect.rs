//! One packet on its way through the rules: fragments, flow, stream, requests, rules, thresholds.
//!
//! Knows what a packet changes in the state that it is given. Refuses to know whether that state is the
//! function's own or an excerpt of it, and what becomes of what it finds.

use super::config::IdsConfig;
use super::datagrams::Added;
use super::evaluate::{Cursors, Held, Window};
use super::facts::{Facts, is_flow_such};
use super::flow::{CounterKey, ENDED, Flow, Pair, note_bits};
use super::http::{Request, buffers};
use super::program::{Candidates, Program, Rank};
use super::state::State;
use super::stream::Stream;
use super::thresholds::{Counted, count};
use crate::packet::{Packet, Time};
use crate::tracking::{Look, Tracking, is_checksum_right};
use catena_rules::condition::ConnectionState;
use catena_rules::snort::{Action, Buffer, IdsRule, Protocol, ThresholdKind, Track};
use catena_wire::frame::Fragment;
use catena_wire::tcp::TcpFlags;

/// Room for what is found on the way.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    candidates: Candidates,
    cursors: Cursors,
    request: Request,
    pub(super) datagram: Vec<u8>,
}

impl Scratch {
    /// With all the room that packets need.
    pub(super) fn with_room(program: &Program) -> Self {
        Self {
            candidates: Candidates::new(program.order.len()),
            cursors: Cursors::with_room(usize::from(u16::MAX)),
            request: Request::with_room(),
            datagram: Vec::with_capacity(super::datagrams::FRAME_BYTES_MAX),
        }
    }

    /// With room that grows, for one packet.
    pub(super) fn small(program: &Program) -> Self {
        Self {
            candidates: Candidates::new(program.order.len()),
            cursors: Cursors::default(),
            request: Request::default(),
            datagram: Vec::new(),
        }
    }
}

/// What does not change while a packet is looked at.
#[derive(Clone, Copy)]
pub(super) struct Moment<'m> {
    pub(super) program: &'m Program,
    pub(super) config: &'m IdsConfig,
    pub(super) tracking: &'m Tracking,
    pub(super) now: Time,
}

/// A rule that matched.
pub(super) struct Hit<'h> {
    pub(super) number: u32,
    pub(super) rule: &'h IdsRule,
    /// Are people told?
    pub(super) is_told: bool,
    pub(super) facts: &'h Facts<'h>,
    pub(super) request: Option<&'h Request>,
    pub(super) flow_id: Option<u64>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    /// A rule says so; is the sender told?
    Ends {
        rule: u32,
        is_rejected: bool,
    },
    /// There is no room for what it needs.
    Full,
}

/// What was found of a packet.
pub(super) struct Found {
    pub(super) fate: Fate,
    /// What the packet makes of its connection.
    pub(super) look: Option<Look>,
    /// Why it was not looked at, or not wholly.
    pub(super) note: Option<Note>,
}

/// What is counted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    BadChecksum,
    LowTtl,
    FlowsFull,
    StreamsFull,
    FragmentsFull,
    FragmentsOverlap,
    ThresholdsFull,
}

impl Found {
    const fn passes(note: Option<Note>) -> Self {
        Self { fate: Fate::Passes, look: None, note }
    }

    /// By policy, what finds no room passes an ids and ends in an ips.
    fn full(config: &IdsConfig, note: Note) -> Self {
        let fate = if config.is_preventing { Fate::Full } else { Fate::Passes };
        Self { fate, look: None, note: Some(note) }
    }
}

/// Looks at a packet.
pub(super) fn inspect(
    moment: Moment<'_>,
    state: &mut State,
    scratch: &mut Scratch,
    packet: &Packet<'_>,
    tell: &mut dyn FnMut(&Hit<'_>),
) -> Found {
    if packet.view.fragment == Fragment::Whole {
        return inspect_whole(moment, state, scratch, packet, tell);
    }
    let (slot, last) = match state.datagrams.add(moment.now, packet) {
        Added::Waits => return Found::passes(None),
        Added::Ends => return Found::passes(Some(Note::FragmentsOverlap)),
        Added::Full => return Found::full(moment.config, Note::FragmentsFull),
        Added::Whole(slot, last) => (slot, last),
    };
    let mut frame = std::mem::take(&mut scratch.datagram);
    let written = state.datagrams.write(slot, &mut frame);
    let whole = written.and_then(|()| Packet::read(&frame).ok());
    let found = match &whole {
        Some(whole) => inspect_whole(moment, state, scratch, whole, tell),
        None => Found::passes(None),
    };
    if found.fate == Fate::Passes {
        state.datagrams.remove(slot);
    } else {
        state.datagrams.undo(slot, last);
    }
    scratch.datagram = frame;
    found
}

fn inspect_whole(
    moment: Moment<'_>,
    state: &mut State,
    scratch: &mut Scratch,
    packet: &Packet<'_>,
    tell: &mut dyn FnMut(&Hit<'_>),
) -> Found {
    let (Some(facts), Some(key)) = (Facts::of(packet), packet.view.flow) else {
        return Found::passes(None);
    };
    // Hosts drop what these are.
    if !is_checksum_right(packet, &key) {
        return Found::passes(Some(Note::BadChecksum));
    }
    if facts.ttl < moment.config.ttl_min {
        return Found::passes(Some(Note::LowTtl));
    }
    let look = moment.tracking.look(moment.now, packet);
    let (pair, is_forward) = Pair::of(&key);
    let mut way = match find_flow(moment, state, look.as_ref(), (&pair, is_forward), &facts) {
        Ok(way) => way,
        Err(()) if moment.config.is_preventing => {
            return Found::full(moment.config, Note::FlowsFull);
        }
        Err(()) => None,
    };
    let mut note = (way.is_none() && wants_flow(look.as_ref())).then_some(Note::FlowsFull);
    let before = way.as_ref().map(|way| way.flow.streams);
    if let Some(way) = &mut way
        && !follow(way, &facts, state)
    {
        note = Some(Note::StreamsFull);
        if moment.config.is_preventing {
            let undone = before.unwrap_or_default();
            keep(state, way, Some(undone));
            return Found { look: None, ..Found::full(moment.config, Note::StreamsFull) };
        }
    }
    let mut pass = Walk { moment, facts: &facts, fate: Fate::Passes, note, tell };
    pass.all(state, scratch, way.as_mut());
    let Walk { fate, note, .. } = pass;
    if let Some(way) = &mut way {
        way.flow.streams.iter_mut().flatten().for_each(|stream| stream.seen = stream.end);
        keep(state, way, before.filter(|_| fate != Fate::Passes));
    }
    Found { fate, look, note }
}

/// A flow, and how a packet goes in it.
struct Way {
    slot: u32,
    flow: Flow,
    id: u64,
    is_to_server: bool,
}

fn wants_flow(look: Option<&Look>) -> bool {
    look.is_some_and(|look| {
        matches!(look.state, ConnectionState::New | ConnectionState::Established)
    })
}

/// The flow of a packet; none: it has none. An error: there is no room.
fn find_flow(
    moment: Moment<'_>,
    state: &mut State,
    look: Option<&Look>,
    (pair, is_forward): (&Pair, bool),
    facts: &Facts<'_>,
) -> Result<Option<Way>, ()> {
    let now = moment.now;
    let Some(look) = look else { return Ok(None) };
    let flags = facts.tcp.as_ref().map_or(TcpFlags(0), catena_wire::tcp::TcpView::flags);
    let is_syn = flags.has_any(TcpFlags::SYN);
    let asks = is_syn && !flags.has_any(TcpFlags::ACK);
    let slot = state.flows.find(pair);
    let known = slot.and_then(|slot| state.flows.get(slot)).map(|(_, flow)| *flow);
    let begins_anew = asks && look.state == ConnectionState::New;
    let mut flow = match known.filter(|flow| !begins_anew && !flow.is_over(pair, now)) {
        Some(flow) => flow,
        None if !wants_flow(Some(look)) => return Ok(None),
        None => {
            if let Some(old) = known {
                state.release(&old);
            }
            // Who is first asks, unless what is first is an answer.
            Flow::new(now, is_forward != (is_syn && !asks))
        }
    };
    let slot = slot.or_else(|| state.flows.insert(*pair, flow)).ok_or(())?;
    flow.last = now;
    flow.is_dirty = true;
    let is_to_server = flow.is_asked_forward == is_forward;
    // A handshake of TCP ends with a word of who began it.
    let ends_handshake = !is_syn && (is_to_server || facts.tcp.is_none());
    flow.is_established |= look.state == ConnectionState::Established && ends_handshake;
    if flags.has_any(TcpFlags::RST) && look.state == ConnectionState::Established {
        flow.ended = ENDED;
    } else if flags.has_any(TcpFlags::FIN) {
        flow.ended |= if is_to_server { 1 } else { 2 };
    }
    let id = flow.id(pair, moment.config.seed);
    Ok(Some(Way { slot, flow, id, is_to_server }))
}

/// Takes a packet of TCP into its stream; false: there was no room.
fn follow(way: &mut Way, facts: &Facts<'_>, state: &mut State) -> bool {
    let Some(tcp) = &facts.tcp else { return true };
    let (own, other) = if way.is_to_server { (0, 1) } else { (1, 0) };
    let is_syn = tcp.flags().has_any(TcpFlags::SYN);
    if tcp.flags().has_any(TcpFlags::ACK)
        && way.flow.is_established
        && let Some(Some(stream)) = way.flow.streams.get_mut(other)
    {
        let block = stream.block.map(|block| state.pool.get_mut(block));
        stream.acknowledged(block, tcp.acknowledgment());
    }
    let first = tcp.sequence().wrapping_add(is_syn.into());
    let Some(place) = way.flow.streams.get_mut(own) else { return true };
    let stream = place.get_or_insert_with(|| Stream::new(first));
    if tcp.payload().is_empty() {
        return true;
    }
    let block = match stream.block {
        Some(block) => block,
        None => match state.pool.take() {
            Some(block) => *stream.block.insert(block),
            None => return false,
        },
    };
    stream.add(state.pool.get_mut(block), first, tcp.payload())
}

/// Keeps a flow; with `streams`, these in place of its own.
fn keep(state: &mut State, way: &mut Way, streams: Option<[Option<Stream>; 2]>) {
    if let Some(streams) = streams {
        let block_of = |stream: &Option<Stream>| stream.and_then(|stream| stream.block);
        for (now, before) in way.flow.streams.iter().zip(&streams) {
            if let (Some(block), None) = (block_of(now), block_of(before)) {
                state.pool.give_back(block);
            }
        }
        // Blocks may have slid: what was before is the same but for where it is.
        for (now, before) in way.flow.streams.iter_mut().zip(streams) {
            *now = match (*now, before) {
                (Some(now), Some(before)) if now.block == before.block => Some(now.undone(&before)),
                (_, before) => before,
            };
        }
    }
    if let Some(flow) = state.flows.get_mut(way.slot) {
        *flow = way.flow;
    }
    state.flows.touch(way.slot);
}

/// What rules ask, packet and request in hand.
#[derive(Clone, Copy)]
struct Sight<'s> {
    facts: &'s Facts<'s>,
    stream: Option<Window<'s>>,
    request: Option<&'s Request>,
    /// Is it the first request of the packet, or are there none?
    is_first: bool,
}

struct Walk<'w, 't> {
    moment: Moment<'w>,
    facts: &'w Facts<'w>,
    fate: Fate,
    note: Option<Note>,
    tell: &'t mut dyn FnMut(&Hit<'_>),
}

impl Walk<'_, '_> {
    /// Holds all rules; true: a rule says that no further one looks.
    fn all(&mut self, state: &mut State, scratch: &mut Scratch, mut way: Option<&mut Way>) -> bool {
        let facts = self.facts;
        let State { pool, counters, .. } = state;
        let Scratch { candidates, cursors, request, .. } = scratch;
        let own = |way: &Way| if way.is_to_server { 0 } else { 1 };
        let stream_of = |way: Option<&Way>| {
            let way = way?;
            let stream = way.flow.streams.get(own(way))?.as_ref()?;
            let bytes = pool.get(stream.block?).get(..stream.end.into())?;
            Some(Window { bytes, base: stream.base, seen: stream.seen.into() })
        };
        let mut is_first = true;
        loop {
            let window = stream_of(way.as_deref()).filter(|_| !facts.payload.is_empty());
            let mut has_request = false;
            if let Some(way) = way.as_deref_mut().filter(|way| way.is_to_server)
                && let (Some(window), Some(Some(stream))) = (window, way.flow.streams.get_mut(0))
            {
                has_request = stream.http.next(window.bytes, request);
                way.flow.is_http |= has_request;
            }
            if !is_first && !has_request {
                return false;
            }
            candidates.clear();
            self.look_for(window, way.as_deref_mut(), candidates);
            if has_request {
                self.moment.program.look_in_request(buffers(request), candidates);
            }
            let request = has_request.then_some(&*request);
            let sight = Sight { facts, stream: window, request, is_first };
            if self.held(sight, candidates, cursors, counters, way.as_deref_mut()) {
                return true;
            }
            if !has_request {
                return false;
            }
            is_first = false;
        }
    }

    /// Notes the rules that packet and stream may be for.
    fn look_for(
        &self,
        window: Option<Window<'_>>,
        way: Option<&mut Way>,
        candidates: &mut Candidates,
    ) {
        let (program, protocol) = (self.moment.program, self.facts.protocol);
        let payload = self.facts.payload;
        program.note_always(protocol, candidates);
        let own =
            way.and_then(|way| way.flow.streams.get_mut(if way.is_to_server { 0 } else { 1 }));
        let mut is_covered = false;
        if let (Some(window), Some(Some(stream))) = (window, own) {
            is_covered = stream.finds.is_next(window.bytes, payload);
            stream.finds.search((program, protocol), window.bytes, candidates);
        }
        if !is_covered {
            program.find(protocol, payload, |rank, _| candidates.set(rank));
        }
    }

    /// Holds the rules that were found; true: no further one looks.
    fn held(
        &mut self,
        sight: Sight<'_>,
        candidates: &Candidates,
        cursors: &mut Cursors,
        counters: &mut super::state::Counters,
        mut way: Option<&mut Way>,
    ) -> bool {
        let mut from: Rank = 0;
        while let Some(rank) = candidates.next(from) {
            from = rank + 1;
            let Some((number, rule)) = self.moment.program.rule(rank) else { continue };
            let asks = rule.is_of_requests();
            if asks && sight.request.is_none() || !asks && !sight.is_first {
                continue;
            }
            let flow = way.as_deref().map(|way| (&way.flow, way.is_to_server));
            let matches = sight.facts.is_between(rule)
                && sight.facts.is_such(rule)
                && is_flow_such(rule, flow)
                && is_in_bytes(rule, &sight, cursors);
            if !matches {
                continue;
            }
            // However often it is told, a match is noted.
            if let Some(way) = way.as_deref_mut() {
                note_bits(rule, &mut way.flow);
            }
            let Some(is_told) = self.counts((number, rule), counters) else { continue };
            if rule.action == Action::Pass {
                let hit = Hit {
                    number,
                    rule,
                    is_told: false,
                    facts: sight.facts,
                    request: None,
                    flow_id: None,
                };
                (self.tell)(&hit);
                return self.fate == Fate::Passes;
            }
            let is_told = is_told && !rule.is_silent;
            let flow_id = way.as_deref().map(|way| way.id);
            let request = sight.request;
            (self.tell)(&Hit { number, rule, is_told, facts: sight.facts, request, flow_id });
            let ends = matches!(rule.action, Action::Drop | Action::Reject);
            if self.moment.config.is_preventing && ends && self.fate == Fate::Passes {
                self.fate = Fate::Ends { rule: number, is_rejected: rule.action == Action::Reject };
            }
        }
        false
    }

    /// What thresholds make of a match: none, it is none; else whether people are told.
    fn counts(
        &mut self,
        (number, rule): (u32, &IdsRule),
        counters: &mut super::state::Counters,
    ) -> Option<bool> {
        let mut is_told = true;
        // What is no match for a filter is none for a threshold either.
        let ordered = [true, false].into_iter().flat_map(|is_filter| {
            let all = (0_u8..).zip(&rule.thresholds);
            all.filter(move |(_, one)| (one.kind == ThresholdKind::Filter) == is_filter)
        });
        for (nth, threshold) in ordered {
            let host = match threshold.track {
                Track::Source => Some(self.facts.source),
                Track::Destination => Some(self.facts.destination),
                Track::Rule => None,
            };
            let key = CounterKey { rule: number, nth, host };
            match count(threshold, key, counters, self.moment.now) {
                None => self.note = Some(Note::ThresholdsFull),
                Some(Counted::NoMatch) => return None,
                Some(Counted::Silent) => is_told = false,
                Some(Counted::Told) => {}
            }
        }
        Some(is_told)
    }
}

/// Are the bytes of packet, stream and request as a rule asks?
fn is_in_bytes(rule: &IdsRule, sight: &Sight<'_>, cursors: &mut Cursors) -> bool {
    let of = |buffer: Buffer| {
        rule.checks.iter().filter(move |(own, _)| *own == buffer).map(|(_, check)| check)
    };
    if let Some(request) = sight.request {
        for (buffer, bytes) in buffers(request) {
            let has_checks = of(buffer).next().is_some();
            if has_checks && cursors.hold(of(buffer), Window::whole(bytes)) == Held::No {
                return false;
            }
        }
    }
    let is_only_stream = rule.flow.is_only_stream || rule.protocol == Protocol::TcpStream;
    let asks = rule.is_of_requests();
    if of(Buffer::Payload).next().is_none() {
        return asks
            || !is_only_stream
            || sight.stream.is_some_and(|window| window.bytes.len() > window.seen);
    }
    if !is_only_stream
        && cursors.hold(of(Buffer::Payload), Window::whole(sight.facts.payload)) != Held::No
    {
        return true;
    }
    let Some(window) = sight
        .stream
        .filter(|window| !rule.is_of_packets() && (asks || window.bytes.len() > window.seen))
    else {
        return false;
    };
    match cursors.hold(of(Buffer::Payload), window) {
        Held::No => false,
        Held::Before => asks,
        Held::Now => true,
    }
}
