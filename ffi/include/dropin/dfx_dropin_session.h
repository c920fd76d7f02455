/*
 * What the drop-in collectors share: one session of dfx.h with one feature on, fed with the runtime's callbacks.
 *
 * The headers in host/ give the runtime's host collectors their class names and methods over dfx.h: its device runner is
 * compiled with this directory before its own, and with
 *
 *     -DDFX_DROPIN_TARGET=DFX_TARGET_A2A3SIM        (or the dfx_target_e that it is built for)
 *
 * and its own five collector sources are left out of the link; dep_gen_replay.cpp here replaces the runtime's file of that
 * name. The types in the signatures (levels, core types, records of the host's own phases) stay the runtime's, from its
 * common/ headers. A collector is driven by one thread at a time, as the runner does.
 *
 * The environment variables of dfx_config_from_env apply, except that the runtime's own switches decide what is on.
 */
#ifndef DFX_DROPIN_SESSION_H
#define DFX_DROPIN_SESSION_H

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/unified_log.h"
#include "dfx.h"
#include "host/profiling_copy.h"

#ifndef DFX_DROPIN_TARGET
#error "DFX_DROPIN_TARGET must name the dfx_target_e that the runtime is built for, DFX_TARGET_A2A3SIM for example"
#endif

/* The runtime's names for its callbacks: the same types, under the same names. */
namespace profiling_common {
using ThreadFactory = std::function<std::thread(std::function<void()>)>;
using ProfAllocCallback = std::function<void *(std::size_t size)>;
using ProfRegisterCallback = int (*)(void *dev_ptr, std::size_t size, int device_id, void **host_ptr_out);
using ProfUnregisterCallback = int (*)(void *dev_ptr, int device_id);
using ProfFreeCallback = std::function<int(void *dev_ptr)>;
}  // namespace profiling_common

namespace dfx_dropin {

/* Which sessions make one run.json: those that one thread opens for different features before the first of them ends. */
class Launch {
public:
    /* The launch that a session for `feature`, opened now by this thread, is part of. */
    static std::shared_ptr<Launch> join(std::uint32_t feature) {
        static thread_local std::shared_ptr<Launch> current;
        if (!current || current->over_ || (current->features_ & feature) != 0) {
            current = std::make_shared<Launch>();
        }
        current->features_ |= feature;
        return current;
    }

    Launch() : name_(std::to_string(std::hash<std::thread::id>{}(std::this_thread::get_id()))) {
        static thread_local std::uint64_t count = 0;
        name_ += "-" + std::to_string(++count);
    }

    const std::string &name() const { return name_; }
    /* The directory of the artifacts, once one of the sessions knows it. */
    const std::string &output() const { return output_; }
    void set_output(const std::string &dir) {
        if (!dir.empty()) output_ = dir;
    }
    void end() { over_ = true; }

private:
    std::string name_;
    std::string output_;
    std::uint32_t features_ = 0;
    bool over_ = false;
};

/* One session, one feature. Every failure is logged with the library's own message. */
class Session {
public:
    struct Memory {
        profiling_common::ProfAllocCallback alloc;
        profiling_common::ProfRegisterCallback register_host;
        profiling_common::ProfFreeCallback free;
        int device_id;
    };
    using Switch = std::function<dfx_status_e(dfx_config_h)>;

    Session(const char *name, std::uint32_t feature) : name_(name), feature_(feature) {}
    ~Session() { close(nullptr, nullptr); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    bool is_open() const { return session_ != nullptr; }
    dfx_session_h handle() const { return session_; }
    const dfx_regions_t &regions() const { return regions_; }

    /* Allocates and lays out what `turn_on` has on. `output` may be empty: it is then named at the export. */
    int open(int cores, int threads, const Memory &memory, const std::string &output, const Switch &turn_on) {
        if (is_open()) {
            LOG_ERROR("%s: initialized twice, without a finalize between", name_);
            return -1;
        }
        if (cores < 1 || threads < 1 || !memory.alloc || !memory.free) {
            LOG_ERROR("%s: %d cores, %d threads, or a missing memory callback cannot be", name_, cores, threads);
            return -1;
        }
        memory_ = memory;
        copy_to_ = profiling_copy_to_device_or_null();
        copy_from_ = profiling_copy_from_device_or_null();
        launch_ = Launch::join(feature_);
        launch_->set_output(output);
        dfx_config_h config = nullptr;
        if (!ok(dfx_abi_check(DFX_ABI_VERSION), "version") || !ok(dfx_config_from_env(&config), "environment")) return -1;
        const bool configured = only(config, turn_on, output);
        const bool created = configured && create(config, cores, threads);
        dfx_config_destroy(config);
        if (!created) return -1;
        regions_ = {};
        regions_.size = sizeof(regions_);
        if (ok(dfx_session_regions(session_, &regions_), "regions")) return 0;
        close(nullptr, nullptr);
        return -1;
    }

    /* The device is about to run. Without a session: nothing. */
    void start(const profiling_common::ThreadFactory &factory) {
        if (!is_open()) return;
        factory_ = factory;
        dfx_threads_t threads = {};
        threads.size = sizeof(threads);
        threads.ctx = this;
        threads.spawn = &Session::spawn;
        threads.join = &Session::join;
        if (factory_ && !ok(dfx_session_set_threads(session_, &threads), "threads")) return;
        started_ = ok(dfx_session_start(session_), "start");
    }

    /* The device is at rest. May be called again, and without a start. */
    void stop() { stop_after(DFX_END_COMPLETED); }

    /* Closes the account. Whether nothing is missing. */
    bool reconcile() {
        if (!stopped_) return false;
        reconciled_ = reconciled_ || ok(dfx_session_reconcile(session_), "reconcile");
        if (!reconciled_) return false;
        bool complete = false;
        if (!count() || !ok(dfx_session_complete(session_, &complete), "account")) return false;
        if (!complete) LOG_WARN("%s: the capture is not complete, run.json says what is missing", name_);
        return complete;
    }

    /* Records collected, once reconciled. */
    std::uint64_t collected() const { return collected_; }

    /* Writes the artifacts and this session's part of run.json. */
    int write(const std::string &dir) {
        if (!stopped_) return -1;
        launch_->set_output(dir);
        const bool good = ok(dfx_session_export(session_, dir.empty() ? nullptr : dir.c_str()), "export");
        launch_->end();
        return good ? 0 : -1;
    }

    /*
     * Gives everything back. A callback that is there replaces the one that was opened with. A launch that was never
     * stopped came to no end, and the runner only finalizes: it leaves what was recorded until then.
     */
    void close(profiling_common::ProfUnregisterCallback unregister_host, const profiling_common::ProfFreeCallback &free) {
        if (!is_open()) return;
        if (started_ && !stopped_) {
            stop_after(DFX_END_ABNORMAL);
            reconcile();
            if (!launch_->output().empty()) write(launch_->output());
        }
        unregister_host_ = unregister_host;
        if (free) memory_.free = free;
        ok(dfx_session_destroy(session_), "destroy");
        session_ = nullptr;
        started_ = stopped_ = reconciled_ = false;
        collected_ = 0;
        launch_->end();
    }

    /* Whether `status` is DFX_OK; else the log says at which step and why. */
    bool ok(dfx_status_e status, const char *step) const {
        if (status == DFX_OK) return true;
        LOG_ERROR("%s: %s: %s", name_, step, dfx_last_error());
        return false;
    }

private:
    void stop_after(dfx_end_e end) {
        if (!started_ || stopped_) return;
        stopped_ = true;
        ok(dfx_session_stop(session_, end), "stop");
    }

    bool count() {
        std::uint32_t lanes = 0;
        if (!ok(dfx_session_stream_count(session_, &lanes), "account")) return false;
        collected_ = 0;
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
            dfx_stream_t stream = {};
            stream.size = sizeof(stream);
            if (!ok(dfx_session_stream(session_, lane, &stream), "account")) return false;
            collected_ += stream.collected;
        }
        return true;
    }

    bool only(dfx_config_h config, const Switch &turn_on, const std::string &output) const {
        return ok(dfx_config_set_chip_swimlane(config, 0), "config") &&
               ok(dfx_config_set_dep_gen(config, false), "config") &&
               ok(dfx_config_set_dump_args(config, 0), "config") && ok(dfx_config_set_pmu(config, 0), "config") &&
               ok(dfx_config_set_scope_stats(config, false), "config") && ok(turn_on(config), "config") &&
               ok(dfx_config_set_run(config, launch_->name().c_str()), "config") &&
               ok(dfx_config_set_transport(config, copy_to_ ? DFX_TRANSPORT_COPY : DFX_TRANSPORT_MAPPED), "config") &&
               (output.empty() || ok(dfx_config_set_output(config, output.c_str()), "config"));
    }

    bool create(dfx_config_h config, int cores, int threads) {
        const std::vector<std::uint8_t> types(static_cast<std::size_t>(cores), DFX_CORE_AIV);
        dfx_board_t board = {};
        board.size = sizeof(board);
        board.target = DFX_DROPIN_TARGET;
        board.cores = static_cast<std::uint32_t>(cores);
        board.aicpu_threads = static_cast<std::uint32_t>(threads);
        board.core_types = types.data();
        dfx_memory_t memory = {};
        memory.size = sizeof(memory);
        memory.ctx = this;
        memory.alloc = &Session::alloc;
        memory.free = &Session::release;
        memory.register_host = memory_.register_host ? &Session::map : nullptr;
        memory.unregister_host = memory_.register_host ? &Session::unmap : nullptr;
        memory.copy_to_device = copy_to_ ? &Session::copy_to : nullptr;
        memory.copy_from_device = copy_from_ ? &Session::copy_from : nullptr;
        return ok(dfx_session_create(config, &board, &memory, &session_), "create");
    }

    static Session &of(void *ctx) { return *static_cast<Session *>(ctx); }
    static void *pointer(std::uint64_t address) { return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address)); }

    static std::uint64_t alloc(void *ctx, std::uint64_t bytes) noexcept {
        return reinterpret_cast<std::uintptr_t>(of(ctx).memory_.alloc(static_cast<std::size_t>(bytes)));
    }
    static void release(void *ctx, std::uint64_t address, std::uint64_t) noexcept {
        of(ctx).memory_.free(pointer(address));
    }
    static void *map(void *ctx, std::uint64_t address, std::uint64_t bytes) noexcept {
        const Memory &memory = of(ctx).memory_;
        void *host = nullptr;
        const int rc =
            memory.register_host(pointer(address), static_cast<std::size_t>(bytes), memory.device_id, &host);
        return rc == 0 ? host : nullptr;
    }
    static void unmap(void *ctx, std::uint64_t address, void *, std::uint64_t) noexcept {
        Session &self = of(ctx);
        if (self.unregister_host_) self.unregister_host_(pointer(address), self.memory_.device_id);
    }
    static std::int32_t copy_to(void *ctx, std::uint64_t to, const void *from, std::uint64_t bytes) noexcept {
        return of(ctx).copy_to_(pointer(to), from, static_cast<std::size_t>(bytes));
    }
    static std::int32_t copy_from(void *ctx, void *to, std::uint64_t from, std::uint64_t bytes) noexcept {
        return of(ctx).copy_from_(to, pointer(from), static_cast<std::size_t>(bytes));
    }
    static void *spawn(void *ctx, const char *, dfx_thread_entry_f entry, void *arg) noexcept {
        try {
            return new std::thread(of(ctx).factory_([entry, arg] { entry(arg); }));
        } catch (...) {
            return nullptr;
        }
    }
    static void join(void *, void *thread) noexcept {
        const std::unique_ptr<std::thread> ours(static_cast<std::thread *>(thread));
        ours->join();
    }

    const char *name_;
    std::uint32_t feature_;
    dfx_session_h session_ = nullptr;
    dfx_regions_t regions_ = {};
    Memory memory_ = {};
    profiling_common::ProfUnregisterCallback unregister_host_ = nullptr;
    std::function<int(void *, const void *, std::size_t)> copy_to_;
    std::function<int(void *, const void *, std::size_t)> copy_from_;
    profiling_common::ThreadFactory factory_;
    std::shared_ptr<Launch> launch_;
    std::uint64_t collected_ = 0;
    bool started_ = false;
    bool stopped_ = false;
    bool reconciled_ = false;
};

}  // namespace dfx_dropin

#endif /* DFX_DROPIN_SESSION_H */
