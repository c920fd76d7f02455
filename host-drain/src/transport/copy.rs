//! Device memory behind copy calls: the host never holds a pointer into it, by construction.

use super::{Block, Blocks, Transport, TransportError, aligned};
use crate::memory::DeviceMemory;
use dfx_collector::abi::DeviceAddr;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes that [`zero`](Transport::zero) writes at once.
const ZEROES: usize = 64 << 10;

/// Transport over copies of ranges.
pub struct Copy {
    memory: Arc<dyn DeviceMemory>,
    blocks: RwLock<Blocks<()>>,
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copy").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Copy {
    /// A transport without blocks.
    pub fn new(memory: Arc<dyn DeviceMemory>) -> Self {
        Copy { memory, blocks: RwLock::new(Blocks(Vec::new())) }
    }

    fn owned(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner).find(at, bytes).map(drop)
    }
}

impl Transport for Copy {
    fn add_block(&self, bytes: u64) -> Result<DeviceAddr, TransportError> {
        let at = self.memory.alloc(bytes)?;
        self.blocks.write().unwrap_or_else(PoisonError::into_inner).insert(Block { at, bytes, host: () });
        Ok(at)
    }

    fn release(&self) {
        for block in self.blocks.write().unwrap_or_else(PoisonError::into_inner).0.drain(..) {
            self.memory.free(block.at, block.bytes);
        }
    }

    fn load_u32(&self, at: DeviceAddr) -> Result<u32, TransportError> {
        aligned(at, 4)?;
        let mut word = [0; 4];
        self.fetch(at, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn load_u64(&self, at: DeviceAddr) -> Result<u64, TransportError> {
        aligned(at, 8)?;
        let mut word = [0; 8];
        self.fetch(at, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn store_u32(&self, at: DeviceAddr, value: u32) -> Result<(), TransportError> {
        aligned(at, 4)?;
        self.owned(at, 4)?;
        Ok(self.memory.copy_to(at, &value.to_le_bytes())?)
    }

    fn store_u64(&self, at: DeviceAddr, value: u64) -> Result<(), TransportError> {
        aligned(at, 8)?;
        self.owned(at, 8)?;
        Ok(self.memory.copy_to(at, &value.to_le_bytes())?)
    }

    fn load_words(&self, at: DeviceAddr, into: &mut [u32]) -> Result<(), TransportError> {
        aligned(at, 4)?;
        let mut bytes = [0; 64];
        for (i, words) in into.chunks_mut(16).enumerate() {
            let bytes = &mut bytes[..4 * words.len()];
            self.fetch(at.offset(64 * i as u64), bytes)?;
            for (word, raw) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
            }
        }
        Ok(())
    }

    fn fetch(&self, at: DeviceAddr, into: &mut [u8]) -> Result<(), TransportError> {
        self.owned(at, into.len() as u64)?;
        Ok(self.memory.copy_from(into, at)?)
    }

    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.owned(at, bytes)?;
        let zeroes = [0; ZEROES];
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(ZEROES as u64);
            self.memory.copy_to(at.offset(done), &zeroes[..part as usize])?;
            done += part;
        }
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.release();
    }
}
