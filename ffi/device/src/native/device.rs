//! What all features share: versions, errors, the clock.
#![allow(non_camel_case_types)] // the names are C's

use crate::clock;
use core::ffi::c_char;
use dfx_collector::abi::Platform;
use dfx_collector::clock::Clock;

/// The version of the device half of this interface. It grows when a function is added: a program that was built against an
/// older one goes on working. The structures that it takes do not grow.
pub const DFX_DEVICE_ABI_VERSION: u32 = 1;

/// What an init function says.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_device_status_e {
    /// It records from now on (unless its level or its switch is off).
    DFX_DEVICE_OK = 0,
    /// The base address is 0.
    DFX_DEVICE_NO_REGION = -1,
    /// What lies at the base address is not a region of this feature.
    DFX_DEVICE_NOT_A_REGION = -2,
    /// More cores or threads than the region or the platform has, or none.
    DFX_DEVICE_TOO_MANY = -3,
    /// The level in the region's header does not exist.
    DFX_DEVICE_BAD_LEVEL = -4,
    /// There is no clock: call `dfx_device_set_clock` or `dfx_device_set_built_in_clock` first; or, from the latter, the
    /// processor does not say how fast its counter runs.
    DFX_DEVICE_NO_CLOCK = -5,
    /// A pointer is null that must not be.
    DFX_DEVICE_BAD_ARGUMENT = -6,
}

/// A counter, in ticks of the platform: 50 MHz on a2a3, 1 GHz on a5. It may wrap.
pub type dfx_counter_f = Option<unsafe extern "C" fn() -> u64>;

/// What a waiting recorder calls between two looks at shared memory. May return at once.
pub type dfx_relax_f = Option<unsafe extern "C" fn()>;

/// The version of the library's device half. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_device_abi_version() -> u32 {
    DFX_DEVICE_ABI_VERSION
}

/// Whether a program that was built against `version` (`DFX_DEVICE_ABI_VERSION`) for `platform` (0 is a2a3, 1 is a5) can use
/// this library. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_device_abi_check(version: u32, platform: u32) -> bool {
    version != 0 && version <= DFX_DEVICE_ABI_VERSION && platform == dfx_device_platform()
}

/// The platform that the library was built for: 0 is a2a3, 1 is a5. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_device_platform() -> u32 {
    match crate::state::GEOMETRY.platform {
        Platform::A2a3 => 0,
        Platform::A5 => 1,
    }
}

/// What a status means, in English. Never null; the string lives as long as the library. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_device_message(status: i32) -> *const c_char {
    let message = match status {
        0 => c"ok",
        -1 => c"no region: the base address is 0",
        -2 => c"not a region of this feature",
        -3 => c"more cores or threads than the region or the platform has, or none",
        -4 => c"the level in the region's header does not exist",
        -5 => c"no clock: set a counter, or say how fast the processor's runs",
        -6 => c"a pointer is null that must not be",
        _ => c"no such status",
    };
    message.as_ptr()
}

/// Sets the counter by which waits are bounded, in ticks of the platform, and what a wait calls between two looks (null: a
/// spin hint). Both are called from any thread that records. A null counter: none, and nothing can be initialised.
///
/// Before any init, while nothing records.
///
/// # Safety
/// The functions may be called for as long as anything records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_device_set_clock(counter: dfx_counter_f, relax: dfx_relax_f) {
    clock::set(counter, relax);
}

/// Takes the processor's own counter (`CNTVCT_EL0`; the time stamp counter on x86-64), scaled to ticks of the platform. `hz`
/// is its rate; 0: as the processor says. `DFX_DEVICE_NO_CLOCK` when it does not say, as many x86-64 do not.
///
/// Before any init, while nothing records.
///
/// # Safety
/// `relax` is null or may be called for as long as anything records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dfx_device_set_built_in_clock(hz: u64, relax: dfx_relax_f) -> dfx_device_status_e {
    match clock::set_built_in(hz, relax) {
        true => dfx_device_status_e::DFX_DEVICE_OK,
        false => dfx_device_status_e::DFX_DEVICE_NO_CLOCK,
    }
}

/// The clock that was set, in ticks of the platform; 0 when none was. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_device_ticks() -> u64 {
    clock::DeviceClock.now()
}
