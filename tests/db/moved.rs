//! A directory is renamed, replaced or removed while its database is open. The database keeps to
//! the directory that it opened, even if another directory has the name now.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use maypole::fs::{DirectFs, Fs, RealFs};
use maypole::{Builder, Db, Durability, Error, WriteBatch};

use super::files;

const KEYS: u32 = 400;

fn key(n: u32) -> String {
    format!("key{n:06}")
}

/// Options with small tables, and with one descriptor for all of them, so that they are opened
/// again and again.
fn options(dir: &Path, fs: &Arc<dyn Fs>) -> Builder {
    let small = Db::builder(dir).memtable_bytes(16 << 10).table_bytes(16 << 10);
    small.max_open_files(1).block_cache_bytes(0).fs(Arc::clone(fs))
}

fn fill(db: &Db, value: &str) {
    for n in 0..KEYS {
        db.put(key(n), format!("{value} {n}").repeat(20)).unwrap();
        if n % 100 == 99 {
            db.flush().unwrap();
        }
    }
}

fn check(db: &Db, value: &str) {
    for n in 0..KEYS {
        let found = db.get(key(n)).unwrap().unwrap();
        assert_eq!(found, format!("{value} {n}").repeat(20).as_bytes());
    }
    assert_eq!(db.len().unwrap(), u64::from(KEYS));
    assert_eq!(db.verify().unwrap().strays, Vec::<String>::new());
}

fn sync(db: &Db) -> maypole::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key(0), "");
    db.write_opt(batch, Durability::Sync)
}

fn everything_in(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let content = |path: &Path| (path.display().to_string(), fs::read(path).unwrap());
    files(dir, "").iter().map(|path| content(path)).collect()
}

fn file_systems() -> [Arc<dyn Fs>; 2] {
    [Arc::new(RealFs), Arc::new(DirectFs)]
}

/// Regression: files were opened, created and removed by path, so a database whose directory was
/// renamed failed at its next table, or continued in another directory that had the name by then.
/// Now it continues in the renamed directory.
#[test]
fn a_moved_database_goes_on_in_its_new_place() {
    for fs in file_systems() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let db = options(&old, &fs).open().unwrap();
        fill(&db, "first");
        let snapshot = db.snapshot();
        let mut cursor = db.cursor();
        cursor.seek_to_first().unwrap();
        fs::rename(&old, &new).unwrap();
        check(&db, "first");
        fill(&db, "second");
        db.compact_all().unwrap();
        check(&db, "second");
        assert_eq!(snapshot.get(key(7)).unwrap().unwrap(), "first 7".repeat(20).as_bytes());
        assert_eq!(snapshot.len().unwrap(), u64::from(KEYS));
        let mut entries = 0;
        while cursor.valid() {
            entries += 1;
            cursor.next().unwrap();
        }
        assert_eq!(entries, KEYS);
        db.checkpoint(dir.path().join("checkpoint")).unwrap();
        fill(&db, "third");
        db.persist().unwrap();
        assert!(!old.exists());
        // The lock also holds under the directory's new name.
        assert!(matches!(options(&new, &fs).open(), Err(Error::Locked { .. })));
        drop((snapshot, cursor));
        db.close().unwrap();
        assert!(!old.exists());
        check(&options(&new, &fs).open().unwrap(), "third");
        check(&options(&dir.path().join("checkpoint"), &fs).open().unwrap(), "second");
    }
}

/// Regression: the directory of an open database was renamed and replaced by a restored checkpoint.
/// Every call on the old handle returned `Ok`. The handle deleted the tables of the restored
/// database and wrote its own there, and afterwards neither database opened. Now the old handle
/// uses only the directory that it opened.
#[test]
fn a_replaced_database_never_touches_its_successor() {
    for fs in file_systems() {
        let dir = tempfile::tempdir().unwrap();
        let (place, aside) = (dir.path().join("place"), dir.path().join("aside"));
        let restored = dir.path().join("restored");
        let old = options(&place, &fs).open().unwrap();
        fill(&old, "first");
        old.checkpoint(&restored).unwrap();
        fill(&old, "second");
        fs::rename(&place, &aside).unwrap();
        fs::rename(&restored, &place).unwrap();
        let before = everything_in(&place);
        fill(&old, "third");
        old.compact_all().unwrap();
        sync(&old).unwrap();
        fill(&old, "fourth");
        check(&old, "fourth");
        assert!(everything_in(&place) == before, "the old handle touched its successor");
        old.close().unwrap();
        assert!(everything_in(&place) == before, "the old handle touched its successor");
        check(&options(&place, &fs).open().unwrap(), "first");
        check(&options(&aside, &fs).open().unwrap(), "fourth");
    }
}

/// Regression: a process identified its locks by path. If the directory of an open database was
/// moved away, the process could not open another database in its place. Now a lock belongs to the
/// directory itself.
#[test]
fn a_lock_is_on_a_directory_and_not_on_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (place, aside) = (dir.path().join("place"), dir.path().join("aside"));
    let restored = dir.path().join("restored");
    Db::open(&restored).unwrap().close().unwrap();
    let old = Db::open(&place).unwrap();
    fs::rename(&place, &aside).unwrap();
    fs::rename(&restored, &place).unwrap();
    let successor = Db::open(&place).unwrap();
    successor.put("whose", "the successor's").unwrap();
    old.put("whose", "the old one's").unwrap();
    for path in [&place, &aside] {
        assert!(matches!(Db::open(path), Err(Error::Locked { .. })));
    }
    old.close().unwrap();
    assert!(matches!(Db::open(&place), Err(Error::Locked { .. })));
    assert_eq!(Db::open(&aside).unwrap().get("whose").unwrap().unwrap(), b"the old one's");
    successor.close().unwrap();
    assert_eq!(Db::open(&place).unwrap().get("whose").unwrap().unwrap(), b"the successor's");
}

/// Regression: in a removed directory `Durability::Sync` and `persist` returned `Ok`, although the
/// files that they synced had no name any more. Now the next sync is an error.
#[test]
fn a_removed_directory_is_an_error_of_the_next_sync() {
    for by_persist in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("place");
        let db = Db::open(&place).unwrap();
        db.put("a", "b").unwrap();
        sync(&db).unwrap();
        fs::remove_dir_all(&place).unwrap();
        // The sync must fail even if the path leads to a directory again, that of another database.
        Db::open(&place).unwrap().put("other", "").unwrap();
        db.put("c", "d").unwrap();
        let error = if by_persist { db.persist() } else { sync(&db) }.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("cannot sync") && text.contains("was removed"), "{text}");
        assert!(!error.is_out_of_space());
        // The error stays.
        assert!(matches!(db.persist(), Err(Error::ReadOnly(_))));
        assert!(matches!(sync(&db), Err(Error::ReadOnly(_))));
        assert_eq!(db.get("a").unwrap().unwrap(), b"b");
        assert!(db.close().is_err());
        let other = Db::open(&place).unwrap();
        assert_eq!(other.len().unwrap(), 1);
    }
}

/// A flush in a removed directory fails. The call of `flush` returns the error, and later writes
/// are rejected.
#[test]
fn nothing_is_flushed_to_a_removed_directory() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("place");
    let db = Db::open(&place).unwrap();
    db.put("a", "b").unwrap();
    fs::remove_dir_all(&place).unwrap();
    assert!(db.flush().is_err());
    assert!(matches!(db.put("c", "d"), Err(Error::ReadOnly(_))));
    assert!(db.get("a").unwrap().is_some());
    assert!(!place.exists());
}
