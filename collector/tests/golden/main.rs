//! The layouts, and the memory that a fixed run of calls leaves, on whatever processor this runs.
//!
//! A program of one thread instead of libtest's tests: under qemu-user any thread that is made hangs, and this is what
//! `ci/aarch64.sh` runs there. With `--cfg device_library` (and the library to link) the calls go through the device
//! library's C functions instead of the collectors; the memory must be the same.
//!
//! The golden values are the hashes of regions and buffers, addresses replaced by what they name. `golden print` prints them.

#![allow(unexpected_cfgs)] // `ci/aarch64.sh` sets them

#[cfg_attr(not(device_library), path = "collectors.rs")]
#[cfg_attr(device_library, path = "library.rs")]
mod device;
#[path = "../abi_json/facts.rs"]
#[allow(dead_code, unused_macros, unused_imports)] // the other test uses the rest
mod facts;
#[path = "../plain/mod.rs"]
mod plain;
#[path = "../abi_json/structs.rs"]
mod structs;
#[path = "../plain/args_dump.rs"]
mod tensors;

use device::Device;
use dfx_collector::abi::args_dump::{Info, Kind, Level as DumpLevel};
use dfx_collector::abi::layout::{
    BufferLayout, DEP_GEN_LANE, DepGenLayout, PmuLayout, SCOPE_STATS_LANE, ScopeStatsLayout,
};
use dfx_collector::abi::pmu::{AicoreRing, EventType};
use dfx_collector::abi::swimlane::{BufferKind, Level};
use dfx_collector::abi::tensor::{DataType, Tensor};
use dfx_collector::abi::{Geometry, Platform};
use dfx_collector::stall::Budget;
use dfx_collector::swimlane::CoreRecorder;
use dfx_mock::drain::MockHost;
use dfx_mock::region::{Memory, Region, Shape};
use facts::{Facts, nothing};
use plain::{Plan, Rig};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const BUDGET: Budget = Budget { wait_ms: 10, total_ms: 1000 };

/// What must be left, by feature; on a2a3 and on a5.
const GOLDEN: [(&str, [u64; 2]); 5] = [
    ("chip swimlane", [0x3c50_0e58_8884_2e44, 0x25e4_33c6_1f0b_bc20]),
    ("args dump", [0x2e38_2107_f425_b648, 0xddf8_423e_81f9_4e98]),
    ("dep_gen", [0x1491_7259_4d05_14fd, 0x4b2d_1366_a150_491d]),
    ("PMU", [0x32a2_79d5_fd97_851e, 0x3cff_5ce3_a6d8_5a64]),
    ("scope stats", [0xfee2_7e66_182e_50dd, 0x019d_beb6_0f2d_8f7d]),
];

fn main() {
    for facts in Facts::both() {
        structs::check_structs(&facts);
        nothing(facts.finish(&["structs"]));
    }
    let print = std::env::args().any(|arg| arg == "print");
    let platforms = [&Geometry::A2A3, &Geometry::A5];
    let mut wrong = 0;
    for geometry in
        platforms.into_iter().filter(|geometry| device::PLATFORM.is_none_or(|p| p == geometry.platform))
    {
        let device = Device::new();
        let left = [
            swimlane(&device, geometry),
            args_dump(&device, geometry),
            dep_gen(&device, geometry),
            pmu(&device, geometry),
            scope_stats(&device, geometry),
        ];
        for ((feature, golden), left) in GOLDEN.iter().zip(left) {
            let golden = golden[geometry.platform as usize];
            if print {
                println!("{feature}, {:?}: {left:#018x}", geometry.platform);
            } else if left != golden {
                eprintln!("{feature} on {:?} left {left:#018x}, not {golden:#018x}", geometry.platform);
                wrong += 1;
            }
        }
    }
    assert!(wrong == 0, "{wrong} regions are not as they must be");
    println!("ok: layouts and golden memory, {}", std::env::consts::ARCH);
}

/// FNV-1a over every word; one that names a place in `blocks` counts as that place.
fn hash(blocks: &[(&Memory, usize)]) -> u64 {
    let place = |word: u64| {
        let within = |(memory, bytes): &(&Memory, usize)| {
            word.checked_sub(memory.addr(0).0).filter(|offset| *offset < *bytes as u64)
        };
        blocks.iter().enumerate().find_map(|(n, block)| Some((n as u64 + 1) << 48 | within(block)?))
    };
    let mut sum = 0xCBF2_9CE4_8422_2325u64;
    for (memory, bytes) in blocks {
        for eight in memory.bytes(0..bytes / 8 * 8).chunks(8) {
            let word = u64::from_le_bytes(eight.try_into().expect("eight"));
            for byte in place(word).unwrap_or(word).to_le_bytes() {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }
    sum
}

fn hash_rig(rig: &Rig, more: &[(&Memory, usize)]) -> u64 {
    let mut blocks = vec![(&rig.region, rig.plan.bytes)];
    blocks.extend(rig.buffers.iter().map(|buffer| (buffer, rig.plan.buffer.bytes)));
    blocks.extend(more);
    hash(&blocks)
}

/// Two cores, one of which rotates; phases and submits.
fn swimlane(device: &Device, geometry: &'static Geometry) -> u64 {
    let shape =
        Shape { geometry, core_buffers: 3, budget: Some(BUDGET), ..Shape::small(Level::OrchPhases, 2) };
    let region = Arc::new(Region::new(shape));
    let mut host = MockHost::new(&region);
    host.refill();
    device.swimlane_init(geometry, region.base(), region.table.addr(0), 2, 1);
    // SAFETY: init filled the table, and each core has one recorder.
    let attach = |core| unsafe { CoreRecorder::attach(region.table_entry(core)) }.expect("filled");
    let mut cores = [attach(0), attach(1)];
    for task in 0..1500u32 {
        let core = u32::from(task % 7 == 0);
        let at = 100 * u64::from(task) + 1;
        device.on_dispatch(core, 0, task);
        let slot = cores[core as usize].reserve();
        device.on_ack(core, 0, task);
        // SAFETY: the slot is this core's next one.
        unsafe { CoreRecorder::commit(slot, at + 3, at + 50, at ^ 0xABCD, task, at + 2) };
        assert_eq!(device.complete_task(core, 0, task, at, at + 60), 0);
        device.sched_phase(0, task % 3, at, task, [1, -2, 3], None);
        device.dummy_task(0, at + 1, task, at << 20);
        device.orch_submit(at, at + 9, u64::from(task) << 32, task);
    }
    device.swimlane_flush(0, &[0, 1]);
    let mut blocks = vec![(&region.memory, region.layout.bytes()), (&region.table, 16)];
    for ((kind, _), buffers) in &region.buffers {
        let bytes = BufferLayout::swimlane(*kind).bytes;
        assert!(matches!(kind, BufferKind::AicpuTask) || bytes > 0);
        blocks.extend(buffers.iter().map(|buffer| (buffer, bytes)));
    }
    hash(&blocks)
}

/// Dense, strided and transposed tensors of every size of element, and a scalar.
fn args_dump(device: &Device, geometry: &'static Geometry) -> u64 {
    let shape = tensors::Shape {
        geometry,
        level: DumpLevel::Full,
        budget: Some(BUDGET),
        dedup: true,
        ..tensors::Shape::SMALL
    };
    let host = tensors::Host::new(shape);
    device.dump_init(geometry, host.rig.base(), 1);
    let data = Memory::new(1 << 15);
    data.write(0, &(0..1u32 << 15).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>());
    for (task, dtype) in
        [DataType::Uint8, DataType::Float16, DataType::Float32, DataType::Int64].into_iter().enumerate()
    {
        for (shapes, strides) in [([20, 9], [9, 1]), ([20, 9], [1, 20]), ([5, 3], [40, 2]), ([1, 1], [7, 7])]
        {
            let info = Info {
                task_id: task as u64,
                dtype: dtype as u8,
                ndims: 2,
                arg_index: strides[0],
                buffer_addr: data.addr(0).0,
                func_ids: [4, -1, -1],
                func_count: 1,
                start_offset: 3,
                shapes: [shapes[0], shapes[1], 0, 0, 0],
                strides: [strides[0], strides[1], 0, 0, 0],
                ..Info::default()
            };
            // The second time it is a reference.
            assert!(device.dump_record(0, &info) && device.dump_record(0, &info));
        }
        let scalar = Info { kind: Kind::Scalar as u8, scalar_value: 7 << 40, dtype: 8, ..Info::default() };
        assert!(device.dump_record(0, &scalar));
    }
    device.dump_flush(0);
    hash_rig(&host.rig, &host.arenas())
}

/// Submits with tensors at odd addresses, and a chain.
fn dep_gen(device: &Device, geometry: &'static Geometry) -> u64 {
    let layout = DepGenLayout::of(geometry.platform);
    let plan = Plan {
        geometry,
        bytes: layout.bytes(),
        queue: layout.queue,
        lane: DEP_GEN_LANE,
        buffer: BufferLayout::dep_gen(),
        states: layout.lane(),
        lanes: 1,
        budget_at: layout.stall_budget(),
    };
    let rig = Rig::new(plan, 3, Some(BUDGET));
    device.dep_gen_init(geometry, rig.base(), 2);
    let bytes: Vec<u8> = (0..200).collect();
    let deps: Vec<u64> = (0..700).map(|n| n << 32 | 5).collect();
    for task in 0..1200u64 {
        let at = |n: usize| bytes[n..].as_ptr().cast::<Tensor>();
        let tensors = [at(task as usize % 60), std::ptr::null(), at(1)];
        let n = task as usize % 4;
        let deps = &deps[..if task == 600 { 700 } else { task as usize % 66 }];
        device.record_submit(
            task,
            task as u32 & 17,
            &tensors[..n],
            &[0, 1, 2][..n],
            deps,
            &[task as i32, -1, 3],
            n as i32,
        );
    }
    device.dep_gen_flush();
    hash_rig(&rig, &[])
}

/// Counters read as memory (a2a3), or left in rings (a5).
fn pmu(device: &Device, geometry: &'static Geometry) -> u64 {
    const CORES: u32 = 2;
    let layout = PmuLayout::of(geometry.platform, CORES);
    let plan = Plan {
        geometry,
        bytes: layout.bytes(),
        queue: layout.queue,
        lane: layout.state,
        buffer: BufferLayout::pmu(geometry.platform),
        states: layout.header_bytes,
        lanes: CORES as usize,
        budget_at: layout.stall_budget,
    };
    let rig = Rig::new(plan, 2, Some(BUDGET));
    rig.word(layout.num_cores).store(CORES, Relaxed);
    rig.word(layout.event_type).store(EventType::Memory as u32, Relaxed);
    let registers: Vec<Memory> = (0..CORES).map(|_| Memory::new(0x8000)).collect();
    for core in &registers {
        core.write(0, &(0..0x2000u32).flat_map(|n| (n * 3).to_le_bytes()).collect::<Vec<_>>());
    }
    let rings = Memory::new(CORES as usize * size_of::<AicoreRing>());
    if let Some(offset) = layout.ring_ptr {
        for core in 0..CORES as usize {
            rig.wide(rig.state(core) + offset).store(rings.addr(core * size_of::<AicoreRing>()).0, Relaxed);
        }
    }
    let bases: Vec<u64> = registers.iter().map(|core| core.addr(0).0).collect();
    device.pmu_init(geometry, rig.base(), &bases);
    for task in 0..600u32 {
        let core = u32::from(task % 5 == 0);
        if geometry.platform == Platform::A5 {
            let slot = core as usize * size_of::<AicoreRing>() + task as usize % 2 * 64;
            rings.write(slot + 16, &(0..12u32).flat_map(|n| (n * task).to_le_bytes()).collect::<Vec<_>>());
            // One in a hundred is not there.
            rings.write(slot, &u64::from(if task % 100 == 99 { 0 } else { task }).to_le_bytes());
        }
        device.pmu_record(core, core, task, u64::from(task) << 33, task % 9, i32::from(core == 1));
    }
    device.pmu_flush(0, &[0]);
    device.pmu_flush(1, &[1]);
    device.pmu_finalize(&[0, 1]);
    hash_rig(
        &rig,
        &[
            (&rings, CORES as usize * size_of::<AicoreRing>()),
            (&registers[0], 0x8000),
            (&registers[1], 0x8000),
        ],
    )
}

/// Scopes in scopes, and heaps that wrap.
fn scope_stats(device: &Device, geometry: &'static Geometry) -> u64 {
    let layout = ScopeStatsLayout::of(geometry.platform);
    let plan = Plan {
        geometry,
        bytes: layout.bytes(),
        queue: layout.queue,
        lane: SCOPE_STATS_LANE,
        buffer: BufferLayout::scope_stats(),
        states: layout.lane(),
        lanes: 1,
        budget_at: layout.stall_budget(),
    };
    let rig = Rig::new(plan, 3, Some(BUDGET));
    device.scope_init(geometry, rig.base(), 2);
    device.scope_ring(1, 64, 4096, 32);
    for scope in 0..400i32 {
        device.scope_site(
            if scope % 3 == 0 { None } else { Some(c"/a/b\\a name that is longer than there is room.cpp") },
            scope,
        );
        let sample = |n: i32| [scope % 5, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6];
        device.scope_end_or_begin(true, sample(scope));
        device.scope_wrap(scope % 3);
        if scope % 2 == 1 {
            device.scope_end_or_begin(false, sample(scope + 100));
            device.scope_end_or_begin(false, sample(scope + 200));
        }
    }
    device.scope_flush();
    hash_rig(&rig, &[])
}
