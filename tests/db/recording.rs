//! `record_lookups` writes what was looked up and what came of it, and disturbs no lookup.

use std::fs;
use std::path::Path;
use std::thread;

use maypole::explain::{LookupOutcome, LookupTrace};
use maypole::{Compression, Db, Error, Ticker};

/// A memtable, two runs of level 0 and a deeper level, with overwritten and deleted keys, and range
/// deletions in each source.
fn grown(dir: &Path) -> Db {
    let db = Db::builder(dir).compression(Compression::None).open().unwrap();
    let key = |n: u32| format!("key\t{n:04}");
    (0..1000).for_each(|n| db.put(key(n), "deep").unwrap());
    db.compact_all().unwrap();
    for (first, value) in [(1, "older"), (2, "newer"), (3, "unflushed")] {
        (first..1000).step_by(20).for_each(|n| db.put(key(n), value).unwrap());
        (first + 10..1000).step_by(40).for_each(|n| db.delete(key(n)).unwrap());
        db.delete_range(key(first * 100)..key(first * 100 + 30)).unwrap();
        if value != "unflushed" {
            db.flush().unwrap();
        }
    }
    db.wait_for_compaction().unwrap();
    db
}

/// Present keys, keys within the range of the tables that were never there, and keys outside.
fn keys() -> Vec<Vec<u8>> {
    let all = (0..1000).flat_map(|n| [format!("key\t{n:04}"), format!("key\t{n:04}\\\u{0}")]);
    all.chain(["".into(), "zzz".into(), "key\n".into()]).map(String::into_bytes).collect()
}

/// What `explain` says of a lookup, in the words of a recording.
fn in_words(trace: &LookupTrace) -> String {
    match trace.outcome {
        LookupOutcome::Absent => "absent".into(),
        LookupOutcome::Tombstone | LookupOutcome::RangeDeletion => "deleted".into(),
        LookupOutcome::Value => match trace.levels.last() {
            Some(last) => format!("L{}", last.level),
            None => "memtable".into(),
        },
        _ => panic!("an outcome of a kind that has no word: {:?}", trace.outcome),
    }
}

fn expected(db: &Db) -> Vec<String> {
    let line = |key: Vec<u8>| {
        let word = in_words(&db.explain(&key).unwrap());
        format!("{}\t{word}", maypole::text::escape(&key))
    };
    keys().into_iter().map(line).collect()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn each_call_records_what_explain_says_and_finds_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = grown(&dir.path().join("db"));
    let expected = expected(&db);
    for word in ["memtable", "L0", "deleted", "absent"] {
        let count = expected.iter().filter(|line| line.ends_with(&format!("\t{word}"))).count();
        assert!(count >= 20, "{count} of {word}");
    }
    let values: Vec<_> = keys().iter().map(|key| db.get(key).unwrap()).collect();
    let path = dir.path().join("lookups.tsv");
    type Call = fn(&Db) -> Vec<Option<Vec<u8>>>;
    let by_get: Call = |db| {
        let get = |key: Vec<u8>| db.get(key).unwrap().map(|value| value.to_vec());
        keys().into_iter().map(get).collect()
    };
    let by_get_with: Call = |db| {
        let get = |key: Vec<u8>| db.get_with(key, <[u8]>::to_vec).unwrap();
        keys().into_iter().map(get).collect()
    };
    let by_multi_get: Call = |db| {
        let values = db.multi_get(&keys()).unwrap();
        values.into_iter().map(|value| value.map(|value| value.to_vec())).collect()
    };
    let by_snapshot: Call = |db| {
        let snapshot = db.snapshot();
        let get = |key: Vec<u8>| snapshot.get(key).unwrap().map(|value| value.to_vec());
        keys().into_iter().map(get).collect()
    };
    let by_transaction: Call = |db| {
        let transaction = db.transaction();
        let get = |key: Vec<u8>| transaction.get(key).unwrap().map(|value| value.to_vec());
        keys().into_iter().map(get).collect()
    };
    let calls = [by_get, by_get_with, by_multi_get, by_snapshot, by_transaction];
    for (i, call) in calls.into_iter().enumerate() {
        let recording = db.record_lookups(&path, 1).unwrap();
        let found = call(&db);
        assert_eq!(recording.finish().unwrap(), keys().len() as u64, "call {i}");
        let mut lines = lines(&path);
        let mut expected = expected.clone();
        // `multi_get` sorts many keys, and records them in the order of the call.
        if i == 2 {
            lines.sort();
            expected.sort();
        }
        assert_eq!(lines, expected, "call {i}");
        assert!(found.iter().zip(&values).all(|(a, b)| a.as_deref() == b.as_deref()), "call {i}");
    }
    // Nothing is recorded any more.
    by_get(&db);
    assert_eq!(lines(&path).len(), keys().len());
}

/// A lookup that is recorded counts as one that is not.
#[test]
fn a_recording_changes_no_counter() {
    let dir = tempfile::tempdir().unwrap();
    let db = grown(&dir.path().join("db"));
    let look_up = || {
        let before = db.stats();
        keys().iter().for_each(|key| drop(db.get(key).unwrap()));
        db.multi_get(&keys()).unwrap();
        let after = db.stats();
        let files: Vec<_> = after.files.iter().map(|file| file.counts).collect();
        let earlier: Vec<_> = before.files.iter().map(|file| file.counts).collect();
        let since = &after.tickers - &before.tickers;
        let counts: Vec<(Ticker, u64)> = since.iter().collect();
        let useful = |all: &[maypole::FileCounts]| -> u64 {
            all.iter().map(|counts| counts.filter.useful + counts.filter.full_positive).sum()
        };
        (counts, useful(&files) - useful(&earlier))
    };
    look_up();
    let plain = look_up();
    let recording = db.record_lookups(dir.path().join("lookups.tsv"), 1).unwrap();
    let recorded = look_up();
    drop(recording);
    let differing: Vec<_> = plain.0.iter().zip(&recorded.0).filter(|(a, b)| a != b).collect();
    assert!(differing.is_empty(), "{differing:?}");
    assert_eq!(plain.1, recorded.1);
}

#[test]
fn the_end_of_the_recording_or_of_the_database_writes_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lookups.tsv");
    let db = Db::open(dir.path().join("db")).unwrap();
    let recording = db.record_lookups(&path, 1).unwrap();
    thread::scope(|scope| {
        for i in 0..20 {
            let db = &db;
            scope.spawn(move || db.get(format!("by {i}")).unwrap());
        }
    });
    let refused = db.record_lookups(dir.path().join("other"), 1);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    drop(recording);
    assert_eq!(lines(&path).len(), 20);
    assert!(!dir.path().join("other").exists());

    // The second recording keeps the file of the first one.
    let recording = db.record_lookups(&path, 1).unwrap();
    db.get("last").unwrap();
    db.clone().close().unwrap();
    assert_eq!(lines(&path), ["last\tabsent"]);
    assert_eq!(lines(&dir.path().join("lookups.tsv.old")).len(), 20);
    assert_eq!(recording.finish().unwrap(), 1);
    assert!(matches!(db.record_lookups(&path, 1), Err(Error::Closed)));
}

#[test]
fn a_careless_path_destroys_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    let refused = db.record_lookups(dir.path().join("db"), 1);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    let refused = db.record_lookups(dir.path().join("db").join("CURRENT"), 1);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    #[cfg(unix)]
    assert!(matches!(db.record_lookups("/dev/null", 1), Err(Error::InvalidArgument(_))));
    let missing = db.record_lookups(dir.path().join("none").join("file"), 1);
    assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");
    // A failed beginning leaves nothing behind.
    db.record_lookups(dir.path().join("lookups"), 1).unwrap().finish().unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    assert!(Db::open(dir.path().join("db")).unwrap().contains_key("key").unwrap());
}
