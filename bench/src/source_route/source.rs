//! Frames for switches: some that say their way, some that have to be looked up, all of them distinct.

use crate::engine::wrong;
use crate::error::BenchError;
use catena_wire::ethernet::EthernetHeader;
use catena_wire::scalar::{EtherType, MacAddr, Spi};
use catena_wire::source_route::native::{NativeHeader, PortWidth};
use catena_wire::source_route::polka::residues::{Irreducible, Reducer, identify};
use catena_wire::source_route::polka::{Degree, PolkaHeader};
use catena_wire::source_route::{Next, advance};
use std::hint::black_box;

/// Distinct frames.
const DISTINCT: usize = 1 << 16;
/// Ports of a way.
const WAY: usize = 10;
/// Links of a switch, numbered from 1.
pub(super) const LINKS: u8 = 4;
const TO: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const FROM: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A generator of numbers without pattern (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(bound)) >> 32) as u32
    }
}

/// Frames that are repeated in turn. Only their beginnings differ, so that sources of all sizes read as much memory.
pub(super) struct Source {
    frames: Vec<[u8; 64]>,
    padding: Vec<u8>,
    at: usize,
}

impl Source {
    pub(super) fn of((frames, bytes): (Vec<[u8; 64]>, usize)) -> Self {
        Self { frames, padding: vec![0; bytes - 64], at: 0 }
    }

    /// The next frame, in two parts.
    pub(super) fn next(&mut self) -> (&[u8; 64], &[u8]) {
        self.at = (self.at + 1) % self.frames.len();
        (&self.frames[self.at], &self.padding)
    }
}

/// Frames on source routes.
pub(super) struct Ways {
    frames: Vec<[u8; 64]>,
    bytes: usize,
}

impl Ways {
    pub(super) fn new(bytes: usize) -> Result<Self, BenchError> {
        let mut random = Random::new(0x5eed);
        let frame = |_| {
            let mut frame = [0; 64];
            write_header(&mut frame, &mut random)?;
            // Somewhere on its way, and not at its end.
            for _ in 0..random.below(WAY as u32) {
                advance(&mut frame, &[]).map_err(|error| wrong("a header", &error))?;
            }
            Ok(frame)
        };
        let frames = (0..DISTINCT).map(frame).collect::<Result<_, BenchError>>()?;
        Ok(Self { frames, bytes })
    }

    pub(super) fn frames(self) -> (Vec<[u8; 64]>, usize) {
        (self.frames, self.bytes)
    }

    /// Nanoseconds of one step over frames in memory.
    pub(super) fn element_ns(
        &self,
        packets: usize,
        clock: impl Fn() -> f64,
    ) -> Result<f64, BenchError> {
        Steps { frames: &self.frames, own: &[] }.ns(packets, clock)
    }
}

/// Frames whose ways over ten nodes are one number each, and what the node divides these by that they are at.
pub(super) struct Numbers {
    frames: Vec<[u8; 64]>,
    own: [Reducer; 1],
}

impl Numbers {
    pub(super) fn new() -> Result<Self, BenchError> {
        let nodes: Vec<Irreducible> = Irreducible::of_degree(16).take(WAY).collect();
        let own = *nodes.first().ok_or_else(|| wrong("a number", &"there is no polynomial"))?;
        let mut random = Random::new(0x5eed);
        let frame = |_| {
            let mut frame = [0; 64];
            write_number(&mut frame, &nodes, &mut random)?;
            Ok(frame)
        };
        let frames = (0..DISTINCT).map(frame).collect::<Result<_, BenchError>>()?;
        Ok(Self { frames, own: [Reducer::new(own)] })
    }

    /// Nanoseconds of one step over frames in memory.
    pub(super) fn element_ns(
        &self,
        packets: usize,
        clock: impl Fn() -> f64,
    ) -> Result<f64, BenchError> {
        Steps { frames: &self.frames, own: &self.own }.ns(packets, clock)
    }
}

/// Frames at a node.
struct Steps<'f> {
    frames: &'f [[u8; 64]],
    /// What the node divides numbers by.
    own: &'f [Reducer],
}

impl Steps<'_> {
    #[allow(clippy::cast_precision_loss)]
    fn ns(&self, packets: usize, clock: impl Fn() -> f64) -> Result<f64, BenchError> {
        let exits: [Option<u16>; 256] = std::array::from_fn(|number| {
            (1..=LINKS.into()).contains(&number).then_some(number as u16)
        });
        let rounds = packets.div_ceil(DISTINCT);
        let (mut spent, mut sent) = (0.0, 0_u64);
        for _ in 0..rounds {
            let mut frames = self.frames.to_vec();
            let begun = clock();
            for frame in &mut frames {
                if let Ok(Next::Port(number)) = advance(frame, self.own) {
                    sent += u64::from(exits[usize::from(number)].is_some());
                }
            }
            spent += clock() - begun;
            black_box(&frames);
        }
        if sent != (rounds * DISTINCT) as u64 {
            return Err(wrong("the element", &format!("{sent} frames have an exit")));
        }
        Ok(spent / sent as f64)
    }
}

fn write_header(frame: &mut [u8], random: &mut Random) -> Result<(), BenchError> {
    let way: [u8; WAY] = std::array::from_fn(|_| random.below(LINKS.into()) as u8 + 1);
    let path = Spi::new(random.below(0x7_ffff) + 1).ok();
    header(frame, &way, path)
}

/// Writes addresses and a header with this way in front of a frame.
pub(super) fn header(frame: &mut [u8], way: &[u8], path: Option<Spi>) -> Result<(), BenchError> {
    EthernetHeader::untagged(TO, FROM, EtherType::IPV4)
        .emit(frame)
        .map_err(|error| wrong("a frame", &error))?;
    let header = NativeHeader {
        width: PortWidth::Eight,
        way,
        path,
        tag: None,
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    header.emit(frame).map_err(|error| wrong("a header", &error)).map(drop)
}

/// A frame whose number names a port of a link to each of these nodes.
fn write_number(
    frame: &mut [u8; 64],
    nodes: &[Irreducible],
    random: &mut Random,
) -> Result<(), BenchError> {
    let ports = nodes.iter().map(|node| (*node, random.below(LINKS.into()) as u16 + 1));
    let residues: Vec<(Irreducible, u16)> = ports.collect();
    let mut number = [0; 2 * WAY];
    identify(&residues, &mut number).map_err(|error| wrong("a number", &error))?;
    EthernetHeader::untagged(TO, FROM, EtherType::IPV4)
        .emit(frame)
        .map_err(|error| wrong("a frame", &error))?;
    let header = PolkaHeader {
        degree: Degree::Sixteen,
        pass: 0,
        hops: WAY as u8,
        number: &number,
        path: Spi::new(random.below(0x7_ffff) + 1).ok(),
        ether_type: EtherType::IPV4,
    };
    header.emit(frame).map_err(|error| wrong("a header", &error)).map(drop)
}

/// Makes headers of ten ports, as an edge does for a flow whose way is known.
pub(super) fn make_headers(headers: usize) -> Result<(), BenchError> {
    let mut random = Random::new(0x1ead);
    let mut frame = [0; 64];
    for _ in 0..headers {
        write_header(&mut frame, &mut random)?;
        black_box(&frame);
    }
    Ok(())
}

/// The fields of UDP over IPv4 that an exact match looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) ports: u32,
}

/// Frames of flows whose way is looked up.
pub(super) struct Flows {
    /// All that the table has.
    pub(super) entries: Vec<Tuple>,
    frames: Vec<[u8; 64]>,
}

impl Flows {
    /// Flows of a table with so many entries.
    pub(super) fn exact(entries: u32) -> Result<Self, BenchError> {
        let mut random = Random::new(0xf10f);
        let tuple = |number| Tuple {
            source: random.word(),
            // No two alike.
            destination: number,
            ports: random.word(),
        };
        let entries: Vec<Tuple> = (0..entries).map(tuple).collect();
        let mut random = Random::new(0xabcd);
        let chosen = |_| entries[random.below(entries.len() as u32) as usize];
        let frames = (0..DISTINCT).map(chosen).map(frame).collect();
        Ok(Self { entries, frames })
    }

    /// Flows to anywhere.
    pub(super) fn anywhere() -> Result<Self, BenchError> {
        let mut random = Random::new(0xdead);
        let tuple =
            |_| Tuple { source: random.word(), destination: random.word(), ports: random.word() };
        let frames = (0..DISTINCT).map(tuple).map(frame).collect();
        Ok(Self { entries: Vec::new(), frames })
    }

    pub(super) fn frames(self) -> (Vec<[u8; 64]>, usize) {
        (self.frames, 64)
    }
}

/// Where a frame of UDP over IPv4 has what is looked up: source, destination and ports stand in a row.
const TUPLE_AT: usize = 26;

/// Reads the tuple of such a frame; none: it is another.
#[inline]
pub(super) fn tuple(frame: &[u8]) -> Option<Tuple> {
    let head: &[u8; 38] = frame.first_chunk()?;
    if head[12..15] != [0x08, 0x00, 0x45] || head[23] != 17 {
        return None;
    }
    let word = |at: usize| {
        let at = TUPLE_AT + at;
        u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
    };
    Some(Tuple { source: word(0), destination: word(4), ports: word(8) })
}

fn frame(Tuple { source, destination, ports }: Tuple) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[..6].copy_from_slice(&TO.0);
    frame[6..12].copy_from_slice(&FROM.0);
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    frame[16..18].copy_from_slice(&50_u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&source.to_be_bytes());
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    frame[34..38].copy_from_slice(&ports.to_be_bytes());
    frame[38..40].copy_from_slice(&30_u16.to_be_bytes());
    frame
}
