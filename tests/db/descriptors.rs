//! More tables than file descriptors: every call still works, and about half of the process's
//! descriptors stay free for the program.
//!
//! The tests with a low limit of descriptors run in a process of their own, under `ulimit -n`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use maypole::{Compression, Db, DbIterator, WriteBatch};

const DIRECTORY: &str = "MAYPOLE_DESCRIPTORS_TEST_DIRECTORY";
const TABLES: &str = "MAYPOLE_DESCRIPTORS_TEST_TABLES";

/// The size at which a table ends and the next one begins.
const TABLE_BYTES: u64 = 4096;
const ENTRIES_A_TABLE: usize = 5;

fn key(n: usize) -> String {
    format!("key{n:07}")
}

fn value(n: usize) -> Vec<u8> {
    let mut value = n.to_string().into_bytes();
    value.resize(900, b'.');
    value
}

fn open(dir: &Path) -> Db {
    let db = Db::builder(dir).memtable_bytes(64 << 20).table_bytes(TABLE_BYTES);
    let db = db.level_base_bytes(1 << 40).compression(Compression::None);
    // The cache is small, so nearly every read goes to a file.
    db.block_cache_bytes(64 << 10).open().unwrap()
}

/// A database of about `tables` tables.
fn fill(dir: &Path, tables: usize) {
    let db = open(dir);
    let entries: Vec<usize> = (0..tables * ENTRIES_A_TABLE).collect();
    for entries in entries.chunks(1000) {
        let mut batch = WriteBatch::new();
        entries.iter().for_each(|&n| {
            batch.put(key(n), value(n));
        });
        db.write(batch).unwrap();
    }
    db.compact_range(..).unwrap();
    let files = db.stats().files.len();
    assert!(files >= tables, "{files} tables, not {tables}");
}

/// Runs the ignored test `name` in a process that may have at most `descriptors` descriptors.
fn run(name: &str, dir: &Path, tables: usize, descriptors: usize) {
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""))
        .arg(env::current_exe().unwrap())
        .args(["--exact", &format!("descriptors::{name}"), "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .env(TABLES, tables.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn environment() -> Option<(PathBuf, usize)> {
    let tables = env::var(TABLES).ok()?.parse().unwrap();
    Some((env::var_os(DIRECTORY)?.into(), tables))
}

/// How many descriptors this process has, and how many of them are of tables.
fn descriptors() -> (usize, usize) {
    let names = std::fs::read_dir("/proc/self/fd").unwrap();
    let names: Vec<_> =
        names.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect();
    let is_table = |path: &&PathBuf| path.to_string_lossy().contains(".sst");
    (names.len(), names.iter().filter(is_table).count())
}

/// Reads the rest of `entries`, whose next entry must be number `from`, and checks each entry.
/// Returns how many there were.
fn read_on(entries: DbIterator, from: usize, tables: usize) -> usize {
    let mut n = from;
    for entry in entries {
        let (found_key, found_value) = entry.unwrap();
        assert_eq!(found_key, key(n).as_bytes());
        assert!(found_value == value(n)[..], "{n}");
        n += 1;
    }
    assert_eq!(n, tables * ENTRIES_A_TABLE);
    n - from
}

/// Regression: every table of the tree had a descriptor. With 10,000 tables under `ulimit -n 1024`
/// the database failed to open, and the program could open no file of its own. Now tables get half
/// of the limit, and the remaining tables are opened when they are read.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_database_of_more_tables_than_descriptors_reads_iterates_and_compacts() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 600);
    run("a_life_with_few", dir.path(), 600, 64);
}

/// `cargo test --release --test db ten_thousand_tables -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute"]
fn ten_thousand_tables_under_256_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 10_000);
    run("a_life_with_few", dir.path(), 10_000, 256);
}

#[test]
#[ignore = "the other half of other tests, which start it"]
fn a_life_with_few() {
    let Some((dir, tables)) = environment() else { return };
    let limit = maypole::fs::open_files_limit().soft as usize;
    let bounded = |when: &str| {
        let (all, of_tables) = descriptors();
        println!("{when}: {all} descriptors, {of_tables} of tables, of {limit}");
        // The ten more are for tables that threads are writing.
        assert!(of_tables <= limit / 2 + 10, "{when}: {of_tables} of {limit} are of tables");
    };
    let db = open(&dir);
    assert!(db.stats().files.len() >= tables);
    bounded("opened");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for n in (thread..tables * ENTRIES_A_TABLE).step_by(7) {
                    assert!(db.get(key(n)).unwrap().unwrap() == value(n)[..], "{n}");
                }
            });
        }
    });
    bounded("read");
    read_on(db.iter(), 0, tables);
    assert_eq!(db.iter().rev().count(), tables * ENTRIES_A_TABLE);
    bounded("iterated");
    let stats = db.stats();
    assert_eq!(stats.max_open_files, limit / 2);
    assert!(stats.open_files <= limit / 2, "{}", stats.open_files);
    assert!(stats.file_reopens >= 2 * (tables - limit) as u64, "{}", stats.file_reopens);
    db.verify().unwrap();
    db.put("zzz", "").unwrap();
    db.delete("zzz").unwrap();
    db.compact_range(..).unwrap();
    bounded("compacted");

    // After the close the iterator keeps as many open files as the limit allows. The other tables
    // still exist, so the iterator can open them when it reaches them.
    let mut entries = db.iter();
    assert!(entries.next().is_some());
    drop(db);
    bounded("closed");
    let left = read_on(entries, 1, tables);
    println!("{left} entries read after the database was closed");
    assert_eq!(descriptors().1, 0);
}

/// Regression: if `max_open_files` was higher than the process's limit of descriptors, the opening
/// of a table or of a log failed once the process had reached its limit, and made the database
/// read-only. Now tables without readers are closed to make room.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn where_the_process_has_no_descriptor_left_tables_give_way() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 200);
    run("a_life_without_bound", dir.path(), 200, 64);
}

#[test]
#[ignore = "the other half of another test, which starts it"]
fn a_life_without_bound() {
    let Some((dir, tables)) = environment() else { return };
    let builder = |dir: &Path| Db::builder(dir).max_open_files(1 << 20).table_bytes(TABLE_BYTES);
    let db = builder(&dir).open().unwrap();
    read_on(db.iter(), 0, tables);
    // By now, open tables have taken all descriptors. The following calls need descriptors for
    // logs, MANIFESTs, directories, locks and tables, also of another database.
    let other = builder(&dir.join("other")).memtable_bytes(4096).open().unwrap();
    for n in 0..2000 {
        other.put(key(n), value(n)).unwrap();
        if n % 50 == 0 {
            assert!(db.get(key(n % 500)).unwrap().is_some());
        }
    }
    db.checkpoint(dir.with_extension("copy")).unwrap();
    db.compact_range(..).unwrap();
    read_on(db.iter(), 0, tables);
    other.close().unwrap();
    db.close().unwrap();
}

/// A table without a descriptor is opened by its name. After the database is closed, the next owner
/// of the directory may remove that name. So iterators that outlive the database keep descriptors.
#[test]
fn iterators_outlive_the_database_and_its_files() {
    for holds_current_view in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        fill(&path, 50);
        let db = Db::builder(&path).max_open_files(1).open().unwrap();
        assert!(db.stats().open_files <= 1);
        let entries = db.iter();
        if !holds_current_view {
            // Now the iterator alone holds its tables.
            (0..50 * ENTRIES_A_TABLE).for_each(|n| db.put(key(n), "new").unwrap());
            db.compact_range(..).unwrap();
        }
        db.close().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        read_on(entries, 0, 50);
    }
}

/// Without iterators, closing a database opens no table.
#[test]
fn a_closing_opens_nothing_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 20);
    let db = Db::builder(dir.path()).max_open_files(1).open().unwrap();
    // A compaction that ran during the count could open tables.
    db.wait_for_compaction().unwrap();
    drop(db.iter());
    let reopens = |db: &Db| db.stats().file_reopens;
    let (clone, before) = (db.clone(), reopens(&db));
    db.close().unwrap();
    assert_eq!(reopens(&clone), before);
}
