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

use super::reads::ReadSet;
use crate::cursor::Cursor;
use crate::db::iter::bounds::Bounds;
use crate::db::read_state::ReadPoint;
use crate::encoding::key;
use crate::encoding::key::{MAX_SEQUENCE, SequenceNumber, user_key};
use crate::error::{Conflict, Result};
use crate::lookup::was_written_since;
use crate::memtable::Memtable;
use crate::range_tombstones::RangeTombstone;
use crate::sync::pin;
use crate::table::{ScanOptions, TableCursor};
use crate::version::TableFile;

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
            let start = range.lower().unwrap_or_default().to_vec();
            let end = range.upper().map(<[u8]>::to_vec);
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
        if was_written_since(version, key, since, &point.state.counters)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn is_range_changed(range: &Bounds, point: &ReadPoint, since: SequenceNumber) -> Result<bool> {
    let (lower, upper) = (range.lower(), range.upper());
    let deletes_some = |it: RangeTombstone<'_>| {
        let begins_before_end = upper.is_none_or(|upper| it.start < upper);
        let ends_behind_start = lower.is_none_or(|lower| it.end > lower);
        it.sequence > since && begins_before_end && ends_behind_start
    };
    for memtable in newer_memtables(point, since) {
        if memtable.ranges().iter().flat_map(|set| set.iter()).any(deletes_some)
            || has_newer_entry(&mut memtable.cursor(), range, since)?
        {
            return Ok(true);
        }
    }
    // The range of a file includes its range deletions.
    let files = point.state.sources.version.files().map(|(_, file)| file);
    let is_newer = |file: &&Arc<TableFile>| file.meta.largest_sequence > since;
    for file in files.filter(is_newer).filter(|file| file.overlaps(lower, upper)) {
        let options = ScanOptions::for_runs(1, false, (lower.map(Arc::from), upper.map(Arc::from)));
        let mut cursor = TableCursor::new(Arc::clone(&file.table), options);
        if file.table.ranges().is_some_and(|ranges| ranges.iter().any(deletes_some))
            || has_newer_entry(&mut cursor, range, since)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an entry of the range is newer than `since`.
fn has_newer_entry(
    cursor: &mut impl Cursor,
    range: &Bounds,
    since: SequenceNumber,
) -> Result<bool> {
    cursor.seek(&key::seek_key(range.lower().unwrap_or_default(), MAX_SEQUENCE))?;
    while cursor.valid() && !range.is_past(user_key(cursor.key())) {
        if key::sequence(cursor.key()) > since {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}
