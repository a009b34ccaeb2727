//! Flush: a frozen memtable becomes tables of level 0.
//!
//! ```text
//!   memtable   ant@9  ant@4  bee@7 deleted  cat@8 deleted  cow@5 …  2000 deletions …  zebra@6 …
//!   table 1    ant@9                        cat@8 deleted  cow@5 …
//!   table 2                                                         2000 deletions …
//!   table 3                                                                           zebra@6 …
//! ```
//!
//! **What no reader can see is not written**: versions that a newer version hides from all
//! snapshots, and deletions that hide nothing. A deletion hides nothing if no older table holds its
//! key and no older version of the key is kept for a snapshot. Only tables can be older than the
//! flushed memtable, because it is the oldest memtable. The key ranges and filters of the tables
//! show which tables may hold a key ([`crate::compaction::below`]).
//!
//! **A long run of deletions gets tables of its own**, and so do range deletions that hide much.
//! Suppose that a program deletes old keys and writes new keys elsewhere. One table with both would
//! overlap all tables whose keys lie between the deleted and the new keys, and would be merged with
//! all of them. With separate tables, the new keys move down without a merge, and the deletions are
//! merged only with the tables that they empty. For the same reason a table of deletions ends where
//! an older table starts: the deletions of one older table's keys then move down without those of
//! the next table's keys.

use std::sync::Arc;

use crate::compaction::below::Below;
use crate::compaction::ranges::Ranges;
use crate::compaction::retain::{Retention, keep_survivors};
use crate::cursor::Cursor;
use crate::encoding::key::{EntryKind, SequenceNumber, kind_byte, user_key};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::range_tombstones::{RangeTombstone, joined};
use crate::version::{ChooseFilter, NewTable, TableFile, TableStore, Version, seconds_since_1970};

/// A run of deletions gets tables of its own if it is at least 1 / `LONG_RUN_FRACTION` of the
/// memtable's entries.
const LONG_RUN_FRACTION: usize = 16;
/// The minimum number of deletions in such a run.
const MIN_LONG_RUN: usize = 64;

/// Range deletions get tables of their own if they cover a whole older table. They also do if they
/// hide at least this many bytes of older tables, and at least 1 / `LONG_RUN_FRACTION` of the
/// memtable's bytes.
const MIN_HIDDEN_BYTES: u64 = 16 << 10;

/// At most this many runs of deletions, and at most this many ranges that range deletions cover,
/// get tables of their own in a flush. Within each run or range, tables are cut at most this many
/// times.
const MAX_CUTS: usize = 8;

/// What a flush needs to know, apart from the memtable.
pub(crate) struct Flush<'a> {
    pub store: &'a TableStore,
    /// The tables that are older than the memtable; `None` if they are not known. Then the flush
    /// assumes that every key has an older entry.
    pub older: Option<&'a Version>,
    /// Sequence numbers that snapshots hold, ascending.
    pub snapshots: Vec<SequenceNumber>,
    pub filter: &'a dyn ChooseFilter,
}

impl Flush<'_> {
    /// Writes the entries of `memtable` that some reader can see, and the deletions that may hide
    /// older entries, to tables of disjoint ranges. The tables are synced, but the directory with
    /// their names is not. After an error no table remains.
    pub fn run(&self, memtable: &Arc<Memtable>) -> Result<Vec<Arc<TableFile>>> {
        let nothing = Version::default();
        let below = || self.older.map_or_else(|| Below::unknown(&nothing), Below::memtable);
        let sets = memtable.ranges();
        let ranges: Vec<RangeTombstone<'_>> = sets.iter().flat_map(|set| set.iter()).collect();
        let below_ranges = below();
        let cuts = self.cuts(memtable, ranges.clone(), &below_ranges)?;
        let mut tables = Tables {
            flush: self,
            deleted: &Ranges::of(ranges, &self.snapshots, &below_ranges),
            cuts: &cuts,
            lower: None,
            finished: Vec::new(),
            current: None,
        };
        let written = self.write(memtable, below(), &mut tables);
        let finished = tables.finished;
        if written.is_err() {
            finished.iter().for_each(|file| file.discard());
        }
        written.map(|()| finished)
    }

    fn write(&self, memtable: &Memtable, mut below: Below, tables: &mut Tables) -> Result<()> {
        let mut retention = Retention::new(self.snapshots.clone());
        let mut cursor = memtable.cursor();
        cursor.seek_to_first()?;
        let (deleted, all) = (tables.deleted, |_: &[u8]| Ok(true));
        keep_survivors(&mut cursor, deleted, &mut retention, &mut below, all, |key, value| {
            tables.add(key, value)
        })?;
        tables.finish()
    }

    /// The user keys at which tables are cut, ascending. Two kinds of ranges get tables of their
    /// own: long runs of deletions, and ranges that range deletions cover. Such a range is cut out
    /// at its two ends, and cut at the smallest keys of older tables between these ends.
    fn cuts(
        &self,
        memtable: &Memtable,
        ranges: Vec<RangeTombstone<'_>>,
        below: &Below,
    ) -> Result<Vec<Vec<u8>>> {
        let much = ((memtable.bytes() / LONG_RUN_FRACTION) as u64).max(MIN_HIDDEN_BYTES);
        let hides_much = |&(start, end): &(&[u8], &[u8])| {
            below.has_table_within(start, end) || below.bytes(start, end) >= much
        };
        let hiding = joined(ranges).into_iter().filter(hides_much).take(MAX_CUTS);
        let hiding = hiding.map(|(start, end)| (start.to_vec(), end.to_vec()));
        let runs = long_runs(memtable)?.into_iter().map(|run| (run, false));
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        for ((start, end), is_of_ranges) in runs.chain(hiding.map(|run| (run, true))) {
            // The deepest level comes first, so that its tables, which hold most of the data, get
            // the `MAX_CUTS` cuts. Tables that consist mostly of deletions cause no cut, because
            // they were cut in this way themselves.
            let levels = self.older.into_iter().flat_map(|older| older.levels.iter().rev());
            let starts = levels.flat_map(|files| {
                let files = files.iter().map(|file| &file.meta);
                let files = files.filter(|file| file.deletions <= file.entries / 2);
                // Range deletions may cover tables whole. A compaction drops such tables without
                // reading them, and can drop many at once, so no cut is made between them. Cuts are
                // made only before the first of them and after the last of them: at the start of
                // the table after the one in which the range starts, and at the start of the table
                // in which the range ends.
                let (start, end) = (&start, &end);
                let mut after_cut_table = false;
                files.filter_map(move |file| {
                    let starts_before = user_key(&file.smallest) <= &start[..];
                    let is_apart = !is_of_ranges || after_cut_table || !file.ends_before(end);
                    after_cut_table = starts_before && !file.ends_before(start);
                    is_apart.then(|| user_key(&file.smallest))
                })
            });
            let inside = starts.filter(|key| *key > &start[..] && *key < &end[..]);
            cuts.extend(inside.take(MAX_CUTS).map(<[u8]>::to_vec));
            cuts.extend([start, end]);
        }
        cuts.sort();
        cuts.dedup();
        Ok(cuts)
    }

    fn create(&self) -> Result<NewTable<'_>> {
        self.store.create(self.filter, 0)
    }
}

/// The `MAX_CUTS` longest of the long runs of deleted keys, each as its first key and a key after
/// its last one.
fn long_runs(memtable: &Memtable) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let long_run = (memtable.len() / LONG_RUN_FRACTION).max(MIN_LONG_RUN);
    if memtable.deletions() < long_run {
        return Ok(Vec::new());
    }
    let mut runs: Vec<(usize, Vec<u8>, Vec<u8>)> = Vec::new();
    // The count and the start of the current run.
    let (mut count, mut start) = (0, Vec::new());
    let mut last: Option<Vec<u8>> = None;
    let mut cursor = memtable.cursor();
    cursor.seek_to_first()?;
    while cursor.valid() {
        let key = user_key(cursor.key());
        // Only the newest version of a key counts, and it comes first.
        if last.as_deref() != Some(key) {
            let is_deleted = kind_byte(cursor.key()) == EntryKind::Deletion as u8;
            if is_deleted && count == 0 {
                start = key.to_vec();
            }
            if !is_deleted && count >= long_run {
                runs.push((count, start.clone(), key.to_vec()));
            }
            count = if is_deleted { count + 1 } else { 0 };
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
        cursor.next()?;
    }
    if let Some(mut last) = last.filter(|_| count >= long_run) {
        last.push(0);
        runs.push((count, start, last));
    }
    runs.sort_by_key(|(count, _, _)| std::cmp::Reverse(*count));
    runs.truncate(MAX_CUTS);
    Ok(runs.into_iter().map(|(_, start, end)| (start, end)).collect())
}

/// The tables being written.
struct Tables<'a> {
    flush: &'a Flush<'a>,
    deleted: &'a Ranges<'a>,
    /// The cuts that are still to come.
    cuts: &'a [Vec<u8>],
    /// The key from which the current table holds range deletions. `None`: from the first range
    /// deletion on.
    lower: Option<&'a [u8]>,
    finished: Vec<Arc<TableFile>>,
    current: Option<NewTable<'a>>,
}

impl<'a> Tables<'a> {
    fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        while let [cut, rest @ ..] = self.cuts
            && &cut[..] <= user_key(internal_key)
        {
            self.end(Some(cut))?;
            self.cuts = rest;
        }
        let table = NewTable::in_slot(&mut self.current, || self.flush.create())?;
        table.add(internal_key, value)
    }

    fn finish(&mut self) -> Result<()> {
        while let [cut, rest @ ..] = self.cuts {
            self.end(Some(cut))?;
            self.cuts = rest;
        }
        self.end(None)
    }

    /// Ends the current table with the range deletions before `upper`. Without a current table,
    /// these range deletions get a table of their own.
    fn end(&mut self, upper: Option<&'a [u8]>) -> Result<()> {
        let (flush, range) = (self.flush, (self.lower, upper));
        let now = seconds_since_1970();
        let ended = self.deleted.end_table(self.current.take(), range, now, || flush.create())?;
        self.finished.extend(ended);
        self.lower = upper;
        Ok(())
    }
}
