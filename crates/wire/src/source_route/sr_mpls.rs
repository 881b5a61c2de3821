//! `sr-mpls`: a label per port (an adjacency segment of RFC 8402 section 3.4 over MPLS, RFC 8660), a last one that
//! says whose packet it is, and behind them the frame as it is, a pseudowire of Ethernet (RFC 4448). Knows these
//! bits; refuses to know more of labels than their numbers.
//!
//! ```text
//! | destination 6 | source 6 | 0x8847 | a label for each port 4.. | path label 4 | control word 4 | frame
//! ```
//!
//! The label of a port is its number in a block that is the same at every node, so that none has a table of
//! labels. The time to live is that of the first label: a step takes this label off, and the next one gets it,
//! one less. The control word is 0 (RFC 4385, RFC 8469): no router between takes what is behind the stack for IP.

use super::{Next, PORTS_MAX, SourceRouteError};
use crate::ethernet::{self, ADDRESSES_BYTES};
use crate::mpls::LabelStackEntry;
use crate::scalar::{EtherType, MplsLabel};
use core::ops::RangeInclusive;

/// The label of port 0, which nobody has: those of all ports follow on it.
pub const PORT_LABELS_FROM: u32 = 0xf_ff00;
/// Labels that name paths: none of them is reserved (RFC 3032 section 2.1) or a port's.
pub const PATH_LABELS: RangeInclusive<u32> = 16..=0x7_ffff;
/// Bytes of a header without the labels of ports.
pub const BYTES_WITHOUT_PORTS: usize =
    ethernet::HEADER_BYTES + LabelStackEntry::LEN + CONTROL_WORD.len();
/// Bytes of each port.
pub const PORT_BYTES: usize = LabelStackEntry::LEN;

/// The time to live that labels begin with.
const TTL: u8 = 64;
const CONTROL_WORD: [u8; 4] = [0; 4];
/// Where the stack begins.
const STACK: usize = ethernet::HEADER_BYTES;
/// Where the time to live of the second entry is.
const NEXT_TTL: usize = STACK + 2 * LabelStackEntry::LEN - 1;

/// Is it the label of a port?
#[must_use]
#[inline]
pub const fn is_port_label(label: MplsLabel) -> bool {
    label.get() & !0xff == PORT_LABELS_FROM
}

/// Does a frame begin with the label of a port?
#[must_use]
#[inline]
pub fn begins_with_port(frame: &[u8]) -> bool {
    entry(frame, 0).is_ok_and(|top| is_port_label(top.label))
}

/// What the header of a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrMplsView<'p> {
    /// The labels of ports.
    ports: &'p [u8],
    path: MplsLabel,
}

impl<'p> SrMplsView<'p> {
    /// Reads it from the start of a frame.
    ///
    /// # Errors
    /// The frame ends inside the header, is another, or has a label that is neither a port's nor that of a
    /// path where it must be.
    pub fn parse(frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        let mut count = 0;
        let last = loop {
            let entry = entry(frame, count)?;
            if step_of(entry)? == Next::End {
                break entry;
            }
            count += 1;
            if count > PORTS_MAX {
                return Err(SourceRouteError::MoreLabels);
            }
        };
        let end = STACK + count * PORT_BYTES;
        let (need, have) = (BYTES_WITHOUT_PORTS + count * PORT_BYTES, frame.len());
        let word = frame.get(end + LabelStackEntry::LEN..).and_then(|rest| rest.first_chunk());
        let word = *word.ok_or(SourceRouteError::Truncated { need, have })?;
        if word != CONTROL_WORD {
            return Err(SourceRouteError::ControlWord(u32::from_be_bytes(word)));
        }
        Ok(Self { ports: frame.get(STACK..end).unwrap_or_default(), path: last.label })
    }

    /// The ports that are still to be taken, in the order in which they are.
    pub fn way(&self) -> impl Iterator<Item = u8> + use<'p> {
        let (entries, _) = self.ports.as_chunks();
        entries.iter().map(|entry| LabelStackEntry::from_bytes(*entry).label.get() as u8)
    }

    /// Ports still to be taken.
    #[must_use]
    pub const fn counter(&self) -> u8 {
        (self.ports.len() / PORT_BYTES) as u8
    }

    /// The label that says whose packet it is.
    #[must_use]
    pub const fn path(&self) -> MplsLabel {
        self.path
    }

    /// Bytes of the header: the frame stands behind it.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        BYTES_WITHOUT_PORTS + self.ports.len()
    }
}

/// A way in the order in which its ports are taken, of which none has been, and whose packets go it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrMplsHeader<'w> {
    way: &'w [u8],
    path: MplsLabel,
}

impl<'w> SrMplsHeader<'w> {
    /// That of a way.
    ///
    /// # Errors
    /// It has no port, or more than are counted, or no path has this label.
    pub fn new(way: &'w [u8], path: MplsLabel) -> Result<Self, SourceRouteError> {
        super::count(way, PORTS_MAX)?;
        if !PATH_LABELS.contains(&path.get()) {
            return Err(SourceRouteError::Label(path.get()));
        }
        Ok(Self { way, path })
    }

    /// Bytes of the header.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        BYTES_WITHOUT_PORTS + self.way.len() * PORT_BYTES
    }

    /// Writes it behind addresses that stay.
    ///
    /// # Errors
    /// The bytes are too few.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let (need, have) = (self.len_bytes(), into.len());
        let header = into.get_mut(..need).ok_or(SourceRouteError::Truncated { need, have })?;
        header[ADDRESSES_BYTES..STACK].copy_from_slice(&EtherType::MPLS.0.to_be_bytes());
        let entry = |label, is_bottom| {
            LabelStackEntry { label, traffic_class: 0, is_bottom, ttl: TTL }.to_bytes()
        };
        let (entries, _) = header[STACK..].as_chunks_mut();
        let (ports, behind) = entries.split_at_mut(self.way.len());
        for (place, port) in ports.iter_mut().zip(self.way) {
            let label = MplsLabel::from_low_bits(PORT_LABELS_FROM | u32::from(*port));
            *place = entry(label, false);
        }
        if let [path, word] = behind {
            (*path, *word) = (entry(self.path, true), CONTROL_WORD);
        }
        Ok(need)
    }
}

/// An entry of the stack of a frame.
#[inline]
fn entry(frame: &[u8], number: usize) -> Result<LabelStackEntry, SourceRouteError> {
    if !ethernet::ethertype_is(frame, EtherType::MPLS) {
        return Err(SourceRouteError::NoProfile);
    }
    let at = STACK + number * LabelStackEntry::LEN;
    let (need, have) = (at + LabelStackEntry::LEN, frame.len());
    let entry = frame.get(at..).and_then(|rest| rest.first_chunk());
    let entry = entry.ok_or(SourceRouteError::Truncated { need, have })?;
    Ok(LabelStackEntry::from_bytes(*entry))
}

/// What a label at the front of a stack says.
#[inline]
fn step_of(entry: LabelStackEntry) -> Result<Next, SourceRouteError> {
    let label = entry.label.get();
    match entry.is_bottom {
        false if is_port_label(entry.label) => Ok(Next::Pop(label as u8)),
        true if PATH_LABELS.contains(&label) => Ok(Next::End),
        _ => Err(SourceRouteError::Label(label)),
    }
}

/// What a node does with a frame, which stays as it is.
///
/// # Errors
/// The frame has another header, its first label is neither a port's nor that of a path, or its time to live
/// ends here.
#[inline]
pub fn next(frame: &[u8]) -> Result<Next, SourceRouteError> {
    Ok(look(frame)?.0)
}

/// A node's step: the label of the port that is taken comes off. The first [`PORT_BYTES`] of the frame are not
/// its own any more then.
///
/// # Errors
/// As [`next`] says; the frame is left as it was.
#[inline]
pub fn advance(frame: &mut [u8]) -> Result<Next, SourceRouteError> {
    let (next, ttl) = look(frame)?;
    if next == Next::End {
        return Ok(next);
    }
    if let Some(place) = frame.get_mut(NEXT_TTL) {
        *place = ttl - 1;
    }
    frame.copy_within(..STACK, PORT_BYTES);
    Ok(next)
}

/// The step, and the time to live of the first label.
#[inline]
fn look(frame: &[u8]) -> Result<(Next, u8), SourceRouteError> {
    let top = entry(frame, 0)?;
    let next = step_of(top)?;
    // RFC 3032 section 2.4.1: what would be 0 does not go on.
    let (least, need) = if next == Next::End { (1, 0) } else { (2, NEXT_TTL + 1) };
    let have = frame.len();
    match top.ttl {
        ttl if ttl < least => Err(SourceRouteError::TtlExpired),
        _ if have < need => Err(SourceRouteError::Truncated { need, have }),
        ttl => Ok((next, ttl)),
    }
}

#[cfg(test)]
mod tests;
