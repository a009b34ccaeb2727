//! A program that looks up keys and publishes its counters. `docs/monitoring.md` shows how
//! `maypole stats` reads them.
//!
//! ```text
//! cargo run --release --example publish -- DIR [SECONDS]
//! ```
//!
//! It fills the database in DIR with 200,000 keys, in batches of 1,000. Then it looks up present
//! and absent keys in turn, about 20,000 keys a second, so that half of the lookups find nothing.

use std::time::{Duration, Instant};
use std::{env, thread};

use maypole::{Db, WriteBatch};

const KEYS: u64 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let dir = arguments.next().ok_or("where? publish DIR [SECONDS]")?;
    let seconds = arguments.next().map_or(Ok(60), |seconds| seconds.parse())?;
    let db = Db::builder(&dir).publish_stats(Duration::from_secs(1)).open()?;
    for start in (0..KEYS).step_by(1000) {
        let mut batch = WriteBatch::new();
        for key in start..start + 1000 {
            // The keys of each batch are scattered over the whole range, so that tables overlap.
            batch.put(format!("user{:012}", scattered(key)), "a value of some bytes");
        }
        db.write(batch)?;
    }
    db.flush()?;
    println!("{dir} is filled; now {seconds} seconds of lookups");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut n = 0;
    while Instant::now() < end {
        for _ in 0..200 {
            n += 1;
            let key = scattered(n % KEYS);
            db.get(format!("user{key:012}"))?;
            db.get(format!("user{key:012} of another shop"))?;
        }
        thread::sleep(Duration::from_millis(20));
    }
    db.close()?;
    Ok(())
}

/// A permutation of the numbers below 10^12, because the multiplier and 10^12 have no common
/// factor.
fn scattered(n: u64) -> u64 {
    (u128::from(n) * 387_420_489_001 % 1_000_000_000_000) as u64
}
