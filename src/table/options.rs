//! How a new table is written, and what is known of it when it is finished.

use std::time::Duration;

use crate::encoding::key::SequenceNumber;
use crate::filter::FilterSpec;

use super::filter::info::FilterInfo;
use super::filter::prefix::FilterKeys;
use super::format::compression::Compression;
use super::garbage::Garbage;

/// How a table is written. RocksDB reads a table with any of these options.
///
/// ```
/// use maypole::table::TableOptions;
///
/// let options = TableOptions { block_bytes: 16 << 10, ..TableOptions::default() };
/// assert_eq!(options.restart_interval, 16);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TableOptions {
    /// The size at which a data block ends, in bytes before compression, its trailer included.
    /// Default 4096. A lookup reads a whole block, so larger blocks cost more to read, but they
    /// compress better. Without compression, choose a multiple of 4096, so that a block fills whole
    /// pages of the device.
    pub block_bytes: usize,
    /// The distance in entries from one restart point of a data block to the next. A restart point
    /// is an entry whose key is stored whole. Default 16. With a smaller number the table is
    /// larger, and a search of a block walks past fewer entries.
    pub restart_interval: usize,
    /// How blocks are compressed. Default: LZ4 if the crate has the feature `lz4`, otherwise none.
    pub compression: Compression,
    /// The family and the size of the filter. Default: a Bloom filter with 10 bits per key.
    pub filter: FilterSpec,
    /// What the filter holds. Default: whole keys.
    pub filter_keys: FilterKeys,
    /// Whether filter and index are whole or in parts. Default: [`MetadataForm::Auto`].
    pub metadata: MetadataForm,
}

/// Whether a table's filter and index are stored whole or in parts of about 4 KiB.
///
/// If a filter or index is whole and not in the block cache, a lookup may have to read all of it.
/// If it is in parts, the lookup reads only the part that it needs. So parts are for tables whose
/// filters and indexes do not all fit into the cache. If filter and index are in memory, a lookup
/// is some nanoseconds faster when they are whole. RocksDB reads both forms.
///
/// ```
/// use maypole::table::{MetadataForm, TableOptions};
///
/// let options = TableOptions { metadata: MetadataForm::Parts, ..TableOptions::default() };
/// assert_eq!(TableOptions::default().metadata, MetadataForm::Auto);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataForm {
    /// A database chooses the form. [`SstWriter`](crate::table::SstWriter) writes whole filters and
    /// indexes, because it does not know the cache.
    #[default]
    Auto,
    /// Filter and index are one block each.
    Whole,
    /// Filter and index are in parts, each of which is read separately. A filter or an index that
    /// would have one part is stored whole.
    Parts,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::default(),
            filter: FilterSpec::bloom(10.0).unwrap_or(FilterSpec::NONE),
            filter_keys: FilterKeys::Whole,
            metadata: MetadataForm::Auto,
        }
    }
}

/// What a table is written for. Its properties depend on this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// A table of a tree. It may hold several versions of a key, each with a sequence number.
    Database { file_number: u64 },
    /// A table for ingestion: one version of each key, all with sequence number 0. The ingestion
    /// assigns one sequence number to the whole file.
    External,
}

/// The figures of a finished table.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use maypole::table::{SstWriter, TableOptions};
///
/// let mut writer = SstWriter::create(dir.path().join("fruit.sst"), TableOptions::default())?;
/// writer.put(b"apple", b"red")?;
/// let summary = writer.finish()?;
/// assert_eq!((summary.entries, summary.data_blocks), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TableSummary {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The number of bytes at the end of the file that opening the table reads; 0 if they are too
    /// many to be read at once.
    pub(crate) tail_bytes: u64,
    /// Entries of all kinds, range deletions included.
    pub entries: u64,
    /// Entries that are tombstones, range deletions included.
    pub deletions: u64,
    /// Range deletions.
    pub range_deletions: u64,
    /// Counts of the entries that may become droppable later ([`Garbage`]).
    pub(crate) garbage: Garbage,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of all internal keys, before compression.
    pub raw_key_bytes: u64,
    /// Bytes of all values, before compression.
    pub raw_value_bytes: u64,
    /// The first internal key: user key and 8 bytes of sequence number and kind. It may be that of
    /// a range deletion. Empty if the table has neither entries nor range deletions.
    pub smallest: Vec<u8>,
    /// The last internal key. If a range deletion ends after the last entry, this field is the end
    /// of the range, with sequence number 2^56 - 1 and kind 15. The range excludes its end, so the
    /// table then holds no entry of that user key.
    pub largest: Vec<u8>,
    /// The smallest sequence number of an entry.
    pub smallest_sequence: SequenceNumber,
    /// The largest sequence number of an entry, or of an entry that a merge has dropped, if the
    /// merge left the table in level 0.
    pub largest_sequence: SequenceNumber,
    /// The filter, if the table has one.
    pub filter: Option<FilterInfo>,
    /// Whether the filter is of another family than requested, because the requested one could not
    /// be built from these keys, or failed its check (see `failed_filter_builds`).
    pub filter_fell_back: bool,
    /// The time it took to build the filter from the hashes of the keys, and to check it.
    pub filter_build_time: Duration,
    /// Filters, or parts of a filter, that were discarded because they missed a key: 0, unless the
    /// computer's memory is faulty. Each was replaced by a Bloom filter; if that failed too, the
    /// table has no filter.
    pub failed_filter_builds: u64,
}
