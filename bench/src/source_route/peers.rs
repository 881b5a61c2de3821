//! Forwarders that look ways up, as good as they can be made in the same loop: they ask for the memory of some packets
//! before they look at the first, and keep no more books than packets and bytes by port.

use super::source::{Flows, LINKS, Random, Tuple, tuple};
use super::switch::{Forward, engine};
use crate::engine::wrong;
use crate::error::BenchError;
use catena_dataplane::engine::{Frame, Output, Packet, PortSlot, TxRef};
use catena_io::{Buffer, BufferPool, prefetch};

/// Packets whose memory is asked for together.
const GROUP: usize = 32;
/// Addresses of the table of prefixes: all /24.
const PLACES: usize = 1 << 24;
/// Lookups that are held against a walk over all prefixes.
const CHECKED: usize = 64;

/// Where frames leave, and what left.
struct Exits {
    slots: Vec<PortSlot>,
    /// Packets and bytes.
    counted: Vec<(u64, u64)>,
}

impl Exits {
    fn new() -> Result<Self, BenchError> {
        let (_, slots) = engine()?;
        let counted = vec![(0, 0); slots.len()];
        Ok(Self { slots, counted })
    }

    #[inline]
    fn send(&mut self, link: u8, buffer: Buffer, pool: &mut BufferPool, output: &mut Output) {
        let Some(to) = self.slots.get(usize::from(link)).copied() else { return pool.put(buffer) };
        let counted = &mut self.counted[usize::from(link)];
        *counted = (counted.0 + 1, counted.1 + buffer.len() as u64);
        output.frames.push(Frame { to, buffer, share: TxRef::default() });
    }
}

/// A table that is asked in two steps.
trait Table {
    /// What is known before memory is asked for.
    type Place: Copy + Default;
    fn ask(&self, frame: &[u8]) -> Option<Self::Place>;
    /// The link.
    fn look(&self, place: Self::Place) -> Option<u8>;
}

/// Packets that have been asked for, and what is known of each.
type Group<T> = Vec<(Buffer, Option<<T as Table>::Place>)>;

fn forward_by<T: Table>(
    table: &T,
    (exits, group): (&mut Exits, &mut Group<T>),
    (input, pool, output): (&mut Vec<Packet>, &mut BufferPool, &mut Output),
) {
    let mut packets = input.drain(..);
    loop {
        for packet in packets.by_ref().take(GROUP) {
            let buffer = packet.into_buffer();
            let place = table.ask(buffer.bytes());
            group.push((buffer, place));
        }
        if group.is_empty() {
            return;
        }
        for (buffer, place) in group.drain(..) {
            match place.and_then(|place| table.look(place)) {
                Some(link) => exits.send(link, buffer, pool, output),
                None => pool.put(buffer),
            }
        }
    }
}

/// In one line of the processor's caches, as all that is asked for ahead.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Entry {
    tuple: Option<Tuple>,
    link: u8,
}

struct Tuples {
    places: Vec<Entry>,
    mask: usize,
}

impl Tuples {
    fn new(entries: &[Tuple]) -> Self {
        // Half full at most.
        let places = (2 * entries.len()).next_power_of_two();
        let mut made = Self { places: vec![Entry::default(); places], mask: places - 1 };
        for (number, tuple) in entries.iter().enumerate() {
            let mut place = made.place(tuple);
            while made.places[place].tuple.is_some() {
                place = (place + 1) & made.mask;
            }
            let link = (number % usize::from(LINKS)) as u8;
            made.places[place] = Entry { tuple: Some(*tuple), link };
        }
        made
    }

    #[inline]
    fn place(&self, tuple: &Tuple) -> usize {
        let low = u64::from(tuple.source) << 32 | u64::from(tuple.destination);
        let mixed = low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(tuple.ports);
        (mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32) as usize & self.mask
    }
}

impl Table for Tuples {
    type Place = (Option<Tuple>, usize);

    #[inline]
    fn ask(&self, frame: &[u8]) -> Option<Self::Place> {
        let tuple = tuple(frame)?;
        let place = self.place(&tuple);
        prefetch(&self.places[place]);
        Some((Some(tuple), place))
    }

    #[inline]
    fn look(&self, (tuple, mut place): Self::Place) -> Option<u8> {
        loop {
            let entry = &self.places[place];
            match entry.tuple {
                None => return None,
                known if known == tuple => return Some(entry.link),
                Some(_) => place = (place + 1) & self.mask,
            }
        }
    }
}

/// Looks the five-tuple up.
pub(super) struct ExactMatch {
    tuples: Tuples,
    exits: Exits,
    group: Group<Tuples>,
}

impl ExactMatch {
    pub(super) fn new(flows: &Flows) -> Result<Self, BenchError> {
        let (tuples, exits) = (Tuples::new(&flows.entries), Exits::new()?);
        Ok(Self { tuples, exits, group: Vec::with_capacity(GROUP) })
    }
}

/// The link for each /24, by the longest prefix that holds it.
struct Prefixes(Vec<u8>);

impl Prefixes {
    fn new(prefixes: usize) -> Result<Self, BenchError> {
        let mut random = Random::new(0x1f1f);
        // Lengths as in tables of the Internet, roughly: most are /24, the rest shorter.
        let mut all: Vec<(u8, u32, u8)> = (0..prefixes)
            .map(|_| {
                let length = match random.below(100) {
                    0..60 => 24,
                    60..70 => 23,
                    70..82 => 22,
                    82..88 => 21,
                    88..94 => 20,
                    94..97 => 19,
                    97..99 => 18,
                    _ => 16,
                };
                let first = (random.word() >> 8) >> (24 - length) << (24 - length);
                (length, first, random.below(LINKS.into()) as u8)
            })
            .collect();
        all.sort_unstable_by_key(|(length, ..)| *length);
        // The default route leads somewhere, too.
        let mut table = vec![0; PLACES];
        for (length, first, link) in &all {
            let first = *first as usize;
            table[first..first + (1 << (24 - length))].fill(*link);
        }
        let made = Self(table);
        for _ in 0..CHECKED {
            let address = random.word();
            let holds = |(length, first, _): &&(u8, u32, u8)| {
                (address >> 8) >> (24 - length) == first >> (24 - length)
            };
            let walked = all.iter().rev().find(holds).map_or(0, |(.., link)| *link);
            if made.look(address >> 8) != Some(walked) {
                return Err(wrong("the table of prefixes", &"it differs from a walk over them"));
            }
        }
        Ok(made)
    }
}

impl Table for Prefixes {
    type Place = u32;

    #[inline]
    fn ask(&self, frame: &[u8]) -> Option<u32> {
        let place = tuple(frame)?.destination >> 8;
        prefetch(&self.0[place as usize]);
        Some(place)
    }

    #[inline]
    fn look(&self, place: u32) -> Option<u8> {
        self.0.get(place as usize).copied()
    }
}

/// Looks the longest prefix up.
pub(super) struct LongestPrefix {
    prefixes: Prefixes,
    exits: Exits,
    group: Group<Prefixes>,
}

impl LongestPrefix {
    pub(super) fn new(prefixes: usize) -> Result<Self, BenchError> {
        let (prefixes, exits) = (Prefixes::new(prefixes)?, Exits::new()?);
        Ok(Self { prefixes, exits, group: Vec::with_capacity(GROUP) })
    }
}

/// Both are the same but for their tables.
macro_rules! forward {
    ($forwarder:ident, $table:ident) => {
        impl Forward for $forwarder {
            fn ingress(&self) -> PortSlot {
                self.exits.slots.first().copied().unwrap_or_default()
            }

            fn forward(
                &mut self,
                _now_ns: u64,
                input: &mut Vec<Packet>,
                pool: &mut BufferPool,
                output: &mut Output,
            ) {
                let own = (&mut self.exits, &mut self.group);
                forward_by(&self.$table, own, (input, pool, output));
            }

            fn settle(&mut self, _output: &mut Output) {}
        }
    };
}

forward!(ExactMatch, tuples);
forward!(LongestPrefix, prefixes);
