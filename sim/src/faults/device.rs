//! Faults of the device half: what it publishes is not what it should be.

use super::{Fault, FaultPlan};
use dfx_collector::abi::DeviceAddr;
use dfx_collector::abi::layout::BufferLayout;
use dfx_collector::abi::swimlane::BufferKind;
use dfx_collector::clock::Publish;
use dfx_collector::lane::Entry;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every so many publications one is spoilt.
const EVERY: u32 = 3;

/// The plan's part in publications.
#[derive(Debug)]
pub struct DeviceFaults {
    twice: bool,
    later: bool,
    count: bool,
    pointer: bool,
    index: bool,
    published: AtomicU32,
}

impl DeviceFaults {
    /// The faults of `plan`.
    pub fn new(plan: &FaultPlan) -> Self {
        DeviceFaults {
            twice: plan.has(&Fault::DupReady),
            later: plan.has(&Fault::ReorderReady),
            count: plan.has(&Fault::CorruptCount),
            pointer: plan.has(&Fault::CorruptPointer),
            index: plan.has(&Fault::CorruptIndex),
            published: AtomicU32::new(0),
        }
    }

    /// Spoils `entry`, or says what else becomes of it.
    pub fn publish(&self, entry: &mut Entry) -> Publish {
        if !(self.twice || self.later || self.count || self.pointer || self.index)
            || !self.published.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY)
        {
            return Publish::Once;
        }
        if self.count
            && let Some(kind) = BufferKind::from_raw(entry.kind)
        {
            let at = entry.buffer.offset(BufferLayout::swimlane(kind).count as u64).0 as usize;
            // SAFETY: the lane publishes this buffer of its kind, so the count word is there and still the device's.
            let count = unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(at)) };
            count.store(u32::MAX, Ordering::Relaxed);
        }
        if self.pointer {
            entry.buffer = DeviceAddr(entry.buffer.0 ^ 0x5555_0000);
        }
        if self.index {
            entry.index = 0xDEAD;
        }
        // Something always follows a core's gated buffer: its flush at the latest.
        let gated = entry.kind == BufferKind::AicoreTask as u32 && entry.flags == 0;
        match (self.twice, self.later && gated) {
            (true, _) => Publish::Twice,
            (_, true) => Publish::Later,
            _ => Publish::Once,
        }
    }
}
