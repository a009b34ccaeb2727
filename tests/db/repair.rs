//! Repair: a file of a database is damaged, missing or exchanged. The database is repaired, opened,
//! and compared with what was written.
//!
//! Every case asserts:
//!
//! - the repair ends without an error, and the database opens and verifies;
//! - each key has its last value; or the report says that this value may be lost, and the key has
//!   an older value or none;
//! - there is no other key, and files that left the database are in its directory `lost`;
//! - a second repair finds the database sound.
//!
//! All cases are in one source file, because they share the database that is made at its head.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use maypole::fs::{Fault, FaultFs, Fs, MemFs, Operation, Target};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, Durability, Error, RepairReport, WriteBatch};

use super::copy_files;
use super::ingest::read;

/// Every value that a key has had, oldest first; `None`: it was deleted.
type History = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

struct Case {
    dir: tempfile::TempDir,
    history: History,
}

/// What may be wrong in a database after a repair.
#[derive(Clone, Copy, PartialEq)]
enum Allowed {
    /// Nothing: each key has its last value.
    Nothing,
    /// Only what the report says.
    Reported,
    /// Nothing: each key has its last value. But the report may say that some might not, because
    /// the repair cannot know better.
    NothingUnknown,
}

fn options(path: &Path) -> Builder {
    Db::builder(path)
        .memtable_bytes(32 << 10)
        .table_bytes(16 << 10)
        .level_base_bytes(32 << 10)
        .block_bytes(512)
        .compaction_threads(2)
}

impl Case {
    fn path(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    fn put(&mut self, db: &Db, number: u32, value: Option<String>) {
        let key = format!("key {number:05}");
        match &value {
            Some(value) => db.put(&key, value).unwrap(),
            None => db.delete(&key).unwrap(),
        }
        self.history.entry(key.into()).or_default().push(value.map(String::into_bytes));
    }

    /// A tree of several levels whose tables overlap in keys and in sequence numbers, with
    /// tombstones, a deleted range and an ingested table. If `with_log`, the newest writes are only
    /// in a log.
    fn new(with_log: bool) -> Case {
        let mut case = Case { dir: tempfile::tempdir().unwrap(), history: History::new() };
        let db = options(&case.path()).open().unwrap();
        for round in 0..4u32 {
            for i in 0..1500 {
                // Each round writes other keys, so that the tables of a level differ in age.
                let number = (i * 7 + round * 900) % 3000;
                let value = format!("round {round} of {number} {}", "x".repeat(40));
                case.put(&db, number, (i % 11 != round).then_some(value));
            }
            db.flush().unwrap();
            if round == 1 {
                db.wait_for_compaction().unwrap();
                let outside = case.dir.path().join("outside.sst");
                let mut writer = SstWriter::create(&outside, TableOptions::default()).unwrap();
                for number in (0..3000u32).step_by(50) {
                    let (key, value) = (format!("key {number:05}"), format!("ingested {number}"));
                    writer.put(key.as_bytes(), value.as_bytes()).unwrap();
                    case.history.entry(key.into()).or_default().push(Some(value.into()));
                }
                writer.finish().unwrap();
                db.ingest(&[&outside]).unwrap();
            }
            if round == 2 {
                db.delete_range("key 01000".."key 01100").unwrap();
                for values in case.history.range_mut(b"key 01000".to_vec()..b"key 01100".to_vec()) {
                    values.1.push(None);
                }
            }
        }
        db.wait_for_compaction().unwrap();
        // Something in level 0 too.
        for number in 0..300 {
            case.put(&db, number * 10, Some(format!("late {number}")));
        }
        db.flush().unwrap();
        if with_log {
            for number in 0..200 {
                case.put(&db, number * 13, (number % 5 > 0).then(|| format!("in a log {number}")));
                if number % 50 == 0 {
                    db.persist().unwrap();
                }
            }
            db.write_opt(WriteBatch::new(), Durability::Sync).unwrap();
        }
        db.close().unwrap();
        case
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.ends_with(extension) || name.starts_with(extension)
            })
            .collect();
        files.sort();
        files
    }

    fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    /// Repairs the database and checks the result.
    fn repaired(&self, allowed: Allowed) -> RepairReport {
        self.repaired_with(options(&self.path()), allowed)
    }

    fn repaired_with(&self, options: Builder, allowed: Allowed) -> RepairReport {
        let before = self.all_files();
        let report = options.repair().unwrap();
        println!("{report}");
        assert!(report.changed, "it was damaged");
        if allowed == Allowed::Nothing {
            assert!(report.losses.is_empty() && !report.deleted_keys_may_return, "{report}");
        }
        // Every file still exists, under its name or in `lost`.
        let after = self.all_files();
        for (path, bytes) in before.iter().filter(|(path, _)| !path.ends_with("LOCK")) {
            let kept = after.values().any(|other| other == bytes);
            assert!(kept, "{} is gone", path.display());
        }
        let again = self::options(&self.path()).repair().unwrap();
        assert!(!again.changed, "{again}");
        assert_eq!(self.all_files(), after, "a second repair has changed something");
        self.check(&report, allowed);
        // The database continues to work.
        let db = self::options(&self.path()).open().unwrap();
        db.put("key 00000", "afterwards").unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(db.get("key 00000").unwrap().unwrap(), b"afterwards");
        db.close().unwrap();
        report
    }

    /// All files under the database's directory, and what is in them.
    fn all_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for dir in [self.path(), self.path().join("lost")] {
            for entry in fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    files.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    fn check(&self, report: &RepairReport, allowed: Allowed) {
        let db = options(&self.path()).open().unwrap();
        assert_eq!(db.verify().unwrap().filter_misses, 0);
        let may_differ = |key: &[u8]| report.losses.iter().any(|loss| loss.concerns(key));
        let mut found: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for entry in db.iter() {
            let (key, value) = entry.unwrap();
            found.insert(key.to_vec(), value.to_vec());
        }
        for (key, values) in &self.history {
            let got = db.get(key).unwrap().map(|value| value.to_vec());
            assert_eq!(got.as_ref(), found.get(key), "a lookup and a scan differ");
            let last = values.last().unwrap();
            if &got == last {
                continue;
            }
            let printed = key.escape_ascii();
            let got_text = got.as_ref().map(|value| value.escape_ascii().to_string());
            assert!(allowed == Allowed::Reported, "\"{printed}\" is {got_text:?}:\n{report}");
            let returns = last.is_none() && report.deleted_keys_may_return;
            assert!(
                may_differ(key) || returns,
                "\"{printed}\" is wrong, and nothing said so:\n{report}"
            );
            assert!(got.is_none() || values.contains(&got), "\"{printed}\" never had such a value");
        }
        assert!(found.keys().all(|key| self.history.contains_key(key)), "keys from nowhere");
        db.close().unwrap();
    }
}

#[test]
fn a_sound_database_is_left_as_it_is() {
    for with_log in [false, true] {
        let case = Case::new(with_log);
        let before = case.all_files();
        let report = Db::repair(case.path()).unwrap();
        assert!(!report.changed && report.tables > 3 && report.entries > 1000, "{report}");
        assert_eq!(case.all_files(), before);
        assert!(!case.path().join("lost").exists());
        case.check(&report, Allowed::Nothing);
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn without_current_the_newest_manifest_is_taken() {
    for with_log in [false, true] {
        for garbage in [None, Some("MANIFEST-9\n"), Some(""), Some("\0\0\0")] {
            let case = Case::new(with_log);
            let current = case.path().join("CURRENT");
            match garbage {
                None => fs::remove_file(&current).unwrap(),
                Some(garbage) => fs::write(&current, garbage).unwrap(),
            }
            assert!(options(&case.path()).open().is_err());
            case.repaired(Allowed::Nothing);
        }
    }
}

/// A table of a deeper level may hold a newer write than a table of a shallower level, if the two
/// writes are of different keys. So a repair that put all tables into level 0, in the order of
/// their largest sequence numbers, would return old values.
#[test]
fn a_newer_value_in_a_table_of_older_writes_is_found() {
    let mut case = Case { dir: tempfile::tempdir().unwrap(), history: History::new() };
    let path = case.path();
    let open = |table_bytes: u64| {
        let options = options(&path).table_bytes(table_bytes).level_base_bytes(4096);
        let options = options.memtable_bytes(1 << 20);
        // With one thread, because several threads would divide a compaction, and each would make a
        // table.
        options.compression(maypole::Compression::None).compaction_threads(1).open().unwrap()
    };
    let value = |age: &str| Some(format!("{age} {}", "x".repeat(40)));
    // Level 6 gets one table, and level 5 small tables with writes of two ages.
    let db = open(1 << 20);
    (0..3000).for_each(|number| case.put(&db, number, value("old")));
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let db = open(4096);
    for part in 0..4 {
        let numbers = if part < 2 { 0..150 } else { 2000..2060 };
        numbers.for_each(|number| case.put(&db, number, value(&format!("new {part}"))));
        db.flush().unwrap();
    }
    db.wait_for_compaction().unwrap();
    db.close().unwrap();
    // A compaction of one range moves the newer writes down into the table of level 6.
    let db = open(1 << 20);
    db.compact_range("key 02000".."key 02999").unwrap();
    let levels: Vec<usize> = db.stats().files.iter().map(|file| file.level).collect();
    let (fives, sixes) =
        (levels.iter().filter(|&&it| it == 5), levels.iter().filter(|&&it| it == 6));
    assert!(fives.count() > 0 && sixes.count() == 1, "{levels:?}");
    db.close().unwrap();
    case.files("MANIFEST").iter().for_each(|path| fs::remove_file(path).unwrap());
    case.repaired(Allowed::NothingUnknown);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn without_a_manifest_every_key_has_its_newest_value() {
    for with_log in [false, true] {
        let case = Case::new(with_log);
        case.files("MANIFEST").iter().for_each(|path| fs::remove_file(path).unwrap());
        assert!(options(&case.path()).open().is_err());
        let report = case.repaired(Allowed::NothingUnknown);
        assert!(report.deleted_keys_may_return);
        // Only the place of the ingested table among the others may be uncertain, and only if no
        // compaction has merged that table.
        assert!(report.losses.iter().all(|loss| loss.what.contains("ingested")), "{report}");
        let garbage = Case::new(with_log);
        for path in garbage.files("MANIFEST") {
            fs::write(path, [7; 5000]).unwrap();
        }
        garbage.repaired(Allowed::NothingUnknown);
    }
}

/// Regression: without a readable MANIFEST, a repair continued the highest number in the name of
/// any MANIFEST, readable or not. A stray file made it assign numbers that no opening accepts, so
/// the repaired database did not open, and a second repair made an empty one. Now such numbers do
/// not count.
#[test]
fn a_repair_does_not_continue_the_number_of_a_stray_file() {
    for number in [1u64 << 62, (1 << 62) - 1, 1 << 41] {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let (dir, builder) = (Path::new("/db"), || Db::builder("/db").fs(Arc::clone(&fs)));
        let db = builder().open().unwrap();
        db.put("a", "in a table").unwrap();
        db.flush().unwrap();
        db.put("b", "in a log").unwrap();
        db.close().unwrap();
        let stray = format!("MANIFEST-{number}");
        let strays = [stray.clone(), format!("{number}.wal"), format!("lost/{number}.sst")];
        fs.create_dir_all(&dir.join("lost")).unwrap();
        for name in &strays {
            let mut file = fs.create(&dir.join(name)).unwrap();
            file.append(b"garbage").unwrap();
            file.sync().unwrap();
        }
        for round in ["1", "2", "3"] {
            let names = fs.list(dir).unwrap();
            let lost = names.iter().filter(|it| it.starts_with("MANIFEST") && **it != stray);
            lost.for_each(|name| fs.remove(&dir.join(name)).unwrap());
            assert!(builder().open().is_err());
            let report = builder().repair().unwrap();
            assert!(report.changed && report.losses.is_empty(), "{report}");
            let left = format!("file {number} is left alone");
            assert!(report.problems.iter().any(|line| line.contains(&left)), "{report}");
            assert!(!builder().repair().unwrap().changed);
            let db = builder().open().unwrap();
            assert_eq!(db.get("a").unwrap().unwrap(), b"in a table", "{number}, {round}");
            assert_eq!(db.get("b").unwrap().unwrap(), b"in a log", "{number}, {round}");
            db.verify().unwrap();
            db.put("written after repair", round).unwrap();
            db.close().unwrap();
        }
        let db = builder().open().unwrap();
        assert_eq!(db.get("written after repair").unwrap().unwrap(), b"3");
        for name in &strays {
            assert_eq!(read(&fs, &dir.join(name)), b"garbage");
        }
    }
}

/// The MANIFEST has a damaged byte, or is truncated. A truncated MANIFEST lacks the last edits: it
/// lists tables that were removed later, and does not list tables that were added later.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_parts_of_a_manifest_that_can_be_read_count() {
    for cuts in [false, true] {
        let mut repaired = 0;
        let case = Case::new(true);
        let manifest = case.files("MANIFEST").pop().unwrap();
        let length = fs::metadata(&manifest).unwrap().len() as usize;
        for part in 0..8 {
            let at = 30 + (length - 60) * part / 8;
            let case = Case { dir: tempfile::tempdir().unwrap(), history: case.history.clone() };
            copy(&case_path(&manifest), &case.path());
            let path = case.path().join(manifest.file_name().unwrap());
            case.damage(&path, |bytes| match cuts {
                true => bytes.truncate(at),
                false => bytes[at] ^= 0x10,
            });
            if options(&case.path()).open_read_only().is_ok() {
                continue;
            }
            let report = case.repaired(Allowed::NothingUnknown);
            assert!(report.deleted_keys_may_return, "{report}");
            repaired += 1;
        }
        assert!(repaired > 3, "cuts: {cuts}: no MANIFEST was damaged");
    }
}

/// A table stays removed if a readable part of the MANIFEST says so. Here the file of a removed
/// table is still in the directory, as after a crash, with keys that were deleted since.
#[test]
fn a_table_that_has_left_the_tree_stays_out() {
    // The MANIFEST is damaged before the edit that removed the table, or in the last edit of the
    // tree, or it is missing.
    for damage in [Some(60), Some(usize::MAX), None] {
        let manifest_is_readable = damage.is_some();
        let mut case = Case { dir: tempfile::tempdir().unwrap(), history: History::new() };
        let db = options(&case.path()).open().unwrap();
        (0..100).for_each(|number| case.put(&db, number, Some("old".into())));
        db.flush().unwrap();
        let old = case.files(".sst").pop().unwrap();
        let bytes = fs::read(&old).unwrap();
        (0..50).for_each(|number| case.put(&db, number, None));
        (50..100).for_each(|number| case.put(&db, number, Some("new".into())));
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        case.put(&db, 200, Some("more".into()));
        db.flush().unwrap();
        db.close().unwrap();
        assert!(!old.exists());
        fs::write(&old, bytes).unwrap();
        let manifest = case.files("MANIFEST").pop().unwrap();
        match damage {
            Some(at) => case.damage(&manifest, |bytes| {
                // The last edit of the tree is followed only by records of how much of the log is
                // synced, which take less than 60 bytes. So the damaged byte is never behind that
                // edit.
                let at = at.min(bytes.len() - 60);
                bytes[at] ^= 1;
            }),
            None => fs::remove_file(manifest).unwrap(),
        }
        let report = case.repaired(match manifest_is_readable {
            true => Allowed::NothingUnknown,
            false => Allowed::Reported,
        });
        assert!(report.deleted_keys_may_return);
        let db = options(&case.path()).open().unwrap();
        assert_eq!(db.get("key 00007").unwrap().is_none(), manifest_is_readable, "{report}");
        assert_eq!(db.get("key 00077").unwrap().unwrap(), b"new");
        db.close().unwrap();
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_damaged_block_costs_the_keys_between_its_neighbours() {
    let case = Case::new(false);
    for table in case.files(".sst") {
        for at in [0usize, 3000] {
            let case = Case { dir: tempfile::tempdir().unwrap(), history: case.history.clone() };
            copy(&case_path(&table), &case.path());
            let path = &case.path().join(table.file_name().unwrap());
            let length = fs::metadata(path).unwrap().len() as usize;
            if at > length / 2 {
                continue;
            }
            case.damage(path, |bytes| bytes[at] ^= 1);
            let report = case.repaired(Allowed::Reported);
            assert_eq!(report.losses.len(), 1, "{report}");
            let loss = &report.losses[0];
            assert_eq!(&loss.file, path);
            assert!((1..2000).contains(&loss.bytes) && loss.offset <= at as u64, "{report}");
            let Bound::Included(to) = &loss.to else { panic!("{report}") };
            let concerned = case.history.keys().filter(|key| loss.concerns(key)).count();
            assert!(concerned < 300 && to.starts_with(b"key "), "{report}");
            assert!(!report.deleted_keys_may_return);
        }
    }
}

/// Flips one bit at a time behind the data blocks of a table: in every 97th byte, and in each byte
/// of the footer. All data blocks are recovered in each case.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn damage_behind_the_data_costs_no_key() {
    let case = Case::new(false);
    let table = case.files(".sst").pop().unwrap();
    let bytes = fs::read(&table).unwrap();
    let reader = maypole::table::SstReader::open(&table).unwrap();
    let data_end = reader.properties().number("rocksdb.data.size").unwrap() as usize;
    let metaindex = reader.metaindex().to_vec();
    let range_deletions = reader.range_deletions().len();
    drop(reader);
    let mut places: Vec<usize> = (data_end..bytes.len()).step_by(97).collect();
    places.extend(bytes.len() - 53..bytes.len());
    let mut seen = 0;
    for at in places {
        let case = Case { dir: tempfile::tempdir().unwrap(), history: case.history.clone() };
        copy(&self::case_path(&table), &case.path());
        let path = case.path().join(table.file_name().unwrap());
        case.damage(&path, |bytes| bytes[at] ^= 1);
        let db = options(&case.path()).open_read_only();
        if db.is_ok_and(|db| db.verify().is_ok()) {
            continue;
        }
        let report = case.repaired(Allowed::Reported);
        let data_lost = report.losses.iter().any(|loss| loss.bytes > 0);
        assert!(
            !data_lost,
            "byte {at} of {}, {metaindex:?}, {range_deletions}:\n{report}",
            bytes.len()
        );
        seen += 1;
    }
    assert!(seen > 20, "{seen} places were damage");
}

fn case_path(table: &Path) -> PathBuf {
    table.parent().unwrap().to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    copy_files(from, to);
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_table_without_its_end_or_at_all_is_reported_with_its_keys() {
    let case = Case::new(false);
    for (n, table) in case.files(".sst").into_iter().enumerate() {
        let name = table.file_name().unwrap();
        for cut in [0, 1, 2, 3] {
            let case = Case { dir: tempfile::tempdir().unwrap(), history: case.history.clone() };
            copy(&case_path(&table), &case.path());
            let path = case.path().join(name);
            match cut {
                0 => fs::remove_file(&path).unwrap(),
                1 => case.damage(&path, |bytes| bytes.truncate(bytes.len() / 2)),
                2 => case.damage(&path, |bytes| bytes.clear()),
                _ => case.damage(&path, |bytes| {
                    let footer = bytes.len() - 53;
                    bytes[footer..].fill(0xee);
                }),
            }
            let report = case.repaired(Allowed::Reported);
            assert_eq!(report.losses.is_empty(), cut == 3, "table {n}, {cut}: {report}");
        }
    }
}

/// Two table files were exchanged. The repair tells them apart by the identity that each table
/// records, and nothing is lost.
#[test]
fn tables_that_changed_places_are_put_right() {
    let case = Case::new(true);
    let tables = case.files(".sst");
    let (one, other) = (&tables[0], &tables[tables.len() - 1]);
    let aside = case.path().join("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(&aside, other).unwrap();
    case.repaired(Allowed::Nothing);

    // The file of a newer table was replaced by a copy of an older one. The repair notices that
    // this is another table, and reports the newer table as lost.
    let case = Case::new(true);
    let tables = case.files(".sst");
    fs::copy(&tables[0], &tables[1]).unwrap();
    let report = case.repaired(Allowed::Reported);
    assert_eq!(report.losses.len(), 1, "{report}");
    assert!(report.losses[0].what.contains("another"), "{report}");
}

/// Regression: a repair gives a table that has the name of another one its own name by a hard link.
/// On a file system without hard links it failed. Now it copies such a table, and the copy survives
/// a power loss.
#[test]
fn tables_that_changed_places_are_put_right_without_hard_links() {
    let memory = MemFs::new();
    let on = |fs: Arc<dyn Fs>| options(Path::new("/db")).fs(fs);
    let db = on(Arc::new(memory.clone())).open().unwrap();
    for key in ["a", "b"] {
        db.put(key, key).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let tables = memory.list(Path::new("/db")).unwrap();
    let tables = tables.iter().filter(|name| name.ends_with(".sst"));
    let tables: Vec<PathBuf> = tables.map(|name| Path::new("/db").join(name)).collect();
    let aside = Path::new("/db/aside");
    memory.rename(&tables[0], aside).unwrap();
    memory.rename(&tables[1], &tables[0]).unwrap();
    memory.rename(aside, &tables[1]).unwrap();

    let without_links = FaultFs::new(Arc::new(memory.clone()));
    without_links.fail_from(Target::Only(Operation::HardLink), 0, Fault::Unsupported);
    let report = on(Arc::new(without_links.clone())).repair().unwrap();
    assert!(report.losses.is_empty(), "{report}");
    assert!(without_links.faults() > 1, "no hard link was tried");
    for seed in 0..8 {
        let after: Arc<dyn Fs> = Arc::new(memory.crash(seed));
        let db = on(Arc::clone(&after)).open().unwrap();
        for key in ["a", "b"] {
            assert_eq!(db.get(key).unwrap().unwrap(), key.as_bytes());
        }
        db.close().unwrap();
        assert!(!on(after).repair().unwrap().changed);
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn of_a_damaged_log_the_prefix_is_kept_or_all_that_can_be_read() {
    for salvage in [false, true] {
        let case = Case::new(true);
        let log = case.files(".wal").pop().unwrap();
        let length = fs::metadata(&log).unwrap().len() as usize;
        let mut lost = [0; 2];
        for at in [30, length / 4, length / 2] {
            let case = Case { dir: tempfile::tempdir().unwrap(), history: case.history.clone() };
            copy(&case_path(&log), &case.path());
            let path = case.path().join(log.file_name().unwrap());
            case.damage(&path, |bytes| bytes[at] ^= 1);
            assert!(options(&case.path()).open().is_err());
            let report =
                case.repaired_with(options(&case.path()).salvage_logs(salvage), Allowed::Reported);
            assert_eq!(report.losses.len(), 1, "{report}");
            let loss = &report.losses[0];
            assert!(loss.file == path && loss.offset <= at as u64, "{report}");
            lost[usize::from(salvage)] += loss.bytes;
            let db = options(&case.path()).open().unwrap();
            // The last write in the log was that of this key.
            let last = db.get("key 02587").unwrap();
            assert_eq!(last.is_some_and(|value| value == b"in a log 199"), salvage, "{report}");
            db.close().unwrap();
        }
    }
}

#[test]
fn a_missing_synced_log_is_reported() {
    let case = Case::new(true);
    fs::remove_file(case.files(".wal").pop().unwrap()).unwrap();
    assert!(options(&case.path()).open().is_err());
    let report = case.repaired(Allowed::Reported);
    assert!(report.losses[0].what.contains("missing"), "{report}");
}

#[test]
fn files_of_others_stay_where_they_are() {
    let case = Case::new(true);
    fs::remove_file(case.path().join("CURRENT")).unwrap();
    let strangers = ["notes.txt", "7.wal", "18446744073709551614.wal", "old.sst", "x.tmp"];
    for name in strangers {
        fs::write(case.path().join(name), name).unwrap();
    }
    // Named like a table, but no table.
    fs::write(case.path().join("000999.sst"), "no table").unwrap();
    case.repaired(Allowed::Nothing);
    for name in strangers {
        assert_eq!(fs::read(case.path().join(name)).unwrap(), name.as_bytes());
    }
    assert!(case.path().join("lost/000999.sst").exists());
}

/// Wherever a power loss or a kill interrupts a repair, the database can be repaired again, with
/// the same result.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_repair_that_is_cut_short_can_be_started_again() {
    let case = Case::new(true);
    for damage in ["MANIFEST", "table", "CURRENT and log", "table and no log"] {
        let memory = MemFs::new();
        let to = Path::new("/db");
        memory.create_dir_all(to).unwrap();
        for entry in fs::read_dir(case.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let mut bytes = fs::read(entry.path()).unwrap();
            let place = bytes.len() / 2;
            match damage {
                "MANIFEST" if name.starts_with("MANIFEST") => bytes[place] ^= 1,
                "table" if entry.path() == case.files(".sst")[1] => bytes[700] ^= 1,
                "CURRENT and log" if name == "CURRENT" => continue,
                "CURRENT and log" if name.ends_with(".wal") => bytes[place] ^= 1,
                "table and no log" if entry.path() == case.files(".sst")[1] => bytes[700] ^= 1,
                "table and no log" if name.ends_with(".wal") => continue,
                _ => {}
            }
            let mut file = memory.create(&to.join(name)).unwrap();
            file.append(&bytes).unwrap();
            file.sync().unwrap();
        }
        for dir in ["/", "/db"] {
            memory.sync_dir(Path::new(dir)).unwrap();
        }

        let on = |fs: &dyn Fn() -> Arc<dyn Fs>| options(to).fs(fs());
        let contents = |memory: &MemFs| -> BTreeMap<Vec<u8>, Vec<u8>> {
            let db = on(&|| Arc::new(memory.clone())).open().unwrap();
            let found = db.iter().map(|entry| entry.unwrap());
            let found = found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            for (key, value) in &found {
                assert_eq!(&db.get(key).unwrap().unwrap(), value);
            }
            found
        };
        let (damaged, whole) = (memory.kill(), memory.kill());
        let expected_report = on(&|| Arc::new(whole.clone())).repair().unwrap();
        assert!(expected_report.changed, "{damage}");
        let expected = contents(&whole);

        let images: Arc<Mutex<Vec<(u64, MemFs)>>> = Arc::default();
        let watched = FaultFs::new(Arc::new(memory.clone()));
        let (collected, source) = (Arc::clone(&images), memory.clone());
        watched.before_changes(move |nth, _, _| {
            let mut images = collected.lock().unwrap();
            images.push((nth, source.kill()));
            images.extend((0..2).map(|seed| (nth, source.crash(nth * 2 + seed))));
        });
        on(&|| Arc::new(watched.clone())).repair().unwrap();
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 30, "{damage}: {}", images.len());
        // Not every change is tried, because each repair reads everything. But all changes at the
        // end are tried, where the new tree replaces the old one. A power loss there once left a
        // new MANIFEST without the tables that it lists, because their names were not durable yet.
        let (some, end) = (images.len() / 40 + 1, images.len().saturating_sub(120));
        let tried = images.iter().enumerate().filter(|(i, _)| i % some == 0 || *i > end);
        for (_, (nth, image)) in tried {
            let report = on(&|| Arc::new(image.clone())).repair();
            let report = report.unwrap_or_else(|error| panic!("{damage}, change {nth}: {error}"));
            assert!(contents(image) == expected, "{damage}, change {nth}:\n{report}");
        }

        // A repair that fails because one change of a file fails can be started again too. It once
        // left its new MANIFEST, which the second repair trusted, or only its new tables, which the
        // second repair took for tables that the old MANIFEST had lost. So the second report named
        // no losses, or not all. Now it is the same as long as `CURRENT` is the old one.
        let calls = watched.calls(Target::Changes);
        let mut repeated = 0;
        for nth in (0..calls).filter(|nth| nth % 7 == 0 || nth + 50 > calls) {
            for fault in [Fault::NoSpace, Fault::Io] {
                let image = damaged.kill();
                let shared: Arc<dyn Fs> = Arc::new(image.clone());
                let path = to.join("CURRENT");
                let current = || image.exists(&path).unwrap().then(|| read(&shared, &path));
                let before = current();
                let failing = FaultFs::new(Arc::new(image.clone()));
                failing.fail_once(Target::Changes, nth, fault);
                let first = on(&|| Arc::new(failing.clone())).repair();
                let is_old = current() == before;
                let report = on(&|| Arc::new(image.clone())).repair().unwrap();
                let story = format!("{damage}, call {nth}: {first:?}");
                assert!(contents(&image) == expected, "{story}");
                if is_old {
                    assert_eq!(report.losses, expected_report.losses, "{story}");
                    assert_eq!(report.problems, expected_report.problems, "{story}");
                    let may_return = expected_report.deleted_keys_may_return;
                    assert_eq!(report.deleted_keys_may_return, may_return, "{story}");
                    repeated += 1;
                }
            }
        }
        assert!(repeated > 20, "{damage}: {repeated} repairs were made again");
    }
}

#[test]
fn what_is_no_database_or_is_open_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "data").unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing"), dir.path().join("notes.txt")] {
        assert!(Db::repair(&path).is_err(), "{}", path.display());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let case = Case::new(true);
    let db = options(&case.path()).open().unwrap();
    fs::remove_file(case.path().join("CURRENT")).unwrap();
    assert!(matches!(Db::repair(case.path()), Err(Error::Locked { .. })));
    drop(db);
}
