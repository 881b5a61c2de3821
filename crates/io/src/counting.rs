//! An allocator that counts: with it a test proves that packets pass without any allocation.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what each thread asks of it.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    // Without a destructor, so that it may be used while a thread ends.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

impl CountingAllocator {
    /// How often this thread has asked for memory, or for more of it, since it began.
    #[must_use]
    pub fn asked() -> u64 {
        ASKED.with(Cell::get)
    }
}

fn count() {
    ASKED.with(|asked| asked.set(asked.get().wrapping_add(1)));
}

// SAFETY: every call is handed to the system's allocator as it came; counting does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator, as all of ours do.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is ours.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the block came from the system's allocator, as all of ours do.
        unsafe { System.realloc(block, layout, bytes) }
    }
}
