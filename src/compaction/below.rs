//! The tables that are older than the entries of a merge. If the merge dropped a tombstone, entries
//! of these tables could become visible again.
//!
//! ```text
//!   merge of              older
//!   a memtable            every table of the tree
//!   files of level 0,     the older files of level 0, and levels 1 to 6
//!     into level 0
//!   any files, into       levels n + 1 to 6
//!     level n
//! ```
//!
//! A compaction assumes that an older table holds a key if the key is in the table's range. A flush
//! also queries the table's filter, if the filter is in memory and holds whole keys. A negative
//! result excludes the table, because filters have no false negatives. A malformed filter returns
//! "maybe".

use std::sync::Arc;

use super::plan::Plan;
use crate::encoding::key::user_key;
use crate::sync::pin;
use crate::version::{LEVELS, TableFile, Version};

/// The tables that are older than the entries of a merge. Keys must be queried in ascending order.
pub(crate) struct Below<'a> {
    version: &'a Version,
    /// The older files of level 0, which may overlap each other.
    level_0: &'a [Arc<TableFile>],
    /// The files of each level from `first_level` on, and the index of the first file that may hold
    /// the next key.
    levels: Vec<(&'a [Arc<TableFile>], usize)>,
    first_level: usize,
    asks_filters: bool,
    /// Whether the older tables are unknown, so that any key may have an older entry.
    is_unknown: bool,
}

impl<'a> Below<'a> {
    /// The tables that are older than the outputs of `plan`.
    pub fn plan(version: &'a Version, plan: &Plan) -> Below<'a> {
        if plan.output_level > 0 {
            return Below::new(version, &[], plan.output_level + 1, false);
        }
        let level_0 = &version.levels[0];
        let is_input = |file: &Arc<TableFile>| plan.inputs.contains(&file.meta.number);
        let behind = level_0.iter().rposition(is_input).map_or(0, |last| last + 1);
        Below::new(version, &level_0[behind..], 1, false)
    }

    /// The tables that are older than a memtable that is about to be flushed. The filters of these
    /// tables are queried.
    pub fn memtable(version: &'a Version) -> Below<'a> {
        Below::new(version, &version.levels[0], 1, true)
    }

    /// For a merge whose older tables are not known, as in a repair or an import. Assumes that any
    /// key may have an older entry.
    pub fn unknown(version: &'a Version) -> Below<'a> {
        Below { is_unknown: true, ..Below::memtable(version) }
    }

    fn new(
        version: &'a Version,
        level_0: &'a [Arc<TableFile>],
        first_level: usize,
        asks_filters: bool,
    ) -> Below<'a> {
        let levels = (first_level..LEVELS).map(|level| (&version.levels[level][..], 0)).collect();
        Below { version, level_0, levels, first_level, asks_filters, is_unknown: false }
    }

    /// Whether an older table may hold an entry of the user key.
    pub fn may_hold(&mut self, key: &[u8]) -> bool {
        let asks_filters = self.asks_filters;
        let mut candidates = self.level_0.iter().filter(|file| file.overlaps(Some(key), Some(key)));
        let holds = |file: &Arc<TableFile>| !asks_filters || !denies(file, key);
        self.is_unknown
            || candidates.any(holds)
            || self.levels.iter_mut().any(|(files, next)| {
                // A file that ends with a range deletion does not hold the exclusive end of that
                // deletion, which may be the first key of the next file. So for that key the next
                // file is searched.
                while files.get(*next).is_some_and(|file| file.meta.ends_before(key)) {
                    *next += 1;
                }
                let file = files.get(*next);
                file.is_some_and(|file| user_key(&file.meta.smallest) <= key && holds(file))
            })
    }

    /// Whether the key range of an older table overlaps the user keys from `start` to before `end`,
    /// or the older tables are unknown.
    pub fn meets(&self, start: &[u8], end: &[u8]) -> bool {
        self.is_unknown || self.in_range(start, end).next().is_some()
    }

    /// The approximate bytes between `start` and `end` in those older tables that lie only partly
    /// in this range.
    pub fn bytes_cut(&self, start: &[u8], end: &[u8]) -> u64 {
        let files = self.in_range(start, end).filter(|file| is_cut(file, start, end));
        files.map(|file| bytes_between(file, start, end)).sum()
    }

    /// Whether an older table lies completely between `start` and `end`.
    pub fn has_table_within(&self, start: &[u8], end: &[u8]) -> bool {
        self.in_range(start, end).any(|file| !is_cut(file, start, end))
    }

    /// The approximate bytes between `start` and `end` in all older tables.
    pub fn bytes(&self, start: &[u8], end: &[u8]) -> u64 {
        self.in_range(start, end).map(|file| bytes_between(file, start, end)).sum()
    }

    fn in_range<'k>(
        &self,
        start: &'k [u8],
        end: &'k [u8],
    ) -> impl Iterator<Item = &'a Arc<TableFile>> + use<'a, 'k> {
        let version = self.version;
        let deeper = (self.first_level..LEVELS).flat_map(move |level| {
            &version.levels[level][version.overlapping_range(level, Some(start), Some(end))]
        });
        let level_0 = self.level_0.iter().filter(move |file| file.overlaps(Some(start), Some(end)));
        // `end` is exclusive, so a file that starts with `end` is outside.
        level_0.chain(deeper).filter(move |file| user_key(&file.meta.smallest) < end)
    }
}

/// Whether a file that overlaps the range from `start` to before `end` lies only partly in it.
fn is_cut(file: &TableFile, start: &[u8], end: &[u8]) -> bool {
    user_key(&file.meta.smallest) < start || !file.meta.ends_before(end)
}

/// The approximate bytes of the file between `start` and `end`. 0 if the index cannot be read,
/// because a later read of the table reports that error.
fn bytes_between(file: &TableFile, start: &[u8], end: &[u8]) -> u64 {
    file.bytes_between(Some(start), Some(end)).unwrap_or(0)
}

/// Whether the table's filter is in memory, holds whole keys, and says that the table has no entry
/// of the key.
fn denies(file: &TableFile, key: &[u8]) -> bool {
    file.table.resident_filter_denies(key, &pin())
}
