//! The args dump's producer: what tasks were called with, as 128-byte records, and the bytes of their tensors.
//!
//! [`ArgsDump`] is one value per launch or per process; its two big [`Tables`] are a static beside it. A payload is the
//! *logical* bytes of the view, row by row, whatever its strides: [`gather`](self) copies the longest runs that there
//! are. What a host must do is written at [`crate::abi::args_dump`].
//!
//! # Room, and what happens without it
//! A payload goes into its thread's arena, where nothing is overwritten before the host has saved it. A thread publishes
//! early, when 1 MiB or an eighth of the arena waits and a further buffer is at hand, so that the host can begin. A thread
//! that finds no room waits as long as the stall budget allows, but for all arguments of one task at one stage together
//! not longer than seven eighths of a single wait: to its peers the thread makes no progress meanwhile. Then it *sheds*:
//! the record stays and says so, the bytes are counted, and no other record waits for this host until it has moved.
//!
//! # What is not sent twice
//! If the host is ours and wants it, a tensor whose bytes are those that the same thread last dumped of it becomes a
//! reference: see [`FLAG_REFERENCE`](crate::abi::args_dump::FLAG_REFERENCE). Truncated and shed payloads are never named.
//!
//! # After a hang
//! What the running tasks' outputs hold is recorded like anything else, with the runtime's list; then
//! [`flush`](ArgsDump::flush).

mod arena;
mod dedup;
mod error;
mod gather;
mod marks;
mod record;
mod thread;

pub use error::InitError;
pub use marks::MAX_SCALARS;

use crate::abi::args_dump::{Info, Kind, Level, MAGIC, OPTION_DEDUP, Role, Stage};
use crate::abi::layout::ArgsDumpLayout;
use crate::abi::peer::Peer;
use crate::abi::tensor::ArgDirection;
use crate::abi::{DeviceAddr, Geometry, Platform};
use crate::clock::Clock;
use crate::lanes::{Ports, word};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use arena::Gate;
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Deref;
use marks::Marks;
use thread::{Around, Thread};

const FEATURE: &str = "args dump";
const MAX_THREADS: usize = Geometry::ANY_MAX_THREADS;

/// Marks, and what each thread has dumped last: about 3 MiB, all zero when new.
///
/// In an image it is a `static Tables = Tables::NEW`, which costs no bytes there; where there is a heap, zeroed memory of
/// this size is one (`Box::<Tables>::new_zeroed().assume_init()`).
pub struct Tables {
    marks: Marks,
    seen: [Seen; MAX_THREADS],
}

/// One thread's, on lines of its own.
#[repr(align(128))]
struct Seen(UnsafeCell<dedup::Table>);

impl Tables {
    /// Empty.
    #[allow(clippy::declare_interior_mutable_const)] // a template for a static
    pub const NEW: Tables =
        Tables { marks: Marks::NEW, seen: [const { Seen(UnsafeCell::new(dedup::Table::NEW)) }; MAX_THREADS] };
}

// SAFETY: a cell is reached only by its thread's recording functions, one call at a time, and by the init functions of
// the one dump that has the tables, whose callers let nothing else run; everything else is atomic.
unsafe impl Sync for Tables {}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

/// One thread's part, on lines of its own.
#[repr(align(128))]
struct Slot(UnsafeCell<Thread>);

/// The AICPU side of the args dump.
///
/// # Who may call what
/// [`record`](Self::record), [`flush`](Self::flush) and [`sync`](Self::sync) are `unsafe`: per thread number one call at a
/// time. None is under way while [`init`](Self::init), [`reset`](Self::reset) or [`set_enabled`](Self::set_enabled) runs.
/// Marks are set by one thread at a time (the orchestrator), and read by any, also meanwhile; a task's marks are seen by
/// whoever learnt of the task from the thread that set them.
///
/// Every function may be called at any time: what is disabled or not initialised is a no-op of a few instructions.
pub struct ArgsDump<C, T = &'static Tables> {
    /// Threads that record; 0 when none may: one test for both.
    open: AtomicU32,
    enabled: AtomicU32,
    /// Threads of the launch.
    threads: AtomicU32,
    /// The launch's [`Level`].
    level: AtomicU32,
    /// The header's word for lost marks; 0 without a region.
    lost_word: AtomicU64,
    region: UnsafeCell<(DeviceAddr, ArgsDumpLayout)>,
    slots: [Slot; MAX_THREADS],
    ports: Ports<C>,
    tables: T,
}

// SAFETY: the cells are reached only by their thread's recording functions, one call at a time, and by the init
// functions, whose callers let nothing else run; everything else is atomic.
unsafe impl<C: Sync, T: Sync> Sync for ArgsDump<C, T> {}
// SAFETY: the raw pointers inside name the region, which is not bound to a thread.
unsafe impl<C: Send, T: Send> Send for ArgsDump<C, T> {}

impl<C, T> fmt::Debug for ArgsDump<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgsDump").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl<C, T> ArgsDump<C, T> {
    /// A dump that records nothing until it is enabled and initialised. No other may have the same `tables`.
    pub const fn new(clock: C, tables: T) -> Self {
        ArgsDump {
            open: AtomicU32::new(0),
            enabled: AtomicU32::new(0),
            threads: AtomicU32::new(0),
            level: AtomicU32::new(Level::Off as u32),
            lost_word: AtomicU64::new(0),
            region: UnsafeCell::new((DeviceAddr::NULL, ArgsDumpLayout::of(Platform::A2a3, 0))),
            slots: [const { Slot(UnsafeCell::new(Thread::CLOSED)) }; MAX_THREADS],
            ports: Ports::new(clock),
            tables,
        }
    }

    /// What [`set_enabled`](Self::set_enabled) last said, region or not.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed) != 0
    }

    /// Whether arguments are recorded.
    #[inline(always)]
    pub fn recording(&self) -> bool {
        self.open() != 0
    }

    #[inline(always)]
    fn open(&self) -> u32 {
        // SAFETY: written while nothing is recorded; a plain load folds into the comparison.
        unsafe { self.open.as_ptr().read() }
    }

    /// The launch's level; off before [`init`](Self::init).
    pub fn level(&self) -> Level {
        Level::from_raw(self.level.load(Relaxed)).unwrap_or_default()
    }

    /// Whether only marked arguments are recorded.
    #[inline(always)]
    pub fn is_selective(&self) -> bool {
        self.level.load(Relaxed) == Level::Partial as u32
    }

    /// Whether marks matter at this level: partial and hybrid.
    #[inline(always)]
    pub fn should_load_task_masks(&self) -> bool {
        self.level.load(Relaxed) & 1 != 0
    }

    /// Calls with a thread out of range, since the last init.
    pub fn misused(&self) -> u32 {
        self.ports.misused()
    }

    fn regate(&self) {
        let on = self.enabled.load(Relaxed) != 0 && self.level.load(Relaxed) != Level::Off as u32;
        self.open.store(if on { self.threads.load(Relaxed) } else { 0 }, Relaxed);
    }

    /// Lets go of the region.
    ///
    /// # Safety
    /// No other function of this value is running.
    unsafe fn detach(&self) {
        self.threads.store(0, Relaxed);
        self.level.store(Level::Off as u32, Relaxed);
        self.lost_word.store(0, Relaxed);
        self.regate();
        for slot in &self.slots {
            // SAFETY: nothing else runs (the caller's contract).
            unsafe { *slot.0.get() = Thread::CLOSED };
        }
        // SAFETY: as above.
        unsafe { self.ports.detach() };
    }
}

impl<C, T: Deref<Target = Tables>> ArgsDump<C, T> {
    /// Turns the dump on or off, forgets all marks, and sets the level to off until the next [`init`](Self::init).
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn set_enabled(&self, enabled: bool) {
        self.enabled.store(u32::from(enabled), Relaxed);
        self.level.store(Level::Off as u32, Relaxed);
        self.tables.marks.clear();
        self.regate();
    }

    /// Disabled, without a region, without marks: nothing of an earlier launch survives.
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn reset(&self) {
        // SAFETY: passed on.
        unsafe {
            self.set_enabled(false);
            self.detach();
        }
    }

    /// Marks the arguments of `task` whose bits `mask` has; `flags` has those whose index is ambiguous. A mask of 0 is
    /// ignored, an earlier one of the task replaced. Without room the mark is counted, and none is overwritten.
    pub fn set_task_mask(&self, task: u64, mask: u64, flags: u64) {
        if !self.tables.marks.set_masks(task, mask, flags) {
            self.lost_mark();
        }
    }

    /// The mask and the flags of `task`, 0 when it has none.
    pub fn task_masks(&self, task: u64) -> (u64, u64) {
        self.tables.marks.masks(task)
    }

    /// Keeps the types of the scalars of `task`. None, or more than [`MAX_SCALARS`], are ignored.
    pub fn set_task_scalar_dtypes(&self, task: u64, dtypes: &[u8]) {
        if !self.tables.marks.set_dtypes(task, dtypes) {
            self.lost_mark();
        }
    }

    /// Copies the types of the scalars of `task`: how many there are, if they are known.
    pub fn task_scalar_dtypes(&self, task: u64, into: &mut [u8; MAX_SCALARS]) -> Option<usize> {
        self.tables.marks.dtypes(task, into)
    }

    /// Whether any argument of `task` is to be recorded.
    pub fn should_dump_task(&self, task: u64) -> bool {
        !self.is_selective() || self.task_masks(task).0 != 0
    }

    /// Whether argument `index` of `task` is to be recorded.
    pub fn should_dump_arg(&self, task: u64, index: i32) -> bool {
        !self.is_selective() || bit(self.task_masks(task).0, index)
    }

    /// Whether the index of argument `index` of `task` is ambiguous, at any level.
    pub fn has_arg_flag(&self, task: u64, index: i32) -> bool {
        bit(self.task_masks(task).1, index)
    }

    /// Marks, and scalars' types, for which there was no room since the dump was switched.
    pub fn lost_marks(&self) -> u32 {
        self.tables.marks.lost()
    }

    #[cold]
    fn lost_mark(&self) {
        let at = self.lost_word.load(Relaxed);
        if at != 0 {
            // SAFETY: `init`'s caller vouched for the region; the word is an atomic.
            unsafe { word::<AtomicU32>(DeviceAddr(at), 0) }.store(self.lost_marks(), Relaxed);
        }
    }
}

impl<C: Clock, T: Deref<Target = Tables>> ArgsDump<C, T> {
    /// Initialises for a launch of `threads` threads on the region at `base`: takes the level from its header, and a
    /// buffer per thread if one is there; it waits for none. State of an earlier launch is gone, but for what was
    /// [enabled](Self::set_enabled) and marked since. An arena goes on where the region says that it stands.
    ///
    /// `launch_start` is the counter when the launch began, if the runtime knows it; otherwise the clock is read once.
    ///
    /// # Errors
    /// [`InitError`]; nothing is recorded then.
    ///
    /// # Safety
    /// `base` is 0 or memory as large as the header of `geometry`'s args dump; if [`MAGIC`] is in it, it is such a region,
    /// mapped at that address for the whole launch, with its buffers and arenas. No other function of this value is
    /// running.
    pub unsafe fn init(
        &self,
        geometry: &Geometry,
        base: DeviceAddr,
        threads: u32,
        launch_start: Option<u64>,
    ) -> Result<(), InitError> {
        let layout = ArgsDumpLayout::of(geometry.platform, threads);
        // SAFETY: nothing else runs, and the region is as the layout says (the caller's contract).
        unsafe {
            self.detach();
            for seen in &self.tables.seen {
                (*seen.0.get()).clear();
            }
            if base.is_null() {
                return Err(InitError::NoRegion);
            }
            let load = |offset| word::<AtomicU32>(base, offset).load(Relaxed);
            let found = load(layout.magic);
            if found != MAGIC {
                return Err(InitError::Magic { found });
            }
            let limit = load(layout.num_threads).min(geometry.max_threads).min(MAX_THREADS as u32);
            if threads == 0 || threads > limit {
                return Err(InitError::Threads { wanted: threads, limit });
            }
            let found = load(layout.level);
            let Some(level) = Level::from_raw(found) else { return Err(InitError::Level { found }) };
            self.ports
                .attach(FEATURE, geometry, base, &layout.queue, layout.stall_budget, launch_start)
                .map_err(|_| InitError::NoRegion)?;
            let ours = Peer::host(load(layout.queue.peer)).is_ours();
            let dedup = load(layout.options) & OPTION_DEDUP != 0;
            for (thread, slot) in (0..threads).zip(&self.slots) {
                let state = base.offset(layout.lane(thread) as u64);
                *slot.0.get() = Thread::open(state, thread, ours, dedup, level != Level::Hybrid);
            }
            *self.region.get() = (base, layout);
            self.level.store(level as u32, Relaxed);
            if ours {
                self.lost_word.store(base.offset(layout.lost_marks as u64).0, Relaxed);
                self.lost_mark();
            }
        }
        self.threads.store(threads, Relaxed);
        self.regate();
        Ok(())
    }

    /// Records one argument; `false` when it is not recorded, which is counted unless the dump is off.
    ///
    /// # Safety
    /// Called by `thread`. If `info` is a tensor that brings its payload (at level 3: if it says so), its view may be read.
    #[inline]
    pub unsafe fn record(&self, thread: u32, info: &Info) -> bool {
        // SAFETY: passed on.
        unsafe { self.record_status(thread, info) == 0 }
    }

    /// [`record`](Self::record) with the answer of the C symbol: 0, or -1 when it was not recorded.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn record_status(&self, thread: u32, info: &Info) -> i32 {
        let open = self.open();
        if open == 0 {
            return -1;
        }
        if thread >= open {
            return Self::refuse(self);
        }
        // SAFETY: no more threads are open than there are slots; one caller per thread number.
        unsafe {
            let slot = self.slots.get_unchecked(thread as usize).0.get();
            if (*slot).wants(info) {
                return Self::payload(thread, info, slot, self);
            }
            match (*slot).plain(info) {
                Some(false) => 0,
                Some(true) => Self::close(thread, slot, self),
                None => Self::plain_cold(thread, info, slot, self),
            }
        }
    }

    /// # Safety
    /// Open, and called by `thread`, whose slot it is.
    unsafe fn around(&self, thread: u32) -> Around<'_, C> {
        // SAFETY: written while nothing else runs.
        let (base, layout) = unsafe { &*self.region.get() };
        // SAFETY: no more threads are open than there are tables.
        let seen = unsafe { &self.tables.seen.get_unchecked(thread as usize).0 };
        // SAFETY: `init`'s caller vouched for the region.
        let gate = unsafe { Gate::new(*base, layout.queue.backpressure) };
        Around { ports: &self.ports, thread, gate, seen }
    }

    #[cold]
    #[inline(never)]
    fn refuse(this: &Self) -> i32 {
        this.ports.misuse();
        -1
    }

    #[inline(never)]
    unsafe fn payload(thread: u32, info: &Info, slot: *mut Thread, this: &Self) -> i32 {
        // SAFETY: `record`'s contract.
        status(unsafe { (*slot).payload(&this.around(thread), info) })
    }

    #[inline(never)]
    unsafe fn plain_cold(thread: u32, info: &Info, slot: *mut Thread, this: &Self) -> i32 {
        // SAFETY: `record`'s contract.
        status(unsafe { (*slot).plain_cold(&this.around(thread), info) })
    }

    #[cold]
    #[inline(never)]
    unsafe fn close(thread: u32, slot: *mut Thread, this: &Self) -> i32 {
        // SAFETY: `record`'s contract.
        unsafe { (*slot).close(&this.around(thread)) };
        0
    }

    /// Publishes what the lane of `thread` holds. What cannot be published stays where the host finds it.
    ///
    /// # Safety
    /// Called by `thread`.
    pub unsafe fn flush(&self, thread: u32) {
        if let Some(slot) = self.known(thread) {
            // SAFETY: open, and one caller per thread number.
            unsafe { (*slot.0.get()).publish(&self.around(thread)) }
        }
    }

    /// Makes the totals of `thread` visible without publishing its buffer: for every abnormal exit, so that the host
    /// recovers exactly what there is.
    ///
    /// # Safety
    /// Called by `thread`.
    pub unsafe fn sync(&self, thread: u32) {
        if let Some(slot) = self.known(thread) {
            // SAFETY: open, and one caller per thread number.
            unsafe { (*slot.0.get()).sync() }
        }
    }

    /// The slot of one of the launch's threads.
    fn known(&self, thread: u32) -> Option<&Slot> {
        let threads = self.threads.load(Relaxed);
        if thread < threads {
            return self.slots.get(thread as usize);
        }
        if threads != 0 {
            self.ports.misuse();
        }
        None
    }
}

fn status(recorded: bool) -> i32 {
    if recorded { 0 } else { -1 }
}

fn bit(mask: u64, index: i32) -> bool {
    (0..64).contains(&index) && mask >> index & 1 != 0
}

/// The role of an argument of `direction`; a scalar has none.
pub const fn role_of(direction: ArgDirection) -> Option<Role> {
    Some(match direction {
        ArgDirection::In => Role::Input,
        ArgDirection::Out => Role::Output,
        ArgDirection::Inout => Role::Inout,
        ArgDirection::Scalar => return None,
    })
}

/// Whether an argument of `role` is recorded at `stage`: what is read before, what is written after.
pub const fn is_dumped_at(role: Role, stage: Stage) -> bool {
    matches!(
        (role, stage),
        (Role::Input, Stage::BeforeDispatch) | (Role::Output, Stage::AfterCompletion) | (Role::Inout, _)
    )
}
