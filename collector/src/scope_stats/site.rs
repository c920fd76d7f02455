//! Where a scope stands in the source.

use crate::abi::scope_stats::SITE_BYTES;
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
        let (mut name, mut at) = (path, path);
        let mut site = Site { file: [0; SITE_BYTES], line };
        // SAFETY: no byte behind the NUL is read (the caller's contract); `name` and `at` are in the same string.
        unsafe {
            loop {
                let byte = at.read();
                if byte == 0 {
                    break;
                }
                at = at.add(1);
                if byte == b'/' || byte == b'\\' {
                    name = at;
                }
            }
            let len = at.offset_from_unsigned(name).min(SITE_BYTES - 1);
            ptr::copy_nonoverlapping(name, site.file.as_mut_ptr(), len);
        }
        site
    }
}
