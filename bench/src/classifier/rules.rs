//! Rules and packets like those of ClassBench (Taylor, Turner: ClassBench: a packet classification
//! benchmark, 2005): addresses in nested blocks of skewed popularity, prefix lengths and ports as in
//! access lists, the most specific rule first. All follows from a seed.

use crate::engine::wrong;
use crate::error::BenchError;
use catena_model::PathId;
use catena_model::classifier::FieldMatch;
use catena_model::id::{PortId, RuleId};
use catena_model::program::{RuleEntry, RuleMatch, RulePlace};
use catena_model::resource::{IpFamily, Transport};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::frame::FrameView;
use catena_wire::ipv4::{self, Ipv4Header};
use catena_wire::scalar::{EtherType, FragmentOffset, IpProtocol, MacAddr, PortRange};
use catena_wire::udp::{self, UdpHeader};
use ipnet::{IpNet, Ipv4Net};
use std::net::{IpAddr, Ipv4Addr};
use uuid::Uuid;

/// Blocks of 2^24 addresses that everything lies in.
const BLOCKS: u32 = 16;
/// Destination ports that rules name one by one.
const SERVICES: u32 = 64;
/// Of so many packets, one is made at random and not to meet a rule.
const STRAY: u32 = 16;

/// Numbers without pattern (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(bound) * (self.next() >> 32)) >> 32) as u32
    }

    /// Small numbers more often than large ones: the product of two.
    fn skewed(&mut self, bound: u32) -> u32 {
        let (one, other) = (u64::from(self.below(bound)), u64::from(self.below(bound)));
        ((one * other) / u64::from(bound)) as u32
    }

    fn address(&mut self) -> u32 {
        let block = 10 + self.skewed(BLOCKS);
        let (site, subnet) = (self.skewed(256), self.skewed(256));
        block << 24 | site << 16 | subnet << 8 | self.below(256)
    }

    /// A number of the list by its share in hundredths.
    fn by_share<T: Copy>(&mut self, shares: &[(u32, T)]) -> T {
        let mut at = self.below(100);
        for (share, value) in shares {
            if at < *share {
                return *value;
            }
            at -= share;
        }
        shares[0].1
    }

    fn prefix(&mut self, lengths: &[(u32, (u32, u32))]) -> Option<IpNet> {
        let (least, most) = self.by_share(lengths);
        let bits = (least + self.below(most - least + 1)) as u8;
        let address = Ipv4Addr::from_bits(self.address());
        let net = Ipv4Net::new(address, bits).ok().filter(|_| bits > 0)?;
        Some(IpNet::V4(net.trunc()))
    }
}

/// Shares of prefix lengths, in hundredths.
const SOURCES: [(u32, (u32, u32)); 5] =
    [(30, (32, 32)), (25, (24, 31)), (25, (0, 0)), (15, (16, 23)), (5, (8, 15))];
const DESTINATIONS: [(u32, (u32, u32)); 4] =
    [(45, (32, 32)), (35, (24, 31)), (15, (16, 23)), (5, (8, 15))];

/// One rule of an access list.
pub(crate) fn rule(random: &mut Random, port: PortId) -> RuleMatch {
    let transport =
        random.by_share(&[(60, Some(Transport::Tcp)), (30, Some(Transport::Udp)), (10, None)]);
    let high = PortRange::new(1_024, u16::MAX).ok();
    let one = |port: u32| PortRange::new(port as u16, port as u16).ok();
    let service = 20 + random.skewed(SERVICES) * 13;
    let first = 1_000 + random.below(60_000);
    let range = PortRange::new(first as u16, (first + random.below(4_000)) as u16).ok();
    let destination_ports =
        random.by_share(&[(50, one(service)), (30, None), (8, high), (12, range)]);
    let source_ports = random.by_share(&[(90, None), (7, high), (3, one(first))]);
    RuleMatch {
        place: RulePlace::Port(port),
        vlan: None,
        family: IpFamily::Ipv4,
        transport,
        source: random.prefix(&SOURCES),
        destination: random.prefix(&DESTINATIONS),
        source_ports: source_ports.filter(|_| transport.is_some()),
        destination_ports: destination_ports.filter(|_| transport.is_some()),
        fields: FieldMatch::default(),
    }
}

/// How much a rule asks for.
fn weight(rule: &RuleMatch) -> u32 {
    let bits = |net: Option<IpNet>| net.map_or(0, |net| u32::from(net.prefix_len()));
    let ports = |range: Option<PortRange>| {
        range.map_or(0, |range| 17 - (u32::from(range.max() - range.min()) + 1).ilog2())
    };
    bits(rule.source) + bits(rule.destination) + ports(rule.destination_ports)
}

/// So many rules, the most specific first.
pub(crate) fn rules(count: usize, port: PortId, path: PathId) -> Vec<RuleEntry> {
    let mut random = Random::new(0x0c1a_55be);
    let mut all: Vec<RuleMatch> = (0..count).map(|_| rule(&mut random, port)).collect();
    all.sort_by_key(|rule| std::cmp::Reverse(weight(rule)));
    let entry = |(number, matches)| entry(number, matches, path, count as u32);
    (0..).zip(all).map(entry).collect()
}

/// A rule at a place of the list.
pub(crate) fn entry(number: u32, matches: RuleMatch, path: PathId, count: u32) -> RuleEntry {
    RuleEntry {
        id: RuleId(Uuid::from_u128(0x7000_0000 + u128::from(number))),
        name: format!("rule{number}"),
        priority: count - number,
        matches,
        path,
    }
}

fn within(net: Option<IpNet>, random: &mut Random) -> u32 {
    let address = random.address();
    match net {
        Some(IpNet::V4(net)) => {
            let (base, mask) = (net.network().to_bits(), net.netmask().to_bits());
            base | (address.wrapping_mul(0x9e37_79b9) & !mask)
        }
        _ => address,
    }
}

/// A packet that meets the rule, as far as no other takes it.
pub(crate) fn packet(rule: &RuleMatch, random: &mut Random) -> Result<Vec<u8>, BenchError> {
    let stray = random.below(STRAY) == 0;
    let (source, destination) = match stray {
        true => (random.address(), random.address()),
        false => (within(rule.source, random), within(rule.destination, random)),
    };
    let port = |range: Option<PortRange>, random: &mut Random| match range {
        Some(range) => {
            let width = u32::from(range.max() - range.min()) + 1;
            range.min() + random.below(width) as u16
        }
        None => 1 + random.below(65_535) as u16,
    };
    let ports = (port(rule.source_ports, random), port(rule.destination_ports, random));
    let is_udp = rule.transport == Some(Transport::Udp);
    frame((source, destination), ports, is_udp)
}

/// A frame of UDP, or one that reads as TCP.
fn frame(
    (source, destination): (u32, u32),
    (source_port, destination_port): (u16, u16),
    is_udp: bool,
) -> Result<Vec<u8>, BenchError> {
    let sound = |error: &dyn std::fmt::Display| wrong("a packet", &error.to_string());
    let upper_bytes = 20;
    let [source, destination] = [source, destination].map(Ipv4Addr::from_bits);
    let ethernet = EthernetHeader::untagged(MacAddr([2; 6]), MacAddr([4; 6]), EtherType::IPV4);
    let ip = Ipv4Header {
        traffic_class: 0,
        payload_bytes: upper_bytes,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::new(0).map_err(|error| sound(&error))?,
        ttl: 64,
        protocol: if is_udp { IpProtocol::UDP } else { IpProtocol::TCP },
        source,
        destination,
    };
    let length = upper_bytes as u16;
    let udp = UdpHeader { source_port, destination_port, length, checksum: 0 };
    let mut bytes = vec![0; 14 + ipv4::HEADER_BYTES + upper_bytes];
    ethernet.emit(&mut bytes).map_err(|error| sound(&error))?;
    ip.emit(&mut bytes[14..]).map_err(|error| sound(&error))?;
    udp.emit(&mut bytes[34..]).map_err(|error| sound(&error))?;
    if !is_udp {
        // TCP has its ports where UDP has, and its data offset behind.
        bytes[34 + 4..34 + udp::HEADER_BYTES].fill(0);
        bytes[34 + 12] = 0x50;
    }
    Ok(bytes)
}

/// Does a packet meet a rule? The reference, written down once more.
pub(crate) fn meets(rule: &RuleMatch, view: &FrameView) -> bool {
    let Some(flow) = view.flow else { return false };
    let inside = |net: Option<IpNet>, address: IpAddr| net.is_none_or(|net| net.contains(&address));
    let port = |range: Option<PortRange>, port| range.is_none_or(|range| range.contains(port));
    let transport = match rule.transport {
        None => true,
        Some(Transport::Tcp) => flow.protocol == IpProtocol::TCP,
        Some(Transport::Udp) => flow.protocol == IpProtocol::UDP,
        Some(Transport::Icmp) => flow.protocol == IpProtocol::ICMP,
    };
    transport
        && inside(rule.source, flow.source)
        && inside(rule.destination, flow.destination)
        && port(rule.source_ports, flow.source_port)
        && port(rule.destination_ports, flow.destination_port)
}
