//! The way of a write: batch → WAL → memtable → visible.
//!
//! ```text
//!   commit ──► queue ──► the thread that gets the writer lock leads:
//!                          1. make room (rotate a full memtable, brake, wait)
//!                          2. one WAL record for every batch in the queue
//!                          3. sync, if any of them asked for it
//!                          4. all batches into the memtable
//!                          5. publish the last sequence number: now readers see them, all at once
//!                        the others find their batch done when they get the lock
//! ```
//!
//! A full memtable is frozen together with its WAL; the next write goes to a new pair. The old WAL
//! may not be synced yet: a later synced write syncs it first, so that what is durable never has a
//! hole. Recovery checks that sequence numbers follow each other without a gap.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::batch::{WriteBatch, record_header};
use super::{Frozen, Inner, State, sequence_after};
use crate::error::{Error, Result};
use crate::key::SequenceNumber;
use crate::memtable::{Memtable, MemtableWriter};
use crate::stats::Ticker;
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

/// How many full memtables may wait for their flush.
const MAX_FROZEN: usize = 2;

/// Files in level 0 that slow writers down, and that stop them.
const L0_SLOW: usize = 20;
const L0_STOP: usize = 36;

/// How hard writers must brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Brake {
    None = 0,
    Slow = 1,
    Stop = 2,
}

impl Brake {
    fn needed(state: &State) -> Brake {
        match state.version.levels[0].len() {
            0..L0_SLOW => Brake::None,
            L0_SLOW..L0_STOP => Brake::Slow,
            _ => Brake::Stop,
        }
    }
}

/// What the leader owns.
pub(super) struct Writer {
    pub wal: LogWriter,
    pub wal_number: u64,
    pub memtable: MemtableWriter,
    pub last_sequence: SequenceNumber,
}

/// WALs of frozen memtables that are not synced and not obsolete yet, oldest first.
#[derive(Default)]
pub(super) struct SealedWals {
    logs: Vec<(u64, LogWriter)>,
    /// The newest WAL whose name is durable.
    named: u64,
}

/// A batch in the queue.
pub(super) struct Pending {
    batch: WriteBatch,
    durability: Durability,
    outcome: OnceLock<Result<()>>,
}

impl Inner {
    pub(super) fn commit(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        batch.check()?;
        self.check_writable()?;
        if batch.is_empty() {
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Sync => self.sync_wals(),
            };
        }
        let pending = Arc::new(Pending { batch, durability, outcome: OnceLock::new() });
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
            while bytes < GROUP_BYTES
                && let Some(pending) = queue.pop_front()
            {
                bytes += pending.batch.size_bytes();
                group.push(pending);
            }
        }
        let outcome = room.and_then(|()| self.write_group(writer, &group));
        for pending in group {
            let _ = pending.outcome.set(outcome.clone());
        }
    }

    fn write_group(&self, writer: &mut Writer, group: &[Arc<Pending>]) -> Result<()> {
        let count: u64 = group.iter().map(|pending| pending.batch.len() as u64).sum();
        let first = writer.last_sequence + 1;
        let last = sequence_after(writer.last_sequence, count)?;

        let header = record_header(first, count);
        let mut parts = vec![&header[..]];
        parts.extend(group.iter().map(|pending| pending.batch.encoded()));
        let before = writer.wal.len();
        writer.wal.append(&parts).map_err(|error| self.latch(error))?;
        self.counters.add(Ticker::WalFileBytes, writer.wal.len() - before);
        if group.iter().any(|pending| pending.durability == Durability::Sync) {
            self.sync_with(writer).map_err(|error| self.latch(error))?;
        }

        let mut sequence = first;
        for pending in group {
            for operation in pending.batch.operations() {
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
        self.counters.add(Ticker::NumberKeysWritten, count);
        // Release: who sees the number sees the entries.
        self.visible.store(last, Ordering::Release);
        Ok(())
    }

    /// Makes all WALs durable, oldest first.
    fn sync_with(&self, writer: &mut Writer) -> Result<()> {
        let mut sealed = lock(&self.sealed_wals);
        for (_, log) in &mut sealed.logs {
            log.sync()?;
        }
        sealed.logs.clear();
        if sealed.named < writer.wal_number {
            self.store.fs.sync_dir(&self.store.dir)?;
            sealed.named = writer.wal_number;
        }
        self.counters.add(Ticker::WalFileSynced, 1);
        writer.wal.sync()
    }

    pub(super) fn sync_wals(&self) -> Result<()> {
        let mut writer = lock(&self.writer);
        if let Some(error) = self.latched.get() {
            return Err(Error::ReadOnly(Arc::new(error.clone())));
        }
        self.sync_with(&mut writer).map_err(|error| self.latch(error))
    }

    /// Forgets the sealed WALs whose memtables are in tables now.
    pub(super) fn drop_sealed_wals(&self, oldest_needed: u64) {
        lock(&self.sealed_wals).logs.retain(|&(number, _)| number >= oldest_needed);
    }

    /// Returns when the memtable can take a group.
    fn make_room(&self, writer: &mut Writer) -> Result<()> {
        let mut slowed = false;
        loop {
            self.check_writable()?;
            let brake = self.brake.load(Ordering::Acquire);
            let full = writer.memtable.bytes() >= self.memtable_bytes;
            if brake == Brake::None as u8 && !full {
                return Ok(());
            }
            if brake == Brake::Slow as u8 && !slowed {
                // Every group waits a little, rather than one of them long.
                slowed = true;
                self.stalled(|| {
                    std::thread::sleep(Duration::from_millis(1));
                });
                continue;
            }
            let state = self.lock_state();
            let must_wait =
                Brake::needed(&state) == Brake::Stop || (full && state.frozen.len() >= MAX_FROZEN);
            if must_wait {
                self.stalled(|| {
                    // Woken by every change of the state; the timeout only guards against a
                    // stop that nobody will ever lift.
                    let wait = self.changed.wait_timeout(state, Duration::from_millis(100));
                    drop(wait.unwrap_or_else(PoisonError::into_inner));
                });
            } else if full {
                drop(state);
                self.rotate(writer).map_err(|error| self.latch(error))?;
            } else {
                return Ok(());
            }
        }
    }

    /// Runs `wait` and counts it and its time.
    fn stalled(&self, wait: impl FnOnce()) {
        let start = Instant::now();
        wait();
        self.counters.add(Ticker::StallCount, 1);
        self.counters.add(Ticker::StallMicros, start.elapsed().as_micros() as u64);
    }

    /// Freezes the memtable and its WAL; the next write goes to new ones.
    pub(super) fn rotate(&self, writer: &mut Writer) -> Result<()> {
        let number = self.store.new_number();
        let path = names::wal_path(&self.store.dir, number);
        let wal = LogWriter::create(&*self.store.fs, &path, LogKind::Wal, number)?;
        let (memtable, writing) = Memtable::new(self.memtable_bytes);
        let old_wal = std::mem::replace(&mut writer.wal, wal);
        lock(&self.sealed_wals).logs.push((writer.wal_number, old_wal));
        writer.wal_number = number;
        writer.memtable = writing;

        let mut state = self.lock_state();
        let full = std::mem::replace(&mut state.memtable, memtable);
        state.frozen.push_back(Frozen { memtable: full, next_wal: number });
        self.publish(&state);
        Ok(())
    }

    /// Shows readers, writers and background threads what `state` holds now.
    pub(super) fn publish(&self, state: &State) {
        self.view.replace(Arc::new(state.view()));
        self.brake.store(Brake::needed(state) as u8, Ordering::Release);
        self.changed.notify_all();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
