//! What is remembered of slices, in the store: one record for what each step changed, and now and then
//! one for all of it in their place. Knows when that is; refuses to know what is in a record.

use catena_plan::{Blueprint, Planned, SliceBook, SliceJournal};
use catena_store::{Expect, Key, Store, StoreError, Transaction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const KIND: &str = "slice-journal";
/// Records that are kept before one takes their place.
const RECORDS_MAX: usize = 512;
/// Paths that records may tell of beside twice those that there are.
const PATHS_BESIDE_MAX: usize = 65_536;

/// One record.
#[derive(Deserialize)]
struct Record {
    journal: SliceJournal,
}

#[derive(Serialize)]
struct NewRecord<'r> {
    journal: &'r SliceJournal,
}

/// The records that there are.
#[derive(Default)]
pub(super) struct Journal {
    keys: BTreeSet<String>,
    /// Paths that they tell of, each as often as it is told.
    paths: usize,
}

/// What was remembered.
pub(super) struct Remembered {
    pub(super) journal: Journal,
    pub(super) book: SliceBook,
    pub(super) number: catena_model::BlueprintNumber,
}

impl Journal {
    /// Reads what was remembered.
    pub(super) fn read(store: &dyn Store) -> Result<Remembered, StoreError> {
        let mut journal = Self::default();
        let mut records = Vec::new();
        let mut number = catena_model::BlueprintNumber::default();
        for document in store.list(KIND)? {
            let record: Record = document.decode()?;
            number = number.max(record.journal.number);
            journal.paths += record.journal.len();
            journal.keys.insert(document.key.id);
            records.push(record.journal);
        }
        Ok(Remembered { journal, book: SliceBook::resume(records), number })
    }

    /// Adds what a plan changes to a transaction; nothing, if that is nothing. What is answered takes
    /// the place of this when the transaction is durable.
    pub(super) fn add(
        &self,
        transaction: &mut Transaction,
        planned: &Planned,
        former: &Blueprint,
    ) -> Result<Option<Self>, StoreError> {
        let mut change = planned.journal(former);
        if change.is_empty() {
            return Ok(None);
        }
        let paths = self.paths + change.len();
        let live = former.slices.paths().len() + change.len();
        let is_whole =
            self.keys.len() >= RECORDS_MAX || paths > live.saturating_mul(2) + PATHS_BESIDE_MAX;
        let mut next = Self { keys: self.keys.clone(), paths };
        if is_whole {
            for id in &self.keys {
                transaction.delete(Key::new(KIND, id), Expect::Any);
            }
            change = planned.whole_journal();
            next = Self { keys: BTreeSet::new(), paths: change.len() };
        }
        let number = change.number;
        for (part, journal) in change.split().into_iter().enumerate() {
            let id = format!("{:020}-{part:05}", number.0);
            let record = NewRecord { journal: &journal };
            transaction.put(Key::new(KIND, &id), &record, Expect::Any)?;
            next.keys.insert(id);
        }
        Ok(Some(next))
    }
}
