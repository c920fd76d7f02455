//! Faults of the platform's memory calls.

use super::{Fault, FaultPlan};
use dfx_collector::abi::DeviceAddr;
use dfx_host_drain::memory::{DeviceMemory, MemoryError};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Registrations below this many bytes fail under `register-fail-small`.
const SMALL: u64 = 64 << 10;

/// Device memory whose calls fail by plan.
pub struct FaultyMemory {
    inner: Arc<dyn DeviceMemory>,
    register_fails: Option<u32>,
    small_fails: bool,
    alloc_fails: Option<u32>,
    registered: AtomicU32,
    allocated: AtomicU32,
}

impl FaultyMemory {
    /// `inner` with the faults of `plan`.
    pub fn new(inner: Arc<dyn DeviceMemory>, plan: &FaultPlan) -> Self {
        FaultyMemory {
            inner,
            register_fails: plan.find(|fault| match fault {
                Fault::RegisterFail(k) => Some(*k),
                _ => None,
            }),
            small_fails: plan.has(&Fault::RegisterFailSmall),
            alloc_fails: plan.find(|fault| match fault {
                Fault::AllocFail(k) => Some(*k),
                _ => None,
            }),
            registered: AtomicU32::new(0),
            allocated: AtomicU32::new(0),
        }
    }
}

fn injected(what: &'static str, at: DeviceAddr, bytes: u64) -> MemoryError {
    MemoryError { what, at, bytes, why: "injected fault".into() }
}

// SAFETY: everything that succeeds is done by `inner`, which keeps the contract.
unsafe impl DeviceMemory for FaultyMemory {
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError> {
        let nth = self.allocated.fetch_add(1, Ordering::Relaxed) + 1;
        if self.alloc_fails == Some(nth) {
            return Err(injected("allocation", DeviceAddr::NULL, bytes));
        }
        self.inner.alloc(bytes)
    }

    fn free(&self, at: DeviceAddr, bytes: u64) {
        self.inner.free(at, bytes);
    }

    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError> {
        let nth = self.registered.fetch_add(1, Ordering::Relaxed) + 1;
        if self.register_fails == Some(nth) || (self.small_fails && bytes < SMALL) {
            return Err(injected("registration", at, bytes));
        }
        self.inner.register(at, bytes)
    }

    fn unregister(&self, at: DeviceAddr, host: NonNull<u8>, bytes: u64) {
        self.inner.unregister(at, host, bytes);
    }

    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError> {
        self.inner.copy_to(to, from)
    }

    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError> {
        self.inner.copy_from(to, from)
    }
}
