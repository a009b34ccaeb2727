//! The calls of a run, as data: a program that can be shortened, printed and run again.
//!
//! Each program without some of its operations is a program too. Whatever an operation refers to (a
//! snapshot, a cursor) is named by a number that is taken modulo the number of those that exist, and
//! an operation that finds none does nothing.

use maypole::fs::{Fault, Operation as Call};

use super::disks::Kind;
use super::keys::{Form, Key, Value};
use super::model::Write;
use super::settings::Settings;
use super::spaces::Space;

/// A whole run.
#[derive(Debug, Clone)]
pub struct Program {
    pub seed: u64,
    pub disk: Kind,
    pub form: Form,
    pub keys: u32,
    /// Whether each operation waits until compactions have ended, so that the run is the same each
    /// time.
    pub is_calm: bool,
    /// Of the first opening.
    pub settings: Settings,
    pub operations: Vec<Operation>,
}

/// How the store is left before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    Close,
    /// Two threads close it, the second while the first is syncing.
    CloseTwice,
    Drop,
    /// The process is killed.
    Kill,
    /// The power fails, and, if `again`, fails once more right after the recovery. On a real file
    /// system the process is killed instead.
    LosePower {
        seed: u64,
        again: bool,
    },
    /// The store is closed, its CURRENT or also its MANIFEST is lost, and it is repaired.
    Repair {
        loses_current: bool,
        loses_manifest: bool,
    },
    /// The store is copied, closed and destroyed. What follows happens to the copy.
    Copy(Copying),
}

/// A way to copy a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    Checkpoint,
    /// With the filters of this policy.
    WithFilters(&'static str),
    /// An export to RocksDB, and an import of that.
    ThroughRocksDb,
}

/// What a writer does while something else goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Write(Write),
    Batch {
        writes: Vec<Write>,
        sync: bool,
    },
    Flush,
    CompactAll,
    ApplyFilters,
    /// Creates a keyspace, unless there is one of this name.
    Create(Space),
    /// Drops a keyspace, if there is one of this name. It is not the one in use.
    Drop(Space),
}

/// What one of several threads does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Act(Act),
    /// Reads the whole content of a new snapshot.
    Look,
}

/// A step of a transaction, or what somebody else does at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The steps that follow, also those of somebody else, go to another of the keyspaces that are
    /// open.
    Turn(usize),
    Get(Key),
    /// Reads at most `most` entries of a range, from one of its ends.
    Scan {
        from: Key,
        to: Key,
        most: usize,
        backward: bool,
    },
    Write(Write),
    /// Takes the first entry, or the last.
    Pop {
        last: bool,
    },
    Meanwhile(Act),
}

/// A step to the right or to the left of a cursor or an iterator.
pub type Steps = Vec<bool>;

#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    // Writes.
    Put(Key, Value),
    Delete(Key),
    DeleteRange(Key, Key),
    Batch {
        writes: Vec<Write>,
        sync: bool,
    },
    /// Puts `count` values, the first to key `first` and each next one `step` keys further.
    Fill {
        first: Key,
        step: u32,
        count: u32,
        value: Value,
    },
    /// Deletes `count` keys, one by one.
    DeleteEach {
        first: Key,
        step: u32,
        count: u32,
    },
    PopFirst,
    PopLast,
    /// Swaps the value of a key, from the current value or from one that it does not have.
    Swap {
        key: Key,
        new: Option<Value>,
        expects_current: bool,
    },
    /// Updates a key by a closure. Meanwhile, another write may change the key.
    Update {
        key: Key,
        new: Option<Value>,
        meanwhile: Option<Write>,
    },
    /// Lets the operations that follow go to this keyspace, which gets these options.
    Use {
        space: Space,
        settings: Settings,
    },
    DropSpace(Space),
    /// A batch to several of the keyspaces that are open.
    Across {
        writes: Vec<(Space, Write)>,
        sync: bool,
    },
    /// A transaction, which ends with its commit.
    Transact(Vec<Step>),
    Persist,
    /// Threads that work at the same time, each with its turns. No key is written by two of them.
    Together(Vec<Vec<Turn>>),
    /// Ingests these files in one call.
    Ingest(Vec<Vec<Write>>),

    // Work on the tree.
    Flush,
    CompactRange(Key, Key),
    CompactAll,
    ApplyFilters,
    Record,
    Wait,
    WarmUp,
    Verify,

    // What outlives later changes.
    Snapshot,
    Release(usize),
    HoldCursor {
        start: Key,
    },
    MoveCursor {
        which: usize,
        steps: Steps,
    },
    DropCursor(usize),
    /// Makes an iterator of a range, with bounds of one of the forms, of which nothing is read yet.
    HoldIterator {
        from: Key,
        to: Key,
        form: usize,
        snapshot: Option<usize>,
    },
    MoveIterator {
        which: usize,
        steps: Steps,
    },
    DropIterator(usize),

    // Reads, of the current state or of a snapshot.
    Get {
        key: Key,
        snapshot: Option<usize>,
    },
    MultiGet {
        keys: Vec<Key>,
        snapshot: Option<usize>,
    },
    Ends,
    /// An iterator of a range, from both of its ends.
    Range {
        from: Key,
        to: Key,
        form: usize,
        steps: Steps,
        snapshot: Option<usize>,
    },
    /// All keys that start with the first `length` bytes of `key`.
    Prefix {
        key: Key,
        length: usize,
        snapshot: Option<usize>,
    },
    /// A cursor that changes its direction.
    Walk {
        start: Key,
        backward: bool,
        steps: Steps,
        snapshot: Option<usize>,
    },
    /// The whole content, by every kind of read, and that of everything held.
    Check,

    // Other handles and copies.
    /// Opens the directory read-only. Before its n-th call to the file system the writer acts.
    Read {
        acts: Vec<(u32, Act)>,
        hold: bool,
        settings: Settings,
    },
    DropReader(usize),
    /// Copies the store while another thread acts. The copy is opened with these settings.
    Checkpoint {
        acts: Vec<Act>,
        settings: Settings,
    },
    Copy(Copying),

    // Trouble.
    /// The `nth` next call of this kind fails, or all calls from that one on.
    Fail {
        call: Option<Call>,
        nth: u64,
        fault: Fault,
        forever: bool,
    },
    /// Other files take the disk, if it has a capacity, except for so many bytes.
    LeaveFree(u64),
    /// Calls succeed, and there is space.
    Heal,
    Reopen(Leave, Settings),
}

impl Act {
    /// What it changes, if it is a write.
    pub fn writes(&self) -> Option<Vec<Write>> {
        match self {
            Act::Write(write) => Some(vec![*write]),
            Act::Batch { writes, .. } => Some(writes.clone()),
            _ => None,
        }
    }

    /// Whether everything written before is durable afterwards.
    pub fn syncs(&self) -> bool {
        matches!(self, Act::Flush | Act::Batch { sync: true, .. })
    }
}

impl Operation {
    /// Whether it may create a keyspace.
    pub fn creates_spaces(&self) -> bool {
        let creates = |act: &Act| matches!(act, Act::Create(_));
        match self {
            Operation::Use { .. } => true,
            Operation::Read { acts, .. } => acts.iter().any(|(_, act)| creates(act)),
            Operation::Checkpoint { acts, .. } => acts.iter().any(creates),
            _ => false,
        }
    }

    /// How many calls the operation stands for.
    pub fn size(&self) -> u64 {
        match self {
            Operation::Fill { count, .. } | Operation::DeleteEach { count, .. } => {
                u64::from(*count)
            }
            Operation::Range { steps, .. }
            | Operation::Walk { steps, .. }
            | Operation::MoveCursor { steps, .. }
            | Operation::MoveIterator { steps, .. } => steps.len() as u64,
            Operation::Transact(steps) => steps.len() as u64,
            Operation::Together(threads) => threads.iter().map(|turns| turns.len() as u64).sum(),
            _ => 1,
        }
    }

    /// Operations that do less, from the smallest on.
    pub fn simpler(&self) -> Vec<Operation> {
        fn without<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
            let mut lists = Vec::new();
            let mut piece = list.len().div_ceil(2);
            while piece > 0 && list.len() > 1 {
                for start in (0..list.len()).step_by(piece) {
                    let end = (start + piece).min(list.len());
                    lists.push([&list[..start], &list[end..]].concat());
                }
                piece /= 2;
            }
            lists
        }
        let smaller = |count: u32| [1, count / 8, count / 2, count.saturating_sub(1)];
        match self.clone() {
            Operation::Transact(steps) => {
                without(&steps).into_iter().map(Operation::Transact).collect()
            }
            Operation::Batch { writes, sync } => without(&writes)
                .into_iter()
                .map(|writes| Operation::Batch { writes, sync })
                .chain(match writes[..] {
                    [Write::Put(key, value)] => Some(Operation::Put(key, value)),
                    [Write::Delete(key)] => Some(Operation::Delete(key)),
                    [Write::DeleteRange(from, to)] => Some(Operation::DeleteRange(from, to)),
                    _ => None,
                })
                .collect(),
            Operation::Across { writes, sync } => {
                let fewer = without(&writes).into_iter();
                fewer.map(|writes| Operation::Across { writes, sync }).collect()
            }
            Operation::Use { space, settings } => {
                let plain = settings.simpler().into_iter();
                plain.map(|settings| Operation::Use { space, settings }).collect()
            }
            Operation::Fill { first, step, count, value } => {
                let mut all: Vec<_> = (smaller(count).into_iter())
                    .filter(|&fewer| fewer > 0 && fewer < count)
                    .map(|count| Operation::Fill { first, step, count, value })
                    .collect();
                if count == 1 {
                    all.push(Operation::Put(first, value));
                }
                let small = Value { length: 8, ..value };
                if small.length < value.length {
                    all.push(Operation::Fill { first, step, count, value: small });
                }
                all
            }
            Operation::DeleteEach { first, step, count } => (smaller(count).into_iter())
                .filter(|&fewer| fewer > 0 && fewer < count)
                .map(|count| Operation::DeleteEach { first, step, count })
                .chain((count == 1).then_some(Operation::Delete(first)))
                .collect(),
            Operation::Ingest(files) => {
                let mut all: Vec<_> = without(&files).into_iter().map(Operation::Ingest).collect();
                for (index, file) in files.iter().enumerate() {
                    all.extend(without(file).into_iter().map(|file| {
                        let mut files = files.clone();
                        files[index] = file;
                        Operation::Ingest(files)
                    }));
                }
                all
            }
            Operation::Together(threads) => {
                let mut all: Vec<_> =
                    without(&threads).into_iter().map(Operation::Together).collect();
                for (index, turns) in threads.iter().enumerate() {
                    all.extend(without(turns).into_iter().map(|turns| {
                        let mut threads = threads.clone();
                        threads[index] = turns;
                        Operation::Together(threads)
                    }));
                }
                all
            }
            Operation::MoveCursor { which, steps } => (without(&steps).into_iter())
                .map(|steps| Operation::MoveCursor { which, steps })
                .collect(),
            Operation::MoveIterator { which, steps } => (without(&steps).into_iter())
                .map(|steps| Operation::MoveIterator { which, steps })
                .collect(),
            Operation::Read { acts, hold, settings } => {
                let fewer = without(&acts).into_iter();
                let fewer = fewer.map(|acts| Operation::Read { acts, hold, settings });
                let plain = settings.simpler().into_iter();
                let acts = acts.clone();
                fewer
                    .chain(plain.map(move |settings| Operation::Read {
                        acts: acts.clone(),
                        hold,
                        settings,
                    }))
                    .collect()
            }
            Operation::Reopen(leave, settings) => {
                let mut all = Vec::new();
                if leave != Leave::Close {
                    all.push(Operation::Reopen(Leave::Close, settings));
                }
                all.extend(settings.simpler().into_iter().map(|s| Operation::Reopen(leave, s)));
                all
            }
            Operation::Checkpoint { acts, settings } => {
                let plain = settings.simpler().into_iter();
                let plain = plain.map(|settings| (acts.clone(), settings));
                let fewer = without(&acts).into_iter().map(|acts| (acts, settings));
                let none = (!acts.is_empty()).then_some((Vec::new(), settings));
                (none.into_iter().chain(fewer).chain(plain))
                    .map(|(acts, settings)| Operation::Checkpoint { acts, settings })
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}
