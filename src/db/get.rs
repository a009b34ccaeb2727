//! The way of a point lookup.
//!
//! ```text
//!   view ─► memtable, frozen memtables, newest first ─► found (value or tombstone): done
//!        ─► candidates: files of level 0 newest first, then at most one file a level
//!             deepest: prefetch its filter               the largest: from far away
//!             for each: filter says no ─► next           counted: useful; the processor runs ahead
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

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::iter::cursor::unsupported_kind;
use super::{Inner, View};
use crate::encoding::key::{EntryKind, SequenceNumber};
use crate::error::Result;
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::{BlockPosition, Found, LookupKey, Table};
use crate::version::{Run, TableFile, Version};

/// Keys of a `multi_get` that are looked up together: enough to hide every trip to memory, few
/// enough that what they fetch stays in the processor's second cache.
const TOGETHER: usize = 64;

/// In the place of [`Open::to`], of a lookup that has its answer.
const FOUND: usize = usize::MAX;

/// A value where it was found.
enum ValueRef<'a> {
    Memtable(&'a [u8]),
    Block(&'a Found<'a>),
}

impl ValueRef<'_> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match self {
            ValueRef::Memtable(value) => value,
            ValueRef::Block(found) => found.value(),
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
                let head = view.version.head(key.user_key);
                open.push(Open { to, key, head, deleted_at: 0 });
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
        // An entry that the sequence number counts was counted by its memtable before.
        if view.has_entries_in_memory()
            && let Some(entry) = find_in_memtables(view, &key, &guard, tickers)?
        {
            tickers.add(Ticker::NumberKeysRead, 1);
            return Ok(entry.map(|value| visit(ValueRef::Memtable(value))));
        }
        tickers.count([Ticker::NumberKeysRead, Ticker::MemtableMiss]);
        find_in_tables(&view.version, &key, &guard, tickers, |found| visit(ValueRef::Block(found)))
    }
}

/// One lookup of several that are made together, while it has no answer.
struct Open<'k> {
    /// Where its answer belongs.
    to: usize,
    key: LookupKey<'k>,
    /// The key's [`Version::head`].
    head: Option<u64>,
    /// The range deletion, in the run it has come to, that hides what is older; 0: none.
    deleted_at: SequenceNumber,
}

impl Open<'_> {
    /// Which file of a run may hold the key.
    #[inline(always)]
    fn file_in(&self, run: &Run<Arc<TableFile>>) -> Option<usize> {
        run.position_of(self.head?, self.key.user_key)
    }
}

/// Which file of a run one of them asks.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    file: u32,
    lookup: u32,
}

/// A search of a table whose filter has said maybe.
struct Search<'g> {
    /// Which of the open lookups makes it.
    lookup: usize,
    table: &'g Table,
    /// Where the key can be, when the table's index is in memory.
    place: Option<BlockPosition<'g>>,
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
    if view.has_entries_in_memory() {
        let mut failed = Ok(());
        open.retain(|lookup| match find_in_memtables(view, &lookup.key, guard, tickers) {
            Ok(Some(entry)) => {
                values[lookup.to] = entry.map(Slice::copy_from);
                false
            }
            Ok(None) => true,
            Err(error) => {
                failed = Err(error);
                false
            }
        });
        failed?;
    }
    tickers.add(Ticker::MemtableMiss, open.len() as u64);
    let mut searches: Vec<Search<'_>> = Vec::new();
    for run in view.version.runs() {
        if view.version.has_range_deletions {
            for lookup in &mut *open {
                lookup.deleted_at = lookup
                    .file_in(run)
                    .map_or(0, |file| range_deletion(run.file(file), &lookup.key));
            }
        }
        ask_filters(run, open, guard, tickers, &mut searches);
        for Search { lookup, table, place } in &mut searches {
            *place = table.find_block(&open[*lookup].key, guard, tickers);
            place.iter().for_each(BlockPosition::prefetch_slot);
        }
        for place in searches.iter().flat_map(|search| &search.place) {
            place.prefetch_block();
        }
        for Search { lookup, place, .. } in &mut searches {
            if let Some(place) = place {
                place.find_entry(&open[*lookup].key, guard);
            }
        }
        let mut found_any = false;
        for Search { lookup, table, place } in searches.drain(..) {
            let Open { to, key, deleted_at, .. } = &mut open[lookup];
            let found = match place {
                Some(place) => table.get_from_block(place, key, guard, tickers)?,
                None => table.get_after_filter(key, guard, tickers)?,
            };
            if let Some(found) = found {
                tickers.add(hit_ticker(run.level), 1);
                if is_value(found.kind)? && found.sequence >= *deleted_at {
                    values[*to] = Some(found.value_slice());
                }
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

/// Asks the filters of a run, those of one table together, and notes which tables are to be searched.
fn ask_filters<'g>(
    run: &'g Run<Arc<TableFile>>,
    open: &[Open<'_>],
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    searches: &mut Vec<Search<'g>>,
) {
    let Some(Open { key: any, .. }) = open.first() else { return };
    let (mut lookups, mut keys, mut count) = ([0; TOGETHER], [any; TOGETHER], 0);
    let mut ask = |file: usize, lookups: &[usize], keys: &[&LookupKey<'_>]| {
        let table = &*run.file(file).table;
        let mut answers = [false; TOGETHER];
        let answers = &mut answers[..keys.len()];
        table.filter_says_maybe_together(keys, answers, guard, tickers);
        for (&lookup, _) in lookups.iter().zip(answers).filter(|(_, maybe)| **maybe) {
            searches.push(Search { lookup, table, place: None });
        }
    };
    if run.len() == 1 {
        for (i, lookup) in open.iter().enumerate() {
            if lookup.file_in(run).is_some() {
                (lookups[count], keys[count]) = (i, &lookup.key);
                count += 1;
            }
        }
        return ask(0, &lookups[..count], &keys[..count]);
    }
    // Those of one file beside each other.
    let mut questions = [Question::default(); TOGETHER];
    for (lookup, open) in (0..).zip(open) {
        if let Some(file) = open.file_in(run) {
            questions[count] = Question { file: file as u32, lookup };
            count += 1;
        }
    }
    let questions = &mut questions[..count];
    sort_by_file(questions, run.len());
    let groups = || questions.chunk_by(|a, b| a.file == b.file);
    // A file has few of the keys: their lines are to travel with those of the other files.
    for group in groups() {
        let keys = group.iter().map(|question| &open[question.lookup as usize].key);
        run.file(group[0].file as usize).table.prefetch_filter(keys, guard);
    }
    for group in groups() {
        for (i, question) in group.iter().enumerate() {
            let lookup = question.lookup as usize;
            (lookups[i], keys[i]) = (lookup, &open[lookup].key);
        }
        ask(group[0].file as usize, &lookups[..group.len()], &keys[..group.len()]);
    }
}

/// Counts instead of comparing where there are few files: a comparison of keys in no order is mispredicted
/// as often as not.
fn sort_by_file(questions: &mut [Question], files: usize) {
    if files > TOGETHER {
        return questions.sort_unstable();
    }
    let mut next = [0; TOGETHER + 1];
    questions.iter().for_each(|question| next[question.file as usize + 1] += 1);
    for file in 1..files {
        next[file] += next[file - 1];
    }
    let mut sorted = [Question::default(); TOGETHER];
    for question in &*questions {
        let place = &mut next[question.file as usize];
        sorted[*place] = *question;
        *place += 1;
    }
    questions.copy_from_slice(&sorted[..questions.len()]);
}

/// `None`: no memtable knows the key. `Some(None)`: it was deleted.
#[inline(never)]
fn find_in_memtables<'g>(
    view: &'g View,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
) -> Result<Option<Option<&'g [u8]>>> {
    for memtable in view.memtables() {
        let deleted_at = memtable.covering(key.user_key, key.sequence, guard);
        if let Some((sequence, kind, value)) = memtable.get(key.user_key, key.sequence) {
            tickers.add(Ticker::MemtableHit, 1);
            return Ok(Some((is_value(kind)? && sequence >= deleted_at).then_some(value)));
        }
        if deleted_at > 0 {
            tickers.add(Ticker::MemtableHit, 1);
            return Ok(Some(None));
        }
    }
    Ok(None)
}

/// Visits the value that the newest table with an entry of the key holds, if that is what it holds.
#[inline(always)]
fn find_in_tables<R>(
    version: &Version,
    key: &LookupKey<'_>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    visit: impl FnOnce(&Found<'_>) -> R,
) -> Result<Option<R>> {
    let Some(head) = version.head(key.user_key) else { return Ok(None) };
    if let [_, .., deepest] = version.runs()
        && let Some(file) = deepest.file_of(head, key.user_key)
    {
        // Its filter is the largest: its line is the one that comes from far away.
        file.table.prefetch_filter([key], guard);
    }
    for run in version.runs() {
        let Some(file) = run.file_of(head, key.user_key) else { continue };
        let deleted_at = match version.has_range_deletions {
            true => range_deletion(file, key),
            false => 0,
        };
        if file.table.filter_says_maybe(key, guard, tickers)
            && let Some(found) = file.table.get_after_filter(key, guard, tickers)?
        {
            tickers.add(hit_ticker(run.level), 1);
            return Ok(match is_value(found.kind)? && found.sequence >= deleted_at {
                true => Some(visit(&found)),
                false => None,
            });
        }
        if deleted_at > 0 {
            // What deeper files hold of the key is older.
            return Ok(None);
        }
    }
    Ok(None)
}

/// The newest range deletion of a file that holds the key and that the lookup may see; 0: none.
/// Entries of shallower sources are newer, those of deeper ones older.
#[inline(never)]
fn range_deletion(file: &TableFile, key: &LookupKey<'_>) -> SequenceNumber {
    file.table.ranges().map_or(0, |ranges| ranges.covering(key.user_key, key.sequence))
}

/// Whether an entry holds a value (`true`) or is a tombstone.
#[inline(always)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_sorted_by_file_however_many_files_and_questions_there_are() {
        let mut state = 1u32;
        for files in [2, 3, 7, TOGETHER - 1, TOGETHER, TOGETHER + 1, 1000] {
            for count in [0, 1, 2, 33, TOGETHER] {
                let mut questions: Vec<Question> = (0..count as u32)
                    .map(|lookup| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        // The last file is asked too.
                        let file = (state >> 8) % files as u32;
                        Question { file: if lookup == 1 { files as u32 - 1 } else { file }, lookup }
                    })
                    .collect();
                let mut expected = questions.clone();
                expected.sort();
                sort_by_file(&mut questions, files);
                assert!(questions == expected, "{files} files, {count} questions");
            }
        }
    }
}
