//! The four rings that an AF_XDP socket shares with the kernel (Linux `if_xdp.h`): two counts and
//! descriptors, one side of which only puts in and the other only takes out. Refuses to know what
//! descriptors mean.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

use crate::error::IoError;

/// A ring of `count` descriptors, a power of two.
pub(crate) struct Ring<T> {
    base: NonNull<c_void>,
    bytes: usize,
    offsets: XdpRingOffset,
    count: u32,
    descriptors: NonNull<T>,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps a ring that the socket has.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        offsets: XdpRingOffset,
        count: u32,
        page_offset: u64,
    ) -> Result<Self, IoError> {
        let bytes = offsets.desc as usize + count as usize * size_of::<T>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, flags, socket, page_offset) };
        let base = base.map_err(IoError::system("mapping a ring"))?;
        let no_address = || IoError::system("mapping a ring")(std::io::Error::other("no address"));
        let base = NonNull::new(base).ok_or_else(no_address)?;
        // SAFETY: the kernel says where descriptors begin, and the mapping is long enough for all
        // of them; their place is aligned for the integers that they are made of.
        let descriptors = unsafe { base.byte_add(offsets.desc as usize) }.cast();
        Ok(Self { base, bytes, offsets, count, descriptors })
    }

    /// Puts a descriptor in; false when the ring is full. For rings that the kernel takes from.
    pub(crate) fn put(&mut self, descriptor: T) -> bool {
        let next = self.word(self.offsets.producer).load(Ordering::Relaxed);
        let taken = self.word(self.offsets.consumer).load(Ordering::Acquire);
        if next.wrapping_sub(taken) >= self.count {
            return false;
        }
        // SAFETY: the slot is below `count`, so inside the mapping, and not between the two counts,
        // so the kernel does not read it before the count below is stored.
        unsafe { self.slot(next).write(descriptor) };
        self.word(self.offsets.producer).store(next.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the oldest descriptor out. For rings that the kernel puts into.
    pub(crate) fn take(&mut self) -> Option<T> {
        let next = self.word(self.offsets.consumer).load(Ordering::Relaxed);
        if next == self.word(self.offsets.producer).load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the slot is below `count`, so inside the mapping, and between the two counts, so
        // the kernel has written it and does not again before the count below is stored. A
        // descriptor is made of integers: any bits are one.
        let descriptor = unsafe { self.slot(next).read() };
        self.word(self.offsets.consumer).store(next.wrapping_add(1), Ordering::Release);
        Some(descriptor)
    }

    /// Does the ring hold no descriptor?
    pub(crate) fn is_empty(&self) -> bool {
        let [put, taken] = [self.offsets.producer, self.offsets.consumer]
            .map(|offset| self.word(offset).load(Ordering::Acquire));
        put == taken
    }

    /// Does the kernel sleep until it is called?
    pub(crate) fn needs_wakeup(&self) -> bool {
        let asleep = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
        // A kernel without the word wants to be called always.
        self.offsets.flags.is_none_or(|at| self.word(at).load(Ordering::Relaxed) & asleep != 0)
    }

    fn slot(&self, count: u32) -> NonNull<T> {
        // SAFETY: masked by a power of two less one, the place is below `count`.
        unsafe { self.descriptors.add((count & (self.count - 1)) as usize) }
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel says that an aligned word of the ring is there, inside the mapping for
        // as long as `self` lives; both sides reach it atomically alone.
        unsafe { AtomicU32::from_ptr(self.base.byte_add(offset as usize).cast().as_ptr()) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` made; nothing borrows from it any more. A failure
        // would leave the memory mapped, which is safe.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}
