//! Maypole reads directories that RocksDB's own tools make during the test, and finds the same keys
//! and values as `ldb`. And the tools read, check and write databases that Maypole exports to
//! RocksDB.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, FilterPolicy, RocksDb, WriteBatch};

/// Standard output of a tool.
fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{tool}: {e}: install RocksDB's tools (Debian: rocksdb-tools)"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool} {arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ldb(db: &Path, arguments: &[&str]) -> String {
    let db = format!("--db={}", db.display());
    run("ldb", &[&[&db[..]], arguments].concat())
}

/// A copy of a database for `ldb`, which writes to the directory that it reads.
fn copy_of(db: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(db).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// What `ldb scan` prints of a column family.
fn scan(db: &Path, family: &str) -> Vec<String> {
    let copy = copy_of(db);
    let family = format!("--column_family={family}");
    let printed = ldb(copy.path(), &[&family, "scan", "--hex"]);
    printed.lines().map(str::to_owned).collect()
}

fn hex(bytes: &[u8]) -> String {
    "0x".to_string() + &bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>()
}

/// The entries of a database of Maypole, in the form of `ldb scan`.
fn our_scan(db: &Db) -> Vec<String> {
    let line =
        |(key, value): (maypole::Slice, maypole::Slice)| format!("{} : {}", hex(&key), hex(&value));
    db.iter().map(|entry| line(entry.unwrap())).collect()
}

/// Checks that `ldb` and Maypole find the same entries in the column family. Maypole first reads
/// the directory itself, and then imports it and reads the imported database.
fn check(db: &Path, family: &str, least: usize) {
    let expected = scan(db, family);
    assert!(expected.len() >= least, "{family}: {} keys", expected.len());
    let rocks = RocksDb::open_read_only(db).unwrap();
    let ours = rocks.column_family(family).unwrap();
    assert_eq!(our_scan(&ours), expected, "{family}");
    for entry in ours.iter().map(Result::unwrap) {
        assert_eq!(ours.get(&entry.0).unwrap().as_ref(), Some(&entry.1));
    }
    let target = tempfile::tempdir().unwrap();
    rocks.import(family, target.path()).unwrap();
    let imported = Db::open(target.path()).unwrap();
    imported.compact_range(..).unwrap();
    assert_eq!(our_scan(&imported), expected, "{family}");
}

#[test]
#[ignore = "needs RocksDB's ldb"]
fn families_and_range_deletions_of_ldb_read_as_ldb_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path();
    ldb(db, &["--create_if_missing", "put", "first", "1"]);
    ldb(db, &["create_column_family", "users"]);
    for family in ["default", "users"] {
        let family = format!("--column_family={family}");
        let words: Vec<String> = (0..600).map(|n| format!("{:03}", n * 7 % 500)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ldb(db, &[&[&family[..], "batchput"], &words[..]].concat());
        ldb(db, &[&family, "deleterange", "100", "200"]);
        ldb(db, &[&family, "put", "150", "again"]);
        ldb(db, &[&family, "delete", "007"]);
    }
    check(db, "default", 100);
    check(db, "users", 100);
    ldb(db, &["compact"]);
    check(db, "default", 100);
}

/// Column families of RocksDB's become keyspaces, are written to in one batch, and are column families
/// again, which RocksDB finds consistent, reads, and goes on to write.
#[test]
#[ignore = "needs RocksDB's ldb"]
fn families_go_to_maypole_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let families = ["default", "users", "events", "empty"];
    ldb(&path("first"), &["--create_if_missing", "put", "first", "1"]);
    for family in &families[1..] {
        ldb(&path("first"), &["create_column_family", family]);
    }
    for family in &families[..3] {
        let family = format!("--column_family={family}");
        let words: Vec<String> = (0..600).map(|n| format!("{:03}", n * 7 % 500)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ldb(&path("first"), &[&[&family[..], "batchput"], &words[..]].concat());
        ldb(&path("first"), &[&family, "deleterange", "100", "200"]);
    }
    let mut source = path("first");
    for round in 0..2 {
        let (ours, rocks) = (path(&format!("ours{round}")), path(&format!("rocks{round}")));
        RocksDb::open_read_only(&source).unwrap().import_all(&ours).unwrap();
        let db = Db::open(&ours).unwrap();
        let handles = families.map(|family| db.keyspace(family).unwrap());
        for (handle, family) in handles.iter().zip(families) {
            assert_eq!(our_scan(handle), scan(&source, family), "round {round}, {family}");
        }
        for n in 0..2000 {
            let mut batch = WriteBatch::new();
            for handle in &handles[..3] {
                batch.keyspace(handle).put(key(n * 7 + round), format!("round {round}"));
            }
            db.write(&batch).unwrap();
        }
        handles[1].compact_range(..).unwrap();
        handles[2].delete_range("300".."400").unwrap();
        handles[3].put(format!("round {round}"), "the first key").unwrap();
        db.export_rocksdb(&rocks, None).unwrap();
        let copy = copy_of(&rocks);
        assert!(ldb(copy.path(), &["checkconsistency"]).contains("OK"));
        let listed = ldb(copy.path(), &["list_column_families"]);
        assert!(families.iter().all(|family| listed.contains(family)), "{listed}");
        for (handle, family) in handles.iter().zip(families) {
            assert_eq!(scan(&rocks, family), our_scan(handle), "round {round}, {family}");
            let option = format!("--column_family={family}");
            ldb(&rocks, &[&option, "put", &format!("by ldb {round}"), family]);
        }
        // RocksDB gives a new family a number that none has had.
        ldb(&rocks, &["create_column_family", &format!("later {round}")]);
        ldb(&rocks, &["compact"]);
        source = rocks;
    }
    let last = RocksDb::open_read_only(&source).unwrap();
    for family in families {
        assert_eq!(our_scan(&last.column_family(family).unwrap()), scan(&source, family));
    }
}

/// Trees of several levels and of each style of compaction, with several filters, with range
/// deletions, with a compressed log, and with each compression that only RocksDB writes.
#[test]
#[ignore = "needs RocksDB's db_bench and ldb"]
fn trees_of_db_bench_read_as_ldb_reads_them() {
    let dictionary = "--compression_max_dict_bytes=4096";
    let shapes: [&[&str]; 12] = [
        &["--benchmarks=fillrandom", "--bloom_bits=10"],
        &["--benchmarks=fillrandom,overwrite", "--compaction_style=1", "--num_levels=5"],
        &[
            "--benchmarks=fillrandom",
            "--compaction_style=2",
            "--level0_file_num_compaction_trigger=100",
        ],
        // Level 0 gets more tables than an import leaves there, so the import merges some of them.
        &[
            "--benchmarks=fillrandom,overwrite,deleterandom",
            "--compaction_style=2",
            "--fifo_compaction_allow_compaction=false",
            "--fifo_compaction_max_table_files_size_mb=1000",
            "--level0_file_num_compaction_trigger=1000",
            "--level0_slowdown_writes_trigger=1000",
            "--level0_stop_writes_trigger=2000",
            "--write_buffer_size=65536",
        ],
        &["--benchmarks=fillrandom,deleterandom", "--use_ribbon_filter", "--bloom_bits=10"],
        &["--benchmarks=fillrandom,overwrite", "--wal_compression=zstd"],
        &[
            "--benchmarks=fillrandom",
            "--partition_index_and_filters",
            "--bloom_bits=10",
            "--max_num_range_tombstones=20",
            "--writes_per_range_tombstone=500",
            "--range_tombstone_width=100",
        ],
        &["--benchmarks=fillrandom", "--compression_type=zstd", dictionary],
        &[
            "--benchmarks=fillrandom,compact",
            "--compression_type=zstd",
            "--compression_zstd_max_train_bytes=65536",
            dictionary,
        ],
        &["--benchmarks=fillrandom,compact", dictionary],
        &["--benchmarks=fillrandom,compact", "--compression_type=zlib", dictionary],
        &["--benchmarks=fillrandom", "--compression_type=bzip2"],
    ];
    for shape in shapes {
        let dir = tempfile::tempdir().unwrap();
        let db = format!("--db={}", dir.path().display());
        let common = [
            &db[..],
            "--num=20000",
            "--seed=7",
            "--write_buffer_size=131072",
            "--target_file_size_base=131072",
            "--max_bytes_for_level_base=262144",
            "--compression_type=lz4",
        ];
        run("db_bench", &[&common[..], shape].concat());
        check(dir.path(), "default", 500);
    }
}

/// Checks with `ldb` and `db_bench` that an exported database is consistent and has the expected
/// entries. The tools run on copies of it.
fn check_exported(dir: &Path, expected: &[String]) {
    let copy = copy_of(dir);
    assert!(ldb(copy.path(), &["checkconsistency"]).contains("OK"));
    assert_eq!(scan(dir, "default"), expected);
    let db = format!("--db={}", copy.path().display());
    run("db_bench", &["--benchmarks=verifychecksum", "--use_existing_db", &db]);
}

/// A key that `ldb` takes as an argument.
fn key(n: u32) -> String {
    format!("{n:08}")
}

/// A database of several levels with overwritten and deleted keys, range deletions and ingested
/// tables.
fn filled(dir: &Path, filter: &str) -> Db {
    let open = Db::builder(dir.join("db")).table_bytes(32 << 10).level_base_bytes(64 << 10);
    let db = open.filter(filter).open().unwrap();
    db.put([0], "below the keys of db_bench").unwrap();
    for n in 0..20_000 {
        db.put(key(n * 7919 % 20_000), format!("first {n}")).unwrap();
    }
    db.flush().unwrap();
    for n in (0..20_000).step_by(10) {
        db.delete(key(n)).unwrap();
    }
    for n in (0..20_000).step_by(37) {
        db.put(key(n), format!("second {n}")).unwrap();
    }
    db.delete_range(key(3000)..key(3500)).unwrap();
    db.put(key(3250), "again").unwrap();
    db.flush().unwrap();
    let files = [1000, 3100].map(|first| {
        let path = dir.join(format!("{first}.sst"));
        let mut writer = SstWriter::create(&path, TableOptions::default()).unwrap();
        (first..first + 50).for_each(|n| writer.put(key(n).as_bytes(), b"ingested").unwrap());
        writer.delete_range(key(first + 60).as_bytes(), key(first + 70).as_bytes()).unwrap();
        writer.finish().unwrap();
        path
    });
    db.ingest(&files).unwrap();
    db.put(key(1001), "last").unwrap();
    db
}

/// The value of a counter in the output of `db_bench --statistics`.
fn ticks(printed: &str, ticker: &str) -> u64 {
    let line = printed.lines().find(|line| line.starts_with(&format!("{ticker} COUNT")));
    line.unwrap_or_else(|| panic!("{ticker}: {printed}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// RocksDB opens an export, reads every key, queries the filters, writes and compacts. Maypole
/// reads the directory after the writes and after the compaction.
#[test]
#[ignore = "needs RocksDB's ldb and db_bench"]
fn rocksdb_reads_an_export_and_goes_on_writing() {
    for (filter, again) in [
        ("bloom(10)", None),
        ("ribbon(7)", None),
        ("burr(7)", Some("ribbon(7)")),
        ("burr(7)", None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = filled(dir.path(), filter);
        let rocks = dir.path().join("rocks");
        let again: Option<FilterPolicy> = again.map(|text| text.parse().unwrap());
        let report = db.export_rocksdb(&rocks, again.as_ref()).unwrap();
        let mut expected = our_scan(&db);
        check_exported(&rocks, &expected);
        let is_known = filter != "burr(7)" || again.is_some();
        assert_eq!(report.unknown_filters == 0, is_known, "{report:?}");

        // The keys that db_bench looks up are absent. But `filled` has put a key below them, so
        // they are within the range of the first table of a level, and db_bench queries the filter
        // of this table.
        let copy = copy_of(&rocks);
        let options = std::fs::read_dir(&rocks).unwrap().map(|entry| entry.unwrap().file_name());
        let options = options.map(|name| name.into_string().unwrap());
        let options = options.into_iter().find(|name| name.starts_with("OPTIONS-")).unwrap();
        let db_option = format!("--db={}", copy.path().display());
        let options = format!("--options_file={}", rocks.join(options).display());
        let printed = run(
            "db_bench",
            &[
                "--benchmarks=readrandom",
                "--use_existing_db",
                "--statistics",
                "--num=20000",
                "--key_size=8",
                &db_option,
                &options,
            ],
        );
        let useful = ticks(&printed, "rocksdb.bloom.filter.useful");
        assert!(useful > 0 || !is_known, "{filter}: {useful}");

        // RocksDB continues to write, and compacts everything.
        let mut changed: BTreeMap<String, String> = expected
            .iter()
            .map(|line| line.split_once(" : ").unwrap())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        // Key 1001 is not overwritten here, because two tables of level 0 would then hold only this
        // key. RocksDB 7.8 may put both into level 1 as neighbours, and Maypole rejects a level in
        // which tables share a key.
        for n in [0, 3001, 1002, 30_000] {
            ldb(&rocks, &["put", &key(n), "rocksdb's"]);
            changed.insert(hex(key(n).as_bytes()), hex(b"rocksdb's"));
        }
        ldb(&rocks, &["deleterange", &key(5000), &key(5100)]);
        changed.retain(|it, _| *it < hex(key(5000).as_bytes()) || *it >= hex(key(5100).as_bytes()));
        expected = changed.iter().map(|(key, value)| format!("{key} : {value}")).collect();
        assert_eq!(scan(&rocks, "default"), expected);
        check(&rocks, "default", 10_000);
        ldb(&rocks, &["compact"]);
        assert_eq!(scan(&rocks, "default"), expected);
        check(&rocks, "default", 10_000);
        // The database and its export share tables by links. RocksDB has changed no byte of these
        // tables.
        assert_eq!(db.verify().unwrap().filter_misses, 0);
    }
}

/// A database of RocksDB is imported, written to, exported, written to by RocksDB and imported
/// again, and has the right entries at every step.
#[test]
#[ignore = "needs RocksDB's ldb and db_bench"]
fn a_database_goes_to_maypole_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db_option = format!("--db={}", path("first").display());
    run(
        "db_bench",
        &[
            "--benchmarks=fillrandom,overwrite",
            "--num=20000",
            "--seed=7",
            "--bloom_bits=10",
            "--write_buffer_size=131072",
            "--target_file_size_base=131072",
            "--max_bytes_for_level_base=262144",
            "--compression_type=lz4",
            "--max_num_range_tombstones=20",
            "--writes_per_range_tombstone=500",
            "--range_tombstone_width=100",
            &db_option,
        ],
    );
    let mut expected = scan(&path("first"), "default");
    let mut source = path("first");
    for round in 0..2 {
        let (ours, rocks) = (path(&format!("ours{round}")), path(&format!("rocks{round}")));
        RocksDb::open_read_only(&source).unwrap().import("default", &ours).unwrap();
        let db = Db::open(&ours).unwrap();
        assert_eq!(our_scan(&db), expected, "round {round}: imported");
        for n in 0..3000 {
            db.put(key(n * 7 + round), format!("round {round}")).unwrap();
        }
        db.delete_range(key(500)..key(900)).unwrap();
        db.put(key(700), "again").unwrap();
        let written = our_scan(&db);
        assert_ne!(written, expected);
        db.export_rocksdb(&rocks, None).unwrap();
        check_exported(&rocks, &written);
        ldb(&rocks, &["put", &key(701), "rocksdb's"]);
        ldb(&rocks, &["delete", &key(700)]);
        expected = scan(&rocks, "default");
        assert_eq!(expected.len(), written.len());
        source = rocks;
    }
    let last = path("last");
    RocksDb::open_read_only(&source).unwrap().import("default", &last).unwrap();
    assert_eq!(our_scan(&Db::open(&last).unwrap()), expected);
}

/// Regression: `ldb repair` dropped Maypole's tables, because they named no column family. Now they
/// name one. `ldb repair` puts all tables into level 0, and there rejects tables whose sequence
/// numbers interleave, even if RocksDB wrote them. Merged tables may interleave, so the tables here
/// come from flushes only.
#[test]
#[ignore = "needs RocksDB's ldb"]
fn ldb_repairs_a_directory_of_our_tables_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    for flush in 0..3u32 {
        for n in 0..3000 {
            db.put(key(n * 7919 % 5000 + flush * 1000), format!("{flush} {n}")).unwrap();
        }
        for n in (0..5000).step_by(10) {
            db.delete(key(n)).unwrap();
        }
        db.delete_range(key(flush * 500)..key(flush * 500 + 100)).unwrap();
        db.flush().unwrap();
    }
    let expected = our_scan(&db);
    assert!(db.stats().files.len() >= 3, "{}", db.stats());
    let alone = dir.path().join("alone");
    db.checkpoint(&alone).unwrap();
    for entry in std::fs::read_dir(&alone).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_none_or(|extension| extension != "sst") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    ldb(&alone, &["repair"]);
    assert_eq!(scan(&alone, "default"), expected);
}
