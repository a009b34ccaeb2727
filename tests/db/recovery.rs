//! Openings of a database: after a crash, after other programs have changed its files, and many in
//! a row.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Durability, Error};

use super::crash::{check, open_on, write};
use super::{copy_files, files};

fn corruption_in(result: maypole::Result<Db>, file: &Path) -> String {
    match result {
        Err(error @ Error::Corruption { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with(file.to_str().unwrap()), "{text}");
            text
        }
        other => panic!("it opened, or failed in another way: {other:?}"),
    }
}

/// The directory that a killed process leaves after `writes` writes, of which those up to `synced`
/// were synced.
fn killed(writes: u64, synced: u64) -> MemFs {
    let mem = MemFs::new();
    let db = open_on(Arc::new(mem.clone())).unwrap();
    for n in 1..=writes {
        let durability = if n == synced { Durability::Sync } else { Durability::Buffered };
        db.write_opt(write(n), durability).unwrap();
    }
    let image = mem.kill();
    drop(db);
    image
}

/// Images of power losses before each change that an opening makes, and after the last one.
fn images_of_opening(base: &MemFs, seed: u64) -> Vec<MemFs> {
    let mem = base.kill();
    let images = Arc::new(Mutex::new(Vec::new()));
    let fs = FaultFs::new(Arc::new(mem.clone()));
    fs.before_changes({
        let (images, mem) = (Arc::clone(&images), mem.clone());
        move |number, _, _| images.lock().unwrap().push(mem.crash(seed ^ number))
    });
    drop(open_on(Arc::new(fs)).unwrap());
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    images.push(mem.crash(seed));
    images
}

/// If the logs hold few writes, an opening copies them to one new log and syncs it, rather than
/// write a table. If they stayed in the old logs, there would be two dangers. A later recovery that
/// meets a torn tail or a gap in an old log could drop the writes of the *new* log. And if the new
/// log is synced but the old one was not, a power loss could take earlier writes and leave later
/// ones.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn power_lost_while_opening_and_again_in_the_next_opening_loses_nothing() {
    let (mut openings, seeds) = (0, super::env("MAYPOLE_OPENING_SEEDS", 2));
    for seed in 0..seeds {
        // The more writes there are, the more memtables they fill. Each memtable has a log of its
        // own, so there are full logs before the last one.
        let (writes, synced) = (20 + seed * 17, 7 + seed * 9);
        let base = killed(writes, synced).crash(seed);
        for (k, image) in images_of_opening(&base, seed * 1000).iter().enumerate() {
            for (j, image) in images_of_opening(image, seed * 1000 + k as u64).iter().enumerate() {
                let story = format!("seed {seed}, before change {k} and then {j}");
                let survived = check(&image.kill(), writes, synced, &story);
                // A write that is synced now must survive any number of power losses.
                let db = open_on(Arc::new(image.clone())).unwrap();
                db.write_opt(write(survived + 1), Durability::Sync).unwrap();
                let after = image.crash(seed + j as u64);
                drop(db);
                check(&after, survived + 1, survived + 1, &format!("{story}, then a write"));
                openings += 1;
            }
        }
    }
    println!("{openings} images of power lost in two openings: nothing lost");
    assert!(openings > 50 * seeds, "{openings} openings");
}

/// Regression: in a loop, each opening for one `put` made a table. After a thousand openings the
/// database could not be opened any more for lack of descriptors. Now an opening makes no table of
/// few writes.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn many_openings_for_one_write_each_make_few_tables() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for n in 0..400 {
        let db = Db::open(&path).unwrap();
        db.put(format!("key{n:05}"), vec![b'v'; 4096]).unwrap();
        db.close().unwrap();
    }
    let tables = files(&path, ".sst").len();
    assert!((1..=2).contains(&tables), "{tables} tables for 1.6 MB");
    let all = fs::read_dir(&path).unwrap().count();
    assert!(all <= tables + 5, "{all} files");
    let db = Db::open(&path).unwrap();
    assert_eq!(db.iter().filter(|entry| entry.is_ok()).count(), 400);
}

/// Regression: a log of 266 MiB, replayed into memtables of 64 KiB, made 4,443 tables in 46 s. Now
/// a replay fills memtables of at least 16 MiB, and so makes few tables.
#[test]
fn a_long_log_becomes_few_tables_however_small_the_memtables_are() {
    let mem = MemFs::new();
    let open = |fs: &MemFs, memtable_bytes| {
        Db::builder("/db").fs(Arc::new(fs.clone())).memtable_bytes(memtable_bytes).open().unwrap()
    };
    let db = open(&mem, 64 << 20);
    for n in 0..24_000 {
        db.put(format!("key{:06}", n * 7919 % 24_000), vec![n as u8; 1000]).unwrap();
    }
    let image = mem.kill();
    drop(db);
    let db = open(&image, 64 << 10);
    let tables = image.list(Path::new("/db")).unwrap();
    let tables = tables.iter().filter(|name| name.ends_with(".sst")).count();
    assert!((1..=4).contains(&tables), "{tables} tables for 24 MB");
    assert_eq!(db.iter().filter(|entry| entry.is_ok()).count(), 24_000);
}

/// Regression: after a failed sync of the MANIFEST, an ingestion deleted tables that the MANIFEST
/// might already list, so the database did not open any more. Now, whichever call fails, the
/// database opens, and has all entries of the ingested file or none.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn any_one_call_of_an_ingestion_may_fail() {
    let prepared = || {
        let mem = MemFs::new();
        let db = open_on(Arc::new(mem.clone())).unwrap();
        (1..=40).for_each(|n| db.write(write(n)).unwrap());
        db.close().unwrap();
        let fs: Arc<dyn Fs> = Arc::new(mem.clone());
        let mut table = SstWriter::create_in(fs, "/outside.sst", TableOptions::default()).unwrap();
        (0..50).for_each(|n| table.put(format!("in{n:02}").as_bytes(), b"gested").unwrap());
        table.finish().unwrap();
        mem
    };
    let ingest = |fs: &FaultFs| {
        let db = open_on(Arc::new(fs.clone()))?;
        db.ingest(&["/outside.sst"])?;
        db.put("after", "it")?;
        db.close()
    };
    let calls = {
        let fs = FaultFs::new(Arc::new(prepared()));
        ingest(&fs).unwrap();
        fs.calls(Target::Any)
    };
    let (mut failed, mut whole) = (0, 0);
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        for nth in 0..calls {
            let mem = prepared();
            let fs = FaultFs::new(Arc::new(mem.clone()));
            fs.fail_once(Target::Any, nth, fault);
            let ended = ingest(&fs);
            failed += usize::from(ended.is_err());
            for image in [mem.kill(), mem.crash(nth)] {
                let story = format!("{fault:?} at call {nth}");
                let db = open_on(Arc::new(image)).unwrap_or_else(|e| panic!("{story}: {e}"));
                db.verify().unwrap_or_else(|error| panic!("{story}: {error}"));
                let found = db.prefix("in").filter(|entry| entry.is_ok()).count();
                assert!(found == 0 || found == 50, "{story}: {found} of 50 entries");
                assert!(found == 50 || ended.is_err(), "{story}: acknowledged and lost");
                whole += usize::from(found == 50);
            }
        }
    }
    assert!(failed > calls as usize && whole > 50, "{failed} failed, {whole} whole");
}

#[test]
fn an_ingestion_of_a_bad_file_names_that_file() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    let bad = dir.path().join("bad.sst");
    fs::write(&bad, vec![7; 3000]).unwrap();
    let error = db.ingest(&[&bad]).unwrap_err().to_string();
    assert!(error.starts_with(bad.to_str().unwrap()), "{error}");
    assert!(files(&dir.path().join("db"), ".sst").is_empty());
}

/// Regression: RocksDB writes a sequence number into a table that it ingests. `ingest` copies such
/// a table, and rejects the copy, because the table would get another sequence number. The error
/// named the copy, which was removed by then. Now the error names the file that was to be ingested.
#[test]
fn an_ingestion_that_fails_late_names_the_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let [good, bad] = ["a", "b"].map(|key| {
        let path = dir.path().join(key).with_extension("sst");
        let mut writer = SstWriter::create(&path, TableOptions::default()).unwrap();
        writer.put(key.as_bytes(), b"value").unwrap();
        writer.finish().unwrap();
        path
    });
    let mut bytes = fs::read(&bad).unwrap();
    let name = b"global_seqno";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    bytes[at..at + 8].copy_from_slice(&77u64.to_le_bytes());
    fs::write(&bad, bytes).unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    let error = db.ingest(&[&good, &bad]).unwrap_err().to_string();
    assert!(error.starts_with(bad.to_str().unwrap()) && error.contains("77"), "{error}");
    assert!(files(&dir.path().join("db"), ".sst").is_empty());
}

/// Two databases with the same keys, and values that differ but have the same length, flushed at
/// the same moments.
fn twins(dir: &Path) -> [PathBuf; 2] {
    ["one", "two"].map(|name| {
        let path = dir.join(name);
        let db = Db::open(&path).unwrap();
        for round in ["x", "y"] {
            (0..100).for_each(|n| db.put(format!("{round}{n:03}"), name).unwrap());
            db.flush().unwrap();
        }
        db.close().unwrap();
        path
    })
}

/// Regression: after two tables were exchanged, or one was restored from a copy, `get` returned old
/// values and `verify` found nothing. Now `verify` and an opening name the file.
#[test]
fn a_table_that_is_not_the_one_listed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = twins(dir.path());
    let (ours, theirs) = (files(&one, ".sst"), files(&two, ".sst"));
    assert_eq!(fs::read(&ours[0]).unwrap().len(), fs::read(&theirs[0]).unwrap().len());
    // The file is replaced while the database is open. The previous file is renamed and not
    // removed, because Wine, which runs the tests of the Windows build, would remove its name only
    // when the database closes the file. By then the name is that of the new file.
    let db = Db::open(&one).unwrap();
    let aside = one.join("aside");
    fs::rename(&ours[0], &aside).unwrap();
    fs::copy(&theirs[0], &ours[0]).unwrap();
    let error = db.verify().unwrap_err().to_string();
    assert!(error.contains("identity") && error.starts_with(ours[0].to_str().unwrap()), "{error}");
    drop(db);
    corruption_in(Db::open(&one), &ours[0]);
    fs::rename(&aside, &ours[0]).unwrap();
    // Both tables are of this database, with the same length and the same number of entries.
    let swapped = one.join("swapped");
    fs::rename(&ours[0], &swapped).unwrap();
    fs::rename(&ours[1], &ours[0]).unwrap();
    fs::rename(&swapped, &ours[1]).unwrap();
    corruption_in(Db::open(&one), &ours[0]);
    corruption_in(Db::open_read_only(&one), &ours[0]);
}

/// Regression: an opening did not notice that the newest log was missing, although it had held
/// synced writes. Now the opening fails with an error that names the log, whether the log is
/// missing or truncated. A log without synced writes may be missing.
#[test]
fn a_synced_log_that_is_gone_or_cut_is_noticed_and_an_unsynced_one_may_vanish() {
    for (synced, cut) in [(true, false), (true, true), (false, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
        let db = Db::open(&path).unwrap();
        db.put("key", "value").unwrap();
        if synced {
            db.persist().unwrap();
        }
        // As a killed process leaves it.
        fs::create_dir(&copy).unwrap();
        copy_files(&path, &copy);
        let wals = files(&copy, ".wal");
        let wal = wals.last().unwrap();
        match cut {
            true => fs::write(wal, &fs::read(wal).unwrap()[..40]).unwrap(),
            false => fs::remove_file(wal).unwrap(),
        }
        match synced {
            true => drop(corruption_in(Db::open(&copy), wal)),
            false => assert_eq!(Db::open(&copy).unwrap().get("key").unwrap(), None),
        }
    }
}

/// Regression: after a power loss that took the end of one log and left the next log, the opening
/// dropped the writes of that next log, as it should. But if an earlier opening had written a
/// recovered log, this one used it again, so that the dropped log stayed in the directory and still
/// counted. The opening after the next `close` failed: it met a gap before a log that was synced.
#[test]
fn a_log_behind_a_gap_does_not_count_any_more_after_the_opening() {
    let base = killed(1, 0).kill();
    drop(open_on(Arc::new(base.clone())).unwrap());
    // The recovered log has write 1.
    let mem = base.kill();
    let faults = FaultFs::new(Arc::new(mem.clone()));
    let db = open_on(Arc::new(faults.clone())).unwrap();
    db.write_opt(write(2), Durability::Buffered).unwrap();
    faults.fail_once(Target::Only(Operation::Append), 1, Fault::NoSpace);
    db.write_opt(write(3), Durability::Buffered).unwrap_err();
    db.write_opt(write(3), Durability::Buffered).unwrap();
    assert_eq!(db.get("number").unwrap().as_deref(), Some(&b"3"[..]));

    let mut with_gaps = 0;
    for seed in 0..64 {
        let image = mem.crash(seed);
        let before = logs(&image);
        let survived = check(&image, 3, 1, &format!("seed {seed}"));
        // The last log has write 3, which is lost with write 2.
        with_gaps += usize::from(survived == 1 && before > 2);
        let again = open_on(Arc::new(image.clone())).unwrap();
        again.write_opt(write(survived + 1), Durability::Buffered).unwrap();
        again.close().unwrap();
        let story = format!("seed {seed}, after a close");
        check(&image, survived + 1, survived + 1, &story);
    }
    assert!(with_gaps > 0, "no power loss took the end of a log and left the next log");
}

/// How many logs the directory has.
fn logs(fs: &MemFs) -> usize {
    let names = fs.list(Path::new("/db")).unwrap();
    names.iter().filter(|name| name.ends_with(".wal")).count()
}

/// Regression: an empty file `18446744073709551614.wal` made the next file number wrap, and `7.wal`
/// was taken for the log `000007.wal`. Now files with such names are left alone, and `verify` lists
/// them.
#[test]
fn strays_are_left_alone_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let strays = [
        "18446744073709551614.wal",
        "7.wal",
        "4000000000000000000.sst",
        "MANIFEST-9",
        "99999999999999.wal",
        "copy of 000004.sst",
    ];
    let others = ["notes.tmp", "README", "STATS"];
    for name in strays.iter().chain(&others) {
        fs::write(dir.path().join(name), "").unwrap();
    }
    for round in 0..3 {
        let db = Db::open(dir.path()).unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), b"value");
        db.put(format!("round {round}"), "").unwrap();
        db.flush().unwrap();
        let named: BTreeSet<String> = db.verify().unwrap().strays.into_iter().collect();
        assert_eq!(named, strays.iter().map(|&name| name.to_owned()).collect());
        db.close().unwrap();
    }
    for name in strays.iter().chain(&others) {
        assert!(dir.path().join(name).exists(), "{name} is gone");
    }
}

/// The directory under `tests/fixtures/maypole-log-1` was written by the last build that wrote log
/// version 1: two tables, and a log with a deletion.
#[test]
fn a_database_of_log_version_1_is_opened_and_goes_on_in_version_2() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/maypole-log-1");
    let dir = tempfile::tempdir().unwrap();
    copy_files(&fixture, dir.path());
    let read_only = Db::open_read_only(dir.path()).unwrap();
    assert_eq!(read_only.iter().count(), 200);
    for _ in 0..2 {
        let db = Db::open(dir.path()).unwrap();
        assert_eq!(db.iter().count(), 200);
        assert_eq!(db.get("key005").unwrap(), None);
        assert_eq!(db.get("late").unwrap().unwrap(), b"value");
        db.close().unwrap();
    }
    let current = fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    let manifest = fs::read(dir.path().join(current.trim_end())).unwrap();
    assert_eq!(manifest[8..12], [2, 0, 0, 0], "the new MANIFEST is of version 2");
}

/// Regression: a database on a full disk could not be opened, because an opening wrote a table and
/// a MANIFEST. Now the opening succeeds, the entries can be read, and writes succeed again once
/// there is space.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_database_on_a_full_disk_opens_is_read_and_goes_on_when_there_is_space() {
    let base = killed(120, 60);
    let openings = {
        let fs = FaultFs::new(Arc::new(base.kill()));
        drop(open_on(Arc::new(fs.clone())).unwrap());
        fs.calls(Target::Changes)
    };
    let (mut without, mut said) = (0, 0);
    for nth in 0..=openings {
        let mem = base.kill();
        let fs = FaultFs::new(Arc::new(mem.clone()));
        // From change `nth` of the opening on, all changes of files fail as on a full disk.
        fs.fail_from(Target::Changes, nth, Fault::NoSpace);
        let story = format!("no space from change {nth} on");
        let db = match open_on(Arc::new(fs.clone())) {
            Ok(db) => db,
            // The opening may fail if a sync fails, which never counts as a lack of space, or if
            // one of the first changes fails, such as the creation of the lock.
            Err(error) if !error.is_out_of_space() || nth < 3 => continue,
            Err(error) => panic!("{story}: {error}"),
        };
        without += 1;
        assert_eq!(db.get("number").unwrap().unwrap(), b"120", "{story}");
        assert!(db.iter().all(|entry| entry.is_ok()), "{story}");
        if let Some(error) = db.stats().out_of_space {
            assert!(error.is_out_of_space(), "{story}: {error}");
            said += 1;
        }
        let refused = db.write(write(121)).and_then(|()| db.persist());
        assert!(refused.is_err(), "{story}: written without space");
        fs.heal();
        if !refused.unwrap_err().is_out_of_space() {
            continue;
        }
        let first = db.get("number").unwrap().unwrap();
        let first: u64 = std::str::from_utf8(&first).unwrap().parse().unwrap();
        for n in first + 1..=160 {
            db.write_opt(write(n), Durability::Sync).unwrap_or_else(|e| panic!("{story}: {e}"));
        }
        check(&mem.crash(nth), 160, 160, &story);
        drop(db);
        check(&mem.kill(), 160, 160, &story);
    }
    assert!(without > 3 && said > 3, "{without} openings without space, {said} said so");
}

/// Regression: a batch of more than 4 GiB made the database read-only, and the other writers whose
/// batches were written together with it also got errors. Now such a batch is rejected before it is
/// queued.
#[test]
#[ignore = "needs 9 GiB of memory: cargo test --release --test db batch_over -- --ignored"]
fn a_batch_over_4_gib_is_refused_before_it_is_queued() {
    let db = Db::builder("/db").fs(Arc::new(MemFs::new())).open().unwrap();
    let mut batch = maypole::WriteBatch::new();
    let value = vec![7; 900 << 20];
    (0..5).for_each(|n| {
        batch.put([n], &value);
    });
    let error = db.write(batch).unwrap_err();
    assert!(
        matches!(&error, Error::InvalidArgument(text) if text.contains("as several")),
        "{error}"
    );
    db.put("next", "write").unwrap();
}
