//! Entries from standard input, and tables made without a database.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::{Done, maypole, run_with};

/// Runs `maypole write-table --out FILE OPTIONS…` with `input` on standard input.
fn write_table(out: &Path, options: &[&str], input: &[u8]) -> Done {
    let mut call = vec![OsString::from("write-table"), "--out".into(), out.into()];
    call.extend(options.iter().map(OsString::from));
    run_with(&call, input)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn sorted_lines_become_a_table_and_the_table_becomes_part_of_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let (table, db) = (dir.path().join("fruit.sst"), dir.path().join("db"));
    let said = write_table(&table, &[], b"apple\tred\npear\tgreen\tand ripe\nplum\t").well();
    assert!(said.contains("3 entries") && said.contains("from apple to plum"), "{said}");
    assert!(said.contains("filter: bloom"), "{said}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the table");
    assert!(maypole!("inspect", &table).well().contains("\nfilter misses: 0\n"));

    maypole!("put", &db, "pear", "old").well();
    let said = maypole!("ingest", &db, &table).well();
    assert!(said.starts_with("1 table, 3 entries, "), "{said}");
    let expected = "apple\tred\npear\tgreen\\x09and ripe\nplum\t\n";
    assert_eq!(maypole!("scan", &db).well(), expected, "newer than what was there");

    // `write-table` accepts what `scan` prints, whatever the bytes are.
    maypole!("put", &db, "\\x00\\xff\\\\", "\\x0a").well();
    let scan = maypole!("scan", &db).well();
    let again = dir.path().join("again.sst");
    let said = write_table(&again, &["--format", "escaped", "--json"], scan.as_bytes()).well();
    let row = json(&said);
    assert_eq!((&row["entries"], &row["filter"]), (&4.into(), &"bloom".into()), "{row}");
    assert_eq!(row["smallest"], "\\x00\\xff\\\\");
    let copy = dir.path().join("copy");
    let said = json(&maypole!("ingest", &copy, &again, "--json").well());
    assert_eq!((&said["tables"], &said["entries"]), (&1.into(), &4.into()), "{said}");
    assert_eq!(maypole!("scan", &copy).well(), scan);
}

#[test]
fn filter_and_compression_are_those_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t.sst");
    let lines: String = (0..5000).map(|i| format!("{i:06}\tthe same value\n")).collect();
    for (filter, family) in
        [("none", None), ("ribbon(7)", Some("ribbon")), ("burr:8", Some("burr"))]
    {
        for compression in ["none", "zstd"] {
            let options = ["--filter", filter, "--compression", compression, "--json"];
            let row = json(&write_table(&table, &options, lines.as_bytes()).well());
            assert_eq!(row["filter"], family.map_or(serde_json::Value::Null, Into::into), "{row}");
            let is_small = row["bytes"].as_u64() < Some(lines.len() as u64 / 2);
            assert_eq!(is_small, compression == "zstd", "{row}");
            let report = maypole!("inspect", &table).well();
            assert!(report.contains("filter misses: 0"), "{report}");
        }
    }
}

#[test]
fn what_is_out_of_order_is_named_by_its_line_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t.sst");
    let binary = b"\x01\0\0\0b\0\0\0\0\x01\0\0\0a\0\0\0\0";
    for (options, input, place, why) in [
        (&[][..], &b"a\t1\nc\t2\nb\t3\n"[..], "line 3", "\"b\" is below the one before it, \"c\""),
        (&[], b"a\t1\na\t2\n", "line 2", "\"a\" is there already"),
        (&[], b"a\t1\nb\n", "line 2", "expected a key, a tab and a value"),
        (&[], b"", "standard input", "no entries"),
        (&["--format", "keys"], b"b\na", "line 2", "below"),
        (&["--format", "binary"], binary, "entry 2", "below"),
        (&["--format", "binary"], b"\x05\0\0\0abc", "entry 1", "it ends after 3 of the 5 bytes"),
    ] {
        let error = write_table(&table, options, input).badly(1);
        assert!(error.contains(place) && error.contains(why), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
    }
    // If a call fails, an older file that has the table's name stays as it was. A directory or a
    // device is not replaced.
    fs::write(&table, "old").unwrap();
    write_table(&table, &[], b"b\t\na\t\n").badly(1);
    assert_eq!(fs::read(&table).unwrap(), b"old");
    for wrong in [dir.path(), Path::new("/dev/null"), Path::new("/"), Path::new("..")] {
        let error = write_table(wrong, &[], b"a\t\n").badly(1);
        assert!(error.contains("expected the name of a file"), "{error}");
    }
    write_table(&table, &["--filter", "blom(10)"], b"").badly(2);
    maypole!("write-table").badly(2);
}

#[test]
fn tables_that_cannot_be_taken_in_make_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let (db, text) = (dir.path().join("db"), dir.path().join("text"));
    fs::write(&text, "no table").unwrap();
    for wrong in [&text, &dir.path().join("missing")] {
        maypole!("ingest", &db, wrong).badly(1);
        assert!(!db.exists());
    }
    maypole!("ingest", &db).badly(2);
    // Two tables whose key ranges overlap, and one table twice.
    let (a, b) = (dir.path().join("a.sst"), dir.path().join("b.sst"));
    write_table(&a, &[], b"a\t1\nc\t1\n").well();
    write_table(&b, &[], b"b\t2\n").well();
    for pair in [[&a, &b], [&a, &a]] {
        let error = maypole!("ingest", &db, pair[0], pair[1]).badly(1);
        assert!(error.contains("overlap"), "{error}");
        assert_eq!(maypole!("scan", &db).well(), "", "all or none");
    }
    maypole!("ingest", &db, &a).well();
    maypole!("ingest", &db, &b).well();
    assert_eq!(maypole!("scan", &db).well(), "a\t1\nb\t2\nc\t1\n");
}

#[test]
fn entries_of_every_format_are_loaded_from_files_and_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let load = |db: &str, file: &str, options: &[&str], input: &[u8]| {
        let db = dir.path().join(db);
        let mut call = vec![OsString::from("load"), db.clone().into(), "--key-file".into()];
        call.push(file.into());
        call.extend(options.iter().map(OsString::from));
        let said = run_with(&call, input).well();
        (said, maypole!("scan", &db).well())
    };
    let lines = b"b\t2\na\told\na\tx\\x41\ty\n";
    let (said, scan) = load("tsv", "-", &["--tsv"], lines);
    assert_eq!((said.as_str(), scan.as_str()), ("3 entries loaded\n", "a\tx\\\\x41\\x09y\nb\t2\n"));
    let (_, scan) = load("escaped", "-", &["--format", "escaped"], lines);
    assert_eq!(scan, "a\txA\\x09y\nb\t2\n");
    let (_, scan) =
        load("binary", "-", &["--format", "binary"], b"\x01\0\0\0k\x01\0\0\0v\0\0\0\0\0\0\0\0");
    assert_eq!(scan, "\t\nk\tv\n");
    let (_, scan) = load("keys", "-", &["--value-bytes", "2"], b"k\n");
    assert_eq!(scan.len(), "k\tvv\n".len());

    let file = dir.path().join("file");
    fs::write(&file, lines).unwrap();
    let options = ["--format", "tsv", "--filter", "ribbon(7)", "--json"];
    let (said, scan) = load("from a file", file.to_str().unwrap(), &options, b"");
    assert_eq!(scan.lines().count(), 2);
    let said = json(&said);
    assert_eq!((&said["entries"], &said["tables"]), (&3.into(), &1.into()), "{said}");

    // If there is nothing to read, or the file has another format, no database is made.
    let new = dir.path().join("new");
    let error = maypole!("load", &new, "--key-file", "-", "--tsv").badly(1);
    assert!(error.contains("standard input: no entries") && !new.exists(), "{error}");
    fs::write(&file, "a key\n").unwrap();
    let error = maypole!("load", &new, "--key-file", &file, "--tsv").badly(1);
    assert!(error.contains("line 1: expected a key, a tab") && !new.exists(), "{error}");
    maypole!("load", "db", "--key-file", "-", "--tsv", "--format", "tsv").badly(2);
}

/// Regression: `--value-bytes`, the size of generated values, was ignored where the file holds the
/// values. Now such a call is rejected.
#[test]
fn a_size_of_values_is_refused_where_none_are_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("file"));
    fs::write(&file, "k\tv\n").unwrap();
    for format in ["tsv", "escaped", "binary"] {
        let call =
            maypole!("load", &db, "--key-file", &file, "--format", format, "--value-bytes", "5");
        let error = call.badly(2);
        assert!(error.contains("--value-bytes") && error.contains("--format keys"), "{error}");
    }
    maypole!("load", &db, "--key-file", &file, "--tsv", "--value-bytes", "5").badly(2);
    assert!(!db.exists());
    maypole!("load", &db, "--key-file", &file, "--format", "keys", "--value-size", "2K").well();
    let counted = json(&maypole!("count", &db, "--json").well());
    assert_eq!((&counted["keys"], &counted["value_bytes"]), (&1.into(), &2048.into()), "{counted}");
}

/// Every table that `load --filter` writes has a filter of the requested family.
#[test]
fn a_load_builds_the_filters_that_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..3000).map(|i| format!("{i}\t-\n")).collect();
    for (policy, family) in [("none", "none"), ("burr(8)", "burr"), ("levels(ribbon(7))", "ribbon")]
    {
        let db = dir.path().join(family);
        let call = ["load", db.to_str().unwrap(), "--key-file", "-", "--tsv", "--filter", policy];
        run_with(&call, lines.as_bytes()).well();
        let files = fs::read_dir(&db).unwrap().map(|entry| entry.unwrap().path());
        let tables: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|kind| kind == "sst")).collect();
        assert!(!tables.is_empty());
        for table in tables {
            let report = maypole!("inspect", table).well();
            let line = report.lines().find(|line| line.trim().starts_with("family")).unwrap();
            assert!(line.ends_with(family), "{line}");
        }
    }
}
