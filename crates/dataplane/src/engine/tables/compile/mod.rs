//! From a program to tables: those of the program before are changed as far as the two programs differ,
//! and nothing else is looked at. Tables of a program alone follow those of an empty one.
//!
//! What an entry is made into depends on the entries that it names. `names` says who names what, so that
//! whatever came, went or changed turns those that depend on it, in this order: nodes, networks, ports,
//! MACs and addresses, paths, rules, pins, slices. All keep their indexes as long as they are there.

mod exits;
mod networks;
mod paths;
mod ports;
mod rules;
mod slices;
#[cfg(test)]
mod tests;

use crate::engine::error::{CompileError, at_most};
use crate::engine::tables::descent::{Changed, Descent};
use crate::engine::tables::names::Referrer;

use super::Tables;
use super::dependency::met_by_rule;
use super::slices::Scope;
use catena_model::entry::{Entries, Program};
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::limits::{
    NODE_ADDRESSES_MAX, NODE_ONWARD_MAX, NODE_PATHS_MAX, NODE_PORTS_MAX, NODE_RULES_MAX,
    NODE_SLICES_MAX,
};
use catena_model::{NodeProgram, PathId};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What has to be made anew, step by step.
#[derive(Default)]
struct Turned {
    networks: BTreeSet<NetworkId>,
    ports: BTreeSet<PortId>,
    /// Ports that paths want other things of.
    used: BTreeSet<PortId>,
    /// Lines of the MAC table, by their keys.
    macs: BTreeSet<PortId>,
    /// Networks whose addresses are others.
    lines: BTreeSet<NetworkId>,
    paths: BTreeSet<PathId>,
    /// Those of them that deliver elsewhere.
    moved: BTreeSet<PathId>,
    watched: BTreeSet<u32>,
    /// Rules, by number.
    rules: BTreeSet<u32>,
    /// Paths that rules may join with others.
    joined: BTreeSet<PathId>,
    /// Paths that flows now enter whom pins may keep on others.
    pins: BTreeSet<PathId>,
    /// Chains whose end came or went.
    chains: BTreeSet<ChainId>,
    /// Places whose rules are others.
    places: BTreeSet<Scope>,
    /// Ports that came or went.
    slice_ports: BTreeSet<PortId>,
    /// Paths that users of slices may pass.
    taken: BTreeSet<PathId>,
}

impl Turned {
    fn take(&mut self, users: impl Iterator<Item = Referrer>) {
        for user in users {
            match user {
                Referrer::Path(path) => drop(self.paths.insert(path)),
                Referrer::Rule(number) => drop(self.rules.insert(number)),
                Referrer::Pins(path) => drop(self.pins.insert(path)),
                Referrer::Port(port) => drop(self.ports.insert(port)),
                Referrer::Mac(key) => drop(self.macs.insert(key)),
            }
        }
    }
}

/// One program on its way to tables.
struct Following<'f> {
    former: &'f Tables,
    entries: &'f Entries,
    next: Tables,
    turned: Turned,
    changed: Changed,
}

/// An entry before and after.
type Edited<'e, K, E> = (K, Option<&'e Arc<E>>, Option<&'e Arc<E>>);

/// What differs in a table of entries.
fn edits<'e, K: Ord + Clone, E: PartialEq>(
    former: &'e OrdMap<K, Arc<E>>,
    now: &'e OrdMap<K, Arc<E>>,
) -> Vec<Edited<'e, K, E>> {
    let edits = former.diff(now).map(|item| match item {
        DiffItem::Add(key, entry) => (key.clone(), None, Some(entry)),
        DiffItem::Update { old: (key, old), new: (_, new) } => (key.clone(), Some(old), Some(new)),
        DiffItem::Remove(key, entry) => (key.clone(), Some(entry), None),
    });
    edits.collect()
}

/// Where more rules than that would have to be held against one another, all that they could take has
/// changed.
const COMPARISONS_MAX: usize = 10_000_000;

impl Tables {
    /// Looks for what was decided that rules which came or moved may take, so that nothing else the
    /// kernel repeats has to end. Who makes tables has time to; who forwards has none.
    pub fn weigh(&mut self) {
        let placed = std::mem::take(&mut self.descent.changed.placed);
        if placed.len().saturating_mul(self.entries.rules.len()) <= COMPARISONS_MAX {
            let mut met = BTreeSet::new();
            placed.iter().for_each(|number| met_by_rule(self, *number, &mut met));
            self.descent.changed.met = Some(met);
        }
    }

    /// The tables of a program, made of these, which stay as they are. It costs in proportion to what
    /// differs. Slices put in by hand are not in it.
    ///
    /// # Errors
    /// When the program contradicts itself or exceeds a limit of `catena_model::limits`.
    pub fn following(&self, program: &Program) -> Result<Tables, CompileError> {
        let entries = &program.entries;
        check_lengths(entries)?;
        let next =
            Self { number: program.number, entries: entries.clone(), ..self.without_injected() };
        let (turned, changed) = (Turned::default(), Changed::default());
        let mut following = Following { former: self, entries, next, turned, changed };
        following.run()?;
        let Following { mut next, mut changed, .. } = following;
        changed.paths.append(&mut next.descent.changed.paths);
        next.descent = Descent::of(&self.descent, changed);
        Ok(next)
    }

    /// The tables of a program alone.
    ///
    /// # Errors
    /// As [`Tables::following`], and when two entries of the program have the same key.
    pub fn compile(program: &NodeProgram) -> Result<Tables, CompileError> {
        let entries = program.entries();
        check_lists(program, &entries)?;
        let all = Program { number: program.number, entries, ..Program::default() };
        Self::empty(program.node.clone()).following(&all)
    }
}

impl Following<'_> {
    fn run(&mut self) -> Result<(), CompileError> {
        self.follow_own();
        self.follow_nodes();
        self.follow_networks()?;
        self.follow_ports()?;
        self.follow_exits()?;
        self.follow_lines();
        self.make_networks();
        self.take_slices_out();
        self.follow_paths()?;
        self.follow_rules()?;
        self.join();
        self.follow_pins();
        self.put_slices_in()?;
        let taken = std::mem::take(&mut self.turned.taken);
        self.next.retake(taken.into_iter().chain(self.turned.paths.iter().copied()));
        self.make_ports();
        self.note_entered();
        Ok(())
    }
}

fn check_lengths(entries: &Entries) -> Result<(), CompileError> {
    // Ports, networks and nodes are counted in 16 bits; NODE_PORTS_MAX is below that.
    at_most("ports", entries.ports.len(), NODE_PORTS_MAX)?;
    at_most("networks", entries.networks.len(), NODE_PORTS_MAX)?;
    at_most("nodes", entries.tunnels.len(), NODE_PORTS_MAX)?;
    at_most("rules", entries.rules.len(), NODE_RULES_MAX)?;
    at_most("paths", entries.paths.len(), NODE_PATHS_MAX)?;
    at_most("chains", entries.chains.len(), NODE_PATHS_MAX)?;
    at_most("pins", entries.pins.len(), NODE_PATHS_MAX)?;
    at_most("MACs", entries.macs.len(), NODE_ADDRESSES_MAX)?;
    at_most("addresses", entries.neighbours.len(), NODE_ADDRESSES_MAX)?;
    at_most("set-ups", entries.setups.len(), NODE_PATHS_MAX)?;
    at_most("routes", entries.routes.len(), NODE_PATHS_MAX)?;
    at_most("borders of routes", entries.borders.len(), NODE_PATHS_MAX)?;
    at_most("edges on ways over functions", entries.stitches.len(), NODE_PATHS_MAX)?;
    at_most("ways between other nodes", entries.onward.len(), NODE_ONWARD_MAX)?;
    at_most("slices", entries.slices.len(), NODE_SLICES_MAX)?;
    at_most("paths of slices", entries.slice_paths.len(), NODE_SLICES_MAX)
}

/// Lists, unlike entries, may say two things of one.
fn check_lists(program: &NodeProgram, entries: &Entries) -> Result<(), CompileError> {
    fn twice<E>(
        what: &'static str,
        list: &[E],
        distinct: usize,
        id: impl Fn(&E) -> String,
    ) -> Result<(), CompileError> {
        if list.len() == distinct {
            return Ok(());
        }
        let mut known = BTreeSet::new();
        let id = list.iter().map(id).find(|id| !known.insert(id.clone())).unwrap_or_default();
        Err(CompileError::Twice { what, id })
    }
    twice("node", &program.tunnels, entries.tunnels.len(), |entry| entry.node.to_string())?;
    twice("network", &program.networks, entries.networks.len(), |entry| entry.id.to_string())?;
    twice("port", &program.ports, entries.ports.len(), |entry| entry.id.to_string())?;
    twice("path", &program.paths, entries.paths.len(), |entry| entry.id.to_string())?;
    twice("slice", &program.slices, entries.slices.len(), |entry| entry.id.to_string())?;
    twice("path", &program.slice_paths, entries.slice_paths.len(), |entry| entry.id.to_string())?;
    twice("port number", &program.exits, entries.exits.len(), |entry| entry.number.to_string())?;
    twice("set-up of path", &program.setups, entries.setups.len(), |entry| entry.path.to_string())?;
    twice("pass", &program.identities, entries.identities.len(), |entry| entry.pass.to_string())?;
    twice("route to port", &program.routes, entries.routes.len(), |entry| {
        format!("{} of node {}", entry.to, entry.node)
    })?;
    twice("way from node to port", &program.onward, entries.onward.len(), |entry| {
        format!("{} to {} of {}", entry.from, entry.to, entry.node)
    })?;
    twice("border of a route to port", &program.borders, entries.borders.len(), |entry| {
        format!("{} of node {} in {}", entry.to, entry.node, entry.encapsulation.name())
    })?;
    twice("edge on a way over functions", &program.stitches, entries.stitches.len(), |entry| {
        format!("{:?}", entry.key())
    })
}
