//! Work that a caller waits for: `wait_for_compaction`, `compact_range`, and whatever needs the
//! tree for itself.

use std::sync::atomic::Ordering;

use super::jobs::Awaited;
use crate::compaction;
use crate::compaction::{LAST_LEVEL, Plan};
use crate::db::iter::bounds::Bounds;
use crate::db::{Inner, TreeState};
use crate::error::Result;
use crate::version::{FileMeta, LEVELS};

impl Inner {
    /// Waits until nothing runs and nothing is due.
    pub(crate) fn wait_for_compaction(&self) -> Result<()> {
        self.check_open()?;
        self.ensure_taken_over(&mut self.writer.lock())?;
        drop(self.wait_until(Awaited::FlushesAndCompactions, |state| {
            state.frozen.is_empty()
                && !state.flushing
                && state.compactions == 0
                && self.next_plan(state).is_none()
        })?);
        Ok(())
    }

    /// Waits for the flushes and compactions that run, then runs `work`. Nothing else changes the
    /// tree meanwhile.
    pub(crate) fn exclusively<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.wait_until(Awaited::Flushes, |state| !state.tree_reserved)?.tree_reserved = true;
        let result = self
            .wait_until(Awaited::Flushes, |state| state.frozen.is_empty() && state.compactions == 0)
            .map(drop)
            .and_then(|()| work());
        let mut state = self.lock_state();
        state.tree_reserved = false;
        self.schedule(&mut state);
        self.changed.notify_all();
        drop(state);
        result
    }

    /// Compacts all files that meet `range`, level by level from the top.
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
                        // Once more, without the damaged file.
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

    /// One step of a manual compaction. Answers whether there may be more to do in the level.
    fn compact_level(&self, level: usize, range: &Bounds, first_new: u64) -> Result<bool> {
        let compaction = {
            let mut state = self.lock_state();
            let plan = self.plan_of_level(&state, level, range, first_new);
            let Some(plan) = plan else { return Ok(false) };
            state.start(Plan { trivial_move: false, ..plan }, &self.shape, true)
        };
        self.compact(compaction)?;
        Ok(true)
    }

    /// The next step in `level`. Files from number `first_new` on are outputs of the steps before,
    /// or newer than the whole compaction.
    fn plan_of_level(
        &self,
        state: &TreeState,
        level: usize,
        range: &Bounds,
        first_new: u64,
    ) -> Option<Plan> {
        let metas = state.version.metas();
        let last_used = (1..LEVELS).rev().find(|&l| !metas[l].is_empty());
        let (base, _) = compaction::level_targets(&compaction::level_bytes(&metas), &self.shape);
        let output_level = match level {
            // The deepest data is rewritten in place, to drop what no snapshot can see.
            _ if Some(level) == last_used => level,
            _ => compaction::next_level(&metas, level, base).min(LAST_LEVEL),
        };
        // Without this the compaction might never end.
        let is_done =
            |file: &&FileMeta| (level == 0 || output_level == level) && file.number >= first_new;
        let unavailable = &state.unavailable;
        if level == 0 {
            // All files: they overlap each other, and one alone could overtake an older version.
            let files: Vec<_> = metas[0].iter().copied().filter(|f| !is_done(f)).collect();
            return compaction::plan_level_0(
                &metas,
                &files,
                output_level,
                &self.shape,
                unavailable,
            );
        }
        let files = state.version.overlapping(level, range.lower(), range.upper());
        let files: Vec<_> = files.map(|file| &file.meta).collect();
        // Neighbours only: the outputs may reach from the first input to the last.
        files.split(is_done).find_map(|files| {
            compaction::plan_neighbours(
                &metas,
                level,
                output_level,
                files,
                &self.shape,
                unavailable,
            )
        })
    }
}
