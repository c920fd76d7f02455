//! An artifact whose bytes do not pass through the host's memory: others write into its file at places that it gives out.
//!
//! Like an [`ArtifactFile`](super::ArtifactFile) it has a temporary name until it is whole. Its hash is taken from the file
//! when it is committed: nothing stands between the producer and the disk before that, and what is hashed is what lies
//! there.

use super::{ArtifactError, ArtifactInfo, create_temp, hex};
use rustix::fs::{FallocateFlags, fallocate};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are read and hashed at once.
const BLOCK_BYTES: usize = 256 << 10;
/// What is asked of the disk ahead of the writes, in bytes: as much as was written, but no less and no more than this. It
/// lies in one piece then, and the writes need not look for it (a tenth of what they cost on ext4).
const AHEAD_BYTES: (u64, u64) = (1 << 20, 16 << 20);

/// An artifact that is written in place. Dropped without [`commit`](Self::commit), it leaves nothing behind.
#[derive(Debug)]
pub struct DirectFile {
    file: Option<Arc<Sheet>>,
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
        let file = Some(Arc::new(Sheet { file, ahead: AtomicU64::new(0) }));
        Ok(DirectFile { file, temp, path, bytes: 0, room: room.unwrap_or(u64::MAX) })
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
    pub fn reserve(&mut self, bytes: u64) -> io::Result<(Arc<Sheet>, u64)> {
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
            Some(sheet) => {
                // What was asked of the disk and not used goes back.
                sheet.file.set_len(self.bytes).map_err(finish)?;
                hash(&sheet.file, self.bytes).map_err(finish)?
            }
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

/// What others write on: the file of a [`DirectFile`].
#[derive(Debug)]
pub struct Sheet {
    file: File,
    /// The disk has given room up to here; `u64::MAX`: it is not asked any more.
    ahead: AtomicU64,
}

impl Sheet {
    /// The file, with the disk's room for what is written up to `end`. There may be none yet, and the write will find some
    /// or say that there is not.
    pub fn ready(&self, end: u64) -> &File {
        // Relaxed: a place on the disk, not in memory; one thread writes at a time.
        let ahead = self.ahead.load(Ordering::Relaxed);
        if end > ahead {
            let to = end.saturating_add(end.clamp(AHEAD_BYTES.0, AHEAD_BYTES.1));
            // Not every file system can, and none must: what counts is the write.
            let given = fallocate(&self.file, FallocateFlags::KEEP_SIZE, ahead, to - ahead);
            self.ahead.store(given.map_or(u64::MAX, |()| to), Ordering::Relaxed);
        }
        &self.file
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_disk_is_asked_ahead_and_gets_back_what_was_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (piece, bytes) = (vec![7; 100_000], 50 * 100_000);
        let mut file = DirectFile::create(dir.path().join("a.bin"), None).unwrap();
        let mut asked = Vec::new();
        for _ in 0..50 {
            let (sheet, place) = file.reserve(100_000).unwrap();
            sheet.ready(place + 100_000).write_all_at(&piece, place).unwrap();
            asked.push(sheet.ahead.load(Ordering::Relaxed));
        }
        let info = file.commit().unwrap();
        asked.dedup();
        assert!(asked.len() < 6 && asked.iter().all(|&to| to == u64::MAX || to >= 100_000), "{asked:?}");
        let there = fs::metadata(&info.path).unwrap();
        assert_eq!((info.bytes, there.len()), (bytes, bytes));
        assert!(there.blocks() * 512 < bytes + AHEAD_BYTES.0, "{} blocks are the file's", there.blocks());
        assert_eq!(fs::read(&info.path).unwrap(), vec![7; bytes as usize]);
    }

    #[test]
    fn a_file_system_that_gives_nothing_ahead_is_asked_once() {
        let sheet = Sheet { file: File::open("/dev/null").unwrap(), ahead: AtomicU64::new(0) };
        sheet.ready(1);
        assert_eq!(sheet.ahead.load(Ordering::Relaxed), u64::MAX);
        sheet.ready(u64::MAX);
    }
}
