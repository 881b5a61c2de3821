//! The immutable numbered whole: one program for each node, and the ledger it leaves behind.

use crate::index::IndexedIntent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathPhase, PathRecord};
use crate::programs::{Programs, Sources};
use crate::slices::SliceBook;
use crate::touched::Looked;
use catena_model::entry::ProgramVersion;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the whole domain shall run.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// Its number.
    pub number: BlueprintNumber,
    /// The blueprint it was made from.
    pub parent: BlueprintNumber,
    /// Each node's program. The number of a program is that of the blueprint that changed it last.
    pub programs: Programs,
    /// What the next planning must remember; store it before any program leaves.
    pub ledger: Arc<Ledger>,
    /// The slices; what changed in it must be stored, too.
    pub slices: SliceBook,
    /// What it was planned for; none: nothing is known of that.
    pub(crate) looked: Option<Arc<Looked>>,
}

impl Blueprint {
    /// Goes on from a stored ledger. The programs are made anew by the next planning; one that is as it
    /// was told to its node is known again.
    #[must_use]
    pub fn resume(ledger: Ledger, told: BTreeMap<NodeName, ProgramVersion>) -> Self {
        Self {
            number: ledger.number,
            parent: ledger.number,
            programs: Programs::remembering(told),
            ledger: Arc::new(ledger),
            slices: SliceBook::default(),
            looked: None,
        }
    }

    /// The same, as if nothing were known of what it was planned for: what follows is found by looking
    /// at everything.
    #[must_use]
    pub fn without_looks(self) -> Self {
        Self { looked: None, ..self }
    }

    /// The same with the slices that were planned; the blueprint that did so may be newer.
    #[must_use]
    pub fn with_slices(self, slices: SliceBook, number: BlueprintNumber) -> Self {
        let number = number.max(self.number);
        Self { number, parent: number, slices, ..self }
    }

    /// What a node is told, in lists.
    #[must_use]
    pub fn program(&self, node: &NodeName) -> Option<NodeProgram> {
        let program = self.programs.get(node)?;
        Some(program.entries.program(node.clone(), program.number))
    }

    /// What was looked at before, if it was among these nodes.
    pub(crate) fn looked_among(&self, inventory: &Inventory) -> Option<&Looked> {
        self.looked.as_deref().filter(|looked| looked.is_among(inventory))
    }

    /// The programs that follow, slices as they are; not yet numbered.
    pub(crate) fn following_programs(
        &self,
        ledger: &Ledger,
        intent: &IndexedIntent,
        inventory: &Inventory,
    ) -> Programs {
        // What hosts know of one another is made for all of them at once.
        let are_named = self.ledger.devices.are_given_as(&ledger.devices);
        let looked = self.looked_among(inventory).filter(|_| are_named);
        let from = looked.map(|looked| Sources {
            paths: &self.ledger.paths,
            devices: &self.ledger.devices,
            port_numbers: &self.ledger.port_numbers,
            ways: &self.ledger.ways,
            detours: &self.ledger.detours,
            mtus: &self.ledger.way_mtus,
            borders: &self.ledger.borders,
            stitches: &self.ledger.stitches,
            intent: &looked.intent,
            nodes: &looked.nodes,
            switches: &looked.switches,
        });
        let to = Sources::new(ledger, intent, inventory);
        let domain = (ledger.choice_seed, ledger.discovery_key);
        self.programs.following(from, to, domain)
    }

    /// The number of a node's program.
    #[must_use]
    pub fn number_of(&self, node: &NodeName) -> BlueprintNumber {
        self.programs.get(node).map(|program| program.number).unwrap_or_default()
    }

    /// Strikes a node out that nobody waits for any more. Identifiers that it may still know are not
    /// used again: it may come back.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.programs.remove(node);
        // It may be met again before the next step.
        self.looked = None;
        let paths = &mut Arc::make_mut(&mut self.ledger).paths;
        let names = |path: &PathRecord| {
            path.needs.contains_key(node) || path.nodes(std::iter::once(node)).contains(node)
        };
        let naming = paths.iter().filter(|(_, path)| names(path)).map(|(id, _)| *id);
        for id in naming.collect::<Vec<PathId>>() {
            paths.update(id, |path| {
                path.holders.remove(node);
                path.needs.remove(node);
                path.is_partly_counted = true;
            });
        }
        self.slices.forget_node(node);
    }

    /// Do all nodes of a path run the blueprint that brought it to its phase?
    pub(crate) fn is_running(&self, inventory: &Inventory, path: &PathRecord) -> bool {
        self.lagging(inventory, path).is_none()
    }

    /// A node that does not yet run the blueprint that brought a path to its phase.
    pub(crate) fn lagging(&self, inventory: &Inventory, path: &PathRecord) -> Option<NodeName> {
        self.lagging_nodes(inventory, path).pop_first()
    }

    /// The nodes that do not yet run the blueprint that brought a path to its phase.
    #[must_use]
    pub fn lagging_nodes(&self, inventory: &Inventory, path: &PathRecord) -> BTreeSet<NodeName> {
        let mut nodes = path.nodes(inventory.nodes.keys());
        nodes.retain(|node| {
            let needed = path.needs.get(node).copied().unwrap_or(path.since);
            // Who was forgotten keeps no path from going.
            let is_waited_for = path.phase != PathPhase::Superseded || inventory.knows(node);
            is_waited_for && !inventory.has_acknowledged(node, needed)
        });
        nodes
    }
}
