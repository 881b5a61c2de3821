//! What a blueprint changes, table by table, for previews and tests.

use crate::blueprint::Blueprint;
use crate::slices::SliceTable;
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

/// Compares two blueprints.
#[must_use]
pub fn diff(from: &Blueprint, to: &Blueprint) -> BlueprintDiff {
    let mut nodes = BTreeMap::new();
    for (name, program) in to.programs.iter() {
        let former = from.programs.get(name).map(|program| &program.entries);
        let mut tables = diff_entries(former, &program.entries);
        tables.extend(diff_slices(from.slices.table(name), to.slices.table(name)));
        if !tables.is_empty() {
            let numbers = (from.number_of(name), to.number_of(name));
            nodes.insert(name.clone(), NodeDiff { from: numbers.0, to: numbers.1, tables });
        }
    }
    BlueprintDiff { from: from.number, to: to.number, nodes }
}

/// Costs what differs.
fn diff_entries(from: Option<&Entries>, to: &Entries) -> BTreeMap<&'static str, TableDiff> {
    to.since(from.unwrap_or(&Entries::default())).collect()
}

/// Costs what differs.
fn diff_slices(
    from: Option<&SliceTable>,
    to: Option<&SliceTable>,
) -> BTreeMap<&'static str, TableDiff> {
    let empty = SliceTable::default();
    let (from, to) = (from.unwrap_or(&empty), to.unwrap_or(&empty));
    let slices = TableDiff::between(&from.slices, &to.slices);
    let paths = TableDiff::between(&from.paths, &to.paths);
    let differs = |(_, diff): &(&'static str, TableDiff)| *diff != TableDiff::default();
    [("slices", slices), ("slice paths", paths)].into_iter().filter(differs).collect()
}
