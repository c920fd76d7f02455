/*
 * run_cpp DIR mapped|copy: a C++17 runtime: configured by its environment, its own threads for the session, scheduler and
 * orchestrator on threads of their own, messages into a string.
 */
#include "device.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

namespace {

// The enums have C's types, so that both languages pass and get the same.
static_assert(std::is_same_v<std::underlying_type_t<dfx_status_e>, int32_t>);
static_assert(std::is_same_v<std::underlying_type_t<dfx_target_e>, uint32_t>);
static_assert(std::is_standard_layout_v<dfx_board_t> && std::is_trivially_copyable_v<dfx_memory_t>);

void ok(dfx_status_e status) {
    if (status != DFX_OK) {
        throw std::runtime_error(dfx_last_error());
    }
}

struct CloseConfig {
    void operator()(dfx_config_h config) const { dfx_config_destroy(config); }
};
struct CloseSession {
    void operator()(dfx_session_h session) const { dfx_session_destroy(session); }
};
using Config = std::unique_ptr<dfx_config_t, CloseConfig>;
using Session = std::unique_ptr<dfx_session_t, CloseSession>;

/* The runtime's thread factory: it counts its threads. */
struct Threads {
    std::atomic<int> started{0}, running{0};

    dfx_threads_t factory() {
        dfx_threads_t threads{};
        threads.size = sizeof threads;
        threads.ctx = this;
        threads.spawn = [](void *ctx, const char *, dfx_thread_entry_f entry, void *arg) -> void * {
            auto *self = static_cast<Threads *>(ctx);
            self->started++;
            self->running++;
            return new std::thread([=] {
                entry(arg);
                self->running--;
            });
        };
        threads.join = [](void *, void *thread) {
            std::unique_ptr<std::thread> joined(static_cast<std::thread *>(thread));
            joined->join();
        };
        return threads;
    }
};

struct Log {
    std::mutex mutex;
    std::string text;

    static void take(void *ctx, uint32_t, const char *, const char *message) {
        auto *self = static_cast<Log *>(ctx);
        const std::lock_guard<std::mutex> lock(self->mutex);
        self->text += message;
        self->text += '\n';
    }
};

Config config_from_environment(const char *dir) {
    setenv("DFX_OUTPUT_PREFIX", dir, 1);
    setenv("DFX_CHIP_SWIMLANE", "true", 1);
    setenv("DFX_DUMP_ARGS", "2", 1);
    setenv("DFX_DEP_GEN", "1", 1);
    setenv("DFX_SCOPE_STATS", "1", 1);
    setenv("DFX_PMU", "99", 1);
    setenv("DFX_DUMP_BUDGET", "fast", 1);
    dfx_config_h config = nullptr;
    CHECK(dfx_config_from_env(&config) == DFX_E_INVALID && config == nullptr);
    CHECK(std::string(dfx_last_error()).find("DFX_DUMP_BUDGET: fast") != std::string::npos);
    setenv("DFX_DUMP_BUDGET", "400MB/s", 1);
    ok(dfx_config_from_env(&config));
    return Config(config);
}

void launch(const dfx_regions_t &regions) {
    auto device = std::make_unique<device_t>();
    device_open(device.get(), &regions);
    std::atomic<uint32_t> submitted{0};
    std::thread orchestrator([&] {
        for (uint32_t n = 0; n < TASKS; n++) {
            orchestrate(device.get(), n);
            submitted.store(n + 1, std::memory_order_release);
        }
        close_orchestrator(device.get());
    });
    std::thread scheduler([&] {
        for (uint32_t n = 0; n < TASKS; n++) {
            while (submitted.load(std::memory_order_acquire) <= n) {
                std::this_thread::yield();
            }
            execute(device.get(), n);
        }
        close_scheduler(device.get());
    });
    orchestrator.join();
    scheduler.join();
    device_close(device.get());
}

void run(const char *dir, uint32_t transport) {
    Log log;
    ok(dfx_log_set(Log::take, &log, DFX_LOG_WARN));
    auto platform = std::make_unique<platform_t>();
    platform_init(platform.get());
    Threads threads;
    {
        const Config config = config_from_environment(dir);
        CHECK(log.text.find("DFX_PMU names no event type") != std::string::npos);
        ok(dfx_config_set_transport(config.get(), transport));
        ok(dfx_config_set_dump_arena(config.get(), 1u << 20));
        const dfx_memory_t memory = platform_memory(platform.get(), transport);
        const dfx_board_t board = test_board();
        dfx_session_h handle = nullptr;
        ok(dfx_session_create(config.get(), &board, &memory, &handle));
        const Session session(handle);
        const dfx_threads_t factory = threads.factory();
        ok(dfx_session_set_threads(session.get(), &factory));
        dfx_regions_t regions{};
        regions.size = sizeof regions;
        ok(dfx_session_regions(session.get(), &regions));
        CHECK(regions.features == 31u);
        ok(dfx_session_start(session.get()));
        CHECK(threads.started == 3); /* one of them for the payload of dumped arguments */
        launch(regions);
        ok(dfx_session_stop(session.get(), DFX_END_COMPLETED));
        CHECK(threads.running == 0);
        ok(dfx_session_reconcile(session.get()));
        ok(dfx_session_export(session.get(), nullptr));
        account_is_whole(session.get(), 31u);
    }
    platform_is_clean(platform.get());
    ok(dfx_log_set(nullptr, nullptr, DFX_LOG_OFF));
}

} // namespace

int main(int argc, char **argv) {
    CHECK(argc == 3);
    try {
        run(argv[1], std::string(argv[2]) == "copy" ? DFX_TRANSPORT_COPY : DFX_TRANSPORT_MAPPED);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    std::puts("ok");
    return 0;
}
