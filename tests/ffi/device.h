/*
 * A launch as a runtime makes it: an orchestrator that submits, a scheduler that dispatches, cores that record, all five
 * features, through the C ABI only. What each feature records is known by number. C11 and C++17.
 */
#ifndef DFX_TEST_DEVICE_H
#define DFX_TEST_DEVICE_H

#include "dfx_aicore.h"
#include "harness.h"

/* Several buffers of each kind, and some left over: cores rotate at 1024 records, PMU lanes at 512. */
#define TASKS 7000u
#define DUMPED 64u   /* tasks whose arguments are dumped: an input, an output, a scalar each */
#define SCOPED 100u  /* submits in a scope */
#define ELEMENTS 1024u
#define REGISTER_BYTES 0x10000u

static inline uint64_t task_of(uint32_t n) {
    return (uint64_t)(n % 4u) << 32 | (n / 4u);
}

typedef struct {
    dfx_regions_t regions;
    float input[ELEMENTS], output[ELEMENTS];
    unsigned char *registers; /* REGISTER_BYTES per core */
    dfx_aicore_recorder_t cores[CORES];
    dfx_aicore_pmu_t pmus[CORES];
    uint32_t tokens[CORES];
} device_t;

/* The runtime's own tensor, 128 bytes: buffer, owner, view. */
typedef struct {
    uint64_t addr, bytes, owner, start_offset;
    int32_t version;
    uint32_t ndims;
    uint8_t dtype, manual_dep, contiguous, space;
    uint32_t shapes[5];
    uint64_t extent;
    uint32_t strides[5];
    uint8_t pad[36];
} tensor_t;

static inline int has(const device_t *device, uint32_t feature) {
    return (device->regions.features & feature) != 0;
}

/* Everything off, however many launches there were before. */
static inline void device_reset(void) {
    dfx_swimlane_reset();
    dfx_dump_reset();
    dfx_dep_gen_reset();
    dfx_pmu_reset();
    dfx_scope_reset();
}

static inline void device_open(device_t *device, const dfx_regions_t *regions) {
    static const uint32_t all[CORES] = {0, 1, 2};
    uint64_t bases[CORES];
    memset(device, 0, sizeof *device);
    device->regions = *regions;
    device->registers = (unsigned char *)calloc(CORES, REGISTER_BYTES);
    CHECK(device->registers != NULL);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        device->input[i] = (float)i;
    }
    device_reset();
    dfx_device_set_clock(ticks_now, NULL);
    if (has(device, DFX_FEATURE_DUMP_ARGS)) {
        dfx_dump_set_enabled(true);
        CHECK(dfx_dump_init(regions->dump_base, THREADS) == DFX_DEVICE_OK);
        CHECK(dfx_dump_level() == 2);
    }
    if (has(device, DFX_FEATURE_CHIP_SWIMLANE)) {
        CHECK(dfx_swimlane_init(regions->swimlane_base, regions->swimlane_rotation_table, CORES) == DFX_DEVICE_OK);
        CHECK(dfx_swimlane_level() == 4);
        dfx_swimlane_init_phases(1, 1, CORES);
        dfx_swimlane_assign_cores(0, all, CORES);
    }
    for (uint32_t core = 0; core < CORES; core++) {
        bases[core] = (uint64_t)(uintptr_t)(device->registers + core * REGISTER_BYTES);
    }
    if (has(device, DFX_FEATURE_PMU)) {
        CHECK(dfx_pmu_init(regions->pmu_base, bases, CORES) == DFX_DEVICE_OK);
    }
    if (has(device, DFX_FEATURE_DEP_GEN)) {
        dfx_dep_gen_set_enabled(true);
        CHECK(dfx_dep_gen_init(regions->dep_gen_base, 1) == DFX_DEVICE_OK);
    }
    if (has(device, DFX_FEATURE_SCOPE_STATS)) {
        dfx_scope_set_enabled(true);
        CHECK(dfx_scope_init(regions->scope_stats_base, 1) == DFX_DEVICE_OK);
        dfx_scope_set_ring_capacity(0, 1024, 1u << 20, 1024);
        dfx_scope_set_tensormap_capacity(4096);
    }
    /* Kernel entry of each core. */
    for (uint32_t core = 0; core < CORES; core++) {
        const uint32_t flags = regions->features;
        dfx_aicore_open(&device->cores[core], dfx_aicore_entry(regions->swimlane_rotation_table, core, flags,
                                                                 DFX_AICORE_FLAG_SWIMLANE));
        dfx_aicore_pmu_open(&device->pmus[core], bases[core],
                            dfx_aicore_entry(regions->pmu_ring_table, core, flags, DFX_AICORE_FLAG_PMU));
    }
}

/* What the orchestrator does for submit number n: it reads one tensor and follows the submit before. */
static inline void orchestrate(const device_t *device, uint32_t n) {
    const uint64_t start = ticks_now(), task = task_of(n);
    dfx_scope_sample_t sample;
    memset(&sample, 0, sizeof sample);
    sample.task_start = (int32_t)(n / SCOPED * SCOPED);
    sample.task_end = (int32_t)n;
    sample.heap_end = (uint64_t)n * 64u % (1u << 20);
    if (has(device, DFX_FEATURE_SCOPE_STATS) && n % SCOPED == 0) {
        dfx_scope_set_site(__FILE__, (int32_t)n);
        dfx_scope_begin(&sample);
    }
    if (has(device, DFX_FEATURE_DEP_GEN)) {
        tensor_t tensor;
        const void *tensors[1];
        const uint8_t types[1] = {0};
        const uint64_t deps[1] = {n == 0 ? 0 : task_of(n - 1)};
        dfx_submit_t submit;
        memset(&tensor, 0, sizeof tensor);
        tensor.addr = (uint64_t)(uintptr_t)device->input;
        tensor.bytes = sizeof device->input;
        tensor.owner = UINT64_MAX; /* nobody's */
        tensor.ndims = 1;
        tensor.contiguous = 1;
        tensor.shapes[0] = ELEMENTS;
        tensor.extent = ELEMENTS;
        tensor.strides[0] = 1;
        tensors[0] = &tensor;
        memset(&submit, 0, sizeof submit);
        submit.task_id = task;
        submit.block_num = 1;
        submit.tensors = tensors;
        submit.arg_types = types;
        submit.tensor_count = 1;
        submit.deps = deps;
        submit.dep_count = n == 0 ? 0 : 1;
        submit.kernel_ids[0] = (int32_t)(n % 5u);
        submit.kernel_ids[1] = submit.kernel_ids[2] = -1;
        dfx_dep_gen_record(&submit);
    }
    if (has(device, DFX_FEATURE_SCOPE_STATS) && n % SCOPED == SCOPED - 1) {
        dfx_scope_end(&sample);
    }
    if (has(device, DFX_FEATURE_CHIP_SWIMLANE)) {
        dfx_swimlane_orch_submit(start, ticks_now(), task, n);
    }
}

static inline void dump_one(const device_t *device, uint32_t n, uint32_t index, int after) {
    dfx_dump_arg_t arg;
    memset(&arg, 0, sizeof arg);
    arg.task_id = task_of(n);
    arg.arg_index = index;
    arg.role = after ? 1 : 0;
    arg.stage = after ? 1 : 0;
    arg.func_ids[0] = (int32_t)(n % 5u);
    arg.func_count = 1;
    if (index == 2) {
        arg.kind = 1;
        arg.dtype = 2;
        arg.scalar_value = n;
    } else {
        arg.buffer_addr = (uint64_t)(uintptr_t)(after ? device->output : device->input);
        arg.ndims = 1;
        arg.shapes[0] = ELEMENTS;
        arg.strides[0] = 1;
    }
    CHECK(dfx_dump_record(0, &arg));
}

/* What scheduler and core do for task number n. */
static inline void execute(device_t *device, uint32_t n) {
    const uint32_t core = n % CORES, token = ++device->tokens[core];
    const uint64_t task = task_of(n);
    const int swimlane = has(device, DFX_FEATURE_CHIP_SWIMLANE);
    uint64_t dispatch, receive, start, end;
    dfx_aicore_record_t *slot;
    if (has(device, DFX_FEATURE_DUMP_ARGS) && n < DUMPED) {
        dump_one(device, n, 0, 0);
        dump_one(device, n, 2, 0);
    }
    dispatch = ticks_now();
    if (swimlane) {
        dfx_swimlane_on_dispatch(core, 0, token);
    }
    /* The core. */
    receive = ticks_now();
    slot = dfx_aicore_reserve(&device->cores[core]);
    CHECK((slot != NULL) == swimlane);
    if (swimlane) {
        dfx_swimlane_on_ack(core, 0, token); /* the ACK, as the scheduler sees it */
    }
    dfx_aicore_pmu_begin(&device->pmus[core]);
    start = ticks_now();
    device->output[n % ELEMENTS] = device->input[n % ELEMENTS] + (float)n;
    end = ticks_now();
    dfx_aicore_pmu_end(&device->pmus[core]);
    dfx_aicore_pmu_record(&device->pmus[core], token);
    dfx_aicore_commit(slot, start, end, task, token, receive);
    /* FIN, as the scheduler sees it. */
    if (swimlane) {
        dfx_swimlane_on_ack(core, 0, token);
        CHECK(dfx_swimlane_complete_task(core, 0, token, dispatch, ticks_now()) == 0);
        dfx_swimlane_sched_phase(0, 0, dispatch, ticks_now(), n, 1, 0, 0, NULL, NULL);
    }
    if (has(device, DFX_FEATURE_PMU)) {
        dfx_pmu_record(core, 0, token, task, n % 5u, core == 0 ? DFX_CORE_AIC : DFX_CORE_AIV);
    }
    if (has(device, DFX_FEATURE_DUMP_ARGS) && n < DUMPED) {
        dump_one(device, n, 1, 1);
    }
}

/* The scheduler's last calls. */
static inline void close_scheduler(const device_t *device) {
    static const uint32_t all[CORES] = {0, 1, 2};
    if (has(device, DFX_FEATURE_CHIP_SWIMLANE)) {
        dfx_swimlane_flush(0, all, CORES, false);
    }
    if (has(device, DFX_FEATURE_PMU)) {
        dfx_pmu_flush(0, all, CORES);
        dfx_pmu_finalize(all, CORES);
    }
    if (has(device, DFX_FEATURE_DUMP_ARGS)) {
        dfx_dump_flush(0);
    }
}

/* The orchestrator's. */
static inline void close_orchestrator(const device_t *device) {
    if (has(device, DFX_FEATURE_CHIP_SWIMLANE)) {
        dfx_swimlane_flush(1, NULL, 0, true);
    }
    if (has(device, DFX_FEATURE_DEP_GEN)) {
        dfx_dep_gen_flush();
    }
    if (has(device, DFX_FEATURE_SCOPE_STATS)) {
        dfx_scope_flush();
    }
}

static inline void device_close(device_t *device) {
    CHECK(dfx_swimlane_misused() + dfx_dump_misused() + dfx_dep_gen_misused() + dfx_pmu_misused() == 0);
    CHECK(dfx_scope_misused() == 0);
    device_reset();
    free(device->registers);
}

/* A whole launch on one thread. */
static inline void device_run(const dfx_regions_t *regions) {
    static device_t device;
    device_open(&device, regions);
    for (uint32_t n = 0; n < TASKS; n++) {
        orchestrate(&device, n);
        execute(&device, n);
    }
    close_scheduler(&device);
    close_orchestrator(&device);
    device_close(&device);
}

/* What a whole launch gives on the lanes of a stream, all together. */
static inline uint64_t expected_of(uint32_t stream) {
    switch (stream) {
    case DFX_STREAM_ARG:
        return 3u * DUMPED;
    case DFX_STREAM_SCOPE_SAMPLE:
        return 2u * (TASKS / SCOPED);
    default:
        return TASKS;
    }
}

/* The streams of a feature, as bits. */
static inline uint32_t streams_of(uint32_t features) {
    uint32_t streams = 0;
    if (features & DFX_FEATURE_CHIP_SWIMLANE) {
        streams |= 1u << DFX_STREAM_AICORE_TASK | 1u << DFX_STREAM_AICPU_TASK | 1u << DFX_STREAM_SCHED_PHASE |
                   1u << DFX_STREAM_ORCH_PHASE;
    }
    streams |= features & DFX_FEATURE_DEP_GEN ? 1u << DFX_STREAM_SUBMIT : 0u;
    streams |= features & DFX_FEATURE_DUMP_ARGS ? 1u << DFX_STREAM_ARG : 0u;
    streams |= features & DFX_FEATURE_PMU ? 1u << DFX_STREAM_PMU_ROW : 0u;
    streams |= features & DFX_FEATURE_SCOPE_STATS ? 1u << DFX_STREAM_SCOPE_SAMPLE : 0u;
    return streams;
}

/* The account of a session is the launch's: every record once, none missing. */
static inline void account_is_whole(dfx_session_h session, uint32_t features) {
    uint64_t collected[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    uint32_t count = 0, reasons = 1;
    bool complete = false;
    OK(dfx_session_stream_count(session, &count));
    for (uint32_t i = 0; i < count; i++) {
        dfx_stream_t stream;
        memset(&stream, 0, sizeof stream);
        stream.size = (uint32_t)sizeof stream;
        OK(dfx_session_stream(session, i, &stream));
        CHECK(stream.kind < 8 && stream.has_total == 1);
        CHECK(stream.produced == stream.collected + stream.dropped + stream.lost + stream.mismatched);
        CHECK(stream.dropped + stream.lost + stream.mismatched + stream.corrupt + stream.duplicate == 0);
        collected[stream.kind] += stream.collected;
    }
    for (uint32_t kind = 0; kind < 8; kind++) {
        const uint64_t expected = streams_of(features) >> kind & 1u ? expected_of(kind) : 0;
        if (collected[kind] != expected) {
            fprintf(stderr, "stream %u: %llu records, expected %llu\n", kind, (unsigned long long)collected[kind],
                    (unsigned long long)expected);
            exit(1);
        }
    }
    OK(dfx_session_reason_count(session, &reasons));
    if (reasons != 0) {
        char reason[512];
        OK(dfx_session_reason(session, 0, reason, sizeof reason, NULL));
        fprintf(stderr, "%s\n", reason);
    }
    OK(dfx_session_complete(session, &complete));
    CHECK(reasons == 0 && complete);
}

#endif
