//! A write: batch → WAL → memtable → visible. The functions are in the order of the steps.
//!
//! ```text
//!   commit ──► waits while its tree stalls writers (stall.rs)
//!          ──► nobody else writes: leads itself
//!          ──► queue ──► one of the threads that wait leads (`CombiningLock`):
//!                          1. make room: rotate full memtables
//!                          2. one WAL record for all batches of the group
//!                          3. sync, if any of them requested it
//!                          4. all batches into the memtable; marks that a put lies in are cut
//!                          5. publish the last sequence number: readers see all of them at once
//!                        the group's writers get the result; one of the other threads leads next
//! ```
//!
//! The thread that writes a group is its *leader*. A *mark* is an interval of keys that cursors
//! jump over, because it holds nothing for them to show ([`crate::db::iter::marks`]). A put in the
//! interval adds an entry to show, so the leader cuts the key out of the mark.
//!
//! **A power loss.** After step 3 the write survives a power loss. Before step 3, or if there is no
//! sync, a power loss may take the write, until a later synced write, `persist`, `flush` or `close`
//! makes it durable. Recovery finds a prefix of the writes, and each batch whole or not at all. A
//! killed process loses nothing after step 2. `docs/reliability.md` lists all promises.
//!
//! **A record for which there is no space** fails only for the callers whose batches it holds. The
//! WAL ends before this record, and the next write starts another WAL. Any other failure of a WAL
//! makes the database read-only, and so does a panic. The panic continues in the thread that led,
//! while the other writers get an error.
//!
//! **A write with a precondition** is that of an update of one key (`db/update.rs`), which is written
//! only if nothing has changed the key since the update read it, or that of a transaction
//! (`db/transaction/`). The leader checks this between steps 1 and 2, in memory. It leaves the write
//! out if the precondition does not hold or the leader cannot tell, and the caller reads or checks
//! again.
//!
//! **A range deletion without an end** gets one from the leader, before step 2. A batch with such a
//! deletion is a group of its own (`open_end.rs`).
//!
//! **Stalls come before the queue**, so that a keyspace whose flushes or compactions cannot keep up
//! delays no writer of another one. The leader never waits for them. Those writes that had passed the
//! stall already go to a memtable that is full.
//!
//! **A full memtable** is frozen and its WAL is sealed. The next write goes to a new memtable and a
//! new WAL. So all writes of a frozen memtable, and all writes of other keyspaces before them, are in
//! sealed WALs. If these are not synced yet, a later synced write syncs them first, so that the durable
//! writes never have a gap. Recovery checks that sequence numbers follow each other.
//!
//! **Keyspaces.** A WAL, a group and a batch have writes of all keyspaces. The leader is the thread of
//! any of them. The functions below that take a `Writer` are called for the `Inner` of keyspace 0, and
//! find the other trees in the writer.

pub(crate) mod batch;
pub(crate) mod durability;
mod open_end;
pub(crate) mod recent;
mod stall;
pub(crate) mod turns;
pub(crate) mod write_stall;

use std::sync::Arc;

use self::batch::{MAX_BATCH_BYTES, Operation, WriteBatch, record_header};
use self::durability::Durability;
use self::write_stall::may_freeze;
use super::background::jobs::latching_panics;
use super::inner::Inner;
use super::inner::database::Database;
use super::inner::tree_state::Frozen;
use super::inner::writing::{
    LeadingWriter, Precondition, Requirement, TreeWriter, Write, Writer, sequence_after,
};
use super::open::writable::take_over;
use super::read_state::ReadPoint;
use super::transaction::reads::ReadSet;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::stats::Ticker;
use crate::sync::atomic::Ordering;
use crate::sync::{Waiting, pin};
use crate::version::KeyspaceId;
use crate::wal::LogWriter;

/// A group is full at this size, so that the first of many writers does not wait for all of them.
const GROUP_BYTES: usize = 1 << 20;

/// How many bytes of WALs there may be for each byte that all memtables together may have. Beyond it,
/// the memtable that keeps the oldest WAL is flushed. Only a database with several keyspaces gets
/// there, because those that are written rarely keep the WALs of the others.
const WALS_PER_MEMTABLES: u64 = 4;

/// A write with a precondition joins a group only if at most this many operations come before it,
/// because the leader compares their keys with what the precondition concerns.
const MOST_COMPARED: usize = 256;

type WaitingWrite = Arc<Waiting<Write>>;

/// The work of a leader. [`Unfinished::finish`] ends it without a drop, so only a panic drops it.
/// After a panic the WAL and the memtable may hold a part of the group, so nothing may be written
/// any more, and all writers that wait for the leader get an error.
struct Unfinished<'a, 'l> {
    inner: &'a Inner,
    writer: &'a mut LeadingWriter<'l>,
    group: Vec<WaitingWrite>,
}

impl Unfinished<'_, '_> {
    /// Ends the work. Returns the group, so that the caller can give its writers their results.
    fn finish(mut self) -> Vec<WaitingWrite> {
        let group = std::mem::take(&mut self.group);
        std::mem::forget(self);
        group
    }
}

impl Unfinished<'_, '_> {
    /// Gives the writes to dropped keyspaces their error.
    fn leave_out_dropped(&mut self) {
        let writer = &mut *self.writer;
        self.group.retain(|waiting| match check_keyspaces(writer, &waiting.work) {
            Ok(()) => true,
            Err(error) => {
                waiting.answer(Err(error));
                false
            }
        });
    }
}

impl Drop for Unfinished<'_, '_> {
    fn drop(&mut self) {
        let error = self.inner.latch(Error::Panicked("a write of another thread".into()));
        let queued = self.writer.take_while(|_| true);
        for waiting in self.group.iter().chain(&queued) {
            waiting.answer(Err(error.clone()));
        }
    }
}

impl Inner {
    pub(crate) fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        batch.check()?;
        self.check_writable()?;
        if batch.is_empty() {
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Sync => self.sync_wals(),
            };
        }
        let batch = self.resolved(batch)?;
        self.lead_or_queue(Write { batch, durability, precondition: None })
    }

    /// Writes `batch` if the leader finds that `requires` holds. Returns whether it was written.
    pub(crate) fn commit_if(
        &self,
        batch: WriteBatch,
        durability: Durability,
        requires: Requirement,
    ) -> Result<bool> {
        batch.check()?;
        self.check_writable()?;
        let batch = self.resolved(batch)?;
        let precondition = Arc::new(Precondition::new(requires));
        let kept = Some(Arc::clone(&precondition));
        self.lead_or_queue(Write { batch, durability, precondition: kept })?;
        Ok(!precondition.has_failed())
    }

    /// Leads, and writes `batch` if `check` succeeds meanwhile.
    pub(crate) fn commit_leading(
        &self,
        batch: WriteBatch,
        durability: Durability,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let batch = self.resolved(batch)?;
        stall::wait_for_room(self, &batch)?;
        let mut writer = self.database.writing.lead();
        let write = Write { batch, durability, precondition: None };
        self.at_home(|home| home.write_alone(&mut writer, &write, check))
    }

    /// The batch as a record of the WAL has it. Inlined, because a batch is many words to move.
    #[inline(always)]
    fn resolved(&self, batch: WriteBatch) -> Result<WriteBatch> {
        match self.tree.id == 0 && !batch.names_keyspaces() {
            true => Ok(batch),
            false => batch.resolved(self.database.number, self.tree.id),
        }
    }

    /// Calls `call` with the `Inner` of keyspace 0.
    #[inline(always)]
    fn at_home<T>(&self, call: impl FnOnce(&Inner) -> T) -> T {
        match self.tree.id {
            0 => call(self),
            _ => call(&self.with_tree(Arc::clone(self.database.trees.default_tree()))),
        }
    }

    /// Writes a group of one write, if `check` succeeds. Inlined, because a put otherwise takes a
    /// fiftieth more instructions.
    #[inline(always)]
    fn write_alone(
        &self,
        writer: &mut LeadingWriter<'_>,
        write: &Write,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.database.counters().add(Ticker::WriteDoneBySelf, 1);
        let work = Unfinished { inner: self, writer, group: Vec::new() };
        let room = check_keyspaces(work.writer, write);
        let room = room.and_then(|()| self.make_room(work.writer, &[write]));
        let outcome = room.and_then(|()| {
            check()?;
            self.write_group(work.writer, &[write])
        });
        work.finish();
        outcome
    }

    #[inline(always)]
    fn lead_or_queue(&self, write: Write) -> Result<()> {
        stall::wait_for_room(self, &write.batch)?;
        if let Some(mut writer) = self.database.writing.try_lead() {
            return self.at_home(|home| home.write_alone(&mut writer, &write, || Ok(())));
        }
        self.database.writing.submit(write, |writer| self.at_home(|home| home.lead(writer)))
    }

    /// Writes the front of the queue as one group.
    fn lead(&self, writer: &mut LeadingWriter<'_>) {
        let mut work = Unfinished { inner: self, writer, group: Vec::new() };
        let (mut bytes, mut operations) = (0, 0);
        let mut has_open_end = false;
        // The first batch always fits, because no batch is larger than a record may be.
        work.group = work.writer.take_while(|write| {
            if write.precondition.is_some() && operations > MOST_COMPARED {
                return false;
            }
            // A batch with an open end is a group of its own (`open_end.rs`).
            if has_open_end || (write.batch.has_open_end() && operations > 0) {
                return false;
            }
            has_open_end = write.batch.has_open_end();
            operations += write.batch.len();
            let before = bytes;
            bytes += write.batch.size_bytes();
            before < GROUP_BYTES && bytes <= MAX_BATCH_BYTES
        });
        self.database.counters().add(Ticker::WriteDoneBySelf, 1);
        self.database.counters().add(Ticker::WriteDoneByOther, work.group.len() as u64 - 1);
        work.leave_out_dropped();
        let writes: Vec<&Write> = work.group.iter().map(|waiting| &waiting.work).collect();
        let outcome = match writes.is_empty() {
            true => Ok(()),
            false => self
                .make_room(work.writer, &writes)
                .and_then(|()| self.write_group(work.writer, &writes)),
        };
        drop(writes);
        for waiting in work.finish() {
            waiting.answer(outcome.clone());
        }
    }

    /// Takes the directory over if the opening could not do so. Every writer calls this first.
    #[inline]
    pub(crate) fn ensure_taken_over(&self, writer: &mut Writer) -> Result<()> {
        match writer.wal {
            Some(_) => Ok(()),
            None => self.take_over(writer),
        }
    }

    #[cold]
    fn take_over(&self, writer: &mut Writer) -> Result<()> {
        self.database.status.check_writable()?;
        latching_panics(self, || take_over(&self.database, writer))
            .map_err(|error| if error.is_out_of_space() { error } else { self.latch(error) })?;
        for tree in self.database.trees.all() {
            self.with_tree(Arc::clone(&tree)).schedule(&mut tree.lock());
        }
        Ok(())
    }

    /// Replaces full memtables by new ones, and an ended WAL by a new one.
    fn make_room(&self, writer: &mut Writer, group: &[&Write]) -> Result<()> {
        self.ensure_taken_over(writer)?;
        self.database.status.check_writable()?;
        if writer.wal.as_ref().is_some_and(LogWriter::has_ended) {
            self.start_wal(writer)?;
        }
        if writer.tree.is_full() {
            self.freeze_full(writer, 0)?;
        }
        if writer.others.is_empty() {
            return Ok(());
        }
        for &keyspace in group.iter().flat_map(|write| write.batch.keyspaces()) {
            if writer.of(keyspace)?.is_full() {
                self.freeze_full(writer, keyspace)?;
            }
        }
        self.bound_memory(writer)
    }

    /// Freezes the full memtable of a tree, unless its flushes are behind ([`self::stall`]).
    #[cold]
    fn freeze_full(&self, writer: &mut Writer, keyspace: KeyspaceId) -> Result<()> {
        let tree = Arc::clone(&writer.of(keyspace)?.tree);
        let frozen = tree.lock().frozen.len();
        match may_freeze(frozen) {
            true => self.with_tree(tree).rotate(writer),
            false => Ok(()),
        }
    }

    /// Freezes the largest memtables while all together are too large, and those that keep too many
    /// bytes of WALs from being deleted.
    #[cold]
    fn bound_memory(&self, writer: &mut Writer) -> Result<()> {
        let most = self.database.most_memtable_bytes();
        if writer.memtable_bytes > most {
            let bytes = |tree: &TreeWriter| (tree.memtable.bytes(), tree.tree.id);
            let all = writer.others.values().chain([&writer.tree]);
            let mut by_size: Vec<_> = all.filter(|it| !it.memtable.is_empty()).map(bytes).collect();
            by_size.sort_unstable();
            writer.memtable_bytes = by_size.iter().map(|(bytes, _)| *bytes as u64).sum();
            while writer.memtable_bytes > most / 4 * 3
                && let Some((_, keyspace)) = by_size.pop()
            {
                let tree = Arc::clone(&writer.of(keyspace)?.tree);
                self.with_tree(tree).rotate(writer)?;
            }
        }
        // Of the memtables that take writes, the one with the oldest entry, if it alone keeps the
        // oldest WAL. A frozen memtable that does so is being flushed.
        let Some(second) = self.database.wals.second_if_larger_than(WALS_PER_MEMTABLES * most)
        else {
            return Ok(());
        };
        let all = writer.others.values().chain([&writer.tree]);
        let oldest = all.min_by_key(|it| it.memtable.smallest_sequence());
        match oldest.filter(|it| it.memtable.smallest_sequence() < second) {
            Some(oldest) => self.with_tree(Arc::clone(&oldest.tree)).rotate(writer),
            None => Ok(()),
        }
    }

    /// Seals the WAL and starts the next one.
    pub(crate) fn start_wal(&self, writer: &mut Writer) -> Result<()> {
        let Database { store, writing, wals, .. } = &*self.database;
        let start = || writing.next_wal(writer, store, wals, self.database.log_version());
        latching_panics(self, start).map_err(|error| self.latch_unless_retried(error))
    }

    /// Freezes the memtable and seals its WAL. The next write goes to a new memtable and WAL.
    pub(crate) fn rotate(&self, writer: &mut Writer) -> Result<()> {
        // In an empty WAL there is no write of the memtable.
        if writer.wal.as_ref().is_none_or(|wal| !wal.is_empty()) {
            self.start_wal(writer)?;
        }
        let of_tree = writer.of(self.tree.id)?;
        let (memtable, writing) = Memtable::new(of_tree.memtable_bytes);
        let bytes = of_tree.memtable.bytes() as u64;
        of_tree.memtable = writing;
        writer.memtable_bytes = writer.memtable_bytes.saturating_sub(bytes);
        self.database.frozen_bytes.fetch_add(bytes, Ordering::Relaxed);

        let mut state = self.tree.lock();
        let full = std::mem::replace(&mut state.memtable, memtable);
        state.is_idle = false;
        state.frozen.push_back(Frozen { memtable: full });
        self.publish(&mut state);
        Ok(())
    }

    /// Writes a group for which the memtable has room. The steps: preconditions, WAL, sync if
    /// requested, memtable, visible.
    fn write_group(&self, writer: &mut Writer, group: &[&Write]) -> Result<()> {
        match group.iter().any(|write| write.needs_preparation()) {
            false => self.write_prepared(writer, group),
            true => self.prepare_and_write(writer, group),
        }
    }

    /// Gives open ends an end, and leaves out the writes whose preconditions fail.
    #[cold]
    fn prepare_and_write(&self, writer: &mut Writer, group: &[&Write]) -> Result<()> {
        let (ended, alone);
        let group = match group {
            // A batch with an open end is a group of its own.
            [write] if write.batch.has_open_end() => {
                ended = self.database.with_ends(write)?;
                alone = [&ended];
                &alone[..]
            }
            _ => group,
        };
        let to_write = self.check_preconditions(writer, group);
        if to_write.is_empty() {
            return Ok(());
        }
        self.write_prepared(writer, &to_write)
    }

    fn write_prepared(&self, writer: &mut Writer, group: &[&Write]) -> Result<()> {
        let count: u64 = group.iter().map(|write| write.batch.len() as u64).sum();
        if self.tree.reading.marks().has_proposals() {
            self.hear_cursors(writer)?;
        }
        let names_keyspaces = group.iter().any(|write| write.batch.names_keyspaces());
        if names_keyspaces {
            self.hear_other_cursors(writer, group)?;
        }
        let first = writer.last_sequence + 1;
        let last = sequence_after(writer.last_sequence, count)?;

        let header = record_header(first, count);
        let Some(wal) = &mut writer.wal else { return Err(Error::OpenedReadOnly) };
        let before = wal.len();
        let logged = match group {
            [write] => wal.append(&[&header, write.batch.encoded()]),
            _ => {
                let mut parts = vec![&header[..]];
                parts.extend(group.iter().map(|write| write.batch.encoded()));
                wal.append(&parts)
            }
        };
        logged.map_err(|error| self.latch_unless_retried(error))?;
        let logged_bytes = wal.len() - before;

        if group.iter().any(|write| write.durability == Durability::Sync) {
            self.sync_with(writer).map_err(|error| self.latch(error))?;
        }

        let mut sequence = first;
        for write in group {
            for operation in write.batch.operations() {
                let operation = operation.expect("a batch holds what was put into it");
                let kind = operation.kind as u8;
                let memtable = match operation.keyspace {
                    None => &mut writer.tree.memtable,
                    Some(keyspace) => {
                        let of_tree = writer.of(keyspace);
                        &mut of_tree.expect("the keyspaces of the group were checked").memtable
                    }
                };
                memtable.insert(operation.key, sequence, kind, operation.value);
                sequence += 1;
            }
        }
        if writer.tree.marks.is_watching() {
            writer.tree.cut_marks(group);
        }
        if !writer.others.is_empty() {
            writer.memtable_bytes += logged_bytes;
        }
        if names_keyspaces {
            for &keyspace in group.iter().flat_map(|write| write.batch.keyspaces()) {
                let of_tree = writer.of(keyspace)?;
                if of_tree.marks.is_watching() {
                    of_tree.cut_marks(group);
                }
            }
        }
        if self.database.writing.is_recent_wanted() {
            let batches = group.iter().map(|write| &write.batch);
            writer.recent.note(writer.last_sequence, last, batches);
        }
        writer.last_sequence = last;
        self.database.counters().add(Ticker::WalFileBytes, logged_bytes);
        self.database.counters().add(Ticker::NumberKeysWritten, count);
        let bytes: usize = group.iter().map(|write| write.batch.size_bytes()).sum();
        self.database.counters().add(Ticker::BytesWritten, bytes as u64);
        self.database.sequences.set_visible(last);
        Ok(())
    }

    /// Returns the writes of the group whose preconditions hold, and fails the others.
    fn check_preconditions<'w>(&self, writer: &Writer, group: &[&'w Write]) -> Vec<&'w Write> {
        let mut to_write: Vec<&Write> = Vec::with_capacity(group.len());
        for &write in group {
            // The writes of the group that come before this one.
            let earlier = &to_write[..];
            match &write.precondition {
                Some(it) if !self.holds(&it.requires, &write.batch, writer, earlier) => it.fail(),
                _ => to_write.push(write),
            }
        }
        to_write
    }

    fn holds(
        &self,
        requires: &Requirement,
        batch: &WriteBatch,
        writer: &Writer,
        earlier: &[&Write],
    ) -> bool {
        match requires {
            Requirement::UnchangedKey(read) => !self.has_key_changed(writer, read, batch, earlier),
            Requirement::UnchangedReads { reads, checked_to } => {
                are_reads_unchanged(writer, reads, *checked_to, earlier)
            }
        }
    }

    /// Whether the key of an update may have changed since `read`. `earlier` holds the writes of the
    /// group that come before the update.
    ///
    /// While this thread leads, nobody else writes, and no ingestion enters the tree. If the read
    /// state of the read is still the current one, its newest memtable is the writer's, so this
    /// memtable has every write since the read, except for ingestions: only a change of the read
    /// state could have moved a write to a table or dropped it there. An ingested table may be in
    /// the read state although the read did not see it, because the table enters a read state a
    /// moment before its sequence number is visible.
    fn has_key_changed(
        &self,
        writer: &Writer,
        read: &ReadPoint,
        update: &WriteBatch,
        earlier: &[&Write],
    ) -> bool {
        let Some(Ok(Operation { keyspace, key, .. })) = update.operations().next() else {
            return false;
        };
        let keyspace = keyspace.unwrap_or(0);
        let Some(of_tree) = writer.get(keyspace) else { return true };
        if earlier.iter().any(|write| write.batch.concerns(keyspace, key)) {
            return true;
        }
        if writer.last_sequence <= read.sequence {
            // Nothing was written since the read.
            return false;
        }
        let guard = pin();
        let memtable = &of_tree.memtable;
        let newest = memtable.get(key, MAX_SEQUENCE).map_or(0, |(sequence, ..)| sequence);
        !of_tree.tree.reading.is_current(&read.state, &guard)
            || writer.last_ingestion > read.sequence
            || newest > read.sequence
            || memtable.covering(key, MAX_SEQUENCE, &guard) > read.sequence
    }

    #[cold]
    fn hear_other_cursors(&self, writer: &mut Writer, group: &[&Write]) -> Result<()> {
        for &keyspace in group.iter().flat_map(|write| write.batch.keyspaces()) {
            let tree = &writer.of(keyspace)?.tree;
            if tree.reading.marks().has_proposals() {
                self.with_tree(Arc::clone(tree)).hear_cursors(writer)?;
            }
        }
        Ok(())
    }

    /// Does what cursors have requested of writers: takes in the marks that they propose, and
    /// freezes the memtable if a cursor has found at least half of its entries hidden, so that the
    /// flush can drop them. The memtable is not frozen while another one waits for its flush,
    /// because writers might then have to wait too.
    #[cold]
    fn hear_cursors(&self, writer: &mut Writer) -> Result<()> {
        let wanted = self.tree.reading.marks().take_flush_wanted();
        let last = writer.last_sequence;
        let of_tree = writer.of(self.tree.id)?;
        of_tree.marks.take_in(self.tree.reading.marks(), last);
        if wanted == of_tree.memtable.smallest_sequence() && self.tree.lock().frozen.is_empty() {
            // On a full disk there is no new memtable. That is no error, because this write does
            // not need it.
            return self.rotate(writer).or_else(|error| match error.changed_nothing() {
                true => Ok(()),
                false => Err(error),
            });
        }
        Ok(())
    }

    /// Makes all WALs durable, oldest first. A WAL enters the MANIFEST when it is first synced, and
    /// with its final size when it is synced after it was sealed. So the loss of the WAL, or of its
    /// synced bytes, is noticed.
    pub(in crate::db) fn sync_with(&self, writer: &mut Writer) -> Result<()> {
        let database = &*self.database;
        let sync = || match database.writing.sync_logs(writer, &database.store)? {
            first if first.is_empty() => Ok(()),
            first => database.catalog.enter_durable_wals(database.parts(), first),
        };
        // A sync of which nobody knows whether it succeeded is not tried again.
        latching_panics(self, sync)
    }

    pub(crate) fn sync_wals(&self) -> Result<()> {
        let mut writer = self.database.writing.lead();
        if let Some(error) = self.database.status.failure() {
            return Err(Error::ReadOnly(Arc::new(error.clone())));
        }
        self.ensure_taken_over(&mut writer)?;
        self.sync_with(&mut writer).map_err(|error| self.latch(error))
    }
}

impl TreeWriter {
    /// Cuts the keys of the group's puts into this tree out of all its marks (`iter/marks/`). Called
    /// before the group is published.
    #[cold]
    fn cut_marks(&mut self, group: &[&Write]) {
        for operation in group.iter().flat_map(|write| write.batch.operations()).flatten() {
            let is_here = operation.keyspace.unwrap_or(0) == self.tree.id;
            if is_here && operation.kind == EntryKind::Value {
                self.marks.wrote(operation.key, operation.key);
            }
        }
        self.marks.publish(self.tree.reading.marks());
    }
}

/// Checks that each keyspace of the write is still there.
#[inline(always)]
fn check_keyspaces(writer: &mut Writer, write: &Write) -> Result<()> {
    write.batch.keyspaces().iter().try_for_each(|&keyspace| writer.of(keyspace).map(drop))
}

/// Whether it is certain that no write after `checked_to` has changed what a transaction has read.
/// `earlier` holds the writes of the group that come before the transaction.
fn are_reads_unchanged(
    writer: &Writer,
    reads: &[(KeyspaceId, ReadSet)],
    checked_to: SequenceNumber,
    earlier: &[&Write],
) -> bool {
    let are_unchanged_by = |batch: &WriteBatch| {
        reads.iter().all(|(keyspace, reads)| !reads.is_concerned_by(*keyspace, batch))
    };
    // The drop of a keyspace is no write, but it changes what was read there.
    if reads.iter().any(|&(keyspace, _)| writer.get(keyspace).is_none()) {
        return false;
    }
    // The list has every write of other threads, whatever memtable or table holds it now.
    let recent = || writer.recent.between(checked_to, writer.last_sequence);
    let are_unchanged = writer.last_sequence <= checked_to
        || recent().is_some_and(|mut it| it.all(are_unchanged_by));
    are_unchanged && earlier.iter().all(|write| are_unchanged_by(&write.batch))
}
