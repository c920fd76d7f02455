//! Faults of the host half: transfers that fail, a drain that stalls or dies, a disk that is full.

use super::{Fault, FaultPlan};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::layout::SWIMLANE_LANE;
use dfx_collector::abi::swimlane::BufferKind;
use dfx_host_drain::features::swimlane::SwimlaneRegion;
use dfx_host_drain::memory::MemoryError;
use dfx_host_drain::testpoint::TestPoints;
use dfx_host_drain::transport::{SpillError, Transport, TransportError};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a dry lane stays dry, from the host's first try to refill it.
const DRY: Duration = Duration::from_millis(20);

/// The time in nanoseconds, real or virtual.
pub type Now = Box<dyn Fn() -> u64 + Send + Sync>;

/// A core whose lanes get no empty buffers for a while (`DRY`): the host cannot read how many they have taken.
pub struct DryLane {
    core: Option<u32>,
    now: Now,
    /// The heads of the core's free queues, once the region is made.
    heads: OnceLock<[DeviceAddr; 2]>,
    since: OnceLock<u64>,
}

impl DryLane {
    /// The dry lane of `plan`, timed by `now`.
    pub fn new(plan: &FaultPlan, now: Now) -> Arc<Self> {
        let core = plan.find(|fault| match fault {
            Fault::DryLane(core) => Some(*core),
            _ => None,
        });
        Arc::new(DryLane { core, now, heads: OnceLock::new(), since: OnceLock::new() })
    }

    /// The session's region has been made with `cores` cores: from now on the lane is dry.
    pub fn aim(&self, region: &SwimlaneRegion, cores: u32) {
        if let Some(core) = self.core.filter(|&core| core < cores) {
            let head =
                |kind| region.base.offset((region.layout.pool(kind, core) + SWIMLANE_LANE.free_head) as u64);
            let _ = self.heads.set([head(BufferKind::AicoreTask), head(BufferKind::AicpuTask)]);
        }
    }

    fn withholds(&self, at: DeviceAddr) -> bool {
        self.heads.get().is_some_and(|heads| heads.contains(&at)) && {
            let now = (self.now)();
            u128::from(now - *self.since.get_or_init(|| now)) < DRY.as_nanos()
        }
    }
}

/// A transport whose reads fail by plan, once it is armed.
pub struct FaultyTransport {
    inner: Arc<dyn Transport>,
    dry: Arc<DryLane>,
    armed: Arc<AtomicBool>,
    always: bool,
    once: AtomicBool,
}

impl FaultyTransport {
    /// `inner` with the faults of `plan` and its `dry` lane, which begin when `armed` is set.
    pub fn new(
        inner: Arc<dyn Transport>,
        plan: &FaultPlan,
        armed: Arc<AtomicBool>,
        dry: Arc<DryLane>,
    ) -> Self {
        FaultyTransport {
            inner,
            dry,
            armed,
            always: plan.has(&Fault::CopyFail),
            once: AtomicBool::new(plan.has(&Fault::CopyFailOnce)),
        }
    }

    /// Fails if the plan says so; `bulk` is a transfer of records, as opposed to a look at a few words.
    fn may(&self, at: DeviceAddr, bytes: u64, bulk: bool) -> Result<(), TransportError> {
        if self.armed.load(Ordering::Relaxed)
            && (self.always || self.dry.withholds(at) || (bulk && self.once.swap(false, Ordering::Relaxed)))
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
    fn spill(
        &self,
        at: DeviceAddr,
        bytes: u64,
        block: &mut Vec<u8>,
        file: &File,
        place: u64,
    ) -> Result<(), SpillError> {
        self.may(at, bytes, true)?;
        self.inner.spill(at, bytes, block, file, place)
    }
    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.inner.zero(at, bytes)
    }
}

/// The step of the drain at which it stalls or dies.
const AT_STEP: u32 = 3;
/// Bytes of an artifact that still fit on a full disk.
pub(super) const ROOM: u64 = 1000;

/// How the drain's thread sleeps: really, or in virtual time.
pub type Sleep = Box<dyn Fn(Duration) + Send + Sync>;

/// The plan's part in the host's workers and files.
pub struct HostFaults {
    stall: Option<Duration>,
    dead: bool,
    plan: FaultPlan,
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
            plan: plan.clone(),
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
        self.plan.disk_room(file)
    }
}
