//! Entries that another program wrote: kinds that Maypole does not support, and sequence numbers
//! that no property of the table holds.

use std::fs;
use std::path::Path;

use maypole::table::SstReader;
use maypole::{Db, Error};

use crate::tables::{Entry, Table, data_block, varint};

const MERGE: u8 = 2;

/// Kinds of RocksDB's entries that Maypole does not read, the kind of range deletions (15), which
/// no entry of a data block has, and a kind that does not exist (99).
const UNKNOWN: [u8; 7] = [MERGE, 15, 17, 20, 22, 24, 99];

/// A database that a repair makes from one RocksDB table.
fn repaired(dir: &Path, entries: &[Entry]) -> Db {
    Table::new(entries).write(dir.join("000007.sst"));
    Db::repair(dir).unwrap();
    Db::open(dir).unwrap()
}

/// The entries of all tables in a directory, each as `key@sequence:kind`.
fn stored(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let mut entries = SstReader::open(&path).unwrap().entries();
            while let Some(entry) = entries.next_entry().unwrap() {
                let key = String::from_utf8_lossy(entry.user_key);
                lines.push(format!("{key}@{}:{}", entry.sequence, entry.kind));
            }
        }
    }
    lines.sort();
    lines
}

/// Regression: `ingest` accepted a table with a merge operand. Reads of the operand's key failed
/// with an error that named neither file nor key, `verify` found nothing wrong, and a compaction
/// removed the key's previous value. Now `ingest` accepts a table only if all entries are puts and
/// deletions without sequence numbers, so that the whole table can become one write.
#[test]
fn ingestion_refuses_what_it_does_not_understand() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("outside.sst");
    let db = Db::open(dir.path().join("db")).unwrap();
    db.put("b", "of before").unwrap();
    let refuses = |table: Table, what: &str| {
        table.write(&path);
        let error = db.ingest(&[&path]).err().unwrap_or_else(|| panic!("{what}: taken in"));
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported { .. } | Error::Corruption { .. }), "{text}");
        assert!(text.contains("outside.sst") && text.contains(what), "{what}: {text}");
        assert!(!text.contains('\n'), "{text}");
    };
    for kind in UNKNOWN {
        let entries = [("a", 0, 1, "1"), ("b", 0, kind, "2"), ("c", 0, 1, "3")];
        refuses(Table::external(&entries), "\"b\"");
        refuses(Table::external(&entries), &format!("type {kind}"));
    }
    let numbered = [("a", 0, 1, "1"), ("b", 8, 1, "2"), ("b", 7, 1, "3")];
    refuses(Table::external(&numbered), "sequence numbers");
    let plain = [("a", 0, 1, "1"), ("b", 0, 1, "2")];
    let external = || Table::external(&plain);
    let sequence = "rocksdb.external_sst_file.global_seqno";
    refuses(external().with(sequence, &77u64.to_le_bytes()), "sequence number 77");
    let of_family = |id: u64, name: &str| {
        let table = external().with("rocksdb.column.family.id", &varint(id));
        table.with("rocksdb.column.family.name", name.as_bytes())
    };
    refuses(of_family(3, "users"), "column family \"users\"");
    refuses(of_family(3, "users"), "not into \"default\"");
    refuses(external().with("rocksdb.comparator", b"mine"), "comparator mine");
    refuses(Table::new(&plain), "not written for it");
    refuses(Table::external(&[("b", 0, 1, "1"), ("a", 0, 1, "2")]), "expected a key between");
    refuses(Table::external(&[("a", 0, 1, "1"), ("a", 0, 1, "2")]), "ascending order");
    db.compact_all().unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), b"of before");
    assert_eq!(db.len().unwrap(), 1);
    // A table without these faults is accepted. RocksDB 4 wrote the comparator's name in this form.
    let comparator = b"rocksdb.InternalKeyComparator:leveldb.BytewiseComparator";
    let old = external().with("rocksdb.comparator", comparator);
    old.with("rocksdb.column.family.id", &varint(0)).write(&path);
    db.ingest(&[&path]).unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), b"2");
    // A table of a column family goes to the keyspace of its name, whatever the number is there.
    let (users, events) = (db.keyspace("users").unwrap(), db.keyspace("events").unwrap());
    of_family(3, "users").write(&path);
    assert!(events.ingest(&[&path]).unwrap_err().to_string().contains("not into \"events\""));
    users.ingest(&[&path]).unwrap();
    assert_eq!(users.len().unwrap(), 2);
    of_family(0, "default").write(&path);
    let error = events.ingest(&[&path]).unwrap_err().to_string();
    assert!(error.contains("column family \"default\""), "{error}");
    db.ingest(&[&path]).unwrap();
    assert!(events.is_empty().unwrap());
}

/// Regression: the error of a read that met a merge operand said "an entry of type 2", and named
/// neither the file nor the key. Now each path of reading names both.
#[test]
fn an_entry_that_is_not_understood_is_named_wherever_it_is_met() {
    for kind in UNKNOWN {
        let dir = tempfile::tempdir().unwrap();
        let entries = [("a", 1, 1, "1"), ("k", 9, kind, "+"), ("k", 5, 1, "5"), ("z", 2, 1, "2")];
        Table::new(&entries).write(dir.path().join("000007.sst"));
        let report = Db::repair(dir.path()).unwrap();
        let names = |line: &str| {
            assert!(line.contains(".sst") && line.contains("\"k\""), "{line}");
            assert!(line.contains(&format!("type {kind} (")) && !line.contains('\n'), "{line}");
        };
        assert_eq!(report.losses, [], "nothing was lost");
        report.not_understood.iter().for_each(|line| names(line));
        assert!(!report.not_understood.is_empty() && report.to_string().contains("type"));

        let db = Db::open(dir.path()).unwrap();
        let error = |error: Error| {
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            names(&error.to_string());
        };
        let reads = || {
            error(db.get("k").err().unwrap());
            error(db.get_with("k", <[u8]>::len).err().unwrap());
            error(db.contains_key("k").err().unwrap());
            error(db.multi_get(&["a", "k"]).err().unwrap());
            error(db.multi_get_each(["k"]).pop().unwrap().err().unwrap());
            error(db.explain("k").err().unwrap());
            error(db.len().err().unwrap());
            error(db.iter().find_map(Result::err).unwrap());
            error(db.iter().rev().find_map(Result::err).unwrap());
            error(db.prefix("k").next().unwrap().err().unwrap());
            error(db.snapshot().get("k").err().unwrap());
            // The neighboring keys are read as usual.
            assert_eq!(db.get("a").unwrap().unwrap(), b"1");
            assert_eq!(db.range("l"..).count(), 1);
            let verified = db.verify().unwrap();
            assert_eq!((verified.entries, verified.not_understood.len()), (4, 1));
            names(&verified.not_understood[0]);
        };
        reads();
        db.compact_all().unwrap();
        reads();
        let kept = ["a@1:1", "k@5:1", &format!("k@9:{kind}"), "z@2:1"];
        assert_eq!(stored(dir.path()), kept, "a compaction kept the operand and the value below");
        db.close().unwrap();
        let report = Db::repair(dir.path()).unwrap();
        assert!(!report.changed && report.to_string().contains("sound"), "{report}");
        names(&report.not_understood[0]);
    }
}

/// A newer write hides an entry that is not understood, as it hides any other.
#[test]
fn newer_writes_hide_entries_that_are_not_understood() {
    type Write = fn(&Db);
    let writes: [(Write, Option<&str>); 3] = [
        (|db| db.put("k", "new").unwrap(), Some("new")),
        (|db| db.delete("k").unwrap(), None),
        (|db| db.delete_range("j".."l").unwrap(), None),
    ];
    for (write, expected) in writes {
        for flushed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let db =
                repaired(dir.path(), &[("a", 1, 1, "1"), ("k", 9, MERGE, "+"), ("k", 5, 1, "5")]);
            write(&db);
            if flushed {
                db.flush().unwrap();
            }
            let check = || {
                let value = |key: &str| db.get(key).unwrap().map(|value| value.to_vec());
                assert_eq!(value("k").as_deref(), expected.map(str::as_bytes));
                let count = 1 + usize::from(expected.is_some());
                assert_eq!(db.iter().map(Result::unwrap).count(), count);
                assert_eq!(db.iter().rev().map(Result::unwrap).count(), count);
                assert_eq!(
                    db.multi_get(&["k"]).unwrap()[0].as_deref(),
                    expected.map(str::as_bytes)
                );
            };
            check();
            db.compact_all().unwrap();
            check();
            assert!(db.verify().unwrap().not_understood.is_empty(), "hidden for good: gone");
        }
    }
}

/// Regression: if tables had no property with their sequence numbers (RocksDB before 9.7), `repair`
/// took 0 for the sequence number of the last write. As a result, a count of the repaired database
/// found 13 of 20 entries, and after a new write and a compaction a key had its older value again.
/// Now `repair` takes the largest sequence number of the entries.
#[test]
fn a_repaired_tree_knows_its_last_write_without_a_property() {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..20).map(|n| format!("k{n:02}")).collect();
    let entries: Vec<Entry> =
        keys.iter().zip(0..).map(|(key, n)| (&key[..], 100 + n, 1, "old")).collect();
    Table::new(&entries[..13]).write(dir.path().join("000004.sst"));
    Table::new(&entries[13..]).write(dir.path().join("000009.sst"));
    let report = Db::repair(dir.path()).unwrap();
    assert_eq!(report.entries, 20);
    let db = Db::open(dir.path()).unwrap();
    assert_eq!(db.len().unwrap(), 20);
    assert_eq!(db.snapshot().sequence(), 119);
    db.put("k03", "NEW").unwrap();
    db.delete("k04").unwrap();
    assert_eq!(db.snapshot().sequence(), 121);
    for step in 0..3 {
        assert_eq!(db.get("k03").unwrap().unwrap(), b"NEW", "{step}");
        assert_eq!((db.get("k04").unwrap(), db.len().unwrap()), (None, 19), "{step}");
        match step {
            0 => db.flush().unwrap(),
            _ => db.compact_all().unwrap(),
        }
    }
    db.close().unwrap();
    assert!(!Db::repair(dir.path()).unwrap().changed, "sound");
}

/// Regression: if a table had no property with its sequence numbers, `repair` took 0 for the
/// largest one. So the table looked older than any range deletion that covers it, and the repair
/// dropped all of its entries. Now `repair` compares the sequence number of each entry with that of
/// the range deletion.
#[test]
fn a_repair_compares_entries_with_range_deletions_by_their_own_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (ranges, _) = data_block(&[("a", 50, 15, "z")]);
    Table::new(&[("b", 40, 1, "deleted")])
        .with("rocksdb.num.entries", &varint(2))
        .with("rocksdb.num.range-deletions", &varint(1))
        .with_block("rocksdb.range_del", &ranges)
        .write(dir.path().join("000004.sst"));
    Table::new(&[("c", 60, 1, "newer"), ("d", 61, 1, "newer")])
        .write(dir.path().join("000007.sst"));
    Table::new(&[("e", 30, 1, "older")]).write(dir.path().join("000008.sst"));
    Db::repair(dir.path()).unwrap();
    let db = Db::open(dir.path()).unwrap();
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(keys, [b"c", b"d"]);
    assert_eq!(db.snapshot().sequence(), 61);
}

/// An ingestion into RocksDB may write one sequence number, which holds for all entries of the
/// table, into the table's properties. `repair` orders the table among the other tables by this
/// number.
#[test]
fn a_repair_takes_the_sequence_number_that_was_written_in_place() {
    for (in_place, expected) in [(50u64, "ingested"), (5, "written")] {
        let dir = tempfile::tempdir().unwrap();
        Table::new(&[("k", 10, 1, "written")]).write(dir.path().join("000004.sst"));
        Table::external(&[("k", 0, 1, "ingested")])
            .with("rocksdb.external_sst_file.global_seqno", &in_place.to_le_bytes())
            .write(dir.path().join("000002.sst"));
        let report = Db::repair(dir.path()).unwrap();
        assert_eq!(report.losses, []);
        let db = Db::open(dir.path()).unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), expected.as_bytes());
        assert_eq!(db.snapshot().sequence(), in_place.max(10));
    }
}

/// `repair` trusts no sequence numbers in the properties of a table. Here they say 1 to 2, but the
/// entry has 10.
#[test]
fn a_repair_does_not_believe_the_sequence_numbers_in_properties() {
    let dir = tempfile::tempdir().unwrap();
    Table::new(&[("k", 10, 1, "old")])
        .with("rocksdb.key.smallest.seqno", &varint(1))
        .with("rocksdb.key.largest.seqno", &varint(2))
        .write(dir.path().join("000004.sst"));
    Db::repair(dir.path()).unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("k", "new").unwrap();
    db.compact_all().unwrap();
    assert_eq!((db.get("k").unwrap().unwrap(), db.len().unwrap()), (b"new"[..].into(), 1));
}
