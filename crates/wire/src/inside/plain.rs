//! The commonest tunnels, read in one go: of IPv4 packets that are plain, as far in as tunnels are.
//!
//! Knows a part of what [`super::Walk`] follows, and reads it the same: who gets none asks that. It
//! names no error and keeps nothing of a packet on the way but where it ends.

use super::{Inside, TunnelHeader};
use crate::ethernet;
use crate::geneve::GeneveHeader;
use crate::gre::GreHeader;
use crate::gtp_u::{GtpUMessage, GtpUView};
use crate::plain::PlainFrame;
use crate::scalar::{EtherType, TunnelId};
use crate::stt::{SttHeader, SttSegment};
use crate::tcp::TcpView;
use crate::udp::UdpView;
use crate::vxlan::VxlanHeader;

/// What the tunnels hold that this header begins; none: something on the way is not plain.
pub(super) fn read(first: TunnelHeader, bytes: &[u8], layers_max: u8) -> Option<Inside> {
    let mut inside = Inside::NOTHING;
    let (mut header, mut at) = (first, bytes);
    while inside.layers < layers_max {
        let (packet, upper) = PlainFrame::parse_packet(pass(&mut inside, header, at)?)?;
        inside.layers += 1;
        match packet.tunnel().filter(|_| !inside.is_complete()) {
            Some(next) => (header, at) = (next, upper),
            None => return Some(Inside { flow: Some(packet.flow()), ..inside }),
        }
    }
    None
}

/// Reads one tunnel header; answers the IPv4 packet behind it, or what may be one.
#[inline]
fn pass<'p>(inside: &mut Inside, header: TunnelHeader, at: &'p [u8]) -> Option<&'p [u8]> {
    let (kind, carried) = match header {
        TunnelHeader::Vxlan => {
            let (vxlan, frame) = VxlanHeader::parse(in_udp(at)?).ok()?;
            inside.learn_network(TunnelId::Vni(vxlan.vni));
            (EtherType::TRANSPARENT_ETHERNET, frame)
        }
        TunnelHeader::Geneve => {
            let (geneve, rest) = GeneveHeader::parse(in_udp(at)?).ok()?;
            inside.learn_network(TunnelId::Vni(geneve.vni));
            (geneve.protocol, rest)
        }
        TunnelHeader::GtpU => {
            let message = GtpUView::parse(in_udp(at)?).ok()?;
            inside.learn_user(&message);
            (message.message() == GtpUMessage::G_PDU).then_some(())?;
            (EtherType::IPV4, message.payload())
        }
        TunnelHeader::Gre => {
            let (gre, rest) = GreHeader::parse(at).ok()?;
            if let Some(key) = gre.key {
                inside.learn_network(TunnelId::GreKey(key));
            }
            (gre.protocol, rest)
        }
        TunnelHeader::Stt => {
            let tcp = TcpView::parse(at).ok()?;
            let whole = u16::try_from(tcp.payload().len()).ok()?;
            (SttSegment::of(&tcp) == SttSegment { frame_bytes: whole, offset: 0 }).then_some(())?;
            let (stt, frame) = SttHeader::parse(tcp.payload()).ok()?;
            inside.learn_network(TunnelId::SttContext(stt.context));
            (EtherType::TRANSPARENT_ETHERNET, frame)
        }
        TunnelHeader::VxlanGpe | TunnelHeader::Nsh => return None,
    };
    match kind {
        EtherType::TRANSPARENT_ETHERNET => {
            ethernet::ethertype_is(carried, EtherType::IPV4).then_some(())?;
            carried.get(ethernet::HEADER_BYTES..)
        }
        EtherType::IPV4 => Some(carried),
        _ => None,
    }
}

#[inline]
fn in_udp(at: &[u8]) -> Option<&[u8]> {
    UdpView::parse(at).ok().map(|datagram| datagram.payload())
}
