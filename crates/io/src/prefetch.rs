//! Asks the processor for memory before it is needed: a table larger than its caches costs the wait
//! for one line per packet, unless those of a whole vector are under way at once.
#![allow(unsafe_code)]

/// Asks for the line that a value starts in. Only a hint: nothing is read.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    ask(std::ptr::from_ref(value).cast());
}

/// Asks for all lines that a value is in.
#[inline(always)]
pub fn prefetch_whole<T>(value: &T) {
    const LINE_BYTES: usize = 64;
    let first = std::ptr::from_ref(value).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        ask(first.wrapping_add(offset));
    }
    ask(first.wrapping_add(size_of::<T>().saturating_sub(1)));
}

#[inline(always)]
fn ask(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults nowhere, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
