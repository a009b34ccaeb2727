//! SSTables: sorted, immutable files in RocksDB's BlockBasedTable format, filter block included.
//! [`SstWriter`] and [`SstReader`] write and read single tables.
//!
//! The files of the folder:
//!
//! ```text
//! table        Table: an open table, whose filter and index are loaded at their first use
//! open         what opening a table reads and rejects
//! source       the parts of a filter or index, of which each is loaded by itself
//! cursor/      TableCursor: walks a table both ways
//! builder/     TableBuilder: writes a table from sorted keys
//! options      the options of a new table, and the figures of a finished one
//! index/       which data block can hold a key
//! table_index  an index in the cache, with the slots of its data blocks
//! filter/      which filter a table has, and how it is queried
//! parts        indexes that are stored in parts
//! warm_up      loads filters and indexes before lookups need them
//! range_del    the ranges of keys that a table deletes
//! garbage      counts of the entries that may become droppable
//! verify       a check of the whole file
//! salvage/     what can still be read of a damaged table
//! sst/         the public API for single tables, without a database
//!
//! block/       blocks of sorted entries
//! format/      everything else in the file
//! ```
//!
//! Nothing in this folder depends on levels, or on the versions of a tree, which are sets of
//! tables.

pub(crate) mod block;
mod builder;
mod cursor;
pub(crate) mod filter;
pub(crate) mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod garbage;
pub(crate) mod index;
pub(crate) mod open;
mod options;
mod parts;
mod range_del;
mod salvage;
pub(crate) mod source;
mod sst;
#[allow(clippy::module_inception)] // The open table is what this folder is named after.
mod table;
pub(crate) mod table_index;
#[cfg(test)]
mod tests;
mod verify;
mod warm_up;

pub(crate) use crate::encoding::key::LookupKey;
pub(crate) use block::builder::MAX_ENTRY_BYTES;
pub(crate) use builder::TableBuilder;
pub(crate) use builder::refilter::Refilter;
pub(crate) use cursor::TableCursor;
pub(crate) use cursor::read_ahead::ScanOptions;
pub(crate) use format::properties::{
    BYTEWISE_COMPARATOR, UNKNOWN_COLUMN_FAMILY, is_bytewise, names as property_names,
    user_comparator,
};
pub(crate) use open::readable_properties;
pub(crate) use options::Dialect;
pub(crate) use salvage::{Hole, Salvage};
pub(crate) use table::{Table, TableContext};
pub(crate) use verify::{Survey, unsupported_entry};

pub use filter::info::FilterInfo;
pub use filter::prefix::{FilterKeys, PrefixExtractor};
pub use format::checksum::ChecksumKind;
pub use format::compression::Compression;
pub use format::footer::{BlockHandle, Footer};
pub use format::properties::{PropertyValue, TableProperties};
pub use options::{MetadataForm, TableOptions, TableSummary};
pub use sst::{RangeDeletion, SstEntries, SstEntry, SstReader, SstWriter};
pub use verify::TableCheck;
