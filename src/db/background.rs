//! The threads behind the database: one flushes, the others compact.
//!
//! Compactions that share no file run beside each other. One from level 0 has no other beside it
//! that could bring the tree nearer to its shape: if it is large it is split over the threads that
//! are idle, as a manual one is, and until it ends they start nothing else.
//!
//! Every change of the tree takes the same way: [`Inner::install`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::bounds::Bounds;
use super::write::lock;
use super::{Inner, State};
use crate::compaction::pick::{self, LAST_LEVEL, Plan, Shape};
use crate::compaction::run::{self, Job};
use crate::compaction::split;
use crate::error::{Error, Result};
use crate::flush;
use crate::policy::FilterContext;
use crate::stats::Ticker;
use crate::version::{LEVELS, Version, VersionEdit, names};

pub(super) fn start(inner: &Arc<Inner>, compaction_threads: usize) -> Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let mut spawn = |name: String, work: fn(&Inner)| -> Result<()> {
        let shared = Arc::clone(inner);
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let _guard = LatchOnPanic(&shared);
            work(&shared);
        });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => return Err(Error::io(&inner.store.dir, "start a thread for", error)),
        }
        Ok(())
    };
    spawn("maypole-flush".into(), Inner::flush_loop)?;
    for number in 0..compaction_threads {
        spawn(format!("maypole-compact-{number}"), Inner::compaction_loop)?;
    }
    Ok(threads)
}

/// A background thread that panics must not leave writers waiting for it.
struct LatchOnPanic<'a>(&'a Inner);

impl Drop for LatchOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.latch(Error::InvalidArgument("a background thread panicked".into()));
        }
    }
}

impl Inner {
    fn flush_loop(&self) {
        loop {
            {
                let mut state = self.lock_state();
                while (state.frozen.is_empty() || state.waits_for_space) && !self.is_stopping() {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if self.is_stopping() {
                    return;
                }
                state.flushing = true;
            }
            let flushed = self.flush_oldest();
            self.lock_state().flushing = false;
            if let Err(error) = flushed {
                self.latch(error);
                return;
            }
            self.changed.notify_all();
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
        let file = flush::flush(&self.store, &memtable, filter)?;
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
        self.install(edit, file.into_iter().collect(), |state| {
            state.frozen.pop_front();
        })?;
        self.drop_sealed_wals(next_wal);
        self.remove_wals_before(next_wal)
    }

    /// Deletes the WALs whose writes are all in tables.
    pub(super) fn remove_wals_before(&self, oldest_wal: u64) -> Result<()> {
        for name in self.store.fs.list(&self.store.dir)? {
            if let Some(names::FileKind::Wal(number)) = names::parse(&name)
                && number < oldest_wal
            {
                self.store.fs.remove(&self.store.dir.join(name))?;
            }
        }
        Ok(())
    }

    fn compaction_loop(&self) {
        loop {
            let (plan, running) = {
                let mut state = self.lock_state();
                loop {
                    if self.is_stopping() {
                        return;
                    }
                    if !state.manual
                        && state.idle_threads > 0
                        && let Some(plan) = self.next_plan(&state)
                    {
                        // Compactions between deeper levels run beside each other. One from level 0
                        // has no other beside it, and writers may be waiting for it.
                        let may_split = plan.level == 0;
                        let running = state.start(&plan, &self.shape, may_split);
                        break (plan, running);
                    }
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let compacted = self.compact(&plan, running);
            match compacted {
                Ok(()) | Err(Error::Closed) => {}
                Err(error) => {
                    self.latch(error);
                    return;
                }
            }
        }
    }

    /// The compaction to start next: one that the shape of the tree asks for, or else one that the
    /// filter policy asks for.
    fn next_plan(&self, state: &State) -> Option<Plan> {
        let metas = state.version.metas();
        pick::pick(&metas, &self.shape, &state.busy).or_else(|| {
            let (level, number) = self.policy.overspent(&state.version, &state.busy)?;
            pick::plan(&metas, level, level, vec![number], &self.shape, &state.busy)
        })
    }

    fn finish(&self, plan: &Plan, threads: usize) {
        let mut state = self.lock_state();
        state.compactions -= 1;
        state.idle_threads += threads;
        for number in plan.inputs.iter().chain(&plan.output_inputs) {
            state.busy.remove(number);
        }
        self.changed.notify_all();
    }

    /// Runs what [`State::start`] has started.
    fn compact(&self, plan: &Plan, running: Running) -> Result<()> {
        let Running { version, threads } = running;
        let compacted = self.run_compaction(plan, &version, threads);
        // Before anybody is told: with its last version a replaced file leaves the disk.
        drop(version);
        self.finish(plan, threads);
        compacted
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
        let is_input = |number| plan.inputs.contains(number) || plan.output_inputs.contains(number);
        let mut stay = version.metas();
        let mut input_entries = 0;
        for level in &mut stay {
            level.retain(|meta| {
                let replaced = is_input(&meta.number);
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
        self.install(edit, outcome.outputs, |_| {})
    }

    fn is_stopping(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.latched.get().is_some()
    }

    /// Waits until `done` holds of the state, or the database is closed or latched.
    pub(super) fn wait_until(
        &self,
        done: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock_state();
        while !done(&state) {
            self.check_writable()?;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let memtable = {
            let mut writer = lock(&self.writer);
            self.begin_writing(&mut writer)?;
            if writer.memtable.is_empty() {
                None
            } else {
                self.rotate(&mut writer)?;
                self.lock_state().frozen.back().map(|frozen| Arc::clone(&frozen.memtable))
            }
        };
        // Also when there was nothing to rotate: what is frozen already is part of the promise.
        drop(self.wait_until(|state| match &memtable {
            Some(memtable) => state.frozen.iter().all(|f| !Arc::ptr_eq(&f.memtable, memtable)),
            None => state.frozen.is_empty(),
        })?);
        Ok(())
    }

    pub(super) fn wait_for_compaction(&self) -> Result<()> {
        self.begin_writing(&mut lock(&self.writer))?;
        drop(self.wait_until(|state| {
            state.frozen.is_empty()
                && !state.flushing
                && state.compactions == 0
                && self.next_plan(state).is_none()
        })?);
        Ok(())
    }

    /// Compacts level by level, from the top, all files that meet `range`.
    pub(super) fn compact_range(&self, range: Bounds) -> Result<()> {
        self.flush()?;
        let compacted = self.exclusively(|| {
            let first_new = self.store.next_file.load(Ordering::Relaxed);
            for level in 0..LEVELS {
                while self.compact_level(level, &range, first_new)? {}
            }
            Ok(())
        });
        compacted.map_err(|error| self.latch(error))
    }

    /// One step of a manual compaction; the files from number `first_new` on are its own outputs.
    /// Whether there may be more to do in the level.
    fn compact_level(&self, level: usize, range: &Bounds, first_new: u64) -> Result<bool> {
        let (plan, running) = {
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
            let inputs: Vec<u64> = match level {
                // Files of level 0 overlap each other: one alone could overtake an older version.
                0 => metas[0].iter().map(|file| file.number).collect(),
                _ => {
                    let files = state.version.overlapping(level, range.lower(), range.upper());
                    let numbers = files.map(|file| file.meta.number);
                    let is_done = |&number: &u64| output_level == level && number >= first_new;
                    // Neighbours only: what is made of the inputs may reach from the first to the
                    // last of them.
                    numbers.skip_while(is_done).take_while(|number| !is_done(number)).collect()
                }
            };
            let none_busy = Default::default();
            let plan = pick::plan(&metas, level, output_level, inputs, &self.shape, &none_busy);
            let Some(plan) = plan else { return Ok(false) };
            let plan = Plan { trivial_move: false, ..plan };
            let running = state.start(&plan, &self.shape, true);
            (plan, running)
        };
        self.compact(&plan, running)?;
        Ok(plan.output_level == level)
    }
}

/// A compaction that has been started.
struct Running {
    version: Arc<Version>,
    /// How many threads it may use; they are idle again when it ends.
    threads: usize,
}

impl State {
    /// Marks the plan's files as busy and takes as many idle threads for it as it is worth.
    fn start(&mut self, plan: &Plan, shape: &Shape, may_split: bool) -> Running {
        self.busy.extend(plan.inputs.iter().chain(&plan.output_inputs));
        self.compactions += 1;
        let most = if may_split && !plan.trivial_move { self.idle_threads } else { 1 };
        let threads = split::part_count(plan.input_bytes, shape.table_bytes, most);
        self.idle_threads -= threads;
        Running { version: Arc::clone(&self.version), threads }
    }
}
