//! The one way to shared words.
//!
//! Every atomic of the engine is reached through this module: the ABI structs use the types re-exported here, and the
//! engine is written against [`Word`], so that a model (loom's atomics) can take the place of real memory without a
//! second copy of the protocol.

pub use core::sync::atomic::{AtomicI8, AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A shared word of type `T` that the engine may load and store.
pub trait Word<T> {
    /// Loads the word.
    fn load(&self, order: Ordering) -> T;
    /// Stores `value` in the word.
    fn store(&self, value: T, order: Ordering);
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order)
            }
        }
    };
}
word!(AtomicU32, u32);
word!(AtomicU64, u64);
