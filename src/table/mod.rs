//! SSTables: sorted, immutable files in RocksDB's BlockBasedTable format.

mod block;
mod bytes;
mod checksum;
mod compression;
mod format;
mod index;
mod properties;
