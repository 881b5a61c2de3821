//! From one program to the next: tables are made of those before, as far as what differs lets them.
//! Knows which kinds of entries that is; refuses to know how tables are made.

use super::compile::CompileError;
use super::tables::Tables;
use catena_model::NodeName;
use catena_model::entry::{Change, Entries, Program};

/// The tables whose entries others are made without anew.
const FOLLOWED: [&str; 2] = ["slices", "slice_paths"];

impl Tables {
    /// The tables of a program, given these of `former`. It costs in proportion to what differs if that
    /// is slices and their paths alone; else all tables are made anew. Slices put in by hand are not in
    /// it.
    ///
    /// # Errors
    /// When the program contradicts itself or exceeds a limit of `catena_model::limits`.
    pub fn following(
        &self,
        node: &NodeName,
        former: &Entries,
        program: &Program,
    ) -> Result<Tables, CompileError> {
        let Program { number, entries, .. } = program;
        if entries.since(former).all(|(table, _)| FOLLOWED.contains(&table)) {
            let changes: Vec<Change> = entries.changes_since(former).collect();
            return self.with_slices(*number, &changes);
        }
        Tables::compile(&entries.program(node.clone(), *number))
    }
}
