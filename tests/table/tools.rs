//! RocksDB's own tools read and ingest the tables that `SstWriter` makes, look up keys in them, and
//! use their filters. The tests are in one source file, because all run the same tools.
//!
//! `ldb get` queries filters only if it is given a policy (`--bloom_bits`), and an unknown filter
//! counts as "maybe". So a `get` that succeeds does not show that the filter was queried. A filter
//! that is wrong on purpose shows it: `get` must then miss keys that a scan finds. db_bench counts
//! the results of its filter queries.

use std::path::{Path, PathBuf};

use maypole::table::{MetadataForm, RangeDeletion, SstReader, SstWriter, TableOptions};
use maypole::{Compression, Db, FilterKeys, PrefixExtractor, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::rocksdb_tools::{ingest, our_scan, run, sst_dump};

fn key(i: usize) -> String {
    format!("fruit/{i:05}")
}

/// A table of 2000 keys; every tenth is a tombstone.
fn write(path: &Path, options: TableOptions) {
    let mut writer = SstWriter::create(path, options).unwrap();
    for i in 0..2000 {
        match i % 10 {
            0 => writer.delete(key(i).as_bytes()).unwrap(),
            _ => writer.put(key(i).as_bytes(), format!("value{i}").repeat(3).as_bytes()).unwrap(),
        }
    }
    writer.finish().unwrap();
}

fn ldb_get(db: &str, key: &str) -> String {
    let (out, _) = run("ldb", &[db, "--bloom_bits=10", "get", key]);
    out.trim().to_owned()
}

fn options(compression: Compression, filter: &str) -> TableOptions {
    TableOptions { compression, filter: filter.parse().unwrap(), ..TableOptions::default() }
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn external_tables_of_every_compression_are_dumped_and_ingested() {
    for compression in Compression::ALL {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fruit.sst");
        write(&path, options(compression, "bloom(10)"));
        let ours = our_scan(&path);
        assert_eq!(ours.len(), 2000);
        assert_eq!(sst_dump(&path), ours);
        let db = ingest(directory.path(), &path);
        let (scan, _) = run("ldb", &[&db, "scan"]);
        assert_eq!(scan.lines().count(), 1800, "{compression:?}: all but the tombstones");
        assert_eq!(ldb_get(&db, &key(7)), "value7value7value7");
    }
}

/// The place of the filter block in the file, and the bytes of the file.
fn with_filter(path: &Path) -> (std::ops::Range<usize>, Vec<u8>) {
    let reader = SstReader::open(path).unwrap();
    let is_filter = |name: &str| name.starts_with("fullfilter.");
    let (_, handle) = reader.metaindex().iter().find(|(name, _)| is_filter(name)).unwrap();
    let start = handle.offset as usize;
    (start..start + handle.bytes as usize, std::fs::read(path).unwrap())
}

/// Stores `bytes` as the file, after correcting the checksum of the filter block.
fn store(path: &Path, mut bytes: Vec<u8>, filter: std::ops::Range<usize>) {
    // XXH3 of the block. RocksDB also mixes the compression type into the checksum, but type 0
    // changes nothing.
    let sum = twox_hash::XxHash3_64::oneshot(&bytes[filter.clone()]) as u32;
    bytes[filter.end + 1..filter.end + 5].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn rocksdb_uses_our_filters_since_a_wrong_one_makes_it_miss_keys() {
    for filter in ["bloom(10)", "ribbon(7)"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fruit.sst");
        write(&path, options(Compression::None, filter));
        let (range, mut bytes) = with_filter(&path);
        // Clears all bytes of the filter but the last five, which describe it. A ribbon of zeros
        // answers "no" to each key whose fingerprint is not zero.
        bytes[range.start..range.end - 5].fill(0);
        store(&path, bytes, range);
        let db = ingest(directory.path(), &path);
        let (scan, _) = run("ldb", &[&db, "scan"]);
        assert_eq!(scan.lines().count(), 1800, "{filter}: scans ask no filter");
        let missed = (1..60).filter(|i| i % 10 != 0 && ldb_get(&db, &key(*i)).is_empty()).count();
        assert!(missed > 45, "{filter}: RocksDB found keys that the filter denies, {missed}");
        // Maypole's own reader notices the wrong filter too.
        let check = SstReader::open(&path).unwrap().verify().unwrap();
        assert!(check.filter_misses > 1900, "{filter}: {check:?}");
    }
}

/// A table with its filter and index in parts. Every tenth of its 20,000 keys is a tombstone.
fn write_parts(path: &Path, options: TableOptions) {
    let options = TableOptions { metadata: MetadataForm::Parts, ..options };
    let mut writer = SstWriter::create(path, options).unwrap();
    for i in 0..20_000 {
        match i % 10 {
            0 => writer.delete(key(i).as_bytes()).unwrap(),
            _ => writer.put(key(i).as_bytes(), format!("value{i}").as_bytes()).unwrap(),
        }
    }
    writer.finish().unwrap();
}

/// The number of parts of a filter, and the filter's name in the metaindex.
fn parts_of(path: &Path) -> (usize, String) {
    let reader = SstReader::open(path).unwrap();
    let is_filter = |name: &&(String, _)| name.0.contains("filter.");
    let name = reader.metaindex().iter().find(is_filter).unwrap().0.clone();
    (reader.filters().unwrap().len(), name)
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn tables_in_parts_are_dumped_verified_and_ingested() {
    let prefix = FilterKeys::Both(PrefixExtractor::fixed(9).unwrap());
    for compression in Compression::ALL {
        for (filter, filter_keys, name) in [
            ("bloom(10)", FilterKeys::Whole, "rocksdb.BuiltinBloomFilter"),
            ("ribbon(7)", prefix, "rocksdb.BuiltinBloomFilter"),
            ("burr(7)", FilterKeys::Whole, "maypole.BumpedRibbon"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("fruit.sst");
            write_parts(&path, TableOptions { filter_keys, ..options(compression, filter) });
            let (parts, found) = parts_of(&path);
            assert!(parts >= 4 && found == format!("partitionedfilter.{name}"), "{parts} {found}");
            assert_eq!(sst_dump(&path), our_scan(&path));
            let file = format!("--file={}", path.display());
            let (out, errors) = run("sst_dump", &[&file, "--command=verify"]);
            assert!(out.contains("is ok") && errors.is_empty(), "{out}{errors}");
            let (out, _) = run("sst_dump", &[&file, "--show_properties", "--command=none"]);
            let line = out.lines().find(|line| line.contains("# index partitions: ")).unwrap();
            assert!(
                line.trim_start_matches(|c: char| !c.is_numeric()).parse::<usize>().unwrap() >= 4
            );
            let db = ingest(directory.path(), &path);
            let (scan, _) = run("ldb", &[&db, "scan"]);
            assert_eq!(scan.lines().count(), 18_000, "{compression:?}: all but the tombstones");
            for i in [7, 4_999, 19_999] {
                assert_eq!(ldb_get(&db, &key(i)), format!("value{i}"));
            }
        }
    }
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn rocksdb_asks_the_part_of_a_filter_since_a_wrong_one_makes_it_miss_keys_of_its_range() {
    for filter in ["bloom(10)", "ribbon(7)"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fruit.sst");
        write_parts(&path, options(Compression::None, filter));
        let first = SstReader::open(&path).unwrap().filters().unwrap()[0].bytes().to_vec();
        let mut bytes = std::fs::read(&path).unwrap();
        let start = bytes.windows(first.len()).position(|window| window == first).unwrap();
        bytes[start..start + first.len() - 5].fill(0);
        store(&path, bytes, start..start + first.len());
        let db = ingest(directory.path(), &path);
        let missed = |mut keys: std::ops::Range<usize>| {
            keys.by_ref().filter(|i| i % 10 != 0 && ldb_get(&db, &key(*i)).is_empty()).count()
        };
        assert!(missed(1..60) > 45, "{filter}: RocksDB found keys that the part denies");
        assert_eq!(missed(19_900..19_960), 0, "{filter}: of another part");
    }
}

/// RocksDB's own counters show what the filter in parts of one table answers. Maypole wrote the
/// table.
#[test]
#[ignore = "needs RocksDB's sst_dump, ldb and db_bench"]
fn rocksdb_counts_what_filters_in_parts_answer() {
    for filter in ["bloom(10)", "ribbon(7)"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("numbers.sst");
        let metadata = MetadataForm::Parts;
        let table = TableOptions { metadata, ..options(Compression::None, filter) };
        let mut writer = SstWriter::create(&path, table).unwrap();
        // db_bench's keys, but only the even ones.
        for i in (0..40_000u64).step_by(2) {
            let key = [&i.to_be_bytes()[..], &[b'0'; 8]].concat();
            writer.put(&key, &[b'v'; 100]).unwrap();
        }
        writer.finish().unwrap();
        let db = ingest(directory.path(), &path);
        let arguments = [
            &db[..],
            "--use_existing_db",
            "--benchmarks=readrandom",
            "--num=40000",
            "--reads=10000",
            "--bloom_bits=10",
            "--statistics",
            "--cache_index_and_filter_blocks",
            "--seed=3",
        ];
        let (out, errors) = run("db_bench", &arguments);
        let ticker = |name: &str| -> u64 {
            let text = [out.as_str(), errors.as_str()].concat();
            let line = text.lines().find(|line| line.starts_with(&format!("rocksdb.{name} COUNT")));
            let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            number.unwrap_or_else(|| panic!("no ticker {name} in {text}"))
        };
        let useful = ticker("bloom.filter.useful");
        assert!((4_500..5_500).contains(&useful), "{filter}: {useful} of about 5000 absent keys");
        let [all, true_ones] =
            ["bloom.filter.full.positive", "bloom.filter.full.true.positive"].map(ticker);
        assert_eq!(useful + all, 10_000, "{filter}");
        assert!(true_ones <= all && all - true_ones < 150, "{filter}: {true_ones} of {all}");
    }
}

/// The tables of a compacted database that db_bench filled.
fn db_bench(directory: &Path, options: &[&str]) -> Vec<PathBuf> {
    let db = format!("--db={}", directory.display());
    let fixed = [&db, "--benchmarks=fillrandom,compact", "--seed=7"];
    let (_, errors) = run("db_bench", &[&fixed, options].concat());
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = files.filter(|path| path.extension() == Some("sst".as_ref())).collect();
    assert!(!tables.is_empty(), "{errors}");
    tables
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn bloom_blocks_are_byte_for_byte_those_of_db_bench() {
    for (keys, bits) in [("1", "10"), ("70", "5"), ("5000", "10"), ("20000", "16"), ("3000", "9")] {
        let directory = tempfile::tempdir().unwrap();
        let options = [&format!("--num={keys}")[..], &format!("--bloom_bits={bits}")];
        for table in db_bench(directory.path(), &options) {
            let stored = SstReader::open(&table).unwrap().filters().unwrap();
            let ours = crate::fixtures::filter_of_keys(&table, bits.parse().unwrap());
            assert_eq!(stored[0].bytes(), ours.bytes(), "{keys} keys at {bits} bits");
        }
    }
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn rocksdb_passes_over_a_filter_it_does_not_know() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fruit.sst");
    write(&path, options(Compression::Lz4, "burr(7)"));
    assert_eq!(sst_dump(&path), our_scan(&path));
    let db = ingest(directory.path(), &path);
    assert_eq!(ldb_get(&db, &key(7)), "value7value7value7");
}

/// A new table with the entries of `table`, written by Maypole.
fn rewritten(table: &Path, filter_keys: FilterKeys) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.sst");
    let options = TableOptions { filter_keys, ..options(Compression::None, "bloom(10)") };
    let mut writer = SstWriter::create(&path, options).unwrap();
    let reader = SstReader::open(table).unwrap();
    let mut entries = reader.entries();
    while let Some(entry) = entries.next_entry().unwrap() {
        writer.put(entry.user_key, entry.value).unwrap();
    }
    writer.finish().unwrap();
    (directory, path)
}

/// Filters of prefixes, written by RocksDB (legacy ones included) and by Maypole, say no to nearly
/// all ranges of absent prefixes, and never to a range of a present prefix. RocksDB's filter block
/// equals Maypole's byte for byte if it is neither partitioned nor legacy, and holds whole keys as
/// well as prefixes. (If it holds only prefixes, db_bench 7.8 adds two hashes that belong to no
/// key.)
#[test]
#[ignore = "needs RocksDB's sst_dump, ldb and db_bench"]
fn prefix_filters_of_db_bench_are_used_and_equal_ours() {
    for (whole, partitioned, version) in [
        (true, false, 5),
        (false, false, 5),
        (true, true, 5),
        (false, true, 5),
        (true, false, 4),
        (false, true, 2),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let tables = db_bench(
            directory.path(),
            &[
                "--num=4000",
                "--bloom_bits=10",
                "--prefix_size=12",
                "--keys_per_prefix=10",
                "--metadata_block_size=512",
                &format!("--format_version={version}"),
                &format!("--whole_key_filtering={whole}"),
                &format!("--partition_index_and_filters={partitioned}"),
            ],
        );
        for table in tables {
            let case = format!("whole {whole}, partitioned {partitioned}, version {version}");
            let theirs = SstReader::open(&table).unwrap();
            let name = theirs.properties().text("rocksdb.prefix.extractor.name");
            assert_eq!(name, Some("rocksdb.FixedPrefix.12"));
            let extractor = name.and_then(PrefixExtractor::from_name).unwrap();
            let filter_keys = match whole {
                true => FilterKeys::Both(extractor),
                false => FilterKeys::Prefix(extractor),
            };
            let (_ours, path) = rewritten(&table, filter_keys);
            let ours = SstReader::open(&path).unwrap();
            for reader in [&theirs, &ours] {
                assert_eq!(reader.verify().unwrap().filter_misses, 0, "{case}");
                let passed = absent_prefixes_let_through(reader, &case);
                assert!(passed < 30, "{case}: {passed} of 1000");
            }
            let blocks = [&theirs, &ours].map(|reader| reader.filters().unwrap());
            if whole && !partitioned && version == 5 {
                assert!(blocks[0][0].bytes() == blocks[1][0].bytes(), "{case}");
            }
            assert_eq!(blocks[0].len() > 1, partitioned, "{case}");
            assert_eq!(sst_dump(&path), our_scan(&path));
        }
    }
}

/// How many of 1000 absent prefixes, each just after a present one, pass the filter. Asserts that
/// all present prefixes pass.
fn absent_prefixes_let_through(reader: &SstReader, case: &str) -> usize {
    let plus = |prefix: &[u8], n: u8| [&prefix[..11], &[prefix[11] + n]].concat();
    let mut present = std::collections::BTreeSet::new();
    let mut entries = reader.entries();
    while let Some(entry) = entries.next_entry().unwrap() {
        let prefix = &entry.user_key[..12];
        for lower in [prefix, entry.user_key] {
            assert!(reader.range_may_match(lower, Some(&plus(prefix, 1))), "{case}");
        }
        assert!(reader.may_contain(entry.user_key).unwrap(), "{case}");
        present.insert(prefix.to_vec());
    }
    let absent = present.iter().flat_map(|prefix| (1..4).map(|n| plus(prefix, n)));
    let absent: Vec<_> = absent.filter(|prefix| !present.contains(prefix)).take(1000).collect();
    assert_eq!(absent.len(), 1000, "{case}");
    absent.iter().filter(|prefix| reader.range_may_match(prefix, Some(&plus(prefix, 1)))).count()
}

/// Only a filter of prefixes that is wrong on purpose shows that RocksDB queries it. RocksDB does
/// so only if the table's extractor is its own, here the first nine bytes.
#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn rocksdb_uses_our_prefix_filters_since_a_wrong_one_makes_it_miss_keys() {
    for (extractor, honoured) in
        [("fixed(9)", true), ("fixed(8)", false), ("delimiter(0x2f, 1)", false)]
    {
        for damaged in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("fruit.sst");
            let filter_keys = FilterKeys::Prefix(extractor.parse().unwrap());
            write(&path, TableOptions { filter_keys, ..options(Compression::None, "bloom(10)") });
            assert_eq!(sst_dump(&path), our_scan(&path));
            if damaged {
                let (range, mut bytes) = with_filter(&path);
                bytes[range.start..range.end - 5].fill(0);
                store(&path, bytes, range);
            }
            let db = ingest(directory.path(), &path);
            let found = (1..40).filter(|i| i % 10 != 0).filter(|&i| {
                let arguments = [&db[..], "--bloom_bits=10", "--fix_prefix_len=9", "get", &key(i)];
                run("ldb", &arguments).0.starts_with("value")
            });
            let found = found.count();
            match damaged && honoured {
                true => assert_eq!(found, 0, "{extractor}: RocksDB did not ask the filter"),
                false => assert_eq!(found, 36, "{extractor}, damaged {damaged}"),
            }
        }
    }
}

/// The ranges that a table deletes, as lines `begin: end` in hexadecimal. `sst_dump --command=raw`
/// prints these lines to a file next to the table.
fn raw_ranges(path: &Path) -> Vec<String> {
    let (_, errors) = run("sst_dump", &[&format!("--file={}", path.display()), "--command=raw"]);
    assert_eq!(errors, "");
    let dump = path.with_file_name(format!("{}_dump.txt", path.file_stem().unwrap().display()));
    let text = std::fs::read_to_string(&dump).unwrap();
    std::fs::remove_file(dump).unwrap();
    let ranges = text.split("Range deletions:").nth(1).unwrap_or_default();
    let ranges = ranges.split("Data Block").next().unwrap_or_default();
    let lines = ranges.lines().filter_map(|line| line.trim().strip_prefix("HEX"));
    lines.map(|line| line.trim().to_owned()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The lines of [`raw_ranges`] as they should be, made from the ranges that Maypole reads. The
/// bounds of overlapping ranges cut them into pieces. The tool prints each piece once for every
/// range that includes it.
fn our_ranges(path: &Path) -> Vec<String> {
    let ranges = SstReader::open(path).unwrap().range_deletions();
    let bounds = ranges.iter().flat_map(|range| [&range.start, &range.end]);
    let bounds: Vec<_> = bounds.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let mut lines = Vec::new();
    for piece in bounds.windows(2) {
        let holds = |range: &&RangeDeletion| range.start <= *piece[0] && piece[1] <= &range.end;
        let line = format!("{}: {}", hex(piece[0]), hex(piece[1]));
        lines.extend(ranges.iter().filter(holds).map(|_| line.clone()));
    }
    lines
}

/// RocksDB's tools read every table of a Maypole database with range deletions, after flushes and
/// compactions.
#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn sst_dump_reads_the_tables_of_a_tree_in_which_ranges_were_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::builder(directory.path())
        .memtable_bytes(8 << 10)
        .table_bytes(8 << 10)
        .level_base_bytes(16 << 10)
        .open()
        .unwrap();
    let mut rng = StdRng::seed_from_u64(5);
    let (mut snapshots, mut tables, mut ranges) = (Vec::new(), 0, 0);
    for round in 0..40 {
        for _ in 0..60 {
            let first = rng.random_range(0..3000);
            let mut batch = WriteBatch::new();
            batch.put(key(first), "v".repeat(rng.random_range(0..60)));
            if rng.random_bool(0.2) {
                batch.delete_range(key(first + 3)..key(first + rng.random_range(4..40)));
            }
            db.write(batch).unwrap();
        }
        if round % 8 == 0 {
            snapshots.push(db.snapshot());
        }
        if round % 10 == 9 {
            db.flush().unwrap();
            db.wait_for_compaction().unwrap();
            for entry in std::fs::read_dir(directory.path()).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "sst") {
                    assert_eq!(sst_dump(&path), our_scan(&path));
                    assert_eq!(raw_ranges(&path), our_ranges(&path));
                    for command in ["check", "verify"] {
                        let file = format!("--file={}", path.display());
                        let command = format!("--command={command}");
                        let (_, errors) = run("sst_dump", &[&file, &command]);
                        assert_eq!(errors, "");
                    }
                    tables += 1;
                    ranges += our_ranges(&path).len();
                }
            }
        }
    }
    assert!(tables > 10 && ranges > 100, "{tables} tables, {ranges} ranges");
}

/// A range deletion in a table that RocksDB ingests hides keys that RocksDB held before, but none
/// of the table's own keys. This also holds for a table that has only range deletions.
#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn rocksdb_honours_the_ranges_that_our_tables_delete() {
    for with_entries in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("old.sst");
        write(&old, options(Compression::None, "bloom(10)"));
        let db = ingest(directory.path(), &old);
        let path = directory.path().join("ranges.sst");
        let mut writer = SstWriter::create(&path, options(Compression::None, "bloom(10)")).unwrap();
        writer.delete_range(key(1500).as_bytes(), key(1504).as_bytes()).unwrap();
        writer.delete_range(key(100).as_bytes(), key(1001).as_bytes()).unwrap();
        if with_entries {
            writer.put(key(505).as_bytes(), b"new").unwrap();
        }
        let summary = writer.finish().unwrap();
        assert_eq!(summary.range_deletions, 2);
        assert_eq!(sst_dump(&path), our_scan(&path));
        assert_eq!(raw_ranges(&path), our_ranges(&path));
        let (properties, _) =
            run("sst_dump", &[&format!("--file={}", path.display()), "--show_properties"]);
        assert!(properties.contains("# range deletions: 2"), "{properties}");

        ingest(directory.path(), &path);
        let gone = |i: usize| {
            i.is_multiple_of(10) || (100..1001).contains(&i) || (1500..1504).contains(&i)
        };
        let is_there = |i: usize| !gone(i) || (with_entries && i == 505);
        let (scan, _) = run("ldb", &[&db, "scan", "--no_value"]);
        let expected: Vec<String> = (0..2000).filter(|&i| is_there(i)).map(key).collect();
        assert_eq!(scan.lines().map(str::trim).collect::<Vec<_>>(), expected);
        for i in [99, 101, 505, 999, 1001, 1501, 1504] {
            let found = !ldb_get(&db, &key(i)).is_empty();
            assert_eq!(found, is_there(i), "{}", key(i));
        }
    }
}

/// Maypole reads the range deletions in tables that RocksDB wrote.
#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn the_ranges_that_rocksdb_deletes_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let db = format!("--db={}", directory.path().join("db").display());
    run("ldb", &[&db, "--create_if_missing", "batchput", "a", "1", "b", "2", "c", "3", "m", "4"]);
    run("ldb", &[&db, "deleterange", "a", "c"]);
    run("ldb", &[&db, "deleterange", "b", "ma"]);
    // Each `ldb` command that writes first flushes the log of the command before it. So there are
    // three tables now, and no fourth, which would start a compaction.
    run("ldb", &[&db, "put", "z", "last"]);
    let (listed, _) = run("ldb", &[&db, "list_file_range_deletes"]);
    let mut ranges = Vec::new();
    for entry in std::fs::read_dir(directory.path().join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let reader = SstReader::open(&path).unwrap();
            reader.verify().unwrap();
            ranges.extend(reader.range_deletions().iter().map(|range| {
                let (begin, end) = (hex(&range.start), hex(&range.end));
                format!("start: {begin} end: {end} seq: {}", range.sequence)
            }));
        }
    }
    let mut listed: Vec<_> = listed.lines().filter(|line| line.starts_with("start")).collect();
    listed.sort_unstable();
    ranges.sort_unstable();
    assert_eq!(listed, ranges);
    assert_eq!(ranges.len(), 2);
}

/// Names and bytes of all files of a directory.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Copies the tables of a directory, and nothing else.
fn copy_tables(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for (path, bytes) in contents(from) {
        if path.extension() == Some("sst".as_ref()) {
            std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
}

/// Regression: a repair replaced CURRENT in RocksDB's own directory, so that RocksDB did not open
/// it any more. And a repair of copied tables, whose sequence numbers are in no property, found 13
/// of 20 entries. Now a repair rejects RocksDB's directory, and finds all entries of copied tables.
#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn a_directory_of_rocksdb_stays_its_own_and_its_copied_tables_become_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let theirs = directory.path().join("theirs");
    let db = format!("--db={}", theirs.display());
    for i in 0..20 {
        run("ldb", &[&db, "--create_if_missing", "put", &key(i), &format!("value{i}")]);
    }
    run("ldb", &[&db, "compact"]);
    let before = contents(&theirs);
    for error in [
        Db::repair(&theirs).err(),
        Db::open(&theirs).err(),
        Db::open_read_only(&theirs).err(),
        Db::destroy(&theirs).err(),
    ] {
        let text = error.unwrap().to_string();
        assert!(text.contains("this is a database of RocksDB"), "{text}");
    }
    assert!(contents(&theirs) == before, "a byte was changed");
    assert_eq!(run("ldb", &[&db, "scan"]).0.lines().count(), 20, "RocksDB opens it");

    let ours = directory.path().join("ours");
    copy_tables(&theirs, &ours);
    Db::repair(&ours).unwrap();
    let db = Db::open(&ours).unwrap();
    assert_eq!(db.len().unwrap(), 20);
    db.put(key(7), "NEW").unwrap();
    db.compact_all().unwrap();
    assert_eq!(db.get(key(7)).unwrap().unwrap(), b"NEW");
    assert_eq!(db.get(key(8)).unwrap().unwrap(), b"value8");
}

/// Regression: a compaction kept only the newest of RocksDB's merge operands of each key, and
/// dropped the value to which it applies. Now a compaction keeps all of them, and a repair and
/// `verify` report them.
#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn merge_operands_of_rocksdb_are_named_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let theirs = directory.path().join("theirs");
    let db = format!("--db={}", theirs.display());
    let merges = ["--benchmarks=fillseq,mergerandom,flush", "--num=300", "--merge_keys=100"];
    let how = ["--merge_operator=put", "--disable_auto_compactions=1", "--write_buffer_size=65536"];
    run("db_bench", &[&[&db[..], "--value_size=1000"], &merges[..], &how].concat());
    let ours = directory.path().join("ours");
    copy_tables(&theirs, &ours);
    let report = Db::repair(&ours).unwrap();
    assert!(report.not_understood.iter().any(|line| line.contains("merge operand")), "{report}");
    let db = Db::open(&ours).unwrap();
    db.compact_all().unwrap();
    let kinds = |dir: &Path| {
        let mut entries = Vec::new();
        for (path, _) in contents(dir) {
            if path.extension() == Some("sst".as_ref()) {
                entries.extend(our_scan(&path));
            }
        }
        entries.sort();
        entries.dedup();
        entries.into_iter().filter(|line| line.contains("type:2")).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&ours), kinds(&theirs), "every merge operand is there");
    assert!(!db.verify().unwrap().not_understood.is_empty());
}
