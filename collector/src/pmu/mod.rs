//! The PMU's producers: each core's hardware counters, task by task.
//!
//! [`Pmu`] is the AICPU side, one value per launch or per process; [`PmuRecorder`] is the AICore side.
//!
//! | platform | the core | AICPU, when it sees the finish |
//! |---|---|---|
//! | a2a3 | opens and shuts its counters: [`PmuRecorder::begin`], [`PmuRecorder::end`] | reads 8 counters: [`Pmu::record_task`] |
//! | a5 | the same, and leaves 10 counters in its ring: [`PmuRecorder::record`] | takes them over if they are that task's: [`Pmu::complete_record`] |
//!
//! *produced = recorded + dropped + mismatched*, per core: a task whose counters are not there is counted, and never
//! given another's.

mod aicore;
mod registers;
mod ring;

pub use crate::lanes::InitError;
pub use aicore::PmuRecorder;
pub use registers::{Mmio, RegisterFile};

use crate::abi::layout::{BufferLayout, PMU_LANE_A2A3, PMU_LANE_A5, PmuLayout};
use crate::abi::pmu::{COUNTERS_A2A3, EventType, RecordA2a3, RecordA5, SLOTS, counters};
use crate::abi::registers::Registers;
use crate::abi::{DeviceAddr, Geometry, Platform};
use crate::clock::Clock;
use crate::lanes::{BufferLane, Ports, StateMem, word};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::cell::UnsafeCell;
use core::fmt;
use registers::{Saved, counter_offsets, program, restore, total_cycles};
use ring::Ring;

const FEATURE: &str = "PMU";
const MAX_CORES: usize = Geometry::ANY_MAX_CORES;
const COUNTERS: [u32; COUNTERS_A2A3] = counter_offsets(&Registers::A2A3);

/// The buffers of both platforms: their records differ in the counters, not in their size.
const BUFFER: BufferLayout = BufferLayout::pmu(Platform::A5);
const _: () = {
    let (a2a3, a5) = (BufferLayout::pmu(Platform::A2a3), BUFFER);
    assert!(a2a3.bytes == a5.bytes && a2a3.count == a5.count && a2a3.records == a5.records);
    assert!(a2a3.record_bytes == a5.record_bytes && a2a3.capacity == a5.capacity);
};

type PmuLane = BufferLane<RecordA5, SLOTS>;

/// One core, as AICPU sees it. 128 bytes apart, so that cores of different threads share no cache line.
#[repr(align(128))]
struct CoreState<R> {
    lane: PmuLane,
    registers: Option<R>,
    /// What to put back; `None` when nothing was programmed.
    saved: Option<Saved>,
    ring: Ring,
    mismatched: u32,
}

impl<R> CoreState<R> {
    const IDLE: Self = CoreState {
        lane: BufferLane::closed(&PMU_LANE_A5, &BUFFER),
        registers: None,
        saved: None,
        ring: Ring::NONE,
        mismatched: 0,
    };
}

/// The AICPU side of the PMU. `R` are a core's registers.
///
/// # Who may call what
/// The recording functions are `unsafe`: per core number and per thread number, at most one call is under way at a
/// time (each core belongs to one scheduler thread, each thread number to one thread), and none while
/// [`init`](Self::init) or [`reset`](Self::reset) runs. That is the runtime's own structure.
///
/// Every function may be called at any time: what is out of range or not initialised is a no-op of a few instructions.
/// There is no switch besides init: a runtime calls only when it is on.
pub struct Pmu<C, R> {
    /// Cores whose counters AICPU reads: 0 but on a2a3. One range check tests platform, range and init.
    read_cores: AtomicU32,
    /// Cores that leave their counters in rings: 0 but on a5.
    ring_cores: AtomicU32,
    event: AtomicU32,
    platform: UnsafeCell<Platform>,
    cores: [UnsafeCell<CoreState<R>>; MAX_CORES],
    ports: Ports<C>,
}

// SAFETY: the cells are reached only by the recording functions, whose callers keep each core's and each thread's calls
// apart, and by the init functions, whose callers let nothing else run; everything else is atomic. A core's registers
// are used by one thread at a time.
unsafe impl<C: Sync, R: Send> Sync for Pmu<C, R> {}
// SAFETY: the raw pointers inside name the region, which is not bound to a thread.
unsafe impl<C: Send, R: Send> Send for Pmu<C, R> {}

impl<C, R> fmt::Debug for Pmu<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmu").field("cores", &self.open()).finish_non_exhaustive()
    }
}

impl<C, R> Pmu<C, R> {
    /// A collector that records nothing until [`init`](Self::init).
    pub const fn new(clock: C) -> Self {
        Pmu {
            read_cores: AtomicU32::new(0),
            ring_cores: AtomicU32::new(0),
            event: AtomicU32::new(0),
            platform: UnsafeCell::new(Platform::A2a3),
            cores: [const { UnsafeCell::new(CoreState::IDLE) }; MAX_CORES],
            ports: Ports::new(clock),
        }
    }

    /// Cores that are recorded: 0 before init.
    fn open(&self) -> u32 {
        self.read_cores.load(Relaxed).max(self.ring_cores.load(Relaxed))
    }

    /// Whether tasks are recorded.
    pub fn recording(&self) -> bool {
        self.open() != 0
    }

    /// What the counters count since the last init.
    pub fn event(&self) -> Option<EventType> {
        EventType::from_raw(self.event.load(Relaxed))
    }

    /// Calls with a core or thread number out of range since the last init.
    pub fn misused(&self) -> u32 {
        self.ports.misused()
    }

    /// Turns everything off: nothing of an earlier launch survives. Registers are not touched: see
    /// [`finalize`](Self::finalize).
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn reset(&self) {
        for word in [&self.read_cores, &self.ring_cores, &self.event] {
            word.store(0, Relaxed);
        }
        for core in &self.cores {
            // SAFETY: nothing else runs (the caller's contract).
            unsafe { *core.get() = CoreState::IDLE };
        }
        // SAFETY: as above.
        unsafe { self.ports.detach() };
    }

    /// What a gate lets through: how many cores.
    #[inline(always)]
    fn gate(gate: &AtomicU32) -> u32 {
        // SAFETY: written by the init functions only, while nothing else runs; a plain load folds into the comparison.
        unsafe { gate.as_ptr().read() }
    }

    /// The state of `core`.
    ///
    /// # Safety
    /// `core` is below the table's size.
    #[inline(always)]
    unsafe fn core(&self, core: u32) -> *mut CoreState<R> {
        // SAFETY: in range (the caller's contract).
        unsafe { self.cores.get_unchecked(core as usize) }.get()
    }

    /// Counts a core that this launch does not have, if it has `cores`.
    #[inline(always)]
    fn no_core(&self, cores: u32) {
        if cores != 0 {
            self.ports.misuse();
        }
    }
}

impl<C: Clock, R: RegisterFile> Pmu<C, R> {
    /// Initialises for a launch on the region at `base`: reads the event type (an unknown one is `PIPE_UTILIZATION`),
    /// opens the lanes of cores `0..cores`, and of each core for which `registers` gives some, selects the events, clears
    /// the counters and turns them on. Takes buffers that are there, waits for none. State of an earlier launch is gone.
    ///
    /// A core without registers counts its tasks as dropped on a2a3; on a5 it may still count by itself.
    ///
    /// `launch_start` is the counter when the launch began, if the runtime knows it; otherwise the clock is read once.
    ///
    /// # Errors
    /// [`InitError`]; nothing is recorded then.
    ///
    /// # Safety
    /// `base` is 0 or a PMU region made for `geometry`, mapped at that address for the whole launch, whose free queues
    /// hold PMU buffers and which, on a5, names the cores' rings. No other function of this value is running, and no core
    /// runs a task.
    pub unsafe fn init(
        &self,
        geometry: &Geometry,
        base: DeviceAddr,
        cores: u32,
        mut registers: impl FnMut(u32) -> Option<R>,
        launch_start: Option<u64>,
    ) -> Result<(), InitError> {
        // SAFETY: nothing else runs (the caller's contract).
        unsafe { self.reset() };
        if base.is_null() {
            return Err(InitError::NoRegion { feature: FEATURE });
        }
        let layout = PmuLayout::of(geometry.platform, 0);
        // SAFETY: the header of `geometry`'s region lies at `base` (the caller's contract).
        let (made_for, event) = unsafe {
            (
                word::<AtomicU32>(base, layout.num_cores).load(Relaxed),
                word::<AtomicU32>(base, layout.event_type).load(Relaxed),
            )
        };
        let limit = made_for.min(geometry.max_cores);
        if cores > limit {
            return Err(InitError::Cores { feature: FEATURE, wanted: cores, limit });
        }
        let event = EventType::from_raw(event).unwrap_or_default();
        // SAFETY: as above; nothing else runs.
        unsafe {
            self.ports.attach(FEATURE, geometry, base, &layout.queue, layout.stall_budget, launch_start)?;
            *self.platform.get() = geometry.platform;
        }
        let lane = match geometry.platform {
            Platform::A2a3 => &PMU_LANE_A2A3,
            Platform::A5 => &PMU_LANE_A5,
        };
        for core in 0..cores {
            // SAFETY: the state lies in the region, its buffers are as the layout says, and a ring that it names is one;
            // nothing else runs.
            unsafe {
                let state = &mut *self.core(core);
                let at = base.offset(layout.lane(core) as u64);
                state.lane = BufferLane::open(StateMem::new(at, lane, &BUFFER), core);
                if let Some(offset) = layout.ring_ptr {
                    state.ring = Ring::new(DeviceAddr(word::<AtomicU64>(at, offset).load(Relaxed)));
                    state.ring.clear();
                }
                state.registers = registers(core);
                let events = counters(geometry.platform, event).iter().map(|counter| counter.event_id);
                let table = Registers::of(geometry.platform);
                state.saved = state.registers.as_ref().map(|core| program(core, table, events));
            }
        }
        self.event.store(event as u32, Relaxed);
        match geometry.platform {
            Platform::A2a3 => self.read_cores.store(cores, Relaxed),
            Platform::A5 => self.ring_cores.store(cores, Relaxed),
        }
        Ok(())
    }

    /// Records the task that has just finished on `core`, by reading the core's counters (a2a3). `core_type` is a
    /// [`CoreType`](crate::abi::task::CoreType).
    ///
    /// # Safety
    /// One caller per core and per thread at a time (see the type).
    #[inline]
    pub unsafe fn record_task(&self, core: u32, thread: u32, task_id: u64, func_id: u32, core_type: i32) {
        let cores = Self::gate(&self.read_cores);
        if cores == 0 {
            return;
        }
        if core >= cores {
            return self.ports.misuse();
        }
        // SAFETY: what is open is in range, the caller is the core's only one, and the slot is the lane's.
        unsafe {
            let state = self.core(core);
            let row = (*state).lane.next().cast::<RecordA2a3>();
            let Some(registers) = &(*state).registers else { return Self::no_counters(state) };
            if row.is_null() {
                return Self::task_first(core, thread, task_id, func_id, core_type, self);
            }
            (&raw mut (*row).task_id).write(task_id);
            (&raw mut (*row).func_id).write(func_id);
            (&raw mut (*row).core_type).write(core_type);
            for (i, &offset) in COUNTERS.iter().enumerate() {
                (&raw mut (*row).pmu_counters[i]).write(registers.read(offset));
            }
            let cycles = total_cycles(registers, Registers::A2A3.pmu_total);
            (&raw mut (*row).pmu_total_cycles).write(cycles);
            if (*state).lane.advance(row.cast(), 1) {
                Self::close(state, thread, self);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn task_first(core: u32, thread: u32, task_id: u64, func_id: u32, core_type: i32, this: &Self) {
        // SAFETY: open and in range, and the caller is the core's only one.
        unsafe {
            if Self::reopen(this.core(core), thread, this) {
                this.record_task(core, thread, task_id, func_id, core_type);
            }
        }
    }

    /// Records the task that has just finished on `core` with `token`, if its counters are what the core left in its ring
    /// (a5). `core_type` is a [`CoreType`](crate::abi::task::CoreType).
    ///
    /// # Safety
    /// One caller per core and per thread at a time (see the type).
    #[inline]
    pub unsafe fn complete_record(
        &self,
        core: u32,
        thread: u32,
        token: u32,
        task_id: u64,
        func_id: u32,
        core_type: i32,
    ) {
        let cores = Self::gate(&self.ring_cores);
        if cores == 0 {
            return;
        }
        if core >= cores {
            return self.ports.misuse();
        }
        // SAFETY: what is open is in range, and the caller is the core's only one.
        unsafe { Self::take_over(self.core(core), [thread, token], task_id, func_id, core_type, self) }
    }

    /// [`complete_record`](Self::complete_record) for the core of `state`. Nothing behind it needs the core's number: what
    /// fits into the registers that a callee may use needs no saving when there is nothing to record.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn take_over(
        state: *mut CoreState<R>,
        [thread, token]: [u32; 2],
        task_id: u64,
        func_id: u32,
        core_type: i32,
        this: &Self,
    ) {
        // SAFETY: the state is this caller's alone, and the slot is the lane's.
        unsafe {
            let row = (*state).lane.next();
            if row.is_null() {
                return Self::complete_first(state, [thread, token], task_id, func_id, core_type, this);
            }
            if (*state).ring.is_none() {
                return Self::no_counters(state);
            }
            (&raw mut (*row).task_id).write(task_id);
            (&raw mut (*row).func_id).write(func_id);
            (&raw mut (*row).core_type).write(core_type);
            if !(*state).ring.copy(token, row) {
                return Self::mismatch(state);
            }
            if (*state).lane.advance(row, 1) {
                Self::close(state, thread, this);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn complete_first(
        state: *mut CoreState<R>,
        [thread, token]: [u32; 2],
        task_id: u64,
        func_id: u32,
        core_type: i32,
        this: &Self,
    ) {
        // SAFETY: the state is this caller's alone.
        unsafe {
            let ring = (*state).ring;
            if ring.is_none() {
                Self::no_counters(state);
            } else if !ring.holds(token) {
                Self::mismatch(state);
            } else if Self::reopen(state, thread, this) {
                Self::take_over(state, [thread, token], task_id, func_id, core_type, this);
            }
        }
    }

    /// Finds a buffer for a core that has none. `false`: the record is dropped.
    unsafe fn reopen(state: *mut CoreState<R>, thread: u32, this: &Self) -> bool {
        // SAFETY: the state is this caller's alone.
        unsafe {
            let lane = &mut (*state).lane;
            let found = lane.room(1, this.ports.port(thread)) > 0;
            if !found {
                lane.lose(1);
            }
            found
        }
    }

    /// Counts a task whose counters nobody can read.
    #[cold]
    #[inline(never)]
    unsafe fn no_counters(state: *mut CoreState<R>) {
        // SAFETY: the state is this caller's alone.
        unsafe { (*state).lane.lose(1) }
    }

    /// Counts a task whose counters were not in the ring.
    #[cold]
    #[inline(never)]
    unsafe fn mismatch(state: *mut CoreState<R>) {
        // SAFETY: the state is this caller's alone.
        unsafe {
            let state = &mut *state;
            state.mismatched = state.mismatched.wrapping_add(1);
            if let Some(offset) = PmuLayout::of(Platform::A5, 0).mismatched {
                state.lane.mem().u32_at(offset).store(state.mismatched, Relaxed);
            }
            state.lane.beside(1);
            state.lane.sync();
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn close(state: *mut CoreState<R>, thread: u32, this: &Self) {
        // SAFETY: the state is this caller's alone.
        unsafe { (*state).lane.close(this.ports.port(thread)) }
    }

    /// Publishes what the lanes of `cores` hold. What cannot be published stays where the host finds it.
    ///
    /// # Safety
    /// Called by `thread`, whose cores these are.
    pub unsafe fn flush(&self, thread: u32, cores: &[u32]) {
        for &core in cores {
            if core < self.open() {
                // SAFETY: in range, open, and the caller is the core's only one.
                unsafe { (*self.core(core)).lane.flush(self.ports.port(thread)) }
            } else {
                self.no_core(self.open());
            }
        }
    }

    /// Makes the totals of `cores` visible without publishing buffers: for every abnormal exit, so that the host recovers
    /// exactly what there is.
    ///
    /// # Safety
    /// Called by the thread whose cores these are.
    pub unsafe fn sync(&self, cores: &[u32]) {
        for &core in cores {
            if core < self.open() {
                // SAFETY: in range, open, and the caller is the core's only one.
                unsafe { (*self.core(core)).lane.sync() }
            }
        }
    }

    /// Puts the control registers of `cores` back to what [`init`](Self::init) found in them. Recording may go on, but
    /// counts nothing.
    ///
    /// # Safety
    /// Called by the thread whose cores these are; their registers are still mapped.
    pub unsafe fn finalize(&self, cores: &[u32]) {
        for &core in cores {
            if core >= self.open() {
                self.no_core(self.open());
                continue;
            }
            // SAFETY: in range, open, and the caller is the core's only one; `platform` is written by `init` only.
            unsafe {
                let state = &mut *self.core(core);
                if let (Some(registers), Some(saved)) = (&state.registers, state.saved.take()) {
                    restore(registers, Registers::of(*self.platform.get()), saved);
                }
            }
        }
    }
}
