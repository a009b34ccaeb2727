//! A file system that fails on demand.
//!
//! Every call passes [`Control::admit`], which counts it, lets the hook look on before anything
//! changes, and decides whether the call fails. A test runs its workload once to count the calls,
//! then once for each call to fail it:
//!
//! ```
//! use maypole::fs::{Fault, FaultFs, Fs, MemFs, Target, write_atomic};
//! use std::{path::Path, sync::Arc};
//!
//! let workload = |fs: &dyn Fs| write_atomic(fs, Path::new("CURRENT"), b"MANIFEST-000001\n");
//! let counting = FaultFs::new(Arc::new(MemFs::new()));
//! workload(&counting).unwrap();
//! for nth in 0..counting.calls(Target::Any) {
//!     let failing = FaultFs::new(Arc::new(MemFs::new()));
//!     failing.fail_once(Target::Any, nth, Fault::Io);
//!     assert!(workload(&failing).is_err());
//! }
//! ```
//!
//! A failed sync behaves as on Linux: the unsynced bytes stay in doubt, yet later syncs of the
//! file report success. Code that retries a sync is thereby caught by the next crash.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::{fmt, io};

use super::{DescriptorPool, FileLock, Fs, RandomAccessFile, WritableFile};
use crate::error::{Error, Result};
use crate::sync::lock;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of its name")]
pub enum Operation {
    Create,
    Open,
    Rename,
    Remove,
    HardLink,
    Exists,
    List,
    CreateDirAll,
    SyncDir,
    Lock,
    Append,
    Flush,
    Sync,
    ReadExactAt,
}

/// Operations there are.
const OPERATIONS: usize = Operation::ReadExactAt as usize + 1;

impl Operation {
    /// Whether the call can change what a crash leaves.
    pub fn is_change(self) -> bool {
        use Operation::*;
        !matches!(self, Open | Exists | List | ReadExactAt)
    }

    fn verb(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Open => "open",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::HardLink => "link",
            Operation::Exists => "look up",
            Operation::List => "list",
            Operation::CreateDirAll => "create the directory",
            Operation::SyncDir => "sync the directory",
            Operation::Lock => "lock",
            Operation::Append | Operation::Flush => "write",
            Operation::Sync => "sync",
            Operation::ReadExactAt => "read",
        }
    }
}

/// Which calls are counted and may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Every call.
    Any,
    /// Every call for which [`Operation::is_change`] holds.
    Changes,
    /// The calls of one kind.
    Only(Operation),
}

impl Target {
    fn includes(self, operation: Operation) -> bool {
        match self {
            Target::Any => true,
            Target::Changes => operation.is_change(),
            Target::Only(only) => only == operation,
        }
    }
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the device reports an error (EIO).
    Io,
    /// Nothing happens, since no space is left (ENOSPC).
    NoSpace,
    /// An append writes the first half of its bytes before no space is left. As `NoSpace` on every
    /// other call.
    ShortWrite,
}

impl Fault {
    fn error(self, operation: Operation, path: &Path) -> Error {
        const EIO: i32 = 5;
        const ENOSPC: i32 = 28;
        let code = if self == Fault::Io { EIO } else { ENOSPC };
        Error::io(path, operation.verb(), io::Error::from_raw_os_error(code))
    }
}

/// Wraps a file system and fails the calls it was told to. Clones share the instructions.
#[derive(Debug, Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    control: Arc<Control>,
}

impl FaultFs {
    /// Passes every call to `inner` until told otherwise.
    pub fn new(inner: Arc<dyn Fs>) -> FaultFs {
        FaultFs { inner, control: Arc::default() }
    }

    /// The call that comes after `nth` more calls of `target` fails; 0 is the next one.
    pub fn fail_once(&self, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end: "", calls_before: nth, forever: false, fault });
    }

    /// As [`FaultFs::fail_once`], and every call of `target` after that fails, too.
    pub fn fail_from(&self, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end: "", calls_before: nth, forever: true, fault });
    }

    /// As [`FaultFs::fail_from`], but only calls for files whose names end in `name_end` are counted
    /// and fail.
    pub fn fail_files_from(&self, name_end: &'static str, target: Target, nth: u64, fault: Fault) {
        self.add(Rule { target, name_end, calls_before: nth, forever: true, fault });
    }

    fn add(&self, rule: Rule) {
        self.control.state().rules.push(rule);
    }

    /// No further call fails: the disk has space again, the device is back.
    pub fn heal(&self) {
        self.control.state().rules.clear();
    }

    /// Calls made so far, the failed ones included.
    pub fn calls(&self, target: Target) -> u64 {
        self.control.state().calls(target)
    }

    /// Calls that were made to fail so far.
    pub fn faults(&self) -> u64 {
        self.control.state().faults
    }

    /// Calls `hook` before every call that can change what a crash leaves, with the number of such
    /// calls before it. The hook may make an image of the file system beneath; what it does through
    /// this one would call it again.
    pub fn before_changes(&self, hook: impl Fn(u64, Operation, &Path) + Send + Sync + 'static) {
        self.control.state().hook = Some(Hook(Arc::new(hook)));
    }
}

#[derive(Debug, Default)]
struct Control {
    state: Mutex<FaultState>,
}

#[derive(Debug, Default)]
struct FaultState {
    calls_of: [u64; OPERATIONS],
    changes: u64,
    rules: Vec<Rule>,
    faults: u64,
    hook: Option<Hook>,
}

#[derive(Debug)]
struct Rule {
    target: Target,
    /// What the names of the files end in; "": any.
    name_end: &'static str,
    calls_before: u64,
    forever: bool,
    fault: Fault,
}

type HookFn = dyn Fn(u64, Operation, &Path) + Send + Sync;

#[derive(Clone)]
struct Hook(Arc<HookFn>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl FaultState {
    fn calls(&self, target: Target) -> u64 {
        match target {
            Target::Any => self.calls_of.iter().sum(),
            Target::Changes => self.changes,
            Target::Only(operation) => self.calls_of[operation as usize],
        }
    }

    /// The fault that the rules have for this call.
    fn fault(&mut self, operation: Operation, path: &Path) -> Option<Fault> {
        let mut fault = None;
        self.rules.retain_mut(|rule| {
            let is_named = path.as_os_str().as_encoded_bytes().ends_with(rule.name_end.as_bytes());
            if !rule.target.includes(operation) || !is_named {
                return true;
            }
            if rule.calls_before > 0 {
                rule.calls_before -= 1;
                return true;
            }
            fault = Some(rule.fault);
            rule.forever
        });
        self.faults += u64::from(fault.is_some());
        fault
    }
}

impl Control {
    fn state(&self) -> MutexGuard<'_, FaultState> {
        lock(&self.state)
    }

    /// Counts the call and decides whether it goes through.
    fn decide(&self, operation: Operation, path: &Path) -> Result<(), Fault> {
        let mut state = self.state();
        state.calls_of[operation as usize] += 1;
        if operation.is_change() {
            let before = state.changes;
            state.changes += 1;
            if let Some(Hook(hook)) = state.hook.clone() {
                // The hook may be slow and may ask for the counts.
                drop(state);
                hook(before, operation, path);
                state = self.state();
            }
        }
        state.fault(operation, path).map_or(Ok(()), Err)
    }

    fn admit(&self, operation: Operation, path: &Path) -> Result<()> {
        self.decide(operation, path).map_err(|fault| fault.error(operation, path))
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

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.control.admit(Operation::Lock, path)?;
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct FaultWritableFile {
    inner: Box<dyn WritableFile>,
    control: Arc<Control>,
    sync_failed: bool,
}

impl WritableFile for FaultWritableFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self.control.decide(Operation::Append, self.inner.path()) {
            Ok(()) => self.inner.append(bytes),
            Err(fault) => {
                if fault == Fault::ShortWrite {
                    self.inner.append(&bytes[..bytes.len() / 2])?;
                    self.inner.flush()?;
                }
                Err(fault.error(Operation::Append, self.inner.path()))
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.control.admit(Operation::Flush, self.inner.path())?;
        self.inner.flush()
    }

    fn discard_unflushed(&mut self) {
        self.inner.discard_unflushed();
    }

    fn sync(&mut self) -> Result<()> {
        let admitted = self.control.admit(Operation::Sync, self.inner.path());
        self.sync_failed |= admitted.is_err();
        admitted?;
        // The pages of the failed sync are marked clean: there is nothing to sync any more.
        if self.sync_failed { self.inner.flush() } else { self.inner.sync() }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

#[derive(Debug)]
struct FaultRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    control: Arc<Control>,
}

impl RandomAccessFile for FaultRandomAccessFile {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.control.admit(Operation::ReadExactAt, self.inner.path())?;
        self.inner.read_exact_at(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn keep_open(&self) -> Result<bool> {
        self.inner.keep_open()
    }

    fn drop_page_cache(&self) -> Result<()> {
        self.inner.drop_page_cache()
    }
}
