//! `apply_filter_policy` gives every table the filter of the policy, in place. No reader notices,
//! whatever else the database does, and whatever fails meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{MetadataForm, SstReader, SstWriter, TableOptions};
use maypole::{
    Builder, Compression, Db, Error, FilterKeys, FilterReport, PrefixExtractor, RocksDb, Snapshot,
    Ticker,
};

use crate::env;
use crate::files;
use crate::rocksdb_dirs::unpacked;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(n: u32) -> String {
    format!("key/{:03}/{n:06}", n % 100)
}

fn entries(
    items: impl Iterator<Item = maypole::Result<(maypole::Slice, maypole::Slice)>>,
) -> Entries {
    items.map(|item| item.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
}

/// Every kind of read returns `expected`, and no key that is not in it.
fn check(db: &Db, expected: &Entries, story: &str) {
    assert!(entries(db.iter()) == *expected, "{story}: an iterator sees other entries");
    let keys: Vec<Vec<u8>> =
        expected.keys().flat_map(|key| [key.clone(), [&key[..], b"?"].concat()]).collect();
    let found = db.multi_get(&keys).unwrap();
    for (key, found) in keys.iter().zip(found) {
        let value = expected.get(key).map(|value| &value[..]);
        assert_eq!(found.as_deref(), value, "{story}: multi_get of {}", key.escape_ascii());
        let got = db.get(key).unwrap();
        assert_eq!(got.as_deref(), value, "{story}: get of {}", key.escape_ascii());
    }
}

/// The name and the bytes of each table in a directory.
fn tables(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(dir, ".sst").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn small(dir: &Path, policy: &str) -> Builder {
    let builder = Db::builder(dir).filter(policy).compression(Compression::None);
    builder.table_bytes(64 << 10).level_base_bytes(128 << 10).compaction_threads(1)
}

/// Two levels, with overwritten and deleted keys, range deletions and an ingested table; the tables of
/// level 0 overlap. No compaction is due, because little is dead. A snapshot is taken in the midst,
/// and returned with what it sees.
fn grown(builder: Builder, dir: &Path) -> (Db, Snapshot, Entries) {
    let db = builder.open().unwrap();
    (0..6000).for_each(|n| db.put(key(n), [n as u8; 60]).unwrap());
    db.compact_range(..).unwrap();
    (0..6000).step_by(60).for_each(|n| db.put(key(n), "second").unwrap());
    db.delete_range("key/030/".."key/030/001").unwrap();
    let snapshot = db.snapshot();
    let seen = entries(snapshot.iter());
    (0..6000).step_by(50).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    let path = dir.join("in.sst");
    let mut writer = SstWriter::create(&path, TableOptions::default()).unwrap();
    let mut ingested: Vec<String> = (0..6000).step_by(100).chain([5999]).map(key).collect();
    ingested.sort();
    ingested.iter().for_each(|key| writer.put(key.as_bytes(), b"ingested").unwrap());
    writer.finish().unwrap();
    db.ingest(&[&path]).unwrap();
    fs::remove_file(path).unwrap();
    (0..6000).step_by(200).for_each(|n| db.put(key(n), "newest").unwrap());
    db.delete_range("key/060/".."key/060/001").unwrap();
    db.flush().unwrap();
    (db, snapshot, seen)
}

/// Tables of all levels get filters of all families, of keys and of prefixes, whole and in parts.
/// Nothing changes for whoever reads, by whatever call, or holds a snapshot, a cursor or an
/// iterator. A second call writes nothing at all, also where there was nothing to put into a filter:
/// a table of range deletions only, or keys without a prefix.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn no_reader_notices_and_a_second_call_writes_nothing() {
    let row = FilterKeys::Prefix(PrefixExtractor::delimiter(b'/', 2).unwrap());
    let none = FilterKeys::Prefix(PrefixExtractor::fixed(200).unwrap());
    let both = FilterKeys::Both(PrefixExtractor::capped(7).unwrap());
    let whole = FilterKeys::Whole;
    let forms = [MetadataForm::Whole, MetadataForm::Parts];
    for (n, (policy, filter_keys)) in [
        ("bloom(10)", whole),
        ("burr(7)", whole),
        ("burr(6)", both),
        ("fuse(9)", row),
        ("ribbon(7)", none),
        ("ribbon_like_bloom(10)", both),
        ("fpr(0.02, burr)", whole),
        ("capped(bloom(10), 1KiB)", whole),
        ("capped(bloom(10), 130B)", whole),
        ("levels(none, bloom(12), burr(5))", row),
        ("bottommost_none(bloom(10))", whole),
        ("budget(8/key, bloom)", both),
        ("budget(20KiB, burr)", whole),
        ("none", whole),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let options = |policy: &str| small(dir.path(), policy).metadata(forms[n % 2]);
        let (db, snapshot, seen) = grown(options("bloom(5)"), dir.path());
        assert!(entries(snapshot.iter()) == seen);
        drop(snapshot);
        db.close().unwrap();
        let db = options(policy).filter_keys(filter_keys).open().unwrap();
        let story = format!("{policy}, {filter_keys:?}");
        let (snapshot, before) = (db.snapshot(), entries(db.iter()));
        let mut cursor = db.cursor();
        cursor.seek_to_first().unwrap();
        let mut iterator = db.iter();
        iterator.next().unwrap().unwrap();
        let shape = |db: &Db| -> Vec<_> {
            db.stats().levels.iter().map(|level| (level.files, level.entries)).collect()
        };
        let levels = shape(&db);
        let report = db.apply_filter_policy().unwrap();
        assert!(report.kept.is_empty(), "{story}: {:?}", report.kept);
        assert!(report.refiltered > 0, "{story}: {report:?}");
        assert_eq!(report.refiltered + report.fitting, db.stats().files.len(), "{story}");
        assert_eq!(shape(&db), levels, "{story}");
        check(&db, &before, &story);
        db.put("key/000/000000+", "later").unwrap();
        assert!(entries(snapshot.iter()) == before, "{story}: the snapshot");
        assert_eq!(iterator.count() + 1, before.len(), "{story}: the iterator");
        let mut walked = 0;
        while cursor.valid() {
            walked += 1;
            cursor.next().unwrap();
        }
        assert_eq!(walked, before.len(), "{story}: the cursor");
        assert_eq!(db.verify().unwrap().filter_misses, 0, "{story}");
        drop((cursor, snapshot));

        let written = |db: &Db| db.stats().tickers.get(Ticker::CompactWriteBytes);
        let (on_disk, bytes) = (tables(dir.path()), written(&db));
        let again = db.apply_filter_policy().unwrap();
        assert_eq!((again.refiltered, again.fitting), (0, on_disk.len()), "{story}");
        assert!(tables(dir.path()) == on_disk && written(&db) == bytes, "{story}");
        db.delete("key/000/000000+").unwrap();
        db.close().unwrap();
        // The tables are as durable as those of a compaction, and go on like them.
        let db = options(policy).filter_keys(filter_keys).open().unwrap();
        check(&db, &before, &format!("{story}, opened again"));
        db.compact_range(..).unwrap();
        check(&db, &before, &format!("{story}, compacted"));
    }
}

/// A table gets the filter that a compaction into its level would write, byte for byte.
#[test]
fn the_filters_are_those_of_a_database_that_was_written_with_the_policy() {
    let filters = |dir: &Path| -> Vec<Vec<Vec<u8>>> {
        let of = |path: &PathBuf| {
            let filters = SstReader::open(path).unwrap().filters().unwrap();
            filters.iter().map(|filter| filter.bytes().to_vec()).collect()
        };
        let mut filters: Vec<Vec<Vec<u8>>> = files(dir, ".sst").iter().map(of).collect();
        filters.sort();
        filters
    };
    for policy in ["burr(7)", "ribbon(7)", "none", "levels(bloom(14), bloom(10), burr(6))"] {
        let (dir, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let whole = |dir: &Path, policy: &str| {
            let db = Db::builder(dir).filter(policy).compaction_threads(1).open().unwrap();
            (0..9000).for_each(|n| db.put(key(n), "value").unwrap());
            db.compact_range(..).unwrap();
            (0..9000).step_by(9).for_each(|n| db.put(key(n), "newer").unwrap());
            db.flush().unwrap();
            db.close().unwrap();
        };
        whole(dir.path(), "bloom(9)");
        whole(made.path(), policy);
        let db = Db::builder(dir.path()).filter(policy).open().unwrap();
        assert_eq!(db.apply_filter_policy().unwrap().refiltered, 2, "{policy}");
        db.close().unwrap();
        assert!(filters(dir.path()) == filters(made.path()), "{policy}");
    }
}

/// In level 0 the newest table that has a key decides. A table that came to another place with its
/// new filter would bring back what was overwritten or deleted, at once or in a later compaction. The
/// second round has tables that merges within level 0 have made: some of them record a larger
/// sequence number than any of their entries has.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn nothing_comes_back_in_level_0() {
    for rounds in [3, 9, 14] {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let options = |policy: &str| {
            let builder = Db::builder("/db").fs(Arc::clone(&fs)).filter(policy);
            builder.compression(Compression::None).table_bytes(16 << 10)
        };
        let db = options("bloom(10)").open().unwrap();
        (0..3000).for_each(|n| db.put(key(n), [b'v'; 500]).unwrap());
        db.compact_all().unwrap();
        let mut model = entries(db.iter());
        let mut applied = 0;
        let mut current = db;
        for round in 0..rounds {
            let policy = ["burr(7)", "none", "bloom(12)", "ribbon(6)"][round as usize % 4];
            for n in (0..3000).step_by(271).chain([0, 2999]) {
                match (n + round) % 3 {
                    0 => {
                        current.delete(key(n)).unwrap();
                        model.remove(key(n).as_bytes());
                    }
                    _ => {
                        let value = format!("round {round}").into_bytes();
                        current.put(key(n), &value).unwrap();
                        model.insert(key(n).into_bytes(), value);
                    }
                }
            }
            if round % 4 == 2 {
                current.delete_range(key(542)..key(544)).unwrap();
                let gone = key(542).into_bytes()..key(544).into_bytes();
                model.retain(|key, _| !gone.contains(key));
            }
            current.flush().unwrap();
            if round % 3 != 2 {
                continue;
            }
            // Three tables of level 0 overlap, or a merge has just made one of them.
            current.close().unwrap();
            current = options(policy).open().unwrap();
            applied += current.apply_filter_policy().unwrap().refiltered;
            check(&current, &model, &format!("{rounds} rounds, after round {round}"));
        }
        assert!(applied > 0);
        current.wait_for_compaction().unwrap();
        check(&current, &model, "settled");
        current.verify().unwrap();
        current.compact_all().unwrap();
        check(&current, &model, "compacted");
    }
}

/// The budget of a policy is shared out anew with every write. Filters of about the right size stay,
/// so a call after a few writes does not rewrite the tree.
#[test]
fn a_few_writes_do_not_make_the_filters_of_a_budget_unfit() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let builder = |policy: &str| Db::builder("/db").fs(Arc::clone(&fs)).filter(policy);
    let db = builder("bloom(10)").open().unwrap();
    (0..20_000).for_each(|n| db.put(key(n), "value").unwrap());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let db = builder("budget(8/key, burr)").open().unwrap();
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 1);
    (0..100).for_each(|n| db.put(key(20_000 + n), "value").unwrap());
    db.flush().unwrap();
    let report = db.apply_filter_policy().unwrap();
    assert_eq!((report.refiltered, report.fitting), (0, 2));
    db.close().unwrap();
    // Another budget is another size. It is larger, so no compaction is due for it.
    let db = builder("budget(10/key, burr)").open().unwrap();
    assert!(db.apply_filter_policy().unwrap().refiltered > 0);
}

fn on(fs: &Arc<dyn Fs>, policy: &str) -> Builder {
    let builder = Db::builder("/db").fs(Arc::clone(fs)).filter(policy).block_bytes(256);
    builder.memtable_bytes(16 << 10).table_bytes(4 << 10).level_base_bytes(16 << 10)
}

/// A small tree in memory, closed, and its content.
fn closed_tree() -> (MemFs, Entries) {
    let mem = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let db = on(&fs, "bloom(10)").open().unwrap();
    (0..240).for_each(|n| db.put(key(n), [n as u8; 40]).unwrap());
    db.compact_range(..).unwrap();
    (0..240).step_by(5).for_each(|n| db.put(key(n), "new").unwrap());
    (0..240).step_by(17).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let content = entries(db.iter());
    db.close().unwrap();
    (mem, content)
}

fn names(fs: &MemFs) -> Vec<String> {
    let mut names = fs.list(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(".sst"));
    names
}

/// What is left opens with its whole content, without a file that nothing lists, and the call can be
/// made again.
fn check_left(fs: &MemFs, content: &Entries, story: &str) {
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let db = on(&shared, "burr(7)").open().unwrap_or_else(|error| panic!("{story}: {error}"));
    check(&db, content, story);
    assert_eq!(names(fs).len(), db.stats().files.len(), "{story}: {:?}", names(fs));
    let report = db.apply_filter_policy().unwrap_or_else(|error| panic!("{story}: {error}"));
    assert!(report.kept.is_empty(), "{story}: {:?}", report.kept);
    assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0, "{story}");
    check(&db, content, &format!("{story}, applied again"));
    assert_eq!(db.verify().unwrap().filter_misses, 0, "{story}");
    db.close().unwrap();
}

/// Power is lost before each change of a file. Either the old table is left or the new one.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn power_may_be_lost_before_any_change() {
    let (mem, content) = closed_tree();
    let fs = FaultFs::new(Arc::new(mem.clone()));
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let db = on(&shared, "burr(7)").open().unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    fs.before_changes({
        let images = Arc::clone(&images);
        move |number, operation, path| {
            let story = format!("power loss before change {number}, {operation:?} of {path:?}");
            images.lock().unwrap().push((mem.crash(number), mem.kill(), story));
        }
    });
    let report = db.apply_filter_policy().unwrap();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(report.refiltered > 2, "{report:?}");
    assert!(images.len() > 6 * report.refiltered, "{}", images.len());
    drop(db);
    for (lost, killed, story) in images {
        check_left(&lost, &content, &story);
        check_left(&killed, &content, &format!("killed, not {story}"));
    }
}

/// Each call to the file system fails, alone or with all later ones. The call returns the error, or
/// needs not to. What is left is sound, while the database is open and after it was closed, killed,
/// or lost its power. A lack of space, or a failed read, leaves the database writable.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn any_call_may_fail() {
    let count = || {
        let (mem, _) = closed_tree();
        let fs = FaultFs::new(Arc::new(mem));
        let shared: Arc<dyn Fs> = Arc::new(fs.clone());
        let db = on(&shared, "burr(7)").open().unwrap();
        let before = fs.calls(Target::Any);
        db.apply_filter_policy().unwrap();
        fs.calls(Target::Any) - before
    };
    let (calls, step) = (count(), env("MAYPOLE_FAULT_STEP", 4));
    assert!(calls > 60, "{calls}");
    let (mut failed, mut kept) = (0, 0);
    for (kind, fault) in (0..).zip([Fault::Io, Fault::NoSpace, Fault::ShortWrite]) {
        for nth in (kind % step..calls).step_by(step as usize) {
            for forever in [false, true] {
                let (mem, content) = closed_tree();
                let fs = FaultFs::new(Arc::new(mem.clone()));
                let shared: Arc<dyn Fs> = Arc::new(fs.clone());
                let db = on(&shared, "burr(7)").open().unwrap();
                match forever {
                    true => fs.fail_from(Target::Any, nth, fault),
                    false => fs.fail_once(Target::Any, nth, fault),
                }
                let story = format!("{fault:?} at call {nth}, forever: {forever}");
                let applied = db.apply_filter_policy();
                fs.heal();
                match &applied {
                    Ok(report) => kept += report.kept.len(),
                    Err(error) => {
                        failed += 1;
                        let text = error.to_string();
                        assert!(
                            !text.contains('\n') && !text.contains("panicked"),
                            "{story}: {text}"
                        );
                        assert!(!matches!(error, Error::Corruption { .. }), "{story}: {text}");
                        if error.is_out_of_space() {
                            db.put("key/000/000000?", "")
                                .unwrap_or_else(|e| panic!("{story}: {e}"));
                            db.delete("key/000/000000?").unwrap();
                            db.persist().unwrap();
                            let again = db.apply_filter_policy();
                            again.unwrap_or_else(|error| panic!("{story}, again: {error}"));
                        }
                    }
                }
                check(&db, &content, &story);
                check_left(&mem.crash(nth), &content, &format!("{story}, then power loss"));
                drop(db);
                check_left(&mem.kill(), &content, &story);
            }
        }
    }
    println!("{calls} calls, one in {step} failed: {failed} calls returned it, {kept} tables kept");
    assert!(failed > 20, "{failed}");
}

/// The call leaves tables to the compactions that merge them, and waits. Writers, flushes,
/// compactions of all kinds and readers go on.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn compactions_and_writers_go_on() {
    let mem: Arc<dyn Fs> = Arc::new(MemFs::new());
    let options = |policy: &str| on(&mem, policy).compaction_threads(2);
    let mut model = Entries::new();
    let mut refiltered = 0;
    for round in 0..12u32 {
        let policy = ["burr(7)", "bloom(12)", "none", "levels(bloom(10), burr(6), ribbon(5))"];
        let db = options(policy[round as usize % 4]).open().unwrap();
        let over = AtomicBool::new(false);
        model = thread::scope(|scope| {
            let (db, over, before) = (&db, &over, &model);
            let applies = scope.spawn(move || {
                let mut sum = FilterReport::default().refiltered;
                while !over.load(Ordering::SeqCst) {
                    let report = db.apply_filter_policy().unwrap();
                    assert!(report.kept.is_empty(), "{:?}", report.kept);
                    sum += report.refiltered;
                }
                sum
            });
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    db.compact_range(key(100)..key(400)).unwrap();
                    thread::yield_now();
                }
            });
            scope.spawn(move || {
                // Keys that this round does not write.
                let still: Vec<_> = before.iter().filter(|(key, _)| key.ends_with(b"7")).collect();
                while !over.load(Ordering::SeqCst) {
                    for (key, value) in still.iter().step_by(29) {
                        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
                    }
                    thread::yield_now();
                }
            });
            let mut after = before.clone();
            let mixed = (0..3000).map(|n| n * 37 % 3000);
            for n in mixed.filter(|n| n % 10 != 7 || round == 0) {
                match (n + round) % 4 {
                    0 => {
                        db.delete(key(n)).unwrap();
                        after.remove(key(n).as_bytes());
                    }
                    _ => {
                        let value = format!("round {round}").into_bytes();
                        db.put(key(n), &value).unwrap();
                        after.insert(key(n).into_bytes(), value);
                    }
                }
            }
            over.store(true, Ordering::SeqCst);
            refiltered += applies.join().unwrap();
            after
        });
        check(&db, &model, &format!("round {round}"));
        db.verify().unwrap();
        db.close().unwrap();
    }
    let db = options("burr(7)").open().unwrap();
    db.compact_all().unwrap();
    check(&db, &model, "compacted");
    // How many tables the compactions leave to the call depends on the threads.
    println!("{refiltered} tables got another filter next to compactions");
}

/// A table that a compaction merges must not get a filter meanwhile: the table with the new filter
/// would stay next to the output of the compaction, and bring back what that has dropped.
#[test]
fn a_table_that_a_compaction_merges_is_left_to_it() {
    let mem: Arc<dyn Fs> = Arc::new(MemFs::new());
    let fault = FaultFs::new(Arc::clone(&mem));
    let fs: Arc<dyn Fs> = Arc::new(fault.clone());
    let options = |policy: &str| Db::builder("/db").fs(Arc::clone(&fs)).filter(policy);
    let db = options("bloom(10)").open().unwrap();
    (0..2000).for_each(|n| db.put(key(n), "old").unwrap());
    db.compact_all().unwrap();
    (0..3).for_each(|n| {
        db.put("rest", format!("{n}")).unwrap();
        db.flush().unwrap();
    });
    db.close().unwrap();

    let db = options("burr(7)").open().unwrap();
    // The compaction of level 0 stops before it makes its output, until the other call is under way.
    let applying = Arc::new(Mutex::new(None));
    fault.before_calls(Target::Only(Operation::Create), {
        let (db, applying) = (db.clone(), Arc::clone(&applying));
        move |_, _, _| {
            if thread::current().name() != Some("maypole-compact") {
                return;
            }
            let mut applying = applying.lock().unwrap();
            if applying.is_none() {
                let db = db.clone();
                *applying = Some(thread::spawn(move || db.apply_filter_policy().unwrap()));
                // Were the call to take one of the tables, it would be done with it by then.
                thread::sleep(Duration::from_millis(300));
            }
        }
    });
    (0..2000).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    fault.before_calls(Target::Only(Operation::Create), |_, _, _| {});
    let report = applying.lock().unwrap().take().expect("a compaction ran").join().unwrap();
    assert_eq!(report.refiltered, 0, "the compaction had all tables");
    assert_eq!(entries(db.iter()).len(), 1, "deleted keys came back");
    db.verify().unwrap();
    assert_eq!(db.stats().files.len(), 1);
}

/// `close` ends the call within a table, and leaves nothing of that table's new file after the next
/// opening.
#[test]
fn a_close_ends_the_call() {
    let (counted, _) = closed_tree();
    let fault = FaultFs::new(Arc::new(counted));
    let fs: Arc<dyn Fs> = Arc::new(fault.clone());
    let db = on(&fs, "burr(7)").open().unwrap();
    let before = fault.calls(Target::Only(Operation::Append));
    db.apply_filter_policy().unwrap();
    let appends = fault.calls(Target::Only(Operation::Append)) - before;
    for nth in (0..appends).step_by(7) {
        let (mem, content) = closed_tree();
        let fault = FaultFs::new(Arc::new(mem.clone()));
        let fs: Arc<dyn Fs> = Arc::new(fault.clone());
        let db = on(&fs, "burr(7)").open().unwrap();
        let start = fault.calls(Target::Only(Operation::Append));
        fault.before_calls(Target::Only(Operation::Append), {
            let db = db.clone();
            move |number, _, _| {
                if number == start + nth {
                    // A call from within the database's own work does not wait for that work.
                    let _ = db.clone().close();
                }
            }
        });
        let error = db.apply_filter_policy().unwrap_err();
        assert!(matches!(error, Error::Closed), "append {nth}: {error}");
        fault.before_calls(Target::Only(Operation::Append), |_, _, _| {});
        drop(db);
        check_left(&mem, &content, &format!("closed at append {nth}"));
    }
}

/// A damaged table keeps its filter and is named, and the others get theirs.
#[test]
fn a_damaged_table_is_named_and_the_rest_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let (db, snapshot, _) = grown(small(dir.path(), "bloom(10)"), dir.path());
    drop(snapshot);
    db.close().unwrap();
    let largest = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let damaged = files(dir.path(), ".sst").into_iter().max_by_key(largest).unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[5000] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let db = small(dir.path(), "burr(7)").open().unwrap();
    for call in 0..3 {
        let report = db.apply_filter_policy().unwrap();
        let [Error::Corruption { file, .. }] = &report.kept[..] else {
            panic!("{:?}", report.kept);
        };
        assert!(file.ends_with(damaged.file_name().unwrap()), "{}", file.display());
        assert_eq!(report.refiltered > 0, call == 0, "{report:?}");
    }
    assert_eq!(fs::read(&damaged).unwrap(), bytes);
    db.put("still", "writable").unwrap();
    assert_eq!(db.stats().damaged.len(), 1);
}

#[test]
fn a_database_that_cannot_be_written_refuses() {
    let (mem, content) = closed_tree();
    let fs: Arc<dyn Fs> = Arc::new(mem.clone());
    let before = names(&mem);
    let db = on(&fs, "burr(7)").open_read_only().unwrap();
    assert!(matches!(db.apply_filter_policy(), Err(Error::OpenedReadOnly)));
    check(&db, &content, "read-only");
    drop(db);
    let db = on(&fs, "burr(7)").open().unwrap();
    db.clone().close().unwrap();
    assert!(matches!(db.apply_filter_policy(), Err(Error::Closed)));
    assert_eq!(names(&mem), before);
    let dir = unpacked("10.4.2-universal");
    let rocks = RocksDb::open_read_only(dir.path()).unwrap();
    let db = rocks.column_family("default").unwrap();
    assert!(matches!(db.apply_filter_policy(), Err(Error::OpenedReadOnly)));
}

/// The tables of an imported database of RocksDB have other format versions, range deletions beyond
/// their bounds, global sequence numbers and RocksDB's filters. All of them get the new filter.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_tables_of_rocksdb_get_filters_in_place() {
    for (name, family) in [
        ("10.4.2-universal", "default"),
        ("10.4.2-ingest-live", "default"),
        ("10.4.2-cfs", "default"),
        ("11.9-rangedel", "default"),
        ("11.9-pred", "default"),
        ("7.8.3-rangedel", "default"),
    ] {
        let dir = unpacked(name);
        let rocks = RocksDb::open_read_only(dir.path()).unwrap();
        let expected = entries(rocks.column_family(family).unwrap().iter());
        for policy in ["burr(7)", "none"] {
            let target = tempfile::tempdir().unwrap();
            let target = target.path().join("new");
            rocks.import(family, &target).unwrap();
            let db = Db::builder(&target).filter(policy).open().unwrap();
            let report = db.apply_filter_policy().unwrap();
            assert!(report.kept.is_empty(), "{name}: {:?}", report.kept);
            check(&db, &expected, &format!("{name}, {policy}"));
            assert_eq!(db.apply_filter_policy().unwrap().refiltered, 0, "{name}, {policy}");
            assert_eq!(db.verify().unwrap().filter_misses, 0, "{name}, {policy}");
            db.close().unwrap();
            let db = Db::open(&target).unwrap();
            check(&db, &expected, &format!("{name}, {policy}, opened again"));
            db.compact_all().unwrap();
            check(&db, &expected, &format!("{name}, {policy}, compacted"));
        }
    }
}
