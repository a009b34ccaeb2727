//! Work that a caller waits for: `wait_for_compaction` and `compact_range`.
//!
//! A manual compaction is a series of *steps*. Each step is an ordinary compaction in the caller's
//! thread. Automatic compactions run in parallel. Neither kind uses what is [`Unavailable`]: files
//! and ranges of running compactions and ingestions, and damaged files.
//!
//! ```text
//!   level 0   old files, and whatever is older than one of them      ─┐
//!   level 1   files with old entries                                  ├─► one level down, in steps
//!   …                                                                ─┘
//!   deepest   files with old entries that were not written on the way ─► the same level, once
//! ```
//!
//! An *old* entry was written before the call. A level is done when none of its files in the range
//! holds an old entry. The deepest level is done when its files with old entries are rewritten.
//!
//! **A manual compaction terminates**, however fast other threads write. All old entries are in
//! tables when work on the first level begins, and compactions never move entries up. The levels
//! above the current one are done, so no old entry comes from them. Each step takes at least one
//! table with an old entry out of the current level. In the deepest level, each step instead
//! rewrites at least one table that was there when work on that level began.
//!
//! **Manual and automatic compactions both make progress.** Before each step the automatic
//! compactions that are due may start. If running compactions block all remaining steps, the manual
//! compaction *claims* one step: it waits until they end, and no compaction that overlaps the claim
//! starts before this step. Below level 0 a step is of limited size, so automatic compactions do
//! not wait long for it. No running compaction waits for another, so there is no deadlock.

use std::collections::BTreeSet;

use super::compactions::{Caller, Compaction};
use super::jobs::{latching_panics, work_in_this_thread};
use super::schedule::Awaited;
use crate::compaction::{Gain, LAST_LEVEL, Plan, PlanKind, Planner, Unavailable, overlapping};
use crate::db::inner::Inner;
use crate::db::inner::tree_state::TreeState;
use crate::db::iter::bounds::Bounds;
use crate::encoding::key::{SequenceNumber, user_key};
use crate::error::Result;
use crate::sync::atomic::Ordering;
use crate::version::{FileMeta, LEVELS};

/// Below level 0, the inputs of one step have at most the size of this many full tables, unless
/// they are a single file and the files that it overlaps.
const STEP_TABLES: u64 = 16;

/// A manual compaction under way.
struct Manual {
    range: Bounds,
    /// The sequence number of the last write before the call.
    last_old: SequenceNumber,
    /// Tables from this number on were written after work on the current level had begun.
    first_new: u64,
    /// Tables that the steps of this compaction have written.
    written: BTreeSet<u64>,
}

impl Manual {
    fn is_old(&self, file: &FileMeta) -> bool {
        file.smallest_sequence <= self.last_old
    }
}

impl Inner {
    /// Waits until no flush and no compaction runs or is due, and no manual compaction waits for
    /// its next step.
    pub(crate) fn wait_for_compaction(&self) -> Result<()> {
        self.database.status.check_open()?;
        self.ensure_taken_over(&mut self.database.writing.lead())?;
        // While a thread is in this call, the tree counts as settled, so that compactions also
        // remove dead data of which there would otherwise be too little for a merge.
        self.tree.lock().settlers += 1;
        let settled = self.wait_until(Awaited::FlushesAndCompactions, |state| {
            state.frozen.is_empty()
                && !state.flushing
                && state.compactions == 0
                && state.claimed.is_none()
                && self.tree.next_plan(state, u64::MAX).is_none()
        });
        let settled = settled.map(drop);
        self.tree.lock().settlers -= 1;
        settled
    }

    /// Compacts the files that overlap `range` and hold old entries, level by level from the top.
    pub(crate) fn compact_range(&self, range: Bounds) -> Result<()> {
        // `last_old` is read before the flush, so that the flush writes everything up to this
        // sequence number to tables.
        let last_old = self.database.sequences.visible();
        self.flush()?;
        let _working = work_in_this_thread(self)?;
        let mut manual = Manual { range, last_old, first_new: 0, written: BTreeSet::new() };
        self.manually(|| (0..LEVELS).try_for_each(|level| self.compact_level(level, &mut manual)))?;
        let (state, range) = (self.tree.lock(), &manual.range);
        let met = state.work.damaged.iter().find(|damaged| {
            let mut files = state.version.overlapping(damaged.level, range.lower(), range.upper());
            files.any(|file| file.meta.number == damaged.number)
        });
        met.map_or(Ok(()), |damaged| Err(damaged.error.clone()))
    }

    /// Runs `work`, a series of steps, while no other such series runs.
    pub(super) fn manually<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.wait_until(Awaited::Nothing, |state| !state.manual)?.manual = true;
        // After a panic `manual` stays set. The files of the step stay reserved, too.
        let done = latching_panics(self, work);
        let mut state = self.tree.lock();
        state.manual = false;
        state.claimed = None;
        self.schedule(&mut state);
        self.tree.notify();
        drop(state);
        done.map_err(|error| self.latch_unless_retried(error))
    }

    /// Runs steps until the level is done.
    fn compact_level(&self, level: usize, manual: &mut Manual) -> Result<()> {
        manual.first_new = self.database.store.next_file.load(Ordering::Relaxed);
        while let Some(step) = self.next_step(level, manual)? {
            match self.compact(step) {
                Ok(written) => manual.written.extend(written),
                // The next step leaves the damaged file out, or reads the file once more.
                Err(error) if self.tree.lock().has_noted(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts the next step in `level`, once nothing blocks it. Returns `None` if the level is
    /// done.
    fn next_step(&self, level: usize, manual: &Manual) -> Result<Option<Compaction>> {
        // The automatic compactions that are due may start first.
        self.schedule(&mut self.tree.lock());
        loop {
            let free = self.database.free_bytes();
            let mut state = self.tree.lock();
            self.check_writable()?;
            // What running compactions may write is not free for this one.
            let free = free.map_or(u64::MAX, |free| free.saturating_sub(state.merging_bytes));
            let plan = |most_bytes, unavailable: &Unavailable| {
                let plan = self.plan_of_level(&state, level, manual, unavailable, most_bytes)?;
                (plan.input_bytes <= most_bytes).then_some(plan)
            };
            // If no step fits although no compaction runs, one that does not seem to fit is tried:
            // it may need less.
            let most_bytes = if state.merging_bytes == 0 { u64::MAX } else { free };
            let next = plan(free, &state.unavailable);
            if let Some(plan) = next.or_else(|| plan(most_bytes, &state.unavailable)) {
                state.claimed = None;
                let plan = Plan { kind: PlanKind::Merge, gain: Gain::Requested, ..plan };
                return Ok(self.start_compaction(&mut state, plan, Caller::User));
            }
            let unblocked = state.unavailable.without_running();
            state.claimed = plan(free, &unblocked).or_else(|| plan(u64::MAX, &unblocked));
            if state.claimed.is_none() {
                return Ok(None);
            }
            drop(self.tree.wait(state));
        }
    }

    /// Plans the next step in `level`, without what is in `unavailable`, and with at most `most_bytes`
    /// of inputs.
    fn plan_of_level(
        &self,
        state: &TreeState,
        level: usize,
        manual: &Manual,
        unavailable: &Unavailable,
        most_bytes: u64,
    ) -> Option<Plan> {
        let metas = state.version.metas();
        let last_used = (1..LEVELS).rev().find(|&l| !metas[l].is_empty());
        let options = self.tree.options();
        let planner = Planner::new(&metas, &options.shape, unavailable).at_most(most_bytes);
        let output_level = match level {
            // The deepest level is rewritten in place, to drop what no snapshot can see.
            _ if Some(level) == last_used => level,
            _ => planner.next_level(level).min(LAST_LEVEL),
        };
        let (lower, upper) = (manual.range.lower(), manual.range.upper());
        if level == 0 {
            let mut files = state.version.overlapping(0, lower, upper);
            files.find(|file| manual.is_old(&file.meta))?;
            // An old file moves down together with all older files: files of level 0 may overlap,
            // so a file that moved alone could end up below an older version.
            let newer = metas[0].iter().take_while(|file| !manual.is_old(file)).count();
            return planner.plan_level_0_in_parts(&metas[0][newer..], output_level);
        }
        let is_done = |file: &&FileMeta| {
            let is_rewritten =
                file.number >= manual.first_new || manual.written.contains(&file.number);
            !manual.is_old(file) || (output_level == level && is_rewritten)
        };
        let files = state.version.overlapping(level, lower, upper);
        let files: Vec<_> = files.map(|file| &file.meta).collect();
        let below = if output_level == level { &[][..] } else { &metas[output_level] };
        let step_bytes = options.shape.table_bytes.saturating_mul(STEP_TABLES).min(most_bytes);
        // A step takes adjacent files only, because its outputs may cover all keys from its first
        // input to its last, and must not overlap a file that stays in their level.
        let mut steps = files.split(is_done).flat_map(|files| steps(files, below, step_bytes));
        steps.find_map(|files| planner.plan_neighbours(files, level, output_level))
    }
}

/// Cuts adjacent files into steps. A step has one file, or has at most `step_bytes` together with
/// the files of `below` that become inputs too: those between its first and its last key.
fn steps<'a, 'f>(
    mut files: &'a [&'f FileMeta],
    below: &[&FileMeta],
    step_bytes: u64,
) -> Vec<&'a [&'f FileMeta]> {
    let mut steps = Vec::new();
    while !files.is_empty() {
        let mut own_bytes = 0u64;
        let fitting = files.iter().take_while(|file| {
            let below = overlapping(below, user_key(&files[0].smallest), &file.largest);
            let below_bytes: u64 = below.iter().map(|file| file.file_bytes).sum();
            own_bytes = own_bytes.saturating_add(file.file_bytes);
            own_bytes.saturating_add(below_bytes) <= step_bytes
        });
        let (step, rest) = files.split_at(fitting.count().max(1));
        steps.push(step);
        files = rest;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn file(number: u64, smallest: u8, largest: u8, file_bytes: u64) -> FileMeta {
        FileMeta {
            number,
            file_bytes,
            smallest: internal_key(&[smallest], 1, 1),
            largest: internal_key(&[largest], 1, 1),
            ..FileMeta::default()
        }
    }

    /// Regression: one step once took a whole level, and blocked every compaction into the next
    /// level until it ended. Now the bytes of a step are bounded.
    #[test]
    fn a_step_is_one_file_or_fits_its_bytes_with_what_lies_below() {
        let files: Vec<_> = (0..6).map(|i| file(i, 10 * i as u8, 10 * i as u8 + 5, 10)).collect();
        let files: Vec<_> = files.iter().collect();
        let numbers = |below: &[&FileMeta], step_bytes| -> Vec<Vec<u64>> {
            let steps = steps(&files, below, step_bytes);
            steps.iter().map(|step| step.iter().map(|file| file.number).collect()).collect()
        };
        assert_eq!(numbers(&[], 30), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(numbers(&[], 1000), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(numbers(&[], 5).len(), 6);
        let below = [file(8, 0, 2, 5), file(9, 12, 25, 100), file(10, 40, 60, 1)];
        let below: Vec<_> = below.iter().collect();
        assert_eq!(numbers(&below, 30), [vec![0], vec![1], vec![2], vec![3, 4], vec![5]]);
    }

    /// Regression: files below that are in the gap between two files of a step were not counted,
    /// although they become inputs too. So a step of two small files could rewrite a whole level.
    #[test]
    fn files_below_in_the_gaps_between_the_files_of_a_step_count_once() {
        let files = [file(0, 0, 5, 10), file(1, 50, 55, 10), file(2, 56, 60, 10)];
        let files: Vec<_> = files.iter().collect();
        let in_gap: Vec<_> =
            (0..20).map(|i| file(10 + i, 10 + i as u8, 10 + i as u8, 100)).collect();
        let mut below: Vec<_> = in_gap.iter().collect();
        let across = file(30, 52, 58, 100);
        below.push(&across);
        let steps = steps(&files, &below, 130);
        let numbers: Vec<Vec<u64>> =
            steps.iter().map(|step| step.iter().map(|file| file.number).collect()).collect();
        assert_eq!(numbers, [vec![0], vec![1, 2]]);
    }
}
