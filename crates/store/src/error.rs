//! Why a store says no: what failed, why, and what to do next.

use crate::{
    CHANGES_KEPT_MAX, DOCUMENT_BYTES_MAX, Expect, KEY_PART_BYTES_MAX, Key, Revision,
    TRANSACTION_WRITES_MAX,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Why a store says no.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened or created.
    #[error(
        "cannot open the store '{path}': {reason}; check that the directory exists and belongs to \
         the user of the controller"
    )]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// Another process has the file.
    #[error(
        "cannot open the store '{0}': another process is using it; stop that controller or choose \
         another data directory"
    )]
    InUse(PathBuf),
    /// The file was made by another version.
    #[error(
        "cannot open the store '{path}': its schema has version {found}, this program reads \
         version {known}; start the version that wrote it"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Version of this program.
        known: i64,
    },
    /// The file is damaged as a whole.
    #[error("the store '{path}' is damaged: {reason}; restore it from a backup")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the check found.
        reason: String,
    },
    /// Something that was acknowledged is missing.
    #[error(
        "the store '{path}' has lost changes that were acknowledged: it is at revision {found}, and \
         its witness has seen {witnessed}; restore all its files from one backup, or start the \
         controller once with --accept-store to go on without what is lost"
    )]
    Behind {
        /// The file.
        path: PathBuf,
        /// How far it has come.
        found: Revision,
        /// How far it had come.
        witnessed: Revision,
    },
    /// The store and its witness do not belong together.
    #[error(
        "the store '{path}' is not the one that was acknowledged: {reason}; restore all its files \
         from one backup, or start the controller once with --accept-store to take it as it is"
    )]
    Unwitnessed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A change is on disk, and its witness is not.
    #[error(
        "nobody knows whether this change is kept: the witness of the store '{path}' cannot be \
         written: {reason}; mend the disk and start the controller again, until then nothing is \
         taken"
    )]
    WitnessUnwritten {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// One document's bytes changed on disk.
    #[error(
        "the document '{key}' of the store '{path}' is damaged: its bytes do not fit their \
         checksum; restore the store from a backup"
    )]
    DocumentDamaged {
        /// The file.
        path: PathBuf,
        /// The document, as far as its name can still be read.
        key: Key,
    },
    /// No room is left.
    #[error(
        "cannot write to the store '{0}': the disk is full; nothing of the change was kept: free \
         some space and repeat it"
    )]
    Full(PathBuf),
    /// The disk or the library failed.
    #[error("cannot {verb} the store '{path}': {reason}; nothing of the change was kept")]
    Failed {
        /// The file.
        path: PathBuf,
        /// Read or write.
        verb: &'static str,
        /// The library's reason.
        reason: String,
    },
    /// Somebody else wrote in between.
    #[error(
        "the document '{key}' is not as expected ({expected:?}), it is at {found:?}; read it again and repeat the change"
    )]
    Conflict {
        /// The document.
        key: Key,
        /// What the transaction demanded.
        expected: Expect,
        /// What is there.
        found: Option<Revision>,
    },
    /// A body is not what its reader takes it for.
    #[error(
        "the document '{key}' cannot be understood: {source}; was it written by a newer version?"
    )]
    Unreadable {
        /// The document.
        key: Key,
        /// Where it stopped.
        source: Arc<serde_json::Error>,
    },
    /// A value without a JSON form.
    #[error("the document '{key}' cannot be written: {source}")]
    Unwritable {
        /// The document.
        key: Key,
        /// Where it stopped.
        source: Arc<serde_json::Error>,
    },
    /// A key with an empty or overlong part.
    #[error("'{0}' is not a document name: kind and id take 1 to {KEY_PART_BYTES_MAX} bytes each")]
    BadKey(Key),
    /// The same document twice in one transaction.
    #[error("the document '{0}' stands twice in one transaction")]
    WrittenTwice(Key),
    /// A body above the bound.
    #[error("the document '{key}' has {bytes} bytes, more than {DOCUMENT_BYTES_MAX}")]
    TooLarge {
        /// The document.
        key: Key,
        /// Its size.
        bytes: usize,
    },
    /// A transaction above the bound.
    #[error(
        "this makes {0} writes at once, more than {TRANSACTION_WRITES_MAX}; nothing of it was kept: \
         make it in parts"
    )]
    TooManyWrites(usize),
    /// More changes wait than are kept waiting.
    #[error(
        "{0} changes wait for the disk already; nothing of this one was kept: repeat it a little later"
    )]
    Overloaded(usize),
    /// Whoever was to make the change has failed.
    #[error("the change failed inside the controller and was not kept; please report it")]
    Abandoned,
    /// The log of changes does not reach back that far.
    #[error(
        "the changes after revision {after} are no longer known (the last {CHANGES_KEPT_MAX} since \
         start are kept, from revision {oldest} on); list all documents again"
    )]
    Compacted {
        /// Asked for.
        after: Revision,
        /// The log begins after this revision.
        oldest: Revision,
    },
}
