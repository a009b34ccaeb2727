//! `explain` makes the lookup that `get` makes: the result is the same, and the same counters
//! change by the same amounts. The traces of many lookups add up to these amounts.

use std::path::{Path, PathBuf};

use maypole::explain::{FilterVerdict, LookupOutcome, LookupTrace, TableTrace};
use maypole::filter::Family;
use maypole::filter::inspect::QueryTrace;
use maypole::table::SstReader;
use maypole::{Builder, Db, FileStats, FilterKeys, FilterPolicy, PrefixExtractor, Ticker};
use tempfile::TempDir;

fn key(n: u64) -> String {
    format!("user{:08x}/{n}", (n as u32).wrapping_mul(0x9e37_79b9))
}

/// A database in which a lookup meets several levels, overlapping files of level 0, tombstones,
/// range deletions and old versions. The memtable is empty. Returns two copies of the database. If
/// `is_damaged`, the filter of the largest table is damaged in both.
fn two_copies(options: impl Fn(Builder) -> Builder, is_damaged: bool) -> (TempDir, [Db; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        options(Db::builder(dir.path().join(name)).memtable_bytes(64 << 10).table_bytes(64 << 10))
            .open()
            .unwrap()
    };
    let db = open("original");
    // After each flush, the compactions that are due run to their end. So the tree depends on the
    // writes alone, and not on when compactions start.
    let flush = || {
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    };
    for n in 0..4000 {
        db.put(key(n), vec![n as u8; 100]).unwrap();
    }
    db.delete_range("user3".."user38").unwrap();
    flush();
    db.compact_range(..).unwrap();
    for n in (0..4000).step_by(7) {
        db.put(key(n), "newer").unwrap();
    }
    flush();
    for n in (0..4000).step_by(11) {
        db.delete(key(n)).unwrap();
    }
    db.delete_range("userc".."userc8").unwrap();
    flush();
    for n in (0..4000).step_by(13) {
        db.put(key(n), "newest").unwrap();
    }
    db.delete_range("userf8".."userg").unwrap();
    flush();
    for n in (0..4000).step_by(17) {
        db.put(key(n), "last").unwrap();
    }
    // So few deletions that no compaction removes them.
    for n in (0..4000).step_by(400) {
        db.delete(key(n)).unwrap();
    }
    flush();
    let copies = ["one", "two"].map(|name| {
        let path = dir.path().join(name);
        db.checkpoint(&path).unwrap();
        if is_damaged {
            let tables = crate::files(&path, ".sst");
            let bytes = |table: &&PathBuf| table.metadata().unwrap().len();
            damage_filter(tables.iter().max_by_key(bytes).unwrap());
        }
        let copy = open(name);
        copy.wait_for_compaction().unwrap();
        copy
    });
    let files = copies.each_ref().map(|copy| {
        copy.stats().files.iter().map(|file| (file.level, file.file_bytes)).collect::<Vec<_>>()
    });
    assert!(files[0] == files[1], "{files:?}");
    let stats = copies[0].stats();
    let (level_0, deeper): (Vec<_>, Vec<_>) = stats.files.iter().partition(|it| it.level == 0);
    assert!(!deeper.is_empty(), "{stats}");
    let overlap = |a: &FileStats, b: &FileStats| a.smallest <= b.largest && b.smallest <= a.largest;
    let overlaps = |(i, a): (usize, &&FileStats)| level_0[..i].iter().any(|b| overlap(a, b));
    assert!(level_0.iter().enumerate().any(overlaps), "{stats}");
    (dir, copies)
}

/// Changes a byte of the table's filter. The file gets a new inode, because other names may be hard
/// links to the old one.
fn damage_filter(path: &Path) {
    let table = SstReader::open(path).unwrap();
    let is_filter = |name: &str| name.starts_with("fullfilter.");
    let handle = table.metaindex().iter().find(|(name, _)| is_filter(name)).unwrap().1;
    let mut bytes = std::fs::read(path).unwrap();
    bytes[handle.offset as usize + 10] ^= 1;
    drop(table);
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Keys to look up: present ones, and absent ones within the ranges of the tables and outside of
/// them.
fn asked() -> impl Iterator<Item = String> {
    (0..10_000).map(|n| match n % 5 {
        0 | 1 => key(n % 4000),
        2 | 3 => key(n + 1_000_000),
        _ => format!("{}{n}", ["a", "userzz", "user", "z"][n as usize % 4]),
    })
}

/// What the traces of many lookups add up to.
#[derive(Default)]
struct Sums {
    useful: u64,
    positive: u64,
    true_positive: u64,
    untrusted: u64,
    blocks: u64,
    reads: u64,
    read_bytes: u64,
    tombstones: u64,
    range_deletions: u64,
}

impl Sums {
    fn add(&mut self, table: &TableTrace) {
        if let Some(filter) = &table.filter {
            let verdict = filter.verdict;
            self.useful += u64::from(verdict == FilterVerdict::No);
            let maybe = verdict.is_maybe() && verdict != FilterVerdict::PassedBy;
            self.positive += u64::from(maybe);
            self.true_positive += u64::from(maybe && table.found.is_some());
            self.untrusted += u64::from(verdict == FilterVerdict::Untrusted);
            assert_eq!(filter.query.is_maybe(), verdict.is_maybe(), "{filter:?}");
        }
        self.blocks += table.blocks.len() as u64;
        let filter = table.filter.as_ref().map(|filter| filter.cost);
        let index = table.index.map(|index| index.cost);
        let blocks = table.blocks.iter().map(|block| block.cost);
        for cost in filter.into_iter().chain(index).chain(blocks) {
            self.reads += cost.reads;
            self.read_bytes += cost.read_bytes;
        }
    }
}

/// The name of the run whose cache is too small for the database.
const SMALL_CACHE: &str = "a small cache";

/// The name of the run in which a filter is damaged.
const DAMAGED: &str = "a damaged filter";

fn same_counters(name: &str, options: impl Fn(Builder) -> Builder) {
    let (_dir, [got, explained]) = two_copies(options, name == DAMAGED);
    let mut sums = Sums::default();
    let before = explained.stats();
    // Each key is looked up twice. The second time, everything that fits into the cache is in it.
    let keys: Vec<String> = asked().chain(asked()).collect();
    let values: Vec<_> = keys.iter().map(|key| got.get(key).unwrap().map(|v| v.to_vec())).collect();
    for (key, value) in keys.iter().zip(values) {
        let trace = explained.explain(key).unwrap();
        assert_eq!(trace.value.as_deref(), value.as_deref(), "{name}: {key}");
        trace.tables().for_each(|table| sums.add(table));
        sums.tombstones += u64::from(trace.outcome == LookupOutcome::Tombstone);
        sums.range_deletions += u64::from(trace.outcome == LookupOutcome::RangeDeletion);
    }
    let [got, explained] = [got, explained].map(|db| db.stats());
    // A reader in any other test can delay the release of memory that the cache has evicted. In a
    // small cache, such delays change what is evicted next, and so the counts of reads and of cache
    // hits and misses.
    let by_chance = |name: &str| name.contains("cache") || name.contains("read");
    let all_fits = name != SMALL_CACHE;
    for ((ticker, expected), (_, found)) in got.tickers.iter().zip(explained.tickers.iter()) {
        // A thread times its first read and then only some of its reads. So these two counters
        // depend on the thread's earlier reads.
        let is_time = matches!(ticker, Ticker::FileReadNanos | Ticker::FileReadsTimed);
        if !is_time && (all_fits || !by_chance(ticker.name())) {
            assert_eq!(found, expected, "{name}: {}", ticker.name());
        }
    }
    let counts = |stats: &maypole::Stats| {
        let of_file = |file: &maypole::FileStats| {
            let mut counts = file.counts;
            if !all_fits {
                (counts.reads, counts.read_bytes) = (0, 0);
            }
            (file.level, counts)
        };
        stats.files.iter().map(of_file).collect::<Vec<_>>()
    };
    assert_eq!(counts(&explained), counts(&got), "{name}");
    assert!(!all_fits || got.cache == explained.cache, "{name}");

    // The traces agree with the counters.
    let since = &explained.tickers - &before.tickers;
    let filters = explained.counts().filter;
    assert_eq!(since.get(Ticker::NumberKeysRead), 20_000);
    assert_eq!(sums.useful, filters.useful, "{name}");
    assert_eq!(sums.positive, filters.full_positive, "{name}");
    assert_eq!(sums.untrusted, filters.untrusted, "{name}");
    assert_eq!(sums.blocks, since.get(Ticker::DataBlocksExamined), "{name}");
    assert_eq!(sums.reads, since.get(Ticker::FileReads), "{name}");
    assert_eq!(sums.read_bytes, since.get(Ticker::FileReadBytes), "{name}");
    assert_eq!(sums.true_positive, filters.full_true_positive, "{name}");
    assert!(name == "no filter" || sums.useful > 1000 && sums.true_positive > 1000, "{name}");
    assert_eq!(sums.untrusted > 1000, name == DAMAGED, "{name}");
    assert!(sums.blocks > 1000, "{name}");
    assert!(sums.tombstones > 0 && sums.range_deletions > 0, "{name}");
}

fn filter(text: &str) -> impl Fn(Builder) -> Builder {
    let policy: FilterPolicy = text.parse().unwrap();
    move |options| options.filter(policy.clone())
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn ten_thousand_explains_count_what_ten_thousand_gets_count() {
    same_counters("bloom", filter("bloom(10)"));
    same_counters("ribbon", filter("ribbon(5)"));
    same_counters("burr", filter("burr(4)"));
    same_counters("no filter", filter("none"));
    same_counters(DAMAGED, filter("bloom(10)"));
    let small = filter("bloom(6)");
    same_counters(SMALL_CACHE, |options| small(options).block_cache_bytes(200 << 10));
    let keys = FilterKeys::Prefix(PrefixExtractor::capped(10).unwrap());
    same_counters("prefixes", |options| options.filter_keys(keys));
}

#[test]
fn every_end_of_a_lookup_is_told() {
    use LookupOutcome::{Absent, RangeDeletion, Tombstone, Value};
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let ends = |expected: &[(&str, LookupOutcome)]| {
        for &(key, outcome) in expected {
            let trace = db.explain(key).unwrap();
            assert_eq!(trace.outcome, outcome, "{key}: {trace:?}");
            assert_eq!(trace.value.is_some(), outcome == Value, "{key}");
        }
    };
    ends(&[("a", Absent)]);
    for key in ["a", "c", "e", "f", "k"] {
        db.put(key, "value").unwrap();
    }
    let snapshot = db.snapshot();
    db.delete("c").unwrap();
    db.delete_range("e".."g").unwrap();
    db.put("f", "newer").unwrap();
    let expected = [
        ("a", Value),
        ("b", Absent),
        ("c", Tombstone),
        ("e", RangeDeletion),
        ("ee", RangeDeletion),
        ("f", Value),
        ("zebra", Absent),
    ];
    ends(&expected);
    assert_eq!(db.explain("a").unwrap().memtables.len(), 1);
    db.flush().unwrap();
    ends(&expected);
    assert!(db.explain("a").unwrap().memtables.is_empty());
    // A snapshot sees its own state.
    let seen = |key: &str| snapshot.explain(key).unwrap();
    assert_eq!((seen("c").outcome, seen("e").outcome), (Value, Value));
    assert_eq!(seen("c").sequence, snapshot.sequence());

    // The values are in a lower level now, with tombstones above them. No compaction merges the two,
    // because the snapshot sees the values.
    db.compact_range(..).unwrap();
    db.delete("a").unwrap();
    db.delete_range("k".."l").unwrap();
    db.put("x", "above").unwrap();
    db.flush().unwrap();
    ends(&[("a", Tombstone), ("k", RangeDeletion), ("f", Value), ("x", Value)]);
    let spared: Vec<usize> =
        ["a", "f", "zebra"].map(|key| db.explain(key).unwrap().levels_spared).into();
    assert_eq!(spared, [1, 0, 0]);
    let zebra = db.explain("zebra").unwrap();
    let levels: Vec<(usize, bool)> =
        zebra.levels.iter().map(|level| (level.level, level.file.is_some())).collect();
    assert_eq!(levels, [(0, false), (6, false)]);
}

/// The filter results of the tables that a lookup reached, in order.
fn verdicts(trace: &LookupTrace) -> Vec<FilterVerdict> {
    trace.tables().map(|table| table.filter.as_ref().unwrap().verdict).collect()
}

#[test]
fn a_trace_says_what_filters_spared_and_what_they_could_not() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path()).filter("bloom(3)").open().unwrap();
    // Three files of level 0 with the same range.
    for file in 0..3 {
        for n in 0..1000 {
            db.put(format!("{:04}/{file}", n), [b'v'; 50]).unwrap();
        }
        db.flush().unwrap();
    }
    let [mut noes, mut false_positives] = [0; 2];
    for n in 0..300 {
        let trace = db.explain(format!("{n:04}/x")).unwrap();
        let [cost, without] = [trace.cost(), trace.cost_without_filters()];
        let said = verdicts(&trace);
        let no = said.iter().filter(|&&verdict| verdict == FilterVerdict::No).count() as u64;
        assert_eq!((said.len(), without.tables, without.blocks), (3, 3, 3));
        assert_eq!((cost.tables, cost.blocks), (3 - no, 3 - no));
        assert_eq!(no > 0, without.block_bytes > cost.block_bytes);
        noes += no;
        false_positives += 3 - no;
        for table in trace.tables() {
            let filter = table.filter.as_ref().unwrap();
            let QueryTrace::Line { bits, line, lines, line_bytes: 64 } = &filter.query else {
                panic!("{filter:?}");
            };
            assert!(filter.family == Some(Family::Bloom) && line < lines && bits.len() == 2);
            assert_eq!(filter.bytes as u32, lines * 64 + 5);
            assert_eq!(table.was_skipped(), filter.verdict == FilterVerdict::No);
            assert_eq!(table.index.is_none(), table.was_skipped());
        }
    }
    // At three bits a key, about a quarter of the answers for absent keys are wrong.
    assert!(noes > 500 && false_positives > 100, "{noes} {false_positives}");
    let trace = db.explain("0007/0").unwrap();
    assert_eq!(verdicts(&trace).last(), Some(&FilterVerdict::TruePositive));
}

#[test]
fn a_damaged_filter_is_told_and_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    for n in 0..100 {
        db.put(format!("{n:03}"), "value").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    damage_filter(&crate::files(dir.path(), ".sst").pop().unwrap());

    let db = Db::open(dir.path()).unwrap();
    for (key, outcome) in [
        ("050", LookupOutcome::Value),
        ("050x", LookupOutcome::Absent),
        ("051", LookupOutcome::Value),
    ] {
        let trace = db.explain(key).unwrap();
        assert_eq!(trace.outcome, outcome);
        assert_eq!(verdicts(&trace), [FilterVerdict::Untrusted]);
        let filter = trace.tables().next().unwrap().filter.clone().unwrap();
        assert_eq!(filter.query, QueryTrace::Untrusted("its bytes are damaged"));
        assert_eq!((filter.family, trace.cost().blocks), (None, 1));
    }
}
