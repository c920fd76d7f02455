/* Takes the place of the runtime's file of this name, in the library that its device runner is in. */
#include "host/dep_gen_collector.h"

extern "C" int dep_gen_replay_emit_deps_json(const struct DepGenRecord *, std::size_t, const char *deps_json_path) {
    return DepGenCollector::emit(deps_json_path);
}
