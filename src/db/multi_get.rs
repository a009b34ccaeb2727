//! The way of a lookup of many keys: the steps of `get.rs`, each for all keys before the next step.
//!
//! ```text
//!   for up to 64 keys:
//!     memtables                                   keys found there are done
//!     for each run (a file of level 0, a deeper level), newest first:
//!       range deletions                           noted for each key
//!       filters                                   of one table, for all keys that fall into it
//!       index, then block, then entry             one step for all keys; trips to memory overlap
//!       keys found, or deleted by a range, are done
//! ```
//!
//! A trip to memory takes as long as hundreds of instructions. One key waits for each of its trips;
//! 64 keys wait for all of theirs at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Inner;
use super::explain::observer::TreeObserver;
use super::get::{hit_ticker, is_value, range_deletion};
use super::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, pin};
use crate::table::{BlockPosition, LookupKey, Table, TableObserver};
use crate::version::{Run, TableFile};

/// Keys that are looked up together: enough to hide every trip to memory, few enough that what they
/// fetch stays in the processor's second cache.
const TOGETHER: usize = 64;

/// Value of [`OpenLookup::to`] once answered.
const ANSWERED: usize = usize::MAX;

impl Inner {
    /// Looks the keys up [`TOGETHER`] at a time. More keys than that are sorted first, so that
    /// those of one block come while it is in memory. (Sorting costs as much as an absent key.)
    pub(super) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: Option<SequenceNumber>,
    ) -> Result<Vec<Option<Slice>>> {
        self.check_open()?;
        let guard = pin();
        let read_state = self.read_state.load(&guard);
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
                let head = read_state.version.head(key.user_key);
                open.push(OpenLookup { to, key, head, deleted_at: 0 });
            }
            find_together(read_state, &mut open, &guard, tickers, &mut values)?;
            open.clear();
        }
        Ok(values)
    }
}

/// A lookup that has no answer yet.
struct OpenLookup<'k> {
    /// Index of its answer; [`ANSWERED`] once it has one.
    to: usize,
    key: LookupKey<'k>,
    /// The key's [`Version::head`](crate::version::Version::head).
    head: Option<u64>,
    /// Sequence number of the range deletion that covers the key in the run being searched; 0:
    /// none.
    deleted_at: SequenceNumber,
}

impl OpenLookup<'_> {
    /// Which file of a run may hold the key.
    #[inline(always)]
    fn file_in(&self, run: &Run<Arc<TableFile>>) -> Option<usize> {
        run.position_of(self.head?, self.key.user_key)
    }
}

/// Which file of a run an open lookup asks.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    file: u32,
    lookup: u32,
}

/// One key to search in one table, whose filter said maybe.
struct TableSearch<'g> {
    /// Index of the open lookup.
    lookup: usize,
    table: &'g Table,
    /// Where the key can be, when the table's index is in memory.
    position: Option<BlockPosition<'g>>,
}

/// Looks up to [`TOGETHER`] keys up. Those that nobody knows stay in `open`.
fn find_together(
    read_state: &ReadState,
    open: &mut Vec<OpenLookup<'_>>,
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    values: &mut [Option<Slice>],
) -> Result<()> {
    if read_state.has_entries_in_memory() {
        let mut failed = Ok(());
        open.retain(|lookup| {
            match ().call_find_in_memtables(read_state, &lookup.key, guard, tickers) {
                Ok(Some(entry)) => {
                    values[lookup.to] = entry.map(Slice::copy_from);
                    false
                }
                Ok(None) => true,
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed?;
    }
    tickers.add(Ticker::MemtableMiss, open.len() as u64);
    let mut searches: Vec<TableSearch<'_>> = Vec::new();
    for run in read_state.version.runs() {
        if read_state.version.has_range_deletions {
            for lookup in &mut *open {
                lookup.deleted_at = lookup
                    .file_in(run)
                    .map_or(0, |file| range_deletion(run.file(file), &lookup.key));
            }
        }
        ask_filters(run, open, guard, tickers, &mut searches);
        for TableSearch { lookup, table, position } in &mut searches {
            *position = table.find_block(&open[*lookup].key, guard, tickers);
            position.iter().for_each(BlockPosition::prefetch_slot);
        }
        for position in searches.iter().flat_map(|search| &search.position) {
            position.prefetch_block();
        }
        for TableSearch { lookup, position, .. } in &mut searches {
            if let Some(position) = position {
                position.find_entry(&open[*lookup].key, guard);
            }
        }
        let mut found_any = false;
        for TableSearch { lookup, table, position } in searches.drain(..) {
            let OpenLookup { to, key, deleted_at, .. } = &mut open[lookup];
            let found = match position {
                Some(position) => table.get_from_block(position, key, guard, tickers, ())?,
                None => ().call_get_after_filter(table, key, guard, tickers)?,
            };
            if let Some(found) = found {
                tickers.add(hit_ticker(run.level), 1);
                if is_value(found.kind)? && found.sequence >= *deleted_at {
                    values[*to] = Some(found.value_slice());
                }
                *to = ANSWERED;
                found_any = true;
            }
        }
        if found_any || read_state.version.has_range_deletions {
            open.retain(|lookup| lookup.to != ANSWERED && lookup.deleted_at == 0);
        }
    }
    Ok(())
}

/// Asks the filters of a run, each for all its keys together. Adds the tables to search to
/// `searches`.
fn ask_filters<'g>(
    run: &'g Run<Arc<TableFile>>,
    open: &[OpenLookup<'_>],
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    searches: &mut Vec<TableSearch<'g>>,
) {
    let Some(OpenLookup { key: any, .. }) = open.first() else { return };
    let (mut lookups, mut keys, mut count) = ([0; TOGETHER], [any; TOGETHER], 0);
    let mut ask = |file: usize, lookups: &[usize], keys: &[&LookupKey<'_>]| {
        let table = &*run.file(file).table;
        let mut answers = [false; TOGETHER];
        let answers = &mut answers[..keys.len()];
        table.filter_says_maybe_together(keys, answers, guard, tickers);
        for (&lookup, _) in lookups.iter().zip(answers).filter(|(_, maybe)| **maybe) {
            searches.push(TableSearch { lookup, table, position: None });
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
    // Several files: the keys of one file are asked together.
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
    // Each file has few of the keys: their trips to memory overlap with those of the other files.
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

/// A counting sort where there are few files: comparing keys in no order mispredicts half of the
/// branches.
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
        let position = &mut next[question.file as usize];
        sorted[*position] = *question;
        *position += 1;
    }
    questions.copy_from_slice(&sorted[..questions.len()]);
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn questions_are_sorted_by_file_however_many_files_and_questions_there_are() {
        let mut rng = StdRng::seed_from_u64(1);
        for files in [2, 3, 7, TOGETHER - 1, TOGETHER, TOGETHER + 1, 1000] {
            for count in [0, 1, 2, 33, TOGETHER] {
                let mut questions: Vec<Question> = (0..count as u32)
                    .map(|lookup| {
                        let file = rng.random_range(0..files as u32);
                        // The last file is asked too.
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
