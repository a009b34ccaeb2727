//! A lookup of many keys. Each of the steps of `get/` is done for all keys before the next step.
//!
//! ```text
//!   for up to 64 keys:
//!     memtables                                   keys found there are done
//!     for each run (a file of level 0, a deeper level), newest first:
//!       range deletions                           noted for each key
//!       filters                                   of one table, for all keys that fall into it
//!       for 16 of the keys that may be there:
//!         index, then block, then entry           one step for all keys; cache misses overlap
//!         keys found are done
//!         keys whose block is not in memory       are parked: they query no other filter yet.
//!                                                 Their blocks' reads begin
//!       keys deleted by a range are done
//!     wait until the blocks of all parked keys are read
//!     entry; not found: a false positive          the key continues with the next run, and so on
//! ```
//!
//! A CPU cache miss takes as long as hundreds of instructions. The misses of one key come one after
//! the other, but those of several keys overlap. A read of the device takes as long as hundreds of
//! cache misses, and a device serves many reads at a time. So the search continues while the first
//! reads are in progress, rather than let the device wait until all keys are searched.
//!
//! For each key the call reads what a single `get` would read, in the same order. A block that
//! several keys need is read once. Parts of filters and indexes that are not in memory are read
//! together for all keys. Whole filters and indexes are read one after the other. A guard
//! ([`crate::sync`]) is held while keys are searched, but not during a read of the device, because
//! while it is held, the process frees no retired memory.
//!
//! The file is long because the steps share one state, which each of them passes to the next. The
//! state records how far the search has come, because the search pauses whenever there is something
//! to read.

use std::sync::Arc;

use super::get::get;
use super::get::steps::{TreeObserver, hit_ticker, range_deletion, shows_value};
use super::inner::reading::Reading;
use super::read_state::ReadState;
use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::fs::OverlappedReader;
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{Guard, assert_no_guard, pin};
use crate::table::{
    AbsentBlock, BlockBatch, BlockPosition, Found, GroupPosition, LookupKey, Stop, Table,
    batch_read, batch_read_parts,
};
use crate::version::{Run, TableFile};

/// Keys that are looked up together: enough to hide every cache miss and to keep a device busy, but
/// few enough that the memory they fetch stays in the processor's second-level cache.
const TOGETHER: usize = 64;

/// Keys that are searched together in a run, after its filters were queried. They are enough to
/// hide their cache misses, but few enough that the memory they fetch stays in the processor's
/// first-level cache, and that the device soon gets the first reads.
const SEARCHED_TOGETHER: usize = 16;

/// The value of [`OpenLookup::to`] once the lookup is not open any more.
const GONE: usize = usize::MAX;

/// Looks up the keys, [`TOGETHER`] at a time. More keys than that are sorted first, so that keys of
/// the same block are looked up while the block is in memory. Fewer keys are not sorted, because
/// sorting takes time too.
pub(super) fn multi_get<K: AsRef<[u8]>>(
    reading: &Reading,
    keys: &[K],
    snapshot: Option<SequenceNumber>,
) -> Result<Vec<Option<Slice>>> {
    let mut lookups = Lookups::new(keys);
    lookups.take_keys();
    let guard = pin();
    let (read_state, sequence) = reading.load_read_point(snapshot, &guard);
    let tickers = reading.counters().on_thread(&guard);
    tickers.add(Ticker::NumberMultigetCalls, 1);
    tickers.add(Ticker::NumberMultigetKeysRead, keys.len() as u64);
    // A mixed version, in which several tables of a level may hold the same key, has no runs to
    // search.
    if read_state.get().version.is_mixed() {
        drop(guard);
        return keys.iter().map(|key| get(reading, key.as_ref(), Some(sequence))).collect();
    }
    tickers.add(Ticker::NumberKeysRead, keys.len() as u64);
    lookups.sequence = sequence;
    lookups.search(read_state.get(), &guard, tickers)?;
    if lookups.wants_a_read() || lookups.begun < keys.len() {
        let kept = read_state.to_arc();
        drop(guard);
        go_on_with_reads(reading, &kept, &mut lookups)?;
    }
    Ok(lookups.values)
}

/// Continues where the search stopped: at something that is not in memory, or after the first
/// [`TOGETHER`] keys. Guards are taken and released meanwhile, so the caller holds the read state
/// by a reference count.
fn go_on_with_reads<K: AsRef<[u8]>>(
    reading: &Reading,
    read_state: &ReadState,
    lookups: &mut Lookups<'_, K>,
) -> Result<()> {
    let (tickers, reader) = (reading.counters().on_thread(&pin()), reading.overlapped());
    loop {
        if lookups.wants_a_read() {
            lookups.search_and_read_filters(read_state, reader, tickers)?;
        }
        while !lookups.parked.is_empty() {
            let mut waiting = Vec::with_capacity(TOGETHER);
            let blocks = batch_read(reader, |blocks| {
                lookups.search_and_read_filters(read_state, reader, tickers)?;
                let any_parked = !lookups.parked.is_empty();
                lookups.wait_for_blocks(read_state, reader, blocks, &mut waiting)?;
                Ok(any_parked)
            })?;
            lookups.search_blocks(read_state, waiting, &blocks, &pin(), tickers)?;
            lookups.search_and_read_filters(read_state, reader, tickers)?;
        }
        if !lookups.take_keys() {
            return Ok(());
        }
        lookups.search(read_state, &pin(), tickers)?;
    }
}

/// The lookups of one call.
struct Lookups<'k, K> {
    keys: &'k [K],
    sequence: SequenceNumber,
    /// The order in which the keys are looked up. Empty if that is the order of `keys`.
    order: Vec<usize>,
    /// How many of `keys` were taken so far.
    begun: usize,
    values: Vec<Option<Slice>>,
    /// The lookups that take part in the search of the current run. Together with those in `parked`
    /// and `later`, and with those whose blocks are being read, they are at most [`TOGETHER`].
    open: Vec<OpenLookup<'k>>,
    /// The number of runs whose filters were queried. The last of these runs is being searched.
    runs_begun: usize,
    /// The files of the run being searched whose filters returned "maybe" or were skipped, each
    /// with its lookup.
    maybes: Vec<Question>,
    /// The files of the run being searched whose filters are not in memory, and must still be read
    /// and queried. Each file is listed with its lookup.
    unasked: Vec<Question>,
    /// How many of `maybes` were searched.
    searched: usize,
    /// Whether any lookup has skipped a filter, in this run or an earlier one, because the filter
    /// was not worth its read ([`LookupKey::passed_filter_by`]).
    passed_by: bool,
    /// Lookups that need a block that is not in memory.
    parked: Vec<Parked<'k>>,
    /// Lookups whose block did not hold the key. Each is listed with the run from which it
    /// continues.
    later: Vec<(usize, OpenLookup<'k>)>,
}

/// A lookup that has no result yet.
#[derive(Clone)]
struct OpenLookup<'k> {
    /// Index of the key and of its value in the call's lists, or [`GONE`].
    to: usize,
    key: LookupKey<'k>,
    /// The first 8 bytes of the key after the prefix that the bounds of all files share, as a
    /// number ([`Version::head`](crate::version::Version::head)). `None`: no file can hold the key.
    head: Option<u64>,
    /// Sequence number of the range deletion that covers the key in the run being searched; 0 if
    /// there is none.
    deleted_at: SequenceNumber,
}

impl OpenLookup<'_> {
    /// Which file of a run may hold the key.
    #[inline(always)]
    fn file_in(&self, run: &Run<Arc<TableFile>>) -> Option<usize> {
        run.position_of(self.head?, self.key.user_key)
    }

    /// The value of the key, given its newest entry; `None` if the key is deleted.
    #[inline(always)]
    fn value_of(&self, table: &Table, found: &Found<'_>) -> Result<Option<Slice>> {
        let shows_value = shows_value(table, &self.key, found, self.deleted_at)?;
        Ok(shows_value.then(|| found.value_slice()))
    }
}

/// A lookup whose block is not in memory, and whose read has not begun.
struct Parked<'k> {
    lookup: OpenLookup<'k>,
    run: usize,
    /// Index of the file in its run.
    file: usize,
    /// What to read next: `Ok` is the data block, whose part of the index is in memory; `Err` is no
    /// error, but the number of the part of the index that must be read first.
    block: Result<AbsentBlock, usize>,
}

/// A lookup whose block is being read.
struct Waiting<'k> {
    lookup: OpenLookup<'k>,
    run: usize,
    file: usize,
    /// Index among the blocks that are read.
    block: usize,
}

/// An open lookup, and the file of the current run that it is to search.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    file: u32,
    lookup: u32,
}

/// One key to search in one table, whose filter returned "maybe" or was skipped.
struct TableSearch<'g> {
    /// Index of the open lookup.
    lookup: usize,
    /// Index of the file in its run.
    file: usize,
    table: &'g Table,
    /// What the table's index tells, if it is in memory: first the group of blocks that may hold
    /// the key, then the block.
    group: Option<GroupPosition<'g>>,
    position: Option<BlockPosition<'g>>,
}

impl<'k, K: AsRef<[u8]>> Lookups<'k, K> {
    fn new(keys: &'k [K]) -> Self {
        let mut order = Vec::new();
        if keys.len() > TOGETHER {
            order.extend(0..keys.len());
            order.sort_unstable_by(|&a: &usize, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        }
        let at_once = keys.len().min(TOGETHER);
        Lookups {
            keys,
            sequence: 0,
            order,
            begun: 0,
            values: vec![None; keys.len()],
            open: Vec::with_capacity(at_once),
            runs_begun: 0,
            maybes: Vec::with_capacity(at_once),
            unasked: Vec::new(),
            searched: 0,
            passed_by: false,
            parked: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Opens the lookups of the next keys. Returns false if no keys are left. Calls the user's
    /// [`AsRef`], which may block, so the caller must hold no guard.
    fn take_keys(&mut self) -> bool {
        assert_no_guard();
        self.open.clear();
        self.runs_begun = 0;
        let end = self.keys.len().min(self.begun + TOGETHER);
        self.open.extend((self.begun..end).map(|i| {
            let to = self.order.get(i).copied().unwrap_or(i);
            let key = LookupKey::new(self.keys[to].as_ref(), 0);
            OpenLookup { to, key, head: None, deleted_at: 0 }
        }));
        self.begun = end;
        !self.open.is_empty()
    }

    /// Begins the lookups that [`Self::take_keys`] has opened: searches the memtables, then the
    /// tables by [`Self::search_runs`], which stops where a read is needed.
    fn search(
        &mut self,
        read_state: &ReadState,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<()> {
        for lookup in &mut self.open {
            lookup.key.sequence = self.sequence;
            lookup.head = read_state.version.head(lookup.key.user_key);
        }
        if read_state.has_entries_in_memory() {
            let mut failed = Ok(());
            self.open.retain(|lookup| {
                match ().call_find_in_memtables(read_state, &lookup.key, guard, tickers) {
                    Ok(Some(entry)) => {
                        self.values[lookup.to] = entry.map(Slice::copy_from);
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
        tickers.add(Ticker::MemtableMiss, self.open.len() as u64);
        self.search_runs(read_state, guard, tickers)
    }

    /// Whether the search has stopped at something that is not in memory.
    fn wants_a_read(&self) -> bool {
        !self.parked.is_empty() || !self.unasked.is_empty()
    }

    /// Continues [`Self::search_runs`] and reads the filters that it needs, until lookups are
    /// parked or all tables are searched. The caller must hold no guard.
    fn search_and_read_filters(
        &mut self,
        read_state: &ReadState,
        reader: &OverlappedReader,
        tickers: ThreadTickers<'_>,
    ) -> Result<()> {
        while self.parked.is_empty() {
            if !self.unasked.is_empty() {
                self.read_filters(read_state, reader, tickers);
            }
            self.search_runs(read_state, &pin(), tickers)?;
            if self.unasked.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads and queries those filters of the run that are not in memory. If a filter is not worth
    /// its read ([`LookupKey::passed_filter_by`]), the lookup skips it, as if it had returned "maybe".
    fn read_filters(
        &mut self,
        read_state: &ReadState,
        reader: &OverlappedReader,
        tickers: ThreadTickers<'_>,
    ) {
        let run = &read_state.version.runs()[self.runs_begun - 1];
        let (mut questions, mut parts) = (std::mem::take(&mut self.unasked), Vec::new());
        questions.retain(|question| {
            let table = &*run.file(question.file as usize).table;
            let key = &self.open[question.lookup as usize].key;
            let part = table.filter_part_to_ask(key, tickers);
            match part {
                Some(part) => parts.push((table, part)),
                None => {
                    self.open[question.lookup as usize].key.passed_filter_by = true;
                    self.passed_by = true;
                    self.maybes.push(*question);
                }
            }
            part.is_some()
        });
        let filters = batch_read_parts(reader, &parts);
        for ((question, (table, _)), filter) in questions.into_iter().zip(parts).zip(filters) {
            let key = &self.open[question.lookup as usize].key;
            if table.asked_filter_says_maybe(filter.ok().as_deref(), key, tickers) {
                self.maybes.push(question);
            }
        }
    }

    /// Continues the search of the tables, each lookup from its next run on. Stops where a read is
    /// needed. If [`Self::wants_a_read`] is false afterwards, all tables have been searched.
    fn search_runs(
        &mut self,
        read_state: &ReadState,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<()> {
        // Allocated at the first push, because lookups of absent keys seldom need this vector.
        let mut searches = Vec::new();
        loop {
            while self.searched < self.maybes.len() {
                self.search_tables(read_state, guard, tickers, &mut searches)?;
                if !self.parked.is_empty() {
                    return Ok(());
                }
            }
            if !self.begin_run(read_state, guard, tickers) || !self.unasked.is_empty() {
                return Ok(());
            }
        }
    }

    /// Queries the filters of the next run. Returns false if there is no other run.
    fn begin_run(
        &mut self,
        read_state: &ReadState,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> bool {
        let number = self.runs_begun;
        if number > 0 {
            self.open.retain(|lookup| lookup.to != GONE && lookup.deleted_at == 0);
        }
        self.maybes.clear();
        self.searched = 0;
        let Some(run) = read_state.version.runs().get(number) else { return false };
        self.runs_begun += 1;
        if !self.later.is_empty() {
            let now = self.later.extract_if(.., |(next_run, _)| *next_run == number);
            self.open.extend(now.map(|(_, lookup)| lookup));
        }
        if self.passed_by {
            // The flag is about one table, whose filter was skipped. In this run the lookup
            // searches another table.
            self.open.iter_mut().for_each(|lookup| lookup.key.passed_filter_by = false);
        }
        if read_state.version.has_range_deletions {
            for lookup in &mut self.open {
                lookup.deleted_at = lookup
                    .file_in(run)
                    .map_or(0, |file| range_deletion(run.file(file), &lookup.key));
            }
        }
        ask_filters(run, &self.open, guard, tickers, &mut self.maybes, &mut self.unasked);
        true
    }

    /// Searches the next [`SEARCHED_TOGETHER`] keys in the run. `searches` is scratch memory: it is
    /// empty before and afterwards.
    fn search_tables<'g>(
        &mut self,
        read_state: &'g ReadState,
        guard: &'g Guard,
        tickers: ThreadTickers<'_>,
        searches: &mut Vec<TableSearch<'g>>,
    ) -> Result<()> {
        let number = self.runs_begun - 1;
        let run = &read_state.version.runs()[number];
        let maybes = self.maybes[self.searched..].iter().take(SEARCHED_TOGETHER);
        searches.extend(maybes.map(|&Question { file, lookup }| {
            let (file, lookup) = (file as usize, lookup as usize);
            let table = &*run.file(file).table;
            let group = table.find_group(&self.open[lookup].key, guard, tickers);
            TableSearch { lookup, file, table, group, position: None }
        }));
        self.searched += searches.len();
        for TableSearch { lookup, group, position, .. } in &mut *searches {
            let key = &self.open[*lookup].key;
            *position = group.take().map(|group| group.find_block(key));
        }
        for position in searches.iter().flat_map(|search| &search.position) {
            position.prefetch_block();
        }
        for TableSearch { lookup, position, .. } in &mut *searches {
            if let Some(position) = position {
                position.find_entry(&self.open[*lookup].key, guard, tickers);
            }
        }
        for TableSearch { lookup, file, table, position, .. } in &mut *searches {
            let (lookup, file) = (&mut self.open[*lookup], *file);
            let found = match position.take() {
                Some(position) => table.get_from_block(position, &lookup.key, guard, tickers, ()),
                None => table.without_group(&lookup.key),
            };
            match found {
                Ok(Some(found)) => {
                    tickers.add(hit_ticker(run.level), 1);
                    self.values[lookup.to] = lookup.value_of(table, &found)?;
                    lookup.to = GONE;
                }
                Ok(None) => {}
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Absent(absent)) => {
                    let block = absent.keep_block(table, guard).ok_or(absent.part());
                    self.parked.push(Parked { lookup: lookup.clone(), run: number, file, block });
                    lookup.to = GONE;
                }
            }
        }
        searches.clear();
        Ok(())
    }

    /// Reads the parts of indexes that the parked lookups need and that are not in memory. Then
    /// requests the blocks of these lookups, and moves them to `waiting`. A lookup whose index has
    /// no block for the key continues with the next run, unless a range deletion covers the key.
    fn wait_for_blocks<'s>(
        &mut self,
        read_state: &'s ReadState,
        reader: &OverlappedReader,
        blocks: &mut BlockBatch<'s>,
        waiting: &mut Vec<Waiting<'k>>,
    ) -> Result<()> {
        let table_of = |run: usize, file| &*read_state.version.runs()[run].file(file).table;
        let part = |parked: &Parked<'_>| {
            parked.block.as_ref().err().map(|&part| (table_of(parked.run, parked.file), part))
        };
        let parts: Vec<_> = self.parked.iter().filter_map(part).collect();
        let mut indexes = batch_read_parts(reader, &parts).into_iter();
        let mut found = Vec::with_capacity(self.parked.len());
        for Parked { lookup, run, file, block } in self.parked.drain(..) {
            let block = match block {
                Ok(block) => Some(block),
                Err(_) => AbsentBlock::of(indexes.next().expect("one for each")?, &lookup.key),
            };
            match block {
                Some(block) => found.push((lookup, run, file, block)),
                None if lookup.deleted_at == 0 => self.later.push((run + 1, lookup)),
                None => {}
            }
        }
        // Sorted, so that neighbouring blocks can be read by one read.
        found.sort_unstable_by_key(|(_, _, file, block)| (*file, block.number()));
        waiting.extend(found.into_iter().map(|(lookup, run, file, block)| {
            let table = table_of(run, file);
            let block = blocks.want(table, block);
            Waiting { lookup, run, file, block }
        }));
        Ok(())
    }

    /// Searches the blocks that were read. A lookup whose block does not hold the key continues in
    /// the next run.
    fn search_blocks(
        &mut self,
        read_state: &ReadState,
        waiting: Vec<Waiting<'k>>,
        blocks: &BlockBatch<'_>,
        guard: &Guard,
        tickers: ThreadTickers<'_>,
    ) -> Result<()> {
        // The open lookups have searched all runs, and found no entry in any table. So they end
        // here, and their values stay `None`.
        self.open.clear();
        self.runs_begun = 0;
        // The first lookup of a block has missed the cache. The other lookups of the block count as
        // hits.
        tickers.add(Ticker::BlockCacheDataHit, (waiting.len() - blocks.len()) as u64);
        for Waiting { lookup, run, file, block: place } in waiting {
            let (table, position) = blocks.position(place, &lookup.key);
            match table.get_from_block(position, &lookup.key, guard, tickers, ()) {
                Ok(Some(found)) => {
                    tickers.add(hit_ticker(read_state.version.runs()[run].level), 1);
                    self.values[lookup.to] = lookup.value_of(table, &found)?;
                }
                Ok(None) => {
                    table.searched_in_vain(table.filter_part_of(&lookup.key));
                    if lookup.deleted_at == 0 {
                        self.later.push((run + 1, lookup));
                    }
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Absent(absent)) => {
                    let block = blocks.absent_after(place, absent, guard);
                    let block = block.ok_or(absent.part());
                    self.parked.push(Parked { lookup, run, file, block });
                }
            }
        }
        Ok(())
    }
}

/// Queries the filters of a run, each filter for all its keys at once. A [`Question`] is one lookup
/// and the file that may hold its key. It goes to `maybes` if the file's filter returns "maybe",
/// and to `unasked` if the filter is not in memory.
fn ask_filters(
    run: &Run<Arc<TableFile>>,
    open: &[OpenLookup<'_>],
    guard: &Guard,
    tickers: ThreadTickers<'_>,
    maybes: &mut Vec<Question>,
    unasked: &mut Vec<Question>,
) {
    let Some(OpenLookup { key: any, .. }) = open.first() else { return };
    let (mut lookups, mut keys, mut count) = ([0; TOGETHER], [any; TOGETHER], 0);
    let mut ask = |file: usize, lookups: &[usize], keys: &[&LookupKey<'_>]| {
        let table = &*run.file(file).table;
        let mut answers = [false; TOGETHER];
        let answers = &mut answers[..keys.len()];
        let absent = table.filter_says_maybe_together(keys, answers, guard, tickers);
        let question = |&lookup| Question { file: file as u32, lookup: lookup as u32 };
        for (lookup, _) in lookups.iter().zip(&*answers).filter(|(_, maybe)| **maybe) {
            maybes.push(question(lookup));
        }
        if absent != 0 {
            let is_absent = |i: &usize| absent >> i & 1 != 0;
            let absent = (0..lookups.len()).filter(is_absent);
            unasked.extend(absent.map(|i| question(&lookups[i])));
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
    // Several files: the keys of one file are queried together.
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
    // Few keys fall into each file. So the filters of all files are prefetched first, because then
    // the cache misses of different files overlap.
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

/// Sorts by file. With few files this is a counting sort, because a sort by comparison mispredicts
/// half of its branches if the keys are in no order.
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
                        // The last file has a question too.
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
