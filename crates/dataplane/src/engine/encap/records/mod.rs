//! Headers that take records of nodes along, while their packets are with functions of this one.
//!
//! Each packet has another header, so each has a place of its own from where its header comes off to where it leaves.
//! Places are bounded. What ends in between gives none back: whoever has had one for longer than a packet stays in a
//! function makes room. A packet without a place goes on as any other, and nothing is told of it.

mod flows;
mod header;

pub(super) use header::{Fresh, LeavingRecords, TAIL};

use super::carried_ref::CarriedRef;
use super::header::Sample;
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

/// What became of packets that should have taken records along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLosses {
    /// There was no place for their headers.
    pub unplaced: u64,
    /// They left another way than their headers say, or stayed too long.
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
    flows: FlowCounters,
    ends: Vec<PathEnd>,
    losses: RecordLosses,
}

/// Tells the places that are filled.
impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a rest: whoever adds a part decides what it is.
        let Self { places, headers: _, places_max: _, free: _, hand: _, flows, ends, losses } =
            self;
        let filled = places.iter().enumerate().filter(|(_, place)| place.left > 0);
        f.debug_map().entries(filled).finish()?;
        write!(f, "{flows:?} {ends:?} {losses:?}")
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
            flows: FlowCounters::new(flows_max, seed),
            ends: Vec::new(),
            losses: RecordLosses::default(),
        }
    }

    /// A place for a packet that enters its path here.
    pub(crate) fn begin(&mut self, now_ns: u64, beginning: &Beginning) -> Option<CarriedRef> {
        let Beginning { flow, packets, one_in } = *beginning;
        let wire_packets = u32::try_from(packets).ok()?;
        let first = self.flows.count(flow, wire_packets);
        let sample = Sample::of(one_in).behind(first.wrapping_sub(1));
        let place = Place {
            left: wire_packets,
            since_ns: now_ns,
            counter: Some(first),
            sample: Some(sample),
            ..Place::default()
        };
        self.fill(now_ns, place, &[])
    }

    /// A place for a packet that came with this header.
    pub(crate) fn keep(&mut self, now_ns: u64, header: &[u8]) -> Option<CarriedRef> {
        let header_bytes = u16::try_from(header.len()).ok()?;
        let place = Place { left: 1, since_ns: now_ns, header_bytes, ..Place::default() };
        self.fill(now_ns, place, header)
    }

    fn fill(&mut self, now_ns: u64, place: Place, header: &[u8]) -> Option<CarriedRef> {
        let number = self.vacant(now_ns);
        let found = number.and_then(|number| {
            let index = number as usize;
            let turn = self.places.get(index)?.turn.wrapping_add(1).max(1);
            self.headers.put(index, header)?;
            *self.places.get_mut(index)? = Place { turn, ..place };
            CarriedRef::of_records(number, turn)
        });
        self.losses.unplaced += u64::from(found.is_none());
        found
    }

    fn vacant(&mut self, now_ns: u64) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if self.places.len() < self.places_max {
            let number = u32::try_from(self.places.len()).ok()?;
            self.places.push(Place::default());
            return Some(number);
        }
        for _ in 0..PLACES_SEARCHED.min(self.places.len()) {
            let index = self.hand;
            self.hand = (index + 1) % self.places.len();
            let place = self.places.get_mut(index)?;
            if now_ns.saturating_sub(place.since_ns) > INSIDE_NS {
                self.losses.strayed += u64::from(place.left > 0);
                place.left = 0;
                return u32::try_from(index).ok();
            }
        }
        None
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
            Ok(Some(end)) => self.ends.push(end),
            Err(Strayed) => self.losses.strayed += 1,
        }
    }

    /// What was told since this was asked last.
    pub(crate) fn take_ends(&mut self) -> Vec<PathEnd> {
        std::mem::take(&mut self.ends)
    }

    /// Was anything told?
    pub(crate) const fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// What was lost.
    pub(crate) const fn losses(&self) -> RecordLosses {
        self.losses
    }
}
