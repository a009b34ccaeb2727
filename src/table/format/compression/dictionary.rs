//! [`Dictionary`]: bytes that a codec treats as if they came before each data block of a table, so
//! that even the first bytes of a block can be a match.
//!
//! RocksDB stores the dictionary as a block of its own, which is not compressed, and compresses the
//! data blocks with it. Index blocks are compressed without it. One dictionary serves all of a
//! table's data blocks, so it stays in memory as long as the table is open.
//!
//! ```text
//! ZSTD         bytes that the trainer made (they begin with 0xec30a437), or samples of data blocks
//! LZ4, Zlib    the last 64 KiB (LZ4) or 32 KiB (Zlib) of the bytes: as far as a match reaches back
//! BZip2        has no dictionaries; RocksDB stores one all the same, and no block uses it
//! ```

use crate::error::Damage;
use crate::table::block::payload::BlockBytes;

/// The dictionary of a table.
pub(crate) struct Dictionary {
    bytes: BlockBytes,
    /// The dictionary in the form that ZSTD's decoder takes. `None` if no block of the table is
    /// compressed by ZSTD.
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::zstd_safe::DDict<'static>>,
}

impl Dictionary {
    /// `is_for_zstd`: whether blocks of the table may be compressed by ZSTD.
    ///
    /// # Errors
    /// If the bytes begin like a dictionary of ZSTD's trainer, but ZSTD rejects them as damaged.
    pub fn new(bytes: BlockBytes, is_for_zstd: bool) -> Result<Dictionary, Damage> {
        #[cfg(feature = "zstd")]
        let zstd = match is_for_zstd {
            true => {
                let parsed = zstd::zstd_safe::DDict::try_create(&bytes);
                let damage = || Damage::new(0, "a dictionary of ZSTD", "bytes that ZSTD rejects");
                Some(parsed.ok_or_else(damage)?)
            }
            false => None,
        };
        #[cfg(not(feature = "zstd"))]
        let _ = is_for_zstd;
        Ok(Dictionary {
            bytes,
            #[cfg(feature = "zstd")]
            zstd,
        })
    }

    /// The bytes as they are stored.
    #[cfg(any(feature = "lz4", feature = "zlib"))]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(feature = "zstd")]
    pub fn for_zstd(&self) -> Option<&zstd::zstd_safe::DDict<'static>> {
        self.zstd.as_ref()
    }

    /// Bytes of memory that the dictionary takes.
    pub fn heap_bytes(&self) -> usize {
        #[cfg(feature = "zstd")]
        let zstd = self.zstd.as_ref().map_or(0, zstd::zstd_safe::DDict::sizeof);
        #[cfg(not(feature = "zstd"))]
        let zstd = 0;
        self.bytes.heap_bytes() + zstd
    }
}
