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
//! `multi_get` takes the same steps, each for many keys before the next one, so that the trips to
//! memory of different keys overlap.
//!
//! Why one file a level is enough: from level 1 on the files of a level share no user key.
//!
//! A range deletion hides the older entries of its keys wherever they are: in its own source, where
//! sequence numbers tell, and in all deeper ones. So the first source that has one for the key, of
//! those that the lookup may see, is the last to be searched, and its filter cannot end the search
//! for the range deletion, which is asked first.

use std::sync::atomic::Ordering;

use super::cursor::unsupported_kind;
use super::{Inner, View};
use crate::error::Result;
use crate::key::{EntryKind, SequenceNumber};
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::{BlockPlace, FilterProbe, Found, LookupKey};
use crate::version::{TableFile, Version};

/// Filters that are asked together. More files than this that may hold one key means many files in
/// level 0: the rest waits its turn.
const GATHERED: usize = 16;

/// Keys of a `multi_get` that are looked up together: enough to hide every trip to memory, few
/// enough that what they fetch stays in the processor's second cache.
const TOGETHER: usize = 64;

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

    /// The keys are looked up [`TOGETHER`] at a time; when there are more, in key order, so that
    /// those of one block meet while it is in memory. (Sorting costs as much as an absent key.)
    pub(super) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Vec<Option<Slice>>> {
        self.check_open()?;
        let guard = pin();
        let view = self.view.load(&guard);
        let sequence = snapshot.unwrap_or_else(|| self.visible.load(Ordering::Acquire));
        let tickers = self.counters.on_thread(&guard);
        tickers.add(Ticker::NumberMultigetCalls, 1);
        tickers.add(Ticker::NumberMultigetKeysRead, keys.len() as u64);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        if keys.len() > TOGETHER {
            order.sort_unstable_by(|&a, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        }
        let mut values = vec![None; keys.len()];
        for order in order.chunks(TOGETHER) {
            let lookups = order.iter().map(|&i| (i, LookupKey::new(keys[i].as_ref(), sequence)));
            self.find_together(view, lookups, &guard, tickers, &mut values)?;
        }
        Ok(values)
    }

    /// Each step for all keys before the next one, so that their trips to memory overlap: filters
    /// of all candidate files, then indexes, blocks, entries. `lookups` says where in `values` each
    /// answer belongs.
    fn find_together<'k>(
        &self,
        view: &View,
        lookups: impl ExactSizeIterator<Item = (usize, LookupKey<'k>)>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
        values: &mut [Option<Slice>],
    ) -> Result<()> {
        let mut probes = Vec::with_capacity(lookups.len());
        let mut open = Vec::with_capacity(lookups.len());
        for (to, key) in lookups {
            let found = find_in_memtables(view, &key, guard, tickers, |value| value.to_slice())?;
            if let Some(value) = found {
                values[to] = value;
                continue;
            }
            let (first, mut deleted_at) = (probes.len(), 0);
            for (level, file) in view.version.candidates(key.user_key) {
                probes.push((level, file, file.table.prepare_filter(&key, guard, tickers)));
                if view.version.has_range_deletions {
                    deleted_at = range_deletion(file, &key);
                    if deleted_at > 0 {
                        break;
                    }
                }
            }
            open.push(Open { to, key, next: first, end: probes.len(), deleted_at, place: None });
        }
        while !open.is_empty() {
            // Only as far as the first "maybe": a deeper file is not asked when that one answers.
            open.retain_mut(|lookup| {
                while lookup.next < lookup.end {
                    let (_, file, probe) = probes[lookup.next];
                    if file.table.filter_says_maybe(probe, guard, tickers) {
                        return true;
                    }
                    lookup.next += 1;
                }
                false
            });
            for lookup in &mut open {
                let (_, file, _) = probes[lookup.next];
                lookup.place = file.table.find_block(&lookup.key, guard, tickers);
            }
            for place in open.iter().flat_map(|lookup| lookup.place) {
                place.prefetch_block();
            }
            for lookup in &open {
                if let Some(place) = lookup.place {
                    place.prefetch_entry(&lookup.key, guard);
                }
            }
            let mut missed = Vec::new();
            for lookup in open {
                let (level, file, _) = probes[lookup.next];
                let visit = |found: Found<'_>| {
                    let is_shown = is_value(found.kind)? && found.sequence >= lookup.deleted_at;
                    Ok(is_shown.then(|| found.value_slice()))
                };
                let (table, key) = (&file.table, &lookup.key);
                let found = match lookup.place {
                    Some(place) => table.get_from_block(place, key, guard, tickers, visit)?,
                    None => table.get_after_filter(key, guard, tickers, visit)?,
                };
                match found {
                    Some(value) => {
                        tickers.add(hit_ticker(level), 1);
                        values[lookup.to] = value?;
                    }
                    None => missed.push(Open { next: lookup.next + 1, ..lookup }),
                }
            }
            open = missed;
        }
        Ok(())
    }

    #[inline]
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
        let tickers = self.counters.on_thread(&guard);
        let key = LookupKey::new(key, sequence);
        let mut visit = Some(visit);
        let mut visit = |value: ValueRef<'_>| visit.take().map(|visit| visit(value));
        match find_in_memtables(view, &key, &guard, tickers, &mut visit)? {
            Some(answer) => Ok(answer.flatten()),
            None => Ok(find_in_tables(&view.version, &key, &guard, tickers, visit)?.flatten()),
        }
    }
}

/// A lookup of several that are made together and that has no answer yet.
struct Open<'k, 'g> {
    /// Where its answer belongs.
    to: usize,
    key: LookupKey<'k>,
    /// Its candidate files that are left: `next .. end` of all.
    next: usize,
    end: usize,
    /// The range deletion in the last one of them that hides what is older; 0: none.
    deleted_at: SequenceNumber,
    /// In the next one of them, when that table's index is in memory.
    place: Option<BlockPlace<'g>>,
}

/// `None`: no memtable knows the key. `Some(None)`: it was deleted.
#[inline]
fn find_in_memtables<R>(
    view: &View,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    visit: impl FnOnce(ValueRef<'_>) -> R,
) -> Result<Option<Option<R>>> {
    tickers.add(Ticker::NumberKeysRead, 1);
    for memtable in std::iter::once(&view.memtable).chain(&view.frozen) {
        // An entry that the sequence number counts was counted before it.
        if memtable.is_empty() {
            continue;
        }
        let deleted_at = memtable.covering(key.user_key, key.sequence, guard);
        if let Some((sequence, kind, value)) = memtable.get(key.user_key, key.sequence) {
            tickers.add(Ticker::MemtableHit, 1);
            return Ok(Some(match is_value(kind)? && sequence >= deleted_at {
                true => Some(visit(ValueRef::Memtable(value))),
                false => None,
            }));
        }
        if deleted_at > 0 {
            tickers.add(Ticker::MemtableHit, 1);
            return Ok(Some(None));
        }
    }
    tickers.add(Ticker::MemtableMiss, 1);
    Ok(None)
}

#[inline]
fn find_in_tables<R>(
    version: &Version,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    mut visit: impl FnMut(ValueRef<'_>) -> R,
) -> Result<Option<R>> {
    let mut candidates = version.candidates(key.user_key);
    loop {
        let mut probes: [Option<(usize, &TableFile, FilterProbe<'_>)>; GATHERED] = [None; GATHERED];
        let (mut gathered, mut deleted_at) = (0, 0);
        while gathered < GATHERED && deleted_at == 0 {
            let Some((level, file)) = candidates.next() else { break };
            let probe = file.table.prepare_filter(key, guard, tickers);
            probes[gathered] = Some((level, file, probe));
            gathered += 1;
            if version.has_range_deletions {
                deleted_at = range_deletion(file, key);
            }
        }
        for &(level, file, probe) in probes[..gathered].iter().flatten() {
            if !file.table.filter_says_maybe(probe, guard, tickers) {
                continue;
            }
            let found = file.table.get_after_filter(key, guard, tickers, |found| {
                let is_shown = is_value(found.kind)? && found.sequence >= deleted_at;
                Ok(is_shown.then(|| visit(ValueRef::Block(found))))
            })?;
            if let Some(answer) = found {
                tickers.add(hit_ticker(level), 1);
                return answer;
            }
        }
        if gathered < GATHERED || deleted_at > 0 {
            return Ok(None);
        }
    }
}

/// The newest range deletion of a file that holds the key and that the lookup may see; 0: none.
/// Entries of shallower sources are newer, those of deeper ones older.
#[inline(never)]
fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
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
