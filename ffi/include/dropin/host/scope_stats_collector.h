/* ScopeStatsCollector over dfx.h, in place of the runtime's header of this name; see dfx_dropin_session.h. */
#ifndef DFX_DROPIN_SCOPE_STATS_COLLECTOR_H
#define DFX_DROPIN_SCOPE_STATS_COLLECTOR_H

#include "dfx_dropin_session.h"

using ScopeStatsAllocCallback = profiling_common::ProfAllocCallback;
using ScopeStatsRegisterCallback = profiling_common::ProfRegisterCallback;
using ScopeStatsUnregisterCallback = profiling_common::ProfUnregisterCallback;
using ScopeStatsFreeCallback = profiling_common::ProfFreeCallback;

class ScopeStatsCollector {
public:
    int init(int num_threads, const ScopeStatsAllocCallback &alloc_cb, ScopeStatsRegisterCallback register_cb,
             const ScopeStatsFreeCallback &free_cb, int device_id) {
        /* The number of cores has no part in scopes. */
        return session_.open(1, num_threads, {alloc_cb, register_cb, free_cb, device_id}, {},
                             [](dfx_config_h config) { return dfx_config_set_scope_stats(config, true); });
    }
    bool is_initialized() const { return session_.is_open(); }
    void *get_scope_stats_shm_device_ptr() const {
        return reinterpret_cast<void *>(static_cast<std::uintptr_t>(session_.regions().scope_stats_base));
    }
    void start(const profiling_common::ThreadFactory &thread_factory) { session_.start(thread_factory); }
    void stop() { session_.stop(); }
    bool reconcile_counters() { return session_.reconcile(); }
    std::uint64_t total_collected() const { return session_.collected(); }
    int write_jsonl(const std::string &output_dir) { return session_.write(output_dir); }
    void finalize(ScopeStatsUnregisterCallback unregister_cb, const ScopeStatsFreeCallback &free_cb) {
        session_.close(unregister_cb, free_cb);
    }

private:
    dfx_dropin::Session session_{"scope stats", DFX_FEATURE_SCOPE_STATS};
};

#endif /* DFX_DROPIN_SCOPE_STATS_COLLECTOR_H */
