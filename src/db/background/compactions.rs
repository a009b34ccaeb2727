//! Compactions: which one is due, and its steps from the plan to the new tree.
//!
//! Compactions run in parallel if they share no file and their outputs cannot overlap within a
//! level. A compaction of level 0 usually takes that whole level, so two such compactions seldom
//! run at the same time. Instead, a large compaction of level 0 is split among the idle threads
//! ([`split`]), and so is a large step of a manual compaction (`manual.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use crate::compaction::run::Job;
use crate::compaction::{Conditions, Gain, Plan, PlanKind, Planner, TreeShape, dead, run, split};
use crate::db::inner::Inner;
use crate::db::inner::reading::Reading;
use crate::db::inner::tree_state::TreeState;
use crate::db::options::Builder;
use crate::db::stats::report::DamagedTable;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::{Error, Result};
use crate::filter_policy::FilterContext;
use crate::stats::Ticker;
use crate::sync::lock;
use crate::version::{TableFile, Version, VersionEdit, seconds_since_1970};

impl Inner {
    /// The job: runs `first`, then every other compaction that is due. `is_retry`: `first` comes
    /// from [`Inner::retry_job`].
    pub(super) fn compaction_job(&self, first: Compaction, mut is_retry: bool) {
        let mut next = Some(first);
        while let Some(compaction) = next {
            let attempt = compaction.attempt;
            let compacted = self.compact(compaction);
            let mut state = self.tree.lock();
            match compacted {
                Ok(_) => {
                    state.work.compactions.succeeded();
                    state.work.retry_now();
                }
                // The next compaction leaves the damaged file out.
                Err(error) if state.has_set_aside(&error) => {}
                Err(error) if self.may_retry(&error) => {
                    state.work.compactions.failed(attempt, error);
                }
                Err(error) => {
                    drop(state);
                    self.latch(error);
                    return;
                }
            }
            state.work.retrying_compaction &= !is_retry;
            is_retry = false;
            next = match state.work.compactions.last_error() {
                None => self.next_compaction(&mut state),
                Some(_) => None,
            };
            self.schedule(&mut state);
            self.tree.notify();
        }
    }

    /// The job that compacts again after a compaction found no space or no thread: it waits, and
    /// then runs the compactions that are due.
    pub(super) fn retry_job(&self) {
        self.wait_for_space(|work| &mut work.compactions);
        let mut state = self.tree.lock();
        match self.next_compaction(&mut state) {
            Some(compaction) => {
                drop(state);
                self.compaction_job(compaction, true);
            }
            None => {
                state.work.retrying_compaction = false;
                // No compaction can start now. If a manual compaction has claimed its next step
                // (`manual.rs`), no compaction that overlaps this step may start. This may be the
                // reason, and the failed compaction may still be due, so its error stays. Otherwise
                // the error is cleared, so that [`Inner::schedule`] starts jobs as usual.
                if state.claimed.is_none() {
                    state.work.compactions.succeeded();
                }
                self.tree.notify();
            }
        }
    }

    /// Reserves files and threads for the next compaction that is due ([`TreeState::start`]).
    /// Returns `None` if none is due, no thread is idle, or the database must not compact now.
    pub(super) fn next_compaction(&self, state: &mut TreeState) -> Option<Compaction> {
        if self.status.is_stopping() || state.waits_for_space || state.idle_threads == 0 {
            return None;
        }
        let plan = self.next_plan(state)?;
        // Writers may be waiting for a compaction of level 0, so it may use all idle threads.
        let most_threads = if plan.level == 0 { state.idle_threads } else { 1 };
        Some(state.start(plan, &self.options.shape, most_threads, Caller::Job))
    }

    /// The next compaction: one that the shape of the tree requires, or else one that a cursor has
    /// requested, or else one that the filter policy requires.
    pub(super) fn next_plan(&self, state: &TreeState) -> Option<Plan> {
        let metas = state.version.metas();
        let conditions = state.conditions(&self.reading, &self.options);
        let claimed = state.claimed.as_ref().map(|plan| state.unavailable.with(plan));
        let unavailable = claimed.as_ref().unwrap_or(&state.unavailable);
        let planner = Planner::new(&metas, &self.options.shape, unavailable);
        let due = planner.pick(&conditions);
        let due = due.or_else(|| lock(&self.background.cleanups).plan(&planner, &conditions));
        due.or_else(|| planner.plan_overspent(&self.options.filter, &state.version))
    }

    /// Runs a compaction that [`TreeState::start`] has started. Returns the numbers of the tables
    /// that it has written.
    pub(super) fn compact(&self, compaction: Compaction) -> Result<Vec<u64>> {
        let Compaction { plan, version, threads, borrowed, .. } = compaction;
        let compacted = self.run_compaction(&plan, &version, threads);
        let damaged = match &compacted {
            Err(error) => damaged_input(&plan, &version, error),
            Ok(_) => None,
        };
        // The version is dropped before waiting threads are woken, so that these threads find
        // obsolete files deleted: a file is deleted with the last version that holds it.
        drop(version);
        let mut state = self.tree.lock();
        state.release(&plan, borrowed);
        if let Some(damaged) = damaged {
            state.unavailable.damaged.insert(damaged.number);
            state.work.damaged.push(damaged);
            self.publish(&mut state);
        }
        self.tree.notify();
        compacted
    }

    fn run_compaction(&self, plan: &Plan, version: &Version, threads: usize) -> Result<Vec<u64>> {
        let mut edit = VersionEdit::default();
        edit.removed.extend(plan.inputs.iter().map(|&number| (plan.level, number)));
        edit.removed.extend(plan.output_inputs.iter().map(|&number| (plan.output_level, number)));
        // Inputs with range deletions are merged rather than moved, because a merge drops range
        // deletions that hide nothing any more.
        let deletes_ranges = version.files().any(|(_, file)| {
            plan.inputs.contains(&file.meta.number) && file.table.ranges().is_some()
        });
        if plan.kind == PlanKind::Drop {
            let dropped = plan.inputs.len() as u64;
            self.install(edit, Vec::new(), |_| {})?;
            self.reading.counters().add(Ticker::TablesDropped, dropped);
            return Ok(Vec::new());
        }
        if plan.kind == PlanKind::Move && !deletes_ranges {
            let moved = version.levels[plan.level].iter();
            let moved = moved.filter(|file| plan.inputs.contains(&file.meta.number));
            edit.added.extend(moved.map(|file| (plan.output_level, file.meta.clone())));
            return self.install(edit, Vec::new(), |_| {}).map(|()| Vec::new());
        }
        // The policy gets the tree without the inputs, because the outputs replace them, and their
        // entries would count twice.
        let inputs: HashSet<u64> = plan.inputs.iter().chain(&plan.output_inputs).copied().collect();
        let mut stay = version.metas();
        let mut input_entries = 0;
        for level in &mut stay {
            level.retain(|meta| {
                let replaced = inputs.contains(&meta.number);
                input_entries += if replaced { meta.entries } else { 0 };
                !replaced
            });
        }
        let context = FilterContext::new(&stay, plan.output_level, input_entries);
        let job = Job {
            store: &self.store,
            version,
            shape: &self.options.shape,
            snapshots: self.reading.snapshots().sequences(),
            filter: self.options.filter.spec_for(&context),
            cancelled: self.status.closing(),
            parts: threads,
        };
        let expected_hits = dead::expected_hits(&version.metas(), plan);
        let outcome = run::run(&job, plan)?;
        self.tree.lock().deletion_hits.learn(expected_hits, outcome.hits);
        self.reading.counters().add(Ticker::CompactionCount, 1);
        if outcome.parts > 1 {
            self.reading.counters().add(Ticker::CompactionParts, outcome.parts as u64);
        }
        self.reading.counters().add(Ticker::CompactReadBytes, plan.input_bytes);
        self.reading.counters().add(Ticker::CompactWriteBytes, outcome.bytes_written);
        edit.added
            .extend(outcome.outputs.iter().map(|file| (plan.output_level, file.meta.clone())));
        let numbers: Vec<u64> = outcome.outputs.iter().map(|file| file.meta.number).collect();
        let in_vain = made_nothing_smaller(plan, version, &outcome.outputs);
        self.install_outputs(plan.output_level, edit, outcome.outputs, |state| {
            if in_vain {
                let listed = |number| state.version.files().any(|(_, it)| it.meta.number == number);
                state.unavailable.vain.retain(|&(number, _)| listed(number));
                state.unavailable.vain.extend(numbers.iter().map(|&number| (number, plan.gain)));
            }
        })?;
        self.reading.counters().add(Ticker::CompactionsInVain, in_vain.into());
        Ok(numbers)
    }
}

/// Whose thread runs a compaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// One of the database's `compaction_threads`.
    Job,
    /// A thread of the user, which called the database. It is not one of the `compaction_threads`.
    User,
}

/// A compaction that was started.
pub(crate) struct Compaction {
    pub(super) plan: Plan,
    version: Arc<Version>,
    /// Threads that it may use.
    threads: usize,
    /// How many of the `threads` are among the database's `compaction_threads`. They become idle
    /// when the compaction ends.
    pub(super) borrowed: usize,
    attempt: u64,
}

impl TreeState {
    /// The conditions, apart from the tree itself, that decide whether compactions remove dead data
    /// ([`dead`]).
    pub(crate) fn conditions(&self, reading: &Reading, options: &Builder) -> Conditions {
        let frozen = self.frozen.iter().map(|frozen| &frozen.memtable);
        let unflushed = frozen.chain([&self.memtable]).map(|memtable| memtable.smallest_sequence());
        Conditions {
            snapshots: reading.snapshots().sequences(),
            settled: self.settlers > 0 || self.is_idle,
            hit_rate: self.deletion_hits.rate(),
            now: seconds_since_1970(),
            max_deletion_age: options.max_deletion_age.as_secs(),
            flushed_before: unflushed.min().unwrap_or(MAX_SEQUENCE),
        }
    }

    /// Whether the error reports the damage of a file that compactions now leave out.
    pub(super) fn has_set_aside(&self, error: &Error) -> bool {
        let Error::Corruption { file, .. } = error else { return false };
        let mut damaged = self.work.damaged.iter();
        damaged
            .any(|it| matches!(&it.error, Error::Corruption { file: other, .. } if other == file))
    }

    /// Starts the compaction of `plan`: reserves its files and the range of its output, and takes
    /// idle threads, more of them for a larger input. [`Inner::compact`] then runs the compaction.
    pub(super) fn start(
        &mut self,
        plan: Plan,
        shape: &TreeShape,
        most_threads: usize,
        caller: Caller,
    ) -> Compaction {
        self.unavailable.reserve(&plan);
        self.compactions += 1;
        let splits = plan.kind == PlanKind::Merge && plan.output_level > 0;
        let most = if splits { most_threads } else { 1 };
        let threads = split::part_count(plan.input_bytes, shape.table_bytes, most);
        let borrowed = match caller {
            Caller::Job => threads,
            Caller::User => threads - 1,
        };
        self.idle_threads -= borrowed;
        let attempt = self.work.compactions.start();
        Compaction { plan, version: Arc::clone(&self.version), threads, borrowed, attempt }
    }

    /// Undoes [`TreeState::start`].
    pub(super) fn release(&mut self, plan: &Plan, borrowed: usize) {
        self.compactions -= 1;
        self.idle_threads += borrowed;
        self.unavailable.release(plan);
    }
}

/// Whether a merge within a level, for whatever [`Gain`] it was picked, has left as many entries,
/// files and bytes of filters as it found.
fn made_nothing_smaller(plan: &Plan, version: &Version, outputs: &[Arc<TableFile>]) -> bool {
    let inputs = version.levels[plan.level].iter();
    let inputs: Vec<_> = inputs.filter(|it| plan.inputs.contains(&it.meta.number)).collect();
    let size = |files: &[&Arc<TableFile>]| {
        let filter_bytes = |file: &&Arc<TableFile>| file.table.filter_info().map(|it| it.bytes);
        let entries: u64 = files.iter().map(|file| file.meta.entries).sum();
        (entries, files.len(), files.iter().filter_map(filter_bytes).sum::<u64>())
    };
    let is_within = plan.level == plan.output_level && plan.gain != Gain::Requested;
    is_within && size(&outputs.iter().collect::<Vec<_>>()) >= size(&inputs)
}

/// The input file that the error names.
fn damaged_input(plan: &Plan, version: &Version, error: &Error) -> Option<DamagedTable> {
    let Error::Corruption { file: path, .. } = error else { return None };
    let (level, file) = version.files().find(|(_, file)| file.path() == path)?;
    let number = file.meta.number;
    let is_input = plan.inputs.contains(&number) || plan.output_inputs.contains(&number);
    is_input.then(|| DamagedTable { level, number, error: error.clone() })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use crate::fs::MemFs;
    use crate::{Compression, Db};

    const MEMTABLE_BYTES: u64 = 256 << 10;
    const WINDOW: u64 = 5_000;

    /// Writes new keys and deletes the oldest, `together` keys at a time. Returns two sizes in
    /// bytes: the largest total size of the tables, measured whenever no compaction runs, and the
    /// size of the live entries.
    fn most_stored(together: u64) -> (u64, u64) {
        let builder = Db::builder("/db").fs(Arc::new(MemFs::new())).compression(Compression::None);
        let builder = builder.memtable_bytes(MEMTABLE_BYTES as usize).table_bytes(1 << 20);
        let db = builder.level_base_bytes(1 << 20).open().unwrap();
        let key = |n: u64| format!("key{n:012}");
        let (mut oldest, mut most) = (0, 0);
        for n in 0..60_000 {
            db.put(key(n), [7; 300]).unwrap();
            if n + 1 >= oldest + WINDOW + together {
                match together {
                    1 => db.delete(key(oldest)).unwrap(),
                    _ => db.delete_range(key(oldest), key(oldest + together)).unwrap(),
                }
                oldest += together;
            }
            if n % 50 == 0 {
                // `wait_for_compaction` is not called, because compactions remove more dead data
                // while a thread is in that call.
                let state = loop {
                    let state = db.inner.tree.lock();
                    if !state.work.has_jobs() {
                        break state;
                    }
                    drop(state);
                    std::thread::yield_now();
                };
                let files = state.version.files();
                most = most.max(files.map(|(_, file)| file.meta.file_bytes).sum());
            }
        }
        (most, (WINDOW + together) * (15 + 300))
    }

    /// Regression: the tree once grew to three times the bytes of the live entries. Now the bound
    /// below holds whenever no compaction runs. A running compaction needs more space, because it
    /// keeps its inputs until it ends.
    #[test]
    fn a_retention_takes_at_no_moment_more_than_its_window_and_three_memtables() {
        for together in [1, 500] {
            let (most, alive) = most_stored(together);
            println!("{together}: {most} stored, {alive} alive");
            assert!(most <= alive * 12 / 10 + 3 * MEMTABLE_BYTES, "{most} stored, {alive} alive");
        }
    }
}
