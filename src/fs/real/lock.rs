//! [`lock_file`]: locks that exclude other processes, and other databases of this process.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::{Error, Result};
use crate::fs::descriptors::with_descriptor;
use crate::fs::system::{self, Anchor, LockKey};
use crate::fs::{FileLock, parent};
use crate::sync::{Mutex, PerProcess, Process, lock, rank};

/// The registry of the lock files that this process holds. The operating system's lock excludes
/// other processes, but on some file systems it does not exclude a second descriptor of the same
/// process. So the registry excludes this second descriptor. A forked child starts with an empty
/// registry, but the system's locks that its parent holds still exclude the child.
static HELD_LOCKS: PerProcess<Mutex<BTreeSet<LockKey>, rank::HeldLocks>> =
    PerProcess::new(Mutex::default);

pub(super) fn lock_file(anchor: Option<&Anchor>, path: &Path) -> Result<RealFileLock> {
    let io_error = |error| Error::io(path, "lock", error);
    let held_elsewhere = || Error::Locked { path: parent(path).to_owned() };

    // The registry is checked before the file is opened. If the lock is a POSIX one, as flock on
    // NFS is, closing any descriptor of the file releases the lock that this process holds. So the
    // file must not be opened while this process holds its lock.
    let mut held = lock(HELD_LOCKS.get());
    let key = || system::lock_key(anchor, path).map_err(io_error);
    if key()?.is_some_and(|key| held.contains(&key)) {
        return Err(held_elsewhere());
    }
    let file = with_descriptor(|| system::open_lock(anchor, path)).map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held_elsewhere()),
        Err(TryLockError::Error(error)) => return Err(io_error(error)),
    }
    // `Db::destroy` removes the lock file last, perhaps after this call has opened it. A lock on
    // the removed file does not exclude a process that creates a new lock file. So the lock counts
    // only if the path still names the locked file.
    let Some(key) = key()?.filter(|_| system::is_at(&file, anchor, path).unwrap_or(false)) else {
        return Err(held_elsewhere());
    };
    held.insert(LockKey::clone(&key));
    Ok(RealFileLock { key, file, process: Process::current() })
}

#[derive(Debug)]
pub(super) struct RealFileLock {
    /// The key in the registry.
    key: LockKey,
    pub(super) file: File,
    process: Process,
}

impl FileLock for RealFileLock {}

impl Drop for RealFileLock {
    fn drop(&mut self) {
        // A forked child shares the lock with its parent, so the child must not release the lock.
        if !self.process.is_current() {
            return;
        }
        // The file is unlocked before it is closed, because closing ends the lock only with the
        // last descriptor of the open file, and a forked child that has not yet executed its
        // program has one too. If unlocking fails, the lock ends when the child closes its
        // descriptor.
        let _ = self.file.unlock();
        lock(HELD_LOCKS.get()).remove(&self.key);
    }
}
