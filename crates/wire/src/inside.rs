//! What the tunnels of a frame hold, found by one parser that enters itself: whatever a tunnel
//! header is followed by is read as anything else is, so tunnels in tunnels need no code. What is
//! plain throughout is read by [`plain`] in its place, to the same end.
//!
//! Knows which headers say that a tunnel follows, and gathers the identifiers of the outermost
//! header of each kind and the flow of the innermost packet. Refuses to know what a tenant or user
//! is, and to look behind what it was to find: once network and user are known, what the user's
//! packet carries is the user's own affair.
//!
//! A tunnel is entered only where the outer headers say so by their destination port, protocol or
//! EtherType. Then all headers on the way must be whole. What ends the way without an error is what
//! nothing says how to read: a type that is no packet, a later segment of STT or another fragment
//! inside a tunnel, the payload of a GTP-U that is no IP packet (an Ethernet or unstructured PDU session).

mod plain;

use core::fmt;

use crate::flow::{FlowKey, mix};
use crate::frame::{Fragment, FrameError, FrameView, Network};
use crate::geneve::{GeneveError, GeneveHeader};
use crate::gre::{GreError, GreHeader};
use crate::gtp_u::{GtpUError, GtpUMessage, GtpUView};
use crate::nsh::{NshError, NshNextProtocol, NshView};
use crate::plain::PlainFrame;
use crate::ports;
use crate::scalar::{EtherType, IpProtocol, Qfi, Teid, TunnelId};
use crate::stt::{SttError, SttHeader, SttSegment};
use crate::tcp::{TcpError, TcpView};
use crate::udp::{self, UdpView};
use crate::vxlan::{VxlanError, VxlanHeader};
use crate::vxlan_gpe::{GpeNextProtocol, VxlanGpeError, VxlanGpeHeader};

/// What was found behind the outer headers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Tunnel headers that were passed.
    pub layers: u8,
    /// The network of the outermost header that names one: VXLAN, VXLAN-GPE, GENEVE, GRE with a key
    /// or STT.
    pub tunnel_id: Option<TunnelId>,
    /// The user's tunnel, of the outermost GTP-U header that names one.
    pub teid: Option<Teid>,
    /// The QoS flow, of the same header.
    pub qfi: Option<Qfi>,
    /// The flow of the innermost packet that was reached; none: no IP packet was.
    pub flow: Option<FlowKey>,
    /// What was reached is a part of something whose tunnel headers, if it has any, are not seen
    /// whole: a fragment of a packet, a later segment of STT.
    pub is_fragment: bool,
}

/// A header that says that something else follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelHeader {
    /// VXLAN in UDP.
    Vxlan,
    /// VXLAN-GPE in UDP.
    VxlanGpe,
    /// GENEVE in UDP.
    Geneve,
    /// GTP-U in UDP.
    GtpU,
    /// GRE in IP.
    Gre,
    /// STT in place of TCP.
    Stt,
    /// NSH.
    Nsh,
}

impl TunnelHeader {
    /// The header that the frame's own headers announce.
    #[must_use]
    #[inline]
    pub fn of(frame: &FrameView) -> Option<Self> {
        let Some(flow) = frame.flow else {
            return (frame.ethertype == EtherType::NSH).then_some(Self::Nsh);
        };
        match frame.fragment {
            Fragment::Later => None,
            _ => Self::announced(flow.protocol, flow.destination_port),
        }
    }

    /// The header that these announce.
    #[inline]
    pub(crate) const fn announced(protocol: IpProtocol, destination_port: u16) -> Option<Self> {
        match (protocol, destination_port) {
            (IpProtocol::UDP, ports::VXLAN) => Some(Self::Vxlan),
            (IpProtocol::UDP, ports::GTP_U) => Some(Self::GtpU),
            (IpProtocol::UDP, ports::VXLAN_GPE) => Some(Self::VxlanGpe),
            (IpProtocol::UDP, ports::GENEVE) => Some(Self::Geneve),
            (IpProtocol::TCP, ports::STT) => Some(Self::Stt),
            (IpProtocol::GRE, _) => Some(Self::Gre),
            _ => None,
        }
    }
}

/// What is wrong with a header inside a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsideFault {
    /// Another tunnel header follows on as many as may be passed.
    TooDeep,
    /// VXLAN.
    Vxlan(VxlanError),
    /// VXLAN-GPE.
    VxlanGpe(VxlanGpeError),
    /// GENEVE.
    Geneve(GeneveError),
    /// GTP-U.
    GtpU(GtpUError),
    /// GRE.
    Gre(GreError),
    /// STT.
    Stt(SttError),
    /// The TCP-like header in front of STT.
    SttTcp(TcpError),
    /// NSH.
    Nsh(NshError),
    /// The frame or packet in a tunnel.
    Frame(FrameError),
}

/// Why the tunnels of a frame cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsideError {
    /// Tunnel headers passed before.
    pub layer: u8,
    /// What is wrong.
    pub fault: InsideFault,
}

impl fmt::Display for InsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "behind {} tunnel headers: ", self.layer)?;
        match self.fault {
            InsideFault::TooDeep => f.write_str("one tunnel too many"),
            InsideFault::Vxlan(error) => error.fmt(f),
            InsideFault::VxlanGpe(error) => error.fmt(f),
            InsideFault::Geneve(error) => error.fmt(f),
            InsideFault::GtpU(error) => error.fmt(f),
            InsideFault::Gre(error) => error.fmt(f),
            InsideFault::Stt(error) => error.fmt(f),
            InsideFault::SttTcp(error) => error.fmt(f),
            InsideFault::Nsh(error) => error.fmt(f),
            InsideFault::Frame(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for InsideError {}

/// What a tunnel header is followed by.
#[derive(Clone, Copy)]
enum Carried<'p> {
    /// What its type says, a frame or a packet.
    Typed(EtherType, &'p [u8]),
    /// An IP packet, if it looks like one.
    PerhapsPacket(&'p [u8]),
    /// Another tunnel header.
    Header(TunnelHeader, &'p [u8]),
    /// Nothing that anybody says how to read.
    Opaque,
}

impl Inside {
    /// Looks into the tunnels of a frame that `frame` is the view of; none: it is in no tunnel.
    /// Passes at most `layers_max` headers. Of the first fragment of a packet: as far as it goes.
    ///
    /// # Errors
    /// When a header on the way is cut short, contradicts the bytes or is one too many.
    #[inline]
    pub fn parse(
        bytes: &[u8],
        frame: &FrameView,
        layers_max: u8,
    ) -> Result<Option<Self>, InsideError> {
        let Some((header, upper)) = begin(bytes, frame) else { return Ok(None) };
        let is_cut = frame.fragment == Fragment::First;
        // As nearly all packets in tunnels are, and in a third of the time.
        if !is_cut && let Some(inside) = plain::read(header, upper, layers_max) {
            return Ok(Some(inside));
        }
        Walk { inside: Self::NOTHING, layers_max, is_cut }.follow(header, upper).map(Some)
    }

    /// The same for a frame that is plain, where all that its tunnels hold is plain too; none: it is
    /// in no tunnel, or somebody has to walk.
    #[inline]
    #[must_use]
    pub fn parse_plain(bytes: &[u8], frame: &PlainFrame, layers_max: u8) -> Option<Self> {
        plain::read(frame.tunnel()?, frame.upper(bytes)?, layers_max)
    }

    const NOTHING: Self =
        Self { layers: 0, tunnel_id: None, teid: None, qfi: None, flow: None, is_fragment: false };

    /// Are network and user known?
    #[inline]
    const fn is_complete(&self) -> bool {
        self.tunnel_id.is_some() && self.teid.is_some()
    }

    #[inline]
    fn learn_network(&mut self, id: TunnelId) {
        self.tunnel_id = self.tunnel_id.or(Some(id));
    }

    #[inline]
    fn learn_user(&mut self, message: &GtpUView<'_>) {
        if message.message().names_tunnel() && self.teid.is_none() {
            self.teid = Some(message.teid());
            self.qfi = message.pdu_session().map(|session| session.qfi);
        }
    }

    /// A hash of all that tells users of one outer flow apart: network, user, QoS flow and inner
    /// flow. Never zero. The seed is as in [`FlowKey::seeded_hash`].
    #[must_use]
    pub fn identity_hash(&self, seed: u64) -> u64 {
        // A bit below each number tells zero from none.
        let present = |value: Option<u32>| value.map_or(0, |value| u64::from(value) << 1 | 1);
        let (kind, network) = self.tunnel_id.map_or((0, 0), TunnelId::parts);
        let teid = present(self.teid.map(|teid| teid.0));
        let qfi = present(self.qfi.map(|qfi| u32::from(qfi.get())));
        let flow = self.flow.map_or(0, |flow| flow.seeded_hash(seed));
        let names = u64::from(kind) << 42 | teid << 8 | qfi;
        mix(mix(seed ^ network) ^ names ^ flow).max(1)
    }
}

/// The header that the frame's own headers announce, and the bytes from it on.
#[inline]
fn begin<'p>(bytes: &'p [u8], frame: &FrameView) -> Option<(TunnelHeader, &'p [u8])> {
    let header = TunnelHeader::of(frame)?;
    let start = usize::from(frame.l4_offset.unwrap_or(frame.l3_offset));
    let packet = bytes.get(..frame.end as usize).unwrap_or(bytes);
    Some((header, packet.get(start..).unwrap_or_default()))
}

/// Could a fragment be a part of a tunnel packet? A later one shows no ports, and of IPv6 only the
/// first shows the protocol.
fn may_be_of_tunnel(view: &FrameView) -> bool {
    let protocol = view.protocol.unwrap_or(IpProtocol(0));
    match view.fragment {
        Fragment::Later => {
            view.network == Network::Ipv6
                || matches!(protocol, IpProtocol::UDP | IpProtocol::TCP | IpProtocol::GRE)
        }
        Fragment::Whole | Fragment::First => TunnelHeader::of(view).is_some(),
    }
}

struct Walk {
    inside: Inside,
    layers_max: u8,
    /// The bytes may end before what the lengths promise.
    is_cut: bool,
}

impl Walk {
    fn follow(mut self, first: TunnelHeader, bytes: &[u8]) -> Result<Inside, InsideError> {
        let mut next = Some((first, bytes));
        while let Some((header, bytes)) = next {
            let layer = self.inside.layers;
            let at = |fault| InsideError { layer, fault };
            if layer >= self.layers_max {
                return Err(at(InsideFault::TooDeep));
            }
            let carried = self.pass(header, bytes).map_err(at)?;
            self.inside.layers = layer.saturating_add(1);
            next = self.enter(carried).map_err(at)?;
            if self.inside.is_complete() {
                break;
            }
        }
        Ok(self.inside)
    }

    /// Reads one tunnel header.
    #[inline]
    fn pass<'p>(&mut self, header: TunnelHeader, at: &'p [u8]) -> Result<Carried<'p>, InsideFault> {
        let in_udp = || self.in_udp(at);
        match header {
            TunnelHeader::Vxlan => {
                let (vxlan, frame) = VxlanHeader::parse(in_udp()).map_err(InsideFault::Vxlan)?;
                self.inside.learn_network(TunnelId::Vni(vxlan.vni));
                Ok(Carried::Typed(EtherType::TRANSPARENT_ETHERNET, frame))
            }
            TunnelHeader::VxlanGpe => {
                let (gpe, rest) = VxlanGpeHeader::parse(in_udp()).map_err(InsideFault::VxlanGpe)?;
                self.inside.learn_network(TunnelId::Vni(gpe.vni));
                Ok(match gpe.next {
                    GpeNextProtocol::ETHERNET => {
                        Carried::Typed(EtherType::TRANSPARENT_ETHERNET, rest)
                    }
                    GpeNextProtocol::IPV4 => Carried::Typed(EtherType::IPV4, rest),
                    GpeNextProtocol::IPV6 => Carried::Typed(EtherType::IPV6, rest),
                    GpeNextProtocol::NSH => Carried::Header(TunnelHeader::Nsh, rest),
                    _ => Carried::Opaque,
                })
            }
            TunnelHeader::Geneve => {
                let (geneve, rest) = GeneveHeader::parse(in_udp()).map_err(InsideFault::Geneve)?;
                self.inside.learn_network(TunnelId::Vni(geneve.vni));
                Ok(Carried::Typed(geneve.protocol, rest))
            }
            TunnelHeader::GtpU => self.pass_gtp_u(self.in_udp(at)),
            TunnelHeader::Gre => {
                let (gre, rest) = GreHeader::parse(at).map_err(InsideFault::Gre)?;
                if let Some(key) = gre.key {
                    self.inside.learn_network(TunnelId::GreKey(key));
                }
                Ok(Carried::Typed(gre.protocol, rest))
            }
            TunnelHeader::Stt => self.pass_stt(at),
            TunnelHeader::Nsh => {
                let (nsh, rest) = NshView::parse(at).map_err(InsideFault::Nsh)?;
                Ok(match nsh.next() {
                    NshNextProtocol::ETHERNET => {
                        Carried::Typed(EtherType::TRANSPARENT_ETHERNET, rest)
                    }
                    NshNextProtocol::IPV4 => Carried::Typed(EtherType::IPV4, rest),
                    NshNextProtocol::IPV6 => Carried::Typed(EtherType::IPV6, rest),
                    NshNextProtocol::NSH => Carried::Header(TunnelHeader::Nsh, rest),
                    _ => Carried::Opaque,
                })
            }
        }
    }

    /// The payload of a datagram whose header was read with its packet.
    #[inline]
    fn in_udp<'p>(&self, at: &'p [u8]) -> &'p [u8] {
        match UdpView::parse(at) {
            Ok(datagram) => datagram.payload(),
            Err(_) if self.is_cut => at.get(udp::HEADER_BYTES..).unwrap_or_default(),
            Err(_) => &[],
        }
    }

    #[inline]
    fn pass_gtp_u<'p>(&mut self, at: &'p [u8]) -> Result<Carried<'p>, InsideFault> {
        let view = if self.is_cut { GtpUView::parse_cut(at) } else { GtpUView::parse(at) };
        let view = view.map_err(InsideFault::GtpU)?;
        self.inside.learn_user(&view);
        Ok(match view.message() {
            GtpUMessage::G_PDU => Carried::PerhapsPacket(view.payload()),
            _ => Carried::Opaque,
        })
    }

    fn pass_stt<'p>(&mut self, at: &'p [u8]) -> Result<Carried<'p>, InsideFault> {
        let tcp = TcpView::parse(at).map_err(InsideFault::SttTcp)?;
        let (segment, data) = (SttSegment::of(&tcp), tcp.payload());
        if segment.offset != 0 {
            self.inside.is_fragment = true;
            return Ok(Carried::Opaque);
        }
        let (stt, frame) = SttHeader::parse(data).map_err(InsideFault::Stt)?;
        self.inside.learn_network(TunnelId::SttContext(stt.context));
        let whole = usize::from(segment.frame_bytes);
        if whole < data.len() {
            let (field, have) = (segment.frame_bytes, data.len());
            return Err(InsideFault::Stt(SttError::FrameLength { field, have }));
        }
        // Further segments hold the rest.
        self.is_cut |= whole > data.len();
        Ok(Carried::Typed(EtherType::TRANSPARENT_ETHERNET, frame))
    }

    /// Reads what a tunnel carries, up to the next tunnel header.
    #[inline]
    fn enter<'p>(
        &mut self,
        carried: Carried<'p>,
    ) -> Result<Option<(TunnelHeader, &'p [u8])>, InsideFault> {
        let (view, bytes) = match carried {
            Carried::Header(header, bytes) => return Ok(Some((header, bytes))),
            Carried::Typed(EtherType::TRANSPARENT_ETHERNET, frame) => {
                (FrameView::read(frame, self.is_cut), frame)
            }
            Carried::Typed(EtherType::NSH, bytes) => return Ok(Some((TunnelHeader::Nsh, bytes))),
            Carried::Typed(ethertype @ (EtherType::IPV4 | EtherType::IPV6), packet) => {
                (FrameView::read_packet(packet, ethertype, self.is_cut), packet)
            }
            Carried::Opaque | Carried::Typed(..) => return Ok(None),
            Carried::PerhapsPacket(packet) => {
                let ethertype = match packet.first().map(|first| first >> 4) {
                    Some(4) => EtherType::IPV4,
                    Some(6) => EtherType::IPV6,
                    _ => return Ok(None),
                };
                match FrameView::read_packet(packet, ethertype, self.is_cut) {
                    Ok(view) => (Ok(view), packet),
                    // A frame of an Ethernet session may begin like an IP packet.
                    Err(_) => return Ok(None),
                }
            }
        };
        let view = view.map_err(InsideFault::Frame)?;
        self.inside.flow = view.flow.or(self.inside.flow);
        // Other fragments of it would not be followed either.
        if view.fragment != Fragment::Whole {
            self.inside.is_fragment = may_be_of_tunnel(&view);
            return Ok(None);
        }
        let start = view.l4_offset.unwrap_or(view.l3_offset);
        let upper = bytes.get(usize::from(start)..view.end as usize).unwrap_or_default();
        Ok(TunnelHeader::of(&view).map(|header| (header, upper)))
    }
}

#[cfg(test)]
mod tests;
