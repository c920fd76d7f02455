//! Device memory for the diagnostics, as the simulated platforms have it.
//!
//! On a2a3sim the host maps device memory: an address is a pointer, and registering gives it. On a5sim the host has copy
//! calls only; the same bytes stand in for a separate address space, and every copy checks that it stays inside what was
//! allocated. Whatever is out is counted, so that a test can see that all of it came back.

use crate::memory::{DeviceAlloc, HeapAlloc};
use dfx_collector::abi::DeviceAddr;
use dfx_host_drain::memory::{DeviceMemory, MemoryError};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Copies from the device below this length, in bytes, may be of words that it stores meanwhile.
const INDEX_BYTES: usize = 256;
/// Alignment of an allocation, in bytes.
const ALIGN: u64 = 256;

/// The simulated device's memory.
#[derive(Default)]
pub struct SimDevice {
    heap: HeapAlloc,
    live: Mutex<BTreeMap<u64, u64>>,
    registered: AtomicU32,
    registrations: AtomicU32,
}

impl SimDevice {
    /// Allocations that are out.
    pub fn live_allocations(&self) -> usize {
        self.live().len()
    }

    /// Registrations that are out.
    pub fn live_registrations(&self) -> u32 {
        self.registered.load(Ordering::Relaxed)
    }

    /// Registrations made so far.
    pub fn registrations(&self) -> u32 {
        self.registrations.load(Ordering::Relaxed)
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that a range lies in one allocation.
    fn check(&self, what: &'static str, at: DeviceAddr, bytes: u64) -> Result<(), MemoryError> {
        let inside = self
            .live()
            .range(..=at.0)
            .next_back()
            .is_some_and(|(&start, &len)| at.0.checked_add(bytes).is_some_and(|end| end <= start + len));
        let why = || "the range is not inside one allocation of device memory".to_owned();
        if inside { Ok(()) } else { Err(MemoryError { what, at, bytes, why: why() }) }
    }
}

/// Splits a range into aligned u64 words with byte ends, and calls one of the two for each.
fn words(at: u64, len: usize, mut word: impl FnMut(u64, usize), mut byte: impl FnMut(u64, usize)) {
    let first = ((at.next_multiple_of(8) - at) as usize).min(len);
    let behind = len - (len - first) % 8;
    (0..first).for_each(|done| byte(at + done as u64, done));
    (first..behind).step_by(8).for_each(|done| word(at + done as u64, done));
    (behind..len).for_each(|done| byte(at + done as u64, done));
}

// SAFETY: blocks come from the heap with their own layout and stay out until freed; registering gives the block itself;
// copies check their range against the live blocks and move words that the device may load or store meanwhile whole, with
// acquire loads and release stores.
unsafe impl DeviceMemory for SimDevice {
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError> {
        let at = self.heap.alloc(bytes, ALIGN);
        let at = at.map_err(|why| MemoryError { what: "allocation", at: DeviceAddr::NULL, bytes, why })?;
        self.live().insert(at, bytes);
        Ok(DeviceAddr(at))
    }

    fn free(&self, at: DeviceAddr, bytes: u64) {
        if self.live().remove(&at.0).is_some() {
            // SAFETY: it was live, and its owner gives it up.
            unsafe { self.heap.free(at.0, bytes) }
        }
    }

    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError> {
        self.check("registration", at, bytes)?;
        let host = NonNull::new(std::ptr::with_exposed_provenance_mut(at.0 as usize));
        let host = host.ok_or(MemoryError { what: "registration", at, bytes, why: "null address".into() })?;
        self.registered.fetch_add(1, Ordering::Relaxed);
        self.registrations.fetch_add(1, Ordering::Relaxed);
        Ok(host)
    }

    fn unregister(&self, _at: DeviceAddr, _host: NonNull<u8>, _bytes: u64) {
        self.registered.fetch_sub(1, Ordering::Relaxed);
    }

    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError> {
        self.check("copy to the device", to, from.len() as u64)?;
        if let Ok(word) = <[u8; 4]>::try_from(from)
            && to.0.is_multiple_of(4)
        {
            // SAFETY: checked and aligned; the device reaches this word through atomics too.
            let place = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(to.0 as usize)) };
            place.store(u32::from_le_bytes(word), Ordering::Release);
            return Ok(());
        }
        words(
            to.0,
            from.len(),
            |place, at| {
                let mut raw = [0; 8];
                raw.copy_from_slice(&from[at..at + 8]);
                // SAFETY: checked and aligned.
                let place =
                    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(place as usize)) };
                place.store(u64::from_le_bytes(raw), Ordering::Release);
            },
            |place, at| {
                // SAFETY: checked.
                let place =
                    unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(place as usize)) };
                place.store(from[at], Ordering::Release);
            },
        );
        Ok(())
    }

    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError> {
        self.check("copy from the device", from, to.len() as u64)?;
        let len = to.len();
        if from.0.is_multiple_of(4) && len < INDEX_BYTES && len.is_multiple_of(4) {
            // Indices and flags: word by word, each as the device stored it.
            for (i, raw) in to.chunks_exact_mut(4).enumerate() {
                let place = from.0 as usize + 4 * i;
                // SAFETY: checked and aligned; the device reaches these words through atomics too.
                let word = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(place)) };
                raw.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
            }
            return Ok(());
        }
        let from = std::ptr::with_exposed_provenance::<u8>(from.0 as usize);
        // SAFETY: checked; records and payload are read once their writer has handed them over (`Transport::fetch`): nobody
        // writes them now. A device that does all the same gives a torn copy of plain bytes, which the host checks. A
        // real copy engine costs the host's processor nothing: this is as little as it can be here.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), len) }
        Ok(())
    }
}
