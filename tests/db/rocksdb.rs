//! Directories of RocksDB and LevelDB, read in place and imported. Maypole must find the same
//! entries in them as these engines do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use maypole::{Db, Error, RocksDb, WriteBatch};

use crate::rocksdb_dirs::{fixtures, state_of, unpacked};

/// What RocksDB or LevelDB reads from each column family: directory, family, number of entries, and
/// their hash. Most tests skip `11.9-blob`, whose values are in blob files, which Maypole does not
/// read.
fn scans() -> Vec<(String, Vec<u8>, usize, String)> {
    let text = fs::read_to_string(fixtures().join("scans.txt")).unwrap();
    let scan = |line: &str| {
        let [name, family, entries, hash] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        (name.into(), unescaped(family), entries.parse().unwrap(), hash.into())
    };
    text.lines().map(scan).collect()
}

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries(db: &Db) -> Entries {
    db.iter().map(|entry| entry.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
}

fn hash(entries: &Entries) -> String {
    let bytes = entries
        .iter()
        .flat_map(|(key, value)| key.iter().chain(b" ").chain(value).chain(b"\n").copied());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Every kind of read returns the entries of `expected`.
fn check_reads(db: &Db, expected: &Entries) {
    let mut cursor = db.cursor();
    cursor.seek_to_last().unwrap();
    for (key, value) in expected.iter().rev() {
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    for (key, value) in expected {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{}", key.escape_ascii());
        let behind = [&key[..], &[0]].concat();
        assert_eq!(db.contains_key(&behind).unwrap(), expected.contains_key(&behind));
    }
    let some: Vec<&Vec<u8>> = expected.keys().step_by(3).collect();
    let found = db.multi_get(&some).unwrap();
    for (key, value) in some.iter().zip(found) {
        assert_eq!(value.as_deref(), expected.get(*key).map(|value| &value[..]));
    }
    let (Some(first), Some(middle)) = (expected.keys().next(), some.get(some.len() / 2)) else {
        return;
    };
    let range = db.range(first.as_slice()..middle.as_slice());
    assert!(
        range
            .map(|entry| entry.unwrap().0.to_vec())
            .eq(expected.range(first.clone()..(*middle).clone()).map(|(key, _)| key.clone()))
    );
    let prefix = &middle[..middle.len() - 1];
    let with_prefix = expected.keys().filter(|key| key.starts_with(prefix)).count();
    assert_eq!(db.prefix(prefix).count(), with_prefix);
    assert!(db.explain(middle).unwrap().value.is_some());
    let report = db.verify().unwrap();
    assert_eq!((report.filter_misses, report.not_understood.len()), (0, 0));
    assert!(!db.stats().to_string().is_empty());
}

#[test]
fn every_column_family_reads_as_rocksdb_reads_it_and_nothing_changes() {
    let mut families = 0;
    for (name, family, count, expected) in scans() {
        if name == "11.9-blob" {
            continue;
        }
        let dir = unpacked(&name);
        let before = state_of(dir.path());
        let rocks = RocksDb::open_read_only(dir.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let db = rocks.column_family(&family).unwrap();
        let found = entries(&db);
        assert_eq!((found.len(), hash(&found)), (count, expected), "{name}, {family:?}");
        check_reads(&db, &found);
        let listed = scans().into_iter().filter(|(other, ..)| *other == name).count();
        assert_eq!(rocks.column_families().len(), listed, "{name}");
        assert!(matches!(db.put("a", "b"), Err(Error::OpenedReadOnly)));
        drop((rocks, db));
        assert_eq!(state_of(dir.path()), before, "{name}");
        families += 1;
    }
    assert_eq!(families, 27);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn an_imported_column_family_holds_the_same_and_goes_on() {
    for (name, family, ..) in scans() {
        if name == "11.9-blob" {
            continue;
        }
        let dir = unpacked(&name);
        let before = state_of(dir.path());
        let rocks = RocksDb::open_read_only(dir.path()).unwrap();
        let mut expected = entries(&rocks.column_family(&family).unwrap());
        let target = tempfile::tempdir().unwrap();
        let target = target.path().join("new");
        let report = rocks.import(&family, &target).unwrap();
        drop(rocks);
        let about = rocks_tables(&report);
        let db = Db::open(&target).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(entries(&db), expected, "{name}, {family:?}: {about}");
        check_reads(&db, &expected);
        // The imported database takes writes and range deletions, is compacted whole, and is opened
        // again.
        let cut = expected.keys().nth(expected.len() / 2).unwrap().clone();
        db.delete_range(cut.clone()..[&cut[..], &[0xff]].concat()).unwrap();
        expected.retain(|key, _| *key < cut || *key >= [&cut[..], &[0xff]].concat());
        for n in 0..200u32 {
            db.put(n.to_le_bytes(), b"new").unwrap();
            expected.insert(n.to_le_bytes().to_vec(), b"new".to_vec());
        }
        db.compact_range(..).unwrap();
        assert_eq!(entries(&db), expected, "{name}, {family:?}");
        db.close().unwrap();
        assert_eq!(entries(&Db::open(&target).unwrap()), expected, "{name}, {family:?}");
        assert_eq!(state_of(dir.path()), before, "{name}");
    }
}

/// A database of RocksDB is imported, written to, exported and imported again, and has the right
/// entries at every step. The tables are of three versions of RocksDB, with RocksDB's filters, with
/// range deletions that reach beyond the bounds of their tables, and with ingested tables.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_database_goes_to_maypole_and_back() {
    for (name, family, ..) in scans() {
        if name == "11.9-blob" {
            continue;
        }
        let dir = unpacked(&name);
        let before = state_of(dir.path());
        let target = tempfile::tempdir().unwrap();
        let path = |name: &str| target.path().join(name);
        RocksDb::open_read_only(dir.path()).unwrap().import(&family, path("ours")).unwrap();
        let db = Db::open(path("ours")).unwrap();
        let mut expected = entries(&db);
        let read_exported = |dir: &Path| {
            let rocks = RocksDb::open_read_only(dir).unwrap();
            let [only] = rocks.column_families() else { panic!("{name}") };
            assert_eq!((&only.name[..], only.not_supported.as_ref()), (&b"default"[..], None));
            (rocks.column_family("default").unwrap(), rocks)
        };
        let report = db.export_rocksdb(path("unchanged"), None).unwrap();
        check_reads(&read_exported(&path("unchanged")).0, &expected);
        assert_eq!(report.unknown_filters, 0);
        for n in 0..200u32 {
            db.put(n.to_le_bytes(), b"new").unwrap();
            expected.insert(n.to_le_bytes().to_vec(), b"new".to_vec());
        }
        let cut = expected.keys().nth(expected.len() / 2).unwrap().clone();
        db.delete_range(cut.clone()..[&cut[..], &[0xff]].concat()).unwrap();
        expected.retain(|key, _| *key < cut || *key >= [&cut[..], &[0xff]].concat());
        db.export_rocksdb(path("rocks"), None).unwrap();
        // This export writes the tables again with the filter `ribbon(7)`, except those in a layout
        // that only RocksDB writes.
        db.export_rocksdb(path("ribbon"), Some(&"ribbon(7)".parse().unwrap())).unwrap();
        db.close().unwrap();
        for rocks in ["rocks", "ribbon"] {
            let (read, rocks) = read_exported(&path(rocks));
            assert_eq!(entries(&read), expected, "{name}, {family:?}");
            check_reads(&read, &expected);
            let back = tempfile::tempdir().unwrap();
            rocks.import("default", back.path()).unwrap();
            let back = Db::open(back.path()).unwrap();
            check_reads(&back, &expected);
            back.compact_range(..).unwrap();
            check_reads(&back, &expected);
        }
        assert_eq!(state_of(dir.path()), before, "{name}");
    }
}

/// All column families of a directory go into one database, are written to in one batch, and come
/// out again, equal to what RocksDB read and to what was written.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn all_column_families_go_to_one_database_and_back() {
    let mut with_several = 0;
    let mut names: Vec<String> = scans().into_iter().map(|(name, ..)| name).collect();
    names.dedup();
    for name in names.iter().filter(|name| *name != "11.9-blob") {
        let dir = unpacked(name);
        let before = state_of(dir.path());
        let target = tempfile::tempdir().unwrap();
        let path = |name: &str| target.path().join(name);
        let rocks = RocksDb::open_read_only(dir.path()).unwrap();
        let reports = rocks.import_all(path("ours")).unwrap();
        let families: Vec<Vec<u8>> =
            rocks.column_families().iter().map(|family| family.name.clone()).collect();
        assert_eq!(reports.len(), families.len());
        with_several += usize::from(families.len() > 1);
        let db = Db::open(path("ours")).unwrap();
        let mut sorted = families.clone();
        sorted[1..].sort();
        assert_eq!(db.keyspaces(), sorted, "{name}");
        let mut expected = BTreeMap::new();
        for (_, family, count, hashed) in scans().into_iter().filter(|(of, ..)| of == name) {
            let found = entries(&db.keyspace(&family).unwrap());
            assert_eq!((found.len(), hash(&found)), (count, hashed), "{name}, {family:?}");
            check_reads(&db.keyspace(&family).unwrap(), &found);
            expected.insert(family, found);
        }
        assert_eq!(expected.len(), families.len(), "{name}");

        // Batches across all families, with an overwritten, a deleted and a new key in each.
        let handles: Vec<Db> = families.iter().map(|name| db.keyspace(name).unwrap()).collect();
        for n in 0..50u32 {
            let mut batch = WriteBatch::new();
            for (handle, family) in handles.iter().zip(&families) {
                let entries = expected.get_mut(family).unwrap();
                let value = [&n.to_le_bytes()[..], family].concat();
                batch.keyspace(handle).put(n.to_le_bytes(), &value);
                entries.insert(n.to_le_bytes().to_vec(), value);
                let some = entries.keys().nth(n as usize % entries.len()).unwrap().clone();
                batch.delete(&some);
                entries.remove(&some);
            }
            db.write(batch).unwrap();
        }
        // One family has newer tables than the others when the export begins.
        handles.last().unwrap().compact_range(..).unwrap();
        db.export_rocksdb(path("rocks"), None).unwrap();
        let report = db.export_rocksdb(path("ribbon"), Some(&"ribbon(7)".parse().unwrap()));
        let others = report.unwrap().other_families;
        assert!(others.iter().map(|(name, _)| name).eq(&families[1..]), "{name}");
        assert!(others.iter().flat_map(|it| &it.1).all(|it| it.starts_with("ribbonfilter")));
        db.close().unwrap();
        assert_eq!(state_of(dir.path()), before, "{name}");
        for exported in ["rocks", "ribbon"] {
            let rocks = RocksDb::open_read_only(path(exported)).unwrap();
            let listed = rocks.column_families().iter().map(|it| (it.id, &it.name));
            let original = RocksDb::open_read_only(dir.path()).unwrap();
            assert!(listed.eq(original.column_families().iter().map(|it| (it.id, &it.name))));
            for (family, expected) in &expected {
                check_reads(&rocks.column_family(family).unwrap(), expected);
                let found = entries(&rocks.column_family(family).unwrap());
                assert_eq!(&found, expected, "{name}, {family:?}");
            }
            let back = path(&format!("{exported} back"));
            rocks.import_all(&back).unwrap();
            let back = Db::open(&back).unwrap();
            for (family, expected) in &expected {
                assert_eq!(&entries(&back.keyspace(family).unwrap()), expected);
            }
        }
        // A new keyspace gets a number that no family has had.
        let db = Db::open(path("ours")).unwrap();
        assert!(db.keyspace("new here").unwrap().is_empty().unwrap());
    }
    assert!(with_several > 1, "{with_several}");
}

/// The tables of an import tell their keyspaces, so that a repair finds them without a MANIFEST.
#[test]
fn imported_families_survive_the_loss_of_the_manifest() {
    for name in ["10.4.2-cfs", "7.8.3-names"] {
        let dir = unpacked(name);
        let target = tempfile::tempdir().unwrap();
        let path = target.path().join("new");
        RocksDb::open_read_only(dir.path()).unwrap().import_all(&path).unwrap();
        let read = || -> BTreeMap<Vec<u8>, Entries> {
            let db = Db::open(&path).unwrap();
            let of = |name: Vec<u8>| (name.clone(), entries(&db.keyspace(name).unwrap()));
            db.keyspaces().into_iter().map(of).collect()
        };
        let before = read();
        for file in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap()) {
            if file.file_name().to_string_lossy().starts_with("MANIFEST") {
                fs::remove_file(file.path()).unwrap();
            }
        }
        let report = Db::repair(&path).unwrap();
        assert!(report.changed && report.losses.is_empty(), "{report}");
        assert_eq!(read(), before, "{name}: {report}");
    }
}

/// A keyspace without tables, and one that was dropped, in an export.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn an_export_has_the_keyspaces_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let db = Db::open(path("db")).unwrap();
    let users = db.keyspace("users").unwrap();
    db.keyspace("dropped").unwrap().put("a", "1").unwrap();
    db.drop_keyspace("dropped").unwrap();
    db.keyspace("empty").unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u32.. {
                let (key, mut batch) = (n.to_be_bytes(), WriteBatch::new());
                batch.put(key, "of default").keyspace(&users).put(key, "of users");
                db.write(batch).unwrap();
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        for n in 0..5 {
            let exported = path(&format!("rocks {n}"));
            db.export_rocksdb(&exported, None).unwrap();
            let rocks = RocksDb::open_read_only(&exported).unwrap();
            let names: Vec<_> =
                rocks.column_families().iter().map(|it| (it.id, &it.name)).collect();
            let (default, of_users, empty) =
                (b"default".to_vec(), b"users".to_vec(), b"empty".to_vec());
            assert_eq!(names, [(0, &default), (1, &of_users), (3, &empty)]);
            let keys = |name: &str| -> Vec<Vec<u8>> {
                entries(&rocks.column_family(name).unwrap()).into_keys().collect()
            };
            assert_eq!(keys("default"), keys("users"), "a batch is there as a whole");
            assert!(keys("empty").is_empty());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The report as text. Asserts that it gives a reason (`not_linked`) if and only if tables were
/// copied rather than linked.
fn rocks_tables(report: &maypole::ImportReport) -> String {
    assert_eq!(report.copied > 0, report.not_linked.is_some());
    format!("{report:?}")
}

#[test]
fn entries_that_only_rocksdb_reads_are_named_at_the_read_and_at_the_import() {
    for (name, kind) in
        [("7.8.3-merge", "merge operand"), ("11.9-blob", "reference to a blob file")]
    {
        let dir = unpacked(name);
        let rocks = RocksDb::open_read_only(dir.path()).unwrap();
        let db = rocks.column_family("default").unwrap();
        let unsupported = |result: Result<String, Error>| match result {
            Err(error @ Error::Unsupported { .. }) => error.to_string(),
            other => panic!("{name}: {other:?}"),
        };
        let mut cursor = db.cursor();
        let scanned = loop {
            let moved = if cursor.valid() { cursor.next() } else { cursor.seek_to_first() };
            match moved {
                Ok(()) if cursor.valid() => {}
                other => break other.map(|()| "no such entry".to_string()),
            }
        };
        let error = unsupported(scanned);
        assert!(error.contains(kind), "{error}");
        // A lookup of the key that the message names fails too.
        let key = error.split("the key \"").nth(1).unwrap().split('"').next().unwrap();
        let key = unescaped(key);
        assert!(unsupported(db.get(&key).map(|_| String::new())).contains(kind));
        assert!(unsupported(db.multi_get(&[&key]).map(|_| String::new())).contains(kind));
        assert!(!db.verify().unwrap().not_understood.is_empty(), "{name}");
        let target = tempfile::tempdir().unwrap();
        let target = target.path().join("new");
        unsupported(rocks.import("default", &target).map(|_| String::new()));
        assert!(!target.exists(), "nothing was written");
    }
}

/// The bytes of a text with escape sequences such as `\x00`.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'x')) => {
                out.push(u8::from_str_radix(&text[at + 2..at + 4], 16).unwrap());
                at += 4;
            }
            (b'\\', Some(&other)) => {
                out.push(match other {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => other,
                });
                at += 2;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[test]
fn timestamps_other_families_and_other_databases_are_refused_by_name() {
    let refused = |dir: &Path, what: &str| {
        let error = RocksDb::open_read_only(dir).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    refused(unpacked("11.9-udt").path(), "timestamps");
    let own = tempfile::tempdir().unwrap();
    Db::open(own.path()).unwrap().put("a", "b").unwrap();
    refused(own.path(), "Maypole");
    let dir = unpacked("10.4.2-cfs");
    let rocks = RocksDb::open_read_only(dir.path()).unwrap();
    let error = rocks.column_family("gamma").unwrap_err().to_string();
    assert!(error.contains("default, alpha, beta, delta"), "{error}");
    assert!(matches!(
        RocksDb::open_read_only(own.path().join("none")),
        Err(Error::NoDatabase { .. })
    ));
}

/// A database whose logs are elsewhere was opened without a word, and without the writes in them,
/// if its relative `wal_dir` was not found where the reader ran.
#[test]
fn a_database_whose_logs_are_in_a_relative_directory_is_refused_until_they_are_copied() {
    let dir = unpacked("10.4.2-atomic-live");
    let named = |ending: &str| {
        let paths = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_str().unwrap().contains(ending)).max().unwrap()
    };
    let open = || RocksDb::open_read_only(dir.path());
    let all = entries(&open().unwrap().column_family("default").unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let (log, options) = (named(".log"), named("OPTIONS-"));
    let moved = elsewhere.path().join(log.file_name().unwrap());
    fs::copy(&log, &moved).unwrap();
    fs::remove_file(&log).unwrap();
    let text = fs::read_to_string(&options).unwrap();
    let with_wal_dir = text.replace("[DBOptions]\n", "[DBOptions]\n  wal_dir=app/wal\n");
    fs::write(&options, with_wal_dir).unwrap();

    let error = open().unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("app/wal") && error.to_string().contains("copy"), "{error}");
    fs::copy(&moved, &log).unwrap();
    assert_eq!(entries(&open().unwrap().column_family("default").unwrap()), all);
    // Without the option, a database without logs is one whose writes are all in tables.
    fs::remove_file(&log).unwrap();
    fs::write(&options, text).unwrap();
    assert!(entries(&open().unwrap().column_family("default").unwrap()).len() < all.len());
}

/// Names of column families are bytes, and errors escape them. They were once texts, so that a
/// database with a family of another name was refused as damaged.
#[test]
fn names_of_column_families_are_bytes() {
    let dir = unpacked("7.8.3-names");
    let rocks = RocksDb::open_read_only(dir.path()).unwrap();
    let names: Vec<&[u8]> = rocks.column_families().iter().map(|family| &family.name[..]).collect();
    assert_eq!(names, [&b"default"[..], b"\x01", b"\x02", b"\n", b"\xff", b"a/b"]);
    for name in names {
        assert_eq!(rocks.option(name, "compaction_style"), Some("kCompactionStyleLevel"));
    }
    let error = rocks.column_family("\x03").unwrap_err().to_string();
    assert!(
        error.contains(r#""\x03"; there are: default, \x01, \x02, \x0a, \xff, a/b"#),
        "{error}"
    );
}

#[test]
fn an_import_takes_a_new_directory_outside_of_the_source_and_leaves_nothing_after_a_failure() {
    let dir = unpacked("10.4.2-universal");
    let rocks = RocksDb::open_read_only(dir.path()).unwrap();
    let before = state_of(dir.path());
    let refused = |target: &Path| {
        let error = rocks.import("default", target).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    };
    refused(&dir.path().join("inside"));
    let used = tempfile::tempdir().unwrap();
    fs::write(used.path().join("notes.txt"), "").unwrap();
    refused(used.path());
    assert_eq!(state_of(dir.path()), before);
    // The tables' names are removed, so the import can make no links to them, and must copy the
    // open files.
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("new");
    for (name, _) in before.iter().filter(|(name, _)| name.ends_with(".sst")) {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let report = rocks.import("default", &target).unwrap();
    assert_eq!((report.linked, report.copied), (0, 4));
    assert!(report.not_linked.is_some());
    let db = Db::open(&target).unwrap();
    assert_eq!(db.iter().count(), 4030);
}

/// RocksDB may delete a table at any time. If Maypole has the table open, its blocks can still be
/// read.
#[test]
fn an_open_table_is_looked_into_block_by_block_when_its_file_is_gone() {
    let dir = unpacked("11.9-pred");
    let rocks = RocksDb::open_read_only(dir.path()).unwrap();
    assert_eq!(rocks.option("default", "filter_policy"), Some("bloomfilter:10:false"));
    assert_eq!(rocks.option("default", "compaction_style"), Some("kCompactionStyleLevel"));
    assert_eq!(rocks.option("default", "no_option"), None);
    assert_eq!(rocks.option("gone", "filter_policy"), None);
    let db = rocks.column_family("default").unwrap();
    let files = db.stats().files;
    assert!(files.len() > 2);
    for file in &files {
        fs::remove_file(&file.path).unwrap();
    }
    for file in &files {
        let table = db.table(file.number).unwrap();
        let mut in_order = Vec::new();
        let mut entries = table.entries();
        while let Some(entry) = entries.next_entry().unwrap() {
            in_order.push(entry.user_key.to_vec());
        }
        let mut by_block = Vec::new();
        let all = |blocks: usize| {
            assert!(blocks > 1, "{blocks}");
            (0..blocks).collect()
        };
        table.each_key_of_blocks(all, |key| by_block.push(key.to_vec())).unwrap();
        assert_eq!(by_block, in_order);
    }
    assert!(db.table(u64::MAX).is_none());
}
