//! The orchestrator's rings: what each scope depth has in flight, as the scope statistics see it.
//!
//! A task occupies a place in its ring's window, the buffers that it creates a stretch of the ring's heap, and its
//! predecessors entries of the ring's dependency pool, from its submit until it and every earlier task of the ring have
//! completed. Heap offsets run round: each time one passes the end, the runtime says so.

use super::edges::Edges;
use super::shared::Shared;
use crate::program::{Arg, Submit};
pub(super) use dfx_collector::abi::scope_stats::HeapSide;
use dfx_collector::scope_stats::Sample;
use std::collections::VecDeque;

/// Tasks that a ring's window holds, as it is reported.
const WINDOW: i32 = 16_384;
/// Entries of a ring's dependency pool.
const DEP_POOL: i32 = 16_384;
/// Entries of the tensor map.
pub const TENSOR_MAP: i32 = 65_536;
/// Alignment of an allocation in a ring's heap, in bytes.
const ALIGN: u64 = 1024;

/// What a ring can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingCapacity {
    /// Tasks.
    pub window: i32,
    /// Bytes of heap.
    pub heap: u64,
    /// Entries of the dependency pool.
    pub dep_pool: i32,
}

#[derive(Debug)]
struct Live {
    submit: u32,
    bytes: u64,
    deps: i32,
}

#[derive(Debug)]
struct Ring {
    live: VecDeque<Live>,
    first: i32,
    next: i32,
    reclaimed: u64,
    allocated: u64,
    dep_first: i32,
    dep_next: i32,
}

/// All rings.
pub(super) struct Rings<'a> {
    shared: &'a Shared,
    heap: u64,
    rings: [Ring; super::plan::RINGS],
    /// Live entries of the tensor map.
    pub(super) tensormap: i32,
}

impl<'a> Rings<'a> {
    /// Empty rings with `heap` bytes of heap each.
    pub(super) fn new(shared: &'a Shared, heap: u64) -> Self {
        let ring = || Ring {
            live: VecDeque::new(),
            first: 0,
            next: 0,
            reclaimed: 0,
            allocated: 0,
            dep_first: 1,
            dep_next: 1,
        };
        Rings { shared, heap: heap.max(ALIGN), rings: std::array::from_fn(|_| ring()), tensormap: 0 }
    }

    /// What a ring can hold.
    pub(super) fn capacity(&self) -> RingCapacity {
        RingCapacity { window: WINDOW, heap: self.heap, dep_pool: DEP_POOL }
    }

    /// Gives back what the completed tasks at `ring`'s front held, one heap wrap at a time through `wrapped`.
    pub(super) fn reclaim(&mut self, ring: usize, mut wrapped: impl FnMut(HeapSide)) {
        let (states, heap) = (&self.shared.states, self.heap);
        let ring = &mut self.rings[ring];
        while let Some(live) = ring.live.front() {
            if !Edges::taken(&states[live.submit as usize].consumers) {
                break;
            }
            ring.first += 1;
            ring.dep_first += live.deps;
            advance(&mut ring.reclaimed, live.bytes, heap, || wrapped(HeapSide::Reclaim));
            ring.live.pop_front();
        }
    }

    /// Bytes of heap that `submit` needs.
    pub(super) fn bytes_of(&self, submit: &Submit) -> u64 {
        let program = &self.shared.plan.program;
        let created = submit.args.iter().filter_map(|arg| match arg {
            Arg::Out(tensor) => Some(program.tensors[tensor.0 as usize].buffer),
            _ => None,
        });
        created.map(|buffer| program.buffers[buffer.0 as usize].bytes.next_multiple_of(ALIGN)).sum()
    }

    /// Whether `bytes` more fit into `ring`'s heap. What is larger than the whole heap goes into an empty one.
    pub(super) fn fits(&self, ring: usize, bytes: u64) -> bool {
        let ring = &self.rings[ring];
        let live = ring.allocated - ring.reclaimed;
        live == 0 || live + bytes <= self.heap
    }

    /// `submit` takes its places in `ring`.
    pub(super) fn take(
        &mut self,
        ring: usize,
        submit: &Submit,
        bytes: u64,
        deps: usize,
        mut wrapped: impl FnMut(HeapSide),
    ) {
        let heap = self.heap;
        let ring = &mut self.rings[ring];
        let deps = deps as i32;
        ring.live.push_back(Live { submit: submit.id.0, bytes, deps });
        ring.next += 1;
        ring.dep_next += deps;
        advance(&mut ring.allocated, bytes, heap, || wrapped(HeapSide::Alloc));
    }

    /// `ring` as it stands.
    pub(super) fn state(&self, ring: usize) -> Sample {
        let place = &self.rings[ring];
        Sample {
            ring: ring as i32,
            task_start: place.first,
            task_end: place.next,
            heap_start: place.reclaimed % self.heap,
            heap_end: place.allocated % self.heap,
            dep_start: place.dep_first,
            dep_end: place.dep_next,
            tensormap: self.tensormap,
        }
    }
}

/// Moves a heap pointer on, and reports each time that it passes the heap's end.
fn advance(pointer: &mut u64, bytes: u64, heap: u64, mut wrapped: impl FnMut()) {
    let before = *pointer / heap;
    *pointer += bytes;
    (before..*pointer / heap).for_each(|_| wrapped());
}
