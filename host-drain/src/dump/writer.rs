//! The payload's way into the file: piece by piece, close behind the producer, each acknowledged as soon as it is there.

use super::records::{Held, mark};
use super::{BIN_NAME, Dump, Run, Sink};
use crate::artifact::DirectFile;
use crate::transport::WriteOutError;
use dfx_collector::abi::layout::ARENA;
use std::sync::atomic::Ordering;

/// What is written with one call, at most, and what calls are aligned to in the file: small enough to be in a cache still,
/// large enough that the call costs nothing and that the file's pages are made in large folios.
const PIECE_BYTES: u64 = 512 << 10;
/// What one step writes before it lets others have their turn.
const STEP_BYTES: u64 = 4 << 20;
/// Times that a transfer is tried.
const ATTEMPTS: u32 = 5;
/// Idle steps after which a missing buffer is no longer waited for.
const PATIENCE: u32 = 64;

impl Dump {
    /// Writes what has its turn, as far as the budget goes (if it is to be `kept`). Returns how much there was to do.
    pub(crate) fn step(&mut self, kept: bool) -> u32 {
        let (mut work, mut went) = (0, 0);
        self.wait_for_missing();
        while went < STEP_BYTES
            && let Some(mut run) = self.runs.pop_front()
        {
            let now = (self.now)();
            let left = run.bytes - run.done;
            let most = left.min(PIECE_BYTES - self.written() % PIECE_BYTES);
            let piece = match &mut self.bucket {
                _ if matches!(self.sink, Sink::Failed(_)) => left,
                Some(bucket) if kept => {
                    let piece = most.min(bucket.burst());
                    if !bucket.take(now, piece) {
                        self.runs.push_front(run);
                        break;
                    }
                    piece
                }
                _ => most,
            };
            if run.done == 0 {
                run.base = self.written();
            }
            if run.offset + run.done + self.arena_bytes < self.threads[run.thread as usize].largest_end {
                // The device went on without asking: it has written over what was not acknowledged.
                let gone = self.give_up(run, mark::OVERWRITTEN);
                self.drained(&mut went, gone);
                work += 1;
                continue;
            }
            match self.write(&run, piece) {
                Ok(()) => {
                    (run.done, run.attempts) = (run.done + piece, 0);
                    self.drained(&mut went, piece);
                    self.acknowledge(run.thread, run.offset + run.done);
                    if run.done < run.bytes {
                        self.runs.push_front(run);
                    } else {
                        self.settle(&run, run.done);
                    }
                }
                Err(WriteOutError::Transport(error)) => {
                    run.attempts += 1;
                    if run.attempts < ATTEMPTS {
                        tracing::debug!(%error, "dumped payload could not be transferred; trying again");
                        self.runs.push_front(run);
                        break;
                    }
                    tracing::warn!(%error, ?run, "dumped payload could not be transferred; it is lost");
                    let gone = self.give_up(run, mark::TRUNCATED);
                    self.lost += gone;
                    self.drained(&mut went, gone);
                }
                // Its records stay; their payload is nowhere.
                Err(WriteOutError::File(_)) => {
                    self.settle(&run, 0);
                    self.acknowledge(run.thread, run.offset + run.bytes);
                    self.drained(&mut went, left);
                }
            }
            work += 1;
        }
        if went > 0 {
            self.meter.went((self.now)(), went, self.backlog() > 0);
            self.flow.rate.store(self.meter.recent(), Ordering::Relaxed);
        }
        self.tell();
        work
    }

    fn drained(&self, went: &mut u64, bytes: u64) {
        *went += bytes;
        self.flow.drained.fetch_add(bytes, Ordering::Relaxed);
        self.flow.backlog.fetch_sub(bytes, Ordering::Relaxed);
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
        match &self.sink {
            Sink::Open(file) => file.bytes(),
            Sink::Closed | Sink::Failed(_) => 0,
        }
    }

    /// Writes the next `piece` bytes of `run`. An error of the file is its end.
    fn write(&mut self, run: &Run, piece: u64) -> Result<(), WriteOutError> {
        if let Sink::Closed = self.sink {
            let path = self.output.clone().unwrap_or_default().join(BIN_NAME);
            self.sink = match DirectFile::create(path, self.room) {
                Ok(file) => Sink::Open(file),
                Err(error) => Sink::Failed(error),
            };
        }
        let arena = self.threads[run.thread as usize].arena;
        let at = arena.offset((run.offset + run.done) % self.arena_bytes);
        let Sink::Open(file) = &mut self.sink else {
            return Err(WriteOutError::File(std::io::ErrorKind::BrokenPipe.into()));
        };
        let (transport, staging) = (&*self.transport, &mut self.staging);
        let wrote = file.append(piece, |file, place| transport.write_out(at, piece, file, place, staging));
        match wrote {
            Err(WriteOutError::File(error)) => {
                let kind = error.kind();
                let error = file.error(error);
                tracing::warn!(%error, "the dumped payload is lost; the records are kept");
                self.sink = Sink::Failed(error);
                Err(WriteOutError::File(kind.into()))
            }
            other => other,
        }
    }

    /// Gives up the payload that `run` is at and marks its record; what was saved of a payload that is `TRUNCATED` stays.
    /// The rest of the run goes on. Returns the bytes that were given up.
    fn give_up(&mut self, run: Run, why: u8) -> u64 {
        let thread = run.thread as usize;
        let at = run.offset + run.done;
        let inside =
            |held: &Held| held.is(mark::CARRIES) && (held.value..held.value + held.payload).contains(&at);
        let place =
            (run.first..=run.last).find(|&place| inside(self.stores[thread].get(place))).unwrap_or(run.last);
        let held = self.stores[thread].get(place);
        let end = (held.value + held.payload).clamp(at, run.offset + run.bytes);
        let payloads =
            (run.first..=place).filter(|&place| self.stores[thread].get(place).is(mark::CARRIES)).count();
        let done = Run { last: place, payloads: payloads as u32, bytes: end - run.offset, ..run };
        self.settle(&done, run.done);
        if why == mark::OVERWRITTEN {
            self.stores[thread].get_mut(place).bereave(why);
        }
        self.acknowledge(run.thread, end);
        let rest = run.offset + run.bytes - end;
        if rest > 0 {
            let payloads = run.payloads.saturating_sub(payloads as u32);
            let rest =
                Run { first: place + 1, payloads, offset: end, bytes: rest, done: 0, attempts: 0, ..run };
            self.runs.push_front(rest);
        }
        end - at
    }

    /// Enters in the records of `run` what is in the file: its first `saved` bytes.
    fn settle(&mut self, run: &Run, saved: u64) {
        let store = &mut self.stores[run.thread as usize];
        for place in run.first..=run.last {
            let held = store.get_mut(place);
            if !held.is(mark::CARRIES) {
                continue;
            }
            let begin = held.value - run.offset;
            held.bin_size = saved.saturating_sub(begin).min(held.payload);
            held.bin_offset = run.base + begin;
            if held.bin_size == 0 {
                held.bereave(mark::TRUNCATED);
            } else if held.bin_size < held.payload {
                held.marks |= mark::TRUNCATED;
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
