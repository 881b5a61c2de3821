//! What a blueprint changes, table by table, for previews and tests.

use crate::blueprint::Blueprint;
use catena_model::entry::{Entries, TableDiff};
use catena_model::{BlueprintNumber, NodeName};
use serde::Serialize;
use std::collections::BTreeMap;

/// The change of one node's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeDiff {
    /// Number before; 0: there was none.
    pub from: BlueprintNumber,
    /// Number after.
    pub to: BlueprintNumber,
    /// Tables with a difference, by name.
    pub tables: BTreeMap<&'static str, TableDiff>,
}

/// The change of a whole blueprint; nodes without a change are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlueprintDiff {
    /// Number before.
    pub from: BlueprintNumber,
    /// Number after.
    pub to: BlueprintNumber,
    /// Nodes with a difference.
    pub nodes: BTreeMap<NodeName, NodeDiff>,
}

/// Compares two blueprints. Costs what differs.
#[must_use]
pub fn diff(from: &Blueprint, to: &Blueprint) -> BlueprintDiff {
    let (nothing, mut nodes) = (Entries::default(), BTreeMap::new());
    for (name, program) in to.programs.iter() {
        let former = from.programs.get(name).map(|program| &program.entries);
        let tables: BTreeMap<_, _> = program.entries.since(former.unwrap_or(&nothing)).collect();
        if !tables.is_empty() {
            let numbers = (from.number_of(name), to.number_of(name));
            nodes.insert(name.clone(), NodeDiff { from: numbers.0, to: numbers.1, tables });
        }
    }
    BlueprintDiff { from: from.number, to: to.number, nodes }
}
