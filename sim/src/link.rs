//! The link between device and host, as far as a simulator has one: dumped payload takes time to cross it.

use dfx_collector::abi::DeviceAddr;
use dfx_host_drain::transport::{SpillError, Transport, TransportError};
use dfx_host_drain::{ConfigError, DumpBudget};
use std::fs::File;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::drive::ClockKind;
use crate::faults::host::Sleep;

/// What the link carries on the virtual clock unless something else is asked for, in bytes per second.
pub const VIRTUAL_RATE: u64 = 2_000_000_000;

/// How fast the link from device to host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkRate {
    /// On real threads as fast as the machine goes, on the virtual clock [`VIRTUAL_RATE`].
    #[default]
    Auto,
    /// So many bytes per second.
    Rate(u64),
    /// It takes no time.
    Unlimited,
}

impl FromStr for LinkRate {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.parse() {
            Ok(DumpBudget::Auto) => Ok(LinkRate::Auto),
            Ok(DumpBudget::Rate(rate)) => Ok(LinkRate::Rate(rate)),
            Ok(DumpBudget::Unlimited) => Ok(LinkRate::Unlimited),
            Err(error) => Err(ConfigError::new("link_rate", text, error.expected)),
        }
    }
}

impl LinkRate {
    /// Bytes per second, if there is a limit.
    pub fn limit(self, clock: ClockKind) -> Option<u64> {
        match (self, clock) {
            (LinkRate::Rate(rate), _) => Some(rate),
            (LinkRate::Auto, ClockKind::Virtual) => Some(VIRTUAL_RATE),
            (LinkRate::Auto, ClockKind::Threads) | (LinkRate::Unlimited, _) => None,
        }
    }
}

/// A transport whose payload crosses a link.
pub(crate) struct Linked {
    inner: Arc<dyn Transport>,
    /// Bytes per second.
    rate: Option<u64>,
    sleep: Sleep,
}

impl Linked {
    /// `inner` over a link of `rate` bytes per second; time passes by `sleep`.
    pub(crate) fn new(inner: Arc<dyn Transport>, rate: Option<u64>, sleep: Sleep) -> Self {
        Linked { inner, rate, sleep }
    }
}

impl Transport for Linked {
    fn spill(
        &self,
        at: DeviceAddr,
        bytes: u64,
        block: &mut Vec<u8>,
        file: &File,
        place: u64,
    ) -> Result<(), SpillError> {
        self.inner.spill(at, bytes, block, file, place)?;
        if let Some(rate) = self.rate {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            (self.sleep)(Duration::from_nanos(nanos.min(u128::from(u64::MAX)) as u64));
        }
        Ok(())
    }
    fn add_block(&self, bytes: u64) -> Result<DeviceAddr, TransportError> {
        self.inner.add_block(bytes)
    }
    fn release(&self) {
        self.inner.release();
    }
    fn load_u32(&self, at: DeviceAddr) -> Result<u32, TransportError> {
        self.inner.load_u32(at)
    }
    fn load_u64(&self, at: DeviceAddr) -> Result<u64, TransportError> {
        self.inner.load_u64(at)
    }
    fn store_u32(&self, at: DeviceAddr, value: u32) -> Result<(), TransportError> {
        self.inner.store_u32(at, value)
    }
    fn store_u64(&self, at: DeviceAddr, value: u64) -> Result<(), TransportError> {
        self.inner.store_u64(at, value)
    }
    fn load_words(&self, at: DeviceAddr, into: &mut [u32]) -> Result<(), TransportError> {
        self.inner.load_words(at, into)
    }
    fn fetch(&self, at: DeviceAddr, into: &mut [u8]) -> Result<(), TransportError> {
        self.inner.fetch(at, into)
    }
    fn zero(&self, at: DeviceAddr, bytes: u64) -> Result<(), TransportError> {
        self.inner.zero(at, bytes)
    }
}
