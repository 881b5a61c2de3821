//! Headers made ahead: all of a header but what differs between the packets of a hop, which is written when
//! one leaves. Knows where path and time to live stand; refuses to know what the rest of a header
//! says.

use super::{Carried, Header, HeaderSide, PathPosition, Positions, of};
use catena_io::Buffer;
use catena_model::DropReason;
use catena_wire::ethernet::{self, EthernetHeader};
use catena_wire::mpls::SfcLabelPair;
use catena_wire::plain::PlainNsh;

/// Bytes of the longest header that is made ahead: Ethernet and an NSH without metadata.
const BYTES_MAX: usize = ethernet::HEADER_BYTES + PlainNsh::LEN;

/// Some bits of a 64-bit word in network order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Bits below it.
    pub(super) shift: u8,
    pub(super) bits: u8,
}

impl Field {
    /// The most that it holds.
    fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn mask(self) -> u64 {
        self.max() << self.shift
    }
}

/// The eight bytes of a header that differ between packets of a hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderWord {
    /// Where in the header they begin, in bytes.
    pub(super) at: u8,
    /// The path identifier.
    pub(super) path: Field,
    pub(super) ttl: Field,
    /// The least time to live that a header may say.
    pub(super) ttl_min: u8,
}

/// A header but for path, time to live and metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    bytes: [u8; BYTES_MAX],
    len: u8,
    /// Bytes of an Ethernet header that stands before it: none in tunnels.
    ethernet: u8,
    /// What differs between packets begins here; behind the end: nothing does.
    at: u8,
    path_shift: u8,
    ttl_shift: u8,
    /// What is there but for them.
    word: u64,
    /// What fits there.
    path_max: u32,
    ttl_min: u8,
    ttl_max: u8,
    /// Is there no more to a packet without metadata?
    is_whole: bool,
}

impl Template {
    /// The header for a position at one side; `ethernet`: what stands before it, at a function.
    ///
    /// # Errors
    /// The position fits no header.
    pub(crate) fn make(
        positions: &Positions,
        position: PathPosition,
        ethernet: Option<EthernetHeader>,
    ) -> Result<Self, DropReason> {
        let mut header = Header::EMPTY;
        if let Some(before) = ethernet {
            header.add(|room| before.emit(room)).map_err(|_| DropReason::MalformedEthernet)?;
        }
        let before = header.bytes().len();
        let side = if ethernet.is_some() { HeaderSide::Function } else { HeaderSide::Tunnel };
        let carrier = of(positions.encapsulation(position));
        carrier.push(positions, &Carried::new(0, 0, 0), side, position, &mut header)?;
        let word = carrier.word(side).filter(|_| header.bytes().len() <= BYTES_MAX);
        let len = if word.is_some() { header.bytes().len() } else { before };
        let mut made = Self::fixed(&header.bytes()[..len.min(BYTES_MAX)]);
        (made.ethernet, made.is_whole) = (before as u8, word.is_some());
        if let Some(HeaderWord { at, path, ttl, ttl_min }) = word {
            let at = before + usize::from(at);
            let room = made.bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
            if let Some(bytes) = room {
                made.word = u64::from_be_bytes(*bytes) & !(path.mask() | ttl.mask());
                *bytes = made.word.to_be_bytes();
            }
            (made.at, made.path_shift, made.ttl_shift) = (at as u8, path.shift, ttl.shift);
            made.path_max = u32::try_from(path.max()).unwrap_or(u32::MAX);
            made.ttl_min = ttl_min;
            made.ttl_max = u8::try_from(ttl.max()).unwrap_or(u8::MAX);
        }
        Ok(made)
    }

    /// A header that is the same for all packets; bytes that are too many are not in it.
    pub(crate) fn fixed(header: &[u8]) -> Self {
        let mut bytes = [0; BYTES_MAX];
        let len = header.len().min(BYTES_MAX);
        bytes[..len].copy_from_slice(&header[..len]);
        let (len, at) = (len as u8, len as u8);
        Self {
            bytes,
            len,
            ethernet: 0,
            at,
            path_shift: 0,
            ttl_shift: 0,
            word: 0,
            path_max: u32::MAX,
            ttl_min: 0,
            ttl_max: u8::MAX,
            is_whole: true,
        }
    }

    /// The same as a header, for what needs no path.
    pub(crate) fn as_header(&self) -> Header {
        Header::EMPTY.with(self.fixed_bytes())
    }

    /// The bytes that all packets have in common.
    pub(crate) fn fixed_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Is it all that a packet without metadata gets?
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Can it say this path and this time to live? What it cannot say is for [`Self::header`] to refuse.
    #[inline(always)]
    pub(crate) fn says(&self, path: u32, ttl: u8) -> bool {
        path <= self.path_max && (self.ttl_min..=self.ttl_max).contains(&ttl)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Puts the header in front of a frame, with a path and a time to live; false: there is no room.
    #[inline(always)]
    pub(crate) fn put_before(&self, buffer: &mut Buffer, path: u32, ttl: u8) -> bool {
        let Some(room) = buffer.prepend(self.len()) else { return false };
        // Of a length that the compiler knows, a copy is two instructions and no call.
        const GPE_NSH: usize = PlainNsh::GPE_LEN + PlainNsh::LEN;
        const LABELS: usize = SfcLabelPair::LEN;
        match room.len() {
            GPE_NSH => room.copy_from_slice(&self.bytes[..GPE_NSH]),
            LABELS => room.copy_from_slice(&self.bytes[..LABELS]),
            BYTES_MAX => room.copy_from_slice(&self.bytes),
            len => room.copy_from_slice(&self.bytes[..len]),
        }
        self.write(room, path, ttl);
        true
    }

    /// Writes what differs between packets.
    #[inline(always)]
    fn write(&self, header: &mut [u8], path: u32, ttl: u8) {
        let room = header.get_mut(usize::from(self.at)..).and_then(|from| from.first_chunk_mut());
        if let Some(bytes) = room {
            let own = u64::from(path) << self.path_shift | u64::from(ttl) << self.ttl_shift;
            // What was copied there is not read: the processor would wait for it.
            *bytes = (self.word | own).to_be_bytes();
        }
    }

    /// The header of a packet at a position, metadata included.
    ///
    /// # Errors
    /// What it carries fits no header, or no header says its path or its time to live.
    pub(crate) fn header(
        &self,
        positions: &Positions,
        carried: &Carried,
        position: PathPosition,
    ) -> Result<Header, DropReason> {
        let mut header = Header::EMPTY;
        let (path, ttl) = (positions.id(position).0, position.ttl());
        if self.is_whole && !position.carries_metadata() && self.says(path, ttl) {
            header.copy(self.fixed_bytes());
            self.write(header.bytes_mut(), path, ttl);
            return Ok(header);
        }
        header.copy(&self.bytes[..usize::from(self.ethernet)]);
        let side = if self.ethernet > 0 { HeaderSide::Function } else { HeaderSide::Tunnel };
        let carrier = of(positions.encapsulation(position));
        carrier.push(positions, carried, side, position, &mut header)?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::encap::Shape;
    use catena_io::BufferPool;
    use catena_model::PathId;
    use catena_model::program::PROXY_MAC;
    use catena_model::resource::Encapsulation;
    use catena_wire::scalar::{MacAddr, Vni};

    /// Another path of the same hops, and any time to live: what is put in front is what is pushed.
    #[test]
    fn a_template_becomes_every_header_of_its_hop() {
        for encapsulation in Encapsulation::TUNNELLED {
            let mut positions = Positions::default();
            let shape = Shape { encapsulation, hops: 3, vni: Vni::new(7).ok() };
            let ids = [PathId(100), PathId(0x5_4321)];
            ids.iter().for_each(|id| assert!(positions.add_path(*id, shape).is_ok()));
            let ether_type = encapsulation.capabilities().ether_type.unwrap();
            let before = EthernetHeader::untagged(MacAddr([2; 6]), PROXY_MAC, ether_type);
            let mut pool = BufferPool::new(1);
            for (ethernet, hop) in [None, Some(before)].into_iter().flat_map(|e| [(e, 0), (e, 2)]) {
                let at = |id, ttl| positions.find(id, encapsulation, hop, ttl).unwrap();
                let template = Template::make(&positions, at(ids[0], 63), ethernet).unwrap();
                assert!(template.is_whole());
                let side = ethernet.map_or(HeaderSide::Tunnel, |_| HeaderSide::Function);
                let all = ids.into_iter().flat_map(|id| (0..=u8::MAX).map(move |ttl| (id, ttl)));
                for (id, ttl) in all {
                    let mut pushed = Header::EMPTY;
                    if let Some(before) = ethernet {
                        pushed.add(|room| before.emit(room)).unwrap();
                    }
                    let nothing = Carried::new(0, 0, 0);
                    let carrier = of(encapsulation);
                    let outcome =
                        carrier.push(&positions, &nothing, side, at(id, ttl), &mut pushed);
                    let header = template.header(&positions, &nothing, at(id, ttl));
                    assert_eq!(header.map(|_| ()), outcome, "{encapsulation:?}, {ttl}");
                    assert_eq!(template.says(id.0, ttl), outcome.is_ok());
                    let Ok(header) = header else { continue };
                    assert_eq!(header.bytes(), pushed.bytes());
                    let mut buffer = pool.take().unwrap();
                    assert!(buffer.fill(&[0xa5; 60]));
                    assert!(template.put_before(&mut buffer, id.0, ttl));
                    assert_eq!(buffer.bytes(), [pushed.bytes(), &[0xa5; 60]].concat());
                    pool.put(buffer);
                }
            }
        }
    }
}
