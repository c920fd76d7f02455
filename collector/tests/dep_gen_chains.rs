//! dep_gen's records and chains come back as they were submitted, wherever they fall in a buffer.

#[path = "plain/dep_gen.rs"]
mod dep_gen;
mod plain;

use dep_gen::{BUDGET, balance, bare, decode, launch, plan, small, tensor};
use dfx_collector::abi::dep_gen::{RECORDS, flags};
use dfx_collector::abi::tensor::Tensor;
use dfx_collector::dep_gen::Submit;
use dfx_mock::scaled;
use plain::{PLATFORMS, Rig};
use std::ptr;

fn deps(count: usize, seed: u64) -> Vec<u64> {
    // An interpreter computes a few and repeats them: a prime, so that no slot looks like another.
    let different = (count as u32).min(scaled(u32::MAX, 5003));
    let some: Vec<u64> = (0..different.into()).map(|i: u64| (seed << 32) + i * 7 + 1).collect();
    let mut deps = some.repeat(count.div_ceil(some.len().max(1)));
    deps.truncate(count);
    deps
}

/// Slots of a submit with so many dependencies.
const fn slots(deps: usize) -> usize {
    1 + if deps > 64 { (deps - 64).div_ceil(582) } else { 0 }
}

#[test]
fn explicit_chains_of_every_length_come_back_exactly() {
    for geometry in PLATFORMS {
        let mut rig = Rig::new(plan(geometry), 3, Some(BUDGET));
        let (dep_gen, _) = launch(&rig);
        let lengths = [0, 1, 63, 64, 65, 646, 647, 1228, 1229, 5000];
        for (task, &length) in (0..).zip(&lengths) {
            let deps = deps(length, task);
            // SAFETY: this thread orchestrates.
            unsafe { dep_gen.record_submit(&bare(task, &deps)) };
        }
        // SAFETY: as above.
        unsafe { dep_gen.flush() };
        rig.drain(true);
        let back = decode(&rig.records(0));
        assert_eq!(back.len(), lengths.len());
        for ((task, &length), submit) in (0..).zip(&lengths).zip(&back) {
            assert_eq!((submit.task_id, submit.slots), (task, slots(length)), "{length} dependencies");
            assert!(submit.deps == deps(length, task), "{length} dependencies, in order");
            assert_eq!(submit.flags, if length > 64 { flags::HAS_OVERFLOW } else { 0 });
        }
        let overflow = lengths.iter().map(|&l| slots(l) - 1).sum::<usize>() as u32;
        assert_eq!(balance(&rig), (10, overflow, 0, 0));
        assert_eq!(rig.taken.iter().map(|taken| taken.thread).collect::<Vec<_>>(), [dep_gen::ORCH]);
        rig.check_sequence(0);
    }
}

#[test]
fn a_submit_comes_back_with_its_tensors_kernels_and_flags() {
    let (mut rig, device, _) = small(1);
    let tensors: Vec<Tensor> = (1..=32).map(tensor).collect();
    let mut pointers: Vec<*const Tensor> = tensors.iter().map(ptr::from_ref).collect();
    // An odd address, and none at all.
    let mut odd = vec![0u8; 129];
    // SAFETY: 128 bytes fit behind the first.
    unsafe { odd.as_mut_ptr().add(1).cast::<Tensor>().write_unaligned(tensor(99)) };
    pointers[5] = odd[1..].as_ptr().cast();
    pointers[6] = ptr::null();
    let types: Vec<u8> = (0..32).map(|i| i % 5).collect();
    for (task, count) in [(7, 32), (8, 4), (9, 0)] {
        let submit = Submit {
            task_id: task,
            flags: flags::IN_MANUAL_SCOPE | flags::EARLY_DISPATCH | flags::OVERFLOW | 0xFF00,
            tensors: &pointers[..count],
            arg_types: &types[..count],
            deps: &[5, 6],
            kernel_ids: &[10, -1, 12],
            block_num: -3,
        };
        // SAFETY: this thread orchestrates, and the tensors live.
        unsafe { device.record_submit(&submit) };
    }
    // SAFETY: as above.
    unsafe { device.flush() };
    rig.drain(false);
    let back = decode(&rig.records(0));
    for (submit, count) in back.iter().zip([32, 4, 0]) {
        assert_eq!(
            submit.flags,
            flags::IN_MANUAL_SCOPE | flags::EARLY_DISPATCH,
            "and no bit that is not the caller's"
        );
        assert_eq!((submit.kernel_ids, submit.block_num), ([10, -1, 12], 1));
        assert_eq!(submit.arg_types, types[..count]);
        let mut expected: Vec<Tensor> = tensors[..count].to_vec();
        if count > 6 {
            expected[5] = tensor(99);
            expected[6] = Tensor::default();
        }
        assert_eq!(submit.tensors, expected);
        assert_eq!(submit.deps, [5, 6]);
    }
}

#[test]
fn only_the_live_bytes_of_a_record_are_written() {
    let (mut rig, device, _) = small(1);
    let one = tensor(1);
    let submit = Submit { tensors: &[&raw const one], arg_types: &[2], ..bare(1, &[9]) };
    // SAFETY: this thread orchestrates, and the tensor lives.
    unsafe {
        device.record_submit(&submit);
        device.flush();
    }
    rig.drain(false);
    let bytes = &rig.records(0)[0];
    assert!(bytes[24..528].iter().all(|&byte| byte == 0xA5), "dependencies from the second on");
    assert!(bytes[529..560].iter().all(|&byte| byte == 0xA5), "types from the second on");
    assert!(bytes[576 + 128..].iter().all(|&byte| byte == 0xA5), "tensors from the second on");
}

#[test]
fn a_buffer_is_published_first_when_a_chain_does_not_fit_behind_what_is_in_it() {
    for before in [1, RECORDS as u64 - 4, RECORDS as u64 - 2, RECORDS as u64 - 1] {
        let (mut rig, device, _) = small(3);
        let long = deps(64 + 3 * 582, 1);
        for task in 0..before {
            // SAFETY: this thread orchestrates.
            unsafe { device.record_submit(&bare(task, &[])) };
        }
        // SAFETY: as above.
        unsafe {
            device.record_submit(&bare(before, &long));
            device.record_submit(&bare(before + 1, &[1]));
            device.flush();
        }
        rig.drain(true);
        let fits = before as usize + 4 <= RECORDS;
        let first = rig.taken[0].count as usize;
        assert_eq!(
            first,
            if before == 1 {
                6
            } else if fits {
                RECORDS
            } else {
                before as usize
            },
            "{before}"
        );
        for taken in &rig.taken {
            decode(&taken.records);
        }
        let back = decode(&rig.records(0));
        assert_eq!(back.len() as u64, before + 2);
        assert!(back[before as usize].deps == long);
        assert_eq!(balance(&rig), (before as u32 + 2, 3, 0, 0));
        rig.check_sequence(0);
    }
}

#[test]
fn a_chain_that_fills_a_buffer_exactly_is_whole_and_one_more_dependency_is_cut_and_counted() {
    let fits = 64 + (RECORDS - 1) * 582;
    for more in [0, 1, 582, 583] {
        let (mut rig, device, _) = small(3);
        let all = deps(fits + more, 3);
        // SAFETY: this thread orchestrates.
        unsafe {
            device.record_submit(&bare(1, &[]));
            device.record_submit(&bare(2, &all));
            device.record_submit(&bare(3, &[]));
            device.flush();
        }
        rig.drain(true);
        assert_eq!(rig.taken.iter().map(|taken| taken.count).collect::<Vec<_>>(), [1, RECORDS as u32, 1]);
        let back = decode(&rig.records(0));
        assert!(back[1].deps == all[..fits], "what fits is there, in order, with an end");
        let missing = more.div_ceil(582) as u32;
        let cut = if more > 0 { flags::TRUNCATED } else { 0 };
        assert_eq!(back[1].flags, flags::HAS_OVERFLOW | cut);
        assert_eq!(
            balance(&rig),
            (3, RECORDS as u32 - 1 + missing, missing, u32::from(more > 0)),
            "either host sees drops"
        );
    }
}

#[test]
fn more_tensors_than_a_record_holds_are_cut_and_counted() {
    let (mut rig, device, _) = small(1);
    let one = tensor(1);
    let tensors = [&raw const one; 40];
    // SAFETY: this thread orchestrates, and the tensor lives.
    unsafe {
        device.record_submit(&Submit { tensors: &tensors, arg_types: &[1; 40], ..bare(1, &[]) });
        device.record_submit(&Submit { tensors: &tensors[..3], arg_types: &[1; 2], ..bare(2, &[]) });
        device.record_submit(&Submit { tensors: &tensors[..3], arg_types: &[1; 9], ..bare(3, &[]) });
        device.flush();
    }
    rig.drain(false);
    let back = decode(&rig.records(0));
    assert_eq!(back.iter().map(|submit| submit.tensors.len()).collect::<Vec<_>>(), [32, 2, 3]);
    assert_eq!(
        back.iter().map(|submit| submit.flags).collect::<Vec<_>>(),
        [flags::TRUNCATED, flags::TRUNCATED, 0]
    );
    assert_eq!(balance(&rig), (3, 0, 0, 2));
}

#[test]
fn the_count_is_published_with_every_record_and_totals_at_sync() {
    let (rig, device, _) = small(2);
    let long = deps(700, 1);
    for task in 0..5 {
        let deps: &[u64] = if task == 3 { &long } else { &[1] };
        // SAFETY: this thread orchestrates.
        unsafe { device.record_submit(&bare(task, deps)) };
        assert_eq!(decode(&rig.recover(0)).len() as u64, task + 1, "what a recovery finds");
    }
    // SAFETY: as above.
    unsafe { device.sync() };
    assert_eq!(balance(&rig), (5, 2, 0, 0));
}
