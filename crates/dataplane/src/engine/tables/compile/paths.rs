//! Paths: their hops and instances as this node sees them. Knows which absences a program may hold: a
//! path that is being taken down can outlive a port or network it names.

use super::{Following, edits};
use crate::engine::collections::rendezvous;
use crate::engine::encap::{Shape, Written};
use crate::engine::error::{CompileError, at_most};
use crate::engine::packet::index::{NodeIndex, UNTOLD_NETWORK};
use crate::engine::tables::Tables;
use crate::engine::tables::names::{Name, Names, ProbedAt, Referrer, short};
use crate::engine::tables::path::{
    HopTable, Inside, InstancePlace, InstanceTable, LocalInstance, PathTable, WatchedInstance,
};
use crate::engine::tables::port::{BareShare, PortShare, Sharer};
use catena_model::bundle::{MemberEntry, MemberInstance};
use catena_model::entry::Entries;
use catena_model::id::{InstanceId, NetworkId, PortId};
use catena_model::limits::{CHAIN_FUNCTIONS_MAX, FUNCTION_INSTANCES_MAX};
use catena_model::program::{HopEntry, HopKind, InstanceEntry, PathEntry};
use catena_model::resource::FailurePolicy;
use catena_model::{NodeName, PathId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Following<'_> {
    /// Paths that came, went or changed, and those that what they name has turned.
    pub(super) fn follow_paths(&mut self) -> Result<(), CompileError> {
        let edits = edits(&self.former.entries.paths, &self.entries.paths);
        self.turned.paths.extend(edits.into_iter().map(|(id, ..)| id));
        let setups = super::edits(&self.former.entries.setups, &self.entries.setups);
        let there = setups.into_iter().map(|(id, ..)| id).filter(|id| {
            [&self.former.entries, self.entries].iter().any(|all| all.paths.contains_key(id))
        });
        self.turned.paths.extend(there);
        self.follow_members()?;
        let turned: Vec<PathId> = self.turned.paths.iter().copied().collect();
        let mut seen = BTreeSet::new();
        for id in &turned {
            self.withdraw(*id, &mut seen);
        }
        for id in turned.iter().filter(|id| !self.entries.paths.contains_key(*id)) {
            if let Some(slice) = self.next.slice_like(*id) {
                return Err(CompileError::SliceWithoutPath { slice, path: *id });
            }
            if let Some(index) = self.next.positions.index_of(*id) {
                self.next.paths.take(index);
            }
            self.next.positions.remove_path(*id);
        }
        let all = turned.iter().filter_map(|id| self.entries.paths.get(id));
        let all: Vec<Arc<PathEntry>> = all.cloned().collect();
        for entry in &all {
            self.open_path(entry, &mut seen)?;
        }
        self.make_watched(&seen);
        self.number_ends(&all);
        for entry in &all {
            self.make_path(entry)?;
        }
        for id in turned {
            self.turn_users(id);
        }
        Ok(())
    }

    /// The bundled functions that paths need now. A path whose functions are others is made anew.
    fn follow_members(&mut self) -> Result<(), CompileError> {
        let members = edits(&self.former.entries.members, &self.entries.members);
        let named = members.iter().map(|((path, ..), ..)| *path);
        self.turned.paths.extend(named.filter(|path| {
            [&self.former.entries, self.entries].iter().any(|all| all.paths.contains_key(path))
        }));
        let all = [&self.former.entries.members, &self.entries.members];
        let have_members = |path: &PathId| {
            let range = (*path, 0, 0)..=(*path, u16::MAX, u8::MAX);
            all.iter().any(|members| members.range(range.clone()).next().is_some())
        };
        if !members.is_empty() || self.turned.paths.iter().any(have_members) {
            let Tables { bundles, node, choice_seed, .. } = &self.next;
            self.next.bundles = bundles.following(node, self.entries, *choice_seed)?;
        }
        Ok(())
    }

    /// Takes away what a path said as it was; its index stays.
    fn withdraw(&mut self, id: PathId, seen: &mut BTreeSet<InstanceId>) {
        self.changed.of_paths.insert(id);
        let Some(index) = self.next.positions.index_of(id) else { return };
        self.changed.paths.insert(index);
        let Some(path) = self.next.paths.find(index) else { return };
        let (entry, shares) = (Arc::clone(&path.entry), path.shares.clone());
        self.next.rewritten -= u32::from(path.is_rewritten_here());
        let sharer = self.sharer(&entry);
        self.count_shares(sharer, &shares, false);
        let Tables { names, node, .. } = &mut self.next;
        for name in named(&entry, node, &self.former.entries) {
            names.unname(name, Referrer::Path(id));
        }
        for visit in visits(&entry, node, names, true) {
            names.visits.remove(&visit);
            seen.insert(visit.0);
        }
        names.remove_path(&entry);
        self.turned.chains.insert(entry.chain);
    }

    fn sharer(&self, path: &PathEntry) -> Sharer {
        let (chain, id) = (path.chain, path.id);
        let is_joined = self.next.rules.joins(id);
        let (splits_flows, is_taken) = (path.splits_flows, self.next.takers.contains(&id));
        Sharer { chain, id, is_joined, splits_flows, is_taken }
    }

    /// Gives a path its index, and its users what they ask for.
    fn open_path(
        &mut self,
        entry: &PathEntry,
        seen: &mut BTreeSet<InstanceId>,
    ) -> Result<(), CompileError> {
        let PathEntry { id, encapsulation, hops, .. } = entry;
        at_most("functions in one path", hops.len(), CHAIN_FUNCTIONS_MAX)?;
        for hop in hops {
            at_most("instances of one function", hop.instances.len(), FUNCTION_INSTANCES_MAX)?;
        }
        if !encapsulation.identifiers().contains(&id.0) {
            return Err(CompileError::PathIdentifier { path: *id, encapsulation: *encapsulation });
        }
        let tables = &mut self.next;
        let network = tables.names.network(entry.destination);
        let vni = network.map(|_| self.entries.networks[&entry.destination].vni);
        let shape = Shape { encapsulation: *encapsulation, hops: short(hops.len() as u32), vni };
        let index = match tables.positions.index_of(*id) {
            Some(index) => {
                let slices = &tables.slices;
                tables.positions.reshape(*id, shape, || slices.paths_like(*id));
                index
            }
            None => tables.positions.add_path(*id, shape)?,
        };
        self.changed.paths.insert(index);
        let Tables { names, node, .. } = tables;
        for name in named(entry, node, self.entries) {
            names.name(name, Referrer::Path(*id));
        }
        for visit in visits(entry, node, names, false) {
            names.visits.insert(visit);
            seen.insert(visit.0);
        }
        names.add_path(entry);
        self.turned.chains.insert(entry.chain);
        Ok(())
    }

    /// Gives chains whose first path comes the number of their end, and takes it from those whose last
    /// has gone.
    fn number_ends(&mut self, all: &[Arc<PathEntry>]) {
        let names = &mut self.next.names;
        let mut turned = std::mem::take(&mut self.turned.chains);
        let has_path = |names: &Names, chain| names.forward(chain).next().is_some();
        turned.retain(|chain| has_path(names, *chain) != names.ends.contains_key(chain));
        for chain in &turned {
            if !has_path(names, *chain)
                && let Some(end) = names.ends.remove(chain)
            {
                names.end_numbers.give_back(end);
            }
        }
        // In the order of their paths.
        for chain in all.iter().map(|path| path.chain).filter(|chain| turned.contains(chain)) {
            if has_path(names, chain) && !names.ends.contains_key(&chain) {
                let end = names.end_numbers.take();
                names.ends.insert(chain, end);
            }
        }
        self.turned.chains = turned;
    }

    fn make_path(&mut self, entry: &Arc<PathEntry>) -> Result<(), CompileError> {
        let Some(index) = self.next.positions.index_of(entry.id) else { return Ok(()) };
        let former = self.former.positions.index_of(entry.id);
        let former = former.and_then(|former| self.former.paths.find(former));
        let path = path_table(entry, &self.next)?;
        let is_moved = former.is_none_or(|former| former.destination != path.destination);
        if is_moved {
            self.turned.moved.insert(entry.id);
        }
        let shares = path.shares.clone();
        self.next.rewritten += u32::from(path.is_rewritten_here());
        self.next.paths.put(index, path);
        let sharer = self.sharer(entry);
        self.count_shares(sharer, &shares, true);
        Ok(())
    }

    /// Who names a path that turned: pins look at its hops, rules at where it is.
    fn turn_users(&mut self, id: PathId) {
        let has_come_or_gone = self.former.positions.index_of(id).is_some()
            != self.next.positions.index_of(id).is_some();
        let is_placed_anew = has_come_or_gone || self.turned.moved.contains(&id);
        let users = self.next.names.referrers(Name::Path(id));
        let turned = users.filter(|user| is_placed_anew || !matches!(user, Referrer::Rule(_)));
        self.turned.take(turned);
    }

    /// All paths through a port.
    pub(super) fn turn_paths_through(&mut self, port: PortId) {
        for user in self.next.names.referrers(Name::Port(port)) {
            let Referrer::Path(id) = user else { continue };
            self.changed.of_paths.insert(id);
            self.changed.paths.extend(self.next.positions.index_of(id));
        }
    }

    /// The instances that are probed, as the first path says that each is on.
    fn make_watched(&mut self, seen: &BTreeSet<InstanceId>) {
        let Tables { names, watched, .. } = &mut self.next;
        for id in seen {
            let first = names.visited(*id).next();
            let Some((_, path, hop, place)) = first else {
                if let Some(index) = names.watches.remove(id) {
                    watched.take(index);
                    names.watch_numbers.give_back(index);
                }
                continue;
            };
            let hop = &self.entries.paths[&path].hops[usize::from(hop)];
            let entry = &hop.instances[usize::from(place)];
            let ports = names.port(entry.ingress).zip(names.port(entry.egress));
            let Some((ingress, egress)) = ports else { continue };
            let index = names.watches.get(id).copied();
            let index = index.unwrap_or_else(|| names.watch_numbers.take());
            names.watches.insert(*id, index);
            let addresses = Vec::new();
            let (name, ingress_mac) = (entry.name.clone(), entry.ingress_mac);
            let instance =
                WatchedInstance { id: *id, name, ingress, egress, ingress_mac, addresses };
            watched.put(index, instance);
            self.turned.watched.insert(index);
        }
    }

    /// The addresses of the ingress interfaces of instances that are probed.
    pub(super) fn make_watched_addresses(&mut self) {
        let turned: BTreeSet<NetworkId> = std::mem::take(&mut self.turned.lines);
        let mut indexes = std::mem::take(&mut self.turned.watched);
        let tables = &self.next;
        let network_of = |instance: &WatchedInstance| tables.port(instance.ingress).network;
        if !turned.is_empty() {
            let is_turned = |instance: &WatchedInstance| {
                turned.contains(&tables.network(network_of(instance)).entry.id)
            };
            let all = tables.watched.iter().filter(|(_, instance)| is_turned(instance));
            indexes.extend(all.map(|(index, _)| index));
        }
        for index in indexes {
            let tables = &self.next;
            let Some(instance) = tables.watched.find(index) else { continue };
            let network = tables.network(tables.port(instance.ingress).network);
            let addresses = network.lines.addresses(instance.ingress_mac).collect();
            self.next.watched.write(index).addresses = addresses;
        }
    }
}

/// What a path names that it has to be made anew for.
fn named(entry: &PathEntry, node: &NodeName, entries: &Entries) -> BTreeSet<Name> {
    let instances = entry.hops.iter().flat_map(|hop| &hop.instances);
    let here = instances.filter(|one| one.node == *node);
    let ports = here.flat_map(|one| [Name::Port(one.ingress), Name::Port(one.egress)]);
    let members = (0..).zip(&entry.hops).flat_map(|(number, hop)| {
        let own = members_of(entries, entry.id, number);
        let instances = own.flat_map(|member| hop.instances.iter().zip(&member.instances));
        let here = instances.filter(|(one, _)| one.node == *node);
        here.flat_map(|(_, one)| [Name::Port(one.ingress), Name::Port(one.egress)])
    });
    ports.chain(members).chain([Name::Network(entry.destination)]).collect()
}

/// The bundled functions at a hop, as packets come by.
fn members_of(entries: &Entries, path: PathId, hop: u16) -> impl Iterator<Item = &MemberEntry> {
    let range = (path, hop, 0)..=(path, hop, u8::MAX);
    entries.members.range(range).map(|(_, member)| &**member)
}

/// Where instances of this node that are probed are on a path: what a tap gets does not come back,
/// hence nobody could tell what it does. `are_all`: also those whose ports are not here.
fn visits(entry: &PathEntry, node: &NodeName, names: &Names, are_all: bool) -> Vec<ProbedAt> {
    let mut visits = Vec::new();
    for (number, hop) in (0..=u16::MAX).zip(&entry.hops) {
        for (place, one) in (0..=u16::MAX).zip(&hop.instances) {
            let has_ports =
                || names.port(one.ingress).is_some() && names.port(one.egress).is_some();
            if is_watched(hop) && one.node == *node && (are_all || has_ports()) {
                visits.push((one.id, entry.id, number, place));
            }
        }
    }
    visits
}

fn is_watched(hop: &HopEntry) -> bool {
    hop.on_failure != FailurePolicy::Unwatched && hop.kind == HopKind::Through
}

fn path_table(entry: &Arc<PathEntry>, tables: &Tables) -> Result<PathTable, CompileError> {
    let Tables { names, node, .. } = tables;
    let context = match entry.encapsulation.capabilities().has_metadata {
        true => Written::compile(&entry.context, node)?,
        false => Written::default(),
    };
    let destination = names.network(entry.destination);
    let vni = destination.map(|index| u32::from(tables.network(index).vni));
    let mut path = PathTable {
        chain: entry.chain,
        id: entry.id,
        encapsulation: entry.encapsulation,
        hops: Vec::with_capacity(entry.hops.len()),
        context,
        destination,
        network: vni.unwrap_or(UNTOLD_NETWORK),
        is_way_back: entry.is_way_back,
        setup: tables.entries.setups.get(&entry.id).map(|setup| setup.away),
        chain_end: names.end(entry.chain).filter(|_| !entry.is_way_back),
        senders: senders(entry, names),
        local_instances: Vec::new(),
        shares: Vec::new(),
        entry: Arc::clone(entry),
    };
    for (number, hop) in (0..=u16::MAX).zip(&entry.hops) {
        let hop = hop_table(number, hop, tables, &mut path);
        path.hops.push(hop);
    }
    Ok(path)
}

/// Who sends to each position: the nodes of the function before, and those of its own, where one of
/// its instances may stand in for another. Which nodes classify into a path no program says.
fn senders(entry: &PathEntry, names: &Names) -> Vec<Option<Box<[NodeIndex]>>> {
    let nodes = |hop: &HopEntry| -> Vec<NodeIndex> {
        let nodes = hop.instances.iter().filter_map(|one| names.node(&one.node));
        nodes.collect()
    };
    let mut before: Option<Vec<NodeIndex>> = None;
    let mut senders = Vec::with_capacity(entry.hops.len() + 1);
    for hop in entry.hops.iter().map(Some).chain([None]) {
        let own = hop.map(nodes).unwrap_or_default();
        senders.push(before.as_ref().map(|before| {
            let mut all: Vec<NodeIndex> = before.iter().chain(&own).copied().collect();
            all.sort_unstable();
            all.dedup();
            all.into()
        }));
        if hop.is_some_and(|hop| hop.kind == HopKind::Through) {
            before = Some(own);
        }
    }
    senders
}

fn hop_table(number: u16, hop: &HopEntry, tables: &Tables, path: &mut PathTable) -> HopTable {
    let Tables { names, node, .. } = tables;
    let mut instances = Vec::with_capacity(hop.instances.len());
    for (place, entry) in hop.instances.iter().enumerate() {
        let is_here = entry.node == *node;
        let (ingress, egress) = (names.port(entry.ingress), names.port(entry.egress));
        let asked = if is_here { asked((number, place), tables, path.id) } else { Vec::new() };
        let inside = asked.first().map(|first| first.inside);
        let has_ports = ingress.is_some() && egress.is_some();
        let is_probed = is_here && is_watched(hop) && has_ports && inside.is_none();
        let watch = names.watches.get(&entry.id).copied().filter(|_| is_probed);
        instances.push(InstanceTable {
            seed: rendezvous::seed(entry.id),
            weight: entry.weight,
            place: match (inside, ingress, egress) {
                // What is inside comes back at once: it may stand at many hops.
                (Some(_), Some(ingress), Some(egress)) => InstancePlace::Here {
                    ingress,
                    egress,
                    ingress_mac: entry.ingress_mac,
                    speaks: None,
                    local: u32::try_from(path.local_instances.len()).unwrap_or(u32::MAX),
                },
                _ => instance_place(number, hop.kind, entry, tables, &path.local_instances),
            },
            inside,
            watch,
        });
        if is_here && asked.is_empty() {
            let shares = shares(hop, entry, names, path);
            path.shares.extend(shares);
            path.local_instances.push(LocalInstance {
                hop: number,
                member: 0,
                id: entry.id,
                name: entry.name.clone(),
                ingress,
                egress,
                next: None,
                is_tap: hop.kind == HopKind::Tap,
                watch,
            });
        }
        stand_together(number, &asked, (hop, names), path);
    }
    HopTable {
        kind: hop.kind,
        balance: hop.balance.clone(),
        rewrites: hop.rewrites.clone(),
        keeps_mac: hop.keeps_mac,
        instances,
        on_failure: hop.on_failure,
    }
}

/// An instance inside that is asked at a hop.
struct Asked<'t> {
    member: &'t MemberEntry,
    instance: &'t MemberInstance,
    inside: Inside,
}

/// The instances inside that stand together at a place of a hop of this node, as packets come by. None, unless all are
/// there.
fn asked<'t>((hop, place): (u16, usize), tables: &'t Tables, path: PathId) -> Vec<Asked<'t>> {
    let one = |member: &'t MemberEntry| -> Option<Asked<'t>> {
        let MemberEntry { instances, configuration, is_backward, .. } = member;
        let instance = instances.get(place)?;
        let function = tables.bundles.number(&(instance.id, *configuration))?;
        Some(Asked { member, instance, inside: Inside { function, is_backward: *is_backward } })
    };
    members_of(&tables.entries, path, hop).map(one).collect::<Option<_>>().unwrap_or_default()
}

/// Adds instances inside that stand together, and what they want of their ports.
fn stand_together(
    number: u16,
    asked: &[Asked<'_>],
    (hop, names): (&HopEntry, &Names),
    path: &mut PathTable,
) {
    let behind = asked.iter().skip(1).map(Some).chain([None]);
    for (Asked { member, instance, .. }, next) in asked.iter().zip(behind) {
        let [ingress, egress] = [instance.ingress, instance.egress].map(|port| names.port(port));
        let share = |port| PortShare {
            port,
            speaks: None,
            reaches: path.destination,
            siblings: [ingress, egress],
            bare: None,
        };
        path.shares.extend([share(instance.ingress), share(instance.egress)]);
        path.local_instances.push(LocalInstance {
            hop: number,
            member: member.member,
            id: instance.id,
            name: instance.name.clone(),
            ingress,
            egress,
            next: next.map(|next| next.inside.function),
            is_tap: hop.kind == HopKind::Tap,
            watch: None,
        });
    }
}

/// What an instance of this node wants of its ports. `path`: as far as it is made.
fn shares(hop: &HopEntry, one: &InstanceEntry, names: &Names, path: &PathTable) -> [PortShare; 2] {
    let siblings = [names.port(one.ingress), names.port(one.egress)];
    let into = PortShare {
        port: one.ingress,
        speaks: None,
        reaches: path.destination,
        siblings,
        bare: None,
    };
    let is_bare = one.speaks.is_none() && hop.kind == HopKind::Through;
    let is_known = |share: &PortShare| share.port == one.egress && share.bare.is_some();
    let bare = is_bare.then(|| BareShare {
        is_first: !path.shares.iter().any(is_known),
        network: path.network,
        changes_mac: !hop.keeps_mac,
        rewrites: hop.rewrites.clone(),
    });
    [into.clone(), PortShare { port: one.egress, speaks: one.speaks, bare, ..into }]
}

fn instance_place(
    number: u16,
    kind: HopKind,
    entry: &InstanceEntry,
    tables: &Tables,
    earlier: &[LocalInstance],
) -> InstancePlace {
    let Tables { names, node, .. } = tables;
    if entry.node != *node {
        let node = names.node(&entry.node);
        return node.map_or(InstancePlace::Nowhere, InstancePlace::There);
    }
    let ports = (names.port(entry.ingress), names.port(entry.egress));
    let (Some(ingress), Some(egress)) = ports else { return InstancePlace::Unported };
    // What an unaware function returns tells nothing but its port and flow, and a source route its path and port. Of
    // siblings at one hop a flow meets only one, so these may share a port.
    let is_silent = |local: &LocalInstance| local.is_tap && kind == HopKind::Tap;
    let is_used = |local: &LocalInstance| {
        local.hop != number && local.egress == Some(egress) && !is_silent(local)
    };
    let tells_place = entry.speaks.is_some_and(|spoken| !spoken.is_source_route());
    if !tells_place && earlier.iter().any(is_used) {
        return InstancePlace::Ambiguous;
    }
    InstancePlace::Here {
        ingress,
        egress,
        ingress_mac: entry.ingress_mac,
        speaks: entry.speaks,
        local: u32::try_from(earlier.len()).unwrap_or(u32::MAX),
    }
}
