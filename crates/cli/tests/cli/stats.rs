//! `stats`: one process publishes its counters, and another one shows them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use maypole::{Builder, Db, Error, Ticker};
use serde_json::Value;

use crate::maypole;

const OFTEN: Duration = Duration::from_millis(10);

/// A database of a thousand keys in one table. Each key is looked up, and so are as many absent
/// keys. The last absent key is after the table's last key, so that no filter is queried for it.
fn publishing(path: &Path) -> Db {
    let db = Db::builder(path).publish_stats(OFTEN).open().unwrap();
    for key in 0..1000 {
        db.put(format!("{key:04}"), "value").unwrap();
    }
    db.flush().unwrap();
    look_up(&db);
    db
}

fn look_up(db: &Db) {
    for key in 0..1000 {
        assert!(db.get(format!("{key:04}")).unwrap().is_some());
        assert!(db.get(format!("{key:04} absent")).unwrap().is_none());
    }
}

/// Waits until the published counters show this number of lookups.
fn wait_for_lookups(path: &Path, lookups: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    let published = || {
        let stats = Db::published_stats(path).unwrap();
        stats.map(|stats| stats.tickers.get(Ticker::NumberKeysRead))
    };
    while published() != Some(lookups) {
        assert!(Instant::now() < end, "not published: {:?}", published());
        std::thread::sleep(OFTEN);
    }
}

fn dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    (dir, path)
}

#[test]
fn all_formats_show_what_the_owner_counts_while_it_counts() {
    let (_dir, path) = dir();
    let db = publishing(&path);
    wait_for_lookups(&path, 2000);
    let filter = db.stats().counts().filter;
    assert!(filter.useful > 900, "{filter:?}");

    let text = maypole!("stats", &path).well();
    for expected in [
        format!("by process {}, which has it open", std::process::id()),
        format!("{} of {} queries", filter.useful, maypole_count(filter.asked())),
        "level".to_string(),
        "by all filters and indexes".to_string(),
        "for open tables and slots".to_string(),
    ] {
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    let is_useful = |line: &&str| line.split_whitespace().any(|it| it == "bloom.filter.useful");
    let row = text.lines().find(is_useful).unwrap_or_else(|| panic!("{text}"));
    let shown = row.split_whitespace().next_back();
    assert_eq!(shown, Some(maypole_count(filter.useful).as_str()), "{row}");

    let json = maypole!("stats", &path, "--format", "json", "--read-cost", "50").well();
    let json: Value = serde_json::from_str(&json).unwrap();
    let figures = &json["figures"];
    assert_eq!(figures["useful"], filter.useful);
    assert_eq!(json["metadata_bytes"], db.stats().metadata_bytes);
    assert_eq!(json["pinned_metadata_bytes"], 0);
    assert_eq!(json["block_cache_tables_bytes"], db.stats().cache_tables_bytes);
    assert_eq!(figures["false_positive"], filter.false_positive());
    // Parsing JSON may change the last bit.
    let is_near = |name: &str, value: f64| {
        let read = figures[name].as_f64().unwrap();
        assert!((read - value).abs() <= value * 1e-12, "{name}: {read}, not {value}");
    };
    is_near("observed_fpr", filter.observed_fpr().unwrap());
    is_near("hit_rate", filter.useful as f64 / filter.asked() as f64);
    is_near("seconds_saved", filter.useful as f64 * 50.0 / 1e6);
    assert_eq!(json["tickers"]["number.keys.read"], 2000);
    assert_eq!(json["levels"][0]["useful"], filter.useful);
    assert_eq!(json["database"], path.to_str().unwrap());
    assert_eq!((&json["is_open"], &json["warnings"]), (&Value::Bool(true), &serde_json::json!([])));

    let prometheus = maypole!("stats", &path, "--format", "prometheus").well();
    check_exposition(&prometheus);
    let label = format!("{{database=\"{}\"}}", path.display());
    let sample = format!("\nmaypole_bloom_filter_useful_total{label} {}\n", filter.useful);
    assert!(prometheus.contains(&sample), "{sample}: {prometheus}");

    let lines = maypole!("stats", &path, "--format", "tablestats").well();
    let value = |name: &str| {
        let found = lines.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        found.unwrap_or_else(|| panic!("{name}: {lines}")).to_string()
    };
    assert_eq!((value("Table"), value("SSTable count")), ("db".into(), "1".into()));
    assert_eq!(value("Local read count"), "2000");
    assert_eq!(value("Bloom filter false positives"), filter.false_positive().to_string());
    let ratio = filter.false_positive() as f64 / filter.asked() as f64;
    assert_eq!(value("Bloom filter false ratio"), format!("{ratio:.5}"));

    db.close().unwrap();
    let text = maypole!("stats", &path).well();
    assert!(text.contains("which closed it"), "{text}");
}

/// `Stats` and the command once named the same columns differently: one had "positive" and "true"
/// where the other had "full positive" and "false positive". Now both use the same names.
#[test]
fn the_value_and_the_command_name_the_same_columns() {
    let (_dir, path) = dir();
    let db = publishing(&path);
    let own = db.stats().to_string();
    db.close().unwrap();
    let printed = maypole!("stats", &path).well();
    let names = |text: &str| -> String {
        let header = text.lines().find(|line| line.trim_start().starts_with("level "));
        let header = header.unwrap_or_else(|| panic!("{text}"));
        header.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&own), names(&printed));
    assert!(names(&own).ends_with("useful full positive false positive no filter"), "{own}");
}

/// What the filters promise is shown next to what came of it, also if other filters have replaced
/// them in between. If one false positive is looked up again and again, a sentence says so.
#[test]
fn searches_in_vain_are_predicted_and_observed() {
    let (_dir, path) = dir();
    let db = Db::builder(&path).filter("bloom(3)").open().unwrap();
    for key in 0..5000 {
        db.put(format!("{key:04}"), "value").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();

    let db = reopen(Db::builder(&path).filter("bloom(12)").publish_stats(OFTEN));
    let look_up = |letter: char| {
        for key in 0..4999 {
            assert!(db.get(format!("{key:04}{letter}")).unwrap().is_none());
        }
    };
    "abcd".chars().for_each(look_up);
    let with_few_bits = db.stats().counts().filter.false_positive();
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 1);
    "efgh".chars().for_each(look_up);
    let observed = db.stats().counts().filter.false_positive();
    assert!(with_few_bits > 3000 && observed > with_few_bits, "{with_few_bits}, {observed}");
    let published = || {
        wait_for_lookups(&path, db.stats().tickers.get(Ticker::NumberKeysRead));
        let json = maypole!("stats", &path, "--format", "json").well();
        let json: Value = serde_json::from_str(&json).unwrap();
        let row = json["in_vain_per_get"][0].clone();
        (["predicted", "observed", "low", "high"].map(|name| row[name].as_f64().unwrap()), row)
    };
    let ([predicted, shown, low, high], row) = published();
    assert_eq!(row["level"], 0);
    assert!((shown - observed as f64 / (8.0 * 4999.0)).abs() < 1e-9, "{row}, {observed}");
    assert!(low < predicted && predicted < high && high < 1.1 * low, "{row}");
    let text = maypole!("stats", &path).well();
    assert!(text.contains("\nData blocks that a lookup searches in vain\n"), "{text}");
    assert!(!text.contains("chance does not explain"), "{text}");

    let is_wrong = |key: &String| {
        let before = db.stats().counts().filter.false_positive();
        db.get(key).unwrap();
        db.stats().counts().filter.false_positive() > before
    };
    let key = (0..4999).map(|key| format!("{key:04}i")).find(is_wrong).expect("a false positive");
    for _ in 0..1000 {
        db.get(&key).unwrap();
    }
    let ([predicted, _, low, _], row) = published();
    assert!(predicted < low, "{row}");
    let text = maypole!("stats", &path).well();
    assert!(text.contains("level 0: a lookup searches 0."), "{text}");
    assert!(text.contains("chance does not explain"), "{text}");
}

fn maypole_count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", number / 1000, number % 1000),
    }
}

/// Checks for what a scraper rejects: a name that is declared twice or not before its samples, a
/// malformed line, a last line without a line break.
pub fn check_exposition(text: &str) {
    assert!(text.ends_with('\n'));
    let mut declared: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        match (words.next().unwrap(), words.next().unwrap()) {
            ("#", "HELP") => {
                let name = words.next().unwrap().to_string();
                assert!(words.next().is_some(), "{name} has no help");
                assert!(declared.iter().all(|(other, _)| *other != name), "{name} comes twice");
                declared.push((name, String::new()));
            }
            ("#", "TYPE") => {
                let (name, kind) = (words.next().unwrap(), words.next().unwrap());
                let last = declared.last_mut().unwrap();
                assert_eq!(last.0, name);
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
                last.1 = kind.to_string();
            }
            _ => {
                let (name, rest) = line.split_once('{').unwrap();
                assert_eq!(name, declared.last().unwrap().0, "{line}");
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{line}");
                let (labels, value) = rest.rsplit_once("} ").unwrap();
                assert!(labels.starts_with("database=\""), "{line}");
                assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            }
        }
    }
    assert!(declared.len() > 60, "{} names", declared.len());
}

#[test]
fn a_path_with_quotes_and_line_breaks_spoils_no_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a \"quoted\\ \n name");
    drop(publishing(&path));
    let prometheus = maypole!("stats", &path, "--format", "prometheus").well();
    check_exposition(&prometheus);
    assert!(prometheus.contains(r#"a \"quoted\\ \n name"} "#), "{prometheus}");
    let json = maypole!("stats", &path, "--format", "json").well();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["database"].as_str().unwrap().ends_with("a \"quoted\\ \\n name"));
    let lines = maypole!("stats", &path, "--format", "tablestats").well();
    assert!(lines.contains("Table: a \"quoted\\ \\n name\n"), "{lines}");
}

#[test]
fn without_published_counters_they_say_how_to_publish_and_print_no_zeros() {
    let (_dir, path) = dir();
    let error = maypole!("stats", &path, "--format", "json").badly(1);
    assert!(error.contains("there is no database here"), "{error}");
    maypole!("put", &path, "key", "value").well();
    for call in [["--format", "json"], ["--format", "prometheus"], ["--format", "tablestats"]] {
        let error = maypole!("stats", &path, call[0], call[1]).badly(1);
        assert!(error.contains("publish_stats"), "{error}");
    }
    let error = maypole!("stats", &path, "--watch").badly(1);
    assert!(error.contains("publish_stats"), "{error}");
    let text = maypole!("stats", &path).well();
    assert!(text.contains("none are published") && text.contains("publish_stats"), "{text}");
    assert!(!text.contains("useful") && !text.contains("observed"), "{text}");
    assert!(!path.join("STATS").exists());
}

#[test]
fn a_damaged_or_foreign_file_is_named_and_told_what_is_wrong_with_it() {
    let (_dir, path) = dir();
    drop(publishing(&path));
    let file = path.join("STATS");
    let whole = fs::read(&file).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"my own notes", b""] {
        fs::write(&file, damaged).unwrap();
        for more in ["--format=text", "--format=json", "--watch"] {
            let error = maypole!("stats", &path, more).badly(1);
            assert!(error.contains("STATS: damaged") && error.contains("remove it"), "{error}");
        }
    }
}

#[test]
fn what_is_left_behind_says_so() {
    let (_dir, path) = dir();
    drop(publishing(&path));
    let file = fs::File::options().write(true).open(path.join("STATS")).unwrap();
    let current = fs::metadata(path.join("CURRENT")).unwrap().modified().unwrap();
    file.set_modified(current - Duration::from_secs(60)).unwrap();
    let text = maypole!("stats", &path).well();
    assert!(text.contains("opened again, by a program that publishes nothing"), "{text}");
    // The counters of an owner that was killed still say that the database is open.
    let bytes = fs::read_to_string(path.join("STATS")).unwrap();
    let (text, _) = bytes.rsplit_once("crc32c ").unwrap();
    // No process has a number above 2^22.
    let text = text.replace(&format!("closed {} ", std::process::id()), "open 99999999 ");
    let crc = crc32c(text.as_bytes());
    fs::write(path.join("STATS"), format!("{text}crc32c {crc:08x}\n")).unwrap();
    let text = maypole!("stats", &path).well();
    assert!(text.contains("No such process runs here"), "{text}");
}

/// CRC-32C bit by bit: the reflected polynomial of Castagnoli.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

/// Opens a database that this process has closed. The close unlocks the lock file. If that fails, a
/// child process that another test has forked still holds the lock by its copy of the descriptor,
/// until it executes its program. So the opening is tried again while the database is locked.
fn reopen(builder: Builder) -> Db {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match builder.clone().open() {
            Err(Error::Locked { .. }) if Instant::now() < end => std::thread::sleep(OFTEN),
            opened => return opened.unwrap(),
        }
    }
}

/// Starts `stats --watch` on a pipe. Returns the process, and a function that reads the next block
/// of its output.
fn watch(path: &Path) -> (Child, impl FnMut() -> String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(["stats", "--watch=0.05"])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // A block ends with an empty line.
    let block = move || {
        let lines = lines.by_ref().take_while(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    (child, block)
}

#[test]
fn a_watcher_on_a_pipe_prints_a_block_each_look_and_ends_with_its_reader() {
    let (_dir, path) = dir();
    let db = publishing(&path);
    wait_for_lookups(&path, 2000);
    let (mut child, mut block) = watch(&path);
    let first = block();
    assert!(first.contains("first look") && first.contains("2,000"), "{first}");
    assert!(first.contains("dead, about") && !first.contains("for snapshots"), "{first}");
    // A row of time saved once had "10.572 s/s", computed from a cost of a read that was not
    // measured. Users did not understand another row, "no filter, in vain". Now these rows have the
    // names below.
    for row in ["reads saved, at most", "useless searches, no filter", "time saved, at "] {
        assert!(first.contains(row), "{row}: {first}");
    }
    assert!(first.contains(" µs a read") && !first.contains("lookups/s"), "{first}");
    // The first row of the table of levels.
    let level = first.lines().skip_while(|line| !line.starts_with("level")).nth(2).unwrap();
    assert!(level.starts_with("0 ") && level.contains("1,000"), "{first}");
    assert!(!first.contains('\x1b'), "a pipe got what only a terminal knows: {first}");
    // The rate in the row `useful`. The first block of output has no rates, because a rate needs
    // two readings of the counters.
    let rate = |block: &str| {
        let row = block.lines().find(|line| line.trim_start().starts_with("useful")).unwrap();
        let rate = row.split_whitespace().nth(1).unwrap().replace(',', "");
        rate.parse::<u64>().unwrap_or_else(|_| panic!("{block}"))
    };
    assert_eq!(rate(&block()), 0, "nothing was looked up in between");
    look_up(&db);
    let end = Instant::now() + Duration::from_secs(60);
    let busy = loop {
        let block = block();
        if rate(&block) > 0 {
            break block;
        }
        assert!(Instant::now() < end, "{block}");
    };
    let lookups = busy.lines().find(|line| line.split_whitespace().next() == Some("lookups"));
    let lookups = lookups.and_then(|line| line.split_whitespace().next_back()).unwrap();
    let lookups: u64 = lookups.replace(',', "").parse().unwrap();
    assert!((2001..=4000).contains(&lookups), "{busy}");
    for curve in ["lookups/s", "reads saved/s"] {
        let line = busy.lines().find(|line| line.starts_with(curve));
        assert!(line.is_some_and(|line| line.contains('█')), "{curve}: {busy}");
    }
    // The counters of the next opening begin at zero, and the output says that the database was
    // opened again.
    db.close().unwrap();
    drop(reopen(Db::builder(&path).publish_stats(OFTEN)));
    while !block().contains("opened again") {
        assert!(Instant::now() < end);
    }
    drop(block);
    let status = child.wait().unwrap();
    let err = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
}

/// On a screen of 80 × 24 characters a look had 38 lines, so that its top scrolled away.
#[cfg(unix)]
#[test]
fn a_look_fits_the_terminal_with_what_matters_on_top() {
    use std::fs::{File, OpenOptions};
    use std::io::Read;

    use rustix::{pty, termios};

    let (_dir, path) = dir();
    let _db = publishing(&path);
    wait_for_lookups(&path, 2000);
    let screen = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&screen).unwrap();
    pty::unlockpt(&screen).unwrap();
    let size = termios::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = pty::ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(terminal).unwrap();
    termios::tcsetwinsize(&terminal, size).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_maypole"))
        .args(["stats", "--watch=0.05"])
        .arg(&path)
        .env_remove("COLUMNS")
        .env("TERM", "xterm")
        .stdout(terminal)
        .spawn()
        .unwrap();
    let mut read = Vec::new();
    let mut screen = File::from(screen);
    // Each look but the first begins with this, and ends where the next one begins.
    let start = "\x1b[J\x1b[H";
    let look = loop {
        let mut piece = [0; 4096];
        let bytes = screen.read(&mut piece).unwrap();
        read.extend_from_slice(&piece[..bytes]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let looks: Vec<&str> = text.split(start).collect();
        if let [_, .., look, _] = looks[..]
            && look.contains("lookups/s")
        {
            break look.to_string();
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let lines: Vec<&str> = look.split('\n').collect();
    assert!((20..=24).contains(&lines.len()), "{look:?}");
    let plain = |line: &str| {
        let codes = ["\x1b[1m", "\x1b[2m", "\x1b[0m", "\x1b[K", "\r"];
        codes.iter().fold(line.to_string(), |line, code| line.replace(code, ""))
    };
    assert!(lines.iter().all(|line| plain(line).chars().count() <= 80), "{look:?}");
    assert!(plain(lines[0]).ends_with("/db"), "{look:?}");
    for part in ["reads saved/s", "hit rate", "observed rate", "dead, about"] {
        assert!(look.contains(part), "{part}: {look:?}");
    }
}

#[test]
fn two_databases_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| dir.path().join(name));
    let databases = paths.each_ref().map(|path| publishing(path));
    look_up(&databases[1]);
    wait_for_lookups(&paths[0], 2000);
    wait_for_lookups(&paths[1], 4000);
    for (path, lookups) in paths.iter().zip([2000, 4000]) {
        let text = maypole!("stats", path, "--format", "prometheus").well();
        let sample = format!(
            "maypole_number_keys_read_total{{database=\"{}\"}} {lookups}\n",
            path.display()
        );
        assert!(text.contains(&sample), "{text}");
    }
}

#[test]
fn warnings_are_given_where_they_mean_something() {
    let (_dir, path) = dir();
    // A cache that is so small that a filter takes much of it.
    let db = Db::builder(&path).publish_stats(OFTEN).block_cache_bytes(4096).open().unwrap();
    for key in 0..2000 {
        db.put(format!("{key:04}"), "value").unwrap();
    }
    db.flush().unwrap();
    let warnings = |db: Db| -> Vec<String> {
        db.close().unwrap();
        let json = maypole!("stats", &path, "--format", "json").well();
        serde_json::from_value(serde_json::from_str::<Value>(&json).unwrap()["warnings"].clone())
            .unwrap()
    };
    // Only present keys are looked up, so no filter ever says no.
    (0..1000).for_each(|key| assert!(db.get(format!("{key:04}")).unwrap().is_some()));
    let found = warnings(db);
    let says = |found: &[String], text: &str| found.iter().any(|warning| warning.contains(text));
    assert!(
        says(&found, "level 0: its filters were queried 1,000 times and never said no"),
        "{found:?}"
    );
    assert!(says(&found, "of block cache and memtables, which is more than"), "{found:?}");
    assert!(!says(&found, "predicted are"), "{found:?}");

    // One absent key for which a filter says maybe is looked up again and again.
    let db = reopen(Db::builder(&path).publish_stats(OFTEN));
    let wrong = (0..100_000).map(|i| format!("1{i:06}")).find(|key| {
        let before = db.stats().counts().filter.false_positive();
        assert!(db.get(key).unwrap().is_none());
        db.stats().counts().filter.false_positive() > before
    });
    let wrong = wrong.expect("one key of a hundred is a false positive");
    (0..1000).for_each(|_| assert!(db.get(&wrong).unwrap().is_none()));
    let found = warnings(db);
    assert!(says(&found, "level 0: ") && says(&found, "predicted are"), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn searches_that_no_filter_could_spare_are_counted() {
    let (_dir, path) = dir();
    let none = "none".parse::<maypole::FilterPolicy>().unwrap();
    let db = Db::builder(&path).publish_stats(OFTEN).filter(none).open().unwrap();
    (0..1000).for_each(|key| db.put(format!("{key:04}"), "value").unwrap());
    db.flush().unwrap();
    look_up(&db);
    db.multi_get(&["0000 absent", "0001", "0002 absent"]).unwrap();
    db.close().unwrap();
    let json = maypole!("stats", &path, "--format", "json").well();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["figures"]["unfiltered"], &json["figures"]["asked"]),
        (&1001.into(), &0.into())
    );
    assert_eq!(json["figures"]["hit_rate"], Value::Null);
    let text = maypole!("stats", &path).well();
    assert!(text.contains("1,001 useless searches of tables without one"), "{text}");
}

/// If the space of a database does not shrink, a forgotten snapshot may be the reason. The
/// published counters once said neither how much data is dead nor that a snapshot keeps it. Now
/// they do.
///
/// The file `STATS` is written again when the oldest snapshot or the tree has changed, even if no
/// counter has. It once was not written if only the tree had changed. A flush is counted before its
/// table is in the tree, so a file that was written in between lacked the table until a counter
/// changed.
#[test]
fn dead_data_and_the_snapshot_that_keeps_it_are_published() {
    let (_dir, path) = dir();
    let db = Db::builder(&path).publish_stats(OFTEN).open().unwrap();
    let put_all = |value: &str| {
        (0..1000).for_each(|key| db.put(format!("{key:04}"), value.repeat(20)).unwrap());
    };
    put_all("old");
    let snapshot = db.snapshot();
    put_all("new");
    db.flush().unwrap();
    // These are too few deletions to start a compaction.
    (0..40).for_each(|key| db.delete(format!("{key:04}")).unwrap());
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let published = || Db::published_stats(&path).unwrap().unwrap();
    let wait_for = |is_there: &dyn Fn(&maypole::PublishedStats) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_there(&published()) {
            assert!(Instant::now() < end, "not published: {:?}", published());
            std::thread::sleep(OFTEN);
        }
    };
    let stats = db.stats();
    assert!(stats.held_by_snapshots_bytes > 5000, "{stats}");
    wait_for(&|published| published.held_by_snapshots_bytes == stats.held_by_snapshots_bytes);
    let label = format!("{{database=\"{}\"", path.display());
    let prometheus = maypole!("stats", &path, "--format", "prometheus").well();
    check_exposition(&prometheus);
    let held =
        format!("\nmaypole_held_by_snapshots_bytes{label}}} {}\n", stats.held_by_snapshots_bytes);
    assert!(prometheus.contains(&held), "{held}: {prometheus}");
    let made = format!("\nmaypole_oldest_snapshot_timestamp_seconds{label}}} ");
    let (_, made) = prometheus.split_once(&made).unwrap();
    let made: f64 = made.lines().next().unwrap().parse().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(made > now - 3600.0 && made < now + 60.0, "{made}, now it is {now}");
    let text = maypole!("stats", &path).well();
    assert!(text.contains("for snapshots") && text.contains("the oldest is"), "{text}");

    // Since the last publication nothing was read or written. The release of the snapshot starts a
    // compaction, and must be published although no counter has changed.
    drop(snapshot);
    wait_for(&|published| published.oldest_snapshot.is_none());
    db.wait_for_compaction().unwrap();
    (0..40).for_each(|key| db.delete(format!("{:04}", 100 + key)).unwrap());
    db.flush().unwrap();
    // The test does not wait for compaction, which would remove these deletions.
    let stats = db.stats();
    assert!(stats.levels.iter().any(|level| level.dead_entries >= 40), "{stats}");
    db.close().unwrap();

    let json = maypole!("stats", &path, "--format", "json").well();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["oldest_snapshot_ms"], Value::Null);
    assert_eq!(json["held_by_snapshots_bytes"], 0);
    let prometheus = maypole!("stats", &path, "--format", "prometheus").well();
    check_exposition(&prometheus);
    assert!(!prometheus.contains("oldest_snapshot"), "{prometheus}");
    let text = maypole!("stats", &path).well();
    assert!(text.contains("dead, about") && !text.contains("for snapshots"), "{text}");
    let levels = json["levels"].as_array().unwrap();
    assert_eq!(levels.len(), stats.levels.len());
    for (level, shown) in stats.levels.iter().zip(levels) {
        assert_eq!(shown["level"], level.level);
        let dead = (level.dead_entries, level.dead_bytes);
        assert_eq!(
            (&shown["dead_entries"], &shown["dead_bytes"]),
            (&dead.0.into(), &dead.1.into())
        );
        for (name, value) in [("entries", dead.0), ("bytes", dead.1)] {
            let sample = format!("_dead_{name}{label},level=\"{}\"}} {value}\n", level.level);
            assert!(prometheus.contains(&sample), "{sample}: {prometheus}");
        }
    }
    // `--json` does not read the published counters: its figures come from the opened database.
    let json = maypole!("stats", &path, "--json").well();
    let json: Value = serde_json::from_str(&json).unwrap();
    let dead = |rows: &Value| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row["dead_entries"].as_u64().unwrap()).sum()
    };
    assert!(dead(&json["levels"]) >= 40);
    assert_eq!(dead(&json["levels"]), dead(&json["files"]));
}
