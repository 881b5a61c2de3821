//! How far a store has come, in a small file of its own: written when the log is on disk and before
//! anybody is answered. A store that comes back with less has lost something. Knows no document.
//!
//! Two places are written in turn, so that a write that is torn leaves the one before it.

use crate::Revision;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A SHA-256.
pub(crate) type Sum = [u8; 32];

/// Far enough apart that no disk tears both places at once.
const PLACE_BYTES: usize = 4_096;
const PLACES: usize = 2;
const MAGIC: [u8; 8] = *b"CTNWIT01";
/// Magic, revision, sum, and the check of those three.
const RECORD_BYTES: usize = 8 + 8 + 32 + 32;

/// A point of a store's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) revision: Revision,
    /// Over everything up to there.
    pub(crate) sum: Sum,
}

/// The file, ready to be written.
#[derive(Debug)]
pub(crate) struct Witness {
    file: File,
    /// The place that is written next.
    next: usize,
}

/// What is found where a witness should be.
pub(crate) enum Found {
    Nothing,
    /// A file in which neither place can be read.
    Damaged,
    Sound(Witness, Mark),
}

impl Witness {
    /// The witness of a store.
    pub(crate) fn path(store: &Path) -> PathBuf {
        let mut path = store.as_os_str().to_owned();
        path.push("-witness");
        path.into()
    }

    /// Looks for a witness, and changes nothing.
    pub(crate) fn find(path: &Path) -> io::Result<Found> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take((PLACES * PLACE_BYTES) as u64).read_to_end(&mut bytes)?;
        let read = bytes.chunks(PLACE_BYTES).enumerate();
        let marks = read.filter_map(|(place, bytes)| Some((place, decode(bytes)?)));
        let newest = marks.max_by_key(|(_, mark)| mark.revision);
        Ok(newest.map_or(Found::Damaged, |(place, mark)| {
            Found::Sound(Self { file, next: (place + 1) % PLACES }, mark)
        }))
    }

    /// Makes a witness of this mark, in the place of one that is there: all of it or nothing. Its
    /// folder is on disk as well when it is done, with the store in it.
    pub(crate) fn make(path: &Path, mark: &Mark) -> io::Result<Self> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = Path::new(&new);
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(new)?;
        // Both places at once: no later write needs room on the disk.
        file.write_all(&place(mark).repeat(PLACES))?;
        file.sync_all()?;
        std::fs::rename(new, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { file, next: 0 })
    }

    /// Puts down how far the store has come, durably.
    pub(crate) fn write(&mut self, mark: &Mark) -> io::Result<()> {
        self.file.write_all_at(&place(mark), (self.next * PLACE_BYTES) as u64)?;
        self.file.sync_data()?;
        self.next = (self.next + 1) % PLACES;
        Ok(())
    }
}

fn place(mark: &Mark) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PLACE_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(mark.revision.0.to_le_bytes());
    bytes.extend(mark.sum);
    let check = Sha256::digest(&bytes);
    bytes.extend(check);
    bytes.resize(PLACE_BYTES, 0);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Mark> {
    let record: &[u8; RECORD_BYTES] = bytes.first_chunk()?;
    let revision = u64::from_le_bytes(*record[8..].first_chunk()?);
    let mark = Mark { revision: Revision(revision), sum: *record[16..].first_chunk()? };
    place(&mark).starts_with(record).then_some(mark)
}

#[cfg(test)]
impl Witness {
    /// One that nothing can be written to.
    pub(crate) fn deaf(path: &Path) -> Self {
        Self { file: File::open(path).unwrap(), next: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_remembers_the_newest_mark_and_a_torn_one_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = Witness::path(&folder.path().join("store.db"));
        assert!(matches!(Witness::find(&path).unwrap(), Found::Nothing));
        let mark = |n: u64| Mark { revision: Revision(n), sum: [n as u8; 32] };
        let mut witness = Witness::make(&path, &mark(0)).unwrap();
        let found = |path: &Path| match Witness::find(path).unwrap() {
            Found::Sound(_, mark) => mark.revision.0,
            _ => panic!("no witness"),
        };
        for n in 1..6 {
            witness.write(&mark(n)).unwrap();
            assert_eq!(found(&path), n);
        }
        let whole = std::fs::read(&path).unwrap();
        for at in (0..RECORD_BYTES + 4).flat_map(|at| [at, PLACE_BYTES + at]) {
            let mut altered = whole.clone();
            altered[at] ^= 0x10;
            std::fs::write(&path, &altered).unwrap();
            assert!([4, 5].contains(&found(&path)), "byte {at}");
        }
        std::fs::write(&path, []).unwrap();
        assert!(matches!(Witness::find(&path).unwrap(), Found::Damaged));
    }
}
