//! Hours of work in minutes: writers, readers and a tree so small that it compacts all the time.
//! Every key is right at any moment. Memory, descriptors and disk space stay bounded.
//!
//! ```sh
//! cargo test --release --test db soak -- --ignored --nocapture       # ten minutes
//! MAYPOLE_SOAK_SECONDS=60 cargo test --release --test db soak -- --ignored --nocapture
//! MAYPOLE_SOAK_READERS=8 MAYPOLE_SOAK_WRITERS=2 cargo test --release --test db soak -- --ignored --nocapture
//! ```
//!
//! How a reader knows which values are right: the versions of a key count up from 0 (never
//! written). Every eighth version is a deletion, of the key alone or of a range of keys. The other
//! versions are values, and a value names its key and version. Before a write, the writer publishes
//! the number of the version that it *starts*, and after the write the number of the version that
//! is *acknowledged*. A read must find a version that is not older than the one acknowledged when
//! the read began, and not newer than the one started when it ended.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use maypole::{Db, Durability, FilterPolicy, Slice, Snapshot, Ticker, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::env;

/// Versions whose numbers are multiples of this are deletions.
const DELETED: u64 = 8;
const MAX_VALUE_BYTES: u64 = 400;
/// The number of adjacent keys that a reader reads together, and the most that are deleted as one
/// range.
const STRETCH: u64 = 60;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:09}").into_bytes()
}

fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[3..]).unwrap().parse().unwrap()
}

/// Key, version, and noise that depends on both.
fn value(n: u64, version: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(n << 32 ^ version);
    let mut value = [n.to_le_bytes(), version.to_le_bytes()].concat();
    let length = rng.random_range(0..=MAX_VALUE_BYTES - 16);
    value.extend((0..length).map(|_| rng.random::<u8>()));
    value
}

/// The versions of one key.
#[derive(Default)]
struct Versions {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

struct Soak {
    db: Db,
    writers: u64,
    keys: Vec<Versions>,
    over: AtomicBool,
    writes: AtomicU64,
    reads: AtomicU64,
}

impl Soak {
    fn open(dir: &Path) -> Db {
        Db::builder(dir)
            .filter("bloom(10)".parse::<FilterPolicy>().unwrap())
            .memtable_bytes(256 << 10)
            .table_bytes(256 << 10)
            .level_base_bytes(512 << 10)
            .block_cache_bytes(4 << 20)
            .open()
            .unwrap()
    }

    /// Writes the keys of one writer. No other writer writes these keys, so this one knows which
    /// version of a key comes next.
    fn write(&self, writer: u64) {
        let mut rng = StdRng::seed_from_u64(writer);
        let part = self.keys.len() as u64 / self.writers;
        let own = writer * part..(writer + 1) * part;
        while !self.over.load(SeqCst) {
            let (numbers, batch) = match rng.random_bool(0.005) {
                true => self.stretch(&mut rng, &own),
                false => self.scattered(&mut rng, &own),
            };
            let durability = match rng.random_bool(0.001) {
                true => Durability::Sync,
                false => Durability::Buffered,
            };
            self.db.write_opt(batch, durability).unwrap();
            for &n in &numbers {
                let versions = &self.keys[n as usize];
                versions.acknowledged.store(versions.begun.load(SeqCst), SeqCst);
            }
            self.writes.fetch_add(numbers.len() as u64, SeqCst);
        }
    }

    /// A batch that writes the next versions of a few scattered keys. Also returns the numbers of
    /// the keys.
    fn scattered(&self, rng: &mut StdRng, own: &Range<u64>) -> (Vec<u64>, WriteBatch) {
        let mut numbers: Vec<u64> =
            (0..rng.random_range(1..8)).map(|_| rng.random_range(own.clone())).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut batch = WriteBatch::new();
        for &n in &numbers {
            let version = self.keys[n as usize].begun.fetch_add(1, SeqCst) + 1;
            match version % DELETED {
                0 => batch.delete(key(n)),
                _ => batch.put(key(n), value(n, version)),
            };
        }
        (numbers, batch)
    }

    /// A batch that deletes a stretch of keys as one range. Also returns the numbers of the keys.
    /// The version of each key becomes the next one that is a deletion. The versions before it are
    /// skipped: they are never written.
    fn stretch(&self, rng: &mut StdRng, own: &Range<u64>) -> (Vec<u64>, WriteBatch) {
        let start = rng.random_range(own.start..own.end - STRETCH);
        let numbers = start..start + rng.random_range(1..=STRETCH);
        for n in numbers.clone() {
            let begun = &self.keys[n as usize].begun;
            begun.store((begun.load(SeqCst) / DELETED + 1) * DELETED, SeqCst);
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(key(numbers.start)..key(numbers.end));
        (numbers.collect(), batch)
    }

    /// Reads stretches of keys by every kind of read, and reads an old snapshot again from time to
    /// time.
    fn read(&self, reader: u64) {
        let mut rng = StdRng::seed_from_u64(100 + reader);
        let mut old: Option<(Snapshot, Range<u64>, Vec<Option<Slice>>)> = None;
        let mut views = 0u64;
        while !self.over.load(SeqCst) {
            views += 1;
            let start = rng.random_range(0..self.keys.len() as u64 - STRETCH);
            let numbers = start..start + STRETCH;
            let least = self.acknowledged(&numbers);
            if rng.random_bool(0.5) {
                // These lookups use no snapshot, so each sees a different state of the database.
                let found = numbers.clone().map(|n| self.db.get(key(n)).unwrap()).collect();
                self.check(&numbers, &least, &found);
                continue;
            }
            let snapshot = self.db.snapshot();
            let found = look(&snapshot, &numbers, views);
            self.check(&numbers, &least, &found);
            // The same snapshot again, by another kind of read, after writers may have written
            // more.
            assert!(look(&snapshot, &numbers, views + 1) == found, "a snapshot changed");
            if views.is_multiple_of(64) {
                if let Some((snapshot, numbers, found)) = old.take() {
                    assert!(look(&snapshot, &numbers, views / 64) == found, "a snapshot changed");
                }
                old = Some((snapshot, numbers, found));
            }
        }
        self.reads.fetch_add(views * STRETCH, SeqCst);
    }

    fn acknowledged(&self, numbers: &Range<u64>) -> Vec<u64> {
        let keys = &self.keys[numbers.start as usize..numbers.end as usize];
        keys.iter().map(|versions| versions.acknowledged.load(SeqCst)).collect()
    }

    /// Checks what was `found`: `least` are the versions that were acknowledged before the read.
    fn check(&self, numbers: &Range<u64>, least: &[u64], found: &Vec<Option<Slice>>) {
        assert_eq!(found.len(), least.len());
        for ((n, &least), found) in numbers.clone().zip(least).zip(found) {
            let most = self.keys[n as usize].begun.load(SeqCst);
            match found {
                None => assert!(
                    least % DELETED == 0 || least / DELETED < most / DELETED,
                    "key {n} is lost: version {least} was acknowledged, {most} has begun"
                ),
                Some(found) => {
                    let version = u64::from_le_bytes(*found[8..].first_chunk().unwrap());
                    assert!(
                        (least..=most).contains(&version) && version % DELETED != 0,
                        "key {n} has version {version}, expected {least} to {most}"
                    );
                    assert!(found[..] == value(n, version), "key {n}: wrong value");
                }
            }
        }
    }

    /// Checks every key while there are no writes.
    fn check_all(&self, db: &Db) {
        let mut at = 0;
        for item in db.iter() {
            let (found, bytes) = item.unwrap();
            let n = number(&found);
            // Keys in between are absent.
            for absent in at..n {
                let version = self.keys[absent as usize].acknowledged.load(SeqCst);
                assert_eq!(version % DELETED, 0, "key {absent} is lost at version {version}");
                assert!(db.get(key(absent)).unwrap().is_none());
            }
            let version = self.keys[n as usize].acknowledged.load(SeqCst);
            assert!(bytes[..] == value(n, version), "key {n} is not at version {version}");
            assert!(db.get(&found).unwrap().unwrap() == bytes);
            at = n + 1;
        }
        let rest = &self.keys[at as usize..];
        assert!(rest.iter().all(|versions| versions.acknowledged.load(SeqCst) % DELETED == 0));
    }
}

/// The values that a snapshot has for some keys, by one of four kinds of read.
fn look(snapshot: &Snapshot, numbers: &Range<u64>, way: u64) -> Vec<Option<Slice>> {
    let keys: Vec<Vec<u8>> = numbers.clone().map(key).collect();
    let range = key(numbers.start)..key(numbers.end);
    let mut found = vec![None; keys.len()];
    let mut take = |item: maypole::Result<(Slice, Slice)>| {
        let (key, value) = item.unwrap();
        found[(number(&key) - numbers.start) as usize] = Some(value);
    };
    match way % 4 {
        0 => return keys.iter().map(|key| snapshot.get(key).unwrap()).collect(),
        1 => return snapshot.multi_get(&keys).unwrap(),
        2 => snapshot.range(range).for_each(&mut take),
        _ => snapshot.range(range).rev().for_each(&mut take),
    }
    found
}

/// The resources of the process, at one moment.
#[derive(Clone, Copy)]
struct Sample {
    memory_bytes: u64,
    descriptors: u64,
    disk_bytes: u64,
}

impl Sample {
    fn now(dir: &Path) -> Sample {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let files = fs::read_dir(dir).unwrap();
        Sample {
            memory_bytes: kib.unwrap_or(0) * 1024,
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64),
            // A file may be deleted meanwhile.
            disk_bytes: files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum(),
        }
    }
}

fn median(samples: &[Sample], of: fn(&Sample) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// `alone` says that nothing else runs in this process, so that all its memory and descriptors are
/// the database's.
fn soak(time: Duration, keys: u64, alone: bool) {
    let dir = tempfile::tempdir().unwrap();
    let soak = Soak {
        db: Soak::open(dir.path()),
        writers: env("MAYPOLE_SOAK_WRITERS", 2),
        keys: (0..keys).map(|_| Versions::default()).collect(),
        over: AtomicBool::new(false),
        writes: AtomicU64::new(0),
        reads: AtomicU64::new(0),
    };
    let readers = env("MAYPOLE_SOAK_READERS", 2);
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        let soak = &soak;
        let mut threads: Vec<_> =
            (0..soak.writers).map(|n| scope.spawn(move || soak.write(n))).collect();
        threads.extend((0..readers).map(|n| scope.spawn(move || soak.read(n))));
        let (start, interval) = (Instant::now(), (time / 40).min(Duration::from_secs(1)));
        // On a busy machine it goes on until there are enough writes and a compaction to mean anything.
        let goes_on = || {
            let compactions = || soak.db.stats().tickers.get(Ticker::CompactionCount);
            let few = soak.writes.load(SeqCst) <= keys / 4 || compactions() == 0;
            start.elapsed() < time || few && start.elapsed() < 20 * time
        };
        // If a thread panics, the loop ends, so that the other threads stop. Otherwise the scope
        // would wait for them for ever.
        while goes_on() && !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::sleep(interval);
            samples.push(Sample::now(dir.path()));
        }
        soak.over.store(true, SeqCst);
    });

    soak.check_all(&soak.db);
    assert_eq!(soak.db.verify().unwrap().filter_misses, 0);
    let tickers = soak.db.stats().tickers;
    soak.db.wait_for_compaction().unwrap();
    soak.check_all(&soak.db);
    soak.db.clone().close().unwrap();
    let db = Soak::open(dir.path());
    soak.check_all(&db);
    assert_eq!(db.verify().unwrap().filter_misses, 0);
    db.close().unwrap();

    let (writes, reads) = (soak.writes.load(SeqCst), soak.reads.load(SeqCst));
    let counted = |ticker| tickers.get(ticker);
    let quarter = |n: usize| &samples[samples.len() * n / 4..samples.len() * (n + 1) / 4];
    let memory = [quarter(1), quarter(3)].map(|quarter| median(quarter, |s| s.memory_bytes));
    let descriptors = [quarter(1), quarter(3)].map(|quarter| median(quarter, |s| s.descriptors));
    let disk = samples.iter().map(|sample| sample.disk_bytes).max().unwrap();
    let live = keys * (key(0).len() as u64 + MAX_VALUE_BYTES / 2);
    println!(
        "soak of {} s: {} writers, {readers} readers: {writes} writes, {reads} reads, {} flushes, {} compactions of {} MB, {} stalls; \
         second and last quarter: memory {} and {} MB, descriptors {} and {}; disk {} MB at most for {} \
         MB that live",
        time.as_secs(),
        soak.writers,
        counted(Ticker::FlushCount),
        counted(Ticker::CompactionCount),
        counted(Ticker::CompactWriteBytes) / 1_000_000,
        counted(Ticker::StallCount),
        memory[0] / 1_000_000,
        memory[1] / 1_000_000,
        descriptors[0],
        descriptors[1],
        disk / 1_000_000,
        live / 1_000_000,
    );
    assert!(writes > keys / 4 && reads > 1000, "too slow to mean anything");
    assert!(counted(Ticker::CompactionCount) > 0);
    // The last level holds each key once, and the levels between level 0 and the last hold a ninth
    // of that. Level 0, the logs and the versions for snapshots take some more. A compaction holds
    // its inputs and its outputs at the same time.
    assert!(disk < 3 * live + (16 << 20), "{disk} bytes on disk for {live} that live");
    if alone && cfg!(target_os = "linux") {
        assert!(memory[1] * 10 <= memory[0] * 11, "memory grows: {memory:?}");
        assert!(descriptors[1] * 10 <= descriptors[0] * 13 + 80, "{descriptors:?}");
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn a_soak_of_seconds_leaves_every_key_right() {
    soak(Duration::from_secs(5), 20_000, false);
}

#[test]
#[ignore = "takes ten minutes"]
fn soak_leaves_every_key_right_and_memory_flat() {
    let seconds = env("MAYPOLE_SOAK_SECONDS", 600);
    soak(Duration::from_secs(seconds), 200_000, true);
}
