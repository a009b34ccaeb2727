//! Directories that RocksDB's own tools make on the spot, read key by key as `ldb` reads them.

use std::path::Path;
use std::process::Command;

use maypole::{Db, RocksDb};

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

/// A copy of a database: `ldb` writes to the directory that it reads.
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

/// The same of a database of ours.
fn our_scan(db: &Db) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let line = |(key, value): (maypole::Slice, maypole::Slice)| {
        format!("0x{} : 0x{}", hex(&key), hex(&value))
    };
    db.iter().map(|entry| line(entry.unwrap())).collect()
}

/// Reads the family in place and after an import.
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

/// Trees of several levels and of each style of compaction, with several filters, with range deletions,
/// and with a compressed log.
#[test]
#[ignore = "needs RocksDB's db_bench and ldb"]
fn trees_of_db_bench_read_as_ldb_reads_them() {
    let shapes: [&[&str]; 6] = [
        &["--benchmarks=fillrandom", "--bloom_bits=10"],
        &["--benchmarks=fillrandom,overwrite", "--compaction_style=1", "--num_levels=5"],
        &[
            "--benchmarks=fillrandom",
            "--compaction_style=2",
            "--level0_file_num_compaction_trigger=100",
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
