//! Compactions: which one is due, and its steps from the plan to the new tree.
//!
//! ```text
//!   compaction_job   succeeded ─► the next that is due
//!                    failed    ─► the timer: look ─► careful_job   one at a time, if it fits
//! ```
//!
//! Compactions run in parallel if they share no file and their outputs cannot overlap within a
//! level. A compaction of level 0 usually takes that whole level, so two such compactions seldom
//! run at the same time. Instead, a large compaction of level 0 is split among the idle threads
//! ([`split`]), and so is a large step of a manual compaction (`manual.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::attempts::LOOK_EVERY;
use super::jobs::work_until_closed;
use super::pool::COMPACTIONS;
use super::timer::{self, TurnWork};
use crate::compaction::run::Job;
use crate::compaction::{Conditions, Gain, Plan, PlanKind, Planner, dead, run, split};
use crate::db::asked;
use crate::db::events;
use crate::db::inner::Inner;
use crate::db::inner::tree::Tree;
use crate::db::inner::tree_state::TreeState;
use crate::db::stats::report::DamagedTable;
use crate::encoding::key::MAX_SEQUENCE;
use crate::error::{Error, Result};
use crate::stats::Ticker;
use crate::sync::lock;
use crate::sync::time::Instant;
use crate::version::{TableFile, Version, VersionEdit, seconds_since_1970};

/// After a compaction has failed.
static CAREFULLY: TurnWork = TurnWork(look);

/// Called by the timer when the wait after a failed compaction is over: starts one that is due and
/// fits into the free space. Returns the wait until the next look; `None` if there is to be none, or
/// if the job that was started adds it.
fn look(inner: &Inner) -> Option<Duration> {
    let free = inner.database.free_bytes();
    let mut state = inner.tree.lock();
    if state.work.runs_carefully {
        return None;
    }
    // What running compactions may write is not free for another one.
    let free = free.map(|free| free.saturating_sub(state.merging_bytes));
    match inner.careful_plan(&mut state, free) {
        Careful::Plan { plan, is_ample } => {
            let started = inner.start_compaction(&mut state, plan, Caller::Job);
            let Some(compaction) = started else { return Some(LOOK_EVERY) };
            let compaction = Compaction { is_ample, ..compaction };
            state.work.runs_carefully =
                inner.start_compaction_job(&mut state, compaction, Inner::careful_job);
            (!state.work.runs_carefully).then_some(LOOK_EVERY)
        }
        Careful::Wait => Some(LOOK_EVERY),
        Careful::End => {
            inner.schedule(&mut state);
            inner.tree.notify();
            None
        }
    }
}

/// Looks at once after a failed compaction, because a caller waits for the outcome, or because there
/// may be space now. The calling thread looks and not the timer's, which may be waiting for the device
/// of another database. It must hold no lock.
pub(super) fn look_at_once(inner: &Inner) {
    let Ok(working) = work_until_closed(inner) else { return };
    if let Some(wait) = look(working.inner()) {
        timer::add(inner, wait, &CAREFULLY);
    }
}

impl Inner {
    /// The job: runs `first`, then every other compaction that is due.
    pub(super) fn compaction_job(&self, first: Compaction) {
        let mut next = Some(first);
        while let Some(compaction) = next {
            if !self.compact_and_record(compaction) {
                return;
            }
            let mut state = self.tree.lock();
            next = match state.work.compactions.is_careful() {
                true => None,
                false => self.next_compaction(&mut state),
            };
            self.schedule(&mut state);
        }
    }

    /// The job: runs one compaction that was chosen with care.
    fn careful_job(&self, compaction: Compaction) {
        if !self.compact_and_record(compaction) {
            return;
        }
        let mut state = self.tree.lock();
        state.work.runs_carefully = false;
        let is_careful = state.work.compactions.is_careful();
        let wait = state.work.compactions.next_wait();
        self.schedule(&mut state);
        drop(state);
        if is_careful {
            timer::add(self, wait, &CAREFULLY);
        }
    }

    /// Runs the compaction and records its outcome. Returns `false` if the database is read-only
    /// now.
    fn compact_and_record(&self, compaction: Compaction) -> bool {
        let Compaction { attempt, is_ample, .. } = compaction;
        let compacted = self.compact(compaction);
        let free = compacted.is_err().then(|| self.database.free_bytes()).flatten();
        let mut state = self.tree.lock();
        let mut look_after = None;
        let compactions = |state: &mut TreeState| match is_ample {
            true => state.work.compactions.is_over(),
            false => state.work.compactions.succeeded(),
        };
        match compacted {
            Ok(_) => {
                compactions(&mut state);
                // There may be space for a flush that has failed.
                state.work.flushes.retry_now = true;
            }
            // The files of a dropped keyspace go with it.
            Err(Error::KeyspaceDropped(_)) => compactions(&mut state),
            // The next compaction leaves the damaged file out.
            Err(error) if state.has_set_aside(&error) => compactions(&mut state),
            Err(error) if self.database.may_retry(&error) => {
                let free = free.map(|free| free.saturating_sub(state.merging_bytes));
                let compactions = &mut state.work.compactions;
                let was_careful = compactions.is_careful();
                compactions.failed(attempt, error);
                compactions.note_free(free);
                look_after = (!was_careful).then(|| compactions.next_wait());
            }
            Err(error) => {
                drop(state);
                self.latch(error);
                return false;
            }
        }
        self.tree.notify();
        drop(state);
        if let Some(wait) = look_after {
            timer::add(self, wait, &CAREFULLY);
        }
        true
    }

    /// Which compaction runs now, if any, after one has failed. `free`: how many bytes are free, if that
    /// is known.
    fn careful_plan(&self, state: &mut TreeState, free: Option<u64>) -> Careful {
        let is_careful = state.work.compactions.is_careful();
        if self.is_stopping() || state.waits_for_space || !is_careful {
            return Careful::End;
        }
        if self.database.jobs.compaction_threads.idle() == 0 {
            return Careful::Wait;
        }
        let Some(whole) = self.tree.next_plan(state, u64::MAX) else {
            // If a manual compaction has claimed its next step (`manual.rs`), no compaction that
            // overlaps this step may start. This may be the reason, so the failed compaction may
            // still be due, and its error stays.
            if state.claimed.is_some() {
                return Careful::Wait;
            }
            state.work.compactions.is_over();
            return Careful::End;
        };
        let compactions = &state.work.compactions;
        if whole.kind != PlanKind::Merge || compactions.may_fit(whole.input_bytes, free) {
            // A compaction of level 0 is the largest one: it may take all of the two levels.
            let metas = state.version.metas();
            let options = self.tree.options();
            let planner = Planner::new(&metas, &options.shape, &state.unavailable);
            let levels = [&metas[0], &metas[planner.next_level(0)]];
            let largest: u64 =
                levels.iter().flat_map(|files| files.iter()).map(|f| f.file_bytes).sum();
            let is_ample = free.is_none_or(|free| free / 2 >= largest.max(whole.input_bytes));
            return Careful::Plan { plan: whole, is_ample };
        }
        if let Some(plan) = free.and_then(|free| self.tree.next_plan(state, free)) {
            return Careful::Plan { plan, is_ample: false };
        }
        // A caller waits for the outcome. The plan may need less than it seems to.
        if state.settlers > 0 && state.merging_bytes == 0 {
            return Careful::Plan { plan: whole, is_ample: false };
        }
        state.work.compactions.does_not_fit();
        self.tree.notify();
        Careful::Wait
    }

    /// Reserves files and threads for the next compaction that is due ([`TreeState::start`]).
    /// Returns `None` if none is due, no thread is idle, or the database must not compact now.
    pub(super) fn next_compaction(&self, state: &mut TreeState) -> Option<Compaction> {
        let is_idle = || self.database.jobs.compaction_threads.idle() > 0;
        // If other trees have the threads, this tree waits for its turn, but only if it needs one. A
        // thread may still work for a keyspace that was dropped.
        let may_wait = || self.database.trees.had_others();
        if self.is_stopping() || state.waits_for_space || !(is_idle() || may_wait()) {
            return None;
        }
        let plan = self.tree.next_plan(state, u64::MAX)?;
        self.start_compaction(state, plan, Caller::Job)
    }

    /// Starts the compaction of `plan`: reserves its files and the range of its output, and takes
    /// idle threads, more of them for a larger input. [`Inner::compact`] then runs the compaction.
    /// `None` if a job needs a thread and none is idle.
    pub(super) fn start_compaction(
        &self,
        state: &mut TreeState,
        plan: Plan,
        caller: Caller,
    ) -> Option<Compaction> {
        let threads = &self.database.jobs.compaction_threads;
        // Writers may be waiting for a compaction of level 0, so it may use all idle threads.
        let may_split = caller == Caller::User || plan.level == 0;
        let splits = may_split && plan.kind == PlanKind::Merge && plan.output_level > 0;
        let wanted = match splits {
            true => {
                let table_bytes = self.tree.options().shape.table_bytes;
                split::part_count(plan.input_bytes, table_bytes, threads.idle().max(1))
            }
            false => 1,
        };
        let (own, borrowed) = match caller {
            Caller::Job => (0, threads.take(self.tree.id, wanted)),
            Caller::User => (1, threads.take_idle(wanted - 1)),
        };
        (own + borrowed > 0).then(|| state.start(plan, own + borrowed, borrowed))
    }

    /// Starts the job that runs a compaction which [`Inner::start_compaction`] has started. If there is
    /// no thread for the job, undoes that and returns `false`.
    pub(super) fn start_compaction_job(
        &self,
        state: &mut TreeState,
        compaction: Compaction,
        job: fn(&Inner, Compaction),
    ) -> bool {
        let (plan, borrowed) = (compaction.plan.clone(), compaction.borrowed);
        let started = self.start_job(&COMPACTIONS, move |inner| job(inner, compaction));
        let is_started = started.is_ok();
        if let Err(error) = started {
            self.release_compaction(state, &plan, borrowed);
            state.work.compactions.refused(error);
        }
        is_started
    }

    /// Undoes [`Inner::start_compaction`].
    pub(super) fn release_compaction(&self, state: &mut TreeState, plan: &Plan, borrowed: usize) {
        state.release(plan);
        self.database.jobs.compaction_threads.give_back(borrowed);
    }

    /// Runs a compaction that [`TreeState::start`] has started. Returns the numbers of the tables
    /// that it has written.
    pub(super) fn compact(&self, compaction: Compaction) -> Result<Vec<u64>> {
        let began = Instant::now();
        let Compaction { plan, version, threads, borrowed, .. } = compaction;
        let compacted = self.run_compaction(&plan, &version, threads);
        let unreadable = match &compacted {
            Err(error) => unreadable_input(&plan, &version, error),
            Ok(_) => None,
        };
        // The version is dropped before waiting threads are woken, so that these threads find
        // obsolete files deleted: a file is deleted with the last version that holds it.
        drop(version);
        let mut state = self.tree.lock();
        self.release_compaction(&mut state, &plan, borrowed);
        if compacted.is_ok() {
            state.work.could_read(&plan);
        }
        let sets_aside = unreadable.is_some_and(|table| state.sets_aside(table));
        if sets_aside {
            self.publish(&mut state);
        }
        self.tree.notify();
        drop(state);
        self.start_waiting(&self.database.jobs.compaction_threads);
        events::compacted(&self.database.store.dir, &plan, &compacted, began.elapsed());
        if let (true, Err(error)) = (sets_aside, &compacted) {
            events::set_aside(&self.database.store.dir, error);
        }
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
            self.install(None, edit, Vec::new(), |_| {})?;
            self.database.counters().add(Ticker::TablesDropped, dropped);
            return Ok(Vec::new());
        }
        if plan.kind == PlanKind::Refilter {
            return self.refilter(plan, version, edit);
        }
        if plan.kind == PlanKind::Move && !deletes_ranges {
            let moved = version.levels[plan.level].iter();
            let moved = moved.filter(|file| plan.inputs.contains(&file.meta.number));
            edit.added.extend(moved.map(|file| (plan.output_level, file.meta.clone())));
            return self.install(None, edit, Vec::new(), |_| {}).map(|()| Vec::new());
        }
        let inputs: BTreeSet<u64> =
            plan.inputs.iter().chain(&plan.output_inputs).copied().collect();
        asked::count(&self.database, &self.tree, version);
        let options = self.tree.options();
        let filters = options.filter.filters(version, plan.output_level, &inputs, 0);
        let job = Job {
            store: &self.table_store(&options),
            version,
            shape: &options.shape,
            snapshots: self.database.sequences.snapshots.sequences(),
            filter: &*filters,
            cancelled: self.database.status.closing(),
            parts: threads,
        };
        let expected_hits = dead::expected_hits(&version.metas(), plan);
        let outcome = run::run(&job, plan)?;
        self.tree.lock().deletion_hits.learn(expected_hits, outcome.hits);
        self.database.counters().add(Ticker::CompactionCount, 1);
        if outcome.parts > 1 {
            self.database.counters().add(Ticker::CompactionParts, outcome.parts as u64);
        }
        self.database.counters().add(Ticker::CompactReadBytes, plan.input_bytes);
        self.database.counters().add(Ticker::CompactWriteBytes, outcome.bytes_written);
        edit.added
            .extend(outcome.outputs.iter().map(|file| (plan.output_level, file.meta.clone())));
        let numbers: Vec<u64> = outcome.outputs.iter().map(|file| file.meta.number).collect();
        let in_vain = made_nothing_smaller(plan, version, &outcome.outputs);
        self.install_outputs(None, edit, outcome.outputs, |state| {
            if in_vain {
                let listed = |number| state.version.files().any(|(_, it)| it.meta.number == number);
                state.unavailable.vain.retain(|&(number, _)| listed(number));
                state.unavailable.vain.extend(numbers.iter().map(|&number| (number, plan.gain)));
            }
        })?;
        self.database.counters().add(Ticker::CompactionsInVain, in_vain.into());
        Ok(numbers)
    }

    /// Replaces the table of `plan` by one with the filter of the policy. `edit` removes the table.
    fn refilter(&self, plan: &Plan, version: &Version, mut edit: VersionEdit) -> Result<Vec<u64>> {
        let (level, database) = (plan.level, &self.database);
        let mut files = version.levels[level].iter();
        let Some(file) = files.find(|file| plan.inputs.contains(&file.meta.number)) else {
            return Ok(Vec::new());
        };
        let options = self.tree.options();
        let filter = options.filter.filters_of_all(version).spec_at(level, file);
        let goes_on = || database.status.check_open();
        let new = self.table_store(&options).refilter(file, level, filter, goes_on)?;
        database.counters().add(Ticker::CompactReadBytes, plan.input_bytes);
        database.counters().add(Ticker::CompactWriteBytes, new.meta.file_bytes);
        edit.added.push((level, new.meta.clone()));
        let number = new.meta.number;
        self.install_outputs(None, edit, vec![new], |_| {})?;
        Ok(vec![number])
    }
}

impl Tree {
    /// The conditions, apart from the tables, that decide whether compactions remove dead data
    /// ([`dead`]).
    pub(crate) fn conditions(&self, state: &TreeState) -> Conditions {
        let frozen = state.frozen.iter().map(|frozen| &frozen.memtable);
        let unflushed =
            frozen.chain([&state.memtable]).map(|memtable| memtable.smallest_sequence());
        Conditions {
            snapshots: self.reading.snapshots().sequences(),
            settled: state.settlers > 0 || state.is_idle,
            hit_rate: state.deletion_hits.rate(),
            now: seconds_since_1970(),
            max_deletion_age: self.options().max_deletion_age.as_secs(),
            flushed_before: unflushed.min().unwrap_or(MAX_SEQUENCE),
        }
    }

    /// The next compaction whose inputs have at most `most_bytes`: one that the shape of the tree
    /// requires, or else one that a cursor has requested, or else one that the filter policy
    /// requires.
    pub(super) fn next_plan(&self, state: &TreeState, most_bytes: u64) -> Option<Plan> {
        let metas = state.version.metas();
        let conditions = self.conditions(state);
        let claimed = state.claimed.as_ref().map(|plan| state.unavailable.with(plan));
        let unavailable = claimed.as_ref().unwrap_or(&state.unavailable);
        let options = self.options();
        let planner = Planner::new(&metas, &options.shape, unavailable).at_most(most_bytes);
        let due = planner.pick(&conditions);
        let due = due.or_else(|| lock(&self.cleanups).plan(&planner, &conditions));
        let due = due.filter(|plan| planner.fits(plan));
        due.or_else(|| planner.plan_overspent(&options.filter, &state.version))
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
    /// So much space is free that a success ends the care of compactions ([`Inner::careful_plan`]).
    is_ample: bool,
}

/// What follows after a failed compaction ([`Inner::careful_plan`]).
enum Careful {
    Plan { plan: Plan, is_ample: bool },
    Wait,
    End,
}

impl TreeState {
    /// Called after a compaction could not read `table`. If the table is damaged, or could not be
    /// read twice in a row, compactions leave it out from now on, and the call returns `true`. A
    /// read that has failed once is tried again.
    fn sets_aside(&mut self, table: DamagedTable) -> bool {
        let is_damaged = matches!(table.error, Error::Corruption { .. });
        if !is_damaged && self.work.unreadable.insert(table.number) {
            return false;
        }
        self.work.unreadable.remove(&table.number);
        let is_new = self.unavailable.damaged.insert(table.number);
        if is_new {
            self.work.damaged.push(table);
        }
        is_new
    }

    /// Whether the error names a file that compactions now leave out, or read once more before they
    /// leave it out. So each file causes at most two such errors.
    pub(super) fn has_noted(&self, error: &Error) -> bool {
        let file = error.unreadable_file();
        let mut files = self.version.files();
        self.has_set_aside(error)
            || files.any(|(_, it)| {
                self.work.unreadable.contains(&it.meta.number) && file == Some(it.path())
            })
    }

    /// Whether the error names a file that compactions now leave out.
    pub(super) fn has_set_aside(&self, error: &Error) -> bool {
        let file = error.unreadable_file();
        file.is_some() && self.work.damaged.iter().any(|it| it.error.unreadable_file() == file)
    }

    /// Reserves the files of `plan` and the range of its output.
    fn start(&mut self, plan: Plan, threads: usize, borrowed: usize) -> Compaction {
        self.unavailable.reserve(&plan);
        self.compactions += 1;
        self.merging_bytes += written_bytes(&plan);
        let attempt = self.work.compactions.start();
        let version = Arc::clone(&self.version);
        Compaction { plan, version, threads, borrowed, attempt, is_ample: false }
    }

    /// Undoes [`TreeState::start`].
    fn release(&mut self, plan: &Plan) {
        self.compactions -= 1;
        self.merging_bytes -= written_bytes(plan);
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

/// The most bytes that the compaction should write.
fn written_bytes(plan: &Plan) -> u64 {
    match plan.kind {
        PlanKind::Merge | PlanKind::Refilter => plan.input_bytes,
        PlanKind::Move | PlanKind::Drop => 0,
    }
}

/// The input file that could not be read, if the error names one.
fn unreadable_input(plan: &Plan, version: &Version, error: &Error) -> Option<DamagedTable> {
    let path = error.unreadable_file()?;
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
                    _ => db.delete_range(key(oldest)..key(oldest + together)).unwrap(),
                }
                oldest += together;
            }
            if n % 50 == 0 {
                // `wait_for_compaction` is not called, because compactions remove more dead data
                // while a thread is in that call.
                let state = loop {
                    let state = db.inner.tree.lock();
                    if !db.inner.database.jobs.are_running() {
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
