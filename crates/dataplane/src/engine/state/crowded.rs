//! What a memory that was full forgot of whom: flows that had to do without a place, or packets known
//! one by one. Knows whose and how many; refuses to know who got the place.

use super::visits::Payer;
use crate::engine::account::slots::Slots;
use crate::engine::tables::Tables;
use catena_model::PathId;
use catena_model::account::CrowdedCounters;
use std::collections::HashMap;

/// The counts of one memory.
#[derive(Debug, Default)]
pub(crate) struct Crowded {
    /// By serial.
    ports: HashMap<u32, u64>,
    paths: HashMap<PathId, u64>,
}

impl Crowded {
    /// Something of this payer, which was on this path, is forgotten.
    pub(crate) fn note(&mut self, payer: Payer, path: PathId) {
        match payer {
            Payer::Port(serial) => *self.ports.entry(serial).or_default() += 1,
            Payer::Path(_) => self.note_path(path),
        }
    }

    /// Something of this path is forgotten.
    pub(crate) fn note_path(&mut self, path: PathId) {
        *self.paths.entry(path).or_default() += 1;
    }

    /// Keeps the counts of what is in the tables.
    pub(crate) fn align(&mut self, tables: &Tables, slots: &Slots) {
        self.ports.retain(|serial, _| slots.with_serial(*serial).is_some());
        self.paths.retain(|path, _| tables.positions.start(*path).is_some());
    }

    /// Adds the counts to those of a node.
    pub(crate) fn export(&self, tables: &Tables, slots: &Slots, sums: &mut CrowdedCounters) {
        let named = |(serial, count): (&u32, &u64)| {
            let port = tables.port(slots.with_serial(*serial)?);
            Some((port.entry.id, *count))
        };
        for (port, count) in self.ports.iter().filter_map(named) {
            *sums.ports.entry(port).or_default() += count;
        }
        for (path, count) in &self.paths {
            *sums.paths.entry(*path).or_default() += count;
        }
    }
}
