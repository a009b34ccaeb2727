//! Obsolete files: their removal may fail, panic, or find nothing to remove. That is counted and
//! tried again at the next opening, and never an error of the database.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{
    DescriptorPool, Fault, FaultFs, FileLock, Fs, MemFs, Operation, RandomAccessFile, Target,
    WritableFile,
};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, Error, Result, Ticker};

const DIR: &str = "/db";

fn builder(fs: Arc<dyn Fs>) -> Builder {
    // The MANIFEST is replaced often, so that it becomes obsolete too.
    Db::builder(DIR).fs(fs).manifest_roll_bytes(0).block_bytes(256).table_bytes(4096)
}

fn faults() -> (MemFs, FaultFs, Arc<dyn Fs>) {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem.clone()));
    (mem, faults.clone(), Arc::new(faults))
}

fn names(fs: &dyn Fs, end: &str) -> Vec<String> {
    let mut names = fs.list(Path::new(DIR)).unwrap();
    names.retain(|name| name.ends_with(end) || end == "MANIFEST" && name.starts_with(end));
    names
}

/// Round `round` of a workload: overwrites 100 keys, flushes, and removes what that makes obsolete.
fn work(db: &Db, round: u32) -> Result<()> {
    (0..100).try_for_each(|n| db.put(format!("{n:03}"), format!("{round} {}", "x".repeat(50))))?;
    db.flush()?;
    if round % 3 == 2 {
        db.compact_all()?;
    }
    // A flush returns before its logs are removed. This call waits for that.
    db.wait_for_compaction()
}

/// Waits until `holds`. Another thread may be about to remove a table for which a reader of another
/// test had to be waited for.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Checks that the database has what round `round` wrote, and takes writes.
fn check(db: &Db, round: u32) {
    let value = format!("{round} {}", "x".repeat(50));
    let found: Vec<_> = db.iter().map(|item| item.unwrap()).collect();
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|(_, found)| found == value.as_bytes()));
    db.put("one more", "").unwrap();
    db.delete("one more").unwrap();
}

/// After an opening and a flush nothing obsolete is left: the tables are those of the tree, there
/// are one MANIFEST and the writer's log.
fn check_nothing_is_left(fs: Arc<dyn Fs>, round: u32) {
    let db = builder(Arc::clone(&fs)).open().unwrap();
    check(&db, round);
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    assert_eq!(db.stats().tickers.get(Ticker::FilesNotRemoved), 0);
    assert_eq!(names(&*fs, "MANIFEST").len(), 1);
    db.close().unwrap();
    assert_eq!(names(&*fs, ".wal").len(), 1);
    let db = builder(Arc::clone(&fs)).open().unwrap();
    assert_eq!(names(&*fs, ".sst").len(), db.stats().files.len());
}

/// Regression: a flush removed the obsolete logs and passed the error of the removal on, so that
/// the database became read-only although the flush was complete. Now a failed removal is counted
/// and shown, and the next opening removes the file.
#[test]
fn a_removal_that_fails_is_counted_and_the_next_opening_tries_again() {
    for end in [".wal", ".sst", ""] {
        let (mem, faults, fs) = faults();
        let db = builder(Arc::clone(&fs)).open().unwrap();
        work(&db, 0).unwrap();
        assert_eq!(db.stats().tickers.get(Ticker::FilesNotRemoved), 0);
        faults.fail_files_from(end, Target::Only(Operation::Remove), 0, Fault::Io);
        (1..9).for_each(|round| work(&db, round).unwrap());
        check(&db, 8);
        let failed = || db.stats().tickers.get(Ticker::FilesNotRemoved);
        eventually("each failure is counted", || failed() == faults.faults() && failed() > 5);
        let (failed, stats) = (failed(), db.stats());
        let line = format!("not removed   {failed} obsolete files");
        assert!(stats.to_string().contains(&line), "{stats}");
        db.close().unwrap();
        // An opening that cannot remove them either is no failure.
        let db = builder(Arc::clone(&fs)).open().unwrap();
        assert!(db.stats().tickers.get(Ticker::FilesNotRemoved) >= failed, "{end}");
        check(&db, 8);
        db.close().unwrap();
        faults.heal();
        check_nothing_is_left(Arc::new(mem), 8);
    }
}

/// Regression: see above. An obsolete file that is gone already, for example because an operator
/// has deleted it, is no failed removal.
#[test]
fn an_obsolete_file_that_is_gone_already_is_no_failure() {
    let (mem, faults, fs) = faults();
    let db = builder(fs).open().unwrap();
    faults.before_changes({
        let mem = mem.clone();
        move |_, operation, path| {
            if operation == Operation::Remove {
                mem.remove(path).unwrap();
            }
        }
    });
    (0..9).for_each(|round| work(&db, round).unwrap());
    check(&db, 8);
    assert!(faults.calls(Target::Only(Operation::Remove)) > 20);
    assert_eq!(db.stats().tickers.get(Ticker::FilesNotRemoved), 0);
    db.close().unwrap();
    check_nothing_is_left(Arc::new(mem), 8);
}

/// Lists each name twice.
#[derive(Debug, Clone)]
struct Twice(MemFs);

impl Fs for Twice {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.0.create(path)
    }
    fn create_log(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.0.create_log(path)
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.0.open(path)
    }
    fn open_pooled(
        &self,
        path: &Path,
        pool: &Arc<DescriptorPool>,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        self.0.open_pooled(path, pool)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.0.remove(path)
    }
    fn hard_link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.0.hard_link(existing, new)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let names = self.0.list(dir)?;
        Ok([&names[..], &names[..]].concat())
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.0.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.0.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.0.lock(path)
    }
}

/// Regression: a tmpfs under a full disk listed the name of an obsolete log twice. The second
/// removal failed, and the database became read-only. In the same way an opening would have
/// replayed a log twice, which looks like damage. Now each name counts once.
#[test]
fn a_name_that_is_listed_twice_counts_once() {
    let mem = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(Twice(mem.clone()));
    let db = builder(Arc::clone(&fs)).open().unwrap();
    (0..9).for_each(|round| work(&db, round).unwrap());
    db.put("in a log", "synced").unwrap();
    db.persist().unwrap();
    db.checkpoint("/copy").unwrap();
    db.put("in a log", "synced").unwrap();
    db.persist().unwrap();
    assert_eq!(builder(Arc::clone(&fs)).open_read_only().unwrap().len().unwrap(), 101);
    db.close().unwrap();
    // The end of a killed copy: files that the next copy to the same directory removes.
    let lost: Arc<dyn Fs> = Arc::new(Twice(mem.kill()));
    lost.create(Path::new("/copy/UNFINISHED_COPY")).unwrap();

    let db = builder(Arc::clone(&lost)).open().unwrap();
    assert_eq!(db.get("in a log").unwrap().unwrap(), b"synced");
    db.checkpoint("/copy").unwrap();
    db.close().unwrap();
    // Without the MANIFEST, all tables and logs are merged.
    let manifest = names(&mem, "MANIFEST").remove(0);
    mem.remove(&Path::new(DIR).join(manifest)).unwrap();
    let report = builder(Arc::clone(&fs)).repair().unwrap();
    assert!(report.losses.is_empty(), "{report}");
    let db = builder(Arc::clone(&fs)).open().unwrap();
    assert_eq!(db.get("in a log").unwrap().unwrap(), b"synced");
    assert_eq!(db.stats().tickers.get(Ticker::FilesNotRemoved), 0);
    db.close().unwrap();
    let report = builder(Arc::clone(&fs)).destroy().unwrap();
    assert_eq!(report.left, ["lost"]);
}

/// Regression: a repair had replaced the damaged tree, and returned an error because a replaced
/// file, which has another name in `lost/`, could not be removed. Now the report has a line for
/// each such file, and the next opening removes it.
#[test]
fn a_repair_that_cannot_remove_a_replaced_file_has_succeeded() {
    let (mem, faults, fs) = faults();
    let db = builder(Arc::clone(&fs)).open().unwrap();
    work(&db, 0).unwrap();
    db.close().unwrap();
    let manifest = Path::new(DIR).join(names(&mem, "MANIFEST").remove(0));
    mem.create(&manifest).unwrap().sync().unwrap();
    faults.fail_from(Target::Only(Operation::Remove), 0, Fault::Io);
    let report = builder(fs).repair().unwrap();
    assert!(report.changed && report.losses.is_empty(), "{report}");
    let left = report.problems.iter().filter(|line| line.contains("the next opening removes"));
    assert_eq!(left.count() as u64, faults.faults(), "{report}");
    assert!(faults.faults() >= 2, "{report}");
    check_nothing_is_left(Arc::new(mem), 0);
}

/// Regression: a compaction failed by a panic of the user's file system, and its unfinished outputs
/// were dropped while the panic unwound the thread. `remove` panicked in these drops, so the
/// process was aborted. Now such a panic ends in the drop and counts as a failed removal. It does
/// not make the database read-only, as a panic elsewhere in a job does, because nothing depends on
/// the removal.
#[test]
fn a_removal_that_panics_ends_no_process_and_no_database() {
    let (mem, faults, fs) = faults();
    let db = builder(Arc::clone(&fs)).open().unwrap();
    let appends_panic = Arc::new(AtomicBool::new(false));
    faults.before_changes({
        let appends_panic = Arc::clone(&appends_panic);
        move |_, operation, path| {
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            let is_outside = path.parent() == Some(Path::new("/"));
            let is_append = operation == Operation::Append && (is_table || is_outside);
            let panics = is_append && appends_panic.load(Ordering::Relaxed);
            assert!(operation != Operation::Remove && !panics, "a panic of the file system");
        }
    });
    (0..9).for_each(|round| work(&db, round).unwrap());
    check(&db, 8);
    let failed = db.stats().tickers.get(Ticker::FilesNotRemoved);
    assert!(failed >= 9, "{failed}");

    // Each destructor below runs while a panic of `append` unwinds its thread.
    appends_panic.store(true, Ordering::Relaxed);
    let table = AssertUnwindSafe(|| {
        let path = Path::new("/outside.sst");
        let mut table =
            SstWriter::create_in(Arc::clone(&fs), path, TableOptions::default()).unwrap();
        (0..10_000u32).for_each(|n| table.put(&n.to_be_bytes(), &[7; 100]).unwrap());
        table.finish().unwrap();
    });
    assert!(catch_unwind(table).is_err());
    let error = work(&db, 9).unwrap_err();
    let Error::ReadOnly(cause) = &error else { panic!("{error}") };
    assert!(matches!(&**cause, Error::Panicked(_)), "{error}");
    assert!(db.stats().tickers.get(Ticker::FilesNotRemoved) > failed);
    drop(db);
    let db = builder(Arc::new(mem.clone())).open().unwrap();
    db.compact_all().unwrap();
    let written: BTreeSet<_> = db.iter().map(|item| item.unwrap().1).collect();
    assert_eq!(written.len(), 1);
    db.close().unwrap();
    let db = builder(Arc::new(mem.clone())).open().unwrap();
    assert_eq!(names(&mem, ".sst").len(), db.stats().files.len());
}

/// Regression: each flush listed the directory and parsed its names to find the obsolete logs. The
/// tables that open cursors hold are in the directory, so the time of flushes was quadratic: 0.36,
/// 1.5 and 4.0 s for 500, 1,000 and 2,000 cursors. Now the logs are known, and only an opening
/// lists the directory.
#[test]
fn flushes_list_no_directory_however_many_cursors_are_open() {
    let (mem, faults, fs) = faults();
    let db = builder(fs).open().unwrap();
    let lists = || faults.calls(Target::Only(Operation::List));
    let (before, mut cursors) = (lists(), Vec::new());
    for n in 0..300u32 {
        db.put("key", n.to_be_bytes()).unwrap();
        db.flush().unwrap();
        cursors.push((n, db.iter()));
        db.wait_for_compaction().unwrap();
        assert_eq!(names(&mem, ".wal").len(), 1, "an obsolete log stays");
    }
    assert_eq!(lists(), before);
    for (n, mut cursor) in cursors {
        assert_eq!(cursor.next().unwrap().unwrap().1, &n.to_be_bytes()[..]);
    }
}

/// A log that was synced, and one that an opening has written, are removed like all others.
#[test]
fn every_kind_of_log_is_removed_once_it_is_obsolete() {
    let (mem, _, fs) = faults();
    let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
    for round in 0..4 {
        let db = builder(Arc::clone(&fs)).open().unwrap();
        paths.extend(names(&mem, ".wal").into_iter().map(PathBuf::from));
        db.put("key", format!("{round}")).unwrap();
        db.persist().unwrap();
        if round % 2 == 1 {
            db.flush().unwrap();
            db.wait_for_compaction().unwrap();
            assert_eq!(names(&mem, ".wal").len(), 1);
        }
        db.put("key", format!("{round}")).unwrap();
        db.close().unwrap();
    }
    assert!(paths.len() >= 6, "{paths:?}");
}
