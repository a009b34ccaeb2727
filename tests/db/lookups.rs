//! `get`, `multi_get` and `explain` are one lookup: on random trees they find the same, and count the
//! same.

use maypole::table::MetadataForm;
use maypole::{Builder, Db, FilterKeys, FilterPolicy, PrefixExtractor, Ticker, Tickers};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Keys with long shared prefixes, short ones, and one that is empty.
fn key(rng: &mut StdRng) -> Vec<u8> {
    match rng.random_range(0..20) {
        0 => Vec::new(),
        1..4 => vec![rng.random_range(b'a'..b'f'); rng.random_range(1..3)],
        _ => format!("user{:05}", rng.random_range(0..20_000)).into_bytes(),
    }
}

/// Options drawn at random, the same for all copies of a tree.
fn options(seed: u64) -> impl Fn(Builder) -> Builder {
    let rng = &mut StdRng::seed_from_u64(seed);
    let policies = ["none", "bloom(4)", "bloom(10)", "ribbon(7)", "burr(5)", "fuse(8)"];
    let policy: FilterPolicy = policies.choose(rng).unwrap().parse().unwrap();
    let extractor = PrefixExtractor::capped(rng.random_range(5..9)).unwrap();
    let keys = match rng.random_range(0..4) {
        0 => FilterKeys::Prefix(extractor),
        1 => FilterKeys::Both(extractor),
        _ => FilterKeys::Whole,
    };
    let metadata = [MetadataForm::Whole, MetadataForm::Parts][rng.random_range(0..2)];
    let (table_bytes, block_bytes) = (rng.random_range(8..200) << 10, rng.random_range(400..6000));
    move |builder| {
        builder
            .filter(policy.clone())
            .filter_keys(keys)
            .metadata(metadata)
            .table_bytes(table_bytes)
            .block_bytes(block_bytes)
            .memtable_bytes(1 << 20)
    }
}

/// Writes, flushes and compacts at random.
fn grow(db: &Db, rng: &mut StdRng) {
    for _ in 0..rng.random_range(3..9) {
        for _ in 0..rng.random_range(1..1500) {
            let value = vec![rng.random(); rng.random_range(0..200)];
            match rng.random_range(0..12) {
                0 => db.delete(key(rng)).unwrap(),
                _ => db.put(key(rng), value).unwrap(),
            }
        }
        if rng.random_bool(0.4) {
            let from = key(rng);
            let to = [&from[..], &[b'5'][..]].concat();
            db.delete_range(from..to).unwrap();
        }
        match rng.random_range(0..5) {
            0 => db.compact_range(..).unwrap(),
            1 => {}
            _ => db.flush().unwrap(),
        }
    }
}

/// What the counters of two copies may differ in.
fn may_differ(ticker: Ticker) -> bool {
    use Ticker::{FileReadNanos, FileReadsTimed, NumberMultigetCalls, NumberMultigetKeysRead};
    matches!(ticker, FileReadNanos | FileReadsTimed | NumberMultigetCalls | NumberMultigetKeysRead)
}

fn same(one: &Tickers, other: &Tickers, what: &str) {
    for ((ticker, expected), (_, found)) in one.iter().zip(other.iter()) {
        assert!(
            may_differ(ticker) || found == expected,
            "{what}, {}: {found}, and get {expected}",
            ticker.name()
        );
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn one_key_many_keys_and_explain_find_and_count_the_same() {
    for seed in 0..24 {
        let (rng, options) = (&mut StdRng::seed_from_u64(seed), options(seed));
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| options(Db::builder(dir.path().join(name))).open().unwrap();
        let db = open("original");
        grow(&db, rng);
        // So the copies keep their shape.
        db.wait_for_compaction().unwrap();
        // The copies have the same tables, and the same last writes in their memtables.
        let copies = ["get", "multi_get", "explain"].map(|name| {
            db.checkpoint(dir.path().join(name)).unwrap();
            let copy = open(name);
            copy.wait_for_compaction().unwrap();
            copy
        });
        for _ in 0..rng.random_range(0..100) {
            let (key, value) = (key(rng), [rng.random(); 9]);
            let deletes = rng.random_bool(0.3);
            for copy in &copies {
                match deletes {
                    true => copy.delete(&key).unwrap(),
                    false => copy.put(&key, value).unwrap(),
                }
            }
        }
        let keys: Vec<Vec<u8>> = (0..1500).map(|_| key(rng)).collect();
        let mut counted = Vec::new();
        // In the second round everything is in memory.
        for _ in 0..2 {
            let [got, many, explained] = &copies;
            let before = copies.each_ref().map(|copy| copy.stats().tickers);
            let values: Vec<_> = keys.iter().map(|key| got.get(key).unwrap()).collect();
            let mut at = 0;
            while at < keys.len() {
                let end = keys.len().min(at + rng.random_range(1..200));
                assert_eq!(many.multi_get(&keys[at..end]).unwrap(), values[at..end], "{seed}");
                at = end;
            }
            for (key, value) in keys.iter().zip(&values) {
                assert_eq!(explained.explain(key).unwrap().value, *value, "{seed}: {key:?}");
            }
            let since = copies.each_ref().map(|copy| copy.stats().tickers);
            counted = since.iter().zip(&before).map(|(since, before)| since - before).collect();
            same(&counted[0], &counted[2], &format!("explain {seed}"));
        }
        same(&counted[0], &counted[1], &format!("multi_get {seed}"));
        let files = copies.each_ref().map(|copy| {
            copy.stats().files.iter().map(|file| file.counts.filter).collect::<Vec<_>>()
        });
        assert!(files[0] == files[1] && files[0] == files[2], "{seed}: counts by file");
    }
}
