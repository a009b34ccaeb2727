//! The workloads whose data becomes obsolete, because it is deleted, overwritten or popped from a
//! queue. In some of them, snapshots or checkpoints still hold such data. The workloads measure how
//! long operations take, and the space that the database takes after compaction has settled.

use std::collections::VecDeque;
use std::ops::Range;

use maypole::{Snapshot, WriteBatch};

use super::options::Bench;
use super::workload::{OVERWRITES_PER_SCAN, PUTS_PER_CHECKPOINT, Run, Worker, durability, put};
use crate::failure::{Failure, Result};
use crate::scratch;

/// The length of the queue, in entries, without `--window`.
const STANDING: u64 = 1000;
/// The workload `retention` keeps a tenth of the entries if `--window` is not given.
const KEPT_SHARE: u64 = 10;
const HOT_KEYS: u64 = 3;
/// The number of snapshots that `overwritehot` holds.
const HELD_SNAPSHOTS: usize = 4;
/// `overwritehot` takes one snapshot in this many operations. An operation, or turn, is
/// [`OVERWRITES_PER_SCAN`] overwrites followed by two scans.
const TURNS_PER_SNAPSHOT: u64 = 10;

impl Worker<'_> {
    /// Deletes the keys at the positions `part` of a random order of all keys. Each thread has
    /// positions of its own, so no two threads delete the same key.
    pub fn delete(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, options: &Bench { seed, sync, .. }, .. } = *self.run;
        let mut keys = entries.keys();
        for i in part {
            let number = entries.drawn(i, seed);
            let key = keys.of(number);
            self.log.time(|| {
                let mut batch = WriteBatch::new();
                batch.delete(key);
                db.write_opt(batch, durability(sync))
            })?;
            entries.mark_removed(number);
            self.wrote(1, entries.key_bytes as u64);
            self.done(1);
        }
        Ok(())
    }

    /// Puts entries at the end. Once the queue has its full length, each put is followed by a pop
    /// of the first entry.
    pub fn queue(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, options: &Bench { sync, window, .. }, .. } = *self.run;
        let standing = window.unwrap_or(STANDING);
        let (mut keys, mut first_keys) = (entries.keys(), entries.keys());
        for number in part {
            let (key, value) = (keys.of(number), entries.value(&mut self.random));
            let popped = self.log.time(|| {
                put(db, key, value, sync)?;
                match number < standing {
                    true => Ok(None),
                    false => db.pop_first(),
                }
            })?;
            entries.mark_written(number);
            self.wrote(1, entries.entry_bytes());
            if number >= standing {
                let expected = first_keys.of(number - standing);
                if popped.is_none_or(|(key, _)| &key[..] != expected) {
                    return Err(Failure::of_lookup(expected, true));
                }
                entries.mark_removed(number - standing);
                self.wrote(1, entries.key_bytes as u64);
            }
            self.done(1);
        }
        Ok(())
    }

    /// Puts keys in their order. A put after which `--delete-range` more keys than `--window` would
    /// exist also deletes the `--delete-range` oldest keys, in the same batch.
    pub fn retain(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, options, .. } = *self.run;
        let &Bench { sync, window, delete_range, .. } = options;
        let kept = window.unwrap_or(entries.count.div_ceil(KEPT_SHARE));
        let mut oldest = 0;
        let (mut keys, mut first_keys, mut end_keys) =
            (entries.keys(), entries.keys(), entries.keys());
        for number in part {
            let (key, value) = (keys.of(number), entries.value(&mut self.random));
            let is_full = number + 1 - oldest >= kept + delete_range;
            let end = oldest + delete_range;
            self.log.time(|| {
                let mut batch = WriteBatch::new();
                batch.put(key, value);
                match (is_full, delete_range) {
                    (true, 1) => {
                        batch.delete(first_keys.of(oldest));
                    }
                    (true, _) => {
                        batch.delete_range(first_keys.of(oldest)..end_keys.of(end));
                    }
                    _ => (),
                }
                db.write_opt(batch, durability(sync))
            })?;
            entries.mark_written(number);
            self.wrote(1, entries.entry_bytes());
            if is_full {
                (oldest..end).for_each(|number| entries.mark_removed(number));
                oldest = end;
                let ends = if delete_range == 1 { 1 } else { 2 };
                self.wrote(1, ends * entries.key_bytes as u64);
            }
            self.done(1);
        }
        let first = db.first_key_value()?.map(|(key, _)| key);
        let expected = first_keys.of(oldest);
        match first {
            Some(first) if &first[..] == expected => Ok(()),
            _ => Err(Failure::of_lookup(expected, true)),
        }
    }

    /// Overwrites a few keys and scans them, while snapshots keep old versions alive.
    pub fn overwrite_hot(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, options: &Bench { sync, .. }, .. } = *self.run;
        let hot = HOT_KEYS.min(entries.count);
        let mut keys = entries.keys();
        let mut values = vec![Vec::new(); hot as usize];
        let mut snapshots: VecDeque<(Snapshot, Vec<Vec<u8>>)> = VecDeque::new();
        for turn in part {
            for i in turn * OVERWRITES_PER_SCAN..(turn + 1) * OVERWRITES_PER_SCAN {
                let (number, value) = (i % hot, entries.value(&mut self.random));
                put(db, keys.of(number), value, sync)?;
                entries.mark_written(number);
                values[number as usize] = value.to_vec();
                self.wrote(1, entries.entry_bytes());
            }
            for backward in [false, true] {
                let mut cursor = db.cursor();
                let mut found = self.log.time(|| -> Result<Vec<Vec<u8>>> {
                    let mut found = Vec::new();
                    match backward {
                        false => cursor.seek_to_first()?,
                        true => cursor.seek_to_last()?,
                    }
                    while cursor.valid() {
                        found.push(cursor.value().to_vec());
                        match backward {
                            false => cursor.next()?,
                            true => cursor.prev()?,
                        }
                    }
                    Ok(found)
                })?;
                if backward {
                    found.reverse();
                }
                check(&found, &values)?;
                self.log.bytes += hot * entries.entry_bytes();
            }
            if turn % TURNS_PER_SNAPSHOT == 0 {
                snapshots.push_back((db.snapshot(), values.clone()));
                if snapshots.len() > HELD_SNAPSHOTS {
                    let (snapshot, then) = snapshots.pop_front().expect("there are several");
                    let found = snapshot.iter().map(|entry| Ok(entry?.1.to_vec()));
                    check(&found.collect::<Result<Vec<_>>>()?, &then)?;
                }
            }
            self.done(1);
        }
        Ok(())
    }

    /// In each operation, puts some entries and makes a checkpoint, which is removed at once. Only
    /// making the checkpoint is timed.
    pub fn checkpoint(&mut self, part: Range<u64>) -> Result {
        let Run { db, entries, copies, options: &Bench { sync, .. }, .. } = *self.run;
        let dir = copies.join("checkpoint");
        let mut keys = entries.keys();
        for i in part {
            for n in 0..PUTS_PER_CHECKPOINT {
                // The seed of the order of the keys is a constant, not `--seed`, so every run puts
                // the same keys.
                let number = entries.drawn((i * PUTS_PER_CHECKPOINT + n) % entries.count, !0);
                put(db, keys.of(number), entries.value(&mut self.random), sync)?;
                entries.mark_written(number);
                self.wrote(1, entries.entry_bytes());
            }
            self.log.time(|| db.checkpoint(&dir))?;
            scratch::remove(&dir)?;
            self.done(1);
        }
        Ok(())
    }
}

/// Checks that a scan has met the expected values.
fn check(found: &[Vec<u8>], expected: &[Vec<u8>]) -> Result {
    match found == expected {
        true => Ok(()),
        false => Err(Failure::new(format_args!(
            "a scan met {} entries, and not the last values of {} keys",
            found.len(),
            expected.len()
        ))),
    }
}
