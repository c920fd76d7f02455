//! The hand that writes: pieces of payload go into the file beside whoever plans them.
//!
//! ```text
//! plan, stage (collect's thread) ─▶ todo ─▶ write (its own thread) ─▶ done ─▶ land: settle, acknowledge (collect's thread)
//! ```
//!
//! A write that blocks holds up the writer alone: the collector goes on taking what other lanes deliver, and where payload
//! must be copied first, one piece is copied while another is written. Pieces are written one at a time in the order in
//! which they were handed over, and come back in that order.

use crate::transport::Transport;
use crate::workers::Bell;
use crossbeam_queue::ArrayQueue;
use dfx_collector::abi::DeviceAddr;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces that are on their way at once: one that is written, one that is ready, and time to wake up for whoever stages.
pub(super) const IN_FLIGHT: usize = 4;

/// A range of device memory, staged, and its place in the file.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) file: Arc<File>,
    pub(super) place: u64,
    pub(super) at: DeviceAddr,
    pub(super) bytes: u64,
    /// The range's bytes, where the host can't reach them in their own place.
    pub(super) block: Vec<u8>,
}

/// What became of a piece.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) block: Vec<u8>,
    pub(super) result: io::Result<()>,
}

/// Writes pieces, for whoever calls [`step`](Self::step).
pub(crate) struct Pen {
    transport: Arc<dyn Transport>,
    todo: ArrayQueue<Piece>,
    done: ArrayQueue<Written>,
    /// Held while a piece is written: with two writers, pieces would come back in another order.
    writing: Mutex<()>,
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
            writing: Mutex::default(),
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
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Piece { file, place, at, bytes, block }) = self.todo.pop() else { return 0 };
        let mut hold =
            Hold { pen: self, block, result: Err(io::Error::other("the thread that wrote it panicked")) };
        hold.result = self.transport.write_out(at, bytes, &hold.block, &file, place);
        1
    }
}

/// A piece that is being written: it comes back, whatever happens.
struct Hold<'a> {
    pen: &'a Pen,
    block: Vec<u8>,
    result: io::Result<()>,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let died = std::thread::panicking();
        if died {
            self.pen.dead.store(true, Ordering::Relaxed);
        }
        let block = std::mem::take(&mut self.block);
        let result = std::mem::replace(&mut self.result, Ok(()));
        let kept = self.pen.done.push(Written { block, result });
        debug_assert!(kept.is_ok(), "as many places as pieces");
        // Not for each: to wake somebody costs a part of what a piece does.
        if died || self.pen.todo.len() < IN_FLIGHT / 2 {
            self.pen.planner.ring();
        }
    }
}
