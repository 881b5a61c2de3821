//! What a blueprint changes, table by table, for previews and tests.

use crate::blueprint::Blueprint;
use crate::intent::Table;
use crate::slices::SliceTable;
use catena_model::entry::Entries;
use catena_model::{BlueprintNumber, NodeName};
use imbl::ordmap::DiffItem;
use serde::Serialize;
use std::collections::BTreeMap;

/// Entries that appear and disappear in one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableDiff {
    /// New entries.
    pub added: usize,
    /// Entries that are gone.
    pub removed: usize,
}

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
    let since = to.since(from.unwrap_or(&Entries::default()));
    since.map(|(name, d)| (name, TableDiff { added: d.added, removed: d.removed })).collect()
}

/// Costs what differs.
fn diff_slices(
    from: Option<&SliceTable>,
    to: Option<&SliceTable>,
) -> BTreeMap<&'static str, TableDiff> {
    let empty = SliceTable::default();
    let (from, to) = (from.unwrap_or(&empty), to.unwrap_or(&empty));
    let slices = diff_map(&from.slices, &to.slices);
    let paths = diff_map(&from.paths, &to.paths);
    let differs = |(_, diff): &(&'static str, TableDiff)| *diff != TableDiff::default();
    [("slices", slices), ("slice paths", paths)].into_iter().filter(differs).collect()
}

fn diff_map<K: Ord + Clone, V: Clone + PartialEq>(
    from: &Table<K, V>,
    to: &Table<K, V>,
) -> TableDiff {
    let mut counted = TableDiff::default();
    for item in from.diff(to) {
        counted.added += usize::from(!matches!(item, DiffItem::Remove(..)));
        counted.removed += usize::from(!matches!(item, DiffItem::Add(..)));
    }
    counted
}
