//! Several writers at once. Each finds its own keys as it left them. A batch is seen whole or not
//! at all, although other threads write, flush, compact or reopen.
//!
//! ```text
//! own keys      "0/own/17"      written by one thread, which keeps a map of them
//! group keys    "0/group/3"     one in each thread's part of the key space: a batch sets all of a
//!               "1/group/3"     group to one tag, or deletes all; any thread may
//!               "2/group/3"
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use maypole::fs::{Fs, MemFs};
use maypole::{Compression, Db, Durability, FilterPolicy, Slice, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const WRITERS: usize = 3;
const READERS: usize = 2;
const GROUPS: usize = 4;
const OWN_KEYS: u32 = 600;

fn open(fs: &Arc<dyn Fs>, cache_bytes: usize) -> Db {
    Db::builder("/db")
        .fs(Arc::clone(fs))
        .filter("bloom(10)".parse::<FilterPolicy>().unwrap())
        .compression(Compression::None)
        .memtable_bytes(16 << 10)
        .block_bytes(512)
        .table_bytes(16 << 10)
        .level_base_bytes(32 << 10)
        .block_cache_bytes(cache_bytes)
        .open()
        .unwrap()
}

fn own_key(writer: usize, n: u32) -> Vec<u8> {
    format!("{writer}/own/{n}").into_bytes()
}

fn group_keys(group: usize) -> [Vec<u8>; WRITERS] {
    std::array::from_fn(|part| format!("{part}/group/{group}").into_bytes())
}

/// A writer, and what it knows of the keys that it has written.
struct Writer {
    number: usize,
    map: Map,
    /// What the writer did last to each group: `Some(Some(tag))` if it gave the group a tag,
    /// `Some(None)` if it deleted the group, `None` if it did neither.
    last_tags: [Option<Option<Vec<u8>>>; GROUPS],
    batches: u32,
    rng: StdRng,
}

impl Writer {
    fn new(number: usize, seed: u64) -> Writer {
        let rng = StdRng::seed_from_u64(seed ^ (number as u64 + 1) << 32);
        Writer { number, map: Map::new(), last_tags: Default::default(), batches: 0, rng }
    }

    fn step(&mut self, db: &Db) {
        let mut batch = WriteBatch::new();
        self.batches += 1;
        for _ in 0..self.rng.random_range(1..6) {
            let key = own_key(self.number, self.rng.random_range(0..OWN_KEYS));
            if self.rng.random_bool(0.75) {
                let length = self.rng.random_range(0..60);
                let value = format!("{:length$}", self.batches).into_bytes();
                batch.put(&key, &value);
                self.map.insert(key, value);
            } else {
                batch.delete(&key);
                self.map.remove(&key);
            }
        }
        if self.rng.random_bool(0.05) {
            let mut ends =
                [(); 2].map(|()| own_key(self.number, self.rng.random_range(0..OWN_KEYS)));
            ends.sort();
            let [begin, end] = ends;
            batch.delete_range(&begin..&end);
            self.map.retain(|key, _| !(begin.as_slice()..end.as_slice()).contains(&key.as_slice()));
        }
        if self.rng.random_bool(0.5) {
            let group = self.rng.random_range(0..GROUPS);
            let tag = format!("{} {:06}", self.number, self.batches).into_bytes();
            let tag = self.rng.random_bool(0.9).then_some(tag);
            let alone = self.rng.random_bool(0.5);
            for key in group_keys(group) {
                match &tag {
                    Some(tag) => batch.put(key, tag),
                    None if alone => batch.delete(key),
                    None => batch.delete_range(&key..=&key),
                };
            }
            self.last_tags[group] = Some(tag);
        }
        let durability = match self.rng.random_bool(0.02) {
            true => Durability::Sync,
            false => Durability::Buffered,
        };
        db.write_opt(batch, durability).unwrap();
        // A writer sees its acknowledged writes.
        let key = own_key(self.number, self.rng.random_range(0..OWN_KEYS));
        let found = db.get(&key).unwrap();
        assert_eq!(found.as_deref(), self.map.get(&key).map(Vec::as_slice));
    }
}

/// What a reader remembers of a group: for each writer the newest batch it has seen.
#[derive(Default)]
struct Seen([[u32; WRITERS]; GROUPS]);

impl Seen {
    /// Checks the tag of a group in a new view. It must not be older than any tag of the same
    /// writer that this reader has already seen in the group.
    fn check(&mut self, group: usize, tag: Option<&[u8]>) {
        let Some(tag) = tag else { return };
        let text = std::str::from_utf8(tag).unwrap();
        let (writer, batch) = text.split_once(' ').unwrap();
        let (writer, batch): (usize, u32) = (writer.parse().unwrap(), batch.parse().unwrap());
        let newest = &mut self.0[group][writer];
        assert!(batch >= *newest, "group {group}: {text} after {newest}");
        *newest = batch;
    }
}

/// The tag of a group, from the values of its keys, which must all be equal.
fn whole<'a>(values: impl IntoIterator<Item = Option<&'a [u8]>>) -> Option<&'a [u8]> {
    let values: Vec<_> = values.into_iter().collect();
    assert!(values.iter().all(|value| *value == values[0]), "half a batch: {values:?}");
    values[0]
}

fn read_until(over: &AtomicBool, db: &Db, seed: u64) -> u64 {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut seen, mut views) = (Seen::default(), 0u64);
    while !over.load(Ordering::Relaxed) {
        views += 1;
        let group = rng.random_range(0..GROUPS);
        let keys = group_keys(group);
        // `multi_get` reads all keys of one call in the same state of the database.
        let values = db.multi_get(&keys).unwrap();
        seen.check(group, whole(values.iter().map(Option::as_deref)));

        let snapshot = db.snapshot();
        let gets: Vec<Option<Slice>> = keys.iter().map(|key| snapshot.get(key).unwrap()).collect();
        let tag = whole(gets.iter().map(Option::as_deref));
        seen.check(group, tag);
        // `get` and `multi_get` of a snapshot return the same.
        let values = snapshot.multi_get(&keys).unwrap();
        assert_eq!(whole(values.iter().map(Option::as_deref)), tag);
        if views.is_multiple_of(8) {
            let all: Vec<_> = match rng.random_bool(0.5) {
                true => snapshot.iter().map(Result::unwrap).collect(),
                false => snapshot.iter().rev().map(Result::unwrap).collect(),
            };
            for group in 0..GROUPS {
                let keys = group_keys(group);
                let of_key = |key: &Vec<u8>| {
                    let found = all.iter().find(|(found, _)| found[..] == key[..]);
                    found.map(|(_, value)| &value[..])
                };
                seen.check(group, whole(keys.iter().map(of_key)));
            }
        }
    }
    views
}

/// Checks all keys of the database: each writer's own keys are as it left them, and each group is
/// as the last batch of some writer left it.
fn check_all(db: &Db, writers: &[Writer]) -> Map {
    let all: Map = db.iter().map(Result::unwrap).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    let mut expected = Map::new();
    for writer in writers {
        expected.extend(writer.map.clone());
    }
    for group in 0..GROUPS {
        let keys = group_keys(group);
        let tag = whole(keys.iter().map(|key| all.get(key).map(Vec::as_slice)));
        let tag = tag.map(<[u8]>::to_vec);
        let mut lasts = writers.iter().filter_map(|writer| writer.last_tags[group].as_ref());
        assert!(lasts.any(|last| *last == tag), "group {group}: {tag:?} was overwritten");
        if let Some(tag) = tag {
            expected.extend(keys.into_iter().map(|key| (key, tag.clone())));
        }
    }
    assert!(all == expected, "{} keys, {} expected", all.len(), expected.len());
    all
}

fn run(seed: u64, cache_bytes: usize, rounds: u64, steps: u64) {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, seed)).collect();
    for round in 0..rounds {
        let db = open(&fs, cache_bytes);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS as u64)
                .map(|reader| {
                    let (over, db) = (&over, &db);
                    scope.spawn(move || read_until(over, db, seed ^ round << 8 ^ reader))
                })
                .collect();
            let writing: Vec<_> = writers
                .iter_mut()
                .map(|writer| {
                    let db = &db;
                    scope.spawn(move || (0..steps).for_each(|_| writer.step(db)))
                })
                .collect();
            // One more thread reorganizes the tree meanwhile.
            while !writing.iter().all(|writer| writer.is_finished()) {
                db.flush().unwrap();
                db.compact_range(own_key(1, 0)..).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            // The readers must end before the `join` of a writer may panic, because the scope waits
            // for all its threads before it passes the panic on.
            over.store(true, Ordering::Relaxed);
            writing.into_iter().for_each(|writer| writer.join().unwrap());
            for reader in readers {
                assert!(reader.join().unwrap() > 0);
            }
        });
        let all = check_all(&db, &writers);
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        assert!(check_all(&db, &writers) == all);
        assert_eq!(db.verify().unwrap().filter_misses, 0);
        db.close().unwrap();
        let db = open(&fs, cache_bytes);
        assert!(check_all(&db, &writers) == all);
        db.close().unwrap();
    }
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn concurrent_writers_leave_what_each_wrote_and_batches_are_seen_whole() {
    run(1, 1 << 20, 3, 2500);
    run(2, 10_000, 2, 1500);
}

#[test]
#[ignore = "takes a minute; run it after a change to the write path"]
fn concurrent_writers_leave_what_each_wrote_in_a_million_batches() {
    for seed in 10..20 {
        run(seed, if seed % 2 == 0 { 1 << 20 } else { 10_000 }, 4, 8500);
    }
}

#[test]
fn a_snapshot_sees_each_batch_whole_in_all_keyspaces() {
    let db = open(&(Arc::new(MemFs::new()) as Arc<dyn Fs>), 0);
    let [one, two] = ["one", "two"].map(|name| db.keyspace(name).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20_000 {
                let mut batch = WriteBatch::new();
                batch.put("number", number.to_string());
                batch.keyspace(&one).put("number", number.to_string());
                batch.keyspace(&two).put("number", number.to_string());
                db.write(batch).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            let snapshot = db.snapshot();
            let [in_one, in_two] = [&one, &two].map(|db| snapshot.keyspace(db).unwrap());
            let seen = [&in_two, &in_one, &snapshot].map(|it| it.get("number").unwrap());
            assert!(seen[0] == seen[1] && seen[1] == seen[2], "{seen:?}");
        }
    });
}
