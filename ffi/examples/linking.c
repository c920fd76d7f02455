/* A runtime of one core, two AICPU threads and 100 tasks, recorded with the chip swimlane and dep_gen. */
#include <dfx.h>
#include <dfx_aicore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != DFX_OK) {                                                                    \
            fprintf(stderr, "%s: %s\n", #call, dfx_last_error());                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Device memory: here it is the host's own, so mapping an allocation is nothing to do. */
static uint64_t device_alloc(void *ctx, uint64_t bytes) {
    (void)ctx;
    return (uint64_t)(uintptr_t)malloc(bytes);
}
static void device_free(void *ctx, uint64_t addr, uint64_t bytes) {
    (void)ctx, (void)bytes;
    free((void *)(uintptr_t)addr);
}

/* The platform's counter: 50 MHz on a2a3. */
static uint64_t ticks(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 50000000u + (uint64_t)now.tv_nsec / 20u;
}

/* What runs on the device: thread 0 schedules, thread 1 orchestrates, and core 0 executes. */
static void device(const dfx_regions_t *regions) {
    static const uint32_t cores[1] = {0};
    dfx_aicore_recorder_t core;
    dfx_device_set_clock(ticks, NULL);
    if (dfx_swimlane_init(regions->swimlane_base, regions->swimlane_rotation_table, 1) != DFX_DEVICE_OK ||
        dfx_dep_gen_init(regions->dep_gen_base, 1) != DFX_DEVICE_OK) {
        exit(1);
    }
    dfx_swimlane_init_phases(1, 1, 1);
    dfx_swimlane_assign_cores(0, cores, 1);
    dfx_dep_gen_set_enabled(true);
    dfx_aicore_open(&core, dfx_aicore_entry(regions->swimlane_rotation_table, 0, regions->features,
                                            DFX_AICORE_FLAG_SWIMLANE));
    for (uint32_t n = 0; n < 100; n++) {
        const uint64_t submit_start = ticks(), task = n, before = n - 1;
        dfx_submit_t submit;
        memset(&submit, 0, sizeof submit);
        submit.task_id = task;
        submit.deps = &before; /* each task follows the one before */
        submit.dep_count = n > 0;
        submit.kernel_ids[0] = 0;
        submit.kernel_ids[1] = submit.kernel_ids[2] = -1;
        dfx_dep_gen_record(&submit);
        dfx_swimlane_orch_submit(submit_start, ticks(), task, n);

        const uint32_t token = n + 1;
        const uint64_t dispatch = ticks();
        dfx_swimlane_on_dispatch(0, 0, token); /* then the token is written to the core's register */

        const uint64_t receive = ticks(); /* the core sees it */
        dfx_aicore_record_t *slot = dfx_aicore_reserve(&core);
        dfx_swimlane_on_ack(0, 0, token); /* its ACK */
        const uint64_t start = ticks(); /* the kernel runs */
        const uint64_t end = ticks();
        dfx_aicore_commit(slot, start, end, task, token, receive); /* its FIN */

        dfx_swimlane_complete_task(0, 0, token, dispatch, ticks());
    }
    dfx_swimlane_flush(0, cores, 1, false);
    dfx_swimlane_flush(1, NULL, 0, true);
    dfx_dep_gen_flush();
}

int main(int argc, char **argv) {
    static const uint8_t core_types[1] = {DFX_CORE_AIC};
    dfx_board_t board;
    dfx_memory_t memory;
    dfx_regions_t regions;
    dfx_config_h config;
    dfx_session_h session;
    bool complete;
    if (argc != 2) {
        fprintf(stderr, "usage: %s OUTPUT_DIR\n", argv[0]);
        return 2;
    }
    TRY(dfx_abi_check(DFX_ABI_VERSION));

    TRY(dfx_config_create(&config));
    TRY(dfx_config_set_chip_swimlane(config, 4));
    TRY(dfx_config_set_dep_gen(config, true));
    TRY(dfx_config_set_output(config, argv[1]));
    TRY(dfx_config_set_workload(config, "linking"));

    memset(&board, 0, sizeof board);
    board.size = sizeof board;
    board.target = DFX_TARGET_A2A3SIM;
    board.cores = 1;
    board.core_types = core_types;
    board.aicpu_threads = 2;
    memset(&memory, 0, sizeof memory);
    memory.size = sizeof memory;
    memory.alloc = device_alloc;
    memory.free = device_free;
    TRY(dfx_session_create(config, &board, &memory, &session));
    TRY(dfx_config_destroy(config));
    TRY(dfx_session_name_callable(session, 0, "step"));

    memset(&regions, 0, sizeof regions);
    regions.size = sizeof regions;
    TRY(dfx_session_regions(session, &regions));
    TRY(dfx_session_start(session));
    device(&regions);
    TRY(dfx_session_stop(session, DFX_END_COMPLETED));
    TRY(dfx_session_reconcile(session));
    TRY(dfx_session_export(session, NULL));
    TRY(dfx_session_complete(session, &complete));
    TRY(dfx_session_destroy(session));
    printf("%s: %s\n", argv[1], complete ? "complete" : "incomplete, see run.json");
    return complete ? 0 : 3;
}
