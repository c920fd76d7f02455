/*
 * What the conformance programs share: checks that say where they failed, a platform's memory behind callbacks, and a
 * counter. C11 and C++17.
 */
#ifndef DFX_TEST_HARNESS_H
#define DFX_TEST_HARNESS_H

#include "dfx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef DFX_PLATFORM_A5
#define TARGET DFX_TARGET_A5SIM
#define TICKS_PER_US 1000u
#else
#define TARGET DFX_TARGET_A2A3SIM
#define TICKS_PER_US 50u
#endif

#define CHECK(fact)                                                                                                    \
    do {                                                                                                               \
        if (!(fact)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #fact, dfx_last_error());      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == DFX_OK)
/* A call that must fail with `code`, and say why. */
#define FAILS(code, call)                                                                                              \
    do {                                                                                                               \
        const dfx_status_e got_ = (call);                                                                              \
        if (got_ != (code) || dfx_last_error()[0] == 0) {                                                              \
            fprintf(stderr, "%s:%d: %s gave %d, expected %s: %s\n", __FILE__, __LINE__, #call, (int)got_, #code,       \
                    dfx_last_error());                                                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- The platform's counter -------------------------------------------------------------------------------------- */

static inline uint64_t ticks_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000u * TICKS_PER_US + (uint64_t)now.tv_nsec * TICKS_PER_US / 1000u;
}

/* ---- The platform's memory --------------------------------------------------------------------------------------- */

#define MAX_BLOCKS 256
/* Off the engine's alignment on purpose: such a block is given back and asked for with room to spare. */
#define CROOKED 64u

typedef struct {
    unsigned char *raw;
    uint64_t addr, bytes;
    int registered;
} block_t;

/* Changed by the thread that makes and releases sessions only; read by those that copy. */
typedef struct {
    block_t blocks[MAX_BLOCKS];
    int live, registrations, faults;
    int allocs_left;    /* allocations that are granted; -1: all */
    int registers_left; /* registrations that are granted; -1: all */
    int copies_fail;    /* whether copies are refused */
    int crooked;        /* whether blocks begin at odd places */
} platform_t;

static inline void platform_init(platform_t *platform) {
    memset(platform, 0, sizeof *platform);
    platform->allocs_left = -1;
    platform->registers_left = -1;
}

static inline uint64_t platform_alloc(void *ctx, uint64_t bytes) {
    platform_t *platform = (platform_t *)ctx;
    if (platform->allocs_left == 0) {
        return 0;
    }
    if (platform->allocs_left > 0) {
        platform->allocs_left--;
    }
    for (int i = 0; i < MAX_BLOCKS; i++) {
        block_t *block = &platform->blocks[i];
        if (block->raw == NULL) {
            const uint64_t room = (bytes + 511) / 256 * 256;
            block->raw = (unsigned char *)aligned_alloc(256, room);
            if (block->raw == NULL) {
                return 0;
            }
            block->addr = (uint64_t)(uintptr_t)block->raw + (platform->crooked ? CROOKED : 0u);
            block->bytes = bytes;
            platform->live++;
            return block->addr;
        }
    }
    return 0;
}

static inline block_t *platform_find(platform_t *platform, uint64_t addr, uint64_t bytes) {
    for (int i = 0; i < MAX_BLOCKS; i++) {
        block_t *block = &platform->blocks[i];
        if (block->raw != NULL && addr >= block->addr && addr + bytes <= block->addr + block->bytes) {
            return block;
        }
    }
    return NULL;
}

static inline void platform_free(void *ctx, uint64_t addr, uint64_t bytes) {
    platform_t *platform = (platform_t *)ctx;
    block_t *block = platform_find(platform, addr, bytes);
    if (block == NULL || block->addr != addr || block->bytes != bytes || block->registered) {
        platform->faults++;
        return;
    }
    free(block->raw);
    block->raw = NULL;
    platform->live--;
}

static inline void *platform_register(void *ctx, uint64_t addr, uint64_t bytes) {
    platform_t *platform = (platform_t *)ctx;
    block_t *block = platform_find(platform, addr, bytes);
    if (block == NULL || block->addr != addr || block->bytes != bytes || block->registered) {
        platform->faults++;
        return NULL;
    }
    if (platform->registers_left == 0) {
        return NULL;
    }
    if (platform->registers_left > 0) {
        platform->registers_left--;
    }
    block->registered = 1;
    platform->registrations++;
    return (void *)(uintptr_t)addr;
}

static inline void platform_unregister(void *ctx, uint64_t addr, void *host, uint64_t bytes) {
    platform_t *platform = (platform_t *)ctx;
    block_t *block = platform_find(platform, addr, bytes);
    if (block == NULL || block->addr != addr || !block->registered || host != (void *)(uintptr_t)addr) {
        platform->faults++;
        return;
    }
    block->registered = 0;
    platform->registrations--;
}

/* Whole words where they are words, as the host's handshakes need it. */
static inline void move_bytes(unsigned char *to, const unsigned char *from, uint64_t bytes) {
    if (bytes == 4 && (((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        const uint32_t word = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 8 && (((uintptr_t)to | (uintptr_t)from) & 7u) == 0) {
        const uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
    } else {
        /* An odd host buffer: through one that is not. */
        uint64_t word;
        while (bytes >= 8 && (((uintptr_t)from & 7u) == 0 || ((uintptr_t)to & 7u) == 0)) {
            if (((uintptr_t)from & 7u) == 0) {
                word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
                memcpy(to, &word, 8);
            } else {
                memcpy(&word, from, 8);
                __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
            }
            to += 8, from += 8, bytes -= 8;
        }
        if (bytes == 4 && ((uintptr_t)from & 3u) == 0) {
            const uint32_t half = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
            memcpy(to, &half, 4);
        } else if (bytes == 4 && ((uintptr_t)to & 3u) == 0) {
            uint32_t half;
            memcpy(&half, from, 4);
            __atomic_store_n((uint32_t *)(void *)to, half, __ATOMIC_RELEASE);
        } else {
            memcpy(to, from, bytes);
        }
    }
}

static inline int32_t platform_copy_to(void *ctx, uint64_t to, const void *from, uint64_t bytes) {
    platform_t *platform = (platform_t *)ctx;
    if (platform->copies_fail || platform_find(platform, to, bytes) == NULL) {
        return -7;
    }
    move_bytes((unsigned char *)(uintptr_t)to, (const unsigned char *)from, bytes);
    return 0;
}

static inline int32_t platform_copy_from(void *ctx, void *to, uint64_t from, uint64_t bytes) {
    platform_t *platform = (platform_t *)ctx;
    if (platform->copies_fail || platform_find(platform, from, bytes) == NULL) {
        return -7;
    }
    move_bytes((unsigned char *)to, (const unsigned char *)(uintptr_t)from, bytes);
    return 0;
}

/* The callbacks of a transport: mapped memory has no copies, and copied memory no mapping. */
static inline dfx_memory_t platform_memory(platform_t *platform, uint32_t transport) {
    dfx_memory_t memory;
    memset(&memory, 0, sizeof memory);
    memory.size = (uint32_t)sizeof memory;
    memory.ctx = platform;
    memory.alloc = platform_alloc;
    memory.free = platform_free;
    if (transport == DFX_TRANSPORT_COPY) {
        memory.copy_to_device = platform_copy_to;
        memory.copy_from_device = platform_copy_from;
    } else {
        memory.register_host = platform_register;
        memory.unregister_host = platform_unregister;
    }
    return memory;
}

/* Nothing is left, and nothing was given back that had not been taken. */
static inline void platform_is_clean(const platform_t *platform) {
    CHECK(platform->live == 0 && platform->registrations == 0 && platform->faults == 0);
}

/* ---- The board --------------------------------------------------------------------------------------------------- */

#define CORES 3u
#define THREADS 2u /* 0 schedules, 1 orchestrates */

static inline dfx_board_t test_board(void) {
    static const uint8_t kinds[CORES] = {DFX_CORE_AIC, DFX_CORE_AIV, DFX_CORE_AIV};
    dfx_board_t board;
    memset(&board, 0, sizeof board);
    board.size = (uint32_t)sizeof board;
    board.target = TARGET;
    board.cores = CORES;
    board.aicpu_threads = THREADS;
    board.core_types = kinds;
    return board;
}

#endif
