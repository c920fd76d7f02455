/*
 * DepGenCollector over dfx.h, in place of the runtime's header of this name; see dfx_dropin_session.h.
 *
 * The runner hands what records() returns to dep_gen_replay_emit_deps_json. The submits stay in the session, which replays
 * them itself: records() is empty, and the function (dep_gen_replay.cpp, to be built into the runtime in place of its own)
 * writes the capture that this thread reconciled last.
 */
#ifndef DFX_DROPIN_DEP_GEN_COLLECTOR_H
#define DFX_DROPIN_DEP_GEN_COLLECTOR_H

#include "common/dep_gen.h"
#include "dfx_dropin_session.h"

using DepGenAllocCallback = profiling_common::ProfAllocCallback;
using DepGenRegisterCallback = profiling_common::ProfRegisterCallback;
using DepGenUnregisterCallback = profiling_common::ProfUnregisterCallback;
using DepGenFreeCallback = profiling_common::ProfFreeCallback;

class DepGenCollector {
public:
    ~DepGenCollector() { forget(); }

    int init(int num_threads, const DepGenAllocCallback &alloc_cb, DepGenRegisterCallback register_cb,
             const DepGenFreeCallback &free_cb, int device_id) {
        /* The number of cores has no part in a graph. */
        return session_.open(1, num_threads, {alloc_cb, register_cb, free_cb, device_id}, {},
                             [](dfx_config_h config) { return dfx_config_set_dep_gen(config, true); });
    }
    bool is_initialized() const { return session_.is_open(); }
    void *get_dep_gen_shm_device_ptr() const {
        return reinterpret_cast<void *>(static_cast<std::uintptr_t>(session_.regions().dep_gen_base));
    }
    void start(const profiling_common::ThreadFactory &thread_factory) { session_.start(thread_factory); }
    void stop() { session_.stop(); }
    /* True when there is something to write: a graph, or, in run.json, why there is none. */
    bool reconcile_counters() {
        session_.reconcile();
        reconciled() = this;
        return true;
    }
    std::uint64_t total_collected() const { return session_.collected(); }
    const std::vector<DepGenRecord> &records() const { return none_; }
    void finalize(DepGenUnregisterCallback unregister_cb, const DepGenFreeCallback &free_cb) {
        session_.close(unregister_cb, free_cb);
        forget();
    }

    /* Writes deps.json into the directory of `path` from what this thread reconciled last, once; -1 if there is none. */
    static int emit(const char *path) {
        DepGenCollector *const collector = std::exchange(reconciled(), nullptr);
        if (collector == nullptr || path == nullptr) return -1;
        const std::filesystem::path file(path);
        std::error_code error;
        const int rc = collector->session_.write(file.parent_path().string());
        return rc == 0 && std::filesystem::exists(file, error) ? 0 : -1;
    }

private:
    static DepGenCollector *&reconciled() {
        static thread_local DepGenCollector *last = nullptr;
        return last;
    }
    void forget() {
        if (reconciled() == this) reconciled() = nullptr;
    }

    dfx_dropin::Session session_{"dep_gen", DFX_FEATURE_DEP_GEN};
    std::vector<DepGenRecord> none_;
};

/* Where the graph goes below `output_dir`. */
inline std::string make_deps_json_path(const std::string &output_dir) {
    return (std::filesystem::path(output_dir) / "deps.json").string();
}

#endif /* DFX_DROPIN_DEP_GEN_COLLECTOR_H */
