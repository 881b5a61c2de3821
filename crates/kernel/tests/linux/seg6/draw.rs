//! Drawn packets: each as another domain might send it, by a fixed seed.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use catena_wire::ipv4::Ipv4Header;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{EtherType, FlowLabel, FragmentOffset, IpProtocol, MacAddr};
use catena_wire::srv6::{
    self, HmacKey, HmacTlv, Inner, SegmentFlags, SegmentRoutingHeader, Tlv, TlvType,
};
use fastrand::Rng;

use super::{KEY_ID, RECEIVER, SECRET, emitted, framed};

/// What no protocol of the kernel looks into (RFC 3692).
const EXPERIMENTAL: IpProtocol = IpProtocol(253);
/// Bytes that a packet inside carries at most.
const DATA_BYTES_MAX: usize = 600;

/// Where packets come from.
pub(super) struct Draw(pub(super) Rng);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// An address that begins so, and is no identifier that the router has.
    pub(super) fn below(&mut self, prefix: [u16; 3]) -> Ipv6Addr {
        let [a, b, c] = prefix;
        let mut rest = || self.0.u16(0x1000..);
        Ipv6Addr::new(a, b, c, rest(), rest(), rest(), rest(), rest())
    }

    fn octets(&mut self, at_most: usize) -> Vec<u8> {
        let length = self.0.usize(..=at_most);
        std::iter::repeat_with(|| self.0.u8(..)).take(length).collect()
    }

    /// A packet or frame with a hop left at the least, to a receiver of these addresses.
    pub(super) fn inside(&mut self, inner: Inner, to: (Ipv4Addr, [u16; 3])) -> Vec<u8> {
        let data = self.octets(DATA_BYTES_MAX);
        let hops = self.0.u8(2..);
        match inner {
            Inner::Ipv4 => {
                let header = Ipv4Header {
                    traffic_class: self.0.u8(..),
                    payload_bytes: data.len(),
                    identification: self.0.u16(..),
                    dont_fragment: self.0.bool(),
                    more_fragments: false,
                    fragment_offset: FragmentOffset::new(0).unwrap(),
                    ttl: hops,
                    protocol: EXPERIMENTAL,
                    source: Ipv4Addr::from_bits(0x0a01_0000 | self.0.u32(1..0xffff)),
                    destination: Ipv4Addr::from_bits(to.0.to_bits() | self.0.u32(1..0xff)),
                };
                [emitted(|into| header.emit(into)), data].concat()
            }
            Inner::Ipv6 => {
                let header = Ipv6Header {
                    traffic_class: self.0.u8(..),
                    flow_label: self.flow_label(),
                    payload_length: u16::try_from(data.len()).unwrap(),
                    next_header: EXPERIMENTAL,
                    hop_limit: hops,
                    source: self.below([0x2001, 0xdb8, 0xa]),
                    destination: self.below(to.1),
                };
                [emitted(|into| header.emit(into)), data].concat()
            }
            Inner::Ethernet => {
                let [a, b, c] = std::array::from_fn(|_| self.0.u8(..));
                framed(RECEIVER, MacAddr([2, 9, 9, a, b, c]), EtherType(0x9000), &data)
            }
        }
    }

    fn flow_label(&mut self) -> FlowLabel {
        FlowLabel::new(self.0.u32(..=FlowLabel::MAX)).unwrap()
    }

    /// A packet at this segment, with so many left, in front of what is inside. Segments to come are below a prefix;
    /// the header may be reduced, have TLVs, and be signed, now and then by another key.
    pub(super) fn packet(
        &mut self,
        active: Ipv6Addr,
        left: RangeInclusive<usize>,
        ahead: [u16; 3],
        (inner, inside): (Inner, &[u8]),
    ) -> Vec<u8> {
        let left = self.0.usize(left);
        let behind = self.0.usize(..4);
        // The first segment of a reduced header is its destination alone.
        let is_reduced = left > 0 && behind == 0 && self.0.bool();
        let mut way: Vec<Ipv6Addr> = (0..behind).map(|_| self.below([0x5f00, 0, 1])).collect();
        way.extend((!is_reduced).then_some(active));
        way.extend((0..left).map(|_| self.below(ahead)));
        let values = [self.octets(20), self.octets(20)];
        let tlvs = values.each_ref().map(|value| Tlv { kind: TlvType(self.0.u8(6..)), value });
        let is_signed = self.0.u8(..3) == 0;
        let flags = SegmentFlags(self.0.u8(..) & !SegmentFlags::HMAC.0);
        let header = SegmentRoutingHeader {
            next: inner.protocol(),
            segments_left: u8::try_from(left).unwrap(),
            flags: if is_signed { flags.with(SegmentFlags::HMAC) } else { flags },
            tag: self.0.u16(..),
            way: &way,
            tlvs: &tlvs[..self.0.usize(..=2)],
            hmac: is_signed.then_some(HmacTlv::unsigned(KEY_ID, is_reduced)),
        };
        let behind = [emitted(|into| header.emit(into)), inside.to_vec()].concat();
        let mut packet = self.in_front(active, IpProtocol::ROUTING, &behind);
        if is_signed {
            let key = if self.0.u8(..4) == 0 { b"another" } else { &SECRET[..] };
            srv6::sign(&mut packet, &HmacKey::new(key).unwrap()).unwrap();
        }
        packet
    }

    /// An IPv6 packet.
    pub(super) fn in_front(&mut self, to: Ipv6Addr, next: IpProtocol, payload: &[u8]) -> Vec<u8> {
        let header = Ipv6Header {
            traffic_class: self.0.u8(..),
            flow_label: self.flow_label(),
            payload_length: u16::try_from(payload.len()).unwrap(),
            next_header: next,
            hop_limit: self.0.u8(2..),
            source: self.below([0xfd00, 0, 1]),
            destination: to,
        };
        [&emitted(|into| header.emit(into)), payload].concat()
    }
}
