//! The hand that writes: pieces of payload go into the file beside whoever plans them.
//!
//! ```text
//! plan (collect's thread) ─▶ todo ─▶ write (its own thread) ─▶ done ─▶ land: settle, acknowledge (collect's thread)
//! ```
//!
//! A write that blocks holds up the writer alone: the collector goes on taking what other lanes deliver. Pieces are written
//! one at a time in the order in which they were handed over, and come back in that order. Where payload must be copied
//! first, the writer copies it itself: it still lies in its processor's cache when it is written.

use crate::artifact::Sheet;
use crate::transport::{SpillError, Transport};
use crate::workers::Bell;
use crossbeam_queue::ArrayQueue;
use dfx_collector::abi::DeviceAddr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pieces that are on their way at once: enough to write for as long as whoever plans may have to wait for a processor.
pub(super) const IN_FLIGHT: usize = 64;
/// Pieces that are written before whoever planned them is told, as long as there are others to write.
const LAND_AT: usize = 8;
/// Times that a transfer is tried.
const ATTEMPTS: u32 = 5;
/// What is waited before a second attempt; before later ones, as many times longer.
const PAUSE: Duration = Duration::from_micros(100);

/// A range of device memory, and its place in the file.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) sheet: Arc<Sheet>,
    pub(super) place: u64,
    pub(super) at: DeviceAddr,
    pub(super) bytes: u64,
}

/// What became of a piece.
pub(super) type Written = Result<(), SpillError>;

/// Writes pieces, for whoever calls [`step`](Self::step).
pub(crate) struct Pen {
    transport: Arc<dyn Transport>,
    todo: ArrayQueue<Piece>,
    done: ArrayQueue<Written>,
    /// Held while a piece is written: with two writers, pieces would come back in another order.
    hand: Mutex<Hand>,
    /// Whether a writer died: nobody knows whether there is another.
    dead: AtomicBool,
    /// Wakes the writer, and whoever plans.
    writer: Arc<Bell>,
    planner: Arc<Bell>,
}

impl Pen {
    pub(crate) fn new(transport: Arc<dyn Transport>, writer: Arc<Bell>, planner: Arc<Bell>) -> Pen {
        Pen {
            transport,
            todo: ArrayQueue::new(IN_FLIGHT),
            done: ArrayQueue::new(IN_FLIGHT),
            hand: Mutex::default(),
            dead: AtomicBool::new(false),
            writer,
            planner,
        }
    }

    /// Hands a piece over; at most [`IN_FLIGHT`] may be out.
    pub(super) fn hand(&self, piece: Piece) {
        let kept = self.todo.push(piece);
        debug_assert!(kept.is_ok(), "more pieces than the planner allows itself");
        self.writer.ring();
    }

    /// What became of the oldest piece that is out, once it is known.
    pub(super) fn written(&self) -> Option<Written> {
        self.done.pop()
    }

    /// Whether a writer died with a piece in hand: whoever plans has to move the pen then.
    pub(super) fn is_dead(&self) -> bool {
        // Relaxed: the piece comes back through the queue.
        self.dead.load(Ordering::Relaxed)
    }

    /// Writes one piece, if there is one. Returns how many.
    pub(crate) fn step(&self) -> u32 {
        let mut hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piece) = self.todo.pop() else { return 0 };
        let died = io::Error::other("the thread that wrote it panicked");
        let mut hold = Hold { pen: self, written: Err(died.into()) };
        hold.written = self.write(&piece, &mut hand);
        1
    }

    fn write(&self, &Piece { ref sheet, place, at, bytes }: &Piece, hand: &mut Hand) -> Written {
        let attempts = if hand.failing { 1 } else { ATTEMPTS };
        let mut written = self.transport.spill(at, bytes, &mut hand.block, sheet.file(), place);
        for n in 1..attempts {
            let Err(SpillError::Device(error)) = &written else { break };
            tracing::debug!(%error, "dumped payload could not be transferred; trying again");
            std::thread::sleep(PAUSE * n);
            written = self.transport.spill(at, bytes, &mut hand.block, sheet.file(), place);
        }
        hand.failing = matches!(written, Err(SpillError::Device(_)));
        if written.is_ok() {
            sheet.ask_ahead(place + bytes);
        }
        written
    }
}

/// What one needs to write.
#[derive(Default)]
struct Hand {
    /// For payload that must be copied.
    block: Vec<u8>,
    /// Whether the last transfer failed for good: a way that is broken is not tried many times for each piece.
    failing: bool,
}

/// A piece that is being written: word of it comes back, whatever happens.
struct Hold<'a> {
    pen: &'a Pen,
    written: Written,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let died = std::thread::panicking();
        if died {
            self.pen.dead.store(true, Ordering::Relaxed);
        }
        let kept = self.pen.done.push(std::mem::replace(&mut self.written, Ok(())));
        debug_assert!(kept.is_ok(), "as many places as pieces");
        // Not for each: to wake somebody costs a part of what a piece does.
        if died || self.pen.todo.is_empty() || self.pen.done.len() >= LAND_AT {
            self.pen.planner.ring();
        }
    }
}
