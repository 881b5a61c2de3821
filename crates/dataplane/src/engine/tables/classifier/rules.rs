//! All rules, the best match decides. Rules that name a port are asked for packets of that port;
//! those that name none speak of the network in which their path delivers, as addresses mean nothing
//! outside their network; those at the end of a path stand apart.

use super::masks::FieldMasks;
use super::wants::Wants;
use crate::engine::collections::sharing::{Chunks, Numbers, Slab};
use crate::engine::encap::{PathPosition, Positions};
use crate::engine::error::CompileError;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::tables::Tables;
use crate::engine::tables::names::Names;
use crate::engine::tables::path::PathTable;
use crate::engine::tables::slices::Scope;
use catena_model::PathId;
use catena_model::entry::RuleKey;
use catena_model::id::PortId;
use catena_model::program::{RuleEntry, RulePlace};
use catena_search::{Asking, Failing, GROUP, Rank, Ranked, Rule, SharedMap, Tuples};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

/// A packet that came in by a port, and the network whose rules are asked beside those of the port.
pub(crate) type AtPort<'p> = (PortIndex, Option<NetworkIndex>, &'p FrameView, &'p FlowKey);

/// The places whose rules are asked.
fn places(port: PortIndex, network: Option<NetworkIndex>) -> impl Iterator<Item = Scope> + Clone {
    std::iter::once(Scope::port(port)).chain(network.map(Scope::network))
}

/// A rule as it was told, and where it sends.
#[derive(Clone, Debug)]
struct Told {
    entry: Arc<RuleEntry>,
    /// Its place in the order of all rules: the lesser goes first.
    label: u32,
    start: PathPosition,
    /// None: its port or network is not here, so no packet meets it.
    place: Option<Scope>,
}

/// Room between the labels of rules that come one behind the other.
const LABEL_STEP: u32 = 1 << 12;

/// All rules of a program, by numbers that stay theirs. A copy shares what it has in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    told: Chunks<Option<Arc<Told>>>,
    numbers: Numbers,
    /// In their order.
    by_key: OrdMap<RuleKey, u32>,
    tuples: Tuples<PathPosition>,
    /// What those that take packets of ports and networks ask for beside ports.
    wants: Wants,
    /// What they look at beside flows.
    masks: FieldMasks,
    /// How many rules take packets from each place, if any.
    places: SharedMap<Scope, u32, 64>,
    /// The same rules by place.
    at_place: OrdSet<(u32, u32)>,
    /// The paths that a packet may be on before or behind another, and how many rules say so.
    joined: OrdMap<PathId, u32>,
}

/// The paths that a rule joins.
fn joins(entry: &RuleEntry) -> Option<[PathId; 2]> {
    match entry.matches.place {
        RulePlace::After(ended) => Some([ended, entry.path]),
        RulePlace::Endpoints | RulePlace::Port(_) => None,
    }
}

impl Rules {
    /// Takes a rule in, and answers its number. It takes no packets before it has its place.
    pub(crate) fn add(&mut self, key: &RuleKey, entry: &Arc<RuleEntry>) -> u32 {
        let number = self.numbers.take();
        let label = self.label(key).unwrap_or_else(|| {
            self.relabel();
            self.label(key).unwrap_or(u32::MAX)
        });
        self.by_key.insert(key.clone(), number);
        for path in joins(entry).into_iter().flatten() {
            *self.joined.entry(path).or_default() += 1;
        }
        let (entry, start) = (Arc::clone(entry), PathPosition::default());
        let told = Told { entry, label, start, place: None };
        *self.told.entry(number as usize) = Some(Arc::new(told));
        number
    }

    /// Lets a rule go that has no place any more.
    pub(crate) fn remove(&mut self, key: &RuleKey) {
        let Some(number) = self.by_key.remove(key) else { return };
        let Some(told) = self.told.entry(number as usize).take() else { return };
        self.numbers.give_back(number);
        for path in joins(&told.entry).into_iter().flatten() {
            match self.joined.get(&path) {
                Some(count) if *count > 1 => self.joined.insert(path, count - 1),
                _ => self.joined.remove(&path),
            };
        }
    }

    /// A label between those of the neighbours; none: there is no room.
    fn label(&self, key: &RuleKey) -> Option<u32> {
        let label = |(_, number): (&RuleKey, &u32)| self.told(*number).map(|told| told.label);
        let before = self.by_key.range::<_, RuleKey>(..key).next_back().and_then(label);
        let behind = self.by_key.range::<_, RuleKey>(key..).next().and_then(label);
        let (low, high) = (before.unwrap_or(0), behind.unwrap_or(u32::MAX));
        let step = match (before, behind) {
            (None, None) => high / 2,
            (Some(_), None) => LABEL_STEP.min((high - low) / 2),
            (None, Some(_)) => (high - low) - LABEL_STEP.min((high - low) / 2),
            (Some(_), Some(_)) => (high - low) / 2,
        };
        let label = low + step;
        (low < label && label < high).then_some(label)
    }

    /// Spreads the labels of all rules evenly: as rarely as much has come between two of them.
    fn relabel(&mut self) {
        let step = u32::MAX / (u32::try_from(self.by_key.len()).unwrap_or(u32::MAX - 2) + 2);
        self.tuples = Tuples::default();
        for (place, number) in (1..).zip(self.by_key.values()) {
            let told = self.told.entry(*number as usize);
            let Some(told) = told.as_mut().map(Arc::make_mut) else { continue };
            told.label = place * step;
            if let Some(at) = told.place {
                self.tuples.insert(told.ranked(*number, at));
            }
        }
    }

    /// Takes a rule from where it takes packets.
    pub(crate) fn unplace(&mut self, number: u32) {
        let slot = self.told.entry(number as usize);
        let Some(told) = slot.as_mut().map(Arc::make_mut) else { return };
        let Some(place) = told.place.take() else { return };
        let rule = Rule::compile(&told.entry.matches);
        self.tuples.remove(place.0, number, &rule);
        self.wants.remove(place.0, &rule);
        self.masks.remove(place, &rule);
        match self.places.get(&place) {
            Some(count) if *count > 1 => self.places.insert(place, count - 1),
            _ => self.places.remove(&place),
        };
        self.at_place.remove(&(place.0, number));
    }

    /// Puts a rule that has none to its place, and lets it send to where its path is.
    ///
    /// # Errors
    /// When it sends into a path that is not there, or is a slice's.
    pub(crate) fn place(
        &mut self,
        number: u32,
        names: &Names,
        positions: &Positions,
        paths: &Slab<PathTable>,
    ) -> Result<(), CompileError> {
        let slot = self.told.entry(number as usize);
        let Some(told) = slot.as_mut().map(Arc::make_mut) else { return Ok(()) };
        let entry = &told.entry;
        let own = positions.index_of(entry.path).ok_or_else(|| CompileError::RuleWithoutPath {
            rule: entry.name.clone(),
            path: entry.path,
        })?;
        told.start = positions.entered(own, own);
        // No packet comes from where the node has nothing, or has nothing any more.
        told.place = match entry.matches.place {
            RulePlace::Endpoints => paths.get(own).destination.map(Scope::network),
            RulePlace::Port(port) => names.port(port).map(Scope::port),
            RulePlace::After(ended) => positions.index_of(ended).map(Scope::after),
        };
        let Some(place) = told.place else { return Ok(()) };
        let ranked = told.ranked(number, place);
        self.wants.insert(place.0, &ranked.rule);
        self.masks.insert(place, &ranked.rule);
        self.tuples.insert(ranked);
        let count = self.places.get(&place).copied().unwrap_or(0);
        self.places.insert(place, count + 1);
        self.at_place.insert((place.0, number));
        Ok(())
    }

    /// The number of a rule.
    pub(crate) fn number(&self, key: &RuleKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Where a rule takes packets, if it does.
    pub(crate) fn place_of(&self, number: u32) -> Option<Scope> {
        self.told(number)?.place
    }

    /// The rules that take packets from a place.
    pub(crate) fn at(&self, place: Scope) -> impl Iterator<Item = u32> + '_ {
        let all = self.at_place.range((place.0, 0)..=(place.0, u32::MAX));
        all.map(|(_, number)| *number)
    }

    /// The rules that take packets from a place of which this one would take some there. Asks the
    /// tables, as a packet does, where the rule gives all that they ask for.
    pub(crate) fn meeting(&self, place: Scope, rule: &RuleEntry) -> Vec<u32> {
        // A network has many ports, and rules at few of them.
        if self.places.get(&place).is_none() {
            return Vec::new();
        }
        let (packets, vlan) = (rule.matches.flow(), rule.matches.vlan);
        let near = self.tuples.near(place.0, &Rule::compile(&rule.matches));
        let mut met = near.unwrap_or_else(|| self.at(place).collect());
        met.retain(|number| {
            let other = self.entry(*number).map(|other| &other.matches);
            other.is_some_and(|other| other.vlan == vlan && other.flow().meets(&packets))
        });
        met
    }

    /// The bits of fields beside the flow that any rule looks at.
    #[inline]
    pub(crate) fn fields_anywhere(&self) -> u32 {
        self.masks.anywhere()
    }

    /// The same of those that are asked for packets of a port.
    pub(crate) fn fields_at(&self, port: PortIndex, network: Option<NetworkIndex>) -> u32 {
        if self.masks.anywhere() == 0 {
            return 0;
        }
        places(port, network).fold(0, |all, place| all | self.masks.at(place))
    }

    /// The same of those at the end of the path with this index.
    pub(crate) fn fields_after(&self, ended: u32) -> u32 {
        if self.masks.anywhere() == 0 { 0 } else { self.masks.at(Scope::after(ended)) }
    }

    /// May a packet be on this path before or behind another?
    pub(crate) fn joins(&self, path: PathId) -> bool {
        self.joined.contains_key(&path)
    }

    /// The number of the rule that takes a packet that came in by a port, and where the packet
    /// enters its path.
    #[inline]
    pub(crate) fn find(
        &self,
        port: PortIndex,
        network: Option<NetworkIndex>,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        self.first(places(port, network), view, flow)
    }

    /// Could a rule take a packet that came in by a port, whatever its ports are?
    pub(crate) fn could_take(
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
    pub(crate) fn find_after(
        &self,
        ended: u32,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        self.first(std::iter::once(Scope::after(ended)), view, flow)
    }

    fn first(
        &self,
        places: impl Iterator<Item = Scope>,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        let asked = [Some(self.asking(places, view, flow))].into_iter();
        let [found] = self.tuples.find_each(asked, |_, _| true);
        found.map(|rule| (rule.number, rule.tag))
    }

    /// As [`Self::find`] for the packets of a group: they wait for memory together.
    pub(crate) fn find_each<'p>(
        &self,
        packets: impl Iterator<Item = Option<AtPort<'p>>>,
    ) -> [Option<(u32, PathPosition)>; GROUP] {
        let asking = |(port, network, view, flow)| self.asking(places(port, network), view, flow);
        let asked = packets.map(|packet| packet.map(asking));
        let found = self.tuples.find_each(asked, |_, _| true);
        found.map(|rule| rule.map(|rule| (rule.number, rule.tag)))
    }

    #[inline]
    fn asking<'p>(
        &self,
        places: impl Iterator<Item = Scope>,
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
    pub(crate) fn leads_on(&self, ended: u32) -> bool {
        self.places.get(&Scope::after(ended)).is_some()
    }

    /// Where packets go on that are at the end of a path.
    pub(crate) fn starts_after(&self) -> impl Iterator<Item = PathPosition> + '_ {
        let at_ends = self.at_place.range((Scope::after(0).0, 0)..);
        at_ends.filter_map(|(_, number)| Some(self.told(*number)?.start))
    }

    /// The entry of the program that a rule was made of.
    pub(crate) fn entry(&self, rule: u32) -> Option<&RuleEntry> {
        self.told(rule).map(|told| &*told.entry)
    }

    /// The first condition of a rule that a packet does not meet.
    pub(crate) fn failing(&self, rule: u32, view: &FrameView, flow: &FlowKey) -> Option<Failing> {
        Rule::compile(&self.told(rule)?.entry.matches).failing(view, flow)
    }

    /// The label of a rule, and where it sends.
    #[cfg(test)]
    pub(crate) fn order_and_start(&self, rule: u32) -> Option<(u32, PathPosition)> {
        self.told(rule).map(|told| (told.label, told.start))
    }

    /// Hash tables that a packet may ask.
    #[cfg(test)]
    pub(super) fn tables(&self) -> usize {
        self.tuples.tables()
    }
}

impl Told {
    fn ranked(&self, number: u32, place: Scope) -> Ranked<PathPosition> {
        let rank = Rank::from(u32::MAX - self.entry.priority) << 32 | Rank::from(self.label);
        let rule = Rule::compile(&self.entry.matches);
        Ranked { rank, number, scope: place.0, tag: self.start, rule }
    }
}

/// The rules as packets of one port ask them.
pub struct Asked<'t> {
    rules: &'t Rules,
    port: PortIndex,
    network: NetworkIndex,
}

impl Asked<'_> {
    /// The number of the rule that takes a packet, found without any memory of flows.
    #[must_use]
    pub fn rule(&self, view: &FrameView) -> Option<u32> {
        let flow = view.flow?;
        self.rules.find(self.port, Some(self.network), view, &flow).map(|(number, _)| number)
    }

    /// What the program says of the rule with this number.
    #[must_use]
    pub fn entry(&self, number: u32) -> Option<&RuleEntry> {
        self.rules.entry(number)
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
        let port = self.names.port(port)?;
        Some(Asked { rules: &self.rules, port, network: self.port(port).network })
    }
}
