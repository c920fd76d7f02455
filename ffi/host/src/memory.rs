//! The platform's memory behind callbacks.
//!
//! The engine wants blocks that start at a multiple of 256 bytes; a caller's allocator may give less (a simulator's
//! `malloc`). Such a block is given back and asked for with room to spare, and callbacks always see what they gave.

use crate::status::{Failure, check_reserved, check_size};
use dfx_collector::abi::DeviceAddr;
use dfx_host_drain::TransportKind;
use dfx_host_drain::memory::{DeviceMemory, MemoryError};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Allocates `bytes` of device memory and returns its device address, or 0 if there is none. The content does not matter;
/// an alignment of 256 bytes saves a second call.
pub type dfx_alloc_f = Option<unsafe extern "C" fn(ctx: *mut c_void, bytes: u64) -> u64>;
/// Gives back what was allocated at `addr`.
pub type dfx_free_f = Option<unsafe extern "C" fn(ctx: *mut c_void, addr: u64, bytes: u64)>;
/// Maps an allocation into the host: returns a pointer through which any thread may read and write all of it until it is
/// unregistered, or null if that cannot be. Pointer and address must differ by a multiple of 64 bytes: a session whose
/// mappings do not is refused.
pub type dfx_register_f =
    Option<unsafe extern "C" fn(ctx: *mut c_void, addr: u64, bytes: u64) -> *mut c_void>;
/// Ends such a mapping, before the allocation is given back.
pub type dfx_unregister_f =
    Option<unsafe extern "C" fn(ctx: *mut c_void, addr: u64, host: *mut c_void, bytes: u64)>;
/// Copies `bytes` from the host to device address `to`. Returns 0, or a code of the caller's that is shown to a person.
pub type dfx_copy_to_f =
    Option<unsafe extern "C" fn(ctx: *mut c_void, to: u64, from: *const c_void, bytes: u64) -> i32>;
/// Copies `bytes` from device address `from` to the host. Returns 0, or a code of the caller's that is shown to a person.
pub type dfx_copy_from_f =
    Option<unsafe extern "C" fn(ctx: *mut c_void, to: *mut c_void, from: u64, bytes: u64) -> i32>;

/// How the host reaches device memory.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_transport_e {
    /// As the platform does: mapped on a2a3, copies on a5.
    DFX_TRANSPORT_DEFAULT = 0,
    /// Device memory is mapped into the host. Without `register_host` the device address is the host's pointer.
    DFX_TRANSPORT_MAPPED = 1,
    /// The host may only copy ranges, with `copy_to_device` and `copy_from_device`.
    DFX_TRANSPORT_COPY = 2,
}

/// What the platform can do. The struct is read during the call only; `ctx` and the functions are used until the session
/// is released or destroyed, by whichever thread calls the library and by the session's own threads, several at a time.
///
/// A function must not throw, must not call a function of this library on the same session, and copies must move aligned
/// 4- and 8-byte words whole.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfx_memory_t {
    /// `sizeof(dfx_memory_t)`.
    pub size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Handed to each function; the caller's.
    pub ctx: *mut c_void,
    /// Must be there.
    pub alloc: dfx_alloc_f,
    /// Must be there.
    pub free: dfx_free_f,
    /// For `DFX_TRANSPORT_MAPPED`; may be null, see there.
    pub register_host: dfx_register_f,
    /// For `DFX_TRANSPORT_MAPPED`; may be null: a mapping is then left to `free`.
    pub unregister_host: dfx_unregister_f,
    /// Must be there for `DFX_TRANSPORT_COPY`.
    pub copy_to_device: dfx_copy_to_f,
    /// Must be there for `DFX_TRANSPORT_COPY`.
    pub copy_from_device: dfx_copy_from_f,
}

/// What the engine needs of a block's start.
const ALIGN: u64 = 256;

/// An allocation of the caller's that does not start where the engine was told.
#[derive(Clone, Copy)]
struct Padded {
    at: u64,
    bytes: u64,
}

/// The caller's functions as the engine's memory.
pub(crate) struct Callbacks {
    given: dfx_memory_t,
    padded: Mutex<BTreeMap<u64, Padded>>,
}

// SAFETY: the caller promises that `ctx` and the functions may be used by several threads (`dfx_memory_t`).
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    /// Checks that everything is there that `transport` takes.
    ///
    /// # Safety
    /// `memory` is null or points to a `dfx_memory_t` that keeps its own promises.
    pub(crate) unsafe fn read(
        memory: *const dfx_memory_t,
        transport: TransportKind,
    ) -> Result<Callbacks, Failure> {
        // SAFETY: the caller's contract.
        let given = *unsafe { memory.as_ref() }.ok_or_else(|| Failure::null("memory"))?;
        check_size::<dfx_memory_t>("memory", given.size)?;
        check_reserved("memory.reserved", given.reserved)?;
        let copies = transport == TransportKind::Copy;
        for (name, missing) in [
            ("memory.alloc", given.alloc.is_none()),
            ("memory.free", given.free.is_none()),
            ("memory.copy_to_device", copies && given.copy_to_device.is_none()),
            ("memory.copy_from_device", copies && given.copy_from_device.is_none()),
        ] {
            if missing {
                return Err(Failure::null(name));
            }
        }
        Ok(Callbacks { given, padded: Mutex::new(BTreeMap::new()) })
    }

    fn padded(&self) -> MutexGuard<'_, BTreeMap<u64, Padded>> {
        self.padded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the caller gave where the engine has `bytes` at `at`.
    fn raw(&self, at: u64, bytes: u64) -> Padded {
        self.padded().get(&at).copied().unwrap_or(Padded { at, bytes })
    }

    /// An address, of which `bytes` are there.
    fn ask(&self, bytes: u64) -> Result<u64, MemoryError> {
        // SAFETY: the caller's function, as `dfx_memory_t` describes it.
        let at = self.given.alloc.map_or(0, |alloc| unsafe { alloc(self.given.ctx, bytes) });
        let why = if at == 0 {
            "the alloc callback returned 0".into()
        } else if at.checked_add(bytes).is_none() {
            // `MAP_FAILED`, likely.
            format!("the alloc callback returned {at:#x}, which is no place for them")
        } else {
            return Ok(at);
        };
        Err(refused("an allocation", DeviceAddr::NULL, bytes, why))
    }

    fn give_back(&self, at: u64, bytes: u64) {
        if let Some(free) = self.given.free {
            // SAFETY: the caller's function, of what its `alloc` gave.
            unsafe { free(self.given.ctx, at, bytes) }
        }
    }
}

fn refused(what: &'static str, at: DeviceAddr, bytes: u64, why: impl Into<String>) -> MemoryError {
    MemoryError { what, at, bytes, why: why.into() }
}

// SAFETY: `alloc` hands out what the caller's function gave, or an aligned part of it; the other promises are the
// caller's, asked for at `dfx_memory_t` and at the types of its functions.
unsafe impl DeviceMemory for Callbacks {
    fn alloc(&self, bytes: u64) -> Result<DeviceAddr, MemoryError> {
        let at = self.ask(bytes)?;
        if at.is_multiple_of(ALIGN) {
            return Ok(DeviceAddr(at));
        }
        self.give_back(at, bytes);
        let more = bytes.saturating_add(ALIGN);
        let at = self.ask(more)?;
        // Before the end of what was given, which `ask` has looked at.
        let aligned = at.next_multiple_of(ALIGN);
        self.padded().insert(aligned, Padded { at, bytes: more });
        Ok(DeviceAddr(aligned))
    }

    fn free(&self, at: DeviceAddr, bytes: u64) {
        let Padded { at, bytes } = self.padded().remove(&at.0).unwrap_or(Padded { at: at.0, bytes });
        self.give_back(at, bytes);
    }

    fn register(&self, at: DeviceAddr, bytes: u64) -> Result<NonNull<u8>, MemoryError> {
        let Some(register) = self.given.register_host else {
            let host = std::ptr::with_exposed_provenance_mut(at.0 as usize);
            return NonNull::new(host).ok_or_else(|| refused("a registration", at, bytes, "it is at 0"));
        };
        let raw = self.raw(at.0, bytes);
        // SAFETY: the caller's function, of what its `alloc` gave.
        let host = unsafe { register(self.given.ctx, raw.at, raw.bytes) };
        NonNull::new(host.cast::<u8>())
            .map(|host| {
                // SAFETY: the engine's part lies in the mapped allocation.
                unsafe { host.add((at.0 - raw.at) as usize) }
            })
            .ok_or_else(|| refused("a registration", at, bytes, "the register_host callback returned null"))
    }

    fn unregister(&self, at: DeviceAddr, host: NonNull<u8>, bytes: u64) {
        if let (Some(_), Some(unregister)) = (self.given.register_host, self.given.unregister_host) {
            let raw = self.raw(at.0, bytes);
            // SAFETY: back to where `register` said that the allocation is mapped.
            let host = unsafe { host.as_ptr().sub((at.0 - raw.at) as usize) };
            // SAFETY: the caller's function, of what its `register_host` gave.
            unsafe { unregister(self.given.ctx, raw.at, host.cast(), raw.bytes) }
        }
    }

    fn copy_to(&self, to: DeviceAddr, from: &[u8]) -> Result<(), MemoryError> {
        let bytes = from.len() as u64;
        // SAFETY: the caller's function; the host's bytes are valid for the call.
        let copied = |copy: unsafe extern "C" fn(*mut c_void, u64, *const c_void, u64) -> i32| unsafe {
            copy(self.given.ctx, to.0, from.as_ptr().cast(), bytes)
        };
        match self.given.copy_to_device.map(copied) {
            Some(0) => Ok(()),
            Some(code) => {
                Err(refused("a copy to the device", to, bytes, format!("the callback returned {code}")))
            }
            None => Err(refused("a copy to the device", to, bytes, "there is no copy_to_device callback")),
        }
    }

    fn copy_from(&self, to: &mut [u8], from: DeviceAddr) -> Result<(), MemoryError> {
        let bytes = to.len() as u64;
        let host = to.as_mut_ptr().cast();
        // SAFETY: the caller's function; the host's bytes are valid for the call.
        let copied = |copy: unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u64) -> i32| unsafe {
            copy(self.given.ctx, host, from.0, bytes)
        };
        match self.given.copy_from_device.map(copied) {
            Some(0) => Ok(()),
            Some(code) => {
                Err(refused("a copy from the device", from, bytes, format!("the callback returned {code}")))
            }
            None => {
                Err(refused("a copy from the device", from, bytes, "there is no copy_from_device callback"))
            }
        }
    }
}
