//! An artifact whose bytes do not pass through the host's memory: others write into its file at places that it gives out.
//!
//! Like an [`ArtifactFile`](super::ArtifactFile) it has a temporary name until it is whole. Its hash is taken from the file
//! when it is committed: nothing stands between the producer and the disk before that, and what is hashed is what lies
//! there.

use super::{ArtifactError, ArtifactInfo, create_temp, hex};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read and hashed at once.
const BLOCK_BYTES: usize = 256 << 10;

/// An artifact that is written in place. Dropped without [`commit`](Self::commit), it leaves nothing behind.
#[derive(Debug)]
pub struct DirectFile {
    file: Option<Arc<File>>,
    temp: PathBuf,
    path: PathBuf,
    bytes: u64,
    room: u64,
}

impl DirectFile {
    /// Starts the artifact `path`; its directory is made if missing. `room`: for fault plans, bytes after which the disk
    /// is full.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: impl Into<PathBuf>, room: Option<u64>) -> Result<Self, ArtifactError> {
        let path: PathBuf = path.into();
        let create = |source| ArtifactError::new("create", &path, source);
        let (Some(name), Some(dir)) = (path.file_name(), path.parent()) else {
            return Err(create(io::ErrorKind::InvalidFilename.into()));
        };
        if path.is_dir() {
            return Err(create(io::ErrorKind::IsADirectory.into()));
        }
        fs::create_dir_all(dir).map_err(create)?;
        let (temp, file) = create_temp(dir, &name.to_string_lossy()).map_err(create)?;
        Ok(DirectFile { file: Some(Arc::new(file)), temp, path, bytes: 0, room: room.unwrap_or(u64::MAX) })
    }

    /// Bytes given out so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives out the next `bytes` bytes: the file, and their place in it. Whoever has them writes them before the
    /// [`commit`](Self::commit).
    ///
    /// # Errors
    /// That the disk is full; the file is then as long as before.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<(Arc<File>, u64)> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::BrokenPipe.into()) };
        if bytes > self.room.saturating_sub(self.bytes) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let place = self.bytes;
        self.bytes += bytes;
        Ok((Arc::clone(file), place))
    }

    /// `error`, met while writing this file, with its name and the remedy.
    pub fn error(&self, error: io::Error) -> ArtifactError {
        ArtifactError::new("write", &self.path, error)
    }

    /// Hashes what was written and gives the file its final name, in place of what had it.
    ///
    /// # Errors
    /// When it cannot be read back or renamed.
    pub fn commit(mut self) -> Result<ArtifactInfo, ArtifactError> {
        let finish = |source| ArtifactError::new("finish", &self.path, source);
        let sha256 = match &self.file {
            Some(file) => hash(file, self.bytes).map_err(finish)?,
            None => return Err(finish(io::ErrorKind::BrokenPipe.into())),
        };
        fs::rename(&self.temp, &self.path).map_err(finish)?;
        drop(self.file.take());
        Ok(ArtifactInfo { path: std::mem::take(&mut self.path), bytes: self.bytes, sha256 })
    }

    /// The final path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn hash(file: &File, bytes: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES.min(bytes as usize)];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(BLOCK_BYTES as u64) as usize;
        file.read_exact_at(&mut block[..part], done)?;
        hash.update(&block[..part]);
        done += part as u64;
    }
    Ok(hex(&hash.finalize()))
}

impl Drop for DirectFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temp);
        }
    }
}
