//! The routes that packets take through chains which go on in others, by graphs or by slices: each
//! has an end, and one header's time to live is enough for it.

use crate::intent::Intent;
use catena_model::id::ChainId;
use catena_model::limits::CHAIN_FUNCTIONS_MAX;
use catena_model::resource::ChainGraph;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with a route, in the names people gave.
pub(super) enum Fault {
    /// It comes back to this chain.
    Loop(String),
    /// From this chain on it is longer than [`CHAIN_FUNCTIONS_MAX`].
    TooLong {
        chain: String,
        /// Functions, and one more for each step to the next chain; at least so many.
        length: usize,
    },
}

/// Which chains go on in which.
pub(super) struct Routes<'i> {
    intent: &'i Intent,
    after: BTreeMap<ChainId, BTreeSet<ChainId>>,
    /// Functions on the longest route from a chain on; none: it is being looked at.
    lengths: BTreeMap<ChainId, Option<usize>>,
}

impl<'i> Routes<'i> {
    pub(super) fn of(intent: &'i Intent, graphs: impl Iterator<Item = &'i ChainGraph>) -> Self {
        let mut routes = Self { intent, after: BTreeMap::new(), lengths: BTreeMap::new() };
        for (source, destinations) in graphs.flat_map(|graph| &graph.branches) {
            destinations.iter().for_each(|destination| routes.add(*source, *destination));
        }
        routes
    }

    /// The one goes on in the other.
    pub(super) fn add(&mut self, source: ChainId, destination: ChainId) {
        self.after.entry(source).or_default().insert(destination);
    }

    /// Looks at all routes.
    pub(super) fn check(&mut self) -> Result<(), Fault> {
        let sources: Vec<ChainId> = self.after.keys().copied().collect();
        sources.into_iter().try_for_each(|chain| self.length(chain, 0).map(drop))
    }

    /// The chains of all routes, after they were looked at.
    pub(super) fn chains(&self) -> impl Iterator<Item = ChainId> + '_ {
        self.lengths.keys().copied()
    }

    /// The length of the longest route from a chain on, to which others of `depth` chains lead.
    fn length(&mut self, chain: ChainId, depth: usize) -> Result<usize, Fault> {
        match self.lengths.insert(chain, None) {
            Some(Some(known)) => {
                self.lengths.insert(chain, Some(known));
                return Ok(known);
            }
            Some(None) => return Err(Fault::Loop(self.name_of(chain))),
            None => {}
        }
        let own = self.intent.chains.get(&chain).map_or(0, |chain| chain.functions.len());
        let mut length = own;
        // Where so many lead here, the first of them is refused, whatever else follows.
        let is_near = depth <= CHAIN_FUNCTIONS_MAX;
        let after = self.after.get(&chain).filter(|_| is_near);
        for next in after.cloned().unwrap_or_default() {
            length = length.max(own + 1 + self.length(next, depth + 1)?);
        }
        if length > CHAIN_FUNCTIONS_MAX {
            return Err(Fault::TooLong { chain: self.name_of(chain), length });
        }
        self.lengths.insert(chain, Some(length));
        Ok(length)
    }

    fn name_of(&self, chain: ChainId) -> String {
        self.intent.chain_name(chain)
    }
}
