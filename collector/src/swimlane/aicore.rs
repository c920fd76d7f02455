//! The AICore's own recorder: reserve before the acknowledge, commit after FIN.

use super::mem::HeadPtr;
use crate::abi::DeviceAddr;
use crate::abi::swimlane::{ActiveHead, CORE_RECORDS, CoreRecord};
use crate::lane::Reserver;
use crate::sync::{AtomicU64, Ordering};

/// Where a core's next record goes; handed from [`CoreRecorder::reserve`] to [`CoreRecorder::commit`].
#[derive(Clone, Copy, Debug)]
pub struct Slot(*mut CoreRecord);

impl Slot {
    /// No room: the record will be dropped, and AICPU has counted it.
    pub const NONE: Slot = Slot(core::ptr::null_mut());

    /// Whether the record will be kept.
    pub fn is_some(self) -> bool {
        !self.0.is_null()
    }
}

/// One core's recorder.
#[derive(Debug)]
pub struct CoreRecorder {
    head: HeadPtr,
    place: Reserver<{ size_of::<CoreRecord>() as u64 }>,
}

impl CoreRecorder {
    /// The recorder of the core whose entry of the rotation table is `entry`; `None` when AICPU left it empty.
    ///
    /// # Safety
    /// `entry` points to the core's u64 of the rotation table, after AICPU's init filled it; the region and its buffers
    /// outlive the recorder; no other recorder exists for this core.
    pub unsafe fn attach(entry: *const AtomicU64) -> Option<Self> {
        // SAFETY: the caller vouched for the pointer.
        let head = unsafe { &*entry }.load(Ordering::Acquire) as *const ActiveHead;
        if head.is_null() {
            return None;
        }
        // SAFETY: AICPU's init wrote the address of this core's head in the region.
        let head = unsafe { HeadPtr::new(head) };
        Some(CoreRecorder { head, place: Reserver::NEW })
    }

    /// Reserves the slot of the task that is about to be acknowledged.
    #[inline(always)]
    pub fn reserve(&mut self) -> Slot {
        Slot(self.place.reserve(&self.head, CORE_RECORDS as u32).0 as *mut CoreRecord)
    }

    /// Writes the record of a task into its slot. `receive`, `start` and `end` are in ticks.
    ///
    /// # Safety
    /// `slot` comes from [`reserve`](Self::reserve) of this recorder, is committed at most once, and AICPU has not been
    /// shown the acknowledge of the token after the next one: until then the slot's buffer is not given to the host.
    #[inline(always)]
    pub unsafe fn commit(slot: Slot, start: u64, end: u64, task: u64, token: u32, receive: u64) {
        if !slot.is_some() {
            return;
        }
        // SAFETY: the slot is inside a buffer that is this core's to write (the caller's contract); its fields are
        // written through raw pointers, and the start time, which says that the row is whole, last and as an atomic.
        unsafe {
            let row = slot.0;
            (&raw mut (*row).end_time).write(end);
            (&raw mut (*row).task_token_raw).write(task);
            (&raw mut (*row).reg_task_id).write(token);
            (&raw mut (*row).receive_to_start_cycles).write(start.wrapping_sub(receive) as u32);
            // SYNC POINT: a host that looks at an unpublished buffer (recovery) loads the start time with acquire; a
            // row whose start is 0 is not there.
            AtomicU64::from_ptr(&raw mut (*row).start_time).store(start, Ordering::Release);
        }
    }
}

/// The rotation table's entry of `core` in a table at `table`.
pub const fn rotation_entry(table: DeviceAddr, core: u32) -> DeviceAddr {
    table.offset(core as u64 * 8)
}
