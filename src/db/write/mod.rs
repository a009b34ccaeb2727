//! A write: batch → WAL → memtable → visible. The functions are in the order of the steps.
//!
//! ```text
//!   commit ──► nobody else writes: leads itself
//!          ──► queue ──► one of the threads that wait leads (`CombiningLock`):
//!                          1. make room: stall, rotate a full memtable
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
//! **Deletions on a full disk.** If level 0 is full because compactions find no space, writers get
//! an error. Batches that only delete are written all the same, because space becomes free by them:
//! a table that a range deletion covers is dropped unread, which needs no space. So a group then
//! holds either only such batches or none.
//!
//! **A full memtable** is frozen together with its WAL. The next write goes to a new memtable and a
//! new WAL. If the old WAL is not synced yet, a later synced write syncs it first, so that the
//! durable writes never have a gap. Recovery checks that sequence numbers follow each other.

pub(crate) mod batch;
pub(crate) mod durability;
mod open_end;
pub(crate) mod recent;
pub(crate) mod turns;
pub(crate) mod write_stall;

use std::sync::Arc;
use std::time::Duration;

use self::batch::{MAX_BATCH_BYTES, Operation, WriteBatch, record_header};
use self::durability::Durability;
use self::write_stall::{Pressure, WriteStall, WriteStallCause, wait_for, write_stall_for};
use super::events;
use super::inner::Inner;
use super::inner::database::Database;
use super::inner::tree_state::Frozen;
use super::inner::writing::{
    LeadingWriter, Precondition, Requirement, Write, Writer, sequence_after,
};
use super::open::writable::take_over;
use super::read_state::ReadPoint;
use super::transaction::reads::ReadSet;
use crate::encoding::key::{EntryKind, MAX_SEQUENCE, SequenceNumber};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::stats::Ticker;
use crate::sync::thread;
use crate::sync::time::Instant;
use crate::sync::{Waiting, pin};
use crate::wal::LogWriter;

/// A group is full at this size, so that the first of many writers does not wait for all of them.
const GROUP_BYTES: usize = 1 << 20;

/// The shortest sleep of a delayed writer. Shorter sleeps take longer than requested.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// The longest sleep of a delayed writer, so that it notices the end of the delay.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// How long a stopped writer sleeps when nothing wakes it.
const STOP_PATIENCE: Duration = Duration::from_millis(100);

/// A write with a precondition joins a group only if at most this many operations come before it,
/// because the leader compares their keys with what the precondition concerns.
const MOST_COMPARED: usize = 256;

/// Which stops of writers ([`WriteStall::Stop`]) a group passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    None,
    /// A stop by compactions whose last attempt has failed.
    FailingCompactions,
}

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
        self.database.status.check_writable()?;
        if batch.is_empty() {
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Sync => self.sync_wals(),
            };
        }
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
        self.database.status.check_writable()?;
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
        let mut writer = self.database.writing.lead();
        self.write_alone(&mut writer, &Write { batch, durability, precondition: None }, check)
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
        let room = self.make_room(work.writer, Passing::None);
        let room = room.or_else(|error| self.let_deletions_pass(work.writer, write, error));
        let outcome = room.and_then(|stall| {
            check()?;
            self.write_group(work.writer, stall, &[write])
        });
        work.finish();
        outcome
    }

    #[inline(always)]
    fn lead_or_queue(&self, write: Write) -> Result<()> {
        if let Some(mut writer) = self.database.writing.try_lead() {
            return self.write_alone(&mut writer, &write, || Ok(()));
        }
        self.database.writing.submit(write, |writer| self.lead(writer))
    }

    /// Writes the front of the queue as one group.
    fn lead(&self, writer: &mut LeadingWriter<'_>) {
        let mut work = Unfinished { inner: self, writer, group: Vec::new() };
        let room = self.make_room(work.writer, Passing::None);
        let (mut bytes, mut operations) = (0, 0);
        // Whether the first batch only deletes. Looked at if there is no room.
        let mut deletes = None;
        let mut has_open_end = false;
        // The first batch always fits, because no batch is larger than a record may be.
        work.group = work.writer.take_while(|write| {
            if room.is_err() {
                let only_deletes = write.batch.only_deletes();
                if *deletes.get_or_insert(only_deletes) != only_deletes {
                    return false;
                }
            }
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
        let room = room.or_else(|error| match work.group.first() {
            Some(first) => self.let_deletions_pass(work.writer, &first.work, error),
            None => Err(error),
        });
        self.database.counters().add(Ticker::WriteDoneBySelf, 1);
        self.database.counters().add(Ticker::WriteDoneByOther, work.group.len() as u64 - 1);
        let outcome = room.and_then(|stall| {
            let writes: Vec<&Write> = work.group.iter().map(|waiting| &waiting.work).collect();
            self.write_group(work.writer, stall, &writes)
        });
        for waiting in work.finish() {
            waiting.answer(outcome.clone());
        }
    }

    /// Called after [`Inner::make_room`] has failed with `error` for a group in which either every
    /// batch only deletes or none does. `first` is one of its writes. If it only deletes, tries
    /// again to make room, past a stop by compactions that find no space: deletions take little
    /// space, and compactions free space with them.
    #[cold]
    fn let_deletions_pass(
        &self,
        writer: &mut Writer,
        first: &Write,
        error: Error,
    ) -> Result<WriteStall> {
        match first.batch.only_deletes() {
            true => self.make_room(writer, Passing::FailingCompactions),
            false => Err(error),
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
        take_over(&self.database, &self.tree, writer)
            .map_err(|error| if error.is_out_of_space() { error } else { self.latch(error) })?;
        self.schedule(&mut self.tree.lock());
        Ok(())
    }

    /// Waits until the memtable can take a group, and replaces a full memtable by a new one.
    /// Returns the stall that applies to the group's writers.
    fn make_room(&self, writer: &mut Writer, passing: Passing) -> Result<WriteStall> {
        self.ensure_taken_over(writer)?;
        loop {
            self.database.status.check_writable()?;
            if writer.wal.as_ref().is_some_and(LogWriter::has_ended) {
                self.start_wal(writer)?;
            }
            let memtable_is_full = writer.tree.memtable.is_full(self.tree.options.memtable_bytes);
            if !memtable_is_full && !self.tree.stalls_writers() {
                writer.owed_wait = Duration::ZERO;
                return Ok(WriteStall::None);
            }
            let mut state = self.tree.lock();
            let frozen_memtables = state.frozen.len();
            let stall =
                write_stall_for(Pressure { memtable_is_full, frozen_memtables, ..state.pressure });
            match stall {
                WriteStall::Stop(cause) => {
                    // If flushes or compactions have failed for lack of space or a thread, the stop
                    // might last for ever, so the writer gets the error of that flush or compaction
                    // instead.
                    if let Some(error) = self.error_instead_of_waiting(&mut state, cause) {
                        drop(state);
                        match passing {
                            Passing::FailingCompactions if cause != WriteStallCause::Memtables => {}
                            _ => return Err(error),
                        }
                        if memtable_is_full {
                            self.rotate(writer)?;
                        }
                        return Ok(WriteStall::None);
                    }
                    let ticker = match cause {
                        WriteStallCause::Memtables => Ticker::StallMemtableStops,
                        WriteStallCause::Level0 => Ticker::StallL0Stops,
                        WriteStallCause::Debt => Ticker::StallDebtStops,
                    };
                    self.stalled(ticker, || {
                        // Every change of the state wakes this thread. The timeout only guards
                        // against a missed change.
                        drop(self.tree.wait_at_most(state, STOP_PATIENCE));
                    });
                }
                WriteStall::Delay { cause, .. } if writer.owed_wait >= MIN_WAIT => {
                    drop(state);
                    let ticker = match cause {
                        WriteStallCause::Debt => Ticker::StallDebtDelays,
                        _ => Ticker::StallL0Delays,
                    };
                    let wait = writer.owed_wait.min(MAX_WAIT);
                    writer.owed_wait -= wait;
                    self.stalled(ticker, || thread::sleep(wait));
                }
                _ if memtable_is_full => {
                    drop(state);
                    self.rotate(writer)?;
                }
                _ => return Ok(stall),
            }
        }
    }

    /// Runs `wait`. Counts this stall, by its cause and in total, and adds up its time.
    fn stalled(&self, cause: Ticker, wait: impl FnOnce()) {
        let start = Instant::now();
        wait();
        self.database.counters().add(cause, 1);
        self.database.counters().add(Ticker::StallCount, 1);
        self.database.counters().add(Ticker::StallMicros, start.elapsed().as_micros() as u64);
        events::waited(&self.database.store.dir, cause, start.elapsed());
    }

    /// Seals the WAL and starts the next one.
    fn start_wal(&self, writer: &mut Writer) -> Result<()> {
        let Database { store, writing, .. } = &*self.database;
        writing.next_wal(writer, store).map_err(|error| self.latch_unless_retried(error))
    }

    /// Freezes the memtable and seals its WAL. The next write goes to a new memtable and WAL.
    pub(crate) fn rotate(&self, writer: &mut Writer) -> Result<()> {
        self.start_wal(writer)?;
        let (memtable, writing) = Memtable::new(self.tree.options.memtable_bytes);
        writer.tree.memtable = writing;

        let mut state = self.tree.lock();
        let full = std::mem::replace(&mut state.memtable, memtable);
        state.is_idle = false;
        state.frozen.push_back(Frozen { memtable: full, next_wal: writer.wal_number });
        self.publish(&mut state);
        Ok(())
    }

    /// Writes a group for which the memtable has room. The steps: preconditions, WAL, sync if
    /// requested, memtable, visible.
    fn write_group(&self, writer: &mut Writer, stall: WriteStall, group: &[&Write]) -> Result<()> {
        match group.iter().any(|write| write.needs_preparation()) {
            false => self.write_prepared(writer, stall, group),
            true => self.prepare_and_write(writer, stall, group),
        }
    }

    /// Gives open ends an end, and leaves out the writes whose preconditions fail.
    #[cold]
    fn prepare_and_write(
        &self,
        writer: &mut Writer,
        stall: WriteStall,
        group: &[&Write],
    ) -> Result<()> {
        let (ended, alone);
        let group = match group {
            // A batch with an open end is a group of its own.
            [write] if write.batch.has_open_end() => {
                ended = self.with_ends(write)?;
                alone = [&ended];
                &alone[..]
            }
            _ => group,
        };
        let to_write = self.check_preconditions(writer, group);
        if to_write.is_empty() {
            return Ok(());
        }
        self.write_prepared(writer, stall, &to_write)
    }

    fn write_prepared(
        &self,
        writer: &mut Writer,
        stall: WriteStall,
        group: &[&Write],
    ) -> Result<()> {
        let count: u64 = group.iter().map(|write| write.batch.len() as u64).sum();
        if self.tree.reading.marks().has_proposals() {
            self.hear_cursors(writer)?;
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
                writer.tree.memtable.insert(operation.key, sequence, kind, operation.value);
                sequence += 1;
            }
        }
        if writer.tree.marks.is_watching() {
            self.cut_marks(writer, group);
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
        if let WriteStall::Delay { bytes_per_second, .. } = stall {
            writer.owed_wait += wait_for(logged_bytes, bytes_per_second);
        }

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
        let Some(Ok(Operation { key, .. })) = update.operations().next() else {
            return false;
        };
        if earlier.iter().any(|write| write.batch.concerns(key)) {
            return true;
        }
        if writer.last_sequence <= read.sequence {
            // Nothing was written since the read.
            return false;
        }
        let guard = pin();
        let memtable = &writer.tree.memtable;
        let newest = memtable.get(key, MAX_SEQUENCE).map_or(0, |(sequence, ..)| sequence);
        !self.tree.reading.is_current(&read.state, &guard)
            || writer.last_ingestion > read.sequence
            || newest > read.sequence
            || memtable.covering(key, MAX_SEQUENCE, &guard) > read.sequence
    }

    /// Cuts the keys of the group's puts out of all marks (`iter/marks/`). Called before the group
    /// is published.
    #[cold]
    fn cut_marks(&self, writer: &mut Writer, group: &[&Write]) {
        for operation in group.iter().flat_map(|write| write.batch.operations()).flatten() {
            if operation.kind == EntryKind::Value {
                writer.tree.marks.wrote(operation.key, operation.key);
            }
        }
        writer.tree.marks.publish(self.tree.reading.marks());
    }

    /// Does what cursors have requested of writers: takes in the marks that they propose, and
    /// freezes the memtable if a cursor has found at least half of its entries hidden, so that the
    /// flush can drop them. The memtable is not frozen while another one waits for its flush,
    /// because writers might then have to wait too.
    #[cold]
    fn hear_cursors(&self, writer: &mut Writer) -> Result<()> {
        let wanted = self.tree.reading.marks().take_flush_wanted();
        let last = writer.last_sequence;
        writer.tree.marks.take_in(self.tree.reading.marks(), last);
        if wanted == writer.tree.memtable.smallest_sequence() && self.tree.lock().frozen.is_empty()
        {
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
    fn sync_with(&self, writer: &mut Writer) -> Result<()> {
        match self.database.writing.sync_logs(writer, &self.database.store)? {
            first if first.is_empty() => Ok(()),
            first => {
                let Database { catalog, store, .. } = &*self.database;
                catalog.enter_durable_wals(store, &self.tree, first)
            }
        }
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

/// Whether it is certain that no write after `checked_to` has changed what a transaction has read.
/// `earlier` holds the writes of the group that come before the transaction.
fn are_reads_unchanged(
    writer: &Writer,
    reads: &ReadSet,
    checked_to: SequenceNumber,
    earlier: &[&Write],
) -> bool {
    let are_unchanged_by = |batch: &WriteBatch| !reads.is_concerned_by(batch);
    // The list has every write of other threads, whatever memtable or table holds it now.
    let recent = || writer.recent.between(checked_to, writer.last_sequence);
    let are_unchanged = writer.last_sequence <= checked_to
        || recent().is_some_and(|mut it| it.all(are_unchanged_by));
    are_unchanged && earlier.iter().all(|write| are_unchanged_by(&write.batch))
}
