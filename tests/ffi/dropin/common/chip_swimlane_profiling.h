/* A stand-in for a runtime's swimlane types, as far as the drop-in headers use them. */
#ifndef STANDIN_CHIP_SWIMLANE_PROFILING_H
#define STANDIN_CHIP_SWIMLANE_PROFILING_H

#include <cstdint>

enum class ChipSwimlaneLevel : std::uint32_t { DISABLED, AICORE_TIMING, AICPU_TIMING, SCHED_PHASES, ORCH_PHASES };

enum class HostPhaseKind : std::uint32_t { BindGraphUpload = 7, BindSmH2d = 9, BindArenaH2d = 10, OrchSubmitTask = 12 };

struct HostPhaseRecord {
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    std::uint64_t payload;
    std::uint32_t kind;
    std::uint32_t index;
    std::uint32_t thread_id;
    std::uint32_t pad;
};

#endif
