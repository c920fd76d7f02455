//! The args dump: what tasks were called with.
#![allow(non_camel_case_types)] // the names are C's

use super::dfx_device_status_e::{self, *};
use crate::clock;
use crate::state::{DUMP, GEOMETRY};
use core::mem::offset_of;
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::args_dump::Info;
use dfx_collector::args_dump::{InitError, MAX_SCALARS};

/// One argument of a task.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_dump_arg_t {
    /// The task.
    pub task_id: u64,
    /// What the task does with it: 0 reads, 1 writes, 2 both.
    pub role: u8,
    /// When it is recorded: 0 before the dispatch, 1 after completion.
    pub stage: u8,
    /// The type of an element, a number of the runtime's `DataType`.
    pub dtype: u8,
    /// Valid entries of `shapes` and `strides`, at most 5.
    pub ndims: u8,
    /// Its position; scalars come after the tensors.
    pub arg_index: u32,
    /// Device address of the tensor's buffer. It is read during the call and not kept.
    pub buffer_addr: u64,
    /// A scalar's value.
    pub scalar_value: u64,
    /// The task's kernels; -1 for none.
    pub func_ids: [i32; 3],
    /// Valid entries of `func_ids`.
    pub func_count: i32,
    /// 0 is a tensor, 1 a scalar.
    pub kind: u8,
    /// Bit 0: the index does not name one argument alone.
    pub flags: u8,
    /// At level 3: whether the bytes are wanted, too.
    pub capture_payload: u8,
    /// Unused.
    pub reserved: [u8; 5],
    /// The view's first element, in elements from the buffer's start.
    pub start_offset: u64,
    /// In elements, per dimension.
    pub shapes: [u32; 5],
    /// In elements, per dimension.
    pub strides: [u32; 5],
}

const _: () = {
    assert!(
        size_of::<dfx_dump_arg_t>() == size_of::<Info>()
            && align_of::<dfx_dump_arg_t>() == align_of::<Info>()
    );
    assert!(offset_of!(dfx_dump_arg_t, role) == offset_of!(Info, role));
    assert!(offset_of!(dfx_dump_arg_t, arg_index) == offset_of!(Info, arg_index));
    assert!(offset_of!(dfx_dump_arg_t, buffer_addr) == offset_of!(Info, buffer_addr));
    assert!(offset_of!(dfx_dump_arg_t, func_ids) == offset_of!(Info, func_ids));
    assert!(offset_of!(dfx_dump_arg_t, kind) == offset_of!(Info, kind));
    assert!(offset_of!(dfx_dump_arg_t, capture_payload) == offset_of!(Info, capture_payload));
    assert!(offset_of!(dfx_dump_arg_t, start_offset) == offset_of!(Info, start_offset));
    assert!(offset_of!(dfx_dump_arg_t, shapes) == offset_of!(Info, shapes));
    assert!(offset_of!(dfx_dump_arg_t, strides) == offset_of!(Info, strides));
};

/// Turns the dump on or off, forgets all marks, and sets the level to off until the next init.
///
/// # Safety
/// Nothing else of the dump is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_set_enabled(enabled: bool) {
    // SAFETY: passed on.
    unsafe { DUMP.set_enabled(enabled) }
}

/// Initialises the dump for a launch of `threads` threads on the region at `base`, a device address that the host gave out
/// and that stays the host's: reads the level from its header, takes the buffers that are there, waits for none. What an
/// earlier launch left is forgotten; marks set since the dump was switched stay. On an error nothing is recorded.
///
/// # Safety
/// `base` is 0 or an args-dump region of this platform that stays mapped for the launch, with its buffers and arenas; nothing
/// else of the dump is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_init(base: u64, threads: u32) -> dfx_device_status_e {
    if !clock::is_set() {
        return DFX_DEVICE_NO_CLOCK;
    }
    // SAFETY: passed on.
    match unsafe { DUMP.init(GEOMETRY, DeviceAddr(base), threads, None) } {
        Ok(()) => DFX_DEVICE_OK,
        Err(InitError::NoRegion) => DFX_DEVICE_NO_REGION,
        Err(InitError::Magic { .. }) => DFX_DEVICE_NOT_A_REGION,
        Err(InitError::Threads { .. }) => DFX_DEVICE_TOO_MANY,
        Err(InitError::Level { .. }) => DFX_DEVICE_BAD_LEVEL,
    }
}

/// The level in force: 0 off, 1 marked arguments only, 2 everything, 3 a record of everything with the bytes of marked
/// tensors. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dump_level() -> u32 {
    DUMP.level() as u32
}

/// Marks the arguments of `task` whose bits `mask` has; `flags` has those whose index is ambiguous. A mask of 0 is ignored,
/// an earlier one of the task replaced; without room (32,768 tasks) the mark is counted in the region.
///
/// One thread at a time; a task's marks are seen by whoever learnt of the task from that thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dump_set_task_mask(task: u64, mask: u64, flags: u64) {
    DUMP.set_task_mask(task, mask, flags);
}

/// Keeps the types of the `n` scalars of `task`, at most 32. Returns false when they were not kept, because there are none
/// or too many. One thread at a time, as for `dfx_dump_set_task_mask`.
///
/// # Safety
/// `dtypes` is null or points to `n` bytes, which are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_set_scalar_dtypes(task: u64, dtypes: *const u8, n: u32) -> bool {
    // SAFETY: passed on.
    let dtypes = unsafe { super::list(dtypes, n) };
    DUMP.set_task_scalar_dtypes(task, dtypes);
    !dtypes.is_empty() && dtypes.len() <= MAX_SCALARS
}

/// Whether any argument of `task` is to be recorded. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dump_should_task(task: u64) -> bool {
    DUMP.should_dump_task(task)
}

/// Whether argument `index` of `task` is to be recorded. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dump_should_arg(task: u64, index: u32) -> bool {
    DUMP.should_dump_arg(task, index as i32)
}

/// Whether argument `index` of `task` was marked with an ambiguous index. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dump_arg_flag(task: u64, index: u32) -> bool {
    DUMP.has_arg_flag(task, index as i32)
}

/// Copies the types of the scalars of `task` into `dtypes`. Returns how many there are; 0: not known. Any thread.
///
/// # Safety
/// `dtypes` is null or has room for 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_scalar_dtypes(task: u64, dtypes: *mut u8) -> u32 {
    let mut found = [0; MAX_SCALARS];
    let Some(n) = DUMP.task_scalar_dtypes(task, &mut found) else { return 0 };
    if !dtypes.is_null() {
        // SAFETY: there is room (the caller's contract).
        unsafe { dtypes.cast::<[u8; MAX_SCALARS]>().write(found) };
    }
    n as u32
}

/// Records one argument, and the bytes of a tensor that brings them. Returns false when it was not recorded. It waits for
/// the host when there is no room, within the launch's budget; then it records without the bytes.
///
/// # Safety
/// Called by `thread`, one call at a time. `arg` is null or an argument whose tensor may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_record(thread: u32, arg: *const dfx_dump_arg_t) -> bool {
    // SAFETY: the same layout, as asserted above; the rest is passed on.
    match unsafe { arg.cast::<Info>().as_ref() } {
        // SAFETY: passed on.
        Some(info) => unsafe { DUMP.record(thread, info) },
        None => false,
    }
}

/// Publishes what `thread` holds. What cannot be published stays where the host finds it. A thread's last call of a launch.
///
/// # Safety
/// Called by `thread`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_flush(thread: u32) {
    // SAFETY: passed on.
    unsafe { DUMP.flush(thread) }
}

/// Makes the counts of `thread` visible without publishing: before every abnormal exit.
///
/// # Safety
/// Called by `thread`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_sync(thread: u32) {
    // SAFETY: passed on.
    unsafe { DUMP.sync(thread) }
}

/// Calls since the last init that named a thread that there is not; they recorded nothing. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_dump_misused() -> u32 {
    DUMP.misused()
}

/// Off, without a region, without marks: nothing is recorded until the next init. The region may go.
///
/// # Safety
/// Nothing else of the dump is running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_dump_reset() {
    // SAFETY: passed on.
    unsafe { DUMP.reset() }
}
