//! How a call says that it failed: a code for programs, a message for people. And the wall that no unwinding passes.

use crate::handle::HandleError;
use dfx_host_drain::artifact::{ArtifactError, OutputDirError};
use dfx_host_drain::{ConfigError, ExportError, SessionError};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The version of this C ABI: of every function, struct and number in `dfx.h`. A library of another version must not be
/// used with this header.
pub const DFX_ABI_VERSION: u32 = 1;

/// What a call came to. Everything but `DFX_OK` is an error, and `dfx_last_error` then has its message; the call has had
/// no effect unless its own documentation says so.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum dfx_status_e {
    /// Done.
    DFX_OK = 0,
    /// A pointer is null that must not be.
    DFX_E_NULL = -1,
    /// The handle is not one, or what it stood for was destroyed.
    DFX_E_HANDLE = -2,
    /// A value is not accepted; the message names it and what is.
    DFX_E_INVALID = -3,
    /// An index is beyond the end.
    DFX_E_RANGE = -4,
    /// The call is out of turn, or made twice.
    DFX_E_ORDER = -5,
    /// Another call on the same handle is under way.
    DFX_E_BUSY = -6,
    /// The caller's buffer is too small; the needed size was returned.
    DFX_E_SPACE = -7,
    /// Device memory was refused, or a transfer failed.
    DFX_E_MEMORY = -8,
    /// A thread was refused.
    DFX_E_THREAD = -9,
    /// A file or directory could not be written or read.
    DFX_E_IO = -10,
    /// The library's version, or the `size` of a struct, is not this header's.
    DFX_E_ABI = -11,
    /// A defect of this library was stopped at its boundary. The handle may be destroyed, and nothing else.
    DFX_E_PANIC = -12,
}

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    code: dfx_status_e,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: dfx_status_e, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn null(what: &str) -> Self {
        Failure::new(dfx_status_e::DFX_E_NULL, format!("{what} is null"))
    }

    pub(crate) fn invalid(field: &'static str, value: impl std::fmt::Display, expected: &str) -> Self {
        ConfigError::new(field, value, expected).into()
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::new(dfx_status_e::DFX_E_INVALID, error.to_string())
    }
}

impl From<HandleError> for Failure {
    fn from(error: HandleError) -> Self {
        let code = match error {
            HandleError::Unknown(_) => dfx_status_e::DFX_E_HANDLE,
            HandleError::Null(_) => dfx_status_e::DFX_E_NULL,
            HandleError::Busy(_) => dfx_status_e::DFX_E_BUSY,
            HandleError::Full(_) => dfx_status_e::DFX_E_MEMORY,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let code = match &error {
            SessionError::Config(_) => dfx_status_e::DFX_E_INVALID,
            SessionError::Memory(_) => dfx_status_e::DFX_E_MEMORY,
            SessionError::Threads(_) => dfx_status_e::DFX_E_THREAD,
            SessionError::Order { .. } => dfx_status_e::DFX_E_ORDER,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<ArtifactError> for Failure {
    fn from(error: ArtifactError) -> Self {
        Failure::new(dfx_status_e::DFX_E_IO, error.to_string())
    }
}

impl From<OutputDirError> for Failure {
    fn from(error: OutputDirError) -> Self {
        Failure::new(dfx_status_e::DFX_E_IO, error.to_string())
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Session(error) => error.into(),
            other => Failure::new(dfx_status_e::DFX_E_IO, other.to_string()),
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(message: String) {
    let text = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
    // Fails only while the thread is being torn down, when nobody can ask any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// Runs the body of an exported function: an error becomes a code and a message, and so does a panic.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> dfx_status_e {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => dfx_status_e::DFX_OK,
        Ok(Err(Failure { code, message })) => {
            remember(message);
            code
        }
        Err(panic) => {
            let what = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            remember(format!("a defect in libdfx, please report it: {what}"));
            dfx_status_e::DFX_E_PANIC
        }
    }
}

/// Fails unless a caller's struct says the size that it has in this library.
pub(crate) fn check_size<T>(what: &str, size: u32) -> Result<(), Failure> {
    if size as usize == size_of::<T>() {
        return Ok(());
    }
    let message =
        format!("{what}.size is {size}, expected sizeof, {}: set it before the call", size_of::<T>());
    Err(Failure::new(dfx_status_e::DFX_E_ABI, message))
}

/// Fails unless a field that is kept for later is 0: else it could never be given a meaning.
pub(crate) fn check_reserved(field: &'static str, reserved: u32) -> Result<(), Failure> {
    if reserved == 0 { Ok(()) } else { Err(Failure::invalid(field, reserved, "0")) }
}

/// Writes `value` where the caller wants it.
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, what: &str, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: not null, and the caller's contract.
    unsafe { out.write(value) };
    Ok(())
}

/// The version of the library, to be compared with `DFX_ABI_VERSION` of the header. Any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_abi_version() -> u32 {
    DFX_ABI_VERSION
}

/// `dfx_abi_check(DFX_ABI_VERSION)` before anything else says whether header and library fit. Any thread, any time.
///
/// Errors: `DFX_E_ABI`.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_abi_check(header_version: u32) -> dfx_status_e {
    guard(|| {
        if header_version == DFX_ABI_VERSION {
            return Ok(());
        }
        let message = format!(
            "the program was built with dfx.h of version {header_version}, but this libdfx is of version {DFX_ABI_VERSION}: \
             build it with the header that came with the library"
        );
        Err(Failure::new(dfx_status_e::DFX_E_ABI, message))
    })
}

/// The message of the last call on this thread that failed; empty if none has. In UTF-8, owned by the library, valid until
/// the next call on this thread fails. Never null. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dfx_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: a string that this thread owns and does not change meanwhile.
        unsafe { CStr::from_ptr(dfx_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_ends_at_the_boundary_with_its_message() {
        assert_eq!(guard(|| panic!("the {} broke", "spring")), dfx_status_e::DFX_E_PANIC);
        assert!(message().contains("the spring broke"));
    }

    #[test]
    fn a_message_belongs_to_the_thread_whose_call_failed() {
        assert_eq!(dfx_abi_check(DFX_ABI_VERSION + 1), dfx_status_e::DFX_E_ABI);
        assert!(message().contains("dfx.h"));
        std::thread::spawn(|| assert_eq!(message(), "")).join().unwrap();
        assert_eq!(dfx_abi_check(DFX_ABI_VERSION), dfx_status_e::DFX_OK);
        assert!(message().contains("dfx.h"), "a call that succeeds leaves it");
    }
}
