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

mod heap;
mod site;
mod state;

pub use crate::lanes::InitError;

use crate::abi::layout::{BufferLayout, SCOPE_STATS_LANE, ScopeStatsLayout};
use crate::abi::scope_stats::{HeapSide, MAX_DEPTH, Phase, RINGS, Record, SLOTS};
use crate::abi::{DeviceAddr, Geometry};
use crate::clock::Clock;
use crate::lanes::{BufferLane, NO_THREAD, Ports, StateMem, word};
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::cell::UnsafeCell;
use core::fmt;
use heap::Heap;
use site::Site;
use state::{BEYOND, Frame, State, frame_of};

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
    heap: Heap,
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
            heap: Heap::new(),
            state: UnsafeCell::new(State::IDLE),
            region: UnsafeCell::new((DeviceAddr::NULL, ScopeStatsLayout::of(crate::abi::Platform::A2a3))),
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
        self.heap.reset();
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
        unsafe { ((*self.state.get()).open as i32).wrapping_sub(1) }
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
            if recording {
                return Self::capture(file, line, self);
            }
            (*state).pending = 0;
            (*state).raw = Some((file, line));
        }
    }

    /// Puts a site where the next scope's frame will be.
    #[inline(never)]
    unsafe fn capture(file: *const u8, line: i32, this: &Self) {
        // SAFETY: only the orchestrator comes here, and the string lives.
        unsafe {
            let state = this.state.get();
            let next = frame_of((*state).open.saturating_add(1));
            (*state).frames[next].site = Site::of(file, line);
            (*state).pending = next as u32;
            (*state).raw = None;
        }
    }

    /// Counts a wrap of the current scope's heap. `side` is a [`HeapSide`]; anything else, a scope on no ring, or none,
    /// counts nothing. May come from any thread.
    #[inline]
    pub fn note_heap_wrap(&self, side: i32) {
        if !self.recording() {
            return;
        }
        if let Some(side) = HeapSide::from_raw(side) {
            self.heap.wrap(side, self.ring.load(Relaxed));
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
            self.ports.attach(FEATURE, geometry, base, &layout.queue, layout.stall_budget(), launch_start)?;
            let lane = base.offset(layout.lane() as u64);
            (*self.state.get()).lane = BufferLane::open(StateMem::new(lane, &SCOPE_STATS_LANE, &BUFFER), 0);
            for ring in 0..RINGS {
                self.heap.resize(ring, word::<AtomicU64>(base, layout.heap_cap + 8 * ring).load(Relaxed));
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
        }
        self.heap.resize(ring, heap);
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
        if self.recording() {
            // SAFETY: passed on.
            unsafe { self.begin_now(sample) }
        }
    }

    /// [`begin`](Self::begin) for a caller that has just asked [`recording`](Self::recording) itself, so that it can do so
    /// before it touches its arguments.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn begin_now(&self, sample: &Sample) {
        // SAFETY: only the orchestrator comes here; frames up to `MAX_DEPTH` exist; a slot is the lane's.
        unsafe {
            let state = self.state.get();
            let row = (*state).lane.next();
            let depth = (*state).open;
            if row.is_null() || depth >= MAX_DEPTH as u32 || (*state).pending != depth + 1 {
                (*state).dry = *sample;
                return Self::begin_cold(self);
            }
            (*state).open = depth + 1;
            (*state).pending = 0;
            let frame = (&raw mut (*state).frames).cast::<Frame>().add(depth as usize + 1);
            (*frame).ring = sample.ring;
            self.ring.store(sample.ring, Relaxed);
            self.write(row, sample, &raw const (*frame).site, sample.ring, depth as i16, Phase::Begin);
            if (*state).lane.advance(row, 1) {
                Self::close(self);
            }
        }
    }

    /// A scope without a site of its own depth, a depth that the runtime does not have, or no slot.
    #[cold]
    #[inline(never)]
    unsafe fn begin_cold(this: &Self) {
        if !this.recording() {
            return;
        }
        // SAFETY: only the orchestrator comes here.
        unsafe {
            let state = &mut *this.state.get();
            let (sample, depth) = (state.dry, state.open);
            let site = match (state.raw.take(), state.pending) {
                (Some((file, line)), _) => Site::of(file, line),
                (None, 0) => Site::UNKNOWN,
                (None, frame) => state.frames[frame_of(frame)].site,
            };
            state.pending = 0;
            // A runtime that never ends a scope stays at the deepest.
            state.open = depth.saturating_add(1).min(i32::MAX as u32);
            if depth >= MAX_DEPTH as u32 {
                state.deep = state.deep.saturating_add(1);
                state.lane.mem().u32_at(ScopeStatsLayout::DEEP).store(state.deep, Relaxed);
            }
            let frame = Frame { site, ring: sample.ring };
            state.frames[frame_of(state.open)] = frame;
            this.ring.store(sample.ring, Relaxed);
            this.append(&sample, &frame, depth, Phase::Begin);
        }
    }

    /// Records that the innermost open scope ends; without one it is counted as misuse.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    #[inline]
    pub unsafe fn end(&self, sample: &Sample) {
        if self.recording() {
            // SAFETY: passed on.
            unsafe { self.end_now(sample) }
        }
    }

    /// [`end`](Self::end) for a caller that has just asked [`recording`](Self::recording) itself, so that it can do so
    /// before it touches its arguments.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn end_now(&self, sample: &Sample) {
        // SAFETY: only the orchestrator comes here; frames up to `STACK` exist; a slot is the lane's.
        unsafe {
            let state = self.state.get();
            let row = (*state).lane.next();
            let depth = (*state).open.wrapping_sub(1);
            if row.is_null() || depth >= STACK as u32 {
                (*state).dry = *sample;
                return Self::end_cold(self);
            }
            let frame = (&raw mut (*state).frames).cast::<Frame>().add(depth as usize + 1);
            let ring = (*frame).ring;
            (*state).open = depth;
            self.ring.store((*frame.sub(1)).ring, Relaxed);
            self.write(row, sample, &raw const (*frame).site, ring, depth as i16, Phase::End);
            if (*state).lane.advance(row, 1) {
                Self::close(self);
            }
        }
    }

    /// An end without a begin, of a scope beyond the stack, or no slot.
    #[cold]
    #[inline(never)]
    unsafe fn end_cold(this: &Self) {
        if !this.recording() {
            return;
        }
        // SAFETY: only the orchestrator comes here.
        unsafe {
            let state = &mut *this.state.get();
            let sample = state.dry;
            let Some(depth) = state.open.checked_sub(1) else { return this.ports.misuse() };
            let frame = match frame_of(state.open) {
                BEYOND => Frame { ring: sample.ring, ..Frame::UNKNOWN },
                frame => state.frames[frame],
            };
            state.open = depth;
            this.ring.store(state.frames[frame_of(depth)].ring, Relaxed);
            this.append(&sample, &frame, depth, Phase::End);
        }
    }

    /// Appends one end of a scope, if there is or comes room.
    ///
    /// # Safety
    /// Open, and called by the orchestrator thread.
    unsafe fn append(&self, sample: &Sample, frame: &Frame, depth: u32, phase: Phase) {
        // SAFETY: the caller's contract; a slot is the lane's.
        unsafe {
            let lane = &raw mut (*self.state.get()).lane;
            if (*lane).next().is_null()
                && (*lane).room(1, self.ports.port(self.orch_thread.load(Relaxed))) == 0
            {
                return (*lane).lose(1);
            }
            let (row, depth) = ((*lane).next(), depth.min(i16::MAX as u32) as i16);
            self.write(row, sample, &frame.site, frame.ring, depth, phase);
            if (*lane).advance(row, 1) {
                Self::close(self);
            }
        }
    }

    /// # Safety
    /// `row` is the lane's to write, and `site` may be read.
    #[inline(always)]
    unsafe fn write(
        &self,
        row: *mut Record,
        sample: &Sample,
        site: *const Site,
        ring: i32,
        depth: i16,
        phase: Phase,
    ) {
        let reclaimed = self.heap.unroll(HeapSide::Reclaim, ring);
        let allocated = self.heap.unroll(HeapSide::Alloc, ring);
        // SAFETY: the caller's contract.
        unsafe {
            (&raw mut (*row).site_file_basename).write((*site).file);
            (&raw mut (*row).heap_start).write(sample.heap_start.wrapping_add(reclaimed));
            (&raw mut (*row).heap_end).write(sample.heap_end.wrapping_add(allocated));
            (&raw mut (*row).site_line).write((*site).line);
            (&raw mut (*row).task_start).write(sample.task_start);
            (&raw mut (*row).task_end).write(sample.task_end);
            (&raw mut (*row).dep_pool_start).write(sample.dep_start);
            (&raw mut (*row).dep_pool_end).write(sample.dep_end);
            (&raw mut (*row).tensormap_used).write(sample.tensormap);
            (&raw mut (*row).depth).write(depth);
            (&raw mut (*row).ring_id).write(ring as i16);
            (&raw mut (*row).phase).write(phase as i16);
            (&raw mut (*row)._pad).write(0);
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
            // The host reads it when the device is at rest (host-drain `capacities`).
            word::<AtomicU32>(base, layout.fatal_latched).store(1, Relaxed);
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
