// A device that runs two tasks on two cores and records them with every feature through the drop-in's names: what a
// runtime's AICPU and AICore parts call, in their order. It stands in for a runtime's registers, counter and log, too.
#ifndef DROPIN_DEVICE_HPP
#define DROPIN_DEVICE_HPP

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "common/args_dump.h"
#include "common/core_type.h"
#include "dfx_aicore.h"

enum class ChipSwimlaneSchedPhaseKind : std::uint32_t { Complete = 0, Dispatch = 1 };
enum class RegId : std::uint8_t;

// The drop-in's names.
extern "C" {
void set_platform_chip_swimlane_base(std::uint64_t);
void set_platform_chip_swimlane_aicore_rotation_table(std::uint64_t);
void set_chip_swimlane_enabled(bool);
void set_platform_dump_base(std::uint64_t);
void set_dump_args_enabled(bool);
void set_platform_pmu_base(std::uint64_t);
void set_pmu_enabled(bool);
void set_platform_dep_gen_base(std::uint64_t);
void set_dep_gen_enabled(bool);
void set_scope_stats_enabled(bool);
void set_platform_scope_stats_base(std::uint64_t);
void scope_stats_aicpu_set_orch_thread_idx(int);
void scope_stats_set_pending_site(const char *, int);
void scope_stats_set_ring_capacity(int, std::int32_t, std::uint64_t, std::int32_t);
void scope_stats_set_tensormap_capacity(std::int32_t);
void scope_stats_begin(int, std::int32_t, std::int32_t, std::uint64_t, std::uint64_t, std::int32_t, std::int32_t,
                       std::int32_t);
void scope_stats_end(int, std::int32_t, std::int32_t, std::uint64_t, std::uint64_t, std::int32_t, std::int32_t,
                     std::int32_t);
void scope_stats_aicpu_flush_buffers(void);
}
void chip_swimlane_aicpu_init(int);
void chip_swimlane_aicpu_init_phase(int, int, int);
void chip_swimlane_aicpu_init_core_assignments(int);
void chip_swimlane_aicpu_write_core_assignments_for_thread(int, const int *, int);
void chip_swimlane_aicpu_set_orch_thread_idx(int);
void chip_swimlane_aicpu_on_aicore_dispatch(int, int, std::uint32_t);
void chip_swimlane_aicpu_on_aicore_ack(int, int, std::uint32_t);
int chip_swimlane_aicpu_complete_task(int, int, std::uint32_t, std::uint64_t, std::uint64_t);
void chip_swimlane_aicpu_record_sched_phase(int, ChipSwimlaneSchedPhaseKind, std::uint64_t, std::uint64_t, std::uint32_t,
                                            std::uint32_t, std::uint32_t, std::uint32_t, const std::int16_t *,
                                            const std::int16_t *);
void chip_swimlane_aicpu_record_orch_phase(std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t);
void chip_swimlane_aicpu_flush(int, const int *, int);
void chip_swimlane_aicpu_flush_sched_phase_buffer(int);
void chip_swimlane_aicpu_flush_orch_phase_buffer(int);
void dump_args_init(int);
int dump_arg_record(int, const ArgsDumpInfo &);
void dump_args_flush(int);
void dep_gen_aicpu_set_orch_thread_idx(int);
void dep_gen_aicpu_init();
void dep_gen_aicpu_record_submit(std::uint64_t, bool, bool, int, const void *const *, const std::uint8_t *, int,
                                 const std::uint64_t *, int, const std::int32_t *);
void dep_gen_aicpu_flush();
void dep_gen_aicpu_finalize();
void pmu_aicpu_init(const std::uint32_t *, int);
void pmu_aicpu_record_task(int, int, std::uint64_t, std::uint32_t, CoreType);
void pmu_aicpu_complete_record(int, int, std::uint32_t, std::uint64_t, std::uint32_t, CoreType);
void pmu_aicpu_flush_buffers(int, const int *, int);
void pmu_aicpu_finalize(const int *, int);

// What the drop-in needs of a runtime.
inline std::uint64_t registers[2][1024];
inline std::uint64_t register_bases[2] = {reinterpret_cast<std::uintptr_t>(registers[0]),
                                          reinterpret_cast<std::uintptr_t>(registers[1])};
inline std::uint64_t ticks = 1000;
inline int complaints = 0;

extern "C" {
std::uint64_t get_platform_pmu_reg_addrs() { return reinterpret_cast<std::uintptr_t>(register_bases); }
std::uint64_t get_platform_regs() { return reinterpret_cast<std::uintptr_t>(register_bases); }
__attribute__((format(printf, 2, 3))) void unified_log_error(const char *func, const char *format, ...) {
    va_list args;
    va_start(args, format);
    std::fprintf(stderr, "%s: ", func);
    std::vfprintf(stderr, format, args);
    std::fputc('\n', stderr);
    va_end(args);
    ++complaints;
}
__attribute__((format(printf, 2, 3))) void unified_log_warn(const char *func, const char *format, ...) {
    va_list args;
    va_start(args, format);
    std::fprintf(stderr, "%s: ", func);
    std::vfprintf(stderr, format, args);
    std::fputc('\n', stderr);
    va_end(args);
    ++complaints;
}
}
std::uint64_t get_sys_cnt_aicpu() { return ticks; }
std::uint64_t read_reg(std::uint64_t, RegId) { return 7; }
void write_reg(std::uint64_t, RegId, std::uint64_t) {}
void reg_store_release(volatile std::uint32_t *at, std::uint32_t value) { *at = value; }

// Where the host put the regions.
struct Regions {
    std::uint64_t swimlane, rotation_table, dump, pmu, pmu_rings, dep_gen, scopes;
};

// A tensor of `numel` floats at `data`, made by `owner`.
struct alignas(64) DeviceTensor {
    std::uint64_t addr, bytes, owner, start_offset;
    std::int32_t version;
    std::uint32_t ndims;
    std::uint8_t dtype, manual_dep, is_contiguous, address_space;
    std::uint32_t shapes[5];
    std::uint64_t extent;
    std::uint32_t strides[5];
    std::uint8_t pad[36];
};
static_assert(sizeof(DeviceTensor) == 128, "as in the pinned ABI");

class Device {
public:
    static constexpr int CORES = 2;
    static constexpr int THREADS = 2;
    static constexpr int SCHEDULER = 0;
    static constexpr int ORCHESTRATOR = 1;

    Device(const Regions &regions, bool host_orchestrates) : host_orchestrates_(host_orchestrates), regions_(regions) {
        set_platform_dump_base(regions.dump);
        set_dump_args_enabled(true);
        set_platform_chip_swimlane_base(regions.swimlane);
        set_platform_chip_swimlane_aicore_rotation_table(regions.rotation_table);
        set_chip_swimlane_enabled(true);
        set_platform_pmu_base(regions.pmu);
        set_pmu_enabled(true);
        set_platform_dep_gen_base(regions.dep_gen);
        set_dep_gen_enabled(true);
        set_scope_stats_enabled(true);
        set_platform_scope_stats_base(regions.scopes);
    }

    // Two tasks, the second of which reads what the first wrote, and a scope around them. Where the host orchestrates,
    // nobody records submits for the swimlane here.
    void run() {
        init();
        scope_stats_set_pending_site("orchestration/two_tasks.cpp", 12);
        scope_stats_begin(1, 0, 0, 0, 0, 0, 0, 0);
        for (std::uint32_t task = 0; task < 2; ++task) submit(task);
        for (std::uint32_t task = 0; task < 2; ++task) execute(static_cast<int>(task), task);
        scope_stats_end(1, 0, 2, 0, 256, 0, 1, 2);
    }

    // Publishes what is held back: what a device that hangs never does.
    void flush() {
        chip_swimlane_aicpu_flush(SCHEDULER, cores_, CORES);
        chip_swimlane_aicpu_flush_sched_phase_buffer(SCHEDULER);
        chip_swimlane_aicpu_flush_orch_phase_buffer(ORCHESTRATOR);
        dump_args_flush(SCHEDULER);
        pmu_aicpu_flush_buffers(SCHEDULER, cores_, CORES);
        pmu_aicpu_finalize(cores_, CORES);
        dep_gen_aicpu_flush();
        dep_gen_aicpu_finalize();
        scope_stats_aicpu_flush_buffers();
    }

private:
    void init() {
        const std::uint32_t physical[CORES] = {0, 1};
        chip_swimlane_aicpu_init(CORES);
        chip_swimlane_aicpu_init_phase(CORES, THREADS, 1);
        chip_swimlane_aicpu_set_orch_thread_idx(ORCHESTRATOR);
        chip_swimlane_aicpu_init_core_assignments(CORES);
        chip_swimlane_aicpu_write_core_assignments_for_thread(SCHEDULER, cores_, CORES);
        dump_args_init(THREADS);
        pmu_aicpu_init(physical, CORES);
        dep_gen_aicpu_set_orch_thread_idx(ORCHESTRATOR);
        dep_gen_aicpu_init();
        scope_stats_aicpu_set_orch_thread_idx(ORCHESTRATOR);
        for (int ring = 0; ring < 4; ++ring) scope_stats_set_ring_capacity(ring, 16, 4096, 64);
        scope_stats_set_tensormap_capacity(128);
        for (int core = 0; core < CORES; ++core) {
            const auto index = static_cast<std::uint32_t>(core);
            dfx_aicore_open(&recorders_[core],
                            dfx_aicore_entry(regions_.rotation_table, index, FLAGS, DFX_AICORE_FLAG_SWIMLANE));
            dfx_aicore_pmu_open(&counters_[core], register_bases[core],
                                dfx_aicore_entry(regions_.pmu_rings, index, FLAGS, DFX_AICORE_FLAG_PMU));
        }
    }

    void submit(std::uint32_t task) {
        const std::uint64_t began = tick();
        DeviceTensor tensors[2] = {};
        for (int arg = 0; arg < 2; ++arg) {
            DeviceTensor &tensor = tensors[arg];
            tensor.addr = reinterpret_cast<std::uintptr_t>(data_[static_cast<int>(task) + arg]);
            tensor.bytes = sizeof(data_[0]);
            tensor.owner = arg == 0 && task == 1 ? 0 : UINT64_MAX;
            tensor.ndims = 1;
            tensor.is_contiguous = 1;
            tensor.shapes[0] = NUMEL;
            tensor.strides[0] = 1;
            tensor.extent = NUMEL;
        }
        const void *const args[2] = {&tensors[0], &tensors[1]};
        const std::uint8_t types[2] = {0, 3};
        const std::int32_t kernels[3] = {static_cast<std::int32_t>(task), -1, -1};
        dep_gen_aicpu_record_submit(task, false, false, 2, args, types, 0, nullptr, 1, kernels);
        if (!host_orchestrates_) chip_swimlane_aicpu_record_orch_phase(began, tick(), task, task);
    }

    void execute(int core, std::uint32_t task) {
        const std::uint32_t token = task + 1;
        const std::int16_t depths[3] = {1, 0, 0};
        const std::uint64_t dispatched = tick();
        dump(task, 0, ArgsDumpStage::BEFORE_DISPATCH);
        chip_swimlane_aicpu_on_aicore_dispatch(core, SCHEDULER, token);

        const std::uint64_t received = tick();
        DFX_GM dfx_aicore_record_t *const slot = dfx_aicore_reserve(&recorders_[core]);
        chip_swimlane_aicpu_on_aicore_ack(core, SCHEDULER, token);
        dfx_aicore_pmu_begin(&counters_[core]);
        const std::uint64_t began = tick();
        for (int i = 0; i < NUMEL; ++i) data_[core + 1][i] = data_[core][i] + 1.0f;
        const std::uint64_t ended = tick();
        dfx_aicore_pmu_end(&counters_[core]);
        dfx_aicore_pmu_record(&counters_[core], token);
        dfx_aicore_commit(slot, began, ended, task, token, received);

        chip_swimlane_aicpu_on_aicore_ack(core, SCHEDULER, token);
        const CoreType type = core == 0 ? CoreType::AIC : CoreType::AIV;
#ifdef DFX_PLATFORM_A5
        pmu_aicpu_complete_record(core, SCHEDULER, token, task, task, type);
#else
        pmu_aicpu_record_task(core, SCHEDULER, task, task, type);
#endif
        dump(task, 1, ArgsDumpStage::AFTER_COMPLETION);
        chip_swimlane_aicpu_complete_task(core, SCHEDULER, token, dispatched, tick());
        chip_swimlane_aicpu_record_sched_phase(SCHEDULER, ChipSwimlaneSchedPhaseKind::Dispatch, dispatched, tick(), task, 1,
                                               1, 0, depths, depths);
    }

    void dump(std::uint32_t task, std::uint32_t arg, ArgsDumpStage stage) {
        ArgsDumpInfo info = {};
        info.task_id = task;
        info.role = arg == 0 ? ArgsDumpRole::INPUT : ArgsDumpRole::OUTPUT;
        info.stage = stage;
        info.ndims = 1;
        info.arg_index = arg;
        info.buffer_addr = reinterpret_cast<std::uintptr_t>(data_[task + arg]);
        info.func_ids[0] = static_cast<std::int32_t>(task);
        info.func_count = 1;
        info.capture_payload = 1;
        info.shapes[0] = NUMEL;
        info.strides[0] = 1;
        dump_arg_record(SCHEDULER, info);
    }

    static std::uint64_t tick() { return ticks += 5; }

    static constexpr int NUMEL = 8;
    static constexpr std::uint32_t FLAGS = DFX_AICORE_FLAG_SWIMLANE | DFX_AICORE_FLAG_PMU;
    const int cores_[CORES] = {0, 1};
    bool host_orchestrates_;
    Regions regions_;
    dfx_aicore_recorder_t recorders_[CORES] = {};
    dfx_aicore_pmu_t counters_[CORES] = {};
    float data_[3][NUMEL] = {};
};

#endif
