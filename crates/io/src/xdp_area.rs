//! The memory that an AF_XDP socket's frames lie in, cut into chunks of one size. A chunk is ours
//! while we hold its token, and the kernel's while we do not. Refuses to know rings.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

use crate::error::IoError;

/// Size of a chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = 4_096;

/// A chunk that is ours. There is one for each chunk, and it is made by [`Area`] alone.
#[derive(Debug)]
pub(crate) struct Chunk(u32);

/// Chunks in a mapping of their own.
pub(crate) struct Area {
    base: NonNull<c_void>,
    /// Whether the kernel has each chunk.
    is_lent: Vec<bool>,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Area {}

impl Area {
    /// Memory for so many chunks, and the chunks.
    pub(crate) fn new(chunks: u32) -> Result<(Self, Vec<Chunk>), IoError> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let bytes = chunks as usize * CHUNK_BYTES;
        let told = IoError::system("making memory for frames");
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) };
        let base = match base.map(NonNull::new) {
            Ok(Some(base)) => base,
            Ok(None) => return Err(told(std::io::Error::other("no address"))),
            Err(errno) => return Err(told(errno.into())),
        };
        let area = Self { base, is_lent: vec![false; chunks as usize] };
        Ok((area, (0..chunks).map(Chunk).collect()))
    }

    /// How the kernel is told of it.
    pub(crate) fn registration(&self) -> XdpUmemReg {
        XdpUmemReg {
            addr: self.base.as_ptr() as u64,
            len: self.bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        }
    }

    /// Lends a chunk to the kernel; the answer is its address.
    #[allow(clippy::needless_pass_by_value, reason = "who lends a chunk has it no more")]
    pub(crate) fn lend(&mut self, chunk: Chunk) -> u64 {
        let Chunk(number) = chunk;
        if let Some(is_lent) = self.is_lent.get_mut(number as usize) {
            *is_lent = true;
        }
        u64::from(number) * CHUNK_BYTES as u64
    }

    /// Takes the chunk back in which this address lies; `None` when the kernel does not have it.
    pub(crate) fn take_back(&mut self, address: u64) -> Option<Chunk> {
        let number = usize::try_from(address).ok()? / CHUNK_BYTES;
        let is_lent = self.is_lent.get_mut(number).filter(|is_lent| **is_lent)?;
        *is_lent = false;
        u32::try_from(number).ok().map(Chunk)
    }

    /// So many bytes of the chunk from an address on; `None` when they are not in it.
    pub(crate) fn bytes_at(&self, chunk: &Chunk, address: u64, len: u32) -> Option<&[u8]> {
        let start = usize::try_from(address).ok()? % CHUNK_BYTES;
        self.chunk(chunk).get(start..)?.get(..len as usize)
    }

    /// Writes bytes to the start of the chunk; false when they are too many.
    pub(crate) fn write(&mut self, chunk: &mut Chunk, bytes: &[u8]) -> bool {
        if bytes.len() > CHUNK_BYTES {
            return false;
        }
        let start = self.start_of(chunk);
        // SAFETY: the chunk lies inside the mapping, since its number is below their count. It is
        // ours, since its token is here, and reached by nobody else, since both it and the area are
        // borrowed as mutable. The bytes come from elsewhere: nobody else has this mapping.
        unsafe {
            let place = self.base.byte_add(start).cast::<u8>().as_ptr();
            ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        true
    }

    fn chunk(&self, chunk: &Chunk) -> &[u8] {
        let start = self.start_of(chunk);
        // SAFETY: the chunk lies inside the mapping, since its number is below their count. It is
        // ours while its token is borrowed, so the kernel does not write to it, and we write only
        // with the area borrowed as mutable.
        unsafe {
            let place = self.base.byte_add(start).cast::<u8>().as_ptr();
            std::slice::from_raw_parts(place, CHUNK_BYTES)
        }
    }

    fn start_of(&self, chunk: &Chunk) -> usize {
        let number = chunk.0 as usize;
        assert!(number < self.is_lent.len(), "the memory has no chunk {number}");
        number * CHUNK_BYTES
    }

    fn bytes(&self) -> usize {
        self.is_lent.len() * CHUNK_BYTES
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` made; nothing borrows from it any more. The kernel
        // holds the pages themselves for as long as its socket lives. A failure would leave the
        // memory mapped, which is safe.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_given_back_once_and_by_any_address_in_it() {
        let (mut area, mut chunks) = Area::new(4).unwrap();
        let address = area.lend(chunks.remove(2));
        assert_eq!(address, 2 * CHUNK_BYTES as u64);
        assert!(area.take_back(address - 1).is_none());
        let chunk = area.take_back(address + 256).unwrap();
        assert!(area.take_back(address).is_none());
        assert!(area.take_back(u64::MAX).is_none());
        assert_eq!(area.lend(chunk), address);
    }

    #[test]
    fn bytes_are_read_where_they_were_written_and_never_beyond_their_chunk() {
        let (mut area, mut chunks) = Area::new(2).unwrap();
        assert!(area.write(&mut chunks[1], b"frame"));
        assert_eq!(area.bytes_at(&chunks[1], CHUNK_BYTES as u64 + 1, 4).unwrap(), b"rame");
        assert_eq!(area.bytes_at(&chunks[0], 0, 5).unwrap(), [0; 5]);
        assert!(area.bytes_at(&chunks[0], 4_000, 97).is_none());
        assert!(!area.write(&mut chunks[0], &[0; CHUNK_BYTES + 1]));
    }
}
