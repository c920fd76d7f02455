//! Calls one recording function of dep_gen, the PMU or the scope stats many times through a C boundary, for
//! `ci/callgrind.sh` to count its instructions.
//!
//! `hot_lanes FUNCTION CALLS on|off`: only what happens inside `hot_FUNCTION` is counted (callgrind toggles at it), so the
//! host's work and the loop are not.

use dfx_benches::lanes::Host;
use dfx_collector::abi::layout::{BufferLayout, DepGenLayout, PmuLayout, ScopeStatsLayout};
use dfx_collector::abi::layout::{DEP_GEN_LANE, SCOPE_STATS_LANE};
use dfx_collector::abi::pmu::AicoreRing;
use dfx_collector::abi::tensor::Tensor;
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::clock::Clock;
use dfx_collector::dep_gen::{DepGen, Submit};
use dfx_collector::pmu::{Mmio, Pmu, PmuRecorder};
use dfx_collector::scope_stats::{Sample, ScopeStats};
use dfx_mock::region::Memory;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

/// A clock that costs nothing: the figures are without clock reads.
#[derive(Clone, Copy, Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> u64 {
        0
    }
    fn relax(&self) {}
}

static DEP_GEN: DepGen<NoClock> = DepGen::new(NoClock);
static SCOPES: ScopeStats<NoClock> = ScopeStats::new(NoClock);
static PMU: Pmu<NoClock, Mmio> = Pmu::new(NoClock);

/// As the C symbol: the switch in front, so that the disabled call touches nothing; the rest is a jump.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_dep_gen(
    task_id: u64,
    manual_scope: bool,
    early_dispatch: bool,
    tensor_count: i32,
    tensors: *const *const Tensor,
    arg_types: *const u8,
    dep_count: i32,
    deps: *const u64,
    block_num: i32,
    kernel_ids: &[i32; 3],
) {
    if DEP_GEN.recording() {
        // SAFETY: passed on.
        unsafe {
            submit(
                task_id,
                u32::from(manual_scope),
                u32::from(early_dispatch) << 4,
                tensor_count,
                tensors,
                arg_types,
                dep_count,
                deps,
                block_num,
                kernel_ids,
            )
        }
    }
}

#[inline(never)]
unsafe extern "C" fn submit(
    task_id: u64,
    manual_scope: u32,
    early_dispatch: u32,
    tensor_count: i32,
    tensors: *const *const Tensor,
    arg_types: *const u8,
    dep_count: i32,
    deps: *const u64,
    block_num: i32,
    kernel_ids: &[i32; 3],
) {
    // What an odd count means is no matter of the hot path.
    if tensor_count as u32 > 32 {
        return odd(tensor_count);
    }
    if dep_count as u32 > 64 {
        return odd(dep_count);
    }
    // SAFETY: the loop below passes arrays of those lengths; one thread calls.
    unsafe {
        DEP_GEN.record_submit_now(&Submit {
            task_id,
            flags: manual_scope | early_dispatch,
            tensors: std::slice::from_raw_parts(tensors, tensor_count as u32 as usize),
            arg_types: std::slice::from_raw_parts(arg_types, tensor_count as u32 as usize),
            deps: std::slice::from_raw_parts(deps, dep_count as u32 as usize),
            kernel_ids,
            block_num,
        });
    }
}

#[cold]
#[inline(never)]
extern "C" fn odd(count: i32) {
    black_box(count);
}

macro_rules! scope {
    ($name:ident, $inner:ident, $now:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        unsafe extern "C" fn $name(
            ring: i32,
            task_start: i32,
            task_end: i32,
            heap_start: u64,
            heap_end: u64,
            dep_start: i32,
            dep_end: i32,
            tensormap: i32,
        ) {
            if SCOPES.recording() {
                // SAFETY: passed on.
                unsafe {
                    $inner(ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap)
                }
            }
        }

        #[inline(never)]
        unsafe extern "C" fn $inner(
            ring: i32,
            task_start: i32,
            task_end: i32,
            heap_start: u64,
            heap_end: u64,
            dep_start: i32,
            dep_end: i32,
            tensormap: i32,
        ) {
            let sample =
                Sample { ring, task_start, task_end, heap_start, heap_end, dep_start, dep_end, tensormap };
            // SAFETY: one thread calls.
            unsafe { SCOPES.$now(&sample) }
        }
    };
}
scope!(hot_scope_begin, scope_begin, begin_now);
scope!(hot_scope_end, scope_end, end_now);

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_scope_site(file: *const u8, line: i32) {
    // SAFETY: the loop below passes a string; one thread calls.
    unsafe { SCOPES.set_pending_site(file, line) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_pmu_a2a3(core: i32, thread: i32, task_id: u64, func_id: u32, core_type: i32) {
    // SAFETY: one thread calls.
    unsafe { PMU.record_task(core as u32, thread as u32, task_id, func_id, core_type) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_pmu_a5(
    core: i32,
    thread: i32,
    token: u32,
    task_id: u64,
    func_id: u32,
    core_type: i32,
) {
    // SAFETY: one thread calls.
    unsafe { PMU.complete_record(core as u32, thread as u32, token, task_id, func_id, core_type) }
}

#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_pmu_core(core: &mut PmuRecorder<Mmio>, token: u32) {
    core.record(token);
}

fn dep_gen_host() -> Host {
    let layout = DepGenLayout::of(Platform::A2a3);
    let host = Host::new(layout.bytes(), layout.queue, layout.lane(), DEP_GEN_LANE, BufferLayout::dep_gen());
    // SAFETY: the region outlives its use; nothing else runs.
    unsafe { DEP_GEN.init(&Geometry::A2A3, host.region.addr(0), Some(0)) }.expect("a region");
    DEP_GEN.set_orch_thread(1);
    host
}

fn scope_host() -> Host {
    let layout = ScopeStatsLayout::of(Platform::A2a3);
    let buffer = BufferLayout::scope_stats();
    let host = Host::new(layout.bytes(), layout.queue, layout.lane(), SCOPE_STATS_LANE, buffer);
    // SAFETY: the region outlives its use; nothing else runs.
    unsafe { SCOPES.init(&Geometry::A2A3, host.region.addr(0), Some(0)) }.expect("a region");
    SCOPES.set_orch_thread(1);
    host
}

fn pmu_host(geometry: &Geometry, registers: &Memory, ring: &Memory) -> Host {
    let layout = PmuLayout::of(geometry.platform, 1);
    let buffer = BufferLayout::pmu(geometry.platform);
    let host = Host::new(layout.bytes(), layout.queue, layout.lane(0), layout.state, buffer);
    host.word(layout.num_cores).store(1, Relaxed);
    if let Some(offset) = layout.ring_ptr {
        host.wide(layout.lane(0) + offset).store(ring.addr(0).0, Relaxed);
    }
    // SAFETY: region and registers outlive their use; nothing else runs.
    unsafe {
        let mmio = |_| Mmio::new(registers.addr(0));
        PMU.init(geometry, host.region.addr(0), 1, mmio, Some(0)).expect("a region");
    }
    host
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = |what: &str| {
        args.next().unwrap_or_else(|| panic!("usage: hot_lanes FUNCTION CALLS on|off ({what} missing)"))
    };
    let function = arg("FUNCTION");
    let calls: u32 = arg("CALLS").parse().expect("a number of calls");
    let on = arg("on or off") == "on";
    let name = &*function;
    let (registers, ring) = (Memory::new(0x8000), Memory::new(size_of::<AicoreRing>()));
    let geometry = if name == "pmu_a2a3" { &Geometry::A2A3 } else { &Geometry::A5 };
    let host = match name {
        "dep_gen" => dep_gen_host(),
        "scope_begin" | "scope_end" | "scope_site" => scope_host(),
        _ if on => pmu_host(geometry, &registers, &ring),
        _ => dep_gen_host(),
    };
    DEP_GEN.set_enabled(on);
    SCOPES.set_enabled(on);
    // SAFETY: registers and ring outlive the recorder, the only one.
    let mut core = unsafe { PmuRecorder::new(Mmio::new(registers.addr(0)).expect("mapped"), ring.addr(0)) };
    let tensors: Vec<Tensor> = (0..4).map(|n| Tensor { version: n, ..Tensor::default() }).collect();
    let pointers: Vec<*const Tensor> = tensors.iter().map(std::ptr::from_ref).collect();
    let (types, deps, kernels) = ([0u8, 1, 2, 3], [1u64, 2, 3], [1i32, -1, -1]);
    for n in 0..calls {
        let (token, task) = (black_box(n), black_box(u64::from(n)));
        // SAFETY: one thread calls, with arrays of the lengths that it passes.
        unsafe {
            match name {
                "dep_gen" => hot_dep_gen(
                    task,
                    false,
                    true,
                    black_box(4),
                    pointers.as_ptr(),
                    types.as_ptr(),
                    black_box(3),
                    deps.as_ptr(),
                    2,
                    &kernels,
                ),
                "scope_begin" | "scope_end" => {
                    SCOPES.set_pending_site(c"src/models/attention.cpp".as_ptr().cast(), 12);
                    hot_scope_begin(1, 2, 3, task, task + 1, 4, 5, 6);
                    hot_scope_end(1, 2, 3, task, task + 1, 4, 5, 6);
                }
                "scope_site" => hot_scope_site(c"src/models/attention.cpp".as_ptr().cast(), 12),
                "pmu_a2a3" => hot_pmu_a2a3(0, 0, task, 7, 1),
                "pmu_a5" => {
                    core.record(token);
                    hot_pmu_a5(0, 0, token, task, 7, 1);
                }
                "pmu_core" => hot_pmu_core(&mut core, token),
                other => panic!("no function {other}"),
            }
        }
        if n % 128 == 127 {
            host.step();
        }
    }
}
