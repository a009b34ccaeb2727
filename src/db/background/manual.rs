//! Work that a caller asks for and waits for: `compact_range`, `wait_for_compaction`, and whatever
//! needs the tree for itself.

use std::sync::atomic::Ordering;

use super::jobs::Awaited;
use crate::compaction::pick;
use crate::compaction::pick::{LAST_LEVEL, Plan};
use crate::db::Inner;
use crate::db::iter::bounds::Bounds;
use crate::error::Result;
use crate::sync::lock;
use crate::version::{FileMeta, LEVELS};

impl Inner {
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

    /// Runs `work` while no flush and no compaction changes the tree.
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
