//! Repair of a database with several keyspaces: a file is damaged or missing, and afterwards each
//! keyspace has its name, its options and its entries; or the report says of which keyspace some may
//! be lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use maypole::table::{SstWriter, TableOptions};
use maypole::{Builder, Db, Durability, RepairReport, WriteBatch};

use super::copy_files;

const NAMES: [&str; 3] = ["default", "users", "events"];

/// Every value that a key has had, oldest first; `None`: it was deleted.
type History = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

struct Case {
    dir: tempfile::TempDir,
    /// By keyspace.
    histories: BTreeMap<String, History>,
}

fn options(path: &Path) -> Builder {
    Db::builder(path)
        .memtable_bytes(32 << 10)
        .table_bytes(16 << 10)
        .level_base_bytes(32 << 10)
        .block_bytes(512)
        .compression(maypole::Compression::None)
}

impl Case {
    fn path(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    /// Writes one batch across the keyspaces. In each, the same number has another key.
    fn write(&mut self, handles: &[Db], number: u32, value: Option<String>) {
        let mut batch = WriteBatch::new();
        for db in handles {
            let name = String::from_utf8(db.keyspace_name().to_vec()).unwrap();
            let key = format!("key {number:05}");
            // Each value names its keyspace, so that a check notices if two were mixed.
            let value = value.as_ref().map(|value| format!("{name}: {value}"));
            batch.keyspace(db);
            match &value {
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            };
            let values = self.histories.entry(name).or_default().entry(key.into()).or_default();
            values.push(value.map(String::into_bytes));
        }
        handles[0].write(batch).unwrap();
    }

    /// Three keyspaces with tables in several levels, of which each has other newest writes in
    /// tables, and the rest in logs. There were two keyspaces more, of which one has logged writes
    /// and one had the name of a later one.
    fn new() -> Case {
        let mut case = Case { dir: tempfile::tempdir().unwrap(), histories: BTreeMap::new() };
        let db = options(&case.path()).open().unwrap();
        let old = db.keyspace("events").unwrap();
        old.put("key 00001", "of a dropped keyspace").unwrap();
        old.flush().unwrap();
        old.put("key 00002", "of a dropped keyspace").unwrap();
        drop(old);
        assert!(db.drop_keyspace("events").unwrap());
        let users = db.keyspace_with("users", |options| options.filter("burr(9)")).unwrap();
        let gone = db.keyspace("gone").unwrap();
        let events = db.keyspace("events").unwrap();
        let handles = [db.clone(), users.clone(), events.clone()];
        for round in 0..3u32 {
            for i in 0..700 {
                let number = (i * 7 + round * 300) % 1000;
                let value = format!("round {round} of {number} {}", "x".repeat(40));
                case.write(&handles, number, (i % 11 != round).then_some(value));
            }
            handles[round as usize].flush().unwrap();
            handles[(round as usize + 1) % 3].wait_for_compaction().unwrap();
        }
        handles.iter().for_each(|db| db.compact_range(..).unwrap());
        users.delete_range("key 00100".."key 00200").unwrap();
        let of_users = case.histories.get_mut("users").unwrap();
        let range = b"key 00100".to_vec()..b"key 00200".to_vec();
        of_users.range_mut(range).for_each(|(_, values)| values.push(None));
        users.flush().unwrap();
        for number in 0..200 {
            case.write(&handles, number * 5, Some(format!("in a log {number}")));
            gone.put("key", "of a keyspace that is dropped").unwrap();
            if number == 50 {
                case.write(std::slice::from_ref(&events), 3, Some("deleted below".into()));
            }
            if number == 100 {
                // The log before has writes of two keyspaces that are in no table, and writes of
                // `events` that are. The last of these is a deletion, which the compaction drops.
                case.write(std::slice::from_ref(&events), 3, None);
                events.flush().unwrap();
                events.compact_range(..).unwrap();
            }
        }
        assert!(db.drop_keyspace("gone").unwrap());
        db.write_opt(WriteBatch::new(), Durability::Sync).unwrap();
        db.close().unwrap();
        case
    }

    /// The same database in another directory.
    fn copied(&self) -> Case {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("db")).unwrap();
        copy_files(&self.path(), &dir.path().join("db"));
        Case { dir, histories: self.histories.clone() }
    }

    fn files(&self, part: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(part) || name.ends_with(part)
        };
        let mut files: Vec<_> = files.filter(is_wanted).collect();
        files.sort();
        files
    }

    /// The tables of a keyspace, the largest last.
    fn tables_of(&self, keyspace: &str) -> Vec<PathBuf> {
        let db = options(&self.path()).open_read_only().unwrap();
        let mut files = db.keyspace(keyspace).unwrap().stats().files;
        files.sort_by_key(|file| file.file_bytes);
        files.iter().map(|file| file.path.clone()).collect()
    }

    fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path().join(path.file_name().unwrap());
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    /// Repairs the database, and checks that whatever differs from the last value is in the report.
    fn repaired(&self) -> RepairReport {
        let report = options(&self.path()).repair().unwrap();
        println!("{report}");
        assert!(report.changed, "it was damaged");
        let again = options(&self.path()).repair().unwrap();
        assert!(!again.changed, "{again}");
        self.check(&report);
        report
    }

    fn check(&self, report: &RepairReport) {
        let db = options(&self.path()).open().unwrap();
        for (name, history) in &self.histories {
            let of_keyspace = db.keyspace(name).unwrap();
            assert_eq!(of_keyspace.verify().unwrap().filter_misses, 0);
            let mut found = BTreeMap::new();
            for (key, value) in of_keyspace.iter().map(Result::unwrap) {
                found.insert(key.to_vec(), value.to_vec());
            }
            let concerns = |key: &[u8]| {
                let of_it =
                    |of: &Option<Vec<u8>>| of.as_ref().is_none_or(|of| of == name.as_bytes());
                report.losses.iter().any(|loss| of_it(&loss.keyspace) && loss.concerns(key))
            };
            for (key, values) in history {
                let got = of_keyspace.get(key).unwrap().map(|value| value.to_vec());
                assert_eq!(got.as_ref(), found.get(key), "a lookup and a scan differ");
                let last = values.last().unwrap();
                let returns = last.is_none() && report.deleted_keys_may_return;
                let is_right = &got == last || concerns(key) || returns;
                let printed = key.escape_ascii();
                assert!(is_right, "{name}, \"{printed}\" is wrong, and nothing said so:\n{report}");
                let is_known = got.is_none() || values.contains(&got);
                assert!(is_known, "{name}, \"{printed}\" is {got:?}, a value that it never had");
            }
            assert!(found.keys().all(|key| history.contains_key(key)), "{name}: keys from nowhere");
        }
        // It goes on, across its keyspaces.
        let [users, events] = ["users", "events"].map(|name| db.keyspace(name).unwrap());
        db.write(WriteBatch::new().put("z", "0").keyspace(&users).put("z", "1")).unwrap();
        assert_eq!(users.get("z").unwrap().unwrap(), b"1");
        assert_eq!(events.get("z").unwrap(), None);
        let fresh = db.keyspace("fresh").unwrap();
        assert!(fresh.is_empty().unwrap());
        db.drop_keyspace("fresh").unwrap();
        [&db, &users].into_iter().for_each(|db| db.delete("z").unwrap());
        [&db, &users, &events].into_iter().for_each(|db| db.compact_all().unwrap());
        db.close().unwrap();
    }

    fn keyspaces(&self) -> Vec<String> {
        let db = options(&self.path()).open_read_only().unwrap();
        db.keyspaces().into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
    }
}

/// The filter of new tables of the keyspace `users`, which is created with another one than the
/// default.
fn filter_of_users(path: &Path) -> String {
    let db = options(path).open().unwrap();
    let users = db.keyspace("users").unwrap();
    users.compact_all().unwrap();
    let files = users.stats().files;
    files[0].filter.clone().unwrap().family.unwrap().name().to_string()
}

#[test]
fn a_sound_database_is_left_as_it_is_and_all_keyspaces_are_read() {
    let case = Case::new();
    let files =
        || -> Vec<Vec<u8>> { case.files("").iter().map(|path| fs::read(path).unwrap()).collect() };
    let before = files();
    let report = options(&case.path()).repair().unwrap();
    assert!(!report.changed && report.entries > 2000, "{report}");
    assert_eq!(files(), before);
    for name in NAMES {
        // A damaged byte in a table of any keyspace is found.
        let case = case.copied();
        let table = case.tables_of(name).pop().unwrap();
        case.damage(&table, |bytes| bytes[100] ^= 1);
        assert!(options(&case.path()).repair().unwrap().changed, "{name}");
    }
}

#[test]
fn without_current_every_keyspace_is_as_it_was() {
    let case = Case::new();
    fs::remove_file(case.path().join("CURRENT")).unwrap();
    let report = case.repaired();
    assert!(report.losses.is_empty() && !report.deleted_keys_may_return, "{report}");
    assert_eq!(case.keyspaces(), ["default", "events", "users"]);
    assert_eq!(filter_of_users(&case.path()), "burr");
}

/// Without a MANIFEST the tables tell the names of their keyspaces. Nothing tells the options, and
/// nothing tells that a keyspace of which logs have writes was dropped.
#[test]
fn without_a_manifest_tables_tell_the_keyspaces() {
    let case = Case::new();
    case.files("MANIFEST").iter().for_each(|path| fs::remove_file(path).unwrap());
    let report = case.repaired();
    assert!(report.deleted_keys_may_return);
    let of_gone = |what: &str| what.contains("writes of keyspace 3");
    assert!(!report.losses.is_empty(), "{report}");
    assert!(report.losses.iter().all(|loss| of_gone(&loss.what)), "{report}");
    assert_eq!(case.keyspaces(), ["default", "events", "users"]);
    assert_eq!(filter_of_users(&case.path()), "bloom");
}

/// The MANIFEST has a damaged byte. Its other records tell names, options and drops.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn the_parts_of_a_manifest_that_can_be_read_count() {
    let case = Case::new();
    let manifest = case.files("MANIFEST").pop().unwrap();
    let length = fs::metadata(&manifest).unwrap().len() as usize;
    let (mut repaired, mut with_options) = (0, 0);
    for part in 0..12 {
        let case = case.copied();
        case.damage(&manifest, |bytes| bytes[30 + (length - 60) * part / 12] ^= 0x10);
        if options(&case.path()).open_read_only().is_ok() {
            continue;
        }
        let report = case.repaired();
        let may_be = ["writes of keyspace 3", "a table that is missing, unless"];
        let is_any = |what: &str| may_be.iter().any(|it| what.contains(it));
        assert!(report.losses.iter().all(|loss| is_any(&loss.what)), "{report}");
        assert_eq!(case.keyspaces(), ["default", "events", "users"]);
        with_options += u32::from(filter_of_users(&case.path()) == "burr");
        repaired += 1;
    }
    assert!(repaired > 6 && with_options > 4, "{repaired}, {with_options}");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_loss_names_the_keyspace_of_the_damaged_table() {
    let case = Case::new();
    for name in NAMES {
        for is_missing in [false, true] {
            let case = case.copied();
            let table = case.tables_of(name).pop().unwrap();
            match is_missing {
                false => case.damage(&table, |bytes| bytes[100] ^= 1),
                true => fs::remove_file(&table).unwrap(),
            }
            let report = case.repaired();
            let [loss] = &report.losses[..] else { panic!("{report}") };
            assert_eq!(loss.keyspace.as_deref(), Some(name.as_bytes()));
            let says = loss.to_string().contains(&format!("keys of keyspace \"{name}\" from"));
            assert_eq!(says, name != "default", "{loss}");
            assert_eq!(case.keyspaces(), ["default", "events", "users"]);
        }
    }
}

/// A damaged table without a MANIFEST that names its keyspace. Its properties tell the keyspace, and
/// if they are lost too, the table is not put into any.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_damaged_table_whose_keyspace_is_not_known_is_left_out() {
    for loses_properties in [false, true] {
        let case = Case::new();
        let table = case.tables_of("users").pop().unwrap();
        case.files("MANIFEST").iter().for_each(|path| fs::remove_file(path).unwrap());
        case.damage(&table, |bytes| {
            bytes[100] ^= 1;
            // The last place with the name is in the properties.
            let name = b"users";
            let at = bytes.windows(name.len()).rposition(|window| window == name).unwrap();
            bytes[at] ^= u8::from(loses_properties);
        });
        let report = case.repaired();
        let of_table = |what: &str| what.starts_with("a table") || what.starts_with("a part");
        let of_users = report.losses.iter().find(|loss| of_table(&loss.what)).unwrap();
        match loses_properties {
            false => assert_eq!(of_users.keyspace.as_deref(), Some(&b"users"[..])),
            true => assert!(of_users.what.contains("not known"), "{report}"),
        }
    }
}

/// What alone tells that there is another keyspace than `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// The format version in the file header of a log.
    LogVersion,
    /// A logged write, in a log whose file header is damaged.
    LoggedWrite,
    /// The format version in the file header of a MANIFEST, of which nothing else can be read.
    ManifestVersion,
    /// A damaged table with a higher number.
    LaterTable,
}

/// `default` with one logged write, and `users` with one table. Of the table's properties one bit is
/// flipped, and of everything else only the evidence is left. Returns the path of that table, too.
fn without_statement(evidence: Evidence) -> (Case, PathBuf) {
    let case = Case { dir: tempfile::tempdir().unwrap(), histories: BTreeMap::new() };
    let db = options(&case.path()).open().unwrap();
    db.put("a", "of default").unwrap();
    let users = db.keyspace("users").unwrap();
    let fill = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|n| users.put(format!("{n:03}"), "of users").unwrap());
        users.flush().unwrap();
    };
    fill(0..100);
    match evidence {
        Evidence::LaterTable => fill(100..200),
        Evidence::LoggedWrite => users.put("later", "of users").unwrap(),
        Evidence::LogVersion | Evidence::ManifestVersion => {}
    }
    drop(users);
    db.close().unwrap();

    let tables = case.files(".sst");
    case.damage(&tables[0], |bytes| {
        // The last place with the name is in the properties.
        let name = b"users";
        let at = bytes.windows(name.len()).rposition(|window| window == name).unwrap();
        bytes[at] ^= 1;
    });
    tables[1..].iter().for_each(|table| case.damage(table, |bytes| bytes[100] ^= 1));
    for log in case.files(".wal") {
        match evidence {
            Evidence::LogVersion => {}
            Evidence::LoggedWrite => case.damage(&log, |bytes| bytes[0] ^= 1),
            Evidence::ManifestVersion | Evidence::LaterTable => fs::remove_file(log).unwrap(),
        }
    }
    for manifest in case.files("MANIFEST") {
        match evidence {
            Evidence::ManifestVersion => case.damage(&manifest, |bytes| bytes[28..].fill(0xff)),
            _ => fs::remove_file(manifest).unwrap(),
        }
    }
    (case, tables[0].clone())
}

/// Regression: the MANIFEST was lost, and one bit of a table's properties was flipped, so that the
/// table did not state its keyspace, which was `users`. The repair placed the table before it had
/// read the logs and the other damaged tables. As it had seen no other keyspace so far, it put the
/// entries of `users` into `default`, and its report did not say so. Now it first looks through all
/// files for other keyspaces, and such a table is left out, as a loss that the report names.
#[test]
fn a_table_is_placed_only_when_all_keyspaces_are_known() {
    use Evidence::{LaterTable, LogVersion, LoggedWrite, ManifestVersion};
    for evidence in [LogVersion, LoggedWrite, ManifestVersion, LaterTable] {
        let (case, table) = without_statement(evidence);
        let report = options(&case.path()).repair().unwrap();
        println!("{evidence:?}: {report}");
        let is_of_table = |loss: &&maypole::Loss| loss.file.file_name() == table.file_name();
        let [loss] = report.losses.iter().filter(is_of_table).collect::<Vec<_>>()[..] else {
            panic!("{evidence:?}: not one loss of the table")
        };
        assert!(loss.what.contains("keyspace is not known"), "{loss}");
        assert_eq!(loss.keyspace, None);

        let db = options(&case.path()).open().unwrap();
        let of_default: Vec<_> = db.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
        let logged: &[&[u8]] = if evidence == LogVersion { &[b"a"] } else { &[] };
        assert_eq!(of_default, logged, "{evidence:?}");
        let users = db.keyspace("users").unwrap();
        let salvaged = users.iter().map(|entry| entry.unwrap().0.to_vec()).collect::<Vec<_>>();
        assert_eq!(!salvaged.is_empty(), evidence == LaterTable, "{evidence:?}");
        assert!(salvaged.iter().all(|key| key[..] >= b"100"[..]));
    }
}

/// Of a damaged log a prefix is kept, over all keyspaces: each batch is there as a whole or not at
/// all.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn of_a_damaged_log_whole_batches_are_kept() {
    let case = Case::new();
    let logs = case.files(".wal");
    assert!(!logs.is_empty());
    let mut losses = 0;
    for log in &logs {
        let length = fs::metadata(log).unwrap().len() as usize;
        for at in [length / 4, length / 2, length - length / 4] {
            let case = case.copied();
            case.damage(log, |bytes| bytes[at] ^= 1);
            if options(&case.path()).open_read_only().is_ok() {
                continue;
            }
            let report = case.repaired();
            let loss = &report.losses[0];
            assert!(loss.keyspace.is_none() && loss.file.ends_with(log.file_name().unwrap()));
            losses += 1;
            let db = options(&case.path()).open_read_only().unwrap();
            let users = db.keyspace("users").unwrap();
            let is_late = |db: &Db, number: u32| {
                let value = db.get(format!("key {number:05}")).unwrap();
                value.is_some_and(|value| String::from_utf8_lossy(&value).contains("in a log"))
            };
            for number in (0..200).map(|number| number * 5) {
                assert_eq!(is_late(&db, number), is_late(&users, number), "{number}: {report}");
            }
            // Logged writes that are in tables are not written again. Otherwise a value would return
            // whose deletion is behind the damage.
            let events = db.keyspace("events").unwrap();
            assert_eq!(events.get("key 00003").unwrap(), None, "{report}");
        }
    }
    assert!(losses > 2, "{losses}");
}

/// An ingested table names no keyspace. If a MANIFEST tells it, the table stays there, and otherwise
/// it goes to `default`, and the report says so.
#[test]
fn an_ingested_table_goes_where_a_manifest_lists_it() {
    for loses_all in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let db = options(&path).open().unwrap();
        let users = db.keyspace("users").unwrap();
        users.put("a", "written").unwrap();
        users.flush().unwrap();
        let outside = dir.path().join("outside.sst");
        let mut writer = SstWriter::create(&outside, TableOptions::default()).unwrap();
        writer.put(b"b", b"ingested").unwrap();
        writer.finish().unwrap();
        users.ingest(&[&outside]).unwrap();
        // The options change, so that the record of the ingestion is not the last one.
        db.keyspace_with("users", |options| options.filter("bloom(8)")).unwrap();
        db.close().unwrap();
        let manifest = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST");
        let manifest = manifest.into_iter().find(is_manifest).unwrap();
        match loses_all {
            true => fs::remove_file(&manifest).unwrap(),
            false => {
                let mut bytes = fs::read(&manifest).unwrap();
                bytes[30] ^= 1;
                fs::write(&manifest, bytes).unwrap();
            }
        }
        let report = options(&path).repair().unwrap();
        assert!(report.deleted_keys_may_return, "{report}");
        let says =
            report.losses.iter().any(|loss| loss.what.contains("the keyspace of an ingested"));
        assert_eq!(says, loses_all, "{report}");
        let db = options(&path).open().unwrap();
        let users = db.keyspace("users").unwrap();
        let found = |db: &Db| db.get("b").unwrap().is_some();
        assert_eq!((found(&db), found(&users)), (loses_all, !loses_all), "{report}");
        assert_eq!(users.get("a").unwrap().unwrap(), b"written");
    }
}

/// Regression: a table of a dropped keyspace that a crash has left, and the tables of a later one of
/// the same name, have equal keys. They are not merged: without a MANIFEST nothing tells that the
/// older keyspace was dropped, so it gets another name.
#[test]
fn tables_of_two_keyspaces_of_one_name_are_not_merged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = options(&path).open().unwrap();
    let old = db.keyspace("users").unwrap();
    old.put("a", "old").unwrap();
    old.put("b", "old").unwrap();
    old.flush().unwrap();
    let left = old.stats().files[0].path.clone();
    let bytes = fs::read(&left).unwrap();
    drop(old);
    db.drop_keyspace("users").unwrap();
    let new = db.keyspace("users").unwrap();
    new.put("a", "new").unwrap();
    new.flush().unwrap();
    drop(new);
    db.close().unwrap();
    for keeps_manifest in [true, false] {
        let copy = dir.path().join(format!("{keeps_manifest}"));
        fs::create_dir(&copy).unwrap();
        copy_files(&path, &copy);
        fs::write(copy.join(left.file_name().unwrap()), &bytes).unwrap();
        let manifest = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path());
        let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST");
        let manifest = manifest.into_iter().find(is_manifest).unwrap();
        match keeps_manifest {
            false => fs::remove_file(&manifest).unwrap(),
            true => {
                // The last record, which is that of the flush.
                let mut manifest_bytes = fs::read(&manifest).unwrap();
                let at = manifest_bytes.len() - 30;
                manifest_bytes[at] ^= 1;
                fs::write(&manifest, manifest_bytes).unwrap();
            }
        }
        let report = options(&copy).repair().unwrap();
        println!("{report}");
        let db = options(&copy).open().unwrap();
        let mut names = vec![b"default".to_vec(), b"users".to_vec()];
        if !keeps_manifest {
            names.push(b"users (2)".to_vec());
        }
        assert_eq!(db.keyspaces(), names, "{report}");
        let both: Vec<_> = names[1..].iter().map(|name| db.keyspace(name).unwrap()).collect();
        let of = |value: &[u8]| {
            both.iter().filter(|db| db.get("a").unwrap().is_some_and(|it| it == value)).count()
        };
        assert_eq!((of(b"new"), of(b"old")), (1, usize::from(!keeps_manifest)));
        let lengths: Vec<u64> = both.iter().map(|db| db.len().unwrap()).collect();
        assert_eq!(lengths.iter().sum::<u64>(), if keeps_manifest { 1 } else { 3 });
    }
}

/// Regression: the repair counted the bytes of the logged writes that it collects, and subtracted
/// with overflow when range deletions were joined, because they take fewer bytes then.
#[test]
fn range_deletions_of_a_log_may_take_fewer_bytes_together() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let db = Db::open(path).unwrap();
    for i in [387_u32, 1850, 2090, 942, 20, 30, 10, 28, 600, 601, 602, 603] {
        db.delete_range(i.to_be_bytes()..(i + 9).to_be_bytes()).unwrap();
        db.put(i.to_be_bytes(), "").unwrap();
    }
    let alive = db.len().unwrap();
    db.close().unwrap();
    fs::remove_file(path.join("CURRENT")).unwrap();
    assert!(Db::repair(path).unwrap().changed);
    assert_eq!(Db::open(path).unwrap().len().unwrap(), alive);
}
