//! The first stage of a lookup: the memtables.

use std::path::Path;

use crate::encoding::key::EntryKind;
use crate::error::Result;
use crate::stats::Ticker;
use crate::table::{LookupKey, unsupported_entry};

use super::stage::{Scope, Sources};

/// Searches the memtables. Returns `None` if no memtable has an entry of the key or a range
/// deletion that covers it, and `Some(None)` if the key is deleted.
#[inline(never)]
pub(crate) fn find_in_memtables<'g>(
    sources: &'g Sources,
    key: &LookupKey<'_>,
    scope: &Scope<'_>,
) -> Result<Option<Option<&'g [u8]>>> {
    for memtable in sources.memtables() {
        let deleted_at = memtable.covering(key.user_key, key.sequence, scope.guard);
        let newest = memtable.get(key.user_key, key.sequence);
        scope.observer.tell(|it| it.memtable_searched(memtable, newest, deleted_at));
        if let Some((sequence, kind, value)) = newest {
            scope.tickers.add(Ticker::MemtableHit, 1);
            let is_value = kind == EntryKind::Value as u8;
            // In a memtable, entries of kinds that this build does not know come only from a log of
            // RocksDB.
            if !is_value && EntryKind::of_point(kind).is_none() && sequence >= deleted_at {
                return Err(unsupported_entry(Path::new("the log"), key.user_key, kind));
            }
            return Ok(Some((is_value && sequence >= deleted_at).then_some(value)));
        }
        if deleted_at > 0 {
            scope.tickers.add(Ticker::MemtableHit, 1);
            return Ok(Some(None));
        }
    }
    Ok(None)
}
