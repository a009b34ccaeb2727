//! The settings of other engines and their equivalents here. Each row of the tables in
//! `docs/book/src/knobs.md` that claims an equivalent has a test. The name of a test that runs
//! RocksDB's own tools begins with `tools`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use maypole::filter::{Family, FilterBuilder, FilterSpec};
use maypole::fs::MemFs;
use maypole::table::{MetadataForm, SstReader, SstWriter, TableOptions};
use maypole::{
    BlockCache, BlockKind, Builder, Compression, Db, FilterKeys, PinMetadata, PrefixExtractor,
    Ticker, hash64,
};

fn builder(policy: &str) -> Builder {
    Db::builder("/knobs")
        .fs(Arc::new(MemFs::new()))
        .filter(policy)
        .compression(Compression::None)
        .table_bytes(64 << 10)
        .level_base_bytes(128 << 10)
        .compaction_threads(1)
}

/// The number of flushes. At four tables, a compaction empties level 0. Fourteen is two more than a
/// multiple of four, so that two tables are left in level 0.
const ROUNDS: u32 = 14;
/// The number of keys in one flush.
const ROUND: u32 = 2_000;

/// Fills a database until level 0 and two levels below hold tables.
fn grown(builder: Builder) -> Db {
    let db = builder.open().unwrap();
    for round in 0..ROUNDS {
        for i in 0..ROUND {
            let key = hash64(&(round * ROUND + i).to_le_bytes());
            db.put(key.to_be_bytes(), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    }
    let levels: Vec<usize> = db.stats().levels.iter().map(|level| level.level).collect();
    assert!(levels.len() >= 3 && levels[0] == 0, "{levels:?}");
    db
}

fn read_all(db: &Db) {
    for i in 0..ROUNDS * ROUND {
        assert!(db.contains_key(hash64(&i.to_le_bytes()).to_be_bytes()).unwrap());
    }
}

/// The filter families of the tables in level 0, in the levels between, and in the last level.
/// Tables of few keys do not count: a ribbon of few keys would be larger than a Bloom filter, so
/// they get a Bloom filter instead.
fn families(db: &Db) -> [BTreeSet<String>; 3] {
    let stats = db.stats();
    let last = stats.files.iter().map(|file| file.level).max().unwrap();
    let mut families: [BTreeSet<String>; 3] = Default::default();
    for file in stats.files.iter().filter(|file| file.entries >= 200) {
        let family = file.filter.as_ref().and_then(|filter| filter.family);
        let place = if file.level == 0 { 0 } else { 1 + usize::from(file.level == last) };
        families[place].insert(family.map_or("none".into(), |family| family.to_string()));
    }
    families
}

fn assert_families(policy: &str, expected: [&str; 3]) {
    let found = families(&grown(builder(policy)));
    assert_eq!(found, expected.map(|name| BTreeSet::from([name.to_string()])), "{policy}");
}

/// A table of the keys `key(0)` to `key(keys - 1)`, in a temporary directory.
fn table(keys: u32, key: impl Fn(u32) -> String, options: TableOptions) -> SstReader {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("knobs.sst");
    let mut writer = SstWriter::create(&path, options).unwrap();
    (0..keys).for_each(|i| writer.put(key(i).as_bytes(), b"value").unwrap());
    writer.finish().unwrap();
    // The directory is deleted at the end of this function, but the reader keeps the file open.
    SstReader::open(&path).unwrap()
}

fn with_filter(filter: &str) -> TableOptions {
    TableOptions { filter: filter.parse().unwrap(), ..TableOptions::default() }
}

// -- RocksDB
// ------------------------------------------------------------------------------------------

/// RocksDB's filters for the keys of `keys.txt` are stored in the repository, with the package of the
/// filters. Maypole builds the same bytes for these keys.
#[test]
fn rocksdb_bloom_and_ribbon_policies_store_the_same_bytes() {
    let data =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/filter/tests/data/rocksdb-filters");
    if !data.exists() {
        println!("skipped: this is a downloaded package, without the filters' own");
        return;
    }
    let keys = std::fs::read_to_string(data.join("keys.txt")).unwrap();
    for (spec, file) in [("bloom(10)", "bloom.filter"), ("ribbon_like_bloom(10)", "ribbon.filter")]
    {
        let mut builder = FilterBuilder::new(spec.parse().unwrap());
        for number in keys.lines().map(|line| line.parse::<u64>().unwrap()) {
            // Keys in the form of db_bench.
            builder.add(hash64(&[&number.to_be_bytes()[..], b"00000000"].concat()));
        }
        let ours = builder.finish().unwrap();
        assert!(std::fs::read(data.join(file)).unwrap() == ours.bytes(), "{spec}");
    }
}

#[test]
fn rocksdb_bloom_before_level_is_a_list_of_levels() {
    assert_families("levels(bloom(10), ribbon_like_bloom(10))", ["bloom", "ribbon", "ribbon"]);
    // The second filter applies to the first level below level 0 that holds data, here the only one
    // between level 0 and the last. Some tables of the last level have it too: they were written
    // while no other level below level 0 held data.
    let [first, second, last] =
        families(&grown(builder("levels(bloom(10), bloom(10), ribbon_like_bloom(10))")));
    let bloom = BTreeSet::from(["bloom".to_string()]);
    assert!(first == bloom && second == bloom && last.contains("ribbon"), "{last:?}");
    assert_families("ribbon_like_bloom(10)", ["ribbon"; 3]);
    assert_families("bloom(10)", ["bloom"; 3]);
}

#[test]
fn rocksdb_optimize_filters_for_hits_leaves_the_last_level_without() {
    assert_families("bottommost_none(bloom(10))", ["bloom", "bloom", "none"]);
}

#[test]
fn rocksdb_partition_filters_is_metadata_in_parts() {
    let options = TableOptions { metadata: MetadataForm::Parts, ..with_filter("bloom(10)") };
    let table = table(10_000, |i| format!("{i:08}"), options);
    let has = |name: &str| table.metaindex().iter().any(|(there, _)| there == name);
    assert!(has("partitionedfilter.rocksdb.BuiltinBloomFilter"));
    assert!(table.filters().unwrap().len() > 1);
    assert!((0..10_000).all(|i| table.may_contain(format!("{i:08}").as_bytes()).unwrap()));
}

#[test]
fn rocksdb_cache_index_and_filter_blocks_is_always_on() {
    let cache = BlockCache::new(8 << 20);
    let db = grown(builder("bloom(10)").block_cache(Arc::clone(&cache)));
    read_all(&db);
    let filters = db.stats().filter_bytes() as usize;
    assert!(cache.usage_of(BlockKind::Filter).bytes >= filters, "{filters} bytes of filters");
    assert!(cache.usage_of(BlockKind::Index).bytes > 0);
}

#[test]
fn rocksdb_pin_l0_filter_and_index_blocks_in_cache_is_pin_metadata() {
    let pinned = |pin: PinMetadata| {
        let cache = BlockCache::new(8 << 20);
        let db = grown(builder("bloom(10)").block_cache(Arc::clone(&cache)).pin_metadata(pin));
        // Lookups load filters and indexes, and pinned ones stay.
        read_all(&db);
        let with_level_0 = cache.pinned_usage();
        db.compact_range(..).unwrap();
        read_all(&db);
        (with_level_0, cache.pinned_usage())
    };
    let (none, _) = pinned(PinMetadata::None);
    let (some, all_below) = pinned(PinMetadata::Level0);
    let (all, _) = pinned(PinMetadata::All);
    assert!(none < some && some < all, "{none}, {some}, {all}");
    assert!(all_below < some, "level 0 is empty: {all_below} of {some}");
}

/// The properties of a table name its extractor as RocksDB does, so that RocksDB uses the filter.
#[test]
fn rocksdb_prefix_extractors_and_whole_key_filtering_are_what_the_properties_say() {
    let fixed = PrefixExtractor::fixed(4).unwrap();
    let capped = PrefixExtractor::capped(4).unwrap();
    for (keys, name, whole, prefixes) in [
        (FilterKeys::Whole, "nullptr", "1", "0"),
        (FilterKeys::Prefix(fixed), "rocksdb.FixedPrefix.4", "0", "1"),
        (FilterKeys::Both(fixed), "rocksdb.FixedPrefix.4", "1", "1"),
        (FilterKeys::Both(capped), "rocksdb.CappedPrefix.4", "1", "1"),
    ] {
        let reader = table(
            100,
            |i| format!("{i:08}"),
            TableOptions { filter_keys: keys, ..with_filter("bloom(10)") },
        );
        let property = |wanted: &str| {
            let found = reader.properties().iter().find(|(name, _)| name == wanted);
            found.map_or("absent".to_string(), |(_, value)| value.to_string())
        };
        assert_eq!(property("rocksdb.prefix.extractor.name"), name, "{keys:?}");
        assert_eq!(property("rocksdb.block.based.table.whole.key.filtering"), whole, "{keys:?}");
        assert_eq!(property("rocksdb.block.based.table.prefix.filtering"), prefixes, "{keys:?}");
    }
}

// -- Cassandra
// ----------------------------------------------------------------------------------------

#[test]
fn cassandra_bloom_filter_fp_chance_is_a_rate() {
    const ABSENT: u32 = 200_000;
    let mut bytes = Vec::new();
    for chance in [0.1, 0.01, 0.001] {
        let reader = table(20_000, |i| format!("{i:08}"), with_filter(&format!("fpr({chance})")));
        let passed =
            (0..ABSENT).filter(|i| reader.may_contain(format!("no {i}").as_bytes()).unwrap());
        let rate = passed.count() as f64 / f64::from(ABSENT);
        assert!((0.6..1.2).contains(&(rate / chance)), "{chance}: {rate}");
        bytes.push(reader.filter().unwrap().unwrap().bytes as f64);
    }
    let ratios = [bytes[1] / bytes[0], bytes[2] / bytes[1]];
    assert!((1.8..2.3).contains(&ratios[0]) && (1.4..1.7).contains(&ratios[1]), "{ratios:?}");
    let reader = table(100, |i| format!("{i:08}"), with_filter("fpr(1)"));
    assert_eq!(reader.filter().unwrap(), None, "1.0 is no filter");
}

// -- HBase
// --------------------------------------------------------------------------------------------

/// How often filters said no, in a hundred queries of each of three kinds: lookups of absent
/// columns in existing rows, lookups in absent rows, and scans of absent rows.
fn denied(filter: &str, keys: FilterKeys) -> [u64; 3] {
    let db = builder(filter).filter_keys(keys).open().unwrap();
    for row in 0..200 {
        (0..5).for_each(|column| db.put(format!("row{row:04}/{column}"), "cell").unwrap());
    }
    db.flush().unwrap();
    let useful = || {
        let stats = db.stats();
        stats.counts().filter.useful + stats.tickers.get(Ticker::BloomPrefixUseful)
    };
    let counted = |ask: &dyn Fn(u32)| {
        let before = useful();
        (0..100).for_each(ask);
        useful() - before
    };
    [
        counted(&|i| assert!(!db.contains_key(format!("row{i:04}/absent")).unwrap())),
        // The absent row is between existing rows, because otherwise the table's key range would
        // exclude it.
        counted(&|i| assert!(!db.contains_key(format!("row{i:04}x/0")).unwrap())),
        counted(&|i| assert_eq!(db.prefix(format!("row{i:04}x/")).count(), 0)),
    ]
}

#[test]
fn hbase_bloom_types_are_what_the_filter_holds() {
    let row = PrefixExtractor::delimiter(b'/', 1).unwrap();
    let [column, whole_row, scan] = denied("none", FilterKeys::Whole);
    assert_eq!((column, whole_row, scan), (0, 0, 0), "NONE");
    let [column, whole_row, scan] = denied("bloom(10)", FilterKeys::Prefix(row));
    assert!(column == 0 && whole_row > 90 && scan > 90, "ROW: {column}, {whole_row}, {scan}");
    let [column, whole_row, scan] = denied("bloom(10)", FilterKeys::Whole);
    assert!(column > 90 && whole_row > 90 && scan == 0, "ROWCOL: {column}, {whole_row}, {scan}");
    // HBase has no type whose filter holds both rows and whole keys.
    let [column, whole_row, scan] = denied("bloom(10)", FilterKeys::Both(row));
    assert!(column > 90 && whole_row > 90 && scan > 90, "both: {column}, {whole_row}, {scan}");
}

#[test]
fn hbase_rowprefix_fixed_length_is_a_fixed_prefix() {
    // Rows of seven bytes.
    let keys = FilterKeys::Prefix(PrefixExtractor::fixed(7).unwrap());
    let [column, _, _] = denied("bloom(10)", keys);
    assert_eq!(column, 0, "the row is there");
    let reader = table(
        100,
        |i| format!("row{i:04}/0"),
        TableOptions { filter_keys: keys, ..with_filter("bloom(10)") },
    );
    let denied =
        (100..200).filter(|i| !reader.may_contain(format!("row{i:04}/0").as_bytes()).unwrap());
    assert!(denied.count() > 90);
}

// -- LevelDB
// ------------------------------------------------------------------------------------------

/// LevelDB's filter setting has the equivalent `bloom(…)`, but its table format differs. Maypole
/// rejects LevelDB's tables with an error that names LevelDB, rather than misread them.
#[test]
fn leveldb_tables_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leveldb.sst");
    let mut writer = SstWriter::create(&path, with_filter("bloom(10)")).unwrap();
    writer.put(b"key", b"value").unwrap();
    writer.finish().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let magic = bytes.len() - 8;
    bytes[magic..].copy_from_slice(&0xdb47_7524_8b80_fb57u64.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = SstReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("leveldb.sst") && error.contains("a table of LevelDB"), "{error}");
}

// -- fjall
// --------------------------------------------------------------------------------------------

/// The default of fjall: a false-positive rate of one in ten thousand in level 0, and ten bits a
/// key in the levels below.
#[test]
fn fjall_filter_policy_is_a_list_of_levels() {
    let db = grown(builder("levels(fpr(0.0001), bloom(10))"));
    for file in db.stats().files {
        let filter = file.filter.unwrap();
        assert_eq!(filter.family, Some(Family::Bloom));
        match file.level {
            0 => assert!(filter.predicted_fpr.unwrap() < 0.000_11, "{filter:?}"),
            // A Bloom filter has at least the requested bits, rounded up to whole lines of 512
            // bits, and then 5 bytes.
            _ => assert!((0..552).contains(&(8 * filter.bytes - 10 * filter.keys)), "{filter:?}"),
        }
    }
    assert_families("bottommost_none(bloom(10))", ["bloom", "bloom", "none"]);
    assert_families("none", ["none"; 3]);
}

// -- RocksDB's own tools
// ------------------------------------------------------------------------------

/// The tables that db_bench makes with these options.
fn db_bench(directory: &Path, benchmarks: &str, options: &[&str]) -> Vec<PathBuf> {
    let (db, benchmarks) =
        (format!("--db={}", directory.display()), format!("--benchmarks={benchmarks}"));
    let fixed = [&*db, &benchmarks, "--seed=7", "--num=5000", "--bloom_bits=10"];
    let output = Command::new("db_bench").args(fixed).args(options).output();
    output.expect("install RocksDB's tools (Debian: rocksdb-tools)");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = files.filter(|path| path.extension() == Some("sst".as_ref())).collect();
    assert!(!tables.is_empty());
    tables
}

/// The families of the tables, and whether each filter is what `spec` makes of the table's keys.
fn compared(tables: &[PathBuf], spec: &str) -> Vec<(Option<Family>, bool)> {
    let spec: FilterSpec = spec.parse().unwrap();
    let compare = |path: &PathBuf| {
        let reader = SstReader::open(path).unwrap();
        let mut builder = FilterBuilder::new(spec);
        let mut entries = reader.entries();
        while let Some(entry) = entries.next_entry().unwrap() {
            builder.add(hash64(entry.user_key));
        }
        let filters = reader.filters().unwrap();
        let Some(theirs) = filters.first() else { return (None, false) };
        (theirs.family(), theirs.bytes() == builder.finish().unwrap().bytes())
    };
    tables.iter().map(compare).collect()
}

/// By default, RocksDB's ribbon policy makes Bloom filters at flushes and ribbons in the levels
/// below level 0, as `levels(bloom(10), ribbon_like_bloom(10))` does. Both kinds are equal to
/// Maypole's byte for byte.
#[test]
#[ignore = "needs RocksDB's db_bench"]
fn tools_make_bloom_at_flushes_and_ribbon_below_with_the_ribbon_policy() {
    let (flushed, compacted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ribbon = ["--use_ribbon_filter"];
    let tables = db_bench(flushed.path(), "fillrandom,flush", &ribbon);
    let found = compared(&tables, "bloom(10)");
    assert!(found.iter().all(|&found| found == (Some(Family::Bloom), true)), "{found:?}");
    let tables = db_bench(compacted.path(), "fillrandom,compact", &ribbon);
    let found = compared(&tables, "ribbon_like_bloom(10)");
    assert!(found.iter().all(|&found| found == (Some(Family::Ribbon), true)), "{found:?}");
}

#[test]
#[ignore = "needs RocksDB's db_bench"]
fn tools_leave_the_last_level_without_filters_for_hits() {
    let (flushed, compacted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hits = ["--optimize_filters_for_hits"];
    let found = compared(&db_bench(flushed.path(), "fillrandom,flush", &hits), "bloom(10)");
    assert!(found.iter().all(|&found| found == (Some(Family::Bloom), true)), "{found:?}");
    let found = compared(&db_bench(compacted.path(), "fillrandom,compact", &hits), "bloom(10)");
    assert!(found.iter().all(|found| found.0.is_none()), "{found:?}");
}
