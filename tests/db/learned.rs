//! The policy `learned(…)`: bits go to the tables that are asked in vain, when tables are written
//! anyway.

use std::fs;
use std::path::Path;

use maypole::{Builder, Compression, Db, FileStats, Stats};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const KEYS: u32 = 60_000;
const LOOKUPS: u32 = 300_000;

fn key(n: u32) -> [u8; 4] {
    (2 * n).to_be_bytes()
}

/// A tree of one level, with about forty tables.
fn tables_of(dir: &Path, policy: &str) -> Builder {
    let builder = Db::builder(dir).filter(policy).compression(Compression::None);
    builder.table_bytes(64 << 10).compaction_threads(1)
}

fn filled(dir: &Path, policy: &str) -> Db {
    let db = tables_of(dir, policy).open().unwrap();
    (0..KEYS).for_each(|n| db.put(key(n), [7; 32]).unwrap());
    db.compact_all().unwrap();
    let tables = db.stats().files.len();
    assert!((30..60).contains(&tables), "{tables} tables");
    db
}

/// Looks up absent keys, nine of ten of them in the tenth of the keys that begins at `hot`.
fn look_up(db: &Db, hot: u32, seed: u64) {
    let rng = &mut StdRng::seed_from_u64(seed);
    for _ in 0..LOOKUPS {
        let n = match rng.random_range(0..10) {
            0 => rng.random_range(0..KEYS),
            _ => hot + rng.random_range(0..KEYS / 10),
        };
        assert!(!db.contains_key((2 * n + 1).to_be_bytes()).unwrap());
    }
}

fn bytes_of(file: &FileStats) -> u64 {
    file.filter.as_ref().map_or(0, |filter| filter.bytes)
}

fn false_positives(stats: &Stats) -> u64 {
    stats.counts().filter.false_positive() + stats.counts().unfiltered
}

/// The false positives of these lookups, and the bytes of all filters.
fn measured(db: &Db, hot: u32) -> (u64, u64) {
    let before = false_positives(&db.stats());
    look_up(db, hot, 2);
    let stats = db.stats();
    (false_positives(&stats) - before, stats.filter_bytes())
}

/// Rewrites every table, as later writes would.
fn rewrite(db: &Db) {
    (0..KEYS).step_by(50).for_each(|n| db.put(key(n), [8; 32]).unwrap());
    db.flush().unwrap();
    db.compact_all().unwrap();
}

fn assert_learned((learned, learned_bytes): (u64, u64), (same, same_bytes): (u64, u64)) {
    let bytes = learned_bytes as f64 / same_bytes as f64;
    assert!((0.97..1.03).contains(&bytes), "{learned_bytes} and {same_bytes} bytes of filters");
    let reads = learned as f64 / same as f64;
    assert!((0.1..0.25).contains(&reads), "{learned} and {same} false positives");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_compaction_gives_the_hot_tables_the_bits_of_the_cold_ones() {
    let dir = tempfile::tempdir().unwrap();
    let learned = filled(&dir.path().join("learned"), "learned(7/key, bloom)");
    let same = filled(&dir.path().join("same"), "budget(7/key, bloom)");
    let hot = 3 * KEYS / 10;
    // Before the first lookups the two policies give the same filters.
    let filters = |db: &Db| -> Vec<u64> { db.stats().files.iter().map(bytes_of).collect() };
    assert_eq!(filters(&learned), filters(&same));
    look_up(&learned, hot, 1);
    rewrite(&learned);
    rewrite(&same);
    assert_learned(measured(&learned, hot), measured(&same, hot));

    // The workload moves, and is followed once the old lookups have faded.
    let hot = 0;
    (3..8).for_each(|seed| look_up(&learned, hot, seed));
    rewrite(&learned);
    let (moved, same) = (measured(&learned, hot).0, measured(&same, hot).0);
    assert!(moved < same / 2, "{moved} and {same} false positives");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_was_asked_outlives_the_closing_and_is_applied_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let (path, hot) = (dir.path().join("learned"), KEYS / 2);
    let db = filled(&path, "learned(7/key, bloom)");
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0);
    look_up(&db, hot, 1);
    db.close().unwrap();

    let db = tables_of(&path, "learned(7/key, bloom)").open().unwrap();
    let report = db.apply_filter_policy().unwrap();
    assert!(report.refiltered > 20, "{report:?}");
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0);
    let same = filled(&dir.path().join("same"), "budget(7/key, bloom)");
    assert_learned(measured(&db, hot), measured(&same, hot));
    // The new tables have inherited what the old ones were asked.
    db.verify().unwrap();
    db.close().unwrap();
    let db = tables_of(&path, "learned(7/key, bloom)").open().unwrap();
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0);
}

/// Two compactions without a lookup between them: the second one knows what the first one knew.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn what_a_table_was_asked_outlives_its_compactions() {
    let dir = tempfile::tempdir().unwrap();
    let hot = KEYS / 2;
    let db = filled(&dir.path().join("learned"), "learned(7/key, bloom)");
    look_up(&db, hot, 1);
    rewrite(&db);
    rewrite(&db);
    let same = filled(&dir.path().join("same"), "budget(7/key, bloom)");
    assert_learned(measured(&db, hot), measured(&same, hot));
}

/// Whatever `ASKED` holds, the database opens, and without it the policy is a budget.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_missing_damaged_or_foreign_list_of_asks_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (path, policy) = (dir.path().join("db"), "learned(7/key, bloom)");
    let db = filled(&path, policy);
    look_up(&db, 0, 1);
    db.close().unwrap();
    let asked = path.join("ASKED");
    let whole = fs::read(&asked).unwrap();
    let damaged = [&whole[..whole.len() / 2], b"", b"\xff\xfe\0"];
    for bytes in damaged {
        fs::write(&asked, bytes).unwrap();
        let db = tables_of(&path, policy).open().unwrap();
        assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0);
        // The opening must not keep what it has read, because `close` writes the file again.
        drop(db);
    }
    fs::remove_file(&asked).unwrap();
    fs::create_dir(&asked).unwrap();
    let db = tables_of(&path, policy).open().unwrap();
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0);
    db.close().unwrap();
    fs::remove_dir(&asked).unwrap();
    // Another policy neither reads nor writes it.
    tables_of(&path, "bloom(10)").open().unwrap().close().unwrap();
    assert!(!asked.exists());
    fs::write(&asked, whole).unwrap();
    assert!(
        tables_of(&path, policy).open().unwrap().apply_filter_policy().unwrap().refiltered > 20
    );
    maypole::Db::destroy(&path).unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

/// Time series: no table is ever rewritten, and the memory is limited. Later tables must not pay for
/// the filters that the earlier ones hold.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_tree_that_only_grows_keeps_its_budget_and_leaves_no_table_without_a_filter() {
    const KEYS: u32 = 480_000;
    let dir = tempfile::tempdir().unwrap();
    let builder = tables_of(dir.path(), "learned(240KiB, bloom)").table_bytes(256 << 10);
    let db = builder.open().unwrap();
    for n in 0..KEYS {
        db.put(key(n), [7; 4]).unwrap();
        if n % (KEYS / 20) == 0 {
            db.flush().unwrap();
        }
        if n % 7 == 0 {
            db.contains_key((2 * n - n % 1000 + 1).to_be_bytes()).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let stats = db.stats();
    let bytes = stats.filter_bytes();
    assert!((180 << 10..260 << 10).contains(&bytes), "{bytes} bytes of filters");
    let without = stats.files.iter().filter(|file| bytes_of(file) == 0).count();
    assert!(without * 4 < stats.files.len(), "{without} of {} tables", stats.files.len());
}
