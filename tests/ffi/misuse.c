/*
 * misuse DIR: what a caller may get wrong is an error with a message, and nothing is left behind. C11, and compiled as
 * C++17, too.
 */
#include "device.h"

static platform_t platform;
static const uint32_t all[CORES] = {0, 1, 2};

static dfx_config_h everything(const char *dir) {
    dfx_config_h config = NULL;
    OK(dfx_config_create(&config));
    OK(dfx_config_set_chip_swimlane(config, 4));
    OK(dfx_config_set_dump_args(config, 2));
    OK(dfx_config_set_dump_arena(config, 1 << 16));
    OK(dfx_config_set_dep_gen(config, true));
    OK(dfx_config_set_scope_stats(config, true));
    OK(dfx_config_set_pmu(config, 2));
    if (dir != NULL) {
        OK(dfx_config_set_output(config, dir));
    }
    return config;
}

static dfx_session_h session_of(dfx_config_h config) {
    const dfx_memory_t memory = platform_memory(&platform, DFX_TRANSPORT_MAPPED);
    const dfx_board_t board = test_board();
    dfx_session_h session = NULL;
    OK(dfx_config_set_transport(config, DFX_TRANSPORT_MAPPED));
    OK(dfx_session_create(config, &board, &memory, &session));
    CHECK(session != NULL);
    return session;
}

static void versions(void) {
    dfx_platform_t numbers;
    CHECK(dfx_abi_version() == DFX_ABI_VERSION);
    CHECK(strcmp(dfx_last_error(), "") == 0);
    FAILS(DFX_E_ABI, dfx_abi_check(DFX_ABI_VERSION + 1));
    memset(&numbers, 0, sizeof numbers);
    FAILS(DFX_E_ABI, dfx_platform_get(TARGET, &numbers));
    numbers.size = (uint32_t)sizeof numbers;
    FAILS(DFX_E_INVALID, dfx_platform_get(4, &numbers));
    FAILS(DFX_E_NULL, dfx_platform_get(TARGET, NULL));
    OK(dfx_platform_get(TARGET, &numbers));
    CHECK(numbers.clock_hz == TICKS_PER_US * 1000000u && numbers.max_cores >= CORES);
}

/* Every function that takes a configuration, with one that is not there. */
static void no_config(dfx_config_h config, dfx_status_e code) {
    FAILS(code, dfx_config_set_chip_swimlane(config, 1));
    FAILS(code, dfx_config_set_dep_gen(config, true));
    FAILS(code, dfx_config_set_dump_args(config, 1));
    FAILS(code, dfx_config_set_pmu(config, 1));
    FAILS(code, dfx_config_set_scope_stats(config, true));
    FAILS(code, dfx_config_set_dump_budget(config, 1));
    FAILS(code, dfx_config_set_dump_dedup(config, true));
    FAILS(code, dfx_config_set_dump_arena(config, 4096));
    FAILS(code, dfx_config_set_backpressure(config, 0));
    FAILS(code, dfx_config_set_buffers(config, 0, 2));
    FAILS(code, dfx_config_set_timeouts(config, 1, 1));
    FAILS(code, dfx_config_set_transport(config, 0));
    FAILS(code, dfx_config_set_output(config, "x"));
    FAILS(code, dfx_config_set_run(config, "x"));
    FAILS(code, dfx_config_set_workload(config, "x"));
    FAILS(code, dfx_config_destroy(config));
}

/* Every function that takes a session, with one that is not there. */
static void no_session(dfx_session_h session, dfx_status_e code) {
    dfx_regions_t regions;
    dfx_progress_t progress;
    dfx_stream_t stream;
    uint32_t count;
    size_t needed;
    bool complete;
    FAILS(code, dfx_session_set_output(session, "x"));
    FAILS(code, dfx_session_set_threads(session, NULL));
    FAILS(code, dfx_session_regions(session, &regions));
    FAILS(code, dfx_session_start(session));
    FAILS(code, dfx_session_progress(session, &progress));
    FAILS(code, dfx_session_stop(session, 0));
    FAILS(code, dfx_session_reconcile(session));
    FAILS(code, dfx_session_export(session, "x"));
    FAILS(code, dfx_session_complete(session, &complete));
    FAILS(code, dfx_session_stream_count(session, &count));
    FAILS(code, dfx_session_stream(session, 0, &stream));
    FAILS(code, dfx_session_reason_count(session, &count));
    FAILS(code, dfx_session_reason(session, 0, NULL, 0, &needed));
    FAILS(code, dfx_session_report(session, NULL, 0, &needed));
    FAILS(code, dfx_session_name_callable(session, 0, "x"));
    FAILS(code, dfx_session_name_orchestrator(session, "x"));
    FAILS(code, dfx_session_add_host_submits(session, NULL, 0));
    FAILS(code, dfx_session_add_host_uploads(session, NULL, 0));
    FAILS(code, dfx_session_set_host_capture(session, 0, 0, 0, 0));
    FAILS(code, dfx_session_set_anchors(session, "x", "x", 1));
    FAILS(code, dfx_session_add_anchor(session, NULL));
    FAILS(code, dfx_session_set_core_types(session, NULL, 0));
    FAILS(code, dfx_session_release(session));
    FAILS(code, dfx_session_destroy(session));
}

static void handles(void) {
    dfx_config_h config = everything(NULL);
    dfx_config_h other = everything(NULL);
    dfx_session_h session = session_of(config);
    no_config(NULL, DFX_E_NULL);
    no_session(NULL, DFX_E_NULL);
    /* Of the other kind, and made up. */
    no_config((dfx_config_h)(void *)session, DFX_E_HANDLE);
    no_session((dfx_session_h)(void *)config, DFX_E_HANDLE);
    no_config((dfx_config_h)(uintptr_t)0x12345, DFX_E_HANDLE);
    no_session((dfx_session_h)(uintptr_t)0xfffffffffffffff0u, DFX_E_HANDLE);
    no_session((dfx_session_h)(void *)&platform, DFX_E_HANDLE);
    OK(dfx_config_destroy(config));
    OK(dfx_session_destroy(session));
    no_config(config, DFX_E_HANDLE);
    no_session(session, DFX_E_HANDLE);
    /* A slot that is used again does not bring an old handle back. */
    {
        dfx_config_h again = everything(NULL);
        dfx_session_h next = session_of(again);
        CHECK(again != config && next != session);
        no_config(config, DFX_E_HANDLE);
        no_session(session, DFX_E_HANDLE);
        OK(dfx_config_destroy(again));
        OK(dfx_session_destroy(next));
    }
    OK(dfx_config_destroy(other));
    platform_is_clean(&platform);
}

static void values(void) {
    dfx_config_h config = everything(NULL);
    FAILS(DFX_E_NULL, dfx_config_create(NULL));
    FAILS(DFX_E_NULL, dfx_config_from_env(NULL));
    FAILS(DFX_E_INVALID, dfx_config_set_chip_swimlane(config, 5));
    CHECK(strstr(dfx_last_error(), "enable_chip_swimlane: 5") != NULL);
    FAILS(DFX_E_INVALID, dfx_config_set_chip_swimlane(config, -1));
    FAILS(DFX_E_INVALID, dfx_config_set_dump_args(config, 4));
    FAILS(DFX_E_INVALID, dfx_config_set_dump_arena(config, 4095));
    FAILS(DFX_E_INVALID, dfx_config_set_dump_arena(config, UINT64_MAX - 63));
    FAILS(DFX_E_INVALID, dfx_config_set_dump_arena(config, (UINT64_C(1) << 40) + 64));
    OK(dfx_config_set_dump_arena(config, UINT64_C(1) << 40));
    FAILS(DFX_E_INVALID, dfx_config_set_backpressure(config, 4));
    FAILS(DFX_E_INVALID, dfx_config_set_buffers(config, DFX_STREAM_AICORE_TASK, 1));
    FAILS(DFX_E_INVALID, dfx_config_set_buffers(config, DFX_STREAM_PMU_ROW, 0));
    FAILS(DFX_E_INVALID, dfx_config_set_buffers(config, DFX_STREAM_PMU_ROW, 65537));
    FAILS(DFX_E_INVALID, dfx_config_set_buffers(config, DFX_STREAM_AICORE_TASK, UINT32_MAX));
    OK(dfx_config_set_buffers(config, DFX_STREAM_PMU_ROW, 65536));
    FAILS(DFX_E_INVALID, dfx_config_set_buffers(config, 8, 4));
    FAILS(DFX_E_INVALID, dfx_config_set_timeouts(config, 0, 1));
    FAILS(DFX_E_INVALID, dfx_config_set_transport(config, 3));
    FAILS(DFX_E_INVALID, dfx_config_set_output(config, ""));
    FAILS(DFX_E_NULL, dfx_config_set_output(config, NULL));
    FAILS(DFX_E_NULL, dfx_config_set_workload(config, NULL));
    FAILS(DFX_E_INVALID, dfx_config_set_workload(config, "\xff\xfe"));
    OK(dfx_config_set_run(config, NULL));
    OK(dfx_config_destroy(config));
}

/* What MAP_FAILED is. */
static uint64_t nowhere(void *ctx, uint64_t bytes) {
    (void)ctx, (void)bytes;
    return UINT64_MAX;
}

/* Mappings on which words are not aligned. */
static void *register_askew(void *ctx, uint64_t addr, uint64_t bytes) {
    unsigned char *host = (unsigned char *)platform_register(ctx, addr, bytes);
    return host == NULL ? NULL : host + 4;
}

static void unregister_askew(void *ctx, uint64_t addr, void *host, uint64_t bytes) {
    platform_unregister(ctx, addr, (unsigned char *)host - 4, bytes);
}

static void boards_and_memory(void) {
    dfx_config_h config = everything(NULL);
    dfx_session_h session = NULL;
    dfx_memory_t memory = platform_memory(&platform, DFX_TRANSPORT_MAPPED);
    const dfx_memory_t good = memory;
    dfx_board_t board = test_board();
    uint8_t kinds[CORES] = {0, 1, 2};
    OK(dfx_config_set_transport(config, DFX_TRANSPORT_MAPPED));
    FAILS(DFX_E_NULL, dfx_session_create(config, NULL, &memory, &session));
    FAILS(DFX_E_NULL, dfx_session_create(config, &board, NULL, &session));
    FAILS(DFX_E_NULL, dfx_session_create(config, &board, &memory, NULL));
    FAILS(DFX_E_NULL, dfx_session_create(NULL, &board, &memory, &session));
    board.size = 0;
    FAILS(DFX_E_ABI, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.target = 9;
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.cores = 0;
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.cores = 100000; /* the array is not looked at */
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.aicpu_threads = 0;
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.aicpu_threads = 99;
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.core_types = NULL;
    FAILS(DFX_E_NULL, dfx_session_create(config, &board, &memory, &session));
    board = test_board(), board.core_types = kinds;
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    board = test_board();
    memory.size++;
    FAILS(DFX_E_ABI, dfx_session_create(config, &board, &memory, &session));
    memory = good, memory.alloc = NULL;
    FAILS(DFX_E_NULL, dfx_session_create(config, &board, &memory, &session));
    memory = good, memory.free = NULL;
    FAILS(DFX_E_NULL, dfx_session_create(config, &board, &memory, &session));
    memory = good, memory.reserved = 1;
    FAILS(DFX_E_INVALID, dfx_session_create(config, &board, &memory, &session));
    memory = good, memory.alloc = nowhere;
    FAILS(DFX_E_MEMORY, dfx_session_create(config, &board, &memory, &session));
    CHECK(strstr(dfx_last_error(), "0xffffffffffffffff") != NULL);
    memory = good, memory.register_host = register_askew, memory.unregister_host = unregister_askew;
    for (int crooked = 0; crooked < 2; crooked++) {
        platform.crooked = crooked;
        FAILS(DFX_E_MEMORY, dfx_session_create(config, &board, &memory, &session));
        CHECK(strstr(dfx_last_error(), "is not a multiple of 64 bytes") != NULL);
        platform_is_clean(&platform);
    }
    platform.crooked = 0;
    /* Copies without the functions to copy. */
    OK(dfx_config_set_transport(config, DFX_TRANSPORT_COPY));
    FAILS(DFX_E_NULL, dfx_session_create(config, &board, &good, &session));
    CHECK(session == NULL);
    /* A link that fails, and memory that runs out at the first allocation and at each later one. */
    memory = platform_memory(&platform, DFX_TRANSPORT_COPY);
    platform.copies_fail = 1;
    FAILS(DFX_E_MEMORY, dfx_session_create(config, &board, &memory, &session));
    CHECK(strstr(dfx_last_error(), "-7") != NULL);
    platform.copies_fail = 0;
    platform_is_clean(&platform);
    OK(dfx_config_set_transport(config, DFX_TRANSPORT_MAPPED));
    for (int crooked = 0; crooked < 2; crooked++) {
        int *const budgets[2] = {&platform.allocs_left, &platform.registers_left};
        platform.crooked = crooked;
        for (int which = 0; which < 2; which++) {
            int granted = 0;
            for (;; granted++) {
                *budgets[which] = granted;
                if (dfx_session_create(config, &board, &good, &session) == DFX_OK) {
                    break;
                }
                CHECK(session == NULL && strstr(dfx_last_error(), "callback returned") != NULL);
                platform_is_clean(&platform);
            }
            CHECK(granted > 0);
            *budgets[which] = -1;
            OK(dfx_session_destroy(session));
            session = NULL;
            platform_is_clean(&platform);
        }
    }
    platform.crooked = 0;
    OK(dfx_config_destroy(config));
}

/* A file that a start takes away. */
static void leave_a_report(const char *dir) {
    char path[1024];
    FILE *file;
    snprintf(path, sizeof path, "%s/run.json", dir);
    file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
}

static int has_a_report(const char *dir) {
    char path[1024];
    FILE *file;
    snprintf(path, sizeof path, "%s/run.json", dir);
    file = fopen(path, "r");
    return file != NULL && fclose(file) == 0;
}

static void order(const char *dir) {
    dfx_config_h config = everything(dir);
    dfx_session_h session = session_of(config);
    dfx_regions_t regions;
    dfx_stream_t stream;
    char text[8];
    uint32_t count = 1;
    bool complete;
    memset(&regions, 0, sizeof regions);
    FAILS(DFX_E_ABI, dfx_session_regions(session, &regions));
    FAILS(DFX_E_NULL, dfx_session_regions(session, NULL));
    FAILS(DFX_E_ORDER, dfx_session_stop(session, DFX_END_COMPLETED));
    CHECK(strstr(dfx_last_error(), "configured") != NULL);
    FAILS(DFX_E_ORDER, dfx_session_reconcile(session));
    FAILS(DFX_E_ORDER, dfx_session_export(session, NULL));
    FAILS(DFX_E_ORDER, dfx_session_complete(session, &complete));
    FAILS(DFX_E_ORDER, dfx_session_reason_count(session, &count));
    FAILS(DFX_E_ORDER, dfx_session_report(session, text, sizeof text, NULL));
    OK(dfx_session_stream_count(session, &count));
    CHECK(count == 0);
    OK(dfx_session_start(session));
    FAILS(DFX_E_ORDER, dfx_session_start(session));
    FAILS(DFX_E_ORDER, dfx_session_set_output(session, "elsewhere"));
    FAILS(DFX_E_ORDER, dfx_session_set_threads(session, NULL));
    FAILS(DFX_E_ORDER, dfx_session_reconcile(session));
    FAILS(DFX_E_INVALID, dfx_session_stop(session, 2));
    OK(dfx_session_stop(session, DFX_END_COMPLETED));
    FAILS(DFX_E_ORDER, dfx_session_stop(session, DFX_END_COMPLETED));
    OK(dfx_session_reconcile(session));
    FAILS(DFX_E_ORDER, dfx_session_reconcile(session));
    FAILS(DFX_E_NULL, dfx_session_complete(session, NULL));
    FAILS(DFX_E_NULL, dfx_session_report(session, NULL, 0, NULL));
    FAILS(DFX_E_SPACE, dfx_session_report(session, text, sizeof text, NULL));
    memset(&stream, 0, sizeof stream);
    stream.size = (uint32_t)sizeof stream;
    FAILS(DFX_E_RANGE, dfx_session_stream(session, 100000, &stream));
    FAILS(DFX_E_RANGE, dfx_session_reason(session, 100000, text, sizeof text, NULL));
    /* Dumped payload is where the start was told: it cannot be exported elsewhere. */
    FAILS(DFX_E_INVALID, dfx_session_export(session, "elsewhere"));
    OK(dfx_session_export(session, NULL));
    FAILS(DFX_E_ORDER, dfx_session_export(session, NULL));
    FAILS(DFX_E_ORDER, dfx_session_name_callable(session, 0, "late"));
    OK(dfx_session_release(session));
    OK(dfx_session_release(session));
    FAILS(DFX_E_ORDER, dfx_session_start(session));
    FAILS(DFX_E_ORDER, dfx_session_export(session, NULL));
    OK(dfx_session_destroy(session));
    /* Given up at any time. */
    session = session_of(config);
    OK(dfx_session_start(session));
    OK(dfx_session_destroy(session));
    session = session_of(config);
    OK(dfx_session_release(session));
    leave_a_report(dir);
    FAILS(DFX_E_ORDER, dfx_session_start(session));
    FAILS(DFX_E_ORDER, dfx_session_export(session, NULL));
    CHECK(strstr(dfx_last_error(), "dfx_session_release") != NULL);
    CHECK(has_a_report(dir)); /* what fails has no effect */
    OK(dfx_session_destroy(session));
    OK(dfx_config_destroy(config));
    platform_is_clean(&platform);
}

static void program(void) {
    dfx_config_h config = everything(NULL);
    dfx_session_h session = session_of(config);
    static const uint8_t kinds[CORES] = {1, 1, 0}, wrong[CORES] = {0, 1, 7};
    dfx_host_submit_t submit;
    dfx_host_upload_t upload;
    dfx_anchor_t anchor;
    FAILS(DFX_E_NULL, dfx_session_name_callable(session, 0, NULL));
    FAILS(DFX_E_NULL, dfx_session_name_orchestrator(session, NULL));
    FAILS(DFX_E_NULL, dfx_session_add_host_submits(session, NULL, 1));
    OK(dfx_session_add_host_submits(session, NULL, 0));
    memset(&submit, 0, sizeof submit);
    FAILS(DFX_E_INVALID, dfx_session_add_host_submits(session, &submit, SIZE_MAX));
    FAILS(DFX_E_INVALID, dfx_session_set_core_types(session, kinds, SIZE_MAX));
    submit.reserved = 1;
    FAILS(DFX_E_INVALID, dfx_session_add_host_submits(session, &submit, 1));
    memset(&upload, 0, sizeof upload);
    upload.phase = 3;
    FAILS(DFX_E_INVALID, dfx_session_add_host_uploads(session, &upload, 1));
    FAILS(DFX_E_INVALID, dfx_session_add_host_uploads(session, &upload, SIZE_MAX));
    upload.phase = 0, upload.reserved = 1;
    FAILS(DFX_E_INVALID, dfx_session_add_host_uploads(session, &upload, 1));
    memset(&anchor, 0, sizeof anchor);
    anchor.position = 2;
    FAILS(DFX_E_INVALID, dfx_session_add_anchor(session, &anchor));
    FAILS(DFX_E_NULL, dfx_session_add_anchor(session, NULL));
    FAILS(DFX_E_NULL, dfx_session_set_anchors(session, NULL, "x", 3));
    FAILS(DFX_E_NULL, dfx_session_set_core_types(session, NULL, CORES));
    FAILS(DFX_E_INVALID, dfx_session_set_core_types(session, kinds, CORES - 1));
    FAILS(DFX_E_INVALID, dfx_session_set_core_types(session, wrong, CORES));
    OK(dfx_session_set_core_types(session, kinds, CORES));
    OK(dfx_session_destroy(session));
    OK(dfx_config_destroy(config));
}

static void outputs(const char *dir) {
    char path[1024];
    dfx_config_h config = everything(NULL);
    dfx_session_h session = session_of(config);
    FILE *file;
    FAILS(DFX_E_INVALID, dfx_session_start(session)); /* dumped payload needs a place to go */
    FAILS(DFX_E_INVALID, dfx_session_set_output(session, ""));
    snprintf(path, sizeof path, "%s/in the way", dir);
    file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
    OK(dfx_session_set_output(session, path));
    FAILS(DFX_E_IO, dfx_session_start(session));
    CHECK(strstr(dfx_last_error(), "in the way") != NULL);
    snprintf(path, sizeof path, "%s/given later", dir);
    OK(dfx_session_set_output(session, path));
    OK(dfx_session_start(session));
    OK(dfx_session_destroy(session));
    /* Without dumped payload the place may be named last of all. */
    OK(dfx_config_set_dump_args(config, 0));
    session = session_of(config);
    OK(dfx_session_start(session));
    OK(dfx_session_stop(session, DFX_END_COMPLETED));
    OK(dfx_session_reconcile(session));
    FAILS(DFX_E_INVALID, dfx_session_export(session, NULL));
    FAILS(DFX_E_INVALID, dfx_session_export(session, ""));
    OK(dfx_session_export(session, path));
    OK(dfx_session_destroy(session));
    strncat(path, "/run.json", sizeof path - strlen(path) - 1);
    file = fopen(path, "r");
    CHECK(file != NULL && fclose(file) == 0);
    OK(dfx_config_destroy(config));
    platform_is_clean(&platform);
}

/* ---- Callbacks that misbehave ------------------------------------------------------------------------------------ */

static dfx_session_h inside;
static int refused;

static void free_and_call_back(void *ctx, uint64_t addr, uint64_t bytes) {
    dfx_progress_t progress;
    memset(&progress, 0, sizeof progress);
    progress.size = (uint32_t)sizeof progress;
    if (dfx_session_release(inside) == DFX_E_BUSY && dfx_session_destroy(inside) == DFX_E_BUSY) {
        refused++;
    }
    OK(dfx_session_progress(inside, &progress)); /* whatever else is under way */
    platform_free(ctx, addr, bytes);
}

static void *no_thread(void *ctx, const char *name, dfx_thread_entry_f entry, void *arg) {
    (void)ctx, (void)entry, (void)arg;
    CHECK(strncmp(name, "dfx-", 4) == 0);
    return NULL;
}

static void no_join(void *ctx, void *thread) {
    (void)ctx, (void)thread;
    CHECK(!"nothing to join");
}

static void callbacks(const char *dir) {
    dfx_config_h config = everything(dir);
    const dfx_board_t board = test_board();
    dfx_memory_t memory = platform_memory(&platform, DFX_TRANSPORT_MAPPED);
    dfx_threads_t threads;
    memory.free = free_and_call_back;
    OK(dfx_config_set_transport(config, DFX_TRANSPORT_MAPPED));
    OK(dfx_session_create(config, &board, &memory, &inside));
    memset(&threads, 0, sizeof threads);
    FAILS(DFX_E_ABI, dfx_session_set_threads(inside, &threads));
    threads.size = (uint32_t)sizeof threads;
    FAILS(DFX_E_NULL, dfx_session_set_threads(inside, &threads));
    threads.spawn = no_thread;
    FAILS(DFX_E_NULL, dfx_session_set_threads(inside, &threads));
    threads.join = no_join;
    threads.reserved = 1;
    FAILS(DFX_E_INVALID, dfx_session_set_threads(inside, &threads));
    threads.reserved = 0;
    OK(dfx_session_set_threads(inside, &threads));
    FAILS(DFX_E_THREAD, dfx_session_start(inside));
    OK(dfx_session_set_threads(inside, NULL));
    OK(dfx_session_start(inside));
    OK(dfx_session_destroy(inside));
    CHECK(refused > 0);
    OK(dfx_config_destroy(config));
    platform_is_clean(&platform);
}

static int told;

static void listen(void *ctx, uint32_t level, const char *target, const char *message) {
    CHECK(ctx == &told && level == DFX_LOG_WARN && target[0] != 0);
    if (strstr(message, "event=77") != NULL) {
        told++;
    }
}

static void logs(void) {
    dfx_config_h config = NULL;
    OK(dfx_config_create(&config));
    FAILS(DFX_E_INVALID, dfx_log_set(listen, &told, 6));
    OK(dfx_log_set(listen, &told, DFX_LOG_WARN));
    OK(dfx_config_set_pmu(config, 77));
    CHECK(told == 1);
    OK(dfx_log_set(listen, &told, DFX_LOG_OFF));
    OK(dfx_config_set_pmu(config, 77));
    CHECK(told == 1);
    OK(dfx_log_set(NULL, NULL, DFX_LOG_OFF));
    OK(dfx_config_destroy(config));
}

/* A sink that makes an output directory ready when it hears that another was. */
static void start_another(void *ctx, uint32_t level, const char *target, const char *message) {
    dfx_session_h *other = (dfx_session_h *)ctx;
    (void)level, (void)target;
    if (*other != NULL && strstr(message, "an earlier run left") != NULL) {
        dfx_session_h session = *other;
        *other = NULL;
        OK(dfx_session_start(session));
        OK(dfx_session_destroy(session));
        told++;
    }
}

static void sink_that_calls(const char *dir) {
    char path[1024];
    dfx_config_h config = everything(dir);
    dfx_session_h session = session_of(config), other;
    snprintf(path, sizeof path, "%s/of another", dir);
    OK(dfx_config_set_output(config, path));
    other = session_of(config);
    leave_a_report(dir);
    told = 0;
    OK(dfx_log_set(start_another, &other, DFX_LOG_DEBUG));
    OK(dfx_session_start(session));
    OK(dfx_log_set(NULL, NULL, DFX_LOG_OFF));
    CHECK(told == 1);
    OK(dfx_session_destroy(session));
    OK(dfx_config_destroy(config));
    platform_is_clean(&platform);
}

/* A log that cannot be written is nobody's failure. Last of all: standard error is gone after it. */
static void full_log(void) {
    dfx_config_h config = NULL;
    FILE *full = freopen("/dev/full", "w", stderr);
    OK(dfx_config_create(&config));
    OK(dfx_log_set(NULL, NULL, DFX_LOG_WARN));
    if (full == NULL || dfx_config_set_pmu(config, 77) != DFX_OK) {
        printf("the log is full: %s\n", dfx_last_error());
        exit(1);
    }
    OK(dfx_log_set(NULL, NULL, DFX_LOG_OFF));
    OK(dfx_config_destroy(config));
}

/* With nothing on there is nothing: no memory, no thread, no file, and every step does nothing. */
static void nothing(const char *dir) {
    dfx_config_h config = NULL;
    dfx_session_h session;
    dfx_regions_t regions;
    dfx_threads_t threads;
    char path[1024];
    bool complete = false;
    FILE *file;
    snprintf(path, sizeof path, "%s/nothing", dir);
    OK(dfx_config_create(&config));
    OK(dfx_config_set_output(config, path));
    platform.allocs_left = 0;
    session = session_of(config);
    memset(&threads, 0, sizeof threads);
    threads.size = (uint32_t)sizeof threads;
    threads.spawn = no_thread;
    threads.join = no_join;
    OK(dfx_session_set_threads(session, &threads));
    memset(&regions, 0xff, sizeof regions);
    regions.size = (uint32_t)sizeof regions;
    OK(dfx_session_regions(session, &regions));
    CHECK(regions.features == 0 && regions.swimlane_base == 0 && regions.scope_stats_base == 0);
    OK(dfx_session_start(session));
    OK(dfx_session_stop(session, DFX_END_COMPLETED));
    OK(dfx_session_reconcile(session));
    OK(dfx_session_export(session, NULL));
    OK(dfx_session_complete(session, &complete));
    CHECK(complete);
    OK(dfx_session_destroy(session));
    OK(dfx_config_destroy(config));
    platform.allocs_left = -1;
    strncat(path, "/run.json", sizeof path - strlen(path) - 1);
    file = fopen(path, "r");
    CHECK(file == NULL);
}

/* ---- The device half --------------------------------------------------------------------------------------------- */

/* Everything that records, with numbers that there are not; nothing of it may show. */
static void wild_calls(void) {
    static const uint32_t wild[2] = {99, UINT32_MAX};
    dfx_dump_arg_t arg;
    memset(&arg, 0, sizeof arg);
    arg.ndims = 200;
    dfx_swimlane_on_dispatch(99, 0, 1);
    dfx_swimlane_on_dispatch(0, 99, 1);
    dfx_swimlane_on_ack(UINT32_MAX, 0, 1);
    CHECK(dfx_swimlane_complete_task(99, 0, 1, 1, 2) == -1);
    dfx_swimlane_sched_phase(99, 0, 1, 2, 0, 0, 0, 0, NULL, NULL);
    dfx_swimlane_sched_phase(0, 77, 1, 2, 0, 0, 0, 0, NULL, NULL);
    dfx_swimlane_flush(99, wild, 2, false);
    dfx_swimlane_flush(0, NULL, 3, false);
    CHECK(!dfx_dump_record(99, &arg));
    CHECK(!dfx_dump_record(0, NULL));
    dfx_dump_flush(99);
    dfx_dep_gen_record(NULL);
    dfx_pmu_record(99, 0, 1, 1, 0, 0);
    dfx_pmu_record(0, 99, 1, 1, 0, 77);
    dfx_pmu_flush(99, wild, 2);
    dfx_scope_begin(NULL);
    dfx_scope_end(NULL);
    dfx_scope_note_heap_wrap(9);
}

/* Records that the session has of a stream; its accounts must balance, whatever was called. */
static uint64_t total(dfx_session_h session, uint32_t kind) {
    uint32_t count = 0;
    uint64_t records = 0;
    OK(dfx_session_stream_count(session, &count));
    for (uint32_t i = 0; i < count; i++) {
        dfx_stream_t stream;
        memset(&stream, 0, sizeof stream);
        stream.size = (uint32_t)sizeof stream;
        OK(dfx_session_stream(session, i, &stream));
        CHECK(stream.produced == stream.collected + stream.dropped + stream.lost + stream.mismatched);
        CHECK(stream.corrupt == 0);
        records += stream.kind == kind ? stream.collected : 0;
    }
    return records;
}

static void device(const char *dir) {
    dfx_config_h config = everything(dir);
    dfx_session_h session = session_of(config);
    dfx_regions_t regions;
    memset(&regions, 0, sizeof regions);
    regions.size = (uint32_t)sizeof regions;
    OK(dfx_session_regions(session, &regions));
    OK(dfx_session_start(session));
    device_reset();
    wild_calls(); /* before any init */
    dfx_device_set_clock(NULL, NULL);
    CHECK(dfx_swimlane_init(regions.swimlane_base, regions.swimlane_rotation_table, CORES) == DFX_DEVICE_NO_CLOCK);
    dfx_device_set_clock(ticks_now, NULL);
    CHECK(dfx_swimlane_init(0, 0, CORES) == DFX_DEVICE_NO_REGION);
    CHECK(dfx_swimlane_init(regions.swimlane_base, 0, 100000) == DFX_DEVICE_TOO_MANY);
    CHECK(dfx_dump_init(0, THREADS) == DFX_DEVICE_NO_REGION);
    CHECK(dfx_dump_init(regions.dump_base, 0) == DFX_DEVICE_TOO_MANY);
    CHECK(dfx_dump_init(regions.dump_base, 99) == DFX_DEVICE_TOO_MANY);
    CHECK(dfx_dump_init(regions.scope_stats_base, THREADS) == DFX_DEVICE_NOT_A_REGION);
    CHECK(dfx_pmu_init(0, NULL, CORES) == DFX_DEVICE_NO_REGION);
    CHECK(dfx_pmu_init(regions.pmu_base, NULL, 100000) == DFX_DEVICE_TOO_MANY);
    CHECK(dfx_dep_gen_init(0, 1) == DFX_DEVICE_NO_REGION);
    CHECK(dfx_scope_init(0, 1) == DFX_DEVICE_NO_REGION);
    CHECK(dfx_device_message(DFX_DEVICE_TOO_MANY) != NULL && dfx_device_message(12345) != NULL);
    wild_calls(); /* after inits that failed */
    dfx_dump_set_enabled(true);
    dfx_dep_gen_set_enabled(true);
    dfx_scope_set_enabled(true);
    CHECK(dfx_swimlane_init(regions.swimlane_base, regions.swimlane_rotation_table, CORES) == DFX_DEVICE_OK);
    dfx_swimlane_init_phases(1, 1, CORES);
    CHECK(dfx_dump_init(regions.dump_base, THREADS) == DFX_DEVICE_OK);
    CHECK(dfx_pmu_init(regions.pmu_base, NULL, CORES) == DFX_DEVICE_OK);
    CHECK(dfx_dep_gen_init(regions.dep_gen_base, 1) == DFX_DEVICE_OK);
    CHECK(dfx_scope_init(regions.scope_stats_base, 1) == DFX_DEVICE_OK);
    wild_calls();
    CHECK(dfx_swimlane_misused() > 0 && dfx_dump_misused() > 0 && dfx_pmu_misused() > 0);
    dfx_swimlane_flush(0, all, CORES, false);
    dfx_swimlane_flush(1, NULL, 0, true);
    dfx_dep_gen_flush();
    dfx_scope_flush();
    device_reset();
    wild_calls(); /* after the reset */
    device_reset();
    OK(dfx_session_stop(session, DFX_END_COMPLETED));
    OK(dfx_session_reconcile(session));
    OK(dfx_session_export(session, NULL));
    for (uint32_t kind = 0; kind < 8; kind++) {
        CHECK(total(session, kind) == 0);
    }
    OK(dfx_session_destroy(session));
    OK(dfx_config_destroy(config));
    platform_is_clean(&platform);
}

/* Two initialisations in one launch: the second starts over, and what the first took is not lost on the host. */
static void twice(const char *dir) {
    dfx_config_h config = everything(dir);
    dfx_session_h session = session_of(config);
    dfx_regions_t regions;
    static device_t launch;
    memset(&regions, 0, sizeof regions);
    regions.size = (uint32_t)sizeof regions;
    OK(dfx_session_regions(session, &regions));
    OK(dfx_session_start(session));
    device_open(&launch, &regions);
    free(launch.registers);
    device_open(&launch, &regions);
    for (uint32_t n = 0; n < 10; n++) {
        orchestrate(&launch, n);
        execute(&launch, n);
    }
    close_scheduler(&launch);
    close_orchestrator(&launch);
    device_close(&launch);
    OK(dfx_session_stop(session, DFX_END_COMPLETED));
    OK(dfx_session_reconcile(session));
    CHECK(total(session, DFX_STREAM_AICORE_TASK) == 10 && total(session, DFX_STREAM_AICPU_TASK) == 10);
    CHECK(total(session, DFX_STREAM_SUBMIT) == 10 && total(session, DFX_STREAM_PMU_ROW) == 10);
    CHECK(total(session, DFX_STREAM_ARG) == 30 && total(session, DFX_STREAM_SCOPE_SAMPLE) == 1);
    OK(dfx_session_export(session, NULL));
    OK(dfx_session_destroy(session));
    OK(dfx_config_destroy(config));
    platform_is_clean(&platform);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    platform_init(&platform);
    versions();
    handles();
    values();
    boards_and_memory();
    order(argv[1]);
    program();
    outputs(argv[1]);
    callbacks(argv[1]);
    logs();
    sink_that_calls(argv[1]);
    nothing(argv[1]);
    device(argv[1]);
    twice(argv[1]);
    full_log();
    puts("ok");
    return 0;
}
