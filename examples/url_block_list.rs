//! A browser's list of blocked pages: one million of them in a table, with a filter of 1.2 MB in
//! memory. Most visited pages are not blocked, and for 99 of 100 such pages the filter decides
//! without a read of the table.
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

/// Blocked pages and good pages have the same distribution, so that in the order of keys a good
/// page is between blocked ones. Otherwise the key range of the table would exclude the good pages,
/// and no filter would be queried.
fn page(kind: &str, i: u64) -> String {
    format!("https://{:016x}.example/", hash64(format!("{kind} {i}").as_bytes()))
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // A complete list is sorted and written as a table, without a log, a memtable or a compaction.
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
    // A false positive costs a read of the table, and never gives a wrong answer.
    let counts = db.stats().counts();
    let from_memory = 100.0 * counts.filter.useful as f64 / GOOD_VISITS as f64;
    writeln!(
        out,
        "{GOOD_VISITS} good pages visited: {from_memory:.1} % answered from memory, {} by the table",
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
