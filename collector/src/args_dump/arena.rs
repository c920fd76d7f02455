//! A thread's arena: where the next payload goes, and when there is room for it.
//!
//! Three offsets, all counted from when the region was made: `write`, where the last payload ends; `lap`, where the
//! arena's start was last passed; and `limit`, up to which may be written without asking the host. Only when a payload
//! would end behind the limit is a word read that the host writes.

use crate::abi::BackpressureHeader;
use crate::abi::DeviceAddr;
use crate::abi::layout::{ARENA, ARGS_DUMP_LANE, BufferLayout};
use crate::fence;
use crate::lanes::{StateMem, word};
use crate::sync::Ordering::Relaxed;

/// Un-published payload that is worth a buffer of its own, in bytes.
const PUBLISH_BYTES: u64 = 1 << 20;

pub(super) type Mem = StateMem<{ crate::abi::args_dump::SLOTS }>;

/// The arena's account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    base: DeviceAddr,
    size: u64,
    write: u64,
    lap: u64,
    limit: u64,
    /// Our host acknowledges bytes; the reference's has to come to a full stop.
    acknowledges: bool,
    /// The last payload that was published ends here.
    published_to: u64,
    /// Payloads in published buffers.
    published: u64,
    /// Payloads in the active buffer.
    pending: u64,
    /// What the host had done when it was last waited for in vain.
    given_up: Option<u64>,
    /// Bytes of payloads so far.
    pub(super) bytes: u64,
}

impl Arena {
    pub(super) const CLOSED: Arena = Arena {
        base: DeviceAddr::NULL,
        size: 0,
        write: 0,
        lap: 0,
        limit: 0,
        acknowledges: false,
        published_to: 0,
        published: 0,
        pending: 0,
        given_up: None,
        bytes: 0,
    };

    /// Goes on where the arena in `mem` stands.
    pub(super) fn open(mem: &Mem, acknowledges: bool) -> Arena {
        // Relaxed: the host wrote them before the launch.
        let load = |at| mem.u64_at(at).load(Relaxed);
        let (size, write) = (load(ARENA.size), load(ARENA.write_offset));
        // A lap ends with its last byte: the start of the next is passed only by what is written there.
        let laps = write.saturating_sub(1).checked_div(size).unwrap_or(0);
        let lap = laps * size;
        let mut arena = Arena {
            base: DeviceAddr(load(ARENA.base)),
            size,
            write,
            lap,
            limit: lap.wrapping_add(size),
            acknowledges,
            published_to: write,
            published: load(ARENA.published),
            bytes: load(ARENA.payload_bytes),
            ..Arena::CLOSED
        };
        if acknowledges {
            arena.limit = load(ARENA.acknowledged).min(write).wrapping_add(size);
        }
        if arena.base.is_null() {
            arena.size = 0;
        }
        arena
    }

    /// How much of a payload of `bytes` is kept, and whether that is less than all.
    pub(super) fn cut(&self, bytes: u64) -> (u64, bool) {
        if bytes > self.size { (self.size / 2, true) } else { (bytes, false) }
    }

    /// Where a payload of `bytes`, at most the arena's, has to begin.
    fn start(&self, bytes: u64) -> u64 {
        let end = self.lap + self.size;
        if self.write + bytes <= end { self.write } else { end }
    }

    /// Where a payload of `bytes`, at most the arena's, may begin, if there is room for it.
    #[inline(always)]
    pub(super) fn room(&self, bytes: u64) -> Option<u64> {
        let start = self.start(bytes);
        if start + bytes <= self.limit { Some(start) } else { None }
    }

    /// The address of byte `offset`, which lies in this lap or is the start of the next.
    pub(super) fn at(&self, offset: u64) -> *mut u8 {
        let place = offset - self.lap;
        self.base.offset(if place >= self.size { place - self.size } else { place }).0 as *mut u8
    }

    /// Takes the `bytes` from `start` on for a payload that was written there.
    pub(super) fn take(&mut self, mem: &Mem, start: u64, bytes: u64) {
        if start >= self.lap + self.size {
            self.lap += self.size;
        }
        self.write = start + bytes;
        self.pending += 1;
        self.bytes += bytes;
        mem.u64_at(ARENA.write_offset).store(self.write, Relaxed);
    }

    /// Whether the payloads of the active buffer are worth a publication.
    #[inline(always)]
    pub(super) fn ripe(&self) -> bool {
        self.write - self.published_to >= PUBLISH_BYTES.min(self.size / 8).max(1)
    }

    /// Whether payloads wait in the active buffer.
    pub(super) fn has_pending(&self) -> bool {
        self.pending != 0
    }

    /// Announces the active buffer's payloads, before its entry is published: the reference's host expects that.
    pub(super) fn announce(&self, mem: &Mem) {
        mem.u64_at(ARENA.published).store(self.published + self.pending, Relaxed);
    }

    /// The active buffer was published, or was not.
    pub(super) fn settle(&mut self, mem: &Mem, sent: bool) {
        if sent {
            self.published += self.pending;
            self.published_to = self.write;
            self.pending = 0;
        }
        mem.u64_at(ARENA.published).store(self.published, Relaxed);
    }

    /// Whether a payload of `bytes` can have room only after the active buffer's payloads were saved.
    pub(super) fn needs_pending(&self, bytes: u64) -> bool {
        let end = self.start(bytes) + bytes;
        // With nothing left to save, a gap is no hindrance.
        let saved = end.saturating_sub(self.size).min(self.write);
        self.pending != 0 && (!self.acknowledges || saved > self.published_to)
    }

    /// Asks the host whether a payload of `bytes` has room now. What has been published can get it; nothing else.
    pub(super) fn ask(&mut self, mem: &Mem, gate: Gate<'_>, bytes: u64) -> bool {
        let start = self.start(bytes);
        let end = start + bytes;
        if self.acknowledges {
            // SYNC POINT: host saved the bytes (host-drain, args dump: acknowledge); they may be overwritten.
            // Whatever the word says: nobody can have saved what was not published.
            let saved = fence::observe(mem.u64_at(ARENA.acknowledged)).min(self.published_to);
            // With nothing left to save, a gap is no hindrance.
            let limit = if saved == self.write { start + self.size } else { saved + self.size };
            self.limit = self.limit.max(limit);
            return end <= self.limit;
        }
        // The reference's host sets a freeze before it clears the request, saves everything, and lets go. Relaxed: the
        // freeze asks for a pause and guards nothing.
        let still = gate.0.fq_contended.load(Relaxed) == 0 && gate.0.fq_freeze_active.load(Relaxed) == 0;
        // SYNC POINT: the host counts a payload once it has saved it; it may be overwritten.
        let saved =
            still && fence::observe(mem.u64_at(ARENA.completed)) >= self.published && self.pending == 0;
        if saved {
            self.limit = start + self.size;
        }
        saved
    }

    /// Asks for a full stop, if that is how this host gives room.
    pub(super) fn plead(&self, gate: Gate<'_>) {
        if !self.acknowledges {
            gate.0.fq_contended.store(1, Relaxed);
        }
    }

    /// What the host has done for this arena so far; changes as long as it lives.
    pub(super) fn progress(&self, mem: &Mem) -> u64 {
        // Relaxed: a sign of life, on which nothing is written.
        mem.u64_at(if self.acknowledges { ARENA.acknowledged } else { ARENA.completed }).load(Relaxed)
    }

    /// Remembers a wait in vain.
    pub(super) fn give_up(&mut self, mem: &Mem) {
        self.given_up = Some(self.progress(mem));
    }

    /// What is to be hoped for, after what was waited for in vain.
    pub(super) fn hope(&mut self, mem: &Mem) -> Hope {
        match self.given_up {
            None => Hope::Fair,
            Some(then) if then == self.progress(mem) => Hope::None,
            Some(_) => {
                self.given_up = None;
                Hope::Back
            }
        }
    }
}

/// Whether a wait for the host can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hope {
    /// There is no reason to think otherwise.
    Fair,
    /// It had been waited for in vain, and has moved since.
    Back,
    /// It had been waited for in vain, and has not moved since.
    None,
}

/// The words of the freeze.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a>(&'a BackpressureHeader);

impl Gate<'_> {
    /// The freeze at `offset` of the region at `base`.
    ///
    /// # Safety
    /// It lies there, and outlives the result.
    pub(super) unsafe fn new<'a>(base: DeviceAddr, offset: usize) -> Gate<'a> {
        // SAFETY: the caller's contract.
        Gate(unsafe { word(base, offset) })
    }
}

const _: () =
    assert!(ARENA.saved_bytes + 8 <= ARGS_DUMP_LANE.bytes && BufferLayout::args_dump().record_bytes == 128);
