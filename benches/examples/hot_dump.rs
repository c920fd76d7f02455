//! Calls the args dump's recording function many times through a C boundary, for `ci/callgrind.sh` to count its
//! instructions.
//!
//! `hot_dump WHAT CALLS`: only what happens inside `hot_dump` (or, for the limits, inside `hot_copy`) is counted
//! (callgrind toggles at it), so the host's work and the loop are not. The levels are those at which `WHAT` is recorded.

use dfx_benches::NoClock;
use dfx_benches::dump::{Host, dense, rows, scalar, transposed};
use dfx_collector::abi::args_dump::{Info, Level};
use dfx_collector::args_dump::{ArgsDump, Tables};
use std::hint::black_box;

static TABLES: Tables = Tables::NEW;
static DUMP: ArgsDump<NoClock> = ArgsDump::new(NoClock, &TABLES);

/// As the C symbol.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_dump(thread: i32, info: &Info) -> i32 {
    // SAFETY: the loop below passes tensors that may be read; one thread calls.
    unsafe { DUMP.record_status(thread as u32, info) }
}

/// What a payload cannot do without.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn hot_copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the loop below passes two places of that length.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg =
        |name: &str| args.next().unwrap_or_else(|| panic!("usage: hot_dump WHAT CALLS ({name} missing)"));
    let what = arg("WHAT");
    let calls: u32 = arg("CALLS").parse().expect("a number of calls");
    let tensor = vec![1u8; 1 << 20];
    let mut copy = vec![0u8; 1 << 20];
    let (info, level) = match &*what {
        "off" => (scalar(), Level::Off),
        "scalar" => (scalar(), Level::Full),
        "metadata" => (dense(&tensor, [2, 8, 16, 16]), Level::Hybrid),
        "payload_4k" | "copy_4k" => (dense(&tensor, [1 << 10]), Level::Full),
        "payload_64k" | "copy_64k" => (dense(&tensor, [1 << 14]), Level::Full),
        "rows" => (rows(&tensor, [128, 128]), Level::Full),
        "transposed" => (transposed(&tensor), Level::Full),
        other => panic!("nothing is called {other}"),
    };
    let bytes = info.shapes.iter().take(usize::from(info.ndims)).product::<u32>() as usize * 4;
    let host = Host::new(level, 4 << 20);
    // SAFETY: the region outlives its use, and nothing else runs.
    unsafe {
        DUMP.set_enabled(level != Level::Off);
        DUMP.init(&Host::GEOMETRY, host.base(), 1, Some(0)).expect("a region");
    }
    for n in 0..calls {
        let info = Info { task_id: u64::from(black_box(n)), ..info };
        // SAFETY: one thread calls; the tensor is there, and the copy is as large.
        unsafe {
            if what.starts_with("copy") {
                hot_copy(black_box(copy.as_mut_ptr()), tensor.as_ptr(), black_box(bytes));
            } else {
                black_box(hot_dump(0, &info));
            }
        }
        host.step();
    }
}
