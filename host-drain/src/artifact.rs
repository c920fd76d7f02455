//! Artifact files: complete under their final name, or absent.
//!
//! An [`ArtifactFile`] is written under a temporary name in the directory of its final one, counted and hashed on the
//! way, and renamed by [`commit`](ArtifactFile::commit). Whatever ends it before that (an error, a panic, a kill) leaves
//! no file under the final name; a drop removes the temporary one too, and after a kill [`prepare_output_dir`] of the
//! next run does. The rename is atomic against a crash of the process, not against a power failure: nothing is fsynced.

mod dir;
mod direct;
mod hash;

pub use dir::{ARTIFACT_NAMES, OutputDirError, prepare_output_dir, unfinished};
pub use direct::{DirectFile, Sheet};

use hash::BlockHasher;
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are gathered before they are written and hashed (few under Miri, which is to see many blocks).
const BLOCK_BYTES: usize = if cfg!(miri) { 256 } else { 128 * 1024 };

/// An artifact that could not be written. Says which, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}; {}", path.display(), remedy(source))]
pub struct ArtifactError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl ArtifactError {
    fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        ArtifactError { action, path: path.to_path_buf(), source }
    }

    /// An artifact of an earlier session that could not be read again.
    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        ArtifactError::new("read", path, source)
    }

    /// The artifact's final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the system said.
    #[must_use]
    pub fn cause(&self) -> &io::Error {
        &self.source
    }

    /// The artifact error inside `error`, or `error` as a failed write of `path`.
    #[must_use]
    pub fn from_io(path: &Path, error: io::Error) -> Self {
        let kind = error.kind();
        match error.into_inner() {
            None => ArtifactError::new("write", path, kind.into()),
            Some(inner) => match inner.downcast::<ArtifactError>() {
                Ok(ours) => *ours,
                Err(other) => ArtifactError::new("write", path, io::Error::new(kind, other)),
            },
        }
    }
}

/// What a person can do about `cause`.
fn remedy(cause: &io::Error) -> &'static str {
    use io::ErrorKind as Kind;
    match cause.kind() {
        Kind::StorageFull | Kind::QuotaExceeded => {
            "free space on that file system or choose another output directory, then run again"
        }
        Kind::FileTooLarge => {
            "raise the limit on the size of files (ulimit -f), or choose an output directory on a file system that takes \
             larger files, and run again"
        }
        Kind::ReadOnlyFilesystem | Kind::PermissionDenied => {
            "make the directory writable for this user or choose another output directory"
        }
        Kind::IsADirectory => "a directory has the artifact's name: move it away",
        Kind::NotADirectory | Kind::AlreadyExists => {
            "a file is where a directory is needed: move it away or choose another output directory"
        }
        Kind::InvalidFilename => "choose an output directory with a shorter path",
        Kind::NotFound => "the directory went away while the run was on: keep it in place and run again",
        _ => "check that file system, or choose another output directory, then run again",
    }
}

/// A finished artifact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArtifactInfo {
    /// Its final path, as given to [`ArtifactFile::create`].
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content, 64 lower-case hex digits.
    pub sha256: String,
}

/// An artifact on its way. Dropped without [`commit`](Self::commit), it leaves nothing behind.
pub struct ArtifactFile {
    file: Option<File>,
    temp: PathBuf,
    path: PathBuf,
    block: Vec<u8>,
    hash: BlockHasher,
    /// Bytes written out, without `block`.
    bytes: u64,
    /// Kind of the first failed write: a file with a hole is never committed.
    failed: Option<io::ErrorKind>,
    /// For fault plans: bytes after which the disk is full.
    room: u64,
    /// The largest file that this process may write, in bytes.
    most: u64,
}

impl fmt::Debug for ArtifactFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactFile").field("path", &self.path).field("bytes", &self.bytes).finish()
    }
}

impl ArtifactFile {
    /// Starts the artifact `path`; its directory is made if missing.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, ArtifactError> {
        let path: PathBuf = path.into();
        let create = |source| ArtifactError::new("create", &path, source);
        let (Some(name), Some(dir)) = (path.file_name(), path.parent()) else {
            return Err(create(io::ErrorKind::InvalidFilename.into()));
        };
        if path.is_dir() {
            return Err(create(io::ErrorKind::IsADirectory.into()));
        }
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        fs::create_dir_all(dir).map_err(create)?;
        let (temp, file) = create_temp(dir, &name.to_string_lossy()).map_err(create)?;
        Ok(ArtifactFile {
            file: Some(file),
            temp,
            path,
            block: Vec::with_capacity(BLOCK_BYTES),
            hash: BlockHasher::new(),
            bytes: 0,
            failed: None,
            room: u64::MAX,
            most: largest_file(),
        })
    }

    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes + self.block.len() as u64
    }

    /// For fault plans (`enospc:file`): from here on, the disk is full once the file has `bytes` bytes.
    pub fn inject_full_after(&mut self, bytes: u64) {
        self.room = bytes;
    }

    /// Writes out what is buffered and gives the file its final name, in place of what had it.
    pub fn commit(mut self) -> Result<ArtifactInfo, ArtifactError> {
        let hash = self.drain().and_then(|()| std::mem::replace(&mut self.hash, BlockHasher::new()).finish());
        let sha256 = hex(&hash.map_err(|error| ArtifactError::from_io(&self.path, error))?);
        // Closed first: some file systems report a failed write only then, or refuse to rename an open file.
        drop(self.file.take());
        if let Err(source) = fs::rename(&self.temp, &self.path) {
            let _ = fs::remove_file(&self.temp);
            return Err(ArtifactError::new("finish", &self.path, source));
        }
        Ok(ArtifactInfo { path: std::mem::take(&mut self.path), bytes: self.bytes, sha256 })
    }

    /// Writes and hashes what is gathered; the first failure sticks.
    fn drain(&mut self) -> io::Result<()> {
        self.put().map_err(|source| {
            self.failed = Some(source.kind());
            io::Error::new(source.kind(), ArtifactError::new("write", &self.path, source))
        })
    }

    fn put(&mut self) -> io::Result<()> {
        let bytes = self.block.len() as u64;
        match (self.failed, &mut self.file) {
            (Some(kind), _) => return Err(kind.into()),
            (None, _) if bytes > self.room.saturating_sub(self.bytes) => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            (None, _) if bytes > self.most.saturating_sub(self.bytes) => {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            (None, Some(file)) => file.write_all(&self.block)?,
            (None, None) => unreachable!("the file is closed only by commit and drop"),
        }
        self.bytes += bytes;
        self.block = self.hash.update(std::mem::take(&mut self.block))?;
        Ok(())
    }
}

impl Write for ArtifactFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.len() >= BLOCK_BYTES {
            self.drain()?;
        }
        let taken = bytes.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }
}

impl Drop for ArtifactFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temp);
        }
    }
}

/// The largest file that this process may write, in bytes (`ulimit -f`): a longer write would not fail, it would kill the
/// process, and with it the run.
fn largest_file() -> u64 {
    // Miri knows no limits.
    if cfg!(miri) { u64::MAX } else { getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX) }
}

/// Opens a file of a name that no artifact has and no other call gave out.
fn create_temp(dir: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let temp = dir.join(format!(".{name}.tmp-{}-{n}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&temp) {
            Ok(file) => return Ok((temp, file)),
            // Left over by a killed process that had this one's id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether `name` is one that an [`ArtifactFile`] has before it is committed.
#[must_use]
pub fn is_temp_name(name: &str) -> bool {
    let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    name.strip_prefix('.')
        .and_then(|rest| rest.rsplit_once(".tmp-"))
        .and_then(|(stem, tail)| tail.split_once('-').map(|(pid, n)| (stem, pid, n)))
        .is_some_and(|(stem, pid, n)| !stem.is_empty() && number(pid) && number(n))
}

/// `bytes` as lower-case hex digits, the form of [`ArtifactInfo::sha256`].
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    pub(super) fn dir() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    pub(super) fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_committed_file_has_its_content_count_and_hash() {
        let dir = dir();
        let path = dir.path().join("sub dir/ä \"x\".json");
        let mut file = ArtifactFile::create(&path).unwrap();
        file.write_all(b"ab").unwrap();
        file.write_all(b"c").unwrap();
        assert!(!path.exists());
        assert_eq!(file.bytes(), 3);
        let info = file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!((info.path.as_path(), info.bytes), (path.as_path(), 3));
        assert_eq!(info.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(names(path.parent().unwrap()), ["ä \"x\".json"]);
    }

    #[test]
    fn large_and_small_writes_keep_their_order() {
        let dir = dir();
        let path = dir.path().join("x");
        let mut file = ArtifactFile::create(&path).unwrap();
        let mut expected = Vec::new();
        let most = BLOCK_BYTES + BLOCK_BYTES / 7;
        for i in 0..40usize {
            let piece = vec![i as u8; i * 7919 % most];
            file.write_all(&piece).unwrap();
            expected.extend(piece);
        }
        let info = file.commit().unwrap();
        assert_eq!(info.bytes, expected.len() as u64);
        assert_eq!(info.sha256, hex(&Sha256::digest(&expected)));
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        let dir = dir();
        let mut file = ArtifactFile::create(dir.path().join("run.json")).unwrap();
        file.write_all(&[1; BLOCK_BYTES / 4 * 3]).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        assert!(is_temp_name(&names(dir.path())[0]));
        drop(file);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_full_disk_is_named_with_the_remedy_and_leaves_the_old_file() {
        let dir = dir();
        let path = dir.path().join("pmu.csv");
        fs::write(&path, "old").unwrap();
        let mut file = ArtifactFile::create(&path).unwrap();
        file.inject_full_after(BLOCK_BYTES as u64 / 4 * 3);
        let error =
            (0..100).find_map(|_| file.write_all(&[0; BLOCK_BYTES / 25]).err()).expect("the disk fills up");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = ArtifactError::from_io(&path, error);
        assert_eq!(error.path(), path);
        assert!(error.to_string().contains("pmu.csv") && error.to_string().contains("free space"), "{error}");
        assert!(file.commit().unwrap_err().to_string().contains("free space"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["pmu.csv"]);
    }

    #[test]
    fn a_directory_under_the_final_name_is_refused_at_the_start() {
        let dir = dir();
        let error = ArtifactFile::create(dir.path()).unwrap_err();
        assert!(error.to_string().contains("move it away"), "{error}");
        fs::write(dir.path().join("file"), "").unwrap();
        let error = ArtifactFile::create(dir.path().join("file/run.json")).unwrap_err();
        assert!(error.to_string().contains("run.json"), "{error}");
    }

    #[test]
    fn temporary_names_are_recognised_and_others_are_not() {
        for name in [".run.json.tmp-1-0", "..x.tmp-123-45"] {
            assert!(is_temp_name(name), "{name}");
        }
        for name in
            ["run.json", ".run.json.tmp-1", ".x.tmp--1", "x.tmp-1-1", ".tmp-1-1", ".x.tmp-1-a", ".x.tmp-a-1"]
        {
            assert!(!is_temp_name(name), "{name}");
        }
    }
}
