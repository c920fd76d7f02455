/* A stand-in for a runtime's PMU types, as far as the drop-in headers use them. */
#ifndef STANDIN_PMU_PROFILING_H
#define STANDIN_PMU_PROFILING_H

#include <cstdint>

enum class PmuEventType : std::uint32_t { ARITHMETIC_UTILIZATION = 1, PIPE_UTILIZATION = 2, MEMORY = 4, L2_CACHE = 8 };

#endif
