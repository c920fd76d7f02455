//! dep_gen's producer: every submit of the orchestrator, with its tensors and the dependencies it named.
//!
//! [`DepGen`] is one value per launch or per process. A submit takes one slot of a buffer; dependencies beyond 64 follow
//! in overflow slots of the same buffer, and one store of the count publishes them together. When they do not fit into
//! what is left of the buffer it is published first; a chain longer than a whole buffer is cut, and says so.
//!
//! # What is written
//! Only the live bytes of a record: `tensor_count` tensors and argument types, `explicit_dep_count` dependencies. What
//! lies behind them is left from the buffer's earlier use. Nobody looks there: the counts stand in the same record, our
//! host clamps them to the arrays before it takes a slice, and the reference's reads by the same counts.
//!
//! # What is counted
//! `total_record_count` counts submits, `total_overflow_record_count` the overflow slots that they needed,
//! `dropped_record_count` submits without room (one each, whatever their chain) and slots that a cut chain lacks. So
//! *recorded slots + dropped = total + overflow* holds always, and a graph that lacks anything shows drops to either
//! host.

mod write;

pub use crate::lanes::InitError;

use crate::abi::dep_gen::{MAX_EXPLICIT_DEPS, OVERFLOW_DEPS, RECORDS, SLOTS, SubmitRecord, flags};
use crate::abi::layout::{BufferLayout, DEP_GEN_LANE, DepGenLayout};
use crate::abi::task::SUBTASK_SLOTS;
use crate::abi::tensor::{MAX_TENSOR_ARGS, Tensor};
use crate::abi::{DeviceAddr, Geometry};
use crate::clock::Clock;
use crate::lanes::{BufferLane, NO_THREAD, Ports, StateMem};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{self, MaybeUninit};
use write::{FEW_DEPS, write_args, write_chain, write_deps, write_few_deps, write_head};

const FEATURE: &str = "dep_gen";
const BUFFER: BufferLayout = BufferLayout::dep_gen();

type SlotLane = BufferLane<SubmitRecord, SLOTS>;

const CLOSED: SlotLane = BufferLane::closed(&DEP_GEN_LANE, &BUFFER);

/// One submit, as the runtime reports it.
#[derive(Clone, Copy, Debug)]
pub struct Submit<'a> {
    /// The submitted task.
    pub task_id: u64,
    /// [`flags::IN_MANUAL_SCOPE`] and [`flags::EARLY_DISPATCH`]; other bits are ignored.
    pub flags: u32,
    /// The arguments, at most 32: each points to the 128 bytes of a [`Tensor`] (of any alignment), or is null.
    pub tensors: &'a [*const Tensor],
    /// A [`TensorArgType`](crate::abi::tensor::TensorArgType) per tensor.
    pub arg_types: &'a [u8],
    /// The task ids that the caller named, in order.
    pub deps: &'a [u64],
    /// The kernel per [`SubtaskSlot`](crate::abi::task::SubtaskSlot); −1 for none.
    pub kernel_ids: &'a [i32; SUBTASK_SLOTS],
    /// Blocks of the task; less than 1 counts as 1.
    pub block_num: i32,
}

/// The AICPU side of dep_gen.
///
/// # Who may call what
/// The recording functions are `unsafe`: they belong to the orchestrator thread, one call at a time, and none is under
/// way while [`init`](Self::init), [`finalize`](Self::finalize) or [`reset`](Self::reset) runs. That is the runtime's own
/// structure.
///
/// Every function may be called at any time: what is disabled or not initialised is a no-op of a few instructions.
pub struct DepGen<C> {
    /// 1 when submits are recorded, that is, enabled and initialised: one test for both.
    open: AtomicU32,
    enabled: AtomicU32,
    ready: AtomicU32,
    orch_thread: AtomicU32,
    lane: UnsafeCell<SlotLane>,
    /// Overflow slots needed, and submits cut short; the orchestrator's.
    overflow: UnsafeCell<Overflow>,
    /// A submit on its way to the cold path. What it borrows lives only that long.
    dry: UnsafeCell<MaybeUninit<Submit<'static>>>,
    ports: Ports<C>,
}

#[derive(Clone, Copy)]
struct Overflow {
    slots: u32,
    truncated: u32,
}

// SAFETY: the cells are reached only by the orchestrator's functions, one call at a time, and by the init functions,
// whose callers let nothing else run; everything else is atomic.
unsafe impl<C: Sync> Sync for DepGen<C> {}
// SAFETY: the raw pointers inside name the region, which is not bound to a thread.
unsafe impl<C: Send> Send for DepGen<C> {}

impl<C> fmt::Debug for DepGen<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DepGen").field("recording", &self.recording()).finish_non_exhaustive()
    }
}

impl<C> DepGen<C> {
    /// A collector that records nothing until it is enabled and initialised.
    pub const fn new(clock: C) -> Self {
        DepGen {
            open: AtomicU32::new(0),
            enabled: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            orch_thread: AtomicU32::new(NO_THREAD),
            lane: UnsafeCell::new(CLOSED),
            overflow: UnsafeCell::new(Overflow { slots: 0, truncated: 0 }),
            dry: UnsafeCell::new(MaybeUninit::uninit()),
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

    /// Whether submits are recorded.
    #[inline(always)]
    pub fn recording(&self) -> bool {
        // SAFETY: written while nothing is recorded; a plain load folds into the comparison.
        unsafe { self.open.as_ptr().read() != 0 }
    }

    /// Names the AICPU thread that orchestrates; its ready queue carries the buffers. Without one, records stay in the
    /// active buffer, where the host recovers them, and what does not fit there is dropped and counted.
    ///
    /// May come before [`init`](Self::init); what was named during a launch ends with it.
    pub fn set_orch_thread(&self, thread: u32) {
        self.orch_thread.store(thread, Relaxed);
    }

    /// Publications for which there was no orchestrator thread, since the last init.
    pub fn misused(&self) -> u32 {
        self.ports.misused()
    }

    fn regate(&self) {
        self.open.store(self.enabled.load(Relaxed) & self.ready.load(Relaxed), Relaxed);
    }

    /// Lets go of the region and forgets the orchestrator thread; the last call of a launch. Shared memory is not
    /// touched.
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn finalize(&self) {
        self.ready.store(0, Relaxed);
        self.regate();
        self.orch_thread.store(NO_THREAD, Relaxed);
        // SAFETY: nothing else runs (the caller's contract).
        unsafe {
            *self.lane.get() = CLOSED;
            *self.overflow.get() = Overflow { slots: 0, truncated: 0 };
            self.ports.detach();
        }
    }

    /// [`finalize`](Self::finalize), and disabled: nothing of an earlier launch survives.
    ///
    /// # Safety
    /// No other function of this value is running.
    pub unsafe fn reset(&self) {
        self.enabled.store(0, Relaxed);
        // SAFETY: passed on.
        unsafe { self.finalize() }
    }
}

impl<C: Clock> DepGen<C> {
    /// Initialises for a launch on the region at `base`: takes a buffer if one is there, waits for none. State of an
    /// earlier launch is gone, but for what was [enabled](Self::set_enabled) and, after a [`finalize`](Self::finalize) or
    /// [`reset`](Self::reset), for the orchestrator thread named since.
    ///
    /// `launch_start` is the counter when the launch began, if the runtime knows it; otherwise the clock is read once.
    ///
    /// # Errors
    /// [`InitError::NoRegion`]; nothing is recorded then.
    ///
    /// # Safety
    /// `base` is 0 or a dep_gen region made for `geometry`, mapped at that address for the whole launch, whose free queue
    /// holds dep_gen buffers. No other function of this value is running.
    pub unsafe fn init(
        &self,
        geometry: &Geometry,
        base: DeviceAddr,
        launch_start: Option<u64>,
    ) -> Result<(), InitError> {
        let named = if self.ready.load(Relaxed) != 0 { NO_THREAD } else { self.orch_thread.load(Relaxed) };
        let layout = DepGenLayout::of(geometry.platform);
        // SAFETY: nothing else runs, and the region is as the layout says (the caller's contract).
        unsafe {
            self.finalize();
            self.orch_thread.store(named, Relaxed);
            self.ports.attach(FEATURE, geometry, base, &layout.queue, layout.stall_budget(), launch_start)?;
            let state = base.offset(layout.lane() as u64);
            *self.lane.get() = BufferLane::open(StateMem::new(state, &DEP_GEN_LANE, &BUFFER), 0);
        }
        self.ready.store(1, Relaxed);
        self.regate();
        Ok(())
    }

    /// Records one submit.
    ///
    /// # Safety
    /// Called by the orchestrator thread; each of `submit.tensors` is null or points to 128 readable bytes.
    #[inline]
    pub unsafe fn record_submit(&self, submit: &Submit<'_>) {
        if self.recording() {
            // SAFETY: passed on.
            unsafe { self.record_submit_now(submit) }
        }
    }

    /// [`record_submit`](Self::record_submit) for a caller that has just asked [`recording`](Self::recording) itself, so
    /// that it can do so before it touches its arguments.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn record_submit_now(&self, submit: &Submit<'_>) {
        // SAFETY: only the orchestrator comes here; a slot is the lane's.
        unsafe {
            let lane = self.lane.get();
            let slot = (*lane).next();
            if slot.is_null() || !is_plain(submit) {
                // Set down beside the lane, so that the hot path needs no frame.
                (*self.dry.get()).write(mem::transmute::<Submit<'_>, Submit<'static>>(*submit));
                return Self::submit_cold(self);
            }
            write_head(slot, submit, submit.deps.len(), 0);
            Self::submit_lists(
                slot,
                submit.tensors.as_ptr(),
                submit.arg_types.as_ptr(),
                submit.deps.as_ptr(),
                self,
            );
        }
    }

    /// The second half of a submit. Apart, so that neither half needs more registers than a call may spoil.
    ///
    /// # Safety
    /// Called by [`record_submit`](Self::record_submit) when the head of the lane's next slot is written, with what the
    /// submit has.
    #[inline(always)]
    unsafe fn submit_lists(
        slot: *mut SubmitRecord,
        tensors: *const *const Tensor,
        types: *const u8,
        deps: *const u64,
        this: &Self,
    ) {
        // SAFETY: the caller's contract; only the orchestrator comes here.
        unsafe {
            write_args(slot, tensors, types);
            let count = (*slot).explicit_dep_count as usize;
            if count > FEW_DEPS {
                return Self::submit_deps(slot, deps, count, this);
            }
            write_few_deps(slot, deps, count);
            if (*this.lane.get()).advance(slot, 1) {
                Self::close(this);
            }
        }
    }

    /// The last third of a submit with more dependencies than a few.
    ///
    /// # Safety
    /// As [`submit_lists`](Self::submit_lists).
    #[inline(never)]
    unsafe fn submit_deps(slot: *mut SubmitRecord, deps: *const u64, count: usize, this: &Self) {
        // SAFETY: the caller's contract; only the orchestrator comes here.
        unsafe {
            write_deps(slot, deps, count);
            if (*this.lane.get()).advance(slot, 1) {
                Self::close(this);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn close(this: &Self) {
        // SAFETY: open, and only the orchestrator comes here.
        unsafe { (*this.lane.get()).close(this.ports.port(this.orch_thread.load(Relaxed))) }
    }

    /// A submit that finds no buffer, brings a chain, or breaks a bound.
    #[cold]
    #[inline(never)]
    unsafe fn submit_cold(this: &Self) {
        if !this.recording() {
            return;
        }
        // SAFETY: `record_submit` has just set it down, and what it borrows lives until that returns.
        let mut submit: Submit<'_> = unsafe { (*this.dry.get()).assume_init() };
        let tensors = submit.tensors.len().min(submit.arg_types.len()).min(MAX_TENSOR_ARGS);
        let mut cut = tensors < submit.tensors.len();
        submit.tensors = submit.tensors.get(..tensors).unwrap_or_default();
        submit.arg_types = submit.arg_types.get(..tensors).unwrap_or_default();

        let wanted = 1 + submit.deps.len().saturating_sub(MAX_EXPLICIT_DEPS).div_ceil(OVERFLOW_DEPS);
        let slots = wanted.min(RECORDS);
        // SAFETY: open, and only the orchestrator comes here; the slots are the lane's once there is room for them.
        unsafe {
            let lane = &mut *this.lane.get();
            let fits = !lane.next().is_null() && slots == 1;
            if !fits && lane.room(slots as u32, this.ports.port(this.orch_thread.load(Relaxed))) == 0 {
                lane.lose(1);
                return;
            }
            if wanted > slots {
                cut = true;
                let kept = MAX_EXPLICIT_DEPS + (slots - 1) * OVERFLOW_DEPS;
                submit.deps = submit.deps.get(..kept).unwrap_or_default();
            }
            let slot = lane.next();
            write_chain(slot, &submit, if cut { flags::TRUNCATED } else { 0 });
            let full = lane.advance(slot, slots as u32);
            if wanted > 1 || cut {
                this.account(wanted as u32 - 1, (wanted - slots) as u32, cut);
            }
            if full {
                Self::close(this);
            }
        }
    }

    /// Accounts for a submit that was recorded with `overflow` slots behind its own, `missing` of which were cut.
    ///
    /// # Safety
    /// Open, and called by the orchestrator thread.
    unsafe fn account(&self, overflow: u32, missing: u32, cut: bool) {
        // SAFETY: the caller's contract.
        unsafe {
            let (lane, totals) = (&mut *self.lane.get(), &mut *self.overflow.get());
            totals.slots = totals.slots.wrapping_add(overflow);
            totals.truncated = totals.truncated.wrapping_add(u32::from(cut));
            lane.mem().u32_at(DepGenLayout::OVERFLOW_TOTAL).store(totals.slots, Relaxed);
            lane.mem().u32_at(DepGenLayout::TRUNCATED).store(totals.truncated, Relaxed);
            // To the lane the chain's slots are records and drops; submits they are not.
            lane.beside(overflow.wrapping_neg());
            lane.lose(missing);
        }
    }

    /// Publishes what the lane holds. What cannot be published stays where the host finds it.
    ///
    /// # Safety
    /// Called by the orchestrator thread.
    pub unsafe fn flush(&self) {
        if self.ready.load(Relaxed) != 0 {
            // SAFETY: open, and only the orchestrator comes here.
            unsafe { (*self.lane.get()).flush(self.ports.port(self.orch_thread.load(Relaxed))) }
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
            unsafe { (*self.lane.get()).sync() }
        }
    }
}

/// Whether the submit fits its own slot as it stands.
#[inline(always)]
fn is_plain(submit: &Submit<'_>) -> bool {
    submit.deps.len() <= MAX_EXPLICIT_DEPS
        && submit.tensors.len() <= MAX_TENSOR_ARGS
        && submit.arg_types.len() == submit.tensors.len()
}
