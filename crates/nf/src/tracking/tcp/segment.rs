//! What connections want to know of a segment. Knows numbers and options; refuses to know what came before.

use super::step::{self, Kind};
use super::window::{Flags, after};
use crate::packet::Packet;
use catena_wire::tcp::{TcpFlags, TcpView};

/// Options (RFC 9293 section 3.1, RFC 7323 section 2, RFC 2018 sections 2 and 3).
const END: u8 = 0;
const NOTHING: u8 = 1;
const SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
/// The most that a window may be scaled (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'p> {
    pub(super) kind: Kind,
    pub(super) flags: TcpFlags,
    pub(super) sequence: u32,
    /// Behind its last byte; SYN and FIN count as bytes.
    pub(super) end: u32,
    pub(super) acknowledgment: u32,
    pub(super) window: u16,
    options: &'p [u8],
}

impl<'p> Segment<'p> {
    /// That of a packet; none: it is none, or none that could be.
    pub(crate) fn read(packet: &Packet<'p>) -> Option<Self> {
        let start = usize::from(packet.view.l4_offset?);
        let tcp = TcpView::parse(packet.frame.get(start..packet.view.end as usize)?).ok()?;
        let flags = tcp.flags();
        if !step::are_possible(flags) {
            return None;
        }
        let counts = |flag: TcpFlags| u32::from(flags.0 & flag.0 != 0);
        let bytes = u32::try_from(tcp.payload().len()).ok()?;
        let length = bytes + counts(TcpFlags::SYN) + counts(TcpFlags::FIN);
        Some(Self {
            kind: Kind::of(flags),
            flags,
            sequence: tcp.sequence(),
            end: tcp.sequence().wrapping_add(length),
            acknowledgment: tcp.acknowledgment(),
            window: tcp.window(),
            options: tcp.options(),
        })
    }

    pub(super) const fn has(&self, flag: TcpFlags) -> bool {
        self.flags.0 & flag.0 != 0
    }

    /// What a SYN says of scaled windows and selective acknowledgments: flags and the scale; none: it has
    /// no options at all.
    pub(super) fn offers(&self) -> Option<(Flags, u8)> {
        if self.options.is_empty() {
            return None;
        }
        let mut offers = (Flags::NONE, 0);
        for (kind, value) in (Options { rest: self.options }) {
            match (kind, value) {
                (SACK_PERMITTED, []) => offers.0.set(Flags::SACK),
                (SCALE, [scale]) => {
                    offers.0.set(Flags::SCALE);
                    offers.1 = (*scale).min(SCALE_MAX);
                }
                _ => {}
            }
        }
        Some(offers)
    }

    /// The highest number that it acknowledges, selectively or not.
    pub(super) fn highest_acknowledged(&self) -> u32 {
        let mut highest = self.acknowledgment;
        let is_block = |(kind, value): &(u8, &[u8])| {
            *kind == SACK && !value.is_empty() && value.len().is_multiple_of(8)
        };
        if let Some((_, value)) = (Options { rest: self.options }).find(is_block) {
            for [_, _, _, _, a, b, c, d] in value.as_chunks::<8>().0 {
                let right = u32::from_be_bytes([*a, *b, *c, *d]);
                if after(right, highest) {
                    highest = right;
                }
            }
        }
        highest
    }
}

/// Options with their values, up to the first that contradicts its bytes.
struct Options<'p> {
    rest: &'p [u8],
}

impl<'p> Iterator for Options<'p> {
    type Item = (u8, &'p [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let [NOTHING, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let [kind, length, ..] = *self.rest else { return None };
        if kind == END {
            return None;
        }
        let value = self.rest.get(2..usize::from(length))?;
        self.rest = self.rest.get(usize::from(length)..)?;
        Some((kind, value))
    }
}
