//! The way of a write: batch → WAL → memtable → visible.
//!
//! ```text
//!   commit ──► alone: leads itself
//!          ──► queue ──► the thread that gets the writer lock leads:
//!                          1. make room (rotate a full memtable, brake, wait)
//!                          2. one WAL record for every batch in the queue
//!                          3. sync, if any of them asked for it
//!                          4. all batches into the memtable
//!                          5. publish the last sequence number: now readers see them, all at once
//!                        the others find their batch done when they get the lock
//! ```
//!
//! Where there is no space for a record, the caller gets that error and nothing else happens: the log has
//! ended before the record, and the next write begins another. Any other failure makes the database
//! read-only.
//!
//! A full memtable is frozen together with its WAL; the next write goes to a new pair. The old WAL
//! may not be synced yet: a later synced write syncs it first, so that what is durable never has a
//! hole. Recovery checks that sequence numbers follow each other without a gap.

pub(crate) mod batch;
pub(crate) mod write_stall;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use self::batch::{MAX_BATCH_BYTES, WriteBatch, record_header};
use self::write_stall as brake;
use self::write_stall::{BrakeCause, Pressure, WriteBrake, write_brake};
use super::{Frozen, Inner, State, sequence_after};
use crate::encoding::key::SequenceNumber;
use crate::error::{Error, Result};
use crate::memtable::{Memtable, MemtableWriter};
use crate::stats::Ticker;
use crate::sync::lock;
use crate::version::names;
use crate::wal::{LogKind, LogWriter};

/// What a write must survive before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A killed process: the bytes are with the operating system.
    #[default]
    Buffered,
    /// A power loss: the bytes, and all writes before them, are on the device.
    Sync,
}

/// A group is cut when its batches reach this size, so that the first of many writers does not
/// wait for all of them.
const GROUP_BYTES: usize = 1 << 20;

/// How long writers that are slowed down wait at once, at least: a shorter sleep would take longer
/// than asked for. And at most, so that they notice when the brake is lifted.
const LEAST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// How long a stopped writer sleeps when nothing wakes it.
const STOP_PATIENCE: Duration = Duration::from_millis(100);

/// What the leader owns.
pub(crate) struct Writer {
    /// `None`: the directory is not taken over; see [`super::open::take_over`].
    pub wal: Option<LogWriter>,
    pub wal_number: u64,
    pub memtable: MemtableWriter,
    pub last_sequence: SequenceNumber,
    /// What slowed writers still have to wait for what they wrote.
    pub owed_wait: Duration,
}

/// WALs of frozen memtables that are not synced and not obsolete yet, oldest first.
#[derive(Default)]
pub(crate) struct SealedWals {
    logs: Vec<(u64, LogWriter)>,
    /// The newest WAL whose name is durable.
    named: u64,
}

impl SealedWals {
    /// None yet; the names up to that of the WAL `named` are durable.
    pub fn named(named: u64) -> SealedWals {
        SealedWals { logs: Vec::new(), named }
    }
}

/// What one caller asked for.
struct Write {
    batch: WriteBatch,
    durability: Durability,
}

/// A write in the queue.
pub(crate) struct Pending {
    write: Write,
    outcome: OnceLock<Result<()>>,
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
        let write = Write { batch, durability };
        // Nobody is writing and nobody waits: the write is a group by itself. Who comes meanwhile
        // queues, so nobody is overtaken twice.
        if let Ok(mut writer) = self.writer.try_lock()
            && lock(&self.queue).is_empty()
        {
            self.counters.add(Ticker::WriteDoneBySelf, 1);
            let room = self.make_room(&mut writer);
            return room.and_then(|brake| self.write_group(&mut writer, brake, &[&write]));
        }
        let pending = Arc::new(Pending { write, outcome: OnceLock::new() });
        lock(&self.queue).push_back(Arc::clone(&pending));
        loop {
            let mut writer = lock(&self.writer);
            if let Some(outcome) = pending.outcome.get() {
                return outcome.clone();
            }
            self.lead(&mut writer);
        }
    }

    /// Commits the batches at the front of the queue as one group.
    fn lead(&self, writer: &mut Writer) {
        let room = self.make_room(writer);
        let mut group = Vec::new();
        let mut bytes = 0;
        {
            let mut queue = lock(&self.queue);
            // The first always has room: no batch is larger than a record.
            while bytes < GROUP_BYTES
                && let Some(next) = queue.front()
                && bytes + next.write.batch.size_bytes() <= MAX_BATCH_BYTES
            {
                bytes += next.write.batch.size_bytes();
                group.extend(queue.pop_front());
            }
        }
        if !group.is_empty() {
            self.counters.add(Ticker::WriteDoneBySelf, 1);
            self.counters.add(Ticker::WriteDoneByOther, group.len() as u64 - 1);
        }
        let outcome = room.and_then(|brake| {
            let writes: Vec<&Write> = group.iter().map(|pending| &pending.write).collect();
            self.write_group(writer, brake, &writes)
        });
        for pending in group {
            let _ = pending.outcome.set(outcome.clone());
        }
    }

    fn write_group(&self, writer: &mut Writer, brake: WriteBrake, group: &[&Write]) -> Result<()> {
        let count: u64 = group.iter().map(|write| write.batch.len() as u64).sum();
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
                writer.memtable.insert(
                    operation.key,
                    sequence,
                    operation.kind as u8,
                    operation.value,
                );
                sequence += 1;
            }
        }
        writer.last_sequence = last;
        self.counters.add(Ticker::WalFileBytes, logged_bytes);
        self.counters.add(Ticker::NumberKeysWritten, count);
        let bytes: usize = group.iter().map(|write| write.batch.size_bytes()).sum();
        self.counters.add(Ticker::BytesWritten, bytes as u64);
        if let WriteBrake::Delay { bytes_per_second, .. } = brake {
            writer.owed_wait += brake::wait_for(logged_bytes, bytes_per_second);
        }
        // Release: who sees the number sees the entries.
        self.visible.store(last, Ordering::Release);
        Ok(())
    }

    /// Makes all WALs durable, oldest first, and tells the MANIFEST of those it does not know yet: once one
    /// is synced, its loss is to be noticed.
    fn sync_with(&self, writer: &mut Writer) -> Result<()> {
        let Some(wal) = &mut writer.wal else { return Err(Error::OpenedReadOnly) };
        let mut sealed = lock(&self.sealed_wals);
        if sealed.logs.is_empty() && wal.is_empty() {
            return Ok(());
        }
        let mut durable = Vec::new();
        for (number, log) in &mut sealed.logs {
            log.sync()?;
            durable.push((*number, log.synced_to()));
        }
        sealed.logs.clear();
        if sealed.named < writer.wal_number {
            self.store.fs.sync_dir(&self.store.dir)?;
            sealed.named = writer.wal_number;
        }
        drop(sealed);
        self.counters.add(Ticker::WalFileSynced, 1);
        let is_first = wal.synced_to() == 0;
        wal.sync()?;
        if is_first {
            durable.push((writer.wal_number, wal.synced_to()));
        }
        match durable.is_empty() {
            true => Ok(()),
            false => self.enter_durable_wals(durable),
        }
    }

    pub(crate) fn sync_wals(&self) -> Result<()> {
        let mut writer = lock(&self.writer);
        if let Some(error) = self.latched.get() {
            return Err(Error::ReadOnly(Arc::new(error.clone())));
        }
        self.begin_writing(&mut writer)?;
        self.sync_with(&mut writer).map_err(|error| self.latch(error))
    }

    /// Forgets the sealed WALs whose memtables are in tables now.
    pub(crate) fn drop_sealed_wals(&self, oldest_needed: u64) {
        lock(&self.sealed_wals).logs.retain(|&(number, _)| number >= oldest_needed);
    }

    /// Returns when the memtable can take a group, and how hard that group's writers must brake.
    fn make_room(&self, writer: &mut Writer) -> Result<WriteBrake> {
        self.begin_writing(writer)?;
        loop {
            self.check_writable()?;
            if writer.wal.as_ref().is_some_and(LogWriter::has_ended) {
                self.next_wal(writer).map_err(|error| self.latch_unless_retried(error))?;
            }
            let memtable_is_full = writer.memtable.bytes() >= self.memtable_bytes;
            if !memtable_is_full && !self.tree_brakes.load(Ordering::Acquire) {
                writer.owed_wait = Duration::ZERO;
                return Ok(WriteBrake::None);
            }
            let mut state = self.lock_state();
            let frozen_memtables = state.frozen.len();
            let brake =
                write_brake(Pressure { memtable_is_full, frozen_memtables, ..state.pressure });
            match brake {
                WriteBrake::Stop(cause) => {
                    // Nobody knows when there will be room again.
                    if let Some(error) = self.hindrance(&mut state, cause) {
                        return Err(error);
                    }
                    let ticker = match cause {
                        BrakeCause::Memtables => Ticker::StallMemtableStops,
                        BrakeCause::Level0 => Ticker::StallL0Stops,
                        BrakeCause::Debt => Ticker::StallDebtStops,
                    };
                    self.stalled(ticker, || {
                        // Woken by every change of the state; the timeout only guards against a
                        // stop that nobody will ever lift.
                        let wait = self.changed.wait_timeout(state, STOP_PATIENCE);
                        drop(wait.unwrap_or_else(PoisonError::into_inner));
                    });
                }
                WriteBrake::Delay { cause, .. } if writer.owed_wait >= LEAST_WAIT => {
                    drop(state);
                    let ticker = match cause {
                        BrakeCause::Debt => Ticker::StallDebtDelays,
                        _ => Ticker::StallL0Delays,
                    };
                    let wait = writer.owed_wait.min(LONGEST_WAIT);
                    writer.owed_wait -= wait;
                    self.stalled(ticker, || std::thread::sleep(wait));
                }
                _ if memtable_is_full => {
                    drop(state);
                    self.rotate(writer)?;
                }
                _ => return Ok(brake),
            }
        }
    }

    /// Runs `wait` and counts it, for its cause too, and its time.
    fn stalled(&self, cause: Ticker, wait: impl FnOnce()) {
        let start = Instant::now();
        wait();
        self.counters.add(cause, 1);
        self.counters.add(Ticker::StallCount, 1);
        self.counters.add(Ticker::StallMicros, start.elapsed().as_micros() as u64);
    }

    /// Seals the WAL; the next write goes to a new one. The memtable stays, and has entries in both.
    fn next_wal(&self, writer: &mut Writer) -> Result<()> {
        let number = self.store.new_number();
        let path = names::wal_path(&self.store.dir, number);
        let wal = LogWriter::create(&*self.store.fs, &path, LogKind::Wal, number)?;
        if let Some(old) = writer.wal.replace(wal) {
            lock(&self.sealed_wals).logs.push((writer.wal_number, old));
        }
        writer.wal_number = number;
        Ok(())
    }

    /// Freezes the memtable and its WAL; the next write goes to new ones.
    pub(crate) fn rotate(&self, writer: &mut Writer) -> Result<()> {
        self.next_wal(writer).map_err(|error| self.latch_unless_retried(error))?;
        let (memtable, writing) = Memtable::new(self.memtable_bytes);
        writer.memtable = writing;

        let mut state = self.lock_state();
        let full = std::mem::replace(&mut state.memtable, memtable);
        state.frozen.push_back(Frozen { memtable: full, next_wal: writer.wal_number });
        self.publish(&mut state);
        Ok(())
    }

    /// Shows readers and writers what `state` holds now, and starts the work it asks for.
    pub(crate) fn publish(&self, state: &mut State) {
        let view = Arc::new(state.view());
        let mut views = lock(&self.views);
        views.retain(|view| view.strong_count() > 0);
        views.push(Arc::downgrade(&view));
        drop(views);
        self.view.replace(view);
        state.pressure = Pressure::of_tree(&state.version, &self.shape, &state.held);
        self.tree_brakes.store(write_brake(state.pressure) != WriteBrake::None, Ordering::Release);
        self.changed.notify_all();
        self.schedule(state);
    }
}
