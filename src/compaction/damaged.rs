//! Damaged files, and the other files that they prevent from moving: pure functions.
//!
//! A file with a damaged block stays where it is. Lookups read it as before: those that need the
//! damaged block return an error, and the others succeed. The file is never merged. So a newer file
//! that overlaps the damaged file must not move to the level of the damaged file or deeper, because
//! a lookup would then find the older version of a key first.
//!
//! ```text
//!   level 0, newest first:
//!     |--x--|                               stays: y is older, overlaps x and stays
//!         |--y--|                           stays: the damaged file is older and overlaps y
//!                      |--z--|              may move
//!           |=damaged=|                     stays
//!           |--w--|                         may move: older than the damaged file
//!   levels 1 to 6:
//!     5   |-a-||--b--||-c-|                 a and c may move to level 6, in two merges;
//!     6        |=damaged=|    |---|         b stays
//! ```
//!
//! - A file moves to a deeper level only if it overlaps no damaged file of that level or of a level
//!   between.
//! - In level 0 a file stays if it overlaps an older file that stays.
//! - Files that move to the level of a damaged file are merged separately on either side of the
//!   damaged file, because an output must not span it.
//! - Outputs above a damaged file are cut at its bounds (*fences*), so that the damaged file holds
//!   up only the files that overlap it.
//!
//! Files that are older than the damaged one may move.

use std::collections::{BTreeMap, BTreeSet};

use crate::encoding::key;
use crate::encoding::key::user_key;
use crate::version::{FileMeta, LEVELS};

use super::overlap::meets;
use super::targets::Levels;

/// The damaged files of a tree, with their levels.
pub(crate) struct DamagedFiles<'a>(Vec<(usize, &'a FileMeta)>);

impl<'a> DamagedFiles<'a> {
    pub fn new(levels: &Levels<'a>, damaged: &BTreeSet<u64>) -> DamagedFiles<'a> {
        if damaged.is_empty() {
            return DamagedFiles(Vec::new());
        }
        let files =
            (0..LEVELS).flat_map(|level| levels[level].iter().map(move |file| (level, *file)));
        DamagedFiles(files.filter(|(_, file)| damaged.contains(&file.number)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, file: &FileMeta) -> bool {
        self.0.iter().any(|(_, damaged)| damaged.number == file.number)
    }

    /// Whether `file` may move from `level` to `output_level`: it is not damaged, and overlaps no
    /// damaged file of a level below `level`, down to `output_level`.
    pub fn lets_pass(&self, file: &FileMeta, level: usize, output_level: usize) -> bool {
        !self.contains(file)
            && self.0.iter().all(|&(damaged_level, damaged)| {
                !(level + 1..=output_level).contains(&damaged_level) || !overlap(file, damaged)
            })
    }

    /// Whether a table of this range would overlap a damaged file of `level`.
    pub fn is_reached_over(&self, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
        self.0.iter().any(|&(damaged_level, damaged)| {
            damaged_level == level && meets(damaged, smallest, largest)
        })
    }

    /// Those of `files`, in the same order (newest first), that may move from level 0 to
    /// `output_level`.
    pub fn free_in_level_0(
        &self,
        files: &[&'a FileMeta],
        output_level: usize,
    ) -> Vec<&'a FileMeta> {
        if self.is_empty() {
            return files.to_vec();
        }
        let (mut free, mut stay): (Vec<&FileMeta>, Vec<&FileMeta>) = Default::default();
        for &file in files.iter().rev() {
            let stays = !self.lets_pass(file, 0, output_level)
                || stay.iter().any(|older| overlap(file, older));
            if stays { stay.push(file) } else { free.push(file) }
        }
        free.reverse();
        free
    }

    /// Splits `files`, none of which overlaps a damaged file of `output_level`, into groups that
    /// may be merged into that level: between any two groups is a damaged file of that level.
    pub fn parted<'f>(
        &self,
        files: &[&'f FileMeta],
        output_level: usize,
    ) -> Vec<Vec<&'f FileMeta>> {
        let mut parts: BTreeMap<usize, Vec<&FileMeta>> = BTreeMap::new();
        for &file in files {
            let before = |&&(level, damaged): &&(usize, &FileMeta)| {
                level == output_level && damaged.ends_before(user_key(&file.smallest))
            };
            parts.entry(self.0.iter().filter(before).count()).or_default().push(file);
        }
        parts.into_values().collect()
    }

    /// The user keys, ascending, at which the outputs in `output_level` with keys from `smallest`
    /// to `largest` are cut: the bounds of the damaged files of deeper levels.
    pub fn fences(&self, output_level: usize, smallest: &[u8], largest: &[u8]) -> Vec<Vec<u8>> {
        let deeper = self
            .0
            .iter()
            .filter(|&&(level, damaged)| level > output_level && meets(damaged, smallest, largest));
        let mut fences: Vec<Vec<u8>> = deeper
            .flat_map(|(_, damaged)| {
                let mut end = user_key(&damaged.largest).to_vec();
                if !damaged.ends_before(&end) {
                    // The smallest user key after `end`.
                    end.push(0);
                }
                [user_key(&damaged.smallest).to_vec(), end]
            })
            .filter(|fence| fence[..] > *smallest && !key::ends_before(largest, fence))
            .collect();
        fences.sort();
        fences.dedup();
        fences
    }
}

/// Whether the user-key ranges of two files overlap.
fn overlap(a: &FileMeta, b: &FileMeta) -> bool {
    meets(a, user_key(&b.smallest), &b.largest)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{self, SHAPE};
    use super::super::{Conditions, Plan, PlanKind, Planner, Unavailable};
    use super::*;
    use crate::encoding::key::internal_key;

    fn file(number: u64, smallest: u8, largest: u8) -> FileMeta {
        fixtures::file(number, smallest, largest, 10)
    }

    struct ModelTree(Vec<(usize, FileMeta)>, Unavailable);

    impl ModelTree {
        fn new(files: &[(usize, u64, u8, u8)], damaged: &[u64]) -> ModelTree {
            let files = files.iter().map(|&(l, number, a, b)| (l, file(number, a, b)));
            let unavailable = Unavailable {
                damaged: damaged.iter().copied().collect(),
                ..Unavailable::default()
            };
            ModelTree(files.collect(), unavailable)
        }

        fn pick(&self) -> Option<Plan> {
            let levels = fixtures::levels(&self.0);
            Planner::new(&levels, &SHAPE, &self.1).pick(&Conditions::default())
        }

        /// The numbers of the files that may move, by level.
        fn without_blocked(&self) -> [Vec<u64>; LEVELS] {
            let levels = fixtures::levels(&self.0);
            let free = Planner::new(&levels, &SHAPE, &self.1).without_blocked();
            free.map(|files| files.iter().map(|file| file.number).collect())
        }
    }

    /// The plan's output level, its inputs, and the files of that level that the inputs are merged
    /// with.
    fn outline(plan: Option<Plan>) -> (usize, Vec<u64>, Vec<u64>) {
        let plan = plan.expect("there is something to do");
        (plan.output_level, plan.inputs, plan.output_inputs)
    }

    /// The drawing in the module documentation.
    #[test]
    fn in_level_0_only_what_overlaps_nothing_that_stays_and_is_older_may_go() {
        let files = [
            (0, 9, 1, 3),
            (0, 8, 3, 5),
            (0, 7, 12, 14),
            (0, 6, 4, 8),
            (0, 5, 4, 6),
            (0, 4, 20, 21),
            (0, 3, 22, 23),
        ];
        let mut tree = ModelTree::new(&files, &[6]);
        // Files that share no key with any other move first.
        let plan = tree.pick().unwrap();
        assert_eq!((plan.kind, &plan.inputs[..]), (PlanKind::Move, &[7, 4, 3][..]));
        tree.1.reserve(&plan);
        assert_eq!(tree.pick(), None, "one more file may move, too few for a compaction");
        // Files that a damaged file holds up count neither towards a compaction nor towards a write
        // stall.
        let tree = ModelTree::new(&files[..6], &[6]);
        assert_eq!(tree.pick(), None);
        let free = tree.without_blocked();
        assert_eq!(free[0], [7, 5, 4]);
        let whole = ModelTree::new(&files[..6], &[]);
        assert_eq!(outline(whole.pick()), (6, vec![7, 4], vec![]));
        let whole = ModelTree::new(&[files[0], files[1], files[3], files[4]], &[]);
        assert_eq!(outline(whole.pick()), (6, vec![9, 8, 6, 5], vec![]));
    }

    #[test]
    fn level_0_goes_no_deeper_than_above_a_damaged_file_that_it_overlaps() {
        let level_0 = [(0, 9, 0, 50), (0, 8, 0, 50), (0, 7, 0, 50), (0, 6, 0, 50)];
        let below = [(6, 1, 0, 9), (6, 2, 20, 29), (6, 3, 30, 39)];
        let files: Vec<_> = level_0.into_iter().chain(below).collect();
        let plan = ModelTree::new(&files, &[2]).pick().unwrap();
        assert_eq!(plan.output_level, 5);
        // The output is cut at the bounds of the damaged file, so that the outputs on both sides of
        // that file can move deeper.
        assert_eq!(plan.fences, [vec![20], vec![29, 0]]);
        assert_eq!(plan.kind, PlanKind::Merge);
        let files =
            [(5, 11, 0, 19), (5, 12, 20, 29), (5, 13, 30, 50), below[0], below[1], below[2]];
        let mut tree = ModelTree::new(&files, &[2]);
        for (number, below) in [(11, vec![1]), (13, vec![3])] {
            let (output_level, inputs, output_inputs) = outline(tree.pick());
            assert_eq!(output_level, 6);
            assert!((inputs, output_inputs) == (vec![number], below));
            tree.0.retain(|(_, file)| file.number != number);
        }
        assert_eq!(tree.pick(), None, "files that overlap the damaged file stay above it");
        let free = tree.without_blocked();
        assert!(free[5].is_empty() && free[6].len() == 3);
    }

    #[test]
    fn what_goes_to_the_level_of_a_damaged_file_does_not_reach_over_it() {
        let level_0 = [(0, 9, 0, 9), (0, 8, 0, 9), (0, 7, 0, 9), (0, 6, 40, 50), (0, 5, 45, 60)];
        let files: Vec<_> = level_0.into_iter().chain([(6, 1, 20, 29)]).collect();
        assert_eq!(outline(ModelTree::new(&files, &[]).pick()).1.len(), 5);
        let mut tree = ModelTree::new(&files, &[1]);
        assert_eq!(outline(tree.pick()), (6, vec![9, 8, 7], vec![]));
        // The merges on the two sides of the damaged file may run at the same time.
        let plan = tree.pick().unwrap();
        tree.1.reserve(&plan);
        assert_eq!(outline(tree.pick()), (6, vec![6, 5], vec![]));
    }

    #[test]
    fn a_fence_is_the_first_key_of_the_damaged_file_and_the_first_behind_it() {
        let mut damaged = file(1, 20, 29);
        let fences = |damaged: &FileMeta, smallest: u8, largest: u8| {
            let mut levels: Levels = Default::default();
            levels[6].push(damaged);
            DamagedFiles::new(&levels, &BTreeSet::from([1])).fences(
                5,
                &[smallest],
                &internal_key(&[largest], 1, 1),
            )
        };
        assert_eq!(fences(&damaged, 0, 50), [vec![20], vec![29, 0]]);
        assert_eq!(fences(&damaged, 20, 28), [[0; 0]; 0]);
        assert_eq!(fences(&damaged, 25, 50), [vec![29, 0]]);
        assert_eq!(fences(&damaged, 0, 20), [vec![20]]);
        assert_eq!(fences(&damaged, 30, 50), [[0; 0]; 0]);
        damaged.largest = key::range_end(&[30]);
        assert_eq!(fences(&damaged, 25, 50), [vec![30]]);
    }
}
