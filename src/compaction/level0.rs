//! Level 0: when it is compacted, and whether its files are merged among themselves first.
//!
//! ```text
//!   level 0   newest │10│ │10│ │10│ │40│ │200│ oldest      sizes in KiB
//!                     └────── one ──────┘                  each at most twice all newer ones
//!   base      │ 60 MiB │ 60 MiB │ 60 MiB │
//! ```
//!
//! A flush of a few entries, for example for a checkpoint, makes a small file. A merge of such
//! files into the *base level*, which is the level that level 0 is compacted into
//! ([`super::targets`]), rewrites every file that they overlap. If the overlapped files have more
//! than ten times the bytes of level 0, the newest files of level 0 become one file of level 0
//! instead. The next older file joins them if it has at most twice the bytes of the newer files
//! together. When no file joins any more, each file has more than twice the bytes of all newer
//! files together. Added up from the newest to the oldest file, the bytes then at least triple with
//! each file. So few files stay, and each byte is rewritten about once for each tripling.
//!
//! The output takes the place of the run in the order of level 0 ([`crate::version::order`]). So a
//! run starts at a file whose largest sequence number no newer file has. Files with the same number,
//! such as those of one flush, join a run together or follow it.
//!
//! Only files that are older than every unflushed memtable are merged in level 0. An ingested file
//! may be newer than an unflushed memtable. It must not become one file with files older than this
//! memtable, because the memtable's own file must come between them.

use super::conditions::Conditions;
use super::overlap::meets;
use super::plan::{Gain, Plan, PlanKind, Planner};
use super::targets::Levels;
use crate::encoding::key;
use crate::encoding::key::user_key;
use crate::version::FileMeta;

impl Planner<'_> {
    /// The plan that merges the newest files of level 0 that are neighbours and have similar sizes.
    pub(super) fn plan_small(&self, conditions: &Conditions) -> Option<Plan> {
        let files = &self.levels[0];
        // If files are damaged, the output of a merge may be cut into several, but this merge must
        // have one output.
        if !self.unavailable.damaged.is_empty() {
            return None;
        }
        let is_free = |file: &FileMeta| {
            !self.is_busy(file) && file.largest_sequence < conditions.flushed_before
        };
        // The output gets the place of the newest input. If a newer file had the same sequence
        // number, the output's file number would put the output before that file, together with the
        // entries of the older inputs.
        let has_place_of_its_own = |&start: &usize| {
            start == 0 || files[start - 1].largest_sequence > files[start].largest_sequence
        };
        let run = (0..files.len()).filter(has_place_of_its_own).find_map(|start| {
            let mut bytes = 0;
            let joins = |file: &&&FileMeta| {
                let joins = is_free(file) && (bytes == 0 || file.file_bytes <= 2 * bytes);
                bytes += file.file_bytes;
                joins
            };
            let count = files[start..].iter().take_while(joins).count();
            (count > 1).then(|| &files[start..start + count])
        })?;
        Plan::within(0, run, PlanKind::Merge, Gain::Files)
    }
}

/// The files that may go down alone, because their ranges overlap no other file of level 0. A file
/// that does not consist mostly of deletions may also go down if it overlaps newer files that do:
/// the newer files stay in level 0, so their deletions still hide its entries.
pub(super) fn lone_files<'a>(levels: &Levels<'a>) -> Vec<&'a FileMeta> {
    let files = &levels[0];
    let mut by_key: Vec<usize> = (0..files.len()).collect();
    by_key.sort_by(|&a, &b| key::compare(&files[a].smallest, &files[b].smallest));
    let mut is_alone = vec![true; files.len()];
    // Of the files before file `i` in key order, the one with the largest key.
    let mut furthest: Option<usize> = None;
    for i in by_key {
        if let Some(before) = furthest
            && !files[i].starts_after(&files[before].largest)
        {
            (is_alone[i], is_alone[before]) = (false, false);
        }
        if furthest
            .is_none_or(|before| key::compare(&files[before].largest, &files[i].largest).is_lt())
        {
            furthest = Some(i);
        }
    }
    let deletes = |file: &FileMeta| file.deletions > file.entries / 2;
    if files.iter().any(|file| deletes(file)) {
        let lies_under_deletions = |i: usize| {
            let (smallest, largest) = (user_key(&files[i].smallest), &files[i].largest);
            (0..files.len()).all(|other| {
                other == i
                    || (other < i && deletes(files[other]))
                    || !meets(files[other], smallest, largest)
            })
        };
        (0..files.len())
            .filter(|&i| !deletes(files[i]))
            .for_each(|i| is_alone[i] |= lies_under_deletions(i));
    }
    (0..files.len()).filter(|&i| is_alone[i]).map(|i| files[i]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{busy, file, levels};
    use super::super::targets::{LAST_LEVEL, TreeShape, l0_score};
    use super::*;

    const SHAPE: TreeShape = TreeShape {
        l0_trigger: 4,
        level_base_bytes: 1000,
        level_multiplier: 10,
        table_bytes: 1600,
        memtable_bytes: 250,
    };

    /// Files of level 0, newest first and all with the same key range, above a table of `below`
    /// bytes.
    fn tree(sizes: &[u64], below: u64) -> Vec<(usize, FileMeta)> {
        let sequenced =
            |number, bytes| FileMeta { largest_sequence: number, ..file(number, 0, 9, bytes) };
        let mut files: Vec<_> =
            (0..).zip(sizes).map(|(i, &bytes)| (0, sequenced(90 - i, bytes))).collect();
        files.push((LAST_LEVEL, file(1, 0, 9, below)));
        files
    }

    fn picked(sizes: &[u64], below: u64) -> Option<(usize, Vec<u64>)> {
        let files = tree(sizes, below);
        let plan = Planner::new(&levels(&files), &SHAPE, &busy(&[])).pick(&Conditions::default());
        plan.map(|plan| (plan.output_level, plan.inputs))
    }

    #[test]
    fn small_files_over_a_large_level_become_one_file_of_level_0() {
        assert_eq!(picked(&[5, 5, 5, 5], 900), Some((0, vec![90, 89, 88, 87])));
        assert_eq!(picked(&[5, 5, 10, 50], 900), Some((0, vec![90, 89, 88])), "the last is larger");
        assert_eq!(picked(&[5, 50, 60, 300], 9000), Some((0, vec![89, 88])));
        assert_eq!(picked(&[5, 20, 80, 300], 9000), None, "none is of its size");
        assert_eq!(picked(&[5, 5, 5], 900), None, "three");
        // The files go down if that costs little, or if there are many of them.
        assert_eq!(picked(&[5, 5, 5, 5], 99), Some((6, vec![90, 89, 88, 87])));
        assert_eq!(picked(&[30, 30, 30, 30], 900), Some((6, vec![90, 89, 88, 87])));
        assert_eq!(
            picked(&[5; 12], 9000).map(|(level, files)| (level, files.len())),
            Some((6, 12))
        );
    }

    /// An ingested file can be newer than a memtable that is not flushed yet. The memtable's table
    /// must then come between the ingested file and the older files.
    #[test]
    fn files_that_are_newer_than_a_memtable_are_not_merged_with_older_ones() {
        let mut files = tree(&[5, 5, 5, 5], 900);
        files[0].1.largest_sequence = 130;
        let conditions = Conditions { flushed_before: 130, ..Conditions::default() };
        let plan = Planner::new(&levels(&files), &SHAPE, &busy(&[])).plan_small(&conditions);
        assert_eq!(plan.unwrap().inputs, [89, 88, 87]);
    }

    /// The output of a merge that began at the second of two files with the same largest sequence
    /// number would count as newer than the first one.
    #[test]
    fn a_merge_does_not_start_behind_a_file_with_the_same_sequence_number() {
        let plan = |sizes: &[u64], same: [usize; 2]| {
            let mut files = tree(sizes, 9000);
            files[same[1]].1.largest_sequence = files[same[0]].1.largest_sequence;
            let levels = levels(&files);
            let plan = Planner::new(&levels, &SHAPE, &busy(&[])).plan_small(&Conditions::default());
            plan.map(|plan| plan.inputs)
        };
        assert_eq!(plan(&[5, 50, 60, 300], [0, 1]), None);
        assert_eq!(plan(&[5, 50, 60, 70], [0, 1]), Some(vec![88, 87]));
        assert_eq!(plan(&[5, 50, 60, 300], [1, 2]), Some(vec![89, 88]));
    }

    #[test]
    fn a_few_large_files_are_due_by_their_bytes() {
        let files = tree(&[1000, 1000], 0);
        assert!(l0_score(&levels(&files)[0], &SHAPE) >= 1.0);
        let files = tree(&[250, 250, 250], 0);
        assert!(l0_score(&levels(&files)[0], &SHAPE) < 1.0);
    }

    #[test]
    fn lone_files_share_no_key_with_another() {
        let files = [
            (0, file(4, 0, 9, 1)),
            (0, file(3, 20, 29, 1)),
            (0, file(2, 5, 12, 1)),
            (0, file(1, 40, 41, 1)),
        ];
        let lone = lone_files(&levels(&files)).iter().map(|file| file.number).collect::<Vec<_>>();
        assert_eq!(lone, [3, 1]);
    }

    /// The newer deletions stay above the file, so they still hide its entries.
    #[test]
    fn a_file_goes_down_from_under_newer_deletions_but_not_over_older_ones() {
        let deletions = |number, smallest, largest| {
            let mut table = file(number, smallest, largest, 1);
            table.deletions = table.entries;
            table
        };
        let lone = |files: &[(usize, FileMeta)]| {
            let lone = lone_files(&levels(files));
            lone.iter().map(|file| file.number).collect::<Vec<_>>()
        };
        assert_eq!(lone(&[(0, deletions(3, 0, 9)), (0, file(2, 5, 12, 1))]), [2]);
        assert_eq!(lone(&[(0, file(3, 5, 12, 1)), (0, deletions(2, 0, 9))]), [0; 0]);
        assert_eq!(lone(&[(0, deletions(3, 0, 9)), (0, deletions(2, 5, 12))]), [0; 0]);
        let under_both = [(0, deletions(4, 0, 6)), (0, file(3, 5, 12, 1)), (0, file(2, 9, 20, 1))];
        assert_eq!(lone(&under_both), [0; 0], "the two share keys");
    }
}
