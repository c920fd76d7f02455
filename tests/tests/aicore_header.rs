//! Issue 6, point 2: `ffi/include/dfx_aicore.h` and the Rust recorders leave the same memory for the same calls.
//!
//! Both work on the same block of memory, one after the other, so that the images are comparable to the last byte,
//! addresses included.

#[path = "aicore_header/facts.rs"]
mod facts;
#[path = "aicore_header/pmu.rs"]
mod pmu;

use dfx_collector::abi::layout::BufferLayout;
use dfx_collector::abi::swimlane::{ActiveHead, BufferKind, CORE_RECORDS, CoreRecord};
use dfx_collector::abi::{flags, token};
use dfx_collector::swimlane::{CoreRecorder, Slot};
use dfx_collector::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use dfx_mock::region::Memory;
use dfx_tests::glue::{self, Cache, Flavor, Glue, cache_events};
use proptest::prelude::*;
use proptest::sample::Index;

const BUFFERS: usize = 3;
/// Where things lie in the block that is compared, with bytes between them that nobody may touch.
const ENTRY: usize = 64;
const HEAD: usize = 256;

const fn buffer_at(index: usize) -> usize {
    1024 + index * (BufferLayout::swimlane(BufferKind::AicoreTask).bytes + 192)
}

/// A block of memory in which every byte is something.
fn block(bytes: usize) -> Memory {
    let memory = Memory::new(bytes);
    dirty(&memory, bytes);
    memory
}

fn dirty(memory: &Memory, bytes: usize) {
    for at in (0..bytes).step_by(8) {
        wide(memory, at).store((at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), Relaxed);
    }
}

fn wide(memory: &Memory, at: usize) -> &AtomicU64 {
    // SAFETY: an atomic; what is written beside it is written by this thread's recorders.
    unsafe { memory.at(at) }
}

fn word(memory: &Memory, at: usize) -> &AtomicU32 {
    // SAFETY: as above.
    unsafe { memory.at(at) }
}

/// Numbers with their ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![2 => any::<u64>(), 1 => 0..4u64, 1 => (u64::MAX - 3)..=u64::MAX, 1 => any::<u32>().prop_map(u64::from)]
}

fn token_value() -> impl Strategy<Value = u32> {
    prop_oneof![2 => any::<u32>(), 2 => 0..6u32, 1 => token::EXIT_SIGNAL - 3..=token::MASK, 1 => Just(u32::MAX)]
}

/// What happens to a core of the swimlane.
#[derive(Clone, Debug)]
enum Op {
    /// A launch: the recorder is opened anew.
    Open,
    /// The entry names the head, or nothing.
    Table(bool),
    /// The look-up ahead of the first task.
    Resolve,
    /// AICPU activates a buffer, or none: pointer, then number.
    Rotate(Option<usize>, Seq),
    /// The pointer alone changes.
    Pointer(Option<usize>),
    /// A task is about to be acknowledged.
    Reserve,
    /// One of the tasks that have a slot, or had none, commits.
    Commit { which: Index, start: u64, end: u64, task: u64, token: u32, receive: u64 },
    /// So many tasks from beginning to end.
    Run(u32),
}

/// The number of a rotation.
#[derive(Clone, Debug)]
enum Seq {
    Next,
    Same,
    Is(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let buffer = || prop::option::weighted(0.8, 0..BUFFERS);
    let seq = prop_oneof![
        5 => Just(Seq::Next),
        1 => Just(Seq::Same),
        1 => prop_oneof![Just(0), Just(u32::MAX), any::<u32>()].prop_map(Seq::Is),
    ];
    let commit = (any::<Index>(), number(), number(), number(), token_value(), number()).prop_map(
        |(which, start, end, task, token, receive)| Op::Commit { which, start, end, task, token, receive },
    );
    prop_oneof![
        1 => Just(Op::Open),
        1 => prop::bool::weighted(0.8).prop_map(Op::Table),
        1 => Just(Op::Resolve),
        4 => (buffer(), seq).prop_map(|(buffer, seq)| Op::Rotate(buffer, seq)),
        1 => buffer().prop_map(Op::Pointer),
        8 => Just(Op::Reserve),
        8 => commit,
        2 => prop_oneof![1..8u32, 1000..1100u32].prop_map(Op::Run),
    ]
}

/// A recorder under comparison.
trait Core {
    type Slot: Copy;
    fn open(&mut self, entry: u64);
    fn resolve(&mut self) -> bool;
    fn reserve(&mut self) -> (Self::Slot, bool);
    fn commit(&mut self, slot: Self::Slot, start: u64, end: u64, task: u64, token: u32, receive: u64);
}

/// The Rust recorder, looked up when it is needed.
#[derive(Default)]
struct InRust {
    entry: u64,
    recorder: Option<CoreRecorder>,
}

impl Core for InRust {
    type Slot = Slot;
    fn open(&mut self, entry: u64) {
        *self = InRust { entry, recorder: None };
    }
    fn resolve(&mut self) -> bool {
        if self.recorder.is_none() {
            // SAFETY: the entry is in the block, and the head that it may name too; there is one recorder.
            self.recorder =
                unsafe { CoreRecorder::attach(std::ptr::with_exposed_provenance(self.entry as usize)) };
        }
        self.recorder.is_some()
    }
    fn reserve(&mut self) -> (Slot, bool) {
        self.resolve();
        let slot = self.recorder.as_mut().map_or(Slot::NONE, CoreRecorder::reserve);
        (slot, slot.is_some())
    }
    fn commit(&mut self, slot: Slot, start: u64, end: u64, task: u64, token: u32, receive: u64) {
        // SAFETY: reserved in a buffer of the block, which only this thread looks at; committed once.
        unsafe { CoreRecorder::commit(slot, start, end, task, token, receive) }
    }
}

struct InC {
    glue: &'static Glue,
    recorder: glue::CoreRecorder,
}

impl InC {
    fn new(glue: &'static Glue) -> Self {
        // SAFETY: no entry.
        InC { glue, recorder: unsafe { glue::CoreRecorder::open(glue, 0) } }
    }
}

impl Core for InC {
    type Slot = u64;
    fn open(&mut self, entry: u64) {
        // SAFETY: as for the Rust one.
        self.recorder = unsafe { glue::CoreRecorder::open(self.glue, entry) };
    }
    fn resolve(&mut self) -> bool {
        self.recorder.resolve()
    }
    fn reserve(&mut self) -> (u64, bool) {
        let slot = self.recorder.reserve();
        (slot, slot != 0)
    }
    fn commit(&mut self, slot: u64, start: u64, end: u64, task: u64, token: u32, receive: u64) {
        // SAFETY: as for the Rust one.
        unsafe { self.glue.commit(slot, start, end, task, token, receive) }
    }
}

/// Plays `ops` on a fresh block: what was answered, and all bytes.
fn play<C: Core>(memory: &Memory, core: &mut C, ops: &[Op]) -> (Vec<bool>, Vec<u8>) {
    let bytes = buffer_at(BUFFERS);
    dirty(memory, bytes);
    let address = |buffer: Option<usize>| buffer.map_or(0, |index| memory.addr(buffer_at(index)).0);
    let entry = wide(memory, ENTRY);
    let pointer = wide(memory, HEAD + std::mem::offset_of!(ActiveHead, current_buf_ptr));
    let number = word(memory, HEAD + std::mem::offset_of!(ActiveHead, current_buf_seq));
    entry.store(memory.addr(HEAD).0, Relaxed);
    pointer.store(address(Some(0)), Relaxed);
    number.store(0, Relaxed);
    core.open(memory.addr(ENTRY).0);
    let (mut answers, mut slots) = (Vec::new(), Vec::new());
    for op in ops {
        match op {
            Op::Open => core.open(memory.addr(ENTRY).0),
            Op::Table(there) => entry.store(if *there { memory.addr(HEAD).0 } else { 0 }, Relaxed),
            Op::Resolve => answers.push(core.resolve()),
            Op::Rotate(buffer, seq) => {
                pointer.store(address(*buffer), Relaxed);
                let now = number.load(Relaxed);
                number.store(
                    match seq {
                        Seq::Next => now.wrapping_add(1),
                        Seq::Same => now,
                        Seq::Is(value) => *value,
                    },
                    Relaxed,
                );
            }
            Op::Pointer(buffer) => pointer.store(address(*buffer), Relaxed),
            Op::Reserve => {
                let (slot, there) = core.reserve();
                answers.push(there);
                slots.push(slot);
            }
            Op::Commit { which, start, end, task, token, receive } => {
                if !slots.is_empty() {
                    let slot = slots.swap_remove(which.index(slots.len()));
                    core.commit(slot, *start, *end, *task, *token, *receive);
                }
            }
            Op::Run(tasks) => {
                for n in 0..*tasks {
                    let (slot, there) = core.reserve();
                    answers.push(there);
                    let at = u64::from(n);
                    core.commit(slot, at + 10, at + 20, at << 32 | 7, n, at);
                }
            }
        }
    }
    (answers, memory.bytes(0..bytes))
}

proptest! {
    #[test]
    fn the_header_and_the_rust_recorder_leave_the_same_bytes(ops in prop::collection::vec(op(), 0..60)) {
        let memory = block(buffer_at(BUFFERS));
        let expected = play(&memory, &mut InRust::default(), &ops);
        for flavor in Flavor::PLAIN {
            for glue in Glue::all(flavor, None) {
                let got = play(&memory, &mut InC::new(glue), &ops);
                prop_assert_eq!(&got.0, &expected.0, "{:?}", glue);
                let odd = got.1.iter().zip(&expected.1).position(|(got, expected)| got != expected);
                prop_assert_eq!(odd, None, "{:?}: the first byte that differs", glue);
            }
        }
    }
}

/// The comparison above would see a record, and one byte of it.
#[test]
fn the_comparison_sees_what_is_written() {
    let memory = block(buffer_at(BUFFERS));
    let run = |ops: &[Op]| play(&memory, &mut InRust::default(), ops);
    let (answers, bytes) = run(&[Op::Run(1100)]);
    assert_eq!(answers.iter().filter(|there| **there).count(), CORE_RECORDS);
    let untouched = run(&[]).1;
    let changed = bytes.iter().zip(&untouched).filter(|(now, before)| now != before).count();
    assert!(changed > CORE_RECORDS * 20, "{changed}");
    assert_eq!(bytes[..buffer_at(0)], untouched[..buffer_at(0)], "a core writes neither table nor head");
    assert_eq!(
        bytes[buffer_at(0) + CORE_RECORDS * size_of::<CoreRecord>()..],
        untouched[buffer_at(0) + 32768..]
    );
}

#[test]
fn a_cache_that_is_not_coherent_is_told_what_to_drop_and_what_to_write_back() {
    let memory = block(buffer_at(1));
    let (entry, head, row) = (memory.addr(ENTRY).0, memory.addr(HEAD).0, memory.addr(buffer_at(0)).0);
    wide(&memory, ENTRY).store(head, Relaxed);
    wide(&memory, HEAD).store(row, Relaxed);
    word(&memory, HEAD + 8).store(0, Relaxed);
    for glue in Glue::all(Flavor::Hooks, Some("A5")) {
        // SAFETY: entry, head and buffer are in the block.
        let mut core = unsafe { glue::CoreRecorder::open(glue, entry) };
        let mut slots = Vec::new();
        let reserved = cache_events(|| slots.extend([core.reserve(), core.reserve()]));
        assert_eq!(slots, [row, row + 32]);
        assert_eq!(reserved, [Cache::In(entry), Cache::In(head), Cache::In(head)], "{glue:?}");
        // SAFETY: reserved above.
        let committed = cache_events(|| unsafe { glue.commit(slots[1], 1, 2, 3, 4, 0) });
        assert_eq!(committed, [Cache::Out(row + 32), Cache::Barrier], "{glue:?}");
        // SAFETY: no slot.
        let nothing = cache_events(|| unsafe { glue.commit(0, 1, 2, 3, 4, 0) });
        assert_eq!(nothing, [], "{glue:?}: nothing was written");
    }
}

#[test]
fn a_recorder_without_an_entry_reserves_nothing() {
    for glue in Glue::all(Flavor::Sanitized, None) {
        // SAFETY: no entry.
        let mut core = unsafe { glue::CoreRecorder::open(glue, 0) };
        assert!(!core.resolve(), "{glue:?}");
        assert_eq!(core.reserve(), 0, "{glue:?}");
    }
}

#[test]
fn a_core_finds_its_entry_only_when_its_feature_is_on() {
    for glue in Glue::all(Flavor::Atomics, None) {
        let all = flags::CHIP_SWIMLANE | flags::PMU | flags::DUMP_ARGS;
        assert_eq!(glue.entry(0x1_0000_0000, 107, all, flags::CHIP_SWIMLANE), 0x1_0000_0000 + 8 * 107);
        assert_eq!(glue.entry(0x1000, 0, all & !flags::PMU, flags::PMU), 0);
        assert_eq!(glue.entry(0, 3, all, flags::PMU), 0);
        assert_eq!(glue.entry(u64::MAX - 7, 0, all, flags::PMU), u64::MAX - 7);
    }
}
