//! What a sync promises, one story at a time: each names a mistake that no other test would notice.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use maypole::fs::{FaultFs, Fs, MemFs, Operation};
use maypole::{Db, Durability, Error, Ticker, WriteBatch};

/// Power losses that are tried on one moment. Each loses some of what was not synced, by chance.
const LOSSES: u64 = 30;

fn open(fs: &MemFs) -> maypole::Result<Db> {
    Db::builder("/db").fs(Arc::new(fs.clone())).open()
}

fn put(db: &Db, key: &str, durability: Durability) -> maypole::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, "value");
    db.write_opt(batch, durability)
}

fn is_wal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
}

/// The WALs in the database's directory, oldest first.
fn wals(fs: &MemFs) -> Vec<PathBuf> {
    let paths =
        fs.list(Path::new("/db")).unwrap().into_iter().map(|name| Path::new("/db").join(name));
    let mut wals: Vec<PathBuf> = paths.filter(|path| is_wal(path)).collect();
    wals.sort();
    wals
}

/// Replaces a file, durably.
fn store(fs: &MemFs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    fs.sync_dir(path.parent().unwrap()).unwrap();
}

/// Three writers, of whom the second asks for a sync. The first is held at its append until the
/// other two wait in the queue, where one will lead both. `false`: they did not meet this time.
fn two_writers_met_in_one_group() -> bool {
    let mem = MemFs::new();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let db = Db::builder("/db").fs(Arc::new(fs.clone())).open().unwrap();
    let (hold, held) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    fs.before_changes({
        let (hold, held) = (Arc::clone(&hold), Arc::clone(&held));
        move |_, operation, path| {
            while operation == Operation::Append && is_wal(path) && hold.load(SeqCst) {
                held.store(true, SeqCst);
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || put(db, "first", Durability::Buffered).unwrap());
        while !held.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        scope.spawn(move || put(db, "second", Durability::Sync).unwrap());
        scope.spawn(move || put(db, "third", Durability::Buffered).unwrap());
        thread::sleep(Duration::from_millis(20));
        hold.store(false, SeqCst);
    });
    if db.stats().tickers.get(Ticker::WriteDoneByOther) == 0 {
        return false;
    }
    for seed in 0..LOSSES {
        let db = open(&mem.crash(seed)).unwrap();
        for key in ["first", "second", "third"] {
            assert!(db.contains_key(key).unwrap(), "{key} is lost, power loss {seed}");
        }
    }
    true
}

/// The leader of a group looked only at its own wish for a sync, so a synced write that another
/// thread committed for its writer was acknowledged and lost with the power. A group is synced when
/// any of its writers asked for it.
#[test]
fn a_group_is_synced_when_any_of_its_writers_asked() {
    assert!((0..100).any(|_| two_writers_met_in_one_group()), "no two writers ever met");
}

/// `close` left the last writes to the operating system: what its callers took for durable went with
/// the power. Closing, and dropping the last handle, make all durable.
#[test]
fn what_was_written_before_a_close_survives_a_power_loss() {
    for closes in [true, false] {
        let fs = MemFs::new();
        let db = open(&fs).unwrap();
        for n in 0..500 {
            put(&db, &format!("key{n}"), Durability::Buffered).unwrap();
        }
        match closes {
            true => db.close().unwrap(),
            false => drop(db),
        }
        for seed in 0..LOSSES {
            let db = open(&fs.crash(seed)).unwrap();
            assert_eq!(db.iter().count(), 500, "power loss {seed}, closed: {closes}");
        }
    }
}

/// A log that is gone from the middle was passed over in silence, and with it every write behind
/// it. Sequence numbers tell that something is missing, and a log that was synced proves that it had
/// been durable: then opening fails and names the file.
#[test]
fn a_gap_before_synced_writes_is_an_error_that_names_the_log() {
    let fs = MemFs::new();
    let db = open(&fs).unwrap();
    let early = fs.kill();
    for n in 0..10 {
        put(&db, &format!("early{n}"), Durability::Sync).unwrap();
    }
    db.flush().unwrap();
    for n in 0..10 {
        put(&db, &format!("late{n}"), Durability::Sync).unwrap();
    }
    let late = fs.kill();
    let log = wals(&late).pop().unwrap();
    // The tree of before, which knows of no table, and the log of after.
    store(&early, &log, &late.read(&log).unwrap());
    match open(&early) {
        Err(Error::Corruption { file, .. }) => assert_eq!(file, log),
        Err(error) => panic!("{error}"),
        Ok(db) => panic!("twenty synced writes became {}", db.iter().count()),
    }
}

/// The search for a record that knows of a sync went 4 KiB far, so rot in the middle of a log was
/// taken for its torn end, and every synced write behind it was dropped in silence. The search goes
/// on to the end of the log.
#[test]
fn rot_far_from_the_end_of_a_synced_log_is_an_error_that_names_it() {
    const WRITES: usize = 200;
    let fs = MemFs::new();
    let db = open(&fs).unwrap();
    for n in 0..WRITES {
        db.put(format!("key{n:03}"), vec![n as u8; 700]).unwrap();
    }
    db.close().unwrap();
    let log = wals(&fs).pop().unwrap();
    let bytes = fs.read(&log).unwrap();
    assert!(bytes.len() > 100_000);
    for position in (0..bytes.len()).step_by(997) {
        for rotten in [1, 20_000] {
            let mut damaged = bytes.clone();
            let end = bytes.len().min(position + rotten);
            damaged[position..end].iter_mut().for_each(|byte| *byte = !*byte);
            let image = fs.kill();
            store(&image, &log, &damaged);
            match open(&image) {
                Err(Error::Corruption { file, .. }) => assert_eq!(file, log),
                Err(error) => panic!("{rotten} bytes at {position}: {error}"),
                Ok(db) => {
                    // The last record that knows of the sync may itself be what is rotten.
                    assert!(end + 100 > bytes.len(), "{rotten} bytes at {position}: not noticed");
                    assert!(rotten > 1 || db.iter().count() == WRITES);
                }
            }
        }
    }
}

const SMALL_DISK: &str = "MAYPOLE_SMALL_DISK_TEST_DIRECTORY";

/// Not a test of its own: the process that fills a small disk by writing its log.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn writer_on_a_small_disk() {
    let Ok(dir) = std::env::var(SMALL_DISK) else { return };
    let db = Db::open(dir).unwrap();
    let key = |n: u32| format!("key{n:06}");
    let mut acknowledged = 0;
    let error = loop {
        match db.put(key(acknowledged), [7; 500]) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000_000, "the disk never filled");
    };
    assert!(error.is_out_of_space(), "{error}");
    assert!(acknowledged > 1000, "only {acknowledged} writes fitted");
    for n in 0..acknowledged {
        assert!(db.contains_key(key(n)).unwrap(), "write {n} of {acknowledged}");
    }
    println!("{acknowledged} writes, then: {error}");
}

/// The log is written through memory. Its next stretch was made by lengthening the file, which takes
/// no space on the device: on a full disk the copy of a record killed the program by SIGBUS. Space is
/// allocated before it is used, so a full disk is an error of the write.
#[test]
fn a_full_disk_is_an_error_of_the_write_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = |command: &[&str]| {
        let mount = "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["-Urm", "sh", "-c", mount]).arg(dir.path()).args(command);
        unshare.env(SMALL_DISK, dir.path().join("db")).stdin(Stdio::null()).output()
    };
    if !mounted(&["true"]).is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let test = "durability::writer_on_a_small_disk";
    let program = program.to_str().unwrap();
    let output = mounted(&[program, "--exact", test, "--ignored", "--nocapture"]).unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{told}", output.status);
    assert!(told.contains("writes, then: "), "{told}");
}
