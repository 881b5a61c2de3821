//! The commonest frames, read in one go: untagged Ethernet, IPv4 without options, whole, with TCP or
//! UDP; their packets in tunnels; and an NSH with MD type 1 around an Ethernet frame.
//!
//! Knows a part of what [`crate::frame::FrameView`] and [`crate::nsh::NshView`] read, and reads it
//! the same: who gets `None` asks those. Twenty instructions here stand for two hundred there, at
//! every packet.

use crate::flow::{FlowKey, mix, mix_start};
use crate::inside::TunnelHeader;
use crate::scalar::{EtherType, IpProtocol};
use crate::{ethernet, ipv4};
use core::net::{IpAddr, Ipv4Addr};

/// IPv4 and the first eight bytes of UDP or TCP.
const HEADERS: usize = ipv4::HEADER_BYTES + 8;

/// A frame of TCP or UDP over IPv4, or the packet of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainFrame {
    source: u32,
    destination: u32,
    /// Source port in the high half, destination port in the low one.
    ports: u32,
    protocol: u8,
    is_group: bool,
}

impl PlainFrame {
    /// Reads a frame; none: it is another kind, or something is wrong with it.
    #[inline]
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (ethernet, packet) = frame.split_first_chunk::<{ ethernet::HEADER_BYTES }>()?;
        if !ethernet::ethertype_is(ethernet, EtherType::IPV4) {
            return None;
        }
        let (plain, _) = Self::parse_packet(packet)?;
        Some(Self { is_group: ethernet[0] & 1 != 0, ..plain })
    }

    /// Reads the packet of such a frame at the front of these bytes; answers also what it carries.
    #[inline]
    pub(crate) fn parse_packet(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let head: &[u8; HEADERS] = bytes.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let long =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        // Version 4 and five words; neither offset nor more fragments.
        if head[0] != 0x45 || word(6) & 0x3fff != 0 {
            return None;
        }
        let upper = bytes.get(ipv4::HEADER_BYTES..usize::from(word(2)))?;
        let protocol = head[9];
        let is_sound = match IpProtocol(protocol) {
            IpProtocol::UDP => {
                let length = usize::from(word(24));
                (8..=upper.len()).contains(&length)
            }
            IpProtocol::TCP => {
                let offset = usize::from(*upper.get(12)? >> 4) * 4;
                (20..=upper.len()).contains(&offset)
            }
            _ => false,
        };
        let plain = Self {
            source: long(12),
            destination: long(16),
            ports: long(20),
            protocol,
            is_group: false,
        };
        is_sound.then_some((plain, upper))
    }

    /// What follows the IPv4 header of the frame that it was read from.
    #[inline]
    pub(crate) fn upper<'p>(&self, frame: &'p [u8]) -> Option<&'p [u8]> {
        let packet = frame.get(ethernet::HEADER_BYTES..)?;
        let &[_, _, high, low, ..] = packet else { return None };
        packet.get(ipv4::HEADER_BYTES..usize::from(u16::from_be_bytes([high, low])))
    }

    /// Does it stay on its link, as [`crate::frame::FrameView::is_multicast_or_link_local`] says?
    #[inline]
    #[must_use]
    pub const fn is_multicast_or_link_local(&self) -> bool {
        let destination = self.destination_v4();
        self.is_group
            || Ipv4Addr::from_bits(self.source).is_link_local()
            || destination.is_link_local()
            || destination.is_multicast()
            || destination.is_broadcast()
    }

    /// Is it sent to a group of stations?
    #[must_use]
    pub const fn is_group(&self) -> bool {
        self.is_group
    }

    /// Does it carry TCP?
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        self.protocol == IpProtocol::TCP.0
    }

    /// Does it say that a tunnel header follows?
    #[inline]
    #[must_use]
    pub const fn is_tunnel(&self) -> bool {
        self.tunnel().is_some()
    }

    /// The tunnel header that follows, as [`TunnelHeader::of`] has it.
    #[inline]
    pub(crate) const fn tunnel(&self) -> Option<TunnelHeader> {
        TunnelHeader::announced(IpProtocol(self.protocol), self.ports as u16)
    }

    /// Destination address.
    #[must_use]
    pub const fn destination(&self) -> IpAddr {
        IpAddr::V4(self.destination_v4())
    }

    /// The same, as it stands.
    #[must_use]
    pub const fn destination_v4(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.destination)
    }

    /// The flow.
    #[must_use]
    pub const fn flow(&self) -> FlowKey {
        FlowKey {
            source: IpAddr::V4(Ipv4Addr::from_bits(self.source)),
            destination: self.destination(),
            protocol: IpProtocol(self.protocol),
            source_port: (self.ports >> 16) as u16,
            destination_port: self.ports as u16,
        }
    }

    /// The flow in two words: the addresses; protocol and ports.
    #[inline]
    #[must_use]
    pub const fn words(&self) -> (u64, u64) {
        let addresses = (self.source as u64) << 32 | self.destination as u64;
        (addresses, (self.protocol as u64) << 32 | self.ports as u64)
    }

    /// [`FlowKey::seeded_hash`].
    #[inline]
    #[must_use]
    pub const fn seeded_hash(&self, seed: u64) -> u64 {
        let (addresses, rest) = self.words();
        mix(mix(mix_start(seed) ^ addresses) ^ (4 << 40 | rest))
    }

    /// [`FlowKey::symmetric_hash`].
    #[inline]
    #[must_use]
    pub const fn symmetric_hash(&self, seed: u64) -> u64 {
        let forth = (self.source as u64) << 16 | (self.ports >> 16) as u64;
        let back = (self.destination as u64) << 16 | (self.ports & 0xffff) as u64;
        let turned = Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.rotate_left(16),
            ..*self
        };
        // One hash of what is chosen: which way a packet goes, no processor foresees.
        let (source, destination, ports) = if back < forth {
            (turned.source, turned.destination, turned.ports)
        } else {
            (self.source, self.destination, self.ports)
        };
        Self { source, destination, ports, ..*self }.seeded_hash(seed)
    }
}

/// The fields of an NSH of version 0 and MD type 1, not of operations, before an Ethernet frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainNsh {
    /// Service path identifier.
    pub spi: u32,
    /// Service index.
    pub si: u8,
    /// Time to live, as it stands.
    pub ttl: u8,
}

impl PlainNsh {
    /// Bytes of the header.
    pub const LEN: usize = 24;
    /// Bytes of a VXLAN-GPE header.
    pub const GPE_LEN: usize = 8;

    /// What all such headers have in common: version 0, O clear, six words, MD type 1, next
    /// protocol Ethernet; bits without a meaning are not looked at.
    const KIND: u32 = 6 << 16 | 1 << 8 | 3;
    const KIND_MASK: u32 = 0xe03f_0fff;
    const TTL_SHIFT: u32 = 22;
    const TTL_MASK: u32 = 0x3f;

    /// Reads the header at the front; none: it is another kind, or something is wrong with it.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[b0, b1, b2, b3, p0, p1, p2, si, ..] = bytes.first_chunk::<{ Self::LEN }>()?;
        let base = u32::from_be_bytes([b0, b1, b2, b3]);
        let ttl = (base >> Self::TTL_SHIFT & Self::TTL_MASK) as u8;
        let spi = u32::from_be_bytes([0, p0, p1, p2]);
        (base & Self::KIND_MASK == Self::KIND).then_some(Self { spi, si, ttl })
    }

    /// The same behind a VXLAN-GPE header that says no more than that an NSH follows.
    #[inline]
    #[must_use]
    pub fn parse_behind_gpe(bytes: &[u8]) -> Option<Self> {
        let (gpe, rest) = bytes.split_first_chunk::<{ Self::GPE_LEN }>()?;
        (gpe[0] == 0x0c && gpe[3] == 4).then_some(())?;
        Self::parse(rest)
    }

    /// Writes path and time to live into a header of this kind, all else stays; short bytes stay as
    /// they are.
    #[inline]
    pub fn patch(header: &mut [u8], spi: u32, ttl: u8) {
        let Some([b0, b1, _, _, p0, p1, p2, ..]) = header.first_chunk_mut::<{ Self::LEN }>() else {
            return;
        };
        let word = u16::from_be_bytes([*b0, *b1]) & 0xf03f | u16::from(ttl & 0x3f) << 6;
        [*b0, *b1] = word.to_be_bytes();
        [_, *p0, *p1, *p2] = spi.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
