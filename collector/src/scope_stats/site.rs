//! Where a scope stands in the source.

use crate::abi::scope_stats::SITE_BYTES;
use core::ffi::{CStr, c_char};
use core::ptr;

/// A file's name without its folders, NUL-terminated and NUL-filled, and a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Site {
    pub(super) file: [u8; SITE_BYTES],
    pub(super) line: i32,
}

impl Site {
    /// Of a scope that said nothing.
    pub(super) const UNKNOWN: Site = {
        let (name, mut file, mut i) = (b"(unknown)", [0; SITE_BYTES], 0);
        while i < name.len() {
            file[i] = name[i];
            i += 1;
        }
        Site { file, line: 0 }
    };

    /// What follows the last `/` or `\` of `path`, cut at 31 bytes, whatever the bytes are; a null path is unknown.
    ///
    /// # Safety
    /// `path` is null or points to a NUL-terminated string.
    pub(super) unsafe fn of(path: *const u8, line: i32) -> Site {
        if path.is_null() {
            return Site { line, ..Site::UNKNOWN };
        }
        // SAFETY: the caller's contract.
        let path = unsafe { CStr::from_ptr(path.cast::<c_char>()) }.to_bytes();
        let mut site = Site { file: [0; SITE_BYTES], line };
        // From the end, word by word: folders are long and many, names are short.
        let mut name = path.len();
        while let Some(start) = name.checked_sub(8) {
            // SAFETY: eight bytes lie in front of `name`.
            let word = unsafe { path.as_ptr().add(start).cast::<[u8; 8]>().read() };
            if has_separator(u64::from_le_bytes(word)) {
                break;
            }
            name = start;
        }
        while let Some(before) = name.checked_sub(1)
            && !matches!(path.get(before), Some(b'/' | b'\\'))
        {
            name = before;
        }
        let len = (path.len() - name).min(SITE_BYTES - 1);
        // SAFETY: `len` bytes lie behind `name`, and fit with a NUL.
        unsafe { ptr::copy_nonoverlapping(path.as_ptr().add(name), site.file.as_mut_ptr(), len) };
        site
    }
}

/// Whether a byte of `word` is `/` or `\`.
const fn has_separator(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    // A byte of the difference is 0 where the word holds the separator, and only a 0 borrows: if there is none, no byte
    // that lacks the high bit gets it.
    let (slash, back) = (word ^ (ONES * b'/' as u64), word ^ (ONES * b'\\' as u64));
    (slash.wrapping_sub(ONES) & !slash | back.wrapping_sub(ONES) & !back) & HIGHS != 0
}
