//! Where tables came from, and what differs from those before: what decisions depend on that is not as it
//! was. Knows identities and indexes alone.

use crate::engine::packet::index::PortIndex;
use catena_model::PathId;
use catena_model::id::{NetworkId, PortId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that a decision was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dependency {
    /// A path: its hops and instances, the rules into it and behind its end.
    Path(PathId),
    /// Where the MACs and addresses of a network are.
    Network(NetworkId),
    /// That no rule took a packet of an endpoint of this network.
    Ordinary(NetworkId),
}

/// How tables came to be.
#[derive(Clone, Debug)]
pub(crate) struct Descent {
    /// No other tables of this process have it.
    serial: u64,
    /// The tables that they were made of; none: they stand for themselves.
    base: Option<u64>,
    /// What differs from those.
    pub(crate) changed: Changed,
}

impl Descent {
    fn new(base: Option<u64>, changed: Changed) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let serial = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { serial, base, changed }
    }

    /// Tables made of none.
    pub(crate) fn root() -> Self {
        Self::new(None, Changed::default())
    }

    /// Tables made of others.
    pub(crate) fn of(former: &Self, changed: Changed) -> Self {
        Self::new(Some(former.serial), changed)
    }

    /// What differs from these; none: nobody has looked.
    pub(crate) fn since(&self, former: &Self) -> Option<&Changed> {
        (self.base == Some(former.serial)).then_some(&self.changed)
    }
}

/// What differs between two tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    /// What the node is told of itself: no decision holds.
    pub(crate) is_all: bool,
    /// The paths, by index, those of slices too, that came, went or are others, or are walked
    /// differently because of the ports that they go through or the rules behind their end.
    pub(crate) paths: BTreeSet<u32>,
    /// Those of them that are no slices', by identifier.
    pub(crate) of_paths: BTreeSet<PathId>,
    pub(crate) networks: BTreeSet<NetworkId>,
    /// The ports, by index, that came, went or are used differently.
    pub(crate) ports: BTreeSet<PortIndex>,
    pub(crate) gone_ports: Vec<PortId>,
    /// Those that stay and are another thing now.
    pub(crate) other_ports: Vec<PortId>,
    /// What rules decided that went or moved.
    pub(crate) ruled: BTreeSet<Dependency>,
    /// Rules that came or moved, by number.
    pub(super) placed: Vec<u32>,
    /// What was decided that those may take; none: nobody has looked.
    pub(super) met: Option<BTreeSet<Dependency>>,
    /// The ports, by index, whose packets may enter other paths than before, or may do so where it is
    /// not known which: all.
    pub(crate) entered: Entered,
}

impl Changed {
    /// Nothing differs, but packets may enter other paths.
    pub(crate) fn entered_anew() -> Self {
        Self { entered: Entered::All, ..Self::default() }
    }

    /// What was decided that rules which came or moved may take; none: it is not known.
    pub(crate) fn met(&self) -> Option<&BTreeSet<Dependency>> {
        self.met.as_ref()
    }
}

/// Ports by whose packets something else becomes of.
#[derive(Clone, Debug)]
pub(crate) enum Entered {
    By(BTreeSet<PortIndex>),
    All,
}

impl Default for Entered {
    fn default() -> Self {
        Self::By(BTreeSet::new())
    }
}
