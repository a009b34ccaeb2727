//! Commands on a database, and on a table file.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use maypole::Db;
use maypole::table::SstReader;

use crate::maypole;

fn tables(db: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == "sst")).collect()
}

#[test]
fn binary_keys_come_back_as_they_were_put_in() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let entries = [
        ("", "the empty key"),
        ("\\x00\\xff", "escaped"),
        ("a", ""),
        ("a b", "-5"),
        ("ab\\\\x41", "a backslash is no escape"),
        ("stra\u{df}e", "\\x00\\x01\\x02"),
    ];
    for (key, value) in entries {
        assert_eq!(maypole!("put", &db, "--", key, value).well(), "");
    }
    for (key, value) in entries {
        assert_eq!(maypole!("get", &db, key).well(), format!("{value}\n"));
    }
    // `scan` prints keys and values in the escaped form that `put` accepts.
    let lines: Vec<String> =
        entries.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    assert_eq!(maypole!("scan", &db).well(), lines.concat());
    let reverse: Vec<String> = lines.iter().rev().cloned().collect();
    assert_eq!(maypole!("scan", &db, "--reverse").well(), reverse.concat());

    // On systems whose arguments can hold bytes that are not UTF-8, such bytes need no escape.
    #[cfg(unix)]
    let raw: OsString = std::os::unix::ffi::OsStringExt::from_vec(b"\xff\xfe".to_vec());
    #[cfg(not(unix))]
    let raw = OsString::from("\\xff\\xfe");
    maypole!("put", &db, &raw, "raw").well();
    assert_eq!(maypole!("get", &db, "\\xff\\xfe").well(), "raw\n");
    maypole!("delete", &db, &raw).well();
    let error = maypole!("get", &db, &raw).badly(1);
    assert!(error.contains("\\xff\\xfe"), "{error}");
}

#[test]
fn a_scan_takes_a_prefix_a_range_and_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    for key in ["a", "ba", "bb", "bc", "c"] {
        maypole!("put", &db, key, "-").well();
    }
    let scan = |options: &[&str]| -> String {
        let mut call = vec![OsString::from("scan"), db.clone().into_os_string()];
        call.extend(options.iter().map(OsString::from));
        crate::run(&call)
            .well()
            .lines()
            .map(|line| format!("{} ", line.trim_end_matches("\t-")))
            .collect()
    };
    assert_eq!(scan(&["--prefix", "b"]), "ba bb bc ");
    assert_eq!(scan(&["--prefix", "b", "--reverse", "--limit", "2"]), "bc bb ");
    assert_eq!(scan(&["--from", "bb", "--to", "c"]), "bb bc ");
    assert_eq!(scan(&["--from", "bb", "--to", "c", "--reverse"]), "bc bb ");
    assert_eq!(scan(&["--from", "c", "--to", "b"]), "");
    assert_eq!(scan(&["--to", "b"]), "a ");
    assert_eq!(scan(&["--limit", "0"]), "");
    // With several options, only keys that satisfy all of them are printed.
    assert_eq!(scan(&["--prefix", "b", "--from", "bb"]), "bb bc ");
    assert_eq!(scan(&["--prefix", "b", "--from", "a", "--to", "bc"]), "ba bb ");
    assert_eq!(scan(&["--prefix", "b", "--from", "c"]), "");
    assert_eq!(scan(&["--prefix", "b", "--from", "bb", "--reverse", "--limit", "1"]), "bc ");
    for (options, keys) in [
        (&[][..], "5"),
        (&["--prefix", "b"], "3"),
        (&["--prefix", "b", "--from", "bb"], "2"),
        (&["--from", "x"], "0"),
    ] {
        let call = ["count", db.to_str().unwrap()];
        let call: Vec<&str> = call.iter().chain(options).copied().collect();
        assert_eq!(crate::run(&call).well(), format!("{keys}\n"));
    }
    let counted = maypole!("count", &db, "--json").well();
    assert_eq!(counted, "{\"keys\": 5, \"key_bytes\": 8, \"value_bytes\": 5}\n");
}

#[test]
fn a_range_is_deleted_up_to_its_end_and_shown_by_inspect() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    for key in ["b", "d"] {
        maypole!("put", &db, key, "-").well();
    }
    maypole!("delete", &db, "--range", "a", "d").well();
    assert_eq!(maypole!("scan", &db).well(), "d\t-\n");
    maypole!("get", &db, "b").badly(1);
    let error = maypole!("delete", &db, "--range", "d", "b").badly(1);
    assert!(error.contains("ends before its start"), "{error}");
    maypole!("delete", &db).badly(2);
    maypole!("delete", &db, "a", "--range", "b", "d").badly(2);
    let report = maypole!("verify", &db).well();
    assert!(report.contains("entries in logs: 3"), "a few writes made a table: {report}");
    // A range deletion that hides little is not compacted away at once, so that the commands below
    // can show it.
    let owner = maypole::Db::open(&db).unwrap();
    (0..200).for_each(|n| owner.put(format!("x{n:03}"), [7; 1000]).unwrap());
    owner.compact_all().unwrap();
    owner.close().unwrap();
    maypole!("delete", &db, "--range", "a", "x002").well();
    maypole::Db::open(&db).unwrap().flush().unwrap();
    let report = maypole!("verify", &db).well();
    assert!(report.contains("range deletions: 1"), "{report}");
    let reports = tables(&db).into_iter().map(|table| maypole!("inspect", &table).well());
    let reports: String = reports.collect();
    assert!(reports.contains("\"a\" to before \"x002\""), "{reports}");
}

#[test]
fn a_file_of_keys_is_loaded_flushed_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("keys"));
    let lines: String = (0..3000).map(|i| format!("key {}\n", i % 2000)).collect();
    fs::write(&file, format!("{lines}\n")).unwrap();
    maypole!("load", &db, "--key-file", &file, "--value-bytes", "10").well();
    assert!(!tables(&db).is_empty(), "nothing was flushed");

    let scan = maypole!("scan", &db).well();
    assert_eq!(scan.lines().count(), 2001, "the empty line is a key, equal lines are one");
    assert!(scan.starts_with('\t'));
    let report = maypole!("verify", &db).well();
    assert!(report.contains("filter misses: 0"), "{report}");
    let report = maypole!("stats", &db).well();
    assert!(report.contains("level"), "{report}");
    for table in tables(&db) {
        let report = maypole!("inspect", &table).well();
        assert!(report.contains("filter misses: 0"), "{report}");
    }

    fs::write(&file, "").unwrap();
    let new = dir.path().join("new");
    let error = maypole!("load", &new, "--key-file", &file).badly(1);
    assert!(error.contains("no keys") && !new.exists(), "{error}");
}

#[test]
fn a_raw_value_is_its_bytes_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let value: Vec<u8> = (0..=255).collect();
    maypole::Db::open(&db).unwrap().put("key", &value).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(["get", "--raw", db.to_str().unwrap(), "key"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), value));
}

/// `compact` rewrites all tables with other filters, and removes overwritten and deleted entries.
#[test]
fn a_compaction_rewrites_tables_with_the_filters_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("keys"));
    for _ in 0..2 {
        fs::write(&file, (0..2000).map(|i| format!("{i:05}\n")).collect::<String>()).unwrap();
        maypole!("load", &db, "--key-file", &file).well();
    }
    maypole!("delete", &db, "--range", "00000", "01000").well();
    let said = maypole!("compact", &db, "--filter", "ribbon(7)", "--json").well();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let [before, after] = ["before", "after"].map(|when| &said[when]);
    assert_eq!(before["entries"], 4000, "{said}: the range deletion is in the log");
    assert_eq!((&after["tables"], &after["entries"]), (&1.into(), &1000.into()), "{said}");
    let tables = tables(&db);
    assert_eq!(tables.len(), 1);
    assert!(maypole!("inspect", &tables[0]).well().contains("ribbon"));
    assert_eq!(maypole!("count", &db).well(), "1000\n");
    // No key is `x` or above, so nothing is compacted. Tables outside the range keep their filters.
    let said = maypole!("compact", &db, "--from", "x").well();
    assert!(said.starts_with("before: 1 table, 1,000 entries"), "{said}");
    assert!(maypole!("inspect", &tables[0]).well().contains("ribbon"));
}

/// `compact` once counted the tables of before by a read-only handle, which keeps all of them open.
/// So it failed where other commands that write did their work.
#[cfg(unix)]
#[test]
fn a_database_of_more_tables_than_descriptors_is_compacted() {
    const TABLES: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::builder(&path).table_bytes(4096).compression(maypole::Compression::None);
    let db = db.level_base_bytes(1 << 40).open().unwrap();
    (0..TABLES * 5).for_each(|n| db.put(format!("{n:05}"), [7; 900]).unwrap());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let count = tables(&path).len();
    assert!(count >= TABLES, "{count}");
    let limited = |command: &str| {
        let call = format!("ulimit -n 32 && exec \"$0\" {command} \"$1\"");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &call, env!("CARGO_BIN_EXE_maypole")]).arg(&path);
        crate::Done::of(shell.output().unwrap())
    };
    let error = limited("count --read-only").badly(1);
    assert!(error.contains("a read-only handle keeps all tables open"), "{error}");
    let said = limited("compact").well();
    assert!(said.starts_with("before: ") && said.contains(" tables, 300 entries"), "{said}");
    assert!(said.contains("after : 1 table, 300 entries"), "{said}");
}

/// Other filters cost a compaction once, which merges and compresses what stays the same.
#[test]
fn tables_get_other_filters_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("keys"));
    for _ in 0..2 {
        fs::write(&file, (0..2000).map(|i| format!("{i:05}\n")).collect::<String>()).unwrap();
        maypole!("load", &db, "--key-file", &file).well();
    }
    let count = tables(&db).len();
    let said = maypole!("apply-filter", &db, "ribbon(7)").well();
    assert!(
        said.starts_with(&format!(
            "{count} tables with new filters; 0 had them already\nlevel 0: "
        )),
        "{said}"
    );
    let bytes = || tables(&db).iter().map(|it| fs::read(it).unwrap()).collect::<Vec<_>>();
    let applied = bytes();
    assert!(maypole!("inspect", &tables(&db)[0]).well().contains("ribbon(7)"));
    let said = maypole!("apply-filter", &db, "ribbon(7)", "--json").well();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["refiltered"], &said["fitting"]), (&json(0), &json(count as u64)), "{said}");
    assert_eq!(said["kept"], json(0), "{said}");
    let level = &said["levels"][0];
    assert_eq!((&level["level"], &level["tables"]), (&json(0), &json(count as u64)), "{said}");
    assert_eq!(level["filter_bytes_before"], level["filter_bytes"], "{said}");
    assert!(bytes() == applied, "a second call wrote something");
    assert_eq!(maypole!("count", &db).well(), "2000\n");
    let error = maypole!("apply-filter", dir.path().join("gone"), "ribbon(7)").badly(1);
    assert!(error.contains("no database"), "{error}");

    // A damaged table is named, and the others get their filters.
    let damaged = tables(&db)[0].clone();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let run = maypole!("apply-filter", &db, "burr(7)");
    assert_eq!(run.code, 1, "{}", run.err);
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(run.err.contains(name) && run.err.contains("1 table without"), "{}", run.err);
    let others = count - 1;
    assert!(run.out.starts_with(&format!("{others} table")), "{}", run.out);
}

#[test]
fn a_checkpoint_is_a_database_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (db, copy) = (dir.path().join("db"), dir.path().join("monday"));
    maypole!("put", &db, "key", "old").well();
    let said = maypole!("checkpoint", &db, &copy, "--json").well();
    assert!(said.starts_with("{\"tables\": 1, \"bytes\": "), "{said}");
    maypole!("put", &db, "key", "new").well();
    assert_eq!(maypole!("get", &copy, "key").well(), "old\n");
    let error = maypole!("checkpoint", &db, &copy).badly(1);
    assert!(error.contains("exists already"), "{error}");
    assert!(maypole!("checkpoint", &db, dir.path().join("b")).well().starts_with("2 tables, "));
}

/// With `--json`, programs get the same figures as people.
#[test]
fn what_prints_figures_prints_them_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("keys"));
    fs::write(&file, (10_000..12_000).map(|i| format!("{i}\n")).collect::<String>()).unwrap();
    let json = |text: String| -> serde_json::Value {
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let loaded = json(maypole!("load", &db, "--key-file", &file, "--json").well());
    assert_eq!(loaded["entries"], 2000, "{loaded}");

    let stats = json(maypole!("stats", &db, "--json").well());
    let table = &stats["files"][0];
    assert_eq!((&table["entries"], &table["filter"]["family"]), (&2000.into(), &"bloom".into()));
    assert_eq!(stats["levels"][0]["filter_bytes"], stats["filter_bytes"]);
    let text = stats.to_string();
    assert!(!text.contains("useful"), "counts of a database that was just opened: {text}");
    assert_eq!(stats["cache"].as_array().unwrap().len(), 3);

    let verified = json(maypole!("verify", &db, "--json").well());
    assert_eq!((&verified["entries"], &verified["filter_misses"]), (&2000.into(), &0.into()));
    assert_eq!(verified["bytes"], loaded["bytes"]);

    let path = tables(&db).pop().unwrap();
    let inspected = json(maypole!("inspect", &path, "--json").well());
    assert_eq!(inspected["filter"], table["filter"], "{inspected}");
    assert_eq!(inspected["properties"]["rocksdb.num.entries"], "2000", "{inspected}");
    assert_eq!((&inspected["format_version"], &inspected["filter_misses"]), (&5.into(), &0.into()));
    let is_filter =
        |block: &&serde_json::Value| block["name"] == "fullfilter.rocksdb.BuiltinBloomFilter";
    let blocks = inspected["metaindex"].as_array().unwrap();
    assert_eq!(blocks.iter().find(is_filter).unwrap()["bytes"], table["filter"]["bytes"]);

    let repaired = json(maypole!("repair", &db, "--json").well());
    assert_eq!((&repaired["changed"], &repaired["entries"]), (&false.into(), &2000.into()));
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let done = maypole!("repair", &db, "--json");
    assert_eq!(done.code, 1, "{}", done.err);
    let repaired = json(done.out);
    assert_eq!(repaired["changed"], true);
    assert_eq!(repaired["losses"].as_array().unwrap().len(), 1, "{repaired}");
}

#[test]
fn damage_is_named_by_file_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("keys"));
    fs::write(&file, (0..2000).map(|i| format!("{i}\n")).collect::<String>()).unwrap();
    maypole!("load", &db, "--key-file", &file).well();
    let table = tables(&db).pop().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    bytes[100] ^= 1;
    fs::write(&table, bytes).unwrap();
    for call in [maypole!("verify", &db), maypole!("scan", &db)] {
        let error = call.badly(1);
        assert!(error.contains(".sst") && error.contains("offset"), "{error}");
    }
    let done = maypole!("inspect", &table);
    assert_eq!((done.code, done.err.lines().count()), (1, 1));
    assert!(done.err.contains("offset"), "{}", done.err);

    // A file that is no table.
    let error = maypole!("inspect", &file).badly(1);
    assert!(error.contains("this is a text file"), "{error}");
    // A database that is a file.
    let error = maypole!("put", &file, "key", "value").badly(1);
    assert!(error.contains("keys"), "{error}");
}

/// Regression: commands that write nothing failed if the directory could not be written, or while
/// another process had the database open. Now they open the database read-only in these cases.
#[test]
fn what_only_reads_opens_read_only_where_it_must() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = maypole::Db::open(&path).unwrap();
    db.put("key", "value").unwrap();
    let listed = || {
        let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let before = listed();
    for (command, expected) in
        [("get", "value"), ("scan", "key\tvalue"), ("stats", "level"), ("verify", "are right")]
    {
        let key = (command == "get").then_some("key");
        let call = [command, path.to_str().unwrap()].into_iter().chain(key);
        let done = crate::run(&call.clone().collect::<Vec<_>>());
        assert_eq!(done.code, 0, "{command}: {}", done.err);
        assert!(done.err.starts_with("note: opened read-only: "), "{command}: {}", done.err);
        assert!(done.err.contains("already open elsewhere"), "{command}: {}", done.err);
        assert!(done.out.contains(expected), "{command}: {}", done.out);
        // With `--read-only` there is no note.
        let asked = crate::run(&call.chain(["--read-only"]).collect::<Vec<_>>()).well();
        assert!(asked.contains(expected), "{command}: {asked}");
    }
    assert_eq!(listed(), before, "something was written");
    let error = maypole!("delete", &path, "key").badly(1);
    assert!(error.contains("open elsewhere"), "{error}");
    db.close().unwrap();

    // The database is closed now, but its directory is read-only for every user except root.
    // Windows is left out: a process may write into a directory that is marked as read-only there.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o555);
        let may_write = fs::write(path.join("probe"), "").is_ok();
        let done = maypole!("get", &path, "key");
        mode(0o755);
        assert_eq!((done.code, done.out.as_str()), (0, "value\n"), "{}", done.err);
        assert_eq!(done.err.is_empty(), may_write, "{}", done.err);
    }
    let missing = dir.path().join("missing");
    let error = maypole!("get", &missing, "key", "--read-only").badly(1);
    assert!(error.contains("missing") && !missing.exists(), "{error}");
}

#[test]
fn a_repair_says_what_it_found_and_what_it_could_not_bring_back() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("keys"));
    fs::write(&file, (10_000..12_000).map(|i| format!("{i}\n")).collect::<String>()).unwrap();
    maypole!("load", &db, "--key-file", &file).well();
    let report = maypole!("repair", &db).well();
    assert!(report.starts_with("sound: 1 table, 2000 entries"), "{report}");

    fs::remove_file(db.join("CURRENT")).unwrap();
    maypole!("verify", &db).badly(1);
    let report = maypole!("repair", &db).well();
    assert!(report.contains("CURRENT") && report.contains("lost: nothing"), "{report}");
    assert_eq!(maypole!("scan", &db).well().lines().count(), 2000);

    let table = tables(&db).pop().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    bytes[100] ^= 1;
    fs::write(&table, bytes).unwrap();
    let done = maypole!("repair", &db);
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    assert!(done.out.contains("to \"100") && done.out.contains("moved to"), "{}", done.out);
    assert!(done.err.contains("may be lost"), "{}", done.err);
    let left = maypole!("scan", &db).well().lines().count();
    assert!((1900..2000).contains(&left), "{left}");
    maypole!("verify", &db).well();
    assert!(maypole!("repair", &db).well().starts_with("sound"));
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn rocksdbs_own_tables_are_listed_as_its_tool_lists_them() {
    let fixtures = crate::rocksdb_tables();
    let mut seen = 0;
    for entry in fs::read_dir(&fixtures).unwrap() {
        let table = entry.unwrap().path();
        if table.extension().is_none_or(|kind| kind != "sst") {
            continue;
        }
        let name = table.file_stem().unwrap().to_str().unwrap();
        // All tables of one version of RocksDB have the same entries, except for the tables in the
        // first four arms.
        let listing = match name {
            "r7-v5-range-only" => None,
            "r11-v5-versions-none" => Some(name),
            name if name.starts_with("r11-v5-parts-") => Some("r11-v5-parts"),
            name if name.contains("-dictionary-") || name.contains("-small-") => Some("r7-small"),
            name => name.split('-').next(),
        };
        let expected = listing.map_or(String::new(), |listing| {
            fs::read_to_string(fixtures.join(format!("{listing}.scan"))).unwrap()
        });
        let found = maypole!("inspect", "--entries", &table).well();
        assert!(found == expected, "{}", table.display());
        let dump = maypole!("inspect", "--annotate", &table).well();
        assert!(dump.contains("magic of a table") && !dump.contains("not understood"), "{dump}");
        let report = maypole!("inspect", &table).well();
        assert!(report.contains("\nfilter misses: 0\n"), "{report}");
        assert!(report.contains("format_version"), "{report}");
        seen += 1;
    }
    assert_eq!(seen, 15);
}

/// `stats`, `verify` and `repair` once called the MANIFEST of a healthy RocksDB directory damaged,
/// and `repair` took the directory over. Now each command names the owner, and changes nothing.
#[test]
fn a_directory_of_rocksdb_is_called_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("theirs");
    fs::create_dir(&db).unwrap();
    let files = ["CURRENT", "MANIFEST-000005", "IDENTITY", "OPTIONS-000007", "000009.sst"];
    files.iter().for_each(|name| fs::write(db.join(name), "MANIFEST-000005\n").unwrap());
    for call in [
        maypole!("repair", &db),
        maypole!("put", &db, "a", "b"),
        maypole!("compact", &db),
        maypole!("checkpoint", &db, dir.path().join("copy")),
        maypole!("inspect", &db),
    ] {
        let error = call.badly(1);
        assert!(error.contains("this is a database of RocksDB; it was left untouched"), "{error}");
    }
    // The commands that read RocksDB's databases say why they cannot read this one.
    for call in [
        maypole!("stats", &db),
        maypole!("verify", &db),
        maypole!("get", &db, "a"),
        maypole!("scan", &db),
        maypole!("count", &db),
        maypole!("explain", &db, "a"),
        maypole!("advise", &db),
    ] {
        let error = call.badly(1);
        let why = ["this is a database of RocksDB: ", "MANIFEST-000005", "next file number"];
        assert!(why.iter().all(|part| error.contains(part)), "{error}");
    }
    assert_eq!(fs::read_dir(&db).unwrap().count(), files.len());
    // If a command gets a text file in place of a table, its error suggests `maypole load`.
    let text = dir.path().join("notes.sst");
    fs::write(&text, "key\tvalue\n").unwrap();
    for call in [maypole!("inspect", &text), maypole!("ingest", dir.path().join("db"), &text)] {
        let error = call.badly(1);
        assert!(error.contains("this is a text file") && error.contains("maypole load"), "{error}");
    }
    assert!(!dir.path().join("db").exists());
}

/// Unpacks a RocksDB database with column families, one of the fixtures, into `dir`.
fn rocksdb(dir: &std::path::Path) {
    let archive = crate::rocksdb_dirs::fixtures().join("10.4.2-cfs.tar.zst");
    let mut bytes = Vec::new();
    let packed = std::fs::File::open(archive).unwrap();
    let mut decoder = zstd::stream::read::Decoder::new(packed).unwrap();
    std::io::Read::read_to_end(&mut decoder, &mut bytes).unwrap();
    // The format is ustar: for each file a header of 512 bytes, and its content in blocks of 512
    // bytes.
    let mut at = 0;
    while bytes[at] != 0 {
        let text = |from: usize, to: usize| {
            let field = bytes[at + from..at + to].split(|&byte| byte == 0).next().unwrap();
            String::from_utf8(field.to_vec()).unwrap()
        };
        let length = usize::from_str_radix(text(124, 136).trim(), 8).unwrap();
        if bytes[at + 156] == b'0' {
            let content = &bytes[at + 512..at + 512 + length];
            std::fs::write(dir.join(text(0, 100)), content).unwrap();
        }
        at += 512 + length.next_multiple_of(512);
    }
}

/// Each command that writes and is given the directory of another engine names the engine and the
/// commands that can read the directory. The commands that only read it were once refused too,
/// although the library reads it. All leave the directory as it is.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_directory_of_rocksdb_or_leveldb_is_read_and_never_written() {
    for (fixture, what, keys) in [
        ("10.4.2-universal", "RocksDB", "4030"),
        ("5.3-small", "RocksDB", "500"),
        ("leveldb-levels", "LevelDB", "3319"),
    ] {
        let dir = crate::rocksdb_dirs::unpacked(fixture);
        let before = crate::rocksdb_dirs::state_of(dir.path());
        let work = tempfile::tempdir().unwrap();
        let path = |name: &str| work.path().join(name);
        crate::run_with(&["write-table", "--out", path("a.sst").to_str().unwrap()], b"a\t1\n")
            .well();
        std::fs::write(path("keys"), "a\n").unwrap();
        let db = dir.path();
        let calls = [
            maypole!("put", db, "a", "b"),
            maypole!("delete", db, "a"),
            maypole!("load", db, "--key-file", path("keys")),
            maypole!("ingest", db, path("a.sst")),
            maypole!("compact", db),
            maypole!("checkpoint", db, path("copy")),
            maypole!("export", db, path("export")),
            maypole!("inspect", db),
            maypole!("repair", db),
            maypole!("stats", db, "--format", "json"),
        ];
        for call in calls {
            let error = call.badly(1);
            assert!(
                error.contains(&format!("this is a database of {what}; it was left")),
                "{error}"
            );
            assert!(error.contains("`maypole import`"), "{error}");
            assert_eq!(error.contains("`maypole advise`"), what == "RocksDB", "{error}");
        }
        match what {
            "RocksDB" => assert_eq!(maypole!("advise", db).code, 0),
            _ => assert!(maypole!("advise", db).badly(1).contains("`maypole import`")),
        }
        assert_eq!(maypole!("count", db).well().trim(), keys);
        let scanned = maypole!("scan", db, "--limit", "1", "--read-only").well();
        let (key, value) = scanned.trim_end().split_once('\t').unwrap();
        assert_eq!(maypole!("get", db, key).well().trim_end(), value);
        let explained = maypole!("explain", db, key, "--column-family", "default").well();
        assert!(explained.contains("\nfound      a value of "), "{explained}");
        let stats = maypole!("stats", db).well();
        assert!(stats.contains("\nMemory\n") && !stats.contains("publish"), "{stats}");
        assert!(maypole!("stats", db, "--json").well().contains("\"levels\": [{"));
        assert!(maypole!("verify", db).well().contains("filter misses: 0\n"));
        let error = maypole!("get", db, key, "--column-family", r"\x07").badly(1);
        assert!(error.contains(r#"no column family "\x07"; there are: default"#), "{error}");
        let said = maypole!("import", db, path("imported")).well();
        assert_eq!(said.contains("written again"), what == "LevelDB", "{said}");
        maypole!("verify", path("imported")).well();
        let error = maypole!("count", path("imported"), "--column-family", "users").badly(1);
        assert!(error.contains("no keyspace \"users\"; there are: default"), "{error}");
        assert!(crate::rocksdb_dirs::state_of(db) == before);
    }
}

/// Without `CURRENT`, `repair` said to use `import`, and `import` that there is no database. Now
/// both say what is missing, and doing what they say helps.
#[test]
fn a_directory_without_current_is_told_what_it_lacks() {
    for fixture in ["7.8.3-names", "leveldb-log"] {
        let dir = crate::rocksdb_dirs::unpacked(fixture);
        let work = tempfile::tempdir().unwrap();
        let current = dir.path().join("CURRENT");
        let named = fs::read(&current).unwrap();
        fs::remove_file(&current).unwrap();
        let import = || maypole!("import", dir.path(), work.path().join("db"));
        for call in [import(), maypole!("repair", dir.path()), maypole!("count", dir.path())] {
            let error = call.badly(1);
            assert!(error.contains("CURRENT is missing") && error.contains("MANIFEST"), "{error}");
        }
        fs::write(&current, named).unwrap();
        import().well();
    }
}

#[test]
fn a_rocksdb_database_is_imported_whole_or_by_column_family() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("rocks");
    std::fs::create_dir(&source).unwrap();
    rocksdb(&source);
    let count = |db: &std::path::Path| maypole!("count", db).well().trim().to_string();
    let (one, all) = (dir.path().join("one"), dir.path().join("all"));
    let said = maypole!("import", &source, &one, "--column-family", "beta", "--verify").well();
    assert!(said.starts_with("beta: 1 table (1 linked, 0 copied), "), "{said}");
    assert!(count(&one).contains("2983"), "{}", count(&one));
    let said = maypole!("import", &source, &all, "--all", "--json").well();
    let reports: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = reports.iter().map(|it| it["column_family"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "alpha", "beta", "delta"]);
    let keyspaces = || {
        let db = maypole::Db::open(&all).unwrap();
        let names = db.keyspaces();
        let of = |name: &Vec<u8>| db.keyspace(name).unwrap().len().unwrap();
        let lengths: Vec<u64> = names.iter().map(of).collect();
        let names = names.into_iter().map(|name| String::from_utf8(name).unwrap());
        names.zip(lengths).collect::<Vec<_>>()
    };
    let imported = keyspaces();
    assert!(imported.contains(&("beta".into(), 2983)), "{imported:?}");
    assert!(imported.contains(&("delta".into(), 1000)), "{imported:?}");
    // The export has the families back, and can be imported again.
    let (back, again) = (dir.path().join("back"), dir.path().join("again"));
    let said = maypole!("export", &all, &back).well();
    assert!(said.contains("\nbeta: filter_policy="), "{said}");
    let report: serde_json::Value =
        serde_json::from_str(&maypole!("export", &all, &again, "--json").well()).unwrap();
    assert_eq!(report["other_families"][2]["column_family"], "delta");
    std::fs::remove_dir_all(&all).unwrap();
    maypole!("import", &back, &all, "--all", "--verify").well();
    assert_eq!(keyspaces(), imported);
    // Imports into directories that are not empty fail, and change nothing in them.
    for arguments in [vec!["--column-family", "alpha"], vec!["--all"]] {
        let call = [&["import", source.to_str().unwrap(), all.to_str().unwrap()][..], &arguments];
        let error = super::run(&call.concat()).badly(1);
        assert!(error.contains("not empty"), "{error}");
    }
    let none = dir.path().join("none");
    let error = maypole!("import", &source, &none, "--column-family", "gone").badly(1);
    assert!(error.contains("there is no column family \"gone\""), "{error}");
    assert!(!none.exists());
    assert!(maypole!("import", &source, &none, "--all", "--column-family", "beta").code == 2);
    let read = ["--column-family", "beta"];
    assert_eq!(maypole!("count", &source, read[0], read[1]).well(), "2983\n");
}

/// Besu's column families have names of control characters. Such names could not be given, and
/// `--all` refused them.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn column_families_whose_names_are_no_text_are_escaped() {
    let source = crate::rocksdb_dirs::unpacked("7.8.3-names");
    let dir = tempfile::tempdir().unwrap();
    let (one, all) = (dir.path().join("one"), dir.path().join("all"));
    let said = maypole!("import", source.path(), &one, "--column-family", r"\x01").well();
    assert!(said.starts_with(r"\x01: 1 table (1 linked, 0 copied), "), "{said}");
    assert_eq!(maypole!("count", &one).well(), "42\n");
    let said = maypole!("import", source.path(), &all, "--all", "--json", "--verify").well();
    let name = |line: &str| {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        report["column_family"].as_str().unwrap().to_string()
    };
    let names: Vec<String> = said.lines().map(name).collect();
    assert_eq!(names, ["default", r"\x01", r"\x02", r"\x0a", r"\xff", "a/b"]);
    let db = maypole::Db::open(&all).unwrap();
    let keyspaces: [&[u8]; 6] = [b"default", b"\x01", b"\x02", b"\n", b"\xff", b"a/b"];
    let counts = keyspaces.map(|name| db.keyspace(name).unwrap().len().unwrap());
    assert_eq!(counts, [41, 42, 42, 43, 44, 45]);
    db.close().unwrap();
    let said = maypole!("advise", source.path(), "--column-family", r"\xff").out;
    assert!(said.starts_with(r"Column family \xff: 1 table"), "{said}");
    let error = maypole!("advise", source.path(), "--column-family", r"\x03").badly(1);
    assert!(error.contains(r"default, \x01, \x02, \x0a, \xff, a/b"), "{error}");
}

#[test]
fn a_database_is_exported_to_rocksdb_and_imported_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let keys: String = (0..2000).map(|n| format!("key {n:05}\n")).collect();
    std::fs::write(path("keys"), keys).unwrap();
    maypole!("load", path("db"), "--key-file", path("keys"), "--filter", "burr(7)").well();
    let run = maypole!("export", path("db"), path("rocks"));
    assert!(run.err.contains("does not know the filters of 1 table"), "{}", run.err);
    assert_eq!(run.code, 0);
    let said = run.out;
    assert!(said.starts_with("1 table (1 linked, 0 copied, 0 with new filters), "), "{said}");
    assert!(said.ends_with("filter_policy=bloomfilter:10.3:false\n"), "{said}");
    let said =
        maypole!("export", path("db"), path("ribbon"), "--filter", "ribbon(7)", "--json").well();
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&report["refiltered"], &report["unknown_filters"]), (&json(1), &json(0)));
    for rocks in ["rocks", "ribbon"] {
        let back = path(&format!("{rocks} back"));
        maypole!("import", path(rocks), &back).well();
        assert!(maypole!("count", &back).well().contains("2000"));
    }
    // A failed export leaves nothing behind and changes no files that exist.
    let error = maypole!("export", path("db"), path("rocks")).badly(1);
    assert!(error.contains("RocksDB") || error.contains("not empty"), "{error}");
    let error = maypole!("export", path("db"), path("db/inside")).badly(1);
    assert!(error.contains("in the directory of the database"), "{error}");
    let error = maypole!("export", path("db"), path("none"), "--filter", "burr(7)").badly(1);
    assert!(error.contains("bloom or ribbon"), "{error}");
    assert!(!path("none").exists() && !path("db/inside").exists());
    assert_eq!(maypole!("export", path("gone"), path("none")).code, 1);
}

/// Tables that cannot be written again with another filter were exported without a word. Here it is
/// one with a metadata block of an unknown name.
#[test]
fn an_export_names_the_tables_that_keep_their_filters() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db")).unwrap();
    for part in 0..2 {
        (0..100).for_each(|i| db.put(format!("{part}/{i:03}"), "value").unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    let mut tables = fs::read_dir(path("db")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables.find(|path| path.extension().is_some_and(|it| it == "sst")).unwrap();
    let metaindex = SstReader::open(&table).unwrap().footer().metaindex;
    let mut bytes = fs::read(&table).unwrap();
    let place = metaindex.offset as usize..(metaindex.offset + metaindex.bytes) as usize;
    let name = b"fullfilter.";
    let at = bytes[place.clone()].windows(name.len()).position(|it| it == name).unwrap();
    bytes[place.start + at + 4] = b'x';
    // The trailer is a byte for the compression, 0, and the checksum.
    let checksum = twox_hash::XxHash3_64::oneshot(&bytes[place.clone()]) as u32;
    bytes[place.end + 1..place.end + 5].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&table, bytes).unwrap();
    let call = maypole!("export", path("db"), path("rocks"), "--filter", "ribbon(7)", "--json");
    let report: serde_json::Value = serde_json::from_str(&call.out).expect(&call.err);
    assert_eq!((&report["tables"], &report["refiltered"]), (&json(2), &json(1)), "{report}");
    let [reason] = &report["not_refiltered"].as_array().unwrap()[..] else { panic!("{report}") };
    let reason = reason.as_str().unwrap();
    let file = table.file_name().unwrap().to_str().unwrap();
    assert!(reason.contains(file) && reason.contains("fullxilter"), "{reason}");
    assert!(call.code == 1 && call.err.contains(reason), "{}", call.err);
}

fn json(number: u64) -> serde_json::Value {
    number.into()
}
