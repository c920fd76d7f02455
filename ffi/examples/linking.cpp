// Dumps the arguments of a task on a platform whose memory the host may only copy, and counts hardware events.
#include <dfx.h>
#include <dfx_aicore.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(dfx_status_e status) {
    if (status != DFX_OK) {
        throw std::runtime_error(dfx_last_error());
    }
}

struct DestroyConfig {
    void operator()(dfx_config_h config) const { dfx_config_destroy(config); }
};
struct DestroySession {
    void operator()(dfx_session_h session) const { dfx_session_destroy(session); }
};
using Config = std::unique_ptr<dfx_config_t, DestroyConfig>;
using Session = std::unique_ptr<dfx_session_t, DestroySession>;

// The platform's counter: 1 GHz on a5.
uint64_t ticks() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Copies that keep aligned words whole, as the device's own accesses are; a board's driver does.
int32_t copy(void *to, const void *from, uint64_t bytes) {
    if (bytes == 4) {
        uint32_t word;
        __atomic_load(static_cast<const uint32_t *>(from), &word, __ATOMIC_ACQUIRE);
        __atomic_store(static_cast<uint32_t *>(to), &word, __ATOMIC_RELEASE);
    } else if (bytes == 8) {
        uint64_t word;
        __atomic_load(static_cast<const uint64_t *>(from), &word, __ATOMIC_ACQUIRE);
        __atomic_store(static_cast<uint64_t *>(to), &word, __ATOMIC_RELEASE);
    } else {
        std::memcpy(to, from, bytes);
    }
    return 0;
}

dfx_memory_t device_memory() {
    dfx_memory_t memory{};
    memory.size = sizeof memory;
    memory.alloc = [](void *, uint64_t bytes) -> uint64_t {
        return reinterpret_cast<uint64_t>(::operator new(bytes, std::align_val_t(256), std::nothrow));
    };
    memory.free = [](void *, uint64_t addr, uint64_t) {
        ::operator delete(reinterpret_cast<void *>(addr), std::align_val_t(256));
    };
    memory.copy_to_device = [](void *, uint64_t to, const void *from, uint64_t bytes) -> int32_t {
        return copy(reinterpret_cast<void *>(to), from, bytes);
    };
    memory.copy_from_device = [](void *, void *to, uint64_t from, uint64_t bytes) -> int32_t {
        return copy(to, reinterpret_cast<const void *>(from), bytes);
    };
    return memory;
}

void dump(uint64_t task, uint32_t index, bool after, const std::vector<float> &tensor) {
    dfx_dump_arg_t arg{};
    arg.task_id = task;
    arg.arg_index = index;
    arg.role = after ? 1 : 0;  // an output; an input
    arg.stage = after ? 1 : 0; // as it is after completion; before dispatch
    arg.buffer_addr = reinterpret_cast<uint64_t>(tensor.data());
    arg.ndims = 1;
    arg.shapes[0] = static_cast<uint32_t>(tensor.size());
    arg.strides[0] = 1;
    arg.func_count = 1;
    dfx_dump_record(0, &arg);
}

// What runs on the device: thread 0 schedules ten tasks on core 0.
void device(const dfx_regions_t &regions) {
    const uint32_t cores[] = {0};
    std::vector<unsigned char> registers(0x10000); // a board has real ones
    const uint64_t bases[] = {reinterpret_cast<uint64_t>(registers.data())};
    dfx_device_set_clock(ticks, nullptr);
    dfx_dump_set_enabled(true);
    if (dfx_dump_init(regions.dump_base, 1) != DFX_DEVICE_OK ||
        dfx_pmu_init(regions.pmu_base, bases, 1) != DFX_DEVICE_OK) {
        throw std::runtime_error("the device half was not initialised");
    }
    dfx_aicore_pmu_t pmu;
    dfx_aicore_pmu_open(&pmu, bases[0],
                        dfx_aicore_entry(regions.pmu_ring_table, 0, regions.features, DFX_AICORE_FLAG_PMU));
    std::vector<float> x(256), y(256);
    for (uint32_t n = 0; n < 10; n++) {
        const uint32_t token = n + 1;
        dump(n, 0, false, x);
        dfx_aicore_pmu_begin(&pmu); // the core: the kernel between its counters
        for (size_t i = 0; i < x.size(); i++) {
            y[i] = x[i] + 1;
        }
        dfx_aicore_pmu_end(&pmu);
        dfx_aicore_pmu_record(&pmu, token);
        dfx_pmu_record(0, 0, token, n, 0, DFX_CORE_AIV);
        dump(n, 1, true, y);
        x = y;
    }
    dfx_pmu_flush(0, cores, 1);
    dfx_pmu_finalize(cores, 1);
    dfx_dump_flush(0);
}

bool record(const std::string &dir) {
    check(dfx_abi_check(DFX_ABI_VERSION));
    dfx_config_h config_handle = nullptr;
    check(dfx_config_create(&config_handle));
    const Config config(config_handle);
    check(dfx_config_set_dump_args(config.get(), 2));
    check(dfx_config_set_pmu(config.get(), 2));
    check(dfx_config_set_output(config.get(), dir.c_str()));

    const uint8_t core_types[] = {DFX_CORE_AIV};
    dfx_board_t board{};
    board.size = sizeof board;
    board.target = DFX_TARGET_A5SIM;
    board.cores = 1;
    board.core_types = core_types;
    board.aicpu_threads = 1;
    const dfx_memory_t memory = device_memory();
    dfx_session_h session_handle = nullptr;
    check(dfx_session_create(config.get(), &board, &memory, &session_handle));
    const Session session(session_handle);

    dfx_regions_t regions{};
    regions.size = sizeof regions;
    check(dfx_session_regions(session.get(), &regions));
    check(dfx_session_start(session.get()));
    device(regions);
    check(dfx_session_stop(session.get(), DFX_END_COMPLETED));
    check(dfx_session_reconcile(session.get()));
    check(dfx_session_export(session.get(), nullptr));
    bool complete = false;
    check(dfx_session_complete(session.get(), &complete));
    return complete;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " OUTPUT_DIR\n";
        return 2;
    }
    try {
        const bool complete = record(argv[1]);
        std::cout << argv[1] << (complete ? ": complete\n" : ": incomplete, see run.json\n");
        return complete ? 0 : 3;
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
