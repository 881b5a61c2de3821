//! A header ready to be put in front of frames: bytes, what they stand in the place of, and what differs among the wire
//! packets of a frame. Knows where it is put; refuses to know what it says.

use catena_io::Buffer;
use catena_model::limits::NSH_CONTEXT_BYTES_MAX;
use catena_wire::ethernet;
use catena_wire::ipv6;
use catena_wire::nsh::NshHeader;
use catena_wire::srv6_int;
use std::num::NonZeroU32;

/// Bytes of the longest header that an encapsulation puts before what is behind it.
pub(crate) const HEADER_BYTES_MAX: usize = 312;
// An Ethernet header is longer than that of VXLAN-GPE.
const _: () = assert!(
    ethernet::HEADER_BYTES + NshHeader::LEN_WITHOUT_METADATA + NSH_CONTEXT_BYTES_MAX
        <= HEADER_BYTES_MAX
);

/// Bytes of the longest IPv6 packet that says its length (RFC 8200 section 3).
const COUNTED_BYTES_MAX: usize = ipv6::HEADER_BYTES + u16::MAX as usize;

/// A header ready to be put in front of a frame: one for all segments of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) bytes: [u8; HEADER_BYTES_MAX],
    pub(super) len: usize,
    /// Bytes at the start of the frame in whose place it stands: 0 where the frame stands behind it.
    pub(super) replaces: usize,
    /// Bytes by which the frame may be longer further on, under the header of an edge.
    pub(super) later: usize,
    /// The longest IP packet that the links on its way take; none: they are as the underlay.
    pub(super) mtu: Option<u16>,
    /// It is that of an IPv6 packet, which says how much follows.
    pub(super) is_counted: bool,
    /// What of it differs among the wire packets of a frame; none: nothing but their length.
    pub(super) numbered: Option<Numbered>,
}

/// What of a header that takes records along is that of one wire packet of a frame alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// The last record in it counts packets, of which the first has this header.
    pub(super) has_record: bool,
    /// Which are told of at the end.
    pub(super) sample: Option<Sample>,
}

impl Numbered {
    /// Makes a packet that begins with the header the one of this number.
    fn write(self, packet: &mut [u8], number: u32) {
        if self.has_record && number > 0 {
            srv6_int::count_on(packet, number);
        }
        if self.sample.is_some_and(|sample| sample.takes(number)) {
            srv6_int::mark_mirrored(packet);
        }
    }
}

impl Header {
    pub(crate) const EMPTY: Self = Self {
        bytes: [0; HEADER_BYTES_MAX],
        len: 0,
        replaces: 0,
        later: 0,
        mtu: None,
        is_counted: false,
        numbered: None,
    };

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// Appends it to a buffer, and behind it the wire packet with this number that `append` appends by itself, without
    /// the bytes in whose place it stands; false, and the buffer is of no use, when there is no room.
    pub(crate) fn append_to(
        &self,
        buffer: &mut Buffer,
        number: u32,
        append: impl FnOnce(&mut Buffer) -> bool,
    ) -> bool {
        let Some(before) = self.len.checked_sub(self.replaces) else { return false };
        let start = buffer.len();
        // What is replaced is written over with the end of the header.
        if !buffer.append(&self.bytes[..before]) || !append(buffer) {
            return false;
        }
        let packet = buffer.bytes_mut().get_mut(start..).unwrap_or_default();
        let Some(place) = packet.get_mut(before..self.len) else { return false };
        place.copy_from_slice(&self.bytes[before..self.len]);
        self.count(packet, number)
    }

    /// Writes the length of a packet that begins with it, and what tells it from the others of its frame; false: it is
    /// more than an IPv6 packet counts.
    #[inline]
    fn count(&self, packet: &mut [u8], number: u32) -> bool {
        if !self.is_counted {
            return true;
        }
        if let Some(numbered) = self.numbered {
            numbered.write(packet, number);
        }
        let payload = packet.len().checked_sub(ipv6::HEADER_BYTES);
        let payload = payload.and_then(|bytes| u16::try_from(bytes).ok());
        payload.is_some_and(|bytes| ipv6::set_payload_length(packet, bytes).is_ok())
    }

    /// Puts it in front of a frame, or in the place of what it replaces; false, and nothing is changed: there is no
    /// room.
    #[inline]
    pub(crate) fn put_before(&self, buffer: &mut Buffer) -> bool {
        let Some(before) = self.len.checked_sub(self.replaces) else { return false };
        let is_countable = !self.is_counted || buffer.len() + before <= COUNTED_BYTES_MAX;
        if buffer.len() < self.replaces || !is_countable || buffer.prepend(before).is_none() {
            return false;
        }
        let packet = buffer.bytes_mut();
        let Some(place) = packet.get_mut(..self.len) else { return false };
        place.copy_from_slice(self.bytes());
        self.count(packet, 0)
    }

    /// It as it stands in front of a frame of so many bytes.
    pub(crate) fn in_front_of(&self, frame_bytes: usize) -> Vec<u8> {
        let payload = (self.added_bytes() + frame_bytes).saturating_sub(ipv6::HEADER_BYTES);
        let mut bytes = self.bytes().to_vec();
        if let (true, Ok(payload)) = (self.is_counted, u16::try_from(payload)) {
            // It is one of IPv6.
            let _ = ipv6::set_payload_length(&mut bytes, payload);
        }
        bytes
    }

    /// Bytes by which a frame is longer with it.
    #[inline]
    pub(crate) fn added_bytes(&self) -> usize {
        self.len.saturating_sub(self.replaces)
    }

    /// The most bytes by which a frame is longer on its way: with it, or with one that an edge writes in its place.
    #[inline]
    pub(crate) fn longest_added(&self) -> usize {
        self.added_bytes() + self.later
    }

    /// The longest IP packet that links take on its way, where the underlay takes that of this length, in bytes.
    #[inline]
    pub(crate) fn mtu(&self, underlay: usize) -> usize {
        self.mtu.map_or(underlay, usize::from)
    }

    /// Bytes at the start of a frame in whose place it stands.
    pub(crate) fn replaces(&self) -> usize {
        self.replaces
    }

    /// In the same place, these bytes.
    pub(crate) fn with(&self, bytes: &[u8]) -> Self {
        let Self { replaces, later, mtu, is_counted, numbered, .. } = *self;
        let mut header = Self { replaces, later, mtu, is_counted, numbered, ..Self::EMPTY };
        header.copy(bytes);
        header
    }

    /// One of these parts, in the place of so many bytes; none: they are too many.
    pub(super) fn of_parts(replaces: usize, parts: &[&[u8]]) -> Option<Self> {
        let mut header = Self { replaces, ..Self::EMPTY };
        for part in parts {
            header.bytes.get_mut(header.len..header.len + part.len())?.copy_from_slice(part);
            header.len += part.len();
        }
        Some(header)
    }

    /// Has these bytes and no others.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.len = bytes.len().min(HEADER_BYTES_MAX);
        self.bytes[..self.len].copy_from_slice(&bytes[..self.len]);
    }

    /// Adds what `emit` writes into the free room; its error leaves the header as it was.
    pub(crate) fn add<E>(
        &mut self,
        emit: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.len += emit(&mut self.bytes[self.len..])?;
        Ok(())
    }
}

/// Which packets of a flow are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::encap) struct Sample {
    /// So many come before the next one, fewer than `one_in`.
    ahead: u32,
    one_in: u32,
}

impl Sample {
    /// Each so-manyth, from one that the phase gives on.
    pub(super) fn new(one_in: NonZeroU32, phase: u64) -> Self {
        let one_in = one_in.get();
        let ahead = phase.checked_rem(one_in.into()).unwrap_or_default();
        Self { ahead: u32::try_from(ahead).unwrap_or_default(), one_in }
    }

    /// The same when so many have gone.
    pub(super) fn behind(self, packets: u32) -> Self {
        let Self { ahead, one_in } = self;
        let gone = packets.checked_rem(one_in).unwrap_or_default();
        let ahead = ahead.checked_sub(gone).unwrap_or_else(|| ahead.saturating_add(one_in - gone));
        Self { ahead, one_in }
    }

    /// Is the packet with this number, from 0, told of?
    pub(super) fn takes(self, number: u32) -> bool {
        number.checked_rem(self.one_in) == Some(self.ahead)
    }
}
