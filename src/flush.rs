//! Flush: a frozen memtable becomes a table of level 0.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::filter::FilterSpec;
use crate::memtable::Memtable;
use crate::version::{TableFile, TableStore};

/// Writes all entries of `memtable`, every version of them, to one table; `None` when there are
/// none. The table is synced, its name is not.
pub(crate) fn flush(
    store: &TableStore,
    memtable: &Arc<Memtable>,
    filter: FilterSpec,
) -> Result<Option<Arc<TableFile>>> {
    let mut cursor = memtable.cursor();
    cursor.seek_to_first()?;
    if !cursor.valid() {
        return Ok(None);
    }
    let mut table = store.create(filter, 0)?;
    while cursor.valid() {
        table.add(cursor.key(), cursor.value())?;
        cursor.next()?;
    }
    table.finish().map(Some)
}
