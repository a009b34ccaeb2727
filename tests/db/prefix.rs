//! Filters of prefixes. If the extractor gives all keys of a range one prefix, iterators over the
//! range query the filters for this prefix, and skip most tables without a key that has it. They
//! never skip a table with a key of the range, whatever the extractor was when the table was
//! written.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use maypole::fs::{Fs, MemFs};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Compression, Db, FilterKeys, FilterPolicy, PrefixExtractor, Ticker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn extractor(text: &str) -> PrefixExtractor {
    text.parse().unwrap()
}

fn open(fs: &Arc<dyn Fs>, keys: FilterKeys, filter: &str) -> Db {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .filter(filter.parse::<FilterPolicy>().unwrap())
        .filter_keys(keys)
        .compression(Compression::None)
        .memtable_bytes(8 << 10)
        .block_bytes(256)
        .table_bytes(4 << 10)
        .level_base_bytes(16 << 10)
        .open()
        .unwrap()
}

/// No prefixes, or a random extractor.
fn random_keys(rng: &mut StdRng) -> FilterKeys {
    let extractor = match rng.random_range(0..5) {
        0 => PrefixExtractor::fixed(rng.random_range(1..8)),
        1 => PrefixExtractor::capped(rng.random_range(1..8)),
        2 => PrefixExtractor::delimiter(b'/', rng.random_range(1..4)),
        3 => PrefixExtractor::delimiter(0xff, 1),
        _ => return FilterKeys::Whole,
    };
    match rng.random_bool(0.5) {
        true => FilterKeys::Prefix(extractor.unwrap()),
        false => FilterKeys::Both(extractor.unwrap()),
    }
}

/// A key of few different bytes, so that keys share prefixes and are prefixes of each other. Some
/// keys are empty, some have 0x00 or 0xff, and to some an extractor gives no prefix.
fn random_key(rng: &mut StdRng) -> Vec<u8> {
    const LETTERS: [u8; 6] = [0x00, b'/', b'/', b'a', 0xfe, 0xff];
    (0..rng.random_range(0..9)).map(|_| LETTERS[rng.random_range(0..LETTERS.len())]).collect()
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn check_queries(db: &Db, map: &Map, rng: &mut StdRng) {
    let owned = |found: maypole::DbIterator| -> Map {
        found.map(|item| item.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    };
    let prefix = random_key(rng);
    let expected: Map = map
        .iter()
        .filter(|(k, _)| k.starts_with(&prefix))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert_eq!(owned(db.prefix(&prefix)), expected, "prefix {prefix:02x?}");

    let (lower, mut upper) = (random_key(rng), random_key(rng));
    if rng.random_bool(0.5) {
        // The two bounds share a prefix, so that the whole range more often has one prefix.
        upper = [&lower[..], &random_key(rng)].concat();
    }
    let (lower, upper) = if lower <= upper { (lower, upper) } else { (upper, lower) };
    let range = match rng.random_range(0..4) {
        0 => (Bound::Included(lower), Bound::Excluded(upper)),
        1 if lower != upper => (Bound::Excluded(lower), Bound::Included(upper)),
        2 => (Bound::Included(lower), Bound::Unbounded),
        _ => (Bound::Included(lower), Bound::Included(upper)),
    };
    let mut expected: Vec<_> = map.range(range.clone()).map(|(k, _)| k.clone()).collect();
    expected.reverse();
    let found: Vec<_> = db.range(range).rev().map(|item| item.unwrap().0.to_vec()).collect();
    assert_eq!(found, expected);

    let key = random_key(rng);
    assert_eq!(db.get(&key).unwrap().as_deref(), map.get(&key).map(|v| &v[..]), "{key:02x?}");
}

fn run(seed: u64, filter: &str) -> u64 {
    let rng = &mut StdRng::seed_from_u64(seed);
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let (mut map, mut skipped) = (Map::new(), 0);
    for _ in 0..6 {
        let keys = random_keys(rng);
        let db = open(&fs, keys, filter);
        for i in 0..1200 {
            let key = random_key(rng);
            match rng.random_range(0..10) {
                0..2 => {
                    db.delete(&key).unwrap();
                    map.remove(&key);
                }
                2 => check_queries(&db, &map, rng),
                _ => {
                    let value = format!("{seed}/{i}").into_bytes();
                    db.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
            }
        }
        if rng.random_bool(0.5) {
            db.flush().unwrap();
        }
        if rng.random_bool(0.2) {
            db.compact_range(..).unwrap();
        }
        (0..100).for_each(|_| check_queries(&db, &map, rng));
        assert_eq!(db.verify().unwrap().filter_misses, 0);
        skipped += db.stats().tickers.get(Ticker::BloomPrefixUseful);
        db.close().unwrap();
    }
    skipped
}

/// The extractor changes at each opening, so that the tree has tables of several extractors.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn whatever_the_extractor_was_ranges_and_lookups_answer_like_a_map() {
    let filters = ["bloom(10)", "ribbon(7)", "burr(7)"];
    let skipped: u64 = (0..9).map(|seed| run(seed, filters[seed as usize % 3])).sum();
    assert!(skipped > 100, "the filters were hardly queried: {skipped}");
}

/// A database of one table, which has a key for each of 40 users: the even numbers from 0 to 78.
fn users(keys: FilterKeys) -> Db {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = open(&fs, keys, "bloom(16)");
    for user in (0..80).step_by(2) {
        db.put(format!("user{user:02}/name"), "x").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.stats().files.len(), 1);
    db
}

fn count(db: &Db, ticker: Ticker) -> u64 {
    db.stats().tickers.get(ticker)
}

/// If a filter were never queried, no result would be wrong (rocksdb#9736). So only the counters
/// show that filters are queried.
#[test]
fn an_absent_prefix_costs_no_read_and_is_counted() {
    for keys in [FilterKeys::Prefix, FilterKeys::Both] {
        for text in ["fixed(6)", "capped(6)", "delimiter(0x2f, 1)"] {
            let db = users(keys(extractor(text)));
            let name = |user: usize| match text.starts_with("delimiter") {
                true => format!("user{user:02}/"),
                false => format!("user{user:02}"),
            };
            // Loads the filter.
            assert_eq!(db.prefix(name(1)).count(), 0, "{text}");
            let reads = count(&db, Ticker::FileReads);
            for user in (1..79).step_by(2) {
                assert_eq!(db.prefix(name(user)).count(), 0, "{text}");
                let range = format!("user{user:02}/a")..format!("user{user:02}/z");
                assert_eq!(db.range(range.clone()).count(), 0, "{text}");
                assert_eq!(db.snapshot().range(range).count(), 0, "{text}");
            }
            assert_eq!(count(&db, Ticker::FileReads), reads, "{text}: a read for an absent user");
            assert_eq!(count(&db, Ticker::BloomPrefixUseful), 1 + 3 * 39, "{text}");
            for user in (0..80).step_by(2) {
                assert_eq!(db.prefix(name(user)).count(), 1, "{text}");
            }
            assert!(count(&db, Ticker::BloomPrefixChecked) > 1 + 3 * 39);
        }
    }
}

#[test]
fn a_cursor_that_leaves_the_cache_alone_asks_the_filter_once() {
    let db = users(FilterKeys::Prefix(extractor("fixed(6)")));
    for (user, found) in [(21, false), (22, true)] {
        let checked = count(&db, Ticker::BloomPrefixChecked);
        let range = format!("user{user}/a")..format!("user{user}/z");
        let mut cursor = db.range_cursor(range).fill_cache(false);
        cursor.seek_to_first().unwrap();
        assert_eq!(cursor.valid(), found);
        assert_eq!(count(&db, Ticker::BloomPrefixChecked), checked + 1);
    }
}

#[test]
fn what_no_prefix_covers_asks_no_filter() {
    let db = users(FilterKeys::Both(extractor("delimiter(0x2f, 1)")));
    assert_eq!(db.prefix("user").count(), 40);
    assert_eq!(db.prefix("user5").count(), 5);
    assert_eq!(db.prefix("").count(), 40);
    assert_eq!(db.range("user10/".."user13/").count(), 2);
    assert_eq!(db.range("user10/"..).count(), 35);
    assert_eq!(count(&db, Ticker::BloomPrefixChecked), 0);
}

#[test]
fn a_lookup_asks_for_the_prefix_only_where_the_filter_holds_no_whole_keys() {
    let db = users(FilterKeys::Prefix(extractor("fixed(6)")));
    for user in 0..80 {
        assert_eq!(db.contains_key(format!("user{user:02}/name")).unwrap(), user % 2 == 0);
        assert!(!db.contains_key(format!("user{user:02}/else")).unwrap());
    }
    // This key is shorter than six bytes, so the extractor gives it no prefix.
    assert!(!db.contains_key("user5").unwrap());
    // Each of 80 users is looked up twice. Three of these lookups query no filter, because their
    // keys are outside of the table's range: both of user 79, and `user00/else`.
    assert_eq!(count(&db, Ticker::BloomPrefixChecked), 157);
    assert_eq!(count(&db, Ticker::BloomPrefixUseful), 78);
    assert_eq!(count(&db, Ticker::BloomPrefixTruePositive), 40);
    assert_eq!(count(&db, Ticker::BloomUseful), 0);
    let counts = db.stats().counts().filter;
    assert_eq!((counts.useful, counts.full_positive, counts.full_true_positive), (78, 79, 40));

    let db = users(FilterKeys::Both(extractor("fixed(6)")));
    assert!(!db.contains_key("user01/name").unwrap());
    assert_eq!(count(&db, Ticker::BloomUseful), 1);
    assert_eq!(count(&db, Ticker::BloomPrefixChecked), 0);
}

/// The filter of a table has the keys of tombstones too. So the filter of the newer table lets the
/// lookup find the tombstone, which hides the value in the older table.
#[test]
fn a_tombstone_hides_what_an_older_table_holds_of_its_prefix() {
    let db = users(FilterKeys::Prefix(extractor("fixed(6)")));
    db.put("user00/a", "x").unwrap();
    db.delete("user40/name").unwrap();
    db.put("user78/z", "x").unwrap();
    db.flush().unwrap();
    assert_eq!(db.prefix("user40").count(), 0);
    assert_eq!(db.get("user40/name").unwrap(), None);
    assert_eq!(db.prefix("user38").count(), 1);
}

/// An ingested table keeps the extractor with which it was written.
#[test]
fn an_ingested_table_is_asked_by_its_own_extractor() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = open(&fs, FilterKeys::Prefix(extractor("fixed(2)")), "bloom(16)");
    let filter_keys = FilterKeys::Both(extractor("delimiter(0x2f, 1)"));
    let options = TableOptions { filter_keys, ..TableOptions::default() };
    let mut writer = SstWriter::create_in(Arc::clone(&fs), "/in.sst", options).unwrap();
    for key in ["a", "abc/1", "abx", "ac/1", "zz/1"] {
        writer.put(key.as_bytes(), b"").unwrap();
    }
    writer.finish().unwrap();
    db.ingest(&["/in.sst"]).unwrap();
    assert_eq!(db.prefix("ab").count(), 2);
    assert_eq!(db.prefix("abc/").count(), 1);
    assert_eq!(db.prefix("abx").count(), 1);
    assert_eq!(count(&db, Ticker::BloomPrefixUseful), 0);
    assert_eq!(db.prefix("abd/").count(), 0);
    assert_eq!(count(&db, Ticker::BloomPrefixUseful), 1);
}
