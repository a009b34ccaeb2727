//! Convenience calls, most of which other stores have as well, such as `len` and `pop_first`.

use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Barrier};

use maypole::fs::{Fs, MemFs};
use maypole::{Db, Durability, Error, FilterPolicy, Slice, Ticker, WriteBatch};

use crate::noise;

/// A database in memory, with its file system.
fn in_memory() -> (Db, Arc<dyn Fs>) {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    (Db::builder("/db").fs(Arc::clone(&fs)).open().unwrap(), fs)
}

#[test]
fn len_counts_each_live_key_once_wherever_its_versions_are() {
    let (db, _) = in_memory();
    assert!(db.is_empty().unwrap() && db.len().unwrap() == 0 && db.approximate_len() == 0);
    for n in 0..100u32 {
        db.put(n.to_be_bytes(), "old").unwrap();
    }
    db.flush().unwrap();
    let before = db.snapshot();
    for n in 0..50u32 {
        db.put(n.to_be_bytes(), "new").unwrap();
    }
    db.delete(7u32.to_be_bytes()).unwrap();
    db.delete_range(90u32.to_be_bytes()..95u32.to_be_bytes()).unwrap();
    assert_eq!((db.len().unwrap(), before.len().unwrap()), (94, 100));
    assert_eq!(db.approximate_len(), 152, "100 in a table, 52 in the memtable");
    drop(before);
    db.compact_all().unwrap();
    assert_eq!((db.len().unwrap(), db.approximate_len()), (94, 94));
    db.delete_range(..[0xff]).unwrap();
    assert!(db.is_empty().unwrap() && db.snapshot().is_empty().unwrap());
    assert_eq!((db.first_key_value().unwrap(), db.last_key_value().unwrap()), (None, None));
}

#[test]
fn tombstones_of_tables_lower_the_approximate_length() {
    let (db, _) = in_memory();
    for n in 0..10u32 {
        db.put(n.to_be_bytes(), "").unwrap();
    }
    db.flush().unwrap();
    let _keeps_tombstones = db.snapshot();
    for n in 0..4u32 {
        db.delete(n.to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
    assert_eq!((db.len().unwrap(), db.approximate_len()), (6, 6));
}

#[test]
fn the_first_and_the_last_entry_are_those_of_the_snapshot() {
    let (db, _) = in_memory();
    db.put("b", "1").unwrap();
    db.put("c", "2").unwrap();
    let snapshot = db.snapshot();
    db.put("a", "3").unwrap();
    db.delete("c").unwrap();
    let key = |entry: maypole::Result<Option<(Slice, Slice)>>| entry.unwrap().unwrap().0;
    assert_eq!(
        (key(db.first_key_value()), key(db.last_key_value())),
        ("a".as_bytes().into(), "b".as_bytes().into())
    );
    assert_eq!(key(snapshot.first_key_value()), b"b");
    assert_eq!(key(snapshot.last_key_value()), b"c");
}

type Pop = fn(&Db) -> maypole::Result<Option<(Slice, Slice)>>;

#[test]
fn every_entry_is_popped_once_from_either_end_however_many_pop() {
    let (db, _) = in_memory();
    for n in 0..2000u32 {
        db.put(n.to_be_bytes(), "").unwrap();
    }
    let start = Arc::new(Barrier::new(3));
    let pop_all = |db: Db, start: Arc<Barrier>, pop: Pop| {
        start.wait();
        let mut popped = Vec::new();
        while let Some((key, _)) = pop(&db).unwrap() {
            popped.push(key.to_vec());
        }
        popped
    };
    let threads = [Db::pop_first, Db::pop_last, Db::pop_first].map(|pop: Pop| {
        let (db, start) = (db.clone(), Arc::clone(&start));
        std::thread::spawn(move || pop_all(db, start, pop))
    });
    let mut popped = threads.map(|thread| thread.join().unwrap());
    popped[1].reverse();
    assert!(popped.iter().all(|keys| keys.is_sorted()));
    let mut all = popped.concat();
    all.sort();
    assert_eq!(all, (0..2000u32).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>());
    assert!(db.is_empty().unwrap());
}

#[test]
fn a_read_only_database_pops_nothing() {
    let (db, fs) = in_memory();
    db.put("a", "").unwrap();
    db.close().unwrap();
    let reader = Db::builder("/db").fs(fs).open_read_only().unwrap();
    assert!(matches!(reader.pop_first(), Err(Error::OpenedReadOnly)));
    assert!(matches!(reader.pop_last(), Err(Error::OpenedReadOnly)));
    assert_eq!(reader.len().unwrap(), 1);
}

#[test]
fn the_size_of_a_range_is_about_its_share_of_the_tables() {
    let (db, _) = in_memory();
    for n in 0..1000u32 {
        db.put(format!("{n:04}"), noise(n.into(), 1000)).unwrap();
    }
    assert_eq!(db.approximate_size(""..).unwrap(), 0, "all of it is in the memtable");
    db.compact_all().unwrap();
    let whole: u64 = db.stats().files.iter().map(|file| file.file_bytes).sum();
    assert_eq!(db.approximate_size(""..).unwrap(), whole);
    assert_eq!(db.approximate_size("0000"..="0999").unwrap(), whole);
    let tenth = db.approximate_size("0300".."0400").unwrap();
    assert!((90_000..110_000).contains(&tenth), "{tenth}");
    let halves = [db.approximate_size(.."0500").unwrap(), db.approximate_size("0500"..).unwrap()];
    assert_eq!(halves[0] + halves[1], whole);
    for empty in [db.approximate_size("1".."2"), db.approximate_size("0400".."0300")] {
        assert_eq!(empty.unwrap(), 0);
    }
    let copy = db.clone();
    db.close().unwrap();
    assert!(matches!(copy.approximate_size("a".."b"), Err(Error::Closed)));
}

#[test]
fn the_path_is_absolute_and_that_of_the_builder() {
    let (db, _) = in_memory();
    assert_eq!(db.path(), Path::new("/db"));
}

#[test]
fn a_missing_database_is_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let outcomes = [
        Db::builder(&missing).create_if_missing(false).open().map(drop),
        Db::open_read_only(&missing).map(drop),
        Db::repair(&missing).map(drop),
        Db::published_stats(&missing).map(drop),
        Db::destroy(&missing).map(drop),
    ];
    for outcome in outcomes {
        assert!(
            matches!(&outcome, Err(Error::NoDatabase { path }) if *path == missing),
            "{outcome:?}"
        );
    }
    assert!(!missing.exists());
}

#[test]
fn a_clone_of_a_snapshot_keeps_the_state_when_the_other_is_dropped() {
    let (db, _) = in_memory();
    db.put("key", "old").unwrap();
    let first = db.snapshot();
    let second = first.clone();
    assert_eq!(first.sequence(), second.sequence());
    drop(first);
    db.put("key", "new").unwrap();
    db.compact_all().unwrap();
    assert_eq!(second.get("key").unwrap().unwrap(), b"old");
    drop(second);
    db.compact_all().unwrap();
    db.put("other", "").unwrap();
    db.compact_all().unwrap();
    let entries: u64 = db.stats().files.iter().map(|file| file.entries).sum();
    assert_eq!(entries, 2, "no snapshot needs the old version any more");
}

#[test]
fn a_range_needs_no_type_of_its_keys() {
    let (db, _) = in_memory();
    for key in ["a", "b", "c"] {
        db.put(key, "").unwrap();
    }
    assert_eq!((db.range(..).count(), db.snapshot().range(..).count()), (3, 3));
    let (from, to) = (b"a".to_vec(), b"c".to_vec());
    assert_eq!(db.range(&from..&to).count(), 2);
    assert_eq!(db.range(..=to.clone()).count(), 3);
    assert_eq!(db.range((Bound::Excluded(&from[..]), Bound::Included(&to[..]))).count(), 2);
    assert_eq!(db.approximate_size(..).unwrap(), 0);
    db.compact_range(..).unwrap();
    assert!(db.approximate_size(..).unwrap() > 0);
}

#[test]
fn a_cursor_over_a_range_stays_in_it_from_both_ends() {
    let (db, _) = in_memory();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "").unwrap();
    }
    let snapshot = db.snapshot();
    db.delete("b").unwrap();
    for (mut cursor, expected) in
        [(db.range_cursor("b".."d"), &["c"][..]), (snapshot.range_cursor("b".."d"), &["b", "c"])]
    {
        let mut forward = Vec::new();
        cursor.seek("a").unwrap();
        while let Some((key, _)) = cursor.entry() {
            forward.push(key.to_vec());
            cursor.next().unwrap();
        }
        let mut backward = Vec::new();
        cursor.seek_to_last().unwrap();
        while cursor.valid() {
            backward.push(cursor.key().to_vec());
            cursor.prev().unwrap();
        }
        backward.reverse();
        assert_eq!(forward, expected.iter().map(|key| key.as_bytes()).collect::<Vec<_>>());
        assert_eq!(backward, forward);
    }
}

#[test]
fn a_cursor_that_is_not_placed_refuses_a_step_and_counts_none() {
    let (db, _) = in_memory();
    db.put("a", "").unwrap();
    let mut cursor = db.cursor();
    let refused = |outcome| matches!(outcome, Err(Error::InvalidArgument(_)));
    assert!(refused(cursor.next()) && refused(cursor.prev()) && cursor.entry().is_none());
    cursor.seek_to_first().unwrap();
    cursor.next().unwrap();
    assert!(!cursor.valid() && refused(cursor.next()) && refused(cursor.prev()));
    cursor.seek_to_last().unwrap();
    cursor.prev().unwrap();
    assert!(refused(cursor.prev()));
    drop(cursor);
    let tickers = db.stats().tickers;
    assert_eq!((tickers.get(Ticker::NumberDbNext), tickers.get(Ticker::NumberDbPrev)), (1, 1));
}

#[test]
fn a_batch_is_chained_written_by_reference_and_read_back() {
    let (db, _) = in_memory();
    let mut batch = WriteBatch::new();
    batch.put("a", "1").delete("b").delete_range("c".."d").put("", "");
    use maypole::BatchOperation::{Delete, DeleteRange, Put};
    let expected = [
        Put { key: b"a", value: b"1" },
        Delete { key: b"b" },
        DeleteRange { start: b"c", end: Some(b"d") },
        Put { key: b"", value: b"" },
    ];
    assert!(batch.iter().eq(expected));
    db.write(&batch).unwrap();
    db.delete("a").unwrap();
    db.write_opt(&batch, Durability::Sync).unwrap();
    assert_eq!((batch.len(), db.len().unwrap()), (4, 2));
    db.write(WriteBatch::new().put("e", "").delete("a")).unwrap();
    assert_eq!(db.len().unwrap(), 2);
    assert!(db.get("a").unwrap().is_none() && db.contains_key("e").unwrap());
}

#[test]
fn a_filter_is_given_as_text_or_as_a_policy_and_a_typo_is_an_error_of_the_opening() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let policy: FilterPolicy = "bloom(20)".parse().unwrap();
    let filter_bytes = |builder: maypole::Builder| {
        let db = builder.fs(Arc::new(MemFs::new())).open().unwrap();
        (0..200u32).for_each(|n| db.put(n.to_be_bytes(), "").unwrap());
        db.flush().unwrap();
        db.stats().filter_bytes()
    };
    assert_eq!(
        filter_bytes(Db::builder("/a").filter("bloom(20)")),
        filter_bytes(Db::builder("/a").filter(policy.clone()))
    );
    assert_ne!(
        filter_bytes(Db::builder("/a").filter("bloom(5)")),
        filter_bytes(Db::builder("/a").filter(policy))
    );
    let typo = || Db::builder("/b").fs(Arc::clone(&fs)).filter("blom(12)");
    for outcome in [typo().open(), typo().open_read_only()] {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, Error::InvalidArgument(text) if text.contains("blom(12)")),
            "{error}"
        );
    }
    assert!(!fs.exists(Path::new("/b")).unwrap(), "nothing was touched");
    typo().filter("bloom(12)").open().unwrap();
}

#[test]
fn each_key_has_a_result_of_its_own_and_damage_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    for key in ["a", "z"] {
        db.put(key, noise(1, 2000)).unwrap();
        db.flush().unwrap();
    }
    let values = db.multi_get_each(["a", "m", "z"].iter());
    assert!(values[0].as_ref().unwrap().is_some() && values[1].as_ref().unwrap().is_none());
    let damaged = db.stats().files.into_iter().find(|file| file.smallest == b"z").unwrap().path;
    db.close().unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let db = Db::open(dir.path()).unwrap();
    assert!(db.multi_get(&["a", "z"]).is_err());
    let (now, then) = (db.multi_get_each(["z", "a"]), db.snapshot().multi_get_each(vec!["z", "a"]));
    for values in [now, then] {
        assert!(matches!(values[0], Err(Error::Corruption { .. })), "{:?}", values[0]);
        assert_eq!(values[1].as_ref().unwrap().as_deref(), Some(&noise(1, 2000)[..]));
    }
    assert!(db.multi_get_each([""; 0]).is_empty());
}

#[test]
fn the_files_of_the_statistics_say_their_paths_and_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    for key in ["b", "a", "c"] {
        db.put(key, "").unwrap();
    }
    db.flush().unwrap();
    let files = db.stats().files;
    assert_eq!((&files[0].smallest[..], &files[0].largest[..]), (&b"a"[..], &b"c"[..]));
    assert_eq!(fs::metadata(&files[0].path).unwrap().len(), files[0].file_bytes);
}

#[test]
fn properties_agree_with_the_statistics() {
    let (db, _) = in_memory();
    for n in 0..100u32 {
        db.put(n.to_be_bytes(), "value").unwrap();
    }
    db.flush().unwrap();
    db.put("in memory", "").unwrap();
    let _snapshots = (db.snapshot(), db.snapshot());
    let stats = db.stats();
    let number =
        |name: &str| db.property(&format!("rocksdb.{name}")).unwrap().parse::<u64>().unwrap();
    // The background job of a flush ends a moment after `flush` has returned.
    let start = std::time::Instant::now();
    while number("num-running-flushes") > 0 && start.elapsed().as_secs() < 60 {
        std::thread::yield_now();
    }
    let kinds: usize = stats.cache.iter().map(|(_, usage)| usage.bytes).sum();
    for (name, expected) in [
        ("estimate-num-keys", 101),
        ("num-files-at-level0", 1),
        ("num-files-at-level6", 0),
        ("total-sst-files-size", stats.files[0].file_bytes),
        ("live-sst-files-size", stats.files[0].file_bytes),
        ("cur-size-all-mem-tables", stats.memtable_bytes as u64),
        ("size-all-mem-tables", stats.memtable_bytes as u64),
        ("num-immutable-mem-table", 0),
        ("num-entries-active-mem-table", 1),
        ("num-entries-imm-mem-tables", 0),
        ("estimate-pending-compaction-bytes", stats.compaction_debt_bytes),
        ("num-running-flushes", 0),
        ("num-running-compactions", 0),
        ("is-write-stopped", 0),
        ("num-snapshots", 2),
        ("block-cache-capacity", stats.cache_capacity_bytes as u64),
        ("block-cache-usage", (kinds + stats.cache_tables_bytes) as u64),
    ] {
        assert_eq!(number(name), expected, "{name}");
    }
    assert!(db.property("rocksdb.stats").unwrap().contains("block cache"));
    assert_eq!(db.property("rocksdb.levelstats").unwrap().lines().count(), 8);
    for unknown in
        ["", "rocksdb.", "stats", "rocksdb.num-files-at-level7", "rocksdb.num-files-at-level-1"]
    {
        assert_eq!(db.property(unknown), None, "{unknown}");
    }
}

#[test]
fn an_error_of_the_standard_library_becomes_one_and_keeps_its_words() {
    fn read() -> maypole::Result<Vec<u8>> {
        Ok(fs::read("no such file")?)
    }
    let error = read().unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );
    assert_eq!(error.to_string(), fs::read("no such file").unwrap_err().to_string());
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_example_of_async_code_awaits_its_calls() {
    fn crosses_an_await<T: Send + 'static>() {}
    crosses_an_await::<(Db, maypole::Snapshot, maypole::DbIterator, maypole::DbCursor, Slice)>();
    let mut out = Vec::new();
    crate::from_async::run(&mut out).unwrap();
    let shown = "Ada: visit 1\nMary: visit 1\nAda: visit 2\n2 users, the last is Some(b\"visits/Mary\")\n\
         4 clients visit 250 times each: 1000 visits\n";
    assert_eq!(String::from_utf8(out).unwrap(), shown);
    assert_eq!(crate::from_async::rush(4, 10_000).unwrap(), 40_000);
}

#[test]
fn a_slice_is_stored_and_read_by_serde() {
    let (db, _) = in_memory();
    db.put("key", [0, 200, 7]).unwrap();
    let value = db.get("key").unwrap().unwrap();
    let text = serde_json::to_string(&value).unwrap();
    assert_eq!(text, "[0,200,7]");
    let read = |text: &str| serde_json::from_str::<Slice>(text);
    assert_eq!(read(&text).unwrap(), value);
    assert_eq!(read("\"may\"").unwrap(), b"may");
    assert_eq!(read("[]").unwrap(), b"");
    assert!(read("[256]").is_err() && read("{}").is_err());
}
