//! What a chain takes in the real planner's programs, node by node, beside the formulas of the paper.

use super::paper::{Spread, headers};
use crate::engine::wrong;
use crate::error::BenchError;
use crate::fabric::{Domain, FatTree, Place, Tenants};
use crate::results::Notes;
use catena_model::NodeName;
use catena_model::id::{ChainId, FunctionId};
use catena_model::resource::Encapsulation;
use catena_model::topology::{CableEnd, NodeRole};
use catena_plan::Programs;
use catena_plan::route::{Border, pathlets};

/// Ports of a switch of the tree that entries are counted in.
pub(super) const K: usize = 8;
/// Whose headers have no room for a chain, so that edges write some.
pub(super) const NARROW: Encapsulation = Encapsulation::SourceRouteSafe9;

/// What one chain makes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entries {
    /// Switches that its packets visit: what a network of rules has entries for.
    pub(super) visits: usize,
    /// Entries at switches beside those that they had before.
    pub(super) switches: usize,
    /// Headers that edges write, each over as many functions as it has room for.
    pub(super) headers: usize,
    /// Ports in all of them: the hosts' as well.
    pub(super) ports: usize,
    /// What hosts know: paths, rules, the numbers of ports, and the ways that headers are made of.
    pub(super) hosts: usize,
    /// Bytes of all changes that nodes are told.
    pub(super) bytes: usize,
}

/// Hosts for so many functions.
fn hosts(tree: &FatTree, spread: Spread, functions: usize) -> Result<Vec<NodeName>, BenchError> {
    let host = |number: usize| match spread {
        Spread::Pod => tree.host(0, number % (K / 2), number / (K / 2)),
        Spread::Pods => tree.host(number % K, number / K, 0),
    };
    (0..functions).map(host).collect()
}

/// Two machines at the gateway, and a function at each of these hosts.
fn placed(
    tree: &FatTree,
    hosts: &[NodeName],
    tenants: &mut Tenants,
) -> Result<(Place, Place, Vec<FunctionId>), BenchError> {
    let network = tenants.network()?;
    let gateway = tree.gateway()?;
    let source = tenants.machine(network, gateway.clone());
    let destination = tenants.machine(network, gateway);
    let mut chain = Vec::new();
    for host in hosts {
        let at = tenants.machine(network, host.clone());
        chain.push(tenants.function(&at));
    }
    Ok((source, destination, chain))
}

fn is_switch(tree: &FatTree, name: &NodeName) -> bool {
    tree.nodes.iter().any(|(node, role)| node == name && *role == NodeRole::Switch)
}

/// Headers of a chain where every switch is an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// That the planner has nodes write, hosts and edges.
    pub(super) written: usize,
    /// The fewest that end at functions or at edges.
    pub(super) fewest: usize,
    /// Where every header but the last is full of ports, and names no edge: ⌈ports ÷ room⌉ for each direction.
    pub(super) full: usize,
}

/// Those of one chain of so many functions from the gateway, and back, in a profile whose headers have room for ports
/// alone.
pub(super) fn cut(
    by: Encapsulation,
    spread: Spread,
    functions: usize,
    is_symmetric: bool,
) -> Result<Cut, BenchError> {
    let mut domain = Domain::of_edges(FatTree::new(K)?)?;
    let mut tenants = Tenants::default();
    let (source, destination, chain) =
        placed(&domain.tree, &hosts(&domain.tree, spread, functions)?, &mut tenants)?;
    domain.bind(&tenants.intent);
    let back = is_symmetric.then_some(&destination);
    let chain = tenants.chain_by(by, (&source, back), chain);
    domain.settle(&tenants.intent)?;
    domain.require(&tenants.intent, &[chain])?;
    let mut found = Cut { written: domain.headers().len(), fewest: 0, full: 0 };
    for ways in domain.routes() {
        let borders = borders(&domain.tree, &ways);
        let most = by.route_ports_max();
        let fewest = pathlets(&borders, most)
            .map_err(|at| wrong("the planner", &format!("no header leads past port {at}")))?;
        found.fewest += fewest.len();
        found.full += borders.len().div_ceil(most);
    }
    Ok(found)
}

/// Where headers may begin on the way of a path over all its functions, port by port: at hosts of functions, and at
/// switches.
fn borders(tree: &FatTree, ways: &[Vec<CableEnd>]) -> Vec<Border> {
    let of_way = |way: &Vec<CableEnd>| {
        let inside = way.iter().skip(1).map(|leg| match is_switch(tree, &leg.node) {
            true => Border::Named,
            false => Border::No,
        });
        std::iter::once(Border::May).chain(inside).collect::<Vec<_>>()
    };
    ways.iter().flat_map(of_way).collect()
}

/// One chain of so many functions from the gateway in an empty tree; and back.
pub(super) fn count(
    spread: Spread,
    functions: usize,
    is_symmetric: bool,
) -> Result<Entries, BenchError> {
    let hosts = hosts(&FatTree::new(K)?, spread, functions)?;
    Ok(OneChain::over(&hosts, is_symmetric)?.entries)
}

/// A tree in which there is nothing but one chain.
pub(super) struct OneChain {
    pub(super) domain: Domain,
    pub(super) tenants: Tenants,
    pub(super) chain: ChainId,
    pub(super) entries: Entries,
}

impl OneChain {
    /// From the gateway over functions at these hosts; and back.
    pub(super) fn over(hosts: &[NodeName], is_symmetric: bool) -> Result<Self, BenchError> {
        let mut domain = Domain::new(FatTree::new(K)?)?;
        let mut tenants = Tenants::default();
        let (source, destination, functions) = placed(&domain.tree, hosts, &mut tenants)?;
        domain.bind(&tenants.intent);
        domain.settle(&tenants.intent)?;
        let before = domain.blueprint().programs.clone();
        let back = is_symmetric.then_some(&destination);
        let chain = tenants.chain((&source, back), functions);
        let mut entries = Entries::default();
        let mut told = before.clone();
        while domain.step(&tenants.intent) {
            let programs = &domain.blueprint().programs;
            for (node, program) in programs.iter() {
                let Some(former) = told.get(node) else { continue };
                let changes = program.entries.changes_since(&former.entries);
                entries.bytes += changes.map(|change| change.bytes().len()).sum::<usize>();
            }
            told = programs.clone();
        }
        domain.require(&tenants.intent, &[chain])?;
        entries.count(&domain, &before);
        Ok(Self { domain, tenants, chain, entries })
    }
}

impl Entries {
    /// What nodes know beside what they knew before, and what the headers are.
    fn count(&mut self, domain: &Domain, before: &Programs) {
        let is_switch = |name: &_| is_switch(&domain.tree, name);
        for (node, program) in domain.blueprint().programs.iter() {
            let Some(former) = before.get(node) else { continue };
            if is_switch(node) {
                let tables = program.entries.since(&former.entries);
                self.switches += tables.map(|(_, diff)| diff.added + diff.removed).sum::<usize>();
                continue;
            }
            let own = &program.entries;
            let exits = own.exits.len() - former.entries.exits.len();
            let ways = own.routes.len() + own.onward.len();
            self.hosts += own.paths.len() + own.rules.len() + exits + ways;
        }
        let headers = domain.headers();
        self.headers = headers.len();
        self.ports = headers.iter().map(|header| header.ports).sum();
        let routes = domain.routes();
        self.visits = routes.iter().flatten().flatten().filter(|leg| is_switch(&leg.node)).count();
    }
}

/// Takes what a chain makes up for each number of functions.
#[allow(clippy::cast_precision_loss)]
pub(super) fn measure(notes: &mut Notes) -> Result<(), BenchError> {
    for functions in 1..=super::entry_figures::FUNCTIONS_MAX {
        for (spread, place) in super::entry_figures::SPREADS {
            for (is_symmetric, ways) in [(false, "one"), (true, "both")] {
                let found = count(spread, functions, is_symmetric)?;
                let mut take = |what: &str, is_ours, value: usize| {
                    let figure = format!("{what}_{place}_{ways}_{functions}");
                    notes.take(&figure, is_ours, value as f64);
                };
                take("entries", true, found.headers);
                take("entries", false, found.visits);
                take("ports", true, found.ports);
                take("hosts", true, found.hosts);
                take("told_bytes", true, found.bytes);
                notes.take("entries_at_switches", true, found.switches as f64);
                let cut = cut(NARROW, spread, functions, is_symmetric)?;
                let figure = format!("entries_edges_{place}_{ways}_{functions}");
                notes.take(&figure, true, cut.written as f64);
                notes.take(&figure, false, cut.fewest as f64);
                let figure = format!("entries_full_{place}_{ways}_{functions}");
                notes.take(&figure, true, cut.full as f64);
                if !is_symmetric {
                    let figure = format!("entries_formula_{place}_{functions}");
                    notes.take(&figure, true, headers(spread.switches(functions)) as f64);
                    notes.take(&figure, false, spread.switches(functions) as f64);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_takes_nothing_at_switches_and_no_more_headers_than_functions() {
        for functions in [1, 2, 5, 10, 15] {
            for spread in [Spread::Pod, Spread::Pods] {
                let one = count(spread, functions, false).unwrap();
                assert_eq!(one.switches, 0, "{spread:?}");
                let most = functions.div_ceil(if functions == 1 { 1 } else { 2 });
                assert!((1..=most).contains(&one.headers), "{spread:?}: {}", one.headers);
                assert_eq!(one.visits, spread.switches(functions), "{spread:?} {functions}");
                // The host's own link, and the port of the function, of each.
                assert_eq!(one.ports, one.visits + 2 * functions);
                let both = count(spread, functions, true).unwrap();
                assert_eq!((both.switches, both.visits), (0, 2 * one.visits));
                assert_eq!(both.ports, 2 * one.ports);
                assert!((2..=2 * most).contains(&both.headers), "{spread:?}: {}", both.headers);
            }
        }
    }
    #[test]
    fn where_every_switch_is_an_edge_headers_are_held_against_the_fewest_that_there_can_be() {
        let wide = Encapsulation::SourceRouteNative;
        for functions in [1, 2, 5, 10, 15] {
            for spread in [Spread::Pod, Spread::Pods] {
                let one = cut(NARROW, spread, functions, false).unwrap();
                let ports = spread.switches(functions) + 2 * functions;
                assert_eq!(one.full, ports.div_ceil(NARROW.route_ports_max()), "{spread:?}");
                assert!(one.full <= one.fewest, "{spread:?} {functions}: {one:?}");
                // A header that ends at an edge has a port less than one that ends at a function.
                assert!(one.fewest <= ports.div_ceil(NARROW.route_ports_max() - 1), "{one:?}");
                assert_eq!(one.fewest, one.written, "{spread:?} {functions}: {one:?}");
                let both = cut(NARROW, spread, functions, true).unwrap();
                assert_eq!(both.full, 2 * one.full);
                assert_eq!(both.fewest, both.written, "{spread:?} {functions}: {both:?}");
                // What has room in a header ends at no edge.
                let alone = count(spread, functions, false).unwrap().headers;
                assert_eq!(cut(wide, spread, functions, false).unwrap().written, alone);
            }
        }
    }
}
