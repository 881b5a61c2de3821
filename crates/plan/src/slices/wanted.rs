//! What is declared of slices, as it was looked at last, and which of them must be looked at again.

use crate::counts::{Counts, Edit};
use crate::index::IndexedIntent;
use crate::intent::{Table, differences};
use catena_model::id::{ChainId, PortId, SliceId};
use catena_model::resource::Port;
use catena_model::slice::{Slice, SlicePlace};
use catena_model::{BlueprintNumber, PathId};
use imbl::OrdSet;

/// Where slices of chains begin, and how many do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places(Counts<(ChainId, SlicePlace)>);

impl Places {
    /// The places at which slices of a chain begin.
    pub(crate) fn of(&self, chain: ChainId) -> impl Iterator<Item = SlicePlace> + '_ {
        let places = self.0.keys_from((chain, SlicePlace::Endpoints));
        places.take_while(move |(found, _)| *found == chain).map(|(_, place)| *place)
    }

    /// The chains at which slices begin elsewhere. Costs what differs.
    pub(crate) fn changes<'p>(&'p self, other: &'p Self) -> impl Iterator<Item = ChainId> + 'p {
        self.0.changed_keys(&other.0).map(|(chain, _)| *chain)
    }

    /// Has the chain slices?
    pub(crate) fn has_any(&self, chain: ChainId) -> bool {
        self.of(chain).next().is_some()
    }

    /// The chains that have slices.
    pub(crate) fn chains(&self) -> impl Iterator<Item = ChainId> + '_ {
        let mut last = None;
        let chains = self.0.iter().map(|((chain, _), _)| *chain);
        chains.filter(move |chain| last.replace(*chain) != Some(*chain))
    }

    fn edit(&mut self, edit: Edit, slice: &Slice) {
        self.0.edit(edit, (slice.chain, slice.place()));
    }
}

/// What was looked at last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    seen: Table<SliceId, Slice>,
    seen_ports: Table<PortId, Port>,
    pub(crate) places: Places,
    /// The path whose hops slices of a chain share.
    pub(crate) targets: Table<ChainId, PathId>,
    /// The ledger that these were found in; none: a chain has got slices since.
    aimed_at: Option<BlueprintNumber>,
    /// Those that may not be carried as they are declared.
    pub(crate) todo: OrdSet<SliceId>,
}

impl Wanted {
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.todo.is_empty()
    }

    /// Takes what is declared now. Costs what has changed.
    pub(crate) fn look(&mut self, intent: &IndexedIntent) {
        let former = std::mem::replace(&mut self.seen, intent.slices.clone());
        for (id, old, new) in differences(&former, &intent.slices) {
            if let Some(old) = old {
                self.places.edit(Edit::Remove, old);
            }
            if let Some(new) = new {
                if !self.places.has_any(new.chain) {
                    self.aimed_at = None;
                }
                self.places.edit(Edit::Add, new);
            }
            self.todo.insert(*id);
        }
        let former = std::mem::replace(&mut self.seen_ports, intent.ports.clone());
        for (id, ..) in differences(&former, &intent.ports) {
            self.todo.extend(intent.index().slices_of_port(*id));
        }
    }

    /// Must the paths whose hops slices share be looked for again? They are, from now on.
    pub(crate) fn must_aim(&mut self, ledger: BlueprintNumber) -> bool {
        self.aimed_at.replace(ledger) != Some(ledger)
    }

    /// The hops of a chain's slices are those of this path now. Costs all of its slices, if that is
    /// new.
    pub(crate) fn aim(&mut self, chain: ChainId, target: Option<PathId>, intent: &IndexedIntent) {
        if self.targets.get(&chain).copied() == target {
            return;
        }
        match target {
            Some(path) => self.targets.insert(chain, path),
            None => self.targets.remove(&chain),
        };
        self.todo.extend(intent.index().slices_of_chain(chain));
    }
}
