//! What packets must look like, in the words of `ovs-ofctl`. Knows how a condition of a rule is written there; refuses
//! to know what is done with the packets.

use catena_model::classifier::FieldMatch;
use catena_model::program::RuleMatch;
use catena_model::resource::{IpFamily, Transport};
use catena_wire::scalar::PortRange;
use catena_wire::source_route::marked::fields::Masked;
use ipnet::IpNet;

/// A frame without a tag.
pub(super) const UNTAGGED: &str = "vlan_tci=0x0000/0x1fff";
/// A frame whose tag says a priority and no VLAN.
pub(super) const PRIORITY_TAGGED: &str = "vlan_vid=0x1000/0x1fff";
/// A frame to a group of stations.
pub(super) const TO_GROUP: &str = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";
/// A piece of a packet. Switches need not show the ports of any, first ones among them (`OFPC_FRAG_NORMAL`).
pub(super) const FRAGMENT: &str = "nw_frag=yes";

/// What a rule asks, but for its tag: one of these must hold. None: a field that is not known here.
pub(super) struct Conditions {
    /// Of whole packets.
    pub(super) all: Vec<Vec<String>>,
    /// Of fragments, as far as they show what is asked; empty: they show all of it.
    pub(super) fragments: Vec<Vec<String>>,
}

impl Conditions {
    /// Those of a rule.
    pub(super) fn of(matches: &RuleMatch) -> Option<Self> {
        let fields = fields(&matches.fields)?.into_iter();
        let (hidden, fields): (Vec<Field>, Vec<Field>) =
            fields.partition(|field| field.is_transports);
        let nets = [(matches.source, "src"), (matches.destination, "dst")];
        let is_other = |(net, _): &(Option<IpNet>, _)| {
            net.is_some_and(|net| IpFamily::of(net.addr()) != matches.family)
        };
        // An address of the other family is no packet's.
        if nets.iter().any(is_other) {
            return Some(Self { all: Vec::new(), fragments: Vec::new() });
        }
        let nets = nets.iter().filter_map(|(net, end)| {
            let field = match matches.family {
                IpFamily::Ipv4 => "nw",
                IpFamily::Ipv6 => "ipv6",
            };
            net.map(|net| format!("{field}_{end}={}", net.trunc()))
        });
        let shown: Vec<String> = nets.chain(fields.into_iter().map(|field| field.words)).collect();
        let hidden: Vec<String> = hidden.into_iter().map(|field| field.words).collect();
        let with =
            |transport| [&[protocol(matches.family, transport).to_owned()], &*shown].concat();
        let ports = ports(matches);
        let transports = match (matches.transport, ports.is_empty()) {
            (transport, true) => vec![transport],
            (Some(Transport::Icmp), false) => Vec::new(),
            (Some(one), false) => vec![Some(one)],
            (None, false) => vec![Some(Transport::Tcp), Some(Transport::Udp)],
        };
        // A later fragment of IPv6 does not even show its protocol.
        let is_v6 = matches.family == IpFamily::Ipv6;
        let asks_more = !hidden.is_empty() || !ports.is_empty();
        let fragments = match is_v6 {
            true if asks_more || matches.transport.is_some() => vec![with(None)],
            false if asks_more => transports.iter().map(|transport| with(*transport)).collect(),
            _ => Vec::new(),
        };
        let no_ports = [Vec::new()];
        let ports = if ports.is_empty() { &no_ports[..] } else { &ports };
        let all = transports.iter().flat_map(|transport| {
            let words = [with(*transport), hidden.clone()].concat();
            ports.iter().map(move |ports| [&*words, &**ports].concat())
        });
        Some(Self { all: all.collect(), fragments })
    }
}

fn protocol(family: IpFamily, transport: Option<Transport>) -> &'static str {
    match (family, transport) {
        (IpFamily::Ipv4, None) => "ip",
        (IpFamily::Ipv4, Some(Transport::Tcp)) => "tcp",
        (IpFamily::Ipv4, Some(Transport::Udp)) => "udp",
        (IpFamily::Ipv4, Some(Transport::Icmp)) => "icmp",
        (IpFamily::Ipv6, None) => "ipv6",
        (IpFamily::Ipv6, Some(Transport::Tcp)) => "tcp6",
        (IpFamily::Ipv6, Some(Transport::Udp)) => "udp6",
        (IpFamily::Ipv6, Some(Transport::Icmp)) => "icmp6",
    }
}

/// A condition beside the flow.
struct Field {
    words: String,
    /// Is it in the header behind that of IP, which fragments need not show?
    is_transports: bool,
}

/// What is asked beside the flow; none: a field that is not known here.
fn fields(fields: &FieldMatch) -> Option<Vec<Field>> {
    let word = |(name, value, mask): (&str, u8, u8)| match name {
        "dscp" => Some(format!("ip_dscp={value}")),
        "tcp_flags" => Some(format!("tcp_flags={value:#x}/{mask:#x}")),
        _ => None,
    };
    let one = |(field, value, mask): (&catena_model::classifier::Field, u8, u8)| {
        let words = word((field.name, value, mask))?;
        Some(Field { words, is_transports: field.transport.is_some() })
    };
    fields.parts().map(one).collect()
}

/// The pairs of ports, one of which must be there; empty: none is asked for.
fn ports(matches: &RuleMatch) -> Vec<Vec<String>> {
    let one = |range: Option<PortRange>, end: &str| -> Vec<Vec<String>> {
        let Some(range) = range else { return vec![Vec::new()] };
        let masks = range_masks(range).into_iter();
        masks
            .map(|Masked { value, mask }| match mask {
                0 => Vec::new(),
                u16::MAX => vec![format!("tp_{end}={value}")],
                _ => vec![format!("tp_{end}={value:#x}/{mask:#x}")],
            })
            .collect()
    };
    if matches.source_ports.is_none() && matches.destination_ports.is_none() {
        return Vec::new();
    }
    let (from, to) = (one(matches.source_ports, "src"), one(matches.destination_ports, "dst"));
    from.iter().flat_map(|from| to.iter().map(move |to| [&**from, &**to].concat())).collect()
}

/// Masks that take the ports of a range and no others.
fn range_masks(range: PortRange) -> Vec<Masked<u16>> {
    let (mut low, end) = (u32::from(range.min()), u32::from(range.max()) + 1);
    let mut masks = Vec::new();
    while low < end {
        let most = if low == 0 { 1 << 16 } else { low & low.wrapping_neg() };
        let mut size = most;
        while low + size > end {
            size >>= 1;
        }
        masks.push(Masked { value: low as u16, mask: !(size - 1) as u16 });
        low += size;
    }
    masks
}

/// Masks of VLAN identifiers that take those that `takes` says and no others.
pub(super) fn vlan_words(takes: impl Fn(u16) -> bool) -> Vec<String> {
    let vlans: Vec<u16> = (0..VLAN_PRESENT).filter(|vlan| takes(*vlan)).collect();
    let masks = covering(&vlans, VLAN_PRESENT >> 1).into_iter();
    let word = |Masked { value, mask }: Masked<u16>| {
        format!("vlan_vid={:#x}/{:#x}", value | VLAN_PRESENT, mask | VLAN_PRESENT)
    };
    masks.map(word).collect()
}

/// What says in the words of OpenFlow that there is a tag: above all identifiers.
pub(super) const VLAN_PRESENT: u16 = 0x1000;

/// Masks that take these values, which are in order and below twice this bit, and no others.
fn covering(values: &[u16], highest: u16) -> Vec<Masked<u16>> {
    if values.is_empty() {
        return Vec::new();
    }
    if highest == 0 {
        return vec![Masked { value: 0, mask: 0 }];
    }
    let (low, high) = values.split_at(values.partition_point(|value| *value < highest));
    let high: Vec<u16> = high.iter().map(|value| value - highest).collect();
    if low == high {
        return covering(low, highest >> 1);
    }
    let with = |half: &[u16], bit: u16| {
        let found = covering(half, highest >> 1).into_iter();
        found.map(move |Masked { value, mask }| Masked { value: value | bit, mask: mask | highest })
    };
    with(low, 0).chain(with(&high, highest)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn masks_take_the_values_of_a_set_and_no_more() {
        for (low, high) in
            [(0, 0), (0, 65_535), (1, 65_535), (5_001, 5_001), (7, 8), (1_024, 65_534)]
        {
            let masks = range_masks(PortRange::new(low, high).unwrap());
            for port in 0..=u16::MAX {
                let count = masks.iter().filter(|one| port & one.mask == one.value).count();
                assert_eq!(count, usize::from((low..=high).contains(&port)), "{port}: {masks:?}");
            }
        }
        for (from, to) in [(0, 0), (0, 1), (1, 2_049), (7, 9), (0, 4_096), (4_095, 4_096)] {
            let values: Vec<u16> = (from..to).collect();
            let masks = covering(&values, VLAN_PRESENT >> 1);
            for vlan in 0..VLAN_PRESENT {
                let count = masks.iter().filter(|one| vlan & one.mask == one.value).count();
                assert_eq!(count, usize::from(values.contains(&vlan)), "{vlan}: {masks:?}");
            }
        }
        assert_eq!(vlan_words(|vlan| vlan % 2 == 1), ["vlan_vid=0x1001/0x1001"]);
    }
}
