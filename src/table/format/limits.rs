//! Limits of the memory and the time that a table may take. The file is input: a small file must
//! not take much of either.
//!
//! ```text
//! data block       what its codec can make of the stored bytes: see [`super::compression`]
//! other blocks     each at most `most_metadata_bytes`, uncompressed
//! names and keys   the names of metaindex and properties, the separators, the starts of range
//!                  deletions: each kind together at most `most_metadata_bytes`, counted with
//!                  shared prefixes written out
//! metaindex        the blocks that it lists are together no longer than the file
//! index            the blocks that an index part lists ascend and do not overlap, and so do the
//!                  parts of an index or filter. A data block begins with a key between its
//!                  separators. So a table has at most a fifth as many blocks as bytes, and a scan
//!                  reads no byte of the file twice
//! ```
//!
//! Without the limit on names and keys, a block of *b* bytes could take b² / 12 bytes of memory: it
//! could hold one key of b / 2 bytes, and b / 6 entries of three bytes that share all of that key.
//! Without the limit on the metaindex, a million names could lead to one block, which `verify`
//! would then read a million times. Without the limit on the index, a lookup could read one block a
//! million times too, or follow an index that leads to itself.
//!
//! Undamaged tables stay within the limits. An index of this crate stores its separators whole, so
//! they take no more memory than the uncompressed index. An index that would exceed the limit if it
//! were compressed is stored uncompressed ([`crate::table::builder`]). Then it is shorter than its
//! file, and so within the limit. In an index of RocksDB, separators share prefixes only within one
//! restart interval. By default this is one entry, so they share none.

use crate::error::Damage;

/// Metadata may take this many bytes of memory for each byte of the file, and
/// [`METADATA_FREE_BYTES`] in addition.
const METADATA_EXPANSION: u64 = 16;

/// See [`METADATA_EXPANSION`].
const METADATA_FREE_BYTES: u64 = 1 << 20;

/// The most bytes that one kind of metadata may take in memory, for a file of `file_bytes`.
pub(crate) fn most_metadata_bytes(file_bytes: u64) -> u64 {
    file_bytes.saturating_mul(METADATA_EXPANSION).saturating_add(METADATA_FREE_BYTES)
}

/// Counts the bytes of keys with their shared prefixes written out, and limits the sum.
pub(crate) struct KeyBytes {
    taken: u64,
    most: u64,
}

impl KeyBytes {
    /// A counter for a file of `file_bytes`.
    pub fn new(file_bytes: u64) -> KeyBytes {
        KeyBytes { taken: 0, most: most_metadata_bytes(file_bytes) }
    }

    /// Counts a key of `bytes` before it is kept. Returns damage if the keys take too much memory.
    pub fn take(&mut self, bytes: usize) -> Result<(), Damage> {
        self.taken = self.taken.saturating_add(bytes as u64);
        if self.taken > self.most {
            let expected = format_args!("at most {} bytes of keys", self.most).to_string();
            return Err(Damage::new(0, expected, self.taken));
        }
        Ok(())
    }
}
