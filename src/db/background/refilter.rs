//! Gives every table the filter of the policy, in place: `apply_filter_policy`.
//!
//! ```text
//!   each table, from the deepest level up and from the oldest of level 0 on:
//!     has the filter ─► next     a compaction reads it ─► later
//!     else: reserved ─► written again with the filter ─► installed in its place ─► next
//! ```
//!
//! Each table is a step, like those of a manual compaction (`manual.rs`): it is reserved, so that no
//! compaction reads it meanwhile, and one record of the MANIFEST replaces the old table by the new
//! one. So a failure between two steps leaves a sound tree, and the next call does what is left.
//!
//! **The order of the tree stays.** The new table has the same entries, the same record of them and
//! the same level, so in level 0 it has the place of the old one: its largest sequence number is the
//! one that the old table recorded. Only its file number differs, which orders tables that share no
//! key.
//!
//! **It ends**, however fast other threads write: only tables from before the call are judged, each
//! once. Flushes and compactions write every newer table with the filter of the policy. A table that
//! is ingested meanwhile keeps its filter, as if it came after the call.

use std::collections::BTreeSet;

use super::compactions::{Caller, Compaction};
use super::jobs::work_in_this_thread;
use crate::compaction::Plan;
use crate::db::asked;
use crate::db::inner::Inner;
use crate::db::inner::tree_state::TreeState;
use crate::db::tree_options::TreeOptions;
use crate::error::{Error, Result};
use crate::filter::FilterSpec;
use crate::sync::atomic::Ordering;
use crate::version::{LEVELS, TableFile};

/// What [`Db::apply_filter_policy`](crate::Db::apply_filter_policy) has done.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # maypole::Db::open(dir.path())?.close()?;
/// let db = maypole::Db::builder(dir.path()).filter("burr(7)").open()?;
/// let report = db.apply_filter_policy()?;
/// for error in &report.kept {
///     println!("a table keeps its filter: {error}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FilterReport {
    /// Tables that have got another filter.
    pub refiltered: usize,
    /// Tables that had the filter of the policy already.
    pub fitting: usize,
    /// Why other tables keep their filters: an error for each, which names the file. Such a table is
    /// damaged, or has something that only RocksDB writes.
    pub kept: Vec<Error>,
}

/// A call under way.
struct Pass<'a> {
    inner: &'a Inner,
    /// Tables from this number on were written after the call had begun.
    first_new: u64,
    /// The tables that need no more work.
    done: BTreeSet<u64>,
    report: FilterReport,
}

/// What follows in a [`Pass`].
enum Next {
    Step(Plan),
    /// Running compactions have the remaining tables.
    Wait,
    End,
}

/// See [`Db::apply_filter_policy`](crate::Db::apply_filter_policy).
pub(crate) fn apply_filter_policy(inner: &Inner) -> Result<FilterReport> {
    inner.database.status.check_writable()?;
    inner.ensure_taken_over(&mut inner.database.writing.lead())?;
    let _working = work_in_this_thread(inner)?;
    inner.manually(|| {
        asked::count(&inner.database, &inner.tree, &inner.tree.reading.current().sources.version);
        let first_new = inner.database.store.next_file.load(Ordering::Relaxed);
        let (done, report) = (BTreeSet::new(), FilterReport::default());
        let mut pass = Pass { inner, first_new, done, report };
        while let Some(step) = pass.next()? {
            pass.run(step)?;
        }
        Ok(pass.report)
    })
}

impl Pass<'_> {
    fn run(&mut self, step: Compaction) -> Result<()> {
        let old = step.plan.inputs.clone();
        match self.inner.compact(step) {
            Ok(new) => self.report.refiltered += new.len(),
            Err(error @ Error::Unsupported { .. }) => {
                self.done.extend(old);
                self.report.kept.push(error);
            }
            // The next step finds the table set aside, or reads it once more.
            Err(error) if self.inner.tree.lock().has_noted(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Starts the next step, once a table for it is free. Returns `None` if no table is left.
    fn next(&mut self) -> Result<Option<Compaction>> {
        let inner = self.inner;
        // The automatic compactions that are due may start first.
        inner.schedule(&mut inner.tree.lock());
        let mut state = inner.tree.lock();
        loop {
            inner.check_writable()?;
            match self.judge_tables(&state) {
                Next::Step(plan) => {
                    return Ok(inner.start_compaction(&mut state, plan, Caller::User));
                }
                Next::Wait => state = inner.tree.wait(state),
                Next::End => return Ok(None),
            }
        }
    }

    /// Finds a table that does not fit the policy. Notes the tables that need no work.
    fn judge_tables(&mut self, state: &TreeState) -> Next {
        let mut waits = false;
        let options = self.inner.tree.options();
        let filters = options.filter.filters_of_all(&state.version);
        for level in (0..LEVELS).rev() {
            for file in state.version.levels[level].iter().rev() {
                let number = file.meta.number;
                if number >= self.first_new || self.done.contains(&number) {
                    continue;
                }
                let wanted = filters.spec_at(level, file);
                if has_filter(file, wanted, &options) {
                    self.report.fitting += 1;
                } else if let Some(damaged) = state.work.damaged_error(number) {
                    self.report.kept.push(damaged);
                } else if state.unavailable.busy.contains(&number) {
                    waits = true;
                    continue;
                } else if let Some(plan) = Plan::refilter(level, &file.meta) {
                    return Next::Step(plan);
                }
                self.done.insert(number);
            }
        }
        if waits { Next::Wait } else { Next::End }
    }
}

/// Whether the table was written with the filter that the policy gives it, or about with it.
fn has_filter(file: &TableFile, wanted: FilterSpec, options: &TreeOptions) -> bool {
    let holds_wanted_keys =
        wanted.is_none() || file.table.properties().filter_keys() == options.tables.filter_keys;
    let has = file.table.requested_filter();
    holds_wanted_keys && has.is_some_and(|has| options.filter.is_met_by(has, wanted))
}
