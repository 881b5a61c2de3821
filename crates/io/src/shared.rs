//! Memory that one process writes and another reads: no byte of it can change under whoever reads it into its own, and
//! nobody can make it shorter. Knows one message at a time, with its number; refuses to know what it says.
//!
//! Whoever reads may hold whoever writes for hostile: every word is loaded once, and lengths are looked at before they
//! are used.
#![allow(unsafe_code)]

use crate::error::IoError;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a message begins: its number and its length stand before it, in a line of their own.
const HEADER_BYTES: usize = 64;
const WORD_BYTES: usize = size_of::<u64>();
/// Most bytes of such memory.
const SHARED_BYTES_MAX: usize = 1 << 30;

/// Memory for a message of so many bytes, which stays as long as it is.
///
/// # Errors
/// A size outside its limits, or the kernel's refusal.
pub(crate) fn shared_memory(message_bytes: usize) -> Result<OwnedFd, IoError> {
    IoError::check_range("bytes of a shared message", message_bytes, WORD_BYTES, SHARED_BYTES_MAX)?;
    let told = IoError::system("making memory that two processes share");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = memfd_create("catena-message", flags).and_then(|fd| {
        ftruncate(&fd, (HEADER_BYTES + message_bytes.next_multiple_of(WORD_BYTES)) as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(fd)
    });
    made.map_err(told)
}

/// Lets nobody write to this memory who does not yet.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn seal_for_readers(fd: impl AsFd) -> Result<(), IoError> {
    fcntl_add_seals(fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
        .map_err(IoError::system("sealing shared memory"))
}

/// A mapping.
struct Mapping {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, access: ProtFlags) -> Result<Self, IoError> {
        let told = IoError::system("mapping shared memory");
        let bytes = fstat(fd).map(|stat| usize::try_from(stat.st_size).unwrap_or_default());
        let bytes = bytes.map_err(IoError::system("measuring shared memory"))?;
        let least = HEADER_BYTES + WORD_BYTES;
        IoError::check_range(
            "bytes of shared memory",
            bytes,
            least,
            HEADER_BYTES + SHARED_BYTES_MAX,
        )?;
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(IoError::system("reading seals"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(told(std::io::Error::other("it can be made shorter by somebody else")));
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, 0) };
        match base.map(NonNull::new) {
            Ok(Some(base)) => Ok(Self { base, bytes: bytes / WORD_BYTES * WORD_BYTES }),
            Ok(None) => Err(told(std::io::Error::other("no address"))),
            Err(errno) => Err(told(errno.into())),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(WORD_BYTES) && at < self.bytes, "no word is at {at}");
        // SAFETY: the word lies inside the mapping, which cannot become shorter, and at a multiple of its size, since
        // the mapping begins on a page. In this process it is reached by atomic loads and stores alone, or, in
        // `SharedWriter::write`, by the one who may write, who is borrowed as mutable.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u8>().add(at).cast()) }
    }

    fn room(&self) -> usize {
        self.bytes - HEADER_BYTES
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range that `new` made, which the kernel rounds up to pages; nothing borrows from it any more. A
        // failure would leave the memory mapped, which is safe.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// The side that writes.
pub(crate) struct SharedWriter(Mapping);

impl SharedWriter {
    /// Maps it.
    ///
    /// # Errors
    /// It is sealed, can be made shorter, or the kernel's refusal.
    pub(crate) fn map(fd: impl AsFd) -> Result<Self, IoError> {
        Mapping::new(fd.as_fd(), ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    /// Bytes that a message may have.
    #[must_use]
    pub(crate) fn room(&self) -> usize {
        self.0.room()
    }

    /// Writes a message in place of the one before; false, and nothing is written: it does not fit. Whoever reads the
    /// one before must be done with it.
    #[must_use]
    pub(crate) fn write(&mut self, number: u64, message: &[u8]) -> bool {
        if message.len() > self.room() {
            return false;
        }
        // SAFETY: the message was just found to fit behind the header, inside the mapping. Of this process nobody else
        // has it, since it is borrowed as mutable; another can only read it, and trusts this one, or does not and
        // reads words.
        unsafe {
            let place = self.0.base.as_ptr().cast::<u8>().add(HEADER_BYTES);
            ptr::copy_nonoverlapping(message.as_ptr(), place, message.len());
        }
        self.0.word(WORD_BYTES).store(message.len() as u64, Ordering::Relaxed);
        self.0.word(0).store(number, Ordering::Release);
        true
    }
}

/// The side that reads.
pub(crate) struct SharedReader(Mapping);

impl SharedReader {
    /// Maps it.
    ///
    /// # Errors
    /// It can be made shorter, or the kernel's refusal.
    pub(crate) fn map(fd: impl AsFd) -> Result<Self, IoError> {
        Mapping::new(fd.as_fd(), ProtFlags::READ).map(Self)
    }

    /// The number of the message that is there, or, of a writer that is none, any other.
    #[must_use]
    pub(crate) fn number(&self) -> u64 {
        self.0.word(0).load(Ordering::Acquire)
    }

    /// Copies the message that is there; false: its length is none. What comes of a writer that writes meanwhile is
    /// some of both.
    #[must_use]
    pub(crate) fn read(&self, into: &mut Vec<u8>) -> bool {
        into.clear();
        let length = usize::try_from(self.0.word(WORD_BYTES).load(Ordering::Relaxed));
        let Some(length) = length.ok().filter(|length| *length <= self.0.room()) else {
            return false;
        };
        into.reserve(length.next_multiple_of(WORD_BYTES));
        for at in (0..length).step_by(WORD_BYTES) {
            let word = self.0.word(HEADER_BYTES + at).load(Ordering::Relaxed);
            into.extend_from_slice(&word.to_ne_bytes());
        }
        into.truncate(length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written_and_one_too_long_is_not_written() {
        let memory = shared_memory(100).unwrap();
        let mut writer = SharedWriter::map(&memory).unwrap();
        let reader = SharedReader::map(&memory).unwrap();
        let mut read = vec![7];
        assert!(reader.number() == 0 && reader.read(&mut read) && read.is_empty());
        for (number, length) in [(1, 100), (2, 0), (3, 7), (4, 104), (5, 64)] {
            let message: Vec<u8> = (0..length).collect();
            assert!(writer.write(number, &message));
            assert!(reader.number() == number && reader.read(&mut read));
            assert_eq!(read, message);
        }
        assert!(!writer.write(6, &[0; 105]) && reader.number() == 5);
    }

    #[test]
    fn nobody_makes_it_shorter_and_once_sealed_nobody_else_writes() {
        let memory = shared_memory(4_096).unwrap();
        let mut writer = SharedWriter::map(&memory).unwrap();
        assert!(ftruncate(&memory, 64).is_err());
        seal_for_readers(&memory).unwrap();
        assert!(SharedWriter::map(&memory).is_err());
        assert!(writer.write(1, b"still"));
        let mut read = Vec::new();
        assert!(SharedReader::map(&memory).unwrap().read(&mut read) && read == b"still");
        assert!(rustix::io::write(&memory, b"x").is_err());
        let open = memfd_create("open", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&open, 4_096).unwrap();
        assert!(SharedReader::map(&open).is_err(), "whoever has it could make it shorter");
    }

    /// Whatever stands there is some message, or none.
    #[test]
    fn whatever_is_written_to_it_is_never_read_beyond_it() {
        let memory = shared_memory(64).unwrap();
        let hostile = SharedWriter::map(&memory).unwrap();
        let reader = SharedReader::map(&memory).unwrap();
        let mut read = Vec::new();
        let mut random = 1_u64;
        let (mut good, mut bad) = (0, 0);
        for turn in 0..100_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(turn | 1);
            let place = (random >> 33) as usize % (HEADER_BYTES + 64) / WORD_BYTES * WORD_BYTES;
            let word = if turn % 3 == 0 { random >> 58 } else { random };
            hostile
                .0
                .word(if turn % 2 == 0 { WORD_BYTES } else { place })
                .store(word, Ordering::Relaxed);
            match reader.read(&mut read) {
                true => good += 1,
                false => bad += 1,
            }
            assert!(read.len() <= 64);
        }
        assert!(good > 10_000 && bad > 10_000, "{good} and {bad}");
    }
}
