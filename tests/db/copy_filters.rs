//! If a database is copied with other filters, the copy has the same filters as a database that was
//! written with them.

use std::path::Path;

use maypole::table::{MetadataForm, SstReader};
use maypole::{Compression, Db, FilterPolicy, Ticker};

use crate::files;

const KEYS: u64 = 30_000;

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(dir: &Path, policy: &str) -> Db {
    open_in_form(dir, policy, MetadataForm::Auto)
}

fn open_in_form(dir: &Path, policy: &str, form: MetadataForm) -> Db {
    let options = Db::builder(dir).filter(policy).compression(Compression::None).metadata(form);
    options.compaction_threads(1).memtable_bytes(8 << 20).open().unwrap()
}

/// A tree with all keys in the last level. Level 0 has newer values of a tenth of the keys, and a
/// range deletion.
fn grown_tree(dir: &Path, policy: &str) -> Db {
    grown(open(dir, policy))
}

fn grown(db: Db) -> Db {
    (0..KEYS).for_each(|n| db.put(key(n), [n as u8; 40]).unwrap());
    db.compact_range(..).unwrap();
    (0..KEYS / 10).for_each(|n| db.put(key(10 * n), [!n as u8; 40]).unwrap());
    db.delete_range(&[0xf0][..]..&[0xf1][..]).unwrap();
    db.flush().unwrap();
    db
}

/// The bytes of each part of each table's filter, in the order of the tables' first keys and
/// numbers of entries.
fn filters(dir: &Path) -> Vec<Vec<Vec<u8>>> {
    let mut filters: Vec<(Vec<u8>, u64, Vec<Vec<u8>>)> = files(dir, ".sst")
        .iter()
        .map(|path| {
            let table = SstReader::open(path).unwrap();
            let entries = table.properties().entries();
            // A table that has only a range deletion has no entry.
            let mut of_table = table.entries();
            let first = of_table.next_entry().unwrap().map(|entry| entry.user_key.to_vec());
            let first = first.unwrap_or_default();
            let filters = table.filters().unwrap();
            (first, entries, filters.iter().map(|filter| filter.bytes().to_vec()).collect())
        })
        .collect();
    filters.sort();
    filters.into_iter().map(|(_, _, bytes)| bytes).collect()
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_copy_has_the_filters_and_the_answers_of_a_database_that_was_made_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let base = grown_tree(&path("base"), "none");
    for (n, policy) in ["bloom(10)", "burr(6)", "ribbon(7)", "none"].into_iter().enumerate() {
        let (copy, made) = (path(&format!("copy {n}")), path(&format!("made {n}")));
        base.copy_with_filters(&copy, &policy.parse().unwrap()).unwrap();
        grown_tree(&made, policy).close().unwrap();
        assert_eq!(filters(&copy), filters(&made), "{policy}");
        let db = open(&copy, policy);
        db.verify().unwrap();
        for n in 0..KEYS {
            assert_eq!(db.get(key(n)).unwrap(), base.get(key(n)).unwrap(), "{policy}, key {n}");
        }
        // The copy is a database like any other.
        db.put("one", "more").unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(db.get("one").unwrap().unwrap(), b"more");
        db.close().unwrap();
    }
    // The tickers of `base`, which made the copies, have counted the keys of the three copies that
    // got filters, and no key of the copy without filters.
    let keys = base.stats().tickers.get(Ticker::FilterBuildKeys);
    assert!((3 * KEYS..4 * KEYS).contains(&keys), "{keys}");
    let error = base.copy_with_filters(path("copy 0"), &FilterPolicy::default()).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
}

/// A copy of a database in parts has its filters in parts too, cut at the same keys as in a
/// database that was written with these filters.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_copy_of_tables_in_parts_has_the_same_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let made = |name: &str, policy| grown(open_in_form(&path(name), policy, MetadataForm::Parts));
    for (from, policy) in [("none", "bloom(10)"), ("bloom(10)", "burr(6)"), ("burr(6)", "none")] {
        let base = made(&format!("base {from}"), from);
        base.copy_with_filters(path(&format!("copy {policy}")), &policy.parse().unwrap()).unwrap();
        made(&format!("made {policy}"), policy).close().unwrap();
        let copied = filters(&path(&format!("copy {policy}")));
        assert_eq!(copied, filters(&path(&format!("made {policy}"))), "{policy}");
        let most_parts = copied.iter().map(Vec::len).max().unwrap();
        assert!(if policy == "none" { most_parts == 0 } else { most_parts > 4 }, "{most_parts}");
        let copy = open(&path(&format!("copy {policy}")), policy);
        copy.verify().unwrap();
        for n in 0..KEYS {
            assert_eq!(copy.get(key(n)).unwrap(), base.get(key(n)).unwrap(), "{policy}, key {n}");
        }
    }
}

/// The policy chooses a filter for the current level of each table, not for the level for which the
/// table was written.
#[test]
fn each_level_gets_its_own_filter() {
    let dir = tempfile::tempdir().unwrap();
    let base = grown_tree(&dir.path().join("base"), "bloom(10)");
    let bits = |policy: &str| -> Vec<f64> {
        let copy = dir.path().join(policy.replace('/', " "));
        base.copy_with_filters(&copy, &policy.parse().unwrap()).unwrap();
        let db = open(&copy, policy);
        let levels = db.stats().levels;
        let levels = levels.iter().filter(|level| level.files > 0);
        levels.map(|level| level.filter_bytes as f64 * 8.0 / level.entries as f64).collect()
    };
    let levels = bits("levels(bloom(16), bloom(12), bloom(8))");
    assert!((levels[0] - 16.0).abs() < 0.5 && (levels[1] - 12.0).abs() < 0.5, "{levels:?}");
    let bottom = bits("bottommost_none(bloom(10))");
    assert!((bottom[0] - 10.0).abs() < 0.5 && bottom[1] == 0.0, "{bottom:?}");
    let budget = bits("budget(8/key, bloom)");
    assert!(budget[0] > budget[1] + 3.0 && budget[1] < 8.0, "{budget:?}");
}
