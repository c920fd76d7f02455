//! Where blocks of device memory come from.

use rustix::mm::{Advice, madvise};
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Alignment of every block, in bytes.
pub const BLOCK_ALIGN: u64 = 64;

/// Gives and takes back blocks of device memory.
///
/// # Safety
///
/// `alloc` must return the address of `bytes` bytes, aligned to `align`, that hold zeros, belong to nobody else, and stay
/// readable and writable by this process (provenance exposed) until `free` is called with that address.
pub unsafe trait DeviceAlloc: Send + Sync {
    /// A zeroed block; `bytes` may be 0. The error says how much was asked for and why it failed.
    fn alloc(&self, bytes: u64, align: u64) -> Result<u64, String>;

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// `addr` and `bytes` are of one earlier `alloc` that was not freed, and nobody uses the block any more.
    unsafe fn free(&self, addr: u64, bytes: u64);
}

/// A block that is out: where the heap's own block begins, and its layout.
struct Live {
    block: *mut u8,
    layout: Layout,
}

// SAFETY: the pointer only says what to give back; the block is not bound to a thread.
unsafe impl Send for Live {}

/// Device memory on the process's heap: the simulator's default.
///
/// Blocks are aligned by hand: the heap zeroes a block of a larger alignment byte by byte, and would so touch every page
/// of an arena that a run may never use.
#[derive(Default)]
pub struct HeapAlloc {
    live: Mutex<HashMap<u64, Live>>,
}

impl HeapAlloc {
    /// Blocks that are out.
    pub fn live_blocks(&self) -> usize {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

// SAFETY: blocks come zeroed from the global allocator with the layout asked for, and stay out until `free` finds them.
unsafe impl DeviceAlloc for HeapAlloc {
    fn alloc(&self, bytes: u64, align: u64) -> Result<u64, String> {
        let impossible =
            || format!("device memory: {bytes} bytes aligned to {align} is not a possible block");
        let size = bytes.max(1).checked_add(align).and_then(|size| usize::try_from(size).ok());
        let layout =
            size.filter(|_| align.is_power_of_two()).and_then(|size| Layout::from_size_align(size, 16).ok());
        let layout = layout.ok_or_else(impossible)?;
        // SAFETY: the layout's size is at least 1.
        let block = unsafe { std::alloc::alloc_zeroed(layout) };
        if block.is_null() {
            return Err(format!("device memory: the heap has no block of {bytes} bytes"));
        }
        // SAFETY: the range is the block's; advice changes none of its bytes.
        unsafe { advise(block, layout.size()) };
        // The block has `align` bytes more than were asked for.
        let addr = (block.expose_provenance() as u64).next_multiple_of(align);
        self.live.lock().unwrap_or_else(PoisonError::into_inner).insert(addr, Live { block, layout });
        Ok(addr)
    }

    unsafe fn free(&self, addr: u64, _bytes: u64) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(&addr);
        if let Some(Live { block, layout }) = live {
            // SAFETY: the block came from `alloc_zeroed` with this layout, was still out, and the caller is its last user.
            unsafe { std::alloc::dealloc(block, layout) };
        }
    }
}

/// Size of a huge page, in bytes.
const HUGE: usize = 2 << 20;

/// Asks for huge pages where `block` has room for some, as a board's driver gives them to what is large: a first touch and
/// a miss of the address cache for every 2 MiB instead of every 4 KiB.
///
/// # Safety
/// The block has `size` bytes.
unsafe fn advise(block: *mut u8, size: usize) {
    let skip = block.addr().next_multiple_of(HUGE) - block.addr();
    if size >= skip + 2 * HUGE {
        // SAFETY: inside the block. Where there is no such thing, all stays as it is.
        let _ =
            unsafe { madvise(block.add(skip).cast(), (size - skip) / HUGE * HUGE, Advice::LinuxHugepage) };
    }
}
