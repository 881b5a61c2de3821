//! Asks for large pages under large tables: a table beyond what the processor's translation cache
//! reaches costs a walk of the page tables for each line that is not near.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};
use std::mem::MaybeUninit;

/// Size of a large page, in bytes.
const HUGE_BYTES: usize = 2 << 20;

/// Asks for large pages under memory that nothing was written to yet. Where the kernel has none to
/// give, small ones do the same.
pub fn prefer_huge_pages<T>(room: &mut [MaybeUninit<T>]) {
    let bytes = std::mem::size_of_val(room);
    let address = room.as_mut_ptr().cast::<u8>();
    let before = address.align_offset(HUGE_BYTES);
    let inside = bytes.saturating_sub(before) / HUGE_BYTES * HUGE_BYTES;
    if before >= bytes || inside == 0 {
        return;
    }
    // SAFETY: the range lies inside of `room`, and the advice changes no content.
    let _ = unsafe { madvise(address.add(before).cast(), inside, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_as_usable_as_before_whatever_its_size() {
        for len in [0, 1, 1 << 10, 1 << 20] {
            let mut words = Vec::<u64>::with_capacity(len);
            prefer_huge_pages(words.spare_capacity_mut());
            words.extend((0..len).map(|word| word as u64));
            assert_eq!(words.iter().sum::<u64>(), (0..len as u64).sum());
        }
    }
}
