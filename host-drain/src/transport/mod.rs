//! How the host reaches device memory: mapped ([`Svm`]) or by copies of ranges ([`struct@Copy`]).
//!
//! A [`DeviceAddr`] is a number and nothing on the host dereferences it. Each transport knows the blocks that the session
//! owns and refuses every address outside them, so a corrupt pointer in shared memory ends as an error here and as a
//! count in the ledger. Words that hand something over are loaded with acquire and stored with release.

mod copy;
mod svm;
#[cfg(test)]
mod tests;

pub use copy::Copy;
pub use svm::Svm;

use crate::memory::MemoryError;
use dfx_collector::abi::DeviceAddr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Alignment of what is copied on its way into a file, in bytes.
const PAGE: usize = 4096;

/// An access that did not happen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransportError {
    /// The range is not inside one of the session's blocks.
    #[error("{bytes} bytes at {at} are not in any block of this session")]
    Foreign {
        /// Where.
        at: DeviceAddr,
        /// How much.
        bytes: u64,
    },
    /// A word that is not aligned.
    #[error("a {bytes}-byte word at {at} is not aligned")]
    Unaligned {
        /// Where.
        at: DeviceAddr,
        /// Its size.
        bytes: u64,
    },
    /// The platform refused.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Why a range did not get from the device into a file.
#[derive(Debug, thiserror::Error)]
pub enum SpillError {
    /// It could not be read.
    #[error(transparent)]
    Device(#[from] TransportError),
    /// It could not be written.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// The host's way to device memory.
pub trait Transport: Send + Sync {
    /// Allocates and makes accessible a block of `bytes`.
    ///
    /// # Errors
    /// When the platform refuses the allocation or the registration; nothing stays behind.
    fn add_block(&self, bytes: u64) -> Result<DeviceAddr, TransportError>;

    /// Gives all blocks back.
    fn release(&self);

    /// Loads a word; what its writer published with it is visible afterwards.
    ///
    /// # Errors
    /// [`TransportError`].
    fn load_u32(&self, at: DeviceAddr) -> Result<u32, TransportError>;

    /// Loads a word, likewise.
    ///
    /// # Errors
    /// [`TransportError`].
    fn load_u64(&self, at: DeviceAddr) -> Result<u64, TransportError>;

    /// Stores a word; everything stored before is visible to whoever loads it.
    ///
    /// # Errors
    /// [`TransportError`].
    fn store_u32(&self, at: DeviceAddr, value: u32) -> Result<(), TransportError>;

    /// Stores a word, likewise.
    ///
    /// # Errors
    /// [`TransportError`].
    fn store_u64(&self, at: DeviceAddr, value: u64) -> Result<(), TransportError>;

    /// Loads consecutive words, each as [`load_u32`](Self::load_u32).
    ///
    /// # Errors
    /// [`TransportError`].
    fn load_words(&self, at: DeviceAddr, into: &mut [u32]) -> Result<(), TransportError>;

    /// Copies a range of device memory that its writer has handed over.
    ///
    /// # Errors
    /// [`TransportError`]; the destination is then unspecified.
    fn fetch(&self, at: DeviceAddr, into: &mut [u8]) -> Result<(), TransportError>;

    /// Writes a range that its writer has handed over into `file` at `place`: from where it lies if the host can reach it
    /// there, else through `block`, which grows as needed.
    ///
    /// # Errors
    /// [`SpillError`]; what is in `block` and in that part of the file is then unspecified.
    fn spill(
        &self,
        at: DeviceAddr,
        bytes: u64,
        block: &mut Vec<u8>,
        file: &File,
        place: u64,
    ) -> Result<(), SpillError> {
        let bytes = bytes as usize;
        if block.len() < bytes + PAGE {
            block.resize(bytes + PAGE, 0);
        }
        // What copies both in and out is a good deal faster between aligned places.
        let skip = block.as_ptr().align_offset(PAGE).min(PAGE);
        let block = &mut block[skip..skip + bytes];
        self.fetch(at, block)?;
        Ok(file.write_all_at(block, place)?)
    }

    /// Zeroes a range that the host owns.
    ///
    /// # Errors
    /// [`TransportError`].
    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError>;
}

/// A block of device memory that the session owns.
#[derive(Clone, std::marker::Copy, Debug)]
struct Block<H> {
    at: DeviceAddr,
    bytes: u64,
    host: H,
}

/// The blocks of a session, ordered by address.
#[derive(Debug)]
struct Blocks<H>(Vec<Block<H>>);

impl<H: std::marker::Copy> Blocks<H> {
    fn insert(&mut self, block: Block<H>) {
        let place = self.0.partition_point(|b| b.at < block.at);
        self.0.insert(place, block);
    }

    /// The block that holds the whole range.
    fn find(&self, at: DeviceAddr, bytes: u64) -> Result<Block<H>, TransportError> {
        let foreign = TransportError::Foreign { at, bytes };
        let end = at.0.checked_add(bytes).ok_or(foreign.clone())?;
        let after = self.0.partition_point(|b| b.at <= at);
        match after.checked_sub(1).map(|i| self.0[i]) {
            Some(block) if end <= block.at.0 + block.bytes => Ok(block),
            _ => Err(foreign),
        }
    }
}

fn aligned(at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
    if at.0.is_multiple_of(bytes) { Ok(()) } else { Err(TransportError::Unaligned { at, bytes }) }
}
