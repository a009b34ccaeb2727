//! The writer process. It opens the database and runs the threads of the streams, and one thread
//! that flushes, compacts, checkpoints and persists. Then it closes the database and starts again,
//! until it is killed. In this file, a *life* is the time from an opening to a close ([`Life`]).
//!
//! It prints these lines to standard output, each after [`MARK`]:
//!
//! ```text
//! synced A B C            the first A, B, C writes of the streams survive a power loss from now on
//! checkpoint N A B C      checkpoint N is complete, and holds at least these
//! <what> N                N more of it were done; for the report
//! ```
//!
//! If the file [`wanted`] contains the first word of the line that was just printed, the writer
//! removes the file, prints [`STOPS`] and stops itself until SIGCONT, so that the test can clone
//! the disk at this moment.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, Durability, FilterPolicy, Ticker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Signal, getpid, kill_process};

use super::disks::make_dir;
use super::history::{Change, changes, write_under};
use super::streams::{Last, STREAMS, keyspace, last_of, prefix, seen_key, to_words};

pub const MARK: &str = "maypole: ";
pub const STOPS: &str = "stops";
/// Directories on the disk.
pub const DATABASE: &str = "db";
pub const CHECKPOINTS: &str = "checkpoints";

/// The most writes of a life.
const MAX_WRITES: u64 = 4000;
const INGESTED_PERMILLE: u64 = 2;

/// Prints a line on standard output, and stops the process if the parent has requested that for
/// this line.
fn say(incoming: &Path, line: &str) {
    // One write, so that threads do not mix their lines.
    let print = |line: &str| {
        std::io::stdout().lock().write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
    };
    print(line);
    let wanted = wanted(incoming);
    let word = std::fs::read_to_string(&wanted).unwrap_or_default();
    if line.split(' ').next() == Some(&word) && std::fs::remove_file(&wanted).is_ok() {
        print(&format!("{STOPS} 1"));
        kill_process(getpid(), Signal::STOP).unwrap();
    }
}

/// The file that says after which word to stop.
pub fn wanted(incoming: &Path) -> PathBuf {
    incoming.join("wanted")
}

/// Writes to the disk mounted at `root`; tables to ingest are made in `incoming`.
pub fn run(root: &Path, incoming: &Path, seed: u64) {
    // Ends the line whose beginning the test harness may have printed.
    println!();
    make_dir(&root.join(CHECKPOINTS));
    let mut rng = StdRng::seed_from_u64(seed);
    loop {
        live(root, incoming, &mut rng);
    }
}

struct Life<'a> {
    db: Db,
    incoming: &'a Path,
    /// The number of durable writes per thousand. It is low, so that a write that is wrongly
    /// reported as durable is not soon made durable by a later durable write.
    durable_permille: u64,
    /// The last acknowledged write of each stream.
    acknowledged: [AtomicU64; STREAMS],
    writes: AtomicU64,
    over: AtomicBool,
}

/// From an opening to an orderly close.
fn live(root: &Path, incoming: &Path, rng: &mut StdRng) {
    // The filter is chosen at random, so that compaction often replaces the filters of earlier
    // lives.
    let policies = ["bloom(10)", "ribbon(12)", "none", "bloom(4)"];
    let policy = policies[rng.random_range(0..policies.len())].parse::<FilterPolicy>().unwrap();
    let table_bytes = 1 << rng.random_range(12..16);
    let db = Db::builder(root.join(DATABASE))
        .filter(policy)
        .memtable_bytes(1 << rng.random_range(12..18))
        .table_bytes(table_bytes)
        .level_base_bytes(4 * table_bytes)
        .block_bytes(512)
        .open()
        .unwrap();
    let life = Life {
        incoming,
        durable_permille: [4, 8, 30][rng.random_range(0..3)],
        acknowledged: std::array::from_fn(|stream| last_of(&db, stream).unwrap().into()),
        writes: AtomicU64::new(0),
        over: AtomicBool::new(false),
        db,
    };
    let enough = rng.random_range(1..MAX_WRITES);
    std::thread::scope(|scope| {
        let life = &life;
        for stream in 0..STREAMS {
            let rng = StdRng::seed_from_u64(rng.random());
            scope.spawn(move || life.write_stream(stream, rng, enough));
        }
        let rng = StdRng::seed_from_u64(rng.random());
        scope.spawn(move || life.keep_house(&root.join(CHECKPOINTS), rng));
    });
    let all = life.acknowledged();
    life.db.close().unwrap();
    say(incoming, &format!("synced {}", to_words(&all)));
    say(incoming, "closes 1");
}

impl Life<'_> {
    fn acknowledged(&self) -> Last {
        self.acknowledged.each_ref().map(|last| last.load(SeqCst))
    }

    fn say(&self, line: &str) {
        say(self.incoming, line);
    }

    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    fn write_stream(&self, stream: usize, mut rng: StdRng, enough: u64) {
        let keyspace = keyspace(&self.db, stream).unwrap();
        let first = self.acknowledged[stream].load(SeqCst) + 1;
        for n in first.. {
            if self.is_over() {
                return;
            }
            // All of these writes precede write `n`.
            let mut seen = self.acknowledged();
            let chance = rng.random_range(0..1000);
            let is_durable = chance < self.durable_permille;
            let is_ingested = chance < INGESTED_PERMILLE;
            if is_ingested {
                self.ingest(&keyspace, stream, n, &seen);
            } else {
                let mut batch = write_under(&prefix(stream), n);
                batch.put(seen_key(stream), to_words(&seen));
                let durability = if is_durable { Durability::Sync } else { Durability::Buffered };
                keyspace.write_opt(batch, durability).unwrap();
            }
            self.acknowledged[stream].store(n, SeqCst);
            if is_durable {
                seen[stream] = n;
                self.say(&format!("synced {}", to_words(&seen)));
            }
            if is_ingested {
                self.say("ingests 1");
            }
            if self.writes.fetch_add(1, SeqCst) >= enough {
                self.over.store(true, SeqCst);
            }
        }
    }

    /// Makes write `n` by ingesting a table.
    fn ingest(&self, keyspace: &Db, stream: usize, n: u64, seen: &Last) {
        let path = self.incoming.join(format!("{stream}.sst"));
        let mut writer = SstWriter::create(&path, TableOptions::default()).unwrap();
        let key = |key: &str| format!("{}{key}", prefix(stream));
        // If a write changes a key several times, its last change counts. The table need not keep
        // the order of range deletions and other changes: a write deletes its range before it puts
        // keys into that range, and a table's range deletions hide none of the table's own entries.
        let mut entries = BTreeMap::from([(seen_key(stream), Some(to_words(seen)))]);
        for change in changes(n) {
            match change {
                Change::Put(name, value) => drop(entries.insert(key(&name), Some(value))),
                Change::Delete(name) => drop(entries.insert(key(&name), None)),
                Change::DeleteRange(begin, end) => {
                    writer.delete_range(key(&begin).as_bytes(), key(&end).as_bytes()).unwrap();
                }
            }
        }
        for (key, value) in entries {
            match value {
                Some(value) => writer.put(key.as_bytes(), value.as_bytes()).unwrap(),
                None => writer.delete(key.as_bytes()).unwrap(),
            }
        }
        writer.finish().unwrap();
        keyspace.ingest(&[&path]).unwrap();
    }

    /// Flushes, compacts, persists and makes checkpoints, until the life is over.
    fn keep_house(&self, checkpoints: &Path, mut rng: StdRng) {
        let mut counted = self.tickers();
        while !self.is_over() {
            let before = self.acknowledged();
            let stream = rng.random_range(0..STREAMS);
            let one = keyspace(&self.db, stream).unwrap();
            match rng.random_range(0..10) {
                0 => one.flush().unwrap(),
                1 => one.compact_range(..).unwrap(),
                2 => {
                    let prefix = prefix(stream);
                    one.compact_range(format!("{prefix}key02")..format!("{prefix}key05")).unwrap();
                }
                3 | 4 => {
                    self.db.persist().unwrap();
                    self.say(&format!("synced {}", to_words(&before)));
                    self.say("persists 1");
                }
                5 | 6 => {
                    let number = next_checkpoint(checkpoints);
                    self.db.checkpoint(checkpoints.join(number.to_string())).unwrap();
                    self.say(&format!("checkpoint {number} {}", to_words(&before)));
                }
                _ => std::thread::sleep(Duration::from_millis(rng.random_range(0..40))),
            }
            let now = self.tickers();
            self.say(&format!("flushes {}", now[0] - counted[0]));
            self.say(&format!("compactions {}", now[1] - counted[1]));
            counted = now;
        }
    }

    fn tickers(&self) -> [u64; 2] {
        let tickers = self.db.stats().tickers;
        [Ticker::FlushCount, Ticker::CompactionCount].map(|ticker| tickers.get(ticker))
    }
}

/// The number of the next checkpoint, which no directory has yet.
fn next_checkpoint(dir: &Path) -> u64 {
    let names = std::fs::read_dir(dir).unwrap();
    let numbers = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    numbers.map(|name| name.parse::<u64>().unwrap() + 1).max().unwrap_or(0)
}
