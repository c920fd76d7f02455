//! Every constant of ours beside the facts' name.

use dfx_collector::abi::registers::{Reg, Registers};
use dfx_collector::abi::topology::Topology;
use dfx_collector::abi::{
    Geometry, Platform, args_dump, clock_anchor, dep_gen, device_phase, flags, host_phase, pmu, scope_stats,
    swimlane, task, tensor, timeouts, token, topology,
};

/// Every register of a platform: the facts' name, ours, its number.
pub(crate) fn register_names(platform: Platform) -> Vec<(String, Reg, u8)> {
    let registers = Registers::of(platform);
    let name = |reg| match reg {
        Reg::DataMainBase => "DATA_MAIN_BASE".to_owned(),
        Reg::Cond => "COND".to_owned(),
        Reg::FastPathEnable => "FAST_PATH_ENABLE".to_owned(),
        Reg::Ctrl => "CTRL".to_owned(),
        Reg::PmuCtrl(n) => format!("PMU_CTRL_{n}"),
        Reg::PmuCounter(n) => format!("PMU_CNT{n}"),
        Reg::PmuTotal(n) => format!("PMU_CNT_TOTAL{n}"),
        Reg::PmuStart(n) => format!("PMU_START_CYC{n}"),
        Reg::PmuStop(n) => format!("PMU_STOP_CYC{n}"),
        Reg::PmuSelector(n) => format!("PMU_CNT{n}_IDX"),
    };
    let all: Vec<_> =
        (0..=u8::MAX).map_while(|id| registers.by_id(id).map(|reg| (name(reg), reg, id))).collect();
    assert!(all.iter().all(|(_, reg, id)| registers.id(*reg) == Some(*id)));
    all
}

/// Our value for every constant that is a number.
#[rustfmt::skip] // A table.
pub(crate) fn constants(platform: Platform) -> Vec<(String, i128)> {
    let (g, t, r) = (Geometry::of(platform), Topology::of(platform), Registers::of(platform));
    let mut all: Vec<(String, i128)> = Vec::new();
    macro_rules! add { ($($name:literal: $value:expr),* $(,)?) => {{
        $(all.push(($name.to_owned(), ($value) as i128));)*
    }} }
    add! {
        "PLATFORM_MAX_BLOCKDIM": g.max_blockdim,
        "PLATFORM_CORES_PER_BLOCKDIM": topology::CORES_PER_BLOCK,
        "PLATFORM_SUB_CORES_PER_AICORE": topology::CORES_PER_BLOCK,
        "PLATFORM_AIC_CORES_PER_BLOCKDIM": topology::AIC_PER_BLOCK,
        "PLATFORM_AIV_CORES_PER_BLOCKDIM": topology::AIV_PER_BLOCK,
        "PLATFORM_MAX_AIC_PER_THREAD": g.max_blockdim * topology::AIC_PER_BLOCK,
        "PLATFORM_MAX_AIV_PER_THREAD": g.max_blockdim * topology::AIV_PER_BLOCK,
        "PLATFORM_MAX_CORES_PER_THREAD": g.max_blockdim * topology::CORES_PER_BLOCK,
        "PLATFORM_MAX_CORES": g.max_cores,
        "PLATFORM_MAX_PHYSICAL_CORES": t.physical_cores,
        "PLATFORM_MAX_AICPU_THREADS": g.max_threads,
        "PLATFORM_DEFAULT_AICPU_THREAD_NUM": g.default_threads,
        "PLATFORM_MAX_AICPU_THREADS_JUST_FOR_LAUNCH": t.launch_threads,

        "PLATFORM_OP_EXECUTE_TIMEOUT_US": timeouts::OP_EXECUTE_US,
        "PLATFORM_ONBOARD_SCHEDULER_TIMEOUT_MS": timeouts::SCHEDULER_MS,
        "PLATFORM_STREAM_SYNC_TIMEOUT_MS": timeouts::STREAM_SYNC_MS,
        "PLATFORM_DFX_BACKPRESSURE_TIMEOUT_CYCLES": timeouts::backpressure_ticks(platform),
        "PLATFORM_PROF_TIMEOUT_SECONDS": timeouts::COLLECT_S,
        "PLATFORM_DUMP_TIMEOUT_SECONDS": timeouts::COLLECT_S,
        "PLATFORM_PMU_TIMEOUT_SECONDS": timeouts::COLLECT_S,
        "PLATFORM_DEP_GEN_TIMEOUT_SECONDS": timeouts::COLLECT_S,
        "PLATFORM_SCOPE_STATS_TIMEOUT_SECONDS": timeouts::COLLECT_S,
        "PLATFORM_PROF_SYS_CNT_FREQ": g.clock_hz,
        "PLATFORM_ACL_EVENT_TIMESTAMP_FREQ_HZ": clock_anchor::EVENT_HZ,
        "kClockAnchorSamplesPerPosition": clock_anchor::SAMPLES_PER_POSITION,

        "PLATFORM_PROF_BUFFER_SIZE": swimlane::TASK_RECORDS,
        "PLATFORM_AICORE_BUFFER_SIZE": swimlane::CORE_RECORDS,
        "PLATFORM_PHASE_RECORDS_PER_THREAD": swimlane::PHASE_RECORDS,
        "PLATFORM_PROF_SLOT_COUNT": swimlane::SLOTS,
        "PLATFORM_PROF_BUFFERS_PER_CORE": swimlane::TASK_BUFFERS,
        "PLATFORM_AICORE_BUFFERS_PER_CORE": swimlane::CORE_BUFFERS,
        "PLATFORM_PROF_SCHED_BUFFERS_PER_THREAD": swimlane::SCHED_BUFFERS,
        "PLATFORM_PROF_ORCH_BUFFERS_PER_THREAD": swimlane::ORCH_BUFFERS,
        "PLATFORM_PROF_READYQUEUE_BUFFERS_PER_THREAD": topology::PHASE_READY_BUFFERS,
        "PLATFORM_PROF_READYQUEUE_SIZE": g.swimlane_ready_entries,
        "CHIP_SWIMLANE_NUM_QUEUE_SHAPES": swimlane::QUEUE_SHAPES,
        "PLATFORM_HOST_PHASE_RECORDS_PER_BUFFER": host_phase::RECORDS,
        "PLATFORM_HOST_PHASE_BUFFERS": host_phase::BUFFERS,
        "kHostPhaseKindCount": host_phase::Kind::ALL.len(),

        "PLATFORM_DUMP_RECORDS_PER_BUFFER": args_dump::RECORDS,
        "PLATFORM_DUMP_BUFFERS_PER_THREAD": args_dump::BUFFERS,
        "PLATFORM_DUMP_SLOT_COUNT": args_dump::SLOTS,
        "PLATFORM_DUMP_AVG_TENSOR_BYTES": args_dump::AVERAGE_TENSOR_BYTES,
        "PLATFORM_DUMP_MAX_DIMS": tensor::MAX_DIMS,
        "PLATFORM_DUMP_READYQUEUE_SIZE": g.dump_ready_entries,
        "CALC_DUMP_ARENA_SIZE": args_dump::ARENA_BYTES,
        "ARGS_DUMP_MAGIC": args_dump::MAGIC,
        "ARGS_DUMP_MAX_FUNC_IDS": args_dump::MAX_FUNC_IDS,
        "ARGS_DUMP_ARG_MASK_NONE": args_dump::ARG_MASK_NONE,
        "ARGS_DUMP_ARG_MASK_BITS": args_dump::ARG_MASK_BITS,
        "ARGS_DUMP_RECORD_FLAG_ARG_INDEX_AMBIGUOUS": args_dump::FLAG_ARG_INDEX_AMBIGUOUS,

        "PLATFORM_PMU_RECORDS_PER_BUFFER": pmu::RECORDS,
        "PLATFORM_PMU_SLOT_COUNT": pmu::SLOTS,
        "PLATFORM_PMU_BUFFERS_PER_CORE": pmu::BUFFERS,
        "PLATFORM_PMU_READYQUEUE_SIZE": g.pmu_ready_entries,
        "PMU_EVENT_TYPE_DEFAULT": pmu::EventType::default(),

        "PLATFORM_DEP_GEN_RECORDS_PER_BUFFER": dep_gen::RECORDS,
        "PLATFORM_DEP_GEN_SLOT_COUNT": dep_gen::SLOTS,
        "PLATFORM_DEP_GEN_BUFFERS_PER_INSTANCE": dep_gen::BUFFERS,
        "PLATFORM_DEP_GEN_READYQUEUE_SIZE": dep_gen::READY_ENTRIES,
        "DEP_GEN_TENSOR_SIZE": dep_gen::TENSOR_BYTES,
        "DEP_GEN_MAX_EXPLICIT_DEPS": dep_gen::MAX_EXPLICIT_DEPS,
        "DEP_GEN_OVERFLOW_DEPS_PER_RECORD": dep_gen::OVERFLOW_DEPS,

        "PLATFORM_SCOPE_STATS_RECORDS_PER_BUFFER": scope_stats::RECORDS,
        "PLATFORM_SCOPE_STATS_SLOT_COUNT": scope_stats::SLOTS,
        "PLATFORM_SCOPE_STATS_BUFFERS_PER_INSTANCE": scope_stats::BUFFERS,
        "PLATFORM_SCOPE_STATS_READYQUEUE_SIZE": scope_stats::READY_ENTRIES,
        "PTO2_SCOPE_STATS_MAX_RING_DEPTH": scope_stats::RINGS,
        "PTO2_SCOPE_STATS_MAX_SCOPE_DEPTH": scope_stats::MAX_DEPTH,
        "SCOPE_STATS_PHASE_BEGIN": scope_stats::Phase::Begin,
        "SCOPE_STATS_PHASE_END": scope_stats::Phase::End,
        "SCOPE_STATS_HEAP_SIDE_ALLOC": scope_stats::HeapSide::Alloc,
        "SCOPE_STATS_HEAP_SIDE_RECLAIM": scope_stats::HeapSide::Reclaim,

        "NUM_AICPU_PHASES": device_phase::PHASES,
        "kPhaseUnset": device_phase::UNSET,
        "NUM_TASK_TIMING_SLOTS": device_phase::TIMING_SLOTS,
        "TASK_TIMING_SLOT_NONE": device_phase::NO_TIMING_SLOT,

        "MAX_TENSOR_DIMS": tensor::MAX_DIMS,
        "CORE_MAX_TENSOR_ARGS": tensor::MAX_TENSOR_ARGS,
        "MAX_TENSOR_ARGS": tensor::MAX_TENSOR_ARGS,
        "CORE_MAX_SCALAR_ARGS": tensor::MAX_SCALAR_ARGS,
        "MAX_SCALAR_ARGS": tensor::MAX_SCALAR_ARGS,

        "INVALID_KERNEL_ID": task::NO_KERNEL,
        "PTO2_SUBTASK_SLOT_COUNT": task::SUBTASK_SLOTS,
        "PTO2_SUBTASK_MASK_AIC": task::MASK_AIC,
        "PTO2_SUBTASK_MASK_AIV0": task::MASK_AIV0,
        "PTO2_SUBTASK_MASK_AIV1": task::MASK_AIV1,
        "PTO2_NUM_RESOURCE_SHAPES": task::RESOURCE_SHAPES,

        "AICORE_EXIT_SIGNAL": token::EXIT_SIGNAL,
        "AICORE_COREID_MASK": token::CORE_ID_MASK,
        "AICPU_TASK_INVALID": token::TASK_INVALID,
        "TASK_ID_MASK": token::MASK,
        "TASK_STATE_MASK": token::STATE_MASK,
        "TASK_ACK_STATE": token::STATE_ACK,
        "TASK_FIN_STATE": token::STATE_FIN,
        "AICORE_IDLE_TASK_ID": token::CORE_IDLE,
        "AICORE_EXIT_TASK_ID": token::CORE_EXITED,
        "AICPU_IDLE_TASK_ID": token::AICPU_IDLE,
        "AICORE_IDLE_VALUE": token::IDLE_VALUE,
        "AICORE_EXITED_VALUE": token::EXITED_VALUE,

        "SIMPLER_DFX_FLAG_NONE": flags::NONE,
        "SIMPLER_DFX_FLAG_DUMP_ARGS": flags::DUMP_ARGS,
        "SIMPLER_DFX_FLAG_CHIP_SWIMLANE": flags::CHIP_SWIMLANE,
        "SIMPLER_DFX_FLAG_PMU": flags::PMU,
        "SIMPLER_DFX_FLAG_DEP_GEN": flags::DEP_GEN,
        "SIMPLER_DFX_FLAG_SCOPE_STATS": flags::SCOPE_STATS,
    }
    match platform {
        Platform::A2a3 => {
            let gate = r.fast_path.expect("a2a3 has the gate");
            add! {
                "PMU_COUNTER_COUNT_A2A3": pmu::COUNTERS_A2A3,
                "REG_SPR_FAST_PATH_OPEN": gate.open,
                "REG_SPR_FAST_PATH_CLOSE": gate.close,
                "SIM_REG_BLOCK_SIZE": r.sim_bytes(),
            }
        }
        Platform::A5 => add! {
            "PMU_COUNTER_COUNT_A5": pmu::COUNTERS_A5,
            "PLATFORM_PMU_AICORE_RING_SIZE": pmu::RING_SLOTS,
            "PLATFORM_PROF_EMPTY_POLLS_CHECK_NUM": timeouts::EMPTY_POLLS,
            "PLATFORM_NUM_DIES": t.dies,
            "PLATFORM_AICORE_PER_DIE": t.cores_per_die(),
            "SIM_REG_PAGE0_SIZE": r.sim_pages[0].bytes,
            "SIM_REG_PAGE1_BASE": r.sim_pages[1].base,
            "SIM_REG_PAGE1_SIZE": r.sim_pages[1].bytes,
            "SIM_REG_PAGE2_BASE": r.sim_pages[2].base,
            "SIM_REG_PAGE2_SIZE": r.sim_pages[2].bytes,
            "SIM_REG_TOTAL_SIZE": r.sim_bytes(),
        },
    }
    for (name, reg, _) in register_names(platform) {
        let kind = if name.starts_with("PMU") { "MMIO" } else { "SPR" };
        all.push((format!("REG_{kind}_{name}_OFFSET"), r.offset(reg).expect("it has a number").into()));
    }
    for (n, control) in r.pmu_ctrl.iter().enumerate() {
        all.push((format!("REG_MMIO_PMU_CTRL_{n}_ENABLE_VAL"), control.enable.into()));
    }
    all
}
