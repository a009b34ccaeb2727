//! The tour: fills the finished engine, looks keys up in it, and reports what its filters did.

use std::fmt::Write;
use std::io;
use std::rc::Rc;

use super::super::step05_table::{Blocks, Kind, Table};
use super::super::step08_levels::{Db, LEVELS};
use super::super::step09_cache::Cache;
use super::super::step10_budget::bits_by_level;
use super::super::step15_compaction::{Limits, Simulator};
use super::key;
use crate::check::{Check, Scratch, remark};
use crate::given::Handle;

/// The numbers of keys in levels 0, 1 and 2.
pub const KEYS: [u64; 3] = [200, 2_000, 20_000];
const BITS_PER_KEY: f64 = 8.0;
const CACHE_BYTES: usize = 256 << 10;
const ABSENT: u64 = 20_000;

/// A cache that a database owns and its caller shares, so that the caller can read the counters.
pub struct Shared<B>(pub Rc<B>);

impl<B: Blocks> Blocks for Shared<B> {
    fn block(&self, table: &Table, handle: Handle, kind: Kind) -> io::Result<Rc<[u8]>> {
        self.0.block(table, handle, kind)
    }
}

/// A database with a table in each of three levels. The filters have `bits_per_key`, by level.
pub fn tree(scratch: &Scratch, bits_per_key: [f64; LEVELS]) -> io::Result<Db> {
    let mut db = Db::open(&scratch.0)?;
    db.bits_per_key = bits_per_key;
    for level in [2, 1, 0] {
        for i in 0..KEYS[level] {
            db.put(&key(["new", "low", "deep"][level], i), b"")?;
        }
        db.flush()?;
        (0..level).try_for_each(|level| db.compact(level))?;
    }
    Ok(db)
}

/// The tour as a check. The remark of this check is the report of [`tour`].
pub const CHECK: Check =
    Check { says: "the tour", run: || remark(tour().unwrap_or_else(|error| panic!("{error}"))) };

/// Fills the engine, looks up every key and [`ABSENT`] absent ones, and reports what the filters
/// did.
fn tour() -> io::Result<String> {
    let scratch = Scratch::new("tour");
    let mut bits = [0.0; LEVELS];
    bits[..KEYS.len()].copy_from_slice(&bits_by_level(&KEYS, BITS_PER_KEY));
    let mut db = tree(&scratch, bits)?;
    let cache = Rc::new(Cache::new(CACHE_BYTES));
    db.blocks = Box::new(Shared(Rc::clone(&cache)));
    let mut found = 0;
    for (kind, keys) in ["new", "low", "deep"].into_iter().zip(KEYS) {
        for i in 0..keys {
            found += u64::from(db.get(&key(kind, i))?.is_some());
        }
    }
    for i in 0..ABSENT {
        found += u64::from(db.get(&key("lack", i))?.is_some());
    }
    let mut out = String::new();
    let total: u64 = KEYS.iter().sum();
    writeln!(out, "{total} present keys and {ABSENT} absent ones: {found} found").unwrap();
    writeln!(out, "level    keys  bits a key   useful  full positive  of them true  observed rate")
        .unwrap();
    let counts = db.counts();
    for (level, keys) in KEYS.into_iter().enumerate() {
        let count = counts[level];
        writeln!(
            out,
            "{level:>5}  {keys:>6}  {:>10.1}  {:>7}  {:>13}  {:>12}  {:>11.2} %",
            bits[level],
            count.useful,
            count.full_positive,
            count.full_true_positive,
            100.0 * count.observed_rate().unwrap_or_default()
        )
        .unwrap();
    }
    let (hits, misses) = (cache.hits.get(), cache.misses.get());
    writeln!(out, "blocks from the cache: {hits}; from files: {misses}").unwrap();
    Ok(out)
}

/// The moves of a tree, as a check. The remark is the report.
pub const SIMULATE: Check = Check {
    says: "the moves of a tree",
    run: || {
        let flushes: Option<u64> = std::env::args().nth(2).and_then(|n| n.parse().ok());
        remark(simulate(flushes.expect("a number of flushes")));
    },
};

/// Level 1 may have the size of ten flushes.
fn simulate(flushes: u64) -> String {
    let limits = Limits { level0_tables: 4, level1_bytes: 1000, ratio: 10 };
    let mut simulator = Simulator::default();
    (0..flushes).for_each(|_| simulator.flush(100, limits));
    format!(
        "move    tables  level 0 level 1 level 2 level 3\n{}\n\
         each byte was written {:.1} times; a lookup of an absent key comes to {} tables",
        simulator.log,
        simulator.write_amplification(),
        simulator.runs()
    )
}
