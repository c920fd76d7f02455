//! The peer word: who is on the other side of the shared memory.
//!
//! The first spare word of each region's header. The reference zeroes regions and never touches it, so 0 in a half
//! means "reference" and anything else is our protocol version. The host writes the low half when it makes the region,
//! the device the high half at init; each reads the other's.
//!
//! ```text
//!  31              16 15               0
//! ┌──────────────────┬──────────────────┐
//! │ device's version │  host's version  │
//! └──────────────────┴──────────────────┘
//! ```

/// The protocol version that we speak.
pub const VERSION: u16 = 1;

/// Which implementation a half belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The pinned reference runtime: only what the pinned ABI says holds.
    Reference,
    /// Ours, speaking this protocol version.
    Ours(u16),
}

impl Peer {
    const fn from_half(half: u16) -> Peer {
        if half == 0 { Peer::Reference } else { Peer::Ours(half) }
    }

    /// The host half named by a peer word.
    pub const fn host(word: u32) -> Peer {
        Peer::from_half(word as u16)
    }

    /// The device half named by a peer word.
    pub const fn device(word: u32) -> Peer {
        Peer::from_half((word >> 16) as u16)
    }

    /// Whether this half is ours.
    pub const fn is_ours(self) -> bool {
        matches!(self, Peer::Ours(_))
    }
}

/// The word after our host has made the region.
pub const fn with_host(word: u32) -> u32 {
    (word & 0xFFFF_0000) | VERSION as u32
}

/// The word after our device has initialised on the region.
pub const fn with_device(word: u32) -> u32 {
    (word & 0x0000_FFFF) | ((VERSION as u32) << 16)
}
