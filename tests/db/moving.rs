//! The calls of `docs/moving.md`. The tables of that page have a column with Maypole's code. All of
//! this code is also here, so that it is compiled.

use std::path::Path;

use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Durability, Transaction, WriteBatch};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const PAGE: &str = include_str!("../../docs/moving.md");
const CALLS: &str = include_str!("moving.rs");

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The pieces of code in the second column of the page's tables.
fn calls_of_the_page() -> Vec<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(2).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_call_of_the_page_is_compiled() {
    let calls = calls_of_the_page();
    assert!(calls.len() > 70, "{}", calls.len());
    let compiled = without_spaces(CALLS);
    for call in calls {
        assert!(compiled.contains(&without_spaces(call)), "{call} is in no function here");
    }
}

fn options(path: &Path) -> Outcome {
    let _ = Db::builder(path).create_if_missing(false);
    let _ = Db::builder(path).filter("bloom(12)");
    let _ = Db::builder(path).block_cache_bytes(64 << 20);
    let _ = Db::builder(path).memtable_bytes(64 << 20);
    let _ = Db::builder(path).durability(Durability::Sync);
    let db = Db::builder(path).open()?;
    db.close()?;
    Ok(())
}

fn transactions(db: &Db, key: &str, value: &str) -> Outcome {
    let mut tx = db.transaction();
    assert!(tx.get(key)?.is_some() && tx.snapshot().get(key)?.is_some());
    tx.put(key, value);
    tx.commit()?;
    let mut tx = db.transaction();
    tx.put(key, value);
    tx.commit_opt(Durability::Sync)?;
    let tx = db.transaction();
    drop(tx);
    let closure = |tx: &mut Transaction| -> maypole::Result<()> {
        tx.put(key, value);
        Ok(())
    };
    db.transact(closure)?;
    Ok(())
}

fn reads(db: &Db, key: &str) -> Outcome {
    let (from, to, prefix, keys) = ("a", "z", "k", ["key", "none"]);
    assert!(db.get(key)?.is_some() && db.contains_key(key)?);
    assert_eq!(db.get_with(key, <[u8]>::len)?, Some(5));
    assert_eq!((db.multi_get_each(keys).len(), db.multi_get(&keys)?.len()), (2, 2));
    assert_eq!((db.iter().count(), db.iter().rev().count()), (1, 1));
    assert_eq!((db.range(from..).count(), db.range(from..to).count()), (1, 1));
    assert_eq!((db.prefix(prefix).count(), db.len()?), (1, 1));
    assert!(db.approximate_len() >= 1);
    assert!(!db.is_empty()? && db.first_key_value()? == db.last_key_value()?);
    let _ = (db.cursor(), db.range_cursor(from..to));
    let _ = (db.iter().fill_cache(false), db.cursor().fill_cache(false));
    let snapshot = db.snapshot();
    assert!(snapshot.get(key)?.is_some() && !snapshot.is_empty()?);
    assert_eq!((snapshot.range(from..to).count(), snapshot.iter().count()), (1, 1));
    assert_eq!(snapshot.first_key_value()?, snapshot.last_key_value()?);
    assert_eq!((snapshot.len()?, db.snapshot().sequence()), (1, snapshot.sequence()));
    Ok(())
}

fn writes(db: &Db, key: &str, value: &str) -> Outcome {
    let (from, to) = ("a", "z");
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch.delete(key);
    db.write(&batch)?;
    db.write_opt(&batch, Durability::Sync)?;
    db.write(batch)?;
    db.put(key, value)?;
    db.delete(key)?;
    db.put_opt(key, value, Durability::Sync)?;
    db.delete_opt(key, Durability::Sync)?;
    db.delete_range(from..to)?;
    db.clear()?;
    assert_eq!((db.pop_first()?, db.pop_last()?), (None, None));
    let (old, new) = (None::<&str>, Some("1"));
    let change = |value: Option<&[u8]>| value.map(|value| [value, b"!"].concat());
    db.compare_and_swap(key, old, new)??;
    assert_eq!(db.fetch_update(key, change)?.unwrap(), b"1");
    assert_eq!(db.update_fetch(key, change)?.unwrap(), b"1!!");
    assert_eq!(db.take(key)?.unwrap(), b"1!!");
    db.put(key, value)?;
    db.persist()?;
    Ok(())
}

fn keyspaces(db: &Db, key: &str, value: &str) -> Outcome {
    let name = "other";
    db.keyspace(name)?;
    let options = |options: maypole::Builder| options.filter("burr(9)");
    let other = db.keyspace_with(name, options)?;
    other.put(key, value)?;
    let snapshot = db.snapshot();
    let mut batch = WriteBatch::new();
    batch.keyspace(&other).put(key, value);
    db.write(batch)?;
    assert_eq!(snapshot.keyspace(&other)?.get(key)?.unwrap(), value.as_bytes());
    snapshot.keyspace(&other)?;
    let mut tx = db.transaction();
    tx.keyspace(&other)?.put(key, value);
    tx.commit()?;
    let mut tx = db.transaction();
    tx.keyspace(&other)?;
    drop(tx);
    assert_eq!(db.keyspaces().len(), 2);
    assert!(db.drop_keyspace(name)?);
    Ok(())
}

fn maintenance(db: &Db, file: &Path, copy: &Path) -> Outcome {
    let (from, to) = ("a", "z");
    db.flush()?;
    db.compact_all()?;
    db.compact_range(from..to)?;
    db.wait_for_compaction()?;
    assert!(db.approximate_size(from..to)? <= db.approximate_size(..)?);
    for property in [
        db.property("rocksdb.stats"),
        db.property("rocksdb.estimate-num-keys"),
        db.property("rocksdb.num-immutable-mem-table"),
    ] {
        assert!(property.is_some());
    }
    assert!(!db.stats().files.is_empty() && db.stats().files.len() == 1);
    assert!(!db.stats().to_string().is_empty());
    db.verify()?;
    db.checkpoint(copy)?;
    db.ingest(&[file])?;
    Ok(())
}

#[test]
fn the_calls_of_the_page_do_what_they_say() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = &dir.path().join("db");
    options(path)?;
    let db = Db::open(path)?;
    assert_eq!(db.path(), path);
    writes(&db, "key", "value")?;
    reads(&db, "key")?;
    transactions(&db, "key", "value")?;
    let file = dir.path().join("sorted.sst");
    let mut writer = SstWriter::create(&file, TableOptions::default())?;
    writer.put(b"ingested", b"")?;
    writer.finish()?;
    maintenance(&db, &file, &dir.path().join("copy"))?;
    assert_eq!(Db::open_read_only(path)?.len()?, 2);
    keyspaces(&db, "key", "value")?;
    db.close()?;
    Db::repair(path)?;
    Db::destroy(path)?;
    Ok(())
}
