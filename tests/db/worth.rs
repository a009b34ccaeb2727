//! Filters in a cache that is large enough for all of them, but not for all data: a filter stays
//! only while it saves more reads than data blocks in its place would.

use std::sync::Arc;

use maypole::fs::{Fs, MemFs};
use maypole::table::MetadataForm;
use maypole::{BlockKind, Compression, Db, FilterKeys, Ticker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const KEYS: u32 = 100_000;
/// Twice the memory of all filters and indexes, and a third of the memory of all blocks.
const SMALL_CACHE: usize = 700 << 10;
const LOOKUPS: u32 = 30_000;

fn key(i: u32) -> Vec<u8> {
    format!("user{:03}/{:07}", i / 1000, i * 3).into_bytes()
}

/// A database of [`KEYS`] keys, reopened with a cache of this size.
fn open(cache_bytes: usize, form: MetadataForm, keys: FilterKeys) -> Db {
    open_with_blocks(4096, cache_bytes, form, keys)
}

fn open_with_blocks(
    block_bytes: usize,
    cache_bytes: usize,
    form: MetadataForm,
    keys: FilterKeys,
) -> Db {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let open = |cache_bytes| {
        Db::builder("/db")
            .fs(Arc::clone(&fs))
            .filter_keys(keys)
            .compression(Compression::None)
            .table_bytes(1 << 20)
            .block_bytes(block_bytes)
            .block_cache_bytes(cache_bytes)
            .metadata(form)
            .open()
            .unwrap()
    };
    let db = open(64 << 20);
    (0..KEYS).for_each(|i| db.put(key(i), i.to_le_bytes()).unwrap());
    db.compact_range(..).unwrap();
    drop(db);
    open(cache_bytes)
}

/// [`LOOKUPS`] lookups, of which one in `period` is for an absent key (0: none).
fn look_up(db: &Db, period: u32) {
    let mut rng = StdRng::seed_from_u64(7);
    for n in 0..LOOKUPS {
        let i = rng.random_range(0..KEYS);
        match n.checked_rem(period) == Some(0) {
            true => assert_eq!(db.get([&key(i)[..], b"?"].concat()).unwrap(), None),
            false => assert_eq!(db.get(key(i)).unwrap().unwrap(), i.to_le_bytes()),
        }
    }
}

fn filter_bytes(db: &Db) -> usize {
    let kinds = db.stats().cache;
    kinds.iter().find(|(kind, _)| *kind == BlockKind::Filter).unwrap().1.bytes
}

/// Regression: lookups of present keys kept all filters in the cache, although the filters saved no
/// read and displaced data. Now such filters are evicted, and loaded again when absent keys are
/// looked up.
#[test]
fn filters_leave_that_save_less_than_data_in_their_place() {
    for form in [MetadataForm::Whole, MetadataForm::Parts] {
        let db = open(SMALL_CACHE, form, FilterKeys::Whole);
        look_up(&db, 2);
        let of_half = filter_bytes(&db);
        assert!(of_half > 100_000, "{form:?}: {of_half} bytes");
        let before = db.stats().tickers.get(Ticker::BlockCacheDataMiss);
        look_up(&db, 0);
        assert_eq!(filter_bytes(&db), 0, "{form:?}");
        look_up(&db, 0);
        let stats = db.stats();
        assert!(stats.tickers.get(Ticker::BloomPassedBy) > u64::from(LOOKUPS), "{form:?}");
        let misses = stats.tickers.get(Ticker::BlockCacheDataMiss) - before;
        assert!(misses > u64::from(LOOKUPS), "{form:?}: {misses} misses: all blocks fit");
        // If a tenth of the lookups are for absent keys, filters save more reads than data in their
        // place would, because they are much smaller than the data.
        look_up(&db, 10);
        assert_eq!(filter_bytes(&db), of_half, "{form:?}");
        let useful = |db: &Db| db.stats().tickers.get(Ticker::BloomUseful);
        let before = useful(&db);
        look_up(&db, 10);
        assert!(useful(&db) - before > u64::from(LOOKUPS) / 10 * 95 / 100, "{form:?}");
    }
}

/// `multi_get` also evicts filters while only present keys are looked up, and loads them again for
/// absent keys. It returns the right values in both cases.
#[test]
fn joint_lookups_weigh_filters_too() {
    let db = open(SMALL_CACHE, MetadataForm::Whole, FilterKeys::Whole);
    let look_up = |absent: &[u8]| {
        let mut rng = StdRng::seed_from_u64(8);
        for _ in 0..LOOKUPS / 32 {
            let numbers: Vec<u32> = (0..32).map(|_| rng.random_range(0..KEYS)).collect();
            let keys = numbers.iter().map(|&i| [&key(i)[..], absent].concat());
            let values = db.multi_get(&keys.collect::<Vec<_>>()).unwrap();
            for (i, value) in numbers.into_iter().zip(values) {
                assert_eq!(
                    value.map(|value| value.to_vec()),
                    absent.is_empty().then(|| i.to_le_bytes().to_vec())
                );
            }
        }
    };
    look_up(b"");
    assert_eq!(filter_bytes(&db), 0);
    look_up(b"?");
    assert!(filter_bytes(&db) > 100_000);
}

/// While lookups of present keys load a database into a large cache, they read many blocks. The
/// filters stay all the same, because they displace nothing.
#[test]
fn filters_stay_while_the_cache_has_room() {
    // A filter is weighed against data after each 1,024 lookups that have read a data block of its
    // table. The blocks are small, so that there are enough such lookups for each table.
    let db = open_with_blocks(512, 64 << 20, MetadataForm::Auto, FilterKeys::Whole);
    look_up(&db, 0);
    let misses = db.stats().tickers.get(Ticker::BlockCacheDataMiss);
    assert!(misses > 2 * 1024, "{misses} blocks were read");
    assert!(filter_bytes(&db) > 100_000);
    assert_eq!(db.stats().tickers.get(Ticker::BloomPassedBy), 0);
}

/// A filter of prefixes saves cursors from searching tables. The counters of lookups do not include
/// these searches. But another counter does, and the database adds both counts when it weighs the
/// filter against data. So the filter stays.
#[test]
fn filters_stay_that_save_searches_for_cursors() {
    let keys = FilterKeys::Both("capped(8)".parse().unwrap());
    let db = open(SMALL_CACHE, MetadataForm::Whole, keys);
    let mut rng = StdRng::seed_from_u64(9);
    for n in 0..LOOKUPS {
        let i = rng.random_range(0..KEYS);
        assert!(db.get(key(i)).unwrap().is_some());
        if n % 8 == 0 {
            // The prefix is within the range of a table, but no key has it.
            let prefix = format!("user{:03}.", i / 1000);
            assert!(db.prefix(&prefix).next().is_none());
        }
    }
    let saved = db.stats().tickers.get(Ticker::BloomPrefixUseful);
    assert!(saved > 1000, "{saved} seeks were saved");
    let loaded = db.stats().tickers.get(Ticker::BlockCacheFilterMiss);
    assert!(loaded <= 4, "the filters of the tables were loaded {loaded} times");
}
