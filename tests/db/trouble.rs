//! Trouble that passes: no descriptors, no memory, a read that fails, a full disk. What has changed
//! nothing is tried again, and the database stays writable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::{Builder, Compression, Db, Error, WriteBatch};

use super::noise;

const KEYS: u32 = 2000;

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .compression(Compression::None)
        .memtable_bytes(16 << 10)
        .block_bytes(512)
        .table_bytes(16 << 10)
        .level_base_bytes(64 << 10)
        // Every compaction reads the tables again.
        .block_cache_bytes(0)
}

fn faults() -> (FaultFs, Arc<dyn Fs>) {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    let shared: Arc<dyn Fs> = Arc::new(faults.clone());
    (faults, shared)
}

fn key(n: u32) -> String {
    format!("{n:06}")
}

/// Waits until the work of another thread makes `holds` true.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Panics if the error is one that stays until the database is opened again.
fn passes(error: Error, story: &str) {
    assert!(matches!(error, Error::Io { .. }), "{story}: {error}");
}

/// Writes every key, with values of this round.
fn put_all(db: &Db, model: &mut BTreeMap<String, Vec<u8>>, round: u32) -> maypole::Result<()> {
    for n in 0..KEYS {
        // The keys of a memtable are spread over all keys.
        let key = key(n * 7919 % KEYS);
        let value = noise(u64::from(round * KEYS + n), 40);
        db.put(&key, &value)?;
        model.insert(key, value);
    }
    Ok(())
}

fn content(db: &Db) -> BTreeMap<String, Vec<u8>> {
    let entry = |entry: maypole::Result<(maypole::Slice, maypole::Slice)>| {
        let (key, value) = entry.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())
    };
    db.iter().map(entry).collect()
}

/// Regression: a moment without descriptors or memory during a flush or a compaction made the
/// database read-only until it was opened again, and `close` returned an error, although nothing
/// was lost and nothing was changed. Now such calls are tried again.
#[test]
fn a_moment_without_descriptors_or_memory_leaves_the_database_writable() {
    let cases = [
        (".sst", Operation::Create, Fault::NoDescriptors),
        (".sst", Operation::Open, Fault::NoDescriptors),
        (".sst", Operation::ReadExactAt, Fault::NoDescriptors),
        (".sst", Operation::ReadExactAt, Fault::NoMemory),
        (".sst", Operation::Append, Fault::NoMemory),
        (".wal", Operation::Create, Fault::NoDescriptors),
        (".wal", Operation::Append, Fault::NoMemory),
        ("", Operation::Create, Fault::NoDescriptors),
        ("", Operation::Append, Fault::NoMemory),
    ];
    for (files, operation, fault) in cases {
        let story = format!("{fault:?} in {operation:?} of *{files}");
        let (faults, fs) = faults();
        let db = builder(&fs).open().unwrap();
        let mut model = BTreeMap::new();
        put_all(&db, &mut model, 0).unwrap();
        faults.fail_files_from(files, Target::Only(operation), 0, fault);
        let mut failed = 0;
        let mut note = |outcome: maypole::Result<()>| {
            if let Err(error) = outcome {
                failed += 1;
                passes(error, &story);
            }
        };
        note(put_all(&db, &mut model, 1));
        note(db.flush());
        note(db.wait_for_compaction());
        note(db.compact_range(..));
        assert!(faults.faults() > 0 && failed > 0, "{story}: nothing failed");
        faults.heal();
        // Both try again at once.
        db.flush().unwrap_or_else(|error| panic!("{story}: {error}"));
        db.wait_for_compaction().unwrap_or_else(|error| panic!("{story}: {error}"));
        put_all(&db, &mut model, 2).unwrap_or_else(|error| panic!("{story}: {error}"));
        db.compact_range(..).unwrap();
        assert!(db.stats().damaged.is_empty() && db.stats().out_of_space.is_none(), "{story}");
        assert_eq!(content(&db), model, "{story}");
        db.close().unwrap();
    }
}

/// The same while the MANIFEST is replaced by a new one, which another call in the middle of the
/// steps must not leave half done.
#[test]
fn a_manifest_that_could_not_be_replaced_is_replaced_later() {
    let all = [
        (Operation::Create, Fault::NoDescriptors),
        (Operation::Append, Fault::NoMemory),
        (Operation::Append, Fault::NoSpace),
    ];
    // On a busy machine, flushes may always be tried again before their callers see the error.
    let mut met = 0;
    for round in 0..20 {
        if round > 0 && met > 0 {
            break;
        }
        for (operation, fault, nth) in all.iter().flat_map(|&(a, b)| [0, 1, 2].map(|n| (a, b, n))) {
            let (faults, fs) = faults();
            let db = builder(&fs).open().unwrap();
            // The record finds no memory, so the MANIFEST ends, and the next change replaces it.
            db.put("a", "1").unwrap();
            let manifest = || {
                let names = fs.list(Path::new("/db")).unwrap();
                names.into_iter().find(|name| name.starts_with("MANIFEST")).unwrap()
            };
            let name: &str = manifest().leak();
            faults.fail_files_once(name, Target::Only(Operation::Append), 0, Fault::NoMemory);
            let first = db.flush();
            // A flush that is tried again by itself may have replaced the MANIFEST already.
            faults.fail_once(Target::Only(operation), nth, fault);
            for n in 0..3 {
                db.put("a", format!("{n}")).unwrap_or_else(|error| passes(error, "put"));
                db.flush().unwrap_or_else(|error| passes(error, "flush"));
            }
            met += u32::from(first.is_err());
            faults.heal();
            db.put("a", "last").unwrap();
            db.flush().unwrap();
            assert_ne!(manifest(), name);
            db.close().unwrap();
            assert_eq!(builder(&fs).open().unwrap().get("a").unwrap().unwrap(), b"last");
        }
    }
    assert!(met > 0);
}

/// Four tables in level 0 and some below, with keys that overlap. No compaction runs.
fn before_a_compaction(db: &Db, model: &mut BTreeMap<String, Vec<u8>>) {
    put_all(db, model, 0).unwrap();
    db.compact_range(..).unwrap();
    for round in 1..4 {
        for n in 0..100 {
            let value = noise(u64::from(round * 1000 + n), 40);
            db.put(key(n * 20), &value).unwrap();
            model.insert(key(n * 20), value);
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    }
}

/// Regression: one read of a compaction that failed made the database read-only. Now the compaction
/// is tried again.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_read_of_a_compaction_that_fails_once_is_repeated() {
    let mut failures = 0;
    for (nth, is_manual) in (0..12).flat_map(|nth| [(nth * 3, false), (nth * 3, true)]) {
        let story = format!("read {nth}");
        let (faults, fs) = faults();
        let db = builder(&fs).open().unwrap();
        let mut model = BTreeMap::new();
        before_a_compaction(&db, &mut model);
        let read = Target::Only(Operation::ReadExactAt);
        faults.fail_files_once(".sst", read, nth, Fault::Io);
        db.put("000000", "new").unwrap();
        model.insert("000000".into(), b"new".to_vec());
        db.flush().unwrap_or_else(|error| passes(error, &story));
        match is_manual {
            true => db.compact_range(..).unwrap_or_else(|error| passes(error, &story)),
            false => {
                db.wait_for_compaction().unwrap_or_else(|error| passes(error, &story));
                eventually("the compaction is repeated by itself", || {
                    db.stats().levels.iter().all(|level| level.level != 0 || level.files < 4)
                });
            }
        }
        db.wait_for_compaction().unwrap();
        failures += faults.faults();
        assert!(db.stats().damaged.is_empty(), "{story}: {:?}", db.stats().damaged);
        assert_eq!(content(&db), model, "{story}");
        db.close().unwrap();
    }
    assert!(failures > 10, "{failures} reads failed");
}

/// A table that can never be read is treated as a damaged one: compactions leave it where it is, and
/// everything else goes on.
#[test]
fn a_table_whose_reads_keep_failing_is_set_aside() {
    for is_manual in [false, true] {
        let (faults, fs) = faults();
        let db = builder(&fs).open().unwrap();
        let mut model = BTreeMap::new();
        before_a_compaction(&db, &mut model);
        let bad = db.stats().files.iter().filter(|file| file.level > 0).nth(3).unwrap().number;
        let name: &'static str = format!("{bad:06}.sst").leak();
        faults.fail_files_from(name, Target::Only(Operation::ReadExactAt), 0, Fault::Io);
        put_all(&db, &mut model, 9).unwrap();
        let _ = db.flush();
        if is_manual {
            let error = db.compact_range(..).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        eventually("the table is set aside", || !db.stats().damaged.is_empty());
        assert_eq!(db.stats().damaged.len(), 1);
        assert_eq!(db.stats().damaged[0].number, bad);
        db.wait_for_compaction().unwrap();
        put_all(&db, &mut model, 10).unwrap();
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        assert!(db.stats().files.iter().any(|file| file.number == bad), "it stays in its place");
        // Another opening tries the table again.
        db.close().unwrap();
        faults.heal();
        let db = builder(&fs).open().unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(content(&db), model);
    }
}

const DISK: u64 = 2 << 20;

/// What is left free while the disk is full: enough for a log record and a table of a few
/// deletions, and too little for any file of level 0.
const LEFT: u64 = 20 << 10;

/// A database on a disk of 2 MiB with tables of 64 KiB, and a file that takes the rest of the disk.
struct SmallDisk {
    mem: MemFs,
    faults: FaultFs,
    db: Db,
    model: BTreeMap<String, Vec<u8>>,
}

impl SmallDisk {
    /// Level 0 has so many files that writers stop. The tables of the database take most of the
    /// disk, and each spans all keys. Then the disk becomes full.
    fn with_a_full_level_0() -> SmallDisk {
        let mem = MemFs::with_capacity(DISK);
        let faults = FaultFs::new(Arc::new(mem.clone()));
        let fs: Arc<dyn Fs> = Arc::new(faults.clone());
        let builder = Db::builder("/db").fs(fs).compression(Compression::None);
        // With one thread, only the thread that waits below writes for the compaction.
        let builder = builder.memtable_bytes(64 << 10).table_bytes(64 << 10).compaction_threads(1);
        let db = builder.level_base_bytes(256 << 10).open().unwrap();
        let mut disk = SmallDisk { mem, faults, db, model: BTreeMap::new() };
        disk.put_some(0, 2500);
        disk.db.compact_range(..).unwrap();
        // The first table of the compaction of level 0 waits until the disk is full.
        let gate = Arc::new(AtomicBool::new(false));
        let is_open = Arc::clone(&gate);
        disk.faults.before_changes(move |_, operation, _| {
            let is_compaction = thread::current().name() == Some("maypole-compact");
            if operation == Operation::Create && is_compaction {
                eventually("the disk is full", || is_open.load(Ordering::SeqCst));
            }
        });
        for round in 1.. {
            // Less than a memtable, so that no put waits for a compaction.
            disk.put_some(round * 10_000, 120);
            disk.db.flush().unwrap();
            if disk.files_of_level_0() >= 36 {
                break;
            }
        }
        // A flush removes its log after it has woken its callers.
        eventually("the last obsolete log is removed", || {
            let names = disk.mem.list(Path::new("/db")).unwrap();
            names.iter().filter(|name| name.ends_with(".wal")).count() == 1
        });
        disk.leave_free(LEFT);
        gate.store(true, Ordering::SeqCst);
        eventually("a put is refused", || match disk.db.put("000000", noise(1, 200)) {
            Ok(()) => panic!("nothing stopped the put"),
            Err(error) => is_no_space(&error),
        });
        disk
    }

    fn put_some(&mut self, seed: u32, count: u32) {
        for n in seed..seed + count {
            let (key, value) = (key(n.wrapping_mul(7919) % 20_000), noise(u64::from(n), 200));
            self.db.put(&key, &value).unwrap();
            self.model.insert(key, value);
        }
    }

    fn files_of_level_0(&self) -> usize {
        let levels = self.db.stats().levels;
        levels.iter().filter(|level| level.level == 0).map(|level| level.files).sum()
    }

    /// Changes the other file so that so many bytes are free.
    fn leave_free(&self, bytes: u64) {
        let mut file = self.mem.create(Path::new("/filler")).unwrap();
        let free = self.mem.free_bytes(Path::new("/")).unwrap().unwrap();
        file.append(&vec![7; free.saturating_sub(bytes) as usize]).unwrap();
        file.flush().unwrap();
    }

    /// Checks that writing goes on by itself, and that nothing is lost.
    fn check_that_it_goes_on(&mut self) {
        let db = &self.db;
        eventually("a put succeeds", || match db.put("000000", "last") {
            Ok(()) => true,
            Err(error) => !is_no_space(&error),
        });
        self.model.insert("000000".into(), b"last".to_vec());
        self.put_some(900_000, 400);
        self.db.flush().unwrap();
        self.db.wait_for_compaction().unwrap();
        self.db.compact_range(..).unwrap();
        assert_eq!(self.files_of_level_0(), 0);
        // A job that waited for space may not have seen yet that nothing is due any more.
        eventually("nothing waits for space", || self.db.stats().out_of_space.is_none());
        assert_eq!(content(&self.db), self.model);
        self.db.verify().unwrap();
    }
}

fn is_no_space(error: &Error) -> bool {
    assert!(error.is_out_of_space() && !matches!(error, Error::ReadOnly(_)), "{error}");
    true
}

/// Regression: on a full disk a compaction was tried again every second, each time wrote until the
/// disk was full, and discarded what it had written, also when nobody used the database. Now
/// nothing is written until there is space, which is noticed soon.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn an_idle_full_disk_is_not_written_to_and_space_is_noticed() {
    let mut disk = SmallDisk::with_a_full_level_0();
    // The attempts that ran when the disk became full may end.
    thread::sleep(Duration::from_millis(500));
    let before = disk.faults.calls(Target::Changes);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(disk.faults.calls(Target::Changes), before, "an idle database writes");
    disk.leave_free(DISK);
    eventually("level 0 is compacted", || disk.files_of_level_0() < 36);
    disk.check_that_it_goes_on();
}

/// Regression: the disk was full when level 0 had 36 files, and then a quarter of it became free.
/// Writes stayed refused, and `compact_range` failed too, because a compaction took all of level 0
/// with all that it overlaps, and failed. Now the oldest files of level 0 that fit go down first.
#[test]
fn a_full_level_0_is_compacted_in_the_quarter_of_the_disk_that_became_free() {
    for is_manual in [false, true] {
        let mut disk = SmallDisk::with_a_full_level_0();
        disk.leave_free(DISK / 4);
        if is_manual {
            disk.db.compact_range(..).unwrap();
        }
        disk.check_that_it_goes_on();
    }
}

/// Regression: when level 0 was full and compactions found no space, deletions were refused like
/// other writes, so that nothing could free space. Now batches that only delete are written, and
/// the tables that a range deletion covers are dropped unread.
#[test]
fn deletions_pass_a_full_level_0_and_free_the_disk() {
    let mut disk = SmallDisk::with_a_full_level_0();
    let db = &disk.db;
    for n in 0..10 {
        db.delete(key(n)).unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.delete("a").delete_range("b".."c");
    db.write(batch.clone()).unwrap();
    batch.put("d", "e");
    assert!(is_no_space(&db.write(batch).unwrap_err()));
    // Deletions that wait together with puts.
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..50 {
                    match thread % 2 {
                        0 => db.delete(format!("x{n}")).unwrap(),
                        _ => drop(is_no_space(&db.put(format!("x{n}"), "v").unwrap_err())),
                    }
                }
            });
        }
    });
    db.delete_range(.."z").unwrap();
    db.flush().unwrap();
    eventually("the tables are dropped", || disk.files_of_level_0() < 10);
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 0);
    disk.model.clear();
    disk.check_that_it_goes_on();
}

/// Opens twelve keyspaces on a disk that has no space for tables. Only one flush runs at a time.
fn keyspaces_without_space() -> (FaultFs, Db, Vec<Db>) {
    let (faults, fs) = faults();
    let db = builder(&fs).compaction_threads(1).open().unwrap();
    let keyspaces = (0..12).map(|n| db.keyspace(format!("{n}")).unwrap()).collect();
    faults.fail_files_from(".sst", Target::Only(Operation::Create), 0, Fault::NoSpace);
    (faults, db, keyspaces)
}

/// What the call returns, if it returns soon. A thread whose call never ends stays.
fn soon<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || drop(sender.send(call())));
    receiver.recv_timeout(Duration::from_secs(60)).expect("the call does not return")
}

/// Regression: a full disk. The flush of one keyspace had failed and waited for space, and meanwhile
/// held the thread that all keyspaces share. So `flush` of another keyspace waited for its turn until
/// there was space, instead of returning the error, and so did its writers.
#[test]
fn a_flush_that_waits_for_space_keeps_no_other_keyspace_from_its_error() {
    let (faults, db, keyspaces) = keyspaces_without_space();
    for keyspace in keyspaces.iter().chain([&db]) {
        keyspace.put("a", "1").unwrap();
    }
    for keyspace in keyspaces.iter().chain([&db]) {
        let flushed = keyspace.clone();
        assert!(is_no_space(&soon(move || flushed.flush()).unwrap_err()));
        // And writers, once the memtable is full, two frozen ones wait, and both cannot be flushed.
        let written = keyspace.clone();
        let error = soon(move || {
            loop {
                if let Err(error) = written.put("b", noise(1, 1000)) {
                    return error;
                }
            }
        });
        assert!(is_no_space(&error));
    }
    faults.heal();
    // Each is tried again by itself.
    for keyspace in keyspaces.iter().chain([&db]) {
        eventually("it is flushed", || !keyspace.stats().files.is_empty());
    }
    for keyspace in keyspaces.iter().chain([&db]) {
        eventually("it is written", || keyspace.put("c", "3").is_ok());
    }
    eventually("nothing waits for space", || db.stats().out_of_space.is_none());
}

/// Regression: a full disk. Once the memtables that wait for their flushes had too many bytes
/// together, a writer waited for any of the flushes, although all of them had failed.
#[test]
fn a_writer_gets_the_error_when_the_memtables_of_all_keyspaces_are_too_large_together() {
    let (faults, db, keyspaces) = keyspaces_without_space();
    // Each stays below the bound of its own, two frozen memtables of 16 KiB.
    let written = keyspaces.clone();
    let error = soon(move || {
        loop {
            for keyspace in &written {
                if let Err(error) = keyspace.put("a", noise(2, 1000)) {
                    return error;
                }
            }
        }
    });
    assert!(is_no_space(&error));
    faults.heal();
    let written = keyspaces[0].clone();
    eventually("writing goes on", || written.put("a", "last").is_ok());
    db.close().unwrap();
}
