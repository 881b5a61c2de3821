//! A store of documents over a disk that fails: each transaction is one record of a journal, with
//! length and checksum, synced before it counts. What it decides is decided by the real
//! `MemoryStore`; this adds only what survives.
//!
//! It stands for SQLite with `synchronous = FULL`: the same contract, another file format. How
//! SQLite itself keeps that contract is the business of the store's and the controller's tests.

use crate::disk::{DiskFault, Journal};
use catena_store::{Change, Document, Key, MemoryStore, Revision, Store, StoreError, Transaction};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const LENGTH_BYTES: usize = 4;
const SUM_BYTES: usize = 8;

/// The disk of a controller; it outlives the process.
pub(crate) type SharedJournal = Arc<Mutex<Journal>>;

/// The store of one controller process.
#[derive(Debug)]
pub(crate) struct JournalStore {
    memory: MemoryStore,
    journal: SharedJournal,
}

pub(crate) fn lock(journal: &SharedJournal) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JournalStore {
    /// Reads all whole records and cuts off the rest: nobody was told of a torn one. What a killed
    /// process wrote and did not sync is made durable before anybody builds upon it.
    pub(crate) fn open(journal: SharedJournal) -> Self {
        let memory = MemoryStore::default();
        let mut disk = lock(&journal);
        let read = replay(disk.bytes(), &memory);
        disk.truncate(read);
        // A process that dies in it builds upon nothing.
        disk.sync().ok();
        drop(disk);
        Self { memory, journal }
    }
}

/// What a controller would find after a power cut that loses all it can lose; read as it grows.
#[derive(Debug, Default)]
pub(crate) struct Survivor {
    memory: MemoryStore,
    read: usize,
}

impl Survivor {
    pub(crate) fn read(&mut self, journal: &SharedJournal) -> &MemoryStore {
        let journal = lock(journal);
        let new = journal.durable().get(self.read..).unwrap_or_default();
        self.read += replay(new, &self.memory);
        &self.memory
    }
}

/// Carries out all whole records; answers how many bytes they have.
fn replay(bytes: &[u8], memory: &MemoryStore) -> usize {
    let mut read = 0;
    while let Some((body, length)) = bytes.get(read..).and_then(next_record) {
        let transaction = serde_json::from_slice::<Transaction>(body).ok();
        if transaction.is_none_or(|transaction| memory.commit(transaction).is_err()) {
            break;
        }
        read += length;
    }
    read
}

/// The body of the first record and the length of the whole.
pub(crate) fn next_record(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    let sum = u64::from_be_bytes(*bytes.get(LENGTH_BYTES..)?.first_chunk()?);
    let start = LENGTH_BYTES + SUM_BYTES;
    let body = bytes.get(start..start.checked_add(length)?)?;
    (checksum(body) == sum).then_some((body, start + length))
}

/// FNV-1a over length and bytes: a record of zeroes must not be a record.
fn checksum(body: &[u8]) -> u64 {
    let length = (body.len() as u64).to_be_bytes();
    let bytes = length.iter().chain(body);
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What stands before the body in a record.
pub(crate) fn head(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &checksum(body).to_be_bytes()].concat()
}

fn failed(reason: String) -> StoreError {
    StoreError::Failed { path: "sim".into(), verb: "write", reason }
}

impl Store for JournalStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        self.memory.revision()
    }

    fn get(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.memory.get(key)
    }

    fn list(&self, kind: &str) -> Result<Vec<Document>, StoreError> {
        self.memory.list(kind)
    }

    fn commit_all(&self, transactions: Vec<Transaction>) -> Result<Vec<Revision>, StoreError> {
        self.memory.check(&transactions)?;
        let mut journal = lock(&self.journal);
        let before = journal.bytes().len();
        let mut written = Ok(());
        for transaction in transactions.iter().filter(|transaction| !transaction.is_empty()) {
            let body =
                serde_json::to_vec(transaction).map_err(|error| failed(error.to_string()))?;
            // Two writes: a record can be torn between them too.
            written = written.and_then(|()| journal.append(&head(&body)));
            written = written.and_then(|()| journal.append(&body));
        }
        if journal.bytes().len() > before {
            written = written.and_then(|()| journal.sync());
        }
        match written {
            Ok(()) => self.memory.commit_all(transactions),
            Err(DiskFault::Full) => {
                journal.truncate(before);
                Err(StoreError::Full("sim".into()))
            }
            Err(DiskFault::Dead) => Err(failed("the process died".into())),
        }
    }

    fn changes(&self, after: Revision) -> Result<Vec<Change>, StoreError> {
        self.memory.changes(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Death;
    use crate::random::Random;
    use catena_store::Expect;

    fn put(store: &JournalStore, id: &str, body: u64) -> Result<Revision, StoreError> {
        let mut transaction = Transaction::new();
        transaction.put(Key::new("kind", id), &body, Expect::Any)?;
        transaction.put(Key::new("twin", id), &body, Expect::Any)?;
        store.commit(transaction)
    }

    #[test]
    fn whatever_tears_the_last_record_the_answered_ones_are_there_whole() {
        let mut outcomes = [0, 0];
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let journal = SharedJournal::default();
            let store = JournalStore::open(Arc::clone(&journal));
            put(&store, "a", 1).unwrap();
            put(&store, "b", 2).unwrap();
            lock(&journal).fuse.light(u32::try_from(random.below(3)).unwrap());
            put(&store, "a", 3).unwrap_err();
            let death = if random.chance(500) { Death::Killed } else { Death::PowerCut };
            lock(&journal).crash(death, &mut random);
            let again = JournalStore::open(Arc::clone(&journal));
            let read = |kind: &str, id: &str| -> u64 {
                again.get(&Key::new(kind, id)).unwrap().unwrap().decode().unwrap()
            };
            assert_eq!((read("kind", "b"), read("twin", "b")), (2, 2));
            assert_eq!(read("kind", "a"), read("twin", "a"), "both or none");
            outcomes[usize::from(read("kind", "a") == 3)] += 1;
            put(&again, "c", 4).unwrap();
            let last = JournalStore::open(journal);
            assert!(last.get(&Key::new("kind", "c")).unwrap().is_some());
        }
        assert!(outcomes.iter().all(|count| *count > 20), "{outcomes:?}: both must happen");
    }

    #[test]
    fn a_full_disk_keeps_nothing_of_the_change() {
        let journal = SharedJournal::default();
        let store = JournalStore::open(Arc::clone(&journal));
        put(&store, "a", 1).unwrap();
        lock(&journal).is_full = true;
        assert!(matches!(put(&store, "a", 2), Err(StoreError::Full(_))));
        lock(&journal).is_full = false;
        put(&store, "b", 3).unwrap();
        let again = JournalStore::open(journal);
        assert_eq!(again.get(&Key::new("kind", "a")).unwrap().unwrap().body, "1");
        assert_eq!(again.revision().unwrap(), Revision(2));
    }
}
