use std::fs;
use std::rc::Rc;

use maypole::hash64;

use super::super::step05_table::{Table, TableBuilder};
use super::super::step06_rocksdb::ROCKSDB;
use super::super::step08_levels::Db;
use super::super::step09_cache::*;
use super::key;
use super::tour::Shared;
use crate::check::{Check, Scratch};
use crate::given::{VALUE, internal_key};

pub const CHECKS: &[Check] = &[
    Check { says: "what was read once is not read again", run: read_once },
    Check { says: "the filter is loaded through the cache", run: filter_is_loaded },
    Check { says: "the cache never holds more than its capacity", run: capacity },
    Check { says: "a block that is larger than the cache is read and not kept", run: too_large },
    Check { says: "filters and indexes stay while there is data to evict", run: filters_stay },
    Check { says: "what was used last stays", run: least_recently_used },
    Check { says: "your engine uses it", run: in_the_engine },
];

const KEYS: u64 = 3000;
/// Bytes of a data block, about.
const BLOCK: usize = 4200;

/// A table of 82 data blocks, an index of 2.4 KB and a filter of 3.8 KB.
fn table(scratch: &Scratch, number: u64) -> Table {
    let mut builder = TableBuilder::new(ROCKSDB);
    for i in 0..KEYS {
        builder.add(&internal_key(&key("key", i), i, VALUE), &[7; 100]);
    }
    let path = scratch.0.join(format!("{number}.sst"));
    fs::write(&path, builder.finish(10.0)).unwrap();
    Table::open(&path, number, ROCKSDB).expect("the table is opened")
}

fn get(table: &Table, cache: &Cache, i: u64) {
    let found = table.get(cache, &key("key", i), i).expect("get");
    assert!(found.is_some(), "key {i} is not found through the cache");
}

/// How many blocks of the file one query of the filter reads.
fn reads_of_query(table: &Table, cache: &Cache, i: u64) -> u64 {
    let before = table.reads.get();
    table.may_contain(cache, hash64(&key("absent", i))).expect("may_contain");
    table.reads.get() - before
}

fn read_once() {
    let scratch = Scratch::new("once");
    let tables = [table(&scratch, 1), table(&scratch, 2)];
    let cache = Cache::new(1 << 20);
    for round in 0..3 {
        for table in &tables {
            get(table, &cache, 1000);
            assert_eq!(
                table.reads.get(),
                2,
                "blocks that table {} read, in round {round}: its index and its data block, once",
                table.number
            );
        }
    }
    assert_eq!((cache.hits.get(), cache.misses.get()), (8, 4), "hits and misses of 12 queries");
}

fn filter_is_loaded() {
    let scratch = Scratch::new("loaded");
    let table = table(&scratch, 1);
    let cache = Cache::new(1 << 20);
    assert_eq!(reads_of_query(&table, &cache, 0), 1, "the first query reads the filter");
    for i in 1..100 {
        assert_eq!(reads_of_query(&table, &cache, i), 0, "query {i} reads nothing");
    }
    assert_eq!(cache.used() as u64, table.filter_bytes(), "the cache holds the filter only");
}

fn capacity() {
    let scratch = Scratch::new("capacity");
    let table = table(&scratch, 1);
    for capacity in [2 * BLOCK, 5 * BLOCK, 20 * BLOCK] {
        let cache = Cache::new(capacity);
        for i in 0..500 {
            get(&table, &cache, i * 37 % KEYS);
            let used = cache.used();
            assert!(used <= capacity, "{used} bytes in a cache of {capacity}");
        }
        assert!(
            cache.used() > capacity - 2 * BLOCK,
            "the cache is not used: {} of {capacity} bytes",
            cache.used()
        );
    }
}

fn too_large() {
    let scratch = Scratch::new("large");
    let table = table(&scratch, 1);
    for capacity in [0, 100, 2500] {
        let cache = Cache::new(capacity);
        get(&table, &cache, 1);
        get(&table, &cache, 1);
        assert!(cache.used() <= capacity, "{} bytes in a cache of {capacity}", cache.used());
    }
    // Room for the index, which the first lookup reads, and not for a data block.
    let cache = Cache::new(2500);
    get(&table, &cache, 1);
    get(&table, &cache, 2);
    let hits = cache.hits.get();
    assert_eq!(hits, 1, "the index was evicted for a block that is larger than the cache");
}

fn least_recently_used() {
    let scratch = Scratch::new("recent");
    let table = table(&scratch, 1);
    // Room for the index and three data blocks.
    let cache = Cache::new(2500 + 3 * BLOCK);
    let reads = |i: u64| {
        let before = table.reads.get();
        get(&table, &cache, i);
        table.reads.get() - before
    };
    [0, 1000, 2000].into_iter().for_each(|i| _ = reads(i));
    assert_eq!(reads(0), 0, "three data blocks fit");
    reads(2900);
    assert_eq!(reads(0), 0, "this block was used after the two others, so it stays");
    assert_eq!(reads(1000), 1, "this block was not used for the longest time, so it was evicted");
}

fn filters_stay() {
    let scratch = Scratch::new("stay");
    let (table, other) = (table(&scratch, 1), table(&scratch, 2));
    // Room for the filter and the index of the first table, the index of the other, and two data
    // blocks.
    let cache = Cache::new(9500 + 2 * BLOCK);
    reads_of_query(&table, &cache, 0);
    get(&table, &cache, 0);
    (0..KEYS).step_by(20).for_each(|i| get(&other, &cache, i));
    assert_eq!(reads_of_query(&table, &cache, 1), 0, "150 lookups of data displaced the filter");
    let before = table.reads.get();
    get(&table, &cache, 0);
    assert!(table.reads.get() - before <= 1, "150 lookups of data displaced the index");
}

fn in_the_engine() {
    let scratch = Scratch::new("engine");
    let mut db = Db::open(&scratch.0).expect("open");
    let cache = Rc::new(Cache::new(1 << 20));
    db.blocks = Box::new(Shared(Rc::clone(&cache)));
    for i in 0..1000 {
        db.put(&key("key", i), &[7; 100]).expect("put");
    }
    db.flush().expect("flush");
    for _ in 0..2 {
        for i in 0..1000 {
            assert!(db.get(&key("key", i)).expect("get").is_some(), "key {i}");
        }
    }
    let reads = db.levels[0][0].reads.get();
    assert_eq!(reads, cache.misses.get(), "reads of the file are misses of the cache");
    assert!(reads < 40, "{reads} reads for a table of some 30 blocks");
    assert_eq!(cache.hits.get() + reads, 6000, "2000 lookups of filter, index and data");
}
