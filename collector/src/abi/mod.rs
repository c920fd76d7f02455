//! The shared-memory ABI of the five regions, as the file that compiles.
//!
//! Device half and host half meet only here. The layouts are those of the runtime that we are a drop-in for, pinned at
//! [`REVISION`]; every struct is `repr(C)`, shared words are atomics, and the test `abi_json` compares each offset,
//! size, alignment, constant and enum value with the pinned facts in `collector/tests/data/`.
//!
//! A region is one header followed by per-lane state, back to back; buffers lie elsewhere and are named by device
//! address. All five regions share one shape:
//!
//! ```text
//!  header ┌ ready queues, one per AICPU thread: [ReadyEntry; N] ┐  device → host   entry, then tail
//!         │ heads[T] (host writes)   tails[T] (device writes)   │
//!         │ counts and levels          backpressure   peer word │
//!  lanes  └ active head (buffer, seq, totals)  ·  free queue ───┘  host → device   slot, then tail
//! ```
//!
//! What we add sits in bytes that the pinned revision leaves unused, is listed in `EXTENSIONS` of the conformance test,
//! and is meaningful only when the [peer word](peer) says that both halves are ours:
//!
//! | where | field | who writes |
//! |---|---|---|
//! | every header, first spare word | `peer` | host low half, device high half |
//! | `SwimlaneHeader`, second spare word | `stall_budget` | host at init |
//! | `SwimlaneReadyEntry`, its pad | `flags` | device with the entry |
//! | `ActiveHead`, its pad | `stalls`, `stash_ptr`, `stash_seq`, `stall_ticks`, `max_stall_ticks` | device, at rotation only |
//! | `pmu::Header`, second spare word; `dep_gen::BufferState` and `scope_stats::BufferState`, their pads | `stall_budget` | host at init |
//! | `dep_gen`, `pmu` and `scope_stats::BufferState`, their pads | `stalls`, `stall_ticks`, `max_stall_ticks` | device, after a wait |
//! | `dep_gen::BufferState`, its pad | `truncated_record_count` | device, with the record |
//! | `dep_gen::SubmitRecord`, an unused bit of its flags | `TRUNCATED` | device |
//! | `scope_stats::BufferState`, its pad | `deep_scope_count` | device, with the record |
//! | `args_dump::Header`, second to fourth spare word | `stall_budget`, `options`; `lost_mark_count` | host at init; device |
//! | `args_dump::BufferState`, its second pad | `total_record_count`, `payload_bytes`, `saved_payload_bytes`, `saved_record_count` | device, at rotation only |
//! | the same | `stalls`, `stall_ticks`, `max_stall_ticks`; `shed_payload_bytes`, `shed_record_count` | device, after a wait; as it sheds |
//! | the same | `arena_acknowledged` | host, after it has saved payloads |
//! | `args_dump::Record`, unused bits of its flags | `REFERENCE`, `SHED` | device |

pub mod args_dump;
pub mod clock_anchor;
pub mod dep_gen;
pub mod device_phase;
pub mod flags;
pub mod host_phase;
pub mod layout;
pub mod peer;
pub mod pmu;
pub mod registers;
pub mod scope_stats;
pub mod shared;
pub mod swimlane;
pub mod task;
pub mod tensor;
pub mod timeouts;
pub mod token;
pub mod topology;

mod common;
mod platform;
mod pmu_events;

pub use common::{BackpressureHeader, DeviceAddr, FREE_QUEUE_LINE, task_id};
pub use platform::{Geometry, Platform};

/// The records of a buffer: `pinned`, but `few` in Miri, which takes minutes to fill a real one and is to see rotations.
const fn records(pinned: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { pinned }
}

/// The pinned revision of the reference runtime whose ABI this is (`source_commit` of `abi/*.json`).
pub const REVISION: &str = "6ebaf77156313aaeb5c9457c57b16c45b84ae7e8";
