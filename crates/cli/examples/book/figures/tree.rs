//! Small databases in memory, and what their counters show.

use std::fmt::Write;
use std::sync::Arc;

use maypole::fs::MemFs;
use maypole::{Builder, Db, FilterKeys, FilterPolicy, PrefixExtractor, Ticker};

/// A database in memory. One thread compacts, so that the counts are the same each time the program
/// runs.
fn builder(filter: &str) -> Builder {
    Db::builder("/book")
        .fs(Arc::new(MemFs::new()))
        .filter(filter.parse::<FilterPolicy>().expect("a policy"))
        .compaction_threads(1)
}

fn key(i: u64) -> String {
    format!("user{i:08}")
}

/// Writes three tables whose key ranges overlap. Each table has every third key.
fn three_tables(db: &Db, keys: u64) {
    for table in 0..3 {
        for i in (table..keys).step_by(3) {
            db.put(key(2 * i), format!("value {i}")).unwrap();
        }
        db.flush().unwrap();
    }
}

pub fn why() -> String {
    let mut out =
        String::from("filter       lookups of        filters asked   said no   blocks searched\n");
    for filter in ["none", "bloom(10)"] {
        let db = builder(filter).open().unwrap();
        three_tables(&db, 6_000);
        for (what, odd) in [("absent keys", 1), ("present keys", 0)] {
            let before = db.stats().counts();
            (0..6_000)
                .for_each(|i| assert_eq!(db.get(key(2 * i + odd)).unwrap().is_some(), odd == 0));
            let after = db.stats().counts();
            writeln!(
                out,
                "{filter:<12} 6,000 {what:<14} {:>9} {:>9} {:>17}",
                after.filter.asked() - before.filter.asked(),
                after.filter.useful - before.filter.useful,
                after.data_blocks_examined - before.data_blocks_examined,
            )
            .unwrap();
        }
        db.close().unwrap();
    }
    out
}

pub fn read_path() -> String {
    let fs = Arc::new(MemFs::new());
    let open = || builder("bloom(10)").fs(Arc::clone(&fs) as _).open().unwrap();
    let db = open();
    for i in 0..6_000 {
        db.put(key(2 * i), format!("value {i}")).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = open();
    let mut out =
        String::from("lookup                 file reads of: filter   index   data   searched\n");
    let asked = [
        ("first, absent", key(4_001)),
        ("first, present", key(4_000)),
        ("the same again", key(4_000)),
        ("its neighbour", key(4_002)),
        ("far away", key(9_000)),
        ("absent", key(9_001)),
    ];
    for (what, key) in asked {
        let before = db.stats().tickers;
        db.get(&key).unwrap();
        let after = db.stats().tickers;
        let more = |ticker| after.get(ticker) - before.get(ticker);
        writeln!(
            out,
            "{what:<36} {:>8} {:>7} {:>6} {:>10}",
            more(Ticker::BlockCacheFilterMiss),
            more(Ticker::BlockCacheIndexMiss),
            more(Ticker::BlockCacheDataMiss),
            more(Ticker::DataBlocksExamined),
        )
        .unwrap();
    }
    db.close().unwrap();
    out
}

pub fn compaction() -> String {
    let mut out = String::from("flushes   keys written   keys put into filters   ÷\n");
    for flushes in [4, 8, 16, 32] {
        let db = builder("burr(7)").open().unwrap();
        let each = 500;
        for flush in 0..flushes {
            // The keys of each flush are spread over the whole key range, like the keys that users
            // write.
            for i in 0..each {
                db.put(key(i * flushes + flush), "value").unwrap();
            }
            db.flush().unwrap();
            db.wait_for_compaction().unwrap();
        }
        let built = db.stats().tickers.get(Ticker::FilterBuildKeys);
        let written = each * flushes;
        let times = built as f64 / written as f64;
        writeln!(out, "{flushes:<9} {written:>12} {built:>23}   {times:.2}").unwrap();
        db.close().unwrap();
    }
    out
}

pub fn prefixes() -> String {
    let rows = PrefixExtractor::delimiter(b'/', 1).unwrap();
    let mut out = String::from(
        "filters hold        bytes   get, absent: no   scan, absent: asked   no   range: asked\n",
    );
    let choices = [
        ("whole keys", FilterKeys::Whole),
        ("prefixes", FilterKeys::Prefix(rows)),
        ("both", FilterKeys::Both(rows)),
    ];
    for (name, keys) in choices {
        let db = builder("bloom(10)").filter_keys(keys).open().unwrap();
        for row in 0..500 {
            for column in 0..10 {
                db.put(format!("row{:06}/column{column}", 2 * row), "value").unwrap();
            }
        }
        db.flush().unwrap();
        let useful = |db: &Db| db.stats().counts().filter.useful;
        for row in 0..500 {
            // The row exists, the column does not.
            assert!(db.get(format!("row{:06}/column5x", 2 * row)).unwrap().is_none());
        }
        let gets = useful(&db);
        let tickers = || db.stats().tickers;
        let before = tickers();
        for row in 0..499 {
            assert_eq!(db.prefix(format!("row{:06}/", 2 * row + 1)).count(), 0);
        }
        let after = tickers();
        let more = |ticker| after.get(ticker) - before.get(ticker);
        let (asked, no) = (more(Ticker::BloomPrefixChecked), more(Ticker::BloomPrefixUseful));
        for row in 0..499 {
            // Each range goes from the end of one row to the start of the next existing row. Keys
            // with different prefixes could be in it, so a filter of prefixes is not queried.
            db.range(format!("row{:06}/x", 2 * row)..format!("row{:06}/", 2 * row + 2)).count();
        }
        let ranges =
            tickers().get(Ticker::BloomPrefixChecked) - after.get(Ticker::BloomPrefixChecked);
        let bytes = db.stats().filter_bytes();
        writeln!(out, "{name:<15} {bytes:>9} {gets:>17} {asked:>21} {no:>4} {ranges:>14}").unwrap();
        db.close().unwrap();
    }
    out
}

pub fn deletions() -> String {
    let db = builder("bloom(10)").open().unwrap();
    let mut out =
        String::from("after                        entries   keys in filters   keys found\n");
    let mut line = |what: &str| {
        let stats = db.stats();
        let keys: u64 =
            stats.files.iter().filter_map(|file| file.filter.as_ref()).map(|f| f.keys).sum();
        let entries: u64 = stats.files.iter().map(|file| file.entries).sum();
        let found = (0..6_000).filter(|&i| db.get(key(i)).unwrap().is_some()).count();
        writeln!(out, "{what:<28} {entries:>7} {keys:>17} {found:>12}").unwrap();
    };
    (0..6_000).for_each(|i| db.put(key(i), "value").unwrap());
    db.flush().unwrap();
    line("6,000 puts");
    // Compaction keeps what the snapshot sees.
    let snapshot = db.snapshot();
    (0..2_000).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    line("2,000 deletions");
    db.delete_range(key(2_000)..key(5_000)).unwrap();
    db.flush().unwrap();
    line("deletion of a range of 3,000");
    drop(snapshot);
    db.wait_for_compaction().unwrap();
    line("release of the snapshot");
    db.close().unwrap();
    out
}

/// The number of keys in the experiment with deletions.
pub const KEYS: u64 = 10_000;

/// The effect of deletions: the number of deleted keys, of entries of any kind in the tables, and
/// of live keys.
pub struct Dead {
    pub deleted: u64,
    pub entries: u64,
    pub alive: u64,
}

/// Deletes `percent` of the keys and waits for compaction.
pub fn dead_after(percent: u64) -> Dead {
    let db = builder("bloom(10)").open().unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), [7; 100]).unwrap());
    db.compact_all().unwrap();
    let deleted: Vec<u64> = (0..KEYS).filter(|i| i % 100 < percent).collect();
    deleted.iter().for_each(|&i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let entries = db.stats().files.iter().map(|file| file.entries).sum();
    let alive = db.iter().count() as u64;
    db.close().unwrap();
    Dead { deleted: deleted.len() as u64, entries, alive }
}

pub fn monitoring() -> String {
    let db = builder("bloom(10)").open().unwrap();
    three_tables(&db, 6_000);
    for i in 0..6_000 {
        db.get(key(2 * i + 1)).unwrap();
        if i % 4 == 0 {
            db.get(key(2 * i)).unwrap();
        }
    }
    let stats = db.stats();
    let counts = stats.counts().filter;
    let (low, high) = counts.fpr_interval_95().unwrap();
    let data: u64 = stats.levels.iter().map(|level| level.file_bytes).sum();
    let mut out = String::new();
    let percent = |rate: f64| format!("{:.3} %", rate * 100.0);
    writeln!(
        out,
        "1  observed rate   {} ({} to {}), predicted {}",
        percent(counts.observed_fpr().unwrap()),
        percent(low),
        percent(high),
        percent(stats.predicted_fpr().unwrap())
    )
    .unwrap();
    writeln!(
        out,
        "2  useful          {} of {} filters asked said no: {}",
        counts.useful,
        counts.asked(),
        percent(counts.useful as f64 / counts.asked() as f64)
    )
    .unwrap();
    writeln!(
        out,
        "3  filter bytes    {}: {} of the tables",
        stats.filter_bytes(),
        format_args!("{:.1} %", stats.filter_bytes() as f64 / data as f64 * 100.0)
    )
    .unwrap();
    writeln!(
        out,
        "4  broken          untrusted {}, failed builds {}",
        counts.untrusted,
        stats.tickers.get(Ticker::FilterBuildFailed)
    )
    .unwrap();
    db.close().unwrap();
    out
}
