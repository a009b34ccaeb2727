//! `compare` on a few keys. The tests check that its figures are consistent with each other, but
//! not their values.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use maypole::table::{MetadataForm, SstReader, SstWriter, TableOptions};
use serde_json::Value;

use crate::maypole;

const FIELDS: [&str; 24] = [
    "policy",
    "keys",
    "tables",
    "levels",
    "filter_bytes",
    "bits_per_key",
    "metadata_bytes",
    "resident_metadata_bytes",
    "build_ns_per_key",
    "predicted_fpr",
    "observed_fpr",
    "filters_asked",
    "useful",
    "full_positive",
    "full_true_positive",
    "absent_gets",
    "present_gets",
    "blocks_per_absent_get",
    "blocks_per_present_get",
    "file_reads_per_absent_get",
    "file_reads_per_present_get",
    "get_absent_ns",
    "get_present_ns",
    "cold",
];

fn rows(text: &str) -> Vec<Value> {
    let object: Value = serde_json::from_str(text).unwrap();
    assert_eq!(object["schema"], 1);
    assert!(object["verdict"].is_null() || object["verdict"]["take"].is_string(), "{text}");
    object["policies"].as_array().unwrap().clone()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} in {row}"))
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn figures_of_a_comparison_hang_together() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = dir.path().join("not/there");
    let done = maypole!(
        "compare",
        "--keys",
        "30000",
        "--absent",
        "20000",
        "--json",
        "--policies",
        "none,bloom:5,bloom(10)",
        "--dir",
        &scratch,
        "--seed",
        "3",
    );
    let rows = rows(&done.noted());
    // `compare` once left behind the directories that it had made.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
    assert_eq!(rows.len(), 3);
    for (row, policy) in rows.iter().zip(["none", "bloom(5)", "bloom(10)"]) {
        assert_eq!(row["policy"], policy);
        let object = row.as_object().unwrap();
        assert_eq!(object.len(), FIELDS.len());
        assert!(FIELDS.iter().all(|field| object.contains_key(*field)), "{row}");
        assert_eq!(row["keys"], 30_000);
        assert_eq!((&row["absent_gets"], &row["present_gets"]), (&20_000.into(), &20_000.into()));
        assert!(number(row, "levels") >= 3.0, "{row}");
        let asked = number(row, "filters_asked");
        assert_eq!(number(row, "useful") + number(row, "full_positive"), asked);
        assert_eq!(row["full_true_positive"], 0);
        assert!(number(row, "blocks_per_present_get") >= 1.0);
        for times in ["get_absent_ns", "get_present_ns"] {
            let times = &row[times];
            assert!(number(times, "p50") <= number(times, "p99"));
            assert!(number(times, "mean") > 0.0);
        }
    }
    let [none, five, ten] = &rows[..] else { panic!() };
    for field in ["build_ns_per_key", "predicted_fpr", "observed_fpr"] {
        assert!(none[field].is_null(), "{none}");
        assert!(number(five, field) > 0.0 && number(ten, field) > 0.0);
    }
    assert_eq!((&none["filter_bytes"], &none["filters_asked"]), (&0.into(), &0.into()));
    // Nearly every absent key lies in the range of one table of each level. Without filters, a
    // lookup reads a block of each of these tables.
    assert!(number(none, "blocks_per_absent_get") > 2.5, "{none}");
    for (row, bits) in [(five, 5.0), (ten, 10.0)] {
        let stored = number(row, "bits_per_key");
        assert!((stored / bits - 1.0).abs() < 0.1, "{row}");
        let (observed, predicted) = (number(row, "observed_fpr"), number(row, "predicted_fpr"));
        // The absent lookups query filters about 60,000 times. For a rate of 1 %, a quarter of the
        // rate is then six standard deviations.
        assert!((observed / predicted - 1.0).abs() < 0.25, "{row}");
        let asked = number(row, "filters_asked") / 20_000.0;
        assert!((asked / number(none, "blocks_per_absent_get") - 1.0).abs() < 0.01, "{row}");
        let blocks = number(row, "full_positive") / 20_000.0;
        assert!((blocks - number(row, "blocks_per_absent_get")).abs() < 1e-9, "{row}");
    }
    // Without filters, only indexes take memory. The cache holds everything, so all filters and
    // indexes are resident at the end.
    let needed = [none, five, ten].map(|row| number(row, "metadata_bytes"));
    assert!(0.0 < needed[0] && needed[0] < needed[1] && needed[1] < needed[2], "{needed:?}");
    for (row, needed) in rows.iter().zip(needed) {
        let resident = number(row, "resident_metadata_bytes");
        assert!((resident / needed - 1.0).abs() < 0.15, "{row}");
    }
    // The cache holds all blocks and was warmed up, so lookups of present keys read no file.
    assert!(rows.iter().all(|row| row["file_reads_per_present_get"] == 0.0), "{rows:?}");
}

#[test]
fn a_key_file_with_duplicates_is_compared_and_told_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("words");
    let text: String = (0..6000).map(|i| format!("word {}\n", i * 7919 % 5000)).collect();
    fs::write(&file, text).unwrap();
    let report = maypole!("compare", "--key-file", &file, "--policies", "bloom(10),none").noted();
    for part in ["6,000 lines, 5,000 distinct", "4,500 keys", "500 absent", "Verdict", "80 µs"] {
        assert!(report.contains(part), "{part} in {report}");
    }
    // The report has two tables with one row for each policy. Its verdict names the policy to take.
    assert_eq!(report.lines().filter(|line| line.starts_with("bloom(10)")).count(), 2, "{report}");
    assert!(report.contains("\nTake bloom(10): it saves each absent lookup "), "{report}");
    assert!(report.contains("Measured on 4,500 keys"), "{report}");
    assert_eq!(report.lines().filter(|line| line.starts_with("none ")).count(), 2, "{report}");
}

#[test]
fn absent_keys_may_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (file, absent) = (dir.path().join("keys"), dir.path().join("absent"));
    fs::write(&file, "b\nd\nf\nh\n").unwrap();
    fs::write(&absent, "a\nb\nc\ne\nz\ne\n").unwrap();
    let done = maypole!("compare", "--key-file", &file, "--absent-file", &absent, "--json");
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("left out 1 present key and 2 keys outside"), "{}", done.err);
    assert!(rows(&done.out).iter().all(|row| row["keys"] == 4 && row["absent_gets"] == 2));

    fs::write(&absent, "a\nb\n").unwrap();
    let error = maypole!("compare", "--key-file", &file, "--absent-file", &absent).badly(1);
    assert!(error.contains("no absent key"), "{error}");
}

#[test]
fn key_files_that_cannot_be_compared_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys");
    for (text, reason) in [("", "no keys"), ("one\none\n", "1 distinct key:")] {
        fs::write(&file, text).unwrap();
        let error = maypole!("compare", "--key-file", &file).badly(1);
        assert!(error.contains(reason), "{error}");
    }
    let error = maypole!("compare", "--key-file", dir.path().join("missing")).badly(1);
    assert!(error.contains("missing"), "{error}");
}

#[test]
fn a_cold_comparison_reads_from_the_files() {
    let done = maypole!(
        "compare",
        "--keys",
        "20000",
        "--absent",
        "500",
        "--cold",
        "--cache",
        "256K",
        "--json",
        "--policies",
        "none",
    );
    let rows = rows(&done.noted());
    assert!(number(&rows[0], "file_reads_per_absent_get") > 0.5, "{}", rows[0]);
    assert!(number(&rows[0], "file_reads_per_present_get") > 0.2, "{}", rows[0]);
    // Whether the run was cold depends on the file system, but the field is always present.
    assert!(rows[0]["cold"].is_boolean(), "{}", rows[0]);
}

/// `--cold` on a few keys once printed 0.0000 reads and "cold", although the block cache held all
/// blocks, so that no read showed whether the run was cold. Now it prints "not seen".
#[test]
fn a_cold_comparison_that_reads_nothing_says_so() {
    let call = ["compare", "--keys=3000", "--absent=300", "--cold", "--policies=none,bloom(10)"];
    let done = crate::run(&call);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("not seen") && done.out.contains("smaller --cache"), "{}", done.out);
    assert!(!done.out.contains("  cold") && !done.out.contains("not cold"), "{}", done.out);
    let json = crate::run(&[&call[..], &["--json"]].concat());
    assert!(rows(&json.out).iter().all(|row| row["cold"] == false), "{}", json.out);
}

/// Regression: with `--cold`, the estimate of a sweep counted the lookups with 20 mixes of cache and
/// absent keys, which only a warm sweep makes. Now it leaves them out.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_estimate_of_a_cold_sweep_counts_no_mixes() {
    let dir = tempfile::tempdir().unwrap();
    let call = ["compare", "--sweep", "--keys=2000", "--absent=300", "--policies=none"];
    for (cold, mixes) in [(None, true), (Some("--cold"), false)] {
        let out = format!("--out={}", dir.path().join(format!("cold {}", !mixes)).display());
        let call: Vec<&str> = call.into_iter().chain(cold).chain([&*out]).collect();
        let done = crate::run(&call);
        assert_eq!(done.code, 0, "{}", done.err);
        let note = done.err.lines().find(|line| line.starts_with("note: about "));
        let note = note.unwrap_or_else(|| panic!("{}", done.err));
        assert_eq!(note.contains("20 mixes of cache"), mixes, "{note}");
    }
}

/// At 80 columns, each figure of each policy once had a line of its own, so that the report was
/// longer than a screen. Now the policies are columns.
#[test]
fn policies_are_columns_where_the_terminal_is_narrow() {
    let call = ["compare", "--keys=3000", "--absent=3000"];
    let report = crate::run_at(80, &call).noted();
    let (tables, _) = report.split_once("Verdict").unwrap();
    assert!(tables.lines().count() <= 36, "{report}");
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
    assert!(tables.lines().any(|line| line.starts_with("observed rate")), "{report}");
}

#[test]
fn a_skewed_comparison_says_so_and_asks_as_often() {
    let call = ["compare", "--keys=3000", "--absent=2000", "--zipf=0.99", "--policies=bloom(10)"];
    let report = crate::run(&call).noted();
    assert!(report.contains("2,000 absent") && report.contains("hot keys"), "{report}");
}

#[test]
fn keys_come_from_standard_input_with_values_and_carriage_returns() {
    let text: String = (0..2000).map(|i| format!("key {i}\tvalue of {i}\r\n")).collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(["compare", "--key-file", "-", "--tsv", "--policies=bloom(10)", "--compression=lz4"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("1,800 keys") && report.contains("200 absent"), "{report}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn queries_may_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (keys, queries) = (dir.path().join("keys"), dir.path().join("queries"));
    fs::write(&keys, "b\nd\nf\nh\n").unwrap();
    fs::write(&queries, "d\nc\nd\nd\n").unwrap();
    let done = maypole!("compare", "--key-file", &keys, "--query-file", &queries, "--json");
    assert_eq!(done.code, 0, "{}", done.err);
    let gets = |row: &Value| (row["absent_gets"].as_u64(), row["present_gets"].as_u64());
    assert!(rows(&done.out).iter().all(|row| gets(row) == (Some(1), Some(3))), "{}", done.out);

    // The verdict uses the queries of `--query-file` and the read cost of `--read-cost`.
    fs::write(&keys, (0..3000).map(|i| format!("{i:05}\n")).collect::<String>()).unwrap();
    let lines =
        (0..3000).map(|i| if i % 4 == 0 { format!("{i:05}\n") } else { format!("{i:05}x\n") });
    fs::write(&queries, lines.collect::<String>()).unwrap();
    let call = ["compare", "--policies=none,bloom(10)", "--read-cost=7"];
    let files =
        [format!("--key-file={}", keys.display()), format!("--query-file={}", queries.display())];
    let report = crate::run(&[&call.map(String::from)[..], &files].concat()).noted();
    assert!(report.contains("lookup of these queries (75.0 % absent)"), "{report}");
    assert!(report.contains("7.0 µs a read, which --read-cost gives"), "{report}");
    fs::write(&queries, "d\nc\nd\nd\n").unwrap();
    fs::write(&keys, "b\nd\nf\nh\n").unwrap();

    // A file may have lookups of one kind alone, and \xNN stands for a byte, as in `advise`.
    for (lookups, absent, present) in [("d\n\\x64\n", 0, 2), ("c\nb\\x00\n", 2, 0)] {
        fs::write(&queries, lookups).unwrap();
        let call = ["compare", "--key-file", keys.to_str().unwrap(), "--query-file"];
        let call = [&call[..], &[queries.to_str().unwrap(), "--policies=none,bloom(10)"]].concat();
        let done = crate::run(&[&call[..], &["--json"]].concat());
        assert_eq!(done.code, 0, "{}", done.err);
        assert!(rows(&done.out).iter().all(|row| gets(row) == (Some(absent), Some(present))));
        let what = if absent == 0 { "absent" } else { "present" };
        let report = crate::run(&call).noted();
        assert!(report.contains(&format!("No {what} lookups were measured")), "{report}");
    }
}

#[test]
fn keys_may_come_from_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (keys, db) = (dir.path().join("keys"), dir.path().join("db"));
    fs::write(&keys, (0..3000).map(|i| format!("key {i}\n")).collect::<String>()).unwrap();
    maypole!("load", &db, "--key-file", &keys).well();
    let files = fs::read_dir(&db).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ext| ext == "sst")).collect();
    assert!(!tables.is_empty());
    let mut call = vec!["compare".into(), "--policies=bloom(10)".into(), "--from-tables".into()];
    call.extend(tables.iter().map(|path| path.as_os_str().to_owned()));
    let report = crate::run(&call).noted();
    assert!(report.contains("2,700 keys") && report.contains("300 absent"), "{report}");
}

#[test]
fn keys_may_come_from_tables_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("parts.sst");
    let options = TableOptions { metadata: MetadataForm::Parts, ..TableOptions::default() };
    let mut writer = SstWriter::create(&path, options).unwrap();
    for i in 0..20_000 {
        writer.put(format!("key {i:07}").as_bytes(), b"value").unwrap();
    }
    writer.finish().unwrap();
    assert!(SstReader::open(&path).unwrap().filters().unwrap().len() > 4);
    let report = maypole!("compare", "--policies=bloom(10)", "--from-tables", &path).noted();
    assert!(report.contains("18,000 keys") && report.contains("2,000 absent"), "{report}");
}
