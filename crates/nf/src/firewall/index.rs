//! Which rule that ends a chain a packet meets first, found without a look at each: by the search that
//! classifiers have. Knows what of a rule's conditions the search can file; refuses to decide by them alone.

use super::program::Compiled;
use catena_model::classifier::FieldMatch;
use catena_model::resource::IpFamily;
use catena_rules::condition::{Condition, Range, Subject, Test};
use catena_rules::rule_set::{Families, Statement, Verdict};
use catena_search::{Prefix, Ranked, Rule, Tuples};
use catena_wire::field::Field;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, PortRange};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Entries that one rule may be filed under, for each version of IP; what needs more is filed under less of
/// what it asks.
const ENTRIES_MAX: usize = 16;
/// Entries that the search cannot tell apart, before further ones are not filed.
const ALIKE_MAX: usize = 32;
/// The one place of all rules of a chain.
const HERE: u32 = 0;

/// The rules of a chain.
#[derive(Clone, Debug)]
pub(super) struct Index {
    ending: Tuples<u32>,
    /// The places of the rules that do not end the chain, or not only, and of those that the search could not
    /// tell from too many others: each is looked at on the way.
    walked: Vec<u32>,
}

impl Index {
    /// The index of a chain where packets of these versions of IP come; none: looking at each of its rules
    /// costs less.
    pub(super) fn of(rules: &[Compiled], families: Families, ending_min: usize) -> Option<Self> {
        if rules.iter().filter(|rule| ends(rule)).count() < ending_min.max(1) {
            return None;
        }
        let mut index = Self { ending: Tuples::default(), walked: Vec::new() };
        let mut number = 0;
        let mut alike: HashMap<Alike, usize> = HashMap::new();
        let here = [(IpFamily::Ipv4, families.v4), (IpFamily::Ipv6, families.v6)];
        for (place, rule) in (0..).zip(rules) {
            let here = here.iter().filter(|(_, comes)| *comes);
            let filed: Vec<Rule> = here.flat_map(|(family, _)| filed(rule, *family)).collect();
            let has_room =
                |rule: &Rule| alike.get(&Alike::of(rule)).is_none_or(|count| *count < ALIKE_MAX);
            if !ends(rule) || !filed.iter().all(has_room) {
                index.walked.push(place);
                continue;
            }
            for rule in filed {
                *alike.entry(Alike::of(&rule)).or_default() += 1;
                let rank = u64::from(place);
                index.ending.insert(Ranked { rank, number, scope: HERE, tag: place, rule });
                number += 1;
            }
        }
        Some(index)
    }

    /// The place of the first rule that ends the chain for a packet and takes it, as `takes` says of a
    /// rule's place.
    #[inline]
    pub(super) fn ending(&self, view: &FrameView, takes: impl Fn(u32) -> bool) -> Option<u32> {
        let flow = view.flow?;
        // Rules are asked whatever tags there are.
        let untagged = FrameView { vlan: None, ..*view };
        let found = self.ending.find([Some(HERE), None], &untagged, &flow, |one| takes(one.tag));
        found.map(|one| one.tag)
    }

    /// The places of the others before this one, in their order.
    pub(super) fn walked(&self, before: u32) -> impl Iterator<Item = u32> + '_ {
        self.walked.iter().copied().take_while(move |place| *place < before)
    }
}

/// What the search tells rules apart by.
#[derive(PartialEq, Eq, Hash)]
struct Alike {
    is_v6: bool,
    protocol: Option<u8>,
    source: (u128, u8),
    destination: (u128, u8),
    ports: [Option<u16>; 2],
}

impl Alike {
    fn of(rule: &Rule) -> Self {
        let prefix = |prefix: Prefix| (prefix.base(), prefix.bits());
        let one = |range: Option<PortRange>| {
            range.and_then(|range| (range.min() == range.max()).then_some(range.min()))
        };
        Self {
            is_v6: rule.family == IpFamily::Ipv6,
            protocol: rule.protocol.map(|protocol| protocol.0),
            source: prefix(rule.source),
            destination: prefix(rule.destination),
            ports: [one(rule.source_ports), one(rule.destination_ports)],
        }
    }
}

/// Does a rule ask first, change nothing meanwhile, and end the chain for whatever it takes?
fn ends(rule: &Compiled) -> bool {
    let mut asks = true;
    for statement in &rule.statements {
        match statement {
            Statement::Match(_) | Statement::MatchTuple(_) if asks => {}
            Statement::Count | Statement::Log(_) => asks = false,
            Statement::Verdict(verdict) => {
                return !matches!(verdict, Verdict::Jump(_) | Verdict::Goto(_));
            }
            _ => return false,
        }
    }
    false
}

/// What a rule is filed under: every packet of this version that it takes meets one of these.
fn filed(rule: &Compiled, family: IpFamily) -> Vec<Rule> {
    let conditions = || {
        rule.statements.iter().filter_map(|statement| match statement {
            Statement::Match(condition) => Some(condition),
            _ => None,
        })
    };
    let ranges = |subject: Subject| conditions().find_map(|condition| asked(condition, subject));
    let version = if family == IpFamily::Ipv4 { 4 } else { 6 };
    let is_of_version = |ranges: &[Range]| ranges.iter().any(|range| range.contains(version));
    if !ranges(Subject::Version).is_none_or(is_of_version) {
        return Vec::new();
    }
    let field = |field: Field| ranges(Subject::Field(field));
    let nets = |field: Option<&[Range]>| {
        let nets = field.and_then(|ranges| prefixes(ranges, family));
        nets.map_or_else(|| vec![None], |nets| nets.into_iter().map(Some).collect())
    };
    let protocol = match field(Field::Protocol) {
        Some([Range { first, last }]) if first == last => u8::try_from(*first).ok().map(IpProtocol),
        _ => None,
    };
    let mut asked = Asked {
        sources: nets(field(Field::Source)),
        destinations: nets(field(Field::Destination)),
        source_ports: ports(field(Field::SourcePort)),
        destination_ports: ports(field(Field::DestinationPort)),
    };
    asked.shorten();
    asked.entries(family, protocol)
}

/// What a rule asks of a flow, each as alternatives; none: anything.
struct Asked {
    sources: Vec<Option<IpNet>>,
    destinations: Vec<Option<IpNet>>,
    source_ports: Vec<Option<PortRange>>,
    destination_ports: Vec<Option<PortRange>>,
}

impl Asked {
    fn is_too_long(&self) -> bool {
        let nets = self.sources.len() * self.destinations.len();
        nets * self.source_ports.len() * self.destination_ports.len() > ENTRIES_MAX
    }

    /// Gives up what tells least, until few entries are left.
    fn shorten(&mut self) {
        if self.is_too_long() {
            self.source_ports = vec![None];
        }
        if self.is_too_long() {
            self.destination_ports = vec![None];
        }
        if self.is_too_long() {
            self.sources = vec![None];
        }
    }

    fn entries(&self, family: IpFamily, protocol: Option<IpProtocol>) -> Vec<Rule> {
        let mut entries = Vec::new();
        for source in &self.sources {
            for destination in &self.destinations {
                for source_ports in &self.source_ports {
                    entries.extend(self.destination_ports.iter().map(|destination_ports| Rule {
                        family,
                        vlan: None,
                        protocol,
                        source: Prefix::new(*source, family),
                        destination: Prefix::new(*destination, family),
                        source_ports: *source_ports,
                        destination_ports: *destination_ports,
                        fields: FieldMatch::default(),
                    }));
                }
            }
        }
        entries
    }
}

/// Ranges of ports; where the search could miss a packet, any.
fn ports(ranges: Option<&[Range]>) -> Vec<Option<PortRange>> {
    let port = |range: &Range| {
        let (first, last) = (u16::try_from(range.first).ok()?, u16::try_from(range.last).ok()?);
        // The search takes port 0 for none, as a later fragment shows it.
        PortRange::new(first, last).ok().filter(|_| first > 0)
    };
    let ports: Option<Vec<_>> = ranges.unwrap_or_default().iter().map(port).collect();
    let ports = ports.filter(|ports| (1..=ENTRIES_MAX).contains(&ports.len()));
    ports.map_or_else(|| vec![None], |ports| ports.into_iter().map(Some).collect())
}

/// The ranges that a condition wants of one subject alone.
fn asked(condition: &Condition, subject: Subject) -> Option<&[Range]> {
    match &condition.test {
        Test::In(ranges) if condition.subjects == [subject] && !condition.is_negated => {
            Some(ranges)
        }
        _ => None,
    }
}

/// Ranges of addresses as prefixes; none: there are too many, or they are of the other version.
fn prefixes(ranges: &[Range], family: IpFamily) -> Option<Vec<IpNet>> {
    let (width, most) = match family {
        IpFamily::Ipv4 => (32, u128::from(u32::MAX)),
        IpFamily::Ipv6 => (128, u128::MAX),
    };
    let mut nets = Vec::new();
    for range in ranges {
        let (mut first, last) = (range.first, range.last.min(most));
        while first <= last {
            // The largest net that begins here and does not reach beyond the end.
            let mut free = first.trailing_zeros().min(width);
            while free > 0 && span(first, free) > last {
                free -= 1;
            }
            let bits = u8::try_from(width - free).ok()?;
            nets.push(net(first, bits, family)?);
            if nets.len() > ENTRIES_MAX {
                return None;
            }
            let Some(next) = span(first, free).checked_add(1) else { break };
            first = next;
        }
    }
    Some(nets)
}

/// The last address of a net with so many free bits.
fn span(first: u128, free: u32) -> u128 {
    first | 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1)
}

fn net(first: u128, bits: u8, family: IpFamily) -> Option<IpNet> {
    match family {
        IpFamily::Ipv4 => {
            let address = Ipv4Addr::from(u32::try_from(first).ok()?);
            Ipv4Net::new(address, bits).ok().map(IpNet::V4)
        }
        IpFamily::Ipv6 => Ipv6Net::new(Ipv6Addr::from(first), bits).ok().map(IpNet::V6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn ranges_are_covered_by_prefixes_and_nothing_else_is() {
        for (first, last) in [(0, 0), (5, 9), (0, 255), (3, 3), (1, 254), (7, 8)] {
            let nets = prefixes(&[Range { first, last }], IpFamily::Ipv4).expect("few");
            for address in 0..300_u32 {
                let is_in =
                    nets.iter().any(|net| net.contains(&IpAddr::from(Ipv4Addr::from(address))));
                assert_eq!(is_in, (first..=last).contains(&u128::from(address)), "{first} {last}");
            }
        }
        let all = prefixes(&[Range { first: 0, last: u128::MAX }], IpFamily::Ipv6);
        assert_eq!(all, Some(vec![IpNet::V6(Ipv6Net::default())]));
        // An odd range of IPv6 has up to 254 prefixes.
        assert_eq!(prefixes(&[Range { first: 1, last: u128::MAX - 1 }], IpFamily::Ipv6), None);
    }
}
