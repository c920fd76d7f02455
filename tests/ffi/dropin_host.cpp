// The C++ drop-in, driven as a runtime's device runner drives its own collectors: the classes of ffi/include/dropin, in
// the runner's order, on the board of dropin_device.hpp, with malloc as device memory. Three
// launches, as a process may: the second time the host orchestrates, the third time the device hangs.
//
//     dropin_host DIRECTORY
//
// leaves their artifacts in DIRECTORY/first, DIRECTORY/second and DIRECTORY/hung. Exit status 1 and a line on stderr for
// the first thing that is not as it should be.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "host/args_dump_collector.h"
#include "host/chip_swimlane_collector.h"
#include "host/dep_gen_collector.h"
#include "host/pmu_collector.h"
#include "host/scope_stats_collector.h"

#include "dropin_device.hpp"

extern "C" int dep_gen_replay_emit_deps_json(const struct DepGenRecord *, std::size_t, const char *);

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
            std::exit(1);                                                            \
        }                                                                            \
    } while (false)

namespace {

// Device memory that knows what is still allocated.
class Memory {
public:
    void *alloc(std::size_t bytes) {
        void *const block = std::malloc(bytes);
        const std::lock_guard<std::mutex> held(lock_);
        blocks_[block] = bytes;
        return block;
    }
    int free(void *block) {
        const std::lock_guard<std::mutex> held(lock_);
        CHECK(blocks_.erase(block) == 1);
        std::free(block);
        return 0;
    }
    bool empty() const { return blocks_.empty(); }

private:
    std::mutex lock_;
    std::map<void *, std::size_t> blocks_;
};

std::uint64_t address(void *pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// One runner: its collectors outlive a launch.
class Runner {
public:
    void launch(const std::string &prefix, bool host_orchestrates) {
        Device device = begin(prefix, host_orchestrates);
        device.run();
        device.flush();
        collect(prefix);
        finalize();
    }

    // The device hangs: the runner only finalizes.
    void launch_in_vain(const std::string &prefix) {
        Device device = begin(prefix, false);
        device.run();
        finalize();
    }

    int threads() const { return threads_; }
    bool all_returned() const { return memory_.empty(); }

private:
    Device begin(const std::string &prefix, bool host_orchestrates) {
        host_orchestrates_ = host_orchestrates;
        initialize(prefix);
        start();
        return Device({address(swimlane_.get_chip_swimlane_setup_device_ptr()),
                       address(swimlane_.get_aicore_ring_addr_table_device_ptr()),
                       address(dump_.get_dump_shm_device_ptr()), address(pmu_.get_pmu_shm_device_ptr()),
                       address(pmu_.get_aicore_ring_addrs_device_ptr()), address(dep_gen_.get_dep_gen_shm_device_ptr()),
                       address(scopes_.get_scope_stats_shm_device_ptr())},
                      host_orchestrates);
    }

    void initialize(const std::string &prefix) {
        const auto alloc = [this](std::size_t bytes) { return memory_.alloc(bytes); };
        const auto free = [this](void *block) { return memory_.free(block); };
        const int cores = Device::CORES;
        const int threads = Device::THREADS;
        const CoreType types[Device::CORES] = {CoreType::AIC, CoreType::AIV};
        swimlane_.set_host_orchestrated(host_orchestrates_);
        if (host_orchestrates_) {
            swimlane_.begin_clock_correlation_session("sim_syscnt", "syscnt_cycles");
            swimlane_.record_clock_anchor_samples(
                {{simpler::dfx::ClockAnchorPosition::HostOrchestrationBegin, 0, 10, 100, 100, 20, {}, 0}});
        }
        CHECK(!swimlane_.is_initialized());
        CHECK(swimlane_.initialize(cores, threads, 0, ChipSwimlaneLevel::ORCH_PHASES, alloc, nullptr, free, prefix) == 0);
        CHECK(swimlane_.is_initialized());
        CHECK(swimlane_.initialize(cores, threads, 0, ChipSwimlaneLevel::ORCH_PHASES, alloc, nullptr, free, prefix) != 0);
        expected_complaints_ += 1;
        swimlane_.set_core_types(types, cores);
        CHECK(dump_.initialize(threads, 0, alloc, nullptr, free, prefix, DumpArgsLevel::FULL) == 0);
        const PmuEventType event = resolve_pmu_event_type(4);
        CHECK(event == PmuEventType::MEMORY);
        CHECK(pmu_.init(cores, threads, make_pmu_csv_path(prefix), event, alloc, nullptr, free, -1) == 0);
        CHECK(dep_gen_.init(threads, alloc, nullptr, free, -1) == 0);
        CHECK(scopes_.init(threads, alloc, nullptr, free, -1) == 0);
    }

    void start() {
        const auto factory = [this](std::function<void()> body) {
            ++threads_;
            return std::thread(std::move(body));
        };
        swimlane_.start(factory);
        dump_.start(factory);
        pmu_.start(factory);
        dep_gen_.start(factory);
        scopes_.start(factory);
    }

    void collect(const std::string &prefix) {
        CHECK(swimlane_.clock_correlation_active() == host_orchestrates_);
        swimlane_.finish_clock_correlation_session();
        CHECK(!swimlane_.clock_correlation_active());
        swimlane_.stop();
        swimlane_.stop();
        swimlane_.read_phase_header_metadata();
        swimlane_.reconcile_counters();
        if (host_orchestrates_) {
            swimlane_.set_host_phase_records({{30, 40, 5, 12, 0, 1, 0}}, {{41, 42, 64, 9, 0, 1, 0}}, 1, 2, 0);
        }
        CHECK(swimlane_.export_swimlane_json() == 0);
        dump_.stop();
        dump_.reconcile_counters();
        CHECK(dump_.export_dump_files() == 0);
        pmu_.stop();
        pmu_.reconcile_counters();
        const std::string deps = make_deps_json_path(prefix);
        dep_gen_.stop();
        CHECK(dep_gen_.reconcile_counters());
        CHECK(dep_gen_.total_collected() == 2);
        const auto &records = dep_gen_.records();
        CHECK(dep_gen_replay_emit_deps_json(records.data(), records.size(), deps.c_str()) == 0);
        CHECK(dep_gen_replay_emit_deps_json(records.data(), records.size(), deps.c_str()) == -1);
        scopes_.stop();
        CHECK(scopes_.reconcile_counters());
        CHECK(scopes_.total_collected() == 2);
        CHECK(scopes_.write_jsonl(prefix) == 0);
        CHECK(complaints == expected_complaints_);
    }

    void finalize() {
        const auto free = [this](void *block) { return memory_.free(block); };
        swimlane_.finalize(nullptr, free);
        dump_.finalize(nullptr, free);
        pmu_.finalize(nullptr, free);
        dep_gen_.finalize(nullptr, free);
        scopes_.finalize(nullptr, free);
        scopes_.finalize(nullptr, free);
        CHECK(!swimlane_.is_initialized() && !dump_.is_initialized() && !pmu_.is_initialized());
        CHECK(!dep_gen_.is_initialized() && !scopes_.is_initialized());
    }

    Memory memory_;
    ChipSwimlaneCollector swimlane_;
    ArgsDumpCollector dump_;
    PmuCollector pmu_;
    DepGenCollector dep_gen_;
    ScopeStatsCollector scopes_;
    bool host_orchestrates_ = false;
    int threads_ = 0;
    int expected_complaints_ = 0;
};

}  // namespace

const char *simpler::dfx::clock_anchor_error_stage_name(ClockAnchorErrorStage) { return "create_stream"; }

#ifdef DFX_PLATFORM_A5
std::function<int(void *, const void *, std::size_t)> profiling_copy_to_device_or_null() {
    return [](void *to, const void *from, std::size_t bytes) { return std::memcpy(to, from, bytes) == to ? 0 : -1; };
}
std::function<int(void *, const void *, std::size_t)> profiling_copy_from_device_or_null() {
    return profiling_copy_to_device_or_null();
}
#else
std::function<int(void *, const void *, std::size_t)> profiling_copy_to_device_or_null() { return {}; }
std::function<int(void *, const void *, std::size_t)> profiling_copy_from_device_or_null() { return {}; }
#endif

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const std::filesystem::path directory(argv[1]);
    Runner runner;
    runner.launch((directory / "first").string(), false);
    CHECK(runner.all_returned());
    runner.launch((directory / "second").string(), true);
    CHECK(runner.all_returned());
    runner.launch_in_vain((directory / "hung").string());
    CHECK(runner.all_returned());
    CHECK(runner.threads() == 3 * (5 * 2 + 1)); /* two a collector, and one for the payload of arguments */
    return 0;
}
