//! A [`Version`]: the tables of the tree at one moment, immutable once made.
//!
//! ```text
//!   L0  [newest] [..] [oldest]      ranges overlap: searched one by one, newest first
//!   L1  [a..f] [g..m] [n..z]        ranges are disjoint in user keys: one candidate a key
//!   …
//!   L6  [a..b] [c..d] …
//! ```
//!
//! Invariants: for one user key, every version in a shallower level is newer than every version in
//! a deeper one, and in level 0 every version in an earlier file is newer than in a later one. No
//! two files of a level from 1 on share a user key. So a lookup may stop at the first level that
//! knows the key, tombstones included. All of it holds for range deletions too: a file's range
//! includes those it holds, and they lie within it.
//!
//! Readers hold versions; a table that a newer version dropped is deleted when the last version
//! that lists it is gone ([`TableFile`]).

mod edit;
mod key_ranges;
mod level_cursor;
mod manifest;
pub(crate) mod names;
mod store;
mod table_file;

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

pub(crate) use edit::{FileMeta, LEVELS, VersionEdit};
pub(crate) use level_cursor::{COMPACTION_SCAN, LevelCursor};
pub(crate) use manifest::{Manifest, Recovered, read_current};
pub(crate) use store::{NewTable, TableStore};
pub(crate) use table_file::TableFile;

use crate::key::{self, SequenceNumber, user_key};
use crate::range_del::{Fragment, RangeTombstones, fragment_of_disjoint};
use key_ranges::{Bounds, KeyRanges};

/// One level's files, in the order they are searched.
pub(crate) type Level = Vec<Arc<TableFile>>;

/// The tables of the tree at one moment.
#[derive(Default)]
pub(crate) struct Version {
    pub levels: [Level; LEVELS],
    /// For each level that has files, in order.
    ranges: Vec<(usize, KeyRanges)>,
    /// Whether any of the files deletes a range of keys; nearly always none does.
    pub has_range_deletions: bool,
    /// Of each level, the range deletions of its files, in their order.
    range_deletions: [Vec<Arc<RangeTombstones>>; LEVELS],
}

fn bounds(file: &TableFile) -> Bounds<'_> {
    Bounds { smallest: user_key(&file.meta.smallest), largest: &file.meta.largest }
}

/// Files that share no user key: one of level 0, or all of a deeper level. Of a run at most one file
/// holds a key.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub level: usize,
    files: &'a Level,
    ranges: &'a KeyRanges,
    /// Which file, in level 0.
    l0_file: usize,
}

impl<'a> Run<'a> {
    /// The file that may hold `key`.
    #[inline(always)]
    pub fn file_of(&self, key: &[u8]) -> Option<&'a TableFile> {
        let head = self.ranges.head(key)?;
        let bounds = |i: usize| bounds(&self.files[i]);
        let i = match self.level {
            0 => self.ranges.holds(bounds, self.l0_file, head, key).then_some(self.l0_file),
            _ => self.ranges.only(bounds, head, key),
        };
        i.map(|i| &*self.files[i])
    }
}

impl Version {
    /// The version after `edit`. `opened` holds the tables that the edit adds.
    pub fn apply(&self, edit: &VersionEdit, opened: &HashMap<u64, Arc<TableFile>>) -> Version {
        let mut levels = self.levels.clone();
        for &(level, number) in &edit.removed {
            levels[level].retain(|file| file.meta.number != number);
        }
        for (level, meta) in &edit.added {
            let kept = self.levels.iter().flatten().find(|file| file.meta.number == meta.number);
            let file = opened.get(&meta.number).or(kept).expect("an added table was opened");
            levels[*level].push(Arc::clone(file));
        }
        // Newest first; numbers break the tie between empty sequence ranges.
        levels[0]
            .sort_by_key(|file| std::cmp::Reverse((file.meta.largest_sequence, file.meta.number)));
        for level in &mut levels[1..] {
            level.sort_by(|a, b| key::compare(&a.meta.smallest, &b.meta.smallest));
        }
        let ranges_of = |files: &Level| {
            let bounds: Vec<_> = files.iter().map(|file| bounds(file)).collect();
            KeyRanges::of(&bounds)
        };
        let ranges = levels.iter().enumerate().filter(|(_, files)| !files.is_empty());
        let ranges = ranges.map(|(level, files)| (level, ranges_of(files))).collect();
        let range_deletions = levels.each_ref().map(|files| {
            files.iter().filter_map(|file| file.table.ranges().cloned()).collect::<Vec<_>>()
        });
        let has_range_deletions = range_deletions.iter().any(|level| !level.is_empty());
        Version { levels, ranges, has_range_deletions, range_deletions }
    }

    /// Which keys around `user_key` the tables answer alike for, and the newest range deletion there
    /// that `snapshot` sees: each file of level 0 for itself, every other level for all its files.
    pub fn range_fragments<'a>(
        &'a self,
        user_key: &[u8],
        snapshot: SequenceNumber,
    ) -> impl Iterator<Item = Fragment<'a>> {
        let [level_0, deeper @ ..] = &self.range_deletions;
        let each = level_0.iter().map(move |set| set.fragment_at(user_key, snapshot));
        each.chain(deeper.iter().map(move |sets| fragment_of_disjoint(sets, user_key, snapshot)))
    }

    /// What each level holds, for the pure functions that plan.
    pub fn metas(&self) -> [Vec<&FileMeta>; LEVELS] {
        std::array::from_fn(|level| self.levels[level].iter().map(|file| &file.meta).collect())
    }

    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
    }

    /// Every run, newest first.
    #[inline]
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.ranges.iter().flat_map(|(level, ranges)| {
            let files = &self.levels[*level];
            let runs = if *level == 0 { files.len() } else { 1 };
            (0..runs).map(move |l0_file| Run { level: *level, files, ranges, l0_file })
        })
    }

    /// Whether several files may hold one key.
    #[inline]
    pub fn has_many_runs(&self) -> bool {
        self.ranges.len() > 1 || self.levels[0].len() > 1
    }

    /// Visits the files that may hold `key`, with their levels, newest first, until `visit` breaks:
    /// of level 0 those whose range holds it, then at most one a level.
    #[inline(always)]
    pub fn visit_candidates<'a, B>(
        &'a self,
        key: &[u8],
        mut visit: impl FnMut(usize, &'a TableFile) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (level, ranges) in &self.ranges {
            let Some(head) = ranges.head(key) else { continue };
            let files = &self.levels[*level];
            let bounds = |i: usize| bounds(&files[i]);
            let found = match level {
                0 => 0..files.len(),
                _ => ranges.only(bounds, head, key).map_or(0..0, |i| i..i + 1),
            };
            for i in found {
                if *level > 0 || ranges.holds(bounds, i, head, key) {
                    visit(*level, &files[i])?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The files of `level` whose user-key range meets `smallest ..= largest` (`None` = open).
    pub fn overlapping(
        &self,
        level: usize,
        smallest: Option<&[u8]>,
        largest: Option<&[u8]>,
    ) -> impl Iterator<Item = &Arc<TableFile>> {
        self.levels[level].iter().filter(move |file| file.overlaps(smallest, largest))
    }

    /// As [`Version::overlapping`], for a level from 1 on, whose files are in key order: which of
    /// them.
    pub fn overlapping_range(
        &self,
        level: usize,
        smallest: Option<&[u8]>,
        largest: Option<&[u8]>,
    ) -> Range<usize> {
        let files = &self.levels[level];
        let start =
            smallest.map_or(0, |key| files.partition_point(|file| file.meta.ends_before(key)));
        let end = largest.map_or(files.len(), |key| {
            files.partition_point(|file| user_key(&file.meta.smallest) <= key)
        });
        start..end.max(start)
    }
}
