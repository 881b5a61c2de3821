//! What is true of a store as a whole, and the sums over its documents and its history.

use crate::Revision;
use crate::witness::{Mark, Sum};
use sha2::{Digest, Sha256};

/// What is true of the store as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) documents: u64,
    /// The checksums of all documents, exclusive or: whoever changes one need not read the others.
    pub(crate) contents: Sum,
    /// Over this and all commits before it.
    pub(crate) sum: Sum,
    /// The commit before this one.
    pub(crate) before: Mark,
}

impl Head {
    pub(crate) fn mark(&self) -> Mark {
        Mark { revision: self.revision, sum: self.sum }
    }

    /// Takes a document's checksum into the sum of all, or out of it.
    pub(crate) fn toggle(&mut self, checksum: &[u8]) {
        self.contents.iter_mut().zip(checksum).for_each(|(sum, byte)| *sum ^= byte);
    }

    /// Chains this to the commit before it.
    pub(crate) fn follow(&mut self, before: Mark) {
        let mut sum = Sha256::new();
        sum.update(before.sum);
        sum.update(self.revision.0.to_le_bytes());
        sum.update(self.documents.to_le_bytes());
        sum.update(self.contents);
        self.sum = sum.finalize().into();
        self.before = before;
    }

    /// Over all of it.
    pub(crate) fn checksum(&self) -> Vec<u8> {
        let mut sum = Sha256::new();
        for number in [self.revision.0, self.documents, self.before.revision.0] {
            sum.update(number.to_le_bytes());
        }
        for part in [self.contents, self.sum, self.before.sum] {
            sum.update(part);
        }
        sum.finalize().to_vec()
    }

    /// As the first schema had it.
    pub(crate) fn first_checksum(&self) -> Vec<u8> {
        let mut sum = Sha256::new();
        sum.update(self.revision.0.to_le_bytes());
        sum.update(self.documents.to_le_bytes());
        sum.finalize().to_vec()
    }
}

pub(crate) fn document_checksum(kind: &str, id: &str, body: &str, revision: Revision) -> Vec<u8> {
    let mut sum = Sha256::new();
    for part in [kind, id, body] {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.update(revision.0.to_le_bytes());
    sum.finalize().to_vec()
}
