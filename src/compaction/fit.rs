//! Plans that fit into little free space.
//!
//! A merge keeps its inputs until its outputs are installed, so it may need as much free space as
//! its inputs have bytes. [`Planner::at_most`] makes a planner that plans no larger merge. Plans
//! that write no table, which are moves and drops, always fit.
//!
//! If level 0 with all that it overlaps is too large, its *oldest* files go down alone, so that
//! whatever stays in level 0 is newer than what went down. They often span all keys and overlap the
//! whole output level. So they go into the level above the output level, which is empty, and their
//! merge needs no more than their own bytes:
//!
//! ```text
//!   level 0     │────│ │────│ │────│ │────│ │────│     each spans all keys
//!                             └─── oldest ───┘
//!                                    ▼                 1. needs the bytes of these three
//!   level 5     │──│ │──│ │──│                         in tables of disjoint ranges
//!                 ▼    ▼    ▼                          2. each alone, with the files that it overlaps
//!   level 6     │─││─│ │─││─│ │─│
//! ```
//!
//! Both steps are ordinary compactions. The levels between level 0 and its output level are empty,
//! and a level above the base level that holds files is emptied first ([`super::pick`]). So nothing
//! newer passes these files, and nothing has to be remembered between the steps.
//!
//! We rejected merging slices of level 0 into the output level and keeping its files until the last
//! slice: then two levels hold the same entries in between, and something must remember how far the
//! slices have come.

use super::plan::{Plan, PlanKind, Planner};
use crate::version::FileMeta;

impl<'a> Planner<'a> {
    /// This planner, but it plans no merge whose inputs have more than `bytes`.
    pub fn at_most(self, bytes: u64) -> Planner<'a> {
        Planner { most_bytes: bytes, ..self }
    }

    /// Whether the plan is small enough for this planner.
    pub fn fits(&self, plan: &Plan) -> bool {
        plan.kind != PlanKind::Merge || plan.input_bytes <= self.most_bytes
    }

    /// Like [`Planner::plan_level_0`], but if the plan does not fit, plans for as many of the
    /// oldest of `files` as fit, into the level above `output_level` if there is one.
    pub fn plan_level_0_in_parts(
        &self,
        files: &[&'a FileMeta],
        output_level: usize,
    ) -> Option<Plan> {
        let whole = self.plan_level_0(files, output_level);
        if whole.is_some() || self.most_bytes == u64::MAX {
            return whole;
        }
        let mut bytes = 0u64;
        let fits = |file: &&&FileMeta| {
            bytes = bytes.saturating_add(file.file_bytes);
            bytes <= self.most_bytes
        };
        let fitting = files.iter().rev().take_while(fits).count();
        let above = (output_level - 1).max(1);
        (1..=fitting)
            .rev()
            .find_map(|count| self.plan_level_0(&files[files.len() - count..], above))
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::Conditions;
    use super::super::fixtures::{SHAPE, busy, file, levels};
    use super::*;

    /// The plan for this tree if so many bytes are free.
    fn plan(files: &[(usize, FileMeta)], free: u64) -> Option<(usize, Vec<u64>, Vec<u64>)> {
        let (levels, unavailable) = (levels(files), busy(&[]));
        let planner = Planner::new(&levels, &SHAPE, &unavailable).at_most(free);
        let plan = planner.pick(&Conditions::default())?;
        assert!(planner.fits(&plan));
        Some((plan.output_level, plan.inputs, plan.output_inputs))
    }

    /// Regression: a compaction of level 0 always took all of level 0 with all that it overlaps. On
    /// a disk without that much free space it failed for ever.
    #[test]
    fn as_many_of_the_oldest_files_as_fit_go_into_the_empty_level_above() {
        let mut files: Vec<_> = (0..4).map(|i| (0, file(9 - i, 0, 90, 10))).collect();
        files.extend((0..4).map(|i| (6, file(1 + i, 20 * i as u8, 20 * i as u8 + 9, 20))));
        let all = (6, vec![9, 8, 7, 6], vec![1, 2, 3, 4]);
        assert_eq!(plan(&files, u64::MAX), Some(all.clone()));
        assert_eq!(plan(&files, 120), Some(all));
        assert_eq!(plan(&files, 119), Some((5, vec![9, 8, 7, 6], vec![])));
        assert_eq!(plan(&files, 39), Some((5, vec![8, 7, 6], vec![])));
        assert_eq!(plan(&files, 20), Some((5, vec![7, 6], vec![])));
        assert_eq!(plan(&files, 9), None);
        // From there each file goes down alone, and before further files of level 0.
        files.extend([(5, file(20, 0, 30, 10)), (5, file(21, 40, 90, 10))]);
        assert_eq!(plan(&files, 50), Some((6, vec![20], vec![1, 2])));
        // While none of them fits, further files of level 0 go into the next level above.
        assert_eq!(plan(&files, 49), Some((4, vec![9, 8, 7, 6], vec![])));
        assert_eq!(plan(&files, 29), Some((4, vec![7, 6], vec![])));
    }

    #[test]
    fn the_first_file_of_a_level_that_fits_goes_down() {
        let files = [
            (5, file(1, 0, 9, 100)),
            (5, file(2, 10, 19, 50)),
            (6, file(3, 0, 9, 400)),
            (6, file(4, 10, 19, 250)),
            (6, file(5, 20, 29, 400)),
        ];
        assert_eq!(plan(&files, 500), Some((6, vec![1], vec![3])));
        assert_eq!(plan(&files, 499), Some((6, vec![2], vec![4])));
        assert_eq!(plan(&files, 300), Some((6, vec![2], vec![4])));
        assert_eq!(plan(&files, 299), None);
    }
}
