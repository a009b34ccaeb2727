//! Finds the tables of another engine's tree that a tree of Maypole's cannot hold as they are.
//!
//! ```text
//!   level 0   [a 1..9 f]      [m 2..4 p]       a..f and c..k overlap in keys and in sequence
//!                [c 5..20 k]                   numbers, so neither is newer: a group
//!   level 1   [a .. f@9] [f@5 .. k]            neighbours share a user key: a group
//! ```
//!
//! `[a 1..9 f]` is a table with keys from a to f and sequence numbers from 1 to 9; `f@9` is the
//! version of f with the sequence number 9.
//!
//! In a tree with such groups, a read-only database searches all tables of a level that may hold
//! the key ([`Version::mixed`]). An import merges each group into one table.
//!
//! Level 0 of a database with universal or FIFO compaction may hold so many tables that Maypole
//! would slow writers down. Then the tables that can move down without being rewritten do so
//! ([`move_down`]), and of the others as few bytes as possible are merged ([`join_neighbours`]).

use std::sync::Arc;

use crate::encoding::key;
use crate::version::{FileMeta, LEVELS, TableFile, Version};

/// An import leaves at most this number of tables in level 0. With one more, writers would be
/// delayed (`write/write_stall.rs`).
const MAX_IN_LEVEL_0: usize = 19;

/// Tables that an import merges into one, and what is known of that table before the merge.
#[derive(Debug)]
pub(super) struct Group {
    pub level: usize,
    /// Numbers of the tables.
    pub tables: Vec<u64>,
    /// Bounds, sequence numbers and bytes of all of them, and the largest file number.
    meta: FileMeta,
}

impl Group {
    fn of(level: usize, meta: &FileMeta) -> Group {
        Group { level, tables: vec![meta.number], meta: meta.clone() }
    }

    fn join(&mut self, other: Group) {
        self.tables.extend(other.tables);
        let (one, other) = (&mut self.meta, other.meta);
        if key::compare(&other.smallest, &one.smallest).is_lt() {
            one.smallest = other.smallest;
        }
        if key::compare(&other.largest, &one.largest).is_gt() {
            one.largest = other.largest;
        }
        one.smallest_sequence = one.smallest_sequence.min(other.smallest_sequence);
        one.largest_sequence = one.largest_sequence.max(other.largest_sequence);
        one.file_bytes = one.file_bytes.saturating_add(other.file_bytes);
        one.number = one.number.max(other.number);
    }

    /// Whether two groups must be joined. A group becomes one table with the key range and the
    /// sequence numbers of all its tables, so the whole groups are compared. A third table may
    /// overlap two tables of a group together, although it overlaps neither of them in both keys
    /// and sequence numbers.
    fn belongs_to(&self, other: &Group) -> bool {
        let (one, two) = (&self.meta, &other.meta);
        self.level == other.level
            && overlap(one, two)
            && (self.level > 0
                || one.smallest_sequence <= two.largest_sequence
                    && two.smallest_sequence <= one.largest_sequence)
    }
}

/// Whether the key ranges of two tables overlap.
fn overlap(one: &FileMeta, other: &FileMeta) -> bool {
    !one.starts_after(&other.largest) && !other.starts_after(&one.largest)
}

/// Whether a level has two tables that may hold the same key although neither of them is the newer
/// one.
///
/// In level 0, two tables are such a pair if they overlap in keys and in sequence numbers. They are
/// no such pair if their epoch numbers confirm the order of their largest sequence numbers: the
/// MANIFEST's epoch numbers are larger for newer tables, and Maypole searches level 0 in the order
/// of the largest sequence numbers. In deeper levels, two neighbours are such a pair if they share
/// a user key. The smallest sequence number that counts is the one that the table states, if it
/// states one, because a MANIFEST may list another one.
pub(super) fn is_mixed(version: &Version, epoch_of: impl Fn(u64) -> u64) -> bool {
    let [level_0, deeper @ ..] = &version.levels;
    let undecided = |newer: &FileMeta, older: &FileMeta| {
        let epochs = (epoch_of(older.number), epoch_of(newer.number));
        let is_decided = 0 < epochs.0 && epochs.0 < epochs.1;
        !is_decided && newer.smallest_sequence <= older.largest_sequence && overlap(newer, older)
    };
    let is_older = |newer: &FileMeta, older: &[Arc<TableFile>]| {
        older.iter().any(|older| undecided(newer, &older.meta))
    };
    let mut newest_first = level_0.iter().enumerate();
    let shares = |pair: &[Arc<TableFile>]| !pair[1].meta.starts_after(&pair[0].meta.largest);
    newest_first.any(|(i, newer)| is_older(&newer.meta, &level_0[i + 1..]))
        || deeper.iter().any(|files| files.windows(2).any(shares))
}

/// The groups of tables that an import takes over from a tree. Most groups have one table.
pub(super) fn groups(version: &Version) -> Vec<Group> {
    let single = version.files().map(|(level, file)| Group::of(level, &file.meta));
    let mut groups = match version.is_mixed() {
        true => joined(single),
        false => single.collect(),
    };
    move_down(&mut groups);
    join_neighbours(groups)
}

/// Joins groups that belong together, until there are no two such groups.
fn joined(single: impl Iterator<Item = Group>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for mut group in single {
        while let Some(i) = groups.iter().position(|other| group.belongs_to(other)) {
            group.join(groups.swap_remove(i));
        }
        groups.push(group);
    }
    groups
}

/// Positions of the groups of level 0, the oldest first.
fn level_0_oldest_first(groups: &[Group]) -> Vec<usize> {
    let mut level_0: Vec<usize> = (0..groups.len()).filter(|&i| groups[i].level == 0).collect();
    level_0.sort_by_key(|&i| groups[i].meta.place());
    level_0
}

/// If level 0 has too many groups, moves each of them, the oldest first, as deep as it can go
/// through levels in which no table overlaps it. A group stays in level 0 if it overlaps an older
/// group that stays there. So newer tables stay above the older tables that they overlap.
fn move_down(groups: &mut [Group]) {
    let level_0 = level_0_oldest_first(groups);
    if level_0.len() <= MAX_IN_LEVEL_0 {
        return;
    }
    let mut stay: Vec<usize> = Vec::new();
    for i in level_0 {
        let overlaps = |other: usize| overlap(&groups[i].meta, &groups[other].meta);
        let is_free = |level: usize| {
            let mut there = (0..groups.len()).filter(|&other| groups[other].level == level);
            !there.any(overlaps)
        };
        let deepest = match stay.iter().any(|&older| overlaps(older)) {
            true => 0,
            false => (1..LEVELS).take_while(|&level| is_free(level)).last().unwrap_or(0),
        };
        match deepest {
            0 => stay.push(i),
            level => groups[i].level = level,
        }
    }
}

/// If level 0 still has too many tables, joins a series of tables that follow each other in age
/// into one group, so that few enough are left. Of all such series it takes the one with the fewest
/// bytes.
fn join_neighbours(mut groups: Vec<Group>) -> Vec<Group> {
    let level_0 = level_0_oldest_first(&groups);
    let Some(surplus) = level_0.len().checked_sub(MAX_IN_LEVEL_0).filter(|&n| n > 0) else {
        return groups;
    };
    let meta = |i: usize| &groups[level_0[i]].meta;
    // Tables with the same largest sequence number, such as those of one ingestion, are ordered by
    // their file numbers. The merged table gets another file number, so it must take in all of
    // these tables or none.
    let is_edge = |i: usize| {
        i == 0 || i == level_0.len() || meta(i - 1).largest_sequence != meta(i).largest_sequence
    };
    let edges: Vec<usize> = (0..=level_0.len()).filter(|&i| is_edge(i)).collect();
    let window = |&start: &usize| {
        let end = edges.iter().find(|&&end| end > start + surplus)?;
        let bytes = (start..*end).fold(0u64, |sum, i| sum.saturating_add(meta(i).file_bytes));
        Some((bytes, start, *end))
    };
    let Some((_, start, end)) = edges.iter().filter_map(window).min() else { return groups };
    let mut chosen = level_0[start..end].to_vec();
    // The last positions come first, so that the others stay valid.
    chosen.sort_unstable_by(|a, b| b.cmp(a));
    let mut chosen =
        chosen.into_iter().map(|i| groups.swap_remove(i)).collect::<Vec<_>>().into_iter();
    if let Some(mut first) = chosen.next() {
        chosen.for_each(|other| first.join(other));
        groups.push(first);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::key::internal_key;

    fn table(level: usize, number: u64, first: &str, last: &str) -> Group {
        mixed_table(level, number, first, last, number..=number)
    }

    fn mixed_table(
        level: usize,
        number: u64,
        first: &str,
        last: &str,
        sequences: std::ops::RangeInclusive<u64>,
    ) -> Group {
        let meta = FileMeta {
            number,
            smallest: internal_key(first.as_bytes(), *sequences.end(), 1),
            largest: internal_key(last.as_bytes(), *sequences.start(), 1),
            smallest_sequence: *sequences.start(),
            largest_sequence: *sequences.end(),
            file_bytes: number,
            ..FileMeta::default()
        };
        Group::of(level, &meta)
    }

    /// The numbers of each group, with its level.
    fn sorted_groups(groups: &[Group]) -> Vec<(usize, Vec<u64>)> {
        let sorted = |group: &Group| {
            let mut tables = group.tables.clone();
            tables.sort_unstable();
            (group.level, tables)
        };
        let mut all: Vec<_> = groups.iter().map(sorted).collect();
        all.sort();
        all
    }

    #[test]
    fn a_full_level_0_moves_down_and_newer_tables_stay_above_older_ones() {
        // All tables overlap, so each level gets one, the oldest in the deepest level.
        let mut tables: Vec<_> = (1..=25).map(|n| table(0, n, "a", "z")).collect();
        move_down(&mut tables);
        let levels: Vec<_> = tables.iter().map(|group| group.level).collect();
        assert_eq!(levels[..8], [6, 5, 4, 3, 2, 1, 0, 0]);
        // No two tables overlap, so all move to the last level.
        let name = |n: u64| format!("{n:03}");
        let mut tables: Vec<_> = (1..=25).map(|n| table(0, n, &name(n), &name(n))).collect();
        move_down(&mut tables);
        assert!(tables.iter().all(|group| group.level == 6));
        // No table moves below a table of a deeper level that it overlaps, nor below an older table
        // that it overlaps and that stays in level 0.
        let mut tables: Vec<_> = (3..=25).map(|n| table(0, n, &name(n), &name(n))).collect();
        tables.push(table(1, 1, "003", "004"));
        tables.push(table(3, 2, "005", "006"));
        tables.push(table(0, 30, "004", "007"));
        tables.push(table(0, 31, "007", "007"));
        move_down(&mut tables);
        let level = |number| tables.iter().find(|it| it.meta.number == number).unwrap().level;
        assert_eq!([3, 4, 5, 6, 7, 30, 31].map(level), [0, 0, 2, 2, 6, 0, 0]);
        // A level 0 of 19 tables stays as it is.
        let mut tables: Vec<_> = (1..=19).map(|n| table(0, n, "a", "z")).collect();
        move_down(&mut tables);
        assert!(tables.iter().all(|group| group.level == 0));
    }

    #[test]
    fn what_is_not_ordered_is_joined_and_what_lies_between_too() {
        let tables = [
            mixed_table(0, 1, "a", "f", 1..=9),
            // This table overlaps the first only in keys, and the third only in sequence numbers.
            // It overlaps the two together in both.
            mixed_table(0, 2, "a", "b", 10..=12),
            mixed_table(0, 3, "e", "k", 5..=20),
            // Three tables that stay alone: one with other keys, a newer one, and an older one.
            mixed_table(0, 4, "m", "p", 5..=20),
            mixed_table(0, 5, "a", "z", 21..=30),
            mixed_table(0, 6, "a", "b", 0..=0),
            // Three neighbours that share the key "f", and a fourth table.
            mixed_table(1, 7, "a", "f", 0..=0),
            mixed_table(1, 8, "f", "f", 0..=0),
            mixed_table(1, 9, "f", "k", 0..=0),
            mixed_table(1, 10, "l", "m", 0..=0),
        ];
        let groups = sorted_groups(&joined(tables.into_iter()));
        let expected: [(usize, &[u64]); 6] =
            [(0, &[1, 2, 3]), (0, &[4]), (0, &[5]), (0, &[6]), (1, &[7, 8, 9]), (1, &[10])];
        assert_eq!(groups, expected.map(|(level, tables)| (level, tables.to_vec())));
    }

    #[test]
    fn the_fewest_bytes_are_joined_and_tables_of_one_flush_stay_together() {
        let level_0 = |n: u64| (1..=n).map(|n| table(0, n, "a", "z")).collect::<Vec<_>>();
        assert_eq!(join_neighbours(level_0(19)).len(), 19);
        let groups = join_neighbours(level_0(23));
        assert_eq!(groups.len(), 19);
        assert_eq!(sorted_groups(&groups)[0], (0, vec![1, 2, 3, 4, 5]));
        // The first six tables have the same largest sequence number.
        let mut flush = level_0(24);
        flush[..6].iter_mut().for_each(|group| group.meta.largest_sequence = 6);
        assert_eq!(sorted_groups(&join_neighbours(flush))[0], (0, vec![1, 2, 3, 4, 5, 6]));
        // All tables have the same largest sequence number.
        let mut one = level_0(30);
        one.iter_mut().for_each(|group| group.meta.largest_sequence = 40);
        assert_eq!(join_neighbours(one).len(), 1);
    }
}
