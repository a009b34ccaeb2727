//! A [`Version`]: the tables of the tree at one moment, immutable once created.
//!
//! ```text
//!   L0  [newest] [..] [oldest]      ranges overlap: searched one by one, newest first
//!   L1  [a..f] [g..m] [n..z]        ranges are disjoint in user keys: one candidate per key
//!   …
//!   L6  [a..b] [c..d] …
//! ```
//!
//! Invariants, for each user key:
//!
//! - every entry in a level is newer than every entry in a deeper level;
//! - in level 0 every entry in a file is newer than every entry in a later file of the list;
//! - no two files of a level from 1 on share a user key.
//!
//! [`order`] says what keeps the first two, and checks them.
//!
//! So a lookup may search the tables from the newest on, and stop at the first one that has the key
//! or a tombstone of it. Range deletions are found in the same way, because the key range of a file
//! includes its range deletions.
//!
//! A tree that RocksDB or LevelDB wrote may break the last two invariants. Then the version is
//! *mixed* ([`Version::mixed`]): a lookup searches all tables of a level that may hold the key, and
//! the largest sequence number decides. Only databases that are opened read-only have such
//! versions.
//!
//! A reader holds the version that it reads. A table that the newest version does not list is
//! *obsolete*. Its file is deleted when the last version that lists it is dropped ([`TableFile`]).

pub(crate) mod edit;
mod key_ranges;
mod level_cursor;
mod manifest;
pub(crate) mod names;
pub(crate) mod order;
mod skipped;
mod store;
mod table_file;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use edit::{
    FileMeta, KeyspaceId, KeyspaceRecord, LEVELS, MAX_NAME_BYTES, TableContents, VersionEdit,
};
pub(crate) use level_cursor::LevelCursor;
pub(crate) use manifest::{
    Manifest, ROLL_AFTER_BYTES, Recovered, RecoveredKeyspace, current_manifest, read_current,
    read_manifest,
};
pub(crate) use skipped::Skipped;
pub(crate) use store::{ChooseFilter, Chosen, NewKeys, NewTable, TableStore, seconds_since_1970};
pub(crate) use table_file::{LeftTables, ObsoleteCounts, ObsoleteFiles, TableFile};

use crate::encoding::key;
use crate::encoding::key::{SequenceNumber, user_key};
use crate::range_tombstones::{Fragment, RangeTombstones, fragment_of_disjoint};
pub(crate) use key_ranges::Run;
use key_ranges::{FileBounds, HasFileBounds, KeyRanges};

/// One level's files: newest first in level 0, and in key order in the other levels.
pub(crate) type Level = Vec<Arc<TableFile>>;

/// The tables of the tree at one moment.
#[derive(Default)]
pub(crate) struct Version {
    pub levels: [Level; LEVELS],
    /// The same files in the form that lookups search.
    ranges: KeyRanges<Arc<TableFile>>,
    /// If the version is mixed, the files are here, and `ranges` is empty. So usual lookups, which
    /// search only `ranges`, need no code for mixed versions.
    mixed: Option<KeyRanges<Arc<TableFile>>>,
    /// Whether any file holds a range deletion. This is rare.
    pub has_range_deletions: bool,
    /// The range deletions of each level's files, in the order of the files.
    range_deletions: [Vec<Arc<RangeTombstones>>; LEVELS],
}

impl HasFileBounds for Arc<TableFile> {
    #[inline]
    fn bounds(&self) -> FileBounds<'_> {
        FileBounds { smallest: user_key(&self.meta.smallest), largest: &self.meta.largest }
    }
}

impl Version {
    /// The version after `edit`. `opened` holds the tables that the edit adds and this version does
    /// not list. (An edit may also move a table to another level.)
    pub fn apply(&self, edit: &VersionEdit, opened: &BTreeMap<u64, Arc<TableFile>>) -> Version {
        let mut levels = self.levels.clone();
        for &(level, number) in &edit.removed {
            levels[level].retain(|file| file.meta.number != number);
        }
        for (level, meta) in &edit.added {
            let kept = self.levels.iter().flatten().find(|file| file.meta.number == meta.number);
            let file = opened.get(&meta.number).or(kept).expect("an added table was opened");
            levels[*level].push(Arc::clone(file));
        }
        Version::of_levels(levels)
    }

    /// The version of these tables and their levels, in any order.
    pub fn of(tables: impl IntoIterator<Item = (usize, Arc<TableFile>)>) -> Version {
        let mut levels: [Level; LEVELS] = Default::default();
        tables.into_iter().for_each(|(level, file)| levels[level].push(file));
        Version::of_levels(levels)
    }

    fn of_levels(mut levels: [Level; LEVELS]) -> Version {
        levels[0].sort_by_key(|file| std::cmp::Reverse(file.meta.place()));
        for level in &mut levels[1..] {
            level.sort_by(|a, b| key::compare(&a.meta.smallest, &b.meta.smallest));
        }
        let [level_0, deeper @ ..] = &levels;
        let runs = level_0.iter().map(|file| (0, vec![Arc::clone(file)]));
        let deeper = (1..).zip(deeper).filter(|(_, files)| !files.is_empty());
        let runs = runs.chain(deeper.map(|(level, files)| (level, files.clone())));
        let ranges = KeyRanges::of(runs.collect());
        let range_deletions = levels.each_ref().map(|files| {
            files.iter().filter_map(|file| file.table.ranges().cloned()).collect::<Vec<_>>()
        });
        let has_range_deletions = range_deletions.iter().any(|level| !level.is_empty());
        Version { levels, ranges, mixed: None, has_range_deletions, range_deletions }
    }

    /// Turns the version into a mixed one. In such a tree several tables of a level may hold the
    /// same key, and the order of the tables does not tell which of them has the newest entry.
    pub fn mixed(mut self) -> Version {
        self.mixed = Some(std::mem::take(&mut self.ranges));
        // All range deletions move to level 0, because the search of a deeper level expects that at
        // most one file's range deletions cover a key.
        let sets = std::mem::take(&mut self.range_deletions).into_iter().flatten();
        self.range_deletions[0] = sets.collect();
        self
    }

    #[inline(always)]
    pub fn is_mixed(&self) -> bool {
        self.mixed.is_some()
    }

    /// The fragments around `user_key`: one for each file of level 0 that has range deletions, and
    /// one for each deeper level. (In a mixed version, level 0 has the range deletions of all
    /// files.) A fragment is a range of keys, with the newest range deletion that covers it and is
    /// visible at `sequence`.
    pub fn range_fragments<'a>(
        &'a self,
        user_key: &[u8],
        sequence: SequenceNumber,
    ) -> impl Iterator<Item = Fragment<'a>> {
        let [level_0, deeper @ ..] = &self.range_deletions;
        let each = level_0.iter().map(move |set| set.fragment_at(user_key, sequence));
        each.chain(deeper.iter().map(move |sets| fragment_of_disjoint(sets, user_key, sequence)))
    }

    /// The records of each level's files, without the open files: for functions that need only the
    /// shape of the tree, such as those that plan compactions or choose filters.
    pub fn metas(&self) -> [Vec<&FileMeta>; LEVELS] {
        std::array::from_fn(|level| self.levels[level].iter().map(|file| &file.meta).collect())
    }

    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
    }

    /// The head of `key` (see `key_ranges.rs`), which a lookup passes to the runs. `None` if no
    /// file can hold the key.
    #[inline(always)]
    pub fn head(&self, key: &[u8]) -> Option<u64> {
        self.ranges.head(key)
    }

    /// Every run, newest first: each file of level 0, then the deeper levels that have files. Empty
    /// if the version is mixed.
    #[inline(always)]
    pub fn runs(&self) -> &[Run<Arc<TableFile>>] {
        self.ranges.runs()
    }

    /// Like [`Version::runs`], but for any version, mixed or not. In a mixed version the order of
    /// the files of level 0 has no meaning, and several files of a deeper run may hold the same
    /// key: [`Version::candidates`] finds them.
    pub fn all_runs(&self) -> &[Run<Arc<TableFile>>] {
        self.mixed.as_ref().unwrap_or(&self.ranges).runs()
    }

    /// The positions in `run` of the files whose ranges hold the key.
    pub fn candidates(&self, run: &Run<Arc<TableFile>>, user_key: &[u8]) -> Range<usize> {
        let key = Some(user_key);
        match run.level {
            0 => 0..usize::from(run.file(0).overlaps(key, key)),
            level => self.overlapping_range(level, key, key),
        }
    }

    /// Two files of a level from 1 on that overlap, and the level, if there are any. A tree with
    /// such files is damaged, because a lookup could search the wrong one. In a mixed version the
    /// last user key of one file may also be the first of the next; this is not an overlap.
    pub fn overlap(&self) -> Option<(usize, &FileMeta, &FileMeta)> {
        let overlap = |one: &FileMeta, other: &FileMeta| match self.is_mixed() {
            true => key::compare(&one.largest, &other.smallest).is_ge(),
            false => !other.starts_after(&one.largest),
        };
        (1..LEVELS).find_map(|level| {
            let mut pairs = self.levels[level].windows(2);
            let pair = pairs.find(|pair| overlap(&pair[0].meta, &pair[1].meta))?;
            Some((level, &pair[0].meta, &pair[1].meta))
        })
    }

    /// The files of `level` that overlap the user keys `smallest ..= largest` (`None`: unbounded).
    pub fn overlapping(
        &self,
        level: usize,
        smallest: Option<&[u8]>,
        largest: Option<&[u8]>,
    ) -> impl Iterator<Item = &Arc<TableFile>> {
        self.levels[level].iter().filter(move |file| file.overlaps(smallest, largest))
    }

    /// The indexes of the files that [`Version::overlapping`] returns. `level` is 1 or more,
    /// because level 0 is not in key order.
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
