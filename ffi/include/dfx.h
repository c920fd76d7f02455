/*
 * pto-dfx: runtime diagnostics of an NPU task runtime. Both halves of the C ABI.
 *
 * The host half is libdfx: configurations and sessions. The device half is libdfx_device, one library per
 * platform, for AICPU and for simulators; cores without a Rust compiler include dfx_aicore.h. C11 and C++17.
 *
 * Every function says which threads may call it, what its units are, how it fails and who owns what. No function
 * throws, and a callback must not: the program would end. A call that fails leaves what `out` points to as it was.
 * docs/linking.md has whole programs.
 *
 * Generated: change the Rust sources, then run ffi/header.sh.
 */

#ifndef DFX_H
#define DFX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this C ABI: of every function, struct and number in `dfx.h`. A library of another version must not be
// used with this header.
#define DFX_ABI_VERSION 1

// The version of the device half of this interface. It grows when a function is added: a program that was built against an
// older one goes on working. The structures that it takes do not grow.
#define DFX_DEVICE_ABI_VERSION 1

// The submit was made in a manual scope: no dependency is inferred.
#define DFX_SUBMIT_MANUAL_SCOPE 1

// The task may be written to a core before its producers end.
#define DFX_SUBMIT_EARLY_DISPATCH 16

// The allocation pointer of a ring's heap, for `dfx_scope_note_heap_wrap`.
#define DFX_HEAP_ALLOC 0

// The reclaim pointer of a ring's heap, for `dfx_scope_note_heap_wrap`.
#define DFX_HEAP_RECLAIM 1

// What a call came to. Everything but `DFX_OK` is an error, and `dfx_last_error` then has its message; the call has had
// no effect unless its own documentation says so.
enum dfx_status_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done.
    DFX_OK = 0,
    // A pointer is null that must not be.
    DFX_E_NULL = -1,
    // The handle is not one, or what it stood for was destroyed.
    DFX_E_HANDLE = -2,
    // A value is not accepted; the message names it and what is.
    DFX_E_INVALID = -3,
    // An index is beyond the end.
    DFX_E_RANGE = -4,
    // The call is out of turn, or made twice.
    DFX_E_ORDER = -5,
    // Another call on the same handle is under way.
    DFX_E_BUSY = -6,
    // The caller's buffer is too small; the needed size was returned.
    DFX_E_SPACE = -7,
    // Device memory was refused, or a transfer failed.
    DFX_E_MEMORY = -8,
    // A thread was refused.
    DFX_E_THREAD = -9,
    // A file or directory could not be written or read.
    DFX_E_IO = -10,
    // The library's version, or the `size` of a struct, is not this header's.
    DFX_E_ABI = -11,
    // A defect of this library was stopped at its boundary. The handle may be destroyed, and nothing else.
    DFX_E_PANIC = -12,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_status_e dfx_status_e;
#else
typedef int32_t dfx_status_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What an init function says.
enum dfx_device_status_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It records from now on (unless its level or its switch is off).
    DFX_DEVICE_OK = 0,
    // The base address is 0.
    DFX_DEVICE_NO_REGION = -1,
    // What lies at the base address is not a region of this feature.
    DFX_DEVICE_NOT_A_REGION = -2,
    // More cores or threads than the region or the platform has, or none.
    DFX_DEVICE_TOO_MANY = -3,
    // The level in the region's header does not exist.
    DFX_DEVICE_BAD_LEVEL = -4,
    // There is no clock: call `dfx_device_set_clock` or `dfx_device_set_built_in_clock` first; or, from the latter, the
    // processor does not say how fast its counter runs.
    DFX_DEVICE_NO_CLOCK = -5,
    // A pointer is null that must not be.
    DFX_DEVICE_BAD_ARGUMENT = -6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_device_status_e dfx_device_status_e;
#else
typedef int32_t dfx_device_status_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What happens when the host cannot keep up.
enum dfx_backpressure_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The lane that has no room waits, within the stall budget (the default).
    DFX_BACKPRESSURE_LANE = 0,
    // All lanes wait together until everything is emptied and refilled.
    DFX_BACKPRESSURE_GLOBAL = 1,
    // As the first, but a wait lasts up to 30 s whatever the timeouts are.
    DFX_BACKPRESSURE_BLOCK = 2,
    // Nobody waits; what finds no room is counted as dropped.
    DFX_BACKPRESSURE_DROP = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_backpressure_e dfx_backpressure_e;
#else
typedef uint32_t dfx_backpressure_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a lane records; also what `dfx_stream_t.kind` says.
enum dfx_stream_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // AICore start and end; a lane per core.
    DFX_STREAM_AICORE_TASK = 0,
    // AICPU dispatch and finish; a lane per core.
    DFX_STREAM_AICPU_TASK = 1,
    // Scheduler phases; a lane per AICPU thread.
    DFX_STREAM_SCHED_PHASE = 2,
    // Orchestrator submits; one lane.
    DFX_STREAM_ORCH_PHASE = 3,
    // Submits of dep_gen; one lane.
    DFX_STREAM_SUBMIT = 4,
    // Dumped arguments; a lane per AICPU thread.
    DFX_STREAM_ARG = 5,
    // PMU rows; a lane per core.
    DFX_STREAM_PMU_ROW = 6,
    // Scope samples; one lane.
    DFX_STREAM_SCOPE_SAMPLE = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_stream_e dfx_stream_e;
#else
typedef uint32_t dfx_stream_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What runs the program.
enum dfx_target_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Ascend910B, the chip.
    DFX_TARGET_A2A3 = 0,
    // Ascend910B, its simulator.
    DFX_TARGET_A2A3SIM = 1,
    // Ascend950, the chip.
    DFX_TARGET_A5 = 2,
    // Ascend950, its simulator.
    DFX_TARGET_A5SIM = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_target_e dfx_target_e;
#else
typedef uint32_t dfx_target_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a core is.
enum dfx_core_type_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Cube core.
    DFX_CORE_AIC = 0,
    // Vector core.
    DFX_CORE_AIV = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_core_type_e dfx_core_type_e;
#else
typedef uint32_t dfx_core_type_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How the host reaches device memory.
enum dfx_transport_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // As the platform does: mapped on a2a3, copies on a5.
    DFX_TRANSPORT_DEFAULT = 0,
    // Device memory is mapped into the host. Without `register_host` the device address is the host's pointer.
    DFX_TRANSPORT_MAPPED = 1,
    // The host may only copy ranges, with `copy_to_device` and `copy_from_device`.
    DFX_TRANSPORT_COPY = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_transport_e dfx_transport_e;
#else
typedef uint32_t dfx_transport_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What can be recorded, as bits: those of the runtime's own `enable_profiling_flag`.
enum dfx_feature_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Argument dump.
    DFX_FEATURE_DUMP_ARGS = 1,
    // Chip swimlane.
    DFX_FEATURE_CHIP_SWIMLANE = 2,
    // Hardware counters.
    DFX_FEATURE_PMU = 4,
    // Dependency graph.
    DFX_FEATURE_DEP_GEN = 8,
    // Scope statistics.
    DFX_FEATURE_SCOPE_STATS = 16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_feature_e dfx_feature_e;
#else
typedef uint32_t dfx_feature_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How the device came to rest.
enum dfx_end_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It did everything and flushed.
    DFX_END_COMPLETED = 0,
    // It hung, was killed, or gave up: what it never published is taken all the same.
    DFX_END_ABNORMAL = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_end_e dfx_end_e;
#else
typedef uint32_t dfx_end_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How much the log tells; each level has those before it.
enum dfx_log_level_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Nothing.
    DFX_LOG_OFF = 0,
    // What was given up.
    DFX_LOG_ERROR = 1,
    // What is lost or odd, and goes on (the default).
    DFX_LOG_WARN = 2,
    // What is done.
    DFX_LOG_INFO = 3,
    // What is tried again.
    DFX_LOG_DEBUG = 4,
    // Everything.
    DFX_LOG_TRACE = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_log_level_e dfx_log_level_e;
#else
typedef uint32_t dfx_log_level_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What is uploaded to the device.
enum dfx_upload_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The whole graph.
    DFX_UPLOAD_GRAPH = 0,
    // The shared-memory region.
    DFX_UPLOAD_SHARED_MEMORY = 1,
    // The arena.
    DFX_UPLOAD_ARENA = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_upload_e dfx_upload_e;
#else
typedef uint32_t dfx_upload_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// When both clocks are read.
enum dfx_anchor_e
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Before the host orchestrates.
    DFX_ANCHOR_BEFORE = 0,
    // After the device has executed.
    DFX_ANCHOR_AFTER = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum dfx_anchor_e dfx_anchor_e;
#else
typedef uint32_t dfx_anchor_e;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A configuration. Opaque.
typedef struct dfx_config_t dfx_config_t;

// A session. Opaque.
typedef struct dfx_session_t dfx_session_t;

// Names a configuration. Never dereferenced: a number that is checked at each use. Null is none.
typedef struct dfx_config_t *dfx_config_h;

// The numbers of a platform.
typedef struct dfx_platform_t {
    // `sizeof(dfx_platform_t)`, set by the caller.
    uint32_t size;
    // The most cores that a board has.
    uint32_t max_cores;
    // The most AICPU threads that a board has.
    uint32_t max_threads;
    // AICPU threads where nothing else is asked for.
    uint32_t default_threads;
    // Ticks of the device's counter in a second.
    uint64_t clock_hz;
} dfx_platform_t;

// A board. The caller's; it is read during the call only.
typedef struct dfx_board_t {
    // `sizeof(dfx_board_t)`.
    uint32_t size;
    // A `dfx_target_e`.
    uint32_t target;
    // Cores in use: 1 to `dfx_platform_t.max_cores`.
    uint32_t cores;
    // AICPU threads in use, the orchestrator's included: 1 to `dfx_platform_t.max_threads`.
    uint32_t aicpu_threads;
    // A `dfx_core_type_e` per core, in core order: `cores` of them.
    const uint8_t *core_types;
} dfx_board_t;

// Allocates `bytes` of device memory and returns its device address, or 0 if there is none. The content does not matter;
// an alignment of 256 bytes saves a second call.
typedef uint64_t (*dfx_alloc_f)(void *ctx, uint64_t bytes);

// Gives back what was allocated at `addr`.
typedef void (*dfx_free_f)(void *ctx, uint64_t addr, uint64_t bytes);

// Maps an allocation into the host: returns a pointer through which any thread may read and write all of it until it is
// unregistered, or null if that cannot be. Pointer and address must differ by a multiple of 64 bytes: a session whose
// mappings do not is refused.
typedef void *(*dfx_register_f)(void *ctx, uint64_t addr, uint64_t bytes);

// Ends such a mapping, before the allocation is given back.
typedef void (*dfx_unregister_f)(void *ctx, uint64_t addr, void *host, uint64_t bytes);

// Copies `bytes` from the host to device address `to`. Returns 0, or a code of the caller's that is shown to a person.
typedef int32_t (*dfx_copy_to_f)(void *ctx, uint64_t to, const void *from, uint64_t bytes);

// Copies `bytes` from device address `from` to the host. Returns 0, or a code of the caller's that is shown to a person.
typedef int32_t (*dfx_copy_from_f)(void *ctx, void *to, uint64_t from, uint64_t bytes);

// What the platform can do. The struct is read during the call only; `ctx` and the functions are used until the session
// is released or destroyed, by whichever thread calls the library and by the session's own threads, several at a time.
//
// A function must not throw, must not call a function of this library on the same session, and copies must move aligned
// 4- and 8-byte words whole.
typedef struct dfx_memory_t {
    // `sizeof(dfx_memory_t)`.
    uint32_t size;
    // Must be 0.
    uint32_t reserved;
    // Handed to each function; the caller's.
    void *ctx;
    // Must be there.
    dfx_alloc_f alloc;
    // Must be there.
    dfx_free_f free;
    // For `DFX_TRANSPORT_MAPPED`; may be null, see there.
    dfx_register_f register_host;
    // For `DFX_TRANSPORT_MAPPED`; may be null: a mapping is then left to `free`.
    dfx_unregister_f unregister_host;
    // Must be there for `DFX_TRANSPORT_COPY`.
    dfx_copy_to_f copy_to_device;
    // Must be there for `DFX_TRANSPORT_COPY`.
    dfx_copy_from_f copy_from_device;
} dfx_memory_t;

// Names a session. Never dereferenced: a number that is checked at each use. Null is none.
typedef struct dfx_session_t *dfx_session_h;

// What a new thread must call, once, with the `arg` that came with it. It returns when the session is stopped, and never
// throws.
typedef void (*dfx_thread_entry_f)(void *arg);

// Starts a thread called `name` (valid during the call) that calls `entry(arg)`. Returns what `join` is given, not null,
// or null if there is no thread; `entry` must then not be called.
typedef void *(*dfx_thread_spawn_f)(void *ctx, const char *name, dfx_thread_entry_f entry, void *arg);

// Waits until that thread has ended, and frees what `spawn` returned.
typedef void (*dfx_thread_join_f)(void *ctx, void *thread);

// Where a session's threads (two, and a third if arguments are dumped) come from. The struct is read during the call
// only; `ctx` and the functions are used from the start to the stop of the session, by the thread that makes those calls.
typedef struct dfx_threads_t {
    // `sizeof(dfx_threads_t)`.
    uint32_t size;
    // Must be 0.
    uint32_t reserved;
    // Handed to both functions; the caller's.
    void *ctx;
    // Must be there.
    dfx_thread_spawn_f spawn;
    // Must be there.
    dfx_thread_join_f join;
} dfx_threads_t;

// Where the device half finds its regions: device addresses, 0 for a feature that is off. They belong to the session
// and are good until it is released or destroyed.
typedef struct dfx_regions_t {
    // `sizeof(dfx_regions_t)`, set by the caller.
    uint32_t size;
    // Bits of `dfx_feature_e`: what is on.
    uint32_t features;
    // The chip swimlane's region.
    uint64_t swimlane_base;
    // One u64 per core, for the cores' recorders.
    uint64_t swimlane_rotation_table;
    // The args dump's region.
    uint64_t dump_base;
    // dep_gen's region.
    uint64_t dep_gen_base;
    // The PMU's region.
    uint64_t pmu_base;
    // a5: one u64 per core, the address of its ring; else 0.
    uint64_t pmu_ring_table;
    // The scope statistics' region.
    uint64_t scope_stats_base;
} dfx_regions_t;

// How the drain goes.
typedef struct dfx_progress_t {
    // `sizeof(dfx_progress_t)`, set by the caller.
    uint32_t size;
    // Set to 0.
    uint32_t reserved;
    // Buffers of records kept so far.
    uint64_t buffers;
    // Dumped payload read from the device so far, in bytes.
    uint64_t dump_bytes_drained;
    // Dumped payload that the device has handed over and that is not in the file yet, in bytes.
    uint64_t dump_bytes_waiting;
    // The drain's rate of late, in bytes per second; 0 while none was measured.
    uint64_t dump_bytes_per_s;
} dfx_progress_t;

// The account of one lane, in records unless a field says otherwise. If `has_total` is 1, `produced` is `collected` +
// `dropped` + `lost` + `mismatched`.
typedef struct dfx_stream_t {
    // `sizeof(dfx_stream_t)`, set by the caller.
    uint32_t size;
    // A `dfx_feature_e`.
    uint32_t feature;
    // A `dfx_stream_e`.
    uint32_t kind;
    // The core or thread.
    uint32_t lane;
    // Whether the device half keeps a total: 0 or 1. If 0, `produced` is 0 and means nothing.
    uint32_t has_total;
    // Set to 0.
    uint32_t reserved;
    // What the device counted.
    uint64_t produced;
    // Unique records that the host has, recovered ones included.
    uint64_t collected;
    // Records that the device had no room for.
    uint64_t dropped;
    // Records that were produced but never reached the host whole.
    uint64_t lost;
    // a5 PMU: slots of another task.
    uint64_t mismatched;
    // Of `collected`: those taken from buffers that the device never published.
    uint64_t recovered;
    // Records that came again and were left out.
    uint64_t duplicate;
    // Entries, counts or records that failed validation.
    uint64_t corrupt;
    // Times that the producer waited for a buffer.
    uint64_t stalls;
    // Waited in all, in ns.
    uint64_t stall_ns;
    // The longest wait, in ns.
    uint64_t max_stall_ns;
} dfx_stream_t;

// Takes one message, in UTF-8 and without a line end, valid during the call. Called by any thread, several at a time. It
// must not throw, and must not call a function of this library on the session that the message is of: a session's own
// threads tell, too. `level` is a `dfx_log_level_e`.
typedef void (*dfx_log_f)(void *ctx, uint32_t level, const char *target, const char *message);

// One submit, made on the host.
typedef struct dfx_host_submit_t {
    // The submitted task.
    uint64_t task_id;
    // In ns of the host's monotonic clock.
    uint64_t start_ns;
    // In ns of the host's monotonic clock.
    uint64_t end_ns;
    // Counts submits from 0.
    uint32_t submit_idx;
    // Must be 0.
    uint32_t reserved;
} dfx_host_submit_t;

// One upload from host to device.
typedef struct dfx_host_upload_t {
    // A `dfx_upload_e`.
    uint32_t phase;
    // Must be 0.
    uint32_t reserved;
    // In ns of the host's monotonic clock.
    uint64_t start_ns;
    // In ns of the host's monotonic clock.
    uint64_t end_ns;
    // Bytes, where the phase counts them.
    uint64_t detail;
} dfx_host_upload_t;

// A reading of both clocks.
typedef struct dfx_anchor_t {
    // A `dfx_anchor_e`.
    uint32_t position;
    // Counts the readings at a position from 0.
    uint32_t sample_idx;
    // Host time before the device's clock was read, in ns.
    uint64_t host_before_ns;
    // Host time after it, in ns.
    uint64_t host_after_ns;
    // The device's time stamp in its own unit; 0 if there is none.
    uint64_t raw_device_timestamp;
    // The same in ticks of the counter; 0 if there is none.
    uint64_t device_cycles;
    // The runtime's code, if the reading failed.
    int64_t error_code;
    // Where the reading failed; null if it did not. Read during the call only.
    const char *error_stage;
} dfx_anchor_t;

// A counter, in ticks of the platform: 50 MHz on a2a3, 1 GHz on a5. It may wrap.
typedef uint64_t (*dfx_counter_f)(void);

// What a waiting recorder calls between two looks at shared memory. May return at once.
typedef void (*dfx_relax_f)(void);

// One submit. All that it points to is read during the call and not kept.
typedef struct dfx_submit_t {
    // The submitted task.
    uint64_t task_id;
    // `DFX_SUBMIT_*` bits.
    uint32_t flags;
    // Blocks of the task; less than 1 counts as 1.
    int32_t block_num;
    // Its tensors, at most 32: each points to the 128 bytes of the runtime's `ChipTensor`, at any alignment, or is null.
    const void *const *tensors;
    // How it uses each tensor, a number of the runtime's `TensorArgType` each.
    const uint8_t *arg_types;
    // Entries of `tensors` and `arg_types`.
    uint32_t tensor_count;
    // Entries of `deps`.
    uint32_t dep_count;
    // The task ids that the caller named, in order.
    const uint64_t *deps;
    // The kernels (AIC, AIV0, AIV1); -1 for none.
    int32_t kernel_ids[3];
} dfx_submit_t;

// One argument of a task.
typedef struct dfx_dump_arg_t {
    // The task.
    uint64_t task_id;
    // What the task does with it: 0 reads, 1 writes, 2 both.
    uint8_t role;
    // When it is recorded: 0 before the dispatch, 1 after completion.
    uint8_t stage;
    // The type of an element, a number of the runtime's `DataType`.
    uint8_t dtype;
    // Valid entries of `shapes` and `strides`, at most 5.
    uint8_t ndims;
    // Its position; scalars come after the tensors.
    uint32_t arg_index;
    // Device address of the tensor's buffer. It is read during the call and not kept.
    uint64_t buffer_addr;
    // A scalar's value.
    uint64_t scalar_value;
    // The task's kernels; -1 for none.
    int32_t func_ids[3];
    // Valid entries of `func_ids`.
    int32_t func_count;
    // 0 is a tensor, 1 a scalar.
    uint8_t kind;
    // Bit 0: the index does not name one argument alone.
    uint8_t flags;
    // At level 3: whether the bytes are wanted, too.
    uint8_t capture_payload;
    // Unused.
    uint8_t reserved[5];
    // The view's first element, in elements from the buffer's start.
    uint64_t start_offset;
    // In elements, per dimension.
    uint32_t shapes[5];
    // In elements, per dimension.
    uint32_t strides[5];
} dfx_dump_arg_t;

// Reads the 32-bit register at `offset` bytes from a core's register base; reading a counter clears it.
typedef uint32_t (*dfx_register_read_f)(uint64_t base, uint32_t offset);

// Writes the 32-bit register at `offset` bytes from a core's register base.
typedef void (*dfx_register_write_f)(uint64_t base, uint32_t offset, uint32_t value);

// The resources at one end of a scope.
typedef struct dfx_scope_sample_t {
    // The heap's reclaim pointer, in bytes from the heap's start.
    uint64_t heap_start;
    // The heap's allocation pointer, in bytes from the heap's start.
    uint64_t heap_end;
    // The scope's ring, 0 to 3; any other is none.
    int32_t ring;
    // First task of the window.
    int32_t task_start;
    // One past its last.
    int32_t task_end;
    // First entry in use of the dependency pool.
    int32_t dep_start;
    // One past its last.
    int32_t dep_end;
    // Tensor-map entries in use.
    int32_t tensormap;
} dfx_scope_sample_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, to be compared with `DFX_ABI_VERSION` of the header. Any thread, any time.
uint32_t dfx_abi_version(void);

// `dfx_abi_check(DFX_ABI_VERSION)` before anything else says whether header and library fit. Any thread, any time.
//
// Errors: `DFX_E_ABI`.
dfx_status_e dfx_abi_check(uint32_t header_version);

// The message of the last call on this thread that failed; empty if none has. In UTF-8, owned by the library, valid until
// the next call on this thread fails. Never null. Any thread.
const char *dfx_last_error(void);

// Makes a configuration with every switch off, for `dfx_config_set_…` and `dfx_session_create`. It is the caller's, to
// be given to `dfx_config_destroy`. Any thread.
//
// Errors: `DFX_E_NULL`.
//
// The caller sees to it:
// `out` is null or valid for a write.
dfx_status_e dfx_config_create(dfx_config_h *out);

// As `dfx_config_create`, with what the environment says: `DFX_OUTPUT_PREFIX`, `DFX_CHIP_SWIMLANE`, `DFX_DEP_GEN`,
// `DFX_DUMP_ARGS`, `DFX_PMU` (whose event `SIMPLER_PMU_EVENT_TYPE` overrides), `DFX_SCOPE_STATS`, `DFX_DUMP_BUDGET`,
// `DFX_BACKPRESSURE`; `DFX_LOG` sets the level of the log. What is unset or empty is left as it is. Any thread, but
// nobody may change the environment meanwhile.
//
// Errors: `DFX_E_NULL`, `DFX_E_INVALID` (the message names the variable); there is no configuration then.
//
// The caller sees to it:
// `out` is null or valid for a write.
dfx_status_e dfx_config_from_env(dfx_config_h *out);

// Ends a configuration. Sessions made from it stay. Any thread.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`.
dfx_status_e dfx_config_destroy(dfx_config_h config);

// Sets the chip swimlane's level: 0 off, 1 AICore start and end, 2 and AICPU dispatch and finish, 3 and scheduler
// phases, 4 and orchestrator submits. Any thread; calls on one configuration must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`.
dfx_status_e dfx_config_set_chip_swimlane(dfx_config_h config,
                                          int32_t level);

// Sets whether submits are captured for the dependency graph. Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_dep_gen(dfx_config_h config,
                                    bool on);

// Sets how much of the arguments is dumped: 0 nothing, 1 what is marked, 2 everything, 3 all metadata and the payload
// of what is marked. Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_dump_args(dfx_config_h config,
                                      int32_t level);

// Sets which hardware events are counted: 0 none, 1 arithmetic, 2 pipe utilization, 4 memory, 5 L0, 6 conflicts, 7 UB,
// 8 L2. Another number counts as 2, and the log says so. Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_pmu(dfx_config_h config,
                                uint32_t event);

// Sets whether scopes are sampled. Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_scope_stats(dfx_config_h config, bool on);

// Sets the ceiling of the drain of dumped payload, in bytes per second; 0: none is set, the rate is only measured (the
// default). Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_dump_budget(dfx_config_h config,
                                        uint64_t bytes_per_s);

// Sets whether a tensor that has not changed since it was last dumped is sent only once (level 2; on by default).
// Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_dump_dedup(dfx_config_h config,
                                       bool on);

// Sets the size of each AICPU thread's arena for dumped payload, in bytes: a multiple of 64, at least 4096, at most 2^40.
// Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_dump_arena(dfx_config_h config,
                                       uint64_t bytes);

// Sets what happens when the host cannot keep up; `policy` is a `dfx_backpressure_e`. Threads and errors as
// `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_backpressure(dfx_config_h config, uint32_t policy);

// Sets how many buffers each lane of `stream` (a `dfx_stream_e`) gets: at least 1, for AICore tasks at least 2, at most
// 65,536. Threads and errors as `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_buffers(dfx_config_h config,
                                    uint32_t stream,
                                    uint32_t buffers);

// Sets the runtime's own timeouts, which no wait of the device for the host may outlast, in ms: that of an operator's
// execution from its launch (45,000 unless set), and that after which a scheduler without progress gives up (10,000).
// Threads and errors as `dfx_config_set_chip_swimlane`; 0 is not accepted.
dfx_status_e dfx_config_set_timeouts(dfx_config_h config,
                                     uint64_t op_execute_ms,
                                     uint64_t scheduler_ms);

// Sets how the host reaches device memory; `transport` is a `dfx_transport_e`. Threads and errors as
// `dfx_config_set_chip_swimlane`.
dfx_status_e dfx_config_set_transport(dfx_config_h config, uint32_t transport);

// Sets the directory of the artifacts; it is made if missing when the session starts. The string is copied; on this
// system a path is bytes, and need not be UTF-8. Threads and errors as `dfx_config_set_chip_swimlane`; an empty name is
// not accepted.
//
// The caller sees to it:
// `dir` is null or a string.
dfx_status_e dfx_config_set_output(dfx_config_h config,
                                   const char *dir);

// Names the run that the session is part of. Sessions of this process with the same run and the same output directory
// (one per feature, say) make one `run.json`, which is complete if all of them are; without a name, or with null, each
// session replaces what an earlier one left. Choose another name for each launch. The string is copied. Threads and
// errors as `dfx_config_set_chip_swimlane`.
//
// The caller sees to it:
// `run` is null or a string.
dfx_status_e dfx_config_set_run(dfx_config_h config,
                                const char *run);

// Sets what `run.json` says was run. The string, in UTF-8, is copied. Threads and errors as
// `dfx_config_set_chip_swimlane`.
//
// The caller sees to it:
// `name` is null or a string.
dfx_status_e dfx_config_set_workload(dfx_config_h config, const char *name);

// Fills `out` with the numbers of the platform of `target` (a `dfx_target_e`). `out->size` must be set. Any thread, any
// time.
//
// Errors: `DFX_E_NULL`, `DFX_E_ABI`, `DFX_E_INVALID`.
//
// The caller sees to it:
// `out` is null or points to a `dfx_platform_t`.
dfx_status_e dfx_platform_get(uint32_t target,
                              struct dfx_platform_t *out);

// Makes a session: validates everything, allocates the shared memory of what `config` has on, and lays it out. With
// nothing on there is no memory, no thread and no file, and every later step does nothing. The configuration is copied.
// The session is the caller's, to be given to `dfx_session_destroy`.
//
// Any thread; several may make sessions from one configuration at once. Calls on one session must not overlap; one that
// does returns `DFX_E_BUSY`.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_ABI`, `DFX_E_INVALID`, `DFX_E_MEMORY`; nothing stays allocated then.
//
// The caller sees to it:
// `board`, `memory` and `out` are null or as their types say.
dfx_status_e dfx_session_create(dfx_config_h config,
                                const struct dfx_board_t *board,
                                const struct dfx_memory_t *memory,
                                dfx_session_h *out);

// Sets the directory of the artifacts, in place of the configuration's. Before the start. Calls on one session must not
// overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `dir` is null or a string.
dfx_status_e dfx_session_set_output(dfx_session_h session,
                                    const char *dir);

// Has the session's threads made by the caller; null: by the library, which is the default. Before the start. Calls on
// one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ABI`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `threads` is null or as its type says.
dfx_status_e dfx_session_set_threads(dfx_session_h session,
                                     const struct dfx_threads_t *threads);

// Fills `out` with where the device half finds its regions. `out->size` must be set. From the creation to the release.
// Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ABI`; after the release every address is 0.
//
// The caller sees to it:
// `out` is null or points to a `dfx_regions_t`.
dfx_status_e dfx_session_regions(dfx_session_h session,
                                 struct dfx_regions_t *out);

// Starts draining: after it the device may be launched. Makes the output directory and removes from it what an earlier
// run left. Once. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`, `DFX_E_IO`, `DFX_E_THREAD`, and `DFX_E_INVALID`
// when arguments are dumped and no output directory is set. After `DFX_E_IO` and `DFX_E_THREAD` the directory may have
// been emptied; the start may be tried again.
dfx_status_e dfx_session_start(dfx_session_h session);

// Fills `out` with how the drain goes. `out->size` must be set. Any thread, any time, also while another call on the
// session is under way, which it neither waits for nor disturbs.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_ABI`.
//
// The caller sees to it:
// `out` is null or points to a `dfx_progress_t`.
dfx_status_e dfx_session_progress(dfx_session_h session,
                                  struct dfx_progress_t *out);

// Stops draining and takes everything that the device published. The device must be at rest: nothing writes its memory
// any more. `end` is a `dfx_end_e`. May take as long as the dumped payload needs at its budget. Once. Calls on one
// session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
dfx_status_e dfx_session_stop(dfx_session_h session,
                              uint32_t end);

// Takes what the device never published, and closes every lane's account with the device's own totals. Once, after the
// stop. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
dfx_status_e dfx_session_reconcile(dfx_session_h session);

// Writes the artifacts and then `run.json` into `dir`, or, if that is null, where the configuration or
// `dfx_session_set_output` says. Where both are given and arguments are dumped, they must be the same. A file is complete
// under its name, or not there. Whether anything is missing from them says `dfx_session_complete`. Once, after the
// reconciliation. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`, and `DFX_E_IO`: then the other
// artifacts are there, and `run.json`, if it could be written, says which is not.
//
// The caller sees to it:
// `dir` is null or a string.
dfx_status_e dfx_session_export(dfx_session_h session,
                                const char *dir);

// Gives everything back: threads, mappings, device memory; after it the memory's functions are not called any more. The
// account stays readable. At any time, also twice; what was not exported is then lost. Calls on one session must not
// overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`.
dfx_status_e dfx_session_release(dfx_session_h session);

// Releases the session and ends its handle. At any time. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`; the session is then still there.
dfx_status_e dfx_session_destroy(dfx_session_h session);

// Sets `*out` to whether nothing is missing from what this session collected and wrote: no record dropped, lost or
// mismatched, no payload shed, cut or overwritten, no file failed. From the reconciliation on; after the export it
// includes the files. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `out` is null or valid for a write.
dfx_status_e dfx_session_complete(dfx_session_h session,
                                  bool *out);

// Sets `*out` to how many lanes have an account. From the reconciliation on; before it there are none. Calls on one
// session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`.
//
// The caller sees to it:
// `out` is null or valid for a write.
dfx_status_e dfx_session_stream_count(dfx_session_h session,
                                      uint32_t *out);

// Fills `out` with the account of lane number `index`, counted from 0. `out->size` must be set. From the reconciliation
// on. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ABI`, `DFX_E_RANGE`.
//
// The caller sees to it:
// `out` is null or points to a `dfx_stream_t`.
dfx_status_e dfx_session_stream(dfx_session_h session,
                                uint32_t index,
                                struct dfx_stream_t *out);

// Sets `*out` to how many reasons there are why the session is not complete. From the reconciliation on. Calls on one
// session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `out` is null or valid for a write.
dfx_status_e dfx_session_reason_count(dfx_session_h session,
                                      uint32_t *out);

// Copies reason number `index`, counted from 0, to `buffer`: a word, a colon, and a line for a person, in UTF-8, with a
// NUL. `*needed` is set to the bytes that it takes, the NUL included; with a null `buffer` nothing else is done. Either
// may be null, not both. From the reconciliation on. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`, `DFX_E_RANGE`, `DFX_E_SPACE`.
//
// The caller sees to it:
// `buffer` is null or has room for `capacity` bytes; `needed` is null or valid for a write.
dfx_status_e dfx_session_reason(dfx_session_h session,
                                uint32_t index,
                                char *buffer,
                                size_t capacity,
                                size_t *needed);

// Copies the session's own report to `buffer`: JSON with the keys of `run.json`, in UTF-8, with a NUL. `*needed` is set
// to the bytes that it takes, the NUL included; with a null `buffer` nothing else is done. Either may be null, not both.
// From the reconciliation on; the files are in it after the export. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`, `DFX_E_SPACE`. Before the export its times grow, and
// with them it may; leave some room, or call it after.
//
// The caller sees to it:
// `buffer` is null or has room for `capacity` bytes; `needed` is null or valid for a write.
dfx_status_e dfx_session_report(dfx_session_h session,
                                char *buffer,
                                size_t capacity,
                                size_t *needed);

// Sends the log of all sessions to `log` from now on, up to `level` (a `dfx_log_level_e`); null sends it to standard
// error. Without this call, and without `DFX_LOG` in the environment of `dfx_config_from_env`, nothing is told. Any
// thread, any time; a message that is under way may still reach the function before: keep its `ctx` until every session
// that was there is destroyed.
//
// Errors: `DFX_E_INVALID`.
//
// The caller sees to it:
// `log` is null or a function as `dfx_log_f` describes it, for as long as it is the sink.
dfx_status_e dfx_log_set(dfx_log_f log,
                         void *ctx,
                         uint32_t level);

// Names a kernel by its callable id, for `name_map_<workload>.json`, which is written when the swimlane or dep_gen is
// on. The string, in UTF-8, is copied; a second name replaces the first. Before the export. Calls on one session must
// not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `name` is null or a string.
dfx_status_e dfx_session_name_callable(dfx_session_h session,
                                       uint32_t callable_id,
                                       const char *name);

// Names what orchestrates; as `dfx_session_name_callable`.
//
// The caller sees to it:
// `name` is null or a string.
dfx_status_e dfx_session_name_orchestrator(dfx_session_h session, const char *name);

// Says what the cores are, in place of what the board said: for a caller that learns it later. A `dfx_core_type_e` per
// core, in core order. The array is copied. Before the export. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID` (also when `count` is not the number of cores),
// `DFX_E_ORDER`.
//
// The caller sees to it:
// `core_types` is null or points to `count` bytes.
dfx_status_e dfx_session_set_core_types(dfx_session_h session,
                                        const uint8_t *core_types,
                                        size_t count);

// Adds submits that the host made itself to the swimlane's file (level 3 and more). The array is copied. Before the
// export. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`; none is added then.
//
// The caller sees to it:
// `submits` is null or points to `count` elements.
dfx_status_e dfx_session_add_host_submits(dfx_session_h session,
                                          const struct dfx_host_submit_t *submits,
                                          size_t count);

// Adds uploads to the swimlane's file (level 3 and more); as `dfx_session_add_host_submits`.
//
// Errors: as there.
//
// The caller sees to it:
// `uploads` is null or points to `count` elements.
dfx_status_e dfx_session_add_host_uploads(dfx_session_h session,
                                          const struct dfx_host_upload_t *uploads,
                                          size_t count);

// Says how the host's own recording went: submits that there should be, submits recorded, records that the runtime's
// pool took, and those that it had no room for. Before the export. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_ORDER`.
dfx_status_e dfx_session_set_host_capture(dfx_session_h session,
                                          uint64_t expected,
                                          uint64_t recorded,
                                          uint64_t pool,
                                          uint64_t dropped);

// Says that the clocks of host and device are related by readings: who reads the device's (`sim_syscnt`, `acl_event`,
// `unavailable`), in which unit (`syscnt_cycles`, `device_uptime_us`, `unknown`), and how many readings are meant at each
// position. The strings, in UTF-8, are copied; readings that were added before stay. Before the export. Calls on one
// session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `provider` and `unit` are null or strings.
dfx_status_e dfx_session_set_anchors(dfx_session_h session,
                                     const char *provider,
                                     const char *unit,
                                     uint32_t samples_per_position);

// Adds one reading of both clocks. The struct is copied. Before the export. Calls on one session must not overlap.
//
// Errors: `DFX_E_NULL`, `DFX_E_HANDLE`, `DFX_E_BUSY`, `DFX_E_INVALID`, `DFX_E_ORDER`.
//
// The caller sees to it:
// `anchor` is null or as its type says.
dfx_status_e dfx_session_add_anchor(dfx_session_h session,
                                    const struct dfx_anchor_t *anchor);

// The version of the library's device half. Any thread, any time.
uint32_t dfx_device_abi_version(void);

// Whether a program that was built against `version` (`DFX_DEVICE_ABI_VERSION`) for `platform` (0 is a2a3, 1 is a5) can use
// this library. Any thread, any time.
bool dfx_device_abi_check(uint32_t version,
                          uint32_t platform);

// The platform that the library was built for: 0 is a2a3, 1 is a5. Any thread, any time.
uint32_t dfx_device_platform(void);

// What a status means, in English. Never null; the string lives as long as the library. Any thread, any time.
const char *dfx_device_message(int32_t status);

// Sets the counter by which waits are bounded, in ticks of the platform, and what a wait calls between two looks (null: a
// spin hint). Both are called from any thread that records. A null counter: none, and nothing can be initialised.
//
// Before any init, while nothing records.
//
// The caller sees to it:
// The functions may be called for as long as anything records.
void dfx_device_set_clock(dfx_counter_f counter,
                          dfx_relax_f relax);

// Takes the processor's own counter (`CNTVCT_EL0`; the time stamp counter on x86-64), scaled to ticks of the platform. `hz`
// is its rate; 0: as the processor says. `DFX_DEVICE_NO_CLOCK` when it does not say, as many x86-64 do not.
//
// Before any init, while nothing records.
//
// The caller sees to it:
// `relax` is null or may be called for as long as anything records.
dfx_device_status_e dfx_device_set_built_in_clock(uint64_t hz,
                                                  dfx_relax_f relax);

// The clock that was set, in ticks of the platform; 0 when none was. Any thread, any time.
uint64_t dfx_device_ticks(void);

// Turns the recording of submits on or off: at once if dep_gen is initialised, or with the next init.
//
// While the orchestrator records nothing.
void dfx_dep_gen_set_enabled(bool enabled);

// Whether submits are recorded. Any thread.
bool dfx_dep_gen_recording(void);

// Initialises for a launch on the region at `base`, a device address that the host gave out and that stays the host's;
// `orch_thread` is the thread whose ready queue carries the buffers. Takes a buffer if one is there, waits for none. On an
// error nothing is recorded.
//
// The caller sees to it:
// `base` is 0 or a dep_gen region of this platform that stays mapped for the launch; nothing else of dep_gen is running.
dfx_device_status_e dfx_dep_gen_init(uint64_t base,
                                     uint32_t orch_thread);

// Records one submit. More tensors than 32, or more dependencies than a buffer holds, are cut, and the record says so. It
// waits for the host when there is no room, within the launch's budget; then the submit is dropped and counted.
//
// The caller sees to it:
// Called by the orchestrator's thread. `submit` is null or what its fields say.
void dfx_dep_gen_record(const struct dfx_submit_t *submit);

// Publishes what there is. What cannot be published stays where the host finds it. The last call of a launch.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_dep_gen_flush(void);

// Makes the counts visible without publishing: before every abnormal exit.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_dep_gen_sync(void);

// Publications for which there was no orchestrator thread, since the last init. Any thread.
uint32_t dfx_dep_gen_misused(void);

// Off, and without a region: nothing is recorded until it is enabled and initialised again. The region may go.
//
// The caller sees to it:
// Nothing else of dep_gen is running.
void dfx_dep_gen_reset(void);

// Turns the dump on or off, forgets all marks, and sets the level to off until the next init.
//
// The caller sees to it:
// Nothing else of the dump is running.
void dfx_dump_set_enabled(bool enabled);

// Initialises the dump for a launch of `threads` threads on the region at `base`, a device address that the host gave out
// and that stays the host's: reads the level from its header, takes the buffers that are there, waits for none. What an
// earlier launch left is forgotten; marks set since the dump was switched stay. On an error nothing is recorded.
//
// The caller sees to it:
// `base` is 0 or an args-dump region of this platform that stays mapped for the launch, with its buffers and arenas; nothing
// else of the dump is running.
dfx_device_status_e dfx_dump_init(uint64_t base,
                                  uint32_t threads);

// The level in force: 0 off, 1 marked arguments only, 2 everything, 3 a record of everything with the bytes of marked
// tensors. Any thread.
uint32_t dfx_dump_level(void);

// Marks the arguments of `task` whose bits `mask` has; `flags` has those whose index is ambiguous. A mask of 0 is ignored,
// an earlier one of the task replaced; without room (32,768 tasks) the mark is counted in the region.
//
// One thread at a time; a task's marks are seen by whoever learnt of the task from that thread.
void dfx_dump_set_task_mask(uint64_t task,
                            uint64_t mask,
                            uint64_t flags);

// Keeps the types of the `n` scalars of `task`, at most 32. Returns false when they were not kept, because there are none
// or too many. One thread at a time, as for `dfx_dump_set_task_mask`.
//
// The caller sees to it:
// `dtypes` is null or points to `n` bytes, which are copied.
bool dfx_dump_set_scalar_dtypes(uint64_t task,
                                const uint8_t *dtypes,
                                uint32_t n);

// Whether any argument of `task` is to be recorded. Any thread.
bool dfx_dump_should_task(uint64_t task);

// Whether argument `index` of `task` is to be recorded. Any thread.
bool dfx_dump_should_arg(uint64_t task, uint32_t index);

// Whether argument `index` of `task` was marked with an ambiguous index. Any thread.
bool dfx_dump_arg_flag(uint64_t task, uint32_t index);

// Copies the types of the scalars of `task` into `dtypes`. Returns how many there are; 0: not known. Any thread.
//
// The caller sees to it:
// `dtypes` is null or has room for 32 bytes.
uint32_t dfx_dump_scalar_dtypes(uint64_t task,
                                uint8_t *dtypes);

// Records one argument, and the bytes of a tensor that brings them. Returns false when it was not recorded. It waits for
// the host when there is no room, within the launch's budget; then it records without the bytes.
//
// The caller sees to it:
// Called by `thread`, one call at a time. `arg` is null or an argument whose tensor may be read.
bool dfx_dump_record(uint32_t thread,
                     const struct dfx_dump_arg_t *arg);

// Publishes what `thread` holds. What cannot be published stays where the host finds it. A thread's last call of a launch.
//
// The caller sees to it:
// Called by `thread`.
void dfx_dump_flush(uint32_t thread);

// Makes the counts of `thread` visible without publishing: before every abnormal exit.
//
// The caller sees to it:
// Called by `thread`.
void dfx_dump_sync(uint32_t thread);

// Calls since the last init that named a thread that there is not; they recorded nothing. Any thread.
uint32_t dfx_dump_misused(void);

// Off, without a region, without marks: nothing is recorded until the next init. The region may go.
//
// The caller sees to it:
// Nothing else of the dump is running.
void dfx_dump_reset(void);

// Sets how registers are reached. Unless both are given they are memory at their base address.
//
// While nothing of the PMU is running.
//
// The caller sees to it:
// The functions may be called for as long as the PMU records.
void dfx_pmu_set_registers(dfx_register_read_f read, dfx_register_write_f write);

// Initialises the PMU for a launch on the region at `base`, a device address that the host gave out and that stays the
// host's: reads the event type from its header, opens the lanes of cores 0 to `cores` − 1, and of each core that has a
// register base (not 0) in `register_bases`, selects the events, clears the counters and turns them on. Takes the buffers
// that are there, waits for none. On an error nothing is recorded.
//
// The caller sees to it:
// `base` is 0 or a PMU region of this platform that stays mapped for the launch; `register_bases` is null (no core has
// registers) or points to `cores` bases, which stay valid for the launch; nothing else of the PMU is running, and no core
// runs a task.
dfx_device_status_e dfx_pmu_init(uint64_t base,
                                 const uint64_t *register_bases,
                                 uint32_t cores);

// Whether tasks are recorded. Any thread.
bool dfx_pmu_recording(void);

// Records the task that has just finished on `core`: on a2a3 by reading the core's counters; on a5 from what the core left
// in its ring for `token`, if that is there. `core_type`: 0 AIC, 1 AIV. A task without counters is counted. It waits for the
// host when there is no room, within the launch's budget; then the record is dropped and counted.
//
// The caller sees to it:
// One caller per core and per thread at a time.
void dfx_pmu_record(uint32_t core,
                    uint32_t thread,
                    uint32_t token,
                    uint64_t task,
                    uint32_t func_id,
                    int32_t core_type);

// Publishes what the lanes of the `n` cores hold. What cannot be published stays where the host finds it.
//
// The caller sees to it:
// Called by `thread`, whose cores these are; `cores` is null or points to `n` core numbers, which are not kept.
void dfx_pmu_flush(uint32_t thread,
                   const uint32_t *cores,
                   uint32_t n);

// Makes the counts of the `n` cores visible without publishing: before every abnormal exit.
//
// The caller sees to it:
// As `dfx_pmu_flush`.
void dfx_pmu_sync(const uint32_t *cores, uint32_t n);

// Puts the control registers of the `n` cores back to what init found in them. The last call of a launch.
//
// The caller sees to it:
// Called by the thread whose cores these are, while their registers are still there; `cores` is null or points to `n` core
// numbers, which are not kept.
void dfx_pmu_finalize(const uint32_t *cores,
                      uint32_t n);

// Calls since the last init that named a core or a thread that there is not; they recorded nothing. Any thread.
uint32_t dfx_pmu_misused(void);

// Turns everything off: nothing is recorded until the next init. Registers are not touched. The region may go.
//
// The caller sees to it:
// Nothing else of the PMU is running.
void dfx_pmu_reset(void);

// Turns the recording of samples on or off: at once if the scope stats are initialised, or with the next init.
//
// While the orchestrator records nothing.
void dfx_scope_set_enabled(bool enabled);

// Whether samples are recorded. Any thread.
bool dfx_scope_recording(void);

// Initialises for a launch on the region at `base`, a device address that the host gave out and that stays the host's;
// `orch_thread` is the thread whose ready queue carries the buffers. Takes a buffer if one is there, waits for none. On an
// error nothing is recorded.
//
// The caller sees to it:
// `base` is 0 or a scope-stats region of this platform that stays mapped for the launch; nothing else of the scope stats is
// running.
dfx_device_status_e dfx_scope_init(uint64_t base,
                                   uint32_t orch_thread);

// Tells the capacities of `ring` (0 to 3): tasks of its window, bytes of its heap, entries of its dependency pool. After
// init; for a ring that does not exist it does nothing.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_scope_set_ring_capacity(int32_t ring,
                                 int32_t window,
                                 uint64_t heap,
                                 int32_t dep_pool);

// Tells the tensor map's capacity in entries. After init.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_scope_set_tensormap_capacity(int32_t entries);

// Says where the next scope stands: a file (31 bytes of its name are kept; null: unknown) and a line.
//
// The caller sees to it:
// Called by the orchestrator's thread. `file` is null or a string that lives until the next begin.
void dfx_scope_set_site(const char *file, int32_t line);

// Records that a scope begins. It waits for the host when there is no room, within the launch's budget; then the sample is
// dropped and counted.
//
// The caller sees to it:
// Called by the orchestrator's thread. `sample` is null (nothing is recorded) or may be read.
void dfx_scope_begin(const struct dfx_scope_sample_t *sample);

// Records that the innermost open scope ends; without one it is counted as misuse.
//
// The caller sees to it:
// As `dfx_scope_begin`.
void dfx_scope_end(const struct dfx_scope_sample_t *sample);

// How deep the innermost open scope is nested, from 0; -1 when there is none.
//
// The caller sees to it:
// Called by the orchestrator's thread.
int32_t dfx_scope_depth(void);

// Counts a wrap of the current scope's heap: `DFX_HEAP_ALLOC` or `DFX_HEAP_RECLAIM`. Any thread.
void dfx_scope_note_heap_wrap(uint32_t side);

// Says that the runtime has met a fatal error, and publishes what there is.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_scope_on_fatal(void);

// Publishes what there is. What cannot be published stays where the host finds it. The last call of a launch.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_scope_flush(void);

// Makes the counts visible without publishing: before every abnormal exit.
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_scope_sync(void);

// Ends without a begin, and publications for which there was no orchestrator thread, since the last init. Any thread.
uint32_t dfx_scope_misused(void);

// Off, and without a region: nothing is recorded until it is enabled and initialised again. The region may go.
//
// The caller sees to it:
// Nothing else of the scope stats is running.
void dfx_scope_reset(void);

// Initialises the chip swimlane for a launch: reads the level from the header of the region at `base`, opens the lanes of
// cores 0 to `cores` − 1, and writes each core's head into its entry of `rotation_table` (0: none). Takes the buffers that
// are there, waits for none. What an earlier launch left is forgotten. On an error nothing is recorded.
//
// Both are device addresses that the host gave out, and stay the host's. While nothing of the swimlane is running.
//
// The caller sees to it:
// `base` is 0 or a chip-swimlane region of this platform that stays mapped for the launch, `rotation_table` 0 or one u64
// per core.
dfx_device_status_e dfx_swimlane_init(uint64_t base,
                                      uint64_t rotation_table,
                                      uint32_t cores);

// Opens the phase lanes of threads 0 to `sched_threads` − 1 (level ≥ 3) and the orchestrator's lane (level 4), names the
// orchestrator's thread, and forgets who owns the `cores` cores.
//
// After `dfx_swimlane_init`, while nothing of the swimlane is running.
//
// The caller sees to it:
// As said.
void dfx_swimlane_init_phases(uint32_t sched_threads,
                              uint32_t orch_thread,
                              uint32_t cores);

// Says that `thread` owns the `n` cores (level ≥ 3). Numbers out of range are counted. After `dfx_swimlane_init_phases`.
//
// The caller sees to it:
// `cores` is null or points to `n` core numbers, which are not kept.
void dfx_swimlane_assign_cores(uint32_t thread,
                               const uint32_t *cores,
                               uint32_t n);

// The level in force: 0 off, 1 cores' own times, 2 also AICPU's, 3 also scheduler phases, 4 also submits. Any thread.
uint32_t dfx_swimlane_level(void);

// Whether anything is recorded: the test that a runtime makes before it reads a clock. Any thread.
bool dfx_swimlane_enabled(void);

// Before `token` is written to the dispatch register of `core` (level ≥ 1). It may wait for the host when a buffer is full.
//
// The caller sees to it:
// One caller per core and per thread at a time.
void dfx_swimlane_on_dispatch(uint32_t core,
                              uint32_t thread,
                              uint32_t token);

// On every matched ACK and FIN of `token` on `core` (level ≥ 1).
//
// The caller sees to it:
// One caller per core and per thread at a time.
void dfx_swimlane_on_ack(uint32_t core, uint32_t thread, uint32_t token);

// Records that AICPU dispatched `token` to `core` at `dispatch` and saw it complete at `finish`, in ticks (level ≥ 2).
// Returns 0, or -1 when it was not recorded.
//
// The caller sees to it:
// One caller per core and per thread at a time.
int32_t dfx_swimlane_complete_task(uint32_t core,
                                   uint32_t thread,
                                   uint32_t token,
                                   uint64_t dispatch,
                                   uint64_t finish);

// Records a phase of the scheduler `thread`, in ticks (level ≥ 3). `kind`: 0 complete, 1 dispatch, 2 release, 4 dummy,
// 5 early dispatch, 6 resolve, 8 drain, 9 drain prepare, 10 drain publish, 11 async poll; any other that does not exist is
// not recorded. `depth_start` and `depth_end` are the ready queues' depths (AIC, AIV, MIX), three numbers each; null: zeroes.
//
// The caller sees to it:
// One caller per thread at a time; each depth pointer is null or points to three numbers, which are not kept.
void dfx_swimlane_sched_phase(uint32_t thread,
                              uint32_t kind,
                              uint64_t start,
                              uint64_t end,
                              uint32_t loop_iter,
                              uint32_t tasks,
                              uint32_t pop_hit,
                              uint32_t pop_miss,
                              const int16_t *depth_start,
                              const int16_t *depth_end);

// Marks that a task without a kernel retired on `thread` at tick `at` (level ≥ 3).
//
// The caller sees to it:
// One caller per thread at a time.
void dfx_swimlane_dummy_task(uint32_t thread, uint64_t at, uint32_t loop_iter, uint64_t task);

// Marks that a task whose predicate was false retired on `thread` at tick `at` (level ≥ 3).
//
// The caller sees to it:
// One caller per thread at a time.
void dfx_swimlane_predicated_skip(uint32_t thread, uint64_t at, uint32_t loop_iter, uint64_t task);

// Records that `thread` made the `nodes` nodes of graph task `task`, in ticks (level ≥ 3).
//
// The caller sees to it:
// One caller per thread at a time.
void dfx_swimlane_graph_prepare(uint32_t thread,
                                uint64_t start,
                                uint64_t end,
                                uint32_t loop_iter,
                                uint64_t task,
                                uint32_t nodes);

// Records a submit of the orchestrator, in ticks (level ≥ 4).
//
// The caller sees to it:
// Called by the orchestrator's thread.
void dfx_swimlane_orch_submit(uint64_t start, uint64_t end, uint64_t task, uint32_t submit_idx);

// Publishes what `thread` and its `n` cores hold; with `orchestrator`, the submits, too. What cannot be published stays
// where the host finds it. A thread's last call of a launch.
//
// The caller sees to it:
// Called by `thread`; `cores` is null or points to `n` core numbers, which are not kept.
void dfx_swimlane_flush(uint32_t thread,
                        const uint32_t *cores,
                        uint32_t n,
                        bool orchestrator);

// Makes the counts of `thread` and its `n` cores visible without publishing: before every abnormal exit, so that the host
// recovers exactly what there is.
//
// The caller sees to it:
// Called by `thread`; `cores` is null or points to `n` core numbers, which are not kept.
void dfx_swimlane_sync(uint32_t thread,
                       const uint32_t *cores,
                       uint32_t n);

// Calls since the last init that named a core or a thread that there is not; they recorded nothing. Any thread.
uint32_t dfx_swimlane_misused(void);

// Turns everything off: nothing is recorded until the next init. The region may go.
//
// The caller sees to it:
// Nothing else of the swimlane is running.
void dfx_swimlane_reset(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DFX_H */
