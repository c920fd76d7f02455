/* PmuCollector over dfx.h, in place of the runtime's header of this name; see dfx_dropin_session.h. */
#ifndef DFX_DROPIN_PMU_COLLECTOR_H
#define DFX_DROPIN_PMU_COLLECTOR_H

#include <cstdlib>

#include "common/pmu_profiling.h"
#include "dfx_dropin_session.h"

using PmuAllocCallback = profiling_common::ProfAllocCallback;
using PmuRegisterCallback = profiling_common::ProfRegisterCallback;
using PmuUnregisterCallback = profiling_common::ProfUnregisterCallback;
using PmuFreeCallback = profiling_common::ProfFreeCallback;

class PmuCollector {
public:
    int init(int num_cores, int num_threads, const std::string &csv_path, PmuEventType event_type,
             const PmuAllocCallback &alloc_cb, PmuRegisterCallback register_cb, const PmuFreeCallback &free_cb,
             int device_id) {
        directory_ = std::filesystem::path(csv_path).parent_path().string();
        return session_.open(num_cores, num_threads, {alloc_cb, register_cb, free_cb, device_id}, directory_,
                             [event_type](dfx_config_h config) {
                                 return dfx_config_set_pmu(config, static_cast<std::uint32_t>(event_type));
                             });
    }
    bool is_initialized() const { return session_.is_open(); }
    void *get_pmu_shm_device_ptr() const { return at(session_.regions().pmu_base); }
    /* a5: one u64 per core, the address of its ring. */
    void *get_aicore_ring_addrs_device_ptr() const { return at(session_.regions().pmu_ring_table); }
    void start(const profiling_common::ThreadFactory &thread_factory) { session_.start(thread_factory); }
    void stop() { session_.stop(); }
    /* Closes the account and writes pmu.csv. */
    void reconcile_counters() {
        session_.reconcile();
        session_.write({});
    }
    void finalize(PmuUnregisterCallback unregister_cb, const PmuFreeCallback &free_cb) {
        session_.close(unregister_cb, free_cb);
    }

private:
    static void *at(std::uint64_t address) { return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address)); }

    dfx_dropin::Session session_{"PMU", DFX_FEATURE_PMU};
    std::string directory_;
};

/* The event type that is asked for, unless SIMPLER_PMU_EVENT_TYPE names another; an unknown one is pipe utilization. */
inline PmuEventType resolve_pmu_event_type(int requested) {
    const auto known = [](long event) { return event == 1 || event == 2 || (event >= 4 && event <= 8); };
    long event = requested;
    if (const char *named = std::getenv("SIMPLER_PMU_EVENT_TYPE")) event = std::strtol(named, nullptr, 10);
    if (event != 0 && !known(event)) LOG_WARN("PMU event type %ld is unknown, 2 (pipe utilization) is counted", event);
    return static_cast<PmuEventType>(known(event) ? event : 2);
}

/* Where the PMU's rows go below `output_dir`. */
inline std::string make_pmu_csv_path(const std::string &output_dir) {
    return (std::filesystem::path(output_dir) / "pmu.csv").string();
}

#endif /* DFX_DROPIN_PMU_COLLECTOR_H */
