//! The names of a lab: hosts, switches, plain switches, routers, and that none is given twice. Refuses to know how they
//! are plugged together (see `links`).

use super::document::Document;
use super::error::Fault;
use super::links::DATA_BRIDGE;
use super::routers;
use super::validate::{INTERFACE_NAME_BYTES_MAX, unknown};

/// Most hosts of a lab, and most switches; each gets an address of a /24.
pub(crate) const HOSTS_MAX: usize = 100;

/// What a lab file plugs together.
pub(crate) struct Topology {
    pub(crate) hosts: Vec<String>,
    /// Switches that read source routes.
    pub(crate) switches: Vec<String>,
    /// Those of them that are edges.
    pub(crate) edges: Vec<String>,
    /// Plain switches that the file names.
    pub(crate) bridges: Vec<String>,
    /// Plain machines that route between them.
    pub(crate) routers: Vec<String>,
}

impl Topology {
    /// The names of a file.
    pub(crate) fn of(document: &Document) -> Result<Self, Fault> {
        let plain = |name: String| {
            let advice = format!("give it a role: {name}: {{role: switch, edge: true}}");
            Fault::new(
                format!("switches.{name}.edge"),
                "is for switches that read source routes",
                advice,
            )
        };
        let topology = Self {
            edges: document.switches.edges().map_err(plain)?,
            hosts: document.hosts.names().map(str::to_owned).collect(),
            switches: document.switches.names(true),
            bridges: document.switches.names(false),
            routers: routers::names(document)?,
        };
        if topology.hosts.is_empty() {
            let advice = "declare at least one: hosts: {host1: {}}";
            return Err(Fault::new("hosts", "is empty", advice));
        }
        for (section, names) in [("hosts", &topology.hosts), ("switches", &topology.switches)] {
            if names.len() > HOSTS_MAX {
                let problem = format!("holds {} {section}", names.len());
                return Err(Fault::new(section, problem, format!("use at most {HOSTS_MAX}")));
            }
        }
        topology.check_names(document)?;
        Ok(topology)
    }

    fn check_names(&self, document: &Document) -> Result<(), Fault> {
        let sections = [
            ("hosts", names_of(&self.hosts)),
            ("switches", [names_of(&self.switches), names_of(&self.bridges)].concat()),
            ("routers", names_of(&self.routers)),
            ("endpoints", document.endpoints.names().collect()),
            ("functions", document.functions.names().collect()),
        ];
        let mut seen: Vec<&str> = vec!["mgmt", "controller"];
        let mut taken = "'mgmt' and 'controller' are the lab's".to_owned();
        if self.bridges.is_empty() && !document.links.is_empty() {
            seen.push(DATA_BRIDGE);
            taken = format!("'mgmt', 'controller' and '{DATA_BRIDGE}' are the lab's");
        }
        for (section, names) in sections {
            for name in names {
                let key = format!("{section}.{name}");
                plain_name(name, &key)?;
                if seen.contains(&name) {
                    let advice = format!(
                        "give every host, switch, router, endpoint and function its own name; {taken}"
                    );
                    return Err(Fault::new(key, format!("the name '{name}' is taken"), advice));
                }
                seen.push(name);
            }
        }
        let mut networks = document.networks.names();
        networks.try_for_each(|name| plain_name(name, &format!("networks.{name}")))
    }

    /// Everything that runs an agent.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().chain(&self.switches).map(String::as_str)
    }

    /// Can something of a tenant's be attached there?
    pub(crate) fn check_host(&self, key: &str, on: &str) -> Result<(), Fault> {
        let hosts = || self.hosts.iter().map(String::as_str);
        if self.switches.iter().any(|switch| switch == on) {
            let problem = format!("'{on}' is a switch, and has no ports of tenants");
            let advice = format!("name a host: {}", hosts().collect::<Vec<_>>().join(", "));
            return Err(Fault::new(key, problem, advice));
        }
        match hosts().any(|host| host == on) {
            true => Ok(()),
            false => Err(unknown(key, "host", on, hosts())),
        }
    }
}

fn names_of(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn plain_name(name: &str, key: &str) -> Result<(), Fault> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if starts_well && name.len() < INTERFACE_NAME_BYTES_MAX && name.chars().all(legal) {
        return Ok(());
    }
    let advice = format!(
        "use up to {} letters, digits and '_', starting with a letter or digit",
        INTERFACE_NAME_BYTES_MAX - 1
    );
    Err(Fault::new(key, format!("'{name}' cannot name it"), advice))
}
