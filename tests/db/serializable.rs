//! A checker of serializability: histories of several threads, replayed in the order of their
//! commits.
//!
//! ```text
//!   threads   transactions over few keys: gets, scans from both ends, puts, deletions, ranges;
//!             and writes without one: puts, deletions, batches, range deletions, ingestions
//!   order     each of them also puts a marker, a key that nothing else writes. The sequence
//!             numbers of the markers, read from the tables afterwards, give the order
//!   replay    in this order, one after the other, on a map: every read of a transaction that
//!             committed must show what the map shows. Then its writes are done
//! ```
//!
//! So a history that passes has the effect of one that ran in the order of its commits, without any
//! concurrency. A transaction that wrote nothing is replayed after the writes that its snapshot
//! sees. That order is stricter than what serializability asks for, so there is no search for cycles
//! between transactions (Adya, "Weak Consistency", 1999; Kingsbury and Alvaro, "Elle", 2020).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use maypole::fs::{Fs, MemFs};
use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Error, SequenceNumber, Transaction, WriteBatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Model = BTreeMap<u8, u64>;

/// One step of a transaction, with what it has shown.
#[derive(Debug, Clone)]
enum Step {
    Get(u8, Option<u64>),
    MultiGet(Vec<(u8, Option<u64>)>),
    /// At most this many entries of a range, from the front or from the back.
    Scan {
        from: u8,
        to: u8,
        most: usize,
        backward: bool,
        shown: Vec<(u8, u64)>,
    },
    Write(Write),
}

#[derive(Debug, Clone, Copy)]
enum Write {
    Put(u8, u64),
    Delete(u8),
    DeleteRange(u8, u8),
}

/// Steps that happened together.
#[derive(Debug)]
enum Act {
    /// Its marker has this number.
    Written(u64, Vec<Step>),
    /// A transaction that wrote nothing, and the last write that it saw.
    ReadOnly(SequenceNumber, Vec<Step>),
}

fn marker(number: u64) -> Vec<u8> {
    [b"marker", &number.to_be_bytes()[..]].concat()
}

fn key(key: u8) -> [u8; 2] {
    [b'k', key]
}

fn value(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

impl Write {
    fn apply(self, model: &mut Model) {
        match self {
            Write::Put(key, value) => drop(model.insert(key, value)),
            Write::Delete(key) => drop(model.remove(&key)),
            Write::DeleteRange(from, to) => model.retain(|key, _| *key < from || *key >= to),
        }
    }

    fn add_to(self, batch: &mut WriteBatch) {
        match self {
            Write::Put(k, value) => batch.put(key(k), value.to_be_bytes()),
            Write::Delete(k) => batch.delete(key(k)),
            Write::DeleteRange(from, to) => batch.delete_range(key(from)..key(to)),
        };
    }
}

/// What the threads of one history share.
struct Shared {
    db: Db,
    fs: Arc<dyn Fs>,
    keys: u8,
    next_marker: AtomicU64,
    next_value: AtomicU64,
    acts: Mutex<Vec<Act>>,
    begun: AtomicU64,
    committed: AtomicU64,
}

impl Shared {
    fn new(seed: u64) -> Shared {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let builder = Db::builder("/db").fs(Arc::clone(&fs)).memtable_bytes(16 << 10);
        let builder = builder.table_bytes(8 << 10).level_base_bytes(16 << 10).block_bytes(256);
        Shared {
            db: builder.open().unwrap(),
            fs,
            keys: 6 + 4 * (seed % 6) as u8,
            next_marker: AtomicU64::new(1),
            next_value: AtomicU64::new(1),
            acts: Mutex::default(),
            begun: AtomicU64::new(0),
            committed: AtomicU64::new(0),
        }
    }

    fn some_write(&self, rng: &mut StdRng) -> Write {
        let k = rng.random_range(0..self.keys);
        match rng.random_range(0..8) {
            0..5 => Write::Put(k, self.next_value.fetch_add(1, SeqCst)),
            5 | 6 => Write::Delete(k),
            _ => Write::DeleteRange(k, (k + rng.random_range(1..4)).min(self.keys)),
        }
    }

    /// A marker for writes that are about to happen.
    fn marker(&self) -> u64 {
        self.next_marker.fetch_add(1, SeqCst)
    }

    fn note(&self, act: Act) {
        self.acts.lock().unwrap().push(act);
    }

    fn run_transaction(&self, rng: &mut StdRng) {
        let mut tx = self.db.transaction();
        let mut steps = Vec::new();
        let mut writes = false;
        for _ in 0..rng.random_range(1..7) {
            let step = match rng.random_range(0..10) {
                0..3 => {
                    let k = rng.random_range(0..self.keys);
                    Step::Get(k, tx.get(key(k)).unwrap().map(|it| value(&it)))
                }
                3 => self.multi_get(&tx, rng),
                4 | 5 => self.scan(&tx, rng),
                _ => {
                    writes = true;
                    Step::Write(self.write_in(&mut tx, rng))
                }
            };
            steps.push(step);
            if rng.random_bool(0.2) {
                thread::yield_now();
            }
        }
        if !writes {
            let seen = tx.snapshot().sequence();
            tx.commit().expect("a transaction without writes does not conflict");
            return self.note(Act::ReadOnly(seen, steps));
        }
        let number = self.marker();
        tx.put(marker(number), "");
        self.begun.fetch_add(1, SeqCst);
        match tx.commit() {
            Ok(()) => {
                self.committed.fetch_add(1, SeqCst);
                self.note(Act::Written(number, steps));
            }
            Err(Error::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn multi_get(&self, tx: &Transaction, rng: &mut StdRng) -> Step {
        let ks: Vec<u8> = (0..3).map(|_| rng.random_range(0..self.keys)).collect();
        let keys: Vec<_> = ks.iter().map(|&k| key(k)).collect();
        let values = tx.multi_get(&keys).unwrap();
        let values = values.into_iter().map(|it| it.map(|it| value(&it)));
        Step::MultiGet(ks.into_iter().zip(values).collect())
    }

    fn scan(&self, tx: &Transaction, rng: &mut StdRng) -> Step {
        let from = rng.random_range(0..self.keys);
        let to = rng.random_range(from..=self.keys);
        let (most, backward) = (rng.random_range(1..5), rng.random());
        let mut entries = tx.range(key(from)..key(to));
        let next = || if backward { entries.next_back() } else { entries.next() };
        let shown = std::iter::from_fn(next).take(most).map(|entry| {
            let (key, bytes) = entry.unwrap();
            (key[1], value(&bytes))
        });
        let shown = shown.collect();
        Step::Scan { from, to, most, backward, shown }
    }

    fn write_in(&self, tx: &mut Transaction, rng: &mut StdRng) -> Write {
        let write = self.some_write(rng);
        match write {
            Write::Put(k, value) => tx.put(key(k), value.to_be_bytes()),
            Write::Delete(k) => tx.delete(key(k)),
            Write::DeleteRange(from, to) => tx.delete_range(key(from)..key(to)),
        }
        write
    }

    /// Writes without a transaction.
    fn run_batch(&self, rng: &mut StdRng) {
        let writes: Vec<_> = (0..rng.random_range(1..4)).map(|_| self.some_write(rng)).collect();
        let number = self.marker();
        let mut batch = WriteBatch::new();
        writes.iter().for_each(|write| write.add_to(&mut batch));
        batch.put(marker(number), "");
        self.db.write(batch).unwrap();
        self.note(Act::Written(number, writes.into_iter().map(Step::Write).collect()));
    }

    fn run_ingestion(&self, rng: &mut StdRng) {
        let number = self.marker();
        let path = std::path::PathBuf::from(format!("/in{number}.sst"));
        let mut writer =
            SstWriter::create_in(Arc::clone(&self.fs), &path, TableOptions::default()).unwrap();
        let from = rng.random_range(0..self.keys);
        let mut steps = Vec::new();
        for k in from..(from + 2).min(self.keys) {
            let value = self.next_value.fetch_add(1, SeqCst);
            writer.put(&key(k), &value.to_be_bytes()).unwrap();
            steps.push(Step::Write(Write::Put(k, value)));
        }
        writer.put(&marker(number), b"").unwrap();
        writer.finish().unwrap();
        self.db.ingest(&[&path]).unwrap();
        self.fs.remove(&path).unwrap();
        self.note(Act::Written(number, steps));
    }

    /// Replays the history, and returns how many steps it had.
    fn check(self) -> usize {
        self.db.flush().unwrap();
        self.db.wait_for_compaction().unwrap();
        let order = sequences_of_markers(&self.db);
        let acts = self.acts.into_inner().unwrap();
        // A reader comes after the write that it saw last, whose number is that of the write's last
        // entry. So it comes before the first act with a larger number.
        let mut ordered: Vec<_> = acts
            .iter()
            .map(|act| match act {
                Act::Written(marker, steps) => ((order[marker], 0), steps),
                Act::ReadOnly(seen, steps) => ((*seen, 1), steps),
            })
            .collect();
        ordered.sort_by_key(|(at, _)| *at);
        let mut model = Model::new();
        for ((sequence, _), steps) in ordered {
            for step in steps {
                replay(step, &mut model).unwrap_or_else(|| {
                    panic!("at {sequence}: {step:?} of {steps:?}, but the map has {model:?}")
                });
            }
        }
        let stored = self.db.prefix("k").map(|entry| entry.unwrap());
        let stored: Model = stored.map(|(key, bytes)| (key[1], value(&bytes))).collect();
        assert_eq!(stored, model, "at the end");
        acts.iter().map(|(Act::Written(_, steps) | Act::ReadOnly(_, steps))| steps.len()).sum()
    }
}

/// Does a step on the map. `None`: it shows something else.
fn replay(step: &Step, model: &mut Model) -> Option<()> {
    let is_same = match step {
        Step::Get(k, shown) => model.get(k) == shown.as_ref(),
        Step::MultiGet(all) => all.iter().all(|(k, shown)| model.get(k) == shown.as_ref()),
        Step::Scan { from, to, most, backward, shown } => {
            let range = model.range(from..to).map(|(&k, &value)| (k, value));
            let expected: Vec<_> = match backward {
                true => range.rev().take(*most).collect(),
                false => range.take(*most).collect(),
            };
            expected == *shown
        }
        Step::Write(write) => {
            write.apply(model);
            true
        }
    };
    is_same.then_some(())
}

fn sequences_of_markers(db: &Db) -> BTreeMap<u64, SequenceNumber> {
    let mut order = BTreeMap::new();
    for file in db.stats().files {
        let table = db.table(file.number).expect("nothing is written any more");
        let mut entries = table.entries();
        while let Some(entry) = entries.next_entry().unwrap() {
            if let Some(number) = entry.user_key.strip_prefix(b"marker") {
                order.insert(value(number), entry.sequence);
            }
        }
    }
    order
}

/// Runs the history of a seed.
fn run(seed: u64) -> Shared {
    let history = Shared::new(seed);
    let shared = &history;
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = StdRng::seed_from_u64(seed);
            while !done.load(SeqCst) {
                match rng.random_range(0..4) {
                    0 => shared.db.compact_all().unwrap(),
                    1 => shared.run_ingestion(&mut rng),
                    2 => shared.run_batch(&mut rng),
                    _ => shared.db.flush().unwrap(),
                }
                thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..2 + seed % 7)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed << 8 | thread);
                    for _ in 0..60 {
                        match rng.random_range(0..8) {
                            0 => shared.run_batch(&mut rng),
                            _ => shared.run_transaction(&mut rng),
                        }
                    }
                })
            })
            .collect();
        let joined: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, SeqCst);
        joined.into_iter().for_each(Result::unwrap);
    });
    history
}

/// `MAYPOLE_HISTORIES` sets the number of histories.
#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn transactions_have_the_effect_of_a_serial_history() {
    let histories = std::env::var("MAYPOLE_HISTORIES").map_or(40, |it| it.parse().unwrap());
    let (mut begun, mut committed, mut steps) = (0, 0, 0);
    for seed in 0..histories {
        let shared = run(seed);
        begun += shared.begun.load(SeqCst);
        committed += shared.committed.load(SeqCst);
        steps += shared.check();
    }
    println!("{histories} histories, {steps} steps, {committed} of {begun} transactions committed");
    let share = committed as f64 / begun as f64;
    assert!((0.2..=0.95).contains(&share), "{share}: too few conflicts, or too many");
}
