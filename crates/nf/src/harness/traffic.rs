//! Packets of many kinds from few addresses and ports, so that flows, answers and collisions happen. All of
//! it follows from a seed.

use super::Input;
use super::dialogue::Dialogue;
use crate::packet::{Direction, Metadata, Time};
use catena_model::profile::StateScope;
use catena_wire::ethernet::{EthernetHeader, VlanTag};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::ipv4::Ipv4Header;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{EtherType, FlowLabel, FragmentOffset, IpProtocol, MacAddr, VlanId};
use catena_wire::tcp::{self, TcpFlags, TcpHeader};
use catena_wire::udp::{self, UdpHeader};
use catena_wire::{checksum, icmp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use crate::random::Random;

/// What a packet is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The addresses, of one version.
    pub ends: (IpAddr, IpAddr),
    /// The upper protocol.
    pub protocol: IpProtocol,
    /// Ports of TCP and UDP, type and code of ICMP.
    pub ports: (u16, u16),
    /// Flags of TCP.
    pub flags: TcpFlags,
    /// Options of TCP, padded to words.
    pub options: Vec<u8>,
    /// Code point and ECN.
    pub traffic_class: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification of IPv4.
    pub identification: u16,
    /// What it carries.
    pub payload: Vec<u8>,
    /// Its VLAN.
    pub vlan: Option<VlanId>,
    /// Is it a later fragment of IPv4?
    pub is_later_fragment: bool,
    /// The addresses of its frame: to whom, from whom.
    pub macs: (MacAddr, MacAddr),
}

/// Ports, of which some are asked for by rules of many tests.
const PORTS: [u16; 8] = [22, 23, 53, 80, 443, 8_080, 40_000, 50_000];
/// Packets that later ones may belong to.
const FORMER_MAX: usize = 64;
/// Flags, of which some never stand together in a connection.
const FLAGS: [u8; 8] = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x29];

impl Shape {
    /// Draws one.
    pub fn draw(random: &mut Random) -> Self {
        let is_v6 = random.below(4) == 0;
        let host = |random: &mut Random| {
            let (net, host) = (random.below(4) as u8, 1 + random.below(12) as u8);
            if is_v6 {
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 0, host.into()))
            } else {
                IpAddr::V4(Ipv4Addr::new(10, 0, net, host))
            }
        };
        let ends = (host(random), host(random));
        let icmp = if is_v6 { IpProtocol::ICMPV6 } else { IpProtocol::ICMP };
        let protocols = [
            IpProtocol::TCP,
            IpProtocol::TCP,
            IpProtocol::UDP,
            IpProtocol::UDP,
            icmp,
            IpProtocol::GRE,
        ];
        let protocol = random.pick(&protocols).unwrap_or(IpProtocol::TCP);
        let kinds: &[u16] = if is_v6 { &[1, 3, 128, 129] } else { &[0, 3, 8, 11, 13] };
        let ports = if protocol == icmp {
            (random.pick(kinds).unwrap_or(8), random.below(3) as u16)
        } else {
            (random.pick(&PORTS).unwrap_or(80), random.pick(&PORTS).unwrap_or(80))
        };
        let options: [&[u8]; 4] =
            [&[], &[], &[2, 4, 5, 180], &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]];
        let payload_bytes = random.pick(&[0, 1, 20, 100, 600, 1_200]).unwrap_or(0);
        Self {
            ends,
            protocol,
            ports,
            flags: TcpFlags(random.pick(&FLAGS).unwrap_or(2)),
            options: random.pick(&options).unwrap_or_default().to_vec(),
            traffic_class: random.pick(&[0, 0xb8, 0x28, 0x02, 0xff]).unwrap_or(0),
            ttl: random.pick(&[1, 2, 63, 64, 128, 255]).unwrap_or(64),
            identification: random.number() as u16,
            payload: (0..payload_bytes).map(|_| random.number() as u8).collect(),
            vlan: VlanId::new(7).ok().filter(|_| random.below(5) == 0),
            is_later_fragment: !is_v6 && random.below(20) == 0,
            macs: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        }
    }

    /// Another packet of its flow, or one that answers it.
    fn follow(&self, random: &mut Random) -> Self {
        let mut next = Self { ends: self.ends, protocol: self.protocol, ..Self::draw(random) };
        let has_ports = matches!(self.protocol, IpProtocol::TCP | IpProtocol::UDP);
        next.ports = self.ports;
        next.vlan = self.vlan;
        next.is_later_fragment &= self.ends.0.is_ipv4();
        if random.below(2) == 0 {
            next.ends = (self.ends.1, self.ends.0);
            next.ports = if has_ports { (self.ports.1, self.ports.0) } else { self.ports };
        }
        next
    }

    /// Its frame, with right checksums; none: it does not fit one.
    #[must_use]
    pub fn frame(&self) -> Option<Vec<u8>> {
        let upper = self.upper()?;
        let (destination, source) = self.macs;
        let is_v6 = self.ends.0.is_ipv6();
        let ethertype = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let mut ethernet = EthernetHeader::untagged(destination, source, ethertype);
        ethernet.tags[0] = self.vlan.map(|id| VlanTag {
            tag_type: EtherType::VLAN,
            priority: 0,
            is_drop_eligible: false,
            id,
        });
        let mut head = [0; 64];
        let link = ethernet.emit(&mut head).ok()?;
        let net = self.network(upper.len(), head.get_mut(link..)?)?;
        Some([head.get(..link + net)?, &upper].concat())
    }

    fn network(&self, payload_bytes: usize, into: &mut [u8]) -> Option<usize> {
        let offset = FragmentOffset::new(if self.is_later_fragment { 100 } else { 0 }).ok()?;
        match self.ends {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Ipv4Header {
                    traffic_class: self.traffic_class,
                    payload_bytes,
                    identification: self.identification,
                    dont_fragment: !self.is_later_fragment,
                    more_fragments: false,
                    fragment_offset: offset,
                    ttl: self.ttl,
                    protocol: self.protocol,
                    source,
                    destination,
                };
                header.emit(into).ok()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: self.traffic_class,
                    flow_label: FlowLabel::new(self.identification.into()).ok()?,
                    payload_length: u16::try_from(payload_bytes).ok()?,
                    next_header: self.protocol,
                    hop_limit: self.ttl,
                    source,
                    destination,
                };
                header.emit(into).ok()
            }
            _ => None,
        }
    }

    fn upper(&self) -> Option<Vec<u8>> {
        let (source, destination) = self.ends;
        let (source_port, destination_port) = self.ports;
        match self.protocol {
            IpProtocol::TCP => {
                let header = TcpHeader {
                    source_port,
                    destination_port,
                    sequence: u32::from(self.identification) << 8,
                    acknowledgment: 7,
                    flags: self.flags,
                    window: 501,
                    urgent_pointer: 0,
                };
                let mut bytes = vec![0; tcp::HEADER_BYTES];
                header.emit(&mut bytes).ok()?;
                bytes.extend(&self.options);
                *bytes.get_mut(12)? = u8::try_from(bytes.len() / 4).ok()? << 4;
                bytes.extend(&self.payload);
                tcp::refresh_checksum(&mut bytes, source, destination).ok()?;
                Some(bytes)
            }
            IpProtocol::UDP => {
                let length = u16::try_from(udp::HEADER_BYTES + self.payload.len()).ok()?;
                let header = UdpHeader { source_port, destination_port, length, checksum: 0 };
                let mut bytes = vec![0; udp::HEADER_BYTES];
                header.emit(&mut bytes).ok()?;
                bytes.extend(&self.payload);
                udp::refresh_checksum(&mut bytes, source, destination).ok()?;
                Some(bytes)
            }
            IpProtocol::ICMP | IpProtocol::ICMPV6 => {
                let (kind, code) = (source_port as u8, destination_port as u8);
                let mut bytes = vec![kind, code, 0, 0, 0, self.ttl, 0, 1];
                bytes.extend(&self.payload);
                let pseudo = match self.protocol {
                    IpProtocol::ICMP => checksum::Sum::EMPTY,
                    other => {
                        let length = u32::try_from(bytes.len()).ok()?;
                        checksum::pseudo_header(source, destination, other, length)
                    }
                };
                let sum = pseudo.then_bytes(&bytes).checksum();
                let field = bytes.get_mut(icmp::CHECKSUM_OFFSET..icmp::CHECKSUM_OFFSET + 2)?;
                field.copy_from_slice(&sum.to_be_bytes());
                Some(bytes)
            }
            _ => Some(self.payload.clone()),
        }
    }
}

/// So many packets of nobody in particular, each with the way it goes.
#[must_use]
pub fn shapes(seed: u64, packets: usize) -> Vec<(Shape, Direction)> {
    let mut random = Random::new(seed);
    let mut former = Vec::new();
    let drawn = std::iter::repeat_with(|| stray(&mut former, &mut random));
    let is_frame = |(shape, _): &(Shape, Direction)| {
        shape.frame().is_some_and(|frame| FrameView::parse(&frame).is_ok())
    };
    drawn.filter(is_frame).take(packets).collect()
}

/// Pairs of hosts that talk at once, at most.
const DIALOGUES_MAX: usize = 12;
/// After one of so many packets, nobody says anything for some time.
const PAUSE: usize = 300;

/// So many packets, a few microseconds apart and now and then much more, in both directions: some of hosts
/// that talk to one another, some of nobody in particular.
#[must_use]
pub fn draw(seed: u64, packets: usize) -> Vec<Input> {
    let mut random = Random::new(seed);
    let mut inputs = Vec::with_capacity(packets);
    let mut at = 0;
    let mut former: Vec<Shape> = Vec::new();
    let mut dialogues: Vec<Dialogue> = Vec::new();
    while inputs.len() < packets {
        let drawn = if random.below(2) == 0 {
            said(&mut dialogues, &mut random)
        } else {
            let (shape, direction) = stray(&mut former, &mut random);
            shape.frame().map(|frame| (frame, direction))
        };
        let drawn = drawn.filter(|(frame, _)| FrameView::parse(frame).is_ok());
        let Some((frame, direction)) = drawn else { continue };
        at += random.below(5) as u64 * 1_000;
        if random.below(PAUSE) == 0 {
            at += Time::seconds(random.below(150) as u64).0;
        }
        inputs.push(Input { at: Time(at), direction, frame, metadata: Metadata::default() });
    }
    inputs
}

/// What one of those who talk says.
fn said(dialogues: &mut Vec<Dialogue>, random: &mut Random) -> Option<(Vec<u8>, Direction)> {
    let place = random.below(DIALOGUES_MAX);
    if let Some(dialogue) = dialogues.get_mut(place) {
        let next = dialogue.next(random);
        if next.is_none() {
            *dialogue = Dialogue::begin(random);
        }
        return next;
    }
    dialogues.push(Dialogue::begin(random));
    None
}

/// A packet of nobody in particular, or of the flow of a former one.
fn stray(former: &mut Vec<Shape>, random: &mut Random) -> (Shape, Direction) {
    let shape = match former.get(random.below(2 * FORMER_MAX)) {
        Some(shape) => shape.follow(random),
        None => Shape::draw(random),
    };
    match former.get_mut(random.below(FORMER_MAX)) {
        Some(place) => *place = shape.clone(),
        None => former.push(shape.clone()),
    }
    let is_back = random.below(3) == 0;
    (shape, if is_back { Direction::Backward } else { Direction::Forward })
}

/// What packets have in common that may meet in a function's state of this scope. An error is of the flow
/// that it is about.
#[must_use]
pub fn group(input: &Input, scope: StateScope) -> Vec<u8> {
    let view = FrameView::parse(&input.frame).ok();
    let about = view.as_ref().and_then(|view| quoted(&input.frame, view));
    let Some(flow) = about.or(view.and_then(|view| view.flow)) else { return Vec::new() };
    // The identifier of an echo has no side.
    let is_icmp = matches!(flow.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
    let other_port = if is_icmp { flow.source_port } else { flow.destination_port };
    let mut ends = [(flow.source, flow.source_port), (flow.destination, other_port)];
    ends.sort_unstable();
    match scope {
        StateScope::Packet | StateScope::Flow => {
            format!("{ends:?} {}", flow.protocol.0).into_bytes()
        }
        // Hosts meet through others: all are one group.
        StateScope::Host | StateScope::All => Vec::new(),
    }
}

/// The flow that an ICMP error is about.
fn quoted(frame: &[u8], view: &FrameView) -> Option<FlowKey> {
    let start = usize::from(view.l4_offset.filter(|_| view.is_icmp_error())?);
    let packet = frame.get(start + icmp::IcmpView::HEADER_LEN..view.end as usize)?;
    FrameView::parse_quoted(packet, view.ethertype).ok()?.flow
}
