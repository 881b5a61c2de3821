//! A set of packets, by flow and fields: the one place where it is said which packets two rules share.

use super::FieldMatch;
use crate::program::{RuleMatch, RulePlace};
use crate::resource::{ClassificationRule, IpFamily, PortBounds, Transport};
use catena_wire::scalar::PortRange;
use ipnet::IpNet;

/// A set of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMatch {
    /// IP version.
    pub family: IpFamily,
    /// Transport protocol; none: any.
    pub transport: Option<Transport>,
    /// Source addresses; none: any.
    pub source: Option<IpNet>,
    /// Destination addresses; none: any.
    pub destination: Option<IpNet>,
    /// Source ports; none: not looked at.
    pub source_ports: Option<PortRange>,
    /// Destination ports; none: not looked at.
    pub destination_ports: Option<PortRange>,
    /// Fields beside the flow.
    pub fields: FieldMatch,
}

impl FlowMatch {
    /// The packets that both mean; none: there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
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
            fields: self.fields.intersection(other.fields)?,
        })
    }

    /// Do both mean some packet?
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.intersection(other).is_some()
    }

    /// The flows of the answers. What answers show beside their flow, nobody knows.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_ports: self.destination_ports,
            destination_ports: self.source_ports,
            fields: FieldMatch::default(),
            ..self
        }
    }

    /// The condition of a rule at a place, for packets without a tag.
    #[must_use]
    pub fn at(self, place: RulePlace) -> RuleMatch {
        let Self {
            family,
            transport,
            source,
            destination,
            source_ports,
            destination_ports,
            fields,
        } = self;
        RuleMatch {
            place,
            vlan: None,
            family,
            transport,
            source,
            destination,
            source_ports,
            destination_ports,
            fields,
        }
    }
}

impl RuleMatch {
    /// The packets that it means, wherever they are, but for their tag.
    #[must_use]
    pub fn flow(&self) -> FlowMatch {
        let Self {
            family, transport, source, destination, source_ports, destination_ports, ..
        } = *self;
        let fields = self.fields;
        FlowMatch {
            family,
            transport,
            source,
            destination,
            source_ports,
            destination_ports,
            fields,
        }
    }
}

impl ClassificationRule {
    /// The packets that it means, wherever they enter and leave the network.
    #[must_use]
    pub fn flow(&self) -> FlowMatch {
        FlowMatch {
            family: self.family,
            transport: self.transport,
            source: self.source_prefix.map(|net| net.trunc()),
            destination: self.destination_prefix.map(|net| net.trunc()),
            source_ports: self.source_ports.range(),
            destination_ports: self.destination_ports.range(),
            fields: self.fields,
        }
    }
}

impl PortBounds {
    /// The ports as rules have them; none: ports are not looked at.
    #[must_use]
    pub fn range(self) -> Option<PortRange> {
        let (min, max) = self.closed();
        // Bounds are checked where they are declared; an empty range matches nothing it should not.
        (!self.is_any()).then(|| PortRange::new(min, max).ok()).flatten()
    }
}

/// What two prefixes have in common, where none means any; none: nothing.
pub(super) fn both_nets(one: Option<IpNet>, other: Option<IpNet>) -> Option<Option<IpNet>> {
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
