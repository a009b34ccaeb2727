//! Turns the writes of the WALs into tables, as far as the WALs can be read.
//!
//! ```text
//! 5.wal  │ 1 2 3 │ 4 5 │      6.wal  │ 6 7 │ ~~~ │ 9 │      7.wal  │ 10 11 │
//!          └──────── kept ────────────────┘           └── left out ──────┘
//! ```
//!
//! A *hole* is a range of bytes that cannot be read. Only the writes before the first hole are
//! kept, as in a recovery, because the program that made the later writes had seen the missing
//! ones. With `salvage_logs`, writes behind a hole are kept too.
//!
//! A WAL whose writes do not directly follow the kept ones is left out. A later WAL whose writes do
//! follow them is kept. There is such a WAL if a recovery kept the same writes, started a new WAL
//! after them, and crashed before it deleted the torn WALs.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use super::keyspaces::Logged;
use super::report::Loss;
use super::work::{Repair, open_readable, readable_records};
use crate::db::flush::Flush;
use crate::db::write::batch::{Operation, parse_record};
use crate::encoding::key::SequenceNumber;
use crate::error::{Damage, Error, Result};
use crate::memtable::{Memtable, MemtableWriter};
use crate::version::{KeyspaceId, Recovered, Skipped, names};
use crate::wal::{LogKind, LogReader, LogVersion};

/// The bytes of writes of all keyspaces that are collected for one flush.
const MEMTABLE_BYTES: usize = 16 << 20;

/// What a memtable of one keyspace is expected to grow to, which is little, because there may be
/// thousands of keyspaces.
const EXPECTED_BYTES: usize = 1 << 20;

/// The result of reading a record.
enum Step {
    Taken,
    /// The log ends here, torn or not.
    End,
    /// Bytes that cannot be read, and why.
    Hole(Error),
    /// A record whose checksum is right, but that cannot be decoded, or that leaves a gap in the
    /// sequence numbers after the last write.
    Senseless(String),
}

/// The writes read so far.
struct Writes<'a> {
    /// Sequence numbers that no log holds, because ingested tables have them.
    skipped: &'a Skipped,
    /// By keyspace, the number up to which a whole MANIFEST says that every write is in tables.
    flushed: Option<&'a BTreeMap<KeyspaceId, SequenceNumber>>,
    memtables: BTreeMap<KeyspaceId, (Arc<Memtable>, MemtableWriter)>,
    /// Bytes of all memtables.
    bytes: usize,
    /// How many writes each log has of each keyspace of which nothing is known.
    unknown: BTreeMap<(u64, KeyspaceId), u64>,
    /// The sequence number of the last write; `None` if no write was read and no MANIFEST states
    /// the number.
    last: Option<SequenceNumber>,
}

impl Repair<'_> {
    /// Notes that there are or were keyspaces besides 0, if a log shows it.
    pub(super) fn look_for_keyspaces(&mut self) -> Result<()> {
        for number in self.wals(0)? {
            if !self.keyspaces.had_others() && self.allows_keyspaces(number)? {
                self.keyspaces.keep_free(1);
            }
        }
        Ok(())
    }

    /// Whether a log has the format version of a database with keyspaces, or, if its file header is
    /// lost, has an operation that names one.
    fn allows_keyspaces(&self, number: u64) -> Result<bool> {
        let path = names::wal_path(&self.dir, number);
        let mut log = open_readable(&*self.fs, &path, LogKind::Wal, number)?;
        if let Some(version) = log.version() {
            return Ok(version == LogVersion::WithKeyspaces);
        }
        let mut names_one = false;
        readable_records(&mut log, |record| {
            if let Ok((_, _, mut operations)) = parse_record(record.payload) {
                names_one |= operations.any(|it| it.is_ok_and(|it| it.keyspace.is_some()));
            }
        })?;
        Ok(names_one)
    }

    /// Reads the WALs with these numbers, ascending. `whole` is what a whole MANIFEST says of them,
    /// and `skipped` holds the sequence numbers that no WAL has, which are those of ingested tables.
    pub(super) fn logs(
        &mut self,
        numbers: &[u64],
        whole: Option<&Recovered>,
        skipped: &Skipped,
    ) -> Result<()> {
        let durable = whole.map(|recovered| &recovered.durable_wals);
        let losses = self.report.losses.len();
        for (&number, &bytes) in durable.into_iter().flatten() {
            if !numbers.contains(&number) {
                self.lose_log(number, 0, bytes, "synced writes, as the file is missing");
            }
        }
        let mut writes = Writes {
            skipped,
            flushed: whole.map(|recovered| &recovered.flushed),
            memtables: BTreeMap::new(),
            bytes: 0,
            unknown: BTreeMap::new(),
            last: whole.map(|recovered| recovered.flushed_sequence),
        };
        for &number in numbers {
            self.log(number, durable, &mut writes)?;
        }
        self.flush_writes(&mut writes)?;
        for (&(number, keyspace), count) in &writes.unknown {
            let what = format!(
                "{count} writes of keyspace {keyspace}, whose name neither a MANIFEST nor a table \
                 tells, and which may have been dropped"
            );
            self.lose_log(number, 0, 0, &what);
        }
        if let Some(recovered) = whole.filter(|_| self.report.losses.len() == losses) {
            self.check_end(recovered, &writes);
        }
        // The skipped numbers are in use even if writes before them are lost, because the ingested
        // tables that have them stay.
        let last = writes.last.unwrap_or(0).max(skipped.largest());
        self.last_sequence = self.last_sequence.max(last);
        Ok(())
    }

    fn log(
        &mut self,
        number: u64,
        durable: Option<&BTreeMap<u64, u64>>,
        writes: &mut Writes<'_>,
    ) -> Result<()> {
        let path = names::wal_path(&self.dir, number);
        let fs = Arc::clone(&self.fs);
        let file_bytes = fs.open(&path)?.len();
        let must_hold = durable.and_then(|durable| durable.get(&number).copied());
        let mut log = match LogReader::open(&*fs, &path, LogKind::Wal, number) {
            Err(error) if error.is_damage() => {
                self.report.problems.push(error.to_string());
                if !self.options.salvage_logs {
                    self.lose_log(number, 0, file_bytes, "all writes of a log");
                    return Ok(());
                }
                LogReader::open_damaged(&*fs, &path, LogKind::Wal, number)?
            }
            opened => opened?,
        };
        if durable.is_some() && log.kind() == LogKind::RecoveredWal && must_hold.is_none() {
            // A recovery wrote this WAL from older WALs, and no MANIFEST lists it. The older WALs
            // are deleted only after a MANIFEST lists the new one, so they are still here, and this
            // one is not needed.
            return Ok(());
        }
        loop {
            let start = log.end();
            let (what, is_hole) = match self.record(number, &mut log, writes)? {
                Step::Taken => continue,
                Step::End => match must_hold.filter(|&bytes| start < bytes) {
                    Some(bytes) => (format!("synced up to {bytes}, ends at {start}"), true),
                    None if self.options.salvage_logs && log.skip_damage()?.is_some() => continue,
                    None => return Ok(()),
                },
                Step::Hole(error) => (error.to_string(), true),
                Step::Senseless(what) => {
                    (format!("{}: offset {start}: {what}", path.display()), false)
                }
            };
            self.report.problems.push(what);
            if !self.options.salvage_logs {
                let bytes = file_bytes.saturating_sub(start);
                self.lose_log(number, start, bytes, "all writes of a log from there on");
                return Ok(());
            }
            if is_hole && log.skip_damage()?.is_none() {
                let bytes = file_bytes.saturating_sub(start);
                self.lose_log(number, start, bytes, "the writes of a hole up to the end of a log");
                return Ok(());
            }
            self.lose_log(number, start, log.end() - start, "the writes of a hole in a log");
        }
    }

    fn record(
        &mut self,
        number: u64,
        log: &mut LogReader,
        writes: &mut Writes<'_>,
    ) -> Result<Step> {
        let record = match log.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Step::End),
            Err(error) if error.is_damage() => return Ok(Step::Hole(error)),
            Err(error) => return Err(error),
        };
        let parsed = parse_record(record.payload).and_then(|(first, count, operations)| {
            let operations = operations.collect::<Result<Vec<_>, Damage>>()?;
            match operations.len() as u64 == count {
                true => Ok((first, operations)),
                false => Err(Damage::new(0, count, operations.len())),
            }
        });
        let (first, operations) = match parsed {
            Ok(parsed) => parsed,
            Err(damage) => {
                let what = format!("expected {}, found {}", damage.expected, damage.found);
                return Ok(Step::Senseless(what));
            }
        };
        writes.last = writes.last.map(|last| writes.skipped.after(last));
        if let Some(last) = writes.last.filter(|&last| first > last + 1) {
            let what = format!("write {first} where {} should follow", last + 1);
            if !self.options.salvage_logs {
                return Ok(Step::Senseless(what));
            }
            self.report.problems.push(what);
        }
        for (sequence, operation) in (first..).zip(operations) {
            // A recovered WAL repeats writes of older WALs. Writes that were read before are
            // skipped.
            if writes.last.is_none_or(|last| sequence > last) {
                writes.last = Some(sequence);
                let keyspace = operation.keyspace.unwrap_or(0);
                match self.keyspaces.logged(keyspace) {
                    Logged::Known => writes.insert(keyspace, sequence, operation),
                    Logged::Dropped => {}
                    Logged::Unknown => *writes.unknown.entry((number, keyspace)).or_default() += 1,
                }
            }
        }
        if writes.bytes >= MEMTABLE_BYTES {
            self.flush_writes(writes)?;
        }
        Ok(Step::Taken)
    }

    fn flush_writes(&mut self, writes: &mut Writes<'_>) -> Result<()> {
        writes.bytes = 0;
        for (keyspace, (memtable, _)) in std::mem::take(&mut writes.memtables) {
            let filter = self.filter_of(keyspace, 0, memtable.len() as u64);
            let store = &self.store_of(keyspace);
            let flush = Flush { store, older: None, snapshots: Vec::new(), filter: &filter };
            let files = flush.run(&memtable)?;
            files.into_iter().for_each(|file| self.add_new(keyspace, 0, file));
        }
        Ok(())
    }

    /// Reports the writes between the last one in the logs and the last one that the MANIFEST calls
    /// flushed. They were durable, because the flush of a keyspace syncs the logs of the others.
    fn check_end(&mut self, recovered: &Recovered, writes: &Writes<'_>) {
        let last = writes.skipped.after(writes.last.unwrap_or(0));
        if let Some(&flushed) = recovered.flushed.values().max()
            && flushed > last
        {
            let file = self.dir.join(names::manifest_name(recovered.manifest.0));
            let what = format!("writes {} to {flushed}, as far as no table has them", last + 1);
            self.report.losses.push(Loss { file, what, ..anywhere() });
        }
    }

    /// Reports a loss that may concern any key of any keyspace.
    fn lose_log(&mut self, number: u64, offset: u64, bytes: u64, what: &str) {
        let file = names::wal_path(&self.dir, number);
        self.report.losses.push(Loss { file, offset, bytes, what: what.into(), ..anywhere() });
    }
}

/// A loss that may concern any key of any keyspace.
fn anywhere() -> Loss {
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    let (file, what) = (PathBuf::new(), String::new());
    Loss { file, offset: 0, bytes: 0, keyspace: None, from, to, what }
}

impl Writes<'_> {
    fn insert(&mut self, keyspace: KeyspaceId, sequence: SequenceNumber, op: Operation<'_>) {
        let flushed = self.flushed.and_then(|flushed| flushed.get(&keyspace));
        if flushed.is_some_and(|&flushed| sequence <= flushed) {
            return;
        }
        let (_, writer) = match self.memtables.entry(keyspace) {
            btree_map::Entry::Occupied(there) => there.into_mut(),
            btree_map::Entry::Vacant(new) => new.insert(Memtable::new(EXPECTED_BYTES)),
        };
        let before = writer.bytes();
        writer.insert(op.key, sequence, op.kind as u8, op.value);
        // Range deletions that are joined may take fewer bytes than before.
        self.bytes = self.bytes + writer.bytes() - before;
    }
}
