//! SSTables: sorted, immutable files in RocksDB's BlockBasedTable format, filter block included.
//!
//! ```text
//! format      handles, trailers, footer          checksum, compression   what guards and packs blocks
//! block       sorted entries, both ways          block_search            one key in a block
//! block_builder   writes them                    bytes                   a block's memory
//! sidecar     where in a cached block a key can be
//! index       which data block holds a key       filter_block            which filter a table holds
//! properties  what a table says of itself        file                    one pread a block, counted
//! range_del   the ranges a table deletes         limits                  what a file may ask of its reader
//!
//! reader      Table: its parts, loaded at need   open, verify            the first look, and all of it
//! lookup      point lookups, step by step
//! cursor      TableCursor: both ways             info                    the filter, as told
//! builder     TableBuilder, from sorted keys     options                 what to write, what was written
//! prefix      where a key's prefix ends          prefix_filter           asking a filter for prefixes
//! sst         SstWriter, SstReader: tables without a database
//! salvage     what can be read of a damaged one
//! ```
//!
//! Absent on purpose: levels, versions of a tree, what a kind of entry means. A lookup answers with
//! the newest entry at or before a sequence number, whatever its kind byte.

pub(crate) mod block;
mod builder;
mod cursor;
pub(crate) mod filter;
pub(crate) mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod index;
mod lookup;
mod open;
mod options;
mod range_del;
mod salvage;
mod sst;
#[allow(clippy::module_inception)] // The open table is what this folder is named after.
mod table;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use block::builder::MAX_ENTRY_BYTES;
pub(crate) use builder::TableBuilder;
pub(crate) use cursor::{ScanOptions, TableCursor};
pub(crate) use format::properties::names as property_names;
pub(crate) use lookup::key::LookupKey;
pub(crate) use lookup::{BlockPosition, Found};
pub(crate) use options::Dialect;
pub(crate) use salvage::{Hole, Salvage};
pub(crate) use table::{Table, TableContext};

pub use filter::info::FilterInfo;
pub use filter::prefix::{FilterKeys, PrefixExtractor};
pub use format::checksum::ChecksumKind;
pub use format::compression::Compression;
pub use format::footer::{BlockHandle, Footer};
pub use format::properties::{PropertyValue, TableProperties};
pub use options::{TableOptions, TableSummary};
pub use sst::{RangeDeletion, SstEntries, SstEntry, SstReader, SstWriter};
pub use verify::TableCheck;
