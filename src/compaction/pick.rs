//! Which tables to compact next: a pure function from what the tree holds to a plan.
//!
//! Leveled compaction with dynamic level targets, in the manner of RocksDB's
//! `level_compaction_dynamic_level_bytes`: the last level is as large as it is, every level above it
//! may hold a tenth of the one below, and the *base level*, which level 0 is compacted into, is the
//! last one that may still hold `level_base_bytes`. Levels between 0 and the base stay empty. So
//! about a ninth of the data is shadowed by newer versions at most, however little data there is.
//!
//! Why the base must hold `level_base_bytes`: one smaller than what level 0 brings at once is only
//! a stop on the way. RocksDB opens a level as soon as the one below is larger than that, so its
//! base may be ten times smaller.
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
//!
//! Of a level that is too large the file is taken that overlaps least with the next level, for its
//! size: it moves the most data for the bytes rewritten.
//!
//! What is absent: files, tables, threads. The caller says which files are busy.

use std::collections::HashSet;

use crate::key::{self, user_key};
use crate::version::{FileMeta, LEVELS};

/// The level that holds the oldest versions.
pub(crate) const LAST_LEVEL: usize = LEVELS - 1;

/// The shape the tree is kept in.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Level 0 is compacted when it has this many files.
    pub l0_trigger: usize,
    /// A level is opened above the others when it may hold at least this.
    pub level_base_bytes: u64,
    /// Each level may be this many times the one above.
    pub level_multiplier: u64,
    /// Where a table of levels 1 and up is cut.
    pub table_bytes: u64,
}

/// One compaction: merge the inputs into new tables at `output_level`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub level: usize,
    pub output_level: usize,
    /// File numbers of `level`, then of `output_level`.
    pub inputs: Vec<u64>,
    pub output_inputs: Vec<u64>,
    /// Bytes of all of them.
    pub input_bytes: u64,
    /// No merge is needed: the inputs share no key with each other nor with where they go.
    pub trivial_move: bool,
}

/// The files of each level. Level 0 newest first, the others by key.
pub(crate) type Levels<'a> = [Vec<&'a FileMeta>; LEVELS];

/// The first level that level 0 is compacted into, and the target of every level in bytes.
pub(crate) fn level_targets(level_bytes: &[u64; LEVELS], shape: &Shape) -> (usize, [u64; LEVELS]) {
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

/// The most urgent compaction that touches no busy file, if any level asks for one.
pub(crate) fn pick(levels: &Levels, shape: &Shape, busy: &HashSet<u64>) -> Option<Plan> {
    let bytes = level_bytes(levels);
    let (base, targets) = level_targets(&bytes, shape);
    let mut urgent: Vec<(f64, usize)> = vec![(l0_score(levels, shape), 0)];
    for level in 1..LAST_LEVEL {
        let idle: u64 =
            levels[level].iter().filter(|f| !busy.contains(&f.number)).map(|f| f.file_bytes).sum();
        // A level above the base was left over when the tree shrank: empty it first.
        let score = match idle {
            0 => 0.0,
            _ if level < base => 100.0,
            _ => idle as f64 / targets[level] as f64,
        };
        urgent.push((score, level));
    }
    urgent.retain(|&(score, _)| score >= 1.0);
    urgent.sort_by(|a, b| b.0.total_cmp(&a.0));
    urgent.iter().find_map(|&(_, level)| match level {
        0 => {
            let inputs = levels[0].iter().map(|f| f.number).collect();
            plan(levels, 0, next_level(levels, 0, base), inputs, shape, busy)
        }
        _ => pick_file(levels, level, next_level(levels, level, base), shape, busy),
    })
}

/// The level that `level` is compacted into: the base or the one below. Not past a level above the
/// base that still holds files: what is newer would come to lie under what is older.
pub(crate) fn next_level(levels: &Levels, level: usize, base: usize) -> usize {
    let left_over = (level + 1..base).find(|&between| !levels[between].is_empty());
    left_over.unwrap_or(base.max(level + 1))
}

/// Bytes of each level.
pub(crate) fn level_bytes(levels: &Levels) -> [u64; LEVELS] {
    std::array::from_fn(|level| levels[level].iter().map(|f| f.file_bytes).sum())
}

/// How many bytes compaction must still rewrite before every level is within its target: what
/// level 0 brings into the base, then level by level what is too much, each with what it overlaps
/// below, taken as evenly spread. RocksDB's estimate of pending compaction bytes.
pub(crate) fn debt_bytes(levels: &Levels, shape: &Shape) -> u64 {
    let bytes = level_bytes(levels);
    let (base, targets) = level_targets(&bytes, shape);
    let mut debt: u64 = 0;
    // What comes into a level from above.
    let mut moving = 0;
    if l0_score(levels, shape) >= 1.0 {
        moving = bytes[0];
        debt = moving.saturating_add(bytes[base]);
    }
    // Levels above the base are to be emptied.
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

fn l0_score(levels: &Levels, shape: &Shape) -> f64 {
    levels[0].len() as f64 / shape.l0_trigger as f64
}

/// The file of `level` that overlaps least with `output_level` for its size.
fn pick_file(
    levels: &Levels,
    level: usize,
    output_level: usize,
    shape: &Shape,
    busy: &HashSet<u64>,
) -> Option<Plan> {
    let mut files: Vec<(f64, u64)> = levels[level]
        .iter()
        .filter(|file| !busy.contains(&file.number))
        .map(|file| {
            let below: u64 =
                overlapping(&levels[output_level], user_key(&file.smallest), &file.largest)
                    .iter()
                    .map(|f| f.file_bytes)
                    .sum();
            (below as f64 / file.file_bytes.max(1) as f64, file.number)
        })
        .collect();
    files.sort_by(|a, b| a.0.total_cmp(&b.0));
    files
        .iter()
        .find_map(|&(_, number)| plan(levels, level, output_level, vec![number], shape, busy))
}

/// The plan that compacts `inputs` of `level` into `output_level`, unless it would touch a busy
/// file.
pub(crate) fn plan(
    levels: &Levels,
    level: usize,
    output_level: usize,
    inputs: Vec<u64>,
    shape: &Shape,
    busy: &HashSet<u64>,
) -> Option<Plan> {
    let chosen: Vec<&FileMeta> =
        levels[level].iter().copied().filter(|f| inputs.contains(&f.number)).collect();
    let smallest = chosen.iter().map(|f| user_key(&f.smallest)).min()?;
    let largest = chosen.iter().map(|f| &f.largest[..]).max_by(|a, b| key::compare(a, b))?;
    let below = if output_level == level {
        &[][..]
    } else {
        overlapping(&levels[output_level], smallest, largest)
    };
    let touches_busy = |files: &[&FileMeta]| files.iter().any(|f| busy.contains(&f.number));
    if touches_busy(&chosen) || touches_busy(below) {
        return None;
    }
    // A file that overlaps much of the level after next would be expensive to move from there.
    let grandparent_bytes: u64 = levels.get(output_level + 1).map_or(0, |level| {
        overlapping(level, smallest, largest).iter().map(|f| f.file_bytes).sum()
    });
    Some(Plan {
        level,
        output_level,
        trivial_move: are_disjoint(&chosen)
            && below.is_empty()
            && output_level != level
            && grandparent_bytes <= max_grandparent_bytes(shape),
        input_bytes: chosen.iter().chain(below).map(|f| f.file_bytes).sum(),
        inputs: chosen.iter().map(|f| f.number).collect(),
        output_inputs: below.iter().map(|f| f.number).collect(),
    })
}

/// Whether no two files share a user key. One file always is; files of level 0 are after a fill in
/// key order.
fn are_disjoint(files: &[&FileMeta]) -> bool {
    let mut files = files.to_vec();
    files.sort_by(|a, b| key::compare(&a.smallest, &b.smallest));
    files.windows(2).all(|pair| pair[1].begins_behind(&pair[0].largest))
}

/// An output table is cut where it would overlap more than this with the level after it.
pub(crate) fn max_grandparent_bytes(shape: &Shape) -> u64 {
    shape.table_bytes.saturating_mul(10)
}

/// The files of a level of disjoint files whose user-key range meets the one from the user key
/// `smallest` to the internal key `largest`.
pub(crate) fn overlapping<'a, 'b>(
    files: &'b [&'a FileMeta],
    smallest: &[u8],
    largest: &[u8],
) -> &'b [&'a FileMeta] {
    let start = files.partition_point(|f| f.ends_before(smallest));
    let end = files.partition_point(|f| !f.begins_behind(largest));
    &files[start..end.max(start)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::internal_key;

    const SHAPE: Shape =
        Shape { l0_trigger: 4, level_base_bytes: 100, level_multiplier: 10, table_bytes: 10 };

    fn file(number: u64, smallest: u8, largest: u8, file_bytes: u64) -> FileMeta {
        FileMeta {
            number,
            file_bytes,
            entries: 1,
            tombstones: 0,
            least_sequence: 1,
            largest_sequence: 1,
            global_sequence: None,
            smallest: internal_key(&[smallest], 1, 1),
            largest: internal_key(&[largest], 1, 1),
            ..FileMeta::default()
        }
    }

    fn pick_from(files: &[(usize, FileMeta)], busy: &[u64]) -> Option<Plan> {
        let mut levels: Levels = Default::default();
        for (level, file) in files {
            levels[*level].push(file);
        }
        pick(&levels, &SHAPE, &busy.iter().copied().collect())
    }

    #[test]
    fn an_empty_and_a_balanced_tree_ask_for_nothing() {
        assert_eq!(pick_from(&[], &[]), None);
        assert_eq!(pick_from(&[(0, file(1, 0, 9, 50)), (6, file(2, 0, 9, 1000))], &[]), None);
    }

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
        let mut levels: Levels = Default::default();
        for (level, file) in files {
            levels[*level].push(file);
        }
        debt_bytes(&levels, &SHAPE)
    }

    #[test]
    fn a_tree_that_asks_for_no_compaction_has_no_debt_and_each_level_adds_its_own() {
        let last = (6, file(1, 0, 9, 10_000));
        let l0 = |count: u64| (0..count).map(|i| (0, file(9 + i, 0, 9, 50)));
        assert_eq!(debt_of(&[]), 0);
        let balanced: Vec<_> = l0(3).chain([last.clone(), (5, file(2, 0, 9, 1000))]).collect();
        assert_eq!(debt_of(&balanced), 0);
        // The base is level 4, which may hold 100: 200 come in, of 250 then 150 go on to level 5,
        // which may hold 1000 and has 900, so 50 go on to level 6.
        let full: Vec<_> =
            l0(4).chain([(4, file(3, 0, 9, 50)), (5, file(2, 0, 9, 900)), last]).collect();
        let to_base = 200 + 50;
        let to_5 = 150 + 150 * 900 / 250;
        let to_6 = 50 + 50 * 10_000 / 1050;
        assert_eq!(debt_of(&full), to_base + to_5 + to_6);
    }

    #[test]
    fn files_of_level_0_that_share_no_key_move_without_a_merge() {
        let mut files: Vec<_> =
            (0..4).map(|i| (0, file(9 - i, 10 * i as u8, 10 * i as u8 + 5, 10))).collect();
        files.push((6, file(1, 100, 109, 10)));
        let plan = pick_from(&files, &[]).unwrap();
        assert!(plan.trivial_move && plan.inputs.len() == 4);
        files.push((6, file(2, 33, 34, 10)));
        assert!(!pick_from(&files, &[]).unwrap().trivial_move, "an overlap below was passed over");
    }

    #[test]
    fn a_full_level_0_goes_whole_into_the_base_level_with_all_it_overlaps() {
        let mut files: Vec<_> = (0..4).map(|i| (0, file(9 - i, 10, 20, 10))).collect();
        files.push((6, file(1, 0, 9, 10)));
        files.push((6, file(2, 15, 16, 10)));
        files.push((6, file(3, 20, 30, 10)));
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.level, plan.output_level, plan.trivial_move), (0, 6, false));
        assert_eq!(plan.inputs, [9, 8, 7, 6]);
        assert_eq!(plan.output_inputs, [2, 3]);
        assert_eq!(pick_from(&files, &[3]), None, "a busy output file was touched");
        assert_eq!(pick_from(&files, &[7]), None, "a busy input file was touched");
    }

    #[test]
    fn the_file_with_the_least_overlap_leaves_a_level_that_is_too_large() {
        let files = [
            (5, file(1, 0, 9, 60)),
            (5, file(2, 10, 19, 60)),
            (6, file(3, 0, 5, 1000)),
            (6, file(4, 11, 12, 100)),
        ];
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.level, plan.output_level), (5, 6));
        assert_eq!((plan.inputs, plan.output_inputs), (vec![2], vec![4]));
        assert_eq!(pick_from(&files, &[2]), None, "60 idle bytes are below the target of 110");
    }

    #[test]
    fn a_file_that_overlaps_nothing_below_moves_without_a_merge() {
        let files = [(5, file(1, 0, 9, 160)), (6, file(2, 10, 20, 1000))];
        let plan = pick_from(&files, &[]).unwrap();
        assert!(plan.trivial_move && plan.output_inputs.is_empty());
    }

    /// While the last file of such a level is on its way, level 0 was sent past it.
    #[test]
    fn nothing_is_sent_past_a_level_above_the_base_that_still_holds_files() {
        let mut files: Vec<_> = (0..4).map(|i| (0, file(9 - i, 10, 20, 10))).collect();
        files.push((2, file(1, 15, 30, 5)));
        files.push((4, file(2, 10, 40, 5)));
        files.push((6, file(3, 50, 60, 50)));
        assert_eq!(pick_from(&files, &[1, 2]), None);
        let plan = pick_from(&files, &[2]).unwrap();
        assert_eq!((plan.level, plan.output_level, plan.output_inputs), (0, 2, vec![1]));
        files.truncate(4);
        let levels: Levels = Default::default();
        assert_eq!(next_level(&levels, 0, 6), 6);
        assert_eq!(next_level(&levels, 2, 6), 6);
        assert_eq!(next_level(&levels, 6, 6), 7);
    }

    #[test]
    fn files_that_meet_at_the_end_of_a_range_deletion_do_not_overlap() {
        let mut first = file(9, 10, 20, 10);
        first.largest = key::range_end(&[20]);
        let second = file(8, 20, 30, 10);
        assert!(are_disjoint(&[&second, &first]));
        assert_eq!(overlapping(&[&second], &[10], &first.largest).len(), 0);
        assert_eq!(overlapping(&[&first], &[20], &second.largest).len(), 0);
        assert_eq!(overlapping(&[&first], &[19], &second.largest).len(), 1);
    }

    #[test]
    fn a_level_above_the_base_is_emptied_first() {
        let files = [(2, file(1, 0, 9, 5)), (6, file(2, 0, 9, 50))];
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.level, plan.output_level), (2, 6));
    }
}
