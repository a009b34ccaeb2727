//! `explain`: the lookup of `get` with an observer that writes a [`LookupTrace`].
//!
//! ```text
//! get         no observer
//! explain     observer: Watch, which writes a LookupTrace
//! lookup/     the observed stages    trace    what is written          text    its text
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::trace::{FileTrace, LevelTrace, LookupOutcome, LookupTrace, MemtableTrace};
use crate::db::get::{ToSlice, observed};
use crate::db::inner::reading::Reading;
use crate::encoding::key::{EntryKind, SequenceNumber, user_key};
use crate::error::Result;
use crate::filter::FilterReader;
use crate::lookup::explain::recorder::Recorder;
use crate::lookup::{Found, Observe, Observer, Sources};
use crate::memtable::Memtable;
use crate::table::LookupKey;
use crate::table::Table;
use crate::table::block::Block;
use crate::table::filter::source::FilterAnswer;
use crate::table::table_index::TableIndex;
use crate::version::{FileMeta, Run, TableFile, Version};

/// Looks up `key` like `get`, but returns the trace of the lookup.
pub(in crate::db) fn explain(
    reading: &Reading,
    key: &[u8],
    snapshot: Option<SequenceNumber>,
) -> Result<LookupTrace> {
    let watch = Watch {
        in_table: Recorder::new(reading.counters()),
        trace: RefCell::new(LookupTrace { key: key.to_vec(), ..LookupTrace::default() }),
        range_check_nanos: Cell::new(0),
    };
    let value = observed(reading, key, snapshot, Observer::new(&watch), ToSlice)?;
    let mut trace = watch.trace.into_inner();
    // At this point `levels_spared` counts all runs (a run is a file of level 0, or a deeper
    // level). The runs that have a trace are subtracted. In a mixed version, where files of a level
    // may share keys (`src/lookup/mixed.rs`), several files of one run may be traced, so there may be more
    // traces than runs.
    trace.levels_spared = trace.levels_spared.saturating_sub(trace.levels.len());
    trace.outcome = match value {
        Some(_) => LookupOutcome::Value,
        None => trace.why_without_value(),
    };
    trace.value = value;
    Ok(trace)
}

/// Writes a [`LookupTrace`].
struct Watch<'a> {
    in_table: Recorder<'a>,
    trace: RefCell<LookupTrace>,
    /// Nanoseconds of the range check that led to the current file.
    range_check_nanos: Cell<u64>,
}

impl Watch<'_> {
    fn add_level(&self, run: &Run<Arc<TableFile>>, nanos: u64, file: Option<FileTrace>) {
        let (first, last) = (&run.file(0).meta, &run.file(run.len() - 1).meta);
        self.trace.borrow_mut().levels.push(LevelTrace {
            level: run.level,
            files: run.len(),
            smallest: user_key(&first.smallest).to_vec(),
            largest: user_key(&last.largest).to_vec(),
            file,
            range_check_nanos: nanos,
        });
        self.in_table.restart();
    }
}

impl Observe for Watch<'_> {
    fn started(&self, key: &LookupKey<'_>, sources: &Sources) {
        let mut trace = self.trace.borrow_mut();
        (trace.hash, trace.sequence) = (key.hash, key.sequence);
        trace.levels_spared = sources.version.all_runs().len();
        self.in_table.restart();
    }

    fn memtable_searched(
        &self,
        memtable: &Memtable,
        newest: Option<(SequenceNumber, u8, &[u8])>,
        deleted_at: SequenceNumber,
    ) {
        let nanos = self.in_table.step().nanos;
        self.trace.borrow_mut().memtables.push(MemtableTrace {
            entries: memtable.len(),
            bytes: memtable.bytes(),
            found: newest.map(|(_, kind, _)| kind),
            range_deletion: (deleted_at > 0).then_some(deleted_at),
            nanos,
        });
        self.in_table.restart();
    }

    fn all_runs_passed(&self, version: &Version) {
        for run in version.all_runs() {
            self.run_passed(run);
        }
    }

    fn run_passed(&self, run: &Run<Arc<TableFile>>) {
        let nanos = self.in_table.step().nanos;
        self.add_level(run, nanos, None);
    }

    fn file_reached(&self, file: &TableFile, deleted_at: SequenceNumber) {
        self.range_check_nanos.set(self.in_table.step().nanos);
        self.in_table.begin(&file.table, deleted_at);
    }

    fn file_left(&self, run: &Run<Arc<TableFile>>, file: &TableFile, found: Option<&Found<'_>>) {
        let FileMeta { number, file_bytes, entries, smallest, largest, .. } = &file.meta;
        let file = FileTrace {
            number: *number,
            file_bytes: *file_bytes,
            entries: *entries,
            smallest: user_key(smallest).to_vec(),
            largest: user_key(largest).to_vec(),
            table: self.in_table.finish(found),
        };
        self.add_level(run, self.range_check_nanos.get(), Some(file));
    }

    // The recorder observes what happens in a table.

    fn filter_answered(
        &self,
        table: &Table,
        filter: &FilterReader,
        key: &LookupKey<'_>,
        is_prefix: bool,
        answer: FilterAnswer,
    ) {
        self.in_table.filter_answered(table, filter, key, is_prefix, answer);
    }

    fn filter_failed(&self) {
        self.in_table.filter_failed();
    }

    fn filter_passed_by(&self) {
        self.in_table.filter_passed_by();
    }

    fn index_searched(&self, index: &TableIndex, block: usize) {
        self.in_table.index_searched(index, block);
    }

    fn block_reached(&self, index: &TableIndex, i: usize, block: &Block) {
        self.in_table.block_reached(index, i, block);
    }

    fn block_searched(&self, found: bool) {
        self.in_table.block_searched(found);
    }
}

impl LookupTrace {
    /// Why the traced lookup found no value. The last memtable or file that was searched decides,
    /// because the lookup ended there.
    fn why_without_value(&self) -> LookupOutcome {
        let in_table = self.levels.last().map(|last| {
            // A mixed version is searched level by level, and the newest entry of a level counts.
            let files = self.levels.iter().filter(|level| level.level == last.level);
            let tables = files.filter_map(|level| Some(&level.file.as_ref()?.table));
            let found = tables.clone().filter_map(|table| table.found);
            let newest = found.max_by_key(|found| found.sequence).map(|found| found.kind);
            (newest, tables.filter_map(|table| table.range_deletion).max())
        });
        let in_memtable =
            || self.memtables.last().map(|memtable| (memtable.found, memtable.range_deletion));
        match in_table.or_else(in_memtable) {
            Some((Some(kind), _)) if kind != EntryKind::Value as u8 => LookupOutcome::Tombstone,
            Some((Some(_), _) | (None, Some(_))) => LookupOutcome::RangeDeletion,
            _ => LookupOutcome::Absent,
        }
    }
}
