//! Pins: which flows stay on a path after the rules have turned to another. Knows the entries of
//! the program; refuses to know which flows there are.
//!
//! A pin may name paths that are not in the program: one that is being taken down can be gone
//! before its pin. Such a pin holds nobody.

use super::encap::{PathPosition, Positions};
use super::tables::{HopTable, PathTable};
use catena_model::PathId;
use catena_model::id::InstanceId;
use catena_model::program::{PathEntry, PinEntry};

/// A path that flows stay on.
struct Pin {
    old: PathId,
    start: PathPosition,
    idle_ms: u32,
    /// For each hop of the old path, the instances whose flows stay, by index; none: all flows.
    meets: Option<Vec<Vec<usize>>>,
}

/// The pins of a program.
#[derive(Default)]
pub(super) struct Pins {
    /// For each path, the older ones that its flows may stay on; empty when there is no pin.
    of_new: Vec<Vec<Pin>>,
}

impl Pins {
    /// `entries` and `paths` are the same paths, in the same order.
    pub(super) fn compile(pins: &[PinEntry], entries: &[PathEntry], positions: &Positions) -> Self {
        let mut of_new: Vec<Vec<Pin>> = Vec::new();
        for pin in pins {
            let (Some(start), Some(new)) = (positions.start(pin.old), positions.start(pin.new))
            else {
                continue;
            };
            let old = &entries[positions.place(start).path as usize];
            let met = |id: &InstanceId| pin.instances.contains(id);
            let meets = old.hops.iter().map(|hop| {
                let met = hop.instances.iter().enumerate().filter(|(_, one)| met(&one.id));
                met.map(|(index, _)| index).collect()
            });
            let meets = (!pin.instances.is_empty()).then(|| meets.collect());
            of_new.resize_with(entries.len(), Vec::new);
            of_new[positions.place(new).path as usize].push(Pin {
                old: pin.old,
                start,
                idle_ms: pin.idle_ms,
                meets,
            });
        }
        Self { of_new }
    }

    /// Where a flow enters that the rules send into the path with this index, and that went into
    /// `before` this many milliseconds ago; none: it goes where the rules send it. `choose`: the
    /// index of the instance that it meets at a hop.
    pub(super) fn keep(
        &self,
        new: u32,
        (before, ago_ms): (PathId, u32),
        choose: impl Fn(&HopTable) -> Option<usize>,
        paths: &[PathTable],
        positions: &Positions,
    ) -> Option<PathPosition> {
        let mut pins = self.of_new.get(new as usize)?.iter();
        let pin = pins.find(|pin| pin.old == before && ago_ms <= pin.idle_ms)?;
        let Some(meets) = &pin.meets else { return Some(pin.start) };
        let hops = &paths[positions.place(pin.start).path as usize].hops;
        let meets_one = hops.iter().zip(meets).any(|(hop, met)| {
            !met.is_empty() && choose(hop).is_some_and(|index| met.contains(&index))
        });
        meets_one.then_some(pin.start)
    }

    /// May flows stay on another path although the rules send them into the one with this index?
    pub(super) fn hold(&self, new: u32) -> bool {
        self.of_new.get(new as usize).is_some_and(|pins| !pins.is_empty())
    }

    /// The old paths, each with the longest pause that its flows may make.
    pub(super) fn old_paths(&self) -> impl Iterator<Item = (PathId, u32)> + '_ {
        self.of_new.iter().flatten().map(|pin| (pin.old, pin.idle_ms))
    }
}
