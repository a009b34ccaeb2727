//! A database in which data is deleted or overwritten all the time: key by key, by ranges, in a
//! queue, by age, and under changing snapshots, with checkpoints and ingestions in between. Every
//! key is right at any moment, and after compaction has settled, dead entries take hardly any
//! space.
//!
//! ```sh
//! MAYPOLE_LIVING_SECONDS=60 cargo test --release --test db living:: -- --include-ignored --nocapture
//! ```
//!
//! A *load* is a kind of work, such as a queue. In the soak all loads run at the same time, a
//! thread for each. Each load has its own keys, which begin with its letter, and a map of their
//! expected values, with which it compares them while the other loads continue. At the end the soak
//! waits for compaction and checks the size: the files take at most a tenth more than the live keys
//! and values, plus 1 MiB. Then each load deletes its keys, and no table may be left.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Slice, Snapshot, Ticker};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{env, noise};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes of a value.
const VALUE_BYTES: usize = 200;

fn open(dir: &Path) -> Db {
    Db::builder(dir)
        .memtable_bytes(128 << 10)
        .table_bytes(128 << 10)
        .level_base_bytes(256 << 10)
        .block_cache_bytes(4 << 20)
        .manifest_roll_bytes(64 << 10)
        .open()
        .unwrap()
}

/// The bytes of all files of a database.
fn disk_bytes(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().metadata().map_or(0, |file| file.len())).sum()
}

/// Lets compaction settle, and checks the content and the size.
fn settle_and_weigh(db: &Db, dir: &Path, expected: &Map, what: &str) {
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    check(db.iter(), expected.iter());
    let live: u64 = expected.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    let (disk, tables) = (disk_bytes(dir), db.stats().files.len());
    println!("living, {what}: {live} bytes live, {disk} on disk, {tables} tables");
    let most = live + live / 10 + (1 << 20);
    assert!(disk <= most, "{what}: {disk} bytes on disk for {live} that live");
    if expected.is_empty() {
        assert_eq!(tables, 0, "{what}: an empty database has tables");
    }
}

fn check<'a>(
    found: impl Iterator<Item = maypole::Result<(Slice, Slice)>>,
    mut expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) {
    for entry in found {
        let (key, value) = entry.unwrap();
        assert_eq!(Some((&key[..], &value[..])), expected.next().map(|(k, v)| (&k[..], &v[..])));
    }
    assert_eq!(expected.next(), None);
}

/// One load: its keys, and their expected values.
struct Load<'a> {
    db: &'a Db,
    letter: char,
    map: Map,
    rng: StdRng,
    /// The number of the next key of a load that adds its keys in ascending order.
    next: u64,
    snapshots: VecDeque<(Snapshot, Map)>,
}

impl<'a> Load<'a> {
    fn new(db: &'a Db, letter: char) -> Load<'a> {
        let rng = StdRng::seed_from_u64(u64::from(letter));
        Load { db, letter, map: Map::new(), rng, next: 0, snapshots: VecDeque::new() }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        format!("{}{number:015}", self.letter).into_bytes()
    }

    fn prefix(&self) -> [u8; 1] {
        [self.letter as u8]
    }

    fn put(&mut self, number: u64) {
        let (key, value) = (self.key(number), noise(self.rng.random(), VALUE_BYTES));
        self.db.put(&key, &value).unwrap();
        self.map.insert(key, value);
    }

    fn append(&mut self) {
        self.put(self.next);
        self.next += 1;
    }

    fn delete(&mut self, number: u64) {
        let key = self.key(number);
        self.db.delete(&key).unwrap();
        self.map.remove(&key);
    }

    fn delete_range(&mut self, from: u64, to: u64) {
        let (begin, end) = (self.key(from), self.key(to));
        self.db.delete_range(&begin..&end).unwrap();
        self.forget(begin, end);
    }

    fn forget(&mut self, begin: Vec<u8>, end: Vec<u8>) {
        let gone: Vec<Vec<u8>> = self.map.range(begin..end).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| drop(self.map.remove(key)));
    }

    fn pop(&mut self) {
        let popped = self.db.pop_first().unwrap();
        let popped = popped.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(popped, self.map.pop_first());
    }

    fn take_snapshot(&mut self) {
        self.snapshots.push_back((self.db.snapshot(), self.map.clone()));
    }

    fn release_snapshot(&mut self) {
        if let Some((snapshot, map)) = self.snapshots.pop_front() {
            check(snapshot.prefix(self.prefix()), map.iter());
            check(snapshot.prefix(self.prefix()).rev(), map.iter().rev());
        }
    }

    fn check(&self) {
        check(self.db.prefix(self.prefix()), self.map.iter());
    }

    /// Puts `count` new keys in random order, and then deletes all of them, or half.
    fn deletions(&mut self, count: u64, half: bool) {
        let mut numbers: Vec<u64> = (self.next..self.next + count).collect();
        self.next += count;
        numbers.shuffle(&mut self.rng);
        numbers.iter().for_each(|&number| self.put(number));
        let deleted = if half { count / 2 } else { count };
        numbers.iter().take(deleted as usize).for_each(|&number| self.delete(number));
    }

    /// Adds an entry to a queue, and pops one if the queue then has more than `standing` entries.
    fn queue(&mut self, standing: usize) {
        self.append();
        if self.map.len() > standing {
            self.pop();
        }
    }

    /// Adds a key after all others. Once there are `window + together` keys, deletes the `together`
    /// oldest, as one range if there are several.
    fn retention(&mut self, window: u64, together: u64) {
        self.append();
        let count = self.map.len() as u64;
        let oldest = self.next - count;
        match together {
            _ if count < window + together => (),
            1 => self.delete(oldest),
            _ => self.delete_range(oldest, oldest + together),
        }
    }

    /// Ingests a table with a range deletion, and with up to four keys within the deleted range.
    fn ingest(&mut self, scratch: &Path, count: u64) {
        let (from, path) = (self.rng.random_range(0..count), scratch.join("in.sst"));
        let (begin, end) = (self.key(from), self.key(from + 20));
        let mut writer = SstWriter::create(&path, TableOptions::default()).unwrap();
        writer.delete_range(&begin, &end).unwrap();
        self.forget(begin, end);
        for number in from..from + self.rng.random_range(0..5) {
            let (key, value) = (self.key(number), noise(self.rng.random(), VALUE_BYTES));
            writer.put(&key, &value).unwrap();
            self.map.insert(key, value);
        }
        writer.finish().unwrap();
        self.db.ingest(&[&path]).unwrap();
        fs::remove_file(&path).unwrap();
    }

    /// Makes a checkpoint, checks that it holds this load's keys, and removes it.
    fn checkpoint(&mut self, scratch: &Path) {
        let copy = scratch.join("copy");
        self.db.checkpoint(&copy).unwrap();
        check(Db::open_read_only(&copy).unwrap().prefix(self.prefix()), self.map.iter());
        fs::remove_dir_all(&copy).unwrap();
    }

    /// Deletes the remaining keys.
    fn delete_all(&mut self) {
        let keys: Vec<Vec<u8>> = self.map.keys().cloned().collect();
        keys.iter().for_each(|key| self.db.delete(key).unwrap());
        self.map.clear();
    }
}

/// A step of a load. The path is that of a directory for files outside the database.
type Step = fn(&mut Load, &Path);

/// What the loads of the soak do in one step, by their letters. The queue has the first letter,
/// because `pop_first` removes the first key of the whole database.
const STEPS: [(char, Step); 7] = [
    ('a', |load, _| load.queue(300)),
    ('b', |load, _| {
        let half = load.rng.random_bool(0.05);
        load.deletions(50, half);
    }),
    ('c', |load, _| load.retention(2000, 1)),
    ('d', |load, _| load.retention(2000, 250)),
    // Few keys, overwritten again and again under snapshots.
    ('e', |load, _| {
        let number = load.rng.random_range(0..20);
        load.put(number);
        match load.rng.random_range(0..50) {
            0 if load.snapshots.len() < 30 => load.take_snapshot(),
            1 => load.release_snapshot(),
            _ => (),
        }
    }),
    // Ranges of new keys, all of which are deleted, or all but the last one or two.
    ('f', |load, _| {
        let from = load.next;
        (0..200).for_each(|_| load.append());
        let kept = load.rng.random_range(0..3);
        load.delete_range(from, load.next - kept);
    }),
    ('g', |load, scratch| {
        let number = load.rng.random_range(0..5000);
        load.put(number);
        match load.rng.random_range(0..200) {
            0 => load.checkpoint(scratch),
            1..4 => load.ingest(scratch, 5000),
            _ => (),
        }
    }),
];

/// All loads at the same time.
fn soak(time: Duration) {
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    let over = AtomicBool::new(false);
    let mut steps = Vec::new();
    let maps = std::thread::scope(|scope| {
        let (db, over, scratch) = (&db, &over, scratch.path());
        let threads = STEPS.map(|(letter, step)| {
            scope.spawn(move || {
                let (mut load, mut steps) = (Load::new(db, letter), 0_u64);
                while !over.load(Ordering::Relaxed) {
                    step(&mut load, scratch);
                    steps += 1;
                    if steps.is_multiple_of(500) {
                        load.check();
                    }
                }
                load.check();
                while !load.snapshots.is_empty() {
                    load.release_snapshot();
                }
                (load.map, steps)
            })
        });
        let start = Instant::now();
        // If a load panics, the loop ends, so that the other loads stop. Otherwise the scope would
        // wait for them for ever.
        while start.elapsed() < time && !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
        threads.map(|thread| {
            let (map, done) = thread.join().unwrap();
            steps.push(done);
            map
        })
    });
    let tickers = db.stats().tickers;
    println!(
        "living: {} s, {steps:?} steps, {} flushes, {} compactions",
        time.as_secs(),
        tickers.get(Ticker::FlushCount),
        tickers.get(Ticker::CompactionCount)
    );
    assert!(tickers.get(Ticker::CompactionCount) > 0 && steps.iter().all(|&steps| steps > 5));
    let all: Map = maps.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    settle_and_weigh(&db, dir.path(), &all, "all loads");
    assert_eq!(db.verify().unwrap().filter_misses, 0);
    for ((letter, _), map) in STEPS.into_iter().zip(maps) {
        Load { map, ..Load::new(&db, letter) }.delete_all();
    }
    settle_and_weigh(&db, dir.path(), &Map::new(), "all loads, deleted");
    db.close().unwrap();
    let db = open(dir.path());
    settle_and_weigh(&db, dir.path(), &Map::new(), "all loads, deleted, opened again");
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_soak_of_seconds_leaves_only_what_lives() {
    soak(Duration::from_secs(4));
}

#[test]
#[ignore = "takes minutes"]
fn a_soak_of_minutes_leaves_only_what_lives() {
    soak(Duration::from_secs(env("MAYPOLE_LIVING_SECONDS", 180)));
}

/// Runs one load alone, and checks what it leaves.
fn alone(what: &str, work: impl FnOnce(&mut Load, &Path)) {
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    let mut load = Load::new(&db, 'k');
    work(&mut load, scratch.path());
    settle_and_weigh(&db, dir.path(), &load.map, what);
}

/// Entries of a load: 4 MB, more than thirty memtables.
const ENTRIES: u64 = 20_000;

#[test]
fn a_key_that_is_put_and_deleted_leaves_no_table() {
    alone("put and deleted", |load, _| {
        for _ in 0..4 {
            load.put(0);
            load.delete(0);
            load.db.flush().unwrap();
        }
    });
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn databases_that_are_filled_emptied_and_closed_stay_empty() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        let db = open(dir.path());
        Load::new(&db, 'k').deletions(ENTRIES / 20, false);
        db.close().unwrap();
    }
    settle_and_weigh(&open(dir.path()), dir.path(), &Map::new(), "filled and emptied");
}

#[test]
fn deleting_every_key_leaves_no_table() {
    alone("all deleted", |load, _| load.deletions(ENTRIES, false));
}

#[test]
fn deleting_half_of_the_keys_frees_half_of_the_space() {
    alone("half deleted", |load, _| load.deletions(ENTRIES, true));
}

#[test]
fn deleting_everything_as_a_range_leaves_no_table() {
    alone("a range deleted", |load, _| {
        (0..ENTRIES).for_each(|_| load.append());
        load.delete_range(0, ENTRIES);
    });
}

#[test]
fn versions_go_with_the_last_snapshot_that_needs_them() {
    alone("snapshots released", |load, _| {
        for number in 0..ENTRIES {
            load.put(number % 20);
            if number.is_multiple_of(40) {
                load.take_snapshot();
            }
        }
        load.db.compact_all().unwrap();
        while !load.snapshots.is_empty() {
            load.release_snapshot();
        }
    });
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_retention_keeps_the_space_of_its_window() {
    alone("a retention, one by one", |load, _| {
        (0..ENTRIES).for_each(|_| load.retention(ENTRIES / 10, 1));
    });
    alone("a retention by ranges", |load, _| {
        (0..ENTRIES).for_each(|_| load.retention(ENTRIES / 10, 250));
    });
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_queue_keeps_the_space_of_its_entries_and_an_empty_one_none() {
    alone("a queue", |load, _| (0..ENTRIES).for_each(|_| load.queue(300)));
    alone("an empty queue", |load, _| {
        (0..ENTRIES).for_each(|_| load.append());
        load.db.flush().unwrap();
        (0..ENTRIES).for_each(|_| load.pop());
    });
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn overwritten_entries_take_the_space_of_one_version() {
    alone("one key overwritten", |load, _| (0..ENTRIES).for_each(|_| load.put(0)));
    alone("many keys overwritten", |load, _| {
        (0..5 * ENTRIES).for_each(|number| load.put(number * 7919 % ENTRIES));
    });
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn ingestions_and_checkpoints_leave_only_what_lives() {
    alone("checkpoints and ingestions", |load, scratch| {
        for turn in 0..60 {
            for _ in 0..ENTRIES / 60 {
                let number = load.rng.random_range(0..ENTRIES / 2);
                load.put(number);
            }
            load.ingest(scratch, ENTRIES / 2);
            if turn % 3 == 0 {
                load.checkpoint(scratch);
            }
        }
        load.delete_range(0, ENTRIES / 4);
    });
}
