//! Flush: a frozen memtable becomes a table of level 0.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::memtable::Memtable;
use crate::range_tombstones::RangeTombstone;
use crate::version::{TableFile, TableStore};

/// Writes everything in `memtable`, old versions and range deletions included, to one table; `None`
/// where it is empty. The table is synced, its name is not.
pub(crate) fn flush(
    store: &TableStore,
    memtable: &Arc<Memtable>,
    filter: FilterSpec,
) -> Result<Option<Arc<TableFile>>> {
    if memtable.is_empty() {
        return Ok(None);
    }
    let mut table = store.create(filter, 0)?;
    let mut cursor = memtable.cursor();
    cursor.seek_to_first()?;
    while cursor.valid() {
        table.add(cursor.key(), cursor.value())?;
        cursor.next()?;
    }
    let sets = memtable.ranges();
    let mut ranges: Vec<RangeTombstone<'_>> = sets.iter().flat_map(|set| set.iter()).collect();
    ranges.sort_unstable_by(|a, b| a.start.cmp(b.start).then(b.sequence.cmp(&a.sequence)));
    ranges.into_iter().try_for_each(|range| table.add_range(range))?;
    table.finish().map(Some)
}
