/*
 * dfx_aicore.h: what an AICore records, for kernels that no Rust compiler targets.
 *
 * C11 and C++17, header only, no libc. It writes the same bytes as the Rust recorders of the same name
 * (dfx_collector::swimlane::CoreRecorder, dfx_collector::pmu::PmuRecorder); the layouts are those of the pinned ABI.
 *
 * A core's life
 *
 *     entry     dfx_aicore_open(&lane, dfx_aicore_entry(rotation_table, core, flags, DFX_AICORE_FLAG_SWIMLANE));
 *               dfx_aicore_pmu_open(&pmu, registers, dfx_aicore_entry(ring_table, core, flags, DFX_AICORE_FLAG_PMU));
 *
 *     per task  receive = now              the token was seen
 *               slot = dfx_aicore_reserve(&lane)
 *               ACK                        reserve first: from here AICPU may rotate the buffer
 *               dfx_aicore_pmu_begin(&pmu)
 *               start = now, the kernel, end = now
 *               dfx_aicore_pmu_end(&pmu)   a2a3: after FIN will do, too
 *               dfx_aicore_pmu_record(&pmu, token)      a5 only: AICPU reads it when it sees FIN
 *               FIN
 *               dfx_aicore_commit(slot, start, end, task, token, receive)
 *
 * Each function is for the core itself: one recorder per core, one caller, never two at a time. None of them waits,
 * allocates or fails; what is off costs a comparison. Guard the calls with the launch's flags all the same: a core that
 * records nothing need not read the counter.
 *
 * What a platform may define before it includes this file
 *
 *     DFX_GM                 the address space of device memory (__gm__)
 *     DFX_AICORE_FN          what stands before each function (static inline; __aicore__ and the like)
 *     DFX_DCCI_IN(ptr)       drops the core's copy of the 64-byte line at ptr, so that the next load fetches it; with
 *                            whatever barrier that takes
 *     DFX_DCCI_OUT(ptr)      writes the line at ptr back and drops it: a copy that stays would bring a recycled buffer's
 *                            old rows back with the next one
 *     DFX_DSB()              waits until what was written or written back before has arrived
 *     DFX_AICORE_ATOMICS     1: words are shared through the compiler's atomics, acquire and release, which makes the
 *                            threads of one coherent machine right (a simulator). 0: through volatile, and the three
 *                            above do the rest. Unless it is set: 1 where the compiler has them and none of the three is
 *                            defined.
 *     DFX_CTRL_READ(base)    the core's control word, and how to write it; base is the register base, which a core that
 *     DFX_CTRL_WRITE(base, value)      has instructions for the word will not need
 *     DFX_PMU_READ(base, offset)       a 32-bit counter, offset bytes (an integer constant) from base; reading clears it
 *     DFX_CLOCK()            the platform's counter in ticks; makes dfx_aicore_now()
 *     DFX_PLATFORM_A2A3      alone: leaves out the code that only a5 needs. DFX_PLATFORM_A5, or neither: all of it; what
 *                            is done then depends on what the functions are given.
 *
 * By default there is one address space, the cache needs nothing, and registers are mapped memory.
 */
#ifndef DFX_AICORE_H
#define DFX_AICORE_H

#include <stddef.h>
#include <stdint.h>

#ifndef DFX_GM
#define DFX_GM
#endif

#ifndef DFX_AICORE_FN
#define DFX_AICORE_FN static inline
#endif

#ifndef DFX_AICORE_ATOMICS
#if defined(__ATOMIC_ACQUIRE) && !defined(DFX_DCCI_IN) && !defined(DFX_DCCI_OUT) && !defined(DFX_DSB)
#define DFX_AICORE_ATOMICS 1
#else
#define DFX_AICORE_ATOMICS 0
#endif
#endif

#ifndef DFX_DCCI_IN
#define DFX_DCCI_IN(ptr) ((void)(ptr))
#endif
#ifndef DFX_DCCI_OUT
#define DFX_DCCI_OUT(ptr) ((void)(ptr))
#endif
#ifndef DFX_DSB
#define DFX_DSB() ((void)0)
#endif

#if defined(DFX_PLATFORM_A2A3) && !defined(DFX_PLATFORM_A5)
#define DFX_AICORE_HAS_RING 0
#else
#define DFX_AICORE_HAS_RING 1
#endif

#ifdef __cplusplus
#define DFX_AICORE_ALIGN(bytes) alignas(bytes)
#define DFX_AICORE_ASSERT(fact) static_assert(fact, #fact)
#else
#define DFX_AICORE_ALIGN(bytes) _Alignas(bytes)
#define DFX_AICORE_ASSERT(fact) _Static_assert(fact, #fact)
#endif

/* ---- The memory that core, AICPU and host share ------------------------------------------------------------------ */

/* Bits of the launch's profiling flags. */
#define DFX_AICORE_FLAG_SWIMLANE 2u
#define DFX_AICORE_FLAG_PMU 4u

/* Records of a core's buffer. */
#define DFX_AICORE_RECORDS 1024u
/* Slots of a core's PMU ring (a5). */
#define DFX_AICORE_RING_SLOTS 2u
/* Counters of a core (a5). */
#define DFX_AICORE_PMU_COUNTERS 10u

/* One task on one core. A row whose start is 0 is not there. */
typedef struct dfx_aicore_record {
    DFX_AICORE_ALIGN(32) uint64_t start_time; /* the kernel started, in ticks */
    uint64_t end_time;                        /* the kernel ended, in ticks */
    uint64_t task_token_raw;                  /* the task id, or what the payload carried */
    uint32_t reg_task_id;                     /* the token: the number of the dispatch on this core */
    uint32_t receive_to_start_cycles;         /* from seeing the token to starting the kernel, in ticks */
} dfx_aicore_record_t;

/* What a core records into. AICPU writes this line, at rotations only; a core never does. */
typedef struct dfx_aicore_head {
    DFX_AICORE_ALIGN(64) uint64_t current_buf_ptr; /* the active buffer's address; 0 when there is none */
    uint32_t current_buf_seq;                      /* its number; changes with every buffer, after the pointer */
    uint32_t total_record_count;                   /* AICPU's account */
    uint32_t dropped_record_count;                 /* AICPU's account */
    uint32_t pad[11];                              /* AICPU's */
} dfx_aicore_head_t;

/* One task's counters on a5, as a core leaves them for AICPU. */
typedef struct dfx_aicore_pmu_slot {
    DFX_AICORE_ALIGN(64) uint64_t task_id;           /* the token, written last; all ones while the rest changes */
    uint32_t func_id;                                /* not the core's to write */
    int32_t core_type;                               /* not the core's to write */
    uint64_t pmu_total_cycles;                       /* the cycle count */
    uint32_t pmu_counters[DFX_AICORE_PMU_COUNTERS];  /* the counters */
} dfx_aicore_pmu_slot_t;

/* Where a core of a5 leaves its counters: slot token % 2. */
typedef struct dfx_aicore_ring {
    DFX_AICORE_ALIGN(64) dfx_aicore_pmu_slot_t dual_issue_slots[DFX_AICORE_RING_SLOTS];
} dfx_aicore_ring_t;

DFX_AICORE_ASSERT(sizeof(dfx_aicore_record_t) == 32);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_record_t, end_time) == 8);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_record_t, task_token_raw) == 16);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_record_t, reg_task_id) == 24);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_record_t, receive_to_start_cycles) == 28);
DFX_AICORE_ASSERT(sizeof(dfx_aicore_head_t) == 64);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_head_t, current_buf_seq) == 8);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_head_t, total_record_count) == 12);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_head_t, dropped_record_count) == 16);
DFX_AICORE_ASSERT(sizeof(dfx_aicore_pmu_slot_t) == 64);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_pmu_slot_t, func_id) == 8);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_pmu_slot_t, core_type) == 12);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_pmu_slot_t, pmu_total_cycles) == 16);
DFX_AICORE_ASSERT(offsetof(dfx_aicore_pmu_slot_t, pmu_counters) == 24);
DFX_AICORE_ASSERT(sizeof(dfx_aicore_ring_t) == 128);

/* ---- Shared words ------------------------------------------------------------------------------------------------ */

#if DFX_AICORE_ATOMICS
#define DFX_AICORE_ACQUIRE(type, at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
#define DFX_AICORE_LOAD(type, at) __atomic_load_n((at), __ATOMIC_RELAXED)
#define DFX_AICORE_STORE(type, at, value) __atomic_store_n((at), (value), __ATOMIC_RELAXED)
#define DFX_AICORE_RELEASE(type, at, value) __atomic_store_n((at), (value), __ATOMIC_RELEASE)
#define DFX_AICORE_RELEASE_FENCE() __atomic_thread_fence(__ATOMIC_RELEASE)
#else
#define DFX_AICORE_ACQUIRE(type, at) (*(DFX_GM const volatile type *)(at))
#define DFX_AICORE_LOAD(type, at) (*(DFX_GM const volatile type *)(at))
#define DFX_AICORE_STORE(type, at, value) ((void)(*(DFX_GM volatile type *)(at) = (value)))
#define DFX_AICORE_RELEASE(type, at, value) ((void)(*(DFX_GM volatile type *)(at) = (value)))
#define DFX_AICORE_RELEASE_FENCE() ((void)0)
#endif

/* A mapped 32-bit register, offset bytes from base. */
DFX_AICORE_FN uint32_t dfx_aicore_mapped_read(uint64_t base, uint32_t offset) {
    return *(DFX_GM const volatile uint32_t *)(uintptr_t)(base + offset);
}

/* Mapped control words lie at the base on both platforms. A core without a base has none: 0, and writes go nowhere. */
DFX_AICORE_FN uint32_t dfx_aicore_mapped_ctrl_read(uint64_t base) {
    return base == 0 ? 0u : dfx_aicore_mapped_read(base, 0);
}
DFX_AICORE_FN void dfx_aicore_mapped_ctrl_write(uint64_t base, uint32_t value) {
    if (base != 0) {
        DFX_AICORE_RELEASE(uint32_t, (DFX_GM uint32_t *)(uintptr_t)base, value);
    }
}

#ifndef DFX_CTRL_READ
#define DFX_CTRL_READ(base) dfx_aicore_mapped_ctrl_read(base)
#endif
#ifndef DFX_CTRL_WRITE
#define DFX_CTRL_WRITE(base, value) dfx_aicore_mapped_ctrl_write((base), (uint32_t)(value))
#endif
#ifndef DFX_PMU_READ
#define DFX_PMU_READ(base, offset) dfx_aicore_mapped_read((base), (offset))
#endif

#ifdef DFX_CLOCK
/* The platform's counter now, in ticks: what `receive`, `start` and `end` are. Needs DFX_CLOCK. */
DFX_AICORE_FN uint64_t dfx_aicore_now(void) {
    return DFX_CLOCK();
}
#endif

/*
 * The entry of core `core` in a per-core table of addresses (the rotation table, the ring table of a5); null when the
 * feature with bit `bit` is not in the launch's `flags`, or `table` is 0. Call it at kernel entry. The table must have
 * more than `core` entries.
 */
DFX_AICORE_FN DFX_GM const uint64_t *dfx_aicore_entry(uint64_t table, uint32_t core, uint32_t flags, uint32_t bit) {
    if ((flags & bit) == 0 || table == 0) {
        return NULL;
    }
    return (DFX_GM const uint64_t *)(uintptr_t)(table + 8u * (uint64_t)core);
}

/* ---- The chip swimlane ------------------------------------------------------------------------------------------- */

/* One core's recorder, in the core's own memory. Its fields are private. */
typedef struct dfx_aicore_recorder {
    DFX_GM const uint64_t *entry;         /* the core's entry of the rotation table; null: off */
    DFX_GM const dfx_aicore_head_t *head; /* what the entry names; null: not looked up, or not there yet */
    uint64_t next;                        /* the next row; */
    uint64_t end;                         /* and the end of the buffer: the same when there is no room */
    uint32_t seen;                        /* the sequence number of that buffer */
} dfx_aicore_recorder_t;

/*
 * Makes `self` the recorder of the core whose entry of the rotation table is `entry`. A null entry: the recorder is off,
 * reserves nothing, and stays so.
 *
 * Call it at kernel entry, once per launch: what an earlier launch recorded into is forgotten. The entry is not read
 * yet, as AICPU may not have filled it. `self` is not null; the caller keeps it for the launch, and shares it with no
 * other core.
 */
DFX_AICORE_FN void dfx_aicore_open(dfx_aicore_recorder_t *self, DFX_GM const uint64_t *entry) {
    self->entry = entry;
    self->head = NULL;
    self->next = 0;
    self->end = 0;
    self->seen = UINT32_MAX;
}

/*
 * Looks the core's head up in its entry: 1 when it is there, 0 when the recorder is off or AICPU has not (or not
 * successfully) initialised the region. reserve does this by itself; call it once the dispatch window is open to take
 * the look-up out of the first task.
 */
DFX_AICORE_FN int dfx_aicore_resolve(dfx_aicore_recorder_t *self) {
    if (self->head == NULL && self->entry != NULL) {
        DFX_DCCI_IN(self->entry);
        /* SYNC POINT: AICPU's init filled the entry after the head. */
        self->head = (DFX_GM const dfx_aicore_head_t *)(uintptr_t)DFX_AICORE_ACQUIRE(uint64_t, self->entry);
    }
    return self->head != NULL;
}

/* Goes to the buffer with sequence number `seq`. Once per buffer. */
DFX_AICORE_FN void dfx_aicore_turn(dfx_aicore_recorder_t *self, uint32_t seq) {
    const uint64_t buffer = DFX_AICORE_LOAD(uint64_t, &self->head->current_buf_ptr);
    self->seen = seq;
    self->next = buffer;
    self->end = buffer == 0 ? 0 : buffer + DFX_AICORE_RECORDS * sizeof(dfx_aicore_record_t);
}

/*
 * Takes the place of the record of the task that is about to be acknowledged; null when there is none: the recorder is
 * off, there is no buffer, or it is full. Nothing is counted here; AICPU counts what it dispatched without room.
 *
 * Call it once per task, before ACK.
 */
DFX_AICORE_FN DFX_GM dfx_aicore_record_t *dfx_aicore_reserve(dfx_aicore_recorder_t *self) {
    uint32_t seq;
    uint64_t row;
    if (!dfx_aicore_resolve(self)) {
        return NULL;
    }
    DFX_DCCI_IN(self->head);
    /* SYNC POINT: AICPU activated this buffer: pointer, then number. */
    seq = DFX_AICORE_ACQUIRE(uint32_t, &self->head->current_buf_seq);
    if (seq != self->seen) {
        dfx_aicore_turn(self, seq);
    }
    row = self->next;
    if (row == self->end) {
        return NULL;
    }
    self->next = row + sizeof(dfx_aicore_record_t);
    return (DFX_GM dfx_aicore_record_t *)(uintptr_t)row;
}

/*
 * Writes a task's record into the slot that reserve gave for it; a null slot: does nothing. `start`, `end` and `receive`
 * are in ticks of one counter, `task` is the task id (or what the payload carries for it), `token` the word that
 * dispatched the task.
 *
 * Call it once per slot, after FIN and before the core acknowledges the task after next: until then the buffer is kept.
 */
DFX_AICORE_FN void dfx_aicore_commit(DFX_GM dfx_aicore_record_t *slot, uint64_t start, uint64_t end, uint64_t task,
                                     uint32_t token, uint64_t receive) {
    if (slot == NULL) {
        return;
    }
    DFX_AICORE_STORE(uint64_t, &slot->end_time, end);
    DFX_AICORE_STORE(uint64_t, &slot->task_token_raw, task);
    DFX_AICORE_STORE(uint32_t, &slot->reg_task_id, token);
    DFX_AICORE_STORE(uint32_t, &slot->receive_to_start_cycles, (uint32_t)(start - receive));
    /* SYNC POINT: a host that recovers an unpublished buffer takes rows whose start is there for whole. */
    DFX_AICORE_RELEASE(uint64_t, &slot->start_time, start);
    DFX_DCCI_OUT(slot);
    DFX_DSB();
}

/* ---- The PMU ----------------------------------------------------------------------------------------------------- */

/* The bit of the control word that lets the counters count. */
#define DFX_AICORE_CTRL_GATE 1u
/* The id of a slot that holds nobody's counters: no token is this large. */
#define DFX_AICORE_NOBODY UINT64_MAX

/* One core's PMU from inside, in the core's own memory. Its fields are private. */
typedef struct dfx_aicore_pmu {
    uint64_t registers;             /* the register base; 0: none that can be read */
    DFX_GM dfx_aicore_ring_t *ring; /* where counters go; null: nowhere */
} dfx_aicore_pmu_t;

/*
 * Makes `self` the PMU of the core whose registers are at `registers` and whose entry of the ring table is `entry`.
 * A null entry, or an entry of 0: nothing is recorded (a2a3, where AICPU reads the counters; or PMU off). `registers` 0:
 * nothing is recorded, and mapped control words are left alone.
 *
 * Call it at kernel entry, once per launch: the host fills the table before. `self` is not null.
 */
DFX_AICORE_FN void dfx_aicore_pmu_open(dfx_aicore_pmu_t *self, uint64_t registers, DFX_GM const uint64_t *entry) {
    self->registers = registers;
    self->ring = NULL;
    if (entry != NULL) {
        DFX_DCCI_IN(entry);
        self->ring = (DFX_GM dfx_aicore_ring_t *)(uintptr_t)DFX_AICORE_ACQUIRE(uint64_t, entry);
    }
}

/* Lets the core's counters count. Call it after ACK, before the kernel; only when the launch has the PMU flag. */
DFX_AICORE_FN void dfx_aicore_pmu_begin(const dfx_aicore_pmu_t *self) {
    DFX_CTRL_WRITE(self->registers, DFX_CTRL_READ(self->registers) | DFX_AICORE_CTRL_GATE);
}

/* Stops them; other bits of the control word stay. Call it after the kernel, on a5 before record. */
DFX_AICORE_FN void dfx_aicore_pmu_end(const dfx_aicore_pmu_t *self) {
    DFX_CTRL_WRITE(self->registers, DFX_CTRL_READ(self->registers) & ~(uint64_t)DFX_AICORE_CTRL_GATE);
}

#if DFX_AICORE_HAS_RING
#define DFX_AICORE_COUNT(n, offset) \
    DFX_AICORE_STORE(uint32_t, &slot->pmu_counters[n], DFX_PMU_READ(base, (offset)))

/* Reads the counters at `base`, which clears them, into `slot`, first to last, then the cycles, low half first (a5's
 * offsets). */
DFX_AICORE_FN void dfx_aicore_pmu_fill(uint64_t base, DFX_GM dfx_aicore_pmu_slot_t *slot) {
    uint64_t cycles;
    DFX_AICORE_COUNT(0, 0x4210u);
    DFX_AICORE_COUNT(1, 0x4218u);
    DFX_AICORE_COUNT(2, 0x4220u);
    DFX_AICORE_COUNT(3, 0x4228u);
    DFX_AICORE_COUNT(4, 0x4230u);
    DFX_AICORE_COUNT(5, 0x4238u);
    DFX_AICORE_COUNT(6, 0x4240u);
    DFX_AICORE_COUNT(7, 0x4248u);
    DFX_AICORE_COUNT(8, 0x4250u);
    DFX_AICORE_COUNT(9, 0x4254u);
    cycles = DFX_PMU_READ(base, 0x4260u);
    cycles |= (uint64_t)DFX_PMU_READ(base, 0x4264u) << 32;
    DFX_AICORE_STORE(uint64_t, &slot->pmu_total_cycles, cycles);
}
#undef DFX_AICORE_COUNT
#endif

/*
 * a5: reads the core's counters (which clears them) into the ring's slot of `token`, the word that dispatched the task.
 * Without a ring or registers, and on a2a3: does nothing.
 *
 * Call it after end and before FIN, by which AICPU learns that the slot is there.
 */
DFX_AICORE_FN void dfx_aicore_pmu_record(const dfx_aicore_pmu_t *self, uint32_t token) {
#if DFX_AICORE_HAS_RING
    DFX_GM dfx_aicore_pmu_slot_t *slot;
    if (self->ring == NULL || self->registers == 0) {
        return;
    }
    slot = &self->ring->dual_issue_slots[token % DFX_AICORE_RING_SLOTS];
    DFX_AICORE_STORE(uint64_t, &slot->task_id, DFX_AICORE_NOBODY);
    /* Whoever sees one of the new counters sees that the id is gone. */
    DFX_AICORE_RELEASE_FENCE();
    dfx_aicore_pmu_fill(self->registers, slot);
    DFX_DSB();
    /* SYNC POINT: AICPU looks for the token, then copies. */
    DFX_AICORE_RELEASE(uint64_t, &slot->task_id, token);
    DFX_DCCI_OUT(slot);
    DFX_DSB();
#else
    (void)self;
    (void)token;
#endif
}

#undef DFX_AICORE_ACQUIRE
#undef DFX_AICORE_LOAD
#undef DFX_AICORE_STORE
#undef DFX_AICORE_RELEASE
#undef DFX_AICORE_RELEASE_FENCE
#undef DFX_AICORE_ALIGN
#undef DFX_AICORE_ASSERT

#endif /* DFX_AICORE_H */
