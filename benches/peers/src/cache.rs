//! The hit rate of a block cache for lookups that prefer some keys, alone and with a concurrent
//! scan.
//!
//! The lookups are of present keys: the key of rank r is looked up with probability proportional to
//! 1 / r^0.99. After every thousand lookups a scan continues for [`SCANNED`] entries; after the
//! last key it starts again at the first. In `zipf+scan-past-the-cache` the blocks of the scan are
//! not inserted into the cache. The scan runs in the thread of the lookups, so that the counts
//! depend on the order of the work and not on the machine. The result is 100 minus the number of
//! blocks of any kind that 100 lookups read. If no lookup reads two blocks, this is the percentage
//! of lookups that read none.
//!
//! Filters and indexes are in the cache in all engines (RocksDB: `cache_index_and_filter_blocks`).

use std::sync::Arc;

use crate::engine::{Engine, Result, Scan};
use crate::keys::{Numbers, Zipf};
use crate::{Options, rounds};

pub const WORKLOADS: &[&str] = &["zipf", "zipf+scan", "zipf+scan-past-the-cache"];

const EXPONENT: f64 = 0.99;
/// Lookups between two pieces of the scan.
const LOOKUPS: u64 = 1000;
/// Entries that the scan reads between two groups of lookups. A block has about thirty entries, so
/// the scan reads about 500 blocks for every [`LOOKUPS`] lookups.
const SCANNED: u64 = 15_000;

/// Runs one workload; returns the percentage of lookups that read no block.
pub fn run(engine: &Arc<dyn Engine>, workload: &str, seed: u64, options: &Options) -> Result<f64> {
    let fills_cache = match workload {
        "zipf" => None,
        "zipf+scan" => Some(true),
        "zipf+scan-past-the-cache" => Some(false),
        _ => return Err(format!("unknown workload {workload}").into()),
    };
    let ranks = Zipf::new(options.entries, EXPONENT);
    let mut numbers = Numbers::new(seed);
    let mut scan: Option<Box<dyn Scan + '_>> = None;
    let (mut asked, mut reads) = (0, 0);
    while asked < options.operations {
        let before = engine.blocks_read()?;
        for _ in 0..LOOKUPS {
            let key = options.keys().key(ranks.below(numbers.fraction()));
            engine.get(&key)?.ok_or("a present key was not found")?;
        }
        asked += LOOKUPS;
        reads += engine.blocks_read()? - before;
        let Some(fills_cache) = fills_cache else { continue };
        let mut left = SCANNED;
        while left > 0 {
            match &mut scan {
                Some(open) => match open.step(left)? {
                    0 => scan = None,
                    stepped => left -= stepped,
                },
                None => scan = Some(engine.scan_from_start(fills_cache)?),
            }
        }
    }
    Ok(100.0 * (1.0 - reads as f64 / asked as f64))
}

/// Measures the requested workloads, and prints a table.
pub fn compare(options: &Options) -> Result<()> {
    let mut options = options.clone();
    options.charge_metadata = true;
    let wanted: Vec<_> = WORKLOADS.iter().copied().filter(|name| options.wants(name)).collect();
    let rows = rounds::measure(&options, &wanted)?;
    rounds::print(&options, "% that read no block", &rows);
    Ok(())
}
