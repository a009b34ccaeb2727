//! A web crawler that remembers which pages it has seen. It looks up the page of each link, and
//! stores and visits each page that is new. Most links lead to new pages. For nearly all of these,
//! the filters say without a read that the page is not stored.
//!
//! ```text
//! cargo run --release --example seen_before
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::io::{Write, stdout};

use maypole::{Db, Ticker, hash64};

/// The number of pages on the whole web.
const PAGES: u64 = 100_000;
/// The crawl ends when it knows this number of pages.
const WANTED: usize = 30_000;
const LINKS_OF_A_PAGE: u64 = 4;
/// The number of new pages between two flushes.
const PAGES_A_FLUSH: usize = 5_000;

fn url(page: u64) -> String {
    format!("https://{:016x}.example/{page}", hash64(&page.to_le_bytes()))
}

/// The page that link number `i` of `page` leads to. Pages with small numbers are popular: more
/// links lead to them than to other pages.
fn link(page: u64, i: u64) -> u64 {
    let hash = hash64(format!("{page} {i}").as_bytes());
    let (first, second) = ((hash >> 32) % PAGES, hash % PAGES);
    first * second / PAGES
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // Small tables, so that a small crawl makes a tree of several levels. One thread and flushes at
    // fixed points make every run the same.
    let db = Db::builder(dir.path())
        .table_bytes(128 << 10)
        .level_base_bytes(256 << 10)
        .compaction_threads(1)
        .open()?;
    db.put(url(0), "")?;
    let (mut frontier, mut known, mut links, mut seen) = (VecDeque::from([0]), 1, 0u64, 0u64);
    while let Some(page) = frontier.pop_front()
        && known < WANTED
    {
        for i in 0..LINKS_OF_A_PAGE {
            let target = link(page, i);
            links += 1;
            if db.contains_key(url(target))? {
                seen += 1;
                continue;
            }
            db.put(url(target), "")?;
            frontier.push_back(target);
            known += 1;
            if known % PAGES_A_FLUSH == 0 {
                db.flush()?;
                db.wait_for_compaction()?;
            }
        }
    }

    let stats = db.stats();
    let counts = stats.counts();
    let new = links - seen;
    writeln!(out, "{links} links followed: {seen} seen before, {new} new")?;
    writeln!(
        out,
        "{} found in memory, {} in tables",
        stats.tickers.get(Ticker::MemtableHit),
        counts.filter.full_true_positive
    )?;
    // For a new page, the lookup queries the filter of every table whose key range includes the
    // page, on several levels.
    writeln!(
        out,
        "filters were queried {} times: {} times they said no, {} times maybe without reason",
        counts.filter.asked(),
        counts.filter.useful,
        counts.filter.false_positive()
    )?;
    writeln!(
        out,
        "a new page made the crawler look into a block in {:.1} of 100 cases",
        100.0 * counts.filter.false_positive() as f64 / new as f64
    )?;
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
