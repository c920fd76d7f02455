//! Faults of the host half: transfers that fail, a drain that stalls or dies, a disk that is full.

use super::{Fault, FaultPlan};
use dfx_collector::abi::DeviceAddr;
use dfx_host_drain::memory::MemoryError;
use dfx_host_drain::testpoint::TestPoints;
use dfx_host_drain::transport::{Transport, TransportError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A transport whose reads fail by plan, once it is armed.
pub struct FaultyTransport {
    inner: Arc<dyn Transport>,
    armed: Arc<AtomicBool>,
    always: bool,
    once: AtomicBool,
}

impl FaultyTransport {
    /// `inner` with the faults of `plan`, which begin when `armed` is set.
    pub fn new(inner: Arc<dyn Transport>, plan: &FaultPlan, armed: Arc<AtomicBool>) -> Self {
        FaultyTransport {
            inner,
            armed,
            always: plan.has(&Fault::CopyFail),
            once: AtomicBool::new(plan.has(&Fault::CopyFailOnce)),
        }
    }

    /// Fails if the plan says so; `bulk` is a transfer of records, as opposed to a look at a few words.
    fn may(&self, at: DeviceAddr, bytes: u64, bulk: bool) -> Result<(), TransportError> {
        if self.armed.load(Ordering::Relaxed)
            && (self.always || (bulk && self.once.swap(false, Ordering::Relaxed)))
        {
            let why = "injected fault".to_owned();
            return Err(MemoryError { what: "copy from the device", at, bytes, why }.into());
        }
        Ok(())
    }
}

impl Transport for FaultyTransport {
    fn add_block(&self, bytes: u64) -> Result<DeviceAddr, TransportError> {
        self.inner.add_block(bytes)
    }
    fn release(&self) {
        self.inner.release();
    }
    fn load_u32(&self, at: DeviceAddr) -> Result<u32, TransportError> {
        self.may(at, 4, false)?;
        self.inner.load_u32(at)
    }
    fn load_u64(&self, at: DeviceAddr) -> Result<u64, TransportError> {
        self.may(at, 8, false)?;
        self.inner.load_u64(at)
    }
    fn store_u32(&self, at: DeviceAddr, value: u32) -> Result<(), TransportError> {
        self.inner.store_u32(at, value)
    }
    fn store_u64(&self, at: DeviceAddr, value: u64) -> Result<(), TransportError> {
        self.inner.store_u64(at, value)
    }
    fn load_words(&self, at: DeviceAddr, into: &mut [u32]) -> Result<(), TransportError> {
        self.may(at, 4 * into.len() as u64, false)?;
        self.inner.load_words(at, into)
    }
    fn fetch(&self, at: DeviceAddr, into: &mut [u8]) -> Result<(), TransportError> {
        self.may(at, into.len() as u64, true)?;
        self.inner.fetch(at, into)
    }
    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.inner.zero(at, bytes)
    }
}

/// The step of the drain at which it stalls or dies.
const AT_STEP: u32 = 3;
/// Bytes of an artifact that still fit on a full disk.
const ROOM: u64 = 1000;

/// How the drain's thread sleeps: really, or in virtual time.
pub type Sleep = Box<dyn Fn(Duration) + Send + Sync>;

/// The plan's part in the host's workers and files.
pub struct HostFaults {
    stall: Option<Duration>,
    dead: bool,
    full: Option<String>,
    steps: AtomicU32,
    armed: Arc<AtomicBool>,
    sleep: Sleep,
}

impl HostFaults {
    /// The faults of `plan`, which begin when `armed` is set; a stall is slept by `sleep`.
    pub fn new(plan: &FaultPlan, armed: Arc<AtomicBool>, sleep: Sleep) -> Self {
        HostFaults {
            stall: plan.find(|fault| match fault {
                Fault::HostStall(time) => Some(*time),
                _ => None,
            }),
            dead: plan.has(&Fault::ConsumerDead),
            full: plan.find(|fault| match fault {
                Fault::Enospc(file) => Some(file.clone()),
                _ => None,
            }),
            steps: AtomicU32::new(0),
            armed,
            sleep,
        }
    }
}

impl TestPoints for HostFaults {
    fn hit(&self, point: &'static str) {
        if point != "service.step" || !self.armed.load(Ordering::Relaxed) {
            return;
        }
        if self.steps.fetch_add(1, Ordering::Relaxed) + 1 != AT_STEP {
            return;
        }
        if let Some(time) = self.stall {
            (self.sleep)(time);
        }
        assert!(!self.dead, "injected fault: consumer-dead");
    }

    fn disk_room(&self, file: &str) -> Option<u64> {
        (self.full.as_deref() == Some(file)).then_some(ROOM)
    }
}
