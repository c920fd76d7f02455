//! Every struct of ours, field by field, beside the facts' name.

use crate::facts::{Facts, check};
use dfx_collector::abi::{
    BackpressureHeader, Platform, args_dump, dep_gen, device_phase, host_phase, pmu, scope_stats, shared,
    swimlane, task, tensor,
};

pub(crate) fn check_structs(f: &Facts) {
    check_swimlane_structs(f);
    check_args_dump_structs(f);
    check_dep_gen_and_scope_structs(f);
    check_pmu_structs(f);
    check!(f, "DevicePhaseBufferHeader", device_phase::Header { task_timing_tail_used, _pad });
    check!(f, "AicpuPhaseRecord", device_phase::PhaseRecord { start_cycle, end_cycle });
    check!(f, "TaskTimingRecord", device_phase::TaskTimingRecord { dispatch_cycle, finish_cycle });
    check!(f, "PTOBufferHandle", tensor::BufferHandle { addr, size });
    check!(f, "PTO2TaskId", tensor::TaskId { raw });
    check!(
        f,
        "ChipTensor",
        tensor::Tensor {
            buffer,
            owner_task_id,
            start_offset,
            version,
            ndims,
            dtype,
            manual_dep,
            is_contiguous,
            address_space,
            shapes,
            extent_elem_cache,
            strides,
            _pad,
        }
    );
    check!(
        f,
        "CoreCallable",
        task::CoreCallable {
            signature = "signature_",
            sig_count = "sig_count_",
            binary_size = "binary_size_",
            resolved_addr = "resolved_addr_",
            storage = "storage_",
        }
    );
}

#[rustfmt::skip] // One struct, one block.
fn check_swimlane_structs(f: &Facts) {
    use swimlane::*;
    check!(f, "DfxBackpressureHeader", BackpressureHeader {
        rq_freeze_active, rq_contended, fq_freeze_active, fq_contended,
    });
    check!(f, "ChipSwimlaneAicpuTaskRecord", TaskRecord { dispatch_time, finish_time, reg_task_id, _pad });
    check!(f, "ChipSwimlaneAicoreTaskRecord", CoreRecord {
        start_time, end_time, task_token_raw, reg_task_id, receive_to_start_cycles,
    });
    check!(f, "ChipSwimlaneAicpuSchedPhaseRecord", SchedPhaseRecord {
        start_time, end_time, loop_iter, kind, tasks_processed, phase_data, shared_depth_at_start, shared_depth_at_end,
        _pad,
    });
    check!(f, "ChipSwimlaneAicpuOrchPhaseRecord", OrchPhaseRecord { start_time, end_time, task_id, submit_idx, _pad });
    check!(f, "ChipSwimlaneAicpuTaskBuffer", TaskBuffer { records, count });
    check!(f, "ChipSwimlaneAicoreTaskBuffer", CoreBuffer { records, count });
    check!(f, "ChipSwimlaneAicpuSchedPhaseBuffer", SchedPhaseBuffer { records, count });
    check!(f, "ChipSwimlaneAicpuOrchPhaseBuffer", OrchPhaseBuffer { records, count });
    check!(f, "ChipSwimlaneFreeQueue", SwimlaneFreeQueue { buffer_ptrs, head, tail, _pad });
    check!(f, "ChipSwimlaneActiveHead", ActiveHead {
        current_buf_ptr, current_buf_seq, total_record_count, dropped_record_count, stalls, stash_ptr, stash_seq, _pad0,
        stall_ticks, max_stall_ticks, _pad1,
    });
    check!(f, "ChipSwimlaneAicpuTaskPool", Pool { head, free_queue });
    check!(f, "ChipSwimlaneAicoreTaskPool", Pool { head, free_queue });
    check!(f, "ChipSwimlaneAicpuSchedPhasePool", Pool { head, free_queue });
    check!(f, "ChipSwimlaneAicpuOrchPhasePool", Pool { head, free_queue });
    check!(f, "ReadyQueueEntry", ReadyEntry { core_index, kind, buffer_ptr, buffer_seq, flags, _pad });
    macro_rules! header {
        ($ty:path) => {
            check!(f, "ChipSwimlaneDataHeader", $ty {
                queues, queue_heads, queue_tails, num_cores, chip_swimlane_level, num_sched_phase_threads,
                num_orch_phase_threads, num_phase_cores, core_to_thread, backpressure, peer, stall_budget,
            })
        };
    }
    match f.platform {
        Platform::A2a3 => header!(SwimlaneHeaderA2a3),
        Platform::A5 => header!(SwimlaneHeaderA5),
    }
    check!(f, "HostPhaseRecord", host_phase::Record { start_ns, end_ns, payload, kind, index, thread_id, _pad });
    check!(f, "HostPhaseRecordBuffer", host_phase::Buffer { records, count });
}

#[rustfmt::skip] // One struct, one block.
fn check_args_dump_structs(f: &Facts) {
    use args_dump::*;
    check!(f, "ArgsDumpRecord", Record {
        task_id, role, stage, ndims, _pad0, arg_index, dtype, truncated, is_contiguous, _pad1, payload_offset,
        payload_size, scalar_value, kind, flags, func_ids, func_count, _pad2, start_offset, strides, shapes, _pad3,
    });
    check!(f, "DumpMetaBuffer", MetaBuffer { records, count });
    check!(f, "DumpFreeQueue", FreeQueue { buffer_ptrs, head, tail, _pad });
    check!(f, "DumpReadyQueueEntry", ReadyEntry { index = "thread_index", _pad0, buffer_ptr, buffer_seq, _pad1, _pad2 });
    check!(f, "DumpBufferState", BufferState {
        free_queue, current_buf_ptr, current_buf_seq, _pad0, arena_base, arena_size, arena_write_offset,
        published_payload_count, completed_payload_count, dropped_record_count, total_record_count,
        arena_acknowledged, stall_ticks, max_stall_ticks, payload_bytes, shed_payload_bytes, saved_payload_bytes,
        stalls, shed_record_count, saved_record_count, _pad1,
    });
    macro_rules! header {
        ($ty:path) => {
            check!(f, "DumpDataHeader", $ty {
                queues, queue_heads, queue_tails, num_dump_threads, records_per_buffer, arena_size_per_thread, magic,
                dump_args_level, backpressure, peer, stall_budget, options, lost_mark_count,
            })
        };
    }
    match f.platform {
        Platform::A2a3 => header!(HeaderA2a3),
        Platform::A5 => header!(HeaderA5),
    }
    check!(f, "ArgsDumpInfo", Info {
        task_id, role, stage, dtype, ndims, arg_index, buffer_addr, scalar_value, func_ids, func_count, kind, flags,
        capture_payload, _pad, start_offset, shapes, strides,
    });
    check!(f, "ArgsDumpTaskMetadata", TaskMetadata { dump_arg_mask, dump_arg_flags, scalar_dtypes });
}

#[rustfmt::skip] // One struct, one block.
fn check_dep_gen_and_scope_structs(f: &Facts) {
    check!(f, "DepGenRecord", dep_gen::SubmitRecord {
        task_id, flags, tensor_count, explicit_dep_count, explicit_deps, arg_types, kernel_id, block_num, tensors,
    });
    check!(f, "DepGenOverflowRecord", dep_gen::OverflowRecord { task_id, flags, dep_count, _pad, deps });
    check!(f, "DepGenBuffer", dep_gen::Buffer { count, _pad, records });
    check!(f, "DepGenFreeQueue", dep_gen::FreeQueue { buffer_ptrs, head, tail, _pad });
    check!(f, "DepGenReadyQueueEntry", shared::IndexedEntry {
        index = "instance_index", _pad0, buffer_ptr, buffer_seq, _pad1, _pad2,
    });
    check!(f, "DepGenBufferState", dep_gen::BufferState {
        free_queue, current_buf_ptr, current_buf_seq, dropped_record_count, total_record_count,
        total_overflow_record_count, stall_ticks, max_stall_ticks, stalls, stall_budget, truncated_record_count, _pad,
    });
    check!(f, "ScopeStatsRecord", scope_stats::Record {
        site_file_basename, heap_start, heap_end, site_line, task_start, task_end, dep_pool_start, dep_pool_end,
        tensormap_used, depth, ring_id, phase, _pad,
    });
    check!(f, "ScopeStatsBuffer", scope_stats::Buffer { count, _pad, records });
    check!(f, "ScopeStatsFreeQueue", scope_stats::FreeQueue { buffer_ptrs, head, tail, _pad });
    check!(f, "ScopeStatsReadyQueueEntry", scope_stats::ReadyEntry {
        index = "instance_index", _pad0, buffer_ptr, buffer_seq, _pad1, _pad2,
    });
    check!(f, "ScopeStatsBufferState", scope_stats::BufferState {
        free_queue, current_buf_ptr, current_buf_seq, dropped_record_count, total_record_count, stalls, stall_ticks,
        max_stall_ticks, stall_budget, deep_scope_count, _pad,
    });
    macro_rules! headers {
        ($dep_gen:path, $scope_stats:path) => {{
            check!(f, "DepGenDataHeader", $dep_gen {
                queues, queue_heads, queue_tails, num_instances, backpressure, peer,
            });
            check!(f, "ScopeStatsDataHeader", $scope_stats {
                queues, queue_heads, queue_tails, num_instances, backpressure, task_window_cap, dep_pool_cap, peer,
                heap_cap, tensormap_cap, fatal_latched,
            });
        }};
    }
    match f.platform {
        Platform::A2a3 => headers!(dep_gen::HeaderA2a3, scope_stats::HeaderA2a3),
        Platform::A5 => headers!(dep_gen::HeaderA5, scope_stats::HeaderA5),
    }
}

#[rustfmt::skip] // One struct, one block.
fn check_pmu_structs(f: &Facts) {
    use pmu::*;
    check!(f, "PmuFreeQueue", FreeQueue { buffer_ptrs, head, tail, _pad });
    check!(f, "PmuReadyQueueEntry", ReadyEntry { index = "core_index", _pad0, buffer_ptr, buffer_seq, _pad1, _pad2 });
    macro_rules! header {
        ($ty:path) => {
            check!(f, "PmuDataHeader", $ty {
                queues, queue_heads, queue_tails, num_cores, event_type, backpressure, peer, stall_budget,
            })
        };
    }
    match f.platform {
        Platform::A2a3 => {
            check!(f, "PmuRecord", RecordA2a3 { task_id, func_id, core_type, pmu_total_cycles, pmu_counters, _pad });
            check!(f, "PmuBuffer", BufferA2a3 { records, count });
            check!(f, "PmuBufferState", BufferStateA2a3 {
                free_queue, current_buf_ptr, current_buf_seq, dropped_record_count, total_record_count, stalls,
                stall_ticks, max_stall_ticks, _pad,
            });
            header!(HeaderA2a3);
        }
        Platform::A5 => {
            check!(f, "PmuRecord", RecordA5 { task_id, func_id, core_type, pmu_total_cycles, pmu_counters });
            check!(f, "PmuBuffer", BufferA5 { records, count });
            check!(f, "PmuBufferState", BufferStateA5 {
                free_queue, current_buf_ptr, aicore_ring_ptr, current_buf_seq, total_record_count,
                dropped_record_count, mismatch_record_count, stall_ticks, max_stall_ticks, stalls, _pad,
            });
            check!(f, "PmuAicoreRing", AicoreRing { dual_issue_slots });
            header!(HeaderA5);
        }
    }
}
