//! A file system that fails on demand.
//!
//! Every call of an [`Operation`] passes [`Control::decide`], which counts the call, runs the hook
//! of such calls, and decides whether the call fails. A test runs its workload once
//! to count the calls. Then, for each counted call, it runs the workload again and makes that call
//! fail, as in the example of [`FaultFs`].
//!
//! A failed sync behaves as on Linux: the unsynced bytes may be lost, yet later syncs of the file
//! report success. If code trusts such a later sync, a simulated crash of the wrapped file system
//! shows the loss.

mod files;
mod rules;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DescriptorPool, FileLock, Fs, RandomAccessFile, WritableFile};
use crate::error::Result;
use files::{FaultRandomAccessFile, FaultWritableFile};
use rules::{Control, Hook, Rule};
pub use rules::{Fault, Operation, Target};

/// Wraps a file system and fails chosen calls. Clones share these choices and the counts.
///
/// ```
/// use maypole::fs::{Fault, FaultFs, Fs, MemFs, Target, write_atomic};
/// use std::{path::Path, sync::Arc};
///
/// let workload = |fs: &dyn Fs| write_atomic(fs, Path::new("CURRENT"), b"MANIFEST-000001\n");
/// let counting = FaultFs::new(Arc::new(MemFs::new()));
/// workload(&counting).unwrap();
/// for nth in 0..counting.calls(Target::Any) {
///     let failing = FaultFs::new(Arc::new(MemFs::new()));
///     failing.fail_once(Target::Any, nth, Fault::Io);
///     assert!(workload(&failing).is_err());
/// }
/// ```
#[derive(Debug, Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    control: Arc<Control>,
}

impl FaultFs {
    /// Passes every call to `inner`, until [`FaultFs::fail_once`] or a similar method makes calls
    /// fail.
    pub fn new(inner: Arc<dyn Fs>) -> FaultFs {
        FaultFs { inner, control: Arc::default() }
    }

    /// Fails one call of `target`: the next `nth` calls of `target` still succeed, and the call
    /// after them fails.
    pub fn fail_once(&self, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end: "", calls_before: nth, forever: false, fault });
    }

    /// Like [`FaultFs::fail_once`], but also fails every later call of `target`.
    pub fn fail_from(&self, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end: "", calls_before: nth, forever: true, fault });
    }

    /// Like [`FaultFs::fail_once`], but counts and fails only the calls for paths that end in
    /// `name_end`.
    pub fn fail_files_once(&self, name_end: &'static str, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end, calls_before: nth, forever: false, fault });
    }

    /// Like [`FaultFs::fail_from`], but counts and fails only the calls for paths that end in
    /// `name_end`.
    pub fn fail_files_from(&self, name_end: &'static str, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end, calls_before: nth, forever: true, fault });
    }

    fn add(&self, rule: Rule) {
        self.control.state().rules.push(rule);
    }

    /// Removes the effect of all earlier `fail_…` calls, as if the disk had space again or the
    /// device worked again.
    pub fn heal(&self) {
        self.control.state().rules.clear();
    }

    /// The number of calls so far, failed ones included.
    pub fn calls(&self, target: Target) -> u64 {
        self.control.state().calls(target)
    }

    /// The number of calls that were made to fail so far.
    pub fn faults(&self) -> u64 {
        self.control.state().faults
    }

    /// Like [`FaultFs::before_calls`], for every call for which [`Operation::is_change`] holds.
    pub fn before_changes(&self, hook: impl Fn(u64, Operation, &Path) + Send + Sync + 'static) {
        self.before_calls(Target::Changes, hook);
    }

    /// Runs `hook` before every call of `target`, in place of an earlier hook. The hook gets the
    /// number of earlier such calls, the operation and the path. It may take an image of the
    /// wrapped file system, as [`MemFs::crash`](super::MemFs::crash) does, or change the wrapped
    /// file system, as another process may do at any moment. It must make no call of `target`
    /// through this `FaultFs`, because that would run the hook again.
    ///
    /// ```
    /// use maypole::fs::{FaultFs, Fs, MemFs, Target};
    /// use std::{path::Path, sync::Arc};
    ///
    /// let (mem, path) = (MemFs::new(), Path::new("a"));
    /// let fs = FaultFs::new(Arc::new(mem.clone()));
    /// fs.before_calls(Target::Any, move |nth, _, path| {
    ///     if nth == 1 {
    ///         mem.create(path).unwrap();
    ///     }
    /// });
    /// assert!(!fs.exists(path)?);
    /// assert!(fs.exists(path)?);
    /// # Ok::<(), maypole::Error>(())
    /// ```
    pub fn before_calls(
        &self,
        target: Target,
        hook: impl Fn(u64, Operation, &Path) + Send + Sync + 'static,
    ) {
        self.control.state().hook = Some((target, Hook(Arc::new(hook))));
    }
}

impl FaultFs {
    fn watched(&self, inner: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        let control = Arc::clone(&self.control);
        Box::new(FaultWritableFile { inner, control, sync_failed: false })
    }
}

impl Fs for FaultFs {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.control.admit(Operation::Create, path)?;
        Ok(self.watched(self.inner.create(path)?))
    }

    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.control.admit(Operation::Create, path)?;
        Ok(self.watched(self.inner.create_log(path)?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.control.admit(Operation::Open, path)?;
        let inner = self.inner.open(path)?;
        Ok(Arc::new(FaultRandomAccessFile { inner, control: Arc::clone(&self.control) }))
    }

    fn open_pooled(
        &self,
        path: &Path,
        pool: &Arc<DescriptorPool>,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        self.control.admit(Operation::Open, path)?;
        let inner = self.inner.open_pooled(path, pool)?;
        Ok(Arc::new(FaultRandomAccessFile { inner, control: Arc::clone(&self.control) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.control.admit(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.control.admit(Operation::Remove, path)?;
        self.inner.remove(path)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.control.admit(Operation::HardLink, new)?;
        self.inner.hard_link(existing, new)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.control.admit(Operation::Exists, path)?;
        self.inner.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.control.admit(Operation::List, dir)?;
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.control.admit(Operation::CreateDirAll, dir)?;
        self.inner.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.control.admit(Operation::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        self.control.admit(Operation::FreeBytes, dir)?;
        self.inner.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.control.admit(Operation::Lock, path)?;
        self.inner.lock(path)
    }
}
