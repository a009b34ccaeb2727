//! Step 15: compaction by itself: which level is merged, and which entries stay.
//!
//! ```text
//! level 0   at most 3 tables         4 are merged into level 1
//! level 1   at most `level1_bytes`   if it is larger, it is merged into level 2
//! level 2   10 times as many; and so on. The last level has no limit
//! ```

use std::fmt::Write;
use std::io;

use super::step05_table::Table;
use super::step08_levels::{Db, LEVELS};
use super::step13_merging::merged;
use super::step14_snapshots::needed;
use crate::given::{DELETION, split_key};

/// When a level is too large.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Level 0 is merged when it has this number of tables or more.
    pub level0_tables: usize,
    /// The most bytes that level 1 may have.
    pub level1_bytes: u64,
    /// How many times more bytes each deeper level may have than the level before it.
    pub ratio: u64,
}

/// Level 1 may have 1 MiB.
pub const LIMITS: Limits = Limits { level0_tables: 4, level1_bytes: 1 << 20, ratio: 10 };

/// The bytes of each table, by level.
pub type Sizes = [Vec<u64>; LEVELS];

/// The level that is to be merged into the next one, or `None` if no level is too large.
pub fn pick(sizes: &Sizes, limits: Limits) -> Option<usize> {
    todo!("level 0 by its number of tables; each deeper level but the last by its bytes")
}

/// Merges the tables of `level` and of the level below into one table of the level below. It has
/// every entry that a reader may need: the newest of each key, and what the snapshots see.
pub fn compact(db: &mut Db, level: usize, snapshots: &[u64]) -> io::Result<()> {
    let into = level + 1;
    todo!("the needed entries of both levels; tombstones that hide nothing go; `replace`")
}

pub fn sizes(db: &Db) -> Sizes {
    let of = |tables: &Vec<Table>| tables.iter().map(|table| table.file_bytes).collect();
    std::array::from_fn(|level| of(&db.levels[level]))
}

/// Compacts until no level is too large.
pub fn settle(db: &mut Db, limits: Limits, snapshots: &[u64]) -> io::Result<()> {
    todo!("two lines")
}

/// A tree of sizes without keys, to try `pick` on.
#[derive(Default)]
pub struct Simulator {
    pub sizes: Sizes,
    pub flushed: u64,
    /// Bytes that compactions wrote.
    pub merged: u64,
    pub moves: u64,
    /// A line for each flush and each compaction.
    pub log: String,
}

impl Simulator {
    /// A flush of `bytes` new bytes, and the compactions after it.
    pub fn flush(&mut self, bytes: u64, limits: Limits) {
        self.flushed += bytes;
        self.sizes[0].insert(0, bytes);
        self.note("flush");
        let mut moves = 0;
        while let Some(level) = pick(&self.sizes, limits) {
            assert!(level + 1 < LEVELS, "level {level} is the last: it is merged into no other");
            assert!(!self.sizes[level].is_empty(), "level {level} is empty, and it is picked");
            moves += 1;
            assert!(moves <= LEVELS, "{moves} compactions after one flush: does it end?");
            let above: u64 = self.sizes[level].drain(..).sum();
            let below: u64 = self.sizes[level + 1].drain(..).sum();
            self.sizes[level + 1].push(above + below);
            self.merged += above + below;
            self.note(&format!("{level} -> {}", level + 1));
        }
        self.moves += moves as u64;
    }

    fn note(&mut self, what: &str) {
        let sums = self.sizes.each_ref().map(|tables| tables.iter().sum::<u64>());
        let [a, b, c, d] = sums;
        writeln!(self.log, "{what:<7} {:>6}  {a:>7} {b:>7} {c:>7} {d:>7}", self.sizes[0].len())
            .expect("into a string");
    }

    /// Bytes that were written for each byte that was flushed: the flush itself, and compactions.
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.merged as f64 / self.flushed.max(1) as f64
    }

    /// The tables that a lookup of an absent key comes to.
    pub fn runs(&self) -> usize {
        self.sizes.iter().map(Vec::len).sum()
    }
}
