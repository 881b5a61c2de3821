//! What a node is told, as keyed entries of a fixed list of kinds. Each kind is declared here, once:
//! its table, its key and its entry.
//!
//! Tables are persistent: a copy costs nothing, and what two of them differ in is found without
//! looking at what both share.

use crate::id::{ChainId, NetworkId, NodeName, PathId, PortId, RuleId};
use crate::program::{
    ChainEntry, MacEntry, NeighbourEntry, NetworkEntry, PathEntry, PinEntry, PortEntry, RuleEntry,
    TunnelEntry, Underlay,
};
use crate::{BlueprintNumber, NodeProgram};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::Arc;

/// Where a rule stands: the first that matches has the packet, in the order of these fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleKey {
    /// Of the rule; the highest goes first.
    pub priority: Reverse<u32>,
    /// Its place among rules of the same priority, part by part.
    pub order: Vec<u16>,
    /// The path that it sends into.
    pub path: PathId,
    /// The rule that was declared.
    pub rule: RuleId,
    /// The path whose record has it: of a rule at the end of a path, that path.
    pub source: PathId,
    /// Its place in that record: one rule that was declared may be several here.
    pub part: u32,
}

/// Entries that came and went in one table; one that changed did both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableDiff {
    /// New entries.
    pub added: usize,
    /// Entries that are gone.
    pub removed: usize,
}

impl TableDiff {
    /// What differs in one of two tables. Costs what differs.
    #[must_use]
    pub fn between<K: Ord + Clone, E: Clone + PartialEq>(
        former: &OrdMap<K, E>,
        now: &OrdMap<K, E>,
    ) -> Self {
        let mut found = Self::default();
        for item in former.diff(now) {
            found.added += usize::from(!matches!(item, DiffItem::Remove(..)));
            found.removed += usize::from(!matches!(item, DiffItem::Add(..)));
        }
        found
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $table:ident: $key:ty => $entry:ty,)+) => {
        /// The entries of one node, slices excepted.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Entries {
            $($(#[doc = $doc])+ pub $table: OrdMap<$key, Arc<$entry>>,)+
        }

        impl Entries {
            /// What differs from others, by table; tables without a difference are left out. Costs
            /// what differs.
            pub fn since(
                &self,
                former: &Self,
            ) -> impl Iterator<Item = (&'static str, TableDiff)> + use<> {
                let tables = [$((stringify!($table), TableDiff::between(&former.$table, &self.$table))),+];
                tables.into_iter().filter(|(_, found)| *found != TableDiff::default())
            }

            /// How many there are, by table.
            #[must_use]
            pub fn lengths(&self) -> Vec<(&'static str, usize)> {
                vec![$((stringify!($table), self.$table.len())),+]
            }

            /// The whole program of a node. The order of each table is that of its keys.
            #[must_use]
            pub fn program(
                &self,
                node: NodeName,
                number: BlueprintNumber,
                underlay: Underlay,
            ) -> NodeProgram {
                let mut program = NodeProgram::empty(node, number, underlay);
                $(program.$table = self.$table.values().map(|entry| <$entry>::clone(entry)).collect();)+
                program
            }
        }
    };
}

kinds! {
    /// The other nodes.
    tunnels: NodeName => TunnelEntry,
    /// Tenant networks present on the node, or reached by its paths.
    networks: NetworkId => NetworkEntry,
    /// Ports that the node carries.
    ports: PortId => PortEntry,
    /// Where the MAC of each port of those networks is.
    macs: PortId => MacEntry,
    /// The addresses of each of those ports, by their place.
    neighbours: (PortId, u16) => NeighbourEntry,
    /// Which packets enter which path.
    rules: RuleKey => RuleEntry,
    /// The paths that touch the node.
    paths: PathId => PathEntry,
    /// Names of the chains that own those paths.
    chains: ChainId => ChainEntry,
    /// Which flows stay on a path that was replaced, by the path that replaces it.
    pins: (PathId, u16) => PinEntry,
}
