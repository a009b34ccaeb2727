//! A store under test beside its model: executes the operations of a program.
//!
//! **Errors.** A call may return an error only if a call to the file system was made to fail since
//! the last opening, or if the disk is full. A write that returned an error is doubtful from then on
//! (see `model.rs`), unless there was no space. In this state too, whatever a read returns is right.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use maypole::table::SstWriter;
use maypole::{Db, Durability, Error, LookupRecording, Result, Snapshot, Ticker, WriteBatch};
use tempfile::TempDir;

use super::disks::Disk;
use super::held::{HeldCursor, HeldIterator};
use super::keys::{Key, Universe, Value};
use super::model::{MAX_DOUBTFUL, Map, Model, Write};
use super::operation::{Leave, Operation, Program};
use super::patience::Patience;
use super::settings::Settings;
use super::spaces::Space;

/// What a run has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub operations: u64,
    pub comparisons: u64,
}

pub struct Store {
    pub(super) keys: Universe,
    pub(super) disk: Disk,
    pub(super) db: Option<Db>,
    /// Whether the program ever uses a keyspace other than `default`.
    pub(super) has_spaces: bool,
    /// The keyspace in use.
    pub(super) space: Space,
    /// Those that are open, other than `default`, and the filters of those whose filter is known.
    pub(super) handles: BTreeMap<Space, Db>,
    pub(super) filters: BTreeMap<Space, &'static str>,
    /// Handles of dropped keyspaces, each with what it shows.
    pub(super) dropped: Vec<(Db, Map)>,
    pub(super) settings: Settings,
    pub(super) model: Model,
    pub(super) snapshots: Vec<(Snapshot, Map)>,
    pub(super) cursors: Vec<HeldCursor>,
    pub(super) iterators: Vec<HeldIterator>,
    /// Handles that were opened read-only, each with the state that it shows.
    pub(super) readers: Vec<(Db, Map)>,
    /// Calls that had failed at the last opening.
    pub(super) faults_at_opening: u64,
    /// The recording of lookups, and where its file is.
    pub(super) recording: Option<(LookupRecording, TempDir)>,
    is_calm: bool,
    pub tally: Tally,
}

/// A call of `wait_for_compaction` fails the run if it takes longer than this, or if more
/// compactions than [`MOST_COMPACTIONS`] run meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// Far more than any tree of a run needs to settle.
const MOST_COMPACTIONS: u64 = 1000;

/// The item that `number` refers to: see `operation.rs`.
pub(super) fn pick<T>(items: &[T], number: usize) -> Option<usize> {
    (!items.is_empty()).then(|| number % items.len())
}

impl Store {
    pub fn new(program: &Program) -> Store {
        let fails = !program.seed.is_multiple_of(3);
        let mut store = Store {
            keys: Universe::new(program.form, program.keys),
            disk: Disk::new(program.disk, fails),
            db: None,
            has_spaces: program.operations.iter().any(Operation::creates_spaces),
            space: 0,
            handles: BTreeMap::new(),
            filters: BTreeMap::new(),
            dropped: Vec::new(),
            settings: program.settings,
            model: Model::default(),
            snapshots: Vec::new(),
            cursors: Vec::new(),
            iterators: Vec::new(),
            readers: Vec::new(),
            faults_at_opening: 0,
            recording: None,
            is_calm: program.is_calm,
            tally: Tally::default(),
        };
        store.open();
        store
    }

    /// Whether any call may return an error.
    pub(super) fn has_faults(&self) -> bool {
        self.disk.faults() > self.faults_at_opening
    }

    /// Whether calls that write may return errors.
    pub(super) fn is_troubled(&self) -> bool {
        self.has_faults() || self.disk.is_full()
    }

    /// Panics if nothing is the cause of the error. A full disk makes nothing read-only.
    pub(super) fn expect_error(&self, error: &Error) {
        let is_lack = error.is_out_of_space() && !matches!(error, Error::ReadOnly(_));
        let has_cause = self.has_faults() || (self.disk.is_full() && is_lack);
        assert!(has_cause, "an error without a cause: {error}");
    }

    /// Executes an operation; panics where the store and the model differ.
    pub fn execute(&mut self, operation: &Operation) {
        self.tally.operations += operation.size();
        let mut done = self.attempt(operation);
        if done.is_ok() && self.is_calm {
            done = self.settle();
        }
        if let Err(error) = done {
            self.expect_error(&error);
            if self.model.doubtful() >= MAX_DOUBTFUL {
                self.reopen(Leave::Close, self.settings);
            }
        }
    }

    fn attempt(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            &Operation::Put(key, value) => {
                let bytes = self.keys.bytes(key);
                let done = self.db().put(bytes, value.bytes());
                self.wrote(vec![Write::Put(key, value)], done)
            }
            &Operation::Delete(key) => self.delete(key),
            &Operation::DeleteRange(from, to) => {
                let done = self.db().delete_range(deleted(&self.keys, from, to));
                self.wrote(vec![Write::DeleteRange(from, to)], done)
            }
            Operation::Batch { writes, sync } => self.batch(writes, *sync),
            Operation::Use { space, settings } => self.use_space(*space, settings),
            &Operation::DropSpace(space) => self.drop_space(space),
            Operation::Across { writes, sync } => self.across(writes, *sync),
            &Operation::Fill { first, step, count, value } => (0..count).try_for_each(|i| {
                let key = (first + step * i) % self.keys.count();
                let value = super::keys::Value { number: value.number + i, ..value };
                let done = self.db().put(self.keys.bytes(key), value.bytes());
                self.wrote(vec![Write::Put(key, value)], done)
            }),
            &Operation::DeleteEach { first, step, count } => {
                (0..count).try_for_each(|i| self.delete((first + step * i) % self.keys.count()))
            }
            Operation::PopFirst | Operation::PopLast => self.pop(operation),
            &Operation::Swap { key, new, expects_current } => self.swap(key, new, expects_current),
            &Operation::Update { key, new, meanwhile } => self.update(key, new, meanwhile),
            Operation::Transact(steps) => self.transact(steps),
            Operation::Persist => {
                self.db().persist()?;
                self.model.sync();
                Ok(())
            }
            Operation::Together(threads) => self.together(threads),
            Operation::Ingest(files) => self.ingest(files),
            Operation::Flush => {
                self.db().flush()?;
                self.model.sync();
                Ok(())
            }
            &Operation::CompactRange(from, to) => {
                self.db().compact_range(self.keys.bytes(from)..self.keys.bytes(to))
            }
            Operation::CompactAll => {
                self.db().compact_all()?;
                if !self.has_spaces {
                    self.model.forget_touched();
                }
                Ok(())
            }
            Operation::ApplyFilters => self.apply_filters(),
            Operation::Record => self.record(),
            Operation::Wait => self.settle(),
            Operation::WarmUp => self.db().warm_up().map(drop),
            Operation::Verify => self.verify(),
            Operation::Snapshot => {
                let held = (self.db().snapshot(), self.model.now().clone());
                self.snapshots.push(held);
                Ok(())
            }
            &Operation::Release(which) => {
                if let Some(which) = pick(&self.snapshots, which) {
                    self.snapshots.swap_remove(which);
                }
                Ok(())
            }
            &Operation::HoldCursor { start } => self.hold_cursor(start),
            Operation::MoveCursor { which, steps } => self.move_cursor(*which, steps),
            &Operation::DropCursor(which) => {
                if let Some(which) = pick(&self.cursors, which) {
                    self.cursors.swap_remove(which);
                }
                Ok(())
            }
            &Operation::HoldIterator { from, to, form, snapshot } => {
                self.hold_iterator((from, to), form, snapshot)
            }
            Operation::MoveIterator { which, steps } => self.move_iterator(*which, steps),
            &Operation::DropIterator(which) => {
                if let Some(which) = pick(&self.iterators, which) {
                    self.iterators.swap_remove(which);
                }
                Ok(())
            }
            Operation::Check => self.check(),
            Operation::Read { acts, hold, settings } => self.read(acts, *hold, settings),
            &Operation::DropReader(which) => {
                if let Some(which) = pick(&self.readers, which) {
                    self.readers.swap_remove(which);
                }
                Ok(())
            }
            Operation::Checkpoint { acts, settings } => self.checkpoint(acts, settings),
            &Operation::Copy(copying) => self.look_at_copy(copying),
            &Operation::Fail { call, nth, fault, forever } => {
                self.disk.fail(call, nth, fault, forever);
                Ok(())
            }
            &Operation::LeaveFree(bytes) => {
                self.disk.leave_free(bytes);
                Ok(())
            }
            Operation::Heal => self.heal(),
            &Operation::Reopen(leave, settings) => {
                self.reopen(leave, settings);
                Ok(())
            }
            read => self.look(read),
        }
    }

    /// Notes a write to the keyspace in use in the model.
    pub(super) fn wrote(&mut self, writes: Vec<Write>, done: Result<()>) -> Result<()> {
        let base = self.keys.base(self.space);
        self.wrote_in_all(writes.into_iter().map(|write| write.above(base)).collect(), done)
    }

    /// Notes a write in the model, with the numbers of the model.
    pub(super) fn wrote_in_all(&mut self, writes: Vec<Write>, done: Result<()>) -> Result<()> {
        match &done {
            Ok(()) => self.model.write(writes),
            Err(error) => self.failed(writes, error),
        }
        done
    }

    pub(super) fn failed(&mut self, writes: Vec<Write>, error: &Error) {
        if !Store::is_harmless(error) {
            self.model.doubt(writes);
        }
    }

    /// Whether a write that returned this error has certainly not happened: the call was rejected
    /// before it wrote anything, or there was no space.
    pub(super) fn is_harmless(error: &Error) -> bool {
        matches!(error, Error::ReadOnly(_)) || error.is_out_of_space()
    }

    fn delete(&mut self, key: Key) -> Result<()> {
        let done = self.db().delete(self.keys.bytes(key));
        self.wrote(vec![Write::Delete(key)], done)
    }

    fn batch(&mut self, writes: &[Write], sync: bool) -> Result<()> {
        let done = write_batch(self.db(), &self.keys, writes, sync);
        self.wrote(writes.to_vec(), done)?;
        if sync {
            self.model.sync();
        }
        Ok(())
    }

    fn pop(&mut self, operation: &Operation) -> Result<()> {
        let now = self.now();
        let mut keys = now.keys();
        let (expected, popped) = match operation {
            Operation::PopFirst => (keys.next().copied(), self.db().pop_first()),
            _ => (keys.next_back().copied(), self.db().pop_last()),
        };
        drop(now);
        let writes = expected.map(Write::Delete).into_iter().collect();
        match popped {
            Ok(popped) => {
                let popped = popped.and_then(|(key, _)| self.keys.find(&key));
                assert_eq!(popped, expected, "{operation:?}");
                self.wrote(writes, Ok(()))
            }
            Err(error) => self.wrote(writes, Err(error)),
        }
    }

    fn swap(&mut self, key: Key, new: Option<Value>, expects_current: bool) -> Result<()> {
        let number = self.keys.base(self.space) + key;
        let current = self.model.now().get(&number).map(Value::bytes);
        let other = current.is_none().then(|| b"a value that no key has".to_vec());
        let expected = if expects_current { &current } else { &other };
        let bytes = new.as_ref().map(Value::bytes);
        match self.db().compare_and_swap(self.keys.bytes(key), expected.as_ref(), bytes) {
            Ok(swapped) => {
                let found = swapped.err().map(|error| error.current.map(|found| found.to_vec()));
                assert_eq!(found, (!expects_current).then_some(current), "compare_and_swap");
                match expects_current {
                    true => self.wrote(set(key, new), Ok(())),
                    false => Ok(()),
                }
            }
            Err(error) if expects_current => self.wrote(set(key, new), Err(error)),
            Err(error) => Err(error),
        }
    }

    /// The closure must see the current value, and after it that of the write that came between. An
    /// update that finds no value and leaves none has no effect, so it comes before that write.
    fn update(&mut self, key: Key, new: Option<Value>, mut meanwhile: Option<Write>) -> Result<()> {
        let (db, bytes) = (self.db().clone(), self.keys.bytes(key).to_vec());
        let (mut failed, mut has_effect) = (Ok(()), true);
        let number = self.keys.base(self.space) + key;
        let updated = db.fetch_update(bytes, |seen| {
            has_effect = seen.is_some() || new.is_some();
            let current = self.model.now().get(&number).map(Value::bytes);
            // A write that failed may have happened.
            assert!(failed.is_err() || seen == current.as_deref(), "fetch_update");
            if let Some(write) = meanwhile.take() {
                let done = write_batch(&db, &self.keys, &[write], false);
                failed = self.wrote(vec![write], done);
            }
            new.as_ref().map(Value::bytes)
        });
        let writes = if has_effect { set(key, new) } else { Vec::new() };
        let done = self.wrote(writes, updated.map(drop));
        failed.and(done)
    }

    /// Writes tables as another program would, and ingests them in one call.
    fn ingest(&mut self, files: &[Vec<Write>]) -> Result<()> {
        let mut paths = Vec::new();
        let mut all = Vec::new();
        for writes in files.iter().filter(|writes| !writes.is_empty()) {
            let path = self.disk.fresh("in").with_extension("sst");
            self.write_table(&path, writes)?;
            paths.push(path);
            // A range deletion of a file hides older entries, and none of its own.
            let is_range = |write: &&Write| matches!(write, Write::DeleteRange(..));
            all.extend(writes.iter().filter(is_range));
            all.extend(writes.iter().filter(|write| !is_range(write)));
        }
        if paths.is_empty() {
            return Ok(());
        }
        let done = self.db().ingest(&paths);
        self.wrote(all, done)?;
        self.model.sync();
        paths.iter().try_for_each(|path| self.disk.fs().remove(path))
    }

    fn write_table(&self, path: &std::path::Path, writes: &[Write]) -> Result<()> {
        let fs = std::sync::Arc::clone(self.disk.fs());
        let mut writer = SstWriter::create_in(fs, path, self.settings.of_table())?;
        for write in writes {
            match *write {
                Write::Put(key, value) => writer.put(self.keys.bytes(key), &value.bytes())?,
                Write::Delete(key) => writer.delete(self.keys.bytes(key))?,
                Write::DeleteRange(from, to) => {
                    writer.delete_range(self.keys.bytes(from), self.keys.bytes(to))?;
                }
            }
        }
        writer.finish().map(drop)
    }

    /// Waits until no compaction is due in any keyspace, which must come to an end.
    pub(super) fn settle(&self) -> Result<()> {
        self.open_spaces().iter().try_for_each(|(_, db)| self.settle_one(db))
    }

    fn settle_one(&self, db: &Db) -> Result<()> {
        let (sender, receiver) = mpsc::channel();
        let waiting = db.clone();
        let waiter = thread::spawn(move || {
            let done = waiting.wait_for_compaction();
            drop(waiting);
            // If the receiver is gone, nobody waits any more.
            drop(sender.send(done));
        });
        let patience = Patience::new(PATIENCE);
        let compactions = |db: &Db| db.stats().tickers.get(Ticker::CompactionCount);
        let before = compactions(db);
        loop {
            if let Ok(done) = receiver.recv_timeout(Duration::from_millis(200)) {
                waiter.join().expect("it has sent its result");
                return done;
            }
            let ran = compactions(db) - before;
            if ran > MOST_COMPACTIONS || patience.is_over() {
                let tree: Vec<_> = (db.stats().levels.iter())
                    .map(|level| {
                        format!("L{} {} tables {} B", level.level, level.files, level.file_bytes)
                    })
                    .collect();
                drop(db.clone().close());
                panic!(
                    "compaction does not end: {ran} compactions in {:.1} s; {}",
                    patience.elapsed().as_secs_f64(),
                    tree.join(", ")
                );
            }
        }
    }

    /// No table keeps its filter without a cause, and a second call finds nothing to do. A policy
    /// that knows levels may want other filters after a compaction between the two calls.
    fn apply_filters(&mut self) -> Result<()> {
        let kept = self.db().apply_filter_policy()?.kept;
        assert!(kept.is_empty() || self.has_faults(), "{kept:?}");
        let again = self.db().apply_filter_policy()?;
        let knows_levels = ["levels", "bottommost", "budget", "learned"];
        let filter = match self.space {
            0 => Some(&self.settings.filter),
            other => self.filters.get(&other),
        };
        let is_steady =
            filter.is_some_and(|filter| !knows_levels.iter().any(|it| filter.starts_with(it)));
        assert!(!is_steady || again.refiltered == 0 || self.has_faults(), "{again:?}");
        Ok(())
    }

    /// Begins a recording of lookups, or ends it and looks at its lines.
    fn record(&mut self) -> Result<()> {
        let Some((recording, dir)) = self.recording.take() else {
            let dir = tempfile::tempdir().unwrap();
            let recording = self.db().record_lookups(dir.path().join("lookups"), 2)?;
            self.recording = Some((recording, dir));
            return Ok(());
        };
        let recorded = recording.finish().unwrap();
        let text = std::fs::read_to_string(dir.path().join("lookups")).unwrap();
        let words = ["memtable", "L0", "L1", "L2", "L3", "L4", "L5", "L6", "deleted", "absent"];
        let is_sound = |line: &str| words.iter().any(|word| line.ends_with(&format!("\t{word}")));
        assert!(text.lines().all(is_sound), "{text}");
        assert_eq!(text.lines().count() as u64, recorded);
        Ok(())
    }

    fn verify(&mut self) -> Result<()> {
        let report = self.db().verify()?;
        assert_eq!(report.filter_misses, 0, "a filter denies a key of its table");
        assert!(report.not_understood.is_empty(), "{:?}", report.not_understood);
        Ok(())
    }

    /// Ends the run: everything is compared once more, settled, compacted, and opened again.
    pub fn finish(&mut self) {
        self.execute(&Operation::Heal);
        if self.is_troubled() {
            self.reopen(Leave::Close, self.settings);
        }
        let mut rest = vec![Operation::Check, Operation::Flush, Operation::Wait, Operation::Check];
        rest.extend(self.snapshots.iter().map(|_| Operation::Release(0)));
        rest.extend([Operation::CompactAll, Operation::Check, Operation::Verify]);
        rest.push(Operation::Reopen(Leave::Close, self.settings));
        rest.extend([Operation::Wait, Operation::Check]);
        rest.iter().for_each(|operation| self.execute(operation));
    }
}

pub(super) fn write_batch(db: &Db, keys: &Universe, writes: &[Write], sync: bool) -> Result<()> {
    let mut batch = WriteBatch::new();
    writes.iter().for_each(|write| add_to(&mut batch, keys, *write));
    let durability = if sync { Durability::Sync } else { Durability::Buffered };
    db.write_opt(batch, durability)
}

pub(super) fn add_to(batch: &mut WriteBatch, keys: &Universe, write: Write) {
    match write {
        Write::Put(key, value) => batch.put(keys.bytes(key), value.bytes()),
        Write::Delete(key) => batch.delete(keys.bytes(key)),
        Write::DeleteRange(from, to) => batch.delete_range(deleted(keys, from, to)),
    };
}

/// The range that a call deletes. If it reaches the last key it has no end.
pub(super) fn deleted(keys: &Universe, from: Key, to: Key) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let end = if to == keys.count() { Bound::Unbounded } else { Bound::Excluded(keys.bytes(to)) };
    (Bound::Included(keys.bytes(from)), end)
}

/// The write that gives a key this value, or none.
fn set(key: Key, new: Option<Value>) -> Vec<Write> {
    vec![new.map_or(Write::Delete(key), |value| Write::Put(key, value))]
}
