//! Where a producer may be made to wait: the freeze of policy `global`. Nothing else of the engine knows of it.
//!
//! The device raises `contended` when it finds no room. Under `global` the host answers with a freeze: all lanes park at
//! their next publication (or pop), the host empties every ready queue, refills every free queue, and lets go. Under the
//! other policies `contended` only says that somebody is hungry, and is cleared.

use crate::config::Backpressure;
use crate::transport::{Transport, TransportError};
use dfx_collector::abi::{BackpressureHeader, DeviceAddr};
use std::mem::offset_of;

/// The freeze of one region.
#[derive(Debug)]
pub struct Gate {
    policy: Backpressure,
    at: DeviceAddr,
    open: bool,
    /// How often it was opened.
    pub freezes: u64,
}

/// The device's words as the host last read them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contended {
    /// A ready queue was full.
    pub ready: bool,
    /// A free queue was empty.
    pub free: bool,
}

impl Gate {
    /// The gate over the backpressure words at `at`.
    pub fn new(policy: Backpressure, at: DeviceAddr) -> Self {
        Gate { policy, at, open: false, freezes: 0 }
    }

    /// Whether lanes are frozen.
    pub fn frozen(&self) -> bool {
        self.open
    }

    fn word(&self, offset: usize) -> DeviceAddr {
        self.at.offset(offset as u64)
    }

    /// Takes note of what the device raised.
    ///
    /// # Errors
    /// When the transport fails; the flags are looked at again with the next step.
    pub fn step(&mut self, transport: &dyn Transport, contended: Contended) -> Result<(), TransportError> {
        if !contended.ready && !contended.free {
            return Ok(());
        }
        if self.policy == Backpressure::Global && !self.open {
            // The freeze before the clearing of `contended`: a waiting device never sees both zero.
            transport.store_u32(self.word(offset_of!(BackpressureHeader, rq_freeze_active)), 1)?;
            transport.store_u32(self.word(offset_of!(BackpressureHeader, fq_freeze_active)), 1)?;
            self.open = true;
            self.freezes += 1;
        }
        if contended.ready {
            transport.store_u32(self.word(offset_of!(BackpressureHeader, rq_contended)), 0)?;
        }
        if contended.free {
            transport.store_u32(self.word(offset_of!(BackpressureHeader, fq_contended)), 0)?;
        }
        Ok(())
    }

    /// Lets all lanes go on.
    ///
    /// # Errors
    /// When the transport fails; it is tried again with the next step.
    pub fn release(&mut self, transport: &dyn Transport) -> Result<(), TransportError> {
        if self.open {
            transport.store_u32(self.word(offset_of!(BackpressureHeader, rq_freeze_active)), 0)?;
            transport.store_u32(self.word(offset_of!(BackpressureHeader, fq_freeze_active)), 0)?;
            self.open = false;
        }
        Ok(())
    }
}
