//! A process killed while it writes: what it was told is written must be there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use maypole::{Db, Durability, WriteBatch};

const DIRECTORY: &str = "MAYPOLE_KILL_TEST_DIRECTORY";

fn open(dir: &str) -> Db {
    Db::builder(dir).memtable_bytes(32 << 10).table_bytes(32 << 10).open().unwrap()
}

fn key(n: u64) -> String {
    format!("key{:05}", n * 7919 % 5000)
}

/// Not a test of its own: the process that gets killed. It writes and prints the number of every
/// acknowledged write, starting after the last one it finds.
#[test]
#[ignore = "the other half of another test, which starts it"]
fn child() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let db = open(&dir);
    let first = last_number(&db).map_or(0, |n| n + 1);
    let mut out = std::io::stdout().lock();
    for n in first.. {
        let mut batch = WriteBatch::new();
        batch.put(key(n), n.to_string());
        batch.put("number", n.to_string());
        let durability = if n % 64 == 0 { Durability::Sync } else { Durability::Buffered };
        db.write_opt(batch, durability).unwrap();
        writeln!(out, "acknowledged {n}").unwrap();
    }
}

fn last_number(db: &Db) -> Option<u64> {
    let value = db.get("number").unwrap()?;
    Some(std::str::from_utf8(&value).unwrap().parse().unwrap())
}

#[test]
fn an_acknowledged_write_survives_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let path = path.to_str().unwrap();
    for cycle in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(DIRECTORY, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Killed after a number of acknowledgements that differs from cycle to cycle: in the
        // middle of flushes, compactions and recoveries.
        let enough = 200 + cycle * 517;
        let mut acknowledged = None;
        let mut count = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(number) = line.strip_prefix("acknowledged ") else { continue };
            acknowledged = Some(number.parse::<u64>().unwrap());
            count += 1;
            if count == enough {
                // SIGKILL on Unix; lines that are in the pipe already are read on.
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let acknowledged = acknowledged.expect("the child wrote something");

        let db = open(path);
        let last = last_number(&db).expect("the database holds writes");
        assert!(
            last >= acknowledged,
            "cycle {cycle}: {acknowledged} was acknowledged, {last} is last"
        );
        let mut seen = std::collections::HashSet::new();
        for n in (0..=last).rev().take(5000) {
            if seen.insert(key(n)) {
                assert_eq!(db.get(key(n)).unwrap().unwrap(), n.to_string().as_bytes(), "{n}");
            }
        }
    }
}
