//! Which calls fail, and how: the rules, the counts and the hook of a [`FaultFs`].
//!
//! [`FaultFs`]: super::FaultFs

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use crate::error::{Error, NO_DESCRIPTORS, Result};
use crate::fs::system;
use crate::sync::{Mutex, MutexGuard, lock, rank};

/// A kind of call.
///
/// ```
/// use maypole::fs::Operation;
///
/// assert!(Operation::Sync.is_change() && !Operation::ReadExactAt.is_change());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    FreeBytes,
    Lock,
    Append,
    Flush,
    Sync,
    ReadExactAt,
}

const OPERATIONS: usize = Operation::ReadExactAt as usize + 1;

impl Operation {
    /// Whether calls of this kind can change the files and names that are left after a crash.
    pub fn is_change(self) -> bool {
        use Operation::*;
        !matches!(self, Open | Exists | List | FreeBytes | ReadExactAt)
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
            Operation::FreeBytes => "look up the free space of",
            Operation::Lock => "lock",
            Operation::Append | Operation::Flush => "write",
            Operation::Sync => "sync",
            Operation::ReadExactAt => "read",
        }
    }
}

/// A set of calls, which are counted or made to fail.
///
/// ```
/// use maypole::fs::{FaultFs, Fs, MemFs, Operation, Target};
/// use std::{path::Path, sync::Arc};
///
/// let fs = FaultFs::new(Arc::new(MemFs::new()));
/// fs.exists(Path::new("a"))?;
/// fs.create(Path::new("a"))?;
/// assert_eq!((fs.calls(Target::Any), fs.calls(Target::Changes)), (2, 1));
/// assert_eq!(fs.calls(Target::Only(Operation::Create)), 1);
/// # Ok::<(), maypole::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
///
/// ```
/// use maypole::fs::{Fault, FaultFs, Fs, MemFs, Target};
/// use std::{path::Path, sync::Arc};
///
/// let fs = FaultFs::new(Arc::new(MemFs::new()));
/// fs.fail_once(Target::Any, 0, Fault::NoSpace);
/// assert!(fs.create(Path::new("a")).unwrap_err().is_out_of_space());
/// assert!(fs.create(Path::new("a")).is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The call does nothing; the device reports an error (EIO).
    Io,
    /// The call does nothing; no space is left (ENOSPC).
    NoSpace,
    /// The call does nothing; the process has no descriptor left (EMFILE).
    NoDescriptors,
    /// The call does nothing; there is not enough memory (ENOMEM).
    NoMemory,
    /// An append writes the first half of its bytes before it fails, because no space is left.
    /// Every other call fails as with `NoSpace`.
    ShortWrite,
    /// The call does nothing, because the file system cannot do it, for example make a hard link.
    Unsupported,
}

impl Fault {
    pub(super) fn error(self, operation: Operation, path: &Path) -> Error {
        let error = match self {
            Fault::Io => io::Error::from_raw_os_error(system::DEVICE_ERROR),
            Fault::NoSpace | Fault::ShortWrite => io::Error::from_raw_os_error(system::NO_SPACE),
            Fault::NoDescriptors => io::Error::from_raw_os_error(NO_DESCRIPTORS[0]),
            Fault::NoMemory => io::ErrorKind::OutOfMemory.into(),
            Fault::Unsupported => io::ErrorKind::Unsupported.into(),
        };
        Error::io(path, operation.verb(), error)
    }
}

#[derive(Debug, Default)]
pub(super) struct Control {
    state: Mutex<FaultState, rank::Faults>,
}

#[derive(Debug, Default)]
pub(super) struct FaultState {
    calls_of: [u64; OPERATIONS],
    changes: u64,
    pub(super) rules: Vec<Rule>,
    pub(super) faults: u64,
    /// The calls before which the hook runs, and the hook.
    pub(super) hook: Option<(Target, Hook)>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) target: Target,
    /// The rule applies to paths that end in this string. The empty string stands for all paths.
    pub(super) name_end: &'static str,
    pub(super) calls_before: u64,
    pub(super) forever: bool,
    pub(super) fault: Fault,
}

type HookFn = dyn Fn(u64, Operation, &Path) + Send + Sync;

#[derive(Clone)]
pub(super) struct Hook(pub Arc<HookFn>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl FaultState {
    pub(super) fn calls(&self, target: Target) -> u64 {
        match target {
            Target::Any => self.calls_of.iter().sum(),
            Target::Changes => self.changes,
            Target::Only(operation) => self.calls_of[operation as usize],
        }
    }

    /// Counts the call in every rule that applies to it. Returns the fault if a rule makes the call
    /// fail, and removes this rule if it fails only one call.
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
    pub(super) fn state(&self) -> MutexGuard<'_, FaultState, rank::Faults> {
        lock(&self.state)
    }

    /// Counts the call and decides whether it succeeds.
    pub(super) fn decide(&self, operation: Operation, path: &Path) -> Result<(), Fault> {
        let mut state = self.state();
        let hook = state.hook.clone().filter(|(target, _)| target.includes(operation));
        let hook = hook.map(|(target, hook)| (state.calls(target), hook));
        state.calls_of[operation as usize] += 1;
        state.changes += u64::from(operation.is_change());
        if let Some((before, Hook(hook))) = hook {
            // The lock is released first, because the hook may be slow and may read the counts,
            // which takes the lock.
            drop(state);
            hook(before, operation, path);
            state = self.state();
        }
        state.fault(operation, path).map_or(Ok(()), Err)
    }

    pub(super) fn admit(&self, operation: Operation, path: &Path) -> Result<()> {
        self.decide(operation, path).map_err(|fault| fault.error(operation, path))
    }
}
