//! Both ways to the device, over memory that a device on a thread of its own writes plainly: Miri sees every hand-over.

use super::*;
use crate::memory::DeviceMemory;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::{NonNull, with_exposed_provenance_mut as pointer};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Blocks of host memory under addresses that a device could have.
#[derive(Default)]
struct Memory {
    live: Mutex<BTreeMap<u64, u64>>,
    mapped: AtomicU32,
    unmappable: bool,
    /// Bytes by which mappings are off.
    crooked: usize,
}

fn layout(bytes: u64) -> Layout {
    Layout::from_size_align(bytes as usize, 256).unwrap()
}

fn word(at: DeviceAddr) -> &'static AtomicU32 {
    // SAFETY: these tests name aligned words of live blocks, and reach them as atomics.
    unsafe { AtomicU32::from_ptr(pointer(at.0 as usize)) }
}

fn long(at: DeviceAddr) -> &'static AtomicU64 {
    // SAFETY: as `word`.
    unsafe { AtomicU64::from_ptr(pointer(at.0 as usize)) }
}

// SAFETY: blocks are allocations of their own that stay until freed; registering gives the block; words are copied as
// atomics, and other ranges only when their writer has handed them over.
unsafe impl DeviceMemory for Memory {
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError> {
        // SAFETY: no test asks for an empty block.
        let at = unsafe {
            let at = alloc(layout(bytes));
            at.write_bytes(0xFF, bytes as usize);
            at.expose_provenance() as u64
        };
        self.live.lock().unwrap().insert(at, bytes);
        Ok(DeviceAddr(at))
    }

    fn free(&self, at: DeviceAddr, bytes: u64) {
        assert_eq!(self.live.lock().unwrap().remove(&at.0), Some(bytes), "freed once, as a whole");
        // SAFETY: it was live.
        unsafe { dealloc(pointer(at.0 as usize), layout(bytes)) }
    }

    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError> {
        if self.unmappable {
            return Err(MemoryError { what: "registration", at, bytes, why: "no window".into() });
        }
        self.mapped.fetch_add(1, Ordering::Relaxed);
        Ok(NonNull::new(pointer(at.0 as usize + self.crooked)).unwrap())
    }

    fn unregister(&self, _at: DeviceAddr, _host: NonNull<u8>, _bytes: u64) {
        self.mapped.fetch_sub(1, Ordering::Relaxed);
    }

    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError> {
        match from.len() {
            4 => word(to).store(u32::from_le_bytes(from.try_into().unwrap()), Ordering::Release),
            8 => long(to).store(u64::from_le_bytes(from.try_into().unwrap()), Ordering::Release),
            // SAFETY: the transport has checked the range, and it is the host's.
            len => unsafe { pointer::<u8>(to.0 as usize).copy_from_nonoverlapping(from.as_ptr(), len) },
        }
        Ok(())
    }

    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError> {
        match to.len() {
            4 => to.copy_from_slice(&word(from).load(Ordering::Acquire).to_le_bytes()),
            8 => to.copy_from_slice(&long(from).load(Ordering::Acquire).to_le_bytes()),
            // SAFETY: the transport has checked the range, and its writer has handed it over.
            len => unsafe { pointer::<u8>(from.0 as usize).copy_to_nonoverlapping(to.as_mut_ptr(), len) },
        }
        Ok(())
    }
}

fn both(check: impl Fn(&dyn Transport)) {
    let memory = Arc::new(Memory::default());
    check(&Svm::new(memory.clone()));
    check(&Copy::new(memory.clone()));
    assert_eq!((memory.live.lock().unwrap().len(), memory.mapped.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn what_is_stored_is_loaded_and_fetched_and_zeroed() {
    both(|transport| {
        let at = transport.add_block(64).unwrap();
        transport.store_u32(at, 0x0403_0201).unwrap();
        transport.store_u64(at.offset(8), u64::MAX - 1).unwrap();
        assert_eq!(transport.load_u32(at), Ok(0x0403_0201));
        assert_eq!(transport.load_u64(at.offset(8)), Ok(u64::MAX - 1));
        let mut words = [7; 4];
        transport.load_words(at, &mut words).unwrap();
        assert_eq!(words, [0x0403_0201, u32::MAX, u32::MAX - 1, u32::MAX]);
        transport.zero(at.offset(2), 13).unwrap();
        let mut bytes = [7; 17];
        transport.fetch(at, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]);
    });
}

#[test]
fn what_is_in_no_block_or_not_aligned_is_refused_and_not_touched() {
    both(|transport| {
        let blocks = [64, 256, 64].map(|bytes| (transport.add_block(bytes).unwrap(), bytes));
        for (at, bytes) in blocks {
            assert_eq!(transport.load_u32(at.offset(bytes - 4)), Ok(u32::MAX));
            let across = at.offset(bytes - 4);
            assert_eq!(
                transport.fetch(across, &mut [0; 5]),
                Err(TransportError::Foreign { at: across, bytes: 5 })
            );
            assert!(transport.zero(across, 5).is_err());
            for odd in [1, 2, 3, 6] {
                let at = at.offset(odd);
                assert!(transport.load_u32(at).is_err());
                assert_eq!(transport.store_u64(at, 0), Err(TransportError::Unaligned { at, bytes: 8 }));
            }
        }
        for foreign in [DeviceAddr::NULL, DeviceAddr(8), DeviceAddr(u64::MAX - 7)] {
            assert!(transport.load_u64(foreign).is_err() && transport.store_u32(foreign, 1).is_err());
            assert!(transport.fetch(foreign, &mut [0; 16]).is_err());
        }
    });
}

#[test]
fn a_range_gets_into_its_place_in_a_file() {
    both(|transport| {
        let at = transport.add_block(256).unwrap();
        (0..64).for_each(|n| transport.store_u32(at.offset(4 * n), n as u32).unwrap());
        let (file, mut block) = (tempfile::tempfile().unwrap(), Vec::new());
        for (from, place) in [(128, 0), (0, 128)] {
            transport.spill(at.offset(from), 128, &mut block, &file, place).unwrap();
        }
        let across = transport.spill(at.offset(128), 129, &mut block, &file, 0);
        assert!(matches!(across, Err(SpillError::Device(TransportError::Foreign { .. }))), "{across:?}");
        if !cfg!(miri) {
            let closed = File::open("/dev/null").unwrap();
            let refused = transport.spill(at, 128, &mut block, &closed, 0);
            assert!(matches!(refused, Err(SpillError::File(_))), "{refused:?}");
        }
        let mut back = [0; 256];
        file.read_exact_at(&mut back, 0).unwrap();
        let words = back.chunks(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap()));
        assert!(words.eq((32..64).chain(0..32)));
        assert_eq!(file.metadata().unwrap().len(), 256);
    });
}

/// Word 0 counts what the device has handed over, word 1 what the host has given back; the range is behind them.
#[test]
fn a_range_that_was_handed_over_is_whole_while_its_device_runs() {
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    both(|transport| {
        let at = transport.add_block(4096).unwrap();
        for word in [0, 4] {
            transport.store_u32(at.offset(word), 0).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 1..=rounds {
                    while word(at.offset(4)).load(Ordering::Acquire) != round - 1 {
                        std::thread::yield_now();
                    }
                    // SAFETY: the range is the device's until it is handed over.
                    unsafe { pointer::<u8>(at.0 as usize + 64).write_bytes(round as u8, 100) };
                    word(at).store(round, Ordering::Release);
                }
            });
            let mut range = [0; 100];
            for round in 1..=rounds {
                while transport.load_u32(at).unwrap() != round {
                    std::thread::yield_now();
                }
                transport.fetch(at.offset(64), &mut range).unwrap();
                assert_eq!(range, [round as u8; 100]);
                transport.zero(at.offset(64), 100).unwrap();
                transport.store_u32(at.offset(4), round).unwrap();
            }
        });
    });
}

#[test]
fn a_block_that_cannot_be_mapped_is_given_back() {
    let memory = Arc::new(Memory { unmappable: true, ..Memory::default() });
    let refused = Svm::new(memory.clone()).add_block(64).unwrap_err();
    assert!(refused.to_string().contains("registration of 64 bytes"), "{refused}");
    assert!(memory.live.lock().unwrap().is_empty());
}

#[test]
fn a_mapping_that_words_would_lie_across_is_refused_and_given_back() {
    for crooked in [1, 8, 63] {
        let memory = Arc::new(Memory { crooked, ..Memory::default() });
        let refused = Svm::new(memory.clone()).add_block(256).unwrap_err();
        assert!(refused.to_string().contains("is not a multiple of 64 bytes"), "{refused}");
        assert_eq!((memory.live.lock().unwrap().len(), memory.mapped.load(Ordering::Relaxed)), (0, 0));
    }
    Svm::new(Arc::new(Memory { crooked: 64, ..Memory::default() })).add_block(256).unwrap();
}
