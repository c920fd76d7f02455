//! What the hooks know of the args dump's memory.

use dfx_collector::abi::args_dump::Info;
use dfx_collector::abi::layout::ARENA;
use dfx_collector::abi::tensor::{DataType, MAX_DIMS};
use dfx_collector::args_dump::Tables;
use dfx_host_drain::features::args_dump::DumpRegion;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables for a launch.
pub(super) fn new_tables() -> Box<Tables> {
    // SAFETY: tables are all zero when new.
    unsafe { Box::<Tables>::new_zeroed().assume_init() }
}

/// Payload bytes that `thread`, which asks, has given up so far.
pub(super) fn shed_bytes(region: &DumpRegion, thread: u32) -> u64 {
    let at = region.base.offset((region.layout.lane(thread) + ARENA.shed_bytes) as u64).0 as usize;
    // SAFETY: the session made the region, with a state for each thread; the word is an atomic on both sides.
    unsafe { (*std::ptr::with_exposed_provenance::<AtomicU64>(at)).load(Ordering::Relaxed) }
}

/// Bytes that dumping `info` copies into an arena of so many, if there was room.
pub(super) fn copied(info: &Info, arena: u64) -> u64 {
    let shape = &info.shapes[..usize::from(info.ndims).min(MAX_DIMS)];
    let bytes = DataType::from_raw(info.dtype).map_or(0, DataType::bytes);
    let bytes = shape.iter().fold(bytes, |bytes, &extent| bytes.saturating_mul(extent.into()));
    if bytes > arena { arena / 2 } else { bytes }
}
