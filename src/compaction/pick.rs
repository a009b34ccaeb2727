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
//! Least urgent are **tiny tables**: what overlaps nothing is moved down as it is, so keys that
//! ascend would leave a file of every flush. A run of neighbours in one level, each smaller than a
//! sixteenth of a table, is merged in its place when there are eight of them, they make one table at
//! most, and the largest holds at most half of their bytes.
//!
//! - A sixteenth: the flush of a memtable of default size is not tiny, so a fill in key order still
//!   writes everything once. What stays is at most sixteen times the files that there could be.
//! - Eight: one rewrite then saves at least seven files.
//! - Half: each rewrite at least doubles the table that a byte is in, so it is rewritten log2 times at
//!   most (2.4 times, where tables of 3 bytes grow to 100). Else a large neighbour would be rewritten
//!   for every seven tiny ones that come.
//!
//! It ends: an output is no longer tiny, or alone where eight were.
//!
//! A merge in place, and one into a gap between two files, may meet without sharing a file: so what
//! runs also holds the range of its outputs ([`Unavailable`]).
//!
//! What is absent: files, tables, threads. The caller says what is held.

use std::collections::HashSet;

use super::aside::Aside;
use crate::encoding::key;
use crate::encoding::key::user_key;
use crate::version::{FileMeta, LEVELS};

/// The level that holds the oldest versions.
pub(crate) const LAST_LEVEL: usize = LEVELS - 1;

/// The shape the tree is kept in.
#[derive(Debug, Clone)]
pub(crate) struct TreeShape {
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
    /// From where to where the outputs may reach.
    pub output: Span,
    /// User keys at which the outputs are cut, ascending: where damaged files of deeper levels begin
    /// and end.
    pub fences: Vec<Vec<u8>>,
}

/// A range of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub level: usize,
    /// A user key.
    pub smallest: Vec<u8>,
    /// An internal key.
    pub largest: Vec<u8>,
}

impl Span {
    /// Whether files of the two could overlap. Those of level 0 may.
    fn excludes(&self, other: &Span) -> bool {
        self.level == other.level
            && self.level > 0
            && !key::ends_before(&self.largest, &other.smallest)
            && !key::ends_before(&other.largest, &self.smallest)
    }
}

/// What keeps files from being compacted.
#[derive(Debug, Default)]
pub(crate) struct Unavailable {
    /// Numbers of the files that compactions are reading.
    pub busy: HashSet<u64>,
    /// Where they write.
    pub outputs: Vec<Span>,
    /// Numbers of the files that are damaged: nothing is merged with them ([`super::aside`]).
    pub damaged: HashSet<u64>,
}

impl Unavailable {
    pub fn reserve(&mut self, plan: &Plan) {
        self.busy.extend(plan.inputs.iter().chain(&plan.output_inputs));
        self.outputs.push(plan.output.clone());
    }

    /// The opposite of [`Unavailable::reserve`].
    pub fn release(&mut self, plan: &Plan) {
        for number in plan.inputs.iter().chain(&plan.output_inputs) {
            self.busy.remove(number);
        }
        if let Some(held) = self.outputs.iter().position(|output| *output == plan.output) {
            self.outputs.swap_remove(held);
        }
    }
}

/// Tables smaller than this part of `table_bytes` are tiny.
const TINY_FRACTION: u64 = 16;

/// How many of them are merged in their place, at least.
const TINY_RUN: usize = 8;

/// The files of each level. Level 0 newest first, the others by key.
pub(crate) type Levels<'a> = [Vec<&'a FileMeta>; LEVELS];

/// The first level that level 0 is compacted into, and the target of every level in bytes.
pub(crate) fn level_targets(
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

/// The most urgent compaction that touches nothing held, if any level asks for one.
pub(crate) fn pick(levels: &Levels, shape: &TreeShape, held: &Unavailable) -> Option<Plan> {
    let aside = Aside::new(levels, &held.damaged);
    let bytes = level_bytes(levels);
    let (base, targets) = level_targets(&bytes, shape);
    let mut urgent: Vec<(f64, usize)> = vec![(l0_score(free_in_level_0(levels, &aside), shape), 0)];
    for level in 1..LAST_LEVEL {
        let next = next_level(levels, level, base);
        let idle = levels[level]
            .iter()
            .filter(|file| !held.busy.contains(&file.number) && aside.lets_pass(file, level, next));
        let idle: u64 = idle.map(|file| file.file_bytes).sum();
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
    let plan = urgent.iter().find_map(|&(_, level)| {
        let next = next_level(levels, level, base);
        match level {
            0 => plan_level_0(levels, &levels[0], next, shape, held),
            _ => pick_file(levels, level, next, shape, held),
        }
    });
    // Something urgent that must wait for what runs does not wait for the merge of tiny tables too.
    let may_tidy = urgent.is_empty() || held.busy.is_empty();
    plan.or_else(|| match may_tidy {
        true => (1..LEVELS).find_map(|level| tiny_run(levels, level, shape, held, &aside)),
        false => None,
    })
}

/// Compacts what may leave level 0 of `files`, newest first: into `deepest`, or less deep where
/// damaged files allow more of them to go. A file of level 0 that is not among `files` must be newer
/// than all of them.
pub(crate) fn plan_level_0(
    levels: &Levels,
    files: &[&FileMeta],
    deepest: usize,
    shape: &TreeShape,
    held: &Unavailable,
) -> Option<Plan> {
    let aside = Aside::new(levels, &held.damaged);
    let free = |level: &usize| aside.free_in_level_0(files, *level);
    // Of equals the last one.
    let output_level = (1..=deepest).max_by_key(|level| free(level).len())?;
    let mut parts = aside.parted(&free(&output_level), output_level);
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts.iter().find_map(|part| {
        let numbers = part.iter().map(|file| file.number).collect();
        plan(levels, 0, output_level, numbers, shape, held)
    })
}

/// Compacts as many of `files`, which are neighbours in `level`, as may be merged together.
pub(crate) fn plan_neighbours(
    levels: &Levels,
    level: usize,
    output_level: usize,
    files: &[&FileMeta],
    shape: &TreeShape,
    held: &Unavailable,
) -> Option<Plan> {
    let aside = Aside::new(levels, &held.damaged);
    let runs = files.split(|file| !aside.lets_pass(file, level, output_level));
    runs.flat_map(|run| aside.parted(run, output_level)).find_map(|run| {
        let numbers = run.iter().map(|file| file.number).collect();
        plan(levels, level, output_level, numbers, shape, held)
    })
}

/// A run of tiny neighbours that is worth one table; the first of the level, as long as it may be.
fn tiny_run(
    levels: &Levels,
    level: usize,
    shape: &TreeShape,
    held: &Unavailable,
    aside: &Aside,
) -> Option<Plan> {
    let files = &levels[level];
    let is_tiny = |file: &&FileMeta| {
        file.file_bytes < shape.table_bytes / TINY_FRACTION && !held.busy.contains(&file.number)
    };
    (0..files.len()).find_map(|start| {
        let (mut bytes, mut largest_bytes, mut run) = (0, 0, None);
        for (count, file) in (1..).zip(files[start..].iter().take_while(|file| is_tiny(file))) {
            bytes += file.file_bytes;
            largest_bytes = file.file_bytes.max(largest_bytes);
            if bytes > shape.table_bytes {
                break;
            }
            if count >= TINY_RUN && largest_bytes * 2 <= bytes {
                let (smallest, largest) = (user_key(&files[start].smallest), &file.largest);
                // The output would be cut again, and be tiny again.
                if grandparent_bytes(levels, level, smallest, largest)
                    > max_grandparent_bytes(shape)
                    || !aside.fences(level, smallest, largest).is_empty()
                    || aside.is_reached_over(level, smallest, largest)
                {
                    break;
                }
                run = Some(start..start + count);
            }
        }
        let numbers = files[run?].iter().map(|file| file.number).collect();
        plan(levels, level, level, numbers, shape, held)
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
pub(crate) fn debt_bytes(levels: &Levels, shape: &TreeShape) -> u64 {
    let bytes = level_bytes(levels);
    let (base, targets) = level_targets(&bytes, shape);
    let mut debt: u64 = 0;
    // What comes into a level from above.
    let mut moving = 0;
    if l0_score(levels[0].len(), shape) >= 1.0 {
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

/// The tree without what damaged files hold up: what compaction can do something about.
pub(crate) fn without_held_up<'a>(
    levels: &Levels<'a>,
    shape: &TreeShape,
    held: &Unavailable,
) -> Levels<'a> {
    let aside = Aside::new(levels, &held.damaged);
    let mut free = levels.clone();
    if !aside.is_empty() {
        let (base, _) = level_targets(&level_bytes(levels), shape);
        free[0] = aside.free_in_level_0(&levels[0], 1);
        for (level, files) in free.iter_mut().enumerate().take(LAST_LEVEL).skip(1) {
            let next = next_level(levels, level, base);
            files.retain(|file| aside.lets_pass(file, level, next));
        }
    }
    free
}

/// How many files may leave level 0.
fn free_in_level_0(levels: &Levels, aside: &Aside) -> usize {
    match aside.is_empty() {
        true => levels[0].len(),
        false => aside.free_in_level_0(&levels[0], 1).len(),
    }
}

fn l0_score(files: usize, shape: &TreeShape) -> f64 {
    files as f64 / shape.l0_trigger as f64
}

/// The file of `level` that overlaps least with `output_level` for its size.
fn pick_file(
    levels: &Levels,
    level: usize,
    output_level: usize,
    shape: &TreeShape,
    held: &Unavailable,
) -> Option<Plan> {
    let mut files: Vec<(f64, u64)> = levels[level]
        .iter()
        .filter(|file| !held.busy.contains(&file.number))
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
        .find_map(|&(_, number)| plan(levels, level, output_level, vec![number], shape, held))
}

/// The plan that compacts `inputs` of `level` into `output_level`, unless it would touch what is
/// held. Of level 0 the inputs must hold all that is older than one of them and overlaps it, but
/// damaged files and what those hold up.
pub(crate) fn plan(
    levels: &Levels,
    level: usize,
    output_level: usize,
    inputs: Vec<u64>,
    shape: &TreeShape,
    held: &Unavailable,
) -> Option<Plan> {
    let inputs: HashSet<u64> = inputs.into_iter().collect();
    let chosen: Vec<&FileMeta> =
        levels[level].iter().copied().filter(|f| inputs.contains(&f.number)).collect();
    let smallest = chosen.iter().map(|f| user_key(&f.smallest)).min()?;
    let largest = chosen.iter().map(|f| &f.largest[..]).max_by(|a, b| key::compare(a, b))?;
    let below = if output_level == level {
        &[][..]
    } else {
        overlapping(&levels[output_level], smallest, largest)
    };
    let touches_busy = |files: &[&FileMeta]| files.iter().any(|f| held.busy.contains(&f.number));
    if touches_busy(&chosen) || touches_busy(below) {
        return None;
    }
    let ends = || chosen.iter().chain(below);
    let output = Span {
        level: output_level,
        smallest: ends().map(|f| user_key(&f.smallest)).min()?.to_vec(),
        largest: ends().map(|f| &f.largest[..]).max_by(|a, b| key::compare(a, b))?.to_vec(),
    };
    let aside = Aside::new(levels, &held.damaged);
    if held.outputs.iter().any(|running| running.excludes(&output))
        || !chosen.iter().all(|file| aside.lets_pass(file, level, output_level))
        || aside.is_reached_over(output_level, &output.smallest, &output.largest)
    {
        return None;
    }
    let fences = aside.fences(output_level, &output.smallest, &output.largest);
    // A file that overlaps much of the level after next would be expensive to move from there.
    let grandparent_bytes = grandparent_bytes(levels, output_level, smallest, largest);
    Some(Plan {
        level,
        output_level,
        trivial_move: are_disjoint(&chosen)
            && below.is_empty()
            && output_level != level
            && fences.is_empty()
            && grandparent_bytes <= max_grandparent_bytes(shape),
        input_bytes: chosen.iter().chain(below).map(|f| f.file_bytes).sum(),
        inputs: chosen.iter().map(|f| f.number).collect(),
        output_inputs: below.iter().map(|f| f.number).collect(),
        output,
        fences,
    })
}

/// Bytes of the level after `level` that meet a range.
fn grandparent_bytes(levels: &Levels, level: usize, smallest: &[u8], largest: &[u8]) -> u64 {
    levels
        .get(level + 1)
        .map_or(0, |level| overlapping(level, smallest, largest).iter().map(|f| f.file_bytes).sum())
}

/// Whether no two files share a user key. One file always is; files of level 0 are after a fill in
/// key order.
fn are_disjoint(files: &[&FileMeta]) -> bool {
    let mut files = files.to_vec();
    files.sort_by(|a, b| key::compare(&a.smallest, &b.smallest));
    files.windows(2).all(|pair| pair[1].begins_behind(&pair[0].largest))
}

/// An output table is cut where it would overlap more than this with the level after it.
pub(crate) fn max_grandparent_bytes(shape: &TreeShape) -> u64 {
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
    use crate::encoding::key::internal_key;

    const SHAPE: TreeShape =
        TreeShape { l0_trigger: 4, level_base_bytes: 100, level_multiplier: 10, table_bytes: 10 };

    fn file(number: u64, smallest: u8, largest: u8, file_bytes: u64) -> FileMeta {
        FileMeta {
            number,
            file_bytes,
            entries: 1,
            least_sequence: 1,
            largest_sequence: 1,
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
        pick(
            &levels,
            &SHAPE,
            &Unavailable { busy: busy.iter().copied().collect(), ..Unavailable::default() },
        )
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

    /// `count` neighbours from the key `first` on, each of one key.
    fn neighbours(level: usize, first: u8, count: u8, file_bytes: u64) -> Vec<(usize, FileMeta)> {
        let files = (first..first + count).map(|i| (level, file(u64::from(i), i, i, file_bytes)));
        files.collect()
    }

    const TIDY: TreeShape = TreeShape { table_bytes: 1600, ..SHAPE };

    fn tidy_from(files: &[(usize, FileMeta)], held: &Unavailable) -> Option<Plan> {
        let mut levels: Levels = Default::default();
        for (level, file) in files {
            levels[*level].push(file);
        }
        pick(&levels, &TIDY, held)
    }

    fn busy(numbers: &[u64]) -> Unavailable {
        Unavailable { busy: numbers.iter().copied().collect(), ..Unavailable::default() }
    }

    #[test]
    fn eight_tiny_neighbours_are_merged_in_their_place() {
        let free = Unavailable::default();
        let plan = tidy_from(&neighbours(6, 1, 8, 10), &free).unwrap();
        assert_eq!((plan.level, plan.output_level, plan.trivial_move), (6, 6, false));
        assert_eq!(plan.inputs, (1..9).collect::<Vec<_>>());
        assert_eq!(tidy_from(&neighbours(6, 1, 7, 10), &free), None, "seven");
        assert_eq!(tidy_from(&neighbours(6, 1, 8, 100), &free), None, "not tiny");
        // As many as make a table.
        assert_eq!(tidy_from(&neighbours(6, 1, 200, 99), &free).unwrap().inputs.len(), 16);
        assert_eq!(tidy_from(&neighbours(6, 1, 200, 10), &free).unwrap().inputs.len(), 160);
    }

    #[test]
    fn tiny_tables_are_merged_only_with_neighbours_that_nothing_holds() {
        let mut files = neighbours(6, 1, 14, 10);
        assert_eq!(tidy_from(&files, &busy(&[7])), None, "a busy file was passed over");
        files.extend(neighbours(6, 15, 1, 10));
        // Nothing urgent waits: what lies behind the busy file is merged.
        assert_eq!(tidy_from(&files, &busy(&[7])).unwrap().inputs, (8..16).collect::<Vec<_>>());
        files[6].1.file_bytes = 500;
        let plan = tidy_from(&files, &Unavailable::default()).unwrap();
        assert_eq!(plan.inputs, (8..16).collect::<Vec<_>>(), "a large file was passed over");
    }

    /// A large neighbour would be rewritten for every seven tiny files that come.
    #[test]
    fn a_merge_of_tiny_tables_at_least_doubles_each() {
        let mut files = neighbours(6, 1, 8, 10);
        files[0].1.file_bytes = 71;
        assert_eq!(tidy_from(&files, &Unavailable::default()), None);
        files[0].1.file_bytes = 70;
        assert_eq!(tidy_from(&files, &Unavailable::default()).unwrap().inputs.len(), 8);
        // The neighbour on either side is left alone, those beside it are not.
        files[0].1.file_bytes = 99;
        files.extend(neighbours(6, 9, 1, 10));
        assert_eq!(
            tidy_from(&files, &Unavailable::default()).unwrap().inputs,
            (2..10).collect::<Vec<_>>()
        );
    }

    /// The output would be cut where it overlaps too much of the next level, and be tiny again.
    #[test]
    fn tiny_tables_over_a_large_part_of_the_next_level_stay() {
        let mut files = neighbours(5, 1, 8, 10);
        files.push((6, file(90, 0, 4, 8_000)));
        files.push((6, file(91, 5, 20, 8_000)));
        let plan = tidy_from(&files, &Unavailable::default()).unwrap();
        assert_eq!((plan.level, plan.output_level), (5, 5));
        files[9].1.file_bytes = 8_001;
        assert_eq!(tidy_from(&files, &Unavailable::default()), None);
    }

    /// Level 0 can go into a gap between two files: it shares none with the merge of both.
    #[test]
    fn a_merge_in_place_and_one_into_a_gap_exclude_each_other() {
        let tiny: Vec<_> =
            (0..8).map(|i| (6, file(i, 10 * i as u8, 10 * i as u8 + 1, 10))).collect();
        let gap: Vec<_> = (0..4).map(|i| (0, file(90 + i, 15, 16, 10))).collect();
        let all: Vec<_> = tiny.iter().chain(&gap).cloned().collect();
        let mut held = Unavailable::default();
        let merge = tidy_from(&tiny, &held).unwrap();
        held.reserve(&merge);
        assert_eq!(tidy_from(&all, &held), None, "level 0 went into the range of a merge");
        held.release(&merge);
        assert!(held.busy.is_empty() && held.outputs.is_empty());
        let into_gap = tidy_from(&all, &held).unwrap();
        assert_eq!((into_gap.level, into_gap.output_level), (0, 6));
        held.reserve(&into_gap);
        held.busy.clear();
        assert_eq!(tidy_from(&tiny, &held), None, "a merge covers a gap that is written to");
    }

    /// Each plan is carried out on paper: outputs as large as their inputs together.
    #[test]
    fn tiny_tables_come_to_an_end_with_few_rewrites() {
        let mut files: Vec<(usize, FileMeta)> = Vec::new();
        let (mut number, mut rewritten, mut written) = (0u64, 0, 0);
        for round in 0..5000u64 {
            number += 1;
            let key = (round as u32).to_be_bytes();
            let mut meta = file(number, 0, 0, 1 + round * 7919 % 5);
            meta.smallest = internal_key(&key, 1, 1);
            meta.largest = meta.smallest.clone();
            written += meta.file_bytes;
            files.push((6, meta));
            let mut steps = 0;
            while let Some(plan) = tidy_from(&files, &Unavailable::default()) {
                steps += 1;
                assert!(steps < 100, "endless");
                let first = files.iter().position(|(_, f)| f.number == plan.inputs[0]).unwrap();
                let merged: Vec<_> = files.drain(first..first + plan.inputs.len()).collect();
                number += 1;
                let mut meta = file(number, 0, 0, plan.input_bytes);
                meta.smallest = merged[0].1.smallest.clone();
                meta.largest = merged[merged.len() - 1].1.largest.clone();
                rewritten += plan.input_bytes;
                files.insert(first, (6, meta));
            }
        }
        // 15,000 bytes in tables of 1,600: 100 is tiny no longer.
        assert!(files.len() < 15_000 / 100 + 20, "{}", files.len());
        // From 3 bytes to 100: each rewrite doubles at least, most do more.
        assert!(rewritten <= 3 * written, "{rewritten} of {written}");
    }
}
