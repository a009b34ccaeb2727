//! Warming up: loads the filters and indexes, which every lookup reads, before the first lookup.
//!
//! ```text
//!   level 0, newest first ─► level 1 ─► … ─► the deepest          filter and index of each table,
//!                                                                 each level of all keyspaces
//!   a table is left out if its filter and index would displace those of another
//! ```
//!
//! Shallow levels come first, because a lookup queries one table of each level. So the filters of a
//! shallow level serve as many lookups as those of the deepest level, and are much smaller.

use crate::cache::BlockKind;
use crate::db::background::jobs::read_in_this_thread;
use crate::db::inner::Inner;
use crate::error::Result;

/// What [`Db::warm_up`](crate::Db::warm_up) has brought into memory.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = maypole::Db::open(dir.path())?;
/// let report = db.warm_up()?;
/// if report.left_out > 0 {
///     println!("the block cache is too small for the filters of {} tables", report.left_out);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmUpReport {
    /// Tables whose filter and index are in memory now.
    pub tables: usize,
    /// Bytes that this call has loaded, as the cache counts them. Bytes that were in the cache
    /// before do not count.
    pub loaded_bytes: u64,
    /// Tables for whose filter and index the cache has no room.
    pub left_out: usize,
}

/// A warm-up leaves 1/16 of the cache free. The cache still counts memory that was evicted but not
/// freed yet. Without the free share this memory could make the cache evict what was just loaded.
const FREE_SHARE: u64 = 16;

pub(in crate::db) fn warm_up(inner: &Inner) -> Result<WarmUpReport> {
    let _working = read_in_this_thread(inner)?;
    let trees = inner.database.trees.all();
    let read_states: Vec<_> = trees.iter().map(|tree| tree.reading.current()).collect();
    let mut files: Vec<_> = read_states.iter().flat_map(|it| it.sources.version.files()).collect();
    files.sort_by_key(|&(level, _)| level);
    let cache = &inner.database.store.context.cache;
    let capacity_bytes = cache.capacity() as u64;
    let most_bytes = capacity_bytes - capacity_bytes / FREE_SHARE;
    let mut report = WarmUpReport::default();
    for (_, file) in files {
        // Checked for each table, so that closing the database waits for one table at most.
        inner.database.status.check_open()?;
        // Loading evicts data blocks before metadata, so data blocks do not count as taken.
        let taken_bytes =
            cache.usage().saturating_sub(cache.usage_of(BlockKind::Data).bytes) as u64;
        let needed_bytes = file.table.missing_metadata_bytes();
        if taken_bytes.saturating_add(needed_bytes) > most_bytes && needed_bytes > 0 {
            report.left_out += 1;
            continue;
        }
        match file.table.load_metadata()? {
            Some(bytes) => {
                report.tables += 1;
                report.loaded_bytes += bytes;
            }
            None => report.left_out += 1,
        }
    }
    Ok(report)
}
