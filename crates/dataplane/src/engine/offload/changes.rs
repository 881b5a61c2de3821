//! What new tables change for flows that were decided by the old ones. Knows what decisions depend on;
//! refuses to know flows. It may name too much, never too little.

use crate::engine::tables::Tables;
use crate::engine::tables::descent::{Changed, Dependency};
use std::collections::BTreeSet;

/// What decisions were made by that is not as it was, or is gone; none: all.
pub(super) fn dependencies(changed: &Changed) -> Option<(&Changed, BTreeSet<Dependency>)> {
    let met = changed.met().filter(|_| !changed.is_all)?;
    let of_network = |id| [Dependency::Network(id), Dependency::Ordinary(id)];
    let networks = changed.networks.iter().copied().flat_map(of_network);
    let paths = changed.of_paths.iter().copied().map(Dependency::Path);
    let ruled = changed.ruled.iter().chain(met).copied();
    Some((changed, ruled.chain(paths).chain(networks).collect()))
}

/// What is not in these tables.
pub(super) fn is_gone(dependency: Dependency, new: &Tables) -> bool {
    match dependency {
        Dependency::Path(path) => new.positions.start(path).is_none(),
        Dependency::Network(network) | Dependency::Ordinary(network) => {
            new.names.network(network).is_none()
        }
    }
}
