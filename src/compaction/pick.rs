//! Which compaction is due next: a pure function from the tree to a [`Plan`].
//!
//! Tables that range deletions cover completely are dropped first, because that costs nothing. Then
//! the level with the highest score of at least 1 is compacted, or, if it cannot be compacted now,
//! the level with the next score. The score of level 0 grows with the number and the bytes of its
//! files ([`super::level0`]). The score of any other level grows with its bytes, compared with its
//! target ([`super::targets`]).
//!
//! - Level 0: if some of its files can move to the next level without a rewrite, only these files
//!   are compacted. If none can, and level 0 is small, its files are merged among themselves.
//!   Otherwise level 0 is compacted as a whole.
//! - Any other level: one file is compacted, the one that overlaps the fewest bytes of the next
//!   level, relative to the sum of its own bytes and the bytes that its deletions and hidden
//!   versions would free. Compacting this file moves the most data per rewritten byte.
//!
//! If no level is due, or if none of the due levels can be compacted although no compaction is
//! running, dead data is removed ([`super::dead`]) or small tables are merged
//! ([`super::small_tables`]).

use super::conditions::Conditions;
use super::dead::{is_better_merged, weight};
use super::level0::lone_files;
use super::overlap::overlapping;
use super::plan::{Plan, PlanKind, Planner};
use super::targets::{LAST_LEVEL, Levels, is_small, l0_score};
use crate::encoding::key::user_key;
use crate::version::{FileMeta, LEVELS};

impl<'a> Planner<'a> {
    /// The most urgent compaction that can start now.
    pub fn pick(&self, conditions: &Conditions) -> Option<Plan> {
        let plan = self.pick_covered(conditions).or_else(|| self.pick_merge(conditions))?;
        // A table that is moved keeps its garbage, so a table with much garbage is merged instead.
        let mut files = self.levels[plan.level].iter();
        let moves_garbage = plan.kind == PlanKind::Move
            && files.any(|f| plan.inputs.contains(&f.number) && is_better_merged(f, conditions));
        let merge = Plan { kind: PlanKind::Merge, ..plan.clone() };
        Some(if moves_garbage && self.fits(&merge) { merge } else { plan })
    }

    fn pick_merge(&self, conditions: &Conditions) -> Option<Plan> {
        let free = self.damaged.free_in_level_0(&self.levels[0], 1);
        let mut urgent: Vec<(f64, usize)> = vec![(l0_score(&free, self.shape), 0)];
        for level in 1..LAST_LEVEL {
            let next = self.next_level(level);
            let idle = self.levels[level]
                .iter()
                .filter(|file| !self.is_busy(file) && self.damaged.lets_pass(file, level, next));
            let idle: u64 = idle.map(|file| file.file_bytes).sum();
            // After the tree has shrunk, levels between level 0 and the base level, into which
            // level 0 is compacted, may still hold files. Such a level gets a high score, so that
            // it is emptied first.
            let score = match idle {
                0 => 0.0,
                _ if level < self.base => 100.0,
                _ => idle as f64 / self.targets[level] as f64,
            };
            urgent.push((score, level));
        }
        urgent.retain(|&(score, _)| score >= 1.0);
        urgent.sort_by(|a, b| b.0.total_cmp(&a.0));
        let plan = urgent.iter().find_map(|&(_, level)| match level {
            0 => self.pick_level_0(conditions),
            _ => self.pick_file(level, conditions),
        });
        // An urgent compaction may be waiting for running ones. Removing dead data or merging small
        // tables would delay it further.
        let may_tidy = urgent.is_empty() || self.unavailable.busy.is_empty();
        let tidy = || {
            let dead = self.pick_dead(conditions).filter(|plan| self.fits(plan));
            dead.or_else(|| (1..LEVELS).find_map(|level| self.small_series(level)))
        };
        plan.or_else(|| if may_tidy { tidy() } else { None })
    }

    /// Compacts level 0. If some files can move without a rewrite, only these are compacted, so
    /// that they are not rewritten with the other files.
    fn pick_level_0(&self, conditions: &Conditions) -> Option<Plan> {
        let next = self.next_level(0);
        self.plan_moves(next, conditions).or_else(|| {
            match is_small(self.levels, next, self.shape) {
                true => self.plan_small(conditions).filter(|plan| self.fits(plan)),
                false => self.plan_level_0_in_parts(&self.levels[0], next),
            }
        })
    }

    /// Plans the move of those files of level 0 that can move to `next`: of all together if
    /// possible, otherwise of one file, because a file of `next` may lie between two of them. Files
    /// with much garbage are planned only if no other file can move. If a plan had both, the others
    /// would be rewritten too, because [`Planner::pick`] turns a move of such files into a merge.
    fn plan_moves(&self, next: usize, conditions: &Conditions) -> Option<Plan> {
        let mut lone = lone_files(self.levels);
        lone.retain(|file| {
            overlapping(&self.levels[next], user_key(&file.smallest), &file.largest).is_empty()
        });
        let (garbage, clean): (Vec<&FileMeta>, Vec<&FileMeta>) =
            lone.into_iter().partition(|file| is_better_merged(file, conditions));
        [clean, garbage].iter().find_map(|files| {
            std::iter::once(&files[..]).chain(files.chunks(1)).find_map(|files| {
                self.plan_level_0(files, next).filter(|plan| plan.kind == PlanKind::Move)
            })
        })
    }

    /// Compacts the file of `level` that overlaps the fewest bytes of the next level, relative to
    /// the sum of its own bytes and the bytes that its deletions and hidden versions would free.
    fn pick_file(&self, level: usize, conditions: &Conditions) -> Option<Plan> {
        let next = self.next_level(level);
        let free = self.levels[level].iter().enumerate().filter(|(_, file)| !self.is_busy(file));
        let mut files: Vec<(f64, &FileMeta)> = free
            .map(|(i, &file)| {
                let below =
                    overlapping(&self.levels[next], user_key(&file.smallest), &file.largest);
                let below: u64 = below.iter().map(|f| f.file_bytes).sum();
                let freed = weight(self.levels, level, i, conditions);
                let moved = file.file_bytes.saturating_add(freed);
                (below as f64 / moved.max(1) as f64, file)
            })
            .collect();
        files.sort_by(|a, b| a.0.total_cmp(&b.0));
        files.iter().find_map(|&(_, file)| self.plan_files(&[file], level, next))
    }

    /// The tree without the files that damaged files hold up: the files that compaction can move.
    pub fn without_blocked(&self) -> Levels<'a> {
        let mut free = self.levels.clone();
        if !self.damaged.is_empty() {
            free[0] = self.damaged.free_in_level_0(&self.levels[0], 1);
            for (level, files) in free.iter_mut().enumerate().take(LAST_LEVEL).skip(1) {
                let next = self.next_level(level);
                files.retain(|file| self.damaged.lets_pass(file, level, next));
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{SHAPE, busy, file, levels};
    use super::*;

    fn pick_from(files: &[(usize, FileMeta)], numbers: &[u64]) -> Option<Plan> {
        Planner::new(&levels(files), &SHAPE, &busy(numbers)).pick(&Conditions::default())
    }

    #[test]
    fn an_empty_and_a_balanced_tree_ask_for_nothing() {
        assert_eq!(pick_from(&[], &[]), None);
        assert_eq!(pick_from(&[(0, file(1, 0, 9, 50)), (6, file(2, 0, 9, 1000))], &[]), None);
    }

    #[test]
    fn files_of_level_0_that_share_no_key_move_without_a_merge() {
        let mut files: Vec<_> =
            (0..4).map(|i| (0, file(9 - i, 10 * i as u8, 10 * i as u8 + 5, 10))).collect();
        files.push((6, file(1, 100, 109, 10)));
        let plan = pick_from(&files, &[]).unwrap();
        assert!(plan.kind == PlanKind::Move && plan.inputs.len() == 4);
        files.push((6, file(2, 33, 34, 10)));
        let plan = pick_from(&files, &[]).unwrap();
        let moved = (PlanKind::Move, &[9, 8, 7][..]);
        assert_eq!((plan.kind, &plan.inputs[..]), moved, "a file that overlaps another stays");
    }

    /// A workload wrote new keys at one end of the key space and deleted ranges of old keys at the
    /// other. Each compaction of level 0 once rewrote the files at both ends and everything between
    /// them. Now a file that overlaps nothing moves alone.
    #[test]
    fn files_of_level_0_move_alone_where_a_file_lies_between_them() {
        let mut files: Vec<_> = vec![(0, file(9, 50, 59, 10)), (0, file(8, 0, 9, 10))];
        files.extend((6..8).map(|number| (0, file(number, 20, 30, 10))));
        files.push((6, file(1, 12, 45, 100)));
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.kind, plan.inputs), (PlanKind::Move, vec![9]));
    }

    /// Deletions with no older entries below them are dropped by a merge, which must not rewrite
    /// the files that can move.
    #[test]
    fn files_of_level_0_that_are_garbage_are_not_merged_with_files_that_move() {
        let mut files: Vec<_> = vec![(0, file(9, 50, 59, 10)), (0, file(8, 0, 9, 10))];
        files.extend((6..8).map(|number| (0, file(number, 20, 30, 10))));
        files[1].1.deletions = 1;
        files[1].1.contents.raw_key_bytes = 1;
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.kind, plan.inputs), (PlanKind::Move, vec![9]));
        files[0].1 = file(9, 20, 30, 10);
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.kind, plan.inputs), (PlanKind::Merge, vec![8]));
    }

    #[test]
    fn a_full_level_0_goes_whole_into_the_base_level_with_all_it_overlaps() {
        let mut files: Vec<_> = (0..4).map(|i| (0, file(9 - i, 10, 20, 10))).collect();
        files.push((6, file(1, 0, 9, 10)));
        files.push((6, file(2, 15, 16, 10)));
        files.push((6, file(3, 20, 30, 10)));
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.level, plan.output_level, plan.kind), (0, 6, PlanKind::Merge));
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
        assert!(plan.kind == PlanKind::Move && plan.output_inputs.is_empty());
    }

    /// While a compaction was emptying a level above the base, level 0 was once compacted past that
    /// level, so newer entries came below older ones. Now level 0 waits, or is compacted into that
    /// level.
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
        let (levels, free) = (Levels::default(), busy(&[]));
        let empty = Planner::new(&levels, &SHAPE, &free);
        assert_eq!([0, 2, 6].map(|level| empty.next_level(level)), [6, 6, 7]);
    }

    #[test]
    fn a_level_above_the_base_is_emptied_first() {
        let files = [(2, file(1, 0, 9, 5)), (6, file(2, 0, 9, 50))];
        let plan = pick_from(&files, &[]).unwrap();
        assert_eq!((plan.level, plan.output_level), (2, 6));
    }
}
