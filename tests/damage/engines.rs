//! Files and directories of other programs: each is identified, and left unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use maypole::annotate::AnnotatedFile;
use maypole::filter::Family;
use maypole::table::{FilterKeys, PrefixExtractor, SstReader, SstWriter, TableOptions};
use maypole::{Compression, Db, Error};

use crate::tables::{Table, directories, leveldb_table, pebble_table, record_log};

/// Every name in a directory, with its content.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let bytes =
        |path: &Path| if path.is_dir() { b"a directory".to_vec() } else { fs::read(path).unwrap() };
    entries.map(|it| (it.file_name().into_string().unwrap(), bytes(&it.path()))).collect()
}

fn put(dir: &Path, files: &[(&'static str, Vec<u8>)]) {
    files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
}

/// Makes a call for the database at this path, and returns its error if it fails.
type Call = fn(&Path) -> Option<Error>;

const CALLS: [(&str, Call); 6] = [
    ("repair", |path| Db::repair(path).err()),
    ("destroy", |path| Db::destroy(path).err()),
    ("open_read_only", |path| Db::open_read_only(path).err()),
    ("open an existing one", |path| Db::builder(path).create_if_missing(false).open().err()),
    ("published_stats", |path| Db::builder(path).published_stats().err()),
    ("open", |path| Db::open(path).err()),
];

/// Regression: `repair` of a healthy directory of RocksDB replaced its CURRENT, moved its files to
/// `lost/`, and reported "lost: nothing", although no log had been read; RocksDB could not open it
/// afterwards. `stats` and `verify` reported that its MANIFEST was damaged. Now each call names the
/// owner of the directory, and every byte of it stays unchanged.
#[test]
fn directories_of_other_engines_are_named_and_left_as_they_are() {
    for (what, files) in directories() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &files);
        let before = contents(dir.path());
        for (call, run) in CALLS {
            if (call, what) == ("open", "a database of SQLite") {
                // If a directory has a database in a single file, such as SQLite's, `open` creates
                // a new database next to this file, on purpose.
                continue;
            }
            let Some(error) = run(dir.path()) else { panic!("{call} of {what}: no error") };
            let text = error.to_string();
            assert!(matches!(error, Error::Unsupported { .. }), "{call} of {what}: {text}");
            assert!(
                text.contains(&format!("this is {what}; it was left untouched")),
                "{call}: {text}"
            );
            assert!(!text.contains('\n'));
            assert!(contents(dir.path()) == before, "{call} of {what} changed the directory");
        }
    }
}

/// Regression: if the target of a checkpoint, or of a copy with other filters, was the directory of
/// another engine, the call was rejected with "not empty". Now the error names the engine, and the
/// directory stays unchanged.
#[test]
fn copies_to_directories_of_other_engines_are_refused_by_name() {
    let own = tempfile::tempdir().unwrap();
    let db = Db::open(own.path()).unwrap();
    db.put("key", "value").unwrap();
    for (what, files) in directories() {
        if what == "a database of SQLite" {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &files);
        let before = contents(dir.path());
        let copies = [
            ("checkpoint", db.checkpoint(dir.path())),
            (
                "copy_with_filters",
                db.copy_with_filters(dir.path(), &maypole::FilterPolicy::default()),
            ),
        ];
        for (call, made) in copies {
            let error = made.unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{call} to {what}: {error}");
            let text = error.to_string();
            assert!(text.contains(&format!("this is {what}; it was left untouched")), "{text}");
            assert!(contents(dir.path()) == before, "{call} to {what} changed the directory");
        }
    }
}

/// A directory with a database of Maypole is recognized as Maypole's even if it also has files of
/// another engine, and even if its MANIFEST is damaged.
#[test]
fn a_directory_of_ours_is_not_taken_for_another_engines() {
    for (what, files) in directories() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        db.put("ours", "1").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        for (name, bytes) in &files {
            if !dir.path().join(name).exists() && !name.starts_with("MANIFEST-") {
                fs::write(dir.path().join(name), bytes).unwrap();
            }
        }
        let db = Db::open(dir.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(db.get("ours").unwrap().unwrap(), b"1");
        db.close().unwrap();
    }
    // The first byte of the MANIFEST is damaged.
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    db.put("ours", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let named = contents(dir.path());
    let (name, mut bytes) =
        named.into_iter().find(|(name, _)| name.starts_with("MANIFEST-")).unwrap();
    bytes[0] ^= 1;
    fs::write(dir.path().join(name), bytes).unwrap();
    assert!(matches!(Db::open(dir.path()), Err(Error::Corruption { .. })));
    Db::repair(dir.path()).unwrap();
    assert_eq!(Db::open(dir.path()).unwrap().get("ours").unwrap().unwrap(), b"1");
}

/// Files of other programs, and the name of each.
fn foreign_files() -> Vec<(&'static str, Vec<u8>)> {
    let ends_with = |magic: u64| [&[7; 100][..], &magic.to_le_bytes()].concat();
    let starts_with = |magic: &[u8]| [magic, &[0; 200]].concat();
    let mut files = vec![
        ("a table of LevelDB", leveldb_table(&[("k", 1, 1, "v")])),
        ("a plain table of RocksDB", ends_with(0x8242_2296_63bf_9564)),
        ("a plain table of RocksDB", ends_with(0x4f34_18eb_7a8f_13b8)),
        ("a cuckoo table of RocksDB", ends_with(0x9267_89d0_c5f1_7873)),
        ("an HFile", starts_with(b"DATABLK*")),
        ("a Parquet file", starts_with(b"PAR1")),
        ("a database of SQLite", starts_with(b"SQLite format 3\0")),
        ("a file that gzip compressed", starts_with(&[0x1f, 0x8b, 8])),
        ("a file that zstd compressed", starts_with(&[0x28, 0xb5, 0x2f, 0xfd])),
        ("text in UTF-16", starts_with(&[0xff, 0xfe])),
        ("a text file", b"key\tvalue\n".repeat(30)),
        ("a write-ahead log of LevelDB, RocksDB or Pebble", record_log(&[vec![0; 12]])),
        (
            "a MANIFEST of LevelDB, RocksDB or Pebble",
            record_log(&[b"\x01\x0bXComparator".to_vec()]),
        ),
    ];
    for (version, name) in ["v1", "v2", "v3", "v4", "v5", "v6", "v7"].into_iter().enumerate() {
        let name = format!("a table of Pebble, in its own format {name}");
        files.push((name.leak(), pebble_table(version as u32 + 1)));
    }
    files
}

/// Regression: a table of Pebble, a plain table, a table of LevelDB and a text file were all
/// reported as "damaged", with a magic number in hexadecimal. Now the error names each kind, in
/// every call that takes a file.
#[test]
fn files_of_other_programs_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file.sst");
    let db = Db::open(dir.path().join("db")).unwrap();
    for (what, bytes) in foreign_files() {
        fs::write(&path, &bytes).unwrap();
        let opened = SstReader::open(&path).err();
        let ingested = db.ingest(&[&path]).err();
        let repaired = Db::repair(&path).err();
        for (call, error) in [("open", opened), ("ingest", ingested), ("repair", repaired)] {
            let text = error.unwrap_or_else(|| panic!("{call}: {what}")).to_string();
            assert!(text.contains(&format!("this is {what}")), "{call} of {what}: {text}");
            assert!(text.contains("left untouched") && text.contains("file.sst"), "{text}");
        }
        let dump = AnnotatedFile::open(&path).unwrap().to_string();
        assert!(dump.contains(&format!("this is {what}")), "{what}: {}", &dump[..300]);
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    assert!(db.is_empty().unwrap());
    // A file that has no known format is still reported as damaged.
    fs::write(&path, [7; 300]).unwrap();
    assert!(matches!(SstReader::open(&path), Err(Error::Corruption { .. })));
    let listed = db.ingest(&[dir.path()]).err().unwrap();
    assert!(matches!(listed, Error::Io { .. }), "{listed}");
}

/// Regression: if a directory to be repaired had tables of another format, `repair` moved them to
/// `lost/` as damaged. Now it rejects the directory.
#[test]
fn a_repair_refuses_tables_of_other_formats_and_orders() {
    let own = Table::new(&[("a", 1, 1, "1")]).bytes();
    let reversed = Table::new(&[("a", 1, 1, "1")])
        .with("rocksdb.comparator", b"rocksdb.ReverseBytewiseComparator");
    let separated =
        Table::new(&[("a", 1, 1, "1")]).with("rocksdb.separate.key.value.in.data.block", &[1]);
    let cases = [
        (pebble_table(3), "a table of Pebble"),
        ([&[7; 100][..], &0x8242_2296_63bf_9564_u64.to_le_bytes()].concat(), "a plain table"),
        (reversed.bytes(), "the comparator rocksdb.ReverseBytewiseComparator"),
        (separated.bytes(), "keys and values are stored apart"),
    ];
    for (bytes, what) in cases {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &[("000001.sst", own.clone()), ("000002.sst", bytes)]);
        let before = contents(dir.path());
        let text = Db::repair(dir.path()).err().unwrap().to_string();
        assert!(text.contains("000002.sst") && text.contains(what), "{text}");
        assert!(contents(dir.path()) == before);
    }
}

/// Regression: `repair` made one tree of tables of several column families, so that equal keys of two
/// families hid each other. Now each family becomes a keyspace, with the number of a family whose
/// name is lost in its name.
#[test]
fn a_repair_does_not_mix_column_families() {
    let of_family = |family: u64, name: &str, value| {
        let entries = vec![("k", family + 1, 1, value)];
        Table::new(&entries)
            .with("rocksdb.column.family.id", &crate::tables::varint(family))
            .with("rocksdb.column.family.name", name.as_bytes())
            .bytes()
    };
    let dir = tempfile::tempdir().unwrap();
    put(
        dir.path(),
        &[
            ("000001.sst", of_family(0, "default", "of default")),
            ("000002.sst", of_family(3, "users", "of users")),
            ("000003.sst", of_family(4, "", "of 4")),
        ],
    );
    let report = Db::repair(dir.path()).unwrap();
    assert!(report.changed && report.losses.is_empty(), "{report}");
    let db = Db::open(dir.path()).unwrap();
    let names = [&b"default"[..], b"keyspace 4", b"users"];
    assert_eq!(db.keyspaces(), names);
    for (name, value) in names.iter().zip(["of default", "of 4", "of users"]) {
        let found = db.keyspace(name).unwrap().get("k").unwrap();
        assert_eq!(found.unwrap(), value.as_bytes());
    }
}

/// Regression: if CURRENT and the MANIFEST were missing, the error was "there is no database here",
/// without a hint to `repair`, which brings all entries back. If the directory had no tables,
/// because all writes were in a log, `open` even created a new database in it and deleted the log.
/// Now every call but `repair` fails with a hint to `repair`, and changes no file.
#[test]
fn a_lost_current_and_manifest_lead_to_repair() {
    for in_tables in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        (0..100).for_each(|n| db.put(format!("key{n}"), "value").unwrap());
        db.persist().unwrap();
        if in_tables {
            db.flush().unwrap();
            db.close().unwrap();
        } else {
            // All files are put back as they were while the database was open.
            let copy = tempfile::tempdir().unwrap();
            contents(dir.path())
                .iter()
                .for_each(|(name, bytes)| fs::write(copy.path().join(name), bytes).unwrap());
            drop(db);
            contents(dir.path())
                .keys()
                .for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
            contents(copy.path())
                .iter()
                .for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
        }
        for name in contents(dir.path()).into_keys() {
            if name == "CURRENT" || name.starts_with("MANIFEST-") {
                fs::remove_file(dir.path().join(name)).unwrap();
            }
        }
        let before = contents(dir.path());
        for (call, run) in CALLS.into_iter().filter(|(call, _)| *call != "repair") {
            let error = run(dir.path()).unwrap_or_else(|| panic!("{call}: no error"));
            let text = error.to_string();
            assert!(text.contains("repair"), "tables {in_tables}: {call}: {text}");
            let now = contents(dir.path());
            assert!(before.keys().all(|name| now[name] == before[name]), "{call} changed files");
        }
        let mut lost = contents(dir.path());
        lost.retain(|name, _| name.ends_with(".sst") || name.ends_with(".wal"));
        assert!(!lost.is_empty());
        fs::remove_dir_all(dir.path()).unwrap();
        fs::create_dir(dir.path()).unwrap();
        lost.iter().for_each(|(name, bytes)| fs::write(dir.path().join(name), bytes).unwrap());
        Db::repair(dir.path()).unwrap();
        assert_eq!(Db::open(dir.path()).unwrap().len().unwrap(), 100);
    }
}

/// Regression: RocksDB may write the sequence number of an ingestion into the table without
/// updating the checksum of the changed block. `inspect --annotate` printed "checksum WRONG",
/// although `inspect` and `sst_dump` accept the table. Now it says that the checksum is that of the
/// block before the ingestion.
#[test]
fn a_sequence_number_that_was_written_in_place_is_no_damage_in_a_dump() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sst");
    let mut bytes = Table::external(&[("k", 0, 1, "v")]).bytes();
    let name = b"rocksdb.external_sst_file.global_seqno";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    bytes[at..at + 8].copy_from_slice(&77u64.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let mut entries = SstReader::open(&path).unwrap().entries();
    assert_eq!(entries.next_entry().unwrap().unwrap().sequence, 77);
    let dump = AnnotatedFile::open(&path).unwrap().to_string();
    assert!(!dump.contains("WRONG") && dump.contains("before an ingestion"), "{dump}");
    // Any other change of the block is still reported.
    bytes[at - 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(AnnotatedFile::open(&path).unwrap().to_string().contains("WRONG"));
}

/// Regression: `inspect --annotate` called RocksDB's old block-based filter "a block of an unknown
/// kind". Now it names the filter.
#[test]
fn a_block_based_filter_has_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sst");
    let filter = [&[0xff; 20][..], &0u32.to_le_bytes(), &20u32.to_le_bytes(), &[11]].concat();
    Table::new(&[("k", 1, 1, "v")])
        .with_block("filter.rocksdb.BuiltinBloomFilter", &filter)
        .with_block("rocksdb.hashindex.prefixes", b"k")
        .write(&path);
    let dump = AnnotatedFile::open(&path).unwrap().to_string();
    assert!(dump.contains("Block-based filter at") && dump.contains("filters: 1"), "{dump}");
    assert!(dump.contains("Prefixes of the hash index"), "{dump}");
    assert!(!dump.contains("Unknown block"), "{dump}");
}

/// Regression: if Maypole does not know the prefix extractor of a table, no lookup queries the
/// table's filter of key prefixes. Such a filter was reported as "none", of "a kind that is not
/// read here", even if it was a Bloom filter. Now the report has its family, and the reason why no
/// lookup queries it.
#[test]
fn a_filter_of_prefixes_of_an_unknown_extractor_has_its_family() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sst");
    let options = TableOptions {
        compression: Compression::None,
        filter_keys: FilterKeys::Prefix(PrefixExtractor::fixed(4).unwrap()),
        ..TableOptions::default()
    };
    let mut writer = SstWriter::create(&path, options).unwrap();
    (0..500).for_each(|n| writer.put(format!("key{n:04}").as_bytes(), b"v").unwrap());
    writer.finish().unwrap();
    assert_eq!(SstReader::open(&path).unwrap().filter_is_unasked(), None);
    let family = |table: &SstReader| table.filter().unwrap().unwrap().family;
    assert_eq!(family(&SstReader::open(&path).unwrap()), Some(Family::Bloom));

    let (name, other) = (b"rocksdb.FixedPrefix.4", b"a.users.PrefixOf.Rows");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at..at + name.len()].copy_from_slice(other);
    let table = SstReader::open(&path).unwrap();
    let (_, handle) =
        table.metaindex().iter().find(|(name, _)| name == "rocksdb.properties").unwrap();
    let (start, end) = (handle.offset as usize, (handle.offset + handle.bytes) as usize);
    // The checksum of a block that is not compressed is the lower half of its payload's XXH3.
    let checksum = twox_hash::XxHash3_64::oneshot(&bytes[start..end]) as u32;
    bytes[end + 1..end + 5].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let table = SstReader::open(&path).unwrap();
    assert_eq!(family(&table), Some(Family::Bloom));
    assert!(table.filter_is_unasked().unwrap().contains("a.users.PrefixOf.Rows"));
    assert!(table.may_contain(b"absent").unwrap(), "nobody asks it");
    assert_eq!(table.verify().unwrap().filter_misses, 0);
}
