//! Entries that are there and are not shown: a cursor must not pay for each of them again and
//! again. The tests count the entries that cursors pass (`Ticker::NumberIterSkip`), never time.

use std::sync::Arc;

use maypole::fs::MemFs;
use maypole::{Builder, Db, Ticker, WriteBatch};

/// A database in memory whose memtable and tables stay as they are until a test says otherwise.
fn builder() -> Builder {
    Db::builder("/db").fs(Arc::new(MemFs::new())).memtable_bytes(256 << 20)
}

fn skipped(db: &Db) -> u64 {
    db.stats().tickers.get(Ticker::NumberIterSkip)
}

/// What `run` answers, and how many entries cursors passed in it.
fn counting<R>(db: &Db, run: impl FnOnce() -> R) -> (R, u64) {
    let before = skipped(db);
    let result = run();
    (result, skipped(db) - before)
}

fn keys(
    entries: impl Iterator<Item = maypole::Result<(maypole::Slice, maypole::Slice)>>,
) -> String {
    let keys = entries.map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap());
    keys.collect::<Vec<_>>().join(" ")
}

/// The story: one key was overwritten 300,000 times, and a scan of three keys stepped over each of
/// the versions: 2 ms forward and 16 ms backward in the memtable, more after a flush. Now it seeks
/// past them after a few steps, in both directions. So does a snapshot over the versions that are
/// too new for it.
#[test]
fn the_versions_of_one_key_are_passed_by_a_seek() {
    let versions = 300_000;
    let db = builder().open().unwrap();
    db.put("ant", "1").unwrap();
    db.put("bee", "first").unwrap();
    db.put("cat", "3").unwrap();
    let first = db.snapshot();
    let mut batch = WriteBatch::new();
    for version in 0..versions {
        batch.put("bee", format!("{version}"));
    }
    db.write(batch).unwrap();
    let middle = db.snapshot();
    let mut batch = WriteBatch::new();
    for version in 0..versions {
        batch.put("bee", format!("{version}"));
    }
    batch.delete("bee");
    db.write(batch).unwrap();
    // Holds the versions in the table.
    let last = db.snapshot();
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        for (snapshot, bee) in [(&first, Some("first")), (&middle, Some("299999")), (&last, None)] {
            let all = if bee.is_some() { "ant bee cat" } else { "ant cat" };
            let (found, passed) = counting(&db, || keys(snapshot.iter()));
            assert_eq!(found, all);
            assert!(passed < 32, "forward {passed}, flushed {flushed}");
            let (found, passed) = counting(&db, || keys(snapshot.iter().rev()));
            let reversed = all.split(' ').rev().collect::<Vec<_>>().join(" ");
            assert_eq!(found, reversed);
            assert!(passed < 32, "backward {passed}, flushed {flushed}");
            let mut cursor = snapshot.cursor();
            cursor.seek_for_prev("bee").unwrap();
            let expected = bee.map_or(("ant", "1"), |bee| ("bee", bee));
            assert_eq!(cursor.entry(), Some((expected.0.as_bytes(), expected.1.as_bytes())));
            // Turns around where it stands.
            cursor.next().unwrap();
            let next = if bee.is_some() { "cat" } else { "cat" };
            assert_eq!(cursor.key(), next.as_bytes());
            cursor.prev().unwrap();
            assert_eq!(cursor.entry(), Some((expected.0.as_bytes(), expected.1.as_bytes())));
        }
    }
}
