//! [`Compressor`]: the codecs that are written. This file uses no other file of its folder, because
//! `benches/table.rs` compiles it too.

#[cfg(any(feature = "lz4", feature = "zstd"))]
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
    /// As it is.
    None,
    /// Snappy (feature `snappy`).
    Snappy,
    /// LZ4 blocks (feature `lz4`, on by default).
    Lz4,
    /// ZSTD at its default level 3 (feature `zstd`; binds the C library).
    Zstd,
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
        match self {
            Compression::None => 0,
            Compression::Snappy => 1,
            Compression::Lz4 => 4,
            Compression::Zstd => 7,
        }
    }
}

/// Compresses blocks, keeping what a codec can reuse between them.
pub(crate) struct Compressor {
    compression: Compression,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// `Err` names the missing feature.
    pub fn new(compression: Compression) -> Result<Compressor, String> {
        if !compression.is_built_in() {
            return Err(missing_codec(compression));
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

    /// Puts the compressed form of `block` into `out`, and returns its codec. If compression saves
    /// less than an eighth, `out` is empty and the result is `Compression::None`, because so small
    /// a gain is not worth the decompression at every read. The rule is RocksDB's default
    /// (`max_compressed_bytes_per_kb` = 896).
    pub fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) -> Compression {
        out.clear();
        let done = match self.compression {
            Compression::None => false,
            Compression::Snappy => compress_snappy(block, out),
            Compression::Lz4 => compress_lz4(block, out),
            Compression::Zstd => self.compress_zstd(block, out),
        };
        if done && out.len() <= block.len() / 8 * 7 {
            return self.compression;
        }
        out.clear();
        Compression::None
    }

    #[cfg(feature = "zstd")]
    fn compress_zstd(&mut self, block: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(zstd) = &mut self.zstd else { return false };
        put_varint(out, block.len() as u64);
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(block.len()), 0);
        match zstd.compress_to_buffer(block, &mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                true
            }
            Err(_) => false,
        }
    }

    #[cfg(not(feature = "zstd"))]
    fn compress_zstd(&mut self, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }
}

#[cfg(feature = "snappy")]
fn compress_snappy(block: &[u8], out: &mut Vec<u8>) -> bool {
    out.resize(snap::raw::max_compress_len(block.len()), 0);
    match snap::raw::Encoder::new().compress(block, out) {
        Ok(written) => {
            out.truncate(written);
            true
        }
        Err(_) => false,
    }
}

#[cfg(not(feature = "snappy"))]
fn compress_snappy(_: &[u8], _: &mut Vec<u8>) -> bool {
    false
}

#[cfg(feature = "lz4")]
fn compress_lz4(block: &[u8], out: &mut Vec<u8>) -> bool {
    put_varint(out, block.len() as u64);
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(block.len()), 0);
    match lz4_flex::block::compress_into(block, &mut out[start..]) {
        Ok(written) => {
            out.truncate(start + written);
            true
        }
        Err(_) => false,
    }
}

#[cfg(not(feature = "lz4"))]
fn compress_lz4(_: &[u8], _: &mut Vec<u8>) -> bool {
    false
}

pub(super) fn missing_codec(compression: Compression) -> String {
    missing(compression.name(), &compression.name().to_lowercase())
}

pub(super) fn missing(name: &str, feature: &str) -> String {
    format!("{name} compression (build with feature `{feature}`)")
}
