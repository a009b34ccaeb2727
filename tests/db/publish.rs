//! Counters that a database publishes in a file for other processes. The file is written while the
//! database is open, and a last time when it is closed. Afterwards the file stays. A failure to
//! write the file never disturbs the database.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, RealFs, Target, write_atomic};
use maypole::{Builder, Db, Error, PublishedStats, Ticker};

#[cfg(target_os = "linux")]
use super::background::{in_a_process, threads};

const OFTEN: Duration = Duration::from_millis(10);

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db").fs(Arc::clone(fs)).publish_stats(OFTEN)
}

fn published(fs: &Arc<dyn Fs>) -> Option<PublishedStats> {
    builder(fs).published_stats().unwrap()
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn fill(db: &Db) {
    for key in 0..1000 {
        db.put(format!("{key:04}"), "value").unwrap();
    }
    db.flush().unwrap();
    for key in 0..1000 {
        assert!(db.get(format!("{key:04}")).unwrap().is_some());
        assert!(db.get(format!("{key:04} absent")).unwrap().is_none());
    }
}

#[test]
fn a_reader_sees_the_counters_of_an_open_database_and_they_stay_when_it_closes() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = builder(&fs).open().unwrap();
    eventually("the first counters are written", || published(&fs).is_some());
    fill(&db);
    let read = |stats: &PublishedStats| stats.tickers.get(Ticker::NumberKeysRead);
    eventually("the lookups are published", || read(&published(&fs).unwrap()) == 2000);
    let (stats, own) = (published(&fs).unwrap(), db.stats());
    assert!(stats.is_open && stats.process_id == std::process::id());
    assert!(stats.opened <= stats.written && stats.interval == OFTEN);
    assert_eq!((&stats.tickers, &stats.levels), (&own.tickers, &own.levels));
    assert_eq!((stats.counts(), stats.filter_bytes()), (own.counts(), own.filter_bytes()));
    assert_eq!((stats.predicted_fpr, &stats.cache), (own.predicted_fpr(), &own.cache));
    assert!(stats.counts().filter.useful > 900 && stats.predicted_fpr.is_some());
    assert_eq!(stats.cache_capacity_bytes, own.cache_capacity_bytes as u64);

    db.get("another").unwrap();
    db.close().unwrap();
    let closed = published(&fs).unwrap();
    assert!(!closed.is_open && read(&closed) == 2001);
    assert_eq!(closed.opened, stats.opened);
    // A database that is opened without `publish_stats` leaves the file as it is.
    let db = Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap();
    db.get("another").unwrap();
    db.close().unwrap();
    assert_eq!(published(&fs).unwrap(), closed);
    // An opening that publishes starts from zero.
    drop(builder(&fs).open().unwrap());
    assert_eq!(read(&published(&fs).unwrap()), 0);
}

#[test]
fn nothing_is_written_where_nothing_was_counted_or_nobody_asked() {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem));
    let writes = Arc::new(AtomicUsize::new(0));
    faults.before_changes({
        let writes = Arc::clone(&writes);
        move |_, operation, path| {
            let is_stats = path.file_name().is_some_and(|name| name == "STATS.tmp");
            writes.fetch_add(
                usize::from(is_stats && operation == Operation::Create),
                Ordering::SeqCst,
            );
        }
    });
    let fs: Arc<dyn Fs> = Arc::new(faults);
    let written = || writes.load(Ordering::SeqCst);
    let silent = Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap();
    fill(&silent);
    silent.close().unwrap();
    assert_eq!((written(), published(&fs)), (0, None));

    let db = builder(&fs).open().unwrap();
    eventually("the first counters are written", || written() == 1);
    thread::sleep(OFTEN * 10);
    assert_eq!(written(), 1, "an idle database was written again");
    db.get("key").unwrap();
    eventually("the lookup is published", || written() == 2);
    // A database that is opened to be read publishes nothing, because it may not write and holds no
    // lock.
    let reader = builder(&fs).open_read_only().unwrap();
    fill_reads(&reader);
    thread::sleep(OFTEN * 10);
    reader.close().unwrap();
    assert_eq!(written(), 2, "what was opened to be read has written");
    db.close().unwrap();
    assert_eq!(written(), 3);
}

fn fill_reads(db: &Db) {
    (0..100).for_each(|key| drop(db.get(format!("{key:04}")).unwrap()));
}

#[test]
fn a_crash_leaves_the_last_counters_and_the_next_opening_removes_what_was_half_written() {
    let mem = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let db = builder(&fs).open().unwrap();
    fill(&db);
    let read = |fs: &Arc<dyn Fs>| published(fs).map(|s| s.tickers.get(Ticker::NumberKeysRead));
    eventually("the lookups are published", || read(&fs) == Some(2000));
    let killed: Arc<dyn Fs> = Arc::new(mem.kill());
    drop(db);
    let stats = published(&killed).unwrap();
    assert!(stats.is_open && stats.tickers.get(Ticker::NumberKeysRead) == 2000);
    write_atomic(&*killed, Path::new("/db/STATS.tmp"), b"half of it").unwrap();
    let db = Db::builder("/db").fs(Arc::clone(&killed)).open().unwrap();
    assert!(!killed.exists(Path::new("/db/STATS.tmp")).unwrap());
    // `verify` does not list the file as a stray, a checkpoint does not copy it, and a repair
    // reports no problem.
    assert!(db.verify().unwrap().strays.is_empty());
    db.checkpoint("/copy").unwrap();
    assert!(!killed.exists(Path::new("/copy/STATS")).unwrap());
    db.close().unwrap();
    let report = Db::builder("/db").fs(Arc::clone(&killed)).repair().unwrap();
    assert!(report.problems.is_empty() && report.losses.is_empty(), "{report}");
    assert_eq!(published(&killed).unwrap(), stats);
    // A power loss at any moment leaves a database that opens, even if the file of the counters is
    // missing or damaged.
    for seed in 0..20 {
        let fs: Arc<dyn Fs> = Arc::new(mem.crash(seed));
        let _ = builder(&fs).published_stats();
        builder(&fs).open().unwrap().close().unwrap();
        assert!(!published(&fs).unwrap().is_open);
    }
}

#[test]
fn databases_publish_beside_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name| Db::builder(dir.path().join(name)).publish_stats(OFTEN).open().unwrap();
    let databases = [open("one"), open("two")];
    databases[1].get("key").unwrap();
    let read = |name| {
        let stats = Db::published_stats(dir.path().join(name)).unwrap();
        stats.map(|stats| stats.tickers.get(Ticker::NumberKeysRead))
    };
    eventually("both publish", || (read("one"), read("two")) == (Some(0), Some(1)));
    let [one, two] = databases;
    one.close().unwrap();
    two.get("key").unwrap();
    eventually("the other goes on", || read("two") == Some(2));
    two.close().unwrap();
    let mut names = RealFs.list(&dir.path().join("one")).unwrap();
    names.retain(|name| name.starts_with("STATS"));
    assert_eq!(names, ["STATS"]);
}

#[test]
fn what_is_damaged_or_foreign_is_an_error_in_words() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let error = builder(&fs).published_stats().unwrap_err();
    assert!(error.to_string().contains("there is no database here"), "{error}");
    let db = builder(&fs).open().unwrap();
    fill(&db);
    db.close().unwrap();
    let path = Path::new("/db/STATS");
    let bytes = fs.read(path).unwrap();
    assert!(bytes.len() < 8 << 10, "{} bytes", bytes.len());
    let with = |bytes: &[u8]| {
        write_atomic(&*fs, path, bytes).unwrap();
        builder(&fs).published_stats()
    };
    for cut in 0..bytes.len() {
        let error = with(&bytes[..cut]).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. } | Error::Unsupported { .. }), "{error}");
    }
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let error = with(&bytes).unwrap_err();
        assert!(error.to_string().starts_with("/db/STATS: "), "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    let error = with(b"some notes of mine\n").unwrap_err();
    assert!(error.to_string().contains("found \"some notes of mine\\n\""), "{error}");
    let error = with(&vec![b'x'; 1 << 20]).unwrap_err();
    assert!(error.to_string().contains("found 1048576 bytes"), "{error}");
    let error = with(b"maypole stats 2\nmore\n").unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    // The damaged file does not prevent opening the database. The database replaces the file when
    // it publishes its counters, at the latest when it is closed.
    builder(&fs).open().unwrap().close().unwrap();
    assert!(published(&fs).is_some());
}

#[test]
fn a_write_that_fails_or_panics_disturbs_nothing_and_is_tried_again() {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem));
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    for operation in [Operation::Create, Operation::Append, Operation::Flush, Operation::Rename] {
        let db = builder(&fs).open().unwrap();
        faults.fail_files_from("STATS.tmp", Target::Only(operation), 0, Fault::NoSpace);
        let before = faults.faults();
        fill(&db);
        eventually("a write failed", || faults.faults() > before + 2);
        assert!(db.stats().out_of_space.is_none());
        assert!(operation == Operation::Rename || !fs.exists(Path::new("/db/STATS.tmp")).unwrap());
        faults.heal();
        let read = || published(&fs).map(|stats| stats.tickers.get(Ticker::NumberKeysRead));
        eventually("it was tried again", || read() == Some(2000));
        faults.fail_files_from("STATS.tmp", Target::Only(operation), 0, Fault::NoSpace);
        db.put("key", "value").unwrap();
        db.close().unwrap();
        faults.heal();
        assert!(published(&fs).unwrap().is_open, "the last write failed");
        fs.remove(Path::new("/db/STATS")).unwrap();
    }
    // After a panic in the caller's file system, the publishing thread continues for other
    // databases.
    let panics = FaultFs::new(Arc::new(MemFs::new()));
    panics.before_changes(|_, _, path| {
        let is_stats = path.to_str().unwrap().ends_with("STATS.tmp");
        assert!(!is_stats || thread::current().name() != Some("maypole-timer"), "on purpose");
    });
    let panics: Arc<dyn Fs> = Arc::new(panics);
    let (db, other) = (builder(&panics).open().unwrap(), builder(&fs).open().unwrap());
    other.get("key").unwrap();
    let read = || published(&fs).map(|stats| stats.tickers.get(Ticker::NumberKeysRead));
    eventually("the other publishes", || read() == Some(1));
    db.put("key", "value").unwrap();
    db.close().unwrap();
    other.close().unwrap();
}

/// Whether the publishing thread is about to write or is writing when the database is closed, the
/// file then has the last counts, and is not written any more.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_closed_database_is_free_and_nobody_writes_to_it_any_more() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    for turn in 0..200 {
        let db = builder(&fs).open().unwrap();
        (0..turn % 20).for_each(|_| {
            db.put("key", "value").unwrap();
            thread::sleep(Duration::from_millis(1));
        });
        db.close().unwrap();
        let left = fs.read(Path::new("/db/STATS")).unwrap();
        let stats = published(&fs).unwrap();
        assert!(!stats.is_open, "turn {turn}");
        assert_eq!(stats.tickers.get(Ticker::NumberKeysWritten), turn % 20);
        if turn % 50 == 0 {
            thread::sleep(OFTEN * 3);
            assert_eq!(fs.read(Path::new("/db/STATS")).unwrap(), left);
        }
    }
}

#[test]
fn an_interval_that_makes_no_sense_is_refused() {
    for interval in [Duration::ZERO, Duration::from_millis(9), Duration::MAX] {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let error = builder(&fs).publish_stats(interval).open().unwrap_err();
        assert!(error.to_string().contains("milliseconds of publish_stats"), "{error}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_hundred_databases_publish_from_one_thread() {
    in_a_process("publish::a_hundred_that_publish");
}

/// Not a test of its own: the process whose threads are counted.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "the other half of another test, which starts it"]
fn a_hundred_that_publish() {
    if std::env::var_os("MAYPOLE_HUNDRED").is_none() {
        return;
    }
    let before = threads();
    let systems: Vec<Arc<dyn Fs>> = (0..100).map(|_| Arc::new(MemFs::new()) as _).collect();
    let databases: Vec<Db> = systems.iter().map(|fs| builder(fs).open().unwrap()).collect();
    for turn in 1..=3u64 {
        databases.iter().for_each(|db| drop(db.get("key").unwrap()));
        let read = |fs| published(fs).map(|stats| stats.tickers.get(Ticker::NumberKeysRead));
        eventually("all publish", || systems.iter().all(|fs| read(fs) == Some(turn)));
        assert_eq!(threads(), before + 1);
    }
    drop(databases);
    eventually("the thread leaves", || threads() == before);
    assert!(systems.iter().all(|fs| !published(fs).unwrap().is_open));
    println!("hundred: done");
}

/// The program that has the database open returns the text that the command line prints of the
/// published counters, apart from the three series about who published them.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_text_for_prometheus_has_the_series_of_the_published_counters() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let builder = || Db::builder("/a \"db\"").fs(Arc::clone(&fs));
    let db = builder().publish_stats(Duration::from_secs(1)).open().unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let _kept = db.iter();
    let _snapshot = db.snapshot();
    (0..7).for_each(|n| drop(db.get(format!("absent {n}")).unwrap()));
    let live = db.stats().prometheus();
    let sample = "\nmaypole_number_keys_read_total{database=\"/a \\\"db\\\"\"} 7\n";
    assert!(live.contains(sample) && live.ends_with('\n'), "{live}");
    assert!(live.contains("\nmaypole_level_files{database=\"/a \\\"db\\\"\",level=\"0\"} 1\n"));
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let made = live.split("oldest_snapshot_timestamp_seconds{database=\"/a \\\"db\\\"\"} ").nth(1);
    let made: f64 = made.unwrap().lines().next().unwrap().parse().unwrap();
    assert!((now - 600.0..=now).contains(&made), "{made}, and now it is {now}");
    // Nothing is published before the first turn of the timer.
    let published = || {
        let stats = builder().published_stats().unwrap();
        stats.map_or(String::new(), |stats| stats.prometheus())
    };
    while !published().contains(sample) || !published().contains("oldest_snapshot") {
        thread::sleep(Duration::from_millis(10));
    }
    let series = |text: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(Into::into).collect()
    };
    let (live, published) = (series(&live), series(&published()));
    let only_published: Vec<_> = published.difference(&live).collect();
    let owner = ["open", "opened_timestamp_seconds", "published_timestamp_seconds"];
    assert_eq!(only_published, owner.map(|name| format!("maypole_{name} gauge")).each_ref());
    assert!(live.is_subset(&published) && live.len() > 60, "{live:?}");
}
