//! Tiny tables: a series of small neighbours becomes one table in the same level.
//!
//! Files that overlap nothing are moved down unchanged, so writes in key order would leave one
//! small file for every small flush. When nothing more urgent is due, a series of neighbours in one
//! level is merged if
//!
//! - each is smaller than a **sixteenth** of the target size of a table. The flush of a full
//!   memtable of the default size usually writes a larger table, so a fill in key order still
//!   writes everything once. If no table is so small, the tree has at most sixteen times as many
//!   tables as if all were full;
//! - there are at least **eight** of them, so that one rewrite saves at least seven files;
//! - the largest holds at most **half** of their bytes. Each rewrite then puts a byte into a table
//!   at least twice as large, so a byte that goes from a table of s bytes to one of S is rewritten
//!   at most log2(S/s) times. Without this rule a large neighbour would be rewritten for every
//!   seven new small files;
//! - together they make at most one table.
//!
//! The merges end ([`Gain`]), because each has one output, which replaces at least eight tables.

use super::plan::{Gain, Plan, Planner};
use crate::encoding::key::user_key;
use crate::version::FileMeta;

/// A table is small if it has fewer bytes than `table_bytes` divided by this.
const TINY_FRACTION: u64 = 16;

/// A series has at least this many small tables.
const TINY_SERIES: usize = 8;

impl Planner<'_> {
    /// A plan for the first series of small tables in the level. The series is as long as possible.
    pub(super) fn small_series(&self, level: usize) -> Option<Plan> {
        let (files, table_bytes) = (&self.levels[level], self.shape.table_bytes);
        let is_small = |file: &&&FileMeta| {
            let is_free = !self.is_busy(file) && !self.is_vain(file, Gain::Files);
            file.file_bytes < table_bytes / TINY_FRACTION && is_free
        };
        (0..files.len()).find_map(|start| {
            let (mut bytes, mut largest_bytes, mut run) = (0, 0, None);
            for (count, file) in (1..).zip(files[start..].iter().take_while(is_small)) {
                bytes += file.file_bytes;
                largest_bytes = file.file_bytes.max(largest_bytes);
                if bytes > table_bytes {
                    break;
                }
                if count >= TINY_SERIES && largest_bytes * 2 <= bytes {
                    let (smallest, largest) = (user_key(&files[start].smallest), &file.largest);
                    // The output of this series would be cut into small tables, or would overlap a
                    // damaged file. The same is true of every longer series.
                    if !self.is_narrow(level, smallest, largest)
                        || !self.damaged.fences(level, smallest, largest).is_empty()
                        || self.damaged.is_reached_over(level, smallest, largest)
                    {
                        break;
                    }
                    run = Some(start..start + count);
                }
            }
            let plan = self.plan_files(&files[run?], level, level)?;
            Some(Plan { gain: Gain::Files, ..plan })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::Conditions;
    use super::super::fixtures::{SHAPE, busy, file, levels};
    use super::super::plan::{PlanKind, Unavailable};
    use super::super::targets::TreeShape;
    use super::*;
    use crate::encoding::key::internal_key;

    /// `count` neighbours from the key `first` on, each with one key.
    fn neighbours(level: usize, first: u8, count: u8, file_bytes: u64) -> Vec<(usize, FileMeta)> {
        let files = (first..first + count).map(|i| (level, file(u64::from(i), i, i, file_bytes)));
        files.collect()
    }

    const TIDY: TreeShape = TreeShape { table_bytes: 1600, ..SHAPE };

    fn tidy_from(files: &[(usize, FileMeta)], unavailable: &Unavailable) -> Option<Plan> {
        Planner::new(&levels(files), &TIDY, unavailable).pick(&Conditions::default())
    }

    #[test]
    fn eight_tiny_neighbours_are_merged_in_their_place() {
        let free = Unavailable::default();
        let plan = tidy_from(&neighbours(6, 1, 8, 10), &free).unwrap();
        assert_eq!((plan.level, plan.output_level, plan.kind), (6, 6, PlanKind::Merge));
        assert_eq!(plan.inputs, (1..9).collect::<Vec<_>>());
        assert_eq!(tidy_from(&neighbours(6, 1, 7, 10), &free), None, "seven");
        assert_eq!(tidy_from(&neighbours(6, 1, 8, 100), &free), None, "not small");
        // As many as fit into one table.
        assert_eq!(tidy_from(&neighbours(6, 1, 200, 99), &free).unwrap().inputs.len(), 16);
        assert_eq!(tidy_from(&neighbours(6, 1, 200, 10), &free).unwrap().inputs.len(), 160);
    }

    #[test]
    fn tiny_tables_are_merged_only_with_neighbours_that_nothing_holds() {
        let mut files = neighbours(6, 1, 14, 10);
        assert_eq!(tidy_from(&files, &busy(&[7])), None, "a busy file was passed over");
        files.extend(neighbours(6, 15, 1, 10));
        // A running compaction is reading the busy file. The files after the busy file are merged
        // all the same, because no urgent compaction waits for that running compaction to end.
        assert_eq!(tidy_from(&files, &busy(&[7])).unwrap().inputs, (8..16).collect::<Vec<_>>());
        files[6].1.file_bytes = 500;
        let plan = tidy_from(&files, &Unavailable::default()).unwrap();
        assert_eq!(plan.inputs, (8..16).collect::<Vec<_>>(), "a large file was passed over");
    }

    #[test]
    fn a_merge_of_tiny_tables_at_least_doubles_each() {
        let mut files = neighbours(6, 1, 8, 10);
        files[0].1.file_bytes = 71;
        assert_eq!(tidy_from(&files, &Unavailable::default()), None);
        files[0].1.file_bytes = 70;
        assert_eq!(tidy_from(&files, &Unavailable::default()).unwrap().inputs.len(), 8);
        // The large neighbour is left out, and the other files are merged.
        files[0].1.file_bytes = 99;
        files.extend(neighbours(6, 9, 1, 10));
        assert_eq!(
            tidy_from(&files, &Unavailable::default()).unwrap().inputs,
            (2..10).collect::<Vec<_>>()
        );
    }

    /// The output of a merge would be cut where it overlaps too much of the next level, and its
    /// tables would be small again.
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

    /// A compaction of level 0 writes into the gap between two files of a level, and a merge joins
    /// these two files. The two plans share no file, but their outputs would overlap.
    #[test]
    fn a_merge_in_place_and_one_into_a_gap_exclude_each_other() {
        let small: Vec<_> =
            (0..8).map(|i| (6, file(i, 10 * i as u8, 10 * i as u8 + 1, 10))).collect();
        let gap: Vec<_> = (0..4).map(|i| (0, file(90 + i, 15, 16, 10))).collect();
        let all: Vec<_> = small.iter().chain(&gap).cloned().collect();
        let mut unavailable = Unavailable::default();
        let merge = tidy_from(&small, &unavailable).unwrap();
        unavailable.reserve(&merge);
        assert_eq!(tidy_from(&all, &unavailable), None, "level 0 went into the range of a merge");
        unavailable.release(&merge);
        assert!(unavailable.busy.is_empty() && unavailable.outputs.is_empty());
        let into_gap = tidy_from(&all, &unavailable).unwrap();
        assert_eq!((into_gap.level, into_gap.output_level), (0, 6));
        unavailable.reserve(&into_gap);
        unavailable.busy.clear();
        assert_eq!(
            tidy_from(&small, &unavailable),
            None,
            "a merge covers a gap that is written to"
        );
    }

    /// Simulates each plan by an output that is as large as all its inputs together.
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
        // The files have 15,000 bytes in all, and a table with 100 bytes or more is not small.
        assert!(files.len() < 15_000 / 100 + 20, "{}", files.len());
        // A byte goes from a table of 3 bytes to one of 100. It would be rewritten five times if
        // each rewrite only doubled the size of its table, but most rewrites do far more.
        assert!(rewritten <= 3 * written, "{rewritten} of {written}");
    }
}
