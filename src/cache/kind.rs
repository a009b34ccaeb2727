//! Cached values: their kinds ([`BlockKind`]), the usage of each kind ([`KindUsage`]), and which of
//! them are never evicted ([`PinMetadata`]).

/// The kind of a cached value. Data blocks are evicted before indexes and filters in use, unless
/// indexes and filters alone would fill the cache.
///
/// ```
/// use maypole::{BlockCache, BlockKind};
///
/// let cache = BlockCache::new(64 << 20);
/// assert_eq!(cache.usage_of(BlockKind::Filter).entries, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// A data block and its search structure.
    Data,
    /// A parsed index block.
    Index,
    /// A filter block.
    Filter,
}

/// The tables whose filters and indexes are never evicted after the first lookup has loaded them.
///
/// Pinned values are charged like others. If they alone fill the cache, the cache keeps nothing
/// else: data blocks and the filters and indexes of other tables are read again at every use. If
/// they take more than the capacity, they stay too, and the cache exceeds its capacity.
///
/// Whatever this option says, a filter or an index that is stored whole is pinned when it is loaded
/// while filters and indexes fill the cache, because to read it again would cost far more than a
/// data block. Compaction rewrites it in parts, which are evicted one by one
/// ([`Stats::pinned_metadata_bytes`](crate::Stats::pinned_metadata_bytes)).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::{Db, PinMetadata};
///
/// let db = Db::builder(dir.path()).pin_metadata(PinMetadata::Level0).open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinMetadata {
    /// No table. Filters and indexes are evicted after data: first those that were not used
    /// recently. This is the best choice if the cache is smaller than all filters and indexes.
    #[default]
    None,
    /// Tables that are in level 0 when they are written or opened. Nearly every lookup searches
    /// level 0. Lookups in these tables keep their latency while scans or cold tables fill the
    /// cache.
    Level0,
    /// All tables. Once the filters are loaded, a lookup of an absent key waits for the disk only
    /// at a false positive. Make the cache large enough for all filters and indexes, and for data.
    All,
}

/// The resident values of one kind: see [`BlockCache::usage_of`](crate::BlockCache::usage_of).
///
/// ```
/// use maypole::{BlockCache, BlockKind, KindUsage};
///
/// let cache = BlockCache::new(1 << 20);
/// assert_eq!(cache.usage_of(BlockKind::Data), KindUsage { entries: 0, bytes: 0 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindUsage {
    /// Resident values.
    pub entries: usize,
    /// Heap bytes charged for these values.
    pub bytes: usize,
}
