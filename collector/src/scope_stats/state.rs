//! What the orchestrator's thread keeps of its scopes.

use super::site::Site;
use super::{CLOSED, NO_RING, STACK, Sample, SampleLane};

/// What is remembered of an open scope.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) site: Site,
    pub(super) ring: i32,
}

impl Frame {
    pub(super) const UNKNOWN: Frame = Frame { site: Site::UNKNOWN, ring: NO_RING };
}

/// The frame that stands in for all beyond the stack.
pub(super) const BEYOND: usize = STACK + 1;

pub(super) struct State {
    pub(super) lane: SampleLane,
    /// Open scopes; the innermost one's depth is one less.
    pub(super) open: u32,
    /// The frame with the site of the next scope, if one was set and looked at; 0 if not. When that scope begins at the
    /// depth for which the site was set, its frame is complete.
    pub(super) pending: u32,
    /// The site of the next scope, when it was set while nothing was recorded: not looked at yet.
    pub(super) raw: Option<(*const u8, i32)>,
    /// Scopes begun at a depth of [`MAX_DEPTH`] and more.
    pub(super) deep: u32,
    /// A sample on its way to the cold path, so that the hot path needs no frame.
    pub(super) dry: Sample,
    /// By open scopes: frame 0 is no scope's, frame 1 the outermost's.
    pub(super) frames: [Frame; BEYOND + 1],
}

impl State {
    pub(super) const IDLE: State = State {
        lane: CLOSED,
        open: 0,
        pending: 0,
        raw: None,
        deep: 0,
        dry: Sample {
            ring: 0,
            task_start: 0,
            task_end: 0,
            heap_start: 0,
            heap_end: 0,
            dep_start: 0,
            dep_end: 0,
            tensormap: 0,
        },
        frames: [Frame::UNKNOWN; BEYOND + 1],
    };
}

/// The frame of the innermost of `open` scopes.
#[inline(always)]
pub(super) fn frame_of(open: u32) -> usize {
    (open as usize).min(BEYOND)
}
