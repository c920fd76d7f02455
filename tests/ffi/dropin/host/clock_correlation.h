/* A stand-in for a runtime's clock readings, as far as the drop-in headers use them. */
#ifndef STANDIN_CLOCK_CORRELATION_H
#define STANDIN_CLOCK_CORRELATION_H

#include <cstddef>
#include <cstdint>

namespace simpler::dfx {

constexpr std::size_t kClockAnchorSamplesPerPosition = 3;

enum class ClockAnchorPosition : std::uint32_t { HostOrchestrationBegin, DeviceExecutionComplete };
enum class ClockAnchorErrorStage : std::uint32_t { None, CreateStream };

struct ClockAnchorSample {
    ClockAnchorPosition position;
    std::uint32_t sample_idx;
    std::uint64_t host_before_ns;
    std::uint64_t raw_device_timestamp;
    std::uint64_t device_cycles;
    std::uint64_t host_after_ns;
    ClockAnchorErrorStage error_stage;
    std::int32_t error_code;
};

const char *clock_anchor_error_stage_name(ClockAnchorErrorStage stage);

}  // namespace simpler::dfx

#endif
