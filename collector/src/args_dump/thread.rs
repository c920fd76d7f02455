//! One thread's lane with its arena: records, payloads, and the waits for room.

use super::arena::{Arena, Gate, Hope, Mem};
use super::dedup::{self, Seen, Table};
use super::gather::View;
use super::record::{self, Checked, Payload, is_dense, is_empty};
use crate::abi::args_dump::{FLAG_REFERENCE, FLAG_SHED, Info, Kind, Record, SLOTS};
use crate::abi::layout::{ARENA, ARGS_DUMP_LANE, BufferLayout, StallLayout};
use crate::clock::Clock;
use crate::lane::LaneMem;
use crate::lanes::{BufferLane, Ports};
use crate::stall::Stall;
use crate::sync::Ordering::Relaxed;
use core::cell::UnsafeCell;

const BUFFER: BufferLayout = BufferLayout::args_dump();
const STALLS: StallLayout = match ARGS_DUMP_LANE.stall {
    Some(stalls) => stalls,
    None => panic!("this lane accounts for its waits"),
};

type RecordLane = BufferLane<Record, SLOTS>;

/// One thread's part of the dump.
pub(super) struct Thread {
    lane: RecordLane,
    arena: Arena,
    /// Whether payloads are taken of what does not ask for it, too.
    all: bool,
    dedup: bool,
    account: Account,
    meal: Meal,
}

/// What the host cannot count by itself.
#[derive(Clone, Copy)]
struct Account {
    shed_bytes: u64,
    saved_bytes: u64,
    shed: u32,
    saved: u32,
}

/// The arguments of one task at one stage: between two such, the runtime gets on, and its peers see that.
#[derive(Clone, Copy)]
struct Meal {
    task: u64,
    stage: u8,
    arg: u32,
    /// The lane's account of waits when it began.
    since: u64,
    /// What the host had done by then.
    progress: u64,
}

/// What a thread needs of the dump that it belongs to.
pub(super) struct Around<'a, C> {
    pub(super) ports: &'a Ports<C>,
    pub(super) thread: u32,
    pub(super) gate: Gate<'a>,
    pub(super) seen: &'a UnsafeCell<Table>,
}

impl Thread {
    /// Records nothing.
    pub(super) const CLOSED: Thread = Thread {
        lane: BufferLane::closed(&ARGS_DUMP_LANE, &BUFFER),
        arena: Arena::CLOSED,
        all: false,
        dedup: false,
        account: Account { shed_bytes: 0, saved_bytes: 0, shed: 0, saved: 0 },
        meal: Meal { task: u64::MAX, stage: 0, arg: 0, since: 0, progress: 0 },
    };

    /// The lane and arena in the state at `state`; takes a buffer if one is there.
    ///
    /// # Safety
    /// As [`Mem::new`], and the state's arena may be written.
    pub(super) unsafe fn open(
        state: crate::abi::DeviceAddr,
        thread: u32,
        ours: bool,
        dedup: bool,
        all: bool,
    ) -> Thread {
        // SAFETY: the caller's contract.
        let mem: Mem = unsafe { Mem::new(state, &ARGS_DUMP_LANE, &BUFFER) };
        Thread {
            arena: Arena::open(&mem, ours),
            lane: BufferLane::open(mem, thread),
            all,
            dedup: ours && dedup,
            ..Thread::CLOSED
        }
    }

    /// Whether the argument is to bring its bytes.
    #[inline(always)]
    pub(super) fn wants(&self, info: &Info) -> bool {
        info.kind == Kind::Tensor as u8 && (self.all || info.capture_payload != 0)
    }

    /// Records an argument without a payload, if there is a slot and nothing about it needs a closer look. `None`:
    /// otherwise.
    ///
    /// # Safety
    /// Open, and called by the thread.
    #[inline(always)]
    pub(super) unsafe fn plain(&mut self, info: &Info) -> Option<bool> {
        let slot = self.lane.next();
        if slot.is_null() {
            return None;
        }
        // SAFETY: the slot is the lane's.
        unsafe {
            if info.kind == Kind::Tensor as u8 {
                record::write(slot, info, Checked::packed(info)?, Payload::NONE, true, true);
            } else {
                record::write(slot, info, Checked::scalar(info)?, Payload::NONE, true, false);
            }
            Some(self.lane.advance(slot, 1))
        }
    }

    /// [`plain`](Self::plain) for all others, waiting for a slot.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn plain_cold<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info) -> bool {
        // SAFETY: passed on.
        unsafe { self.put(around, info, Payload::NONE, is_dense(info) || is_empty(info)) }
    }

    /// Records an argument with its bytes.
    ///
    /// # Safety
    /// Open, and called by the thread; the tensor may be read.
    pub(super) unsafe fn payload<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info) -> bool {
        let view = View::of(info);
        // SAFETY: passed on.
        unsafe {
            // A payload without a record is of no use.
            if self.lane.next().is_null() && !self.slot(around) {
                self.lane.lose(1);
                return false;
            }
            let payload = self.bring(around, info, &view);
            self.put(around, info, payload, view.is_dense())
        }
    }

    /// Brings the bytes of `view` into the arena, if they have to be there and there is room.
    ///
    /// # Safety
    /// As [`payload`](Self::payload).
    #[inline(always)]
    unsafe fn bring<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info, view: &View) -> Payload {
        let (bytes, truncated) = self.arena.cut(view.bytes);
        if bytes == 0 {
            return Payload { truncated, ..Payload::NONE };
        }
        // SAFETY: the room is this thread's until it is taken, and the view is the tensor (the caller's contract).
        unsafe {
            if self.dedup && !truncated {
                return self.bring_new(around, info, view);
            }
            match self.find_room(around, info, bytes) {
                Some(start) => {
                    view.copy(self.arena.at(start), bytes);
                    self.arena.take(self.lane.mem(), start, bytes);
                    Payload { offset: start, size: bytes, truncated, ..Payload::NONE }
                }
                None => shed(bytes),
            }
        }
    }

    /// [`bring`](Self::bring) for what may be in the file already.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn bring_new<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info, view: &View) -> Payload {
        let (key, bytes) = (dedup::key(info), view.bytes);
        // SAFETY: only this thread comes to its table; the rest as in `bring`.
        unsafe {
            let seen = &mut *around.seen.get();
            let last = seen.find(key);
            let same = |last: &Seen, hash| last.holds(hash, bytes);
            // No room is needed for what is there already, and none is waited for.
            if self.arena.room(bytes).is_none()
                && view.is_dense()
                && let Some(last) = last.filter(|last| last.size() == bytes)
                && same(&last, dedup::hash(view))
            {
                return self.refer(&last);
            }
            let Some(start) = self.find_room(around, info, bytes) else { return shed(bytes) };
            let hash = dedup::copy(view, self.arena.at(start));
            match last {
                Some(last) if same(&last, hash) => self.refer(&last),
                _ => {
                    self.arena.take(self.lane.mem(), start, bytes);
                    seen.put(Seen::new(key, hash, start, bytes));
                    Payload { offset: start, size: bytes, ..Payload::NONE }
                }
            }
        }
    }

    fn refer(&mut self, last: &Seen) -> Payload {
        self.account.saved = self.account.saved.wrapping_add(1);
        self.account.saved_bytes = self.account.saved_bytes.wrapping_add(last.size());
        Payload { offset: last.offset, size: last.size(), flags: FLAG_REFERENCE, ..Payload::NONE }
    }

    /// Accounts for a record that was written without its payload.
    #[cold]
    fn count_shed(&mut self, bytes: u64) {
        let (account, mem) = (&mut self.account, self.lane.mem());
        account.shed = account.shed.wrapping_add(1);
        account.shed_bytes = account.shed_bytes.wrapping_add(bytes);
        mem.u32_at(ARENA.shed_records).store(account.shed, Relaxed);
        mem.u64_at(ARENA.shed_bytes).store(account.shed_bytes, Relaxed);
    }

    #[inline(always)]
    unsafe fn find_room<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info, bytes: u64) -> Option<u64> {
        match self.arena.room(bytes) {
            Some(start) => Some(start),
            // SAFETY: passed on.
            None => unsafe { self.make_room(around, info, bytes) },
        }
    }

    /// Makes room for `bytes`, and for the record that goes with them.
    ///
    /// # Safety
    /// Open, and called by the thread.
    #[cold]
    #[inline(never)]
    unsafe fn make_room<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info, bytes: u64) -> Option<u64> {
        // SAFETY: passed on.
        unsafe {
            if !self.get_room(around, info, bytes) || (self.lane.next().is_null() && !self.slot(around)) {
                return None;
            }
        }
        self.arena.room(bytes)
    }

    /// Publishes what is in the way, and waits for the host to save it, as long as that is allowed.
    ///
    /// # Safety
    /// Open, and called by the thread.
    unsafe fn get_room<C: Clock>(&mut self, around: &Around<'_, C>, info: &Info, bytes: u64) -> bool {
        let needs = self.arena.needs_pending(bytes);
        if !needs && self.arena.ask(self.lane.mem(), around.gate, bytes) {
            return true;
        }
        // What is pending goes as early as it can.
        if needs || (self.arena.has_pending() && self.has_spare()) {
            // SAFETY: passed on.
            unsafe { self.publish(around) };
        }
        // SAFETY: one caller per thread number; the port is gone with this call.
        let port = unsafe { around.ports.port(around.thread) };
        self.arena.ask(self.lane.mem(), around.gate, bytes)
            || (!self.arena.needs_pending(bytes)
                && self.wait(port.stall, port.clock, around.gate, info, bytes))
    }

    /// Waits until there is room for `bytes`.
    fn wait<C: Clock>(&mut self, stall: &Stall, clock: &C, gate: Gate<'_>, info: &Info, bytes: u64) -> bool {
        let mem = self.lane.mem();
        self.arena.plead(gate);
        if stall.longest() == 0 {
            return false;
        }
        match self.arena.hope(mem) {
            Hope::None => return false,
            // The budget learns that the host lives.
            Hope::Back => {
                stall.wait(clock, &mut true, || (), || true);
            }
            Hope::Fair => (),
        }
        let waited = mem.u64_at(STALLS.ticks).load(Relaxed);
        let same =
            (info.task_id, info.stage) == (self.meal.task, self.meal.stage) && info.arg_index > self.meal.arg;
        let (since, progress) =
            if same { (self.meal.since, self.meal.progress) } else { (waited, self.arena.progress(mem)) };
        self.meal = Meal { task: info.task_id, stage: info.stage, arg: info.arg_index, since, progress };

        let begin = clock.now();
        // An eighth is left to the lane: the record must not be lost with its payload.
        let most = |ticks: u64| ticks - ticks / 8;
        let share = most(stall.longest()).saturating_sub(waited.wrapping_sub(since));
        let limit = share.min(most(stall.left(begin)));
        let mut ticks = 0;
        let mut found = false;
        while !found && ticks < limit {
            clock.relax();
            ticks = clock.now().wrapping_sub(begin);
            found = self.arena.ask(mem, gate, bytes);
        }
        if ticks != 0 {
            mem.add_stall(ticks);
        }
        // A host that saved something meanwhile is slow, not gone.
        if !found && self.arena.progress(mem) == progress {
            self.arena.give_up(mem);
        }
        found
    }

    /// Whether another buffer is there already.
    fn has_spare(&self) -> bool {
        let mem = self.lane.mem();
        // Relaxed: whoever takes it observes the tail.
        mem.free_head().load(Relaxed) != mem.free_tail().load(Relaxed)
    }

    /// Writes a record, and publishes the buffer when it is full or its payloads are worth it.
    ///
    /// # Safety
    /// Open, and called by the thread.
    #[inline(always)]
    unsafe fn put<C: Clock>(
        &mut self,
        around: &Around<'_, C>,
        info: &Info,
        payload: Payload,
        dense: bool,
    ) -> bool {
        // SAFETY: the slot is the lane's; the rest is passed on.
        unsafe {
            if self.lane.next().is_null() && !self.slot(around) {
                self.lane.lose(1);
                return false;
            }
            let slot = self.lane.next();
            record::write(slot, info, Checked::of(info), payload, dense, info.ndims != 0);
            if payload.lost != 0 {
                self.count_shed(payload.lost);
            }
            if self.lane.advance(slot, 1) {
                self.close(around);
            } else if self.arena.ripe() && self.has_spare() {
                self.publish(around);
            }
        }
        true
    }

    /// Finds a slot.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    #[cold]
    #[inline(never)]
    unsafe fn slot<C: Clock>(&mut self, around: &Around<'_, C>) -> bool {
        // SAFETY: passed on.
        unsafe { self.sending(around, |lane, port| lane.room(1, port) != 0) }
    }

    /// Publishes a buffer that has become full.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn close<C: Clock>(&mut self, around: &Around<'_, C>) {
        // SAFETY: passed on.
        unsafe { self.sending(around, |lane, port| lane.close(port)) }
    }

    /// Publishes what there is.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn publish<C: Clock>(&mut self, around: &Around<'_, C>) {
        // SAFETY: passed on.
        unsafe { self.sending(around, |lane, port| lane.flush(port)) }
    }

    /// Does what may publish the active buffer, with the payloads' account before and after.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    unsafe fn sending<'a, C: Clock, T>(
        &mut self,
        around: &Around<'a, C>,
        send: impl FnOnce(&mut RecordLane, Port<'a, C>) -> T,
    ) -> T {
        self.sync();
        self.arena.announce(self.lane.mem());
        // SAFETY: one caller per thread number; the port is gone with this call.
        let done = send(&mut self.lane, unsafe { around.ports.port(around.thread) });
        self.arena.settle(self.lane.mem(), self.lane.used() == 0);
        done
    }

    /// Makes the totals visible.
    pub(super) fn sync(&self) {
        self.lane.sync();
        let (account, mem) = (&self.account, self.lane.mem());
        mem.u64_at(ARENA.payload_bytes).store(self.arena.bytes, Relaxed);
        mem.u64_at(ARENA.saved_bytes).store(account.saved_bytes, Relaxed);
        mem.u32_at(ARENA.saved_records).store(account.saved, Relaxed);
    }
}

/// What is left of a payload of `bytes` for which there is no room.
#[cold]
fn shed(bytes: u64) -> Payload {
    Payload { truncated: true, flags: FLAG_SHED, lost: bytes, ..Payload::NONE }
}

type Port<'a, C> = crate::lane::Port<'a, crate::lanes::RegionQueue, C>;
