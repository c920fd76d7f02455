//! The tables of `abi::layout` against the facts' regions.

use crate::facts::{Facts, int, list, nothing, num};
use dfx_collector::abi::layout::{
    ARENA, ARGS_DUMP_LANE, ArgsDumpLayout, BufferLayout, DEP_GEN_LANE, DepGenLayout, DevicePhaseLayout,
    LaneLayout, PmuLayout, QueueLayout, SCOPE_STATS_LANE, SWIMLANE_LANE, ScopeStatsLayout, SwimlaneLayout,
};
use dfx_collector::abi::swimlane::BufferKind;
use dfx_collector::abi::topology::Topology;
use dfx_collector::abi::{
    FREE_QUEUE_LINE, Geometry, Platform, args_dump, dep_gen, device_phase, pmu, scope_stats, swimlane,
};

/// The queue and lane tables of `abi::layout` against the facts' offsets.
fn check_layout(f: &Facts, header: &str, q: &QueueLayout, state: &str, lane: &LaneLayout, entries: u32) {
    let at = |of: &str, field: &str| int(&f.field_of(of, field)["offset"]);
    let g = Geometry::of(f.platform);
    f.same(&format!("queues of {header}"), (q.threads, q.entries), (g.max_threads, entries));
    let ours = (q.heads, q.tails, q.backpressure, q.entry(q.threads, 0));
    let queues = int(&f.field_of(header, "queues")["size"]);
    let theirs = (at(header, "queue_heads"), at(header, "queue_tails"), at(header, "backpressure"), queues);
    f.same(&format!("queue layout of {header}"), ours, theirs);
    let of = |name: &str| name.strip_suffix("BufferState").map(|stem| format!("{stem}FreeQueue"));
    let (queue, active) = match of(state) {
        Some(queue) => (queue, state),
        None => ("ChipSwimlaneFreeQueue".to_owned(), "ChipSwimlaneActiveHead"),
    };
    let free = at(state, "free_queue");
    f.same(&format!("free queue of {state}"), int(&f.field_of(state, "free_queue")["size"]), FREE_QUEUE_LINE);
    let ours = (lane.free_ptrs, lane.free_head, lane.free_tail, lane.slots as usize, lane.bytes);
    let slots = int(&f.field_of(&queue, "buffer_ptrs")["count"]);
    let theirs = (
        free + at(&queue, "buffer_ptrs"),
        free + at(&queue, "head"),
        free + at(&queue, "tail"),
        slots,
        int(&f.json["structs"][state]["size"]),
    );
    f.same(&format!("free-queue layout of {state}"), ours, theirs);
    let ours = (lane.current_ptr, lane.current_seq, lane.dropped);
    let theirs =
        (at(active, "current_buf_ptr"), at(active, "current_buf_seq"), at(active, "dropped_record_count"));
    f.same(&format!("layout of {active}"), ours, theirs);
    if state != "DumpBufferState" {
        f.same(&format!("total of {active}"), lane.total, at(active, "total_record_count"));
    }
}

/// A buffer's layout, and how many the reference's host makes and offers.
fn check_buffer(f: &Facts, region: &str, name: &str, ours: BufferLayout, buffers: usize, slots: usize) {
    let theirs = &f.json["regions"][region]["out_of_line"][name];
    let made = ["per_core", "per_thread", "per_instance"].into_iter().find_map(|per| theirs.get(per));
    f.same(&format!("bytes of {name}"), ours.bytes, int(&theirs["bytes"]));
    f.same(&format!("number of {name}"), buffers, int(made.expect("a count")));
    f.same(&format!("offered {name}"), buffers.min(slots), int(&theirs["in_free_queue"]));
    let (records, count) = (f.field_of(name, "records"), f.field_of(name, "count"));
    let capacity = int(&records["count"]);
    f.same(
        &format!("layout of {name}"),
        (ours.records, ours.record_bytes, ours.capacity as usize, ours.count),
        (int(&records["offset"]), int(&records["size"]) / capacity, capacity, int(&count["offset"])),
    );
}

#[test]
fn every_region_lies_as_pinned() {
    for f in Facts::both() {
        let (p, g) = (f.platform, Geometry::of(f.platform));
        let sizes = |region: &str, samples: &str, ours: &dyn Fn(u32) -> usize| {
            let samples = f.json["regions"][region][samples].as_object().expect("samples");
            assert!(!samples.is_empty());
            for (count, bytes) in samples {
                f.same(&format!("{region} for {count}"), ours(count.parse().unwrap()), int(bytes));
            }
        };
        sizes("chip_swimlane", "size_samples_orch_pools_eq_max_threads", &|n| {
            SwimlaneLayout::of(p, n).bytes()
        });
        sizes("args_dump", "size_samples", &|n| ArgsDumpLayout::of(p, n).bytes());
        sizes("pmu", "size_samples", &|n| PmuLayout::of(p, n).bytes());
        sizes("device_phase", "size_samples", &|n| DevicePhaseLayout { launch_threads: n }.bytes());
        let instances = |bytes: usize| move |n| if n == 1 { bytes } else { panic!("one instance only") };
        sizes("dep_gen", "size_samples", &instances(DepGenLayout::of(p).bytes()));
        sizes("scope_stats", "size_samples", &instances(ScopeStatsLayout::of(p).bytes()));
        f.same("regions", f.json["regions"].as_object().unwrap().len(), 6);

        // What the header's stride is, and the depth of its queues.
        let (s, d, m) = (SwimlaneLayout::of(p, 1), ArgsDumpLayout::of(p, 1), PmuLayout::of(p, 1));
        let (e, c) = (DepGenLayout::of(p), ScopeStatsLayout::of(p));
        for (region, header_bytes, queue, lane_bytes) in [
            ("chip_swimlane", s.header_bytes, s.queue, SWIMLANE_LANE.bytes),
            ("args_dump", d.header_bytes, d.queue, ARGS_DUMP_LANE.bytes),
            ("pmu", m.header_bytes, m.queue, m.state.bytes),
            ("dep_gen", e.header_bytes, e.queue, DEP_GEN_LANE.bytes),
            ("scope_stats", c.header_bytes, c.queue, SCOPE_STATS_LANE.bytes),
        ] {
            let theirs = &f.json["regions"][region];
            f.same(region, header_bytes, int(&theirs["order"][0]["stride"]));
            let lanes = &list(&theirs["order"])[1..];
            f.same(region, lanes.iter().all(|lane| int(&lane["stride"]) == lane_bytes), true);
            f.same(region, queue.entries as usize, int(&theirs["ready_queue"]["entries_per_thread"]));
            f.same(region, queue.threads as usize, int(&theirs["ready_queue"]["threads"]));
        }
        let (swimlane, dump) = (g.swimlane_ready_entries, g.dump_ready_entries);
        check_layout(
            &f,
            "ChipSwimlaneDataHeader",
            &s.queue,
            "ChipSwimlaneAicpuTaskPool",
            &SWIMLANE_LANE,
            swimlane,
        );
        check_layout(&f, "DumpDataHeader", &d.queue, "DumpBufferState", &ARGS_DUMP_LANE, dump);
        check_layout(&f, "PmuDataHeader", &m.queue, "PmuBufferState", &m.state, g.pmu_ready_entries);
        check_layout(&f, "DepGenDataHeader", &e.queue, "DepGenBufferState", &DEP_GEN_LANE, 8);
        check_layout(&f, "ScopeStatsDataHeader", &c.queue, "ScopeStatsBufferState", &SCOPE_STATS_LANE, 8);

        let buffer = |kind, name, buffers| {
            check_buffer(&f, "chip_swimlane", name, BufferLayout::swimlane(kind), buffers, swimlane::SLOTS);
        };
        buffer(BufferKind::AicpuTask, "ChipSwimlaneAicpuTaskBuffer", swimlane::TASK_BUFFERS);
        buffer(BufferKind::AicoreTask, "ChipSwimlaneAicoreTaskBuffer", swimlane::CORE_BUFFERS);
        buffer(BufferKind::AicpuSchedPhase, "ChipSwimlaneAicpuSchedPhaseBuffer", swimlane::SCHED_BUFFERS);
        buffer(BufferKind::AicpuOrchPhase, "ChipSwimlaneAicpuOrchPhaseBuffer", swimlane::ORCH_BUFFERS);
        let (b, n, slots) = (BufferLayout::args_dump(), args_dump::BUFFERS, args_dump::SLOTS);
        check_buffer(&f, "args_dump", "DumpMetaBuffer", b, n, slots);
        check_buffer(&f, "pmu", "PmuBuffer", BufferLayout::pmu(p), pmu::BUFFERS, pmu::SLOTS);
        check_buffer(
            &f,
            "dep_gen",
            "DepGenBuffer",
            BufferLayout::dep_gen(),
            dep_gen::BUFFERS,
            dep_gen::SLOTS,
        );
        let (b, n, slots) = (BufferLayout::scope_stats(), scope_stats::BUFFERS, scope_stats::SLOTS);
        check_buffer(&f, "scope_stats", "ScopeStatsBuffer", b, n, slots);

        let dumped = &f.json["regions"]["args_dump"];
        f.same("magic", u64::from(args_dump::MAGIC).into(), num(&dumped["header_init"]["magic"]));
        f.same(
            "arena",
            args_dump::ARENA_BYTES.into(),
            num(&dumped["out_of_line"]["arena"]["bytes_per_thread"]),
        );
        let at = |field| int(&f.field_of("DumpBufferState", field)["offset"]);
        f.same(
            "arena layout",
            [ARENA.base, ARENA.size, ARENA.write_offset, ARENA.published, ARENA.completed],
            [
                at("arena_base"),
                at("arena_size"),
                at("arena_write_offset"),
                at("published_payload_count"),
                at("completed_payload_count"),
            ],
        );
        let phase = DevicePhaseLayout { launch_threads: Topology::of(p).launch_threads };
        f.same("device phase", (phase.phase(0, 0), phase.phase(1, 2)), (16, 16 + 12 * 16));
        f.same("device phase", phase.timing(1, 3), phase.phase(phase.launch_threads, 0) + 19 * 16);
        let reset = &f.json["regions"]["device_phase"]["reset_values"];
        f.same("reset", device_phase::UNSET.into(), num(&reset["AicpuPhaseRecord"][0]));
        f.same("reset", device_phase::UNSET.into(), num(&reset["TaskTimingRecord"][0]));
        if p == Platform::A5 {
            let ring = &f.json["regions"]["pmu"]["out_of_line"]["PmuAicoreRing"];
            f.same(
                "ring",
                (size_of::<pmu::AicoreRing>(), pmu::RING_SLOTS),
                (int(&ring["bytes"]), int(&ring["slots"])),
            );
            let at = |field| Some(int(&f.field_of("PmuBufferState", field)["offset"]));
            f.same(
                "ring offsets",
                (m.ring_ptr, m.mismatched),
                (at("aicore_ring_ptr"), at("mismatch_record_count")),
            );
        }
        let overflow = int(&f.field_of("DepGenBufferState", "total_overflow_record_count")["offset"]);
        f.same("overflow total", DepGenLayout::OVERFLOW_TOTAL, overflow);
        nothing(f.finish(&[]));
    }
}
