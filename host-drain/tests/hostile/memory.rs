//! Device memory for a hostile device: every block an allocation of its own, every range that the host asks for checked.

use dfx_collector::abi::DeviceAddr;
use dfx_host_drain::memory::{DeviceMemory, MemoryError};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The blocks, and what was asked of them.
#[derive(Default)]
pub(crate) struct Memory {
    live: Mutex<BTreeMap<u64, u64>>,
    registered: AtomicU32,
    outside: AtomicU32,
}

fn layout(bytes: u64) -> Layout {
    Layout::from_size_align(bytes as usize, 256).expect("a size that fits")
}

impl Memory {
    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.live.lock().expect("nobody panics in here")
    }

    /// Allocations and registrations that are out.
    pub(crate) fn out(&self) -> (usize, u32) {
        (self.live().len(), self.registered.load(Ordering::Relaxed))
    }

    /// Ranges asked for that lie in no block.
    pub(crate) fn outside(&self) -> u32 {
        self.outside.load(Ordering::Relaxed)
    }

    /// Start and size of every block.
    pub(crate) fn blocks(&self) -> Vec<(u64, u64)> {
        self.live().iter().map(|(&at, &bytes)| (at, bytes)).collect()
    }

    fn check(&self, at: DeviceAddr, bytes: u64) -> Result<(), MemoryError> {
        let inside = |(&start, &len): (&u64, &u64)| at.0 + bytes <= start + len;
        if self.live().range(..=at.0).next_back().is_some_and(inside) {
            return Ok(());
        }
        self.outside.fetch_add(1, Ordering::Relaxed);
        Err(MemoryError { what: "copy", at, bytes, why: "outside of every block".into() })
    }
}

/// The atomic at `at`, which lies in a block and is aligned.
pub(crate) fn word(at: u64) -> &'static AtomicU32 {
    // SAFETY: the caller's addresses lie in blocks that are live, are aligned, and are reached through atomics only.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) }
}

/// The atomic at `at`, likewise.
pub(crate) fn long(at: u64) -> &'static AtomicU64 {
    // SAFETY: as `word`.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) }
}

fn byte(at: u64) -> &'static AtomicU8 {
    // SAFETY: as `word`.
    unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(at as usize)) }
}

// SAFETY: blocks are allocations of their own that stay until freed; registering gives the block; copies are checked and
// move aligned words whole, with acquire loads and release stores.
unsafe impl DeviceMemory for Memory {
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError> {
        // SAFETY: sessions ask for no empty blocks. What a block holds at first is anything: here, ones.
        let at = unsafe {
            let at = alloc(layout(bytes));
            at.write_bytes(0xFF, bytes as usize);
            at.expose_provenance() as u64
        };
        self.live().insert(at, bytes);
        Ok(DeviceAddr(at))
    }

    fn free(&self, at: DeviceAddr, bytes: u64) {
        assert_eq!(self.live().remove(&at.0), Some(bytes), "freed once, as a whole");
        // SAFETY: it was live.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(at.0 as usize), layout(bytes)) }
    }

    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError> {
        self.check(at, bytes)?;
        self.registered.fetch_add(1, Ordering::Relaxed);
        Ok(NonNull::new(std::ptr::with_exposed_provenance_mut(at.0 as usize)).expect("not null"))
    }

    fn unregister(&self, _at: DeviceAddr, _host: NonNull<u8>, _bytes: u64) {
        self.registered.fetch_sub(1, Ordering::Relaxed);
    }

    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError> {
        self.check(to, from.len() as u64)?;
        if let Ok(raw) = <[u8; 4]>::try_from(from) {
            word(to.0).store(u32::from_le_bytes(raw), Ordering::Release);
        } else if let Ok(raw) = <[u8; 8]>::try_from(from) {
            long(to.0).store(u64::from_le_bytes(raw), Ordering::Release);
        } else {
            from.iter().zip(to.0..).for_each(|(&value, at)| byte(at).store(value, Ordering::Relaxed));
        }
        Ok(())
    }

    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError> {
        self.check(from, to.len() as u64)?;
        if from.0.is_multiple_of(4) && to.len().is_multiple_of(4) {
            for (raw, at) in to.chunks_exact_mut(4).zip((from.0..).step_by(4)) {
                raw.copy_from_slice(&word(at).load(Ordering::Acquire).to_le_bytes());
            }
        } else {
            to.iter_mut().zip(from.0..).for_each(|(value, at)| *value = byte(at).load(Ordering::Acquire));
        }
        Ok(())
    }
}
