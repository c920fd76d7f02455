/*
 * run DIR mapped|copy together|apart: all five features through the C ABI, in one session or in a session for each, as a
 * runtime with a collector class per feature has it. C11, and compiled as C++17, too.
 */
#include "device.h"

#define FEATURES 5

static const uint32_t feature_bits[FEATURES] = {DFX_FEATURE_CHIP_SWIMLANE, DFX_FEATURE_DUMP_ARGS, DFX_FEATURE_PMU,
                                                DFX_FEATURE_DEP_GEN, DFX_FEATURE_SCOPE_STATS};

static dfx_session_h open_session(platform_t *platform, uint32_t transport, uint32_t features, const char *dir,
                                  const char *run) {
    const dfx_memory_t memory = platform_memory(platform, transport);
    const dfx_board_t board = test_board();
    dfx_config_h config = NULL;
    dfx_session_h session = NULL;
    OK(dfx_config_create(&config));
    OK(dfx_config_set_chip_swimlane(config, features & DFX_FEATURE_CHIP_SWIMLANE ? 4 : 0));
    OK(dfx_config_set_dump_args(config, features & DFX_FEATURE_DUMP_ARGS ? 2 : 0));
    OK(dfx_config_set_dep_gen(config, (features & DFX_FEATURE_DEP_GEN) != 0));
    OK(dfx_config_set_scope_stats(config, (features & DFX_FEATURE_SCOPE_STATS) != 0));
    OK(dfx_config_set_pmu(config, features & DFX_FEATURE_PMU ? 4 : 0));
    OK(dfx_config_set_dump_arena(config, 1 << 20));
    OK(dfx_config_set_transport(config, transport));
    OK(dfx_config_set_output(config, dir));
    OK(dfx_config_set_workload(config, "conformance"));
    OK(dfx_config_set_run(config, run));
    OK(dfx_session_create(config, &board, &memory, &session));
    /* The session has a copy of its own. */
    OK(dfx_config_destroy(config));
    OK(dfx_session_name_orchestrator(session, "orchestrate"));
    OK(dfx_session_name_callable(session, 0, "add"));
    return session;
}

static void finish(dfx_session_h session, uint32_t features) {
    dfx_progress_t progress;
    char *text;
    size_t needed = 0;
    OK(dfx_session_stop(session, DFX_END_COMPLETED));
    memset(&progress, 0, sizeof progress);
    progress.size = (uint32_t)sizeof progress;
    OK(dfx_session_progress(session, &progress));
    CHECK(progress.buffers > 0 && progress.dump_bytes_waiting == 0);
    OK(dfx_session_reconcile(session));
    account_is_whole(session, features);
    OK(dfx_session_export(session, NULL));
    account_is_whole(session, features);
    OK(dfx_session_report(session, NULL, 0, &needed));
    text = (char *)malloc(needed);
    CHECK(text != NULL);
    FAILS(DFX_E_SPACE, dfx_session_report(session, text, needed - 1, NULL));
    OK(dfx_session_report(session, text, needed, NULL));
    CHECK(strlen(text) == needed - 1 && strstr(text, "\"complete\": true") != NULL);
    free(text);
    /* The account outlives the memory. */
    OK(dfx_session_release(session));
    account_is_whole(session, features);
    OK(dfx_session_destroy(session));
}

int main(int argc, char **argv) {
    static platform_t platform;
    uint32_t transport;
    CHECK(argc == 4);
    OK(dfx_abi_check(DFX_ABI_VERSION));
    CHECK(dfx_device_abi_version() == DFX_DEVICE_ABI_VERSION);
    transport = strcmp(argv[2], "copy") == 0 ? DFX_TRANSPORT_COPY : DFX_TRANSPORT_MAPPED;
    platform_init(&platform);
    platform.crooked = transport == DFX_TRANSPORT_MAPPED;
    /* Twice: the second launch shares nothing with the first but the process. */
    for (int launch = 0; launch < 2; launch++) {
        dfx_session_h sessions[FEATURES] = {NULL, NULL, NULL, NULL, NULL};
        dfx_regions_t regions, part;
        char run[32];
        const int count = strcmp(argv[3], "apart") == 0 ? FEATURES : 1;
        memset(&regions, 0, sizeof regions);
        snprintf(run, sizeof run, "launch %d", launch);
        for (int i = 0; i < count; i++) {
            sessions[i] = open_session(&platform, transport, count == 1 ? 31u : feature_bits[i], argv[1], run);
            memset(&part, 0, sizeof part);
            part.size = (uint32_t)sizeof part;
            OK(dfx_session_regions(sessions[i], &part));
            regions.features |= part.features;
            regions.swimlane_base |= part.swimlane_base;
            regions.swimlane_rotation_table |= part.swimlane_rotation_table;
            regions.dump_base |= part.dump_base;
            regions.dep_gen_base |= part.dep_gen_base;
            regions.pmu_base |= part.pmu_base;
            regions.pmu_ring_table |= part.pmu_ring_table;
            regions.scope_stats_base |= part.scope_stats_base;
        }
        CHECK(regions.features == 31u);
        for (int i = 0; i < count; i++) {
            OK(dfx_session_start(sessions[i]));
        }
        device_run(&regions);
        for (int i = 0; i < count; i++) {
            finish(sessions[i], count == 1 ? 31u : feature_bits[i]);
        }
        platform_is_clean(&platform);
    }
    puts("ok");
    return 0;
}
