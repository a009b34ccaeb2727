//! The merge of one compaction: entries of all inputs in order, survivors to new tables.
//!
//! Outputs are cut at the target size, and earlier where one would overlap too much of the level
//! after it, but never between two versions of a user key: a level holds a user key in one file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::pick::{Plan, Shape, max_grandparent_bytes};
use super::retain::Retention;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::key::{SequenceNumber, user_key};
use crate::merge::MergingCursor;
use crate::version::{
    COMPACTION_SCAN, LEVELS, LevelCursor, NewTable, TableFile, TableStore, Version,
};

/// What a compaction needs to know beside its plan.
pub(crate) struct Job<'a> {
    pub store: &'a TableStore,
    pub version: &'a Version,
    pub shape: &'a Shape,
    /// Sequence numbers that snapshots hold, ascending.
    pub snapshots: Vec<SequenceNumber>,
    pub filter: FilterSpec,
    /// Set when the database closes: the job stops and leaves nothing behind.
    pub cancelled: &'a AtomicBool,
}

/// What a finished compaction hands over: synced tables whose names are not durable yet.
pub(crate) struct Outcome {
    pub outputs: Vec<Arc<TableFile>>,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

pub(crate) fn run(job: &Job, plan: &Plan) -> Result<Outcome> {
    let mut outputs = Outputs::new(job, plan);
    let result = merge(job, plan, &mut outputs);
    let finished = result.and_then(|bytes_read| {
        outputs.cut()?;
        Ok(bytes_read)
    });
    match finished {
        Ok(bytes_read) => Ok(Outcome {
            bytes_read,
            bytes_written: outputs.finished.iter().map(|file| file.meta.file_bytes).sum(),
            outputs: outputs.finished,
        }),
        Err(error) => {
            // Nobody will list these tables: they go when the handles do.
            outputs.finished.iter().for_each(|file| file.mark_obsolete(plan.output_level));
            Err(error)
        }
    }
}

fn merge(job: &Job, plan: &Plan, outputs: &mut Outputs) -> Result<u64> {
    let files = |level: usize, numbers: &[u64]| -> Vec<Arc<TableFile>> {
        let level = job.version.levels[level].iter();
        level.filter(|file| numbers.contains(&file.meta.number)).cloned().collect()
    };
    let inputs = files(plan.level, &plan.inputs);
    let output_inputs = files(plan.output_level, &plan.output_inputs);
    let bytes_read = inputs.iter().chain(&output_inputs).map(|file| file.meta.file_bytes).sum();

    let options = COMPACTION_SCAN;
    // Files of level 0 overlap, so each is a source of its own.
    let mut sources: Vec<LevelCursor> = if plan.level == 0 {
        inputs.into_iter().map(|file| LevelCursor::new(vec![file], options)).collect()
    } else {
        vec![LevelCursor::new(inputs, options)]
    };
    sources.push(LevelCursor::new(output_inputs, options));

    let mut cursor = MergingCursor::new(sources);
    let mut retention = Retention::new(job.snapshots.clone());
    let mut below = Below::new(job.version, plan.output_level);
    cursor.seek_to_first()?;
    while cursor.valid() {
        if job.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        if retention.keeps(cursor.key(), |key| below.may_hold(key)) {
            outputs.add(cursor.key(), cursor.value())?;
        }
        cursor.next()?;
    }
    Ok(bytes_read)
}

/// Answers, for ascending user keys, whether a level under the output may hold one.
struct Below<'a> {
    /// The files of each deeper level, and the first that does not end before the last key.
    levels: Vec<(&'a [Arc<TableFile>], usize)>,
}

impl<'a> Below<'a> {
    fn new(version: &'a Version, output_level: usize) -> Self {
        let levels = (output_level + 1..LEVELS).map(|l| (&version.levels[l][..], 0)).collect();
        Below { levels }
    }

    fn may_hold(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|(files, next)| {
            while files.get(*next).is_some_and(|file| user_key(&file.meta.largest) < key) {
                *next += 1;
            }
            files.get(*next).is_some_and(|file| user_key(&file.meta.smallest) <= key)
        })
    }
}

/// The tables being written.
struct Outputs<'a> {
    job: &'a Job<'a>,
    finished: Vec<Arc<TableFile>>,
    current: Option<NewTable<'a>>,
    last_user_key: Vec<u8>,
    /// The level after the output level, the next of its files, and how many bytes of it the
    /// current table overlaps.
    grandparents: &'a [Arc<TableFile>],
    next_grandparent: usize,
    overlapped_bytes: u64,
}

impl<'a> Outputs<'a> {
    fn new(job: &'a Job<'a>, plan: &Plan) -> Self {
        let grandparents = job.version.levels.get(plan.output_level + 1);
        Outputs {
            job,
            finished: Vec::new(),
            current: None,
            last_user_key: Vec::new(),
            grandparents: grandparents.map_or(&[], |level| &level[..]),
            next_grandparent: 0,
            overlapped_bytes: 0,
        }
    }

    fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let key = user_key(internal_key);
        if self.last_user_key != key || self.current.is_none() {
            self.pass_grandparents(key);
            if self.is_full() {
                self.cut()?;
            }
            self.last_user_key.clear();
            self.last_user_key.extend_from_slice(key);
        }
        let table = match &mut self.current {
            Some(table) => table,
            None => self.current.insert(self.job.store.create(self.job.filter)?),
        };
        table.add(internal_key, value)
    }

    fn pass_grandparents(&mut self, key: &[u8]) {
        while let Some(file) = self.grandparents.get(self.next_grandparent)
            && user_key(&file.meta.largest) < key
        {
            if self.current.is_some() {
                self.overlapped_bytes += file.meta.file_bytes;
            }
            self.next_grandparent += 1;
        }
    }

    fn is_full(&self) -> bool {
        let shape = self.job.shape;
        self.current.as_ref().is_some_and(|table| {
            table.estimated_bytes() >= shape.table_bytes
                || self.overlapped_bytes > max_grandparent_bytes(shape)
        })
    }

    /// Finishes the current table, if there is one.
    fn cut(&mut self) -> Result<()> {
        self.overlapped_bytes = 0;
        if let Some(table) = self.current.take() {
            self.finished.push(table.finish()?);
        }
        Ok(())
    }
}
