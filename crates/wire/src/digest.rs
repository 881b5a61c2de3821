//! A fingerprint of the part of a frame that a function on its way leaves alone.
//!
//! Knows which bytes routers and devices change: the link's header, the time to live or hop limit,
//! and the checksums of IP and of the layer above, which may also be left to a device. Refuses to
//! know what a fingerprint is for, and super-frames: each wire packet has its own.

use crate::flow::mix;
use crate::frame::{Fragment, FrameView, Network};
use crate::scalar::IpProtocol;
use crate::{icmp, ipv4, ipv6, tcp, udp};

/// Words that are taken in together, each into its own state.
const LANES: usize = 4;
const BLOCK_BYTES: usize = LANES * 8;
/// The fractions of the square roots of 2, 3, 5 and 7: constants without pattern.
const STARTS: [u64; LANES] =
    [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];
/// The fraction of the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The digest of a frame: of its IP packet without time to live (hop limit), header checksum and
/// the checksum of TCP, UDP, ICMP or ICMPv6; of what is no IP packet, of all behind the Ethernet
/// header. Padding behind the packet does not count. `bytes` is the frame that was parsed.
///
/// Two frames that differ in one aligned word of 64 bits never share a digest; others do so by
/// accident once in 2^64. It resists accidents, not attackers.
#[must_use]
pub fn kept(view: &FrameView, bytes: &[u8]) -> u64 {
    let end = bytes.len().min(view.end as usize);
    let mut digest = Digest::new();
    let mut from = usize::from(view.l3_offset);
    for (start, length) in changing(view).into_iter().flatten() {
        // A checksum that is cut off by the end of a first fragment is no checksum.
        if start + length <= end {
            digest.absorb(bytes.get(from..start).unwrap_or_default());
            from = start + length;
        }
    }
    digest.absorb(bytes.get(from..end).unwrap_or_default());
    digest.finish()
}

/// Where the bytes are that do not count, and how many, in ascending order.
fn changing(view: &FrameView) -> [Option<(usize, usize)>; 3] {
    let l3 = usize::from(view.l3_offset);
    let (time_to_live, checksum) = match view.network {
        Network::Ipv4 => (Some((l3 + ipv4::TTL_OFFSET, 1)), Some((l3 + ipv4::CHECKSUM_OFFSET, 2))),
        Network::Ipv6 => (Some((l3 + ipv6::HOP_LIMIT_OFFSET, 1)), None),
        Network::Arp | Network::Other => (None, None),
    };
    let upper = view.l4_offset.filter(|_| view.fragment != Fragment::Later);
    let upper = upper.zip(view.protocol).and_then(|(l4, protocol)| {
        let offset = match protocol {
            IpProtocol::TCP => tcp::CHECKSUM_OFFSET,
            IpProtocol::UDP => udp::CHECKSUM_OFFSET,
            IpProtocol::ICMP | IpProtocol::ICMPV6 => icmp::CHECKSUM_OFFSET,
            _ => return None,
        };
        Some((usize::from(l4) + offset, 2))
    });
    [time_to_live, checksum, upper]
}

/// A digest in the making: the same for the same bytes, however they are cut.
struct Digest {
    lanes: [u64; LANES],
    block: [u8; BLOCK_BYTES],
    filled: usize,
    length: u64,
}

impl Digest {
    const fn new() -> Self {
        Self { lanes: STARTS, block: [0; BLOCK_BYTES], filled: 0, length: 0 }
    }

    fn absorb(&mut self, mut bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        if self.filled > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.filled));
            self.keep(head);
            bytes = rest;
            if self.filled < BLOCK_BYTES {
                return;
            }
            self.filled = 0;
            let block = self.block;
            self.take(&block);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.take(block);
        }
        self.keep(rest);
    }

    /// Puts bytes aside until the block is full; there is room for them.
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.block.iter_mut().skip(self.filled);
        for (place, byte) in room.zip(bytes) {
            *place = *byte;
        }
        self.filled += bytes.len();
    }

    /// Each step is a bijection of its lane for a given word, and of the word for a given lane.
    fn take(&mut self, block: &[u8; BLOCK_BYTES]) {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            let mixed = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(STEP);
            *lane = mixed ^ mixed >> 32;
        }
    }

    fn finish(mut self) -> u64 {
        let rest = self.block.iter_mut().skip(self.filled);
        rest.for_each(|place| *place = 0);
        let block = self.block;
        self.take(&block);
        self.lanes.iter().fold(mix(self.length), |state, lane| mix(state ^ lane))
    }
}

#[cfg(test)]
mod tests;
