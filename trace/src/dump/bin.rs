//! The payload file, read by ranges that were checked when it was opened.

use super::record::Record;
use super::{DumpError, Manifest};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Payload bytes held at once, whole elements of every type.
pub const BLOCK_BYTES: usize = 1024 * 1024;

/// An `args.bin`, or none.
#[derive(Debug)]
pub(super) struct Bin {
    file: Option<File>,
    path: PathBuf,
}

impl Bin {
    /// Opens the file that `manifest` names in `dir`, and checks that it has every payload.
    pub(super) fn open(path: &Path, dir: &Path, manifest: &Manifest) -> Result<Bin, DumpError> {
        let mut with_payload = manifest.records.iter().enumerate().filter(|(_, record)| record.bin_size > 0);
        let Some(name) = &manifest.bin_file else {
            return match with_payload.next() {
                None => Ok(Bin { file: None, path: path.to_path_buf() }),
                Some((index, record)) => {
                    Err(DumpError::NoBin { path: path.to_path_buf(), record: record.title(), index })
                }
            };
        };
        let path = dir.join(name);
        let file = File::open(&path).map_err(|source| DumpError::io(&path, source))?;
        let bytes = file.metadata().map_err(|source| DumpError::io(&path, source))?.len();
        // The sum of the two fits: the manifest's reader has seen to it.
        if let Some((index, record)) = with_payload.find(|(_, r)| r.bin_offset + r.bin_size > bytes) {
            let (offset, size) = (record.bin_offset, record.bin_size);
            return Err(DumpError::Range { path, bytes, record: record.title(), index, offset, size });
        }
        Ok(Bin { file: Some(file), path })
    }

    /// Reads `bytes.len()` bytes of the payload of `record` from byte `from` on.
    pub(super) fn read(&self, record: &Record, from: u64, bytes: &mut [u8]) -> Result<(), DumpError> {
        let Some(file) = self.file.as_ref().filter(|_| !bytes.is_empty()) else {
            return Ok(());
        };
        file.read_exact_at(bytes, record.bin_offset + from)
            .map_err(|source| DumpError::io(&self.path, source))
    }

    /// Calls `each` with the payload of `record`, block by block, and where each block begins.
    pub(super) fn blocks(
        &self,
        record: &Record,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let mut block = vec![0; record.bin_size.min(BLOCK_BYTES as u64) as usize];
        let mut from = 0;
        while from < record.bin_size {
            let length = (record.bin_size - from).min(BLOCK_BYTES as u64) as usize;
            self.read(record, from, &mut block[..length])?;
            each(from, &block[..length])?;
            from += length as u64;
        }
        Ok(())
    }
}
