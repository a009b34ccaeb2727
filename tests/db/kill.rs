//! A process is killed while some of its threads write, to two keyspaces at a time, and one looks up
//! many keys at a time. Its acknowledged writes must survive.
//!
//! ```sh
//! MAYPOLE_KILL_CYCLES=2000 cargo test --release --test db kill::an_acknowledged -- --ignored --nocapture
//! ```

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use maypole::{Db, Durability, WriteBatch};

use super::env;

const DIRECTORY: &str = "MAYPOLE_KILL_TEST_DIRECTORY";

const WRITERS: u64 = 3;

/// The keyspace with the last number of each writer. It is flushed much less often.
const NUMBERS: &str = "numbers";

fn open(dir: &str) -> Db {
    let db = Db::builder(dir).memtable_bytes(32 << 10).table_bytes(32 << 10);
    // A small cache, so that lookups read files.
    db.block_cache_bytes(64 << 10).open().unwrap()
}

fn key(writer: u64, n: u64) -> String {
    format!("{writer}/key{:05}", n * 7919 % 2000)
}

/// Not a test of its own, but the process that gets killed. Each writer continues after the last of
/// its writes that the database holds, and prints the number of every acknowledged write.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn child() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let db = open(&dir);
    let numbers = db.keyspace(NUMBERS).unwrap();
    thread::scope(|scope| {
        let (db, numbers) = (&db, &numbers);
        scope.spawn(move || {
            for first in (0..).step_by(64) {
                let keys: Vec<_> = (first..first + 64).map(|n| key(n % WRITERS, n)).collect();
                db.multi_get(&keys).unwrap();
            }
        });
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let first = last_number(numbers, writer).map_or(0, |n| n + 1);
                for n in first.. {
                    let mut batch = WriteBatch::new();
                    batch.put(key(writer, n), n.to_string());
                    batch.keyspace(numbers).put(format!("{writer}/number"), n.to_string());
                    let sync = n % 64 == writer;
                    let durability = if sync { Durability::Sync } else { Durability::Buffered };
                    db.write_opt(batch, durability).unwrap();
                    // One call: lines of several writers must not mix.
                    let line = format!("acknowledged {writer} {n}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// The number of a writer's last write, which was written in one batch with it.
fn last_number(numbers: &Db, writer: u64) -> Option<u64> {
    let value = numbers.get(format!("{writer}/number")).unwrap()?;
    Some(std::str::from_utf8(&value).unwrap().parse().unwrap())
}

/// The writer and the number of its write, if this line acknowledges a write.
fn acknowledgement(line: &str) -> Option<(u64, u64)> {
    let (writer, number) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
    Some((writer.parse().ok()?, number.parse().ok()?))
}

#[test]
#[ignore = "takes seconds; .ci/run runs it"]
fn an_acknowledged_write_survives_a_killed_process() {
    let cycles = env("MAYPOLE_KILL_CYCLES", 12);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let path = path.to_str().unwrap();
    let mut told = 0;
    for cycle in 0..cycles {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(DIRECTORY, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The number of acknowledgements before the kill differs from cycle to cycle, so that kills
        // come in the middle of flushes, compactions and recoveries.
        let enough = 200 + cycle * 517 % 6000;
        let mut acknowledged = [None; WRITERS as usize];
        let mut count = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let Some((writer, number)) = acknowledgement(&line.unwrap()) else { continue };
            acknowledged[writer as usize] = Some(number);
            count += 1;
            if count == enough {
                // On Unix this sends SIGKILL. The loop then still reads the lines that are already
                // in the pipe.
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(count >= enough, "cycle {cycle}: the child ended on its own");
        told += count;

        let db = open(path);
        let numbers = db.keyspace(NUMBERS).unwrap();
        for (writer, acknowledged) in (0..).zip(acknowledged) {
            let Some(acknowledged) = acknowledged else { continue };
            let last = last_number(&numbers, writer).expect("the database holds writes");
            assert!(
                last >= acknowledged,
                "cycle {cycle}: writer {writer} was told {acknowledged}, {last} is last"
            );
            let mut seen = std::collections::HashSet::new();
            for n in (0..=last).rev().take(2000) {
                if seen.insert(key(writer, n)) {
                    let found = db.get(key(writer, n)).unwrap();
                    assert_eq!(found.unwrap(), n.to_string().as_bytes(), "{writer}: {n}");
                }
            }
        }
    }
    println!("{cycles} kills, {told} writes acknowledged by {WRITERS} writers, 0 lost");
}
