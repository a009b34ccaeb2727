//! Validation: has a write changed what a transaction has read?
//!
//! ```text
//!   memtables and tables with an entry newer than `since`
//!     a key     the newest entry of it, or range deletion over it, in each of them
//!               (a table answers by its filter)
//!     a range   the entries of the range in each of them, and their range deletions
//! ```
//!
//! **A write is newer** if its sequence number is larger than `since`. Flushes and compactions
//! change no sequence number, so they never look like writes.
//!
//! **What leaves no trace is harmless.** A compaction drops a tombstone only if nothing remains that
//! it hides. The snapshot of the transaction lives until validation ends, so a key that the snapshot
//! sees keeps its entry, and the tombstone over it. Only a key that was absent may have been put and
//! deleted since without a trace, and it is absent again.

use std::sync::Arc;

use super::reads::{ReadRange, ReadSet};
use crate::cursor::Cursor;
use crate::db::read_state::ReadPoint;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::{Conflict, Result};
use crate::lookup::newest_in_tables;
use crate::memtable::Memtable;
use crate::range_tombstones::RangeTombstone;
use crate::sync::pin;
use crate::table::{ScanOptions, TableCursor};

/// The first read that a write newer than `since` has changed, as the tables and memtables of
/// `point` show it. A write that is newer than `point` may be seen too.
pub(super) fn find_changed(
    reads: &ReadSet,
    point: &ReadPoint,
    since: SequenceNumber,
) -> Result<Option<Conflict>> {
    if let Some(key) = find_changed_key(reads, point, since)? {
        return Ok(Some(Conflict::Key(key.to_vec())));
    }
    for range in reads.ranges() {
        if is_range_changed(range, point, since)? {
            let ReadRange { start, end } = range.clone();
            return Ok(Some(Conflict::Range { start, end }));
        }
    }
    Ok(None)
}

fn newer_memtables(
    point: &ReadPoint,
    since: SequenceNumber,
) -> impl Iterator<Item = &Arc<Memtable>> {
    let memtables = point.state.sources.memtables();
    memtables.filter(move |memtable| memtable.largest_sequence() > since)
}

fn find_changed_key<'r>(
    reads: &'r ReadSet,
    point: &ReadPoint,
    since: SequenceNumber,
) -> Result<Option<&'r [u8]>> {
    for memtable in newer_memtables(point, since) {
        let guard = pin();
        let is_changed = |key: &&[u8]| {
            let newest = memtable.get(key, MAX_SEQUENCE).map_or(0, |(sequence, ..)| sequence);
            newest.max(memtable.covering(key, MAX_SEQUENCE, &guard)) > since
        };
        if let Some(key) = reads.keys().find(is_changed) {
            return Ok(Some(key));
        }
    }
    let version = &point.state.sources.version;
    if version.files().all(|(_, file)| file.meta.largest_sequence <= since) {
        return Ok(None);
    }
    for key in reads.keys() {
        if newest_in_tables(version, key, since, &point.state.counters)? > since {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn is_range_changed(range: &ReadRange, point: &ReadPoint, since: SequenceNumber) -> Result<bool> {
    let overlaps_range = |it: RangeTombstone<'_>| {
        let is_before_end = range.end.as_ref().is_none_or(|end| it.start < &end[..]);
        it.sequence > since && it.end > &range.start[..] && is_before_end
    };
    for memtable in newer_memtables(point, since) {
        if memtable.ranges().iter().flat_map(|set| set.iter()).any(overlaps_range) {
            return Ok(true);
        }
    }
    for (_, file) in point.state.sources.version.files() {
        let is_newer = file.meta.largest_sequence > since;
        if is_newer && file.table.ranges().is_some_and(|ranges| ranges.iter().any(overlaps_range)) {
            return Ok(true);
        }
    }
    for memtable in newer_memtables(point, since) {
        if has_newer_entry(&mut memtable.cursor(), range, since)? {
            return Ok(true);
        }
    }
    let (lower, upper) = (Some(&range.start[..]), range.end.as_deref());
    for (_, file) in point.state.sources.version.files() {
        if file.meta.largest_sequence > since && file.overlaps(lower, upper) {
            let bounds = (lower.map(Arc::from), upper.map(Arc::from));
            let options = ScanOptions::for_runs(1, false, bounds);
            let mut cursor = TableCursor::new(Arc::clone(&file.table), options);
            if has_newer_entry(&mut cursor, range, since)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether an entry of the range is newer than `since`.
fn has_newer_entry(
    cursor: &mut impl Cursor,
    range: &ReadRange,
    since: SequenceNumber,
) -> Result<bool> {
    cursor.seek(&key::seek_key(&range.start, MAX_SEQUENCE))?;
    while cursor.valid() && !range.ends_before(user_key(cursor.key())) {
        if key::sequence(cursor.key()) > since {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}
