//! Sizes and numbers at their limits: large values, long logs, many tables and little memory. Also
//! several databases in one process, and several threads that open or close one database.
//!
//! ```sh
//! cargo test --release --test db bounds:: -- --include-ignored --nocapture --test-threads 1
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;
use std::{fs, thread};

use maypole::fs::MemFs;
use maypole::{BlockCache, Compression, Db, Durability, Error, WriteBatch};

use super::{env, noise};

/// Resident bytes of this process.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[test]
fn large_values_are_values_like_others() {
    let bytes = env("MAYPOLE_VALUE_MIB", 8) as usize * (1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let open = || Db::builder(dir.path()).compression(Compression::Lz4).open().unwrap();
    let values: Vec<Vec<u8>> = (0..3).map(|seed| noise(seed, bytes + seed as usize)).collect();
    let check = |db: &Db, story: &str| {
        for (n, value) in values.iter().enumerate() {
            assert!(db.get([n as u8]).unwrap().unwrap() == value[..], "{story}: value {n}");
        }
        let found: Vec<_> = db.iter().map(|item| item.unwrap()).collect();
        let backward: Vec<_> = db.iter().rev().map(|item| item.unwrap()).collect();
        assert_eq!(found.len(), values.len(), "{story}");
        assert!(found.iter().rev().eq(&backward), "{story}");
        assert!(found.iter().zip(&values).all(|((_, found), value)| *found == value[..]));
    };
    let db = open();
    for (n, value) in values.iter().enumerate() {
        db.put([n as u8], value).unwrap();
    }
    check(&db, "as written");
    db.close().unwrap();
    let db = open();
    check(&db, "recovered");
    db.flush().unwrap();
    check(&db, "flushed");
    db.compact_range(..).unwrap();
    check(&db, "compacted");
    assert_eq!(db.verify().unwrap().entries, 3);
    println!("values of {bytes} bytes: written, recovered, flushed, compacted, iterated");
}

#[test]
fn what_is_just_over_the_limit_is_refused_and_changes_nothing() {
    let db = Db::builder("/db").fs(Arc::new(MemFs::new())).open().unwrap();
    db.put("k", "v").unwrap();
    // These bytes are never touched, so they take no memory.
    let huge = vec![0; 1 << 30];
    for (key, value) in [(&b"k"[..], &huge[..]), (&huge, b""), (b"k", &huge[..huge.len() - 8])] {
        let error = db.put(key, value).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    assert!(matches!(db.delete(&huge), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.delete_range(..&huge), Err(Error::InvalidArgument(_))));
    assert_eq!(db.get(&huge).unwrap(), None);
    assert_eq!(db.get("k").unwrap().unwrap(), b"v");
    db.put("k", "w").unwrap();
    assert_eq!(db.iter().count(), 1);
}

#[test]
#[ignore = "prints how long recovery takes; with --release"]
fn recovery_time_by_the_size_of_the_log() {
    for mib in [1u64, 4, 16, 64, 256] {
        let dir = tempfile::tempdir().unwrap();
        let value = noise(mib, 100);
        let db = Db::builder(dir.path()).memtable_bytes(1 << 30).open().unwrap();
        let (mut n, mut batch) = (0u64, WriteBatch::new());
        while n * 116 < mib << 20 {
            batch.put(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &value);
            n += 1;
            if n.is_multiple_of(16) {
                db.write(std::mem::take(&mut batch)).unwrap();
            }
        }
        db.write(batch).unwrap();
        // `close` does not flush, so the writes that are in no table yet stay in the log.
        db.close().unwrap();
        let before = resident_bytes();
        let start = Instant::now();
        let db = Db::open(dir.path()).unwrap();
        let opened = start.elapsed();
        let grown = resident_bytes().saturating_sub(before);
        assert_eq!(db.iter().count() as u64, n);
        println!(
            "a log of {mib} MiB, {n} writes: opened in {} ms, {} MiB of memory, {} tables",
            opened.as_millis(),
            grown >> 20,
            db.verify().unwrap().tables,
        );
    }
}

/// Tables get half of the process's descriptors, so `ulimit -n 20000` lets all 10,000 stay open.
#[test]
#[ignore = "prints what ten thousand tables cost; with --release, after `ulimit -n 20000`"]
fn ten_thousand_tables() {
    const TABLES: u64 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let key = |n: u64| format!("key{n:08}");
    let value = |n: u64| noise(n, 4100);
    let open = || {
        let builder = Db::builder(dir.path()).table_bytes(4096).memtable_bytes(64 << 20);
        builder.compression(Compression::None).open().unwrap()
    };
    let db = open();
    for n in 0..TABLES {
        db.put(key(n), value(n)).unwrap();
    }
    db.compact_range(..).unwrap();
    let tables = db.verify().unwrap().tables;
    db.close().unwrap();
    let before = resident_bytes();
    let start = Instant::now();
    let db = open();
    let opened = start.elapsed();
    let grown = resident_bytes().saturating_sub(before);
    let descriptors = fs::read_dir("/proc/self/fd").map_or(0, |all| all.count());
    let start = Instant::now();
    for n in (0..TABLES).map(|n| n * 7919 % TABLES) {
        assert!(db.get(key(n)).unwrap().unwrap() == value(n)[..], "{n}");
    }
    let read = start.elapsed();
    assert_eq!(db.iter().count() as u64, TABLES);
    println!(
        "{tables} tables: opened in {} ms, {} MiB of memory, {descriptors} descriptors; a lookup in \
         each: {} ms",
        opened.as_millis(),
        grown >> 20,
        read.as_millis(),
    );
    assert!(tables as u64 >= TABLES * 9 / 10, "{tables} tables");
}

#[test]
fn two_databases_in_one_process_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let cache = BlockCache::new(64 << 10);
    let open = |name: &str| {
        let builder = Db::builder(dir.path().join(name)).memtable_bytes(32 << 10);
        builder.block_cache(Arc::clone(&cache)).block_bytes(256).open().unwrap()
    };
    let names = ["one", "other"];
    let check = |db: &Db, name: &str| {
        let value = |n: u32| format!("{name} {n}").into_bytes();
        for n in (0..2000).step_by(17) {
            assert_eq!(db.get(format!("key{n:04}")).unwrap().unwrap(), value(n)[..], "{n}");
        }
        let found = db.iter().map(|item| item.unwrap().1.to_vec());
        assert!(found.eq((0..2000).map(value)), "{name}");
    };
    let dbs = names.map(open);
    thread::scope(|scope| {
        for (db, name) in dbs.iter().zip(names) {
            scope.spawn(move || {
                for n in 0..2000 {
                    db.put(format!("key{n:04}"), format!("{name} {n}")).unwrap();
                    assert!(db.get(format!("key{:04}", n / 2)).unwrap().is_some());
                }
                db.flush().unwrap();
            });
        }
    });
    for (db, name) in dbs.iter().zip(names) {
        check(db, name);
    }
    let [one, other] = dbs;
    one.close().unwrap();
    check(&other, "other");
    check(&open("one"), "one");
}

/// Several threads open one directory at once, again and again; a thread that succeeds writes, and
/// closes the database. One thread at a time succeeds, the others get an error, and no write is
/// lost.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn one_of_many_who_open_at_once_gets_the_database_also_while_it_closes() {
    let dir = tempfile::tempdir().unwrap();
    let (inside, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let written = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut turns = 0;
                while turns < 15 {
                    let db = match Db::builder(dir.path()).memtable_bytes(8 << 10).open() {
                        Ok(db) => db,
                        Err(Error::Locked { .. }) => {
                            refused.fetch_add(1, SeqCst);
                            thread::yield_now();
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    };
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two have it open");
                    let before = written.load(SeqCst);
                    assert_eq!(db.iter().count() as u32, before);
                    for n in before..before + 20 {
                        db.put(format!("key{n:05}"), vec![7; 100]).unwrap();
                    }
                    written.store(before + 20, SeqCst);
                    inside.store(0, SeqCst);
                    // `inside` is set to 0 before this call, because another thread may open the
                    // database before the call returns.
                    db.close().unwrap();
                    turns += 1;
                }
            });
        }
    });
    assert_eq!(written.load(SeqCst), 4 * 15 * 20);
    assert!(refused.load(SeqCst) > 0, "nobody ever met another");
}

/// While one thread closes the database, others read and write. Each call returns a result or
/// `Error::Closed`, and every acknowledged write is there when the database is opened again.
#[test]
fn who_works_on_while_another_closes_is_told_so() {
    for _ in 0..10 {
        let fs = MemFs::new();
        let open = || Db::builder("/db").fs(Arc::new(fs.clone())).memtable_bytes(8 << 10).open();
        let db = open().unwrap();
        let started = AtomicU32::new(0);
        let acknowledged: Vec<u32> = thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (db, started) = (db.clone(), &started);
                    scope.spawn(move || {
                        for n in 0.. {
                            started.fetch_add(1, SeqCst);
                            let sync =
                                if n % 8 == 0 { Durability::Sync } else { Durability::Buffered };
                            let mut batch = WriteBatch::new();
                            batch.put(format!("{writer}/{n:06}"), "value");
                            match db.write_opt(batch, sync) {
                                Ok(()) => {}
                                Err(Error::Closed) => return n,
                                Err(error) => panic!("{error}"),
                            }
                            match db.get(format!("{writer}/{:06}", n / 2)) {
                                Ok(value) => assert!(value.is_some()),
                                Err(Error::Closed) => return n + 1,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        unreachable!("numbers do not end")
                    })
                })
                .collect();
            while started.load(SeqCst) < 300 {
                thread::yield_now();
            }
            db.close().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let db = open().unwrap();
        for (writer, count) in acknowledged.into_iter().enumerate() {
            for n in 0..count {
                assert!(db.contains_key(format!("{writer}/{n:06}")).unwrap(), "{writer}: {n}");
            }
        }
    }
}

const LITTLE_MEMORY: &str = "MAYPOLE_LITTLE_MEMORY_TEST_DIRECTORY";

/// Not a test of its own: the process that has little memory. It writes and reads, and prints its
/// acknowledged writes.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn worker_with_little_memory() {
    let Ok(dir) = std::env::var(LITTLE_MEMORY) else { return };
    let work = || -> maypole::Result<()> {
        let db = Db::builder(dir).table_bytes(1 << 20).level_base_bytes(2 << 20).open()?;
        for n in 0..20_000u32 {
            db.put(format!("key{n:06}"), noise(n.into(), 300))?;
            if n.is_multiple_of(100) {
                println!("acknowledged {n}");
                let earlier = u64::from(n / 2);
                let found = db.get(format!("key{earlier:06}"))?;
                if found.as_deref() != Some(&noise(earlier, 300)[..]) {
                    println!("WRONG ANSWER for {earlier}");
                }
            }
        }
        db.compact_range(..)?;
        db.close()
    };
    match work() {
        Ok(()) => println!("all done"),
        Err(error) => println!("clear error: {error}"),
    }
}

/// Runs one of the tests of this program in a process with limited address space. Returns two
/// texts: the standard output, and the exit status followed by the standard error.
#[cfg(target_os = "linux")]
fn limited(test: &str, mib: u64, dir: &std::path::Path) -> (String, String) {
    use std::process::{Command, Stdio};
    let limited = format!("ulimit -v {} && exec timeout 120 \"$0\" \"$@\"", mib * 1024);
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"])
        .env(LITTLE_MEMORY, dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    (String::from_utf8_lossy(&output.stdout).into(), format!("{}\n{errors}", output.status))
}

/// A process with limited address space either works, or gets an error that says what is lacking,
/// or is aborted by Rust's allocator, like any Rust program without memory. It never reads a wrong
/// result and never hangs. Its acknowledged writes are found afterwards.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "takes seconds; .ci/run runs it"]
fn with_little_memory_nothing_is_wrong_or_lost() {
    let mut done = 0;
    for mib in [48, 80, 200, 2000] {
        let dir = tempfile::tempdir().unwrap();
        let (told, errors) = limited("bounds::worker_with_little_memory", mib, dir.path());
        let mut acknowledged = told.lines().filter_map(|line| line.strip_prefix("acknowledged "));
        let acknowledged = acknowledged.next_back().map(|n| n.parse::<u32>().unwrap());
        assert!(!told.contains("WRONG"), "{mib} MiB: {told}");
        let ended = if told.contains("all done") {
            done += 1;
            "all done"
        } else if let Some(error) = told.lines().find(|line| line.contains("clear error: ")) {
            error
        } else if errors.contains("memory allocation of") {
            "ended by the allocator"
        } else {
            panic!("{mib} MiB: {told}\n{errors}");
        };
        println!("{mib} MiB: {ended}; {acknowledged:?} was the last write acknowledged");
        let Some(last) = acknowledged else { continue };
        let db = Db::open(dir.path()).unwrap();
        for n in 0..=last {
            let found = db.get(format!("key{n:06}")).unwrap();
            assert_eq!(found.as_deref(), Some(&noise(n.into(), 300)[..]), "{mib} MiB: {n}");
        }
    }
    assert!(done > 0, "not even with the most memory");
}

/// Not a test of its own: the process that reads a value for which it has no memory.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn reader_with_little_memory() {
    let Ok(dir) = std::env::var(LITTLE_MEMORY) else { return };
    let db = match Db::builder(dir).block_cache_bytes(0).open() {
        Ok(db) => db,
        Err(error) => return println!("clear error: {error}"),
    };
    assert_eq!(db.get("small").unwrap().unwrap(), b"small");
    match db.get("large") {
        Ok(value) => println!("all done: {} bytes", value.unwrap().len()),
        Err(error) => println!("clear error: {error}"),
    }
    assert_eq!(db.get("small").unwrap().unwrap(), b"small");
}

/// Regression: if the process had less memory than a block takes when it is decompressed, the read
/// of the block aborted the process in Rust's allocator. Now only this read fails.
#[test]
#[cfg(target_os = "linux")]
fn a_block_larger_than_the_memory_is_an_error_of_the_read() {
    const LARGE: usize = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder(dir.path()).compression(Compression::Lz4).open().unwrap();
    db.put("large", vec![b'x'; LARGE]).unwrap();
    db.flush().unwrap();
    db.put("small", "small").unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    for (mib, expected) in [(60, "clear error"), (2000, "all done")] {
        let (told, errors) = limited("bounds::reader_with_little_memory", mib, dir.path());
        assert!(told.contains(expected), "{mib} MiB: {told}\n{errors}");
    }
}
