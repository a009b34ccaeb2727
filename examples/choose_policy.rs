//! Choosing a filter policy from the counters of a running database. Three services run a day of
//! lookups with `bloom(10)`. A rule suggests a policy for each service from its counters. If the
//! suggested policy is another one, the same lookups are measured with this policy too.
//!
//! ```text
//! cargo run --release --example choose_policy
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use maypole::{Builder, Compression, Db, FilterPolicy, Stats, Ticker, hash64};

const KEYS: u64 = 40_000;
/// The number of keys in one flush. It is chosen so that level 0 has one to three tables at the
/// end. A fourth table would start a compaction that empties the level.
const KEYS_A_FLUSH: u64 = 1_300;
const LOOKUPS: u64 = 20_000;

fn key(kind: &str, i: u64) -> String {
    format!("{:016x}", hash64(format!("{kind} {i}").as_bytes()))
}

fn builder(dir: &Path, policy: FilterPolicy) -> Builder {
    // The tables are small, so that few keys make a tree of several levels. Every run makes the
    // same tree, because one thread compacts and the flushes are at fixed points.
    Db::builder(dir)
        .filter(policy)
        .compression(Compression::None)
        .table_bytes(256 << 10)
        .level_base_bytes(256 << 10)
        .compaction_threads(1)
}

/// Makes a tree of several levels. `policy` chooses the filters of its tables.
fn fill(dir: &Path, policy: FilterPolicy) -> maypole::Result<Db> {
    let db = builder(dir, policy).open()?;
    for i in 0..KEYS {
        db.put(key("present", i), [i as u8; 100])?;
        if (i + 1) % KEYS_A_FLUSH == 0 {
            db.flush()?;
            db.wait_for_compaction()?;
        }
    }
    db.flush()?;
    db.wait_for_compaction()?;
    Ok(db)
}

/// A day of lookups, `absent` percent of which are for absent keys. Returns the database's
/// statistics after them.
fn day(db: &Db, absent: u64) -> maypole::Result<Stats> {
    for i in 0..LOOKUPS {
        let is_absent = hash64(&i.to_le_bytes()) % 100 < absent;
        let kind = if is_absent { "absent" } else { "present" };
        assert_ne!(db.contains_key(key(kind, i * 7 % KEYS))?, is_absent);
    }
    Ok(db.stats())
}

/// The share of lookups that found nothing.
fn absent_share(stats: &Stats) -> f64 {
    let get = |ticker| stats.tickers.get(ticker) as f64;
    let hits = [Ticker::MemtableHit, Ticker::GetHitL0, Ticker::GetHitL1, Ticker::GetHitL2AndUp];
    1.0 - hits.map(get).iter().sum::<f64>() / get(Ticker::NumberKeysRead)
}

/// The share of the filters' bytes that is in the deepest level.
fn bottom_share(stats: &Stats) -> f64 {
    let bottom = stats.levels.last().map_or(0, |level| level.filter_bytes);
    bottom as f64 / stats.filter_bytes() as f64
}

/// The rule that chooses a policy. `memory` bytes may be spent on filters.
fn advice(stats: &Stats, memory: u64) -> (String, &'static str) {
    if absent_share(stats) < 0.05 {
        // Nearly every lookup that reaches the deepest level finds its key there, so the filters of
        // that level save nothing.
        return ("bottommost_none(bloom(10))".into(), "hardly any lookup is for an absent key");
    }
    if stats.filter_bytes() > memory {
        let keys: u64 = stats.levels.iter().map(|level| level.entries).sum();
        // Bits for each key, rounded down to a tenth. Of all families, `burr` has the lowest rate
        // for few bits.
        let bits = (80 * memory / keys) as f64 / 10.0;
        return (format!("burr({bits})"), "the filters take more than their share");
    }
    ("bloom(10)".into(), "nothing to gain")
}

fn line(policy: &str, stats: &Stats, out: &mut dyn Write) -> std::io::Result<()> {
    let wasted = stats.counts().filter.false_positive() as f64;
    // The number of searched blocks is printed, not that of filter queries, because a table without
    // a filter is searched without a query.
    let examined = stats.counts().data_blocks_examined as f64;
    writeln!(
        out,
        "  {policy:<28} filters {:>5.1} KiB, blocks searched for 100 lookups {:>5.1}, {wasted} wrong \"maybe\"",
        stats.filter_bytes() as f64 / 1024.0,
        100.0 * examined / LOOKUPS as f64
    )
}

/// Runs the example, and prints to `out`.
pub fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let filled = fill(&dir.path().join("filled"), "bloom(10)".parse()?)?;
    let services =
        [("a cache's index", 1, 1 << 20), ("a crawler", 60, 1 << 20), ("a phone", 60, 32 << 10)];
    for (n, (service, absent, memory)) in services.into_iter().enumerate() {
        // Each service gets a copy of the same database. The copy's counters start at zero, because
        // it is opened for this service.
        let before = dir.path().join(format!("{n} before"));
        filled.checkpoint(&before)?;
        let stats = day(&builder(&before, "bloom(10)".parse()?).open()?, absent)?;
        writeln!(
            out,
            "{service}: {:.0} of 100 lookups find nothing, {:.0} of 100 bytes of filters in the deepest level",
            100.0 * absent_share(&stats),
            100.0 * bottom_share(&stats)
        )?;
        line("bloom(10)", &stats, out)?;
        let (policy, reason) = advice(&stats, memory);
        writeln!(out, "  advice: {policy}, since {reason}")?;
        if policy != "bloom(10)" {
            let after = dir.path().join(format!("{n} after"));
            line(&policy, &day(&fill(&after, policy.parse()?)?, absent)?, out)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut stdout().lock())
}
