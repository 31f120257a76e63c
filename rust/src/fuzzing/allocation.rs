//! An allocator that counts, so that a promise about memory is checked for every input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator; knows how much Rust code holds. One thread at a time is measured.
pub struct Counting;

fn grow(bytes: usize) {
    PEAK.fetch_max(CURRENT.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn shrink(bytes: usize) {
    CURRENT.fetch_sub(bytes, Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        shrink(layout.size());
        grow(size);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs `work`, which may hold at most `bytes` more than before at any time; else panics.
///
/// Sees nothing where [`Counting`] is not the allocator.
pub fn bounded<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = CURRENT.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    let held = PEAK.load(Relaxed) - before;
    assert!(held <= bytes, "{held} bytes were held, {bytes} are allowed");
    done
}
