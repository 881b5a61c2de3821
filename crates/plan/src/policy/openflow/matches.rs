//! What one flow asks of a packet. Knows fields and their words in `ovs-ofctl`; refuses to know rules.

use super::SwitchSides;
use super::values::{Ternary, greatest};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A field that flows ask for, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchField {
    /// The side where the packet came in: 0 in, 1 out.
    Side,
    EthernetSource,
    EthernetDestination,
    Protocol,
    /// Is it a later fragment: 1, else 0.
    LaterFragment,
    Source,
    Destination,
    Dscp,
    Ecn,
    Ttl,
    FlowLabel,
    SourcePort,
    DestinationPort,
    TcpFlags,
    IcmpType,
    IcmpCode,
    /// Of what is no IP.
    EtherType,
}

impl MatchField {
    pub(super) const fn bits(self, is_v6: bool) -> u32 {
        match self {
            Self::Side | Self::LaterFragment => 1,
            Self::EthernetSource | Self::EthernetDestination => 48,
            Self::Source | Self::Destination if is_v6 => 128,
            Self::Source | Self::Destination => 32,
            Self::Dscp => 6,
            Self::Ecn => 2,
            Self::FlowLabel => 20,
            Self::SourcePort | Self::DestinationPort | Self::EtherType => 16,
            Self::Protocol | Self::Ttl | Self::TcpFlags | Self::IcmpType | Self::IcmpCode => 8,
        }
    }

    /// May flows ask for some of its bits?
    pub(super) const fn is_maskable(self) -> bool {
        matches!(
            self,
            Self::EthernetSource
                | Self::EthernetDestination
                | Self::Source
                | Self::Destination
                | Self::FlowLabel
                | Self::SourcePort
                | Self::DestinationPort
                | Self::TcpFlags
        )
    }
}

pub(super) const ICMP: u128 = 1;
pub(super) const TCP: u128 = 6;
pub(super) const UDP: u128 = 17;
pub(super) const ICMPV6: u128 = 58;

/// What a flow asks: of each field that is here, these bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowMatch(BTreeMap<MatchField, Ternary>);

impl FlowMatch {
    /// One value of a field.
    pub(super) fn equals(field: MatchField, value: u128) -> Self {
        let mask = greatest(field.bits(true));
        Self(BTreeMap::from([(field, Ternary { value, mask })]))
    }

    /// Some bits of a field.
    pub(super) fn of(field: MatchField, ternary: Ternary) -> Self {
        if ternary == Ternary::ANY {
            return Self::default();
        }
        Self(BTreeMap::from([(field, ternary)]))
    }

    /// What meets both; none: nothing does.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        let mut both = self.clone();
        for (field, ternary) in &other.0 {
            let own = both.0.entry(*field).or_insert(Ternary::ANY);
            *own = own.and(*ternary)?;
        }
        Some(both)
    }

    /// Without a field; none: it is not asked for.
    pub(super) fn without(&self, field: MatchField) -> Option<Self> {
        let mut others = self.clone();
        others.0.remove(&field).map(|_| others)
    }

    /// The same in matches that can be written for IPv6.
    pub(super) fn writable(&self) -> Vec<Self> {
        for field in [MatchField::Source, MatchField::Destination] {
            let Some(ternary) = self.0.get(&field).copied() else { continue };
            let unwritable = unwritable_bits(ternary.mask);
            if unwritable == 0 {
                continue;
            }
            let bit = 1 << unwritable.ilog2();
            let halves = [0, bit].into_iter().map(|value| {
                let mut half = self.clone();
                let (value, mask) = (ternary.value | value, ternary.mask | bit);
                half.0.insert(field, Ternary { value, mask });
                half
            });
            return halves.flat_map(|half| half.writable()).collect();
        }
        vec![self.clone()]
    }

    /// The words of `ovs-ofctl`, for a version of IP; none: whatever the packet is.
    pub(super) fn words(&self, is_v6: Option<bool>, sides: Option<&SwitchSides>) -> Vec<String> {
        let protocol = self.0.get(&MatchField::Protocol).map(|protocol| protocol.value);
        let (name, is_named) = match (is_v6, protocol) {
            (None, _) => ("", false),
            (Some(false), Some(ICMP)) => ("icmp", true),
            (Some(false), Some(TCP)) => ("tcp", true),
            (Some(false), Some(UDP)) => ("udp", true),
            (Some(true), Some(TCP)) => ("tcp6", true),
            (Some(true), Some(UDP)) => ("udp6", true),
            (Some(true), Some(ICMPV6)) => ("icmp6", true),
            (Some(false), _) => ("ip", false),
            (Some(true), _) => ("ipv6", false),
        };
        let mut words: Vec<String> = Vec::new();
        if !name.is_empty() {
            words.push(name.to_owned());
        }
        let is_v6 = is_v6.unwrap_or_default();
        for (field, ternary) in &self.0 {
            if *field != MatchField::Protocol || !is_named {
                words.push(word(*field, *ternary, is_v6, sides));
            }
        }
        words
    }

    /// Does a packet meet it, whose values are these?
    #[cfg(test)]
    pub(super) fn takes(&self, value: impl Fn(MatchField) -> Option<u128>) -> bool {
        let is_met = |(field, ternary): (&MatchField, &Ternary)| {
            value(*field).is_some_and(|value| value & ternary.mask == ternary.value)
        };
        self.0.iter().all(is_met)
    }
}

/// One condition in words.
fn word(field: MatchField, ternary: Ternary, is_v6: bool, sides: Option<&SwitchSides>) -> String {
    let Ternary { value, mask } = ternary;
    let is_whole = mask == greatest(field.bits(is_v6));
    let number = |name: &str| match is_whole {
        true => format!("{name}={value}"),
        false => format!("{name}={value:#x}/{mask:#x}"),
    };
    let written = |name: &str, form: &dyn Fn(u128) -> String| match is_whole {
        true => format!("{name}={}", form(value)),
        false => format!("{name}={}/{}", form(value), form(mask)),
    };
    match field {
        MatchField::Side => match sides {
            Some(sides) => format!("in_port={}", sides.words(value == 1)),
            // Refused before; numbers that a switch gives nobody would take no packet.
            None => "in_port=none".to_owned(),
        },
        MatchField::EthernetSource => written("dl_src", &hardware_address),
        MatchField::EthernetDestination => written("dl_dst", &hardware_address),
        MatchField::Protocol => number("nw_proto"),
        MatchField::LaterFragment if value == 1 => "ip_frag=later".to_owned(),
        MatchField::LaterFragment => "ip_frag=not_later".to_owned(),
        MatchField::Source if is_v6 => format!("ipv6_src={}", addresses_v6(ternary)),
        MatchField::Destination if is_v6 => format!("ipv6_dst={}", addresses_v6(ternary)),
        MatchField::Source => written("nw_src", &address_v4),
        MatchField::Destination => written("nw_dst", &address_v4),
        MatchField::Dscp => number("ip_dscp"),
        MatchField::Ecn => number("ip_ecn"),
        MatchField::Ttl => number("nw_ttl"),
        MatchField::FlowLabel => number("ipv6_label"),
        MatchField::SourcePort => number("tp_src"),
        MatchField::DestinationPort => number("tp_dst"),
        // A switch has more flags than rules know: those above are not asked for.
        MatchField::TcpFlags => format!("tcp_flags={value:#x}/{mask:#x}"),
        MatchField::IcmpType => number(if is_v6 { "icmpv6_type" } else { "icmp_type" }),
        MatchField::IcmpCode => number(if is_v6 { "icmpv6_code" } else { "icmp_code" }),
        MatchField::EtherType => format!("dl_type={value:#06x}"),
    }
}

fn hardware_address(value: u128) -> String {
    let octets = (0..6).rev().map(|octet| format!("{:02x}", value >> (8 * octet) & 0xff));
    octets.collect::<Vec<_>>().join(":")
}

fn address_v4(value: u128) -> String {
    Ipv4Addr::from(u32::try_from(value).unwrap_or(u32::MAX)).to_string()
}

/// Addresses of IPv6 under a mask that can be written.
fn addresses_v6(Ternary { value, mask }: Ternary) -> String {
    let address = Ipv6Addr::from(value);
    match mask.leading_ones() {
        u128::BITS => address.to_string(),
        length if is_prefix(mask) => format!("{address}/{length}"),
        _ => {
            let groups = Ipv6Addr::from(mask).segments();
            let zeros = groups.iter().take_while(|group| **group == 0).count();
            let rest: Vec<String> =
                groups.iter().skip(zeros).map(|group| format!("{group:x}")).collect();
            let front = if zeros > 0 { "::" } else { "" };
            format!("{address}/{front}{}", rest.join(":"))
        }
    }
}

const fn is_prefix(mask: u128) -> bool {
    mask.leading_ones() + mask.trailing_zeros() >= u128::BITS
}

/// Bits by which a mask of addresses of IPv6 has to be split: `ovs-ofctl` takes one that begins with a decimal digit
/// for the length of a prefix.
fn unwritable_bits(mask: u128) -> u128 {
    let first = mask >> 112;
    if is_prefix(mask) || first == 0 {
        return 0;
    }
    let shift = first.ilog2() / 4 * 4;
    let digit = first >> shift & 0xf;
    if digit < 10 { (0xf ^ digit) << (112 + shift) } else { 0 }
}
