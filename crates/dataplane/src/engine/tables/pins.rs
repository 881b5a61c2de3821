//! Pins: which flows stay on a path after the rules have turned to another. Knows the entries of
//! the program; refuses to know which flows there are.
//!
//! A pin may name paths that are not in the program: one that is being taken down can be gone
//! before its pin. Such a pin holds nobody.

use crate::engine::collections::sharing::Slab;
use crate::engine::encap::{PathPosition, Positions};
use crate::engine::tables::path::{HopTable, PathTable};
use catena_model::PathId;
use catena_model::id::InstanceId;
use catena_model::program::PinEntry;
use imbl::OrdMap;
use std::sync::Arc;

/// A path that flows stay on.
#[derive(Debug)]
struct Pin {
    old: PathId,
    start: PathPosition,
    idle_ms: u32,
    /// For each hop of the old path, the instances whose flows stay, by index; none: all flows.
    meets: Option<Vec<Vec<usize>>>,
}

/// The pins of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins {
    /// For each path whose flows may stay on older ones, these.
    of_new: OrdMap<PathId, Arc<[Pin]>>,
}

impl Pins {
    /// Lets the flows that enter a path now stay as these pins say.
    pub(crate) fn set(
        &mut self,
        new: PathId,
        entries: &[&Arc<PinEntry>],
        positions: &Positions,
        paths: &Slab<PathTable>,
    ) {
        let pin = |pin: &&Arc<PinEntry>| {
            let own = positions.index_of(pin.old)?;
            let (start, old) = (positions.entered(own, own), &paths.get(own).entry);
            let met = |id: &InstanceId| pin.instances.contains(id);
            let meets = old.hops.iter().map(|hop| {
                let met = hop.instances.iter().enumerate().filter(|(_, one)| met(&one.id));
                met.map(|(index, _)| index).collect()
            });
            let meets = (!pin.instances.is_empty()).then(|| meets.collect());
            Some(Pin { old: pin.old, start, idle_ms: pin.idle_ms, meets })
        };
        let pins: Arc<[Pin]> = match positions.index_of(new) {
            Some(_) => entries.iter().filter_map(pin).collect(),
            None => Arc::default(),
        };
        if pins.is_empty() {
            self.of_new.remove(&new);
        } else {
            self.of_new.insert(new, pins);
        }
    }

    /// Where a flow enters that the rules send into this path, and that went into
    /// `before` this many milliseconds ago; none: it goes where the rules send it. `choose`: the
    /// index of the instance that it meets at a hop.
    pub(crate) fn keep(
        &self,
        new: PathId,
        (before, ago_ms): (PathId, u32),
        choose: impl Fn(&HopTable) -> Option<usize>,
        paths: &Slab<PathTable>,
        positions: &Positions,
    ) -> Option<PathPosition> {
        let mut pins = self.of_new.get(&new)?.iter();
        let pin = pins.find(|pin| pin.old == before && ago_ms <= pin.idle_ms)?;
        let Some(meets) = &pin.meets else { return Some(pin.start) };
        let hops = &paths.get(positions.place(pin.start).path).hops;
        let meets_one = hops.iter().zip(meets).any(|(hop, met)| {
            !met.is_empty() && choose(hop).is_some_and(|index| met.contains(&index))
        });
        meets_one.then_some(pin.start)
    }

    /// May flows stay on another path although the rules send them into this one?
    pub(crate) fn hold(&self, new: PathId) -> bool {
        self.of_new.contains_key(&new)
    }

    /// The old paths, each with the longest pause that its flows may make.
    pub(crate) fn old_paths(&self) -> impl Iterator<Item = (PathId, u32)> + '_ {
        self.of_new.values().flat_map(|pins| pins.iter()).map(|pin| (pin.old, pin.idle_ms))
    }

    /// All of them in words.
    #[cfg(test)]
    pub(crate) fn described(&self, positions: &Positions) -> String {
        let pin = |pin: &Pin| (pin.old, positions.id(pin.start), pin.idle_ms, pin.meets.clone());
        let pins = self.of_new.iter();
        let pins = pins.map(|(new, pins)| (*new, pins.iter().map(pin).collect::<Vec<_>>()));
        format!("{:?}", pins.collect::<Vec<_>>())
    }
}
