//! A lookup of many keys. Each of the stages of a lookup ([`super`]) is done for all keys before the
//! next stage.
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

mod blocks;
mod filters;
mod open;
mod parts;

use crate::encoding::key::SequenceNumber;
use crate::error::Result;
use crate::fs::OverlappedReader;
use crate::slice::Slice;
use crate::stats::{ThreadTickers, Ticker};
use crate::sync::{assert_no_guard, pin};
use crate::table::{LookupKey, Table};

use self::blocks::{BlockBatch, read_blocks};
use self::filters::{Maybe, Question, query_filters};
use self::open::{GONE, OpenLookup, TOGETHER};
use self::parts::read_parts;
use super::filter::{AfterFilter, FilterUse, absent_part, answer_once_read};
use super::memtables::find_in_memtables;
use super::need::{Need, NeededBlock};
use super::outcome::Outcome;
use super::search::{
    BlockPosition, GroupPosition, InTable, find_group, search_blocks, without_group,
};
use super::stage::{Observer, Scope, Sources, hit_ticker, range_deletion};

/// Keys that are searched together in a run, after its filters were queried. They are enough to
/// hide their cache misses, but few enough that the memory they fetch stays in the processor's
/// first-level cache, and that the device soon gets the first reads.
const SEARCHED_TOGETHER: usize = 16;

/// The lookups of one call.
pub(crate) struct Lookups<'k, K> {
    keys: &'k [K],
    sequence: SequenceNumber,
    /// The order in which the keys are looked up. Empty if that is the order of `keys`.
    order: Vec<usize>,
    /// How many of `keys` were taken so far.
    begun: usize,
    values: Vec<Option<Slice>>,
    /// What came of each lookup so far; empty unless some are recorded.
    outcomes: Vec<Outcome>,
    /// The lookups that take part in the search of the current run. Together with those in `parked`
    /// and `later`, and with those whose blocks are being read, they are at most [`TOGETHER`].
    open: Vec<OpenLookup<'k>>,
    /// The number of runs whose filters were queried. The last of these runs is being searched.
    runs_begun: usize,
    /// The files of the run being searched whose filters returned "maybe" or were skipped, each
    /// with its lookup.
    maybes: Vec<Maybe>,
    /// The files of the run being searched whose filters are not in memory, and must still be read
    /// and queried. Each file is listed with its lookup.
    unasked: Vec<Question>,
    /// How many of `maybes` were searched.
    searched: usize,
    /// Lookups that need a block that is not in memory.
    parked: Vec<Parked<'k>>,
    /// Lookups whose block did not hold the key. Each is listed with the run from which it
    /// continues.
    later: Vec<(usize, OpenLookup<'k>)>,
}

/// A lookup whose block is not in memory, and whose read has not begun.
struct Parked<'k> {
    lookup: OpenLookup<'k>,
    run: usize,
    /// Index of the file in its run.
    file: usize,
    /// What to read next: a part of the index, or a data block.
    need: Need,
}

/// A lookup whose block is being read.
struct Waiting<'k> {
    lookup: OpenLookup<'k>,
    run: usize,
    file: usize,
    /// Index among the blocks that are read.
    block: usize,
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
    /// Lookups of `keys`, [`TOGETHER`] at a time. More keys than that are sorted first, so that keys
    /// of the same block are looked up while the block is in memory. Fewer keys are not sorted,
    /// because sorting takes time too. Hold no guard.
    pub fn new(keys: &'k [K]) -> Self {
        let mut order = Vec::new();
        if keys.len() > TOGETHER {
            order.extend(0..keys.len());
            order.sort_unstable_by(|&a: &usize, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        }
        let at_once = keys.len().min(TOGETHER);
        let mut lookups = Lookups {
            keys,
            sequence: 0,
            order,
            begun: 0,
            values: vec![None; keys.len()],
            outcomes: Vec::new(),
            open: Vec::with_capacity(at_once),
            runs_begun: 0,
            maybes: Vec::with_capacity(at_once),
            unasked: Vec::new(),
            searched: 0,
            parked: Vec::new(),
            later: Vec::new(),
        };
        lookups.take_keys();
        lookups
    }

    /// Lets [`Self::outcome`] tell what came of a lookup. Called first.
    pub fn note_outcomes(&mut self) {
        self.outcomes = vec![Outcome::Absent; self.keys.len()];
    }

    /// What came of the lookup of key `i`.
    pub fn outcome(&self, i: usize) -> Outcome {
        self.outcomes[i]
    }

    /// Looks up the first keys. Returns whether anything is left to do, which is
    /// [`Lookups::read_and_finish`]'s work.
    pub fn begin(
        &mut self,
        sources: &Sources,
        sequence: SequenceNumber,
        scope: &Scope<'_>,
    ) -> Result<bool> {
        scope.tickers.add(Ticker::NumberKeysRead, self.keys.len() as u64);
        self.sequence = sequence;
        self.search(sources, scope)?;
        Ok(self.wants_a_read() || self.begun < self.keys.len())
    }

    /// Continues where [`Lookups::begin`] has stopped: at something that is not in memory, or after
    /// the first [`TOGETHER`] keys. Takes and releases guards of its own. The caller keeps `sources`.
    pub fn read_and_finish(
        &mut self,
        sources: &Sources,
        reader: &OverlappedReader,
        tickers: ThreadTickers<'_>,
    ) -> Result<()> {
        loop {
            if self.wants_a_read() {
                self.search_and_read_filters(sources, reader, tickers)?;
            }
            while !self.parked.is_empty() {
                let mut waiting = Vec::with_capacity(TOGETHER);
                let blocks = read_blocks(reader, |blocks| {
                    self.search_and_read_filters(sources, reader, tickers)?;
                    let any_parked = !self.parked.is_empty();
                    self.wait_for_blocks(sources, reader, blocks, &mut waiting)?;
                    Ok(any_parked)
                })?;
                self.search_read_blocks(sources, waiting, &blocks, &Scope::new(&pin(), tickers))?;
                self.search_and_read_filters(sources, reader, tickers)?;
            }
            if !self.take_keys() {
                return Ok(());
            }
            self.search(sources, &Scope::new(&pin(), tickers))?;
        }
    }

    /// The values, in the order of the keys.
    pub fn into_values(self) -> Vec<Option<Slice>> {
        self.values
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
            OpenLookup { to, key, head: None, after: AfterFilter::IMPOSSIBLE, deleted_at: 0 }
        }));
        self.begun = end;
        !self.open.is_empty()
    }

    /// Begins the lookups that [`Self::take_keys`] has opened: searches the memtables, then the
    /// tables by [`Self::search_runs`], which stops where a read is needed.
    fn search(&mut self, sources: &Sources, scope: &Scope<'_>) -> Result<()> {
        for lookup in &mut self.open {
            lookup.key.sequence = self.sequence;
            lookup.head = sources.version.head(lookup.key.user_key);
        }
        if sources.has_entries_in_memory() {
            let mut failed = Ok(());
            self.open.retain(|lookup| match find_in_memtables(sources, &lookup.key, scope) {
                Ok(Some(entry)) => {
                    note(&mut self.outcomes, lookup.to, Outcome::Memtable, entry.is_some());
                    self.values[lookup.to] = entry.map(Slice::copy_from);
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
        scope.tickers.add(Ticker::MemtableMiss, self.open.len() as u64);
        self.search_runs(sources, scope)
    }

    /// Whether the search has stopped at something that is not in memory.
    fn wants_a_read(&self) -> bool {
        !self.parked.is_empty() || !self.unasked.is_empty()
    }

    /// Continues [`Self::search_runs`] and reads the filters that it needs, until lookups are
    /// parked or all tables are searched. The caller must hold no guard.
    fn search_and_read_filters(
        &mut self,
        sources: &Sources,
        reader: &OverlappedReader,
        tickers: ThreadTickers<'_>,
    ) -> Result<()> {
        while self.parked.is_empty() {
            if !self.unasked.is_empty() {
                self.read_filters(sources, reader, tickers);
            }
            self.search_runs(sources, &Scope::new(&pin(), tickers))?;
            if self.unasked.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads and queries those filters of the run that are not in memory. A filter that is not worth
    /// its read is passed by, as if it had answered "maybe".
    fn read_filters(
        &mut self,
        sources: &Sources,
        reader: &OverlappedReader,
        tickers: ThreadTickers<'_>,
    ) {
        let run = &sources.version.runs()[self.runs_begun - 1];
        let (mut questions, mut parts) = (std::mem::take(&mut self.unasked), Vec::new());
        questions.retain(|question| {
            let table = &*run.file(question.file as usize).table;
            let part = table.filter.locate(&self.open[question.lookup as usize].key);
            match absent_part(table, part, false, tickers, Observer::NONE) {
                Err(_) => parts.push((table, part)),
                Ok(after) => {
                    self.maybes.push(Maybe { question: *question, after });
                    return false;
                }
            }
            true
        });
        let filters = read_parts(reader, &parts);
        for ((question, (table, part)), filter) in questions.into_iter().zip(parts).zip(filters) {
            let key = &self.open[question.lookup as usize].key;
            let filter = filter.as_deref().ok();
            if answer_once_read(table, part, false, filter, key, tickers, Observer::NONE) {
                let after = AfterFilter::new(FilterUse::Queried, table.index_part_beside(part));
                self.maybes.push(Maybe { question, after });
            }
        }
    }

    /// Continues the search of the tables, each lookup from its next run on. Stops where a read is
    /// needed. If [`Self::wants_a_read`] is false afterwards, all tables have been searched.
    fn search_runs(&mut self, sources: &Sources, scope: &Scope<'_>) -> Result<()> {
        // Allocated at the first push, because lookups of absent keys seldom need this vector.
        let mut searches = Vec::new();
        loop {
            while self.searched < self.maybes.len() {
                self.search_tables(sources, scope, &mut searches)?;
                if !self.parked.is_empty() {
                    return Ok(());
                }
            }
            if !self.begin_run(sources, scope) || !self.unasked.is_empty() {
                return Ok(());
            }
        }
    }

    /// Queries the filters of the next run. Returns false if there is no other run.
    fn begin_run(&mut self, sources: &Sources, scope: &Scope<'_>) -> bool {
        let number = self.runs_begun;
        if number > 0 {
            self.open.retain(|lookup| lookup.to != GONE && lookup.deleted_at == 0);
        }
        self.maybes.clear();
        self.searched = 0;
        let Some(run) = sources.version.runs().get(number) else { return false };
        self.runs_begun += 1;
        if !self.later.is_empty() {
            let now = self.later.extract_if(.., |(next_run, _)| *next_run == number);
            self.open.extend(now.map(|(_, lookup)| lookup));
        }
        if sources.version.has_range_deletions {
            for lookup in &mut self.open {
                lookup.deleted_at = lookup
                    .file_in(run)
                    .map_or(0, |file| range_deletion(run.file(file), &lookup.key));
                // The lookup ends in this run. An entry that it finds here is noted later.
                if lookup.deleted_at > 0 {
                    note(&mut self.outcomes, lookup.to, Outcome::Deleted, false);
                }
            }
        }
        query_filters(run, &self.open, scope, &mut self.maybes, &mut self.unasked);
        true
    }

    /// Searches the next [`SEARCHED_TOGETHER`] keys in the run. `searches` is scratch memory: it is
    /// empty before and afterwards.
    fn search_tables<'g>(
        &mut self,
        sources: &'g Sources,
        scope: &Scope<'g>,
        searches: &mut Vec<TableSearch<'g>>,
    ) -> Result<()> {
        let number = self.runs_begun - 1;
        let run = &sources.version.runs()[number];
        let maybes = self.maybes[self.searched..].iter().take(SEARCHED_TOGETHER);
        searches.extend(maybes.map(|&Maybe { question: Question { file, lookup }, after }| {
            let (file, lookup) = (file as usize, lookup as usize);
            let table = &*run.file(file).table;
            let OpenLookup { key, after: known, .. } = &mut self.open[lookup];
            *known = after;
            let group = find_group(table, key, after, scope);
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
                position.find_entry(&self.open[*lookup].key, scope);
            }
        }
        for TableSearch { lookup, file, table, position, .. } in &mut *searches {
            let (lookup, file) = (&mut self.open[*lookup], *file);
            let (key, after) = (&lookup.key, lookup.after);
            let step = match position.take() {
                Some(at) => search_blocks(table, at, key, after.filter, scope)?,
                None => without_group(table, key, after),
            };
            match step {
                InTable::Found(found) => {
                    scope.tickers.add(hit_ticker(run.level), 1);
                    let value = lookup.value_of(table, &found)?;
                    let place = Outcome::Level(run.level);
                    note(&mut self.outcomes, lookup.to, place, value.is_some());
                    self.values[lookup.to] = value;
                    lookup.to = GONE;
                }
                InTable::Absent => {}
                InTable::Needs(need, _) => {
                    self.parked.push(Parked { lookup: lookup.clone(), run: number, file, need });
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
        sources: &'s Sources,
        reader: &OverlappedReader,
        blocks: &mut BlockBatch<'s>,
        waiting: &mut Vec<Waiting<'k>>,
    ) -> Result<()> {
        let table_of = |run: usize, file| &*sources.version.runs()[run].file(file).table;
        let part = |parked: &Parked<'_>| match parked.need {
            Need::Index(part) => Some((table_of(parked.run, parked.file), part)),
            Need::Filter(_) | Need::Block(_) => None,
        };
        let parts: Vec<_> = self.parked.iter().filter_map(part).collect();
        let mut indexes = read_parts(reader, &parts).into_iter();
        let mut found = Vec::with_capacity(self.parked.len());
        for Parked { lookup, run, file, need } in self.parked.drain(..) {
            let block = match need {
                Need::Block(block) => Some(block),
                Need::Filter(_) | Need::Index(_) => {
                    NeededBlock::of(indexes.next().expect("one for each")?, &lookup.key)
                }
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
    fn search_read_blocks(
        &mut self,
        sources: &Sources,
        waiting: Vec<Waiting<'k>>,
        blocks: &BlockBatch<'_>,
        scope: &Scope<'_>,
    ) -> Result<()> {
        // The open lookups have searched all runs, and found no entry in any table. So they end
        // here, and their values stay `None`.
        self.open.clear();
        self.runs_begun = 0;
        // The first lookup of a block has missed the cache. The other lookups of the block count as
        // hits.
        scope.tickers.add(Ticker::BlockCacheDataHit, (waiting.len() - blocks.len()) as u64);
        for Waiting { lookup, run, file, block: place } in waiting {
            let (table, position) = blocks.position(place, &lookup.key);
            let filter = lookup.after.filter;
            match search_blocks(table, position, &lookup.key, filter, scope)? {
                InTable::Found(found) => {
                    let level = sources.version.runs()[run].level;
                    scope.tickers.add(hit_ticker(level), 1);
                    let value = lookup.value_of(table, &found)?;
                    note(&mut self.outcomes, lookup.to, Outcome::Level(level), value.is_some());
                    self.values[lookup.to] = value;
                }
                InTable::Absent => {
                    table.filter.was_missed(table.filter.locate(&lookup.key));
                    if lookup.deleted_at == 0 {
                        self.later.push((run + 1, lookup));
                    }
                }
                InTable::Needs(need, _) => {
                    self.parked.push(Parked { lookup, run, file, need });
                }
            }
        }
        Ok(())
    }
}

/// Notes what came of the lookup of key `i`, if outcomes are noted.
fn note(outcomes: &mut [Outcome], i: usize, place: Outcome, has_value: bool) {
    if let Some(outcome) = outcomes.get_mut(i) {
        *outcome = Outcome::found(place, has_value);
    }
}
