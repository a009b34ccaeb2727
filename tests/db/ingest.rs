//! Ingestion concurrent with writers, flushes and compactions: what it waits for, the level that it
//! chooses, and what is left of it after a power loss, a reopening or a repair.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, Durability, Error, Ticker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Longer than any event for which a test waits.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Suspends the threads with one of `names`: each waits when it is about to create or to link a
/// table, until the gate is opened.
#[derive(Clone)]
pub struct Gate {
    names: &'static [&'static str],
    /// Whether the gate is open, and how many threads have reached it.
    state: Arc<(Mutex<(bool, usize)>, Condvar)>,
}

impl Gate {
    pub fn on(faults: &FaultFs, names: &'static [&'static str]) -> Gate {
        let gate = Gate { names, state: Arc::default() };
        faults.before_changes({
            let gate = gate.clone();
            move |_, operation, path| {
                let is_table = path.extension().is_some_and(|extension| extension == "sst");
                if matches!(operation, Operation::Create | Operation::HardLink) && is_table {
                    gate.pass();
                }
            }
        });
        gate
    }

    fn pass(&self) {
        let (state, changed) = &*self.state;
        let current = thread::current();
        if !current.name().is_some_and(|name| self.names.contains(&name)) {
            return;
        }
        let mut state = state.lock().unwrap();
        state.1 += 1;
        changed.notify_all();
        drop(changed.wait_timeout_while(state, PATIENCE, |state| !state.0).unwrap());
    }

    pub fn wait_for_arrivals(&self, count: usize) {
        let (state, changed) = &*self.state;
        let too_few = |state: &mut (bool, usize)| state.1 < count;
        let state = state.lock().unwrap();
        let (state, _) = changed.wait_timeout_while(state, PATIENCE, too_few).unwrap();
        assert!(state.1 >= count, "nobody came to the gate");
        assert!(!state.0, "the gate is open");
    }

    pub fn arrivals(&self) -> usize {
        self.state.0.lock().unwrap().1
    }

    pub fn open(&self) {
        self.state.0.lock().unwrap().0 = true;
        self.state.1.notify_all();
    }
}

/// Runs `work` in a thread named `name`.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    let work = move || drop(sender.send(work()));
    thread::Builder::new().name(name.into()).spawn(work).unwrap();
    receiver
}

/// Runs `work` in a thread, and returns its result. Panics if that takes longer than [`PATIENCE`],
/// for example because `work` waits for a thread that is suspended at a gate.
fn at_once<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn("at-once", work).recv_timeout(PATIENCE).expect("it waits for a suspended thread")
}

fn builder(fs: &Arc<dyn Fs>) -> Builder {
    Db::builder("/db").fs(Arc::clone(fs)).block_bytes(256).table_bytes(8 << 10)
}

pub fn faults() -> (MemFs, FaultFs, Arc<dyn Fs>) {
    let mem = MemFs::new();
    let faults = FaultFs::new(Arc::new(mem.clone()));
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    (mem, faults, fs)
}

/// A table of these keys, each with `value`.
pub fn table(fs: &Arc<dyn Fs>, keys: &[&str], value: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = format!("/outside.{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let options = TableOptions::default();
    let mut writer = SstWriter::create_in(Arc::clone(fs), Path::new(&path), options).unwrap();
    keys.iter().for_each(|key| writer.put(key.as_bytes(), value.as_bytes()).unwrap());
    writer.finish().unwrap();
    path
}

fn ingest(db: &Db, fs: &Arc<dyn Fs>, keys: &[&str], value: &str) {
    db.ingest(&[table(fs, keys, value)]).unwrap();
}

/// The level of the newest table whose smallest key is `key`.
fn level_of(db: &Db, key: &str) -> usize {
    let files = db.stats().files;
    let levels = files.iter().filter(|file| file.smallest == key.as_bytes()).map(|file| file.level);
    levels.min().unwrap_or_else(|| panic!("no table begins with {key}"))
}

fn flushes(db: &Db) -> u64 {
    db.stats().tickers.get(Ticker::FlushCount)
}

fn get(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Makes four tables in level 0, two with the keys a and c and two with m and p, so that a
/// compaction of them begins.
fn fill_level_0(db: &Db) {
    for (round, keys) in [["a", "c"], ["m", "p"], ["a", "c"], ["m", "p"]].iter().enumerate() {
        keys.iter().for_each(|key| db.put(key, format!("{round}")).unwrap());
        db.flush().unwrap();
    }
}

/// Regression: if the log was new, an ingestion synced the directory and the MANIFEST twice, and
/// every sync may wait for the writes of a compaction. Now an ingestion syncs each of them once.
#[test]
fn an_ingestion_syncs_the_file_the_directory_the_log_and_the_manifest_once() {
    let (_, faults, fs) = faults();
    let db = builder(&fs).open().unwrap();
    let calls = |operation| faults.calls(Target::Only(operation));
    for round in 0..3 {
        // Round 1 has a new log, round 2 a log that was synced before.
        if round == 1 {
            db.flush().unwrap();
        }
        db.put(format!("b{round}"), "").unwrap();
        let path = table(&fs, &[&format!("c{round}")], "");
        let (syncs, names) = (calls(Operation::Sync), calls(Operation::SyncDir));
        db.ingest(&[path]).unwrap();
        let (syncs, names) = (calls(Operation::Sync) - syncs, calls(Operation::SyncDir) - names);
        assert_eq!((syncs, names), (3, 1), "round {round}");
    }
}

/// Regression: an ingestion waited for all running compactions while it held the writers' lock, so
/// that every other write waited too. Now a file that overlaps no memtable waits for nothing.
#[test]
fn an_ingestion_and_the_writes_of_others_return_while_a_compaction_stands_still() {
    let (mem, faults, fs) = faults();
    let gate = Gate::on(&faults, &["maypole-compact", "maypole-part"]);
    let db = builder(&fs).open().unwrap();
    fill_level_0(&db);
    gate.wait_for_arrivals(1);
    // A file whose keys are above those of all tables goes to the deepest level. A file in the gap
    // between the compaction's inputs goes above the compaction's output, which may reach over the
    // gap. A file that overlaps an input goes to level 0.
    for (keys, level) in [(["x", "z"], 6), (["e", "f"], 5), (["b", "bb"], 0)] {
        let (other, file) = (db.clone(), table(&fs, &keys, "ingested"));
        at_once(move || other.ingest(&[file])).unwrap();
        assert_eq!(level_of(&db, keys[0]), level, "{keys:?}");
        let other = db.clone();
        at_once(move || other.put("q", "meanwhile")).unwrap();
    }
    let sequence = db.snapshot().sequence();
    assert_eq!(sequence, 8 + 6);
    gate.open();
    db.wait_for_compaction().unwrap();
    // Compactions merge the ingested tables from here on. Their results must be right too.
    let check = |db: &Db| {
        let found: BTreeMap<_, _> = db
            .iter()
            .map(|item| item.unwrap())
            .map(|(key, value)| [key, value].map(|b| String::from_utf8(b.to_vec()).unwrap()).into())
            .collect();
        let ingested = ["b", "bb", "e", "f", "x", "z"].map(|key| (key, "ingested"));
        let flushed = [("a", "2"), ("c", "2"), ("m", "3"), ("p", "3"), ("q", "meanwhile")];
        let expected = ingested.into_iter().chain(flushed);
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(found, expected.collect());
        db.verify().unwrap();
    };
    check(&db);
    db.close().unwrap();
    // The opening would reject overlapping tables of a level.
    let db = builder(&(Arc::new(mem) as Arc<dyn Fs>)).open().unwrap();
    check(&db);
    db.compact_all().unwrap();
    check(&db);
}

#[test]
fn an_ingestion_and_the_writes_of_others_return_while_compact_all_stands_still() {
    let (_, faults, fs) = faults();
    let gate = Gate::on(&faults, &["by-hand", "maypole-part"]);
    let db = builder(&fs).memtable_bytes(4096).open().unwrap();
    for n in 0..200 {
        db.put(format!("k{n:03}"), [7; 100]).unwrap();
    }
    db.wait_for_compaction().unwrap();
    let by_hand = spawn("by-hand", {
        let db = db.clone();
        move || db.compact_all()
    });
    gate.wait_for_arrivals(1);
    let (other, files) = (db.clone(), [table(&fs, &["a"], "in"), table(&fs, &["k000x"], "in")]);
    at_once(move || other.ingest(&files)).unwrap();
    assert_eq!(level_of(&db, "a"), 6);
    // These writes fill several memtables, which are flushed while `compact_all` is suspended.
    let other = db.clone();
    at_once(move || (0..200).try_for_each(|n| other.put(format!("w{n:03}"), [7; 100]))).unwrap();
    let other = db.clone();
    at_once(move || other.flush()).unwrap();
    assert!(by_hand.try_recv().is_err(), "compact_all has ended");
    gate.open();
    by_hand.recv_timeout(PATIENCE).unwrap().unwrap();
    db.wait_for_compaction().unwrap();
    assert_eq!(db.iter().count(), 402);
    assert_eq!(get(&db, "k000x").unwrap(), "in");
    db.verify().unwrap();
}

/// Regression: the disk was full at the opening, so the directory was not taken over. Later there
/// was space. `ingest` copied the file in, and then took the directory over, which removed the
/// copy, because no MANIFEST listed it. The error said that the caller's file is missing. Now the
/// directory is taken over before any file is copied.
#[test]
fn a_file_is_ingested_after_an_opening_on_a_full_disk() {
    let (mem, faults, fs) = faults();
    let db = builder(&fs).open().unwrap();
    db.put("a", "in the log").unwrap();
    db.close().unwrap();
    let file = table(&fs, &["b", "c"], "in the file");
    faults.fail_from(Target::Only(Operation::Create), 0, Fault::NoSpace);
    let db = builder(&fs).open().unwrap();
    // While the disk is full, the error says so, and nothing is copied.
    let error = db.ingest(&[&file]).unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    let is_table = |name: &String| name.ends_with(".sst");
    assert!(!mem.list(Path::new("/db")).unwrap().iter().any(is_table));
    faults.heal();
    db.ingest(&[&file]).unwrap();
    assert_eq!(get(&db, "a").unwrap(), "in the log");
    assert_eq!(get(&db, "c").unwrap(), "in the file");
    db.close().unwrap();
    let db = builder(&fs).open().unwrap();
    assert_eq!((db.len().unwrap(), db.verify().unwrap().tables), (3, 1));
}

#[test]
fn a_file_lies_above_every_table_that_it_overlaps_and_above_nothing_else() {
    let (_, faults, fs) = faults();
    // The gate suspends all compactions, so no table is merged into a deeper level meanwhile.
    let gate = Gate::on(&faults, &["maypole-compact", "maypole-part"]);
    let db = builder(&fs).open().unwrap();
    for level in (0..=6).rev() {
        ingest(&db, &fs, &["k", "m"], &format!("in level {level}"));
        assert_eq!(level_of(&db, "k"), level);
    }
    ingest(&db, &fs, &["kk", "l"], "in level 0 too");
    assert_eq!(level_of(&db, "kk"), 0);
    ingest(&db, &fs, &["a", "b"], "beside");
    assert_eq!(level_of(&db, "a"), 6);
    // Several files in one call: each gets its own level.
    db.ingest(&[table(&fs, &["c"], "many"), table(&fs, &["m"], "many")]).unwrap();
    assert_eq!((level_of(&db, "c"), level_of(&db, "m")), (6, 0));
    assert_eq!(get(&db, "k").unwrap(), "in level 0");
    assert_eq!(get(&db, "m").unwrap(), "many");
    gate.open();
    db.wait_for_compaction().unwrap();
    db.compact_all().unwrap();
    let content = [("a", "beside"), ("b", "beside"), ("c", "many"), ("k", "in level 0")]
        .into_iter()
        .chain([("kk", "in level 0 too"), ("l", "in level 0 too"), ("m", "many")]);
    let content: Vec<_> = content.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let keys: Vec<String> = content.iter().map(|(key, _)| key.clone()).collect();
    let found: Vec<_> =
        keys.into_iter().map(|key| (key.clone(), get(&db, &key).unwrap())).collect();
    assert_eq!(found, content);
}

/// A memtable that no ingested file overlaps stays: it also takes the writes after the ingestion,
/// and is flushed later. A memtable that a file overlaps is flushed before the ingestion.
#[test]
fn memtables_that_do_not_overlap_a_file_stay_and_others_are_flushed_before_it() {
    let (_, _, fs) = faults();
    let db = builder(&fs).open().unwrap();
    db.put("a", "1").unwrap();
    db.put("z", "1").unwrap();
    ingest(&db, &fs, &["k", "m"], "ingested");
    assert_eq!(flushes(&db), 0, "a memtable was flushed");
    assert_eq!(level_of(&db, "k"), 6);
    db.put("m", "newer").unwrap();
    let check = |db: &Db| {
        assert_eq!(
            (get(db, "k").unwrap(), get(db, "m").unwrap()),
            ("ingested".into(), "newer".into())
        );
    };
    check(&db);
    // A file whose range lies between two keys of the memtable does not overlap the memtable.
    ingest(&db, &fs, &["ll", "lm"], "ingested");
    assert_eq!(flushes(&db), 0, "m lies beyond");
    ingest(&db, &fs, &["ma", "n"], "ingested");
    db.delete("n").unwrap();
    ingest(&db, &fs, &["mm", "nn"], "hides a deletion's range");
    assert_eq!(flushes(&db), 1);
    db.delete_range("c".."d").unwrap();
    ingest(&db, &fs, &["cc", "cd"], "above a deleted range");
    assert_eq!(get(&db, "cc").unwrap(), "above a deleted range");
    assert_eq!(flushes(&db), 2);
    ingest(&db, &fs, &["d", "da"], "behind the deleted range");
    for compacts in [false, true, true] {
        check(&db);
        assert_eq!(get(&db, "n"), None);
        assert_eq!(get(&db, "cd").unwrap(), "above a deleted range");
        assert_eq!(get(&db, "d").unwrap(), "behind the deleted range");
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        if compacts {
            db.compact_all().unwrap();
        }
    }
}

/// The ingestion of a file that overlaps a memtable waits for the memtable's flush. Writers do not
/// wait, and `close` ends the wait.
#[test]
fn writers_go_on_while_an_ingestion_waits_for_a_flush_and_a_close_ends_the_wait() {
    for closes in [false, true] {
        let (_, faults, fs) = faults();
        let gate = Gate::on(&faults, &["maypole-flush"]);
        let db = builder(&fs).open().unwrap();
        db.put("m", "older").unwrap();
        let ingestion = spawn("ingestion", {
            let (db, file) = (db.clone(), table(&fs, &["k", "z"], "ingested"));
            move || db.ingest(&[file])
        });
        gate.wait_for_arrivals(1);
        let other = db.clone();
        at_once(move || other.put("a", "meanwhile")).unwrap();
        assert!(ingestion.try_recv().is_err(), "it did not wait");
        if closes {
            let closing = spawn("closing", move || db.close());
            let ended = ingestion.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
            gate.open();
            closing.recv_timeout(PATIENCE).unwrap().unwrap();
            continue;
        }
        gate.open();
        ingestion.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(
            (get(&db, "m"), get(&db, "k").unwrap()),
            (Some("older".into()), "ingested".into())
        );
    }
}

/// A writer writes to the file's range as fast as it can. The ingestion of the file ends
/// nevertheless.
#[test]
fn an_ingestion_ends_although_its_range_is_written_to_all_the_time() {
    let (_, _, fs) = faults();
    let db = builder(&fs).open().unwrap();
    // `m` is written here first, because the writer's thread may start only after the first round
    // has looked it up.
    db.put("m", "written").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = spawn("writer", {
        let (db, stop) = (db.clone(), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                db.put("m", "written").unwrap();
            }
        }
    });
    for round in 0..20 {
        let (other, file) = (db.clone(), table(&fs, &["k", "z"], &format!("{round}")));
        at_once(move || other.ingest(&[file])).unwrap();
        assert_eq!(get(&db, "k").unwrap(), format!("{round}"));
        assert_eq!(get(&db, "m").unwrap(), "written");
    }
    stop.store(true, Ordering::Relaxed);
    writer.recv_timeout(PATIENCE).unwrap();
}

/// Regression: an ingestion changes the tables that readers see, but the memtable stays. A reader
/// that had loaded the old tables and then the last sequence number saw later writes in the
/// memtable, but not the file that was ingested before them. Now a reader that sees a write sees
/// every file that was ingested before it.
#[test]
fn who_sees_a_write_sees_the_file_that_was_ingested_before_it() {
    let (_, _, fs) = faults();
    let db = builder(&fs).open().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (db, stop) = (db.clone(), Arc::clone(&stop));
            spawn("reader", move || {
                let number = |value: Option<maypole::Slice>| -> u64 {
                    value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
                };
                while !stop.load(Ordering::Relaxed) {
                    let [written, ingested] = match reader {
                        0 => <[_; 2]>::try_from(db.multi_get(&["after", "file"]).unwrap()).unwrap(),
                        _ => {
                            let items = db.iter().map(|item| item.unwrap());
                            let items: BTreeMap<_, _> =
                                items.map(|(key, value)| (key.to_vec(), value)).collect();
                            ["after", "file"].map(|key| items.get(key.as_bytes()).cloned())
                        }
                    };
                    let (written, ingested) = (number(written), number(ingested));
                    assert!(
                        written <= ingested,
                        "write {written} came after file {written}, found {ingested}"
                    );
                }
            })
        })
        .collect();
    for n in 1..=300 {
        ingest(&db, &fs, &["file"], &format!("{n}"));
        db.put("after", format!("{n}")).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    readers.iter().for_each(|reader| reader.recv_timeout(PATIENCE).unwrap());
}

/// Makes write number `n`. Every fifth write is an ingestion.
fn numbered(db: &Db, fs: &Arc<dyn Fs>, n: u64) -> maypole::Result<()> {
    match n % 5 {
        0 => db.ingest(&[table(fs, &[&format!("in{n:04}")], &n.to_string())]),
        _ => db.put(format!("k{n:04}"), n.to_string()),
    }
}

/// The number of the last write, after a check that all earlier ones are found.
fn last_of(db: &Db, story: &str) -> u64 {
    let mut numbers: Vec<u64> = db
        .iter()
        .map(|item| std::str::from_utf8(&item.unwrap().1).unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    let last = numbers.len() as u64;
    assert!(numbers.iter().copied().eq(1..=last), "{story}: not a prefix: {numbers:?}");
    // Each of these writes takes one sequence number.
    assert_eq!(db.snapshot().sequence(), last, "{story}");
    last
}

/// An ingested file takes a sequence number, but no log has a record with this number. Every kind
/// of opening accepts these gaps between the numbers in the log.
#[test]
fn every_way_to_open_a_database_passes_over_the_numbers_of_ingested_files() {
    let (mem, _, fs) = faults();
    for last in [11, 15] {
        let path = format!("/db{last}");
        let options = || Db::builder(&path).fs(Arc::clone(&fs)).manifest_roll_bytes(300);
        let db = options().open().unwrap();
        (1..=last).for_each(|n| numbered(&db, &fs, n).unwrap());
        assert_eq!(flushes(&db), 0, "nothing is flushed");
        assert_eq!(last_of(&options().open_read_only().unwrap(), "read beside the writer"), last);
        // The loop opens the database three times. The first opening follows a kill, and reads a
        // MANIFEST that was rewritten whenever it had grown by more than 300 bytes. The other two
        // follow a `close`. They read MANIFESTs with more than one record, because `options` below
        // has the usual limit.
        let killed: Arc<dyn Fs> = Arc::new(mem.kill());
        let options = |fs: &Arc<dyn Fs>| Db::builder(&path).fs(Arc::clone(fs));
        for opening in 0..3 {
            let db = options(&killed).open().unwrap();
            assert_eq!(last_of(&db, "opened again"), last + 6 * opening);
            (1..=6).for_each(|n| numbered(&db, &killed, last + 6 * opening + n).unwrap());
            db.close().unwrap();
        }
        let last = last + 18;
        // The directory is repaired without CURRENT, and then also with a damaged MANIFEST. The log
        // still holds the last writes.
        let current = Path::new(&path).join("CURRENT");
        for lost_manifest in [false, true] {
            let image = copied(&killed, &path);
            let image: Arc<dyn Fs> = Arc::new(image);
            image.remove(&current).unwrap();
            if lost_manifest {
                let list = image.list(Path::new(&path)).unwrap();
                let manifest = list.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
                let manifest = Path::new(&path).join(manifest);
                let bytes = read(&image, &manifest);
                let mut file = image.create(&manifest).unwrap();
                // This byte is in the first record, which lists the whole tree.
                let mut damaged = bytes.clone();
                damaged[70] ^= 1;
                file.append(&damaged).unwrap();
                file.sync().unwrap();
            }
            let report = options(&image).repair().unwrap();
            let db = options(&image).open().unwrap();
            if !lost_manifest {
                assert!(report.losses.is_empty(), "{report}");
                assert_eq!(last_of(&db, "repaired"), last);
            }
            let before = db.snapshot().sequence();
            db.put("k", (before + 1).to_string()).unwrap();
            assert_eq!(
                get(&db, "k").unwrap(),
                (before + 1).to_string(),
                "a number was given twice"
            );
        }
    }
}

/// A copy of everything in a directory of a file system.
fn copied(fs: &Arc<dyn Fs>, dir: &str) -> MemFs {
    let copy = MemFs::new();
    let to: Arc<dyn Fs> = Arc::new(copy.clone());
    to.create_dir_all(Path::new(dir)).unwrap();
    for name in fs.list(Path::new(dir)).unwrap() {
        let path = Path::new(dir).join(name);
        let bytes = read(fs, &path);
        let mut file = to.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
    }
    to.sync_dir(Path::new(dir)).unwrap();
    copy
}

pub fn read(fs: &Arc<dyn Fs>, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// A checkpoint has no log. If its tree had an ingested file, but not the earlier writes that were
/// still in a memtable, the checkpoint would be a state that the database never had.
#[test]
fn a_checkpoint_beside_ingestions_holds_a_prefix() {
    let (_, _, fs) = faults();
    let db = builder(&fs).open().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = spawn("writer", {
        let (db, fs, stop) = (db.clone(), Arc::clone(&fs), Arc::clone(&stop));
        move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                numbered(&db, &fs, n).unwrap();
            }
            n
        }
    });
    let mut lasts = vec![0];
    for copy in 0..20 {
        let dir = format!("/copy{copy}");
        db.checkpoint(&dir).unwrap();
        let copied = Db::builder(&dir).fs(Arc::clone(&fs)).open().unwrap();
        let last = last_of(&copied, &dir);
        assert!(last >= *lasts.last().unwrap());
        lasts.push(last);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writer.recv_timeout(PATIENCE).unwrap() >= *lasts.last().unwrap());
}

/// Regression: a checkpoint flushes the memtable and then copies the tree. If a file was ingested
/// after the flush had begun, the tree had the file. A write from before the ingestion, but after
/// the flush had frozen the memtable, was not in the tree. So the copy held the file without the
/// older write. Now, in this case, the checkpoint flushes again while it keeps ingestions out.
#[test]
fn a_checkpoint_does_not_take_a_file_without_the_unflushed_write_before_it() {
    let (_, faults, fs) = faults();
    let db = builder(&fs).open().unwrap();
    let step = Arc::new(AtomicU64::new(0));
    faults.before_changes({
        let (db, fs, step) = (db.clone(), Arc::clone(&fs), Arc::clone(&step));
        move |_, operation, path| {
            if operation != Operation::Create
                || !path.starts_with("/db") && !path.starts_with("/copy")
            {
                return;
            }
            let is_table = path.extension().is_some_and(|extension| extension == "sst");
            let step_is =
                |n| step.compare_exchange(n, n + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if path.ends_with("UNFINISHED_COPY") && step_is(0) {
                // With this entry, the checkpoint's next flush has a table to write.
                db.put("k0001", "1").unwrap();
            } else if is_table && thread::current().name() == Some("maypole-flush") && step_is(1) {
                // The memtable that holds `k0001` is frozen, so write 2 goes to the next memtable.
                let (db, fs) = (db.clone(), Arc::clone(&fs));
                at_once(move || {
                    numbered(&db, &fs, 2).unwrap();
                    ingest(&db, &fs, &["in0003"], "3");
                });
                assert!(step_is(2));
            }
        }
    });
    db.checkpoint("/copy").unwrap();
    faults.before_changes(|_, _, _| {});
    assert_eq!(step.load(Ordering::SeqCst), 3, "the story did not happen");
    let copied = Db::builder("/copy").fs(Arc::clone(&fs)).open().unwrap();
    assert_eq!(last_of(&copied, "the copy"), 3);
    assert_eq!(last_of(&db, "the database"), 3);
}

/// The directory under `tests/fixtures/maypole-ingested` was written by the last build whose
/// MANIFEST did not list the sequence numbers of ingested files, which no log holds. That build
/// flushed every memtable before an ingestion, and recorded that all writes up to the file's number
/// are in tables. Its process made these writes, each with its sequence number as the value, and
/// was killed:
///
/// ```text
///   put a 1, put m 2 | ingest m n 3 | put b 4, delete n 5 | ingest x 6 | ingest y z 7 | put c 8, put m 9
/// ```
#[test]
fn a_database_whose_manifest_names_no_skipped_numbers_is_opened_and_goes_on() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/maypole-ingested");
    let mem = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    fs.create_dir_all(Path::new("/db")).unwrap();
    for entry in std::fs::read_dir(fixture).unwrap().map(Result::unwrap) {
        let mut file = fs.create(&Path::new("/db").join(entry.file_name())).unwrap();
        file.append(&std::fs::read(entry.path()).unwrap()).unwrap();
        file.sync().unwrap();
    }
    fs.sync_dir(Path::new("/db")).unwrap();
    let content = ["a 1", "b 4", "c 8", "m 9", "x 6", "y 7", "z 7"].map(str::to_string);
    let found = |db: &Db| -> Vec<String> {
        let text = |bytes: maypole::Slice| String::from_utf8(bytes.to_vec()).unwrap();
        db.iter().map(Result::unwrap).map(|(k, v)| format!("{} {}", text(k), text(v))).collect()
    };
    let read_only = Db::builder("/db").fs(Arc::clone(&fs)).open_read_only().unwrap();
    assert_eq!((found(&read_only), read_only.snapshot().sequence()), (content.to_vec(), 9));
    drop(read_only);
    // Two copies are repaired: one with CURRENT, and one without it, so that no file names the
    // MANIFEST.
    for removes_current in [false, true] {
        let image: Arc<dyn Fs> = Arc::new(copied(&fs, "/db"));
        if removes_current {
            image.remove(Path::new("/db/CURRENT")).unwrap();
        }
        let report = Db::builder("/db").fs(Arc::clone(&image)).repair().unwrap();
        assert!(report.losses.is_empty(), "{report}");
        let db = Db::builder("/db").fs(image).open().unwrap();
        assert_eq!((found(&db), db.snapshot().sequence()), (content.to_vec(), 9));
    }
    let db = Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap();
    assert_eq!((found(&db), db.snapshot().sequence()), (content.to_vec(), 9));
    db.verify().unwrap();
    // A file is ingested while the memtable stays. So from here on, the MANIFEST lists sequence
    // numbers that no log holds.
    db.put("d", "10").unwrap();
    ingest(&db, &fs, &["y", "yy"], "11");
    db.put("e", "12").unwrap();
    assert_eq!(flushes(&db), 0);
    db.persist().unwrap();
    let content = ["a 1", "b 4", "c 8", "d 10", "e 12", "m 9", "x 6", "y 11", "yy 11", "z 7"];
    for image in [mem.kill(), mem.crash(7)] {
        let image: Arc<dyn Fs> = Arc::new(image);
        let db = Db::builder("/db").fs(image).open().unwrap();
        assert_eq!(
            (found(&db), db.snapshot().sequence()),
            (content.map(str::to_string).to_vec(), 12)
        );
        db.compact_all().unwrap();
        assert_eq!(found(&db), content);
    }
}

/// A power loss is tried before each change of a file that ingestions, writes, flushes and openings
/// make.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_power_loss_leaves_a_prefix_of_writes_and_ingested_files() {
    const WRITES: u64 = 90;
    let (mem, faults, fs) = faults();
    let durable = Arc::new(AtomicU64::new(0));
    let images = Arc::new(Mutex::new(Vec::new()));
    faults.before_changes({
        let (mem, durable, images) = (mem.clone(), Arc::clone(&durable), Arc::clone(&images));
        move |change, operation, path| {
            if path.starts_with("/db") && !path.ends_with("LOCK") {
                let story = format!("change {change}: {operation:?} of {}", path.display());
                // `durable` is read before the image is taken, so that the image has everything
                // that `durable` counts.
                let least = durable.load(Ordering::SeqCst);
                images.lock().unwrap().push((mem.crash(change), least, story));
            }
        }
    });
    let options = |fs: &Arc<dyn Fs>| {
        builder(fs).memtable_bytes(4096).manifest_roll_bytes(400).open().unwrap()
    };
    let mut db = options(&fs);
    for n in 1..=WRITES {
        numbered(&db, &fs, n).unwrap();
        match n % 31 {
            7 => db.persist().unwrap(),
            16 => db.flush().unwrap(),
            29 => {
                db.close().unwrap();
                db = options(&fs);
            }
            _ if n % 5 > 0 => continue,
            // An ingestion makes all writes before it durable.
            _ => {}
        }
        durable.store(n, Ordering::SeqCst);
    }
    db.close().unwrap();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 200, "{}", images.len());
    let mut ends_with_ingestion = 0;
    for (image, least, story) in images {
        let image: Arc<dyn Fs> = Arc::new(image);
        let db = options(&image);
        let last = last_of(&db, &story);
        assert!((least..=WRITES).contains(&last), "{story}: {least} is durable, {last} survived");
        ends_with_ingestion += u64::from(last.is_multiple_of(5) && last > 0);
        // The database continues from there.
        db.put(format!("k{:04}", last + 1), (last + 1).to_string()).unwrap();
        db.close().unwrap();
        assert_eq!(last_of(&options(&image), &story), last + 1);
    }
    assert!(ends_with_ingestion > 20, "{ends_with_ingestion}");
}

/// The writes before an ingested file are synced. If their log has lost them, an opening fails
/// rather than leave a hole before the file.
#[test]
fn a_lost_log_before_an_ingested_file_is_damage() {
    let (_, _, fs) = faults();
    let db = builder(&fs).open().unwrap();
    (1..=7).for_each(|n| numbered(&db, &fs, n).unwrap());
    db.persist().unwrap();
    let image: Arc<dyn Fs> = Arc::new(copied(&fs, "/db"));
    let list = image.list(Path::new("/db")).unwrap();
    let log = list.iter().find(|name| name.ends_with(".wal")).unwrap();
    let log = Path::new("/db").join(log);
    let bytes = read(&image, &log);
    let mut file = image.create(&log).unwrap();
    // The first record stays.
    file.append(&bytes[..bytes.len() / 4]).unwrap();
    file.sync().unwrap();
    let error = builder(&image).open().unwrap_err();
    assert!(matches!(&error, Error::Corruption { file, .. } if *file == log), "{error}");
    assert!(builder(&image).open_read_only().is_err());
    // A repair keeps what it finds, and gives no write the sequence number of another.
    assert!(!builder(&image).repair().unwrap().losses.is_empty());
    let db = builder(&image).open().unwrap();
    assert_eq!(get(&db, "in0005").unwrap(), "5");
    assert!(db.snapshot().sequence() >= 5);
}

/// Puts, deletions, range deletions and ingestions in any order, with flushes, compactions,
/// snapshots, kills and power losses in between. The ingested files are narrow, so that they rarely
/// overlap a memtable.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn ingestions_between_other_writes_are_as_in_a_map() {
    for seed in 0..12 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut mem = MemFs::new();
        let options = |mem: &MemFs, seed: u64| {
            let fs: Arc<dyn Fs> = Arc::new(mem.clone());
            let memtable_bytes = [4096, 64 << 10][seed as usize % 2];
            builder(&fs)
                .memtable_bytes(memtable_bytes)
                .level_base_bytes(8 << 10)
                .manifest_roll_bytes(2000)
                .open()
                .unwrap()
        };
        let mut db = options(&mem, seed);
        let mut map: BTreeMap<String, String> = BTreeMap::new();
        let mut snapshot = None;
        let key = |rng: &mut StdRng| format!("{:04}", rng.random_range(0..2000));
        for step in 0..3000 {
            let value = format!("{step}");
            match rng.random_range(0..1000) {
                0..600 => {
                    // The keys of a hundred steps are close together, so that a memtable covers few
                    // of the 2,000 keys, and most ingested files do not overlap it.
                    let near = (step / 100 * 37 + rng.random_range(0..80)) % 2000;
                    let key = format!("{near:04}");
                    db.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
                600..680 => {
                    let key = key(&mut rng);
                    db.delete(&key).unwrap();
                    map.remove(&key);
                }
                680..700 => {
                    let first = rng.random_range(0..2000);
                    let (begin, end) = (format!("{first:04}"), format!("{:04}", first + 20));
                    db.delete_range(&begin..&end).unwrap();
                    map.retain(|key, _| *key < begin || *key >= end);
                }
                700..900 => {
                    let first = rng.random_range(0..2000);
                    let keys = (first..first + 3).map(|n| format!("{n:04}"));
                    let keys: Vec<String> = keys.collect();
                    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
                    let mut writer =
                        SstWriter::create_in(Arc::clone(&fs), "/in.sst", TableOptions::default())
                            .unwrap();
                    let hides_more = rng.random_bool(0.2);
                    if hides_more {
                        writer.delete_range(keys[0].as_bytes(), b"9").unwrap();
                        map.retain(|key, _| *key < keys[0]);
                    }
                    keys.iter().for_each(|k| writer.put(k.as_bytes(), value.as_bytes()).unwrap());
                    writer.finish().unwrap();
                    db.ingest(&["/in.sst"]).unwrap();
                    map.extend(keys.into_iter().map(|key| (key, value.clone())));
                }
                900..960 => {
                    let key = key(&mut rng);
                    assert_eq!(get(&db, &key), map.get(&key).cloned(), "seed {seed}, step {step}");
                }
                960..970 => db.flush().unwrap(),
                970..975 => db.compact_range(key(&mut rng)..).unwrap(),
                975..980 => db.compact_all().unwrap(),
                980..985 => snapshot = Some((db.snapshot(), map.clone())),
                985..995 => check_all(db.iter(), &map, &format!("seed {seed}, step {step}")),
                _ => {
                    snapshot = None;
                    // A kill changes no content, nor does a power loss just after a sync.
                    mem = match rng.random_bool(0.5) {
                        true => mem.kill(),
                        false => {
                            db.write_opt(maypole::WriteBatch::new(), Durability::Sync).unwrap();
                            mem.crash(seed)
                        }
                    };
                    db = options(&mem, seed);
                    check_all(db.iter(), &map, &format!("seed {seed}, opened at step {step}"));
                }
            }
            if let Some((snapshot, map)) = &snapshot
                && step % 50 == 0
            {
                check_all(snapshot.iter(), map, &format!("seed {seed}, snapshot at step {step}"));
            }
        }
        db.wait_for_compaction().unwrap();
        check_all(db.iter(), &map, &format!("seed {seed}"));
        assert_eq!(db.verify().unwrap().filter_misses, 0);
    }
}

fn check_all(found: maypole::DbIterator, map: &BTreeMap<String, String>, story: &str) {
    let text = |bytes: maypole::Slice| String::from_utf8(bytes.to_vec()).unwrap();
    let found = found.map(|item| item.unwrap()).map(|(key, value)| (text(key), text(value)));
    let found: Vec<_> = found.collect();
    let expected: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert!(found == expected, "{story}: {} entries, not {}", found.len(), expected.len());
}
