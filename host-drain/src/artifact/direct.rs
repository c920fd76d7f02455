//! An artifact whose bytes do not pass through the host's memory: others write into its file at places that it gives out.
//!
//! Like an [`ArtifactFile`](super::ArtifactFile) it has a temporary name until it is whole. Its hash is taken from the file
//! when it is committed: nothing stands between the producer and the disk before that, and what is hashed is what lies
//! there.

use super::{ArtifactError, ArtifactInfo, create_temp, hex, largest_file};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are read and hashed at once.
const BLOCK_BYTES: usize = 256 << 10;
/// What is asked of the disk ahead of the writes, in bytes: as much as was written, once that is worth it, and no more than
/// this. It lies in one piece then, and the writes need not look for it (a tenth of what they cost on ext4).
const AHEAD_BYTES: (u64, u64) = (1 << 20, 16 << 20);
/// Bytes ahead of the writes below which more is asked for.
const NEAR_BYTES: u64 = 512 << 10;

/// An artifact that is written in place. Dropped without [`commit`](Self::commit), it leaves nothing behind.
#[derive(Debug)]
pub struct DirectFile {
    sheet: Arc<Sheet>,
    /// Whether it has its final name.
    done: bool,
    temp: PathBuf,
    path: PathBuf,
    bytes: u64,
    room: u64,
    /// The largest file that this process may write, in bytes.
    most: u64,
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
        let (most, room) = (largest_file(), room.unwrap_or(u64::MAX));
        let sheet = Sheet { file, most, ahead: AtomicU64::new(0) };
        Ok(DirectFile { sheet: Arc::new(sheet), done: false, temp, path, bytes: 0, room, most })
    }

    /// Bytes given out so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.sheet.file
    }

    /// Gives out the next `bytes` bytes: the file, and their place in it. Whoever has them writes them before the
    /// [`cut`](Self::cut), or leaves a hole.
    ///
    /// # Errors
    /// That the disk is full, or that this process may write no file as long as that (it would be killed); the file is then
    /// as long as before.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<(Arc<Sheet>, u64)> {
        if bytes > self.most.saturating_sub(self.bytes) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if bytes > self.room.saturating_sub(self.bytes) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let place = self.bytes;
        self.bytes += bytes;
        Ok((Arc::clone(&self.sheet), place))
    }

    /// Ends the file behind byte `bytes`, if it is not shorter, and gives back what was asked of the disk and not used.
    ///
    /// # Errors
    /// What the system says.
    pub fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes = self.bytes.min(bytes);
        self.sheet.file.set_len(self.bytes)
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
        let sha256 = hash(&self.sheet.file, self.bytes).map_err(finish)?;
        fs::rename(&self.temp, &self.path).map_err(finish)?;
        self.done = true;
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
    /// As the [`DirectFile`]'s.
    most: u64,
    /// The disk has given room up to here; `u64::MAX`: it is not asked any more.
    ahead: AtomicU64,
}

impl Sheet {
    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Asks the disk for room behind `end`, up to which the file is written. There may be none yet: the next writes will
    /// find some, or say that there is not.
    pub fn ask_ahead(&self, end: u64) {
        // Relaxed: a place on the disk, not in memory; one thread writes at a time.
        let ahead = self.ahead.load(Ordering::Relaxed);
        // Miri knows no such call.
        if end < AHEAD_BYTES.0 || end.saturating_add(NEAR_BYTES) <= ahead || cfg!(miri) {
            return;
        }
        let (from, to) = (end.max(ahead), end.saturating_add(end.min(AHEAD_BYTES.1)).min(self.most));
        // Not every file system can, and none must: what counts is the write.
        let ask = || fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, to - from);
        let given = from < to && retry_on_intr(ask).is_ok();
        self.ahead.store(if given { to } else { u64::MAX }, Ordering::Relaxed);
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
        if !self.done {
            let _ = fs::remove_file(&self.temp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn written(dir: &Path, pieces: u64) -> (DirectFile, Vec<u64>) {
        let mut file = DirectFile::create(dir.join("a.bin"), None).unwrap();
        let mut asked = Vec::new();
        for _ in 0..pieces {
            let (sheet, place) = file.reserve(100_000).unwrap();
            sheet.file().write_all_at(&[7; 100_000], place).unwrap();
            sheet.ask_ahead(place + 100_000);
            asked.push(sheet.ahead.load(Ordering::Relaxed));
        }
        asked.dedup();
        (file, asked)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri's files have no blocks")]
    fn the_disk_is_asked_ahead_and_gets_back_what_was_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, asked) = written(dir.path(), 50);
        assert!((1..6).contains(&asked.len()), "{asked:?}");
        file.cut(4_900_001).unwrap();
        let info = file.commit().unwrap();
        let there = fs::metadata(&info.path).unwrap();
        assert_eq!((info.bytes, there.len()), (4_900_001, 4_900_001));
        assert!(there.blocks() * 512 < 4_900_001 + (64 << 10), "{} blocks are the file's", there.blocks());
        assert_eq!(fs::read(&info.path).unwrap(), vec![7; 4_900_001]);
    }

    #[test]
    fn what_was_never_written_at_the_end_is_not_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, asked) = written(dir.path(), 2);
        assert_eq!(asked, [0], "little is asked of nobody");
        file.reserve(1 << 40).unwrap();
        file.cut(200_000).unwrap();
        assert_eq!((file.bytes(), file.commit().unwrap().bytes), (200_000, 200_000));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it is not asked there")]
    fn a_file_system_that_gives_nothing_ahead_is_asked_once() {
        let null = || File::open("/dev/null").unwrap();
        for most in [0, u64::MAX] {
            let sheet = Sheet { file: null(), most, ahead: AtomicU64::new(0) };
            sheet.ask_ahead(AHEAD_BYTES.0);
            assert_eq!(sheet.ahead.load(Ordering::Relaxed), u64::MAX);
            sheet.ask_ahead(u64::MAX);
        }
    }

    #[test]
    fn a_file_longer_than_this_process_may_write_is_refused_before_the_system_kills_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = DirectFile::create(dir.path().join("a.bin"), None).unwrap();
        file.most = 1000;
        file.reserve(1000).unwrap();
        let error = file.reserve(1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(file.error(error).to_string().contains("larger files"));
    }
}
