/* ArgsDumpCollector over dfx.h, in place of the runtime's header of this name; see dfx_dropin_session.h. */
#ifndef DFX_DROPIN_ARGS_DUMP_COLLECTOR_H
#define DFX_DROPIN_ARGS_DUMP_COLLECTOR_H

#include "common/args_dump.h"
#include "dfx_dropin_session.h"

using DumpAllocCallback = profiling_common::ProfAllocCallback;
using DumpRegisterCallback = profiling_common::ProfRegisterCallback;
using DumpUnregisterCallback = profiling_common::ProfUnregisterCallback;
using DumpFreeCallback = profiling_common::ProfFreeCallback;

class ArgsDumpCollector {
public:
    int initialize(int num_dump_threads, int device_id, const DumpAllocCallback &alloc_cb,
                   DumpRegisterCallback register_cb, const DumpFreeCallback &free_cb, const std::string &output_prefix,
                   DumpArgsLevel level) {
        /* The number of cores has no part in a dump. */
        return session_.open(1, num_dump_threads, {alloc_cb, register_cb, free_cb, device_id}, output_prefix,
                             [level](dfx_config_h config) {
                                 return dfx_config_set_dump_args(config, static_cast<std::int32_t>(level));
                             });
    }
    bool is_initialized() const { return session_.is_open(); }
    void *get_dump_shm_device_ptr() const {
        return reinterpret_cast<void *>(static_cast<std::uintptr_t>(session_.regions().dump_base));
    }
    void start(const profiling_common::ThreadFactory &thread_factory) { session_.start(thread_factory); }
    void stop() { session_.stop(); }
    void reconcile_counters() { session_.reconcile(); }
    int export_dump_files() { return session_.write({}); }
    int finalize(DumpUnregisterCallback unregister_cb, const DumpFreeCallback &free_cb) {
        session_.close(unregister_cb, free_cb);
        return 0;
    }

private:
    dfx_dropin::Session session_{"args dump", DFX_FEATURE_DUMP_ARGS};
};

#endif /* DFX_DROPIN_ARGS_DUMP_COLLECTOR_H */
