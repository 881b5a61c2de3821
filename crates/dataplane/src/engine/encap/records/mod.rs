//! Headers that take records of nodes along, while their packets are with functions of this one.
//!
//! Each packet has another header, so each has a place of its own from where its header comes off to where it leaves.
//! Places are bounded. What ends in between gives none back: whoever has had one for longer than a packet stays in a
//! function makes room, and so does a path with more places than the newcomer's (`shares`). A packet without a place
//! goes on as any other, and nothing is told of it.

mod flows;
mod header;

pub(super) use header::{Fresh, LeavingRecords, TAIL};

use super::carried_ref::CarriedRef;
use super::header::Sample;
use crate::engine::collections::shares::{Shares, must_yield};
use catena_model::PathId;
use catena_model::telemetry::{DeviceId, PathEnd};
use flows::FlowCounters;
use header::{Headers, Own, Strayed};
use std::fmt;
use std::num::NonZeroU32;

/// Ends that are kept until somebody takes them.
const ENDS_MAX: usize = 4_096;
/// How long a packet may be with functions when places are short, in nanoseconds.
const INSIDE_NS: u64 = 1_000_000_000;
/// Places that are looked at for one to be had.
const PLACES_SEARCHED: usize = 16;

/// A packet on its way through this node.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Whose packet it is.
    path: u32,
    /// How often it has been filled; 0: never.
    turn: u32,
    /// Wire packets that have not left.
    left: u32,
    /// Wire packets that have.
    gone: u32,
    /// When the packet came, by our own clock.
    since_ns: u64,
    /// Bytes of the header that it came with; 0: it begins here.
    header_bytes: u16,
    /// Packets of its flow that were seen, with the first of these.
    counter: Option<u32>,
    /// Which of these wire packets are told of at the end, where they begin here.
    sample: Option<Sample>,
    /// Functions of this node have had it.
    has_visited: bool,
    /// Which packet it is was told by order alone.
    is_doubtful: bool,
}

/// A packet at the end of its path that is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldEnd {
    /// What it says.
    pub end: PathEnd,
    /// The header that said so, from its IPv6 header on, with nothing inside.
    pub header: Vec<u8>,
}

/// What became of packets that should have taken records along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLosses {
    /// There was no place for their headers.
    pub unplaced: u64,
    /// They left another way than their headers say, stayed too long, or gave way.
    pub strayed: u64,
    /// Nobody took what was to be told of them.
    pub untold: u64,
}

/// The headers.
pub(crate) struct Records {
    places: Vec<Place>,
    headers: Headers,
    places_max: usize,
    free: Vec<u32>,
    /// The place that is looked at next for one to be had.
    hand: usize,
    /// How many places each path has.
    shares: Shares<u32>,
    flows: FlowCounters,
    ends: Vec<ToldEnd>,
    losses: RecordLosses,
    /// What of these has been told.
    told: RecordLosses,
}

/// Tells the places that are filled.
impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a rest: whoever adds a part decides what it is.
        let Self {
            places,
            headers: _,
            places_max: _,
            free: _,
            hand: _,
            shares,
            flows,
            ends,
            losses,
            told: _,
        } = self;
        let filled = places.iter().enumerate().filter(|(_, place)| place.left > 0);
        f.debug_map().entries(filled).finish()?;
        write!(f, "{shares:?} {flows:?} {ends:?} {losses:?}")
    }
}

/// What a packet says of itself that begins to take records along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// Its flow on its path.
    pub(crate) flow: (PathId, u64),
    pub(crate) packets: u64,
    /// One in so many of the flow is told of.
    pub(crate) one_in: NonZeroU32,
}

/// The node, as its records say it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder {
    pub(crate) device: DeviceId,
    /// Now, by our own clock.
    pub(crate) now_ns: u64,
    /// What the machine's clock had passed when ours began; none: it is not known.
    pub(crate) began_ns: Option<u64>,
}

impl Records {
    /// Room for so many packets.
    pub(crate) fn new(places_max: usize, flows_max: usize, seed: u64) -> Self {
        Self {
            places: Vec::new(),
            headers: Headers::default(),
            places_max,
            free: Vec::new(),
            hand: 0,
            shares: Shares::new(),
            flows: FlowCounters::new(flows_max, seed),
            ends: Vec::new(),
            losses: RecordLosses::default(),
            told: RecordLosses::default(),
        }
    }

    /// A place for a packet that enters its path here.
    pub(crate) fn begin(&mut self, now_ns: u64, beginning: &Beginning) -> Option<CarriedRef> {
        let Beginning { flow, packets, one_in } = *beginning;
        let wire_packets = u32::try_from(packets).ok()?;
        let first = self.flows.count(flow, wire_packets);
        let sample = Sample::new(one_in, self.flows.phase(flow)).behind(first.wrapping_sub(1));
        let place = Place {
            path: flow.0.0,
            left: wire_packets,
            since_ns: now_ns,
            counter: Some(first),
            sample: Some(sample),
            ..Place::default()
        };
        self.fill(now_ns, place, &[])
    }

    /// A place for a packet of this path that came with this header.
    pub(crate) fn keep(
        &mut self,
        now_ns: u64,
        PathId(path): PathId,
        header: &[u8],
    ) -> Option<CarriedRef> {
        let header_bytes = u16::try_from(header.len()).ok()?;
        let place = Place { path, left: 1, since_ns: now_ns, header_bytes, ..Place::default() };
        self.fill(now_ns, place, header)
    }

    fn fill(&mut self, now_ns: u64, place: Place, header: &[u8]) -> Option<CarriedRef> {
        let number = self.vacant(now_ns, place.path);
        let found = number.and_then(|number| {
            let index = number as usize;
            let turn = self.places.get(index)?.turn.wrapping_add(1).max(1);
            self.headers.put(index, header)?;
            *self.places.get_mut(index)? = Place { turn, ..place };
            self.shares.take(place.path);
            CarriedRef::of_records(number, turn)
        });
        self.losses.unplaced += u64::from(found.is_none());
        found
    }

    /// A place that nobody has, or whose packet stays too long, or that gives way: to a path with fewer.
    fn vacant(&mut self, now_ns: u64, path: u32) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if self.places.len() < self.places_max {
            let number = u32::try_from(self.places.len()).ok()?;
            self.places.push(Place::default());
            return Some(number);
        }
        let searched = PLACES_SEARCHED.min(self.places.len());
        let all = (0..searched).map(|ahead| (self.hand + ahead) % self.places.len());
        let rank = |index: &usize| {
            let place = self.places.get(*index)?;
            let is_overdue = now_ns.saturating_sub(place.since_ns) > INSIDE_NS;
            Some((is_overdue, self.shares.held_by(&place.path)))
        };
        let index = all.max_by_key(rank)?;
        let (is_overdue, held) = rank(&index)?;
        let gives_way = is_overdue || must_yield(held, self.shares.held_by(&path));
        self.hand = (self.hand + searched) % self.places.len();
        let place = self.places.get_mut(index).filter(|_| gives_way)?;
        self.losses.strayed += 1;
        place.left = 0;
        let former = place.path;
        self.shares.give_back_by(&former);
        u32::try_from(index).ok()
    }

    fn place_of(&self, name: CarriedRef) -> Option<(usize, &Place)> {
        let (number, turn) = name.records()?;
        let index = number as usize;
        let place = self.places.get(index)?;
        (place.turn == turn && place.left > 0).then_some((index, place))
    }

    /// A function of this node gets the packet.
    pub(crate) fn note_visit(&mut self, name: CarriedRef) {
        if let Some((index, _)) = self.place_of(name)
            && let Some(place) = self.places.get_mut(index)
        {
            place.has_visited = true;
        }
    }

    /// Counts a packet that came without a header to be kept.
    pub(crate) fn pass_by(&mut self, flow: (PathId, u64), packets: u64) {
        self.flows.count(flow, u32::try_from(packets).unwrap_or(u32::MAX));
    }

    /// Notes the flow of a packet that came with its header.
    pub(crate) fn note_flow(&mut self, name: CarriedRef, flow: (PathId, u64)) {
        let Some((index, Place { counter: None, .. })) = self.place_of(name) else { return };
        let counted = self.flows.count(flow, 1);
        if let Some(place) = self.places.get_mut(index) {
            place.counter = Some(counted);
        }
    }

    /// Which packet it is, is not sure.
    pub(crate) fn doubt(&mut self, name: CarriedRef) {
        if let Some((index, _)) = self.place_of(name)
            && let Some(place) = self.places.get_mut(index)
        {
            place.is_doubtful = true;
        }
    }

    /// Takes so many wire packets out of their place; none: it is another's now.
    fn take(&mut self, name: CarriedRef, packets: u64) -> Option<(usize, Place)> {
        let Some((index, _)) = self.place_of(name) else {
            self.losses.strayed += 1;
            return None;
        };
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let place = self.places.get_mut(index)?;
        let taken = *place;
        place.left = place.left.saturating_sub(packets);
        place.gone = place.gone.saturating_add(packets);
        if place.left == 0 {
            self.free.push(u32::try_from(index).ok()?);
            self.shares.give_back_by(&taken.path);
        }
        Some((index, taken))
    }

    /// So many wire packets leave for the next node; none: they are not known here any more.
    pub(crate) fn leave(
        &mut self,
        name: CarriedRef,
        packets: u64,
        recorder: Option<Recorder>,
    ) -> Option<LeavingRecords<'_>> {
        let (index, place) = self.take(name, packets)?;
        let own = recorder.map(|recorder| Own::new(&place, recorder));
        let header = self.headers.get(index, place.header_bytes.into())?;
        Some(LeavingRecords {
            header: Some(header).filter(|header| !header.is_empty()),
            own,
            has_visited: place.has_visited,
            sample: place.sample.map(|sample| sample.behind(place.gone)),
            losses: &mut self.losses,
        })
    }

    /// A packet is at the end of its path: what its header says is told, if it is to be.
    pub(crate) fn end(
        &mut self,
        name: CarriedRef,
        packets: u64,
        recorder: Option<Recorder>,
        (flow, limit_ns): ((PathId, u64), Option<u64>),
    ) {
        let Some((index, place)) = self.take(name, packets) else { return };
        // One that has never left has nothing to tell: its functions are timed by the engine.
        if place.header_bytes == 0 {
            return;
        }
        let own = recorder.map(|recorder| Own::new(&place, recorder));
        let Some(header) = self.headers.get_mut(index, place.header_bytes.into()) else { return };
        match header::end(header, own.as_ref(), flow, limit_ns) {
            Ok(None) => {}
            Ok(Some(_)) if self.ends.len() >= ENDS_MAX => self.losses.untold += 1,
            Ok(Some(end)) => self.ends.push(ToldEnd { end, header: header.to_vec() }),
            Err(Strayed) => self.losses.strayed += 1,
        }
    }

    /// What was told since this was asked last. What was lost until now counts as told, too.
    pub(crate) fn take_ends(&mut self) -> Vec<ToldEnd> {
        self.told = self.losses;
        std::mem::take(&mut self.ends)
    }

    /// Was anything told, or lost?
    pub(crate) fn has_news(&self) -> bool {
        !self.ends.is_empty() || self.told != self.losses
    }

    /// What was lost.
    pub(crate) const fn losses(&self) -> RecordLosses {
        self.losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_IN: NonZeroU32 = NonZeroU32::MIN;

    fn begin(records: &mut Records, path: u32, flow: u64) -> Option<CarriedRef> {
        let flow = (PathId(path), flow);
        records.begin(5, &Beginning { flow, packets: 1, one_in: ONE_IN })
    }

    #[test]
    fn a_path_with_many_places_gives_way_to_one_with_few_and_never_the_other_way_round() {
        let mut records = Records::new(8, 64, 7);
        let names: Vec<_> = (0..8).map(|flow| begin(&mut records, 1, flow).unwrap()).collect();
        let own: Vec<_> = (0..3).map(|flow| begin(&mut records, 2, flow).unwrap()).collect();
        let gone = names.iter().filter(|name| records.place_of(**name).is_none());
        assert_eq!(gone.count(), own.len());
        // Who has most gets none of the others'.
        assert!((8..40).all(|flow| begin(&mut records, 1, flow).is_none()));
        assert!(own.iter().all(|name| records.place_of(*name).is_some()));
        assert_eq!(records.losses(), RecordLosses { unplaced: 32, strayed: 3, untold: 0 });
        // What is given back is anybody's.
        assert!(records.leave(own[0], 1, None).is_some());
        assert!(begin(&mut records, 1, 99).is_some());
    }
}
