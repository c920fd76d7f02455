//! What has not changed is not sent again, and what has changed is.

#[path = "plain/args_dump.rs"]
mod args_dump;
mod plain;

use args_dump::{Dump, Host, Shape, TICKS_PER_MS, Tensor, flush, record};
use dfx_collector::abi::args_dump::{FLAG_REFERENCE, Info};
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::tensor::DataType;
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use dfx_mock::scaled;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// What a thread's arena holds.
const ROOM: u32 = scaled(1 << 16, 1 << 12);

fn launch(shape: Shape) -> (Host, Dump<ScriptClock>, ScriptClock) {
    let host = Host::new(Shape { dedup: true, ..shape });
    let clock = ScriptClock::new(0, TICKS_PER_MS / 10);
    let dump = host.launch(clock.clone());
    (host, dump, clock)
}

/// Which of the saved records refer to an earlier one.
fn references(host: &Host) -> Vec<bool> {
    host.saved.iter().map(|saved| saved.record.flags & FLAG_REFERENCE != 0).collect()
}

#[test]
fn an_unchanged_tensor_is_a_reference_and_a_changed_byte_makes_a_new_payload() {
    for len in [1, 7, 64, 240, 241, scaled(5000, 500), scaled(20_000, 1100), scaled(50_001, 2001)] {
        let mut random = SmallRng::seed_from_u64(len.into());
        let (mut host, dump, _) = launch(Shape { arena: 1 << 20, ..Shape::SMALL });
        let tensor = Tensor::dense(&mut random, DataType::Uint8, &[len]);
        let mut oracles = Vec::new();
        for round in 0..6 {
            if round % 3 == 2 {
                let at = (tensor.info.buffer_addr - tensor.memory.addr(0).0) as usize;
                let at = at + random.random_range(0..len as usize);
                tensor.poke(at, tensor.memory.bytes(at..at + 1)[0] ^ 1 << random.random_range(0..8));
            }
            oracles.push(tensor.oracle());
            assert!(record(&dump, 0, &tensor.info));
        }
        flush(&dump, 0);
        host.finish(false);
        assert_eq!(references(&host), [false, true, false, true, true, false], "{len} bytes");
        assert!(host.saved.iter().map(|saved| &saved.bytes).eq(&oracles));
        assert_eq!(host.word(0, ARENA.saved_bytes), 3 * u64::from(len));
        assert_eq!(host.word(0, ARENA.write_offset), 3 * u64::from(len), "a reference takes no arena");
        host.balance(0);
    }
}

#[test]
fn another_view_of_the_same_bytes_is_not_the_same_tensor() {
    let mut random = SmallRng::seed_from_u64(2);
    let (mut host, dump, _) = launch(Shape::SMALL);
    let tensor = Tensor::new(&mut random, DataType::Uint8, &[8, 8], &[8, 1], 0);
    let same = tensor.info;
    let views = [
        same,
        Info { shapes: [64, 0, 0, 0, 0], strides: [1, 0, 0, 0, 0], ndims: 1, ..same },
        Info { shapes: [4, 16, 0, 0, 0], strides: [16, 1, 0, 0, 0], ..same },
        Info { strides: [1, 8, 0, 0, 0], ..same },
        Info { dtype: DataType::Int8 as u8, ..same },
        Info { shapes: [7, 8, 0, 0, 0], start_offset: 8, ..same },
        Info { shapes: [7, 8, 0, 0, 0], buffer_addr: same.buffer_addr + 8, ..same },
    ];
    for _ in 0..2 {
        for view in &views {
            assert!(record(&dump, 0, view));
        }
    }
    flush(&dump, 0);
    host.finish(false);
    let [first, second] = [false, true].map(|refers| vec![refers; views.len()]);
    assert_eq!(references(&host), [first, second].concat());
    for at in 0..views.len() {
        assert_eq!(host.saved[at].bytes, host.saved[at + views.len()].bytes);
    }
    // Task, role, stage and index are not part of what a tensor is; what lies behind `ndims` neither.
    let mut again = Info { task_id: 9, role: 2, stage: 1, arg_index: 3, ..same };
    again.shapes[4] = 77;
    assert!(record(&dump, 0, &again));
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(references(&host).last(), Some(&true));
}

#[test]
fn a_reference_needs_no_room_and_no_wait() {
    let (mut host, dump, clock) = launch(Shape { arena: ROOM as usize, ..Shape::SMALL });
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(3), DataType::Uint8, &[ROOM / 2]);
    let other = Tensor::dense(&mut SmallRng::seed_from_u64(4), DataType::Uint8, &[ROOM / 2]);
    for info in [&tensor.info, &other.info, &tensor.info, &other.info, &tensor.info] {
        assert!(record(&dump, 0, info));
    }
    assert_eq!(clock.relaxes(), 0, "though the arena is full");
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(references(&host), [false, false, true, true, true]);
    host.balance(0);
}

#[test]
fn what_was_shed_or_truncated_is_never_named() {
    let budget = Some(Budget { wait_ms: 0, total_ms: 0 });
    let (mut host, dump, _) = launch(Shape { budget, arena: ROOM as usize, ..Shape::SMALL });
    let mut random = SmallRng::seed_from_u64(5);
    let filler = Tensor::dense(&mut random, DataType::Uint8, &[ROOM]);
    let tensor = Tensor::dense(&mut random, DataType::Uint8, &[ROOM / 64]);
    let huge = Tensor::dense(&mut random, DataType::Uint8, &[2 * ROOM]);
    for info in [&filler.info, &tensor.info, &tensor.info] {
        assert!(record(&dump, 0, info));
    }
    flush(&dump, 0);
    host.finish(false);
    for info in [&tensor.info, &tensor.info] {
        assert!(record(&dump, 0, info));
    }
    flush(&dump, 0);
    host.finish(false);
    for info in [&huge.info, &huge.info] {
        assert!(record(&dump, 0, info));
        flush(&dump, 0);
        host.finish(false);
    }
    assert_eq!(references(&host), [false, false, false, false, true, false, false]);
    assert_eq!(host.count(0, ARENA.shed_records), 2, "twice the same, and there was nothing to name");
    assert_eq!(host.saved[4].bytes, tensor.oracle());
    let truncated: Vec<u8> = host.saved.iter().map(|saved| saved.record.truncated).collect();
    assert_eq!(truncated, [0, 1, 1, 0, 0, 1, 1]);
    host.balance(0);
}

#[test]
fn after_a_shed_change_the_older_content_may_be_named_again_and_is_right() {
    let budget = Some(Budget { wait_ms: 0, total_ms: 0 });
    let (mut host, dump, _) = launch(Shape { budget, arena: 4096, ..Shape::SMALL });
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(6), DataType::Uint8, &[4096]);
    let at = (tensor.info.buffer_addr - tensor.memory.addr(0).0) as usize;
    let byte = tensor.memory.bytes(at..at + 1)[0];
    let old = tensor.oracle();
    assert!(record(&dump, 0, &tensor.info));
    tensor.poke(at, byte ^ 1);
    assert!(record(&dump, 0, &tensor.info));
    tensor.poke(at, byte);
    assert!(record(&dump, 0, &tensor.info));
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(references(&host), [false, false, true]);
    assert!(host.saved[1].bytes.is_empty() && host.saved[1].record.truncated == 1);
    assert_eq!(host.saved[2].bytes, old);
    host.balance(0);
}

#[test]
fn more_tensors_than_a_thread_remembers_are_sent_again_and_stay_right() {
    let mut random = SmallRng::seed_from_u64(7);
    let (mut host, dump, _) = launch(Shape { arena: 1 << 22, threads: 2, ..Shape::SMALL });
    let big = Tensor::dense(&mut random, DataType::Uint8, &[40_000]);
    let view = |at: u64| Info { shapes: [16, 0, 0, 0, 0], start_offset: at, ..big.info() };
    let oracle = big.oracle();
    for _ in 0..2 {
        for at in 0..scaled(6000, 80).into() {
            for thread in 0..2 {
                assert!(record(&dump, thread, &view(at)));
            }
            if at % 20 == 19 {
                host.take();
                (0..2).for_each(|thread| host.save(thread, usize::MAX));
            }
        }
    }
    (0..2).for_each(|thread| flush(&dump, thread));
    host.finish(false);
    for saved in &host.saved {
        let at = saved.record.start_offset as usize;
        assert_eq!(saved.bytes, oracle[at..at + 16]);
    }
    assert!(host.count(0, ARENA.saved_records) > scaled(500, 8));
    host.balance(0);
    host.balance(1);
}

#[test]
fn nothing_is_a_reference_across_launches_or_when_the_host_does_not_want_it() {
    let tensor = Tensor::dense(&mut SmallRng::seed_from_u64(8), DataType::Float32, &[4, 4]);
    let (mut host, dump, clock) = launch(Shape::SMALL);
    assert!(record(&dump, 0, &tensor.info));
    flush(&dump, 0);
    host.finish(false);
    // SAFETY: nothing else runs, and the region is one.
    unsafe { dump.init(host.shape.geometry, host.rig.base(), 1, Some(clock.peek())) }.expect("a region");
    assert!(record(&dump, 0, &tensor.info));
    flush(&dump, 0);
    host.finish(false);
    assert_eq!(references(&host), [false, false]);
    for (dedup, budget) in [(false, Shape::SMALL.budget), (true, None)] {
        let mut host = Host::new(Shape { dedup, budget, ..Shape::SMALL });
        let dump = host.launch(ScriptClock::new(0, 1));
        (0..3).for_each(|_| assert!(record(&dump, 0, &tensor.info)));
        flush(&dump, 0);
        host.finish(false);
        assert_eq!(references(&host), [false; 3]);
    }
}
