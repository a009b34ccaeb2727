//! A browser's list of blocked pages: one million of them in a table, 1.2 MB of filter in memory.
//! Nearly every page that is visited is not blocked, and for 99 of 100 of those the filter says so
//! without touching the table.
//!
//! ```text
//! cargo run --release --example url_block_list
//! ```

use std::error::Error;
use std::io::{Write, stdout};

use maypole::table::{SstWriter, TableOptions};
use maypole::{Db, hash64};

const BLOCKED: u64 = 1_000_000;
const GOOD_VISITS: u64 = 100_000;
const BLOCKED_VISITS: u64 = 1_000;

/// Pages of the two kinds are spread alike: a good one lies between blocked ones in the order of keys.
/// Otherwise the tables' ranges would answer, and no filter would be asked.
fn page(kind: &str, i: u64) -> String {
    format!("https://{:016x}.example/", hash64(format!("{kind} {i}").as_bytes()))
}

/// The whole of it. What it shows goes to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // A list that comes whole is sorted and written as a table: no log, no memtable, no compaction.
    let mut blocked: Vec<String> = (0..BLOCKED).map(|i| page("blocked", i)).collect();
    blocked.sort_unstable();
    let table = dir.path().join("blocked.sst");
    let mut writer = SstWriter::create(&table, TableOptions::default())?;
    for page in &blocked {
        writer.put(page.as_bytes(), b"")?;
    }
    let filter = writer.finish()?.filter.expect("ten bits a key are the default");
    let db = Db::open(dir.path().join("db"))?;
    db.ingest(&[&table])?;
    writeln!(
        out,
        "{} pages blocked; their filter takes {} bytes, {:.2} bits a page",
        filter.keys,
        filter.bytes,
        filter.bits_per_key()
    )?;

    for i in 0..GOOD_VISITS {
        assert!(!db.contains_key(page("good", i))?, "a good page was blocked");
    }
    // A false positive costs a read, and never a wrong answer: the table is asked.
    let counts = db.stats().counts();
    let from_memory = 100.0 * counts.filter.useful as f64 / GOOD_VISITS as f64;
    writeln!(
        out,
        "{GOOD_VISITS} good pages visited: {from_memory:.1} % answered from memory, {} asked the table",
        counts.filter.false_positive()
    )?;

    for i in 0..BLOCKED_VISITS {
        assert!(db.contains_key(page("blocked", i * (BLOCKED / BLOCKED_VISITS)))?);
    }
    writeln!(out, "{BLOCKED_VISITS} blocked pages visited: all of them blocked")?;
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
