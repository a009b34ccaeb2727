//! Calls about the whole database look at all keyspaces, whichever handle makes them; figures of one
//! tree are those of the handle's keyspace.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use maypole::fs::{Fs, MemFs};
use maypole::{Db, Error, FileCounts, FilterCounts, KeyspaceStats, PublishedStats};

/// Needs escapes in `STATS`, for Prometheus and on a screen.
const ODD: &[u8] = b"by \"name\"\n\xff\\";

fn fs() -> Arc<dyn Fs> {
    Arc::new(MemFs::new())
}

/// Puts `keys` keys, flushes them to one table, and looks each up, and as many absent ones.
fn fill(db: &Db, keys: usize) {
    (0..keys).for_each(|key| db.put(format!("{key:04}"), "value").unwrap());
    db.flush().unwrap();
    look_up(db, keys);
}

fn look_up(db: &Db, keys: usize) {
    for key in 0..keys {
        assert!(db.get(format!("{key:04}")).unwrap().is_some());
        assert!(db.get(format!("{key:04} absent")).unwrap().is_none());
    }
}

fn named<'a>(keyspaces: &'a [KeyspaceStats], name: &[u8]) -> &'a KeyspaceStats {
    keyspaces.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("{keyspaces:?}"))
}

#[test]
fn verify_and_warm_up_read_the_tables_of_all_keyspaces() {
    let fs = fs();
    let builder = || Db::builder("/db").fs(Arc::clone(&fs));
    let db = builder().open().unwrap();
    let [users, events] = ["users", "events"].map(|name| db.keyspace(name).unwrap());
    db.keyspace("never written").unwrap();
    [&db, &users, &events].into_iter().zip([10, 20, 40]).for_each(|(db, keys)| fill(db, keys));
    db.put("in a log", "").unwrap();
    events.delete_range("0001".."0003").unwrap();
    for handle in [&db, &users, &events] {
        let report = handle.verify().unwrap();
        assert_eq!((report.tables, report.entries, report.log_entries), (3, 70, 2));
        assert!(report.strays.is_empty(), "{report:?}");
        assert!(report.file_bytes > users.verify().unwrap().file_bytes / 2);
    }
    let table = users.stats().files[0].path.clone();
    db.close().unwrap();

    for read_only in [false, true] {
        let opened = if read_only { builder().open_read_only() } else { builder().open() };
        let db = opened.unwrap();
        let report = db.keyspace("events").unwrap().warm_up().unwrap();
        assert_eq!((report.tables, report.left_out), (3 + db.stats().files.len() - 1, 0));
        assert_eq!(db.warm_up().unwrap().loaded_bytes, 0);
    }
    flip(&*fs, &table);
    let db = builder().open().unwrap();
    for handle in [db.clone(), db.keyspace("users").unwrap(), db.keyspace("events").unwrap()] {
        match handle.verify() {
            Err(Error::Corruption { file, .. }) => assert_eq!(file, table),
            other => panic!("{other:?}"),
        }
    }
    // A dropped keyspace is not read.
    assert!(db.drop_keyspace("users").unwrap());
    db.verify().unwrap();
}

/// Changes the first data block of a table.
fn flip(fs: &dyn Fs, path: &Path) {
    let mut bytes = fs.read(path).unwrap();
    bytes[20] ^= 1;
    let mut file = fs.create(path).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
}

/// What lookups counted in tables that have left a tree once went to all trees of the database.
#[test]
fn statistics_are_those_of_the_keyspace_and_default_lists_the_others() {
    let db = Db::builder("/db").fs(fs()).open().unwrap();
    assert!(db.stats().keyspaces.is_empty() && db.stats().keyspace == b"default");
    assert!(!db.stats().to_string().contains("keyspaces"));
    let [odd, idle] = [ODD, b"idle"].map(|name| db.keyspace(name).unwrap());
    fill(&odd, 100);
    fill(&db, 10);
    let before = odd.stats();
    odd.compact_all().unwrap();
    let (whole, own) = (db.stats(), odd.stats());
    assert_eq!((&own.keyspace[..], own.keyspaces.len()), (ODD, 0));
    assert_eq!((own.files.len(), own.files[0].entries, idle.stats().files.len()), (1, 100, 0));
    assert_eq!(whole.counts().filter.asked(), 19, "{:?}", whole.counts());
    assert_eq!(own.counts().filter, before.counts().filter, "also of the table that is gone");
    assert_eq!(idle.stats().counts(), FileCounts::default());

    let names: Vec<_> = whole.keyspaces.iter().map(|it| &it.name[..]).collect();
    assert_eq!(names, [ODD, b"idle"], "busiest first");
    let listed = &whole.keyspaces[0];
    assert_eq!((listed.keyspaces, listed.files, listed.entries), (1, 1, 100));
    assert_eq!(
        (listed.file_bytes, listed.filter_bytes),
        (own.files[0].file_bytes, own.filter_bytes())
    );
    assert_eq!((listed.counts, listed.memtable_bytes), (own.counts(), own.memtable_bytes as u64));
    idle.put("key", vec![0; 100_000]).unwrap();
    let listed = named(&db.stats().keyspaces, b"idle").clone();
    assert!(listed.memtable_bytes >= 100_000 && db.stats().memtable_bytes < 100_000);

    let report = whole.to_string();
    let line = |name: &str| report.lines().find(|line| line.ends_with(name)).map(str::to_owned);
    let line = line(r#"  by "name"\x0a\xff\\"#).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(line.split_whitespace().next(), Some("1"), "{line}");
    assert!(report.contains("Other keyspaces\n") && !own.to_string().contains("Other keyspaces"));

    let property = |db: &Db| db.property("rocksdb.estimate-num-keys").unwrap();
    assert_eq!([property(&db), property(&odd), property(&idle)], ["10", "100", "1"]);
    let files = |db: &Db| db.property("rocksdb.live-sst-files-size").unwrap();
    assert_eq!(files(&odd), own.files[0].file_bytes.to_string());
    assert!(db.property("rocksdb.stats").unwrap().contains("Other keyspaces"));
}

#[test]
fn a_hundred_keyspaces_are_named_and_the_rest_is_one_sum() {
    let db = Db::builder("/db").fs(fs()).memtable_bytes(1 << 16).open().unwrap();
    let keyspaces: Vec<Db> = (0..105).map(|n| db.keyspace(format!("{n:03}")).unwrap()).collect();
    keyspaces.iter().for_each(|keyspace| fill(keyspace, 2));
    look_up(&keyspaces[104], 2);
    let stats = db.stats().keyspaces;
    assert_eq!(
        (stats.len(), &stats[0].name[..], &stats[1].name[..]),
        (101, &b"104"[..], &b"000"[..])
    );
    let rest = &stats[100];
    assert_eq!((rest.name.is_empty(), rest.keyspaces, rest.files, rest.entries), (true, 5, 5, 10));
    let sum = |of: fn(&KeyspaceStats) -> usize| stats.iter().map(of).sum::<usize>();
    assert_eq!((sum(|it| it.keyspaces), sum(|it| it.files)), (105, 105));
    let counted = keyspaces
        .iter()
        .fold(FilterCounts::default(), |sum, keyspace| sum + keyspace.stats().counts().filter);
    let listed = stats.iter().fold(FilterCounts::default(), |sum, it| sum + it.counts.filter);
    assert_eq!(listed, counted);
    assert!(db.stats().to_string().contains("  and 5 more\n"));
    // To Prometheus the rest is a series without the label.
    let text = db.stats().prometheus();
    assert!(text.contains("\nmaypole_keyspace_files{database=\"/db\"} 5\n"), "{text}");
}

#[test]
fn published_counters_have_the_other_keyspaces_and_follow_each_tree() {
    let fs = fs();
    let builder =
        || Db::builder("/db").fs(Arc::clone(&fs)).publish_stats(Duration::from_millis(10));
    let published = || builder().published_stats().unwrap();
    let eventually = |what: &str, holds: &dyn Fn(&PublishedStats) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !published().is_some_and(|stats| holds(&stats)) {
            assert!(Instant::now() < end, "waited in vain: {what}: {:?}", published());
            thread::sleep(Duration::from_millis(2));
        }
    };
    let text = || String::from_utf8(fs.read(Path::new("/db/STATS")).unwrap()).unwrap();
    let db = builder().open().unwrap();
    fill(&db, 10);
    eventually("the lookups", &|stats| stats.counts().filter.asked() > 0);
    assert!(!text().contains("\nkeyspace"), "{}", text());

    let odd = db.keyspace(ODD).unwrap();
    fill(&odd, 100);
    eventually("the list of keyspaces", &|stats| stats.keyspaces == db.stats().keyspaces);
    assert!(text().contains("\nkeyspace by\\x20\"name\"\\x0a\\xff\\\\ files 1 "), "{}", text());
    // Nothing is counted when a keyspace is created.
    db.keyspace("idle").unwrap();
    eventually("the new keyspace", &|stats| stats.keyspaces.len() == 2);
    let before = published().unwrap();
    odd.put("one more", "").unwrap();
    odd.flush().unwrap();
    eventually("the second table", &|stats| named(&stats.keyspaces, ODD).files == 2);
    assert_eq!(published().unwrap().levels, before.levels, "those of default");

    let sample = "\nmaypole_keyspace_entries{database=\"/db\",keyspace=\"by \\\"name\\\"\\\\x0a\\\\xff\\\\\\\\\"} 101\n";
    let prometheus = [published().unwrap().prometheus(), db.stats().prometheus()];
    prometheus.iter().for_each(|text| assert!(text.contains(sample), "{text}"));
    let own = odd.stats().prometheus();
    let labels = |line: &str| line.starts_with('#') || line.contains(",keyspace=\"by ");
    assert!(own.lines().all(labels) && !own.contains("maypole_keyspace_"), "{own}");

    db.drop_keyspace(ODD).unwrap();
    eventually("that it is gone", &|stats| stats.keyspaces.len() == 1);
    let other = db.keyspace("other").unwrap();
    let levels = db.stats().levels;
    // Whichever handle closes the database.
    other.close().unwrap();
    let closed = published().unwrap();
    assert_eq!((closed.is_open, closed.levels), (false, levels));
    assert_eq!(named(&closed.keyspaces, b"other").files, 0);
}
