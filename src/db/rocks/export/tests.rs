//! Exports are checked in two ways: our reader of RocksDB's directories reads them, and the tests
//! apply those rules of RocksDB's that this reader does not enforce.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::db::{Builder, Db, RocksDb};
use crate::encoding::key;
use crate::fs::{Fs, MemFs};
use crate::rocksdb::Directory;
use crate::table::format::identity::Creator;
use crate::table::{Dialect, SstWriter, TableBuilder, TableOptions};

const DIR: &str = "/rocks";

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder(fs: &MemFs) -> Builder {
    Db::builder("/db").fs(Arc::new(fs.clone()))
}

fn exported(fs: &MemFs) -> RocksDb {
    Db::builder(DIR).fs(Arc::new(fs.clone())).open_rocksdb().unwrap()
}

fn entries(db: &Db) -> Entries {
    db.iter().map(|entry| entry.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
}

/// Checks that each way of reading finds `expected`, and no other of `keys`.
fn check_reads(db: &Db, expected: &Entries, keys: &[String]) {
    assert_eq!(&entries(db), expected);
    let mut cursor = db.cursor();
    cursor.seek_to_last().unwrap();
    for (key, value) in expected.iter().rev() {
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    for key in keys {
        let value = expected.get(key.as_bytes()).map(|value| &value[..]);
        assert_eq!(db.get(key).unwrap().as_deref(), value, "{key}");
    }
    assert_eq!(db.verify().unwrap().filter_misses, 0);
}

/// Checks what RocksDB demands of the MANIFEST and of the tables that it lists.
fn check_manifest(fs: &MemFs) {
    let dir = Path::new(DIR);
    let read = Directory::read(fs, dir).unwrap();
    let family = &read.manifest.families[&0];
    assert_eq!(family.refusal(), None);
    for name in fs.list(dir).unwrap() {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let number: u64 = digits.parse().unwrap_or(0);
        assert!(number < read.manifest.next_file, "{name}, next {}", read.manifest.next_file);
    }
    let db = exported(fs).column_family("default").unwrap();
    let state = db.inner.tree.reading.current();
    assert_eq!(state.sources.version.files().count(), family.tables.len());
    for (level, file) in state.sources.version.files() {
        let listed = &family.tables[&file.meta.number];
        assert_eq!(listed.level as usize, level);
        assert_eq!(listed.file_bytes, fs.open(file.path()).unwrap().len());
        let properties = file.table.properties();
        assert_eq!(listed.identity, properties.identity());
        assert!(listed.identity.is_some());
        assert!(listed.largest_sequence <= read.manifest.last_sequence);
        if properties.raw(property::EXTERNAL_VERSION).is_some() {
            assert!(listed.largest_sequence > 0);
            assert_eq!(key::sequence(&listed.smallest), listed.largest_sequence);
        } else {
            let stated = properties.number(property::LARGEST_SEQUENCE);
            assert_eq!(stated, Some(listed.largest_sequence));
        }
    }
    let mut level_0: Vec<_> = family.tables.values().filter(|table| table.level == 0).collect();
    level_0.sort_by_key(|it| (it.largest_sequence, it.smallest_sequence, it.number));
    let numbers = level_0.iter().rev().map(|it| (it.smallest_sequence, it.largest_sequence));
    check_level_0(&numbers.collect::<Vec<_>>());
}

/// RocksDB's check of level 0 (`VersionBuilder::CheckConsistencyDetails`), newest first.
fn check_level_0(files: &[(u64, u64)]) {
    for pair in files.windows(2) {
        let [(newer_smallest, newer_largest), (smallest, largest)] = [pair[0], pair[1]];
        assert!((newer_largest, newer_smallest) > (largest, smallest), "{files:?}");
        match smallest == largest {
            true => assert!(smallest < newer_largest || smallest == 0, "{files:?}"),
            false => assert!(newer_smallest > smallest, "{files:?}"),
        }
    }
}

fn table_to_ingest(fs: &MemFs, name: &str, keys: &[&str], ranges: &[(&str, &str)]) -> String {
    let path = format!("/{name}.sst");
    let mut writer =
        SstWriter::create_in(Arc::new(fs.clone()), &path, TableOptions::default()).unwrap();
    for key in keys {
        writer.put(key.as_bytes(), name.as_bytes()).unwrap();
    }
    for (start, end) in ranges {
        writer.delete_range(start.as_bytes(), end.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A tree with everything that a tree may hold: several levels; versions that a snapshot keeps;
/// deletions and range deletions; ingested tables over older keys.
#[test]
fn an_export_reads_as_the_database_does() {
    let fs = MemFs::new();
    let db = builder(&fs).table_bytes(4096).level_base_bytes(8192).open().unwrap();
    let key = |n: u32| format!("{n:05}");
    let keys: Vec<String> = (0..3000).map(key).collect();
    for n in 0..2000 {
        db.put(key(n), format!("first {n}")).unwrap();
    }
    db.compact_range(..).unwrap();
    let snapshot = db.snapshot();
    for n in (0..2000).step_by(3) {
        db.put(key(n), format!("second {n}")).unwrap();
    }
    db.delete_range(key(100)..key(200)).unwrap();
    db.put(key(150), "again").unwrap();
    db.flush().unwrap();
    // The flush writes a long run of deletions to a table of its own. So the keys before the run,
    // and the keys after it, get a table each.
    for n in (1100..1500).chain([3, 1900]) {
        db.delete(key(n)).unwrap();
    }
    for n in [1000, 2500, 1700] {
        db.put(key(n), "third").unwrap();
    }
    db.flush().unwrap();
    let files = [
        table_to_ingest(&fs, "one", &["00001", "00002"], &[]),
        table_to_ingest(&fs, "two", &["00150"], &[("00300", "00350")]),
        table_to_ingest(&fs, "three", &["01200", "02999"], &[]),
    ];
    db.ingest(&files).unwrap();
    db.put(key(2), "last").unwrap();

    let report = db.export_rocksdb(DIR, None).unwrap();
    let expected = entries(&db);
    assert!(report.linked > 1);
    assert_eq!((report.copied, report.refiltered, report.unknown_filters), (0, 0, 0));
    assert_eq!(report.filter_policy.as_deref(), Some("bloomfilter:10:false"));
    check_manifest(&fs);
    let rocks = exported(&fs);
    check_reads(&rocks.column_family("default").unwrap(), &expected, &keys);
    assert_eq!(snapshot.get(key(3)).unwrap().unwrap(), b"first 3");
    // The export is imported again.
    rocks.import("default", "/back").unwrap();
    let back = Db::builder("/back").fs(Arc::new(fs.clone())).open().unwrap();
    check_reads(&back, &expected, &keys);
    back.compact_range(..).unwrap();
    check_reads(&back, &expected, &keys);
}

/// Regression: RocksDB refused to open an export whose level 0 held tables of one flush, whose
/// sequence numbers interleave, or of one ingestion, which have the same sequence number. Now the
/// export lists other smallest numbers for them. Level 0 has only three tables here, so that no
/// compaction starts.
#[test]
fn a_level_0_of_one_flush_and_one_ingestion_is_one_that_rocksdb_opens() {
    let key = |key: &str, sequence| key::internal_key(key.as_bytes(), sequence, 1);
    let external = |fs: &MemFs, number: u64, first: &str| {
        let path = table_to_ingest(fs, "x", &[first], &[]);
        let to = format!("/source/{number:06}.sst");
        fs.rename(Path::new(&path), Path::new(&to)).unwrap();
        let (smallest, largest) = (key(first, 20), key(first, 20));
        ListedTable {
            smallest_sequence: 20,
            largest_sequence: 20,
            smallest,
            largest,
            number,
            ..ListedTable::default()
        }
    };
    for is_ingested in [false, true] {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/source")).unwrap();
        let newest_of_older = if is_ingested { 19 } else { 9 };
        let older = table_of(&fs, 10, &[("a", newest_of_older), ("z", 3)]);
        let mut tables = match is_ingested {
            false => vec![
                table_of(&fs, 11, &[("a", 10), ("c", 40)]),
                table_of(&fs, 12, &[("m", 35), ("z", 15)]),
            ],
            true => vec![external(&fs, 11, "a"), external(&fs, 12, "z")],
        };
        tables.push(older);
        for table in &mut tables {
            let path = format!("/source/{:06}.sst", table.number);
            table.file_bytes = fs.open(Path::new(&path)).unwrap().len();
        }
        let source = NewDatabase {
            identity: new_db_identity(),
            last_sequence: 40,
            largest_family: 0,
            families: vec![NewFamily {
                id: 0,
                name: b"default".to_vec(),
                comparator: BYTEWISE_COMPARATOR.into(),
                tables,
                filter_policy: None,
            }],
        };
        source.write(&fs, Path::new("/source")).unwrap();
        let rocks = Db::builder("/source").fs(Arc::new(fs.clone())).open_rocksdb().unwrap();
        rocks.import("default", "/db").unwrap();
        let db = builder(&fs).open().unwrap();
        assert_eq!(db.stats().levels[0].files, 3);
        db.export_rocksdb(DIR, None).unwrap();
        check_manifest(&fs);
        let keys = ["a", "c", "m", "z"].map(str::to_owned);
        let (expected, newest) = (entries(&db), if is_ingested { "x" } else { "10" });
        assert_eq!(expected[&b"a"[..]], newest.as_bytes());
        check_reads(&exported(&fs).column_family("default").unwrap(), &expected, &keys);
    }
}

/// Writes a table of level 0 in which each value is the sequence number of its entry.
fn table_of(fs: &MemFs, number: u64, keys: &[(&str, u64)]) -> ListedTable {
    let file = fs.create(Path::new(&format!("/source/{number:06}.sst"))).unwrap();
    let dialect = Dialect::Database { file_number: number };
    let creator = Creator::new(new_db_identity());
    let builder = TableBuilder::new(file, TableOptions::default(), dialect).unwrap();
    let mut builder = builder.created_by(&creator);
    for (user_key, sequence) in keys {
        let internal_key = key::internal_key(user_key.as_bytes(), *sequence, 1);
        builder.add(&internal_key, sequence.to_string().as_bytes()).unwrap();
    }
    let summary = builder.finish().unwrap();
    ListedTable {
        number,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_sequence: summary.smallest_sequence,
        largest_sequence: summary.largest_sequence,
        ..ListedTable::default()
    }
}

#[test]
fn an_empty_database_and_one_of_a_thousand_tables_are_exported() {
    for count in [0u32, 1000] {
        let fs = MemFs::new();
        // With this table size, tables of one key do not count as small, so no compaction merges
        // them before the export.
        let db = builder(&fs).table_bytes(8 << 10).open().unwrap();
        let keys: Vec<String> = (0..count).map(|n| format!("{n:04}")).collect();
        let files: Vec<String> =
            keys.iter().map(|key| table_to_ingest(&fs, key, &[key], &[])).collect();
        db.ingest(&files).unwrap();
        db.wait_for_compaction().unwrap();
        let report = db.export_rocksdb(DIR, None).unwrap();
        assert_eq!(report.linked, count as usize);
        assert_eq!(report.filter_policy.is_some(), count > 0);
        check_manifest(&fs);
        check_reads(&exported(&fs).column_family("default").unwrap(), &entries(&db), &keys);
    }
}

/// RocksDB ignores the names of Maypole's own filters.
#[test]
fn filters_that_rocksdb_does_not_know_are_counted_or_written_again() {
    let policy = |text: &str| -> FilterPolicy { text.parse().unwrap() };
    for (own, unknown, stated) in [
        ("burr(7)", 1, Some("bloomfilter:10.3:false")),
        ("fuse(9.1)", 1, Some("bloomfilter:12.1:false")),
        ("ribbon(7)", 0, Some("ribbonfilter:9.8")),
        ("ribbon_like_bloom(12)", 0, Some("ribbonfilter:12")),
        ("bloom(14.5)", 0, Some("bloomfilter:14.5:false")),
        ("fpr(0.01)", 0, Some("bloomfilter:9.9:false")),
        ("none", 0, None),
    ] {
        let fs = MemFs::new();
        let db = builder(&fs).filter(policy(own)).open().unwrap();
        let keys: Vec<String> = (0..3000).map(|n| format!("{n:04}")).collect();
        keys.iter().for_each(|key| db.put(key, "value").unwrap());
        let report = db.export_rocksdb(DIR, None).unwrap();
        assert_eq!((report.unknown_filters, report.linked), (unknown, 1), "{own}");
        assert_eq!(report.filter_policy.as_deref(), stated, "{own}");
        let options = Directory::read(&fs, Path::new(DIR)).unwrap().options.unwrap();
        let in_force = options.table(b"default", "filter_policy").unwrap();
        assert_eq!(in_force, stated.unwrap_or("nullptr"), "{own}");
        check_reads(&exported(&fs).column_family("default").unwrap(), &entries(&db), &keys);

        let again = policy("levels(ribbon(8), ribbon(7))");
        let report = db.export_rocksdb("/again", Some(&again)).unwrap();
        assert_eq!((report.unknown_filters, report.refiltered, report.linked), (0, 1, 0), "{own}");
        assert!(report.filter_policy.unwrap().starts_with("ribbonfilter:"));
        let rocks = Db::builder("/again").fs(Arc::new(fs.clone())).open_rocksdb().unwrap();
        let read = rocks.column_family("default").unwrap();
        check_reads(&read, &entries(&db), &keys);
        let filter = read.stats().files[0].filter.clone().unwrap();
        assert_eq!(filter.family.unwrap().name(), "ribbon");
        assert_eq!(report.file_bytes, read.stats().files[0].file_bytes);
    }
    let fs = MemFs::new();
    let db = builder(&fs).open().unwrap();
    for refused in ["burr(7)", "levels(bloom(10), fuse(9))", "budget(7/key, burr)"] {
        let error = db.export_rocksdb(DIR, Some(&policy(refused))).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(!fs.exists(Path::new(DIR)).unwrap());
    }
}

#[test]
fn one_comparator_is_kept_and_several_are_refused() {
    let path = Path::new("000007.sst");
    let named = |names: &[Option<&str>]| one_comparator(names.iter().map(|name| (path, *name)));
    assert_eq!(named(&[]).unwrap(), BYTEWISE_COMPARATOR);
    assert_eq!(named(&[None, Some(BYTEWISE_COMPARATOR)]).unwrap(), BYTEWISE_COMPARATOR);
    assert_eq!(named(&[Some("RocksDB_SE_v3.10"); 2]).unwrap(), "RocksDB_SE_v3.10");
    // RocksDB 4 wrote names in this form, in tables but not in a MANIFEST.
    let old = "rocksdb.InternalKeyComparator:leveldb.BytewiseComparator";
    assert_eq!(named(&[Some(old), None]).unwrap(), BYTEWISE_COMPARATOR);
    let error = named(&[Some("RocksDB_SE_v3.10"), None]).unwrap_err();
    assert!(error.to_string().contains("RocksDB_SE_v3.10"), "{error}");
}

/// Regression: level 0 held tables of one flush, whose sequence numbers interleave, and of one
/// ingestion, which have the same sequence number. RocksDB refused to open an export of such a
/// level. Now [`descend`] replaces the smallest numbers that RocksDB would not accept.
#[test]
fn smallest_sequence_numbers_of_level_0_descend() {
    let listed = |&(smallest_sequence, largest_sequence): &(u64, u64)| ListedTable {
        smallest_sequence,
        largest_sequence,
        ..ListedTable::default()
    };
    let descended = |files: &[(u64, u64)]| {
        let mut tables: Vec<ListedTable> = files.iter().map(listed).collect();
        descend(&mut tables).then(|| {
            // The largest sequence numbers stay the same, because the largest one of an ingested
            // table is the sequence number of all its entries.
            assert!(tables.iter().map(|it| it.largest_sequence).eq(files.iter().map(|it| it.1)));
            let mut files: Vec<_> =
                tables.iter().map(|it| (it.smallest_sequence, it.largest_sequence)).collect();
            files.sort_by_key(|&(smallest, largest)| std::cmp::Reverse((largest, smallest)));
            check_level_0(&files);
            files
        })
    };
    let same = |files: &[(u64, u64)]| assert_eq!(descended(files).unwrap(), files);
    same(&[]);
    same(&[(41, 50), (30, 40), (20, 20), (3, 19)]);
    same(&[(30, 40), (35, 35), (3, 29)]);
    same(&[(5, 9), (0, 0)]);
    // Tables of one flush, of one ingestion, and of both.
    assert_eq!(descended(&[(10, 40), (15, 35), (3, 9)]).unwrap(), [(10, 40), (35, 35), (3, 9)]);
    assert_eq!(descended(&[(20, 20); 3]).unwrap(), [(20, 20), (19, 20), (18, 20)]);
    assert_eq!(descended(&[(10, 20), (10, 20)]).unwrap(), [(10, 20), (9, 20)]);
    assert_eq!(descended(&[(2, 2); 4]), None, "there are not enough numbers");
    // If the largest numbers differ, any smallest numbers can be made to descend.
    let mut state = 7u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..2000 {
        let mut files = BTreeMap::new();
        for _ in 0..random(12) {
            let largest = random(30);
            files.insert(largest, random(largest + 1));
        }
        let files: Vec<(u64, u64)> = files.into_iter().map(|(l, s)| (s, l)).collect();
        assert!(descended(&files).is_some());
    }
    // Deeper levels stay as they are.
    let deep = |level| ListedTable { level, ..listed(&(10, 40)) };
    let mut tables = [deep(1), deep(0), deep(2)];
    assert!(descend(&mut tables));
    assert_eq!(tables, [deep(1), deep(0), deep(2)]);
}
