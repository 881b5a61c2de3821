//! The last accepted program on disk: a whole and the changes since, one behind the other, durable
//! before anybody is told. Now and then a file with the whole alone takes its place. Knows files, and
//! which changes belong together; refuses to judge what a program says.

use catena_model::entry::{Change, ChangeError, Program, ProgramVersion};
use catena_model::limits::DELTA_ENTRIES_MAX;
use catena_model::{NodeName, NodeProgram};
use catena_protocol::delta::Draft;
use catena_protocol::former::{self, FormerError};
use catena_protocol::frame::{next_record, record};
use catena_protocol::message::Delta;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE_NAME: &str = "program.log";
/// The file before it, while it is being replaced.
const FORMER_NAME: &str = "program.log.former";
const DRAFT_NAME: &str = "program.log.draft";
const FILE_MODE: u32 = 0o600;
/// What the file is, and in which version of its form.
const HEAD: [u8; 8] = *b"catena\0\x07";
/// A file may grow to so many times its whole program, and this much more, before another takes its
/// place.
const GROWTH_MAX: u64 = 4;
const GROWTH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What the names of files begin with that data planes kept before there was a log.
const OLD_PROGRAM: &str = "program.pb";
const OLD_SLICES: &str = "slices.";

/// Why a program is not on disk.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramLogError {
    /// It could not be read or written.
    #[error(
        "cannot {operation} {path}: {source}; a program must survive a restart before it may run: \
         make room or give rights there, then send it again"
    )]
    System {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// No change in it is whole.
    #[error(
        "{path} holds no whole program of node '{node}': it was torn or altered, or is of another \
         node; the controller will send the program again"
    )]
    Nothing {
        /// The file.
        path: PathBuf,
        /// This node.
        node: NodeName,
    },
    /// It has the form of another version.
    #[error(
        "{path} was written by a data plane of another version (form {found}, not {}); the controller \
         will send the program again",
        HEAD[7]
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: u8,
    },
    /// The file of an older data plane holds no program.
    #[error("{path} cannot be read: {source}; the controller will send the program again")]
    Old {
        /// The file.
        path: PathBuf,
        /// Where it stopped.
        source: FormerError,
    },
}

/// An open file.
#[derive(Debug)]
pub(super) struct ProgramLog {
    path: PathBuf,
    file: File,
    /// Bytes of whole changes; what is behind was torn.
    bytes: u64,
    /// Where the first of them, which is a whole program, ends.
    first_bytes: u64,
}

impl ProgramLog {
    /// Begins the file anew with the parts of a whole program. After it that one survives a power cut,
    /// as far as the disk keeps its word.
    ///
    /// # Errors
    /// When the disk is full or refuses; the former file is still there then.
    pub(super) fn begin(state_dir: &Path, parts: &[Delta]) -> Result<Self, ProgramLogError> {
        let (draft, path) = (state_dir.join(DRAFT_NAME), state_dir.join(FILE_NAME));
        let (file, bytes) = write_draft(&draft, parts).map_err(|source| {
            // A half-written draft would keep the disk full.
            fs::remove_file(&draft).ok();
            ProgramLogError::System { operation: "write", path: draft, source }
        })?;
        replace(state_dir, sync).map_err(|source| {
            let path = path.clone();
            ProgramLogError::System { operation: "replace", path, source }
        })?;
        Ok(Self { path, file, bytes, first_bytes: bytes })
    }

    /// Reads the last program back, and opens the file to go on with, if that can be done; none: there
    /// was no program yet.
    ///
    /// # Errors
    /// When the file is there and no program in it.
    pub(super) fn open(
        state_dir: &Path,
        node: &NodeName,
    ) -> Result<Option<(Program, Option<Self>)>, ProgramLogError> {
        let path = state_dir.join(FILE_NAME);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        if let Some(other) = other_form(&bytes) {
            return Err(ProgramLogError::Version { path, found: other });
        }
        let found = Found::of(node, &bytes);
        if found.first_end == 0 {
            return Err(ProgramLogError::Nothing { path, node: node.clone() });
        }
        let log = found.take_up(state_dir, &path, bytes.len()).map_err(|error| {
            tracing::error!("the resumed program may not survive a power cut: {error}");
        });
        Ok(Some((found.program, log.ok())))
    }

    /// Adds a change with all of its parts; it is durable when this returns.
    ///
    /// # Errors
    /// When the disk is full or refuses; the file is as it was then.
    pub(super) fn add(&mut self, parts: &[Delta]) -> Result<(), ProgramLogError> {
        let (end, file) = (self.bytes, &mut self.file);
        let written = file.seek(SeekFrom::Start(end)).and_then(|_| write_records(file, parts));
        match written.and_then(|bytes| file.sync_data().map(|()| bytes)) {
            Ok(bytes) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(source) => {
                // What is there of it would be found by a restart.
                file.set_len(end).ok();
                let path = self.path.clone();
                Err(ProgramLogError::System { operation: "write", path, source })
            }
        }
    }

    /// Should another file take its place?
    pub(super) fn is_long(&self) -> bool {
        self.bytes > self.first_bytes.saturating_mul(GROWTH_MAX) + GROWTH_BYTES_MAX
    }
}

/// The version of a file's form, if it is another than this one's.
fn other_form(bytes: &[u8]) -> Option<u8> {
    let (form, name) = HEAD.split_last()?;
    let found = bytes.strip_prefix(name)?.first()?;
    (found != form).then_some(*found)
}

/// A change as a file has it, for people.
#[derive(Debug, Serialize)]
pub struct LoggedChange {
    /// The program that it changes; number 0: none.
    pub from: ProgramVersion,
    /// The program that it makes with its last part.
    pub to: ProgramVersion,
    /// No part of it follows.
    pub is_last: bool,
    /// Its edits of entries.
    pub changes: Vec<Change>,
}

/// The changes in a file of a data plane, as far as they can be read.
///
/// # Errors
/// When it is none, or one of its changes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Vec<LoggedChange>, ChangeError> {
    let mut rest = bytes.strip_prefix(&HEAD).unwrap_or_default();
    let mut logged = Vec::new();
    while let Some((part, behind)) = next_record::<Delta>(rest) {
        rest = behind;
        logged.push(LoggedChange {
            from: part.from_version(),
            to: part.to_version(),
            is_last: part.is_last,
            changes: Change::read_all(&part.changes, DELTA_ENTRIES_MAX)?,
        });
    }
    let (at, length) = (bytes.len() - rest.len(), bytes.len());
    if rest.is_empty() && !logged.is_empty() {
        return Ok(logged);
    }
    let reason = "it was torn or altered there, or is no program.log".to_owned();
    Err(ChangeError::Unreadable { at: if logged.is_empty() { 0 } else { at }, length, reason })
}

/// What a file holds.
#[derive(Default)]
struct Found {
    program: Program,
    /// Where the whole program ends that it begins with; 0: there is none.
    first_end: usize,
    /// Where the last whole change ends.
    end: usize,
}

impl Found {
    /// Makes all changes of which every part is there, up to the first that is torn, altered, or does
    /// not fit those before it.
    fn of(node: &NodeName, bytes: &[u8]) -> Self {
        let (mut found, mut draft) = (Self::default(), None);
        let mut rest = bytes.strip_prefix(&HEAD).unwrap_or_default();
        while let Some((part, behind)) = next_record::<Delta>(rest) {
            rest = behind;
            if part.node != node.as_str() || !found.take(&part, &mut draft) {
                break;
            }
            if draft.is_none() {
                found.end = bytes.len() - rest.len();
                if found.first_end == 0 {
                    found.first_end = found.end;
                }
            }
        }
        found
    }

    /// Takes the next part; false: it does not fit. A draft is left when others must follow.
    fn take(&mut self, part: &Delta, draft: &mut Option<Draft>) -> bool {
        let follows = part.from_version() == self.program.version();
        let begun = draft.take().or_else(|| follows.then(|| Draft::begin(part, &self.program)));
        let Some(mut next) = begun.filter(|_| follows) else { return false };
        if next.add(part).is_err() {
            return false;
        }
        if !part.is_last {
            *draft = Some(next);
            return true;
        }
        next.finish(&self.program).map(|program| self.program = program).is_ok()
    }

    /// Opens the file to go on behind what was found; what a crash left there is cut off.
    fn take_up(&self, state_dir: &Path, path: &Path, length: usize) -> std::io::Result<ProgramLog> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let (bytes, first_bytes) = (self.end as u64, self.first_end as u64);
        if self.end < length {
            tracing::warn!("{} was torn at byte {bytes}; what follows is left", path.display());
            file.set_len(bytes)?;
        }
        // Its writer may have been killed before its last sync: whoever acknowledges the program after
        // this must not lose it to a power cut.
        file.sync_all().and_then(|()| sync(state_dir))?;
        Ok(ProgramLog { path: path.into(), file, bytes, first_bytes })
    }
}

/// Puts the draft in the place of the file. What was refused must not be what a restart finds: if the
/// former file cannot be put back, the new one counts.
fn replace(
    state_dir: &Path,
    sync: impl FnOnce(&Path) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let [target, draft, former] =
        [FILE_NAME, DRAFT_NAME, FORMER_NAME].map(|name| state_dir.join(name));
    // One may be left of an attempt that a power cut ended.
    fs::remove_file(&former).ok();
    let kept = fs::hard_link(&target, &former);
    let outcome = fs::rename(&draft, &target).and_then(|()| {
        let Err(error) = sync(state_dir) else { return Ok(()) };
        let back = match kept {
            Err(missing) if missing.kind() == ErrorKind::NotFound => fs::remove_file(&target),
            Ok(()) | Err(_) => fs::rename(&former, &target),
        };
        match back {
            Ok(()) => Err(error),
            Err(_) => {
                tracing::error!("the new program may not survive a power cut: {error}");
                Ok(())
            }
        }
    });
    fs::remove_file(&former).ok();
    outcome
}

fn write_draft(draft: &Path, parts: &[Delta]) -> std::io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
    let mut file = options.open(draft)?;
    file.write_all(&HEAD)?;
    let bytes = write_records(&mut file, parts)?;
    file.sync_all()?;
    Ok((file, HEAD.len() as u64 + bytes))
}

/// Each with its length and checksum in front; answers how many bytes they are.
fn write_records(file: &mut File, parts: &[Delta]) -> std::io::Result<u64> {
    let mut written = 0;
    for part in parts {
        let record = record(part);
        file.write_all(&record)?;
        written += record.len() as u64;
    }
    Ok(written)
}

fn sync(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// None: it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ProgramLogError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => {
            Err(ProgramLogError::System { operation: "read", path: path.into(), source })
        }
    }
}

/// Reads the program of a data plane that had no log, without its slices and with them; none: there is
/// none.
///
/// # Errors
/// When the file is there and cannot be read.
pub(super) fn read_old(
    state_dir: &Path,
) -> Result<Option<(NodeProgram, Program)>, ProgramLogError> {
    let path = state_dir.join(OLD_PROGRAM);
    let Some(bytes) = read(&path)? else { return Ok(None) };
    let slices = |number| {
        let slices = state_dir.join(format!("{OLD_SLICES}{number}"));
        fs::read(&slices).unwrap_or_else(|error| {
            tracing::error!("without slices for now: cannot read {}: {error}", slices.display());
            Vec::new()
        })
    };
    let program = former::read(&bytes, slices);
    program.map(Some).map_err(|source| ProgramLogError::Old { path, source })
}

/// Removes what a data plane that had no log has left.
pub(super) fn remove_old(state_dir: &Path) {
    let entries = fs::read_dir(state_dir).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if [OLD_PROGRAM, OLD_SLICES].iter().any(|old| name.starts_with(old))
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!("{} cannot be removed: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::BlueprintNumber;
    use catena_model::entry::Change;
    use catena_model::id::ChainId;
    use catena_model::program::ChainEntry;
    use catena_protocol::delta::deltas;
    use std::collections::BTreeSet;
    use uuid::Uuid;

    fn node() -> NodeName {
        NodeName::new("host1").unwrap()
    }

    /// Programs that follow one another: in each a chain has come, and all have other names.
    fn program(number: u64) -> Program {
        let mut program = Program::default();
        for at in 1..=number {
            let mut entries = program.entries.clone();
            for chain in 1..=at {
                let (id, name) = (ChainId(Uuid::from_u128(chain.into())), format!("chain-{at}"));
                entries.chains.insert(id, ChainEntry { id, name }.into());
            }
            program = program.following(BlueprintNumber(at), entries);
        }
        program
    }

    /// The change of one program into another, a part for each entry.
    fn change(from: u64, to: u64) -> Vec<Delta> {
        let [whole] = &deltas(&node(), &program(from), &program(to))[..] else { panic!() };
        let changes = Change::read_all(&whole.changes, 100).unwrap();
        let part = |change: &Change| Delta { changes: change.bytes(), ..whole.clone() };
        let mut parts: Vec<Delta> = changes.iter().map(part).collect();
        let last = parts.len() - 1;
        parts[..last].iter_mut().for_each(|part| part.is_last = false);
        parts
    }

    fn file(dir: &Path) -> PathBuf {
        dir.join(FILE_NAME)
    }

    /// The number of the program that is found; none: none is.
    fn found(dir: &Path) -> Option<u64> {
        let opened = ProgramLog::open(dir, &node());
        let found = opened.unwrap_or_else(|error| {
            assert!(matches!(error, ProgramLogError::Nothing { .. }), "{error}");
            None
        });
        found.map(|(found, log)| {
            assert!(log.is_some());
            assert_eq!(found, program(found.number.0), "it is one of those that were kept");
            found.number.0
        })
    }

    /// A file with a whole and two changes, and where each of them ends.
    fn three(dir: &Path) -> (Vec<u8>, [u64; 3]) {
        let mut log = ProgramLog::begin(dir, &change(0, 1)).unwrap();
        let first = log.bytes;
        log.add(&change(1, 2)).unwrap();
        let second = log.bytes;
        log.add(&change(2, 3)).unwrap();
        (fs::read(file(dir)).unwrap(), [first, second, log.bytes])
    }

    #[test]
    fn the_last_program_comes_back_and_no_other_file_is_left() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ProgramLog::open(dir.path(), &node()).unwrap().is_none());
        three(dir.path());
        assert_eq!(found(dir.path()), Some(3));
        ProgramLog::begin(dir.path(), &change(0, 2)).unwrap();
        assert_eq!(found(dir.path()), Some(2));
        let (_, log) = ProgramLog::open(dir.path(), &node()).unwrap().unwrap();
        log.unwrap().add(&change(2, 4)).unwrap();
        assert_eq!(found(dir.path()), Some(4));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_torn_at_any_byte_gives_the_changes_that_are_whole_and_goes_on_behind_them() {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends) = three(dir.path());
        assert_eq!(bytes.len() as u64, ends[2]);
        for cut in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut as u64).count() as u64;
            assert_eq!(Found::of(&node(), &bytes[..cut]).program, program(whole), "cut at {cut}");
            // The disk takes its time.
            if cut % 9 == 0 {
                fs::write(file(dir.path()), &bytes[..cut]).unwrap();
                assert_eq!(found(dir.path()), (whole > 0).then_some(whole), "cut at {cut}");
                if whole > 0 {
                    let (_, log) = ProgramLog::open(dir.path(), &node()).unwrap().unwrap();
                    log.unwrap().add(&change(whole, 5)).unwrap();
                    assert_eq!(found(dir.path()), Some(5), "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_ends_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends) = three(dir.path());
        let mut seen = BTreeSet::new();
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let whole = ends.iter().filter(|end| **end <= bit as u64 / 8).count() as u64;
            assert_eq!(Found::of(&node(), &altered).program, program(whole), "bit {bit}");
            seen.insert(whole);
        }
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn a_change_of_another_program_or_node_ends_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = Delta { node: "host2".into(), ..change(1, 2)[0].clone() };
        let cut = Delta { changes: vec![0xff; 9], is_last: true, ..change(1, 2)[0].clone() };
        for strange in [change(2, 3), change(0, 2), vec![foreign], vec![cut]] {
            let mut log = ProgramLog::begin(dir.path(), &change(0, 1)).unwrap();
            log.add(&strange).unwrap();
            assert_eq!(found(dir.path()), Some(1));
        }
        let other = NodeName::new("host2").unwrap();
        let refused = ProgramLog::open(dir.path(), &other).unwrap_err();
        assert!(refused.to_string().contains("no whole program of node 'host2'"), "{refused}");
    }

    #[test]
    fn a_disk_that_takes_nothing_leaves_the_former_program_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let log = ProgramLog::begin(dir.path(), &change(0, 1)).unwrap();
        let mut full = ProgramLog { file: File::open(&log.path).unwrap(), ..log };
        let error = full.add(&change(1, 2)).unwrap_err();
        assert!(error.to_string().contains("must survive a restart"), "{error}");
        assert_eq!(found(dir.path()), Some(1));
        // A draft that cannot be opened for writing stands for a disk that refuses.
        fs::create_dir(dir.path().join(DRAFT_NAME)).unwrap();
        let error = ProgramLog::begin(dir.path(), &change(0, 2)).unwrap_err();
        assert!(error.to_string().contains("must survive a restart"), "{error}");
        assert_eq!(found(dir.path()), Some(1));
    }

    #[test]
    fn a_directory_that_cannot_be_made_durable_keeps_what_is_told() {
        let refuse = |_: &Path| Err(ErrorKind::StorageFull.into());
        let dir = tempfile::tempdir().unwrap();
        let draft = || drop(write_draft(&dir.path().join(DRAFT_NAME), &change(0, 2)).unwrap());
        draft();
        replace(dir.path(), refuse).unwrap_err();
        assert_eq!(found(dir.path()), None, "refused, and there was none before");
        ProgramLog::begin(dir.path(), &change(0, 1)).unwrap();
        draft();
        replace(dir.path(), refuse).unwrap_err();
        assert_eq!(found(dir.path()), Some(1), "refused: the former goes on");
        draft();
        let lose = |directory: &Path| {
            fs::remove_file(directory.join(FORMER_NAME)).unwrap();
            Err(ErrorKind::StorageFull.into())
        };
        replace(dir.path(), lose).unwrap();
        assert_eq!(found(dir.path()), Some(2), "it cannot be taken back");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
