//! The last accepted program on disk: written whole or not at all, and durable before anybody is
//! told. Knows files; refuses to judge what a program says.

use catena_protocol::message;
use prost::Message;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE_NAME: &str = "program.pb";
/// The program before it, while it is being replaced.
const FORMER_NAME: &str = "program.pb.former";
const DRAFT_NAME: &str = "program.pb.draft";
const FILE_MODE: u32 = 0o600;

/// Where a data plane with this state directory keeps its last accepted program.
#[must_use]
pub fn program_file(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE_NAME)
}

/// Why a program is not on disk.
#[derive(Debug, thiserror::Error)]
pub enum ProgramFileError {
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
    /// The bytes are no program message.
    #[error("{path} is torn or altered: {source}; the controller will send the program again")]
    Undecodable {
        /// The file.
        path: PathBuf,
        /// Where it stopped.
        source: prost::DecodeError,
    },
}

/// Replaces the program on disk; after it the new one survives a power cut, as far as the disk
/// keeps its word.
///
/// # Errors
/// When the disk is full or refuses; the former program is still there then.
pub(super) fn save(state_dir: &Path, program: &message::Program) -> Result<(), ProgramFileError> {
    let draft = state_dir.join(DRAFT_NAME);
    let target = program_file(state_dir);
    let written = write_draft(&draft, &program.encode_to_vec());
    if let Err(source) = written {
        // A half-written draft would keep the disk full.
        fs::remove_file(&draft).ok();
        return Err(ProgramFileError::System { operation: "write", path: draft, source });
    }
    replace(state_dir, sync).map_err(|source| ProgramFileError::System {
        operation: "replace",
        path: target,
        source,
    })
}

/// Puts the draft in the place of the program. What was refused must not be what a restart finds:
/// if the former program cannot be put back, the new one counts.
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

fn write_draft(draft: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(FILE_MODE);
    let mut file = options.open(draft)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads the program back; none: there was none yet.
///
/// # Errors
/// When the file is there and cannot be read as a message.
pub(super) fn load(state_dir: &Path) -> Result<Option<message::Program>, ProgramFileError> {
    let path = program_file(state_dir);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ProgramFileError::System { operation: "read", path, source }),
    };
    let program = message::Program::decode(bytes.as_slice())
        .map_err(|source| ProgramFileError::Undecodable { path: path.clone(), source })?;
    // Its writer may have been killed before its last sync: whoever acknowledges the program after
    // this must not lose it to a power cut.
    if let Err(error) = sync(&path).and_then(|()| sync(state_dir)) {
        tracing::error!("the resumed program may not survive a power cut: {error}");
    }
    Ok(Some(program))
}

fn sync(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(number: u64) -> message::Program {
        let body = vec![7; 1_000];
        message::Program { number, body, checksum: number, ..message::Program::default() }
    }

    #[test]
    fn the_last_saved_program_comes_back_and_no_draft_is_left() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), None);
        save(dir.path(), &program(1)).unwrap();
        save(dir.path(), &program(2)).unwrap();
        assert_eq!(load(dir.path()).unwrap(), Some(program(2)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_disk_that_takes_nothing_leaves_the_former_program_in_place() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &program(1)).unwrap();
        // A draft that cannot be opened for writing stands for a disk that refuses.
        fs::create_dir(dir.path().join(DRAFT_NAME)).unwrap();
        let error = save(dir.path(), &program(2)).unwrap_err();
        assert!(error.to_string().contains("must survive a restart"), "{error}");
        assert_eq!(load(dir.path()).unwrap(), Some(program(1)));
    }

    #[test]
    fn a_directory_that_cannot_be_made_durable_keeps_what_is_told() {
        let refuse = |_: &Path| Err(ErrorKind::StorageFull.into());
        let dir = tempfile::tempdir().unwrap();
        let draft = || write_draft(&dir.path().join(DRAFT_NAME), &program(2).encode_to_vec());
        draft().unwrap();
        replace(dir.path(), refuse).unwrap_err();
        assert_eq!(load(dir.path()).unwrap(), None, "refused, and there was none before");
        save(dir.path(), &program(1)).unwrap();
        draft().unwrap();
        replace(dir.path(), refuse).unwrap_err();
        assert_eq!(load(dir.path()).unwrap(), Some(program(1)), "refused: the former goes on");
        draft().unwrap();
        let lose = |directory: &Path| {
            fs::remove_file(directory.join(FORMER_NAME)).unwrap();
            Err(ErrorKind::StorageFull.into())
        };
        replace(dir.path(), lose).unwrap();
        assert_eq!(load(dir.path()).unwrap(), Some(program(2)), "it cannot be taken back");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_torn_file_is_an_error_and_not_an_empty_start() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &program(1)).unwrap();
        let path = program_file(dir.path());
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(matches!(load(dir.path()), Err(ProgramFileError::Undecodable { .. })));
    }
}
