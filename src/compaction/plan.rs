//! A compaction as a plan: which files it merges, and the range of its output.
//!
//! The caller names files of one level. [`Planner::plan_files`] adds the files of the output level
//! from the first named key to the last, those in a gap between two named files included. It returns
//! `None` if the plan would touch anything [`Unavailable`].
//!
//! ```text
//!   level          |--chosen--|   |--chosen--|
//!   output level      |-overlaps-|    |-overlaps-|   |-stays-|
//!   output         |<---------- Span ----------->|
//!   fences                  ^        ^               bounds of a damaged file of a deeper level
//! ```
//!
//! Two compactions without a common file could still write overlapping tables to one level: one
//! merges two small tables of the level, and the other writes into the gap between them. So a
//! running plan also reserves the span of its output.
//!
//! The functions of this module access no open files and no threads. The caller passes what running
//! compactions use, and which files are damaged ([`Unavailable`]).

use std::collections::BTreeSet;

use super::damaged::DamagedFiles;
use super::overlap::{are_disjoint, bounds, overlapping};
use super::targets::{Levels, TreeShape, level_bytes, level_targets, max_grandparent_bytes};
use crate::encoding::key;
use crate::version::{FileMeta, LEVELS};

/// One compaction: its inputs are merged into new tables of `output_level`, moved there, or
/// dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub level: usize,
    pub output_level: usize,
    /// Numbers of the files of `level`.
    pub inputs: Vec<u64>,
    /// Numbers of the files of `output_level`.
    pub output_inputs: Vec<u64>,
    /// The bytes of `inputs` and `output_inputs`.
    pub input_bytes: u64,
    pub kind: PlanKind,
    pub gain: Gain,
    /// The range that the outputs may cover.
    pub output: Span,
    /// User keys at which the outputs are cut, ascending: the bounds of damaged files in deeper
    /// levels.
    pub fences: Vec<Vec<u8>>,
}

/// How the inputs are processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanKind {
    /// The entries of the inputs that some reader can see go to new tables.
    Merge,
    /// The inputs move unchanged: they share no key with each other, nor with a file of the output
    /// level.
    Move,
    /// The inputs leave the tree unread, because no reader sees any of their entries.
    Drop,
    /// The only input gets another filter. Its entries stay, and its place in its level.
    Refilter,
}

/// What a compaction makes smaller. So compactions come to an end:
///
/// Each tree has a list of numbers: for each level, from level 0 on, how many entries, files and
/// range deletions it has; and last, how many bits its filters have above their budget. Of two
/// lists, the one with the smaller number at the first difference is smaller. Every compaction that
/// the planner picks makes the list smaller, and no list has an endless row of smaller ones:
///
/// - if entries go *down*, their level has fewer afterwards, and the levels above it are unchanged;
/// - a merge within a level has as many entries as before or fewer, and one output. So it leaves
///   fewer *files*, or it drops *dead* entries or range deletions, or it writes smaller *filters*.
///
/// The last case rests on estimates: how much is dead, how large a filter will be. A merge that
/// made nothing smaller after all is not repeated for its output ([`Unavailable::vain`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gain {
    /// The entries of the inputs leave their level, downwards or from the tree.
    Down,
    /// The level has fewer files.
    Files,
    /// The level has fewer entries that no reader needs.
    Dead,
    /// Filters take fewer bits.
    FilterBits,
    /// A caller has requested the compaction. Its series of compactions ends for another reason
    /// (`db/background/manual.rs`).
    Requested,
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
    /// Whether two compactions that write these spans exclude each other, because their files could
    /// overlap in one level. Files of level 0 may overlap, so spans of level 0 exclude nothing.
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
    pub busy: BTreeSet<u64>,
    /// The ranges that compactions are writing, and the ranges of tables that are being ingested.
    pub outputs: Vec<Span>,
    /// Numbers of the damaged files. They are never merged ([`super::damaged`]).
    pub damaged: BTreeSet<u64>,
    /// Files that a merge within their level has written without the [`Gain`] for which it was
    /// picked. No other such merge takes them for the same gain.
    pub vain: BTreeSet<(u64, Gain)>,
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

    /// A copy in which the files and the output of `plan` are reserved as well.
    pub fn with(&self, plan: &Plan) -> Unavailable {
        let mut with = self.clone();
        with.reserve(plan);
        with
    }

    /// A copy without the running compactions and ingestions: only damaged files are unavailable.
    pub fn without_running(&self) -> Unavailable {
        let (damaged, vain) = (self.damaged.clone(), self.vain.clone());
        Unavailable { damaged, vain, ..Unavailable::default() }
    }
}

impl Plan {
    /// Whether the merge writes one table: its outputs stay in the level of its inputs, and the
    /// inputs together are no larger than a table, or are one file, or are of level 0.
    pub fn has_one_output(&self, table_bytes: u64) -> bool {
        let is_small = self.inputs.len() == 1 || self.input_bytes <= table_bytes;
        self.level == self.output_level && (self.level == 0 || is_small)
    }

    /// The plan that gives a file another filter.
    pub fn refilter(level: usize, file: &FileMeta) -> Option<Plan> {
        Plan::within(level, &[file], PlanKind::Refilter, Gain::Requested)
    }

    /// The plan that takes `files` of `level` and no others, and whose outputs stay in `level`.
    /// `None` if there is no file.
    pub(super) fn within(
        level: usize,
        files: &[&FileMeta],
        kind: PlanKind,
        gain: Gain,
    ) -> Option<Plan> {
        let (smallest, largest) = bounds(files.iter().copied())?;
        Some(Plan {
            level,
            output_level: level,
            output: Span { level, smallest: smallest.to_vec(), largest: largest.to_vec() },
            inputs: files.iter().map(|file| file.number).collect(),
            output_inputs: Vec::new(),
            input_bytes: files.iter().map(|file| file.file_bytes).sum(),
            kind,
            gain,
            fences: Vec::new(),
        })
    }
}

/// Plans the compactions of a tree. Knows the tree's files, the sizes that it should have, and what
/// a new compaction must not touch.
pub(crate) struct Planner<'a> {
    pub(super) levels: &'a Levels<'a>,
    pub(super) shape: &'a TreeShape,
    pub unavailable: &'a Unavailable,
    pub(super) damaged: DamagedFiles<'a>,
    /// The level that level 0 is compacted into, and the target of each level in bytes
    /// ([`super::targets`]).
    pub(super) base: usize,
    pub(super) targets: [u64; LEVELS],
    /// No merge has more bytes of inputs ([`super::fit`]).
    pub(super) most_bytes: u64,
}

impl<'a> Planner<'a> {
    pub fn new(
        levels: &'a Levels<'a>,
        shape: &'a TreeShape,
        unavailable: &'a Unavailable,
    ) -> Planner<'a> {
        let damaged = DamagedFiles::new(levels, &unavailable.damaged);
        let (base, targets) = level_targets(&level_bytes(levels), shape);
        Planner { levels, shape, unavailable, damaged, base, targets, most_bytes: u64::MAX }
    }

    /// The level that `level` is compacted into: the base, or the next level if `level` is the base
    /// or deeper. A level between `level` and the base that still holds files takes precedence,
    /// because newer files must not move past these files.
    pub fn next_level(&self, level: usize) -> usize {
        let left_over = (level + 1..self.base).find(|&between| !self.levels[between].is_empty());
        left_over.unwrap_or(self.base.max(level + 1))
    }

    /// Whether a compaction is reading the file.
    pub(super) fn is_busy(&self, file: &FileMeta) -> bool {
        self.unavailable.busy.contains(&file.number)
    }

    /// Whether a merge of the file within its level is known not to have this gain.
    pub(super) fn is_vain(&self, file: &FileMeta, gain: Gain) -> bool {
        self.unavailable.vain.contains(&(file.number, gain))
    }

    /// Whether a compaction is reading the file, or the file is damaged.
    pub(super) fn is_held(&self, file: &FileMeta) -> bool {
        self.is_busy(file) || self.unavailable.damaged.contains(&file.number)
    }

    /// The plan that compacts `files` of level 0, newest first, into `deepest`, without those that
    /// damaged files hold up. If more of `files` may go to a shallower level than to `deepest`, the
    /// shallower level is chosen. If damaged files of the chosen level part `files` into groups,
    /// the largest group for which a plan is possible is compacted. Every other file of level 0
    /// must be newer than each of `files` that it overlaps.
    pub fn plan_level_0(&self, files: &[&'a FileMeta], deepest: usize) -> Option<Plan> {
        let free = |level: &usize| self.damaged.free_in_level_0(files, *level);
        // Of levels with equal counts `max_by_key` returns the last, which is the deepest.
        let output_level = (1..=deepest).max_by_key(|level| free(level).len())?;
        let mut parts = self.damaged.parted(&free(&output_level), output_level);
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        parts.iter().find_map(|part| self.plan_files(part, 0, output_level))
    }

    /// The plan that compacts some of `files`, which are neighbours in `level`, into
    /// `output_level`. Damaged files part them into series, and the first series for which a plan
    /// is possible is compacted.
    pub fn plan_neighbours(
        &self,
        files: &[&FileMeta],
        level: usize,
        output_level: usize,
    ) -> Option<Plan> {
        let runs = files.split(|file| !self.damaged.lets_pass(file, level, output_level));
        let mut runs = runs.flat_map(|run| self.damaged.parted(run, output_level));
        runs.find_map(|run| self.plan_files(&run, level, output_level))
    }

    /// The plan that compacts `files` of `level`, in the order of the level, into `output_level`. If
    /// that is the same level, the plan is one to drop dead entries. Returns `None` if the plan
    /// would touch anything unavailable, or is too large ([`super::fit`]). In level 0 each older
    /// file that overlaps an input must be an input too.
    pub fn plan_files(
        &self,
        files: &[&FileMeta],
        level: usize,
        output_level: usize,
    ) -> Option<Plan> {
        let (smallest, largest) = bounds(files.iter().copied())?;
        let below = if output_level == level {
            &[][..]
        } else {
            overlapping(&self.levels[output_level], smallest, largest)
        };
        let mut inputs = files.iter().chain(below).copied();
        let (first, last) = bounds(inputs.clone())?;
        let output = Span { level: output_level, smallest: first.to_vec(), largest: last.to_vec() };
        if inputs.any(|file| self.is_busy(file))
            || self.unavailable.outputs.iter().any(|running| running.excludes(&output))
            || !files.iter().all(|file| self.damaged.lets_pass(file, level, output_level))
            || self.damaged.is_reached_over(output_level, first, last)
        {
            return None;
        }
        let fences = self.damaged.fences(output_level, first, last);
        // A file that overlaps much of the level after the output level would be expensive to
        // compact later, so it is not moved but merged, which cuts it.
        let may_move = are_disjoint(files)
            && below.is_empty()
            && output_level != level
            && fences.is_empty()
            && self.is_narrow(output_level, smallest, largest);
        let plan = Plan {
            level,
            output_level,
            kind: if may_move { PlanKind::Move } else { PlanKind::Merge },
            gain: if output_level == level { Gain::Dead } else { Gain::Down },
            input_bytes: files.iter().chain(below).map(|f| f.file_bytes).sum(),
            inputs: files.iter().map(|f| f.number).collect(),
            output_inputs: below.iter().map(|f| f.number).collect(),
            output,
            fences,
        };
        self.fits(&plan).then_some(plan)
    }

    /// Whether a table of this range in `level` overlaps at most [`max_grandparent_bytes`] of the
    /// next level. With more, a merge would cut the table.
    pub(super) fn is_narrow(&self, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
        let below = self.levels.get(level + 1).map_or(&[][..], |files| &files[..]);
        let below = overlapping(below, smallest, largest).iter().map(|f| f.file_bytes);
        below.sum::<u64>() <= max_grandparent_bytes(self.shape)
    }
}
