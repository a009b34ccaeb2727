//! A filter budget, such as `budget(8/key, bloom)`, limits the bytes of all filters together. It
//! holds for the current tree, although older tables got their filters when the tree was smaller.

use maypole::table::{MetadataForm, SstReader};
use maypole::{Compression, Db, WriteBatch};

use crate::files;

const KEYS: u64 = 60_000;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A tree of sorted writes: every table moves to the last level as it is, with a filter that was
/// chosen when the tree was smaller. Then overwrites fill the levels above.
fn grown_tree(dir: &std::path::Path, policy: &str, form: MetadataForm) -> Db {
    let db = Db::builder(dir)
        .filter(policy)
        .metadata(form)
        .compression(Compression::None)
        .memtable_bytes(1 << 20)
        .table_bytes(1 << 20)
        .level_base_bytes(64 << 10)
        .open()
        .unwrap();
    let rewritten = (0..KEYS / 16).map(|n| n.wrapping_mul(7919) % KEYS);
    let mut batch = WriteBatch::new();
    for n in (0..KEYS).chain(rewritten) {
        batch.put(key(2 * n), [n as u8; 40]);
        if batch.len() == 100 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.write(batch).unwrap();
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    db
}

/// The mean number of filters that say maybe, and so make a lookup of an absent key search their
/// table in vain.
fn wasted(db: &Db) -> f64 {
    let before = positives(db);
    for n in 0..KEYS {
        assert!(db.get(key(2 * n + 1)).unwrap().is_none());
    }
    (positives(db) - before) as f64 / KEYS as f64
}

fn positives(db: &Db) -> u64 {
    db.stats().tickers.get(maypole::Ticker::BloomFullPositive)
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_budget_holds_after_a_sorted_load_and_spends_its_bits_better_than_uniform_ones() {
    let dir = tempfile::tempdir().unwrap();
    let budget_bytes = KEYS * 8 / 8;
    let uniform = grown_tree(&dir.path().join("uniform"), "bloom(8)", MetadataForm::Auto);
    let uniform_wasted = wasted(&uniform);
    for (policy, form) in [
        (format!("budget({budget_bytes}B, bloom)"), MetadataForm::Auto),
        ("budget(8/key, bloom)".into(), MetadataForm::Auto),
        ("budget(8/key, bloom)".into(), MetadataForm::Parts),
    ] {
        let path = dir.path().join(format!("{} {form:?}", policy.replace('/', " ")));
        let db = grown_tree(&path, &policy, form);
        let stats = db.stats();
        let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
        let allowed = if policy.contains("key") { entries } else { budget_bytes };
        let held = stats.filter_bytes();
        // Tables are rewritten only if all filters together exceed the budget by more than a
        // twentieth.
        assert!(held as f64 <= 1.06 * allowed as f64, "{policy}: {held} of {allowed}\n{stats}");
        assert!(held as f64 >= 0.6 * allowed as f64, "{policy}: {held} of {allowed}\n{stats}");
        let wasted = wasted(&db);
        assert!(wasted < uniform_wasted, "{policy}: {wasted} against {uniform_wasted}\n{stats}");
        db.close().unwrap();
        // The bytes of all parts count, and those of the lists of the parts, which are few.
        let tables = files(&path, ".sst").into_iter().map(|path| SstReader::open(path).unwrap());
        let filters: Vec<_> = tables.map(|table| table.filters().unwrap()).collect();
        assert_eq!(filters.iter().any(|parts| parts.len() > 1), form == MetadataForm::Parts);
        let parts_bytes: usize = filters.iter().flatten().map(|part| part.bytes().len()).sum();
        let parts_bytes = parts_bytes as u64;
        assert!((parts_bytes..=parts_bytes + parts_bytes / 25).contains(&held), "{policy}: {held}");
    }
}
