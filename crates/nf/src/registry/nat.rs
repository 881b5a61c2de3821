//! What a NAT is told, and what that makes of addresses. Refuses to know how packets are translated.

use super::{Bundled, ConfigError, Made, Surroundings, Translations};
use crate::nat::{Nat, NatOptions};
use catena_model::resource::{PortBounds, TupleMapping, TuplePattern};
use catena_rules::ReadRules;
use catena_rules::nat::{NatConfig, all_of, read};
use catena_wire::scalar::PortRange;
use ipnet::{IpNet, Ipv4Net};
use std::net::IpAddr;

/// What messages call the settings, which are in no file.
const NAME: &str = "config";

fn settings(config: &str) -> Result<NatConfig, ConfigError> {
    read(config, NAME).map_err(|error| ConfigError(error.to_string()))
}

pub(super) fn make(config: &str, surroundings: &Surroundings) -> Made {
    let options = NatOptions { seed: surroundings.seed, ..NatOptions::default() };
    let nat = Nat::new(&settings(config)?, &options);
    let nat = nat.map_err(|error| ConfigError(error.to_string()))?;
    Ok(Bundled::of(nat))
}

pub(super) fn rules(config: &str) -> Result<ReadRules, ConfigError> {
    settings(config).map(ReadRules::Translation)
}

/// From inside, sources become outside addresses: a host's own, else those that it shares.
pub(super) fn translations(config: &str) -> Result<Translations, ConfigError> {
    let config = settings(config)?;
    let mut mappings: Vec<TupleMapping> = Vec::new();
    for one in &config.one_to_one {
        mappings.push(mapping((one.inside.into(), None), (one.outside.into(), None)));
    }
    for forward in &config.dnat {
        let inside = (forward.inside.into(), Some(forward.inside_ports()));
        mappings.push(mapping(inside, (forward.to.into(), Some(forward.port))));
    }
    for (inside, outside) in config.sources() {
        let image = |outside: &Ipv4Net| mapping((inside, None), (*outside, Some(config.ports)));
        mappings.extend(outside.iter().map(image));
    }
    let shared = config.pool.iter().chain(config.snat.iter().flat_map(|rule| &rule.to));
    let own = config.one_to_one.iter().map(|one| IpAddr::V4(one.outside));
    let mut outside: Vec<IpAddr> = shared.flat_map(all_of).map(IpAddr::V4).chain(own).collect();
    outside.sort_unstable();
    outside.dedup();
    Ok(Translations {
        mappings,
        at_ingress: Vec::new(),
        at_egress: outside,
        ..Translations::default()
    })
}

/// Addresses with the ports that count; none: all.
type Ends = (Ipv4Net, Option<PortRange>);

fn mapping(inside: Ends, outside: Ends) -> TupleMapping {
    let pattern = |(prefix, ports): Ends| TuplePattern {
        source_prefix: Some(IpNet::V4(prefix)),
        source_ports: ports.map_or_else(PortBounds::default, PortBounds::from),
        ..TuplePattern::default()
    };
    TupleMapping { ingress: pattern(inside), egress: pattern(outside) }
}
