//! Which part of its packet a fragment is (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! Knows where a fragment begins and ends, what all fragments of a packet have in common, and how far
//! the transport header of the first one reaches. Refuses to reassemble.

use crate::flow::{FlowKey, mix};
use crate::frame::{Fragment, FrameView, Network};
use crate::icmp::IcmpView;
use crate::ipv4::Ipv4View;
use crate::ipv6::Ipv6View;
use crate::scalar::IpProtocol;
use crate::{tcp, udp};

/// Bytes of a first fragment that two of one packet are told apart by.
const HEAD_BYTES: usize = 64;
/// Fragments begin at multiples of this.
const UNIT_BYTES: u32 = 8;

/// A fragment's place in its packet. Offsets count bytes of what is cut into fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentPlace {
    /// Tells packets with the same ends apart.
    pub identification: u32,
    /// Where it begins.
    pub start: u32,
    /// Where it ends, as receivers take it: all but the last hold multiples of eight bytes.
    pub end: u32,
    /// Do no further ones follow?
    pub is_last: bool,
    /// Where the transport header ends, at least; 0 unless it is the first.
    pub header_end: u32,
    /// A hash of how it begins; 0 unless it is the first.
    pub head: u64,
}

impl FragmentPlace {
    /// Reads it from the frame that `view` was read from; none: it is no fragment.
    #[must_use]
    pub fn read(frame: &[u8], view: &FrameView) -> Option<Self> {
        Self::of_packet(frame.get(usize::from(view.l3_offset)..)?, view)
    }

    fn of_packet(packet: &[u8], view: &FrameView) -> Option<Self> {
        let (identification, units, more, data) = match (view.fragment, view.network) {
            (Fragment::Whole, _) | (_, Network::Arp | Network::Other) => return None,
            (_, Network::Ipv4) => {
                let ip = Ipv4View::parse_cut(packet).ok()?;
                let identification = u32::from(ip.identification());
                (identification, ip.fragment_offset(), ip.more_fragments(), ip.payload())
            }
            (_, Network::Ipv6) => {
                let ip = Ipv6View::parse_cut(packet).ok()?;
                let part = ip.fragment()?;
                (part.identification, part.offset, part.more_fragments, ip.fragment_data()?)
            }
        };
        let start = units.bytes();
        let bytes = u32::try_from(data.len()).ok()?;
        let whole_units = if more { bytes / UNIT_BYTES * UNIT_BYTES } else { bytes };
        let mut place = Self {
            identification,
            start,
            end: start + whole_units,
            is_last: !more,
            header_end: 0,
            head: 0,
        };
        if view.fragment == Fragment::First {
            let after_ip = usize::from(view.l4_offset?) - usize::from(view.l3_offset);
            let upper = packet.get(after_ip..).unwrap_or_default();
            let before = data.len().saturating_sub(upper.len());
            let header = transport_bytes(view.protocol?, upper);
            place.header_end = u32::try_from(before + header).ok()?;
            place.head = head(data);
        }
        Some(place)
    }

    /// What all fragments of a packet share beside the identification: addresses, and of IPv4 the
    /// protocol. Of IPv6 only the first tells which protocol it is.
    #[must_use]
    pub fn common(flow: &FlowKey) -> FlowKey {
        let protocol = if flow.source.is_ipv4() { flow.protocol } else { IpProtocol(0) };
        FlowKey { protocol, source_port: 0, destination_port: 0, ..*flow }
    }
}

/// Bytes of the transport header that begins here, as far as it tells.
fn transport_bytes(protocol: IpProtocol, upper: &[u8]) -> usize {
    match protocol {
        IpProtocol::TCP => upper
            .get(12)
            .map_or(tcp::HEADER_BYTES, |word| (usize::from(word >> 4) * 4).max(tcp::HEADER_BYTES)),
        IpProtocol::UDP => udp::HEADER_BYTES,
        IpProtocol::ICMP | IpProtocol::ICMPV6 => IcmpView::HEADER_LEN,
        _ => 0,
    }
}

fn head(data: &[u8]) -> u64 {
    let seen = data.get(..HEAD_BYTES).unwrap_or(data);
    seen.chunks(8).fold(0, |hash, chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        mix(hash ^ u64::from_be_bytes(word))
    })
}

#[cfg(test)]
mod tests;
