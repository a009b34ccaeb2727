//! The merge of one compaction: reads the entries of all inputs in order, and writes the survivors
//! to new tables.
//!
//! An output ends at the target size. It ends earlier
//!
//! - when it overlaps too many bytes of the level after the output level, whose files are the
//!   *grandparents* of the inputs,
//! - at the end of a grandparent, if the output is full enough by then,
//! - at each *fence* of the plan: a user key where a damaged file of a deeper level begins or ends
//!   ([`super::damaged`]).
//!
//! An output never ends between two versions of a user key, because a level holds a user key in one
//! file. The range deletions of an output are cut at the key or fence where the next output begins.
//!
//! A merge whose outputs stay in the level of its inputs has **one output**, unless its inputs are
//! together larger than a table ([`Plan::has_one_output`]). So it leaves at most as many files as it
//! takes, and several small files become one, whatever the estimates of sizes are worth. In level 0
//! there is another reason: neither of two outputs would be newer than the other.
//!
//! The pages that a merge has read or written stay in the system's cache, although it could ask the
//! system to drop them. The pages of inputs serve lookups until the inputs are deleted, and those of
//! outputs are read by lookups next.
//!
//! A large compaction is split by key range ([`super::split`]) over several threads. Each part is a
//! separate merge. The tables of all parts are returned together, or none is: the first part that
//! fails stops the others, and the tables of all parts are deleted.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::below::Below;
use super::plan::Plan;
use super::ranges::Ranges;
use super::retain::{Retention, keep_survivors};
use super::split;
use super::split::KeyRange;
use super::targets::{TreeShape, max_grandparent_bytes};
use crate::cursor::Cursor;
use crate::cursor::merging::MergingCursor;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::thread;
use crate::table::{Compression, MetadataForm, ScanOptions};
use crate::version::{ChooseFilter, LevelCursor, NewTable, TableFile, TableStore, Version};

/// What a compaction needs besides its plan.
pub(crate) struct Job<'a> {
    pub store: &'a TableStore,
    pub version: &'a Version,
    pub shape: &'a TreeShape,
    /// Sequence numbers that snapshots hold, ascending.
    pub snapshots: Vec<SequenceNumber>,
    pub filter: &'a dyn ChooseFilter,
    /// Set when the database closes. The job then ends and leaves no table.
    pub cancelled: &'a AtomicBool,
    /// The compaction is split into at most this many parts. Each gets a thread if possible.
    pub parts: usize,
}

/// The result of a finished compaction.
pub(crate) struct Outcome {
    /// Synced tables. Their names are not durable yet.
    pub outputs: Vec<Arc<TableFile>>,
    pub bytes_written: u64,
    /// The number of deletions that met an older entry of their key.
    pub hits: u64,
    /// The number of parts that the compaction was split into.
    pub parts: usize,
}

/// Merges the files of `plan`. After an error no new table is left.
pub(crate) fn run(job: &Job, plan: &Plan) -> Result<Outcome> {
    let (mut inputs, mut output_inputs) = input_files(job.version, plan);
    let all = inputs.iter().chain(&output_inputs);
    let below = Below::plan(job.version, plan);
    let deleted = Ranges::new(all.clone(), &job.snapshots, &below);
    let oldest_deletion = oldest_deletion(all);
    inputs.retain(|file| !deleted.drops_file(file));
    output_inputs.retain(|file| !deleted.drops_file(file));
    let cuts = split::cuts(inputs.iter().chain(&output_inputs), job.parts)?;
    let ranges = split::ranges(&cuts);

    let metadata = job.store.metadata_form();
    let failed = AtomicBool::new(false);
    let run_part = |range: KeyRange| {
        let mut outputs = Outputs::new(job, plan, metadata, &deleted, oldest_deletion, range.lower);
        let sources = sources(plan, &inputs, &output_inputs, range, ranges.len());
        let merged = merge(job, plan, sources, range, &failed, &mut outputs);
        let merged = merged.and_then(|hits| outputs.finish(range.upper).map(|()| hits));
        if merged.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        RangeResult { tables: outputs.finished, merged }
    };
    let parts = in_parallel(&ranges, run_part);
    let outputs: Vec<_> = parts.iter().flat_map(|part| &part.tables).cloned().collect();
    let merged = parts.into_iter().map(|part| part.merged).reduce(|first, other| {
        match (first, other) {
            (Ok(first), Ok(other)) => Ok(first + other),
            // A part that was stopped because another part failed returns `Closed`. The error of
            // the failed part is returned instead.
            (Ok(_) | Err(Error::Closed), Err(error)) => Err(error),
            (Err(error), _) => Err(error),
        }
    });
    let hits = match merged {
        Some(Err(error)) => {
            // No version will list these tables, so each file is deleted when its handle is
            // dropped.
            outputs.iter().for_each(|file| file.discard());
            return Err(error);
        }
        Some(Ok(hits)) => hits,
        None => 0,
    };
    Ok(Outcome {
        hits,
        bytes_written: outputs.iter().map(|file| file.meta.file_bytes).sum(),
        outputs,
        parts: ranges.len(),
    })
}

/// The result of one part, including its finished tables if it failed.
struct RangeResult {
    tables: Vec<Arc<TableFile>>,
    /// See [`Outcome::hits`].
    merged: Result<u64>,
}

/// Runs `run_part` for the ranges in parallel, each on its own thread if possible. Returns the
/// results in the order of `ranges`.
fn in_parallel(
    ranges: &[KeyRange],
    run_part: impl Fn(KeyRange) -> RangeResult + Sync,
) -> Vec<RangeResult> {
    let parts: Vec<OnceLock<RangeResult>> = ranges.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((part, &range)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            parts.get(i).zip(ranges.get(i))
        } {
            let _ = part.set(run_part(range));
        }
    };
    thread::scope(|scope| {
        for _ in 1..ranges.len() {
            // If the thread cannot be started, the others run its part.
            let _ = thread::spawn_scoped(scope, "maypole-part", work);
        }
        work();
    });
    parts.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// The inputs in the plan's level, and those in its output level.
fn input_files(version: &Version, plan: &Plan) -> (Vec<Arc<TableFile>>, Vec<Arc<TableFile>>) {
    let files = |level: usize, numbers: &[u64]| -> Vec<Arc<TableFile>> {
        let numbers: BTreeSet<u64> = numbers.iter().copied().collect();
        let level = version.levels[level].iter();
        level.filter(|file| numbers.contains(&file.meta.number)).cloned().collect()
    };
    (files(plan.level, &plan.inputs), files(plan.output_level, &plan.output_inputs))
}

fn sources(
    plan: &Plan,
    inputs: &[Arc<TableFile>],
    output_inputs: &[Arc<TableFile>],
    range: KeyRange,
    parts: usize,
) -> Vec<LevelCursor> {
    // Files of level 0 overlap, so each is a separate source.
    let mut runs: Vec<Vec<Arc<TableFile>>> = match plan.level {
        0 => inputs.iter().map(|file| vec![Arc::clone(file)]).collect(),
        _ => vec![inputs.to_vec()],
    };
    runs.push(output_inputs.to_vec());
    let bounds = (range.lower.map(Arc::from), range.upper.map(Arc::from));
    let options = ScanOptions::for_compaction(runs.len() * parts, bounds);
    runs.into_iter().map(|files| LevelCursor::new(files, options.clone())).collect()
}

fn merge(
    job: &Job,
    plan: &Plan,
    sources: Vec<LevelCursor>,
    range: KeyRange,
    failed: &AtomicBool,
    outputs: &mut Outputs,
) -> Result<u64> {
    let mut cursor = MergingCursor::new(sources);
    let mut retention = Retention::new(job.snapshots.clone());
    let mut below = Below::plan(job.version, plan);
    match range.lower {
        Some(lower) => cursor.seek(&key::seek_key(lower, MAX_SEQUENCE))?,
        None => cursor.seek_to_first()?,
    }
    let goes_on = |key: &[u8]| {
        if job.cancelled.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        Ok(range.upper.is_none_or(|upper| user_key(key) < upper))
    };
    let deleted = outputs.deleted;
    keep_survivors(&mut cursor, deleted, &mut retention, &mut below, goes_on, |key, value| {
        outputs.add(key, value)
    })?;
    Ok(retention.hits())
}

/// The time at which the oldest deletion of the files was flushed, in seconds since 1970. 0 if no
/// file records this time.
pub(crate) fn oldest_deletion<'a>(files: impl Iterator<Item = &'a Arc<TableFile>>) -> u64 {
    let times = files.map(|file| file.meta.contents.garbage.oldest_deletion);
    times.filter(|&time| time > 0).min().unwrap_or(0)
}

struct Outputs<'a> {
    job: &'a Job<'a>,
    output_level: usize,
    /// Whether all entries go to one table ([`Plan::has_one_output`]).
    is_one: bool,
    metadata: MetadataForm,
    deleted: &'a Ranges<'a>,
    oldest_deletion: u64,
    /// The current table takes range deletions from this user key on. `None`: from the first range
    /// deletion on.
    lower: Option<Vec<u8>>,
    /// The largest sequence number that each output records at least. In level 0 this is the
    /// largest of all inputs, which keeps the output in their place ([`crate::version::order`]).
    least_largest_sequence: SequenceNumber,
    finished: Vec<Arc<TableFile>>,
    current: Option<NewTable<'a>>,
    last_user_key: Vec<u8>,
    /// The files of the level after the output level.
    grandparents: &'a [Arc<TableFile>],
    next_grandparent: usize,
    /// The bytes of those grandparents whose end is between two keys of the current table.
    overlapped_bytes: u64,
    /// The number of grandparents in `overlapped_bytes`.
    crossed: usize,
    /// The fences of the plan that no key has passed yet.
    fences: &'a [Vec<u8>],
}

impl<'a> Outputs<'a> {
    fn new(
        job: &'a Job<'a>,
        plan: &'a Plan,
        metadata: MetadataForm,
        deleted: &'a Ranges<'a>,
        oldest_deletion: u64,
        lower: Option<&[u8]>,
    ) -> Self {
        let grandparents = job.version.levels.get(plan.output_level + 1);
        let passed = plan.fences.partition_point(|fence| lower.is_some_and(|l| fence[..] <= *l));
        let inputs = job.version.files().map(|(_, file)| &file.meta);
        let inputs = inputs.filter(|meta| plan.inputs.contains(&meta.number));
        let newest = inputs.map(|meta| meta.largest_sequence).max().unwrap_or(0);
        Outputs {
            job,
            output_level: plan.output_level,
            is_one: plan.has_one_output(job.shape.table_bytes),
            least_largest_sequence: if plan.output_level == 0 { newest } else { 0 },
            metadata,
            deleted,
            oldest_deletion,
            lower: lower.map(<[u8]>::to_vec),
            finished: Vec::new(),
            current: None,
            last_user_key: Vec::new(),
            grandparents: grandparents.map_or(&[], |level| &level[..]),
            next_grandparent: 0,
            overlapped_bytes: 0,
            crossed: 0,
            fences: &plan.fences[passed..],
        }
    }

    fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let key = user_key(internal_key);
        if !key::is_same(&self.last_user_key, key) || self.current.is_none() {
            self.pass_fences(|fence| fence <= key)?;
            let crossed_before = self.crossed;
            self.pass_grandparents(key);
            if self.is_full(crossed_before) {
                self.cut(Some(key))?;
            }
            self.last_user_key.clear();
            self.last_user_key.extend_from_slice(key);
        }
        let create =
            || create(self.job, self.metadata, self.output_level, self.least_largest_sequence);
        NewTable::in_slot(&mut self.current, create)?.add(internal_key, value)
    }

    /// Ends the current table at each fence for which `is_passed` holds.
    fn pass_fences(&mut self, is_passed: impl Fn(&[u8]) -> bool) -> Result<()> {
        while let Some((fence, rest)) = self.fences.split_first()
            && is_passed(fence)
        {
            self.cut(Some(fence))?;
            self.fences = rest;
        }
        Ok(())
    }

    /// Ends the last table of a part. `upper` is the user key before which the part ends, if any.
    fn finish(&mut self, upper: Option<&[u8]>) -> Result<()> {
        self.pass_fences(|fence| upper.is_none_or(|upper| fence < upper))?;
        self.cut(upper)
    }

    fn pass_grandparents(&mut self, key: &[u8]) {
        while let Some(file) = self.grandparents.get(self.next_grandparent)
            && user_key(&file.meta.largest) < key
        {
            if self.current.is_some() {
                self.overlapped_bytes += file.meta.file_bytes;
                self.crossed += 1;
            }
            self.next_grandparent += 1;
        }
    }

    /// Whether the next key goes to another table. `crossed_before` is the value of `crossed` at
    /// the previous key.
    fn is_full(&self, crossed_before: usize) -> bool {
        let Some(table) = &self.current else { return false };
        if self.is_one {
            return false;
        }
        let table_bytes = self.job.shape.table_bytes;
        // How far the block that is being filled will be compressed is not known, so it does not
        // count if it is more than half a table.
        let (written, filling) = table.written_and_filling_bytes();
        let is_known = self.job.store.options.compression == Compression::None;
        let counts = is_known || filling <= table_bytes / 2;
        let bytes = written + if counts { filling } else { 0 };
        bytes >= table_bytes
            || self.overlapped_bytes > max_grandparent_bytes(self.job.shape)
            || (self.crossed > crossed_before
                && bytes >= table_bytes / 100 * early_cut_percent(crossed_before))
    }

    /// Finishes the current table with the range deletions before `upper`. If there are range
    /// deletions but no table, makes one for them.
    fn cut(&mut self, upper: Option<&[u8]>) -> Result<()> {
        self.overlapped_bytes = 0;
        self.crossed = 0;
        let range = (self.lower.as_deref(), upper);
        let ended =
            self.deleted.end_table(self.current.take(), range, self.oldest_deletion, || {
                create(self.job, self.metadata, self.output_level, self.least_largest_sequence)
            })?;
        self.finished.extend(ended);
        self.lower = upper.map(<[u8]>::to_vec);
        Ok(())
    }
}

fn create<'a>(
    job: &Job<'a>,
    metadata: MetadataForm,
    level: usize,
    least_largest_sequence: SequenceNumber,
) -> Result<NewTable<'a>> {
    let mut table = job.store.create_in_form(metadata, job.filter, level)?;
    table.raise_largest_sequence(least_largest_sequence);
    Ok(table)
}

/// The least fill, in percent of the target size, at which a table is cut at the end of a
/// grandparent. Without the cut, the table might overlap a small part of the next grandparent, and
/// its own compaction would rewrite all of that grandparent. If the table already contains the ends
/// of many grandparents (`crossed_before`), these are small, so the next end of one is near, and
/// the cut waits until the table is fuller. (The rule and its numbers are RocksDB's.)
fn early_cut_percent(crossed_before: usize) -> u64 {
    (50 + 5 * crossed_before as u64).min(90)
}
