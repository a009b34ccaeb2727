//! Reads the tables: counts their keys and queries their filters. From the same keys it builds
//! filters of other kinds, and queries these too.
//!
//! Several threads read different tables. Each thread keeps the hashes of one table in memory.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use maypole::filter::{FilterBuilder, FilterSpec};
use maypole::{Error, hash64};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::policies::Kind;
use super::queries::{Query, Shape};
use super::sample::distinct;
use super::scanned::{Asked, Built, Scanned};
use super::tables::{Feed, Form, Table};
use crate::failure::Result;
use crate::progress;

/// Once the filters that were built for a level have this many keys together, no more are built for
/// it, because the figures would change little.
const BUILT_KEYS: usize = 400_000;
/// A table's filters are built of its first keys, at most this many.
const MAX_HASHES: usize = 2_000_000;
/// An entry in the index of a partitioned filter takes the bytes of its key and this many more:
/// three lengths, a block handle and a restart point.
const PART_ENTRY_BYTES: f64 = 13.0;
const MAX_THREADS: usize = 4;
/// For each query of a built filter with an absent key, so many with random hashes.
const RANDOM_QUERIES: usize = 2;

/// Reads the tables that were drawn. Returns the position of each in `tables`, with what was read.
/// `queries_of` returns the keys to query the filter of a table with, ascending.
pub fn run(
    tables: &[Table],
    drawn: &[(usize, f64)],
    kinds: &[Kind],
    queries_of: &(dyn Fn(usize, f64) -> Vec<Query> + Sync),
) -> Result<Vec<(usize, Scanned)>> {
    let bytes = |i: usize, part: f64| (tables[i].file_bytes as f64 * part) as u64;
    let bar = progress::bar(drawn.iter().map(|&(i, part)| bytes(i, part)).sum(), "reading tables");
    let next = AtomicUsize::new(0);
    // The budget of each level: how many more keys are added to filters before building ends.
    let levels = tables.iter().map(|table| table.level + 1).max().unwrap_or(0);
    let budgets: Vec<AtomicUsize> = (0..levels).map(|_| AtomicUsize::new(BUILT_KEYS)).collect();
    let done: Mutex<Vec<(usize, Result<Scanned>)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(&(i, part)) = drawn.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let queries = queries_of(i, part);
            let scanned = scan(&tables[i], part, &queries, kinds, &budgets[tables[i].level]);
            bar.inc(bytes(i, part));
            let failed = scanned.is_err();
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, scanned));
            if failed {
                next.store(drawn.len(), Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_iter().map(|(i, scanned)| Ok((i, scanned?))).collect()
}

/// The hashes of one key, and of its prefix if it has one.
#[derive(Clone, Copy)]
struct Fed {
    // A hash of 0 counts as no hash, so that `Option` adds no memory. This is harmless, because
    // only one of 2^64 hashes is 0.
    key: Option<NonZeroU64>,
    prefix: Option<NonZeroU64>,
}

impl Fed {
    /// The hash that a point lookup of the key queries a filter with.
    fn asked(&self, holds_keys: bool) -> Option<u64> {
        self.key.filter(|_| holds_keys).or(self.prefix).map(NonZeroU64::get)
    }
}

impl Feed {
    fn fed(&self, key: &[u8]) -> Fed {
        let hash = |bytes: &[u8]| NonZeroU64::new(hash64(bytes));
        let prefix = self.extractor.and_then(|extractor| extractor.prefix_of(key)).and_then(hash);
        Fed { key: hash(key), prefix }
    }

    /// Whether the filter holds prefixes alone.
    pub fn is_of_prefixes_alone(&self) -> bool {
        !self.whole_keys && self.extractor.is_some()
    }
}

/// An absent key that filters are queried with.
struct Absent {
    fed: Fed,
    /// How many of the keys that filters are built of are smaller.
    position: usize,
}

/// The state of reading a table's keys in order.
struct Reading<'a> {
    table: &'a Table,
    queries: &'a [Query],
    next_query: usize,
    /// For each query, whether the table holds its key.
    held: Vec<bool>,
    /// For each query that was passed, how many of the hashes are of smaller keys.
    positions: Vec<usize>,
    last: Option<Vec<u8>>,
    hashes: Vec<Fed>,
    most_hashes: usize,
    scanned: Scanned,
    /// The bytes of all keys together.
    key_bytes: u64,
}

impl Reading<'_> {
    fn see(&mut self, key: &[u8]) {
        self.scanned.entries += 1;
        match &mut self.last {
            Some(last) if last == key => return,
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            None => self.last = Some(key.to_vec()),
        }
        self.scanned.keys += 1;
        self.key_bytes += key.len() as u64;
        while self.queries.get(self.next_query).is_some_and(|query| &query.key[..] < key) {
            self.positions.push(self.hashes.len());
            self.next_query += 1;
        }
        if self.queries.get(self.next_query).is_some_and(|query| &query.key[..] == key) {
            self.held[self.next_query] = true;
        }
        if self.hashes.len() < self.most_hashes {
            self.hashes.push(self.table.feed.fed(key));
        }
    }
}

fn scan(
    table: &Table,
    part: f64,
    queries: &[Query],
    kinds: &[Kind],
    budget: &AtomicUsize,
) -> Result<Scanned> {
    // Once the budget of the level is used up, no filters are built. Until then a filter gets all
    // keys of its table, at most [`MAX_HASHES`], even if the rest of the budget is smaller: with
    // fewer keys, the filter could take other bits per key than a filter of the whole table. The
    // budget is exceeded further if several threads read it before one of them reduces it.
    let most_hashes = match budget.load(Ordering::Relaxed) {
        0 => 0,
        _ => MAX_HASHES.min(table.entries as usize),
    };
    let _ = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(most_hashes))
    });
    let scanned = Scanned {
        filter: table.read_filter()?,
        bytes: (table.file_bytes as f64 * part) as u64,
        is_whole: part >= 1.0,
        ..Scanned::default()
    };
    let mut reading = Reading {
        table,
        queries,
        next_query: 0,
        held: vec![false; queries.len()],
        positions: Vec::with_capacity(queries.len()),
        last: None,
        hashes: Vec::new(),
        most_hashes,
        scanned,
        key_bytes: 0,
    };
    let read = match reading.scanned.is_whole {
        true => read_whole(table, &mut reading),
        false => read_blocks(table, part, &mut reading),
    };
    let Reading { held, positions, hashes, key_bytes, mut scanned, .. } = reading;
    match read {
        Ok(()) => {}
        Err(error @ Error::Corruption { .. }) => {
            scanned.damage = Some(error.to_string());
            scanned.is_whole = false;
        }
        Err(error) => return Err(error.into()),
    }
    let is_asked = matches!(table.form, Some(Form::Full | Form::Partitioned | Form::Maypoles))
        && table.reader.filter_is_unasked().is_none();
    let mut absent = Vec::new();
    for (n, (query, &held)) in queries.iter().zip(&held).enumerate() {
        if held {
            continue;
        }
        let Query { key, shape } = query;
        let maybe = !is_asked || table.reader.may_contain(key)?;
        // The unread part of the table may hold the key. Then "maybe" is right, and the query does
        // not count. Only a lookup of the key in the table shows whether that is so.
        if maybe && !scanned.is_whole && holds(table, key) {
            continue;
        }
        let position = positions.get(n).copied().unwrap_or(hashes.len());
        absent.push(Absent { fed: table.feed.fed(key), position });
        if is_asked {
            let asked = match shape {
                Shape::Own => &mut scanned.asked,
                Shape::Any => &mut scanned.asked_of_any_bytes,
            };
            *asked += Asked { queries: 1, wrong: u64::from(maybe) };
        }
    }
    let key_bytes = key_bytes as f64 / scanned.keys.max(1) as f64;
    scanned.built = kinds
        .iter()
        .map(|kind| {
            let holds_keys = kind.whole_keys || !table.feed.is_of_prefixes_alone();
            build(kind, &hashes, &absent, holds_keys, key_bytes)
        })
        .collect();
    Ok(scanned)
}

fn read_whole(table: &Table, reading: &mut Reading) -> maypole::Result<()> {
    let mut entries = table.reader.entries();
    while let Some(entry) = entries.next_entry()? {
        reading.see(entry.user_key);
    }
    Ok(())
}

fn read_blocks(table: &Table, share: f64, reading: &mut Reading) -> maypole::Result<()> {
    let choose = |all: usize| {
        let count = ((all as f64 * share).ceil() as usize).max(1);
        distinct(count, all, &mut SmallRng::seed_from_u64(table.number))
    };
    table.reader.each_key_of_blocks(choose, |key| reading.see(key))
}

/// Whether the table has an entry of the key. A failed lookup counts as if it had found an entry.
fn holds(table: &Table, key: &[u8]) -> bool {
    table.reader.explain(key).map_or(true, |trace| trace.found.is_some())
}

/// Seconds that [`run`] takes to build all filters, estimated from a trial with `trial_keys` keys.
pub fn build_seconds(
    tables: &[Table],
    drawn: &[(usize, f64)],
    kinds: &[Kind],
    trial_keys: u64,
) -> f64 {
    let mut of_level: BTreeMap<usize, f64> = BTreeMap::new();
    for &(i, part) in drawn {
        *of_level.entry(tables[i].level).or_default() += tables[i].keys as f64 * part;
    }
    let keys: f64 = of_level.into_values().map(|keys| keys.min(BUILT_KEYS as f64)).sum();
    let fed = |key: u64| Fed { key: NonZeroU64::new(hash64(&key.to_le_bytes())), prefix: None };
    let hashes: Vec<Fed> = (0..trial_keys).map(fed).collect();
    let key_nanos: f64 =
        kinds.iter().map(|kind| build(kind, &hashes, &[], true, 0.0).key_nanos).sum();
    keys * key_nanos / 1e9
}

/// Builds filters of one kind and queries them with the absent keys. Unless `holds_keys`, the filters
/// hold prefixes alone. `key_bytes`, the mean length of a key, is for the index of a partitioned
/// filter.
fn build(
    kind: &Kind,
    hashes: &[Fed],
    absent: &[Absent],
    holds_keys: bool,
    key_bytes: f64,
) -> Built {
    let Some(part_keys) = kind.part_keys else {
        return build_one(kind.spec, hashes, absent, holds_keys);
    };
    let parts = hashes.len().div_ceil(part_keys);
    let (mut all, mut nanos) = (Built::default(), 0.0);
    let mut rest = absent;
    for (part, hashes) in hashes.chunks(part_keys).enumerate() {
        // A lookup queries the part that would hold the key: the first part whose last key is not
        // smaller. The absent keys are in the order of their positions.
        let is_last = part + 1 == parts;
        let end = match is_last {
            true => rest.len(),
            false => rest.partition_point(|absent| absent.position < (part + 1) * part_keys),
        };
        let (own, others) = rest.split_at(end);
        rest = others;
        let built = build_one(kind.spec, hashes, own, holds_keys);
        nanos += built.key_nanos * built.keys as f64;
        all.add(&built);
    }
    all.bytes += (parts as f64 * (key_bytes + PART_ENTRY_BYTES)) as u64;
    Built { key_nanos: nanos / all.keys.max(1) as f64, ..all }
}

/// Builds the filter of this kind that the whole table would have, and returns its answers for
/// `keys`. `None` if the table is damaged, or gets no filter.
pub fn answers(table: &Table, kind: &Kind, keys: &[&[u8]]) -> Result<Option<Vec<bool>>> {
    let feed = &table.feed;
    let holds_keys = kind.whole_keys || !feed.is_of_prefixes_alone();
    let mut builder = FilterBuilder::new(kind.spec);
    let mut entries = table.reader.entries();
    let mut last: Option<Vec<u8>> = None;
    loop {
        match entries.next_entry() {
            Ok(Some(entry)) if last.as_deref() == Some(entry.user_key) => {}
            Ok(Some(entry)) => {
                add(&mut builder, feed.fed(entry.user_key), holds_keys);
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.user_key);
            }
            Ok(None) => break,
            Err(Error::Corruption { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let Some(filter) = builder.finish().map(|block| block.into_reader()) else { return Ok(None) };
    // A key without a hash is not in the domain of the prefixes, and no filter is queried for it.
    let answer =
        |key: &&[u8]| feed.fed(key).asked(holds_keys).is_none_or(|hash| filter.may_contain(hash));
    Ok(Some(keys.iter().map(answer).collect()))
}

/// Adds what the filter holds of one key.
fn add(builder: &mut FilterBuilder, fed: Fed, holds_keys: bool) {
    match (fed.key.filter(|_| holds_keys), fed.prefix) {
        (Some(key), Some(prefix)) => builder.add_pair(key.get(), prefix.get()),
        (Some(hash), None) | (None, Some(hash)) => builder.add(hash.get()),
        (None, None) => {}
    }
}

fn build_one(spec: FilterSpec, hashes: &[Fed], absent: &[Absent], holds_keys: bool) -> Built {
    let mut builder = FilterBuilder::new(spec);
    hashes.iter().for_each(|&fed| add(&mut builder, fed, holds_keys));
    let start = Instant::now();
    let Some(block) = builder.finish() else { return Built::default() };
    let nanos = start.elapsed().as_nanos() as f64;
    let (keys, bytes) = (block.keys(), block.bytes().len() as u64);
    let predicted = block.predicted_fpr();
    let filter = block.into_reader();
    let mut absent: Vec<u64> =
        absent.iter().filter_map(|absent| absent.fed.asked(holds_keys)).collect();
    if holds_keys {
        // A filter of few keys has a rate of its own, which differs from the predicted one by a
        // tenth and more. So it is measured well, by random hashes, of which nearly all are absent.
        let mut random = SmallRng::seed_from_u64(keys);
        let more = absent.len() * RANDOM_QUERIES;
        absent.extend((0..more).map(|_| random.random::<u64>()));
    }
    let mut answers = vec![false; absent.len()];
    filter.may_contain_many(&absent, &mut answers);
    let wrong = answers.iter().filter(|&&maybe| maybe).count() as u64;
    Built {
        keys,
        bytes,
        key_nanos: nanos / keys as f64,
        predicted,
        asked: Asked { queries: absent.len() as u64, wrong },
    }
}
