//! What a balancer is told, and what that makes of addresses. Refuses to know how backends are chosen.

use super::{Bundled, ConfigError, Made, Surroundings, Translations};
use crate::balancer::Balancer;
use catena_model::resource::{PortBounds, TupleMapping, TuplePattern};
use catena_rules::balancer::{BalancerConfig, read};
use ipnet::IpNet;
use std::net::IpAddr;

/// What messages call the settings, which are in no file.
const NAME: &str = "config";

fn settings(config: &str) -> Result<BalancerConfig, ConfigError> {
    let config = read(config, NAME).map_err(|error| ConfigError(error.to_string()))?;
    if let Some(service) = config.services.iter().find(|service| service.health.is_some()) {
        return Err(ConfigError(format!(
            "service '{}' has 'health', and nothing sends questions of functions of a chain yet; leave it out and \
             let 'passive' judge backends, or run `catena nf run balancer` between two interfaces",
            service.name
        )));
    }
    Ok(config)
}

pub(super) fn make(config: &str, _: &Surroundings) -> Made {
    Ok(Bundled::of(Balancer::new(&settings(config)?)))
}

/// Forward, a virtual address and port become those of each backend.
pub(super) fn translations(config: &str) -> Result<Translations, ConfigError> {
    let config = settings(config)?;
    let pattern = |address: IpAddr, port: u16| TuplePattern {
        destination_prefix: Some(IpNet::from(address)),
        destination_ports: PortBounds { min: Some(port), max: Some(port) },
        ..TuplePattern::default()
    };
    let mappings = config.services.iter().flat_map(|service| {
        let ingress = pattern(service.address, service.port);
        let backends = service.backends.iter();
        backends.map(move |backend| TupleMapping {
            ingress: ingress.clone(),
            egress: pattern(backend.address, backend.port),
        })
    });
    let mut virtual_addresses: Vec<IpAddr> =
        config.services.iter().map(|service| service.address).collect();
    virtual_addresses.sort_unstable();
    virtual_addresses.dedup();
    Ok(Translations {
        mappings: mappings.collect(),
        at_ingress: virtual_addresses,
        at_egress: Vec::new(),
    })
}
