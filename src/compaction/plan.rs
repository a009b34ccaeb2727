//! A compaction as a plan: which files it merges, and the range of its output.
//!
//! The caller names files of one level. [`plan_files`] adds the files of the output level that the
//! named files overlap. It returns `None` if the plan would touch anything [`Unavailable`].
//!
//! ```text
//!   level          |--chosen--|   |--chosen--|
//!   output level      |-overlaps-|    |-overlaps-|   |-stays-|
//!   output         |<---------- Span ----------->|
//!   fences                  ^        ^               here: a damaged file of a deeper level
//! ```
//!
//! Two compactions without a common file could still write overlapping tables to one level: one
//! merges two small tables of the level, and the other writes into the gap between them. So a
//! running plan also reserves the span of its output.
//!
//! A plan knows no open files and no threads. The caller passes in what is unavailable.

use std::collections::HashSet;

use super::damaged::DamagedFiles;
use super::targets::{Levels, TreeShape, max_grandparent_bytes};
use crate::encoding::key;
use crate::encoding::key::user_key;
use crate::version::FileMeta;

/// One compaction: merge the inputs into new tables at `output_level`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub level: usize,
    pub output_level: usize,
    /// Numbers of the files of `level`.
    pub inputs: Vec<u64>,
    /// Numbers of the files of `output_level`.
    pub output_inputs: Vec<u64>,
    /// Bytes of both kinds of files.
    pub input_bytes: u64,
    pub kind: PlanKind,
    /// The range that the outputs may cover.
    pub output: Span,
    /// User keys at which the outputs are cut, ascending: the bounds of damaged files in deeper
    /// levels.
    pub fences: Vec<Vec<u8>>,
}

/// How the inputs are processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanKind {
    /// The entries of the inputs go to new tables.
    Merge,
    /// The inputs move unchanged: they share no key with each other, nor with a file of the output
    /// level.
    Move,
    /// The inputs leave the tree unread, because no reader sees any of their entries.
    Drop,
}

/// A range of keys in one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub level: usize,
    /// A user key.
    pub smallest: Vec<u8>,
    /// An internal key.
    pub largest: Vec<u8>,
}

impl Span {
    /// Whether files of the two spans could overlap in one level. Level 0 allows this, so its spans
    /// exclude nothing.
    pub fn excludes(&self, other: &Span) -> bool {
        self.level == other.level
            && self.level > 0
            && !key::ends_before(&self.largest, &other.smallest)
            && !key::ends_before(&other.largest, &self.smallest)
    }
}

/// The files and ranges that a new compaction must not touch.
#[derive(Debug, Default, Clone)]
pub(crate) struct Unavailable {
    /// Numbers of the files that compactions are reading.
    pub busy: HashSet<u64>,
    /// The ranges that compactions are writing, and the ranges of tables that are being ingested.
    pub outputs: Vec<Span>,
    /// Numbers of the damaged files. They are never merged ([`super::damaged`]).
    pub damaged: HashSet<u64>,
}

impl Unavailable {
    /// Call when the compaction starts.
    pub fn reserve(&mut self, plan: &Plan) {
        self.busy.extend(plan.inputs.iter().chain(&plan.output_inputs));
        self.outputs.push(plan.output.clone());
    }

    /// Call when the compaction has ended.
    pub fn release(&mut self, plan: &Plan) {
        for number in plan.inputs.iter().chain(&plan.output_inputs) {
            self.busy.remove(number);
        }
        self.release_output(&plan.output);
    }

    /// Removes one span from `outputs`.
    pub fn release_output(&mut self, span: &Span) {
        if let Some(done) = self.outputs.iter().position(|output| output == span) {
            self.outputs.swap_remove(done);
        }
    }

    /// A copy of the state in which `plan` runs too.
    pub fn with(&self, plan: &Plan) -> Unavailable {
        let mut with = self.clone();
        with.reserve(plan);
        with
    }

    /// A copy of the state in which no compaction runs.
    pub fn at_rest(&self) -> Unavailable {
        Unavailable { damaged: self.damaged.clone(), ..Unavailable::default() }
    }
}

/// The plan that compacts as many of `files` as may leave level 0 together. `files` are in level 0,
/// newest first. They go into `deepest`, or into a shallower level if damaged files let more of
/// them go there. Every other file of level 0 must be newer than each of `files` that it overlaps.
pub(crate) fn plan_level_0(
    levels: &Levels,
    files: &[&FileMeta],
    deepest: usize,
    shape: &TreeShape,
    unavailable: &Unavailable,
) -> Option<Plan> {
    let damaged = DamagedFiles::new(levels, &unavailable.damaged);
    let free = |level: &usize| damaged.free_in_level_0(files, *level);
    // `max_by_key` returns the deepest of equals.
    let output_level = (1..=deepest).max_by_key(|level| free(level).len())?;
    let mut parts = damaged.parted(&free(&output_level), output_level);
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts.iter().find_map(|part| {
        let numbers = part.iter().map(|file| file.number).collect();
        plan_files(levels, 0, output_level, numbers, shape, unavailable)
    })
}

/// The plan that compacts the first run of `files` that may be merged together. `files` are
/// neighbours in `level`.
pub(crate) fn plan_neighbours(
    levels: &Levels,
    level: usize,
    output_level: usize,
    files: &[&FileMeta],
    shape: &TreeShape,
    unavailable: &Unavailable,
) -> Option<Plan> {
    let damaged = DamagedFiles::new(levels, &unavailable.damaged);
    let runs = files.split(|file| !damaged.lets_pass(file, level, output_level));
    runs.flat_map(|run| damaged.parted(run, output_level)).find_map(|run| {
        let numbers = run.iter().map(|file| file.number).collect();
        plan_files(levels, level, output_level, numbers, shape, unavailable)
    })
}

/// The plan that compacts `inputs` of `level` into `output_level`. Returns `None` if the plan would
/// touch anything unavailable. In level 0 each older file that overlaps an input must be an input
/// too.
pub(crate) fn plan_files(
    levels: &Levels,
    level: usize,
    output_level: usize,
    inputs: Vec<u64>,
    shape: &TreeShape,
    unavailable: &Unavailable,
) -> Option<Plan> {
    let inputs: HashSet<u64> = inputs.into_iter().collect();
    let chosen: Vec<&FileMeta> =
        levels[level].iter().copied().filter(|f| inputs.contains(&f.number)).collect();
    let (smallest, largest) = bounds(chosen.iter().copied())?;
    let below = if output_level == level {
        &[][..]
    } else {
        overlapping(&levels[output_level], smallest, largest)
    };
    let touches_busy =
        |files: &[&FileMeta]| files.iter().any(|f| unavailable.busy.contains(&f.number));
    if touches_busy(&chosen) || touches_busy(below) {
        return None;
    }
    let (first, last) = bounds(chosen.iter().chain(below).copied())?;
    let output = Span { level: output_level, smallest: first.to_vec(), largest: last.to_vec() };
    let damaged = DamagedFiles::new(levels, &unavailable.damaged);
    if unavailable.outputs.iter().any(|running| running.excludes(&output))
        || !chosen.iter().all(|file| damaged.lets_pass(file, level, output_level))
        || damaged.is_reached_over(output_level, &output.smallest, &output.largest)
    {
        return None;
    }
    let fences = damaged.fences(output_level, &output.smallest, &output.largest);
    // A file that overlaps much of the level after the output level would be expensive to compact
    // later.
    let grandparent_bytes = grandparent_bytes(levels, output_level, smallest, largest);
    let may_move = are_disjoint(&chosen)
        && below.is_empty()
        && output_level != level
        && fences.is_empty()
        && grandparent_bytes <= max_grandparent_bytes(shape);
    Some(Plan {
        level,
        output_level,
        kind: if may_move { PlanKind::Move } else { PlanKind::Merge },
        input_bytes: chosen.iter().chain(below).map(|f| f.file_bytes).sum(),
        inputs: chosen.iter().map(|f| f.number).collect(),
        output_inputs: below.iter().map(|f| f.number).collect(),
        output,
        fences,
    })
}

/// The bytes of the files of level `level + 1` that overlap the range.
pub(super) fn grandparent_bytes(
    levels: &Levels,
    level: usize,
    smallest: &[u8],
    largest: &[u8],
) -> u64 {
    levels
        .get(level + 1)
        .map_or(0, |level| overlapping(level, smallest, largest).iter().map(|f| f.file_bytes).sum())
}

/// The smallest user key and the largest internal key of the files; `None` if there is no file.
pub(super) fn bounds<'a>(
    files: impl Iterator<Item = &'a FileMeta> + Clone,
) -> Option<(&'a [u8], &'a [u8])> {
    let smallest = files.clone().map(|file| user_key(&file.smallest)).min()?;
    let largest = files.map(|file| &file.largest[..]).max_by(|a, b| key::compare(a, b))?;
    Some((smallest, largest))
}

/// Whether no two files share a user key. Writes in key order leave such files in level 0.
fn are_disjoint(files: &[&FileMeta]) -> bool {
    let mut files = files.to_vec();
    files.sort_by(|a, b| key::compare(&a.smallest, &b.smallest));
    files.windows(2).all(|pair| pair[1].starts_after(&pair[0].largest))
}

/// Whether the file overlaps the range from the user key `smallest` to the internal key `largest`.
pub(super) fn meets(file: &FileMeta, smallest: &[u8], largest: &[u8]) -> bool {
    !file.ends_before(smallest) && !file.starts_after(largest)
}

/// The part of `files` that overlaps the range from the user key `smallest` to the internal key
/// `largest`. `files` are disjoint and in key order.
pub(crate) fn overlapping<'a, 'b>(
    files: &'b [&'a FileMeta],
    smallest: &[u8],
    largest: &[u8],
) -> &'b [&'a FileMeta] {
    let start = files.partition_point(|f| f.ends_before(smallest));
    let end = files.partition_point(|f| !f.starts_after(largest));
    &files[start..end.max(start)]
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::file;
    use super::*;

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
}
