//! The payload's way into the file: piece by piece, close behind the producer, each acknowledged as soon as it is there.

use super::pen::{IN_FLIGHT, Piece};
use super::records::mark;
use super::{BIN_NAME, Dump, Flight, Run, Settle, Sink};
use crate::artifact::DirectFile;
use crate::transport::{SpillError, TransportError};
use dfx_collector::abi::layout::ARENA;
use std::io;
use std::sync::atomic::Ordering;

/// What is written with one call, at most, and what calls are aligned to in the file: small enough that it, and a copy of
/// it, is in a cache still; large enough that the call costs nothing and that the file's pages are made in large folios.
const PIECE_BYTES: u64 = 256 << 10;
/// What one step plans before it lets others have their turn.
const STEP_BYTES: u64 = 4 << 20;
/// Idle steps after which a missing buffer is no longer waited for.
const PATIENCE: u32 = 64;

impl Dump {
    /// Hands to the pen what has its turn, as far as the budget goes (if it is to be `kept`), and enters what the pen has
    /// written. Returns how much there was to do.
    pub(crate) fn step(&mut self, kept: bool) -> u32 {
        self.wait_for_missing();
        let (mut work, mut landed) = self.land();
        let mut planned = 0;
        while planned < STEP_BYTES
            && self.flight.len() < IN_FLIGHT
            && let Some(run) = self.runs.pop_front()
        {
            let Some(bytes) = self.plan(run, kept) else { break };
            planned += bytes;
            let (more, bytes) = self.land();
            (work, landed) = (work + more, landed + bytes);
        }
        if landed > 0 {
            self.meter.went((self.now)(), landed, self.backlog() > 0);
            self.flow.rate.store(self.meter.recent(), Ordering::Relaxed);
        }
        self.tell();
        work
    }

    /// Takes the next piece of `run` on its way. Returns its bytes; `None`: nothing goes on for now.
    fn plan(&mut self, mut run: Run, kept: bool) -> Option<u64> {
        let left = run.bytes - run.done;
        if matches!(self.sink, Sink::Failed(_)) {
            return Some(self.forgo(run));
        }
        let most = left.min(PIECE_BYTES - self.reserved() % PIECE_BYTES);
        let out: u64 = self.flight.iter().filter(|flight| flight.piece).map(|flight| flight.bytes).sum();
        let piece = match &mut self.bucket {
            Some(bucket) if kept => {
                let piece = most.min(bucket.burst());
                // What waits behind a write that hangs crosses all at once in the end: no more than one burst.
                if out + piece > bucket.burst() || !bucket.take((self.now)(), piece) {
                    self.runs.push_front(run);
                    return None;
                }
                piece
            }
            _ => most,
        };
        if run.done == 0 {
            run.base = self.reserved();
        }
        if run.offset + run.done + self.arena_bytes < self.threads[run.thread as usize].largest_end {
            // The device went on without asking: it has written over what was not acknowledged.
            return Some(self.give_up(run));
        }
        let Some(reserved) = self.reserve(&run, piece) else { return Some(self.forgo(run)) };
        run.done += piece;
        let whole = run.done == run.bytes;
        let settle = whole.then_some(Settle { saved: run.bytes, bereaved: None });
        let end = run.offset + run.done;
        self.flight.push_back(Flight { piece: true, run, end, bytes: piece, settle });
        self.pen.hand(reserved);
        if !whole {
            self.runs.push_front(run);
        }
        Some(piece)
    }

    /// The place in the file of the next `bytes` bytes of `run`. `None`: there is no file for them, and will be none.
    fn reserve(&mut self, run: &Run, bytes: u64) -> Option<Piece> {
        if let Sink::Closed = self.sink {
            let path = self.output.clone().unwrap_or_default().join(BIN_NAME);
            self.sink = match DirectFile::create(path, self.room) {
                Ok(file) => Sink::Open(file),
                Err(error) => Sink::Failed(error),
            };
        }
        let Sink::Open(file) = &mut self.sink else { return None };
        let arena = self.threads[run.thread as usize].arena;
        let at = arena.offset((run.offset + run.done) % self.arena_bytes);
        match file.reserve(bytes) {
            Ok((sheet, place)) => Some(Piece { sheet, place, at, bytes }),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// The file's end.
    pub(super) fn fail(&mut self, error: io::Error) {
        if let Sink::Open(file) = &self.sink {
            let error = file.error(error);
            tracing::warn!(%error, "the dumped payload is lost; the records are kept");
            self.sink = Sink::Failed(error);
        }
    }

    /// Lets the rest of `run` go: its records stay, their payload is nowhere. Returns its bytes.
    fn forgo(&mut self, run: Run) -> u64 {
        let (end, bytes) = (run.offset + run.bytes, run.bytes - run.done);
        let settle = Some(Settle { saved: 0, bereaved: None });
        self.flight.push_back(Flight { piece: false, run, end, bytes, settle });
        bytes
    }

    /// Enters what is in the file, or will never be, in the order in which it was planned. Returns how much that was: times
    /// and bytes.
    fn land(&mut self) -> (u32, u64) {
        let (mut times, mut landed) = (0, 0);
        while (!self.beside || self.pen.is_dead()) && self.pen.step() > 0 {}
        while let Some(front) = self.flight.front() {
            let written = if front.piece { self.pen.written() } else { None };
            if front.piece && written.is_none() {
                break;
            }
            let Some(flight) = self.flight.pop_front() else { break };
            let Flight { run, end, bytes, settle, .. } = flight;
            if let Some(written) = written {
                let begin = end - bytes;
                self.bereave_overwritten(&run, begin, end);
                match written {
                    Ok(()) => self.fill(run.base + (begin - run.offset), bytes),
                    Err(SpillError::Device(error)) => self.salvage(&run, begin, end, &error),
                    Err(SpillError::File(error)) => self.fail(error),
                }
            }
            if let Some(Settle { saved, bereaved }) = settle {
                let failed = matches!(self.sink, Sink::Failed(_));
                self.settle(&run, if failed { 0 } else { saved });
                if let Some(place) = bereaved {
                    self.stores[run.thread as usize].get_mut(place).bereave(mark::OVERWRITTEN);
                }
            }
            self.flow.drained.fetch_add(bytes, Ordering::Relaxed);
            self.flow.backlog.fetch_sub(bytes, Ordering::Relaxed);
            (times, landed) = (times + 1, landed + bytes);
            self.acknowledge(run.thread, end);
        }
        (times, landed)
    }

    /// Marks the payloads of `run` in `from..end` if a device that did not ask may have written there before they were in
    /// the file.
    fn bereave_overwritten(&mut self, run: &Run, from: u64, end: u64) {
        let thread = run.thread as usize;
        if from + self.arena_bytes >= self.threads[thread].largest_end {
            return;
        }
        for place in run.first..=run.last {
            let held = self.stores[thread].get_mut(place);
            if held.lies_in(from, end) {
                held.bereave(mark::OVERWRITTEN);
            }
        }
    }

    /// Tries payload by payload what could not be transferred as one piece, `from..end` of `run`. What fails still ends
    /// where it fails.
    fn salvage(&mut self, run: &Run, from: u64, end: u64, error: &TransportError) {
        tracing::warn!(%error, ?run, from, end, "dumped payload could not be transferred; trying it payload by payload");
        let thread = run.thread as usize;
        let mut block = Vec::new();
        for place in run.first..=run.last {
            let held = *self.stores[thread].get(place);
            // What has lost something before ends there already.
            if !held.lies_in(from, end) || held.bin_size > 0 {
                continue;
            }
            let Sink::Open(file) = &self.sink else { return };
            let (begin, stop) = (held.value.max(from), (held.value + held.payload).min(end));
            let at = self.threads[thread].arena.offset(begin % self.arena_bytes);
            let (bytes, target) = (stop - begin, run.base + (begin - run.offset));
            match self.transport.spill(at, bytes, &mut block, file.file(), target) {
                Ok(()) => self.fill(target, bytes),
                Err(SpillError::File(error)) => self.fail(error),
                Err(SpillError::Device(error)) => {
                    tracing::warn!(%error, task_id = held.task_id, arg = held.arg_index, "dumped payload is lost from here");
                    let saved = begin - held.value;
                    self.lost += held.payload - saved;
                    let held = self.stores[thread].get_mut(place);
                    held.save(run.base + (held.value - run.offset), saved);
                }
            }
        }
    }

    /// Whether nothing is left to plan, and nothing on its way.
    pub(super) fn is_done(&self) -> bool {
        self.runs.is_empty() && self.flight.is_empty()
    }

    fn wait_for_missing(&mut self) {
        if !self.runs.is_empty() || self.threads.iter().all(|thread| thread.parked.is_empty()) {
            self.idle = 0;
            return;
        }
        self.idle += 1;
        if self.idle > PATIENCE {
            (0..self.threads.len()).for_each(|thread| self.release(thread));
        }
    }

    pub(crate) fn backlog(&self) -> u64 {
        self.flow.backlog()
    }

    /// Bytes in the file.
    pub(super) fn written(&self) -> u64 {
        if let Sink::Open(_) = self.sink { self.saved } else { 0 }
    }

    /// Where in the file the next piece goes.
    fn reserved(&self) -> u64 {
        match &self.sink {
            Sink::Open(file) => file.bytes(),
            Sink::Closed | Sink::Failed(_) => 0,
        }
    }

    /// `bytes` bytes are in the file at `place`.
    fn fill(&mut self, place: u64, bytes: u64) {
        self.saved += bytes;
        self.filled = self.filled.max(place + bytes);
    }

    /// Gives up the payload that `run` is at: the device wrote over it. The rest of the run goes on. Returns the bytes that
    /// were given up.
    fn give_up(&mut self, run: Run) -> u64 {
        let thread = run.thread as usize;
        let at = run.offset + run.done;
        let place = (run.first..=run.last).find(|&place| self.stores[thread].get(place).covers(at));
        let place = place.unwrap_or(run.last);
        let held = self.stores[thread].get(place);
        let end = (held.value + held.payload).clamp(at, run.offset + run.bytes);
        let payloads =
            (run.first..=place).filter(|&place| self.stores[thread].get(place).is(mark::IN_RUN)).count();
        let done = Run { last: place, payloads: payloads as u32, bytes: end - run.offset, ..run };
        let settle = Some(Settle { saved: run.done, bereaved: Some(place) });
        self.flight.push_back(Flight { piece: false, run: done, end, bytes: end - at, settle });
        let rest = run.offset + run.bytes - end;
        if rest > 0 {
            let payloads = run.payloads.saturating_sub(payloads as u32);
            self.runs.push_front(Run {
                first: place + 1,
                payloads,
                offset: end,
                bytes: rest,
                done: 0,
                ..run
            });
        }
        end - at
    }

    /// Enters in the records of `run` what is in the file: its first `saved` bytes.
    fn settle(&mut self, run: &Run, saved: u64) {
        let store = &mut self.stores[run.thread as usize];
        for place in run.first..=run.last {
            let held = store.get_mut(place);
            if held.is(mark::CARRIES) {
                let begin = held.value - run.offset;
                // Unless a hole has cut it short before.
                let whole = if held.bin_size > 0 { held.bin_size } else { held.payload };
                held.save(run.base + begin, saved.saturating_sub(begin).min(whole));
            }
        }
        self.threads[run.thread as usize].completed += u64::from(run.payloads);
    }

    /// The arena of `thread` is free up to `end`.
    fn acknowledge(&mut self, thread: u32, end: u64) {
        let owner = &mut self.threads[thread as usize];
        owner.acknowledged = owner.acknowledged.max(end);
        self.tell();
    }

    /// Tells the device what it does not know yet; a store that fails is repeated with the next step.
    fn tell(&mut self) {
        for thread in self.threads.iter_mut().filter(|thread| thread.told != thread.acknowledged) {
            let at = |offset: usize| thread.state.offset(offset as u64);
            // SYNC POINT: the device observes it (collector, args dump: `Arena::ask`) and writes over what was saved. The
            // count is for a device half that knows of no offsets.
            let stored = self
                .transport
                .store_u64(at(ARENA.completed), thread.completed)
                .and_then(|()| self.transport.store_u64(at(ARENA.acknowledged), thread.acknowledged));
            if stored.is_ok() {
                thread.told = thread.acknowledged;
            }
        }
    }
}
