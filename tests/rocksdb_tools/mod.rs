//! RocksDB's own tools, which several test programs call.

use std::path::Path;
use std::process::Command;

use maypole::table::SstReader;

/// Standard output and standard error of a tool. The exit status is ignored, because it says
/// little.
pub fn run(tool: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new(tool)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{tool}: {e}: install RocksDB's tools (Debian: rocksdb-tools)"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

pub fn sst_dump(path: &Path) -> Vec<String> {
    let file = format!("--file={}", path.display());
    let arguments = [&file, "--command=scan", "--output_hex", "--verify_checksum"];
    let (out, errors) = run("sst_dump", &arguments);
    assert_eq!(errors, "");
    out.lines().filter(|line| line.starts_with('\'')).map(str::to_owned).collect()
}

pub fn our_scan(path: &Path) -> Vec<String> {
    let reader = SstReader::open(path).unwrap();
    let (mut entries, mut lines) = (reader.entries(), Vec::new());
    while let Some(entry) = entries.next_entry().unwrap() {
        lines.push(entry.to_string());
    }
    lines
}

/// Ingests the table into the RocksDB database `db` in `directory`, and creates the database if
/// there is none. Returns the option that names the database.
pub fn ingest(directory: &Path, table: &Path) -> String {
    let db = format!("--db={}", directory.join("db").display());
    let (out, errors) =
        run("ldb", &[&db, "--create_if_missing", "ingest_extern_sst", table.to_str().unwrap()]);
    assert!(!out.contains("Fail") && !errors.contains("Fail"), "{out}{errors}");
    db
}
