//! The scope stats' producer: how full the task window, the heap, the dependency pool and the tensor map were when each
//! scope of the orchestrator began and ended.
//!
//! [`ScopeStats`] is one value per launch or per process. A scope's site is captured once, when it is set, so that
//! neither end of the scope looks at the string again.
//!
//! # Depth
//! The runtime nests up to 64 scopes. Deeper ones are recorded like all others, with their own depth, and counted in
//! `deep_scope_count`; their sites are kept down to a depth of 128, beyond which an end says `(unknown)`. Each end
//! belongs to the latest begin that has none, at any depth.
//!
//! # The heap's offsets
//! A ring's heap pointers wrap at its capacity. The runtime reports each wrap ([`ScopeStats::note_heap_wrap`]), so a
//! sample's offsets are bytes that only grow: pointer + wraps × capacity.

mod site;

pub use crate::lanes::InitError;

use crate::abi::layout::{BufferLayout, SCOPE_STATS_LANE, ScopeStatsLayout};
use crate::abi::scope_stats::{HeapSide, MAX_DEPTH, Phase, RINGS, Record, SLOTS};
use crate::abi::{DeviceAddr, Geometry};
use crate::clock::Clock;
use crate::fence;
use crate::lanes::{BufferLane, NO_THREAD, Ports, StateMem, word};
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::cell::UnsafeCell;
use core::fmt;
use site::Site;

const FEATURE: &str = "scope stats";
const BUFFER: BufferLayout = BufferLayout::scope_stats();
/// Scopes whose site and ring are remembered: twice what the runtime nests.
const STACK: usize = 2 * MAX_DEPTH;
/// No scope is open.
const NO_RING: i32 = -1;

type SampleLane = BufferLane<Record, SLOTS>;

const CLOSED: SampleLane = BufferLane::closed(&SCOPE_STATS_LANE, &BUFFER);

/// The resources at one end of a scope, as the runtime reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// The scope's ring.
    pub ring: i32,
    /// First task of the window.
    pub task_start: i32,
    /// One past its last.
    pub task_end: i32,
    /// The heap's reclaim pointer, in bytes from the heap's start.
    pub heap_start: u64,
    /// The heap's allocation pointer, in bytes from the heap's start.
    pub heap_end: u64,
    /// First entry in use of the dependency pool.
    pub dep_start: i32,
    /// One past its last.
    pub dep_end: i32,
    /// Tensor-map entries in use.
    pub tensormap: i32,
}

/// What is remembered of an open scope.
#[derive(Clone, Copy)]
struct Frame {
    site: Site,
    ring: i32,
}

impl Frame {
    const UNKNOWN: Frame = Frame { site: Site::UNKNOWN, ring: NO_RING };
}

struct State {
    lane: SampleLane,
    /// Of the innermost open scope; −1 when there is none.
    depth: i32,
    /// Scopes begun at a depth of [`MAX_DEPTH`] and more.
    deep: u32,
    heap_cap: [u64; RINGS],
    /// The site of the next scope, when it was set while nothing was recorded: not looked at yet.
    raw: Option<(*const u8, i32)>,
    /// The site of the next scope otherwise.
    pending: Site,
    stack: [Frame; STACK],
    /// Stands in for the frames beyond the stack.
    beyond: Frame,
}

impl State {
    const IDLE: State = State {
        lane: CLOSED,
        depth: -1,
        deep: 0,
        heap_cap: [0; RINGS],
        raw: None,
        pending: Site::UNKNOWN,
        stack: [Frame::UNKNOWN; STACK],
        beyond: Frame::UNKNOWN,
    };
}

/// The AICPU side of the scope stats.
///
/// # Who may call what
/// The `unsafe` functions belong to the orchestrator thread, one call at a time, and none is under way while
/// [`init`](Self::init) or [`reset`](Self::reset) runs. [`note_heap_wrap`](Self::note_heap_wrap) may come from any
/// thread. That is the runtime's own structure.
///
/// Every function may be called at any time: what is disabled or not initialised is a no-op of a few instructions.
pub struct ScopeStats<C> {
    /// 1 when samples are recorded, that is, enabled and initialised: one test for both.
    open: AtomicU32,
    enabled: AtomicU32,
    ready: AtomicU32,
    orch_thread: AtomicU32,
    /// The innermost open scope's ring, for [`note_heap_wrap`](Self::note_heap_wrap).
    ring: AtomicI32,
    /// Wraps of each ring's heap, by [`HeapSide`].
    wraps: [[AtomicU64; RINGS]; 2],
    state: UnsafeCell<State>,
    region: UnsafeCell<(DeviceAddr, ScopeStatsLayout)>,
    ports: Ports<C>,
}

// SAFETY: the cells are reached only by the orchestrator's functions, one call at a time, and by the init functions,
// whose callers let nothing else run; everything else is atomic.
unsafe impl<C: Sync> Sync for ScopeStats<C> {}
// SAFETY: the raw pointers inside name the region and a string, neither of which is bound to a thread.
unsafe impl<C: Send> Send for ScopeStats<C> {}

impl<C> fmt::Debug for ScopeStats<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeStats").field("recording", &self.recording()).finish_non_exhaustive()
    }
}

impl<C> ScopeStats<C> {
    /// A collector that records nothing until it is enabled and initialised.
    pub const fn new(clock: C) -> Self {
        ScopeStats {
            open: AtomicU32::new(0),
            enabled: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            orch_thread: AtomicU32::new(NO_THREAD),
            ring: AtomicI32::new(NO_RING),
            wraps: [const { [const { AtomicU64::new(0) }; RINGS] }; 2],
            state: UnsafeCell::new(State::IDLE),
            region: UnsafeCell::new((
                DeviceAddr::NULL,
                ScopeStatsLayout::of(crate::abi::Platform::A2a3),
            )),
            ports: Ports::new(clock),
        }
    }

    /// Turns recording on or off. It takes effect at once if the region is there, or with the next
    /// [`init`](Self::init); only [`reset`](Self::reset) clears it.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(u32::from(enabled), Relaxed);
        self.regate();
    }

    /// What [`set_enabled`](Self::set_enabled) last said, region or not.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed) != 0
    }

    /// Whether samples are recorded.
    #[inline(always)]
    pub fn recording(&self) -> bool {
        // SAFETY: written while nothing is recorded; a plain load folds into the comparison.
        unsafe { self.open.as_ptr().read() != 0 }
    }

    /// Names the AICPU thread that orchestrates; its ready queue carries the buffers. Without one, records stay in the
    /// active buffer, where the host recovers them, and what does not fit there is dropped and counted, one by one.
    ///
    /// May come before [`init`](Self::init); what was named during a launch ends with it.
    pub fn set_orch_thread(&self, thread: u32) {
        self.orch_thread.store(thread, Relaxed);
    }

    /// Ends without a begin, and publications for which there was no orchestrator thread, since the last init.
    pub fn misused(&self) -> u32 {
        self.ports.misused()
    }

    fn regate(&self) {
        self.open.store(self.enabled.load(Relaxed) & self.ready.load(Relaxed), Relaxed);
    }

    /// Lets go of the region, forgets open scopes, wraps, the pending site and the orchestrator thread, and is disabled:
    /// nothing of an earlier launch survives.
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn reset(&self) {
        self.enabled.store(0, Relaxed);
        // SAFETY: passed on.
        unsafe { self.detach() }
    }

    /// # Safety
    /// No other function of this value is running.
    unsafe fn detach(&self) {
        self.ready.store(0, Relaxed);
        self.regate();
        self.orch_thread.store(NO_THREAD, Relaxed);
        self.ring.store(NO_RING, Relaxed);
        for wraps in self.wraps.as_flattened() {
            wraps.store(0, Relaxed);
        }
        // SAFETY: nothing else runs (the caller's contract).
        unsafe {
            self.ports.detach();
            *self.state.get() = State::IDLE;
        }
    }

    /// How deep the innermost open scope is nested, from 0; −1 when there is none.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn depth(&self) -> i32 {
        // SAFETY: only the orchestrator comes here.
        unsafe { (*self.state.get()).depth }
    }

    /// Says where the next scope stands. A null `file` is unknown.
    ///
    /// # Safety
    /// Called by the orchestrator thread. `file` is null or points to a NUL-terminated string, which lives until this
    /// returns, or, if nothing [is recorded](Self::recording) now, until the next [`begin`](Self::begin).
    #[inline]
    pub unsafe fn set_pending_site(&self, file: *const u8, line: i32) {
        let recording = self.recording();
        // SAFETY: only the orchestrator comes here; the string lives (the caller's contract).
        unsafe {
            let state = self.state.get();
            (*state).raw = Some((file, line));
            if recording {
                Self::capture(self);
            }
        }
    }

    #[inline(never)]
    unsafe fn capture(this: &Self) {
        // SAFETY: only the orchestrator comes here, and the string still lives.
        unsafe {
            let state = this.state.get();
            if let Some((file, line)) = (*state).raw.take() {
                (*state).pending = Site::of(file, line);
            }
        }
    }

    /// Counts a wrap of the current scope's heap. `side` is a [`HeapSide`]; anything else, a scope on no ring, or none,
    /// counts nothing. May come from any thread.
    #[inline]
    pub fn note_heap_wrap(&self, side: i32) {
        if !self.recording() {
            return;
        }
        let ring = self.ring.load(Relaxed);
        if let (Some(side), Ok(ring)) = (HeapSide::from_raw(side), usize::try_from(ring))
            && let Some(wraps) = self.wraps[side as usize].get(ring)
        {
            wraps.fetch_add(1, Relaxed);
        }
    }
}

impl<C: Clock> ScopeStats<C> {
    /// Initialises for a launch on the region at `base`: takes a buffer if one is there, waits for none. State of an
    /// earlier launch is gone, but for what was [enabled](Self::set_enabled) and, after a [`reset`](Self::reset), for
    /// the orchestrator thread named since.
    ///
    /// `launch_start` is the counter when the launch began, if the runtime knows it; otherwise the clock is read once.
    ///
    /// # Errors
    /// [`InitError::NoRegion`]; nothing is recorded then.
    ///
    /// # Safety
    /// `base` is 0 or a scope-stats region made for `geometry`, mapped at that address for the whole launch, whose free
    /// queue holds scope-stats buffers. No other function of this value is running.
    pub unsafe fn init(
        &self,
        geometry: &Geometry,
        base: DeviceAddr,
        launch_start: Option<u64>,
    ) -> Result<(), InitError> {
        let named = if self.ready.load(Relaxed) != 0 { NO_THREAD } else { self.orch_thread.load(Relaxed) };
        let layout = ScopeStatsLayout::of(geometry.platform);
        // SAFETY: nothing else runs, and the region is as the layout says (the caller's contract).
        unsafe {
            self.detach();
            self.orch_thread.store(named, Relaxed);
            self.ports.attach(
                FEATURE,
                geometry,
                base,
                &layout.queue,
                layout.stall_budget(),
                launch_start,
            )?;
            let lane = base.offset(layout.lane() as u64);
            let state = &mut *self.state.get();
            state.lane = BufferLane::open(StateMem::new(lane, &SCOPE_STATS_LANE, &BUFFER), 0);
            for (ring, cap) in state.heap_cap.iter_mut().enumerate() {
                *cap = word::<AtomicU64>(base, layout.heap_cap + 8 * ring).load(Relaxed);
            }
            *self.region.get() = (base, layout);
        }
        self.ready.store(1, Relaxed);
        self.regate();
        Ok(())
    }

    /// Tells a ring's capacities: tasks of its window, bytes of its heap, entries of its dependency pool. Before init, and
    /// for a ring that does not exist, it does nothing; it does not ask whether recording is on.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn set_ring_capacity(&self, ring: i32, window: i32, heap: u64, dep_pool: i32) {
        let Ok(ring) = usize::try_from(ring) else { return };
        if self.ready.load(Relaxed) == 0 || ring >= RINGS {
            return;
        }
        // SAFETY: initialised, the words lie in the header, and only the orchestrator comes here.
        unsafe {
            let (base, layout) = *self.region.get();
            word::<AtomicI32>(base, layout.task_window_cap + 4 * ring).store(window, Relaxed);
            word::<AtomicI32>(base, layout.dep_pool_cap + 4 * ring).store(dep_pool, Relaxed);
            word::<AtomicU64>(base, layout.heap_cap + 8 * ring).store(heap, Relaxed);
            if let Some(cap) = (*self.state.get()).heap_cap.get_mut(ring) {
                *cap = heap;
            }
        }
    }

    /// Tells the tensor map's capacity in entries. Before init it does nothing.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn set_tensormap_capacity(&self, entries: i32) {
        if self.ready.load(Relaxed) != 0 {
            // SAFETY: initialised, and the word lies in the header.
            unsafe {
                let (base, layout) = *self.region.get();
                word::<AtomicI32>(base, layout.tensormap_cap).store(entries, Relaxed);
            }
        }
    }

    /// Records that a scope begins: the one whose site was set last, if it was not taken by another.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    #[inline]
    pub unsafe fn begin(&self, sample: &Sample) {
        if !self.recording() {
            return;
        }
        // SAFETY: only the orchestrator comes here.
        unsafe {
            let state = self.state.get();
            let depth = (*state).depth.wrapping_add(1);
            if depth as u32 >= MAX_DEPTH as u32 || (*state).raw.is_some() {
                return Self::begin_cold(&{ *sample }, self);
            }
            (*state).depth = depth;
            let frame = (*state).frame(depth);
            self.open_scope(frame, sample.ring);
            self.append(sample, frame, depth, Phase::Begin);
        }
    }

    /// A site that was not looked at, or a depth that the runtime does not have.
    #[cold]
    #[inline(never)]
    unsafe fn begin_cold(sample: &Sample, this: &Self) {
        // SAFETY: only the orchestrator comes here.
        unsafe {
            Self::capture(this);
            let state = this.state.get();
            // A stuck runtime stays at the deepest.
            let depth = (*state).depth.saturating_add(1);
            (*state).depth = depth;
            if depth >= MAX_DEPTH as i32 {
                (*state).deep = (*state).deep.saturating_add(1);
                (*state).lane.mem().u32_at(ScopeStatsLayout::DEEP).store((*state).deep, Relaxed);
            }
            let frame = (*state).frame(depth);
            this.open_scope(frame, sample.ring);
            this.append(sample, frame, depth, Phase::Begin);
        }
    }

    /// Moves the pending site into `frame`.
    ///
    /// # Safety
    /// Called by the orchestrator thread; the frame is one of the state's.
    #[inline(always)]
    unsafe fn open_scope(&self, frame: *mut Frame, ring: i32) {
        // SAFETY: the caller's contract.
        unsafe {
            let pending = &raw mut (*self.state.get()).pending;
            (&raw mut (*frame).site).write(pending.read());
            (&raw mut (*frame).ring).write(ring);
            pending.write(Site::UNKNOWN);
        }
        self.ring.store(ring, Relaxed);
    }

    /// Records that the innermost open scope ends; without one it is counted as misuse.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    #[inline]
    pub unsafe fn end(&self, sample: &Sample) {
        if !self.recording() {
            return;
        }
        // SAFETY: only the orchestrator comes here.
        unsafe {
            let state = self.state.get();
            let depth = (*state).depth;
            if depth as u32 >= STACK as u32 {
                return Self::end_cold(&{ *sample }, self);
            }
            let frame = (*state).frame(depth);
            self.append(sample, frame, depth, Phase::End);
            self.close_scope(depth);
        }
    }

    /// An end without a begin, or of a scope beyond the stack.
    #[cold]
    #[inline(never)]
    unsafe fn end_cold(sample: &Sample, this: &Self) {
        // SAFETY: only the orchestrator comes here.
        unsafe {
            let state = this.state.get();
            let depth = (*state).depth;
            if depth < 0 {
                return this.ports.misuse();
            }
            (*state).beyond = Frame { ring: sample.ring, ..Frame::UNKNOWN };
            this.append(sample, &raw mut (*state).beyond, depth, Phase::End);
            this.close_scope(depth);
        }
    }

    /// # Safety
    /// Called by the orchestrator thread; `depth` is the innermost scope's, at least 0.
    #[inline(always)]
    unsafe fn close_scope(&self, depth: i32) {
        // SAFETY: the caller's contract.
        unsafe {
            let state = self.state.get();
            (*state).depth = depth - 1;
            let ring = if depth > 0 { (*(*state).frame(depth - 1)).ring } else { NO_RING };
            self.ring.store(ring, Relaxed);
        }
    }

    /// Appends one end of a scope.
    ///
    /// # Safety
    /// Called by the orchestrator thread; the frame is one of the state's.
    #[inline(always)]
    unsafe fn append(&self, sample: &Sample, frame: *const Frame, depth: i32, phase: Phase) {
        // SAFETY: the caller's contract; a slot is the lane's.
        unsafe {
            let lane = &raw mut (*self.state.get()).lane;
            let row = (*lane).next();
            if row.is_null() {
                return Self::append_dry(&{ *sample }, frame, depth, phase, self);
            }
            let ring = (*frame).ring;
            let (mut reclaimed, mut allocated) = (0, 0);
            if (ring as u32) < RINGS as u32 {
                let ring = ring as usize;
                let cap = (*self.state.get()).heap_cap[ring];
                reclaimed = self.wraps[HeapSide::Reclaim as usize][ring].load(Relaxed).wrapping_mul(cap);
                allocated = self.wraps[HeapSide::Alloc as usize][ring].load(Relaxed).wrapping_mul(cap);
            }
            (&raw mut (*row).site_file_basename).write((*frame).site.file);
            (&raw mut (*row).heap_start).write(sample.heap_start.wrapping_add(reclaimed));
            (&raw mut (*row).heap_end).write(sample.heap_end.wrapping_add(allocated));
            (&raw mut (*row).site_line).write((*frame).site.line);
            (&raw mut (*row).task_start).write(sample.task_start);
            (&raw mut (*row).task_end).write(sample.task_end);
            (&raw mut (*row).dep_pool_start).write(sample.dep_start);
            (&raw mut (*row).dep_pool_end).write(sample.dep_end);
            (&raw mut (*row).tensormap_used).write(sample.tensormap);
            (&raw mut (*row).depth).write(depth.min(i16::MAX as i32) as i16);
            (&raw mut (*row).ring_id).write(ring as i16);
            (&raw mut (*row).phase).write(phase as i16);
            (&raw mut (*row)._pad).write(0);
            if (*lane).advance(row, 1) {
                Self::close(self);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn append_dry(sample: &Sample, frame: *const Frame, depth: i32, phase: Phase, this: &Self) {
        // SAFETY: open, and only the orchestrator comes here.
        unsafe {
            let lane = &raw mut (*this.state.get()).lane;
            match (*lane).room(1, this.ports.port(this.orch_thread.load(Relaxed))) {
                0 => (*lane).lose(1),
                _ => this.append(sample, frame, depth, phase),
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn close(this: &Self) {
        // SAFETY: open, and only the orchestrator comes here.
        unsafe { (*this.state.get()).lane.close(this.ports.port(this.orch_thread.load(Relaxed))) }
    }

    /// Says that the runtime has met a fatal error, and publishes what there is.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn on_fatal(&self) {
        if !self.recording() {
            return;
        }
        // SAFETY: initialised, the word lies in the header, and only the orchestrator comes here.
        unsafe {
            let (base, layout) = *self.region.get();
            // SYNC POINT: the host reads it when the device is at rest (host-drain `capacities`).
            fence::publish(word::<AtomicU32>(base, layout.fatal_latched), 1);
            self.flush();
        }
    }

    /// Publishes what the lane holds. What cannot be published stays where the host finds it.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn flush(&self) {
        if self.ready.load(Relaxed) != 0 {
            // SAFETY: open, and only the orchestrator comes here.
            unsafe { (*self.state.get()).lane.flush(self.ports.port(self.orch_thread.load(Relaxed))) }
        }
    }

    /// Makes the totals visible without publishing the buffer: for every abnormal exit, so that the host recovers
    /// exactly what there is.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn sync(&self) {
        if self.ready.load(Relaxed) != 0 {
            // SAFETY: open, and only the orchestrator comes here.
            unsafe { (*self.state.get()).lane.sync() }
        }
    }
}

impl State {
    /// The frame of the scope at `depth`, at least 0.
    #[inline(always)]
    fn frame(&mut self, depth: i32) -> *mut Frame {
        match self.stack.get_mut(depth as usize) {
            Some(frame) => frame,
            None => &mut self.beyond,
        }
    }
}
