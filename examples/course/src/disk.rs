//! Given to the learner: how the engine changes files. Each function does what its namesake of the
//! standard library does. The checks of step 16 need them, because they let a crash come before any
//! of these calls, and then take from the disk what was not *synced* (`crash.rs`).
//!
//! ```text
//! write, append, truncate   the bytes may stay in the system's memory until `sync`
//! rename, remove            the names of the files may be as before until `sync_directory`
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::crash::{self, Step};

/// Writes a whole file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    crash::before(Step::Write(path, bytes))?;
    fs::write(path, bytes)
}

/// Opens or creates a file to which bytes are appended.
pub fn open(path: &Path) -> io::Result<File> {
    crash::before(Step::Append(path, b""))?;
    OpenOptions::new().create(true).append(true).open(path)
}

/// Appends to a file, which is open and has this path.
pub fn append(mut file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    crash::before(Step::Append(path, bytes))?;
    file.write_all(bytes)
}

/// Removes all bytes of a file, which is open and has this path.
pub fn truncate(file: &File, path: &Path) -> io::Result<()> {
    crash::before(Step::Write(path, b""))?;
    file.set_len(0)
}

pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    crash::before(Step::Rename(from, to))?;
    fs::rename(from, to)
}

pub fn remove(path: &Path) -> io::Result<()> {
    crash::before(Step::Remove(path))?;
    fs::remove_file(path)
}

/// Waits until the bytes of a file are on the disk. Its name may still be lost.
pub fn sync(path: &Path) -> io::Result<()> {
    if crash::before(Step::Sync(path))? {
        return Ok(());
    }
    OpenOptions::new().append(true).open(path)?.sync_all()
}

/// Waits until the names of all files of a directory are on the disk: new names, other names and
/// removed ones.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    if crash::before(Step::SyncDirectory)? || cfg!(windows) {
        return Ok(());
    }
    File::open(directory)?.sync_all()
}
