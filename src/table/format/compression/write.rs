//! [`Compressor`]: the codecs that are written. This file uses no other file of its folder, because
//! `benches/table.rs` includes this file without the others.

use crate::encoding::coding::put_varint;

/// How a block's payload is stored.
///
/// ```
/// use maypole::table::{Compression, TableOptions};
///
/// let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
/// assert!(options.compression.is_built_in());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not compressed.
    None = 0,
    /// Snappy (feature `snappy`).
    Snappy = 1,
    /// LZ4 blocks (feature `lz4`, on by default).
    Lz4 = 4,
    /// ZSTD at its default level 3 (feature `zstd`, which links the C library).
    Zstd = 7,
}

impl Default for Compression {
    /// LZ4 if it is built in.
    fn default() -> Compression {
        if Compression::Lz4.is_built_in() { Compression::Lz4 } else { Compression::None }
    }
}

impl Compression {
    /// All codecs.
    pub const ALL: [Compression; 4] =
        [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// Whether this build has the codec.
    pub fn is_built_in(self) -> bool {
        match self {
            Compression::None => true,
            Compression::Snappy => cfg!(feature = "snappy"),
            Compression::Lz4 => cfg!(feature = "lz4"),
            Compression::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The value of the property `rocksdb.compression`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "NoCompression",
            Compression::Snappy => "Snappy",
            Compression::Lz4 => "LZ4",
            Compression::Zstd => "ZSTD",
        }
    }

    /// The type byte of a block's trailer.
    pub(crate) fn to_byte(self) -> u8 {
        self as u8
    }
}

/// Compresses blocks. Keeps what the codec can reuse from one block to the next.
pub(crate) struct Compressor {
    compression: Compression,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// A compressor with this codec. If the build lacks the codec, the error names the feature that
    /// adds it.
    pub fn new(compression: Compression) -> Result<Compressor, String> {
        if !compression.is_built_in() {
            return Err(missing(compression.name()));
        }
        #[cfg(feature = "zstd")]
        let zstd = match compression {
            Compression::Zstd => Some(zstd::bulk::Compressor::new(3).map_err(|e| e.to_string())?),
            _ => None,
        };
        Ok(Compressor {
            compression,
            #[cfg(feature = "zstd")]
            zstd,
        })
    }

    /// Compresses `block` into `out`, and returns the codec. If the codec fails or saves less than
    /// an eighth, `out` is empty and the result is `Compression::None`: so small a gain is not
    /// worth the decompression at every read. The limit of an eighth is RocksDB's default
    /// (`max_compressed_bytes_per_kb` = 896).
    pub fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) -> Compression {
        out.clear();
        let compressed = self.append_compressed(block, out);
        if compressed.is_some() && out.len() <= block.len() / 8 * 7 {
            return self.compression;
        }
        out.clear();
        Compression::None
    }

    /// Appends the compressed form of `block` to `out`. `None`: the codec failed, or blocks are not
    /// to be compressed.
    fn append_compressed(&mut self, block: &[u8], out: &mut Vec<u8>) -> Option<()> {
        // Snappy writes the number of uncompressed bytes itself.
        if self.compression != Compression::Snappy {
            put_varint(out, block.len() as u64);
        }
        let start = out.len();
        let written: Option<usize> = match self.compression {
            #[cfg(feature = "snappy")]
            Compression::Snappy => {
                out.resize(start + snap::raw::max_compress_len(block.len()), 0);
                snap::raw::Encoder::new().compress(block, &mut out[start..]).ok()
            }
            #[cfg(feature = "lz4")]
            Compression::Lz4 => {
                out.resize(start + lz4_flex::block::get_maximum_output_size(block.len()), 0);
                lz4_flex::block::compress_into(block, &mut out[start..]).ok()
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                out.resize(start + zstd::zstd_safe::compress_bound(block.len()), 0);
                self.zstd.as_mut()?.compress_to_buffer(block, &mut out[start..]).ok()
            }
            _ => None,
        };
        out.truncate(start + written?);
        Some(())
    }
}

/// Text for an error: the name of a codec that this build lacks, and the feature that adds it.
pub(super) fn missing(name: &str) -> String {
    format!("{name} compression (build with feature `{}`)", name.to_lowercase())
}
