//! Where the functions of a chain could stand: hosts for those that are free, so that its packets touch the fewest
//! racks and have the fewest ports in their headers. Knows cables and what is declared; refuses to know who starts a
//! function there: nothing is changed.

mod search;

use crate::atlas::Atlas;
use crate::blueprint::Blueprint;
use crate::cables::{doubted, remembered, sound};
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::inventory::{Inventory, NodeFacts};
use crate::route::{Border, Search, pathlets};
use crate::selector::rewritten_by;
use crate::topology::Topology;
use crate::ways::Roads;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::placement::{PlacedFunction, PlacementRequest, Proposal, WayCost};
use catena_model::resource::{Chain, Encapsulation, ServiceFunction};
use catena_model::topology::NodeRole;
use search::{Cost, Found, Ground, Puzzle, Station};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Free functions of one chain whose hosts are all weighed; of more, those that promise most.
pub const PROVED_FUNCTIONS_MAX: usize = 8;
/// Hosts that are weighed against one another.
pub const PLACEMENT_HOSTS_MAX: usize = 1_024;
/// Ports in one header, by the paper's encoding.
const PATHLET_PORTS: usize = 10;

/// Hosts for the free functions of chains, each chain on its own: those that stand nowhere, and those that are named.
#[must_use]
pub fn placements(
    current: &Blueprint,
    intent: &Intent,
    inventory: &Inventory,
    chains: &[&Chain],
    request: &PlacementRequest,
) -> Vec<Proposal> {
    let hosts = Hosts::of(current, inventory);
    let graphs = Graphs::of(intent);
    let one = |chain: &&Chain| {
        let name = chain.name();
        let proposal = hosts
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|hosts| Asked { hosts, intent, graphs: &graphs, chain, request }.proposal());
        proposal.unwrap_or_else(|trouble| Proposal {
            chain: name,
            trouble: Some(trouble),
            functions: Vec::new(),
            now: None,
            proposed: None,
            racks_least: 0,
            ports_least: 0,
            is_proved: false,
        })
    };
    chains.iter().map(one).collect()
}

/// The hosts, and how far they are from one another.
struct Hosts {
    names: Vec<NodeName>,
    numbers: BTreeMap<NodeName, usize>,
    ground: Ground,
    /// The switches of each rack; of a host without any, itself.
    racks: Vec<BTreeSet<NodeName>>,
    /// Some switch between writes headers.
    has_edges: bool,
}

impl Hosts {
    fn of(current: &Blueprint, inventory: &Inventory) -> Result<Self, String> {
        let names: Vec<NodeName> = inventory.nodes.keys().cloned().collect();
        if names.len() > PLACEMENT_HOSTS_MAX {
            return Err(format!(
                "there are {} hosts, and at most {PLACEMENT_HOSTS_MAX} are weighed",
                names.len()
            ));
        }
        let ledger = &current.ledger;
        // Those of the last blueprint may have gone: without a chain over them nothing is planned then.
        let cables = Arc::new(remembered(&ledger.cables, inventory, &ledger.port_numbers));
        let sound = sound(&cables, &doubted(&cables, &inventory.told));
        let roads = Roads::new(&sound, inventory, ledger.choice_seed, Atlas::default());
        let topology = roads.topology();
        let (mut numbered, mut racks) = (BTreeMap::new(), Vec::new());
        let of_hosts = names.iter().map(|name| {
            let rack = rack(topology, name);
            *numbered.entry(rack.clone()).or_insert_with(|| {
                racks.push(rack);
                racks.len() - 1
            })
        });
        let ground = Ground {
            racks: of_hosts.collect(),
            takes: inventory.nodes.values().map(|facts| facts.is_connected).collect(),
            ports: ports(topology, &names),
        };
        let numbers = names.iter().cloned().zip(0..).collect();
        let has_edges = inventory.switches.values().any(NodeFacts::writes_headers);
        Ok(Self { names, numbers, ground, racks, has_edges })
    }

    fn number(&self, name: &NodeName) -> Result<usize, String> {
        let number = self.numbers.get(name).copied();
        number.ok_or_else(|| format!("node '{name}' is no host that has ever connected"))
    }
}

/// The switches that the links of a host lead to.
fn rack(topology: &Topology, host: &NodeName) -> BTreeSet<NodeName> {
    let edges = topology.number(host).map(|number| topology.edges(number)).unwrap_or_default();
    let is_switch = |edge: &&crate::topology::Edge| topology.kind(edge.to).role == NodeRole::Switch;
    let switches = edges.iter().filter(is_switch).map(|edge| topology.name(edge.to).clone());
    let rack: BTreeSet<NodeName> = switches.collect();
    if rack.is_empty() { BTreeSet::from([host.clone()]) } else { rack }
}

/// Ports of the header from each host to a function on each other: those of the cables, and that of the function.
fn ports(topology: &Topology, names: &[NodeName]) -> Vec<Vec<Option<u32>>> {
    let numbers: Vec<_> = names.iter().map(|name| topology.number(name)).collect();
    let mut ports = vec![vec![None; names.len()]; names.len()];
    for (to, end) in numbers.iter().enumerate() {
        let Some(search) = end.map(|end| Search::towards(topology, end)) else { continue };
        for (from, start) in numbers.iter().enumerate() {
            let cables = start.and_then(|start| search.cables(start));
            ports[from][to] = cables.and_then(|cables| u32::try_from(cables + 1).ok());
        }
    }
    ports
}

struct Asked<'a> {
    hosts: &'a Hosts,
    intent: &'a Intent,
    graphs: &'a Graphs<'a>,
    chain: &'a Chain,
    request: &'a PlacementRequest,
}

/// A function on the way.
struct Stage {
    name: String,
    now: BTreeSet<usize>,
    is_free: bool,
    /// No header goes through it.
    rewrites: bool,
}

impl Asked<'_> {
    fn proposal(&self) -> Result<Proposal, String> {
        let stages = self.stages()?;
        let ground = self.ground();
        let begins = Station::At(self.begins()?.into_iter().collect());
        let puzzle = |station: &dyn Fn(&Stage) -> Station| Puzzle {
            ground: &ground,
            stations: std::iter::once(begins.clone()).chain(stages.iter().map(station)).collect(),
            per_host: self.request.per_host,
        };
        let standing = |stage: &Stage| Station::At(stage.now.iter().copied().collect());
        let is_whole = stages.iter().all(|stage| !stage.now.is_empty());
        let now = is_whole.then(|| puzzle(&standing)).and_then(|now| {
            let cost = now.cost(&[])?;
            Some(self.told(&now, &[], cost, &stages))
        });
        let wanted = puzzle(&|stage| if stage.is_free { Station::Free } else { standing(stage) });
        let free = stages.iter().filter(|stage| stage.is_free).count();
        let found = wanted.solve(free <= PROVED_FUNCTIONS_MAX);
        let found = found.ok_or_else(|| self.why_none(&ground, free))?;
        let Found { hosts, cost, bound } = &found;
        let mut chosen = hosts.iter();
        let functions = stages.iter().map(|stage| {
            let host = stage.is_free.then(|| chosen.next().copied()).flatten();
            PlacedFunction {
                function: stage.name.clone(),
                now: stage.now.iter().map(|host| self.hosts.names[*host].clone()).collect(),
                rack: host.map(|host| self.rack_of(host)).unwrap_or_default(),
                host: host.map(|host| self.hosts.names[host].clone()),
            }
        });
        Ok(Proposal {
            chain: self.chain.name(),
            trouble: None,
            functions: functions.collect(),
            now,
            proposed: Some(self.told(&wanted, hosts, *cost, &stages)),
            racks_least: bound.racks,
            ports_least: bound.ports as usize,
            is_proved: bound == cost,
        })
    }

    fn rack_of(&self, host: usize) -> Vec<NodeName> {
        self.hosts.racks[self.hosts.ground.racks[host]].iter().cloned().collect()
    }

    /// The distances that headers of the chain's encapsulation reach.
    fn ground(&self) -> Ground {
        let mut ground = self.hosts.ground.clone();
        let carrier: Encapsulation = self.chain.encapsulation;
        // Over switches that are edges headers follow one another.
        if carrier.is_source_route() && !self.hosts.has_edges {
            let fits = |ports: u32| ports as usize <= carrier.route_ports_max();
            ground.ports.iter_mut().flatten().for_each(|ports| *ports = ports.filter(|n| fits(*n)));
        }
        ground
    }

    /// The functions that packets go through. A tap gets copies, which go ways of their own.
    fn stages(&self) -> Result<Vec<Stage>, String> {
        let mut stages = Vec::new();
        for id in &self.chain.functions {
            let function = self.intent.functions.get(id);
            let function = function.ok_or_else(|| format!("function {id} does not exist"))?;
            let (name, now) = (function.name(), self.standing(function)?);
            let is_free = now.is_empty() || self.request.free.contains(&name);
            match function.is_tap {
                true if is_free => {
                    return Err(format!(
                        "function '{name}' is a tap: where copies go is not weighed; bind its port to a host"
                    ));
                }
                true => {}
                false => {
                    let rewrites = !rewritten_by(function).is_empty();
                    stages.push(Stage { name, now, is_free, rewrites });
                }
            }
        }
        Ok(stages)
    }

    /// The hosts where the instances of a function stand, as their ports say; where no port says it, those on which its
    /// template wants them.
    fn standing(&self, function: &ServiceFunction) -> Result<BTreeSet<usize>, String> {
        let instances = function.instances.iter().filter_map(|id| self.intent.instances.get(id));
        let mut nodes = instances.filter_map(|instance| self.node_of(instance.ingress)).peekable();
        let wanted = function.template.iter().filter(|_| nodes.peek().is_none());
        let wanted: Vec<&NodeName> = wanted.flat_map(|template| &template.on).collect();
        nodes.chain(wanted).map(|node| self.hosts.number(node)).collect()
    }

    fn node_of(&self, port: PortId) -> Option<&NodeName> {
        self.intent.ports.get(&port)?.node.as_ref()
    }

    /// The hosts where packets enter the chain; none: at any, or where another chain ends.
    fn begins(&self) -> Result<BTreeSet<usize>, String> {
        if self.graphs.is_joined(self.chain.id) {
            return Ok(BTreeSet::new());
        }
        let rules = self.chain.rules.iter().filter_map(|id| self.intent.rules.get(id));
        let nodes: Option<Vec<&NodeName>> =
            rules.map(|rule| rule.source_port.and_then(|port| self.node_of(port))).collect();
        let nodes = nodes.unwrap_or_default().into_iter();
        nodes.map(|node| self.hosts.number(node)).collect()
    }

    fn why_none(&self, ground: &Ground, free: usize) -> String {
        let per_host = self.request.per_host;
        let there = ground.takes.iter().filter(|takes| **takes).count();
        if there.saturating_mul(per_host) < free {
            return format!(
                "{free} functions are to be placed, and {there} hosts are there that take {per_host} each: let a host \
                 take more (--per-host)"
            );
        }
        if free > PROVED_FUNCTIONS_MAX {
            return format!(
                "no hosts were found whose cables a header reaches over from each function to the next; of more than \
                 {PROVED_FUNCTIONS_MAX} functions not every choice is looked at: let fewer be free, or a host take \
                 more (--per-host)"
            );
        }
        "no hosts that have room are joined by cables over which a header reaches from each function to the next; \
         'catena link list' shows what was found, and --per-host lets a host take more functions"
            .into()
    }

    fn told(&self, puzzle: &Puzzle<'_>, chosen: &[usize], cost: Cost, stages: &[Stage]) -> WayCost {
        let mut borders = Vec::new();
        let mut first = Border::May;
        let legs = puzzle.legs(chosen).unwrap_or_default();
        for (place, ports) in legs.into_iter().enumerate() {
            if ports > 0 {
                let between = std::iter::repeat_n(Border::No, ports.saturating_sub(2) as usize);
                borders.extend(std::iter::once(first).chain(between).chain([Border::May]));
                first = Border::May;
            }
            if stages[place].rewrites {
                first = Border::Must;
            }
        }
        let pathlets = pathlets(&borders, PATHLET_PORTS).ok().map(|found| found.len());
        WayCost { racks: cost.racks, ports: cost.ports as usize, pathlets }
    }
}
