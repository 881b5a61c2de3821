//! A configuration as packets need it: what is found by an end, and the numbers of rules. Knows what never
//! changes; refuses to know sessions and health.

use super::maglev::{Lookup, Member};
use catena_rules::balancer::{BalancerConfig, HealthConfig, ServiceConfig, Sticky};
use catena_wire::flow::mix;
use catena_wire::scalar::{IpProtocol, MacAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An end that packets are sent to.
pub(super) type End = (IpAddr, IpProtocol, u16);

/// Rules that all services have in common.
pub(super) mod rule {
    /// Packets that are none of the balancer's.
    pub(in super::super) const OTHERS: u32 = 0;
    /// What comes back to those who ask for health.
    pub(in super::super) const HEALTH: u32 = 1;
    /// Later fragments whose first has not been seen.
    pub(in super::super) const FRAGMENT: u32 = 2;
    /// What has no room and passes.
    pub(in super::super) const FULL: u32 = 3;
}

const COMMON: [&str; 4] = [
    "no virtual service: passes as it is",
    "answer of a health check: ends here",
    "later fragment to a virtual address, whose first has not been seen: dropped",
    "no room for a session: passes without one",
];
/// Rules of each service before those of its backends.
const OF_SERVICE: u32 = 3;

/// A backend.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) is_draining: bool,
    pub(super) mac: Option<MacAddr>,
    /// Its service.
    pub(super) service: usize,
    /// The rule that counts what goes to it and comes from it.
    pub(super) rule: u32,
}

/// A virtual service.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) config: ServiceConfig,
    pub(super) end: End,
    pub(super) lookup: Lookup,
    /// Its first backend among all.
    pub(super) first: usize,
    /// Its first rule.
    rule: u32,
}

impl Service {
    /// The rule of what finds no backend that lives.
    pub(super) const fn no_backend(&self) -> u32 {
        self.rule
    }

    /// The rule of what is reset as its backend is dead.
    pub(super) const fn dead(&self) -> u32 {
        self.rule + 1
    }

    /// The rule of what another service's session has the same ends as.
    pub(super) const fn clash(&self) -> u32 {
        self.rule + 2
    }

    pub(super) fn is_by_client(&self) -> bool {
        self.config.sticky == Sticky::Client
    }

    pub(super) const fn health(&self) -> Option<&HealthConfig> {
        self.config.health.as_ref()
    }
}

/// The configuration.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) services: Vec<Service>,
    pub(super) backends: Vec<Backend>,
    pub(super) rules: Vec<String>,
    by_end: BTreeMap<End, usize>,
    addresses: BTreeSet<IpAddr>,
    /// Backends that serve one service only.
    by_answer: BTreeMap<End, Option<usize>>,
    /// Where backends begin, by address.
    by_backend: BTreeMap<IpAddr, Vec<usize>>,
    askers: BTreeSet<IpAddr>,
}

/// A hash of an end, the same everywhere.
pub(super) fn identity(address: IpAddr, port: u16) -> u64 {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    mix(mix(mix((bits >> 64) as u64) ^ bits as u64) ^ u64::from(port))
}

impl Program {
    pub(super) fn new(config: &BalancerConfig) -> Self {
        let mut program = Self {
            services: Vec::new(),
            backends: Vec::new(),
            rules: COMMON.map(str::to_owned).into(),
            by_end: BTreeMap::new(),
            addresses: BTreeSet::new(),
            by_answer: BTreeMap::new(),
            by_backend: BTreeMap::new(),
            askers: BTreeSet::new(),
        };
        config.services.iter().for_each(|service| program.add(service));
        program
    }

    fn add(&mut self, config: &ServiceConfig) {
        let number = self.services.len();
        let end = (config.address, config.protocol.number(), config.port);
        let (first, rule) = (self.backends.len(), self.rules.len() as u32);
        let (name, protocol) = (&config.name, config.protocol.name());
        self.rules.extend([
            format!("service {name}: no backend takes sessions: dropped"),
            format!("service {name}: its backend is dead: the connection is reset"),
            format!("service {name}: the client's end is in use at this backend: dropped"),
        ]);
        debug_assert_eq!(self.rules.len() as u32, rule + OF_SERVICE);
        let mut members = Vec::new();
        for backend in &config.backends {
            let (address, port, weight) = (backend.address, backend.port, backend.weight);
            let known = self.backends.len();
            self.backends.push(Backend {
                address,
                port,
                is_draining: backend.drain,
                mac: backend.mac,
                service: number,
                rule: self.rules.len() as u32,
            });
            self.rules.push(format!("service {name}: backend {address} {protocol} port {port}"));
            members.push(Member { identity: identity(address, port), weight });
            let answer = (address, end.1, port);
            self.by_answer.entry(answer).and_modify(|one| *one = None).or_insert(Some(known));
            self.by_backend.entry(address).or_default().push(known);
        }
        let lookup = Lookup::new(&members, config.slots());
        self.services.push(Service { config: config.clone(), end, lookup, first, rule });
        self.by_end.insert(end, number);
        self.addresses.insert(config.address);
        self.askers.extend(config.health.iter().map(|health| health.from));
    }

    /// The service at an end.
    pub(super) fn service_at(&self, end: &End) -> Option<(usize, &Service)> {
        let number = *self.by_end.get(end)?;
        Some((number, self.services.get(number)?))
    }

    pub(super) fn service(&self, backend: usize) -> Option<&Service> {
        self.services.get(self.backends.get(backend)?.service)
    }

    /// The backend with this end, where it is one of one service only.
    pub(super) fn only_backend_at(&self, end: &End) -> Option<usize> {
        *self.by_answer.get(end)?
    }

    /// The backend of a service with this end.
    pub(super) fn backend_of(
        &self,
        service: usize,
        (address, port): (IpAddr, u16),
    ) -> Option<usize> {
        let at = |number: &&usize| {
            let backend = self.backends.get(**number);
            backend.is_some_and(|one| (one.service, one.port) == (service, port))
        };
        self.by_backend.get(&address)?.iter().find(at).copied()
    }

    /// The backends at an address.
    pub(super) fn backends_at(&self, address: IpAddr) -> &[usize] {
        self.by_backend.get(&address).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_virtual(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    pub(super) fn is_asker(&self, address: IpAddr) -> bool {
        self.askers.contains(&address)
    }
}
