//! The work behind the database: flushes, one at a time, and compactions.
//!
//! Compactions that share no file run beside each other. One from level 0 has no other beside it
//! that could bring the tree nearer to its shape: if it is large it is split over the threads that
//! are idle, as a manual one is, and until it ends they start nothing else.
//!
//! Every change of the tree takes the same way: [`Inner::install`].

pub(crate) mod install;
pub(crate) mod jobs;
pub(crate) mod pool;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::jobs::Awaited;
use self::pool::{COMPACTIONS, FLUSHES};
use super::iter::bounds::Bounds;
use super::stats::DamagedTable;
use super::{Inner, TreeState};
use crate::compaction::pick::{LAST_LEVEL, Plan, Shape};
use crate::compaction::run::Job;
use crate::compaction::{pick, run, split};
use crate::error::{Error, Result};
use crate::filter_policy::FilterContext;
use crate::stats::Ticker;
use crate::sync::lock;
use crate::version::{FileMeta, LEVELS, TableFile, Version, VersionEdit, names};

pub(crate) fn start(inner: &Arc<Inner>) {
    let _ = inner.this.set(Arc::downgrade(inner));
    inner.schedule(&mut inner.lock_state());
}

impl Inner {
    /// Starts the jobs that `state` asks for. Called whenever it may ask for more.
    pub(crate) fn schedule(&self, state: &mut TreeState) {
        if self.is_stopping() {
            return;
        }
        if !state.frozen.is_empty() && !state.flushing && !state.waits_for_space {
            state.flushing = true;
            if let Err(error) = self.start_job(state, &FLUSHES, Inner::flush_job) {
                state.flushing = false;
                state.work.flushes.refused(error);
            }
        }
        if state.work.compactions.hindrance().is_some() {
            self.schedule_retry(state);
            return;
        }
        while let Some(compaction) = self.next_compaction(state) {
            let (plan, threads) = (compaction.plan.clone(), compaction.threads);
            let work = |inner: &Inner| inner.compaction_job(compaction, false);
            if let Err(error) = self.start_job(state, &COMPACTIONS, work) {
                state.release(&plan, threads);
                state.work.compactions.refused(error);
                return;
            }
        }
    }

    /// Of the compactions that find no room one at a time is tried again.
    fn schedule_retry(&self, state: &mut TreeState) {
        if state.manual || state.work.retrying_compaction {
            return;
        }
        state.work.retrying_compaction = true;
        let started = self.start_job(state, &COMPACTIONS, Inner::retry_job);
        if let Err(error) = started {
            state.work.retrying_compaction = false;
            state.work.compactions.refused(error);
        }
    }

    /// Flushes until nothing is frozen.
    fn flush_job(&self) {
        loop {
            let attempt = {
                let mut state = self.lock_state();
                if state.frozen.is_empty() || self.is_stopping() {
                    state.flushing = false;
                    state.work.flushes.succeeded();
                    self.changed.notify_all();
                    return;
                }
                state.work.flushes.begin()
            };
            let flushed = self.flush_oldest();
            let mut state = self.lock_state();
            match flushed {
                Ok(()) => {
                    state.work.flushes.succeeded();
                    state.work.hurry();
                    self.changed.notify_all();
                }
                Err(error) if self.may_retry(&error) => {
                    state.work.flushes.failed(attempt, error);
                    self.changed.notify_all();
                    drop(state);
                    self.wait_for_room(|work| &mut work.flushes);
                }
                Err(error) => {
                    state.flushing = false;
                    drop(state);
                    self.latch(error);
                    return;
                }
            }
        }
    }

    /// Writes the oldest frozen memtable to a table of level 0.
    fn flush_oldest(&self) -> Result<()> {
        let (memtable, next_wal, filter) = {
            let state = self.lock_state();
            let Some(frozen) = state.frozen.front() else { return Ok(()) };
            let entries = frozen.memtable.len() as u64;
            let context = FilterContext::new(&state.version.metas(), 0, entries);
            (Arc::clone(&frozen.memtable), frozen.next_wal, self.policy.spec_for(&context))
        };
        let file = crate::db::flush::flush(&self.store, &memtable, filter)?;
        let mut edit = VersionEdit {
            flushed_sequence: Some(memtable.largest_sequence()),
            oldest_wal: Some(next_wal),
            ..VersionEdit::default()
        };
        if let Some(file) = &file {
            edit.added.push((0, file.meta.clone()));
            self.counters.add(Ticker::FlushCount, 1);
            self.counters.add(Ticker::FlushWriteBytes, file.meta.file_bytes);
        }
        self.install_outputs(0, edit, file.into_iter().collect(), |state| {
            state.frozen.pop_front();
        })?;
        self.drop_sealed_wals(next_wal);
        self.remove_wals_before(next_wal)
    }

    /// Deletes the WALs whose writes are all in tables.
    pub(crate) fn remove_wals_before(&self, oldest_wal: u64) -> Result<()> {
        for name in self.store.fs.list(&self.store.dir)? {
            if let Some(names::FileKind::Wal(number)) = names::parse(&name)
                && number < oldest_wal
            {
                self.store.fs.remove(&self.store.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// As [`Inner::install`], for tables that were written for `edit` alone: they are deleted when it
    /// is certain that nobody lists them. After any other error the MANIFEST may list them.
    fn install_outputs(
        &self,
        level: usize,
        edit: VersionEdit,
        outputs: Vec<Arc<TableFile>>,
        also: impl FnOnce(&mut TreeState),
    ) -> Result<()> {
        self.install(edit, outputs.clone(), also).inspect_err(|error| {
            if self.may_retry(error) {
                outputs.iter().for_each(|file| file.mark_obsolete(level));
            }
        })
    }

    /// Compacts, `first` and then whatever else is due.
    fn compaction_job(&self, first: Compaction, mut is_retry: bool) {
        let mut next = Some(first);
        while let Some(compaction) = next {
            let attempt = compaction.attempt;
            let compacted = self.compact(compaction);
            let mut state = self.lock_state();
            match compacted {
                Ok(()) => {
                    state.work.compactions.succeeded();
                    state.work.hurry();
                }
                // The next compaction goes around it.
                Err(error) if self.is_set_aside(&state, &error) => {}
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
            next = match state.work.compactions.hindrance() {
                None => self.next_compaction(&mut state),
                Some(_) => None,
            };
            self.schedule(&mut state);
            self.changed.notify_all();
        }
    }

    /// Tries one compaction after others have found no room.
    fn retry_job(&self) {
        self.wait_for_room(|work| &mut work.compactions);
        let mut state = self.lock_state();
        match self.next_compaction(&mut state) {
            Some(compaction) => {
                drop(state);
                self.compaction_job(compaction, true);
            }
            None => {
                state.work.retrying_compaction = false;
                // Meanwhile the tree has changed. But a manual compaction only hides what is due.
                if !state.manual {
                    state.work.compactions.succeeded();
                }
                self.changed.notify_all();
            }
        }
    }

    /// Starts the compaction that is due, if the database's share of threads allows it.
    fn next_compaction(&self, state: &mut TreeState) -> Option<Compaction> {
        if self.is_stopping() || state.manual || state.idle_threads == 0 {
            return None;
        }
        let plan = self.next_plan(state)?;
        // Compactions between deeper levels run beside each other. One from level 0 has no other
        // beside it, and writers may be waiting for it.
        let may_split = plan.level == 0;
        Some(state.start(plan, &self.shape, may_split))
    }

    /// The compaction to start next: one that the shape of the tree asks for, or else one that the
    /// filter policy asks for.
    fn next_plan(&self, state: &TreeState) -> Option<Plan> {
        let (metas, held) = (state.version.metas(), &state.held);
        pick::pick(&metas, &self.shape, held).or_else(|| {
            let is_held = |number| held.busy.contains(&number) || held.damaged.contains(&number);
            let (level, number) = self.policy.overspent(&state.version, is_held)?;
            pick::plan(&metas, level, level, vec![number], &self.shape, held)
        })
    }

    /// Runs what [`TreeState::start`] has started.
    fn compact(&self, compaction: Compaction) -> Result<()> {
        let Compaction { plan, version, threads, .. } = compaction;
        let compacted = self.run_compaction(&plan, &version, threads);
        let damaged = match &compacted {
            Err(error) => damaged_input(&plan, &version, error),
            Ok(()) => None,
        };
        // Before anybody is told: with its last version a replaced file leaves the disk.
        drop(version);
        let mut state = self.lock_state();
        state.release(&plan, threads);
        if let Some(damaged) = damaged {
            state.held.damaged.insert(damaged.number);
            state.work.damaged.push(damaged);
            self.publish(&mut state);
        }
        self.changed.notify_all();
        compacted
    }

    /// Whether this is the damage of a file that was set aside.
    fn is_set_aside(&self, state: &TreeState, error: &Error) -> bool {
        let Error::Corruption { file, .. } = error else { return false };
        let is_this = |damaged: &DamagedTable| matches!(&damaged.error, Error::Corruption { file: other, .. } if other == file);
        state.work.damaged.iter().any(is_this)
    }

    fn run_compaction(&self, plan: &Plan, version: &Version, threads: usize) -> Result<()> {
        let mut edit = VersionEdit::default();
        edit.removed.extend(plan.inputs.iter().map(|&number| (plan.level, number)));
        edit.removed.extend(plan.output_inputs.iter().map(|&number| (plan.output_level, number)));
        // A merge may find that what a range deletion hides is gone, and drop it.
        let deletes_ranges = version.files().any(|(_, file)| {
            plan.inputs.contains(&file.meta.number) && file.table.ranges().is_some()
        });
        if plan.trivial_move && !deletes_ranges {
            let moved = version.levels[plan.level].iter();
            let moved = moved.filter(|file| plan.inputs.contains(&file.meta.number));
            edit.added.extend(moved.map(|file| (plan.output_level, file.meta.clone())));
            return self.install(edit, Vec::new(), |_| {});
        }
        // The tree as the outputs will find it: without the inputs.
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
            shape: &self.shape,
            snapshots: self.snapshots.sequences(),
            filter: self.policy.spec_for(&context),
            cancelled: &self.closing,
            parts: threads,
        };
        let outcome = run::run(&job, plan)?;
        self.counters.add(Ticker::CompactionCount, 1);
        if outcome.parts > 1 {
            self.counters.add(Ticker::CompactionParts, outcome.parts as u64);
        }
        self.counters.add(Ticker::CompactReadBytes, plan.input_bytes);
        self.counters.add(Ticker::CompactWriteBytes, outcome.bytes_written);
        edit.added
            .extend(outcome.outputs.iter().map(|file| (plan.output_level, file.meta.clone())));
        self.install_outputs(plan.output_level, edit, outcome.outputs, |_| {})
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.latched.get().is_some()
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let memtable = {
            let mut writer = lock(&self.writer);
            self.ensure_taken_over(&mut writer)?;
            if writer.memtable.is_empty() {
                None
            } else {
                self.rotate(&mut writer)?;
                self.lock_state().frozen.back().map(|frozen| Arc::clone(&frozen.memtable))
            }
        };
        // Also when there was nothing to rotate: what is frozen already is part of the promise.
        drop(self.wait_until(Awaited::Flushes, |state| match &memtable {
            Some(memtable) => state.frozen.iter().all(|f| !Arc::ptr_eq(&f.memtable, memtable)),
            None => state.frozen.is_empty(),
        })?);
        Ok(())
    }

    pub(crate) fn wait_for_compaction(&self) -> Result<()> {
        self.ensure_taken_over(&mut lock(&self.writer))?;
        drop(self.wait_until(Awaited::FlushesAndCompactions, |state| {
            state.frozen.is_empty()
                && !state.flushing
                && state.compactions == 0
                && self.next_plan(state).is_none()
        })?);
        Ok(())
    }

    /// Compacts level by level, from the top, all files that meet `range`.
    pub(crate) fn compact_range(&self, range: Bounds) -> Result<()> {
        self.flush()?;
        let _working = self.work_in_this_thread()?;
        let compacted = self.exclusively(|| {
            let first_new = self.store.next_file.load(Ordering::Relaxed);
            for level in 0..LEVELS {
                loop {
                    match self.compact_level(level, &range, first_new) {
                        Ok(true) => {}
                        Ok(false) => break,
                        // Once more, around it.
                        Err(error) if self.is_set_aside(&self.lock_state(), &error) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        });
        compacted.map_err(|error| self.latch_unless_retried(error))?;
        let state = self.lock_state();
        let met = state.work.damaged.iter().find(|damaged| {
            let mut files = state.version.overlapping(damaged.level, range.lower(), range.upper());
            files.any(|file| file.meta.number == damaged.number)
        });
        met.map_or(Ok(()), |damaged| Err(damaged.error.clone()))
    }

    /// One step of a manual compaction; the files from number `first_new` on are its own outputs, or
    /// newer than it. Whether there may be more to do in the level.
    fn compact_level(&self, level: usize, range: &Bounds, first_new: u64) -> Result<bool> {
        let compaction = {
            let mut state = self.lock_state();
            let metas = state.version.metas();
            let last_used = (1..LEVELS).rev().find(|&l| !metas[l].is_empty());
            let (base, _) = pick::level_targets(&pick::level_bytes(&metas), &self.shape);
            let output_level = match level {
                // The deepest data is rewritten in place, to drop what no snapshot can see, but for
                // what a step before has just written.
                _ if Some(level) == last_used => level,
                _ => pick::next_level(&metas, level, base).min(LAST_LEVEL),
            };
            // What is as new as this compaction is not its business: it might never end.
            let is_done = |file: &&FileMeta| {
                (level == 0 || output_level == level) && file.number >= first_new
            };
            let held = &state.held;
            let plan = match level {
                // Files of level 0 overlap each other: one alone could overtake an older version.
                0 => {
                    let files: Vec<_> = metas[0].iter().copied().filter(|f| !is_done(f)).collect();
                    pick::plan_level_0(&metas, &files, output_level, &self.shape, held)
                }
                _ => {
                    let files = state.version.overlapping(level, range.lower(), range.upper());
                    let files: Vec<_> = files.map(|file| &file.meta).collect();
                    // Neighbours only: what is made of the inputs may reach from the first to the
                    // last of them.
                    files.split(is_done).find_map(|files| {
                        pick::plan_neighbours(&metas, level, output_level, files, &self.shape, held)
                    })
                }
            };
            let Some(plan) = plan else { return Ok(false) };
            let plan = Plan { trivial_move: false, ..plan };
            state.start(plan, &self.shape, true)
        };
        self.compact(compaction)?;
        Ok(true)
    }
}

/// A compaction that has been started.
struct Compaction {
    plan: Plan,
    version: Arc<Version>,
    /// How many threads it may use; they are idle again when it ends.
    threads: usize,
    attempt: u64,
}

impl TreeState {
    /// Marks the plan's files as busy and takes as many idle threads for it as it is worth.
    fn start(&mut self, plan: Plan, shape: &Shape, may_split: bool) -> Compaction {
        self.held.hold(&plan);
        self.compactions += 1;
        let most = if may_split && !plan.trivial_move { self.idle_threads } else { 1 };
        let threads = split::part_count(plan.input_bytes, shape.table_bytes, most);
        self.idle_threads -= threads;
        let attempt = self.work.compactions.begin();
        Compaction { plan, version: Arc::clone(&self.version), threads, attempt }
    }

    /// The opposite of [`TreeState::start`].
    fn release(&mut self, plan: &Plan, threads: usize) {
        self.compactions -= 1;
        self.idle_threads += threads;
        self.held.release(plan);
    }
}

/// The input that `error` says is damaged.
fn damaged_input(plan: &Plan, version: &Version, error: &Error) -> Option<DamagedTable> {
    let Error::Corruption { file: path, .. } = error else { return None };
    let (level, file) = version.files().find(|(_, file)| file.path() == path)?;
    let number = file.meta.number;
    let is_input = plan.inputs.contains(&number) || plan.output_inputs.contains(&number);
    is_input.then(|| DamagedTable { level, number, error: error.clone() })
}
