//! Queues against a `BTreeMap`: cursors jump over popped entries, and whatever else happens to the
//! database meanwhile, they never jump over an existing entry.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use maypole::fs::{Fs, MemFs};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, DbCursor, Slice, Snapshot, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Entry = Option<(Vec<u8>, Vec<u8>)>;

const QUEUES: [&str; 4] = ["", "a/", "b/", "b/c/"];

struct Run {
    fs: Arc<dyn Fs>,
    memtable_bytes: usize,
    db: Option<Db>,
    map: Map,
    /// For each queue, the smallest number that was pushed, and the one after the largest. A pop
    /// does not change them.
    ends: [(u32, u32); QUEUES.len()],
    snapshots: Vec<(Snapshot, Map)>,
    cursors: Vec<(DbCursor, Map)>,
    rng: StdRng,
    written: u32,
}

fn owned(entry: Option<maypole::Result<(Slice, Slice)>>) -> Entry {
    entry.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
}

fn cloned(entry: Option<(&Vec<u8>, &Vec<u8>)>) -> Entry {
    entry.map(|(key, value)| (key.clone(), value.clone()))
}

fn key(queue: usize, n: u32) -> Vec<u8> {
    format!("{}{n:06}", QUEUES[queue]).into_bytes()
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = StdRng::seed_from_u64(seed);
        let memtable_bytes = [4 << 10, 16 << 10, 1 << 20][rng.random_range(0..3)];
        let mut run = Run {
            fs: Arc::new(MemFs::new()),
            memtable_bytes,
            db: None,
            map: Map::new(),
            ends: [(500_000, 500_000); QUEUES.len()],
            snapshots: Vec::new(),
            cursors: Vec::new(),
            rng,
            written: 0,
        };
        run.open();
        run
    }

    fn open(&mut self) {
        let builder = Db::builder("/db").fs(Arc::clone(&self.fs));
        let builder = builder.memtable_bytes(self.memtable_bytes).block_bytes(256);
        self.db = Some(builder.table_bytes(8 << 10).level_base_bytes(16 << 10).open().unwrap());
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn put_all(&mut self, keys: Vec<Vec<u8>>) {
        let mut batch = WriteBatch::new();
        for key in keys {
            self.written += 1;
            let value = format!("{}", self.written).into_bytes();
            batch.put(&key, &value);
            self.map.insert(key, value);
        }
        self.db().write(batch).unwrap();
    }

    /// The key of an entry that was pushed to a queue, whether it was popped or not, or a key just
    /// outside of the pushed ones.
    fn any_key(&mut self) -> Vec<u8> {
        let queue = self.rng.random_range(0..QUEUES.len());
        let (first, next) = self.ends[queue];
        key(queue, self.rng.random_range(first.min(500_000) - 3..next + 3))
    }

    fn push(&mut self, queue: usize) {
        let count = self.rng.random_range(1..50);
        let (first, next) = &mut self.ends[queue];
        let numbers = match self.rng.random_range(0..4) {
            0 => {
                *first -= count;
                *first..*first + count
            }
            _ => {
                *next += count;
                *next - count..*next
            }
        };
        self.put_all(numbers.map(|n| key(queue, n)).collect());
    }

    /// Pops some entries at one end of one queue or of the whole database, by the calls that a user
    /// would make.
    fn pop(&mut self, queue: usize) {
        let count = self.rng.random_range(1..120);
        let (back, how) = (self.rng.random_bool(0.3), self.rng.random_range(0..3));
        let prefix = QUEUES[queue];
        for _ in 0..count {
            let db = self.db.as_ref().unwrap();
            let in_queue = |(key, _): &(&Vec<u8>, &Vec<u8>)| key.starts_with(prefix.as_bytes());
            let (found, expected) = match (how, back) {
                (0, false) => {
                    (owned(db.pop_first().unwrap().map(Ok)), cloned(self.map.first_key_value()))
                }
                (0, true) => {
                    (owned(db.last_key_value().unwrap().map(Ok)), cloned(self.map.last_key_value()))
                }
                (_, false) => {
                    (owned(db.prefix(prefix).next()), cloned(self.map.iter().find(in_queue)))
                }
                (_, true) => {
                    let expected = self.map.iter().rev().find(in_queue);
                    (owned(db.prefix(prefix).next_back()), cloned(expected))
                }
            };
            assert_eq!(found, expected);
            let Some((key, _)) = found else { return };
            self.map.remove(&key);
            self.db().delete(&key).unwrap();
        }
    }

    fn delete_range(&mut self) {
        let (a, b) = (self.any_key(), self.any_key());
        let (begin, end) = if a <= b { (a, b) } else { (b, a) };
        self.db().delete_range(&begin..&end).unwrap();
        self.map.retain(|key, _| *key < begin || *key >= end);
    }

    fn ingest(&mut self) {
        let keys: Vec<Vec<u8>> = (0..self.rng.random_range(1..4)).map(|_| self.any_key()).collect();
        let added: Map = keys.into_iter().map(|key| (key, b"ingested".to_vec())).collect();
        let options = TableOptions::default();
        let mut writer = SstWriter::create_in(Arc::clone(&self.fs), "/in.sst", options).unwrap();
        added.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        writer.finish().unwrap();
        self.db().ingest(&["/in.sst"]).unwrap();
        self.map.extend(added);
    }

    /// Seeks with a cursor that sees the state of `map`, and steps from there, each time forward or
    /// backward at random. Asserts that the cursor shows the entries of the map.
    fn walk(rng: &mut StdRng, cursor: &mut DbCursor, map: &Map, target: &[u8]) {
        let mut at = match rng.random_range(0..4) {
            0 => {
                cursor.seek_to_first().unwrap();
                cloned(map.first_key_value())
            }
            1 => {
                cursor.seek_to_last().unwrap();
                cloned(map.last_key_value())
            }
            2 => {
                cursor.seek(target).unwrap();
                cloned(map.range(target.to_vec()..).next())
            }
            _ => {
                cursor.seek_for_prev(target).unwrap();
                cloned(map.range(..=target.to_vec()).next_back())
            }
        };
        for _ in 0..6 {
            let entry = cursor.entry().map(|(key, value)| (key.to_vec(), value.to_vec()));
            assert_eq!(entry, at);
            let Some((key, _)) = at else { return };
            at = if rng.random() {
                cursor.next().unwrap();
                cloned(map.range((Bound::Excluded(key), Bound::Unbounded)).next())
            } else {
                cursor.prev().unwrap();
                cloned(map.range(..key).next_back())
            };
        }
    }

    fn step(&mut self) {
        let queue = self.rng.random_range(0..QUEUES.len());
        match self.rng.random_range(0..200) {
            0..40 => self.push(queue),
            40..75 => self.pop(queue),
            75..95 => {
                // Puts among popped entries.
                let keys = (0..self.rng.random_range(1..3)).map(|_| self.any_key()).collect();
                self.put_all(keys);
            }
            95..97 => self.delete_range(),
            97..100 => self.ingest(),
            100..140 => {
                let target = self.any_key();
                let mut cursor = self.db().cursor();
                Run::walk(&mut self.rng, &mut cursor, &self.map, &target);
                assert_eq!(self.db().is_empty().unwrap(), self.map.is_empty());
            }
            140..165 => {
                let target = self.any_key();
                if let Some((snapshot, map)) = self.snapshots.last() {
                    Run::walk(&mut self.rng, &mut snapshot.cursor(), map, &target);
                }
            }
            165..185 => {
                let target = self.any_key();
                if let Some((cursor, map)) = self.cursors.last_mut() {
                    Run::walk(&mut self.rng, cursor, map, &target);
                }
            }
            185..188 => self.snapshots.push((self.db().snapshot(), self.map.clone())),
            188..192 => self.cursors.push((self.db().cursor(), self.map.clone())),
            192..194 => {
                let kept = self.snapshots.len() / 2;
                self.snapshots.truncate(kept);
                self.cursors.clear();
            }
            194..197 => self.db().flush().unwrap(),
            197 => self.db().compact_range(..).unwrap(),
            198 => self.db().wait_for_compaction().unwrap(),
            _ => {
                self.snapshots.clear();
                self.cursors.clear();
                self.db.take().unwrap().close().unwrap();
                self.open();
            }
        }
    }
}

/// Cursors find what the map has, whatever they jump over. Queues are popped at both ends, and the
/// keys of one queue begin with the prefix of another. Old snapshots and old cursors walk too. Puts
/// and ingestions write into popped ranges. Range deletions, flushes, compactions and openings come
/// in between.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn cursors_over_queues_answer_like_a_map() {
    for seed in 0..super::env("MAYPOLE_QUEUE_SEEDS", 24) {
        println!("seed {seed}");
        let mut run = Run::new(seed);
        for _ in 0..600 {
            run.step();
        }
        let found: Vec<_> = run.db().iter().map(|entry| owned(Some(entry)).unwrap()).collect();
        assert!(found.iter().map(|(key, value)| (key, value)).eq(run.map.iter()));
    }
}
