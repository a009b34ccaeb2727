//! Measures the cost of hidden entries: deleted entries at the front of a queue, and old versions
//! of overwritten keys.
//!
//! ```text
//! cargo run --release --example hidden_entries -- [--entries N] [--turns N] [--versions N]
//! ```
//!
//! `--entries`: a queue of this number of entries is popped from the front until it is empty.
//! `--turns`: a queue of 1,000 entries takes this number of turns, each a push at its end and a pop
//! at its front. `--versions`: the middle one of three keys is overwritten this number of times,
//! while a snapshot from before the overwriting is open. Then scans read the three keys in both
//! directions, in the memtable and again after a flush.

use std::time::{Duration, Instant};

use maypole::{Db, WriteBatch};

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

fn option(name: &str, otherwise: u64) -> Answer<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match arguments.nth(1) {
        Some(text) => Ok(text.replace('_', "").parse()?),
        None => Ok(otherwise),
    }
}

fn micros(duration: Duration, calls: u64) -> f64 {
    duration.as_secs_f64() * 1e6 / calls as f64
}

/// The median time of 21 runs, in microseconds.
fn median(mut run: impl FnMut() -> Answer<()>) -> Answer<f64> {
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        run()?;
        times.push(micros(start.elapsed(), 1));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn key(n: u64) -> String {
    format!("{n:012}")
}

fn pop_all(entries: u64) -> Answer<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path())?;
    for from in (0..entries).step_by(1_000) {
        let mut batch = WriteBatch::new();
        for n in from..(from + 1_000).min(entries) {
            batch.put(key(n), "value");
        }
        db.write(batch)?;
    }
    let start = Instant::now();
    let mut popped = 0;
    while db.pop_first()?.is_some() {
        popped += 1;
    }
    println!("pop_first of {popped} entries: {:.2} µs a call", micros(start.elapsed(), popped));
    let empty = median(|| {
        db.is_empty()?;
        Ok(())
    })?;
    println!("is_empty afterwards: {empty:.2} µs");
    Ok(())
}

fn queue(turns: u64) -> Answer<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path())?;
    (0..1_000).try_for_each(|n| db.put(key(n), "value"))?;
    let part = turns.div_ceil(10).max(1);
    let mut start = Instant::now();
    for turn in 0..turns {
        db.put(key(1_000 + turn), "value")?;
        db.pop_first()?;
        if turn % part == part - 1 {
            println!("queue, turn {}: {:.2} µs a turn", turn + 1, micros(start.elapsed(), part));
            start = Instant::now();
        }
    }
    Ok(())
}

fn overwritten(versions: u64) -> Answer<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path())?;
    db.put("a", "value")?;
    db.put("b", "value")?;
    db.put("c", "value")?;
    let _snapshot = db.snapshot();
    (0..versions).try_for_each(|_| db.put("b", "value"))?;
    for place in ["memtable", "flushed"] {
        let forward = median(|| {
            assert_eq!(db.iter().count(), 3);
            Ok(())
        })?;
        let backward = median(|| {
            assert_eq!(db.iter().rev().count(), 3);
            Ok(())
        })?;
        println!("{versions} versions, {place}: {forward:.2} µs forward, {backward:.2} backward");
        db.flush()?;
    }
    Ok(())
}

fn main() -> Answer<()> {
    let entries = option("--entries", 100_000)?;
    let turns = option("--turns", 100_000)?;
    let versions = option("--versions", 300_000)?;
    if entries > 0 {
        pop_all(entries)?;
    }
    if turns > 0 {
        queue(turns)?;
    }
    if versions > 0 {
        overwritten(versions)?;
    }
    Ok(())
}
