//! Flushes: each turns the oldest frozen memtable of a tree into tables of level 0.
//!
//! ```text
//!   flush_frozen   succeeded ─► the next frozen memtable, or another tree's turn
//!                  failed    ─► gives its thread back ─► the timer: look ─► is it to be tried again?
//! ```
//!
//! A flush that waits until it may be tried again holds no thread, because the trees of a database
//! share a few. Otherwise a failed flush of one tree would keep those of the others from being tried, and
//! their callers would wait for space instead of getting the error.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::attempts::LOOK_EVERY;
use super::compactions;
use super::schedule::Awaited;
use super::timer::{self, TurnWork};
use crate::db::asked;
use crate::db::events;
use crate::db::flush::Flush;
use crate::db::inner::Inner;
use crate::db::inner::cut::Cut;
use crate::db::inner::database::Database;
use crate::db::inner::tree_state::TreeState;
use crate::db::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::stats::Ticker;
use crate::sync::atomic::Ordering;
use crate::sync::time::Instant;
use crate::version::{VersionEdit, names};

/// After a failed flush.
static RETRY: TurnWork = TurnWork(look);

/// Called by the timer when the wait after a failed flush is over: starts the next attempt if the
/// memtable seems to fit into the free space ([`Attempts`](super::attempts::Attempts)). Returns the
/// wait until the next look; `None` if there is to be none.
fn look(inner: &Inner) -> Option<Duration> {
    let free = inner.database.free_bytes();
    let mut state = inner.tree.lock();
    let needed = state.frozen.front()?.memtable.bytes() as u64;
    if inner.is_stopping() || state.flushing || state.work.flushes.last_error().is_none() {
        return None;
    }
    if state.work.flushes.may_fit(needed, free) {
        state.work.flushes.retry_now = true;
        inner.schedule(&mut state);
    }
    (!state.flushing).then_some(LOOK_EVERY)
}

impl Inner {
    /// Flushes everything that was written before the call, and waits until this is done.
    pub(crate) fn flush(&self) -> Result<()> {
        self.database.status.check_writable()?;
        self.retry_failed_flush()?;
        let newest = {
            let mut writer = self.database.writing.lead();
            self.ensure_taken_over(&mut writer)?;
            self.tree.check_exists()?;
            if self.database.trees.has_others() {
                // The earlier writes of other keyspaces are to be durable too, and they are in no
                // table.
                self.sync_with(&mut writer).map_err(|error| self.latch(error))?;
            }
            if !writer.of(self.tree.id)?.memtable.is_empty() {
                self.rotate(&mut writer)?;
            }
            // Even if this call has frozen no memtable, older ones may still be frozen.
            self.tree.lock().frozen.back().map(|frozen| Arc::clone(&frozen.memtable))
        };
        // Memtables that others freeze from here on are not waited for.
        let Some(newest) = newest else { return Ok(()) };
        self.wait_until(Awaited::Flushes, |state| state.has_flushed(&newest)).map(drop)
    }

    /// Called before a memtable is frozen on request. If the last flush has failed, tries it again
    /// first. Otherwise each request would leave one more memtable that waits.
    ///
    /// # Errors
    ///
    /// That of the new attempt.
    pub(in crate::db) fn retry_failed_flush(&self) -> Result<()> {
        if self.tree.lock().work.flushes.last_error().is_none() {
            return Ok(());
        }
        let is_over = |state: &TreeState| {
            state.frozen.is_empty() || state.work.flushes.last_error().is_none()
        };
        self.wait_until(Awaited::Flushes, is_over).map(drop)
    }

    /// Flushes the memtables of all keyspaces, and waits until this is done.
    pub(crate) fn flush_all(&self) -> Result<()> {
        for tree in self.database.trees.all() {
            let flushed = self.with_tree(Arc::clone(&tree)).flush();
            flushed.or_else(|error| if tree.is_dropped() { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }

    /// The tables of all keyspaces at one moment, with all writes before it.
    pub(in crate::db) fn cut(&self) -> Result<Cut> {
        let trees = &self.database.trees;
        let _changes = trees.lock_changes();
        if !trees.had_others() {
            let home = self.with_tree(Arc::clone(trees.default_tree()));
            let (read_state, last_sequence) = home.flushed_tree()?;
            let trees = vec![(Arc::clone(&home.tree), read_state)];
            return Ok(Cut { trees, keyspaces: self.database.trees.records(), last_sequence });
        }
        // Writers go on during the first flush, and wait during the second, which has little to do.
        self.flush_all()?;
        let _ingesting = self.database.writing.lock_ingestions();
        let mut writer = self.database.writing.lead();
        self.ensure_taken_over(&mut writer)?;
        for tree in trees.all() {
            if !writer.of(tree.id)?.memtable.is_empty() {
                self.with_tree(tree).rotate(&mut writer)?;
            }
        }
        let mut cut = Vec::new();
        for tree in trees.all() {
            let inner = self.with_tree(tree);
            drop(inner.wait_until(Awaited::Flushes, |state| state.frozen.is_empty())?);
            let read_state = inner.tree.reading.current();
            cut.push((inner.tree, read_state));
        }
        Ok(Cut { trees: cut, keyspaces: trees.records(), last_sequence: writer.last_sequence })
    }

    /// The tree after a flush, and a sequence number: the tree holds every write up to this number,
    /// and no later write. The database never had another keyspace: the writes to a dropped one are
    /// in no table.
    pub(in crate::db) fn flushed_tree(&self) -> Result<(Arc<ReadState>, SequenceNumber)> {
        self.flush()?;
        let current = || {
            self.database.catalog.between_changes(|progress| {
                let is_whole = progress.skipped.is_empty();
                (is_whole, (self.tree.reading.current(), progress.flushed_sequence))
            })
        };
        let (true, tree) = current() else {
            // After the flush had begun, a table was ingested, and writes older than the table were
            // in the new memtable. So the tree has the table, but not these writes. A second flush
            // moves them to tables too, while ingestions are locked out.
            let _ingesting = self.database.writing.lock_ingestions();
            self.flush()?;
            return Ok(current().1);
        };
        Ok(tree)
    }

    /// The job: flushes until nothing is frozen, or another tree waits for the thread.
    pub(super) fn flush_job(&self) {
        self.flush_frozen();
        let threads = &self.database.jobs.flush_threads;
        threads.give_back(1);
        self.start_waiting(threads);
        self.schedule(&mut self.tree.lock());
    }

    fn flush_frozen(&self) {
        let threads = &self.database.jobs.flush_threads;
        loop {
            let attempt = {
                let mut state = self.tree.lock();
                if state.frozen.is_empty() || self.is_stopping() {
                    state.flushing = false;
                    state.work.flushes.is_over();
                    self.tree.notify();
                    return;
                }
                state.work.flushes.start()
            };
            let flushed = self.flush_oldest();
            let mut free = None;
            if let Err(error) = &flushed {
                self.database.flush_failed.store(true, Ordering::Relaxed);
                events::failed(&self.database.store.dir, "flush", error);
                free = self.database.free_bytes();
            }
            let mut state = self.tree.lock();
            match flushed {
                Ok(()) => {
                    state.work.flushes.succeeded();
                    self.tree.notify();
                    // One memtable of each tree in turn.
                    let ends = threads.has_waiting();
                    state.flushing = !ends;
                    let is_careful = state.work.compactions.is_careful();
                    drop(state);
                    if is_careful {
                        // There may be space now.
                        compactions::look_at_once(self);
                    }
                    if ends {
                        return;
                    }
                }
                Err(error) if self.database.may_retry(&error) => {
                    state.flushing = false;
                    state.work.flushes.failed(attempt, error);
                    state.work.flushes.note_free(free);
                    let wait = state.work.flushes.next_wait();
                    self.tree.notify();
                    drop(state);
                    timer::add(self, wait, &RETRY);
                    return;
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

    /// Writes the oldest frozen memtable to tables of level 0.
    fn flush_oldest(&self) -> Result<()> {
        let began = Instant::now();
        let Database { sequences, writing, .. } = &*self.database;
        let (memtable, version) = {
            let state = self.tree.lock();
            let Some(frozen) = state.frozen.front() else { return Ok(()) };
            (Arc::clone(&frozen.memtable), Arc::clone(&state.version))
        };
        asked::count(&self.database, &self.tree, &version);
        let options = self.tree.options();
        let store = &self.table_store(&options);
        let filters = options.filter.filters(&version, 0, &BTreeSet::new(), memtable.len() as u64);
        let flush = Flush {
            store,
            // `version` has everything that is older than the memtable. Nothing older is added
            // before the flush is installed, because compactions only rewrite the tree's tables,
            // and ingested tables are newer than the memtable.
            older: Some(&version),
            snapshots: sequences.snapshots.sequences(),
            filter: &*filters,
        };
        let files = flush.run(&memtable)?;
        drop(filters);
        drop(version);
        let mut edit = VersionEdit::default();
        if self.others_have_unflushed(memtable.largest_sequence()) {
            edit.durable_wals = writing.sync_sealed(store).map_err(|error| self.latch(error))?;
        }
        let durable_wals = edit.durable_wals.clone();
        for file in &files {
            edit.added.push((0, file.meta.clone()));
            self.database.counters().add(Ticker::FlushWriteBytes, file.meta.file_bytes);
        }
        self.database.counters().add(Ticker::FlushCount, u64::from(!memtable.is_empty()));
        let (tables, bytes) = (files.len(), files.iter().map(|file| file.meta.file_bytes).sum());
        self.install_outputs(Some(&memtable), edit, files, |state| {
            state.frozen.pop_front();
        })
        .inspect_err(|_| {
            // The WALs were synced although this change failed, so a later MANIFEST must list them.
            self.database.catalog.enter_durable_wals_later(durable_wals);
        })?;
        self.database.frozen_bytes.fetch_sub(memtable.bytes() as u64, Ordering::Relaxed);
        events::flushed(&store.dir, tables, bytes, began.elapsed());
        // Tables hold all writes of the older WALs now.
        let oldest = self.database.catalog.between_changes(|progress| progress.oldest_wal);
        writing.drop_wals_before(oldest);
        for obsolete in self.database.wals.take_before(oldest) {
            store.remove_obsolete(&names::wal_path(&store.dir, obsolete));
        }
        Ok(())
    }

    /// Whether another tree has a write that is in no table, and in the WAL of the write `sequence`
    /// or an older one. Then these WALs must be durable before the MANIFEST lists a table with this
    /// write. Otherwise a power loss could leave this write and take an earlier one, or a part of a
    /// batch. It could also take the WAL that a replay still needs for the other tree's write, and
    /// with it the numbers of this table.
    fn others_have_unflushed(&self, sequence: SequenceNumber) -> bool {
        let trees = &self.database.trees;
        if !trees.has_others() {
            return false;
        }
        let last = self.database.wals.last_beside(sequence);
        let others = trees.all().into_iter().filter(|tree| tree.id != self.tree.id);
        others.map(|tree| tree.oldest_unflushed(None)).any(|oldest| oldest <= last)
    }
}
