//! Detours that a header brings with it: what the node does whose port at a position is dead, without asking
//! anybody. Knows where they are kept and what a header is with one taken; refuses to know which ports are dead.

use super::{Fixed, NativeView, Parts, PortWidth, Reader, TagKey, Writer};
use crate::source_route::{PORTS_MAX, SourceRouteError};

/// Octets in front of the ports of a detour.
pub const DETOUR_BYTES_WITHOUT_PORTS: usize = 3;

/// A detour to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour<'w> {
    /// The position whose port it is for.
    pub counter: u8,
    /// The position from which the way goes on behind it; 0: it leads to the way's end.
    pub rejoin: u8,
    /// Its ports, in the order in which they are taken.
    pub ports: &'w [u8],
}

impl Detour<'_> {
    /// May a way of so many ports have it?
    pub(super) fn may_be_of(&self, count: u8) -> Result<(), SourceRouteError> {
        let Self { counter, rejoin, ports } = *self;
        let ports = super::super::count(ports, PORTS_MAX)?;
        check((counter, rejoin, ports), count)
    }
}

/// A detour is for a position of the way and rejoins it further on, and what is to be taken then can be counted.
fn check((counter, rejoin, ports): (u8, u8, u8), count: u8) -> Result<(), SourceRouteError> {
    let is_one = (1..=count).contains(&counter) && rejoin < counter && ports > 0;
    if is_one && rejoin.checked_add(ports).is_some() {
        Ok(())
    } else {
        Err(SourceRouteError::Detour { counter, rejoin })
    }
}

/// Octets of all these.
pub(super) fn octets(detours: &[Detour<'_>], width: PortWidth) -> usize {
    let one = |detour: &Detour<'_>| DETOUR_BYTES_WITHOUT_PORTS + width.octets(detour.ports.len());
    if detours.is_empty() { 0 } else { 1 + detours.iter().map(one).sum::<usize>() }
}

pub(super) fn write(
    detours: &[Detour<'_>],
    width: PortWidth,
    writer: &mut Writer<'_>,
) -> Result<(), SourceRouteError> {
    let number = u8::try_from(detours.len());
    let number = number.map_err(|_| SourceRouteError::TooManyDetours(detours.len()))?;
    writer.put(&[number])?;
    for Detour { counter, rejoin, ports } in detours {
        let count = super::super::count(ports, PORTS_MAX)?;
        writer.put(&[*counter, *rejoin, count])?;
        width.pack(ports.iter().rev().copied(), writer.room(width.octets(ports.len()))?)?;
    }
    Ok(())
}

/// The octets of the detours of a header, behind their number.
pub(super) fn take<'p>(
    reader: &mut Reader<'p>,
    fixed: Fixed,
) -> Result<&'p [u8], SourceRouteError> {
    let [number] = reader.array()?;
    let (frame, start) = (reader.frame, reader.at);
    for _ in 0..number {
        let [counter, rejoin, ports] = reader.array()?;
        check((counter, rejoin, ports), fixed.count)?;
        reader.take(fixed.width.octets(ports.into()))?;
    }
    Ok(frame.get(start..reader.at).unwrap_or_default())
}

/// A detour that a header has.
#[derive(Clone, Copy, Debug)]
pub struct DetourView<'p> {
    /// The position whose port it is for.
    pub counter: u8,
    /// The position from which the way goes on behind it.
    pub rejoin: u8,
    count: u8,
    packed: &'p [u8],
    width: PortWidth,
}

impl DetourView<'_> {
    /// Its ports, in the order in which they are taken.
    pub fn ports(&self) -> impl DoubleEndedIterator<Item = u8> + '_ {
        (1..=usize::from(self.count)).rev().map(|position| self.width.unpack(self.packed, position))
    }
}

/// The detours of a header.
#[derive(Clone, Copy, Debug)]
pub struct Detours<'p> {
    octets: &'p [u8],
    width: PortWidth,
}

impl<'p> Detours<'p> {
    pub(super) const fn of(octets: &'p [u8], width: PortWidth) -> Self {
        Self { octets, width }
    }
}

impl<'p> Iterator for Detours<'p> {
    type Item = DetourView<'p>;

    fn next(&mut self) -> Option<DetourView<'p>> {
        let width = self.width;
        let (&[counter, rejoin, count], rest) =
            self.octets.split_first_chunk::<DETOUR_BYTES_WITHOUT_PORTS>()?;
        let (packed, rest) = rest.split_at_checked(width.octets(count.into()))?;
        self.octets = rest;
        Some(DetourView { counter, rejoin, count, packed, width })
    }
}

impl NativeView<'_> {
    /// Writes the header of a frame that takes the detour for the port that is next, none of whose ports has been
    /// taken, and answers its length. The detours of positions that the frame no longer comes by are left out.
    /// `key`: that of the domain, without which no header with a tag is made anew. The tag must be right.
    ///
    /// # Errors
    /// The tag is wrong, the header has no detour for that port, or there is not room for what it is then.
    pub fn detour(&self, key: Option<&TagKey>, into: &mut [u8]) -> Result<usize, SourceRouteError> {
        let key = match self.tag {
            None => None,
            Some(_) => Some(key.ok_or(SourceRouteError::Tag)?),
        };
        key.map_or(Ok(()), |key| self.check(key))?;
        let counter = self.counter;
        let wanted = self.detours().find(|detour| detour.counter == counter);
        let DetourView { rejoin, count, packed, width, .. } =
            wanted.ok_or(SourceRouteError::NoDetour(counter))?;
        let taken = rejoin.saturating_add(count);
        let own = |position| self.port(position);
        let ports = (1..=rejoin)
            .map(own)
            .chain((1..=count).map(|position| width.unpack(packed, position.into())))
            .chain((taken..self.count).map(|position| own(position + 1)));
        let parts =
            Parts { width, count: self.count.max(taken), counter: taken, ports, path: self.path };
        let is_ahead = |detour: &DetourView<'_>| detour.counter <= rejoin;
        let kept = self.detours().filter(is_ahead).count();
        parts.write(key, self.ether_type, into, |writer| {
            if kept == 0 {
                return Ok(());
            }
            writer.put(&[kept as u8])?;
            self.detours().filter(is_ahead).try_for_each(|detour| {
                writer.put(&[detour.counter, detour.rejoin, detour.count])?;
                writer.put(detour.packed)
            })
        })
    }
}
