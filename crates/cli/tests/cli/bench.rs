//! `bench` on small trees. The tests check that its figures are consistent with each other, but not
//! their values.

use std::fs;

use serde_json::Value;

use crate::maypole;

const ALL: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,multireadrandom,\
                   seekrandom,readseq,readwhilewriting,deleterandom,checkpointloop,queue,\
                   overwritehot,retention";
/// The workloads of db_bench that delete nothing, so that every key stays alive once it is written.
const STANDING: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,\
                        multireadrandom,seekrandom,readseq,readwhilewriting";

fn rows(text: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(text).unwrap().as_array().unwrap().clone()
}

fn number(row: &Value, path: &str) -> f64 {
    let value = path.split('.').fold(row, |value, name| &value[name]);
    value.as_f64().unwrap_or_else(|| panic!("{path} in {row}"))
}

#[test]
fn figures_of_every_workload_hang_together() {
    let text = maypole!(
        "bench",
        "--workloads",
        STANDING,
        "--entries",
        "20000",
        "--reads",
        "4001",
        "--threads",
        "2",
        "--memtable",
        "256K",
        "--compression",
        "none",
        "--json",
    )
    .noted();
    let rows = rows(&text);
    let names: Vec<&str> = rows.iter().map(|row| row["workload"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), STANDING);
    // fillrandom draws with replacement: 1 - 1/e of the keys occur, and 1 - 1/e^2 after overwrite.
    // An entry has 116 bytes: 16 of its key and 100 of its value.
    let after_overwrite = number(&rows[3], "writes.live_bytes") / 116.0;
    assert!((after_overwrite / 20_000.0 - 0.8647).abs() < 0.015, "{after_overwrite}");
    for row in &rows {
        let name = row["workload"].as_str().unwrap();
        let operations = match name {
            "fillsync" => 20.0,
            "fillseq" | "fillrandom" | "overwrite" => 20_000.0,
            "readseq" => 2.0 * after_overwrite,
            _ => 4001.0,
        };
        assert_eq!(number(row, "operations"), operations, "{row}");
        let per_second = operations / number(row, "seconds");
        assert!((number(row, "ops_per_second") / per_second - 1.0).abs() < 1e-9, "{row}");
        assert!((number(row, "ns_per_operation") * per_second / 2e9 - 1.0).abs() < 1e-9, "{row}");
        let timed = match name {
            "readrandom" | "readmissing" | "readwhilewriting" => 500.0,
            "multireadrandom" => 64.0,
            "readseq" => 2.0 * (after_overwrite / 64.0).floor(),
            _ => operations,
        };
        assert_eq!(number(row, "latency_ns.timed"), timed, "{row}");
        let times = ["p50", "p95", "p99", "p999", "max"].map(|q| number(&row["latency_ns"], q));
        assert!(times.is_sorted() && times[4] > 0.0, "{row}");

        let found = row["found"].as_f64();
        match name {
            "readseq" => assert_eq!(found, Some(operations)),
            "readmissing" => assert_eq!(found, Some(0.0)),
            // Four standard deviations of a random share are about 2 %; the tolerance is 2.5 %.
            "readrandom" | "multireadrandom" | "seekrandom" => {
                let share = found.unwrap() / operations;
                assert!((share - after_overwrite / 20_000.0).abs() < 0.025, "{row}");
            }
            "readwhilewriting" => assert!(found.unwrap() / operations > 0.84, "{row}"),
            _ => assert!(row["found"].is_null(), "{row}"),
        }

        if !["fillseq", "fillsync", "fillrandom", "overwrite", "readwhilewriting"].contains(&name) {
            assert!(row["writes"].is_null(), "{row}");
            continue;
        }
        let writes = &row["writes"];
        assert!(name == "readwhilewriting" || number(writes, "operations") == operations);
        assert_eq!(number(writes, "user_bytes"), number(writes, "operations") * 116.0);
        let parts = ["wal_bytes", "flush_bytes", "compaction_bytes"].map(|at| number(writes, at));
        assert!(parts[0] >= number(writes, "user_bytes") && parts[1] > 0.0, "{row}");
        let amplification = parts.iter().sum::<f64>() / number(writes, "user_bytes");
        assert!((number(writes, "write_amplification") - amplification).abs() < 1e-9, "{row}");
        let space = number(writes, "disk_bytes") / number(writes, "live_bytes");
        assert!((number(writes, "space_amplification") - space).abs() < 1e-9, "{row}");
        // The database takes hardly less space than its live entries, because nothing is compressed
        // and files also have filters, indexes and properties. Only the shared prefixes of keys are
        // left out.
        assert!(space > 0.95, "{row}");
        assert!(number(writes, "seconds_until_settled") >= number(row, "seconds"), "{row}");
    }
    // `fillseq` writes each key once, so all its entries are alive.
    assert_eq!(number(&rows[0], "writes.live_bytes"), number(&rows[0], "writes.user_bytes"));
    let peaks = rows.iter().map(|row| row["peak_memory_bytes"].as_u64());
    if cfg!(target_os = "linux") {
        assert!(peaks.is_sorted() && rows[0]["peak_memory_bytes"].as_u64() > Some(1 << 20));
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn loads_whose_data_dies_leave_exactly_what_should_live() {
    let text = maypole!(
        "bench",
        "--workloads",
        "fillseq,deleterandom,checkpointloop,readrandom,queue,readseq,overwritehot,readseq,retention,\
         readseq",
        "--entries",
        "3000",
        "--threads",
        "2",
        "--memtable",
        "64K",
        "--compression",
        "none",
        "--json",
    )
    .noted();
    let rows = rows(&text);
    // Keys have 16 bytes and values 100, so an entry has 116. The number of live entries is not
    // fixed, because checkpointloop puts some of the 1,500 deleted keys again.
    let live = number(&rows[2], "writes.live_bytes") / 116.0;
    assert!((1501.0..=2100.0).contains(&live) && live == live.trunc(), "{live}");
    let expected = [
        // Operations, threads, timed operations; writes, writes with a value, live entries.
        ("fillseq", 3000, 2, 3000, 3000, 3000, 3000),
        ("deleterandom", 1500, 2, 1500, 1500, 0, 1500),
        ("checkpointloop", 60, 1, 60, 600, 600, live as u64),
        ("queue", 3000, 1, 3000, 5000, 3000, 1000),
        ("overwritehot", 30, 1, 60, 3000, 3000, 3),
        ("retention", 3000, 1, 3000, 5700, 3000, 300),
    ];
    let written: Vec<&Value> = rows.iter().filter(|row| !row["writes"].is_null()).collect();
    assert_eq!(written.len(), expected.len());
    for (row, (name, operations, threads, timed, writes, puts, live)) in
        written.iter().zip(expected)
    {
        assert_eq!(row["workload"], name);
        let found = ["operations", "threads", "latency_ns.timed", "writes.operations"]
            .map(|at| number(row, at) as u64);
        assert_eq!(found, [operations, threads, timed, writes], "{row}");
        let user_bytes = 116 * puts + 16 * (writes - puts);
        assert_eq!(number(row, "writes.user_bytes") as u64, user_bytes, "{row}");
        assert_eq!(number(row, "writes.live_bytes") as u64, 116 * live, "{row}");
        assert!(number(row, "writes.tables") >= 1.0, "{row}");
        assert!(row["found"].is_null(), "{row}");
    }
    // The program fails if a scan meets wrong entries, so only their number is checked here.
    let scanned = rows.iter().filter(|row| row["workload"] == "readseq");
    let scanned: Vec<u64> = scanned.map(|row| number(row, "operations") as u64).collect();
    assert_eq!(scanned, [2 * 1000, 2 * 3, 2 * 300]);
}

#[test]
fn windows_and_ranges_of_deletions_are_as_long_as_they_are_told() {
    let bench = |more: &[&str]| {
        let call = ["bench", "--entries", "3000", "--json", "--workloads"];
        let call: Vec<String> = call.iter().chain(more).map(ToString::to_string).collect();
        rows(&crate::run(&call).noted())
    };
    let found = bench(&["retention,queue", "--window", "500", "--delete-range", "100"]);
    // 25 range deletions of a hundred keys each. Each is counted as one write of the two keys at
    // its ends.
    assert_eq!(number(&found[0], "writes.operations"), 3025.0);
    assert_eq!(number(&found[0], "writes.user_bytes"), 3000.0 * 116.0 + 25.0 * 32.0);
    assert_eq!(number(&found[0], "writes.live_bytes"), 500.0 * 116.0);
    assert_eq!(number(&found[1], "writes.live_bytes"), 500.0 * 116.0);

    // `--deletes` is limited to the number of entries. The database is then empty, and has no space
    // amplification.
    let found = bench(&["fillseq,deleterandom", "--deletes", "5000"]);
    assert_eq!(number(&found[1], "operations"), 3000.0);
    assert_eq!(number(&found[1], "writes.live_bytes"), 0.0);
    assert!(found[1]["writes"]["space_amplification"].is_null(), "{}", found[1]);
}

#[test]
fn a_seed_draws_the_same_keys_again() {
    let live = |seed| {
        let call = ["bench", "--workloads", "fillrandom", "--entries", "5000", "--json", "--seed"];
        let call: Vec<String> = call.iter().map(ToString::to_string).chain([seed]).collect();
        rows(&crate::run(&call).noted())[0]["writes"]["live_bytes"].clone()
    };
    let (a, again, b) = (live("1".into()), live("1".into()), live("2".into()));
    assert_eq!(a, again);
    assert_ne!(a, b);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_tables_name_every_workload_and_what_was_measured() {
    let report = maypole!("bench", "--entries", "2000", "--key-bytes", "20").noted();
    for name in ALL.split(',') {
        assert!(report.lines().any(|line| line.starts_with(&format!("{name} "))), "{report}");
    }
    for part in
        ["ops/s", "p99.9", "amplification", "tables", "stalls", "Note: ", "reading the clock"]
    {
        assert!(report.contains(part), "{part} in {report}");
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_database_is_kept_read_again_and_never_overwritten_by_a_fill() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let bench = |workloads: &str, entries: &str| {
        maypole!("bench", "--db", &db, "--entries", entries, "--json", "--workloads", workloads)
    };
    let error = bench("readseq,fillseq", "3000").badly(1);
    assert!(error.contains("start with fillseq") && !db.exists(), "{error}");
    bench("fillrandom,fillseq", "3000").noted();
    let found = rows(&bench("readrandom,readseq", "3000").noted());
    assert_eq!((&found[0]["found"], &found[1]["found"]), (&3000.into(), &3000.into()));

    // Checkpoints are made next to the database, and removed.
    let copied = rows(&bench("checkpointloop", "3000").noted());
    assert_eq!(copied[0]["operations"], 60);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let error = bench("overwrite,fillseq", "3000").badly(1);
    assert!(error.contains("not empty"), "{error}");
    let error = bench("readrandom", "2000").badly(1);
    assert!(error.contains("--entries"), "{error}");
    let empty = dir.path().join("empty");
    maypole::Db::open(&empty).unwrap().close().unwrap();
    let error = maypole!("bench", "--db", &empty, "--workloads", "readseq").badly(1);
    assert!(error.contains("an empty database"), "{error}");
    // A directory with a file of another program.
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "data").unwrap();
    maypole!("bench", "--db", &other).badly(1);
    maypole!("bench", "--db", &other, "--workloads", "readseq").badly(1);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}
