/* A stand-in for a runtime's dump types, as far as the drop-in headers and the test use them. */
#ifndef STANDIN_ARGS_DUMP_H
#define STANDIN_ARGS_DUMP_H

#include <cstdint>

enum class DumpArgsLevel : std::uint32_t { OFF, PARTIAL, FULL, HYBRID };
enum class ArgsDumpRole : std::uint8_t { INPUT, OUTPUT, INOUT };
enum class ArgsDumpStage : std::uint8_t { BEFORE_DISPATCH, AFTER_COMPLETION };

struct ArgsDumpInfo {
    std::uint64_t task_id;
    ArgsDumpRole role;
    ArgsDumpStage stage;
    std::uint8_t dtype;
    std::uint8_t ndims;
    std::uint32_t arg_index;
    std::uint64_t buffer_addr;
    std::uint64_t scalar_value;
    std::int32_t func_ids[3];
    std::int32_t func_count;
    std::uint8_t kind;
    std::uint8_t flags;
    std::uint8_t capture_payload;
    std::uint8_t pad[5];
    std::uint64_t start_offset;
    std::uint32_t shapes[5];
    std::uint32_t strides[5];
};
static_assert(sizeof(ArgsDumpInfo) == 104, "as in the pinned ABI");

#endif
