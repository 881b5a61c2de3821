//! `native`: a header of its own behind the addresses of Ethernet, which stay, with the EtherType of what is
//! behind it. Knows its fields; refuses to know what a path is.
//!
//! ```text
//! | 0x88b5 | version 4b, width 4b | n | counter | flags | n ports, width bits each, to an octet |
//! | [path identifier 3] | [integrity tag 2] | [detours] | EtherType 2 | payload
//! detours: | number | then for each: counter, rejoin, k, k ports to an octet
//! ```
//!
//! Position 1 is the first of the ports. The path identifier (flag 0x04) tells edges whose packet it is. The tag (0x01,
//! only together with 0x04) is SipHash-2-4 over width, n, path identifier, ports and detours, 16 bits of it, by a key
//! of the domain; the counter is not in it. A detour (0x02) is for the node whose port at its position is dead: it
//! takes the detour's ports instead, and then those from position `rejoin` on. Its ports are written over positions
//! that are done with; where those do not suffice, the frame grows.

mod detour;
mod tag;

pub use detour::{DETOUR_BYTES_WITHOUT_PORTS, Detour, DetourView, Detours};
pub use tag::TagKey;

use super::{Next, PORTS_MAX, SourceRouteError};
use crate::ethernet;
use crate::scalar::{EtherType, Spi};

/// The version that is written and read.
pub const VERSION: u8 = 1;
/// Bytes of a header with a path identifier, and neither tag nor detours, but for its ports; addresses included.
pub const BYTES_WITHOUT_PORTS: usize = PORTS_AT + PATH_BYTES + ETHER_TYPE_BYTES;
/// Bytes in front of the ports, addresses and EtherType included.
const PORTS_AT: usize = ethernet::HEADER_BYTES + 4;
const COUNTER_AT: usize = ethernet::HEADER_BYTES + 2;
const FLAGS_AT: usize = ethernet::HEADER_BYTES + 3;
/// Bytes of a path identifier.
pub const PATH_BYTES: usize = 3;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 2;
const ETHER_TYPE_BYTES: usize = 2;

mod flag {
    pub(super) const TAG: u8 = 0x01;
    pub(super) const DETOURS: u8 = 0x02;
    pub(super) const PATH: u8 = 0x04;
    pub(super) const KNOWN: u8 = TAG | DETOURS | PATH;
}

/// Bits of a port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortWidth {
    /// Ports up to 15.
    Four,
    /// Ports up to 63.
    Six,
    /// Ports up to 255.
    Eight,
}

impl PortWidth {
    /// The narrowest in which this port has room.
    #[must_use]
    pub const fn for_port(port: u8) -> Self {
        match port {
            0..=15 => Self::Four,
            16..=63 => Self::Six,
            64.. => Self::Eight,
        }
    }

    /// Its bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Four => 4,
            Self::Six => 6,
            Self::Eight => 8,
        }
    }

    const fn of_bits(bits: u8) -> Result<Self, SourceRouteError> {
        match bits {
            4 => Ok(Self::Four),
            6 => Ok(Self::Six),
            8 => Ok(Self::Eight),
            other => Err(SourceRouteError::Width(other)),
        }
    }

    /// Octets of so many ports.
    const fn octets(self, ports: usize) -> usize {
        (ports * self.bits() as usize).div_ceil(8)
    }

    /// The port at a position of packed ports, from 1; behind them it is 0.
    #[inline]
    fn unpack(self, packed: &[u8], position: usize) -> u8 {
        // Between switches of ours most are, and then there is nothing to shift.
        if self == Self::Eight {
            return packed.get(position - 1).copied().unwrap_or(0);
        }
        let bit = (position - 1) * usize::from(self.bits());
        let octet = |at: usize| packed.get(at).copied().unwrap_or(0);
        let word = u16::from_be_bytes([octet(bit / 8), octet(bit / 8 + 1)]);
        let low = word >> (16 - usize::from(self.bits()) - bit % 8);
        low as u8 & u8::MAX >> (8 - self.bits())
    }

    /// Writes ports, the first at position 1, over octets of them.
    ///
    /// # Errors
    /// A port needs more bits.
    fn pack(
        self,
        ports: impl Iterator<Item = u8>,
        packed: &mut [u8],
    ) -> Result<(), SourceRouteError> {
        packed.fill(0);
        for (number, port) in ports.enumerate() {
            if port > u8::MAX >> (8 - self.bits()) {
                return Err(SourceRouteError::WidePort { port, width: self.bits() });
            }
            let bit = number * usize::from(self.bits());
            let word = u16::from(port) << (16 - usize::from(self.bits()) - bit % 8);
            for (place, octet) in packed.iter_mut().skip(bit / 8).zip(word.to_be_bytes()) {
                *place |= octet;
            }
        }
        Ok(())
    }
}

/// The header of a frame. Once [`NativeView::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct NativeView<'p> {
    width: PortWidth,
    count: u8,
    counter: u8,
    packed: &'p [u8],
    path: Option<Spi>,
    tag: Option<[u8; TAG_BYTES]>,
    detours: &'p [u8],
    ether_type: EtherType,
    len: usize,
}

impl<'p> NativeView<'p> {
    /// Reads it from the start of a frame.
    ///
    /// # Errors
    /// The frame is another or ends inside the header, or the header says what it cannot.
    pub fn parse(frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        Self::of(Fixed::read(frame)?, frame)
    }

    /// The same at a function that reads headers: it gets one without ports where none are left ([`without_ports`]).
    ///
    /// # Errors
    /// As [`NativeView::parse`].
    pub fn parse_at_function(frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        Self::of(Fixed::read_any(frame)?, frame)
    }

    fn of(fixed: Fixed, frame: &'p [u8]) -> Result<Self, SourceRouteError> {
        let Fixed { width, count, counter, flags } = fixed;
        let mut reader = Reader { frame, at: PORTS_AT };
        let packed = reader.take(width.octets(count.into()))?;
        let path = match flags & flag::PATH {
            0 => None,
            _ => Some(reader.array::<PATH_BYTES>()?),
        };
        let path = path.map(|[a, b, c]| Spi::from_low_bits(u32::from_be_bytes([0, a, b, c])));
        let tag = match flags & flag::TAG {
            0 => None,
            _ => Some(reader.array()?),
        };
        let detours = match flags & flag::DETOURS {
            0 => &[],
            _ => detour::take(&mut reader, fixed)?,
        };
        let ether_type = EtherType(u16::from_be_bytes(reader.array()?));
        let len = reader.at;
        Ok(Self { width, count, counter, packed, path, tag, detours, ether_type, len })
    }

    /// Bits of each port.
    #[must_use]
    pub const fn width(&self) -> PortWidth {
        self.width
    }

    /// Ports of the way, taken or not.
    #[must_use]
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// Ports still to be taken.
    #[must_use]
    pub const fn counter(&self) -> u8 {
        self.counter
    }

    /// The port at a position, from 1; behind the last it is 0.
    #[must_use]
    pub fn port(&self, position: u8) -> u8 {
        if position == 0 { 0 } else { self.width.unpack(self.packed, position.into()) }
    }

    /// Whose packet it is.
    #[must_use]
    pub const fn path(&self) -> Option<Spi> {
        self.path
    }

    /// Has it a tag?
    #[must_use]
    pub const fn has_tag(&self) -> bool {
        self.tag.is_some()
    }

    /// The detours that it knows.
    #[must_use]
    pub const fn detours(&self) -> Detours<'p> {
        Detours::of(self.detours, self.width)
    }

    /// What is behind it.
    #[must_use]
    pub const fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    /// Bytes of the header, addresses included; those of the frame that it stands for are 14.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.len
    }

    /// Is the tag, if it has one, that of its ports and its path?
    ///
    /// # Errors
    /// It has none, or another.
    pub fn check(&self, key: &TagKey) -> Result<(), SourceRouteError> {
        let Self { width, count, packed, detours, .. } = *self;
        let own = self.path.map(|path| key.tag((width, count), path, packed, detours));
        if own.is_some() && own == self.tag { Ok(()) } else { Err(SourceRouteError::Tag) }
    }
}

/// The octets in front of the ports.
#[derive(Clone, Copy)]
struct Fixed {
    width: PortWidth,
    count: u8,
    counter: u8,
    flags: u8,
}

impl Fixed {
    #[inline]
    fn read(frame: &[u8]) -> Result<Self, SourceRouteError> {
        let fixed = Self::read_any(frame)?;
        if fixed.count == 0 { Err(SourceRouteError::NoPorts) } else { Ok(fixed) }
    }

    /// The same, also if there are no ports.
    #[inline]
    fn read_any(frame: &[u8]) -> Result<Self, SourceRouteError> {
        let have = frame.len();
        let header: &[u8; PORTS_AT] =
            frame.first_chunk().ok_or(SourceRouteError::Truncated { need: PORTS_AT, have })?;
        if !ethernet::ethertype_is(frame, EtherType::SOURCE_ROUTE) {
            return Err(SourceRouteError::NoProfile);
        }
        let [.., form, count, counter, flags] = *header;
        if form >> 4 != VERSION {
            return Err(SourceRouteError::Version(form >> 4));
        }
        let width = PortWidth::of_bits(form & 0x0f)?;
        if flags & !flag::KNOWN != 0 {
            return Err(SourceRouteError::Flags(flags));
        }
        if flags & flag::TAG != 0 && flags & flag::PATH == 0 {
            return Err(SourceRouteError::TagWithoutPath);
        }
        if count == 0 && counter > 0 {
            return Err(SourceRouteError::NoPorts);
        }
        if counter > count {
            return Err(SourceRouteError::Counter { counter, ports: count.into() });
        }
        Ok(Self { width, count, counter, flags })
    }
}

/// Octets of a header without ports, between the addresses of a frame and its EtherType.
pub const BYTES_BETWEEN_WITHOUT_PORTS: usize =
    BYTES_WITHOUT_PORTS - ethernet::ADDRESSES_BYTES - ETHER_TYPE_BYTES;

/// What stands between the addresses of a frame and its EtherType where no ports are left: a header that says whose
/// packet it is. On links it is none.
#[must_use]
pub fn without_ports(path: Spi) -> [u8; BYTES_BETWEEN_WITHOUT_PORTS] {
    let [high, low] = EtherType::SOURCE_ROUTE.0.to_be_bytes();
    let [_, a, b, c] = path.get().to_be_bytes();
    [high, low, VERSION << 4 | PortWidth::Four.bits(), 0, 0, flag::PATH, a, b, c]
}

/// Octets of a frame, one part after the other.
struct Reader<'p> {
    frame: &'p [u8],
    at: usize,
}

impl<'p> Reader<'p> {
    fn take(&mut self, octets: usize) -> Result<&'p [u8], SourceRouteError> {
        let need = self.at + octets;
        let part = self.frame.get(self.at..need);
        let part = part.ok_or(SourceRouteError::Truncated { need, have: self.frame.len() })?;
        self.at = need;
        Ok(part)
    }

    fn array<const OCTETS: usize>(&mut self) -> Result<[u8; OCTETS], SourceRouteError> {
        let (need, have) = (self.at + OCTETS, self.frame.len());
        let part = self.take(OCTETS)?.first_chunk();
        part.copied().ok_or(SourceRouteError::Truncated { need, have })
    }
}

/// What a header is made of. If it is emitted, it is read again.
#[derive(Clone, Copy, Debug)]
pub struct NativeHeader<'w> {
    /// Bits of each port.
    pub width: PortWidth,
    /// The ports of the way in the order in which they are taken, of which none has been.
    pub way: &'w [u8],
    /// Whose packet it is.
    pub path: Option<Spi>,
    /// The key of the domain, if the header has a tag; it needs a path.
    pub tag: Option<&'w TagKey>,
    /// What nodes with a dead port do.
    pub detours: &'w [Detour<'w>],
    /// What is behind the header.
    pub ether_type: EtherType,
}

impl NativeHeader<'_> {
    /// Bytes of the header, addresses included.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        let path = if self.path.is_some() { PATH_BYTES } else { 0 };
        let tag = if self.tag.is_some() { TAG_BYTES } else { 0 };
        let detours = detour::octets(self.detours, self.width);
        PORTS_AT + self.width.octets(self.way.len()) + path + tag + detours + ETHER_TYPE_BYTES
    }

    /// Writes it behind the addresses of a frame that has room for it, and answers its length with them.
    ///
    /// # Errors
    /// The bytes are too few, a port is too wide, or the parts do not go together.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let Self { width, way, path, tag, detours, ether_type } = *self;
        let count = super::count(way, PORTS_MAX)?;
        if tag.is_some() && path.is_none() {
            return Err(SourceRouteError::TagWithoutPath);
        }
        detours.iter().try_for_each(|detour| detour.may_be_of(count))?;
        let parts = Parts { width, count, counter: count, ports: way.iter().rev().copied(), path };
        parts.write(tag, ether_type, into, |writer| {
            if detours.is_empty() { Ok(()) } else { detour::write(detours, width, writer) }
        })
    }
}

/// The parts of a header that every one has.
struct Parts<P> {
    width: PortWidth,
    count: u8,
    counter: u8,
    /// From position 1 on.
    ports: P,
    path: Option<Spi>,
}

impl<P: Iterator<Item = u8>> Parts<P> {
    /// Writes a header of them; `put_detours` adds detours, if there are any.
    fn write(
        self,
        tag: Option<&TagKey>,
        ether_type: EtherType,
        into: &mut [u8],
        put_detours: impl FnOnce(&mut Writer<'_>) -> Result<(), SourceRouteError>,
    ) -> Result<usize, SourceRouteError> {
        let Self { width, count, counter, ports, path } = self;
        let mut writer = Writer { into, at: ethernet::HEADER_BYTES - ETHER_TYPE_BYTES };
        writer.put(&EtherType::SOURCE_ROUTE.0.to_be_bytes())?;
        writer.put(&[VERSION << 4 | width.bits(), count, counter, 0])?;
        let packed_at = writer.at;
        width.pack(ports, writer.room(width.octets(count.into()))?)?;
        let packed_end = writer.at;
        let mut flags = 0;
        if let Some(path) = path {
            flags |= flag::PATH;
            let [_, a, b, c] = path.get().to_be_bytes();
            writer.put(&[a, b, c])?;
        }
        let tag = tag.zip(path);
        let tag_at = writer.at;
        if tag.is_some() {
            flags |= flag::TAG;
            writer.put(&[0; TAG_BYTES])?;
        }
        let before = writer.at;
        put_detours(&mut writer)?;
        if writer.at > before {
            flags |= flag::DETOURS;
        }
        if let Some((key, path)) = tag {
            let written = |part: core::ops::Range<usize>| writer.into.get(part).unwrap_or_default();
            // Behind their number, as they are read.
            let detours = written(writer.at.min(before + 1)..writer.at);
            let tag = key.tag((width, count), path, written(packed_at..packed_end), detours);
            if let Some(place) = writer.into.get_mut(tag_at..before) {
                place.copy_from_slice(&tag);
            }
        }
        writer.put(&ether_type.0.to_be_bytes())?;
        if let Some(place) = writer.into.get_mut(FLAGS_AT) {
            *place = flags;
        }
        Ok(writer.at)
    }
}

/// Octets that are written one part after the other.
struct Writer<'w> {
    into: &'w mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn room(&mut self, octets: usize) -> Result<&mut [u8], SourceRouteError> {
        let (need, have) = (self.at + octets, self.into.len());
        let room = self.into.get_mut(self.at..need);
        let room = room.ok_or(SourceRouteError::Truncated { need, have })?;
        self.at = need;
        Ok(room)
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), SourceRouteError> {
        self.room(octets.len())?.copy_from_slice(octets);
        Ok(())
    }
}

/// What a node does with a frame, which stays as it is.
///
/// # Errors
/// The frame is another or ends before its ports do, or the header says what it cannot.
#[inline]
pub fn next(frame: &[u8]) -> Result<Next, SourceRouteError> {
    let Fixed { width, count, counter, .. } = Fixed::read(frame)?;
    let (need, have) = (PORTS_AT + width.octets(count.into()) + ETHER_TYPE_BYTES, frame.len());
    let packed = frame.get(PORTS_AT..need).ok_or(SourceRouteError::Truncated { need, have })?;
    if counter == 0 {
        return Ok(Next::End);
    }
    Ok(Next::Port(width.unpack(packed, counter.into())))
}

/// Has the header of this profile that a frame begins with a tag, if it can be read?
#[must_use]
pub fn has_tag(frame: &[u8]) -> bool {
    frame.get(FLAGS_AT).is_some_and(|flags| flags & flag::TAG != 0)
}

/// Takes a step back: the port that was taken last is next again. False, and the frame is as it was: none has
/// been taken, or it has no header.
pub fn step_back(frame: &mut [u8]) -> bool {
    let is_one = Fixed::read(frame).is_ok_and(|fixed| fixed.counter < fixed.count);
    if is_one && let Some(counter) = frame.get_mut(COUNTER_AT) {
        *counter += 1;
    }
    is_one
}

/// A node's step along the header of a frame.
///
/// # Errors
/// As [`next`] says; the frame is left as it was.
#[inline]
pub fn advance(frame: &mut [u8]) -> Result<Next, SourceRouteError> {
    let next = next(frame)?;
    if let (Next::Port(_), Some(counter)) = (next, frame.get_mut(COUNTER_AT)) {
        *counter -= 1;
    }
    Ok(next)
}
