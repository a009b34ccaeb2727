//! Tables of another engine, merged into one of Maypole's.
//!
//! The merge drops what the compactions of a database drop: versions that a newer one hides, and
//! entries that a range deletion hides. It keeps deletions, because older tables, which it does not
//! examine, may hold what they delete. It also keeps every entry of an unknown kind. So of each key
//! the newest entry stays, or the range deletion that hides it. The largest sequence number of the
//! inputs therefore stays too. This number gives the merged table the right position in level 0.

use std::sync::Arc;

use crate::compaction::below::Below;
use crate::compaction::ranges::Ranges;
use crate::compaction::retain::{Retention, keep_survivors};
use crate::compaction::run::oldest_deletion;
use crate::cursor::Cursor;
use crate::cursor::merging::MergingCursor;
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::table::ScanOptions;
use crate::version::{LevelCursor, NewTable, TableFile, TableStore, Version};

/// Merges `files` into one new table of `store`. `None` where nothing is left.
pub(super) fn merge(
    files: &[&Arc<TableFile>],
    store: &TableStore,
    filter: FilterSpec,
    level: usize,
) -> Result<Option<Arc<TableFile>>> {
    let nothing = Version::default();
    let (mut below, below_ranges) = (Below::unknown(&nothing), Below::unknown(&nothing));
    let deleted = Ranges::new(files.iter().copied(), &[], &below_ranges);
    let options = ScanOptions::for_compaction(files.len(), (None, None));
    let source = |file: &&Arc<TableFile>| LevelCursor::new(vec![Arc::clone(file)], options.clone());
    let mut cursor = MergingCursor::new(files.iter().map(source).collect());
    let mut retention = Retention::new(Vec::new());
    let mut table = None;
    cursor.seek_to_first()?;
    let (create, all) = (|| store.create(&filter, level), |_: &[u8]| Ok(true));
    keep_survivors(&mut cursor, &deleted, &mut retention, &mut below, all, |key, value| {
        NewTable::in_slot(&mut table, create)?.add(key, value)
    })?;
    deleted.end_table(table, (None, None), oldest_deletion(files.iter().copied()), create)
}
