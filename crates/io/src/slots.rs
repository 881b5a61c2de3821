//! The memory of a packet ring, shared with the kernel. Knows slots of equal size, one after the
//! other, each owned by either side as its status word says (Linux `if_packet.h`, `tpacket2_hdr`);
//! refuses to know what is in a frame.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::IoError;
use crate::offload::VIRTIO_HEADER_BYTES;
use crate::options;

/// Blocks up to this size waste little when the kernel rounds them up to a power of two.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Number and size of slots, such that blocks of the kernel are filled without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    slots: usize,
    slot_bytes: usize,
    block_slots: usize,
}

impl Geometry {
    /// At least `slots` slots: the last block is filled up.
    pub(crate) fn new(slots: usize, slot_bytes: usize) -> Result<Self, IoError> {
        let page_bytes = rustix::param::page_size();
        if !slot_bytes.is_multiple_of(page_bytes) {
            return Err(IoError::SlotAlignment { value: slot_bytes, page_bytes });
        }
        let block_slots = (BLOCK_BYTES_MAX / slot_bytes).clamp(1, slots);
        Ok(Self { slots: slots.next_multiple_of(block_slots), slot_bytes, block_slots })
    }

    fn bytes(self) -> usize {
        self.slots * self.slot_bytes
    }

    fn request(self) -> [u32; 4] {
        let block_bytes = self.block_slots * self.slot_bytes;
        [block_bytes, self.slots / self.block_slots, self.slot_bytes, self.slots]
            .map(|value| value as u32)
    }
}

/// A frame in a slot that the kernel has given to us.
pub(crate) struct FilledSlot<'ring> {
    header: libc::tpacket2_hdr,
    bytes: &'ring [u8],
}

impl<'ring> FilledSlot<'ring> {
    /// The kernel's words about the frame, and the frame; `None` when it did not fit the slot.
    pub(crate) fn frame(&self) -> Option<([u8; VIRTIO_HEADER_BYTES], &'ring [u8])> {
        if self.header.tp_snaplen < self.header.tp_len {
            return None;
        }
        let start = usize::from(self.header.tp_mac);
        let frame = self.bytes.get(start..)?.get(..self.header.tp_snaplen as usize)?;
        let before = self.bytes.get(start.checked_sub(VIRTIO_HEADER_BYTES)?..start)?;
        Some((before.try_into().ok()?, frame))
    }

    /// Protocol and control information of a VLAN tag that the kernel took out of the frame.
    pub(crate) fn stripped_vlan(&self) -> Option<(u16, u16)> {
        let status = self.header.tp_status;
        if status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let has_protocol = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let protocol =
            if has_protocol { self.header.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
        Some((protocol, self.header.tp_vlan_tci))
    }
}

/// The slots of one ring, mapped into this process.
pub(crate) struct SlotMemory {
    base: NonNull<c_void>,
    geometry: Geometry,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for SlotMemory {}

impl SlotMemory {
    /// Makes the kernel allocate the ring of `socket` and maps it.
    pub(crate) fn map(socket: BorrowedFd<'_>, geometry: Geometry) -> Result<Self, IoError> {
        options::set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, geometry.request())
            .map_err(IoError::system("allocating the packet ring"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base =
            unsafe { mmap(ptr::null_mut(), geometry.bytes(), access, MapFlags::SHARED, socket, 0) }
                .map_err(IoError::system("mapping the packet ring"))?;
        let base = NonNull::new(base).ok_or_else(|| {
            IoError::system("mapping the packet ring")(std::io::Error::other("no address"))
        })?;
        Ok(Self { base, geometry })
    }

    pub(crate) fn count(&self) -> usize {
        self.geometry.slots
    }

    pub(crate) fn bytes(&self) -> usize {
        self.geometry.bytes()
    }

    /// The slot's frame, or `None` while the kernel owns the slot.
    pub(crate) fn filled(&self, index: usize) -> Option<FilledSlot<'_>> {
        let owner = self.status(index).load(Ordering::Acquire);
        if owner & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let slot = self.slot(index);
        // SAFETY: the slot lies inside the mapping and starts on a page. The status word says that
        // it is ours, so the kernel does not write to it until `release`, which needs `&mut self`
        // and therefore comes after the end of this borrow. The header is plain integers.
        let (header, bytes) = unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>().read();
            (header, std::slice::from_raw_parts(slot, self.geometry.slot_bytes))
        };
        Some(FilledSlot { header, bytes })
    }

    /// Gives a slot back to the kernel.
    pub(crate) fn release(&mut self, index: usize) {
        self.status(index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    fn slot(&self, index: usize) -> *mut u8 {
        assert!(index < self.geometry.slots, "the ring has no slot {index}");
        // SAFETY: the slot lies inside the mapping, because its index was just checked and the
        // mapping is as long as all slots together.
        unsafe { self.base.as_ptr().cast::<u8>().add(index * self.geometry.slot_bytes) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the status word is the first of the slot, page-aligned, inside the mapping for as
        // long as `self` lives, and after the setup changed only atomically: the kernel writes it
        // as one word, we go through this reference.
        unsafe { AtomicU32::from_ptr(self.slot(index).cast()) }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` made; nothing borrows from it any more. A failure
        // would leave the memory mapped, which is safe.
        let _ = unsafe { munmap(self.base.as_ptr(), self.geometry.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_whole_slots_and_waste_little_of_their_power_of_two() {
        let geometry = Geometry::new(256, 69_632).unwrap();
        let [block_bytes, blocks, slot_bytes, slots] = geometry.request();
        assert_eq!(slot_bytes, 69_632);
        assert!(slots >= 256);
        assert_eq!(blocks * (block_bytes / slot_bytes), slots);
        assert_eq!(block_bytes % slot_bytes, 0);
        assert!(block_bytes.next_power_of_two() - block_bytes < block_bytes / 64);
    }

    #[test]
    fn few_or_huge_slots_still_make_whole_blocks() {
        for (slots, slot_bytes) in [(1, 4_096), (3, 69_632), (7, 4 << 20)] {
            let [block_bytes, blocks, _, total] =
                Geometry::new(slots, slot_bytes).unwrap().request();
            assert_eq!(total as usize, slots);
            assert_eq!(block_bytes as usize * blocks as usize, slots * slot_bytes);
        }
        assert!(matches!(Geometry::new(8, 5_000), Err(IoError::SlotAlignment { .. })));
    }
}
