//! Flips, cuts and swaps over all files of a store: whatever is done to one of them, a store that
//! starts has every acknowledged write, unchanged.

use crate::chance::Chance;
use catena_store::{Document, Expect, Key, SqliteStore, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use std::path::Path;

/// What belongs to a store called `store.db`.
const FILES: [&str; 3] = ["store.db", "store.db-wal", "store.db-witness"];
/// SQLite's page, and what a disk may tear or misplace.
const BLOCK: usize = 4_096;
/// A document that nobody was told is there.
const UNANSWERED: &str = "unanswered";

/// Nothing here is about waiting for a disk.
fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The files of a store as a kill leaves them, and what was acknowledged by then.
#[derive(Clone)]
struct Moment {
    files: BTreeMap<&'static str, Vec<u8>>,
    acknowledged: Vec<Document>,
}

impl Moment {
    fn of(folder: &Path, acknowledged: Vec<Document>) -> Self {
        let read = |name| Some((name, std::fs::read(folder.join(name)).ok()?));
        let files = FILES.into_iter().filter_map(read).collect();
        Self { files, acknowledged }
    }

    fn lay_out(&self, folder: &Path) {
        for name in FILES {
            let _ = std::fs::remove_file(folder.join(name));
            if let Some(bytes) = self.files.get(name) {
                std::fs::write(folder.join(name), bytes).unwrap();
            }
        }
    }

    /// Starts a store of these files. True: it complains; false: it has all that it should have.
    /// Ends the test if it starts without a complaint and lacks something.
    fn is_noticed(&self, folder: &Path, what: &str) -> bool {
        self.lay_out(folder);
        let Ok(store) = SqliteStore::open(folder.join(FILES[0])) else { return true };
        let found = all(&store);
        for document in &self.acknowledged {
            assert!(found.contains(document), "{what}: {} is missing or changed", document.key);
        }
        for document in &found {
            // What was written last and never answered may be there, in files that are newer.
            let is_known = document.key.id == UNANSWERED || self.acknowledged.contains(document);
            assert!(is_known, "{what}: {} is not what was written", document.key);
            assert_eq!(store.get(&document.key).unwrap().as_ref(), Some(document), "{what}");
        }
        false
    }
}

fn all(store: &SqliteStore) -> Vec<Document> {
    ["chain", "note"].into_iter().flat_map(|kind| store.list(kind).unwrap()).collect()
}

/// Writes, overwrites and removes.
fn work(store: &SqliteStore, chance: &mut Chance, commits: usize) {
    for _ in 0..commits {
        let transactions = (0..=chance.below(3)).map(|_| {
            let mut transaction = Transaction::new();
            let kind = ["chain", "note"][chance.below(2)];
            let key = Key::new(kind, format!("n{}", chance.below(60)));
            if chance.below(6) == 0 {
                transaction.delete(key, Expect::Any);
            } else {
                let body = format!("{:016x}", chance.next()).repeat(1 + chance.below(20));
                transaction.put(key, &body, Expect::Any).unwrap();
            }
            transaction
        });
        store.commit_all(transactions.collect()).unwrap();
    }
}

/// One life of a store: young, with all of it in the log; older, with a part of it in the log;
/// after a clean end, with none; and killed between a write and its answer.
fn life(seed: u64) -> Vec<Moment> {
    let folder = folder_in_memory();
    let path = folder.path().join(FILES[0]);
    let mut chance = Chance::new(seed);
    let mut moments = Vec::new();
    let store = SqliteStore::open(&path).unwrap();
    let keep = |store: &SqliteStore, moments: &mut Vec<Moment>| {
        moments.push(Moment::of(folder.path(), all(store)));
    };
    work(&store, &mut chance, 40);
    keep(&store, &mut moments);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    keep(&store, &mut moments);
    for _ in 0..2 {
        work(&store, &mut chance, 30);
        keep(&store, &mut moments);
    }
    let before = std::fs::read(folder.path().join(FILES[2])).ok();
    let acknowledged = all(&store);
    let mut last = Transaction::new();
    last.put(Key::new("note", UNANSWERED), &"?", Expect::Any).unwrap();
    store.commit(last).unwrap();
    let mut killed = Moment::of(folder.path(), acknowledged);
    killed.files.extend(before.map(|bytes| (FILES[2], bytes)));
    moments.push(killed);
    moments
}

/// Everything that is done to files, and what it is done with.
struct Vandal {
    chance: Chance,
    lives: Vec<Vec<Moment>>,
}

impl Vandal {
    /// Damages one file of a moment by chance; says what it did.
    fn strike(&mut self) -> (Moment, String) {
        let life = self.chance.below(self.lives.len());
        let place = self.chance.below(self.lives[life].len());
        let mut moment = self.lives[life][place].clone();
        let names: Vec<&str> = moment.files.keys().copied().collect();
        let name = names[self.chance.below(names.len())];
        let mut bytes = moment.files[name].clone();
        let done = match self.chance.below(7) {
            0 | 1 => self.flip(&mut bytes),
            2 => self.cut(&mut bytes),
            3 => self.overwrite(&mut bytes),
            4 => self.swap_blocks(&mut bytes),
            5 => self.stale_block(&mut bytes, name),
            _ => self.swap_file(&mut bytes, name),
        };
        let what = format!("{name} of moment {place} of life {life}: {done}");
        match bytes.is_empty() && self.chance.below(2) == 0 {
            true => drop(moment.files.remove(name)),
            false => drop(moment.files.insert(names_of(name), bytes)),
        }
        (moment, what)
    }

    fn flip(&mut self, bytes: &mut [u8]) -> String {
        if bytes.is_empty() {
            return "nothing to flip".into();
        }
        let (at, bit) = (self.chance.below(bytes.len()), self.chance.below(8));
        bytes[at] ^= 1 << bit;
        format!("bit {bit} of byte {at} flipped")
    }

    fn cut(&mut self, bytes: &mut Vec<u8>) -> String {
        let length = match self.chance.below(4) {
            0 => 0,
            1 => self.chance.below(bytes.len() + 1) / BLOCK * BLOCK,
            _ => self.chance.below(bytes.len() + 1),
        };
        let former = bytes.len();
        bytes.truncate(length);
        format!("{former} bytes cut to {length}")
    }

    fn overwrite(&mut self, bytes: &mut [u8]) -> String {
        let from = self.chance.below(bytes.len() + 1);
        let to = (from + 1 + self.chance.below(2 * BLOCK)).min(bytes.len());
        let fill = [0, 0xff, 0x5a][self.chance.below(3)];
        bytes[from..to].fill(fill);
        format!("{from}..{to} overwritten with {fill}")
    }

    fn swap_blocks(&mut self, bytes: &mut [u8]) -> String {
        let blocks = bytes.len() / BLOCK;
        if blocks < 2 {
            return "too short to swap".into();
        }
        let (one, other) = (self.chance.below(blocks), self.chance.below(blocks));
        for at in 0..BLOCK {
            bytes.swap(one * BLOCK + at, other * BLOCK + at);
        }
        format!("blocks {one} and {other} swapped")
    }

    /// A file of the same name from another moment, of this life or another.
    fn other(&mut self, name: &str) -> (Vec<u8>, String) {
        let life = self.chance.below(self.lives.len());
        let place = self.chance.below(self.lives[life].len());
        let bytes = self.lives[life][place].files.get(name).cloned().unwrap_or_default();
        (bytes, format!("moment {place} of life {life}"))
    }

    fn stale_block(&mut self, bytes: &mut [u8], name: &str) -> String {
        let (other, whose) = self.other(name);
        let blocks = bytes.len().min(other.len()) / BLOCK;
        if blocks == 0 {
            return "too short to be stale".into();
        }
        let from = self.chance.below(blocks) * BLOCK;
        bytes[from..from + BLOCK].copy_from_slice(&other[from..from + BLOCK]);
        format!("bytes from {from} on as in {whose}")
    }

    fn swap_file(&mut self, bytes: &mut Vec<u8>, name: &str) -> String {
        let (other, whose) = self.other(name);
        *bytes = other;
        format!("taken from {whose}")
    }
}

/// The name as it lives in [`FILES`].
fn names_of(name: &str) -> &'static str {
    FILES.into_iter().find(|file| *file == name).unwrap()
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let folder = folder_in_memory();
    let mut noticed: BTreeMap<&str, usize> = BTreeMap::new();
    // After a clean end, and killed with a log.
    for moment in [&life(1)[1], &life(1)[3]] {
        assert!(!moment.is_noticed(folder.path(), "nothing done"), "whole files start");
        for (name, bytes) in &moment.files {
            // A few hundred places, one bit each, walking through the bit positions.
            for (turn, at) in (0..bytes.len()).step_by(1 + bytes.len() / 199).enumerate() {
                let mut altered = moment.clone();
                altered.files.get_mut(name).unwrap()[at] ^= 1 << (turn % 8);
                let what = format!("{name}, byte {at}, bit {}", turn % 8);
                let is_noticed = altered.is_noticed(folder.path(), &what);
                *noticed.entry(name).or_default() += usize::from(is_noticed);
            }
        }
    }
    println!("noticed: {noticed:?}");
    assert!(noticed[FILES[0]] > 50 && noticed[FILES[1]] > 150, "only {noticed:?} were noticed");
}

#[test]
fn no_flip_cut_or_swap_of_any_file_goes_unnoticed() {
    let is_full = std::env::var("CATENA_FULL").is_ok_and(|full| full == "1");
    let cases = if is_full { 10_000 } else { 200 };
    let folder = folder_in_memory();
    let mut vandal = Vandal { chance: Chance::new(17), lives: vec![life(1), life(2)] };
    let mut noticed = 0;
    for case in 0..cases {
        let (damaged, what) = vandal.strike();
        noticed += usize::from(damaged.is_noticed(folder.path(), &format!("{case}, {what}")));
    }
    println!("{noticed} of {cases} were noticed, the others took nothing away");
    assert!(noticed > cases / 3, "only {noticed} of {cases} were noticed");
}

/// A kill between the log and the witness, or in the middle of either.
#[test]
fn a_tail_that_was_never_answered_shuts_nobody_out() {
    let folder = folder_in_memory();
    let moments = life(3);
    let killed = moments.last().unwrap();
    assert!(!killed.is_noticed(folder.path(), "ahead of its witness"));
    // The log torn within what was not answered, at each of its last bytes.
    let whole = killed.files[FILES[1]].clone();
    let answered = moments[moments.len() - 2].files[FILES[1]].len();
    for length in (answered..whole.len()).step_by(97) {
        let mut torn = killed.clone();
        torn.files.get_mut(FILES[1]).unwrap().truncate(length);
        assert!(!torn.is_noticed(folder.path(), &format!("log torn at {length}")));
    }
    // The witness torn while it was written, anywhere in either of its two places.
    let after = witness_after(folder.path(), killed);
    let before = &killed.files[FILES[2]];
    assert_eq!(before.len(), after.len());
    let within = |place: usize| (0..90).step_by(3).map(move |at| place * BLOCK + at);
    for torn_at in within(0).chain(within(1)) {
        let mut torn = killed.clone();
        let halves = [&after[..torn_at], &before[torn_at..]].concat();
        torn.files.insert(FILES[2], halves);
        assert!(!torn.is_noticed(folder.path(), &format!("witness torn at {torn_at}")));
    }
}

/// The witness as it is once the last write of `killed` has been seen by it.
fn witness_after(folder: &Path, killed: &Moment) -> Vec<u8> {
    killed.lay_out(folder);
    drop(SqliteStore::open(folder.join(FILES[0])).unwrap());
    std::fs::read(folder.join(FILES[2])).unwrap()
}

#[test]
fn a_store_behind_its_witness_says_what_is_missing_and_can_be_taken_as_it_is() {
    let folder = folder_in_memory();
    let mut moment = life(4)[3].clone();
    // With its head gone, nothing of the log counts.
    moment.files.get_mut(FILES[1]).unwrap()[0] ^= 1;
    moment.lay_out(folder.path());
    let path = folder.path().join(FILES[0]);
    let left = || FILES.map(|name| std::fs::read(folder.path().join(name)).ok());
    let before = left();
    for _ in 0..2 {
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Behind { .. }), "{error}");
        assert!(error.to_string().contains("--accept-store"), "{error}");
    }
    assert!(left() == before, "what was refused is left as it was found");
    let store = SqliteStore::open_as_it_is(&path).unwrap();
    let found = all(&store);
    assert!(found.len() < moment.acknowledged.len());
    work(&store, &mut Chance::new(5), 3);
    drop(store);
    SqliteStore::open(&path).unwrap();
}

#[test]
fn a_store_without_its_witness_is_refused_until_it_is_taken_as_it_is() {
    let folder = folder_in_memory();
    let mut moment = life(6)[3].clone();
    let path = folder.path().join(FILES[0]);
    for remains in [None, Some(Vec::new()), Some(vec![0; 2 * BLOCK])] {
        match remains {
            None => drop(moment.files.remove(FILES[2])),
            Some(bytes) => drop(moment.files.insert(FILES[2], bytes)),
        }
        moment.lay_out(folder.path());
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Unwitnessed { .. }), "{error}");
        assert_eq!(all(&SqliteStore::open_as_it_is(&path).unwrap()), moment.acknowledged);
        assert_eq!(all(&SqliteStore::open(&path).unwrap()), moment.acknowledged);
    }
}

/// The first schema had no witness and no sums of all documents.
#[test]
fn a_store_from_before_is_opened_and_gets_a_witness() {
    let folder = folder_in_memory();
    let path = folder.path().join(FILES[0]);
    std::fs::copy("tests/damage/first-schema.db", &path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let notes = store.list("note").unwrap();
    assert_eq!(notes.len(), 11);
    assert_eq!(store.revision().unwrap().0, 13);
    work(&store, &mut Chance::new(8), 5);
    let moment = Moment::of(folder.path(), all(&store));
    drop(store);
    let other = folder_in_memory();
    assert!(!moment.is_noticed(other.path(), "whole"));
    let mut cut = moment;
    cut.files.remove(FILES[1]);
    assert!(cut.is_noticed(other.path(), "without its log"));
}
