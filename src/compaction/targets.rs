//! How large each level may be, and how many bytes must be rewritten to reach these sizes: pure
//! functions.
//!
//! This is leveled compaction with dynamic level targets, like RocksDB's
//! `level_compaction_dynamic_level_bytes`. The last level is as large as its data. Every level
//! above it may hold a tenth of the next level. The *base level*, into which level 0 is compacted,
//! is the shallowest one whose target is at least `level_base_bytes`, or the last level if no
//! target is that large. Levels between 0 and the base stay empty. So the levels between level 0
//! and the last together have at most about a ninth (1/10 + 1/100 + …) of the bytes of the last
//! level, however small the database is. Newer versions in these levels therefore hide at most
//! about a ninth of the data of the last level.
//!
//! Why the target of the base must be at least `level_base_bytes`: if it were below the size of one
//! compaction of level 0, that compaction would be followed at once by one into the next level, so
//! the first rewrite would gain nothing. RocksDB starts to use a level as soon as the next level is
//! larger than `level_base_bytes`, so its base may have a target of only a tenth of that.
//!
//! ```text
//!   L0   newest first, ranges overlap         score = files / l0_trigger
//!   L1   (empty)
//!   …
//!   L4   base: a hundredth of L6, at least     score = bytes / target
//!        level_base_bytes
//!   L5   up to a tenth of L6                   score = bytes / target
//!   L6   the rest                              never scored
//! ```

use super::overlap::{bounds, overlapping};
use crate::version::{FileMeta, LEVELS};

/// The level that holds the oldest versions.
pub(crate) const LAST_LEVEL: usize = LEVELS - 1;

/// A merge into the base level should rewrite at most this many bytes of that level for each byte
/// of level 0. A compaction of any deeper level rewrites about as many for each byte that it moves.
const MAX_REWRITE: u64 = 10;

/// A merge into the base level is cheap if it rewrites at most `table_bytes` divided by this. Then
/// level 0 is merged into the base level, however small it is.
const CHEAP_FRACTION: u64 = 16;

/// With this many files or more, level 0 is compacted into the base level at any cost, because a
/// lookup may have to search each file.
const MAX_FILES: usize = 12;

/// The sizes and counts that compaction aims for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TreeShape {
    /// Level 0 is compacted when it has this many files.
    pub l0_trigger: usize,
    /// The base level may hold at least this many bytes.
    pub level_base_bytes: u64,
    /// Each level may be this many times as large as the level above it.
    pub level_multiplier: u64,
    /// A compaction ends an output table at this size.
    pub table_bytes: u64,
    /// A memtable is flushed at this size.
    pub memtable_bytes: u64,
}

/// The files of each level: newest first in level 0, in key order in the others.
pub(crate) type Levels<'a> = [Vec<&'a FileMeta>; LEVELS];

pub(super) fn level_bytes(levels: &Levels) -> [u64; LEVELS] {
    std::array::from_fn(|level| levels[level].iter().map(|f| f.file_bytes).sum())
}

/// The base level, and the target of every level in bytes.
pub(super) fn level_targets(
    level_bytes: &[u64; LEVELS],
    shape: &TreeShape,
) -> (usize, [u64; LEVELS]) {
    let mut targets = [0; LEVELS];
    let largest = level_bytes[1..].iter().copied().max().unwrap_or(0);
    let mut base = LAST_LEVEL;
    targets[base] = largest;
    while base > 1 && targets[base] / shape.level_multiplier >= shape.level_base_bytes {
        targets[base - 1] = targets[base] / shape.level_multiplier;
        base -= 1;
    }
    (base, targets)
}

/// An output table is cut before it overlaps more than about this many bytes of the level below its
/// own.
pub(super) fn max_grandparent_bytes(shape: &TreeShape) -> u64 {
    shape.table_bytes.saturating_mul(10)
}

/// The score of level 0, which is compacted if the score is at least 1. It is the larger of two
/// ratios: the number of files divided by the trigger, and the bytes divided by a limit. Level 0
/// reaches this limit before the trigger only if its files are unusually large.
pub(super) fn l0_score(files: &[&FileMeta], shape: &TreeShape) -> f64 {
    let bytes: u64 = files.iter().map(|file| file.file_bytes).sum();
    let flushes = shape.memtable_bytes.saturating_mul(shape.l0_trigger as u64);
    let most_bytes = shape.level_base_bytes.max(flushes).max(1);
    let by_count = files.len() as f64 / shape.l0_trigger as f64;
    // `most_bytes` is at least the size of `l0_trigger` full memtables. So flushed tables reach the
    // trigger before they reach the limit, which is twice as large.
    by_count.max(bytes as f64 / (2.0 * most_bytes as f64))
}

/// Whether level 0 is too small to be compacted, compared with the bytes of `output_level` that the
/// compaction would rewrite.
pub(super) fn is_small(levels: &Levels, output_level: usize, shape: &TreeShape) -> bool {
    let files = &levels[0];
    if files.len() >= MAX_FILES {
        return false;
    }
    let Some((smallest, largest)) = bounds(files.iter().copied()) else { return false };
    let bytes: u64 = files.iter().map(|file| file.file_bytes).sum();
    let below = overlapping(&levels[output_level], smallest, largest);
    let rewritten: u64 = below.iter().map(|file| file.file_bytes).sum();
    rewritten > shape.table_bytes / CHEAP_FRACTION && rewritten / MAX_REWRITE > bytes
}

/// The bytes that compaction must still rewrite until every level is within its target. If level 0
/// is due for a compaction into the base, all bytes of both levels count. From the base on, each
/// level gets the bytes that move down from the levels above it, and passes the bytes above its
/// target on to the next level. Counted are the bytes that it passes on, and the bytes of the next
/// level that they would overlap if keys were spread evenly. This is RocksDB's estimate of pending
/// compaction bytes.
pub(crate) fn debt_bytes(levels: &Levels, shape: &TreeShape) -> u64 {
    let bytes = level_bytes(levels);
    let (base, targets) = level_targets(&bytes, shape);
    let mut debt: u64 = 0;
    // Bytes that move into a level from above.
    let mut moving = 0;
    if l0_score(&levels[0], shape) >= 1.0 && !is_small(levels, base, shape) {
        moving = bytes[0];
        debt = moving.saturating_add(bytes[base]);
    }
    // Levels above the base must be emptied.
    moving = bytes[1..base].iter().fold(moving, |sum, &bytes| sum.saturating_add(bytes));
    for level in base..LAST_LEVEL {
        let size = bytes[level].saturating_add(moving);
        moving = size.saturating_sub(targets[level]);
        if moving > 0 {
            let overlap = moving as f64 * (bytes[level + 1] as f64 / size as f64);
            debt = debt.saturating_add(moving).saturating_add(overlap as u64);
        }
    }
    debt
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{SHAPE, file, levels};
    use super::*;

    #[test]
    fn targets_grow_tenfold_toward_the_last_level() {
        let mut bytes = [0; LEVELS];
        bytes[6] = 50;
        assert_eq!(level_targets(&bytes, &SHAPE).0, 6);
        bytes[6] = 12_345;
        let (base, targets) = level_targets(&bytes, &SHAPE);
        assert_eq!(base, 4);
        assert_eq!(targets, [0, 0, 0, 0, 123, 1234, 12_345]);
    }

    fn debt_of(files: &[(usize, FileMeta)]) -> u64 {
        debt_bytes(&levels(files), &SHAPE)
    }

    #[test]
    fn a_tree_that_asks_for_no_compaction_has_no_debt_and_each_level_adds_its_own() {
        let last = (6, file(1, 0, 9, 10_000));
        let l0 = |count: u64| (0..count).map(|i| (0, file(9 + i, 0, 9, 50)));
        assert_eq!(debt_of(&[]), 0);
        let balanced: Vec<_> = l0(3).chain([last.clone(), (5, file(2, 0, 9, 1000))]).collect();
        assert_eq!(debt_of(&balanced), 0);
        // The base is level 4, which may hold 100 bytes and has 50. Level 0 brings 200 bytes, so
        // 150 must move to level 5. Level 5 may hold 1000 bytes and has 900, so 50 must move to
        // level 6.
        let full: Vec<_> =
            l0(4).chain([(4, file(3, 0, 9, 50)), (5, file(2, 0, 9, 900)), last]).collect();
        let to_base = 200 + 50;
        let to_5 = 150 + 150 * 900 / 250;
        let to_6 = 50 + 50 * 10_000 / 1050;
        assert_eq!(debt_of(&full), to_base + to_5 + to_6);
    }
}
