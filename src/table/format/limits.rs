//! What a table may ask of its reader. The file is input: a small one must not take much memory or
//! time, whoever made it.
//!
//! ```text
//! data block       what its codec can make of the stored bytes: see [`super::compression`]
//! other blocks     uncompressed, each at most `most_metadata_bytes`
//! names and keys   of metaindex, properties, separators, begins of deleted ranges: put together
//!                  from prefixes that entries share, at most as much, each kind for itself
//! metaindex        its blocks together are no longer than the file
//! index            its blocks ascend and do not overlap, in both levels and in a partitioned
//!                  filter: a table has at most a fifth as many blocks as bytes, and a scan reads
//!                  no byte of the file twice
//! ```
//!
//! Without the third line a block of *b* bytes claims b² / 12: one long key, and entries of three
//! bytes that share all of it. Without the last one an index of an index that leads to itself, or
//! to one block a million times, is read a million times; without the one before it, `verify` is.
//!
//! Honest tables stay within. Those written here have whole separators in an uncompressed index, or
//! a compressed one that [`crate::table::builder`] has held to this limit. RocksDB's share prefixes among
//! the entries of one restart interval only, which is 1 in an index unless it is configured.

use crate::error::Damage;

/// How much more memory than file metadata may take.
const METADATA_EXPANSION: u64 = 16;

/// What any table's metadata may take.
const METADATA_FREE_BYTES: u64 = 1 << 20;

/// Bytes that one kind of metadata may take in memory, for a file of `file_bytes`.
pub(crate) fn most_metadata_bytes(file_bytes: u64) -> u64 {
    file_bytes.saturating_mul(METADATA_EXPANSION).saturating_add(METADATA_FREE_BYTES)
}

/// Counts the bytes of keys as they are put together.
pub(crate) struct KeyBytes {
    taken: u64,
    most: u64,
}

impl KeyBytes {
    /// For a file of `file_bytes`.
    pub fn new(file_bytes: u64) -> KeyBytes {
        KeyBytes { taken: 0, most: most_metadata_bytes(file_bytes) }
    }

    /// Before a key of `bytes` is kept.
    pub fn take(&mut self, bytes: usize) -> Result<(), Damage> {
        self.taken = self.taken.saturating_add(bytes as u64);
        if self.taken > self.most {
            let expected = format_args!("at most {} bytes of keys", self.most).to_string();
            return Err(Damage::new(0, expected, self.taken));
        }
        Ok(())
    }
}
