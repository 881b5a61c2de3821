//! How packets that rules mean look behind a function that rewrites them. Knows mappings of functions;
//! refuses to know where packets are met.

use catena_model::classifier::{FieldMatch, FlowMatch};
use catena_model::program::TupleField;
use catena_model::resource::{IpFamily, ServiceFunction, Transport, TupleMapping, TuplePattern};

/// What is known of how a function rewrites packets: what is declared, and what its configuration says.
pub(crate) fn mappings(function: &ServiceFunction) -> impl Iterator<Item = &TupleMapping> {
    std::iter::once(&function.mapping).chain(&function.conduct.translations)
}

/// The packets as a function gives them back: those that it rewrites, and those that it leaves
/// alone.
pub(crate) fn mapped<'m>(
    packets: FlowMatch,
    mappings: impl IntoIterator<Item = &'m TupleMapping>,
) -> Vec<FlowMatch> {
    let mut images = Vec::new();
    let mut are_all_rewritten = false;
    for mapping in mappings {
        let Some(entering) = rewritten_among(&packets, mapping) else { continue };
        are_all_rewritten |= entering == packets;
        let leaving = rewritten_to(entering, &mapping.egress);
        if !images.contains(&leaving) {
            images.push(leaving);
        }
    }
    if !are_all_rewritten && !images.contains(&packets) {
        images.push(packets);
    }
    images
}

/// Those of the packets that a mapping is about; none: none of them.
fn rewritten_among(packets: &FlowMatch, mapping: &TupleMapping) -> Option<FlowMatch> {
    let is_of_family = |pattern: &TuplePattern| {
        let nets = [pattern.source_prefix, pattern.destination_prefix];
        nets.into_iter().flatten().all(|net| IpFamily::of(net.addr()) == packets.family)
    };
    let is_mapping = !rewritten(mapping).is_empty()
        && is_of_family(&mapping.ingress)
        && is_of_family(&mapping.egress);
    within(packets, &mapping.ingress).filter(|_| is_mapping)
}

/// What errors about packets are answers to, where a function has translated these into others: the rules of their
/// flow do not mean errors, and nobody else could tell whose they are. None: nothing is translated.
pub(crate) fn errors_of(image: &FlowMatch, packets: &FlowMatch) -> Option<FlowMatch> {
    let is_translated = (image.source, image.destination) != (packets.source, packets.destination);
    // Whoever is on the way may tell of what is translated: he is not the one that packets go to.
    let destination = image.destination.filter(|_| image.source == packets.source);
    (is_translated && image.transport != Some(Transport::Icmp)).then(|| FlowMatch {
        transport: Some(Transport::Icmp),
        destination,
        source_ports: None,
        destination_ports: None,
        ..image.clone()
    })
}

/// What a function asks others of its own accord.
pub(crate) fn inquiries(function: &ServiceFunction) -> impl Iterator<Item = FlowMatch> {
    function.conduct.inquiries.iter().filter_map(|asked| {
        Some(FlowMatch {
            family: IpFamily::of(asked.destination_prefix?.addr()),
            transport: Some(Transport::Tcp),
            source: asked.source_prefix,
            destination: asked.destination_prefix,
            source_ports: asked.source_ports.range(),
            destination_ports: asked.destination_ports.range(),
            fields: FieldMatch::default(),
        })
    })
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

/// The fields in which packets leave a function otherwise than they came, on the way forward.
pub(crate) fn rewritten_by(function: &ServiceFunction) -> Vec<TupleField> {
    let mut fields: Vec<TupleField> = mappings(function).flat_map(rewritten).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// The same of one mapping.
fn rewritten(mapping: &TupleMapping) -> Vec<TupleField> {
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
