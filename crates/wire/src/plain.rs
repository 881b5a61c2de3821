//! The commonest frames, read in one go: Ethernet with one VLAN tag at most, IPv4 without options or IPv6
//! without extension headers, whole, with TCP or UDP; their packets in tunnels; an NSH with MD type 1 around an
//! Ethernet frame, and an SFC label pair.
//!
//! Knows a part of what [`crate::frame::FrameView`], [`crate::nsh::NshView`] and
//! [`crate::mpls::SfcLabelPair`] read, and reads it the same: who gets `None` asks those. Twenty
//! instructions here stand for two hundred there, at every packet.

use crate::flow::{FlowKey, absorb, mix, mix_start};
use crate::inside::TunnelHeader;
use crate::mpls::SfcLabelPair;
use crate::scalar::{EtherType, IpProtocol, MplsLabel};
use crate::varying::VaryingFields;
use crate::{ethernet, ipv4, ipv6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first eight bytes of UDP or TCP, behind IPv4 and behind IPv6.
const IPV4_HEADERS: usize = ipv4::HEADER_BYTES + 8;
const IPV6_HEADERS: usize = ipv6::HEADER_BYTES + 8;
/// A VLAN identifier in a tag.
const VLAN_MASK: u16 = 0x0fff;

/// A frame of TCP or UDP over IP, or the packet of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainFrame {
    /// Of IPv4, an address is in the low half of the second word, and the first says nothing.
    source: (u64, u64),
    destination: (u64, u64),
    /// Source port in the high half, destination port in the low one.
    ports: u32,
    protocol: u8,
    is_group: bool,
    is_v6: bool,
    /// Bytes before the packet.
    l3_offset: u8,
    /// Identifier of its VLAN; 0: it is in none.
    vlan: u16,
}

impl PlainFrame {
    /// Reads a frame; none: it is another kind, or something is wrong with it.
    #[inline]
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let mut plain = Self::default();
        plain.read(frame).then_some(plain)
    }

    /// The same in place; false: it is another kind, or something is wrong with it, and what is here now
    /// means nothing.
    #[inline(always)]
    #[must_use]
    pub fn read(&mut self, frame: &[u8]) -> bool {
        let Some((ethernet, packet)) = frame.split_first_chunk::<{ ethernet::HEADER_BYTES }>()
        else {
            return false;
        };
        if !ethernet::ethertype_is(ethernet, EtherType::IPV4) {
            return self.read_other(frame);
        }
        self.is_group = ethernet[0] & 1 != 0;
        (self.l3_offset, self.vlan) = (ethernet::HEADER_BYTES as u8, 0);
        self.read_v4(packet).is_some()
    }

    /// The same for a packet of IP whose untagged frame has not been made yet.
    #[inline]
    pub fn read_packet(&mut self, packet: &[u8]) -> bool {
        (self.is_group, self.l3_offset, self.vlan) = (false, ethernet::HEADER_BYTES as u8, 0);
        self.read_v4(packet).is_some() || self.read_v6(packet).is_some()
    }

    /// The same for all but untagged IPv4.
    fn read_other(&mut self, frame: &[u8]) -> bool {
        let Some((tag_type, control)) = ethernet::outer_tag(frame) else { return false };
        let mut before = ethernet::HEADER_BYTES;
        let mut ether_type = Some(tag_type);
        self.vlan = 0;
        if ethernet::is_tag(tag_type) {
            ether_type = frame.get(ethernet::TAG_BYTES..).and_then(ethernet::outer_type);
            (before, self.vlan) = (before + ethernet::TAG_BYTES, control & VLAN_MASK);
        }
        self.is_group = frame[0] & 1 != 0;
        self.l3_offset = before as u8;
        let packet = frame.get(before..).unwrap_or_default();
        match ether_type {
            Some(EtherType::IPV4) => self.read_v4(packet).is_some(),
            Some(EtherType::IPV6) => self.read_v6(packet).is_some(),
            _ => false,
        }
    }

    /// Reads the IPv4 packet of such a frame at the front of these bytes; answers also what it carries.
    #[inline]
    pub(crate) fn parse_packet(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut plain = Self::default();
        let upper = plain.read_v4(bytes)?;
        Some((plain, upper))
    }

    #[inline(always)]
    fn read_v4<'p>(&mut self, bytes: &'p [u8]) -> Option<&'p [u8]> {
        let head: &[u8; IPV4_HEADERS] = bytes.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let long =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        // Version 4 and five words; neither offset nor more fragments.
        if head[0] != 0x45 || word(6) & 0x3fff != 0 {
            return None;
        }
        let upper = bytes.get(ipv4::HEADER_BYTES..usize::from(word(2)))?;
        (self.source.1, self.destination.1) = (u64::from(long(12)), u64::from(long(16)));
        self.ports = long(20);
        self.protocol = head[9];
        self.is_v6 = false;
        is_sound(head[9], upper).then_some(upper)
    }

    fn read_v6(&mut self, bytes: &[u8]) -> Option<()> {
        let head: &[u8; IPV6_HEADERS] = bytes.first_chunk()?;
        if head[0] >> 4 != 6 {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let upper = bytes.get(ipv6::HEADER_BYTES..ipv6::HEADER_BYTES + length)?;
        let address = |at: usize| {
            let bytes: &[u8; 16] = head.get(at..)?.first_chunk()?;
            let bits = u128::from_be_bytes(*bytes);
            Some(((bits >> 64) as u64, bits as u64))
        };
        self.source = address(8)?;
        self.destination = address(24)?;
        self.ports = u32::from_be_bytes(*head.get(ipv6::HEADER_BYTES..)?.first_chunk()?);
        self.protocol = head[6];
        self.is_v6 = true;
        is_sound(head[6], upper).then_some(())
    }

    /// What follows the header of the IPv4 frame that it was read from; none: it was another.
    #[inline]
    pub(crate) fn upper<'p>(&self, frame: &'p [u8]) -> Option<&'p [u8]> {
        let packet = frame.get(usize::from(self.l3_offset)..).filter(|_| !self.is_v6)?;
        let &[_, _, high, low, ..] = packet else { return None };
        packet.get(ipv4::HEADER_BYTES..usize::from(u16::from_be_bytes([high, low])))
    }

    /// What the frame that it was read from shows beside its flow.
    #[must_use]
    pub fn varying(&self, frame: &[u8]) -> VaryingFields {
        let packet = frame.get(usize::from(self.l3_offset)..).unwrap_or_default();
        let (class, header_bytes) = match *packet {
            [high, low, ..] if self.is_v6 => (high << 4 | low >> 4, ipv6::HEADER_BYTES),
            [_, class, ..] => (class, ipv4::HEADER_BYTES),
            _ => (0, 0),
        };
        let upper = packet.get(header_bytes..).unwrap_or_default();
        VaryingFields::of(class, IpProtocol(self.protocol), upper)
    }

    /// Is it untagged IPv4, as most are? Then [`Self::words`] say all of its flow.
    #[inline(always)]
    #[must_use]
    pub const fn is_narrow(&self) -> bool {
        !self.is_v6 && self.vlan == 0
    }

    /// Is it IPv6?
    #[inline(always)]
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Identifier of its VLAN; 0: it is in none.
    #[must_use]
    pub const fn vlan(&self) -> u16 {
        self.vlan
    }

    /// Does it stay on its link, as [`crate::frame::FrameView::is_multicast_or_link_local`] says?
    #[inline]
    #[must_use]
    pub const fn is_multicast_or_link_local(&self) -> bool {
        if self.is_v6 {
            return self.is_group
                || ipv6(self.source).is_unicast_link_local()
                || ipv6(self.destination).is_unicast_link_local()
                || ipv6(self.destination).is_multicast();
        }
        let destination = ipv4(self.destination);
        self.is_group
            || ipv4(self.source).is_link_local()
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
        if self.is_v6 {
            IpAddr::V6(ipv6(self.destination))
        } else {
            IpAddr::V4(ipv4(self.destination))
        }
    }

    /// The same of IPv6, in two words.
    #[inline(always)]
    #[must_use]
    pub const fn destination_words(&self) -> (u64, u64) {
        self.destination
    }

    /// The flow.
    #[must_use]
    pub const fn flow(&self) -> FlowKey {
        let (source, destination) = if self.is_v6 {
            (IpAddr::V6(ipv6(self.source)), IpAddr::V6(ipv6(self.destination)))
        } else {
            (IpAddr::V4(ipv4(self.source)), IpAddr::V4(ipv4(self.destination)))
        };
        FlowKey {
            source,
            destination,
            protocol: IpProtocol(self.protocol),
            source_port: (self.ports >> 16) as u16,
            destination_port: self.ports as u16,
        }
    }

    /// A flow of IPv4 in two words: the addresses; protocol and ports.
    #[inline(always)]
    #[must_use]
    pub const fn words(&self) -> (u64, u64) {
        (self.source.1 << 32 | self.destination.1, self.rest())
    }

    /// Any flow in five words: source, destination; version, protocol and ports.
    #[must_use]
    pub const fn wide_words(&self) -> [u64; 5] {
        let version = (self.is_v6 as u64) << 40;
        let ((a, b), (c, d)) = (self.source, self.destination);
        let [a, c] = if self.is_v6 { [a, c] } else { [0; 2] };
        [a, b, c, d, version | self.rest()]
    }

    #[inline(always)]
    const fn rest(&self) -> u64 {
        (self.protocol as u64) << 32 | self.ports as u64
    }

    /// [`FlowKey::seeded_hash`].
    #[inline(always)]
    #[must_use]
    pub const fn seeded_hash(&self, seed: u64) -> u64 {
        if self.is_v6 {
            return self.seeded_hash_v6(seed);
        }
        self.hash_v4(seed, self.source.1, self.destination.1, self.ports)
    }

    #[inline(always)]
    const fn hash_v4(&self, seed: u64, source: u64, destination: u64, ports: u32) -> u64 {
        let rest = 4 << 40 | (self.protocol as u64) << 32 | ports as u64;
        mix(mix(mix_start(seed) ^ (source << 32 | destination)) ^ rest)
    }

    const fn seeded_hash_v6(&self, seed: u64) -> u64 {
        let state = absorb(absorb(mix_start(seed), self.source), self.destination);
        mix(state ^ (6 << 40 | self.rest()))
    }

    /// [`FlowKey::symmetric_hash`].
    #[inline(always)]
    #[must_use]
    pub const fn symmetric_hash(&self, seed: u64) -> u64 {
        if self.is_v6 {
            return self.symmetric_hash_v6(seed);
        }
        let forth = self.source.1 << 16 | (self.ports >> 16) as u64;
        let back = self.destination.1 << 16 | (self.ports & 0xffff) as u64;
        // One hash of what is chosen: which way a packet goes, no processor foresees.
        let (source, destination, ports) = if back < forth {
            (self.destination.1, self.source.1, self.ports.rotate_left(16))
        } else {
            (self.source.1, self.destination.1, self.ports)
        };
        self.hash_v4(seed, source, destination, ports)
    }

    const fn symmetric_hash_v6(&self, seed: u64) -> u64 {
        let (forth, back) = (self.source, self.destination);
        let is_later = back.0 < forth.0
            || back.0 == forth.0 && back.1 < forth.1
            || back.0 == forth.0 && back.1 == forth.1 && (self.ports & 0xffff) < self.ports >> 16;
        let turned = Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.rotate_left(16),
            ..*self
        };
        if is_later { turned.seeded_hash_v6(seed) } else { self.seeded_hash_v6(seed) }
    }
}

/// Does what follows an IP header begin as UDP or TCP must?
#[inline(always)]
fn is_sound(protocol: u8, upper: &[u8]) -> bool {
    match IpProtocol(protocol) {
        IpProtocol::UDP => {
            let &[_, _, _, _, high, low, _, _, ..] = upper else { return false };
            (8..=upper.len()).contains(&usize::from(u16::from_be_bytes([high, low])))
        }
        IpProtocol::TCP => {
            let Some(offset) = upper.get(12) else { return false };
            (20..=upper.len()).contains(&(usize::from(*offset >> 4) * 4))
        }
        _ => false,
    }
}

const fn ipv4((_, low): (u64, u64)) -> Ipv4Addr {
    Ipv4Addr::from_bits(low as u32)
}

const fn ipv6((high, low): (u64, u64)) -> Ipv6Addr {
    Ipv6Addr::from_bits((high as u128) << 64 | low as u128)
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
}

/// The fields of an SFC label pair ([`crate::mpls::SfcLabelPair`]) that ends its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainLabels {
    /// The context label: the path.
    pub path: u32,
    /// Service index.
    pub index: u8,
    /// Time to live of the function label, as it stands.
    pub ttl: u8,
}

impl PlainLabels {
    /// Bytes of the pair.
    pub const LEN: usize = SfcLabelPair::LEN;

    /// What a function label has beside index, class and time to live: zeros below the index, S set.
    const FUNCTION: u32 = 1 << 8;
    const FUNCTION_MASK: u32 = 0x00ff_f100;

    /// Reads the pair at the front; none: it is no pair, or something is wrong with it.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[c0, c1, c2, c3, f0, f1, f2, f3] = bytes.first_chunk::<{ Self::LEN }>()?;
        let (context, function) =
            (u32::from_be_bytes([c0, c1, c2, c3]), u32::from_be_bytes([f0, f1, f2, f3]));
        let path = context >> 12;
        let index = (function >> 24) as u8;
        let is_pair = context & 1 << 8 == 0
            && function & Self::FUNCTION_MASK == Self::FUNCTION
            && path >= MplsLabel::SPECIAL_BELOW
            && index > 0;
        is_pair.then_some(Self { path, index, ttl: f3 })
    }
}

#[cfg(test)]
mod tests;
