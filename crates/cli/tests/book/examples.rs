//! Code that the book's chapters show and that is in no other file. Each chapter's code is a test
//! here.

use std::sync::Arc;

use maypole::filter::{FilterBuilder, FilterReader, FilterSpec};
use maypole::fs::MemFs;
use maypole::{Db, FilterKeys, FilterPolicy, PrefixExtractor, hash64};

use super::figures::family;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn filter_of(keys: std::ops::Range<u32>) -> FilterReader {
    let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0).unwrap());
    keys.for_each(|key| builder.add(hash64(&key.to_be_bytes())));
    let block = builder.finish().unwrap();
    FilterReader::from_bytes(block.bytes(), block.encoding())
}

#[test]
fn by_hand() -> Outcome {
    let mut builder = FilterBuilder::new(FilterSpec::bloom(10.0)?);
    for fruit in ["apple", "pear", "plum"] {
        builder.add(hash64(fruit.as_bytes()));
    }
    let block = builder.finish().expect("three keys make a filter");
    let filter = FilterReader::from_bytes(block.bytes(), block.encoding());
    assert!(filter.may_contain(hash64(b"plum")));
    assert!(!filter.may_contain(hash64(b"quince")));
    Ok(())
}

#[test]
fn hashing() {
    let filters = [filter_of(0..100), filter_of(100..200)];
    let hash = hash64(b"user00000042");
    let answers: Vec<bool> = filters.iter().map(|filter| filter.may_contain(hash)).collect();
    assert_eq!(answers, [false, false]);
}

#[test]
fn budgets() -> Outcome {
    let dir = tempfile::tempdir()?;
    let policy: FilterPolicy = "budget(64MiB, burr)".parse()?;
    let db = Db::builder(dir.path()).filter(policy).open()?;
    db.close()?;
    Ok(())
}

#[test]
fn prefixes() -> Outcome {
    let dir = tempfile::tempdir()?;
    let row = PrefixExtractor::delimiter(b'/', 1)?;
    let db = Db::builder(dir.path()).filter_keys(FilterKeys::Both(row)).open()?;
    db.put("row7/name", "Ada")?;
    assert_eq!(db.prefix("row7/").count(), 1);
    assert_eq!(db.prefix("row8/").count(), 0);
    Ok(())
}

#[test]
fn a_family_believes_nothing_and_misses_nothing() {
    for keys in [1, 2, 40, 41, 1_000, 5_000] {
        let hashes: Vec<u64> =
            (0..keys).map(|i| hash64(format!("{keys} {i}").as_bytes())).collect();
        let block = family::build(&hashes).expect("no line is full");
        let shape = family::parse(&block).unwrap();
        assert!(hashes.iter().all(|&hash| shape.may_contain(&block, hash)), "{keys} keys");
        for cut in (0..block.len()).rev().take(200) {
            assert!(family::parse(&block[..cut]).is_err(), "{cut} bytes of {}", block.len());
        }
    }
    assert!(family::parse(&[0xff; 68]).is_err(), "a trailer that promises too much");
    assert!(family::build(&[7; 1_000]).is_some(), "one key, many times");
    let crowded: Vec<u64> = (0..1_000).collect();
    assert!(family::build(&crowded).is_none(), "all keys on one line");
}

#[test]
fn monitoring() -> Outcome {
    let db = Db::builder("/book").fs(Arc::new(MemFs::new())).open()?;
    let stats = db.stats();
    for level in &stats.levels {
        let observed = level.counts.filter.observed_fpr();
        println!("level {}: {observed:?}, predicted {:?}", level.level, level.predicted_fpr);
    }
    Ok(())
}
