//! Size and SHA-256 of a file, taken while it is read for another purpose.

use dfx_host_drain::artifact::hex;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Bytes read at once.
const BLOCK_BYTES: usize = 128 * 1024;

/// A reader that counts and hashes what passes through it.
pub(crate) struct Digested {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Read for Digested {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.hash.update(&buffer[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
}

/// What a file is, whatever it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// Opens `path` for reading through a digest.
pub(crate) fn open(path: &Path) -> io::Result<BufReader<Digested>> {
    let digested = Digested { file: File::open(path)?, hash: Sha256::new(), bytes: 0 };
    Ok(BufReader::with_capacity(BLOCK_BYTES, digested))
}

/// Reads what is left and tells what the whole file is.
pub(crate) fn finish(reader: BufReader<Digested>) -> io::Result<Identity> {
    let mut digested = reader.into_inner();
    let mut block = vec![0; BLOCK_BYTES];
    while digested.read(&mut block)? > 0 {}
    Ok(Identity { bytes: digested.bytes, sha256: hex(&digested.hash.finalize()) })
}
