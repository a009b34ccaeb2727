//! The promises of a sync. Each test names a mistake that no other test would notice.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, RealFs, Target};
use maypole::{Db, Durability, Error, Ticker, WriteBatch};

/// The number of power losses that are tried at one moment. Each loses a random part of the
/// unsynced data.
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

/// Starts three writers. The append of the first one is stopped for 20 ms, so that the other two
/// can enter the queue and form a group, which one of them leads. The group's append is stopped
/// until `before_group` has run. Returns the results of the second and the third writer, or `None`
/// if they did not form a group this time.
fn two_in_one_group(
    fs: &FaultFs,
    db: &Db,
    second: Durability,
    before_group: impl FnOnce(),
) -> Option<[maypole::Result<()>; 2]> {
    let first = Arc::new(OnceLock::new());
    let (first_goes, all_go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    fs.before_changes({
        let (first, first_goes, all_go) = (first.clone(), first_goes.clone(), all_go.clone());
        move |_, operation, path| {
            if operation == Operation::Append && is_wal(path) {
                let me = thread::current().id();
                let goes = if *first.get_or_init(|| me) == me { &first_goes } else { &all_go };
                wait_for(|| goes.load(SeqCst));
            }
        }
    });
    let before = db.stats().tickers.get(Ticker::WriteDoneByOther);
    let told = thread::scope(|scope| {
        let leader = scope.spawn(move || put(db, "first", Durability::Buffered));
        wait_for(|| first.get().is_some());
        let second = scope.spawn(move || put(db, "second", second));
        let third = scope.spawn(move || put(db, "third", Durability::Buffered));
        thread::sleep(Duration::from_millis(20));
        first_goes.store(true, SeqCst);
        leader.join().unwrap().unwrap();
        before_group();
        all_go.store(true, SeqCst);
        [second.join().unwrap(), third.join().unwrap()]
    });
    (db.stats().tickers.get(Ticker::WriteDoneByOther) > before).then_some(told)
}

fn wait_for(done: impl Fn() -> bool) {
    while !done() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Tries until two writers form a group.
fn until_two_meet(attempt: impl Fn() -> Option<()>) {
    assert!((0..100).any(|_| attempt().is_some()), "no two writers ever met");
}

fn open_faulty(mem: &MemFs) -> (FaultFs, Db) {
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let db = Db::builder("/db").fs(Arc::new(fs.clone())).open().unwrap();
    (fs, db)
}

/// Regression: the leader of a group synced only if it had requested a sync itself. So if one
/// thread requested a sync and another one led the group, the write was acknowledged, but lost with
/// the power. Now a group is synced if any of its writers requested it.
#[test]
fn a_group_is_synced_when_any_of_its_writers_asked() {
    until_two_meet(|| {
        let mem = MemFs::new();
        let (fs, db) = open_faulty(&mem);
        let told = two_in_one_group(&fs, &db, Durability::Sync, || {})?;
        told.into_iter().for_each(|told| told.unwrap());
        for seed in 0..LOSSES {
            let db = open(&mem.crash(seed)).unwrap();
            for key in ["first", "second", "third"] {
                assert!(db.contains_key(key).unwrap(), "{key} is lost, power loss {seed}");
            }
        }
        Some(())
    });
}

/// Regression: a leader whose append failed reported success to the others of its group. Now all of
/// them get the error, and no reader sees any of their writes, also after reopening.
#[test]
fn a_failed_append_is_told_to_every_writer_of_the_group() {
    until_two_meet(|| {
        let mem = MemFs::new();
        let (fs, db) = open_faulty(&mem);
        let fail = || fs.fail_once(Target::Only(Operation::Append), 0, Fault::Io);
        let told = two_in_one_group(&fs, &db, Durability::Buffered, fail)?;
        assert!(told.iter().all(Result::is_err), "{told:?}");
        let image = open(&mem.kill()).unwrap();
        for db in [&db, &image] {
            let found = ["first", "second", "third"].map(|key| db.contains_key(key).unwrap());
            assert_eq!(found, [true, false, false]);
        }
        Some(())
    });
}

/// Each call that writes is as durable as the call says, or as the option of the opening if the call
/// does not say it.
#[test]
fn a_write_is_as_durable_as_the_call_says_or_else_the_option() {
    type Call = fn(&Db);
    let unnamed: [(&str, Call); 12] = [
        ("put", |db| db.put("new", "").unwrap()),
        ("delete", |db| db.delete("old").unwrap()),
        ("write", |db| db.write(WriteBatch::new().put("new", "")).unwrap()),
        ("delete_range", |db| db.delete_range("a".."z").unwrap()),
        ("delete_range without an end", |db| db.delete_range("a"..).unwrap()),
        ("delete_prefix", |db| db.delete_prefix("o").unwrap()),
        ("clear", |db| db.clear().unwrap()),
        ("pop_first", |db| assert!(db.pop_first().unwrap().is_some())),
        ("pop_last", |db| assert!(db.pop_last().unwrap().is_some())),
        ("fetch_update", |db| assert!(db.fetch_update("new", |_| Some("")).unwrap().is_none())),
        ("take", |db| assert!(db.take("old").unwrap().is_some())),
        ("compare_and_swap", |db| {
            db.compare_and_swap("new", None::<&str>, Some("")).unwrap().unwrap();
        }),
    ];
    let synced: [(&str, Call); 3] = [
        ("put_opt", |db| db.put_opt("new", "", Durability::Sync).unwrap()),
        ("delete_opt", |db| db.delete_opt("old", Durability::Sync).unwrap()),
        ("write_opt", |db| {
            db.write_opt(WriteBatch::new().delete("old"), Durability::Sync).unwrap();
        }),
    ];
    let buffered: [(&str, Call); 3] = [
        ("put_opt", |db| db.put_opt("new", "", Durability::Buffered).unwrap()),
        ("delete_opt", |db| db.delete_opt("old", Durability::Buffered).unwrap()),
        ("write_opt", |db| {
            db.write_opt(WriteBatch::new().delete("old"), Durability::Buffered).unwrap();
        }),
    ];
    for default in [Durability::Buffered, Durability::Sync] {
        let calls = unnamed.map(|call| (call, default)).into_iter();
        let calls = calls.chain(synced.map(|call| (call, Durability::Sync)));
        let calls = calls.chain(buffered.map(|call| (call, Durability::Buffered)));
        for ((name, call), expected) in calls {
            let mem = MemFs::new();
            let builder = Db::builder("/db").fs(Arc::new(mem.clone())).durability(default);
            let db = builder.open().unwrap();
            db.put_opt("old", "", Durability::Sync).unwrap();
            let syncs = || db.stats().tickers.get(Ticker::WalFileSynced);
            let before = syncs();
            call(&db);
            let is_synced = expected == Durability::Sync;
            assert_eq!(syncs() - before, u64::from(is_synced), "{name}, by default {default:?}");
            for seed in 0..if is_synced { LOSSES } else { 0 } {
                let left = open(&mem.crash(seed)).unwrap();
                let entries = |db: &Db| db.iter().map(Result::unwrap).collect::<Vec<_>>();
                assert_eq!(entries(&left), entries(&db), "{name}, by default {default:?}");
            }
        }
    }
}

/// Writes while each append of a record in turn is done in part for lack of space. Kills the process
/// (`killed` returns the file system and the directory that are left) after the failed write, and
/// again after the next write.
fn write_with_a_short_one(
    inner: &Arc<dyn Fs>,
    dir: &Path,
    killed: impl Fn() -> (Arc<dyn Fs>, PathBuf),
) {
    let fs = FaultFs::new(Arc::clone(inner));
    let db = Db::builder(dir).fs(Arc::new(fs.clone())).open().unwrap();
    // The zeros are what may also follow the bytes of a log.
    let value = [&[7; 10][..], &[0; 1000]].concat();
    for nth in 0..3 {
        db.put("before", "value").unwrap();
        fs.fail_files_once(".wal", Target::Only(Operation::Append), nth, Fault::ShortWrite);
        let error = db.put(format!("failed {nth}"), &value).unwrap_err();
        assert!(error.is_out_of_space(), "{error}");
        let first = killed();
        db.put(format!("after {nth}"), "value").unwrap();
        for ((fs, dir), written) in [(first, nth), (killed(), nth + 1)] {
            let db = Db::builder(dir).fs(fs).open().unwrap();
            assert_eq!(db.prefix("failed").count(), 0, "a write that has failed is there");
            assert_eq!(db.prefix("after").count() as u64, written, "an acknowledged write is lost");
            assert!(db.get("before").unwrap().is_some());
        }
    }
}

/// Regression: a log may be allocated ahead, so that zeros follow its bytes. When the disk took only
/// a part of a record whose value ended in zeros, these zeros completed the record. So after a kill
/// the write that had failed was there, and the next write, which was acknowledged and had got the
/// same sequence number in the next log, was dropped as one behind a gap.
#[test]
fn a_write_that_the_disk_took_in_part_does_not_come_back() {
    let memory = MemFs::new();
    let killed = || (Arc::new(memory.kill()) as Arc<dyn Fs>, PathBuf::from("/db"));
    write_with_a_short_one(&(Arc::new(memory.clone()) as Arc<dyn Fs>), Path::new("/db"), killed);

    // Where this is a file system in memory, logs are mapped.
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let scratch = tempfile::tempdir_in(place).unwrap();
    let real: Arc<dyn Fs> = Arc::new(RealFs);
    let images = AtomicU32::new(0);
    write_with_a_short_one(&real, &scratch.path().join("db"), || {
        let image = scratch.path().join(format!("image {}", images.fetch_add(1, SeqCst)));
        std::fs::create_dir(&image).unwrap();
        super::copy_files(&scratch.path().join("db"), &image);
        (Arc::clone(&real), image)
    });
}

/// Regression: `close` left the last writes to the operating system, so a power loss took them. Now
/// closing, and dropping the last handle, make every write durable.
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

/// Regression: the name of a new log became durable only with the next table. If the power failed
/// before that, the synced writes in the log were lost with its name. Now the first sync of a log
/// syncs the directory too.
#[test]
fn a_synced_write_to_a_new_log_survives_while_the_flush_before_it_is_under_way() {
    let mem = MemFs::new();
    let (fs, db) = open_faulty(&mem);
    let (held, goes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    fs.before_changes({
        let (held, goes) = (held.clone(), goes.clone());
        move |_, operation, path| {
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            if operation == Operation::Create && is_table {
                held.store(true, SeqCst);
                wait_for(|| goes.load(SeqCst));
            }
        }
    });
    put(&db, "early", Durability::Buffered).unwrap();
    thread::scope(|scope| {
        let flush = scope.spawn(|| db.flush());
        wait_for(|| held.load(SeqCst));
        put(&db, "late", Durability::Sync).unwrap();
        let images: Vec<MemFs> = (0..LOSSES).map(|seed| mem.crash(seed)).collect();
        goes.store(true, SeqCst);
        flush.join().unwrap().unwrap();
        for (seed, image) in images.iter().enumerate() {
            let db = open(image).unwrap_or_else(|error| panic!("power loss {seed}: {error}"));
            for key in ["early", "late"] {
                assert!(db.contains_key(key).unwrap(), "{key} is lost, power loss {seed}");
            }
        }
    });
}

/// Regression: a new MANIFEST left a table out, and no test wrote enough to get a new MANIFEST. The
/// first edit of a new MANIFEST must be the whole tree: all tables, and the logs that are not in
/// tables yet.
#[test]
fn a_manifest_that_is_written_anew_lists_every_table() {
    let fs = MemFs::new();
    let open_on = |fs: &MemFs| {
        let builder = Db::builder("/db").fs(Arc::new(fs.clone())).manifest_roll_bytes(500);
        builder.table_bytes(4 << 10).level_base_bytes(8 << 10).open().unwrap()
    };
    let key = |n: u32| format!("key{:05}", n.wrapping_mul(7919) % 100_000);
    let manifests = || {
        let names = fs.list(Path::new("/db")).unwrap();
        names.into_iter().filter(|name| name.starts_with("MANIFEST-")).collect::<Vec<_>>()
    };
    let db = open_on(&fs);
    let mut seen = manifests();
    for n in 0..1500 {
        db.put(key(n), [n as u8; 100]).unwrap();
        if n % 50 == 49 {
            db.flush().unwrap();
            seen.extend(manifests());
            let image = open_on(&fs.kill());
            for earlier in 0..=n {
                let found = image.get(key(earlier)).unwrap();
                assert_eq!(found.as_deref(), Some(&[earlier as u8; 100][..]), "{earlier} of {n}");
            }
        }
    }
    db.close().unwrap();
    assert_eq!(open_on(&fs).iter().count(), 1500);
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 5, "{seen:?}");
}

/// Regression: an opening silently skipped a missing log and every later write. A gap in the
/// sequence numbers shows that writes are missing. A synced log after the gap proves that the
/// missing writes were durable. Now the opening fails and names the file.
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
    // `early` has the files from before all writes, and now the log of the late writes as well. No
    // file of it has the early writes.
    store(&early, &log, &late.read(&log).unwrap());
    match open(&early) {
        Err(Error::Corruption { file, .. }) => assert_eq!(file, log),
        Err(error) => panic!("{error}"),
        Ok(db) => panic!("twenty synced writes became {}", db.iter().count()),
    }
}

/// Regression: behind damaged bytes of a log, a later record, or the mark that the log gets after
/// each sync, proves that the bytes had been synced (`src/wal`). The search for this proof ended
/// after 4 KiB. So damage in the middle of a log was taken for a torn end, and every later synced
/// write was silently dropped. Now the search continues to the end of the log.
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
                    // This is right only if the damage reaches the end of the log, so that no sound
                    // record or mark behind it proves the sync.
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

/// Regression: the log is written through a memory map of one window of the file at a time. For the
/// next window the file was only extended, which takes no space on the device, so on a full disk
/// the copy of a record into the map killed the program by SIGBUS. Now space is allocated before it
/// is used, so a full disk is an error of the write.
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
