//! Whether a configuration holds together. Knows bounds, and what may not stand twice; refuses to read text.

use super::{
    BackendConfig, BalancerConfig, HealthConfig, HealthKind, PassiveConfig, ServiceConfig,
    ServiceProtocol, TABLE_SLOTS_MIN,
};
use catena_model::limits::{
    BALANCER_BACKENDS_IN_ALL_MAX, BALANCER_BACKENDS_MAX, BALANCER_SERVICES_MAX, BALANCER_SLOTS_MAX,
    FUNCTION_FLOWS_MAX,
};
use catena_wire::scalar::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The most that a backend weighs.
const WEIGHT_MAX: u32 = 1_000;
/// The longest path that is asked for, bytes.
const PATH_BYTES_MAX: usize = 255;
/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 63;

/// What does not hold.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) advice: String,
    /// The service that it is in.
    service: Option<String>,
}

impl Wrong {
    /// The first line that names its service, from 1; 0: it is in none.
    pub(super) fn line(&self, text: &str) -> usize {
        let Some(name) = &self.service else { return 0 };
        let says = |line: &str| line.contains("name") && line.contains(name.as_str());
        text.lines().position(says).map_or(0, |at| at + 1)
    }
}

fn wrong(what: String, advice: impl Into<String>) -> Wrong {
    Wrong { what, advice: advice.into(), service: None }
}

impl BalancerConfig {
    /// The first thing that does not hold.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        let services = self.services.len();
        if !(1..=BALANCER_SERVICES_MAX).contains(&services) {
            let advice = format!("it balances 1 to {BALANCER_SERVICES_MAX}");
            return Err(wrong(format!("there are {services} services"), advice));
        }
        within("sessions_max", self.sessions_max as u64, FUNCTION_FLOWS_MAX as u64)?;
        let times = &self.timeouts;
        for (name, seconds) in [
            ("timeouts.asked_s", times.asked_s),
            ("timeouts.established_s", times.established_s),
            ("timeouts.closed_s", times.closed_s),
            ("timeouts.udp_s", times.udp_s),
            ("timeouts.client_s", times.client_s),
        ] {
            within(name, seconds.into(), 10_000_000)?;
        }
        let mut ends = BTreeSet::new();
        let mut names = BTreeSet::new();
        for service in &self.services {
            let of = |wrong: Wrong| Wrong {
                what: format!("service {}: {}", service.name, wrong.what),
                service: Some(service.name.clone()),
                ..wrong
            };
            check_service(service).map_err(of)?;
            if !names.insert(&service.name) {
                let what = "another service has this name".to_owned();
                return Err(of(wrong(what, "give each service its own name")));
            }
            if !ends.insert((service.address, service.protocol, service.port)) {
                let what = "another service has its address, protocol and port".to_owned();
                return Err(of(wrong(what, "put the backends of both into one service")));
            }
        }
        self.check_all()
    }

    /// What holds for all services together.
    fn check_all(&self) -> Result<(), Wrong> {
        let backends: usize = self.services.iter().map(|service| service.backends.len()).sum();
        if backends > BALANCER_BACKENDS_IN_ALL_MAX {
            let what = format!("the services have {backends} backends together");
            return Err(wrong(what, format!("{BALANCER_BACKENDS_IN_ALL_MAX} are the most")));
        }
        let slots: u64 = self.services.iter().map(|service| u64::from(service.slots())).sum();
        if slots > BALANCER_SLOTS_MAX as u64 {
            let what = format!("the lookup tables have {slots} slots together");
            let advice = format!("{BALANCER_SLOTS_MAX} are the most: set smaller a `table_size`");
            return Err(wrong(what, advice));
        }
        let mut askers: BTreeMap<IpAddr, &str> = BTreeMap::new();
        for service in &self.services {
            let from = service.health.as_ref().map(|health| health.from);
            askers.extend(from.map(|from| (from, service.name.as_str())));
        }
        for service in &self.services {
            let backends = service.backends.iter().map(|backend| backend.address);
            for address in backends.chain([service.address]) {
                if let Some(name) = askers.get(&address) {
                    let what = format!("health checks of service {name} come from {address}");
                    let advice =
                        "that is a backend or a virtual address: name one that nobody else has";
                    return Err(Wrong { service: Some((*name).to_owned()), ..wrong(what, advice) });
                }
            }
            let is_virtual =
                |address: IpAddr| self.services.iter().any(|one| one.address == address);
            if let Some(both) = service.backends.iter().find(|backend| is_virtual(backend.address))
            {
                let (both, name) = (both.address, &service.name);
                let what = format!("{both} is a backend of {name} and a virtual address");
                return Err(wrong(what, "give the service an address of its own"));
            }
        }
        Ok(())
    }
}

fn within(name: &str, value: u64, most: u64) -> Result<(), Wrong> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(wrong(format!("{name} is {value}"), format!("it may be 1 to {most}")))
}

fn check_service(service: &ServiceConfig) -> Result<(), Wrong> {
    let is_printable = service.name.bytes().all(|byte| byte.is_ascii_graphic());
    if service.name.is_empty() || service.name.len() > NAME_BYTES_MAX || !is_printable {
        let what = "its name is none".to_owned();
        let advice =
            format!("a name is 1 to {NAME_BYTES_MAX} letters, digits and signs without spaces");
        return Err(wrong(what, advice));
    }
    within("port", service.port.into(), 65_535)?;
    check_address("address", service.address)?;
    let backends = service.backends.len();
    if !(1..=BALANCER_BACKENDS_MAX).contains(&backends) {
        let advice = format!("a service has 1 to {BALANCER_BACKENDS_MAX}");
        return Err(wrong(format!("it has {backends} backends"), advice));
    }
    let slots = service.slots();
    if slots < TABLE_SLOTS_MIN || slots as usize > BALANCER_SLOTS_MAX || !is_prime(slots) {
        let what = format!("table_size is {slots}");
        let advice = format!("it must be a prime from {TABLE_SLOTS_MIN} to {BALANCER_SLOTS_MAX}");
        return Err(wrong(what, advice));
    }
    let mut ends = BTreeSet::new();
    for backend in &service.backends {
        check_backend(service, backend)?;
        if !ends.insert((backend.address, backend.port)) {
            let what = format!("backend {} port {} stands twice", backend.address, backend.port);
            return Err(wrong(what, "give one of them the weight of both"));
        }
    }
    service.health.as_ref().map_or(Ok(()), |health| check_health(service, health))?;
    service.passive.as_ref().map_or(Ok(()), |passive| check_passive(service, passive))
}

fn check_backend(service: &ServiceConfig, backend: &BackendConfig) -> Result<(), Wrong> {
    let address = backend.address;
    if address.is_ipv4() != service.address.is_ipv4() {
        let what =
            format!("backend {address} is of another version of IP than {}", service.address);
        return Err(wrong(what, "make a service for each version"));
    }
    check_address("a backend's address", address)?;
    within(&format!("port of backend {address}"), backend.port.into(), 65_535)?;
    let weight = backend.weight;
    if weight == 0 {
        let what = format!("the weight of backend {address} is 0");
        return Err(wrong(what, "say `drain: true` where it shall take no new sessions"));
    }
    within(&format!("weight of backend {address}"), weight.into(), WEIGHT_MAX.into())?;
    if backend.mac.is_some_and(MacAddr::is_multicast) {
        let what = format!("the MAC of backend {address} is one of a group");
        return Err(wrong(what, "name that of the backend, or of the router before it"));
    }
    Ok(())
}

fn check_address(name: &str, address: IpAddr) -> Result<(), Wrong> {
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        let what = format!("{name} is {address}");
        return Err(wrong(what, "name one of a host that others reach"));
    }
    Ok(())
}

fn check_health(service: &ServiceConfig, health: &HealthConfig) -> Result<(), Wrong> {
    check_address("health.from", health.from)?;
    if health.from.is_ipv4() != service.address.is_ipv4() {
        let what = format!("health.from {} is of another version of IP", health.from);
        return Err(wrong(what, "name one of the version of the service"));
    }
    within("health.interval_ms", health.interval_ms.into(), 86_400_000)?;
    within("health.timeout_ms", health.timeout_ms.into(), health.interval_ms.into())?;
    within("health.rise", health.rise.into(), 255)?;
    within("health.fall", health.fall.into(), 255)?;
    if health.port.is_none() && service.protocol == ServiceProtocol::Udp {
        let what = "checks ask by TCP, and it speaks UDP".to_owned();
        return Err(wrong(what, "name the port of TCP that shall be asked, as health.port"));
    }
    within("health.port", health.port.unwrap_or(1).into(), 65_535)?;
    let path = &health.path;
    let is_path = path.starts_with('/')
        && path.len() <= PATH_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic());
    if health.kind == HealthKind::Http && !is_path {
        let what = format!("health.path is {path:?}");
        let advice =
            format!("a path begins with / and has at most {PATH_BYTES_MAX} signs without spaces");
        return Err(wrong(what, advice));
    }
    if health.mac.is_some_and(MacAddr::is_multicast) {
        return Err(wrong("health.mac is one of a group".into(), "name that of one host"));
    }
    Ok(())
}

fn check_passive(service: &ServiceConfig, passive: &PassiveConfig) -> Result<(), Wrong> {
    if service.protocol == ServiceProtocol::Udp {
        let what = "passive health counts answers to SYN, and it speaks UDP".to_owned();
        return Err(wrong(what, "leave `passive` out"));
    }
    within("passive.consecutive_failures", passive.consecutive_failures.into(), 1_000)?;
    within("passive.answer_ms", passive.answer_ms.into(), 60_000)?;
    within("passive.max_ejection_ms", passive.max_ejection_ms.into(), 86_400_000)?;
    within(
        "passive.base_ejection_ms",
        passive.base_ejection_ms.into(),
        passive.max_ejection_ms.into(),
    )?;
    within("passive.max_ejection_percent", passive.max_ejection_percent.into(), 100)
}

fn is_prime(number: u32) -> bool {
    let factors = (2..).take_while(|factor: &u32| factor.saturating_mul(*factor) <= number);
    number >= 2 && factors.into_iter().all(|factor| !number.is_multiple_of(factor))
}
