//! The way of a point lookup.
//!
//! ```text
//!   view ─► memtable, frozen memtables, newest first ─► found (value or tombstone): done
//!        ─► candidates: files of level 0 newest first, then at most one file a level
//!             for each: prepare the filter               all lines travel from memory together
//!             for each: filter says no ─► next           counted: useful
//!                       index ─► block ─► entry          found: done; else a false positive
//! ```
//!
//! Why the first answer is the right one: memtables are newer than tables, level 0 is newer than
//! level 1 and so on, and within level 0 files are ordered by age. So the first entry met that the
//! lookup's sequence number may see is the newest; a tombstone ends the search as a value does.
//!
//! Why one file a level is enough: from level 1 on the files of a level share no user key.

use std::sync::atomic::Ordering;

use super::iter::unsupported_kind;
use super::{Inner, View};
use crate::error::Result;
use crate::key::{EntryKind, SequenceNumber, user_key};
use crate::slice::Slice;
use crate::stats::Ticker;
use crate::sync::{Guard, pin};
use crate::table::{FilterProbe, Found, LookupKey};
use crate::version::{TableFile, Version};

/// Filters that are asked together. More files than this that may hold one key means many files in
/// level 0: the rest waits its turn.
const GATHERED: usize = 16;

/// A value where it was found.
enum ValueRef<'a> {
    Memtable(&'a [u8]),
    Block(Found<'a>),
}

impl ValueRef<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            ValueRef::Memtable(value) => value,
            ValueRef::Block(found) => found.value,
        }
    }

    /// Shares the block; copies out of a memtable, which would otherwise live as long as the value.
    fn to_slice(&self) -> Slice {
        match self {
            ValueRef::Memtable(value) => Slice::copy_from(value),
            ValueRef::Block(found) => found.value_slice(),
        }
    }
}

impl Inner {
    pub(super) fn get(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Option<Slice>> {
        self.lookup(key, snapshot, |value| value.to_slice())
    }

    pub(super) fn get_with<R>(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.lookup(key, snapshot, |value| read(value.bytes()))
    }

    pub(super) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Vec<Option<Slice>>> {
        self.check_open()?;
        let guard = pin();
        let view = self.view.load(&guard);
        let sequence = snapshot.unwrap_or_else(|| self.visible.load(Ordering::Acquire));
        self.counters.add(Ticker::NumberMultigetCalls, 1);
        self.counters.add(Ticker::NumberMultigetKeysRead, keys.len() as u64);
        // In key order neighbours share index and data blocks.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        let mut values = vec![None; keys.len()];
        for index in order {
            let key = LookupKey::new(keys[index].as_ref(), sequence);
            values[index] = self.find(view, &key, &guard, |value| value.to_slice())?;
        }
        Ok(values)
    }

    fn lookup<R>(
        &self,
        key: &[u8],
        snapshot: Option<SequenceNumber>,
        visit: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<Option<R>> {
        self.check_open()?;
        let guard = pin();
        let view = self.view.load(&guard);
        // After the view: what this number counts is in the view, or was written later.
        let sequence = snapshot.unwrap_or_else(|| self.visible.load(Ordering::Acquire));
        self.find(view, &LookupKey::new(key, sequence), &guard, visit)
    }

    fn find<R>(
        &self,
        view: &View,
        key: &LookupKey<'_>,
        guard: &Guard,
        visit: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<Option<R>> {
        self.counters.add(Ticker::NumberKeysRead, 1);
        for memtable in std::iter::once(&view.memtable).chain(&view.frozen) {
            if let Some((_, kind, value)) = memtable.get(key.user_key, key.sequence) {
                self.counters.add(Ticker::MemtableHit, 1);
                return Ok(match is_value(kind)? {
                    true => Some(visit(ValueRef::Memtable(value))),
                    false => None,
                });
            }
        }
        self.counters.add(Ticker::MemtableMiss, 1);
        self.find_in_tables(&view.version, key, guard, visit)
    }

    fn find_in_tables<R>(
        &self,
        version: &Version,
        key: &LookupKey<'_>,
        guard: &Guard,
        visit: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut visit = Some(visit);
        let mut candidates = candidates(version, key.user_key);
        loop {
            let mut probes: [Option<(usize, &TableFile, FilterProbe<'_>)>; GATHERED] =
                [const { None }; GATHERED];
            let mut gathered = 0;
            for (level, file) in candidates.by_ref().take(GATHERED) {
                probes[gathered] = Some((level, file, file.table.prepare_filter(key, guard)));
                gathered += 1;
            }
            for probe in &mut probes[..gathered] {
                let Some((level, file, probe)) = probe.take() else { continue };
                if !file.table.filter_says_maybe(probe) {
                    continue;
                }
                let found = file.table.get_after_filter(key, guard, |found| {
                    Ok(match is_value(found.kind)? {
                        true => visit.take().map(|visit| visit(ValueRef::Block(found))),
                        false => None,
                    })
                })?;
                if let Some(answer) = found {
                    self.counters.add(hit_ticker(level), 1);
                    return answer;
                }
            }
            if gathered < GATHERED {
                return Ok(None);
            }
        }
    }
}

/// The files that may hold `key`, with their levels, newest first.
fn candidates<'a>(
    version: &'a Version,
    key: &'a [u8],
) -> impl Iterator<Item = (usize, &'a TableFile)> {
    let l0 = version.levels[0].iter().filter(move |file| {
        user_key(&file.meta.smallest) <= key && key <= user_key(&file.meta.largest)
    });
    let deeper = (1..version.levels.len())
        .filter_map(move |level| Some((level, version.candidate(level, key)?)));
    l0.map(|file| (0, file)).chain(deeper).map(|(level, file)| (level, &**file))
}

/// Whether an entry holds a value (`true`) or is a tombstone.
fn is_value(kind: u8) -> Result<bool> {
    match EntryKind::from_byte(kind) {
        Some(EntryKind::Value) => Ok(true),
        Some(_) => Ok(false),
        None => Err(unsupported_kind(kind)),
    }
}

fn hit_ticker(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}
