//! Device memory mapped into the host. The only place on the host that turns a device address into a pointer.

use super::{Block, Blocks, SpillError, Transport, TransportError, aligned};
use crate::memory::{DeviceMemory, MemoryError};
use dfx_collector::abi::DeviceAddr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What a mapping's start must be a multiple of, in bytes: a cache line, and with it every word that is reached atomically.
const ALIGN: usize = 64;

/// Where a block is mapped.
#[derive(Clone, Copy, Debug)]
struct Mapped(NonNull<u8>);

// SAFETY: `DeviceMemory::register` promises a pointer that any thread may use.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// Transport over mapped memory.
pub struct Svm {
    memory: Arc<dyn DeviceMemory>,
    blocks: RwLock<Blocks<Mapped>>,
}

impl std::fmt::Debug for Svm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Svm").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Svm {
    /// A transport without blocks.
    pub fn new(memory: Arc<dyn DeviceMemory>) -> Self {
        Svm { memory, blocks: RwLock::new(Blocks(Vec::new())) }
    }

    /// Runs `access` on the host pointer of a range. The lock is held meanwhile, so that no mapping ends under it.
    fn with<R>(
        &self,
        at: DeviceAddr,
        bytes: u64,
        access: impl FnOnce(*mut u8) -> R,
    ) -> Result<R, TransportError> {
        let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
        let block = blocks.find(at, bytes)?;
        // SAFETY: the range lies in the block, which is mapped at `host` for its whole length.
        let host = unsafe { block.host.0.as_ptr().add((at.0 - block.at.0) as usize) };
        Ok(access(host))
    }

    fn with_u32<R>(&self, at: DeviceAddr, access: impl FnOnce(&AtomicU32) -> R) -> Result<R, TransportError> {
        aligned(at, 4)?;
        // SAFETY: mapped and aligned; the device reaches this word through atomics too.
        self.with(at, 4, |host| access(unsafe { AtomicU32::from_ptr(host.cast()) }))
    }

    fn with_u64<R>(&self, at: DeviceAddr, access: impl FnOnce(&AtomicU64) -> R) -> Result<R, TransportError> {
        aligned(at, 8)?;
        // SAFETY: mapped and aligned; the device reaches this word through atomics too.
        self.with(at, 8, |host| access(unsafe { AtomicU64::from_ptr(host.cast()) }))
    }
}

impl Transport for Svm {
    fn add_block(&self, bytes: u64) -> Result<DeviceAddr, TransportError> {
        let at = self.memory.alloc(bytes)?;
        let host = self.memory.register(at, bytes).inspect_err(|_| self.memory.free(at, bytes))?;
        if !host.addr().get().is_multiple_of(ALIGN) {
            self.memory.unregister(at, host, bytes);
            self.memory.free(at, bytes);
            let why = format!("its host pointer, {host:p}, is not a multiple of {ALIGN} bytes");
            return Err(MemoryError { what: "a registration", at, bytes, why }.into());
        }
        let block = Block { at, bytes, host: Mapped(host) };
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).insert(block);
        Ok(at)
    }

    fn release(&self) {
        for block in self.blocks.write().unwrap_or_else(PoisonError::into_inner).0.drain(..) {
            self.memory.unregister(block.at, block.host.0, block.bytes);
            self.memory.free(block.at, block.bytes);
        }
    }

    fn load_u32(&self, at: DeviceAddr) -> Result<u32, TransportError> {
        self.with_u32(at, |word| word.load(Ordering::Acquire))
    }

    fn load_u64(&self, at: DeviceAddr) -> Result<u64, TransportError> {
        self.with_u64(at, |word| word.load(Ordering::Acquire))
    }

    fn store_u32(&self, at: DeviceAddr, value: u32) -> Result<(), TransportError> {
        self.with_u32(at, |word| word.store(value, Ordering::Release))
    }

    fn store_u64(&self, at: DeviceAddr, value: u64) -> Result<(), TransportError> {
        self.with_u64(at, |word| word.store(value, Ordering::Release))
    }

    fn load_words(&self, at: DeviceAddr, into: &mut [u32]) -> Result<(), TransportError> {
        for (i, word) in into.iter_mut().enumerate() {
            *word = self.load_u32(at.offset(4 * i as u64))?;
        }
        Ok(())
    }

    fn fetch(&self, at: DeviceAddr, into: &mut [u8]) -> Result<(), TransportError> {
        self.with(at, into.len() as u64, |host| {
            // SAFETY: the range is mapped, and its writer has handed it over (the trait's contract): nobody writes it
            // now. A device that does all the same gives a torn copy of plain bytes, which the decoder checks.
            unsafe { std::ptr::copy_nonoverlapping(host, into.as_mut_ptr(), into.len()) }
        })
    }

    fn spill(
        &self,
        at: DeviceAddr,
        bytes: u64,
        _block: &mut Vec<u8>,
        file: &File,
        place: u64,
    ) -> Result<(), SpillError> {
        let wrote: io::Result<()> = self.with(at, bytes, |host| {
            let mut done = 0;
            while done < bytes {
                // SAFETY: `done` is less than the range's length.
                let from = unsafe { host.add(done as usize) };
                // SAFETY: the descriptor is open, and the rest of the range is mapped while the lock is held. Only the
                // kernel reads it, through the pointer: there is no reference to memory that a device may write.
                let wrote = unsafe {
                    libc::pwrite(
                        file.as_raw_fd(),
                        from.cast(),
                        (bytes - done) as usize,
                        (place + done) as libc::off_t,
                    )
                };
                match u64::try_from(wrote) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(wrote) => done += wrote,
                    Err(_) => match io::Error::last_os_error() {
                        error if error.kind() == io::ErrorKind::Interrupted => {}
                        error => return Err(error),
                    },
                }
            }
            Ok(())
        })?;
        Ok(wrote?)
    }

    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.with(at, bytes, |host| {
            // SAFETY: the range is mapped and the host's own.
            unsafe { std::ptr::write_bytes(host, 0, bytes as usize) }
        })
    }
}

impl Drop for Svm {
    fn drop(&mut self) {
        self.release();
    }
}
