//! What a balancer is told, and what that makes of addresses. Refuses to know how backends are chosen.

use super::{Bundled, ConfigError, Made, Surroundings, Translations};
use crate::balancer::Balancer;
use catena_model::program::PROXY_MAC;
use catena_model::resource::{PortBounds, TupleMapping, TuplePattern};
use catena_rules::balancer::{BalancerConfig, read};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What messages call the settings, which are in no file.
const NAME: &str = "config";

/// Time passes for functions of chains so often, milliseconds.
const TURN_MS: u32 = 100;

fn settings(config: &str) -> Result<BalancerConfig, ConfigError> {
    let config = read(config, NAME).map_err(|error| ConfigError(error.to_string()))?;
    for service in &config.services {
        let Some(health) = &service.health else { continue };
        if health.interval_ms.min(health.timeout_ms) < TURN_MS {
            return Err(ConfigError(format!(
                "service '{}' has a 'health' whose 'interval_ms' or 'timeout_ms' is below {TURN_MS}, which is how often \
                 time passes for functions of chains; give {TURN_MS} or more",
                service.name
            )));
        }
    }
    Ok(config)
}

pub(super) fn make(config: &str, surroundings: &Surroundings) -> Made {
    // Behind its path a packet is delivered by its address, for which that station stands.
    let stations = (PROXY_MAC, PROXY_MAC);
    Ok(Bundled::of(Balancer::by_address(&settings(config)?, surroundings.seed, stations)))
}

/// Forward, a virtual address and port become those of each backend; and each is asked whether it serves.
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
    let checked = || config.services.iter().filter_map(|one| Some((one, one.health.as_ref()?)));
    let mut inquiries: Vec<TuplePattern> = Vec::new();
    for (service, health) in checked() {
        for backend in &service.backends {
            let asked = TuplePattern {
                source_prefix: Some(IpNet::from(health.from)),
                ..pattern(backend.address, health.port.unwrap_or(backend.port))
            };
            if !inquiries.contains(&asked) {
                inquiries.push(asked);
            }
        }
    }
    Ok(Translations {
        mappings: mappings.collect(),
        at_ingress: distinct(config.services.iter().map(|service| service.address)),
        at_egress: distinct(checked().map(|(_, health)| health.from)),
        inquiries,
    })
}

fn distinct(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    addresses.collect::<BTreeSet<_>>().into_iter().collect()
}
