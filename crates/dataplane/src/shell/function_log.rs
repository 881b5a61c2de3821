//! What functions remember, on disk: changes one behind the other, and now and then a file with all that is
//! remembered in the place of a long one. Knows files, and what of an instance replaces what; refuses to know what
//! entries mean.
//!
//! It is not synced: it is there for a data plane that ends before its machine does. After that no flow goes on
//! anyway.

use crate::engine::{RememberedState, StateChange};
use catena_model::id::InstanceId;
use catena_nf::function::StateEntry;
use catena_protocol::frame::{next_record, record};
use catena_protocol::message::{FunctionState, FunctionStateEntry, FunctionStateHead};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

const FILE_NAME: &str = "functions.log";
const DRAFT_NAME: &str = "functions.log.draft";
const FILE_MODE: u32 = 0o600;
/// What the file is, and in which version of its form.
const HEAD: [u8; 8] = *b"catena-\x01";
/// A file may grow to so many times what is remembered, and this much more, before another takes its place.
const GROWTH_MAX: u64 = 4;
const GROWTH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One instance as one worker, counted from 0, knows it.
type Owner = (u32, InstanceId);

/// An open file, and what it says.
#[derive(Debug)]
pub(super) struct FunctionLog {
    state_dir: PathBuf,
    /// When the time of functions starts, in seconds since 1970.
    epoch_seconds: u64,
    /// None: it is to be written anew.
    file: Option<File>,
    bytes: u64,
    remembered: BTreeMap<Owner, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Bytes of all keys and values.
    remembered_bytes: u64,
    /// The last write failed, which has been told.
    has_failed: bool,
}

impl FunctionLog {
    /// Reads what is there. What cannot be read is not remembered, which is told in the log; time starts at
    /// `now_seconds` then.
    pub(super) fn open(state_dir: &Path, now_seconds: u64) -> Self {
        let mut log = Self {
            state_dir: state_dir.to_owned(),
            epoch_seconds: now_seconds,
            file: None,
            bytes: 0,
            remembered: BTreeMap::new(),
            remembered_bytes: 0,
            has_failed: false,
        };
        let path = state_dir.join(FILE_NAME);
        match fs::read(&path) {
            Ok(bytes) => {
                if log.read(&bytes).is_none() {
                    tracing::warn!(
                        "{} is not of this version: functions begin anew",
                        path.display()
                    );
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!("{} cannot be read: {error}; functions begin anew", path.display());
            }
        }
        log
    }

    /// None: it is no such file. What is behind a torn record is lost.
    fn read(&mut self, bytes: &[u8]) -> Option<()> {
        let records = bytes.strip_prefix(&HEAD)?;
        let (FunctionStateHead { epoch_seconds }, mut rest) = next_record(records)?;
        // A clock that has gone back since would let time begin before it does.
        self.epoch_seconds = epoch_seconds.min(self.epoch_seconds);
        while let Some((state, behind)) = next_record::<FunctionState>(rest) {
            rest = behind;
            let Ok(instance) = Uuid::from_slice(&state.instance) else { continue };
            let change = StateChange {
                instance: InstanceId(instance),
                is_whole: state.is_whole,
                entries: state.entries.into_iter().map(unpack).collect(),
            };
            self.take(state.worker, &change);
        }
        Some(())
    }

    /// When the time of functions starts, in seconds since 1970.
    pub(super) const fn epoch_seconds(&self) -> u64 {
        self.epoch_seconds
    }

    /// Gives what is remembered to so many workers: to each what the one in its place did, and an equal part of those
    /// that there are no more.
    pub(super) fn share_out(&mut self, workers: u32) -> Vec<RememberedState> {
        let mut owned: BTreeMap<Owner, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
        for ((worker, instance), entries) in std::mem::take(&mut self.remembered) {
            owned.entry((worker % workers.max(1), instance)).or_default().extend(entries);
        }
        let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| StateEntry {
            key: key.clone(),
            value: Some(value.clone()),
        };
        let of = |worker: u32| {
            let own = owned.range((worker, InstanceId::MIN)..(worker + 1, InstanceId::MIN));
            own.map(|((_, instance), entries)| (*instance, entries.iter().map(entry).collect()))
        };
        let shares = (0..workers.max(1)).map(|worker| of(worker).collect()).collect();
        // Whoever owned it before is not in the file any more.
        let all = owned.values().flatten();
        self.remembered_bytes = all.map(|(key, value)| (key.len() + value.len()) as u64).sum();
        (self.remembered, self.file) = (owned, None);
        shares
    }

    /// Adds what a worker tells.
    pub(super) fn add(&mut self, worker: u32, changes: &[StateChange]) {
        if changes.is_empty() {
            return;
        }
        let mut records = Vec::new();
        for change in changes {
            self.take(worker, change);
            records.extend(record(&pack(worker, change)));
        }
        self.write(&records);
    }

    /// Forgets instances that are none any more.
    pub(super) fn keep(&mut self, wanted: &BTreeSet<InstanceId>) {
        let gone = |(_, instance): &&Owner| !wanted.contains(instance);
        let gone: Vec<Owner> = self.remembered.keys().filter(gone).copied().collect();
        for (worker, instance) in gone {
            let nothing = StateChange { instance, is_whole: true, entries: Vec::new() };
            self.add(worker, &[nothing]);
        }
    }

    fn take(&mut self, worker: u32, change: &StateChange) {
        let owner = (worker, change.instance);
        let size = |key: &[u8], value: &[u8]| (key.len() + value.len()) as u64;
        if change.is_whole {
            let former = self.remembered.remove(&owner).unwrap_or_default();
            let former: u64 = former.iter().map(|(key, value)| size(key, value)).sum();
            self.remembered_bytes -= former;
        }
        if change.entries.is_empty() {
            return;
        }
        let remembered = self.remembered.entry(owner).or_default();
        for StateEntry { key, value } in &change.entries {
            let former = match value {
                Some(value) => {
                    self.remembered_bytes += size(key, value);
                    remembered.insert(key.clone(), value.clone())
                }
                None => remembered.remove(key),
            };
            self.remembered_bytes -= former.map_or(0, |former| size(key, &former));
        }
    }

    fn write(&mut self, records: &[u8]) {
        let bytes_max =
            GROWTH_MAX.saturating_mul(self.remembered_bytes).saturating_add(GROWTH_BYTES_MAX);
        let written = match &mut self.file {
            Some(file) if self.bytes + records.len() as u64 <= bytes_max => {
                file.write_all(records).map(|()| self.bytes += records.len() as u64)
            }
            _ => self.write_anew(),
        };
        match written {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                // What is there may be torn now.
                self.file = None;
                if !std::mem::replace(&mut self.has_failed, true) {
                    let path = self.state_dir.join(FILE_NAME);
                    tracing::warn!(
                        "cannot write {}: {error}; functions would remember less after an end of the data plane",
                        path.display()
                    );
                }
            }
        }
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let (draft, path) = (self.state_dir.join(DRAFT_NAME), self.state_dir.join(FILE_NAME));
        self.file = None;
        let written =
            self.write_draft(&draft).and_then(|file| fs::rename(&draft, path).map(|()| file));
        match written {
            Ok((file, bytes)) => {
                (self.file, self.bytes) = (Some(file), bytes);
                Ok(())
            }
            Err(error) => {
                // A half-written draft would keep the disk full.
                fs::remove_file(&draft).ok();
                Err(error)
            }
        }
    }

    fn write_draft(&self, draft: &Path) -> io::Result<(File, u64)> {
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(draft)?;
        let mut bytes =
            [&HEAD[..], &record(&FunctionStateHead { epoch_seconds: self.epoch_seconds })].concat();
        let mut written = 0;
        for ((worker, instance), entries) in &self.remembered {
            let entries = entries.iter().map(|(key, value)| FunctionStateEntry {
                key: key.clone(),
                value: value.clone(),
                is_forgotten: false,
            });
            let state = FunctionState {
                worker: *worker,
                instance: instance.0.as_bytes().to_vec(),
                is_whole: true,
                entries: entries.collect(),
            };
            bytes.extend(record(&state));
            file.write_all(&bytes)?;
            written += bytes.len() as u64;
            bytes.clear();
        }
        file.write_all(&bytes)?;
        Ok((file, written + bytes.len() as u64))
    }
}

fn pack(worker: u32, change: &StateChange) -> FunctionState {
    let entries = change.entries.iter().map(|StateEntry { key, value }| FunctionStateEntry {
        key: key.clone(),
        is_forgotten: value.is_none(),
        value: value.clone().unwrap_or_default(),
    });
    FunctionState {
        worker,
        instance: change.instance.0.as_bytes().to_vec(),
        is_whole: change.is_whole,
        entries: entries.collect(),
    }
}

fn unpack(entry: FunctionStateEntry) -> StateEntry {
    let FunctionStateEntry { key, is_forgotten, value } = entry;
    StateEntry { key, value: Some(value).filter(|_| !is_forgotten) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: InstanceId = InstanceId(Uuid::from_u128(1));
    const OTHER: InstanceId = InstanceId(Uuid::from_u128(2));

    fn entry(key: &str, value: Option<&str>) -> StateEntry {
        StateEntry { key: key.into(), value: value.map(Into::into) }
    }

    fn change(
        instance: InstanceId,
        is_whole: bool,
        entries: &[(&str, Option<&str>)],
    ) -> StateChange {
        let entries = entries.iter().map(|(key, value)| entry(key, *value)).collect();
        StateChange { instance, is_whole, entries }
    }

    fn share(log: &FunctionLog, instance: InstanceId) -> Vec<StateEntry> {
        let owned = log.remembered.get(&(0, instance)).into_iter().flatten();
        owned
            .map(|(key, value)| StateEntry { key: key.clone(), value: Some(value.clone()) })
            .collect()
    }

    #[test]
    fn what_was_told_last_is_remembered_with_the_time_that_it_began_in() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FunctionLog::open(folder.path(), 100);
        log.add(0, &[change(ONE, true, &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))])]);
        log.add(
            0,
            &[
                change(ONE, false, &[("b", None), ("c", Some("4"))]),
                change(OTHER, false, &[("a", Some("9"))]),
            ],
        );
        let again = FunctionLog::open(folder.path(), 200);
        assert_eq!(again.epoch_seconds(), 100);
        assert_eq!(share(&again, ONE), [entry("a", Some("1")), entry("c", Some("4"))]);
        assert_eq!(share(&again, OTHER), [entry("a", Some("9"))]);
        assert_eq!(again.remembered_bytes, 6);
        // All of an instance takes the place of what there was, and who is gone has nothing.
        log.add(0, &[change(ONE, true, &[("d", Some("5"))])]);
        log.keep(&[ONE].into());
        let again = FunctionLog::open(folder.path(), 50);
        assert_eq!(share(&again, ONE), [entry("d", Some("5"))]);
        assert_eq!((share(&again, OTHER), again.epoch_seconds()), (Vec::new(), 50));
    }

    #[test]
    fn whatever_becomes_of_the_file_what_is_whole_of_it_is_read_and_nothing_panics() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FunctionLog::open(folder.path(), 7);
        for number in ["1", "2", "3"] {
            log.add(0, &[change(ONE, false, &[("a", Some(number))])]);
        }
        let path = folder.path().join(FILE_NAME);
        let whole = fs::read(&path).unwrap();
        let mut seen = BTreeSet::new();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            seen.insert(
                share(&FunctionLog::open(folder.path(), 7), ONE).pop().and_then(|one| one.value),
            );
        }
        assert_eq!(seen, [None, Some(b"1".to_vec()), Some(b"2".to_vec())].into());
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, bytes).unwrap();
            let read =
                share(&FunctionLog::open(folder.path(), 7), ONE).pop().and_then(|one| one.value);
            assert!(seen.contains(&read), "{at}: {read:?}");
        }
    }

    #[test]
    fn a_long_file_makes_room_for_one_with_what_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FunctionLog::open(folder.path(), 7);
        let long = "x".repeat(100_000);
        for _ in 0..100 {
            log.add(0, &[change(ONE, false, &[("a", Some(&long))])]);
        }
        let bytes = fs::metadata(folder.path().join(FILE_NAME)).unwrap().len();
        assert!(bytes <= GROWTH_BYTES_MAX + GROWTH_MAX * 200_000, "{bytes}");
        assert_eq!(share(&FunctionLog::open(folder.path(), 7), ONE), [entry("a", Some(&long))]);
    }

    #[test]
    fn a_disk_that_refuses_costs_nothing_but_what_it_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let mut log = FunctionLog::open(&state, 7);
        log.add(0, &[change(ONE, false, &[("a", Some("1"))])]);
        assert!(log.has_failed);
        fs::create_dir(&state).unwrap();
        log.add(0, &[change(ONE, false, &[("b", Some("2"))])]);
        assert!(!log.has_failed);
        let again = FunctionLog::open(&state, 7);
        assert_eq!(share(&again, ONE), [entry("a", Some("1")), entry("b", Some("2"))]);
    }

    #[test]
    fn each_worker_gets_its_own_and_fewer_workers_get_all() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = FunctionLog::open(folder.path(), 7);
        for (worker, key) in [(0, "a"), (1, "b"), (2, "c")] {
            log.add(worker, &[change(ONE, true, &[(key, Some("1"))])]);
        }
        let keys = |workers| -> Vec<Vec<String>> {
            let shares = FunctionLog::open(folder.path(), 7).share_out(workers);
            let of = |share: &RememberedState| {
                let all = share.values().flatten();
                all.map(|one| String::from_utf8(one.key.clone()).unwrap()).collect()
            };
            shares.iter().map(of).collect()
        };
        assert_eq!(keys(3), [["a"], ["b"], ["c"]]);
        assert_eq!(keys(2), [vec!["a", "c"], vec!["b"]]);
        assert_eq!(keys(1), [["a", "b", "c"]]);
        // What has another owner now is its alone.
        let mut fewer = FunctionLog::open(folder.path(), 7);
        fewer.share_out(1);
        fewer.add(0, &[change(ONE, true, &[("d", Some("1"))])]);
        assert_eq!(keys(3), [vec!["d"], vec![], vec![]]);
    }
}
