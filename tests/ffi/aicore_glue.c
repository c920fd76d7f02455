/*
 * dfx_aicore.h behind functions that can be looked up by name, for tests/src/glue.rs.
 *
 * GLUE_HOOKS: registers and cache maintenance go to the test.
 */
#ifndef GLUE
#define GLUE
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#define GLUE_EXPORT GLUE __attribute__((visibility("default")))
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef GLUE_HOOKS
typedef struct glue_hooks {
    uint32_t (*read)(uint64_t base, uint32_t offset);
    void (*write)(uint64_t base, uint32_t offset, uint32_t value);
    void (*cache)(uint32_t what, uint64_t at);
} glue_hooks_t;
static glue_hooks_t hooks;

#define DFX_DCCI_IN(ptr) hooks.cache(1, (uint64_t)(uintptr_t)(ptr))
#define DFX_DCCI_OUT(ptr) hooks.cache(2, (uint64_t)(uintptr_t)(ptr))
#define DFX_DSB() hooks.cache(3, 0)
#define DFX_CTRL_READ(base) hooks.read((base), 0)
#define DFX_CTRL_WRITE(base, value) hooks.write((base), 0, (uint32_t)(value))
#define DFX_PMU_READ(base, offset) hooks.read((base), (offset))
#define DFX_CLOCK() hooks.read(0, 0)
#endif

#include "dfx_aicore.h"

#ifdef GLUE_HOOKS
GLUE_EXPORT void glue_set_hooks(const glue_hooks_t *to);
GLUE_EXPORT void glue_set_hooks(const glue_hooks_t *to) {
    hooks = *to;
}

GLUE_EXPORT uint64_t glue_now(void);
GLUE_EXPORT uint64_t glue_now(void) {
    return dfx_aicore_now();
}
#endif

GLUE_EXPORT uint64_t glue_bytes(void);
GLUE_EXPORT uint64_t glue_bytes(void) {
    return sizeof(dfx_aicore_recorder_t) > sizeof(dfx_aicore_pmu_t) ? sizeof(dfx_aicore_recorder_t)
                                                                    : sizeof(dfx_aicore_pmu_t);
}

GLUE_EXPORT const uint64_t *glue_entry(uint64_t table, uint32_t core, uint32_t flags, uint32_t bit);
GLUE_EXPORT const uint64_t *glue_entry(uint64_t table, uint32_t core, uint32_t flags, uint32_t bit) {
    return dfx_aicore_entry(table, core, flags, bit);
}

GLUE_EXPORT void glue_open(dfx_aicore_recorder_t *self, const uint64_t *entry);
GLUE_EXPORT void glue_open(dfx_aicore_recorder_t *self, const uint64_t *entry) {
    dfx_aicore_open(self, entry);
}

GLUE_EXPORT int glue_resolve(dfx_aicore_recorder_t *self);
GLUE_EXPORT int glue_resolve(dfx_aicore_recorder_t *self) {
    return dfx_aicore_resolve(self);
}

GLUE_EXPORT dfx_aicore_record_t *glue_reserve(dfx_aicore_recorder_t *self);
GLUE_EXPORT dfx_aicore_record_t *glue_reserve(dfx_aicore_recorder_t *self) {
    return dfx_aicore_reserve(self);
}

GLUE_EXPORT void glue_commit(dfx_aicore_record_t *slot, uint64_t start, uint64_t end, uint64_t task, uint32_t token,
                             uint64_t receive);
GLUE_EXPORT void glue_commit(dfx_aicore_record_t *slot, uint64_t start, uint64_t end, uint64_t task, uint32_t token,
                             uint64_t receive) {
    dfx_aicore_commit(slot, start, end, task, token, receive);
}

GLUE_EXPORT void glue_pmu_open(dfx_aicore_pmu_t *self, uint64_t registers, const uint64_t *entry);
GLUE_EXPORT void glue_pmu_open(dfx_aicore_pmu_t *self, uint64_t registers, const uint64_t *entry) {
    dfx_aicore_pmu_open(self, registers, entry);
}

GLUE_EXPORT void glue_pmu_begin(const dfx_aicore_pmu_t *self);
GLUE_EXPORT void glue_pmu_begin(const dfx_aicore_pmu_t *self) {
    dfx_aicore_pmu_begin(self);
}

GLUE_EXPORT void glue_pmu_end(const dfx_aicore_pmu_t *self);
GLUE_EXPORT void glue_pmu_end(const dfx_aicore_pmu_t *self) {
    dfx_aicore_pmu_end(self);
}

GLUE_EXPORT void glue_pmu_record(const dfx_aicore_pmu_t *self, uint32_t token);
GLUE_EXPORT void glue_pmu_record(const dfx_aicore_pmu_t *self, uint32_t token) {
    dfx_aicore_pmu_record(self, token);
}

/* What lies where, under the names of the pinned facts: a field's offset and size, or a struct's alignment and size. */
typedef struct glue_fact {
    const char *of;
    const char *field;
    uint64_t at;
    uint64_t bytes;
} glue_fact_t;

#ifdef __cplusplus
#define GLUE_ALIGN(type) alignof(type)
#else
#define GLUE_ALIGN(type) _Alignof(type)
#endif
#define STRUCT(of, type) {of, "", GLUE_ALIGN(type), sizeof(type)}
#define FIELD(of, type, field) {of, #field, offsetof(type, field), sizeof(((const type *)0)->field)}
#define NUMBER(of, value) {of, "=", (value), 0}

static const glue_fact_t facts[] = {
    STRUCT("ChipSwimlaneAicoreTaskRecord", dfx_aicore_record_t),
    FIELD("ChipSwimlaneAicoreTaskRecord", dfx_aicore_record_t, start_time),
    FIELD("ChipSwimlaneAicoreTaskRecord", dfx_aicore_record_t, end_time),
    FIELD("ChipSwimlaneAicoreTaskRecord", dfx_aicore_record_t, task_token_raw),
    FIELD("ChipSwimlaneAicoreTaskRecord", dfx_aicore_record_t, reg_task_id),
    FIELD("ChipSwimlaneAicoreTaskRecord", dfx_aicore_record_t, receive_to_start_cycles),
    STRUCT("ChipSwimlaneActiveHead", dfx_aicore_head_t),
    FIELD("ChipSwimlaneActiveHead", dfx_aicore_head_t, current_buf_ptr),
    FIELD("ChipSwimlaneActiveHead", dfx_aicore_head_t, current_buf_seq),
    FIELD("ChipSwimlaneActiveHead", dfx_aicore_head_t, total_record_count),
    FIELD("ChipSwimlaneActiveHead", dfx_aicore_head_t, dropped_record_count),
    FIELD("ChipSwimlaneActiveHead", dfx_aicore_head_t, pad),
    STRUCT("PmuRecord", dfx_aicore_pmu_slot_t),
    FIELD("PmuRecord", dfx_aicore_pmu_slot_t, task_id),
    FIELD("PmuRecord", dfx_aicore_pmu_slot_t, func_id),
    FIELD("PmuRecord", dfx_aicore_pmu_slot_t, core_type),
    FIELD("PmuRecord", dfx_aicore_pmu_slot_t, pmu_total_cycles),
    FIELD("PmuRecord", dfx_aicore_pmu_slot_t, pmu_counters),
    STRUCT("PmuAicoreRing", dfx_aicore_ring_t),
    FIELD("PmuAicoreRing", dfx_aicore_ring_t, dual_issue_slots),
    NUMBER("PLATFORM_AICORE_BUFFER_SIZE", DFX_AICORE_RECORDS),
    NUMBER("PLATFORM_PMU_AICORE_RING_SIZE", DFX_AICORE_RING_SLOTS),
    NUMBER("PMU_COUNTER_COUNT_A5", DFX_AICORE_PMU_COUNTERS),
    NUMBER("SIMPLER_DFX_FLAG_CHIP_SWIMLANE", DFX_AICORE_FLAG_SWIMLANE),
    NUMBER("SIMPLER_DFX_FLAG_PMU", DFX_AICORE_FLAG_PMU),
};

GLUE_EXPORT const glue_fact_t *glue_facts(uint64_t *count);
GLUE_EXPORT const glue_fact_t *glue_facts(uint64_t *count) {
    *count = sizeof(facts) / sizeof(facts[0]);
    return facts;
}
