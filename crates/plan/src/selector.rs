//! Which packets a rule means, apart from where they are met: what two rules have in common, how
//! the packets look behind a function that rewrites them, and as answers.

use catena_model::program::{RuleMatch, RulePlace, TupleField};
use catena_model::resource::{IpFamily, PortBounds, Transport, TupleMapping, TuplePattern};
use catena_wire::scalar::PortRange;
use ipnet::IpNet;

/// A set of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) family: IpFamily,
    pub(crate) transport: Option<Transport>,
    pub(crate) source: Option<IpNet>,
    pub(crate) destination: Option<IpNet>,
    pub(crate) source_ports: Option<PortRange>,
    pub(crate) destination_ports: Option<PortRange>,
}

impl Selector {
    /// The packets that both mean; none: there are none.
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        let transport = match (self.transport, other.transport) {
            (Some(one), Some(two)) if one != two => return None,
            (one, two) => one.or(two),
        };
        Some(Self {
            family: Some(self.family).filter(|family| *family == other.family)?,
            transport,
            source: both_nets(self.source, other.source)?,
            destination: both_nets(self.destination, other.destination)?,
            source_ports: both_ranges(self.source_ports, other.source_ports)?,
            destination_ports: both_ranges(self.destination_ports, other.destination_ports)?,
        })
    }

    /// The answers to these packets.
    pub(crate) fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_ports: self.destination_ports,
            destination_ports: self.source_ports,
            ..self
        }
    }

    /// The packets as a function gives them back: those that it rewrites, and those that it leaves
    /// alone.
    pub(crate) fn mapped(self, mapping: &TupleMapping) -> Vec<Self> {
        let is_of_family = |pattern: &TuplePattern| {
            let nets = [pattern.source_prefix, pattern.destination_prefix];
            nets.into_iter().flatten().all(|net| IpFamily::of(net.addr()) == self.family)
        };
        let is_mapping = !rewritten(mapping).is_empty()
            && is_of_family(&mapping.ingress)
            && is_of_family(&mapping.egress);
        let Some(entering) = self.within(&mapping.ingress).filter(|_| is_mapping) else {
            return vec![self];
        };
        let leaving = entering.clone().rewritten_to(&mapping.egress);
        let mut images = vec![leaving];
        if entering != self && !images.contains(&self) {
            images.push(self);
        }
        images
    }

    fn has_ports(&self) -> bool {
        matches!(self.transport, Some(Transport::Tcp | Transport::Udp))
    }

    /// Those that a pattern means.
    fn within(&self, pattern: &TuplePattern) -> Option<Self> {
        let (from, to) = (range(pattern.source_ports), range(pattern.destination_ports));
        let wants_ports = from.is_some() || to.is_some();
        if wants_ports && self.transport == Some(Transport::Icmp) {
            return None;
        }
        Some(Self {
            source: both_nets(self.source, pattern.source_prefix.map(|net| net.trunc()))?,
            destination: both_nets(
                self.destination,
                pattern.destination_prefix.map(|net| net.trunc()),
            )?,
            source_ports: both_ranges(self.source_ports, from)?,
            destination_ports: both_ranges(self.destination_ports, to)?,
            ..self.clone()
        })
    }

    fn rewritten_to(mut self, pattern: &TuplePattern) -> Self {
        let has_ports = self.has_ports();
        self.source = pattern.source_prefix.map(|net| net.trunc()).or(self.source);
        self.destination = pattern.destination_prefix.map(|net| net.trunc()).or(self.destination);
        // What has no ports may be among them: then ports are not looked at.
        if let Some(ports) = range(pattern.source_ports) {
            self.source_ports = has_ports.then_some(ports);
        }
        if let Some(ports) = range(pattern.destination_ports) {
            self.destination_ports = has_ports.then_some(ports);
        }
        self
    }

    /// The condition of a rule at a place.
    pub(crate) fn matches(self, place: RulePlace) -> RuleMatch {
        RuleMatch {
            place,
            vlan: None,
            family: self.family,
            transport: self.transport,
            source: self.source,
            destination: self.destination,
            source_ports: self.source_ports,
            destination_ports: self.destination_ports,
        }
    }
}

/// The fields in which packets leave otherwise than they came, on the way forward.
pub(crate) fn rewritten(mapping: &TupleMapping) -> Vec<TupleField> {
    let TuplePattern { source_prefix, destination_prefix, source_ports, destination_ports } =
        &mapping.egress;
    let named = [
        (TupleField::Source, source_prefix.is_some()),
        (TupleField::Destination, destination_prefix.is_some()),
        (TupleField::SourcePort, !source_ports.is_any()),
        (TupleField::DestinationPort, !destination_ports.is_any()),
    ];
    named.into_iter().filter(|(_, is_named)| *is_named).map(|(field, _)| field).collect()
}

/// A range as rules have it; none: ports are not looked at.
pub(crate) fn range(bounds: PortBounds) -> Option<PortRange> {
    let (min, max) = bounds.closed();
    // Bounds are checked where they are declared; an empty range matches nothing it should not.
    (!bounds.is_any()).then(|| PortRange::new(min, max).ok()).flatten()
}

/// What two prefixes have in common, where none means any; none: nothing.
fn both_nets(one: Option<IpNet>, other: Option<IpNet>) -> Option<Option<IpNet>> {
    match (one, other) {
        (Some(one), Some(other)) if one.contains(&other) => Some(Some(other)),
        (Some(one), Some(other)) if other.contains(&one) => Some(Some(one)),
        (Some(_), Some(_)) => None,
        (one, other) => Some(one.or(other)),
    }
}

fn both_ranges(one: Option<PortRange>, other: Option<PortRange>) -> Option<Option<PortRange>> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let (min, max) = (one.min().max(other.min()), one.max().min(other.max()));
            PortRange::new(min, max).ok().map(Some)
        }
        (one, other) => Some(one.or(other)),
    }
}

#[cfg(test)]
mod tests;
