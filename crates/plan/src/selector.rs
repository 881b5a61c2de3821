//! How packets that rules mean look behind a function that rewrites them. Knows mappings of functions;
//! refuses to know where packets are met.

use catena_model::classifier::{FieldMatch, FlowMatch};
use catena_model::program::TupleField;
use catena_model::resource::{IpFamily, Transport, TupleMapping, TuplePattern};

/// The packets as a function gives them back: those that it rewrites, and those that it leaves
/// alone.
pub(crate) fn mapped(packets: FlowMatch, mapping: &TupleMapping) -> Vec<FlowMatch> {
    let is_of_family = |pattern: &TuplePattern| {
        let nets = [pattern.source_prefix, pattern.destination_prefix];
        nets.into_iter().flatten().all(|net| IpFamily::of(net.addr()) == packets.family)
    };
    let is_mapping = !rewritten(mapping).is_empty()
        && is_of_family(&mapping.ingress)
        && is_of_family(&mapping.egress);
    let Some(entering) = within(&packets, &mapping.ingress).filter(|_| is_mapping) else {
        return vec![packets];
    };
    let leaving = rewritten_to(entering.clone(), &mapping.egress);
    let mut images = vec![leaving];
    if entering != packets && !images.contains(&packets) {
        images.push(packets);
    }
    images
}

fn has_ports(packets: &FlowMatch) -> bool {
    matches!(packets.transport, Some(Transport::Tcp | Transport::Udp))
}

/// Those that a pattern means.
fn within(packets: &FlowMatch, pattern: &TuplePattern) -> Option<FlowMatch> {
    let pattern = FlowMatch {
        family: packets.family,
        transport: None,
        source: pattern.source_prefix.map(|net| net.trunc()),
        destination: pattern.destination_prefix.map(|net| net.trunc()),
        source_ports: pattern.source_ports.range(),
        destination_ports: pattern.destination_ports.range(),
        fields: FieldMatch::default(),
    };
    let wants_ports = pattern.source_ports.is_some() || pattern.destination_ports.is_some();
    let has_none = packets.transport == Some(Transport::Icmp);
    if wants_ports && has_none { None } else { packets.intersection(&pattern) }
}

fn rewritten_to(mut packets: FlowMatch, pattern: &TuplePattern) -> FlowMatch {
    let has_ports = has_ports(&packets);
    packets.source = pattern.source_prefix.map(|net| net.trunc()).or(packets.source);
    packets.destination = pattern.destination_prefix.map(|net| net.trunc()).or(packets.destination);
    // What has no ports may be among them: then ports are not looked at.
    if let Some(ports) = pattern.source_ports.range() {
        packets.source_ports = has_ports.then_some(ports);
    }
    if let Some(ports) = pattern.destination_ports.range() {
        packets.destination_ports = has_ports.then_some(ports);
    }
    packets
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

#[cfg(test)]
mod tests;
