//! The slices of the last accepted program on disk: changes one after the other, durable before
//! anybody is told. Now and then a new file with all of them takes the place of the old. Knows files;
//! refuses to judge what a change says.

use super::program_file::ProgramFileError;
use catena_protocol::message::SliceDelta;
use prost::Message;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE_MODE: u32 = 0o600;
const PREFIX: &str = "slices.";
/// Length and checksum in front of each change.
const HEAD_BYTES: usize = 12;
/// A file may grow to so many times what it began with, and this much more, before another takes its
/// place.
const GROWTH_MAX: u64 = 4;
const GROWTH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An open file of changes.
#[derive(Debug)]
pub(super) struct SliceFile {
    path: PathBuf,
    /// The number that the program names.
    pub(super) number: u64,
    file: File,
    /// Bytes of whole changes; what is behind was torn.
    bytes: u64,
    first_bytes: u64,
}

impl SliceFile {
    /// Begins a file with these changes, durable when this returns; the program does not name it
    /// yet.
    ///
    /// # Errors
    /// When the disk is full or refuses.
    pub(super) fn begin(
        state_dir: &Path,
        number: u64,
        changes: &[SliceDelta],
    ) -> Result<Self, ProgramFileError> {
        let path = path_of(state_dir, number);
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
            let mut file = options.open(&path)?;
            let bytes = framed(changes);
            file.write_all(&bytes)?;
            file.sync_all()?;
            File::open(state_dir)?.sync_all()?;
            Ok((file, bytes.len() as u64))
        };
        let (file, bytes) = open().map_err(|source: std::io::Error| {
            // A half-written file would keep the disk full.
            fs::remove_file(&path).ok();
            ProgramFileError::System { operation: "write", path: path.clone(), source }
        })?;
        Ok(Self { path, number, file, bytes, first_bytes: bytes })
    }

    /// Opens the file that a program names; answers the whole changes in it, each with all of its
    /// parts. What a crash left behind them is cut off.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub(super) fn open(
        state_dir: &Path,
        number: u64,
    ) -> Result<(Self, Vec<SliceDelta>), ProgramFileError> {
        let path = path_of(state_dir, number);
        let failed = |operation| {
            let path = path.clone();
            move |source| ProgramFileError::System { operation, path, source }
        };
        let mut file =
            OpenOptions::new().read(true).write(true).open(&path).map_err(failed("open"))?;
        let mut all = Vec::new();
        file.read_to_end(&mut all).map_err(failed("read"))?;
        let (changes, length) = whole_changes(&all);
        let bytes = length as u64;
        if length < all.len() {
            tracing::warn!("{} was torn at byte {length}; what follows is left", path.display());
            file.set_len(bytes).and_then(|()| file.sync_all()).map_err(failed("cut"))?;
        }
        let file = Self { path: path.clone(), number, file, bytes, first_bytes: bytes };
        Ok((file, changes))
    }

    /// Adds a change with all of its parts; it is durable when this returns.
    ///
    /// # Errors
    /// When the disk is full or refuses; the file is as it was then.
    pub(super) fn add(&mut self, changes: &[SliceDelta]) -> Result<(), ProgramFileError> {
        use std::io::{Seek, SeekFrom};
        let bytes = framed(changes);
        let end = self.bytes;
        let mut write = || {
            self.file.seek(SeekFrom::Start(end))?;
            self.file.write_all(&bytes)?;
            self.file.sync_data()
        };
        if let Err(source) = write() {
            // What is there of it would be found by a restart.
            self.file.set_len(end).ok();
            let path = self.path.clone();
            return Err(ProgramFileError::System { operation: "write", path, source });
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Should another file take its place?
    pub(super) fn is_long(&self) -> bool {
        self.bytes > self.first_bytes.saturating_mul(GROWTH_MAX) + GROWTH_BYTES_MAX
    }
}

/// Removes the files that no program names any more.
pub(super) fn remove_others(state_dir: &Path, named: Option<u64>) {
    let kept = named.map(|number| path_of(state_dir, number));
    let entries = fs::read_dir(state_dir).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX) && Some(&path) != kept.as_ref() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!("{} cannot be removed: {error}", path.display());
                }
                _ => {}
            }
        }
    }
}

fn path_of(state_dir: &Path, number: u64) -> PathBuf {
    state_dir.join(format!("{PREFIX}{number}"))
}

fn framed(changes: &[SliceDelta]) -> Vec<u8> {
    let mut all = Vec::new();
    for change in changes {
        let bytes = change.encode_to_vec();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        all.extend(length.to_be_bytes());
        all.extend(catena_protocol::program::checksum(&bytes).to_be_bytes());
        all.extend(bytes);
    }
    all
}

/// The changes of which every part is there, and where the last of them ends.
fn whole_changes(mut rest: &[u8]) -> (Vec<SliceDelta>, usize) {
    let length = rest.len();
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    let mut end = 0;
    while let Some((change, behind)) = next_change(rest) {
        rest = behind;
        let is_last = change.is_last;
        parts.push(change);
        if is_last {
            whole.append(&mut parts);
            end = length - rest.len();
        }
    }
    (whole, end)
}

fn next_change(bytes: &[u8]) -> Option<(SliceDelta, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (length, sum) = head.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let sum = u64::from_be_bytes(*sum.first_chunk::<8>()?);
    let (body, rest) = rest.split_at_checked(length)?;
    let is_right = catena_protocol::program::checksum(body) == sum;
    is_right.then(|| SliceDelta::decode(body).ok())?.map(|change| (change, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u64, is_last: bool) -> SliceDelta {
        let removed_paths = vec![7; 100];
        SliceDelta { number, is_last, removed_paths, ..SliceDelta::default() }
    }

    #[test]
    fn what_was_added_comes_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = SliceFile::begin(dir.path(), 3, &[change(1, true)]).unwrap();
        file.add(&[change(2, false), change(2, true)]).unwrap();
        let (mut file, found) = SliceFile::open(dir.path(), 3).unwrap();
        assert_eq!(found, [change(1, true), change(2, false), change(2, true)]);
        file.add(&[change(3, true)]).unwrap();
        assert_eq!(SliceFile::open(dir.path(), 3).unwrap().1.len(), 4);
        remove_others(dir.path(), Some(3));
        assert!(SliceFile::open(dir.path(), 3).is_ok());
        remove_others(dir.path(), None);
        assert!(SliceFile::open(dir.path(), 3).is_err());
    }

    #[test]
    fn wherever_a_crash_cuts_the_file_whole_changes_are_left_and_more_can_be_added() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = SliceFile::begin(dir.path(), 1, &[change(1, true)]).unwrap();
        let first = file.bytes;
        file.add(&[change(2, false), change(2, true)]).unwrap();
        let bytes = fs::read(path_of(dir.path(), 1)).unwrap();
        for cut in 0..bytes.len() {
            fs::write(path_of(dir.path(), 1), &bytes[..cut]).unwrap();
            let (mut file, found) = SliceFile::open(dir.path(), 1).unwrap();
            let whole = usize::from(cut as u64 >= first);
            assert_eq!(found.len(), whole, "cut at {cut}");
            file.add(&[change(9, true)]).unwrap();
            assert_eq!(SliceFile::open(dir.path(), 1).unwrap().1.len(), whole + 1);
        }
    }

    #[test]
    fn a_flipped_bit_ends_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        SliceFile::begin(dir.path(), 1, &[change(1, true), change(2, true)]).unwrap();
        let bytes = fs::read(path_of(dir.path(), 1)).unwrap();
        for bit in (0..bytes.len() * 8).step_by(7) {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(whole_changes(&altered).0.len() < 2, "bit {bit}");
        }
    }
}
