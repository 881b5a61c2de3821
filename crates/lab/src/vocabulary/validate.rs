//! From a document to a lab: every name must refer to something. Knows what is wrong and what to
//! do about it; refuses to read files or to know addresses.

use super::bundled::Bundled;
use super::document::{Document, EndpointEntry, FunctionEntry};
use super::error::Fault;
use super::lab::{Endpoint, Function, Lab, Network};
use super::links::{self, Cabling};
use super::load::Loaded;
use super::ordered::Ordered;
use super::topology::Topology;
use super::validate_run as run;
use catena_model::limits::TENANT_MTU_BYTES;
use ipnet::IpNet;
use std::path::Path;

/// Longest name of an interface, in bytes (IFNAMSIZ less the final zero).
pub(crate) const INTERFACE_NAME_BYTES_MAX: usize = 15;
/// Longest name of a lab, in bytes.
pub(crate) const LAB_NAME_BYTES_MAX: usize = 48;
/// Smallest MTU that IPv6 allows, in bytes (RFC 8200 section 5).
pub(crate) const MTU_BYTES_MIN: u32 = 1_280;
/// Largest MTU of a cable, in bytes.
pub(crate) const MTU_BYTES_MAX: u32 = 9_216;

pub(crate) fn lab_of(loaded: &Loaded, file: &Path) -> Result<Lab, Fault> {
    let document = &loaded.document;
    let name = lab_name(document)?;
    let topology = Topology::of(document)?;
    let networks = networks(document)?;
    let endpoints = endpoints(document, &topology, &networks)?;
    let functions = functions(document, &topology, &networks)?;
    let bundled = super::bundled::understand(document, &topology, &networks)?;
    gateways(&networks, &endpoints)?;
    routes(&networks, &endpoints, &bundled)?;
    let Cabling { bridges, links, cables } = links::understand(document, &topology, &networks)?;
    let Topology { hosts, switches, edges, routers, .. } = topology;
    let mut lab = Lab {
        file: file.to_path_buf(),
        title: document.title.clone().unwrap_or_else(|| name.clone()),
        name,
        hosts,
        function_threads: super::threads::understand(document)?,
        underlay: document.underlay,
        bridges,
        switches,
        edges,
        routers,
        links,
        cables,
        networks,
        endpoints,
        functions,
        bundled,
        programs: Vec::new(),
        chains: Vec::new(),
        traffic: Vec::new(),
        calls: Vec::new(),
        updates: None,
        faults: Vec::new(),
        kills: Vec::new(),
        users: None,
        capture: document.capture.at.clone(),
        captures_links: document.capture.links,
        sweep: super::lab::Sweep::default(),
        checks: run::statements(&document.check, "check")?,
        goals: run::statements(&document.goal, "goal")?,
        plots: Vec::new(),
        merged: loaded.merged.clone(),
    };
    lab.programs = super::programs::standing(document, &lab)?;
    lab.chains = run::chains(document, &lab)?;
    lab.sweep = run::sweep(document, &lab)?;
    lab.updates = super::updates::understand(document, &lab)?;
    lab.bundled = super::rule_sets::begin(&lab);
    (lab.faults, lab.kills) = super::faults::understand(document, &lab)?;
    lab.users = super::users::understand(document, &lab)?;
    lab.traffic = super::validate_traffic::traffic(document, &lab)?;
    lab.calls = super::programs::calls(document, &lab)?;
    run::expect_programs(&mut lab);
    lab.plots = run::plots(document, &lab)?;
    run::carriers(&lab)?;
    super::bundled::check(&lab)?;
    run::references(&lab)?;
    Ok(lab)
}

fn lab_name(document: &Document) -> Result<String, Fault> {
    let advice = "name the lab with letters, digits and '-'";
    let name = document.name.clone().ok_or_else(|| Fault::new("name", "is missing", advice))?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > LAB_NAME_BYTES_MAX || !name.chars().all(legal) {
        return Err(Fault::new("name", format!("'{name}' is not a lab name"), advice));
    }
    Ok(name)
}

pub(crate) fn unknown<'a>(
    key: &str,
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Fault {
    let known: Vec<&str> = known.collect();
    let advice = if known.is_empty() {
        format!("declare the {kind} first")
    } else {
        format!("name one of {}", known.join(", "))
    };
    Fault::new(key, format!("no {kind} is named '{}'", name.trim()), advice)
}

fn networks(document: &Document) -> Result<Ordered<Network>, Fault> {
    let mut networks = Vec::new();
    for (name, entry) in document.networks.iter() {
        let key = format!("networks.{name}.cidrs");
        let of_family =
            |is_v4: bool| entry.cidrs.iter().filter(|cidr| cidr.addr().is_ipv4() == is_v4).count();
        if entry.cidrs.is_empty() || of_family(true) > 1 || of_family(false) > 1 {
            let problem = "needs one prefix of a family, or one of each";
            let advice = "write cidrs: [10.10.0.0/24, 'fd00:10::/64']";
            return Err(Fault::new(key, problem, advice));
        }
        let mtu = entry.mtu.unwrap_or(u32::from(TENANT_MTU_BYTES));
        if !(MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(&mtu) {
            let advice = format!("use {MTU_BYTES_MIN} to {MTU_BYTES_MAX} bytes");
            let key = format!("networks.{name}.mtu");
            return Err(Fault::new(key, format!("{mtu} is no MTU"), advice));
        }
        let network = Network {
            cidrs: entry.cidrs.iter().map(IpNet::trunc).collect(),
            gateway: entry.gateway.clone(),
            mtu,
        };
        networks.push((name.to_owned(), network));
    }
    Ok(networks.into_iter().collect())
}

fn gateways(networks: &Ordered<Network>, endpoints: &Ordered<Endpoint>) -> Result<(), Fault> {
    for (name, network) in networks.iter() {
        let Some(gateway) = &network.gateway else { continue };
        let key = format!("networks.{name}.gateway");
        let endpoint = endpoints
            .get(gateway)
            .ok_or_else(|| unknown(&key, "endpoint", gateway, endpoints.names()))?;
        if !endpoint.networks.iter().any(|network| network == name) {
            let problem = format!("endpoint '{gateway}' is not on network '{name}'");
            return Err(Fault::new(key, problem, "attach it there, or name another"));
        }
    }
    Ok(())
}

/// Endpoints reach other networks by functions that have a port in both.
fn routes(
    networks: &Ordered<Network>,
    endpoints: &Ordered<Endpoint>,
    bundled: &Ordered<Bundled>,
) -> Result<(), Fault> {
    for (name, endpoint) in endpoints.iter() {
        for (network, by) in endpoint.routes.iter() {
            let key = format!("endpoints.{name}.routes.{network}");
            if !networks.contains(network) {
                return Err(unknown(&key, "network", network, networks.names()));
            }
            if endpoint.networks.iter().any(|own| own == network) {
                let problem = format!("'{name}' is on network '{network}' itself");
                return Err(Fault::new(key, problem, "leave it out"));
            }
            let function = bundled
                .get(by)
                .ok_or_else(|| unknown(&key, "bundled function", by, bundled.names()))?;
            let has = |wanted: &str| function.networks.iter().any(|one| one == wanted);
            if !has(network) || !endpoint.networks.iter().any(|own| has(own)) {
                let problem = format!("'{by}' does not lead from '{name}' to '{network}'");
                let advice = "give it a port in both networks";
                return Err(Fault::new(key, problem, advice));
            }
        }
    }
    Ok(())
}

fn endpoints(
    document: &Document,
    topology: &Topology,
    networks: &Ordered<Network>,
) -> Result<Ordered<Endpoint>, Fault> {
    let one = |(name, entry): (&str, &EndpointEntry)| {
        let key = format!("endpoints.{name}");
        let (on, networks) =
            attachment(&key, entry.on.as_deref(), &entry.networks, topology, networks)?;
        interface_names(&key, name, &networks)?;
        Ok((name.to_owned(), Endpoint { on, networks, routes: entry.routes.clone() }))
    };
    document.endpoints.iter().map(one).collect()
}

fn functions(
    document: &Document,
    topology: &Topology,
    networks: &Ordered<Network>,
) -> Result<Ordered<Function>, Fault> {
    let one = |(name, entry): (&str, &FunctionEntry)| {
        let key = format!("functions.{name}");
        let (on, networks) =
            attachment(&key, entry.on.as_deref(), &entry.networks, topology, networks)?;
        interface_names(&key, name, &networks)?;
        for (ingress, egress) in entry.routes.iter() {
            for side in [ingress, egress.as_str()] {
                if !networks.iter().any(|network| network == side) {
                    let key = format!("{key}.routes.{ingress}");
                    let problem = format!("'{name}' has no port on network '{side}'");
                    let advice = format!("use its networks: {}", networks.join(", "));
                    return Err(Fault::new(key, problem, advice));
                }
            }
        }
        Ok((name.to_owned(), Function { on, networks, routes: entry.routes.clone() }))
    };
    document
        .functions
        .iter()
        .filter(|(_, entry)| entry.bundled.is_none() && entry.command.is_empty())
        .map(one)
        .collect()
}

/// The host and the networks of a thing.
pub(super) fn attachment(
    key: &str,
    on: Option<&str>,
    attached: &[String],
    topology: &Topology,
    networks: &Ordered<Network>,
) -> Result<(String, Vec<String>), Fault> {
    let host_key = format!("{key}.on");
    let on =
        on.ok_or_else(|| Fault::new(&host_key, "is missing", "say which host it is attached to"))?;
    topology.check_host(&host_key, on)?;
    let networks_key = format!("{key}.networks");
    if attached.is_empty() {
        return Err(Fault::new(networks_key, "is empty", "attach it to at least one network"));
    }
    for (index, network) in attached.iter().enumerate() {
        if !networks.contains(network) {
            return Err(unknown(&networks_key, "network", network, networks.names()));
        }
        if attached.iter().take(index).any(|before| before == network) {
            let problem = format!("names '{network}' twice");
            return Err(Fault::new(networks_key, problem, "attach it once to a network"));
        }
    }
    Ok((on.to_owned(), attached.to_vec()))
}

/// Its cables have names.
fn interface_names(key: &str, name: &str, networks: &[String]) -> Result<(), Fault> {
    let is_long = |network: &&String| name.len() + 1 + network.len() > INTERFACE_NAME_BYTES_MAX;
    networks.iter().find(is_long).map_or(Ok(()), |network| {
        let problem = format!(
            "the interface '{name}.{network}' would have more than {INTERFACE_NAME_BYTES_MAX} letters"
        );
        Err(Fault::new(format!("{key}.networks"), problem, "shorten one of the two names"))
    })
}
