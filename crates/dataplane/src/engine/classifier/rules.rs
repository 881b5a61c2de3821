//! All rules, the best match decides. Rules that name a port are asked for packets of that port;
//! those that name none speak of the network in which their path delivers, as addresses mean nothing
//! outside their network; those at the end of a path stand apart.

use super::rule::{Failing, Rule};
use super::search::{Asking, GROUP};
use super::table::{Rank, Ranked};
use super::tuples::Tuples;
use super::wants::Wants;
use crate::engine::compile::CompileError;
use crate::engine::encap::{PathPosition, Positions};
use crate::engine::sharing::{Chunks, SharedMap};
use crate::engine::slices::Place;
use crate::engine::tables::{NetworkIndex, PathTable, PortIndex, Tables};
use catena_model::id::PortId;
use catena_model::program::{RuleEntry, RulePlace};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use std::collections::HashMap;
use std::sync::Arc;

/// A packet that came in by a port, and the network whose rules are asked beside those of the port.
pub(in crate::engine) type AtPort<'p> =
    (PortIndex, Option<NetworkIndex>, &'p FrameView, &'p FlowKey);

/// The places whose rules are asked.
fn places(port: PortIndex, network: Option<NetworkIndex>) -> impl Iterator<Item = Place> + Clone {
    std::iter::once(Place::port(port)).chain(network.map(Place::network))
}

/// A rule as it was told, and where it sends.
#[derive(Clone)]
struct Told {
    entry: RuleEntry,
    start: PathPosition,
    /// None: its port or network is not here, so no packet meets it.
    place: Option<Place>,
}

/// What rules are compiled with.
pub(in crate::engine) struct Surroundings<'t> {
    pub(in crate::engine) ports: &'t HashMap<PortId, PortIndex>,
    pub(in crate::engine) paths: &'t [PathTable],
    pub(in crate::engine) positions: &'t Positions,
}

/// All rules of a program. A copy shares what it has in common; their numbers are their places in
/// the program.
#[derive(Clone, Default)]
pub(in crate::engine) struct Rules {
    told: Chunks<Option<Arc<Told>>>,
    tuples: Tuples,
    /// What those that take packets of ports and networks ask for beside ports.
    wants: Wants,
    /// How many rules take packets from each place, if any.
    places: SharedMap<Place, u32, 64>,
    /// The rules that take packets at the end of a path.
    at_ends: Vec<u32>,
}

impl Rules {
    pub(in crate::engine) fn compile(
        entries: &[RuleEntry],
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, CompileError> {
        let mut ordered: Vec<(u32, &RuleEntry)> = (0..).zip(entries).collect();
        ordered.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.priority));
        let mut rules = Self::default();
        for (number, entry) in ordered {
            rules.insert(number, entry, surroundings)?;
        }
        Ok(rules)
    }

    /// Lets the rule at a place of the program be another.
    pub(super) fn replace(
        &mut self,
        number: u32,
        entry: &RuleEntry,
        surroundings: &Surroundings<'_>,
    ) -> Result<(), CompileError> {
        let before = self.told.get(number as usize).cloned().flatten();
        if let Some((told, place)) = before.and_then(|told| Some((Arc::clone(&told), told.place?)))
        {
            let rule = Rule::compile(&told.entry.matches);
            self.tuples.remove(place.0, number, &rule);
            self.wants.remove(place.0, &rule);
            match self.places.get(&place) {
                Some(count) if *count > 1 => self.places.insert(place, count - 1),
                _ => self.places.remove(&place),
            };
            self.at_ends.retain(|other| *other != number);
        }
        self.insert(number, entry, surroundings)
    }

    fn insert(
        &mut self,
        number: u32,
        entry: &RuleEntry,
        surroundings: &Surroundings<'_>,
    ) -> Result<(), CompileError> {
        let Surroundings { ports, paths, positions } = surroundings;
        let start = positions.start(entry.path).ok_or_else(|| CompileError::RuleWithoutPath {
            rule: entry.name.clone(),
            path: entry.path,
        })?;
        // No packet comes from where the node has nothing, or has nothing any more.
        let place = match entry.matches.place {
            RulePlace::Endpoints => {
                paths[positions.place(start).path as usize].destination.map(Place::network)
            }
            RulePlace::Port(port) => ports.get(&port).map(|port| Place::port(*port)),
            RulePlace::After(ended) => {
                positions.start(ended).map(|ended| Place::after(ended.path()))
            }
        };
        if let Some(place) = place {
            let rank = Rank::from(u32::MAX - entry.priority) << 32 | Rank::from(number);
            let rule = Rule::compile(&entry.matches);
            self.wants.insert(place.0, &rule);
            self.tuples.insert(Ranked { rank, number, scope: place.0, start, rule });
            let count = self.places.get(&place).copied().unwrap_or(0);
            self.places.insert(place, count + 1);
            if let RulePlace::After(_) = entry.matches.place {
                self.at_ends.push(number);
            }
        }
        let told = Told { entry: entry.clone(), start, place };
        *self.told.entry(number as usize) = Some(Arc::new(told));
        Ok(())
    }

    /// The number of the rule that takes a packet that came in by a port, and where the packet
    /// enters its path.
    #[inline]
    pub(in crate::engine) fn find(
        &self,
        port: PortIndex,
        network: Option<NetworkIndex>,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        self.first(places(port, network), view, flow)
    }

    /// Could a rule take a packet that came in by a port, whatever its ports are?
    pub(in crate::engine) fn could_take(
        &self,
        port: PortIndex,
        network: Option<NetworkIndex>,
        view: &FrameView,
    ) -> bool {
        view.flow.is_some_and(|flow| {
            let places = places(port, network);
            let mut here = places.filter(|place| self.places.get(place).is_some());
            here.any(|place| self.wants.could_take(place.0, view.vlan, &flow))
        })
    }

    /// The same as [`Self::find`] for a packet at the end of the path with this index.
    pub(in crate::engine) fn find_after(
        &self,
        ended: u32,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        self.first(std::iter::once(Place::after(ended)), view, flow)
    }

    fn first(
        &self,
        places: impl Iterator<Item = Place>,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        let [found] = self.tuples.find_each([Some(self.asking(places, view, flow))].into_iter());
        found.map(|rule| (rule.number, rule.start))
    }

    /// As [`Self::find`] for the packets of a group: they wait for memory together.
    pub(in crate::engine) fn find_each<'p>(
        &self,
        packets: impl Iterator<Item = Option<AtPort<'p>>>,
    ) -> [Option<(u32, PathPosition)>; GROUP] {
        let asking = |(port, network, view, flow)| self.asking(places(port, network), view, flow);
        let found = self.tuples.find_each(packets.map(|packet| packet.map(asking)));
        found.map(|rule| rule.map(|rule| (rule.number, rule.start)))
    }

    #[inline]
    fn asking<'p>(
        &self,
        places: impl Iterator<Item = Place>,
        view: &'p FrameView,
        flow: &'p FlowKey,
    ) -> Asking<'p> {
        let mut scopes = [None; 2];
        for (scope, place) in scopes.iter_mut().zip(places) {
            *scope = self.places.get(&place).map(|_| place.0);
        }
        Asking { scopes, view, flow }
    }

    fn told(&self, rule: u32) -> Option<&Told> {
        self.told.get(rule as usize)?.as_deref()
    }

    /// Does any rule take packets at the end of the path with this index?
    pub(in crate::engine) fn leads_on(&self, ended: u32) -> bool {
        self.places.get(&Place::after(ended)).is_some()
    }

    /// Where packets go on that are at the end of a path.
    pub(in crate::engine) fn starts_after(
        &self,
    ) -> impl Iterator<Item = PathPosition> + Clone + '_ {
        self.at_ends.iter().filter_map(|number| Some(self.told(*number)?.start))
    }

    /// The entry of the program that a rule was made of.
    pub(in crate::engine) fn entry(&self, rule: u32) -> Option<&RuleEntry> {
        self.told(rule).map(|told| &told.entry)
    }

    /// The number of the rule that was made of an entry; none: its port or network is not here.
    pub(in crate::engine) fn number_of(&self, entry: usize) -> Option<u32> {
        let number = u32::try_from(entry).ok()?;
        self.told(number)?.place.map(|_| number)
    }

    /// The first condition of a rule that a packet does not meet.
    pub(in crate::engine) fn failing(
        &self,
        rule: u32,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<Failing> {
        Rule::compile(&self.told(rule)?.entry.matches).failing(view, flow)
    }

    /// Hash tables that a packet may ask.
    #[cfg(test)]
    pub(super) fn tables(&self) -> usize {
        self.tuples.len()
    }
}

/// The rules as packets of one port ask them.
pub struct Asked<'t> {
    rules: &'t Rules,
    port: PortIndex,
    network: NetworkIndex,
}

impl Asked<'_> {
    /// The place in the program of the rule that takes a packet, found without any memory of flows.
    #[must_use]
    pub fn rule(&self, view: &FrameView) -> Option<u32> {
        let flow = view.flow?;
        self.rules.find(self.port, Some(self.network), view, &flow).map(|(number, _)| number)
    }

    /// As [`Self::rule`] for each of some packets, a group at a time, as the engine asks.
    pub fn rules(&self, views: &[FrameView], mut tell: impl FnMut(Option<u32>)) {
        for group in views.chunks(GROUP) {
            let asked = group
                .iter()
                .map(|view| Some((self.port, Some(self.network), view, view.flow.as_ref()?)));
            let found = self.rules.find_each(asked);
            group.iter().zip(found).for_each(|(_, found)| tell(found.map(|(number, _)| number)));
        }
    }
}

impl Tables {
    /// The rules as packets of a port ask them; none: the port is not in the program.
    #[must_use]
    pub fn asked(&self, port: PortId) -> Option<Asked<'_>> {
        let port = *self.port_indexes.get(&port)?;
        Some(Asked { rules: &self.rules, port, network: self.port(port).network })
    }

    /// The tables with another rule at a place of the program's list; these stay as they are. It
    /// costs in proportion to what shares its part of a hash table, not to the number of rules.
    ///
    /// # Errors
    /// When the rule sends into a path that is not there.
    pub fn with_rule(&self, number: u32, entry: &RuleEntry) -> Result<Tables, CompileError> {
        let mut next = self.clone();
        let surroundings = Surroundings {
            ports: &self.port_indexes,
            paths: &self.paths,
            positions: &self.positions,
        };
        Arc::make_mut(&mut next.rules).replace(number, entry, &surroundings)?;
        next.descent = crate::engine::tables::Descent::of(&self.descent, Vec::new());
        Ok(next)
    }
}
