//! RocksDB's own tools read, ingest and look up in the external tables that `SstWriter` makes, and
//! do use their filters.
//!
//! `ldb get` asks filters only when told of a policy (`--bloom_bits`), and any unknown filter reads
//! as "maybe", so a passing `get` shows nothing. A filter that is wrong on purpose does: with it the
//! gets must miss while scans succeed.

use std::path::Path;
use std::process::Command;

use maypole::{Compression, SstReader, SstWriter, TableOptions};

/// Standard output and error of a tool; its exit status says little.
fn run(tool: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new(tool)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{tool}: {e}: install RocksDB's tools (Debian: rocksdb-tools)"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn sst_dump(path: &Path) -> Vec<String> {
    let file = format!("--file={}", path.display());
    let arguments = [&file, "--command=scan", "--output_hex", "--verify_checksum"];
    let (out, errors) = run("sst_dump", &arguments);
    assert_eq!(errors, "");
    out.lines().filter(|line| line.starts_with('\'')).map(str::to_owned).collect()
}

fn our_scan(path: &Path) -> Vec<String> {
    let reader = SstReader::open(path).unwrap();
    let (mut entries, mut lines) = (reader.entries(), Vec::new());
    while let Some(entry) = entries.next_entry().unwrap() {
        lines.push(entry.to_string());
    }
    lines
}

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

/// A new RocksDB database that ingested the table.
fn ingest(directory: &Path, table: &Path) -> String {
    let db = format!("--db={}", directory.join("db").display());
    let (out, errors) =
        run("ldb", &[&db, "--create_if_missing", "ingest_extern_sst", table.to_str().unwrap()]);
    assert!(!out.contains("Fail") && !errors.contains("Fail"), "{out}{errors}");
    db
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

/// Where the filter block lies, and the bytes of the file.
fn with_filter(path: &Path) -> (std::ops::Range<usize>, Vec<u8>) {
    let info = SstReader::open(path).unwrap().filter().unwrap().unwrap();
    let start = info.handle.offset as usize;
    (start..start + info.handle.bytes as usize, std::fs::read(path).unwrap())
}

/// Stores `bytes` with the filter block's checksum made right.
fn store(path: &Path, mut bytes: Vec<u8>, filter: std::ops::Range<usize>) {
    // XXH3 over the payload, the compression type 0 folded in.
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[filter.clone()]) as u32;
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
        // All of the filter's bits, but not its five last bytes, which describe it. A ribbon of
        // zeros answers "no" to each key whose fingerprint is not zero.
        bytes[range.start..range.end - 5].fill(0);
        store(&path, bytes, range);
        let db = ingest(directory.path(), &path);
        let (scan, _) = run("ldb", &[&db, "scan"]);
        assert_eq!(scan.lines().count(), 1800, "{filter}: scans ask no filter");
        let missed = (1..60).filter(|i| i % 10 != 0 && ldb_get(&db, &key(*i)).is_empty()).count();
        assert!(missed > 45, "{filter}: RocksDB found keys that the filter denies, {missed}");
        // This crate's reader is not fooled into silence either: it tells.
        let check = SstReader::open(&path).unwrap().verify().unwrap();
        assert!(check.filter_misses > 1900, "{filter}: {check:?}");
    }
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn bloom_blocks_are_byte_for_byte_those_of_db_bench() {
    for (keys, bits) in [("1", "10"), ("70", "5"), ("5000", "10"), ("20000", "16"), ("3000", "9")] {
        let directory = tempfile::tempdir().unwrap();
        let (_, errors) = run(
            "db_bench",
            &[
                &format!("--db={}", directory.path().display()),
                "--benchmarks=fillrandom,compact",
                &format!("--num={keys}"),
                &format!("--bloom_bits={bits}"),
                "--seed=7",
            ],
        );
        let tables: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
            .collect();
        assert!(!tables.is_empty(), "{errors}");
        for table in tables {
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
