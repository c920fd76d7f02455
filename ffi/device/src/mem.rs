//! The one string function that the collectors need, made of what the archive may import.

use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn memchr(from: *const c_void, byte: c_int, len: usize) -> *const c_void;
}

/// What `core` measures a C string with. `archive.sh` makes it local, so that the archive needs `mem*` and no `str*`.
///
/// # Safety
/// `text` is a NUL-terminated string.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const c_char) -> usize {
    // SAFETY: there is a NUL; memchr reads no further than to what it looks for.
    let end = unsafe { memchr(text.cast(), 0, usize::MAX) };
    end.addr() - text.addr()
}
