//! Background work: threads that databases share, devices that stall, full disks, jobs that panic,
//! damaged tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Compression, Db, Error, Ticker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .memtable_bytes(4096)
        .block_bytes(256)
        .table_bytes(8 << 10)
        .level_base_bytes(32 << 10)
}

fn shared(fs: &FaultFs) -> Arc<dyn Fs> {
    Arc::new(fs.clone())
}

fn faults() -> (MemFs, FaultFs) {
    let mem = MemFs::new();
    (mem.clone(), FaultFs::new(Arc::new(mem)))
}

/// Waits until the work of another thread makes `holds` true.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn tables_on_disk(fs: &dyn Fs) -> usize {
    fs.list(Path::new("/db")).unwrap().iter().filter(|name| name.ends_with(".sst")).count()
}

/// Regression: each database had a thread of its own for flushes and some for compactions, so that
/// 100 open ones had 302 threads, nearly all asleep. Now all databases share a few threads, which
/// end when they are idle.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_hundred_open_databases_share_a_few_threads_and_idle_ones_use_neither_threads_nor_time() {
    in_a_process("background::a_hundred_databases");
}

/// Runs another test in a process of its own, because the threads of other tests would be counted.
#[cfg(target_os = "linux")]
pub fn in_a_process(test: &str) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--ignored", "--nocapture"]);
    let output = child.env("MAYPOLE_HUNDRED", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("hundred: done"), "{text}{errors}");
}

#[cfg(target_os = "linux")]
pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Not a test of its own: the process whose threads are counted.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "the other half of another test, which starts it"]
fn a_hundred_databases() {
    if std::env::var_os("MAYPOLE_HUNDRED").is_none() {
        return;
    }
    // User and system time of all threads, also of those that have ended, in ticks of 10 ms.
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
    };
    let before = threads();
    let databases: Vec<Db> = (0..100)
        .map(|_| {
            let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
            builder(&fs).open().unwrap()
        })
        .collect();
    assert_eq!(threads(), before, "a database that does nothing has a thread");
    for db in &databases {
        for n in 0..300 {
            db.put(format!("{n:04}"), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    }
    let after_work = threads();
    assert!(after_work < before + 20, "{after_work} threads");
    eventually("idle threads leave", || threads() == before);
    let used = ticks();
    thread::sleep(Duration::from_secs(1));
    let used = ticks() - used;
    assert!(used <= 10, "100 idle databases used {used} hundredths of a second");
    for db in &databases {
        assert_eq!(db.iter().count(), 300);
    }
    println!("hundred: done, {} threads at work", after_work - before);
}

/// Regression: a full disk. Each keyspace whose compaction had failed had a thread, which waited for
/// space. Now the timer waits for all of them.
#[test]
#[cfg(target_os = "linux")]
fn compactions_of_a_hundred_keyspaces_that_wait_for_space_hold_no_threads() {
    in_a_process("background::a_hundred_keyspaces_without_space");
}

/// Not a test of its own: the process whose threads are counted.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "the other half of another test, which starts it"]
fn a_hundred_keyspaces_without_space() {
    if std::env::var_os("MAYPOLE_HUNDRED").is_none() {
        return;
    }
    let (_, faults) = faults();
    let db = builder(&shared(&faults)).open().unwrap();
    let keyspaces: Vec<Db> = (0..100).map(|n| db.keyspace(format!("{n}")).unwrap()).collect();
    // The first compactions stand still until all are due.
    let held = Arc::new((Mutex::new(true), Condvar::new()));
    faults.before_changes({
        let held = Arc::clone(&held);
        move |_, operation, _| {
            if operation == Operation::Create && thread::current().name() == Some("maypole-compact")
            {
                let guard = held.0.lock().unwrap();
                drop(held.1.wait_while(guard, |held| *held).unwrap());
            }
        }
    });
    for keyspace in &keyspaces {
        for table in 0..4 {
            keyspace.put("key", [table; 100]).unwrap();
            keyspace.flush().unwrap();
        }
    }
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    *held.0.lock().unwrap() = false;
    held.1.notify_all();
    let waiting = || keyspaces.iter().filter(|it| it.stats().out_of_space.is_some()).count();
    eventually("all wait for space", || waiting() == 100);
    eventually("no thread is held", || threads() < 20);
    assert_eq!(waiting(), 100);
    faults.heal();
    for keyspace in &keyspaces[..3] {
        // A caller who waits has it tried at once.
        keyspace.wait_for_compaction().unwrap();
        assert!(keyspace.stats().levels.first().is_none_or(|level| level.files < 4));
    }
    println!("hundred: done");
}

#[test]
fn a_database_whose_device_stalls_holds_up_no_other() {
    let (_, stalling) = faults();
    let held = Arc::new((Mutex::new(true), Condvar::new()));
    stalling.before_changes({
        let held = Arc::clone(&held);
        move |_, operation, path| {
            if operation == Operation::Create && path.extension().is_some_and(|e| e == "sst") {
                let guard = held.0.lock().unwrap();
                drop(held.1.wait_while(guard, |held| *held).unwrap());
            }
        }
    });
    let stalled: Vec<Db> = (0..4)
        .map(|n| {
            let db = builder(&shared(&stalling));
            let db = db.clone().open().or_else(|_| {
                Db::builder(format!("/db{n}")).fs(shared(&stalling)).memtable_bytes(4096).open()
            });
            let db = db.unwrap();
            // Fills a memtable, whose flush then waits in the stalled device.
            while db.stats().memtable_bytes < 5000 {
                db.put("key", [7; 500]).unwrap();
            }
            db
        })
        .collect();
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = builder(&fs).open().unwrap();
    for n in 0..1000 {
        db.put(format!("{:04}", n * 7919 % 1000), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let tickers = db.stats().tickers;
    assert!(tickers.get(Ticker::FlushCount) > 10 && tickers.get(Ticker::CompactionCount) > 1);
    assert!(stalled.iter().all(|db| db.stats().tickers.get(Ticker::FlushCount) == 0));
    *held.0.lock().unwrap() = false;
    held.1.notify_all();
    stalled.iter().for_each(|db| db.flush().unwrap());
}

#[test]
fn work_that_panics_latches_its_database_by_name_and_no_other() {
    let (mem, faults) = faults();
    let db = builder(&shared(&faults)).open().unwrap();
    db.put("key", "value").unwrap();
    faults.before_changes(|_, operation, path| {
        let is_table = path.extension().is_some_and(|extension| extension == "sst");
        assert!(operation != Operation::Create || !is_table, "two lines\nof a panic");
    });
    let error = db.flush().unwrap_err();
    let Error::ReadOnly(cause) = &error else { panic!("{error}") };
    assert!(matches!(&**cause, Error::Panicked(_)), "{error}");
    assert!(error.to_string().contains("two lines of a panic"), "{error}");
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    assert!(matches!(db.put("key", "other"), Err(Error::ReadOnly(_))));
    assert!(db.close().is_err());
    // The thread pool still runs jobs after the panic, and the write is found at the next opening.
    let fs: Arc<dyn Fs> = Arc::new(mem);
    let db = builder(&fs).open().unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
}

/// Regression: a file system may hold the `Db` that it serves, so that a background job may drop
/// the last handle. Such a job once waited for its own end.
#[test]
fn the_last_handle_may_be_dropped_by_a_job_of_the_database() {
    let (mem, faults) = faults();
    let db = builder(&shared(&faults)).open().unwrap();
    db.put("key", "value").unwrap();
    let last = Arc::new(Mutex::new(None::<Db>));
    faults.before_changes({
        let last = Arc::clone(&last);
        move |_, operation, path| {
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            let in_job = thread::current().name() == Some("maypole-flush");
            if operation == Operation::Create && is_table && in_job {
                // Waits until the test has given its handle away.
                eventually("the handle is here", || last.lock().unwrap().is_some());
                drop(last.lock().unwrap().take());
            }
        }
    });
    while db.stats().memtable_bytes < 5000 {
        db.put("other", [7; 500]).unwrap();
    }
    *last.lock().unwrap() = Some(db);
    eventually("the database is closed", || last.lock().unwrap().is_none());
    let fs: Arc<dyn Fs> = Arc::new(mem);
    eventually("the lock is given back", || match builder(&fs).open() {
        Ok(db) => db.get("key").unwrap().unwrap() == b"value",
        Err(error) => {
            assert!(matches!(error, Error::Locked { .. }), "{error}");
            false
        }
    });
}

fn is_out_of_space<T: std::fmt::Debug>(result: maypole::Result<T>) -> bool {
    match result {
        Err(Error::ReadOnly(cause)) => panic!("latched: {cause}"),
        Err(error) => error.is_out_of_space(),
        Ok(_) => false,
    }
}

/// Regression: a flush on a full disk made the database read-only for good. Now the memtable is
/// kept, and is flushed when there is space.
#[test]
fn a_flush_without_room_keeps_its_memtable_and_writing_goes_on_when_there_is_room() {
    for (operation, fault) in [
        (Operation::Create, Fault::NoSpace),
        (Operation::Append, Fault::NoSpace),
        (Operation::Append, Fault::ShortWrite),
    ] {
        let (mem, faults) = faults();
        let db = builder(&shared(&faults)).open().unwrap();
        let mut written = 0;
        let mut put = |db: &Db| {
            let outcome = db.put(format!("{:05}", written * 7919 % 100_000), [7; 100]);
            written += u32::from(outcome.is_ok());
            (written, outcome)
        };
        for _ in 0..200 {
            put(&db).1.unwrap();
        }
        faults.fail_files_from(".sst", Target::Only(operation), 0, fault);
        // Writes succeed until two memtables wait for their flush and the third is full.
        let written = (0..10_000).map(|_| put(&db)).find(|(_, outcome)| outcome.is_err());
        let (written, outcome) = written.expect("writers go on without room");
        assert!(is_out_of_space(outcome));
        assert!(written > 200);
        assert!(is_out_of_space(put(&db).1), "told once only");
        assert!(is_out_of_space(db.flush()));
        assert!(is_out_of_space(db.wait_for_compaction()));
        assert!(is_out_of_space(db.compact_range(..)));
        assert_eq!(db.iter().count() as u32, written, "a write that was refused is there");
        faults.heal();
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let written = (0..300).map(|_| put(&db)).last().unwrap().0;
        db.compact_range(..).unwrap();
        assert_eq!(db.iter().count() as u32, written);
        // An obsolete table is deleted once every lookup in the process that began before the table
        // left the tree has ended, in whatever database. The system may have suspended the thread
        // of another test in such a lookup. A database tries again to delete obsolete tables
        // whenever its tree changes, so the test changes the tree.
        let mut written = written;
        eventually("nothing of a failed attempt is left", || {
            written = put(&db).0;
            db.flush().unwrap();
            tables_on_disk(&mem) == db.stats().files.len()
        });
        db.close().unwrap();
        let fs: Arc<dyn Fs> = Arc::new(mem.kill());
        assert_eq!(builder(&fs).open().unwrap().iter().count() as u32, written);
    }
}

#[test]
fn a_flush_that_found_no_room_is_tried_again_by_itself() {
    let (_, faults) = faults();
    let db = builder(&shared(&faults)).open().unwrap();
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    while db.put("key", [7; 500]).is_ok() {}
    faults.heal();
    eventually("writing goes on", || db.put("key", "last").is_ok());
    assert_eq!(db.get("key").unwrap().unwrap(), b"last");
}

#[test]
fn a_compaction_without_room_is_tried_again_and_stops_nobody() {
    let (mem, faults) = faults();
    let db = builder(&shared(&faults)).open().unwrap();
    let mut number = 0;
    let mut table = |db: &Db| {
        number += 1;
        for key in 0..10 {
            db.put(format!("{key}"), format!("{number}")).unwrap();
        }
        db.flush()
    };
    (0..3).for_each(|_| table(&db).unwrap());
    // The fourth flush finds space, but the compaction that it starts does not.
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 1, Fault::NoSpace);
    table(&db).unwrap();
    assert!(is_out_of_space(db.wait_for_compaction()));
    assert!(is_out_of_space(db.compact_range(..)));
    db.put("0", "after").unwrap();
    assert_eq!(db.get("0").unwrap().unwrap(), b"after");
    assert_eq!(db.stats().levels[0].files, 4);
    faults.heal();
    db.wait_for_compaction().unwrap();
    let stats = db.stats();
    assert_eq!((stats.files[0].level, stats.files.len()), (6, 1));
    assert_eq!(tables_on_disk(&mem), 1, "a failed attempt left a file");
    assert_eq!(db.get("0").unwrap().unwrap(), b"after");
}

/// Regression: with ascending keys each opening or ingestion made a small table, and every table
/// moved down as it was, so that after a thousand openings there were more files than a process may
/// have open. Now small adjacent tables are merged.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn thousands_of_tiny_tables_end_in_a_few() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let db = Db::builder("/db").fs(Arc::clone(&fs)).table_bytes(1 << 20).open().unwrap();
    for n in 0..3000 {
        let key = format!("{n:05}");
        if n % 2 == 0 {
            db.put(&key, [7; 50]).unwrap();
            db.flush().unwrap();
            continue;
        }
        let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
        let path = Path::new("/db/outside");
        let mut table = SstWriter::create_in(Arc::clone(&fs), path, options).unwrap();
        table.put(key.as_bytes(), &[7; 50]).unwrap();
        table.finish().unwrap();
        db.ingest(&[path]).unwrap();
    }
    db.wait_for_compaction().unwrap();
    let stats = db.stats();
    assert!(stats.files.len() < 40, "{stats}");
    // As many bytes were ingested as flushed. On average, compactions write each of these bytes
    // less than twice.
    let came = 2 * stats.tickers.get(Ticker::FlushWriteBytes);
    let rewritten = stats.tickers.get(Ticker::CompactWriteBytes);
    assert!(rewritten < 2 * came, "{rewritten} bytes were written for {came}");
    db.verify().unwrap();
    assert_eq!(db.iter().count(), 3000);
}

/// Flips a bit of byte 100 of a table. In a table of more than a few entries, this byte is in the
/// first data block.
fn damage(mem: &MemFs, number: u64) -> String {
    let path = format!("/db/{number:06}.sst");
    let mut bytes = mem.read(Path::new(&path)).unwrap();
    bytes[100] ^= 1;
    let mut file = mem.create(Path::new(&path)).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    path
}

/// Checks that a lookup of each key returns the right value, or an error of a file that the
/// statistics list as damaged. Returns the number of errors.
fn check_around_damage(db: &Db, model: &BTreeMap<String, String>, keys: u32, story: &str) -> u32 {
    let mut errors = 0;
    let damaged: Vec<_> = db.stats().damaged.iter().map(|d| d.error.to_string()).collect();
    for n in 0..keys {
        let key = format!("{n:05}");
        match db.get(&key) {
            Ok(value) => {
                let value = value.map(|value| String::from_utf8(value.to_vec()).unwrap());
                assert_eq!(value.as_ref(), model.get(&key), "{story}: key {key}");
            }
            Err(Error::Corruption { file, .. }) => {
                errors += 1;
                let file = file.to_str().unwrap().to_owned();
                let is_named = damaged.iter().any(|error| error.contains(&file));
                assert!(is_named, "{story}: {file} is not listed");
            }
            Err(error) => panic!("{story}: {error}"),
        }
    }
    errors
}

/// Regression: one damaged block made the database read-only as soon as a compaction read it. Now
/// compactions leave the block's table where it is, and all other work continues.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_damaged_table_is_set_aside_and_everything_goes_on_around_it() {
    const KEYS: u32 = 4000;
    let mut levels = BTreeMap::new();
    for seed in 0..7 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mem = MemFs::new();
        let fs: Arc<dyn Fs> = Arc::new(mem.clone());
        let options = || builder(&fs).compaction_threads(1 + seed as usize % 3);
        let mut model = BTreeMap::new();
        let write = |db: &Db, model: &mut BTreeMap<_, _>, rng: &mut StdRng, round: u32| {
            let first = rng.random_range(0..KEYS);
            for _ in 0..100 {
                let near = (first + rng.random_range(0..400)) % KEYS;
                let n = if rng.random_bool(0.5) { near } else { rng.random_range(0..KEYS) };
                let key = format!("{n:05}");
                match rng.random_range(0..20) {
                    0 => {
                        let end = format!("{:05}", n + rng.random_range(1..30));
                        db.delete_range(&key..&end).unwrap();
                        model.retain(|k: &String, _| *k < key || *k >= end);
                    }
                    1..4 => {
                        db.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    _ => {
                        let value = format!("{round}.{}", "v".repeat(rng.random_range(0..60)));
                        db.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                }
            }
        };
        let db = options().open().unwrap();
        for round in 0..60 {
            write(&db, &mut model, &mut rng, round);
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        if seed % 4 == 0 {
            // Two tables stay in level 0.
            (60..62).for_each(|round| write(&db, &mut model, &mut rng, round));
            db.flush().unwrap();
        }
        db.close().unwrap();
        // The files are listed after the close, because a compaction may replace tables until then.
        let mut files = options().open_read_only().unwrap().stats().files;
        // The damage, in byte 100, must be in a data block. In a table of few entries that byte may
        // be behind the data, so no such table is chosen.
        files.retain(|file| file.entries > 10);
        // Every fourth seed damages a table of level 0 if there is one. Otherwise a table of any
        // level is damaged.
        let chosen = match seed % 4 {
            0 => files.iter().find(|file| file.level == 0),
            _ => None,
        };
        let chosen = chosen.unwrap_or_else(|| &files[rng.random_range(0..files.len())]);
        let (path, level) = (damage(&mem, chosen.number), chosen.level);

        let db = options().open().unwrap();
        for round in 100..220 {
            write(&db, &mut model, &mut rng, round);
        }
        let story = format!("seed {seed}, {path} of level {level}");
        db.flush().unwrap_or_else(|error| panic!("{story}: {error}"));
        db.wait_for_compaction().unwrap();
        let outcome = db.compact_range(..);
        let damaged = db.stats().damaged;
        if damaged.is_empty() {
            // A table that a range deletion hides whole is dropped unread.
            outcome.unwrap();
            continue;
        }
        *levels.entry(damaged[0].level).or_insert(0) += 1;
        assert_eq!(damaged.len(), 1, "{story}");
        assert_eq!(format!("/db/{:06}.sst", damaged[0].number), path, "{story}");
        let error = outcome.expect_err("the damage was not reported");
        assert!(
            matches!(&error, Error::Corruption { file, .. } if *file == *Path::new(&*path)),
            "{story}"
        );
        assert!(db.stats().to_string().contains(&error.to_string()));
        check_around_damage(&db, &model, KEYS, &story);
        // After further writes and compactions, each lookup still returns the right value, or an
        // error of a table that is listed as damaged.
        for round in 300..400 {
            write(&db, &mut model, &mut rng, round);
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let _ = db.compact_range(..);
        check_around_damage(&db, &model, KEYS, &story);
        assert!(db.stats().files.iter().any(|file| file.number == damaged[0].number));
        db.close().unwrap();
        // Another opening meets the damage again.
        let db = options().open().unwrap();
        // If a range deletion hides the whole table by now, the compaction drops the table unread,
        // and does not meet the damage.
        let met_again = db.compact_range(..).is_err();
        let is_there = db.stats().files.iter().any(|file| file.number == damaged[0].number);
        assert_eq!(met_again, is_there, "{story}");
        check_around_damage(&db, &model, KEYS, &story);
    }
    assert!(levels.len() >= 2, "damage was met in one level only: {levels:?}");
}

/// Regression: a job of the thread pool held a reference to the database for a moment after `close`
/// had returned and the last `Db` was dropped. Meanwhile the database's files were open, so their
/// file system could not be unmounted. Now all of them are closed when `close` returns.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_closed_database_has_no_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let open_files = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        links.filter(|file| file.starts_with(dir.path())).collect::<Vec<_>>()
    };
    let mut late = 0;
    for round in 0..300u32 {
        let db = Db::builder(dir.path()).memtable_bytes(4096).open().unwrap();
        for n in 0..80 {
            db.put(format!("key{n}"), round.to_le_bytes().repeat(16)).unwrap();
        }
        assert!(!open_files().is_empty());
        db.close().unwrap();
        // The files stay open until all lookups in the process that had begun before have ended, in
        // whatever database. The system may have suspended the thread of another test in a lookup.
        // `close` waits for such lookups, but only for a limited time. Each later `close` of any
        // database tries again to close the files.
        if !open_files().is_empty() {
            eventually("no file of a closed database is open", || {
                let other = Db::builder("other").fs(Arc::new(MemFs::new())).open().unwrap();
                other.close().unwrap();
                open_files().is_empty()
            });
            late += 1;
        }
    }
    assert!(late < 5, "{late} of 300 closed databases had open files");
}
