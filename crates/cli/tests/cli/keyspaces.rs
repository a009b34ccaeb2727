//! `--keyspace`, and the command that lists keyspaces.

use std::path::{Path, PathBuf};
use std::time::Duration;

use maypole::{Builder, Db};
use serde_json::Value;

use crate::maypole;
use crate::stats::check_exposition;

/// The name of a keyspace as an argument.
const ODD: &str = r"a\x20b\xff\x0a";
const ODD_BYTES: &[u8] = b"a b\xff\n";

/// A database with the key `of` = name in each of three keyspaces.
fn database() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    maypole!("put", &path, "of", "default").well();
    maypole!("keyspaces", &path, "--create", "events", "--filter", "burr(9)").well();
    maypole!("put", &path, "--keyspace", "events", "of", "events").well();
    maypole!("put", &path, "--keyspace", ODD, "of", "odd").well();
    (dir, path)
}

fn open(path: &Path) -> Builder {
    Db::builder(path).create_if_missing(false)
}

fn rows(path: &Path) -> Vec<Value> {
    let rows: Value = serde_json::from_str(&maypole!("keyspaces", path, "--json").well()).unwrap();
    rows.as_array().unwrap().clone()
}

#[test]
fn entries_are_read_and_written_in_the_keyspace_that_is_named() {
    let (_dir, db) = database();
    for (name, value) in [("default", "default\n"), ("events", "events\n"), (ODD, "odd\n")] {
        assert_eq!(maypole!("get", &db, "of", "--keyspace", name).well(), value);
        assert_eq!(maypole!("scan", &db, "--keyspace", name).well(), format!("of\t{value}"));
        assert_eq!(maypole!("count", &db, "--column-family", name, "--read-only").well(), "1\n");
        let explained = maypole!("explain", &db, "of", "--keyspace", name).well();
        assert!(explained.contains("\nfound      a value of "), "{explained}");
    }
    assert_eq!(maypole!("get", &db, "of").well(), "default\n");
    maypole!("delete", &db, "of", "--keyspace", ODD).well();
    assert_eq!(maypole!("count", &db, "--keyspace", ODD).well(), "0\n");
    assert_eq!(maypole!("count", &db).well(), "1\n");

    let load = ["load", db.to_str().unwrap(), "--key-file", "-", "--keyspace", "loaded"];
    let filter = [&load[..], &["--filter", "fuse(9)"]].concat();
    assert_eq!(crate::run_with(&filter, b"a\nb\n").well(), "2 entries loaded\n");
    assert_eq!(crate::run_with(&load, b"c\n").well(), "1 entry loaded\n");
    assert_eq!(maypole!("count", &db, "--keyspace", "loaded").well(), "3\n");
    let table = db.with_extension("sst");
    let mut writer = maypole::table::SstWriter::create(&table, Default::default()).unwrap();
    writer.put(b"d", b"").unwrap();
    writer.finish().unwrap();
    maypole!("ingest", &db, &table, "--keyspace", "loaded").well();
    assert_eq!(maypole!("count", &db, "--keyspace", "loaded").well(), "4\n");
    assert_eq!(maypole!("count", &db).well(), "1\n");
    let filter = open(&db).open().unwrap().keyspace("loaded").unwrap().filter_policy();
    assert_eq!(filter.to_string(), "fuse(9)", "the second load names no filter");
}

#[test]
fn a_keyspace_that_is_missing_is_an_error_that_lists_those_there_are() {
    let (_dir, db) = database();
    for call in [
        &["get", "k"][..],
        &["explain", "k"],
        &["delete", "k"],
        &["scan"],
        &["count"],
        &["stats"],
        &["stats", "--json"],
        &["verify"],
        &["compact"],
        &["apply-filter", "bloom(7)"],
        &["advise"],
    ] {
        let mut call: Vec<&str> = call.to_vec();
        call.insert(1, db.to_str().unwrap());
        call.extend(["--keyspace", "evnets"]);
        let error = crate::run(&call).badly(1);
        let expected = r#"there is no keyspace "evnets"; there are: default, a b\xff\x0a, events"#;
        assert!(error.contains(expected), "{call:?}: {error}");
    }
    let missing = db.with_extension("missing");
    maypole!("delete", &missing, "k", "--keyspace", "x").badly(1);
    maypole!("keyspaces", &missing, "--create", "x").badly(1);
    assert!(!missing.exists());
    assert_eq!(rows(&db).len(), 3);
    maypole!("put", &db, "k", "v", "--keyspace", "").badly(1);
    maypole!("keyspaces", &db, "--create", "events").badly(1);
    maypole!("keyspaces", &db, "--drop", "gone").badly(1);
    let error = maypole!("keyspaces", &db, "--drop", "default").badly(1);
    assert!(error.contains("cannot be dropped"), "{error}");
    for call in [&["--create", "a", "--drop", "b"][..], &["--filter", "none"], &["--create"]] {
        crate::run(&[&["keyspaces", db.to_str().unwrap()], call].concat()).badly(2);
    }
    assert_eq!(rows(&db).len(), 3);
}

#[test]
fn keyspaces_are_listed_with_their_policies_and_dropped() {
    let (_dir, db) = database();
    let list = maypole!("keyspaces", &db).well();
    let line = |name: &str| {
        let line = list.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{list}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(line("default").ends_with(" 1 -"), "{list}");
    assert!(line("events").ends_with(" 1 burr(9)"), "{list}");
    maypole!("compact", &db, "--keyspace", "events").well();
    let found = rows(&db);
    let of = |name: &str| found.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&of("events")["tables"], &of("events")["entries"]), (&1.into(), &1.into()));
    assert_eq!((&of("default")["tables"], &of("default")["filter"]), (&0.into(), &Value::Null));
    assert_eq!(of(r"a b\xff\x0a")["filter"], "bloom(10)");
    // The database may be in use.
    let owner = open(&db).open().unwrap();
    assert_eq!(rows(&db), found);
    owner.close().unwrap();
    maypole!("keyspaces", &db, "--drop", ODD).well();
    assert_eq!(rows(&db).len(), 2);
    let checked = maypole!("verify", &db).well();
    assert!(
        checked.contains("\ntables: 1\n") && checked.contains("\nentries in logs: 1\n"),
        "{checked}"
    );
}

/// The tool once would have opened a keyspace with its own options.
#[test]
fn the_options_of_a_keyspace_stay_unless_a_filter_is_given() {
    let (_dir, path) = database();
    let events = |path: &Path| {
        let db = open(path).open_read_only().unwrap();
        let events = db.keyspace("events").unwrap();
        let filter = |file: &maypole::FileStats| file.filter.as_ref().unwrap().family.unwrap();
        let families: Vec<String> =
            events.stats().files.iter().map(|file| filter(file).to_string()).collect();
        (events.filter_policy().to_string(), families.concat())
    };
    // Of few keys, every filter is a Bloom filter.
    let db = open(&path).open().unwrap();
    let keyspace = db.keyspace("events").unwrap();
    (0..999).for_each(|key| keyspace.put(format!("{key}"), "").unwrap());
    db.close().unwrap();
    let said = maypole!("compact", &path, "--keyspace", "events").well();
    assert!(said.contains("after : 1 table, 1,000 entries"), "{said}");
    assert_eq!(events(&path), ("burr(9)".into(), "burr".into()));
    maypole!("apply-filter", &path, "ribbon(7)", "--keyspace", "events").well();
    assert_eq!(events(&path), ("ribbon(7)".into(), "ribbon".into()));
    maypole!("put", &path, "--keyspace", "events", "another", "value").well();
    maypole!("compact", &path, "--keyspace", "events", "--filter", "bloom(5)").well();
    assert_eq!(events(&path), ("bloom(5)".into(), "bloom".into()));
    maypole!("compact", &path, "--filter", "ribbon(7)").well();
    assert_eq!(events(&path).0, "bloom(5)", "that of default is another one");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn stats_and_advise_know_keyspaces() {
    let (_dir, path) = database();
    let db = open(&path).publish_stats(Duration::from_millis(10)).open().unwrap();
    let [events, odd] = [&b"events"[..], ODD_BYTES].map(|name| db.keyspace(name).unwrap());
    for (keyspace, keys) in [(&db, 10), (&events, 2000), (&odd, 30)] {
        (0..keys).for_each(|key| keyspace.put(format!("{key:04}"), "value").unwrap());
        keyspace.flush().unwrap();
        (0..keys).for_each(|key| drop(keyspace.get(format!("{key:04}x")).unwrap()));
    }
    let filter_bytes = [&db, &events, &odd].map(|db| db.stats().filter_bytes());
    let useful = events.stats().counts().filter.useful;
    assert!(useful > 1500);
    db.close().unwrap();
    let text = maypole!("stats", &path).well();
    let row = |text: &str, name: &str| {
        let row = text.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{text}")).to_string()
    };
    assert!(row(&text, "events ").contains("2,001"), "{text}");
    assert!(!text.contains("in vain\n"), "of how many lookups is not known: {text}");
    assert!(text.contains("\nOther keyspaces\n") && text.contains("\na b\\xff\\x0a "), "{text}");
    let json: Value =
        serde_json::from_str(&maypole!("stats", &path, "--format", "json").well()).unwrap();
    let filter_bytes: u64 = filter_bytes.iter().sum();
    assert_eq!(json["figures"]["filter_bytes"], filter_bytes, "they share a cache");
    let listed = &json["keyspaces"][0];
    assert_eq!((&listed["name"], &listed["useful"]), (&"events".into(), &useful.into()));
    let prometheus = maypole!("stats", &path, "--format", "prometheus").well();
    check_exposition(&prometheus);
    assert!(prometheus.contains(r#",keyspace="a b\\xff\\x0a"} 31"#), "{prometheus}");

    let text = maypole!("stats", &path, "--keyspace", "events").well();
    assert!(text.contains("db, keyspace events\n") && text.contains("2,001"), "{text}");
    let published: Vec<&str> = text.split("Other keyspaces\n").collect();
    assert!(published.len() == 2 && row(published[1], "events ").contains("2,001"), "{text}");
    for format in [&["--watch"][..], &["--format", "json"]] {
        let call = [&["stats", path.to_str().unwrap(), "--keyspace", "events"], format].concat();
        assert!(crate::run(&call).badly(2).contains("leave out --keyspace"));
    }
    let json = |arguments: &[&str]| -> Value {
        let call = [&["stats", path.to_str().unwrap(), "--json"], arguments].concat();
        serde_json::from_str(&crate::run(&call).well()).unwrap()
    };
    let own = json(&["--keyspace", "events"]);
    assert_eq!((&own["keyspace"], &own["files"][0]["entries"]), (&"events".into(), &2001.into()));
    assert_eq!(json(&[])["keyspaces"].as_array().unwrap().len(), 2);

    let families = |arguments: &[&str]| -> Vec<String> {
        let call = [&["advise", path.to_str().unwrap(), "--json"], arguments].concat();
        let found: Value = serde_json::from_str(&crate::run(&call).out).unwrap();
        let families = found["families"].as_array().unwrap().iter();
        families.map(|family| family["column_family"].as_str().unwrap().into()).collect()
    };
    assert_eq!(families(&[]), ["default", r"a b\xff\x0a", "events"]);
    assert_eq!(families(&["--keyspace", "events"]), ["events"]);
    let text = maypole!("advise", &path, "--keyspace", "events").out;
    assert!(text.starts_with("Keyspace events: 1 table"), "{text}");
}

#[test]
fn a_checkpoint_and_a_dump_have_all_keyspaces() {
    let (dir, db) = database();
    maypole!("compact", &db, "--keyspace", "events").well();
    let copy = dir.path().join("copy");
    let said = maypole!("checkpoint", &db, &copy).well();
    assert!(said.starts_with("3 tables, "), "{said}");
    assert_eq!(maypole!("get", &copy, "of", "--keyspace", ODD).well(), "odd\n");
    maypole!("put", &db, "--keyspace", ODD, "new", "value").well();
    let mut shown = String::new();
    for entry in std::fs::read_dir(&db).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("MANIFEST-") || name.ends_with(".wal") {
            shown += &maypole!("inspect", "--annotate", &path).well();
        }
    }
    assert!(shown.contains("16: in a keyspace") && !shown.contains("not understood"), "{shown}");
    assert!(shown.contains(r#"keyspace: 2, "a b\xff\n""#), "{shown}");
}
