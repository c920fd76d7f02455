//! What all five regions share.

use crate::sync::AtomicU32;

/// An address in device memory, in bytes. It is a number: nothing here or on the host dereferences it; whoever may
/// (the device side, or a host that has the memory mapped) translates it first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct DeviceAddr(pub u64);

impl DeviceAddr {
    /// The address that stands for "no buffer".
    pub const NULL: DeviceAddr = DeviceAddr(0);

    /// Whether this is [`NULL`](Self::NULL).
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `bytes` further on (wrapping: a bad sum is caught where the address is checked).
    pub const fn offset(self, bytes: u64) -> DeviceAddr {
        DeviceAddr(self.0.wrapping_add(bytes))
    }
}

impl core::fmt::Debug for DeviceAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl core::fmt::Display for DeviceAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The freeze: words by which host and device agree that all lanes wait together (backpressure policy `global`).
///
/// The device raises `*_contended` once per wait; the host answers with `*_freeze_active` first and clears `contended`
/// after, so that a device never sees both zero while it still waits.
#[derive(Debug, Default)]
#[repr(C, align(4))]
pub struct BackpressureHeader {
    /// Host: producers park after they have published a ready entry.
    pub rq_freeze_active: AtomicU32,
    /// Device: a ready queue was full.
    pub rq_contended: AtomicU32,
    /// Host: producers park before they take a free buffer.
    pub fq_freeze_active: AtomicU32,
    /// Device: a free queue was empty.
    pub fq_contended: AtomicU32,
}

/// Size of every free queue in bytes: two cache lines.
pub const FREE_QUEUE_LINE: usize = 128;

/// Task ids: `(ring << 32) | local`.
pub mod task_id {
    /// The id that no task has.
    pub const INVALID: u64 = u64::MAX;

    /// Makes a task id.
    pub const fn new(ring: u8, local: u32) -> u64 {
        ((ring as u64) << 32) | local as u64
    }

    /// The ring (bits 32..40; higher bits are ignored).
    pub const fn ring(id: u64) -> u8 {
        (id >> 32) as u8
    }

    /// The number within the ring.
    pub const fn local(id: u64) -> u32 {
        id as u32
    }
}

const _: () = assert!(size_of::<BackpressureHeader>() == 16 && align_of::<BackpressureHeader>() == 4);
