//! RocksDB's own `sst_dump` reads the tables that a Maypole database writes: several versions of a
//! key, tombstones, sequence numbers.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::fs::RealFs;
use crate::table::SstReader;

/// The entries as `sst_dump` prints them. The tool's exit status is always 0, so any text on its
/// standard error counts as an error.
fn sst_dump(path: &Path) -> Vec<String> {
    let output = Command::new("sst_dump")
        .arg(format!("--file={}", path.display()))
        .args(["--command=scan", "--output_hex", "--verify_checksum"])
        .output()
        .expect("sst_dump runs: install RocksDB's tools (Debian: rocksdb-tools)");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.is_empty(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with('\'')).map(str::to_owned).collect()
}

fn our_scan(path: &Path) -> Vec<String> {
    let reader = SstReader::open(path).unwrap();
    let (mut entries, mut lines) = (reader.entries(), Vec::new());
    while let Some(entry) = entries.next_entry().unwrap() {
        lines.push(entry.to_string());
    }
    lines
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn sst_dump_reads_our_tables_of_every_shape() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000007.sst");
    let mut split = mixed_entries(40);
    split.extend((0..300).map(|i| (internal_key(b"user000003+", 20_000 + i, 1), vec![b'v'; 40])));
    let shapes = [mixed_entries(1), mixed_entries(500), sorted(split)];
    for (shape, entries) in shapes.iter().enumerate() {
        for compression in Compression::ALL {
            for filter in ["none", "bloom(10)", "bloom(9.9)", "ribbon(7)", "burr(7)"] {
                let filter = filter.parse().unwrap();
                let options = TableOptions { filter, ..options(compression) };
                write(&RealFs, path.to_str().unwrap(), entries, options);
                let ours = our_scan(&path);
                assert_eq!(ours.len(), entries.len());
                assert_eq!(sst_dump(&path), ours, "shape {shape}, {compression:?}, {filter}");
            }
        }
    }
}

#[test]
#[ignore = "needs RocksDB's sst_dump and ldb"]
fn sst_dump_sees_damage_in_our_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000007.sst");
    write(&RealFs, path.to_str().unwrap(), &mixed_entries(100), options(Compression::None));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let seen = std::panic::catch_unwind(|| sst_dump(&path));
    assert!(seen.is_err(), "a control: the comparison above must be able to fail");
}
