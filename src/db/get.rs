//! The way of a point lookup.
//!
//! ```text
//!   view ─► memtable, frozen memtables, newest first ─► found (value or tombstone): done
//!        ─► candidates: files of level 0 newest first, then at most one file a level
//!             for each: prefetch the filter              all lines travel from memory together
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

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::cursor::unsupported_kind;
use super::{Inner, View};
use crate::error::Result;
use crate::key::{EntryKind, SequenceNumber};
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::{BlockPlace, Found, LookupKey, Table};
use crate::version::{TableFile, Version};

/// Keys of a `multi_get` that are looked up together: enough to hide every trip to memory, few
/// enough that what they fetch stays in the processor's second cache.
const TOGETHER: usize = 64;

/// In the place of [`Open::to`], of a lookup that has its answer.
const FOUND: usize = usize::MAX;

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
        tickers.add(Ticker::NumberKeysRead, keys.len() as u64);
        let mut order = Vec::new();
        if keys.len() > TOGETHER {
            order.extend(0..keys.len());
            order.sort_unstable_by(|&a: &usize, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        }
        let mut values = vec![None; keys.len()];
        let mut open = Vec::with_capacity(keys.len().min(TOGETHER));
        for first in (0..keys.len()).step_by(TOGETHER) {
            for i in first..keys.len().min(first + TOGETHER) {
                let to = order.get(i).copied().unwrap_or(i);
                let key = LookupKey::new(keys[to].as_ref(), sequence);
                open.push(Open { to, key, deleted_at: 0 });
            }
            find_together(view, &mut open, &guard, tickers, &mut values)?;
            open.clear();
        }
        Ok(values)
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
        tickers.add(Ticker::NumberKeysRead, 1);
        // An entry that the sequence number counts was counted by its memtable before.
        if view.memtables().any(|memtable| !memtable.is_empty())
            && let Some(answer) = find_in_memtables(view, &key, &guard, tickers, &mut visit)?
        {
            return Ok(answer.flatten());
        }
        tickers.add(Ticker::MemtableMiss, 1);
        Ok(find_in_tables(&view.version, &key, &guard, tickers, visit)?.flatten())
    }
}

/// One lookup of several that are made together, while it has no answer.
struct Open<'k> {
    /// Where its answer belongs.
    to: usize,
    key: LookupKey<'k>,
    /// The range deletion, in the run it has come to, that hides what is older; 0: none.
    deleted_at: SequenceNumber,
}

/// What one of them asks of the one file of a run that may hold its key.
struct Question<'g> {
    /// Which of the open lookups asks.
    lookup: usize,
    table: &'g Table,
    /// Where the key can be, when the filter says maybe and the table's index is in memory.
    place: Option<BlockPlace<'g>>,
}

/// Looks up to [`TOGETHER`] keys up, and leaves those in `open` that nobody knows. Of each run of
/// files: each step for all keys before the next one, so that their trips to memory overlap.
fn find_together(
    view: &View,
    open: &mut Vec<Open<'_>>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    values: &mut [Option<Slice>],
) -> Result<()> {
    if view.memtables().any(|memtable| !memtable.is_empty()) {
        let mut failed = Ok(());
        open.retain(|lookup| {
            match find_in_memtables(view, &lookup.key, guard, tickers, |value| value.to_slice()) {
                Ok(Some(value)) => values[lookup.to] = value,
                Ok(None) => return true,
                Err(error) => failed = Err(error),
            }
            false
        });
        failed?;
    }
    tickers.add(Ticker::MemtableMiss, open.len() as u64);
    let mut questions: Vec<Question<'_>> = Vec::with_capacity(open.len());
    for run in view.version.runs() {
        for (lookup, Open { key, deleted_at, .. }) in open.iter_mut().enumerate() {
            if let Some(file) = run.file_of(key.user_key) {
                let table = &*file.table;
                table.prefetch_filter(key, guard);
                if view.version.has_range_deletions {
                    *deleted_at = range_deletion(file, key);
                }
                questions.push(Question { lookup, table, place: None });
            }
        }
        keep_maybes(&mut questions, open, guard, tickers);
        for Question { lookup, table, place, .. } in &mut questions {
            *place = table.find_block(&open[*lookup].key, guard, tickers);
        }
        for place in questions.iter().flat_map(|question| question.place) {
            place.prefetch_block();
        }
        for Question { lookup, place, .. } in &questions {
            if let Some(place) = place {
                place.prefetch_entry(&open[*lookup].key, guard);
            }
        }
        let mut found_any = false;
        for Question { lookup, table, place, .. } in questions.drain(..) {
            let Open { to, key, deleted_at } = &mut open[lookup];
            let visit = |found: Found<'_>| {
                let is_shown = is_value(found.kind)? && found.sequence >= *deleted_at;
                Ok(is_shown.then(|| found.value_slice()))
            };
            let found = match place {
                Some(place) => table.get_from_block(place, key, guard, tickers, visit)?,
                None => table.get_after_filter(key, guard, tickers, visit)?,
            };
            if let Some(value) = found {
                tickers.add(hit_ticker(run.level), 1);
                values[*to] = value?;
                *to = FOUND;
                found_any = true;
            }
        }
        if found_any || view.version.has_range_deletions {
            open.retain(|lookup| lookup.to != FOUND && lookup.deleted_at == 0);
        }
    }
    Ok(())
}

/// Takes the filters' answers, those of one table together, and drops the questions that get a no.
fn keep_maybes<'g>(
    questions: &mut Vec<Question<'g>>,
    open: &[Open<'_>],
    guard: &'g Guard,
    tickers: ThreadTickers<'_>,
) {
    let (mut start, mut kept) = (0, 0);
    while start < questions.len() {
        let table = questions[start].table;
        let mut keys = [&open[questions[start].lookup].key; TOGETHER];
        let mut end = start + 1;
        for i in start + 1..questions.len() {
            if std::ptr::eq(questions[i].table, table) {
                keys[end - start] = &open[questions[i].lookup].key;
                questions.swap(i, end);
                end += 1;
            }
        }
        let mut answers = [false; TOGETHER];
        let (keys, answers) = (&keys[..end - start], &mut answers[..end - start]);
        table.filter_says_maybe_together(keys, answers, guard, tickers);
        for (i, maybe) in (start..end).zip(answers) {
            if *maybe {
                questions.swap(kept, i);
                kept += 1;
            }
        }
        start = end;
    }
    questions.truncate(kept);
}

/// `None`: no memtable knows the key. `Some(None)`: it was deleted.
#[inline(never)]
fn find_in_memtables<R>(
    view: &View,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    visit: impl FnOnce(ValueRef<'_>) -> R,
) -> Result<Option<Option<R>>> {
    for memtable in view.memtables() {
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
    // With one run the answer of its one filter is waited for anyway.
    if version.has_many_runs() {
        prefetch_filters(version, key, guard);
    }
    let flow = version.visit_candidates(key.user_key, |level, file| {
        let table = &*file.table;
        let deleted_at = match version.has_range_deletions {
            true => range_deletion(file, key),
            false => 0,
        };
        let absent = match deleted_at {
            0 => ControlFlow::Continue(()),
            // What deeper files hold of the key is older.
            _ => ControlFlow::Break(Ok(None)),
        };
        if !table.filter_says_maybe(key, guard, tickers) {
            return absent;
        }
        let found = table.get_after_filter(key, guard, tickers, |found| {
            let is_shown = is_value(found.kind)? && found.sequence >= deleted_at;
            Ok(is_shown.then(|| visit(ValueRef::Block(found))))
        });
        match found {
            Ok(None) => absent,
            Ok(Some(answer)) => {
                tickers.add(hit_ticker(level), 1);
                ControlFlow::Break(answer)
            }
            Err(error) => ControlFlow::Break(Err(error)),
        }
    });
    match flow {
        ControlFlow::Break(answer) => answer,
        ControlFlow::Continue(()) => Ok(None),
    }
}

/// The newest range deletion of a file that holds the key and that the lookup may see; 0: none.
/// Entries of shallower sources are newer, those of deeper ones older.
#[inline(never)]
fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
}

/// Starts to fetch what all filters that will be asked need.
#[inline(never)]
fn prefetch_filters(version: &Version, key: &LookupKey<'_>, guard: &Guard) {
    let _ = version.visit_candidates(key.user_key, |_, file| {
        file.table.prefetch_filter(key, guard);
        ControlFlow::<()>::Continue(())
    });
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
