//! What a platform must be able to do for us: the callbacks of a runtime, as one trait.

use dfx_collector::abi::DeviceAddr;
use std::ptr::NonNull;

/// A memory operation that the platform refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} of {bytes} bytes at {at} failed: {why}")]
pub struct MemoryError {
    /// The operation.
    pub what: &'static str,
    /// Where (null for an allocation).
    pub at: DeviceAddr,
    /// How much.
    pub bytes: u64,
    /// What the platform said.
    pub why: String,
}

/// Device memory, as the platform lets a host use it.
///
/// # Safety
/// The transports rely on it: [`alloc`](Self::alloc) gives memory that stays valid until [`free`](Self::free) and that
/// nobody else was given; [`register`](Self::register) gives a pointer through which all `bytes` of that memory can be
/// read and written by any thread until [`unregister`](Self::unregister) (one that is not 64-byte aligned is refused and
/// given back); the copies touch exactly the named ranges, and
/// copy aligned 4- and 8-byte words whole, in a way that synchronises with the device's own accesses.
pub unsafe trait DeviceMemory: Send + Sync {
    /// Allocates `bytes` of device memory, 256-byte aligned; its content is unspecified.
    ///
    /// # Errors
    /// When there is none.
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError>;

    /// Gives an allocation back.
    fn free(&self, at: DeviceAddr, bytes: u64);

    /// Maps an allocation into the host (transport `Svm`).
    ///
    /// # Errors
    /// When the platform cannot.
    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError>;

    /// Ends a mapping.
    fn unregister(&self, at: DeviceAddr, host: NonNull<u8>, bytes: u64);

    /// Copies host bytes to the device (transport `Copy`).
    ///
    /// # Errors
    /// When the link fails or the range is not the device's.
    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError>;

    /// Copies device bytes to the host (transport `Copy`).
    ///
    /// # Errors
    /// When the link fails or the range is not the device's.
    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError>;
}
