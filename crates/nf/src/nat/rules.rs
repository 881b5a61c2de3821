//! A configuration as packets are held against it. Knows which address is translated into which, and what rules
//! are called; refuses to know flows.

use super::NatOptions;
use super::end::{End, Host};
use crate::monitor::table::Keyed;
use catena_rules::nat::{
    FilteringBehaviour, Ipv6Policy, NatConfig, NatTimeouts, PortForward, all_of,
};
use catena_wire::scalar::{IpProtocol, PortRange};
use ipnet::Ipv4Net;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Rules that no line of a configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Named {
    /// It is for an outside endpoint, or about one, that nobody inside has.
    NoMapping,
    /// Who has sent it may not (RFC 4787 section 5).
    Filtered,
    /// It is a fragment whose first one was not seen.
    Fragment,
    /// It has no ports that could be translated.
    Protocol,
    /// It is an ICMP error whose checksum, or that of the header that it quotes, is wrong (RFC 5508 REQ-3).
    Damaged,
    /// All outside ports that it could have are taken.
    NoPort,
    /// Its host has as many flows as it may.
    HostFull,
    /// It is of IPv6.
    Ipv6,
    /// It goes back inside, as another packet.
    Hairpin,
}

impl Named {
    const ALL: [(Self, &'static str); 9] = [
        (Self::NoMapping, "no mapping"),
        (Self::Filtered, "filtered: its sender was not sent to"),
        (Self::Fragment, "a fragment whose first one was not seen"),
        (Self::Protocol, "a protocol without ports"),
        (Self::Damaged, "an ICMP error with a wrong checksum"),
        (Self::NoPort, "no port is free"),
        (Self::HostFull, "flows_per_host: the host has as many flows as it may"),
        (Self::Ipv6, "ipv6: block"),
        (Self::Hairpin, "goes back inside as another packet (hairpin)"),
    ];
}

/// Inside addresses, and what they are translated into.
#[derive(Clone, Copy, Debug)]
struct Span {
    last: Ipv4Addr,
    /// By its place; none: nothing.
    source: Option<usize>,
}

/// A rule that translates sources.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) rule: u32,
    prefix: Ipv4Net,
    /// Hosts of the prefixes before it that share its addresses.
    hosts_before: u64,
    /// Into these, by their places among all that are shared.
    addresses: Vec<usize>,
}

/// A range of ports that is translated into another.
#[derive(Clone, Copy, Debug)]
struct Forward {
    last: u16,
    address: Ipv4Addr,
    first: u16,
    rule: u32,
}

type Forwards = BTreeMap<(IpProtocol, Ipv4Addr, u16), Forward>;

/// The rules.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    words: Vec<String>,
    named_from: u32,
    /// Inside to outside, and outside to inside.
    statics: [BTreeMap<Ipv4Addr, (Ipv4Addr, u32)>; 2],
    /// The same.
    forwards: [Forwards; 2],
    /// By their first addresses.
    spans: BTreeMap<Ipv4Addr, Span>,
    pub(super) sources: Vec<Source>,
    /// Sorted.
    pub(super) shared: Vec<Ipv4Addr>,
    pub(super) ports: PortRange,
    block: Option<u16>,
    seed: u64,
    pub(super) filtering: FilteringBehaviour,
    pub(super) blocks_ipv6: bool,
    pub(super) flows_per_host: Option<u32>,
    pub(super) timeouts: NatTimeouts,
}

impl Rules {
    /// Those of a configuration that was checked.
    pub(super) fn new(config: &NatConfig, options: &NatOptions) -> Self {
        let mut rules = Self {
            words: Vec::new(),
            named_from: 0,
            statics: Default::default(),
            forwards: Default::default(),
            spans: BTreeMap::new(),
            sources: Vec::new(),
            shared: config.shared_addresses(),
            ports: options.ports.unwrap_or(config.ports),
            block: config.block,
            seed: options.seed,
            filtering: config.filtering,
            blocks_ipv6: config.ipv6 == Ipv6Policy::Block,
            flows_per_host: config.flows_per_host,
            timeouts: config.timeouts,
        };
        for one in &config.one_to_one {
            let rule = rules.name(format!("static, {} is {} outside", one.inside, one.outside));
            let [inside, outside] = &mut rules.statics;
            inside.insert(one.inside, (one.outside, rule));
            outside.insert(one.outside, (one.inside, rule));
        }
        config.dnat.iter().for_each(|forward| rules.add_forward(forward));
        let mut masqueraded = 0_u64;
        for (at, (prefix, to)) in config.sources().enumerate() {
            let is_snat = at < config.snat.len();
            let name = if is_snat { "snat" } else { "masquerade" };
            let rule = rules.name(format!("{name}, {prefix}"));
            let mut addresses: Vec<usize> =
                to.iter().flat_map(all_of).filter_map(|one| rules.place(one)).collect();
            addresses.sort_unstable();
            addresses.dedup();
            let hosts_before = if is_snat { 0 } else { masqueraded };
            if !is_snat {
                masqueraded += hosts(prefix);
            }
            rules.sources.push(Source { rule, prefix, hosts_before, addresses });
        }
        rules.spans = spans(&rules.sources);
        rules.named_from = u32::try_from(rules.words.len()).unwrap_or(u32::MAX);
        rules.words.extend(Named::ALL.iter().map(|(_, words)| (*words).to_owned()));
        rules
    }

    fn name(&mut self, words: String) -> u32 {
        self.words.push(words);
        u32::try_from(self.words.len() - 1).unwrap_or(u32::MAX)
    }

    fn add_forward(&mut self, forward: &PortForward) {
        let PortForward { to, protocol, port, inside, .. } = *forward;
        let own = forward.inside_ports();
        let range = |ports: PortRange| match (ports.min(), ports.max()) {
            (one, last) if one == last => one.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let (outside_words, inside_words) = (range(port), range(own));
        let rule = self.name(format!(
            "dnat, {} {to}:{outside_words} to {inside}:{inside_words}",
            protocol.name()
        ));
        let number = protocol.number();
        let [outward, inward] = &mut self.forwards;
        let row = |last, address, first| Forward { last, address, first, rule };
        outward.insert((number, inside, own.min()), row(own.max(), to, port.min()));
        inward.insert((number, to, port.min()), row(port.max(), inside, own.min()));
    }

    pub(super) fn words(&self, rule: u32) -> Option<&String> {
        self.words.get(rule as usize)
    }

    pub(super) fn all_words(&self) -> &[String] {
        &self.words
    }

    pub(super) const fn named(&self, named: Named) -> u32 {
        self.named_from + named as u32
    }

    /// The place of a shared address among all of them.
    pub(super) fn place(&self, address: Ipv4Addr) -> Option<usize> {
        self.shared.binary_search(&address).ok()
    }

    /// Is it an outside address of this function?
    pub(super) fn is_outside(&self, address: Ipv4Addr) -> bool {
        self.place(address).is_some() || self.static_inside(address).is_some()
    }

    /// Is it an inside address that is never to be seen outside?
    pub(super) fn is_inside(&self, address: Ipv4Addr) -> bool {
        self.source_of(address).is_some() || self.static_outside(address).is_some()
    }

    /// May a packet of this source be of a flow that is translated?
    pub(super) fn may_be_translated(&self, source: Ipv4Addr) -> bool {
        let [outward, _] = &self.forwards;
        let has_forward = |protocol| {
            outward.range((protocol, source, 0)..=(protocol, source, u16::MAX)).next().is_some()
        };
        self.is_inside(source) || has_forward(IpProtocol::TCP) || has_forward(IpProtocol::UDP)
    }

    /// The outside address of a host that has one of its own, and the rule.
    pub(super) fn static_outside(&self, inside: Ipv4Addr) -> Option<(Ipv4Addr, u32)> {
        let [outward, _] = &self.statics;
        outward.get(&inside).copied()
    }

    /// The host that has this outside address.
    pub(super) fn static_inside(&self, outside: Ipv4Addr) -> Option<(Ipv4Addr, u32)> {
        let [_, inward] = &self.statics;
        inward.get(&outside).copied()
    }

    /// The outside endpoint that leads to this one, by a forwarded port.
    pub(super) fn forwarded_outside(&self, inside: &End) -> Option<(End, u32)> {
        let [outward, _] = &self.forwards;
        forwarded(outward, inside)
    }

    /// Where this outside endpoint leads, by a forwarded port.
    pub(super) fn forwarded_inside(&self, outside: &End) -> Option<(End, u32)> {
        let [_, inward] = &self.forwards;
        forwarded(inward, outside)
    }

    /// All outside endpoints that are forwarded.
    pub(super) fn forwarded(&self) -> impl Iterator<Item = (IpProtocol, Ipv4Addr, u16)> + '_ {
        let [_, inward] = &self.forwards;
        inward.iter().flat_map(|((protocol, address, first), forward)| {
            (*first..=forward.last).map(|port| (*protocol, *address, port))
        })
    }

    /// What translates an inside address: of nested prefixes, the longest.
    pub(super) fn source_of(&self, inside: Ipv4Addr) -> Option<&Source> {
        let (_, span) = self.spans.range(..=inside).next_back()?;
        self.sources.get(span.source.filter(|_| inside <= span.last)?)
    }

    /// The outside address of a host, by its place, and the ports that its flows may have there: always the same
    /// (RFC 4787 REQ-2).
    pub(super) fn room_of(&self, source: &Source, inside: Ipv4Addr) -> Option<(usize, PortRange)> {
        let count = source.addresses.len();
        let Some(block) = self.block else {
            let at = Host(inside).hash(self.seed) % (count.max(1) as u64);
            return Some((*source.addresses.get(usize::try_from(at).ok()?)?, self.ports));
        };
        let ports = u64::from(self.ports.max()) - u64::from(self.ports.min()) + 1;
        let of_address = (ports / u64::from(block)).max(1);
        let host = u64::from(inside.to_bits()) - u64::from(source.prefix.network().to_bits());
        let number = source.hosts_before + host;
        let address = usize::try_from(number / of_address).ok()?;
        let first = u64::from(self.ports.min()) + number % of_address * u64::from(block);
        let first = u16::try_from(first).ok()?;
        let range = PortRange::new(first, first + (block - 1)).ok()?;
        Some((*source.addresses.get(address)?, range))
    }
}

fn hosts(prefix: Ipv4Net) -> u64 {
    u64::from(prefix.broadcast().to_bits()) - u64::from(prefix.network().to_bits()) + 1
}

fn forwarded(forwards: &Forwards, end: &End) -> Option<(End, u32)> {
    let End { protocol, address, port } = *end;
    let ((of, host, first), forward) = forwards.range(..=(protocol, address, port)).next_back()?;
    let is_it = (*of, *host) == (protocol, address) && port <= forward.last;
    let port = forward.first.checked_add(port - first).filter(|_| is_it)?;
    Some((End { protocol, address: forward.address, port }, forward.rule))
}

/// Spans of addresses that do not meet, each with the longest of the prefixes that hold it.
fn spans(sources: &[Source]) -> BTreeMap<Ipv4Addr, Span> {
    let mut order: Vec<usize> = (0..sources.len()).collect();
    let prefix = |at: usize| sources.get(at).map(|source| source.prefix);
    order.sort_by_key(|at| prefix(*at).map(|prefix| prefix.prefix_len()));
    let mut spans: BTreeMap<Ipv4Addr, Span> = BTreeMap::new();
    // A longer prefix is cut out of the shorter one around it.
    for at in order {
        let Some(prefix) = prefix(at) else { continue };
        let (first, last) = (prefix.network(), prefix.broadcast());
        let around = spans.range(..=first).next_back().map(|(start, span)| (*start, *span));
        if let Some((start, span)) = around.filter(|(_, span)| first <= span.last) {
            if start < first {
                let before = Ipv4Addr::from_bits(first.to_bits() - 1);
                spans.insert(start, Span { last: before, ..span });
            }
            if last < span.last {
                spans.insert(Ipv4Addr::from_bits(last.to_bits() + 1), span);
            }
        }
        spans.insert(first, Span { last, source: Some(at) });
    }
    spans
}
