//! SHA-256 beside the writing: a small file is hashed in place, a large one by a thread of its own, so that hashing
//! and writing overlap and the file is done when the slower of the two is.

use sha2::{Digest, Sha256};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Blocks hashed in place before a thread is worth it.
const INLINE_BLOCKS: u32 = 8;
/// Blocks on their way to the thread.
const QUEUE_BLOCKS: usize = 8;

/// Hashes blocks in the order in which they are given.
pub(super) enum BlockHasher {
    Inline { hash: Sha256, blocks: u32 },
    Beside { blocks: SyncSender<Vec<u8>>, empty: Receiver<Vec<u8>>, thread: JoinHandle<Sha256> },
}

impl BlockHasher {
    pub(super) fn new() -> Self {
        BlockHasher::Inline { hash: Sha256::new(), blocks: 0 }
    }

    /// Takes `block` in and gives an empty one back.
    pub(super) fn update(&mut self, block: Vec<u8>) -> io::Result<Vec<u8>> {
        if let BlockHasher::Inline { hash, blocks } = self
            && *blocks == INLINE_BLOCKS
        {
            // Without a thread the hash is only slower.
            *self =
                Self::beside(hash.clone()).unwrap_or(BlockHasher::Inline { hash: hash.clone(), blocks: 0 });
        }
        match self {
            BlockHasher::Inline { hash, blocks } => {
                hash.update(&block);
                *blocks += 1;
                Ok(cleared(block))
            }
            BlockHasher::Beside { blocks, empty, .. } => {
                let capacity = block.capacity();
                blocks.send(block).map_err(|_| gone())?;
                Ok(empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(capacity)))
            }
        }
    }

    /// The hash of all blocks.
    pub(super) fn finish(self) -> io::Result<[u8; 32]> {
        let hash = match self {
            BlockHasher::Inline { hash, .. } => hash,
            BlockHasher::Beside { blocks, thread, .. } => {
                drop(blocks);
                thread.join().map_err(|_| gone())?
            }
        };
        Ok(hash.finalize().into())
    }

    fn beside(mut hash: Sha256) -> io::Result<Self> {
        let (blocks, full) = sync_channel::<Vec<u8>>(QUEUE_BLOCKS);
        let (give_back, empty) = sync_channel(QUEUE_BLOCKS);
        let thread = Builder::new().name("dfx-hash".into()).spawn(move || {
            for block in full {
                hash.update(&block);
                // Nobody needs it if this fails: the queue is full or the file is done.
                let _ = give_back.try_send(cleared(block));
            }
            hash
        })?;
        Ok(BlockHasher::Beside { blocks, empty, thread })
    }
}

fn cleared(mut block: Vec<u8>) -> Vec<u8> {
    block.clear();
    block
}

fn gone() -> io::Error {
    io::Error::other("the hashing thread ended early")
}
