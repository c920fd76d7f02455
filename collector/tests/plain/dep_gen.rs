//! A dep_gen region, and what its slots say.
#![allow(dead_code)] // no test uses all of it

use super::plain::{Plan, Rig};
use dfx_collector::abi::dep_gen::{OverflowRecord, SubmitRecord, flags};
use dfx_collector::abi::layout::{BufferLayout, DEP_GEN_LANE, DepGenLayout};
use dfx_collector::abi::tensor::Tensor;
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::dep_gen::{DepGen, Submit};
use dfx_collector::stall::Budget;
use dfx_mock::clock::ScriptClock;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::FromBytes;

/// The orchestrator's thread in these tests.
pub(crate) const ORCH: u32 = 2;

/// A budget of 10 ms a wait, 1 s in all.
pub(crate) const BUDGET: Budget = Budget { wait_ms: 10, total_ms: 1000 };

pub(crate) fn plan(geometry: &'static Geometry) -> Plan {
    let layout = DepGenLayout::of(geometry.platform);
    Plan {
        geometry,
        bytes: layout.bytes(),
        queue: layout.queue,
        lane: DEP_GEN_LANE,
        buffer: BufferLayout::dep_gen(),
        states: layout.lane(),
        lanes: 1,
        budget_at: layout.stall_budget(),
    }
}

/// A device, enabled and launched on `rig`; each look at its clock takes a tenth of a millisecond of a2a3.
pub(crate) fn launch(rig: &Rig) -> (DepGen<ScriptClock>, ScriptClock) {
    let clock = ScriptClock::new(1_000_000, 5_000);
    let dep_gen = DepGen::new(clock.clone());
    dep_gen.set_enabled(true);
    // SAFETY: the rig's region is one, and outlives the use of the device in each test.
    unsafe { dep_gen.init(rig.plan.geometry, rig.base(), Some(clock.peek())) }.expect("a region");
    dep_gen.set_orch_thread(ORCH);
    (dep_gen, clock)
}

pub(crate) fn small(buffers: usize) -> (Rig, DepGen<ScriptClock>, ScriptClock) {
    let rig = Rig::new(plan(&Geometry::A2A3), buffers, Some(BUDGET));
    let (dep_gen, clock) = launch(&rig);
    (rig, dep_gen, clock)
}

/// A submit without arguments.
pub(crate) fn bare(task_id: u64, deps: &[u64]) -> Submit<'_> {
    Submit { task_id, flags: 0, tensors: &[], arg_types: &[], deps, kernel_ids: &[3, -1, 4], block_num: 2 }
}

pub(crate) fn tensor(n: u64) -> Tensor {
    Tensor {
        start_offset: n,
        version: n as i32,
        shapes: [n as u32; 5],
        extent_elem_cache: n + 1,
        _pad: [n as u32; 9],
        ..Tensor::default()
    }
}

/// A submit as it was read back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) task_id: u64,
    pub(crate) flags: u32,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) arg_types: Vec<u8>,
    pub(crate) deps: Vec<u64>,
    pub(crate) kernel_ids: [i32; 3],
    pub(crate) block_num: u32,
    pub(crate) slots: usize,
}

/// Reads slots back, and refuses a chain that is broken anywhere.
pub(crate) fn decode(slots: &[Vec<u8>]) -> Vec<Decoded> {
    let mut all: Vec<Decoded> = Vec::new();
    let mut open = false;
    for slot in slots {
        let head = SubmitRecord::read_from_bytes(slot).expect("a slot");
        if head.flags & flags::OVERFLOW != 0 {
            let more = OverflowRecord::read_from_bytes(slot).expect("a slot");
            let last = all.last_mut().expect("a submit in front");
            assert!(
                open && more.task_id == last.task_id && more._pad == 0,
                "an orphan of {:#x}",
                more.task_id
            );
            assert!(more.flags & !(flags::OVERFLOW | flags::LAST_OVERFLOW) == 0);
            assert!((1..=582).contains(&more.dep_count));
            last.deps.extend(&more.deps[..more.dep_count as usize]);
            last.slots += 1;
            open = more.flags & flags::LAST_OVERFLOW == 0;
            continue;
        }
        assert!(!open, "a chain without an end");
        open = head.flags & flags::HAS_OVERFLOW != 0;
        let (tensors, deps) = (head.tensor_count as usize, head.explicit_dep_count as usize);
        all.push(Decoded {
            task_id: head.task_id,
            flags: head.flags,
            tensors: head.tensors[..tensors].to_vec(),
            arg_types: head.arg_types[..tensors].to_vec(),
            deps: head.explicit_deps[..deps].to_vec(),
            kernel_ids: head.kernel_id,
            block_num: head.block_num,
            slots: 1,
        });
    }
    assert!(!open, "a chain without an end");
    all
}

/// Recorded slots + dropped = total + overflow; returns total, overflow, dropped, truncated.
pub(crate) fn balance(rig: &Rig) -> (u32, u32, u32, u32) {
    let recorded = rig.records(0).len() + rig.recover(0).len();
    let overflow = rig.word(rig.state(0) + DepGenLayout::OVERFLOW_TOTAL).load(Relaxed);
    let truncated = rig.word(rig.state(0) + DepGenLayout::TRUNCATED).load(Relaxed);
    let (total, dropped) = (rig.total(0), rig.dropped(0));
    assert_eq!(recorded as u32 + dropped, total + overflow, "recorded + dropped = total + overflow");
    (total, overflow, dropped, truncated)
}

pub(crate) fn other(platform: Platform) -> &'static Geometry {
    Geometry::of(if platform == Platform::A5 { Platform::A2a3 } else { Platform::A5 })
}
